/* What the tests of kernels share: seeded numbers and comparison with a double reference. */
#ifndef ZEP_TESTS_UNIT_KERNELS_TEST_H
#define ZEP_TESTS_UNIT_KERNELS_TEST_H

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static uint64_t test_seed = 1;

/* About normal: mean 0, variance 1. */
static inline float random_float(void)
{
    double s = 0;

    for (int i = 0; i < 6; i++) {
        test_seed = test_seed * 6364136223846793005u + 1442695040888963407u;
        s += (double)(test_seed >> 40) / (double)(1 << 24);
    }
    return (float)((s - 3) * 1.41421356);
}

/* n floats, exactly as long as asked for, so that AddressSanitizer sees any access beyond. */
static inline float *random_new(int64_t n)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);

    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = random_float();
    return x;
}

static inline void *zero_new(int64_t n, size_t size)
{
    void *x = calloc((size_t)(n > 0 ? n : 1), size);

    ck_assert_ptr_nonnull(x);
    return x;
}

static inline float *copy_new(const float *x, int64_t n)
{
    float *y = zero_new(n, sizeof *y);

    memcpy(y, x, (size_t)n * sizeof *x);
    return y;
}

/* Rows of x [n, d], stride ld, against y [n, d]: no difference above bound times the largest |y|, or above bound itself
 * where that is smaller than 1. */
static inline void check_close(const char *what, const float *x, int64_t ld, const double *y, int64_t n, int64_t d,
                               double bound)
{
    double max = 1;

    for (int64_t i = 0; i < n * d; i++)
        max = fmax(max, isfinite(y[i]) ? fabs(y[i]) : 0);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < d; c++) {
            double a = x[i * ld + c], b = y[i * d + c];

            if (a == b)
                continue;
            if (!(fabs(a - b) <= bound * max)) /* an assertion writes to Check's pipe every time */
                ck_abort_msg("%s: element (%lld, %lld): %.9g, expected %.9g (largest %.3g)", what, (long long)i, (long long)c, a, b, max);
        }
    }
}

#endif
