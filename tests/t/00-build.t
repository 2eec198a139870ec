#!/usr/bin/env bash
# The source package builds in another folder with every optional part absent, passes its unit tests, and installs. The unit tests pass with sanitizers too. --long: make distcheck.
# timeout: 900
. "$(dirname "$0")/../lib/tap.sh"
mkdir "$tmp/dist"
run make -C "$build" dist distdir=zeppelin-test DIST_TARGETS=dist-xz
ok "$status" "make dist"
[ "$status" -eq 0 ] || diag "$(tail -n 5 <<<"$err")"
mv "$build/zeppelin-test.tar.xz" "$tmp/dist/" 2>/dev/null
cd "$tmp/dist" || exit 1
tar xf zeppelin-test.tar.xz
[ -x zeppelin-test/configure ]
ok $? "the package has configure"
mkdir b
cd b || exit 1
run ../zeppelin-test/configure --prefix=/usr --enable-werror --without-mpi --without-slurm --without-hwloc --without-dnnl --without-openblas
ok "$status" "configure without any optional part"
like "$out" 'MPI \(runtime zeppelin-rank\) +no' "configure says at its end what it found"
run make -j"$(nproc)"
ok "$status" "make"
[ "$status" -eq 0 ] || diag "$(grep -E 'error|\*\*\*' <<<"$err" | head -n 5)"
run env ZEP_PROPERTY_N=500 make -j"$(nproc)" check
ok "$status" "make check"
[ "$status" -eq 0 ] || diag "$(grep -E '^(FAIL|ERROR)' <<<"$out")"
run make install DESTDIR="$tmp/dist/root"
ok "$status" "make install"
z=$tmp/dist/root/usr/bin/zeppelin
run "$z" --version
like "$out" '^zeppelin [0-9]' "the installed command starts"
run ldd "$z"
unlike "$out" 'libmpi|libcuda|libslurm|libhwloc' "it needs no MPI, CUDA, Slurm or hwloc"
run "$z" plan --synthetic 'nodes:2 dev:4 nic:2' --capacity 1k --dist github:tokens=6k --check
ok "$status" "it plans"
run "$z" topo --local
is "$status" 3 "what was not built is said: status 3"
like "$err" 'zeppelin-detect-local is missing' "by name"
[ -s "$tmp/dist/root/usr/share/doc/zeppelin/examples/slurm.yaml" ]
ok $? "examples are installed"

mkdir "$tmp/dist/san"
cd "$tmp/dist/san" || exit 1
run ../zeppelin-test/configure -q --enable-sanitize --enable-werror --without-mpi --without-slurm --without-dnnl --without-openblas CFLAGS=-O2
ok "$status" "configure --enable-sanitize"
run env ZEP_PROPERTY_N=300 ZEP_TEST_QUICK=yes ASAN_OPTIONS=detect_leaks=1 make -j"$(nproc)" check
ok "$status" "unit tests with AddressSanitizer and UndefinedBehaviorSanitizer"
[ "$status" -eq 0 ] || diag "$(grep -E '^(FAIL|ERROR)|error' <<<"$out" | head -n 20)"
if [ -n "${ZEP_LONG:-}" ]; then
    run make -C "$build" distcheck
    ok "$status" "make distcheck"
fi
done_testing
