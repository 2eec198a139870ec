/* What a fabric as a whole is: rails, separate trees, nodes without a place. And the order of nodes along it. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "topology/topo_internal.h"

#define MAX_NAMED 5 /* of equal warnings */

static int root_of(int *up, int i)
{
    while (up[i] != i) {
        up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

/* Switches that are connected with each other get one number (that of one of them). */
static void find_parts(const struct zep_fabric *f, int *part)
{
    for (int i = 0; i < f->n_switch; i++)
        part[i] = i;
    for (int i = 0; i < f->n_switch; i++)
        for (int k = 0; k < f->sw[i].n_parent; k++)
            part[root_of(part, i)] = root_of(part, f->sw[i].parent[k]);
    for (int i = 0; i < f->n_switch; i++)
        part[i] = root_of(part, i);
}

/* The highest switch of a part, the first of those. */
static int top_of(const struct zep_fabric *f, const int *part, int p)
{
    int top = -1;

    for (int i = 0; i < f->n_switch; i++)
        if (part[i] == p && (top < 0 || (!f->sw[i].n_parent && f->sw[top].n_parent)))
            top = i;
    return top;
}

static int warn_of_parts(struct zep_topo *topo, const struct zep_fabric *f, struct zep_error *err)
{
    int *part = zep_calloc(2 * (size_t)f->n_switch + 1, sizeof *part), *nodes = part ? part + f->n_switch : NULL, n = 0, shown = 0, rc = ZEP_OK;
    struct zep_buf b = ZEP_BUF_INIT;

    if (!part)
        return zep_error_nomem(err, "fabric");
    find_parts(f, part);
    for (int i = 0; i < f->n_switch; i++)
        nodes[part[i]] += f->sw[i].n_node;
    for (int i = 0; i < f->n_switch; i++)
        if (nodes[i] && n++ < MAX_NAMED)
            zep_buf_printf(&b, "%s'%s' with %d node%s", shown++ ? ", " : "", f->sw[top_of(f, part, i)].name, nodes[i], nodes[i] == 1 ? "" : "s");
    if (n > 1 && zep_topo_warn(topo, "fabric '%s' is %d separate fabrics without a common root (%s%s): no path is known between their nodes", f->name, n, b.data ? b.data : "", n > MAX_NAMED ? ", ..." : "") < 0)
        rc = zep_error_nomem(err, "fabric");
    zep_buf_free(&b);
    free(part);
    return rc;
}

int zep_fabric_settle(struct zep_topo *topo, struct zep_fabric *f, int joined, struct zep_error *err)
{
    size_t n = (size_t)topo->n_node + 1;
    int *leaf = zep_calloc(3 * n, sizeof *leaf), *second = leaf ? leaf + n : NULL, *count = leaf ? leaf + 2 * n : NULL, n_on = 0, n_two = 0, n_none = 0, none = 0, shown = 0, rc = ZEP_OK;

    if (!leaf)
        return zep_error_nomem(err, "fabric");
    for (int s = 0; s < f->n_switch; s++)
        for (int k = 0; k < f->sw[s].n_node; k++) {
            int node = f->sw[s].node[k];

            if (!count[node]) {
                leaf[node] = s;
                count[node] = 1;
            } else if (leaf[node] != s && (count[node] == 1 || second[node] != s)) {
                second[node] = s;
                count[node]++;
            }
        }
    for (int i = topo->n_node - 1; i >= 0; i--) {
        n_on += count[i] > 0;
        n_two += count[i] > 1;
        if (!count[i]) {
            n_none++;
            none = i;
        }
    }
    if (f->kind == ZEP_FABRIC_TREE && n_two > 0 && 2 * n_two > n_on && n_on > 1)
        f->kind = ZEP_FABRIC_RAILS;
    for (int i = 0; i < topo->n_node && f->kind != ZEP_FABRIC_RAILS && shown < MAX_NAMED; i++)
        if (count[i] > 1 && shown++ < MAX_NAMED && zep_topo_warn(topo, "node '%s' hangs on two switches: '%s' and '%s'", topo->node[i].id, f->sw[leaf[i]].name, f->sw[second[i]].name) < 0)
            rc = zep_error_nomem(err, "fabric");
    if (f->kind != ZEP_FABRIC_RAILS && n_two > MAX_NAMED)
        zep_topo_warn(topo, "fabric '%s': %d more nodes hang on two switches", f->name, n_two - MAX_NAMED);
    if (n_none && n_on)
        zep_topo_warn(topo, "%d of %d nodes hang on no switch, '%s' first", n_none, topo->n_node, topo->node[none].id);
    free(leaf);
    if (rc == ZEP_OK && f->kind == ZEP_FABRIC_TREE && !joined)
        rc = warn_of_parts(topo, f, err);
    return rc;
}

/* --- the order of the tree --- */

struct walk {
    const struct zep_fabric *f;
    int *first_child, *next; /* children of a switch: those whose first parent it is */
    char *done;              /* nodes */
    int *order, n;
};

static void visit(struct walk *w, int sw, int depth)
{
    const struct zep_switch *s = &w->f->sw[sw];

    for (int k = 0; k < s->n_node; k++)
        if (!w->done[s->node[k]]) {
            w->done[s->node[k]] = 1;
            w->order[w->n++] = s->node[k];
        }
    for (int c = w->first_child[sw]; c >= 0 && depth < 64; c = w->next[c])
        visit(w, c, depth + 1);
}

int zep_topo_tree_order(const struct zep_topo *topo, int *order, struct zep_error *err)
{
    const struct zep_fabric *f = topo->n_fabric ? &topo->fabric[0] : NULL;
    int n_sw = f ? f->n_switch : 0, *links = zep_calloc(2 * (size_t)n_sw + 1, sizeof *links);
    char *done = zep_calloc((size_t)topo->n_node + 1, 1);
    struct walk w = {f, links, links ? links + n_sw : NULL, done, order, 0};

    if (!links || !done) {
        free(links);
        free(done);
        return zep_error_nomem(err, "order of nodes");
    }
    for (int i = 0; i < n_sw; i++)
        w.first_child[i] = w.next[i] = -1;
    for (int i = n_sw - 1; i >= 0; i--)
        if (f->sw[i].n_parent) {
            int up = f->sw[i].parent[0];

            w.next[i] = w.first_child[up];
            w.first_child[up] = i;
        }
    for (int i = 0; i < n_sw; i++)
        if (!f->sw[i].n_parent)
            visit(&w, i, 0);
    for (int i = 0; i < topo->n_node; i++)
        if (!done[i])
            order[w.n++] = i;
    free(links);
    free(done);
    return ZEP_OK;
}
