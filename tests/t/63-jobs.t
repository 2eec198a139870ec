#!/usr/bin/env bash
# Jobs over their whole life on a real Slurm: refused before they are in the queue, submitted, watched, logged, cancelled; sweeps, chains, hostile names, other users' jobs, forgotten ones.
# timeout: 400
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    exec 3>&1
    other=$(mktemp) || exit 1
    # a job that is not the user's
    echo 'sbatch -Q -N1 --job-name=other -o /dev/null --wrap "sleep 1000"' >"$other"
    reason=$("$here/../bed/slurm" --nodes 4 --cores 4 --gpus 2 --root-cmd "$other" -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
    status=$?
    rm -f "$other"
    if [ $status -eq 77 ]; then
        echo "1..0 # SKIP $reason"
        exit 0
    fi
    [ -z "$reason" ] || printf '%s\n' "$reason" >&2
    exit $status
fi
. "$(dirname "$0")/../lib/tap.sh"
[ -x "$build/zeppelin-rank" ] || skip_all "built without MPI"
[ "$(scontrol show config | sed -n 's/^ClusterName *= //p')" = "$BED_CLUSTER" ] || { echo "Bail out! another cluster answers"; exit 1; }
cd "$tmp" || exit 1

run "$zeppelin" data --suffix .h --context 512 --heldout 20 --max-bytes 500kB -o set "$top"
ok "$status" "a data set"
cat >job.yaml <<'JOB'
name: job
cluster: {nodes: 2, devices: 2, grace: 20s, timeout: 20s}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 6, tokens: 1k, seed: 3, warmup: 2, eval_tokens: 0}
plan: {capacity: 384}
checkpoint: {every: 20}
log: {every: 1}
JOB
# submit OPTIONS...: sets $id and $dir
submit()
{
    id=$("$zeppelin" submit "$@" job.yaml 2>submit.err) || { diag "$(cat submit.err)"; id=0; }
    dir=$(sed -n 's/^zeppelin: job .*, run folder //p' submit.err | tail -n 1)
}
steps()
{
    grep -c '"kind":"step"' "$1/metrics.jsonl" 2>/dev/null || true
}
# until_steps DIR N
until_steps()
{
    for _ in $(seq 200); do
        [ "$(steps "$1")" -ge "$2" ] 2>/dev/null && break
        sleep 0.1
    done
}
# until_state ID STATES
until_state()
{
    for _ in $(seq 200); do
        [[ " $2 " == *" $(squeue -h -t all -o %T -j "$1" 2>/dev/null) "* ]] && break
        sleep 0.1
    done
}
field()
{
    python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0][sys.argv[1]])' "$1" <<<"$out"
}

# --- what Slurm could never start ---
foreign=$(squeue -h -o %i -n other)
for case in "cluster.partition=nope;invalid partition specified: nope" "cluster.nodes=9;Requested node configuration is not available" "cluster.gpus_per_node=3;Requested node configuration is not available" \
    "cluster.constraint=fast;Invalid feature specification" "cluster.time=3h;cluster.time: 3 h 0 min: the partition gives at most 60 min"; do
    run "$zeppelin" submit --set "${case%%;*}" job.yaml
    case $case in cluster.time*) want=2 ;; *) want=3 ;; esac
    is "$status" $want "${case%%;*}: status $want"
    like "$err" "${case#*;}" "with the reason"
    [ $want -eq 2 ] || like "$err" 'there is: partition main \(the default\): [34] nodes of 4 cores and 2 GPUs \(h200\), for at most 60 min' "and what would fit"
done
is "$(ls runs 2>/dev/null | wc -l)" 0 "no run folder is left"
is "$(squeue -h -t all -u "$(id -un)" | wc -l)" 0 "and nothing was ever in the queue"
for case in "--slurm output=x;gives this option itself" "--slurm Exclusive;expected the long name" "--slurm dependency=1;use --chain" "--chain 0;expected" "--sweep train.lr;expected KEY=VALUE" "--sweep cluster.nodes=1,2;are one array" \
    "--sweep train.lr=1,,2;an empty value" "--sweep train.lr=1,2 --wait;goes with neither" "--at-once 2;needs --sweep" "--slurm bogus=1;unrecognized option"; do
    # shellcheck disable=SC2086 # options
    run "$zeppelin" submit ${case%%;*} job.yaml
    [ "$status" -ne 0 ]
    ok $? "submit ${case%%;*} is refused"
    like "$err" "${case#*;}" "with the reason"
done

# --- a job of names that would run something ---
hostile="it's \"a\" \$(touch bad) %j é"
mkdir "$hostile"
cp -r set "$hostile"
(
    cd "$hostile" || exit
    "$zeppelin" submit --slurm comment="$hostile",mail-type=NONE --slurm exclusive --set run_root="$hostile" --wait ../job.yaml >../hostile.out 2>../hostile.err
    echo $? >../hostile.status
)
is "$(cat hostile.status)" 0 "a job in a folder with quotes, blanks, \$(), % and é"
[ "$(cat hostile.status)" = 0 ] || diag "$(cat hostile.err)"
dir=$(ls -td "$hostile/$hostile"/job-* | head -n 1)
[ -s "$dir/slurm-$(head -n 1 hostile.out).out" ]
ok $? "its output is where it belongs"
is "$(find . -name 'bad*')" "" "and nothing was run"
is "$(scontrol show job "$(head -n 1 hostile.out)" | sed -n 's/^ *Comment=\(.*[^ ]\) *$/\1/p')" "$hostile" "the option arrives unharmed"
grep -qx '#SBATCH --exclusive' "$dir/batch.sh"
ok $? "one without a value, too"
run "$zeppelin" status "$(head -n 1 hostile.out)"
like "$out" 'state +done' "status finds it"
run "$zeppelin" logs "$dir"
like "$out" 'step 6/6  loss' "and logs"

# --- what is shown is what is submitted ---
cp -r "$dir" other-folder
run "$zeppelin" submit --dry-run --slurm constraint=,qos= --switches 1 --set cluster.nodes=2 job.yaml
cp out dry
like "$out" '^#SBATCH --switches=1$' "--switches"
submit --switches 1 --set cluster.nodes=2
cmp <(sed "s/job-[0-9]*-[0-9]*-[0-9a-f]*/job-ID/g" "$dir/batch.sh") dry
ok $? "--dry-run prints the script that is submitted, byte for byte"
done_id=$id done_dir=$dir
run timeout 60 "$zeppelin" wait "$id"
ok "$status" "wait by job id"
like "$err" "step 6/6" "shows progress"
run "$zeppelin" status "$BED_CLUSTER:$id"
like "$out" 'state +done' "status by CLUSTER:ID"

# --- life of a job ---
submit --set train.steps=100000
until_steps "$dir" 22
run "$zeppelin" status "$id"
like "$out" 'state +runs on zep\[?[0-9,-]+\]? since ' "status: where it runs"
like "$out" 'end +about .*; its time is over at [^,]*, before that: it stops then with a checkpoint|end +about .*; its time is over at ' "and when it ends"
timeout 60 "$zeppelin" logs -f "$id" >follow.out 2>follow.err &
follower=$!
long=$id long_dir=$dir
# one that waits: all four nodes for itself
submit --slurm exclusive --set cluster.nodes=4
run "$zeppelin" status "$id"
like "$out" 'state +waits: ' "status of one that waits"
until_state "$id" PENDING
sleep 3
run "$zeppelin" status --fresh "$id"
like "$out" 'state +waits: (it is next, and waits for nodes to become free \(Resources\)|jobs of higher priority are ahead of it \(Priority\))' "in plain words"
run "$zeppelin" status --json "$id"
is "$(field state) $(field backend_state)" "waiting PENDING" "and for programs"
run "$zeppelin" status
like "$out" "$(basename "$long_dir") +$long +running" "the list has the one"
like "$out" "$(basename "$dir") +$id +waiting" "and the other"
run "$zeppelin" submit --resume "$long_dir"
is "$status" 4 "a run that has not ended is not submitted again"
run "$zeppelin" cancel "$id"
like "$err" "job $id was taken out of the queue" "cancel of one that waits"
run timeout 20 "$zeppelin" wait "$id"
is "$status" 143 "wait for it: status 143"
like "$err" 'it was cancelled while it waited' "with the reason"
run "$zeppelin" status "$id"
like "$out" 'state +cancelled: it was cancelled while it waited' "status, too"

# one question for all, kept for 15 s
mkdir count
cat >count/squeue <<COUNT
#!/bin/sh
echo x >>"$tmp/asked"
exec $(command -v squeue) "\$@"
COUNT
chmod +x count/squeue
rm -f asked state/zeppelin/squeue
for _ in 1 2 3 4; do PATH=$tmp/count:$PATH "$zeppelin" status >/dev/null; done
is "$(wc -l <asked)" 1 "four times status ask the controller once"
PATH=$tmp/count:$PATH "$zeppelin" status --fresh >/dev/null
is "$(wc -l <asked)" 2 "--fresh asks"

run "$zeppelin" cancel "$long"
like "$err" "job $long stops after its step, with a checkpoint" "cancel of one that runs"
run timeout 60 "$zeppelin" wait "$long"
is "$status" 75 "it stops with a checkpoint"
wait $follower
ok $? "logs -f ends with it"
like "$(cat follow.out)" 'Terminated: stopping after this step' "and showed it all"
sleep 1
is "$(squeue -h -j "$long" -t PD,R -o %T 2>/dev/null)" "" "it does not go back into the queue"
# the grace grows with the steps: as if each had taken 40 s
cp "$long_dir/metrics.jsonl" metrics.kept
sed -i 's/\("kind":"step".*"time_s":\)[0-9.e-]*/\140/' "$long_dir/metrics.jsonl"
run "$zeppelin" submit --resume "$long" --dry-run
like "$out" '^#SBATCH --signal=B:USR1@(9[5-9]|1[01][0-9])$' "submit --resume: the grace is what steps and checkpoints need"
like "$err" 'ask for a grace of [0-9]+ s \(cluster.grace was 20 s\)' "which is said"
run "$zeppelin" submit --resume "$long" --dry-run --set cluster.time=2m
like "$out" '^#SBATCH --signal=B:USR1@59$' "as far as the time limit has room"
like "$err" 'warning: .*has room for 59 s' "with a warning"
run "$zeppelin" submit --resume "$long" --dry-run --set cluster.grace=25s
like "$out" '^#SBATCH --signal=B:USR1@25$' "--set cluster.grace counts more"
cp metrics.kept "$long_dir/metrics.jsonl"
echo "step 20" >"$long_dir/requeued"
run timeout 60 "$zeppelin" submit --resume "$long" --set train.steps=$(($(steps "$long_dir") + 2)) --wait
ok "$status" "submit --resume goes on with it"
[ ! -e "$long_dir/requeued" ]
ok $? "and may go back into the queue again"
[ "$status" -eq 0 ] || diag "$err"
like "$(cat "$long_dir/metrics.jsonl")" '"kind":"start","attempt":2,"step":[1-9]' "from its checkpoint"
is "$(wc -l <"$long_dir/slurm-job")" 2 "as a second job of the run"

# --- not the user's, not there, forgotten ---
run "$zeppelin" status "$foreign"
ok "$status" "status of another user's job"
like "$out" 'of user root, and no run folder of it can be seen here' "says whose it is"
run "$zeppelin" cancel "$foreign"
is "$status" 4 "cancel of it: status 4"
like "$err" "job $foreign belongs to root: only its user or an administrator can cancel it" "with the reason"
run "$zeppelin" logs "$foreign"
is "$status" 2 "logs of it: status 2"
run "$zeppelin" status 4711
is "$status" 2 "a job id that is unknown: status 2"
like "$err" '4711: no such run folder.*no controller that knows it' "with the reason"
cp -r "$done_dir" forgotten
echo 4711 >forgotten/slurm-job
run "$zeppelin" status forgotten
like "$out" 'state +done' "a job that the controller has forgotten is answered from the run folder"
rm forgotten/outcome.json
run "$zeppelin" status forgotten
like "$out" 'state +unknown: unknown to the controller' "without an outcome: unknown to the controller"
mkdir fake
printf '#!/bin/sh\necho "TIMEOUT|0:0|zep[0-1]"\n' >fake/sacct
chmod +x fake/sacct
run env PATH="$tmp/fake:$PATH" "$zeppelin" status forgotten
like "$out" 'state +lost: the time limit ended it, accounting says' "else by sacct"
run env PATH="$tmp/fake:$PATH" "$zeppelin" wait forgotten
is "$status" 76 "wait, too"

# --- another cluster (there is no slurmdbd here: what is asked is looked at) ---
run "$zeppelin" submit -M elsewhere job.yaml
is "$status" 3 "a cluster that is not there: status 3"
like "$err" "elsewhere" "named"
cat >fake/sbatch <<'SB'
#!/bin/sh
case "$*" in *--test-only*) exit 0 ;; *"-M elsewhere"*) echo "77;elsewhere" ;; *) exit 1 ;; esac
SB
cat >fake/squeue <<'SQ'
#!/bin/sh
case "$*" in *"-M elsewhere"*) echo "77|77|PENDING|zepuser|2026-12-02T18:00:00|N/A|N/A||Priority|x" ;; *) exit 1 ;; esac
SQ
chmod +x fake/*
run env PATH="$tmp/fake:$PATH" "$zeppelin" submit -M elsewhere job.yaml
is "$out" 77 "submitted to another cluster"
[ "$status" -eq 0 ] || diag "$err"
run env PATH="$tmp/fake:$PATH" "$zeppelin" status elsewhere:77
like "$out" 'jobs of higher priority are ahead of it' "it is asked there"
like "$out" 'job +77 on elsewhere, PENDING' "and named so"
rm fake/sbatch fake/squeue

# --- a sweep and a chain ---
run "$zeppelin" submit --sweep train.lr=0.001,0.003 --sweep train.seed=1,2 --at-once 2 --set cluster.nodes=1 job.yaml
ok "$status" "a sweep"
mapfile -t sweep <<<"$out"
is "${#sweep[@]}" 4 "of two keys with two values each: four runs"
mapfile -t sweep_dirs < <(sed -n 's/^zeppelin: job .*, run folder //p' <<<"$err")
is "$(for d in "${sweep_dirs[@]}"; do sed -n 's/^  \(lr\|seed\): //p' "$d/job.yaml" | tr '\n' ' '; done)" "1 0.001 2 0.001 1 0.003 2 0.003 " "each with its own values"
submit --chain 3 --set train.steps=600
mapfile -t chain <<<"$id"
is "${#chain[@]}" 3 "a chain of three jobs"
like "$(scontrol show job "${chain[1]}" | grep -o 'Dependency=[^ ]*')" "afterany:${chain[0]}" "one after the other"
until_steps "$dir" 5
# what Slurm does when the time limit comes near
scancel --signal=USR1 --batch "${chain[0]}"
run timeout 120 "$zeppelin" wait "$dir"
ok "$status" "the chain goes on to the end"
[ "$status" -eq 0 ] || diag "$err $(cat "$dir"/slurm-*.out)"
like "$(cat "$dir/run.json")" "\"job\": \"${chain[1]}\"" "in the second job"
until_state "${chain[2]}" "CANCELLED"
is "$(squeue -h -t all -o %T -j "${chain[2]}")" CANCELLED "and the third is taken out of the queue"
run "$zeppelin" status "$dir"
like "$out" 'state +done' "status of the chain"
for i in 0 1 2 3; do
    run timeout 60 "$zeppelin" wait "${sweep[$i]}"
    ok "$status" "run $i of the sweep"
done
like "$(cat "${sweep_dirs[3]}/slurm-${sweep[3]}.out")" 'step 6/6' "its log is its own"

# --- inside allocations ---
run salloc -Q -N2 --ntasks-per-node=2 srun -N2 -n4 "$zeppelin" run job.yaml
like "$err" 'was started as task [0-3] of 4 by srun, and each would start all ranks' "zeppelin run as one of several tasks is refused"
[ "$status" -ne 0 ]
ok $? "with a status"
for launcher in srun mpirun; do
    run timeout 60 salloc -Q -N2 --ntasks-per-node=2 srun -N1 -n1 -c2 --mpi=none "$zeppelin" run --set cluster.launcher=$launcher --set cluster.devices=2 job.yaml
    ok "$status" "inside an interactive step, by $launcher: the ranks' step overlaps it"
    [ "$status" -eq 0 ] || diag "$err"
done
run salloc -Q -N2 --gpus-per-node=2 --ntasks-per-node=2 "$zeppelin" run --dry-run --set cluster.gpus_per_node=2 job.yaml
like "$out" 'srun .*--gpus-per-node=2 --gpu-bind=none ' "no binding hides the GPUs of a node's other ranks"

# --- requeue that is disabled, and no progress ---
submit --slurm no-requeue --set train.steps=100000
until_steps "$dir" 3
scancel --signal=USR1 --batch "$id"
run timeout 60 "$zeppelin" wait "$id"
is "$status" 75 "requeue is disabled: status 75"
like "$(cat "$dir/slurm-$id.out")" 'the job cannot be requeued here; go on with: zeppelin submit --resume' "and it says so"

# --- a controller that does not answer ---
bed-ctl stop-controller
run "$zeppelin" status --fresh "$dir"
ok "$status" "the controller is down: a run that has ended is answered from its folder"
like "$out" 'state +stopped' "as ever"
rm -f "$dir"/slurm-*.end
run "$zeppelin" status --fresh "$dir"
is "$status" 3 "one of which it would have to be asked: status 3"
like "$out" 'stopped on request.*whether it goes on is not known' "what is known is shown"
like "$err" 'the controller gives no answer' "and the reason"
run "$zeppelin" cancel "$dir"
is "$status" 3 "cancel: status 3"
bed-ctl start-controller
done_testing
