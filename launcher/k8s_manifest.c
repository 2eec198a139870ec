#include "config.h"
#include "launcher/k8s_manifest.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/encode.h"

#define EXTRA_GRACE_S 30 /* for sshd and mpirun, after the ranks had cluster.grace */
#define HOSTNAME_KEY "kubernetes.io/hostname"

struct maker {
    const struct zep_k8s_spec *s;
    const struct zep_job *job;
    const char *name, *run_id;
    int attempt;
};

void zep_k8s_attempt_name(const char *name, int attempt, char out[64])
{
    if (attempt > 1)
        snprintf(out, 64, "%.50s-r%d", name, attempt);
    else
        snprintf(out, 64, "%.63s", name);
}

static void set(json_t *map, const char *key, const char *value)
{
    json_object_set_new(map, key, json_string(value));
}

static void set_if(json_t *map, const char *key, const char *value)
{
    if (*value)
        set(map, key, value);
}

/* Items of command and args and values of env are expanded by the kubelet. */
static json_t *pod_text(const char *text)
{
    struct zep_buf b = ZEP_BUF_INIT;
    json_t *j = zep_encode_pod_text(&b, text, NULL) == ZEP_OK ? json_string(b.data ? b.data : "") : NULL;

    zep_buf_free(&b);
    return j;
}

static void add_text(json_t *list, const char *fmt, ...) ZEP_PRINTF(2, 3);
static void add_text(json_t *list, const char *fmt, ...)
{
    char text[4096]; /* paths have at most 1000 */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_array_append_new(list, pod_text(text));
}

/* --- metadata --- */

static json_t *labels(const struct maker *m)
{
    json_t *l = json_object();
    char attempt[16];

    snprintf(attempt, sizeof attempt, "%d", m->attempt);
    set(l, "app.kubernetes.io/managed-by", "zeppelin");
    set(l, ZEP_K8S_LABEL_RUN, m->run_id);
    set(l, ZEP_K8S_LABEL_ATTEMPT, attempt);
    for (int i = 0; i < m->s->labels.n; i++)
        set(l, m->s->labels.v[i].key, m->s->labels.v[i].value);
    return l;
}

static json_t *template_metadata(const struct maker *m, int worker)
{
    json_t *meta = json_object(), *notes = json_object();

    set(notes, "sidecar.istio.io/inject", "false"); /* a proxy cuts ssh, and outlives mpirun */
    if (worker && m->s->topology.key && *m->job->k8s.queue) {
        char key[64];

        snprintf(key, sizeof key, "kueue.x-k8s.io/podset-%.16s-topology", m->s->topology.key);
        set(notes, key, m->s->topology.value);
    }
    for (int i = 0; worker && i < m->s->annotations.n; i++)
        set(notes, m->s->annotations.v[i].key, m->s->annotations.v[i].value);
    json_object_set_new(meta, "labels", labels(m));
    json_object_set_new(meta, "annotations", notes);
    return meta;
}

/* --- containers --- */

static json_t *env_from(const char *name, json_t *from)
{
    return json_pack("{s:s, s:o}", "name", name, "valueFrom", from);
}

static json_t *security_of_container(const struct maker *m)
{
    if (m->job->cluster.root)
        return json_pack("{s:{s:[s, s]}}", "capabilities", "add", "IPC_LOCK", "SYS_CHROOT"); /* sshd's own separation needs the second */
    return json_pack("{s:b, s:{s:[s]}}", "allowPrivilegeEscalation", 0, "capabilities", "drop", "ALL");
}

static json_t *security_of_pod(const struct maker *m)
{
    json_int_t user = m->job->k8s.user;

    if (m->job->cluster.root) /* no fsGroup: it would open the key file to a group, which ssh refuses of root */
        return json_pack("{s:i, s:{s:s}}", "runAsUser", 0, "seccompProfile", "type", "RuntimeDefault");
    return json_pack("{s:b, s:I, s:I, s:I, s:s, s:{s:s}}", "runAsNonRoot", 1, "runAsUser", user, "runAsGroup", user, "fsGroup", user, "fsGroupChangePolicy", "OnRootMismatch", "seccompProfile", "type",
                     "RuntimeDefault");
}

static json_t *resources_of_worker(const struct maker *m)
{
    json_t *r = json_object();

    set(r, "cpu", m->s->cpu);
    set(r, "memory", m->job->k8s.memory);
    if (m->job->cluster.gpus_per_node)
        json_object_set_new(r, m->job->k8s.gpu, json_integer(m->job->cluster.gpus_per_node));
    if (m->s->rdma.key)
        json_object_set_new(r, m->s->rdma.key, json_integer(atoi(m->s->rdma.value)));
    return json_pack("{s:O, s:o}", "requests", r, "limits", r);
}

static json_t *resources_of_launcher(const struct maker *m)
{
    return json_pack("{s:{s:s, s:s}, s:{s:s}}", "requests", "cpu", m->job->k8s.launcher_cpu, "memory", m->job->k8s.launcher_memory, "limits", "memory", m->job->k8s.launcher_memory);
}

static json_t *mounts(const struct maker *m, int worker)
{
    json_t *list = json_array();

    if (worker)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", "shm", "mountPath", "/dev/shm"));
    for (int i = 0; i < m->s->n_volume; i++) {
        char name[32];
        json_t *mount;

        snprintf(name, sizeof name, "volume-%d", i);
        mount = json_pack("{s:s, s:s}", "name", name, "mountPath", m->s->volume[i].path);
        if (m->s->volume[i].read_only)
            json_object_set_new(mount, "readOnly", json_true());
        json_array_append_new(list, mount);
    }
    return list;
}

static json_t *volume_source(const struct zep_k8s_volume *v)
{
    switch (v->kind) {
    case ZEP_K8S_PVC:
        return json_pack("{s:{s:s}}", "persistentVolumeClaim", "claimName", v->name);
    case ZEP_K8S_CONFIGMAP:
        return json_pack("{s:{s:s}}", "configMap", "name", v->name);
    case ZEP_K8S_SECRET:
        return json_pack("{s:{s:s}}", "secret", "secretName", v->name);
    case ZEP_K8S_EMPTYDIR:
        return json_pack("{s:{s:s}}", "emptyDir", "sizeLimit", v->name);
    default:
        return json_pack("{s:{s:s}}", "hostPath", "path", v->name);
    }
}

static json_t *volumes(const struct maker *m, int worker)
{
    json_t *list = json_array();

    if (worker)
        json_array_append_new(list, json_pack("{s:s, s:{s:s, s:s}}", "name", "shm", "emptyDir", "medium", "Memory", "sizeLimit", m->job->k8s.shm));
    for (int i = 0; i < m->s->n_volume; i++) {
        json_t *v = json_object(), *source = volume_source(&m->s->volume[i]);
        char name[32];

        snprintf(name, sizeof name, "volume-%d", i);
        set(v, "name", name);
        json_object_update(v, source);
        json_decref(source);
        json_array_append_new(list, v);
    }
    return list;
}

static json_t *container(const struct maker *m, const char *name, json_t *command, json_t *env, json_t *resources, int worker)
{
    json_t *c = json_object(), *mount = mounts(m, worker);

    set(c, "name", name);
    set(c, "image", m->job->k8s.image);
    set(c, "imagePullPolicy", "IfNotPresent");
    json_object_set_new(c, "command", command);
    json_object_set_new(c, "env", env);
    json_object_set_new(c, "securityContext", security_of_container(m));
    json_object_set_new(c, "resources", resources);
    if (json_array_size(mount))
        json_object_set_new(c, "volumeMounts", mount);
    else
        json_decref(mount);
    return c;
}

static json_t *launcher_container(const struct maker *m, struct zep_error *err)
{
    struct zep_job in_pod = *m->job;
    struct zep_buf text = ZEP_BUF_INIT;
    json_t *command = json_array(), *env = json_array();

    in_pod.run_root = in_pod.k8s.run_root; /* the job as it is in the pod */
    if (zep_job_to_yaml(&in_pod, 0, &text, err) < 0) {
        zep_buf_free(&text);
        json_decref(command);
        json_decref(env);
        return NULL;
    }
    add_text(command, "%s/bin/zeppelin", m->job->k8s.prefix);
    add_text(command, "k8s");
    add_text(command, "launch");
    if (m->attempt > 1)
        add_text(command, "--break-lock"); /* the attempt before has ended, as the API said */
    add_text(command, "%s/%s", m->job->k8s.run_root, m->run_id);
    for (int i = 0; i < m->s->n_secret; i++)
        json_array_append_new(env, env_from(m->s->secret[i].variable, json_pack("{s:{s:s, s:s}}", "secretKeyRef", "name", m->s->secret[i].secret, "key", m->s->secret[i].key)));
    json_array_append_new(env, json_pack("{s:s, s:o}", "name", ZEP_K8S_JOB_VARIABLE, "value", pod_text(text.data)));
    zep_buf_free(&text);
    return container(m, "launcher", command, env, resources_of_launcher(m), 0);
}

static json_t *worker_container(const struct maker *m)
{
    json_t *command = json_array(), *c;

    add_text(command, "%s/libexec/zeppelin/zeppelin-worker", m->job->k8s.prefix);
    add_text(command, "--port");
    add_text(command, "%d", (int)m->job->k8s.port);
    add_text(command, "--keys");
    add_text(command, "%s", m->s->ssh_dir);
    add_text(command, "--grace");
    add_text(command, "%d", (int)m->job->cluster.grace_s);
    c = container(m, "worker", command, json_pack("[o]", env_from("NODE_NAME", json_pack("{s:{s:s}}", "fieldRef", "fieldPath", "spec.nodeName"))), resources_of_worker(m), 1);
    json_object_set_new(c, "ports", json_pack("[{s:s, s:i}]", "name", "ssh", "containerPort", (int)m->job->k8s.port));
    json_object_set_new(c, "readinessProbe", json_pack("{s:{s:i}, s:i, s:i}", "tcpSocket", "port", (int)m->job->k8s.port, "initialDelaySeconds", 1, "periodSeconds", 3));
    return c;
}

/* --- placement --- */

static json_t *our_workers(const struct maker *m)
{
    return json_pack("{s:{s:s, s:s}}", "matchLabels", ZEP_K8S_OPERATOR_NAME, m->name, ZEP_K8S_OPERATOR_ROLE, "worker");
}

static json_t *affinity_term(const struct maker *m, const char *key)
{
    return json_pack("{s:o, s:s}", "labelSelector", our_workers(m), "topologyKey", key);
}

static void put_placement(const struct maker *m, json_t *pod)
{
    static const char preferred[] = "preferredDuringSchedulingIgnoredDuringExecution", required[] = "requiredDuringSchedulingIgnoredDuringExecution";
    json_t *affinity = json_object(), *list;

    if (m->s->topology.key && !*m->job->k8s.queue) {
        if (!strcmp(m->s->topology.key, "required"))
            json_object_set_new(affinity, "podAffinity", json_pack("{s:[o]}", required, affinity_term(m, m->s->topology.value)));
        else
            json_object_set_new(affinity, "podAffinity", json_pack("{s:[{s:i, s:o}]}", preferred, "weight", 100, "podAffinityTerm", affinity_term(m, m->s->topology.value)));
    }
    if (!strcmp(m->job->k8s.spread, "require"))
        json_object_set_new(affinity, "podAntiAffinity", json_pack("{s:[o]}", required, affinity_term(m, HOSTNAME_KEY)));
    if (json_object_size(affinity))
        json_object_set(pod, "affinity", affinity);
    json_decref(affinity);
    if (!strcmp(m->job->k8s.spread, "prefer"))
        json_object_set_new(pod, "topologySpreadConstraints",
                            json_pack("[{s:i, s:s, s:s, s:o}]", "maxSkew", 1, "topologyKey", HOSTNAME_KEY, "whenUnsatisfiable", "ScheduleAnyway", "labelSelector", our_workers(m)));
    if (m->s->node_selector.n) {
        json_object_set_new(pod, "nodeSelector", list = json_object());
        for (int i = 0; i < m->s->node_selector.n; i++)
            set(list, m->s->node_selector.v[i].key, m->s->node_selector.v[i].value);
    }
    if (!m->s->n_toleration)
        return;
    json_object_set_new(pod, "tolerations", list = json_array());
    for (int i = 0; i < m->s->n_toleration; i++) {
        const struct zep_k8s_toleration *t = &m->s->toleration[i];
        json_t *one = json_pack("{s:s, s:s}", "key", t->key, "operator", t->value ? "Equal" : "Exists");

        if (t->value)
            set(one, "value", t->value);
        if (t->effect)
            set(one, "effect", t->effect);
        json_array_append_new(list, one);
    }
}

/* --- the whole --- */

static json_t *pod(const struct maker *m, json_t *c, int worker)
{
    json_t *p = json_object(), *v = volumes(m, worker);
    int token = !worker && *m->job->k8s.service_account;

    if (token)
        set(p, "serviceAccountName", m->job->k8s.service_account);
    json_object_set_new(p, "automountServiceAccountToken", json_boolean(token));
    json_object_set_new(p, "enableServiceLinks", json_false());
    json_object_set_new(p, "terminationGracePeriodSeconds", json_integer((json_int_t)m->job->cluster.grace_s + EXTRA_GRACE_S));
    json_object_set_new(p, "securityContext", security_of_pod(m));
    if (*m->job->k8s.pull_secret)
        json_object_set_new(p, "imagePullSecrets", json_pack("[{s:s}]", "name", m->job->k8s.pull_secret));
    set_if(p, "schedulerName", m->job->k8s.scheduler);
    set_if(p, "priorityClassName", m->job->k8s.priority);
    if (worker)
        put_placement(m, p);
    json_object_set_new(p, "containers", json_pack("[o]", c));
    if (json_array_size(v))
        json_object_set_new(p, "volumes", v);
    else
        json_decref(v);
    return p;
}

static json_t *replica(const struct maker *m, json_t *c, int worker)
{
    return json_pack("{s:i, s:s, s:{s:o, s:o}}", "replicas", worker ? m->s->nodes : 1, "restartPolicy", "Never", "template", "metadata", template_metadata(m, worker), "spec", pod(m, c, worker));
}

/* backoffLimit 0: a second try of the pod would begin without its log; the launcher itself tries again, and `zeppelin wait --resubmit` makes the next attempt. */
static json_t *run_policy(const struct maker *m)
{
    int together = !strcmp(m->job->k8s.start, "together");
    json_t *p = json_object(), *gang = json_object();

    set(p, "cleanPodPolicy", "Running");
    json_object_set_new(p, "backoffLimit", json_integer(0));
    if (m->job->k8s.ttl_s > 0)
        json_object_set_new(p, "ttlSecondsAfterFinished", json_integer((json_int_t)m->job->k8s.ttl_s));
    if (m->job->cluster.time_s > 0)
        json_object_set_new(p, "activeDeadlineSeconds", json_integer((json_int_t)m->job->cluster.time_s));
    json_object_set_new(gang, "minAvailable", json_integer(m->s->nodes + together)); /* the launcher is not there yet when workers wait for each other */
    set_if(gang, "queue", m->job->k8s.gang_queue);
    set_if(gang, "priorityClass", m->job->k8s.priority);
    json_object_set_new(p, "schedulingPolicy", gang);
    return p;
}

/* Does a NULL, as json_pack and friends give when memory runs out, lie in it? Then a part is missing. */
static int is_whole(const json_t *j)
{
    const json_t *spec = json_object_get(j, "spec"), *r = json_object_get(spec, "mpiReplicaSpecs");
    static const char *const role[] = {"Launcher", "Worker"};

    for (int i = 0; i < 2; i++) {
        const json_t *c = json_array_get(json_object_get(json_object_get(json_object_get(json_object_get(r, role[i]), "template"), "spec"), "containers"), 0);

        if (!json_object_get(c, "command") || !json_object_get(c, "env") || !json_object_get(c, "resources"))
            return 0;
    }
    return json_object_get(spec, "runPolicy") && json_object_get(j, "metadata");
}

int zep_k8s_manifest(const struct zep_k8s_spec *spec, const char *run_id, int attempt, json_t **out, struct zep_error *err)
{
    char name[64];
    struct maker m = {spec, spec->job, name, run_id, attempt};
    json_t *meta = json_object(), *j, *l, *launcher = launcher_container(&m, err);

    if (!launcher) {
        json_decref(meta);
        return err ? err->code : ZEP_ENOMEM;
    }
    zep_k8s_attempt_name(spec->job->name, attempt, name);
    set(meta, "name", name);
    set_if(meta, "namespace", spec->job->k8s.ns);
    l = labels(&m);
    set_if(l, "kueue.x-k8s.io/queue-name", spec->job->k8s.queue); /* on the job only; Kueue itself suspends and resumes it */
    json_object_set_new(meta, "labels", l);
    j = json_pack("{s:s, s:s, s:o, s:{s:i, s:s, s:s, s:s, s:o, s:{s:o, s:o}}}", "apiVersion", "kubeflow.org/v2beta1", "kind", "MPIJob", "metadata", meta, "spec", "slotsPerWorker", spec->slots,
                  "sshAuthMountPath", spec->ssh_dir, "mpiImplementation", "OpenMPI", "launcherCreationPolicy", strcmp(spec->job->k8s.start, "together") ? "WaitForWorkersReady" : "AtStartup", "runPolicy",
                  run_policy(&m), "mpiReplicaSpecs", "Launcher", replica(&m, launcher, 0), "Worker", replica(&m, worker_container(&m), 1));
    if (!j || !is_whole(j)) {
        json_decref(j);
        return zep_error_nomem(err, "manifest");
    }
    *out = j;
    return ZEP_OK;
}
