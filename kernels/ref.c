/* Attention in double precision by plain loops: what the kernels are tested against. */
#include "config.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>

struct ref {
    const struct zep_attn *a;
    const float *d_o;
    int64_t ld_do;
    double *p, *o; /* one row: weights [n_kv], output [head_dim] */
};

static double dot(int d, const float *x, const float *y)
{
    double s = 0;

    for (int c = 0; c < d; c++)
        s += (double)x[c] * y[c];
    return s;
}

/* Weights and output of query row i, head h; returns the lse. n keys are seen. */
static double row_forward(struct ref *r, int64_t i, int h, int64_t n)
{
    const struct zep_attn *a = r->a;
    int d = a->head_dim, kvh = h / (a->n_head / a->n_head_kv);
    double max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < n; j++) {
        r->p[j] = a->scale * dot(d, a->q + i * a->ld_q + h * d, a->k + j * a->ld_kv + kvh * d);
        max = fmax(max, r->p[j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += r->p[j] = exp(r->p[j] - max);
    for (int c = 0; c < d; c++)
        r->o[c] = 0;
    for (int64_t j = 0; j < n; j++) {
        r->p[j] /= sum;
        for (int c = 0; c < d; c++)
            r->o[c] += r->p[j] * a->v[j * a->ld_kv + kvh * d + c];
    }
    return n ? max + log(sum) : -INFINITY;
}

static void row_backward(struct ref *r, int64_t i, int h, int64_t n, double *dq, double *dk, double *dv)
{
    const struct zep_attn *a = r->a;
    int d = a->head_dim, kvh = h / (a->n_head / a->n_head_kv);
    const float *q = a->q + i * a->ld_q + h * d, *d_o = r->d_o + i * r->ld_do + h * d;
    double delta = 0;

    for (int c = 0; c < d; c++)
        delta += r->o[c] * d_o[c];
    for (int64_t j = 0; j < n; j++) {
        const float *k = a->k + j * a->ld_kv + kvh * d, *v = a->v + j * a->ld_kv + kvh * d;
        double ds = r->p[j] * (dot(d, d_o, v) - delta) * a->scale;

        for (int c = 0; c < d; c++) {
            if (dq)
                dq[(i * a->n_head + h) * d + c] += ds * k[c];
            if (dk)
                dk[(j * a->n_head_kv + kvh) * d + c] += ds * q[c];
            if (dv)
                dv[(j * a->n_head_kv + kvh) * d + c] += r->p[j] * d_o[c];
        }
    }
}

static void clear(double *x, int64_t n)
{
    for (int64_t i = 0; x && i < n; i++)
        x[i] = 0;
}

int zep_ref_attn(const struct zep_attn *a, const float *d_o, int64_t ld_do, double *o, double *lse, double *dq,
                 double *dk, double *dv, struct zep_error *err)
{
    int d = a->head_dim;
    struct ref r = { .a = a, .d_o = d_o, .ld_do = ld_do };

    if (!(r.p = calloc((size_t)a->n_kv + (size_t)d, sizeof *r.p)))
        return zep_error_nomem(err, "attention reference");
    r.o = r.p + a->n_kv;
    clear(dq, a->n_q * a->n_head * d);
    clear(dk, a->n_kv * a->n_head_kv * d);
    clear(dv, a->n_kv * a->n_head_kv * d);
    for (int64_t i = 0; i < a->n_q; i++) {
        int64_t n = a->q_pos + i - a->kv_pos + 1;

        n = n < 0 ? 0 : n > a->n_kv ? a->n_kv : n;
        for (int h = 0; h < a->n_head; h++) {
            double l = row_forward(&r, i, h, n);

            if (lse)
                lse[i * a->n_head + h] = l;
            for (int c = 0; o && c < d; c++)
                o[(i * a->n_head + h) * d + c] = r.o[c];
            if (d_o)
                row_backward(&r, i, h, n, dq, dk, dv);
        }
    }
    free(r.p);
    return ZEP_OK;
}
