/* This machine, or one that hwloc recorded, through the helper. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topology/detect.h"
#include "topology/source.h"

#define LIMIT_S 10.0

static int no_helper(int absent, int rc, struct zep_error *err)
{
    if (rc < 0 && absent)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s (hwloc was missing when zeppelin was built, or is missing here)", err->text);
    return rc;
}

int zep_topo_detect_local(struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_error why;
    int absent, rc = zep_detect_run("zeppelin-detect-local", NULL, LIMIT_S, &absent, topo_out, &why);

    if (rc < 0) {
        *err = why;
        no_helper(absent, rc, err);
        return zep_error_prefix(err, "this machine");
    }
    return rc;
}

int zep_topo_is_hwloc(const char *text, size_t len)
{
    (void)len;
    return strstr(text, "<topology") && strstr(text, "<object type=");
}

/* The helper takes a file; what came through a pipe is written into one. */
int zep_topo_from_hwloc(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    char path[] = "/tmp/zeppelin-hwloc.XXXXXX";
    const char *args[] = {"--xml", q->file, NULL};
    int piped = !strcmp(q->file, "standard input"), fd, absent, rc;

    if (piped) {
        ssize_t n;

        if ((fd = mkstemp(path)) < 0)
            return zep_error_set(err, ZEP_EIO, "%s: cannot be made", path);
        n = write(fd, q->text, q->len);
        close(fd);
        if (n < 0 || (size_t)n != q->len) {
            unlink(path);
            return zep_error_set(err, ZEP_EIO, "%s: cannot be written", path);
        }
        args[1] = path;
    }
    rc = zep_detect_run("zeppelin-detect-local", args, 30, &absent, topo_out, err);
    if (piped)
        unlink(path);
    return no_helper(absent, rc, err);
}
