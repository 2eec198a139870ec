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
};

/* Collective. confirm (rank 0, may be NULL) is called before the commit. name_out: the folder's name. keep: how many checkpoints stay, this one and those of
 * the steps before it (others are removed after the commit; one of a later step is renamed to damaged-step-N). On failure nothing of the new one stays and the old ones do.
 * Weights or moments that are not finite are refused (ZEP_EINTERNAL). */
int zep_ckpt_save(struct zep_comm *comm, const char *rundir, const struct zep_ckpt_info *info, const struct zep_model *model, const struct zep_optim *optim, int keep,
                  int (*confirm)(void *arg, struct zep_error *err), void *arg, char name_out[64], int64_t *bytes_out, struct zep_error *err);

/* Collective. The newest complete checkpoint whose checksums hold is loaded into model->weight and the own shard of the moments; one that is damaged is passed over with a warning in the log.
 * No checkpoint at all: info_out->step = 0 and ZEP_OK. Another model, optimizer, seed, tokens a step or data set, or documents cut otherwise: ZEP_EREFUSED
 * naming both values. */
int zep_ckpt_load(struct zep_comm *comm, const char *rundir, const struct zep_ckpt_info *expect, struct zep_model *model, struct zep_optim *optim, struct zep_ckpt_info *info_out,
                  char name_out[64], struct zep_error *err);

#endif
