/* The planner's view of the links above leaf switches. Parts: at each level the switches up to that level that are connected with each other; a part's links are those of its switches of that level, together, since
 * where there are several ways up traffic is spread over them. In a tree a part is a switch with all below it. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

struct links {
    struct zep_view *v;
    const struct zep_topo *topo;
    const struct zep_fabric *f;
    int *root;    /* [n_switch] union-find */
    int *part;    /* [n_switch] part of the level in hand, by root */
    int *below;   /* [n_switch] part of the level below that a switch is in, -1 */
    int *own;     /* [n_switch] part of the switch's own level */
    int *hangs, *on; /* [n_node] switches that a node hangs on without a known port; one of them */
};

static int root_of(int *up, int i)
{
    while (up[i] != i)
        i = up[i] = up[up[i]];
    return i;
}

static int add_part(struct zep_view *v, int level, const char *name)
{
    int cap = v->n_up & (v->n_up - 1) ? 0 : v->n_up ? 2 * v->n_up : 1; /* grows at powers of two */

    if (cap) {
        struct zep_view_up *up = zep_reallocarray(v->up, (size_t)cap, sizeof *up);

        if (!up)
            return -1;
        v->up = up;
    }
    v->up[v->n_up] = (struct zep_view_up){.parent = -1, .level = level, .name = strdup(name)};
    if (!v->up[v->n_up].name)
        return -1;
    return v->n_up++;
}

/* The links of one switch are added to its part. */
static void add_links(struct zep_view_up *up, const struct zep_switch *s)
{
    if (!s->n_parent)
        return;
    if (s->uplink_bw.source == ZEP_SRC_NONE || s->uplink_bw.value <= 0)
        up->unknown = 1;
    up->bw += s->uplink_bw.value;
    up->n_switch++;
}

static int make_level(struct links *l, int level)
{
    const struct zep_fabric *f = l->f;

    for (int i = 0; i < f->n_switch; i++) /* all links from a lower level into this one */
        for (int k = 0; k < f->sw[i].n_parent; k++)
            if (f->sw[i].level <= level && f->sw[f->sw[i].parent[k]].level <= level)
                l->root[root_of(l->root, i)] = root_of(l->root, f->sw[i].parent[k]);
    for (int i = 0; i < f->n_switch; i++)
        l->part[i] = -1;
    for (int i = 0; i < f->n_switch; i++) {
        int r = root_of(l->root, i);

        if (f->sw[i].level > level)
            continue;
        if (l->part[r] < 0 && (l->part[r] = add_part(l->v, level, f->sw[i].name)) < 0)
            return -1;
        if (f->sw[i].level == level) {
            struct zep_view_up *up = &l->v->up[l->part[r]];

            if (!up->n_switch && f->sw[i].n_parent && level) { /* its name is that of its first switch of this level */
                char *name = strdup(f->sw[i].name);

                if (!name)
                    return -1;
                free(up->name);
                up->name = name;
            }
            add_links(up, &f->sw[i]);
            l->own[i] = l->part[r];
        }
        if (l->below[i] >= 0)
            l->v->up[l->below[i]].parent = l->part[r];
        l->below[i] = l->part[r];
    }
    return 0;
}

static void place_nic(struct links *l, int node, int nic, int sw)
{
    int *up = &l->v->nic_up[l->v->node_nic0[node] + nic];

    if (*up < 0)
        *up = l->own[sw];
}

/* A NIC is where its cable ends; where that is not known, and the node hangs on one switch only, all its NICs are there. */
static void place_nics(struct links *l)
{
    const struct zep_view *v = l->v;

    memset(l->hangs, 0, (size_t)v->n_node * sizeof *l->hangs);
    for (int s = 0; s < l->f->n_switch; s++)
        for (int k = 0; k < l->f->sw[s].n_node; k++) {
            int node = l->f->sw[s].node[k], port = l->f->sw[s].port ? l->f->sw[s].port[k] : -1;

            if (node >= v->n_node)
                continue;
            if (port >= 0) {
                place_nic(l, node, port, s);
            } else {
                l->hangs[node]++;
                l->on[node] = s;
            }
        }
    for (int n = 0; n < v->n_node; n++)
        for (int c = 0; l->hangs[n] == 1 && c < v->node_nic0[n + 1] - v->node_nic0[n]; c++)
            place_nic(l, n, c, l->on[n]);
}

static int add_fabric(struct links *l)
{
    size_t n = (size_t)l->f->n_switch + 1;
    int top = 0, rc = -1, *all = zep_calloc(4 * n, sizeof *all);

    if (!all)
        return -1;
    l->root = all;
    l->part = all + n;
    l->below = all + 2 * n;
    l->own = all + 3 * n;
    for (int i = 0; i < l->f->n_switch; i++) {
        l->root[i] = i;
        l->below[i] = -1;
        top = l->f->sw[i].level > top ? l->f->sw[i].level : top;
    }
    for (int level = 0; level <= top; level++)
        if (make_level(l, level) < 0)
            goto out;
    place_nics(l);
    rc = 0;
out:
    free(all);
    return rc;
}

int zep_view_add_links(struct zep_view *v, const struct zep_topo *topo, struct zep_error *err)
{
    struct links l = {.v = v, .topo = topo};
    int rc = ZEP_OK;

    v->nic_up = zep_calloc((size_t)v->n_nic + 1, sizeof *v->nic_up);
    l.hangs = zep_calloc(2 * (size_t)v->n_node + 1, sizeof *l.hangs);
    l.on = l.hangs ? l.hangs + v->n_node : NULL;
    if (!v->nic_up || !l.hangs)
        rc = zep_error_nomem(err, "view of the topology");
    for (int c = 0; c < v->n_nic && rc == ZEP_OK; c++)
        v->nic_up[c] = -1;
    for (int i = 0; i < topo->n_fabric && rc == ZEP_OK; i++) {
        l.f = &topo->fabric[i];
        if (l.f->kind != ZEP_FABRIC_BLOCKS && l.f->n_switch && add_fabric(&l) < 0)
            rc = zep_error_nomem(err, "view of the topology");
    }
    free(l.hangs);
    return rc;
}

int zep_view_path(const struct zep_view *v, int nic_a, int nic_b, int *up_out, int *n_up_out, int *down_out, int *n_down_out)
{
    int a = v->nic_up ? v->nic_up[nic_a] : -1, b = v->nic_up ? v->nic_up[nic_b] : -1, n_up = 0, n_down = 0;

    *n_up_out = *n_down_out = 0;
    if (a < 0 || b < 0)
        return 0;
    while (a != b) {
        int climb_a = v->up[a].level <= v->up[b].level, climb_b = v->up[b].level <= v->up[a].level;

        if (climb_a) {
            up_out[n_up++] = a;
            a = v->up[a].parent;
        }
        if (climb_b) {
            down_out[n_down++] = b;
            b = v->up[b].parent;
        }
        if (a < 0 || b < 0 || n_up == ZEP_VIEW_MAX_LEVEL || n_down == ZEP_VIEW_MAX_LEVEL)
            return 0;
    }
    *n_up_out = n_up;
    *n_down_out = n_down;
    return 1;
}

int zep_view_unknown_links(const struct zep_view *v, int *n_known_out)
{
    int unknown = 0, first = -1, apart = 0, lost = 0;
    unsigned char *seen = zep_calloc((size_t)v->n_up + 1, 1);

    *n_known_out = 0;
    for (int c = 0; seen && v->nic_up && c < v->n_nic; c++) {
        apart |= first >= 0 && v->nic_up[c] != first;
        first = first < 0 ? v->nic_up[c] : first;
        for (int u = v->nic_up[c]; u >= 0 && !seen[u]; u = v->up[u].parent) {
            seen[u] = 1;
            unknown += v->up[u].unknown;
            *n_known_out += v->up[u].n_switch && !v->up[u].unknown;
        }
    }
    free(seen);
    for (int d = 0; d < v->n_dev && v->n_up && v->nic_up; d++) /* a NIC whose way into the fabric is not known */
        lost |= v->dev_nic[d] >= 0 && v->nic_up[v->dev_nic[d]] < 0;
    return (apart ? unknown : 0) + (lost && v->n_node > 1);
}
