#!/usr/bin/env bash
# Topology from a real Slurm: the cluster, a partition, an allocation, its nodes by a probe; files of Slurm beside the controller; without libslurm; doctor in an allocation.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/tap.sh"
if [ "${1:-}" != inside ]; then
    export ZEP_BUILDDIR ZEP_SRCDIR
    exec 3>&1
    reason=$("$here/../bed/slurm" --nodes 4 --cores 4 --gpus 2 -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
    status=$?
    [ $status -eq 77 ] && skip_all "$(printf '%s' "$reason" | tail -1)"
    printf '%s\n' "$reason" >&2
    exit $status
fi
cd "$tmp" || exit 1
[ "$(scontrol show config | sed -n 's/^ClusterName *= //p')" = "$BED_CLUSTER" ] || { echo "Bail out! another cluster answers"; exit 1; }

run "$zeppelin" topo
ok "$status" "topo without a source, where there is a Slurm"
like "$err" "^zeppelin: source: the Slurm cluster$" "takes the Slurm cluster"
like "$out" "^    1 socket x 4 cores, memory .*, 2 GPUs h200, idle$" "nodes with GPUs and state"
like "$out" "^    leaf1: zep\\[2-3\\]$" "and the tree"
run "$zeppelin" topo --from slurm --yaml -o cluster.yaml
ok "$status" "as a file"
run "$zeppelin" topo --from slurm:main --format topology.conf -o again.conf
ok "$status" "a partition, as topology.conf"
run "$zeppelin" topo diff again.conf cluster.yaml
unlike "$out" "leaf|spine|^[+-]" "which has the same nodes and switches"
run "$zeppelin" topo --from slurm:partition=nope
is "$status" 3 "a partition that is not there"
like "$err" "^zeppelin: error: Slurm: no partition 'nope'; there are: main" "and those that are"
run env ZEPPELIN_LIBSLURM=no "$zeppelin" topo --from slurm --yaml -o text.yaml
ok "$status" "by the text of scontrol alone"
run "$zeppelin" topo diff cluster.yaml text.yaml
is "$out" "" "the same cluster"

# --- in an allocation ---
run salloc -Q -N 3 -n 3 -w 'zep[1-3]' "$zeppelin" topo --yaml -o job.yaml
ok "$status" "in an allocation"
like "$(cat job.yaml)" 'id: "zep\[1-3\]"' "its nodes only"
run salloc -Q -N 2 -n 2 -w 'zep[0-1]' "$zeppelin" topo --from slurm:job --from probe --json -o probed.json
ok "$status" "controller and probe together"
python3 - <<'PY' >checks
import json
t = json.load(open("probed.json"))
print(0 if [n["id"] for n in t["nodes"]] == ["zep0", "zep1"] else 1, "one entry for each node")
print(0 if all(n["cpu_source"] == "node" and n["state_source"] == "controller" for n in t["nodes"]) else 1, "cores as the node says, state as the controller")
print(0 if all(len(n["devices"]) == 2 and n["devices"][0]["source"] == "controller" for n in t["nodes"]) else 1, "GPUs that only the controller knows stay")
print(0 if any(c["what"] == "cores per socket" and c["kept_source"] == "node" and c["lost"] == "4" for c in t["conflicts"]) else 1, "the disagreement is kept")
print(0 if t["fabrics"][0]["name"] == "slurm" and len(t["fabrics"]) == 1 else 1, "SLURM_TOPOLOGY_ADDR of the nodes and the controller's tree are one fabric")
print(0 if all("kernel" in n["notes"] and "memlock" in n["notes"] for n in t["nodes"]) else 1, "with what doctor wants to know")
PY
while read -r result text; do ok "$result" "$text"; done <checks
run salloc -Q -N 4 -n 4 "$zeppelin" topo --from probe
like "$out" "^  4 x zep\\[0-3\\]$" "equal nodes are folded into one"
like "$out" "^    leaf0: zep\\[0-1\\]$" "and know their leaf"
run salloc -Q -N 2 -n 2 -w 'zep[1-2]' "$zeppelin" doctor
is "$status" 0 "doctor in an allocation"
like "$out" "warning +leaves +2 nodes hang on 2 leaves, 1 would do" "which spans more leaves than it needs"
like "$out" "ok +mpi +srun starts two ranks that find each other" "ranks are tried by srun"
like "$out" "warning +sources +nodes zep\\[1-2\\]: cores per socket: 2 \\(node\\), but 4 \\(controller\\)" "what the controller has wrong"
run salloc -Q -N 1 -n 2 srun -n 2 "$zeppelin" doctor --no-ranks
like "$out" "error +ranks +this is task [01] of 2 that srun started" "doctor as one of several tasks"
bed-ctl drain zep3
run "$zeppelin" doctor --from slurm
like "$out" "warning +state +node 'zep3' is idle\\+drain" "a node that is drained"
run salloc -Q -N 1 -n 1 "$zeppelin" topo --measure --rounds 3
ok "$status" "measuring in an allocation of one node"
done_testing
