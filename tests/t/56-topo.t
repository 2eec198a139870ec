#!/usr/bin/env bash
# zeppelin topo by its command line: sources recognised and merged, outputs that other tools read, Kubernetes by a small API server and a stand-in for kubectl, doctor.
# timeout: 180
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
unset SLURM_CONF SLURM_JOB_ID KUBERNETES_SERVICE_HOST

# --- files: recognised, merged ---
printf 'SwitchName=leaf0 Nodes=n[1-2]\nSwitchName=leaf1 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[0-1]\n' >tree.conf
printf 'NodeName=n[1-4] Name=gpu Type=h100 Count=4 Cores=0-31\n' >gres.conf
cat >user.yaml <<'YAML'
format: zeppelin-topology/1.0
nodes:
  - {id: n3.site.org, memory: 512GB, devices: [{key: gpu0}, {key: gpu1}]}
YAML
run "$zeppelin" topo --from tree.conf --from gres.conf --from user.yaml --json -o merged.json
ok "$status" "three sources are merged"
like "$err" "^zeppelin: tree.conf: read as topology.conf" "the format is named"
python3 - <<'PY' >checks
import json
t = json.load(open("merged.json"))
n = {x["id"]: x for x in t["nodes"]}
print(0 if len(n) == 4 else 1, "a short and a long name are one node")
print(0 if n["n3"]["memory_bytes"] == 512 * 10**9 and n["n3"]["memory_source"] == "user" else 1, "a fact of the user, with its source")
print(0 if n["n1"]["devices"][0]["cores"] == "0-31" and n["n1"]["devices"][0]["source"] == "site" else 1, "cores from gres.conf")
print(0 if [c for c in t["conflicts"] if c["where"] == "node n3" and c["what"] == "number of devices" and c["kept_source"] == "user"] else 1, "what they disagree on is kept")
PY
while read -r result text; do ok "$result" "$text"; done <checks
run "$zeppelin" topo --from merged.json
like "$out" "node n3: number of devices: 2 \\(user\\), not 4 \\(site\\)" "and shown"
run bash -c "'$zeppelin' topo --preset dgx-h100:2 --json | '$zeppelin' topo --from - --yaml"
is "$out" "$("$zeppelin" topo --preset dgx-h100:2 --yaml)" "JSON through a pipe is the same topology"
run "$zeppelin" topo --from tree.conf --format hostfile
is "$out" "n1
n2
n3
n4" "a host file in the order of the tree"
run "$zeppelin" topo --preset dgx-h100:2 --matrix
like "$out" "^  GPU7 .* NV18 .* PIX\\*  +1$" "a matrix"
for format in text matrix yaml json svg dot topology.conf topology.yaml hostfile ranks labels; do
    run "$zeppelin" topo --preset gb200-nvl72 --format $format
    [ "$status" -eq 0 ] && [ -n "$out" ]
    ok $? "format $format"
done
run "$zeppelin" topo --preset dgx-h100:16384 --svg -o big.svg
[ "$(wc -c <big.svg)" -lt 20000 ]
ok $? "the picture of 16384 nodes is folded"
if command -v rsvg-convert >/dev/null; then
    rsvg-convert big.svg >big.png
    ok $? "and is a picture"
else
    skip "and is a picture" "no rsvg-convert"
fi
run "$zeppelin" topo --list-sources
like "$out" "^kubernetes " "sources are listed"
run "$zeppelin" topo --list-presets
is "$(wc -l <<<"$out")" 10 "ten presets"

# --- what is not here ---
run "$zeppelin" topo --from slurm
is "$status" 3 "no Slurm: status 3"
like "$err" "no Slurm here" "and a word"
run env PATH=/nowhere "$zeppelin" topo --from kubernetes
is "$status" 3 "no Kubernetes: status 3"
like "$err" "Kubernetes: no Kubernetes here: this is no pod, and kubectl is not in PATH" "and a word"
run "$zeppelin" topo --from probe
is "$status" 3 "no allocation to probe: status 3"
like "$err" "probe: this is no Slurm allocation: run it below salloc or in a job, or name hosts by --hosts" "and a word"
run "$zeppelin" topo --from slrum
is "$err" "zeppelin: error: --from 'slrum': no such file, and no kind of source (did you mean 'slurm'?) (--list-sources shows them)" "a kind that is misspelt"
run "$zeppelin" topo
like "$err" "^zeppelin: source: this machine$" "without a word the best source there is, and which"
ok "$status" "this machine"
printf 'nothing\n' >strange
run "$zeppelin" topo --from strange
is "$status" 2 "a format that is not known: status 2"
like "$err" "^zeppelin: error: strange: the format was not recognised: expected topology.yaml" "and what was expected"

# --- Kubernetes in a pod: the API ---
if [ -x "$build/zeppelin-detect-kube" ] && command -v openssl >/dev/null; then
    mkdir account
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out account/ca.crt -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
    echo secret-token >account/token
    echo ok >log.mode
    python3 "$top/tests/kube/server.py" account/ca.crt key.pem account/token log >port 2>server.err &
    server=$!
    for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
    pod=(env KUBERNETES_SERVICE_HOST=127.0.0.1 "KUBERNETES_SERVICE_PORT=$(cat port)" "ZEPPELIN_SERVICEACCOUNT=$tmp/account")
    run "${pod[@]}" "$zeppelin" topo
    ok "$status" "in a pod"
    like "$err" "source: the Kubernetes cluster of this pod" "the cluster is the source"
    like "$out" "kubernetes: 5 nodes, 40 devices" "all pages are read"
    like "$out" "spine/leaf0: k\\[0-1\\]" "and the labels"
    is "$(grep -c continue log)" 2 "three pages"
    for mode in busy gone old-token; do
        echo $mode >log.mode
        run "${pod[@]}" "$zeppelin" topo --from kubernetes
        like "$out" "kubernetes: 5 nodes" "the API is $mode for a moment"
    done
    echo forbidden >log.mode
    run "${pod[@]}" "$zeppelin" topo --from kubernetes
    is "$status" 3 "no permission: status 3"
    is "$err" "zeppelin: error: Kubernetes: no permission to read nodes: nodes is forbidden: User \"system:serviceaccount:train:default\" cannot list resource \"nodes\" (needed: a ClusterRole with get and list of nodes, bound to the pod's service account)" "and what is needed"
    echo cut >log.mode
    run timeout 60 "${pod[@]}" "$zeppelin" topo --from kubernetes
    like "$err" "^zeppelin: error: Kubernetes: the API cannot be reached: " "an answer that is cut"
    unlike "$out$err" "secret-token" "the token is never shown"
    kill $server
    wait $server 2>/dev/null
else
    skip "Kubernetes in a pod" "no zeppelin-detect-kube, or no openssl"
fi

# --- outside of a pod: kubectl ---
mkdir bin
cat >bin/kubectl <<'SH'
#!/bin/sh
echo "$@" >>"$KUBE_LOG"
[ "$KUBE_MODE" = forbidden ] && { echo 'Error from server (Forbidden): nodes is forbidden: User "x" cannot list resource "nodes"' >&2; exit 1; }
echo '{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "a", "labels": {"our/rack": "r1"}}}, {"kind": "Node", "metadata": {"name": "b", "labels": {"our/rack": "r1"}}, "spec": {"unschedulable": true}}]}'
SH
chmod +x bin/kubectl
run env PATH="$tmp/bin:$PATH" KUBE_LOG="$tmp/kube.log" KUBE_MODE=ok "$zeppelin" topo --from kubernetes --label-levels our/rack
like "$out" "    r1: a,b" "labels that the user names"
is "$(cat kube.log)" "get nodes -o json --request-timeout=30s" "kubectl is asked by arguments"
like "$out" "unknown\\+cordoned" "a node that is cordoned"
run env PATH="$tmp/bin:$PATH" KUBE_LOG="$tmp/kube.log" KUBE_MODE=forbidden "$zeppelin" topo --from kubernetes
like "$err" "Kubernetes: no permission to read nodes: Error from server" "no permission"

# --- what is slow ---
run "$zeppelin" topo --synthetic 'nodes:3 dev:4 nic:2' --slow 'node[0-1]/dev:[0,3]=0.5' --slow node1/nic:nic1=0.25 --slow node2=0.9 --without node2 --yaml
ok "$status" "marked, then left out"
printf '%s\n' "$out" >slow.yaml
run "$zeppelin" topo --from slow.yaml
like "$out" "2 GPUs at 200GB/s \\(computing at 0.5 of its speed\\), 2 GPUs at 200GB/s, 1 NIC at 25GB/s, 1 NIC at 25GB/s \\(slow: 0.25 of it\\)" "marks are kept in topology.yaml, and shown"
run "$zeppelin" topo --from slow.yaml --slow node7=0.5
is "$status" 2 "a node that is not there: status 2"
is "$err" "zeppelin: slow.yaml: read as file (topology.yaml of ours)"$'\n'"zeppelin: error: --slow: 'node7=0.5': 'node7': expected a node of the topology" "and which"

# --- what a source says and nobody understands is told, not dropped ---
printf '\t[4mGPU0\tGPU1\tNIC0\tCPU Affinity[0m\nGPU0\t X \tNV18\tPIX\t0-3\nGPU1\tNV18\t X \tSYS\t0-3\nNIC0\tPIX\tSYS\t X \n' >pasted.txt
run "$zeppelin" topo --from pasted.txt --matrix
like "$out" "GPU1 .*NV18" "a matrix whose control characters were lost"
run "$zeppelin" topo --from pasted.txt --format nccl
unlike "$out" 'speed="0"|link_speed=""' "NCCL's XML leaves out what is not known"
printf '{"kind":"List","items":[{"kind":"Node","metadata":{"name":"a1","labels":{"cloud.google.com/gke-accelerator":"nvidia-h100-80gb"}},"status":{"capacity":{"nvidia.com/gpu":"eight"}}},{"kind":"Node","metadata":{"name":"a2","labels":{"cloud.google.com/gke-accelerator":"nvidia-h100-80gb"}},"status":{"capacity":{"nvidia.com/gpu":"8"}}}]}\n' >eight.json
run "$zeppelin" topo --from eight.json
like "$err" "node 'a1': the amount of nvidia.com/gpu is no number" "an amount that is no number"
like "$out" "8 GPUs nvidia-h100-80gb" "the model by a cloud's label"
printf 'switchguid=0x1\nSwitch\t40 "S-1"\t# "sw1" base port 0 lid 1\n[1] "H-1"[1](1) # "n1 mlx5_0" lid 2 4xNDD\n[2] "H-2"[1](2) # "n2 mlx5_0" lid 3 4xNDR\nCa\t1 "H-1"\t# "n1 mlx5_0"\n[1](1) "S-1"[1] # lid 2 lmc 0 "sw1" lid 1 4xNDD\nCa\t1 "H-2"\t# "n2 mlx5_0"\n[1](2) "S-1"[2] # lid 3 lmc 0 "sw1" lid 1 4xNDR\n' >ndd.txt
run "$zeppelin" topo --from ndd.txt
like "$err" "ndd.txt:3: the speed of 2 cables is none that is known" "a speed that is not known"

# --- a device or a pipe is written to, not replaced ---
mkfifo pipe
cat pipe >got &
run "$zeppelin" topo --preset A -o pipe
wait $!
[ "$status" -eq 0 ] && [ -p pipe ] && [ -s got ]
ok $? "a pipe as output stays a pipe"

# --- doctor ---
cat >sick.yaml <<'YAML'
format: zeppelin-topology/1.0
nodes:
  - id: "n[1-3]"
    nics: [{key: a, name: mlx5_0, source: node, rdma: true, up: true, bandwidth: 400Gb/s, numa: 0}, {key: b, name: mlx5_1, source: node, rdma: true, up: true, bandwidth: 400Gb/s, numa: 1}]
    devices: [{key: g0, numa: 0}, {key: g1, numa: 1}]
  - id: n4
    state: down
    nics: [{key: a, name: mlx5_0, source: node, rdma: true, up: true, bandwidth: 100Gb/s, numa: 0}, {key: b, name: mlx5_1, source: node, rdma: true, up: false, numa: 1}]
    devices: [{key: g0, numa: 0}, {key: g1, numa: 1}]
YAML
run "$zeppelin" doctor --from sick.yaml
is "$status" 1 "doctor finds errors"
like "$out" "error +siblings +node 'n4': NIC mlx5_1 \\(b\\) is down, up on its 3 siblings" "a NIC that is down"
like "$out" "warning +siblings +node 'n4': NIC mlx5_0 \\(a\\): bandwidth 12.5GB/s, 50GB/s on its 3 siblings" "a NIC that is slow"
like "$out" "warning +state +node 'n4' is down" "a node that is down"
like "$out" "warning +locality +node 'n4': the nearest NIC of GPU g1, mlx5_0, is across the sockets" "a GPU whose NIC is far"
like "$out" "  -> look at the cable" "and says what to do"
run "$zeppelin" doctor --from preset:dgx-h100:4
is "$status" 0 "a healthy cluster is fine"
run "$zeppelin" doctor --from sick.yaml --json
python3 -c 'import json, sys; d = json.loads(sys.argv[1]); assert d["format"] == "zeppelin-doctor/1.0" and d["errors"] >= 1 and all(f["level"] in ("ok", "skipped", "warning", "error") for f in d["findings"])' "$out"
ok $? "as JSON"
run env SLURM_GPUS_PER_TASK=1 "$zeppelin" doctor --from preset:dgx-h100:1
is "$status" 1 "GPUs of each task"
like "$out" "error +visible +SLURM_GPUS_PER_TASK=1: each rank sees its own GPUs only" "hide peers"
run "$zeppelin" doctor --from preset:gb200-nvl72:2 --strict
is "$status" 0 "strict is fine, too, without warnings"
printf 'cluster: {nodes: 3, devices: 8}\ndata: {train: x}\n' >job.yaml
run "$zeppelin" doctor --from preset:dgx-h100:2 job.yaml
is "$status" 1 "a job that does not fit"
like "$out" "error +job +the job does not fit: 3 nodes are wanted, the topology \\(preset dgx-h100\\) has 2" "and why"
printf 'cluster: {topology: "preset: dgx-h100:3"}\ndata: {train: x}\n' >own.yaml
run "$zeppelin" doctor --no-ranks own.yaml
like "$out" "^3 nodes \\(preset dgx-h100" "a job file's own topology is what is looked at"
run "$zeppelin" doctor
is "$status" 0 "doctor of this machine"
like "$out" "ok +mpi +mpirun starts two ranks that find each other" "ranks are tried"
done_testing
