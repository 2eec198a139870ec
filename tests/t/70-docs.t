#!/usr/bin/env bash
# What the user can read says the same everywhere: --help, manual pages, completion; the examples of the pages work.
# timeout: 200
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
verbs=$("$zeppelin" --help | sed -n 's/^  \([a-z0-9]*\)  *[a-z].*/\1/p')

options_of()
{
    grep -oE -- '(^|[^a-zA-Z0-9-])--[a-z][a-z-]*' | grep -oE -- '--[a-z-]+' | sort -u | tr '\n' ' '
}

is "$(tr '\n' ' ' <<<"$verbs")" "topo doctor plan sim explain advise calibrate run submit k8s status logs wait cancel report data job " "the verbs"
for v in $verbs; do
    help=$("$zeppelin" "$v" --help | options_of)
    page=$(sed 's/\\-/-/g' "$top/man/zeppelin-$v.1" | sed '/^\.SH EXIT STATUS/,$d' | options_of)
    completion=$(sed -n "s/^    $v) options=\"\(.*\)\" ;;/\1/p" "$top/man/completion/zeppelin" | tr ' ' '\n' | sort -u | tr '\n' ' ')
    is "$page" "$help" "$v: the manual page has the options of --help"
    is "$completion" "$help" "$v: completion has the options of --help"
    grep -q "zeppelin\\\\-$v(1)" "$top/man/zeppelin.1"
    ok $? "$v: zeppelin(1) names it"
done

# every key of the job file with its default
"$zeppelin" job init | awk '/^[a-z_0-9]+:$/ { s = substr($1, 1, length($1) - 1); next } /^  [a-z_0-9]+:/ { k = $1; sub(/:/, "", k); v = $0; sub(/^ *[a-z_0-9]+: */, "", v); print s "." k "\t" v }' >keys
missing=
while IFS=$'\t' read -r key value; do
    sed 's/\\-/-/g; s/\\&//g' "$top/man/zeppelin-job.5" | grep -A2 -Fx ".B $key" | grep -qFx "Default: $value" || missing="$missing $key"
done <keys
is "$missing" "" "zeppelin-job(5) has every key with its default"
[ "$(wc -l <keys)" -gt 50 ]
ok $? "there are keys"

if command -v mandoc >/dev/null; then
    run mandoc -T lint -W warning "$top"/man/*.1 "$top"/man/*.5
    ok "$status" "the pages are clean"
    [ "$status" -eq 0 ] || diag "$out"
else
    skip "the pages are clean" "no mandoc"
fi

# the examples, in order, in an empty folder but for a data set
mkdir texts
for i in $(seq 40); do printf 'the text of file %d\n' "$i" >texts/$i.txt; done
run "$zeppelin" data --suffix .txt --heldout 20 -o data texts
ok "$status" "a data set"
for v in topo doctor plan sim explain advise calibrate job; do
    sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/p' "$top/man/zeppelin-$v.1" | sed -n 's/^    //p' | sed 's/\\-/-/g; s/\\e/\\/g' >commands
    while read -r command; do
        run bash -c "PATH=$build:\$PATH; $command"
        ok "$status" "example: $command"
        [ "$status" -eq 0 ] || diag "$err"
    done <commands
done

# the README's pictures and files are there
bad=
while read -r path; do
    [ -e "$top/$path" ] || bad="$bad $path"
done < <(grep -oE '\]\([a-zA-Z][^)]*\)' "$top/README.md" | grep -v http | tr -d '])(')
is "$bad" "" "what README.md points to exists"
# the tour: every command in the order shown, in an empty folder; what it shows is what they print. Where that hangs on the machine or on time, numbers are not compared.
mkdir tour
cd tour || exit 1
sed -n '/^## A tour/,/^## On a/p' "$top/README.md" >text
grep '^    \$ ' text | sed 's/^    \$ //' >commands
is "$(grep -o '^zeppelin [a-z]*' commands | sort -u | tr '\n' ' ')" "zeppelin advise zeppelin data zeppelin job zeppelin plan zeppelin run zeppelin sim zeppelin topo " "the README has a tour"
while read -r command; do
    numbers='cat'
    case $command in
    'zeppelin data'* | 'zeppelin run'* | 'zeppelin job check'*) numbers="sed s/[0-9][0-9.e+]*/N/g" ;;
    esac
    case $command in
    'zeppelin run'*) [ -x "$build/zeppelin-rank" ] || { skip "README: $command" "built without MPI"; continue; } ;;
    esac
    bash -c "PATH=$build:\$PATH; $command" >shown 2>&1 </dev/null
    awk -v c="    \$ $command" '$0 == c { on = 1; next } !/^    / || /^    \$/ { on = on && /^$/ } on' text | sed 's/^    //' | grep -vE '^(\.\.\.)?$' >want
    missing=
    while IFS= read -r line; do
        $numbers shown | tr -s ' ' | grep -qF -- "$($numbers <<<"$line" | tr -s ' ')" || missing="$missing | $line"
    done <want
    is "$missing" "" "README: $command"
    [ -z "$missing" ] || diag "$(head -n 50 shown)"
done <commands
cd .. || exit 1
for job in "$top"/jobs/*.yaml; do
    name=$(basename "$job" .yaml)
    case $name in
    site) # not a job: what every job begins with
        for profile in $(sed -n '/^profiles:/,$s/^  \([a-z]*\):$/\1/p' "$job"); do
            run env ZEPPELIN_SITE="$job" "$zeppelin" job show --set cluster.profile="$profile"
            ok "$status" "site.yaml, profile $profile"
            like "$out" "# $job:[0-9]+ \\(profile $profile\\)$" "its values are there"
        done
        continue
        ;;
    esac
    run "$zeppelin" job check --set data.train=data/train --set data.heldout=data/heldout "$job"
    ok "$status" "$(basename "$job") is a good job file"
    case $name in
    k8s | quickstart) continue ;; # not for sbatch
    esac
    sets=(--set data.train=data/train)
    ! grep -q '^  heldout:' "$job" || sets+=(--set data.heldout=data/heldout)
    # the secrets' own files are somebody else's
    printf 'x\n' >token && chmod 600 token
    while read -r secret; do
        sets+=(--set "cluster.secrets.$secret=file:$tmp/token")
    done < <(sed -n 's/^    \([A-Z_]*\): {file: .*/\1/p' "$job")
    run "$zeppelin" submit --dry-run "${sets[@]}" "$job"
    ok "$status" "$(basename "$job") makes a batch script"
    [ "$status" -eq 0 ] || diag "$err"
    bash -n <<<"$out"
    ok $? "that a shell reads"
    while IFS= read -r line; do
        grep -qxF -- "$line" <<<"$out" || line="missing: $line"
        unlike "$line" '^missing' "with its setup: $line"
    done < <(sed -n '/^  setup: *|/,/^  [a-z#]/s/^    //p; s/^  setup: \([a-z].*\)/\1/p' "$job")
done
done_testing
