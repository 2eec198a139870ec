/* Runs of zeppelin run outside of Slurm: their lock says where they are. */
#include "config.h"
#include "launcher/backend.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/rundir.h"

static int claim(struct zep_run *run, struct zep_error *err)
{
    (void)err;
    return !*run->info.backend || !strcmp(run->info.backend, "local");
}

static void look(const struct zep_run *run, struct zep_live *l)
{
    struct zep_lock_holder h;
    struct zep_error err;
    int held = zep_lock_look(run->dir, &h, &err);

    *l = (struct zep_live){.start = run->info.time, .exit_status = -1};
    snprintf(l->where, sizeof l->where, "%s", run->info.host);
    if (held < 0) {
        snprintf(l->why, sizeof l->why, "%.500s", err.text);
    } else if (held && h.alive != 0) {
        l->life = ZEP_LIFE_RUNNING;
        snprintf(l->where, sizeof l->where, "%s", h.host);
        snprintf(l->word, sizeof l->word, "process %ld", h.pid);
        if (h.alive < 0)
            snprintf(l->why, sizeof l->why, "as its lock says: process %ld on %s cannot be seen from this machine", h.pid, h.host);
    } else {
        l->life = ZEP_LIFE_ENDED;
        if (held) {
            snprintf(l->why, sizeof l->why, "its process %ld on %s is gone", h.pid, h.host);
            l->exit_status = zep_exit_status(ZEP_EPEER);
        } else if (!run->info.n_attempt)
            snprintf(l->why, sizeof l->why, "it was never started");
    }
}

static int status(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err)
{
    (void)fresh;
    (void)err;
    for (int i = 0; i < n; i++)
        look(run[i], &live_out[i]);
    return ZEP_OK;
}

/* The first request stops after the step, with a checkpoint; the second one, noticed after the first, ends the ranks. */
static int cancel(const struct zep_run *run, int now, char *said_out, size_t size, struct zep_error *err)
{
    struct zep_lock_holder h;
    int held = zep_lock_look(run->dir, &h, err);

    if (held < 0)
        return held;
    if (!held || h.alive == 0) {
        snprintf(said_out, size, "it does not run: nothing to stop");
        return ZEP_OK;
    }
    if (h.alive < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s runs as process %ld on %s, which this machine cannot reach: give the command there", run->dir, h.pid, h.host);
    if (kill((pid_t)h.pid, SIGTERM) < 0)
        return zep_error_set(err, errno == EPERM ? ZEP_EREFUSED : ZEP_EIO, "process %ld of %s: %s", h.pid, run->dir, errno == EPERM ? "it belongs to another user" : strerror(errno));
    if (now) {
        poll(NULL, 0, 600);
        kill((pid_t)h.pid, SIGINT);
    }
    snprintf(said_out, size, now ? "process %ld on %s was told to end now" : "process %ld on %s stops after its step, with a checkpoint", h.pid, h.host);
    return ZEP_OK;
}

const struct zep_backend zep_backend_local = {"local", claim, NULL, status, NULL, NULL, cancel, NULL};
