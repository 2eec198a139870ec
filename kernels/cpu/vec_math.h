/* Exponentials on the vectors of vec_*.h. */
#ifndef ZEP_KERNELS_CPU_VEC_MATH_H
#define ZEP_KERNELS_CPU_VEC_MATH_H

#define ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
/* Below 2^-100 there is nothing to add to a sum that is at least 1, and products stay clear of slow denormals. */
#define EXP2_MIN (-100.0f)
#define EXP2_MAX 126.0f
#define LOG2E_HI 1.4426950216293335f /* log2(e) as a float, and what is missing */
#define LOG2E_LO 1.9259629911266175e-8f

/* 2^f for f in [-1/2, 1/2]: minimax polynomial of degree 5, relative error 7.2e-8. */
INLINE vf v_exp2_frac(vf f)
{
    vf p = v_set1(1.327642830e-3f);

    p = v_fma(p, f, v_set1(9.675540985e-3f));
    p = v_fma(p, f, v_set1(5.550713409e-2f));
    p = v_fma(p, f, v_set1(2.402211973e-1f));
    p = v_fma(p, f, v_set1(6.931469670e-1f));
    return v_fma(p, f, v_set1(1.000000072f));
}

/* 2^x for x below 128; NaN stays NaN. */
INLINE vf v_exp2(vf x)
{
    vf t, f;

    x = v_max(v_set1(EXP2_MIN), x);
    t = v_add(x, v_set1(ROUND_MAGIC));
    f = v_sub(x, v_sub(t, v_set1(ROUND_MAGIC)));
    return v_scale2(v_exp2_frac(f), t);
}

/* e^x, between 2^-100 and 2^126; NaN stays NaN. */
INLINE vf v_exp(vf x)
{
    vf t, n, f;

    x = v_max(v_set1(EXP2_MIN / LOG2E_HI), v_min(v_set1(EXP2_MAX / LOG2E_HI), x));
    t = v_fma(x, v_set1(LOG2E_HI), v_set1(ROUND_MAGIC));
    n = v_sub(v_set1(0.0f), v_sub(t, v_set1(ROUND_MAGIC)));
    f = v_fma(x, v_set1(LOG2E_LO), v_fma(x, v_set1(LOG2E_HI), n));
    return v_scale2(v_exp2_frac(f), t);
}

INLINE vf v_load_n(const float *p, int c) { return c >= VEC_W ? v_load(p) : v_load_first(p, c); }

INLINE void v_store_n(float *p, int c, vf a)
{
    if (c >= VEC_W)
        v_store(p, a);
    else
        v_store_first(p, c, a);
}

#endif
