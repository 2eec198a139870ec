/* common: numbers with units, host lists, encoders, YAML with places, files, programs with a time limit. Tables: input -> expected, and bad inputs with their message. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/hostlist.h"
#include "common/memory.h"
#include "common/process.h"
#include "common/rng.h"
#include "common/units.h"
#include "common/yaml.h"

/* A file below a folder that stands for /. */
static void put_file(const char *root, const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof full, "%s%s", root, path);
    *strrchr(full, '/') = '\0';
    ck_assert_int_eq(zep_fs_mkdir_p(full, NULL), ZEP_OK);
    snprintf(full, sizeof full, "%s%s", root, path);
    ck_assert_int_eq(zep_fs_write_atomic(full, text, strlen(text), 0666, NULL), ZEP_OK);
}

START_TEST(memory_left)
{
    char root[] = "memory-XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(zep_memory_available(root), 0);
    put_file(root, "/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:   1000 kB\n");
    ck_assert_int_eq(zep_memory_available(root), 1024000);
    put_file(root, "/proc/self/cgroup", "1:name=systemd:/x\n0::/job_7/step_0\n");
    ck_assert_int_eq(zep_memory_available(root), 1024000);
    put_file(root, "/sys/fs/cgroup/job_7/step_0/memory.max", "max\n");
    put_file(root, "/sys/fs/cgroup/job_7/step_0/memory.current", "100\n");
    ck_assert_int_eq(zep_memory_available(root), 1024000);
    put_file(root, "/sys/fs/cgroup/job_7/memory.max", "500000\n"); /* the job's, above the step's */
    put_file(root, "/sys/fs/cgroup/job_7/memory.current", "300000\n");
    ck_assert_int_eq(zep_memory_available(root), 200000);
    put_file(root, "/sys/fs/cgroup/job_7/memory.stat", "anon 200000\ninactive_file 90000\n");
    ck_assert_int_eq(zep_memory_available(root), 290000);
    put_file(root, "/sys/fs/cgroup/memory.max", "1000\n"); /* a container's own root */
    put_file(root, "/sys/fs/cgroup/memory.current", "2000\n");
    ck_assert_int_eq(zep_memory_available(root), 0);
    zep_fs_remove_tree(root, NULL);
}
END_TEST

START_TEST(bandwidths)
{
    static const struct {
        const char *text;
        double want; /* 0: refused */
    } cases[] = {{"200Gb/s", 25e9}, {"25GB/s", 25e9}, {"400 GB/s", 400e9}, {"200gbit", 25e9}, {"1.5TB/s", 1.5e12}, {"100Mbit/s", 12.5e6}, {"1KiB/s", 1024}, {"", 0}, {"5", 0}, {"-1GB/s", 0}, {"0GB/s", 0},
                 {"nan GB/s", 0}, {"1e400GB/s", 0}, {"GB/s", 0}, {"5XB/s", 0}, {"5GB/s x", 0}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char back[ZEP_UNIT_BUF];
        double got = 0, again;
        int rc = zep_parse_bandwidth(cases[i].text, &got, NULL);

        ck_assert_msg((rc == ZEP_OK) == (cases[i].want > 0), "'%s'", cases[i].text);
        if (rc < 0)
            continue;
        ck_assert_msg(fabs(got - cases[i].want) <= 1e-9 * got, "'%s': %g", cases[i].text, got);
        ck_assert_int_eq(zep_parse_bandwidth(zep_format_bandwidth(got, back), &again, NULL), ZEP_OK);
        ck_assert_msg(again == got, "'%s' comes back from '%s'", cases[i].text, back);
    }
}
END_TEST

START_TEST(times_and_counts)
{
    static const struct {
        const char *text;
        double want; /* -1: refused */
    } times[] = {{"90", 90}, {"30s", 30}, {"1.5ms", 0.0015}, {"10us", 1e-5}, {"10m", 600}, {"2h", 7200}, {"01:30:00", 5400}, {"1-00:00:00", 86400}, {"05:10", 310}, {"x", -1}, {"5 parsecs", -1}, {"1:2:3:4", -1}};
    static const struct {
        const char *text;
        int64_t want;
    } counts[] = {{"8192", 8192}, {"8k", 8192}, {"256k", 262144}, {"1M", 1048576}, {"", -1}, {"k", -1}, {"8q", -1}, {"-5", -1}, {"99999999999999999999", -1}};
    int64_t v;

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        char back[ZEP_UNIT_BUF];
        double got = -1, again;

        ck_assert_msg((zep_parse_time(times[i].text, &got, NULL) == ZEP_OK) == (times[i].want >= 0), "'%s'", times[i].text);
        if (times[i].want < 0)
            continue;
        ck_assert_msg(got == times[i].want, "'%s': %.17g", times[i].text, got);
        ck_assert_int_eq(zep_parse_time(zep_format_time(got, back), &again, NULL), ZEP_OK);
        ck_assert_msg(again == got, "'%s' comes back from '%s'", times[i].text, back);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        v = -1;
        ck_assert_msg((zep_parse_count(counts[i].text, &v, NULL) == ZEP_OK) == (counts[i].want >= 0), "'%s'", counts[i].text);
        ck_assert(counts[i].want < 0 || v == counts[i].want);
    }
    ck_assert(zep_parse_size("64KiB", &v, NULL) == ZEP_OK && v == 65536);
    ck_assert(zep_parse_size("80GB", &v, NULL) == ZEP_OK && v == 80000000000);
}
END_TEST

START_TEST(host_lists)
{
    static const struct {
        const char *expr, *want; /* NULL: refused */
    } cases[] = {
        {"a", "a"}, {"a,b", "a b"}, {"n[1-3]", "n1 n2 n3"}, {"n[01-03]", "n01 n02 n03"}, {"n[8-11]", "n8 n9 n10 n11"}, {"n[1,3,5-6]", "n1 n3 n5 n6"}, {"r[1-2]-n[1-2]", "r1-n1 r1-n2 r2-n1 r2-n2"},
        {"a,a", "a a"}, {"n[3-1]", NULL}, {"n[1-3]-ib", NULL}, {"n[1-3", NULL}, {"n1-3]", NULL}, {"n[]", NULL}, {"n[1-99999]", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_hostlist list = {0}, again = {0};
        struct zep_buf b = ZEP_BUF_INIT;
        char *folded = NULL;
        int rc = zep_hostlist_expand(cases[i].expr, &list, NULL);

        ck_assert_msg((rc == ZEP_OK) == (cases[i].want != NULL), "'%s'", cases[i].expr);
        if (rc < 0)
            continue;
        for (int k = 0; k < list.n; k++)
            zep_buf_printf(&b, "%s%s", k ? " " : "", list.name[k]);
        ck_assert_str_eq(b.data, cases[i].want);
        ck_assert_int_eq(zep_hostlist_fold(list.n, (const char *const *)list.name, &folded, NULL), ZEP_OK);
        ck_assert_int_eq(zep_hostlist_expand(folded, &again, NULL), ZEP_OK);
        ck_assert_int_eq(again.n, list.n);
        for (int k = 0; k < list.n; k++)
            ck_assert_str_eq(again.name[k], list.name[k]);
        free(folded);
        zep_buf_free(&b);
        zep_hostlist_free(&list);
        zep_hostlist_free(&again);
    }
}
END_TEST

START_TEST(yaml)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"", "f: empty, expected YAML"}, {"a: &x 1\n", "f:1: "}, {"a: 1\na: 2\n", "f:2: "}, {"a: [1\n", "f:2: "}, {"a: !!int 3\n", "f:1: "}, {"--- a\n--- b\n", "f:2: "},
    };
    static const char *const known[] = {"alpha", "beta", NULL};
    struct zep_yaml *doc;
    struct zep_error err;
    int64_t v;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(zep_yaml_load("f", bad[i].text, strlen(bad[i].text), &doc, &err) == ZEP_EINVAL, "'%s' was taken", bad[i].text);
        ck_assert_msg(!strncmp(err.text, bad[i].error, strlen(bad[i].error)), "'%s': %s", bad[i].text, err.text);
    }
    ck_assert_int_eq(zep_yaml_load("f", "alpha: 7\nbeat: x\n", 17, &doc, &err), ZEP_OK);
    ck_assert_int_eq(zep_yaml_int(doc, zep_yaml_get(zep_yaml_root(doc), "alpha"), "alpha", 0, 10, &v, &err), ZEP_OK);
    ck_assert_int_eq(v, 7);
    ck_assert_int_eq(zep_yaml_int(doc, zep_yaml_get(zep_yaml_root(doc), "alpha"), "alpha", 0, 5, &v, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "f:1: alpha"));
    ck_assert_int_eq(zep_yaml_check_keys(doc, zep_yaml_root(doc), known, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "f:2: unknown key 'beat' (did you mean 'beta'?)");
    zep_yaml_free(doc);
    /* what is emitted reads back as the same text */
    static const char *const texts[] = {"plain", "", "true", "1.5", "null", "a: b", "# x", "'", "\"", "- x", " lead", "tab\there", "line\nbreak", "\xc3\xa9", "n[0-1]", "{a", "*x", "50%"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct zep_buf b = ZEP_BUF_INIT;
        const char *got;

        zep_buf_puts(&b, "k: ");
        zep_yaml_emit_scalar(&b, texts[i]);
        zep_buf_puts(&b, "\n");
        ck_assert_msg(zep_yaml_load("f", b.data, b.len, &doc, &err) == ZEP_OK, "%s: %s", b.data, err.text);
        ck_assert_int_eq(zep_yaml_string(doc, zep_yaml_get(zep_yaml_root(doc), "k"), "k", &got, &err), ZEP_OK);
        ck_assert_str_eq(got, texts[i]);
        zep_yaml_free(doc);
        zep_buf_free(&b);
    }
}
END_TEST

START_TEST(files)
{
    const char *base = getenv("ZEP_BUILDDIR");
    char path[300], *data;
    struct zep_error err;
    size_t len;

    snprintf(path, sizeof path, "%s/common-%ld", base ? base : "/tmp", (long)getpid());
    ck_assert_int_eq(zep_fs_write_atomic(path, "abc", 3, 0600, &err), ZEP_OK);
    ck_assert_int_eq(zep_fs_read(path, 0, &data, &len, &err), ZEP_OK);
    ck_assert(len == 3 && !strcmp(data, "abc"));
    free(data);
    ck_assert_int_lt(zep_fs_read(path, 2, &data, &len, &err), 0);
    unlink(path);
    ck_assert_int_eq(zep_fs_read(path, 0, &data, &len, &err), ZEP_ENOENT);
    ck_assert_int_eq(zep_fs_read("/tmp", 0, &data, &len, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "/tmp: is a directory, expected a file");
    ck_assert_int_lt(zep_fs_write_atomic("/nonexistent/x", "a", 1, 0600, &err), 0);
}
END_TEST

START_TEST(programs)
{
    char *hello[] = {"sh", "-c", "echo out; echo err >&2; exit 7", NULL}, *slow[] = {"sleep", "100", NULL}, *none[] = {"no-such-program-here", NULL}, *killed[] = {"sh", "-c", "kill -9 $$", NULL};
    struct zep_process_result r;
    struct zep_error err;

    ck_assert_int_eq(zep_process_run(hello, 10, &r, &err), ZEP_OK);
    ck_assert(r.status == 7 && !strcmp(r.out, "out\n") && !strcmp(r.err, "err\n") && !r.timed_out);
    zep_process_result_free(&r);
    ck_assert_int_eq(zep_process_run(slow, 0.2, &r, &err), ZEP_OK);
    ck_assert(r.timed_out);
    zep_process_result_free(&r);
    ck_assert_int_eq(zep_process_run(killed, 10, &r, &err), ZEP_OK);
    ck_assert_int_eq(r.status, 128 + 9);
    zep_process_result_free(&r);
    ck_assert_int_eq(zep_process_run(none, 1, &r, &err), ZEP_EUNAVAIL);
}
END_TEST

/* Known values: workloads and initial weights are the same on every machine. */
START_TEST(random_numbers)
{
    struct zep_rng rng;
    double sum = 0, sq = 0;

    ck_assert(zep_splitmix64(0) == 0xe220a8397b1dcdafull);
    zep_rng_seed(&rng, 1);
    for (int i = 0; i < 100000; i++) {
        double x = zep_rng_normal(&rng);

        sum += x;
        sq += x * x;
    }
    ck_assert_double_eq_tol(sum / 100000, 0, 0.015);
    ck_assert_double_eq_tol(sq / 100000, 1, 0.02);
    for (double x = -30; x < 30; x += 0.37) {
        ck_assert_msg(fabs(zep_det_exp(x) / exp(x) - 1) < 1e-13, "exp(%g)", x);
        ck_assert_msg(fabs(zep_det_log(exp(x)) - x) < 1e-12, "log(exp(%g))", x);
        ck_assert_msg(fabs(zep_det_cospi(x) - cos(M_PI * x)) < 1e-12, "cospi(%g)", x);
    }
    for (int i = 0; i < 1000; i++)
        ck_assert(zep_rng_below(&rng, 7) < 7);
}
END_TEST

START_TEST(formats)
{
    struct zep_error err;
    int newer;

    ck_assert_int_eq(zep_format_check("zeppelin-plan/1.0", "zeppelin-plan", 1, 0, &newer, &err), ZEP_OK);
    ck_assert_int_eq(newer, 0);
    ck_assert_int_eq(zep_format_check("zeppelin-plan/1.7", "zeppelin-plan", 1, 0, &newer, &err), ZEP_OK);
    ck_assert_int_eq(newer, 1);
    ck_assert_int_eq(zep_format_check("zeppelin-plan/2.0", "zeppelin-plan", 1, 0, NULL, &err), ZEP_EREFUSED);
    ck_assert_int_eq(zep_format_check("zeppelin-job/1.0", "zeppelin-plan", 1, 0, NULL, &err), ZEP_EINVAL);
    ck_assert_int_eq(zep_format_check("", "zeppelin-plan", 1, 0, NULL, &err), ZEP_EINVAL);
}
END_TEST

START_TEST(memory)
{
    struct zep_arena *a = zep_arena_new(0);
    char *p = zep_arena_alloc(a, 10, 1), *q = zep_arena_alloc(a, 1 << 20, 4);

    ck_assert(p && q && (uintptr_t)p % 64 == 0 && (uintptr_t)q % 64 == 0 && p[9] == 0 && q[(4 << 20) - 1] == 0);
    ck_assert_ptr_null(zep_arena_alloc(a, SIZE_MAX / 2, 4));
    ck_assert_ptr_null(zep_calloc(SIZE_MAX / 2, 4));
    ck_assert_ptr_null(zep_reallocarray(NULL, SIZE_MAX / 2, 4));
    zep_arena_reset(a);
    ck_assert_str_eq(zep_arena_strdup(a, "x"), "x");
    zep_arena_free(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("common");
    TCase *t = tcase_create("common");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 60);
    tcase_add_test(t, bandwidths);
    tcase_add_test(t, times_and_counts);
    tcase_add_test(t, host_lists);
    tcase_add_test(t, yaml);
    tcase_add_test(t, files);
    tcase_add_test(t, programs);
    tcase_add_test(t, random_numbers);
    tcase_add_test(t, formats);
    tcase_add_test(t, memory);
    tcase_add_test(t, memory_left);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
