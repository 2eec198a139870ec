#include "config.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* Fastest first. A processor that has one set has all that follow, so what runs here is a tail of this list. */
static const struct zep_kernels *const list[] = {
#if HAVE_X86SIMD
    &zep_kernels_avx512,
    &zep_kernels_avx2,
#endif
    &zep_kernels_plain,
    NULL,
};

static const char *const known[] = { "plain", "avx2", "avx512" };

static const struct zep_kernels *const *runnable(void)
{
#if HAVE_X86SIMD
    int avx2, avx512;

    __builtin_cpu_init();
    avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return avx512 ? list : avx2 ? list + 1 : list + 2;
#else
    return list;
#endif
}

static const struct zep_kernels *find(const struct zep_kernels *const *k, const char *name)
{
    while (*k && strcmp((*k)->name, name))
        k++;
    return *k;
}

static int is_known(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(known[i], name))
            return 1;
    }
    return 0;
}

int zep_kernels_select(const struct zep_kernels **k_out, struct zep_error *err)
{
    const char *name = getenv("ZEPPELIN_CPU");
    const struct zep_kernels *k;

    if (!name || !*name) {
        *k_out = *runnable();
        return ZEP_OK;
    }
    if (!is_known(name))
        return zep_error_set(err, ZEP_EINVAL, "ZEPPELIN_CPU '%s': expected plain, avx2 or avx512", name);
    if (!find(list, name))
        return zep_error_set(err, ZEP_EUNAVAIL, "ZEPPELIN_CPU '%s': not built", name);
    if (!(k = find(runnable(), name)))
        return zep_error_set(err, ZEP_EUNAVAIL, "ZEPPELIN_CPU '%s': this processor lacks it", name);
    *k_out = k;
    return ZEP_OK;
}

const struct zep_kernels *const *zep_kernels_all(void)
{
    return runnable();
}

void zep_rope_table(int64_t max_pos, int head_dim, double theta, float *table)
{
    int half = head_dim / 2;

    for (int i = 0; i < half; i++) {
        double freq = pow(theta, -2.0 * i / head_dim);

        for (int64_t p = 0; p < max_pos; p++) {
            table[p * head_dim + i] = (float)cos((double)p * freq);
            table[p * head_dim + half + i] = (float)sin((double)p * freq);
        }
    }
}
