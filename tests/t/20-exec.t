#!/usr/bin/env bash
# Attention by the executor on 1, 2, 3, 4 and 8 ranks against a plain double-precision reference.
# timeout: 400
. "$(dirname "$0")/../lib/tap.sh"
probe=$build/tests/mpi/exec-probe
[ -x "$probe" ] || skip_all "built without MPI"
mpi_env

# exec NP ARGS...: fills $line and the errors o_rms o_max dq_rms ...
exec_probe()
{
    local np=$1
    shift
    run timeout 90 mpirun -np "$np" "$probe" "$@"
    line=$(grep '^error' <<<"$out" | tail -n 1)
    read -r _ _ o_rms o_max _ dq_rms dq_max _ dkv_rms dkv_max _ bits _ rows <<<"$line"
}

small()
{
    [ "$status" -eq 0 ] && awk -v a="$o_max" -v b="$dq_max" -v c="$dkv_max" 'BEGIN { exit !(a != "" && a + 0 < 2e-5 && b + 0 < 2e-5 && c + 0 < 2e-5) }'
}

check()
{
    local name=$1
    shift
    exec_probe "$@"
    if small; then ok 0 "$name"; else ok 1 "$name"; diag "status $status: $line $(tail -n 3 <<<"$err")"; fi
}

# every length 1 .. 4G+3, all in one batch and each cut over all G devices
for g in 1 2 3 4 8; do
    # shellcheck disable=SC2046
    check "lengths 1 to $((4 * g + 3)), te-cp, G = $g" $g --method te-cp --dim 16 $(seq 1 $((4 * g + 3)))
    # shellcheck disable=SC2046
    check "lengths 1 to $((4 * g + 3)), zeppelin-paper, G = $g" $g --method zeppelin-paper --dim 16 $(seq 1 $((4 * g + 3)))
done
for g in 1 2 3 4 8; do
    check "9 7 8 12 8 12, te-cp, G = $g" $g --method te-cp 9 7 8 12 8 12
done
check "9 7 8 12 8 12, capacity exactly full, 8 devices in 2 nodes" 8 --nodes 2 --nics 2 --capacity 7 9 7 8 12 8 12
check "all three zones, 2 nodes x 4 devices, 2 NICs" 8 --nodes 2 --nics 2 --capacity 96 500 90 61 13 7
check "the same without routing" 8 --nodes 2 --nics 2 --no-routing --capacity 96 500 90 61 13 7
check "the same without remapping" 8 --nodes 2 --nics 2 --no-remap --capacity 96 500 90 61 13 7
check "the same with one proxy" 8 --nodes 2 --nics 4 --max-proxies 1 --capacity 96 500 90 61 13 7
check "the same with four NICs" 8 --nodes 2 --nics 4 --capacity 96 500 90 61 13 7
check "4 nodes of 2 devices" 8 --nodes 4 --nics 2 --capacity 96 500 90 61 13 7
check "nodes of 1 device" 4 --nodes 4 --nics 1 --capacity 190 500 90 61 13 7
check "an odd number of devices: 3 nodes of 1" 3 --nodes 3 --nics 1 --capacity 250 500 90 61 13 7
check "fewer sequences than ranks" 8 --nodes 2 --nics 2 --capacity 64 33
check "heads without groups, dim 32" 4 --nodes 2 --heads 3 --kv-heads 3 --dim 32 --capacity 96 200 50 7
check "tensor-parallel degree 2: hops between equal t" 8 --nodes 2 --nics 2 --tp 2 --capacity 190 500 90 61 13 7

# form F NEEDED NAME NP ARGS...: the same with another form of transfer; NEEDED rings at least have it
form()
{
    local f=$1 needed=$2 name=$3
    shift 3
    exec_probe "$@" --form "$f"
    awk -v f="$f" -v n="$needed" '$1 == "forms" { have = f ~ /^heads/ ? $9 : f == "mixed" ? ($5 > 0 && $7 > 0 ? n : 0) : f == "double" ? $5 : $7 } END { exit !(have >= n) }' <<<"$out"
    local used=$?
    if small && [ $used -eq 0 ]; then ok 0 "$name"; else ok 1 "$name"; diag "status $status, used $used: $line $(tail -n 3 <<<"$err")"; fi
}

for f in double gather; do
    # shellcheck disable=SC2046
    form $f 1 "$f, lengths 1 to 35, 2 nodes of 4" 8 --method te-cp --nodes 2 --dim 16 $(seq 1 35)
    # shellcheck disable=SC2046
    form $f 1 "$f, lengths 1 to 35, 4 nodes of 2" 8 --method te-cp --nodes 4 --dim 16 $(seq 1 35)
    form $f 1 "$f, 4 nodes of 1" 4 --method te-cp --nodes 4 9 7 8 12 8 300
    form $f 1 "$f, 3 nodes of 1" 3 --method te-cp --nodes 3 9 7 8 12 8 300
    form $f 1 "$f, 2 nodes of 1" 2 --method te-cp --nodes 2 9 7 8 12 8 300
    form $f 1 "$f, 2 nodes of 3" 6 --method te-cp --nodes 2 9 7 8 12 8 300
    form $f 1 "$f, all three zones, 2 nodes of 4" 8 --nodes 2 --nics 2 --capacity 96 500 90 61 13 7
    form $f 1 "$f, tensor-parallel degree 2" 8 --nodes 2 --tp 2 --method te-cp 190 500 90 61 13 7
done
for g in 2 3 4 8; do
    form gather 1 "gather in one node, G = $g" $g --method te-cp 9 7 8 12 8 300
done
# heads exchanged inside groups, and rings of all forms between the groups; grouped queries, several rings, other nodes, remapping, tensor parallelism
for u in 2 4 8; do
    # shellcheck disable=SC2046
    form heads$u-single 1 "heads in $u, lengths 1 to 35" $u --method te-cp --heads 16 --kv-heads 8 --dim 16 $(seq 1 35)
done
form heads3-single 1 "heads in 3, every head its own keys" 3 --method te-cp --heads 3 --kv-heads 3 --dim 32 9 7 8 12 8 300
for f in single double gather; do
    form heads2-$f 1 "heads in 2, $f over 2 nodes of 4" 8 --method te-cp --nodes 2 --dim 16 9 7 8 12 8 300
    form heads4-$f 1 "heads in 4, $f over 2 nodes of 4" 8 --method te-cp --nodes 2 --heads 8 --kv-heads 4 --dim 16 9 7 8 12 8 300
done
form heads2-single 1 "heads in 2, a ring of 4 groups" 8 --method te-cp --dim 16 9 7 8 12 8 300
form heads2-double 1 "heads in 2, double ring, 3 nodes of 2" 6 --method te-cp --nodes 3 --dim 16 9 7 8 12 8 300
form heads4-single 1 "heads in 4 over 2 nodes of 2" 4 --method te-cp --nodes 2 --heads 8 --kv-heads 4 --dim 16 9 7 8 12 8 300
form heads2-mixed 1 "heads in 2, all three zones, remapping" 8 --nodes 2 --nics 2 --capacity 96 500 90 61 13 7
form heads2-double 1 "heads in 2, tensor-parallel degree 2" 8 --nodes 2 --tp 2 --method te-cp 190 500 90 61 13 7
check "ulysses, groups of 2" 4 --method ulysses --nodes 2 --capacity 300 500 90 61 13 7
check "ulysses over 2 nodes" 4 --method ulysses --nodes 2 --heads 8 --kv-heads 4 --capacity 200 500 90 61 13 7
check "usp, 2 nodes of 2" 4 --method usp --nodes 2 --capacity 200 500 90 61 13 7
check "usp, 3 nodes of 1" 3 --method usp --nodes 3 --capacity 250 500 90 61 13 7
exec_probe 4 --method te-cp --heads 8 --kv-heads 2 --form heads4-single 500 90 61 13 7
[ "$status" -ne 0 ] && grep -q "ring 0 of the plan divides heads in 4 parts: the model has 8 heads and 2 key-value heads" <<<"$err"
ok $? "heads that do not divide are refused"
form mixed 1 "forms mixed, 4 nodes of 2" 8 --nodes 4 --nics 2 --capacity 80 220 160 150 33 21 13 7 5
exec_probe 8 --nodes 2 --method te-cp --form double --repeat 3 500 90 61 13 7
first=$bits
ok $((status != 0)) "double: three repetitions give the same bits"
exec_probe 8 --nodes 2 --method te-cp --form double 500 90 61 13 7
is "$bits" "$first" "double: another run gives the same bits"

# the same bits every time, and from every instruction set the same plan
exec_probe 8 --nodes 2 --nics 2 --capacity 96 --repeat 3 500 90 61 13 7
first=$bits
ok $((status != 0)) "three repetitions give the same bits"
exec_probe 8 --nodes 2 --nics 2 --capacity 96 500 90 61 13 7
is "$bits" "$first" "another run of the same layout gives the same bits"
cpus="plain"
grep -q avx2 /proc/cpuinfo && cpus="$cpus avx2"
grep -q avx512vl /proc/cpuinfo && cpus="$cpus avx512"
for cpu in $cpus; do
    ZEPPELIN_CPU=$cpu check "kernels $cpu" 4 --nodes 2 --capacity 150 500 13
done
run timeout 90 mpirun -np 1 -x ZEPPELIN_CPU=plain "$probe" --devices 4 --nodes 2 --capacity 96 500 13 : -np 7 "$probe" --devices 4 --nodes 2 --capacity 96 500 13
line=$(grep '^error' <<<"$out")
ok $((status != 0)) "ranks with different instruction sets make the same plan (the digest is compared)"

# errors do not grow with G
exec_probe 1 --method te-cp 700
one="$o_rms $dq_rms $dkv_rms"
exec_probe 8 --method te-cp 700
# shellcheck disable=SC2086
set -- $one
for pair in "o $1 $o_rms" "dq $2 $dq_rms" "dkv $3 $dkv_rms"; do
    read -r what a b <<<"$pair"
    awk -v a="$a" -v b="$b" 'BEGIN { exit !(b <= 1.5 * a) }'
    ok $? "the error of $what at G = 8 is at most 1.5 x that at G = 1"
    diag "$what: G = 1 $a, G = 8 $b"
done

# what must be noticed
exec_probe 4 --nodes 2 --drop 1 --capacity 64 200
awk -v a="$o_max" 'BEGIN { exit !(a > 1e-2) }'
ok $? "a dropped ring step shows in the comparison"
start=$(date +%s)
run timeout 60 mpirun -np 4 "$probe" --nodes 2 --stall 1 --timeout 3 400
ok $((status == 0)) "a silent rank ends the job"
like "$err" 'no progress for 3 s .*(from|to) rank 1' "the message names the silent rank"
[ $(($(date +%s) - start)) -lt 30 ]
ok $? "within 30 s"
done_testing
