#include "config.h"
#include "launcher/k8s_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/units.h"
#include "launcher/k8s_words.h"

/* What the operator makes: NAME-worker-N is a DNS-1035 label of at most 63, NAME-launcher gets six more from its Job. Ours: "-r99", and the run's id, which is a label. */
#define NAME_MAX_CHARS 42
#define HOST_CHARS 63

struct maker {
    struct zep_k8s_spec *s;
    struct zep_mistakes *mistakes;
    int n_bad, out_of_memory;
};

static void bad(struct maker *m, const char *key, const struct zep_error *e)
{
    m->n_bad++;
    zep_job_mistake(m->s->job, m->mistakes, key, e->code, "%s: %s", key, e->text);
}

static void bad_text(struct maker *m, const char *key, const char *fmt, ...) ZEP_PRINTF(3, 4);
static void bad_text(struct maker *m, const char *key, const char *fmt, ...)
{
    struct zep_error e;
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(&e, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    bad(m, key, &e);
}

/* 1: good. */
static int good(struct maker *m, const char *key, int rc, const struct zep_error *e)
{
    if (rc < 0)
        bad(m, key, e);
    return rc == ZEP_OK;
}

static char *copy_of(struct maker *m, const char *text, size_t n)
{
    char *c = strndup(text, n);

    m->out_of_memory |= !c;
    return c;
}

/* --- lists: items divided by commas, "\," is a comma --- */

typedef void (*item_fn)(struct maker *m, const char *key, char *item);

static void each_item(struct maker *m, const char *key, const char *text, item_fn fn)
{
    char *copy = copy_of(m, text, strlen(text)), *item = copy, *to = copy;

    for (char *p = copy; p; p++) {
        int end = *p == '\0';

        if (*p == '\\' && p[1] == ',') {
            *to++ = *++p;
        } else if (*p && *p != ',') {
            *to++ = *p;
        } else {
            *to = '\0';
            while (to > item && (to[-1] == ' ' || to[-1] == '\t'))
                *--to = '\0';
            item += strspn(item, " \t");
            if (*item)
                fn(m, key, item);
            else if (!end || item != copy)
                bad_text(m, key, "an empty item between commas");
            item = to = p + 1;
            if (end)
                break;
        }
    }
    free(copy);
}

static void *grown(struct maker *m, void *v, int n, size_t size)
{
    void *more = zep_reallocarray(v, (size_t)n + 1, size);

    m->out_of_memory |= !more;
    return more;
}

static void add_pair(struct maker *m, struct zep_k8s_pairs *p, const char *key, const char *item, size_t n)
{
    struct zep_k8s_pair *v = grown(m, p->v, p->n, sizeof *v);

    if (!v)
        return;
    p->v = v;
    v[p->n++] = (struct zep_k8s_pair){copy_of(m, item, n), copy_of(m, item + n + 1, strlen(item + n + 1))};
    for (int i = 0; i + 1 < p->n; i++)
        if (v[i].key && v[p->n - 1].key && !strcmp(v[i].key, v[p->n - 1].key))
            bad_text(m, key, "'%.200s' is given twice", v[i].key);
}

static void take_pair(struct maker *m, const char *key, char *item, struct zep_k8s_pairs *p, int any_value)
{
    char *eq = strchr(item, '=');
    struct zep_error e;

    if (!eq) {
        bad_text(m, key, "'%.200s': expected KEY=VALUE", item);
        return;
    }
    *eq = '\0';
    if (!good(m, key, zep_k8s_check_key(item, &e), &e) || (!any_value && !good(m, key, zep_k8s_check_value(eq + 1, &e), &e)))
        return;
    *eq = '=';
    add_pair(m, p, key, item, (size_t)(eq - item));
}

static void take_selector(struct maker *m, const char *key, char *item)
{
    take_pair(m, key, item, &m->s->node_selector, 0);
}

/* Labels that the operator, Kueue or we give a meaning to are not the user's to set. */
static int is_taken(const char *item)
{
    static const char *const ours[] = {"training.kubeflow.org/", "zeppelin/", "app.kubernetes.io/managed-by=", "kueue.x-k8s.io/queue-name="};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (!strncmp(item, ours[i], strlen(ours[i])))
            return 1;
    return 0;
}

static void take_label(struct maker *m, const char *key, char *item)
{
    if (is_taken(item))
        bad_text(m, key, "'%.200s': this label is set by zeppelin or the operator (k8s.queue sets Kueue's)", item);
    else
        take_pair(m, key, item, &m->s->labels, 0);
}

static void take_annotation(struct maker *m, const char *key, char *item)
{
    take_pair(m, key, item, &m->s->annotations, 1);
}

static void take_toleration(struct maker *m, const char *key, char *item)
{
    struct zep_k8s_toleration *v = grown(m, m->s->toleration, m->s->n_toleration, sizeof *v), *t;
    char *colon = strrchr(item, ':'), *eq;
    struct zep_error e;

    if (!v)
        return;
    m->s->toleration = v;
    if (colon) {
        *colon = '\0';
        if (strcmp(colon + 1, "NoSchedule") && strcmp(colon + 1, "PreferNoSchedule") && strcmp(colon + 1, "NoExecute")) {
            bad_text(m, key, "'%.100s': expected NoSchedule, PreferNoSchedule or NoExecute after the ':'", colon + 1);
            return;
        }
    }
    if ((eq = strchr(item, '=')))
        *eq = '\0';
    if (!good(m, key, zep_k8s_check_key(item, &e), &e) || (eq && !good(m, key, zep_k8s_check_value(eq + 1, &e), &e)))
        return;
    t = &v[m->s->n_toleration++];
    *t = (struct zep_k8s_toleration){copy_of(m, item, strlen(item)), eq ? copy_of(m, eq + 1, strlen(eq + 1)) : NULL, colon ? copy_of(m, colon + 1, strlen(colon + 1)) : NULL};
}

/* cluster.secrets: each from a Secret of the cluster. */
static void take_secrets(struct maker *m)
{
    const struct zep_job_map *map = &m->s->job->cluster.secrets;

    for (int i = 0; i < map->n; i++) {
        const char *name = map->pair[i].name, *value = map->pair[i].value, *slash = strchr(value, '/');
        struct zep_k8s_secret *v = grown(m, m->s->secret, m->s->n_secret, sizeof *v);
        char key[160], *secret;
        struct zep_error e;

        if (!v)
            return;
        m->s->secret = v;
        snprintf(key, sizeof key, "cluster.secrets.%.100s", name);
        if (strncmp(value, "k8s:", 4) || !slash) {
            bad_text(m, key, "'%.200s': pods get secrets from the cluster: expected {k8s: SECRET/KEY}", value);
            continue;
        }
        if (!(secret = copy_of(m, value + 4, (size_t)(slash - value - 4))))
            return;
        if (!good(m, key, zep_k8s_check_object(secret, &e), &e) || !good(m, key, zep_k8s_check_data_key(slash + 1, &e), &e) || !good(m, key, zep_k8s_check_variable(name, &e), &e)) {
            free(secret);
            continue;
        }
        if (!strncmp(name, "OMPI_", 5) || !strncmp(name, "PRTE_", 5) || !strncmp(name, "ZEPPELIN_", 9))
            bad_text(m, key, "this variable is set by the launch");
        v[m->s->n_secret++] = (struct zep_k8s_secret){copy_of(m, name, strlen(name)), secret, copy_of(m, slash + 1, strlen(slash + 1))};
    }
}

/* --- volumes --- */

static const char *const kinds[] = {"", "pvc", "configmap", "secret", "emptydir", "host"};

static int check_source(struct maker *m, const char *key, enum zep_k8s_kind kind, const char *name)
{
    struct zep_error e;
    double bytes;

    switch (kind) {
    case ZEP_K8S_EMPTYDIR:
        return good(m, key, zep_k8s_quantity(name, &bytes, &e), &e);
    case ZEP_K8S_HOST:
        if (!m->s->job->cluster.root) {
            bad_text(m, key, "host:%.200s: a folder of the node is refused by Pod Security 'restricted': expected cluster.root: true with it", name);
            return 0;
        }
        return good(m, key, zep_k8s_check_path(name, &e), &e);
    default:
        return good(m, key, zep_k8s_check_object(name, &e), &e);
    }
}

static int is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    while (n > 1 && folder[n - 1] == '/')
        n--;
    return !strncmp(path, folder, n) && (path[n] == '/' || path[n] == '\0' || n == 1);
}

/* The operator and we mount these. */
static int is_free_path(struct maker *m, const char *key, const char *path)
{
    const char *used[] = {"/etc/mpi", "/dev/shm", m->s->ssh_dir ? m->s->ssh_dir : "/", NULL};

    for (int i = 0; used[i]; i++)
        if (is_below(used[i], path) || is_below(path, used[i])) {
            bad_text(m, key, "'%.200s': %s is mounted by the launch", path, used[i]);
            return 0;
        }
    for (int i = 0; i < m->s->n_volume; i++)
        if (m->s->volume[i].path && !strcmp(m->s->volume[i].path, path)) {
            bad_text(m, key, "'%.200s' is mounted twice", path);
            return 0;
        }
    return 1;
}

static void take_volume(struct maker *m, const char *key, char *item)
{
    struct zep_k8s_volume *v = grown(m, m->s->volume, m->s->n_volume, sizeof *v);
    char *name = strchr(item, ':'), *path = name ? strchr(name + 1, ':') : NULL, *flag = path ? strchr(path + 1, ':') : NULL;
    enum zep_k8s_kind kind = ZEP_K8S_NONE;
    struct zep_error e;

    if (!v)
        return;
    m->s->volume = v;
    if (!path || (flag && strcmp(flag, ":ro") && strcmp(flag, ":rw"))) {
        bad_text(m, key, "'%.200s': expected KIND:NAME:/PATH or KIND:NAME:/PATH:ro, as in pvc:runs:/runs", item);
        return;
    }
    *name++ = *path++ = '\0';
    if (flag)
        *flag++ = '\0';
    for (int i = 1; i < (int)(sizeof kinds / sizeof kinds[0]); i++)
        if (!strcmp(kinds[i], item))
            kind = (enum zep_k8s_kind)i;
    if (!kind) {
        bad_text(m, key, "'%.200s': expected pvc, configmap, secret, emptydir or host before the first ':'", item);
        return;
    }
    if (!check_source(m, key, kind, name) || !good(m, key, zep_k8s_check_path(path, &e), &e) || !is_free_path(m, key, path))
        return;
    v[m->s->n_volume++] = (struct zep_k8s_volume){kind, copy_of(m, name, strlen(name)), copy_of(m, path, strlen(path)), (flag && !strcmp(flag, "ro")) || kind == ZEP_K8S_CONFIGMAP || kind == ZEP_K8S_SECRET};
}

/* Checkpoints on what goes with the pod would be none. */
static void check_run_root(struct maker *m)
{
    const char *root = m->s->job->k8s.run_root;
    const struct zep_k8s_volume *v = NULL;
    struct zep_error e;

    if (!good(m, "k8s.run_root", zep_k8s_check_path(root, &e), &e))
        return;
    for (int i = 0; i < m->s->n_volume; i++)
        if (is_below(root, m->s->volume[i].path) && (!v || strlen(m->s->volume[i].path) > strlen(v->path)))
            v = &m->s->volume[i];
    if (!v || v->kind == ZEP_K8S_EMPTYDIR)
        bad_text(m, "k8s.run_root", "'%.200s': no volume of k8s.volumes that lasts is mounted there: run folder and checkpoints would go with the pod (pvc:NAME:%.200s)", root, root);
    else if (v->read_only)
        bad_text(m, "k8s.run_root", "'%.200s': the volume is mounted read-only", root);
}

/* --- single values --- */

static double check_quantity(struct maker *m, const char *key, const char *text, double least, const char *least_text)
{
    struct zep_error e;
    double v = 0;

    if (!good(m, key, zep_k8s_quantity(text, &v, &e), &e))
        return -1;
    if (v < least) {
        size_t n = strlen(text);

        if (n && text[n - 1] == 'm' && least > 1)
            bad_text(m, key, "'%s' is %g bytes (m is a thousandth): expected at least %s (did you mean '%.*sMi'?)", text, v, least_text, (int)n - 1, text);
        else
            bad_text(m, key, "'%s': expected at least %s", text, least_text);
        return -1;
    }
    return v;
}

static void check_sizes(struct maker *m)
{
    const struct zep_job *job = m->s->job;
    double memory, shm;

    snprintf(m->s->cpu, sizeof m->s->cpu, "%.31s", job->k8s.cpu);
    if (!strcmp(job->k8s.cpu, "auto"))
        snprintf(m->s->cpu, sizeof m->s->cpu, "%" PRId64, m->s->slots * job->cluster.cpus_per_rank);
    else if (strlen(job->k8s.cpu) > 31)
        bad_text(m, "k8s.cpu", "'%.100s': expected a quantity of at most 31 characters", job->k8s.cpu);
    else
        check_quantity(m, "k8s.cpu", job->k8s.cpu, 0.001, "1m");
    memory = check_quantity(m, "k8s.memory", job->k8s.memory, 16.0 * 1048576, "16Mi");
    shm = check_quantity(m, "k8s.shm", job->k8s.shm, 1048576, "1Mi");
    if (memory > 0 && shm > memory)
        bad_text(m, "k8s.shm", "'%s' is more than k8s.memory (%s): what lies in /dev/shm counts as the worker's memory", job->k8s.shm, job->k8s.memory);
    check_quantity(m, "k8s.launcher_cpu", job->k8s.launcher_cpu, 0.001, "1m");
    check_quantity(m, "k8s.launcher_memory", job->k8s.launcher_memory, 16.0 * 1048576, "16Mi");
}

static void check_name(struct maker *m)
{
    int digits = snprintf(NULL, 0, "%d", m->s->nodes > 1 ? m->s->nodes - 1 : 0), room = HOST_CHARS - (int)strlen("-r99-worker-") - digits;
    struct zep_error e;

    good(m, "name", zep_k8s_check_name(m->s->job->name, room < NAME_MAX_CHARS ? room : NAME_MAX_CHARS, &e), &e);
}

static void check_object(struct maker *m, const char *key, const char *value)
{
    struct zep_error e;

    if (*value)
        good(m, key, zep_k8s_check_object(value, &e), &e);
}

static void check_words(struct maker *m)
{
    const struct zep_job *job = m->s->job;
    struct zep_error e;

    good(m, "k8s.image", zep_k8s_check_image(job->k8s.image, &e), &e);
    if (*job->k8s.ns)
        good(m, "k8s.namespace", zep_k8s_check_label(job->k8s.ns, &e), &e);
    check_object(m, "k8s.service_account", job->k8s.service_account);
    check_object(m, "k8s.pull_secret", job->k8s.pull_secret);
    check_object(m, "k8s.scheduler", job->k8s.scheduler);
    check_object(m, "k8s.priority", job->k8s.priority);
    check_object(m, "k8s.gang_queue", job->k8s.gang_queue);
    if (*job->k8s.queue)
        good(m, "k8s.queue", zep_k8s_check_label(job->k8s.queue, &e), &e);
    good(m, "k8s.gpu", zep_k8s_check_key(job->k8s.gpu, &e), &e);
    good(m, "k8s.prefix", zep_k8s_check_path(job->k8s.prefix, &e), &e);
    good(m, "k8s.home", zep_k8s_check_path(job->k8s.home, &e), &e);
    if (job->k8s.port < 1024 && !job->cluster.root)
        bad_text(m, "k8s.port", "'%" PRId64 "': a port below 1024 needs root (cluster.root: true)", job->k8s.port);
}

static void take_rdma(struct maker *m)
{
    const char *text = m->s->job->cluster.rdma, *eq = strchr(text, '=');
    struct zep_error e;
    int64_t count = 1;

    if (!*text)
        return;
    m->s->rdma.key = copy_of(m, text, eq ? (size_t)(eq - text) : strlen(text));
    m->s->rdma.value = copy_of(m, eq ? eq + 1 : "1", eq ? strlen(eq + 1) : 1);
    if (m->out_of_memory)
        return;
    good(m, "cluster.rdma", zep_k8s_check_key(m->s->rdma.key, &e), &e);
    good(m, "cluster.rdma", zep_parse_int(m->s->rdma.value, 1, 1024, &count, &e), &e);
    if (!strcmp(m->s->rdma.key, m->s->job->k8s.gpu))
        bad_text(m, "cluster.rdma", "'%.200s' is k8s.gpu as well", text);
}

static void take_topology(struct maker *m)
{
    const char *text = m->s->job->k8s.topology, *colon = strchr(text, ':');
    struct zep_error e;

    if (!*text)
        return;
    if (!colon || (strncmp(text, "preferred:", 10) && strncmp(text, "required:", 9))) {
        bad_text(m, "k8s.topology", "'%.200s': expected preferred:KEY or required:KEY, KEY a label of nodes (topology.kubernetes.io/zone)", text);
        return;
    }
    if (!good(m, "k8s.topology", zep_k8s_check_key(colon + 1, &e), &e))
        return;
    m->s->topology = (struct zep_k8s_pair){copy_of(m, text, (size_t)(colon - text)), copy_of(m, colon + 1, strlen(colon + 1))};
}

int zep_k8s_spec_new(const struct zep_job *job, struct zep_mistakes *mistakes, struct zep_k8s_spec **out, struct zep_error *err)
{
    struct zep_k8s_spec *s = zep_calloc(1, sizeof *s);
    struct maker m = {s, mistakes, 0, 0};
    const char *home = job->cluster.root ? "/root" : job->k8s.home; /* exactly /root/.ssh gets the mode that root's ssh wants */
    size_t size = strlen(home) + 8;

    if (!s || !(s->ssh_dir = zep_calloc(size, 1))) {
        free(s);
        return zep_error_nomem(err, "k8s");
    }
    snprintf(s->ssh_dir, size, "%s/.ssh", home);
    s->job = job;
    s->nodes = (int)job->cluster.nodes;
    s->slots = (int)(job->cluster.devices * job->cluster.tp);
    check_name(&m);
    check_words(&m);
    check_sizes(&m);
    each_item(&m, "k8s.volumes", job->k8s.volumes, take_volume);
    check_run_root(&m);
    take_secrets(&m);
    each_item(&m, "k8s.node_selector", job->k8s.node_selector, take_selector);
    each_item(&m, "k8s.tolerations", job->k8s.tolerations, take_toleration);
    each_item(&m, "k8s.labels", job->k8s.labels, take_label);
    each_item(&m, "k8s.annotations", job->k8s.annotations, take_annotation);
    take_rdma(&m);
    take_topology(&m);
    if (m.out_of_memory || m.n_bad) {
        zep_k8s_spec_free(s);
        return m.out_of_memory ? zep_error_nomem(err, "k8s") : zep_error_set(err, ZEP_EINVAL, "%d mistake%s in what Kubernetes is asked for", m.n_bad, m.n_bad == 1 ? "" : "s");
    }
    *out = s;
    return ZEP_OK;
}

static void free_pairs(struct zep_k8s_pairs *p)
{
    for (int i = 0; i < p->n; i++) {
        free(p->v[i].key);
        free(p->v[i].value);
    }
    free(p->v);
}

void zep_k8s_spec_free(struct zep_k8s_spec *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_volume; i++) {
        free(s->volume[i].name);
        free(s->volume[i].path);
    }
    for (int i = 0; i < s->n_secret; i++) {
        free(s->secret[i].variable);
        free(s->secret[i].secret);
        free(s->secret[i].key);
    }
    for (int i = 0; i < s->n_toleration; i++) {
        free(s->toleration[i].key);
        free(s->toleration[i].value);
        free(s->toleration[i].effect);
    }
    free(s->volume);
    free(s->secret);
    free(s->toleration);
    free_pairs(&s->node_selector);
    free_pairs(&s->labels);
    free_pairs(&s->annotations);
    free(s->rdma.key);
    free(s->rdma.value);
    free(s->topology.key);
    free(s->topology.value);
    free(s->ssh_dir);
    free(s);
}
