#!/usr/bin/env bash
# Coverage-guided fuzzing of everything that reads text from outside, ten seconds a target (--long: ten minutes), on the kept corpus.
# timeout: 7200
. "$(dirname "$0")/../lib/tap.sh"
command -v clang >/dev/null || skip_all "no clang"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n == 77; }' >"$tmp/try.c"
clang -fsanitize=fuzzer,address "$tmp/try.c" -o "$tmp/try" 2>/dev/null || skip_all "clang has no fuzzer runtime"
seconds=90
[ -n "${ZEP_LONG:-}" ] && seconds=600
flags=$(pkg-config --cflags --libs yaml-0.1 jansson libxxhash)
# shellcheck disable=SC2086
flags="$flags $(pkg-config --cflags --libs expat 2>/dev/null)"
mkdir "$tmp/obj"
cd "$top" || exit 1
# the product's sources once, then each target
for f in common/*.c planner/*.c topology/*.c launcher/k8s_spec.c launcher/k8s_words.c launcher/k8s_manifest.c; do
    case $f in
    topology/detect_local.c | topology/detect_slurm.c | topology/detect_kube.c | topology/detect_nvml.c | topology/detect_sysfs.c | topology/kube_http.c | topology/kube_pages.c) ;; # of programs of their own
    *) echo "$f" ;;
    esac
done | xargs -P "$(nproc)" -I{} sh -c 'clang -g -O1 -std=gnu11 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -I. -I"$1" -DZEP_PKGLIBEXECDIR="\"/nowhere\"" -DZEP_SYSCONFDIR="\"/nowhere\"" -c "$2" -o "$3/$(echo "$2" | tr / _).o"' \
    _ "$build" {} "$tmp/obj" 2>"$tmp/cc"
ok $? "the sources compile with clang"
# fuzz TARGET: its status in $tmp/TARGET.status, what it said in $tmp/TARGET.err
fuzz()
{
    local target=$1
    # shellcheck disable=SC2086 # flags are several words
    clang -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I. -I"$build" -DTARGET="$target" tests/fuzz/fuzz.c "$tmp"/obj/*.o -o "$tmp/fuzz-$target" $flags -lm >"$tmp/$target.err" 2>&1 &&
        mkdir -p "$tmp/corpus-$target" && cp "tests/fuzz/corpus/$target"/* "$tmp/corpus-$target/" &&
        "$tmp/fuzz-$target" -max_total_time=$seconds -timeout=20 -rss_limit_mb=3000 -max_len=8192 -artifact_prefix="$tmp/$target-" "$tmp/corpus-$target" >"$tmp/$target.err" 2>&1
    echo $? >"$tmp/$target.status"
    rm -f "$tmp/fuzz-$target"
}
export -f fuzz
export tmp build seconds flags
targets="k8s"
# shellcheck disable=SC2086
printf '%s\n' $targets | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
for target in $targets; do
    status=$(cat "$tmp/$target.status")
    ok "$status" "$target"
    [ "$status" -eq 0 ] || diag "$(grep -E 'ERROR|SUMMARY|runtime error|error:|#[0-9] ' "$tmp/$target.err" | head -n 12)" "$(for f in "$tmp/$target-"*; do [ -e "$f" ] && head -c 300 "$f" | od -c | head -n 12; done)"
done
done_testing
