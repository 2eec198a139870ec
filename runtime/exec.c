#include "config.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

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
    e->att_q = zep_calloc(n, sizeof *e->att_q);
    e->att_kv = zep_calloc(n, sizeof *e->att_kv);
    e->att_o = zep_calloc(n, sizeof *e->att_o);
    e->lse = zep_calloc(n, sizeof *e->lse);
    if (!e->att_q || !e->att_kv || !e->att_o || !e->lse) {
        zep_exec_free(e);
        return zep_error_nomem(err, "executor");
    }
    *exec_out = e;
    return ZEP_OK;
}

static void free_layers(struct zep_exec *e)
{
    for (int i = 0; i < e->shape.n_layer; i++) {
        float **p[] = {&e->att_q[i], &e->att_kv[i], &e->att_o[i], &e->lse[i]};

        for (size_t k = 0; k < sizeof p / sizeof p[0]; k++) {
            free(*p[k]);
            *p[k] = NULL;
        }
    }
    free(e->att_do);
    free(e->att_dq);
    free(e->att_dkv);
    free(e->delta);
    e->att_do = e->att_dq = e->att_dkv = e->delta = NULL;
    e->cap_attn = 0;
}

void zep_exec_free(struct zep_exec *e)
{
    if (!e)
        return;
    if (e->att_q && e->att_kv && e->att_o && e->lse)
        free_layers(e);
    free(e->att_q);
    free(e->att_kv);
    free(e->att_o);
    free(e->lse);
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

static int fit_layers(struct zep_exec *e, int64_t rows, struct zep_error *err)
{
    int ok = 1;

    if (rows <= e->cap_attn)
        return ZEP_OK;
    rows += rows / 8 + 8; /* so that few plans need it again */
    free_layers(e);
    for (int i = 0; i < e->shape.n_layer; i++) {
        e->att_q[i] = alloc_rows(rows, e->q_row);
        e->att_kv[i] = alloc_rows(rows, e->kv_row);
        e->att_o[i] = alloc_rows(rows, e->q_row);
        e->lse[i] = alloc_rows(rows, e->shape.n_head);
        ok &= e->att_q[i] && e->att_kv[i] && e->att_o[i] && e->lse[i];
    }
    e->att_do = alloc_rows(rows, e->q_row);
    e->att_dq = alloc_rows(rows, e->q_row);
    e->att_dkv = alloc_rows(rows, e->kv_row);
    e->delta = alloc_rows(rows, e->shape.n_head);
    if (!ok || !e->att_do || !e->att_dq || !e->att_dkv || !e->delta)
        return zep_error_nomem(err, "attention's activations");
    e->cap_attn = rows;
    return ZEP_OK;
}

static int fit_spaces(struct zep_exec *e, struct zep_error *err)
{
    for (int s = ZEP_RING_KV; s < ZEP_N_SPACE; s++) {
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

int zep_exec_set_plan(struct zep_exec *e, const struct zep_plan *plan, struct zep_error *err)
{
    int rc;

    for (int p = 0; p < 2; p++) {
        zep_sched_free(e->sched[p]);
        e->sched[p] = NULL;
    }
    e->plan = plan;
    e->node = plan->dev_node[e->dev];
    for (int p = 0; p < 2; p++)
        if ((rc = zep_sched_open(plan, e->dev, (enum zep_pass)p, &e->sched[p], err)) < 0)
            return rc;
    if ((rc = zep_sched_need(plan, e->dev, &e->need, err)) < 0 || (rc = fit_layers(e, plan->attn_tok[e->dev], err)) < 0 || (rc = fit_spaces(e, err)) < 0)
        return rc;
    return zep_lane_fit(e, e->need.max_xfer, err);
}

/* The one place that knows where a buffer lies. */
float *zep_exec_rows(const struct zep_exec *e, struct zep_ref ref)
{
    float *base;

    switch (ref.space) {
    case ZEP_ATT_Q:
        base = e->att_q[e->layer];
        break;
    case ZEP_ATT_KV:
        base = e->att_kv[e->layer];
        break;
    case ZEP_ATT_O:
        base = e->att_o[e->layer];
        break;
    case ZEP_ATT_DO:
        base = e->att_do;
        break;
    case ZEP_ATT_DQ:
        base = e->att_dq;
        break;
    case ZEP_ATT_DKV:
        base = e->att_dkv;
        break;
    case ZEP_RING_KV:
    case ZEP_RING_DKV:
    case ZEP_SCRATCH_DKV:
    case ZEP_PROXY_KV:
    case ZEP_PROXY_DKV:
    case ZEP_GATHER_KV:
    case ZEP_GATHER_DKV:
        base = e->space[ref.space] + (int64_t)ref.slot * e->need.rows[ref.space] * e->kv_row;
        break;
    default:
        base = e->lin[ref.space];
        break;
    }
    return base + ref.row * row_floats(e, ref.space);
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
