/* What is exported for other software: .npy files byte by byte, layouts that hold every token once, a folder that is complete, refused or left as it is. */
#include "config.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/npy.h"
#include "planner/export.h"
#include "tests/unit/view_util.h"

START_TEST(npy_bytes)
{
    static const struct {
        const char *dict;
        int wide;
        int64_t n, n_col;
        const char *values;
        size_t n_byte;
    } table[] = {
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 1, 2, -1, "\x01\x02\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }", 1, 0, -1, "", 0},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }", 0, 1, 2, "\x01\x02\0\0\xff\xff\xff\xff", 8},
    };
    const int64_t wide[2] = {0x201, -1};
    const int32_t narrow[2] = {0x201, -1};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct zep_buf b = ZEP_BUF_INIT;

        if (table[i].wide)
            zep_npy_i64(&b, wide, table[i].n, table[i].n_col);
        else
            zep_npy_i32(&b, narrow, table[i].n, table[i].n_col);
        ck_assert_uint_eq(b.len, 128 + table[i].n_byte);
        ck_assert(!memcmp(b.data, "\x93NUMPY\x01\0\x76\0", 10));
        ck_assert(!memcmp(b.data + 10, table[i].dict, strlen(table[i].dict)));
        for (size_t k = 10 + strlen(table[i].dict); k < 127; k++)
            ck_assert_int_eq(b.data[k], ' ');
        ck_assert_int_eq(b.data[127], '\n');
        ck_assert(!memcmp(b.data + 128, table[i].values, table[i].n_byte));
        zep_buf_free(&b);
    }
}
END_TEST

static struct zep_plan *build(const char *method)
{
    static const int dev[2] = {2, 2}, nic[2] = {2, 2};
    static const int64_t len[] = {901, 64, 63, 1, 300, 75, 17, 128};
    struct zep_view *view = make_view_uneven(2, dev, nic);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_error err = {0};

    opts.method = method;
    opts.capacity_tok = 500;
    ck_assert_msg(zep_plan_build(view, len, 8, &opts, &plan, &err) == ZEP_OK, "%s", err.text);
    test_view_free(view);
    return plan;
}

START_TEST(layouts)
{
    static const char *const method[] = {"zeppelin-paper", "te-cp", "llama-cp"};

    for (size_t m = 0; m < sizeof method / sizeof *method; m++) {
        struct zep_plan *plan = build(method[m]);

        for (int l = ZEP_LAYOUT_ATTENTION; l <= ZEP_LAYOUT_LINEAR; l++) {
            char *seen = calloc((size_t)plan->n_token, 1);
            int64_t n = 0;

            for (int d = 0; d < plan->n_dev; d++) {
                int64_t rows = l == ZEP_LAYOUT_LINEAR ? plan->lin_tok[d] : plan->attn_tok[d], *x = calloc(3 * (size_t)rows + 1, sizeof *x);

                ck_assert_int_eq(zep_plan_layout_tokens(plan, d, l, x, x + rows, x + 2 * rows, NULL), ZEP_OK);
                for (int64_t i = 0; i < rows; i++) {
                    ck_assert_int_eq(x[i], plan->seq[x[2 * rows + i]].token0 + x[rows + i]);
                    ck_assert_int_eq(seen[x[i]]++, 0);
                }
                n += rows;
                free(x);
            }
            ck_assert_int_eq(n, plan->n_token);
            free(seen);
        }
        zep_plan_free(plan);
    }
}
END_TEST

START_TEST(rank_json)
{
    struct zep_plan *plan = build("zeppelin-paper");

    for (int d = 0; d < plan->n_dev; d++) {
        struct zep_buf b = ZEP_BUF_INIT;
        json_error_t je;
        json_t *root;

        ck_assert_int_eq(zep_plan_to_rank_json(plan, d, &b, NULL), ZEP_OK);
        root = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, &je);
        ck_assert_msg(root != NULL, "%d: %s", je.line, je.text);
        ck_assert_int_eq(json_integer_value(json_object_get(root, "rank")), d);
        ck_assert_uint_eq(json_array_size(json_object_get(json_object_get(root, "remap"), "send")), (size_t)plan->n_dev);
        ck_assert_uint_gt(json_array_size(json_object_get(root, "forward")), 2);
        json_decref(root);
        zep_buf_free(&b);
    }
    zep_plan_free(plan);
}
END_TEST

/* What ranks are given knows no exchange of heads: refused whole, before anything is written. */
START_TEST(heads_refused)
{
    static const int64_t len[] = {900, 64, 300, 75};
    char top[] = "/tmp/zep-export-XXXXXX", dir[64];
    struct zep_view *view = make_view(1, 4, 2);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_plan *plan = NULL;
    struct zep_error err = {0};
    char **name;
    int n;

    opts.method = "ulysses";
    opts.heads = 8;
    opts.capacity_tok = 400;
    ck_assert_msg(zep_plan_build(view, len, 4, &opts, &plan, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(plan->ring[0].heads, 4);
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(dir, sizeof dir, "%s/ranks", top);
    for (int whole = 0; whole < 2; whole++) {
        err.text[0] = '\0';
        ck_assert_int_eq(whole ? zep_plan_export_ranks(plan, dir, &err) : zep_plan_to_rank_json(plan, 0, &b, &err), ZEP_EUNSUPPORTED);
        ck_assert_str_eq(err.text, "ring 0 of the plan (method ulysses) exchanges heads: what ranks are given describes rows of all heads only; plan it anew without (--no-heads) or by another method");
    }
    ck_assert_uint_eq(b.len, 0);
    ck_assert_int_eq(zep_fs_list(top, &name, &n, NULL), ZEP_OK);
    ck_assert_int_eq(n, 0);
    free(name);
    ck_assert_int_eq(zep_fs_remove_tree(top, NULL), ZEP_OK);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

START_TEST(folder)
{
    char top[] = "/tmp/zep-export-XXXXXX", dir[64], file[96], want[256];
    struct zep_plan *plan = build("zeppelin-paper"), *other = build("te-cp");
    struct zep_error err = {0};
    char **name;
    int n;

    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(dir, sizeof dir, "%s/a/ranks", top);
    ck_assert_msg(zep_plan_export_ranks(plan, dir, &err) == ZEP_OK, "%s", err.text);
    ck_assert_msg(zep_plan_export_ranks(plan, dir, &err) == ZEP_OK, "the same again: %s", err.text);
    ck_assert_int_eq(zep_plan_export_ranks(other, dir, &err), ZEP_EREFUSED);
    snprintf(want, sizeof want, "'%s': is there and holds something else; expected a new or empty folder, or one with this same export", dir);
    ck_assert_str_eq(err.text, want);
    snprintf(file, sizeof file, "%s/0003/rank.json", dir);
    ck_assert_int_eq(truncate(file, 10), 0);
    ck_assert_int_eq(zep_plan_export_ranks(plan, dir, &err), ZEP_EREFUSED);
    ck_assert_int_eq(zep_plan_export_ranks(plan, file, &err), ZEP_EREFUSED);
    plan->ring_seq[0] = plan->ring_seq[1];
    snprintf(dir, sizeof dir, "%s/b", top);
    ck_assert_int_eq(zep_plan_export_ranks(plan, dir, &err), ZEP_EINVAL);
    ck_assert(!strncmp(err.text, "the plan is wrong: ", 19));
    ck_assert_int_eq(zep_fs_list(top, &name, &n, NULL), ZEP_OK); /* nothing is left of what was refused */
    ck_assert_int_eq(n, 1);
    free(name[0]);
    free(name);
    snprintf(dir, sizeof dir, "%s/a", top);
    ck_assert_int_eq(zep_fs_list(dir, &name, &n, NULL), ZEP_OK);
    ck_assert_int_eq(n, 1);
    free(name[0]);
    free(name);
    ck_assert_int_eq(zep_fs_remove_tree(top, NULL), ZEP_OK);
    zep_plan_free(plan);
    zep_plan_free(other);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("export");
    TCase *tc = tcase_create("export");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, npy_bytes);
    tcase_add_test(tc, layouts);
    tcase_add_test(tc, rank_json);
    tcase_add_test(tc, heads_refused);
    tcase_add_test(tc, folder);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
