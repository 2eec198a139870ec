#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/log.h"
#include "launcher/cli.h"
#include "launcher/options.h"
#include "launcher/status.h"

#define FEW 10

enum { OPT_JSON = 256, OPT_ALL, OPT_FRESH };

static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON}, {"all", no_argument, NULL, OPT_ALL}, {"fresh", no_argument, NULL, OPT_FRESH}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "status",
    "usage: zeppelin status [--json] [--fresh] JOB...\n"
    "       zeppelin status [--json] [--fresh] [--all]\n"
    "\n"
    "Says how runs stand: whether they wait (and why), run (and where) or have ended (and how), the step, loss and\n"
    "tokens a second, the last and the next checkpoint, and when they will be done. JOB is a run folder, a run's id,\n"
    "[CLUSTER:]JOBID, or k8s:[NAMESPACE:]NAME. Without one it lists your runs: all that wait or run, and the last\n"
    "ten that have ended.\n"
    "\n"
    "  --all    lists all that have ended\n"
    "  --fresh  asks the controller, though its answer of less than 15 s ago was kept\n"
    "  --json   for programs\n"
    "  -h, --help\n",
    options,
};

struct args {
    int json, all, fresh, n_job;
    char *const *job;
};

static int parse(int argc, char **argv, struct args *a)
{
    const struct zep_option table[] = {{ZEP_OPTION_FLAG, OPT_JSON, &a->json, NULL}, {ZEP_OPTION_FLAG, OPT_ALL, &a->all, NULL}, {ZEP_OPTION_FLAG, OPT_FRESH, &a->fresh, NULL}, {0}};
    int status = zep_options(&cli, argc, argv, table);

    if (status >= 0)
        return status;
    a->job = argv + optind;
    a->n_job = argc - optind;
    if (a->all && a->n_job)
        return zep_cli_usage(&cli, "--all takes no JOB");
    return -1;
}

static int open_jobs(const struct args *a, struct zep_run ***out, int *n_out, struct zep_error *err)
{
    struct zep_run **run = zep_calloc((size_t)a->n_job, sizeof *run);
    int rc = run ? ZEP_OK : zep_error_nomem(err, "runs");

    *out = run;
    for (int i = 0; i < a->n_job && rc == ZEP_OK; i++)
        if ((rc = zep_run_open(a->job[i], &run[*n_out], err)) == ZEP_OK)
            (*n_out)++;
    return rc;
}

/* Folders of the index that cannot be read are passed over: the others are wanted all the same. */
static int open_all(struct zep_run ***out, int *n_out, struct zep_error *err)
{
    struct zep_error e;
    char **dir = NULL;
    int n = 0, rc;

    if ((rc = zep_runfolder_list(&dir, &n, err)) < 0)
        return rc;
    *out = zep_calloc((size_t)n + 1, sizeof **out);
    rc = *out ? ZEP_OK : zep_error_nomem(err, "runs");
    for (int i = 0; i < n; i++) {
        if (rc == ZEP_OK && zep_run_open_dir(dir[i], &(*out)[*n_out], &e) == ZEP_OK)
            (*n_out)++;
        else if (rc == ZEP_OK)
            zep_log(ZEP_LOG_WARN, "%s", e.text);
        free(dir[i]);
    }
    free(dir);
    return rc;
}

static void look(struct zep_run_status *s)
{
    struct zep_error e;

    s->now = zep_clock_wall();
    if (!s->run->dir)
        return;
    s->seen = zep_glance(s->run->dir, &s->glance, &e) == ZEP_OK;
    if (!s->seen)
        zep_log(ZEP_LOG_WARN, "%s", e.text);
}

/* Those that live, and the last few others. */
static int choose(struct zep_run_status *s, int n, int all)
{
    int ended = 0, kept = 0;

    for (int i = 0; i < n; i++)
        ended += !zep_status_lives(&s[i]);
    for (int i = 0; i < n; i++)
        if (all || zep_status_lives(&s[i]) || ended-- <= FEW)
            s[kept++] = s[i];
    return kept;
}

static int show(const struct args *a, struct zep_run_status *s, int n, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    for (int i = 0; i < n; i++)
        look(&s[i]);
    if (a->json)
        rc = zep_status_json(s, n, &b, err);
    else if (!a->n_job && n)
        rc = zep_status_table(s, n, &b, err);
    for (int i = 0; !a->json && a->n_job && i < n && rc == ZEP_OK; i++)
        rc = zep_status_text(&s[i], &b, err);
    if (rc == ZEP_OK)
        rc = zep_cli_write(NULL, &b, err);
    if (!a->json && !a->n_job && !n)
        zep_log(ZEP_LOG_INFO, "there are no runs of yours in the index");
    zep_buf_free(&b);
    return rc;
}

/* 3 where the controller had to be asked and did not answer. */
static int report(const struct args *a, struct zep_run *const *run, int n, int *status_out, struct zep_error *err)
{
    struct zep_live *live = zep_calloc((size_t)n + 1, sizeof *live);
    struct zep_run_status *s = zep_calloc((size_t)n + 1, sizeof *s);
    int rc = live && s ? zep_runs_status((const struct zep_run *const *)run, n, a->fresh, live, err) : zep_error_nomem(err, "runs");
    const char *silent = NULL;

    for (int i = 0; i < n && rc == ZEP_OK; i++) {
        s[i].run = run[i];
        s[i].live = live[i];
        silent = !silent && live[i].life == ZEP_LIFE_UNKNOWN ? live[i].why : silent;
    }
    if (rc == ZEP_OK && !a->n_job)
        n = choose(s, n, a->all);
    if (rc == ZEP_OK)
        rc = show(a, s, n, err);
    if (rc == ZEP_OK && silent) {
        zep_log(ZEP_LOG_ERROR, "%s", silent);
        *status_out = zep_exit_status(ZEP_EUNAVAIL);
    }
    free(live);
    free(s);
    return rc;
}

int cmd_status(int argc, char **argv)
{
    struct args a = {0};
    struct zep_run **run = NULL;
    struct zep_error err;
    int n = 0, rc, status;

    if ((status = parse(argc, argv, &a)) >= 0)
        return status;
    status = 0;
    rc = a.n_job ? open_jobs(&a, &run, &n, &err) : open_all(&run, &n, &err);
    if (rc == ZEP_OK)
        rc = report(&a, run, n, &status, &err);
    for (int i = 0; i < n; i++)
        zep_run_free(run[i]);
    free(run);
    return rc < 0 ? zep_cli_fail(&err) : status;
}
