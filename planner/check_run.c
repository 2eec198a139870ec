/* One pass over the streams of all devices, each strictly in order. */
#include "config.h"
#include "planner/check_internal.h"

#include <string.h>

#include "common/buf.h"
#include "planner/plan_internal.h"

/* What an earlier pass left in order counts from the beginning again. */
static void forget_order(struct check *ck, int d, enum zep_space space)
{
    struct ck_dev *dev = &ck->dev[d];

    for (int i = 0; i < dev->n_buf[space]; i++)
        for (int k = 0; k < dev->buf[space][i].n; k++) {
            struct ck_seg *s = &dev->buf[space][i].seg[k];

            s->w_chain = 0;
            s->w_idx = 0;
            memset(s->rd, 0, sizeof s->rd);
        }
}

static int begin_device(struct check *ck, int d)
{
    static const enum zep_space fill[2][2] = {{ZEP_LIN_Q, ZEP_LIN_KV}, {ZEP_LIN_DO, ZEP_SPACE_NONE}};
    static const enum zep_space lin[2][2] = {{ZEP_LIN_O, ZEP_SPACE_NONE}, {ZEP_LIN_DQ, ZEP_LIN_DKV}};
    static const enum zep_space att[2][3] = {{ZEP_ATT_Q, ZEP_ATT_KV, ZEP_ATT_O}, {ZEP_ATT_DO, ZEP_ATT_DQ, ZEP_ATT_DKV}};
    struct ck_dev *dev = &ck->dev[d];
    int rc;

    for (int i = 0; i < 2; i++) {
        if (fill[ck->pass][i] && (rc = ck_fill_layout(ck, d, fill[ck->pass][i], &dev->lin)) < 0)
            return rc;
        if (lin[ck->pass][i] && (rc = ck_reset_space(ck, d, lin[ck->pass][i], dev->lin.n_row)) < 0)
            return rc;
    }
    for (int i = 0; i < 3; i++)
        if ((rc = ck_reset_space(ck, d, att[ck->pass][i], dev->attn.n_row)) < 0)
            return rc;
    for (int i = 0; i < 3; i++)
        if ((rc = ck_reset_space(ck, d, zep_space_of_heads(att[ck->pass][i]), -1)) < 0)
            return rc;
    for (int s = ZEP_RING_KV; s <= ZEP_GATHER_DKV; s++)
        if ((rc = ck_reset_space(ck, d, (enum zep_space)s, -1)) < 0)
            return rc;
    for (int s = ZEP_LIN_Q; s < ZEP_N_SPACE; s++)
        forget_order(ck, d, (enum zep_space)s);
    zep_sched_free(dev->sched);
    dev->sched = NULL;
    if ((rc = zep_sched_open(ck->plan, d, ck->pass, &dev->sched, ck->err)) < 0)
        return rc;
    dev->have_op = dev->ended = dev->queued = 0;
    dev->index = -1;
    memset(dev->n_compute, 0, sizeof dev->n_compute);
    memset(dev->n_group, 0, sizeof dev->n_group);
    memset(dev->n_done, 0, sizeof dev->n_done);
    dev->n_stream = 0;
    for (int c = 0; c < ZEP_N_QUEUE + ZEP_N_LANE; c++)
        dev->end[c].n = 0;
    memset(&dev->base, 0, sizeof dev->base);
    return ZEP_OK;
}

/* Rows of a group that exchanges heads: of all its members together. */
static int64_t group_rows(const struct zep_plan *p, const struct zep_plan_slot *slot)
{
    const struct zep_plan_ring *r = &p->ring[slot->ring];
    int64_t n = 0;

    for (int i = 0; i < r->n_seq; i++)
        for (int m = slot->pos - slot->pos % r->heads, end = m + r->heads; m < end; m++)
            n += zep_member_tokens(p->seq[p->ring_seq[r->seq0 + i]].len, r->n_member, p->seq[p->ring_seq[r->seq0 + i]].rot, m);
    return n;
}

/* After the remap: sums begin at zero. */
static int clear_sums(struct check *ck, int d)
{
    static const enum zep_space sums[2][2] = {{ZEP_ATT_O, ZEP_SPACE_NONE}, {ZEP_ATT_DQ, ZEP_ATT_DKV}};
    const struct zep_plan *p = ck->plan;
    int n_head = 0, rc;

    for (int i = 0; i < 2; i++) {
        enum zep_space s = sums[ck->pass][i];

        if (s)
            for (int k = 0; k < ck->dev[d].buf[s][0].n; k++)
                ck->dev[d].buf[s][0].seg[k].state = SEG_ZERO;
    }
    for (int k = p->dev_slot0[d]; k < p->dev_slot0[d + 1]; k++) {
        int64_t n;

        if (!p->ring[p->slot[k].ring].heads)
            continue;
        n = group_rows(p, &p->slot[k]);
        for (int i = 0; i < 2; i++)
            if (sums[ck->pass][i] && (rc = ck_zero(ck, d, zep_space_of_heads(sums[ck->pass][i]), n_head, n)) < 0)
                return rc;
        n_head++;
    }
    return ZEP_OK;
}

static struct ck_where where(const struct ck_dev *dev, int d)
{
    return (struct ck_where){d, dev->index, dev->op.kind, dev->op.ring, dev->op.step, dev->op.lane, dev->op.key};
}

/* The next operation of a device: 1, 0 at the end. */
static int fetch(struct check *ck, int d)
{
    struct ck_dev *dev = &ck->dev[d];
    int rc;

    while (!dev->have_op) {
        if ((rc = zep_sched_next(dev->sched, &dev->op, ck->err)) <= 0)
            return rc;
        dev->index++;
        ck->result.n_op++;
        dev->have_op = !ck->opts || !ck->opts->hook || ck->opts->hook(ck->opts->hook_arg, d, ck->pass, dev->index, &dev->op);
    }
    return 1;
}

static int lanes_empty(const struct ck_dev *dev)
{
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (dev->head[l])
            return 0;
    return 1;
}

static int is_ready(const struct ck_dev *dev)
{
    if (dev->op.kind == ZEP_OP_BARRIER)
        return lanes_empty(dev);
    if (dev->op.kind == ZEP_OP_ATTN || dev->op.kind == ZEP_OP_ADD)
        for (int l = 0; l < ZEP_N_LANE; l++)
            if (dev->op.wait[l] > dev->n_done[l])
                return 0;
    return 1;
}

static int run_compute(struct check *ck, int d, const struct ck_where *w)
{
    struct ck_dev *dev = &ck->dev[d];
    const struct zep_op *op = &dev->op;
    struct ck_event ev = {.chain = CHAIN_QUEUE + (int)op->queue, .clk = dev->base};
    struct ck_clocks *end;
    int rc;

    if ((unsigned)op->queue >= ZEP_N_QUEUE)
        return ck_fail(ck, w, "queue %d is unknown", (int)op->queue);
    end = &dev->end[ev.chain];
    ev.idx = dev->n_compute[op->queue] + 1;
    if (ev.idx > 1)
        ck_merge(&ev.clk, &end->clk[ev.idx - 2]);
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (op->wait[l] > 0)
            ck_merge(&ev.clk, &dev->end[CHAIN_LANE + l].clk[op->wait[l] - 1]);
    ev.clk.c[ev.chain] = ev.idx; /* the blocks of one operation follow each other */
    if ((rc = op->kind == ZEP_OP_ATTN ? ck_attn(ck, w, &ev, op) : ck_add(ck, w, &ev, op)) < 0)
        return rc;
    if ((rc = ck_grow(ck, (void **)&end->clk, end->n, &end->cap, sizeof *end->clk)) < 0)
        return rc;
    end->clk[end->n++] = ev.clk;
    dev->n_compute[op->queue]++;
    return ZEP_OK;
}

static int pass_barrier(struct check *ck, int d)
{
    struct ck_dev *dev = &ck->dev[d];

    for (int q = 0; q < ZEP_N_QUEUE; q++)
        dev->base.c[CHAIN_QUEUE + q] = dev->n_compute[q];
    for (int l = 0; l < ZEP_N_LANE; l++)
        dev->base.c[CHAIN_LANE + l] = dev->n_done[l];
    dev->base.c[CHAIN_STREAM] = dev->n_stream;
    return dev->op.phase == ZEP_PHASE_ATTN ? clear_sums(ck, d) : ZEP_OK;
}

static int run_op(struct check *ck, int d)
{
    struct ck_dev *dev = &ck->dev[d];
    struct ck_where w = where(dev, d);

    switch (dev->op.kind) {
    case ZEP_OP_GROUP:
        return ck_enqueue(ck, &w, &dev->op);
    case ZEP_OP_ATTN:
    case ZEP_OP_ADD:
        return run_compute(ck, d, &w);
    case ZEP_OP_COPY: {
        struct ck_event ev = {.chain = CHAIN_STREAM, .idx = dev->n_stream + 1, .clk = dev->base};

        ev.clk.c[CHAIN_STREAM] = dev->n_stream++;
        return ck_copy(ck, &w, &ev, &dev->op);
    }
    case ZEP_OP_BARRIER:
        return pass_barrier(ck, d);
    case ZEP_OP_NONE:
        break;
    }
    return ck_fail(ck, &w, "kind %d is unknown", (int)dev->op.kind);
}

/* Takes a device as far as it goes. */
static int advance(struct check *ck, int d)
{
    struct ck_dev *dev = &ck->dev[d];
    int rc;

    for (;;) {
        int posted = 0;

        for (int l = 0; l < ZEP_N_LANE; l++) {
            if ((rc = ck_post(ck, d, (enum zep_lane)l)) < 0)
                return rc;
            posted |= rc;
        }
        if (posted)
            continue;
        if (dev->ended)
            return ZEP_OK;
        if ((rc = fetch(ck, d)) < 0)
            return rc;
        if (rc == 0) {
            dev->ended = 1;
            continue;
        }
        if (!is_ready(dev))
            return ZEP_OK;
        if ((rc = run_op(ck, d)) < 0)
            return rc;
        dev->have_op = 0;
    }
}

/* Nobody can go on: who waits for what. */
static int stuck(struct check *ck)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int n = 0;

    for (int d = 0; d < ck->plan->n_dev; d++) {
        const struct ck_dev *dev = &ck->dev[d];

        if (dev->ended && lanes_empty(dev))
            continue;
        if (n++ >= 4)
            continue;
        zep_buf_printf(&b, "%sdevice %d", n > 1 ? "; " : "", d);
        for (int l = 0; l < ZEP_N_LANE; l++) {
            const struct ck_group *g = dev->head[l];

            if (!g)
                continue;
            zep_buf_printf(&b, " has group %d (key %llx) of the %s", (int)g->idx, (unsigned long long)g->where.key, ck_lane_name((enum zep_lane)l));
            if (!g->posted)
                zep_buf_puts(&b, " not posted");
            else
                zep_buf_printf(&b, " with %d transfers unmet", g->n_open);
        }
        if (dev->have_op)
            zep_buf_printf(&b, ", waits at operation %lld", (long long)dev->index);
    }
    zep_error_set(ck->err, ZEP_EINVAL, "%s: deadlock, %d devices cannot go on: %s", ck_pass_name(ck->pass), n, b.data ? b.data : "");
    zep_buf_free(&b);
    return ZEP_EINVAL;
}

/* --- what must have come out --- */

static int check_rows(struct check *ck, int d, enum zep_space space, const char *what, int keys)
{
    const struct ck_layout *l = &ck->dev[d].lin;
    const struct ck_buf *buf = &ck->dev[d].buf[space][0];

    for (int i = 0; i < l->n; i++) {
        const struct ck_rows *r = &l->rows[i];

        for (int k = ck_find(buf, r->row0); k < buf->n && buf->seg[k].row0 < r->row1; k++) {
            const struct ck_seg *s = &buf->seg[k];
            int64_t row = s->row0 > r->row0 ? s->row0 : r->row0;
            uint64_t sum = keys ? ck_weight(r->seq, ck->plan->seq[r->seq].len) : -ck_weight(r->seq, 0);
            int diag = keys ? -1 : 1;

            if (s->state != SEG_DATA)
                return zep_error_set(ck->err, ZEP_EINVAL, "%s: device %d, row %lld: %s of token %lld of sequence %d does not come back", ck_pass_name(ck->pass), d, (long long)row, what,
                                     (long long)(r->pos + row - r->row0), (int)r->seq);
            if (s->seq != r->seq || s->pos + (row - s->row0) != r->pos + (row - r->row0))
                return zep_error_set(ck->err, ZEP_EINVAL, "%s: device %d, row %lld: %s of token %lld of sequence %d comes back where token %lld of sequence %d belongs", ck_pass_name(ck->pass), d,
                                     (long long)row, what, (long long)(s->pos + row - s->row0), (int)s->seq, (long long)(r->pos + row - r->row0), (int)r->seq);
            if (s->sum != sum || s->diag != diag)
                return zep_error_set(ck->err, ZEP_EINVAL, "%s: device %d, row %lld: %s of token %lld of sequence %d is not the sum over every pair exactly once", ck_pass_name(ck->pass), d,
                                     (long long)row, what, (long long)(r->pos + row - r->row0), (int)r->seq);
        }
    }
    return ZEP_OK;
}

static int check_results(struct check *ck)
{
    int rc = ZEP_OK;

    for (int d = 0; d < ck->plan->n_dev && rc == ZEP_OK; d++) {
        if (!ck->dev[d].lin.n_row)
            continue;
        if (ck->pass == ZEP_PASS_FWD)
            rc = check_rows(ck, d, ZEP_LIN_O, "the output", 0);
        else if ((rc = check_rows(ck, d, ZEP_LIN_DQ, "the query's gradient", 0)) == ZEP_OK)
            rc = check_rows(ck, d, ZEP_LIN_DKV, "the key's and value's gradient", 1);
    }
    return rc;
}

int ck_run(struct check *ck)
{
    int n_dev = ck->plan->n_dev, rc;

    ck->n_ready = 0;
    for (int d = 0; d < n_dev; d++)
        if ((rc = begin_device(ck, d)) < 0)
            return rc;
    for (int d = n_dev - 1; d >= 0; d--)
        ck_wake(ck, d);
    while (ck->n_ready) {
        int d = ck->ready[--ck->n_ready];

        ck->dev[d].queued = 0;
        if ((rc = advance(ck, d)) < 0)
            return rc;
    }
    for (int d = 0; d < n_dev; d++)
        if (!ck->dev[d].ended || !lanes_empty(&ck->dev[d]))
            return stuck(ck);
    return check_results(ck);
}
