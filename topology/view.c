#include "config.h"
#include "topology/topo_internal.h"

#include <stdlib.h>

#include "common/arena.h"

void zep_view_free(struct zep_view *v)
{
    if (!v)
        return;
    free(v->node_dev0);
    free(v->node_nic0);
    free(v->node_leaf);
    free(v->dev_node);
    free(v->dev_nic);
    free(v->dev_bw);
    free(v->nic_bw);
    free(v->dev_speed);
    free(v->dev_mem);
    for (int i = 0; i < v->n_up; i++)
        free(v->up[i].name);
    free(v->up);
    free(v->nic_up);
    free(v);
}

static int alloc_view(struct zep_view *v, struct zep_error *err)
{
    v->node_dev0 = zep_calloc((size_t)v->n_node + 1, sizeof *v->node_dev0);
    v->node_nic0 = zep_calloc((size_t)v->n_node + 1, sizeof *v->node_nic0);
    v->node_leaf = zep_calloc((size_t)v->n_node + 1, sizeof *v->node_leaf);
    v->dev_node = zep_calloc((size_t)v->n_dev + 1, sizeof *v->dev_node);
    v->dev_nic = zep_calloc((size_t)v->n_dev + 1, sizeof *v->dev_nic);
    v->dev_bw = zep_calloc((size_t)v->n_dev + 1, sizeof *v->dev_bw);
    v->nic_bw = zep_calloc((size_t)v->n_nic + 1, sizeof *v->nic_bw);
    v->dev_speed = zep_calloc((size_t)v->n_dev + 1, sizeof *v->dev_speed);
    v->dev_mem = zep_calloc((size_t)v->n_dev + 1, sizeof *v->dev_mem);
    if (!v->node_dev0 || !v->node_nic0 || !v->node_leaf || !v->dev_node || !v->dev_nic || !v->dev_bw || !v->nic_bw || !v->dev_speed || !v->dev_mem)
        return zep_error_nomem(err, "view of the topology");
    return ZEP_OK;
}

static int uses(const struct zep_device *dev, int nic)
{
    if (dev->nic == nic)
        return 1;
    for (int k = 0; dev->nic >= 0 && k < dev->n_more; k++)
        if (dev->more[k] == nic)
            return 1;
    return 0;
}

/* All NICs of a plan device work together as its first one: each NIC that only plan devices of one first NIC use is counted there. */
static void join_nics(struct zep_view *v, const struct zep_node *n, int node, int n_dev, int tp)
{
    int d0 = v->node_dev0[node], c0 = v->node_nic0[node];

    for (int c = 0; c < n->n_nic; c++) {
        int first = -1, several = 0;

        for (int i = 0; i < n_dev * tp && i < n->n_device; i++)
            if (uses(&n->device[i], c)) {
                several |= first >= 0 && v->dev_nic[d0 + i / tp] != first;
                first = v->dev_nic[d0 + i / tp];
            }
        if (first < 0 || several || first == c0 + c)
            continue;
        v->nic_bw[first] += v->nic_bw[c0 + c];
        v->nic_bw[c0 + c] = 0;
    }
}

/* Devices of one node; a group of tp has their bandwidths and NICs together. CPU slots have no NIC unless the node has exactly one. */
static void fill_node(struct zep_view *v, const struct zep_node *n, int node, int n_dev, int tp)
{
    int d0 = v->node_dev0[node], c0 = v->node_nic0[node];

    for (int i = 0; i < n_dev; i++) {
        int d = d0 + i;

        v->dev_node[d] = node;
        v->dev_speed[d] = zep_device_speed(n, i * tp);
        v->dev_nic[d] = n->n_device ? -1 : n->n_nic == 1 ? c0 : -1;
        for (int t = 0; t < tp && i * tp + t < n->n_device; t++) {
            const struct zep_device *dev = &n->device[i * tp + t];

            v->dev_bw[d] += dev->bw.value;
            v->dev_speed[d] = zep_device_speed(n, i * tp + t) < v->dev_speed[d] ? zep_device_speed(n, i * tp + t) : v->dev_speed[d];
            v->dev_mem[d] = t == 0 || dev->mem_bytes * tp < v->dev_mem[d] ? dev->mem_bytes * tp : v->dev_mem[d];
            if (t == 0 && dev->nic >= 0)
                v->dev_nic[d] = c0 + dev->nic;
        }
    }
    for (int i = 0; i < n->n_nic; i++)
        v->nic_bw[c0 + i] = zep_nic_bandwidth(&n->nic[i]);
    join_nics(v, n, node, n_dev, tp);
    v->node_dev0[node + 1] = d0 + n_dev;
    v->node_nic0[node + 1] = c0 + n->n_nic;
}

/* Nodes of one leaf have one number: that of the leaf switch in the first fabric. */
static void fill_leaves(struct zep_view *v, const struct zep_topo *topo)
{
    const struct zep_fabric *f = topo->n_fabric ? &topo->fabric[0] : NULL;

    for (int i = 0; i < v->n_node; i++)
        v->node_leaf[i] = -1;
    for (int s = 0; f && s < f->n_switch; s++)
        for (int k = 0; k < f->sw[s].n_node; k++)
            if (f->sw[s].node[k] < v->n_node && v->node_leaf[f->sw[s].node[k]] < 0)
                v->node_leaf[f->sw[s].node[k]] = s;
}

int zep_view_new(const struct zep_topo *topo, int n_node, int dev_per_node, int tp, struct zep_view **view_out, struct zep_error *err)
{
    struct zep_view *v;
    int rc;

    if (!n_node)
        n_node = topo->n_node;
    if (n_node < 1 || n_node > topo->n_node)
        return zep_error_set(err, ZEP_EINVAL, "%d nodes are wanted, the topology (%s) has %d", n_node, topo->origin, topo->n_node);
    if (dev_per_node < 0 || tp < 1)
        return zep_error_set(err, ZEP_EINVAL, "%d devices a node in groups of %d: expected 0 or more in groups of at least 1", dev_per_node, tp);
    if (!(v = zep_calloc(1, sizeof *v)))
        return zep_error_nomem(err, "view of the topology");
    v->n_node = n_node;
    for (int i = 0; i < n_node; i++) {
        const struct zep_node *n = &topo->node[i];
        int have = zep_node_slots(n) / tp, want = dev_per_node ? dev_per_node : have;

        if (want > have && zep_node_slots(n) > 0) {
            rc = tp == 1 ? zep_error_set(err, ZEP_EINVAL, "node '%s' offers %d device%s, %d are wanted", n->id, have, have == 1 ? "" : "s", want)
                         : zep_error_set(err, ZEP_EINVAL, "node '%s' offers %d tensor-parallel group%s of %d, %d are wanted", n->id, have, have == 1 ? "" : "s", tp, want);
            goto err_view;
        }
        if (want < 1) {
            rc = zep_node_slots(n) ? zep_error_set(err, ZEP_EINVAL, "node '%s' has %d %s, fewer than the %d of a tensor-parallel group (--tp, cluster.tp)", n->id, zep_node_slots(n), n->n_device ? "GPUs" : "cores", tp)
                                   : zep_error_set(err, ZEP_EINVAL, "node '%s' has no devices and its cores are unknown: leave it out (--without), or say how many devices a node there are (--devices)", n->id);
            goto err_view;
        }
        v->n_dev += want;
        v->n_nic += n->n_nic;
    }
    if ((rc = alloc_view(v, err)) < 0)
        goto err_view;
    for (int i = 0; i < n_node; i++)
        fill_node(v, &topo->node[i], i, dev_per_node ? dev_per_node : zep_node_slots(&topo->node[i]) / tp, tp);
    fill_leaves(v, topo);
    if ((rc = zep_view_add_links(v, topo, err)) < 0)
        goto err_view;
    v->net_latency_s = topo->net_latency_s.value;
    v->dev_latency_s = topo->dev_latency_s.value;
    *view_out = v;
    return ZEP_OK;
err_view:
    zep_view_free(v);
    return rc;
}
