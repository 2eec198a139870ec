/* The planner's parts on their own: chunks, methods, routing, remapping, workloads, data sets, batches, plan files. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/rng.h"
#include "planner/check.h"
#include "planner/cost.h"
#include "planner/dataset.h"
#include "planner/plan.h"
#include "planner/plan_internal.h"
#include "planner/workload.h"
#include "tests/unit/view_util.h"

/* Chunk sizes by the rule in plan.h, token by token. */
START_TEST(chunks)
{
    for (int g = 1; g <= 9; g++)
        for (int64_t len = 1; len <= 4 * g + 3; len++)
            for (int rot = 0; rot < 2 * g; rot++) {
                int64_t size[18], at = 0, b, e;

                for (int c = 0; c < 2 * g; c++)
                    size[c] = len / (2 * g);
                for (int64_t x = 0; x < len % (2 * g); x++) {
                    int slot = (int)((rot + x) % (2 * g));

                    size[slot < g ? slot : 2 * g - 1 - (slot - g)]++;
                }
                for (int c = 0; c < 2 * g; c++) {
                    zep_chunk_range(len, g, rot, c, &b, &e);
                    ck_assert_int_eq(b, at);
                    ck_assert_int_eq(e, at + size[c]);
                    at = e;
                }
                ck_assert_int_eq(at, len);
                for (int m = 0; m < g; m++)
                    ck_assert_int_eq(zep_member_tokens(len, g, rot, m), size[m] + size[2 * g - 1 - m]);
                ck_assert_int_eq(zep_rot_next(len, g, rot), (rot + len % (2 * g)) % (2 * g));
            }
}
END_TEST

/* How many proxies a hop gets by cost: two nodes of four devices and four NICs, one sequence over all devices in a single ring; a block is 1 MB. */
static const struct {
    const char *what;
    double port_bw, nic_bw[4], latency_s; /* NICs of the second node */
    int max_proxies, want;
} paths[] = {
    {"ports are fast: all four", 200e9, {25e9, 25e9, 25e9, 25e9}, 0, 0, 4},
    {"ports are no faster than NICs: straight", 25e9, {25e9, 25e9, 25e9, 25e9}, 0, 0, 1},
    {"twice through a port takes what a NIC saves: straight", 49e9, {25e9, 25e9, 25e9, 25e9}, 0, 0, 1},
    {"the last NIC is slow: three", 200e9, {25e9, 25e9, 25e9, 2e9}, 0, 0, 3},
    {"no more than asked for", 200e9, {25e9, 25e9, 25e9, 25e9}, 0, 2, 2},
    {"the way to the proxies takes longer than the block: straight", 200e9, {25e9, 25e9, 25e9, 25e9}, 1e-3, 0, 1},
    {"a bandwidth is not known: all", 200e9, {25e9, 25e9, 25e9, 0}, 0, 0, 4},
};

START_TEST(proxies_by_cost)
{
    struct zep_cost cost = {.kv_row = 1e6 / 1024, .tp = 1};
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_view *view = make_view(2, 4, 4);
    int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct zep_draft draft;
    struct zep_plan *plan;
    struct zep_error err = {0};
    const int64_t len = 8192;

    for (int d = 0; d < 8; d++)
        view->dev_bw[d] = paths[_i].port_bw;
    for (int c = 0; c < 8; c++)
        view->nic_bw[c] = c < 4 ? 25e9 : paths[_i].nic_bw[c - 4];
    view->dev_latency_s = paths[_i].latency_s;
    opts.capacity_tok = 1024;
    opts.max_proxies = paths[_i].max_proxies;
    opts.cost = &cost;
    opts.remap = 0;
    ck_assert_int_eq(zep_draft_init(&draft, 1, &err), ZEP_OK);
    zep_draft_place(&draft, 0, len, zep_sets_get(&draft.sets, all, 8, &err));
    ck_assert_msg(zep_plan_from_draft(view, &len, &opts, 1, &draft, &plan, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(plan->n_hop, 2);
    ck_assert_msg(plan->hop[0].n_proxy == paths[_i].want, "%s: %d", paths[_i].what, plan->hop[0].n_proxy); /* from device 3 to 4: NICs 3, 0, 1, 2 of the first node, 0, 1, 2, 3 of the second */
    ck_assert_msg(zep_plan_check(plan, &len, 1, NULL, NULL, &err) == ZEP_OK, "%s", err.text);
    zep_plan_free(plan);
    opts.method = "zeppelin-paper"; /* as published: always all */
    ck_assert_int_eq(zep_plan_from_draft(view, &len, &opts, 1, &draft, &plan, &err), ZEP_OK);
    ck_assert_int_eq(plan->hop[0].n_proxy, paths[_i].max_proxies ? paths[_i].max_proxies : 4);
    zep_plan_free(plan);
    zep_draft_free(&draft);
    test_view_free(view);
}
END_TEST

static struct zep_plan *build(struct zep_view *view, const int64_t *len, int n, const char *method, int64_t cap, int max_proxies)
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_error err = {0};

    opts.method = method;
    opts.capacity_tok = cap;
    opts.max_proxies = max_proxies;
    ck_assert_msg(zep_plan_build(view, len, n, &opts, &plan, &err) == ZEP_OK, "%s", err.text);
    return plan;
}

/* Long ones over nodes, medium ones in a node, short ones on a device. */
START_TEST(zones)
{
    static const int64_t len[] = {8000, 1500, 300, 200, 100};
    static const int want[] = {ZEP_ZONE_INTER, ZEP_ZONE_INTRA, ZEP_ZONE_LOCAL, ZEP_ZONE_LOCAL, ZEP_ZONE_LOCAL};
    struct zep_view *view = make_view(2, 4, 2);
    struct zep_plan *p = build(view, len, 5, "zeppelin-paper", 1400, 0);

    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(p->ring[p->seq[i].ring].zone, want[i]);
    ck_assert_int_eq(p->ring[p->seq[0].ring].n_member, 8);
    for (int d = 0; d < 8; d++)
        ck_assert_int_le(p->attn_tok[d], 1400);
    zep_plan_free(p);
    p = build(view, len, 5, "te-cp", 1400, 0);
    ck_assert_int_eq(p->n_ring, 1);
    ck_assert_int_eq(p->ring[0].n_member, 8);
    ck_assert_int_eq(p->n_move, 0);
    for (int i = 0; i < p->n_hop; i++)
        ck_assert_int_eq(p->hop[i].n_proxy, 1);
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

/* Inside a node the paper's load is quadratic: 600 on one device, beside it 400, 300 and 300, which have more tokens but less attention. */
START_TEST(quadratic_loads)
{
    static const int64_t len[] = {300, 600, 300, 400};
    struct zep_view *view = make_view(1, 2, 1);
    struct zep_plan *p = build(view, len, 4, "zeppelin-paper", 1000, 0);

    ck_assert_int_eq(p->attn_tok[0], 600);
    ck_assert_int_eq(p->attn_tok[1], 1000);
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

/* Sequences of one length over one node: one share each, none cut. */
START_TEST(even_loads)
{
    int64_t len[8];
    struct zep_view *view = make_view(2, 4, 2);
    struct zep_plan *p;

    for (int i = 0; i < 8; i++)
        len[i] = 100;
    p = build(view, len, 8, "zeppelin-paper", 125, 0);
    ck_assert_int_eq(p->n_ring, 8);
    for (int d = 0; d < 8; d++)
        ck_assert_int_eq(p->attn_tok[d], 100);
    ck_assert_int_eq(p->n_move, 0);
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

START_TEST(routes)
{
    static const int64_t len[] = {4000};
    static const struct {
        int nic0, nic1, max, want;
    } cases[] = {{4, 4, 0, 4}, {4, 2, 0, 2}, {4, 4, 3, 3}, {1, 1, 0, 1}, {0, 4, 0, 1}, {0, 0, 0, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int dev[] = {4, 4}, nic[] = {cases[i].nic0, cases[i].nic1};
        struct zep_view *view = make_view_uneven(2, dev, nic);
        struct zep_plan *p = build(view, len, 1, "zeppelin-paper", 600, cases[i].max);

        ck_assert_int_eq(p->n_hop, 2);
        for (int h = 0; h < 2; h++) {
            const struct zep_plan_hop *hop = &p->hop[h];
            unsigned seen_src = 0, seen_dst = 0;

            ck_assert_msg(hop->n_proxy == cases[i].want, "case %zu: %d proxies, expected %d", i, hop->n_proxy, cases[i].want);
            for (int k = 0; k < hop->n_proxy; k++) {
                const struct zep_plan_proxy *x = &p->proxy[hop->proxy0 + k];

                if (hop->n_proxy > 1) { /* each part over another NIC at both ends */
                    ck_assert(!(seen_src & 1u << view->dev_nic[x->src]) && !(seen_dst & 1u << view->dev_nic[x->dst]));
                    seen_src |= 1u << view->dev_nic[x->src];
                    seen_dst |= 1u << view->dev_nic[x->dst];
                }
            }
            /* the first part needs no dispatch and no combine */
            ck_assert_int_eq(p->proxy[hop->proxy0].src, p->member[hop->from]);
            ck_assert_int_eq(p->proxy[hop->proxy0].dst, p->member[(hop->from + 1) % 8]);
        }
        zep_plan_free(p);
        test_view_free(view);
    }
}
END_TEST

/* The largest cost over senders, by trying every way to share what crosses among the senders of a node. */
static int64_t best_cost(const int64_t *surplus, int n, int64_t cross, int64_t in, int64_t out)
{
    int64_t best = INT64_MAX;

    if (n == 1)
        return cross > surplus[0] ? INT64_MAX : in * surplus[0] + (out - in) * cross;
    for (int64_t y = 0; y <= surplus[0] && y <= cross; y++) {
        int64_t mine = in * surplus[0] + (out - in) * y, rest = best_cost(surplus + 1, n - 1, cross - y, in, out), worst = mine > rest ? mine : rest;

        best = worst < best ? worst : best;
    }
    return best;
}

START_TEST(remap_optimum)
{
    struct zep_rng rng;
    struct zep_error err;

    zep_rng_seed(&rng, 3);
    for (int trial = 0; trial < 300; trial++) {
        struct zep_view *view = make_view(2, 3, 3);
        int64_t tok[6], total = 0, surplus[3], cost[6] = {0}, crossing = 0, want = 0, worst = 0, in = 1000000000000 / (int64_t)200e9 + 1, out = 1000000000000 / (int64_t)25e9 + 1;
        struct zep_plan p = {.n_dev = 6};
        int n = 0;

        for (int d = 0; d < 6; d++)
            total += tok[d] = (int64_t)zep_rng_below(&rng, d < 3 ? 30 : 8);
        tok[5] += (6 - total % 6) % 6; /* so that shares are whole */
        total += (6 - total % 6) % 6;
        ck_assert_int_eq(zep_plan_remap(view, tok, NULL, &p, &err), ZEP_OK);
        for (int i = 0; i < p.n_move; i++) {
            const struct zep_plan_move *m = &p.move[i];

            ck_assert(i == 0 || m->from > m[-1].from || (m->from == m[-1].from && m->to > m[-1].to));
            tok[m->from] -= m->n;
            tok[m->to] += m->n;
            if (m->from < 3) {
                cost[m->from] += m->n * (m->to < 3 ? in : out);
                crossing += m->to < 3 ? 0 : m->n;
            }
        }
        for (int d = 0; d < 6; d++)
            ck_assert_msg(tok[d] <= total / 6 + 1 && tok[d] >= total / 6 - (p.n_move ? 0 : 1), "trial %d: device %d has %lld of %lld", trial, d, (long long)tok[d], (long long)total);
        for (int d = 0; d < 3; d++) {
            int64_t sent = 0;

            for (int i = 0; i < p.n_move; i++)
                sent += p.move[i].from == d ? p.move[i].n : 0;
            if (sent)
                surplus[n++] = sent;
            worst = cost[d] > worst ? cost[d] : worst;
        }
        if (n && crossing) {
            want = best_cost(surplus, n, crossing, in, out);
            ck_assert_msg(worst <= want + out, "trial %d: largest cost %lld, the best is %lld", trial, (long long)worst, (long long)want); /* within one token */
        }
        free(p.move);
        test_view_free(view);
    }
}
END_TEST

START_TEST(bad_plans)
{
    static const int64_t len[] = {1000, 2000, 5692}, zero[] = {5, 0};
    struct zep_view *view = make_view(2, 4, 2);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan;
    struct zep_error err;

    opts.capacity_tok = 1024;
    ck_assert_int_eq(zep_plan_build(view, len, 3, &opts, &plan, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "capacity 1024 tokens x 8 devices = 8192 is 500 tokens short of the batch's 8692; --capacity 1087 would fit, or fewer tokens a step (--tokens)");
    opts.capacity_tok = 1087;
    ck_assert_int_eq(zep_plan_build(view, len, 3, &opts, &plan, &err), ZEP_OK);
    zep_plan_free(plan);
    opts.capacity_tok = 0;
    ck_assert_int_eq(zep_plan_build(view, len, 3, &opts, &plan, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "capacity 0: expected at least 1 token a device");
    opts.capacity_tok = 10;
    ck_assert_int_eq(zep_plan_build(view, zero, 2, &opts, &plan, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "sequence 1: 0 tokens, expected at least 1");
    opts.method = "zepelin";
    ck_assert_int_eq(zep_plan_build(view, len, 1, &opts, &plan, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "unknown method 'zepelin' (did you mean 'zeppelin'?): expected one of zeppelin, zeppelin-paper, te-cp, llama-cp, static-cp, hybrid-dp, flexsp, wlb, ulysses, usp, packed-dp, auto");
    test_view_free(view);
}
END_TEST

START_TEST(empty_plan)
{
    struct zep_view *view = make_view(2, 2, 1);
    struct zep_plan *p = build(view, NULL, 0, "zeppelin", 5, 0);

    ck_assert_int_eq(p->n_token, 0);
    ck_assert_int_eq(p->n_ring, 0);
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

/* --- files --- */

static const char *tmp_path(const char *name)
{
    static char path[256];
    const char *dir = getenv("ZEP_BUILDDIR");

    snprintf(path, sizeof path, "%s/tests/unit/parts-%ld-%s", dir ? dir : "/tmp", (long)getpid(), name);
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

START_TEST(plan_files)
{
    static const int64_t len[] = {900, 120, 60, 7};
    struct zep_view *view = make_view(2, 4, 2);
    struct zep_plan *p = build(view, len, 4, "zeppelin", 150, 0), *q = NULL;
    struct zep_buf b = ZEP_BUF_INIT, again = ZEP_BUF_INIT;
    struct zep_error err;
    char *text;

    ck_assert_int_eq(zep_plan_to_json(p, &b, &err), ZEP_OK);
    ck_assert_msg(zep_plan_from_json("p.json", b.data, b.len, &q, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_plan_to_json(q, &again, &err), ZEP_OK);
    ck_assert_str_eq(b.data, again.data);
    zep_plan_free(q);
    for (size_t cut = 0; cut + 2 < b.len; cut += 11) /* cut off anywhere: an error */
        ck_assert_int_lt(zep_plan_from_json("p.json", b.data, cut, &q, &err), 0);
    text = strstr(b.data, "\"len\": 120");
    text[7] = '2'; /* another length: the digest tells */
    ck_assert_int_lt(zep_plan_from_json("p.json", b.data, b.len, &q, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "the file was changed or damaged"));
    ck_assert_int_eq(zep_plan_from_json("p.json", "{\"format\": \"zeppelin-plan/2.0\"}", 31, &q, &err), ZEP_EREFUSED);
    ck_assert_int_eq(zep_plan_from_json("p.json", "[]", 2, &q, &err), ZEP_EINVAL);
    zep_buf_free(&b);
    zep_buf_free(&again);
    ck_assert_int_eq(zep_plan_to_text(p, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "inter-node"));
    zep_buf_free(&b);
    ck_assert_int_eq(zep_plan_to_svg(p, NULL, NULL, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "</svg>"));
    zep_buf_free(&b);
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

/* The compactness that is promised: at most 64 bytes a piece or membership. */
START_TEST(compact)
{
    ck_assert_int_le(sizeof(struct zep_plan_seq) + sizeof(int32_t), 64);
    ck_assert_int_le(sizeof(struct zep_plan_slot) + sizeof(int32_t), 64);
    ck_assert_int_le(sizeof(struct zep_plan_ring), 64);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planner: parts");
    TCase *t = tcase_create("parts");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, chunks);
    tcase_add_loop_test(t, proxies_by_cost, 0, (int)(sizeof paths / sizeof paths[0]));
    tcase_add_test(t, zones);
    tcase_add_test(t, quadratic_loads);
    tcase_add_test(t, even_loads);
    tcase_add_test(t, routes);
    tcase_add_test(t, remap_optimum);
    tcase_add_test(t, bad_plans);
    tcase_add_test(t, empty_plan);
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
    tcase_add_test(t, plan_files);
    tcase_add_test(t, compact);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
