/* Runs on Kubernetes: their MPIJobs, by the API. */
#include "config.h"
#include "launcher/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/encode.h"
#include "common/fs.h"
#include "common/log.h"
#include "launcher/k8s_manifest.h"
#include "launcher/k8s_record.h"
#include "launcher/kube.h"
#include "launcher/precheck.h"

#define OURS "app.kubernetes.io/managed-by=zeppelin"
#define FAILED_SHOWN 3 /* failed workers that a line names */
#define FIRST_MS 50
#define FIRST_TRIES 100
#define LAST_LOG_S 60.0 /* beyond cluster.grace, for the last lines of a log */

static const char *text_at(const json_t *j, const char *a, const char *b)
{
    const char *s = json_string_value(b ? json_object_get(json_object_get(j, a), b) : json_object_get(j, a));

    return s ? s : "";
}

/* "namespace/name" */
static void split(const char *job, char ns[128], char name[128])
{
    const char *slash = strchr(job, '/');

    snprintf(ns, 128, "%.*s", slash ? (int)(slash - job) : 0, job);
    snprintf(name, 128, "%s", slash ? slash + 1 : job);
}

/* --- whose it is --- */

static int claim(struct zep_run *run, struct zep_error *err)
{
    json_t *record = NULL, *one;
    size_t i;
    int rc;

    if (!zep_k8s_record_exists(run->dir)) {
        if (strcmp(run->info.backend, "k8s"))
            return 0;
        run->batch = 1; /* the folder in the pods' volume, seen from elsewhere */
        return *run->info.job && (rc = zep_run_add_job(run, run->info.job)) < 0 ? zep_error_nomem(err, "run") : 1;
    }
    if ((rc = zep_k8s_record_read(run->dir, &record, err)) < 0)
        return rc;
    snprintf(run->cluster, sizeof run->cluster, "%s", text_at(record, "context", NULL));
    run->batch = 1;
    json_array_foreach(json_object_get(record, "attempts"), i, one) {
        char job[260];

        snprintf(job, sizeof job, "%.127s/%.127s", text_at(one, "namespace", NULL), text_at(one, "name", NULL));
        if (zep_run_add_job(run, job) < 0) {
            json_decref(record);
            return zep_error_nomem(err, "run");
        }
    }
    json_decref(record);
    return 1;
}

/* "k8s:NAME" or "k8s:NAMESPACE:NAME" */
static int find(const char *word, struct zep_run *run, struct zep_error *err)
{
    const char *name = word + 4, *colon;
    char ns[128] = "", job[400];
    struct zep_kube k;
    json_t *j = NULL;
    int rc;

    if (strncmp(word, "k8s:", 4))
        return 0;
    if ((colon = strchr(name, ':'))) {
        snprintf(ns, sizeof ns, "%.*s", (int)(colon - name), name);
        name = colon + 1;
    }
    if ((rc = zep_kube_open("", ns, &k, err)) < 0)
        return rc;
    if ((rc = zep_kube_get(&k, ZEP_KUBE_MPIJOBS, name, &j, err)) == ZEP_OK) {
        snprintf(job, sizeof job, "%.127s/%.127s", text_at(j, "metadata", "namespace"), text_at(j, "metadata", "name"));
        run->batch = 1;
        rc = zep_run_add_job(run, job) < 0 ? zep_error_nomem(err, "run") : 1;
    }
    json_decref(j);
    zep_kube_close(&k);
    return rc;
}

/* --- status --- */

static const json_t *condition(const json_t *job, const char *type)
{
    json_t *c;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(job, "status"), "conditions"), i, c)
        if (!strcmp(text_at(c, "type", NULL), type) && !strcmp(text_at(c, "status", NULL), "True"))
            return c;
    return NULL;
}

/* "2026-12-02T18:30:00Z" */
static double when(const char *text)
{
    struct tm tm = {0};

    return *text && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) ? (double)timegm(&tm) : 0;
}

static int is_pod_of(const json_t *pod, const char *ns, const char *job, const char *role)
{
    const json_t *labels = json_object_get(json_object_get(pod, "metadata"), "labels");

    return !strcmp(text_at(labels, ZEP_K8S_OPERATOR_NAME, NULL), job) && !strcmp(text_at(pod, "metadata", "namespace"), ns) && (!role || !strcmp(text_at(labels, ZEP_K8S_OPERATOR_ROLE, NULL), role));
}

static const json_t *terminated(const json_t *pod)
{
    const json_t *state = json_object_get(json_array_get(json_object_get(json_object_get(pod, "status"), "containerStatuses"), 0), "state");

    return json_object_get(state, "terminated");
}

/* Why a pod does not run. */
static void why_pending(const json_t *pod, char *why, size_t size)
{
    const json_t *waiting = json_object_get(json_object_get(json_array_get(json_object_get(json_object_get(pod, "status"), "containerStatuses"), 0), "state"), "waiting");
    json_t *c;
    size_t i;

    if (waiting && *text_at(waiting, "reason", NULL) && strcmp(text_at(waiting, "reason", NULL), "ContainerCreating")) {
        snprintf(why, size, "%s: %s: %.300s", text_at(pod, "metadata", "name"), text_at(waiting, "reason", NULL), text_at(waiting, "message", NULL));
        return;
    }
    json_array_foreach(json_object_get(json_object_get(pod, "status"), "conditions"), i, c)
        if (!strcmp(text_at(c, "type", NULL), "PodScheduled") && !strcmp(text_at(c, "status", NULL), "False"))
            snprintf(why, size, "%s waits for a node: %.300s", text_at(pod, "metadata", "name"), text_at(c, "message", NULL));
}

/* The launcher left the outcome as its termination message. */
static void tell_outcome(const json_t *end, struct zep_live *l)
{
    json_t *o = json_loads(text_at(end, "message", NULL), 0, NULL);

    l->exit_status = (int)json_integer_value(json_object_get(end, "exitCode"));
    if (json_is_integer(json_object_get(o, "step"))) {
        l->has_step = 1;
        l->step = json_integer_value(json_object_get(o, "step"));
    }
    if (l->exit_status == 0)
        *l->why = '\0';
    else if (*text_at(o, "cause", NULL))
        snprintf(l->why, sizeof l->why, "%.400s", text_at(o, "cause", NULL));
    else if (*text_at(end, "message", NULL))
        snprintf(l->why, sizeof l->why, "%.400s", text_at(end, "message", NULL));
    json_decref(o);
}

static void tell_end(const json_t *job, const json_t *failed, struct zep_live *l)
{
    int evicted = failed && strstr(text_at(failed, "reason", NULL), "Evicted") != NULL, in_time = !failed || !strstr(text_at(failed, "reason", NULL), "DeadlineExceeded");

    l->life = ZEP_LIFE_ENDED;
    l->end = when(text_at(job, "status", "completionTime"));
    snprintf(l->word, sizeof l->word, "%s", !failed ? "Succeeded" : evicted ? "Evicted" : in_time ? "Failed" : "DeadlineExceeded");
    l->told = 1;
    l->exit_status = !failed ? 0 : evicted ? zep_exit_status(ZEP_EPEER) : in_time ? 1 : zep_exit_status(ZEP_ESTOPPED);
    if (!in_time) /* the launcher's pod, which could tell, is deleted then */
        snprintf(l->why, sizeof l->why, "its time (cluster.time) was over: it was told to stop with a checkpoint (%s: %.300s)", text_at(failed, "reason", NULL), text_at(failed, "message", NULL));
    else if (failed)
        snprintf(l->why, sizeof l->why, "%s: %.400s", text_at(failed, "reason", NULL), text_at(failed, "message", NULL));
}

/* Where both do not fit, what is there is cut. */
static void add_why(struct zep_live *l, const char *text)
{
    size_t n = strlen(l->why), size = sizeof l->why, more = strlen(text) + 3, room = more < size / 2 ? size - more : size / 2;

    n = n < room ? n : room;
    snprintf(l->why + n, sizeof l->why - n, "%s%s", n ? "; " : "", text);
}

/* "zep-worker-1 on gpu-2: Evicted: The node was low on resource: memory." */
static void why_failed(const json_t *pod, struct zep_buf *b)
{
    const json_t *end = terminated(pod);
    const char *reason = text_at(pod, "status", "reason"), *message = text_at(pod, "status", "message"), *node = text_at(pod, "spec", "nodeName");

    if (!*reason)
        reason = text_at(end, "reason", NULL);
    if (!*message)
        message = text_at(end, "message", NULL);
    zep_buf_printf(b, "%s%s%s%s", b->len ? "; " : "", text_at(pod, "metadata", "name"), *node ? " on " : "", node);
    zep_buf_printf(b, ": %s%s%.150s", *reason ? reason : "failed", *message ? ": " : "", message);
    if (!*message && json_is_integer(json_object_get(end, "exitCode")))
        zep_buf_printf(b, ", exit status %d", (int)json_integer_value(json_object_get(end, "exitCode")));
}

static void tell_pods(const json_t *pods, const char *ns, const char *name, struct zep_live *l)
{
    struct zep_buf nodes = ZEP_BUF_INIT, failed = ZEP_BUF_INIT;
    int holding = 0, n_failed = 0;
    json_t *pod;
    size_t i;

    json_array_foreach((json_t *)pods, i, pod) {
        const char *phase = text_at(pod, "status", "phase"), *node = text_at(pod, "spec", "nodeName");

        if (!is_pod_of(pod, ns, name, NULL))
            continue;
        if (is_pod_of(pod, ns, name, "launcher") && terminated(pod))
            tell_outcome(terminated(pod), l);
        if (!is_pod_of(pod, ns, name, "worker"))
            continue;
        holding += !strcmp(phase, "Running") || !strcmp(phase, "Pending");
        if (*node && !zep_text_lists(nodes.data, node))
            zep_buf_printf(&nodes, "%s%s", nodes.len ? "," : "", node);
        if (l->life == ZEP_LIFE_WAITING && !strcmp(phase, "Pending") && !*l->why)
            why_pending(pod, l->why, sizeof l->why);
        if (!strcmp(phase, "Failed") && n_failed++ < FAILED_SHOWN)
            why_failed(pod, &failed);
    }
    if (n_failed > FAILED_SHOWN)
        zep_buf_printf(&failed, "; %d more", n_failed - FAILED_SHOWN);
    if (failed.data && l->exit_status != 0)
        add_why(l, failed.data);
    if (l->life == ZEP_LIFE_ENDED && holding) {
        char text[160];

        snprintf(text, sizeof text, "%d worker%s still there and hold%s what %s asked for: `zeppelin cancel` frees it", holding, holding == 1 ? " is" : "s are", holding == 1 ? "s" : "", holding == 1 ? "it" : "they");
        add_why(l, text);
    }
    snprintf(l->where, sizeof l->where, "%s", nodes.data ? nodes.data : "");
    zep_buf_free(&nodes);
    zep_buf_free(&failed);
}

/* The operator tells of what it refuses by an event only. */
static void ask_events(const struct zep_kube *k, const char *name, struct zep_live *l)
{
    json_t *events = NULL, *e;
    size_t i;

    if (zep_kube_list(k, "events", NULL, &events, NULL) < 0)
        return;
    json_array_foreach(events, i, e)
        if (!strcmp(text_at(e, "involvedObject", "kind"), "MPIJob") && !strcmp(text_at(e, "involvedObject", "name"), name) && !strcmp(text_at(e, "type", NULL), "Warning"))
            snprintf(l->why, sizeof l->why, "the operator refuses it: %s: %.300s", text_at(e, "reason", NULL), text_at(e, "message", NULL));
    json_decref(events);
}

static void tell(const struct zep_kube *k, const json_t *jobs, const json_t *pods, const char *id, struct zep_live *l)
{
    char ns[128], name[128];
    const json_t *job = NULL, *failed;
    json_t *j;
    size_t i;

    split(id, ns, name);
    *l = (struct zep_live){.exit_status = -1};
    snprintf(l->job, sizeof l->job, "%.127s", id);
    json_array_foreach((json_t *)jobs, i, j)
        if (!strcmp(text_at(j, "metadata", "name"), name) && !strcmp(text_at(j, "metadata", "namespace"), ns))
            job = j;
    if (!job) {
        l->life = ZEP_LIFE_FORGOTTEN;
        snprintf(l->why, sizeof l->why, "the cluster has no MPIJob of that name: it was deleted");
        return;
    }
    l->submitted = when(text_at(json_object_get(job, "metadata"), "creationTimestamp", NULL));
    l->start = when(text_at(job, "status", "startTime"));
    failed = condition(job, "Failed");
    if (failed || condition(job, "Succeeded")) {
        tell_end(job, failed, l);
    } else if (*text_at(json_object_get(job, "metadata"), "deletionTimestamp", NULL)) {
        l->life = ZEP_LIFE_ENDING;
        snprintf(l->word, sizeof l->word, "Deleting");
    } else if (condition(job, "Suspended")) {
        l->life = ZEP_LIFE_WAITING;
        snprintf(l->word, sizeof l->word, "Suspended");
        snprintf(l->why, sizeof l->why, "it is suspended: a queue has not admitted it yet");
    } else {
        l->life = condition(job, "Running") ? ZEP_LIFE_RUNNING : ZEP_LIFE_WAITING;
        snprintf(l->word, sizeof l->word, "%s", l->life == ZEP_LIFE_RUNNING ? "Running" : condition(job, "Created") ? "Created" : "Unseen");
    }
    tell_pods(pods, ns, name, l);
    if (l->life == ZEP_LIFE_WAITING && !condition(job, "Created") && !condition(job, "Suspended")) {
        snprintf(l->why, sizeof l->why, "the MPI operator has not taken it up yet");
        ask_events(k, name, l);
    }
}

static int same_place(const struct zep_run *a, const struct zep_run *b)
{
    char ns_a[128], ns_b[128], name[128];

    if (!a->n_job || !b->n_job)
        return 0;
    split(a->job[a->n_job - 1], ns_a, name);
    split(b->job[b->n_job - 1], ns_b, name);
    return !strcmp(a->cluster, b->cluster) && !strcmp(ns_a, ns_b);
}

/* Two questions for all runs of a namespace. */
static int ask(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err)
{
    char *done = zep_calloc((size_t)n + 1, 1);

    (void)fresh;
    if (!done)
        return zep_error_nomem(err, "runs");
    for (int i = 0; i < n; i++) {
        char ns[128] = "", name[128];
        json_t *jobs = NULL, *pods = NULL;
        struct zep_kube k = {0};
        struct zep_error e;
        int rc;

        live_out[i].exit_status = done[i] ? live_out[i].exit_status : -1;
        if (done[i] || !run[i]->n_job)
            continue;
        split(run[i]->job[run[i]->n_job - 1], ns, name);
        if ((rc = zep_kube_open(run[i]->cluster, ns, &k, &e)) == ZEP_OK && (rc = zep_kube_list(&k, ZEP_KUBE_MPIJOBS, OURS, &jobs, &e)) == ZEP_OK)
            rc = zep_kube_list(&k, "pods", OURS, &pods, &e);
        for (int m = i; m < n; m++)
            if (same_place(run[i], run[m])) {
                done[m] = 1;
                live_out[m] = (struct zep_live){.exit_status = -1};
                if (rc < 0)
                    snprintf(live_out[m].why, sizeof live_out[m].why, "%.500s", e.text);
                else
                    tell(&k, jobs, pods, run[m]->job[run[m]->n_job - 1], &live_out[m]);
            }
        json_decref(jobs);
        json_decref(pods);
        zep_kube_close(&k);
    }
    free(done);
    return ZEP_OK;
}

/* Of what is not in the cluster any more the record tells. */
static int status(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err)
{
    int rc = ask(run, n, fresh, live_out, err);

    for (int i = 0; i < n && rc == ZEP_OK; i++)
        if (live_out[i].life == ZEP_LIFE_FORGOTTEN && run[i]->dir)
            zep_k8s_record_ended(run[i]->dir, &live_out[i]);
    return rc;
}

static int asks(const struct zep_run *run)
{
    return run->n_job > 0;
}

/* --- logs --- */

static void selector(const char *name, const char *role, char out[400])
{
    snprintf(out, 400, "%s=%.127s%s%s%s", ZEP_K8S_OPERATOR_NAME, name, role ? "," : "", role ? ZEP_K8S_OPERATOR_ROLE "=" : "", role ? role : "");
}

static int is_over(const json_t *pod)
{
    const char *phase = text_at(pod, "status", "phase");

    return terminated(pod) || !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
}

/* The newest launcher pod's name, and whether it has ended: of an evicted job it may still be at its last checkpoint. */
static int find_launcher(const struct zep_kube *k, const char *name, char pod_out[256], int *over_out, struct zep_error *err)
{
    const json_t *pod;
    char labels[400];
    json_t *pods = NULL;
    int rc;

    selector(name, "launcher", labels);
    if ((rc = zep_kube_list(k, "pods", labels, &pods, err)) < 0)
        return rc;
    pod = json_array_get(pods, json_array_size(pods) ? json_array_size(pods) - 1 : 0);
    snprintf(pod_out, 256, "%s", text_at(pod, "metadata", "name"));
    *over_out = is_over(pod);
    json_decref(pods);
    return *pod_out ? ZEP_OK : zep_error_set(err, ZEP_ENOENT, "MPIJob '%s' has no launcher pod (yet, or any more): `zeppelin status` says how it stands", name);
}

static char *saved_log(const struct zep_run *run, const char *name)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *path;

    if (!run->dir)
        return NULL;
    zep_buf_printf(&b, "%s/launcher-%s.log", run->dir, name);
    return zep_buf_steal(&b, &path, NULL) < 0 ? NULL : path;
}

static int print_saved(const struct zep_run *run, const char *name, struct zep_error *err)
{
    char *path = saved_log(run, name), *text = NULL;
    size_t len;
    int rc = err->code;

    if (path && zep_fs_exists(path) && (rc = zep_fs_read(path, 0, &text, &len, err)) == ZEP_OK)
        fwrite(text, 1, len, stdout);
    free(text);
    free(path);
    return rc;
}

static int logs(const struct zep_run *run, int follow, struct zep_error *err)
{
    char ns[128], name[128], pod[256];
    struct zep_kube k = {0};
    int rc, pid, over;

    if (!run->n_job)
        return zep_error_set(err, ZEP_ENOENT, "%s: it was never created", run->word);
    split(run->job[run->n_job - 1], ns, name);
    fflush(stdout);
    if ((rc = zep_kube_open(run->cluster, ns, &k, err)) == ZEP_OK && (rc = find_launcher(&k, name, pod, &over, err)) == ZEP_OK && (rc = pid = zep_kube_logs_start(&k, pod, "launcher", follow, 1, err)) >= 0)
        rc = zep_kube_logs_wait(pid, 0, err);
    zep_kube_close(&k);
    return rc < 0 ? print_saved(run, name, err) : ZEP_OK;
}

/* --- end --- */

static double grace_of(const struct zep_run *run)
{
    struct zep_job *job = NULL;
    double grace = 60;

    if (run->dir && zep_runfolder_load_job(run->dir, NULL, 0, &job, NULL) == ZEP_OK)
        grace = job->cluster.grace_s;
    zep_job_free(job);
    return grace;
}

/* A log on its way into the run folder: beside its place until it is whole. */
struct keeping {
    char *path, *part;
    int pid, saved, over; /* pid: of what reads it, 0 none; over: the launcher has ended, and its log is whole */
};

static int keep_begin(struct keeping *k, const struct zep_kube *kube, const struct zep_run *run, const char *name, struct zep_error *err)
{
    struct zep_buf part = ZEP_BUF_INIT;
    char pod[256];
    int fd, rc;

    *k = (struct keeping){.path = saved_log(run, name)};
    if (!k->path)
        return ZEP_OK;
    k->saved = zep_fs_exists(k->path);
    zep_buf_printf(&part, "%s.part", k->path);
    if ((rc = zep_buf_steal(&part, &k->part, err)) < 0)
        return rc;
    if ((rc = find_launcher(kube, name, pod, &k->over, err)) < 0)
        return rc == ZEP_ENOENT ? ZEP_OK : rc; /* it never began, or was cleaned away */
    if ((fd = open(k->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        return zep_error_set(err, ZEP_EIO, "%s: %s", k->part, strerror(errno));
    if ((rc = zep_kube_logs_start(kube, pod, "launcher", !k->over, fd, err)) > 0)
        k->pid = rc;
    close(fd);
    return rc < 0 ? rc : ZEP_OK;
}

/* Until the first of it is here, or there is none: kubectl needs its time to begin, and the pod must not be gone before. */
static void keep_first(const struct keeping *k)
{
    for (int i = 0; k->pid && i < FIRST_TRIES; i++) {
        siginfo_t info = {.si_pid = 0};
        struct stat st;

        if ((stat(k->part, &st) == 0 && st.st_size > 0) || waitid(P_PID, (id_t)k->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid)
            break;
        poll(NULL, 0, FIRST_MS);
    }
}

static int keep_end(struct keeping *k, double limit_s, struct zep_error *err)
{
    int rc = k->pid ? zep_kube_logs_wait(k->pid, limit_s, err) : ZEP_OK;
    struct stat st;

    if (k->pid && stat(k->part, &st) == 0 && st.st_size > 0 && (rc == ZEP_OK || !k->saved) && rename(k->part, k->path) == 0)
        k->saved = 1;
    if (k->part)
        unlink(k->part);
    k->pid = 0;
    return rc;
}

static void keep_free(struct keeping *k)
{
    free(k->path);
    free(k->part);
}

/* Deletes the MPIJob; its launcher's log comes to its last line into the folder, where there is one: of a launcher that has ended before, for the pod goes with it. */
static int remove_job(const struct zep_kube *k, const struct zep_run *run, const char *name, int now, int *saved_out, struct zep_error *err)
{
    struct keeping log;
    struct zep_error e;
    char labels[400];
    int rc, kept = keep_begin(&log, k, run, name, &e);

    if (log.over && kept == ZEP_OK)
        kept = keep_end(&log, LAST_LOG_S, &e);
    if (log.over && kept < 0 && !now) {
        keep_free(&log);
        return zep_error_set(err, ZEP_EUNAVAIL, "MPIJob '%s': its log could not be saved, and nothing is deleted (`zeppelin cancel --now` deletes it without): %s", name, e.text);
    }
    keep_first(&log);
    rc = zep_kube_delete(k, ZEP_KUBE_MPIJOBS, name, err);
    if (rc == ZEP_OK && now) {
        selector(name, NULL, labels);
        rc = zep_kube_kill_pods(k, labels, err);
    }
    if (log.pid)
        kept = keep_end(&log, rc < 0 ? 0.1 : now ? 10 : grace_of(run) + LAST_LOG_S, &e);
    if (kept < 0)
        zep_log(ZEP_LOG_WARN, "the launcher's log is not whole: %s", e.text);
    *saved_out = log.saved;
    keep_free(&log);
    return rc;
}

/* With that the cluster forgets how it ended: the record keeps it. */
static int remove_run(const struct zep_kube *k, const struct zep_run *run, struct zep_live *live, int now, int *saved_out, struct zep_error *err)
{
    char ns[128], name[128];
    struct zep_error e;
    int rc;

    split(run->job[run->n_job - 1], ns, name);
    if ((rc = remove_job(k, run, name, now, saved_out, err)) < 0 || !run->dir || !zep_k8s_record_exists(run->dir) || live->life == ZEP_LIFE_FORGOTTEN)
        return rc;
    if (live->life != ZEP_LIFE_ENDED) {
        snprintf(live->word, sizeof live->word, "Cancelled");
        snprintf(live->why, sizeof live->why, "`zeppelin k8s --resume %s --apply` goes on from its last checkpoint", run->info.id);
        live->exit_status = ZEP_EXIT_CANCELLED;
        live->end = 0;
    }
    if (zep_k8s_record_end(run->dir, live, &e) < 0)
        zep_log(ZEP_LOG_WARN, "how it ended is not kept: %s", e.text);
    return ZEP_OK;
}

static int cancel(const struct zep_run *run, int now, char *said_out, size_t size, struct zep_error *err)
{
    struct zep_live live = {0};
    char ns[128], name[128];
    struct zep_kube k = {0};
    int rc, saved = 0, ended;

    if (!run->n_job) {
        snprintf(said_out, size, "it was never created: nothing to stop");
        return ZEP_OK;
    }
    split(run->job[run->n_job - 1], ns, name);
    if ((rc = ask(&run, 1, 1, &live, err)) < 0)
        return rc;
    if (live.life == ZEP_LIFE_UNKNOWN)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s", live.why);
    if (live.life == ZEP_LIFE_FORGOTTEN) {
        snprintf(said_out, size, "it is not in the cluster: nothing to stop");
        return ZEP_OK;
    }
    ended = live.life == ZEP_LIFE_ENDED;
    if ((rc = zep_kube_open(run->cluster, ns, &k, err)) == ZEP_OK)
        rc = remove_run(&k, run, &live, now, &saved, err);
    zep_kube_close(&k);
    if (rc < 0)
        return rc;
    snprintf(said_out, size, ended ? "it had ended: MPIJob %s and its pods are deleted%s%s%s" : now ? "MPIJob %s is deleted, its pods at once%s%s%s" : "MPIJob %s is deleted; its pods stop with a checkpoint%s%s%s",
             run->job[run->n_job - 1], saved ? ", its log is in the run folder" : "", ended || !run->dir ? "" : "; ", ended || !run->dir ? "" : live.why);
    return ZEP_OK;
}

/* --- the next attempt --- */

/* Two launchers in one run folder would be two runs: the next one is made when no launcher of the one before is at its last checkpoint any more. */
static int await_end(const struct zep_kube *k, const char *name, double limit_s, struct zep_error *err)
{
    double end = zep_clock_now() + limit_s;
    char pod[256];
    int over, rc;

    while ((rc = find_launcher(k, name, pod, &over, err)) == ZEP_OK && !over) {
        if (zep_clock_now() > end)
            return zep_error_set(err, ZEP_ETIMEDOUT, "pod %s has not ended after %.0f s: no other attempt beside it", pod, limit_s);
        poll(NULL, 0, 1000);
    }
    return rc == ZEP_ENOENT ? ZEP_OK : rc;
}

int zep_k8s_may_go_on(const struct zep_run *run, const struct zep_live *live, struct zep_error *err)
{
    if (run->backend != &zep_backend_k8s || !run->dir || !zep_k8s_record_exists(run->dir))
        return zep_error_set(err, ZEP_EREFUSED, "%s: no record of a run on Kubernetes is here (k8s.json in its run folder): expected one that `zeppelin k8s --apply` made", run->word);
    if (live->life == ZEP_LIFE_UNKNOWN)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s", live->why);
    if (live->life != ZEP_LIFE_ENDED && live->life != ZEP_LIFE_FORGOTTEN)
        return zep_error_set(err, ZEP_EREFUSED, "%s has not ended (MPIJob %s: %s): `zeppelin cancel %s` stops it", run->info.id, live->job, live->word, run->info.id);
    if (run->n_job >= ZEP_K8S_ATTEMPTS)
        return zep_error_set(err, ZEP_EREFUSED, "%s: no other attempt: there were %d", run->info.id, run->n_job);
    return ZEP_OK;
}

int zep_k8s_go_on(const struct zep_run *run, const struct zep_live *live, const struct zep_k8s_spec *spec, char *made_out, size_t size, struct zep_error *err)
{
    struct zep_live ended = *live;
    char ns[128], name[128];
    struct zep_kube k = {0};
    int rc, saved;

    split(run->job[run->n_job - 1], ns, name);
    if ((rc = zep_kube_open(run->cluster, ns, &k, err)) == ZEP_OK && (rc = remove_run(&k, run, &ended, 0, &saved, err)) == ZEP_OK && (rc = await_end(&k, name, grace_of(run) + LAST_LOG_S, err)) == ZEP_OK)
        rc = zep_k8s_submit(spec, run->dir, run->n_job + 1, made_out, size, err);
    zep_kube_close(&k);
    return rc;
}

int zep_k8s_resubmit(const struct zep_run *run, const struct zep_live *live, char *said_out, size_t size, struct zep_error *err)
{
    int lost = live->exit_status == zep_exit_status(ZEP_EPEER) || live->exit_status == zep_exit_status(ZEP_ESTOPPED), rc;
    struct zep_k8s_spec *spec = NULL;
    struct zep_job *job = NULL;
    struct zep_error e;
    char made[300];

    *said_out = '\0';
    if (live->life == ZEP_LIFE_ENDED && live->exit_status == ZEP_EXIT_CANCELLED && run->dir)
        snprintf(said_out, size, "no other attempt: what was cancelled stays so, until `zeppelin k8s --resume %s --apply`", run->info.id);
    if (live->life != ZEP_LIFE_ENDED || !lost)
        return 0;
    if (zep_k8s_may_go_on(run, live, &e) < 0) {
        snprintf(said_out, size, "no other attempt: %.300s", e.text);
        return 0;
    }
    if ((rc = zep_runfolder_load_job(run->dir, NULL, 0, &job, err)) == ZEP_OK && (rc = zep_precheck_k8s(job, &spec, err)) == ZEP_OK && (rc = zep_k8s_go_on(run, live, spec, made, sizeof made, err)) == ZEP_OK) {
        snprintf(said_out, size, "next attempt: MPIJob %s", made);
        rc = 1;
    }
    zep_k8s_spec_free(spec);
    zep_job_free(job);
    return rc;
}

/* --- what has ended and stays --- */

static int prune_one(struct zep_run *run, int dry_run, struct zep_error *err)
{
    struct zep_live live = {0};
    const struct zep_run *one = run;
    char said[500];
    int rc;

    if ((rc = ask(&one, 1, 1, &live, err)) < 0)
        return rc;
    if (live.life == ZEP_LIFE_UNKNOWN)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s", live.why);
    if (live.life != ZEP_LIFE_ENDED)
        return 0;
    if (dry_run)
        zep_log(ZEP_LOG_INFO, "%s: MPIJob %s has ended (%s): would be deleted", run->info.id, live.job, live.word);
    else if ((rc = cancel(run, 0, said, sizeof said, err)) < 0)
        return rc;
    else
        zep_log(ZEP_LOG_INFO, "%s: %s", run->info.id, said);
    return 1;
}

/* Of one folder, if it is one of this cluster: 1 it had ended, 0 nothing to do. */
static int prune_folder(const char *path, const char *context, const char *ns, int dry_run, struct zep_error *err)
{
    char of[128], name[128];
    struct zep_run *run = NULL;
    int rc;

    if (!zep_k8s_record_exists(path))
        return 0;
    if ((rc = zep_run_open_dir(path, &run, err)) < 0)
        return rc;
    split(run->n_job ? run->job[run->n_job - 1] : "", of, name);
    if ((!*context || !strcmp(context, run->cluster)) && (!*ns || !strcmp(ns, of)))
        rc = prune_one(run, dry_run, err);
    zep_run_free(run);
    return rc;
}

/* One that cannot be looked at does not keep the others. */
int zep_k8s_prune(const char *context, const char *ns, int dry_run, struct zep_error *err)
{
    int n = 0, rc, code = ZEP_OK, count = 0, failed = 0;
    char **path = NULL;

    if ((rc = zep_runfolder_list(&path, &n, err)) < 0)
        return rc;
    for (int i = 0; i < n; i++) {
        rc = prune_folder(path[i], context, ns, dry_run, err);
        count += rc > 0;
        if (rc < 0) {
            zep_log(ZEP_LOG_ERROR, "%s: %s", path[i], err->text);
            code = rc;
            failed++;
        }
        free(path[i]);
    }
    free(path);
    if (failed)
        return zep_error_set(err, code, "%d run%s could not be looked at or deleted", failed, failed == 1 ? "" : "s");
    if (!count)
        zep_log(ZEP_LOG_INFO, "no run of yours has ended and still has its MPIJob");
    return ZEP_OK;
}

const struct zep_backend zep_backend_k8s = {"k8s", claim, find, status, asks, logs, cancel, NULL};
