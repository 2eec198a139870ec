#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "common/rundir.h"
#include "launcher/backend.h"
#include "launcher/cli.h"
#include "launcher/precheck.h"
#include "launcher/report.h"
#include "launcher/runfolder.h"
#include "launcher/sbatch.h"
#include "launcher/slurm_jobs.h"

#define SBATCH_S 30.0

enum { OPT_SET = 256, OPT_DRY, OPT_WAIT };

static const struct option options[] = {{"set", required_argument, NULL, OPT_SET}, {"dry-run", no_argument, NULL, OPT_DRY}, {"wait", no_argument, NULL, OPT_WAIT}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "submit",
    "usage: zeppelin submit [--set KEY=VALUE]... [--wait] JOB.yaml\n"
    "       zeppelin submit [--set KEY=VALUE]... --dry-run JOB.yaml\n"
    "\n"
    "Makes a run folder, writes the batch script into it, hands it to sbatch and prints the job id. When\n"
    "the time limit comes near, the job stops with a checkpoint and goes back into the queue by itself.\n"
    "\n"
    "  --set KEY=VALUE  sets a key of the job, as in --set train.steps=100; may be repeated\n"
    "  --dry-run        prints the batch script, and makes nothing\n"
    "  --wait           follows the job to its end, prints the report, and exits as the run did\n"
    "  -h, --help\n",
    options,
};

struct args {
    const char **set, *job;
    int n_set, dry, wait;
};

static int parse(int argc, char **argv, struct args *a)
{
    int c;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        switch (c) {
        case OPT_SET:
            a->set[a->n_set++] = optarg;
            break;
        case OPT_DRY:
            a->dry = 1;
            break;
        case OPT_WAIT:
            a->wait = 1;
            break;
        default:
            return c == 'h' ? 0 : 2;
        }
    }
    if (argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no job file" : "more than one job file");
    a->job = argv[optind];
    return -1;
}

/* A batch job asks for numbers; what nodes it gets is seen when it runs. */
static int resolve(struct zep_job *job, struct zep_error *err)
{
    int rc, one = !job->cluster.nodes;

    if ((rc = zep_job_absolute(job, err)) < 0 || (rc = zep_precheck_submit(job, err)) < 0)
        return rc;
    if (one)
        zep_log(ZEP_LOG_INFO, "cluster.nodes is auto: asking for 1 node of %" PRId64 " ranks; --set cluster.nodes=N asks for more", job->cluster.devices);
    return ZEP_OK;
}

static int self_path(char **out, struct zep_error *err)
{
    char *dir = NULL, *target = realpath("/proc/self/exe", NULL);

    /* in a build tree the program proper lies in .libs beside the wrapper that finds its libraries */
    if (target && (dir = strstr(target, "/.libs/lt-"))) {
        memmove(dir + 1, dir + 10, strlen(dir + 10) + 1);
    } else if (target && (dir = strstr(target, "/.libs/"))) {
        memmove(dir + 1, dir + 7, strlen(dir + 7) + 1);
    }
    *out = target;
    return target ? ZEP_OK : zep_error_set(err, ZEP_EIO, "/proc/self/exe cannot be read");
}

static int dry_run(const struct zep_job *job, const char *self, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *dir = zep_fs_join(job->run_root, job->name);
    int rc = dir ? ZEP_OK : zep_error_nomem(err, "script");

    if (rc == ZEP_OK) {
        struct zep_buf named = ZEP_BUF_INIT;

        zep_buf_printf(&named, "%s-ID", dir);
        rc = zep_sbatch_script(job, named.data ? named.data : "", self, &b, err);
        zep_buf_free(&named);
    }
    if (rc == ZEP_OK)
        rc = zep_cli_write(NULL, &b, err);
    zep_buf_free(&b);
    free(dir);
    return rc;
}

static int write_script(const struct zep_job *job, const char *rundir, const char *self, char **path_out, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *path = zep_fs_join(rundir, "batch.sh");
    int rc = path ? zep_sbatch_script(job, rundir, self, &b, err) : zep_error_nomem(err, "script");

    if (rc == ZEP_OK)
        rc = zep_fs_write_atomic(path, b.data, b.len, 0777, err);
    zep_buf_free(&b);
    *path_out = path;
    return rc;
}

/* ZEP_ETIMEDOUT: the controller may have taken the job all the same. */
static int call_sbatch(const char *script, char jobid[64], struct zep_error *err)
{
    char *argv[] = {"sbatch", "--parsable", (char *)script, NULL};
    struct zep_process_result r;
    int rc;

    if ((rc = zep_process_run(argv, SBATCH_S, &r, err)) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "sbatch cannot be started: there is no Slurm here (package slurm-client)");
    snprintf(jobid, 64, "%.*s", (int)strspn(r.out, "0123456789"), r.out);
    if (r.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "sbatch gave no answer in %.0f s: is slurmctld up?", SBATCH_S);
    else if (r.status != 0 && strstr(r.err, "timed out"))
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "sbatch got no answer: %.*s", (int)strcspn(r.err, "\n"), r.err);
    else if (r.status != 0)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "sbatch refused the job (status %d): %.*s", r.status, (int)(r.err_len ? r.err_len - (r.err[r.err_len - 1] == '\n') : 0), r.err);
    else if (!*jobid)
        rc = zep_error_set(err, ZEP_EIO, "sbatch printed no job id: '%.100s'", r.out);
    zep_process_result_free(&r);
    return rc;
}

static int print_report(const char *rundir, struct zep_error *err)
{
    struct zep_report *r = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    if ((rc = zep_report_load(rundir, &r, err)) == ZEP_OK && (rc = zep_report_text(r, &b, err)) == ZEP_OK)
        rc = zep_cli_write(NULL, &b, err);
    zep_buf_free(&b);
    zep_report_free(r);
    return rc;
}

static int wait_for(const char *rundir, int *status_out, struct zep_error *err)
{
    struct zep_run *run;
    struct zep_outcome o;
    int rc;

    if ((rc = zep_run_open_dir(rundir, &run, err)) < 0)
        return rc;
    if ((rc = zep_run_wait(run, 1, status_out, err)) == ZEP_OK && zep_outcome_read(rundir, &o, NULL) == ZEP_OK)
        rc = print_report(rundir, err);
    zep_run_free(run);
    return rc;
}

static int submit(const struct args *a, int *status_out, struct zep_error *err)
{
    struct zep_job *job = NULL;
    char *self = NULL, *rundir = NULL, *script = NULL, jobid[64];
    int rc, ours = 0;

    if ((rc = zep_job_load(a->job, a->set, a->n_set, &job, err)) < 0 || (rc = resolve(job, err)) < 0 || (rc = self_path(&self, err)) < 0)
        goto out;
    if (a->dry) {
        rc = dry_run(job, self, err);
        goto out;
    }
    if ((rc = zep_runfolder_new(job, &rundir, err)) < 0)
        goto out;
    ours = 1;
    if ((rc = write_script(job, rundir, self, &script, err)) < 0)
        goto out;
    if ((rc = call_sbatch(script, jobid, err)) < 0) {
        ours = rc == ZEP_EUNAVAIL; /* else the job may have been taken, and will look for its folder */
        if (!ours)
            zep_log(ZEP_LOG_WARN, "the job may be in the queue all the same (squeue --me): the run folder %s stays", rundir);
        goto out;
    }
    ours = 0;
    puts(jobid);
    fflush(stdout);
    zep_log(ZEP_LOG_INFO, "job %s, run folder %s", jobid, rundir);
    zep_slurm_jobs_forget("");
    if ((rc = zep_runfolder_set_jobid(rundir, jobid, err)) < 0)
        goto out;
    if (a->wait)
        rc = wait_for(rundir, status_out, err);
out:
    if (ours)
        zep_fs_remove_tree(rundir, NULL);
    free(script);
    free(rundir);
    free(self);
    zep_job_free(job);
    return rc;
}

int cmd_submit(int argc, char **argv)
{
    struct args a = {.set = zep_calloc((size_t)argc + 1, sizeof *a.set)};
    struct zep_error err;
    int status;

    if (!a.set)
        return 1;
    if ((status = parse(argc, argv, &a)) < 0) {
        status = 0;
        if (submit(&a, &status, &err) < 0)
            status = zep_cli_fail(&err);
    }
    free(a.set);
    return status;
}
