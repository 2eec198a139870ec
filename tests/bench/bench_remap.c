/* How long remapping takes: 8 devices and NICs a node, 16 nodes a leaf, random attention layouts. Best of five, both objectives. usage: bench_remap [n_dev...] */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/rng.h"
#include "planner/plan_internal.h"

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *need(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p)
        abort();
    return p;
}

/* mixed: every link has a speed of its own. */
static void fill_view(struct zep_view *v, int n_dev, int mixed, struct zep_rng *rng)
{
    *v = (struct zep_view){.n_node = n_dev / 8, .n_dev = n_dev, .n_nic = n_dev};
    v->node_dev0 = need((size_t)v->n_node + 1, sizeof *v->node_dev0);
    v->node_nic0 = need((size_t)v->n_node + 1, sizeof *v->node_nic0);
    v->node_leaf = need((size_t)v->n_node, sizeof *v->node_leaf);
    v->dev_node = need((size_t)n_dev, sizeof *v->dev_node);
    v->dev_nic = need((size_t)n_dev, sizeof *v->dev_nic);
    v->dev_bw = need((size_t)n_dev, sizeof *v->dev_bw);
    v->nic_bw = need((size_t)n_dev, sizeof *v->nic_bw);
    for (int i = 0; i <= v->n_node; i++) {
        v->node_dev0[i] = v->node_nic0[i] = 8 * i;
        if (i < v->n_node)
            v->node_leaf[i] = i / 16;
    }
    for (int d = 0; d < n_dev; d++) {
        v->dev_node[d] = d / 8;
        v->dev_nic[d] = d;
        v->dev_bw[d] = mixed ? 1e9 * (double)(100 + zep_rng_below(rng, 400)) : 450e9;
        v->nic_bw[d] = mixed ? 1e9 * (double)(10 + zep_rng_below(rng, 80)) : 50e9;
    }
}

static void measure(int n_dev, int mixed)
{
    static const char *const name[] = {"senders", "links"};
    struct zep_rng rng;
    struct zep_view v;
    int64_t *tok = need((size_t)n_dev, sizeof *tok), sum = 0, moved = 0;

    zep_rng_seed(&rng, 7);
    fill_view(&v, n_dev, mixed, &rng);
    for (int d = 0; d < n_dev; d++)
        sum += tok[d] = (int64_t)zep_rng_below(&rng, d / 8 % 3 ? 8192 : 16384);
    for (int k = 0; k < 2; k++) {
        double best = 1e9;
        int n_move = 0;

        for (int trial = 0; trial < 5; trial++) {
            struct zep_plan plan = {0};
            struct zep_error err;
            double t = now_s();

            if (zep_plan_remap_for(&v, k ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS, tok, NULL, &plan, &err) < 0) {
                fprintf(stderr, "bench_remap: %s\n", err.text);
                exit(1);
            }
            t = now_s() - t;
            best = t < best ? t : best;
            n_move = plan.n_move;
            moved = 0;
            for (int i = 0; i < plan.n_move; i++)
                moved += plan.move[i].n;
            free(plan.move);
        }
        printf("%6d devices, %s links, %-8s %8.3f ms, %6d moves of %.1f %% of %" PRId64 " tokens\n", n_dev, mixed ? "unequal" : "equal  ", name[k], 1e3 * best, n_move,
               100 * (double)moved / (double)sum, sum);
    }
    free(tok);
    free(v.node_dev0);
    free(v.node_nic0);
    free(v.node_leaf);
    free(v.dev_node);
    free(v.dev_nic);
    free(v.dev_bw);
    free(v.nic_bw);
}

int main(int argc, char **argv)
{
    static const int usual[] = {64, 256, 1024, 4096, 16384};

    for (int i = 1; i < (argc > 1 ? argc : 6); i++) {
        int n_dev = argc > 1 ? atoi(argv[i]) / 8 * 8 : usual[i - 1];

        if (n_dev < 8) {
            fputs("usage: bench_remap [n_dev...], each at least 8\n", stderr);
            return 2;
        }
        measure(n_dev, 0);
        measure(n_dev, 1);
    }
    return 0;
}
