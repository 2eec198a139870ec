# ZEP_CURL: libcurl is linked into the helper programs zeppelin-detect-kube and zeppelin-kube only.
AC_DEFUN([ZEP_CURL], [
  AC_ARG_WITH([curl], [AS_HELP_STRING([--without-curl], [do not build the helpers that ask the Kubernetes API in pods])], [], [with_curl=check])
  have_curl=no
  AS_IF([test "x$with_curl" != xno], [
    PKG_CHECK_MODULES([CURL], [libcurl], [have_curl=yes], [
      AS_IF([test "x$with_curl" = xyes], [AC_MSG_ERROR([--with-curl was given, but libcurl was not found])])])])
  AM_CONDITIONAL([HAVE_CURL], [test $have_curl = yes])
  AS_IF([test $have_curl = yes], [AC_DEFINE([HAVE_CURL], [1], [zeppelin-detect-kube and zeppelin-kube are built])])
  AC_CHECK_LIB([dl], [dlopen], [DL_LIBS=-ldl], [DL_LIBS=])
  AC_SUBST([DL_LIBS])
])
