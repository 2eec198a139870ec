/* The operations beside attention and the table of them all; compiled once per instruction set. */
#include "config.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/vec_math.h"

/* A loop over n elements, VEC_W at a time: i is the index and c, a constant in all but the last turn, what is left. */
#define FOR_VECTORS(n, body)                    \
    do {                                        \
        int64_t i = 0;                          \
        for (; i + VEC_W <= (n); i += VEC_W) {  \
            enum { c = VEC_W };                 \
            body                                \
        }                                       \
        if (i < (n)) {                          \
            int c = (int)((n) - i);             \
            body                                \
        }                                       \
    } while (0)

static float dot3(int d, const float *x, const float *y, const float *z)
{
    vf s = v_zero();

    FOR_VECTORS(d, { s = v_fma(v_mul(v_load_n(x + i, c), v_load_n(y + i, c)), v_load_n(z + i, c), s); });
    return v_sum(s);
}

static void rmsnorm_fwd(int64_t n, int d, const float *x, const float *w, float eps, float *y, float *rstd)
{
    for (int64_t row = 0; row < n; row++, x += d, y += d) {
        vf s = v_zero(), r;

        FOR_VECTORS(d, {
            vf a = v_load_n(x + i, c);

            s = v_fma(a, a, s);
        });
        rstd[row] = 1.0f / sqrtf(v_sum(s) / d + eps);
        r = v_set1(rstd[row]);
        FOR_VECTORS(d, { v_store_n(y + i, c, v_mul(v_mul(v_load_n(x + i, c), r), v_load_n(w + i, c))); });
    }
}

/* With g = dy * w and r = rstd: dx = r g - x r^3 mean(g x), dw = sum over rows of dy x r. */
static void rmsnorm_bwd(int64_t n, int d, const float *x, const float *w, const float *rstd, const float *dy, float *dx,
                        float *dw)
{
    for (int64_t row = 0; row < n; row++, x += d, dy += d, dx += d) {
        float r = rstd[row], mean = dot3(d, dy, w, x) / d;
        vf rv = v_set1(r), k = v_set1(-r * r * r * mean);

        FOR_VECTORS(d, {
            vf g = v_mul(v_load_n(dy + i, c), rv);
            vf xv = v_load_n(x + i, c);

            v_store_n(dx + i, c, v_add(v_load_n(dx + i, c), v_fma(g, v_load_n(w + i, c), v_mul(xv, k))));
            v_store_n(dw + i, c, v_fma(g, xv, v_load_n(dw + i, c)));
        });
    }
}

static void rope(int64_t n, int n_head, int head_dim, float *x, int64_t ld, const int32_t *pos, const float *table,
                 int sign)
{
    int half = head_dim / 2;
    vf sg = v_set1(sign < 0 ? -1.0f : 1.0f);

    for (int64_t row = 0; row < n; row++) {
        const float *cs = table + (int64_t)pos[row] * head_dim, *sn = cs + half;

        for (int h = 0; h < n_head; h++) {
            float *lo = x + row * ld + (int64_t)h * head_dim, *hi = lo + half;

            FOR_VECTORS(half, {
                vf a = v_load_n(lo + i, c);
                vf b = v_load_n(hi + i, c);
                vf co = v_load_n(cs + i, c);
                vf si = v_mul(sg, v_load_n(sn + i, c));

                v_store_n(lo + i, c, v_sub(v_mul(a, co), v_mul(b, si)));
                v_store_n(hi + i, c, v_fma(a, si, v_mul(b, co)));
            });
        }
    }
}

INLINE vf sigmoid(vf g)
{
    vf one = v_set1(1.0f);

    return v_div(one, v_add(one, v_exp(v_sub(v_zero(), g))));
}

static void swiglu_fwd(int64_t n, const float *g, const float *u, float *y)
{
    FOR_VECTORS(n, {
        vf a = v_load_n(g + i, c);

        v_store_n(y + i, c, v_mul(v_mul(a, sigmoid(a)), v_load_n(u + i, c)));
    });
}

/* With s = sigmoid(g): dg = dy u s (1 + g (1 - s)), du = dy g s. */
static void swiglu_bwd(int64_t n, const float *g, const float *u, const float *dy, float *dg, float *du)
{
    vf one = v_set1(1.0f);

    FOR_VECTORS(n, {
        vf a = v_load_n(g + i, c);
        vf b = v_load_n(u + i, c);
        vf dys = v_load_n(dy + i, c);
        vf s = sigmoid(a);

        dys = v_mul(dys, s);
        v_store_n(dg + i, c, v_mul(v_mul(dys, b), v_fma(a, v_sub(one, s), one)));
        v_store_n(du + i, c, v_mul(dys, a));
    });
}

static float row_max(int n, const float *x)
{
    vf m = v_set1(-INFINITY);

    FOR_VECTORS(n, { m = v_max(m, v_select(v_first(c), v_load_n(x + i, c), v_set1(-INFINITY))); });
    return v_hmax(m);
}

#define SUM_RUN 4096 /* summed in float before the double sum takes over */

/* The sum of exp(x - max), and the terms themselves into e unless that is NULL. */
static double exp_sum(int n, const float *x, float max, float *e)
{
    vf m = v_set1(max);
    double total = 0;

    for (int at = 0; at < n; at += SUM_RUN) {
        int run = n - at < SUM_RUN ? n - at : SUM_RUN;
        vf s = v_zero();

        FOR_VECTORS(run, {
            vf y = v_select(v_first(c), v_exp(v_sub(v_load_n(x + at + i, c), m)), v_zero());

            if (e)
                v_store_n(e + at + i, c, y);
            s = v_add(s, y);
        });
        total += v_sum(s);
    }
    return total;
}

static double cross_entropy(int64_t n, int vocab, float *logits, const int32_t *target, float grad_scale)
{
    double loss = 0;

    for (int64_t row = 0; row < n; row++, logits += vocab) {
        int32_t t = target[row];
        float max, hit;
        double sum;
        vf k;

        if (t < 0) {
            if (grad_scale != 0)
                memset(logits, 0, (size_t)vocab * sizeof *logits);
            continue;
        }
        max = row_max(vocab, logits);
        hit = logits[t] - max;
        sum = exp_sum(vocab, logits, max, grad_scale != 0 ? logits : NULL);
        loss += log(sum) - hit;
        if (grad_scale == 0)
            continue;
        k = v_set1((float)(grad_scale / sum));
        FOR_VECTORS(vocab, { v_store_n(logits + i, c, v_mul(k, v_load_n(logits + i, c))); });
        logits[t] -= grad_scale;
    }
    return loss;
}

/* Loshchilov and Hutter 2019, algorithm 2 with a schedule of 1, decay multiplied by the learning rate. */
static void adamw(int64_t n, float *w, const float *g, float *m, float *v, float lr, float beta1, float beta2, float eps,
                  float decay, int64_t step, float g_scale)
{
    vf b1 = v_set1(beta1), b2 = v_set1(beta2), a1 = v_set1((float)(1.0 - beta1)), a2 = v_set1((float)(1.0 - beta2));
    vf m_fix = v_set1((float)(lr / (1.0 - pow(beta1, (double)step)))), ep = v_set1(eps), gs = v_set1(g_scale);
    vf v_fix = v_set1((float)(1.0 / (1.0 - pow(beta2, (double)step)))), keep = v_set1((float)(1.0 - (double)lr * decay));

    FOR_VECTORS(n, {
        vf gv = v_mul(gs, v_load_n(g + i, c));
        vf mv = v_fma(b1, v_load_n(m + i, c), v_mul(a1, gv));
        vf vv = v_fma(b2, v_load_n(v + i, c), v_mul(a2, v_mul(gv, gv)));
        vf by = v_div(v_mul(m_fix, mv), v_add(v_sqrt(v_mul(v_fix, vv)), ep));

        v_store_n(m + i, c, mv);
        v_store_n(v + i, c, vv);
        v_store_n(w + i, c, v_sub(v_mul(keep, v_load_n(w + i, c)), by));
    });
}

static void add(int64_t n, float *y, const float *x)
{
    FOR_VECTORS(n, { v_store_n(y + i, c, v_add(v_load_n(y + i, c), v_load_n(x + i, c))); });
}

/* The same 16 partial sums in every instruction set, so that the result is the same to the last bit. */
static double sumsq(int64_t n, const float *x)
{
    enum { PARTS = 16 };
    double part[PARTS] = { 0 }, total = 0;
    int64_t i = 0;

    for (; i + PARTS <= n; i += PARTS) {
        for (int p = 0; p < PARTS; p++)
            part[p] += (double)x[i + p] * x[i + p];
    }
    for (int p = 0; i < n; i++, p++)
        part[p] += (double)x[i] * x[i];
    for (int p = 0; p < PARTS; p++)
        total += part[p];
    return total;
}

const struct zep_kernels ISA_FN(zep_kernels) = {
    .name = ISA_NAME,
    .attn_fwd = ISA_FN(zep_attn_fwd),
    .attn_bwd = ISA_FN(zep_attn_bwd),
    .attn_delta = ISA_FN(zep_attn_delta),
    .rmsnorm_fwd = rmsnorm_fwd,
    .rmsnorm_bwd = rmsnorm_bwd,
    .rope = rope,
    .swiglu_fwd = swiglu_fwd,
    .swiglu_bwd = swiglu_bwd,
    .cross_entropy = cross_entropy,
    .adamw = adamw,
    .add = add,
    .sumsq = sumsq,
};
