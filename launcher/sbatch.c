#include "config.h"
#include "launcher/sbatch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode.h"
#include "launcher/environment.h"

/* What zeppelin itself says to sbatch, and how a user says it to zeppelin. */
static const struct {
    const char *name, *instead;
} taken[] = {
    {"job-name", "set cluster.job_name"},
    {"nodes", "set cluster.nodes (and cluster.max_nodes)"},
    {"ntasks", "set cluster.devices, ranks a node"},
    {"ntasks-per-node", "set cluster.devices"},
    {"cpus-per-task", "set cluster.cpus_per_rank"},
    {"gpus-per-node", "set cluster.gpus_per_node"},
    {"gpus-per-task", "set cluster.gpus_per_node: a rank must see its node's other GPUs"},
    {"gpu-bind", "ranks must see their node's other GPUs"},
    {"switches", "set cluster.switches"},
    {"time", "set cluster.time"},
    {"signal", "set cluster.grace"},
    {"partition", "set cluster.partition"},
    {"account", "set cluster.account"},
    {"qos", "set cluster.qos"},
    {"constraint", "set cluster.constraint"},
    {"export", "set cluster.export"},
    {"output", "the output belongs into the run folder"},
    {"error", "the output belongs into the run folder"},
    {"open-mode", "the output of all starts belongs together"},
    {"array", "use --sweep"},
    {"dependency", "use --chain, or --slurm begin=TIME"},
    {"clusters", "use -M"},
    {"wrap", "zeppelin writes the script"},
    {"parsable", "zeppelin reads the answer"},
    {"test-only", "use --dry-run"},
    {"wait", "use --wait"},
    {"requeue", "it is the default"},
};

int zep_sbatch_check_option(const char *name, const char *value, struct zep_error *err)
{
    if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name) || *name == '-')
        return zep_error_set(err, ZEP_EINVAL, "'%.100s': expected the long name of an option of sbatch, without dashes in front, as in exclusive or mail-type=END", name);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (!strcmp(name, taken[i].name))
            return zep_error_set(err, ZEP_EINVAL, "'%s': zeppelin gives this option itself: %s", name, taken[i].instead);
    return value && !zep_text_is_clean(value) ? zep_error_set(err, ZEP_EINVAL, "'%s': a control character, or no valid UTF-8: expected text", name) : ZEP_OK;
}

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

static int put_output(struct zep_buf *b, const char *dir, int sweep, struct zep_error *err)
{
    struct zep_buf path = ZEP_BUF_INIT;
    int rc = zep_encode_slurm_path(&path, dir, err);

    if (rc == ZEP_OK) {
        zep_buf_puts(&path, sweep ? "/slurm-%A_%a.out" : "/slurm-%j.out");
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

static void put_nodes(struct zep_buf *b, const struct zep_job *job)
{
    if (job->cluster.max_nodes > job->cluster.nodes)
        zep_buf_printf(b, "#SBATCH --nodes=%" PRId64 "-%" PRId64 "\n", job->cluster.nodes, job->cluster.max_nodes);
    else
        put_number(b, "nodes", job->cluster.nodes);
}

static int put_further(struct zep_buf *b, const struct zep_job_map *map, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int i = 0; i < map->n && rc == ZEP_OK; i++) {
        if ((rc = zep_sbatch_check_option(map->pair[i].name, map->pair[i].value, err)) < 0)
            return zep_error_prefix(err, "%s: cluster.slurm", map->pair[i].origin);
        if (*map->pair[i].value)
            rc = put_option(b, map->pair[i].name, map->pair[i].value, err);
        else
            zep_buf_printf(b, "#SBATCH --%s\n", map->pair[i].name);
    }
    return rc;
}

static int put_options(const struct zep_sbatch *s, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_job *job = s->job;
    int rc;

    if ((rc = put_option(b, "job-name", *job->cluster.job_name ? job->cluster.job_name : job->name, err)) < 0)
        return rc;
    put_nodes(b, job);
    put_number(b, "ntasks-per-node", job->cluster.devices * job->cluster.tp);
    put_number(b, "cpus-per-task", job->cluster.cpus_per_rank);
    put_number(b, "gpus-per-node", job->cluster.gpus_per_node);
    put_number(b, "switches", job->cluster.switches);
    put_time(b, job->cluster.time_s);
    if ((rc = put_option(b, "partition", job->cluster.partition, err)) < 0 || (rc = put_option(b, "account", job->cluster.account, err)) < 0 || (rc = put_option(b, "qos", job->cluster.qos, err)) < 0 ||
        (rc = put_option(b, "constraint", job->cluster.constraint, err)) < 0 || (rc = put_export(b, job, err)) < 0 || (rc = put_further(b, &job->cluster.slurm, err)) < 0)
        return rc;
    zep_buf_printf(b, "#SBATCH --signal=B:USR1@%" PRId64 "\n", (int64_t)job->cluster.grace_s);
    if (!zep_job_map_get(&job->cluster.slurm, "no-requeue"))
        zep_buf_puts(b, "#SBATCH --requeue\n");
    zep_buf_puts(b, "#SBATCH --open-mode=append\n");
    if (s->sweep && s->at_once > 0)
        zep_buf_printf(b, "#SBATCH --array=0-%d%%%d\n", s->n_run - 1, s->at_once);
    else if (s->sweep)
        zep_buf_printf(b, "#SBATCH --array=0-%d\n", s->n_run - 1);
    return put_output(b, s->dir, s->sweep, err);
}

static int put_word(struct zep_buf *b, const char *before, const char *word, const char *after, struct zep_error *err)
{
    int rc;

    zep_buf_puts(b, before);
    rc = zep_encode_shell(b, word, err);
    zep_buf_puts(b, after);
    return rc;
}

/* Which folder, which id. */
static int put_names(const struct zep_sbatch *s, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    if ((rc = put_word(b, "zeppelin=", s->zeppelin, "\n", err)) < 0)
        return rc;
    if (!s->sweep && (rc = put_word(b, "run=", s->rundir[0], "\njob=$SLURM_JOB_ID\n", err)) < 0)
        return rc;
    if (s->sweep) {
        zep_buf_puts(b, "case $SLURM_ARRAY_TASK_ID in\n");
        for (int i = 0; i < s->n_run; i++) {
            zep_buf_printf(b, "%d) ", i);
            if ((rc = put_word(b, "run=", s->rundir[i], " ;;\n", err)) < 0)
                return rc;
        }
        zep_buf_puts(b, "esac\njob=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\nexec >>\"$run/slurm-$job.out\" 2>&1\n");
    }
    zep_buf_puts(b, "ended=$run/slurm-$job.end # holds the exit status when the job is over, for zeppelin status and wait\nrm -f \"$ended\"\n");
    return ZEP_OK;
}

/* A later job of a chain has something to do only where the run was stopped or lost. */
static void put_chain_begin(struct zep_buf *b)
{
    zep_buf_puts(b, "\ncase $(sed -n 's/^ *\"status\": \"\\(.*\\)\",$/\\1/p' \"$run/outcome.json\" 2>/dev/null) in\n"
                    "'' | stopped | 'peer lost') ;;\n"
                    "ok)\n"
                    "    echo \"zeppelin: the run is done: nothing is left for this job of the chain\"\n"
                    "    echo 0 >\"$ended\"\n"
                    "    exit 0\n"
                    "    ;;\n"
                    "*)\n"
                    "    echo \"zeppelin: the run failed: this job of the chain does not begin it again\"\n"
                    "    echo 1 >\"$ended\"\n"
                    "    exit 1\n"
                    "    ;;\n"
                    "esac\n");
}

static void put_launch(struct zep_buf *b)
{
    zep_buf_puts(b, "\n\"$zeppelin\" run --resume \"$run\" &\n"
                    "pid=$!\n"
                    "stop=\n"
                    "ended_by=\n"
                    "trap 'stop=yes; kill -USR1 $pid' USR1 # the time limit comes near: stop with a checkpoint, and go on later\n"
                    "trap 'ended_by=other; kill -TERM $pid' TERM INT # cancelled, preempted or requeued: whether it goes on is not for this script to say\n"
                    "status=0\n"
                    "while :; do\n"
                    "    wait $pid\n"
                    "    status=$?\n"
                    "    kill -0 $pid 2>/dev/null || break\n"
                    "done\n");
}

/* A node that is suspected, beside those that the job does without already (the user's own, and suspects before), where the partition has enough others. */
static void put_without(const struct zep_sbatch *s, struct zep_buf *b)
{
    zep_buf_printf(b,
                   "        if [ \"$again\" = lost ] && [ -n \"$suspect\" ]; then\n"
                   "            without=$(scontrol show job \"$job\" | sed -n 's/^.*ExcNodeList=\\([^ (]\\{1,\\}\\).*$/\\1,/p')$suspect\n"
                   "            others=$(sinfo -h -N -p \"$SLURM_JOB_PARTITION\" -t idle,allocated,mixed,completing -o %%N | sort -u | grep -cvxF \"$(scontrol show hostnames \"$without\")\")\n"
                   "            if [ \"$others\" -ge %" PRId64 " ]; then\n"
                   "                scontrol update JobId=\"$job\" ExcNodeList=\"$without\" && echo \"zeppelin: without $without\"\n"
                   "            fi\n"
                   "        fi\n",
                   s->job->cluster.nodes);
}

/* Back into the queue: after a stop for the time limit, and where a rank or node was lost; never what was cancelled, and not again without a checkpoint that is newer than at the time before. */
static void put_requeue(const struct zep_sbatch *s, struct zep_buf *b)
{
    zep_buf_puts(b, "\nagain=\n"
                    "case $status in\n");
    if (s->chain <= 1)
        zep_buf_puts(b, "75) again=$stop ;;\n");
    zep_buf_puts(b, "76) again=lost ;;\n"
                    "esac\n"
                    "[ -z \"$ended_by\" ] || again=\n"
                    "newest=$(ls \"$run/checkpoints\" | sed -n 's/^step-\\([0-9]*\\)$/\\1/p' | sort -n | tail -n 1)\n"
                    "if [ -n \"$again\" ] && [ \"$(cat \"$run/requeued\" 2>/dev/null)\" = \"step ${newest:-0}\" ]; then\n"
                    "    echo \"zeppelin: no new checkpoint since the job went back into the queue: it does not go there a second time\"\n"
                    "    again=\n"
                    "fi\n"
                    "if [ -n \"$again\" ]; then\n"
                    "    suspect=$(sed -n 's/^ *\"host\": \"\\([A-Za-z0-9._-]*\\)\",*$/\\1/p' \"$run/outcome.json\" 2>/dev/null)\n"
                    "    trap '' TERM # which the requeue sends\n"
                    "    # job, not SLURM_JOB_ID: that of an array's last task means all of them\n"
                    "    if scontrol requeue \"$job\"; then\n"
                    "        echo \"step ${newest:-0}\" >\"$run/requeued\"\n"
                    "        echo \"zeppelin: back into the queue, to go on after step ${newest:-0}\"\n");
    put_without(s, b);
    zep_buf_puts(b, "        exit 0\n"
                    "    fi\n"
                    "    echo \"zeppelin: the job cannot be requeued here; go on with: zeppelin submit --resume $run\"\n"
                    "fi\n");
}

static void put_end(const struct zep_sbatch *s, struct zep_buf *b)
{
    zep_buf_puts(b, "echo $status >\"$ended\"\n");
    if (s->chain > 1)
        zep_buf_puts(b, "if [ $status -eq 0 ]; then # nothing is left for the jobs to come\n"
                        "    while IFS=';' read -r other cluster; do\n"
                        "        [ \"$other\" = \"$job\" ] || scancel --state=PENDING \"$other\" 2>/dev/null\n"
                        "    done <\"$run/slurm-job\"\n"
                        "fi\n");
    zep_buf_puts(b, "exit $status\n");
}

int zep_sbatch_script(const struct zep_sbatch *s, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    zep_buf_puts(b, "#!/bin/sh\n# Written by zeppelin submit. The ranks are started by `zeppelin run` below; the run folder holds the job file.\n");
    if ((rc = put_options(s, b, err)) < 0)
        return rc;
    zep_buf_puts(b, "\n: \"${PATH:=/usr/local/bin:/usr/bin:/bin}\" # cluster.export: NONE may leave none\nexport PATH\n");
    if ((rc = put_names(s, b, err)) < 0)
        return rc;
    if (s->chain > 1)
        put_chain_begin(b);
    if ((rc = zep_environment_lines(s->job, b, err)) < 0)
        return rc;
    if (*s->job->cluster.setup)
        zep_buf_printf(b, "\n# cluster.setup\n%s\n", s->job->cluster.setup);
    put_launch(b);
    put_requeue(s, b);
    put_end(s, b);
    return zep_buf_ok(b, err);
}
