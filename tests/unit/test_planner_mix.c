/* Devices of several kinds, speeds and memories: what the planner and the simulator make of them. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/check.h"
#include "planner/estimate.h"
#include "planner/mix.h"
#include "planner/plan.h"
#include "planner/plan_internal.h"
#include "planner/sim.h"
#include "tests/unit/view_util.h"

#define NEAR(a, b) near_to((double)(a), (double)(b))

static void near_to(double got, double want)
{
    ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want) + 1e-15, "%.12g, expected %.12g", got, want);
}

static struct zep_topo *parse(const char *text)
{
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_parse("f", text, strlen(text), &t, &err) == ZEP_OK, "%s\n%s", err.text, text);
    return t;
}

static struct zep_engine engine(const char *name)
{
    struct zep_engine e;
    struct zep_error err = {0};

    ck_assert_msg(zep_engine_load(name, &e, &err) == ZEP_OK, "%s", err.text);
    return e;
}

/* --- kinds --- */

START_TEST(speeds)
{
    struct zep_engine a100 = engine("a100"), h100 = engine("h100"), h800 = engine("h800"), twice = a100;
    /* for as much attention and for linear modules, by the shares of the peak in the table of devices */
    double attn = (4 / (989.5 * 0.60) + 10 / (989.5 * 0.50)) / (4 / (312 * 0.60) + 10 / (312 * 0.55)), linear = 312 * 0.75 / (989.5 * 0.70);

    NEAR(zep_engine_speed(&a100, &h100), 2 / (1 / attn + 1 / linear));
    ck_assert_double_eq(zep_engine_speed(&h100, &h800), 1); /* their ports differ */
    ck_assert_double_eq(zep_engine_speed(&a100, &a100), 1);
    twice.flops *= 2;
    NEAR(zep_engine_speed(&twice, &a100), 2);
    twice.flops /= 2;
    twice.linear *= 3; /* one of two thirds as long */
    NEAR(zep_engine_speed(&twice, &a100), 1.5);
}
END_TEST

#define HEAD "format: zeppelin-topology/1.0\norigin: A\nnodes:\n"
#define H "{key: %s, model: NVIDIA H100 80GB HBM3, memory: 80GB}"

static const char mixed[] = HEAD "- id: h[0-1]\n  devices: [{key: a, model: NVIDIA H100 80GB HBM3, memory: 80GB}, {key: b, model: NVIDIA H100 80GB HBM3, memory: 80GB}]\n"
                                 "- id: a0\n  devices: [{key: a, model: NVIDIA A100-SXM4-40GB, memory: 40GB}, {key: b, model: NVIDIA A100-SXM4-40GB, memory: 40GB, speed: 0.5}]\n";

static const struct {
    const char *topo;
    int tp, by_model;
    const char *reference;
    double speed[6]; /* by kind not counted: -: times that of a100 by h100 */
    int64_t mem_gb[6];
    const char *words;
} mixes[] = {
    {mixed, 1, 1, "h100", {1, 1, 1, 1, -1, -.5}, {80, 80, 80, 80, 40, 40},
     "4 devices h100: the costs are of them, 80 GB; 2 devices a100: computing at 0.338 of the speed of h100 (the mean of attention and linear modules, by their data sheets and shares of the peak), 40 GB; "
     "1 device with a speed of its own, the slowest at 0.5 of what it should be"},
    {mixed, 2, 1, "h100", {1, 1, -.5}, {160, 160, 80},
     "2 groups h100: the costs are of them, 80 GB; 1 group a100: computing at 0.338 of the speed of h100 (the mean of attention and linear modules, by their data sheets and shares of the peak), 40 GB; "
     "1 group with a speed of its own, the slowest at 0.5 of what it should be"},
    {mixed, 1, 0, "h200", {1, 1, 1, 1, 1, .5}, {80, 80, 80, 80, 40, 40}, "6 devices h200: the costs are of them, 40 to 80 GB; 1 device with a speed of its own, the slowest at 0.5 of what it should be"},
    {mixed, 1, 0, "b200", {1, 1, 1, 1, 1, .5}, {80, 80, 80, 80, 40, 40}, "6 devices b200: the costs are of them, 40 to 80 GB; 1 device with a speed of its own, the slowest at 0.5 of what it should be"},
    {HEAD "- id: n\n  devices: [{key: a, model: NVIDIA H100 80GB HBM3, memory: 80GB}, {key: b, model: NVIDIA H100 80GB HBM3, memory: 80GB}]\n", 1, 1, "h100", {1, 1}, {0, 0}, NULL},
    {HEAD "- id: n\n  nics: [{key: x, bandwidth: 10GB/s, speed: 0.25}]\n  devices: [{key: a, model: NVIDIA H100 80GB HBM3}]\n", 1, 1, "h100", {1}, {0}, "1 NIC with less than the whole bandwidth, the slowest with 0.25 of it"},
};

START_TEST(mixing)
{
    struct zep_topo *t = parse(mixes[_i].topo);
    struct zep_engine a100 = engine("a100"), h100 = engine("h100"), ref;
    struct zep_buf words = ZEP_BUF_INIT;
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    if (mixes[_i].by_model) {
        ck_assert_msg(zep_engine_of_topo(t, &ref, &err) == ZEP_OK, "%s", err.text);
        ck_assert_str_eq(ref.name, mixes[_i].reference);
    } else {
        ref = engine(mixes[_i].reference);
    }
    ck_assert_int_eq(zep_view_new(t, 0, 0, mixes[_i].tp, &v, &err), ZEP_OK);
    ck_assert_msg(zep_view_set_speeds(v, t, &ref, mixes[_i].tp, mixes[_i].by_model, &words, &err) == ZEP_OK, "%s", err.text);
    for (int d = 0; d < v->n_dev; d++) {
        double s = mixes[_i].speed[d];

        NEAR(v->dev_speed[d], s > 0 ? s : -s * zep_engine_speed(&a100, &h100));
        ck_assert_int_eq(v->dev_mem[d], mixes[_i].mem_gb[d] * 1000000000);
    }
    if (mixes[_i].words)
        ck_assert_str_eq(words.data, mixes[_i].words);
    else
        ck_assert_int_eq(words.len, 0);
    zep_buf_free(&words);
    zep_view_free(v);
    zep_topo_free(t);
}
END_TEST

START_TEST(mixing_unknown)
{
    struct zep_topo *t = parse(HEAD "- id: n\n  devices: [{key: a, model: NVIDIA H100 80GB HBM3}, {key: b, model: NVIDIA H100 PCIe}]\n");
    struct zep_engine ref;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_engine_of_topo(t, &ref, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "node 'n': how fast its NVIDIA H100 PCIe is, is not known: --device names a kind of device or a file");
    zep_topo_free(t);
}
END_TEST

/* --- capacity --- */

static void set_array(double **array, int n, const double *value)
{
    *array = calloc((size_t)n + 1, sizeof **array);
    ck_assert_ptr_nonnull(*array);
    memcpy(*array, value, (size_t)n * sizeof **array);
}

/* 1000 bytes a token, nothing else: 0.94 GB hold 940 kB worth, 940 tokens of 1000. */
static struct zep_cost bytes_cost(void)
{
    struct zep_cost c = {.tp = 1, .token_bytes = 1000, .mem_bytes = 1e6, .attn_fwd_s = 1e-9, .attn_bwd_s = 3e-9, .mem_bw = 1e30};

    c.model.n_layer = 1;
    strcpy(c.engine.name, "x");
    return c;
}

static const struct {
    int64_t mem[4]; /* 0: the costs' */
    int64_t n_token, asked;
    double slack;
    int fits;
    int64_t tok, dev[4]; /* dev[0] < 0: one for all */
} capacities[] = {
    {{0, 0, 0, 0}, 1000, 0, 1.5, 1, 375, {-1}},
    {{0, 0, 0, 0}, 3000, 0, 1.5, 1, 940, {-1}},
    {{0, 0, 0, 0}, 4000, 0, 1.5, 0, 1500, {-1}},
    {{0, 0, 0, 0}, 4000, 2000, 1.5, 1, 2000, {-1}},
    {{1000000, 1000000, 500000, 500000}, 1000, 0, 1.5, 1, 375, {-1}},                  /* all hold that */
    {{1000000, 1000000, 500000, 500000}, 2000, 0, 1.0, 1, 530, {530, 530, 470, 470}},  /* the large ones take 30 tokens each of what the small ones cannot */
    {{1000000, 1000000, 500000, 500000}, 2000, 0, 2.0, 1, 940, {940, 940, 470, 470}},
    {{1000000, 1000000, 500000, 500000}, 2821, 0, 1.5, 0, 1059, {940, 940, 470, 470}}, /* 2820 */
    {{1000000, 1000000, 500000, 500000}, 2000, 700, 1.5, 1, 700, {700, 700, 470, 470}},
    {{1000000, 1000000, 500000, 500000}, 2000, 5000, 1.5, 1, 5000, {5000, 5000, 470, 470}}, /* more than memory holds, as asked */
};

START_TEST(capacity)
{
    struct zep_view *view = make_view(2, 2, 2);
    struct zep_cost cost = bytes_cost();
    struct zep_capacity k;
    struct zep_error err = {0};

    view->dev_mem = calloc(5, sizeof *view->dev_mem);
    ck_assert_ptr_nonnull(view->dev_mem);
    memcpy(view->dev_mem, capacities[_i].mem, 4 * sizeof *view->dev_mem);
    ck_assert_int_eq(zep_capacity_choose(&cost, view, capacities[_i].n_token, capacities[_i].asked, capacities[_i].slack, &k, &err), ZEP_OK);
    ck_assert_int_eq(k.fits, capacities[_i].fits);
    if (k.fits) {
        ck_assert_int_eq(k.tok, capacities[_i].tok);
        ck_assert_int_eq(k.dev != NULL, capacities[_i].dev[0] >= 0);
        for (int d = 0; d < 4 && k.dev; d++)
            ck_assert_int_eq(k.dev[d], capacities[_i].dev[d]);
    }
    free(k.dev);
    test_view_free(view);
}
END_TEST

/* What fits by the costs fits when it is simulated, the blocks under way included: by a ring over all devices, and by a double ring. */
START_TEST(fit_counts_buffers)
{
    static const char *const methods[] = {"te-cp", "static-cp", "zeppelin-paper"};
    static const int recompute[] = {0, 1};

    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t r = 0; r < 2; r++) {
            struct zep_view *view = make_view(2, 4, 4);
            struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
            struct zep_engine e = engine("h100");
            struct zep_model_desc model;
            struct zep_cost cost;
            struct zep_plan *plan = NULL;
            struct zep_sim *sim = NULL;
            struct zep_error err = {0};
            int64_t len;

            ck_assert_int_eq(zep_model_load("llama-3b", &model, &err), ZEP_OK);
            ck_assert_int_eq(zep_cost_make(&model, &e, 1, 0, &cost, &err), ZEP_OK);
            if (recompute[r])
                zep_cost_recompute(&cost);
            opts.method = methods[m];
            opts.capacity_tok = zep_cost_fit_tokens(&cost, view->n_dev);
            opts.cost = &cost;
            len = opts.capacity_tok * view->n_dev; /* one sequence fills all */
            ck_assert_msg(zep_plan_build(view, &len, 1, &opts, &plan, &err) == ZEP_OK, "%s", err.text);
            ck_assert_msg(zep_simulate(plan, view, &cost, NULL, &sim, &err) == ZEP_OK, "%s", err.text);
            ck_assert(sim->mem_buffers > 0);
            ck_assert_msg(sim->mem_bytes <= 0.94 * cost.mem_bytes, "%s: %.4g of %.4g GB", methods[m], sim->mem_bytes / 1e9, 0.94 * cost.mem_bytes / 1e9);
            ck_assert(sim->mem_bytes > 0.85 * cost.mem_bytes); /* and little is left */
            zep_sim_free(sim);
            zep_plan_free(plan);
            test_view_free(view);
        }
}
END_TEST

/* --- the simulator --- */

/* One sequence on each device: no transfers. */
static struct zep_plan *locals(const struct zep_view *view, const int64_t *len)
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_draft draft;
    struct zep_error err = {0};

    opts.capacity_tok = 1 << 30;
    opts.remap = 0;
    ck_assert_int_eq(zep_draft_init(&draft, view->n_dev, &err), ZEP_OK);
    for (int32_t d = 0; d < view->n_dev; d++) {
        int set = zep_sets_get(&draft.sets, &d, 1, &err);

        ck_assert_int_ge(set, 0);
        draft.order[d] = d;
        zep_draft_place(&draft, d, len[d], set);
    }
    ck_assert_msg(zep_plan_from_draft(view, len, &opts, 0, &draft, &plan, &err) == ZEP_OK, "%s", err.text);
    zep_draft_free(&draft);
    return plan;
}

static double tri(double n)
{
    return n * (n + 1) / 2;
}

/* Attention, linear modules, head and optimizer at the speed of each; the transfers of tensor parallelism are none of computing. */
START_TEST(slow_devices)
{
    const int64_t len[] = {1000, 600, 1000};
    struct zep_cost c = {.tp = 1, .attn_fwd_s = 1e-9, .attn_bwd_s = 3e-9, .linear_fwd_s = 1e-6, .linear_bwd_s = 2e-6, .tp_fwd_s = 1e-7, .tp_bwd_s = 1e-7, .head_fwd_s = 1e-7, .head_bwd_s = 2e-7, .launch_s = 1e-6, .mem_bw = 1e9,
                         .optim_bytes = 10, .other_params = 3000, .mem_bytes = 1e12};
    struct zep_view *view = make_view(1, 3, 1);
    struct zep_plan *plan = locals(view, len);
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};
    double busy[3], even = 0;

    c.model.n_layer = 1;
    set_array(&view->dev_speed, 3, (const double[]){1, 0.25, 2});
    ck_assert_msg(zep_simulate(plan, view, &c, NULL, &sim, &err) == ZEP_OK, "%s", err.text);
    for (int d = 0; d < 3; d++) {
        double n = (double)len[d], s = view->dev_speed[d];

        busy[d] = n * (3e-6 / s + 2e-7) + 2 * 1e-6 + 4e-9 * tri(n) / s;
        NEAR(sim->dev_busy[d], busy[d]);
        even += busy[d] * s / 3.25;
    }
    NEAR(sim->pass[0].time_s, 600 * (4e-6 + 1e-7) + 1e-6 + 4e-9 * tri(600)); /* the second */
    ck_assert_int_eq(sim->pass[0].last_dev, 1);
    NEAR(sim->head_s, 4 * 600 * 3e-7);              /* 600 at a quarter of the speed is more than 1000 */
    NEAR(sim->optimizer_s, 4 * 3000 * 20.0 / 3 / 1e9); /* a third of the parameters, on the slowest */
    NEAR(sim->bound_s, even);
    zep_sim_free(sim);
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* The fullest is the one that needs most of what it has. */
START_TEST(memory)
{
    const int64_t len[] = {1000, 600};
    struct zep_cost c = bytes_cost();
    struct zep_view *view = make_view(1, 2, 1);
    struct zep_plan *plan = locals(view, len);
    struct zep_sim *sim = NULL;
    struct zep_error err = {0};

    view->dev_mem = calloc(3, sizeof *view->dev_mem);
    ck_assert_ptr_nonnull(view->dev_mem);
    for (int small = 0; small < 2; small++) {
        view->dev_mem[1] = small * 500000;
        ck_assert_msg(zep_simulate(plan, view, &c, NULL, &sim, &err) == ZEP_OK, "%s", err.text);
        ck_assert_int_eq(sim->mem_dev, small);
        NEAR(sim->mem_bytes, small ? 600e3 : 1000e3);
        NEAR(sim->mem_limit, small ? 500e3 : 1000e3);
        NEAR(sim->dev_mem[0], 1000e3);
        NEAR(sim->dev_mem[1], 600e3);
        zep_sim_free(sim);
    }
    zep_plan_free(plan);
    test_view_free(view);
}
END_TEST

/* Gradients go between nodes whatever the plan does: a node whose links are not known is an error, although nothing of the plan crosses. */
START_TEST(unknown_links)
{
    const int64_t len[] = {100, 100};

    for (int nic = 0; nic < 2; nic++) {
        const int nics[] = {1, nic};
        struct zep_cost c = bytes_cost();
        struct zep_view *view = make_view_uneven(2, (const int[]){1, 1}, nics);
        struct zep_plan *plan = locals(view, len);
        struct zep_sim *sim = NULL;
        struct zep_error err = {0};

        if (nic)
            view->nic_bw[1] = 0;
        ck_assert_int_eq(zep_simulate(plan, view, &c, NULL, &sim, &err), ZEP_EINVAL);
        ck_assert_str_eq(err.text, nic ? "node 1: the bandwidth of its NICs is not known: the topology must say it (net:, bandwidth:), or zeppelin topo --measure measure it"
                                       : "node 1 has no NIC: there is no link between its devices and other nodes: the topology must say it (nics:, nic: of --synthetic), or --nodes 1 take one node alone");
        ck_assert_ptr_null(sim);
        zep_plan_free(plan);
        test_view_free(view);
    }
}
END_TEST

/* A plan that memory does not hold ranks behind every one that it holds; among either kind the faster one is better. */
START_TEST(rank_by_memory)
{
    const struct zep_sim fits = {.step_s = 2, .mem_bytes = 79e9, .mem_limit = 80e9}, faster = {.step_s = 1, .mem_bytes = 80e9, .mem_limit = 80e9}, larger = {.step_s = 0.5, .mem_bytes = 81e9, .mem_limit = 80e9},
                         largest = {.step_s = 0.7, .mem_bytes = 90e9, .mem_limit = 80e9},
                         small_device = {.step_s = 0.6, .mem_bytes = 41e9, .mem_limit = 40e9};

    ck_assert(zep_estimate_rank(&faster) < zep_estimate_rank(&fits));
    ck_assert(zep_estimate_rank(&fits) < zep_estimate_rank(&larger));
    ck_assert(zep_estimate_rank(&larger) < zep_estimate_rank(&largest));
    ck_assert(zep_estimate_rank(&fits) < zep_estimate_rank(&small_device)); /* of the device that is fullest, not of the largest */
}
END_TEST

/* --- plans --- */

/* Equal shares of linear modules are shares by speed where devices differ; no device gets more than it holds. */
static const struct {
    double speed[4];
    int64_t cap[4]; /* 0: the rest's */
    int64_t want[4];
} shares[] = {
    {{1, 1, 1, 1}, {0}, {250, 250, 250, 250}},
    {{1, 1, 0.5, 0.5}, {0}, {334, 334, 166, 166}},
    {{2, 1, 1, 1}, {0}, {400, 200, 200, 200}},
    {{2, 1, 1, 1}, {340, 0, 0, 0}, {340, 220, 220, 220}},
    {{1, 1, 1, 1}, {0, 0, 0, 100}, {300, 300, 300, 100}},
};

START_TEST(linear_shares)
{
    const int64_t len[] = {250, 250, 250, 250}; /* where attention holds 340, 220 ... the plan itself would differ: targets only */
    struct zep_view *view = make_view(1, 4, 4);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_draft draft = {0};
    int64_t want[4], cap[4], attn[4], sum = 0;

    opts.capacity_tok = 400;
    for (int d = 0; d < 4; d++) {
        cap[d] = shares[_i].cap[d] ? shares[_i].cap[d] : 400;
        attn[d] = cap[d] < len[d] ? cap[d] : len[d];
        sum += attn[d];
    }
    attn[0] += 1000 - sum;
    opts.dev_capacity = cap;
    set_array(&view->dev_speed, 4, shares[_i].speed);
    zep_remap_targets(view, attn, &draft, &opts, 1, want);
    for (int d = 0; d < 4; d++)
        ck_assert_msg(llabs(want[d] - shares[_i].want[d]) <= 1, "device %d: %lld, expected %lld", d, (long long)want[d], (long long)shares[_i].want[d]);
    test_view_free(view);
}
END_TEST

/* A remap that makes the latest device less than 1 % earlier is none. */
START_TEST(too_little_to_move)
{
    struct zep_view *view = make_view(1, 4, 4);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_draft draft = {0};

    opts.capacity_tok = 2000;
    for (int more = 4; more <= 40; more += 36) {
        const int64_t attn[] = {1000 + more, 1000, 1000, 1000};
        int64_t want[4];

        zep_remap_targets(view, attn, &draft, &opts, 1, want);
        for (int d = 0; d < 4; d++)
            ck_assert_int_eq(want[d], more == 4 ? attn[d] : 1010);
    }
    test_view_free(view);
}
END_TEST

/* Every method keeps to the capacities, or says that it cannot. */
START_TEST(methods_keep_capacities)
{
    const int64_t len[] = {500, 300, 300, 200, 120, 100, 90, 60, 40, 30, 20, 10}, cap[] = {400, 400, 400, 400, 150, 150, 90, 400};
    int n = sizeof len / sizeof *len, n_done = 0;

    for (int i = 0; zep_methods()[i]; i++) {
        struct zep_view *view = make_view(2, 4, 4);
        struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
        struct zep_plan *plan = NULL;
        struct zep_error err = {0};
        int rc;

        opts.method = zep_methods()[i]->name;
        opts.capacity_tok = 400;
        opts.dev_capacity = cap;
        rc = zep_plan_build(view, len, n, &opts, &plan, &err);
        if (rc == ZEP_OK) {
            n_done++;
            ck_assert_msg(zep_plan_check(plan, len, n, NULL, NULL, &err) == ZEP_OK, "%s: %s", opts.method, err.text);
            ck_assert_int_eq(zep_plan_capacity(plan, 6), 90);
            for (int d = 0; d < 8; d++)
                ck_assert(plan->attn_tok[d] <= cap[d] && plan->lin_tok[d] <= cap[d]);
        } else {
            ck_assert_msg(rc == ZEP_EUNSUPPORTED, "%s: %s", opts.method, err.text);
        }
        if (!strcmp(opts.method, "te-cp"))
            ck_assert_str_eq(err.text, "te-cp gives device 4 221 tokens, which holds 150 (others up to 400): expected devices of equal memory, or another method");
        ck_assert(strcmp(opts.method, "zeppelin-paper") || rc == ZEP_OK);
        zep_plan_free(plan);
        test_view_free(view);
    }
    ck_assert_int_ge(n_done, 3);
}
END_TEST

START_TEST(capacities_short)
{
    const int64_t len[] = {100, 100}, cap[] = {150, 30};
    struct zep_view *view = make_view(1, 2, 1);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_error err = {0};

    opts.capacity_tok = 150;
    opts.dev_capacity = cap;
    ck_assert_int_eq(zep_plan_build(view, len, 2, &opts, &plan, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "the devices' capacities, 150 tokens for most and less where memory is smaller, are 180 together: 20 short of the batch's 200");
    test_view_free(view);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("planner: devices that are not alike");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_add_test(t, speeds);
    tcase_add_loop_test(t, mixing, 0, ROWS(mixes));
    tcase_add_test(t, mixing_unknown);
    tcase_add_loop_test(t, capacity, 0, ROWS(capacities));
    tcase_add_test(t, fit_counts_buffers);
    tcase_add_test(t, slow_devices);
    tcase_add_test(t, memory);
    tcase_add_test(t, unknown_links);
    tcase_add_test(t, rank_by_memory);
    tcase_add_loop_test(t, linear_shares, 0, ROWS(shares));
    tcase_add_test(t, too_little_to_move);
    tcase_add_test(t, methods_keep_capacities);
    tcase_add_test(t, capacities_short);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
