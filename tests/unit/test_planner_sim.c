/* The simulator against cases that are worked out by hand, and what must hold of every simulation. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "planner/plan.h"
#include "planner/plan_internal.h"
#include "planner/sim.h"
#include "tests/unit/view_util.h"

#define PAIR_S 1e-9
#define NEAR(a, b) near_to((double)(a), (double)(b))

static void near_to(double got, double want)
{
    ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want) + 1e-15, "%.12g, expected %.12g", got, want);
}

/* Attention alone: no launch cost, no tiles, nothing linear, copies and additions for nothing; 100 bytes a row of keys and values, 200 of their gradients. */
static struct zep_cost plain_cost(void)
{
    struct zep_cost c = {.tp = 1, .attn_fwd_s = PAIR_S, .attn_bwd_s = 3 * PAIR_S, .mem_bw = 1e30, .q_row = 50, .kv_row = 100, .dkv_row = 200, .mem_bytes = 1e12};

    c.model.n_layer = 1;
    return c;
}

static struct zep_sim *simulate(const struct zep_plan *plan, const struct zep_view *view, const struct zep_cost *cost)
{
    struct zep_sim_opts opts = {1};
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_simulate(plan, view, cost, &opts, &sim, &err) == ZEP_OK, "%s", err.text);
    return sim;
}

/* One ring over each set of devices, with one sequence each. */
static struct zep_plan *rings_with(int form, int heads, const struct zep_view *view, int n, const int64_t *len, const int32_t (*item)[10], const int *n_item, int routing)
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_draft draft;
    struct zep_error err = {0};

    opts.capacity_tok = 1 << 30;
    opts.remap = 0;
    ck_assert_int_eq(zep_draft_init(&draft, n, &err), ZEP_OK);
    for (int i = 0; i < n; i++) {
        int set = zep_sets_get(&draft.sets, item[i], n_item[i], &err);

        ck_assert_int_ge(set, 0);
        draft.sets.set[set].form = form;
        draft.sets.set[set].heads = heads;
        draft.order[i] = i;
        zep_draft_place(&draft, i, len[i], set);
    }
    ck_assert_msg(zep_plan_from_draft(view, len, &opts, routing, &draft, &plan, &err) == ZEP_OK, "%s", err.text);
    zep_draft_free(&draft);
    return plan;
}

static struct zep_plan *rings_of(int form, const struct zep_view *view, int n, const int64_t *len, const int32_t (*item)[10], const int *n_item, int routing)
{
    return rings_with(form, 0, view, n, len, item, n_item, routing);
}

static struct zep_plan *rings(const struct zep_view *view, int n, const int64_t *len, const int32_t (*item)[10], const int *n_item, int routing)
{
    return rings_of(ZEP_FORM_SINGLE, view, n, len, item, n_item, routing);
}

static double own(double chunk)
{
    return (2 * chunk * (chunk + 1) / 2 + chunk * chunk) * PAIR_S;
}

static double other(double chunk)
{
    return 2 * chunk * chunk * PAIR_S;
}

/* Two nodes of one device: a hop each way, each over its own NIC's direction. */
START_TEST(one_hop)
{
    const int64_t len = 4000;
    const double chunk = 1000, hop = 2000 * 100 / 25e9;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 1, 1);
    struct zep_plan *plan = rings(view, 1, &len, (const int32_t[][10]){{0, 1}}, (const int[]){2}, 1);
    struct zep_sim *sim = simulate(plan, view, &cost);

    NEAR(sim->pass[0].time_s, fmax(own(chunk), hop) + other(chunk));
    NEAR(sim->pass[0].net_bytes, 2 * 2000 * 100);
    NEAR(sim->pass[0].nic_busy_s, hop);
    for (int way = 0; way < 2; way++) /* a block each pass, a gradient of twice its size */
        for (int d = 0; d < 2; d++) {
            NEAR(sim->nic_busy[way][d], (1 + 1 + 2) * hop);
            NEAR(sim->port_busy[way][d], 0);
        }
    zep_sim_free(sim);
    view->nic_bw[0] = view->nic_bw[1] = 25e6; /* now the hop is what takes long: 8 ms */
    view->net_latency_s = 1e-3;
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, 1000 * hop + 1e-3 + other(chunk));
    NEAR(sim->pass[0].wait_net_s, 1000 * hop + 1e-3 - own(chunk));
    /* backward: the block comes (9 ms), nothing hides it; the step with it (6 ms); its gradient goes home, 200 bytes a row (17 ms), while the own block (6 ms) is computed */
    NEAR(sim->pass[1].time_s, 1000 * hop + 1e-3 + 3 * other(chunk) + 2000 * hop + 1e-3);
    NEAR(sim->pass[1].wait_net_s, 1000 * hop + 1e-3 + 2000 * hop + 1e-3 - 3 * own(chunk));
    NEAR(sim->pass[1].net_bytes, 2 * 2000 * (100 + 200)); /* one hop of blocks and one of gradients, from either */
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* Two rings whose hops share the NICs of two nodes: the second message comes behind the first. */
START_TEST(shared_nic)
{
    const int64_t len[] = {4000, 4000};
    const double hop = 2000 * 100 / 25e6;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 2, 1);
    struct zep_plan *plan = rings(view, 2, len, (const int32_t[][10]){{0, 2}, {1, 3}}, (const int[]){2, 2}, 0);
    struct zep_sim *sim;

    view->nic_bw[0] = view->nic_bw[1] = 25e6;
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, 2 * hop + other(1000));
    NEAR(sim->pass[0].nic_busy_s, 2 * hop);
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* A hop over 4 proxies: 3 of 4 parts are dispatched, the parts cross over 4 NICs at once, 3 are combined. */
START_TEST(routed)
{
    const int64_t len = 16000;
    const double n = 8000 * 100, nic = 25e5, port = 200e5;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 4, 4);
    struct zep_plan *plan;
    struct zep_sim *sim;

    for (int i = 0; i < 8; i++) {
        view->nic_bw[i] = nic;
        view->dev_bw[i] = port;
    }
    plan = rings(view, 1, &len, (const int32_t[][10]){{0, 4}}, (const int[]){2}, 1);
    ck_assert_int_eq(plan->hop[0].n_proxy, 4);
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, n * 3 / 4 / port + n / 4 / nic + n * 3 / 4 / port + other(4000));
    zep_sim_free(sim);
    zep_plan_free(plan);
    plan = rings(view, 1, &len, (const int32_t[][10]){{0, 4}}, (const int[]){2}, 0);
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, n / nic + other(4000));
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* A ring of four in a node: computing longer than transfers, and shorter. */
START_TEST(ring_of_four)
{
    const int64_t len = 8000;
    const double chunk = 1000, rows = 2000;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(1, 4, 1);
    struct zep_plan *plan = rings(view, 1, &len, (const int32_t[][10]){{0, 1, 2, 3}}, (const int[]){4}, 1);
    struct zep_sim *sim = simulate(plan, view, &cost);
    double hop = rows * 100 / 200e9;

    NEAR(sim->pass[0].time_s, own(chunk) + 3 * other(chunk)); /* all hidden */
    NEAR(sim->pass[1].time_s, hop + 3 * (own(chunk) + 3 * other(chunk))); /* but the first hop; the last one home is behind the own block */
    NEAR(sim->pass[0].wait_node_s, 0);
    zep_sim_free(sim);
    for (int i = 0; i < 4; i++)
        view->dev_bw[i] = 20e6;
    hop = rows * 100 / 20e6; /* 10 ms against 2 ms of computing */
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, 3 * hop + other(chunk));
    NEAR(sim->pass[0].wait_node_s, 3 * hop + other(chunk) - own(chunk) - 3 * other(chunk));
    NEAR(sim->pass[0].port_busy_s, 3 * hop);
    /* backward, h = 10 ms for a block and 2 h for its gradient, steps of 6 ms. Block 1: 0 to h, block 2: to 2 h. Step 1 ends at 16 ms, so that block 3 and the first sum go together: 2 h to 5 h.
     * Step 2 adds to that sum at 5 h: the second goes to 7 h, the third, home, to 9 h: the own block lies in between. */
    NEAR(sim->pass[1].time_s, 9 * hop);
    NEAR(sim->pass[1].port_busy_s, 9 * hop);
    for (int d = 0; d < 4; d++)
        NEAR(sim->port_busy[d % 2][d], (3 + 9) * hop);
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* A double ring of two nodes of two: own block, turn 1 (the other node's blocks) at places 0 and 1, own turn at place 1. */
START_TEST(double_ring)
{
    const int64_t len = 8000;
    const double chunk = 1000, rows = 2000;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 2, 2);
    struct zep_plan *plan = rings_of(ZEP_FORM_DOUBLE, view, 1, &len, (const int32_t[][10]){{0, 1, 2, 3}}, (const int[]){4}, 1);
    struct zep_sim *sim = simulate(plan, view, &cost);

    /* all hidden but the hop home inside the node, after the last step */
    NEAR(sim->pass[1].time_s, 3 * (own(chunk) + 3 * other(chunk)) + rows * 200 / 200e9);
    NEAR(sim->pass[1].net_bytes, 4 * rows * (100 + 200));         /* from each one crossing of a block and one of gradients */
    NEAR(sim->pass[1].node_bytes, 4 * rows * (2 * 100 + 2 * 200)); /* and in each turn one hop of either */
    zep_sim_free(sim);
    for (int i = 0; i < 4; i++) {
        view->nic_bw[i] = 25e6;
        view->dev_bw[i] = 200e6;
    }
    sim = simulate(plan, view, &cost);
    /* a block crosses until 8 ms, the own one is done at 6; place 0 until 14, its sum moves on with the own turn's block until 17, place 1 until 20; the turn's sum crosses in 16 ms, until 36, the own turn
     * is done at 26; home inside the node in 2 ms: 38 */
    NEAR(sim->pass[1].time_s, rows * 100 / 25e6 + 2 * 3 * other(chunk) + rows * 200 / 25e6 + rows * 200 / 200e6);
    NEAR(sim->pass[1].nic_busy_s, rows * 300 / 25e6);
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* A double ring of two nodes of five: the own block and one place of the own turn come before turn 1, three after it. */
START_TEST(early_places)
{
    const int64_t len = 20000;
    const double chunk = 1000, rows = 2000;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 5, 5);
    struct zep_plan *plan = rings_of(ZEP_FORM_DOUBLE, view, 1, &len, (const int32_t[][10]){{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, (const int[]){10}, 1);
    struct zep_sim *sim;

    for (int i = 0; i < 10; i++)
        view->nic_bw[i] = 20e6;
    sim = simulate(plan, view, &cost);
    /* a block crosses in 10 ms, behind two steps of 6; turn 1 has five steps, until 42; its sum crosses in 20, the three steps left take 18; then home inside the node */
    NEAR(sim->pass[1].time_s, 3 * own(chunk) + 6 * 3 * other(chunk) + rows * 200 / 20e6 + rows * 200 / 200e9);
    NEAR(sim->pass[1].node_bytes, 10 * rows * (8 * 100 + 8 * 200)); /* four hops of blocks and of gradients in each turn */
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* Heads among 2 and 4 devices of a node: each sends (U-1)/U of its rows; attention is the whole triangle on 1/U of the heads; nothing is hidden. */
START_TEST(heads_alone)
{
    const double bw = 20e6;

    for (int u = 2; u <= 4; u += 2) {
        const int64_t len = 8000;
        const double rows = 8000.0 / u, away = rows * (u - 1) / u, tri = 8000.0 * 8001 / 2 * PAIR_S / u;
        struct zep_cost cost = plain_cost();
        struct zep_view *view = make_view(1, u, 1);
        struct zep_plan *plan = rings_with(ZEP_FORM_SINGLE, u, view, 1, &len, (const int32_t[][10]){{0, 1, 2, 3}}, &u, 1);
        struct zep_sim *sim;

        for (int d = 0; d < u; d++)
            view->dev_bw[d] = bw;
        view->dev_latency_s = 1e-3;
        sim = simulate(plan, view, &cost);
        NEAR(sim->pass[0].time_s, away * (50 + 100) / bw + 1e-3 + tri + away * 50 / bw + 1e-3); /* q, k and v; then o */
        NEAR(sim->pass[0].heads_s, away * 200 / bw + 2e-3);
        NEAR(sim->pass[0].attn_s, tri);
        NEAR(sim->pass[0].wait_node_s, away * 200 / bw + 2e-3);
        NEAR(sim->pass[0].node_bytes, u * away * 200);
        NEAR(sim->pass[1].time_s, away * 50 / bw + 1e-3 + 3 * tri + away * (50 + 100) / bw + 1e-3); /* dO; then dQ, dK and dV, these in the model's type */
        zep_sim_free(sim);
        cost.mem_bw = 1e9; /* everything is packed and unpacked: read and written */
        cost.launch_s = 1e-5;
        sim = simulate(plan, view, &cost);
        NEAR(sim->pass[0].heads_s, away * 200 / bw + 2e-3 + 2 * (2 * away + rows / u) * 200 / 1e9 + (2 + 2 + 2 + 1) * 1e-5);
        zep_sim_free(sim);
        zep_plan_free(plan);
        test_view_free(view);
    }
}
END_TEST

/* Two nodes of two: heads inside, a ring of two groups between them, each pair of counterparts over its own NIC with half of the heads. */
START_TEST(heads_and_ring)
{
    const int64_t len = 8000;
    const double chunk = 2000, rows = 2000, bw = 200e6, nic = 25e6;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 2, 2);
    struct zep_plan *plan = rings_with(ZEP_FORM_SINGLE, 2, view, 1, &len, (const int32_t[][10]){{0, 1, 2, 3}}, (const int[]){4}, 1);
    double hop = 4000 * 50 / nic, own2 = own(chunk) / 2, other2 = other(chunk) / 2; /* 8 ms; 4 ms each */
    struct zep_sim *sim;

    for (int i = 0; i < 4; i++) {
        view->nic_bw[i] = nic;
        view->dev_bw[i] = bw;
    }
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, rows / 2 * 150 / bw + fmax(hop, own2) + other2 + rows / 2 * 50 / bw);
    NEAR(sim->pass[0].net_bytes, 4 * 4000 * 50);
    NEAR(sim->pass[0].nic_busy_s, hop);
    /* backward: the block comes, the step with it, its gradients (fp32) go home behind the own block */
    NEAR(sim->pass[1].time_s, rows / 2 * 50 / bw + hop + 3 * other2 + fmax(4000 * 100 / nic, 3 * own2) + rows / 2 * 150 / bw);
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* Four devices of a node that gather: first all blocks go to all of them, then each computes on its own and on the six chunks of the others; backward, the gradients of these (fp32) go home in three
 * hops, the own block hides the first of them. */
START_TEST(gathered)
{
    const int64_t len = 8000;
    const double chunk = 1000;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(1, 4, 1);
    struct zep_plan *plan = rings_of(ZEP_FORM_GATHER, view, 1, &len, (const int32_t[][10]){{0, 1, 2, 3}}, (const int[]){4}, 0);

    for (int slow = 0; slow < 2; slow++) {
        struct zep_sim *sim;
        double hop, rest = chunk * 6 * chunk * PAIR_S;

        for (int d = 0; d < 4 && slow; d++)
            view->dev_bw[d] = 1e7;
        hop = 2000 * 100 / view->dev_bw[0];
        sim = simulate(plan, view, &cost);
        NEAR(sim->pass[0].time_s, 3 * hop + own(chunk) + rest);
        NEAR(sim->pass[0].node_bytes, 4 * 3 * 2000 * 100);
        NEAR(sim->pass[1].time_s, 3 * hop + 3 * rest + fmax(3 * own(chunk), 2 * hop) + 2 * 2 * hop);
        zep_sim_free(sim);
    }
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* Linear modules and the rest of the step. */
START_TEST(step)
{
    const int64_t len[] = {4000, 4000};
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(1, 2, 1);
    struct zep_plan *plan = rings(view, 2, len, (const int32_t[][10]){{0}, {1}}, (const int[]){1, 1}, 1);
    struct zep_sim *sim;
    double tri = 4000.0 * 4001 / 2 * PAIR_S, params = 10 * 1e6 + 3e6, part;

    cost.model.n_layer = 10;
    cost.linear_fwd_s = 1e-6;
    cost.linear_bwd_s = 2e-6;
    cost.head_fwd_s = 1e-7;
    cost.head_bwd_s = 2e-7;
    cost.layer_params = 1e6;
    cost.other_params = 3e6;
    cost.grad_bytes = 2;
    cost.param_bytes = 2;
    cost.optim_bytes = 12;
    cost.mem_bw = 1e12;
    sim = simulate(plan, view, &cost);
    NEAR(sim->pass[0].time_s, 4000e-6 + tri);
    NEAR(sim->pass[1].time_s, 8000e-6 + 3 * tri);
    NEAR(sim->layers_s, 10 * (12000e-6 + 4 * tri));
    NEAR(sim->head_s, 4000 * 3e-7);
    part = params * 4 / 2 / 200e9; /* both directions of a pair of devices */
    NEAR(sim->exchange_s, part);
    NEAR(sim->optimizer_s, params * 28 / 2 / 1e12);
    NEAR(sim->step_s, sim->layers_s + sim->head_s + sim->exchange_s + sim->optimizer_s);
    NEAR(sim->tokens_s_dev, 8000 / sim->step_s / 2);
    NEAR(sim->mem_buffers, 4000 * (2 * 50 + 200)); /* of one layer: dO, dQ, and dK and dV */
    NEAR(sim->mem_state, params * 12 / 2);
    NEAR(sim->mem_bytes, sim->mem_buffers + sim->mem_state + sim->mem_tokens);
    zep_sim_free(sim);
    cost.engine.overlap_grad = 1; /* layers are far longer than the exchange: what is left is that of one layer each way, and of what is no layer */
    sim = simulate(plan, view, &cost);
    NEAR(sim->exchange_s, (1e6 + 3e6) * 4 / 2 / 200e9);
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* What overlaps shares the NICs with the layer's own transfers: a layer lasts at least as long as both need together. */
START_TEST(exchange_beside_transfers)
{
    const int64_t len = 4000;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 1, 1);
    struct zep_plan *plan = rings(view, 1, &len, (const int32_t[][10]){{0, 1}}, (const int[]){2}, 0);
    double nic = view->nic_bw[0], hop = 2000 * 100 / nic, back = 2000 * 300 / nic, params, part;
    struct zep_sim *sim;

    cost.model.n_layer = 3;
    cost.grad_bytes = cost.param_bytes = 2;
    cost.engine.overlap_grad = 1;
    for (int larger = 0; larger < 2; larger++) { /* parameters whose exchange takes a tenth of a pass, or twice as long as both */
        sim = simulate(plan, view, &cost);
        params = (larger ? 2 * (sim->pass[0].time_s + sim->pass[1].time_s) : 0.1 * (sim->pass[0].time_s - hop)) * nic;
        zep_sim_free(sim);
        cost.layer_params = params;
        part = params * 2 / 2 / nic; /* half of it over each NIC */
        sim = simulate(plan, view, &cost);
        NEAR(sim->pass[0].nic_busy_s, hop);
        NEAR(sim->pass[1].nic_busy_s, back);
        NEAR(sim->exchange_s, 2 * part + 3 * (fmax(hop + part - sim->pass[0].time_s, 0) + fmax(back + part - sim->pass[1].time_s, 0)));
        ck_assert(larger ? sim->exchange_s > 2.5 * part : sim->exchange_s < 2.5 * part);
        zep_sim_free(sim);
    }
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

START_TEST(refusals)
{
    const int64_t len = 4000;
    struct zep_cost cost = plain_cost();
    struct zep_view *view = make_view(2, 1, 1), *bare = make_view(2, 1, 0);
    struct zep_plan *plan = rings(view, 1, &len, (const int32_t[][10]){{0, 1}}, (const int[]){2}, 0);
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};

    view->nic_bw[1] = 0;
    ck_assert_int_eq(zep_simulate(plan, view, &cost, NULL, &sim, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "node 1: the bandwidth of its NICs is not known"));
    ck_assert_int_eq(zep_simulate(plan, bare, &cost, NULL, &sim, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "has no NIC"));
    cost.tp = 2;
    ck_assert_int_eq(zep_simulate(plan, view, &cost, NULL, &sim, &err), ZEP_EINVAL);
    zep_plan_free(plan);
    test_view_free(view);
    test_view_free(bare);
}
END_TEST

/* Random plans of all methods: nothing is faster than its parts, the critical path is a path, twice is the same. */
START_TEST(random_plans)
{
    struct zep_rng rng;

    zep_rng_seed(&rng, (uint64_t)_i);
    for (int round = 0; round < 20; round++) {
        int n_node = 1 + (int)(zep_rng_u64(&rng) % 4), n_dev = 1 + (int)(zep_rng_u64(&rng) % 8), n_nic = 1 + (int)(zep_rng_u64(&rng) % (unsigned)n_dev), n = 1 + (int)(zep_rng_u64(&rng) % 20);
        struct zep_view *view = make_view(n_node, n_dev, n_nic);
        struct zep_cost cost = plain_cost();
        int64_t len[20], total = 0;

        cost.tile = 64;
        cost.launch_s = 1e-6;
        cost.linear_fwd_s = 1e-8;
        cost.linear_bwd_s = 2e-8;
        cost.model.n_head = 24;
        cost.model.n_head_kv = 12;
        for (int i = 0; i < n; i++)
            total += len[i] = 1 + (int64_t)(zep_rng_u64(&rng) % 20000);
        for (int m = 0; zep_methods()[m]; m++) {
            struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
            struct zep_plan *plan = NULL;
            struct zep_sim *a, *b;
            struct zep_error err = {0};
            int rc;

            opts.method = zep_methods()[m]->name;
            opts.capacity_tok = total * 3 / 2 / view->n_dev + 1;
            opts.cost = &cost;
            rc = zep_plan_build(view, len, n, &opts, &plan, &err);
            if (rc == ZEP_EUNSUPPORTED)
                continue;
            ck_assert_msg(rc == ZEP_OK, "%s: %s", opts.method, err.text);
            a = simulate(plan, view, &cost);
            b = simulate(plan, view, &cost);
            ck_assert(a->step_s == b->step_s);
            for (int p = 0; p < 2; p++) {
                const struct zep_sim_pass *s = &a->pass[p];
                int32_t *list;
                int n_list;

                ck_assert(s->time_s >= s->compute_max_s * (1 - 1e-12) && s->time_s >= s->nic_busy_s * (1 - 1e-12) && s->time_s >= s->port_busy_s * (1 - 1e-12));
                NEAR(s->linear_s + s->remap_in_s + s->heads_s + s->attn_s + s->remap_out_s, s->time_s);
                ck_assert_int_eq(zep_sim_critical(s, &list, &n_list, &err), ZEP_OK);
                ck_assert_int_gt(n_list, 0);
                ck_assert(s->span[list[0]].t0 == 0);
                NEAR(s->span[list[n_list - 1]].t1, s->time_s);
                for (int i = 1; i < n_list; i++)
                    ck_assert(s->span[list[i]].t0 <= s->span[list[i - 1]].t1 * (1 + 1e-12) && s->span[list[i]].t1 >= s->span[list[i - 1]].t1);
                free(list);
            }
            zep_sim_free(a);
            zep_sim_free(b);
            zep_plan_free(plan);
        }
        test_view_free(view);
    }
}
END_TEST

START_TEST(costs)
{
    struct zep_model_desc m;
    struct zep_engine e;
    struct zep_cost c;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_model_load("llama-7b", &m, &err), ZEP_OK);
    ck_assert_int_eq(zep_engine_load("h100", &e, &err), ZEP_OK);
    ck_assert_int_eq(zep_cost_make(&m, &e, 1, 0, &c, &err), ZEP_OK);
    NEAR(c.attn_fwd_s, 4.0 * 4096 / (989.5e12 * 0.6));
    NEAR(c.attn_bwd_s, 2.5 * 4.0 * 4096 / (989.5e12 * 0.5));
    NEAR(c.linear_bwd_s, 2 * c.linear_fwd_s);
    NEAR(c.head_fwd_s + c.head_bwd_s, 3 * 2.0 * 4096 * 32000 / (989.5e12 * 0.7));
    NEAR(c.dkv_row, 2 * 4096 * 4);
    NEAR(c.state_bytes, 2 + 4); /* bf16 weights, fp32 gradients; in the optimizer's state two moments and fp32 weights */
    NEAR(c.optim_bytes, 12);
    NEAR(c.token_bytes, 2 * (4 * 4096 + 4 * 4096 + 3 * 11008) + 4 * 32);
    NEAR(c.linear_fwd_s, 2 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) / (989.5e12 * 0.7));
    NEAR(c.kv_row, 2 * 4096 * 2);
    NEAR(m.n_layer * c.layer_params + c.other_params, 6738415616.0); /* Llama 2 7B has 6.74e9 parameters */
    ck_assert_int_eq(zep_model_load("llama3-8b", &m, &err), ZEP_OK);
    ck_assert_int_eq(zep_cost_make(&m, &e, 4, 0, &c, &err), ZEP_OK);
    NEAR(m.n_layer * c.layer_params + c.other_params, 8030261248.0);
    NEAR(c.kv_row, 2 * 1024 * 2);
    NEAR(c.tp_fwd_s, 2 * (2.0 * 3 / 4) * 4096 * 2 / 450e9);
    ck_assert_int_eq(zep_cost_make(&m, &e, 3, 0, &c, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "do not divide over tensor parallelism of 3"));
    ck_assert_int_eq(zep_model_load("llama-7", &m, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "did you mean 'llama-7b'"));
    e.mem_bw = 0;
    ck_assert_int_eq(zep_cost_make(&m, &e, 1, 0, &c, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "memory_bandwidth is 0"));
    ck_assert_int_eq(zep_engine_load("h100", &e, &err), ZEP_OK);
    ck_assert_int_eq(zep_model_load("moe-8x550m", &m, &err), ZEP_OK);
    ck_assert_int_eq(zep_cost_make(&m, &e, 1, 0, &c, &err), ZEP_OK); /* two experts of eight compute, all hold parameters; and the router */
    NEAR(c.linear_fwd_s, 2 * (4.0 * 1536 * 1536 + 2 * 3.0 * 1536 * 4096 + 1536 * 8) / (989.5e12 * 0.7));
    NEAR(c.layer_params, 4.0 * 1536 * 1536 + 8 * 3.0 * 1536 * 4096 + 1536 * 8 + 2 * 1536);
    e.type_bytes = 4;
    ck_assert_int_eq(zep_cost_make(&m, &e, 1, 0, &c, &err), ZEP_OK); /* fp32 has its weights already */
    NEAR(c.state_bytes + c.optim_bytes, 4 + 4 + 8);
    NEAR(c.kv_row, 2 * 1536 * 4);
    {
        struct zep_cost kept = c;

        zep_cost_recompute(&c);
        NEAR(c.linear_bwd_s, 3 * kept.linear_fwd_s);
        NEAR(c.tp_bwd_s, 2 * kept.tp_bwd_s);
        NEAR(c.token_bytes, 4 * 1536 + 2 * kept.q_row + kept.kv_row + 4 * 16 + kept.token_bytes / 16);
    }
    c.tile = 0;
    NEAR(zep_cost_rect(&c, 100, 50), 5000);
    NEAR(zep_cost_tri(&c, 100), 5050);
    NEAR(zep_cost_rect(&c, 0.5, 0.25), 0.125);
    c.tile = 64;
    NEAR(zep_cost_rect(&c, 128, 64), 192.0 * 128);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sim");
    TCase *t = tcase_create("all");
    SRunner *r;
    int bad;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, one_hop);
    tcase_add_test(t, shared_nic);
    tcase_add_test(t, routed);
    tcase_add_test(t, ring_of_four);
    tcase_add_test(t, double_ring);
    tcase_add_test(t, gathered);
    tcase_add_test(t, early_places);
    tcase_add_test(t, heads_alone);
    tcase_add_test(t, heads_and_ring);
    tcase_add_test(t, step);
    tcase_add_test(t, exchange_beside_transfers);
    tcase_add_test(t, refusals);
    tcase_add_loop_test(t, random_plans, 0, 10);
    tcase_add_test(t, costs);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad ? 1 : 0;
}
