/* One rank's part of an export: its layouts and rank.json. */
#include "config.h"
#include "planner/export.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/arena.h"
#include "planner/sched.h"

static const char *const space_names[ZEP_N_SPACE] = {
    [ZEP_SPACE_NONE] = "none", [ZEP_LIN_Q] = "lin_q", [ZEP_LIN_KV] = "lin_kv", [ZEP_LIN_O] = "lin_o", [ZEP_LIN_DO] = "lin_do", [ZEP_LIN_DQ] = "lin_dq", [ZEP_LIN_DKV] = "lin_dkv",
    [ZEP_ATT_Q] = "att_q", [ZEP_ATT_KV] = "att_kv", [ZEP_ATT_O] = "att_o", [ZEP_ATT_DO] = "att_do", [ZEP_ATT_DQ] = "att_dq", [ZEP_ATT_DKV] = "att_dkv", [ZEP_RING_KV] = "ring_kv",
    [ZEP_RING_DKV] = "ring_dkv", [ZEP_SCRATCH_DKV] = "scratch_dkv", [ZEP_PROXY_KV] = "proxy_kv", [ZEP_PROXY_DKV] = "proxy_dkv", [ZEP_GATHER_KV] = "gather_kv", [ZEP_GATHER_DKV] = "gather_dkv",
};
static const char *const lane_names[ZEP_N_LANE] = {"world", "node", "grid"};
static const char *const queue_names[ZEP_N_QUEUE] = {"inter", "intra", "local"};

int zep_plan_layout_tokens(const struct zep_plan *plan, int dev, enum zep_layout layout, int64_t *token, int64_t *position, int64_t *seq, struct zep_error *err)
{
    struct zep_piece *piece = NULL;
    int n = 0, rc;

    if ((rc = layout == ZEP_LAYOUT_LINEAR ? zep_plan_lin_pieces(plan, dev, &piece, &n, err) : zep_plan_attn_pieces(plan, dev, &piece, &n, err)) < 0)
        return rc;
    for (int i = 0; i < n; i++)
        for (int64_t p = piece[i].begin, row = piece[i].row0; p < piece[i].end; p++, row++) {
            if (token)
                token[row] = plan->seq[piece[i].seq].token0 + p;
            if (position)
                position[row] = p;
            if (seq)
                seq[row] = piece[i].seq;
        }
    free(piece);
    return ZEP_OK;
}

/* --- rings --- */

static void put_sequence(struct zep_buf *b, const struct zep_plan *p, const struct zep_plan_ring *r, int pos, int s)
{
    int n_chunk = r->n_member == 1 ? 1 : 2;
    int64_t begin = 0, end = p->seq[s].len;

    zep_buf_printf(b, "{\"sequence\": %d, \"chunks\": [", s);
    for (int i = 0; i < n_chunk; i++) {
        if (n_chunk == 2)
            zep_chunk_range(p->seq[s].len, r->n_member, p->seq[s].rot, i ? 2 * r->n_member - 1 - pos : pos, &begin, &end);
        zep_buf_printf(b, "%s[%" PRId64 ", %" PRId64 "]", i ? ", " : "", begin, end);
    }
    zep_buf_puts(b, "]}");
}

static void put_slot(struct zep_buf *b, const struct zep_plan *p, const struct zep_plan_slot *slot)
{
    const struct zep_plan_ring *r = &p->ring[slot->ring];

    zep_buf_printf(b, "{\"ring\": %d, \"zone\": \"%s\", \"form\": \"%s\", \"position\": %d, \"row\": %" PRId64 ", \"rows\": %" PRId64 ",\n     \"members\": [", slot->ring, zep_zone_names[r->zone],
                   zep_form_names[r->form], slot->pos, slot->row0, slot->n);
    for (int i = 0; i < r->n_member; i++)
        zep_buf_printf(b, "%s%d", i ? ", " : "", p->member[r->member0 + i]);
    zep_buf_puts(b, "],\n     \"sequences\": [");
    for (int i = 0; i < r->n_seq; i++) {
        zep_buf_puts(b, i ? ",\n       " : "");
        put_sequence(b, p, r, slot->pos, p->ring_seq[r->seq0 + i]);
    }
    zep_buf_puts(b, "]}");
}

static int put_buffers(struct zep_buf *b, const struct zep_plan *p, int dev, struct zep_error *err)
{
    struct zep_sched_need need;
    int rc = zep_sched_need(p, dev, &need, err), n = 0;

    if (rc < 0)
        return rc;
    zep_buf_puts(b, "  \"buffers\": {");
    for (int s = ZEP_LIN_Q; s < ZEP_N_SPACE; s++)
        if (need.n_slot[s])
            zep_buf_printf(b, "%s\n    \"%s\": {\"slots\": %d, \"rows\": %" PRId64 "}", n++ ? "," : "", space_names[s], need.n_slot[s], need.rows[s]);
    zep_buf_puts(b, "\n  },\n");
    return ZEP_OK;
}

/* From the attention layout to the linear one; the other way, sender and receiver change places. */
static int put_remap(struct zep_buf *b, const struct zep_plan *p, int dev, struct zep_error *err)
{
    int64_t *n[2], kept = p->attn_tok[dev];

    if (!(n[0] = zep_calloc((size_t)p->n_dev * 2, sizeof *n[0])))
        return zep_error_nomem(err, "remapping");
    n[1] = n[0] + p->n_dev;
    for (int i = 0; i < p->n_move; i++) {
        if (p->move[i].from == dev) {
            n[0][p->move[i].to] += p->move[i].n;
            kept -= p->move[i].n;
        }
        if (p->move[i].to == dev)
            n[1][p->move[i].from] += p->move[i].n;
    }
    zep_buf_printf(b, "  \"remap\": {\"kept\": %" PRId64, kept);
    for (int way = 0; way < 2; way++) {
        zep_buf_printf(b, ",\n    \"%s\": [", way ? "receive" : "send");
        for (int d = 0; d < p->n_dev; d++)
            zep_buf_printf(b, "%s%" PRId64, d ? ", " : "", n[way][d]);
        zep_buf_puts(b, "]");
    }
    zep_buf_puts(b, "},\n");
    free(n[0]);
    return ZEP_OK;
}

/* --- operations --- */

static void put_ref(struct zep_buf *b, const char *key, const struct zep_ref *ref)
{
    zep_buf_printf(b, ", \"%s\": [\"%s\", %d, %" PRId64 "]", key, space_names[ref->space], ref->slot, ref->row);
}

static void put_counts(struct zep_buf *b, const char *key, const int32_t *x, const char *const *name, int n)
{
    zep_buf_printf(b, ", \"%s\": {", key);
    for (int i = 0; i < n; i++)
        zep_buf_printf(b, "%s\"%s\": %d", i ? ", " : "", name[i], x[i]);
    zep_buf_puts(b, "}");
}

static void put_group(struct zep_buf *b, const struct zep_op *op)
{
    zep_buf_printf(b, "{\"op\": \"group\", \"lane\": \"%s\", \"key\": %" PRId64, lane_names[op->lane], op->key);
    put_counts(b, "after", op->after, queue_names, ZEP_N_QUEUE);
    put_counts(b, "wait", op->wait, lane_names, ZEP_N_LANE);
    zep_buf_puts(b, ", \"transfers\": [");
    for (int i = 0; i < op->n_xfer; i++) {
        zep_buf_printf(b, "%s\n       {\"%s\": %d", i ? "," : "", op->xfer[i].send ? "to" : "from", op->xfer[i].peer);
        put_ref(b, "at", &op->xfer[i].ref);
        zep_buf_printf(b, ", \"rows\": %" PRId64 "}", op->xfer[i].n);
    }
    zep_buf_puts(b, "]}");
}

static void put_attention(struct zep_buf *b, const struct zep_op *op, enum zep_pass pass)
{
    zep_buf_printf(b, "{\"op\": \"attention\", \"queue\": \"%s\", \"ring\": %d, \"step\": %d", queue_names[op->queue], op->ring, op->step);
    put_counts(b, "wait", op->wait, lane_names, ZEP_N_LANE);
    put_ref(b, "kv", &op->kv);
    if (pass == ZEP_PASS_BWD) {
        put_ref(b, "dkv", &op->dkv);
        zep_buf_printf(b, ", \"clear\": %s", op->clear ? "true" : "false");
    }
    zep_buf_printf(b, ", \"rows\": %" PRId64 ", \"blocks\": [", op->n);
    for (int i = 0; i < op->n_pair; i++)
        zep_buf_printf(b, "%s\n       [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", i ? "," : "", op->pair[i].q_row, op->pair[i].n_q, op->pair[i].q_pos,
                       op->pair[i].k_row, op->pair[i].n_k, op->pair[i].k_pos);
    zep_buf_puts(b, "]}");
}

static void put_op(struct zep_buf *b, const struct zep_op *op, enum zep_pass pass)
{
    switch (op->kind) {
    case ZEP_OP_GROUP:
        put_group(b, op);
        break;
    case ZEP_OP_ATTN:
        put_attention(b, op, pass);
        break;
    case ZEP_OP_ADD:
        zep_buf_printf(b, "{\"op\": \"add\", \"queue\": \"%s\", \"ring\": %d, \"step\": %d", queue_names[op->queue], op->ring, op->step);
        put_counts(b, "wait", op->wait, lane_names, ZEP_N_LANE);
        put_ref(b, "dst", &op->dst);
        put_ref(b, "src", &op->src);
        zep_buf_printf(b, ", \"rows\": %" PRId64 "}", op->n);
        break;
    case ZEP_OP_COPY:
        zep_buf_puts(b, "{\"op\": \"copy\"");
        put_ref(b, "dst", &op->dst);
        put_ref(b, "src", &op->src);
        zep_buf_printf(b, ", \"rows\": %" PRId64 "}", op->n);
        break;
    case ZEP_OP_BARRIER:
    case ZEP_OP_NONE:
        zep_buf_puts(b, "{\"op\": \"barrier\"}");
        break;
    }
}

static int put_pass(struct zep_buf *b, const struct zep_plan *p, int dev, enum zep_pass pass, struct zep_error *err)
{
    struct zep_sched *sched;
    struct zep_op op;
    int rc = zep_sched_open(p, dev, pass, &sched, err), n = 0;

    if (rc < 0)
        return rc;
    zep_buf_printf(b, "  \"%s\": [", pass == ZEP_PASS_FWD ? "forward" : "backward");
    while ((rc = zep_sched_next(sched, &op, err)) > 0) {
        zep_buf_puts(b, n++ ? ",\n    " : "\n    ");
        put_op(b, &op, pass);
    }
    zep_buf_puts(b, pass == ZEP_PASS_FWD ? "\n  ],\n" : "\n  ]\n}\n");
    zep_sched_free(sched);
    return rc;
}

int zep_plan_may_export(const struct zep_plan *p, struct zep_error *err)
{
    for (int i = 0; i < p->n_ring; i++)
        if (p->ring[i].heads)
            return zep_error_set(err, ZEP_EUNSUPPORTED, "ring %d of the plan (method %s) exchanges heads: what ranks are given describes rows of all heads only; plan it anew without (--no-heads) or by another method", i, p->method);
    return ZEP_OK;
}

int zep_plan_to_rank_json(const struct zep_plan *p, int dev, struct zep_buf *b, struct zep_error *err)
{
    int rc = zep_plan_may_export(p, err);

    if (rc < 0)
        return rc;
    zep_buf_printf(b, "{\n  \"format\": \"zeppelin-ranks/1.0\",\n  \"plan_digest\": \"%016" PRIx64 "\",\n  \"rank\": %d,\n  \"node\": %d,\n", p->digest, dev, p->dev_node[dev]);
    zep_buf_printf(b, "  \"attention_tokens\": %" PRId64 ",\n  \"linear_tokens\": %" PRId64 ",\n  \"rings\": [", p->attn_tok[dev], p->lin_tok[dev]);
    for (int k = p->dev_slot0[dev]; k < p->dev_slot0[dev + 1]; k++) {
        zep_buf_puts(b, k > p->dev_slot0[dev] ? ",\n    " : "\n    ");
        put_slot(b, p, &p->slot[k]);
    }
    zep_buf_puts(b, "\n  ],\n");
    if ((rc = put_buffers(b, p, dev, err)) < 0 || (rc = put_remap(b, p, dev, err)) < 0 || (rc = put_pass(b, p, dev, ZEP_PASS_FWD, err)) < 0 ||
        (rc = put_pass(b, p, dev, ZEP_PASS_BWD, err)) < 0)
        return rc;
    return zep_buf_ok(b, err);
}
