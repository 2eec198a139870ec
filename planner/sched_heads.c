/* Exchange of heads: what each member of a group sends the others before attention and gets back after it (sched.h). */
#include "config.h"
#include "planner/sched.h"

#include "common/arena.h"
#include "planner/plan_internal.h"
#include "planner/sched_internal.h"

/* By pass and phase (in, out): what is exchanged. */
static const enum zep_space exchanged[2][2][2] = {
    {{ZEP_ATT_Q, ZEP_ATT_KV}, {ZEP_ATT_O, ZEP_SPACE_NONE}},
    {{ZEP_ATT_DO, ZEP_SPACE_NONE}, {ZEP_ATT_DQ, ZEP_ATT_DKV}},
};

static int add_run(struct zep_sched *s, int run0, int64_t row, int64_t n, struct zep_error *err)
{
    struct zep_run *last = s->n_run > run0 ? &s->run[s->n_run - 1] : NULL;

    if (!n)
        return ZEP_OK;
    if (last && last->row + last->n == row) {
        last->n += n;
        return ZEP_OK;
    }
    if (s->n_run == s->cap_run) {
        int cap = s->cap_run ? 2 * s->cap_run : 32;
        struct zep_run *run = zep_reallocarray(s->run, (size_t)cap, sizeof *run);

        if (!run)
            return zep_error_nomem(err, "schedule");
        s->run = run;
        s->cap_run = cap;
    }
    s->run[s->n_run++] = (struct zep_run){row, n};
    return ZEP_OK;
}

/* Where chunk c begins; c = 2G: the length. */
static int64_t chunk_begin(const struct zep_plan_seq *q, int n_member, int c)
{
    int64_t begin, end;

    zep_chunk_range(q->len, n_member, q->rot, c < 2 * n_member ? c : c - 1, &begin, &end);
    return c < 2 * n_member ? begin : end;
}

/* Where the rows of member w of the device's group lie in the group's layout: of each sequence one run in the group's first run of chunks and one in its second. */
static int add_member(struct zep_sched *s, const struct sched_ring *ring, int w, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    const struct zep_plan_ring *r = &plan->ring[ring->ring];
    int u = ring->heads, g = r->n_member, first = ring->pos * u, second = 2 * g - first - u, run0 = s->n_run, rc;
    int64_t row = 0;

    for (int i = 0; i < r->n_seq; i++) {
        const struct zep_plan_seq *q = &plan->seq[plan->ring_seq[r->seq0 + i]];
        int64_t a = chunk_begin(q, g, first), n_a = chunk_begin(q, g, first + u) - a, b = chunk_begin(q, g, second), n_b = chunk_begin(q, g, second + u) - b;
        int64_t own_a = chunk_begin(q, g, first + w), own_b = chunk_begin(q, g, second + u - 1 - w);

        if ((rc = add_run(s, run0, row + own_a - a, chunk_begin(q, g, first + w + 1) - own_a, err)) < 0 ||
            (rc = add_run(s, run0, row + n_a + own_b - b, chunk_begin(q, g, second + u - w) - own_b, err)) < 0)
            return rc;
        row += n_a + n_b;
    }
    return ZEP_OK;
}

static int64_t rows_of_member(const struct zep_plan *plan, const struct sched_ring *ring, int w)
{
    const struct zep_plan_ring *r = &plan->ring[ring->ring];
    int64_t n = 0;

    for (int i = 0; i < r->n_seq; i++) {
        const struct zep_plan_seq *q = &plan->seq[plan->ring_seq[r->seq0 + i]];

        n += zep_member_tokens(q->len, r->n_member, q->rot, ring->pos * ring->heads + w);
    }
    return n;
}

/* The device's own rows, of which member w has (or gets) its part of the heads. */
static struct zep_ref own_rows(const struct sched_ring *ring, enum zep_space att, int w)
{
    return (struct zep_ref){att, 0, ring->att_row0, w, ring->heads};
}

static struct zep_ref group_rows(const struct sched_ring *ring, enum zep_space att)
{
    return sched_ref(ring, zep_space_of_heads(att), ring->head, 0);
}

/* All transfers with member w of the group. In: the device sends of its own rows what is w's, and receives of w's rows what is its own; out: the other way. */
static int add_peer(struct zep_sched *s, const struct sched_ring *ring, int w, int out, struct zep_error *err)
{
    int peer = s->plan->member[s->plan->ring[ring->ring].member0 + ring->pos * ring->heads + w], run0 = s->n_run, rc;
    int64_t n = rows_of_member(s->plan, ring, w);

    if (!s->no_pairs && n && (rc = add_member(s, ring, w, err)) < 0)
        return rc;
    for (int k = 0; k < 2 && exchanged[s->pass][out][k]; k++) {
        enum zep_space att = exchanged[s->pass][out][k];

        if (ring->att_n && (rc = sched_add_xfer(s, !out, peer, own_rows(ring, att, w), ring->att_n, err)) < 0)
            return rc;
        if (!n)
            continue;
        if ((rc = sched_add_xfer(s, out, peer, group_rows(ring, att), n, err)) < 0)
            return rc;
        s->xfer[s->n_xfer - 1].run0 = run0;
        s->xfer[s->n_xfer - 1].n_run = s->n_run - run0;
    }
    return ZEP_OK;
}

/* The transfers of a phase over a lane: 1, 0 none. Each member begins with the one after it, so that not all send to the same. */
static int make_group(struct zep_sched *s, enum zep_lane lane, int out, struct zep_op *op, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    int rc;

    s->n_xfer = s->n_run = 0;
    for (int i = 0; i < s->n_ring; i++) {
        const struct sched_ring *ring = &s->ring[i];
        const int32_t *member = &plan->member[plan->ring[ring->ring].member0 + ring->pos * ring->heads];

        for (int k = 1; k < ring->heads; k++) {
            int w = (ring->slice + k) % ring->heads;

            if ((lane == ZEP_LANE_WORLD) == (plan->dev_node[member[w]] != plan->dev_node[s->dev]) && (rc = add_peer(s, ring, w, out, err)) < 0)
                return rc;
        }
    }
    if (!s->n_xfer)
        return 0;
    sched_heads_group(s, lane, out, op);
    return 1;
}

/* What stays: of the device's own rows its own heads. */
static int make_copy(struct zep_sched *s, const struct sched_ring *ring, enum zep_space att, int out, struct zep_op *op, struct zep_error *err)
{
    struct zep_ref own = own_rows(ring, att, ring->slice), group = group_rows(ring, att);
    int rc;

    s->n_run = 0;
    if (!s->no_pairs && (rc = add_member(s, ring, ring->slice, err)) < 0)
        return rc;
    op->kind = ZEP_OP_COPY;
    op->dst = out ? own : group;
    op->src = out ? group : own;
    op->n = ring->att_n;
    op->run = s->run;
    op->n_run = s->n_run;
    return 1;
}

int sched_heads_next(struct zep_sched *s, int out, struct zep_op *op, struct zep_error *err)
{
    int rc = 0;

    if (!s->n_head)
        return 0;
    while (!rc && s->i_head < 2) {
        enum zep_lane lane = s->i_head++ ? ZEP_LANE_NODE : ZEP_LANE_WORLD;

        rc = make_group(s, lane, out, op, err);
    }
    while (!rc && s->i_head < 2 + 2 * s->n_ring) {
        const struct sched_ring *ring = &s->ring[(s->i_head - 2) / 2];
        enum zep_space att = exchanged[s->pass][out][s->i_head++ % 2];

        if (att && ring->heads > 1 && ring->att_n)
            rc = make_copy(s, ring, att, out, op, err);
    }
    return rc;
}
