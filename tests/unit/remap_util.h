/* Random clusters and attention layouts for tests of remapping, and what a remap costs, worked out from bandwidths. Includes Check. */
#ifndef ZEP_TESTS_REMAP_UTIL_H
#define ZEP_TESTS_REMAP_UTIL_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "planner/plan_internal.h"
#include "tests/unit/view_util.h"

#define CASE_MAX_DEV 64

struct remap_case {
    uint64_t seed;
    struct zep_view *view;
    int n_dev;
    int64_t tok[CASE_MAX_DEV];
    struct zep_plan plan; /* n_move and move alone */
};

static inline double case_dev_bw(const struct zep_view *v, int d)
{
    return v->dev_bw[d] > 0 ? v->dev_bw[d] : 200e9;
}

static inline int case_nic(const struct zep_view *v, int d)
{
    return v->dev_nic[d] >= 0 ? v->dev_nic[d] : v->n_nic + v->dev_node[d];
}

static inline double case_nic_bw(const struct zep_view *v, int nic)
{
    return nic < v->n_nic && v->nic_bw[nic] > 0 ? v->nic_bw[nic] : 25e9;
}

/* Seconds a token of one byte: the paper's C_ij. */
static inline double case_cost(const struct zep_view *v, int from, int to)
{
    double in = 1 / case_dev_bw(v, from), out = 1 / case_nic_bw(v, case_nic(v, from));
    int a = v->dev_node[from], b = v->dev_node[to];

    if (a == b)
        return in;
    return (out > in ? out : in) * (v->node_leaf[a] == v->node_leaf[b] ? 1 : 1.25);
}

static inline void case_tokens(struct remap_case *c, struct zep_rng *rng)
{
    int kind = (int)zep_rng_below(rng, 8), node = (int)zep_rng_below(rng, (uint64_t)c->view->n_node);
    int64_t most = (int64_t[]){5, 60, 1000, 100000}[zep_rng_below(rng, 4)];

    for (int d = 0; d < c->n_dev; d++) {
        int here = c->view->dev_node[d] == node;

        switch (kind) {
        case 0: c->tok[d] = most + (int64_t)zep_rng_below(rng, 2); break;                                       /* balanced already */
        case 1: c->tok[d] = d == c->n_dev / 2 ? most * c->n_dev : 0; break;                                     /* one full device */
        case 2: c->tok[d] = here ? (int64_t)zep_rng_below(rng, (uint64_t)most * 8) : 0; break;                  /* all on one node */
        case 3: c->tok[d] = (int64_t)zep_rng_below(rng, (uint64_t)(d % 3 ? most : 4 * most)) + (here ? most : 0); break;
        case 4: c->tok[d] = zep_rng_below(rng, 4) ? most : (int64_t)zep_rng_below(rng, (uint64_t)most * 8); break; /* a few are off */
        default: c->tok[d] = (int64_t)zep_rng_below(rng, (uint64_t)most); break;
        }
    }
}

/* 1-4 leaves of 1-4 nodes of 1-4 devices; in half of the cases links differ, sometimes so that a device is no faster inside than its NIC. */
static inline void case_make(struct remap_case *c, uint64_t seed)
{
    static const double speed[] = {0, 12.5e9, 25e9, 50e9, 64e9, 200e9, 450e9};
    struct zep_rng rng;
    int n_leaf, n_node = 0, dev[16] = {0}, nic[16] = {0}, leaf[16] = {0}, unknown, mixed;

    zep_rng_seed(&rng, seed);
    memset(c, 0, sizeof *c);
    c->seed = seed;
    n_leaf = 1 + (int)zep_rng_below(&rng, 4);
    unknown = zep_rng_below(&rng, 10) == 0;
    mixed = (int)zep_rng_below(&rng, 2);
    for (int l = 0; l < n_leaf; l++)
        for (int k = 1 + (int)zep_rng_below(&rng, 4); k > 0; k--) {
            dev[n_node] = 1 + (int)zep_rng_below(&rng, 4);
            nic[n_node] = (int)zep_rng_below(&rng, (uint64_t)dev[n_node] + 1);
            leaf[n_node++] = unknown ? -1 : n_leaf - l;
        }
    c->view = make_view_uneven(n_node, dev, nic);
    c->n_dev = c->view->n_dev;
    for (int i = 0; i < n_node; i++) /* nodes of one leaf need not stand together */
        c->view->node_leaf[i] = leaf[(i * 5) % n_node];
    for (int d = 0; mixed && d < c->n_dev; d++)
        c->view->dev_bw[d] = speed[zep_rng_below(&rng, 7)];
    for (int k = 0; mixed && k < c->view->n_nic; k++)
        c->view->nic_bw[k] = speed[zep_rng_below(&rng, 5)];
    case_tokens(c, &rng);
}

static inline void case_free(struct remap_case *c)
{
    free(c->plan.move);
    test_view_free(c->view);
}

static inline void case_remap(struct remap_case *c, enum zep_remap_objective objective)
{
    struct zep_error err = {0};

    ck_assert_msg(zep_plan_remap_for(c->view, objective, c->tok, NULL, &c->plan, &err) == ZEP_OK, "seed %llu: %s", (unsigned long long)c->seed, err.text);
}

/* The largest time of the moves (seconds for tokens of one byte). */
static inline double case_time(const struct remap_case *c, enum zep_remap_objective objective)
{
    const struct zep_view *v = c->view;
    double worst = 0, send[CASE_MAX_DEV] = {0}, dev[2][CASE_MAX_DEV] = {{0}}, nic[2][2 * CASE_MAX_DEV] = {{0}};

    for (int i = 0; i < c->plan.n_move; i++) {
        const struct zep_plan_move *m = &c->plan.move[i];

        send[m->from] += (double)m->n * case_cost(v, m->from, m->to);
        for (int side = 0; side < 2; side++) {
            int d = side ? m->to : m->from;

            if (v->dev_node[m->from] == v->dev_node[m->to])
                dev[side][d] += (double)m->n / case_dev_bw(v, d);
            else
                nic[side][case_nic(v, d)] += (double)m->n / case_nic_bw(v, case_nic(v, d));
        }
    }
    for (int d = 0; d < c->n_dev; d++)
        if (objective == ZEP_REMAP_SENDERS)
            worst = send[d] > worst ? send[d] : worst;
        else
            for (int side = 0; side < 2; side++)
                worst = dev[side][d] > worst ? dev[side][d] : worst;
    for (int k = 0; objective == ZEP_REMAP_LINKS && k < v->n_nic + v->n_node; k++)
        for (int side = 0; side < 2; side++)
            worst = nic[side][k] > worst ? nic[side][k] : worst;
    return worst;
}

#endif
