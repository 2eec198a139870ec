#!/usr/bin/env bash
# Signals and faults on a real Slurm, each under srun and under mpirun: what zeppelin-submit(1) says of them. Two jobs run side by side, one of each.
# timeout: 500
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    exec 3>&1
    reason=$("$here/../bed/slurm" --nodes 6 --cores 4 --preempt -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
    status=$?
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
cluster: {nodes: 2, devices: 2, grace: 20s, timeout: 8s}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 100000, tokens: 1k, seed: 3, warmup: 2, eval_tokens: 0}
plan: {capacity: 600}
checkpoint: {every: 10}
log: {every: 1000}
JOB
declare -A id dir
launchers="srun mpirun"
last_step()
{
    sed -n 's/.*"kind":"step","attempt":[0-9]*,"step":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" 2>/dev/null | tail -n 1
}
# started DIR ATTEMPT: the step from which an attempt went on, "" it did not begin
started()
{
    sed -n "s/.*\"kind\":\"start\",\"attempt\":$2,\"step\":\([0-9]*\).*/\1/p" "$1/metrics.jsonl" 2>/dev/null
}
# until_true SECONDS COMMAND...
until_true()
{
    local n=$(($1 * 5))
    shift
    while [ $((n--)) -gt 0 ]; do
        "$@" && return 0
        sleep 0.2
    done
    return 1
}
beyond()
{
    [ "$(last_step "$1")" -gt "$2" ] 2>/dev/null
}
has_ended()
{
    [ -z "$(squeue -h -j "$1" -t PD,R,CF,S,CG -o %T 2>/dev/null)" ]
}
begins_again()
{
    [ -n "$(started "$1" "$2")" ]
}
ranks()
{
    pgrep -f "^[^ ]*/zeppelin-rank .*$1"
}
no_ranks()
{
    [ -z "$(ranks "$1")" ]
}
node_of()
{
    tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^SLURMD_NODENAME=//p'
}
# both OPTIONS...: a job by srun and one by mpirun, until they have trained 12 steps
both()
{
    local l
    for l in $launchers; do
        id[$l]=$("$zeppelin" submit --set cluster.launcher="$l" "$@" job.yaml 2>"$l.err")
        dir[$l]=$(sed -n 's/^zeppelin: job .*, run folder //p' "$l.err" | tail -n 1)
    done
    for l in $launchers; do until_true 60 beyond "${dir[$l]}" 12 || diag "$(cat "$l.err" "${dir[$l]}"/slurm-*.out)"; done
}
# what is asked of every job that was to end
ended()
{
    if until_true 40 has_ended "${id[$1]}"; then
        ok 0 "$2, $1: the job ends"
    else
        ok 1 "$2, $1: the job ends"
        diag "$(scontrol show job "${id[$1]}" | grep -E 'State|Restarts|Time'; tail -n 5 "${dir[$1]}"/slurm-*.out; grep -E "JobId=${id[$1]}( |$)" "$BED/log/slurmctld.log" | tail -n 15)"
    fi
    until_true 10 no_ranks "${dir[$1]}"
    ok $? "$2, $1: no rank is left"
    [ ! -e "${dir[$1]}/lock" ]
    ok $? "$2, $1: the run folder is free"
}
# what is asked of one that goes on: from a checkpoint, with at most ten steps lost
goes_on()
{
    local before=$3
    until_true 60 begins_again "${dir[$1]}" 2
    ok $? "$2, $1: the job begins again"
    [ "$(started "${dir[$1]}" 2)" -ge $((before - 10)) ] 2>/dev/null
    ok $? "$2, $1: at most ten steps are lost ($before, going on from $(started "${dir[$1]}" 2))"
    until_true 30 beyond "${dir[$1]}" "$before"
    ok $? "$2, $1: and trains on"
    unlike "$(cat "${dir[$1]}"/slurm-*.out)" 'damaged' "$2, $1: no checkpoint is corrupt"
}
outcome()
{
    sed -n 's/^ *"status": "\(.*\)",$/\1/p' "${dir[$1]}/outcome.json" 2>/dev/null
}
end_both()
{
    local l
    for l in $launchers; do scancel "${id[$l]}"; done
    for l in $launchers; do until_true 30 has_ended "${id[$l]}"; done
}

# --- preempted: Slurm itself requeues ---
declare -A at
both
for l in $launchers; do at[$l]=$(last_step "${dir[$l]}"); done
urgent=$(sbatch --parsable -p urgent -N 6 --exclusive -o /dev/null --wrap 'sleep 4')
waits()
{
    "$zeppelin" status --fresh "$1" | grep -q '^ *state  *waits: '
}
for l in $launchers; do
    until_true 20 waits "${id[$l]}"
    ok $? "preempted, $l: status says that it waits, though it was stopped"
    run "$zeppelin" submit --resume "${dir[$l]}"
    is "$status" 4 "preempted, $l: and it is not submitted a second time"
done
until_true 30 has_ended "$urgent"
ok $? "a job takes the place of both"
for l in $launchers; do goes_on $l "preempted" "${at[$l]}"; done
end_both

# the real time limit, meanwhile: two minutes, and Slurm may signal a minute early
limit_id=$("$zeppelin" submit --set cluster.nodes=1 --set cluster.time=95s --set cluster.grace=30s --set plan.capacity=auto job.yaml 2>limit.err)
limit_dir=$(sed -n 's/^zeppelin: job .*, run folder //p' limit.err)
[ -n "$limit_id" ] || diag "$(cat limit.err)"

# --- TERM to the script (zeppelin cancel); and to everything (scancel) ---
both
for l in $launchers; do "$zeppelin" cancel "${id[$l]}" 2>/dev/null; done
for l in $launchers; do
    run timeout 40 "$zeppelin" wait "${id[$l]}"
    is "$status" 75 "zeppelin cancel, $l: status 75"
    ended $l "zeppelin cancel"
done
both --set cluster.grace=5s
for l in $launchers; do
    mapfile -t stopped < <(ranks "${dir[$l]}")
    kill -STOP "${stopped[@]}"
    [ $l = srun ] && scancel --batch --signal=USR1 "${id[$l]}" # its time limit comes near, too
    "$zeppelin" cancel "${id[$l]}" 2>/dev/null
done
for l in $launchers; do
    run timeout 60 "$zeppelin" wait "${id[$l]}"
    is "$status" 76 "zeppelin cancel of a step that does not end, $l: status 76"
    ended $l "zeppelin cancel of a step that does not end"
    unlike "$(cat "${dir[$l]}"/slurm-*.out)" 'back into the queue' "zeppelin cancel of a step that does not end, $l: it stays cancelled"
done
both
for l in $launchers; do scancel "${id[$l]}"; done
for l in $launchers; do
    ended $l "scancel"
    is "$(squeue -h -t all -o %T -j "${id[$l]}")" CANCELLED "scancel, $l: it stays cancelled"
    like "$(outcome $l)" '^(stopped|peer lost|)$' "scancel, $l: a checkpoint, if there was time ($(outcome $l))"
    run timeout 20 "$zeppelin" wait "${id[$l]}"
    like "$status" '^(75|76|143)$' "scancel, $l: wait ends with a status that says so ($status)"
done

# --- USR1 and TERM to one rank ---
for signal in USR1 TERM; do
    both
    for l in $launchers; do kill -$signal "$(ranks "${dir[$l]}" | tail -n 1)"; done
    for l in $launchers; do
        run timeout 40 "$zeppelin" wait "${id[$l]}"
        is "$status" 75 "$signal to a rank, $l: all stop with a checkpoint: 75"
        ended $l "$signal to a rank"
    done
done

# --- an administrator requeues ---
both --slurm exclude=zep5
for l in $launchers; do
    at[$l]=$(last_step "${dir[$l]}")
    scontrol requeue "${id[$l]}"
done
for l in $launchers; do goes_on $l "scontrol requeue" "${at[$l]}"; done

# --- and the controller is restarted meanwhile ---
bed-ctl stop-controller
for l in $launchers; do at[$l]=$(last_step "${dir[$l]}"); done
sleep 2
for l in $launchers; do
    beyond "${dir[$l]}" "$((at[$l] + 1))"
    ok $? "without a controller, $l: the training goes on"
done
bed-ctl start-controller
for l in $launchers; do
    at[$l]=$(last_step "${dir[$l]}")
    until_true 20 beyond "${dir[$l]}" "$((at[$l] + 1))"
    ok $? "a new controller, $l: too"
done

# --- a rank is killed: back into the queue, without that node ---
declare -A lost
for l in $launchers; do
    victim=$(ranks "${dir[$l]}" | tail -n 1)
    lost[$l]=$(node_of "$victim")
    at[$l]=$(last_step "${dir[$l]}")
    kill -KILL "$victim"
done
for l in $launchers; do
    until_true 60 begins_again "${dir[$l]}" 3
    ok $? "a rank is killed, $l: the job begins again"
    log=$(cat "${dir[$l]}"/slurm-*.out)
    like "$log" "rank [0-9] on ${lost[$l]} was lost: ended by signal 9 \(Killed\)" "a rank is killed, $l: the message says where"
    is "$(grep -c 'was lost' <<<"$log")" 1 "a rank is killed, $l: once"
    like "$log" "zeppelin: without zep5,${lost[$l]}" "a rank is killed, $l: without that node, and those it did without before"
    is "$(scontrol show hostnames "$(scontrol show job "${id[$l]}" | sed -n 's/.*ExcNodeList=//p')" | sort | tr '\n' ' ')" "${lost[$l]} zep5 " "a rank is killed, $l: so says the controller"
    unlike "$(scontrol show hostnames "$(squeue -h -o %N -j "${id[$l]}")")" "^${lost[$l]}$" "a rank is killed, $l: which it does not get again"
    [ "$(started "${dir[$l]}" 3)" -ge $((at[$l] - 10)) ] 2>/dev/null
    ok $? "a rank is killed, $l: at most ten steps are lost"
done
# --- no new checkpoint since: not a second time ---
for l in $launchers; do
    # as if the job had been put back at the checkpoint that it will end with
    until_true 20 beyond "${dir[$l]}" "$(($(started "${dir[$l]}" 3) + 2))"
    mapfile -t stopped < <(ranks "${dir[$l]}")
    kill -STOP "${stopped[@]}"
    echo "step $(ls "${dir[$l]}/checkpoints" | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)" >"${dir[$l]}/requeued"
    kill -KILL "${stopped[-1]}"
    kill -CONT "${stopped[@]}" 2>/dev/null
done
for l in $launchers; do
    run timeout 60 "$zeppelin" wait "${id[$l]}"
    is "$status" 76 "no new checkpoint since the requeue, $l: status 76"
    like "$(cat "${dir[$l]}"/slurm-*.out)" 'no new checkpoint since the job went back into the queue: it does not go there a second time' "no new checkpoint, $l: it says so"
done

# --- a rank of one of a sweep's jobs is killed: that job goes back into the queue, and no other (the array's own id is the last one's, too) ---
mapfile -t sweep < <("$zeppelin" submit --sweep train.lr=0.001,0.002 --set cluster.nodes=1 --set plan.capacity=auto job.yaml 2>sweep.err)
mapfile -t sweep_dir < <(sed -n 's/^zeppelin: job .*, run folder //p' sweep.err)
for i in 0 1; do until_true 60 beyond "${sweep_dir[$i]}" 12 || diag "$(cat sweep.err "${sweep_dir[$i]}"/slurm-*.out)"; done
own=$(squeue -h -o '%i %A' -j "${sweep[0]%_*}" | awk -v a="${sweep[0]%_*}" '$2 == a { sub(/.*_/, "", $1); print $1 }')
kill -KILL "$(ranks "${sweep_dir[$own]}" | tail -n 1)"
until_true 60 begins_again "${sweep_dir[$own]}" 2
ok $? "a rank of a sweep is killed: its job begins again"
[ -z "$(started "${sweep_dir[$((1 - own))]}" 2)" ] && [ ! -e "${sweep_dir[$((1 - own))]}/slurm-${sweep[$((1 - own))]}.end" ]
ok $? "a rank of a sweep is killed: the other one trains on"
scancel "${sweep[0]%_*}"
until_true 30 has_ended "${sweep[0]%_*}"

# --- a node crashes: with cluster.max_nodes the job goes on with what is there ---
both --set cluster.nodes=1 --set cluster.max_nodes=2 --set plan.capacity=auto
for l in $launchers; do at[$l]=$(last_step "${dir[$l]}"); done
first=$(squeue -h -o %B -j "${id[srun]}")
crash=$(scontrol show hostnames "$(squeue -h -o %N -j "${id[srun]}")" | grep -vx "$first" | head -n 1)
[ -n "$crash" ] || crash=$first
bed-ctl kill-node "$crash"
goes_on srun "a node crashes" "${at[srun]}"
unlike "$(scontrol show hostnames "$(squeue -h -o %N -j "${id[srun]}")")" "^$crash$" "a node crashes: the job goes on elsewhere"
log=$(cat "${dir[srun]}"/slurm-*.out)
diag "$(grep -iE 'error|queue|fail' <<<"$log" | head -n 8)"
like "$log" "was lost|no progress|Node failure|NODE FAIL|NODE_FAIL" "a node crashes: the log says so"
bed-ctl start-node "$crash"
end_both

# --- the time limit ---
until_true 100 begins_again "$limit_dir" 2
ok $? "the time limit comes near: the job begins again"
like "$(cat "$limit_dir"/slurm-*.out)" 'User defined signal 1: stopping after this step, with a checkpoint' "the time limit: it was stopped before"
like "$(cat "$limit_dir"/slurm-*.out)" 'zeppelin: back into the queue, to go on after step [1-9]' "the time limit: and put back by the script"
scancel "$limit_id"
until_true 20 has_ended "$limit_id"
none_left()
{
    ! pgrep -f '^[^ ]*/zeppelin-rank ' >/dev/null
}
until_true 20 none_left
is "$(pgrep -af '^[^ ]*/zeppelin-rank ')" "" "no rank is left of all of them"
done_testing
