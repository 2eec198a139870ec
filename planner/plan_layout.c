#include "config.h"
#include "planner/plan.h"

#include <stdlib.h>

#include "common/arena.h"
#include "planner/plan_internal.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t overlap(int64_t a0, int64_t a1, int64_t b0, int64_t b1)
{
    int64_t lo = a0 > b0 ? a0 : b0, hi = min64(a1, b1);

    return hi > lo ? hi - lo : 0;
}

/* How many of the slots [lo, hi) hold one of the rem remainder tokens, which begin at slot rot and wrap around. */
static int64_t extras_in(int64_t rot, int64_t rem, int64_t n_slot, int64_t lo, int64_t hi)
{
    return overlap(lo, hi, rot, min64(rot + rem, n_slot)) + overlap(lo, hi, 0, rot + rem - n_slot);
}

/* Where chunk c begins: c whole bases and the remainder tokens of the chunks before it, whose slots are [0, c) up to G and also [3G - c, 2G) beyond. */
static int64_t chunk_begin(int64_t len, int64_t g, int64_t rot, int64_t c)
{
    int64_t base = len / (2 * g), rem = len % (2 * g);
    int64_t extras = extras_in(rot, rem, 2 * g, 0, min64(c, g));

    if (c > g)
        extras += extras_in(rot, rem, 2 * g, 3 * g - c, 2 * g);
    return c * base + extras;
}

void zep_chunk_range(int64_t len, int n_member, int rot, int c, int64_t *begin_out, int64_t *end_out)
{
    *begin_out = chunk_begin(len, n_member, rot, c);
    *end_out = chunk_begin(len, n_member, rot, (int64_t)c + 1);
}

int64_t zep_member_tokens(int64_t len, int n_member, int rot, int m)
{
    int64_t g = n_member, rem = len % (2 * g);

    return len / (2 * g) * 2 + extras_in(rot, rem, 2 * g, m, m + 1) + extras_in(rot, rem, 2 * g, g + m, g + m + 1);
}

int32_t zep_rot_next(int64_t len, int n_member, int32_t rot)
{
    int64_t n_slot = 2 * (int64_t)n_member;

    return (int32_t)((rot + len % n_slot) % n_slot);
}

void zep_ring_rows(const struct zep_plan *plan, int ring, int64_t *rows)
{
    const struct zep_plan_ring *r = &plan->ring[ring];

    for (int i = 0; i < r->n_seq; i++) {
        const struct zep_plan_seq *s = &plan->seq[plan->ring_seq[r->seq0 + i]];
        int64_t g = r->n_member, base2 = s->len / (2 * g) * 2, rem = s->len % (2 * g);

        if (base2)
            for (int m = 0; m < g; m++)
                rows[m] += base2;
        for (int64_t e = 0; e < rem; e++)
            rows[(s->rot + e) % g]++;
    }
}

int zep_ring_grid(const struct zep_plan *plan, int ring, int *n_node_out, int *per_node_out)
{
    const struct zep_plan_ring *r = &plan->ring[ring];
    const int32_t *m = &plan->member[r->member0];
    int n_node = 1, per_node = 0, heads = zep_ring_heads(r), n = r->n_member / heads;

    for (int i = 0; i < n * heads; i++)
        if (plan->dev_node[m[i]] != plan->dev_node[m[i - i % heads]])
            return 0;
    for (int i = 1; i < n; i++) {
        int a = plan->dev_node[m[(i - 1) * heads]], b = plan->dev_node[m[i * heads]];

        if (a == b)
            continue;
        if (b < a || (per_node && i != n_node * per_node))
            return 0;
        if (!per_node)
            per_node = i;
        n_node++;
    }
    if (!per_node)
        per_node = n;
    if (n_node * per_node != n)
        return 0;
    *n_node_out = n_node;
    *per_node_out = per_node;
    return 1;
}

/* A growing list of pieces. */
struct pieces {
    struct zep_piece *p;
    int n, cap;
};

static int pieces_add(struct pieces *list, int seq, int64_t begin, int64_t end, int64_t row0, struct zep_error *err)
{
    if (begin == end)
        return ZEP_OK;
    if (list->n == list->cap) {
        int cap = list->cap ? 2 * list->cap : 32;
        struct zep_piece *p = zep_reallocarray(list->p, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "pieces of a layout");
        list->p = p;
        list->cap = cap;
    }
    list->p[list->n++] = (struct zep_piece){seq, begin, end, row0};
    return ZEP_OK;
}

/* Adds the pieces of attention rows [row_begin, row_end) of a device; *row_out goes on with the row in the target layout. */
static int add_attn_rows(const struct zep_plan *plan, int dev, int64_t row_begin, int64_t row_end, int64_t *row_out, struct pieces *list, struct zep_error *err)
{
    int rc;

    for (int k = plan->dev_slot0[dev]; k < plan->dev_slot0[dev + 1]; k++) {
        const struct zep_plan_slot *slot = &plan->slot[k];
        const struct zep_plan_ring *r = &plan->ring[slot->ring];
        int64_t row = slot->row0;
        int n_chunk = r->n_member == 1 ? 1 : 2;

        if (slot->row0 + slot->n <= row_begin || slot->row0 >= row_end)
            continue;
        for (int i = 0; i < r->n_seq * n_chunk; i++) {
            int s = plan->ring_seq[r->seq0 + i / n_chunk];
            int64_t begin = 0, end = plan->seq[s].len, lo, hi;

            if (n_chunk == 2)
                zep_chunk_range(plan->seq[s].len, r->n_member, plan->seq[s].rot, i % 2 ? 2 * r->n_member - 1 - slot->pos : slot->pos, &begin, &end);
            lo = row > row_begin ? row : row_begin;
            hi = min64(row + end - begin, row_end);
            if (lo < hi) {
                if ((rc = pieces_add(list, s, begin + lo - row, begin + hi - row, *row_out, err)) < 0)
                    return rc;
                *row_out += hi - lo;
            }
            row += end - begin;
        }
    }
    return ZEP_OK;
}

int zep_plan_attn_pieces(const struct zep_plan *plan, int dev, struct zep_piece **pieces_out, int *n_out, struct zep_error *err)
{
    struct pieces list = {NULL, 0, 0};
    int64_t row = 0;
    int rc = add_attn_rows(plan, dev, 0, plan->attn_tok[dev], &row, &list, err);

    if (rc < 0) {
        free(list.p);
        return rc;
    }
    *pieces_out = list.p;
    *n_out = list.n;
    return ZEP_OK;
}

/* Attention rows of dev that its moves leave in place. */
static int64_t kept_rows(const struct zep_plan *plan, int dev)
{
    int64_t kept = plan->attn_tok[dev];

    for (int i = 0; i < plan->n_move; i++)
        if (plan->move[i].from == dev)
            kept -= plan->move[i].n;
    return kept;
}

int zep_plan_lin_pieces(const struct zep_plan *plan, int dev, struct zep_piece **pieces_out, int *n_out, struct zep_error *err)
{
    struct pieces list = {NULL, 0, 0};
    int64_t row = 0, at = 0;
    int rc, from = -1;

    if ((rc = add_attn_rows(plan, dev, 0, kept_rows(plan, dev), &row, &list, err)) < 0)
        goto err_list;
    for (int i = 0; i < plan->n_move; i++) {
        const struct zep_plan_move *mv = &plan->move[i];

        if (mv->from != from) {
            from = mv->from;
            at = -1;
        }
        if (at < 0 && mv->to == dev) { /* rows that earlier moves of this sender took */
            at = kept_rows(plan, from);
            for (int j = i - 1; j >= 0 && plan->move[j].from == from; j--)
                at += plan->move[j].n;
        }
        if (mv->to == dev && (rc = add_attn_rows(plan, from, at, at + mv->n, &row, &list, err)) < 0)
            goto err_list;
        if (at >= 0)
            at += mv->n;
    }
    *pieces_out = list.p;
    *n_out = list.n;
    return ZEP_OK;
err_list:
    free(list.p);
    return rc;
}

/* Causal pairs of the queries [begin, end) of a sequence. */
static double causal_pairs(int64_t begin, int64_t end)
{
    return ((double)end * (double)(end + 1) - (double)begin * (double)(begin + 1)) / 2;
}

/* Where heads are exchanged: the group's, in shares of the heads. */
static double slot_pairs(const struct zep_plan *plan, const struct zep_plan_slot *slot)
{
    const struct zep_plan_ring *r = &plan->ring[slot->ring];
    int heads = zep_ring_heads(r), first = slot->pos - slot->pos % heads;
    double sum = 0;

    for (int i = 0; i < r->n_seq; i++) {
        const struct zep_plan_seq *s = &plan->seq[plan->ring_seq[r->seq0 + i]];
        int64_t begin, end;

        for (int m = first; m < first + heads; m++) {
            zep_chunk_range(s->len, r->n_member, s->rot, m, &begin, &end);
            sum += causal_pairs(begin, end);
            zep_chunk_range(s->len, r->n_member, s->rot, 2 * r->n_member - 1 - m, &begin, &end);
            sum += causal_pairs(begin, end);
        }
    }
    return sum / heads;
}

/* Token rows, in shares of their heads, that members send to the others of their groups. */
static void count_heads(const struct zep_plan *plan, const struct zep_plan_ring *r, struct zep_plan_stats *out)
{
    for (int m = 0; m < r->n_member; m++) {
        int first = m - m % r->heads, away = 0;
        int64_t own = 0;

        for (int i = 0; i < r->n_seq; i++)
            own += zep_member_tokens(plan->seq[plan->ring_seq[r->seq0 + i]].len, r->n_member, plan->seq[plan->ring_seq[r->seq0 + i]].rot, m);
        for (int w = first; w < first + r->heads; w++)
            away += plan->dev_node[plan->member[r->member0 + w]] != plan->dev_node[plan->member[r->member0 + m]];
        out->head_tok_inter += own * away / r->heads;
        out->head_tok_intra += own * (r->heads - 1 - away) / r->heads;
    }
}

/* Rows that a ring sends in a forward pass. On a grid each block crosses N-1 times and is handed on inside each of N nodes P-1 times. Else over the hop m -> m+1 go, in G-1 rounds, the blocks of
 * all members but m+1. */
static void count_ring(const struct zep_plan *plan, int ring, struct zep_plan_stats *out)
{
    const struct zep_plan_ring *r = &plan->ring[ring];
    int64_t total = 0;
    int n_node, per_node, heads = zep_ring_heads(r);

    if (heads > 1)
        count_heads(plan, r, out);
    for (int i = 0; i < r->n_seq; i++)
        total += plan->seq[plan->ring_seq[r->seq0 + i]].len;
    if (r->form != ZEP_FORM_SINGLE && zep_ring_grid(plan, ring, &n_node, &per_node)) {
        out->hop_tok_inter += (n_node - 1) * total;
        out->hop_tok_intra += (int64_t)n_node * (per_node - 1) * total;
        return;
    }
    for (int m = 0; m < r->n_member && r->n_member > heads; m++) {
        int here = plan->member[r->member0 + m], prev = plan->member[r->member0 + (m + r->n_member - heads) % r->n_member], u = m % heads;
        int64_t rest = total;

        for (int i = 0; i < r->n_seq; i++) {
            const struct zep_plan_seq *s = &plan->seq[plan->ring_seq[r->seq0 + i]];

            for (int w = m - u; w < m - u + heads; w++)
                rest -= zep_member_tokens(s->len, r->n_member, s->rot, w);
        }
        *(plan->dev_node[prev] != plan->dev_node[here] ? &out->hop_tok_inter : &out->hop_tok_intra) += rest * (u + 1) / heads - rest * u / heads; /* its heads' share */
    }
}

void zep_plan_stats(const struct zep_plan *plan, struct zep_plan_stats *out)
{
    *out = (struct zep_plan_stats){0};
    for (int s = 0; s < plan->n_seq; s++) {
        int zone = plan->ring[plan->seq[s].ring].zone;

        out->zone_tok[zone] += plan->seq[s].len;
        out->zone_seq[zone]++;
        out->mean_pairs += causal_pairs(0, plan->seq[s].len) / plan->n_dev;
    }
    for (int d = 0; d < plan->n_dev; d++) {
        double pairs = 0;

        for (int k = plan->dev_slot0[d]; k < plan->dev_slot0[d + 1]; k++)
            pairs += slot_pairs(plan, &plan->slot[k]);
        if (pairs > out->max_pairs)
            out->max_pairs = pairs;
        if (plan->attn_tok[d] > out->max_attn_tok)
            out->max_attn_tok = plan->attn_tok[d];
        if (plan->lin_tok[d] > out->max_lin_tok)
            out->max_lin_tok = plan->lin_tok[d];
    }
    for (int i = 0; i < plan->n_move; i++)
        out->moved_tok += plan->move[i].n;
    for (int i = 0; i < plan->n_ring; i++)
        count_ring(plan, i, out);
}
