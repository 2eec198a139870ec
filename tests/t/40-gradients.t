#!/usr/bin/env bash
# Gradients and losses do not depend on the layout: ranks, method, routing, remapping, micro-steps; and mistakes are noticed.
# timeout: 900
. "$(dirname "$0")/../lib/tap.sh"
probe=$build/tests/mpi/train-probe
[ -x "$probe" ] || skip_all "built without MPI"
mpi_env

run "$probe" data "$tmp/data"
ok "$status" "a data set is made"

# job NAME TOPOLOGY KEYS...: a job file
job()
{
    local name=$1 topology=$2
    shift 2
    {
        echo "format: zeppelin-job/1.0"
        echo "cluster: {topology: 'synthetic: $topology'}"
        echo "model: {vocab: 64, hidden: 64, layers: 3, heads: 4, kv_heads: 2, head_dim: 16, ffn: 128, init_std: 0.15}"
        echo "data: {train: $tmp/data, context: 600}"
        echo "train: {tokens: 1200, seed: 31, lr: ${lr:-0.003}, min_lr: 0.0001, warmup: ${warmup:-5}, steps: 60, eval_tokens: 0, optimizer: ${optimizer:-adamw}, clip: ${clip:-1.0}}"
        printf 'plan: {'
        local sep=
        for k in "$@"; do
            printf '%s%s' "$sep" "${k/=/: }"
            sep=', '
        done
        echo "}"
    } >"$tmp/$name.yaml"
}

# go NP OUT JOB OPTIONS...
go()
{
    local np=$1
    shift
    run timeout 200 mpirun -np "$np" "$probe" run "$@"
    [ "$status" -eq 0 ] || diag "$(tail -n 3 <<<"$err")"
}

# same OUT NAME GRADIENT LOSS [REFERENCE]
same()
{
    run "$probe" compare "${5:-$tmp/base.$stage}" "$1" "$3" "$4"
    ok "$status" "$2"
    diag "$out"
}

# name : ranks : topology : plan keys. Pairs of ranks, methods and switches.
layouts='
two:2:nodes:1 dev:2:capacity=700
three:3:nodes:3 dev:1 nic:1:capacity=500
four:4:nodes:2 dev:2 nic:2:capacity=400
eight:8:nodes:2 dev:4 nic:2:capacity=150
eight-te-cp:8:nodes:2 dev:4 nic:2:capacity=150 method=te-cp
four-te-cp:4:nodes:2 dev:2 nic:1:capacity=400 method=te-cp
eight-unrouted:8:nodes:2 dev:4 nic:4:capacity=150 routing=false
eight-four-nics:8:nodes:2 dev:4 nic:4:capacity=150
eight-not-remapped:8:nodes:2 dev:4 nic:2:capacity=150 remap=false
eight-micro:8:nodes:2 dev:4 nic:2:capacity=76
two-ulysses:2:nodes:1 dev:2:capacity=700 method=ulysses
four-ulysses:4:nodes:2 dev:2 nic:2:capacity=600 method=ulysses
three-usp:3:nodes:3 dev:1 nic:1:capacity=500 method=usp
four-usp:4:nodes:2 dev:2 nic:2:capacity=400 method=usp
four-micro-te-cp:4:nodes:2 dev:2 nic:2:capacity=155 method=te-cp
one-micro:1:nodes:1 dev:1:capacity=600
'

job base "nodes:1 dev:1" capacity=1200
stage=1
go 1 "$tmp/base.1" "$tmp/base.yaml" --steps 1 --gradient-at 1
ok "$status" "one rank, step 1"
mkdir -p "$tmp/trained/checkpoints"
go 1 "$tmp/train50" "$tmp/base.yaml" --steps 50 --gradient-at 0 --save-dir "$tmp/trained"
ok "$status" "one rank trains 50 steps"
go 1 "$tmp/base.51" "$tmp/base.yaml" --resume-dir "$tmp/trained" --steps 51 --gradient-at 51
ok "$status" "one rank, step 51"

while IFS=: read -r name np a b rest; do
    [ -n "$name" ] || continue
    keys=${rest##*:}
    topology="$a:$b:${rest%:*}"
    # shellcheck disable=SC2086
    job "$name" "$topology" $keys
    stage=1
    go "$np" "$tmp/$name.1" "$tmp/$name.yaml" --steps 1 --gradient-at 1
    same "$tmp/$name.1" "$name ($np ranks, $topology, $keys): gradients at step 1" 1e-5 1e-5
    stage=51
    go "$np" "$tmp/$name.51" "$tmp/$name.yaml" --resume-dir "$tmp/trained" --steps 51 --gradient-at 51
    same "$tmp/$name.51" "$name: gradients at trained weights" 1e-5 1e-5
done <<<"$layouts"

zones=$(cat "$tmp/eight.1" "$tmp/eight.51" | awk '$1 == "loss" { print ($8 > 0) + ($9 > 0) + ($10 > 0) }' | sort -u)
is "$zones" 3 "the layout of eight ranks has all three zones"
micro=$(awk '$1 == "loss" { print ($6 > 1) }' "$tmp/eight-micro.1")
is "$micro" 1 "a smaller capacity makes several micro-steps"

# other forms of transfer
job two-te-cp "nodes:1 dev:2" capacity=700 method=te-cp
for layout in "eight:8:double" "eight:8:gather" "eight-te-cp:8:double" "eight-te-cp:8:gather" "four-te-cp:4:double" "three:3:double" "eight-micro:8:double" "two-te-cp:2:gather"; do
    IFS=: read -r name np form <<<"$layout"
    stage=1
    go "$np" "$tmp/form.1" "$tmp/$name.yaml" --steps 1 --gradient-at 1 --form "$form"
    awk -v f="$form" '$1 == "forms" { n = f == "double" ? $5 : $7 } END { exit !n }' <<<"$out"
    ok $? "$name: some ring is of the form $form"
    same "$tmp/form.1" "$name, $form: gradients at step 1" 1e-5 1e-5
    stage=51
    go "$np" "$tmp/form.51" "$tmp/$name.yaml" --resume-dir "$tmp/trained" --steps 51 --gradient-at 51 --form "$form"
    same "$tmp/form.51" "$name, $form: gradients at trained weights" 1e-5 1e-5
done

# twenty steps, with AdamW, and with plain SGD at full learning rate from step 1
for opt in adamw sgd; do
    if [ $opt = sgd ]; then
        optimizer=sgd clip=0 lr=0.3 warmup=0
    else
        optimizer=adamw clip=1.0 lr=0.003 warmup=5
    fi
    job base "nodes:1 dev:1" capacity=1200
    go 1 "$tmp/steps.1" "$tmp/base.yaml" --steps 20 --gradient-at 0
    awk '$1 == "loss" { if (!n++) first = $3; last = $3 } END { exit !(n == 20 && last <= 0.9 * first) }' "$tmp/steps.1"
    ok $? "$opt: the loss falls by at least 10 % in 20 steps"
    diag "$(awk '$1 == "loss" { if (!n++) first = $3; last = $3 } END { print first, last }' "$tmp/steps.1")"
    for layout in "2:nodes:1 dev:2:capacity=700" "3:nodes:3 dev:1 nic:1:capacity=500" "8:nodes:2 dev:4 nic:2:capacity=150" "8:nodes:2 dev:4 nic:2:capacity=150 method=te-cp" "4:nodes:2 dev:2 nic:2:capacity=155"; do
        np=${layout%%:*}
        keys=${layout##*:}
        topology=${layout#*:}
        topology=${topology%:*}
        # shellcheck disable=SC2086
        job steps "$topology" $keys
        go "$np" "$tmp/steps.$np" "$tmp/steps.yaml" --steps 20 --gradient-at 0
        same "$tmp/steps.$np" "$opt: losses of 20 steps on $np ranks ($keys)" 1 1e-4 "$tmp/steps.1"
    done
    unset optimizer clip lr warmup
done

# each of these mistakes must show
job eight "nodes:2 dev:4 nic:2" capacity=150
job eight-te-cp "nodes:2 dev:4 nic:2" capacity=150 method=te-cp
for form in double gather; do
    go 8 "$tmp/mutant" "$tmp/eight-te-cp.yaml" --steps 1 --gradient-at 1 --mutant ring-step-dropped --form $form
    run "$probe" compare "$tmp/base.1" "$tmp/mutant" 1e-5 1e-5
    ok $((status == 0)) "a dropped step of the form $form is noticed"
done
for mutant in mean-per-rank ring-step-dropped dkv-not-returned positions-not-restarted label-across-documents; do
    go 8 "$tmp/mutant" "$tmp/eight.yaml" --steps 1 --gradient-at 1 --mutant $mutant
    ran=$status
    run "$probe" compare "$tmp/base.1" "$tmp/mutant" 1e-5 1e-5
    ok $((ran != 0 || status == 0)) "the mutant $mutant is noticed"
done
done_testing
