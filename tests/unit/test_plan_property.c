/* Property test: plans of random workloads on random topologies are proved by the checker; the planner's own statements about them are compared with what must hold.
 * ZEP_PROPERTY_N: how many (default 10,000), ZEP_PROPERTY_SEED: where they begin. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "planner/check.h"
#include "planner/cost.h"
#include "tests/unit/view_util.h"

#define MAX_SEQ 40

struct trial {
    int n_node, dev[8], nic[8], n_dev;
    int n;
    int64_t len[MAX_SEQ], total;
    struct zep_plan_opts opts;
    struct zep_cost cost;
    int uneven; /* devices of different capacity and speed */
    int64_t cap[40];
    double speed[40];
    char shape[32];
};

static int64_t between(struct zep_rng *rng, int64_t lo, int64_t hi)
{
    return lo + (int64_t)zep_rng_below(rng, (uint64_t)(hi - lo + 1));
}

static void draw_topology(struct zep_rng *rng, struct trial *t)
{
    int same = between(rng, 0, 2) > 0, dev = (int)between(rng, 1, 5), nic = (int)between(rng, 0, 4);

    t->n_node = (int)between(rng, 1, 5);
    for (int i = 0; i < t->n_node; i++) {
        t->dev[i] = same ? dev : (int)between(rng, 1, 5);
        t->nic[i] = same ? nic : (int)between(rng, 0, 4);
        t->n_dev += t->dev[i];
    }
}

/* The kinds of workload that the planner must take. */
static void draw_lengths(struct zep_rng *rng, struct trial *t)
{
    static const int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 211, 307, 401, 503};
    int64_t equal = between(rng, 1, 200);
    int kind = (int)between(rng, 0, 8);

    snprintf(t->shape, sizeof t->shape, "kind %d", kind);
    t->n = kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? 2 : kind == 3 ? (int)between(rng, 1, t->n_dev) : (int)between(rng, 1, MAX_SEQ);
    for (int i = 0; i < t->n; i++) {
        int64_t len = between(rng, 1, 60);

        if (kind == 4)
            len = equal;
        else if (kind == 5)
            len = i ? between(rng, 1, 20) : between(rng, 500, 3000);
        else if (kind == 6)
            len = primes[zep_rng_below(rng, sizeof primes / sizeof primes[0])];
        else if (kind == 7)
            len = between(rng, 0, 5) ? between(rng, 1, 30) : between(rng, 100, 800);
        else if (kind == 8)
            len = between(rng, 1, 2 * t->n_dev + 1); /* shorter than 2G tokens */
        t->len[i] = len;
        t->total += len;
    }
}

static void draw_options(struct zep_rng *rng, struct trial *t)
{
    static const char *const methods[] = {"zeppelin", "zeppelin", "zeppelin-paper", "te-cp", "llama-cp", "static-cp", "hybrid-dp", "flexsp", "wlb", "ulysses", "usp", "packed-dp", "auto"};
    int64_t least = (t->total + t->n_dev - 1) / t->n_dev;
    int linked = 1, slack = (int)between(rng, 0, 3);

    least = least < 1 ? 1 : least;
    t->opts = (struct zep_plan_opts)ZEP_PLAN_OPTS_DEFAULT;
    t->opts.heads = 1 << between(rng, 0, 5);
    t->opts.method = methods[between(rng, 0, sizeof methods / sizeof methods[0] - 1)];
    t->opts.capacity_tok = slack == 0 ? least /* exactly full */ : slack == 1 ? least + between(rng, 0, least) : least * between(rng, 1, 4) + between(rng, 0, 3);
    t->opts.routing = (int)between(rng, 0, 1);
    t->opts.remap = (int)between(rng, 0, 3) > 0;
    t->opts.max_proxies = (int)between(rng, 0, 3);
    if (!between(rng, 0, 2)) /* not all zones */
        t->opts.zones = (unsigned)between(rng, 1, 7) << ZEP_ZONE_LOCAL;
    for (int i = 0; i < t->n_node; i++)
        linked &= t->nic[i] > 0;
    if (linked && between(rng, 0, 3)) /* by cost, and with its links known */
        t->opts.cost = &t->cost;
    if (between(rng, 0, 7) == 0)
        t->opts.effort = ZEP_EFFORT_SEARCH;
    t->opts.no_heads = between(rng, 0, 3) == 0;
}

/* Some devices hold less, some are slower; together they hold the batch. */
static void draw_devices(struct zep_rng *rng, struct trial *t)
{
    static const double speeds[] = {1, 1, 0.8, 0.5, 2.3};
    int64_t hold = 0;

    if (!(t->uneven = between(rng, 0, 3) == 0))
        return;
    for (int d = 0; d < t->n_dev; d++) {
        t->speed[d] = speeds[between(rng, 0, 4)];
        t->cap[d] = between(rng, 0, 2) ? 1 + t->opts.capacity_tok * between(rng, 2, 8) / 8 : between(rng, 0, 1) * t->opts.capacity_tok;
        hold += t->cap[d];
    }
    while (hold < t->total)
        for (int d = 0; d < t->n_dev; d++) {
            hold += t->cap[d] + 1;
            t->cap[d] += t->cap[d] + 1;
        }
    for (int d = 0; d < t->n_dev; d++)
        t->opts.capacity_tok = t->cap[d] > t->opts.capacity_tok ? t->cap[d] : t->opts.capacity_tok;
    t->opts.dev_capacity = t->cap;
}

static struct zep_view *trial_view(const struct trial *t)
{
    struct zep_view *view = make_view_uneven(t->n_node, t->dev, t->nic);

    if (t->uneven) {
        view->dev_speed = calloc((size_t)t->n_dev + 1, sizeof *view->dev_speed);
        ck_assert_ptr_nonnull(view->dev_speed);
        memcpy(view->dev_speed, t->speed, (size_t)t->n_dev * sizeof *view->dev_speed);
    }
    return view;
}

/* A small model, so that workloads of a few hundred tokens are worth rings. */
static void set_cost(struct zep_cost *cost)
{
    struct zep_model_desc model = {.name = "small", .n_layer = 2, .hidden = 64, .n_head = 4, .n_head_kv = 2, .head_dim = 16, .ffn = 128, .vocab = 256, .type_bytes = 2};
    struct zep_engine engine;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_engine_load("a100", &engine, &err), ZEP_OK);
    engine.launch_s = 0;
    engine.tile = 0;
    engine.flops = 1e12;
    ck_assert_msg(zep_cost_make(&model, &engine, 1, 0, cost, &err) == ZEP_OK, "%s", err.text);
}

/* Methods that may say that they cannot. */
static int may_refuse(const char *method)
{
    return strncmp(method, "zeppelin", 8) != 0 && strcmp(method, "te-cp") != 0 && strcmp(method, "llama-cp") != 0;
}

static int has_zones(const char *method)
{
    return !strncmp(method, "zeppelin", 8);
}

/* The zones that may be used need not hold the batch, but rings over everything do. */
static int zones_may_refuse(const struct trial *t)
{
    return has_zones(t->opts.method) && !zep_opts_zone(&t->opts, t->n_node > 1 ? ZEP_ZONE_INTER : t->n_dev > 1 ? ZEP_ZONE_INTRA : ZEP_ZONE_LOCAL);
}

/* 1: a plan, 0: the method cannot. */
static int try_one(const struct trial *t, uint64_t seed)
{
    struct zep_view *view = trial_view(t);
    struct zep_plan *plan = NULL, *again = NULL, *back = NULL;
    struct zep_check_result res;
    struct zep_plan_stats st;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};
    double pairs = 0;
    int rc, equal = !t->uneven && (!strcmp(t->opts.method, "zeppelin-paper") || !strcmp(t->opts.method, "te-cp"));
    int64_t lo = INT64_MAX, hi = 0;

    rc = zep_plan_build(view, t->len, t->n, &t->opts, &plan, &err);
    if (rc == ZEP_EUNSUPPORTED && (t->uneven || may_refuse(t->opts.method) || zones_may_refuse(t))) {
        test_view_free(view);
        return 0;
    }
    ck_assert_msg(rc == ZEP_OK, "seed %llu (%s, %s): %s", (unsigned long long)seed, t->shape, t->opts.method, err.text);
    ck_assert_msg(zep_plan_check(plan, t->len, t->n, NULL, &res, &err) == ZEP_OK, "seed %llu (%s, %s): %s", (unsigned long long)seed, t->shape, t->opts.method, err.text);
    for (int i = 0; i < t->n; i++)
        pairs += (double)t->len[i] * (double)(t->len[i] + 1) / 2;
    ck_assert_msg(res.pairs == pairs, "seed %llu: %.0f pairs, expected %.0f", (unsigned long long)seed, res.pairs, pairs);
    /* equal shares within one token, or no moves at all */
    for (int d = 0; d < plan->n_dev; d++) {
        lo = plan->lin_tok[d] < lo ? plan->lin_tok[d] : lo;
        hi = plan->lin_tok[d] > hi ? plan->lin_tok[d] : hi;
    }
    ck_assert_msg(!t->opts.remap || !equal || hi - lo <= 1, "seed %llu: linear layout from %lld to %lld tokens", (unsigned long long)seed, (long long)lo, (long long)hi);
    ck_assert_msg(equal || hi <= t->opts.capacity_tok, "seed %llu: %lld tokens in the linear layout, capacity %lld", (unsigned long long)seed, (long long)hi, (long long)t->opts.capacity_tok);
    for (int i = 0; i < plan->n_ring && t->opts.no_heads && (!strncmp(t->opts.method, "zeppelin", 8) || !strcmp(t->opts.method, "auto")); i++)
        ck_assert_msg(!plan->ring[i].heads, "seed %llu: heads are exchanged", (unsigned long long)seed);
    ck_assert_msg(t->opts.remap || plan->n_move == 0, "seed %llu: moves without remapping", (unsigned long long)seed);
    /* a schedule says the same of the transfers as the plan's statistics */
    zep_plan_stats(plan, &st);
    ck_assert_msg(st.zone_tok[1] + st.zone_tok[2] + st.zone_tok[3] == t->total, "seed %llu: zones", (unsigned long long)seed);
    for (int z = ZEP_ZONE_LOCAL; z <= ZEP_ZONE_INTER; z++)
        ck_assert_msg(!st.zone_seq[z] || !has_zones(t->opts.method) || zep_opts_zone(&t->opts, (enum zep_zone)z), "seed %llu (%s, %s): sequences in zone %d", (unsigned long long)seed, t->shape, t->opts.method, z);
    /* the same input gives the same plan, and a file gives it back */
    ck_assert_int_eq(zep_plan_build(view, t->len, t->n, &t->opts, &again, &err), ZEP_OK);
    ck_assert(again->digest == plan->digest);
    if (seed % 16 == 0) {
        ck_assert_int_eq(zep_plan_to_json(plan, &b, &err), ZEP_OK);
        ck_assert_msg(zep_plan_from_json("plan.json", b.data, b.len, &back, &err) == ZEP_OK, "seed %llu: %s", (unsigned long long)seed, err.text);
        ck_assert(back->digest == plan->digest);
        zep_plan_free(back);
        zep_buf_free(&b);
    }
    zep_plan_free(plan);
    zep_plan_free(again);
    test_view_free(view);
    return 1;
}

START_TEST(random_plans)
{
    const char *n_text = getenv("ZEP_PROPERTY_N"), *seed_text = getenv("ZEP_PROPERTY_SEED");
    uint64_t n = n_text ? strtoull(n_text, NULL, 10) : 10000, seed0 = seed_text ? strtoull(seed_text, NULL, 10) : 1;

    struct zep_cost cost;
    int n_uneven = 0, n_uneven_done = 0;

    set_cost(&cost);
    for (uint64_t i = 0; i < n; i++) {
        struct trial t = {.cost = cost};
        struct zep_rng rng;

        zep_rng_seed(&rng, seed0 + i);
        draw_topology(&rng, &t);
        draw_lengths(&rng, &t);
        draw_options(&rng, &t);
        draw_devices(&rng, &t);
        if (t.uneven && t.n && t.opts.dev_capacity) {
            n_uneven++;
            n_uneven_done += try_one(&t, seed0 + i);
        } else {
            try_one(&t, seed0 + i);
        }
    }
    ck_assert_msg(n_uneven_done * 3 >= n_uneven, "%d of %d plans for uneven devices", n_uneven_done, n_uneven); /* rings are cut evenly: not all can be */
}
END_TEST

/* Lengths {3L, 1.1L, 1.1L, 1.1L} on 8 devices: what does not fit whole anywhere, though the total does. */
START_TEST(awkward_lengths)
{
    for (int64_t cap = 10; cap <= 1000; cap += 90)
        for (int nodes = 1; nodes <= 8; nodes *= 2) {
            struct trial t = {.n_node = nodes, .n_dev = 8, .n = 4, .len = {3 * cap, cap * 11 / 10, cap * 11 / 10, cap * 11 / 10}, .opts = ZEP_PLAN_OPTS_DEFAULT};

            for (int i = 0; i < nodes; i++) {
                t.dev[i] = 8 / nodes;
                t.nic[i] = 1;
            }
            for (int i = 0; i < 4; i++)
                t.total += t.len[i];
            t.opts.capacity_tok = cap;
            try_one(&t, 0);
        }
}
END_TEST

START_TEST(larger_plans)
{
    struct trial t = {.n_node = 4, .n_dev = 32, .dev = {8, 8, 8, 8}, .nic = {4, 4, 4, 4}, .n = MAX_SEQ, .opts = ZEP_PLAN_OPTS_DEFAULT};
    struct zep_rng rng;

    zep_rng_seed(&rng, 4);
    for (int i = 0; i < t.n; i++)
        t.total += t.len[i] = i == 0 ? 40000 : i < 4 ? 9000 : between(&rng, 1, 3000);
    t.opts.capacity_tok = t.total / 32 * 5 / 4;
    try_one(&t, 0);
    t.opts.method = "te-cp";
    try_one(&t, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planner: properties");
    TCase *t = tcase_create("properties");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 600);
    tcase_add_test(t, random_plans);
    tcase_add_test(t, awkward_lengths);
    tcase_add_test(t, larger_plans);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
