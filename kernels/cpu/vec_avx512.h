/* AVX-512 vectors of 16 floats; the same names as in vec_avx2.h and vec_plain.h. */
#ifndef ZEP_KERNELS_CPU_VEC_AVX512_H
#define ZEP_KERNELS_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define ISA_NAME "avx512"
#define ISA_FN(name) name##_avx512
#define VEC_W 16
#define TILE_VEC 4               /* vectors per row of a register tile: 6 x 4 sums, 4 of B and 1 of A fit 32 registers */
#define POLL_FLOP (8 * 1000000) /* about 100 us of work between two polls */

#define INLINE static inline __attribute__((always_inline))

typedef __m512 vf;
typedef __mmask16 vm;

INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
INLINE vf v_set1(float x) { return _mm512_set1_ps(x); }
INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* b where either is NaN */
INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE float v_sum(vf a) { return _mm512_reduce_add_ps(a); }
INLINE float v_hmax(vf a) { return _mm512_reduce_max_ps(a); }

/* The lanes below c; c may be negative or above VEC_W. */
INLINE vm v_first(int64_t c)
{
    return c >= VEC_W ? 0xffff : c <= 0 ? 0 : (vm)((1u << c) - 1);
}

INLINE vf v_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
INLINE vf v_load_first(const float *p, int c) { return _mm512_maskz_loadu_ps(v_first(c), p); }
INLINE void v_store_first(float *p, int c, vf a) { _mm512_mask_storeu_ps(p, v_first(c), a); }

/* p * 2^n for the integer n in the low bits of the float t = 1.5 * 2^23 + n. */
INLINE vf v_scale2(vf p, vf t)
{
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

#endif
