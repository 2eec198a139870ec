/* Groups of point-to-point transfers. Messages of an ordered pair of ranks match by their common order in the schedule: tag = index in that pair's stream of the lane, modulo 32768. */
#include "config.h"
#include "runtime/mpi_internal.h"

#include <limits.h>
#include <stdlib.h>

#include "common/arena.h"

#define TAG_MASK 32767u

int zep_group_new(struct zep_comm *comm, int max_msg, struct zep_group **group_out, struct zep_error *err)
{
    struct zep_group *g = zep_calloc(1, sizeof *g);

    if (!g)
        return zep_error_nomem(err, "group of transfers");
    g->comm = comm;
    g->cap = max_msg < 1 ? 1 : max_msg;
    g->request = zep_calloc((size_t)g->cap, sizeof *g->request);
    g->index = zep_calloc((size_t)g->cap, sizeof *g->index);
    g->peer = zep_calloc((size_t)g->cap, sizeof *g->peer);
    g->sends = zep_calloc((size_t)g->cap, sizeof *g->sends);
    if (!g->request || !g->index || !g->peer || !g->sends) {
        zep_group_free(g);
        return zep_error_nomem(err, "group of transfers");
    }
    *group_out = g;
    return ZEP_OK;
}

static void land(struct zep_group *g)
{
    struct zep_group **p = &g->comm->flying;

    if (!g->flying)
        return;
    while (*p && *p != g)
        p = &(*p)->next;
    if (*p)
        *p = g->next;
    g->flying = 0;
}

void zep_group_free(struct zep_group *g)
{
    if (!g)
        return;
    land(g);
    free(g->request);
    free(g->index);
    free(g->peer);
    free(g->sends);
    free(g);
}

static int post_one(struct zep_group *g, enum zep_lane lane, const struct zep_msg *m, int i, struct zep_error *err)
{
    struct zep_comm *comm = g->comm;
    int peer = zep_comm_rank_of(comm, m->dev, comm->t), at = lane != ZEP_LANE_WORLD ? peer - comm->node_first : peer;
    uint32_t *count = m->send ? &comm->tag_to[lane][peer] : &comm->tag_from[lane][peer];
    int tag = (int)(*count & TAG_MASK), n = (int)(m->bytes / sizeof(float));

    if (lane != ZEP_LANE_WORLD && (at < 0 || at >= comm->node_size))
        return zep_error_set(err, ZEP_EINTERNAL, "a transfer inside the node goes to rank %d in another node", peer);
    if (m->bytes % sizeof(float) || m->bytes / sizeof(float) > INT_MAX)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "a message of %zu bytes: expected whole floats, at most %d", m->bytes, INT_MAX);
    (*count)++;
    g->peer[i] = peer;
    g->sends[i] = m->send;
    if (m->send)
        MPI_TRY(MPI_Isend(m->data, n, MPI_FLOAT, at, tag, comm->lane[lane], &g->request[i]), "send");
    else
        MPI_TRY(MPI_Irecv(m->data, n, MPI_FLOAT, at, tag, comm->lane[lane], &g->request[i]), "receive");
    return ZEP_OK;
}

int zep_group_post(struct zep_group *g, enum zep_lane lane, const struct zep_msg *msg, int n, struct zep_error *err)
{
    int rc;

    if (n > g->cap)
        return zep_error_set(err, ZEP_EINTERNAL, "group of %d transfers, made for %d", n, g->cap);
    g->n = 0;
    for (int pass = 0; pass < 2; pass++) /* receives first: what arrives finds its place */
        for (int i = 0; i < n; i++)
            if (msg[i].send == pass) {
                if ((rc = post_one(g, lane, &msg[i], g->n, err)) < 0)
                    return rc;
                g->n++;
            }
    g->n_open = g->n;
    if (g->n) {
        g->next = g->comm->flying;
        g->comm->flying = g;
        g->flying = 1;
    }
    return ZEP_OK;
}

int zep_group_test(struct zep_group *g, struct zep_error *err)
{
    int n_done = 0;

    if (g->n_open) {
        MPI_TRY(MPI_Testsome(g->n, g->request, &n_done, g->index, MPI_STATUSES_IGNORE), "transfer");
        if (n_done > 0) {
            g->n_open -= n_done;
            g->comm->n_idle = 0;
        }
    }
    if (g->n_open)
        return 0;
    land(g);
    return 1;
}
