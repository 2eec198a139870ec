#include "config.h"
#include "runtime/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/rng.h"
#include "runtime/model_internal.h"

#define INIT_BLOCK 65536 /* numbers; part of what a seed means */

int zep_model_shape_from_job(const struct zep_job *job, struct zep_model_shape *out, struct zep_error *err)
{
    struct zep_model_shape s = {
        .vocab = (int)job->model.vocab,
        .hidden = (int)job->model.hidden,
        .n_layer = (int)job->model.layers,
        .n_head = (int)job->model.heads,
        .n_head_kv = (int)job->model.kv_heads,
        .head_dim = (int)job->model.head_dim,
        .ffn = (int)job->model.ffn,
        .tied = job->model.tied,
        .norm_eps = (float)job->model.norm_eps,
        .rope_theta = job->model.rope_theta,
        .init_std = job->model.init_std > 0 ? job->model.init_std : 0.7 / sqrt((double)job->model.hidden),
        .max_pos = job->data.context,
    };

    if (s.n_head_kv > s.n_head || s.n_head % s.n_head_kv != 0)
        return zep_error_set(err, ZEP_EINVAL, "model.heads is %d, expected a multiple of model.kv_heads (%d)", s.n_head, s.n_head_kv);
    if (s.head_dim % 8 != 0 || s.head_dim > 256)
        return zep_error_set(err, ZEP_EINVAL, "model.head_dim is %d, expected a multiple of 8 up to 256", s.head_dim);
    *out = s;
    return ZEP_OK;
}

static struct zep_tensor *add_tensor(struct zep_model *m, int64_t rows, int64_t cols)
{
    struct zep_tensor *t = &m->tensor[m->n_tensor++];

    t->offset = m->n_weight;
    t->rows = rows;
    t->cols = cols;
    t->decay = rows > 1;
    m->n_weight += rows * cols;
    return t;
}

/* The flat vector: k_proj and v_proj lie side by side, so that one product makes a token's [k heads, v heads]. */
static void layout_layer(struct zep_model *m, int layer)
{
    static const char *const names[] = {
        "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    };
    const struct zep_model_shape *s = &m->shape;
    int64_t q = (int64_t)s->n_head * s->head_dim, kv = (int64_t)s->n_head_kv * s->head_dim, h = s->hidden, f = s->ffn;
    const int64_t size[][2] = {{1, h}, {q, h}, {kv, h}, {kv, h}, {h, q}, {1, h}, {f, h}, {f, h}, {h, f}};

    for (int i = 0; i < N_LAYER_TENSOR; i++) {
        struct zep_tensor *t = add_tensor(m, size[i][0], size[i][1]);

        snprintf(t->name, sizeof t->name, "model.layers.%d.%s.weight", layer, names[i]);
    }
}

static void layout(struct zep_model *m)
{
    const struct zep_model_shape *s = &m->shape;

    snprintf(add_tensor(m, s->vocab, s->hidden)->name, sizeof m->tensor->name, "model.embed_tokens.weight");
    for (int i = 0; i < s->n_layer; i++)
        layout_layer(m, i);
    snprintf(add_tensor(m, 1, s->hidden)->name, sizeof m->tensor->name, "model.norm.weight");
    if (!s->tied)
        snprintf(add_tensor(m, s->vocab, s->hidden)->name, sizeof m->tensor->name, "lm_head.weight");
}

int zep_model_new(const struct zep_model_shape *shape, const struct zep_kernels *k, struct zep_model **model_out, struct zep_error *err)
{
    struct zep_model *m = zep_calloc(1, sizeof *m);

    if (!m)
        return zep_error_nomem(err, "model");
    m->shape = *shape;
    m->k = k;
    m->tensor = zep_calloc((size_t)(3 + N_LAYER_TENSOR * shape->n_layer), sizeof *m->tensor);
    m->work = zep_calloc(1, sizeof *m->work);
    if (!m->tensor || !m->work)
        goto err_model;
    layout(m);
    m->weight = zep_calloc((size_t)m->n_weight, sizeof(float));
    m->grad = zep_calloc((size_t)m->n_weight, sizeof(float));
    m->rope = zep_calloc((size_t)shape->max_pos * (size_t)shape->head_dim, sizeof(float));
    m->work->layer = zep_calloc((size_t)shape->n_layer, sizeof *m->work->layer);
    if (!m->weight || !m->grad || !m->rope || !m->work->layer)
        goto err_model;
    zep_rope_table(shape->max_pos, shape->head_dim, shape->rope_theta, m->rope);
    *model_out = m;
    return ZEP_OK;
err_model:
    zep_model_free(m);
    return zep_error_nomem(err, "model");
}

void zep_model_free(struct zep_model *model)
{
    if (!model)
        return;
    if (model->work) {
        free(model->work->arena);
        free(model->work->layer);
        free(model->work);
    }
    free(model->tensor);
    free(model->weight);
    free(model->grad);
    free(model->rope);
    free(model);
}

/* Numbers [first, last) of a tensor. A block has a generator of its own, so that a part of a tensor costs no more than that part and a block. */
static void init_tensor(const struct zep_model *model, int index, uint64_t seed, int64_t first, int64_t last)
{
    const struct zep_tensor *t = &model->tensor[index];
    float *w = model->weight + t->offset;
    double std = model->shape.init_std;

    if (strstr(t->name, "o_proj") || strstr(t->name, "down_proj"))
        std *= 1.0 / sqrt(2.0 * model->shape.n_layer);
    for (int64_t block = first / INIT_BLOCK; block * INIT_BLOCK < last; block++) {
        int64_t begin = block * INIT_BLOCK, end = begin + INIT_BLOCK < last ? begin + INIT_BLOCK : last;
        struct zep_rng rng;

        zep_rng_seed3(&rng, seed, (uint64_t)index, (uint64_t)block);
        for (int64_t j = begin; j < end; j++) {
            double x = t->decay ? std * zep_rng_normal(&rng) : 1.0;

            if (j >= first)
                w[j] = (float)x;
        }
    }
}

void zep_model_init(struct zep_model *model, uint64_t seed, int64_t first, int64_t last)
{
    for (int i = 0; i < model->n_tensor; i++) {
        const struct zep_tensor *t = &model->tensor[i];
        int64_t n = t->rows * t->cols, from = first - t->offset, to = last - t->offset;

        from = from > 0 ? from : 0;
        to = to < n ? to : n;
        if (from < to)
            init_tensor(model, i, seed, from, to);
    }
}

const struct zep_tensor *zep_model_tensor(const struct zep_model *model, const char *name)
{
    for (int i = 0; i < model->n_tensor; i++)
        if (strcmp(model->tensor[i].name, name) == 0)
            return &model->tensor[i];
    return NULL;
}

double zep_model_flops_linear(const struct zep_model_shape *s, double n_token)
{
    double q = (double)s->n_head * s->head_dim, kv = 2.0 * s->n_head_kv * s->head_dim;
    double layer = s->hidden * (2 * q + kv) + 3.0 * s->hidden * s->ffn;

    return 6.0 * n_token * (s->n_layer * layer + (double)s->vocab * s->hidden);
}

double zep_model_flops_attn(const struct zep_model_shape *s, double pairs)
{
    /* forward: q k^T and p v, 4 operations a pair and element; backward: five products of that kind */
    return 14.0 * pairs * s->n_head * s->head_dim * s->n_layer;
}
