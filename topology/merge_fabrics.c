/* Fabrics that two sources know: the union of one of equal name, and what separate trees disagree on. */
#include "config.h"
#include "topology/merge_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static int has_port(const struct zep_switch *sw, int node, int port)
{
    for (int i = 0; i < sw->n_node; i++)
        if (sw->node[i] == node && (!sw->port || sw->port[i] < 0 || port < 0 || sw->port[i] == port))
            return 1;
    return 0;
}

/* Where a node hangs, as far as known before: its switches by the node. */
struct places {
    int *count, *sw; /* [n_node] switches that it hangs on; the first of them */
};

static int make_places(const struct zep_topo *t, const struct zep_fabric *f, struct places *p)
{
    p->count = zep_calloc(2 * (size_t)t->n_node + 1, sizeof *p->count);
    if (!p->count)
        return ZEP_ENOMEM;
    p->sw = p->count + t->n_node;
    for (int s = 0; s < f->n_switch; s++)
        for (int k = 0; k < f->sw[s].n_node; k++)
            if (p->count[f->sw[s].node[k]]++ == 0)
                p->sw[f->sw[s].node[k]] = s;
    return ZEP_OK;
}

static void take_off(struct zep_switch *sw, int node)
{
    int kept = 0;

    for (int k = 0; k < sw->n_node; k++) {
        if (sw->node[k] == node)
            continue;
        sw->node[kept] = sw->node[k];
        if (sw->port)
            sw->port[kept] = sw->port[k];
        kept++;
    }
    sw->n_node = kept;
}

/* A node of src on switch y. Where dst has it on another switch already (not a rail beside it) the stronger source decides. */
static int place_node(struct merge *m, struct zep_fabric *d, const struct places *was, int node, int y, int port, enum zep_source ds, enum zep_source ss)
{
    struct zep_switch *sw = &d->sw[y];
    char where[300];
    int rc, old;

    if (has_port(sw, node, port))
        return ZEP_OK;
    if (was && was->count[node] == 1 && was->sw[node] != y && d->kind != ZEP_FABRIC_RAILS) {
        old = was->sw[node];
        snprintf(where, sizeof where, "node %.250s", m->dst->node[node].id);
        if ((rc = mg_conflict(m, where, "switch", ss > ds, d->sw[old].name, ds, sw->name, ss)) < 0)
            return rc;
        if (ss <= ds)
            return ZEP_OK;
        take_off(&d->sw[old], node);
    }
    return zep_switch_add_port(sw, node, port) < 0 ? mg_no_memory(m) : ZEP_OK;
}

static int same_parents(const struct zep_switch *y, const int *parent, int n)
{
    int found = 0;

    for (int i = 0; i < n; i++)
        for (int p = 0; p < y->n_parent; p++)
            found += y->parent[p] == parent[i];
    return found == n && y->n_parent == n;
}

/* Parents of src's switch: new where dst knows none; where both know and differ, the stronger source's. */
static int place_parents(struct merge *m, struct zep_fabric *d, struct zep_switch *y, int had, const int *parent, int n, enum zep_source ds, enum zep_source ss)
{
    char where[300];
    int rc;

    if (!n || same_parents(y, parent, n))
        return ZEP_OK;
    if (had && y->n_parent) {
        snprintf(where, sizeof where, "fabric %.100s, switch %.150s", d->name, y->name);
        if ((rc = mg_conflict(m, where, "switch above", ss > ds, d->sw[y->parent[0]].name, ds, d->sw[parent[0]].name, ss)) < 0)
            return rc;
        if (ss <= ds)
            return ZEP_OK;
        y->n_parent = 0;
    }
    for (int i = 0; i < n; i++)
        if (zep_switch_add_parent(y, parent[i]) < 0)
            return mg_no_memory(m);
    return ZEP_OK;
}

static int merge_switches(struct merge *m, struct zep_fabric *d, const struct zep_fabric *s, int is_new)
{
    struct zep_switch_index *index = NULL;
    struct places was = {0};
    int *place = zep_calloc(2 * (size_t)s->n_switch + 1, sizeof *place), *above = place ? place + s->n_switch : NULL, had = d->n_switch, rc = place ? zep_switch_index_new(d, &index, m->err) : mg_no_memory(m);

    if (rc == ZEP_OK && !is_new && make_places(m->dst, d, &was) < 0)
        rc = mg_no_memory(m);
    for (int i = 0; i < s->n_switch && rc == ZEP_OK; i++)
        rc = zep_switch_index_get(index, d, s->sw[i].name, &place[i], m->err);
    for (int i = 0; i < s->n_switch && rc == ZEP_OK; i++) {
        const struct zep_switch *x = &s->sw[i];
        struct zep_switch *y = &d->sw[place[i]];
        char where[300];

        for (int k = 0; k < x->n_parent; k++)
            above[k] = place[x->parent[k]];
        rc = place_parents(m, d, y, place[i] < had, above, x->n_parent, d->source, s->source);
        for (int k = 0; k < x->n_node && rc == ZEP_OK; k++) {
            int node = m->node_map[x->node[k]], port = x->port && x->port[k] >= 0 ? m->nic_map[x->node[k]][x->port[k]] : -1;

            if (is_new)
                rc = zep_switch_add_port(y, node, port) < 0 ? mg_no_memory(m) : ZEP_OK;
            else
                rc = place_node(m, d, &was, node, place[i], port, d->source, s->source);
        }
        snprintf(where, sizeof where, "fabric %.100s, switch %.150s", d->name, y->name);
        if (rc == ZEP_OK)
            rc = mg_fact(m, where, "uplink bandwidth", ZEP_UNIT_BANDWIDTH, &y->uplink_bw, &x->uplink_bw);
    }
    zep_switch_index_free(index);
    free(was.count);
    free(place);
    return rc;
}

static void leaves_of(const struct zep_topo *t, const struct zep_fabric *f, int *leaf)
{
    for (int i = 0; i < t->n_node; i++)
        leaf[i] = -1;
    for (int s = f->n_switch - 1; s >= 0; s--)
        for (int k = 0; k < f->sw[s].n_node; k++)
            leaf[f->sw[s].node[k]] = s;
}

/* The first two nodes that one leaf of a has and two leaves of b; how many more such nodes. -1: none. */
static int find_parted(const struct zep_fabric *a, const int *la, const int *lb, int *with_out, int *n_out)
{
    int odd = -1;

    *n_out = 0;
    for (int s = 0; s < a->n_switch; s++) {
        int first = -1;

        for (int k = 0; k < a->sw[s].n_node; k++) {
            int node = a->sw[s].node[k];

            if (lb[node] < 0 || la[node] != s)
                continue;
            if (first < 0)
                first = node;
            else if (lb[node] != lb[first] && (*n_out)++ == 0) {
                odd = node;
                *with_out = first;
            }
        }
    }
    return odd;
}

static int n_levels(const struct zep_fabric *f)
{
    int n = 0;

    for (int s = 0; s < f->n_switch; s++)
        n = f->sw[s].level >= n ? f->sw[s].level + 1 : n;
    return n;
}

/* Nodes that hang on one leaf in one tree and on two in the other: a is the stronger one. A weaker tree of fewer levels that has them together is only coarser. */
static int compare_trees(struct merge *m, const struct zep_fabric *a, const struct zep_fabric *b)
{
    const struct zep_topo *t = m->dst;
    int *la = zep_calloc(2 * (size_t)t->n_node + 1, sizeof *la), *lb = la ? la + t->n_node : NULL, n_odd, odd, with = 0, rc = ZEP_OK;
    char where[600], what[100], one[300], two[300];
    int together = 1; /* in a */

    if (!la)
        return mg_no_memory(m);
    leaves_of(t, a, la);
    leaves_of(t, b, lb);
    odd = find_parted(a, la, lb, &with, &n_odd);
    if (odd < 0 && n_levels(b) >= n_levels(a)) {
        together = 0;
        odd = find_parted(b, lb, la, &with, &n_odd);
    }
    if (odd >= 0) {
        const struct zep_fabric *f = together ? a : b, *g = together ? b : a;
        const int *lf = together ? la : lb, *lg = together ? lb : la;

        snprintf(where, sizeof where, "nodes %.250s and %.250s", t->node[with].id, t->node[odd].id);
        snprintf(what, sizeof what, n_odd > 2 ? "leaf switch (and %d more such nodes)" : n_odd > 1 ? "leaf switch (and %d more such node)" : "leaf switch", n_odd - 1);
        snprintf(one, sizeof one, "'%.100s' for both in fabric %.100s", f->sw[lf[odd]].name, f->name);
        snprintf(two, sizeof two, "'%.80s' and '%.80s' in fabric %.80s", g->sw[lg[with]].name, g->sw[lg[odd]].name, g->name);
        rc = zep_topo_add_conflict(m->dst, where, what, together ? one : two, a->source, together ? two : one, b->source) < 0 ? mg_no_memory(m) : ZEP_OK;
    }
    free(la);
    return rc;
}

int mg_fabric(struct merge *m, const struct zep_fabric *s)
{
    struct zep_topo *t = m->dst;
    char name[300];
    int n = 2, at = -1, rc;

    for (int i = 0; i < t->n_fabric; i++)
        if (!strcmp(t->fabric[i].name, s->name) && t->fabric[i].kind == s->kind)
            at = i;
    if (at >= 0) { /* one fabric that two sources know: the union */
        if ((rc = merge_switches(m, &t->fabric[at], s, 0)) < 0)
            return rc;
        t->fabric[at].source = mg_stronger(t->fabric[at].source, s->source);
        return ZEP_OK;
    }
    snprintf(name, sizeof name, "%.250s", s->name);
    for (int i = 0; i < t->n_fabric; i++)
        if (!strcmp(t->fabric[i].name, name)) {
            snprintf(name, sizeof name, "%.250s-%d", s->name, n++);
            i = -1;
        }
    if (!zep_topo_add_fabric(t, name, s->kind))
        return mg_no_memory(m);
    t->fabric[t->n_fabric - 1].source = s->source;
    for (int i = 0; i < s->n_block_size; i++)
        if (zep_fabric_add_block_size(&t->fabric[t->n_fabric - 1], s->block_size[i]) < 0)
            return mg_no_memory(m);
    if ((rc = merge_switches(m, &t->fabric[t->n_fabric - 1], s, 1)) < 0 || (rc = zep_fabric_set_levels(&t->fabric[t->n_fabric - 1], m->err)) < 0)
        return rc;
    for (int i = 0; i < t->n_fabric - 1 && rc == ZEP_OK; i++)
        if (t->fabric[i].kind == ZEP_FABRIC_TREE && s->kind == ZEP_FABRIC_TREE)
            rc = t->fabric[i].source >= s->source ? compare_trees(m, &t->fabric[i], &t->fabric[t->n_fabric - 1]) : compare_trees(m, &t->fabric[t->n_fabric - 1], &t->fabric[i]);
    return rc;
}

static int rank_of(const struct zep_fabric *f)
{
    return (f->kind == ZEP_FABRIC_BLOCKS ? 0 : 100) + (int)f->source;
}

/* Trees and rails before blocks, the stronger source before the weaker: the first is planned with. */
void mg_sort_fabrics(struct zep_topo *t)
{
    for (int i = 1; i < t->n_fabric; i++) {
        struct zep_fabric f = t->fabric[i];
        int at = i;

        for (; at > 0 && rank_of(&t->fabric[at - 1]) < rank_of(&f); at--)
            t->fabric[at] = t->fabric[at - 1];
        t->fabric[at] = f;
    }
}
