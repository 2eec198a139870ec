/* Lanes: first-in first-out queues of groups. A group is posted when the one before it is complete and the compute operations and the groups of other lanes that it names are. */
#include "config.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>

#include "common/arena.h"

void zep_lane_begin(struct lane *lane)
{
    lane->n_queued = lane->n_done = 0;
    lane->head = lane->tail = lane->n_msg = 0;
    lane->posted = 0;
}

void zep_lane_free(struct lane *lane)
{
    zep_group_free(lane->group);
    free(lane->queue);
    free(lane->msg);
}

/* Room for the largest group of a plan. */
int zep_lane_fit(struct zep_exec *e, int max_xfer, struct zep_error *err)
{
    int cap = max_xfer + max_xfer / 2 + 16, rc;

    if (max_xfer <= e->cap_xfer && e->lane[0].group)
        return ZEP_OK;
    for (int l = 0; l < ZEP_N_LANE; l++) {
        zep_group_free(e->lane[l].group);
        e->lane[l].group = NULL;
        if ((rc = zep_group_new(e->comm, cap, &e->lane[l].group, err)) < 0)
            return rc;
    }
    e->cap_xfer = cap;
    return ZEP_OK;
}

static int grow(struct lane *lane, int n_xfer, struct zep_error *err)
{
    if (lane->tail == lane->cap) {
        int64_t cap = 2 * lane->cap + 32;
        struct lane_group *p = zep_reallocarray(lane->queue, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "groups of transfers");
        lane->queue = p;
        lane->cap = cap;
    }
    if (lane->n_msg + n_xfer > lane->cap_msg) {
        int64_t cap = 2 * lane->cap_msg + n_xfer + 64;
        struct zep_msg *p = zep_reallocarray(lane->msg, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "groups of transfers");
        lane->msg = p;
        lane->cap_msg = cap;
    }
    return ZEP_OK;
}

int zep_lane_add(struct zep_exec *e, const struct zep_op *op, struct zep_error *err)
{
    struct lane *lane = &e->lane[op->lane];
    struct lane_group *g;
    int rc;

    if (lane->head == lane->tail)
        lane->head = lane->tail = lane->n_msg = 0;
    if ((rc = grow(lane, op->n_xfer, err)) < 0)
        return rc;
    g = &lane->queue[lane->tail++];
    lane->n_queued++;
    g->msg0 = lane->n_msg;
    g->n_msg = op->n_xfer;
    for (int q = 0; q < ZEP_N_QUEUE; q++)
        g->after[q] = op->after[q];
    for (int l = 0; l < ZEP_N_LANE; l++)
        g->wait[l] = op->wait[l];
    for (int i = 0; i < op->n_xfer; i++) {
        const struct zep_xfer *x = &op->xfer[i];
        size_t bytes = (size_t)(x->n * ref_floats(e, x->ref)) * sizeof(float);
        float *at;

        if ((rc = zep_heads_message(e, op, x, &at, err)) < 0)
            return rc;
        lane->msg[lane->n_msg++] = (struct zep_msg){x->send, x->peer, at, bytes};
        if (!x->send)
            continue;
        e->stats.sent_bytes[op->lane] += (int64_t)bytes;
        if (e->plan->dev_node[x->peer] != e->node)
            e->stats.net_bytes += (int64_t)bytes;
    }
    return ZEP_OK;
}

static int may_post(const struct zep_exec *e, const struct lane_group *g)
{
    for (int q = 0; q < ZEP_N_QUEUE; q++)
        if (e->queue[q].n_done < g->after[q])
            return 0;
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (e->lane[l].n_done < g->wait[l])
            return 0;
    return 1;
}

static int advance(struct zep_exec *e, int l, struct zep_error *err)
{
    struct lane *lane = &e->lane[l];
    int moved = 0, rc;

    while (lane->head < lane->tail) {
        const struct lane_group *g = &lane->queue[lane->head];

        if (!lane->posted) {
            if (!may_post(e, g))
                return moved;
            if ((rc = zep_group_post(lane->group, (enum zep_lane)l, &lane->msg[g->msg0], g->n_msg, err)) < 0)
                return rc;
            lane->posted = moved = 1;
        }
        if ((rc = zep_group_test(lane->group, err)) <= 0)
            return rc < 0 ? rc : moved;
        lane->posted = 0;
        lane->head++;
        lane->n_done++;
        moved = 1;
    }
    return moved;
}

int zep_lanes_advance(struct zep_exec *e, struct zep_error *err)
{
    int moved = 0;

    for (int l = 0; l < ZEP_N_LANE; l++) {
        int rc = advance(e, l, err);

        if (rc < 0)
            return rc;
        moved |= rc;
    }
    return moved;
}

int zep_lanes_empty(const struct zep_exec *e)
{
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (e->lane[l].head < e->lane[l].tail)
            return 0;
    return 1;
}
