#!/usr/bin/env bash
# The virtual cluster: nodes with names and NICs of their own, NICs of the stated rate, MPI over them, nothing left afterwards.
# timeout: 120
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
bed=$top/tests/bed/netns

left()
{
    local n as_root=()
    [ "$(id -u)" -eq 0 ] || ! sudo -n true 2>/dev/null || as_root=(sudo -n)
    [[ $1 =~ ^pid:\[[0-9]+\]$ ]] || { echo "no namespace '$1'"; return; }
    for _ in $(seq 50); do
        n=$("${as_root[@]}" find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/pid' -lname "${1//[/\\[}" 2>/dev/null | wc -l)
        [ "$n" -gt 0 ] || break
        sleep 0.1
    done
    echo "$n"
}
value()
{
    sed -n "s/^$1=//p" <<<"$out"
}

run "$bed" --rate fast -- true
is "$status" 2 "a bad rate: status 2"
like "$err" "^tests/bed/netns: --rate 'fast': expected none or a rate such as 200mbit$" "with what was expected"

cat >ring.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, size, name_len, n = 500000;
    char name[MPI_MAX_PROCESSOR_NAME], *a, *b;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &name_len);
    a = calloc(n, 1), b = calloc(n, 1);
    a[n - 1] = rank + 1;
    MPI_Sendrecv(a, n, MPI_CHAR, (rank + size / 2) % size, 0, b, n, MPI_CHAR, (rank + size / 2) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank%d=%s %s heard %d\n", rank, name, getenv("OMPI_MCA_btl_tcp_if_include"), b[n - 1] - 1);
    return MPI_Finalize();
}
C
# from one node to the other, over the NIC that has the address: seconds and what arrived
cat >rate.py <<'PY'
import socket, sys, time
if sys.argv[1] == "serve":
    s = socket.create_server((sys.argv[2], 5000))
    print("ready", flush=True)
    c, _ = s.accept()
    n, start = 0, None
    while True:
        data = c.recv(1 << 16)
        if not data:
            break
        start = start or time.monotonic()
        n += len(data)
    print("rate=%.1f" % (n * 8e-6 / (time.monotonic() - start)))
else:
    c = socket.create_connection((sys.argv[3], 5000), source_address=(sys.argv[2], 0))
    c.sendall(bytes(6000000))
PY
cat >inside.sh <<'SH'
echo "pid_ns=$(readlink /proc/self/ns/pid)"
echo "names=$(bed-node 0 hostname) $(bed-node 1 hostname)"
echo "nics=$(bed-node 1 ip -o link | grep -c " nic")"
bed-node 1 touch /dev/shm/only-here
echo "shm=$(bed-node 0 ls /dev/shm/)"
sent() { bed-node 0 ip -s -o link show "$1" | sed 's/.*TX: [^\\]*\\ *\([0-9]*\).*/\1/'; }
before0=$(sent nic0) before1=$(sent nic1)
bed-node 1 python3 rate.py serve 10.78.1.2 >server.out &
for _ in $(seq 50); do grep -q ready server.out && break; sleep 0.1; done
bed-node 0 python3 rate.py send 10.78.1.1 10.78.1.2
wait
grep rate= server.out
echo "sent0=$(($(sent nic0) - before0))"
echo "sent1=$(($(sent nic1) - before1))"
before0=$(sent nic0) before1=$(sent nic1)
if command -v mpicc >/dev/null; then
    mpicc -o ring ring.c || exit 1
    bed-mpirun -np 4 --map-by ppr:2:node "$PWD/ring"
    echo "mpi_sent0=$(($(sent nic0) - before0))"
    echo "mpi_sent1=$(($(sent nic1) - before1))"
fi
setsid sleep 1000 >/dev/null 2>&1 &
exit 7
SH
# within LOW HIGH VALUE
within()
{
    awk -v l="$1" -v h="$2" -v v="$3" 'BEGIN { exit !(v != "" && v + 0 >= l && v + 0 <= h) }'
}
names=$(ip -o link 2>/dev/null | grep -cE 'n[0-9]+k[0-9]+|n[0-9]+c')

"$bed" --nodes 2 --nics 1 --slots 1 --rate none -- bed-mpirun -np 2 hostname >second.out 2>second.err &
second=$!
run "$bed" --nodes 2 --nics 2 --slots 2 --rate 200mbit -- bash -c "$(printf 'cat >ring.c <<"C"\n%s\nC\ncat >rate.py <<"P"\n%s\nP\n%s\n' "$(cat ring.c)" "$(cat rate.py)" "$(cat inside.sh)")"
if [ "$status" -eq 77 ]; then
    wait $second
    skip_all "$err"
fi
is "$status" 7 "the command's status is the bed's"
[ "$status" -eq 7 ] || diag "$err"
is "$(value names)" "vn0 vn1" "nodes have their own names"
is "$(value nics)" 2 "two NICs a node"
is "$(value shm)" "" "nodes share no memory"
# the bed is at fault when more than its rate comes through; a busy machine makes it less
within 40 215 "$(value rate)"
ok $? "a NIC of 200 Mbit/s: no more, and not far less"
diag "$(value rate) Mbit/s"
within 6000000 6600000 "$(value sent1)" && within 0 100000 "$(value sent0)"
ok $? "what is sent from a NIC's address leaves through that NIC"
if command -v mpicc >/dev/null; then
    is "$(value rank0)" "vn0 nic0 heard 2" "rank 0"
    is "$(value rank1)" "vn0 nic1 heard 3" "rank 1: the other NIC of the same node"
    is "$(value rank2)" "vn1 nic0 heard 0" "rank 2: the other node"
    is "$(value rank3)" "vn1 nic1 heard 1" "rank 3"
    within 500000 700000 "$(value mpi_sent0)" && within 500000 700000 "$(value mpi_sent1)"
    ok $? "each rank's message went over its own NIC"
    diag "$(value mpi_sent0) and $(value mpi_sent1) bytes of 500000 each"
else
    skip "MPI over the nodes" "mpicc is not installed"
fi
is "$(left "$(value pid_ns)")" 0 "nothing is left of the bed, not even what left its session"
is "$(ip -o link 2>/dev/null | grep -cE 'n[0-9]+k[0-9]+|n[0-9]+c')" "$names" "no network interface is left"
wait $second
ok $? "a second bed at the same time"
is "$(sort second.out | tr '\n' ' ')" "vn0 vn1 " "has its own nodes"
done_testing
