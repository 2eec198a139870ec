/* Register tiles of matrix products and the packing around them: what attention is made of. */
#ifndef ZEP_KERNELS_CPU_TILE_IMPL_H
#define ZEP_KERNELS_CPU_TILE_IMPL_H

#include <string.h>

#include "kernels/cpu/vec_math.h"

#define ROWS 6    /* rows of a register tile */
#define KEYS 64   /* keys of one score tile */
#define NOINLINE static __attribute__((noinline))

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum tile_mode {
    TILE_SET,   /* C = A B */
    TILE_ADD,   /* C += A B */
    TILE_SCALE, /* C = diag(alpha) C + A B */
};

/* C[n_row, n_vec * VEC_W] from A[n_row, n_k], whose element (r, k) is a[r * a_row + k * a_k], and B[n_k, n_vec * VEC_W].
 * n_row, n_vec and mode are constants after inlining, so that the sums stay in registers. */
INLINE void tile(const int n_row, const int n_vec, int64_t n_k, const float *a, int64_t a_row, int64_t a_k,
                 const float *b, int64_t b_ld, float *c, int64_t c_ld, const enum tile_mode mode, const float *alpha)
{
    vf sum[ROWS][TILE_VEC];

    UNROLL for (int r = 0; r < n_row; r++) {
        UNROLL for (int w = 0; w < n_vec; w++) {
            sum[r][w] = mode == TILE_SET ? v_zero() : v_load(c + r * c_ld + w * VEC_W);
            if (mode == TILE_SCALE)
                sum[r][w] = v_mul(sum[r][w], v_set1(alpha[r]));
        }
    }
    for (int64_t k = 0; k < n_k; k++) {
        vf bv[TILE_VEC];

        UNROLL for (int w = 0; w < n_vec; w++)
            bv[w] = v_load(b + w * VEC_W);
        UNROLL for (int r = 0; r < n_row; r++) {
            vf av = v_set1(a[r * a_row]);

            UNROLL for (int w = 0; w < n_vec; w++)
                sum[r][w] = v_fma(av, bv[w], sum[r][w]);
        }
        a += a_k;
        b += b_ld;
    }
    UNROLL for (int r = 0; r < n_row; r++) {
        UNROLL for (int w = 0; w < n_vec; w++)
            v_store(c + r * c_ld + w * VEC_W, sum[r][w]);
    }
}

/* The same for any number of vectors. */
INLINE void tile_row(const int n_row, int n_vec, int64_t n_k, const float *a, int64_t a_row, int64_t a_k,
                     const float *b, int64_t b_ld, float *c, int64_t c_ld, const enum tile_mode mode,
                     const float *alpha)
{
    for (; n_vec >= TILE_VEC; n_vec -= TILE_VEC) {
        tile(n_row, TILE_VEC, n_k, a, a_row, a_k, b, b_ld, c, c_ld, mode, alpha);
        b += TILE_VEC * VEC_W;
        c += TILE_VEC * VEC_W;
    }
    switch (n_vec) {
    case 1:
        tile(n_row, 1, n_k, a, a_row, a_k, b, b_ld, c, c_ld, mode, alpha);
        break;
#if TILE_VEC > 2
    case 2:
        tile(n_row, 2, n_k, a, a_row, a_k, b, b_ld, c, c_ld, mode, alpha);
        break;
    case 3:
        tile(n_row, 3, n_k, a, a_row, a_k, b, b_ld, c, c_ld, mode, alpha);
        break;
#endif
    }
}

/* s[ROWS, KEYS] = x[ROWS, head_dim] yt[head_dim, KEYS], the first n_vec vectors of each row: scores. */
NOINLINE void tile_scores(int n_vec, int head_dim, const float *x, int64_t ld_x, const float *yt, float *s)
{
    tile_row(ROWS, n_vec, head_dim, x, ld_x, 1, yt, KEYS, s, KEYS, TILE_SET, NULL);
}

/* o[ROWS, ld] = diag(alpha) o + p[ROWS, n_key of KEYS] v[n_key, ld]. */
NOINLINE void tile_weighted(int64_t n_key, const float *p, const float *v, int ld, float *o, const float *alpha)
{
    tile_row(ROWS, ld / VEC_W, n_key, p, KEYS, 1, v, ld, o, ld, TILE_SCALE, alpha);
}

/* dq[ROWS, ld] += ds[ROWS, n_key of KEYS] k[n_key, ld]. */
NOINLINE void tile_query_grad(int64_t n_key, const float *ds, const float *k, int ld, float *dq)
{
    tile_row(ROWS, ld / VEC_W, n_key, ds, KEYS, 1, k, ld, dq, ld, TILE_ADD, NULL);
}

/* dk[n_row, ld] += columns 0 .. n_row - 1 of ds[n_q, KEYS], transposed, times q[n_q, ld]; n_row is ROWS or KEYS % ROWS. */
NOINLINE void tile_key_grad(int n_row, int64_t n_q, const float *ds, const float *q, int ld, float *dk)
{
    if (n_row == ROWS)
        tile_row(ROWS, ld / VEC_W, n_q, ds, 1, KEYS, q, ld, dk, ld, TILE_ADD, NULL);
    else
        tile_row(KEYS % ROWS, ld / VEC_W, n_q, ds, 1, KEYS, q, ld, dk, ld, TILE_ADD, NULL);
}

/* Rows x[n, d] with stride ld_x to y[n_pad, ld], times scale, with zeros around. */
INLINE void pack_rows(const float *x, int64_t ld_x, int64_t n, int d, float scale, float *y, int64_t n_pad, int ld)
{
    vf s = v_set1(scale);

    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < d; c += VEC_W)
            v_store(y + i * ld + c, v_mul(s, v_load_n(x + i * ld_x + c, d - c)));
    }
    memset(y + n * ld, 0, (n_pad - n) * ld * sizeof *y);
}

/* Rows x[n, d], n at most KEYS, to their transpose y[d, KEYS], zero where there is no row. */
static void pack_transposed(const float *x, int64_t ld_x, int64_t n, int d, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < d; c++)
            y[c * KEYS + i] = x[i * ld_x + c];
    }
    for (int c = 0; n < KEYS && c < d; c++)
        memset(y + c * KEYS + n, 0, (KEYS - n) * sizeof *y);
}

/* x += scale * y for rows [n, d]. */
INLINE void unpack_add(float *x, int64_t ld_x, int64_t n, int d, float scale, const float *y, int ld)
{
    vf s = v_set1(scale);

    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < d; c += VEC_W) {
            float *p = x + i * ld_x + c;

            v_store_n(p, d - c, v_fma(s, v_load(y + i * ld + c), v_load_n(p, d - c)));
        }
    }
}

/* Counts work and calls the progress function each POLL_FLOP. */
struct ticker {
    const struct zep_progress *pr;
    int64_t left;
};

INLINE struct ticker ticker_start(const struct zep_progress *pr)
{
    return (struct ticker){ pr && pr->poll ? pr : NULL, POLL_FLOP };
}

INLINE void tick(struct ticker *t, int64_t flop)
{
    t->left -= flop;
    if (t->left > 0)
        return;
    t->left = POLL_FLOP;
    if (t->pr)
        t->pr->poll(t->pr->arg);
}

#endif
