/* Rings on a grid: N nodes of P members, member (v, p) at position v * P + p. Double rings and all-gather; what they do, round by round and step by step, is said in sched.h. */
#include "config.h"
#include "planner/sched.h"

#include "common/arena.h"
#include "planner/sched_internal.h"

static int mod(int a, int n)
{
    a %= n;
    return a < 0 ? a + n : a;
}

/* The member j nodes and i places back from the device's own. */
static int back(const struct sched_ring *r, int j, int i)
{
    return mod(r->v - j, r->n_node) * r->per_node + mod(r->p - i, r->per_node);
}

static int64_t rows_of(const struct zep_sched *s, const struct sched_ring *r, int pos)
{
    return sched_block_rows(s->plan, r->ring, pos);
}

static int bwd(const struct zep_sched *s)
{
    return s->pass == ZEP_PASS_BWD;
}

/* Where a step stands: place i of turn j, which has the blocks j nodes back. Turn N is the own node's, as turn 0 is. */
struct turn {
    int j, i;
};

/* Backward: so many places of the own turn follow the own block before the other turns, to hide the first crossing; the rest hides the last one, which has twice as many bytes. */
static int early(const struct zep_sched *s, const struct sched_ring *r)
{
    return bwd(s) && r->form == ZEP_FORM_DOUBLE ? (r->per_node + 1) / 3 - (r->per_node > 1) : 0;
}

static struct turn turn_of(const struct zep_sched *s, const struct sched_ring *r, int t)
{
    int others = (r->n_node - 1) * r->per_node, since = t - early(s, r) - 1;

    if (!bwd(s) || r->form != ZEP_FORM_DOUBLE)
        return (struct turn){t / r->per_node, t % r->per_node};
    if (t == r->n_member)
        return (struct turn){r->n_node, 0};
    if (since < 0)
        return (struct turn){0, t};
    return since < others ? (struct turn){since / r->per_node + 1, since % r->per_node} : (struct turn){r->n_node, t - others};
}

int sched_step_block(const struct zep_sched *s, const struct sched_ring *r, int step)
{
    struct turn at = turn_of(s, r, step);

    return back(r, at.j, at.i);
}

/* --- the group in hand --- */

static void after(struct zep_sched *s, int32_t mark)
{
    if (mark > s->after)
        s->after = mark;
}

static void wait_for(struct zep_sched *s, enum zep_lane lane, int32_t n_group)
{
    if (n_group > s->wait[lane])
        s->wait[lane] = n_group;
}

static int send_to(struct zep_sched *s, const struct sched_ring *r, int pos, struct zep_ref ref, int64_t n, struct zep_error *err)
{
    return sched_add_xfer(s, 1, sched_peer(s, r, pos), ref, n, err);
}

static int recv_from(struct zep_sched *s, const struct sched_ring *r, int pos, struct zep_ref ref, int64_t n, struct zep_error *err)
{
    return sched_add_xfer(s, 0, sched_peer(s, r, pos), ref, n, err);
}

/* --- double ring: slots --- */

/* Of blocks: for turns two in turn (one where one block crosses), then two for steps. Of sums: two for turns, then two for steps. */
static int kv_outer(int j)
{
    return (j + 1) & 1;
}

static int kv_inner(const struct zep_sched *s, const struct sched_ring *r, struct turn at)
{
    int hop = at.j * (r->per_node - 1) + at.i; /* its number */

    if (bwd(s) && at.j)
        hop -= r->per_node - 1 - (at.j < r->n_node ? early(s, r) : 0);
    return (r->n_node > 2 ? 2 : 1) + (hop & 1);
}

static int dkv_outer(int j)
{
    return j & 1;
}

static int dkv_inner(int t)
{
    return 2 + (t & 1);
}

/* What step t adds to: the last step of the first turn begins the sum that crosses. */
static int dkv_of(const struct zep_sched *s, const struct sched_ring *r, int t)
{
    struct turn at = turn_of(s, r, t);

    return r->per_node == 1 || (at.j == 1 && at.i == r->per_node - 1) ? dkv_outer(at.j) : dkv_inner(t);
}

static struct zep_ref kv_slot(const struct sched_ring *r, int slot)
{
    return sched_ref(r, ZEP_RING_KV, r->kv0 + slot, 0);
}

static struct zep_ref dkv_slot(const struct sched_ring *r, int slot)
{
    return sched_ref(r, ZEP_RING_DKV, r->dkv0 + slot, 0);
}

/* Where the block of a place is, on the way from or to the neighbours. */
static struct zep_ref kv_of(const struct zep_sched *s, const struct sched_ring *r, struct turn at)
{
    if (at.i)
        return kv_slot(r, kv_inner(s, r, at));
    return at.j % r->n_node ? kv_slot(r, kv_outer(at.j)) : sched_own(r, ZEP_ATT_KV, 0);
}

/* --- double ring: transfers --- */

/* The inner hop that brings the block of step t; where the own turn is taken up again, from its member. */
static int double_inner_kv(struct zep_sched *s, struct sched_ring *r, int t, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    struct turn in = turn_of(s, r, t), out = {in.j, in.i - 1};
    int again = bwd(s) && in.j == r->n_node && in.i == early(s, r) + 1, far = again ? in.i : 1, slot = kv_inner(s, r, in), rc;
    int64_t n;

    if (again)
        out.i = 0;
    n = rows_of(s, r, back(r, out.j, out.i));

    if (n) {
        if (!out.i && out.j % r->n_node) {
            wait_for(s, ZEP_LANE_WORLD, at->kv_wait[kv_outer(out.j)]);
            at->kv_sent[out.j & 1] = groups;
        }
        if ((rc = send_to(s, r, back(r, 0, -far), kv_of(s, r, out), n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, back(r, in.j, in.i))))
        return ZEP_OK;
    after(s, at->kv_mark[slot]);
    at->kv_wait[slot] = groups;
    return recv_from(s, r, back(r, 0, far), kv_slot(r, slot), n, err);
}

/* Backward: whether a part of the own turn ends with a place: its sum goes home. */
static int goes_home(const struct zep_sched *s, const struct sched_ring *r, struct turn at)
{
    return at.j % r->n_node == 0 && at.i == (at.j ? r->per_node - 1 : early(s, r));
}

/* The inner hop that takes away what step t left, and brings what step t+1 adds to or the own sum. */
static int double_inner_dkv(struct zep_sched *s, struct sched_ring *r, int t, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    struct turn of = turn_of(s, r, t);
    int home = goes_home(s, r, of), old = home && of.j ? dkv_outer(of.j) : dkv_inner(t), slot = home && !of.j ? dkv_outer(0) : dkv_of(s, r, t + 1), rc;
    int64_t n = rows_of(s, r, back(r, of.j, of.i));

    if (n) {
        after(s, at->dkv_mark[old]);
        at->dkv_sent[old] = groups;
        if ((rc = send_to(s, r, back(r, 0, home ? of.i : -1), dkv_slot(r, old), n, err)) < 0)
            return rc;
    }
    if (!(n = home ? r->n : rows_of(s, r, back(r, of.j, of.i + 1))))
        return ZEP_OK;
    after(s, at->dkv_mark[slot]);
    at->dkv_wait[slot] = groups;
    return recv_from(s, r, back(r, 0, home ? -of.i : 1), dkv_slot(r, slot), n, err);
}

static int double_inner(struct zep_sched *s, struct sched_ring *r, int round, int32_t groups, struct zep_error *err)
{
    int left = round - 2, rc = ZEP_OK;

    if (r->per_node == 1)
        return ZEP_OK;
    if (round < r->n_member && turn_of(s, r, round).i)
        rc = double_inner_kv(s, r, round, groups, err);
    if (rc == ZEP_OK && bwd(s) && left >= 1 && left < r->n_member) {
        struct turn of = turn_of(s, r, left);

        if (of.i < r->per_node - 1 || of.j == r->n_node)
            rc = double_inner_dkv(s, r, left, groups, err);
    }
    return rc;
}

/* The crossing that brings the block of turn j. */
static int double_crossing_kv(struct zep_sched *s, struct sched_ring *r, int j, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int slot = kv_outer(j), rc;
    int64_t n = rows_of(s, r, back(r, j - 1, 0));

    if (n && (rc = send_to(s, r, back(r, -1, 0), kv_of(s, r, (struct turn){j - 1, 0}), n, err)) < 0)
        return rc;
    if (!(n = rows_of(s, r, back(r, j, 0))))
        return ZEP_OK;
    after(s, at->kv_mark[slot]);
    wait_for(s, r->inner, at->kv_sent[j & 1]);
    at->kv_wait[slot] = groups;
    return recv_from(s, r, back(r, 1, 0), kv_slot(r, slot), n, err);
}

/* The crossing that takes away the sum that turn j left and brings the one that turn j+1 is added to: both of the place that ends a turn. */
static int double_crossing_dkv(struct zep_sched *s, struct sched_ring *r, int j, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int slot = dkv_outer(j + 1), old = dkv_outer(j), rc;
    int64_t n = rows_of(s, r, back(r, j, -1));

    if (n) {
        after(s, at->dkv_mark[old]);
        if (j == 1)
            wait_for(s, r->inner, at->dkv_wait[old]); /* the last step of the first turn may have had nothing to add to what came */
        if ((rc = send_to(s, r, back(r, -1, 0), dkv_slot(r, old), n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, back(r, j + 1, -1))))
        return ZEP_OK;
    after(s, at->dkv_mark[slot]);
    at->dkv_wait[slot] = groups;
    return recv_from(s, r, back(r, 1, 0), dkv_slot(r, slot), n, err);
}

/* The number of the crossing of blocks that is in a round, 0: none. */
static int crossing_in(const struct zep_sched *s, const struct sched_ring *r, int round)
{
    int free = bwd(s) ? 2 : 1, since = round - free - 1 - early(s, r); /* crossings that find their slot free at the start */

    if (round <= free)
        return round;
    return since < 0 || since % r->per_node ? 0 : since / r->per_node + free + 1;
}

static int double_crossing(struct zep_sched *s, struct sched_ring *r, int round, int32_t groups, struct zep_error *err)
{
    int j = crossing_in(s, r, round), left = round - 2 - early(s, r), rc = ZEP_OK;

    if (j >= 1 && j < r->n_node)
        rc = double_crossing_kv(s, r, j, groups, err);
    if (rc == ZEP_OK && bwd(s) && left > 0 && left % r->per_node == 0 && left / r->per_node < r->n_node)
        rc = double_crossing_dkv(s, r, left / r->per_node, groups, err);
    return rc;
}

/* --- double ring: steps --- */

/* Backward: whether a step begins an inner sum (single column: the sum that crosses). */
static int begins(const struct zep_sched *s, const struct sched_ring *r, int t, struct turn at)
{
    if (r->per_node == 1)
        return t == 1;
    return t % r->n_member && at.i == (at.j % r->n_node ? 0 : at.j ? early(s, r) + 1 : 1);
}

/* Backward: the step of the own block. Where the rest of the own turn is left to hide the last crossing, it is first. */
static int own_at(const struct sched_ring *r)
{
    return r->per_node > 1 ? 0 : r->n_member;
}

/* Whether what the own turn began with comes home in a step. */
static int comes_home(const struct zep_sched *s, const struct sched_ring *r, int t)
{
    return early(s, r) && t == early(s, r) + 1;
}

/* Whether an inner sum ends in a step and is added to the one that crosses. */
static int ends(const struct sched_ring *r, int t, struct turn at)
{
    return r->per_node > 1 && t % r->n_member && at.j > 1 && at.i == r->per_node - 1;
}

static void double_decide(const struct zep_sched *s, struct sched_ring *r, int t)
{
    struct sched_ring_state *at = &r->at;
    struct turn of = turn_of(s, r, t);
    int begin = bwd(s) && begins(s, r, t, of), works;

    if (t >= r->n_member + bwd(s))
        return;
    works = (!bwd(s) || t % r->n_member || t == own_at(r)) && sched_sees(s, r, t);
    at->does[DO_ATTN] = begin ? rows_of(s, r, back(r, of.j, of.i)) > 0 : works; /* a sum is cleared at its beginning, whether or not there is something to add */
    at->does[DO_ADD] = bwd(s) && t && (t == r->n_member ? r->n > 0 : works && !begin);
    at->does[DO_LATE] = bwd(s) && (comes_home(s, r, t) ? r->n > 0 : ends(r, t, of) && rows_of(s, r, back(r, of.j, of.i)) > 0);
    at->step_wait = t % r->n_member == 0 ? 0 : at->kv_wait[of.i ? kv_inner(s, r, of) : kv_outer(of.j)];
    at->acc_wait = begin && r->per_node > 1 ? at->dkv_sent[dkv_inner(t)] : 0;
}

static void double_mark(const struct zep_sched *s, struct sched_ring *r, enum sched_do what, int t, int32_t count)
{
    struct sched_ring_state *at = &r->at;
    struct turn of = turn_of(s, r, t);

    if (what == DO_ATTN && t % r->n_member)
        at->kv_mark[of.i ? kv_inner(s, r, of) : kv_outer(of.j)] = count;
    if (bwd(s) && (what == DO_ADD || (what == DO_ATTN && begins(s, r, t, of))))
        at->dkv_mark[dkv_of(s, r, t)] = count;
    if (what == DO_LATE && comes_home(s, r, t))
        at->dkv_mark[dkv_outer(0)] = count;
    else if (what == DO_LATE)
        at->dkv_mark[dkv_outer(of.j)] = at->dkv_mark[dkv_inner(t)] = count;
}

static void double_attn(const struct zep_sched *s, const struct sched_ring *r, int t, struct zep_op *op)
{
    struct turn of = turn_of(s, r, t);
    int own = t % r->n_member == 0;

    op->kv = kv_of(s, r, of);
    op->wait[of.i ? r->inner : ZEP_LANE_WORLD] = r->at.step_wait;
    op->n = rows_of(s, r, back(r, of.j, of.i));
    if (!bwd(s))
        return;
    op->clear = !own;
    if (own) {
        op->dkv = sched_own(r, ZEP_ATT_DKV, 0);
    } else if (begins(s, r, t, of)) {
        op->dkv = dkv_slot(r, dkv_of(s, r, t));
        if (r->at.acc_wait > op->wait[r->inner])
            op->wait[r->inner] = r->at.acc_wait;
    } else {
        op->dkv = sched_ref(r, ZEP_SCRATCH_DKV, r->scratch, 0);
    }
}

static void double_compute(const struct zep_sched *s, const struct sched_ring *r, enum sched_do what, int t, struct zep_op *op)
{
    struct turn of = turn_of(s, r, t);
    int slot = dkv_of(s, r, t), home = t == r->n_member;

    if (what == DO_ATTN) {
        double_attn(s, r, t, op);
        return;
    }
    op->n = rows_of(s, r, back(r, of.j, of.i));
    if (what == DO_ADD) {
        op->wait[r->per_node > 1 ? r->inner : ZEP_LANE_WORLD] = r->at.dkv_wait[slot];
        op->dst = home ? sched_own(r, ZEP_ATT_DKV, 0) : dkv_slot(r, slot);
        op->src = home ? dkv_slot(r, slot) : sched_ref(r, ZEP_SCRATCH_DKV, r->scratch, 0);
    } else if (comes_home(s, r, t)) {
        op->wait[r->inner] = r->at.dkv_wait[dkv_outer(0)];
        op->dst = sched_own(r, ZEP_ATT_DKV, 0);
        op->src = dkv_slot(r, dkv_outer(0));
        op->n = r->n;
    } else {
        op->wait[r->inner] = r->at.dkv_wait[dkv_inner(t)];
        op->wait[ZEP_LANE_WORLD] = r->at.dkv_wait[dkv_outer(of.j)];
        op->dst = dkv_slot(r, dkv_outer(of.j));
        op->src = dkv_slot(r, dkv_inner(t));
    }
}

/* --- all-gather: transfers --- */

/* Slots for what comes back: one for crossings, two for inner hops. */
static int gather_slot(const struct sched_ring *r, int hop)
{
    return (r->n_node > 1) + (hop & 1);
}

static int n_inner(const struct sched_ring *r)
{
    return r->n_node * (r->per_node - 1);
}

static struct zep_ref gathered(const struct sched_ring *r, int pos, int dkv)
{
    if (pos == r->pos)
        return sched_own(r, dkv ? ZEP_ATT_DKV : ZEP_ATT_KV, 0);
    return sched_ref(r, dkv ? ZEP_GATHER_DKV : ZEP_GATHER_KV, r->gather, r->off[pos]);
}

/* Inner hop h of 1 .. N(P-1): turn (h-1) / (P-1). */
static int gather_inner_kv(struct zep_sched *s, struct sched_ring *r, int h, int32_t groups, struct zep_error *err)
{
    int j = (h - 1) / (r->per_node - 1), i = (h - 1) % (r->per_node - 1) + 1, out = back(r, j, i - 1), in = back(r, j, i), rc;
    int64_t n = rows_of(s, r, out);

    if (n) {
        if (i == 1 && j)
            wait_for(s, ZEP_LANE_WORLD, r->crossing_wait[j]);
        if ((rc = send_to(s, r, back(r, 0, -1), gathered(r, out, 0), n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, in)))
        return ZEP_OK;
    r->at.all_wait[r->inner] = groups;
    return recv_from(s, r, back(r, 0, 1), gathered(r, in, 0), n, err);
}

static int gather_crossing_kv(struct zep_sched *s, struct sched_ring *r, int j, int32_t groups, struct zep_error *err)
{
    int out = back(r, j - 1, 0), in = back(r, j, 0), rc;
    int64_t n = rows_of(s, r, out);

    if (n && (rc = send_to(s, r, back(r, -1, 0), gathered(r, out, 0), n, err)) < 0)
        return rc;
    if (!(n = rows_of(s, r, in)))
        return ZEP_OK;
    r->crossing_wait[j] = r->at.all_wait[ZEP_LANE_WORLD] = groups;
    return recv_from(s, r, back(r, 1, 0), gathered(r, in, 0), n, err);
}

/* The block that inner hop h of the way back takes from here (in = 0) or brings here (in = 1); turns go from the last one to the first. */
static int back_block(const struct sched_ring *r, int h, int in)
{
    return back(r, r->n_node - 1 - (h - 1) / (r->per_node - 1), -((h - 1) % (r->per_node - 1) + 1) - in);
}

static int gather_inner_dkv(struct zep_sched *s, struct sched_ring *r, int h, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int out = back_block(r, h, 0), slot = gather_slot(r, h), rc;
    int64_t n = rows_of(s, r, out);

    if (n) {
        after(s, at->attn_mark);
        if ((h - 1) % (r->per_node - 1))
            after(s, at->dkv_mark[gather_slot(r, h - 1)]);
        if ((rc = send_to(s, r, back(r, 0, 1), gathered(r, out, 1), n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, back_block(r, h, 1))))
        return ZEP_OK;
    after(s, at->dkv_mark[slot]);
    at->dkv_wait[slot] = groups;
    return recv_from(s, r, back(r, 0, -1), dkv_slot(r, slot), n, err);
}

/* Crossing x of 1 .. N-1 on the way back: turn N-x goes to the node before, where it is turn N-x-1. */
static int gather_crossing_dkv(struct zep_sched *s, struct sched_ring *r, int x, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int out = back(r, r->n_node - x, 0), rc;
    int64_t n = rows_of(s, r, out);

    if (n) {
        after(s, at->attn_mark);
        after(s, at->dkv_mark[0]);
        if (r->per_node > 1)
            after(s, at->dkv_mark[gather_slot(r, x * (r->per_node - 1))]);
        if ((rc = send_to(s, r, back(r, 1, 0), gathered(r, out, 1), n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, back(r, r->n_node - x - 1, 0))))
        return ZEP_OK;
    after(s, at->dkv_mark[0]);
    at->dkv_wait[0] = groups;
    return recv_from(s, r, back(r, -1, 0), dkv_slot(r, 0), n, err);
}

static int gather_inner(struct zep_sched *s, struct sched_ring *r, int round, int32_t groups, struct zep_error *err)
{
    int h = round - (r->attn_step + 1);

    if (round <= n_inner(r))
        return gather_inner_kv(s, r, round, groups, err);
    return bwd(s) && h >= 1 && h <= n_inner(r) ? gather_inner_dkv(s, r, h, groups, err) : ZEP_OK;
}

static int gather_crossing(struct zep_sched *s, struct sched_ring *r, int round, int32_t groups, struct zep_error *err)
{
    int turn = r->per_node > 1 ? r->per_node - 1 : 1, since = round - (r->attn_step + (r->per_node > 1 ? 2 : 1));

    if (round < r->n_node)
        return gather_crossing_kv(s, r, round, groups, err);
    return bwd(s) && since > 0 && since % turn == 0 && since / turn < r->n_node ? gather_crossing_dkv(s, r, since / turn, groups, err) : ZEP_OK;
}

/* --- all-gather: steps --- */

/* The crossing of the way back that is added in a step, 0: none. */
static int late_crossing(const struct sched_ring *r, int t)
{
    int turn = r->per_node > 1 ? r->per_node - 1 : 1, since = t - r->attn_step, x = since / turn - (r->per_node > 1);

    return since > 0 && since % turn == 0 && x >= 1 && x < r->n_node ? x : 0;
}

static int sees_others(const struct zep_sched *s, const struct sched_ring *r)
{
    for (int t = 1; t < r->n_member; t++)
        if (sched_sees(s, r, t))
            return 1;
    return 0;
}

/* How many steps after attention with the others the own block comes: backward it hides the first transfer of the way back, or the first one between nodes. */
static int own_step(const struct zep_sched *s, const struct sched_ring *r)
{
    return !bwd(s) ? 0 : r->n_node > 1 ? r->per_node : 1;
}

static void gather_decide(const struct zep_sched *s, struct sched_ring *r, int t)
{
    struct sched_ring_state *at = &r->at;
    int h = t - r->attn_step, x;

    if (h == own_step(s, r))
        at->does[DO_ATTN] = r->n > 0;
    if (h < 0)
        return;
    if (h == 0) {
        at->does[DO_GATHERED] = r->n_other > 0 && (bwd(s) || sees_others(s, r)); /* backward: the gradients are sent, so they are cleared even where nothing is seen */
        return;
    }
    if (!bwd(s))
        return;
    at->does[DO_ADD] = h <= n_inner(r) && rows_of(s, r, back_block(r, h, 1)) > 0;
    at->acc_wait = at->dkv_wait[0];
    if ((x = late_crossing(r, t)))
        at->does[DO_LATE] = rows_of(s, r, back(r, r->n_node - x - 1, 0)) > 0;
}

static void gather_mark(struct sched_ring *r, enum sched_do what, int t, int32_t count)
{
    if (what == DO_ADD)
        r->at.dkv_mark[gather_slot(r, t - r->attn_step)] = count;
    else if (what == DO_LATE)
        r->at.dkv_mark[0] = count;
    else if (what == DO_GATHERED)
        r->at.attn_mark = count;
}

static void gather_compute(const struct zep_sched *s, const struct sched_ring *r, enum sched_do what, int t, struct zep_op *op)
{
    int h = t - r->attn_step, slot = what == DO_LATE ? 0 : gather_slot(r, h), block;

    if (what == DO_ATTN || what == DO_GATHERED) {
        op->step = what == DO_GATHERED;
        for (int l = 0; l < ZEP_N_LANE; l++)
            op->wait[l] = r->at.all_wait[l];
        op->n = what == DO_ATTN ? r->n : r->n_other;
        op->kv = what == DO_ATTN ? gathered(r, r->pos, 0) : sched_ref(r, ZEP_GATHER_KV, r->gather, 0);
        if (!bwd(s))
            return;
        op->dkv = what == DO_ATTN ? gathered(r, r->pos, 1) : sched_ref(r, ZEP_GATHER_DKV, r->gather, 0);
        op->clear = what == DO_GATHERED;
        return;
    }
    op->step = h + 1;
    block = what == DO_ADD ? back_block(r, h, 1) : back(r, r->n_node - late_crossing(r, t) - 1, 0);
    op->wait[what == DO_ADD ? r->inner : ZEP_LANE_WORLD] = what == DO_ADD ? r->at.dkv_wait[slot] : r->at.acc_wait;
    op->dst = gathered(r, block, 1);
    op->src = dkv_slot(r, slot);
    op->n = rows_of(s, r, block);
}

/* --- by form --- */

void sched_grid_decide(const struct zep_sched *s, struct sched_ring *ring, int step)
{
    if (ring->form == ZEP_FORM_DOUBLE)
        double_decide(s, ring, step);
    else
        gather_decide(s, ring, step);
}

void sched_grid_mark(const struct zep_sched *s, struct sched_ring *ring, enum sched_do what, int step, int32_t count)
{
    if (ring->form == ZEP_FORM_DOUBLE)
        double_mark(s, ring, what, step, count);
    else
        gather_mark(ring, what, step, count);
}

void sched_grid_compute(const struct zep_sched *s, const struct sched_ring *ring, enum sched_do what, int step, struct zep_op *op)
{
    if (ring->form == ZEP_FORM_DOUBLE)
        double_compute(s, ring, what, step, op);
    else
        gather_compute(s, ring, what, step, op);
}

/* In the order (ring, keys before gradients), which is the same at both ends. */
int sched_grid_group(struct zep_sched *s, struct sched_zone *zone, int round, enum zep_lane lane, struct zep_error *err)
{
    int32_t groups = s->n_group[lane] + 1;
    int rc = ZEP_OK;

    for (int i = zone->ring0; i < zone->ring_end && rc == ZEP_OK; i++) {
        struct sched_ring *r = &s->ring[i];

        if (r->form == ZEP_FORM_DOUBLE)
            rc = lane == r->inner ? double_inner(s, r, round, groups, err) : double_crossing(s, r, round, groups, err);
        else if (r->form == ZEP_FORM_GATHER)
            rc = lane == r->inner ? gather_inner(s, r, round, groups, err) : gather_crossing(s, r, round, groups, err);
    }
    return rc;
}

int sched_grid_max_round(const struct sched_ring *r, enum zep_pass pass)
{
    int per = r->per_node, g = r->n_member, n = r->n_node;

    if (r->form == ZEP_FORM_DOUBLE)
        return pass == ZEP_PASS_FWD ? g - 1 : g + 1;
    if (pass == ZEP_PASS_FWD)
        return r->attn_step + 1;
    return r->attn_step + (per > 1 ? (n_inner(r) > (n - 1) * (per - 1) + 1 ? n_inner(r) : (n - 1) * (per - 1) + 1) : n - 1) + 1;
}

int sched_grid_n_step(const struct sched_ring *r, enum zep_pass pass)
{
    if (r->form == ZEP_FORM_DOUBLE)
        return r->n_member + (pass == ZEP_PASS_BWD);
    return r->attn_step + 1 + (pass == ZEP_PASS_FWD ? 0 : r->per_node > 1 ? n_inner(r) : r->n_node - 1);
}

/* --- opening --- */

static int gather_open(struct zep_sched *s, struct sched_ring *r, struct zep_error *err)
{
    int last = n_inner(r) > r->n_node - 1 ? n_inner(r) : r->n_node - 1; /* the round that brings the last block */

    r->attn_step = last - 1;
    r->off = zep_calloc((size_t)r->n_member, sizeof *r->off);
    r->crossing_wait = zep_calloc((size_t)r->n_node, sizeof *r->crossing_wait);
    if (!r->off || !r->crossing_wait)
        return zep_error_nomem(err, "schedule");
    for (int b = 0; b < r->n_member; b++) {
        r->off[b] = r->n_other;
        if (b != r->pos)
            r->n_other += rows_of(s, r, b);
    }
    return ZEP_OK;
}

int sched_grid_open(struct zep_sched *s, struct sched_ring *r, int32_t *kv, int32_t *dkv, int32_t *scratch, int32_t *gather, struct zep_error *err)
{
    int n_node, per_node, grid = zep_ring_grid(s->plan, r->ring, &n_node, &per_node);

    if (r->form == ZEP_FORM_DOUBLE && (!grid || n_node < 2))
        return zep_error_set(err, ZEP_EINVAL, "ring %d: a double ring needs the same number of members in each of at least two nodes, node by node", (int)r->ring);
    if (r->n_member < 2)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: an all-gather has %d members, expected at least 2", (int)r->ring, (int)r->n_member);
    r->inner = s->plan->ring[r->ring].zone == ZEP_ZONE_INTER ? ZEP_LANE_GRID : ZEP_LANE_NODE;
    r->n_node = grid ? n_node : r->n_member;
    r->per_node = grid ? per_node : 1;
    r->v = r->pos / r->per_node;
    r->p = r->pos % r->per_node;
    r->kv0 = *kv;
    r->dkv0 = *dkv;
    if (r->form == ZEP_FORM_DOUBLE) {
        r->scratch = *scratch;
        *scratch += r->n_member > 2;
        *kv += (n_node > 2 ? 2 : 1) + (per_node > 1 ? 2 : 0);
        *dkv += per_node > 1 ? 4 : 2;
        return ZEP_OK;
    }
    r->gather = (*gather)++;
    *dkv += (r->n_node > 1) + (r->per_node > 1 ? 2 : 0);
    return gather_open(s, r, err);
}
