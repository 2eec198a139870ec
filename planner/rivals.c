/* What others do, as plans: fixed degrees of context parallelism with sequences packed by cost, and data parallelism alone. None of them moves tokens between its two layouts.
 *   llama-cp    every sequence over all devices, keys and values gathered before attention (Llama 3, 2024)
 *   static-cp   one degree for all, the best of all that fit, packing by cost, double ring over nodes (Megatron-LM's and USP's practice)
 *   wlb         likewise with gathered keys and values, packing by the work of attention and linear modules (WLB-LLM, 2025); its delaying of outliers to later steps is not in it
 *   packed-dp   sequences stay whole, packed to equal tokens; only where the longest fits a device
 *   hybrid-dp   a sequence takes the smallest power of two of devices that holds it, the rest is data-parallel, balanced by work (ByteScale's hybrid data parallelism, 2025)
 *   flexsp      groups of mixed sizes, sizes and packing chosen together by cost (FlexSP, 2025); in a node groups whose size divides the key-value heads exchange heads, as its
 *               authors' do, where that is faster; larger ones and others are rings
 *   ulysses     heads exchanged in groups of one size that divides the key-value heads, the best of all that fit times data parallelism, packing by cost (DeepSpeed-Ulysses, 2023)
 *   usp         heads exchanged in groups inside a node, rings between the groups: the best sizes of both of all that fit (USP, 2024); keys and values are not replicated for larger degrees
 * Each is given the same memory, the same costs, and a choice among its candidates by the simulator itself. */
#include "config.h"
#include "planner/groups.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static int no_fit(const char *method, struct zep_error *err)
{
    return zep_error_set(err, ZEP_EUNSUPPORTED, "%s cannot place this batch within the capacity", method);
}

/* A search goes on where a candidate needs a link that is not known. */
static int go_on(int rc, int *skipped)
{
    *skipped |= rc == ZEP_SKIPPED;
    return rc == ZEP_SKIPPED ? ZEP_OK : rc;
}

/* The end of a search: the best plan, or why there is none: *err says it where candidates were skipped. */
static int settle(int rc, struct zep_plan *best, int skipped, const char *method, struct zep_plan **plan_out, struct zep_error *err)
{
    if (rc < 0) {
        zep_plan_free(best);
        return rc;
    }
    if (!best)
        return skipped ? ZEP_EINVAL : no_fit(method, err);
    *plan_out = best;
    return ZEP_OK;
}

/* The next larger degree: inside nodes those that go into all of them alike; 0: none. */
static int next_degree(const struct zep_view *view, int size)
{
    int common = zep_groups_common(view);

    if (size >= view->n_dev)
        return 0;
    if (size < common)
        return 2 * size <= common ? 2 * size : common;
    return 2 * size < view->n_dev ? 2 * size : view->n_dev;
}

/* --- one degree for all --- */

static int build_uniform(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, enum zep_form form, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *best = NULL, *plan;
    struct zep_groups g;
    double best_s = 0;
    int skipped = 0, rc = zep_groups_init(&g, view, len, n, opts, err);

    if (rc < 0)
        return rc;
    for (int size = 1; size && rc == ZEP_OK && !(best && !opts->cost); size = next_degree(view, size)) {
        if (!zep_groups_uniform(&g, size) || !zep_groups_pack(&g))
            continue;
        if ((rc = zep_groups_plan(&g, opts, form, &plan, err)) < 0)
            break;
        if (opts->cost)
            rc = go_on(zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err), &skipped);
        else
            best = plan; /* without costs: the smallest that fits */
    }
    zep_groups_free(&g);
    return settle(rc, best, skipped, opts->method, plan_out, err);
}

static int build_static(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    return build_uniform(view, len, n, opts, ZEP_FORM_DOUBLE, plan_out, err);
}

static int build_wlb(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    return build_uniform(view, len, n, opts, ZEP_FORM_GATHER, plan_out, err);
}

static int build_llama(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_groups g;
    int rc = zep_groups_init(&g, view, len, n, opts, err);

    if (rc < 0)
        return rc;
    if (!zep_groups_uniform(&g, view->n_dev) || !zep_groups_pack(&g))
        rc = no_fit(opts->method, err);
    else
        rc = zep_groups_plan(&g, opts, ZEP_FORM_GATHER, plan_out, err);
    zep_groups_free(&g);
    return rc;
}

/* --- exchange of heads --- */

/* Of each size of group all degrees of exchange that divide it and the key-value heads: as large as the group (ulysses), or any inside a node (usp). */
static int build_heads(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, int rings, struct zep_plan **plan_out, struct zep_error *err)
{
    int n_head = zep_estimate_n_heads(opts), common = zep_groups_common(view), skipped = 0, rc;
    struct zep_plan *best = NULL, *plan;
    struct zep_groups g;
    double best_s = 0;

    if (!n_head)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "method %s exchanges heads: how many key-value heads the model has is not known (--model, --kv-heads)", opts->method);
    if ((rc = zep_groups_init(&g, view, len, n, opts, err)) < 0)
        return rc;
    for (int size = 1; size && rc == ZEP_OK && !(best && !opts->cost); size = next_degree(view, size))
        for (g.u = size; g.u >= 1 && rc == ZEP_OK && !(best && !opts->cost); g.u--) {
            if (size % g.u || n_head % g.u || (g.u < size && (!rings || common % g.u)))
                continue;
            if (!zep_groups_uniform(&g, size) || !zep_groups_pack(&g))
                continue;
            if ((rc = zep_groups_plan(&g, opts, ZEP_FORM_DOUBLE, &plan, err)) < 0)
                break;
            if (opts->cost)
                rc = go_on(zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err), &skipped);
            else
                best = plan; /* without costs: the smallest that fits, heads before rings */
        }
    zep_groups_free(&g);
    return settle(rc, best, skipped, opts->method, plan_out, err);
}

static int build_ulysses(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    return build_heads(view, len, n, opts, 0, plan_out, err);
}

static int build_usp(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    return build_heads(view, len, n, opts, 1, plan_out, err);
}

/* --- data parallelism alone: whole sequences, longest first, to the device with the fewest tokens --- */

static int build_packed(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan_opts tokens = *opts;
    struct zep_cost by_tokens = {.linear_fwd_s = 1};
    struct zep_groups g;
    int rc;

    tokens.cost = &by_tokens;
    if ((rc = zep_groups_init(&g, view, len, n, &tokens, err)) < 0)
        return rc;
    zep_groups_uniform(&g, 1);
    rc = zep_groups_pack(&g) ? zep_groups_plan(&g, opts, ZEP_FORM_SINGLE, plan_out, err) : no_fit(opts->method, err);
    zep_groups_free(&g);
    return rc;
}

/* --- groups of several sizes --- */

struct mixed {
    struct zep_groups g;      /* its groups are single devices */
    const struct zep_plan_opts *opts;
    double *dev_s;            /* [n_dev] */
    int64_t *dev_tok;
    int32_t *first, *size;    /* [n_seq] devices of a sequence */
    int largest;              /* node */
};

static void mixed_free(struct mixed *m)
{
    zep_groups_free(&m->g);
    free(m->dev_s);
    free(m->dev_tok);
    free(m->first);
    free(m->size);
}

static int mixed_init(struct mixed *m, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err)
{
    int rc;

    memset(m, 0, sizeof *m);
    if ((rc = zep_groups_init(&m->g, view, len, n, opts, err)) < 0)
        return rc;
    m->opts = opts;
    for (int i = 0; i < view->n_node; i++)
        m->largest = view->node_dev0[i + 1] - view->node_dev0[i] > m->largest ? view->node_dev0[i + 1] - view->node_dev0[i] : m->largest;
    m->dev_s = zep_calloc((size_t)view->n_dev, sizeof *m->dev_s);
    m->dev_tok = zep_calloc((size_t)view->n_dev, sizeof *m->dev_tok);
    m->first = zep_calloc((size_t)n + 1, sizeof *m->first);
    m->size = zep_calloc((size_t)n + 1, sizeof *m->size);
    if (!m->dev_s || !m->dev_tok || !m->first || !m->size) {
        mixed_free(m);
        return zep_error_nomem(err, "groups of devices");
    }
    return ZEP_OK;
}

/* Room in tokens and load of the devices [d, d + size). */
static int look(const struct mixed *m, int d, int size, int64_t share, double *load)
{
    *load = 0;
    for (int i = d; i < d + size; i++) {
        if (m->dev_tok[i] + share > zep_opts_capacity(m->opts, i))
            return 0;
        *load = m->dev_s[i] > *load ? m->dev_s[i] : *load;
    }
    return 1;
}

/* The first device from d on at which a block of a size may begin: blocks that a node can hold do not cross from one to the next. */
static int next_block(const struct mixed *m, int d, int size)
{
    const struct zep_view *v = m->g.view;

    while (d < v->n_dev && size <= m->largest && d + size > v->node_dev0[v->dev_node[d] + 1])
        d = v->node_dev0[v->dev_node[d] + 1];
    return d;
}

static int put(struct mixed *m, int seq, int size)
{
    const struct zep_view *v = m->g.view;
    int64_t len = m->g.len[seq], share = len / size + (len % size != 0);
    double best_s = 0, load, each = zep_estimate_attn(m->g.cost, len, size) + (double)len / size * zep_estimate_token(m->g.cost);
    int best = -1;

    for (int d = next_block(m, 0, size); d + size <= v->n_dev; d = next_block(m, d + size, size)) {
        if (!look(m, d, size, share, &load) || (best >= 0 && load >= best_s))
            continue;
        best = d;
        best_s = load;
    }
    if (best < 0)
        return 0;
    for (int i = best; i < best + size; i++) {
        m->dev_tok[i] += share;
        m->dev_s[i] += each;
    }
    m->first[seq] = best;
    m->size[seq] = size;
    return 1;
}

/* Every sequence over the smallest degree whose devices take at most limit tokens of it each; larger where there is no room. */
static int place_mixed(struct mixed *m, int64_t limit)
{
    memset(m->dev_s, 0, (size_t)m->g.view->n_dev * sizeof *m->dev_s);
    memset(m->dev_tok, 0, (size_t)m->g.view->n_dev * sizeof *m->dev_tok);
    for (int k = 0; k < m->g.n_seq; k++) {
        int seq = m->g.sorted[k], size = 1, done = 0;

        while (next_degree(m->g.view, size) && (m->g.len[seq] + size - 1) / size > limit)
            size = next_degree(m->g.view, size);
        for (; size && !done; size = done ? size : next_degree(m->g.view, size))
            done = put(m, seq, size);
        if (!done)
            return 0;
    }
    return 1;
}

static int mixed_plan(const struct mixed *m, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan_opts own = *m->opts;
    int n_dev = m->g.view->n_dev, rc;
    int32_t *item = NULL;
    struct zep_draft draft;

    own.remap = 0;
    if ((rc = zep_draft_init(&draft, m->g.n_seq, err)) < 0)
        return rc;
    if (!(item = zep_calloc((size_t)n_dev, sizeof *item))) {
        rc = zep_error_nomem(err, "plan");
        goto out;
    }
    for (int d = 0; d < n_dev; d++)
        item[d] = d;
    for (int k = 0; k < m->g.n_seq; k++) {
        int seq = m->g.sorted[k], set = zep_sets_get(&draft.sets, item + m->first[seq], m->size[seq], err);

        if ((rc = set) < 0)
            goto out;
        draft.sets.set[set].form = ZEP_FORM_DOUBLE;
        draft.order[k] = seq;
        zep_draft_place(&draft, seq, m->g.len[seq], set);
    }
    rc = zep_plan_from_draft(m->g.view, m->g.len, &own, 0, &draft, plan_out, err);
out:
    free(item);
    zep_draft_free(&draft);
    return rc;
}

static int build_hybrid(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *best = NULL, *plan;
    struct mixed m;
    double best_s = 0;
    int skipped = 0, rc = mixed_init(&m, view, len, n, opts, err);

    if (rc < 0)
        return rc;
    for (int64_t limit = opts->capacity_tok; (limit >= 64 || limit == opts->capacity_tok) && limit > 0 && rc == ZEP_OK && !(best && !opts->cost); limit /= 2) {
        if (!place_mixed(&m, limit))
            continue;
        if ((rc = mixed_plan(&m, &plan, err)) < 0)
            break;
        if (!zep_groups_holds(plan))
            zep_plan_free(plan);
        else if (opts->cost)
            rc = go_on(zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err), &skipped);
        else
            best = plan;
    }
    mixed_free(&m);
    return settle(rc, best, skipped, opts->method, plan_out, err);
}

/* --- flexsp --- */

#define FLEX_TRIES 400 /* partitions looked at */
#define FLEX_WORK 2e8  /* places for sequences that are looked at in them */

/* From groups of one size, splits and joins while the slowest group gets faster. */
static int climb(struct zep_groups *g, int32_t *kept)
{
    double best = zep_groups_pack(g) ? zep_groups_makespan(g) : 0;
    double looks = (double)g->n_seq * g->view->n_dev;
    int tries = 0, better = 1, most = looks * FLEX_TRIES > FLEX_WORK ? (int)(FLEX_WORK / looks) : FLEX_TRIES;

    while (better && tries < most) {
        better = 0;
        for (int i = 0; i < g->n && tries < most; i++)
            for (int way = 0; way < 2 && i < g->n; way++) {
                int n = g->n;

                memcpy(kept, g->dev0, (size_t)(n + 1) * sizeof *kept);
                if (!(way ? zep_groups_join(g, i) : zep_groups_split(g, i)))
                    continue;
                tries++;
                if (zep_groups_pack(g) && (best <= 0 || zep_groups_makespan(g) < best * (1 - 1e-6))) {
                    best = zep_groups_makespan(g);
                    better = 1;
                } else {
                    g->n = n;
                    memcpy(g->dev0, kept, (size_t)(n + 1) * sizeof *kept);
                }
            }
    }
    return zep_groups_pack(g);
}

static int build_flexsp(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *best = NULL, *plan;
    int32_t *kept = zep_calloc((size_t)view->n_dev + 1, sizeof *kept);
    struct zep_groups g;
    double best_s = 0;
    int n_head = opts->cost ? zep_estimate_n_heads(opts) : 0, skipped = 0, rc = kept ? zep_groups_init(&g, view, len, n, opts, err) : zep_error_nomem(err, "groups of devices");

    if (rc < 0) {
        free(kept);
        return rc;
    }
    for (int size = 1; size && rc == ZEP_OK && !(best && !opts->cost); size = next_degree(view, size))
        for (int way = 0; way < (n_head > 1 ? 4 : 2) && rc == ZEP_OK; way++) {
            int climbs = way & 1;

            g.heads = way < 2 ? 0 : n_head;
            if (!zep_groups_uniform(&g, size) || !(climbs ? climb(&g, kept) : zep_groups_pack(&g)))
                continue;
            if ((rc = zep_groups_plan(&g, opts, ZEP_FORM_DOUBLE, &plan, err)) < 0)
                break;
            if (opts->cost)
                rc = go_on(zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err), &skipped);
            else {
                zep_plan_free(best);
                best = plan;
            }
        }
    zep_groups_free(&g);
    free(kept);
    return settle(rc, best, skipped, opts->method, plan_out, err);
}

const struct zep_method zep_method_llama_cp = {"llama-cp", "every sequence over all devices, keys and values gathered first (Llama 3's context parallelism)", build_llama};
const struct zep_method zep_method_static_cp = {"static-cp", "the best fixed degree of context parallelism times data parallelism, packed by cost, double ring", build_static};
const struct zep_method zep_method_wlb = {"wlb", "the best fixed degree, keys and values gathered, packed by work (as WLB-LLM does)", build_wlb};
const struct zep_method zep_method_ulysses = {"ulysses", "heads exchanged in groups of the best size that divides the key-value heads, times data parallelism (DeepSpeed-Ulysses)", build_ulysses};
const struct zep_method zep_method_usp = {"usp", "heads exchanged inside nodes and rings between such groups, the best sizes of both (USP)", build_usp};
const struct zep_method zep_method_packed_dp = {"packed-dp", "data parallelism alone: whole sequences packed to equal tokens, where the longest fits", build_packed};
const struct zep_method zep_method_hybrid_dp = {"hybrid-dp", "each sequence over the fewest devices that hold it, the rest data-parallel by work (as ByteScale does)", build_hybrid};
const struct zep_method zep_method_flexsp = {"flexsp", "groups of mixed sizes, chosen with the packing by cost (as FlexSP does)", build_flexsp};
