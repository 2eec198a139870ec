/* Rings on a grid: N nodes of P members, member (v, p) at position v * P + p. Double rings and all-gather; what they do, round by round and step by step, is said in sched.h. */
#include "config.h"
#include "planner/sched.h"

#include "common/arena.h"
#include "planner/sched_internal.h"

/* Slots of a double ring, from its first ones. */
enum { KV_OUTER = 0, KV_INNER = 2 };
enum { DKV_OUTER = 0, DKV_INNER = 2, DKV_HOME = 4 };

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

int sched_step_block(const struct sched_ring *r, int step)
{
    return back(r, step / r->per_node, step % r->per_node);
}

static int64_t rows_of(const struct zep_sched *s, const struct sched_ring *r, int pos)
{
    return sched_block_rows(s->plan, r->ring, pos);
}

static int bwd(const struct zep_sched *s)
{
    return s->pass == ZEP_PASS_BWD;
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
    return sched_add_xfer(s, 1, s->plan->member[s->plan->ring[r->ring].member0 + pos], ref, n, err);
}

static int recv_from(struct zep_sched *s, const struct sched_ring *r, int pos, struct zep_ref ref, int64_t n, struct zep_error *err)
{
    return sched_add_xfer(s, 0, s->plan->member[s->plan->ring[r->ring].member0 + pos], ref, n, err);
}

/* --- double ring: transfers --- */

/* Turns go 0 .. N-1; backward 1 .. N, so that the own node's (turn N is turn 0) comes last. */
static int first_turn(const struct zep_sched *s)
{
    return bwd(s);
}

static int is_own_turn(const struct sched_ring *r, int j)
{
    return j % r->n_node == 0;
}

static int in_turns(const struct zep_sched *s, const struct sched_ring *r, int t)
{
    return t >= first_turn(s) * r->per_node && t < (first_turn(s) + r->n_node) * r->per_node;
}

static struct zep_ref kv_slot(const struct sched_ring *r, int slot)
{
    return (struct zep_ref){ZEP_RING_KV, r->kv0 + slot, 0};
}

static struct zep_ref dkv_slot(const struct sched_ring *r, int slot)
{
    return (struct zep_ref){ZEP_RING_DKV, r->dkv0 + slot, 0};
}

/* The inner slot of step t, which is no first step of a turn: by the number of the inner hop. */
static int inner_slot(const struct sched_ring *r, int t)
{
    return KV_INNER + ((t / r->per_node * (r->per_node - 1) + t % r->per_node) & 1);
}

/* The inner hop that brings the block of step t. */
static int double_inner_kv(struct zep_sched *s, struct sched_ring *r, int t, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int j = t / r->per_node, slot = inner_slot(r, t), rc;
    int64_t n = rows_of(s, r, sched_step_block(r, t - 1));

    if (n) {
        struct zep_ref ref = kv_slot(r, inner_slot(r, t - 1));

        if (t % r->per_node == 1 && is_own_turn(r, j)) {
            ref = (struct zep_ref){ZEP_ATT_KV, 0, r->row0};
        } else if (t % r->per_node == 1) {
            ref = kv_slot(r, KV_OUTER + (j & 1));
            wait_for(s, ZEP_LANE_WORLD, at->kv_wait[KV_OUTER + (j & 1)]);
            at->kv_sent[j & 1] = groups;
        }
        if ((rc = send_to(s, r, back(r, 0, -1), ref, n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, sched_step_block(r, t))))
        return ZEP_OK;
    after(s, at->kv_mark[slot]);
    at->kv_wait[slot] = groups;
    return recv_from(s, r, back(r, 0, 1), kv_slot(r, slot), n, err);
}

/* The inner hop that takes away what step t-1 left and brings what step t adds to; at the end of a turn it brings the turn's sum home. */
static int double_inner_dkv(struct zep_sched *s, struct sched_ring *r, int t, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int slot = DKV_INNER + (t & 1), old = DKV_INNER + ((t - 1) & 1), turn = t / r->per_node - 1, rc;
    int64_t n = rows_of(s, r, sched_step_block(r, t - 1));
    struct zep_ref ref;

    if (n) {
        after(s, at->dkv_mark[old]);
        at->dkv_sent[old] = groups;
        if ((rc = send_to(s, r, back(r, 0, -1), dkv_slot(r, old), n, err)) < 0)
            return rc;
    }
    if (t % r->per_node == 0) {
        n = rows_of(s, r, back(r, turn, 0));
        slot = turn == 1 ? DKV_OUTER + 1 : DKV_HOME; /* the first turn's sum begins the one that travels across nodes */
    } else {
        n = rows_of(s, r, sched_step_block(r, t));
    }
    if (!n)
        return ZEP_OK;
    ref = dkv_slot(r, slot);
    if (slot == DKV_HOME && is_own_turn(r, turn))
        ref = (struct zep_ref){ZEP_ATT_DKV, 0, r->row0};
    else
        after(s, at->dkv_mark[slot]);
    at->dkv_wait[slot] = groups;
    return recv_from(s, r, back(r, 0, 1), ref, n, err);
}

static int double_inner(struct zep_sched *s, struct sched_ring *r, int round, int32_t groups, struct zep_error *err)
{
    int rc = ZEP_OK;

    if (r->per_node == 1)
        return ZEP_OK;
    if (in_turns(s, r, round) && round % r->per_node)
        rc = double_inner_kv(s, r, round, groups, err);
    if (rc == ZEP_OK && bwd(s) && in_turns(s, r, round - 2))
        rc = double_inner_dkv(s, r, round - 1, groups, err);
    return rc;
}

/* The crossing that brings the block of turn j. */
static int double_crossing_kv(struct zep_sched *s, struct sched_ring *r, int j, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int slot = KV_OUTER + (j & 1), rc;
    int64_t n = rows_of(s, r, back(r, j - 1, 0));

    if (n) {
        struct zep_ref ref = j == 1 ? (struct zep_ref){ZEP_ATT_KV, 0, r->row0} : kv_slot(r, KV_OUTER + ((j - 1) & 1));

        if ((rc = send_to(s, r, back(r, -1, 0), ref, n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, back(r, j, 0))))
        return ZEP_OK;
    after(s, at->kv_mark[slot]);
    wait_for(s, r->inner, at->kv_sent[j & 1]);
    at->kv_wait[slot] = groups;
    return recv_from(s, r, back(r, 1, 0), kv_slot(r, slot), n, err);
}

/* The crossing (2 .. N) that takes away the sums up to turn j-1 and brings those that turn j is added to, or which are added to the own turn's. */
static int double_crossing_dkv(struct zep_sched *s, struct sched_ring *r, int j, int32_t groups, struct zep_error *err)
{
    struct sched_ring_state *at = &r->at;
    int slot = DKV_OUTER + (j & 1), old = DKV_OUTER + ((j - 1) & 1), rc;
    int64_t n = rows_of(s, r, back(r, j - 1, 0));

    if (n) {
        after(s, at->dkv_mark[old]);
        if (j == 2 && r->per_node > 1)
            wait_for(s, r->inner, at->dkv_wait[old]); /* the first turn's sum came home there */
        if ((rc = send_to(s, r, back(r, -1, 0), dkv_slot(r, old), n, err)) < 0)
            return rc;
    }
    if (!(n = rows_of(s, r, back(r, j, 0))))
        return ZEP_OK;
    after(s, at->dkv_mark[slot]);
    at->dkv_wait[slot] = groups;
    return recv_from(s, r, back(r, 1, 0), dkv_slot(r, slot), n, err);
}

static int double_crossing(struct zep_sched *s, struct sched_ring *r, int round, int32_t groups, struct zep_error *err)
{
    int per = r->per_node, lag = per > 1 ? 2 : 1, j = round == 1 ? 1 : (round - 2) % per ? 0 : (round - 2) / per + 2, rc = ZEP_OK;

    if (j >= 1 && j < r->n_node)
        rc = double_crossing_kv(s, r, j, groups, err);
    if (rc < 0 || !bwd(s) || round <= lag || (round - lag) % per)
        return rc;
    j = (round - lag) / per;
    return j >= 2 && j <= r->n_node ? double_crossing_dkv(s, r, j, groups, err) : ZEP_OK;
}

/* --- double ring: steps --- */

static void double_decide(const struct zep_sched *s, struct sched_ring *r, int t)
{
    struct sched_ring_state *at = &r->at;
    int per = r->per_node, first = t % per == 0, j = t / per;

    if (in_turns(s, r, t)) {
        int works = sched_sees(s->plan, r, sched_step_block(r, t));
        int begins = bwd(s) && first && (per > 1 || j == 1); /* a sum is cleared at its beginning, whether or not there is something to add */

        at->does[DO_ATTN] = begins ? rows_of(s, r, sched_step_block(r, t)) > 0 : works;
        at->does[DO_ADD] = bwd(s) && works && !begins;
        at->step_wait = first && is_own_turn(r, j) ? 0 : first ? at->kv_wait[KV_OUTER + (j & 1)] : at->kv_wait[inner_slot(r, t)];
        at->acc_wait = bwd(s) && per > 1 && first ? at->dkv_sent[DKV_INNER + (t & 1)] : 0;
    }
    if (bwd(s) && per > 1 && first && j >= 3 && j <= r->n_node + 1)
        at->does[DO_LATE] = rows_of(s, r, back(r, j - 1, 0)) > 0;
}

static void double_mark(const struct zep_sched *s, struct sched_ring *r, enum sched_do what, int t, int32_t count)
{
    struct sched_ring_state *at = &r->at;
    int per = r->per_node, first = t % per == 0, j = t / per;

    if (what == DO_LATE) {
        at->dkv_mark[DKV_OUTER + ((j - 1) & 1)] = at->dkv_mark[DKV_HOME] = count;
        return;
    }
    if (what == DO_ATTN && !(first && is_own_turn(r, j)))
        at->kv_mark[first ? KV_OUTER + (j & 1) : inner_slot(r, t)] = count;
    if (bwd(s) && (what == DO_ADD || (first && (per > 1 || j == 1))))
        at->dkv_mark[per > 1 ? DKV_INNER + (t & 1) : DKV_OUTER + (t & 1)] = count;
}

static void double_attn(const struct zep_sched *s, const struct sched_ring *r, int t, struct zep_op *op)
{
    int per = r->per_node, first = t % per == 0, j = t / per;

    op->kv = first && is_own_turn(r, j) ? (struct zep_ref){ZEP_ATT_KV, 0, r->row0} : kv_slot(r, first ? KV_OUTER + (j & 1) : inner_slot(r, t));
    op->wait[first ? ZEP_LANE_WORLD : r->inner] = r->at.step_wait;
    op->n = rows_of(s, r, sched_step_block(r, t));
    if (!bwd(s))
        return;
    op->clear = 1;
    if (first && (per > 1 || j == 1)) {
        op->dkv = dkv_slot(r, per > 1 ? DKV_INNER + (t & 1) : DKV_OUTER + 1);
        if (r->at.acc_wait > op->wait[r->inner])
            op->wait[r->inner] = r->at.acc_wait;
    } else if (per == 1 && is_own_turn(r, j)) {
        op->dkv = (struct zep_ref){ZEP_ATT_DKV, 0, r->row0};
        op->clear = 0;
    } else {
        op->dkv = (struct zep_ref){ZEP_SCRATCH_DKV, r->scratch, 0};
    }
}

static void double_compute(const struct zep_sched *s, const struct sched_ring *r, enum sched_do what, int t, struct zep_op *op)
{
    int per = r->per_node, turn = t / per - (what == DO_LATE), own = is_own_turn(r, turn), slot = per > 1 ? DKV_INNER + (t & 1) : DKV_OUTER + (t & 1);
    struct zep_ref home = {ZEP_ATT_DKV, 0, r->row0};

    if (what == DO_ATTN) {
        double_attn(s, r, t, op);
    } else if (what == DO_ADD) {
        op->wait[per > 1 ? r->inner : ZEP_LANE_WORLD] = r->at.dkv_wait[slot];
        op->dst = per == 1 && own ? home : dkv_slot(r, slot);
        op->src = per == 1 && own ? dkv_slot(r, slot) : (struct zep_ref){ZEP_SCRATCH_DKV, r->scratch, 0};
        op->n = rows_of(s, r, sched_step_block(r, t));
    } else { /* a turn's sum and the one that travels across nodes */
        op->wait[r->inner] = r->at.dkv_wait[DKV_HOME];
        op->wait[ZEP_LANE_WORLD] = r->at.dkv_wait[DKV_OUTER + (turn & 1)];
        op->dst = own ? home : dkv_slot(r, DKV_OUTER + (turn & 1));
        op->src = own ? dkv_slot(r, DKV_OUTER + (turn & 1)) : dkv_slot(r, DKV_HOME);
        op->n = rows_of(s, r, back(r, turn, 0));
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
        return (struct zep_ref){dkv ? ZEP_ATT_DKV : ZEP_ATT_KV, 0, r->row0};
    return (struct zep_ref){dkv ? ZEP_GATHER_DKV : ZEP_GATHER_KV, r->gather, r->off[pos]};
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
        if (sched_sees(s->plan, r, sched_step_block(r, t)))
            return 1;
    return 0;
}

static void gather_decide(const struct zep_sched *s, struct sched_ring *r, int t)
{
    struct sched_ring_state *at = &r->at;
    int h = t - r->attn_step, x;

    if (h < 0)
        return;
    if (h == 0) {
        at->does[DO_ATTN] = r->n > 0;
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
    else
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
        op->kv = what == DO_ATTN ? gathered(r, r->pos, 0) : (struct zep_ref){ZEP_GATHER_KV, r->gather, 0};
        if (!bwd(s))
            return;
        op->dkv = what == DO_ATTN ? gathered(r, r->pos, 1) : (struct zep_ref){ZEP_GATHER_DKV, r->gather, 0};
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
        return pass == ZEP_PASS_FWD ? g - 1 : per > 1 ? g + per + 1 : g + 1;
    if (pass == ZEP_PASS_FWD)
        return r->attn_step + 1;
    return r->attn_step + (per > 1 ? (n_inner(r) > (n - 1) * (per - 1) + 1 ? n_inner(r) : (n - 1) * (per - 1) + 1) : n - 1) + 1;
}

int sched_grid_n_step(const struct sched_ring *r, enum zep_pass pass)
{
    if (r->form == ZEP_FORM_DOUBLE)
        return pass == ZEP_PASS_FWD ? r->n_member : r->n_member + r->per_node + (r->per_node > 1);
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
        r->scratch = (*scratch)++;
        *kv += per_node > 1 ? 4 : 2;
        *dkv += per_node > 1 ? 5 : 2;
        return ZEP_OK;
    }
    r->gather = (*gather)++;
    *dkv += (r->n_node > 1) + (r->per_node > 1 ? 2 : 0);
    return gather_open(s, r, err);
}
