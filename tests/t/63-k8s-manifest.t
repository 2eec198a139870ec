#!/usr/bin/env bash
# zeppelin k8s: the MPIJob against a schema and the operator's own rules (tests/kube/manifest.py), Pod Security "restricted", texts that cross into Kubernetes, and what is refused before.
# timeout: 60
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1

python=
for p in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$p" -c 'import jsonschema, yaml' 2>/dev/null || python=$p
done
[ -n "$python" ] || skip_all "no Python with jsonschema and yaml (python3-jsonschema, python3-yaml)"
manifest()
{
    "$python" "$top/tests/kube/manifest.py" "$@"
}
# make NAME SET...: a manifest of the smallest job
make()
{
    local name=$1 s sets=()
    shift
    for s; do sets+=(--set "$s"); done
    run "$zeppelin" k8s -o "$name" "${sets[@]}" job.yaml
}
cat >job.yaml <<'YAML'
name: zep
cluster: {nodes: 2, devices: 2}
k8s:
  image: reg:5000/zeppelin:1
  volumes: pvc:runs:/runs
data: {train: /runs/data/train}
YAML

# --- good ones ---
run "$zeppelin" k8s "$top/jobs/k8s.yaml"
ok "$status" "jobs/k8s.yaml"
[ "$status" -eq 0 ] || diag "$err"
cp out gpu.yaml
"$zeppelin" k8s --json "$top/jobs/k8s.yaml" >gpu.json
make cpu.yaml && cp "$tmp/out" said
ok "$status" "the smallest job"
make all.yaml name=abcdefghijklmnopqrstuvwxyzabcdefghijklmnop cluster.nodes=100 cluster.gpus_per_node=8 cluster.rdma=rdma/hca=2 cluster.time=1h cluster.secrets.TOKEN=k8s:hf/token k8s.service_account=sa \
    k8s.pull_secret=pull k8s.node_selector='a/b=c,d=' k8s.tolerations='x=y:NoExecute,z' k8s.labels=team=nlp k8s.annotations='k8s.v1.cni.cncf.io/networks=a\,b' k8s.queue=q k8s.gang_queue=g \
    k8s.scheduler=volcano k8s.priority=high k8s.topology=required:rack k8s.spread=require k8s.start=together k8s.ttl=never k8s.port=2022 k8s.user=4242 \
    k8s.volumes='pvc:runs:/runs, configmap:c:/c, secret:s:/s, emptydir:5Gi:/scratch'
ok "$status" "all keys"
[ "$status" -eq 0 ] || diag "$err"
run manifest check gpu.yaml gpu.json cpu.yaml all.yaml
ok "$status" "pass the schema, the operator's rules and Pod Security 'restricted'"
[ "$status" -eq 0 ] || diag "$out"
make root.yaml cluster.root=true k8s.volumes='pvc:runs:/runs,host:/dev/infiniband:/dev/infiniband'
run manifest check --root root.yaml
ok "$status" "root, when asked for: passes the schema"
run manifest check root.yaml
is "$status" 1 "but not 'restricted'"
is "$(manifest get root.yaml '[worker["containers"][0]["securityContext"]["capabilities"]["add"], m["spec"]["sshAuthMountPath"], "fsGroup" in worker["securityContext"]]')" \
    '[["IPC_LOCK", "SYS_CHROOT"], "/root/.ssh", false]' "root has IPC_LOCK, the one folder whose key file ssh accepts, and no fsGroup"

get()
{
    manifest get "$@"
}
is "$(get gpu.json 'm' | sed 's/gths-[0-9]*-[0-9]*-[0-9a-f]*/ID/g')" "$(get gpu.yaml 'm' | sed 's/gths-[0-9]*-[0-9]*-[0-9a-f]*/ID/g')" "YAML and JSON say the same"
is "$(get cpu.yaml 'm["spec"]["runPolicy"]')" '{"cleanPodPolicy": "Running", "backoffLimit": 0, "ttlSecondsAfterFinished": 86400, "schedulingPolicy": {"minAvailable": 2}}' "run policy: workers go at the end, no second try without its log"
is "$(get all.yaml 'm["spec"]["runPolicy"]')" '{"cleanPodPolicy": "Running", "backoffLimit": 0, "activeDeadlineSeconds": 3600, "schedulingPolicy": {"minAvailable": 101, "queue": "g", "priorityClass": "high"}}' "with a time limit and a gang"
is "$(get all.yaml 'worker["containers"][0]["resources"]["limits"]')" '{"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": 8, "rdma/hca": 2}' "resources of a worker"
is "$(get all.yaml '"limits" in launcher["containers"][0]["resources"] and launcher["containers"][0]["resources"]["limits"]')" '{"memory": "1Gi"}' "the launcher takes no GPU, and no cores away"
is "$(get all.yaml '[e for e in launcher["containers"][0]["env"] if e["name"] == "TOKEN"]')" '[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]' "a secret is named"
is "$(get all.yaml '[worker["automountServiceAccountToken"], launcher["automountServiceAccountToken"], launcher["serviceAccountName"], "serviceAccountName" in worker]')" '[false, true, "sa", false]' "workers get no token"
is "$(get all.yaml 'm["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"]')" \
    '{"sidecar.istio.io/inject": "false", "kueue.x-k8s.io/podset-required-topology": "rack", "k8s.v1.cni.cncf.io/networks": "a,b"}' "Kueue's topology, networks"
is "$(get all.yaml '[m["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "podAffinity" in worker["affinity"], len(worker["affinity"]["podAntiAffinity"])]')" '["q", false, 1]' "Kueue's queue; by Kueue there is no affinity"
is "$(get gpu.yaml 'worker["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]["topologyKey"]')" fabric.topograph.run/tier-1 "without Kueue: pod affinity"
is "$(get gpu.yaml 'worker["volumes"][0]["emptyDir"]')" '{"medium": "Memory", "sizeLimit": "64Gi"}' "/dev/shm"
is "$(get gpu.yaml '[worker["terminationGracePeriodSeconds"], worker["containers"][0]["command"][-2:]]')" '[150, ["--grace", "120"]]' "grace"
like "$(get cpu.yaml 'launcher["containers"][0]["command"]')" '^\["/usr/local/bin/zeppelin", "k8s", "launch", "/runs/zep-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"\]$' "what the launcher runs"
is "$(get cpu.yaml '[m["metadata"]["labels"]["zeppelin/run"] == launcher["containers"][0]["command"][3][6:], m["metadata"]["labels"]["zeppelin/attempt"]]')" '[true, "1"]' "the run's id"

# --- what the schema itself is worth ---
damage()
{
    "$python" - "$1" >damaged.yaml <<'PY'
import sys, yaml
m = yaml.safe_load(open("cpu.yaml"))
exec(sys.argv[1], {"m": m, "r": m["spec"]["mpiReplicaSpecs"]})
yaml.safe_dump(m, sys.stdout)
PY
    run manifest check damaged.yaml
    is "$status" 1 "refused: $1"
}
damage 'm["spec"]["launcherCreationPolicy"] = "AtStartUp"'
damage 'r["Workers"] = r.pop("Worker")'
damage 'r["Worker"]["restartPolicy"] = "Always"'
damage 'r["Worker"]["replicas"] = 0'
damage 'r["Launcher"]["replicas"] = 2'
damage 'm["metadata"]["name"] = "1abc"'
damage 'm["spec"]["cleanPodPolicy"] = "Running"'
damage 'r["Worker"]["template"]["spec"]["containers"][0]["image"] = "zeppelin"'
damage 'r["Worker"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] = ["IPC_LOCK"]'
damage 'm["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] = 3'

# --- texts ---
# shellcheck disable=SC2016 # not to be expanded is the point
hard='/runs/it'"'"'s "a" $(NODE_NAME) $$(touch X) `b` 100% ä €: #x\'
make hard.yaml data.train="$hard" data.heldout='/runs/*&!|>@ - ? {a} [b]'
ok "$status" "a path with everything in it"
is "$(get hard.yaml 'yaml.safe_load(expand(launcher["containers"][0]["env"][-1]["value"], {"NODE_NAME": "gone"}))["data"]["train"]')" "$hard" "arrives unharmed, through YAML and the kubelet"
is "$(get hard.yaml 'yaml.safe_load(expand(launcher["containers"][0]["env"][-1]["value"], {}))["data"]["heldout"]')" '/runs/*&!|>@ - ? {a} [b]' "another"
"$python" - hard.yaml >inner.yaml <<'PY'
import sys, yaml
print(yaml.safe_load(open(sys.argv[1]))["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["env"][-1]["value"].replace("$$", "$"))
PY
run "$zeppelin" job show inner.yaml
like "$out" 'where: k8s' "what travels is a good job file"

# --- mistakes: all at once, each with its line ---
cat >bad.yaml <<'YAML'
name: My_Run
cluster:
  where: slurm
  nodes: 2
  devices: 2
k8s:
  image: zeppelin
  memory: 512m
  volumes: pvc:runs:/run
  tolerations: x:Never
data:
  train: data/train
YAML
run "$zeppelin" k8s bad.yaml
is "$status" 2 "a bad job: status 2"
is "$out" "" "nothing is printed"
like "$err" "bad.yaml:3: cluster.where is slurm: expected k8s or auto" "where"
like "$err" "bad.yaml:1: name: 'My_Run': on Kubernetes expected lower-case letters" "name"
like "$err" "bad.yaml:7: k8s.image: 'zeppelin': an image without a tag" "image"
like "$err" "bad.yaml:8: k8s.memory: '512m' is 0.512 bytes .*did you mean '512Mi'" "quantity"
like "$err" "bad.yaml:10: k8s.tolerations: 'Never'" "toleration"
like "$err" "k8s.run_root: '/runs': no volume of k8s.volumes that lasts is mounted there" "run folder"
like "$err" "bad.yaml:12: data.train: 'data/train': on Kubernetes it is a path in the pods" "data"
make x cluster.nodes=0
like "$err" "set cluster.nodes=0: cluster.nodes: '0': expected a whole number from 1 to 65536" "no workers"
make x cluster.devices=auto
like "$err" "cluster.devices: 'auto': expected a number on Kubernetes" "no slots"
make x k8s.start=later
like "$err" "k8s.start: 'later': expected one of workers, together" "the launcher's policy"
make x name=abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq
like "$err" "43 characters; on Kubernetes expected at most 42" "a name that leaves no room for the operator's"
make x cluster.secrets.TOKEN=file:/run/token
like "$err" "cluster.secrets.TOKEN: 'file:/run/token': pods get secrets from the cluster: expected {k8s: SECRET/KEY}" "a secret that is no Secret"
run "$zeppelin" job check --set cluster.where=k8s job.yaml
ok "$status" "job check of a job for Kubernetes: data and cluster are not looked for here"
[ "$status" -eq 0 ] || diag "$err"
run "$zeppelin" job check --set cluster.where=k8s --set k8s.image=zeppelin --set data.train=data/train job.yaml
like "$err" "k8s.image: 'zeppelin': an image without a tag" "and finds what zeppelin k8s would"
like "$err" "data.train: 'data/train': on Kubernetes it is a path in the pods" "all of it"
run "$zeppelin" k8s
is "$status" 2 "no job file"
[ ! -e x ]
ok $? "nothing was written"
done_testing
