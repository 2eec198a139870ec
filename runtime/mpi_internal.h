/* What the files that speak MPI share: mpi_comm.c (start, places, waiting), mpi_coll.c (collectives), mpi_group.c (groups of transfers). */
#ifndef ZEP_RUNTIME_MPI_INTERNAL_H
#define ZEP_RUNTIME_MPI_INTERNAL_H

#include <mpi.h>
#include "runtime/comm.h"

struct zep_comm {
    MPI_Comm all;  /* every rank: MPI's order before zep_comm_arrange, ours afterwards */
    MPI_Comm lane[ZEP_N_LANE]; /* all ranks; ranks of one node, twice */
    MPI_Comm dp, tensor;       /* ranks with equal t; ranks of one device */
    int rank, size, dev, t, tp, n_dev;
    int node_first, node_size; /* ranks of the own node */
    int arranged;
    /* order of messages of each ordered pair, per lane: the next tag to and from each rank */
    uint32_t *tag_to[ZEP_N_LANE], *tag_from[ZEP_N_LANE];
    char (*host)[256];
    const char **host_ptr;
    /* watchdog */
    double timeout_s, last_busy;
    int n_idle;
    _Atomic(const char *) phase; /* zep_stopper reads it from its own thread */
    const char *waiting_for; /* a collective, by name */
    struct zep_group *flying; /* posted groups */
    float *scratch;           /* of zep_comm_reduce_scatter */
    size_t scratch_len;
    MPI_Request *request;
    size_t n_request;
};

struct zep_group {
    struct zep_comm *comm;
    struct zep_group *next;
    int flying;
    int n, cap, n_open;
    MPI_Request *request;
    int *index, *peer, *sends; /* index: scratch of MPI_Testsome; peer: rank */
};

/* An MPI return code as an error of ours. */
int zep_mpi_error(int code, const char *what, struct zep_error *err);
/* Waits for n requests with the watchdog; what: name for messages. */
int zep_mpi_wait(struct zep_comm *comm, MPI_Request *request, int n, const char *what, struct zep_error *err);

#define MPI_TRY(call, what)                             \
    do {                                                \
        int code_ = (call);                             \
        if (code_ != MPI_SUCCESS)                       \
            return zep_mpi_error(code_, what, err);     \
    } while (0)

#endif
