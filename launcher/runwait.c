/* Waiting for a run, and reading its log, whatever its backend. */
#include "config.h"
#include "launcher/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/fs.h"
#include "common/log.h"
#include "launcher/progress.h"

#define TICK_MS 200
#define TICKS 5 /* between looks at the run */

/* A change of the backend's word is told once. */
static void tell_change(const struct zep_watch *w, char before[32])
{
    const struct zep_live *l = &w->live;

    if (w->n_silent == 2)
        zep_log(ZEP_LOG_WARN, "%s: waiting on", l->why);
    if (!*l->word || !*l->job || l->life == ZEP_LIFE_UNKNOWN || !strcmp(l->word, before))
        return;
    zep_progress_end();
    zep_log(ZEP_LOG_INFO, "job %s: %s%s%s", l->job, l->word, l->life == ZEP_LIFE_WAITING ? ": " : *l->where ? " on " : "", l->life == ZEP_LIFE_WAITING ? l->why : l->where);
    snprintf(before, 32, "%s", l->word);
}

static int open_progress(const struct zep_run *run, int all, struct zep_job **job_out, struct zep_progress_reader **out, struct zep_error *err)
{
    int rc;

    *job_out = NULL;
    *out = NULL;
    if (!run->dir)
        return ZEP_OK;
    if ((rc = zep_runfolder_load_job(run->dir, NULL, 0, job_out, err)) < 0)
        return rc;
    if (!(*out = zep_progress_open(run->dir, 0, *job_out))) {
        zep_job_free(*job_out);
        return zep_error_nomem(err, "progress");
    }
    if (!all)
        zep_progress_skip(*out);
    return ZEP_OK;
}

int zep_run_wait_live(const struct zep_run *run, int all, struct zep_live *live_out, int *exit_status_out, struct zep_error *err)
{
    struct zep_watch w = {.run = run, .live = {.exit_status = -1}};
    struct zep_progress_reader *p;
    struct zep_job *job;
    char before[32] = "", cause[1200];
    int rc, ended;

    if (run->backend->wait) {
        if ((rc = run->backend->wait(run, &w.live, err)) < 0)
            return rc;
    } else {
        if ((rc = open_progress(run, all, &job, &p, err)) < 0)
            return rc;
        while ((ended = zep_watch_ended(&w, err)) == 0) {
            tell_change(&w, before);
            for (int i = 0; i < TICKS; i++) {
                poll(NULL, 0, TICK_MS);
                if (p)
                    zep_progress_read(p);
            }
        }
        if (p)
            zep_progress_read(p);
        zep_progress_close(p);
        zep_job_free(job);
        if (ended < 0)
            return ended;
    }
    *live_out = w.live;
    *exit_status_out = zep_run_exit_status(run, &w.live, cause, sizeof cause);
    if (*cause)
        zep_log(*exit_status_out == zep_exit_status(ZEP_ESTOPPED) || *exit_status_out == ZEP_EXIT_CANCELLED ? ZEP_LOG_INFO : ZEP_LOG_ERROR, "%s", cause);
    return ZEP_OK;
}

int zep_run_wait(const struct zep_run *run, int all, int *exit_status_out, struct zep_error *err)
{
    struct zep_live live;

    return zep_run_wait_live(run, all, &live, exit_status_out, err);
}

/* --- logs --- */

struct file {
    char *path;
    int fd; /* -1 not there yet */
};

static char *slurm_log(const struct zep_run *run, const char *job)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *path;

    zep_buf_printf(&b, "%s/slurm-%s.out", run->dir, job);
    return zep_buf_steal(&b, &path, NULL) < 0 ? NULL : path;
}

/* A batch job's own output holds all that the run's log does, and what went before. */
static int find_files(const struct zep_run *run, int ranks, struct file **out, int *n_out, struct zep_error *err)
{
    struct file *f = zep_calloc((size_t)run->n_job + 1, sizeof *f);
    int n = 0, batch = run->batch && !ranks;

    if (!f)
        return zep_error_nomem(err, "logs");
    for (int i = 0; batch && i < run->n_job; i++)
        f[n++] = (struct file){slurm_log(run, run->job[i]), -1};
    if (!batch)
        f[n++] = (struct file){zep_fs_join(run->dir, "log"), -1};
    *out = f;
    *n_out = n;
    for (int i = 0; i < n; i++)
        if (!f[i].path)
            return zep_error_nomem(err, "logs");
    return ZEP_OK;
}

/* 1 something was there. */
static int copy_new(struct file *f, struct zep_error *err)
{
    char chunk[65536];
    ssize_t n;
    int some = 0;

    if (f->fd < 0 && (f->fd = open(f->path, O_RDONLY | O_CLOEXEC)) < 0)
        return errno == ENOENT ? 0 : zep_error_set(err, ZEP_EIO, "%s: %s", f->path, strerror(errno));
    while ((n = read(f->fd, chunk, sizeof chunk)) > 0) {
        some = 1;
        if (fwrite(chunk, 1, (size_t)n, stdout) != (size_t)n)
            return zep_error_set(err, ZEP_EIO, "standard output: %s", strerror(errno));
    }
    if (fflush(stdout) != 0)
        return zep_error_set(err, ZEP_EIO, "standard output: %s", strerror(errno));
    return some;
}

static int copy_all(struct file *f, int n, struct zep_error *err)
{
    int some = 0, rc;

    for (int i = 0; i < n; i++) {
        if ((rc = copy_new(&f[i], err)) < 0)
            return rc;
        some |= rc;
    }
    return some;
}

static int follow_files(const struct zep_run *run, struct file *f, int n, struct zep_error *err)
{
    struct zep_watch w = {.run = run};
    int ended = 0, rc = 0;

    while (rc >= 0 && (ended = zep_watch_ended(&w, err)) == 0)
        for (int i = 0; i < TICKS && rc >= 0; i++) {
            rc = copy_all(f, n, err);
            poll(NULL, 0, TICK_MS);
        }
    if (rc >= 0 && ended > 0)
        rc = copy_all(f, n, err);
    return rc < 0 ? rc : ended < 0 ? ended : ZEP_OK;
}

int zep_run_logs(const struct zep_run *run, int follow, int ranks, struct zep_error *err)
{
    struct file *f = NULL;
    int n = 0, rc, some = 0;

    if (run->backend->logs && !ranks)
        return run->backend->logs(run, follow, err);
    if (!run->dir)
        return zep_error_set(err, ZEP_ENOENT, "%s: no run folder of it can be seen here, and so no log", run->word);
    if ((rc = find_files(run, ranks, &f, &n, err)) == ZEP_OK && (rc = some = copy_all(f, n, err)) >= 0) {
        if (follow)
            rc = follow_files(run, f, n, err);
        else if (!some)
            zep_log(ZEP_LOG_INFO, "there is no log yet");
    }
    for (int i = 0; i < n; i++) {
        if (f[i].fd >= 0)
            close(f[i].fd);
        free(f[i].path);
    }
    free(f);
    return rc < 0 ? rc : ZEP_OK;
}
