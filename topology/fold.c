#include "config.h"
#include "topology/fold.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/digest.h"
#include "topology/topo_internal.h"

struct member {
    uint64_t key; /* equal: one group */
    int index;
};

static int cmp_member(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    uint64_t pair[2] = {h, v};

    return zep_digest(pair, sizeof pair, 0);
}

struct work {
    const struct zep_topo *topo;
    const struct zep_fabric *f;
    int fold, n_sw;
    uint64_t *shape;   /* of a switch: what hangs below it */
    uint64_t *above;   /* of a switch: the groups above it; of a node likewise, behind the switches */
    struct member *m;
    struct zep_fold *out;
};

/* From the leaves up: level, and the sum of what is below (a sum does not depend on order). */
static void make_shapes(struct work *w)
{
    for (int s = 0; s < w->n_sw; s++) {
        w->shape[s] = 0x51;
        for (int k = 0; k < w->f->sw[s].n_node; k++)
            w->shape[s] += mix(7, zep_node_digest(&w->topo->node[w->f->sw[s].node[k]]));
    }
    for (int level = 0; level <= w->out->top - 1; level++)
        for (int s = 0; s < w->n_sw; s++)
            for (int p = 0; w->f->sw[s].level == level && p < w->f->sw[s].n_parent; p++)
                w->shape[w->f->sw[s].parent[p]] += mix((uint64_t)level + 11, w->shape[s]);
}

/* Groups of the members in w->m[0..n), in the order of their first members. place[i] gets the group. */
static int make_groups(struct work *w, int n, int level, int *place)
{
    struct zep_fold *o = w->out;
    struct member *firsts = w->m + n;
    int n_new = 0;

    qsort(w->m, (size_t)n, sizeof *w->m, cmp_member);
    for (int i = 0; i < n; i++)
        if (i == 0 || w->m[i].key != w->m[i - 1].key)
            firsts[n_new++] = (struct member){(uint64_t)w->m[i].index, i};
    qsort(firsts, (size_t)n_new, sizeof *firsts, cmp_member); /* by first member */
    for (int g = 0; g < n_new; g++) {
        int at = firsts[g].index;
        struct zep_fold_group *x = &o->group[o->n];

        *x = (struct zep_fold_group){.level = level, .first = w->m[at].index};
        for (int i = at; i < n && w->m[i].key == w->m[at].key; i++) {
            x->n++;
            x->last = w->m[i].index;
            place[w->m[i].index] = o->n;
        }
        o->n++;
    }
    return n_new;
}

static int add_parent(struct zep_fold_group *g, int parent)
{
    int *p;

    for (int i = 0; i < g->n_parent; i++)
        if (g->parent[i] == parent)
            return 0;
    if (!(p = zep_reallocarray(g->parent, (size_t)g->n_parent + 1, sizeof *p)))
        return -1;
    g->parent = p;
    p[g->n_parent++] = parent;
    return 0;
}

/* From the top down, so that the groups above a switch are known before it is grouped. */
static int group_all(struct work *w)
{
    int *node = w->out->node_group, *sw = w->out->switch_group;

    for (int level = w->out->top; level >= 1; level--) {
        int n = 0;

        for (int s = 0; s < w->n_sw; s++)
            if (w->f->sw[s].level == level - 1)
                w->m[n++] = (struct member){w->fold ? mix(w->shape[s], w->above[s]) : (uint64_t)s, s};
        make_groups(w, n, level, sw);
        for (int s = 0; s < w->n_sw; s++) { /* what is below learns of its group */
            if (w->f->sw[s].level != level - 1)
                continue;
            for (int k = 0; k < w->f->sw[s].n_node; k++)
                w->above[w->n_sw + w->f->sw[s].node[k]] += mix(3, (uint64_t)sw[s]);
        }
        for (int s = 0; s < w->n_sw; s++)
            for (int p = 0; p < w->f->sw[s].n_parent; p++)
                if (w->f->sw[w->f->sw[s].parent[p]].level == level - 1)
                    w->above[s] += mix(5, (uint64_t)sw[w->f->sw[s].parent[p]]);
    }
    for (int i = 0; i < w->topo->n_node; i++)
        w->m[i] = (struct member){w->fold ? mix(zep_node_digest(&w->topo->node[i]), w->above[w->n_sw + i]) : (uint64_t)i, i};
    make_groups(w, w->topo->n_node, 0, node);
    for (int s = 0; s < w->n_sw; s++) {
        for (int p = 0; p < w->f->sw[s].n_parent; p++)
            if (add_parent(&w->out->group[sw[s]], sw[w->f->sw[s].parent[p]]) < 0)
                return -1;
        for (int k = 0; k < w->f->sw[s].n_node; k++)
            if (add_parent(&w->out->group[node[w->f->sw[s].node[k]]], sw[s]) < 0)
                return -1;
    }
    return 0;
}

int zep_fold_new(const struct zep_topo *topo, const struct zep_fabric *f, int fold, struct zep_fold **out, struct zep_error *err)
{
    int n_sw = f ? f->n_switch : 0;
    size_t all = (size_t)n_sw + (size_t)topo->n_node + 1;
    struct work w = {.topo = topo, .f = f, .fold = fold, .n_sw = n_sw};
    int rc = ZEP_OK;

    w.out = zep_calloc(1, sizeof *w.out);
    w.shape = zep_calloc(all, sizeof *w.shape);
    w.above = zep_calloc(all, sizeof *w.above);
    w.m = zep_calloc(2 * all, sizeof *w.m);
    if (w.out) {
        w.out->group = zep_calloc(all, sizeof *w.out->group);
        w.out->node_group = zep_calloc(all, sizeof *w.out->node_group);
        w.out->switch_group = zep_calloc(all, sizeof *w.out->switch_group);
    }
    if (!w.out || !w.shape || !w.above || !w.m || !w.out->group || !w.out->node_group || !w.out->switch_group) {
        rc = zep_error_nomem(err, "folding");
    } else {
        for (int s = 0; s < n_sw; s++)
            w.out->top = f->sw[s].level + 1 > w.out->top ? f->sw[s].level + 1 : w.out->top;
        if (fold)
            make_shapes(&w);
        if (group_all(&w) < 0)
            rc = zep_error_nomem(err, "folding");
    }
    free(w.shape);
    free(w.above);
    free(w.m);
    if (rc < 0)
        zep_fold_free(w.out);
    else
        *out = w.out;
    return rc;
}

void zep_fold_free(struct zep_fold *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n; i++)
        free(f->group[i].parent);
    free(f->group);
    free(f->node_group);
    free(f->switch_group);
    free(f);
}
