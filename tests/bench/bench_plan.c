/* Planning and simulating time on one core: prints, asserts nothing. bench_plan [MOST_DEVICES] (default 16384). Best of as many runs as fit into a second. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "planner/cost.h"
#include "planner/plan.h"
#include "planner/sim.h"
#include "planner/workload.h"
#include "topology/preset.h"

static void die(const struct zep_error *err)
{
    fprintf(stderr, "bench_plan: %s\n", err->text);
    exit(1);
}

static double plan_s(const struct zep_view *view, const struct zep_workload *w, const char *method, const struct zep_cost *cost, int64_t capacity, struct zep_plan **plan_out)
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    double best = 1e30, begin = zep_clock_now();
    struct zep_error err;

    opts.method = method;
    opts.capacity_tok = capacity;
    opts.cost = cost;
    *plan_out = NULL;
    do {
        double t0 = zep_clock_now(), t;

        zep_plan_free(*plan_out);
        if (zep_plan_build(view, w->len, w->n, &opts, plan_out, &err) < 0)
            die(&err);
        t = zep_clock_now() - t0;
        best = t < best ? t : best;
    } while (zep_clock_now() - begin < 1);
    return best;
}

static double sim_s(const struct zep_plan *plan, const struct zep_view *view, const struct zep_cost *cost)
{
    double best = 1e30, begin = zep_clock_now();
    struct zep_error err;

    do {
        double t0 = zep_clock_now(), t;
        struct zep_sim *sim;

        if (zep_simulate(plan, view, cost, NULL, &sim, &err) < 0)
            die(&err);
        zep_sim_free(sim);
        t = zep_clock_now() - t0;
        best = t < best ? t : best;
    } while (zep_clock_now() - begin < 1);
    return best;
}

int main(int argc, char **argv)
{
    static const struct {
        int n_dev;
        const char *dist;
    } sizes[] = {{16, "github:tokens=64k,seed=1"}, {64, "github:tokens=256k,seed=1"}, {256, "github:tokens=2M,seed=1"}, {1024, "github:tokens=16M,seed=1"}, {4096, "github:tokens=32M,seed=1"}, {16384, "github:tokens=128M,seed=1"}};
    int most = argc > 1 ? atoi(argv[1]) : 16384;
    struct zep_model_desc model;
    struct zep_engine engine;
    struct zep_error err;

    if (zep_model_load("llama3-8b", &model, &err) < 0 || zep_engine_load("h100", &engine, &err) < 0)
        die(&err);
    printf("%8s %10s %10s %14s %14s %14s %14s\n", "devices", "tokens", "sequences", "zeppelin", "zeppelin-paper", "sim zeppelin", "sim te-cp");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && sizes[i].n_dev <= most; i++) {
        struct zep_topo *topo;
        struct zep_view *view;
        struct zep_workload *w;
        struct zep_cost cost;
        struct zep_plan *plan;
        int64_t capacity;
        double t;

        if (zep_topo_preset("dgx-h100", sizes[i].n_dev / 8, &topo, &err) < 0 || zep_topo_assign_nics(topo, &err) < 0 || zep_view_new(topo, 0, 0, 1, &view, &err) < 0 || zep_workload_dist(sizes[i].dist, &w, &err) < 0 ||
            zep_cost_make(&model, &engine, 1, view->dev_bw[0], &cost, &err) < 0)
            die(&err);
        capacity = w->n_token * 3 / 2 / view->n_dev + 1;
        printf("%8d %9lldk %10d ", view->n_dev, (long long)w->n_token / 1024, w->n);
        t = plan_s(view, w, "zeppelin-paper", &cost, capacity, &plan);
        zep_plan_free(plan);
        printf("%11.2f ms %11.2f ms ", 1e3 * plan_s(view, w, "zeppelin", &cost, capacity, &plan), 1e3 * t);
        printf("%11.2f ms ", 1e3 * sim_s(plan, view, &cost));
        zep_plan_free(plan);
        if (view->n_dev <= 1024) { /* its rounds grow with the square of the devices */
            plan_s(view, w, "te-cp", &cost, capacity, &plan);
            printf("%11.2f ms", 1e3 * sim_s(plan, view, &cost));
            zep_plan_free(plan);
        }
        printf("\n");
        fflush(stdout);
        zep_workload_free(w);
        zep_view_free(view);
        zep_topo_free(topo);
    }
    return 0;
}
