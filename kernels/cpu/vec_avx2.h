/* AVX2 + FMA vectors of 8 floats; the same names as in vec_avx512.h and vec_plain.h. */
#ifndef ZEP_KERNELS_CPU_VEC_AVX2_H
#define ZEP_KERNELS_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define ISA_NAME "avx2"
#define ISA_FN(name) name##_avx2
#define VEC_W 8
#define TILE_VEC 2               /* 6 x 2 sums, 2 of B and 1 of A fit 16 registers */
#define POLL_FLOP (4 * 1000000) /* about 100 us of work between two polls */

#define INLINE static inline __attribute__((always_inline))

typedef __m256 vf;
typedef __m256i vm;

INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
INLINE vf v_set1(float x) { return _mm256_set1_ps(x); }
INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); } /* b where either is NaN */
INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }

INLINE float v_sum(vf a)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

INLINE float v_hmax(vf a)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* The lanes below c; c may be negative or above VEC_W. */
INLINE vm v_first(int64_t c)
{
    int n = c > VEC_W ? VEC_W : c < 0 ? 0 : (int)c;

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vf v_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m)); }
INLINE vf v_load_first(const float *p, int c) { return _mm256_maskload_ps(p, v_first(c)); }
INLINE void v_store_first(float *p, int c, vf a) { _mm256_maskstore_ps(p, v_first(c), a); }

/* p * 2^n for the integer n in the low bits of the float t = 1.5 * 2^23 + n. */
INLINE vf v_scale2(vf p, vf t)
{
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}

#endif
