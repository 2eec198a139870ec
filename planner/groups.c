#include "config.h"
#include "planner/groups.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static int cmp_desc(const void *a, const void *b)
{
    const int64_t *x = a, *y = b; /* {length, sequence} */

    if (x[0] != y[0])
        return x[0] > y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

int zep_groups_init(struct zep_groups *g, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err)
{
    int64_t (*key)[2] = zep_calloc((size_t)n + 1, sizeof *key);

    *g = (struct zep_groups){.view = view, .cost = zep_estimate_cost(opts), .len = len, .n_seq = n, .cap = opts->capacity_tok, .opts = opts};
    g->sorted = zep_calloc((size_t)n + 1, sizeof *g->sorted);
    g->dev0 = zep_calloc((size_t)view->n_dev + 1, sizeof *g->dev0);
    g->load_s = zep_calloc((size_t)view->n_dev, sizeof *g->load_s);
    g->tok = zep_calloc((size_t)view->n_dev, sizeof *g->tok);
    g->group = zep_calloc((size_t)n + 1, sizeof *g->group);
    if (!key || !g->sorted || !g->dev0 || !g->load_s || !g->tok || !g->group) {
        free(key);
        zep_groups_free(g);
        return zep_error_nomem(err, "groups of devices");
    }
    for (int i = 0; i < n; i++) {
        key[i][0] = len[i];
        key[i][1] = i;
    }
    qsort(key, (size_t)n, sizeof *key, cmp_desc);
    for (int i = 0; i < n; i++)
        g->sorted[i] = (int32_t)key[i][1];
    free(key);
    return ZEP_OK;
}

void zep_groups_free(struct zep_groups *g)
{
    free(g->sorted);
    free(g->dev0);
    free(g->load_s);
    free(g->tok);
    free(g->group);
}

int zep_groups_per_node(const struct zep_view *view)
{
    int n = view->node_dev0[1];

    for (int i = 0; i < view->n_node; i++)
        if (view->node_dev0[i + 1] - view->node_dev0[i] != n)
            return 0;
    return n;
}

int zep_groups_common(const struct zep_view *view)
{
    int common = 0;

    for (int i = 0; i < view->n_node; i++) {
        int x = view->node_dev0[i + 1] - view->node_dev0[i];

        while (x) {
            int rest = common % x;

            common = x;
            x = rest;
        }
    }
    return common;
}

int zep_groups_uniform(struct zep_groups *g, int size)
{
    int n_dev = g->view->n_dev, per_node = zep_groups_per_node(g->view), common = zep_groups_common(g->view);

    if (size != n_dev && common % size && (!per_node || size % per_node || n_dev % size))
        return 0;
    g->n = n_dev / size;
    for (int i = 0; i <= g->n; i++)
        g->dev0[i] = i * size;
    return 1;
}

static int n_node_of(const struct zep_groups *g, int i)
{
    return g->view->dev_node[g->dev0[i + 1] - 1] - g->view->dev_node[g->dev0[i]] + 1;
}

int zep_groups_heads(const struct zep_groups *g, int i)
{
    int size = g->dev0[i + 1] - g->dev0[i];

    if (g->u)
        return g->u > 1 && size % g->u == 0 ? g->u : 0;
    return g->heads > 0 && size > 1 && n_node_of(g, i) == 1 && g->heads % size == 0 ? size : 0;
}

/* Where heads are exchanged: attention on groups, in shares of the heads, hides what goes round the ring of groups, and nothing hides the exchange. */
static double seconds_heads(const struct zep_groups *g, int64_t len, int i, int u)
{
    int size = g->dev0[i + 1] - g->dev0[i];
    double attn = zep_estimate_attn(g->cost, len, size / u) / u, ring, exchange = zep_estimate_heads(g->cost, g->view, len, size, u, n_node_of(g, i), &ring);

    return exchange + (ring > attn ? ring : attn) + (double)len / size * zep_estimate_token(g->cost);
}

static double seconds(const struct zep_groups *g, int64_t len, int i)
{
    int size = g->dev0[i + 1] - g->dev0[i], u = zep_groups_heads(g, i);
    double attn = zep_estimate_attn(g->cost, len, size), travel = size > 1 ? zep_estimate_travel(g->cost, g->view, len, size, n_node_of(g, i)) : 0;

    return u ? seconds_heads(g, len, i, u) : (travel > attn ? travel : attn) + (double)len / size * zep_estimate_token(g->cost);
}

int64_t zep_groups_room(const struct zep_groups *g, int i)
{
    int64_t least = g->cap;

    for (int d = g->dev0[i]; d < g->dev0[i + 1]; d++)
        least = zep_opts_capacity(g->opts, d) < least ? zep_opts_capacity(g->opts, d) : least;
    return least * (g->dev0[i + 1] - g->dev0[i]);
}

int zep_groups_pack(struct zep_groups *g)
{
    for (int i = 0; i < g->n; i++) {
        g->load_s[i] = 0;
        g->tok[i] = 0;
    }
    for (int k = 0; k < g->n_seq; k++) {
        int64_t len = g->len[g->sorted[k]];
        double best_s = 0, last_s = 0;
        int best = -1, last_size = 0, last_nodes = 0;

        for (int i = 0; i < g->n; i++) {
            int size = g->dev0[i + 1] - g->dev0[i], nodes = n_node_of(g, i);
            double s;

            if (g->tok[i] + len > (g->opts->dev_capacity ? zep_groups_room(g, i) : g->cap * size))
                continue;
            if (size != last_size || nodes != last_nodes) {
                last_s = seconds(g, len, i);
                last_size = size;
                last_nodes = nodes;
            }
            s = g->load_s[i] + last_s;
            if (best < 0 || s < best_s) {
                best = i;
                best_s = s;
            }
        }
        if (best < 0)
            return 0;
        g->load_s[best] = best_s;
        g->tok[best] += len;
        g->group[g->sorted[k]] = best;
    }
    return 1;
}

double zep_groups_makespan(const struct zep_groups *g)
{
    double most = 0;

    for (int i = 0; i < g->n; i++)
        most = g->load_s[i] > most ? g->load_s[i] : most;
    return most;
}

int zep_groups_plan(const struct zep_groups *g, const struct zep_plan_opts *opts, enum zep_form form, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan_opts own = *opts;
    struct zep_draft draft;
    int32_t *item = NULL, *set = NULL;
    int rc;

    own.remap = 0;
    if ((rc = zep_draft_init(&draft, g->n_seq, err)) < 0)
        return rc;
    item = zep_calloc((size_t)g->view->n_dev, sizeof *item);
    set = zep_calloc((size_t)g->n, sizeof *set);
    if (!item || !set) {
        rc = zep_error_nomem(err, "plan");
        goto out;
    }
    for (int d = 0; d < g->view->n_dev; d++)
        item[d] = d;
    for (int i = 0; i < g->n; i++) {
        if ((rc = set[i] = zep_sets_get(&draft.sets, item + g->dev0[i], g->dev0[i + 1] - g->dev0[i], err)) < 0)
            goto out;
        draft.sets.set[set[i]].form = form;
        draft.sets.set[set[i]].heads = zep_groups_heads(g, i);
    }
    for (int k = 0; k < g->n_seq; k++) {
        draft.order[k] = g->sorted[k];
        zep_draft_place(&draft, g->sorted[k], g->len[g->sorted[k]], set[g->group[g->sorted[k]]]);
    }
    rc = zep_plan_from_draft(g->view, g->len, &own, 0, &draft, plan_out, err);
out:
    free(item);
    free(set);
    zep_draft_free(&draft);
    return rc;
}

/* Devices [first, end) are a part of a node, or whole nodes. */
static int is_whole(const struct zep_view *v, int first, int end)
{
    int a = v->dev_node[first], b = v->dev_node[end - 1];

    return a == b || (v->node_dev0[a] == first && v->node_dev0[b + 1] == end);
}

int zep_groups_split(struct zep_groups *g, int i)
{
    int first = g->dev0[i], end = g->dev0[i + 1], mid = first + (end - first) / 2;

    if (end - first < 2 || (end - first) % 2 || !is_whole(g->view, first, mid) || !is_whole(g->view, mid, end))
        return 0;
    memmove(g->dev0 + i + 2, g->dev0 + i + 1, (size_t)(g->n - i) * sizeof *g->dev0);
    g->dev0[i + 1] = mid;
    g->n++;
    return 1;
}

int zep_groups_join(struct zep_groups *g, int i)
{
    int first = g->dev0[i], size = g->dev0[i + 1] - first, node = g->view->dev_node[first];

    if (i + 2 > g->n || g->dev0[i + 2] - g->dev0[i + 1] != size || !is_whole(g->view, first, g->dev0[i + 2]))
        return 0;
    if (n_node_of(g, i) == 1 && g->view->dev_node[g->dev0[i + 2] - 1] == node ? (first - g->view->node_dev0[node]) % (2 * size) : first % (2 * size)) /* aligned in its node, or among whole nodes */
        return 0;
    memmove(g->dev0 + i + 1, g->dev0 + i + 2, (size_t)(g->n - i - 1) * sizeof *g->dev0);
    g->n--;
    return 1;
}

int zep_groups_holds(const struct zep_plan *plan)
{
    for (int d = 0; d < plan->n_dev; d++)
        if (plan->attn_tok[d] > zep_plan_capacity(plan, d))
            return 0;
    return 1;
}
