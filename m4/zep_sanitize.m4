# ZEP_SANITIZE: --enable-sanitize builds with AddressSanitizer and UndefinedBehaviorSanitizer.
AC_DEFUN([ZEP_SANITIZE], [
  AC_ARG_ENABLE([sanitize], [AS_HELP_STRING([--enable-sanitize], [build with ASan and UBSan])],
    [], [enable_sanitize=no])
  AS_IF([test "x$enable_sanitize" = xyes], [
    ZEP_CFLAGS="$ZEP_CFLAGS -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
    LDFLAGS="$LDFLAGS -fsanitize=address,undefined"
  ])
])
