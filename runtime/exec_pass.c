/* One pass: reads the stream, keeps the compute operations in their queues and runs whichever is ready, the inter-node queue first. When the operation at the head of a
 * queue waits for its transfers, the stream is read on, so that what is local or in the node hides what crosses nodes. */
#include "config.h"
#include "runtime/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/clock.h"

#define MAX_PENDING 4096 /* operations read ahead */

static void poll_lanes(void *arg)
{
    struct zep_exec *e = arg;
    int rc;

    if (e->poll_rc < 0)
        return;
    rc = zep_lanes_advance(e, &e->poll_err);
    if (rc < 0)
        e->poll_rc = rc;
}

static void begin(struct zep_exec *e, enum zep_pass pass, int layer)
{
    e->pass = pass;
    e->layer = layer;
    for (int l = 0; l < ZEP_N_LANE; l++)
        zep_lane_begin(&e->lane[l]);
    for (int q = 0; q < ZEP_N_QUEUE; q++)
        e->queue[q].n_done = e->queue[q].head = e->queue[q].tail = 0;
    e->n_pair = 0;
    e->have_op = e->ended = 0;
    e->phase = ZEP_PHASE_IN;
    e->n_staged = 0;
    e->stage_used = 0;
    e->poll_rc = ZEP_OK;
    e->progress = (struct zep_progress){poll_lanes, e};
    zep_sched_rewind(e->sched[pass]);
}

/* --- computing --- */

/* Causal pairs of a block: query row i sees the keys at positions up to q_pos + i. */
static double visible(const struct zep_pair *p)
{
    int64_t first = p->q_pos - p->k_pos + 1, full; /* keys that row 0 sees */
    double sum = 0;

    if (first < 0)
        first = 0;
    full = p->n_k - (p->q_pos - p->k_pos + 1); /* rows from this one on see all keys */
    if (full <= 0)
        return (double)p->n_q * (double)p->n_k;
    for (int64_t i = 0; i < p->n_q && i < full; i++) {
        int64_t seen = p->q_pos + i - p->k_pos + 1;

        sum += seen > 0 ? (double)seen : 0;
    }
    if (p->n_q > full)
        sum += (double)(p->n_q - full) * (double)p->n_k;
    return sum;
}

static int run_pair(struct zep_exec *e, const struct zep_op *op, const struct zep_pair *p, struct zep_error *err)
{
    const struct zep_exec_shape *s = &e->shape;
    const struct acts *acts = op->q.space == ZEP_HEAD_Q ? &e->head : &e->att;
    int parts = op->q.n_slice > 1 ? op->q.n_slice : 1, n_head = s->n_head / parts, n_head_kv = s->n_head_kv / parts;
    int64_t ld_q = e->q_row / parts, ld_kv = e->kv_row / parts, v_off = (int64_t)n_head_kv * s->head_dim;
    int64_t at = rows_at(e, op->q, p->q_row) - acts->q[e->layer], lse_at = at / s->head_dim; /* of the queries' rows, in all arrays */
    const float *k = rows_at(e, op->kv, p->k_row);
    struct zep_attn a = {
        .n_head = n_head, .n_head_kv = n_head_kv, .head_dim = s->head_dim, .scale = 1.0f / sqrtf((float)s->head_dim),
        .n_q = p->n_q, .n_kv = p->n_k, .q_pos = p->q_pos, .kv_pos = p->k_pos,
        .q = acts->q[e->layer] + at, .ld_q = ld_q, .k = k, .v = k + v_off, .ld_kv = ld_kv,
    };
    float *dk;

    if (e->pass == ZEP_PASS_FWD)
        return e->kernels->attn_fwd(&a, acts->o[e->layer] + at, ld_q, acts->lse[e->layer] + lse_at, &e->progress, err);
    dk = rows_at(e, op->dkv, p->k_row);
    return e->kernels->attn_bwd(&a, acts->d_o + at, ld_q, acts->lse[e->layer] + lse_at, acts->delta + lse_at, acts->dq + at, ld_q, dk, dk + v_off, ld_kv, &e->progress, err);
}

static int run_attn(struct zep_exec *e, const struct zep_op *op, const struct zep_pair *pair, struct zep_error *err)
{
    double t0 = zep_clock_now();
    int rc;

    if (op->clear)
        memset(zep_exec_rows(e, op->dkv), 0, (size_t)(op->n * ref_floats(e, op->dkv)) * sizeof(float));
    if (!e->kernels)
        return ZEP_OK;
    for (int i = 0; i < op->n_pair; i++) {
        if ((rc = run_pair(e, op, &pair[i], err)) < 0)
            return rc;
        e->stats.pairs += visible(&pair[i]) / (op->q.n_slice > 1 ? op->q.n_slice : 1);
    }
    e->stats.attn_s[op->queue] += zep_clock_now() - t0;
    if (e->probe) {
        poll_lanes(e);
        e->probe(e->probe_arg, op, e->lane[ZEP_LANE_WORLD].n_done, e->lane[ZEP_LANE_NODE].n_done);
    }
    return ZEP_OK;
}

static void run_add(struct zep_exec *e, const struct zep_op *op)
{
    float *y = zep_exec_rows(e, op->dst);
    const float *x = zep_exec_rows(e, op->src);
    int64_t n = op->n * ref_floats(e, op->dst);
    double t0 = zep_clock_now();

    if (e->kernels)
        e->kernels->add(n, y, x);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i];
    e->stats.copy_s += zep_clock_now() - t0;
}

static int is_ready(const struct zep_exec *e, const struct zep_op *op)
{
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (e->lane[l].n_done < op->wait[l])
            return 0;
    return 1;
}

/* Runs the first ready operation: 1, 0 none is ready, negative error. */
static int run_ready(struct zep_exec *e, struct zep_error *err)
{
    for (int q = 0; q < ZEP_N_QUEUE; q++) {
        struct compute_queue *cq = &e->queue[q];
        struct pending *p;
        int rc = ZEP_OK;

        if (cq->head == cq->tail)
            continue;
        p = &cq->item[cq->head];
        if (!is_ready(e, &p->op))
            continue;
        if (!p->skip && p->op.kind == ZEP_OP_ATTN)
            rc = run_attn(e, &p->op, e->pair + p->pair0, err);
        else if (!p->skip)
            run_add(e, &p->op);
        if (rc < 0)
            return rc;
        cq->n_done++;
        if (++cq->head == cq->tail)
            cq->head = cq->tail = 0;
        zep_comm_busy(e->comm);
        return 1;
    }
    return 0;
}

static int n_pending(const struct zep_exec *e)
{
    int n = 0;

    for (int q = 0; q < ZEP_N_QUEUE; q++)
        n += e->queue[q].tail - e->queue[q].head;
    return n;
}

/* --- reading --- */

static int push_compute(struct zep_exec *e, const struct zep_op *op, int skip, struct zep_error *err)
{
    struct compute_queue *cq = &e->queue[op->queue];

    if (!n_pending(e))
        e->n_pair = 0;
    if (cq->tail == cq->cap) {
        int cap = 2 * cq->cap + 32;
        struct pending *p = zep_reallocarray(cq->item, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "operations");
        cq->item = p;
        cq->cap = cap;
    }
    if (e->n_pair + op->n_pair > e->cap_pair) {
        int64_t cap = 2 * e->cap_pair + op->n_pair + 64;
        struct zep_pair *p = zep_reallocarray(e->pair, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "operations");
        e->pair = p;
        e->cap_pair = cap;
    }
    cq->item[cq->tail++] = (struct pending){*op, e->n_pair, skip};
    if (op->n_pair)
        memcpy(e->pair + e->n_pair, op->pair, (size_t)op->n_pair * sizeof *op->pair);
    e->n_pair += op->n_pair;
    return ZEP_OK;
}

static void clear_acts(const struct zep_exec *e, struct acts *a, int64_t n)
{
    size_t q_bytes = (size_t)(n * e->q_row) * sizeof(float);

    if (!n)
        return;
    if (e->pass == ZEP_PASS_FWD) {
        float *lse = a->lse[e->layer];

        memset(a->o[e->layer], 0, q_bytes);
        for (int64_t i = 0; i < n * e->shape.n_head; i++)
            lse[i] = -INFINITY;
        return;
    }
    memset(a->dq, 0, q_bytes);
    memset(a->dkv, 0, (size_t)(n * e->kv_row) * sizeof(float));
    if (e->kernels)
        e->kernels->attn_delta(n, e->shape.n_head, e->shape.head_dim, a->o[e->layer], e->q_row, a->d_o, e->q_row, a->delta);
}

/* Before attention. Of exchanged heads all slots are taken as whole rows: of n rows with 1/U of the heads each, what is cleared and multiplied is the same numbers. */
static void begin_attention(struct zep_exec *e)
{
    clear_acts(e, &e->att, e->plan->attn_tok[e->dev]);
    clear_acts(e, &e->head, e->need.n_slot[ZEP_HEAD_Q] * e->need.rows[ZEP_HEAD_Q]);
}

static void run_copy(struct zep_exec *e, const struct zep_op *op)
{
    double t0 = zep_clock_now();

    if (op->src.n_slice > 1)
        zep_heads_copy(e, op);
    else
        memcpy(zep_exec_rows(e, op->dst), zep_exec_rows(e, op->src), (size_t)(op->n * row_floats(e, op->dst.space)) * sizeof(float));
    e->stats.copy_s += zep_clock_now() - t0;
}

/* Takes the next operation: 1 taken, 0 it must wait or there is none, negative error. */
static int read_next(struct zep_exec *e, struct zep_error *err)
{
    int rc, keep = 1;

    if (!e->have_op) {
        if (e->ended || n_pending(e) >= MAX_PENDING)
            return 0;
        if ((rc = zep_sched_next(e->sched[e->pass], &e->op, err)) < 0)
            return rc;
        if (rc == 0) {
            e->ended = 1;
            return 0;
        }
        if (e->hook)
            keep = e->hook(e->hook_arg, e->pass, &e->op);
    }
    e->have_op = 0;
    switch (e->op.kind) {
    case ZEP_OP_GROUP:
        if (keep && (rc = zep_lane_add(e, &e->op, err)) < 0)
            return rc;
        return 1;
    case ZEP_OP_ATTN:
    case ZEP_OP_ADD:
        rc = push_compute(e, &e->op, !keep, err);
        return rc < 0 ? rc : 1;
    case ZEP_OP_COPY:
        if (keep)
            run_copy(e, &e->op);
        return 1;
    case ZEP_OP_BARRIER:
        if (n_pending(e) || !zep_lanes_empty(e)) {
            e->have_op = 1;
            return 0;
        }
        zep_heads_unpack(e);
        e->phase = e->op.phase;
        if (e->phase == ZEP_PHASE_ATTN)
            begin_attention(e);
        return 1;
    case ZEP_OP_NONE:
        break;
    }
    return zep_error_set(err, ZEP_EINTERNAL, "operation %d in a schedule", (int)e->op.kind);
}

/* Whom the time is put down to: remapping, or the lane that the first waiting operation names. */
static double *waiting_for(struct zep_exec *e)
{
    if (e->phase == ZEP_PHASE_IN || e->phase == ZEP_PHASE_OUT)
        return &e->stats.remap_s;
    for (int q = 0; q < ZEP_N_QUEUE; q++)
        if (e->queue[q].head < e->queue[q].tail)
            for (int l = 0; l < ZEP_N_LANE; l++)
                if (e->lane[l].n_done < e->queue[q].item[e->queue[q].head].op.wait[l])
                    return &e->stats.wait_s[l];
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (e->lane[l].head < e->lane[l].tail)
            return &e->stats.wait_s[l];
    return &e->stats.wait_s[ZEP_LANE_NODE];
}

static int wait_once(struct zep_exec *e, struct zep_error *err)
{
    double *where = waiting_for(e), t0 = zep_clock_now();
    int rc = zep_comm_idle(e->comm, err);

    *where += zep_clock_now() - t0;
    return rc;
}

int zep_exec_run(struct zep_exec *e, enum zep_pass pass, int layer, struct zep_error *err)
{
    int rc;

    begin(e, pass, layer);
    for (;;) {
        int moved;

        if ((moved = zep_lanes_advance(e, err)) < 0)
            return moved;
        if ((rc = run_ready(e, err)) < 0)
            return rc;
        if (e->poll_rc < 0) {
            *err = e->poll_err;
            return e->poll_rc;
        }
        if (rc > 0)
            continue;
        if ((rc = read_next(e, err)) < 0)
            return rc;
        if (rc > 0 || moved)
            continue;
        if (e->ended && !n_pending(e) && zep_lanes_empty(e))
            return ZEP_OK;
        if ((rc = wait_once(e, err)) < 0)
            return rc;
    }
}

void zep_exec_pass_free(struct zep_exec *e)
{
    for (int q = 0; q < ZEP_N_QUEUE; q++)
        free(e->queue[q].item);
    free(e->pair);
}
