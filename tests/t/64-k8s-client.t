#!/usr/bin/env bash
# Jobs on Kubernetes over their life: created, watched, logged, stopped, resubmitted, pruned, by a kubectl that records what it is asked (tests/kube/kubectl), and in a pod by zeppelin-kube and an API
# server over TLS that gives the documented answers (tests/kube/api.py).
# timeout: 120
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
mkdir bin cluster
cp "$top/tests/kube/kubectl" bin/
export PATH="$tmp/bin:$PATH" KUBE_DIR="$tmp/cluster"
unset KUBERNETES_SERVICE_HOST
k() { echo "$1" >cluster/mode; }
k ok
cat >job.yaml <<'YAML'
name: zep
cluster: {nodes: 2, devices: 2, grace: 5s}
k8s: {image: "reg/zeppelin:1", volumes: "pvc:runs:/runs", context: prod, namespace: train}
data: {train: /runs/data/train}
YAML
# set_object KIND NAME PYTHON: changes what the cluster has
set_object()
{
    python3 - "cluster/$1.train.$2.json" "$3" <<'PY'
import json, os, sys
p = sys.argv[1]
o = json.load(open(p)) if os.path.exists(p) else {"metadata": {}}
exec(sys.argv[2])
json.dump(o, open(p, "w"))
PY
}
# pod NAME ROLE PHASE [PYTHON]
pod()
{
    set_object pods "$1" "o.update({'metadata': {'name': '$1', 'namespace': 'train', 'labels': {'app.kubernetes.io/managed-by': 'zeppelin', 'training.kubeflow.org/job-name': '${1%-launcher-*}'.split('-worker')[0],
        'training.kubeflow.org/job-role': '$2'}}, 'status': {'phase': '$3'}, 'spec': {'nodeName': 'gpu-1'}}); ${4:-pass}"
}
condition()
{
    set_object mpijobs "$1" "o['status'] = {'startTime': '2026-12-02T18:01:00Z', 'conditions': [{'type': 'Created', 'status': 'True', 'reason': 'MPIJobCreated'}$2]}"
}
ended="o['status']['containerStatuses'] = [{'state': {'terminated': {'exitCode': STATUS, 'message': '{\"format\": \"zeppelin-outcome/1.0\", \"cause\": \"CAUSE\"}'}}}]"

# --- refused by the cluster: the API's own words, and nothing is left ---
for case in "forbidden:3:Error from server \(Forbidden\): mpijobs.kubeflow.org is forbidden.*no permission \(needed" "unauthorized:3:\(Unauthorized\): the credentials are missing, wrong or expired" \
    "no-operator:3:no matches for kind \"MPIJob\".*this cluster has no MPI operator" "no-namespace:2:namespaces \"train\" not found" "down:3:The connection to the server 10.0.0.1:6443 was refused"; do
    IFS=: read -r mode want text <<<"$case"
    k "$mode"
    run "$zeppelin" k8s --apply job.yaml
    is "$status" "$want" "$mode: status $want"
    like "$err" "$text" "and why"
done
is "$(find runs -mindepth 1 2>/dev/null | wc -l)" 0 "no run folder is left of jobs that were not taken"
run env PATH=/nowhere "$zeppelin" k8s --apply job.yaml
is "$status" 3 "no kubectl"
like "$err" "kubectl is not in PATH" "is said"

# --- created ---
k ok
: >cluster/log
run "$zeppelin" k8s --apply job.yaml
ok "$status" "created"
is "$out" "train/zep" "its name"
is "$(python3 -c 'import json, sys; print(" ".join(w if not w.startswith("/") else "FILE" for w in json.loads(open("cluster/log").readline())))')" \
    "--context=prod --namespace=train create -f FILE -o json --request-timeout=30s" "kubectl is asked by arguments"
dir=$(echo runs/zep-*)
id=$(basename "$dir")
is "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["metadata"]["labels"]["zeppelin/run"])' cluster/mpijobs.train.zep.json)" "$id" "the run's id is its label"
run "$zeppelin" k8s --apply job.yaml
is "$status" 4 "the same name again: refused"
like "$err" "an MPIJob 'zep' is in namespace 'train' already, of run $id: a live job is never changed" "with what is there"
is "$(find runs -mindepth 1 -maxdepth 1 | wc -l)" 1 "nothing is left of it"

# --- watched ---
run "$zeppelin" status "$id"
like "$out" "the MPI operator has not taken it up yet" "before the operator saw it"
set_object events e1 "o.update({'involvedObject': {'kind': 'MPIJob', 'name': 'zep'}, 'type': 'Warning', 'reason': 'ValidationError', 'message': 'spec.mpiReplicaSpecs: Required value'})"
run "$zeppelin" status "$id"
like "$out" "the operator refuses it: ValidationError: spec.mpiReplicaSpecs: Required value" "what the operator tells by an event only"
rm cluster/events.*
condition zep ""
pod zep-worker-0 worker Pending "o['status']['conditions'] = [{'type': 'PodScheduled', 'status': 'False', 'message': '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.'}]; o['spec'] = {}"
run "$zeppelin" status "$id"
like "$out" "zep-worker-0 waits for a node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu" "why it waits"
pod zep-worker-0 worker Pending "o['status']['containerStatuses'] = [{'state': {'waiting': {'reason': 'ImagePullBackOff', 'message': 'no such image'}}}]"
run "$zeppelin" status "$id"
like "$out" "zep-worker-0: ImagePullBackOff: no such image" "a wrong image"
condition zep ", {'type': 'Suspended', 'status': 'True'}"
run "$zeppelin" status "$id"
like "$out" "a queue has not admitted it yet" "Kueue"
condition zep ", {'type': 'Running', 'status': 'True'}"
pod zep-worker-0 worker Running
pod zep-launcher-ab1cd launcher Running
pod zep-worker-00 worker Running "o['spec']['nodeName'] = 'gpu-10'"
run "$zeppelin" status --json "$id"
like "$out" '"where": *"gpu-1,gpu-10"' "where it runs"
rm cluster/pods.train.zep-worker-00.json
set_object pods zep-worker-0 "o['spec']['nodeName'] = 'gpu-10'"
pod zep-worker-1 worker Running
run "$zeppelin" status --json "$id"
like "$out" '"where": *"gpu-10,gpu-1"' "also where a name begins like another"
rm cluster/pods.train.zep-worker-1.json
like "$out" '"running"' "that it runs"
run "$zeppelin" status k8s:train:zep
ok "$status" "a job by its name"
run "$zeppelin" status k8s:nothing
like "$err" 'Error from server \(NotFound\): mpijobs.kubeflow.org "nothing" not found' "one that is not there"
run "$zeppelin" logs "$id"
is "$out" "a line of zep-launcher-ab1cd" "its log"
run "$zeppelin" logs -f "$id"
like "$out" "its last line" "to the end"

# --- ended ---
e=${ended/STATUS/76}
pod zep-launcher-ab1cd launcher Failed "${e/CAUSE/rank 3 was lost}"
condition zep ", {'type': 'Failed', 'status': 'True', 'reason': 'MPIJobEvicted', 'message': '1/2 workers are evicted'}"
run "$zeppelin" status "$id"
like "$out" "1 worker is still there and holds what it asked for: .zeppelin cancel. frees it" "an evicted job that still holds GPUs is seen"
run "$zeppelin" wait "$id"
is "$status" 76 "wait ends as the run did"
like "$err" "rank 3 was lost" "with its cause"
run "$zeppelin" wait --resubmit "$id" &
waiter=$!
for _ in $(seq 100); do [ -e cluster/mpijobs.train.zep-r2.json ] && break; sleep 0.1; done
ok "$([ -e cluster/mpijobs.train.zep-r2.json ]; echo $?)" "the next attempt has a name of its own"
[ ! -e cluster/mpijobs.train.zep.json ]
ok $? "the one before is gone"
is "$(cat "$dir/launcher-zep.log")" "a line of zep-launcher-ab1cd
its last line" "its log was saved"
python3 - cluster/mpijobs.train.zep-r2.json "$id" <<'PY'
import json, sys
o = json.load(open(sys.argv[1]))
assert o["metadata"]["labels"]["zeppelin/run"] == sys.argv[2] and o["metadata"]["labels"]["zeppelin/attempt"] == "2"
c = o["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
assert c[-1] == "/runs/" + sys.argv[2] and "--break-lock" in c, c
PY
ok $? "of the same run, in the same folder, whose lock is an ended attempt's"
e=${ended/STATUS/0}
pod zep-r2-launcher-xyz12 launcher Succeeded "${e/CAUSE/done}"
condition zep-r2 ", {'type': 'Succeeded', 'status': 'True'}"
kill $waiter 2>/dev/null
wait $waiter 2>/dev/null
run "$zeppelin" wait --resubmit "$id"
ok "$status" "a run that is done is not tried again"
run "$zeppelin" k8s prune --dry-run
like "$err" "MPIJob train/zep-r2 has ended \(Succeeded\): would be deleted" "prune: what it would do"
[ -e cluster/mpijobs.train.zep-r2.json ]
ok $? "and does not"
k no-logs
mkdir -p damaged
cp "$dir/run.json" "$dir/job.yaml" damaged
echo '{' >damaged/k8s.json
sed -i "1i damaged\t$tmp/damaged" "$XDG_STATE_HOME/zeppelin/runs"
run "$zeppelin" k8s prune
like "$err" "error: .*/damaged: .*k8s.json: expected an object" "a folder that cannot be read is named"
like "$err" "2 runs could not be looked at" "and does not keep the others"
rm -r damaged
is "$status" 3 "prune where its log cannot be read: status 3"
like "$err" "MPIJob 'zep-r2': its log could not be saved, and nothing is deleted .*cancel --now" "and why"
[ -e cluster/mpijobs.train.zep-r2.json ]
ok $? "it is still there"
k slow-logs
run "$zeppelin" k8s prune
ok "$status" "prune"
[ ! -e cluster/mpijobs.train.zep-r2.json ]
ok $? "what has ended is deleted"
like "$(cat "$dir/launcher-zep-r2.log")" "a line of zep-r2-launcher-xyz12" "its log first"
run "$zeppelin" logs "$id"
like "$out" "a line of zep-r2-launcher-xyz12" "which is shown from then on"

# --- the next attempt: not beside a launcher that is at its last checkpoint, and not when the one before came no further ---
run "$zeppelin" k8s --apply --set name=ev job.yaml
ev=$(echo runs/ev-*)
evicted=", {'type': 'Failed', 'status': 'True', 'reason': 'MPIJobEvicted', 'message': '1/2 workers are evicted'}"
lost="o['status']['containerStatuses'] = [{'state': {'terminated': {'exitCode': 76, 'message': '{\"format\": \"zeppelin-outcome/1.0\", \"step\": 5, \"cause\": \"lost\"}'}}}]"
condition ev "$evicted"
pod ev-launcher-aaaaa launcher Running
k slow-gc
"$zeppelin" wait --resubmit "$ev" 2>wait.err &
waiter=$!
for _ in $(seq 100); do [ -e cluster/mpijobs.train.ev.json ] || break; sleep 0.1; done
sleep 1.5
[ ! -e cluster/mpijobs.train.ev-r2.json ]
ok $? "no attempt beside a launcher that has not ended"
pod ev-launcher-aaaaa launcher Failed "$lost"
for _ in $(seq 100); do [ -e cluster/mpijobs.train.ev-r2.json ] && break; sleep 0.1; done
ok "$([ -e cluster/mpijobs.train.ev-r2.json ]; echo $?)" "then there is one"
pod ev-r2-launcher-bbbbb launcher Failed "$lost"
condition ev-r2 "$evicted"
for _ in $(seq 300); do [ -e cluster/mpijobs.train.ev-r3.json ] && break; sleep 0.1; done
pod ev-r3-launcher-ccccc launcher Failed "$lost"
condition ev-r3 "$evicted"
wait $waiter
is $? 76 "an attempt that came no further is the last one"
like "$(cat wait.err)" "no other attempt: it came no further than the one before, to step 5" "and that is said"
[ ! -e cluster/mpijobs.train.ev-r4.json ]
ok $? "there is none after it"
k ok
rm cluster/*.ev*

# --- stopped ---
run "$zeppelin" k8s --apply --set name=other job.yaml
condition other ", {'type': 'Running', 'status': 'True'}"
pod other-launcher-qwert launcher Running
other=$(echo runs/other-*)
run "$zeppelin" cancel "$(basename "$other")"
ok "$status" "cancel"
is "$(cat "$other/launcher-other.log")" "a line of other-launcher-qwert
its last line" "its log is saved to the last line, though kubectl took its time to begin"
k ok
like "$err" "MPIJob train/other is deleted; its pods stop with a checkpoint" "says what it did"
other_id=$(basename "$other")
like "$err" "zeppelin k8s --resume $other_id --apply. goes on from its last checkpoint" "and how it can go on"
run "$zeppelin" status "$other_id"
like "$out" "state       cancelled: .zeppelin k8s --resume $other_id --apply. goes on" "status knows it, though the cluster does not"
run "$zeppelin" wait --resubmit "$other_id"
is "$status" 143 "wait: it was cancelled"
like "$err" "what was cancelled stays so, until .zeppelin k8s --resume $other_id --apply" "and stays so"
for verb in run submit; do
    run "$zeppelin" "$verb" --resume "$other_id"
    is "$status" 4 "$verb --resume: refused"
    like "$err" "is a run on Kubernetes, .*zeppelin k8s --resume .* --apply. goes on" "with what goes on"
done
run "$zeppelin" k8s --resume "$other_id" --json
ok "$status" "the next attempt is shown"
is "$(python3 -c 'import json, sys; o = json.load(open(sys.argv[1])); print(o["metadata"]["name"], o["metadata"]["labels"]["zeppelin/run"])' "$tmp/out")" "other-r2 $other_id" "under its own name, of the same run"
[ ! -e cluster/mpijobs.train.other-r2.json ]
ok $? "and not made"
run "$zeppelin" k8s --apply --set cluster.nodes=3 --resume "$other_id"
ok "$status" "or made, on other workers"
is "$out" "train/other-r2" "its name"
is "$(python3 -c 'import json, sys; o = json.load(open(sys.argv[1]))["spec"]["mpiReplicaSpecs"]; print(o["Worker"]["replicas"], "--break-lock" in o["Launcher"]["template"]["spec"]["containers"][0]["command"])' \
    cluster/mpijobs.train.other-r2.json)" "3 True" "with them, in the same folder"
like "$(cat "$other/job.yaml")" "nodes: 3" "as the run folder's job says from then on"
run "$zeppelin" k8s --apply --resume "$other_id"
is "$status" 4 "not while it has not ended"
like "$err" "$other_id has not ended \\(MPIJob train/other-r2: .*zeppelin cancel $other_id. stops it" "which is said"
condition other-r2 ", {'type': 'Succeeded', 'status': 'True'}"
run "$zeppelin" wait "$other_id"
ok "$status" "wait: done"
is "$err" "" "without an error"
run "$zeppelin" k8s --apply --resume "$other_id"
is "$status" 4 "one that is done does not go on by itself"
like "$err" "is done: expected --set train.steps=N" "but with more steps"
run "$zeppelin" cancel "$other_id"
like "$err" "it had ended: MPIJob train/other-r2 and its pods are deleted\$" "what has ended and had no launcher has no log"
run "$zeppelin" status "$other_id"
like "$out" "state       done" "that it was done is kept"
run "$zeppelin" cancel "$other_id"
like "$err" "not in the cluster: nothing to stop" "cancel twice"

# --- why workers failed ---
run "$zeppelin" k8s --apply --set name=oom job.yaml
oom=$(echo runs/oom-*)
condition oom ", {'type': 'Failed', 'status': 'True', 'reason': 'BackoffLimitExceeded', 'message': 'Job has reached the specified backoff limit'}"
e=${ended/STATUS/76}
pod oom-launcher-aaaaa launcher Failed "${e/CAUSE/rank 9 on gpu-2 was lost}"
pod oom-worker-0 worker Failed "o['status'].update(reason='Evicted', message='The node was low on resource: memory.')"
pod oom-worker-1 worker Failed "o['status']['containerStatuses'] = [{'state': {'terminated': {'exitCode': 137, 'reason': 'OOMKilled'}}}]"
run "$zeppelin" status "$oom"
like "$out" "state       lost: rank 9 on gpu-2 was lost; oom-worker-0 on gpu-1: Evicted: The node was low on resource: memory.; oom-worker-1 on gpu-1: OOMKilled, exit status 137" "what became of workers is told"
run "$zeppelin" wait "$oom"
is "$status" 76 "wait"
like "$err" "^zeppelin: error: rank 9 on gpu-2 was lost; oom-worker-0" "says it plainly"
rm cluster/pods.train.oom-*
condition oom ", {'type': 'Failed', 'status': 'True', 'reason': 'DeadlineExceeded', 'message': 'Job was active longer than specified deadline'}"
run "$zeppelin" status "$oom"
like "$out" "state       stopped: its time \\(cluster.time\\) was over" "a job whose time is over was stopped, not lost"
run "$zeppelin" wait "$oom"
is "$status" 75 "with the status of that"
run "$zeppelin" k8s prune
run "$zeppelin" status "$oom"
like "$out" "state       stopped: its time" "also after it was deleted"
: >cluster/log
run "$zeppelin" k8s --apply --set name=other job.yaml
condition other ", {'type': 'Running', 'status': 'True'}"
run "$zeppelin" cancel --now k8s:train:other
like "$(cat cluster/log)" '"delete", "pods", "-l", "training.kubeflow.org/job-name=other", "--grace-period=1"' "at once"
k slow-create
run "$zeppelin" k8s --apply --set name=late job.yaml
ok "$status" "no answer to a creation that was done: its label tells that it is ours"
is "$out" "train/late" "and it is named"
k forbidden
run "$zeppelin" cancel "$id"
is "$status" 3 "cancel without permission"
run "$zeppelin" status "$id"
is "$status" 3 "status without an answer"
like "$out" "Forbidden" "says why"

# --- in a pod: by the service account ---
if [ ! -x "$build/zeppelin-kube" ] || ! command -v openssl >/dev/null; then
    skip "in a pod" "no zeppelin-kube (libcurl), or no openssl"
    done_testing
fi
mkdir account api
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out account/ca.crt -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
printf train >account/namespace
echo first-token | tee account/token >api/token
a() { echo "$*" >api/mode; }
a ok
: >api/log
python3 "$top/tests/kube/api.py" account/ca.crt key.pem api >port 2>server.err &
server=$!
for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
export KUBERNETES_SERVICE_HOST=127.0.0.1 ZEPPELIN_SERVICEACCOUNT="$tmp/account"
KUBERNETES_SERVICE_PORT=$(cat port)
export KUBERNETES_SERVICE_PORT
mv bin/kubectl kubectl.away
in_pod=(--set k8s.context= --set name=inside)

run "$build/zeppelin-detect-kube"
is "$(python3 -c 'import json; print(len(json.load(open("out"))["items"]))')" 5000 "5,000 nodes"
is "$(grep -c 'GET /api/v1/nodes' api/log)" 10 "in ten pages"
a gone
run "$build/zeppelin-detect-kube"
is "$(python3 -c 'import json; print(len(set(i["metadata"]["name"] for i in json.load(open("out"))["items"])))')" 5000 "a list that changed meanwhile (410) is begun again"
a ok
run "$zeppelin" k8s --apply "${in_pod[@]}" job.yaml
ok "$status" "created"
is "$out" "train/inside" "its name"
[ "$status" -eq 0 ] || diag "$err"
dir=$(echo runs/inside-*)
run "$zeppelin" k8s --apply "${in_pod[@]}" job.yaml
is "$status" 4 "the name again (409): refused"
echo second-token >api/new-token
a rotate
(sleep 0.5 && echo second-token >account/token) &
run "$zeppelin" status "$dir"
like "$out" "has not taken it up yet" "an old token (401): the new one is read"
wait $!
for mode in "busy:429, later" "slow:an answer in drips"; do
    a "${mode%%:*}"
    run "$zeppelin" status "$dir"
    like "$out" "has not taken it up yet" "${mode#*:}"
done
a forbidden
run "$zeppelin" status "$dir"
like "$out" "Error from server \(Forbidden\): .*cannot do this: no permission" "403: the API's own words"
a unauthorized
run "$zeppelin" status "$dir"
like "$out" "credentials are missing, wrong or expired" "401 that stays"
a down
run "$zeppelin" k8s --apply "${in_pod[@]}" --set name=never job.yaml
is "$status" 3 "503 that stays"
like "$err" "etcd is away" "with the server's word"
is "$(echo runs/never-*)" "runs/never-*" "nothing is left of it"
a ok
run "$zeppelin" status k8s:nothing
like "$err" 'Error from server \(NotFound\): mpijobs.kubeflow.org "nothing" not found' "404"
python3 - <<'PY'
import json
json.dump({"metadata": {"name": "inside-launcher-q", "namespace": "train", "labels": {"app.kubernetes.io/managed-by": "zeppelin", "training.kubeflow.org/job-name": "inside", "training.kubeflow.org/job-role": "launcher"}},
           "status": {"phase": "Running"}, "spec": {}}, open("api/pods.train.inside-launcher-q.json", "w"))
PY
run "$zeppelin" logs -f "$dir"
ok "$status" "a log"
is "$out" "line 0 of inside-launcher-q
line 1 of inside-launcher-q
line 2 of inside-launcher-q" "as it comes"
a cut-log
run "$zeppelin" logs -f "$dir"
is "$status" 3 "a log that breaks off: said"
like "$err" "the stream was cut" "by a word"
is "$(wc -l <"$tmp/out")" 2 "after what came of it, once"
a ok
run "$zeppelin" cancel "$dir"
ok "$status" "cancel"
[ ! -e api/mpijobs.train.inside.json ]
ok $? "it is gone"
like "$(grep DELETE api/log)" '"propagationPolicy":"Background"' "with what belongs to it"
kill $server
wait $server 2>/dev/null
run timeout 60 "$zeppelin" k8s --apply "${in_pod[@]}" --set name=alone job.yaml
is "$status" 3 "no server"
like "$err" "the API cannot be reached" "is said"
is "$(grep -rc 'first-token\|second-token' runs "$tmp/out" "$tmp/err" | grep -vc ':0$')" 0 "the token is nowhere"
done_testing
