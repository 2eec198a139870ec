/* Speed of the CPU kernels as shares of the fused multiply-add peak that is measured in the same run.
 * usage: bench_kernels [n_tok [seconds per figure]] */
#include "config.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *random_floats(int64_t n)
{
    float *x = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    uint64_t s = 88172645463325252u;

    if (!x)
        exit(1);
    for (int64_t i = 0; i < n; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        x[i] = (float)(int64_t)(s >> 40) / 8388608.0f - 1.0f;
    }
    return x;
}

#if HAVE_X86SIMD
/* 12 chains of independent fused multiply-adds, n times; more than latency x ports of any processor so far. */
#define PEAK(name, isa, width)                                                             \
    __attribute__((target(isa), noinline)) static float name(int64_t n)                   \
    {                                                                                     \
        typedef float vec __attribute__((vector_size(width * 4)));                        \
        vec s[12], a, b;                                                                  \
        float r = 0;                                                                      \
                                                                                          \
        for (int l = 0; l < width; l++)                                                   \
            a[l] = 0.999f, b[l] = 0.001f;                                                 \
        for (int c = 0; c < 12; c++)                                                      \
            s[c] = b * (float)c;                                                          \
        for (int64_t i = 0; i < n; i++) {                                                 \
            _Pragma("GCC unroll 12") for (int c = 0; c < 12; c++) s[c] = s[c] * a + b;    \
        }                                                                                 \
        for (int c = 0; c < 12; c++)                                                      \
            r += s[c][0];                                                                 \
        return r;                                                                         \
    }

PEAK(peak_avx512, "avx512f,fma", 16)
PEAK(peak_avx2, "avx2,fma", 8)

static double peak_gflop_s(void)
{
    int wide = __builtin_cpu_supports("avx512f");
    int64_t n = 10 * 1000 * 1000;
    double best = 0;
    volatile float sink;

    for (int r = 0; r < 3; r++) {
        double t = now_s(), speed;

        sink = wide ? peak_avx512(n) : peak_avx2(n);
        speed = 2.0 * 12 * (wide ? 16 : 8) * (double)n / (now_s() - t) * 1e-9;
        best = speed > best ? speed : best;
    }
    (void)sink;
    return best;
}
#else
static double peak_gflop_s(void)
{
    return 0; /* not known here */
}
#endif

struct bench {
    const struct zep_kernels *k;
    struct zep_attn a;
    float *o, *lse, *d_o, *delta, *dq, *dk, *dv;
    int64_t polls;
    double last_poll_s, max_gap_s;
};

static void poll_gap(void *arg)
{
    struct bench *b = arg;
    double t = now_s();

    b->polls++;
    if (t - b->last_poll_s > b->max_gap_s)
        b->max_gap_s = t - b->last_poll_s;
    b->last_poll_s = t;
}

static void check(int rc, const struct zep_error *err)
{
    if (rc < 0) {
        fprintf(stderr, "bench_kernels: %s\n", err->text);
        exit(1);
    }
}

static void bench_attn(const struct zep_kernels *k, int64_t n, int head_dim, double time_s, double peak)
{
    struct bench b = { .k = k };
    struct zep_progress pr = { poll_gap, &b };
    struct zep_error err;
    int64_t size = n * head_dim;
    int runs = 0;
    double flop = 2.0 * (double)n * (double)n * head_dim, best[2] = { INFINITY, INFINITY };

    b.a = (struct zep_attn){ 1, 1, head_dim, 1.0f / sqrtf((float)head_dim), n, n, 0, 0, random_floats(size), head_dim,
                             random_floats(size), random_floats(size), head_dim };
    b.o = random_floats(size), b.d_o = random_floats(size), b.lse = random_floats(n), b.delta = random_floats(n);
    b.dq = random_floats(size), b.dk = random_floats(size), b.dv = random_floats(size);
    for (double start = now_s(); now_s() - start < time_s;) {
        double t0, t1;

        for (int64_t i = 0; i < n; i++)
            b.lse[i] = -INFINITY;
        for (int64_t i = 0; i < size; i++)
            b.o[i] = 0;
        b.last_poll_s = t0 = now_s();
        check(k->attn_fwd(&b.a, b.o, head_dim, b.lse, &pr, &err), &err);
        t1 = now_s();
        best[0] = fmin(best[0], t1 - t0);
        k->attn_delta(n, 1, head_dim, b.o, head_dim, b.d_o, head_dim, b.delta);
        b.last_poll_s = t0 = now_s();
        check(k->attn_bwd(&b.a, b.d_o, head_dim, b.lse, b.delta, b.dq, head_dim, b.dk, b.dv, head_dim, &pr, &err), &err);
        t1 = now_s();
        best[1] = fmin(best[1], t1 - t0);
        if (!runs++)
            b.max_gap_s = 0; /* the first run touches fresh memory */
    }
    printf("%-8s head_dim %-4d attention forward %6.1f GFLOP/s (%3.0f %%)  backward %6.1f GFLOP/s (%3.0f %%)  longest time "
           "between polls %.0f us\n",
           k->name, head_dim, flop / best[0] * 1e-9, flop / best[0] * 1e-7 / peak, 2.5 * flop / best[1] * 1e-9,
           2.5 * flop / best[1] * 1e-7 / peak, b.max_gap_s * 1e6);
    free((void *)b.a.q), free((void *)b.a.k), free((void *)b.a.v), free(b.o), free(b.d_o), free(b.lse), free(b.delta);
    free(b.dq), free(b.dk), free(b.dv);
}

static void bench_gemm(int64_t m, int64_t n, int64_t k, int ta, int tb, double time_s, double peak)
{
    float *a = random_floats(m * k), *b = random_floats(k * n), *c = random_floats(m * n);
    struct bench gap = { 0 };
    struct zep_progress pr = { poll_gap, &gap };
    struct zep_error err;
    int runs = 0;
    double best = INFINITY, flop = 2.0 * (double)m * (double)n * (double)k;

    for (double start = now_s(); now_s() - start < time_s;) {
        double t = gap.last_poll_s = now_s();

        check(zep_gemm(ta, tb, m, n, k, 1, a, ta ? m : k, b, tb ? k : n, 0, c, n, &pr, &err), &err);
        best = fmin(best, now_s() - t);
        if (!runs++)
            gap.max_gap_s = 0; /* oneDNN makes its code in the first run */
    }
    printf("%-8s gemm %c%c %lld x %lld x %lld: %6.1f GFLOP/s (%3.0f %%)  longest time between polls %.0f us\n",
           zep_gemm_name(), ta ? 'T' : 'N', tb ? 'T' : 'N', (long long)m, (long long)n, (long long)k,
           flop / best * 1e-9, flop / best * 1e-7 / peak, gap.max_gap_s * 1e6);
    free(a), free(b), free(c);
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? atoll(argv[1]) : 4096;
    double time_s = argc > 2 ? atof(argv[2]) : 0.5, peak = peak_gflop_s();
    static const int dims[] = { 32, 64, 128 };

    if (n < 1) {
        fprintf(stderr, "bench_kernels: n_tok '%s': expected a number of at least 1\n", argv[1]);
        return 2;
    }
    printf("peak     fused multiply-add %.1f GFLOP/s on one core\n", peak);
    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            bench_attn(*k, n, dims[d], time_s, peak);
    }
    bench_gemm(1024, 256, 256, 0, 0, time_s, peak);
    bench_gemm(1024, 256, 256, 0, 1, time_s, peak);
    bench_gemm(256, 256, 1024, 1, 0, time_s, peak);
    bench_gemm(1024, 256, 683, 0, 1, time_s, peak);
    bench_gemm(1024, 683, 256, 0, 1, time_s, peak);
    bench_gemm(2048, 2048, 2048, 0, 0, time_s, peak);
    bench_gemm(2048, 2048, 2048, 0, 1, time_s, peak);
    return 0;
}
