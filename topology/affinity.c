/* Which NIC is near which device. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

/* Length of the next component of a bus path. */
static size_t component(const char *p)
{
    return strcspn(p, "/");
}

static int n_component(const char *p)
{
    int n = *p ? 1 : 0;

    for (; *p; p++)
        n += *p == '/';
    return n;
}

/* Bridges that two functions have in common, host bridge first. */
static int common_bridges(const char *a, const char *b)
{
    int n = 0;

    while (*a && *b) {
        size_t la = component(a), lb = component(b);

        if (la != lb || strncmp(a, b, la))
            break;
        n++;
        a += la + (a[la] == '/');
        b += lb + (b[lb] == '/');
    }
    return n;
}

/* A switch is an upstream bridge with a bridge for each port below it: one more bridge on each side is still the same switch. A first component "numaN" stands for a NUMA domain whose
 * host bridges are not known. */
static enum zep_distance by_bus(const char *a, const char *b)
{
    int n = common_bridges(a, b);

    if (n == 0)
        return ZEP_DIST_UNKNOWN;
    if (n == 1)
        return strncmp(a, "numa", 4) ? ZEP_DIST_BRIDGE : ZEP_DIST_NUMA;
    return n_component(a) - n <= 1 && n_component(b) - n <= 1 ? ZEP_DIST_SWITCH : ZEP_DIST_SWITCHES;
}

static enum zep_distance by_place(const char *bus_a, int numa_a, const char *bus_b, int numa_b)
{
    enum zep_distance d = bus_a && bus_b ? by_bus(bus_a, bus_b) : ZEP_DIST_UNKNOWN;

    if (d != ZEP_DIST_UNKNOWN)
        return d;
    if (numa_a < 0 || numa_b < 0)
        return ZEP_DIST_UNKNOWN;
    return numa_a == numa_b ? ZEP_DIST_NUMA : ZEP_DIST_SYSTEM;
}

enum zep_distance zep_node_nic_distance(const struct zep_node *n, int dev, int nic)
{
    const struct zep_device *d = &n->device[dev];
    const struct zep_nic *c = &n->nic[nic];

    if (d->nic_dist && d->nic_dist[nic])
        return (enum zep_distance)d->nic_dist[nic];
    return by_place(d->bus, d->numa, c->bus, c->numa);
}

enum zep_distance zep_node_peer_distance(const struct zep_node *n, int a, int b)
{
    const struct zep_device *x = &n->device[a], *y = &n->device[b];

    if (x->peer_dist && x->peer_dist[b])
        return (enum zep_distance)x->peer_dist[b];
    return by_place(x->bus, x->numa, y->bus, y->numa);
}

int zep_nic_is_used(const struct zep_node *n, int nic)
{
    for (int i = 0; i < n->n_device; i++) {
        if (n->device[i].nic == nic)
            return 1;
        for (int k = 0; k < n->device[i].n_more; k++)
            if (n->device[i].more[k] == nic)
                return 1;
    }
    return 0;
}

/* How near, for comparing: distance first, then how deep the last common bridge lies (a nearer switch is deeper). Smaller is nearer; 0 unknown. */
static int nearness(const struct zep_node *n, int dev, int nic)
{
    enum zep_distance d = zep_node_nic_distance(n, dev, nic);
    int depth = 0;

    if (d == ZEP_DIST_UNKNOWN)
        return 0;
    if ((d == ZEP_DIST_SWITCH || d == ZEP_DIST_SWITCHES) && n->device[dev].bus && n->nic[nic].bus)
        depth = common_bridges(n->device[dev].bus, n->nic[nic].bus);
    return (int)d * 100 - (depth > 99 ? 99 : depth);
}

/* A port of a bond that another NIC stands for as a whole (mlx5_bond_0). */
static int is_part_of_bond(const struct zep_node *n, int nic)
{
    const struct zep_nic *c = &n->nic[nic];

    for (int i = 0; i < n->n_nic && c->bond; i++)
        if (i != nic && n->nic[i].bond && !strcmp(n->nic[i].bond, c->bond) && strstr(n->nic[i].name, "bond"))
            return 1;
    return 0;
}

/* The NICs that carry training: not those that are down or part of a bond, not plain ones beside RDMA ones, not those slow beside the others. */
static int candidates(const struct zep_node *n, unsigned char *is)
{
    double fastest = 0;
    int any_rdma = 0, count = 0;

    for (int c = 0; c < n->n_nic; c++)
        any_rdma |= n->nic[c].up != 0 && n->nic[c].rdma == 1;
    for (int c = 0; c < n->n_nic; c++) {
        is[c] = n->nic[c].up != 0 && !is_part_of_bond(n, c) && !(any_rdma && n->nic[c].rdma == 0);
        if (is[c] && n->nic[c].bw.value > fastest)
            fastest = n->nic[c].bw.value;
    }
    for (int c = 0; c < n->n_nic; c++) {
        is[c] = is[c] && (n->nic[c].bw.value <= 0 || n->nic[c].bw.value * 4 > fastest);
        count += is[c];
    }
    return count;
}

/* All equally far, and not behind one switch: a virtual machine that hides its buses, or nothing known of them. Fewer than two of either are no question. */
static int hides_locality(const struct zep_node *n, const unsigned char *is, int n_cand)
{
    int first = -1;

    if (n_cand < 2 || n->n_device < 2)
        return 0;
    for (int i = 0; i < n->n_device; i++)
        for (int c = 0; c < n->n_nic; c++) {
            int d = is[c] ? (int)zep_node_nic_distance(n, i, c) : first;

            if (first >= 0 && d != first)
                return 0;
            first = d;
        }
    return first > ZEP_DIST_SWITCHES;
}

/* By key, where all keys are PCI addresses or UUIDs (equal lengths: text order is their order), else as the source has them. */
static void order_devices(const struct zep_node *n, int *order)
{
    int by_key = 1;

    for (int i = 0; i < n->n_device; i++)
        by_key &= strchr(n->device[i].key, ':') != NULL || strstr(n->device[i].key, "-") != NULL;
    for (int i = 0; i < n->n_device; i++) {
        int at = i;

        for (; by_key && at > 0 && strcmp(n->device[order[at - 1]].key, n->device[i].key) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void order_nics(const struct zep_node *n, int *order)
{
    int by_key = 1;

    for (int i = 0; i < n->n_nic; i++)
        by_key &= strchr(n->nic[i].key, ':') != NULL;
    for (int i = 0; i < n->n_nic; i++) {
        int at = i;

        for (; by_key && at > 0 && strcmp(n->nic[order[at - 1]].key, n->nic[i].key) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

struct work {
    struct zep_node *n;
    unsigned char *is;    /* [n_nic] may be used */
    int *near;            /* [n_device] nearness of the nearest, 0 none known */
    int *used;            /* [n_nic] devices on it */
    int *dev, *nic;       /* orders */
    unsigned char *fixed; /* [n_device] was chosen before */
};

static int is_nearest(const struct work *w, int dev, int nic)
{
    return w->is[nic] && w->near[dev] && nearness(w->n, dev, nic) == w->near[dev];
}

static void choose(struct work *w)
{
    int moved = 1;

    for (int i = 0; i < w->n->n_device; i++) {
        int d = w->dev[i], best = -1;

        for (int k = 0; !w->fixed[d] && k < w->n->n_nic; k++) {
            int c = w->nic[k];

            if (is_nearest(w, d, c) && (best < 0 || w->used[c] < w->used[best]))
                best = c;
        }
        if (best >= 0) {
            w->n->device[d].nic = best;
            w->used[best]++;
        }
    }
    while (moved) { /* where sets of nearest NICs overlap, the first pass may leave one fuller */
        moved = 0;
        for (int i = 0; i < w->n->n_device; i++) {
            int d = w->dev[i], have = w->n->device[d].nic;

            for (int k = 0; have >= 0 && !w->fixed[d] && k < w->n->n_nic; k++) {
                int c = w->nic[k];

                if (is_nearest(w, d, c) && w->used[c] + 1 < w->used[have]) {
                    w->used[have]--;
                    w->used[c]++;
                    w->n->device[d].nic = have = c;
                    moved = 1;
                }
            }
        }
    }
}

/* NICs that no device took, behind the switch of devices that each have their own: dealt out in turn, as long as every one of those devices gets one more. */
static int deal_rest(struct work *w)
{
    for (;;) {
        int given = 0;

        for (int i = 0; i < w->n->n_device; i++) {
            struct zep_device *d = &w->n->device[w->dev[i]];
            int waiting = 0, left = 0, take = -1;

            if (w->fixed[w->dev[i]] || d->nic < 0 || w->used[d->nic] != 1 || (d->nic_distance != ZEP_DIST_SWITCH && d->nic_distance != ZEP_DIST_SWITCHES))
                continue;
            for (int k = 0; k < w->n->n_nic; k++)
                if (is_nearest(w, w->dev[i], w->nic[k]) && !w->used[w->nic[k]]) {
                    left++;
                    take = take < 0 ? w->nic[k] : take;
                }
            for (int k = 0; take >= 0 && k < w->n->n_device; k++) /* those that could take it too and have no more than this one */
                waiting += !w->fixed[k] && is_nearest(w, k, take) && w->n->device[k].n_more <= d->n_more;
            if (take < 0 || left < waiting)
                continue;
            if (zep_device_add_more(d, take) < 0)
                return ZEP_ENOMEM;
            w->used[take] = 1;
            given = 1;
        }
        if (!given)
            return ZEP_OK;
    }
}

/* hidden_out: set where the locality is hidden. */
static int assign_node(struct zep_node *n, int *hidden_out, struct zep_error *err)
{
    size_t nd = (size_t)n->n_device, nc = (size_t)n->n_nic;
    int *ints = zep_calloc(2 * nd + 2 * nc + 1, sizeof *ints), n_cand, open = 0, rc = ZEP_OK;
    unsigned char *bytes = zep_calloc(nd + nc + 1, 1);
    struct work w = {n, bytes, ints, ints ? ints + nd : NULL, ints ? ints + nd + nc : NULL, ints ? ints + 2 * nd + nc : NULL, bytes ? bytes + nc : NULL};

    if (!ints || !bytes) {
        rc = zep_error_nomem(err, "NICs");
        goto out;
    }
    for (int i = 0; i < n->n_device; i++) {
        w.fixed[i] = n->device[i].nic >= 0;
        open += !w.fixed[i];
        if (w.fixed[i])
            w.used[n->device[i].nic]++;
        for (int k = 0; w.fixed[i] && k < n->device[i].n_more; k++)
            w.used[n->device[i].more[k]]++;
    }
    if (!open)
        goto out;
    n_cand = candidates(n, w.is);
    if (hides_locality(n, w.is, n_cand)) {
        *hidden_out = n_cand;
        goto out;
    }
    for (int i = 0; i < n->n_device; i++)
        for (int c = 0; c < n->n_nic; c++) {
            int far = w.is[c] ? nearness(n, i, c) : 0;

            if (far && (!w.near[i] || far < w.near[i]))
                w.near[i] = far;
        }
    order_devices(n, w.dev);
    order_nics(n, w.nic);
    choose(&w);
    for (int i = 0; i < n->n_device; i++)
        if (!w.fixed[i] && n->device[i].nic >= 0) {
            n->device[i].nic_distance = zep_node_nic_distance(n, i, n->device[i].nic);
            n->device[i].nic_source = n->device[i].source;
        }
    if (deal_rest(&w) < 0)
        rc = zep_error_nomem(err, "NICs");
out:
    free(ints);
    free(bytes);
    return rc;
}

int zep_topo_assign_nics(struct zep_topo *topo, struct zep_error *err)
{
    int rc, first = -1, n_hidden = 0, n_nic = 0;

    for (int i = 0; i < topo->n_node; i++) {
        int hidden = 0;

        if (!topo->node[i].n_device || !topo->node[i].n_nic)
            continue;
        if ((rc = assign_node(&topo->node[i], &hidden, err)) < 0)
            return rc;
        if (hidden && n_hidden++ == 0) {
            first = i;
            n_nic = hidden;
        }
    }
    if (n_hidden) {
        char more[64] = "";

        if (n_hidden > 1)
            snprintf(more, sizeof more, " (and %d more nodes)", n_hidden - 1);
        if (zep_topo_warn(topo, "node '%s'%s: all %d NICs are equally far from all %d devices (a virtual machine?): which device should use which is not known", topo->node[first].id, more, n_nic,
                          topo->node[first].n_device) < 0)
            return zep_error_nomem(err, "topology");
    }
    return ZEP_OK;
}
