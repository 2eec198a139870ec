#include "config.h"
#include "launcher/precheck.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/log.h"
#include "common/yaml.h"
#include "launcher/container.h"
#include "launcher/environment.h"
#include "launcher/inputs.h"
#include "launcher/k8s_spec.h"
#include "planner/cost.h"
#include "planner/dataset.h"
#include "planner/plan.h"
#include "planner/workload.h"

struct findings {
    struct zep_job *job;
    struct zep_mistakes *m;
};

/* Adds an error, with where the key got its value in front. */
static void add(struct findings *f, const char *key, const struct zep_error *e)
{
    zep_job_mistake(f->job, f->m, key, e->code, "%s", e->text);
}

/* Nothing can be said of what hangs on a value that is not as meant. */
static int in_doubt(const struct findings *f, const char *const *keys)
{
    for (; *keys; keys++)
        if (zep_mistakes_doubt(f->m, *keys))
            return 1;
    return 0;
}

/* The first million tokens: a set of another vocabulary is found here; the ranks look at every token that they use. */
static int check_tokens(const struct zep_dataset *set, int64_t vocab, int64_t longest, struct zep_error *err)
{
    int32_t *token = zep_calloc((size_t)longest, sizeof *token);
    int rc = token ? ZEP_OK : zep_error_nomem(err, "tokens");

    for (int64_t i = 0, n = 0; rc == ZEP_OK && i < zep_dataset_n_doc(set) && n < 1000000; i++) {
        rc = zep_dataset_read_doc(set, i, vocab, token, err);
        n += zep_dataset_len(set, i);
    }
    free(token);
    return rc;
}

static void check_method(struct findings *f)
{
    const struct zep_method *const *m = zep_methods();
    const char *names[32] = {NULL}, *wanted = f->job->plan.method, *near;
    struct zep_error e;

    for (int i = 0; m[i]; i++) {
        if (!strcmp(m[i]->name, wanted))
            return;
        if (i < 31)
            names[i] = m[i]->name;
    }
    near = zep_nearest(wanted, names);
    zep_error_set(&e, ZEP_EINVAL, near ? "plan.method: '%s' (did you mean '%s'?): `zeppelin plan --help` lists the methods" : "plan.method: '%s': `zeppelin plan --help` lists the methods", wanted,
                  near ? near : "");
    add(f, "plan.method", &e);
}

static void check_device(struct findings *f)
{
    struct zep_engine engine;
    struct zep_error e;

    if (*f->job->plan.device && zep_engine_load(f->job->plan.device, &engine, &e) < 0) {
        zep_error_prefix(&e, "plan.device");
        add(f, "plan.device", &e);
    } else if (!*f->job->plan.device && !strcmp(f->job->plan.method, "auto")) {
        zep_error_set(&e, ZEP_EINVAL, "plan.method: 'auto' chooses by predicted time: set plan.device, the kind of device");
        add(f, "plan.method", &e);
    }
}

static void check_tp(struct findings *f)
{
    struct zep_error e;

    if (f->job->cluster.tp == 1)
        return;
    zep_error_set(&e, ZEP_EUNSUPPORTED, "cluster.tp is %" PRId64 ": tensor parallelism is planned and checked, but this version's runtime trains with cluster.tp: 1", f->job->cluster.tp);
    add(f, "cluster.tp", &e);
}

/* there_only: what the set is measured by is in doubt. */
static int check_set(const struct zep_job *job, const char *prefix, int n_dev, int there_only, struct zep_error *err)
{
    struct zep_dataset *set = NULL;
    struct zep_batches *batches = NULL;
    int64_t cut, longest = 0, hold = job->plan.capacity * n_dev;
    int rc;

    if (there_only && (rc = zep_dataset_open(prefix, &set, err)) == ZEP_OK)
        goto out;
    if (there_only)
        return rc;
    if ((rc = zep_dataset_open(prefix, &set, err)) < 0 || (rc = zep_dataset_limit(set, job->data.context, !strcmp(job->data.too_long, "cut"), &cut, err)) < 0 ||
        (rc = zep_batches_new(set, job->train.tokens, 0, &batches, err)) < 0)
        goto out;
    for (int64_t i = 0; i < zep_dataset_n_doc(set); i++)
        longest = zep_dataset_len(set, i) > longest ? zep_dataset_len(set, i) : longest;
    if (hold > 0 && longest > hold)
        rc = zep_error_set(err, ZEP_EINVAL, "plan.capacity %" PRId64 " tokens x %d devices = %" PRId64 " is %" PRId64 " tokens short of the longest document's %" PRId64 "; plan.capacity: %" PRId64 " would fit",
                           job->plan.capacity, n_dev, hold, longest - hold, longest, (longest + n_dev - 1) / n_dev);
    if (rc == ZEP_OK)
        rc = check_tokens(set, job->model.vocab, longest, err);
out:
    zep_batches_free(batches);
    zep_dataset_close(set);
    return rc;
}

/* n_dev: 0: not known. */
static void check_data(struct findings *f, int n_dev)
{
    static const char *const needed[] = {"data.context", "data.too_long", "train.tokens", "plan.capacity", "model.vocab", NULL};
    const struct zep_job *job = f->job;
    int doubt = in_doubt(f, needed);
    struct zep_error e;

    if (zep_mistakes_doubt(f->m, "data.train")) {
        ; /* told of */
    } else if (!*job->data.train) {
        zep_error_set(&e, ZEP_EINVAL, "data.train is not set: expected the prefix of a data set, as `zeppelin data` makes it");
        add(f, "data.train", &e);
    } else if (check_set(job, job->data.train, n_dev, doubt, &e) < 0) {
        zep_error_prefix(&e, "data.train");
        add(f, "data.train", &e);
    }
    if (*job->data.heldout && !zep_mistakes_doubt(f->m, "data.heldout") && check_set(job, job->data.heldout, n_dev, doubt, &e) < 0) {
        zep_error_prefix(&e, "data.heldout");
        add(f, "data.heldout", &e);
    }
}

/* Devices in all, 0: the cluster is not as the job wants it. */
static int check_cluster(struct findings *f, struct zep_topo **topo_out)
{
    static const char *const needed[] = {"cluster.topology", "cluster.nodes", "cluster.devices", "cluster.tp", "cluster.where", NULL};
    struct zep_view *view = NULL;
    struct zep_error e;
    int n_dev = 0;

    if (in_doubt(f, needed))
        return 0;
    if (zep_inputs_cluster(f->job, topo_out, &view, &e) < 0)
        add(f, !strncmp(e.text, "cluster.nodes", 13) ? "cluster.nodes" : !strncmp(e.text, "cluster.devices", 15) ? "cluster.devices" : "cluster.topology", &e);
    else
        n_dev = view->n_dev;
    zep_view_free(view);
    return n_dev;
}

static int take(struct zep_mistakes *m, struct zep_error *err)
{
    int rc = zep_mistakes_error(m, err);

    zep_mistakes_free(m);
    return rc;
}

int zep_precheck_run(struct zep_job *job, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct findings f = {job, &m};
    struct zep_topo *topo = NULL;
    int rc;

    check_method(&f);
    check_device(&f);
    check_tp(&f);
    check_data(&f, check_cluster(&f, &topo));
    if ((rc = take(&m, err)) < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}

int zep_precheck_submit(struct zep_job *job, struct zep_error *err)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct findings f = {job, &m};
    struct zep_topo *topo = NULL;
    struct zep_error e;

    if (strcmp(job->cluster.where, "auto") && strcmp(job->cluster.where, "slurm"))
        zep_job_mistake(job, &m, "cluster.where", ZEP_EINVAL, "cluster.where is %s: expected slurm or auto for a job that is submitted", job->cluster.where);
    if (!job->cluster.nodes)
        job->cluster.nodes = 1;
    if (!job->cluster.devices)
        job->cluster.devices = job->cluster.gpus_per_node;
    if (!job->cluster.devices)
        zep_job_mistake(job, &m, "cluster.devices", ZEP_EINVAL, "cluster.devices: 'auto': expected a number for a batch job (ranks a node), or cluster.gpus_per_node");
    zep_secrets_check(job, &m);
    if (zep_container_check(job, &e) < 0)
        zep_mistakes_add(&m, NULL, e.code, "%s", e.text);
    check_method(&f);
    check_tp(&f);
    if (strcmp(job->cluster.topology, "auto") && job->cluster.devices)
        check_cluster(&f, &topo);
    zep_topo_free(topo);
    check_data(&f, (int)(job->cluster.nodes * job->cluster.devices));
    return take(&m, err);
}

/* Paths of the data are those in the pods. */
static void check_pod_path(struct findings *f, const char *key, const char *path)
{
    if (!*path && !strcmp(key, "data.train"))
        zep_job_mistake(f->job, f->m, key, ZEP_EINVAL, "data.train is not set: expected the prefix of a data set, as `zeppelin data` makes it, in the pods");
    else if (*path && *path != '/')
        zep_job_mistake(f->job, f->m, key, ZEP_EINVAL, "%s: '%s': on Kubernetes it is a path in the pods: expected an absolute one, below a volume (k8s.volumes) or in the image", key, path);
}

static int set_where_k8s(struct findings *f, struct zep_error *err)
{
    struct zep_job *job = f->job;
    char *where = strdup("k8s");

    if (strcmp(job->cluster.where, "auto") && strcmp(job->cluster.where, "k8s"))
        zep_job_mistake(job, f->m, "cluster.where", ZEP_EINVAL, "cluster.where is %s: expected k8s or auto for a job that goes to Kubernetes", job->cluster.where);
    if (!where)
        return zep_error_nomem(err, "job");
    free(job->cluster.where);
    job->cluster.where = where;
    return ZEP_OK;
}

/* Numbers that are 'auto' are filled in. NULL: there were mistakes. */
static struct zep_k8s_spec *check_k8s(struct findings *f)
{
    struct zep_k8s_spec *spec = NULL;
    struct zep_job *job = f->job;
    struct zep_error e;

    if (!job->cluster.nodes)
        job->cluster.nodes = 1;
    if (!job->cluster.devices)
        job->cluster.devices = job->cluster.gpus_per_node;
    if (!job->cluster.devices) {
        zep_job_mistake(job, f->m, "cluster.devices", ZEP_EINVAL, "cluster.devices: 'auto': expected a number on Kubernetes (ranks a worker), or cluster.gpus_per_node");
        job->cluster.devices = 1;
    }
    check_pod_path(f, "data.train", job->data.train);
    check_pod_path(f, "data.heldout", job->data.heldout);
    if (zep_k8s_spec_new(job, f->m, &spec, &e) < 0 && !f->m->n)
        zep_mistakes_add(f->m, NULL, e.code, "%s", e.text);
    return spec;
}

int zep_precheck_k8s(struct zep_job *job, struct zep_k8s_spec **spec_out, struct zep_error *err)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct findings f = {job, &m};
    struct zep_k8s_spec *spec;
    int rc;

    if ((rc = set_where_k8s(&f, err)) < 0)
        return rc;
    check_method(&f);
    check_device(&f);
    check_tp(&f);
    spec = check_k8s(&f);
    if ((rc = take(&m, err)) < 0)
        zep_k8s_spec_free(spec);
    else
        *spec_out = spec;
    return rc;
}

/* Where the job may run here or as a batch job, numbers that do not fit this machine are worth a remark only. */
static void remark_on_machine(const struct findings *f)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct findings here = {f->job, &m};
    struct zep_topo *topo = NULL;

    if (f->m->n || zep_inputs_slurm_job() || strcmp(f->job->cluster.where, "auto") || (!f->job->cluster.nodes && !f->job->cluster.devices))
        return;
    check_cluster(&here, &topo);
    if (m.n && m.text.data)
        zep_log(ZEP_LOG_WARN, "`zeppelin run` on this machine would refuse: %s", m.text.data);
    zep_mistakes_free(&m);
    zep_topo_free(topo);
}

void zep_precheck_check(struct zep_job *job, struct zep_mistakes *m)
{
    struct findings f = {job, m};
    struct zep_topo *topo = NULL;
    int n_dev = (int)(job->cluster.nodes * job->cluster.devices);

    if (!zep_mistakes_doubt(m, "plan.method"))
        check_method(&f);
    if (!zep_mistakes_doubt(m, "cluster.tp"))
        check_tp(&f);
    if (!strcmp(job->cluster.where, "k8s")) { /* cluster and data are those in the pods */
        zep_k8s_spec_free(check_k8s(&f));
        return;
    }
    if (strcmp(job->cluster.topology, "auto") || !strcmp(job->cluster.where, "local"))
        n_dev = check_cluster(&f, &topo);
    zep_topo_free(topo);
    check_data(&f, n_dev);
    if (!strcmp(job->cluster.topology, "auto"))
        remark_on_machine(&f);
}
