#!/usr/bin/env bash
# On a virtual cluster with rate-limited NICs: results over real TCP, transfers that advance while a block is computed, and hops carried by several NICs.
# timeout: 200
if [ "${1:-}" != inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    exec 3>&1
    reason=$("$here/../bed/netns" --nodes 2 --nics 2 --slots 4 --rate 200mbit -- bash "$here/$(basename "$0")" inside 2>&1 >&3)
    status=$?
    if [ $status -eq 77 ]; then
        echo "1..0 # SKIP $reason"
        exit 0
    fi
    [ -z "$reason" ] || printf '%s\n' "$reason" >&2
    exit $status
fi
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
probe=$build/tests/mpi/exec-probe
[ -x "$probe" ] || skip_all "built without MPI"

is "$(bed-node 1 hostname)" vn1 "nodes have their own names"
run bed-mpirun -np 8 --map-by ppr:4:node "$probe" --nodes 2 --nics 2 --capacity 96 500 90 61 13 7
ok "$status" "attention over two nodes"
read -r _ _ _ o _ _ q _ _ kv _ <<<"$(grep '^error' <<<"$out")"
awk -v a="$o" -v b="$q" -v c="$kv" 'BEGIN { exit !(a != "" && a + 0 < 2e-5 && b + 0 < 2e-5 && c + 0 < 2e-5) }'
ok $? "it is that of the reference"
diag "$out"

# one long sequence over two nodes of one device: the other node's block (3000 tokens, 1.5 MB, 61 ms on its NIC) comes while the own one is computed
arrived()
{
    awk '$1 == "overlap" && $3 == 0 && $5 == 0 { print $9; exit }' <<<"$out"
}
args=(--nodes 2 --nics 1 --no-remap --dim 64 --heads 16 --kv-heads 1 --overlap --no-compare 6000)
run bed-mpirun -np 2 --map-by ppr:1:node "$probe" "${args[@]}"
ok "$status" "one long sequence over two nodes"
is "$(arrived)" 1 "the first block has arrived when the first attention kernel ends"
run bed-mpirun -np 2 --map-by ppr:1:node "$probe" "${args[@]}" --no-progress
is "$(arrived)" 0 "without the progress hook it has not"
done_testing
