/* Our objective: the largest time over senders and receivers inside their nodes and over NICs, out and in, is the least, in whole tokens. Bisection over that time; for a given
 * one a node's tokens that stay inside may be any number of an interval, and one condition a node says whether the others can cross: docs/remapping.md, "Links". */
#include "config.h"
#include "planner/remap_internal.h"

#include "common/arena.h"

enum side { OUT, IN };

struct links {
    struct zep_remap *rm;
    int64_t *nic_tok[2]; /* [n_nic + n_node] surplus, deficit of the NIC's devices */
    int64_t *nic_cap[2]; /* what of it can stay inside within the time */
    int64_t *lo, *hi;    /* [n_node] least and most tokens that can stay inside */
    int64_t *inside;     /* [n_node] tokens that do */
};

static int64_t of_side(int64_t surplus, enum side side)
{
    return side == OUT ? surplus : -surplus;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many of n tokens of `cost` each fit into the time. */
static int64_t within(int64_t n, int64_t cost, int64_t time)
{
    return n * cost <= time ? n : time / cost;
}

/* The k-th NIC of a node: those known, then the one that stands for the unknown ones; -1 behind them. */
static int nic_of(const struct zep_view *view, int node, int k)
{
    int n = view->node_nic0[node + 1] - view->node_nic0[node];

    return k < n ? view->node_nic0[node] + k : k == n ? view->n_nic + node : -1;
}

/* The interval of a node for one side, cut with what is in lo and hi. */
static int bound_side(const struct links *ln, int node, enum side side, int64_t time)
{
    const struct zep_remap *rm = ln->rm;
    const struct zep_view *view = rm->view;
    int64_t *tok = ln->nic_tok[side], *cap = ln->nic_cap[side], lo = 0, hi = 0;
    int nic;

    for (int k = 0; (nic = nic_of(view, node, k)) >= 0; k++)
        cap[nic] = 0;
    for (int d = view->node_dev0[node]; d < view->node_dev0[node + 1]; d++) {
        int64_t n = of_side(rm->surplus[d], side);

        if (n > 0)
            cap[zep_remap_nic(view, d)] += within(n, rm->cost[ZEP_REMAP_NODE][d], time);
    }
    for (int k = 0; (nic = nic_of(view, node, k)) >= 0; k++) {
        int64_t must = tok[nic] - within(tok[nic], rm->nic_cost[nic], time);

        if (must > cap[nic])
            return 0;
        lo += must;
        hi += cap[nic];
    }
    ln->lo[node] = lo > ln->lo[node] ? lo : ln->lo[node];
    ln->hi[node] = min(hi, ln->hi[node]);
    return ln->lo[node] <= ln->hi[node];
}

static int fits(const struct links *ln, int64_t time)
{
    const struct zep_remap *rm = ln->rm;
    int64_t out = 0;

    for (int i = 0; i < rm->view->n_node; i++) {
        ln->hi[i] = min(rm->node_out[i], rm->node_in[i]);
        ln->lo[i] = rm->inside ? ln->hi[i] : 0;
        if (!bound_side(ln, i, OUT, time) || !bound_side(ln, i, IN, time))
            return 0;
        out += rm->node_out[i] - ln->lo[i];
    }
    for (int i = 0; i < rm->view->n_node; i++) /* what must come in from elsewhere can come from there */
        if (rm->node_in[i] - ln->hi[i] > out - (rm->node_out[i] - ln->lo[i]))
            return 0;
    return 1;
}

static int64_t least_time(const struct links *ln)
{
    const struct zep_remap *rm = ln->rm;
    int64_t lo = 1, hi = rm->total * ZEP_REMAP_SLOWEST;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (fits(ln, mid))
            hi = mid;
        else
            lo = mid + 1;
    }
    fits(ln, hi);
    return hi;
}

/* As many as can stay inside; fewer only where a node would have to send to itself otherwise. */
static void choose_inside(const struct links *ln)
{
    const struct zep_remap *rm = ln->rm;
    int64_t cross = 0;

    for (int i = 0; i < rm->view->n_node; i++) {
        ln->inside[i] = ln->hi[i];
        cross += rm->node_out[i] - ln->hi[i];
    }
    for (int i = 0; i < rm->view->n_node; i++) {
        int64_t lack = rm->node_out[i] + rm->node_in[i] - 2 * ln->hi[i] - cross;

        for (int k = 0; lack > 0 && k < rm->view->n_node; k++) {
            int64_t n = k == i ? 0 : min(lack, ln->hi[k] - ln->lo[k]);

            ln->inside[k] -= n;
            lack -= n;
            if (!lack) /* no second node can lack any */
                return;
        }
    }
}

/* Which tokens of a node stay inside: for each NIC what it cannot carry, then the others, each time in the order of devices. The sign is that of the surplus. */
static void share_side(const struct links *ln, int node, enum side side, int64_t time)
{
    struct zep_remap *rm = ln->rm;
    const struct zep_view *view = rm->view;
    int64_t *must = ln->nic_cap[side], rest = ln->inside[node];
    int nic;

    for (int k = 0; (nic = nic_of(view, node, k)) >= 0; k++) {
        must[nic] = ln->nic_tok[side][nic] - within(ln->nic_tok[side][nic], rm->nic_cost[nic], time);
        rest -= must[nic];
    }
    for (int d = view->node_dev0[node]; d < view->node_dev0[node + 1]; d++) {
        int64_t n = of_side(rm->surplus[d], side), cap = n > 0 ? within(n, rm->cost[ZEP_REMAP_NODE][d], time) : 0, first = min(cap, must[zep_remap_nic(view, d)]);

        if (n <= 0)
            continue;
        must[zep_remap_nic(view, d)] -= first;
        rm->part[ZEP_REMAP_NODE][d] = of_side(first, side);
    }
    for (int d = view->node_dev0[node]; d < view->node_dev0[node + 1]; d++) {
        int64_t n = of_side(rm->surplus[d], side), have = of_side(rm->part[ZEP_REMAP_NODE][d], side), more;

        if (n <= 0)
            continue;
        more = min(within(n, rm->cost[ZEP_REMAP_NODE][d], time) - have, rest);
        rest -= more;
        rm->part[ZEP_REMAP_NODE][d] = of_side(have + more, side);
        rm->part[ZEP_REMAP_SPINE][d] = rm->surplus[d] - rm->part[ZEP_REMAP_NODE][d];
    }
}

/* What crosses stays in the leaf where it can; the times are the same. Not where some node both sends and receives: pairing inside leaves might leave it alone with itself. */
static void prefer_leaf(const struct links *ln)
{
    struct zep_remap *rm = ln->rm;
    int64_t *leaf = rm->part[ZEP_REMAP_LEAF], *spine = rm->part[ZEP_REMAP_SPINE];

    for (int i = 0; i < rm->view->n_node; i++)
        if (rm->node_out[i] > ln->inside[i] && rm->node_in[i] > ln->inside[i])
            return;
    for (int l = 0; l < rm->n_leaf; l++) {
        int64_t sum[2] = {0, 0}, left[2];

        for (int i = rm->leaf0[l]; i < rm->leaf0[l + 1]; i++)
            sum[spine[rm->dev[i]] < 0 ? IN : OUT] += of_side(spine[rm->dev[i]], spine[rm->dev[i]] < 0 ? IN : OUT);
        left[OUT] = left[IN] = min(sum[OUT], sum[IN]);
        for (int i = rm->leaf0[l]; i < rm->leaf0[l + 1]; i++) {
            int d = rm->dev[i];
            enum side side = spine[d] < 0 ? IN : OUT;
            int64_t n = min(of_side(spine[d], side), left[side]);

            left[side] -= n;
            leaf[d] = of_side(n, side);
            spine[d] -= leaf[d];
        }
    }
}

int zep_remap_links(struct zep_remap *rm, struct zep_error *err)
{
    const struct zep_view *view = rm->view;
    struct links ln = {.rm = rm};
    size_t n_nic = (size_t)(view->n_nic + view->n_node);
    int64_t time;

    for (int s = 0; s < 2; s++) {
        ln.nic_tok[s] = zep_arena_alloc(rm->arena, n_nic, sizeof *ln.nic_tok[s]);
        ln.nic_cap[s] = zep_arena_alloc(rm->arena, n_nic, sizeof *ln.nic_cap[s]);
        if (!ln.nic_tok[s] || !ln.nic_cap[s])
            return zep_error_nomem(err, "remapping");
    }
    ln.lo = zep_arena_alloc(rm->arena, (size_t)view->n_node, sizeof *ln.lo);
    ln.hi = zep_arena_alloc(rm->arena, (size_t)view->n_node, sizeof *ln.hi);
    ln.inside = zep_arena_alloc(rm->arena, (size_t)view->n_node, sizeof *ln.inside);
    if (!ln.lo || !ln.hi || !ln.inside)
        return zep_error_nomem(err, "remapping");
    for (int d = 0; d < rm->n_dev; d++)
        ln.nic_tok[rm->surplus[d] > 0 ? OUT : IN][zep_remap_nic(view, d)] += rm->surplus[d] > 0 ? rm->surplus[d] : -rm->surplus[d];
    time = least_time(&ln);
    choose_inside(&ln);
    for (int i = 0; i < view->n_node; i++) {
        share_side(&ln, i, OUT, time);
        share_side(&ln, i, IN, time);
    }
    prefer_leaf(&ln);
    return ZEP_OK;
}
