#include "config.h"
#include "launcher/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/fs.h"

/* In the order in which they are asked whether a run is theirs: local takes what is left. */
static const struct zep_backend *const backends[] = {&zep_backend_k8s, &zep_backend_slurm, &zep_backend_local, NULL};

const struct zep_backend *const *zep_backends(void)
{
    return backends;
}

void zep_run_free(struct zep_run *run)
{
    if (!run)
        return;
    for (int i = 0; i < run->n_job; i++)
        free(run->job[i]);
    free(run->job);
    free(run->word);
    free(run->dir);
    free(run);
}

int zep_run_add_job(struct zep_run *run, const char *job)
{
    char **p = zep_reallocarray(run->job, (size_t)run->n_job + 1, sizeof *p);

    if (!p)
        return ZEP_ENOMEM;
    run->job = p;
    if (!(p[run->n_job] = strdup(job)))
        return ZEP_ENOMEM;
    run->n_job++;
    return ZEP_OK;
}

static int new_run(const char *word, const char *dir, struct zep_run **out, struct zep_error *err)
{
    struct zep_run *run = zep_calloc(1, sizeof *run);

    if (!run || !(run->word = strdup(word)) || (dir && !(run->dir = strdup(dir)))) {
        zep_run_free(run);
        return zep_error_nomem(err, "run");
    }
    *out = run;
    return ZEP_OK;
}

static int claim(struct zep_run *run, struct zep_error *err)
{
    int rc;

    if ((rc = zep_rundir_check(run->dir, err)) < 0 || (rc = zep_runfolder_info(run->dir, &run->info, err)) < 0)
        return rc;
    for (int i = 0; backends[i]; i++) {
        run->backend = backends[i];
        if ((rc = backends[i]->claim(run, err)) != 0)
            return rc < 0 ? rc : ZEP_OK;
    }
    return zep_error_set(err, ZEP_EUNSUPPORTED, "%s: run.json says backend '%s': this version does not know it", run->dir, run->info.backend);
}

int zep_run_open_dir(const char *dir, struct zep_run **run_out, struct zep_error *err)
{
    struct zep_run *run = NULL;
    int rc;

    if ((rc = new_run(dir, dir, &run, err)) < 0)
        return rc;
    if ((rc = claim(run, err)) < 0)
        zep_run_free(run);
    else
        *run_out = run;
    return rc;
}

/* A word of no index: perhaps a controller knows it. */
static int find(const char *word, struct zep_run *run, struct zep_error *err)
{
    int rc = 0;

    for (int i = 0; backends[i] && rc == 0; i++) {
        run->backend = backends[i];
        rc = backends[i]->find ? backends[i]->find(word, run, err) : 0;
    }
    if (rc > 0 && run->dir)
        return claim(run, err);
    if (rc == 0)
        return zep_error_set(err, ZEP_ENOENT, "%s: no such run folder, no run or job of that name in your index, and no controller that knows it: `zeppelin status` lists your runs", word);
    return rc < 0 ? rc : ZEP_OK;
}

int zep_run_open(const char *word, struct zep_run **run_out, struct zep_error *err)
{
    struct zep_run *run = NULL;
    int rc;

    if ((rc = new_run(word, NULL, &run, err)) < 0)
        return rc;
    rc = zep_runfolder_find(word, &run->dir, err);
    if (rc == ZEP_OK)
        rc = claim(run, err);
    else if (rc == ZEP_ENOENT)
        rc = find(word, run, err);
    if (rc < 0)
        zep_run_free(run);
    else
        *run_out = run;
    return rc;
}

int zep_runs_status(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err)
{
    const struct zep_run **of = zep_calloc((size_t)n + 1, sizeof *of);
    struct zep_live *live = zep_calloc((size_t)n + 1, sizeof *live);
    int rc = of && live ? ZEP_OK : zep_error_nomem(err, "runs");

    for (int b = 0; backends[b] && rc == ZEP_OK; b++) {
        int m = 0, k = 0;

        for (int i = 0; i < n; i++)
            if (run[i]->backend == backends[b])
                of[m++] = run[i];
        memset(live, 0, ((size_t)n + 1) * sizeof *live);
        if (m && (rc = backends[b]->status(of, m, fresh, live, err)) < 0)
            break;
        for (int i = 0; i < n; i++)
            if (run[i]->backend == backends[b])
                live_out[i] = live[k++];
    }
    free(of);
    free(live);
    return rc;
}

/* That of an attempt before the last one says nothing. */
int zep_run_outcome(const struct zep_run *run, struct zep_outcome *o)
{
    struct zep_runinfo now;

    return run->dir && zep_runfolder_info(run->dir, &now, NULL) == ZEP_OK && now.n_attempt > 0 && zep_outcome_read(run->dir, o, NULL) == ZEP_OK && o->attempt >= now.n_attempt;
}

static int is_newer(const char *dir, const char *name, const char *than)
{
    char *a = zep_fs_join(dir, name), *b = zep_fs_join(dir, than);
    struct stat sa, sb;
    int newer = a && b && stat(a, &sa) == 0 && stat(b, &sb) == 0 && (sa.st_mtim.tv_sec > sb.st_mtim.tv_sec || (sa.st_mtim.tv_sec == sb.st_mtim.tv_sec && sa.st_mtim.tv_nsec > sb.st_mtim.tv_nsec));

    free(a);
    free(b);
    return newer;
}

int zep_run_is_done(const struct zep_run *run)
{
    struct zep_outcome o;

    return zep_run_outcome(run, &o) && o.status == ZEP_OK && !is_newer(run->dir, "slurm-job", "outcome.json");
}

int zep_watch_ended(struct zep_watch *w, struct zep_error *err)
{
    const struct zep_run *run = w->run;
    double now = zep_clock_now();
    int rc, asks = run->backend->asks && run->backend->asks(run);

    if (zep_run_is_done(run))
        return 1;
    if (asks && w->asked > 0 && now - w->asked < ZEP_ASK_EVERY_S)
        return 0;
    if ((rc = run->backend->status(&run, 1, 0, &w->live, err)) < 0)
        return rc;
    if (asks)
        w->asked = now;
    w->n_silent = w->live.life == ZEP_LIFE_UNKNOWN ? w->n_silent + 1 : 0;
    return w->live.life == ZEP_LIFE_ENDED || w->live.life == ZEP_LIFE_FORGOTTEN;
}

int zep_run_exit_status(const struct zep_run *run, const struct zep_live *live, char *cause, size_t size)
{
    struct zep_outcome o;

    *cause = '\0';
    if (zep_run_outcome(run, &o)) {
        if (o.status != ZEP_OK)
            snprintf(cause, size, "%s", o.cause);
        return zep_exit_status(o.status);
    }
    if (live->told && live->exit_status >= 0) {
        if (live->exit_status)
            snprintf(cause, size, "%s", live->why);
        return live->exit_status;
    }
    snprintf(cause, size, "the run left no outcome%s%s", *live->why ? ": " : "", live->why);
    return live->exit_status >= 0 ? live->exit_status : zep_exit_status(ZEP_EPEER);
}
