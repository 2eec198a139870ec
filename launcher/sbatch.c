#include "config.h"
#include "launcher/sbatch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/encode.h"
#include "launcher/environment.h"

static int put_option(struct zep_buf *b, const char *key, const char *value, struct zep_error *err)
{
    int rc;

    if (!*value)
        return ZEP_OK;
    zep_buf_printf(b, "#SBATCH --%s=", key);
    if ((rc = zep_encode_sbatch(b, value, err)) < 0)
        return zep_error_prefix(err, "sbatch option --%s", key);
    zep_buf_puts(b, "\n");
    return ZEP_OK;
}

static void put_number(struct zep_buf *b, const char *key, int64_t value)
{
    if (value)
        zep_buf_printf(b, "#SBATCH --%s=%" PRId64 "\n", key, value);
}

static void put_time(struct zep_buf *b, double time_s)
{
    int64_t s = (int64_t)time_s;

    if (s)
        zep_buf_printf(b, "#SBATCH --time=%" PRId64 "-%02d:%02d:%02d\n", s / 86400, (int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60));
}

static int put_output(struct zep_buf *b, const char *rundir, struct zep_error *err)
{
    struct zep_buf path = ZEP_BUF_INIT;
    int rc = zep_encode_slurm_path(&path, rundir, err);

    if (rc == ZEP_OK) {
        zep_buf_puts(&path, "/slurm-%j.out");
        if ((rc = zep_buf_ok(&path, err)) == ZEP_OK)
            rc = put_option(b, "output", path.data, err);
    }
    zep_buf_free(&path);
    return rc;
}

static int put_export(struct zep_buf *b, const struct zep_job *job, struct zep_error *err)
{
    struct zep_buf value = ZEP_BUF_INIT;
    int rc = zep_environment_export(job, &value, err);

    if (rc == ZEP_OK)
        rc = put_option(b, "export", value.data, err);
    zep_buf_free(&value);
    return rc;
}

static int put_options(const struct zep_job *job, const char *rundir, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    if ((rc = put_option(b, "job-name", *job->cluster.job_name ? job->cluster.job_name : job->name, err)) < 0)
        return rc;
    put_number(b, "nodes", job->cluster.nodes);
    put_number(b, "ntasks-per-node", job->cluster.devices * job->cluster.tp);
    put_number(b, "cpus-per-task", job->cluster.cpus_per_rank);
    put_number(b, "gpus-per-node", job->cluster.gpus_per_node);
    put_number(b, "switches", job->cluster.switches);
    put_time(b, job->cluster.time_s);
    if ((rc = put_option(b, "partition", job->cluster.partition, err)) < 0 || (rc = put_option(b, "account", job->cluster.account, err)) < 0 || (rc = put_option(b, "qos", job->cluster.qos, err)) < 0 ||
        (rc = put_option(b, "constraint", job->cluster.constraint, err)) < 0 || (rc = put_export(b, job, err)) < 0)
        return rc;
    zep_buf_printf(b, "#SBATCH --signal=B:USR1@%" PRId64 "\n", (int64_t)job->cluster.grace_s);
    zep_buf_puts(b, "#SBATCH --requeue\n#SBATCH --open-mode=append\n");
    return put_output(b, rundir, err);
}

int zep_sbatch_script(const struct zep_job *job, const char *rundir, const char *zeppelin, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    zep_buf_puts(b, "#!/bin/sh\n# Written by zeppelin submit. The ranks are started by `zeppelin run` below; the run folder holds the job file.\n");
    if ((rc = put_options(job, rundir, b, err)) < 0)
        return rc;
    zep_buf_puts(b, "\n: \"${PATH:=/usr/local/bin:/usr/bin:/bin}\" # cluster.export: NONE may leave none\nexport PATH\nzeppelin=");
    if ((rc = zep_encode_shell(b, zeppelin, err)) < 0)
        return rc;
    zep_buf_puts(b, "\nrun=");
    if ((rc = zep_encode_shell(b, rundir, err)) < 0)
        return rc;
    zep_buf_puts(b, "\nended=$run/slurm-$SLURM_JOB_ID.end # holds the exit status when the job is over, for zeppelin status and wait\nrm -f \"$ended\"\n");
    if ((rc = zep_environment_lines(job, b, err)) < 0)
        return rc;
    if (*job->cluster.setup)
        zep_buf_printf(b, "\n# cluster.setup\n%s\n", job->cluster.setup);
    zep_buf_puts(b, "\n\"$zeppelin\" run --resume \"$run\" &\n"
                    "pid=$!\n"
                    "stop=\n"
                    "trap 'stop=yes; kill -USR1 $pid' USR1 # the time limit comes near: stop with a checkpoint, and go on later\n"
                    "trap 'kill -TERM $pid' TERM INT\n"
                    "status=0\n"
                    "while :; do\n"
                    "    wait $pid\n"
                    "    status=$?\n"
                    "    kill -0 $pid 2>/dev/null || break\n"
                    "done\n"
                    "if [ $status -eq 75 ] && [ -n \"$stop\" ]; then\n"
                    "    echo \"back into the queue, to go on from the checkpoint\"\n"
                    "    scontrol requeue \"$SLURM_JOB_ID\" && sleep 60 && exit\n"
                    "fi\n"
                    "echo $status >\"$ended\"\n"
                    "exit $status\n");
    return zep_buf_ok(b, err);
}
