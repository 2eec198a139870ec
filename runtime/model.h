/* A decoder-only transformer of the LLaMA family: RMSNorm, RoPE, grouped-query attention, SwiGLU, tied or untied embeddings; fp32. Every rank holds all weights;
 * it computes the tokens of its linear layout, and attention goes through the executor. */
#ifndef ZEP_RUNTIME_MODEL_H
#define ZEP_RUNTIME_MODEL_H

#include <stdint.h>
#include "common/error.h"
#include "common/job.h"
#include "kernels/kernels.h"
#include "runtime/exec.h"

struct zep_model_shape {
    int vocab, hidden, n_layer, n_head, n_head_kv, head_dim, ffn, tied;
    float norm_eps;
    double rope_theta, init_std;
    int64_t max_pos; /* longest document */
};
/* From a job's model and data sections. Errors name the keys that do not fit together. */
int zep_model_shape_from_job(const struct zep_job *job, struct zep_model_shape *out, struct zep_error *err);

struct zep_tensor { /* one weight: [rows, cols] floats at offset of the flat vector; Hugging Face's name */
    char name[96];
    int64_t offset, rows, cols;
    int decay; /* weight decay applies: matrices, not norms */
};

struct zep_model {
    struct zep_model_shape shape;
    const struct zep_kernels *k;
    int n_tensor;
    struct zep_tensor *tensor;
    int64_t n_weight;        /* floats */
    float *weight, *grad;    /* [n_weight] */
    float *rope;             /* [max_pos, head_dim] */
    struct zep_model_work *work;
};

int zep_model_new(const struct zep_model_shape *shape, const struct zep_kernels *k, struct zep_model **model_out, struct zep_error *err);
void zep_model_free(struct zep_model *model);
/* Normal weights with deviation init_std (output projections of the residual branches divided by sqrt(2 n_layer)), norms 1. A weight depends on seed, tensor and index only:
 * of the flat vector just [first, last) is set. */
void zep_model_init(struct zep_model *model, uint64_t seed, int64_t first, int64_t last);
const struct zep_tensor *zep_model_tensor(const struct zep_model *model, const char *name); /* NULL: none */

struct zep_tokens { /* this rank's tokens in linear layout */
    int64_t n;
    const int32_t *token, *pos, *target; /* [n]; target -1: none */
};

/* Forward; keeps what backward needs. Afterwards the residual stream's end lies in the model's work space. */
int zep_model_forward(struct zep_model *model, struct zep_exec *exec, const struct zep_tokens *t, struct zep_error *err);
/* Sum of the losses over this rank's targets (nats). grad_scale 0: loss alone; else also the first part of backward (output embedding and final norm). The logits are made in slices of rows. */
int zep_model_loss(struct zep_model *model, const struct zep_tokens *t, float grad_scale, double *loss_sum_out, struct zep_error *err);
/* Rest of backward; adds to grad. */
int zep_model_backward(struct zep_model *model, struct zep_exec *exec, const struct zep_tokens *t, struct zep_error *err);

/* Floating-point operations of a training step (forward and backward = 3 x forward; attention's backward 2.5 x): linear modules for n tokens; attention for causal pairs of one layer, all layers. */
double zep_model_flops_linear(const struct zep_model_shape *s, double n_token);
double zep_model_flops_attn(const struct zep_model_shape *s, double pairs);

#endif
