# TAP for shell scripts: source it, then plan or done_testing. Variables: $top (source tree), $build (build tree), $tmp (own folder, removed at the end),
# $zeppelin. After `run CMD...`: $status, $out, $err (files $tmp/out, $tmp/err).
# shellcheck shell=bash

top=${ZEP_SRCDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
build=${ZEP_BUILDDIR:-$top/build}
zeppelin=$build/zeppelin
tap_n=0
tap_bad=0
tap_root=${ZEP_TMP:-$build/tmp}
mkdir -p "$tap_root"
tmp=$(mktemp -d "$tap_root/$(basename "${0%.t}").XXXXXX") || exit 1
# others may look in: a test that reads the source tree as another user comes through here where the build tree lies inside
chmod 0755 "$tmp"
export XDG_STATE_HOME=$tmp/state XDG_CONFIG_HOME=$tmp/config ZEPPELIN_SITE=

tap_cleanup()
{
    [ -n "${ZEP_KEEP:-}" ] || rm -rf "$tmp"
}
trap tap_cleanup EXIT

plan()
{
    echo "1..$1"
}

skip_all()
{
    echo "1..0 # SKIP $*"
    exit 0
}

# ok STATUS NAME: STATUS 0 is good.
ok()
{
    tap_n=$((tap_n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_n - $2"
    else
        echo "not ok $tap_n - $2"
        tap_bad=$((tap_bad + 1))
    fi
    return 0
}

skip()
{
    tap_n=$((tap_n + 1))
    echo "ok $tap_n - $1 # SKIP $2"
}

diag()
{
    printf '%s\n' "$*" | sed 's/^/# /'
}

# is GOT WANT NAME
is()
{
    if [ "$1" = "$2" ]; then
        ok 0 "$3"
    else
        ok 1 "$3"
        diag "got:  $1"
        diag "want: $2"
    fi
}

# like TEXT PATTERN NAME: extended regular expression
like()
{
    if printf '%s\n' "$1" | grep -Eq -- "$2"; then
        ok 0 "$3"
    else
        ok 1 "$3"
        diag "got:  $1"
        diag "want: /$2/"
    fi
}

unlike()
{
    if printf '%s\n' "$1" | grep -Eq -- "$2"; then
        ok 1 "$3"
        diag "got:  $1"
    else
        ok 0 "$3"
    fi
}

run()
{
    status=0
    "$@" </dev/null >"$tmp/out" 2>"$tmp/err" || status=$?
    out=$(cat "$tmp/out")
    err=$(cat "$tmp/err")
}

done_testing()
{
    echo "1..$tap_n"
    [ "$tap_bad" -eq 0 ]
    exit
}

# Open MPI on this machine: many ranks on few cores, perhaps as root.
mpi_env()
{
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
}
