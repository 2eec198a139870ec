/* Routing of the hops between nodes (design, section 7): one pair of proxies for each NIC that both nodes have, or as many of them as is fastest. */
#include "config.h"
#include "planner/plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "planner/estimate.h"

/* The devices of all nodes by NIC; NICs without devices and devices without NICs are left out. */
struct nic_table {
    int32_t *node_nic0; /* [n_node + 1] ranges in nic: the NICs of a node that have devices */
    int32_t *nic;
    int32_t *dev0, *dev; /* [n_nic + 1] and [n_dev]: devices by NIC */
    int32_t *turn;       /* [n_nic] which of its devices serves next */
};

static void table_free(struct nic_table *t)
{
    free(t->node_nic0);
    free(t->nic);
    free(t->dev0);
    free(t->dev);
    free(t->turn);
}

static int table_make(const struct zep_view *view, struct nic_table *t, struct zep_error *err)
{
    int n_nic = view->n_nic, n = 0;

    *t = (struct nic_table){
        .node_nic0 = zep_calloc((size_t)view->n_node + 1, sizeof(int32_t)),
        .nic = zep_calloc((size_t)n_nic + 1, sizeof(int32_t)),
        .dev0 = zep_calloc((size_t)n_nic + 2, sizeof(int32_t)),
        .dev = zep_calloc((size_t)view->n_dev + 1, sizeof(int32_t)),
        .turn = zep_calloc((size_t)n_nic + 1, sizeof(int32_t)),
    };
    if (!t->node_nic0 || !t->nic || !t->dev0 || !t->dev || !t->turn) {
        table_free(t);
        return zep_error_nomem(err, "routing");
    }
    for (int d = 0; d < view->n_dev; d++)
        if (view->dev_nic[d] >= 0)
            t->dev0[view->dev_nic[d] + 1]++;
    for (int c = 0; c < n_nic; c++)
        t->dev0[c + 1] += t->dev0[c];
    for (int d = 0; d < view->n_dev; d++)
        if (view->dev_nic[d] >= 0)
            t->dev[t->dev0[view->dev_nic[d]] + t->turn[view->dev_nic[d]]++] = d;
    for (int c = 0; c < n_nic; c++)
        t->turn[c] = 0;
    for (int i = 0; i < view->n_node; i++) {
        for (int c = view->node_nic0[i]; c < view->node_nic0[i + 1]; c++)
            if (t->dev0[c + 1] > t->dev0[c])
                t->nic[n++] = c;
        t->node_nic0[i + 1] = n;
    }
    return ZEP_OK;
}

/* x devices of dev's node with different NICs: dev itself, then the next NICs in turn, each by its devices in turn. */
static void choose(const struct zep_view *view, struct nic_table *t, int dev, int x, int receiver, struct zep_plan_proxy *proxy)
{
    int first = t->node_nic0[view->dev_node[dev]], n = t->node_nic0[view->dev_node[dev] + 1] - first, own = 0;

    while (t->nic[first + own] != view->dev_nic[dev])
        own++;
    for (int k = 0; k < x; k++) {
        int c = t->nic[first + (own + k) % n], d = dev;

        if (k) {
            d = t->dev[t->dev0[c] + t->turn[c] % (t->dev0[c + 1] - t->dev0[c])];
            t->turn[c]++;
        }
        if (receiver)
            proxy[k].dst = d;
        else
            proxy[k].src = d;
    }
}

/* The k-th pair's NICs: the slower one. 0: a bandwidth is not known. */
static double pair_bw(const struct zep_view *view, const struct nic_table *t, int from, int to, int k)
{
    int end[] = {from, to};
    double bw[2];

    for (int i = 0; i < 2; i++) {
        int first = t->node_nic0[view->dev_node[end[i]]], n = t->node_nic0[view->dev_node[end[i]] + 1] - first, own = 0;

        while (t->nic[first + own] != view->dev_nic[end[i]])
            own++;
        bw[i] = view->nic_bw[t->nic[first + (own + k) % n]];
    }
    return bw[0] < bw[1] ? bw[0] : bw[1];
}

/* How many of x pairs carry a block of so many bytes in the least time: to the proxies over the sender's port, over the NICs, from the proxies over the receiver's port, one after the other. */
static int cheapest(const struct zep_view *view, const struct nic_table *t, const struct zep_cost *c, int from, int to, int x, double bytes)
{
    double port = zep_estimate_port(c, view), slowest = 0, least = 0;
    int best = x;

    for (int k = 1; k <= x; k++) {
        double bw = pair_bw(view, t, from, to, k - 1), s;

        slowest = k == 1 || bw < slowest ? bw : slowest;
        if (!(slowest > 0 && port > 0))
            return x;
        s = bytes / k / slowest + (k > 1 ? 2 * (bytes * (k - 1) / k / port + view->dev_latency_s + c->launch_s) : 0);
        if (k == 1 || s < least) {
            least = s;
            best = k;
        }
    }
    return best;
}

/* bytes: of a block, forward; 0: not by cost. */
static int n_path(const struct zep_view *view, const struct nic_table *t, const struct zep_plan_opts *opts, int from, int to, double bytes)
{
    int a = view->dev_node[from], b = view->dev_node[to];
    int na = t->node_nic0[a + 1] - t->node_nic0[a], nb = t->node_nic0[b + 1] - t->node_nic0[b], x = na < nb ? na : nb;

    if (view->dev_nic[from] < 0 || view->dev_nic[to] < 0)
        return 1;
    x = opts->max_proxies > 0 && x > opts->max_proxies ? opts->max_proxies : x;
    return bytes > 0 && x > 1 ? cheapest(view, t, opts->cost, from, to, x, bytes) : x;
}

static double block_bytes(const struct zep_plan *plan, const struct zep_plan_ring *r, const struct zep_plan_opts *opts)
{
    double rows = 0;

    if (!opts->cost || strcmp(plan->method, "zeppelin") != 0)
        return 0;
    for (int i = 0; i < r->n_seq; i++)
        rows += (double)plan->seq[plan->ring_seq[r->seq0 + i]].len;
    return rows / r->n_member * opts->cost->kv_row;
}

static int crosses(const struct zep_view *view, const struct zep_plan *plan, const struct zep_plan_ring *r, int m, int *from_out, int *to_out)
{
    *from_out = plan->member[r->member0 + m];
    *to_out = plan->member[r->member0 + (m + 1) % r->n_member];
    return view->dev_node[*from_out] != view->dev_node[*to_out];
}

/* Runs over all hops between nodes (of single rings; others send straight); with plan->hop set it fills, else it counts. */
static void route(const struct zep_view *view, struct nic_table *t, const struct zep_plan_opts *opts, int routing, struct zep_plan *plan)
{
    int n_hop = 0, n_proxy = 0, from, to;

    for (int i = 0; i < plan->n_ring; i++) {
        struct zep_plan_ring *r = &plan->ring[i];
        double bytes = block_bytes(plan, r, opts);

        r->hop0 = n_hop;
        for (int m = 0; m < r->n_member && r->zone == ZEP_ZONE_INTER && r->form == ZEP_FORM_SINGLE && !r->heads; m++) {
            int x;

            if (!crosses(view, plan, r, m, &from, &to))
                continue;
            x = routing ? n_path(view, t, opts, from, to, bytes) : 1;
            if (plan->hop) {
                plan->hop[n_hop] = (struct zep_plan_hop){m, n_proxy, x};
                plan->proxy[n_proxy] = (struct zep_plan_proxy){from, to};
                if (x > 1) {
                    choose(view, t, from, x, 0, &plan->proxy[n_proxy]);
                    choose(view, t, to, x, 1, &plan->proxy[n_proxy]);
                }
            }
            n_hop++;
            n_proxy += x;
        }
        r->n_hop = n_hop - r->hop0;
    }
    plan->n_hop = n_hop;
    plan->n_proxy = n_proxy;
}

int zep_plan_route(const struct zep_view *view, const struct zep_plan_opts *opts, int routing, struct zep_plan *plan, struct zep_error *err)
{
    struct nic_table t;
    int rc;

    if ((rc = table_make(view, &t, err)) < 0)
        return rc;
    route(view, &t, opts, routing, plan);
    plan->hop = zep_calloc((size_t)plan->n_hop + 1, sizeof *plan->hop);
    plan->proxy = zep_calloc((size_t)plan->n_proxy + 1, sizeof *plan->proxy);
    if (!plan->hop || !plan->proxy)
        rc = zep_error_nomem(err, "routing");
    else
        route(view, &t, opts, routing, plan);
    table_free(&t);
    return rc;
}
