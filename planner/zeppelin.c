/* Our method: the paper's three zones, everything by cost. A sequence is a malleable job: on g devices each of them is busy for its attention (which zigzag divides evenly, but for what small
 * blocks waste) and, where tokens stay, its linear modules. With T the time that a perfect spread would take, a sequence gets the fewest devices on which it stays below a share of T, or a few more where it
 * is done earlier there; it goes, longest first, to the aligned block of that many devices which is least busy and has room. Blocks of different sizes are nested: a device may be in one of each.
 * That is done for several shares; what the busiest devices hold is then placed anew, on other blocks or over more or fewer devices, while the busiest resource becomes less busy (a number of tries that
 * follows from the input, design, section 4). The most promising placements are simulated; the fastest is the plan. Rings over nodes are double. Linear modules stay where attention left the tokens,
 * or tokens are moved to equal shares: both are among the candidates.
 *
 * How long a device takes is estimated as its computing, and what of the last crossings of its rings over nodes the rest of its computing does not hide; NICs of a node are a resource of their own. */
#include "config.h"
#include "planner/groups.h"
#include "planner/sim.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static const double shares[] = {1.0, 0.8, 1.2, 0.62, 1.5, 0.48, 2.0, 0.33}; /* the likeliest first: large inputs try only a few */
#define N_SHARE ((int)(sizeof shares / sizeof shares[0]))
#define N_AHEAD 3 /* how many larger degrees are weighed beside the smallest */
#define MAX_KEPT 80 /* candidates that may be simulated */
#define PLACE_WORK 2e6  /* nodes that placements may look at */
#define REFINE_WORK 300000 /* nodes that the refinement of one may look at */
#define REFINE_ALL 2000000 /* and all of them together */
#define SIM_WORK 4096 /* devices that are simulated for choosing, and again for polishing */
#define NIC_WEIGHT 1.15 /* NICs are not shared without gaps */
#define MOVE_WEIGHT 2.0 /* nor do all tokens move at once */
#define MAX_SIZE 40
#define MAX_IN_NODE 12

struct job { /* a sequence on [dev0, dev0 + size[k]) */
    int32_t dev0, k;
};

struct times { /* of a sequence in a degree: seconds of both passes of a layer */
    double busy;  /* computing on each device, */
    double fwd;   /* the forward pass's part of it */
    double tail;  /* crossings that its own steps do not hide: the first block, and gradients that the own node's turn is too short for */
    double nic;   /* all its crossings: the NICs of each of its nodes */
    double port[2]; /* its hops inside nodes: each device's port, by pass */
};

enum move { MOVE_NONE = 0, MOVE_NODE, MOVE_ALL, N_MOVE }; /* tokens to where linear modules work: none, inside nodes, anywhere */

struct load { /* of a device */
    double linear;    /* computing: linear modules of its tokens, */
    double attn, fwd; /* attention, its forward part, */
    double rest;      /* attention but for rings over nodes */
    double tail, port[2];
    int64_t tok;
};

struct node_best { /* of a node, by degree inside it: the least busy aligned block */
    double busy[MAX_IN_NODE];
    int64_t tok[MAX_IN_NODE]; /* of its fullest device */
    int32_t dev0[MAX_IN_NODE];
    double squares;
    int32_t slowest; /* device */
};

struct candidate {
    struct job *job; /* [n_seq] */
    double slowest_s;
    enum move move;
};

struct zp {
    struct zep_groups g;    /* lengths by descending size; its groups are not used */
    const struct zep_view *view;
    const struct zep_plan_opts *opts;
    int per_node, n_size, n_in_node; /* degrees; those inside a node */
    struct node_best *nb;   /* [n_node] */
    int size[MAX_SIZE];     /* degrees, ascending; the last is everything */
    double token_s;         /* linear modules */
    enum move move;         /* what is looked at just now */
    double target_s;        /* T: a perfect spread */
    double linear_s;        /* linear modules of a device on average */
    double *node_s;         /* [n_node] of a node's devices */
    double *busy_s;         /* [n_dev] attention */
    double port_bw, nics_bw; /* of the slowest device, of the slowest node's NICs together, bytes/s */
    double *node_bw;         /* [n_node] NICs together */
    struct times (*t)[MAX_SIZE]; /* [n_seq] */
    struct load *dev;       /* [n_dev] */
    double *nic_s;          /* [n_node] */
    struct job *job;        /* [n_seq] */
    int refine_left;        /* tries of all refinements together */
    int n_kept;
    struct candidate kept[MAX_KEPT]; /* ascending slowest_s */
};

static void zp_free(struct zp *z)
{
    zep_groups_free(&z->g);
    free(z->node_bw);
    free(z->nb);
    free(z->node_s);
    free(z->busy_s);
    free(z->t);
    free(z->dev);
    free(z->nic_s);
    free(z->job);
    for (int i = 0; i < z->n_kept; i++)
        free(z->kept[i].job);
}

/* Powers of two in a node, whole nodes times powers of two, everything. */
static void set_sizes(struct zp *z)
{
    int n_dev = z->view->n_dev;

    z->per_node = zep_groups_per_node(z->view);
    for (int s = 1; s < n_dev && z->n_size < MAX_SIZE - 1; z->n_size++) {
        z->size[z->n_size] = s;
        if (!z->per_node)
            s = n_dev;
        else if (s < z->per_node)
            s = z->per_node % (2 * s) == 0 ? 2 * s : z->per_node;
        else
            s = n_dev % (2 * s) == 0 ? 2 * s : n_dev;
    }
    z->size[z->n_size++] = n_dev;
    while (z->n_in_node < z->n_size && z->n_in_node < MAX_IN_NODE && (z->per_node ? z->size[z->n_in_node] <= z->per_node : z->size[z->n_in_node] == 1 || z->view->n_node == 1))
        z->n_in_node++;
}

static int zp_init(struct zp *z, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err)
{
    int rc;

    memset(z, 0, sizeof *z);
    if ((rc = zep_groups_init(&z->g, view, len, n, opts, err)) < 0)
        return rc;
    z->view = view;
    z->opts = opts;
    set_sizes(z);
    z->nb = zep_calloc((size_t)view->n_node, sizeof *z->nb);
    z->node_bw = zep_calloc((size_t)view->n_node, sizeof *z->node_bw);
    z->node_s = zep_calloc((size_t)view->n_node, sizeof *z->node_s);
    z->busy_s = zep_calloc((size_t)view->n_dev, sizeof *z->busy_s);
    z->t = zep_calloc((size_t)n + 1, sizeof *z->t);
    z->dev = zep_calloc((size_t)view->n_dev, sizeof *z->dev);
    z->nic_s = zep_calloc((size_t)view->n_node, sizeof *z->nic_s);
    z->job = zep_calloc((size_t)n + 1, sizeof *z->job);
    if (!z->nb || !z->node_bw || !z->node_s || !z->busy_s || !z->t || !z->dev || !z->nic_s || !z->job) {
        zp_free(z);
        return zep_error_nomem(err, "plan");
    }
    z->port_bw = zep_estimate_port(z->g.cost, view);
    for (int i = 0; i < view->n_node; i++)
        for (int c = view->node_nic0[i]; c < view->node_nic0[i + 1]; c++)
            z->node_bw[i] += view->nic_bw[c];
    z->nics_bw = z->node_bw[0];
    for (int i = 1; i < view->n_node; i++) /* the slowest node's */
        z->nics_bw = z->node_bw[i] < z->nics_bw ? z->node_bw[i] : z->nics_bw;
    return ZEP_OK;
}

static int n_node_of(const struct zp *z, int k)
{
    return z->per_node && z->size[k] > z->per_node ? z->size[k] / z->per_node : z->size[k] == z->view->n_dev ? z->view->n_node : 1;
}

/* Times of all sequences in all degrees; T. */
static double set_times(struct zp *z)
{
    const struct zep_cost *c = z->g.cost;
    double total = 0;

    for (int i = 0; i < z->g.n_seq; i++)
        for (int k = 0; k < z->n_size; k++) {
            int size = z->size[k], nodes = n_node_of(z, k), per = size / nodes;
            double len = (double)z->g.len[i], bytes = len / nodes;
            struct times *t = &z->t[i][k];

            *t = (struct times){.busy = zep_estimate_attn(c, z->g.len[i], size)};
            t->fwd = t->busy * c->attn_fwd_s / (c->attn_fwd_s + c->attn_bwd_s);
            if (size > 1) { /* a launch a step and pass, and the additions of gradients */
                t->busy += 3 * size * c->launch_s + (c->mem_bw > 0 ? 3 * len * c->dkv_row / c->mem_bw : 0);
                t->fwd += size * c->launch_s;
            }
            if (size > nodes && z->port_bw > 0) {
                t->port[0] = len / size * (size - nodes) * c->kv_row / z->port_bw;
                t->port[1] = t->port[0] + len / size * (size - nodes) * c->dkv_row / z->port_bw;
            }
            if (nodes > 1 && z->nics_bw > 0) {
                double there = bytes * c->kv_row / z->nics_bw, home = bytes * c->dkv_row / z->nics_bw, bwd = t->busy - t->fwd;
                double own[2] = {(t->fwd > t->port[0] ? t->fwd : t->port[0]) / nodes, (bwd > t->port[1] ? bwd : t->port[1]) / nodes}; /* the own node's turn */

                double early = own[1] * (per + 1) / 3 / per, late = own[1] - early; /* backward, a part of it comes first (sched.h) */

                t->tail = (there > own[0] ? there - own[0] : 0) + (there > early ? there - early : 0) + (home > late ? home - late : 0);
                t->nic = bytes * (2 * c->kv_row + c->dkv_row) * (nodes - 1) / z->nics_bw;
            }
            if (!k)
                total += t->busy + len * z->token_s;
        }
    z->linear_s = 0;
    for (int i = 0; i < z->g.n_seq; i++)
        z->linear_s += (double)z->g.len[i] * z->token_s / z->view->n_dev;
    return total / z->view->n_dev;
}

/* --- placing --- */

static int64_t share_of(const struct zp *z, int seq, int k)
{
    return z->g.len[seq] / z->size[k] + (z->g.len[seq] % z->size[k] != 0);
}

/* How long the tokens take on their way to even out a device, or, over all devices, its node. */
static double shift_s(const struct zp *z, int d, double attn, double even, int n)
{
    const struct zep_cost *c = z->g.cost;
    double row = 4 * c->q_row + c->kv_row + c->dkv_row; /* q, k, v and o, their gradients */
    int node = z->view->dev_node[d];
    double own = attn + z->dev[d].linear > even ? attn + z->dev[d].linear - even : even - attn - z->dev[d].linear;
    double all = z->node_s[node] > n * even ? z->node_s[node] - n * even : n * even - z->node_s[node];

    if (z->move == MOVE_NODE)
        return z->port_bw > 0 ? own / z->token_s * row / z->port_bw : 0;
    return z->node_bw[node] > 0 ? MOVE_WEIGHT * all / z->token_s * row / z->node_bw[node] : 0;
}

/* When a device is done, if tokens move as they may: then linear modules even out what attention leaves. */
static double done_s(const struct zp *z, int d)
{
    const struct load *l = &z->dev[d];
    double bwd = l->attn - l->fwd, even;
    double attn = (l->port[0] > l->fwd ? l->port[0] : l->fwd) + (l->port[1] > bwd ? l->port[1] : bwd) + (l->tail > l->rest ? l->tail - l->rest : 0); /* transfers have the time of attention alone */
    int node = z->view->dev_node[d], n;

    if (z->move == MOVE_NONE)
        return attn + l->linear;
    n = z->view->node_dev0[node + 1] - z->view->node_dev0[node];
    even = z->move == MOVE_NODE ? z->node_s[node] / n : z->target_s;
    return (attn > even ? attn : even) + 1e-3 * attn + shift_s(z, d, attn, even, n);
}

/* Of each device that a sequence is on. */
static double each_s(const struct zp *z, int seq, int k)
{
    return z->t[seq][k].busy + (double)z->g.len[seq] / z->size[k] * z->token_s;
}

/* Busiest and fullest device of a block. */
static double look(const struct zp *z, int d0, int size, int64_t *tok_out, int *dev_out)
{
    double busy = -1;
    int64_t tok = 0;

    for (int d = d0; d < d0 + size; d++) {
        double s = done_s(z, d);

        s = s > 0 ? s : 0; /* sums that come and go leave a rest of rounding */
        if (s > busy) {
            busy = s;
            *dev_out = d;
        }
        tok = z->dev[d].tok > tok ? z->dev[d].tok : tok;
    }
    *tok_out = tok;
    return busy;
}

/* After something changed on a node. */
static void update_node(struct zp *z, int node)
{
    struct node_best *nb = &z->nb[node];
    int first = z->view->node_dev0[node], end = z->view->node_dev0[node + 1], dev = first;
    int64_t tok;

    for (int k = 0; k < z->n_in_node; k++)
        for (int d0 = first; d0 + z->size[k] <= end; d0 += z->size[k]) {
            double busy = look(z, d0, z->size[k], &tok, &dev);

            if (d0 > first && busy >= nb->busy[k])
                continue;
            nb->busy[k] = busy;
            nb->tok[k] = tok;
            nb->dev0[k] = d0;
        }
    nb->squares = 0;
    for (int d = first; d < end; d++)
        nb->squares += done_s(z, d) * done_s(z, d);
    look(z, first, end - first, &tok, &dev);
    nb->slowest = dev;
}

static void account(struct zp *z, int seq, int k, int dev0, int sign)
{
    const struct times *t = &z->t[seq][k];
    int64_t share = share_of(z, seq, k);
    double linear = (double)z->g.len[seq] / z->size[k] * z->token_s;
    int over = n_node_of(z, k) > 1;

    for (int d = dev0; d < dev0 + z->size[k]; d++) {
        z->dev[d].attn += sign * t->busy;
        z->dev[d].fwd += sign * t->fwd;
        z->dev[d].rest += over ? 0 : sign * t->busy;
        z->dev[d].linear += sign * linear;
        z->node_s[z->view->dev_node[d]] += sign * (t->busy + linear);
        z->dev[d].tail += sign * t->tail;
        z->dev[d].port[0] += sign * t->port[0];
        z->dev[d].port[1] += sign * t->port[1];
        z->dev[d].tok += sign * share;
    }
    for (int i = z->view->dev_node[dev0]; over && i <= z->view->dev_node[dev0 + z->size[k] - 1]; i++)
        z->nic_s[i] += sign * t->nic;
    for (int i = z->view->dev_node[dev0]; i <= z->view->dev_node[dev0 + z->size[k] - 1]; i++)
        update_node(z, i);
    if (sign > 0)
        z->job[seq] = (struct job){dev0, k};
}

static void clear_loads(struct zp *z)
{
    memset(z->dev, 0, (size_t)z->view->n_dev * sizeof *z->dev);
    memset(z->nic_s, 0, (size_t)z->view->n_node * sizeof *z->nic_s);
    memset(z->node_s, 0, (size_t)z->view->n_node * sizeof *z->node_s);
    for (int i = 0; i < z->view->n_node; i++)
        update_node(z, i);
}

/* The least busy aligned block of a degree that has room: how busy its busiest device is; negative: none. */
static double best_in_node(const struct zp *z, int64_t room, int k, int *dev0_out)
{
    double best = -1;

    for (int i = 0; i < z->view->n_node; i++) {
        const struct node_best *nb = &z->nb[i];
        int end = z->view->node_dev0[i + 1], dev;

        if (best >= 0 && nb->busy[k] >= best)
            continue;
        if (nb->tok[k] <= room) {
            best = nb->busy[k];
            *dev0_out = nb->dev0[k];
            continue;
        }
        for (int d0 = z->view->node_dev0[i]; d0 + z->size[k] <= end; d0 += z->size[k]) {
            int64_t tok;
            double busy = look(z, d0, z->size[k], &tok, &dev);

            if (tok > room || (best >= 0 && busy >= best))
                continue;
            best = busy;
            *dev0_out = d0;
        }
    }
    return best;
}

static double best_block(const struct zp *z, int seq, int k, int *dev0_out)
{
    int64_t room = z->g.cap - share_of(z, seq, k), tok;
    double best = -1;
    int dev;

    if (k < z->n_in_node)
        return best_in_node(z, room, k, dev0_out);
    for (int d0 = 0; d0 + z->size[k] <= z->view->n_dev; d0 += z->size[k]) {
        double busy = look(z, d0, z->size[k], &tok, &dev);

        if (tok > room || (best >= 0 && busy >= best))
            continue;
        best = busy;
        *dev0_out = d0;
    }
    return best;
}

static int allowed(const struct zp *z, uint64_t degrees, int k)
{
    return k < z->n_size && (degrees >> k & 1);
}

/* The next allowed degree from k on; n_size: none. */
static int next_allowed(const struct zp *z, uint64_t degrees, int k)
{
    while (k < z->n_size && !allowed(z, degrees, k))
        k++;
    return k;
}

/* With the allowed degrees only (a bit each). 1 everything has its place, 0 there is no room. */
static int place_all(struct zp *z, double limit_s, int ahead, uint64_t degrees)
{
    clear_loads(z);
    for (int i = 0; i < z->g.n_seq; i++) {
        int seq = z->g.sorted[i], k = next_allowed(z, degrees, 0), more = ahead, best = -1, best_dev = 0;
        double best_s = 0;

        while (next_allowed(z, degrees, k + 1) < z->n_size && each_s(z, seq, k) > limit_s)
            k = next_allowed(z, degrees, k + 1);
        for (; k < z->n_size && (best < 0 || more-- > 0); k = next_allowed(z, degrees, k + 1)) {
            int dev0;
            double busy = best_block(z, seq, k, &dev0), done = (busy + each_s(z, seq, k)) * (best < 0 ? 1 : 1.02);

            if (busy < 0 || (best >= 0 && done >= best_s))
                continue;
            best_s = done;
            best = k;
            best_dev = dev0;
        }
        if (best < 0)
            return 0;
        account(z, seq, best, best_dev, 1);
    }
    return 1;
}

/* --- refinement --- */

struct goal { /* smaller is better: first the busiest resource, then evenness */
    double slowest_s, squares;
    int dev, node; /* the busiest device, or -1 and the node whose NICs are */
};

static struct goal goal_of(const struct zp *z)
{
    struct goal g = {0, 0, 0, -1};

    for (int i = 0; i < z->view->n_node; i++) {
        double s = done_s(z, z->nb[i].slowest);

        if (s > g.slowest_s) {
            g.slowest_s = s;
            g.dev = z->nb[i].slowest;
        }
        g.squares += z->nb[i].squares;
    }
    for (int i = 0; i < z->view->n_node; i++)
        if (NIC_WEIGHT * z->nic_s[i] + z->linear_s > g.slowest_s) {
            g.slowest_s = NIC_WEIGHT * z->nic_s[i] + z->linear_s;
            g.dev = -1;
            g.node = i;
        }
    return g;
}

static int is_better(const struct goal *a, const struct goal *b)
{
    if (a->slowest_s < b->slowest_s * (1 - 1e-9))
        return 1;
    return a->slowest_s <= b->slowest_s * (1 + 1e-9) && a->squares < b->squares * (1 - 1e-9);
}

static int is_on(const struct zp *z, const struct job *j, const struct goal *g)
{
    if (g->dev >= 0)
        return g->dev >= j->dev0 && g->dev < j->dev0 + z->size[j->k];
    return n_node_of(z, j->k) > 1 && z->view->dev_node[j->dev0] <= g->node && z->view->dev_node[j->dev0 + z->size[j->k] - 1] >= g->node;
}

/* Places one sequence of the busiest resource anew, the best of all ways: 1 something got better. */
static int move_one(struct zp *z, struct goal *now, int *budget)
{
    struct goal best = *now;
    int best_seq = -1, best_k = 0, best_dev = 0;

    for (int i = 0; i < z->g.n_seq && *budget > 0; i++) {
        int seq = z->g.sorted[i];
        struct job old = z->job[seq];

        if (!is_on(z, &old, now))
            continue;
        account(z, seq, old.k, old.dev0, -1);
        for (int k = old.k > 2 ? old.k - 2 : 0; k < z->n_size && k <= old.k + 2; k++) {
            struct goal g;
            int dev0;

            (*budget)--;
            if (best_block(z, seq, k, &dev0) < 0 || (k == old.k && dev0 == old.dev0))
                continue;
            account(z, seq, k, dev0, 1);
            g = goal_of(z);
            account(z, seq, k, dev0, -1);
            if (is_better(&g, &best)) {
                best = g;
                best_seq = seq;
                best_k = k;
                best_dev = dev0;
            }
        }
        account(z, seq, old.k, old.dev0, 1);
    }
    if (best_seq < 0)
        return 0;
    account(z, best_seq, z->job[best_seq].k, z->job[best_seq].dev0, -1);
    account(z, best_seq, best_k, best_dev, 1);
    *now = goal_of(z);
    return 1;
}

static void refine(struct zp *z)
{
    struct goal now = goal_of(z);
    int most = REFINE_WORK / z->view->n_node, budget = 200 + 8 * z->g.n_seq < most ? 200 + 8 * z->g.n_seq : most, first;

    first = budget = budget < z->refine_left ? budget : z->refine_left;
    while (budget > 0 && move_one(z, &now, &budget))
        ;
    z->refine_left -= first - budget;
}

/* --- candidates --- */

static int keep(struct zp *z, struct zep_error *err)
{
    struct candidate c = {.slowest_s = goal_of(z).slowest_s, .move = z->move};
    int at = z->n_kept;

    for (int i = 0; i < z->n_kept; i++)
        if (z->kept[i].move == z->move && !memcmp(z->kept[i].job, z->job, (size_t)z->g.n_seq * sizeof *z->job))
            return ZEP_OK;
    if (z->n_kept == MAX_KEPT) {
        if (c.slowest_s >= z->kept[MAX_KEPT - 1].slowest_s)
            return ZEP_OK;
        c.job = z->kept[--z->n_kept].job;
        at = z->n_kept;
    } else if (!(c.job = zep_calloc((size_t)z->g.n_seq + 1, sizeof *c.job))) {
        return zep_error_nomem(err, "plan");
    }
    memcpy(c.job, z->job, (size_t)z->g.n_seq * sizeof *c.job);
    for (; at > 0 && z->kept[at - 1].slowest_s > c.slowest_s; at--)
        z->kept[at] = z->kept[at - 1];
    z->kept[at] = c;
    z->n_kept++;
    return ZEP_OK;
}

/* One placement, and what refinement makes of it. */
static int collect_one(struct zp *z, double limit_s, int ahead, uint64_t degrees, struct zep_error *err)
{
    int rc;

    if (!place_all(z, limit_s, ahead, degrees))
        return ZEP_OK;
    if ((rc = keep(z, err)) < 0)
        return rc;
    refine(z);
    return keep(z, err);
}

/* All placements with one share and one way to move tokens; *left: how many more may be tried. */
static int collect(struct zp *z, double limit_s, int *left, struct zep_error *err)
{
    static const int ahead[N_AHEAD] = {1, 0, 2};
    int rc = ZEP_OK;

    for (int i = 0; i < N_AHEAD && *left > 0 && rc == ZEP_OK; i++, --*left)
        rc = collect_one(z, limit_s, ahead[i], UINT64_MAX, err);
    for (int k = 1; k < z->n_size && *left > 0 && rc == ZEP_OK; k++, --*left) /* one degree beside single devices: rings that do not get into each other's way */
        rc = collect_one(z, limit_s, 1, (uint64_t)1 << k | 1, err);
    return rc;
}

static int collect_all(struct zp *z, struct zep_error *err)
{
    double looks = (double)z->g.n_seq * z->view->n_node; /* that one placement takes */
    int left = PLACE_WORK / looks < 1 ? 1 : PLACE_WORK / looks > 1e6 ? 1000000 : (int)(PLACE_WORK / looks), rc = ZEP_OK;

    for (int i = 0; i < N_SHARE && rc == ZEP_OK; i++)
        for (int move = MOVE_NONE; move < N_MOVE && rc == ZEP_OK; move++) {
            if (move != MOVE_NONE && (!z->opts->remap || z->token_s <= 0))
                continue;
            z->move = (enum move)move;
            rc = collect(z, shares[i] * z->target_s, &left, err);
        }
    return rc;
}

/* What attention takes on each device. */
static void set_busy(struct zp *z, const struct candidate *c)
{
    memset(z->busy_s, 0, (size_t)z->view->n_dev * sizeof *z->busy_s);
    for (int i = 0; i < z->g.n_seq; i++)
        for (int d = c->job[i].dev0; d < c->job[i].dev0 + z->size[c->job[i].k]; d++)
            z->busy_s[d] += z->t[i][c->job[i].k].busy;
}

static int make_plan(struct zp *z, const struct candidate *c, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan_opts own = *z->opts;
    int32_t *item = NULL;
    struct zep_draft draft;
    int rc;

    own.remap = c->move != MOVE_NONE;
    set_busy(z, c);
    if ((rc = zep_draft_init(&draft, z->g.n_seq, err)) < 0)
        return rc;
    if (!(item = zep_calloc((size_t)z->view->n_dev, sizeof *item))) {
        rc = zep_error_nomem(err, "plan");
        goto out;
    }
    for (int d = 0; d < z->view->n_dev; d++)
        item[d] = d;
    for (int i = 0; i < z->g.n_seq; i++) {
        int seq = z->g.sorted[i], set = zep_sets_get(&draft.sets, item + c->job[seq].dev0, z->size[c->job[seq].k], err);

        if ((rc = set) < 0)
            goto out;
        draft.sets.set[set].form = ZEP_FORM_DOUBLE;
        draft.order[i] = seq;
        zep_draft_place(&draft, seq, z->g.len[seq], set);
    }
    draft.spread = c->move == MOVE_NODE ? ZEP_SPREAD_NODE : ZEP_SPREAD_ALL;
    draft.busy_s = z->busy_s;
    draft.token_s = z->token_s;
    rc = zep_plan_from_draft(z->view, z->g.len, &own, z->opts->routing, &draft, plan_out, err);
out:
    free(item);
    zep_draft_free(&draft);
    return rc;
}

/* --- polishing: the simulator judges --- */

/* Puts a candidate's jobs into the loads. */
static void restore(struct zp *z, const struct candidate *c)
{
    z->move = c->move;
    clear_loads(z);
    for (int i = 0; i < z->g.n_seq; i++)
        account(z, i, c->job[i].k, c->job[i].dev0, 1);
}

static int try_plan(struct zp *z, const struct candidate *c, struct zep_plan **plan_out, double *step_s, int *last_dev, struct zep_error *err)
{
    struct zep_plan *plan;
    struct zep_sim *sim;
    int rc = make_plan(z, c, &plan, err);

    *step_s = -1;
    if (rc < 0)
        return rc;
    if (!zep_groups_holds(plan)) {
        zep_plan_free(plan);
        return ZEP_OK;
    }
    if ((rc = zep_simulate(plan, z->view, z->g.cost, NULL, &sim, err)) < 0) {
        zep_plan_free(plan);
        return rc;
    }
    *step_s = zep_estimate_rank(sim, z->g.cost);
    *last_dev = sim->pass[1].last_dev;
    zep_sim_free(sim);
    *plan_out = plan;
    return ZEP_OK;
}

#define N_POLISH 3 /* candidates that are polished */

struct best { /* a plan and how fast it is */
    struct zep_plan *plan;
    double step_s;
    int last_dev; /* of its backward pass */
    int at;       /* candidate */
};

static void take(struct best *best, struct zep_plan *plan, double step_s, int last_dev)
{
    zep_plan_free(best->plan);
    best->plan = plan;
    best->step_s = step_s;
    best->last_dev = last_dev;
}

/* Into the list of the fastest, which is ascending. */
static void rank(struct best list[N_POLISH], struct best b)
{
    for (int i = 0; i < N_POLISH; i++)
        if (!list[i].plan || b.step_s < list[i].step_s) {
            struct best t = list[i];

            list[i] = b;
            b = t;
            if (!b.plan)
                return;
        }
    zep_plan_free(b.plan);
}

/* Tries one sequence of the candidate in degree k: 1 it is faster and taken, 0 it is not, negative error. */
static int try_move(struct zp *z, struct candidate *c, int seq, int k, struct best *best, int *budget, struct zep_error *err)
{
    struct job old = c->job[seq];
    struct zep_plan *plan = NULL;
    double step_s;
    int dev0, last, rc;

    (*budget)--;
    restore(z, c);
    account(z, seq, old.k, old.dev0, -1);
    if (best_block(z, seq, k, &dev0) < 0 || (k == old.k && dev0 == old.dev0))
        return 0;
    c->job[seq] = (struct job){dev0, k};
    if ((rc = try_plan(z, c, &plan, &step_s, &last, err)) < 0)
        return rc;
    if (plan && step_s < best->step_s * (1 - 1e-6)) {
        take(best, plan, step_s, last);
        return 1;
    }
    zep_plan_free(plan);
    c->job[seq] = old;
    return 0;
}

/* Moves what the device that is done last holds, while that makes the simulated step shorter. */
static int polish(struct zp *z, struct candidate *c, struct best *best, int budget, struct zep_error *err)
{
    int rc = 1;

    while (rc > 0 && budget > 0) {
        int dev = best->last_dev;

        rc = 0;
        for (int i = 0; i < z->g.n_seq && budget > 0 && !rc; i++) {
            int seq = z->g.sorted[i], k0 = c->job[seq].k, d0 = c->job[seq].dev0;

            if (dev < d0 || dev >= d0 + z->size[k0])
                continue;
            for (int k = k0 > 0 ? k0 - 1 : 0; k < z->n_size && k <= k0 + 1 && budget > 0 && !rc; k++)
                rc = try_move(z, c, seq, k, best, &budget, err);
        }
    }
    return rc < 0 ? rc : ZEP_OK;
}

static int search(struct zp *z, struct best list[N_POLISH], struct zep_error *err)
{
    int size = z->view->n_dev + z->g.n_seq / 16, n_sim = SIM_WORK / size < 2 ? 2 : SIM_WORK / size, rc;

    z->refine_left = REFINE_ALL / z->view->n_node;
    rc = collect_all(z, err);
    for (int i = 0; i < z->n_kept && i < n_sim && rc == ZEP_OK; i++) {
        struct best b = {.at = i};

        if ((rc = try_plan(z, &z->kept[i], &b.plan, &b.step_s, &b.last_dev, err)) == ZEP_OK && b.plan)
            rank(list, b);
    }
    for (int i = 0; i < N_POLISH && rc == ZEP_OK && list[i].plan; i++)
        rc = polish(z, &z->kept[list[i].at], &list[i], n_sim / N_POLISH, err);
    return rc;
}

static int build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct best list[N_POLISH] = {{0}};
    struct zp z;
    int rc, best = 0;

    if (!opts->cost || !n) /* by tokens and pairs alone there is nothing to weigh */
        return zep_method_zeppelin_paper.build(view, len, n, opts, plan_out, err);
    if ((rc = zp_init(&z, view, len, n, opts, err)) < 0)
        return rc;
    z.token_s = zep_estimate_token(opts->cost);
    z.target_s = set_times(&z);
    rc = search(&z, list, err);
    zp_free(&z);
    for (int i = 1; i < N_POLISH && rc == ZEP_OK; i++)
        if (list[i].plan && list[i].step_s < list[best].step_s)
            best = i;
    for (int i = 0; i < N_POLISH; i++)
        if (rc < 0 || i != best)
            zep_plan_free(list[i].plan);
    if (rc < 0)
        return rc;
    if (!list[best].plan)
        return zep_method_zeppelin_paper.build(view, len, n, opts, plan_out, err);
    *plan_out = list[best].plan;
    return ZEP_OK;
}

const struct zep_method zep_method_zeppelin = {"zeppelin", "ours: sizes of rings, their places and their form by cost", build};
