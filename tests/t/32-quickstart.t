#!/usr/bin/env bash
# jobs/quickstart tells of a build that failed, and never goes on with the programs of an older one. On a stand-in for the tree; the real one takes minutes.
# timeout: 60
. "$(dirname "$0")/../lib/tap.sh"
cd "$tmp" || exit 1
mkdir -p tree/jobs
cp "$top/jobs/quickstart" tree/jobs/
cat >tree/configure.good <<'CONFIGURE'
#!/bin/sh
touch config.status
cat >Makefile <<'MAKE'
zeppelin zeppelin-rank:
	printf '#!/bin/sh\necho "ran $$1" >>ran\n' >$@
	chmod +x $@
MAKE
CONFIGURE
chmod +x tree/configure.good

quickstart()
{
    run env ZEP_BUILDDIR=b tree/jobs/quickstart --no-install
}

printf '#!/bin/sh\nexit 1\n' >tree/configure
chmod +x tree/configure
quickstart
is "$status" 1 "configure fails: status 1"
like "$err" "quickstart: the build failed, see $tmp/b/quickstart-build.log" "it says so, and where to look"
unlike "$out" '== data' "and stops"
cp tree/configure.good tree/configure
quickstart
ok "$status" "a build folder named from the current folder"
[ "$status" -eq 0 ] || diag "$err"
is "$(cat b/quickstart/ran)" "ran run" "the training is started"
printf 'zeppelin zeppelin-rank: broken\nbroken:\n\tfalse\n.PHONY: broken\n' >b/Makefile
quickstart
is "$status" 1 "make fails, with an older program in place: status 1"
like "$err" 'quickstart: the build failed' "it says so"
rm b/config.status
printf '#!/bin/sh\nexit 1\n' >tree/configure
quickstart
is "$status" 1 "configure fails, with an older program in place: status 1"
done_testing
