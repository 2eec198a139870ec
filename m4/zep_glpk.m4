# ZEP_GLPK: GLPK, a solver of linear programs, for one unit test; without it that test is skipped. It comes without a .pc file.
AC_DEFUN([ZEP_GLPK], [
  have_glpk=no
  GLPK_LIBS=
  AC_CHECK_HEADER([glpk.h], [AC_CHECK_LIB([glpk], [glp_simplex], [have_glpk=yes; GLPK_LIBS=-lglpk], [], [-lm])])
  AS_IF([test $have_glpk = yes], [AC_DEFINE([HAVE_GLPK], [1], [GLPK is there, for tests])])
  AC_SUBST([GLPK_LIBS])
])
