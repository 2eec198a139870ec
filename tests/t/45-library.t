#!/usr/bin/env bash
# Plans for other software: the exported folder, the installed library (header, symbols, pkg-config), a C program linked against it shared and static, and attention on four processes by NumPy and mpi4py.
# timeout: 300
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1

# --- the export ---
cluster=(--synthetic 'nodes:2 dev:2 nic:2' --capacity 2k --dist 'prolong64k:tokens=6k,seed=2,max=4k')
run "$zeppelin" plan "${cluster[@]}" --export ranks -o ranks
ok "$status" "plan --export ranks"
is "$out" "" "standard output is free"
like "$err" 'ranks: 6144 tokens for 4 ranks, by zeppelin, digest [0-9a-f]{16}' "it is said what was exported"
run "$zeppelin" plan "${cluster[@]}" --json
is "$out" "$(cat ranks/plan.json)" "its plan.json is the plan"
run "$zeppelin" plan ranks/plan.json --export ranks -o again
ok "$status" "an export of a plan that was written"
run diff -r ranks again
ok "$status" "is the same, byte for byte"
run "$zeppelin" plan "${cluster[@]}" --export ranks -o ranks
ok "$status" "the same export into its own folder"
run "$zeppelin" plan "${cluster[@]}" --method te-cp --export ranks -o ranks
is "$status" 4 "another one is refused"
like "$err" "'ranks': is there and holds something else" "with the reason"
mkdir empty
run "$zeppelin" plan "${cluster[@]}" --export ranks -o empty/
ok "$status" "an empty folder is taken"
is "$(ls -d -- *.tmp.* 2>/dev/null)" "" "nothing unfinished is left"
run "$zeppelin" plan "${cluster[@]}" --export ranks
is "$status" 2 "no folder: usage"
run "$zeppelin" plan "${cluster[@]}" --export files -o x
like "$err" "--export: 'files': expected ranks" "another kind is refused"
perl -0pe 's/"capacity_tok": \d+/"capacity_tok": 100/; s/,\n  "digest".*\n/\n/' ranks/plan.json >wrong.json
run "$zeppelin" plan wrong.json --export ranks -o wrong
is "$status" 2 "a plan that is wrong is not exported"
like "$err" 'the plan is wrong' "it is said"
[ ! -e wrong ]
ok $? "nothing is written of it"
# every array and member of the format is in its manual page, and the other way round
page=$(sed 's/\\-/-/g' "$top/man/zeppelin-ranks.5")
missing=
for f in export.json plan.json sequences.npy rank.json $(cd ranks/0000 && ls -- *.npy) $(grep -hoE '"[a-z_]+":' ranks/export.json ranks/0000/rank.json | sort -u | tr -d '":'); do
    grep -qwF -- "$f" <<<"$page" || missing="$missing $f"
done
is "$missing" "" "zeppelin-ranks(5) has every file and member"

# --- installed ---
root=$tmp/usr
make -C "$build" install DESTDIR="$tmp/stage" >make.out 2>&1
ok $? "make install DESTDIR="
prefix=$(sed -n 's/^prefix=//p' "$build/library/zeppelin.pc")
cp -r "$tmp/stage$prefix" "$root"
lib=$root/lib
export PKG_CONFIG_PATH=$lib/pkgconfig
pc=(pkg-config --define-variable=prefix="$root")
is "$("${pc[@]}" --modversion zeppelin)" "$("$zeppelin" --version | sed -n '1s/zeppelin //p')" "zeppelin.pc has the version"
is "$(sed -n 's/^#define ZEP_VERSION_TEXT "\(.*\)"/\1/p' "$root/include/zeppelin.h")" "$("${pc[@]}" --modversion zeppelin)" "so has zeppelin.h"
is "$(sed -n '/^#define ZEP_VERSION_M[AI]*[JN]*OR\|^#define ZEP_VERSION_PATCH/s/.* //p' "$root/include/zeppelin.h" | paste -sd.)" "$("${pc[@]}" --modversion zeppelin)" "and its numbers"
declared=$(grep -oE '\bzep_[a-z_]+\(' "$top/library/zeppelin.h" | tr -d '(' | sort -u | grep -v '^zep_free$'; echo zep_free)
is "$(nm -D --defined-only "$lib/libzeppelin.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)" "$(sort <<<"$declared")" "exactly the functions of zeppelin.h are exported"
is "$(sed -n 's/^        \(zep_[a-z_]*\);/\1/p' "$top/library/libzeppelin.map" | sort)" "$(sort <<<"$declared")" "the version script has them"
codes()
{
    sed -n 's/^ *\(ZEP_[A-Z]* = -*[0-9]*\),.*/\1/p' "$1"
}
is "$(codes "$root/include/zeppelin.h")" "$(codes "$top/common/error.h")" "status codes are those of the library"
run readelf -d "$lib/libzeppelin.so"
like "$out" 'SONAME.*libzeppelin\.so\.0\]' "it has a soname"
unlike "$out" 'NEEDED.*(mpi|hwloc|slurm|curl|cuda|nvidia|dnnl|blas)' "it needs no MPI, hwloc, Slurm or CUDA"
if command -v g++ >/dev/null; then
    echo '#include <zeppelin.h>
int main() { return zep_version_number() != ZEP_VERSION_NUMBER; }' >v.cc
    # shellcheck disable=SC2046 # flags are several words
    run g++ -Wall -Wextra -Werror -pedantic v.cc $("${pc[@]}" --cflags --libs zeppelin) -o v
    ok "$status" "a C++ program compiles with the header"
    run env LD_LIBRARY_PATH="$lib" ./v
    ok "$status" "the library is of the header's version"
else
    skip "C++" "no g++"
fi

# --- the example in C ---
example=$(find "$root" -name plan.c)
lengths=(60000 20000 8000 8000 4000 1000 500)
# shellcheck disable=SC2046 # flags are several words
run gcc -std=c11 -pedantic -Wall -Wextra -Werror "$example" $("${pc[@]}" --cflags --libs zeppelin) -o shared
ok "$status" "the example in C compiles by pkg-config"
[ "$status" -eq 0 ] || diag "$err"
run env LD_LIBRARY_PATH="$lib" ./shared preset:dgx-h100:2 24k c-ranks "${lengths[@]}"
ok "$status" "it runs"
like "$out" '101500 tokens in 7 sequences on 16 devices of 2 nodes, by zeppelin' "it planned"
like "$out" 'proved; a step takes [0-9]+ ms' "it proved and simulated"
is "$err" "" "the library prints nothing"
cp "$tmp/out" shared.out
printf '%s\n' "${lengths[@]}" >lengths
run "$zeppelin" plan --preset dgx-h100:2 --capacity 24k --model llama-7b --device h100 --lengths lengths --export ranks -o c-ranks
ok "$status" "the command exports the same bytes"
run env LD_LIBRARY_PATH="$lib" ./shared preset:dgx-h100:2 1k c-ranks "${lengths[@]}"
is "$status" 1 "too small a capacity is an error"
like "$err" 'plan: capacity 1024 tokens x 16 devices = 16384 is 85116 tokens short' "with the planner's text"
rm -rf c-ranks
if [ -e "$lib/libzeppelin.a" ] && [ -z "$(grep -o fsanitize "$build/config.log" | head -n 1)" ]; then
    # shellcheck disable=SC2046 # flags are several words
    run gcc "$example" $("${pc[@]}" --cflags zeppelin) "$lib/libzeppelin.a" $("${pc[@]}" --static --libs-only-l zeppelin | sed 's/-lzeppelin//') -o static
    ok "$status" "it links statically"
    [ "$status" -eq 0 ] || diag "$err"
    run ./static preset:dgx-h100:2 24k c-ranks "${lengths[@]}"
    is "$out" "$(cat shared.out)" "and says the same"
else
    skip "static" "no static library in this build"
fi

# --- what README.md shows ---
# shellcheck disable=SC2016 # a literal $
sed -n '/^## For other trainers/,/^## /p' "$top/README.md" | grep '^    \$ ' | sed 's/^    \$ //' >commands
[ -s commands ]
ok $? "the README has commands for other trainers"
mkdir readme
cp "$example" readme/plan.c
cp "$(find "$root" -name ring_attention.py)" readme/
python=
for p in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$p" -c 'import numpy, mpi4py.MPI' 2>/dev/null || python=$p
done
mpi_env
mkdir bin
printf '#!/bin/sh\nexec %s --define-variable=prefix=%s "$@"\n' "$(command -v pkg-config)" "$root" >bin/pkg-config
chmod 755 bin/pkg-config
[ -z "$python" ] || ln -s "$(command -v "$python")" bin/python3
why=
[ -n "$python" ] || why="no Python with numpy and mpi4py (python3-numpy, python3-mpi4py)"
command -v mpirun >/dev/null || why="no mpirun"
blur='s/[0-9.]+e-[0-9]+/N/g' # rounding
while read -r command; do
    case $command in
    *mpirun*) [ -z "$why" ] || { skip "README: $command" "$why"; continue; } ;;
    esac
    (cd readme && PATH=$tmp/bin:$build:$PATH LD_LIBRARY_PATH=$lib timeout 100 bash -c "$command") >shown 2>&1 </dev/null
    ok $? "README: $command"
    awk -v c="    \$ $command" '$0 == c { on = 1; next } !/^    / || /^    \$/ { on = 0 } on' "$top/README.md" | sed 's/^    //' | grep -v '^\.\.\.$' >want
    missing=
    while IFS= read -r line; do
        grep -qF -- "$(sed -E "$blur" <<<"$line")" <(sed -E "$blur" shown) || missing="$missing | $line"
    done <want
    is "$missing" "" "  shows what it prints"
    [ -z "$missing" ] || diag "$(head -n 20 shown)"
done <commands

# --- attention on four processes: every form of transfer, routed and not, remapped and not ---
attention()
{
    if [ -n "$why" ]; then
        skip "$1" "$why"
        return
    fi
    run env LD_LIBRARY_PATH="$lib" timeout 100 mpirun -n 4 "$python" readme/ring_attention.py "${@:3}"
    like "$out" ", rings: $2: the same$" "$1: output and gradients are those of one process"
    [ "$status" -eq 0 ] || diag "$(head -n 20 <<<"$out$err")"
    is "$(grep -cE 'largest difference [0-9.]*e-(0[6-9]|[1-9][0-9])' <<<"$out")" 3 "$1: within 1e-5"
}
attention "single rings over nodes, routed, remapped" '.*single inter.*' --method zeppelin-paper --capacity 200 600 33 70 51 9
attention "every sequence in one ring" 'single inter' --method te-cp
attention "all-gather" 'gather inter' --method llama-cp
attention "double ring" 'double inter' --method static-cp --model llama-7b --device h100 --capacity 400 1500
attention "inside a node" '.*single intra.*' --source 'synthetic:nodes:1 dev:4'
attention "three processes of four hold nothing" 'single local' --method packed-dp --capacity 100 5
if [ -n "$why" ]; then
    skip "no library" "$why"
else
    run env ZEPPELIN_LIBRARY=nowhere.so timeout 100 mpirun -n 1 "$python" readme/ring_attention.py
    like "$err" 'ring_attention.py: nowhere.so: .*: expected the library where the loader looks \(LD_LIBRARY_PATH\), or its path in ZEPPELIN_LIBRARY' "no library: what to do"
fi
done_testing
