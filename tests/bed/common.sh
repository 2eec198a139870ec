# shellcheck shell=bash
# What the beds share: root, the sealed namespaces, private folders in which the source and the build tree stay visible. Sourced by tests/bed/slurm and netns.

export ZEP_SRCDIR=${ZEP_SRCDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
export ZEP_BUILDDIR=${ZEP_BUILDDIR:-$ZEP_SRCDIR/build}
# what the bed makes its other users read, whoever called it
umask 022
bed_name=tests/bed/$(basename "$0")

# cannot REASON: what the machine lacks; a test turns it into a SKIP.
cannot()
{
    echo "$1" >&2
    exit 77
}

# bad_usage TEXT
bad_usage()
{
    echo "$bed_name: $1" >&2
    exit 2
}

# number OPTION VALUE MIN MAX
number()
{
    [[ $2 =~ ^[0-9]{1,3}$ ]] && [ "$((10#$2))" -ge "$3" ] && [ "$((10#$2))" -le "$4" ] || bad_usage "$1 '$2': expected a number from $3 to $4"
}

# bed_seal MAPPED ARGS...: runs this script again, as root and in namespaces of its own; does not return. MAPPED yes: where there is no root, a user mapped to root will do.
bed_seal()
{
    local mapped=$1 mapping=() pid told=
    shift
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            exec sudo -n --preserve-env=ZEP_SRCDIR,ZEP_BUILDDIR,ZEP_LONG "$0" "$@"
        fi
        [ -n "$mapped" ] && unshare --user --map-root-user true 2>/dev/null || cannot "this bed needs root or a sudo that does not ask"
        mapping=(--user --map-root-user)
    fi
    unshare "${mapping[@]}" --mount --pid --fork --ipc --net --uts --mount-proc true 2>/dev/null || cannot "namespaces cannot be made here"
    # unshare blocks TERM, and behind sudo nobody else may kill it: this shell stays and ends the bed when told to; when this shell is killed the kernel does it
    BED_INSIDE=yes setpriv --pdeathsig KILL unshare "${mapping[@]}" --mount --pid --fork --kill-child --ipc --net --uts --mount-proc "$0" "$@" <&0 &
    pid=$!
    trap 'told=yes; kill -KILL $pid 2>/dev/null' TERM INT HUP
    wait $pid
    local status=$?
    [ -z "$told" ] || status=143
    exit $status
}

# may_enter USER FOLDER
may_enter()
{
    setpriv --reuid="$1" --clear-groups test -x "$2"
}

# bed_show FROM FOLDER USER: moves the mount FROM to where FOLDER was, also when that now lies below an empty folder or below one that USER may not enter
bed_show()
{
    local part path='' parts
    IFS=/ read -ra parts <<<"${2#/}"
    for part in "${parts[@]}"; do
        path=$path/$part
        [ "$path" != "$2" ] && [ -d "$path" ] || break
        [ "$3" = 0 ] || may_enter "$3" "$path" || { mount -t tmpfs -o mode=0755 tmpfs "$path" && break; } || return 1
    done
    mkdir -p "$2" && mount --move "$1" "$2"
}

# bed_folders USER FOLDER...: makes FOLDERs and /dev/shm private; the source and the build tree stay where they are and USER can enter them
bed_folders()
{
    local user=$1 folder
    shift
    mount --make-rprivate / && mount -t tmpfs -o mode=1777 tmpfs /dev/shm || return 1
    mkdir /dev/shm/src /dev/shm/build && mount --rbind "$ZEP_SRCDIR" /dev/shm/src || return 1
    [ ! -d "$ZEP_BUILDDIR" ] || mount --rbind "$ZEP_BUILDDIR" /dev/shm/build || return 1
    for folder; do
        mount -t tmpfs -o mode=1777 tmpfs "$folder" || return 1
    done
    bed_show /dev/shm/src "$ZEP_SRCDIR" "$user" || return 1
    if [ -d "$ZEP_BUILDDIR" ]; then
        umount /dev/shm/build
    elif mountpoint -q /dev/shm/build; then
        bed_show /dev/shm/build "$ZEP_BUILDDIR" "$user" || return 1
    fi
    rmdir /dev/shm/src /dev/shm/build
}
