# ZEP_COMPILER: warnings, and the rule that plans are the same on every machine (no fused multiply-add, no -march).
# ZEP_CFLAGS is for every file, ZEP_DET_CFLAGS for common, topology and planner; instruction sets are per-file in kernels/cpu.
AC_DEFUN([ZEP_COMPILER], [
  ZEP_CFLAGS="-std=gnu11 -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter"
  ZEP_DET_CFLAGS="-ffp-contract=off"
  AC_SUBST([ZEP_CFLAGS])
  AC_SUBST([ZEP_DET_CFLAGS])
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])],
    [AS_IF([test "x$enableval" = xyes], [ZEP_CFLAGS="$ZEP_CFLAGS -Werror"])])
  zep_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -Werror"
  AC_MSG_CHECKING([whether the compiler can make AVX2 and AVX-512 code for single files])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <immintrin.h>]],
      [[__m512 a = _mm512_setzero_ps(); return (int)_mm512_reduce_add_ps(a);]])],
    [have_x86simd=yes], [have_x86simd=no])
  AC_MSG_RESULT([$have_x86simd])
  CFLAGS=$zep_save_CFLAGS
  AM_CONDITIONAL([HAVE_X86SIMD], [test $have_x86simd = yes])
  AS_IF([test $have_x86simd = yes], [AC_DEFINE([HAVE_X86SIMD], [1], [AVX2 and AVX-512 kernels are built])])
])
