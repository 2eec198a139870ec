/* Our method: the paper's three zones, everything by cost. A sequence is a malleable job: on g devices each of them is busy for its attention (which zigzag divides evenly, but for what small
 * blocks waste) and, where tokens stay, its linear modules. With T the time that a perfect spread would take, a sequence gets the fewest devices on which it stays below a share of T, or a few more where it
 * is done earlier there; it goes, longest first, to the block of that many devices which is least busy and has room (place.h). That is done for several shares, with tokens moved for linear modules or not;
 * what the slowest devices hold is then placed anew (refine.c). How many placements are tried and how far they are refined follows from the input (design, section 4).
 * With effort `fast` the placement that is estimated to be the fastest is the plan (on few devices, the fastest of the likeliest when simulated); with `search` the most promising ones are simulated, the best are improved by simulating moves, and the
 * fastest is the plan. Rings over nodes are double; where that is faster, the devices of a node exchange heads and rings are of such groups (place.c); where plans are simulated, without any exchange as well. */
#include "config.h"
#include "planner/place.h"
#include "planner/sim.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

/* Placements, the likeliest first (over the grid of tests/bench/paper the first eight come within 0.1 % of what all shares, degrees and ways together give, by estimate). */
static const struct {
    enum zep_place_move move;
    double share; /* of T */
    int ahead;    /* how many larger degrees are weighed beside the smallest */
} tries[] = {
    {ZEP_MOVE_NONE, 2.0, 1}, {ZEP_MOVE_NONE, 1.5, 0}, {ZEP_MOVE_NODE, 1.0, 2}, {ZEP_MOVE_NONE, 2.0, 2}, {ZEP_MOVE_NONE, 1.2, 0}, {ZEP_MOVE_NONE, 1.0, 0}, {ZEP_MOVE_NODE, 0.8, 0},
    {ZEP_MOVE_NONE, 0.33, 0}, {ZEP_MOVE_NODE, 2.0, 1}, {ZEP_MOVE_ALL, 0.62, 0}, {ZEP_MOVE_NONE, 0.48, 1}, {ZEP_MOVE_NODE, 1.5, 0},
};
#define N_TRY ((int)(sizeof tries / sizeof tries[0]))
static const double shares[] = {1.0, 0.8, 1.2, 0.62, 1.5, 0.48, 2.0, 0.33};
#define N_SHARE ((int)(sizeof shares / sizeof shares[0]))
#define N_AHEAD 3
#define MAX_KEPT 80 /* candidates */
#define SIM_WORK 4096 /* search: devices that are simulated for choosing, and again for polishing */
#define N_POLISH 3 /* search: candidates that are polished */

struct candidate {
    struct zep_job *job; /* [n_seq] */
    double slowest_s;
    enum zep_place_move move;
};

struct choice {
    struct zep_place z;
    int n_kept, most;
    double *scratch; /* [2 * n_dev] */
    int skipped; /* candidates that need links whose speed is not known */
    struct candidate kept[MAX_KEPT]; /* ascending slowest_s */
};

/* --- candidates --- */

static int keep(struct choice *ch, struct zep_error *err)
{
    struct zep_place *z = &ch->z;
    int at = ch->n_kept;
    struct candidate c = {.slowest_s = zep_place_judge(z, ch->scratch), .move = z->move};

    for (int i = 0; i < ch->n_kept && ch->most > 1; i++)
        if (ch->kept[i].move == z->move && !memcmp(ch->kept[i].job, z->job, (size_t)z->g.n_seq * sizeof *z->job))
            return ZEP_OK;
    if (ch->n_kept == ch->most) {
        if (c.slowest_s >= ch->kept[ch->most - 1].slowest_s)
            return ZEP_OK;
        c.job = ch->kept[--ch->n_kept].job;
        at = ch->n_kept;
    } else if (!(c.job = zep_calloc((size_t)z->g.n_seq + 1, sizeof *c.job))) {
        return zep_error_nomem(err, "plan");
    }
    memcpy(c.job, z->job, (size_t)z->g.n_seq * sizeof *c.job);
    for (; at > 0 && ch->kept[at - 1].slowest_s > c.slowest_s; at--)
        ch->kept[at] = ch->kept[at - 1];
    ch->kept[at] = c;
    ch->n_kept++;
    return ZEP_OK;
}

/* One placement, and what refinement makes of it. */
static int collect_one(struct choice *ch, double limit_s, int ahead, uint64_t degrees, int64_t refine, struct zep_error *err)
{
    int rc;

    if (!zep_place_all(&ch->z, limit_s, ahead, degrees))
        return ZEP_OK;
    if (ch->most > 1 && (rc = keep(ch, err)) < 0)
        return rc;
    zep_place_refine(&ch->z, refine);
    return keep(ch, err);
}

static int may_move(const struct zep_place *z, enum zep_place_move move)
{
    return move == ZEP_MOVE_NONE || (z->opts->remap && z->token_s > 0);
}

/* The likeliest placements; n: how many. */
static int collect_likely(struct choice *ch, int n, int64_t refine, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int i = 0; i < n && i < N_TRY && rc == ZEP_OK; i++) {
        ch->z.move = tries[i].move;
        if (may_move(&ch->z, ch->z.move))
            rc = collect_one(ch, tries[i].share * ch->z.target_s, tries[i].ahead, UINT64_MAX, refine, err);
    }
    return rc;
}

/* Further ones; *left: how many more may be tried. */
static int collect_share(struct choice *ch, double limit_s, int64_t refine, int *left, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int ahead = 0; ahead < N_AHEAD && *left > 0 && rc == ZEP_OK; ahead++, --*left)
        rc = collect_one(ch, limit_s, ahead, UINT64_MAX, refine, err);
    for (int k = 1; k < ch->z.n_level && *left > 0 && rc == ZEP_OK; k++, --*left) /* one degree beside single devices: rings that do not get into each other's way */
        rc = collect_one(ch, limit_s, 1, (uint64_t)1 << k | 1, refine, err);
    return rc;
}

static int collect_more(struct choice *ch, int left, int64_t refine, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int i = 0; i < N_SHARE && rc == ZEP_OK; i++)
        for (int move = ZEP_MOVE_NONE; move < ZEP_N_MOVE && rc == ZEP_OK; move++) {
            ch->z.move = (enum zep_place_move)move;
            if (may_move(&ch->z, ch->z.move))
                rc = collect_share(ch, shares[i] * ch->z.target_s, refine, &left, err);
        }
    return rc;
}

/* Puts a candidate's jobs into the loads. */
static void restore(struct zep_place *z, const struct candidate *c)
{
    z->move = c->move;
    zep_place_clear(z);
    for (int i = 0; i < z->g.n_seq; i++)
        zep_place_add(z, z->g.sorted[i], c->job[z->g.sorted[i]].k, c->job[z->g.sorted[i]].dev0);
}

/* *plan_out: NULL where a device would hold more than its capacity. */
static int make_plan(struct choice *ch, const struct candidate *c, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *plan;
    int rc;

    *plan_out = NULL;
    restore(&ch->z, c);
    if ((rc = zep_place_plan(&ch->z, c->job, c->move, &plan, err)) < 0)
        return rc;
    if (zep_groups_holds(plan))
        *plan_out = plan;
    else
        zep_plan_free(plan);
    return ZEP_OK;
}

/* --- effort fast: the estimate judges --- */

static int choose(struct choice *ch, struct zep_plan **plan_out, struct zep_error *err)
{
    int rc = ZEP_OK;

    *plan_out = NULL;
    for (int i = 0; i < ch->n_kept && rc == ZEP_OK && !*plan_out; i++)
        rc = make_plan(ch, &ch->kept[i], plan_out, err);
    return rc;
}

/* --- effort search: the simulator judges --- */

struct best { /* a plan and how fast it is */
    struct zep_plan *plan;
    double step_s;
    int last_dev; /* of its backward pass */
    int at;       /* candidate */
};

static int try_plan(struct choice *ch, const struct candidate *c, struct best *out, struct zep_error *err)
{
    struct zep_sim *sim;
    int rc = make_plan(ch, c, &out->plan, err);

    if (rc < 0 || !out->plan)
        return rc;
    if ((rc = zep_simulate(out->plan, ch->z.view, ch->z.g.cost, NULL, &sim, err)) < 0) {
        zep_plan_free(out->plan);
        out->plan = NULL;
        ch->skipped |= rc == ZEP_EINVAL;
        return rc == ZEP_EINVAL ? ZEP_OK : rc; /* it needs a link whose speed is not known, others may not; *err says which */
    }
    out->step_s = zep_estimate_rank(sim);
    out->last_dev = sim->pass[1].last_dev;
    zep_sim_free(sim);
    return ZEP_OK;
}

/* Devices that simulating one candidate counts as. */
static int work_of(const struct choice *ch)
{
    return ch->z.view->n_dev + ch->z.g.n_seq / 16;
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
static int try_move(struct choice *ch, struct candidate *c, int seq, int k, struct best *best, int *budget, struct zep_error *err)
{
    struct zep_job old = c->job[seq];
    struct best now = {.at = best->at};
    int dev0, rc;

    (*budget)--;
    restore(&ch->z, c);
    zep_place_remove(&ch->z, seq);
    if (zep_place_best(&ch->z, seq, k, zep_place_each(&ch->z, seq, k), &dev0) < 0 || (k == old.k && dev0 == old.dev0))
        return 0;
    c->job[seq] = (struct zep_job){dev0, k};
    if ((rc = try_plan(ch, c, &now, err)) < 0)
        return rc;
    if (now.plan && now.step_s < best->step_s * (1 - 1e-6)) {
        zep_plan_free(best->plan);
        *best = now;
        return 1;
    }
    zep_plan_free(now.plan);
    c->job[seq] = old;
    return 0;
}

/* Moves what the device that is done last holds, while that makes the simulated step shorter. */
static int polish(struct choice *ch, struct candidate *c, struct best *best, int budget, struct zep_error *err)
{
    const struct zep_place *z = &ch->z;
    int rc = 1;

    while (rc > 0 && budget > 0) {
        int dev = best->last_dev;

        rc = 0;
        for (int i = 0; i < z->g.n_seq && budget > 0 && !rc; i++) {
            int seq = z->g.sorted[i], k0 = c->job[seq].k, d0 = c->job[seq].dev0, end = zep_place_end_node(z, k0, d0);

            if (dev < d0 || dev >= (k0 < z->n_inside ? d0 + z->level[k0].size : z->view->node_dev0[end]))
                continue;
            for (int k = k0 > 0 ? k0 - 1 : 0; k < z->n_level && k <= k0 + 1 && budget > 0 && !rc; k++)
                if (z->allowed >> k & 1)
                    rc = try_move(ch, c, seq, k, best, &budget, err);
        }
    }
    return rc < 0 ? rc : ZEP_OK;
}

/* work: devices that are simulated for choosing; polishing: as many again. out->plan: NULL where there is none. */
static int search(struct choice *ch, int work, int polishing, struct best *out, struct zep_error *err)
{
    struct best list[N_POLISH] = {{0}};
    int size = work_of(ch), n_sim = work / size < 2 ? 2 : work / size, rc = ZEP_OK, best = 0;

    for (int i = 0; i < ch->n_kept && i < n_sim && rc == ZEP_OK; i++) {
        struct best b = {.at = i};

        if ((rc = try_plan(ch, &ch->kept[i], &b, err)) == ZEP_OK && b.plan)
            rank(list, b);
    }
    for (int i = 0; i < N_POLISH && rc == ZEP_OK && polishing && list[i].plan; i++)
        rc = polish(ch, &ch->kept[list[i].at], &list[i], n_sim / N_POLISH, err);
    for (int i = 1; i < N_POLISH && rc == ZEP_OK; i++)
        if (list[i].plan && list[i].step_s < list[best].step_s)
            best = i;
    *out = (struct best){0};
    for (int i = 0; i < N_POLISH; i++)
        if (rc == ZEP_OK && i == best)
            *out = list[i];
        else
            zep_plan_free(list[i].plan);
    return rc == ZEP_OK && !out->plan && ch->skipped ? ZEP_EINVAL : rc;
}

/* --- the method --- */

#define FAST_KEPT 4
#define FAST_SIM 320      /* devices that may be simulated, in a few milliseconds, */
#define FAST_LEAST_SIM 8  /* where so many candidates are */
#define FAST_SMALL 800 /* sequences and nodes from which on only */
#define FAST_LEAST 5   /* placements are tried */
#define FAST_WORK 400 /* sequences and nodes that further placements look at */
#define SEARCH_WORK 1000000

static void forget(struct choice *ch)
{
    while (ch->n_kept > 0)
        free(ch->kept[--ch->n_kept].job);
}

static int collect(struct choice *ch, struct zep_error *err)
{
    int fast = ch->z.opts->effort == ZEP_EFFORT_FAST, n = ch->z.g.n_seq + ch->z.view->n_node, rc;

    forget(ch);
    if ((rc = collect_likely(ch, fast && n > FAST_SMALL ? FAST_LEAST : N_TRY, fast ? 200 + n : 2000 + 20 * n, err)) < 0)
        return rc;
    return collect_more(ch, (fast ? FAST_WORK : SEARCH_WORK) / n, fast ? 200 + n : 2000 + 20 * n, err);
}

/* The fastest plan by simulation. What exchanges of heads do not hide, and rings do, other sequences' computing may hide, while the estimate looks at each degree alone: placements with fewer exchanges are weighed, too. */
static int simulate(struct choice *ch, int work, int polishing, struct zep_plan **plan_out, struct zep_error *err)
{
    struct best best = {0};
    int rc;

    do {
        struct best b = {0};

        if ((rc = collect(ch, err)) == ZEP_OK)
            rc = search(ch, work, polishing, &b, err);
        if (b.plan && (!best.plan || b.step_s < best.step_s)) {
            zep_plan_free(best.plan);
            best = b;
        } else {
            zep_plan_free(b.plan);
        }
    } while (rc == ZEP_OK && zep_place_fewer_heads(&ch->z));
    if (rc < 0)
        zep_plan_free(best.plan);
    else
        *plan_out = best.plan;
    return rc;
}

static int plan_by(struct choice *ch, struct zep_plan **plan_out, struct zep_error *err)
{
    int fast = ch->z.opts->effort == ZEP_EFFORT_FAST, few = FAST_SIM / work_of(ch), rc;

    few = few < FAST_LEAST_SIM ? 0 : few < MAX_KEPT ? few : MAX_KEPT;
    ch->most = !fast ? MAX_KEPT : few ? few : FAST_KEPT;
    if (!(ch->scratch = zep_calloc(2 * (size_t)ch->z.view->n_dev, sizeof *ch->scratch)))
        return zep_error_nomem(err, "plan");
    if (!fast || few)
        return simulate(ch, fast ? FAST_SIM : SIM_WORK, !fast, plan_out, err);
    return (rc = collect(ch, err)) < 0 ? rc : choose(ch, plan_out, err);
}

static int build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *plan = NULL;
    struct choice *ch;
    int rc;

    if (!opts->cost || !n) /* by tokens and pairs alone there is nothing to weigh */
        return zep_method_zeppelin_paper.build(view, len, n, opts, plan_out, err);
    if (!(ch = zep_calloc(1, sizeof *ch)))
        return zep_error_nomem(err, "plan");
    if ((rc = zep_place_init(&ch->z, view, len, n, opts, err)) == ZEP_OK) {
        rc = plan_by(ch, &plan, err);
        forget(ch);
        free(ch->scratch);
        zep_place_free(&ch->z);
    }
    free(ch);
    if (rc < 0)
        return rc;
    if (!plan)
        return zep_method_zeppelin_paper.build(view, len, n, opts, plan_out, err);
    *plan_out = plan;
    return ZEP_OK;
}

const struct zep_method zep_method_zeppelin = {"zeppelin", "ours: sizes of rings, their places and their form by cost", build};
