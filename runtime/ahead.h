/* Batches and plans of the steps to come, made while the step in hand computes. A thread reads documents and plans; it never calls MPI. The main thread shares the bytes: when the batch of step s is
 * taken, that of s + 1 goes to all ranks, whose threads plan it during step s, and rank 0's thread reads that of s + 2. */
#ifndef ZEP_RUNTIME_AHEAD_H
#define ZEP_RUNTIME_AHEAD_H

#include <stdint.h>
#include "common/error.h"
#include "planner/dataset.h"
#include "planner/workload.h"
#include "runtime/batch.h"
#include "runtime/comm.h"
#include "runtime/plans.h"

struct zep_ahead;

struct zep_ahead_opts {
    struct zep_comm *comm;
    const struct zep_dataset *set; /* rank 0; likewise batches */
    struct zep_batches *batches;   /* used by nobody else while the object lives */
    int64_t vocab;
    int64_t end;                   /* no step from this one on is prepared unasked */
    int on;                        /* 0: nothing is made before it is asked for, and there is no thread */
    struct zep_planning how;
};

struct zep_step_input {
    struct zep_batch batch;
    struct zep_plans plans;
    double work_s;  /* planning on this rank, in the thread or not */
    double wait_s;  /* how long the step waited for it */
    int ready;      /* 1: it was done before it was asked for */
};

int zep_ahead_new(const struct zep_ahead_opts *opts, struct zep_ahead **out, struct zep_error *err);
/* Waits for what the thread has in hand. */
void zep_ahead_free(struct zep_ahead *ahead);
/* Batch and plans of a step; any step may be asked for, the next one is quick. All ranks have the same plans (digests are compared). An error in reading or planning comes out at the
 * step that it belongs to. Collective; zep_step_input_free. */
int zep_ahead_take(struct zep_ahead *ahead, int64_t step, struct zep_step_input *out, struct zep_error *err);
void zep_step_input_free(struct zep_step_input *input);
/* 1: the plans of the step after the one taken last are done. */
int zep_ahead_ready(struct zep_ahead *ahead);

#endif
