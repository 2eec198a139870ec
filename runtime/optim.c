#include "config.h"
#include "runtime/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

void zep_optim_shards(int64_t n, int n_rank, int64_t *first)
{
    int64_t units = (n + 15) / 16;

    for (int r = 0; r <= n_rank; r++) {
        int64_t at = units / n_rank * r + (units % n_rank < r ? units % n_rank : r);

        first[r] = at * 16 < n ? at * 16 : n;
    }
}

int zep_optim_new(const struct zep_job *job, int64_t n_weight, int n_rank, int rank, struct zep_optim **optim_out, struct zep_error *err)
{
    struct zep_optim *o = zep_calloc(1, sizeof *o);
    int64_t own;

    if (!o)
        return zep_error_nomem(err, "optimizer");
    o->kind = strcmp(job->train.optimizer, "sgd") == 0 ? ZEP_OPTIM_SGD : ZEP_OPTIM_ADAMW;
    o->lr = job->train.lr;
    o->min_lr = job->train.min_lr;
    o->beta1 = job->train.beta1;
    o->beta2 = job->train.beta2;
    o->eps = job->train.eps;
    o->decay = job->train.decay;
    o->clip = job->train.clip;
    o->warmup = job->train.warmup;
    o->steps = job->train.steps;
    o->n_rank = n_rank;
    o->rank = rank;
    o->first = zep_calloc((size_t)n_rank + 1, sizeof *o->first);
    if (!o->first)
        goto err_optim;
    zep_optim_shards(n_weight, n_rank, o->first);
    own = o->first[rank + 1] - o->first[rank];
    if (o->kind == ZEP_OPTIM_ADAMW) {
        o->m = zep_calloc((size_t)own + 1, sizeof *o->m);
        o->v = zep_calloc((size_t)own + 1, sizeof *o->v);
        if (!o->m || !o->v)
            goto err_optim;
    }
    *optim_out = o;
    return ZEP_OK;
err_optim:
    zep_optim_free(o);
    return zep_error_nomem(err, "optimizer");
}

void zep_optim_free(struct zep_optim *optim)
{
    if (!optim)
        return;
    free(optim->first);
    free(optim->m);
    free(optim->v);
    free(optim);
}

double zep_optim_lr(const struct zep_optim *o, int64_t step)
{
    double t;

    if (step <= o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    if (o->steps <= o->warmup)
        return o->lr;
    t = (double)(step - o->warmup) / (double)(o->steps - o->warmup);
    return o->min_lr + 0.5 * (o->lr - o->min_lr) * (1.0 + cos(M_PI * (t < 1.0 ? t : 1.0)));
}

void zep_optim_step(struct zep_optim *o, struct zep_model *model, int64_t step, double norm)
{
    int64_t begin = o->first[o->rank], end = o->first[o->rank + 1];
    float lr = (float)zep_optim_lr(o, step);
    float scale = o->clip > 0.0 && norm > o->clip ? (float)(o->clip / norm) : 1.0f;

    for (int i = 0; i < model->n_tensor; i++) {
        const struct zep_tensor *t = &model->tensor[i];
        int64_t lo = t->offset > begin ? t->offset : begin;
        int64_t hi = t->offset + t->rows * t->cols < end ? t->offset + t->rows * t->cols : end;
        float decay = t->decay ? (float)o->decay : 0.0f;

        if (lo >= hi)
            continue;
        if (o->kind == ZEP_OPTIM_ADAMW) {
            model->k->adamw(hi - lo, model->weight + lo, model->grad + lo, o->m + (lo - begin), o->v + (lo - begin), lr, (float)o->beta1, (float)o->beta2,
                            (float)o->eps, decay, step, scale);
            continue;
        }
        for (int64_t j = lo; j < hi; j++)
            model->weight[j] -= lr * (scale * model->grad[j] + decay * model->weight[j]);
    }
}
