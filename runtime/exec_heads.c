/* Exchange of heads: parts of rows are packed into messages, and what has arrived is put where it belongs when its phase ends (planner/sched.h). */
#include "config.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/clock.h"

/* A part of the heads of rows that follow each other in ATT_*, to or from one that follow each other. */
static void pack_whole(const struct zep_exec *e, struct zep_ref ref, int64_t n, float *flat, int pack)
{
    struct zep_ref all = {ref.space, ref.slot, ref.row, 0, 0};
    int n_part = zep_space_is_kv(ref.space) ? 2 : 1; /* keys, then values */
    int64_t row = row_floats(e, ref.space), whole = row / n_part, part = whole / ref.n_slice;
    float *at = zep_exec_rows(e, all) + ref.slice * part;

    for (int64_t i = 0; i < n; i++, at += row)
        for (int k = 0; k < n_part; k++, flat += part)
            memcpy(pack ? flat : at + k * whole, pack ? at + k * whole : flat, (size_t)part * sizeof *flat);
}

/* Rows of HEAD_*, run by run. */
static void pack_runs(const struct zep_exec *e, struct zep_ref ref, const struct zep_run *run, int n_run, float *flat, int pack)
{
    int64_t row = ref_floats(e, ref);
    float *base = zep_exec_rows(e, ref);

    for (int i = 0; i < n_run; i++) {
        float *at = base + run[i].row * row;
        size_t bytes = (size_t)(run[i].n * row) * sizeof *flat;

        memcpy(pack ? flat : at, pack ? at : flat, bytes);
        flat += run[i].n * row;
    }
}

static void move(const struct zep_exec *e, struct zep_ref ref, int64_t n, const struct zep_run *run, int n_run, float *flat, int pack)
{
    if (zep_space_is_heads(ref.space))
        pack_runs(e, ref, run, n_run, flat, pack);
    else
        pack_whole(e, ref, n, flat, pack);
}

static int note(struct zep_exec *e, const struct zep_op *op, const struct zep_xfer *x, float *at, struct zep_error *err)
{
    if (e->n_staged == e->cap_staged) {
        int cap = 2 * e->cap_staged + 32;
        struct staged *p = zep_reallocarray(e->staged, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "messages of heads");
        e->staged = p;
        e->cap_staged = cap;
    }
    if (!e->n_staged)
        e->n_run = 0;
    if (e->n_run + x->n_run > e->cap_run) {
        int64_t cap = 2 * e->cap_run + x->n_run + 64;
        struct zep_run *p = zep_reallocarray(e->run, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "messages of heads");
        e->run = p;
        e->cap_run = cap;
    }
    if (x->n_run)
        memcpy(e->run + e->n_run, op->run + x->run0, (size_t)x->n_run * sizeof *e->run);
    e->staged[e->n_staged++] = (struct staged){x->ref, x->n, e->n_run, x->n_run, at};
    e->n_run += x->n_run;
    return ZEP_OK;
}

int zep_heads_message(struct zep_exec *e, const struct zep_op *op, const struct zep_xfer *x, float **at_out, struct zep_error *err)
{
    size_t floats = (size_t)(x->n * ref_floats(e, x->ref));
    double t0;

    if (x->ref.n_slice < 2 || (!x->n_run && x->ref.space >= ZEP_RING_KV)) {
        *at_out = zep_exec_rows(e, x->ref);
        return ZEP_OK;
    }
    if (x->n_run == 1) {
        *at_out = rows_at(e, x->ref, op->run[x->run0].row);
        return ZEP_OK;
    }
    if (floats > e->stage_cap - e->stage_used)
        return zep_error_set(err, ZEP_EINTERNAL, "messages of heads need more than the %zu numbers that the schedule said", e->stage_cap);
    *at_out = e->stage + e->stage_used;
    e->stage_used += floats;
    if (!x->send)
        return note(e, op, x, *at_out, err);
    t0 = zep_clock_now();
    move(e, x->ref, x->n, op->run + x->run0, x->n_run, *at_out, 1);
    e->stats.copy_s += zep_clock_now() - t0;
    return ZEP_OK;
}

void zep_heads_unpack(struct zep_exec *e)
{
    double t0 = zep_clock_now();

    for (int i = 0; i < e->n_staged; i++)
        move(e, e->staged[i].ref, e->staged[i].n, e->run + e->staged[i].run0, e->staged[i].n_run, e->staged[i].at, 0);
    if (e->n_staged)
        e->stats.copy_s += zep_clock_now() - t0;
    e->n_staged = 0;
    e->stage_used = 0;
}

void zep_heads_copy(struct zep_exec *e, const struct zep_op *op)
{
    float *flat = e->stage + e->stage_used; /* for the moment: the schedule's need counts copies, too */

    move(e, op->src, op->n, op->run, op->n_run, flat, 1);
    move(e, op->dst, op->n, op->run, op->n_run, flat, 0);
}

int zep_heads_fit(struct zep_exec *e, struct zep_error *err)
{
    size_t need = (size_t)(e->need.head_q * e->q_row + e->need.head_kv * e->kv_row);

    if (need <= e->stage_cap)
        return ZEP_OK;
    need += need / 8;
    free(e->stage);
    e->stage_cap = 0;
    if (!(e->stage = zep_calloc(need, sizeof *e->stage)))
        return zep_error_nomem(err, "messages of heads");
    e->stage_cap = need;
    return ZEP_OK;
}

void zep_heads_free(struct zep_exec *e)
{
    free(e->stage);
    free(e->staged);
    free(e->run);
}
