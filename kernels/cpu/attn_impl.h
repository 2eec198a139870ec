/* Attention of one causal block, forward; compiled once per instruction set.
 *
 * Keys are taken in spans that stay in the second-level cache: K transposed in panels of KEYS, V as rows, both packed
 * once per span and key head and used by all query heads of the group. A block of queries runs over the span with an
 * online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) in base 2, and is then merged into o and lse. */
#include "config.h"
#include "kernels/cpu/cpu.h"

#include <math.h>

#include "kernels/cpu/tile_impl.h"

#define QUERIES 192                 /* queries of a block: their q and o stay in the second-level cache */
#define SPAN_FLOATS 65536           /* keys of a span times head_dim */
#define SCORE_MIN (-3.0e38f)        /* the maximum over nothing, finite so that differences stay numbers */
#define HEAD_DIM_MAX 256
#define KEY_VEC (KEYS / VEC_W)
#define LINE 16                     /* floats of a cache line */

static const float log2_e = 1.44269504088896341f;
static const double ln_2 = 0.693147180559945309;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* The next n floats of the scratch memory at *at; with base NULL only the size is counted. */
static float *carve(float *base, size_t *at, int64_t n)
{
    float *p = base ? base + *at : NULL;

    *at += (size_t)round_up(n, LINE);
    return p;
}

static int check_attn(const struct zep_attn *a, struct zep_error *err)
{
    if (a->head_dim <= 0 || a->head_dim % 8 || a->head_dim > HEAD_DIM_MAX)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "attention: head_dim '%d': expected a multiple of 8 up to %d",
                             a->head_dim, HEAD_DIM_MAX);
    if (a->n_head <= 0 || a->n_head_kv <= 0 || a->n_head % a->n_head_kv)
        return zep_error_set(err, ZEP_EINVAL, "attention: %d query heads: expected a multiple of the %d key heads",
                             a->n_head, a->n_head_kv);
    return ZEP_OK;
}

/* The number of leading keys that any query of the block sees. */
static int64_t visible_keys(const struct zep_attn *a)
{
    int64_t n = a->q_pos + a->n_q - a->kv_pos;

    return a->n_q <= 0 || n <= 0 ? 0 : min64(n, a->n_kv);
}

/* Keys of a span of which each takes head_dim floats of `floats`. */
static int64_t span_keys(int64_t floats, int head_dim, int64_t n_key)
{
    int64_t n = floats / head_dim / KEYS * KEYS;

    return min64(n < KEYS ? KEYS : n, round_up(n_key, KEYS));
}

struct fwd {
    const struct zep_attn *a;
    int ld;           /* head_dim rounded up to whole vectors */
    int64_t span;     /* keys of a span */
    float *kt, *v;    /* [span / KEYS][head_dim][KEYS], [span][ld] */
    float *q, *o;     /* [QUERIES][ld]; q times scale * log2(e), o not normalised */
    float *max, *sum; /* [QUERIES + LINE] running maximum, [QUERIES][VEC_W] running sum by lane */
    float *s;         /* [ROWS][KEYS] scores, then weights */
};

static size_t fwd_carve(struct fwd *f, float *base)
{
    int64_t n_q = min64(round_up(f->a->n_q, ROWS), QUERIES);
    size_t n = 0;

    f->kt = carve(base, &n, f->span * f->a->head_dim);
    f->v = carve(base, &n, f->span * f->ld);
    f->q = carve(base, &n, n_q * f->ld);
    f->o = carve(base, &n, n_q * f->ld);
    f->max = carve(base, &n, n_q + LINE);
    f->sum = carve(base, &n, n_q * VEC_W);
    f->s = carve(base, &n, ROWS * KEYS);
    return n;
}

/* One step of the online softmax on ROWS rows of scores. Row r sees the columns below seen + r, at most n_key of them;
 * n_vec vectors of each row are there; all is set where every row sees all KEYS. alpha: what older sums are worth now. */
INLINE void softmax_step(const int all, int n_vec, int64_t seen, int64_t n_key, float *s, float *max, float *sum,
                         float *alpha)
{
    if (all)
        n_vec = KEY_VEC;
    for (int r = 0; r < LINE; r++)
        alpha[r] = 0;
    for (int r = 0; r < ROWS; r++) {
        int64_t lim = min64(seen + r, n_key);
        vf x = v_set1(SCORE_MIN);
        float m;

        UNROLL for (int w = 0; w < n_vec; w++) {
            vf y = v_load(s + r * KEYS + w * VEC_W);

            x = v_max(x, all ? y : v_select(v_first(lim - w * VEC_W), y, v_set1(SCORE_MIN)));
        }
        m = v_hmax(x);
        m = m > max[r] ? m : max[r];
        alpha[r] = max[r] - m;
        max[r] = m;
    }
    for (int r = 0; r < ROWS; r += VEC_W)
        v_store(alpha + r, v_exp2(v_load(alpha + r)));
    for (int r = 0; r < ROWS; r++) {
        int64_t lim = min64(seen + r, n_key);
        vf m = v_set1(max[r]), l = v_mul(v_load(sum + r * VEC_W), v_set1(alpha[r]));

        UNROLL for (int w = 0; w < n_vec; w++) {
            vf e = v_exp2(v_sub(v_load(s + r * KEYS + w * VEC_W), m));

            if (!all)
                e = v_select(v_first(lim - w * VEC_W), e, v_zero());
            v_store(s + r * KEYS + w * VEC_W, e);
            l = v_add(l, e);
        }
        v_store(sum + r * VEC_W, l);
    }
}

NOINLINE void softmax_step_all(float *s, float *max, float *sum, float *alpha)
{
    softmax_step(1, KEY_VEC, KEYS, KEYS, s, max, sum, alpha);
}

NOINLINE void softmax_step_part(int n_vec, int64_t seen, int64_t n_key, float *s, float *max, float *sum, float *alpha)
{
    softmax_step(0, n_vec, seen, n_key, s, max, sum, alpha);
}

/* The n_q packed queries, of which the first has position pos, against n_key keys of one panel from position key_pos. */
static void fwd_panel(const struct fwd *f, int64_t n_q, int64_t pos, int64_t panel, int64_t n_key, int64_t key_pos,
                      struct ticker *t)
{
    const float *kt = f->kt + panel * KEYS * f->a->head_dim, *v = f->v + panel * KEYS * f->ld;
    int64_t first = key_pos > pos ? (key_pos - pos) / ROWS * ROWS : 0;
    float alpha[LINE];

    for (int64_t g = first; g < n_q; g += ROWS) {
        int64_t seen = pos + g - key_pos + 1, n_col = min64(seen + ROWS - 1, n_key);
        int n_vec = (int)((n_col + VEC_W - 1) / VEC_W);

        tile_scores(n_vec, f->a->head_dim, f->q + g * f->ld, f->ld, kt, f->s);
        if (seen >= KEYS && n_key == KEYS)
            softmax_step_all(f->s, f->max + g, f->sum + g * VEC_W, alpha);
        else
            softmax_step_part(n_vec, seen, n_key, f->s, f->max + g, f->sum + g * VEC_W, alpha);
        tile_weighted(n_col, f->s, v, f->ld, f->o + g * f->ld, alpha);
        tick(t, 4 * ROWS * n_col * f->ld);
    }
}

/* Merges a row's sums (o over weights relative to 2^max, their sum) into its normalised o and lse. The larger part has
 * weight 1 and the smaller e^-gap, so that any gap is fine, also the infinite one to a row that has seen nothing. */
static void merge_row(const float *acc, float max, float sum, int d, float *o, float *lse)
{
    float add = (float)((max + log2(sum)) * ln_2), gap = add - *lse, w = expf(-fabsf(gap)), total = 1 + w;
    vf keep = v_set1((gap > 0 ? w : 1) / total), take = v_set1((gap > 0 ? 1 : w) / (total * sum));

    *lse = (gap > 0 ? add : *lse) + log1pf(w);
    for (int c = 0; c < d; c += VEC_W) {
        vf x = v_mul(take, v_load(acc + c));

        v_store_n(o + c, d - c, v_fma(keep, v_load_n(o + c, d - c), x));
    }
}

/* Queries q0 .. q0 + n_q - 1 of one head against the packed span of n_key keys from position key_pos. */
static void fwd_block(const struct fwd *f, int head, int64_t q0, int64_t n_q, int64_t n_key, int64_t key_pos, float *o,
                      int64_t ld_o, float *lse, struct ticker *t)
{
    const struct zep_attn *a = f->a;
    int64_t n_pad = round_up(n_q, ROWS), pos = a->q_pos + q0;

    pack_rows(a->q + q0 * a->ld_q + head * a->head_dim, a->ld_q, n_q, a->head_dim, a->scale * log2_e, f->q, n_pad,
              f->ld);
    memset(f->o, 0, n_pad * f->ld * sizeof *f->o);
    memset(f->sum, 0, n_pad * VEC_W * sizeof *f->sum);
    for (int64_t i = 0; i < n_pad; i++)
        f->max[i] = SCORE_MIN;
    for (int64_t k = 0; k < n_key && key_pos + k < pos + n_q; k += KEYS)
        fwd_panel(f, n_pad, pos, k / KEYS, min64(n_key - k, KEYS), key_pos + k, t);
    for (int64_t i = 0; i < n_q; i++) {
        if (key_pos <= pos + i)
            merge_row(f->o + i * f->ld, f->max[i], v_sum(v_load(f->sum + i * VEC_W)), a->head_dim,
                      o + (q0 + i) * ld_o + head * a->head_dim, lse + (q0 + i) * a->n_head + head);
    }
}

int ISA_FN(zep_attn_fwd)(const struct zep_attn *a, float *o, int64_t ld_o, float *lse, const struct zep_progress *pr,
                         struct zep_error *err)
{
    struct fwd f = { .a = a };
    struct ticker t = ticker_start(pr);
    int64_t n_key = visible_keys(a);
    float *base;
    int rc;

    if ((rc = check_attn(a, err)) < 0)
        return rc;
    if (!n_key)
        return ZEP_OK;
    f.ld = (int)round_up(a->head_dim, VEC_W);
    f.span = span_keys(SPAN_FLOATS, a->head_dim, n_key);
    if (!(base = zep_cpu_scratch(fwd_carve(&f, NULL))))
        return zep_error_nomem(err, "attention");
    fwd_carve(&f, base);
    for (int kvh = 0; kvh < a->n_head_kv; kvh++) {
        int group = a->n_head / a->n_head_kv;

        for (int64_t s = 0; s < n_key; s += f.span) {
            int64_t n = min64(n_key - s, f.span), key_pos = a->kv_pos + s;
            int64_t first = key_pos > a->q_pos ? key_pos - a->q_pos : 0;

            for (int64_t k = 0; k < n; k += KEYS) {
                int64_t m = min64(n - k, KEYS), at = (s + k) * a->ld_kv + kvh * a->head_dim;

                pack_transposed(a->k + at, a->ld_kv, m, a->head_dim, f.kt + k * a->head_dim);
                pack_rows(a->v + at, a->ld_kv, m, a->head_dim, 1, f.v + k * f.ld, m, f.ld);
                tick(&t, 64 * m * a->head_dim);
            }
            for (int h = kvh * group; h < (kvh + 1) * group; h++) {
                for (int64_t q = first; q < a->n_q; q += QUERIES)
                    fwd_block(&f, h, q, min64(a->n_q - q, QUERIES), n, key_pos, o, ld_o, lse, &t);
            }
        }
    }
    return ZEP_OK;
}
