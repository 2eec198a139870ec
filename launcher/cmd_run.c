#include "config.h"
#include "launcher/launcher.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/appear.h"
#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "common/rundir.h"
#include "launcher/cli.h"
#include "launcher/container.h"
#include "launcher/environment.h"
#include "launcher/follow.h"
#include "launcher/inputs.h"
#include "launcher/k8s_record.h"
#include "launcher/launch.h"
#include "launcher/options.h"
#include "launcher/precheck.h"
#include "launcher/report.h"
#include "launcher/runfolder.h"

enum { OPT_SET = 256, OPT_DRY, OPT_RESUME, OPT_BREAK };

static const struct option options[] = {
    {"set", required_argument, NULL, OPT_SET}, {"dry-run", no_argument, NULL, OPT_DRY}, {"resume", required_argument, NULL, OPT_RESUME},
    {"break-lock", no_argument, NULL, OPT_BREAK}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "run",
    "usage: zeppelin run [--set KEY=VALUE]... JOB.yaml\n"
    "       zeppelin run [--set KEY=VALUE]... --resume RUN\n"
    "\n"
    "Trains: makes a run folder, starts the ranks (on this machine with mpirun; in a Slurm allocation\n"
    "with srun or mpirun), follows them and reports. An interrupt, SIGTERM, SIGUSR1 or SIGHUP stops after the\n"
    "step in hand, with a checkpoint (exit status 75); a second interrupt ends the ranks at once.\n"
    "\n"
    "There is one rank a device. Without devices in the topology the cores count; cluster.devices takes fewer,\n"
    "a described cluster ('cluster.topology=synthetic: nodes:1 dev:3 kind:cpu') as many as it says.\n"
    "\n"
    "  --set KEY=VALUE  sets a key of the job, as in --set train.steps=100; may be repeated\n"
    "  --resume RUN     goes on with a run from its last checkpoint, on the same or other ranks; RUN is a\n"
    "                   run folder, or the id of a run or Slurm job of yours\n"
    "  --break-lock     takes the run folder over from a run that is gone for sure\n"
    "  --dry-run        prints the job as resolved and the command that would start the ranks\n"
    "  -h, --help\n",
    options,
};

struct args {
    const char **set;
    int n_set, dry, break_lock;
    const char *resume, *job;
};

static int parse(int argc, char **argv, struct args *a)
{
    const struct zep_option table[] = {
        {ZEP_OPTION_LIST, OPT_SET, &a->set, &a->n_set}, {ZEP_OPTION_FLAG, OPT_DRY, &a->dry, NULL}, {ZEP_OPTION_TEXT, OPT_RESUME, &a->resume, NULL}, {ZEP_OPTION_FLAG, OPT_BREAK, &a->break_lock, NULL}, {0},
    };
    int status = zep_options(&cli, argc, argv, table);

    if (status >= 0)
        return status;
    if (a->resume ? argc != optind : argc - optind != 1)
        return zep_cli_usage(&cli, a->resume ? "--resume takes no job file" : argc == optind ? "no job file" : "more than one job file");
    a->job = argv[optind];
    return -1;
}

/* What the folder of a run that is resumed said before: until the ranks have accepted the job, nothing of it is given up. */
struct before {
    char *job, *topology; /* NULL: there was none */
    size_t job_len, topology_len;
};

/* A run under way in this process. */
struct session {
    const struct args *args;
    struct zep_job *job;
    struct zep_topo *topo;
    enum zep_where where;
    char *rundir;
    int fresh, attempt; /* fresh: the folder is ours to remove until ranks were started */
    struct zep_lock *lock;
    struct zep_launch launch;
    struct before before;
    struct zep_secrets secrets;
    struct zep_follow_end end;
    int log; /* the run's, 0 none */
};

static void apply_log_level(const struct zep_job *job)
{
    const char *l = job->log.level;

    zep_log_init("zeppelin", !strcmp(l, "error") ? ZEP_LOG_ERROR : !strcmp(l, "warn") ? ZEP_LOG_WARN : !strcmp(l, "debug") ? ZEP_LOG_DEBUG : ZEP_LOG_INFO);
}

/* In a batch job the folder was made by zeppelin submit on another node, perhaps a moment ago. */
static int wait_for_folder(const char *rundir, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "job.yaml");
    int rc = path ? ZEP_OK : zep_error_nomem(err, "run folder");

    if (rc == ZEP_OK && zep_inputs_slurm_job() && !zep_fs_exists(path)) {
        zep_log(ZEP_LOG_INFO, "%s is not there (yet): waiting up to %.0f s, for network file systems may show it late", path, ZEP_APPEAR_S);
        rc = zep_appear(path, ZEP_APPEAR_S, err);
        if (rc < 0)
            zep_error_prefix(err, "expected a run folder that this node shares with the one that submits");
    }
    free(path);
    return rc;
}

/* Everything that can be wrong with the input is found before a folder is made. */
static int prepare(struct session *s, struct zep_error *err)
{
    const struct args *a = s->args;
    int rc;

    if (a->resume) {
        if ((rc = zep_runfolder_find(a->resume, &s->rundir, err)) < 0)
            return rc;
        if (zep_k8s_record_exists(s->rundir))
            return zep_error_set(err, ZEP_EREFUSED, "%s is a run on Kubernetes, and its checkpoints lie there: `zeppelin k8s --resume %s --apply` goes on", s->rundir, s->rundir);
        if ((rc = wait_for_folder(s->rundir, err)) < 0 || (rc = zep_runfolder_load_job(s->rundir, a->set, a->n_set, &s->job, err)) < 0)
            return rc;
    } else if ((rc = zep_job_load(a->job, a->set, a->n_set, &s->job, err)) < 0) {
        return rc;
    }
    apply_log_level(s->job);
    if ((rc = zep_launch_where(s->job, &s->where, err)) < 0 || (rc = zep_job_absolute(s->job, err)) < 0)
        return rc;
    if ((rc = zep_environment_apply(s->job, s->where == ZEP_WHERE_SLURM, err)) < 0 || (rc = zep_container_check(s->job, err)) < 0 || (rc = zep_precheck_run(s->job, &s->topo, err)) < 0)
        return rc;
    return a->dry ? ZEP_OK : zep_secrets_read(s->job, &s->secrets, err);
}

static int dry_run(struct session *s, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *line = NULL;
    int rc;

    if ((rc = zep_launch_make(s->job, s->where, s->rundir ? s->rundir : "RUN_DIR", 1, NULL, &s->launch, err)) < 0 || (rc = zep_job_to_yaml(s->job, 1, &b, err)) < 0)
        return rc;
    line = zep_process_show(s->launch.argv.v);
    zep_buf_printf(&b, "\n# would start:\n# %s\n", line ? line : "");
    free(line);
    rc = zep_cli_write(NULL, &b, err);
    zep_buf_free(&b);
    return rc;
}

static int write_topology(const struct session *s, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *path = zep_fs_join(s->rundir, "topology.yaml");
    int rc = path ? zep_topo_to_yaml(s->topo, &b, err) : zep_error_nomem(err, "topology");

    if (rc == ZEP_OK)
        rc = zep_fs_write_atomic(path, b.data, b.len, 0666, err);
    zep_buf_free(&b);
    free(path);
    return rc;
}

static void read_old(const struct session *s, const char *name, char **text, size_t *len)
{
    char *path = zep_fs_join(s->rundir, name);

    if (path && zep_fs_exists(path))
        zep_fs_read(path, 0, text, len, NULL);
    free(path);
}

static void keep_old(struct session *s)
{
    read_old(s, "job.yaml", &s->before.job, &s->before.job_len);
    read_old(s, "topology.yaml", &s->before.topology, &s->before.topology_len);
}

static void put_back(const struct session *s, const char *name, const char *text, size_t len)
{
    char *path = text ? zep_fs_join(s->rundir, name) : NULL;
    struct zep_error err;

    if (path && zep_fs_write_atomic(path, text, len, 0666, &err) < 0)
        zep_log(ZEP_LOG_WARN, "%s is that of an attempt which failed: %s", name, err.text);
    free(path);
}

/* A mistaken --set that the ranks refuse must not stay for the attempts to come. The lock must still be ours. */
static void restore_old(struct session *s)
{
    if (s->lock && !s->end.started && zep_lock_confirm(s->lock, NULL) == ZEP_OK) {
        put_back(s, "job.yaml", s->before.job, s->before.job_len);
        put_back(s, "topology.yaml", s->before.topology, s->before.topology_len);
    }
    free(s->before.job);
    free(s->before.topology);
}

/* What this command says is in the run's log, too: zeppelin logs shows it. */
static void copy_log(struct session *s)
{
    char *path = zep_fs_join(s->rundir, "log");

    s->log = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    zep_log_copy(s->log);
    free(path);
}

static int claim(struct session *s, struct zep_error *err)
{
    const char *jobid = s->where == ZEP_WHERE_SLURM ? zep_inputs_slurm_job() : "";
    char mpijob[160] = "";
    char *old;
    int rc;

    zep_follow_catch(); /* whoever stops a run that has a folder and a lock means the training */
    if (!s->rundir) {
        if ((rc = zep_runfolder_new(s->job, &s->rundir, err)) < 0)
            return rc;
        s->fresh = 1;
    }
    if ((rc = zep_lock_take(s->rundir, s->args->break_lock, &s->lock, err)) < 0)
        return rc;
    copy_log(s);
    keep_old(s);
    if (s->where == ZEP_WHERE_K8S)
        zep_launch_mpijob(mpijob, sizeof mpijob);
    if ((rc = zep_runfolder_add_attempt(s->rundir, zep_where_name(s->where), s->where == ZEP_WHERE_K8S ? mpijob : jobid, &s->attempt, err)) < 0 || (rc = zep_runfolder_write_job(s->rundir, s->job, err)) < 0 ||
        (rc = write_topology(s, err)) < 0)
        return rc;
    zep_launch_env(s->where);
    if ((rc = zep_launch_make(s->job, s->where, s->rundir, s->attempt, s->lock, &s->launch, err)) < 0)
        return rc;
    if ((old = zep_fs_join(s->rundir, "outcome.json"))) /* of the attempt before */
        unlink(old);
    free(old);
    return ZEP_OK;
}

static int report(const struct session *s)
{
    struct zep_report *r = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc;

    if ((rc = zep_report_load(s->rundir, &r, &err)) == ZEP_OK && (rc = zep_report_write(r, &err)) == ZEP_OK && (rc = zep_report_text(r, &b, &err)) == ZEP_OK)
        rc = zep_cli_write(NULL, &b, &err);
    if (rc < 0)
        zep_log(ZEP_LOG_WARN, "report: %s", err.text);
    zep_buf_free(&b);
    zep_report_free(r);
    return rc;
}

static int train(struct session *s, struct zep_error *err)
{
    struct zep_follow_args fa = {s->rundir, s->attempt, s->launch.argv.v, s->launch.step, s->job, &s->secrets};
    int rc;

    zep_log(ZEP_LOG_INFO, "run folder %s", s->rundir);
    if ((rc = zep_follow(&fa, &s->end, err)) < 0)
        return rc;
    s->fresh = 0;
    if (s->end.outcome.status == ZEP_OK || s->end.outcome.status == ZEP_ESTOPPED)
        report(s);
    return ZEP_OK;
}

/* What a person needs to know at the end; details were told when they happened. */
static int conclude(const struct session *s)
{
    const struct zep_outcome *o = &s->end.outcome;
    char newest[64];

    if (o->status == ZEP_OK)
        return 0;
    if (o->status == ZEP_ESTOPPED) {
        zep_log(ZEP_LOG_INFO, "%s; go on with: zeppelin run --resume %s", o->cause, s->rundir);
        return zep_exit_status(o->status); /* with a checkpoint, however often it was asked for */
    }
    zep_runfolder_checkpoint(s->rundir, newest, sizeof newest);
    if (*o->checkpoint)
        zep_log(ZEP_LOG_INFO, "the last checkpoint is %s; go on with: zeppelin run --resume %s", o->checkpoint, s->rundir);
    else if (*newest)
        zep_log(ZEP_LOG_INFO, "no checkpoint was loaded, the newest is %s; the log is %s/log", newest, s->rundir);
    else
        zep_log(ZEP_LOG_INFO, "there is no checkpoint; the log is %s/log", s->rundir);
    return s->end.signal ? 128 + s->end.signal : zep_exit_status(o->status);
}

int cmd_run(int argc, char **argv)
{
    struct args a = {.set = zep_calloc((size_t)argc + 1, sizeof *a.set)};
    struct session s = {.args = &a};
    struct zep_error err;
    int rc, status;

    if (!a.set)
        return 1;
    if ((status = parse(argc, argv, &a)) >= 0) {
        free(a.set);
        return status;
    }
    rc = prepare(&s, &err);
    if (rc == ZEP_OK && a.dry)
        rc = dry_run(&s, &err);
    else if (rc == ZEP_OK && (rc = claim(&s, &err)) == ZEP_OK)
        rc = train(&s, &err);
    restore_old(&s);
    zep_lock_release(s.lock);
    if (rc < 0 && s.fresh)
        zep_fs_remove_tree(s.rundir, NULL);
    status = rc < 0 ? zep_cli_fail(&err) : a.dry ? 0 : conclude(&s);
    zep_log_copy(-1);
    if (s.log > 0)
        close(s.log);
    zep_secrets_free(&s.secrets);
    zep_launch_free(&s.launch);
    zep_topo_free(s.topo);
    zep_job_free(s.job);
    free(s.rundir);
    free(a.set);
    return status;
}
