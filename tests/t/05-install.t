#!/usr/bin/env bash
# Installed into a shared prefix that nobody can write to: an ordinary user trains there; the site file, the environment module file, uninstalling.
# timeout: 200
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
prefix=$(sed -n 's/^prefix = //p' "$build/Makefile")
version=$("$zeppelin" --version | sed -n '1s/^zeppelin \([^ ]*\).*/\1/p')
run make -C "$build" install DESTDIR="$tmp/root"
ok "$status" "make install"
[ "$status" -eq 0 ] || diag "$err"
tree=$tmp/root$prefix
for f in bin/zeppelin libexec/zeppelin/zeppelin-detect-local share/man/man5/zeppelin-site.5 share/doc/zeppelin/examples/site.yaml "share/modulefiles/zeppelin/$version"; do
    [ -s "$tree/$f" ] || [ ! -e "$build/$(basename "$f")" ]
    ok $? "there is $f"
done

# --- the environment module file ---
module=$tree/share/modulefiles/zeppelin/$version
like "$(head -n 1 "$module")" '^#%Module' "the module file says what it is"
unlike "$(cat "$module")" '@' "nothing is left to fill in"
modulecmd=$(command -v modulecmd)
if [ -n "$modulecmd" ]; then
    export MODULEPATH=$tree/share/modulefiles
    run "$modulecmd" bash avail
    like "$out$err" "zeppelin/$version" "module avail"
    run env PATH=/usr/bin:/bin MANPATH=/usr/share/man "$modulecmd" bash load zeppelin
    ok "$status" "module load zeppelin"
    [ "$status" -eq 0 ] || diag "$err"
    # shellcheck disable=SC2016 # for the inner shell
    like "$(PATH=/usr/bin:/bin MANPATH=/usr/share/man bash -c "$out"$'\n''echo "$PATH|$PKG_CONFIG_PATH|$MANPATH"')" "^$prefix/bin:[^|]*\|$prefix/lib/pkgconfig\|$prefix/share/man:/usr/share/man$" "it sets what is needed"
    run "$modulecmd" bash whatis zeppelin
    like "$out$err" "zeppelin $version: batch jobs" "module whatis"
    run "$modulecmd" bash help zeppelin
    like "$out$err" 'Begin with: zeppelin --help' "module help"
else
    skip "module load" "no environment-modules"
fi

# --- read-only, as an ordinary user ---
if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null && [ -x "$build/zeppelin-rank" ]; then
    mkdir -p "$tree/etc/zeppelin" home
    sed 's/^  account: .*/  account: readonly-test/; s|^run_root: .*|run_root: runs|; /^  setup:/,/^  env:/d; /UCX/d' "$top/jobs/site.yaml" >"$tree/etc/zeppelin/site.yaml"
    chmod -R a-w "$tree"
    mkdir texts
    for i in $(seq 30); do printf 'the text of file %d, and some more of it\n' "$i" >texts/$i.txt; done
    chown -R 65534:65534 home
    cat >user.sh <<'USER'
set -e
cd "$HOME"
unset ZEPPELIN_SITE
id -u
touch "$PREFIX/bin/x" 2>/dev/null && echo "the prefix can be written to"
zeppelin data --suffix .txt --context 512 -o set ../texts >/dev/null
zeppelin job show | grep -E '^  account: '
zeppelin job check --set data.train=set/train --set cluster.account=mine job.yaml || true
zeppelin topo --local >/dev/null
zeppelin run --set data.train=set/train --set data.context=512 --set train.steps=2 --set train.tokens=1k --set 'cluster.topology=synthetic: nodes:1 dev:2 kind:cpu' job.yaml
USER
    printf 'name: shared\nmodel: {hidden: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64}\n' >home/job.yaml
    mkdir -p "$prefix"
    cat >sealed.sh <<SEALED
mount --bind "$tree" "$prefix" && mount -o remount,ro,bind "$prefix" || exit 99
exec setpriv --reuid=65534 --regid=65534 --clear-groups env -i HOME="$tmp/home" PREFIX="$prefix" PATH="$prefix/bin:/usr/bin:/bin" OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR=/tmp bash "$tmp/user.sh"
SEALED
    run unshare --mount --propagation private bash sealed.sh
    ok "$status" "an ordinary user trains from a read-only prefix"
    [ "$status" -eq 0 ] || diag "$out $err"
    is "$(head -n 1 <<<"$out")" 65534 "as that user"
    unlike "$out" 'can be written to' "it is read-only"
    like "$out" "^  account: readonly-test +# $prefix/etc/zeppelin/site.yaml:7$" "the site file below the prefix counts"
    like "$err" "^zeppelin: error: --set cluster.account=mine: cluster.account: 'mine': locked to 'readonly-test' by $prefix/etc/zeppelin/site.yaml:[0-9]+: take it out, or ask hpc-help@example.org$" "and what it locks"
    like "$out" 'step 2 of 2, done' "the run ends well"
    chmod -R u+w "$tree"
    rm "$tree/etc/zeppelin/site.yaml"
else
    skip "a read-only prefix" "needs root, a mount namespace and MPI"
fi
run make -C "$build" uninstall DESTDIR="$tmp/root"
is "$status $(find root ! -type d)" "0 " "make uninstall leaves nothing behind"
done_testing
