# ZEP_SLURM: libslurm is linked into the helper program zeppelin-detect-slurm only (its API ends the process when it dislikes
# something, and its soname changes with every release).
AC_DEFUN([ZEP_SLURM], [
  AC_ARG_WITH([slurm], [AS_HELP_STRING([--without-slurm], [do not build the Slurm detector])], [], [with_slurm=check])
  have_slurm=no
  AS_IF([test "x$with_slurm" != xno], [
    zep_save_LIBS=$LIBS
    AC_CHECK_HEADER([slurm/slurm.h], [
      AC_CHECK_LIB([slurm], [slurm_load_node], [have_slurm=yes; SLURM_LIBS=-lslurm])])
    LIBS=$zep_save_LIBS
    AS_IF([test $have_slurm = no && test "x$with_slurm" = xyes], [AC_MSG_ERROR([--with-slurm was given, but libslurm was not found])])
  ])
  AC_SUBST([SLURM_LIBS])
  AM_CONDITIONAL([HAVE_SLURM], [test $have_slurm = yes])
  AS_IF([test $have_slurm = yes], [AC_DEFINE([HAVE_SLURM], [1], [zeppelin-detect-slurm is built])])
])
