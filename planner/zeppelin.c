/* Our method: like the paper's three zones, but everything by cost. A sequence is a malleable job: on g devices each of them is busy for its attention (which zigzag halves, quarters, ... but
 * for what small blocks waste) and its linear modules. With T the time that a perfect spread would take, a sequence gets the fewest devices on which it stays below a share of T; jobs
 * are placed longest first on the devices that are done first and have room; several shares are tried, and the refinement moves what the busiest devices hold, while the slowest resource gets faster.
 * Rings inside nodes are single, rings over nodes double. Linear modules stay where attention left the tokens, or tokens are moved to equal shares, whichever is predicted to be faster. */
#include "config.h"
#include "planner/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

#define N_SHARE 6

struct job { /* a sequence on a set of devices */
    int32_t item0, n; /* range in items, ascending */
    int32_t n_node;
    double each_s, travel_s; /* of each device: computing; of its port or NICs */
};

struct zp {
    struct zep_groups g; /* lengths by descending size; its groups are not used */
    const struct zep_plan_opts *opts;
    double token_s;      /* linear modules that count where tokens are; 0: they will be moved to equal shares */
    double target_s;     /* T */
    double *dev_s;       /* [n_dev] computing */
    double *link_s;      /* [n_dev] its port */
    double *nic_s;       /* [n_node] its NICs together */
    int64_t *dev_tok;
    struct job *job;     /* [n_seq] */
    int32_t *item, *pick, *node_pick;
    double *node_key;
    int n_item, cap_item;
};

static int node_devs(const struct zp *z, int node)
{
    return z->g.view->node_dev0[node + 1] - z->g.view->node_dev0[node];
}

static void zp_free(struct zp *z)
{
    zep_groups_free(&z->g);
    free(z->dev_s);
    free(z->link_s);
    free(z->nic_s);
    free(z->dev_tok);
    free(z->job);
    free(z->item);
    free(z->pick);
    free(z->node_pick);
    free(z->node_key);
}

static int zp_init(struct zp *z, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err)
{
    int rc;

    memset(z, 0, sizeof *z);
    if ((rc = zep_groups_init(&z->g, view, len, n, opts, err)) < 0)
        return rc;
    z->opts = opts;
    z->dev_s = zep_calloc((size_t)view->n_dev, sizeof *z->dev_s);
    z->link_s = zep_calloc((size_t)view->n_dev, sizeof *z->link_s);
    z->nic_s = zep_calloc((size_t)view->n_node, sizeof *z->nic_s);
    z->dev_tok = zep_calloc((size_t)view->n_dev, sizeof *z->dev_tok);
    z->job = zep_calloc((size_t)n + 1, sizeof *z->job);
    z->pick = zep_calloc((size_t)view->n_dev, sizeof *z->pick);
    z->node_pick = zep_calloc((size_t)view->n_node, sizeof *z->node_pick);
    z->node_key = zep_calloc((size_t)view->n_node, sizeof *z->node_key);
    if (!z->dev_s || !z->link_s || !z->nic_s || !z->dev_tok || !z->job || !z->pick || !z->node_pick || !z->node_key) {
        zp_free(z);
        return zep_error_nomem(err, "plan");
    }
    return ZEP_OK;
}

/* --- placing --- */

static int less_busy(const struct zp *z, int a, int b)
{
    if (z->dev_s[a] != z->dev_s[b])
        return z->dev_s[a] < z->dev_s[b];
    if (z->dev_tok[a] != z->dev_tok[b])
        return z->dev_tok[a] < z->dev_tok[b];
    return a < b;
}

/* The k least busy devices of a node with room for share tokens, ascending, into out: how busy the busiest of them is, or negative where there are fewer. */
static double least_of_node(struct zp *z, int node, int k, int64_t share, int32_t *out)
{
    int n = 0, d0 = z->g.view->node_dev0[node];
    int32_t *pick = z->pick;

    for (int d = d0; d < d0 + node_devs(z, node); d++)
        if (z->dev_tok[d] + share <= z->g.cap)
            pick[n++] = d;
    if (n < k)
        return -1;
    for (int i = 1; i < n; i++) { /* few: a node's */
        int32_t d = pick[i];
        int j = i;

        for (; j > 0 && less_busy(z, d, pick[j - 1]); j--)
            pick[j] = pick[j - 1];
        pick[j] = d;
    }
    for (int i = 0; i < k; i++) { /* ascending */
        int32_t d = pick[i];
        int j = i;

        for (; j > 0 && out[j - 1] > d; j--)
            out[j] = out[j - 1];
        out[j] = d;
    }
    return z->dev_s[pick[k - 1]];
}

static int room(struct zp *z, int n, struct zep_error *err)
{
    if (n > z->cap_item - z->n_item) {
        int cap = 2 * z->cap_item + n + 256;
        int32_t *item = zep_reallocarray(z->item, (size_t)cap, sizeof *item);

        if (!item)
            return zep_error_nomem(err, "plan");
        z->item = item;
        z->cap_item = cap;
    }
    return ZEP_OK;
}

static void account(struct zp *z, int seq, int sign)
{
    const struct job *j = &z->job[seq];
    int64_t len = z->g.len[seq], share = len / j->n + (len % j->n != 0);

    for (int i = 0; i < j->n; i++) {
        int d = z->item[j->item0 + i];

        z->dev_s[d] += sign * j->each_s;
        z->dev_tok[d] += sign * share;
        z->link_s[d] += sign * j->travel_s;
    }
}

static double each_of(const struct zp *z, int64_t len, int g)
{
    return zep_estimate_attn(z->g.cost, len, g) + (double)len / g * z->token_s;
}

/* On k devices of the node that is done first with it: 1 placed, 0 no room, negative error. */
static int place_in_node(struct zp *z, int seq, int k, struct zep_error *err)
{
    int64_t len = z->g.len[seq], share = len / k + (len % k != 0);
    double best = -1;
    int rc, node = -1;

    if ((rc = room(z, k, err)) < 0)
        return rc;
    for (int i = 0; i < z->g.view->n_node; i++) {
        double busy;

        if (node_devs(z, i) < k)
            continue;
        busy = least_of_node(z, i, k, share, z->item + z->n_item);
        if (busy >= 0 && (node < 0 || busy < best)) {
            node = i;
            best = busy;
        }
    }
    if (node < 0)
        return 0;
    least_of_node(z, node, k, share, z->item + z->n_item);
    z->job[seq] = (struct job){z->n_item, k, 1, each_of(z, len, k), k > 1 ? zep_estimate_travel(z->g.cost, z->g.view, len, k, 1) : 0};
    z->n_item += k;
    account(z, seq, 1);
    return 1;
}

/* On all devices of the k least busy nodes. */
static int place_over_nodes(struct zp *z, int seq, int k, struct zep_error *err)
{
    const struct zep_view *v = z->g.view;
    int64_t len = z->g.len[seq];
    int n = 0, g = 0, rc, per_node = node_devs(z, 0);

    for (int i = 0; i < v->n_node; i++) {
        double busy = 0;
        int64_t most = 0;

        for (int d = v->node_dev0[i]; d < v->node_dev0[i + 1]; d++) {
            busy = z->dev_s[d] > busy ? z->dev_s[d] : busy;
            most = z->dev_tok[d] > most ? z->dev_tok[d] : most;
        }
        if (most + len / ((int64_t)k * per_node) + 1 > z->g.cap)
            continue;
        z->node_key[i] = busy;
        z->node_pick[n++] = i;
    }
    if (n < k)
        return 0;
    for (int i = 0; i < k; i++) {
        int best = i;
        int32_t t;

        for (int j = i + 1; j < n; j++)
            if (z->node_key[z->node_pick[j]] < z->node_key[z->node_pick[best]])
                best = j;
        t = z->node_pick[i];
        z->node_pick[i] = z->node_pick[best];
        z->node_pick[best] = t;
    }
    for (int i = 1; i < k; i++) {
        int32_t t = z->node_pick[i];
        int j = i;

        for (; j > 0 && z->node_pick[j - 1] > t; j--)
            z->node_pick[j] = z->node_pick[j - 1];
        z->node_pick[j] = t;
    }
    for (int i = 0; i < k; i++)
        g += node_devs(z, z->node_pick[i]);
    if ((rc = room(z, g, err)) < 0)
        return rc;
    z->job[seq] = (struct job){z->n_item, g, k, each_of(z, len, g), zep_estimate_travel(z->g.cost, v, len, g, k)};
    for (int i = 0; i < k; i++)
        for (int d = v->node_dev0[z->node_pick[i]]; d < v->node_dev0[z->node_pick[i] + 1]; d++)
            z->item[z->n_item++] = d;
    account(z, seq, 1);
    return 1;
}

/* Every sequence with limit_s at most on each of its devices, where more devices help. step: ring sizes in a node are powers of two, or any. */
__attribute__((unused)) static int place_all(struct zp *z, double limit_s, int any_size, struct zep_error *err)
{
    const struct zep_view *v = z->g.view;
    int most = 1, per_node = zep_groups_per_node(v), rc = 1;

    z->n_item = 0;
    memset(z->dev_s, 0, (size_t)v->n_dev * sizeof *z->dev_s);
    memset(z->link_s, 0, (size_t)v->n_dev * sizeof *z->link_s);
    memset(z->dev_tok, 0, (size_t)v->n_dev * sizeof *z->dev_tok);
    for (int i = 0; i < v->n_node; i++)
        most = node_devs(z, i) > most ? node_devs(z, i) : most;
    for (int k = 0; k < z->g.n_seq; k++) {
        int seq = z->g.sorted[k], size = 1, done = 0, nodes = 2;
        int64_t len = z->g.len[seq];

        while (size < most && (len / size + 1 > z->g.cap || each_of(z, len, size) > limit_s))
            size = any_size ? size + 1 : 2 * size < most ? 2 * size : most;
        if (!per_node || v->n_node == 1 || (len / size < z->g.cap && each_of(z, len, size) <= limit_s))
            for (; size <= most && !done; size = any_size ? size + 1 : size == most ? most + 1 : 2 * size < most ? 2 * size : most)
                if ((done = place_in_node(z, seq, size, err)) < 0)
                    return done;
        for (; !done && nodes <= v->n_node && per_node; nodes++) {
            if (nodes < v->n_node && (each_of(z, len, nodes * per_node) > limit_s || len / ((int64_t)nodes * per_node) + 1 > z->g.cap))
                continue;
            if ((done = place_over_nodes(z, seq, nodes, err)) < 0)
                return done;
        }
        if (!done && (done = place_over_nodes(z, seq, v->n_node, err)) < 0)
            return done;
        if (!done)
            return 0;
    }
    return rc;
}

/* --- blocks: each device is in at most one block; a sequence goes to a block, or whole to one device --- */

static int block_nodes(const struct zp *z, int i)
{
    return z->g.view->dev_node[z->g.dev0[i + 1] - 1] - z->g.view->dev_node[z->g.dev0[i]] + 1;
}

static int put_on(struct zp *z, int seq, int dev0, int size, int n_node, struct zep_error *err)
{
    int64_t len = z->g.len[seq];
    int rc = room(z, size, err);

    if (rc < 0)
        return rc;
    z->job[seq] = (struct job){z->n_item, size, n_node, each_of(z, len, size), size > 1 ? zep_estimate_travel(z->g.cost, z->g.view, len, size, n_node) : 0};
    for (int i = 0; i < size; i++)
        z->item[z->n_item++] = dev0 + i;
    account(z, seq, 1);
    return 1;
}

static int pack_blocks(struct zp *z, double limit_s, struct zep_error *err)
{
    const struct zep_view *v = z->g.view;

    z->n_item = 0;
    memset(z->dev_s, 0, (size_t)v->n_dev * sizeof *z->dev_s);
    memset(z->link_s, 0, (size_t)v->n_dev * sizeof *z->link_s);
    memset(z->dev_tok, 0, (size_t)v->n_dev * sizeof *z->dev_tok);
    for (int k = 0; k < z->g.n_seq; k++) {
        int seq = z->g.sorted[k], one = -1, best = -1, last_size = 0, last_nodes = 0, rc;
        int64_t len = z->g.len[seq];
        double one_s = 0, best_s = 0, each = 0, whole = each_of(z, len, 1);

        for (int d = 0; d < v->n_dev; d++)
            if (z->dev_tok[d] + len <= z->g.cap && (one < 0 || less_busy(z, d, one)))
                one = d;
        if (one >= 0)
            one_s = z->dev_s[one] + whole;
        for (int i = 0; i < z->g.n && (one < 0 || one_s > limit_s); i++) {
            int size = z->g.dev0[i + 1] - z->g.dev0[i], nodes = block_nodes(z, i), fits = 1;
            double busy = 0;

            if (size == 1)
                continue;
            for (int d = z->g.dev0[i]; d < z->g.dev0[i + 1] && fits; d++) {
                fits = z->dev_tok[d] + len / size + (len % size != 0) <= z->g.cap;
                busy = z->dev_s[d] > busy ? z->dev_s[d] : busy;
            }
            if (!fits)
                continue;
            if (size != last_size || nodes != last_nodes) {
                double travel = zep_estimate_travel(z->g.cost, v, len, size, nodes), attn = zep_estimate_attn(z->g.cost, len, size);

                each = each_of(z, len, size) + (travel > attn ? travel - attn : 0);
                last_size = size;
                last_nodes = nodes;
            }
            if (best < 0 || busy + each < best_s) {
                best = i;
                best_s = busy + each;
            }
        }
        if (one < 0 && best < 0)
            return 0;
        if (best >= 0 && (one < 0 || (one_s > limit_s && best_s < one_s)))
            rc = put_on(z, seq, z->g.dev0[best], z->g.dev0[best + 1] - z->g.dev0[best], block_nodes(z, best), err);
        else
            rc = put_on(z, seq, one, 1, 1, err);
        if (rc < 0)
            return rc;
    }
    return 1;
}

/* --- nested: aligned blocks of every degree; a device may be in one of each --- */

static int next_size(const struct zp *z, int size)
{
    int n_dev = z->g.view->n_dev, per_node = zep_groups_per_node(z->g.view);

    if (size >= n_dev)
        return 0;
    if (per_node && size < per_node)
        return 2 * size <= per_node && per_node % (2 * size) == 0 ? 2 * size : per_node;
    return 2 * size < n_dev && n_dev % (2 * size) == 0 ? 2 * size : n_dev;
}

static double best_block(const struct zp *z, int64_t len, int size, int *dev0_out)
{
    const struct zep_view *v = z->g.view;
    int64_t share = len / size + (len % size != 0);
    double best = -1;

    for (int d0 = 0; d0 + size <= v->n_dev; d0 += size) {
        double busy = 0;
        int fits = 1;

        for (int d = d0; d < d0 + size && fits; d++) {
            fits = z->dev_tok[d] + share <= z->g.cap;
            busy = z->dev_s[d] > busy ? z->dev_s[d] : busy;
        }
        if (fits && (best < 0 || busy < best)) {
            best = busy;
            *dev0_out = d0;
        }
    }
    return best;
}

static int pack_nested(struct zp *z, double limit_s, int ahead, struct zep_error *err)
{
    const struct zep_view *v = z->g.view;

    z->n_item = 0;
    memset(z->dev_s, 0, (size_t)v->n_dev * sizeof *z->dev_s);
    memset(z->link_s, 0, (size_t)v->n_dev * sizeof *z->link_s);
    memset(z->dev_tok, 0, (size_t)v->n_dev * sizeof *z->dev_tok);
    for (int k = 0; k < z->g.n_seq; k++) {
        int seq = z->g.sorted[k], size = 1, more = ahead, best_size = 0, best_dev = 0, rc;
        int64_t len = z->g.len[seq];
        double best_s = 0;

        while (next_size(z, size) && each_of(z, len, size) > limit_s)
            size = next_size(z, size);
        for (; size && (!best_size || more > 0); size = next_size(z, size)) {
            int dev0 = 0, nodes;
            double busy = best_block(z, len, size, &dev0), each, travel;

            if (best_size)
                more--;
            if (busy < 0)
                continue;
            nodes = v->dev_node[dev0 + size - 1] - v->dev_node[dev0] + 1;
            travel = size > 1 ? zep_estimate_travel(z->g.cost, v, len, size, nodes) : 0;
            each = each_of(z, len, size);
            each = (busy + (travel > each ? travel : each)) * (best_size ? 1.02 : 1);
            if (!best_size || each < best_s) {
                best_s = each;
                best_size = size;
                best_dev = dev0;
            }
        }
        if (!best_size)
            return 0;
        if ((rc = put_on(z, seq, best_dev, best_size, v->dev_node[best_dev + best_size - 1] - v->dev_node[best_dev] + 1, err)) < 0)
            return rc;
    }
    return 1;
}

static double slowest(const struct zp *z)
{
    double most = 0;

    for (int d = 0; d < z->g.view->n_dev; d++) {
        most = z->dev_s[d] > most ? z->dev_s[d] : most;
        most = z->link_s[d] > most ? z->link_s[d] : most;
    }
    return most;
}

/* --- a plan of what was placed --- */

static int make_plan(const struct zp *z, int remap, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan_opts own = *z->opts;
    struct zep_draft draft;
    int rc;

    own.remap = own.remap && remap;
    if ((rc = zep_draft_init(&draft, z->g.n_seq, err)) < 0)
        return rc;
    for (int k = 0; k < z->g.n_seq; k++) {
        int seq = z->g.sorted[k], set = zep_sets_get(&draft.sets, z->item + z->job[seq].item0, z->job[seq].n, err);

        if ((rc = set) < 0)
            goto out;
        draft.sets.set[set].form = ZEP_FORM_DOUBLE;
        draft.order[k] = seq;
        zep_draft_place(&draft, seq, z->g.len[seq], set);
    }
    rc = zep_plan_from_draft(z->g.view, z->g.len, &own, z->opts->routing, &draft, plan_out, err);
out:
    zep_draft_free(&draft);
    return rc;
}

static int holds(const struct zep_plan *plan)
{
    for (int d = 0; d < plan->n_dev; d++)
        if (plan->attn_tok[d] > plan->capacity_tok)
            return 0;
    return 1;
}

static int build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    static const double shares[N_SHARE] = {1.0, 0.8, 0.6, 0.45, 0.3, 0.2};
    struct zep_plan *best = NULL, *plan;
    double best_s = 0, total;
    struct zp z;
    int rc;

    if (!opts->cost) /* by tokens and pairs alone there is nothing to weigh */
        return zep_method_zeppelin_paper.build(view, len, n, opts, plan_out, err);
    if ((rc = zp_init(&z, view, len, n, opts, err)) < 0)
        return rc;
    for (int remap = 0; remap < 2 && rc >= 0; remap++) {
        z.token_s = remap ? 0 : zep_estimate_token(opts->cost);
        if (remap && !opts->remap)
            break;
        total = 0;
        for (int i = 0; i < n; i++)
            total += each_of(&z, len[i], 1);
        z.target_s = total / view->n_dev;
        for (int ahead = 0; ahead < 3 && rc >= 0; ahead++)
            for (int i = 0; i < N_SHARE && rc >= 0; i++) {
                if ((rc = pack_nested(&z, shares[i] * z.target_s, ahead, err)) <= 0)
                    continue;
                if ((rc = make_plan(&z, remap, &plan, err)) < 0)
                    break;
                if (getenv("ZDEBUG")) fprintf(stderr, "nested remap %d ahead %d share %g slowest %g holds %d target %g", remap, ahead, shares[i], slowest(&z), holds(plan), z.target_s);
                if (holds(plan))
                    rc = zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err);
                else
                    zep_plan_free(plan);
                if (getenv("ZDEBUG")) fprintf(stderr, " best %g\n", best_s);
            }
        for (int size = 1; size && rc >= 0; size = size >= view->n_dev ? 0 : 2 * size < view->n_dev ? 2 * size : view->n_dev)
            for (int i = 0; i < N_SHARE && rc >= 0; i++) {
                int32_t kept[4096];
                if (!zep_groups_uniform(&z.g, size)) continue;
                rc = pack_blocks(&z, shares[i] * z.target_s, err);
                double cur = rc > 0 ? slowest(&z) : 1e30, first = cur;
                for (int better = 1, tries = 0; better && tries < 400;) {
                    better = 0;
                    for (int b = 0; b < z.g.n && tries < 400; b++)
                        for (int way = 0; way < 2 && b < z.g.n; way++) {
                            int ng = z.g.n;
                            memcpy(kept, z.g.dev0, (size_t)(ng + 1) * sizeof *kept);
                            if (!(way ? zep_groups_join(&z.g, b) : zep_groups_split(&z.g, b))) continue;
                            tries++;
                            if (pack_blocks(&z, shares[i] * z.target_s, err) > 0 && slowest(&z) < cur * (1 - 1e-6)) {
                                cur = slowest(&z);
                                better = 1;
                            } else {
                                z.g.n = ng;
                                memcpy(z.g.dev0, kept, (size_t)(ng + 1) * sizeof *kept);
                            }
                        }
                }
                rc = pack_blocks(&z, shares[i] * z.target_s, err);
                if (rc <= 0) continue;
                if ((rc = make_plan(&z, remap, &plan, err)) < 0)
                    break;
                if (getenv("ZDEBUG")) fprintf(stderr, "remap %d size %d share %g slowest %g -> %g holds %d target %g", remap, size, shares[i], first, slowest(&z), holds(plan), z.target_s);
                if (holds(plan))
                    rc = zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err);
                else
                    zep_plan_free(plan);
                if (getenv("ZDEBUG")) fprintf(stderr, " best %g\n", best_s);
            }
    }
    zp_free(&z);
    if (rc < 0) {
        zep_plan_free(best);
        return rc;
    }
    if (!best)
        return zep_method_zeppelin_paper.build(view, len, n, opts, plan_out, err);
    *plan_out = best;
    return ZEP_OK;
}

const struct zep_method zep_method_zeppelin = {"zeppelin", "ours: sizes of rings, their places and their form by cost", build};
