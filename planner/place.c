/* Degrees, placing, and the plan of a placement. */
#include "config.h"
#include "planner/place.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

/* --- degrees --- */

static void add_level(struct zep_place *z, int size, int n_node)
{
    if (z->n_level < ZEP_PLACE_MAX_LEVEL - 1)
        z->level[z->n_level++] = (struct zep_place_level){.size = size, .n_node = n_node, .heads = 1, .heads_inside = 1};
}

/* 1 where some node consists of blocks of this size. */
static int divides_a_node(const struct zep_view *view, int size)
{
    for (int i = 0; i < view->n_node; i++)
        if ((view->node_dev0[i + 1] - view->node_dev0[i]) % size == 0)
            return 1;
    return 0;
}

/* All divisors of nodes; any number of nodes up to 16, then two or three times powers of two; everything. */
static void set_levels(struct zep_place *z)
{
    const struct zep_view *v = z->view;
    int largest = 0;

    z->per_node = zep_groups_per_node(v);
    for (int i = 0; i < v->n_node; i++)
        largest = v->node_dev0[i + 1] - v->node_dev0[i] > largest ? v->node_dev0[i + 1] - v->node_dev0[i] : largest;
    for (int size = 1; size <= largest && z->n_level < 24; size++)
        if (size < v->n_dev && divides_a_node(v, size))
            add_level(z, size, 1);
    z->n_inside = z->n_level;
    for (int m = 2, odd = 0; m < v->n_node; odd = !odd) {
        add_level(z, m * largest, m);
        m = v->n_node <= 16 || m < 4 ? m + 1 : m % 3 ? m / 2 * 3 : m / 3 * 4;
    }
    z->level[z->n_level++] = (struct zep_place_level){.size = v->n_dev, .n_node = v->n_node, .heads = 1, .heads_inside = 1};
    if (v->n_node == 1)
        z->n_inside = z->n_level;
}

/* --- exchange of heads --- */

#define WEIGHED 64 /* the longest sequences decide */

/* 1: groups of u of a level's devices, each in one node, divide them and the key-value heads. */
static int may_exchange(const struct zep_place *z, int k, int n_head, int u)
{
    int in_node = z->level[k].size / z->level[k].n_node;

    return z->port_bw > 0 && (z->level[k].n_node == 1 || z->per_node) && u <= in_node && in_node % u == 0 && n_head % u == 0;
}

/* Attention of the longest sequences on a level, each alone. */
static double longest_s(struct zep_place *z, int k, int heads)
{
    int n = z->g.n_seq < WEIGHED ? z->g.n_seq : WEIGHED;
    double sum = 0;

    z->level[k].heads = heads;
    for (int i = 0; i < n; i++)
        sum += zep_place_alone(z, z->g.sorted[i], k);
    return sum;
}

/* A degree exchanges heads where rings would take the longest sequences longer: where ports are slow for what attention hides, and key-value heads are many. Over nodes, inside each of them
 * (rings are of such groups then: fewer steps, but less that hides a node's gradients on their way home), or among all. */
static void set_heads(struct zep_place *z)
{
    int n_head = z->opts->no_heads ? 0 : zep_estimate_n_heads(z->opts);

    for (int k = 1; k < z->n_level && n_head > 1; k++) {
        int size = z->level[k].size, in_node = size / z->level[k].n_node, best = 1, u = in_node + 1;
        double best_s = longest_s(z, k, 1), s;

        while (--u > 1) /* the largest that is fastest */
            if (may_exchange(z, k, n_head, u) && (s = longest_s(z, k, u)) < best_s) {
                best = u;
                best_s = s;
            }
        z->level[k].heads_inside = best;
        if (z->level[k].n_node > 1 && may_exchange(z, k, n_head, in_node) && n_head % size == 0 && longest_s(z, k, size) < best_s)
            best = size;
        z->level[k].heads = best;
    }
}

int zep_place_fewer_heads(struct zep_place *z)
{
    int over = 0, any = 0;

    for (int k = 0; k < z->n_level; k++) {
        any |= z->level[k].heads > 1;
        over |= z->level[k].heads > z->level[k].heads_inside;
    }
    for (int k = 0; k < z->n_level && any; k++)
        z->level[k].heads = over ? z->level[k].heads_inside : 1;
    return any;
}

/* --- set up --- */

/* What the devices of a node send if all do at once: the busiest NIC decides. A device without a near one uses the node's in turn, as the simulator has it. */
static double nics_of(const struct zep_view *v, int node, int32_t *count)
{
    int n = v->node_nic0[node + 1] - v->node_nic0[node], n_dev = v->node_dev0[node + 1] - v->node_dev0[node];
    double least = 0;

    for (int c = 0; c < n; c++)
        count[c] = 0;
    for (int d = v->node_dev0[node]; d < v->node_dev0[node + 1] && n; d++)
        count[v->dev_nic[d] >= 0 ? v->dev_nic[d] - v->node_nic0[node] : (d - v->node_dev0[node]) % n]++;
    for (int c = 0; c < n; c++) {
        double bw = count[c] ? v->nic_bw[v->node_nic0[node] + c] * n_dev / count[c] : 0;

        least = count[c] && (least <= 0 || bw < least) ? bw : least;
    }
    return least;
}

static int set_links(struct zep_place *z, struct zep_error *err)
{
    const struct zep_view *v = z->view;
    int32_t *count = zep_calloc((size_t)v->n_nic + 1, sizeof *count);

    if (!count)
        return zep_error_nomem(err, "plan");
    z->port_bw = zep_estimate_port(z->g.cost, v);
    for (int i = 0; i < v->n_node; i++) {
        z->node_bw[i] = nics_of(v, i, count);
        z->nics_bw = !i || z->node_bw[i] < z->nics_bw ? z->node_bw[i] : z->nics_bw;
    }
    free(count);
    z->alike = z->per_node > 0;
    for (int i = 0; i < v->n_node; i++)
        z->alike &= z->node_bw[i] == z->nics_bw;
    for (int k = 0; k < z->n_level; k++)
        for (int node0 = 0, m = z->level[k].n_node; node0 < v->n_node; node0 += m) {
            double bw = zep_place_net_bw(z, k, v->node_dev0[node0 + m > v->n_node ? v->n_node - m : node0]);

            z->level[k].net_bw = bw > z->level[k].net_bw ? bw : z->level[k].net_bw;
        }
    return ZEP_OK;
}

static int alloc_all(struct zep_place *z, struct zep_error *err)
{
    size_t n_dev = (size_t)z->view->n_dev, n_node = (size_t)z->view->n_node, n = (size_t)z->g.n_seq + 1;

    for (z->width = 1; z->width < z->view->n_node; z->width *= 2)
        ;
    z->node_bw = zep_calloc(n_node, sizeof *z->node_bw);
    z->dev = zep_calloc(n_dev, sizeof *z->dev);
    z->attn_s = zep_calloc(n_dev, sizeof *z->attn_s);
    z->done_s = zep_calloc(n_dev, sizeof *z->done_s);
    z->node = zep_calloc(n_node, sizeof *z->node);
    z->least = zep_calloc((size_t)z->n_inside, sizeof *z->least);
    z->most = zep_calloc(2 * (size_t)z->width, sizeof *z->most);
    z->job = zep_calloc(n, sizeof *z->job);
    z->head = zep_calloc((size_t)z->n_level * n_dev, sizeof *z->head);
    z->next = zep_calloc(n, sizeof *z->next);
    z->prev = zep_calloc(n, sizeof *z->prev);
    if (!z->node_bw || !z->dev || !z->attn_s || !z->done_s || !z->node || !z->least || !z->most || !z->job || !z->head || !z->next || !z->prev)
        return zep_error_nomem(err, "plan");
    for (int k = 0; k < z->n_inside; k++) {
        struct zep_tree *t = &z->least[k];

        t->busy = zep_calloc(2 * (size_t)z->width, sizeof *t->busy);
        t->tok = zep_calloc(2 * (size_t)z->width, sizeof *t->tok);
        if (!t->busy || !t->tok)
            return zep_error_nomem(err, "plan");
        for (int i = z->width + z->view->n_node; i < 2 * z->width; i++)
            t->tok[i] = INT64_MAX;
    }
    return ZEP_OK;
}

void zep_place_free(struct zep_place *z)
{
    zep_groups_free(&z->g);
    for (int k = 0; k < z->n_inside && z->least; k++) {
        free(z->least[k].busy);
        free(z->least[k].tok);
    }
    free(z->node_bw);
    free(z->dev);
    free(z->attn_s);
    free(z->done_s);
    free(z->node);
    free(z->least);
    free(z->most);
    free(z->job);
    free(z->head);
    free(z->next);
    free(z->prev);
}

int zep_place_init(struct zep_place *z, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err)
{
    const struct zep_cost *c;
    double total = 0, speed = 0;
    int rc;

    memset(z, 0, sizeof *z);
    if ((rc = zep_groups_init(&z->g, view, len, n, opts, err)) < 0)
        return rc;
    z->view = view;
    z->opts = opts;
    c = z->g.cost;
    set_levels(z);
    if ((rc = alloc_all(z, err)) < 0 || (rc = set_links(z, err)) < 0) {
        zep_place_free(z);
        return rc;
    }
    for (int k = 0; k < z->n_level; k++)
        if (zep_opts_zone(opts, z->level[k].n_node > 1 ? ZEP_ZONE_INTER : z->level[k].size > 1 ? ZEP_ZONE_INTRA : ZEP_ZONE_LOCAL))
            z->allowed |= (uint64_t)1 << k;
    for (int k = 0; k < z->n_level; k++)
        if (z->level[k].n_node > 1 ? z->nics_bw > 0 : z->level[k].size == 1 || z->port_bw > 0)
            z->known |= z->allowed & (uint64_t)1 << k;
    z->token_s = zep_estimate_token(c);
    z->same_speed = 1;
    for (int d = 0; d < view->n_dev; d++) {
        z->same_speed &= zep_view_speed(view, d) == zep_view_speed(view, 0);
        z->fastest = zep_view_speed(view, d) > z->fastest ? zep_view_speed(view, d) : z->fastest;
        speed += zep_view_speed(view, d);
    }
    set_heads(z);
    for (int i = 0; i < n; i++) {
        total += zep_place_each(z, i, 0);
        z->linear_s += (double)len[i] * z->token_s / speed;
    }
    z->target_s = total / speed;
    return ZEP_OK;
}

/* --- placing --- */

/* The next allowed degree from k on; n_level: none. */
static int next_allowed(const struct zep_place *z, uint64_t degrees, int k)
{
    while (k < z->n_level && !(degrees >> k & 1))
        k++;
    return k;
}

static int place_all(struct zep_place *z, double limit_s, int ahead, uint64_t degrees)
{
    zep_place_clear(z);
    for (int i = 0; i < z->g.n_seq; i++) {
        int seq = z->g.sorted[i], k = next_allowed(z, degrees, 0), more = ahead, best = -1, best_dev = 0;
        double best_s = 0, each = zep_place_each(z, seq, k);

        while (each > limit_s && next_allowed(z, degrees, k + 1) < z->n_level) {
            k = next_allowed(z, degrees, k + 1);
            each = zep_place_each(z, seq, k);
        }
        for (; k < z->n_level && (best < 0 || more-- > 0); k = next_allowed(z, degrees, k + 1)) {
            int dev0;
            double done;

            if (best >= 0 && k >= z->n_inside && 2 * each < limit_s) /* short ones have nothing to win over nodes */
                break;
            each = zep_place_each(z, seq, k);
            done = zep_place_best(z, seq, k, each, &dev0) * (best < 0 ? 1 : 1.02);
            if (done < 0 || (best >= 0 && done >= best_s))
                continue;
            best_s = done;
            best = k;
            best_dev = dev0;
        }
        if (best < 0)
            return 0;
        zep_place_add(z, seq, best, best_dev);
    }
    return 1;
}

int zep_place_all(struct zep_place *z, double limit_s, int ahead, uint64_t degrees)
{
    if (degrees & z->known && place_all(z, limit_s, ahead, degrees & z->known))
        return 1;
    return degrees & z->allowed & ~z->known && place_all(z, limit_s, ahead, degrees & z->allowed);
}

/* --- the plan --- */

/* The devices of a job's block, as a set. */
static int set_of(const struct zep_place *z, struct zep_draft *draft, const int32_t *all, int32_t *item, struct zep_job j, struct zep_error *err)
{
    int size = zep_place_size(z, j.k, j.dev0), node0 = z->view->dev_node[j.dev0], end = zep_place_end_node(z, j.k, j.dev0), n = 0;

    if (z->per_node || j.k < z->n_inside || j.k == z->n_level - 1)
        return zep_sets_get(&draft->sets, all + j.dev0, size, err);
    for (int i = node0; i < end; i++)
        for (int d = 0; d < size / (end - node0); d++)
            item[n++] = z->view->node_dev0[i] + d;
    return zep_sets_get(&draft->sets, item, n, err);
}

int zep_place_plan(struct zep_place *z, const struct zep_job *job, enum zep_place_move move, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan_opts own = *z->opts;
    int32_t *item = NULL, *all, last = -1;
    double *equal = NULL;
    struct zep_draft draft;
    int n_dev = z->view->n_dev, rc;

    own.remap = move != ZEP_MOVE_NONE;
    if ((rc = zep_draft_init(&draft, z->g.n_seq, err)) < 0)
        return rc;
    item = zep_calloc(2 * (size_t)n_dev, sizeof *item);
    equal = zep_calloc((size_t)n_dev, sizeof *equal);
    if (!item || !equal) {
        rc = zep_error_nomem(err, "plan");
        goto out;
    }
    all = item + n_dev;
    for (int d = 0; d < n_dev; d++)
        all[d] = d;
    for (int i = 0; i < z->g.n_seq; i++) {
        int seq = z->g.sorted[i], set = set_of(z, &draft, all, item, job[seq], err);

        if ((rc = set) < 0)
            goto out;
        if (set > last) {
            draft.sets.set[set].form = ZEP_FORM_DOUBLE;
            draft.sets.set[set].heads = z->level[job[seq].k].heads > 1 ? z->level[job[seq].k].heads : 0;
            last = set;
        }
        draft.order[i] = seq;
        zep_draft_place(&draft, seq, z->g.len[seq], set);
    }
    draft.spread = move == ZEP_MOVE_NODE ? ZEP_SPREAD_NODE : ZEP_SPREAD_ALL;
    draft.busy_s = equal;
    draft.token_s = z->token_s;
    rc = zep_plan_from_draft(z->view, z->g.len, &own, z->opts->routing, &draft, plan_out, err);
out:
    free(item);
    free(equal);
    zep_draft_free(&draft);
    return rc;
}
