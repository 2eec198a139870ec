/* What the instruction-set builds of the CPU kernels share. The functions of one set carry its name as a suffix. */
#ifndef ZEP_KERNELS_CPU_CPU_H
#define ZEP_KERNELS_CPU_CPU_H

#include <stddef.h>

#include "kernels/kernels.h"

#define ZEP_CPU_DECLARE(isa)                                                                                          \
    int zep_attn_fwd_##isa(const struct zep_attn *a, float *o, int64_t ld_o, float *lse, const struct zep_progress *pr, \
                           struct zep_error *err);                                                                    \
    int zep_attn_bwd_##isa(const struct zep_attn *a, const float *d_o, int64_t ld_do, const float *lse,               \
                           const float *delta, float *dq, int64_t ld_dq, float *dk, float *dv, int64_t ld_dkv,        \
                           const struct zep_progress *pr, struct zep_error *err);                                     \
    void zep_attn_delta_##isa(int64_t n, int n_head, int head_dim, const float *o, int64_t ld_o, const float *d_o,    \
                              int64_t ld_do, float *delta);                                                           \
    extern const struct zep_kernels zep_kernels_##isa

ZEP_CPU_DECLARE(plain);
ZEP_CPU_DECLARE(avx2);
ZEP_CPU_DECLARE(avx512);

/* Working memory of the calling thread, 64-byte aligned, not cleared. Kept and grown between calls and freed when the
 * thread ends; the next call may move it. NULL when out of memory. */
float *zep_cpu_scratch(size_t n_float);

#endif
