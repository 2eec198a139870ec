#!/usr/bin/env bash
# `zeppelin status`, `logs`, `wait` and `cancel` for runs on this machine: while they run, when they have ended, when they died.
# timeout: 120
. "$(dirname "$0")/../lib/tap.sh"
[ -x "$build/zeppelin-rank" ] || skip_all "built without MPI"
cd "$tmp" || exit 1

run "$zeppelin" data --suffix .h --context 512 --heldout 20 --max-bytes 500kB -o set "$top"
ok "$status" "a data set"
cat >job.yaml <<'JOB'
name: t
cluster: {topology: 'synthetic: nodes:1 dev:2 kind:cpu', timeout: 20s, grace: 20s}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 100000, tokens: 1k, warmup: 2, eval_tokens: 0}
checkpoint: {every: 20}
log: {every: 5}
JOB
# field NAME: of the first run in $out
field()
{
    python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0][sys.argv[1]])' "$1" <<<"$out"
}
# start: a run in the background until it has made some steps; sets $launcher and $dir
start()
{
    local old
    old=$(ls -td runs/t-* 2>/dev/null | head -n 1)
    "$zeppelin" run job.yaml >run.out 2>run.err &
    launcher=$!
    for _ in $(seq 300); do
        dir=$(ls -td runs/t-* 2>/dev/null | head -n 1)
        [ "$dir" != "$old" ] && [ "$(grep -c '"kind":"step"' "$dir/metrics.jsonl" 2>/dev/null)" -ge 25 ] 2>/dev/null && break
        sleep 0.05
    done
}

run "$zeppelin" status
ok "$status" "status without any run"
like "$err" 'there are no runs of yours' "says so"

start
run "$zeppelin" status "$dir"
ok "$status" "status by folder"
like "$out" 'state +runs on ' "it runs"
like "$out" "progress +step [0-9]+ of 100000, loss [0-9.]+, [0-9]+ tokens/s, 2 ranks on 1 node" "how far"
like "$out" "checkpoint +step-[0-9]+, [0-9]+ s ago; the next at step [0-9]+0, in about [0-9]+ s" "the checkpoints"
like "$out" "end +about .*, in " "the end"
id=$(basename "$dir")
run "$zeppelin" status --json "$id"
is "$(field state) $(field backend) $(field run)" "running local $id" "status --json by id"
[ "$(field step)" -ge 20 ] && [ "$(field next_checkpoint)" -gt "$(field step)" ] && [ "$(field exit_status)" = None ]
ok $? "with numbers"
run "$zeppelin" status
like "$out" "^$id +- +running +[0-9]+/100000 " "the list"
timeout 60 "$zeppelin" logs -f "$id" >logs.out 2>logs.err &
follower=$!
timeout 60 "$zeppelin" wait "$id" >wait.out 2>wait.err &
waiter=$!
sleep 0.5
run "$zeppelin" cancel "$id"
ok "$status" "cancel"
like "$err" "process $launcher on .* stops after its step, with a checkpoint" "says what it does"
wait $launcher
is $? 75 "the run stops with a checkpoint"
wait $waiter
is $? 75 "wait exits as the run did"
like "$(cat wait.err)" 'stopped on request after step' "and says why"
wait $follower
ok $? "logs -f ends with the run"
for f in logs.out "$dir/log"; do
    like "$(cat $f)" 'step [0-9]*5/100000  loss' "$f has the progress"
    like "$(cat $f)" 'stopping after this step' "and what happened"
done
run "$zeppelin" status "$id"
like "$out" 'state +stopped: stopped on request after step [0-9]+ of 100000, exit status 75' "status afterwards"
unlike "$out" 'the next at' "has no next checkpoint"
run "$zeppelin" status --json "$id"
is "$(field state) $(field exit_status)" "stopped 75" "and for programs"
run "$zeppelin" cancel "$id"
like "$err" 'it does not run: nothing to stop' "there is nothing to cancel then"
ok "$status" "which is no error"
run "$zeppelin" wait "$id"
is "$status" 75 "nor to wait for"

# all of it is killed at once, the command first: nobody could say how it ended
start
mapfile -t all < <(pgrep -f "zeppelin-rank .*$tmp/$dir")
kill -9 $launcher "${all[@]}"
wait $launcher 2>/dev/null
run "$zeppelin" status "$dir"
like "$out" "state +lost: its process $launcher on .* is gone" "a run that was killed"
run "$zeppelin" wait "$dir"
is "$status" 76 "wait: status 76"
like "$err" "the run left no outcome: its process $launcher on .* is gone" "it says why"
# at once
start
run "$zeppelin" cancel --now "$dir"
like "$err" 'was told to end now' "cancel --now"
wait $launcher
run "$zeppelin" status --json "$dir"
like "$(field state)" '^(lost|stopped)$' "ends it"

# another machine's
cp -r "$dir" elsewhere
printf '{"token": "x", "host": "elsewhere", "boot": "b", "pid": 7}' >elsewhere/lock
run "$zeppelin" status elsewhere
like "$out" 'as its lock says: process 7 on elsewhere cannot be seen from this machine' "a run on another machine"
run "$zeppelin" cancel elsewhere
is "$status" 3 "cannot be cancelled from here: status 3"
like "$err" 'runs as process 7 on elsewhere, .*give the command there' "it says where"

# bad input
for verb in status logs wait cancel; do
    run "$zeppelin" $verb nothing
    is "$status" 2 "$verb of what is not there: status 2"
    like "$err" 'nothing: no such run folder' "it says so"
    run "$zeppelin" $verb set
    is "$status" 2 "$verb of what is no run folder: status 2"
done
run "$zeppelin" logs
like "$err" 'no JOB' "logs needs a JOB"
cp -r "$dir" newer
sed -i 's,zeppelin-run/1.0,zeppelin-run/2.0,' newer/run.json
run "$zeppelin" status newer
is "$status" 4 "a run folder of a newer major version is refused"
sed -i 's,zeppelin-run/2.0,zeppelin-run/1.0,; s,"backend": "local","backend": "carrier pigeon",' newer/run.json
run "$zeppelin" status newer
like "$err" "run.json says backend 'carrier pigeon': this version does not know it" "a backend of a newer version"
done_testing
