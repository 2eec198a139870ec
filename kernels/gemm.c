/* Matrix products through a library, one thread, cut into slices so that the caller's progress function gets its turn. */
#include "config.h"
#include "kernels/kernels.h"

#include <string.h>

#if HAVE_DNNL
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#elif HAVE_OPENBLAS
#include <cblas.h>
#include <limits.h>
#endif

struct gemm {
    int ta, tb;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    int64_t lda, ldb, ldc;
    float *c;
};

/* C = beta C; what C held does not matter where beta is 0. */
static void scale_rows(const struct gemm *g)
{
    for (int64_t i = 0; i < g->m; i++) {
        float *c = g->c + i * g->ldc;

        if (g->beta == 0)
            memset(c, 0, (size_t)g->n * sizeof *c);
        else
            for (int64_t j = 0; j < g->n; j++)
                c[j] *= g->beta;
    }
}

#if HAVE_DNNL

#define SLICE_FLOP 12.0e6 /* 100 to 150 us */
#define NAME "oneDNN"

/* oneDNN asks OpenMP for the number of threads, and OpenMP reads OMP_NUM_THREADS before main starts; what counts then is
 * the calling thread's own setting. libgomp comes with oneDNN, where that was built with it. */
static pthread_once_t omp_once = PTHREAD_ONCE_INIT;
static void (*omp_set)(int);

static void find_omp(void)
{
    *(void **)&omp_set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
}

static void one_thread(void)
{
    pthread_once(&omp_once, find_omp);
    if (omp_set)
        omp_set(1);
}

static int product(const struct gemm *g, struct zep_error *err)
{
    dnnl_status_t rc;

    one_thread();
    rc = dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b, g->ldb,
                    g->beta, g->c, g->ldc);
    if (rc == dnnl_success)
        return ZEP_OK;
    if (rc == dnnl_out_of_memory)
        return zep_error_nomem(err, "oneDNN sgemm");
    return zep_error_set(err, ZEP_EINTERNAL, "oneDNN sgemm of %lld x %lld x %lld: status %d", (long long)g->m,
                         (long long)g->n, (long long)g->k, (int)rc);
}

#elif HAVE_OPENBLAS

#define SLICE_FLOP 12.0e6
#define NAME "OpenBLAS"

static int product(const struct gemm *g, struct zep_error *err)
{
    if (g->lda > INT_MAX || g->ldb > INT_MAX || g->ldc > INT_MAX || g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "OpenBLAS sgemm: a size is above %d", INT_MAX);
    openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)g->m,
                (int)g->n, (int)g->k, g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
    return ZEP_OK;
}

#else

#define SLICE_FLOP 1.0e6
#define NAME "plain"
#define BLOCK_K 128
#define BLOCK_N 256

/* C[m, n] += alpha op(A) op(B) for one block of k and n, op(B) packed into rows of BLOCK_N. */
static void product_block(const struct gemm *g, int64_t k0, int64_t n_k, int64_t j0, int64_t n_j)
{
    float pack[BLOCK_K * BLOCK_N];

    for (int64_t k = 0; k < n_k; k++) {
        for (int64_t j = 0; j < n_j; j++)
            pack[k * BLOCK_N + j] = g->tb ? g->b[(j0 + j) * g->ldb + k0 + k] : g->b[(k0 + k) * g->ldb + j0 + j];
    }
    for (int64_t i = 0; i < g->m; i++) {
        float *c = g->c + i * g->ldc + j0;

        for (int64_t k = 0; k < n_k; k++) {
            float x = g->alpha * (g->ta ? g->a[(k0 + k) * g->lda + i] : g->a[i * g->lda + k0 + k]);
            const float *b = pack + k * BLOCK_N;

            for (int64_t j = 0; j < n_j; j++)
                c[j] += x * b[j];
        }
    }
}

static int product(const struct gemm *g, struct zep_error *err)
{
    (void)err;
    scale_rows(g);
    for (int64_t k = 0; k < g->k; k += BLOCK_K) {
        for (int64_t j = 0; j < g->n; j += BLOCK_N)
            product_block(g, k, g->k - k < BLOCK_K ? g->k - k : BLOCK_K, j, g->n - j < BLOCK_N ? g->n - j : BLOCK_N);
    }
    return ZEP_OK;
}

#endif

/* n in equal parts of at most max, rounded up to a multiple of 16. */
static int64_t part(int64_t n, int64_t max)
{
    int64_t parts = (n + max - 1) / max, len = ((n + parts - 1) / parts + 15) / 16 * 16;

    return len < n ? len : n;
}

/* The extent of a slice of at most about SLICE_FLOP. Rows are cut first; where too few of them would be left to pay for
 * the library's packing of op(B), columns and the inner sum are cut as well. It depends on the sizes alone, so that a
 * result does not depend on who watches. */
static void slice_extent(const struct gemm *g, int64_t *m, int64_t *n, int64_t *k)
{
    const double min_rows = 64;
    double rows;

    *n = g->n;
    *k = g->k;
    rows = SLICE_FLOP / (2.0 * (double)*n * (double)*k);
    if (rows < min_rows && rows < (double)g->m) {
        *n = part(g->n, 256);
        *k = part(g->k, 256);
        rows = SLICE_FLOP / (2.0 * (double)*n * (double)*k);
    }
    *m = rows < (double)g->m ? (int64_t)rows / 8 * 8 : g->m;
}

int zep_gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
             int64_t ldb, float beta, float *c, int64_t ldc, const struct zep_progress *pr, struct zep_error *err)
{
    struct gemm g = { ta, tb, m, n, k, alpha, beta, a, b, lda, ldb, ldc, c };
    int64_t sm, sn, sk;
    int rc;

    if (m < 0 || n < 0 || k < 0)
        return zep_error_set(err, ZEP_EINVAL, "matrix product of %lld x %lld x %lld: expected sizes of at least 0",
                             (long long)m, (long long)n, (long long)k);
    if (!m || !n)
        return ZEP_OK;
    if (!k || alpha == 0) {
        scale_rows(&g);
        return ZEP_OK;
    }
    slice_extent(&g, &sm, &sn, &sk);
    for (int64_t j = 0; j < n; j += sn) {
        for (int64_t i = 0; i < m; i += sm) {
            for (int64_t l = 0; l < k; l += sk) {
                struct gemm s = g;

                s.m = m - i < sm ? m - i : sm;
                s.n = n - j < sn ? n - j : sn;
                s.k = k - l < sk ? k - l : sk;
                s.a = ta ? a + l * lda + i : a + i * lda + l;
                s.b = tb ? b + j * ldb + l : b + l * ldb + j;
                s.c = c + i * ldc + j;
                s.beta = l ? 1 : beta;
                if ((rc = product(&s, err)) < 0)
                    return rc;
                if (pr && pr->poll && (sm < m || sn < n || sk < k))
                    pr->poll(pr->arg);
            }
        }
    }
    return ZEP_OK;
}

const char *zep_gemm_name(void)
{
    return NAME;
}
