# ZEP_VERSION_SCRIPT: libzeppelin exports its own functions only, where the linker can be told.
AC_DEFUN([ZEP_VERSION_SCRIPT], [
  AC_MSG_CHECKING([whether the linker takes version scripts])
  zep_save_LDFLAGS=$LDFLAGS
  LDFLAGS="$LDFLAGS -shared -fPIC -Wl,--version-script=$srcdir/library/libzeppelin.map"
  AC_LINK_IFELSE([AC_LANG_SOURCE([[int zep_version_number(void); int zep_version_number(void) { return 1; }]])], [have_version_script=yes], [have_version_script=no])
  LDFLAGS=$zep_save_LDFLAGS
  AC_MSG_RESULT([$have_version_script])
  VERSION_SCRIPT_FLAGS=
  AS_IF([test $have_version_script = yes], [VERSION_SCRIPT_FLAGS='-Wl,--version-script=$(srcdir)/library/libzeppelin.map'])
  AC_SUBST([VERSION_SCRIPT_FLAGS])
])
