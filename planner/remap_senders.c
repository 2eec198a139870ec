/* The paper's objective: the largest cost over senders of their tokens times the link's cost a token is the least. How much of each sender's surplus goes how far is
 * decided by bisection over that cost: docs/remapping.md, "Senders". */
#include "config.h"
#include "planner/remap_internal.h"

#include <math.h>
#include <stdlib.h>

#include "common/arena.h"

struct sender {
    int dev;
    int64_t s;       /* its surplus */
    int64_t a, b, c; /* cost of a token that stays in the node, in the leaf, that crosses leaves */
    double x, u;     /* tokens that stay in the node, in the leaf (x among them) */
};

struct senders {
    struct zep_remap *rm;
    int n;
    struct sender *snd;   /* by node in the order of rm->dev; in a node those first that spare most of the leaf's room by a token in the node */
    int n_group;          /* nodes that send */
    struct group {
        int node, first, n;
        int64_t room;     /* tokens that its receivers still can take, when whole tokens are given out */
    } *group;
    int *group0;          /* [n_leaf + 1] */
    int64_t *leaf_in;     /* [n_leaf] deficits */
};

/* (b - a) / (c - b), largest first. */
static int cmp_spare(const void *p, const void *q)
{
    const struct sender *x = p, *y = q;
    int64_t l = (x->b - x->a) * (y->c - y->b), r = (y->b - y->a) * (x->c - x->b);

    if (l != r)
        return l > r ? -1 : 1;
    return (x->dev > y->dev) - (x->dev < y->dev);
}

static int list_senders(struct senders *st, struct zep_error *err)
{
    const struct zep_remap *rm = st->rm;
    const struct zep_view *view = rm->view;

    st->snd = zep_arena_alloc(rm->arena, (size_t)rm->n_dev, sizeof *st->snd);
    st->group = zep_arena_alloc(rm->arena, (size_t)view->n_node, sizeof *st->group);
    st->group0 = zep_arena_alloc(rm->arena, (size_t)rm->n_leaf + 1, sizeof *st->group0);
    st->leaf_in = zep_arena_alloc(rm->arena, (size_t)rm->n_leaf, sizeof *st->leaf_in);
    if (!st->snd || !st->group || !st->group0 || !st->leaf_in)
        return zep_error_nomem(err, "remapping");
    for (int l = 0; l < rm->n_leaf; l++) {
        st->group0[l] = st->n_group;
        for (int i = rm->leaf0[l]; i < rm->leaf0[l + 1]; i++) {
            int d = rm->dev[i], node = view->dev_node[d];

            if (rm->surplus[d] <= 0) {
                st->leaf_in[l] -= rm->surplus[d];
                continue;
            }
            if (st->n_group == st->group0[l] || st->group[st->n_group - 1].node != node)
                st->group[st->n_group++] = (struct group){.node = node, .first = st->n};
            st->group[st->n_group - 1].n++;
            st->snd[st->n++] = (struct sender){.dev = d, .s = rm->surplus[d], .a = rm->cost[ZEP_REMAP_NODE][d], .b = rm->cost[ZEP_REMAP_LEAF][d], .c = rm->cost[ZEP_REMAP_SPINE][d]};
        }
    }
    st->group0[rm->n_leaf] = st->n_group;
    for (int i = 0; i < st->n_group; i++)
        qsort(&st->snd[st->group[i].first], (size_t)st->group[i].n, sizeof *st->snd, cmp_spare);
    return ZEP_OK;
}

/* The least tokens of the leaf's receivers that the node's senders need so that none costs more than `cost`; their x and u are set. Negative: the node has too few receivers. */
static double fill_node(const struct senders *st, const struct group *g, int64_t cost)
{
    double room = (double)st->rm->node_in[g->node], sum = 0;
    struct sender *end = &st->snd[g->first + g->n];

    for (struct sender *p = &st->snd[g->first]; p < end; p++) { /* what must stay in the node even where all else stays in the leaf */
        int64_t over = p->b * p->s - cost, gain = p->b - p->a, up;

        if (over <= 0)
            p->x = 0;
        else if (p->c == p->b) { /* two levels: whole tokens at once */
            up = (over + gain - 1) / gain;
            p->x = (double)up;
        } else
            p->x = (double)over / (double)gain;
        room -= p->x;
    }
    if (room < 0)
        return -1;
    for (struct sender *p = &st->snd[g->first]; p < end; p++) {
        int64_t over = p->c * p->s - cost;

        p->u = p->x;
        if (over <= 0 || p->c == p->b) /* costs little enough anyhow; no level but node and leaf */
            continue;
        if (p->b > p->a) {
            double more = (double)over / (double)(p->c - p->a) - p->x;

            more = more < room ? more : room;
            if (more > 0) {
                p->x += more;
                room -= more;
            }
        }
        p->u = ((double)over - (double)(p->b - p->a) * p->x) / (double)(p->c - p->b);
        p->u = p->u < p->x ? p->x : p->u > (double)p->s ? (double)p->s : p->u;
        sum += p->u - p->x;
    }
    for (struct sender *p = &st->snd[g->first]; p < end; p++)
        sum += p->x;
    return sum;
}

static int fits(const struct senders *st, int64_t cost)
{
    for (int l = 0; l < st->rm->n_leaf; l++) {
        double room = (double)st->leaf_in[l];

        for (int i = st->group0[l]; i < st->group0[l + 1]; i++) {
            double need = fill_node(st, &st->group[i], cost);

            if (need < 0)
                return 0;
            room -= need;
        }
        if (room < 0)
            return 0;
    }
    return 1;
}

static int64_t least_cost(const struct senders *st)
{
    int64_t lo = 0, hi = 0;

    for (int i = 0; i < st->n; i++) { /* all in the node, all across leaves */
        lo = st->snd[i].a * st->snd[i].s > lo ? st->snd[i].a * st->snd[i].s : lo;
        hi = st->snd[i].c * st->snd[i].s > hi ? st->snd[i].c * st->snd[i].s : hi;
    }
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (fits(st, mid))
            hi = mid;
        else
            lo = mid + 1;
    }
    fits(st, hi);
    return hi;
}

/* --- whole tokens --- */

struct costly {
    int64_t cost;
    int dev, group;
};

static int cmp_costly(const void *p, const void *q)
{
    const struct costly *x = p, *y = q;

    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return (x->dev > y->dev) - (x->dev < y->dev);
}

static int64_t min3(int64_t a, int64_t b, int64_t c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

/* Takes k of the device's tokens from one level to a nearer one. */
static void nearer(struct zep_remap *rm, int d, enum zep_remap_level from, enum zep_remap_level to, int64_t k)
{
    rm->part[from][d] -= k;
    rm->part[to][d] += k;
}

/* Senders that cost more than `cost` since their tokens were rounded get a token nearer while there is room, the costliest first. */
static void mend(const struct senders *st, int l, int64_t cost, struct costly *list, int64_t *leaf_room)
{
    struct zep_remap *rm = st->rm;
    int64_t *y = rm->part[ZEP_REMAP_LEAF], *z = rm->part[ZEP_REMAP_SPINE];
    int n = 0;

    for (int i = st->group0[l]; i < st->group0[l + 1]; i++)
        for (int k = 0; k < st->group[i].n; k++) {
            const struct sender *p = &st->snd[st->group[i].first + k];
            int64_t mine = p->a * rm->part[ZEP_REMAP_NODE][p->dev] + p->b * y[p->dev] + p->c * z[p->dev];

            if (mine > cost)
                list[n++] = (struct costly){mine, p->dev, i};
        }
    qsort(list, (size_t)n, sizeof *list, cmp_costly);
    for (int i = 0; i < n; i++) {
        int d = list[i].dev;
        struct group *g = &st->group[list[i].group];
        int64_t a = rm->cost[ZEP_REMAP_NODE][d], b = rm->cost[ZEP_REMAP_LEAF][d], c = rm->cost[ZEP_REMAP_SPINE][d], mine = list[i].cost;

        if (g->room > 0 && y[d] > 0) {
            nearer(rm, d, ZEP_REMAP_LEAF, ZEP_REMAP_NODE, 1);
            g->room--;
            mine -= b - a;
        } else if (g->room > 0 && *leaf_room > 0 && z[d] > 0) {
            nearer(rm, d, ZEP_REMAP_SPINE, ZEP_REMAP_NODE, 1);
            g->room--;
            --*leaf_room;
            mine -= c - a;
        }
        for (; mine > cost && c > b && *leaf_room > 0 && z[d] > 0; mine -= c - b) {
            nearer(rm, d, ZEP_REMAP_SPINE, ZEP_REMAP_LEAF, 1);
            --*leaf_room;
        }
    }
}

/* What room is left is used up: nobody costs more by it, and the leaves' and the spine's links carry less. */
static void use_up(const struct senders *st, int l, int64_t *leaf_room)
{
    struct zep_remap *rm = st->rm;
    int64_t *y = rm->part[ZEP_REMAP_LEAF], *z = rm->part[ZEP_REMAP_SPINE];

    for (int i = st->group0[l]; i < st->group0[l + 1]; i++) {
        struct group *g = &st->group[i];

        for (int pass = 0; pass < 2; pass++) /* all that go to the leaf first */
            for (int k = 0; k < g->n; k++) {
                int d = st->snd[g->first + k].dev;
                int64_t t = pass ? min3(z[d], g->room, *leaf_room) : min3(y[d], g->room, y[d]);

                nearer(rm, d, pass ? ZEP_REMAP_SPINE : ZEP_REMAP_LEAF, ZEP_REMAP_NODE, t);
                g->room -= t;
                *leaf_room -= pass ? t : 0;
            }
    }
    for (int i = st->group0[l]; i < st->group0[l + 1]; i++)
        for (int k = 0; k < st->group[i].n; k++) {
            int d = st->snd[st->group[i].first + k].dev;
            int64_t t = min3(z[d], *leaf_room, z[d]);

            nearer(rm, d, ZEP_REMAP_SPINE, ZEP_REMAP_LEAF, t);
            *leaf_room -= t;
        }
}

/* Receivers, in their order: first those served by their node, then by their leaf. */
static void place_receivers(const struct senders *st, int l)
{
    struct zep_remap *rm = st->rm;
    int64_t leaf = 0, inside = 0;
    int node = -1;

    for (int i = rm->leaf0[l]; i < rm->leaf0[l + 1]; i++)
        leaf += rm->surplus[rm->dev[i]] > 0 ? rm->part[ZEP_REMAP_LEAF][rm->dev[i]] : 0;
    for (int i = rm->leaf0[l]; i < rm->leaf0[l + 1]; i++) {
        int d = rm->dev[i];
        int64_t want = -rm->surplus[d];

        if (rm->view->dev_node[d] != node) {
            node = rm->view->dev_node[d];
            inside = 0;
            for (int k = rm->view->node_dev0[node]; k < rm->view->node_dev0[node + 1]; k++)
                inside += rm->surplus[k] > 0 ? rm->part[ZEP_REMAP_NODE][k] : 0;
        }
        if (want <= 0)
            continue;
        rm->part[ZEP_REMAP_NODE][d] = -min3(want, inside, want);
        want += rm->part[ZEP_REMAP_NODE][d];
        inside += rm->part[ZEP_REMAP_NODE][d];
        rm->part[ZEP_REMAP_LEAF][d] = -min3(want, leaf, want);
        want += rm->part[ZEP_REMAP_LEAF][d];
        leaf += rm->part[ZEP_REMAP_LEAF][d];
        rm->part[ZEP_REMAP_SPINE][d] = -want;
    }
}

int zep_remap_senders(struct zep_remap *rm, struct zep_error *err)
{
    struct senders st = {.rm = rm};
    struct costly *list = zep_arena_alloc(rm->arena, (size_t)rm->n_dev, sizeof *list);
    int64_t cost;
    int rc;

    if (!list)
        return zep_error_nomem(err, "remapping");
    if ((rc = list_senders(&st, err)) < 0)
        return rc;
    cost = least_cost(&st);
    for (int l = 0; l < rm->n_leaf; l++) {
        int64_t leaf_room = st.leaf_in[l];

        for (int i = st.group0[l]; i < st.group0[l + 1]; i++) {
            struct group *g = &st.group[i];

            g->room = rm->node_in[g->node];
            for (int k = 0; k < g->n; k++) { /* rounded down, both fit still and nobody loses as much as one token from the spine into the node */
                const struct sender *p = &st.snd[g->first + k];
                int64_t x = (int64_t)floor(p->x), u = (int64_t)floor(p->u);

                rm->part[ZEP_REMAP_NODE][p->dev] = x;
                rm->part[ZEP_REMAP_LEAF][p->dev] = u - x;
                rm->part[ZEP_REMAP_SPINE][p->dev] = p->s - u;
                g->room -= x;
                leaf_room -= u;
            }
        }
        mend(&st, l, cost, list, &leaf_room);
        use_up(&st, l, &leaf_room);
        place_receivers(&st, l);
    }
    return ZEP_OK;
}
