#!/usr/bin/env bash
# `zeppelin run` from data to report on this machine: checkpoints, resuming on other ranks, stopping, lost ranks, locks.
# timeout: 500
. "$(dirname "$0")/../lib/tap.sh"
[ -x "$build/zeppelin-rank" ] || skip_all "built without MPI"
cd "$tmp" || exit 1

run "$zeppelin" data --suffix .h,.c --context 512 --heldout 20 --max-bytes 2MB --thin 512B -o set "$top"
ok "$status" "a data set of our own sources"
like "$out" 'bigram [0-9.]+ nats' "it says the marks of the text"
cat >job.yaml <<'JOB'
format: zeppelin-job/1.0
name: t
cluster: {topology: 'synthetic: nodes:2 dev:2 nic:2 kind:cpu', timeout: 20s, grace: 20s}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 12, tokens: 900, seed: 3, warmup: 2, eval_tokens: 2k}
plan: {capacity: 256, save_every: 6, check: true}
checkpoint: {every: 4, keep: 2}
log: {every: 4}
JOB

losses()
{
    # of repeated steps the last one counts
    sed -n 's/.*"kind":"step".*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/p' "$1/metrics.jsonl" | awk '{ l[$1] = $2 } END { for (s in l) print s, l[s] }' | sort -n
}
rundir()
{
    ls -td runs/t-* | head -n 1
}
close()
{
    paste -d' ' <(losses "$1") <(losses "$2") | awk -v n="$3" 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 1e-8 { bad = 1 } END { exit bad || NR != n }'
}

run "$zeppelin" run job.yaml
ok "$status" "a run"
[ "$status" -eq 0 ] || diag "$err"
whole=$(rundir)
like "$out" 'step 12 of 12, done' "the report is printed"
like "$out" 'inter-node .*%' "with the zones"
like "$out" 'start-up  launch [0-9.]+ s, MPI [0-9.]+ s, topology [0-9.]+ s, data [0-9.]+ s, model [0-9.]+ s, checkpoint [0-9.]+ s, first plan [0-9.]+ s' "with the parts of the start-up"
like "$out" 'documents longer than the context of 512 tokens were cut' "with the cuts"
like "$out" 'plans took [0-9.]+ s a rank to make, [0-9.]+% of it while the step before ran \([0-9]+ of 12 steps' "how much of the planning was hidden"
is "$(grep -c '"kind":"step".*"plan_work_s":.*"plan_wait_s":.*"plan_ready":[0-4],' "$whole/metrics.jsonl")" 12 "each step's record tells how long its plans took and were waited for"
like "$(sed -n 's/.*"kind":"step".*"step":1,.*"plan_ready":\([0-9]*\).*/\1/p' "$whole/metrics.jsonl")" '^0$' "the first step cannot be planned ahead"
like "$err" 'step 4/12  loss' "plain progress lines in a log"
unlike "$err" $'\r' "without a terminal's tricks"
for f in run.json job.yaml topology.yaml metrics.jsonl log outcome.json plans/step-6.0.json plans/step-12.0.json report/report.txt report/report.json report/loss.svg report/ranks.svg checkpoints/step-12/MANIFEST; do
    [ -s "$whole/$f" ] || [ "$f" = log ] && [ -e "$whole/$f" ]
    ok $? "the run folder has $f"
done
[ ! -e "$whole/lock" ]
ok $? "the lock is gone"
is "$(ls "$whole/checkpoints" | sort | tr '\n' ' ')" "step-12 step-8 " "checkpoint.keep is kept"
run "$zeppelin" plan --check "$whole/plans/step-12.0.json"
ok "$status" "a saved plan is proved"
run "$zeppelin" report "$whole"
like "$out" 'step 12 of 12, done' "report by folder"
run "$zeppelin" report "$(basename "$whole")"
like "$out" 'step 12 of 12, done' "report by run id"
run "$zeppelin" report --json "$whole"
python3 -c 'import json,sys; r = json.load(open(sys.argv[1])); assert r["format"] == "zeppelin-report/1.0" and len(r["losses"]) == 12 and all(0 <= v < 600 for v in r["startup_s"].values()) and r["startup_s"]["mpi"] > 0 and r["zones"]["inter"]["tokens"] > 0' "$tmp/out"
ok $? "report --json"
for svg in loss ranks; do
    python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$whole/report/$svg.svg"
    ok $? "$svg.svg is well-formed"
done

run "$zeppelin" run --set checkpoint.background=true --set checkpoint.every=2 --set checkpoint.keep=10 job.yaml
behind=$(rundir)
ok "$status" "a run that goes on while its checkpoints are written"
cmp -s <(losses "$whole") <(losses "$behind") && cmp -s "$whole/checkpoints/step-8/shard-0" "$behind/checkpoints/step-8/shard-0" && cmp -s "$whole/checkpoints/step-12/shard-1" "$behind/checkpoints/step-12/shard-1"
ok $? "the same losses, the same checkpoints"
is "$(ls "$behind/checkpoints" | sort -t- -k2n | tr '\n' ' ')" "step-2 step-4 step-6 step-8 step-10 step-12 " "one for each interval"
python3 - "$behind/metrics.jsonl" <<'PY'
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
at = {l["step"]: i for i, l in enumerate(lines) if l["kind"] == "step"}
saved = [(i, l) for i, l in enumerate(lines) if l["kind"] == "checkpoint"]
assert [l["step"] for _, l in saved] == [2, 4, 6, 8, 10, 12], saved
assert all(0 <= l["stall_s"] <= l["time_s"] for _, l in saved), saved
assert all(i > at[l["step"] + 1] for i, l in saved[:-1]), "a checkpoint was complete before the next step was"
PY
ok $? "and each was written behind a step that went on"
like "$out" '6 checkpoints, [0-9.e+]+ MB written in [0-9.]+ s; the training stood still for [0-9.]+ s of that' "the report tells how long the training stood still"

run "$zeppelin" run job.yaml
again=$(rundir)
cmp -s <(losses "$whole") <(losses "$again")
ok $? "a second run of the same layout has the same losses to the last digit"
cmp -s "$whole/checkpoints/step-12/shard-0" "$again/checkpoints/step-12/shard-0"
ok $? "and the same weights, bit for bit"

# --- evaluation ---
want=$(python3 - set/heldout.idx <<'PY'
import struct, sys
b = open(sys.argv[1], "rb").read()
n, = struct.unpack_from("<q", b, 18)
length = struct.unpack_from("<%di" % n, b, 34)
print(sum(length) - sum((l + 511) // 512 for l in length))
PY
)
for tokens in 600 2k 5k; do
    run "$zeppelin" run --set train.steps=1 --set train.tokens=$tokens --set train.eval_tokens=1M --set plan.capacity=auto job.yaml
    sed -n 's/.*"kind":"eval".*"step":0,.*"loss":\([0-9.]*\).*"targets":\([0-9]*\).*/\2 \1/p' "$(rundir)/metrics.jsonl"
done >evals
is "$(awk '{ print $1 }' evals | sort -u)" "$want" "an evaluation has every held-out target once, whatever a step holds"
awk 'NR == 1 { l = $2 } ($2 - l) ^ 2 > 1e-8 { bad = 1 } END { exit bad || NR != 3 }' evals
ok $? "and the same loss"
run "$zeppelin" run --set train.steps=1 job.yaml
sed -n 's/.*"kind":"eval".*"targets":\([0-9]*\).*/\1/p' "$(rundir)/metrics.jsonl" | awk '$1 < 1024 || $1 > 2048 { bad = 1 } END { exit bad || NR != 2 }'
ok $? "train.eval_tokens is a limit"

# --- resuming ---
run "$zeppelin" run --set train.steps=12 --set train.min_lr=0.0003 job.yaml
mkdir part
# stop a run by a signal to one rank: as soon as that blocks it to take it in a thread, for the twelve steps are over in a tenth of a second
"$zeppelin" run --set checkpoint.every=0 --set log.every=1 --set train.eval_every=1 job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 1000); do
    dir=$(rundir)
    rank=
    [ "$dir" = "$again" ] || rank=$(pgrep -f "^[^ ]*/zeppelin-rank --attempt 1 --ranks 4 $tmp/$dir" | tail -n 1)
    [ -n "$rank" ] && ((0x$(sed -n 's/^SigBlk:[[:space:]]*//p' "/proc/$rank/status") & 1 << ($(kill -l USR1) - 1))) && break
    sleep 0.01
done
kill -USR1 "$rank"
wait $launcher
is $? 75 "SIGUSR1 to a single rank: all leave, status 75"
stopped=$(losses "$dir" | tail -n 1 | cut -d' ' -f1)
is "$(sed -n 's/^step \([0-9]*\)\/12 .* (\([0-9]*\) of 900 tokens)$/\1 \2/p' part/err)" \
    "$(sed -n 's/.*"kind":"step".*"step":\([0-9]*\),.*"tokens":\([0-9]*\),.*/\1 \2/p' "$dir/metrics.jsonl" | awk '$2 < 675')" "lines of the log say how full a step is that is far from its budget"
[ -s "$dir/checkpoints/step-$stopped/MANIFEST" ]
ok $? "with a checkpoint of the last step ($stopped)"
like "$(cat part/err)" "go on with: zeppelin run --resume" "it says how to go on"
cp -r "$dir" part/on-two
run "$zeppelin" run --resume "$dir"
ok "$status" "the run is resumed"
[ "$status" -eq 0 ] || diag "$err"
like "$err" "going on after step $stopped of 12" "it says where it begins"
close "$whole" "$dir" 12
ok $? "with the losses of an unbroken run"
run "$zeppelin" run --resume "$dir"
ok "$status" "a finished run is resumed"
like "$err" 'step 12 of 12 was reached before: there is nothing left to train \(--set train.steps=N goes on\)' "it says that there is nothing to do"
cp -r "$dir" none
rm -r none/checkpoints
run "$zeppelin" run --resume none --set train.steps=2
ok "$status" "a run without a checkpoint is resumed"
like "$err" 'there is no checkpoint to go on from: beginning again at step 0' "it says that it begins again"
run "$zeppelin" run --resume part/on-two --set 'cluster.topology=synthetic: nodes:1 dev:2 kind:cpu' --set cluster.nodes=1 --set cluster.devices=2 --set plan.capacity=600
ok "$status" "the same is resumed on 2 ranks in place of 4"
[ "$status" -eq 0 ] || diag "$err"
close "$whole" part/on-two 12
ok $? "with the same losses"
like "$(cat part/on-two/run.json)" '"attempt": 2' "as a second attempt"

# another run cannot be resumed by mistake
cp "$dir/job.yaml" "$dir/topology.yaml" part
run "$zeppelin" run --resume "$dir" --set train.steps=20 --set train.seed=4 --set cluster.topology='synthetic: nodes:2 dev:2 nic:1 kind:cpu'
is "$status" 4 "another seed is refused: status 4"
like "$err" 'seed' "it says why"
like "$err" 'no checkpoint was loaded, the newest is step-12;' "and that there are checkpoints"
cmp "$dir/job.yaml" part/job.yaml && cmp "$dir/topology.yaml" part/topology.yaml
ok $? "what was refused does not stay in the run folder"
refused()
{
    run "$zeppelin" run --resume "$1" --set train.steps=13 --set "$2"
    is "$status" 4 "another $2 is refused"
    like "$err" "$3" "it says why"
    [ ! -e "$1/checkpoints/step-13" ]
    ok $? "and trains nothing"
}
cp -r "$whole" other
refused other model.rope_theta=500 'was made with model.rope_theta 10000, the job says 500'
cp "$whole/job.yaml" other
refused other model.norm_eps=1e-6 'was made with model.norm_eps 1e-05, the job says 1e-06'
cp "$whole/job.yaml" other
refused other data.context=256 'was made with data.context 512, the job says 256: longer documents are cut otherwise'
cp "$whole/job.yaml" other
refused other plan.window=2 'was made with plan.window 1, the job says 2: steps would have other documents'
cp "$whole/job.yaml" other
cp -r set set2
printf 'zeppelin' | dd of=set2/train.bin bs=1 seek=5000 conv=notrunc 2>/dev/null
refused other data.train=set2/train 'was made with another data set of the same lengths'
cp "$whole/job.yaml" other
# a MANIFEST of version 1.0 has nothing of this and is read
python3 - other/checkpoints/step-12/MANIFEST <<'PY'
import json, sys
m = json.load(open(sys.argv[1]))
m["format"] = "zeppelin-checkpoint/1.0"
for k in "manifest_xxh64", "data_tokens", "documents", "context", "window":
    del m[k]
for k in "norm_eps", "rope_theta":
    del m["model"][k]
json.dump(m, open(sys.argv[1], "w"))
PY
run "$zeppelin" run --resume other --set train.steps=13
ok "$status" "a checkpoint of version 1.0 is resumed"
like "$(cat other/metrics.jsonl)" '"kind":"start","attempt":7,"step":12' "from its step"

# a run that diverges
run "$zeppelin" run --set train.optimizer=sgd --set train.lr=1e6 --set train.clip=0 --set train.eval_every=1 --set checkpoint.every=0 job.yaml
is "$status" 1 "a run that diverges: status 1"
like "$err" 'error: .*step [0-9]+: .*not finite \(is train.lr too high\?\)' "it says so"
is "$(grep '"kind":"eval"' "$(rundir)/metrics.jsonl" | grep -vc '"loss":[0-9]')" 0 "no held-out loss that is not finite is told as one"

# a damaged checkpoint is passed over
cp -r "$whole" damaged
printf 'x' | dd of=damaged/checkpoints/step-12/shard-1 bs=1 seek=100 conv=notrunc 2>/dev/null
run "$zeppelin" run --resume damaged --set train.steps=13
ok "$status" "a damaged checkpoint is passed over"
like "$err$(cat damaged/log)" 'step-12' "it is named"
like "$(cat damaged/metrics.jsonl)" '"kind":"start","attempt":2,"step":8' "the one before is taken"

# and takes no place among those that are kept
cp -r "$whole" damaged-last
printf 'x' | dd of=damaged-last/checkpoints/step-12/shard-1 bs=1 seek=100 conv=notrunc 2>/dev/null
run "$zeppelin" run --resume damaged-last --set train.steps=10 --set checkpoint.every=1 --set checkpoint.keep=1
ok "$status" "a run goes on below a damaged checkpoint"
is "$(ls damaged-last/checkpoints | sort | tr '\n' ' ')" "damaged-step-12 step-10 " "its own last checkpoint is kept, the damaged one set aside"
run "$zeppelin" run --resume damaged-last --set train.steps=11 --set checkpoint.keep=1
ok "$status" "and is resumed"
is "$(ls damaged-last/checkpoints | sort | tr '\n' ' ')" "damaged-step-12 step-11 " "one goes, one comes"

# a MANIFEST that is not what was written: one with its checksum, one of version 1.0, which has none
cp -r "$whole" altered
sed -i 's/"step": 12,/"step": 5,/' altered/checkpoints/step-12/MANIFEST
sed -i -e 's/"step": 8,/"step": -5,/' -e 's,checkpoint/1.2,checkpoint/1.0,' -e '/manifest_xxh64/s/_xxh64//' altered/checkpoints/step-8/MANIFEST
run "$zeppelin" run --resume altered --set train.steps=9
is "$status" 4 "altered MANIFESTs are not believed"
like "$err" 'step-12 is damaged and passed over: rank 0: step-12: the checksum of MANIFEST does not hold' "the checksum tells"
like "$err" 'step-8 is damaged and passed over: rank 0: step-8: MANIFEST says step -5' "the folder's name tells"
# a shard that is gone: nobody waits for it as for a lost rank
cp -r "$whole" missing
rm missing/checkpoints/step-12/shard-1
run "$zeppelin" run --resume missing --set train.steps=9 --set cluster.timeout=2s
ok "$status" "a checkpoint without one of its shards is passed over"
[ "$status" -eq 0 ] || diag "$err"
like "$err$(cat missing/log)" 'step-12 is damaged and passed over: .*shard-1: No such file' "it is named"
# a file system that is slower than the time-out: the shard comes through a pipe, after 2 s
cp -r "$whole" slow
mv slow/checkpoints/step-12/shard-1 shard-1
mkfifo slow/checkpoints/step-12/shard-1
(
    exec 9<>slow/checkpoints/step-12/shard-1
    sleep 2.5
    timeout 10 cat shard-1 >&9
    sleep 0.5 # the reader is there
) &
run "$zeppelin" run --resume slow --set train.steps=12 --set cluster.timeout=1s --set checkpoint.keep=1
wait $!
ok "$status" "a shard that takes longer to read than cluster.timeout"
like "$(cat slow/metrics.jsonl)" '"kind":"start","attempt":2,"step":12' "is read"

# --- lost ranks ---
"$zeppelin" run --set train.steps=100000 --set checkpoint.every=5 job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 300); do
    dir=$(rundir)
    [ ! -e "$dir/outcome.json" ] && [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 7 ] && break
    sleep 0.05
done
rank=$(pgrep -f "zeppelin-rank --attempt 1 --ranks 4 $tmp/$dir" | head -n 2 | tail -n 1)
start=$(date +%s)
kill -9 "$rank"
wait $launcher
is $? 76 "a killed rank: status 76"
[ $(($(date +%s) - start)) -le 30 ]
ok $? "within 30 s"
like "$(cat part/err)" 'rank [0-9] on .* was lost: ended by signal 9 \(Killed\), while the ranks were in phase [a-z]+' "one message names rank and phase"
is "$(grep -c 'was lost' part/err)" 1 "once"
[ -z "$(pgrep -f "zeppelin-rank --attempt 1 --ranks 4 $tmp/$dir")" ]
ok $? "nobody is left"
run "$zeppelin" run --resume "$dir" --set train.steps=$(($(losses "$dir" | tail -n 1 | cut -d' ' -f1) + 2))
ok "$status" "it goes on from the last checkpoint"
[ "$status" -eq 0 ] || diag "$err"

# a rank that hangs
"$zeppelin" run --set train.steps=100000 --set cluster.timeout=3s job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 300); do
    dir=$(rundir)
    [ ! -e "$dir/outcome.json" ] && [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 3 ] && break
    sleep 0.05
done
rank=$(pgrep -f "zeppelin-rank --attempt 1 --ranks 4 $tmp/$dir" | tail -n 1)
kill -STOP "$rank"
wait $launcher
is $? 76 "a rank that hangs: status 76"
like "$(cat part/err)" 'no progress for 3 s' "it is told that nothing moves"

# --- whoever ends, the ranks end with it ---
# train NAME OPTIONS...: in the background until it has made two steps; sets $launcher and $dir
train()
{
    local name=$1 old
    shift
    old=$(rundir)
    "$zeppelin" run --set train.steps=100000 "$@" job.yaml >"part/$name.out" 2>"part/$name.err" &
    launcher=$!
    for _ in $(seq 300); do
        dir=$(rundir)
        [ "$dir" != "$old" ] && [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 2 ] && break
        sleep 0.05
    done
}
ranks()
{
    pgrep -f "zeppelin-rank .*$tmp/$dir"
}
train killed
is "$(ranks | wc -l)" 5 "four ranks and mpirun"
kill -9 $launcher
wait $launcher 2>/dev/null
for _ in $(seq 60); do
    [ -n "$(ranks)" ] || break
    sleep 0.1
done
is "$(ranks)" "" "kill -9 of the command ends mpirun and the ranks"
train launcher
kill -9 "$(pgrep -f "^mpirun .*$tmp/$dir" | head -n 1)"
wait $launcher
[ $? -ne 0 ]
ok $? "mpirun is killed: the run failed"
is "$(ranks)" "" "no rank is left when the command ends"
train hangup
kill -HUP $launcher
wait $launcher
is $? 75 "SIGHUP stops with a checkpoint: status 75"
# before the ranks can hear it
"$zeppelin" run --set train.steps=100000 job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 200); do
    pgrep -f "^mpirun .*$tmp/runs" >/dev/null && break
    sleep 0.005
done
kill -USR1 $launcher
wait $launcher
is $? 75 "a request to stop while the ranks start: status 75"
like "$(cat part/err)" 'stopped on request after step' "it reached them"
# a launcher that is slow to end after its ranks have left with a checkpoint
mkdir slow-mpirun
cat >slow-mpirun/mpirun <<'SLOW'
#!/bin/sh
while [ "$2" != --lock ]; do shift; done
trap 'exit 143' TERM
trap : USR1
cat >"$1/outcome.json" <<'OUTCOME'
{"format": "zeppelin-outcome/1.0", "attempt": 1, "status": "stopped", "step": 3, "rank": -1, "phase": "end", "cause": "stopped on request after step 3 of 12", "checkpoint": "step-3"}
OUTCOME
for _ in $(seq 200); do sleep 0.1; done
SLOW
chmod +x slow-mpirun/mpirun
PATH=$tmp/slow-mpirun:$PATH "$zeppelin" run job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 200); do
    [ -e "$(rundir)/lock" ] && [ -e "$(rundir)/outcome.json" ] && break
    sleep 0.02
done
kill -INT $launcher
for _ in $(seq 100); do
    grep -q 'stopping after' part/err && break
    sleep 0.02
done
kill -INT $launcher
wait $launcher
is $? 75 "a second signal after the checkpoint: the status is that of the stop"
rm -rf "$(rundir)"
# ranks of an older attempt
cp -r "$whole" older
sed -i 's/"attempt": 1/"attempt": 2/' older/outcome.json
cp older/outcome.json part/outcome.json
sed -i 's/^  seed: 3/  seed: 4/' older/job.yaml
mpi_env
timeout 60 mpirun -np 4 "$build/zeppelin-rank" --ranks 4 "$tmp/older" >part/out 2>&1
like "$(cat part/out)" 'seed' "ranks of an older attempt fail"
cmp -s older/outcome.json part/outcome.json
ok $? "and leave the outcome of the newer one alone"

# ranks whose launcher's lock is another's by now, or gone
cp -r "$whole" lockless
rm lockless/outcome.json
lines=$(wc -l <lockless/metrics.jsonl)
echo '{"token": "new", "host": "elsewhere", "pid": 5}' >lockless/lock
for what in "taken over by process 5 on elsewhere" "gone"; do
    timeout 60 mpirun -np 4 "$build/zeppelin-rank" --ranks 4 "$tmp/lockless" --lock old >part/out 2>&1
    like "$(cat lockless/outcome.json)" '"status": "refused"' "ranks leave when the lock is $what"
    like "$(cat part/out)" "$what" "and say so"
    rm -f lockless/lock lockless/outcome.json
done
is "$(wc -l <lockless/metrics.jsonl)" "$lines" "they write nothing into metrics.jsonl"

# --- signals that come while a rank computes ---
# oneDNN points the stack register into the heap: a handler there would destroy it, so no rank may have one
"$zeppelin" run --set train.steps=100000 --set train.tokens=8k --set plan.capacity=2k --set train.eval_tokens=0 --set model.hidden=256 --set model.ffn=768 job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 300); do
    dir=$(rundir)
    [ ! -e "$dir/outcome.json" ] && [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 2 ] && break
    sleep 0.05
done
mapfile -t ranks < <(pgrep -f "^[^ ]*zeppelin-rank --attempt 1 --ranks 4 $tmp/$dir")
is "${#ranks[@]}" 4 "four ranks at work"
bad=
for pid in "${ranks[@]}"; do
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$pid/status")
    [ $((0x$caught & 0x4200)) -eq 0 ] || bad="$bad $pid"
    blocked=$(sed -n 's/^SigBlk:[[:space:]]*//p' "/proc/$pid/status")
    [ $((0x$blocked & 0x4200)) -eq $((0x4200)) ] || bad="$bad $pid"
done
is "$bad" "" "SIGUSR1 and SIGTERM have no handler, and are blocked in the thread that computes"
for _ in $(seq 100); do
    kill -USR1 "${ranks[@]}" 2>/dev/null
done
wait $launcher
is $? 75 "a burst of SIGUSR1 to all ranks: status 75"
[ -z "$(grep -E 'corrupted|Segmentation|free\(\)|malloc' "$dir/log")" ]
ok $? "and no heap is destroyed"

# --- locks ---
"$zeppelin" run --set train.steps=100000 job.yaml >part/out 2>part/err &
launcher=$!
for _ in $(seq 300); do
    dir=$(rundir)
    [ ! -e "$dir/outcome.json" ] && [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 1 ] && break
    sleep 0.05
done
run "$zeppelin" run --resume "$dir"
is "$status" 4 "a run folder in use: status 4"
like "$err" 'is in use by process' "it names the holder"
kill -INT $launcher
wait $launcher
is $? 75 "an interrupt: status 75"

# --- ranks that came up as jobs of one ---
mpi_env
cp -r "$whole" single
rm single/outcome.json
run env OMPI_COMM_WORLD_SIZE=4 "$build/zeppelin-rank" --ranks 4 "$tmp/single"
is "$status" 3 "N jobs of one rank are told apart: status 3"
like "$err" 'started as 4 jobs of one rank instead of one job of 4' "it says so"
rm single/outcome.json
run env SLURM_STEP_NUM_TASKS=4 "$build/zeppelin-rank" "$tmp/single"
like "$err" 'started as 4 jobs of one rank' "also under srun without PMI"

# the commit of a checkpoint, and file work in general, against the time-out
ckpt_probe=$build/tests/mpi/ckpt-probe
run timeout 30 mpirun -np 3 "$ckpt_probe" save "$tmp/probe"
ok "$status" "a commit that takes longer than the time-out"
[ "$status" -eq 0 ] || diag "$err"
run timeout 30 mpirun -np 3 "$ckpt_probe" behind "$tmp/probe-behind"
ok "$status" "a checkpoint out of a copy, while the model changes"
[ "$status" -eq 0 ] || diag "$err"
run timeout 30 mpirun -np 3 "$ckpt_probe" bad "$tmp/probe"
ok "$status" "weights and moments that are not finite are not saved"
[ "$status" -eq 0 ] || diag "$err"
like "$out" 'internal error: rank 2: step 5: a weight of model\.norm\.weight is -?nan: no checkpoint is written \(is train\.lr too high\?\)' "a weight is named"
like "$out" 'internal error: rank 2: step 6: a second moment of model\.[a-z0-9_.]+ is inf: no checkpoint' "and a moment"
is "$(ls "$tmp/probe/checkpoints")" "step-4" "and the checkpoint before stays"
run timeout 30 mpirun -np 3 "$ckpt_probe" stop
is "$status" 76 "a rank that is lost during file work is noticed by the time-out"
like "$err" "no progress for 0 s .*in 'agreement'" "as ever"
run timeout 30 mpirun -np 3 "$ckpt_probe" limit
is "$status" 76 "file work has a limit of its own"

# a token beyond the vocabulary in what the launcher did not look at
cp -r "$whole" vocab
rm -rf vocab/checkpoints/* vocab/outcome.json
sed -i 's/^  vocab: .*/  vocab: 64/' vocab/job.yaml
run timeout 60 mpirun -np 4 "$build/zeppelin-rank" --ranks 4 "$tmp/vocab"
like "$(cat vocab/outcome.json)" 'token [0-9]+ of document [0-9]+ is [0-9]+: expected 0 to 63 \(model.vocab is 64\)' "ranks refuse a token beyond the vocabulary"
like "$(cat vocab/outcome.json)" '"phase": "(batch|evaluation)"' "before it is used"

# instruction sets may differ between ranks
cat >mixed <<MIX
#!/bin/sh
case \$OMPI_COMM_WORLD_RANK in 0) export ZEPPELIN_CPU=plain ;; 1) grep -q avx2 /proc/cpuinfo && export ZEPPELIN_CPU=avx2 ;; esac
exec "$build/zeppelin-rank" "\$@"
MIX
chmod +x mixed
cp -r "$whole" mixed-run
rm -rf mixed-run/checkpoints/* mixed-run/metrics.jsonl mixed-run/outcome.json
run timeout 60 mpirun -np 4 ./mixed --ranks 4 "$tmp/mixed-run"
is "$(sed -n 's/.*"status": "\(.*\)",/\1/p' mixed-run/outcome.json)" "$(sed -n 's/.*"status": "\(.*\)",/\1/p' "$whole/outcome.json")" "ranks with plain, avx2 and avx512 kernels in one job make the same plans"
close "$whole" mixed-run 12
ok $? "and train to the same losses"
# a device file that is another one on some ranks
mkdir side0 side1
cp -r mixed-run side-run
rm -rf side-run/checkpoints/* side-run/metrics.jsonl side-run/outcome.json
for i in 0 1; do
    printf 'format: zeppelin-device/1.0\nflops: %s00e9\nattention_forward: 0.5\nattention_backward: 0.5\nlinear: 0.5\nmemory: 4GB\nmemory_bandwidth: 20GB/s\nport_bandwidth: 5GB/s\n' $((i + 1)) >side$i/device.yaml
done
sed -i 's|^\( *\)device: .*|\1device: ./device.yaml|' side-run/job.yaml
printf '#!/bin/sh\ncd "%s/side$((OMPI_COMM_WORLD_RANK / 2))" || exit 1\nexec "%s/zeppelin-rank" "$@"\n' "$tmp" "$build" >apart
chmod +x apart
run timeout 60 mpirun -np 4 ./apart --ranks 4 "$tmp/side-run"
like "$(cat side-run/outcome.json)$out$err" "what plan.device './device.yaml' says \\(its digest\\) differs from rank 0's [0-9a-f]+ on 2 ranks: 2 \\([0-9a-f]+\\) 3 \\([0-9a-f]+\\)" "a device file that differs on some ranks is named"
done_testing
