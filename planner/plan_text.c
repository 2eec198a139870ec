#include "config.h"
#include "planner/plan.h"

#include <inttypes.h>
#include <string.h>

#include "common/arena.h"

#define MAX_LINES 24 /* of a table before the rest is folded */

static double share(int64_t part, int64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_zones(const struct zep_plan *p, const struct zep_plan_stats *st, struct zep_buf *b)
{
    zep_buf_printf(b, "\n%-12s %10s %12s %8s %7s\n", "zone", "sequences", "tokens", "share", "rings");
    for (int z = ZEP_ZONE_LOCAL; z <= ZEP_ZONE_INTER; z++) {
        int n_ring = 0;

        for (int i = 0; i < p->n_ring; i++)
            n_ring += p->ring[i].zone == z;
        zep_buf_printf(b, "%-12s %10" PRId64 " %12" PRId64 " %7.1f%% %7d\n", zep_zone_text[z], st->zone_seq[z], st->zone_tok[z], share(st->zone_tok[z], p->n_token), n_ring);
    }
}

static void put_members(const struct zep_plan *p, const struct zep_plan_ring *r, struct zep_buf *b)
{
    const int32_t *m = &p->member[r->member0];

    for (int i = 0; i < r->n_member; i++) {
        int j = i;

        while (j + 1 < r->n_member && m[j + 1] == m[j] + 1)
            j++;
        zep_buf_printf(b, j > i ? "%s%d-%d" : "%s%d", i ? "," : "", m[i], m[j]);
        i = j;
    }
}

static void put_rings(const struct zep_plan *p, struct zep_buf *b)
{
    int shown = 0, folded = 0, width = 7;
    char form[32];

    for (int i = 0; i < p->n_ring && i < MAX_LINES; i++)
        width = (int)strlen(zep_ring_form_text(&p->ring[i], form)) > width ? (int)strlen(form) : width;

    zep_buf_printf(b, "\n%-5s %-11s %-*s %9s %10s %8s  %s\n", "ring", "zone", width, "form", "sequences", "tokens", "proxies", "devices");
    for (int i = 0; i < p->n_ring; i++) {
        const struct zep_plan_ring *r = &p->ring[i];
        int64_t tok = 0;
        int most = 0;

        if (shown == MAX_LINES) {
            folded++;
            continue;
        }
        shown++;
        for (int k = 0; k < r->n_seq; k++)
            tok += p->seq[p->ring_seq[r->seq0 + k]].len;
        for (int k = 0; k < r->n_hop; k++)
            most = p->hop[r->hop0 + k].n_proxy > most ? p->hop[r->hop0 + k].n_proxy : most;
        zep_buf_printf(b, "%-5d %-11s %-*s %9d %10" PRId64 " ", i, zep_zone_text[r->zone], width, r->n_member > 1 ? zep_ring_form_text(r, form) : "-", r->n_seq, tok);
        if (most)
            zep_buf_printf(b, "%8d  ", most);
        else
            zep_buf_printf(b, "%8s  ", "-");
        put_members(p, r, b);
        zep_buf_puts(b, "\n");
    }
    if (folded)
        zep_buf_printf(b, "... %d more rings\n", folded);
}

static void put_devices(const struct zep_plan *p, struct zep_buf *b)
{
    zep_buf_printf(b, "\n%-7s %5s %12s %6s %12s\n", "device", "node", "attention", "full", "linear");
    for (int d = 0; d < p->n_dev && d < MAX_LINES; d++)
        zep_buf_printf(b, "%-7d %5d %12" PRId64 " %5.0f%% %12" PRId64 "\n", d, p->dev_node[d], p->attn_tok[d], share(p->attn_tok[d], zep_plan_capacity(p, d)), p->lin_tok[d]);
    if (p->n_dev > MAX_LINES)
        zep_buf_printf(b, "... %d more devices\n", p->n_dev - MAX_LINES);
}

int zep_plan_to_text(const struct zep_plan *p, struct zep_buf *b, struct zep_error *err)
{
    struct zep_plan_stats st;
    int64_t least = p->capacity_tok, all = 0;

    for (int d = 0; d < p->n_dev; d++) {
        all += zep_plan_capacity(p, d);
        least = zep_plan_capacity(p, d) < least ? zep_plan_capacity(p, d) : least;
    }

    zep_plan_stats(p, &st);
    zep_buf_printf(b, "plan by %s: %d sequences, %" PRId64 " tokens on %d device%s in %d node%s", p->method, p->n_seq, p->n_token, p->n_dev, p->n_dev == 1 ? "" : "s", p->n_node,
                   p->n_node == 1 ? "" : "s");
    if (p->tp > 1)
        zep_buf_printf(b, "; a device is a tensor-parallel group of %d GPUs", p->tp);
    zep_buf_puts(b, "\ncapacity ");
    if (p->dev_capacity)
        zep_buf_printf(b, "%" PRId64 " to ", least);
    zep_buf_printf(b, "%" PRId64 " tokens a device", p->capacity_tok);
    if (p->n_token)
        zep_buf_printf(b, " (%.2f x the average load)", (double)all / (double)p->n_token);
    zep_buf_printf(b, ", digest %016" PRIx64 "\n", p->digest);
    put_zones(p, &st, b);
    if (st.mean_pairs > 0)
        zep_buf_printf(b, "\nattention pairs a device: largest %.4g, %.2f x the mean\n", st.max_pairs, st.max_pairs / st.mean_pairs);
    zep_buf_printf(b, "key/value rows sent a forward pass: %" PRId64 " between nodes, %" PRId64 " inside nodes\n", st.hop_tok_inter, st.hop_tok_intra);
    if (st.head_tok_inter || st.head_tok_intra)
        zep_buf_printf(b, "rows whose heads are exchanged, in and out: %" PRId64 " between nodes, %" PRId64 " inside nodes\n", st.head_tok_inter, st.head_tok_intra);
    zep_buf_printf(b, "remapped to equal shares: %" PRId64 " tokens in %d moves\n", st.moved_tok, p->n_move);
    if (p->n_ring)
        put_rings(p, b);
    put_devices(p, b);
    return zep_buf_ok(b, err);
}
