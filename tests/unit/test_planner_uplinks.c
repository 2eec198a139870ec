/* Links above leaf switches: which of them a transfer takes, and how long it takes there, worked out by hand. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/plan.h"
#include "planner/plan_internal.h"
#include "planner/sim.h"

#define PAIR_S 1e-9
#define HOP_S (2000 * 100 / 25e6) /* 2000 rows of 100 bytes at 25 MB/s: 8 ms */
#define NEAR(a, b) near_to((double)(a), (double)(b))

static void near_to(double got, double want)
{
    ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want) + 1e-15, "%.12g, expected %.12g", got, want);
}

static struct zep_view *view_of(const char *nodes, const char *fabrics)
{
    char text[2000];
    struct zep_topo *t = NULL;
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    snprintf(text, sizeof text, "format: zeppelin-topology/1.0\nnodes:\n%s%s", nodes, fabrics);
    ck_assert_msg(zep_topo_parse("f", text, strlen(text), &t, &err) == ZEP_OK, "%s\n%s", err.text, text);
    ck_assert_msg(zep_view_new(t, 0, 0, 1, &v, &err) == ZEP_OK, "%s", err.text);
    zep_topo_free(t);
    return v;
}

/* Attention alone, 100 bytes a row. */
static struct zep_cost plain_cost(void)
{
    struct zep_cost c = {.tp = 1, .attn_fwd_s = PAIR_S, .attn_bwd_s = 3 * PAIR_S, .mem_bw = 1e30, .q_row = 50, .kv_row = 100, .dkv_row = 200, .mem_bytes = 1e12};

    c.model.n_layer = 1;
    return c;
}

/* Rings of two devices, each with one sequence of 4000 tokens. */
static struct zep_plan *pairs(const struct zep_view *view, int n, const int32_t (*pair)[2])
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_draft draft;
    struct zep_error err = {0};
    const int64_t len[4] = {4000, 4000, 4000, 4000};

    opts.capacity_tok = 1 << 30;
    opts.remap = 0;
    ck_assert_int_eq(zep_draft_init(&draft, n, &err), ZEP_OK);
    for (int i = 0; i < n; i++) {
        int set = zep_sets_get(&draft.sets, pair[i], 2, &err);

        ck_assert_int_ge(set, 0);
        draft.order[i] = i;
        zep_draft_place(&draft, i, len[i], set);
    }
    ck_assert_msg(zep_plan_from_draft(view, len, &opts, 0, &draft, &plan, &err) == ZEP_OK, "%s", err.text);
    zep_draft_free(&draft);
    return plan;
}

static const double other_s = 2 * 1000.0 * 1000 * PAIR_S; /* the step with the block that came */

#define FOUR "- {id: \"n[0-3]\", nics: [{key: a, bandwidth: 25MB/s}], devices: [{key: g, nic: 0, bandwidth: 1GB/s}]}\n"
#define EIGHT "- {id: \"n[0-7]\", nics: [{key: a, bandwidth: 25MB/s}], devices: [{key: g, nic: 0, bandwidth: 1GB/s}]}\n"
#define RAILS "- {id: \"n[0-1]\", nics: [{key: a, bandwidth: 25MB/s}, {key: b, bandwidth: 25MB/s}], devices: [{key: g, nic: 0, bandwidth: 1GB/s}, {key: h, nic: 1, bandwidth: 1GB/s}]}\n"
#define TWO_LEAVES(bw) "fabrics:\n- name: net\n  switches:\n  - {name: l0, parents: [s], nodes: \"n[0-1]\"" bw "}\n  - {name: l1, parents: [s], nodes: \"n[2-3]\"" bw "}\n  - {name: s}\n"
#define PODS(leaf, pod) "fabrics:\n- name: net\n  switches:\n" \
    "  - {name: l0, parents: [p0, q0], nodes: \"n[0-1]\", uplink_bandwidth: " leaf "}\n  - {name: l1, parents: [p0, q0], nodes: \"n[2-3]\", uplink_bandwidth: " leaf "}\n" \
    "  - {name: l2, parents: [p1, q1], nodes: \"n[4-5]\", uplink_bandwidth: " leaf "}\n  - {name: l3, parents: [p1, q1], nodes: \"n[6-7]\", uplink_bandwidth: " leaf "}\n" \
    "  - {name: p0, parents: [c, d], uplink_bandwidth: " pod "}\n  - {name: q0, parents: [c, d], uplink_bandwidth: " pod "}\n  - {name: p1, parents: [c, d], uplink_bandwidth: " pod "}\n" \
    "  - {name: q1, parents: [c, d], uplink_bandwidth: " pod "}\n  - {name: c}\n  - {name: d}\n"
#define TWO_RAILS "fabrics:\n- name: net\n  kind: rails\n  switches:\n  - {name: r0, parents: [s], nodes: \"n[0-1]\", port: 0, uplink_bandwidth: 5MB/s}\n  - {name: r1, parents: [s], nodes: \"n[0-1]\", port: 1, uplink_bandwidth: 5MB/s}\n  - {name: s}\n"

static const struct {
    const char *what, *nodes, *fabrics;
    int n;
    int32_t pair[4][2];
    double hops;  /* forward: how many times as long as a hop over a free NIC until the last block is there */
    double busy;  /* likewise, of the busiest uplink, forward; 0: none is in use */
    const char *name; /* of it */
} cases[] = {
    {"two flows, one after the other", FOUR, TWO_LEAVES(", uplink_bandwidth: 25MB/s"), 2, {{0, 2}, {1, 3}}, 2, 2, "l0"},
    {"one flow alone", FOUR, TWO_LEAVES(", uplink_bandwidth: 25MB/s"), 1, {{0, 2}}, 1, 1, "l0"},
    {"half a NIC's bandwidth for both", FOUR, TWO_LEAVES(", uplink_bandwidth: 12.5MB/s"), 2, {{0, 2}, {1, 3}}, 4, 4, "l0"},
    {"more than all NICs below it", FOUR, TWO_LEAVES(", uplink_bandwidth: 100MB/s"), 2, {{0, 2}, {1, 3}}, 1, .5, "l0"},
    {"not known: not a resource", FOUR, TWO_LEAVES(""), 2, {{0, 2}, {1, 3}}, 1, 0, NULL},
    {"below one leaf", FOUR, TWO_LEAVES(", uplink_bandwidth: 1MB/s"), 2, {{0, 1}, {2, 3}}, 1, 0, NULL},
    {"no fabric", FOUR, "", 2, {{0, 2}, {1, 3}}, 1, 0, NULL},
    {"inside a pod: its leaves' links only, all ways up together", EIGHT, PODS("25MB/s", "1MB/s"), 2, {{0, 2}, {1, 3}}, 2, 2, "l0"},
    {"between pods: theirs as well, two switches of each together", EIGHT, PODS("100MB/s", "5MB/s"), 1, {{0, 4}}, 2.5, 2.5, "p0"},
    {"between pods: what is narrowest", EIGHT, PODS("10MB/s", "100MB/s"), 1, {{0, 4}}, 2.5, 2.5, "l0"},
    {"between pods: all four flows", EIGHT, PODS("100MB/s", "12.5MB/s"), 4, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, 4, 4, "p0"},
    {"one rail", RAILS, TWO_RAILS, 1, {{0, 2}}, 1, 0, NULL},
    {"from rail to rail", RAILS, TWO_RAILS, 1, {{0, 3}}, 5, 5, "r0"},
};

START_TEST(flows)
{
    struct zep_view *view = view_of(cases[_i].nodes, cases[_i].fabrics);
    struct zep_plan *plan = pairs(view, cases[_i].n, cases[_i].pair);
    struct zep_cost cost = plain_cost();
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};

    view->net_latency_s = view->dev_latency_s = 0;
    ck_assert_msg(zep_simulate(plan, view, &cost, NULL, &sim, &err) == ZEP_OK, "%s: %s", cases[_i].what, err.text);
    ck_assert_msg(fabs(sim->pass[0].time_s - cases[_i].hops * HOP_S - other_s) < 1e-9, "%s: %.9g hops", cases[_i].what, (sim->pass[0].time_s - other_s) / HOP_S);
    NEAR(sim->pass[0].up_busy_s, cases[_i].busy * HOP_S);
    NEAR(sim->pass[0].nic_busy_s, HOP_S);
    if (cases[_i].name)
        ck_assert_str_eq(view->up[sim->pass[0].busiest_up].name, cases[_i].name);
    else
        ck_assert_int_eq(sim->pass[0].busiest_up, -1);
    zep_sim_free(sim);
    zep_plan_free(plan);
    zep_view_free(view);
}
END_TEST

/* The critical path goes through the flow that had the link before. */
START_TEST(waits_behind)
{
    struct zep_view *view = view_of(FOUR, TWO_LEAVES(", uplink_bandwidth: 25MB/s"));
    struct zep_plan *plan = pairs(view, 2, (const int32_t[][2]){{0, 2}, {1, 3}});
    struct zep_cost cost = plain_cost();
    struct zep_sim_opts opts = {1};
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};
    int32_t *span;
    int n, n_net = 0;

    view->net_latency_s = view->dev_latency_s = 0;
    ck_assert_msg(zep_simulate(plan, view, &cost, &opts, &sim, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_sim_critical(&sim->pass[0], &span, &n, &err), ZEP_OK);
    for (int i = 0; i < n; i++)
        n_net += sim->pass[0].span[span[i]].kind == ZEP_SPAN_XFER_NET;
    ck_assert_int_eq(n_net, 2);
    free(span);
    zep_sim_free(sim);
    zep_plan_free(plan);
    zep_view_free(view);
}
END_TEST

/* Gradients and parameters: a ring over the nodes in the order of the tree crosses the links of a leaf once each way; rails that all nodes hang on are not left. */
static const struct {
    const char *nodes, *fabrics;
    int n_dev;
    double slowest; /* bytes/s: a node's NICs, or the links above */
} exchanges[] = {
    {FOUR, TWO_LEAVES(", uplink_bandwidth: 10MB/s"), 4, 10e6},
    {FOUR, TWO_LEAVES(", uplink_bandwidth: 100MB/s"), 4, 25e6},
    {FOUR, TWO_LEAVES(""), 4, 25e6},
    {EIGHT, PODS("100MB/s", "6MB/s"), 8, 12e6},
    {RAILS, TWO_RAILS, 4, 50e6},
};

START_TEST(exchange)
{
    struct zep_view *view = view_of(exchanges[_i].nodes, exchanges[_i].fabrics);
    struct zep_plan *plan = pairs(view, 1, (const int32_t[][2]){{0, 1}});
    struct zep_cost cost = plain_cost();
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};
    double part = 1e6 * (2 + 2) * (exchanges[_i].n_dev - 1) / exchanges[_i].n_dev;

    cost.other_params = 1e6;
    cost.grad_bytes = cost.param_bytes = 2;
    ck_assert_msg(zep_simulate(plan, view, &cost, NULL, &sim, &err) == ZEP_OK, "%s", err.text);
    NEAR(sim->exchange_s, part / exchanges[_i].slowest);
    zep_sim_free(sim);
    zep_plan_free(plan);
    zep_view_free(view);
}
END_TEST

static const struct {
    const char *nodes, *fabrics;
    int unknown, known;
} counts[] = {
    {FOUR, "", 0, 0},
    {FOUR, TWO_LEAVES(""), 2, 0},
    {FOUR, TWO_LEAVES(", uplink_bandwidth: 10MB/s"), 0, 2},
    {FOUR, "fabrics:\n- name: net\n  switches:\n  - {name: l0, parents: [s], nodes: \"n[0-1]\"}\n  - {name: l1, parents: [s], nodes: \"n[2-3]\", uplink_bandwidth: 1GB/s}\n  - {name: s}\n", 1, 1},
    {FOUR, "fabrics:\n- name: net\n  switches:\n  - {name: l0, parents: [s], nodes: \"n[0-3]\"}\n  - {name: s}\n", 0, 0}, /* all below one leaf: nothing goes up */
    {EIGHT, PODS("1GB/s", "1GB/s"), 0, 6},
    {FOUR, "fabrics:\n- name: blocks\n  kind: blocks\n  switches:\n  - {name: b0, nodes: \"n[0-1]\"}\n  - {name: b1, nodes: \"n[2-3]\"}\n", 0, 0},
    /* a node on two switches, its ports unknown: no way is known */
    {FOUR, "fabrics:\n- name: net\n  switches:\n  - {name: l0, parents: [s], nodes: \"n[0-3]\"}\n  - {name: l1, parents: [s], nodes: \"n[0-3]\"}\n  - {name: s}\n", 1, 0},
};

START_TEST(unknown_links)
{
    struct zep_view *view = view_of(counts[_i].nodes, counts[_i].fabrics);
    int known, unknown = zep_view_unknown_links(view, &known);

    ck_assert_int_eq(unknown, counts[_i].unknown);
    if (unknown || counts[_i].known)
        ck_assert_int_eq(known, counts[_i].known);
    zep_view_free(view);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("planner: links above leaf switches");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_add_loop_test(t, flows, 0, ROWS(cases));
    tcase_add_test(t, waits_behind);
    tcase_add_loop_test(t, exchange, 0, ROWS(exchanges));
    tcase_add_loop_test(t, unknown_links, 0, ROWS(counts));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
