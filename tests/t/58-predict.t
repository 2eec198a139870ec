#!/usr/bin/env bash
# Sweeps say what single predictions say; advice is what its own numbers say; where there is nothing to gain, it says so.
# timeout: 120
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
base=(--model llama-7b --dist 'github:tokens=64k,seed=1')
methods=zeppelin,te-cp,static-cp,packed-dp

# single OPTION...: the rows of zeppelin sim
single()
{
    "$zeppelin" sim --methods "$methods" --csv "$@" 2>/dev/null | tail -n +2
}

# of FILE KEYS VALUES: the rows of a point, without the keys and the column of errors
of()
{
    grep "^$2," "$1" | sed "s|^$2,||" | sed '/"$/ { s/,"[^"]*"$//; b; }; s/,$//'
}

# --- a sweep is the single runs, point by point
run "$zeppelin" sim --preset A "${base[@]}" --methods "$methods" --sweep nodes=2,4,8 --csv
ok "$status" "a sweep over nodes"
cp out nodes.csv
is "$(head -n 1 nodes.csv)" "nodes,method,step_s,tokens_s_device,over_te_cp,over_best_rival,imbalance,node_bytes,network_bytes,memory_bytes,error" "its columns"
for n in 2 4 8; do
    is "$(of nodes.csv $n)" "$(single --preset A:$n "${base[@]}")" "$n nodes: as without a sweep"
done
is "$(wc -l <nodes.csv)" 13 "a row for each point and method"
unlike "$err" "point" "no progress where there is no terminal"

run "$zeppelin" sim --preset A:2 "${base[@]}" --methods "$methods" --sweep tokens=64k,96k --sweep dist=arxiv,sft --csv
ok "$status" "a grid"
cp out grid.csv
for t in 64k 96k; do
    for d in arxiv sft; do
        is "$(of grid.csv "$((${t%k} * 1024)),$d")" "$(single --preset A:2 --model llama-7b --dist "$d:tokens=$t,seed=1")" "$t of $d: as without a sweep"
    done
done

run "$zeppelin" sim --synthetic 'nodes:2 dev:4 nic:2' --device h200 "${base[@]}" --methods "$methods" --sweep nic=100Gb/s,400Gb/s --sweep slack=1.25,2 --csv
cp out nic.csv
for nic in 100 400; do
    for slack in 1.25 2; do
        is "$(of nic.csv "$((nic * 125000000)),$slack")" "$(single --synthetic "nodes:2 dev:4 nic:2 net:${nic}Gb/s" --device h200 "${base[@]}" --slack $slack)" "NICs of $nic Gb/s, slack $slack: as without a sweep"
    done
done
run "$zeppelin" sim --preset A:2 "${base[@]}" --methods "$methods" --sweep context=8k,32k --csv
cp out context.csv
is "$(of context.csv 8192)" "$(single --preset A:2 --model llama-7b --dist github:tokens=64k,seed=1,max=8k)" "documents up to 8k: as without a sweep"

for i in $(seq 40); do mkdir -p texts && head -c $((i * 200)) /dev/zero | tr '\0' x >texts/$i.txt; done
run "$zeppelin" data --suffix .txt --heldout 20 -o data texts
run "$zeppelin" sim --preset C:2 --model llama-7b --data data/train --tokens 16k --methods "$methods" --sweep tokens=16k,32k --csv
cp out data.csv
is "$(of data.csv 32768)" "$(single --preset C:2 --model llama-7b --data data/train --tokens 32k)" "of a data set, too"

# what is compared by default has every method that may be the best rival
run "$zeppelin" sim --preset B:2 --model llama-3b --dist arxiv:tokens=64k,seed=1 --sweep nic=100Gb/s,400Gb/s --json
python3 -c '
import json, sys
for p in json.load(open(sys.argv[1]))["points"]:
    print(sorted(m["method"] for m in p["methods"]))' "$tmp/out" | sort -u >seen
is "$(cat seen)" "['flexsp', 'hybrid-dp', 'static-cp', 'te-cp', 'ulysses', 'usp', 'wlb', 'zeppelin', 'zeppelin-paper']" "a sweep compares the rivals that exchange heads, too"

# --- a point that does not fit is a gap
run "$zeppelin" sim --preset A "${base[@]}" --methods "$methods" --sweep nodes=1,2 --svg plot.svg
ok "$status" "a point that does not fit does not end the sweep"
like "$out" "^1  +memory holds [0-9]+ tokens a device beside the model's state, the batch has 8192$" "its line says why"
like "$out" "^2 .* zeppelin +[0-9.]+ +[0-9.]+$" "and the next point is there"
like "$out" "^-: packed-dp cannot place this batch within the capacity$" "so is why a method has no number"
run "$zeppelin" sim --preset A "${base[@]}" --methods "$methods" --sweep nodes=1,2 --json
python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
p = j["points"]
print(j["format"], j["keys"], [q["nodes"] for q in p], "error" in p[0], [m["method"] for m in p[1]["methods"]], p[1]["devices"])
' "$tmp/out" >seen
is "$(cat seen)" "zeppelin-sweep/1.0 ['nodes'] [1, 2] True ['zeppelin', 'te-cp', 'static-cp', 'packed-dp'] 16" "JSON has the points, and the error of the first"
run "$zeppelin" sim --preset A:1 "${base[@]}" --sweep slack=1.25,2
is "$status" 2 "nothing that fits is an error"
like "$err" "error: no point can be predicted; the first: memory holds" "which says why"

# --- the plot
run "$zeppelin" sim --preset A "${base[@]}" --methods "$methods" --sweep nodes=4,2,1 --sweep nic=100Gb/s,200Gb/s,400Gb/s --svg grid.svg -o /dev/null
ok "$status" "a plot of a grid"
python3 - >seen <<'PY'
import xml.dom.minidom
def lines(path):
    d = xml.dom.minidom.parse(path)
    return [g for g in d.getElementsByTagName("g") if g.getAttribute("class") == "method"]
def points(g):
    return sum(c in "ML" for c in g.getElementsByTagName("path")[0].getAttribute("d")) - 1
one, grid = lines("plot.svg"), lines("grid.svg")
print(len(one), len(grid), sorted({points(g) for g in one}), sorted({points(g) for g in grid}))
# the line goes from left to right, however the values were given
xs = [float(p.split(",")[0].lstrip("ML")) for p in grid[3].getElementsByTagName("path")[0].getAttribute("d").split()[1:]]
print(xs == sorted(xs) and len(xs) == 2)
PY
is "$(head -n 1 seen)" "4 12 [0, 1] [0, 2]" "a line a method in every panel, with a point where there is a number"
is "$(tail -n 1 seen)" True "from left to right"

# --- bad inputs of sweeps
bad()
{
    local want=$1
    shift
    run "$zeppelin" "$@"
    is "$status" 2 "refused: $want"
    like "$err" "$want" "and told"
}
sim=(sim --preset A:4 "${base[@]}")
bad "--sweep: unknown key 'node' \(did you mean 'nodes'\?\)" "${sim[@]}" --sweep node=2
bad "--sweep: 'nodes': expected KEY=V1,V2" "${sim[@]}" --sweep nodes
bad "--sweep nodes: value 2: 'x': expected a whole number" "${sim[@]}" --sweep nodes=2,x
bad "--sweep nodes: value 3, '2': it is value 1, too" "${sim[@]}" --sweep nodes=2,4,2
bad "--sweep nic: value 1: '100': expected a number and a unit" "${sim[@]}" --sweep nic=100
bad "--sweep dist: value 1: unknown distribution 'arxif' \(did you mean 'arxiv'\?\)" "${sim[@]}" --sweep dist=arxif
bad "--sweep slack: value 1: '0.5': expected a number from 1" "${sim[@]}" --sweep slack=0.5
bad "--sweep tokens=1k: expected --sweep at most twice" "${sim[@]}" --sweep nodes=2 --sweep slack=2 --sweep tokens=1k
bad "'nodes' is swept already" "${sim[@]}" --sweep nodes=2 --sweep nodes=4
bad "--nodes and --sweep nodes" "${sim[@]}" --nodes 2 --sweep nodes=2,4
bad "--method and --sweep" "${sim[@]}" --method zeppelin --sweep nodes=2,4
bad "--svg needs --method" "${sim[@]}" --svg x.svg
bad "unknown method 'flexp' \(did you mean 'flexsp'\?\)" "${sim[@]}" --methods flexp --sweep nodes=2
bad "--sweep nodes: '4': the topology has 2 nodes" sim --synthetic 'nodes:2 dev:4 nic:2' --device h100 "${base[@]}" --sweep nodes=2,4

# --- advice
run "$zeppelin" advise --preset dgx-h100:4 --model llama-3b --dist arxiv:tokens=256k,seed=1 --steps 2 --json
ok "$status" "advice"
cp out advice.json
python3 - >seen <<'PY'
import json
j = json.load(open("advice.json"))
cells = [(s["nodes"], s["capacity"], m) for s in j["settings"] if "methods" in s for m in s["methods"] if "mean_step_s" in m]
least = min(m["node_s_token"] for _, _, m in cells)
n, c, m = min((x for x in cells if x[2]["node_s_token"] <= 1.03 * least), key=lambda x: x[2]["mean_step_s"])
r = j["recommended"]
print((r["nodes"], r["capacity"], r["method"]) == (n, c, m["method"]))
tokens = sum(j["batch_tokens"])
print(all(abs(m["node_s_token"] * tokens / (n * sum(m["step_s"])) - 1) < 1e-9 and abs(m["mean_step_s"] * len(m["step_s"]) / sum(m["step_s"]) - 1) < 1e-9 for n, c, m in cells))
def best(name):
    return min((x for x in cells if x[0] == n and x[2]["method"] == name), key=lambda x: x[2]["mean_step_s"])
good = True
for g in j["gains"]:
    _, cap, other = best(g["over"])
    ratios = [a / b for a, b in zip(other["step_s"], m["step_s"])]
    good &= abs(g["mean"] - sum(ratios) / len(ratios)) < 1e-9 and abs(g["least"] - min(ratios)) < 1e-9 and abs(g["most"] - max(ratios)) < 1e-9 and g["capacity"] == cap and g["nil"] == (g["mean"] < 1.03)
print(good)
rivals = {x[2]["method"] for x in cells if x[0] == n and not x[2]["method"].startswith("zeppelin")}
print([g["over"] for g in j["gains"]] == ["static-cp", "te-cp"] + [r for r in [min(rivals, key=lambda r: best(r)[2]["mean_step_s"])] if r not in ("static-cp", "te-cp")])
print(sorted({s["nodes"] for s in j["settings"]}), j["job"] == {"cluster.nodes": n, "plan.method": m["method"], "plan.capacity": c})
one = [x for x in cells if x[0] == 4 and x[2]["method"] == "zeppelin"][0]
print(one[1], "%.6g" % one[2]["step_s"][1])
PY
is "$(sed -n 1p seen)" True "it recommends the fastest of what costs at most 3 % more than the cheapest"
is "$(sed -n 2p seen)" True "costs are nodes x seconds / tokens"
is "$(sed -n 3p seen)" True "gains are ratios of steps, batch by batch"
is "$(sed -n 4p seen)" True "over static-cp, te-cp and the best rival"
is "$(sed -n 5p seen)" "[1, 2, 4] True" "all, half and a quarter of the nodes; the job's keys are the recommendation"
read -r capacity step < <(sed -n 6p seen)
is "$("$zeppelin" sim --preset dgx-h100:4 --model llama-3b --dist arxiv:tokens=256k,seed=2 --methods zeppelin --capacity "$capacity" --csv 2>/dev/null | sed -n 's/^zeppelin,\([^,]*\),.*/\1/p')" "$step" "a step of the second batch is what zeppelin sim says of the next seed"

run "$zeppelin" advise --preset A:4 --model llama-7b --dist github:tokens=128k,seed=1 --steps 2
ok "$status" "advice in words"
like "$out" "^recommended: method [a-z-]+, capacity [0-9]+ tokens a device" "recommends"
like "$out" "^  over static-cp \(what people use today" "compares with what people use today"
like "$out" "not calibrated here" "says that the device is not calibrated"
like "$out" "of the tokens, [0-9]+ % are in documents above 4k" "says how long documents are"
sed -n '/^in the job file:/,/^$/p' out | sed -n 's/^    //p' >job.yaml
printf 'data: {train: data/train, heldout: data/heldout, too_long: cut}\n' >>job.yaml
run "$zeppelin" job check --set 'cluster.topology=synthetic: nodes:4 dev:8 kind:cpu' job.yaml
ok "$status" "its lines are good lines of a job file"
[ "$status" -eq 0 ] || diag "$err"

for _ in $(seq 64); do echo 2048; done >equal
run "$zeppelin" advise --preset A:4 --model llama-7b --lengths equal
ok "$status" "equal short documents"
like "$out" "^  over static-cp \(what people use today[^)]*\): 1\.0[0-2] x, " "gain nothing over static-cp"
like "$out" "that is nil: -?0\.[0-9] %, .* below 3 %; static-cp, the simpler method, will do" "and that is said"
like "$out" "none above 4k$" "as are their lengths"
like "$out" "^    # plan: .method: static-cp, capacity: [0-9]+, device: [a-z0-9]+. is as good$" "in the job's lines, too"
run "$zeppelin" advise --preset C:4 --model llama-7b --lengths equal --json
python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
print(min((m["node_s_token"], s["nodes"]) for s in j["settings"] for m in s["methods"] if "mean_step_s" in m)[1], j["recommended"]["nodes"])
' "$tmp/out" >seen
is "$(cat seen)" "1 4" "of nodes that cost nearly the same, it recommends the more"
run "$zeppelin" advise --preset A:4 --model llama-7b --lengths equal --methods te-cp,static-cp
like "$out" "over static-cp .*: it is the recommendation itself" "nor does static-cp over itself"

# batches of a data set are those of training: step by step
run "$zeppelin" advise --preset C:2 --model llama-7b --data data/train --tokens 16k --steps 3 --json
python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(j["batch_tokens"][:2], [m["step_s"] for m in j["settings"][0]["methods"] if m["method"] == "te-cp"][0][1], j["settings"][0]["capacity"])' "$tmp/out" >seen
"$zeppelin" sim --preset C:2 --model llama-7b --data data/train --tokens 16k --step 1 --capacity "$(sed 's/.* //' seen)" --methods te-cp --json 2>/dev/null >single.json
python3 -c 'import json; j = json.load(open("single.json")); print(j["tokens"], j["methods"][0]["step_s"])' >want
is "$(sed 's/.*, \([0-9]*\)\] \([^ ]*\) .*/\1 \2/' seen)" "$(cat want)" "the second batch is step 1 of the data set"

# what the limit is: parts of the step that add up to it, and the largest of what devices stand still for
limited()
{
    local want=$1
    shift
    run "$zeppelin" advise --model llama-3b "$@" --json
    python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
l = j["limit"]
assert l["what"] == sys.argv[2], l
assert abs(sum(v for k, v in l.items() if k != "what") / j["recommended"]["mean_step_s"] - 1) < 1e-6, (l, j["recommended"])' "$tmp/out" "$want"
    ok $? "the limit is $want: $*"
}
{ echo 14000; for _ in $(seq 20); do echo 500; done; } >one-long
for _ in $(seq 9); do echo 6000; done >nine
limited computing --preset A:4 --lengths equal
limited network --synthetic 'nodes:2 dev:4 nic:1 net:5Gb/s' --device h100 --methods te-cp --dist arxiv:tokens=64k,seed=1 --steps 2
limited node --synthetic 'nodes:1 dev:8 nic:1 nvlink:5GB/s' --device h100 --methods te-cp --dist arxiv:tokens=64k,seed=1 --steps 1
limited 'longest document' --synthetic 'nodes:1 dev:8 nic:1 nvlink:450GB/s' --device h100 --methods packed-dp --lengths one-long
limited packing --synthetic 'nodes:1 dev:8 nic:1 nvlink:450GB/s' --device h100 --methods packed-dp --lengths nine
# memories that differ: capacities that the devices together hold, and the memory of the one that is fullest
cat >small.yaml <<'YAML'
format: zeppelin-topology/1.0
nodes:
- id: h0
  nics: [{key: nic0, bandwidth: 50GB/s}]
  devices: [{key: gpu0, model: NVIDIA H100 80GB HBM3, memory: 80GB, bandwidth: 450GB/s}, {key: gpu1, model: NVIDIA H100 80GB HBM3, memory: 80GB, bandwidth: 450GB/s}]
- id: a[0-1]
  nics: [{key: nic0, bandwidth: 50GB/s}]
  devices: [{key: gpu0, model: NVIDIA A100-SXM4-40GB, memory: 40GB, bandwidth: 300GB/s}, {key: gpu1, model: NVIDIA A100-SXM4-40GB, memory: 40GB, bandwidth: 300GB/s}]
YAML
run "$zeppelin" advise --from small.yaml --model llama-3b --dist arxiv:tokens=32k,seed=5,max=8k --steps 2
ok "$status" "most devices hold less than the average, the others have room"
like "$out" "GB a device" "and their memory is told"
like "$(sed -n 's/.*node-hours for 1e9 tokens, //p' out)" "^[0-9.]+ of (40|80)[.]0 GB a device" "with the limit of the fullest"
bad "--steps: '65'" advise --preset A:4 "${base[@]}" --steps 65
bad "--lengths is one batch: --tokens, the tokens of a step, makes it the documents of an epoch" advise --preset A:4 --model llama-7b --lengths equal --steps 2
bad "--seed and --step say which batch of an epoch it is: they need --tokens" sim --preset A:4 --model llama-7b --lengths equal --step 2
bad "no workload" advise --preset A:4 --model llama-7b
bad "no --model" advise --preset A:4 --lengths equal
bad "--nodes: '4': the topology has 2 nodes" advise --synthetic 'nodes:2 dev:4 nic:2' --device h100 --model llama-7b --lengths equal --nodes 4
bad "unknown method 'flexp'" advise --preset A:4 --model llama-7b --lengths equal --methods flexp
bad "nothing fits with 1 node: memory holds" advise --preset A:1 --model llama-7b --lengths equal

bad "equal: sequence 0 has 2048 tokens: expected --context 1024 at most" sim --preset A:4 --model llama-7b --lengths equal --context 1024
bad "expected 1 to 1099511627776 tokens" sim --preset A:4 --model llama-7b --lengths equal --capacity 2000000000000

# what a board is: a word of its model's name, and no slower board of the same chip
"$zeppelin" topo --preset A:4 --json -o a800.json
for model in "NVIDIA A100 80GB PCIe" "NVIDIA XA800 80GB" "NVIDIA A8000"; do
    sed "s/NVIDIA A800 80GB/$model/" a800.json >other.json
    bad "$model" sim --topo other.json --model llama-7b --lengths equal
done
python3 -c '
import json
j = json.load(open("a800.json"))
for n in j["nodes"]:
    for d in n["devices"]:
        d["memory_bytes"] = 70 * 10**9
json.dump(j, open("small.json", "w"))'
fit() { "$zeppelin" sim --topo "$1" --model llama-7b --lengths equal --methods te-cp 2>&1 | sed -n 's/.*memory holds \([0-9]*\).*/\1/p'; }
ok "$([ "$(fit small.json)" -lt "$(fit a800.json)" ]; echo $?)" "boards with less memory hold fewer tokens"

# --- calibrated ---
run "$zeppelin" calibrate --seconds 1 -o device.yaml
is "$status" 0 "calibrate"
run "$zeppelin" sim --synthetic 'nodes:2 dev:2 nic:2 kind:cpu' --device ./device.yaml --model llama-3b --capacity 4k --dist web:tokens=4k --methods zeppelin,te-cp --json
is "$status" 0 "its file is a device"
unlike "$err" "not calibrated" "that is calibrated"
python3 -c '
import json, sys
p = json.loads(sys.argv[1])
assert p["calibrated"] and p["costs"]["kv_row_bytes"] == 2 * 3200 * 4, p["costs"]
assert 1e-12 < p["costs"]["pair_forward_s"] < 1e-4 and p["costs"]["token_forward_s"] > 0 and 0 <= p["costs"]["tile"] <= 512' "$out"
ok $? "with costs that can be, in fp32"
run "$zeppelin" calibrate --seconds nothing
is "$status" 2 "refused: --seconds nothing"
# --- devices that are not alike ---
cat >mixed.yaml <<'YAML'
format: zeppelin-topology/1.0
nodes:
- id: h[0-1]
  nics: [{key: nic0, bandwidth: 50GB/s}, {key: nic1, bandwidth: 50GB/s}]
  devices: [{key: gpu0, model: NVIDIA H100 80GB HBM3, nic: 0, memory: 80GB, bandwidth: 450GB/s}, {key: gpu1, model: NVIDIA H100 80GB HBM3, nic: 1, memory: 80GB, bandwidth: 450GB/s}]
- id: a0
  nics: [{key: nic0, bandwidth: 25GB/s}, {key: nic1, bandwidth: 25GB/s}]
  devices: [{key: gpu0, model: NVIDIA A100-SXM4-40GB, nic: 0, memory: 40GB, bandwidth: 300GB/s}, {key: gpu1, model: NVIDIA A100-SXM4-40GB, nic: 1, memory: 40GB, bandwidth: 300GB/s}]
YAML
run "$zeppelin" sim --from mixed.yaml --model llama-3b --dist arxiv:tokens=64k,seed=1 --methods zeppelin-paper,te-cp
ok "$status" "two kinds of devices"
like "$err" "not all alike: 4 devices h100: the costs are of them, 80 GB; 2 devices a100: computing at 0.338 of the speed of h100 .*, 40 GB" "are said"
like "$err" "memory holds [0-9]+ on the smallest devices, which hold no more, and [0-9]+ on the largest" "and what they hold"
like "$out" "^te-cp +te-cp gives device 4 10922 tokens, which holds [0-9]+ \\(others up to [0-9]+\\): expected devices of equal memory, or another method" "a method that cannot says why"
run "$zeppelin" sim --from mixed.yaml --model llama-3b --dist arxiv:tokens=64k,seed=1 --methods zeppelin-paper,te-cp --json
python3 -c '
import json, sys
d = json.loads(sys.argv[1])
r = d["methods"][0]
assert [round(x, 3) for x in d["device_speed"]] == [1, 1, 1, 1, 0.338, 0.338], d["device_speed"]
assert d["device_memory_bytes"] == [80e9] * 4 + [40e9] * 2 and d["device_capacity"][0] > d["device_capacity"][5]
assert r["memory_bytes"] <= r["memory_limit_bytes"]' "$out"
ok $? "as JSON"
run "$zeppelin" explain --from mixed.yaml --model llama-3b --dist arxiv:tokens=48k,seed=5 --slack 1.05
like "$out" "^ +[1-9][0-9.]* % shorter: half as much capacity again \\(more than memory holds\\)" "more capacity helps although small devices have none more"
run "$zeppelin" plan --from mixed.yaml --model llama-3b --dist arxiv:tokens=64k,seed=1 --capacity 16k --method zeppelin-paper --check --json
like "$out" '"format": "zeppelin-plan/1.2"' "a plan with capacities of its own"
printf '%s\n' "$out" >mixed.json
run "$zeppelin" plan --check mixed.json
ok "$status" "is proved when it is read back"
like "$out" "^capacity [0-9]+ to 16384 tokens a device" "and shown"
# by hand: without the digest a plan is proved whenever it is read
"$zeppelin" plan --preset A:2 --capacity 10k --dist prolong64k:tokens=128k,seed=2 --method zeppelin-paper --json 2>/dev/null | perl -0pe 's/,\n  "digest".*\n/\n/' >by-hand.json
run "$zeppelin" plan by-hand.json
ok "$status" "a plan without its digest that is right"
perl -pe 's/"capacity_tok": \d+/"capacity_tok": 100/' by-hand.json >edited.json
run "$zeppelin" plan edited.json
is "$status" 2 "one that was edited is refused"
like "$err" "error: edited.json: the plan is wrong: device 0: [0-9]+ tokens in its attention layout, capacity 100" "with what is wrong"
perl -0pe 's/"members": \[0, 1,/"members": [0, 0,/' by-hand.json >edited.json
run "$zeppelin" plan --svg edited.svg edited.json
like "$err" "error: edited.json: the plan is wrong: ring 0: device 0 is a member twice" "a device twice"
[ ! -e edited.svg ]
ok $? "and nothing is drawn of it"
step() { "$zeppelin" sim --preset A:2 --model llama-7b --dist arxiv:tokens=64k,seed=1 --method packed-dp,static-cp --csv "$@" 2>slow.err | sed -n 's/^static-cp,\([^,]*\),.*/\1/p'; }
ok "$(awk -v a="$(step)" -v b="$(step --slow '*=0.5')" 'BEGIN { exit !(a > 0 && b > 1.3 * a && b < 2.01 * a) }'; echo $?)" "all at half their speed: up to twice as long"
like "$(cat slow.err)" "not all alike: 16 devices with a speed of their own, the slowest at 0.5 of what they should be" "and it is said"
# --- the lower bound is below every plan, also where devices are slow, differ, or are groups ---
bounded()
{
    "$zeppelin" sim "$@" --model llama-3b --recompute --dist arxiv:tokens=48k,seed=5 --json 2>bound.err >bound.json
    "$top/tests/bench/bound" bound.json >bound.out 2>>bound.err
    ok "$(awk '/x the bound/ { n++; if ($(NF - 3) < 1) bad = 1; if ($1 == "zeppelin" && $(NF - 3) < 1.6) near = 1 } END { exit !(n > 1 && near && !bad) }' bound.out; echo $?)" "no plan is below the lower bound, and ours is near it: $*"
}
bounded --preset A:4
bounded --preset A:4 --slow '*=0.5'
bounded --preset B:4 --slow node0=0.3
bounded --preset C:8 --tp 4 --slow node1=0.5
bounded --from mixed.yaml --methods zeppelin,zeppelin-paper
bounded --synthetic 'nodes:1 dev:4' --device h200
# --- links above leaf switches ---
tree=(--device h100 --model llama-3b --dist "arxiv:tokens=64k,seed=1" --method te-cp)
run "$zeppelin" sim --synthetic 'nodes:4 dev:2 nic:2 leaf:2 net:400Gb/s' "${tree[@]}"
like "$err" "links above leaf switches are not modelled: their bandwidth is not known \\(uplink_bandwidth in topology.yaml, uplink: of --synthetic\\)" "not known: said"
unlike "$out" "uplink" "and not shown"
run "$zeppelin" sim --synthetic 'nodes:4 dev:2 nic:2 leaf:2 net:400Gb/s uplink:100Gb/s' "${tree[@]}"
unlike "$err" "not modelled" "known: nothing to say"
like "$out" "the busiest uplink, of switch leaf0, is in use for 9[0-9] % of the pass" "but how busy they are"
run "$zeppelin" explain --synthetic 'nodes:4 dev:2 nic:2 leaf:2 net:400Gb/s uplink:100Gb/s' "${tree[@]}"
like "$out" "backward: the bound is the uplink of switch leaf0, in use for 9[0-9] % of the pass" "what bounds"
like "$out" "[0-9.]+ % shorter: twice the bandwidth of the links above leaf switches" "and what helps"

# --- what a plan sends is of the model's heads, and what the simulator sends
on_a=(--preset A:4 --model llama-7b --dist 'arxiv:tokens=128k,seed=1' --capacity 6k --no-remap)
run "$zeppelin" plan "${on_a[@]}"
like "$out" "with llama-7b's 32 key/value heads of 128 in bf16, a layer's forward pass sends [0-9.]+ MB between nodes" "a plan's bytes are of the model's heads"
sent=$(sed -n "s/.*forward pass sends \([0-9.e+]*\) MB between.*/\1/p" <<<"$out")
run "$zeppelin" sim "${on_a[@]}" --method zeppelin
python3 -c 'import re, sys; a, b = float(sys.argv[1]), float(re.search(r"forward pass.*?([0-9.e+]+) MB go between nodes", sys.argv[2], re.S)[1]); assert a > 0 and abs(a - b) < 0.01 * b, (a, b)' "$sent" "$out"
ok $? "which the simulator sends, too"

# --- own lengths as the documents of an epoch: every verb takes the batch that plan --steps shows
awk 'BEGIN { for (i = 0; i < 400; i++) print 200 + i * 37 % 9000 }' >mine
epoch=(--preset A:2 --model llama-7b --lengths mine --tokens 64k --seed 3)
run "$zeppelin" plan "${epoch[@]}" --capacity 6k --steps 3 --json
python3 -c 'import json, sys; print([s["tokens"] for s in json.loads(sys.argv[1])["in_order"]])' "$out" >steps.seen
tokens=()
for step in 0 1 2; do
    run "$zeppelin" sim "${epoch[@]}" --step $step --methods te-cp --json
    tokens+=("$(sed -n 's/^ "tokens": \([0-9]*\),/\1/p' <<<"$out")")
done
is "[$(IFS=,; sed 's/,/, /g' <<<"${tokens[*]}")]" "$(cat steps.seen)" "sim predicts the steps of plan --steps"
run "$zeppelin" plan "${epoch[@]}" --step 2 --capacity 6k
like "$out" " ${tokens[2]} tokens on 16 devices" "plan plans one of them"
run "$zeppelin" explain "${epoch[@]}" --step 2
like "$out" " ${tokens[2]} tokens on 16 devices" "explain explains it"
run "$zeppelin" advise "${epoch[@]}" --steps 3 --methods te-cp,static-cp --json
python3 -c 'import json, sys; print(json.loads(sys.argv[1])["batch_tokens"])' "$out" >seen
is "$(cat seen)" "$(cat steps.seen)" "advise takes them all"
run "$zeppelin" sim "${epoch[@]}" --methods te-cp --sweep tokens=32k,64k --csv
like "$out" "^65536,te-cp,[0-9.]+," "a sweep over tokens takes steps of so many"
is "$(tail -n 1 <<<"$out" | cut -d, -f3)" "$(single "${epoch[@]}" --methods te-cp | cut -d, -f2)" "which are the same"

# a step of several micro-steps
run "$zeppelin" sim "${epoch[@]}" --tokens 200k --methods zeppelin,te-cp
ok "$status" "a step that memory does not hold is predicted by micro-steps"
like "$out" "this is micro-step 1 of the 2 of a step, [0-9]+ of its [0-9]+ tokens: the step takes about [0-9.]+ times as long" "and it is said"
run "$zeppelin" sim "${epoch[@]}" --tokens 200k --methods te-cp --json
python3 -c 'import json, sys
j = json.loads(sys.argv[1]); assert j["micro_steps"] == 2 and j["tokens"] == sum(j["lengths"]) < j["step_tokens"] <= 204800, j["tokens"]' "$out"
ok $? "in JSON, too"
run "$zeppelin" explain "${epoch[@]}" --tokens 200k
like "$out" "micro-step 1 of the 2" "by explain, too"
run "$zeppelin" advise "${epoch[@]}" --tokens 120k --steps 1 --methods zeppelin,static-cp --json
python3 -c 'import json, sys
j = json.loads(sys.argv[1]); micro = {s["nodes"]: s.get("micro_steps", 1) for s in j["settings"]}
print(micro[2], micro[1], [s["capacity"] for s in j["settings"] if s["nodes"] == 1][0])
s = j["settings"][0]["methods"][0]["step_s"][0]; l = j["limit"]; assert abs(sum(v for k, v in l.items() if k != "what") - j["recommended"]["mean_step_s"]) < 1e-6, l' "$out" >seen
ok $? "advise predicts micro-steps where memory does not hold a step"
read -r two one capacity <seen
run "$zeppelin" plan "${epoch[@]}" --nodes 1 --tokens 120k --capacity "$capacity" --steps 1 --json
is "$two $one" "2 $(sed -n 's/.*"micro": \([0-9]*\).*/\1/p' <<<"$out")" "as many as plan --steps cuts"
run "$zeppelin" advise "${epoch[@]}" --steps 1 --methods zeppelin,static-cp
like "$out" "recommended: .* 2 nodes with 16 devices" "and recommends what holds it whole"
like "$out" "^ *1 +[a-z-]+ .*  up to 2 micro-steps$" "with the others in the table"
run "$zeppelin" sim --preset A:2 --model llama-7b --lengths mine
like "$err" "the batch has [0-9]+: .*fewer tokens \(--tokens N takes the workload as documents of an epoch" "all of it in one batch does not fit: what to do"
run "$zeppelin" plan --preset A:2 --model llama-7b --lengths mine --capacity 6k
like "$err" "short of the batch's [0-9]+; memory holds [0-9]+ a device: fewer tokens a step \(--tokens" "no capacity is advised that no memory holds"
run "$zeppelin" sim --preset A:2 --model llama-7b --lengths <(echo 200k) --tokens 200k
like "$err" "a document has 204800 tokens, memory of all devices together holds [0-9]+" "nor for a document that is too long"

# --- advice and explanation go by the same measurement
wide=(--preset A:4 --model llama-7b --dist 'arxiv:tokens=128k,seed=1')
run "$zeppelin" advise "${wide[@]}" --steps 1 --methods zeppelin,te-cp,static-cp
advised=$(sed -n 's/^NICs of twice the bandwidth would make the steps \([0-9.]*\) % shorter.*/\1/p' <<<"$out")
unlike "$out" "faster links" "no words that nothing measured"
like "$out" "context-parallel group smaller than all devices is static-cp: [0-9.]+ x" "who has which rival"
like "$out" "measured gains over te-cp are smaller than predicted ones: 2.80 x on average" "and what was measured"
[[ "$out" =~ capacity\ ([0-9]+)\ tokens.*,\ ([0-9])\ nodes ]]
run "$zeppelin" explain "${wide[@]}" --nodes "${BASH_REMATCH[2]}" --capacity "${BASH_REMATCH[1]}"
is "$advised" "$(sed -n 's/^ *\([0-9.]*\) % shorter: NICs of twice the bandwidth$/\1/p' <<<"$out")" "what faster NICs give is what explain says"
[ -n "$advised" ]
ok $? "and something"
# slow nodes are left out where that is better
run "$zeppelin" advise "${wide[@]}" --steps 1 --methods zeppelin --slow node1=0.3 --json
python3 -c 'import json, sys
j = json.loads(sys.argv[1]); print(sorted({s["nodes"] for s in j["settings"]}), j["recommended"].get("without"), j["recommended"]["nodes"])' "$out" >seen
is "$(cat seen)" "[1, 2, 3, 4] node1 3" "the nodes but the slow one are tried, and recommended"
run "$zeppelin" advise "${wide[@]}" --steps 1 --methods zeppelin --slow node1=0.3
like "$out" "^  leave out the slow nodes: node1$" "in words"
run "$zeppelin" advise "${wide[@]}" --without node1 --nodes 3 --steps 1 --methods zeppelin --json
python3 -c 'import json, sys; print(json.loads(sys.argv[1])["recommended"]["mean_step_s"])' "$out" >seen
run "$zeppelin" advise "${wide[@]}" --steps 1 --methods zeppelin --slow node1=0.3 --effort fast --json
is "$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["recommended"]["mean_step_s"])' "$out")" "$(cat seen)" "as if they were not there"

# --- pictures, and words on what a plan is made of
run "$zeppelin" plan --synthetic 'nodes:2 dev:4 nic:2' --capacity 4k --dist arxiv:tokens=16k,seed=1 --slow node1=0.5 --svg plan.svg -o /dev/null
run "$zeppelin" sim --preset A:2 --model llama-7b --dist arxiv:tokens=64k,seed=1 --method zeppelin --no-remap --no-heads --svg step.svg
like "$out" "in the plan: [0-9]+ whole sequences, [0-9]+ rings inside nodes, [0-9]+ over nodes, no hop over several proxies \(nothing for --no-routing\), no exchange of heads \(nothing for --no-heads\), no token that moves \(nothing for --no-remap\)" "what the switches of ablations turn off"
is "$(grep -c 'not calibrated here' <<<"$err") $(awk '{ if (length > most) most = length } END { print (most < 200) }' <<<"$err")" "1 1" "a device that is not calibrated takes a line"
run "$zeppelin" sim --preset A:2 --model llama-7b --dist 'prolong64k:tokens=64k,seed=1' --method zeppelin-paper
like "$out" "[0-9]+ hops over several proxies, no exchange" "routed hops are counted"
python3 - >seen <<'PY'
import re, xml.dom.minidom
def texts(path):
    d = xml.dom.minidom.parse(path)
    return [(t.firstChild.data if t.firstChild.nodeType == 3 else t.lastChild.data, float(t.getAttribute("x"))) for t in d.getElementsByTagName("text")], float(d.documentElement.getAttribute("width"))
t, w = texts("step.svg")
ticks = [float(s.split()[0]) for s, _ in t if re.fullmatch(r"[0-9.e+-]+( ms)?", s)]
assert {"forward", "backward"} <= {s for s, _ in t} and 3 <= len(ticks) <= 11, t
step = ticks[1]
assert all(abs(v - i * step) < 1e-3 * step for i, v in enumerate(ticks)) and f"{step:.0e}"[0] in "125" and max(x for _, x in t) < w - 15, ticks
t, w = texts("plan.svg")
assert sum(s == "slow: 0.5" for s, _ in t) == 4 and {"node0", "node1"} <= {s for s, _ in t}, t
print("ok")
PY
is "$(cat seen)" ok "ticks of a step are round and none is clipped; a plan names nodes and marks slow devices"
run "$zeppelin" explain zoned.json
is "$status" 2 "explain takes no plan"
like "$err" "explain plans anew: give the cluster, the workload, --model, --capacity and --method" "and says what to do"

# --- steps and windows ---
run "$zeppelin" plan --preset A:1 --model llama-3b --capacity 12k --dist arxiv:tokens=4m,seed=2 --tokens 64k --steps 8 --window 4 --svg steps.svg --json
ok "$status" "steps in order and by windows"
python3 -c 'import json, sys, xml.dom.minidom as m
r = json.loads(sys.argv[1]); a, b = r["in_order"], r["by_windows"]
assert r["format"] == "zeppelin-steps/1.0" and len(a) == len(b) == 8
for s in a + b: assert 0 < s["tokens"] <= 65536 and s["longest"] <= s["tokens"] and s["step_s"] > 0 and s["imbalance"] >= 1 and s["documents"] > 0
assert sum(s["tokens"] for s in b) >= sum(s["tokens"] for s in a)
spread = lambda x: max(s["pairs"] for s in x) / min(s["pairs"] for s in x)
assert spread(b) < spread(a), (spread(a), spread(b))
assert len(m.parse("steps.svg").getElementsByTagName("rect")) == 17' "$out"
ok $? "by windows they hold no less and are more even; the picture has a bar for each"
python3 -c 'import re, sys, xml.dom.minidom as m
t = [x.firstChild.data for x in m.parse("steps.svg").getElementsByTagName("text")]
assert [s for s in t if s.isdigit() and int(s) < 8].count("7") == 2 and not any("e+" in s for s in t), t'
ok $? "and the number of each"
run "$zeppelin" plan --dist arxiv:tokens=4m,seed=2 --tokens 64k --steps 8 --window 8 --compose alike
like "$out" 'by windows of 8 steps \(alike\):' "lengths alone need no cluster"
# a slow NIC is no reason for rings over other nodes to be avoided
slow_step()
{
    "$zeppelin" sim --preset A:4 --model llama-7b --dist arxiv:tokens=96k,seed=1 --slow node1/nic:nic0=0.2 --slack 1.6 --methods zeppelin --json "$@" 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["methods"][0]["step_s"])'
}
python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert a < 1.05 * b, sys.argv' "$(slow_step)" "$(slow_step --effort search)"
ok $? "by estimate, a cluster with a slow NIC is planned about as well as by simulating"
# zones that sequences may be put in
zoned=(--preset A:2 --model llama-7b --dist 'arxiv:tokens=64k,seed=1' --capacity 6k)
for method in zeppelin zeppelin-paper; do
    for zones in intra inter local,intra local,inter intra,inter; do
        run "$zeppelin" plan "${zoned[@]}" --method $method --zones $zones --json
        printf '%s\n' "$out" >zoned.json
        python3 -c 'import json,sys; z={r["zone"] for r in json.load(open(sys.argv[1]))["rings"]}; assert z and z <= set(sys.argv[2].split(",")), z' zoned.json $zones && "$zeppelin" plan --check zoned.json >/dev/null
        ok $? "$method --zones $zones"
    done
done
run "$zeppelin" plan "${zoned[@]}" --zones local
is "$status" 3 "zones that cannot hold the batch"
like "$err" 'error: zones local: the batch does not fit \(its longest sequence: [0-9]+ tokens; a device holds 6144, a node 49152\): allow more zones, or give a larger capacity' "it says by how much"
run "$zeppelin" plan "${zoned[@]}" --zones local,outer
like "$err" "zone 'outer': expected local, intra, inter" "an unknown zone"
run "$zeppelin" plan "${zoned[@]}" --zones local --method te-cp
like "$err" 'te-cp has no zones' "a method without zones"
run "$zeppelin" sim --preset A:2 --model llama-7b --dist arxiv:tokens=64k,seed=1 --methods zeppelin,zeppelin-paper,te-cp --zones local
like "$out" 'zones local' "a comparison gives the reason"
for _ in $(seq 24); do echo 1500; done >alike
run "$zeppelin" plan --from mixed.yaml --model llama-3b --lengths alike --tokens 36000 --steps 1 --capacity 9k --json
like "$(tr '\n' ' ' <<<"$err")" "not all alike: .* memory holds [0-9]+ tokens on the smallest devices" "steps on devices that are not alike"
"$zeppelin" sim --from mixed.yaml --model llama-3b --lengths alike --methods zeppelin --capacity 9k --json 2>/dev/null >alike.json
python3 -c 'import json, sys; assert json.loads(sys.argv[1])["in_order"][0]["step_s"] == json.load(open("alike.json"))["methods"][0]["step_s"]' "$out"
ok $? "take as long as zeppelin sim says"
run "$zeppelin" plan --preset A:1 --dist arxiv:tokens=1m,seed=2,max=16k --tokens 48k --steps 2 --capacity 12k --method ulysses
ok "$status" "heads are known to steps without a model"
# heads are exchanged by zeppelin where ports are slow and key-value heads are many, and only there
on_b=(--preset B:2 --model llama-7b --dist 'arxiv:tokens=64k,seed=1' --capacity 6k)
run "$zeppelin" plan "${on_b[@]}" --json
ok "$status" "a plan for slow ports"
printf '%s\n' "$out" >heads.json
python3 -c 'import json,sys; assert any(r.get("heads", 0) > 1 for r in json.load(open(sys.argv[1]))["rings"])' heads.json
ok $? "exchanges heads"
run "$zeppelin" plan --check heads.json
ok "$status" "and is proved"
run "$zeppelin" plan "${on_b[@]}" --no-heads --json
unlike "$out" '"heads"' "--no-heads: it does not"
run "$zeppelin" plan "${on_b[@]}" --export ranks -o heads-ranks
ok "$status" "nor for --export ranks"
[ "$status" -eq 0 ] || diag "$err"
on_b_github=(--preset B:2 --model llama-7b --dist 'github:tokens=64k,seed=1' --capacity 6k --method auto)
run "$zeppelin" plan "${on_b_github[@]}" --json
like "$out" '"heads": [2-9]' "auto takes an exchange of heads"
run "$zeppelin" plan "${on_b_github[@]}" --export ranks -o auto-ranks
ok "$status" "but not for --export ranks"
[ "$status" -eq 0 ] || diag "$err"
run "$zeppelin" plan "${on_b[@]}" --method ulysses --export ranks -o u-ranks
is "$status" 3 "a method that does nothing else is refused"
like "$err" "ring 0 of the plan \\(method ulysses\\) exchanges heads: .* plan it anew without \\(--no-heads\\) or by another method" "with what to do"
[ ! -e u-ranks ]
ok $? "and writes nothing"
run "$zeppelin" plan heads.json --export ranks -o u-ranks
is "$status" 3 "so is a plan that was written before"
step_of()
{
    "$zeppelin" sim --preset "$1" --model llama-7b --dist "${dist:-arxiv}:tokens=64k,seed=1" --methods zeppelin --json "${@:2}" 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["methods"][0]["step_s"])'
}
# where plans are simulated, exchanging heads is never worse than not
for dist in arxiv github prolong64k; do
    python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert a <= b * 1.0001, sys.argv' "$(step_of A:2)" "$(step_of A:2 --no-heads)"
    ok $? "$dist: with exchanges of heads no slower than without"
done
unset dist
run "$zeppelin" sim --preset B:2 --model llama-7b --dist arxiv:tokens=64k,seed=1 --method zeppelin
python3 -c '
import re, sys
for line in re.findall(r"pass of a layer: .*", sys.argv[1]):
    total, *parts = [float(x) for x in re.findall(r"([0-9.]+) ms", line)]
    assert len(parts) == 5 and abs(total - sum(parts)) < 0.01, line' "$out"
ok $? "phases, exchanges of heads among them, are the whole pass"
run "$zeppelin" sim --preset B:2 --model llama-7b --dist arxiv:tokens=64k,seed=1 --method te-cp --json
python3 -c '
import json, sys
m = json.loads(sys.argv[1])["methods"][0]
b, layer = m["busy"], m["forward"]["layer_s"] + m["backward"]["layer_s"]
assert [len(b[k]) for k in ("compute", "port_out", "port_in", "nic_out", "nic_in")] == [16] * 5
assert 0.5 < max(b["nic_out"]) <= 1 and abs(max(b["nic_out"]) * layer - m["forward"]["nic_busy_s"] - m["backward"]["nic_busy_s"]) < 1e-9
assert all(0 <= x <= 1 for k in b for x in b[k])' "$out"
ok $? "JSON tells how busy each resource is"
python3 -c 'import sys; assert float(sys.argv[1]) < 0.95 * float(sys.argv[2]), sys.argv' "$(step_of B:2)" "$(step_of B:2 --no-heads)"
ok $? "it is predicted to be faster by more than 5 %"

# --- benchmarks that predict: a few cells of the grid, with pictures ---
run "$top/tests/bench/paper" --zeppelin "$zeppelin" --quick --seeds 1 --svg pictures
ok "$status" "a part of the paper's grid"
[ "$status" -eq 0 ] || diag "$err"
like "$out" 'zeppelin over the best rival of each cell \| 9 \|' "nine cells"
like "$out" 'behind the best rival in [0-9] of 9 cells, by more than 3 % in 0' "no rival is far ahead in any"
like "$out" 'zones alone: zeppelin-paper --no-routing --no-remap \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| 3.2 \|' "the ablation beside the paper's figures"
python3 -c '
import sys, xml.etree.ElementTree as e
n = "{http://www.w3.org/2000/svg}"
bars = [r for r in e.parse("pictures/gains.svg").iter(n + "rect") if r.find(n + "title") is not None]
assert len(bars) == 3 * 3, len(bars) # three data sets on cluster A, three series
assert len([r for r in e.parse("pictures/ablation.svg").iter(n + "rect") if r.find(n + "title") is not None]) == 4 * 6 - 2'
ok $? "its pictures have a bar for each figure"

# a word, not a traceback
for bad in '--seeds 0: expected 1 or more' '--zeppelin nowhere: expected the program'; do
    read -r option value _ <<<"$bad"
    run "$top/tests/bench/paper" "$option" "${value%:}"
    is "$status" 2 "paper $option ${value%:}: refused"
    like "$err" "error: $bad" "and told"
done
echo '{"costs": {}}' >part.json
for bad in '/dev/null: .*: expected what `zeppelin sim --json` prints' "part.json: 'devices' is missing" 'nowhere.json: No such file'; do
    run "$top/tests/bench/bound" "${bad%%:*}"
    is "$status" 1 "bound ${bad%%:*}: refused"
    like "$err" "^bound: $bad" "and told"
done
"$top/tests/bench/paper" --help >help
like "$(cat help)" "scaling and ablation" "the help of paper is whole"

done_testing
