/* Training steps: batch, plans, forward, backward, gradient exchange, optimizer. One object a rank; every function is collective. */
#ifndef ZEP_RUNTIME_TRAIN_H
#define ZEP_RUNTIME_TRAIN_H

#include <stdint.h>
#include "common/error.h"
#include "common/job.h"
#include "planner/dataset.h"
#include "runtime/batch.h"
#include "runtime/comm.h"
#include "runtime/exec.h"
#include "runtime/model.h"
#include "runtime/optim.h"
#include "topology/topo.h"

struct zep_train;

enum zep_stop { ZEP_STOP_REQUEUE = 1, ZEP_STOP_END = 2 }; /* SIGUSR1, SIGTERM; bits */

struct zep_step_flags { /* what ranks tell each other with every step */
    unsigned stop;           /* enum zep_stop bits */
    int saving;              /* a checkpoint is still being written */
};

struct zep_phase_times { /* seconds of a step */
    double plan, forward, backward, reduce, optimizer;
};

struct zep_step_stats {
    int64_t step;            /* finished steps */
    double loss;             /* mean over all target tokens of the global batch, nats */
    double lr, grad_norm;    /* norm before clipping */
    int64_t n_token, n_target;
    int n_micro;
    double time_s;
    struct zep_step_flags flags; /* of all ranks together */
    /* on rank 0 only: */
    int64_t zone_tok[4], zone_seq[4]; /* by enum zep_zone */
    double flops, attn_flops;
    struct zep_phase_times phase;     /* means over ranks */
    double plan_work_s, plan_wait_s;  /* making the plans, mean over ranks; waiting for them, the longest of the ranks */
    int plan_ready;                   /* ranks that had them before the step began */
    struct zep_exec_stats exec;       /* means over ranks; bytes and pairs are sums */
    const int64_t *rank_attn_tok, *rank_lin_tok; /* [ranks], sums over micro-steps; valid until the next step */
    const double *rank_pairs, *rank_busy_s;
};

/* For tests: a chance to break things, or to look. */
struct zep_train_hooks {
    void *arg;
    void (*share)(void *arg, const struct zep_batch *batch, struct zep_share *share);
    void (*gradient)(void *arg, struct zep_model *model, const struct zep_share *share); /* before the gradient exchange, local sums */
    void (*reduced)(void *arg, const struct zep_train *train, double norm);             /* after it, before the optimizer */
};

/* set, heldout: open data sets on rank 0 (heldout may be NULL), ignored elsewhere. view, kernels and job must outlive the object. */
int zep_train_new(struct zep_comm *comm, const struct zep_job *job, const struct zep_view *view, const struct zep_kernels *kernels, const struct zep_dataset *set,
                  const struct zep_dataset *heldout, struct zep_train **train_out, struct zep_error *err);
void zep_train_free(struct zep_train *train);
void zep_train_set_hooks(struct zep_train *train, const struct zep_train_hooks *hooks);

struct zep_model *zep_train_model(struct zep_train *train);
struct zep_optim *zep_train_optim(struct zep_train *train);
struct zep_exec *zep_train_exec(struct zep_train *train);
int64_t zep_train_capacity(const struct zep_train *train); /* tokens a device, as used */
void zep_train_set_step(struct zep_train *train, int64_t step); /* after a resume: so many steps are finished */
/* 1: plan.ahead, and this rank's plans of the step after the one in hand are done. */
int zep_train_next_is_planned(struct zep_train *train);
/* The plan of micro-step i of the last step; NULL beyond the last. */
const struct zep_plan *zep_train_plan(const struct zep_train *train, int i);

/* flags: this rank's own, read once. */
int zep_train_step(struct zep_train *train, const struct zep_step_flags *flags, struct zep_step_stats *out, struct zep_error *err);
/* Mean loss over the targets of held-out documents, each once: of all, or of as many as train.eval_tokens holds, always the same ones. ZEP_EINVAL without a held-out set. */
int zep_train_eval(struct zep_train *train, double *loss_out, int64_t *n_target_out, struct zep_error *err);

/* The whole reduced gradient of the last step on every rank, for tests: out: [n_weight]. */
int zep_train_gradient(struct zep_train *train, float *out, struct zep_error *err);

#endif
