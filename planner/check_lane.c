/* Groups of transfers under the strictest rule: nothing is buffered, a transfer is done when both ends are posted, a group when all its transfers are. */
#include "config.h"
#include "planner/check_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static void free_group(struct ck_group *g)
{
    if (!g)
        return;
    free(g->xfer);
    free(g->pend);
    free(g->run);
    free(g);
}

void ck_groups_free(struct check *ck)
{
    for (int d = 0; ck->dev && d < ck->plan->n_dev; d++)
        for (int l = 0; l < ZEP_N_LANE; l++)
            while (ck->dev[d].head[l]) {
                struct ck_group *g = ck->dev[d].head[l];

                ck->dev[d].head[l] = g->next;
                free_group(g);
            }
}

static int check_xfer(struct check *ck, const struct ck_where *w, const struct zep_op *op, const struct zep_xfer *x)
{
    const struct zep_plan *p = ck->plan;
    int64_t n = 0;

    if (x->peer < 0 || x->peer >= p->n_dev || x->peer == w->dev)
        return ck_fail(ck, w, "a transfer with device %d: expected another one of 0 to %d", (int)x->peer, p->n_dev - 1);
    if (x->n < 1)
        return ck_fail(ck, w, "a transfer of %lld rows", (long long)x->n);
    if (w->lane != ZEP_LANE_WORLD && p->dev_node[x->peer] != p->dev_node[w->dev])
        return ck_fail(ck, w, "a transfer on the node lane with device %d of node %d, the own node is %d", (int)x->peer, (int)p->dev_node[x->peer], (int)p->dev_node[w->dev]);
    if (!ck_space_data(x->ref.space))
        return ck_fail(ck, w, "a transfer of rows in space %d, which is unknown", (int)x->ref.space);
    if (x->n_run < 0 || x->run0 < 0 || x->n_run > op->n_run - x->run0 || (x->n_run && !zep_space_is_heads(x->ref.space)))
        return ck_fail(ck, w, "a transfer with runs [%d, %d + %d) of %d", (int)x->run0, (int)x->run0, (int)x->n_run, op->n_run);
    for (int i = 0; i < x->n_run; i++) {
        if (op->run[x->run0 + i].n < 1 || op->run[x->run0 + i].row < 0 || op->run[x->run0 + i].n > x->n - n)
            return ck_fail(ck, w, "a transfer of %lld rows with a run of %lld from row %lld", (long long)x->n, (long long)op->run[x->run0 + i].n, (long long)op->run[x->run0 + i].row);
        n += op->run[x->run0 + i].n;
    }
    if (x->n_run && n != x->n)
        return ck_fail(ck, w, "a transfer of %lld rows with runs of %lld", (long long)x->n, (long long)n);
    return ZEP_OK;
}

int ck_enqueue(struct check *ck, const struct ck_where *w, const struct zep_op *op)
{
    struct ck_dev *dev = &ck->dev[w->dev];
    struct ck_group *g;
    int rc;

    if (op->lane != ZEP_LANE_WORLD && op->lane != ZEP_LANE_NODE && op->lane != ZEP_LANE_GRID)
        return ck_fail(ck, w, "lane %d is unknown", (int)op->lane);
    if (dev->n_group[op->lane] && op->key <= dev->last_key[op->lane])
        return ck_fail(ck, w, "its key does not follow the lane's last one, %llx", (unsigned long long)dev->last_key[op->lane]);
    dev->last_key[op->lane] = op->key;
    for (int i = 0; i < op->n_xfer; i++)
        if ((rc = check_xfer(ck, w, op, &op->xfer[i])) < 0)
            return rc;
    g = zep_calloc(1, sizeof *g);
    if (!g || !(g->xfer = zep_calloc((size_t)op->n_xfer + 1, sizeof *g->xfer)) || !(g->pend = zep_calloc((size_t)op->n_xfer + 1, sizeof *g->pend)) ||
        !(g->run = zep_calloc((size_t)op->n_run + 1, sizeof *g->run))) {
        free_group(g);
        return ck_nomem(ck);
    }
    g->where = *w;
    g->idx = ++dev->n_group[op->lane];
    memcpy(g->after, op->after, sizeof g->after);
    memcpy(g->wait, op->wait, sizeof g->wait);
    g->n_xfer = g->n_open = op->n_xfer;
    if (op->n_xfer)
        memcpy(g->xfer, op->xfer, (size_t)op->n_xfer * sizeof *g->xfer);
    if (op->n_run)
        memcpy(g->run, op->run, (size_t)op->n_run * sizeof *g->run);
    *(dev->head[op->lane] ? &dev->tail[op->lane]->next : &dev->head[op->lane]) = g;
    dev->tail[op->lane] = g;
    ck->result.n_group++;
    return ZEP_OK;
}

/* --- routes --- */

static struct ck_route *find_route(struct ck_route *table, int cap, int64_t id)
{
    size_t h = (size_t)((uint64_t)id * 0x9E3779B97F4A7C15u >> 20) & (size_t)(cap - 1);

    while (table[h].id && table[h].id != id)
        h = (h + 1) & (size_t)(cap - 1);
    return &table[h];
}

static int get_route(struct check *ck, int64_t id, struct ck_route **out)
{
    if (2 * (ck->n_route + 1) > ck->cap_route) {
        int cap = ck->cap_route ? 2 * ck->cap_route : 64;
        struct ck_route *table = zep_calloc((size_t)cap, sizeof *table);

        if (!table)
            return ck_nomem(ck);
        for (int i = 0; i < ck->cap_route; i++)
            if (ck->route[i].id)
                *find_route(table, cap, ck->route[i].id) = ck->route[i];
        free(ck->route);
        ck->route = table;
        ck->cap_route = cap;
    }
    *out = find_route(ck->route, ck->cap_route, id);
    if (!(*out)->id) {
        (*out)->id = id;
        ck->n_route++;
    }
    return ZEP_OK;
}

void ck_wake(struct check *ck, int dev)
{
    if (ck->dev[dev].queued)
        return;
    ck->dev[dev].queued = 1;
    ck->ready[ck->n_ready++] = dev;
}

/* A group whose transfers are all done leaves its lane. */
static int complete(struct check *ck, struct ck_group *g)
{
    struct ck_dev *dev = &ck->dev[g->where.dev];
    enum zep_lane lane = g->where.lane;
    struct ck_clocks *end = &dev->end[CHAIN_LANE + lane];
    int rc;

    if ((rc = ck_grow(ck, (void **)&end->clk, end->n, &end->cap, sizeof *end->clk)) < 0)
        return rc;
    g->clk.c[CHAIN_LANE + lane] = g->idx;
    end->clk[end->n++] = g->clk;
    dev->n_done[lane]++;
    dev->head[lane] = g->next;
    ck_wake(ck, g->where.dev);
    free_group(g);
    return ZEP_OK;
}

/* Both ends are posted: the rows go over. */
static int meet(struct check *ck, struct ck_group *send, int i, struct ck_group *recv, int k)
{
    const struct zep_xfer *s = &send->xfer[i], *r = &recv->xfer[k];
    int rc;

    if (send->where.key != recv->where.key)
        return ck_fail(ck, &send->where, "its transfer to device %d meets one of key %llx", recv->where.dev, (unsigned long long)recv->where.key);
    if (s->n != r->n)
        return ck_fail(ck, &send->where, "sends %lld rows to device %d, which receives %lld", (long long)s->n, recv->where.dev, (long long)r->n);
    if (ck_space_data(s->ref.space) != ck_space_data(r->ref.space))
        return ck_fail(ck, &send->where, "sends space %d to device %d, which receives it as space %d", (int)s->ref.space, recv->where.dev, (int)r->ref.space);
    if ((s->ref.n_slice > 1 || r->ref.n_slice > 1) && (s->ref.n_slice != r->ref.n_slice || s->ref.slice != r->ref.slice))
        return ck_fail(ck, &send->where, "sends part %d of %d of the heads to device %d, which receives it as part %d of %d", (int)s->ref.slice, (int)s->ref.n_slice, recv->where.dev, (int)r->ref.slice,
                       (int)r->ref.n_slice);
    if ((rc = ck_has_head(ck, &send->where, s->ref)) < 0)
        return rc;
    if (rc && (rc = ck_fill_runs(ck, recv->where.dev, r->ref, recv->run + r->run0, r->n_run, send->where.dev, s->ref, send->run + s->run0, s->n_run, s->n)) < 0)
        return rc;
    ck->result.n_xfer++;
    *(send->where.lane == ZEP_LANE_WORLD ? &ck->result.rows_world : &ck->result.rows_node) += s->n;
    send->n_open--;
    recv->n_open--;
    return ZEP_OK;
}

/* Matches a posted transfer with the oldest one of the other end, or leaves it waiting. Sends read, receives write. */
static int post_xfer(struct check *ck, struct ck_group *g, int i)
{
    const struct zep_xfer *x = &g->xfer[i];
    int dev = g->where.dev, src = x->send ? dev : x->peer, dst = x->send ? x->peer : dev, rc;
    struct ck_route *route = NULL;
    struct ck_pend *p;

    if ((rc = get_route(ck, (((int64_t)g->where.lane * ck->plan->n_dev + src) * ck->plan->n_dev + dst) + 1, &route)) < 0)
        return rc;
    p = route->head;
    if (!p || p->group->xfer[p->i].send == x->send) {
        g->pend[i] = (struct ck_pend){NULL, g, i};
        *(route->head ? &route->tail->next : &route->head) = &g->pend[i];
        route->tail = &g->pend[i];
        return ZEP_OK;
    }
    route->head = p->next;
    rc = x->send ? meet(ck, g, i, p->group, p->i) : meet(ck, p->group, p->i, g, i);
    if (rc == ZEP_OK && !p->group->n_open && p->group != g)
        rc = complete(ck, p->group);
    return rc;
}

/* Sends read, receives write. */
static int access_rows(struct check *ck, const struct ck_group *g, const struct ck_event *ev, const struct zep_xfer *x)
{
    int rc = ck_has_head(ck, &g->where, x->ref);
    struct zep_ref ref;
    int64_t n;

    for (int i = 0; rc > 0 && ck_piece(x->ref, x->n, g->run + x->run0, x->n_run, i, &ref, &n); i++) {
        int bad = x->send ? ck_read(ck, &g->where, ev, ref, n, 1) : ck_write(ck, &g->where, ev, ref, n, SEG_HOLE);

        rc = bad < 0 ? bad : 1;
    }
    return rc < 0 ? rc : ZEP_OK;
}

int ck_post(struct check *ck, int d, enum zep_lane lane)
{
    struct ck_dev *dev = &ck->dev[d];
    struct ck_group *g = dev->head[lane];
    struct ck_event ev = {.chain = CHAIN_LANE + (int)lane, .clk = dev->base};
    int rc;

    if (!g || g->posted)
        return 0;
    for (int q = 0; q < ZEP_N_QUEUE; q++) {
        if (g->after[q] > dev->n_compute[q])
            return 0;
        if (g->after[q] > 0)
            ck_merge(&ev.clk, &dev->end[CHAIN_QUEUE + q].clk[g->after[q] - 1]);
    }
    for (int l = 0; l < ZEP_N_LANE; l++) {
        if (g->wait[l] > dev->n_done[l])
            return 0;
        if (g->wait[l] > 0)
            ck_merge(&ev.clk, &dev->end[CHAIN_LANE + l].clk[g->wait[l] - 1]);
    }
    if (g->idx > 1)
        ck_merge(&ev.clk, &dev->end[CHAIN_LANE + lane].clk[g->idx - 2]);
    ev.idx = g->idx;
    g->clk = ev.clk;
    g->posted = 1;
    for (int i = 0; i < g->n_xfer; i++) {
        const struct zep_xfer *x = &g->xfer[i];

        if ((rc = access_rows(ck, g, &ev, x)) < 0)
            return rc;
    }
    for (int i = 0; i < g->n_xfer; i++)
        if ((rc = post_xfer(ck, g, i)) < 0)
            return rc;
    if (!g->n_open && (rc = complete(ck, g)) < 0)
        return rc;
    return 1;
}
