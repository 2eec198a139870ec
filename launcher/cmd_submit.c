#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/rundir.h"
#include "common/units.h"
#include "launcher/backend.h"
#include "launcher/cli.h"
#include "launcher/glance.h"
#include "launcher/precheck.h"
#include "launcher/report.h"
#include "launcher/runfolder.h"
#include "launcher/sbatch.h"
#include "launcher/slurm_jobs.h"
#include "launcher/submit.h"
#include "launcher/variants.h"

#define MAX_CHAIN 100

enum { OPT_SET = 256, OPT_DRY, OPT_WAIT, OPT_SLURM, OPT_SWITCHES, OPT_SWEEP, OPT_AT_ONCE, OPT_CHAIN, OPT_RESUME };

static const struct option options[] = {
    {"set", required_argument, NULL, OPT_SET},           {"slurm", required_argument, NULL, OPT_SLURM}, {"switches", required_argument, NULL, OPT_SWITCHES},
    {"clusters", required_argument, NULL, 'M'},          {"sweep", required_argument, NULL, OPT_SWEEP}, {"at-once", required_argument, NULL, OPT_AT_ONCE},
    {"chain", required_argument, NULL, OPT_CHAIN},       {"resume", required_argument, NULL, OPT_RESUME}, {"dry-run", no_argument, NULL, OPT_DRY},
    {"wait", no_argument, NULL, OPT_WAIT},               {"help", no_argument, NULL, 'h'},              {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "submit",
    "usage: zeppelin submit [OPTION]... JOB.yaml\n"
    "       zeppelin submit [OPTION]... --resume RUN\n"
    "\n"
    "Makes a run folder, writes the batch script into it, hands it to sbatch and prints the job id. When\n"
    "the time limit comes near, the job stops with a checkpoint and goes back into the queue by itself; where a\n"
    "rank or node was lost, too, without the node. What Slurm could never start is refused, with its reason.\n"
    "\n"
    "  --set KEY=VALUE     sets a key of the job, as in --set train.steps=100; may be repeated\n"
    "  --slurm OPTIONS     further options of sbatch, as in --slurm account=x,qos=long,exclusive; may be repeated\n"
    "  --switches N        asks for nodes on N leaf switches at most (cluster.switches)\n"
    "  -M, --clusters NAME submits to another cluster\n"
    "  --sweep KEY=V,V...  a run for each value, as an array of jobs; several --sweep: every combination\n"
    "  --at-once N         of a sweep so many run at the same time\n"
    "  --chain N           N jobs, each beginning when the one before it ends, for runs longer than the time limit;\n"
    "                      when the run is done, the rest is taken out of the queue\n"
    "  --resume RUN        a further job for a run that was stopped or lost\n"
    "  --wait              follows the job to its end, prints the report, and exits as the run did\n"
    "  --dry-run           prints the batch script, and makes nothing\n"
    "  -h, --help\n",
    options,
};

struct args {
    const char **set, **sweep, *job, *resume, *cluster;
    char **made; /* of set, ours to free */
    int n_set, n_made, n_sweep, dry, wait;
    int64_t at_once, chain;
};

/* --- options --- */

static int add_made(struct args *a, const char *key, const char *value, int len)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *text;

    zep_buf_printf(&b, "%s=%.*s", key, len, value);
    if (zep_buf_steal(&b, &text, NULL) < 0)
        return 1;
    a->made[a->n_made++] = text;
    a->set[a->n_set++] = text;
    return -1;
}

/* "account=x,exclusive,nodelist=a,b": a comma divides options where a name and '=' follow it, or where no '=' came before. */
static const char *end_of_option(const char *p)
{
    const char *eq = strpbrk(p, "=,");

    if (!eq || *eq == ',')
        return eq ? eq : p + strlen(p);
    for (const char *c = strchr(eq, ','); c; c = strchr(c + 1, ',')) {
        size_t n = strspn(c + 1, "abcdefghijklmnopqrstuvwxyz-");

        if (n && c[1 + n] == '=')
            return c;
    }
    return p + strlen(p);
}

static int take_slurm(struct args *a, const char *text)
{
    static const char *const keys[] = {"partition", "account", "qos", "constraint", "time", "switches"};

    for (const char *p = text; *p;) {
        const char *end = end_of_option(p), *eq = memchr(p, '=', (size_t)(end - p));
        char name[64], key[100];
        struct zep_error err;

        snprintf(name, sizeof name, "%.*s", (int)((eq ? eq : end) - p), p);
        snprintf(key, sizeof key, "cluster.slurm.%s", name);
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (!strcmp(name, keys[i]))
                snprintf(key, sizeof key, "cluster.%s", name);
        if (!strncmp(key, "cluster.slurm.", 14) && zep_sbatch_check_option(name, NULL, &err) < 0)
            return zep_cli_usage(&cli, "--slurm: %s", err.text);
        if (add_made(a, key, eq ? eq + 1 : "", eq ? (int)(end - eq - 1) : 0) > 0)
            return 1;
        p = *end ? end + 1 : end;
    }
    return -1;
}

static int take_number(const char *option, int64_t min, int64_t max, int64_t *out)
{
    struct zep_error err;

    return zep_parse_int(optarg, min, max, out, &err) < 0 ? zep_cli_usage(&cli, "--%s %s", option, err.text) : -1;
}

static int take_option(struct args *a, int c)
{
    switch (c) {
    case OPT_SET:
        a->set[a->n_set++] = optarg;
        return -1;
    case OPT_SLURM:
        return take_slurm(a, optarg);
    case OPT_SWITCHES:
        return add_made(a, "cluster.switches", optarg, (int)strlen(optarg));
    case 'M':
        a->cluster = optarg;
        return -1;
    case OPT_SWEEP:
        a->sweep[a->n_sweep++] = optarg;
        return -1;
    case OPT_AT_ONCE:
        return take_number("at-once", 1, 100000, &a->at_once);
    case OPT_CHAIN:
        return take_number("chain", 1, MAX_CHAIN, &a->chain);
    case OPT_RESUME:
        a->resume = optarg;
        return -1;
    case OPT_DRY:
        a->dry = 1;
        return -1;
    case OPT_WAIT:
        a->wait = 1;
        return -1;
    default:
        return c == 'h' ? 0 : 2;
    }
}

static int parse(int argc, char **argv, struct args *a)
{
    int c, rc;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1)
        if ((rc = take_option(a, c)) >= 0)
            return rc;
    if (a->resume ? argc != optind : argc - optind != 1)
        return zep_cli_usage(&cli, a->resume ? "--resume takes no job file" : argc == optind ? "no job file" : "more than one job file");
    if (a->n_sweep && (a->resume || a->wait || a->chain > 1))
        return zep_cli_usage(&cli, "--sweep goes with neither --resume, --chain nor --wait: `zeppelin wait JOB` waits for one of its runs");
    if (a->at_once && !a->n_sweep)
        return zep_cli_usage(&cli, "--at-once needs --sweep");
    if (a->cluster && (!*a->cluster || strpbrk(a->cluster, ", /") || *a->cluster == '-'))
        return zep_cli_usage(&cli, "-M '%s': expected the name of one cluster", a->cluster);
    a->job = argv[optind];
    return -1;
}

/* --- the runs --- */

struct submission {
    const struct args *args;
    int n;                   /* runs */
    struct zep_job **job;    /* [n] */
    char **rundir;           /* [n], NULL: not made */
    int ours;                /* the folders are to be removed on failure */
    char *dir, *script, *zeppelin, *old_job; /* old_job: job.yaml before, of a run that is resumed */
    struct zep_sbatch sbatch;
};

/* A batch job asks for numbers; what nodes it gets is seen when it runs. */
static int resolve(struct zep_job *job, int say, struct zep_error *err)
{
    int rc, one = !job->cluster.nodes;

    if ((rc = zep_job_absolute(job, err)) < 0 || (rc = zep_precheck_submit(job, err)) < 0)
        return rc;
    if (one && say)
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

static int load_jobs(struct submission *s, struct zep_error *err)
{
    const struct args *a = s->args;
    struct zep_variants v = {0};
    const char **set;
    int rc;

    if ((rc = zep_variants(a->sweep, a->n_sweep, &v, err)) < 0)
        return rc;
    s->job = zep_calloc((size_t)v.n, sizeof *s->job);
    s->rundir = zep_calloc((size_t)v.n, sizeof *s->rundir);
    set = zep_calloc((size_t)(a->n_set + v.n_key) + 1, sizeof *set);
    rc = s->job && s->rundir && set ? ZEP_OK : zep_error_nomem(err, "jobs");
    for (int i = 0; i < v.n && rc == ZEP_OK; i++) {
        memcpy(set, a->set, (size_t)a->n_set * sizeof *set);
        for (int k = 0; k < v.n_key; k++)
            set[a->n_set + k] = v.set[i * v.n_key + k];
        rc = zep_job_load(a->job, set, a->n_set + v.n_key, &s->job[i], err);
        s->n += rc == ZEP_OK;
        if (rc == ZEP_OK)
            rc = resolve(s->job[i], i == 0, err);
    }
    free(set);
    zep_variants_free(&v);
    return rc;
}

/* At least twice the step and its checkpoint as they were measured, as far as the time limit has room. A run's own job file says all keys, so only --set is somebody's word here. */
static void raise_grace(const char *rundir, struct zep_job *job)
{
    double room = job->cluster.time_s > 0 ? floor(job->cluster.time_s) - ZEP_JOB_EARLY_S - 1 : ZEP_JOB_GRACE_MAX_S, need;
    struct zep_glance g;

    if (zep_job_origin_layer(job, "cluster.grace") == ZEP_JOB_SET || zep_glance(rundir, &g, NULL) < 0 || !(g.step_s > 0))
        return;
    need = ceil(2 * (g.step_s + g.save_s) + 15);
    room = room < ZEP_JOB_GRACE_MAX_S ? room : ZEP_JOB_GRACE_MAX_S;
    if (need > room && room > 0)
        zep_log(ZEP_LOG_WARN, "its steps and checkpoints ask for a grace of %.0f s, but cluster.time has room for %.0f s", need, room);
    need = need < room ? need : room;
    if (need <= job->cluster.grace_s)
        return;
    zep_log(ZEP_LOG_INFO, "its steps and checkpoints ask for a grace of %.0f s (cluster.grace was %.0f s): so long before the time limit it stops", need, job->cluster.grace_s);
    job->cluster.grace_s = need;
}

/* A run that lives must not be begun twice; that it could not be said is for its lock to decide. */
static int load_old(struct submission *s, struct zep_error *err)
{
    const struct args *a = s->args;
    struct zep_run *run = NULL;
    struct zep_live live = {0};
    int rc;

    s->job = zep_calloc(1, sizeof *s->job);
    s->rundir = zep_calloc(1, sizeof *s->rundir);
    if (!s->job || !s->rundir)
        return zep_error_nomem(err, "jobs");
    if ((rc = zep_run_open(a->resume, &run, err)) < 0)
        return rc;
    if (!run->dir)
        rc = zep_error_set(err, ZEP_ENOENT, "%s: no run folder of it can be seen here", a->resume);
    else if (run->backend == &zep_backend_k8s)
        rc = zep_error_set(err, ZEP_EREFUSED, "%s is a run on Kubernetes, and its checkpoints lie there: `zeppelin k8s --resume %s --apply` goes on", run->dir, run->info.id);
    else if ((rc = run->backend->status((const struct zep_run *const *)&run, 1, 1, &live, err)) == ZEP_OK && live.life >= ZEP_LIFE_WAITING && live.life <= ZEP_LIFE_ENDING)
        rc = zep_error_set(err, ZEP_EREFUSED, "%s has not ended (%s): `zeppelin cancel` stops it", run->dir, *live.word ? live.word : "it runs");
    if (rc == ZEP_OK && !(s->rundir[0] = strdup(run->dir)))
        rc = zep_error_nomem(err, "run folder");
    zep_run_free(run);
    if (rc < 0 || (rc = zep_runfolder_load_job(s->rundir[0], a->set, a->n_set, &s->job[0], err)) < 0)
        return rc;
    s->n = 1;
    if ((rc = resolve(s->job[0], 1, err)) < 0)
        return rc;
    raise_grace(s->rundir[0], s->job[0]);
    return ZEP_OK;
}

static int make_folders(struct submission *s, struct zep_error *err)
{
    char *path;
    size_t len;
    int rc = ZEP_OK;

    if (s->args->resume) {
        path = zep_fs_join(s->rundir[0], "job.yaml");
        rc = path ? zep_fs_read(path, 0, &s->old_job, &len, err) : zep_error_nomem(err, "job.yaml");
        free(path);
        if ((path = zep_fs_join(s->rundir[0], "requeued"))) /* somebody looked at it: the new job may be requeued once, as the first might */
            unlink(path);
        free(path);
        return rc < 0 ? rc : zep_runfolder_write_job(s->rundir[0], s->job[0], err);
    }
    s->ours = 1;
    for (int i = 0; i < s->n && rc == ZEP_OK; i++)
        rc = zep_runfolder_new(s->job[i], &s->rundir[i], err);
    return rc;
}

/* What a refused job would have changed does not stay. */
static void take_back(struct submission *s)
{
    char *path = s->old_job ? zep_fs_join(s->rundir[0], "job.yaml") : NULL;

    if (path)
        zep_fs_write_atomic(path, s->old_job, strlen(s->old_job), 0666, NULL);
    free(path);
    if (!s->ours)
        return;
    for (int i = 0; i < s->n; i++)
        if (s->rundir[i])
            zep_fs_remove_tree(s->rundir[i], NULL);
    if (s->args->n_sweep && s->dir)
        zep_fs_remove_tree(s->dir, NULL);
}

/* A sweep's script and what comes before a run's own log lie in a folder beside those of its runs. */
static int name_dir(struct submission *s, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;

    zep_buf_puts(&b, s->rundir[0]);
    if (s->args->n_sweep)
        zep_buf_puts(&b, "-sweep");
    return zep_buf_steal(&b, &s->dir, err);
}

static int make_script(struct submission *s, struct zep_buf *b, struct zep_error *err)
{
    s->sbatch.job = s->job[0];
    s->sbatch.zeppelin = s->zeppelin;
    s->sbatch.dir = s->dir;
    s->sbatch.rundir = (const char *const *)s->rundir;
    s->sbatch.n_run = s->n;
    s->sbatch.sweep = s->args->n_sweep > 0;
    s->sbatch.at_once = (int)s->args->at_once;
    s->sbatch.chain = (int)s->args->chain;
    return zep_sbatch_script(&s->sbatch, b, err);
}

/* The same script, with names in place of ids. */
static int dry_run(struct submission *s, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    for (int i = 0; i < s->n && rc == ZEP_OK && !s->rundir[i]; i++) {
        struct zep_buf name = ZEP_BUF_INIT;

        if (s->args->n_sweep)
            zep_buf_printf(&name, "%s/%s-ID%d", s->job[0]->run_root, s->job[0]->name, i);
        else
            zep_buf_printf(&name, "%s/%s-ID", s->job[0]->run_root, s->job[0]->name);
        rc = zep_buf_steal(&name, &s->rundir[i], err);
    }
    if (rc == ZEP_OK && (rc = name_dir(s, err)) == ZEP_OK && (rc = make_script(s, &b, err)) == ZEP_OK)
        rc = zep_cli_write(NULL, &b, err);
    zep_buf_free(&b);
    return rc;
}

static int write_script(struct submission *s, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    if ((rc = name_dir(s, err)) < 0 || (rc = zep_fs_mkdir_p(s->dir, err)) < 0)
        return rc;
    if (!(s->script = zep_fs_join(s->dir, "batch.sh")))
        return zep_error_nomem(err, "script");
    if ((rc = make_script(s, &b, err)) == ZEP_OK)
        rc = zep_fs_write_atomic(s->script, b.data, b.len, 0777, err);
    zep_buf_free(&b);
    return rc;
}

/* --- the jobs --- */

static int remember(const struct submission *s, const char *id, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int i = 0; i < s->n && rc == ZEP_OK; i++) {
        const char *semicolon = strchr(id, ';');
        char one[220];

        if (s->args->n_sweep)
            snprintf(one, sizeof one, "%.*s_%d%s", (int)strcspn(id, ";"), id, i, semicolon ? semicolon : "");
        else
            snprintf(one, sizeof one, "%s", id);
        printf("%.*s\n", (int)strcspn(one, ";"), one);
        if ((rc = zep_runfolder_add_jobid(s->rundir[i], one, err)) == ZEP_OK)
            zep_log(ZEP_LOG_INFO, "job %.*s, run folder %s", (int)strcspn(one, ";"), one, s->rundir[i]);
    }
    fflush(stdout);
    return rc;
}

/* All jobs of a chain or none: what was taken before one that is not is taken out again. */
static int call_sbatch(struct submission *s, const char *cluster, struct zep_error *err)
{
    int n = s->args->chain > 1 ? (int)s->args->chain : 1, done = 0, rc = ZEP_OK;
    char (*id)[160] = zep_calloc((size_t)n, sizeof *id);

    if (!id)
        return zep_error_nomem(err, "jobs");
    if ((rc = zep_submit_test(s->job[0], s->script, cluster, err)) < 0)
        goto out;
    for (; done < n && rc == ZEP_OK; done += rc == ZEP_OK)
        rc = zep_submit_call(s->job[0], s->script, cluster, done ? id[done - 1] : NULL, id[done], err);
    if (rc == ZEP_ETIMEDOUT) {
        s->ours = 0; /* the job may have been taken, and will look for its folder */
        zep_log(ZEP_LOG_WARN, "the job may be in the queue all the same (squeue --me): the run folder %s stays", s->rundir[0]);
    }
    for (int i = done - 1; i >= 0 && rc < 0; i--)
        zep_submit_undo(id[i], cluster);
    if (rc == ZEP_OK) {
        s->ours = 0;
        free(s->old_job);
        s->old_job = NULL;
        zep_slurm_jobs_forget(cluster);
    }
    for (int i = 0; i < n && rc == ZEP_OK; i++)
        rc = remember(s, id[i], err);
out:
    free(id);
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

/* Where no cluster is named, those are meant that Slurm's own commands would take: one of them. */
static const char *which_cluster(const struct args *a)
{
    const char *c = a->cluster ? a->cluster : getenv("SBATCH_CLUSTERS");

    if (!c || !*c)
        c = getenv("SLURM_CLUSTERS");
    return c && *c && !strchr(c, ',') ? c : "";
}

static int submit(const struct args *a, int *status_out, struct zep_error *err)
{
    struct submission s = {.args = a};
    int rc;

    if ((rc = a->resume ? load_old(&s, err) : load_jobs(&s, err)) < 0 || (rc = self_path(&s.zeppelin, err)) < 0)
        goto out;
    if (a->dry) {
        rc = dry_run(&s, err);
        goto out;
    }
    if ((rc = make_folders(&s, err)) < 0 || (rc = write_script(&s, err)) < 0 || (rc = call_sbatch(&s, which_cluster(a), err)) < 0)
        goto out;
    if (a->wait)
        rc = wait_for(s.rundir[0], status_out, err);
out:
    if (rc < 0)
        take_back(&s);
    for (int i = 0; i < s.n; i++)
        zep_job_free(s.job[i]);
    for (int i = 0; s.rundir && i < (s.n ? s.n : 1); i++)
        free(s.rundir[i]);
    free(s.job);
    free(s.rundir);
    free(s.old_job);
    free(s.dir);
    free(s.script);
    free(s.zeppelin);
    return rc;
}

int cmd_submit(int argc, char **argv)
{
    size_t room = 2 * (size_t)argc + 1; /* --slurm may hold several: as many as it has letters at most */
    struct args a = {0};
    struct zep_error err;
    int status;

    for (int i = 0; i < argc; i++)
        room += strlen(argv[i]);
    a.set = zep_calloc(room, sizeof *a.set);
    a.made = zep_calloc(room, sizeof *a.made);
    a.sweep = zep_calloc((size_t)argc + 1, sizeof *a.sweep);
    status = a.set && a.made && a.sweep ? parse(argc, argv, &a) : 1;
    if (status < 0) {
        status = 0;
        if (submit(&a, &status, &err) < 0)
            status = zep_cli_fail(&err);
    }
    for (int i = 0; i < a.n_made; i++)
        free(a.made[i]);
    free(a.set);
    free(a.made);
    free(a.sweep);
    return status;
}
