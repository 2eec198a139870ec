#!/usr/bin/env bash
# What an MPIJob of zeppelin k8s does in its pods: namespaces with a real sshd in each worker, the operator's key, host file and environment (tests/kube/pods). Order of ranks by labels and by the
# probe, workers that are missing, eviction, a rank's and a pod's end, somebody else's sshd.
# timeout: 400
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
[ -x "$build/zeppelin-rank" ] || skip_all "built without MPI"
[ -x /usr/sbin/sshd ] && command -v ssh >/dev/null || skip_all "no sshd (openssh-server) or no ssh (openssh-client)"
python=
for p in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$p" -c 'import jsonschema, yaml' 2>/dev/null || python=$(command -v "$p")
done
[ -n "$python" ] || skip_all "no Python with jsonschema and yaml (python3-jsonschema, python3-yaml)"

cat >inside.sh <<'SH'
# shellcheck shell=bash
pods=$ZEP_SRCDIR/tests/kube/pods
zeppelin=$ZEP_BUILDDIR/zeppelin
mkdir -p texts /tmp/volume /tmp/prefix/bin /tmp/prefix/libexec/zeppelin
ln -s "$zeppelin" /tmp/prefix/bin/zeppelin
ln -s "$ZEP_BUILDDIR/zeppelin-worker" /tmp/prefix/libexec/zeppelin/
for i in $(seq 60); do head -c $((i * 40)) /usr/include/stdio.h >texts/$i.txt; done
"$zeppelin" data --suffix .txt --heldout 10 -o /tmp/volume/data texts >/dev/null 2>&1
cat >job.yaml <<'YAML'
name: zep
cluster: {nodes: 2, devices: 2, grace: 20s}
k8s: {image: "zeppelin:1", volumes: "pvc:volume:/tmp/volume", run_root: /tmp/volume/runs, prefix: /tmp/prefix, wait: 20s}
model: {hidden: 32, layers: 1, heads: 2, kv_heads: 1, head_dim: 16, ffn: 32}
data: {train: /tmp/volume/data/train}
train: {steps: 6, tokens: 4k}
checkpoint: {every: 2}
YAML
# up SET...: a job and its pods
up()
{
    local s sets=() i n
    for s; do sets+=(--set "$s"); done
    "$zeppelin" k8s -o m.yaml "${sets[@]}" job.yaml && "$pods" make m.yaml train "$PYTHON" || exit 1
    n=$("$PYTHON" "$ZEP_SRCDIR/tests/kube/manifest.py" get m.yaml 'm["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]')
    dir=$("$PYTHON" "$ZEP_SRCDIR/tests/kube/manifest.py" get m.yaml 'launcher["containers"][0]["command"][-1]')
    worker=()
    for ((i = 0; i < ${workers:-$n}; i++)); do
        "$pods" worker $i NODE_NAME="${node[i]:-k$i}" 2>worker$i.err &
        worker+=($!)
    done
}
# first PID: the first process of a pod, as this bed sees it
first()
{
    local i
    for i in $(seq 50); do
        [ -d "/proc/$1" ] || return
        [ -n "$(cat "/proc/$1/task/$1/children" 2>/dev/null)" ] && break
        sleep 0.1
    done
    tr -d ' ' <"/proc/$1/task/$1/children"
}
down()
{
    local w
    for w in "${worker[@]}"; do
        kill -TERM $(first "$w") 2>/dev/null
    done
    wait "${worker[@]}"
}
# launch NAME [NAME=VALUE]...
launch()
{
    local name=$1
    shift
    "$pods" launcher "$@" >"$name.out" 2>"$name.err"
    echo "$name.status=$?"
    sed "s/^/$name.err=/" "$name.err"
    echo
    [ ! -e "$dir/outcome.json" ] || { sed "s/^/$name.outcome=/" "$dir/outcome.json"; echo; }
    echo "$name.seconds=$SECONDS"
}
# wait_until CONDITION...: at most 20 s
wait_until()
{
    local i
    for i in $(seq 200); do
        "$@" 2>/dev/null && return
        sleep 0.1
    done
}
has_checkpoint()
{
    compgen -G "$dir/checkpoints/step-*" >/dev/null
}
trains()
{
    [ "$(wc -l <"$dir/metrics.jsonl")" -gt 5 ]
}

# --- by the labels of the nodes: workers 0 and 2 hang on one leaf ---
mkdir account && cd account || exit 1
openssl req -x509 -newkey rsa:2048 -nodes -keyout ../key.pem -out ca.crt -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
echo first >token
cd ..
chmod -R a+rX account
echo ok >api.mode
bed-node 0 "$PYTHON" "$ZEP_SRCDIR/tests/kube/server.py" account/ca.crt key.pem account/token api >port 2>server.err &
server=$!
for _ in $(seq 50); do [ -s port ] && break; sleep 0.1; done
api=(KUBERNETES_SERVICE_PORT="$(cat port)" ZEPPELIN_SERVICEACCOUNT="$PWD/account" ZEPPELIN_TERMINATION_LOG=/tmp/volume/termination)
node=(k2 k0 k3)
: >/tmp/volume/termination && chmod 0666 /tmp/volume/termination
up cluster.nodes=3 cluster.devices=1 train.steps=4
launch labels "${api[@]}"
echo "labels.order=$(sed -n 's/.*- id: //p' "$dir/topology.yaml" | tr '\n' ' ')"
echo "labels.fabric=$(tr -d '\n' <"$dir/workers.yaml" | grep -o 'fabrics:.*' | tr -s ' ')"
echo "labels.hosts=$(sed -n 's/.*"where": *//p' "$dir/run.json")"
sed 's/^/labels.run=/' "$dir/run.json"
echo
sed 's/^/labels.termination=/' /tmp/volume/termination
echo
echo "labels.user=$(stat -c %u "$dir/metrics.jsonl")"
down
echo "labels.worker=$?"
echo forbidden >api.mode

# --- no permission: the probe; a rank dies, all workers live ---
node=()
up train.steps=400 checkpoint.every=20
(
    wait_until has_checkpoint
    kill -KILL "$(pgrep '^zep:' | head -n 1)"
) &
launch rank "${api[@]}"
sed 's/^/rank.run=/' "$dir/run.json"
echo

# --- the same pods: a second launcher on the folder of a run that is done adds nothing; a rank too few in the host file ---
cp /tmp/pods/hostfile hostfile.good
head -n 1 hostfile.good >/tmp/pods/hostfile
launch few
sed 's/slots=2/slots=3/' hostfile.good >/tmp/pods/hostfile
launch slots
cp hostfile.good /tmp/pods/hostfile
# a folder that another launcher holds: its outcome of before is not this one's
printf '{"format": "zeppelin-lock/1.0", "token": "x", "host": "elsewhere", "boot": "b", "pid": 1}' >"$dir/lock"
chown 1000:1000 "$dir/lock"
: >/tmp/volume/termination
launch locked "${api[@]}"
sed 's/^/locked.termination=/' /tmp/volume/termination
rm "$dir/lock"
down

# --- eviction: a worker pod is told to end ---
up train.steps=100000 checkpoint.every=1000
(
    wait_until trains
    kill -TERM "$(first "${worker[1]}")"
) &
launch evicted "${api[@]}"
sed 's/^/evicted.worker=/' worker1.err
down

# --- RDMA without the right to lock memory ---
up cluster.rdma=rdma/hca
launch memlock TOKEN=planted-secret
down
up cluster.secrets.TOKEN=k8s:hf/token cluster.env.OMP_NUM_THREADS=1 train.steps=1
launch secret TOKEN=planted-secret
echo "secret.found=$(grep -rlE planted-secret "$dir" m.yaml 2>/dev/null | wc -l)"
down

# --- a pod is gone ---
up train.steps=100000 checkpoint.every=20 k8s.wait=4s cluster.timeout=5s
(
    wait_until has_checkpoint
    kill -KILL "$(first "${worker[1]}")"
) &
launch gone
down

# --- workers that never come; somebody else's sshd at a worker's address ---
workers=1
up k8s.wait=3s
launch missing
down
up k8s.wait=4s
ssh-keygen -q -t ed25519 -N '' -f other
mkdir -p /run/sshd
bed-node 2 /usr/sbin/sshd -D -e -p 2222 -o HostKey="$PWD/other" -o PidFile=none -o StrictModes=no -o AuthorizedKeysFile=/tmp/pods/ssh/authorized_keys 2>/dev/null &
stranger=$!
launch stranger
kill $stranger $server
down
echo "left=$(pgrep -c '^(zep:|zeppelin-rank|orted|sshd)')"
SH
run "$top/tests/bed/netns" --nodes 4 --nics 1 --slots 2 --rate none -- env PYTHON="$python" bash -c "$(printf 'cat >inside.sh <<"END_OF_INSIDE"\n%s\nEND_OF_INSIDE\n. ./inside.sh' "$(cat inside.sh)")"
[ "$status" -ne 77 ] || skip_all "$err"
[ -z "${ZEP_SHOW:-}" ] || { cat "$tmp/out" "$tmp/err" >&2; }
value()
{
    sed -n "s/^$1=//p" <<<"$out"
}

is "$(value labels.status)" 0 "a job of three workers"
[ "$(value labels.status)" = 0 ] || diag "$(value labels.err)" "$err"
like "$(value labels.err)" "waiting for 3 workers, at most 20 s" "the launcher waits for the workers"
like "$(value labels.err)" "ranks are ordered by the labels of the nodes" "labels of the nodes are read by the service account"
like "$(value labels.fabric)" 'zep-worker-\[0,2\]|zep-worker-0,zep-worker-2' "workers 0 and 2 hang on one leaf"
is "$(value labels.user)" 1000 "all of it by an ordinary user"
like "$(value labels.run)" '"job": "train/zep"' "the run folder names the MPIJob"
like "$(value labels.run)" '"backend": "k8s"' "and the backend"
like "$(value labels.termination)" '"status": *(0|"ok"|"done")|zeppelin-outcome' "the outcome is in the pod's termination message"

is "$(value rank.status)" 0 "a rank was killed: the launcher begins again from the checkpoint, and ends well"
[ "$(value rank.status)" = 0 ] || diag "$(value rank.err)"
like "$(value rank.err)" "labels of nodes are not used: no permission to read nodes" "no permission to read labels: said so"
like "$(value rank.err)" "all workers are alive: trying again from the checkpoint \(1 of 2\)" "the second try is told"
is "$(value rank.run | grep -c '"attempt"')" 2 "two attempts"
like "$(value rank.err)" "going on after step [1-9]" "it went on from a checkpoint"
is "$(value few.status)" 2 "a host file with a worker too few"
like "$(value few.err)" "the host file has 1 workers, the job wants 2: the manifest was changed" "with the reason"
is "$(value slots.status)" 2 "other slots than planned"
like "$(value slots.err)" "has 3 slots, the job wants 2 ranks on each" "with the reason"

is "$(value locked.status)" 4 "a folder that is in use elsewhere"
is "$(value locked.termination)" "zeppelin: exit status 4: the launcher's log says why" "the pod does not tell of the attempt before"

is "$(value evicted.status)" 75 "a worker was told to end: the run stops with a checkpoint"
[ "$(value evicted.status)" = 75 ] || diag "$(value evicted.err)" "$(value evicted.worker)"
like "$(value evicted.worker)" "told to end: 2 ranks are asked to stop with a checkpoint, within 20 s" "its first process passes the signal on"
unlike "$(value evicted.worker)" "did not stop" "and waits for them"
unlike "$(value evicted.err)" "trying again" "there is no other try in these pods"

[ "$(ulimit -l)" = unlimited ] || {
    is "$(value memlock.status)" 3 "RDMA where memory cannot be locked: status 3"
    like "$(value memlock.err)" "may lock [0-9]+ KiB of memory only .*cluster.root: true gives pods IPC_LOCK" "with the remedy"
}
is "$(value secret.status) $(value secret.found)" "0 0" "a secret comes from the pod's environment, and is written nowhere"
is "$(value gone.status)" 76 "a pod is gone: status 76"
like "$(value gone.err)" "no other try: 1 of 2 workers did not answer within 4 s: zep-worker-1" "the missing worker is named"
is "$(value missing.status)" 3 "a worker that never comes: status 3"
like "$(value missing.err)" "1 of 2 workers did not answer within 3 s: zep-worker-1 \(.*refused" "it is named, with ssh's reason"
is "$(value stranger.status)" 3 "an sshd that does not have the operator's key"
like "$(value stranger.err)" "zep-worker-1 \(.*(Host key verification failed|host key|IDENTIFICATION|@@@)" "is no worker"
is "$(value left)" 0 "no rank, daemon or sshd is left"
done_testing
