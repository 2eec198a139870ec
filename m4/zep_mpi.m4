# ZEP_MPI: MPI's flags come from its wrapper, so that CC stays the plain compiler. Without MPI the runtime is not built.
AC_DEFUN([ZEP_MPI], [
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--without-mpi], [do not build the runtime (zeppelin-rank)])], [], [with_mpi=check])
  AC_ARG_VAR([MPICC], [the MPI compiler wrapper that is asked for flags])
  have_mpi=no
  AS_IF([test "x$with_mpi" != xno], [
    AC_CHECK_PROGS([MPICC], [mpicc])
    AS_IF([test -n "$MPICC"], [
      MPI_CFLAGS=`$MPICC --showme:compile 2>/dev/null || $MPICC -compile_info 2>/dev/null | $SED 's/^[[^ ]]* //'`
      MPI_LIBS=`$MPICC --showme:link 2>/dev/null || $MPICC -link_info 2>/dev/null | $SED 's/^[[^ ]]* //'`
      zep_save_CPPFLAGS=$CPPFLAGS; zep_save_LIBS=$LIBS
      CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"; LIBS="$MPI_LIBS $LIBS"
      AC_MSG_CHECKING([whether MPI links with the flags of $MPICC])
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[MPI_Init(0, 0);]])], [have_mpi=yes])
      AC_MSG_RESULT([$have_mpi])
      CPPFLAGS=$zep_save_CPPFLAGS; LIBS=$zep_save_LIBS
    ])
    AS_IF([test $have_mpi = no && test "x$with_mpi" = xyes], [AC_MSG_ERROR([--with-mpi was given, but no working mpicc was found])])
  ])
  AC_SUBST([MPI_CFLAGS])
  AC_SUBST([MPI_LIBS])
  AM_CONDITIONAL([HAVE_MPI], [test $have_mpi = yes])
])
