/* Vectors of 4 floats in the compiler's own vector types, for every processor; the same names as in vec_avx512.h. */
#ifndef ZEP_KERNELS_CPU_VEC_PLAIN_H
#define ZEP_KERNELS_CPU_VEC_PLAIN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ISA_NAME "plain"
#define ISA_FN(name) name##_plain
#define VEC_W 4
#define TILE_VEC 2
#define POLL_FLOP 1000000 /* about 100 us of work between two polls */

#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

INLINE vf v_zero(void) { return (vf){ 0 }; }
INLINE vf v_set1(float x) { return (vf){ x, x, x, x }; }
INLINE vf v_load(const float *p) { vf a; memcpy(&a, p, sizeof a); return a; }
INLINE void v_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
INLINE vf v_add(vf a, vf b) { return a + b; }
INLINE vf v_sub(vf a, vf b) { return a - b; }
INLINE vf v_mul(vf a, vf b) { return a * b; }
INLINE vf v_div(vf a, vf b) { return a / b; }
INLINE vf v_sqrt(vf a) { return (vf){ sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3]) }; }
INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
INLINE vf v_select(vm m, vf a, vf b) { return (vf)(((vm)a & m) | ((vm)b & ~m)); }
INLINE vf v_max(vf a, vf b) { return v_select(a > b, a, b); } /* b where either is NaN */
INLINE vf v_min(vf a, vf b) { return v_select(a < b, a, b); }
INLINE float v_sum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }

INLINE float v_hmax(vf a)
{
    float x = a[0] > a[2] ? a[0] : a[2], y = a[1] > a[3] ? a[1] : a[3];

    return x > y ? x : y;
}

/* The lanes below c; c may be negative or above VEC_W. */
INLINE vm v_first(int64_t c)
{
    int32_t n = c > VEC_W ? VEC_W : c < 0 ? 0 : (int32_t)c;

    return (vm){ 0, 1, 2, 3 } < (vm){ n, n, n, n };
}

INLINE vf v_load_first(const float *p, int c)
{
    vf a = v_zero();

    memcpy(&a, p, (c < VEC_W ? c : VEC_W) * sizeof *p);
    return a;
}

INLINE void v_store_first(float *p, int c, vf a)
{
    memcpy(p, &a, (c < VEC_W ? c : VEC_W) * sizeof *p);
}

/* p * 2^n for the integer n in the low bits of the float t = 1.5 * 2^23 + n. */
INLINE vf v_scale2(vf p, vf t) { return (vf)((vu)p + ((vu)t << 23)); }

#endif
