#!/usr/bin/env bash
# Faults on this machine: a rank is killed in each phase, the clock jumps, checkpoints cannot be written, a node does not answer. After each: one message, a status, no process, no corrupt file,
# no finished step lost beyond the last checkpoint, and the run goes on.
# timeout: 240
. "$(dirname "$0")/../lib/tap.sh"
[ -x "$build/zeppelin-rank" ] || skip_all "built without MPI"
cd "$tmp" || exit 1

run "$zeppelin" data --suffix .h --context 512 --heldout 20 --max-bytes 500kB -o set "$top"
ok "$status" "a data set"
cat >job.yaml <<'JOB'
name: t
cluster: {topology: 'synthetic: nodes:2 dev:2 nic:1 kind:cpu', timeout: 10s, grace: 20s}
model: {hidden: 128, layers: 2, heads: 4, kv_heads: 2, head_dim: 32, ffn: 352}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 100000, tokens: 2k, warmup: 2, eval_tokens: 0, seed: 3}
plan: {capacity: 768}
checkpoint: {every: 3, keep: 2}
log: {every: 1000}
JOB
# the last finished step, in whatever attempt
last_step()
{
    sed -n 's/.*"kind":"step","attempt":[0-9]*,"step":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}
ranks()
{
    pgrep -f "zeppelin-rank .*$tmp/$dir"
}
# start OPTIONS...: a run in the background until it has finished four steps; sets $launcher and $dir
start()
{
    local old
    old=$(ls -td runs/t-* 2>/dev/null | head -n 1)
    "$zeppelin" run "$@" job.yaml >run.out 2>run.err &
    launcher=$!
    for _ in $(seq 600); do
        dir=$(ls -td runs/t-* 2>/dev/null | head -n 1)
        [ "$dir" != "$old" ] && [ "$(last_step "$dir" 2>/dev/null || echo 0)" -ge 4 ] 2>/dev/null && break
        sleep 0.05
    done
}
# The main thread's name is the phase: wait for it and kill in it.
cat >kill-in.py <<'PY'
import os, signal, sys, time
pid, want, end = int(sys.argv[1]), ("zep:" + sys.argv[2].replace(" ", "-"))[:15], time.time() + 20
path = "/proc/%d/comm" % pid
while time.time() < end:
    with open(path) as f:
        if f.read().rstrip("\n") == want:
            os.kill(pid, signal.SIGKILL)
            sys.exit(0)
sys.exit(1)
PY
# goes_on NAME: the run in $dir, from its last checkpoint, one step further than it was
goes_on()
{
    local last from
    last=$(last_step "$dir")
    run timeout 60 "$zeppelin" run --resume "$dir" --set train.steps=$((last + 1))
    ok "$status" "$1: the run goes on"
    [ "$status" -eq 0 ] || diag "$err"
    from=$(sed -n 's/.*"kind":"start","attempt":2,"step":\([0-9]*\).*/\1/p' "$dir/metrics.jsonl")
    [ "${from:-0}" -ge $((last - 3)) ]
    ok $? "$1: no more steps are lost than checkpoint.every ($last, going on from ${from:-nothing})"
    unlike "$err" 'damaged' "$1: and no checkpoint is corrupt"
}

for phase in 'batch and planning' forward backward 'gradient exchange' optimizer checkpoint; do
    start
    python3 kill-in.py "$(pgrep -f "^[^ ]*/zeppelin-rank .*$tmp/$dir" | sed -n 2p)" "$phase"
    killed=$?
    ok $killed "a rank is killed in phase $phase"
    [ $killed -eq 0 ] || kill -KILL $launcher
    wait $launcher
    is $? 76 "$phase: status 76"
    like "$(cat run.err)" 'error: rank [0-9] on .* was lost: ended by signal 9 \(Killed\)' "$phase: the message says what happened where"
    is "$(grep -c 'error' run.err)" 1 "$phase: once"
    is "$(ranks)" "" "$phase: no process is left"
    is "$(find "$dir/checkpoints" -maxdepth 1 -name 'step-*' ! -name '*.*' | wc -l)" "$(find "$dir/checkpoints" -name MANIFEST -path '*/step-[0-9]*/*' ! -path '*.*/*' | wc -l)" "$phase: every checkpoint is whole"
    goes_on "$phase"
done

# --- the clock jumps a day ahead, and two back ---
cat >jump.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long shift(void) { return access("ahead", F_OK) == 0 ? 86400 : access("back", F_OK) == 0 ? -86400 : 0; }
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    int rc;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    rc = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += shift();
    return rc;
}
time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *tv, void *tz)
{
    struct timespec t;
    (void)tz;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}
C
if gcc -shared -fPIC -o jump.so jump.c -ldl 2>/dev/null && ! ldd "$build/.libs/zeppelin" "$build/zeppelin" 2>/dev/null | grep -q libasan; then
    export LD_PRELOAD=$tmp/jump.so
    start
    unset LD_PRELOAD
    before=$(last_step "$dir")
    touch ahead
    sleep 1
    mv ahead back
    sleep 1
    after=$(last_step "$dir")
    [ "$after" -gt $((before + 2)) ]
    ok $? "the clock jumps: the training goes on ($before, $after)"
    run "$zeppelin" run --resume "$dir"
    is "$status" 4 "its run folder stays its own"
    kill -TERM $launcher
    wait $launcher
    is $? 75 "and it stops when it is asked to"
    rm back
    goes_on "clock"
else
    skip "the clock jumps" "no compiler, or a build with a sanitizer"
fi

# --- checkpoints cannot be written: root may write everywhere, so a file is in the way ---
start --set checkpoint.every=8
kill -TERM $launcher
wait $launcher
saved=$(find "$dir/checkpoints" -name 'step-*' ! -name '*.*' | wc -l)
mv "$dir/checkpoints" aside
echo x >"$dir/checkpoints"
run timeout 60 "$zeppelin" run --resume "$dir" --set train.steps=2
is "$status" 2 "no folder for checkpoints: status 2"
like "$err" "error: .*checkpoints: .*[Dd]irectory.* \(in phase checkpoint\)" "the message names it"
is "$(grep -c 'error' <<<"$err")" 1 "once"
is "$(ranks)" "" "no process is left"
rm "$dir/checkpoints"
mv aside "$dir/checkpoints"
is "$(find "$dir/checkpoints" -name 'step-*' ! -name '*.*' | wc -l)" "$saved" "those before are as they were"

# --- a node that does not answer ---
mkdir silent
printf '#!/bin/sh\nexec sleep 600\n' >silent/ssh
chmod +x silent/ssh
began=$(date +%s)
run env OMPI_MCA_plm_rsh_agent="$tmp/silent/ssh" OMPI_MCA_plm=rsh timeout 60 "$zeppelin" run --set cluster.start=3s --set cluster.mpi_args='--host localhost:2,elsewhere.invalid:2' job.yaml
is "$status" 3 "ssh does not answer: status 3"
like "$err" 'error: the ranks did not come up within 3 s \(cluster.start\): does a node, or ssh to it, not answer\?' "the message says what may be wrong"
[ $(($(date +%s) - began)) -le 30 ]
ok $? "within seconds"
is "$(pgrep -f "$tmp/silent/ssh")" "" "and ssh is not left behind"
done_testing
