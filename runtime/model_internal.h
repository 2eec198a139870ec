/* For runtime/model*.c. */
#ifndef ZEP_RUNTIME_MODEL_INTERNAL_H
#define ZEP_RUNTIME_MODEL_INTERNAL_H

#include <stdint.h>

enum zep_layer_tensor { /* order within a layer; the embedding is tensor 0 */
    T_NORM1 = 0,
    T_Q,
    T_K,
    T_V,
    T_O,
    T_NORM2,
    T_GATE,
    T_UP,
    T_DOWN,
    N_LAYER_TENSOR
};

struct zep_layer_keep { /* what forward keeps of a layer, all [n, ...] in linear layout */
    float *x;     /* [n, hidden] residual stream at the layer's start */
    float *rstd1; /* [n] */
    float *o;     /* [n, n_head * head_dim] attention's output */
    float *x2;    /* [n, hidden] residual stream after attention */
    float *rstd2; /* [n] */
    float *g, *u; /* [n, ffn] */
};

struct zep_model_work {
    struct zep_layer_keep *layer; /* [n_layer] */
    float *arena;                 /* one block behind all of it, grown when a rank's tokens do */
    int64_t cap;                  /* tokens */
    float *x_out, *rstd_out;      /* [n, hidden], [n] residual stream's end and its norm */
    float *h, *h2;                /* [n, hidden] */
    float *q, *dq;                /* [n, n_head * head_dim] */
    float *kv, *dkv;              /* [n, 2 * n_head_kv * head_dim] */
    float *y, *dg, *du;           /* [n, ffn] */
    float *dx;                    /* [n, hidden] gradient of the residual stream */
    float *logits;                /* [LOGIT_ROWS, vocab] */
};

#define LOGIT_ROWS 256

#endif
