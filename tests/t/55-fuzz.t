#!/usr/bin/env bash
# Coverage-guided fuzzing of everything that reads text from outside, ten seconds a target (--long: five minutes), on the kept corpus.
# timeout: 2400
. "$(dirname "$0")/../lib/tap.sh"
command -v clang >/dev/null || skip_all "no clang"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n == 77; }' >"$tmp/try.c"
clang -fsanitize=fuzzer,address "$tmp/try.c" -o "$tmp/try" 2>/dev/null || skip_all "clang has no fuzzer runtime"
seconds=10
[ -n "${ZEP_LONG:-}" ] && seconds=300
flags=$(pkg-config --cflags --libs yaml-0.1 jansson libxxhash)
mkdir "$tmp/obj"
cd "$top" || exit 1
# the product's sources once, then each target
for f in common/*.c planner/*.c topology/*.c; do
    case $f in
    topology/detect_local.c | topology/detect_slurm.c) ;; # programs of their own
    *) echo "$f" ;;
    esac
done | xargs -P "$(nproc)" -I{} sh -c 'clang -g -O1 -std=gnu11 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -I. -I"$1" -DZEP_PKGLIBEXECDIR="\"/nowhere\"" -DZEP_SYSCONFDIR="\"/nowhere\"" -c "$2" -o "$3/$(echo "$2" | tr / _).o"' \
    _ "$build" {} "$tmp/obj" 2>"$tmp/cc"
ok $? "the sources compile with clang"
for target in topology job plan hostlist detect; do
    # shellcheck disable=SC2086 # flags are several words
    clang -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I. -I"$build" -DTARGET=$target tests/fuzz/fuzz.c "$tmp"/obj/*.o -o "$tmp/fuzz-$target" $flags -lm 2>>"$tmp/cc" || diag "$(tail -n 3 "$tmp/cc")"
    mkdir -p "$tmp/corpus-$target"
    cp tests/fuzz/corpus/$target/* "$tmp/corpus-$target/"
    run "$tmp/fuzz-$target" -max_total_time=$seconds -timeout=20 -rss_limit_mb=3000 -max_len=4096 -artifact_prefix="$tmp/$target-" "$tmp/corpus-$target"
    ok "$status" "$target"
    [ "$status" -eq 0 ] || diag "$(grep -E 'ERROR|SUMMARY|runtime error|#[0-9] ' <<<"$err" | head -n 12)" "$(for f in "$tmp/$target-"*; do [ -e "$f" ] && head -c 300 "$f" | od -c | head -n 12; done)"
done
done_testing
