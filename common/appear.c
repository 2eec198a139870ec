#include "config.h"
#include "common/appear.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/fs.h"

static void nap(void)
{
    nanosleep(&(struct timespec){0, 200000000}, NULL);
}

/* NFS keeps in mind that a name was not there; opening its folder makes it ask again. */
static void look_again(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash > path ? strndup(path, (size_t)(slash - path)) : strdup(slash ? "/" : ".");
    DIR *d = folder ? opendir(folder) : NULL;

    if (d)
        closedir(d);
    free(folder);
}

int zep_appear(const char *path, double time_s, struct zep_error *err)
{
    double end = zep_clock_now() + time_s;

    while (!zep_fs_exists(path)) {
        if (zep_clock_now() > end)
            return zep_error_set(err, ZEP_EIO, "%s: did not appear within %.0f s", path, time_s);
        nap();
        look_again(path);
    }
    return ZEP_OK;
}

int zep_appear_digest(const char *rundir, uint64_t *digest_out, struct zep_error *err)
{
    static const char *const names[] = {"job.yaml", "topology.yaml"};
    uint64_t digest = 0;
    int rc = ZEP_OK;

    for (int i = 0; rc == ZEP_OK && i < 2; i++) {
        char *path = zep_fs_join(rundir, names[i]), *text;
        size_t len;

        if (!path)
            return zep_error_nomem(err, "run folder");
        if ((rc = zep_fs_read(path, 0, &text, &len, err)) == ZEP_OK) {
            digest = zep_digest(text, len, digest);
            free(text);
        }
        free(path);
    }
    if (rc == ZEP_OK)
        *digest_out = digest;
    return rc;
}

int zep_appear_inputs(const char *rundir, uint64_t digest, double time_s, struct zep_error *err)
{
    double end = zep_clock_now() + time_s;
    uint64_t found = ~digest;
    char host[256] = "";

    while (zep_appear_digest(rundir, &found, NULL) < 0 || found != digest) {
        if (zep_clock_now() > end) {
            gethostname(host, sizeof host - 1);
            return zep_error_set(err, ZEP_EIO, "%s: job.yaml and topology.yaml, as the launcher wrote them, did not appear on %s within %.0f s: expected a run folder (run_root) that all nodes share", rundir, host,
                                 time_s);
        }
        nap();
        look_again(rundir);
    }
    return ZEP_OK;
}
