/* When a run's checkpoints are written, and whether the training goes on meanwhile: out of a copy of the shard, which a thread writes. One object a rank. */
#ifndef ZEP_RUNTIME_SAVE_H
#define ZEP_RUNTIME_SAVE_H

#include "common/job.h"
#include "runtime/checkpoint.h"
#include "runtime/metrics.h"

struct zep_saver;

struct zep_saver_told { /* of a checkpoint that was committed */
    char name[64];
    int64_t step, bytes;  /* bytes: rank 0 */
    double time_s;        /* from its step to its commit */
    double stall_s;       /* of that the training stood still */
};

/* Collective. base: what all checkpoints of the run have in common (step aside). ranks_here: of this machine. committed is called on every rank for each checkpoint. job, model and optim
 * must outlive the object. */
int zep_saver_new(struct zep_comm *comm, const struct zep_job *job, const struct zep_ckpt_args *base, int ranks_here, void (*committed)(void *arg, const struct zep_saver_told *told), void *arg,
                  struct zep_saver **saver_out, struct zep_error *err);
/* Not collective; waits for the own thread. */
void zep_saver_free(struct zep_saver *saver);
/* 1: this rank is still writing. To be taken before a step; its sum over all ranks goes to zep_saver_after. */
int zep_saver_busy(const struct zep_saver *saver);
/* Collective, after step: any_busy: was a rank busy? due: a checkpoint is to be made; now: it is to be complete at the return, and so is an earlier one. */
int zep_saver_after(struct zep_saver *saver, int64_t step, int any_busy, int due, int now, struct zep_error *err);
/* Collective: completes what is under way. */
int zep_saver_finish(struct zep_saver *saver, struct zep_error *err);

#endif
