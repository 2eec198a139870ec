#include "config.h"
#include "launcher/inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/log.h"
#include "topology/source.h"

const char *zep_inputs_slurm_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");

    return job && *job ? job : NULL;
}

static void add_from(struct zep_topo_args *a, const char *kind, const char *value)
{
    size_t size = strlen(kind) + (value ? strlen(value) : 0) + 2;

    if (a->n_from < 0 || a->n_from == ZEP_MAX_FROM) {
        a->n_from = -1;
        return;
    }
    a->from[a->n_from] = value;
    if (*kind) {
        if (!(a->made[a->n_from] = zep_calloc(size, 1)))
            return;
        snprintf(a->made[a->n_from], size, "%s%s%s", kind, value && kind[strlen(kind) - 1] != '=' ? ":" : "", value ? value : "");
        a->from[a->n_from] = a->made[a->n_from];
    }
    a->n_from++;
}

int zep_inputs_topo_option(struct zep_topo_args *a, int option, const char *value)
{
    switch (option) {
    case ZEP_OPT_FROM:
    case ZEP_OPT_FILE:
        add_from(a, "", value);
        return 1;
    case ZEP_OPT_LOCAL:
        add_from(a, "local", NULL);
        return 1;
    case ZEP_OPT_SLURM:
        add_from(a, "slurm", NULL);
        return 1;
    case ZEP_OPT_JOB:
        add_from(a, "slurm:job=", value);
        return 1;
    case ZEP_OPT_SYNTHETIC:
        add_from(a, "synthetic", value);
        return 1;
    case ZEP_OPT_PRESET:
        add_from(a, "preset", value);
        return 1;
    case ZEP_OPT_LABELS:
        a->label_levels = value;
        return 1;
    case ZEP_OPT_HOSTS:
        a->hosts = value;
        return 1;
    case ZEP_OPT_ONLY:
        a->only = value;
        return 1;
    case ZEP_OPT_WITHOUT:
        a->without = value;
        return 1;
    case ZEP_OPT_SLOW:
        if (a->n_slow >= 0 && a->n_slow < ZEP_MAX_SLOW)
            a->slow[a->n_slow++] = value;
        else
            a->n_slow = -1;
        return 1;
    default:
        return 0;
    }
}

static void say(void *arg, const char *text)
{
    (void)arg;
    zep_log(ZEP_LOG_INFO, "%s", text);
}

int zep_inputs_topo(const struct zep_topo_args *a, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_topo_want w = {.n_from = a->n_from, .from = a->from, .label_levels = a->label_levels, .hosts = a->hosts, .note = a->quiet ? NULL : say};

    struct zep_topo *topo = NULL;
    int rc = zep_topo_from(&w, &topo, err);

    if (rc < 0)
        return rc;
    if (a->n_slow < 0)
        rc = zep_error_set(err, ZEP_EINVAL, "more than %d --slow", ZEP_MAX_SLOW);
    for (int i = 0; i < a->n_slow && rc == ZEP_OK; i++)
        if ((rc = zep_topo_slow(topo, a->slow[i], err)) < 0)
            zep_error_prefix(err, "--slow");
    if (rc == ZEP_OK && (a->only || a->without))
        rc = zep_topo_select(topo, a->only, a->without, err);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}

static int job_topo(const struct zep_job *job, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *t = job->cluster.topology, *id = zep_inputs_slurm_job();
    struct zep_topo_want w = {.n_from = 1, .from = &t};
    char slurm[64];
    int rc;

    if (!strcmp(t, "auto")) { /* no note: a job's log says what it runs on anyway */
        if (!strcmp(job->cluster.where, "slurm")) {
            snprintf(slurm, sizeof slurm, id ? "slurm:job=%.40s" : "slurm%.0s", id ? id : "");
            t = slurm;
        } else if (!strcmp(job->cluster.where, "local") || !id) {
            t = "local";
        } else {
            snprintf(slurm, sizeof slurm, "slurm:job=%.40s", id);
            t = slurm;
        }
    }
    rc = zep_topo_from(&w, topo_out, err);
    return rc < 0 ? zep_error_prefix(err, "cluster.topology") : rc;
}

/* Devices that every one of the first n nodes offers: its devices, or else its cores. */
static int devices_of(const struct zep_topo *topo, int n_node)
{
    int least = 0;

    for (int i = 0; i < n_node && i < topo->n_node; i++) {
        const struct zep_node *node = &topo->node[i];
        int n = node->n_device ? node->n_device : node->sockets * node->cores_per_socket;

        if (i == 0 || n < least)
            least = n;
    }
    return least;
}

int zep_inputs_cluster(struct zep_job *job, struct zep_topo **topo_out, struct zep_view **view_out, struct zep_error *err)
{
    const char *per_node = getenv("SLURM_NTASKS_PER_NODE");
    struct zep_topo *topo = NULL;
    int rc, least;

    if ((rc = job_topo(job, &topo, err)) < 0)
        return rc;
    if (job->cluster.max_nodes && zep_inputs_slurm_job()) /* what the job got this time */
        job->cluster.nodes = topo->n_node < job->cluster.max_nodes ? topo->n_node : job->cluster.max_nodes;
    if (!job->cluster.nodes)
        job->cluster.nodes = topo->n_node;
    if (job->cluster.nodes > topo->n_node) {
        rc = zep_error_set(err, ZEP_EINVAL, "cluster.nodes: '%" PRId64 "': the topology (%s) has %d node%s", job->cluster.nodes, topo->origin ? topo->origin : "", topo->n_node, topo->n_node == 1 ? "" : "s");
        goto err_topo;
    }
    if (!job->cluster.devices && !strcmp(job->cluster.topology, "auto") && zep_inputs_slurm_job() && strcmp(job->cluster.where, "local") && per_node && atoi(per_node) > 0)
        job->cluster.devices = atoi(per_node) / job->cluster.tp;
    if (!job->cluster.devices)
        job->cluster.devices = devices_of(topo, (int)job->cluster.nodes) / job->cluster.tp;
    if (job->cluster.devices < 1) {
        rc = zep_error_set(err, ZEP_EINVAL, "cluster.devices: the topology (%s) shows no devices and no cores: say how many devices a node there are", topo->origin ? topo->origin : "");
        goto err_topo;
    }
    if (job->cluster.devices * job->cluster.tp > (least = devices_of(topo, (int)job->cluster.nodes)) && least > 0) {
        rc = zep_error_set(err, ZEP_EINVAL, "cluster.devices: '%" PRId64 "': %s offers %d device%s a node: expected at most %" PRId64 ", or in cluster.topology a cluster that has more, as 'synthetic: nodes:%" PRId64
                           " dev:%" PRId64 " kind:cpu' (more ranks than cores are slow, but right)",
                           job->cluster.devices, topo->origin && *topo->origin ? topo->origin : "the topology", least, least == 1 ? "" : "s", least / job->cluster.tp, job->cluster.nodes,
                           job->cluster.devices * job->cluster.tp);
        goto err_topo;
    }
    if ((rc = zep_view_new(topo, (int)job->cluster.nodes, (int)job->cluster.devices, (int)job->cluster.tp, view_out, err)) < 0)
        goto err_topo;
    *topo_out = topo;
    return ZEP_OK;
err_topo:
    zep_topo_free(topo);
    return rc;
}
