#!/usr/bin/env bash
# On a real Slurm of four nodes, as an ordinary user: topology, runs in an allocation, submitted jobs, stopping, lost nodes, a controller that is down.
# timeout: 600
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    exec 3>&1
    reason=$("$here/../bed/slurm" --nodes 4 --cores 4 --gpus 2 -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
    status=$?
    if [ $status -eq 77 ]; then
        echo "1..0 # SKIP $reason"
        exit 0
    fi
    [ -z "$reason" ] || printf '%s\n' "$reason" >&2
    exit $status
fi
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
probe=$build/tests/mpi/train-probe

# Before anything is asked of a cluster: is it the bed's own?
ours()
{
    [ "$(scontrol show config | sed -n 's/^ClusterName *= //p')" = "$BED_CLUSTER" ] || { echo "Bail out! another cluster answers"; exit 1; }
}
ours

is "$(id -un)" zepuser "an ordinary user"

# --- topology ---
run "$zeppelin" topo --slurm
ok "$status" "topo --slurm"
like "$out" '4 nodes' "it shows four nodes"
like "$out" '1 socket x 4 cores, .*2 GPUs h200' "sockets, cores and GPUs"
like "$out" 'leaf0: zep\[0-1\]' "it shows the switch tree"
run "$zeppelin" topo --slurm --yaml -o topo.yaml
ok "$status" "topo --slurm --yaml"
run "$zeppelin" topo --file topo.yaml --yaml -o again.yaml
cmp -s topo.yaml again.yaml
ok $? "what YAML writes, YAML reads back identically"
run "$zeppelin" topo --slurm --svg -o topo.svg
ok "$status" "a picture of the cluster"
run salloc -Q -N2 --ntasks-per-node=2 "$zeppelin" topo
like "$out" '2 nodes' "inside an allocation its own nodes are shown"

# --- data and a job ---
run "$zeppelin" data --suffix .h --context 512 --heldout 20 -o set "$top"
ok "$status" "a data set"
cat >job.yaml <<'JOB'
format: zeppelin-job/1.0
name: bed
cluster: {nodes: 2, devices: 2, grace: 20s, timeout: 20s}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 8, tokens: 1k, seed: 3, warmup: 2, eval_tokens: 2k}
plan: {capacity: 384}
log: {every: 4}
JOB

losses()
{
    sed -n 's/.*"kind":"step".*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/p' "$1/metrics.jsonl"
}
rundir()
{
    ls -td runs/bed-* | head -n 1
}
# close A B: the same steps, losses within 1e-4
close()
{
    paste -d' ' <(losses "$1") <(losses "$2") | awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 1e-8 { bad = 1 } END { exit bad || NR == 0 }'
}

# the same on "this machine": one virtual node layout under mpirun
mpi_env
run timeout 120 "$zeppelin" run --set cluster.where=local --set 'cluster.topology=synthetic: nodes:2 dev:2 nic:1 kind:cpu' job.yaml
ok "$status" "a run under mpirun"
[ "$status" -eq 0 ] || diag "$err"
local_run=$(rundir)

# --- in an allocation ---
sleep 1
run salloc -Q -N2 --ntasks-per-node=2 "$zeppelin" run job.yaml
ok "$status" "a run in an allocation, by srun"
[ "$status" -eq 0 ] || diag "$err"
srun_run=$(rundir)
close "$local_run" "$srun_run"
ok $? "its losses are those of the run under mpirun"
like "$(cat "$srun_run/run.json")" '"backend": "slurm"' "the run folder says that it was Slurm"
like "$(cat "$srun_run/topology.yaml")" 'slurm cluster' "and which nodes"
sleep 1
run salloc -Q -N2 --ntasks-per-node=2 "$zeppelin" run --set cluster.launcher=mpirun job.yaml
ok "$status" "a run in an allocation, by mpirun"
[ "$status" -eq 0 ] || diag "$err"
close "$local_run" "$(rundir)"
ok $? "its losses are the same"

# by_srun ARGUMENT...: a step; one that does not get going in two minutes (PMIx on a machine with too few cores) is told and tried once more
by_srun()
{
    run timeout 120 srun --mpi=pmix "$@"
    if [ "$status" -eq 124 ]; then
        diag "srun $*: no end in 120 s, tried again" "$err" "$(ps -eo pid,stat,wchan:20,time,args | grep -E '[t]rain-probe|[s]lurmstepd' | head -n 20)"
        run timeout 120 srun --mpi=pmix "$@"
    fi
}

if [ -x "$probe" ]; then
    run "$probe" data "$tmp/data"
    for layout in "base:nodes:1 dev:1:1200" "four:nodes:2 dev:2 nic:1:300" "eight:nodes:4 dev:2 nic:1:150"; do
        name=${layout%%:*} cap=${layout##*:} topology=${layout#*:}
        topology=${topology%:*}
        cat >"$name.yaml" <<JOB
cluster: {topology: 'synthetic: $topology'}
model: {vocab: 64, hidden: 64, layers: 3, heads: 4, kv_heads: 2, head_dim: 16, ffn: 128, init_std: 0.15}
data: {train: $tmp/data, context: 600}
train: {tokens: 1200, seed: 31, eval_tokens: 0}
plan: {capacity: $cap}
JOB
    done
    by_srun -N1 -n1 "$probe" run base.out base.yaml --steps 1 --gradient-at 1
    ok "$status" "one rank under srun"
    by_srun -N2 -n4 --ntasks-per-node=2 "$probe" run four.out four.yaml --steps 1 --gradient-at 1
    run "$probe" compare base.out four.out 1e-5 1e-5
    ok "$status" "gradients of 4 ranks on 2 nodes under srun"
    diag "$out"
    by_srun -N4 -n8 --ntasks-per-node=2 "$probe" run eight.out eight.yaml --steps 1 --gradient-at 1
    run "$probe" compare base.out eight.out 1e-5 1e-5
    ok "$status" "gradients of 8 ranks on 4 nodes under srun"
    diag "$out"
fi

# --- submitted ---
run "$zeppelin" submit --dry-run job.yaml
ok "$status" "submit --dry-run"
like "$out" '^#SBATCH --ntasks-per-node=2$' "it prints the batch script"
before=$(ls runs | wc -l)
run "$zeppelin" submit --dry-run job.yaml
is "$(ls runs | wc -l)" "$before" "and makes nothing"
run timeout 120 "$zeppelin" submit --wait job.yaml
ok "$status" "submit --wait"
[ "$status" -eq 0 ] || diag "$err $(cat "$(rundir)"/slurm-*.out)"
like "$(head -n 1 <<<"$out")" '^[0-9]+$' "it prints the job id"
like "$out" 'step 8 of 8, done' "and at the end the report"
close "$local_run" "$(rundir)"
ok $? "its losses are the same"
jobid=$(head -n 1 <<<"$out")
run "$zeppelin" report "$jobid"
like "$out" 'step 8 of 8, done' "report by job id"

run timeout 120 "$zeppelin" submit --wait --set cluster.export=NONE job.yaml
ok "$status" "a job that takes no environment along"
[ "$status" -eq 0 ] || diag "$err $(cat "$(rundir)"/slurm-*.out)"

# USR1 to the batch script: a checkpoint, back into the queue, and on to the end
run "$zeppelin" submit --set train.steps=4000 job.yaml
jobid=$out
dir=$(rundir)
for _ in $(seq 150); do
    [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 3 ] && break
    sleep 0.2
done
ours
scancel --signal=USR1 --batch "$jobid"
for _ in $(seq 150); do
    grep -q '"status": "stopped"\|ESTOPPED' "$dir/outcome.json" 2>/dev/null && break
    sleep 0.2
done
like "$(cat "$dir/outcome.json" 2>/dev/null)" 'stopped on request' "a signal to the batch script stops the run with a checkpoint"
stopped=$(losses "$dir" | tail -n 1 | cut -d' ' -f1)
for _ in $(seq 200); do
    [ "$(losses "$dir" | tail -n 1 | cut -d' ' -f1)" -gt "$((stopped + 2))" ] && break
    sleep 0.3
done
[ "$(losses "$dir" | tail -n 1 | cut -d' ' -f1)" -gt "$((stopped + 2))" ]
ok $? "the job goes back into the queue and on from there"
like "$(cat "$dir/run.json")" '"attempt": 2' "as a second attempt of the same run"
ours
scancel "$jobid"
for _ in $(seq 50); do
    [ -z "$(squeue -h -j "$jobid" -t R,CG 2>/dev/null)" ] && break
    sleep 0.2
done

# a node dies: one message, and nobody hangs
(
    salloc -Q -N2 --ntasks-per-node=2 "$zeppelin" run --set train.steps=4000 job.yaml >lost.out 2>lost.err
    echo $? >lost.status
) &
waiter=$!
for _ in $(seq 150); do
    dir=$(rundir)
    [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 3 ] && [ ! -e "$dir/outcome.json" ] && break
    sleep 0.2
done
victim=$(pgrep -u "$(id -u)" -f 'zeppelin-rank --attempt' | tail -n 1)
start=$(date +%s)
kill -9 "$victim"
for _ in $(seq 300); do
    [ -s lost.status ] && break
    sleep 0.1
done
is "$(cat lost.status 2>/dev/null)" 76 "a killed rank ends the run with status 76"
[ $(($(date +%s) - start)) -le 30 ]
ok $? "within 30 s"
like "$(cat lost.err)" 'rank [0-9]+ on [a-z0-9]+ was lost: ended by signal 9 .*in phase [a-z]+' "the message names rank and phase"
is "$(grep -c 'was lost' lost.err)" 1 "once"
wait $waiter

# --- srun or mpirun is killed: its step is not left behind, nor the folder given to others before ---
for launcher in srun mpirun; do
    old=$(rundir)
    (
        # shellcheck disable=SC2016 # for the shell in the allocation
        salloc -Q -N2 --ntasks-per-node=2 sh -c '"$0" run --set cluster.launcher="$1" --set train.steps=100000 job.yaml >killed.out 2>killed.err; pgrep -f "^[^ ]*/zeppelin-rank --attempt" >killed.left' "$zeppelin" $launcher
    ) &
    waiter=$!
    for _ in $(seq 150); do
        dir=$(rundir)
        [ "$dir" != "$old" ] && [ "$(losses "$dir" 2>/dev/null | wc -l)" -ge 2 ] && break
        sleep 0.2
    done
    if [ $launcher = srun ]; then
        run env SQUEUE_STATES=PENDING "$zeppelin" run --set cluster.where=local --set 'cluster.topology=synthetic: nodes:2 dev:2' --resume "$dir"
        is "$status" 4 "a filter in squeue's environment does not make a running job's folder free"
        # as from another host: the controller's word decides
        sed -i 's/"host": "[^"]*"/"host": "elsewhere"/' "$dir/lock"
        run env SQUEUE_STATES=PENDING "$zeppelin" run --set cluster.where=local --set 'cluster.topology=synthetic: nodes:2 dev:2' --resume "$dir"
        is "$status" 4 "nor one whose holder is on another host"
    fi
    for pid in $(pgrep -u "$(id -u)" -f "^$launcher .*/zeppelin-rank --attempt"); do kill -9 "$pid"; done
    wait $waiter
    is "$(cat killed.left)" "" "$launcher is killed: no rank is left when the command ends"
    [ ! -e "$dir/lock" ]
    ok $? "and the lock is gone"
done

# --- the controller is down ---
bed-ctl stop-controller
start=$(date +%s)
run "$zeppelin" topo --slurm
is "$status" 3 "topo with the controller down: status 3"
like "$err" 'controller' "it says so"
run "$zeppelin" submit job.yaml
is "$status" 3 "submit with the controller down: status 3"
before=$(ls runs | wc -l)
run "$zeppelin" submit job.yaml
is "$(ls runs | wc -l)" "$before" "it leaves no run folder behind"
[ $(($(date +%s) - start)) -le 120 ] # three commands, each with ten seconds of patience
ok $? "within seconds"
bed-ctl start-controller
done_testing
