#include "config.h"
#include "launcher/k8s_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/rundir.h"
#include "launcher/cli.h"
#include "launcher/k8s_manifest.h"
#include "launcher/k8s_topo.h"
#include "launcher/k8s_workers.h"
#include "launcher/runfolder.h"

#define HOSTFILE "/etc/mpi/hostfile"
#define TERMINATION_LOG "/dev/termination-log" /* the kubelet puts it into the pod's status */
#define ALIVE_S 30.0                           /* after a failure: for the workers to answer */

static volatile int got_signal;

static void on_signal(int sig)
{
    got_signal = sig;
}

struct launch {
    const char *rundir;
    int take_over, attempts_before;
    struct zep_job *job;
    struct zep_workers *workers;
    char *topology, *hostfile; /* paths */
};

static const char *env_or(const char *name, const char *dflt)
{
    const char *v = getenv(name);

    return v && *v ? v : dflt;
}

static void catch_signals(void)
{
    static const int sigs[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    struct sigaction sa = {.sa_handler = on_signal};

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof sigs / sizeof sigs[0]; i++)
        sigaction(sigs[i], &sa, NULL);
}

/* --- the job and its folder --- */

static int load_job(struct launch *l, struct zep_error *err)
{
    const char *text = getenv(ZEP_K8S_JOB_VARIABLE);
    char *path, *have = NULL;
    size_t len;
    int rc;

    if (text)
        return zep_job_parse(ZEP_K8S_JOB_VARIABLE, text, strlen(text), &l->job, err);
    if (!(path = zep_fs_join(l->rundir, "job.yaml")))
        return zep_error_nomem(err, "job");
    if (!zep_fs_exists(path))
        rc = zep_error_set(err, ZEP_EINVAL, "%s is not set, and %s is not there: `zeppelin k8s` makes manifests that set it", ZEP_K8S_JOB_VARIABLE, path);
    else if ((rc = zep_fs_read(path, 1 << 24, &have, &len, err)) == ZEP_OK)
        rc = zep_job_parse(path, have, len, &l->job, err);
    free(have);
    free(path);
    return rc;
}

static int make_folder(struct launch *l, struct zep_error *err)
{
    char *run = zep_fs_join(l->rundir, "run.json");
    struct zep_runinfo info;
    int rc = ZEP_OK;

    if (!run)
        return zep_error_nomem(err, "run folder");
    if (!zep_fs_exists(run) && (rc = zep_runfolder_new_at(l->job, l->rundir, err)) == ZEP_OK)
        zep_log(ZEP_LOG_INFO, "run folder %s", l->rundir);
    else if (rc == ZEP_OK && l->take_over && getenv(ZEP_K8S_JOB_VARIABLE)) /* a further attempt may have another number of workers */
        rc = zep_runfolder_write_job(l->rundir, l->job, err);
    if (rc == ZEP_OK && (rc = zep_runfolder_info(l->rundir, &info, err)) == ZEP_OK)
        l->attempts_before = info.n_attempt;
    free(run);
    return rc;
}

/* --- host file and topology --- */

static int write_hosts(const struct launch *l, const int *order, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    for (int i = 0; i < l->workers->n; i++) {
        const struct zep_worker *w = &l->workers->v[order ? order[i] : i];

        zep_buf_printf(&b, "%s slots=%d\n", w->host, w->slots);
    }
    if ((rc = zep_buf_ok(&b, err)) == ZEP_OK)
        rc = zep_fs_write_atomic(l->hostfile, b.data, b.len, 0600, err);
    zep_buf_free(&b);
    return rc;
}

/* Workers in the order of the tree. */
static int write_order(const struct launch *l, const struct zep_topo *t, struct zep_error *err)
{
    int *tree = calloc((size_t)t->n_node + 1, sizeof *tree), *order = calloc((size_t)l->workers->n + 1, sizeof *order), n = 0;
    int rc = tree && order ? zep_topo_tree_order(t, tree, err) : zep_error_nomem(err, "order");

    for (int i = 0; i < t->n_node && rc == ZEP_OK; i++)
        for (int k = 0; k < l->workers->n; k++)
            if (zep_topo_find_node(t, l->workers->v[k].name) == tree[i] && n < l->workers->n)
                order[n++] = k;
    if (rc == ZEP_OK && n == l->workers->n)
        rc = write_hosts(l, order, err);
    free(tree);
    free(order);
    return rc;
}

static int find_topology(struct launch *l, struct zep_error *err)
{
    struct zep_topo *t = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    free(l->topology);
    l->topology = NULL;
    if (strcmp(l->job->cluster.topology, "auto")) /* the user's word */
        return ZEP_OK;
    if ((rc = zep_k8s_topo(l->job, l->workers, &t, err)) < 0)
        return rc;
    if (!(l->topology = zep_fs_join(l->rundir, "workers.yaml")))
        rc = zep_error_nomem(err, "topology");
    if (rc == ZEP_OK && (rc = zep_topo_to_yaml(t, &b, err)) == ZEP_OK && (rc = zep_fs_write_atomic(l->topology, b.data, b.len, 0666, err)) == ZEP_OK)
        rc = write_order(l, t, err);
    zep_buf_free(&b);
    zep_topo_free(t);
    return rc;
}

/* Both generations of Open MPI: what the operator sets is for the older one only. */
static void set_environment(const struct launch *l)
{
    static const char *const both[][2] = {
        {"OMPI_MCA_orte_keep_fqdn_hostnames", "true"}, {"PRTE_MCA_prte_keep_fqdn_hostnames", "true"}, {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"}, {"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
        {"OMPI_MCA_plm_rsh_agent", "ssh"},             {"PRTE_MCA_plm_ssh_agent", "ssh"},             {"OMPI_MCA_plm", "rsh"},                 {"PRTE_MCA_plm", "ssh"},
    };

    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++)
        setenv(both[i][0], both[i][1], 1);
    setenv("OMPI_MCA_plm_rsh_args", l->workers->ssh_args, 1);
    setenv("PRTE_MCA_plm_ssh_args", l->workers->ssh_args, 1);
    setenv("OMPI_MCA_orte_default_hostfile", l->hostfile, 1);
    setenv("PRTE_MCA_prte_default_hostfile", l->hostfile, 1);
    setenv("ZEPPELIN_HOSTFILE", l->hostfile, 1);
    unsetenv(ZEP_K8S_JOB_VARIABLE);
}

static int check_workers(const struct launch *l, struct zep_error *err)
{
    int64_t want = l->job->cluster.devices * l->job->cluster.tp;

    if (l->workers->n != l->job->cluster.nodes)
        return zep_error_set(err, ZEP_EINVAL, "the host file has %d workers, the job wants %" PRId64 ": the manifest was changed after zeppelin k8s made it", l->workers->n, l->job->cluster.nodes);
    for (int i = 0; i < l->workers->n; i++)
        if (l->workers->v[i].slots != want)
            return zep_error_set(err, ZEP_EINVAL, "worker %s has %d slots, the job wants %" PRId64 " ranks on each: the manifest was changed after zeppelin k8s made it", l->workers->v[i].host, l->workers->v[i].slots, want);
    return ZEP_OK;
}

static int check_names(const struct launch *l, struct zep_error *err)
{
    for (int i = 0; i < l->workers->n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(l->workers->v[i].name, l->workers->v[k].name))
                return zep_error_set(err, ZEP_EUNSUPPORTED, "workers %s and %s both call themselves '%s': two workers of one node with its host network are not supported", l->workers->v[k].host, l->workers->v[i].host,
                                     l->workers->v[i].name);
    return ZEP_OK;
}

/* --- the run below us --- */

static char **run_argv(const struct launch *l, struct zep_argv *a)
{
    char *dir = NULL;

    if (zep_fs_self_dir(&dir, NULL) < 0)
        return NULL;
    zep_argv_add(a, "%s/zeppelin", dir);
    free(dir);
    zep_argv_add(a, "run");
    zep_argv_add(a, "--resume");
    zep_argv_add(a, "%s", l->rundir);
    if (l->take_over)
        zep_argv_add(a, "--break-lock");
    zep_argv_add(a, "--set");
    zep_argv_add(a, "cluster.where=k8s");
    if (l->topology) {
        zep_argv_add(a, "--set");
        zep_argv_add(a, "cluster.topology=%s", l->topology);
    }
    return a->n > 0 ? a->v : NULL;
}

/* Until it ends, signals go on to it and orphans are reaped: in a container this is the first process. */
static int run_once(const struct launch *l, int *status_out, struct zep_error *err)
{
    struct zep_argv a = {0};
    char **argv = run_argv(l, &a);
    int status = 0, passed = 0;
    pid_t pid, got;

    if (!argv)
        return zep_error_nomem(err, "launch");
    if ((pid = fork()) == 0) {
        execv(argv[0], argv);
        fprintf(stderr, "zeppelin: error: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    zep_argv_free(&a);
    if (pid < 0)
        return zep_error_set(err, ZEP_EIO, "fork: %s", strerror(errno));
    for (;;) {
        if (got_signal && got_signal != passed)
            kill(pid, passed = got_signal);
        got = waitpid(-1, &status, WNOHANG);
        if (got == pid)
            break;
        if (got <= 0)
            poll(NULL, 0, 100);
    }
    *status_out = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return ZEP_OK;
}

static int newest_step(const struct launch *l)
{
    char name[256];

    return (int)zep_runfolder_checkpoint(l->rundir, name, sizeof name);
}

/* Is another try worth it? Only for what was lost on the way, with all workers there and further than the last time. */
static int try_again(struct launch *l, int status, int try, int before, struct zep_error *err)
{
    int after = newest_step(l);

    if (status != zep_exit_status(ZEP_EPEER) || got_signal || try >= (int)l->job->cluster.retries)
        return 0;
    if (zep_workers_wait(l->workers, l->job->k8s.wait_s < ALIVE_S ? l->job->k8s.wait_s : ALIVE_S, &got_signal, err) < 0) {
        zep_log(ZEP_LOG_ERROR, "no other try: %s", err->text);
        return 0;
    }
    if (after <= before && try > 0) {
        zep_log(ZEP_LOG_ERROR, "no other try: no new checkpoint since the one before");
        return 0;
    }
    zep_log(ZEP_LOG_WARN, "all workers are alive: trying again from the checkpoint (%d of %d)", try + 1, (int)l->job->cluster.retries);
    return 1;
}

static int run_all(struct launch *l, int *status_out, struct zep_error *err)
{
    int rc, before = newest_step(l);

    for (int try = 0;; try++) {
        if ((rc = run_once(l, status_out, err)) < 0)
            return rc;
        l->take_over = 0;
        if (!try_again(l, *status_out, try, before, err))
            return ZEP_OK;
        before = newest_step(l);
    }
}

/* The outcome of this launch: not that of an attempt before, where this one came to none (a locked folder). */
static char *own_outcome(const struct launch *l, int status)
{
    char *path = zep_fs_join(l->rundir, "outcome.json"), *text = NULL;
    struct zep_outcome o;
    size_t len;

    if (!path || zep_outcome_read(l->rundir, &o, NULL) < 0 || zep_exit_status(o.status) != status || o.attempt <= l->attempts_before || zep_fs_read(path, 4000, &text, &len, NULL) < 0)
        text = NULL;
    free(path);
    return text;
}

/* What the pod's status says in the end. */
static void write_termination(const struct launch *l, int status, const char *cause)
{
    const char *to = env_or("ZEPPELIN_TERMINATION_LOG", TERMINATION_LOG);
    char *text = cause ? NULL : own_outcome(l, status);
    int fd = open(to, O_WRONLY | O_TRUNC | O_CLOEXEC);
    struct zep_buf b = ZEP_BUF_INIT;

    if (text)
        zep_buf_puts(&b, text);
    else
        zep_buf_printf(&b, "zeppelin: exit status %d: %.3000s\n", status, cause ? cause : "the launcher's log says why");
    if (fd >= 0 && b.len && write(fd, b.data, b.len) < 0) /* nobody could be told */
        errno = 0;
    if (fd >= 0)
        close(fd);
    zep_buf_free(&b);
    free(text);
}

static int prepare(struct launch *l, struct zep_error *err)
{
    char *keys = NULL;
    int rc;

    if ((rc = load_job(l, err)) < 0 || (rc = make_folder(l, err)) < 0)
        return rc;
    if (!(keys = zep_fs_join(l->job->cluster.root ? "/root" : l->job->k8s.home, ".ssh")))
        return zep_error_nomem(err, "keys");
    rc = zep_workers_new(env_or("ZEPPELIN_HOSTFILE", HOSTFILE), keys, (int)l->job->k8s.port, &l->workers, err);
    free(keys);
    if (rc < 0 || (rc = check_workers(l, err)) < 0)
        return rc;
    if (!(l->hostfile = zep_fs_join(l->workers->dir, "hostfile")))
        return zep_error_nomem(err, "host file");
    zep_log(ZEP_LOG_INFO, "waiting for %d workers, at most %.0f s", l->workers->n, l->job->k8s.wait_s);
    if ((rc = zep_workers_wait(l->workers, l->job->k8s.wait_s, &got_signal, err)) < 0 || (rc = check_names(l, err)) < 0 || (rc = write_hosts(l, NULL, err)) < 0)
        return rc;
    set_environment(l);
    return find_topology(l, err);
}

int zep_k8s_launch(const char *rundir, int take_over, int *exit_status_out, struct zep_error *err)
{
    struct launch l = {.rundir = rundir, .take_over = take_over};
    int rc;

    catch_signals();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if ((rc = prepare(&l, err)) == ZEP_OK)
        rc = run_all(&l, exit_status_out, err);
    write_termination(&l, rc < 0 ? zep_exit_status(err->code) : *exit_status_out, rc < 0 ? err->text : NULL);
    zep_workers_free(l.workers);
    zep_job_free(l.job);
    free(l.topology);
    free(l.hostfile);
    return rc;
}
