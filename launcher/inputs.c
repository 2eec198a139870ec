#include "config.h"
#include "launcher/inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/units.h"

const char *zep_inputs_slurm_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");

    return job && *job ? job : NULL;
}

/* "A" or "A:4" */
static int from_preset(const char *text, struct zep_topo **topo_out, struct zep_error *err)
{
    char name[64];
    const char *colon = strchr(text, ':');
    int64_t n = 2;
    int rc;

    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    if (colon && (rc = zep_parse_int(colon + 1, 1, 65536, &n, err)) < 0)
        return zep_error_prefix(err, "preset '%s': number of nodes", text);
    return zep_topo_preset(name, (int)n, topo_out, err);
}

int zep_inputs_topo(const struct zep_topo_args *a, struct zep_topo **topo_out, struct zep_error *err)
{
    int rc;

    if (a->synthetic) {
        rc = zep_topo_synthetic(a->synthetic, topo_out, err);
        return rc < 0 ? zep_error_prefix(err, "synthetic topology") : rc;
    }
    if (a->preset)
        return from_preset(a->preset, topo_out, err);
    if (a->file)
        return zep_topo_load(a->file, topo_out, err);
    if (a->slurm)
        return zep_topo_detect_slurm(a->job, topo_out, err);
    if (!a->local && zep_inputs_slurm_job())
        return zep_topo_detect_slurm(zep_inputs_slurm_job(), topo_out, err);
    return zep_topo_detect_local(topo_out, err);
}

static int job_topo(const struct zep_job *job, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *t = job->cluster.topology;
    struct zep_topo_args a = {0};
    int rc;

    if (!strncmp(t, "synthetic:", 10))
        a.synthetic = t + 10 + strspn(t + 10, " ");
    else if (!strncmp(t, "preset:", 7))
        a.preset = t + 7 + strspn(t + 7, " ");
    else if (strcmp(t, "auto"))
        a.file = t;
    else if (!strcmp(job->cluster.where, "slurm"))
        a.slurm = 1, a.job = zep_inputs_slurm_job();
    else if (!strcmp(job->cluster.where, "local"))
        a.local = 1;
    rc = zep_inputs_topo(&a, topo_out, err);
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
    int rc;

    if ((rc = job_topo(job, &topo, err)) < 0)
        return rc;
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
    if ((rc = zep_view_new(topo, (int)job->cluster.nodes, (int)job->cluster.devices, (int)job->cluster.tp, view_out, err)) < 0)
        goto err_topo;
    *topo_out = topo;
    return ZEP_OK;
err_topo:
    zep_topo_free(topo);
    return rc;
}
