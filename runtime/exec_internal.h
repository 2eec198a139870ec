/* What the files of the executor share: exec.c (buffers, plans, calls from the model), exec_pass.c (one pass over a schedule), exec_lane.c (queues of groups). */
#ifndef ZEP_RUNTIME_EXEC_INTERNAL_H
#define ZEP_RUNTIME_EXEC_INTERNAL_H

#include "runtime/exec.h"

struct lane_group { /* waiting to be posted */
    int32_t after[ZEP_N_QUEUE], wait[ZEP_N_LANE];
    int n_msg;
    int64_t msg0; /* place in lane.msg */
};

struct lane {
    struct zep_group *group; /* the one under way */
    int posted;
    int64_t n_queued, n_done; /* since the start of the pass */
    /* first-in first-out; both arrays start again when all is done */
    int64_t head, tail, cap;
    struct lane_group *queue;
    int64_t n_msg, cap_msg;
    struct zep_msg *msg;
};

struct pending { /* a compute operation read ahead */
    struct zep_op op;
    int64_t pair0;
    int skip;
};

struct compute_queue {
    int32_t n_done; /* since the start of the pass */
    int head, tail, cap; /* start again when empty */
    struct pending *item;
};

/* Rows of attention's inputs and results: of each layer what backward needs, and of the pass in hand its gradients. */
struct acts {
    int64_t cap; /* rows */
    float **q, **kv, **o, **lse;
    float *d_o, *dq, *dkv, *delta;
};

struct staged { /* heads that are under way, to be put where they belong when all have arrived */
    struct zep_ref ref;
    int64_t n, run0;
    int n_run;
    float *at;
};

struct zep_exec {
    struct zep_comm *comm;
    const struct zep_kernels *kernels;
    struct zep_exec_shape shape;
    const struct zep_plan *plan;
    int dev, node;
    struct zep_sched *sched[2];
    struct zep_sched_need need;
    int64_t q_row, kv_row; /* floats of a row */
    struct acts att, head; /* the attention layout; exchanged heads, slot after slot, in whole rows */
    /* messages of exchanged heads, packed */
    float *stage;
    size_t stage_cap, stage_used; /* floats */
    int n_staged, cap_staged;
    struct staged *staged;
    int64_t n_run, cap_run;
    struct zep_run *run; /* of the staged ones */
    /* everything else that a schedule names */
    float *space[ZEP_N_SPACE];
    size_t space_cap[ZEP_N_SPACE]; /* floats */
    /* of the pass */
    enum zep_pass pass;
    int layer;
    float *lin[ZEP_N_SPACE]; /* LIN_* : the caller's arrays */
    struct lane lane[ZEP_N_LANE];
    int cap_xfer;
    struct compute_queue queue[ZEP_N_QUEUE];
    int64_t n_pair, cap_pair;
    struct zep_pair *pair; /* of pending operations; starts again when all queues are empty */
    int have_op;           /* op was read and must wait */
    struct zep_op op;
    enum zep_phase phase;
    int ended;
    int poll_rc;
    struct zep_error poll_err;
    struct zep_progress progress;
    struct zep_exec_stats stats;
    zep_exec_hook_fn hook;
    void *hook_arg;
    void (*probe)(void *arg, const struct zep_op *op, int64_t groups_done_world, int64_t groups_done_node);
    void *probe_arg;
};

static inline int64_t row_floats(const struct zep_exec *e, enum zep_space s)
{
    return zep_space_is_kv(s) ? e->kv_row : e->q_row;
}
static inline int64_t ref_floats(const struct zep_exec *e, struct zep_ref ref) /* of a row, or of its part of the heads */
{
    return row_floats(e, ref.space) / (ref.n_slice > 1 ? ref.n_slice : 1);
}
/* Not for parts of the rows of ATT_*, which do not follow each other. */
float *zep_exec_rows(const struct zep_exec *e, struct zep_ref ref);
static inline float *rows_at(const struct zep_exec *e, struct zep_ref ref, int64_t row)
{
    return zep_exec_rows(e, ref) + row * ref_floats(e, ref);
}

/* exec_heads.c: heads that are exchanged. */
/* Where a message lies: staged (and packed, where it is sent) if its rows do not follow each other. */
int zep_heads_message(struct zep_exec *e, const struct zep_op *op, const struct zep_xfer *x, float **at_out, struct zep_error *err);
/* Puts what has arrived where it belongs. */
void zep_heads_unpack(struct zep_exec *e);
/* A copy of a part of the heads. */
void zep_heads_copy(struct zep_exec *e, const struct zep_op *op);
int zep_heads_fit(struct zep_exec *e, struct zep_error *err);
void zep_heads_free(struct zep_exec *e);

/* exec_lane.c */
void zep_lane_begin(struct lane *lane);
int zep_lane_add(struct zep_exec *e, const struct zep_op *op, struct zep_error *err);
/* Posts and tests what can be: 1 something happened, 0 nothing, negative error. */
int zep_lanes_advance(struct zep_exec *e, struct zep_error *err);
int zep_lanes_empty(const struct zep_exec *e);
void zep_lane_free(struct lane *lane);
int zep_lane_fit(struct zep_exec *e, int max_xfer, struct zep_error *err);

/* exec_pass.c */
int zep_exec_run(struct zep_exec *e, enum zep_pass pass, int layer, struct zep_error *err);
void zep_exec_pass_free(struct zep_exec *e);

#endif
