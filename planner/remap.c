/* Remapping (design, section 8): attention layout -> equal shares. What is shared by both objectives: targets, costs, and the moves once it is known how many tokens of
 * each device go how far. remap_senders.c and remap_links.c find that out; docs/remapping.md has the proof that they find the least. */
#include "config.h"
#include "planner/remap_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

struct moves {
    struct zep_plan_move *move;
    int n, cap;
};

static int add_move(struct moves *mv, int from, int to, int64_t n, struct zep_error *err)
{
    if (mv->n == mv->cap) {
        int cap = 2 * mv->cap + 16;
        struct zep_plan_move *move = zep_reallocarray(mv->move, (size_t)cap, sizeof *move);

        if (!move)
            return zep_error_nomem(err, "remapping");
        mv->move = move;
        mv->cap = cap;
    }
    mv->move[mv->n++] = (struct zep_plan_move){from, to, n};
    return ZEP_OK;
}

/* --- targets, order and costs --- */

static int cmp_full(const void *a, const void *b)
{
    const int64_t *x = a, *y = b; /* {attn_tok, device} */

    if (x[0] != y[0])
        return x[0] > y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

/* Targets: equal shares; the tokens that are left over stay with the fullest devices, so that they move nothing. */
static int set_surplus(struct zep_remap *rm, const int64_t *attn_tok, const int64_t *want, struct zep_error *err)
{
    int64_t total = 0, (*key)[2] = zep_arena_alloc(rm->arena, (size_t)rm->n_dev, sizeof *key);

    if (!key)
        return zep_error_nomem(err, "remapping");
    for (int d = 0; d < rm->n_dev; d++) {
        total += attn_tok[d];
        key[d][0] = attn_tok[d];
        key[d][1] = d;
    }
    qsort(key, (size_t)rm->n_dev, sizeof *key, cmp_full);
    for (int i = 0; i < rm->n_dev; i++)
        rm->surplus[key[i][1]] = key[i][0] - (want ? want[key[i][1]] : total / rm->n_dev + (i < total % rm->n_dev));
    for (int d = 0; d < rm->n_dev; d++) {
        int64_t s = rm->surplus[d];
        int node = rm->view->dev_node[d];

        rm->node_out[node] += s > 0 ? s : 0;
        rm->node_in[node] += s < 0 ? -s : 0;
        rm->total += s > 0 ? s : 0;
    }
    return ZEP_OK;
}

static int cmp_leaf(const void *a, const void *b)
{
    const int *x = a, *y = b; /* {leaf, node} */

    if (x[0] != y[0])
        return x[0] < y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

/* Nodes whose leaf is unknown count as one leaf. */
static int set_order(struct zep_remap *rm, struct zep_error *err)
{
    const struct zep_view *view = rm->view;
    int n = 0, (*key)[2] = zep_arena_alloc(rm->arena, (size_t)view->n_node, sizeof *key);

    if (!key)
        return zep_error_nomem(err, "remapping");
    for (int i = 0; i < view->n_node; i++) {
        key[i][0] = view->node_leaf[i] < 0 ? -1 : view->node_leaf[i];
        key[i][1] = i;
    }
    qsort(key, (size_t)view->n_node, sizeof *key, cmp_leaf);
    for (int i = 0; i < view->n_node; i++) {
        if (i == 0 || key[i][0] != key[i - 1][0])
            rm->leaf0[rm->n_leaf++] = n;
        for (int d = view->node_dev0[key[i][1]]; d < view->node_dev0[key[i][1] + 1]; d++) {
            rm->dev[n++] = d;
            rm->dev_leaf[d] = rm->n_leaf - 1;
        }
    }
    rm->leaf0[rm->n_leaf] = n;
    return ZEP_OK;
}

static double dev_bw(const struct zep_view *view, int d)
{
    return view->dev_bw[d] > 0 ? view->dev_bw[d] : ZEP_REMAP_DEV_BW;
}

static double nic_bw(const struct zep_view *view, int nic)
{
    return nic < view->n_nic && view->nic_bw[nic] > 0 ? view->nic_bw[nic] : ZEP_REMAP_NIC_BW;
}

static int64_t cost_of(double bw, double slowest)
{
    double c = floor((double)ZEP_REMAP_SLOWEST * slowest / bw + 0.5);

    return c < 1 ? 1 : (int64_t)c;
}

/* A token that leaves the node leaves the device first: it never costs less than one that stays. */
static void set_costs(struct zep_remap *rm)
{
    const struct zep_view *view = rm->view;
    double slowest = dev_bw(view, 0);

    for (int d = 0; d < rm->n_dev; d++) {
        double in = dev_bw(view, d), out = nic_bw(view, zep_remap_nic(view, d));

        slowest = in < slowest ? in : slowest;
        slowest = out < slowest ? out : slowest;
    }
    for (int i = 0; i < view->n_nic + view->n_node; i++)
        rm->nic_cost[i] = ZEP_REMAP_SLOWEST;
    for (int d = 0; d < rm->n_dev; d++) {
        int nic = zep_remap_nic(view, d);
        int64_t in = cost_of(dev_bw(view, d), slowest), out = cost_of(nic_bw(view, nic), slowest), leaf = out > in ? out : in;

        rm->nic_cost[nic] = out;
        rm->cost[ZEP_REMAP_NODE][d] = in;
        rm->cost[ZEP_REMAP_LEAF][d] = leaf;
        rm->cost[ZEP_REMAP_SPINE][d] = rm->n_leaf > 1 ? leaf * ZEP_REMAP_SPINE_NUM / ZEP_REMAP_SPINE_DEN : leaf;
    }
}

static int remap_init(struct zep_remap *rm, const int64_t *attn_tok, const int64_t *want, struct zep_error *err)
{
    size_t n_dev = (size_t)rm->n_dev, n_node = (size_t)rm->view->n_node;
    int rc;

    if (!(rm->arena = zep_arena_new(0)))
        return zep_error_nomem(err, "remapping");
    rm->dev = zep_arena_alloc(rm->arena, n_dev, sizeof *rm->dev);
    rm->leaf0 = zep_arena_alloc(rm->arena, n_node + 1, sizeof *rm->leaf0);
    rm->dev_leaf = zep_arena_alloc(rm->arena, n_dev, sizeof *rm->dev_leaf);
    rm->surplus = zep_arena_alloc(rm->arena, n_dev, sizeof *rm->surplus);
    rm->node_out = zep_arena_alloc(rm->arena, n_node, sizeof *rm->node_out);
    rm->node_in = zep_arena_alloc(rm->arena, n_node, sizeof *rm->node_in);
    rm->nic_cost = zep_arena_alloc(rm->arena, (size_t)rm->view->n_nic + n_node, sizeof *rm->nic_cost);
    if (!rm->dev || !rm->leaf0 || !rm->dev_leaf || !rm->surplus || !rm->node_out || !rm->node_in || !rm->nic_cost)
        return zep_error_nomem(err, "remapping");
    for (int l = 0; l < ZEP_REMAP_N_LEVEL; l++) {
        rm->cost[l] = zep_arena_alloc(rm->arena, n_dev, sizeof *rm->cost[l]);
        rm->part[l] = zep_arena_alloc(rm->arena, n_dev, sizeof *rm->part[l]);
        if (!rm->cost[l] || !rm->part[l])
            return zep_error_nomem(err, "remapping");
    }
    if ((rc = set_surplus(rm, attn_tok, want, err)) < 0 || (rc = set_order(rm, err)) < 0)
        return rc;
    set_costs(rm);
    return ZEP_OK;
}

/* --- moves --- */

/* Pairs senders and receivers of a[] (> 0 sends) among n devices in their order. */
static int pair_up(struct moves *mv, int64_t *a, const int32_t *dev, int n, struct zep_error *err)
{
    int rc, i = 0, j = 0;

    for (;;) {
        int64_t k;

        while (i < n && a[dev[i]] <= 0)
            i++;
        while (j < n && a[dev[j]] >= 0)
            j++;
        if (i == n || j == n)
            return ZEP_OK;
        k = a[dev[i]] < -a[dev[j]] ? a[dev[i]] : -a[dev[j]];
        if ((rc = add_move(mv, dev[i], dev[j], k, err)) < 0)
            return rc;
        a[dev[i]] -= k;
        a[dev[j]] += k;
    }
}

/* By how much the receivers' tokens must be turned against the senders' on the circle of all tokens so that no node meets itself; 0 where none both sends and receives. */
static int64_t turn(const struct zep_remap *rm, const int64_t *a)
{
    int64_t out = 0, in = 0, most = 0;
    int both = 0;

    for (int i = 0; i < rm->n_dev;) {
        int64_t out0 = out, in0 = in;
        int node = rm->view->dev_node[rm->dev[i]];

        for (; i < rm->n_dev && rm->view->dev_node[rm->dev[i]] == node; i++) {
            out += a[rm->dev[i]] > 0 ? a[rm->dev[i]] : 0;
            in -= a[rm->dev[i]] < 0 ? a[rm->dev[i]] : 0;
        }
        both |= out > out0 && in > in0;
        most = out - in0 > most ? out - in0 : most;
    }
    return both && most > 0 && most < in ? in - most : 0;
}

/* Gives d its next n tokens from the senders a[] > 0, the first of which is *i or behind it. */
static int serve(const struct zep_remap *rm, struct moves *mv, int64_t *a, int *i, int d, int64_t n, struct zep_error *err)
{
    while (n > 0) {
        int from = rm->dev[*i], rc;
        int64_t k = a[from] < n ? a[from] : n;

        if (a[from] <= 0) {
            ++*i;
            continue;
        }
        if ((rc = add_move(mv, from, d, k, err)) < 0)
            return rc;
        a[from] -= k;
        n -= k;
    }
    return ZEP_OK;
}

static int64_t wanted(const int64_t *a, int d)
{
    return a[d] < 0 ? -a[d] : 0;
}

/* As pair_up among all devices, but never inside a node: the receivers' first tokens, as many as turn() says, come last. */
static int pair_across(const struct zep_remap *rm, struct moves *mv, int64_t *a, struct zep_error *err)
{
    int64_t last = turn(rm, a);
    int rc, i = 0, j = 0;

    while (j < rm->n_dev && last >= wanted(a, rm->dev[j]))
        last -= wanted(a, rm->dev[j++]);
    if (j == rm->n_dev)
        return ZEP_OK;
    if ((rc = serve(rm, mv, a, &i, rm->dev[j], wanted(a, rm->dev[j]) - last, err)) < 0)
        return rc;
    for (int r = j + 1; r < j + rm->n_dev; r++) {
        int d = rm->dev[r % rm->n_dev];

        if ((rc = serve(rm, mv, a, &i, d, wanted(a, d), err)) < 0)
            return rc;
    }
    return serve(rm, mv, a, &i, rm->dev[j], last, err);
}

static int cmp_move(const void *a, const void *b)
{
    const struct zep_plan_move *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* A pair that met twice (at both ends of the circle) makes one move. */
static void take_moves(struct moves *mv, struct zep_plan *plan)
{
    int n = 0;

    if (!mv->n)
        return;
    qsort(mv->move, (size_t)mv->n, sizeof *mv->move, cmp_move);
    for (int i = 0; i < mv->n; i++)
        if (n && !cmp_move(&mv->move[n - 1], &mv->move[i]))
            mv->move[n - 1].n += mv->move[i].n;
        else
            mv->move[n++] = mv->move[i];
    plan->move = mv->move;
    plan->n_move = n;
    mv->move = NULL;
}

static int make_moves(struct zep_remap *rm, struct moves *mv, struct zep_error *err)
{
    const struct zep_view *view = rm->view;
    int rc, n;

    for (int i = 0; i < rm->n_dev; i += n) {
        int node = view->dev_node[rm->dev[i]];

        n = view->node_dev0[node + 1] - view->node_dev0[node];
        if ((rc = pair_up(mv, rm->part[ZEP_REMAP_NODE], &rm->dev[i], n, err)) < 0)
            return rc;
    }
    for (int l = 0; l < rm->n_leaf; l++)
        if ((rc = pair_up(mv, rm->part[ZEP_REMAP_LEAF], &rm->dev[rm->leaf0[l]], rm->leaf0[l + 1] - rm->leaf0[l], err)) < 0)
            return rc;
    return pair_across(rm, mv, rm->part[ZEP_REMAP_SPINE], err);
}

int zep_plan_remap_for(const struct zep_view *view, enum zep_remap_objective objective, const int64_t *attn_tok, const int64_t *want, struct zep_plan *plan, struct zep_error *err)
{
    struct zep_remap rm = {.view = view, .n_dev = view->n_dev, .inside = objective == ZEP_REMAP_INSIDE};
    struct moves mv = {0};
    int64_t lo = attn_tok[0], hi = attn_tok[0];
    int rc;

    for (int d = 1; d < view->n_dev; d++) {
        lo = attn_tok[d] < lo ? attn_tok[d] : lo;
        hi = attn_tok[d] > hi ? attn_tok[d] : hi;
    }
    if (!want && hi - lo <= 1) /* balanced already */
        return ZEP_OK;
    if ((rc = remap_init(&rm, attn_tok, want, err)) < 0)
        goto out;
    if ((rc = objective == ZEP_REMAP_SENDERS ? zep_remap_senders(&rm, err) : zep_remap_links(&rm, err)) < 0)
        goto out;
    if ((rc = make_moves(&rm, &mv, err)) < 0)
        goto out;
    take_moves(&mv, plan);
out:
    free(mv.move);
    zep_arena_free(rm.arena);
    return rc;
}

int zep_plan_remap(const struct zep_view *view, const int64_t *attn_tok, const int64_t *want, struct zep_plan *plan, struct zep_error *err)
{
    return zep_plan_remap_for(view, strcmp(plan->method, "zeppelin") ? ZEP_REMAP_SENDERS : ZEP_REMAP_LINKS, attn_tok, want, plan, err);
}
