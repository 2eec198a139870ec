#include "config.h"
#include "launcher/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/appear.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "common/squeue.h"
#include "launcher/container.h"
#include "launcher/environment.h"
#include "launcher/inputs.h"

#define TRIAL_S 60.0
#define END_S 30.0

/* Each of several tasks would start all ranks. */
static int check_alone(struct zep_error *err)
{
    static const struct {
        const char *count, *index, *by;
    } ways[] = {{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"}, {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun"}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *n = getenv(ways[i].count), *index = getenv(ways[i].index);

        if (n && atoi(n) > 1 && (i == 1 || getenv("SLURM_STEP_ID")))
            return zep_error_set(err, ZEP_EREFUSED, "zeppelin run was started as task %s of %s by %s, and each would start all ranks: start it once (below salloc, in a batch script, or with %s -n 1)", index ? index : "?", n,
                                 ways[i].by, ways[i].by);
    }
    return ZEP_OK;
}

/* What `zeppelin k8s launch` prepared. */
static const char *hostfile(void)
{
    const char *file = getenv("ZEPPELIN_HOSTFILE");

    return file && *file ? file : NULL;
}

const char *zep_where_name(enum zep_where where)
{
    return where == ZEP_WHERE_SLURM ? "slurm" : where == ZEP_WHERE_K8S ? "k8s" : "local";
}

void zep_launch_mpijob(char *out, size_t size)
{
    char line[600] = "", job[64], ns[64];
    FILE *f = hostfile() ? fopen(hostfile(), "re") : NULL;

    *out = '\0';
    if (f && fgets(line, sizeof line, f) && sscanf(line, "%*[^.].%63[^.].%63[^. ]", job, ns) == 2) /* "zep-worker-0.zep.train.svc slots=2" */
        snprintf(out, size, "%s/%s", ns, job);
    if (f)
        fclose(f);
}

int zep_launch_where(const struct zep_job *job, enum zep_where *out, struct zep_error *err)
{
    int inside = zep_inputs_slurm_job() != NULL, rc;

    if ((rc = check_alone(err)) < 0)
        return rc;
    if (!strcmp(job->cluster.where, "slurm") && !inside)
        return zep_error_set(err, ZEP_EUNAVAIL, "cluster.where is slurm, but this is no Slurm allocation: `zeppelin submit` hands the job to Slurm; or start it below salloc");
    if (!strcmp(job->cluster.where, "k8s")) {
        if (!hostfile())
            return zep_error_set(err, ZEP_EUNAVAIL, "cluster.where is k8s, but this is not below `zeppelin k8s launch` in a pod: `zeppelin k8s` launches the job on Kubernetes, and --set cluster.where=local runs it on this machine");
        *out = ZEP_WHERE_K8S;
        return ZEP_OK;
    }
    *out = inside && strcmp(job->cluster.where, "local") ? ZEP_WHERE_SLURM : ZEP_WHERE_LOCAL;
    return ZEP_OK;
}

int zep_launch_in_path(const char *program)
{
    const char *path = getenv("PATH");
    char *copy = path ? strdup(path) : NULL, *save = NULL;
    int found = 0;

    for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir && !found; dir = strtok_r(NULL, ":", &save)) {
        char *file = zep_fs_join(dir, program);

        found = file && access(file, X_OK) == 0;
        free(file);
    }
    free(copy);
    return found;
}

static void srun_args(struct zep_argv *a, const struct zep_job *job, const char *step, int nodes, int per_node)
{
    zep_argv_add(a, "srun");
    zep_argv_add(a, "--job-name=%s", step); /* by which the step is found where srun could not end it */
    zep_argv_add(a, "--mpi=pmix");
    zep_argv_add(a, "--nodes=%d", nodes);
    zep_argv_add(a, "--ntasks=%d", nodes * per_node);
    zep_argv_add(a, "--ntasks-per-node=%d", per_node);
    zep_argv_add(a, "--cpus-per-task=%" PRId64, job->cluster.cpus_per_rank);
    if (job->cluster.gpus_per_node) {
        zep_argv_add(a, "--gpus-per-node=%" PRId64, job->cluster.gpus_per_node);
        zep_argv_add(a, "--gpu-bind=none"); /* ranks of a node reach each other's GPUs */
    }
    if (getenv("SLURM_STEP_ID")) /* inside a step, which holds what this one needs */
        zep_argv_add(a, "--overlap");
    zep_argv_add(a, "--distribution=block");
    zep_argv_add(a, "--kill-on-bad-exit=1");
    zep_argv_add(a, "--export=ALL");
    zep_container_srun(a, job);
    zep_argv_split(a, job->cluster.mpi_args);
}

/* By ssh only Open MPI's own variables come to the ranks. */
static void forward_ours(struct zep_argv *a)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ZEPPELIN_CPU"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i])) {
            zep_argv_add(a, "-x");
            zep_argv_add(a, "%s", names[i]);
        }
}

static void mpirun_args(struct zep_argv *a, const struct zep_job *job, const struct zep_launch *l)
{
    zep_argv_add(a, "mpirun");
    zep_argv_add(a, "-np");
    zep_argv_add(a, "%d", l->nodes * l->per_node);
    if (l->where == ZEP_WHERE_SLURM) {
        const char *users = getenv("OMPI_MCA_plm_slurm_args");

        zep_argv_add(a, "--map-by");
        zep_argv_add(a, "ppr:%d:node", l->per_node);
        zep_argv_add(a, "--mca");
        zep_argv_add(a, "plm_slurm_args");
        zep_argv_add(a, "%s%s--job-name=%s%s", users ? users : "", users ? " " : "", l->step, getenv("SLURM_STEP_ID") ? " --overlap" : "");
    }
    if (l->where == ZEP_WHERE_K8S) {
        zep_argv_add(a, "--hostfile");
        zep_argv_add(a, "%s", hostfile());
        zep_argv_add(a, "--map-by");
        zep_argv_add(a, "ppr:%d:node", l->per_node);
        forward_ours(a);
    } else {
        zep_argv_add(a, "--oversubscribe");
    }
    zep_argv_add(a, "--bind-to");
    zep_argv_add(a, "none");
    zep_environment_forward(job, a);
    zep_argv_split(a, job->cluster.mpi_args);
}

/* Whether two ranks that srun starts find each other. A step that hangs must not stay beside the ranks that mpirun starts then. */
static int srun_works(const struct zep_job *job, int nodes, const char *rank, char why[200])
{
    struct zep_process_result r;
    struct zep_argv a = {0};
    struct zep_error err;
    char step[64];
    int ok = 0;

    snprintf(step, sizeof step, "zeppelin-trial-%ld", (long)getpid());
    srun_args(&a, job, step, nodes > 1 ? 2 : 1, nodes > 1 ? 1 : 2);
    zep_argv_add(&a, "--overcommit");
    zep_argv_add(&a, "--time=2"); /* minutes: the controller's own end of it */
    zep_container_wrap(&a, job);
    zep_argv_add(&a, "%s", rank);
    zep_argv_add(&a, "--hello");
    zep_argv_add(&a, "--ranks");
    zep_argv_add(&a, "2");
    snprintf(why, 200, "out of memory");
    if (a.n > 0) {
        if (zep_process_run(a.v, TRIAL_S, &r, &err) < 0) {
            snprintf(why, 200, "%.190s", err.text);
        } else {
            ok = !r.timed_out && r.status == 0 && strstr(r.out, "2 ranks");
            if (r.timed_out) {
                snprintf(why, 200, "no answer in %.0f s", TRIAL_S);
                if (zep_squeue_end_step(zep_inputs_slurm_job(), step, END_S, &err) < 0)
                    zep_log(ZEP_LOG_WARN, "srun's trial may still run: %s", err.text);
            } else {
                snprintf(why, 200, "%.*s", (int)strcspn(r.err, "\n") < 190 ? (int)strcspn(r.err, "\n") : 190, r.err);
            }
            zep_process_result_free(&r);
        }
    }
    zep_argv_free(&a);
    return ok;
}

static int choose_launcher(const struct zep_job *job, struct zep_launch *l, const char *rank, struct zep_error *err)
{
    int have_srun = l->where == ZEP_WHERE_SLURM && zep_launch_in_path("srun"), have_mpirun = zep_launch_in_path("mpirun");
    const char *want = job->cluster.launcher;
    int pyxis = !strcmp(job->cluster.container, "pyxis");
    char why[200];

    if (!strcmp(want, "srun") && !have_srun)
        return zep_error_set(err, ZEP_EUNAVAIL, "cluster.launcher is srun, but %s", l->where == ZEP_WHERE_SLURM ? "srun is not in PATH" : "this is no Slurm allocation");
    if (!strcmp(want, "mpirun") && !have_mpirun)
        return zep_error_set(err, ZEP_EUNAVAIL, "cluster.launcher is mpirun, but mpirun is not in PATH: expected Open MPI's (package openmpi-bin)");
    l->srun = have_srun && strcmp(want, "mpirun");
    if (pyxis && !l->srun)
        return zep_error_set(err, ZEP_EUNAVAIL, "cluster.container is pyxis, which starts ranks by srun: this is no Slurm allocation, or srun is not in PATH");
    if (l->srun && !strcmp(want, "auto") && l->nodes * l->per_node > 1 && !srun_works(job, l->nodes, rank, why)) {
        if (pyxis)
            return zep_error_set(err, ZEP_EUNAVAIL, "srun cannot start MPI ranks in the container (%s), and without pyxis there is none; cluster.launcher: srun skips this trial", why);
        zep_log(ZEP_LOG_INFO, "srun cannot start MPI ranks here (%s): mpirun is used", why);
        l->srun = 0;
    }
    if (!l->srun && !have_mpirun)
        return zep_error_set(err, ZEP_EUNAVAIL, "mpirun is not in PATH: expected Open MPI's (package openmpi-bin)");
    return ZEP_OK;
}

static int find_rank(const struct zep_job *job, char **out, struct zep_error *err)
{
    if (strcmp(job->cluster.container, "none") && *job->cluster.container_rank) {
        *out = strdup(job->cluster.container_rank);
        return *out ? ZEP_OK : zep_error_nomem(err, "launch");
    }
    if (zep_fs_helper("zeppelin-rank", out, err) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "the program zeppelin-rank is missing: zeppelin was built without MPI");
    return ZEP_OK;
}

/* zeppelin-rank and what it is told. */
static int rank_args(struct zep_launch *l, const struct zep_job *job, const char *rank, const char *rundir, int attempt, const struct zep_lock *lock, struct zep_error *err)
{
    struct zep_argv *a = &l->argv;
    uint64_t inputs = 0;
    int rc;

    if (lock && (rc = zep_appear_digest(rundir, &inputs, err)) < 0)
        return rc;
    zep_container_wrap(a, job);
    zep_argv_add(a, "%s", rank);
    zep_argv_add(a, "--attempt");
    zep_argv_add(a, "%d", attempt);
    zep_argv_add(a, "--ranks");
    zep_argv_add(a, "%d", l->nodes * l->per_node);
    zep_argv_add(a, "%s", rundir);
    if (lock) {
        zep_argv_add(a, "--lock");
        zep_argv_add(a, "%s", zep_lock_token(lock));
        zep_argv_add(a, "--inputs"); /* a network file system may show rank 0's node another state of the folder for a while */
        zep_argv_add(a, "%016" PRIx64, inputs);
    }
    return ZEP_OK;
}

int zep_launch_make(const struct zep_job *job, enum zep_where where, const char *rundir, int attempt, const struct zep_lock *lock, struct zep_launch *out, struct zep_error *err)
{
    struct zep_launch l = {.where = where, .nodes = (int)job->cluster.nodes, .per_node = (int)(job->cluster.devices * job->cluster.tp)};
    char *rank = NULL;
    int rc;

    if ((rc = find_rank(job, &rank, err)) < 0)
        return rc;
    if ((rc = zep_container_there(job, err)) < 0 || (rc = choose_launcher(job, &l, rank, err)) < 0)
        goto out;
    if (where == ZEP_WHERE_SLURM)
        snprintf(l.step, sizeof l.step, "zeppelin-%.8s", lock ? zep_lock_token(lock) : "ranks");
    if (l.srun)
        srun_args(&l.argv, job, l.step, l.nodes, l.per_node);
    else
        mpirun_args(&l.argv, job, &l);
    if ((rc = rank_args(&l, job, rank, rundir, attempt, lock, err)) < 0) {
        zep_argv_free(&l.argv);
        goto out;
    }
    if (l.argv.n < 0) {
        rc = zep_error_nomem(err, "launch");
        zep_argv_free(&l.argv);
    } else {
        *out = l;
    }
out:
    free(rank);
    return rc;
}

void zep_launch_free(struct zep_launch *l)
{
    zep_argv_free(&l->argv);
}

void zep_launch_env(enum zep_where where)
{
    /* a rank is one thread; idle ranks give way; single copies between processes are not allowed in many containers, and Open MPI complains where they fail */
    setenv("OMP_NUM_THREADS", "1", 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    if (where != ZEP_WHERE_SLURM)
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
        setenv("PRTE_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
}
