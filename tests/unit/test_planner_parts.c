/* The planner's parts on their own: chunks, methods, routing, remapping, plan files. */
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
    tcase_add_test(t, plan_files);
    tcase_add_test(t, compact);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
