#!/usr/bin/env bash
# How the code is written: layers, headers that compile alone, and what shellcheck, cppcheck and clang-tidy find.
# timeout: 240
. "$(dirname "$0")/../lib/tap.sh"
cd "$top" || exit 1

run tests/check-layers
ok "$status" "includes go in one direction"
[ "$status" -eq 0 ] || diag "$out"
mkdir -p "$tmp/planted/common" "$tmp/planted/launcher"
echo '#include "planner/plan.h"' >"$tmp/planted/common/x.c"
echo '#include <mpi.h>' >"$tmp/planted/launcher/y.c"
run tests/check-layers "$tmp/planted"
is "$status" 1 "a planted offence is found"
like "$out" '^common/x.c:1:' "with its place"
like "$out" '^launcher/y.c:1:' "a foreign header too"

bad=
mpi_flags=$(mpicc --showme:compile 2>/dev/null)
for h in */*.h; do
    # shellcheck disable=SC2086 # flags are several words
    gcc -std=gnu11 -Wall -Wextra -Wno-unused-parameter -fsyntax-only -I. -I"$build" $mpi_flags -x c "$h" 2>>"$tmp/headers" || bad="$bad $h"
done
is "$bad" "" "every header compiles alone"
bad=$(grep -rLE '#ifndef ZEP_' --include='*.h' common topology planner runtime launcher library kernels/kernels.h)
is "$bad" "" "every header has its guard"
bad=$(grep -rnE 'march=native|ffast-math' --include='*.am' --include='*.m4' --include=configure.ac . | grep -v '#')
is "$bad" "" "no -march=native, no -ffast-math"

if command -v shellcheck >/dev/null; then
    # 1091, 2034, 2154: variables of tests/lib/tap.sh; 2015: `A && B || complain` is meant so; 2086 is looked at as information only
    run shellcheck -S warning -e SC1091,SC2034,SC2154,SC2015,SC1010 tests/all tests/install-deps tests/check-layers tests/lib/tap.sh tests/bed/* tests/t/*.t tests/bench/routing jobs/quickstart jobs/image-steps tests/kube/pods .ci/run
    ok "$status" "shellcheck"
    [ "$status" -eq 0 ] || diag "$out"
else
    skip "shellcheck" "not installed"
fi
if command -v cppcheck >/dev/null; then
    # vec_plain.h: cppcheck does not know comparisons of GNU vectors. objectIndex, duplicateAssignExpression: false alarms on arrays in an arena and on equal starting values.
    run cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability,performance --inline-suppr --suppress=missingInclude --suppress='internalAstError:kernels/cpu/vec_plain.h' \
        --suppress=objectIndex --suppress=duplicateAssignExpression --include=tests/lib/cppcheck.h -I. -I"$build" -j2 common topology planner launcher library runtime kernels
    ok "$status" "cppcheck"
    [ "$status" -eq 0 ] || diag "$err"
else
    skip "cppcheck" "not installed"
fi
if command -v clang-tidy >/dev/null; then
    # what finds real mistakes; not the rules on taste. The analyzer is left out: it cannot know that the functions which set an error return a negative number, and takes paths
    # on which they do not. string-compare: `!strcmp()` is our idiom; sizeof-expression: arrays of pointers are meant.
    # shellcheck disable=SC2086 # flags are several words
    run clang-tidy --quiet --warnings-as-errors='*' --checks='-*,bugprone-*,misc-redundant-expression,-bugprone-suspicious-string-compare,-bugprone-sizeof-expression,-bugprone-suspicious-include,-bugprone-easily-swappable-parameters,-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions,-bugprone-reserved-identifier,-bugprone-assignment-in-if-condition,-bugprone-branch-clone,-bugprone-macro-parentheses,-bugprone-signal-handler,-bugprone-too-small-loop-variable,-bugprone-misplaced-widening-cast,-bugprone-not-null-terminated-result' \
        planner/*.c common/*.c launcher/*.c library/*.c -- -std=gnu11 -I. -I"$build" -DZEP_PKGLIBEXECDIR='""' -DZEP_SYSCONFDIR='""'
    ok "$status" "clang-tidy"
    [ "$status" -eq 0 ] || diag "$(grep -E 'error|warning' <<<"$out" | head -n 30)"
else
    skip "clang-tidy" "not installed"
fi
done_testing
