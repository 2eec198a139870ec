#!/usr/bin/env bash
# The sealed Slurm bed: a real cluster with a name of its own, steered by bed-ctl, of which nothing is left afterwards.
# timeout: 180
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
bed=$top/tests/bed/slurm

# left NAMESPACE: processes in the PID namespace "pid:[...]"; those that are being ended get a moment
left()
{
    local n as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
    [[ $1 =~ ^pid:\[[0-9]+\]$ ]] || { echo "no namespace '$1'"; return; }
    for _ in $(seq 50); do
        n=$("${as_root[@]}" find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/pid' -lname "${1//[/\\[}" 2>/dev/null | wc -l)
        [ "$n" -gt 0 ] || break
        sleep 0.1
    done
    echo "$n"
}
# value NAME: from lines NAME=VALUE in $out
value()
{
    sed -n "s/^$1=//p" <<<"$out"
}

run "$bed" --nodes 2 --bogus -- true
is "$status" 2 "an unknown option: status 2"
like "$err" "unknown option '--bogus'" "named"
run "$bed" --nodes x -- true
like "$err" "^tests/bed/slurm: --nodes 'x': expected a number from 1 to 64$" "a bad number is refused"
run "$bed" --nodes 2
like "$err" 'COMMAND is missing' "a command is needed"

cat >ring.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, name_len, from = -1;
    char name[MPI_MAX_PROCESSOR_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &name_len);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &from, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d on %s heard %d\n", rank, size, name, from);
    return MPI_Finalize();
}
C
cat >inside.sh <<'SH'
echo "pid_ns=$(readlink /proc/self/ns/pid)"
echo "cluster=$BED_CLUSTER"
[ "$(scontrol show config | sed -n 's/^ClusterName *= //p')" = "$BED_CLUSTER" ] || { echo "another cluster answers" >&2; exit 1; }
nodes() { sinfo -h -N -o '%N:%t' | sort | tr '\n' ' '; }
wait_for() { for _ in $(seq 100); do [ "$(nodes)" = "$1" ] && break; sleep 0.1; done; nodes; }
echo "user=$(id -un) $(id -u)"
echo "root_cmd=$(cat /tmp/root-was-here) $(stat -c %u /tmp/root-was-here)"
echo "nodes=$(nodes)"
echo "topology=$(scontrol show topology | sed -n 's/.*SwitchName=\([^ ]*\).* Nodes=\([^ ]*\).*/\1:\2/p' | tr '\n' ' ')"
echo "hosts=$(srun -N4 --ntasks-per-node=1 hostname | sort | tr '\n' ' ')"
if command -v mpicc >/dev/null; then
    mpicc -o ring ring.c || exit 1
    echo "mpi=$(srun --mpi=pmix -N2 --ntasks-per-node=1 ./ring | sort | tr '\n' ',')"
fi
bed-ctl drain zep3 && echo "drained=$(nodes)"
bed-ctl resume zep3 && echo "resumed=$(wait_for 'zep0:idle zep1:idle zep2:idle zep3:idle ')"
bed-ctl drain zep77 2>&1 | sed 's/^/no_node=/'
kill_pid=$(cat "$BED/run/slurmd.zep2.pid")
bed-ctl kill-node 2 && for _ in $(seq 50); do [ -d "/proc/$kill_pid" ] || break; sleep 0.1; done
echo "killed=$([ -d "/proc/$kill_pid" ] && echo alive || echo gone) $([ -d "/proc/$(cat "$BED/run/slurmd.zep1.pid")" ] && echo others live)"
bed-ctl start-node 2 && echo "restarted=$(timeout 20 srun -w zep2 hostname)"
bed-ctl stop-controller && timeout 2 sinfo >/dev/null 2>&1 || echo "down=yes"
bed-ctl start-controller && echo "up=$(timeout 20 scontrol show config | sed -n 's/^ClusterName *= //p')"
setsid sleep 1000 >/dev/null 2>&1 &
exit 7
SH
echo 'echo root >/tmp/root-was-here' >root.sh
links=$(ip -o link 2>/dev/null | grep -c 'bed0')

# two at once: the second one with a topology of its own
printf '%s\n' 'SwitchName=one Nodes=zep[0-1]' >flat.conf
# shellcheck disable=SC2016 # for the shell inside
"$bed" --nodes 2 --topology flat.conf -- bash -c 'echo "cluster=$BED_CLUSTER"; srun -N2 hostname | sort; scontrol show topology; echo "in this time $(date +%s)"' >second.out 2>second.err &
second=$!
# the bed has its own /tmp, so the scripts come in as text
run "$bed" --nodes 4 --cpus 4 --root-cmd root.sh -- bash -c "$(printf 'cat >ring.c <<"C"\n%s\nC\n%s\n' "$(cat ring.c)" "$(cat inside.sh)")"
if [ "$status" -eq 77 ]; then
    wait $second
    skip_all "$err"
fi
is "$status" 7 "the command's status is the bed's"
[ "$status" -eq 7 ] || diag "$err"
like "$(value user)" '^zepuser [1-9]' "it runs as an ordinary user"
is "$(value root_cmd)" "root 0" "--root-cmd ran before it, as root"
is "$(value nodes)" "zep0:idle zep1:idle zep2:idle zep3:idle " "sinfo shows four nodes"
is "$(value topology)" "leaf0:zep[0-1] leaf1:zep[2-3] spine0:zep[0-3] " "two leaf switches below one"
is "$(value hosts)" "zep0 zep1 zep2 zep3 " "srun on all of them, each with its own name"
if command -v mpicc >/dev/null; then
    is "$(value mpi)" "rank 0 of 2 on zep0 heard 1,rank 1 of 2 on zep1 heard 0," "two MPI ranks on two nodes through PMIx"
else
    skip "two MPI ranks on two nodes through PMIx" "mpicc is not installed"
fi
is "$(value drained)" "zep0:idle zep1:idle zep2:idle zep3:drain " "bed-ctl drain"
is "$(value resumed | tr -d '*')" "zep0:idle zep1:idle zep2:idle zep3:idle " "bed-ctl resume"
is "$(value no_node)" "bed-ctl: no node 'zep77'" "an unknown node is refused"
is "$(value killed)" "gone others live" "bed-ctl kill-node ends that node only"
is "$(value restarted)" "zep2" "bed-ctl start-node brings it back"
is "$(value down)" "yes" "bed-ctl stop-controller"
is "$(value up)" "$(value cluster)" "bed-ctl start-controller"
is "$(left "$(value pid_ns)")" 0 "nothing is left of the bed, not even what left its session"
is "$(ip -o link 2>/dev/null | grep -c 'bed0')" "$links" "no network interface is left"
first=$(value cluster)

wait $second
ok $? "a second bed at the same time"
out=$(cat second.out)
like "$out" '^zep1$' "has its own nodes"
like "$out" 'SwitchName=one .*Nodes=zep\[0-1\]' "and the topology it was given"
[ -n "$first" ] && [ -n "$(value cluster)" ] && [ "$first" != "$(value cluster)" ]
ok $? "under another name"

for signal in TERM KILL; do
    # shellcheck disable=SC2016 # for the shell inside
    "$bed" --nodes 2 -- bash -c 'echo "pid_ns=$(readlink /proc/self/ns/pid)"; exec sleep 1000' >ended.out 2>/dev/null &
    pid=$!
    for _ in $(seq 200); do
        [ -s ended.out ] && break
        sleep 0.1
    done
    if [ $signal = KILL ] && [ "$(id -u)" -ne 0 ]; then
        sudo -n kill -KILL $pid
    else
        kill -$signal $pid
    fi
    wait $pid 2>/dev/null
    out=$(cat ended.out)
    is "$(left "$(value pid_ns)")" 0 "nothing is left of a bed ended by SIG$signal"
done
done_testing
