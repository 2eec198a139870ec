#!/usr/bin/env bash
# Sites differ: environment, secrets, the site's own MPI, containers; names and paths of any text arrive unharmed in batch scripts and run nothing.
# timeout: 200
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
[ -x "$build/zeppelin-rank" ] || skip_all "built without MPI"
unset SLURM_JOB_ID
mpi_env
e='zeppelin: error:'

"$zeppelin" data --suffix .h --context 512 --max-bytes 200kB -o set "$top/common" >/dev/null 2>&1
cat >job.yaml <<'JOB'
name: site
cluster: {topology: 'synthetic: nodes:1 dev:2 kind:cpu'}
model: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}
data: {train: set/train, context: 512, too_long: cut}
train: {steps: 3, tokens: 1k}
JOB

# a command that keeps its arguments and the names and values in its environment, and goes on as NAME
recorder()
{
    mkdir -p "$(dirname "$1")"
    printf '#!/bin/sh\nprintf "%%s\\n" "$@" >"%s/%s.args"\nenv -0 >"%s/%s.env"\n%s\n' "$tmp" "$2" "$tmp" "$2" "$3" >"$1"
    chmod +x "$1"
}
value()
{
    tr '\0' '\n' <"$1" | sed -n "s/^$2=//p"
}

# --- secrets: where they must be, and nowhere else ---
planted='planted-7f3a;value "q" $(x)'
printf 'planted-7f3a-in-a-file\n' >token
chmod 600 token
cat >secret.yaml <<JOB
$(cat job.yaml)
JOB
sed -i "s|^cluster:.*|cluster:\n  topology: 'synthetic: nodes:1 dev:2 kind:cpu'\n  env: {PLAIN: \"a b;c\"}\n  secrets:\n    FROM_ENV: {env: MY_TOKEN}\n    FROM_FILE: {file: $tmp/token}|; s/steps: 3/steps: 100000/" secret.yaml
MY_TOKEN=$planted "$zeppelin" run --set run_root=secret secret.yaml >run.out 2>run.err &
runner=$!
for _ in $(seq 100); do
    [ -s "$(echo secret/site-*/metrics.jsonl)" ] && grep -q '"step"' secret/site-*/metrics.jsonl && break
    sleep 0.1
done
pids=$(pgrep -f "zeppelin-rank --attempt 1 --ranks 2 .*$tmp/secret/")
cat "/proc/$(head -n 1 <<<"$pids")/environ" >rank.env 2>/dev/null
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' >lines
kill -TERM $runner
wait $runner
is "$?" 75 "a run with secrets"
is "$(value rank.env FROM_ENV)" "$planted" "a secret from the environment is in a rank's environment"
is "$(value rank.env FROM_FILE)" "planted-7f3a-in-a-file" "and one from a file"
is "$(value rank.env PLAIN)" "a b;c" "and what cluster.env says"
grep -q "zeppelin-rank" lines
ok $? "argument lists were looked at"
is "$(grep -ac 'planted-7f3a' lines)" 0 "no argument list has a secret"
is "$(grep -ral 'planted-7f3a' secret run.out run.err)" "" "nor has anything in the run folder, or what was printed"
is "$(grep -c 'FROM_FILE: {file: ' secret/site-*/job.yaml)" 1 "the run folder's job names it"
mkdir -p fake
# shellcheck disable=SC2016 # for the stand-in's shell
recorder fake/sbatch sbatch 'cp "$2" "'"$tmp"'/batch.seen"; echo 4711'
run env PATH="$tmp/fake:$PATH" MY_TOKEN="$planted" "$zeppelin" submit --set cluster.devices=2 --set run_root=submitted secret.yaml
is "$status $out" "0 4711" "a job with secrets is submitted"
is "$(grep -ral 'planted-7f3a' submitted batch.seen sbatch.args)" "" "no secret in its folder, script or arguments"
like "$(cat batch.seen)" '^#SBATCH --export=MY_TOKEN$' "the script lets the variable through by its name"
run "$zeppelin" submit --dry-run --set cluster.devices=2 --set cluster.export=ALL secret.yaml
is "$err" "$e secret.yaml:6: cluster.secrets.FROM_ENV: the environment variable MY_TOKEN is not set here" "a variable that is not set is found before"
before=$(ls submitted | wc -l)
chmod 640 token
run env MY_TOKEN=x "$zeppelin" run --set run_root=submitted secret.yaml
is "$status" 4 "a file that others can read is refused: status 4"
is "$err" "$e secret.yaml:7: cluster.secrets.FROM_FILE: $tmp/token: mode 0640: others may read or write it: expected 0600 (chmod 600 $tmp/token)" "with the remedy"
is "$(ls submitted | wc -l)" "$before" "and no run folder is made"
rm token
run "$zeppelin" run secret.yaml
is "$(grep -c "^$e secret.yaml:[67]: cluster.secrets.FROM_" <<<"$err")" 2 "all that is missing is told"
for how in 'mkdir token' ': >token; chmod 600 token' 'printf "a\0b" >token; chmod 600 token'; do
    rm -rf token
    bash -c "$how"
    run env MY_TOKEN=x "$zeppelin" run secret.yaml
    like "$err" 'token: (expected a file|is empty|has a NUL character in it: expected text)$' "a bad file: $how"
done
run "$zeppelin" job show --set cluster.secrets.T=planted-7f3a job.yaml
unlike "$err$out" 'planted-7f3a' "a secret that is given in place of its name is refused without being shown"
is "$status" 2 "with status 2"

# --- the site's own MPI ---
# shellcheck disable=SC2016
recorder mpi/bin/mpirun mpirun 'exec "'"$(command -v mpirun)"'" "$@"'
mkdir -p mpi/lib64
run "$zeppelin" run --set cluster.mpi="$tmp/mpi" --set cluster.library_path=/nowhere/lib --set run_root=mpi-runs job.yaml
# --prefix names a folder that has no orted: mpirun needs it on other nodes only
ok "$status" "a run by the MPI that cluster.mpi names"
[ "$status" -eq 0 ] || diag "$err"
like "$(value mpirun.env PATH)" "^$tmp/mpi/bin:" "its bin comes first in PATH"
like "$(value mpirun.env LD_LIBRARY_PATH)" "^$tmp/mpi/lib64:/nowhere/lib" "its libraries and those of cluster.library_path in LD_LIBRARY_PATH"
like "$(tr '\n' ' ' <mpirun.args)" "--prefix $tmp/mpi -x LD_LIBRARY_PATH " "and on other nodes"
run "$zeppelin" run --set cluster.mpi="$tmp/none" job.yaml
is "$status $err" "3 $e cluster.mpi: '$tmp/none': there is no $tmp/none/bin/mpirun: expected the folder that Open MPI is installed in" "a folder without MPI"

# --- run folders on network file systems ---
is "$(grep -rnE '\b(flock|lockf|F_SETLKW?|F_OFD_SETLKW?)\b' --include='*.[ch]' "$top"/{common,launcher,runtime,planner,topology})" "" "no locks of the file system"
# what rank 0 is told of the folder: it waits until it sees it so
dir=$(echo mpi-runs/site-*)
inputs=$(grep -A1 -x -- --inputs mpirun.args | tail -n 1)
like "$inputs" '^[0-9a-f]{16}$' "ranks are told what job and topology are"
mv "$dir" hidden
mkdir "$dir"
sed 's/steps: 3/steps: 1/' hidden/job.yaml >"$dir/job.yaml" # as a node may still see it
(
    sleep 1
    mv "$dir" stale && mv hidden "$dir"
) &
start=$(date +%s%N)
run mpirun -np 2 --oversubscribe "$build/zeppelin-rank" --attempt 2 --ranks 2 --inputs "$inputs" "$tmp/$dir"
[ $(($(date +%s%N) - start)) -ge 900000000 ]
ok $? "rank 0 waits for the files as the launcher wrote them"
wait
like "$(cat "$dir/outcome.json")" '"attempt": 2,' "and goes on with them"
ls stale/outcome.json >/dev/null 2>&1
is "$?" 2 "nothing is written into what was there before"
run env SLURM_JOB_ID=1 timeout 3 "$zeppelin" run --resume "$tmp/nowhere"
is "$status" 124 "in a batch job the run folder is waited for"
like "$err" "^zeppelin: $tmp/nowhere/job.yaml is not there \(yet\): waiting up to 60 s" "and it is said"
# a slow fsync does not slow steps: as many of them in 4 steps as in 24
cat >count.c <<'C'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int fsync(int fd)
{
    int log = open(getenv("FSYNC_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0666);

    (void)fd;
    if (log >= 0 && write(log, "x", 1) == 1)
        close(log);
    return 0;
}
C
if gcc -shared -fPIC -o count.so count.c 2>/dev/null; then
    for steps in 4 24; do
        run "$zeppelin" run --set run_root=quick --set train.steps=$steps --set plan.save_every=1 --set "cluster.env.LD_PRELOAD=$tmp/count.so" --set "cluster.env.FSYNC_LOG=$tmp/fsyncs.$steps" job.yaml
        ok "$status" "a run of $steps steps"
    done
    [ "$(wc -c <fsyncs.4)" -ge 3 ]
    ok $? "the last checkpoint is brought to the disk"
    is "$(wc -c <fsyncs.24)" "$(wc -c <fsyncs.4)" "no step waits for the disk"
else
    skip "no step waits for the disk" "no shared library could be made"
fi

# --- containers: stand-ins for apptainer and srun ---
# shellcheck disable=SC2016
recorder fake/apptainer apptainer 'while [ "${1##*.}" != sif ]; do shift; done; shift; exec "$@"'
: >image.sif
run env PATH="$tmp/fake:$PATH" "$zeppelin" run --set cluster.container=apptainer --set cluster.image=image.sif --set cluster.mounts="/opt:/opt:ro, $tmp" --set cluster.container_args=--cleanenv \
    --set cluster.gpus_per_node=2 --set run_root=boxed job.yaml
ok "$status" "ranks run by apptainer exec"
[ "$status" -eq 0 ] || diag "$err"
like "$(tr '\n' ' ' <apptainer.args)" "^exec --nv --bind /opt:/opt:ro,$tmp,$tmp/boxed:$tmp/boxed,$tmp/set:$tmp/set --cleanenv $tmp/image.sif $build/zeppelin-rank --attempt 1 " "with its mounts, image and arguments"
run "$zeppelin" run --set cluster.container=apptainer --set cluster.image=image.sif job.yaml
is "$status $err" "3 $e cluster.container is apptainer, but apptainer is not in PATH (cluster.setup may load a module)" "no apptainer"
run env PATH="$tmp/fake:$PATH" "$zeppelin" run --set cluster.container=apptainer --set cluster.image=gone.sif job.yaml
is "$status $err" "2 $e --set cluster.image=gone.sif: cluster.image: $tmp/gone.sif: no such file" "no image"
recorder fake/srun srun 'exit 0'
run env PATH="$tmp/fake:$PATH" SLURM_JOB_ID=1 MY_TOKEN=x "$zeppelin" run --dry-run --set cluster.launcher=srun --set cluster.container=pyxis --set cluster.image=nvcr.io#team/zep:1.2 \
    --set cluster.container_rank=/opt/zep/zeppelin-rank --set cluster.env.A=b secret.yaml
ok "$status" "pyxis: dry run"
[ "$status" -eq 0 ] || diag "$err"
like "$(tail -n 1 <<<"$out")" "^# srun .* --export=ALL '?--container-image=nvcr.io#team/zep:1.2'? --container-mounts=$tmp/runs:$tmp/runs,$tmp/set:$tmp/set --container-env=PLAIN,A,FROM_ENV,FROM_FILE /opt/zep/zeppelin-rank --attempt 1 " \
    "srun gets image, mounts and the names of variables"
while IFS='|' read -r sets message; do
    # shellcheck disable=SC2086 # options are several words
    run "$zeppelin" job check $sets job.yaml
    like "$err" "$message" "containers: $sets"
    is "$status" 2 "status 2"
done <<'CASES'
--set cluster.container=pyxis|cluster.container is pyxis, but cluster.image is not set: expected an image
--set cluster.image=ubuntu|cluster.image: 'ubuntu': no tag: expected NAME:TAG or NAME@sha256:DIGEST
--set cluster.image=host:5000/team/zep|cluster.image: 'host:5000/team/zep': no tag
--set cluster.image=docker://zep|cluster.image: 'docker://zep': no tag
--set cluster.image=zep:1 --set cluster.where=local|cluster.image is set, but cluster.container is none: expected pyxis or apptainer where cluster.where is local
--set cluster.image=zep:1 --set cluster.container=pyxis --set cluster.where=local|cluster.container: 'pyxis': a plugin of Slurm, but cluster.where is local
--set cluster.image=zep:1 --set cluster.container=pyxis --set cluster.launcher=mpirun|cluster.container: 'pyxis': its options are srun's, but cluster.launcher is mpirun
--set cluster.image=zep:1 --set cluster.container=apptainer --set cluster.where=k8s|cluster.container: 'apptainer': pods run in k8s.image by themselves
--set cluster.mpi=opt|cluster.mpi: 'opt': expected an absolute path, the same on all nodes
--set cluster.container_rank=bin/x|cluster.container_rank: 'bin/x': expected an absolute path in the image
CASES
for image in zep:1 host:5000/t/zep:1 zep@sha256:00 docker://zep:1 nvcr.io#t/zep:1 /images/zep.sqsh; do
    run "$zeppelin" job check --set cluster.container=pyxis --set cluster.image=$image job.yaml
    is "$err" "" "a good image: $image"
done

# --- names and paths of any text ---
# what sbatch 22.05 makes of a #SBATCH line: its own rules for blanks, quotes, backslashes and comments (src/sbatch/opt.c, _get_argument)
cat >sbatch.py <<'PY'
import re, sys
def words(line):
    out, word, quote, i = [], None, None, 0
    while i < len(line):
        escaped = line[i] == '\\' and i + 1 < len(line)
        i += escaped
        c = line[i]
        if not quote and c.isspace():
            if word is not None:
                out.append(word)
            word = None
        elif not quote and c == '#' and not escaped:
            break
        elif not escaped and c == quote:
            quote = None
        elif not escaped and not quote and c in '"\'':
            quote, word = c, word or ''
        else:
            word = (word or '') + c
        i += 1
    return out + ([word] if word is not None else [])
for line in open(sys.argv[1], encoding='utf-8'):
    if line.startswith('#SBATCH '):
        for w in words(line[8:].rstrip('\n')):
            key, _, value = w.partition('=')
            if key == sys.argv[2]:
                print(re.sub('%%', '\0', value).replace('%j', 'JOBID').replace('\0', '%') if key == '--output' else value)
PY
odd="o'dd \"dir\" \$(touch pwned) %j 100% \`touch pwned\` é#;&"
mkdir "$odd"
cp -r set "$odd/"
for name in "it's" 'two  words' 'a"b' '$(touch pwned)' '`touch pwned`' '50% %j %A' 'größe' 'a #b' 'a;b&c|d>e' '-x' '*?[a]' '~' 'a=b,c'; do
    run "$zeppelin" submit --dry-run --set cluster.devices=2 --set cluster.nodes=1 --set cluster.job_name="$name" --set run_root="$odd/runs" --set data.train="$odd/set/train" --set cluster.env.NAME="$name" job.yaml
    printf '%s\n' "$out" >script
    bash -n script || status=1
    ok "$status" "the script for '$name' is a script"
    is "$(python3 sbatch.py script --job-name)" "$name" "sbatch reads the name as it is"
    is "$(python3 sbatch.py script --output)" "$tmp/$odd/runs/site-ID/slurm-JOBID.out" "and the path of the log"
    sed '/run --resume/,$d' script >head.sh
    # shellcheck disable=SC2016 # for the inner shell
    is "$(bash -c '. ./head.sh; printf "%s|%s" "$run" "$NAME"')" "$tmp/$odd/runs/site-ID|$name" "the shell reads path and variable as they are"
done
for bad in $'a\nb' $'a\tb' $'a\x01b' $'a\xff'; do
    run "$zeppelin" submit --dry-run --set cluster.devices=2 --set cluster.job_name="$bad" job.yaml
    is "$status" 2 "a control character in a name is refused"
done
run "$zeppelin" submit --dry-run --set cluster.setup='touch pwned' job.yaml
is "$status" 2 "code comes from files only, not by --set"
mkdir -p config/zeppelin
printf 'cluster: {setup: '"'"'printf "%%s\n" "in setup: $NAME"'"'"'}\n' >config/zeppelin/config.yaml
run env XDG_CONFIG_HOME="$tmp/config" PATH="$tmp/fake:$PATH" "$zeppelin" submit --set cluster.devices=2 --set cluster.nodes=1 --set cluster.job_name='$(touch pwned)' --set run_root="$odd/runs" --set data.train="$odd/set/train" \
    --set cluster.env.NAME="it's \$(touch pwned) 5%" job.yaml
is "$status $out" "0 4711" "such a job is submitted"
run bash batch.seen
ok "$status" "its script runs here, and trains"
[ "$status" -eq 0 ] || diag "$err"
like "$out" "in setup: it's \\$\\(touch pwned\\) 5%" "cluster.setup sees cluster.env"
like "$out" 'step 3 of 3, done' "to the end"
[ ! -e pwned ] && [ ! -e "$odd/pwned" ]
ok $? "nothing in a name or path was run"
is "$(ls "$odd")" "runs
set" "and nothing else was made"
done_testing
