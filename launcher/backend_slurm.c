/* Runs of zeppelin submit, and those of zeppelin run in an allocation. */
#include "config.h"
#include "launcher/backend.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "common/rundir.h"
#include "common/squeue.h"
#include "launcher/cli.h"
#include "launcher/slurm_jobs.h"

#define ASK_S 10.0

static void get_user(char out[64])
{
    const struct passwd *pw = getpwuid(getuid());

    snprintf(out, 64, "%s", pw ? pw->pw_name : "");
}

/* slurm-job: a line a job as sbatch --parsable prints it, "ID" or "ID;CLUSTER". */
static int read_jobs(struct zep_run *run, struct zep_error *err)
{
    char *path = zep_fs_join(run->dir, "slurm-job"), *text = NULL, *save = NULL;
    size_t len;
    int rc = path ? ZEP_OK : zep_error_nomem(err, "slurm-job");

    if (rc == ZEP_OK && zep_fs_exists(path))
        rc = zep_fs_read(path, 1 << 20, &text, &len, err);
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line && rc == ZEP_OK; line = strtok_r(NULL, "\n", &save)) {
        char *cluster = strchr(line, ';');

        if (cluster) {
            *cluster++ = '\0';
            snprintf(run->cluster, sizeof run->cluster, "%s", cluster);
        }
        run->batch = 1;
        if (zep_run_add_job(run, line) < 0)
            rc = zep_error_nomem(err, "jobs");
    }
    free(text);
    free(path);
    return rc;
}

static int claim(struct zep_run *run, struct zep_error *err)
{
    int rc = read_jobs(run, err);

    if (rc < 0 || run->n_job)
        return rc < 0 ? rc : 1;
    if (strcmp(run->info.backend, "slurm"))
        return 0;
    return zep_run_add_job(run, run->info.job) < 0 ? zep_error_nomem(err, "jobs") : 1;
}

/* "12", "12_3" */
static int is_jobid(const char *s)
{
    size_t n = strspn(s, "0123456789");

    return n > 0 && (!s[n] || (s[n] == '_' && s[n + 1] && strspn(s + n + 1, "0123456789") == strlen(s + n + 1)));
}

/* The folder that a job's batch script lies in, if it is a run's. */
static char *folder_of(const char *command)
{
    const char *slash = strrchr(command, '/');
    char *dir = slash && !strcmp(slash, "/batch.sh") ? strndup(command, (size_t)(slash - command)) : NULL;

    if (dir && zep_rundir_check(dir, NULL) < 0) {
        free(dir);
        dir = NULL;
    }
    return dir;
}

/* "cluster:12" of the cluster whose controller answers here is in the index as "12". */
static int find_here(const char *cluster, const char *id, struct zep_run *run)
{
    char name[128];

    if (zep_squeue_cluster(ASK_S, name, sizeof name) < 0 || strcmp(name, cluster))
        return 0;
    run->cluster[0] = '\0';
    return zep_runfolder_find(id, &run->dir, NULL) == ZEP_OK;
}

static int find(const char *word, struct zep_run *run, struct zep_error *err)
{
    const char *colon = strrchr(word, ':'), *id = colon ? colon + 1 : word;
    struct zep_slurm_jobs jobs;
    int rc;

    if (!is_jobid(id))
        return 0;
    if (colon) {
        snprintf(run->cluster, sizeof run->cluster, "%.*s", (int)(colon - word), word);
        if (find_here(run->cluster, id, run))
            return 1;
    }
    if ((rc = zep_slurm_job(run->cluster, id, &jobs, err)) <= 0)
        return rc < 0 ? zep_error_prefix(err, "%s is in no index of yours, and", word) : 0;
    run->dir = folder_of(jobs.job[0].command);
    run->batch = 1;
    rc = run->dir || zep_run_add_job(run, id) == ZEP_OK ? 1 : zep_error_nomem(err, "jobs");
    zep_slurm_jobs_free(&jobs);
    return rc;
}

/* --- status --- */

static const struct zep_slurm_job *look_up(const struct zep_slurm_jobs *jobs, const char *id)
{
    for (int i = 0; i < jobs->n; i++)
        if (!strcmp(jobs->job[i].id, id) || !strcmp(jobs->job[i].raw, id))
            return &jobs->job[i];
    return NULL;
}

/* slurm-ID.end is the batch script's last word: its exit status, and perhaps why. */
static int read_end(const struct zep_run *run, const char *id, int *status_out, char *why, size_t size)
{
    struct zep_buf path = ZEP_BUF_INIT;
    char *text = NULL;
    size_t len;
    int used = 0, found = 0;

    zep_buf_printf(&path, "%s/slurm-%s.end", run->dir, id);
    if (run->dir && !path.failed && zep_fs_exists(path.data) && zep_fs_read(path.data, 4096, &text, &len, NULL) == ZEP_OK && sscanf(text, "%d %n", status_out, &used) == 1) {
        found = 1;
        snprintf(why, size, "%.*s", (int)strcspn(text + used, "\n"), text + used);
    }
    free(text);
    zep_buf_free(&path);
    return found;
}

static int waits(const struct zep_slurm_job *j)
{
    return !strcmp(j->state, "PENDING") || !strncmp(j->state, "REQUEUE", 7);
}

static void tell(const struct zep_slurm_job *j, struct zep_live *l)
{
    *l = (struct zep_live){.submitted = j->submitted, .start = j->start, .end = j->end, .exit_status = -1};
    snprintf(l->job, sizeof l->job, "%s", j->id);
    snprintf(l->word, sizeof l->word, "%s", j->state);
    snprintf(l->user, sizeof l->user, "%s", j->user);
    snprintf(l->where, sizeof l->where, "%s", j->nodes);
    if (zep_squeue_is_final(j->state)) {
        l->life = ZEP_LIFE_ENDED;
        l->exit_status = zep_slurm_exit_status(j->state);
        snprintf(l->why, sizeof l->why, "%s", zep_slurm_ended(j->state));
    } else if (waits(j)) {
        l->life = ZEP_LIFE_WAITING;
        zep_slurm_why(j->reason, l->why, sizeof l->why);
    } else if (!strcmp(j->state, "COMPLETING") || !strcmp(j->state, "STAGE_OUT")) {
        l->life = ZEP_LIFE_ENDING;
    } else {
        l->life = ZEP_LIFE_RUNNING;
        if (strcmp(j->state, "RUNNING"))
            snprintf(l->why, sizeof l->why, "%s", !strcmp(j->state, "CONFIGURING") ? "its nodes are being made ready" : !strcmp(j->state, "SUSPENDED") ? "it is suspended" : "");
    }
}

/* Of the jobs of a chain the one that runs counts most, then one that waits, then one that ended, and of equal ones the first that waits and the last that ended. */
static int weight(enum zep_life life)
{
    return life == ZEP_LIFE_RUNNING || life == ZEP_LIFE_ENDING ? 4 : life == ZEP_LIFE_WAITING ? 3 : life == ZEP_LIFE_ENDED ? 2 : 1;
}

/* Slurm itself may have put back into the queue what was stopped or lost: preempted, or requeued by an administrator. Nobody needs to be asked about other ends. */
static int may_go_on(int status)
{
    return status == zep_exit_status(ZEP_ESTOPPED) || status == zep_exit_status(ZEP_EPEER) || status > 128;
}

/* Is there a job without a last word? with_doubts: or with one that may not be the last. */
static int is_open(const struct zep_run *run, int with_doubts)
{
    char why[8];
    int status;

    for (int i = 0; i < run->n_job && !zep_run_is_done(run); i++)
        if (!run->batch || !read_end(run, run->job[i], &status, why, sizeof why) || (with_doubts && may_go_on(status)))
            return 1;
    return 0;
}

static int needs_controller(const struct zep_run *run)
{
    return is_open(run, 1);
}

/* One job of a run: by its own last word, by the controller, or as somebody else's. */
static void tell_job(const struct zep_run *run, const char *id, const struct zep_slurm_jobs *jobs, struct zep_live *l)
{
    const struct zep_slurm_job *j = look_up(jobs, id);
    struct zep_slurm_jobs one = {0};
    int status;

    *l = (struct zep_live){.exit_status = -1};
    snprintf(l->job, sizeof l->job, "%s", id);
    if (run->batch && read_end(run, id, &status, l->why, sizeof l->why) && !(j && waits(j) && may_go_on(status))) {
        l->life = ZEP_LIFE_ENDED;
        l->exit_status = status;
        return;
    }
    if (!j && zep_slurm_job(run->cluster, id, &one, NULL) > 0)
        j = &one.job[0];
    if (j)
        tell(j, l);
    else
        l->life = ZEP_LIFE_FORGOTTEN;
    zep_slurm_jobs_free(&one);
}

/* A run in an interactive allocation has ended when its lock is gone, though the allocation lives on. */
static void tell_interactive(const struct zep_run *run, struct zep_live *l)
{
    struct zep_lock_holder h;
    int held = zep_lock_look(run->dir, &h, NULL);

    if ((l->life == ZEP_LIFE_RUNNING || l->life == ZEP_LIFE_ENDING) && held == 0) {
        l->life = ZEP_LIFE_ENDED;
        l->exit_status = -1;
    }
    l->start = run->info.time;
}

static void ask_accounting(const struct zep_run *run, struct zep_live *l)
{
    struct zep_outcome o;
    int status;

    if (zep_run_outcome(run, &o))
        return;
    if (zep_slurm_accounted(run->cluster, l->job, l->word, &status, l->where, sizeof l->where)) {
        l->life = ZEP_LIFE_ENDED;
        snprintf(l->why, sizeof l->why, "%s, accounting says", zep_slurm_ended(l->word));
        l->exit_status = !strcmp(l->word, "FAILED") && status ? status : zep_slurm_exit_status(l->word);
    } else {
        snprintf(l->why, sizeof l->why, "unknown to the controller");
    }
}

static void tell_run(const struct zep_run *run, const struct zep_slurm_jobs *jobs, struct zep_live *out)
{
    struct zep_live l;

    if (zep_run_is_done(run)) {
        *out = (struct zep_live){.life = ZEP_LIFE_ENDED};
        snprintf(out->job, sizeof out->job, "%s", run->info.job[0] ? run->info.job : run->job[run->n_job - 1]);
        return;
    }
    out->life = ZEP_LIFE_UNKNOWN;
    for (int i = 0; i < run->n_job; i++) {
        tell_job(run, run->job[i], jobs, &l);
        if (i == 0 || weight(l.life) > weight(out->life) || (weight(l.life) == weight(out->life) && l.life != ZEP_LIFE_WAITING))
            *out = l;
    }
    if (!run->batch)
        tell_interactive(run, out);
    if (out->life == ZEP_LIFE_FORGOTTEN)
        ask_accounting(run, out);
}

static void tell_silent(const struct zep_run *run, const struct zep_error *e, struct zep_live *out)
{
    *out = (struct zep_live){.exit_status = -1};
    snprintf(out->job, sizeof out->job, "%s", run->n_job ? run->job[run->n_job - 1] : "");
    snprintf(out->why, sizeof out->why, "%.500s", e->text);
}

/* One question a cluster, for all runs of it that need one. */
static int status(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err)
{
    char *done = zep_calloc((size_t)n, 1);

    if (!done)
        return zep_error_nomem(err, "jobs");
    for (int i = 0; i < n; i++) {
        struct zep_slurm_jobs jobs = {0};
        struct zep_error e;
        int need = 0, rc = ZEP_OK;

        for (int k = i; k < n; k++)
            need |= !strcmp(run[k]->cluster, run[i]->cluster) && needs_controller(run[k]);
        if (!done[i] && need)
            rc = zep_slurm_jobs(run[i]->cluster, fresh, &jobs, &e);
        for (int k = i; k < n; k++)
            if (!done[k] && !strcmp(run[k]->cluster, run[i]->cluster)) {
                done[k] = 1;
                if (rc < 0 && is_open(run[k], 0))
                    tell_silent(run[k], &e, &live_out[k]);
                else
                    tell_run(run[k], &jobs, &live_out[k]);
            }
        zep_slurm_jobs_free(&jobs);
    }
    free(done);
    return ZEP_OK;
}

/* --- cancel --- */

static int scancel(const struct zep_run *run, const char *options, const char *id, struct zep_error *err)
{
    struct zep_process_result r;
    struct zep_argv a = {0};
    int rc;

    zep_argv_add(&a, "scancel");
    zep_argv_split(&a, options);
    if (*run->cluster) {
        zep_argv_add(&a, "-M");
        zep_argv_add(&a, "%s", run->cluster);
    }
    zep_argv_add(&a, "%s", id);
    rc = a.n > 0 ? zep_process_run_without(a.v, zep_squeue_filters(), ASK_S, &r, err) : zep_error_nomem(err, "scancel");
    zep_argv_free(&a);
    if (rc < 0)
        return rc;
    if (r.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "scancel gave no answer in %.0f s: is slurmctld up?", ASK_S);
    else if (r.status != 0)
        rc = zep_error_set(err, strstr(r.err, "denied") ? ZEP_EREFUSED : ZEP_EUNAVAIL, "job %s: %.*s", id, (int)strcspn(r.err, "\n"), r.err);
    zep_process_result_free(&r);
    return rc;
}

/* What waited and was taken out of the queue can say nothing itself. */
static void note_end(const struct zep_run *run, const char *id)
{
    static const char text[] = "143 it was cancelled while it waited\n";
    struct zep_buf path = ZEP_BUF_INIT;

    zep_buf_printf(&path, "%s/slurm-%s.end", run->dir ? run->dir : "", id);
    if (run->dir && !path.failed)
        zep_fs_write_atomic(path.data, text, sizeof text - 1, 0666, NULL);
    zep_buf_free(&path);
}

/* In an allocation of the user's own only the step with the ranks is ended: on its machine by way of zeppelin run, from elsewhere by the controller. */
static int cancel_interactive(const struct zep_run *run, int now, char *said_out, size_t size, struct zep_error *err)
{
    struct zep_lock_holder h;

    if (zep_lock_look(run->dir, &h, NULL) == 1 && h.alive == 1)
        return zep_backend_local.cancel(run, now, said_out, size, err);
    return zep_error_set(err, ZEP_EUNAVAIL, "%s was started by zeppelin run in job %s: end it where it was started%s%s, or the whole allocation with scancel %s", run->dir, run->job[0], *run->info.host ? ", on " : "",
                         run->info.host, run->job[0]);
}

/* One job, if it is there and has not ended. */
static int cancel_job(const struct zep_run *run, const char *id, const struct zep_slurm_jobs *jobs, int now, char *said_out, size_t size, struct zep_error *err)
{
    const struct zep_slurm_job *j = look_up(jobs, id);
    struct zep_slurm_jobs one = {0};
    char me[64];
    int rc = ZEP_OK, waits;

    get_user(me);
    if (!j && zep_slurm_job(run->cluster, id, &one, NULL) > 0)
        j = &one.job[0];
    waits = j && !strcmp(j->state, "PENDING");
    if (j && strcmp(j->user, me) && geteuid() != 0) {
        rc = zep_error_set(err, ZEP_EREFUSED, "job %s belongs to %s: only its user or an administrator can cancel it", id, j->user);
    } else if (j && !zep_squeue_is_final(j->state)) {
        if ((rc = scancel(run, waits || now ? "" : "--batch --signal=TERM", id, err)) == ZEP_OK && waits)
            note_end(run, id);
        if (rc == ZEP_OK)
            snprintf(said_out, size, waits ? "job %s was taken out of the queue" : now ? "job %s was ended" : "job %s stops after its step, with a checkpoint", id);
    }
    zep_slurm_jobs_free(&one);
    return rc;
}

/* Later jobs of a chain first, so that none begins when the one before it ends. */
static int cancel(const struct zep_run *run, int now, char *said_out, size_t size, struct zep_error *err)
{
    struct zep_slurm_jobs jobs;
    int rc;

    snprintf(said_out, size, "it does not run: nothing to stop");
    if (!run->batch)
        return cancel_interactive(run, now, said_out, size, err);
    if ((rc = zep_slurm_jobs(run->cluster, 1, &jobs, err)) < 0)
        return rc;
    for (int i = run->n_job - 1; i >= 0 && rc == ZEP_OK; i--)
        rc = cancel_job(run, run->job[i], &jobs, now, said_out, size, err);
    zep_slurm_jobs_free(&jobs);
    zep_slurm_jobs_forget(run->cluster);
    return rc;
}

const struct zep_backend zep_backend_slurm = {"slurm", claim, find, status, needs_controller, NULL, cancel, NULL};
