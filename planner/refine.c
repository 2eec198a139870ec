/* Refinement of a placement: what the slowest device holds goes elsewhere, or over more or fewer devices, while that makes the slowest device faster or the nodes concerned more even. */
#include "config.h"
#include "planner/place.h"

#define N_AROUND 2 /* degrees below and above a sequence's own that are tried */

struct move {
    int seq;
    struct zep_job to;
    double slowest_s, gain; /* gain: in evenness */
};

static int node0_of(const struct zep_place *z, struct zep_job j)
{
    return z->view->dev_node[j.dev0];
}

/* Unevenness of the nodes of a that b has not; b.k < 0: of all. */
static double squares(const struct zep_place *z, struct zep_job a, struct zep_job b)
{
    int b0 = b.k < 0 ? 0 : node0_of(z, b), b1 = b.k < 0 ? 0 : zep_place_end_node(z, b.k, b.dev0), end = zep_place_end_node(z, a.k, a.dev0);
    double sum = 0;

    for (int i = node0_of(z, a); i < end; i++)
        sum += i >= b0 && i < b1 ? 0 : z->node[i].squares;
    return sum;
}

static int is_better(double slowest_s, double gain, const struct move *than)
{
    if (slowest_s < than->slowest_s * (1 - 1e-9))
        return 1;
    return slowest_s <= than->slowest_s * (1 + 1e-9) && gain > than->gain;
}

/* All ways for one sequence; the best one into *best. */
static void try_seq(struct zep_place *z, int seq, struct move *best, int64_t until)
{
    struct zep_job old = z->job[seq], none = {0, -1};
    double at_old = squares(z, old, none);
    int dev;

    zep_place_remove(z, seq);
    for (int k = old.k > N_AROUND ? old.k - N_AROUND : 0; k < z->n_level && k <= old.k + N_AROUND && z->work < until; k++) {
        struct zep_job to = {0, k};
        double before, s, gain;

        if (!(z->known >> k & 1))
            continue;
        if (zep_place_best(z, seq, k, zep_place_each(z, seq, k), &to.dev0) < 0 || (k == old.k && to.dev0 == old.dev0))
            continue;
        before = at_old + squares(z, to, old);
        zep_place_add(z, seq, k, to.dev0);
        s = zep_place_slowest(z, &dev);
        gain = before - squares(z, old, none) - squares(z, to, old) - 1e-9 * before;
        if (is_better(s, gain, best))
            *best = (struct move){seq, to, s, gain};
        zep_place_remove(z, seq);
    }
    zep_place_add(z, seq, old.k, old.dev0);
}

static void try_block(struct zep_place *z, int k, int dev0, struct move *best, int64_t until)
{
    int32_t at = z->head[(size_t)k * (size_t)z->view->n_dev + (size_t)dev0], next;

    for (; at && z->work < until; at = next) { /* what is tried goes back to the list's front */
        next = z->next[at - 1];
        try_seq(z, at - 1, best, until);
    }
}

/* The best way for any sequence of the slowest device: 1 taken, 0 none. */
static int move_one(struct zep_place *z, int64_t until)
{
    const int32_t *dev0 = z->view->node_dev0;
    struct move best = {.seq = -1};
    int dev, node, n_node = z->view->n_node;

    best.slowest_s = zep_place_slowest(z, &dev);
    node = z->view->dev_node[dev];
    for (int k = 0; k < z->n_inside; k++)
        try_block(z, k, dev - (dev - dev0[node]) % z->level[k].size, &best, until);
    for (int k = z->n_inside; k < z->n_level; k++) {
        int m = k == z->n_level - 1 ? n_node : z->level[k].n_node, first = node / m * m;

        if (first + m <= n_node)
            try_block(z, k, dev0[first], &best, until);
        if (node >= n_node - m && n_node % m)
            try_block(z, k, dev0[n_node - m], &best, until);
    }
    if (best.seq < 0)
        return 0;
    zep_place_remove(z, best.seq);
    zep_place_add(z, best.seq, best.to.k, best.to.dev0);
    return 1;
}

void zep_place_refine(struct zep_place *z, int64_t work)
{
    int64_t until = z->work + work;

    while (z->work < until && move_one(z, until))
        ;
}
