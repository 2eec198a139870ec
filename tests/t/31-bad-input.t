#!/usr/bin/env bash
# Every bad input has a clear error, its exit status, and leaves nothing behind.
# timeout: 200
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1

# bad STATUS MESSAGE NAME CMD...: exact first line of stderr; nothing on stdout; no new file
bad()
{
    local want_status=$1 message=$2 name=$3 before
    shift 3
    before=$(find . -mindepth 1 | grep -vE '^./(out|err)$' | sort)
    run "$@"
    is "$status" "$want_status" "$name: status $want_status"
    is "$(head -n 1 <<<"$err")" "$message" "$name: the message"
    if [ -n "$out" ] || [ "$before" != "$(find . -mindepth 1 | grep -vE '^./(out|err)$' | sort)" ]; then
        ok 1 "$name: leaves nothing behind"
        diag "$out $(diff <(echo "$before") <(find . -mindepth 1 | sort))"
    else
        ok 0 "$name: leaves nothing behind"
    fi
}

"$zeppelin" data --suffix .h --context 4k --max-bytes 1MB -o set "$top" >/dev/null 2>&1
mkdir folder
: >empty
printf 'train:\n  steps: [\n' >malformed.yaml
printf 'train:\n  step: 5\n' >unknown.yaml
printf 'nodes: {\n' >malformed-topo.yaml
cat >job.yaml <<'JOB'
cluster: {topology: 'synthetic: nodes:2 dev:2'}
data: {train: set/train, heldout: set/heldout, context: 4k, too_long: cut}
train: {steps: 2}
JOB
cat >many.yaml <<'JOB'
name: mine run
cluster: {topology: gone.yaml}
model: {kv_heads: 3}
train: {steps: 2}
data: {train: gone/train, heldout: gone/heldout}
plan: {method: tecp}
JOB
printf 'name: x\n' >unset.yaml
e='zeppelin: error:'

# --- verbs and options ---
bad 2 "zeppelin: unknown verb 'pln' (did you mean 'plan'?)" "an unknown verb" "$zeppelin" pln
bad 2 "zeppelin plan: --steps needs --tokens, the tokens of a step: see \`zeppelin plan --help\`" "steps of no size" "$zeppelin" plan --steps 3 --dist arxiv:tokens=64k
bad 2 "zeppelin plan: --window and --compose are of --steps: see \`zeppelin plan --help\`" "a window of no steps" "$zeppelin" plan --window 3 --capacity 4k --dist arxiv:tokens=64k
bad 2 "$e --compose: 'even': expected balance or alike" "an unknown composition" "$zeppelin" plan --steps 3 --tokens 8k --compose even --dist arxiv:tokens=64k
bad 2 "zeppelin plan: unknown option '--capcity' (did you mean '--capacity'?)" "an unknown option" "$zeppelin" plan --capcity 5
bad 2 "zeppelin plan: option '--capacity' needs a value" "an option without its value" "$zeppelin" plan --capacity
bad 2 "zeppelin run: no job file: see \`zeppelin run --help\`" "no job file" "$zeppelin" run
bad 2 "zeppelin data: no output folder: expected -o FOLDER: see \`zeppelin data --help\`" "no output folder" "$zeppelin" data set

# --- files ---
bad 2 "$e missing.yaml: No such file or directory" "a missing job file" "$zeppelin" run missing.yaml
bad 2 "$e folder: is a directory, expected a file" "a folder in place of a job file" "$zeppelin" run folder
bad 2 "$e empty: empty, expected YAML" "an empty job file" "$zeppelin" run empty
bad 2 "$e malformed.yaml:3: not valid YAML: did not find expected node content" "malformed YAML" "$zeppelin" run malformed.yaml
bad 2 "$e unknown.yaml:2: unknown key 'train.step' (did you mean 'train.steps'?)" "an unknown key" "$zeppelin" run unknown.yaml
bad 2 "$e --set cluster.time=5parsecs: cluster.time: '5parsecs': expected a time (for example 30s, 10m, 2h, 1.5ms, 01:30:00), or default" "a wrong unit" "$zeppelin" run --set cluster.time=5parsecs job.yaml
bad 2 "$e --set cluster.devices=0: cluster.devices: '0': expected a whole number from 1 to 4096, or auto" "zero ranks" "$zeppelin" run --set cluster.devices=0 job.yaml
bad 2 "$e synthetic topology: dev: '0': expected a whole number from 1 to 4096" "zero devices in a description" "$zeppelin" topo --synthetic 'nodes:2 dev:0'
bad 2 "$e synthetic topology: net: '200GHz': expected a number and a unit (for example 200Gb/s, 25GB/s)" "a bandwidth in another unit" "$zeppelin" topo --synthetic 'nodes:2 net:200GHz'
bad 2 "$e missing.yaml: No such file or directory" "a missing topology" "$zeppelin" topo --file missing.yaml
bad 2 "$e folder: is a directory, expected a file" "a folder in place of a topology" "$zeppelin" topo --file folder
bad 2 "$e malformed-topo.yaml:2: not valid YAML: did not find expected node content" "a malformed topology" "$zeppelin" topo --file malformed-topo.yaml
printf 'NAME STATUS ROLES AGE\nn1 Ready none 3d\n' >table
bad 2 "$e table: the table of kubectl get nodes: expected the output of kubectl get nodes -o json" "a table" "$zeppelin" topo --from table
bad 2 "$e empty.conf: empty: expected a topology" "an empty file" sh -c ': >empty.conf; "$0" topo --from empty.conf; s=$?; rm empty.conf; exit $s' "$zeppelin"
rm table
bad 2 "$e unknown preset 'D': expected A, B, C, dgx-a100, dgx-h100, gb200-nvl72, p4d, p5, nd-h100-v5 or cpu-2s" "an unknown preset" "$zeppelin" topo --preset D
bad 2 "$e missing: No such file or directory" "no source of text" "$zeppelin" data -o d missing
bad 2 "$e folder: no files of text" "a folder without text" "$zeppelin" data -o d folder
bad 2 "$e folder: no files of text that end in .x,.y" "a folder without such text" "$zeppelin" data --suffix .x,.y -o d folder
bad 2 "$e set: is not empty: expected a new or empty folder" "a data set in the way" "$zeppelin" data -o set "$top/common"

# --- plans ---
echo "1000 2000 5692" >lengths
bad 2 "$e capacity 1024 tokens x 8 devices = 8192 is 500 tokens short of the batch's 8692; --capacity 1087 would fit, or fewer tokens a step (--tokens)" "too small a capacity" \
    "$zeppelin" plan --synthetic 'nodes:2 dev:4' --capacity 1024 --lengths lengths
bad 2 "$e unknown method 'te-pc' (did you mean 'te-cp'?): expected one of zeppelin, zeppelin-paper, te-cp, llama-cp, static-cp, hybrid-dp, flexsp, wlb, ulysses, usp, packed-dp, auto" "an unknown method" \
    "$zeppelin" plan --synthetic 'nodes:2 dev:4' --capacity 8k --method te-pc --lengths lengths
bad 2 "$e empty: no lengths in it: expected one length in tokens a line" "an empty list of lengths" "$zeppelin" plan --synthetic 'nodes:2 dev:4' --capacity 8k --lengths empty
bad 2 "$e unknown distribution 'arxvi' (did you mean 'arxiv'?): expected one of arxiv, github, prolong64k, web, prolong, wlb, sft" "an unknown distribution" \
    "$zeppelin" plan --synthetic 'nodes:2 dev:4' --capacity 8k --dist arxvi:tokens=1k

plan=("$zeppelin" plan --synthetic 'nodes:2 dev:4' --capacity 8k --lengths lengths)
bad 2 "zeppelin plan: --heads 30 over --kv-heads 7: expected a multiple: see \`zeppelin plan --help\`" "key-value heads that do not divide the heads" "${plan[@]}" --heads 30 --kv-heads 7
bad 2 "zeppelin plan: --heads 4 over --kv-heads 8: expected a multiple: see \`zeppelin plan --help\`" "more key-value heads than heads" "${plan[@]}" --heads 4 --kv-heads 8
for option in --heads=8 --kv-heads=8 --head-dim=64; do
    bad 2 "zeppelin plan: --heads, --kv-heads and --head-dim: --model llama-7b says them: see \`zeppelin plan --help\`" "$option beside a model" "${plan[@]}" --model llama-7b --device h100 $option
done

# --- predictions ---
printf 'format: zeppelin-model/1.0\nlayers: 4\nhidden: 512\nheads: 8\nvocab: 1000\n' >no-ffn.yaml
printf 'layers: 4\nhidden: 512\nheads: 7\nffn: 1024\nvocab: 1000\n' >heads.yaml
printf 'layers: 4\nhiden: 512\n' >typo.yaml
printf 'flops: 1e15\nattention_forward: 0\n' >slow.yaml
sim=("$zeppelin" sim --synthetic 'nodes:2 dev:4 nic:2' --dist arxiv:tokens=32k)
bad 2 "zeppelin sim: no --model: expected a known model (\`zeppelin sim --list-models\`) or a file: see \`zeppelin sim --help\`" "no model" "${sim[@]}"
bad 2 "$e unknown model 'llama-7' (did you mean 'llama-7b'?): expected one of llama-3b, llama-7b, llama-13b, llama-30b, moe-8x550m, llama3-8b, llama3-70b, or a file" "an unknown model" "${sim[@]}" --model llama-7
bad 2 "$e ./no-ffn.yaml: 'ffn' is missing: zeppelin-sim(1), FILES, names what is expected" "a model without a field" "${sim[@]}" --model ./no-ffn.yaml
bad 2 "$e ./heads.yaml: heads: 7 do not divide hidden 512: expected a divisor, or head_dim" "heads that do not divide" "${sim[@]}" --model ./heads.yaml --device h100
bad 2 "$e ./typo.yaml:2: unknown key 'hiden' (did you mean 'hidden'?)" "an unknown key of a model" "${sim[@]}" --model ./typo.yaml
bad 2 "$e ./slow.yaml:2: attention_forward: '0': expected a number from 1e-06 to 10" "a share of nothing" "${sim[@]}" --model llama-7b --device ./slow.yaml
bad 2 "$e node 'node0': how fast its device (of no known model) is, is not known: --device names a kind of device or a file" "a device that is not known" "${sim[@]}" --model llama-7b
bad 2 "zeppelin explain: --method 'te-cp,wlb': expected one method: see \`zeppelin explain --help\`" "two methods to explain" "$zeppelin" explain --preset A:2 --model llama-7b --dist arxiv:tokens=64k --method te-cp,wlb
run "${sim[@]}" --model llama-13b --device h100 --tp 8
like "$err" "40 heads and 40 key-value heads do not divide over tensor parallelism of 8|fewer than the 8 of a tensor-parallel group" "tensor parallelism that does not fit"
run "$zeppelin" plan --synthetic 'nodes:2 dev:8' --lengths lengths --capacity 8k --tp 3
is "$status" 0 "groups that do not divide a node"
like "$err" "warning: --tp 3 leaves 4 GPUs idle, of 2 of 2 nodes" "a warning tells how many GPUs are idle"
run "$zeppelin" plan --synthetic 'nodes:2 dev:8' --lengths lengths --capacity 8k --tp 3 --devices 2
unlike "$err" "idle" "not where --devices says how many are used"
bad 2 "$e node 'node0' has 8 GPUs, fewer than the 16 of a tensor-parallel group (--tp, cluster.tp)" "a group that no node has" "$zeppelin" plan --synthetic 'nodes:2 dev:8' --lengths lengths --capacity 8k --tp 16
run "$zeppelin" sim --preset A:2 --model llama-7b --tp 2 --methods zeppelin --dist arxiv:tokens=64k,seed=1
like "$out" "mem/GPU" "memory of a group is told by GPU"
python3 -c 'import re, sys; assert 10 < float(re.search(r"^zeppelin .* ([0-9.]+)GB$", sys.argv[1], re.M)[1]) < 80, sys.argv[1]' "$out"
ok $? "and no more than a board has"
run "$zeppelin" sim --preset A:1 --model llama3-70b --dist arxiv:tokens=64k
is "$status" 2 "a model that does not fit: status 2"
like "$err" 'memory holds 0 tokens a device of a800 beside the model.s state \([0-9.]+ GB a device\), the batch has 8192' "and by how much"
run "$zeppelin" sim --synthetic 'nodes:2 dev:4 nic:0' --device h100 --model llama3-8b --dist arxiv:tokens=32k,max=32k --methods te-cp --capacity 8k
is "$status" 2 "no links between nodes: status 2"
like "$err" 'node 0 has no NIC: there is no link between its devices and other nodes: the topology must say it' "and that they are missing"
bad 2 "zeppelin plan: --heads 32 over --kv-heads 3: expected a multiple: see \`zeppelin plan --help\`" "key-value heads that do not divide the heads" "$zeppelin" plan --preset A:2 --capacity 8k --dist arxiv:tokens=64k,max=8k --kv-heads 3
bad 2 "zeppelin plan: --kv-heads 1: expected a multiple of --tp 2, so that ulysses can exchange them: see \`zeppelin plan --help\`" "key-value heads that tensor parallelism does not divide" "$zeppelin" plan --preset A:2 --capacity 8k --dist arxiv:tokens=64k,max=8k --kv-heads 1 --tp 2 --method ulysses
for option in --steps=4 --method=te-cp --capacity=8k --preset=A:2 --no-remap; do
    bad 2 "zeppelin plan: ${option%%=*} is of a new plan, 'old.json' is one already: see \`zeppelin plan --help\`" "$option of a plan that was written before" "$zeppelin" plan "$option" --check old.json
done
run "$zeppelin" plan --synthetic 'nodes:2 dev:4 nic:0' --dist arxiv:tokens=32k,max=32k --method te-cp --capacity 8k
is "$status" 0 "a plan by tokens needs no speed of links"
like "$err" "warning: node 'node0' has no NIC in the topology, and the plan sends tokens between nodes" "but says that there are none"
run "$zeppelin" plan --synthetic 'nodes:2 dev:4 nic:0' --lengths <(printf '%s\n' 8 8 8 8 8 8 8 8) --capacity 8k
unlike "$err" 'no NIC' "where it needs any"
run "$zeppelin" advise --synthetic 'nodes:2 dev:4 nic:0' --device h100 --model llama-3b --dist arxiv:tokens=128k,max=32k --steps 1
is "$status" 2 "advice without links: status 2"
like "$err" 'error: nothing can be predicted with 2 nodes: node 0 has no NIC: .*--nodes 1 take one node alone$' "and what to do"

# --- jobs ---
bad 2 "$e --set plan.method=zepelin: plan.method: 'zepelin' (did you mean 'zeppelin'?): \`zeppelin plan --help\` lists the methods" "an unknown method in a job" "$zeppelin" run --set plan.method=zepelin job.yaml
bad 3 "$e --set cluster.tp=2: cluster.tp is 2: tensor parallelism is planned and checked, but this version's runtime trains with cluster.tp: 1" "tensor parallelism" "$zeppelin" run --set cluster.tp=2 job.yaml
bad 2 "$e --set data.train=nothing: data.train: $tmp/nothing.idx: No such file or directory: expected a data set PREFIX.bin and PREFIX.idx" "a missing data set" "$zeppelin" run --set data.train=nothing job.yaml
bad 2 "$e job.yaml:2: data.train: plan.capacity 100 tokens x 4 devices = 400 is 3696 tokens short of the longest document's 4096; plan.capacity: 1024 would fit" "a capacity below the longest document" \
    "$zeppelin" run --set plan.capacity=100 job.yaml
run "$zeppelin" run --set model.vocab=64 job.yaml
is "$status" 2 "tokens beyond the vocabulary: status 2"
like "$err" 'data.train: .*set/train.bin: token [0-9]+ of document [0-9]+ is [0-9]+: expected 0 to 63 \(model.vocab is 64\)' "the message names set, document and token"
run "$zeppelin" run --set data.too_long=refuse job.yaml
is "$status" 2 "a document longer than the context is refused"
like "$err" 'job.yaml:2: data.train: .*set/train: [0-9]+ of [0-9]+ documents (is|are) longer than data.context \(4096 tokens\), document [0-9]+ with [0-9]+ the first of them; with data.too_long: cut they are cut' "the message names it and counts"
[ ! -e runs ]
ok $? "no run folder is left"
bad 2 "$e --set cluster.nodes=3: cluster.nodes: '3': the topology (synthetic nodes:2 dev:2) has 2 nodes" "more nodes than there are" "$zeppelin" run --set cluster.nodes=3 job.yaml
bad 2 "$e --set cluster.devices=4: cluster.devices: '4': synthetic nodes:2 dev:2 offers 2 devices a node: expected at most 2, or in cluster.topology a cluster that has more, as 'synthetic: nodes:2 dev:4 kind:cpu' (more ranks than cores are slow, but right)" "more devices than there are" "$zeppelin" run --set cluster.devices=4 job.yaml
run "$zeppelin" run --set run_root=lengths/runs job.yaml
is "$status" 2 "a place where no run folder can be made: status 2"
like "$err" "$tmp/lengths: is a file, expected a directory" "the message names it"
bad 3 "$e cluster.where is slurm, but this is no Slurm allocation: \`zeppelin submit\` hands the job to Slurm; or start it below salloc" "Slurm without an allocation" \
    env -u SLURM_JOB_ID "$zeppelin" run --set cluster.where=slurm job.yaml
bad 2 "$e $tmp/folder: is no run folder: it has no run.json" "no run folder" "$zeppelin" run --resume "$tmp/folder"
bad 2 "$e nothing: no such run folder, and no run or job of that name in your index" "no such run" "$zeppelin" report nothing
bad 2 "$e cluster.devices: 'auto': expected a number for a batch job (ranks a node), or cluster.gpus_per_node" "a batch job without numbers" "$zeppelin" submit job.yaml

# --- job check tells of what run would refuse, all at once ---
bad 2 "$e data.train is not set: expected the prefix of a data set, as \`zeppelin data\` makes it" "a job without data" "$zeppelin" job check unset.yaml
bad 2 "$e many.yaml:1: name: 'mine run': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit" "many mistakes" "$zeppelin" job check many.yaml
is "$err" "$e many.yaml:1: name: 'mine run': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit
$e many.yaml:3: model.kv_heads: '3': expected a divisor of model.heads (4)
$e many.yaml:6: plan.method: 'tecp' (did you mean 'te-cp'?): \`zeppelin plan --help\` lists the methods
$e many.yaml:2: cluster.topology: gone.yaml: No such file or directory
$e many.yaml:5: data.train: gone/train.idx: No such file or directory: expected a data set PREFIX.bin and PREFIX.idx
$e many.yaml:5: data.heldout: gone/heldout.idx: No such file or directory: expected a data set PREFIX.bin and PREFIX.idx" "all of it is told together: values, rules between them, what is not there"
run "$zeppelin" job check --set name=mine --set model.kv_heads=2 many.yaml
is "$status" 2 "what only shows outside of the file: status 2"
is "$err" "$e many.yaml:6: plan.method: 'tecp' (did you mean 'te-cp'?): \`zeppelin plan --help\` lists the methods
$e many.yaml:2: cluster.topology: gone.yaml: No such file or directory
$e many.yaml:5: data.train: gone/train.idx: No such file or directory: expected a data set PREFIX.bin and PREFIX.idx
$e many.yaml:5: data.heldout: gone/heldout.idx: No such file or directory: expected a data set PREFIX.bin and PREFIX.idx" "all of it at once"
run "$zeppelin" run --set name=mine --set model.kv_heads=2 many.yaml
is "$(grep -c "^$e many.yaml:" <<<"$err")" 4 "run tells as much"
run "$zeppelin" job check job.yaml
is "$out" "job.yaml: ok" "a good job"
bad 2 "$e job.yaml:2: data.train: plan.capacity 100 tokens x 4 devices = 400 is 3696 tokens short of the longest document's 4096; plan.capacity: 1024 would fit" "check: a capacity below the longest document" \
    "$zeppelin" job check --set plan.capacity=100 job.yaml
bad 2 "$e --set cluster.devices=4: cluster.devices: '4': synthetic nodes:2 dev:2 offers 2 devices a node: expected at most 2, or in cluster.topology a cluster that has more, as 'synthetic: nodes:2 dev:4 kind:cpu' (more ranks than cores are slow, but right)" "check: more devices than there are" \
    "$zeppelin" job check --set cluster.devices=4 job.yaml
run env -u SLURM_JOB_ID "$zeppelin" job check --set cluster.topology=auto --set cluster.devices=4096 job.yaml
is "$status $out" "0 job.yaml: ok" "numbers for a cluster are right where this machine is too small"
[ ! -x "$build/zeppelin-detect-local" ] || like "$err" '`zeppelin run` on this machine would refuse: --set cluster.devices=4096: cluster.devices:' "with a remark"
bad 2 "$e --set cluster.topology=gone.yaml: cluster.topology: $tmp/gone.yaml: No such file or directory" "submit: a missing topology" \
    "$zeppelin" submit --set cluster.topology=gone.yaml --set cluster.devices=2 job.yaml
run "$zeppelin" submit --dry-run --set cluster.devices=2 job.yaml
like "$err" 'cluster.nodes is auto: asking for 1 node of 2 ranks' "submit says what auto means"
run "$zeppelin" submit --dry-run --set cluster.devices=2 --set cluster.nodes=2 job.yaml
is "$err" "" "and nothing where the job says it"

# --- no Slurm here ---
start=$(date +%s)
run env -u SLURM_CONF "$zeppelin" topo --slurm
if [ "$status" -eq 0 ]; then
    skip "no Slurm configuration" "there is a Slurm here"
else
    is "$status" 3 "no Slurm configuration: status 3"
    like "$err" 'no Slurm here' "the message says so"
    [ $(($(date +%s) - start)) -le 5 ]
    ok $? "at once"
fi
mkdir -p bin
ln -sf "$(command -v mktemp)" bin/mktemp
run env PATH="$tmp/bin" "$zeppelin" submit --set cluster.devices=2 job.yaml
is "$status" 3 "submit without sbatch: status 3"
like "$err" 'sbatch cannot be started: there is no Slurm here' "the message says so"
is "$(find runs -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" 0 "no run folder is left"

# a submission that the controller may have taken or not: sbatch as a stand-in
mkdir -p fake
cat >fake/sbatch <<'SBATCH'
#!/bin/sh
[ "$1" != --test-only ] || exit 0
cp "${2%/*}/run.json" run.json.before
[ ! -e silent ] || { echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; }
echo 4711
SBATCH
chmod +x fake/sbatch
touch silent
run env PATH="$tmp/fake:$PATH" "$zeppelin" submit --set cluster.devices=2 job.yaml
is "$status" 3 "sbatch gets no answer: status 3"
like "$err" 'sbatch got no answer: .*Socket timed out' "the message says so"
like "$err" 'the job may be in the queue all the same .*: the run folder .*/runs/zeppelin-[^ ]* stays' "and that the run folder stays"
[ -s "$(echo runs/zeppelin-*/batch.sh)" ]
ok $? "it does"
rm -rf runs silent
run env PATH="$tmp/fake:$PATH" "$zeppelin" submit --set cluster.devices=2 job.yaml
is "$status $out" "0 4711" "a job that was taken"
is "$(cat runs/zeppelin-*/slurm-job)" 4711 "the run folder knows its id"
cmp runs/zeppelin-*/run.json run.json.before
ok $? "run.json is left to the job, which may have begun"
rm -rf runs
bad 2 "$e --set cluster.time=2m: cluster.time is 120 s and cluster.grace 60 s: expected a time limit above 120 s, for Slurm tells of its end up to a minute before the grace begins" "a time limit that leaves no time to train" \
    env PATH="$tmp/fake:$PATH" "$zeppelin" submit --set cluster.devices=2 --set cluster.time=2m job.yaml
bad 2 "$e --set cluster.grace=1d: cluster.grace: '1d': expected a time from 5s to 65535s" "a grace that sbatch would not take" \
    "$zeppelin" submit --set cluster.devices=2 --set cluster.grace=1d job.yaml

# --- a full disk while a checkpoint is written: the one before stays ---
if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null && [ -x "$build/zeppelin-rank" ]; then
    mkdir small
    cat >full.sh <<FULL
mount -t tmpfs -o size=1500k tmpfs "$tmp/small" || exit 99
"$zeppelin" run --set run_root=$tmp/small --set train.steps=40 --set checkpoint.every=2 --set checkpoint.keep=50 --set model.hidden=32 --set model.layers=2 --set model.heads=2 \
    --set model.kv_heads=1 --set model.head_dim=16 --set model.ffn=64 --set train.eval_tokens=0 --set data.context=512 --set train.tokens=1k job.yaml 2>full.err
echo \$? >full.status
ls "$tmp"/small/*/checkpoints >full.list
head -c 100000 </dev/zero >"$tmp/small/ballast" 2>/dev/null
rm -f "$tmp/small/ballast" "$tmp"/small/*/log
dir=\$(ls -d "$tmp"/small/zeppelin-*)
last=\$(sed 's/step-//' full.list | sort -n | tail -n 1)
rm -rf "\$dir/checkpoints/step-2" "\$dir/checkpoints/step-4"
"$zeppelin" run --resume "\$dir" --set train.steps=\$((last + 1)) --set checkpoint.every=0 >full.resume 2>&1
echo \$? >full.resume-status
FULL
    run unshare --mount --propagation private bash full.sh
    is "$(cat full.status 2>/dev/null)" 1 "a full disk while checkpointing: status 1"
    like "$(cat full.err)" 'No space left on device' "the message says so"
    is "$(grep -c '\.' full.list)" 0 "no half-written checkpoint is left"
    [ "$(grep -c '^step-' full.list)" -ge 1 ]
    ok $? "the checkpoints before it are there"
    is "$(cat full.resume-status 2>/dev/null)" 0 "and the run goes on from the last of them"
    [ "$(cat full.resume-status 2>/dev/null)" = 0 ] || diag "$(tail -n 5 full.resume)"
else
    skip "a full disk while checkpointing" "needs root and a mount namespace"
fi

# --- records that find no room: the training goes on; a run whose outcome finds none either did not lose a rank ---
if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null && [ -x "$build/zeppelin-rank" ]; then
    rm -rf small deaf
    mkdir small deaf
    cat >deaf.sh <<DEAF
mount -t tmpfs -o size=64k tmpfs "$tmp/small" || exit 99
small="--set train.eval_tokens=0 --set model.hidden=32 --set model.layers=2 --set model.heads=2 --set model.kv_heads=1 --set model.head_dim=16 --set model.ffn=64
    --set data.context=512 --set train.tokens=1k --set checkpoint.every=0"
"$zeppelin" run --set run_root=$tmp/deaf --set train.steps=2 \$small job.yaml >/dev/null 2>&1 || exit 98
dir=\$(ls -d "$tmp"/deaf/zeppelin-*)
mv "\$dir/metrics.jsonl" "$tmp/small/metrics.jsonl"
ln -s "$tmp/small/metrics.jsonl" "\$dir/metrics.jsonl"
"$zeppelin" run --resume "\$dir" --set train.steps=100 2>deaf.err >/dev/null
echo \$? >deaf.status
ls "\$dir/checkpoints" >deaf.list
umount "$tmp/small"
mount -t tmpfs -o size=200k tmpfs "$tmp/small" || exit 99
"$zeppelin" run --set run_root=$tmp/small --set train.steps=300 \$small job.yaml 2>mute.err >/dev/null
echo \$? >mute.status
DEAF
    run unshare --mount --propagation private bash deaf.sh
    is "$(cat deaf.status 2>/dev/null)" 0 "records that find no room do not stop the training: status 0"
    [ "$(cat deaf.status 2>/dev/null)" = 0 ] || diag "$status $(tail -n 5 deaf.err)"
    is "$(grep -c 'warning: .*metrics.jsonl: .*: the training goes on, with records missing' deaf.err)" 1 "one warning says so"
    like "$(cat deaf.list)" '^step-100$' "and the weights of the last step are saved"
    is "$(cat mute.status 2>/dev/null)" 1 "a disk without room for anything: status 1, no rank was lost"
    is "$(grep -c 'error: .*No space left on device' mute.err)" 1 "the message says it once"
else
    skip "records that find no room" "needs root and a mount namespace"
fi
done_testing
