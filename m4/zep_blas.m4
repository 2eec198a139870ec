# ZEP_BLAS: matrix products of the CPU kernels: oneDNN, else a CBLAS (OpenBLAS), else plain C (slow, and said so).
AC_DEFUN([ZEP_BLAS], [
  AC_ARG_WITH([dnnl], [AS_HELP_STRING([--without-dnnl], [do not use oneDNN])], [], [with_dnnl=check])
  AC_ARG_WITH([openblas], [AS_HELP_STRING([--without-openblas], [do not use OpenBLAS])], [], [with_openblas=check])
  have_blas=none
  zep_save_LIBS=$LIBS
  AS_IF([test "x$with_dnnl" != xno], [
    AC_CHECK_HEADER([oneapi/dnnl/dnnl.h], [
      AC_CHECK_LIB([dnnl], [dnnl_sgemm], [have_blas=dnnl; BLAS_LIBS=-ldnnl])])])
  AS_IF([test $have_blas = none && test "x$with_openblas" != xno], [
    PKG_CHECK_MODULES([OPENBLAS], [openblas], [have_blas=openblas; BLAS_LIBS=$OPENBLAS_LIBS; BLAS_CFLAGS=$OPENBLAS_CFLAGS], [:])])
  LIBS=$zep_save_LIBS
  AS_CASE([$have_blas],
    [dnnl], [AC_DEFINE([HAVE_DNNL], [1], [matrix products by oneDNN])],
    [openblas], [AC_DEFINE([HAVE_OPENBLAS], [1], [matrix products by OpenBLAS])])
  AC_SUBST([BLAS_CFLAGS])
  AC_SUBST([BLAS_LIBS])
])
