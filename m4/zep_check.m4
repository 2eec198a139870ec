# ZEP_CHECK: the Check library for unit tests; without it `make check` runs the other tests and says so.
AC_DEFUN([ZEP_CHECK], [
  PKG_CHECK_MODULES([CHECK], [check >= 0.12], [have_check=yes], [have_check=no])
  AM_CONDITIONAL([HAVE_CHECK], [test $have_check = yes])
])
