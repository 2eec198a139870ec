/* Device operations, fp32. One const table of functions per instruction set, chosen once at start. All matrices are row-major.
 * `+=` outputs accumulate. Long operations take a zep_progress and call it between tiles, at most 200 us apart. */
#ifndef ZEP_KERNELS_KERNELS_H
#define ZEP_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "common/error.h"

struct zep_progress {
    void (*poll)(void *arg);
    void *arg;
};

/* One causal block: queries [n_q] against keys [n_kv] of the same document. Query row i has position q_pos + i, key row j kv_pos + j;
 * the pair counts where kv_pos + j <= q_pos + i. Rows are strided: row i of q starts at q + i * ld_q (elements).
 * q: [n_q, n_head, head_dim]; k, v: [n_kv, n_head_kv, head_dim] (each with row stride ld_kv, so that k and v may be interleaved per token);
 * query head h uses key head h / (n_head / n_head_kv). scale is 1/sqrt(head_dim) as a rule. */
struct zep_attn {
    int n_head, n_head_kv, head_dim;
    float scale;
    int64_t n_q, n_kv;
    int64_t q_pos, kv_pos;
    const float *q;
    int64_t ld_q;
    const float *k, *v;
    int64_t ld_kv;
};

struct zep_kernels {
    const char *name; /* "plain", "avx2", "avx512" */

    /* Forward of one block, merged into what o and lse hold (log-sum-exp merge in fp32):
     * o: [n_q, n_head, head_dim], row stride ld_o, normalised; lse: [n_q, n_head], row stride n_head, natural log.
     * A row that has seen nothing has lse = -INFINITY and o = 0 (the caller sets that at first) and stays so when this block shows it nothing.
     * ZEP_EUNSUPPORTED when head_dim is not a multiple of 8 or is above 256; ZEP_ENOMEM. */
    int (*attn_fwd)(const struct zep_attn *a, float *o, int64_t ld_o, float *lse, const struct zep_progress *pr, struct zep_error *err);

    /* Backward of one block from the final lse of the whole row: dq += [n_q, n_head, head_dim] (row stride ld_dq),
     * dk, dv += [n_kv, n_head_kv, head_dim] (row stride ld_dkv). d_o has row stride ld_do; delta: [n_q, n_head], see attn_delta. */
    int (*attn_bwd)(const struct zep_attn *a, const float *d_o, int64_t ld_do, const float *lse, const float *delta, float *dq, int64_t ld_dq,
                    float *dk, float *dv, int64_t ld_dkv, const struct zep_progress *pr, struct zep_error *err);

    /* delta[i, h] = sum_d o[i, h, d] * d_o[i, h, d]. */
    void (*attn_delta)(int64_t n, int n_head, int head_dim, const float *o, int64_t ld_o, const float *d_o, int64_t ld_do, float *delta);

    /* y[i] = x[i] * w / rms(x[i]); rstd: [n] is kept for backward. x, y: [n, d]. */
    void (*rmsnorm_fwd)(int64_t n, int d, const float *x, const float *w, float eps, float *y, float *rstd);
    /* dx += [n, d]; dw += [d]. */
    void (*rmsnorm_bwd)(int64_t n, int d, const float *x, const float *w, const float *rstd, const float *dy, float *dx, float *dw);

    /* Rotary embedding, Hugging Face LLaMA convention (pairs (i, i + head_dim/2)), in place on [n, n_head, head_dim] with row stride ld.
     * pos: [n] positions within the document; table: [max_pos, head_dim] = cos (first half) and sin (second half), see zep_rope_table.
     * sign +1: forward, -1: backward (the inverse rotation). */
    void (*rope)(int64_t n, int n_head, int head_dim, float *x, int64_t ld, const int32_t *pos, const float *table, int sign);

    /* y = silu(g) * u, all [n]. Backward: dg, du = (not +=). */
    void (*swiglu_fwd)(int64_t n, const float *g, const float *u, float *y);
    void (*swiglu_bwd)(int64_t n, const float *g, const float *u, const float *dy, float *dg, float *du);

    /* Softmax cross-entropy of rows of logits [n, vocab], in place: on return logits hold d(sum of losses)/dlogits * grad_scale (rows with target < 0: 0).
     * target: [n], -1 = no target. Returns the sum of the losses of the rows with a target, in double. grad_scale 0: logits are left as they are. */
    double (*cross_entropy)(int64_t n, int vocab, float *logits, const int32_t *target, float grad_scale);

    /* AdamW, one pass: m, v moments; decay applies to w (decoupled); step from 1. g is multiplied by g_scale first (clipping). */
    void (*adamw)(int64_t n, float *w, const float *g, float *m, float *v, float lr, float beta1, float beta2, float eps, float decay, int64_t step, float g_scale);

    void (*add)(int64_t n, float *y, const float *x);   /* y += x */
    double (*sumsq)(int64_t n, const float *x);         /* sum of squares, in double */
};

/* The table for this processor; ZEPPELIN_CPU=plain|avx2|avx512 forces one (ZEP_EINVAL for another word, ZEP_EUNAVAIL where the processor or build lacks it). */
int zep_kernels_select(const struct zep_kernels **k_out, struct zep_error *err);
/* All built and runnable here, for tests; NULL-terminated. */
const struct zep_kernels *const *zep_kernels_all(void);

/* C[m, n] = alpha * op(A) op(B) + beta * C; op is the transpose where ta / tb is set; row strides lda, ldb, ldc.
 * By oneDNN, OpenBLAS or plain C (blocked), one thread; deterministic for equal arguments. pr may be NULL; large products are cut into row slices between which pr is called. */
int zep_gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc,
             const struct zep_progress *pr, struct zep_error *err);
const char *zep_gemm_name(void); /* "oneDNN", "OpenBLAS", "plain" */

/* table: [max_pos, head_dim]: cos(pos * theta^(-2i/head_dim)) for i < head_dim/2, then sin. Computed in double. */
void zep_rope_table(int64_t max_pos, int head_dim, double theta, float *table);

/* Double-precision references for tests: same meaning as above, plain loops, arguments as float, results as double.
 * o: [n_q, n_head, head_dim] and lse: [n_q, n_head] of one whole block; dq, dk, dv likewise (set, not +=). NULL outputs are skipped. */
int zep_ref_attn(const struct zep_attn *a, const float *d_o, int64_t ld_do, double *o, double *lse, double *dq, double *dk, double *dv, struct zep_error *err);

#endif
