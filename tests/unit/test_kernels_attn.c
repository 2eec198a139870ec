#include "config.h"
#include "tests/unit/kernels_test.h"

/* Differences of sums over up to 256 terms of size 1 to 3, in fp32. */
#define BOUND 4e-6
#define GAP 123.0f /* stands between the rows and must stay */

/* A block with room between its rows, k and v interleaved by token, and the gradient of its output. */
struct block {
    struct zep_attn a;
    float *q, *kv, *d_o;
    int64_t ld;
};

struct result {
    float *o, *lse, *delta, *dq, *dkv;
    int64_t ld_dkv, v_at;
};

struct reference {
    double *o, *lse, *dq, *dk, *dv;
};

static struct block block_new(int n_head, int n_head_kv, int d, int64_t n_q, int64_t n_kv, int64_t q_pos, int64_t kv_pos)
{
    struct block b = { .ld = (int64_t)n_head * d + 8 };
    int64_t ld_kv = 2 * (int64_t)n_head_kv * d + 8;

    b.q = random_new(n_q * b.ld);
    b.kv = random_new(n_kv * ld_kv);
    b.d_o = random_new(n_q * b.ld);
    b.a = (struct zep_attn){ n_head, n_head_kv, d, 1.0f / sqrtf((float)d), n_q, n_kv, q_pos, kv_pos, b.q, b.ld,
                             b.kv, b.kv + (int64_t)n_head_kv * d, ld_kv };
    return b;
}

static void block_free(struct block *b)
{
    free(b->q);
    free(b->kv);
    free(b->d_o);
}

static struct reference reference_new(const struct block *b)
{
    const struct zep_attn *a = &b->a;
    int64_t n_o = a->n_q * a->n_head * a->head_dim, n_k = a->n_kv * a->n_head_kv * a->head_dim;
    struct reference r = { zero_new(n_o, 8), zero_new(a->n_q * a->n_head, 8), zero_new(n_o, 8), zero_new(n_k, 8),
                           zero_new(n_k, 8) };

    ck_assert_int_eq(zep_ref_attn(a, b->d_o, b->ld, r.o, r.lse, r.dq, r.dk, r.dv, NULL), ZEP_OK);
    return r;
}

static void reference_free(struct reference *r)
{
    free(r->o);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

static void clear_rows(float *x, int64_t n, int64_t d, int64_t ld)
{
    for (int64_t i = 0; i < n * ld; i++)
        x[i] = i % ld < d ? 0 : GAP;
}

static struct result result_new(const struct block *b)
{
    const struct zep_attn *a = &b->a;
    struct result r = { .ld_dkv = a->ld_kv, .v_at = (int64_t)a->n_head_kv * a->head_dim };

    r.o = random_new(a->n_q * b->ld);
    r.dq = random_new(a->n_q * b->ld);
    r.lse = random_new(a->n_q * a->n_head);
    r.delta = random_new(a->n_q * a->n_head);
    r.dkv = random_new(a->n_kv * r.ld_dkv);
    clear_rows(r.o, a->n_q, b->ld - 8, b->ld);
    clear_rows(r.dq, a->n_q, b->ld - 8, b->ld);
    clear_rows(r.dkv, a->n_kv, r.ld_dkv - 8, r.ld_dkv);
    for (int64_t i = 0; i < a->n_q * a->n_head; i++)
        r.lse[i] = -INFINITY;
    return r;
}

static void result_free(struct result *r)
{
    free(r->o);
    free(r->lse);
    free(r->delta);
    free(r->dq);
    free(r->dkv);
}

static void check_gaps(const char *what, const float *x, int64_t n, int64_t ld)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = ld - 8; c < ld; c++)
            if (x[i * ld + c] != GAP)
                ck_abort_msg("%s: wrote between rows", what);
    }
}

static void check_result(const char *name, const struct block *b, const struct result *r, const struct reference *ref)
{
    const struct zep_attn *a = &b->a;
    int64_t d = (int64_t)a->n_head * a->head_dim, d_kv = (int64_t)a->n_head_kv * a->head_dim;
    char what[160];

#define CHECK(field, ...)                                                                                                 \
    snprintf(what, sizeof what, "%s %s, heads %d:%d, head_dim %d, %lld queries at %lld, %lld keys at %lld", name, field,   \
             a->n_head, a->n_head_kv, a->head_dim, (long long)a->n_q, (long long)a->q_pos, (long long)a->n_kv,            \
             (long long)a->kv_pos);                                                                                       \
    check_close(what, __VA_ARGS__)
    CHECK("o", r->o, b->ld, ref->o, a->n_q, d, BOUND);
    CHECK("lse", r->lse, a->n_head, ref->lse, a->n_q, a->n_head, BOUND);
    CHECK("dq", r->dq, b->ld, ref->dq, a->n_q, d, BOUND);
    CHECK("dk", r->dkv, r->ld_dkv, ref->dk, a->n_kv, d_kv, BOUND);
    CHECK("dv", r->dkv + r->v_at, r->ld_dkv, ref->dv, a->n_kv, d_kv, BOUND);
#undef CHECK
    check_gaps(what, r->o, a->n_q, b->ld);
    check_gaps(what, r->dq, a->n_q, b->ld);
    check_gaps(what, r->dkv, a->n_kv, r->ld_dkv);
}

/* The queries q0 .. q1 and keys k0 .. k1 of a block. */
static struct zep_attn part(const struct zep_attn *a, int64_t q0, int64_t q1, int64_t k0, int64_t k1)
{
    struct zep_attn p = *a;

    p.n_q = q1 - q0;
    p.q_pos += q0;
    p.q += q0 * a->ld_q;
    p.n_kv = k1 - k0;
    p.kv_pos += k0;
    p.k += k0 * a->ld_kv;
    p.v += k0 * a->ld_kv;
    return p;
}

/* Forward and backward with queries and keys cut at the given places, last keys first. */
static void run_cut(const struct zep_kernels *k, const struct block *b, struct result *r, const int64_t *q_cut, int n_q_cut,
                    const int64_t *k_cut, int n_k_cut)
{
    const struct zep_attn *a = &b->a;
    struct zep_error err;

    for (int pass = 0; pass < 2; pass++) {
        for (int j = n_k_cut - 1; j > 0; j--) {
            for (int i = 1; i < n_q_cut; i++) {
                int64_t q0 = q_cut[i - 1], k0 = k_cut[j - 1];
                struct zep_attn p = part(a, q0, q_cut[i], k0, k_cut[j]);
                float *dk = r->dkv + k0 * r->ld_dkv;
                int rc = pass == 0 ? k->attn_fwd(&p, r->o + q0 * b->ld, b->ld, r->lse + q0 * a->n_head, NULL, &err)
                                   : k->attn_bwd(&p, b->d_o + q0 * b->ld, b->ld, r->lse + q0 * a->n_head,
                                                 r->delta + q0 * a->n_head, r->dq + q0 * b->ld, b->ld, dk, dk + r->v_at,
                                                 r->ld_dkv, NULL, &err);

                ck_assert_int_eq(rc, ZEP_OK);
            }
        }
        if (pass == 0)
            k->attn_delta(a->n_q, a->n_head, a->head_dim, r->o, b->ld, b->d_o, b->ld, r->delta);
    }
}

static void check_whole(struct block *b)
{
    struct reference ref = reference_new(b);
    int64_t q_cut[] = { 0, b->a.n_q }, k_cut[] = { 0, b->a.n_kv };

    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
        struct result r = result_new(b);

        run_cut(*k, b, &r, q_cut, 2, k_cut, 2);
        check_result((*k)->name, b, &r, &ref);
        result_free(&r);
    }
    reference_free(&ref);
    block_free(b);
}

static const int dims[] = { 8, 16, 32, 40, 64, 128, 256 };
static const int heads[][2] = { { 4, 1 }, { 4, 2 }, { 1, 1 } };

static void check_length(int64_t n)
{
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
            struct block b = block_new(heads[h][0], heads[h][1], dims[d], n, n, 0, 0);

            check_whole(&b);
        }
    }
}

/* With sanitizers everything is tens of times slower: ZEP_TEST_QUICK takes a sample of the cases. */
static size_t every(size_t n)
{
    return getenv("ZEP_TEST_QUICK") ? n : 1;
}

START_TEST(lengths_short)
{
    for (int64_t n = 1; n <= 35; n += (int64_t)every(11))
        check_length(n);
}
END_TEST

START_TEST(lengths_long)
{
    static const int64_t lengths[] = { 63, 64, 65, 66, 127, 128, 129, 130 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i += every(6))
        check_length(lengths[i]);
}
END_TEST

/* Above the blocks of queries and the spans of keys of every head_dim. */
START_TEST(length_spans)
{
    static const struct {
        int head_dim;
        int64_t n;
    } rows[] = { { 8, 300 }, { 32, 300 }, { 64, 300 }, { 128, 700 }, { 256, 300 }, { 256, 600 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += every(4)) {
        struct block b = block_new(2, 1, rows[i].head_dim, rows[i].n, rows[i].n, 0, 0);

        check_whole(&b);
    }
}
END_TEST

START_TEST(offsets)
{
    static const struct {
        int64_t n_q, n_kv, q_pos, kv_pos;
    } rows[] = {
        { 10, 10, 100, 0 },  { 100, 90, 90, 0 },   { 100, 90, 89, 0 },    { 100, 90, 40, 0 },   { 100, 90, 0, 40 },
        { 100, 90, 0, 99 },  { 100, 90, 0, 100 },  { 100, 90, 0, 1000 },  { 7, 300, 200, 0 },   { 7, 300, 150, 3 },
        { 300, 7, 0, 150 },  { 300, 7, 5, 0 },     { 65, 129, 1000000, 999950 }, { 1, 1, 5, 5 },     { 1, 1, 5, 6 },
        { 1, 64, 63, 0 },    { 6, 64, 63, 0 },     { 6, 64, 58, 0 },      { 200, 64, 1, 60 },   { 0, 10, 0, 0 },
        { 10, 0, 0, 0 },     { 0, 0, 0, 0 },       { 250, 130, 3, 127 },  { 97, 193, 100, 101 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += every(3)) {
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d += 2 * every(2)) {
            struct block b = block_new(4, 2, dims[d], rows[i].n_q, rows[i].n_kv, rows[i].q_pos, rows[i].kv_pos);

            check_whole(&b);
        }
    }
}
END_TEST

/* Cut into blocks, last keys first, so that rows see nothing for a while, the result is that of the whole. */
START_TEST(blocks_merge)
{
    static const int64_t q_cut[] = { 0, 5, 128, 129, 300 }, k_cut[] = { 0, 1, 70, 128, 131, 220, 300 };

    for (size_t d = 0; d < sizeof dims / sizeof *dims; d += every(4)) {
        struct block b = block_new(4, 2, dims[d], 300, 300, 0, 0);
        struct reference ref = reference_new(&b);

        for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
            struct result r = result_new(&b);

            run_cut(*k, &b, &r, q_cut, 5, k_cut, 7);
            check_result((*k)->name, &b, &r, &ref);
            result_free(&r);
        }
        reference_free(&ref);
        block_free(&b);
    }
}
END_TEST

/* One query with two keys whose scores lie `gap` apart, key by key: the larger one wins and all is finite. */
START_TEST(merge_gaps)
{
    static const float gaps[] = { 0, 1, 30, 100, 1e3f, 1e4f, 1e6f };
    float q[8] = { 1 }, k[2][8] = { { 0 } }, v[2][8] = { { 1, 2 }, { 3, 5 } }, o[8], lse;
    struct zep_error err;

    for (size_t i = 0; i < 4 * sizeof gaps / sizeof *gaps; i++) {
        int swap = i % 2;
        double g = gaps[i / 4] * (i % 4 < 2 ? 1 : -1), w = 1 / (1 + exp(-g)); /* of the key with the score g */

        k[swap][0] = (float)g;
        k[!swap][0] = 0;
        for (const struct zep_kernels *const *kn = zep_kernels_all(); *kn; kn++) {
            memset(o, 0, sizeof o);
            lse = -INFINITY;
            for (int j = 0; j < 2; j++) {
                struct zep_attn a = { 1, 1, 8, 1, 1, 1, 9, j, q, 8, k[j], v[j], 8 };

                ck_assert_int_eq((*kn)->attn_fwd(&a, o, 8, &lse, NULL, &err), ZEP_OK);
            }
            for (int c = 0; c < 8; c++)
                ck_assert_double_eq_tol(o[c], w * v[swap][c] + (1 - w) * v[!swap][c], 1e-5);
            ck_assert_double_eq_tol(lse, fmax(g, 0) + log1p(exp(-fabs(g))), 1e-6 * (1 + fabs(g)));
        }
    }
}
END_TEST

/* The same gap inside one block, also backward. */
START_TEST(huge_scores)
{
    struct block b = block_new(4, 1, 32, 130, 130, 0, 0);
    struct reference ref;

    for (int64_t i = 0; i < b.a.n_kv; i++)
        for (int c = 0; c < 32; c++)
            b.kv[i * b.a.ld_kv + c] *= i % 3 == 0 ? 2000 : 1;
    ref = reference_new(&b);
    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
        struct result r = result_new(&b);
        int64_t cut[] = { 0, 50, 130 };

        run_cut(*k, &b, &r, cut, 3, cut, 3);
        check_close("o", r.o, b.ld, ref.o, 130, 128, 2e-2); /* lse near 1e4 has steps of 1e-3 */
        check_close("lse", r.lse, 4, ref.lse, 130, 4, BOUND);
        for (int64_t i = 0; i < 130 * b.ld; i++)
            ck_assert(isfinite(r.o[i]) && isfinite(r.dq[i]));
        for (int64_t i = 0; i < 130 * r.ld_dkv; i++)
            ck_assert(isfinite(r.dkv[i]));
        result_free(&r);
    }
    reference_free(&ref);
    block_free(&b);
}
END_TEST

START_TEST(unseen_rows)
{
    struct block b = block_new(2, 1, 40, 70, 90, 0, 30); /* the first 30 rows see nothing */

    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
        struct result r = result_new(&b);
        int64_t q_cut[] = { 0, 70 }, k_cut[] = { 0, 90 };

        run_cut(*k, &b, &r, q_cut, 2, k_cut, 2);
        for (int64_t i = 0; i < 70; i++) {
            for (int h = 0; h < 2; h++)
                ck_assert_msg(i < 30 ? r.lse[i * 2 + h] == -INFINITY : isfinite(r.lse[i * 2 + h]), "%s", (*k)->name);
            for (int c = 0; c < 80 && i < 30; c++)
                ck_assert(r.o[i * b.ld + c] == 0 && r.dq[i * b.ld + c] == 0);
        }
        result_free(&r);
    }
    block_free(&b);
}
END_TEST

static double objective(const struct block *b, double *o)
{
    const struct zep_attn *a = &b->a;
    int64_t d = (int64_t)a->n_head * a->head_dim;
    double s = 0;

    ck_assert_int_eq(zep_ref_attn(a, NULL, 0, o, NULL, NULL, NULL, NULL, NULL), ZEP_OK);
    for (int64_t i = 0; i < a->n_q; i++)
        for (int64_t c = 0; c < d; c++)
            s += o[i * d + c] * b->d_o[i * b->ld + c];
    return s;
}

/* d objective / d *x by central differences. */
static double slope(const struct block *b, float *x, double *o)
{
    float old = *x, lo = old - 0.002f, hi = old + 0.002f;
    double f;

    *x = hi;
    f = objective(b, o);
    *x = lo;
    f -= objective(b, o);
    *x = old;
    return f / ((double)hi - lo);
}

START_TEST(reference_differences)
{
    struct block b = block_new(4, 2, 8, 9, 12, 6, 4);
    struct reference ref = reference_new(&b);
    double *o = zero_new(9 * 4 * 8, sizeof *o);

    for (int64_t i = 0; i < 9; i++)
        for (int64_t c = 0; c < 32; c++)
            ck_assert_double_eq_tol(slope(&b, b.q + i * b.ld + c, o), ref.dq[i * 32 + c], 2e-5);
    for (int64_t i = 0; i < 12; i++) {
        for (int64_t c = 0; c < 16; c++) {
            ck_assert_double_eq_tol(slope(&b, b.kv + i * b.a.ld_kv + c, o), ref.dk[i * 16 + c], 2e-5);
            ck_assert_double_eq_tol(slope(&b, b.kv + i * b.a.ld_kv + 16 + c, o), ref.dv[i * 16 + c], 2e-5);
        }
    }
    free(o);
    reference_free(&ref);
    block_free(&b);
}
END_TEST

START_TEST(bad_arguments)
{
    static const struct {
        int n_head, n_head_kv, head_dim, rc;
        const char *text;
    } rows[] = {
        { 1, 1, 12, ZEP_EUNSUPPORTED, "attention: head_dim '12': expected a multiple of 8 up to 256" },
        { 1, 1, 0, ZEP_EUNSUPPORTED, "attention: head_dim '0': expected a multiple of 8 up to 256" },
        { 1, 1, 264, ZEP_EUNSUPPORTED, "attention: head_dim '264': expected a multiple of 8 up to 256" },
        { 4, 3, 8, ZEP_EINVAL, "attention: 4 query heads: expected a multiple of the 3 key heads" },
        { 4, 0, 8, ZEP_EINVAL, "attention: 4 query heads: expected a multiple of the 0 key heads" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct zep_attn a = { .n_head = rows[i].n_head, .n_head_kv = rows[i].n_head_kv, .head_dim = rows[i].head_dim };

        for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
            struct zep_error err = { 0 };

            ck_assert_int_eq((*k)->attn_fwd(&a, NULL, 0, NULL, NULL, &err), rows[i].rc);
            ck_assert_str_eq(err.text, rows[i].text);
            ck_assert_int_eq((*k)->attn_bwd(&a, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL), rows[i].rc);
        }
    }
}
END_TEST

static void count(void *arg)
{
    ++*(int *)arg;
}

/* Work of 100 us on a fast core between two calls, so at least one call each 16 million operations. */
START_TEST(progress)
{
    struct block b = block_new(2, 1, 64, 512, 512, 0, 0);
    int64_t cut[] = { 0, 512 };

    for (const struct zep_kernels *const *k = zep_kernels_all(); *k; k++) {
        struct result r = result_new(&b);
        int calls = 0;
        struct zep_progress pr = { count, &calls };
        int64_t flop = 2 * 512 * 512 * 64 * 2;

        run_cut(*k, &b, &r, cut, 2, cut, 2);
        ck_assert_int_eq((*k)->attn_fwd(&b.a, r.o, b.ld, r.lse, &pr, NULL), ZEP_OK);
        ck_assert_int_ge(calls, flop / 16000000);
        calls = 0;
        ck_assert_int_eq((*k)->attn_bwd(&b.a, b.d_o, b.ld, r.lse, r.delta, r.dq, b.ld, r.dkv, r.dkv + r.v_at, r.ld_dkv, &pr,
                                        NULL),
                         ZEP_OK);
        ck_assert_int_ge(calls, flop * 5 / 2 / 16000000);
        result_free(&r);
    }
    block_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels: attention");
    TCase *t = tcase_create("attention");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, lengths_short);
    tcase_add_test(t, lengths_long);
    tcase_add_test(t, length_spans);
    tcase_add_test(t, offsets);
    tcase_add_test(t, blocks_merge);
    tcase_add_test(t, merge_gaps);
    tcase_add_test(t, huge_scores);
    tcase_add_test(t, unseen_rows);
    tcase_add_test(t, reference_differences);
    tcase_add_test(t, bad_arguments);
    tcase_add_test(t, progress);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
