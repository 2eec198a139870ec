/* The executor: runs a plan's schedules for one rank. It knows operations, buffers and lanes, and nothing of rings or methods (design, section 6). */
#ifndef ZEP_RUNTIME_EXEC_H
#define ZEP_RUNTIME_EXEC_H

#include <stdint.h>
#include "common/error.h"
#include "kernels/kernels.h"
#include "planner/plan.h"
#include "planner/sched.h"
#include "runtime/comm.h"

struct zep_exec;

struct zep_exec_shape {
    int n_layer;   /* activations of so many layers are kept for backward */
    int n_head, n_head_kv, head_dim;
};

/* kernels NULL: transfers, copies and additions only (attention operations are skipped), for tests that move bytes. */
int zep_exec_new(struct zep_comm *comm, const struct zep_kernels *kernels, const struct zep_exec_shape *shape, struct zep_exec **exec_out, struct zep_error *err);
void zep_exec_free(struct zep_exec *exec);

/* Uses plan from now on (it must outlive its use). Buffers grow as needed and are kept: none is allocated once the largest plan was seen. */
int zep_exec_set_plan(struct zep_exec *exec, const struct zep_plan *plan, struct zep_error *err);

/* One layer's attention. All arguments are in the linear layout of this rank, row-major, fp32:
 * q: [n_lin, n_head, head_dim] and kv: [n_lin, 2, n_head_kv, head_dim] with positions (RoPE) already applied; o: [n_lin, n_head, head_dim] is set.
 * Keeps q, kv, o and lse in the attention layout in slot `layer` for backward. Collective: all ranks call in the same order. */
int zep_exec_forward(struct zep_exec *exec, int layer, const float *q, const float *kv, float *o, struct zep_error *err);
/* d_o: [n_lin, n_head, head_dim]; dq, dkv (shapes of q and kv) are set. */
int zep_exec_backward(struct zep_exec *exec, int layer, const float *d_o, float *dq, float *dkv, struct zep_error *err);

/* Time and bytes since the last call of this function, for metrics. */
struct zep_exec_stats {
    double attn_s[ZEP_N_QUEUE]; /* computing, by queue */
    double wait_s[ZEP_N_LANE];  /* waiting for groups of a lane with nothing to compute */
    double remap_s, copy_s;
    int64_t sent_bytes[ZEP_N_LANE];
    int64_t net_bytes;          /* sent to devices of other nodes */
    double pairs;               /* causal pairs computed, forward and backward each counted once, over all layers */
};
void zep_exec_take_stats(struct zep_exec *exec, struct zep_exec_stats *out);

/* For tests: called before each operation; returns 0 to skip it, may change it. */
typedef int (*zep_exec_hook_fn)(void *arg, enum zep_pass pass, struct zep_op *op);
void zep_exec_set_hook(struct zep_exec *exec, zep_exec_hook_fn hook, void *arg);

/* For tests: rows of a lane's transfers that have arrived so far in this pass, as seen at the end of each attention kernel. */
void zep_exec_set_probe(struct zep_exec *exec, void (*probe)(void *arg, const struct zep_op *op, int64_t groups_done_world, int64_t groups_done_node), void *arg);

#endif
