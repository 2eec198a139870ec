#!/usr/bin/env bash
# A link between two nodes is cut while they train, in network namespaces: a short cut is waited out, a long one ends the run with one message, no process left, and a checkpoint to go on from.
# timeout: 200
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    exec 3>&1
    reason=$("$here/../bed/netns" --nodes 2 --nics 1 --slots 2 --rate none -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
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
cd "$tmp" || exit 1

run "$zeppelin" data --suffix .h --context 512 --heldout 20 --max-bytes 500kB -o set "$top"
ok "$status" "a data set"
cat >job.yaml <<'JOB'
name: t
cluster: {topology: 'synthetic: nodes:2 dev:2 nic:1 kind:cpu', timeout: 6s, grace: 20s}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, heldout: set/heldout, context: 512, too_long: cut}
train: {steps: 100000, tokens: 1k, warmup: 2, eval_tokens: 0}
plan: {capacity: 384}
checkpoint: {every: 5}
log: {every: 1000}
JOB
# zeppelin run takes the mpirun of PATH: here one over the two nodes
mkdir bin
cat >bin/mpirun <<MPIRUN
#!/bin/bash
while [[ \$1 == -* ]]; do
    case \$1 in
    -np) n=\$2; shift 2 ;;
    --bind-to | --mca) shift 2 ;;
    *) shift ;;
    esac
done
export PATH=\${PATH#$tmp/bin:}
exec bed-mpirun -np "\$n" "\$@"
MPIRUN
chmod +x bin/mpirun
last_step()
{
    sed -n 's/.*"kind":"step","attempt":[0-9]*,"step":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" 2>/dev/null | tail -n 1
}
beyond()
{
    for _ in $(seq 300); do
        dir=$(ls -td runs/t-* 2>/dev/null | head -n 1)
        [ -n "$dir" ] && [ "$(last_step "$dir")" -gt "$1" ] 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}
link()
{
    ip -n sw link set n1k0 "$1"
}

PATH=$tmp/bin:$PATH "$zeppelin" run job.yaml >run.out 2>run.err &
launcher=$!
beyond 8
ok $? "a run over two nodes"
link down
sleep 2
at=$(last_step "$dir")
link up
beyond $((at + 3))
ok $? "a link that is cut for two seconds is waited out"
sleep 1
link down
at=$(last_step "$dir")
began=$(date +%s)
wait $launcher
is $? 76 "one that stays cut: status 76"
[ $(($(date +%s) - began)) -le 40 ]
ok $? "within seconds of cluster.timeout"
like "$(cat run.err)" 'error: rank [0-9] on vn[01], in phase [a-z ]+: no progress for 6 s' "the message says who waited, and in which phase"
is "$(grep -c 'error' run.err)" 1 "once"
for _ in $(seq 50); do
    [ -z "$(pgrep -f '^[^ ]*/zeppelin-rank ')" ] && break
    sleep 0.2
done
is "$(pgrep -f '^[^ ]*/zeppelin-rank ')" "" "no process is left, on either node"
link up
run env PATH="$tmp/bin:$PATH" timeout 60 "$zeppelin" run --resume "$dir" --set train.steps=$((at + 2))
ok "$status" "when the link is back the run goes on"
[ "$status" -eq 0 ] || diag "$err"
from=$(sed -n 's/.*"kind":"start","attempt":2,"step":\([0-9]*\).*/\1/p' "$dir/metrics.jsonl")
[ "${from:-0}" -ge $((at - 5)) ]
ok $? "from the last checkpoint (step $at, going on from ${from:-nothing})"
done_testing
