# ZEP_EXPAT: reads NCCL's topology XML.
AC_DEFUN([ZEP_EXPAT], [
  AC_ARG_WITH([expat], [AS_HELP_STRING([--without-expat], [do not read NCCL topology XML])], [], [with_expat=check])
  have_expat=no
  AS_IF([test "x$with_expat" != xno], [
    PKG_CHECK_MODULES([EXPAT], [expat], [have_expat=yes], [
      AS_IF([test "x$with_expat" = xyes], [AC_MSG_ERROR([--with-expat was given, but expat was not found])])])])
  EXPAT_REQUIRES=
  AS_IF([test $have_expat = yes], [EXPAT_REQUIRES=' expat'])
  AC_SUBST([EXPAT_REQUIRES])
  AM_CONDITIONAL([HAVE_EXPAT], [test $have_expat = yes])
  AS_IF([test $have_expat = yes], [AC_DEFINE([HAVE_EXPAT], [1], [NCCL topology XML can be read])])
])
