/* Optimizer with sharded state: each rank owns a contiguous range of the flat weight vector (ZeRO stage 1). */
#ifndef ZEP_RUNTIME_OPTIM_H
#define ZEP_RUNTIME_OPTIM_H

#include <stdint.h>
#include "common/error.h"
#include "common/job.h"
#include "runtime/model.h"

enum zep_optim_kind { ZEP_OPTIM_ADAMW = 0, ZEP_OPTIM_SGD };

struct zep_optim {
    enum zep_optim_kind kind;
    double lr, min_lr, beta1, beta2, eps, decay, clip;
    int64_t warmup, steps;
    int n_rank, rank;
    int64_t *first;   /* [n_rank + 1] shards: rank r owns [first[r], first[r + 1]) */
    float *m, *v;     /* [own] moments (AdamW) */
};

int zep_optim_new(const struct zep_job *job, int64_t n_weight, int n_rank, int rank, struct zep_optim **optim_out, struct zep_error *err);
void zep_optim_free(struct zep_optim *optim);
/* Shard bounds of n floats over n_rank ranks, multiples of 16 but for the last: first: [n_rank + 1]. */
void zep_optim_shards(int64_t n, int n_rank, int64_t *first);
/* Learning rate of step (from 1): linear warm-up, then a cosine from lr to min_lr at the last step. */
double zep_optim_lr(const struct zep_optim *optim, int64_t step);
/* Updates the own shard of model->weight from that of model->grad; norm: global gradient norm (for clipping). */
void zep_optim_step(struct zep_optim *optim, struct zep_model *model, int64_t step, double norm);

#endif
