#!/usr/bin/env bash
# What a step trains on: planned while the step before it runs, with the same results, and errors at the step that they belong to.
# timeout: 300
. "$(dirname "$0")/../lib/tap.sh"
probe=$build/tests/mpi/train-probe
[ -x "$probe" ] || skip_all "built without MPI"
mpi_env

# job NAME DATA CAPACITY KEYS
job()
{
    cat >"$tmp/$1.yaml" <<JOB
format: zeppelin-job/1.0
cluster: {topology: 'synthetic: nodes:2 dev:2 nic:1'}
model: {vocab: 64, hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: $tmp/$2, context: 600}
train: {tokens: 1200, seed: 5, steps: 40, eval_tokens: 0}
plan: {capacity: $3, check: true, $4}
JOB
}
go()
{
    run timeout 100 mpirun -np "${np:-4}" "$probe" run "$@"
}

for flaw in "" long token; do
    run "$probe" data "$tmp/data$flaw" $flaw
    ok "$status" "a data set${flaw:+ with a document that is flawed: $flaw}"
done
job with data 400 "ahead: true"
job without data 400 "ahead: false"
go "$tmp/with" "$tmp/with.yaml" --steps 5 --gradient-at 5 --wait-next 1
ok "$status" "five steps, planned ahead"
[ "$status" -eq 0 ] || diag "$err"
is "$(grep -c 'has the next plans' <<<"$out")" 16 "on 4 ranks, in each of 4 steps, the next plans are made before the gradients are exchanged"
go "$tmp/without" "$tmp/without.yaml" --steps 5 --gradient-at 5 --wait-next 1
is "$(grep -c 'lacks the next plans' <<<"$out")" 16 "with plan.ahead: false they are not"
cmp -s "$tmp/with" "$tmp/without" && cmp -s "$tmp/with.5.f32" "$tmp/without.5.f32"
ok $? "losses and gradients are the same, bit for bit"
job ends data 400 "ahead: true"
sed -i 's/steps: 40/steps: 3/' "$tmp/ends.yaml"
go "$tmp/ends" "$tmp/ends.yaml" --steps 5 --gradient-at 0
ok "$status" "steps beyond the last one are made when they are asked for"
cmp -s <(cut -d' ' -f1,2 "$tmp/ends") <(grep ^loss "$tmp/with" | cut -d' ' -f1,2)
ok $? "and are all there"

# windows: other steps, on any number of ranks the same, also in the middle of a window
for np in 4 2; do
    job window$np data 700 "window: 4, compose: balance"
    [ $np = 4 ] || sed -i 's/nodes:2 dev:2/nodes:1 dev:2/' "$tmp/window$np.yaml"
    mkdir -p "$tmp/half$np/checkpoints"
    go "$tmp/whole$np" "$tmp/window$np.yaml" --steps 9 --gradient-at 0
    ok "$status" "nine steps in windows of 4 on $np ranks"
    go "$tmp/first$np" "$tmp/window$np.yaml" --steps 6 --gradient-at 0 --save-dir "$tmp/half$np"
done
np=2
go "$tmp/rest" "$tmp/window2.yaml" --steps 9 --gradient-at 0 --resume-dir "$tmp/half4"
ok "$status" "resumed in the middle of a window on 2 ranks in place of 4"
job window-other data 700 "window: 4, compose: alike"
sed -i 's/nodes:2 dev:2/nodes:1 dev:2/' "$tmp/window-other.yaml"
go "$tmp/none" "$tmp/window-other.yaml" --steps 9 --gradient-at 0 --resume-dir "$tmp/half4"
ok $((status == 0)) "not with windows of another kind"
like "$err" "step-6: was made with plan.compose balance, the job says alike: steps would have other documents, some of the epoch would come twice or not at all" "and why"
cat "$tmp/first4" "$tmp/rest" >"$tmp/both"
for other in whole2 both; do
    run "$probe" compare "$tmp/whole4" "$tmp/$other" 1 1e-4
    ok "$status" "the losses are those of one run ($other)"
done
run "$probe" compare "$tmp/whole4" "$tmp/with" 1 1e-4
ok $((status == 0)) "and not those without a window"
np=4

# a document that no plan can hold, and one that cannot be read: the same steps before, the same words
for flaw in long:"capacity" token:"99"; do
    for ahead in true false; do
        job bad "data${flaw%%:*}" "$([ "${flaw%%:*}" = long ] && echo 149 || echo 400)" "ahead: $ahead"
        go "$tmp/bad.$ahead" "$tmp/bad.yaml" --steps 30
        [ "$status" -ne 0 ]
        ok $? "${flaw%%:*}, ahead $ahead: the training fails"
        grep -ao 'rank 0: step [0-9]*: .*' <<<"$err" | sort | head -n 1 >"$tmp/bad.$ahead.text"
    done
    like "$(cat "$tmp/bad.true.text")" "step [1-9][0-9]+: .*${flaw#*:}" "at a step after the first, which is named"
    cmp -s "$tmp/bad.true.text" "$tmp/bad.false.text"
    ok $? "${flaw%%:*}: the same error at the same step"
    diag "$(cat "$tmp/bad.true.text")"
done
done_testing
