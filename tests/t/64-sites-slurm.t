#!/usr/bin/env bash
# On a real Slurm, as an ordinary user: a batch job inherits nothing but what the job file says; secrets reach ranks on all nodes, by srun and by mpirun, and are nowhere else.
# timeout: 200
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    exec 3>&1
    reason=$("$here/../bed/slurm" --nodes 2 --cores 2 -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
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
[ "$(scontrol show config | sed -n 's/^ClusterName *= //p')" = "$BED_CLUSTER" ] || { echo "Bail out! another cluster answers"; exit 1; }

"$zeppelin" data --suffix .h --context 512 --max-bytes 200kB -o set "$top/common" >/dev/null 2>&1
printf 'planted-7f3a-in-a-file\n' >token
chmod 600 token
cat >job.yaml <<JOB
name: site
cluster:
  nodes: 2
  devices: 1
  grace: 20s
  setup: |
    echo "setup: PLAIN is \$PLAIN, INHERITED is \${INHERITED:-not there}"
  env: {PLAIN: "a b;c"}
  secrets: {FROM_ENV: {env: MY_TOKEN}, FROM_FILE: {file: $tmp/token}}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, context: 512, too_long: cut}
train: {steps: 100000, tokens: 1k}
JOB
planted='planted-7f3a;value "q" $(x)'
export INHERITED=yes

for launcher in srun mpirun; do
    run env MY_TOKEN="$planted" SBATCH_EXPORT=ALL SBATCH_JOB_NAME=foreign SBATCH_NO_REQUEUE=1 SBATCH_TIMELIMIT=7 "$zeppelin" submit --set cluster.launcher=$launcher --set run_root=$launcher job.yaml
    ok "$status" "$launcher: submitted"
    [ "$status" -eq 0 ] || diag "$err"
    jobid=$out
    like "$err" 'SBATCH_EXPORT of the environment does not count' "$launcher: sbatch's variables do not count, and that is said"
    is "$(scontrol show job "$jobid" | grep -oE 'JobName=[^ ]*|Requeue=[^ ]*|TimeLimit=[^ ]*' | tr '\n' ' ')" "JobName=site Requeue=1 TimeLimit=00:10:00 " "$launcher: the script does"
    for _ in $(seq 200); do
        grep -q '"kind":"step"' $launcher/site-*/metrics.jsonl 2>/dev/null && break
        sleep 0.1
    done
    dir=$(echo "$tmp"/$launcher/site-*)
    n=0
    for pid in $(pgrep -u "$(id -u)" -f "^[^ ]*/zeppelin-rank --attempt 1 --ranks 2 $dir"); do
        n=$((n + 1))
        tr '\0' '\n' <"/proc/$pid/environ" >env.$n
    done
    is "$n" 2 "$launcher: a rank on each node"
    for i in 1 2; do
        is "$(sed -n 's/^FROM_ENV=//p' env.$i)|$(sed -n 's/^FROM_FILE=//p' env.$i)|$(sed -n 's/^PLAIN=//p' env.$i)|$(sed -n 's/^INHERITED=//p' env.$i)" "$planted|planted-7f3a-in-a-file|a b;c|" \
            "$launcher: rank $i has both secrets and cluster.env, and nothing of the shell that submitted"
    done
    cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' >lines
    is "$(grep -c '/zeppelin-rank$' lines | sed 's/^[3-9]$/several/') $(grep -ac planted-7f3a lines)" "several 0" "$launcher: no argument list has a secret"
    is "$(scontrol show job -dd "$jobid" | grep -c planted-7f3a)" 0 "$launcher: nor has what scontrol shows"
    scancel "$jobid"
    for _ in $(seq 100); do
        [ -z "$(squeue -h -j "$jobid" -t R,CG 2>/dev/null)" ] && break
        sleep 0.2
    done
    like "$(cat "$dir"/slurm-*.out)" '^setup: PLAIN is a b;c, INHERITED is not there$' "$launcher: cluster.setup sees cluster.env"
    is "$(grep -ral planted-7f3a "$launcher")" "" "$launcher: nor has anything in the run folder"
done
done_testing
