#!/usr/bin/env bash
# A probe over mpirun names the node that differs from the others. Measuring finds the rates that a virtual cluster was given: NICs alone, together, and the uplinks of leaves that are narrower than their nodes.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/tap.sh"
if [ "${1:-}" != inside ]; then
    export ZEP_BUILDDIR ZEP_SRCDIR
    exec 3>&1
    reason=$("$here/../bed/netns" --nodes 4 --nics 2 --slots 2 --rate 200mbit --leaf 2 --uplink 100mbit -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
    status=$?
    [ $status -eq 77 ] && skip_all "$(printf '%s' "$reason" | tail -1)"
    printf '%s\n' "$reason" >&2
    exit $status
fi
zeppelin=$ZEP_BUILDDIR/zeppelin
# how ranks are started on the other nodes, as a site's mpirun would know by itself
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$BED/bin/bed-agent" OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp \
    OMPI_MCA_btl_tcp_flags=send,inplace,need-ack,need-csum OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1

node0()
{
    "$BED/bin/bed-node" 0 env PATH="$PATH" "$@"
}

run node0 timeout 60 "$zeppelin" topo --hosts vn[0-3] --from probe --yaml -o same.yaml
ok "$status" "a probe over four nodes"
[ "$status" -eq 0 ] || diag "$err"
grep -q 'id: "vn\[0-3\]"' same.yaml
ok $? "which are alike"
like "$(cat same.yaml)" "name: nic1" "with the NICs of each"
ip -n vn2 link set nic1 down
run node0 timeout 60 "$zeppelin" topo --hosts vn[0-3] --from probe --yaml -o one-down.yaml
like "$err" "^zeppelin: warning: node 'vn2': NIC nic1 \(nic1\) is down, up on its 3 siblings$" "the node with a NIC that is down is named"
run "$zeppelin" topo diff same.yaml one-down.yaml
is "$out" "~ node vn2: NIC nic1 (nic1) is down, up before" "and so says topo diff"
run node0 timeout 60 "$zeppelin" doctor --hosts vn[0-3] --from probe
is "$status" 1 "doctor counts it as an error"
like "$out" "error +siblings +node 'vn2': NIC nic1 \(nic1\) is down" "and says which it is"
ip -n vn2 link set nic1 up && ip -n vn2 route add 10.78.1.0/24 dev nic1 src 10.78.1.3 table 101

cat >virtual.yaml <<'YAML'
format: zeppelin-topology/1.0
nodes:
  - id: "vn[0-3]"
    nics: [{key: nic0, up: true, source: node, bandwidth: {value: 10GB/s, source: default}}, {key: nic1, up: true, source: node, bandwidth: {value: 10GB/s, source: default}}]
    devices: [{key: cpu0, kind: cpu, nic: 0}, {key: cpu1, kind: cpu, nic: 1}]
fabrics:
  - name: net
    switches: [{name: leaf0, parents: [spine], nodes: "vn[0-1]"}, {name: leaf1, parents: [spine], nodes: "vn[2-3]"}, {name: spine}]
YAML
run node0 timeout 240 "$zeppelin" topo --from virtual.yaml --hosts vn0,vn1,vn2,vn3 --measure --rounds 5 --json -o measured.json
ok "$status" "topo --measure over four nodes"
[ "$status" -eq 0 ] || diag "$err"

# value LABEL JSON-PATH LOW HIGH
python3 - >checks <<'PY'
import json
t = json.load(open("measured.json"))
def near(name, fact, want):
    got = fact.get("value", 0)
    ok = fact.get("source") == "measured" and abs(got - want) <= 0.1 * want
    print(0 if ok else 1, "%s: %.1f Mbit/s, set to %.0f" % (name, got * 8e-6, want * 8e-6))
for n in t["nodes"]:
    for c in n["nics"]:
        near("%s %s" % (n["id"], c["name"]), c["bandwidth_bytes_s"], 25e6)
for s in t["fabrics"][0]["switches"]:
    if s["nodes"]:
        near("uplinks of %s, over both rails" % s["name"], s.get("uplink_bandwidth_bytes_s", {}), 25e6)
lat = t.get("net_latency_s", {})
print(0 if lat.get("source") == "measured" and 0 < lat["value"] < 0.01 else 1, "a latency between nodes: %.0f us" % (lat.get("value", 0) * 1e6))
dev = t["nodes"][0]["devices"][0]["bandwidth_bytes_s"]
print(0 if dev["source"] == "measured" and dev["value"] > 2e8 else 1, "between ranks of a node: %.2f GB/s" % (dev["value"] / 1e9))
PY
while read -r result text; do ok "$result" "$text"; done <checks
is "$(wc -l <checks)" 12 "twelve facts are measured"
run "$zeppelin" topo --from measured.json
like "$out" "measured" "the text says that they are measured"
run "$zeppelin" plan --from measured.json --capacity 8k --dist github:tokens=32k --check
ok "$status" "and a plan is made from them"
done_testing
