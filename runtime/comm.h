/* Communication of ranks. MPI appears behind this header only (runtime/mpi_*.c). MPI_THREAD_FUNNELED; only the main thread calls. Communicators are constant in number:
 * world, node, data-parallel group (ranks with equal t), tensor group (ranks of one device). Every MPI error code becomes one of ours at the call, its own text kept. */
#ifndef ZEP_RUNTIME_COMM_H
#define ZEP_RUNTIME_COMM_H

#include <stddef.h>
#include <stdint.h>
#include "common/error.h"
#include "planner/sched.h"

struct zep_comm;

/* Starts MPI. expect: number of ranks that the launcher meant to start (0: not told). N jobs of one rank instead of one job of N are told apart and refused (ZEP_EUNAVAIL). */
int zep_comm_start(int *argc, char ***argv, int expect, struct zep_comm **comm_out, struct zep_error *err);
/* After the last barrier: ends MPI and frees. */
void zep_comm_finish(struct zep_comm *comm);
/* Ends the whole job at once. The message is logged by the caller. Does not return. */
void zep_comm_abort(struct zep_comm *comm, int status) __attribute__((noreturn));

/* Re-ranks once along the topology: rank = device * tp + t afterwards. host_node[i]: for original rank i the topology node it runs on, or NULL: keep the order of ranks (virtual nodes).
 * dev_node: [n_dev]. Must be called by all, once; makes the node, data-parallel and tensor communicators. Errors name the node that has too few or too many ranks. */
int zep_comm_arrange(struct zep_comm *comm, int n_dev, int tp, const int32_t *dev_node, const int32_t *host_node, struct zep_error *err);

int zep_comm_rank(const struct zep_comm *comm);  /* before arrange: MPI's own order */
int zep_comm_size(const struct zep_comm *comm);
int zep_comm_dev(const struct zep_comm *comm);   /* after arrange: plan device and t of this rank */
int zep_comm_t(const struct zep_comm *comm);
int zep_comm_rank_of(const struct zep_comm *comm, int dev, int t); /* the one table (device, t) -> rank */
/* Host name of every original rank, gathered; [size] strings, valid until finish. */
int zep_comm_hosts(struct zep_comm *comm, const char *const **hosts_out, struct zep_error *err);

/* Watchdog: an operation that makes no progress for timeout_s is ZEP_EPEER, naming the peers waited for. 0: none. */
void zep_comm_set_timeout(struct zep_comm *comm, double timeout_s);
/* What this rank is doing, for messages: a string constant. */
void zep_comm_set_phase(struct zep_comm *comm, const char *phase);
const char *zep_comm_phase(const struct zep_comm *comm);

/* Collectives over all ranks; waiting yields the processor and obeys the watchdog. */
int zep_comm_barrier(struct zep_comm *comm, struct zep_error *err);
int zep_comm_bcast(struct zep_comm *comm, int root, void *data, size_t bytes, struct zep_error *err);
/* Rank root's bytes to all; on the others *data is allocated (free()). */
int zep_comm_bcast_blob(struct zep_comm *comm, int root, void **data, size_t *bytes, struct zep_error *err);
int zep_comm_sum_f64(struct zep_comm *comm, double *x, int n, struct zep_error *err); /* in place, the same bits on all ranks */
int zep_comm_max_f64(struct zep_comm *comm, double *x, int n, struct zep_error *err);
int zep_comm_or_u32(struct zep_comm *comm, uint32_t *x, int n, struct zep_error *err);
int zep_comm_gather(struct zep_comm *comm, int root, const void *mine, size_t bytes, void *all /* [size][bytes] on root */, struct zep_error *err);
/* In place over the data-parallel group: x: [n] floats; first[r] .. first[r+1] is rank r's shard ([size + 1]). After reduce_scatter only the own shard is defined; summed in a fixed order. */
int zep_comm_reduce_scatter(struct zep_comm *comm, float *x, const int64_t *first, struct zep_error *err);
int zep_comm_allgather(struct zep_comm *comm, float *x, const int64_t *first, struct zep_error *err);

/* --- groups of point-to-point transfers, for the executor --- */
struct zep_msg {
    int send;
    int32_t dev; /* peer device; the rank is that of equal t */
    void *data;
    size_t bytes;
};
struct zep_group; /* requests of one posted group; reusable */
int zep_group_new(struct zep_comm *comm, int max_msg, struct zep_group **group_out, struct zep_error *err);
void zep_group_free(struct zep_group *group);
/* Posts all (non-blocking). Tags count per lane and ordered pair of ranks, modulo 32768. */
int zep_group_post(struct zep_group *group, enum zep_lane lane, const struct zep_msg *msg, int n, struct zep_error *err);
/* 1 all done, 0 not yet, negative error. Never blocks. */
int zep_group_test(struct zep_group *group, struct zep_error *err);
/* After a test that found nothing done: yields the processor; ZEP_EPEER after the time-out. */
int zep_comm_idle(struct zep_comm *comm, struct zep_error *err);
void zep_comm_busy(struct zep_comm *comm); /* resets the watchdog: something moved */

#endif
