/* Checkpoints (design, section 12): checkpoints/step-N/ with one shard a rank and MANIFEST, "zeppelin-checkpoint/1.1"; independent of the number of ranks.
 * Written into step-N.TOKEN/; MANIFEST last; then renamed. A folder without the final name is not a checkpoint. */
#ifndef ZEP_RUNTIME_CHECKPOINT_H
#define ZEP_RUNTIME_CHECKPOINT_H

#include <stdint.h>
#include "common/error.h"
#include "runtime/comm.h"
#include "runtime/model.h"
#include "runtime/optim.h"

struct zep_ckpt_info { /* what must agree between a checkpoint and the run that resumes it */
    int64_t step;         /* finished steps */
    uint64_t seed, data_digest;
    int64_t tokens;       /* a step */
    /* 0: not known, and not compared (checkpoints of version 1.0) */
    uint64_t token_digest, document_digest;
    int64_t context;      /* with which the documents came about; only told */
    int64_t window;       /* steps whose documents are dealt out together; 0: not known, and not compared (checkpoints up to version 1.1) */
    int compose;          /* enum zep_compose, of a window of more than one step */
};

struct zep_ckpt_args {
    const char *rundir;
    struct zep_ckpt_info info;
    const struct zep_model *model;
    const struct zep_optim *optim;
    int keep;  /* checkpoints that stay, this one and those of the steps before it; others are removed after the commit; one of a later step is renamed to damaged-step-N */
    int (*confirm)(void *arg, struct zep_error *err); /* rank 0, may be NULL: called before the commit, on a thread */
    void *arg;
};

struct zep_ckpt_save; /* a checkpoint under way */

/* Writing goes on threads beside the main ones; all but zep_ckpt_busy and zep_ckpt_abandon are collective. Weights or moments that are not finite are refused (ZEP_EINTERNAL). On failure
 * nothing of the new checkpoint stays, the old ones do, and the object is freed. What args point to must outlive it.
 * copy: [n_part * own weights] floats that are the object's until its end: the model may change at once; NULL: the model and the moments stay as they are until the end. */
int zep_ckpt_begin(struct zep_comm *comm, const struct zep_ckpt_args *args, float *copy, struct zep_ckpt_save **save_out, struct zep_error *err);
/* This rank's part of the present stage is still being worked on (NULL: 0). */
int zep_ckpt_busy(const struct zep_ckpt_save *save);
/* For when no rank is busy: one stage further. *done_out: it is committed, and zep_ckpt_end has nothing to wait for. */
int zep_ckpt_advance(struct zep_comm *comm, struct zep_ckpt_save *save, int *done_out, struct zep_error *err);
/* Waits for what is left, commits and frees. name_out: the folder's name; bytes_out: of all shards, on rank 0. */
int zep_ckpt_end(struct zep_comm *comm, struct zep_ckpt_save *save, char name_out[64], int64_t *bytes_out, struct zep_error *err);
/* The whole of it at once. */
int zep_ckpt_save(struct zep_comm *comm, const struct zep_ckpt_args *args, char name_out[64], int64_t *bytes_out, struct zep_error *err);
/* Not collective: waits for the own thread and frees; what it wrote is removed by the next checkpoint. NULL is fine. */
void zep_ckpt_abandon(struct zep_ckpt_save *save);

/* Collective. The newest complete checkpoint whose checksums hold is loaded into model->weight and the own shard of the moments; one that is damaged is passed over with a warning in the log.
 * No checkpoint at all: info_out->step = 0 and ZEP_OK. Another model, optimizer, seed, tokens a step or data set, or documents cut otherwise: ZEP_EREFUSED
 * naming both values. */
int zep_ckpt_load(struct zep_comm *comm, const char *rundir, const struct zep_ckpt_info *expect, struct zep_model *model, struct zep_optim *optim, struct zep_ckpt_info *info_out,
                  char name_out[64], struct zep_error *err);

#endif
