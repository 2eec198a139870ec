/* Remapping (design, section 8): attention layout -> equal shares. The paper's objective, the largest cost over senders of their tokens times the link's cost a token, has an
 * exact answer where costs depend on the level only: what can be inside a node stays inside; who sends across nodes is chosen by water-filling. */
#include "config.h"
#include "planner/plan_internal.h"

#include <stdlib.h>

#include "common/arena.h"

struct remap {
    const struct zep_view *view;
    int n_dev;
    int64_t *surplus; /* [n_dev] > 0: tokens to send, < 0: tokens wanted */
    int64_t *cross;   /* [n_dev] tokens that go to (> 0) or come from (< 0) other nodes */
    struct zep_plan_move *move;
    int n_move, cap_move;
    struct zep_error *err;
};

static int add_move(struct remap *rm, int from, int to, int64_t n)
{
    if (rm->n_move == rm->cap_move) {
        int cap = 2 * rm->cap_move + 16;
        struct zep_plan_move *move = zep_reallocarray(rm->move, (size_t)cap, sizeof *move);

        if (!move)
            return zep_error_nomem(rm->err, "remapping");
        rm->move = move;
        rm->cap_move = cap;
    }
    rm->move[rm->n_move++] = (struct zep_plan_move){from, to, n};
    return ZEP_OK;
}

/* Targets: equal shares; the tokens that are left over stay with the fullest devices, so that they move nothing. */
static int cmp_full(const void *a, const void *b)
{
    const int64_t *x = a, *y = b; /* {attn_tok, device} */

    if (x[0] != y[0])
        return x[0] > y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

static int set_surplus(struct remap *rm, const int64_t *attn_tok)
{
    int64_t total = 0, (*key)[2] = zep_calloc((size_t)rm->n_dev, sizeof *key);

    if (!key)
        return zep_error_nomem(rm->err, "remapping");
    for (int d = 0; d < rm->n_dev; d++) {
        total += attn_tok[d];
        key[d][0] = attn_tok[d];
        key[d][1] = d;
    }
    qsort(key, (size_t)rm->n_dev, sizeof *key, cmp_full);
    for (int i = 0; i < rm->n_dev; i++)
        rm->surplus[key[i][1]] = attn_tok[key[i][1]] - total / rm->n_dev - (i < total % rm->n_dev);
    free(key);
    return ZEP_OK;
}

/* Costs in picoseconds a byte; the level's usual ratio where a speed is unknown. */
static int64_t cost_inside(const struct zep_view *view, int d)
{
    double bw = view->dev_bw[d] > 0 ? view->dev_bw[d] : 200e9;

    return (int64_t)(1e12 / bw) + 1;
}

static int64_t cost_across(const struct zep_view *view, int d)
{
    double bw = view->dev_nic[d] >= 0 && view->nic_bw[view->dev_nic[d]] > 0 ? view->nic_bw[view->dev_nic[d]] : 25e9;
    int64_t c = (int64_t)(1e12 / bw) + 1, in = cost_inside(view, d);

    return c > in ? c : in + 1;
}

/* Tokens that a sender may send across nodes within the cost level. */
static int64_t within(const struct remap *rm, int d, int64_t level)
{
    int64_t s = rm->surplus[d], in = cost_inside(rm->view, d), room = level - in * s;

    if (s <= 0 || room <= 0)
        return 0;
    room /= cost_across(rm->view, d) - in;
    return room < s ? room : s;
}

static int64_t within_all(const struct remap *rm, int d0, int d1, int64_t level)
{
    int64_t sum = 0;

    for (int d = d0; d < d1; d++)
        sum += within(rm, d, level);
    return sum;
}

/* Shares `want` tokens to send across among the senders [d0, d1) such that the largest cost is smallest. */
static void fill_water(struct remap *rm, int d0, int d1, int64_t want)
{
    int64_t lo = 0, hi = 1, have = 0;

    while (within_all(rm, d0, d1, hi) < want)
        hi *= 2;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;

        if (within_all(rm, d0, d1, mid) >= want)
            hi = mid;
        else
            lo = mid;
    }
    for (int d = d0; d < d1; d++)
        have += rm->cross[d] = within(rm, d, hi);
    for (int d = d1 - 1; d >= d0; d--) { /* who only just came in at this level gives back what is too much */
        int64_t just = rm->cross[d] - within(rm, d, hi - 1), give = have - want < just ? have - want : just;

        rm->cross[d] -= give;
        have -= give;
    }
}

/* Pairs senders and receivers of a[] (> 0 sends) in [d0, d1) in order of devices. */
static int pair_up(struct remap *rm, int64_t *a, int d0, int d1)
{
    int rc, i = d0, j = d0;

    for (;;) {
        int64_t n;

        while (i < d1 && a[i] <= 0)
            i++;
        while (j < d1 && a[j] >= 0)
            j++;
        if (i == d1 || j == d1)
            return ZEP_OK;
        n = a[i] < -a[j] ? a[i] : -a[j];
        if ((rc = add_move(rm, i, j, n)) < 0)
            return rc;
        a[i] -= n;
        a[j] += n;
    }
}

static int remap_node(struct remap *rm, int d0, int d1)
{
    int64_t have = 0, want = 0;

    for (int d = d0; d < d1; d++) {
        rm->cross[d] = 0;
        if (rm->surplus[d] > 0)
            have += rm->surplus[d];
        else
            want -= rm->surplus[d];
    }
    if (have > want)
        fill_water(rm, d0, d1, have - want);
    for (int d = d0; d < d1 && have < want; d++) { /* the first receivers are served from outside */
        int64_t n = want - have < -rm->surplus[d] ? want - have : -rm->surplus[d];

        if (n <= 0)
            continue;
        rm->cross[d] = -n;
        want -= n;
    }
    for (int d = d0; d < d1; d++)
        rm->surplus[d] -= rm->cross[d];
    return pair_up(rm, rm->surplus, d0, d1);
}

static int cmp_move(const void *a, const void *b)
{
    const struct zep_plan_move *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* A pair met inside a node is not met again across nodes; so no pair appears twice. */
static void take_moves(struct remap *rm, struct zep_plan *plan)
{
    qsort(rm->move, (size_t)rm->n_move, sizeof *rm->move, cmp_move);
    plan->move = rm->move;
    plan->n_move = rm->n_move;
    rm->move = NULL;
}

int zep_plan_remap(const struct zep_view *view, const int64_t *attn_tok, struct zep_plan *plan, struct zep_error *err)
{
    struct remap rm = {.view = view, .n_dev = view->n_dev, .err = err};
    int64_t lo = attn_tok[0], hi = attn_tok[0];
    int rc = ZEP_OK;

    for (int d = 1; d < view->n_dev; d++) {
        lo = attn_tok[d] < lo ? attn_tok[d] : lo;
        hi = attn_tok[d] > hi ? attn_tok[d] : hi;
    }
    if (hi - lo <= 1) /* balanced already */
        return ZEP_OK;
    rm.surplus = zep_calloc((size_t)view->n_dev, sizeof *rm.surplus);
    rm.cross = zep_calloc((size_t)view->n_dev, sizeof *rm.cross);
    if (!rm.surplus || !rm.cross) {
        rc = zep_error_nomem(err, "remapping");
        goto out;
    }
    if ((rc = set_surplus(&rm, attn_tok)) < 0)
        goto out;
    for (int i = 0; i < view->n_node; i++)
        if ((rc = remap_node(&rm, view->node_dev0[i], view->node_dev0[i + 1])) < 0)
            goto out;
    if ((rc = pair_up(&rm, rm.cross, 0, view->n_dev)) < 0)
        goto out;
    if (rm.n_move)
        take_moves(&rm, plan);
out:
    free(rm.move);
    free(rm.surplus);
    free(rm.cross);
    return rc;
}
