# ZEP_HWLOC: hwloc is linked into the helper program zeppelin-detect-local only.
AC_DEFUN([ZEP_HWLOC], [
  AC_ARG_WITH([hwloc], [AS_HELP_STRING([--without-hwloc], [do not build the local detector])], [], [with_hwloc=check])
  have_hwloc=no
  AS_IF([test "x$with_hwloc" != xno], [
    PKG_CHECK_MODULES([HWLOC], [hwloc >= 2.0], [have_hwloc=yes], [
      AS_IF([test "x$with_hwloc" = xyes], [AC_MSG_ERROR([--with-hwloc was given, but hwloc was not found])])])])
  AM_CONDITIONAL([HAVE_HWLOC], [test $have_hwloc = yes])
  AS_IF([test $have_hwloc = yes], [AC_DEFINE([HAVE_HWLOC], [1], [zeppelin-detect-local is built])])
])
