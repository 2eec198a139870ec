/* Every operation but attention and matrix products, on every instruction set, against plain double-precision loops; gradients also by finite differences. */
#include "config.h"
#include "tests/unit/kernels_test.h"

#define BOUND 2e-6

static const int64_t row_counts[] = {1, 2, 3, 7, 33};
static const int widths[] = {8, 16, 24, 40, 64, 128, 200};
#define N_ROW (int)(sizeof row_counts / sizeof row_counts[0])
#define N_WIDTH (int)(sizeof widths / sizeof widths[0])

/* --- RMSNorm --- */

static double norm_loss(int64_t n, int d, const double *x, const double *w, double eps, const float *dy)
{
    double loss = 0;

    for (int64_t i = 0; i < n; i++) {
        double ss = 0;

        for (int c = 0; c < d; c++)
            ss += x[i * d + c] * x[i * d + c];
        for (int c = 0; c < d; c++)
            loss += dy[i * d + c] * x[i * d + c] * w[c] / sqrt(ss / d + eps);
    }
    return loss;
}

static double *doubles(const float *x, int64_t n)
{
    double *y = zero_new(n, sizeof *y);

    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
    return y;
}

static void check_rmsnorm(const struct zep_kernels *k, int64_t n, int d)
{
    float *x = random_new(n * d), *w = random_new(d), *dy = random_new(n * d), *y = zero_new(n * d, 4), *rstd = zero_new(n, 4), *dx = random_new(n * d), *dw = random_new(d);
    float *dx0 = copy_new(dx, n * d), *dw0 = copy_new(dw, d);
    double *xd = doubles(x, n * d), *wd = doubles(w, d), *want = zero_new(n * d, 8), *want_dx = zero_new(n * d, 8), *want_dw = zero_new(d, 8), *want_r = zero_new(n, 8);
    double eps = 1e-5;

    for (int64_t i = 0; i < n; i++) {
        double ss = 0, dot = 0, r;

        for (int c = 0; c < d; c++)
            ss += xd[i * d + c] * xd[i * d + c];
        want_r[i] = r = 1 / sqrt(ss / d + eps);
        for (int c = 0; c < d; c++) {
            want[i * d + c] = xd[i * d + c] * r * wd[c];
            dot += (double)dy[i * d + c] * wd[c] * xd[i * d + c];
        }
        for (int c = 0; c < d; c++) {
            want_dx[i * d + c] = dx0[i * d + c] + r * ((double)dy[i * d + c] * wd[c] - xd[i * d + c] * r * r * dot / d);
            want_dw[c] += (double)dy[i * d + c] * xd[i * d + c] * r;
        }
    }
    k->rmsnorm_fwd(n, d, x, w, (float)eps, y, rstd);
    k->rmsnorm_bwd(n, d, x, w, rstd, dy, dx, dw);
    for (int c = 0; c < d; c++)
        want_dw[c] += dw0[c];
    check_close("rmsnorm y", y, d, want, n, d, BOUND);
    check_close("rmsnorm rstd", rstd, 1, want_r, n, 1, BOUND);
    check_close("rmsnorm dx", dx, d, want_dx, n, d, BOUND);
    check_close("rmsnorm dw", dw, d, want_dw, 1, d, BOUND);
    /* and the reference itself by finite differences */
    for (int64_t i = 0; i < n * d; i += 1 + n * d / 7) {
        double h = 1e-5, keep = xd[i], up, down;

        xd[i] = keep + h;
        up = norm_loss(n, d, xd, wd, eps, dy);
        xd[i] = keep - h;
        down = norm_loss(n, d, xd, wd, eps, dy);
        xd[i] = keep;
        ck_assert_double_eq_tol((up - down) / (2 * h), want_dx[i] - dx0[i], 1e-6);
    }
    free(x); free(w); free(dy); free(y); free(rstd); free(dx); free(dw); free(dx0); free(dw0);
    free(xd); free(wd); free(want); free(want_dx); free(want_dw); free(want_r);
}

START_TEST(rmsnorm)
{
    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++)
        for (int i = 0; i < N_ROW; i++)
            for (int j = 0; j < N_WIDTH; j++)
                check_rmsnorm(*k, row_counts[i], widths[j]);
}
END_TEST

/* --- rotary embedding --- */

START_TEST(rope)
{
    enum { N = 9, HEADS = 3, MAX_POS = 5000 };
    static const int dims[] = {8, 16, 32, 64, 128};

    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++)
        for (int j = 0; j < 5; j++) {
            int d = dims[j];
            int64_t ld = (int64_t)HEADS * d + 8;
            float *table = zero_new((int64_t)MAX_POS * d, 4), *x = random_new(N * ld), *x0 = copy_new(x, N * ld);
            double *want = zero_new((int64_t)N * HEADS * d, 8);
            int32_t pos[N] = {0, 1, 2, 77, 0, 4999, 3, 1000, 12};

            zep_rope_table(MAX_POS, d, 10000.0, table);
            for (int i = 0; i < N; i++)
                for (int h = 0; h < HEADS; h++)
                    for (int c = 0; c < d / 2; c++) {
                        double angle = pos[i] * pow(10000.0, -2.0 * c / d), a = x0[i * ld + h * d + c], b = x0[i * ld + h * d + c + d / 2];

                        want[(i * HEADS + h) * d + c] = a * cos(angle) - b * sin(angle);
                        want[(i * HEADS + h) * d + c + d / 2] = b * cos(angle) + a * sin(angle);
                    }
            (*k)->rope(N, HEADS, d, x, ld, pos, table, 1);
            check_close("rope", x, ld, want, N, (int64_t)HEADS * d, BOUND);
            for (int i = 0; i < N; i++) /* what lies between the rows stays */
                ck_assert(memcmp(x + i * ld + HEADS * d, x0 + i * ld + HEADS * d, 8 * sizeof(float)) == 0);
            (*k)->rope(N, HEADS, d, x, ld, pos, table, -1);
            for (int64_t i = 0; i < N * ld; i++)
                ck_assert_float_eq_tol(x[i], x0[i], 4e-6f);
            free(table); free(x); free(x0); free(want);
        }
}
END_TEST

/* --- SwiGLU --- */

START_TEST(swiglu)
{
    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++)
        for (int64_t n = 1; n < 70; n += 3) {
            float *g = random_new(n), *u = random_new(n), *dy = random_new(n), *y = zero_new(n, 4), *dg = random_new(n), *du = random_new(n);
            double *want = zero_new(3 * n, 8);

            if (n > 4) { /* far out, where exp() overflows */
                g[0] = 100;
                g[1] = -100;
            }
            for (int64_t i = 0; i < n; i++) {
                double x = g[i], s = 1 / (1 + exp(-x)), h = 1e-6, s_up = 1 / (1 + exp(-(x + h))), s_down = 1 / (1 + exp(-(x - h)));

                want[i] = x * s * u[i];
                want[n + i] = dy[i] * (double)u[i] * s * (1 + x * (1 - s));
                want[2 * n + i] = dy[i] * x * s;
                ck_assert_double_eq_tol(dy[i] * (double)u[i] * ((x + h) * s_up - (x - h) * s_down) / (2 * h), want[n + i], 1e-5);
            }
            (*k)->swiglu_fwd(n, g, u, y);
            (*k)->swiglu_bwd(n, g, u, dy, dg, du);
            check_close("swiglu y", y, n, want, 1, n, BOUND);
            check_close("swiglu dg", dg, n, want + n, 1, n, BOUND);
            check_close("swiglu du", du, n, want + 2 * n, 1, n, BOUND);
            free(g); free(u); free(dy); free(y); free(dg); free(du); free(want);
        }
}
END_TEST

/* --- cross-entropy --- */

static double row_loss(const double *z, int v, int target)
{
    double max = z[0], sum = 0;

    for (int c = 1; c < v; c++)
        max = fmax(max, z[c]);
    for (int c = 0; c < v; c++)
        sum += exp(z[c] - max);
    return max + log(sum) - z[target];
}

static void check_cross_entropy(const struct zep_kernels *k, int64_t n, int v)
{
    float *z = random_new(n * v), *z0, scale = 0.125f;
    int32_t *target = zero_new(n, sizeof *target);
    double *want = zero_new(n * v, 8), loss = 0, got;

    for (int64_t i = 0; i < n; i++)
        target[i] = i % 3 == 2 ? -1 : (int32_t)((i * 7 + 3) % v);
    z[0] = 80; /* one row that is sure */
    z0 = copy_new(z, n * v);
    for (int64_t i = 0; i < n; i++) {
        double *row = doubles(z + i * v, v), h = 1e-5;

        if (target[i] >= 0) {
            double base = row_loss(row, v, target[i]), max = row[0], sum = 0;

            loss += base;
            for (int c = 1; c < v; c++)
                max = fmax(max, row[c]);
            for (int c = 0; c < v; c++)
                sum += exp(row[c] - max);
            for (int c = 0; c < v; c++) {
                double keep = row[c], up, down;

                want[i * v + c] = scale * (exp(row[c] - max) / sum - (c == target[i]));
                if (c % 5)
                    continue;
                row[c] = keep + h;
                up = row_loss(row, v, target[i]);
                row[c] = keep - h;
                down = row_loss(row, v, target[i]);
                row[c] = keep;
                ck_assert_double_eq_tol(scale * (up - down) / (2 * h), want[i * v + c], 1e-6);
            }
        }
        free(row);
    }
    got = k->cross_entropy(n, v, z, target, 0);
    ck_assert_double_eq_tol(got, loss, 2e-6 * fmax(1, loss));
    ck_assert_msg(memcmp(z, z0, (size_t)(n * v) * 4) == 0, "logits change without a gradient scale");
    got = k->cross_entropy(n, v, z, target, scale);
    ck_assert_double_eq_tol(got, loss, 2e-6 * fmax(1, loss));
    check_close("cross-entropy gradient", z, v, want, n, v, 1e-7);
    free(z); free(z0); free(target); free(want);
}

START_TEST(cross_entropy)
{
    static const int vocabs[] = {2, 3, 16, 61, 256, 1001};

    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++)
        for (int i = 0; i < N_ROW; i++)
            for (int j = 0; j < 6; j++)
                check_cross_entropy(*k, row_counts[i], vocabs[j]);
}
END_TEST

/* --- AdamW, sums --- */

START_TEST(adamw)
{
    double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1, g_scale = 0.5;

    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++)
        for (int64_t n = 1; n < 50; n += 6) {
            float *w = random_new(n), *m = zero_new(n, 4), *v = zero_new(n, 4);
            double *wd = doubles(w, n), *md = zero_new(n, 8), *vd = zero_new(n, 8);

            for (int step = 1; step <= 5; step++) {
                float *g = random_new(n);

                g[0] = 0; /* a weight without a gradient only decays */
                (*k)->adamw(n, w, g, m, v, (float)lr, (float)b1, (float)b2, (float)eps, (float)decay, step, (float)g_scale);
                for (int64_t i = 0; i < n; i++) {
                    double x = g[i] * g_scale;

                    md[i] = b1 * md[i] + (1 - b1) * x;
                    vd[i] = b2 * vd[i] + (1 - b2) * x * x;
                    wd[i] -= lr * (md[i] / (1 - pow(b1, step)) / (sqrt(vd[i] / (1 - pow(b2, step))) + eps) + decay * wd[i]);
                }
                free(g);
            }
            check_close("adamw w", w, n, wd, 1, n, 5e-6);
            check_close("adamw m", m, n, md, 1, n, 5e-6);
            check_close("adamw v", v, n, vd, 1, n, 5e-6);
            free(w); free(m); free(v); free(wd); free(md); free(vd);
        }
}
END_TEST

START_TEST(sums)
{
    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++)
        for (int64_t n = 0; n < 200; n += 7) {
            float *x = random_new(n), *y = random_new(n), *y0 = copy_new(y, n);
            double sum = 0;

            for (int64_t i = 0; i < n; i++)
                sum += (double)x[i] * x[i];
            ck_assert_double_eq_tol((*k)->sumsq(n, x), sum, 1e-9 * fmax(1, sum));
            (*k)->add(n, y, x);
            for (int64_t i = 0; i < n; i++)
                ck_assert(y[i] == y0[i] + x[i]);
            free(x); free(y); free(y0);
        }
}
END_TEST

START_TEST(selection)
{
    const struct zep_kernels *k;
    struct zep_error err;

    setenv("ZEPPELIN_CPU", "plain", 1);
    ck_assert_int_eq(zep_kernels_select(&k, &err), ZEP_OK);
    ck_assert_str_eq(k->name, "plain");
    setenv("ZEPPELIN_CPU", "sse9", 1);
    ck_assert_int_eq(zep_kernels_select(&k, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "sse9"));
    unsetenv("ZEPPELIN_CPU");
    ck_assert_int_eq(zep_kernels_select(&k, &err), ZEP_OK);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels: operations");
    TCase *t = tcase_create("operations");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, rmsnorm);
    tcase_add_test(t, rope);
    tcase_add_test(t, swiglu);
    tcase_add_test(t, cross_entropy);
    tcase_add_test(t, adamw);
    tcase_add_test(t, sums);
    tcase_add_test(t, selection);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
