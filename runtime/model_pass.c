#include "config.h"
#include "runtime/model.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "runtime/model_internal.h"

/* Work space for n tokens, as one block; grows to the largest n seen. */
static int reserve(struct zep_model *m, int64_t n, struct zep_error *err)
{
    const struct zep_model_shape *s = &m->shape;
    struct zep_model_work *w = m->work;
    int64_t h = s->hidden, q = (int64_t)s->n_head * s->head_dim, kv = 2 * (int64_t)s->n_head_kv * s->head_dim, f = s->ffn;
    int64_t per_layer = 2 * h + q + 2 * f + 2, shared = h + 1 + 3 * h + 2 * q + 2 * kv + 3 * f;
    float *p;

    if (n <= w->cap && w->arena)
        return ZEP_OK;
    n = (n + 63) / 64 * 64;
    p = zep_calloc((size_t)n * (size_t)(per_layer * s->n_layer + shared) + (size_t)LOGIT_ROWS * (size_t)s->vocab, sizeof(float));
    if (!p)
        return zep_error_nomem(err, "activations");
    free(w->arena);
    w->arena = p;
    w->cap = n;
#define TAKE(field, width) (w->field = p, p += n * (width))
    for (int i = 0; i < s->n_layer; i++) {
        TAKE(layer[i].x, h);
        TAKE(layer[i].rstd1, 1);
        TAKE(layer[i].o, q);
        TAKE(layer[i].x2, h);
        TAKE(layer[i].rstd2, 1);
        TAKE(layer[i].g, f);
        TAKE(layer[i].u, f);
    }
    TAKE(x_out, h);
    TAKE(rstd_out, 1);
    TAKE(h, h);
    TAKE(h2, h);
    TAKE(dx, h);
    TAKE(q, q);
    TAKE(dq, q);
    TAKE(kv, kv);
    TAKE(dkv, kv);
    TAKE(y, f);
    TAKE(dg, f);
    TAKE(du, f);
#undef TAKE
    w->logits = p;
    return ZEP_OK;
}

/* y[n, out] = (beta) y + x[n, in] W^T, W: [out, in] */
static int linear(int64_t n, int64_t out, int64_t in, const float *x, const float *w, float beta, float *y, struct zep_error *err)
{
    return zep_gemm(0, 1, n, out, in, 1.0f, x, in, w, in, beta, y, out, NULL, err);
}

/* dx[n, in] = (beta) dx + dy W; dW[out, in] += dy^T x */
static int linear_bwd(int64_t n, int64_t out, int64_t in, const float *x, const float *w, const float *dy, float beta, float *dx, float *dw,
                      struct zep_error *err)
{
    int rc;

    if ((rc = zep_gemm(0, 0, n, in, out, 1.0f, dy, out, w, in, beta, dx, in, NULL, err)) < 0)
        return rc;
    return zep_gemm(1, 0, out, in, n, 1.0f, dy, out, x, in, 1.0f, dw, in, NULL, err);
}

static int64_t offset_of(const struct zep_model *m, int layer, int which)
{
    return m->tensor[1 + layer * N_LAYER_TENSOR + which].offset;
}

#define W(layer, which) (m->weight + offset_of(m, layer, which))
#define G(layer, which) (m->grad + offset_of(m, layer, which))

static int forward_layer(struct zep_model *m, struct zep_exec *exec, const struct zep_tokens *t, int layer, float *x_next, struct zep_error *err)
{
    const struct zep_model_shape *s = &m->shape;
    struct zep_model_work *w = m->work;
    struct zep_layer_keep *l = &w->layer[layer];
    int64_t n = t->n, h = s->hidden, q = (int64_t)s->n_head * s->head_dim, kv = 2 * (int64_t)s->n_head_kv * s->head_dim;
    int rc;

    m->k->rmsnorm_fwd(n, s->hidden, l->x, W(layer, T_NORM1), s->norm_eps, w->h, l->rstd1);
    if ((rc = linear(n, q, h, w->h, W(layer, T_Q), 0.0f, w->q, err)) < 0)
        return rc;
    if ((rc = linear(n, kv, h, w->h, W(layer, T_K), 0.0f, w->kv, err)) < 0)
        return rc;
    m->k->rope(n, s->n_head, s->head_dim, w->q, q, t->pos, m->rope, 1);
    m->k->rope(n, s->n_head_kv, s->head_dim, w->kv, kv, t->pos, m->rope, 1);
    if ((rc = zep_exec_forward(exec, layer, w->q, w->kv, l->o, err)) < 0)
        return rc;
    memcpy(l->x2, l->x, (size_t)(n * h) * sizeof(float));
    if ((rc = linear(n, h, q, l->o, W(layer, T_O), 1.0f, l->x2, err)) < 0)
        return rc;

    m->k->rmsnorm_fwd(n, s->hidden, l->x2, W(layer, T_NORM2), s->norm_eps, w->h, l->rstd2);
    if ((rc = linear(n, s->ffn, h, w->h, W(layer, T_GATE), 0.0f, l->g, err)) < 0)
        return rc;
    if ((rc = linear(n, s->ffn, h, w->h, W(layer, T_UP), 0.0f, l->u, err)) < 0)
        return rc;
    m->k->swiglu_fwd(n * s->ffn, l->g, l->u, w->y);
    memcpy(x_next, l->x2, (size_t)(n * h) * sizeof(float));
    return linear(n, h, s->ffn, w->y, W(layer, T_DOWN), 1.0f, x_next, err);
}

int zep_model_forward(struct zep_model *m, struct zep_exec *exec, const struct zep_tokens *t, struct zep_error *err)
{
    const struct zep_model_shape *s = &m->shape;
    struct zep_model_work *w = m->work;
    int64_t h = s->hidden;
    int rc;

    if ((rc = reserve(m, t->n, err)) < 0)
        return rc;
    for (int64_t i = 0; i < t->n; i++)
        memcpy((s->n_layer ? w->layer[0].x : w->x_out) + i * h, m->weight + t->token[i] * h, (size_t)h * sizeof(float));
    for (int layer = 0; layer < s->n_layer; layer++) {
        float *next = layer + 1 < s->n_layer ? w->layer[layer + 1].x : w->x_out;

        if ((rc = forward_layer(m, exec, t, layer, next, err)) < 0)
            return rc;
    }
    return ZEP_OK;
}

int zep_model_loss(struct zep_model *m, const struct zep_tokens *t, float grad_scale, double *loss_sum_out, struct zep_error *err)
{
    const struct zep_model_shape *s = &m->shape;
    struct zep_model_work *w = m->work;
    const struct zep_tensor *norm = &m->tensor[1 + s->n_layer * N_LAYER_TENSOR];
    const struct zep_tensor *head = s->tied ? &m->tensor[0] : &m->tensor[m->n_tensor - 1];
    int64_t h = s->hidden;
    double loss = 0.0;
    int rc;

    m->k->rmsnorm_fwd(t->n, s->hidden, w->x_out, m->weight + norm->offset, s->norm_eps, w->h, w->rstd_out);
    for (int64_t i = 0; i < t->n; i += LOGIT_ROWS) {
        int64_t rows = t->n - i < LOGIT_ROWS ? t->n - i : LOGIT_ROWS;

        if ((rc = linear(rows, s->vocab, h, w->h + i * h, m->weight + head->offset, 0.0f, w->logits, err)) < 0)
            return rc;
        loss += m->k->cross_entropy(rows, s->vocab, w->logits, t->target + i, grad_scale);
        if (grad_scale != 0.0f && (rc = linear_bwd(rows, s->vocab, h, w->h + i * h, m->weight + head->offset, w->logits, 0.0f, w->h2 + i * h,
                                                   m->grad + head->offset, err)) < 0)
            return rc;
    }
    if (grad_scale != 0.0f) {
        memset(w->dx, 0, (size_t)(t->n * h) * sizeof(float));
        m->k->rmsnorm_bwd(t->n, s->hidden, w->x_out, m->weight + norm->offset, w->rstd_out, w->h2, w->dx, m->grad + norm->offset);
    }
    *loss_sum_out = loss;
    return ZEP_OK;
}

/* dx is the gradient of the layer's output on entry, of its input on return. Norms and the gate are computed again from what forward kept. */
static int backward_mlp(struct zep_model *m, const struct zep_tokens *t, int layer, struct zep_error *err)
{
    const struct zep_model_shape *s = &m->shape;
    struct zep_model_work *w = m->work;
    struct zep_layer_keep *l = &w->layer[layer];
    int64_t n = t->n, h = s->hidden;
    int rc;

    m->k->swiglu_fwd(n * s->ffn, l->g, l->u, w->y);
    m->k->rmsnorm_fwd(n, s->hidden, l->x2, W(layer, T_NORM2), s->norm_eps, w->h, l->rstd2);
    /* w->y is read for down_proj's gradient first, then takes dy */
    if ((rc = zep_gemm(1, 0, h, s->ffn, n, 1.0f, w->dx, h, w->y, s->ffn, 1.0f, G(layer, T_DOWN), s->ffn, NULL, err)) < 0)
        return rc;
    if ((rc = zep_gemm(0, 0, n, s->ffn, h, 1.0f, w->dx, h, W(layer, T_DOWN), s->ffn, 0.0f, w->y, s->ffn, NULL, err)) < 0)
        return rc;
    m->k->swiglu_bwd(n * s->ffn, l->g, l->u, w->y, w->dg, w->du);
    if ((rc = linear_bwd(n, s->ffn, h, w->h, W(layer, T_GATE), w->dg, 0.0f, w->h2, G(layer, T_GATE), err)) < 0)
        return rc;
    if ((rc = linear_bwd(n, s->ffn, h, w->h, W(layer, T_UP), w->du, 1.0f, w->h2, G(layer, T_UP), err)) < 0)
        return rc;
    m->k->rmsnorm_bwd(n, s->hidden, l->x2, W(layer, T_NORM2), l->rstd2, w->h2, w->dx, G(layer, T_NORM2));
    return ZEP_OK;
}

static int backward_attn(struct zep_model *m, struct zep_exec *exec, const struct zep_tokens *t, int layer, struct zep_error *err)
{
    const struct zep_model_shape *s = &m->shape;
    struct zep_model_work *w = m->work;
    struct zep_layer_keep *l = &w->layer[layer];
    int64_t n = t->n, h = s->hidden, q = (int64_t)s->n_head * s->head_dim, kv = 2 * (int64_t)s->n_head_kv * s->head_dim;
    int rc;

    if ((rc = linear_bwd(n, h, q, l->o, W(layer, T_O), w->dx, 0.0f, w->q, G(layer, T_O), err)) < 0)
        return rc;
    if ((rc = zep_exec_backward(exec, layer, w->q, w->dq, w->dkv, err)) < 0)
        return rc;
    m->k->rope(n, s->n_head, s->head_dim, w->dq, q, t->pos, m->rope, -1);
    m->k->rope(n, s->n_head_kv, s->head_dim, w->dkv, kv, t->pos, m->rope, -1);
    m->k->rmsnorm_fwd(n, s->hidden, l->x, W(layer, T_NORM1), s->norm_eps, w->h, l->rstd1);
    if ((rc = linear_bwd(n, q, h, w->h, W(layer, T_Q), w->dq, 0.0f, w->h2, G(layer, T_Q), err)) < 0)
        return rc;
    if ((rc = linear_bwd(n, kv, h, w->h, W(layer, T_K), w->dkv, 1.0f, w->h2, G(layer, T_K), err)) < 0)
        return rc;
    m->k->rmsnorm_bwd(n, s->hidden, l->x, W(layer, T_NORM1), l->rstd1, w->h2, w->dx, G(layer, T_NORM1));
    return ZEP_OK;
}

int zep_model_backward(struct zep_model *m, struct zep_exec *exec, const struct zep_tokens *t, struct zep_error *err)
{
    int64_t h = m->shape.hidden;
    int rc;

    for (int layer = m->shape.n_layer - 1; layer >= 0; layer--) {
        if ((rc = backward_mlp(m, t, layer, err)) < 0)
            return rc;
        if ((rc = backward_attn(m, exec, t, layer, err)) < 0)
            return rc;
    }
    for (int64_t i = 0; i < t->n; i++)
        m->k->add(h, m->grad + t->token[i] * h, m->work->dx + i * h);
    return ZEP_OK;
}
