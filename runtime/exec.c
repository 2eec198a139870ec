#include "config.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static int new_acts(struct acts *a, size_t n_layer)
{
    a->q = zep_calloc(n_layer, sizeof *a->q);
    a->kv = zep_calloc(n_layer, sizeof *a->kv);
    a->o = zep_calloc(n_layer, sizeof *a->o);
    a->lse = zep_calloc(n_layer, sizeof *a->lse);
    return a->q && a->kv && a->o && a->lse;
}

int zep_exec_new(struct zep_comm *comm, const struct zep_kernels *kernels, const struct zep_exec_shape *shape, struct zep_exec **exec_out, struct zep_error *err)
{
    struct zep_exec *e = zep_calloc(1, sizeof *e);
    size_t n = (size_t)shape->n_layer;

    if (!e)
        return zep_error_nomem(err, "executor");
    e->comm = comm;
    e->kernels = kernels;
    e->shape = *shape;
    e->dev = zep_comm_dev(comm);
    e->q_row = (int64_t)shape->n_head * shape->head_dim;
    e->kv_row = 2 * (int64_t)shape->n_head_kv * shape->head_dim;
    if (!new_acts(&e->att, n) || !new_acts(&e->head, n)) {
        zep_exec_free(e);
        return zep_error_nomem(err, "executor");
    }
    *exec_out = e;
    return ZEP_OK;
}

static void free_layers(const struct zep_exec *e, struct acts *a)
{
    for (int i = 0; i < e->shape.n_layer; i++) {
        float **p[] = {&a->q[i], &a->kv[i], &a->o[i], &a->lse[i]};

        for (size_t k = 0; k < sizeof p / sizeof p[0]; k++) {
            free(*p[k]);
            *p[k] = NULL;
        }
    }
    free(a->d_o);
    free(a->dq);
    free(a->dkv);
    free(a->delta);
    a->d_o = a->dq = a->dkv = a->delta = NULL;
    a->cap = 0;
}

static void free_acts(const struct zep_exec *e, struct acts *a)
{
    if (a->q && a->kv && a->o && a->lse)
        free_layers(e, a);
    free(a->q);
    free(a->kv);
    free(a->o);
    free(a->lse);
}

void zep_exec_free(struct zep_exec *e)
{
    if (!e)
        return;
    free_acts(e, &e->att);
    free_acts(e, &e->head);
    zep_heads_free(e);
    for (int s = 0; s < ZEP_N_SPACE; s++)
        free(e->space[s]);
    for (int l = 0; l < ZEP_N_LANE; l++)
        zep_lane_free(&e->lane[l]);
    for (int p = 0; p < 2; p++)
        zep_sched_free(e->sched[p]);
    zep_exec_pass_free(e);
    free(e);
}

static float *alloc_rows(int64_t rows, int64_t floats)
{
    return zep_calloc((size_t)rows, (size_t)floats * sizeof(float));
}

static int fit_layers(const struct zep_exec *e, struct acts *a, int64_t rows, struct zep_error *err)
{
    int ok = 1;

    if (rows <= a->cap)
        return ZEP_OK;
    rows += rows / 8 + 8; /* so that few plans need it again */
    free_layers(e, a);
    for (int i = 0; i < e->shape.n_layer; i++) {
        a->q[i] = alloc_rows(rows, e->q_row);
        a->kv[i] = alloc_rows(rows, e->kv_row);
        a->o[i] = alloc_rows(rows, e->q_row);
        a->lse[i] = alloc_rows(rows, e->shape.n_head);
        ok &= a->q[i] && a->kv[i] && a->o[i] && a->lse[i];
    }
    a->d_o = alloc_rows(rows, e->q_row);
    a->dq = alloc_rows(rows, e->q_row);
    a->dkv = alloc_rows(rows, e->kv_row);
    a->delta = alloc_rows(rows, e->shape.n_head);
    if (!ok || !a->d_o || !a->dq || !a->dkv || !a->delta)
        return zep_error_nomem(err, "attention's activations");
    a->cap = rows;
    return ZEP_OK;
}

static int fit_spaces(struct zep_exec *e, struct zep_error *err)
{
    for (int s = ZEP_RING_KV; s <= ZEP_GATHER_DKV; s++) {
        size_t need = (size_t)e->need.n_slot[s] * (size_t)e->need.rows[s] * (size_t)e->kv_row;

        if (need <= e->space_cap[s])
            continue;
        need += need / 8;
        free(e->space[s]);
        e->space_cap[s] = 0;
        if (!(e->space[s] = zep_calloc(need, sizeof(float))))
            return zep_error_nomem(err, "ring buffers");
        e->space_cap[s] = need;
    }
    return ZEP_OK;
}

/* The model's heads divide as the plan wants it. All rings are looked at, so that all ranks say the same. */
static int check_heads(const struct zep_exec *e, const struct zep_plan *plan, struct zep_error *err)
{
    for (int i = 0; i < plan->n_ring; i++) {
        int u = zep_ring_heads(&plan->ring[i]);

        if (e->shape.n_head % u || e->shape.n_head_kv % u)
            return zep_error_set(err, ZEP_EINVAL, "ring %d of the plan divides heads in %d parts: the model has %d heads and %d key-value heads (a plan must be made for the model: --kv-heads)", i, u, e->shape.n_head,
                                 e->shape.n_head_kv);
    }
    return ZEP_OK;
}

int zep_exec_set_plan(struct zep_exec *e, const struct zep_plan *plan, struct zep_error *err)
{
    int rc = check_heads(e, plan, err);

    if (rc < 0)
        return rc;

    for (int p = 0; p < 2; p++) {
        zep_sched_free(e->sched[p]);
        e->sched[p] = NULL;
    }
    e->plan = plan;
    e->node = plan->dev_node[e->dev];
    for (int p = 0; p < 2; p++)
        if ((rc = zep_sched_open(plan, e->dev, (enum zep_pass)p, &e->sched[p], err)) < 0)
            return rc;
    if ((rc = zep_sched_need(plan, e->dev, &e->need, err)) < 0 || (rc = fit_layers(e, &e->att, plan->attn_tok[e->dev], err)) < 0 ||
        (rc = fit_layers(e, &e->head, e->need.n_slot[ZEP_HEAD_Q] * e->need.rows[ZEP_HEAD_Q], err)) < 0 || (rc = zep_heads_fit(e, err)) < 0 || (rc = fit_spaces(e, err)) < 0)
        return rc;
    return zep_lane_fit(e, e->need.max_xfer, err);
}

/* Rows of the attention layout, or of exchanged heads in the order of the same spaces. */
static float *rows_of(const struct zep_exec *e, const struct acts *a, int space)
{
    switch (space) {
    case ZEP_ATT_Q:
        return a->q[e->layer];
    case ZEP_ATT_KV:
        return a->kv[e->layer];
    case ZEP_ATT_O:
        return a->o[e->layer];
    case ZEP_ATT_DO:
        return a->d_o;
    case ZEP_ATT_DQ:
        return a->dq;
    default:
        return a->dkv;
    }
}

/* The one place that knows where a buffer lies. */
float *zep_exec_rows(const struct zep_exec *e, struct zep_ref ref)
{
    int64_t slot = (int64_t)ref.slot * e->need.rows[ref.space] * row_floats(e, ref.space);
    float *base;

    if (zep_space_is_heads(ref.space))
        base = rows_of(e, &e->head, ref.space - ZEP_HEAD_Q + ZEP_ATT_Q) + slot;
    else if (ref.space >= ZEP_RING_KV)
        base = e->space[ref.space] + slot;
    else if (ref.space >= ZEP_ATT_Q)
        base = rows_of(e, &e->att, ref.space);
    else
        base = e->lin[ref.space];
    return base + ref.row * ref_floats(e, ref);
}

int zep_exec_forward(struct zep_exec *e, int layer, const float *q, const float *kv, float *o, struct zep_error *err)
{
    e->lin[ZEP_LIN_Q] = (float *)q; /* only read in this pass */
    e->lin[ZEP_LIN_KV] = (float *)kv;
    e->lin[ZEP_LIN_O] = o;
    return zep_exec_run(e, ZEP_PASS_FWD, layer, err);
}

int zep_exec_backward(struct zep_exec *e, int layer, const float *d_o, float *dq, float *dkv, struct zep_error *err)
{
    e->lin[ZEP_LIN_DO] = (float *)d_o;
    e->lin[ZEP_LIN_DQ] = dq;
    e->lin[ZEP_LIN_DKV] = dkv;
    return zep_exec_run(e, ZEP_PASS_BWD, layer, err);
}

void zep_exec_take_stats(struct zep_exec *e, struct zep_exec_stats *out)
{
    *out = e->stats;
    e->stats = (struct zep_exec_stats){0};
}

void zep_exec_set_hook(struct zep_exec *e, zep_exec_hook_fn hook, void *arg)
{
    e->hook = hook;
    e->hook_arg = arg;
}

void zep_exec_set_probe(struct zep_exec *e, void (*probe)(void *arg, const struct zep_op *op, int64_t groups_done_world, int64_t groups_done_node), void *arg)
{
    e->probe = probe;
    e->probe_arg = arg;
}
