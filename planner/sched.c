#include "config.h"
#include "planner/sched.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "planner/sched_internal.h"

/* Phases number the keys, so that these ascend over a pass. */
enum phase { PHASE_IN = 1, PHASE_HEADS_IN, PHASE_INTER, PHASE_INTRA, PHASE_HEADS_OUT, PHASE_OUT, N_PHASE };

static int64_t make_key(enum zep_pass pass, enum phase phase, int round, int stage)
{
    return ((int64_t)pass * N_PHASE + phase) << 40 | (int64_t)round << 2 | stage;
}

int sched_add_xfer(struct zep_sched *s, int send, int peer, struct zep_ref ref, int64_t n, struct zep_error *err)
{
    if (s->n_xfer == s->cap_xfer) {
        int cap = s->cap_xfer ? 2 * s->cap_xfer : 16;
        struct zep_xfer *xfer = zep_reallocarray(s->xfer, (size_t)cap, sizeof *xfer);

        if (!xfer)
            return zep_error_nomem(err, "schedule");
        s->xfer = xfer;
        s->cap_xfer = cap;
    }
    s->xfer[s->n_xfer++] = (struct zep_xfer){send, peer, ref, n, 0, 0};
    return ZEP_OK;
}

static int add_xfer(struct zep_sched *s, int send, int peer, enum zep_space space, int slot, int64_t row, int64_t n, struct zep_error *err)
{
    return sched_add_xfer(s, send, peer, (struct zep_ref){space, slot, row, 0, 0}, n, err);
}

/* --- pairs --- */

static int add_pair(struct zep_sched *s, const struct zep_pair *pair, struct zep_error *err)
{
    if (s->n_pair == s->cap_pair) {
        int cap = s->cap_pair ? 2 * s->cap_pair : 32;
        struct zep_pair *p = zep_reallocarray(s->pair, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "schedule");
        s->pair = p;
        s->cap_pair = cap;
    }
    s->pair[s->n_pair++] = *pair;
    return ZEP_OK;
}

/* The two chunks of a member (runs of chunks of a group): number, begin, tokens, and its row in the member's block. */
struct chunks {
    int c[2];
    int64_t begin[2], n[2], row[2];
};

static void member_chunks(const struct zep_plan_seq *seq, int n_member, int heads, int pos, int64_t row, struct chunks *out)
{
    out->c[0] = pos;
    out->c[1] = 2 * n_member - 1 - pos;
    for (int i = 0; i < 2; i++) {
        int64_t end;

        zep_chunk_range(seq->len, n_member * heads, seq->rot, out->c[i] * heads, &out->begin[i], &end);
        if (heads > 1)
            zep_chunk_range(seq->len, n_member * heads, seq->rot, (out->c[i] + 1) * heads - 1, &(int64_t){0}, &end);
        out->n[i] = end - out->begin[i];
        out->row[i] = row;
        row += out->n[i];
    }
}

int sched_sees(const struct zep_sched *s, const struct sched_ring *ring, int step)
{
    const struct zep_plan *plan = s->plan;
    const struct zep_plan_ring *r = &plan->ring[ring->ring];
    int b = sched_step_block(s, ring, step);

    if (!ring->n || ring->n_member == 1)
        return ring->n > 0;
    for (int i = 0; i < r->n_seq; i++) {
        const struct zep_plan_seq *seq = &plan->seq[plan->ring_seq[r->seq0 + i]];
        struct chunks q, k;

        member_chunks(seq, ring->n_member, ring->heads, ring->pos, 0, &q);
        member_chunks(seq, ring->n_member, ring->heads, b, 0, &k);
        for (int x = 0; x < 2; x++)
            for (int y = 0; y < 2; y++)
                if (q.n[x] && k.n[y] && k.c[y] <= q.c[x])
                    return 1;
    }
    return 0;
}

/* Adds the pairs with the block of member b, which begins k_row rows behind op.kv.row. */
static int add_block(struct zep_sched *s, const struct sched_ring *ring, int b, int64_t k_row, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    const struct zep_plan_ring *r = &plan->ring[ring->ring];
    int64_t q_row = ring->row0;
    int rc;

    for (int i = 0; i < r->n_seq; i++) {
        const struct zep_plan_seq *seq = &plan->seq[plan->ring_seq[r->seq0 + i]];
        struct chunks q, k;

        if (ring->n_member == 1) {
            if ((rc = add_pair(s, &(struct zep_pair){q_row, seq->len, 0, k_row, seq->len, 0}, err)) < 0)
                return rc;
            q_row += seq->len;
            k_row += seq->len;
            continue;
        }
        member_chunks(seq, ring->n_member, ring->heads, ring->pos, q_row, &q);
        member_chunks(seq, ring->n_member, ring->heads, b, k_row, &k);
        q_row += q.n[0] + q.n[1];
        k_row += k.n[0] + k.n[1];
        for (int x = 0; x < 2; x++)
            for (int y = 0; y < 2; y++)
                if (q.n[x] && k.n[y] && k.c[y] <= q.c[x] &&
                    (rc = add_pair(s, &(struct zep_pair){q.row[x], q.n[x], q.begin[x], k.row[y], k.n[y], k.begin[y]}, err)) < 0)
                    return rc;
    }
    return ZEP_OK;
}

/* Pairs of a step; those of all gathered blocks in the order of their arrival. */
static int make_pairs(struct zep_sched *s, const struct sched_ring *ring, enum sched_do what, int step, struct zep_error *err)
{
    int rc = ZEP_OK;

    s->n_pair = 0;
    if (what == DO_ATTN)
        return add_block(s, ring, ring->form == ZEP_FORM_GATHER ? ring->pos : sched_step_block(s, ring, step), 0, err);
    for (int t = 1; t < ring->n_member && rc == ZEP_OK; t++) {
        int b = sched_step_block(s, ring, t);

        rc = add_block(s, ring, b, ring->off[b], err);
    }
    return rc;
}

/* --- groups of hops of single rings --- */

/* The message of one hop in one round. */
struct message {
    int dkv;    /* 0: block of keys and values, 1: accumulator */
    int hop;    /* its number t of the G-1 hops of that kind */
    int64_t n;
};

/* The slots of step t: of its block (never the own one), of its accumulator. Two of each in turn; of blocks one is enough where there is one hop. */
static int kv_slot(int t)
{
    return (t + 1) & 1;
}

static int dkv_slot(int t)
{
    return t & 1;
}

static void after(struct zep_sched *s, int32_t mark)
{
    if (mark > s->after)
        s->after = mark;
}

/* What the sender sends from: the block that step hop-1 used, the sum that step hop left. */
static int send_own(struct zep_sched *s, const struct sched_item *item, const struct message *m, int peer, int64_t row, int64_t n, struct zep_error *err)
{
    const struct sched_ring *ring = &s->ring[item->out];

    if (m->dkv) {
        after(s, ring->at.dkv_mark[dkv_slot(m->hop)]);
        return sched_add_xfer(s, 1, peer, sched_ref(ring, ZEP_RING_DKV, ring->dkv0 + dkv_slot(m->hop), row), n, err);
    }
    if (m->hop == 1)
        return sched_add_xfer(s, 1, peer, sched_own(ring, ZEP_ATT_KV, row), n, err);
    return sched_add_xfer(s, 1, peer, sched_ref(ring, ZEP_RING_KV, ring->kv0 + kv_slot(m->hop - 1), row), n, err);
}

/* What the receiver receives into: for step hop, for step hop+1; lane_groups: how many groups of the lane there are with this one. */
static int recv_own(struct zep_sched *s, const struct sched_item *item, const struct message *m, int peer, int64_t row, int64_t n, int32_t lane_groups, struct zep_error *err)
{
    struct sched_ring *ring = &s->ring[item->in];
    int slot = m->dkv ? dkv_slot(m->hop + 1) : kv_slot(m->hop);

    after(s, m->dkv ? ring->at.dkv_mark[slot] : ring->at.kv_mark[slot]);
    if (m->dkv)
        ring->at.dkv_wait[slot] = lane_groups;
    else
        ring->at.kv_wait[slot] = lane_groups;
    return sched_add_xfer(s, 0, peer, m->dkv ? sched_ref(ring, ZEP_RING_DKV, ring->dkv0 + slot, row) : sched_ref(ring, ZEP_RING_KV, ring->kv0 + slot, row), n, err);
}

/* The device's transfers of one part in one stage. */
static int add_part(struct zep_sched *s, const struct sched_item *item, const struct message *m, int stage, int32_t lane_groups, struct zep_error *err)
{
    int64_t row = m->n * item->part / item->n_part, n = m->n * (item->part + 1) / item->n_part - row;
    enum zep_space staging = m->dkv ? ZEP_PROXY_DKV : ZEP_PROXY_KV;
    int dev = s->dev, rc = ZEP_OK;

    if (!n)
        return ZEP_OK;
    if (stage == 0 && item->src != item->sender) {
        if (item->out >= 0)
            rc = send_own(s, item, m, item->src, row, n, err);
        if (rc == ZEP_OK && item->src == dev)
            rc = add_xfer(s, 0, item->sender, staging, item->stage, 0, n, err);
    } else if (stage == 1) {
        if (item->src == dev)
            rc = item->out >= 0 ? send_own(s, item, m, item->dst, row, n, err) : add_xfer(s, 1, item->dst, staging, item->stage, 0, n, err);
        if (rc == ZEP_OK && item->dst == dev)
            rc = item->in >= 0 ? recv_own(s, item, m, item->src, row, n, lane_groups, err) : add_xfer(s, 0, item->src, staging, item->stage, 0, n, err);
    } else if (stage == 2 && item->dst != item->receiver) {
        if (item->dst == dev)
            rc = add_xfer(s, 1, item->receiver, staging, item->stage, 0, n, err);
        if (rc == ZEP_OK && item->in >= 0)
            rc = recv_own(s, item, m, item->dst, row, n, lane_groups, err);
    }
    return rc;
}

/* All transfers of one stage of one round, in the order (ring, hop, keys before gradients, part), which is the same at both ends. */
static int make_hop_group(struct zep_sched *s, const struct sched_zone *zone, int round, int stage, int32_t lane_groups, struct zep_error *err)
{
    int end, rc;

    for (int i = zone->item0; i < zone->item_end; i = end) {
        const struct sched_item *item = &s->item[i];
        int g = sched_ring_size(s->plan, item->ring);

        for (end = i + 1; end < zone->item_end && s->item[end].ring == item->ring && s->item[end].from == item->from; end++)
            ;
        for (int dkv = 0; dkv < (s->pass == ZEP_PASS_BWD ? 2 : 1); dkv++) {
            struct message m = {dkv, dkv ? round - 2 : round, 0};

            if (m.hop < 1 || m.hop > g - 1)
                continue;
            m.n = sched_block_rows(s->plan, item->ring, (item->from + 2 * g - (dkv ? m.hop : m.hop - 1)) % g);
            for (int k = i; k < end; k++)
                if ((rc = add_part(s, &s->item[k], &m, stage, lane_groups, err)) < 0)
                    return rc;
        }
    }
    return ZEP_OK;
}

/* --- the steps of a zone --- */

/* What a single ring does in a step. Backward there is no step 0; step 1 begins an accumulator, cleared whether or not there is something to add; step G is the own block's. */
static void single_decide(const struct zep_sched *s, struct sched_ring *ring, int step)
{
    struct sched_ring_state *at = &ring->at;
    int g = ring->n_member, bwd = s->pass == ZEP_PASS_BWD && g > 1;

    if (step >= g + bwd || (bwd && !step))
        return;
    at->does[DO_ATTN] = bwd && step == 1 ? sched_block_rows(s->plan, ring->ring, sched_step_block(s, ring, 1)) > 0 : sched_sees(s, ring, step);
    at->does[DO_ADD] = bwd && step > 1 && (step == g ? ring->n > 0 : at->does[DO_ATTN]);
    at->step_wait = step % g ? at->kv_wait[kv_slot(step)] : 0;
}

static void single_mark(struct sched_ring *ring, enum sched_do what, int step, int32_t count)
{
    if (what == DO_ADD || step == 1)
        ring->at.dkv_mark[dkv_slot(step)] = count;
    if (what == DO_ATTN && step % ring->n_member)
        ring->at.kv_mark[kv_slot(step)] = count;
}

/* Decides what step `step` computes and numbers its operations ahead: the groups of the look-ahead name them. */
static void prepare_step(struct zep_sched *s, struct sched_zone *zone, int queue, int step)
{
    int32_t count = s->n_compute[queue];

    for (int i = zone->ring0; i < zone->ring_end; i++) {
        struct sched_ring *ring = &s->ring[i];

        memset(ring->at.does, 0, sizeof ring->at.does);
        if (ring->form == ZEP_FORM_SINGLE)
            single_decide(s, ring, step);
        else
            sched_grid_decide(s, ring, step);
    }
    for (int what = 0; what < SCHED_N_DO; what++)
        for (int i = zone->ring0; i < zone->ring_end; i++) {
            struct sched_ring *ring = &s->ring[i];

            if (!ring->at.does[what])
                continue;
            count++;
            if (ring->form == ZEP_FORM_SINGLE)
                single_mark(ring, (enum sched_do)what, step, count);
            else
                sched_grid_mark(s, ring, (enum sched_do)what, step, count);
        }
}

static void single_attn(struct zep_sched *s, const struct sched_ring *ring, int lane, int step, struct zep_op *op)
{
    int own = step % ring->n_member == 0;

    op->wait[lane] = ring->at.step_wait;
    op->kv = own ? sched_own(ring, ZEP_ATT_KV, 0) : sched_ref(ring, ZEP_RING_KV, ring->kv0 + kv_slot(step), 0);
    op->n = sched_block_rows(s->plan, ring->ring, sched_step_block(s, ring, step));
    if (s->pass == ZEP_PASS_FWD)
        return;
    op->clear = !own;
    if (own)
        op->dkv = sched_own(ring, ZEP_ATT_DKV, 0);
    else if (step == 1)
        op->dkv = sched_ref(ring, ZEP_RING_DKV, ring->dkv0 + dkv_slot(1), 0);
    else
        op->dkv = sched_ref(ring, ZEP_SCRATCH_DKV, ring->scratch, 0);
}

static void single_add(const struct zep_sched *s, const struct sched_ring *ring, int lane, int step, struct zep_op *op)
{
    struct zep_ref sum = sched_ref(ring, ZEP_RING_DKV, ring->dkv0 + dkv_slot(step), 0);
    int home = step == ring->n_member;

    op->wait[lane] = ring->at.dkv_wait[dkv_slot(step)];
    op->dst = home ? sched_own(ring, ZEP_ATT_DKV, 0) : sum;
    op->src = home ? sum : sched_ref(ring, ZEP_SCRATCH_DKV, ring->scratch, 0);
    op->n = sched_block_rows(s->plan, ring->ring, sched_step_block(s, ring, step));
}

static int make_compute(struct zep_sched *s, const struct sched_ring *ring, enum sched_do what, int lane, int step, struct zep_op *op, struct zep_error *err)
{
    int attn = what == DO_ATTN || what == DO_GATHERED, rc;

    if (attn && !s->no_pairs && (rc = make_pairs(s, ring, what, step, err)) < 0)
        return rc;
    op->kind = attn ? ZEP_OP_ATTN : ZEP_OP_ADD;
    op->queue = (enum zep_queue)s->z;
    op->ring = ring->ring;
    op->step = step;
    if (ring->form != ZEP_FORM_SINGLE)
        sched_grid_compute(s, ring, what, step, op);
    else if (attn)
        single_attn(s, ring, lane, step, op);
    else
        single_add(s, ring, lane, step, op);
    if (attn) {
        op->q = sched_own(ring, ZEP_ATT_Q, -ring->row0);
        op->pair = s->pair;
        op->n_pair = s->no_pairs ? 0 : s->n_pair;
    }
    s->n_compute[s->z]++;
    return 1;
}

static void make_group(struct zep_sched *s, enum zep_lane lane, int64_t key, struct zep_op *op)
{
    op->kind = ZEP_OP_GROUP;
    op->lane = lane;
    op->key = key;
    op->xfer = s->xfer;
    op->n_xfer = s->n_xfer;
    s->n_group[lane]++;
}

void sched_heads_group(struct zep_sched *s, enum zep_lane lane, int out, struct zep_op *op)
{
    make_group(s, lane, make_key(s->pass, out ? PHASE_HEADS_OUT : PHASE_HEADS_IN, 0, 0), op);
    op->run = s->run;
    op->n_run = s->n_run;
}

/* The group of a stage of a round: 1, 0 where the device has no part in it, negative error. */
static int make_round(struct zep_sched *s, struct sched_zone *zone, int round, int stage, struct zep_op *op, struct zep_error *err)
{
    enum zep_lane lane = s->z == ZEP_QUEUE_INTER ? ZEP_LANE_WORLD : ZEP_LANE_NODE;
    int rc;

    if (stage < STAGE_CROSSING ? stage != STAGE_CENTRE && !zone->staged : !zone->has_grid)
        return 0;
    s->n_xfer = 0;
    s->after = 0;
    memset(s->wait, 0, sizeof s->wait);
    if (stage == STAGE_CROSSING || stage == STAGE_INNER) {
        lane = stage == STAGE_CROSSING ? ZEP_LANE_WORLD : s->z == ZEP_QUEUE_INTER ? ZEP_LANE_GRID : ZEP_LANE_NODE;
        rc = sched_grid_group(s, zone, round, lane, err);
    } else {
        rc = make_hop_group(s, zone, round, stage, s->n_group[lane] + 1, err);
    }
    if (rc < 0 || !s->n_xfer)
        return rc;
    make_group(s, lane, make_key(s->pass, s->z == ZEP_QUEUE_INTER ? PHASE_INTER : PHASE_INTRA, round, stage < STAGE_CROSSING ? stage : STAGE_CROSSING), op);
    op->after[s->z] = s->after;
    memcpy(op->wait, s->wait, sizeof op->wait);
    return 1;
}

/* Next operation of the zone s->z: 1, 0 when it has no more, negative error. Before the operations of step t come the groups of round t+2, at the start those of round 1. */
static int next_in_zone(struct zep_sched *s, struct zep_op *op, struct zep_error *err)
{
    struct sched_zone *zone = &s->zone[s->z];
    int lane = s->z == ZEP_QUEUE_INTER ? ZEP_LANE_WORLD : ZEP_LANE_NODE, max_round = zone->max_round[s->pass], rc;

    for (;;) {
        while (zone->step + 2 <= max_round && zone->stage < ZEP_N_STAGE)
            if ((rc = make_round(s, zone, zone->step + 2, zone->stage++, op, err)) != 0)
                return rc;
        for (; zone->step >= 0 && zone->what < SCHED_N_DO; zone->what++, zone->i_ring = zone->ring0)
            while (zone->i_ring < zone->ring_end) {
                const struct sched_ring *ring = &s->ring[zone->i_ring++];

                if (ring->at.does[zone->what])
                    return make_compute(s, ring, (enum sched_do)zone->what, lane, zone->step, op, err);
            }
        zone->step++;
        if (zone->step + 2 > max_round && zone->step >= zone->max_step[s->pass])
            return 0;
        zone->stage = 0;
        zone->what = 0;
        zone->i_ring = zone->ring0;
        prepare_step(s, zone, s->z, zone->step);
    }
}

/* --- remap --- */

/* Transfers of `space_att` and `space_lin` for all moves of the device, in list order; the second pair of spaces (may be none) follows the first for each move. */
static int make_remap_group(struct zep_sched *s, int inward, const enum zep_space att[2], const enum zep_space lin[2], struct zep_error *err)
{
    int64_t att_row = s->kept, lin_row = s->kept;
    int rc;

    s->n_xfer = 0;
    for (int i = 0; i < s->n_move; i++) {
        const struct zep_plan_move *mv = &s->plan->move[s->move[i]];
        int from = mv->from == s->dev;

        for (int k = 0; k < 2 && att[k]; k++)
            if ((rc = add_xfer(s, from != inward, from ? mv->to : mv->from, from ? att[k] : lin[k], 0, from ? att_row : lin_row, mv->n, err)) < 0)
                return rc;
        *(from ? &att_row : &lin_row) += mv->n;
    }
    return ZEP_OK;
}

/* The remap phases: what goes in and what comes out, by pass. */
static const enum zep_space remap_att[2][2][2] = {
    {{ZEP_ATT_Q, ZEP_ATT_KV}, {ZEP_ATT_O, ZEP_SPACE_NONE}},
    {{ZEP_ATT_DO, ZEP_SPACE_NONE}, {ZEP_ATT_DQ, ZEP_ATT_DKV}},
};
static const enum zep_space remap_lin[2][2][2] = {
    {{ZEP_LIN_Q, ZEP_LIN_KV}, {ZEP_LIN_O, ZEP_SPACE_NONE}},
    {{ZEP_LIN_DO, ZEP_SPACE_NONE}, {ZEP_LIN_DQ, ZEP_LIN_DKV}},
};

static int next_remap_group(struct zep_sched *s, int out, struct zep_op *op, struct zep_error *err)
{
    int rc = make_remap_group(s, !out, remap_att[s->pass][out], remap_lin[s->pass][out], err);

    if (rc < 0 || !s->n_xfer)
        return rc;
    make_group(s, ZEP_LANE_WORLD, make_key(s->pass, out ? PHASE_OUT : PHASE_IN, 0, 0), op);
    return 1;
}

static int next_copy(struct zep_sched *s, int out, int k, struct zep_op *op)
{
    enum zep_space att = remap_att[s->pass][out][k], lin = remap_lin[s->pass][out][k];

    if (!s->kept || !att)
        return 0;
    op->kind = ZEP_OP_COPY;
    op->dst = (struct zep_ref){out ? lin : att, 0, 0, 0, 0};
    op->src = (struct zep_ref){out ? att : lin, 0, 0, 0, 0};
    op->n = s->kept;
    return 1;
}

/* --- the stream --- */

static int make_barrier(enum zep_phase phase, struct zep_op *op)
{
    op->kind = ZEP_OP_BARRIER;
    op->phase = phase;
    return 1;
}

int zep_sched_next(struct zep_sched *s, struct zep_op *op, struct zep_error *err)
{
    int rc = 0;

    memset(op, 0, sizeof *op);
    while (s->state != SCHED_END) {
        switch (s->state) {
        case SCHED_IN_GROUP:
        case SCHED_OUT_GROUP:
            rc = next_remap_group(s, s->state == SCHED_OUT_GROUP, op, err);
            break;
        case SCHED_IN_COPY:
        case SCHED_IN_COPY_2:
            rc = next_copy(s, 0, s->state == SCHED_IN_COPY_2, op);
            break;
        case SCHED_OUT_COPY:
        case SCHED_OUT_COPY_2:
            rc = next_copy(s, 1, s->state == SCHED_OUT_COPY_2, op);
            break;
        case SCHED_HEADS_IN:
        case SCHED_HEADS_OUT:
            if ((rc = sched_heads_next(s, s->state == SCHED_HEADS_OUT, op, err)) != 0)
                return rc;
            s->i_head = 0;
            break;
        case SCHED_IN_BARRIER:
            rc = make_barrier(s->n_head ? ZEP_PHASE_HEADS_IN : ZEP_PHASE_ATTN, op);
            break;
        case SCHED_HEADS_IN_BARRIER:
        case SCHED_HEADS_OUT_BARRIER:
            rc = s->n_head ? make_barrier(s->state == SCHED_HEADS_IN_BARRIER ? ZEP_PHASE_ATTN : ZEP_PHASE_HEADS_OUT, op) : 0;
            break;
        case SCHED_OUT_BARRIER:
            rc = make_barrier(ZEP_PHASE_OUT, op);
            break;
        case SCHED_ZONES:
            if ((rc = next_in_zone(s, op, err)) != 0)
                return rc;
            if (++s->z < ZEP_N_QUEUE)
                continue;
            break;
        case SCHED_END:
            break;
        }
        if (rc < 0)
            return rc;
        s->state++;
        if (rc)
            return rc;
    }
    return 0;
}

void zep_sched_rewind(struct zep_sched *s)
{
    s->state = SCHED_IN_GROUP;
    s->z = 0;
    s->i_head = 0;
    memset(s->n_group, 0, sizeof s->n_group);
    memset(s->n_compute, 0, sizeof s->n_compute);
    for (int z = 0; z < ZEP_N_QUEUE; z++) {
        struct sched_zone *zone = &s->zone[z];

        zone->step = -1;
        zone->stage = 0;
        zone->what = 0;
        zone->i_ring = zone->ring0;
    }
    for (int i = 0; i < s->n_ring; i++)
        memset(&s->ring[i].at, 0, sizeof s->ring[i].at);
}

/* --- what a device needs --- */

static int64_t in_whole(int64_t n, int n_slice)
{
    return n_slice > 1 ? (n + n_slice - 1) / n_slice : n;
}

static void need_ref(struct zep_sched_need *need, struct zep_ref ref, int64_t n)
{
    if (ref.space == ZEP_SPACE_NONE)
        return;
    if (ref.slot + 1 > need->n_slot[ref.space])
        need->n_slot[ref.space] = ref.slot + 1;
    if (in_whole(ref.row + n, ref.n_slice) > need->rows[ref.space])
        need->rows[ref.space] = in_whole(ref.row + n, ref.n_slice);
}

/* What a phase of heads stages: all its transfers. The group's rows have their place whether or not all are transferred. */
static void need_heads(const struct zep_sched *s, struct zep_sched_need *need)
{
    for (int i = 0; i < s->n_ring; i++)
        for (int space = ZEP_HEAD_Q; space <= ZEP_HEAD_DKV && s->ring[i].heads > 1; space++)
            need_ref(need, sched_ref(&s->ring[i], (enum zep_space)space, s->ring[i].head, 0), s->ring[i].n);
}

static int need_pass(struct zep_sched *s, struct zep_sched_need *need, struct zep_error *err)
{
    int64_t head_q = 0, head_kv = 0;
    struct zep_op op;
    int rc;

    need_heads(s, need);
    while ((rc = zep_sched_next(s, &op, err)) == 1) {
        int heads = op.kind == ZEP_OP_GROUP && (s->state == SCHED_HEADS_IN || s->state == SCHED_HEADS_OUT);

        for (int i = 0; i < op.n_xfer; i++) {
            const struct zep_xfer *x = &op.xfer[i];

            need_ref(need, x->ref, x->n);
            if (heads)
                *(zep_space_is_kv(x->ref.space) ? &head_kv : &head_q) += in_whole(x->n, x->ref.n_slice);
        }
        if (op.kind == ZEP_OP_COPY && op.src.n_slice > 1)
            *(zep_space_is_kv(op.src.space) ? &head_kv : &head_q) += in_whole(op.n, op.src.n_slice);
        if (op.n_xfer > need->max_xfer)
            need->max_xfer = op.n_xfer;
        need_ref(need, op.kv, op.n);
        need_ref(need, op.dkv, op.n);
        need_ref(need, op.dst, op.n);
        need_ref(need, op.src, op.n);
    }
    need->head_q = head_q > need->head_q ? head_q : need->head_q;
    need->head_kv = head_kv > need->head_kv ? head_kv : need->head_kv;
    for (int lane = 0; lane < ZEP_N_LANE; lane++)
        if (s->n_group[lane] > need->max_pending)
            need->max_pending = s->n_group[lane];
    return rc;
}

int zep_sched_need(const struct zep_plan *plan, int dev, struct zep_sched_need *out, struct zep_error *err)
{
    struct zep_sched_need need = {0};
    int rc;

    for (int pass = ZEP_PASS_FWD; pass <= ZEP_PASS_BWD; pass++) {
        struct zep_sched *s;

        if ((rc = zep_sched_open(plan, dev, (enum zep_pass)pass, &s, err)) < 0)
            return rc;
        s->no_pairs = 1;
        rc = need_pass(s, &need, err);
        zep_sched_free(s);
        if (rc < 0)
            return rc;
    }
    for (int space = ZEP_LIN_Q; space <= ZEP_ATT_DKV; space++) {
        need.n_slot[space] = 1;
        need.rows[space] = space < ZEP_ATT_Q ? plan->lin_tok[dev] : plan->attn_tok[dev];
    }
    *out = need;
    return ZEP_OK;
}
