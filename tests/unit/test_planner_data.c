/* What a plan is made for: workloads, data sets, batches, windows, micro-steps. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/rng.h"
#include "planner/dataset.h"
#include "planner/plan.h"
#include "planner/workload.h"

static const char *tmp_path(const char *name)
{
    static char path[256];
    const char *dir = getenv("ZEP_BUILDDIR");

    snprintf(path, sizeof path, "%s/tests/unit/data-%ld-%s", dir ? dir : "/tmp", (long)getpid(), name);
    return path;
}

static void put_file(const char *path, const void *data, size_t len)
{
    struct zep_error err;

    ck_assert_msg(zep_fs_write_atomic(path, data, len, 0600, &err) == ZEP_OK, "%s", err.text);
}

START_TEST(lengths)
{
    const char *path = tmp_path("lengths");
    struct zep_workload *w;
    struct zep_error err;
    static const struct {
        const char *text, *error; /* after PATH */
    } bad[] = {
        {"12\nabc\n", ":2: length 'abc': expected a number of tokens, 1 to 1099511627776"},
        {"12,0\n", ":1: length '0': expected a number of tokens, 1 to 1099511627776"},
        {"\n\n-4\n", ":3: length '-4': expected a number of tokens, 1 to 1099511627776"},
        {"2000000000000\n", ":1: length '2000000000000': expected a number of tokens, 1 to 1099511627776"},
        {"99999999999999999999\n", ":1: length '99999999999999999999': expected a number of tokens, 1 to 1099511627776"},
        {"1099511627776\n1\n", ":2: '1': the workload is longer than 1099511627776 tokens"},
        {"# nothing\n", ": no lengths in it: expected one length in tokens a line"},
    };

    put_file(path, "# two\n100 8k,3\n\n7 # last\n", 24);
    ck_assert_int_eq(zep_workload_load(path, &w, &err), ZEP_OK);
    ck_assert_int_eq(w->n, 4);
    ck_assert_int_eq(w->len[1], 8192);
    ck_assert_int_eq(w->n_token, 100 + 8192 + 3 + 7);
    zep_workload_free(w);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char want[600];

        put_file(path, bad[i].text, strlen(bad[i].text));
        ck_assert_int_eq(zep_workload_load(path, &w, &err), ZEP_EINVAL);
        snprintf(want, sizeof want, "%s%s", path, bad[i].error);
        ck_assert_str_eq(err.text, want);
    }
    unlink(path);
    ck_assert_int_lt(zep_workload_load(path, &w, &err), 0);
}
END_TEST

START_TEST(distributions)
{
    static const char *const names[] = {"arxiv", "github", "prolong64k", "web", "prolong", "wlb", "sft"};
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"arxive:tokens=1k", "unknown distribution 'arxive' (did you mean 'arxiv'?): expected one of arxiv, github, prolong64k, web, prolong, wlb, sft"},
        {"arxiv", "distribution 'arxiv': expected tokens=N, the length of the workload, as in 'arxiv:tokens=64k,seed=1'"},
        {"arxiv:tokens", "'tokens': expected tokens=N, seed=N or max=N"},
        {"arxiv:tokens=0", "tokens '0': expected 1 to 1099511627776"},
    };
    struct zep_workload *a, *b;
    struct zep_error err;
    char text[64];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t giant = 0;

        snprintf(text, sizeof text, "%s:tokens=1M,seed=4", names[i]);
        ck_assert_int_eq(zep_workload_dist(text, &a, &err), ZEP_OK);
        ck_assert_int_eq(zep_workload_dist(text, &b, &err), ZEP_OK);
        ck_assert_int_eq(a->n_token, 1048576);
        ck_assert(a->n == b->n && !memcmp(a->len, b->len, (size_t)a->n * sizeof *a->len));
        for (int k = 0; k < a->n; k++)
            giant += a->len[k] == 65536 ? 65536 : 0;
        if (!strcmp(names[i], "prolong64k"))
            ck_assert_msg(giant > 560000 && giant < 700000, "%lld tokens in documents of 64k", (long long)giant);
        zep_workload_free(a);
        zep_workload_free(b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(zep_workload_dist(bad[i].text, &a, &err), ZEP_EINVAL);
        ck_assert_str_eq(err.text, bad[i].error);
    }
}
END_TEST

static void make_set(const char *prefix, int dtype, const int64_t *len, int n)
{
    struct zep_dataset_writer *w;
    struct zep_error err;
    int32_t token[512];

    ck_assert_int_eq(zep_dataset_create(prefix, dtype, &w, &err), ZEP_OK);
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < len[i]; k++)
            token[k] = (int32_t)((i * 31 + k * 7) % 200 + (dtype == 1 ? 0 : 1000));
        ck_assert_int_eq(zep_dataset_add(w, token, len[i], &err), ZEP_OK);
    }
    ck_assert_msg(zep_dataset_finish(w, &err) == ZEP_OK, "%s", err.text);
}

static void remove_set(const char *prefix)
{
    char path[300];

    snprintf(path, sizeof path, "%s.bin", prefix);
    unlink(path);
    snprintf(path, sizeof path, "%s.idx", prefix);
    unlink(path);
}

START_TEST(datasets)
{
    static const int64_t len[] = {5, 1, 300, 64};
    static const int dtypes[] = {1, 8, 4};

    for (int t = 0; t < 3; t++) {
        const char *prefix = tmp_path("set");
        struct zep_dataset *set;
        struct zep_error err;
        int32_t got[4], doc[300];
        char text[400];
        uint64_t whole;
        int64_t cut;

        make_set(prefix, dtypes[t], len, 4);
        ck_assert_msg(zep_dataset_open(prefix, &set, &err) == ZEP_OK, "%s", err.text);
        ck_assert_int_eq(zep_dataset_n_doc(set), 4);
        ck_assert_int_eq(zep_dataset_n_token(set), 370);
        zep_dataset_read(set, 2, 10, 14, got);
        for (int k = 0; k < 4; k++)
            ck_assert_int_eq(got[k], (2 * 31 + (10 + k) * 7) % 200 + (t == 0 ? 0 : 1000));
        /* every token below the vocabulary's size, or the first that is not is named */
        ck_assert_int_eq(zep_dataset_read_doc(set, 3, t == 0 ? 200 : 1200, doc, &err), ZEP_OK);
        ck_assert_int_eq(doc[63], (3 * 31 + 63 * 7) % 200 + (t == 0 ? 0 : 1000));
        ck_assert_int_eq(zep_dataset_read_doc(set, 3, t == 0 ? 100 : 1100, doc, &err), ZEP_EINVAL);
        snprintf(text, sizeof text, "%s.bin: token 1 of document 3 is %d: expected 0 to %d (model.vocab is %d)", prefix, t == 0 ? 100 : 1100, t == 0 ? 99 : 1099, t == 0 ? 100 : 1100);
        ck_assert_str_eq(err.text, text);
        /* what a resumed run compares */
        whole = zep_dataset_digest_documents(set);
        ck_assert_int_eq(zep_dataset_limit(set, 300, 1, &cut, &err), ZEP_OK);
        ck_assert_uint_eq(zep_dataset_digest_documents(set), whole);
        /* longer than the context: refused, or cut and counted */
        ck_assert_int_eq(zep_dataset_limit(set, 100, 0, &cut, &err), ZEP_EINVAL);
        ck_assert_ptr_nonnull(strstr(err.text, ": 1 of 4 documents is longer than data.context (100 tokens), document 2 with 300 the first of them; with data.too_long: cut they are cut"));
        ck_assert_int_eq(zep_dataset_limit(set, 128, 1, &cut, &err), ZEP_OK);
        ck_assert_int_eq(cut, 1);
        ck_assert_uint_ne(zep_dataset_digest_documents(set), whole);
        ck_assert_int_eq(zep_dataset_n_doc(set), 6);
        ck_assert_int_eq(zep_dataset_len(set, 4), 44);
        zep_dataset_read(set, 3, 0, 1, got);
        ck_assert_int_eq(got[0], (2 * 31 + 128 * 7) % 200 + (t == 0 ? 0 : 1000));
        zep_dataset_close(set);
        remove_set(prefix);
    }
}
END_TEST

/* Every cut-off file and every changed header is an error, never a crash. */
START_TEST(negative_token)
{
    const char *prefix = tmp_path("negative");
    static const int64_t len[] = {2};
    static const int32_t damage[] = {7, -70000000};
    struct zep_dataset *set;
    struct zep_error err;
    char path[300];
    int32_t doc[2];
    uint64_t before;

    make_set(prefix, 4, len, 1);
    ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_OK);
    before = zep_dataset_digest_tokens(set);
    zep_dataset_close(set);
    snprintf(path, sizeof path, "%s.bin", prefix);
    ck_assert_int_eq(zep_fs_write_atomic(path, damage, sizeof damage, 0666, &err), ZEP_OK);
    ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_OK);
    ck_assert_uint_ne(zep_dataset_digest_tokens(set), before);
    ck_assert_int_eq(zep_dataset_read_doc(set, 0, 1048576, doc, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "token 1 of document 0 is -70000000: expected 0 to 1048575"));
    zep_dataset_close(set);
    remove_set(prefix);
}
END_TEST

/* More than is hashed as a whole: the first and the last token count, and the size does. */
START_TEST(tokens_of_a_large_set)
{
    static const int64_t len[] = {512};
    const char *prefix = tmp_path("large");
    size_t size = ((size_t)6 << 20) + 5;
    char *bin = zep_calloc(size, 1);
    struct zep_dataset *set;
    struct zep_error err;
    uint64_t digest[4];
    char path[300];

    ck_assert_ptr_nonnull(bin);
    make_set(prefix, 1, len, 1);
    snprintf(path, sizeof path, "%s.bin", prefix);
    for (int i = 0; i < 4; i++) {
        bin[0] = i == 1;
        bin[size - 1] = i == 2;
        ck_assert_int_eq(zep_fs_write_atomic(path, bin, size - (i == 3), 0666, &err), ZEP_OK);
        ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_OK);
        digest[i] = zep_dataset_digest_tokens(set);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(digest[k], digest[i]);
        zep_dataset_close(set);
    }
    remove_set(prefix);
    free(bin);
}
END_TEST

START_TEST(damaged_datasets)
{
    static const int64_t len[] = {5, 40, 7};
    const char *prefix = tmp_path("bad");
    char idx[300], bin[300], *data;
    struct zep_dataset *set;
    struct zep_error err;
    size_t n;

    make_set(prefix, 1, len, 3);
    snprintf(idx, sizeof idx, "%s.idx", prefix);
    snprintf(bin, sizeof bin, "%s.bin", prefix);
    ck_assert_int_eq(zep_fs_read(idx, 0, &data, &n, &err), ZEP_OK);
    for (size_t cut = 0; cut < n; cut++) {
        put_file(idx, data, cut);
        ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_EINVAL);
    }
    for (size_t i = 0; i < n; i++) {
        char keep = data[i];

        data[i] ^= 0x40;
        put_file(idx, data, n);
        if (zep_dataset_open(prefix, &set, &err) == ZEP_OK) /* a change that is another valid index */
            zep_dataset_close(set);
        data[i] = keep;
    }
    put_file(idx, data, n);
    ck_assert_int_eq(truncate(bin, 20), 0);
    ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "outside of"));
    unlink(bin);
    ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "expected a data set PREFIX.bin and PREFIX.idx"));
    free(data);
    remove_set(prefix);
}
END_TEST

START_TEST(batches)
{
    int64_t len[60];
    const char *prefix = tmp_path("batches");
    struct zep_dataset *set;
    struct zep_batches *a, *b;
    struct zep_error err;
    const int32_t *doc;
    int seen[60] = {0}, n, taken = 0;

    for (int i = 0; i < 60; i++)
        len[i] = 1 + i * 37 % 100;
    make_set(prefix, 1, len, 60);
    ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_OK);
    ck_assert_int_eq(zep_batches_new(set, 250, 9, &a, &err), ZEP_OK);
    ck_assert_int_eq(zep_batches_new(set, 250, 9, &b, &err), ZEP_OK);
    for (int64_t step = 0; taken < 60; step++) { /* an epoch has every document once */
        int64_t tokens = 0;

        ck_assert_int_eq(zep_batches_get(a, step, &doc, &n, &err), ZEP_OK);
        ck_assert_int_gt(n, 0);
        for (int i = 0; i < n; i++, taken++) {
            tokens += len[doc[i]];
            if (taken < 60)
                ck_assert_int_eq(seen[doc[i]]++, 0);
        }
        ck_assert_int_le(tokens, 250);
    }
    for (int64_t step = 30; step >= 0; step -= 7) { /* in any order the same */
        int32_t first[100];
        int n_first;

        ck_assert_int_eq(zep_batches_get(a, step, &doc, &n_first, &err), ZEP_OK);
        memcpy(first, doc, (size_t)n_first * sizeof *doc);
        ck_assert_int_eq(zep_batches_get(b, step, &doc, &n, &err), ZEP_OK);
        ck_assert(n == n_first && !memcmp(first, doc, (size_t)n * sizeof *doc));
    }
    zep_batches_free(a);
    zep_batches_free(b);
    ck_assert_int_eq(zep_batches_new(set, 90, 9, &a, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "a step holds 90"));
    zep_dataset_close(set);
    remove_set(prefix);
}
END_TEST

/* Windows: every document once an epoch, in steps that hold them, the same whatever is asked first; more even than in order, and no emptier. */
START_TEST(windows)
{
    enum { N = 700, TOKENS = 1000 };
    int64_t len[N];
    struct zep_batches *a, *b, *plain;
    struct zep_error err;
    struct zep_rng rng;
    const int32_t *doc;
    int n;

    zep_rng_seed(&rng, (uint64_t)_i);
    for (int i = 0; i < N; i++)
        len[i] = zep_rng_below(&rng, 6) ? 1 + (int64_t)zep_rng_below(&rng, 60) : 1 + (int64_t)zep_rng_below(&rng, TOKENS);
    for (int compose = 0; compose < ZEP_N_COMPOSE; compose++) {
        int window = 2 + _i % 9, times[N] = {0}, taken = 0;
        int64_t tokens[2] = {0};
        int32_t kept[N];

        ck_assert_int_eq(zep_batches_new_lengths(len, N, TOKENS, 9, &a, &err), ZEP_OK);
        ck_assert_int_eq(zep_batches_new_lengths(len, N, TOKENS, 9, &b, &err), ZEP_OK);
        ck_assert_int_eq(zep_batches_new_lengths(len, N, TOKENS, 9, &plain, &err), ZEP_OK);
        ck_assert_int_eq(zep_batches_set_window(a, window, (enum zep_compose)compose, &err), ZEP_OK);
        ck_assert_int_eq(zep_batches_set_window(b, window, (enum zep_compose)compose, &err), ZEP_OK);
        for (int64_t step = 0; taken < 3 * N || step % window; step++) { /* windows end where steps do; an epoch may end inside one */
            int64_t all[2] = {0};

            for (int k = 0; k < 2; k++) {
                ck_assert_int_eq(zep_batches_get(k ? plain : a, step, &doc, &n, &err), ZEP_OK);
                for (int i = 0; i < n; i++)
                    all[k] += len[doc[i]];
                ck_assert_int_le(all[k], TOKENS);
                tokens[k] += all[k];
            }
            ck_assert_int_eq(zep_batches_get(a, step, &doc, &n, &err), ZEP_OK);
            for (int i = 0; i < n; i++, taken++)
                times[doc[i]]++;
            if (step % window != window - 1)
                continue;
            for (int i = 0; i < N; i++) /* the end of a window: some documents may be one epoch ahead, never two, and those only of the newest epoch */
                ck_assert_msg(times[i] == taken / N || times[i] == taken / N + 1, "document %d was taken %d times among %d", i, times[i], taken);
            for (int i = 0, ahead = 0; i < N; i++)
                ck_assert_int_le(ahead += times[i] > taken / N, taken % N);
        }
        ck_assert_int_ge(tokens[0], tokens[1]);
        for (int64_t step = 50; step >= 0; step -= 7) {
            int n_kept;

            ck_assert_int_eq(zep_batches_get(a, step, &doc, &n_kept, &err), ZEP_OK);
            memcpy(kept, doc, (size_t)n_kept * sizeof *doc);
            ck_assert_int_eq(zep_batches_get(b, 50 - step, &doc, &n, &err), ZEP_OK);
            ck_assert_int_eq(zep_batches_get(b, step, &doc, &n, &err), ZEP_OK);
            ck_assert(n == n_kept && !memcmp(kept, doc, (size_t)n * sizeof *doc));
        }
        zep_batches_free(a);
        zep_batches_free(b);
        zep_batches_free(plain);
    }
    ck_assert_int_eq(zep_batches_new_lengths(len, N, TOKENS, 9, &a, &err), ZEP_OK);
    ck_assert_int_eq(zep_batches_set_window(a, 0, ZEP_COMPOSE_BALANCE, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "a window of 0 steps: expected 1 to 1024");
    zep_batches_free(a);
}
END_TEST

/* Worked out by hand: 6, 6, 2, 2, 2, 2 in steps of 10. In order: 6 alone, 6 2 2, 2 2. Balanced over two steps: 6 2 2 each, which is all of them. */
START_TEST(window_by_hand)
{
    static const int64_t len[] = {6, 6, 2, 2, 2, 2};
    struct zep_batches *b;
    struct zep_error err;
    const int32_t *doc;
    int n;

    ck_assert_int_eq(zep_batches_new_lengths(len, 6, 10, 1, &b, &err), ZEP_OK);
    ck_assert_int_eq(zep_batches_set_window(b, 2, ZEP_COMPOSE_BALANCE, &err), ZEP_OK);
    for (int64_t step = 0; step < 8; step++) {
        int n_long = 0;

        ck_assert_int_eq(zep_batches_get(b, step, &doc, &n, &err), ZEP_OK);
        ck_assert_int_eq(n, 3);
        for (int i = 0; i < n; i++)
            n_long += len[doc[i]] == 6;
        ck_assert_int_eq(n_long, 1);
    }
    zep_batches_free(b);
}
END_TEST

/* 4, 4 and twelve of 1 in steps of 10: balanced, each step has a 4; alike, one has both. */
START_TEST(window_composes)
{
    static const int64_t len[] = {1, 4, 1, 1, 1, 1, 4, 1, 1, 1, 1, 1, 1, 1};

    for (int compose = 0; compose < ZEP_N_COMPOSE; compose++) {
        struct zep_batches *b;
        struct zep_error err;

        ck_assert_int_eq(zep_batches_new_lengths(len, 14, 10, 1, &b, &err), ZEP_OK);
        ck_assert_int_eq(zep_batches_set_window(b, 2, (enum zep_compose)compose, &err), ZEP_OK);
        for (int64_t window = 0; window < 3; window++) {
            int n_long[2] = {0, 0};

            for (int k = 0; k < 2; k++) {
                const int32_t *doc;
                int n;

                ck_assert_int_eq(zep_batches_get(b, 2 * window + k, &doc, &n, &err), ZEP_OK);
                for (int i = 0; i < n; i++)
                    n_long[k] += len[doc[i]] == 4;
            }
            ck_assert_int_eq(n_long[0] + n_long[1], 2);
            ck_assert_int_eq(n_long[0] == 1, compose == ZEP_COMPOSE_BALANCE);
        }
        zep_batches_free(b);
    }
    ck_assert_int_eq(zep_compose_find("alike"), ZEP_COMPOSE_ALIKE);
    ck_assert_int_eq(zep_compose_find("even"), -1);
}
END_TEST

/* The documents of a pass, in order; each in one batch of at most tokens. */
static int walk_pass(struct zep_dataset *set, int64_t tokens, int64_t max_token, int32_t *order)
{
    struct zep_batches *b;
    struct zep_error err;
    const int32_t *doc;
    int total = 0, n = 1;

    ck_assert_int_eq(zep_batches_new_pass(set, tokens, 0, max_token, &b, &err), ZEP_OK);
    for (int again = 0; again < 2; again++) {
        total = 0;
        n = 1;
        for (int64_t step = 0; n; step++) {
            int64_t sum = 0;

            ck_assert_int_eq(zep_batches_get(b, step, &doc, &n, &err), ZEP_OK);
            for (int i = 0; i < n; i++) {
                sum += zep_dataset_len(set, doc[i]);
                ck_assert_int_lt(total, 40);
                ck_assert(!again || order[total] == doc[i]);
                order[total++] = doc[i];
            }
            ck_assert_int_le(sum, tokens);
        }
    }
    zep_batches_free(b);
    return total;
}

START_TEST(pass_over_documents)
{
    const char *prefix = tmp_path("pass");
    struct zep_dataset *set;
    struct zep_error err;
    int32_t whole[40], part[40];
    int seen[40] = {0}, n;
    int64_t sum = 0, len[40];

    for (int i = 0; i < 40; i++)
        len[i] = 1 + i * 37 % 100;
    make_set(prefix, 1, len, 40);
    ck_assert_int_eq(zep_dataset_open(prefix, &set, &err), ZEP_OK);
    ck_assert_int_eq(walk_pass(set, 250, 1 << 20, whole), 40);
    for (int i = 0; i < 40; i++)
        ck_assert_int_eq(seen[whole[i]]++, 0);
    for (int64_t tokens = 100; tokens < 100000; tokens *= 3) {
        ck_assert_int_eq(walk_pass(set, tokens, zep_dataset_n_token(set), part), 40);
        ck_assert_mem_eq(part, whole, sizeof part);
        n = walk_pass(set, tokens, zep_dataset_n_token(set) / 3, part);
        ck_assert_mem_eq(part, whole, (size_t)n * sizeof *part);
        sum = 0;
        for (int i = 0; i < n; i++)
            sum += zep_dataset_len(set, part[i]);
        ck_assert_int_le(sum, zep_dataset_n_token(set) / 3);
        ck_assert_int_gt(sum + zep_dataset_len(set, whole[n]), zep_dataset_n_token(set) / 3);
        ck_assert_int_eq(walk_pass(set, tokens, 0, part), 1);
    }
    zep_dataset_close(set);
    remove_set(prefix);
}
END_TEST

START_TEST(micro_steps)
{
    static const int64_t len[] = {50, 60, 10, 100, 1, 1};
    struct zep_error err;
    int *first, n;

    ck_assert_int_eq(zep_micro_split(len, 6, 110, &first, &n, &err), ZEP_OK);
    ck_assert_int_eq(n, 3);
    ck_assert(first[0] == 0 && first[1] == 2 && first[2] == 4 - 1 + 1 && first[3] == 6);
    free(first);
    ck_assert_int_eq(zep_micro_split(len, 6, 99, &first, &n, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "sequence 3 has 100 tokens"));
    ck_assert_int_eq(zep_micro_split(len, 0, 99, &first, &n, &err), ZEP_OK);
    ck_assert_int_eq(n, 0);
    free(first);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planner: workloads and batches");
    TCase *t = tcase_create("all");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, lengths);
    tcase_add_test(t, distributions);
    tcase_add_test(t, datasets);
    tcase_add_test(t, negative_token);
    tcase_add_test(t, tokens_of_a_large_set);
    tcase_add_test(t, damaged_datasets);
    tcase_add_test(t, batches);
    tcase_add_loop_test(t, windows, 0, 40);
    tcase_add_test(t, window_by_hand);
    tcase_add_test(t, window_composes);
    tcase_add_test(t, pass_over_documents);
    tcase_add_test(t, micro_steps);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
