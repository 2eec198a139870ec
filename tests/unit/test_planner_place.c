/* Placements: sums that come and go, the least busy block, degrees, and how well the estimate of a placement agrees with the simulator, over many random ones. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "planner/check.h"
#include "planner/place.h"
#include "planner/sim.h"
#include "planner/tournament.h"
#include "tests/unit/view_util.h"

#define MAX_SEQ 60

struct trial {
    struct zep_view *view;
    struct zep_cost cost;
    struct zep_plan_opts opts;
    int64_t len[MAX_SEQ];
    int n;
};

static int between(struct zep_rng *rng, int lo, int hi)
{
    return lo + (int)zep_rng_below(rng, (uint64_t)(hi - lo + 1));
}

static void make_trial(struct trial *t, struct zep_rng *rng, int n_node, int dev, int nic)
{
    static const char *const models[] = {"llama-7b", "llama3-8b", "llama-3b"}, *const engines[] = {"a800", "h100", "h200"};
    struct zep_model_desc model;
    struct zep_engine engine;
    struct zep_error err = {0};
    int64_t total = 0;

    *t = (struct trial){.view = make_view(n_node, dev, nic), .opts = ZEP_PLAN_OPTS_DEFAULT, .n = between(rng, 10, MAX_SEQ)};
    ck_assert_int_eq(zep_model_load(models[between(rng, 0, 2)], &model, &err), ZEP_OK);
    ck_assert_int_eq(zep_engine_load(engines[between(rng, 0, 2)], &engine, &err), ZEP_OK);
    ck_assert_int_eq(zep_cost_make(&model, &engine, 1, 200e9, &t->cost, &err), ZEP_OK);
    for (int i = 0; i < t->n; i++)
        total += t->len[i] = between(rng, 0, 9) ? between(rng, 100, 8000) : between(rng, 8000, 60000);
    t->opts.cost = &t->cost;
    t->opts.capacity_tok = total * 3 / 2 / t->view->n_dev + 1;
}

static void open_place(struct trial *t, struct zep_place *z)
{
    struct zep_error err = {0};

    ck_assert_msg(zep_place_init(z, t->view, t->len, t->n, &t->opts, &err) == ZEP_OK, "%s", err.text);
}

static double simulated(struct trial *t, struct zep_place *z)
{
    struct zep_plan *plan;
    struct zep_sim *sim;
    struct zep_error err = {0};
    double s;

    ck_assert_msg(zep_place_plan(z, z->job, z->move, &plan, &err) == ZEP_OK, "%s", err.text);
    ck_assert_msg(zep_simulate(plan, t->view, &t->cost, NULL, &sim, &err) == ZEP_OK, "%s", err.text);
    s = sim->pass[0].time_s + sim->pass[1].time_s;
    zep_sim_free(sim);
    zep_plan_free(plan);
    return s;
}

static int cmp_key(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Spearman's, of n pairs. */
static double rank_correlation(const double *x, const double *y, int n)
{
    double (*key)[2] = calloc((size_t)n, sizeof *key), *rank = calloc((size_t)n, sizeof *rank), sum = 0;

    for (int i = 0; i < n; i++) {
        key[i][0] = x[i];
        key[i][1] = i;
    }
    qsort(key, (size_t)n, sizeof *key, cmp_key);
    for (int i = 0; i < n; i++)
        rank[(int)key[i][1]] = i;
    for (int i = 0; i < n; i++) {
        key[i][0] = y[i];
        key[i][1] = i;
    }
    qsort(key, (size_t)n, sizeof *key, cmp_key);
    for (int i = 0; i < n; i++)
        sum += (rank[(int)key[i][1]] - i) * (rank[(int)key[i][1]] - i);
    free(key);
    free(rank);
    return 1 - 6 * sum / ((double)n * ((double)n * n - 1));
}

/* The estimate against the simulator: it ranks placements as the simulator does, its best one is close to the simulator's best, and it is never far off. */
START_TEST(estimate)
{
    static const int shapes[][3] = {{2, 8, 8}, {4, 8, 4}, {8, 4, 4}, {3, 6, 2}, {4, 8, 8}, {1, 8, 4}};
    static const double shares[] = {0.33, 0.62, 1.0, 1.5, 2.0};
    double est[100], sim[100], rho_sum = 0, loss_sum = 0;
    int n_case = 0;
    struct zep_rng rng;

    zep_rng_seed(&rng, 11);
    for (int round = 0; round < 12; round++) {
        const int *shape = shapes[round % 6];
        struct trial t;
        struct zep_place z;
        int n = 0, best_est = 0, best_sim = 0, dev;
        double rho;

        make_trial(&t, &rng, shape[0], shape[1], shape[2]);
        open_place(&t, &z);
        for (int move = ZEP_MOVE_NONE; move < ZEP_MOVE_ALL; move++)
            for (int s = 0; s < 5; s++)
                for (int ahead = 0; ahead < 3; ahead++)
                    for (int refined = 0; refined < 2; refined++) {
                        z.move = (enum zep_place_move)move;
                        if (!zep_place_all(&z, shares[s] * z.target_s, ahead, UINT64_MAX))
                            continue;
                        if (refined)
                            zep_place_refine(&z, 500);
                        est[n] = zep_place_slowest(&z, &dev);
                        sim[n] = simulated(&t, &z);
                        ck_assert_msg(est[n] > 0.65 * sim[n] && est[n] < 1.25 * sim[n], "round %d: estimated %g ms, simulated %g ms (move %d, share %g, ahead %d)", round, 1e3 * est[n], 1e3 * sim[n], move, shares[s], ahead);
                        best_est = est[n] < est[best_est] ? n : best_est;
                        best_sim = sim[n] < sim[best_sim] ? n : best_sim;
                        n++;
                    }
        ck_assert_int_ge(n, 30);
        rho = rank_correlation(est, sim, n);
        rho_sum += rho;
        loss_sum += sim[best_est] / sim[best_sim];
        n_case++;
        ck_assert_msg(sim[best_est] <= 1.1 * sim[best_sim], "round %d: the best by estimate takes %g ms, the best of all %g ms", round, 1e3 * sim[best_est], 1e3 * sim[best_sim]);
        zep_place_free(&z);
        test_view_free(t.view);
    }
    ck_assert_msg(rho_sum / n_case > 0.85, "rank correlation %.3f on average", rho_sum / n_case);
    ck_assert_msg(loss_sum / n_case < 1.03, "the best by estimate takes %.3f x the best on average", loss_sum / n_case);
}
END_TEST

/* What is added and removed leaves what is left, up to rounding; the block that is found is the one that a look at all blocks finds. */
START_TEST(comes_and_goes)
{
    struct zep_rng rng;

    zep_rng_seed(&rng, (uint64_t)_i + 1);
    for (int round = 0; round < 10; round++) {
        int n_node = between(&rng, 1, 7), dev = between(&rng, 1, 12), dev0;
        struct trial t;
        struct zep_place z, fresh;

        make_trial(&t, &rng, n_node, dev, between(&rng, 1, dev));
        t.opts.capacity_tok = 1 << 30;
        open_place(&t, &z);
        open_place(&t, &fresh);
        z.move = fresh.move = (enum zep_place_move)between(&rng, 0, 2);
        zep_place_clear(&z);
        for (int i = 0; i < t.n; i++)
            zep_place_add(&z, i, 0, between(&rng, 0, t.view->n_dev - 1));
        for (int step = 0; step < 200; step++) {
            int seq = between(&rng, 0, t.n - 1), k = between(&rng, 0, z.n_level - 1);
            double least = 1e30, done, each = zep_place_each(&z, seq, k);

            zep_place_remove(&z, seq);
            done = zep_place_best(&z, seq, k, each, &dev0);
            if (k < z.n_inside)
                for (int node = 0; node < n_node; node++)
                    for (int d0 = t.view->node_dev0[node]; d0 + z.level[k].size <= t.view->node_dev0[node + 1]; d0 += z.level[k].size) {
                        double busy = 0;

                        for (int d = d0; d < d0 + z.level[k].size; d++)
                            busy = z.done_s[d] > busy ? z.done_s[d] : busy;
                        least = busy + each < least ? busy + each : least;
                    }
            ck_assert(done >= 0 && (k >= z.n_inside || done == least));
            zep_place_add(&z, seq, k, dev0);
        }
        zep_place_clear(&fresh);
        for (int i = 0; i < t.n; i++)
            zep_place_add(&fresh, i, z.job[i].k, z.job[i].dev0);
        for (int d = 0; d < t.view->n_dev; d++)
            ck_assert_msg(fabs(z.done_s[d] - fresh.done_s[d]) <= 1e-9 * (1e-3 + fresh.done_s[d]) && z.dev[d].tok == fresh.dev[d].tok, "device %d: %.17g, anew %.17g", d, z.done_s[d], fresh.done_s[d]);
        zep_place_free(&z);
        zep_place_free(&fresh);
        test_view_free(t.view);
    }
}
END_TEST

/* Refinement never makes the slowest device slower, keeps capacities, and makes placements faster. */
START_TEST(refinement)
{
    int n_faster = 0, n = 0;
    struct zep_rng rng;

    zep_rng_seed(&rng, 8);
    for (int round = 0; round < 20; round++)
        for (int move = ZEP_MOVE_NONE; move < ZEP_MOVE_ALL; move++) {
            struct trial t;
            struct zep_place z;
            double before, after;
            int dev;

            make_trial(&t, &rng, between(&rng, 1, 4), between(&rng, 2, 8), 2);
            open_place(&t, &z);
            z.move = (enum zep_place_move)move;
            if (zep_place_all(&z, 1.2 * z.target_s, 1, UINT64_MAX)) {
                before = zep_place_slowest(&z, &dev);
                zep_place_refine(&z, 2000);
                after = zep_place_slowest(&z, &dev);
                ck_assert_msg(after <= before * (1 + 1e-9), "round %d: %g ms, before %g", round, 1e3 * after, 1e3 * before);
                n++;
                n_faster += after < 0.999 * before;
                for (int d = 0; d < t.view->n_dev; d++)
                    ck_assert_int_le(z.dev[d].tok, t.opts.capacity_tok);
            }
            zep_place_free(&z);
            test_view_free(t.view);
        }
    ck_assert_msg(n > 20 && n_faster > n / 4, "%d of %d", n_faster, n);
}
END_TEST

/* Rings wait: four devices of a node, many short sequences on device 0, a ring over all, another one over 2 and 3. The ring over all begins when device 0 is done with its linear modules, and 2 and 3 go on from there. */
START_TEST(judged)
{
    struct zep_rng rng;
    struct trial t;
    struct zep_place z;
    double scratch[8], slowest, want;
    int dev;

    zep_rng_seed(&rng, 1);
    make_trial(&t, &rng, 1, 4, 4);
    t.n = 32;
    for (int i = 0; i < t.n; i++)
        t.len[i] = i == 0 ? 16000 : i == 1 ? 20000 : 500;
    t.opts.capacity_tok = 1 << 30;
    open_place(&t, &z);
    zep_place_clear(&z);
    zep_place_add(&z, 0, 2, 0);
    zep_place_add(&z, 1, 1, 2);
    for (int i = 2; i < t.n; i++)
        zep_place_add(&z, i, 0, 0);
    slowest = zep_place_slowest(&z, &dev);
    want = z.done_s[2] + z.dev[0].linear - z.dev[2].linear;
    ck_assert_int_eq(dev, 2);
    ck_assert(z.dev[0].linear > z.dev[2].linear && z.dev[2].local == 0 && want > 1.01 * slowest);
    ck_assert(fabs(zep_place_judge(&z, scratch) - want) < 1e-9 * want);
    zep_place_free(&z);
    test_view_free(t.view);
}
END_TEST

/* Degrees of nodes of any size; nodes that differ. */
START_TEST(degrees)
{
    static const struct {
        int n_node, dev[4];
        const char *want;
    } table[] = {
        {1, {12}, "1 2 3 4 6 12"},
        {2, {12, 12}, "1 2 3 4 6 12 24"},
        {3, {6, 6, 6}, "1 2 3 6 12 18"},
        {4, {8, 8, 8, 8}, "1 2 4 8 16 24 32"},
        {2, {8, 6}, "1 2 3 4 6 8 14"},
        {2, {1, 1}, "1 2"},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int nic[4] = {1, 1, 1, 1};
        struct trial t;
        struct zep_place z;
        struct zep_rng rng;
        char got[100] = "";

        zep_rng_seed(&rng, 1);
        make_trial(&t, &rng, 1, 1, 1);
        test_view_free(t.view);
        t.view = make_view_uneven(table[i].n_node, table[i].dev, nic);
        open_place(&t, &z);
        for (int k = 0; k < z.n_level; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", k ? " " : "", z.level[k].size);
        ck_assert_str_eq(got, table[i].want);
        zep_place_free(&z);
        test_view_free(t.view);
    }
}
END_TEST

static int less_value(const void *arg, int a, int b)
{
    const int *value = arg;

    return value[a] != value[b] ? value[a] < value[b] : a < b;
}

/* The least with room is what a look at all of them finds. */
START_TEST(tournament)
{
    int value[50], in[50], n = _i * 7 + 1;
    int64_t room[50];
    struct zep_tournament t;
    struct zep_rng rng;

    zep_rng_seed(&rng, (uint64_t)_i);
    ck_assert_int_eq(zep_tournament_init(&t, n, less_value, value, NULL), ZEP_OK);
    memset(in, 0, sizeof in);
    ck_assert_int_eq(zep_tournament_find(&t, 0), -1);
    for (int step = 0; step < 2000; step++) {
        int i = between(&rng, 0, n - 1), want = -1, least = between(&rng, -2, 22);

        value[i] = between(&rng, 0, 9);
        room[i] = between(&rng, -1, 20);
        in[i] = between(&rng, 0, 3) > 0;
        if (in[i])
            zep_tournament_set(&t, i, room[i]);
        else
            zep_tournament_remove(&t, i);
        for (int k = 0; k < n; k++)
            if (in[k] && room[k] >= least && (want < 0 || less_value(value, k, want)))
                want = k;
        ck_assert_int_eq(zep_tournament_find(&t, least), want);
    }
    zep_tournament_free(&t);
}
END_TEST

/* The groups of the rivals: sizes that all nodes consist of, whole nodes where these are alike, everything; split and joined they stay parts of a node or whole nodes. */
START_TEST(groups)
{
    static const struct {
        int n_node, dev[4], common;
        const char *sizes;
    } table[] = {
        {1, {12}, 12, "1 2 3 4 6 12"}, {2, {8, 8}, 8, "1 2 4 8 16"}, {3, {6, 6, 6}, 6, "1 2 3 6 18"}, {4, {4, 4, 4, 4}, 4, "1 2 4 8 16"}, {2, {8, 4}, 4, "1 2 4 12"}, {3, {8, 6, 4}, 2, "1 2 18"}, {2, {3, 5}, 1, "1 8"},
    };
    struct zep_rng rng;

    zep_rng_seed(&rng, 2);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int nic[4] = {1, 1, 1, 1}, n_done = 0;
        struct zep_view *view = make_view_uneven(table[i].n_node, table[i].dev, nic);
        struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
        const int64_t len = 100;
        struct zep_groups g;
        char got[100] = "";

        opts.capacity_tok = 100;
        ck_assert_int_eq(zep_groups_init(&g, view, &len, 1, &opts, NULL), ZEP_OK);
        ck_assert_int_eq(zep_groups_common(view), table[i].common);
        for (int size = 1; size <= view->n_dev; size++)
            if (zep_groups_uniform(&g, size))
                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", *got ? " " : "", size);
        ck_assert_str_eq(got, table[i].sizes);
        ck_assert(zep_groups_uniform(&g, 1));
        for (int step = 0; step < 500; step++) {
            n_done += between(&rng, 0, 2) ? zep_groups_split(&g, between(&rng, 0, g.n - 1)) : zep_groups_join(&g, between(&rng, 0, g.n - 1));
            ck_assert(g.dev0[0] == 0 && g.dev0[g.n] == view->n_dev);
            for (int k = 0; k < g.n; k++) {
                int a = view->dev_node[g.dev0[k]], b = view->dev_node[g.dev0[k + 1] - 1];

                ck_assert_int_lt(g.dev0[k], g.dev0[k + 1]);
                ck_assert_msg(a == b || (view->node_dev0[a] == g.dev0[k] && view->node_dev0[b + 1] == g.dev0[k + 1]), "table %d, step %d: devices [%d, %d)", (int)i, step, g.dev0[k], g.dev0[k + 1]);
            }
        }
        ck_assert_int_gt(n_done, 20);
        zep_groups_free(&g);
        test_view_free(view);
    }
}
END_TEST

/* A fixed degree and mixed ones keep rings inside nodes where these are of different size, too. */
START_TEST(uneven_rivals)
{
    static const char *const methods[] = {"static-cp", "wlb", "flexsp", "hybrid-dp", "ulysses", "usp"};
    int dev[3] = {8, 4, 6}, nic[3] = {4, 2, 2};

    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        struct trial t;
        struct zep_rng rng;
        struct zep_plan *plan;
        struct zep_error err = {0};

        zep_rng_seed(&rng, 4);
        make_trial(&t, &rng, 1, 1, 1);
        test_view_free(t.view);
        t.view = make_view_uneven(3, dev, nic);
        t.n = 40;
        for (int i = 0; i < t.n; i++)
            t.len[i] = i ? 2000 : 12000;
        t.opts.capacity_tok = 7500;
        t.opts.method = methods[m];
        ck_assert_msg(zep_plan_build(t.view, t.len, t.n, &t.opts, &plan, &err) == ZEP_OK, "%s: %s", methods[m], err.text);
        for (int i = 0; i < plan->n_ring; i++)
            ck_assert_msg(plan->ring[i].zone != ZEP_ZONE_INTER, "%s: ring %d of %d devices crosses nodes", methods[m], i, plan->ring[i].n_member);
        zep_plan_free(plan);
        test_view_free(t.view);
    }
}
END_TEST

/* Step of a method's plan, 0: it cannot place the batch. */
static double step_of(struct trial *t, const char *method)
{
    struct zep_plan *plan;
    struct zep_sim *sim;
    struct zep_error err = {0};
    double s;
    int rc;

    t->opts.method = method;
    if ((rc = zep_plan_build(t->view, t->len, t->n, &t->opts, &plan, &err)) == ZEP_EUNSUPPORTED)
        return 0;
    ck_assert_msg(rc == ZEP_OK, "%s: %s", method, err.text);
    ck_assert_msg(zep_simulate(plan, t->view, &t->cost, NULL, &sim, &err) == ZEP_OK, "%s: %s", method, err.text);
    s = zep_estimate_rank(sim);
    zep_sim_free(sim);
    zep_plan_free(plan);
    return s;
}

/* Of one degree for all, by hand. */
static double step_of_degree(struct trial *t, int size)
{
    struct zep_plan *plan, *best = NULL;
    struct zep_groups g;
    double s = 0;

    t->opts.method = "static-cp";
    ck_assert_int_eq(zep_groups_init(&g, t->view, t->len, t->n, &t->opts, NULL), ZEP_OK);
    if (zep_groups_uniform(&g, size) && zep_groups_pack(&g)) {
        ck_assert_int_eq(zep_groups_plan(&g, &t->opts, ZEP_FORM_DOUBLE, &plan, NULL), ZEP_OK);
        ck_assert_int_eq(zep_estimate_keep(t->view, &t->cost, plan, &best, &s, NULL), ZEP_OK);
        zep_plan_free(best);
    }
    zep_groups_free(&g);
    return s;
}

/* A rival is as good as its candidates: one degree is the best of all; usp is no worse than ulysses, static-cp and their like, which are among its candidates; FlexSP's groups are better than any one degree where documents
 * differ; auto is as good as the best of all. */
START_TEST(strong_rivals)
{
    int n_better = 0;
    struct zep_rng rng;

    zep_rng_seed(&rng, 21);
    for (int round = 0; round < 16; round++) {
        struct trial t;
        double fixed, flex, all = 0, s;

        make_trial(&t, &rng, 1 + round % 4, 8, 4);
        if (round % 2) /* one key-value head: rings alone */
            t.cost.model.n_head_kv = 1;
        fixed = step_of(&t, "static-cp");
        for (int size = 1; size <= t.view->n_dev; size *= 2)
            ck_assert_msg(!(s = step_of_degree(&t, size)) || (fixed > 0 && fixed <= s), "round %d: static-cp takes %g ms, degree %d takes %g", round, 1e3 * fixed, size, 1e3 * s);
        flex = step_of(&t, "flexsp");
        ck_assert_msg(flex > 0 && (!fixed || flex <= fixed), "round %d: flexsp takes %g ms, static-cp %g", round, 1e3 * flex, 1e3 * fixed);
        n_better += round % 2 && flex < 0.99 * fixed;
        s = step_of(&t, "ulysses");
        ck_assert_msg(!s || step_of(&t, "usp") <= s, "round %d: usp is behind ulysses", round);
        for (int i = 0; zep_methods()[i]; i++)
            if (strcmp(zep_methods()[i]->name, "auto") != 0 && (s = step_of(&t, zep_methods()[i]->name)) > 0 && (!(all > 0) || s < all))
                all = s;
        ck_assert_msg(step_of(&t, "auto") == all, "round %d: auto is not the best of all", round);
        test_view_free(t.view);
    }
    ck_assert_int_ge(n_better, 2);
}
END_TEST

/* A slow device is given less. */
START_TEST(slow_device)
{
    struct zep_rng rng;

    zep_rng_seed(&rng, 5);
    for (int round = 0; round < 10; round++) {
        struct trial t;
        struct zep_plan *plan;
        struct zep_error err = {0};
        double mean = 0;

        make_trial(&t, &rng, 2, 4, 4);
        t.n = MAX_SEQ;
        for (int i = 0; i < t.n; i++)
            mean += (double)(t.len[i] = between(&rng, 500, 3000)) / t.view->n_dev;
        t.opts.capacity_tok = (int64_t)mean * 2;
        t.view->dev_speed = calloc((size_t)t.view->n_dev, sizeof *t.view->dev_speed);
        for (int d = 0; d < t.view->n_dev; d++)
            t.view->dev_speed[d] = d ? 1 : 0.5;
        ck_assert_msg(zep_plan_build(t.view, t.len, t.n, &t.opts, &plan, &err) == ZEP_OK, "%s", err.text);
        ck_assert_msg((double)plan->attn_tok[0] < 0.75 * mean && (double)plan->lin_tok[0] < 0.75 * mean, "round %d: %lld and %lld tokens of %.0f on average", round, (long long)plan->attn_tok[0], (long long)plan->lin_tok[0],
                      mean);
        zep_plan_free(plan);
        test_view_free(t.view);
    }
}
END_TEST

/* Where links between nodes are not known, sequences that fit stay inside nodes; both efforts. */
static int level_of(const struct zep_place *z, int size, int n_node)
{
    int k = 0;

    while (z->level[k].size != size || z->level[k].n_node != n_node)
        ck_assert_int_lt(++k, z->n_level);
    return k;
}

/* One node's NIC is slow: rings on it are as slow as it, others are not, and they are where a sequence goes. */
START_TEST(slow_nic)
{
    struct zep_place z;
    struct zep_rng rng;
    struct trial t;
    int k, dev0;

    zep_rng_seed(&rng, 7);
    make_trial(&t, &rng, 4, 8, 4);
    t.n = 1;
    t.len[0] = 65536;
    t.opts.capacity_tok = 65536;
    t.opts.no_heads = 1;
    t.view->nic_bw[t.view->node_nic0[1]] /= 5;
    open_place(&t, &z);
    zep_place_clear(&z);
    k = level_of(&z, 16, 2);
    ck_assert_double_eq_tol(zep_place_net_bw(&z, k, 0), 20e9, 1); /* eight devices, two a NIC, one of 5 GB/s */
    ck_assert_double_eq_tol(zep_place_net_bw(&z, k, 16), 100e9, 1);
    ck_assert_double_eq_tol(z.level[k].net_bw, 100e9, 1);
    ck_assert_double_gt(zep_place_best(&z, 0, k, zep_place_each(&z, 0, k), &dev0), 0);
    ck_assert_int_eq(dev0, 16);
    zep_place_add(&z, 0, k, 0);
    ck_assert_double_eq_tol(z.node[1].nic[0], 5 * z.node[0].nic[0], 1e-9);
    zep_place_free(&z);
    test_view_free(t.view);
}
END_TEST

/* What is not hidden of crossings in the backward pass of a double ring over two nodes: with P places a node, floor((P + 1) / 3) of the own turn come before the first crossing is waited for (sched.h). */
START_TEST(own_turn)
{
    static const int places[] = {1, 2, 4, 5, 8}, first[] = {0, 1, 1, 2, 3};
    struct zep_place z;
    struct zep_rng rng;
    struct trial t;

    zep_rng_seed(&rng, 8);
    make_trial(&t, &rng, 2, 8, 4);
    open_place(&t, &z);
    for (int i = 0; i < 5; i++)
        for (double bw = 1e9; bw < 1e12; bw *= 1.7) {
            double there = 32768 * t.cost.kv_row / bw, home = 32768 * t.cost.dkv_row / bw, turn, early;
            struct zep_times s;

            zep_place_times(&z, 65536, 2 * places[i], 2, bw, 1, &s);
            turn = fmax(s.turn[1], s.port[1] / 2);
            early = turn * first[i] / places[i];
            ck_assert_double_eq_tol(s.tail[1], fmax(there - early, 0) + fmax(home - (turn - early), 0), 1e-12);
        }
    zep_place_free(&z);
    test_view_free(t.view);
}
END_TEST

/* Of all divisors, each degree exchanges heads among as many as take the longest sequences the least time; then fewer, then none. */
START_TEST(heads)
{
    int n_between = 0, n_over = 0;

    for (int round = 0; round < 40; round++) {
        struct zep_place z;
        struct zep_rng rng;
        struct trial t;
        int n_head, calls = 0;

        zep_rng_seed(&rng, 100 + (uint64_t)round);
        make_trial(&t, &rng, 1 + round % 3, 8, 8);
        open_place(&t, &z);
        n_head = zep_estimate_n_heads(&t.opts);
        for (int k = 1; k < z.n_level; k++) {
            int in_node = z.level[k].size / z.level[k].n_node, chosen = z.level[k].heads;
            double least = INFINITY, own = 0;

            for (int u = 1; u <= z.level[k].size; u++) {
                double sum = 0;

                if (u > 1 && ((u > in_node && u != z.level[k].size) || z.level[k].size % u || (u <= in_node && in_node % u) || n_head % u))
                    continue;
                z.level[k].heads = u;
                for (int i = 0; i < t.n; i++)
                    sum += zep_place_alone(&z, i, k);
                least = fmin(least, sum);
                own = u == chosen ? sum : own;
            }
            z.level[k].heads = chosen;
            ck_assert_msg(own <= least * (1 + 1e-9), "round %d, %d devices: %d exchange, %g ms; the best takes %g ms", round, z.level[k].size, chosen, 1e3 * own, 1e3 * least);
            n_between += chosen > 1 && chosen < in_node;
            n_over += chosen > in_node;
        }
        while (zep_place_fewer_heads(&z)) {
            calls++;
            for (int k = 0; k < z.n_level; k++)
                ck_assert_int_le(z.level[k].heads, z.level[k].size / z.level[k].n_node);
        }
        ck_assert_int_le(calls, 2);
        for (int k = 0; k < z.n_level; k++)
            ck_assert_int_eq(z.level[k].heads, 1);
        zep_place_free(&z);
        test_view_free(t.view);
    }
    ck_assert_int_gt(n_between, 0);
    ck_assert_int_gt(n_over, 0);
}
END_TEST

START_TEST(unknown_links)
{
    for (int effort = ZEP_EFFORT_FAST; effort < ZEP_N_EFFORT; effort++) {
        int64_t len[20], n = 20;
        struct trial t;
        struct zep_rng rng;
        struct zep_plan *plan = NULL;
        struct zep_error err = {0};

        zep_rng_seed(&rng, 3);
        make_trial(&t, &rng, 2, 4, 4);
        for (int i = 0; i < n; i++)
            len[i] = 2000;
        t.opts.capacity_tok = 20000;
        t.opts.effort = (enum zep_effort)effort;
        for (int d = 0; d < t.view->n_dev; d++)
            t.view->dev_bw[d] = 0;
        t.cost.engine.port_bw = 0;
        ck_assert_msg(zep_plan_build(t.view, len, (int)n, &t.opts, &plan, &err) == ZEP_OK, "effort %d: %s", effort, err.text);
        for (int i = 0; i < plan->n_ring; i++)
            ck_assert_int_eq(plan->ring[i].n_member, 1);
        zep_plan_free(plan);
        test_view_free(t.view);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("place");
    TCase *tc = tcase_create("all");
    SRunner *r;
    int bad;

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, estimate);
    tcase_add_loop_test(tc, comes_and_goes, 0, 6);
    tcase_add_test(tc, refinement);
    tcase_add_test(tc, judged);
    tcase_add_test(tc, degrees);
    tcase_add_loop_test(tc, tournament, 0, 7);
    tcase_add_test(tc, groups);
    tcase_add_test(tc, uneven_rivals);
    tcase_add_test(tc, strong_rivals);
    tcase_add_test(tc, slow_device);
    tcase_add_test(tc, slow_nic);
    tcase_add_test(tc, own_turn);
    tcase_add_test(tc, heads);
    tcase_add_test(tc, unknown_links);
    suite_add_tcase(s, tc);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad ? 1 : 0;
}
