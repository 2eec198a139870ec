/* Matrix products against plain double-precision loops: transposes, strides, alpha and beta, odd sizes, slices with progress. */
#include "config.h"
#include "tests/unit/kernels_test.h"

static int n_poll;

static void count_poll(void *arg)
{
    (void)arg;
    n_poll++;
}

static void check_gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, float beta, const struct zep_progress *pr)
{
    int64_t ra = ta ? k : m, ca = ta ? m : k, rb = tb ? n : k, cb = tb ? k : n, lda = ca + 3, ldb = cb + 5, ldc = n + 2;
    float *a = random_new(ra * lda), *b = random_new(rb * ldb), *c = random_new(m * ldc), *c0 = copy_new(c, m * ldc);
    double *want = zero_new(m * n, 8);
    struct zep_error err;

    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t l = 0; l < k; l++)
                sum += (double)(ta ? a[l * lda + i] : a[i * lda + l]) * (tb ? b[j * ldb + l] : b[l * ldb + j]);
            want[i * n + j] = alpha * sum + (beta != 0 ? beta * c0[i * ldc + j] : 0);
        }
    if (beta == 0)
        c[0] = NAN; /* what is not used must not spread */
    ck_assert_int_eq(zep_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, pr, &err), ZEP_OK);
    check_close("gemm", c, ldc, want, m, n, 4e-6);
    for (int64_t i = 0; i < m; i++)
        ck_assert(memcmp(c + i * ldc + n, c0 + i * ldc + n, 2 * sizeof(float)) == 0);
    free(a); free(b); free(c); free(c0); free(want);
}

START_TEST(products)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 4}, {7, 5, 3}, {16, 16, 16}, {33, 17, 65}, {1, 128, 352}, {130, 1, 7}, {64, 100, 31}};

    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                check_gemm(ta, tb, sizes[i][0], sizes[i][1], sizes[i][2], 1, 0, NULL);
                check_gemm(ta, tb, sizes[i][0], sizes[i][1], sizes[i][2], 0.5f, 1, NULL);
            }
}
END_TEST

START_TEST(nothing_to_do)
{
    float c = 3;
    struct zep_error err;

    ck_assert_int_eq(zep_gemm(0, 0, 0, 1, 1, 1, &c, 1, &c, 1, 0, &c, 1, NULL, &err), ZEP_OK);
    ck_assert(c == 3);
}
END_TEST

START_TEST(with_progress)
{
    struct zep_progress pr = {count_poll, NULL};

    n_poll = 0;
    check_gemm(0, 1, 1500, 130, 70, 1, 1, &pr);
    check_gemm(1, 0, 130, 70, 1500, 1, 1, &pr);
    ck_assert_int_gt(n_poll, 0);
}
END_TEST

START_TEST(same_bits)
{
    float *a = random_new(40 * 30), *b = random_new(30 * 20), *c = zero_new(800, 4), *d = zero_new(800, 4);
    struct zep_error err;

    ck_assert_int_eq(zep_gemm(0, 0, 40, 20, 30, 1, a, 30, b, 20, 0, c, 20, NULL, &err), ZEP_OK);
    ck_assert_int_eq(zep_gemm(0, 0, 40, 20, 30, 1, a, 30, b, 20, 0, d, 20, NULL, &err), ZEP_OK);
    ck_assert(memcmp(c, d, 800 * 4) == 0);
    free(a); free(b); free(c); free(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels: matrix products");
    TCase *t = tcase_create("products");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, products);
    tcase_add_test(t, nothing_to_do);
    tcase_add_test(t, with_progress);
    tcase_add_test(t, same_bits);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
