/* The paper's partitioner (design, section 4): buckets of nodes first, buckets of devices second, each with a threshold that falls until everything fits.
 * Where the source is silent: a node's load is its tokens beside what its devices hold together, so that nodes may differ; among devices the load is the attention work (the sum of s * s / k over their parts), then
 * the tokens; only nodes and devices with room are candidates; ties go to the lower number. From the 64th pass on the threshold between nodes falls by at least an eighth a pass. */
#include "config.h"
#include "planner/plan_internal.h"
#include "planner/tournament.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

enum { FITS = 0, NO_FIT = 1 }; /* negative: zep_status */

#define SLOW_PASSES 64

struct part {
    const struct zep_view *view;
    const int64_t *len;
    int n;
    const struct zep_plan_opts *opts;
    int64_t cap;         /* tokens of the largest device */
    int64_t *node_cap;   /* [n_node] of all devices of a node */
    struct zep_draft draft;
    int32_t *sorted;     /* [n] by descending length */
    int64_t *dev_tok;    /* [n_dev] */
    int64_t *base_tok;   /* [n_dev] of sequences over all devices of a node or several nodes */
    double *dev_work;    /* [n_dev] */
    int64_t *node_tok;   /* [n_node] */
    int32_t *node_of;    /* [n] node of a whole sequence */
    int32_t *pick;       /* [max(n_dev, n_node)] candidates */
    int32_t *item;       /* [n_dev] a set under way */
    struct zep_tournament nodes; /* the least loaded one, with room */
    int32_t *list;       /* [n] whole sequences, node by node, by descending length */
    int32_t *list0;      /* [n_node + 1] where each node's begin */
    struct zep_error *err;
};

static int node_devs(const struct part *p, int node)
{
    return p->view->node_dev0[node + 1] - p->view->node_dev0[node];
}

static int cmp_len(const void *a, const void *b)
{
    const int64_t *x = a, *y = b; /* {length, sequence} */

    if (x[0] != y[0])
        return x[0] > y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

static int sort_seqs(struct part *p)
{
    int64_t (*key)[2] = zep_calloc((size_t)p->n + 1, sizeof *key);

    if (!key)
        return zep_error_nomem(p->err, "plan");
    for (int i = 0; i < p->n; i++) {
        key[i][0] = p->len[i];
        key[i][1] = i;
    }
    qsort(key, (size_t)p->n, sizeof *key, cmp_len);
    for (int i = 0; i < p->n; i++)
        p->draft.order[i] = p->sorted[i] = (int32_t)key[i][1];
    free(key);
    return ZEP_OK;
}

/* Node a is less loaded than b, by what it holds (per device, where all hold as much). */
static int node_less(const void *arg, int a, int b)
{
    const struct part *p = arg;
    __int128 x = (__int128)p->node_tok[a] * p->node_cap[b], y = (__int128)p->node_tok[b] * p->node_cap[a];

    if (!p->node_cap[a] || !p->node_cap[b])
        return p->node_cap[a] != p->node_cap[b] ? p->node_cap[a] > 0 : a < b;
    return x != y ? x < y : a < b;
}

static int dev_less(const struct part *p, int a, int b)
{
    if (p->dev_work[a] != p->dev_work[b])
        return p->dev_work[a] < p->dev_work[b];
    if (p->dev_tok[a] != p->dev_tok[b])
        return p->dev_tok[a] < p->dev_tok[b];
    return a < b;
}

/* Moves the k least loaded devices of pick[0, n) to the front. */
static void select_least(struct part *p, int n, int k)
{
    for (int i = 0; i < k; i++) {
        int best = i;
        int32_t t;

        for (int j = i + 1; j < n; j++)
            if (dev_less(p, p->pick[j], p->pick[best]))
                best = j;
        t = p->pick[i];
        p->pick[i] = p->pick[best];
        p->pick[best] = t;
    }
}

static int cmp_i32(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* Puts a sequence over the devices item[0, g) where each has room for its part. */
static int place(struct part *p, int seq, int g)
{
    int64_t len = p->len[seq];
    int set, rot;

    if ((set = zep_sets_get(&p->draft.sets, p->item, g, p->err)) < 0)
        return set;
    rot = p->draft.sets.set[set].rot;
    for (int m = 0; m < g; m++)
        if (p->dev_tok[p->item[m]] + zep_member_tokens(len, g, rot, m) > zep_opts_capacity(p->opts, p->item[m]))
            return NO_FIT;
    zep_draft_place(&p->draft, seq, len, set);
    for (int m = 0; m < g; m++) {
        p->dev_tok[p->item[m]] += zep_member_tokens(len, g, rot, m);
        p->dev_work[p->item[m]] += (double)len * (double)len / g;
    }
    return FITS;
}

static int all_of_nodes(struct part *p, int k)
{
    int g = 0;

    qsort(p->pick, (size_t)k, sizeof *p->pick, cmp_i32);
    for (int i = 0; i < k; i++)
        for (int d = p->view->node_dev0[p->pick[i]]; d < p->view->node_dev0[p->pick[i] + 1]; d++)
            p->item[g++] = d;
    return g;
}

static int64_t ceil_div128(__int128 a, __int128 b)
{
    return (int64_t)((a + b - 1) / b);
}

/* Puts a node into the tournament as it is loaded now. */
static void enter_node(struct part *p, int node)
{
    zep_tournament_set(&p->nodes, node, p->node_cap[node] - p->node_tok[node]);
}

/* A sequence of the inter-node zone over the k least loaded nodes, k as small as fits. */
static int place_inter(struct part *p, int seq, int64_t total, int max_devs)
{
    int n_node = p->view->n_node, n_pick = 0, g, rc = NO_FIT;
    int64_t len = p->len[seq], k = ceil_div128((__int128)len * n_node, total), k_fit = ceil_div128(len, (__int128)max_devs * p->cap); /* the least that could be enough */

    if (!zep_opts_zone(p->opts, ZEP_ZONE_INTRA) && k < 2) /* one node's devices are a ring of the other zone */
        k = 2;
    for (k = k > k_fit ? k : k_fit; k <= n_node && rc == NO_FIT; k++) {
        for (; n_pick < k; n_pick++) {
            p->pick[n_pick] = zep_tournament_find(&p->nodes, INT64_MIN);
            zep_tournament_remove(&p->nodes, p->pick[n_pick]);
        }
        g = all_of_nodes(p, (int)k);
        rc = g > 1 || zep_opts_zone(p->opts, ZEP_ZONE_LOCAL) ? place(p, seq, g) : NO_FIT;
    }
    for (int i = 0; i < n_pick; i++) {
        int node = p->pick[i], d0 = p->view->node_dev0[node];

        p->node_tok[node] = 0;
        for (int d = d0; d < d0 + node_devs(p, node); d++)
            p->node_tok[node] += p->dev_tok[d];
        enter_node(p, node);
    }
    return rc;
}

static int place_whole(struct part *p, int seq)
{
    int best = zep_tournament_find(&p->nodes, p->len[seq]);

    if (best < 0)
        return NO_FIT;
    p->node_tok[best] += p->len[seq];
    p->node_of[seq] = best;
    enter_node(p, best);
    return FITS;
}

/* Whole sequences, from the n_inter-th on, node by node. */
static void list_nodes(struct part *p, int n_inter)
{
    int n_node = p->view->n_node;

    memset(p->list0, 0, ((size_t)n_node + 1) * sizeof *p->list0);
    for (int i = n_inter; i < p->n; i++)
        p->list0[p->node_of[p->sorted[i]] + 1]++;
    for (int i = 0; i < n_node; i++) {
        p->pick[i] = p->list0[i]; /* where its next one goes */
        p->list0[i + 1] += p->list0[i];
    }
    for (int i = n_inter; i < p->n; i++)
        p->list[p->pick[p->node_of[p->sorted[i]]]++] = p->sorted[i];
}

/* Between nodes with threshold s1; *n_inter_out: how many sequences are in the inter-node zone. */
static int pass_nodes(struct part *p, int64_t s1, int *n_inter_out)
{
    int64_t total = 0;
    int n_inter = 0, max_devs = 1, rc;

    zep_sets_reset(&p->draft.sets);
    for (int d = 0; d < p->view->n_dev; d++) {
        p->dev_tok[d] = 0;
        p->dev_work[d] = 0;
    }
    for (int i = 0; i < p->view->n_node; i++) {
        p->node_tok[i] = 0;
        enter_node(p, i);
        max_devs = node_devs(p, i) > max_devs ? node_devs(p, i) : max_devs;
    }
    while (n_inter < p->n && p->len[p->sorted[n_inter]] >= s1 && zep_opts_zone(p->opts, ZEP_ZONE_INTER))
        total += p->len[p->sorted[n_inter++]];
    *n_inter_out = n_inter;
    for (int i = 0; i < n_inter; i++)
        if ((rc = place_inter(p, p->sorted[i], total, max_devs)) != FITS)
            return rc;
    for (int i = n_inter; i < p->n; i++)
        if ((rc = place_whole(p, p->sorted[i])) != FITS)
            return rc;
    for (int d = 0; d < p->view->n_dev; d++)
        p->base_tok[d] = p->dev_tok[d];
    list_nodes(p, n_inter);
    return FITS;
}

/* Devices of a node with room for n tokens, as candidates. */
static int with_room(struct part *p, int node, int64_t n)
{
    int count = 0;

    for (int d = p->view->node_dev0[node]; d < p->view->node_dev0[node + 1]; d++)
        if (p->dev_tok[d] + n <= zep_opts_capacity(p->opts, d))
            p->pick[count++] = d;
    return count;
}

/* Over the k least loaded devices of the node, k as small as fits. */
static int place_intra(struct part *p, int node, int seq, int64_t k)
{
    int n_dev = node_devs(p, node), rc = NO_FIT;
    int64_t len = p->len[seq];

    if (!zep_opts_zone(p->opts, ZEP_ZONE_LOCAL) && k < 2)
        k = 2;
    for (; k <= n_dev && rc == NO_FIT; k++) {
        /* over all devices the parts decide by one token, which place() looks at */
        int n = with_room(p, node, k == n_dev ? len / k : ceil_div128(len, k));

        if (n < k)
            continue;
        select_least(p, n, (int)k);
        for (int i = 0; i < k; i++)
            p->item[i] = p->pick[i];
        qsort(p->item, (size_t)k, sizeof *p->item, cmp_i32);
        rc = place(p, seq, (int)k);
    }
    return rc;
}

static int place_local(struct part *p, int node, int seq)
{
    int n = with_room(p, node, p->len[seq]);

    if (!n)
        return NO_FIT;
    select_least(p, n, 1);
    p->item[0] = p->pick[0];
    return place(p, seq, 1);
}

/* In one node with threshold s0: the sequences list[0, n). */
static int pass_devices(struct part *p, int node, const int32_t *list, int n, int64_t s0, int *n_intra_out)
{
    __int128 total = 0;
    int n_intra = 0, rc;

    while (n_intra < n && p->len[list[n_intra]] >= s0 && zep_opts_zone(p->opts, ZEP_ZONE_INTRA)) {
        total += (__int128)p->len[list[n_intra]] * p->len[list[n_intra]];
        n_intra++;
    }
    *n_intra_out = n_intra;
    for (int i = 0; i < n_intra; i++) {
        int64_t len = p->len[list[i]], k = ceil_div128((__int128)len * len * node_devs(p, node), total), k_fit = ceil_div128(len, p->cap);

        if ((rc = place_intra(p, node, list[i], k > k_fit ? k : k_fit)) != FITS)
            return rc;
    }
    for (int i = n_intra; i < n; i++)
        if ((rc = place_local(p, node, list[i])) != FITS)
            return rc;
    return FITS;
}

/* Sets that a failed pass made count from the beginning again. */
static void undo_node(struct part *p, int node, const struct zep_sets *before, int32_t whole_rot, int whole)
{
    for (int i = before->n; i < p->draft.sets.n; i++)
        p->draft.sets.set[i].rot = 0;
    p->draft.sets.set[whole].rot = whole_rot;
    for (int d = p->view->node_dev0[node]; d < p->view->node_dev0[node + 1]; d++)
        p->dev_tok[d] = p->base_tok[d];
}

static int fit_node(struct part *p, int node)
{
    struct zep_sets before;
    const int32_t *list = p->list + p->list0[node];
    int64_t s0 = zep_opts_zone(p->opts, ZEP_ZONE_LOCAL) ? p->cap : 0;
    int n = p->list0[node + 1] - p->list0[node], n_intra, whole, rc;
    int32_t whole_rot;

    p->pick[0] = node;
    if ((whole = zep_sets_get(&p->draft.sets, p->item, all_of_nodes(p, 1), p->err)) < 0)
        return whole;
    before = p->draft.sets;
    whole_rot = before.set[whole].rot;
    for (int d = p->view->node_dev0[node]; d < p->view->node_dev0[node + 1]; d++)
        p->dev_work[d] = 0; /* what all devices share does not decide */
    for (;;) {
        rc = pass_devices(p, node, list, n, s0, &n_intra);
        if (rc != NO_FIT)
            return rc;
        undo_node(p, node, &before, whole_rot, whole);
        for (int d = p->view->node_dev0[node]; d < p->view->node_dev0[node + 1]; d++)
            p->dev_work[d] = 0;
        if (!zep_opts_zone(p->opts, ZEP_ZONE_INTRA) || node_devs(p, node) < 2)
            return NO_FIT;
        if (n_intra == n)
            break;
        s0 = p->len[list[n_intra]];
    }
    for (int i = 0; i < n; i++) { /* every sequence over all devices of the node */
        p->pick[0] = node;
        if ((rc = place(p, list[i], all_of_nodes(p, 1))) != FITS)
            return rc;
    }
    return FITS;
}

static int fit(struct part *p)
{
    int64_t s1 = 0;
    int n_inter, rc;

    for (int i = 0; i < p->view->n_node; i++)
        s1 = p->node_cap[i] > s1 ? p->node_cap[i] : s1;
    if (!zep_opts_zone(p->opts, ZEP_ZONE_LOCAL) && !zep_opts_zone(p->opts, ZEP_ZONE_INTRA))
        s1 = 0;
    for (int pass = 0;; pass++) {
        rc = pass_nodes(p, s1, &n_inter);
        for (int i = 0; i < p->view->n_node && rc == FITS; i++)
            rc = fit_node(p, i);
        if (rc != NO_FIT)
            return rc;
        if (n_inter == p->n || !zep_opts_zone(p->opts, ZEP_ZONE_INTER))
            return NO_FIT;
        s1 = p->len[p->sorted[n_inter]] < s1 ? p->len[p->sorted[n_inter]] : s1;
        if (pass >= SLOW_PASSES)
            s1 -= s1 / 8;
    }
}

/* Every sequence over all devices; the running rot keeps them within one token of each other, so this fits whenever the total does and all devices hold as much (else zep_plan_build refuses it). */
static int last_resort(struct part *p)
{
    int set;

    zep_sets_reset(&p->draft.sets);
    for (int d = 0; d < p->view->n_dev; d++)
        p->item[d] = d;
    if ((set = zep_sets_get(&p->draft.sets, p->item, p->view->n_dev, p->err)) < 0)
        return set;
    for (int i = 0; i < p->n; i++)
        zep_draft_place(&p->draft, p->sorted[i], p->len[p->sorted[i]], set);
    return FITS;
}

static void part_free(struct part *p)
{
    zep_draft_free(&p->draft);
    free(p->sorted);
    free(p->dev_tok);
    free(p->base_tok);
    free(p->dev_work);
    free(p->node_tok);
    free(p->node_cap);
    free(p->node_of);
    free(p->pick);
    free(p->item);
    free(p->list);
    free(p->list0);
    zep_tournament_free(&p->nodes);
}

static int part_init(struct part *p)
{
    size_t n = (size_t)p->n + 1, n_dev = (size_t)p->view->n_dev, n_node = (size_t)p->view->n_node;
    int rc;

    if ((rc = zep_draft_init(&p->draft, p->n, p->err)) < 0)
        return rc;
    p->sorted = zep_calloc(n, sizeof *p->sorted);
    p->dev_tok = zep_calloc(n_dev, sizeof *p->dev_tok);
    p->base_tok = zep_calloc(n_dev, sizeof *p->base_tok);
    p->dev_work = zep_calloc(n_dev, sizeof *p->dev_work);
    p->node_tok = zep_calloc(n_node, sizeof *p->node_tok);
    p->node_cap = zep_calloc(n_node, sizeof *p->node_cap);
    p->node_of = zep_calloc(n, sizeof *p->node_of);
    p->pick = zep_calloc(n_dev > n_node ? n_dev : n_node, sizeof *p->pick);
    p->item = zep_calloc(n_dev, sizeof *p->item);
    p->list = zep_calloc(n, sizeof *p->list);
    p->list0 = zep_calloc(n_node + 1, sizeof *p->list0);
    if (!p->sorted || !p->dev_tok || !p->base_tok || !p->dev_work || !p->node_tok || !p->node_cap || !p->node_of || !p->pick || !p->item || !p->list || !p->list0)
        return zep_error_nomem(p->err, "plan");
    if ((rc = zep_tournament_init(&p->nodes, p->view->n_node, node_less, p, p->err)) < 0)
        return rc;
    for (int d = 0; d < p->view->n_dev; d++)
        p->node_cap[p->view->dev_node[d]] += zep_opts_capacity(p->opts, d);
    return sort_seqs(p);
}

static int build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct part p = {.view = view, .len = len, .n = n, .opts = opts, .cap = opts->capacity_tok, .err = err};
    int rc;

    if ((rc = part_init(&p)) < 0)
        goto out;
    if ((rc = fit(&p)) == NO_FIT)
        rc = zep_opts_zone(opts, view->n_node > 1 ? ZEP_ZONE_INTER : view->n_dev > 1 ? ZEP_ZONE_INTRA : ZEP_ZONE_LOCAL) ? last_resort(&p) : zep_zones_refuse(view, len, n, opts, err);
    if (rc < 0)
        goto out;
    rc = zep_plan_from_draft(view, len, opts, opts->routing, &p.draft, plan_out, err);
out:
    part_free(&p);
    return rc;
}

const struct zep_method zep_method_zeppelin_paper = {"zeppelin-paper", "hierarchical partitioning as in Chen et al., EuroSys 2026", build};
