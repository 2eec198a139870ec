#include "config.h"
#include "runtime/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/digest.h"
#include "planner/cost.h"
#include "planner/workload.h"
#include "runtime/agree.h"
#include "runtime/ahead.h"
#include "runtime/plans.h"

struct rank_stats { /* what each rank tells rank 0 after a step: doubles only */
    struct zep_phase_times phase;
    struct zep_exec_stats exec;
    double busy_s;
    double plan_work_s, plan_wait_s, plan_ready;
};

struct zep_train {
    struct zep_cost cost; /* of the job's model on plan.device, if that is set */
    int has_cost;
    struct zep_comm *comm;
    const struct zep_job *job;
    const struct zep_view *view;
    const struct zep_kernels *kernels;
    const struct zep_dataset *set, *heldout;
    struct zep_batches *batches, *eval_batches; /* rank 0 */
    struct zep_model *model;
    struct zep_optim *optim;
    struct zep_exec *exec;
    struct zep_train_hooks hooks;
    struct zep_share share;
    int64_t capacity, step;
    struct zep_planning how;
    struct zep_ahead *ahead;
    struct zep_plans plans; /* of the step or the evaluation in hand, one a micro-step */
    struct rank_stats *all; /* rank 0: [ranks] */
    int64_t *attn_tok, *lin_tok;
    double *pairs, *busy_s;
};

/* Unless the job says otherwise: a quarter above the average, and enough for the longest document over all devices. */
static int64_t choose_capacity(const struct zep_job *job, int n_dev)
{
    int64_t average = (job->train.tokens + n_dev - 1) / n_dev, longest = (job->data.context + n_dev - 1) / n_dev;
    int64_t cap = average + (average + 3) / 4;

    if (job->plan.capacity > 0)
        return job->plan.capacity;
    return cap > longest ? cap : longest;
}

static int open_batches(struct zep_train *t, struct zep_error *err)
{
    int rc;

    if (zep_comm_rank(t->comm) != 0)
        return ZEP_OK;
    if ((rc = zep_batches_new(t->set, t->job->train.tokens, t->job->train.seed, &t->batches, err)) < 0)
        return zep_error_prefix(err, "data.train"), rc;
    if ((rc = zep_batches_set_window(t->batches, t->job->plan.window, (enum zep_compose)zep_compose_find(t->job->plan.compose), err)) < 0)
        return rc;
    if (t->heldout && (rc = zep_batches_new_pass(t->heldout, t->job->train.tokens, 0, t->job->train.eval_tokens, &t->eval_batches, err)) < 0)
        return zep_error_prefix(err, "data.heldout"), rc;
    return ZEP_OK;
}

static int alloc_stats(struct zep_train *t, struct zep_error *err)
{
    size_t size = (size_t)zep_comm_size(t->comm);

    t->all = zep_calloc(size, sizeof *t->all);
    t->attn_tok = zep_calloc(size, sizeof *t->attn_tok);
    t->lin_tok = zep_calloc(size, sizeof *t->lin_tok);
    t->pairs = zep_calloc(size, sizeof *t->pairs);
    t->busy_s = zep_calloc(size, sizeof *t->busy_s);
    if (!t->all || !t->attn_tok || !t->lin_tok || !t->pairs || !t->busy_s)
        return zep_error_nomem(err, "statistics");
    return ZEP_OK;
}

/* What the job's model costs on plan.device, so that methods can plan by time. */
static int set_costs(struct zep_train *t, struct zep_error *err)
{
    const struct zep_job *job = t->job;
    struct zep_model_desc model = {.name = "of the job", .n_layer = (int)job->model.layers, .hidden = (int)job->model.hidden, .n_head = (int)job->model.heads, .n_head_kv = (int)job->model.kv_heads, .head_dim = (int)job->model.head_dim,
                                   .ffn = (int)job->model.ffn, .vocab = (int)job->model.vocab, .tied = job->model.tied, .type_bytes = sizeof(float)};
    struct zep_engine engine;
    int rc;

    if (!*job->plan.device)
        return ZEP_OK;
    if ((rc = zep_engine_load(job->plan.device, &engine, err)) < 0 || (rc = zep_cost_make(&model, &engine, (int)job->cluster.tp, t->view->dev_bw[0] / (double)job->cluster.tp, &t->cost, err)) < 0) {
        zep_error_prefix(err, "plan.device");
        return rc;
    }
    t->has_cost = 1;
    return ZEP_OK;
}

/* Everything of the costs that plans depend on. */
static uint64_t digest_costs(const struct zep_cost *c)
{
    const double all[] = {c->attn_fwd_s, c->attn_bwd_s, c->linear_fwd_s, c->linear_bwd_s, c->tp_fwd_s, c->tp_bwd_s, c->head_fwd_s, c->head_bwd_s, c->tile, c->launch_s, c->mem_bw, c->q_row, c->kv_row, c->dkv_row,
                          c->layer_params, c->other_params, c->grad_bytes, c->param_bytes, c->state_bytes, c->optim_bytes, c->token_bytes, c->mem_bytes, c->engine.port_bw, c->engine.overlap_grad, c->model.n_layer};

    return zep_digest(all, sizeof all, 0);
}

/* Collective. A file that is another one on some ranks is named, before plans differ by it. */
static int agree_costs(struct zep_train *t, int rc, struct zep_error *err)
{
    char what[300];

    if (!*t->job->plan.device)
        return rc;
    if ((rc = zep_agree(t->comm, rc, err)) < 0)
        return rc;
    snprintf(what, sizeof what, "what plan.device '%.200s' says (its digest)", t->job->plan.device);
    return zep_agree_value(t->comm, digest_costs(&t->cost), what, err);
}

static int open_ahead(struct zep_train *t, struct zep_error *err)
{
    const struct zep_job *job = t->job;
    struct zep_ahead_opts opts = {.comm = t->comm, .set = t->set, .batches = t->batches, .vocab = t->model->shape.vocab, .end = job->train.steps, .on = job->plan.ahead};

    t->how = (struct zep_planning){job, t->view, t->has_cost ? &t->cost : NULL, t->capacity, job->plan.check && zep_comm_rank(t->comm) == 0};
    opts.how = t->how;
    return zep_ahead_new(&opts, &t->ahead, err);
}

int zep_train_new(struct zep_comm *comm, const struct zep_job *job, const struct zep_view *view, const struct zep_kernels *kernels, const struct zep_dataset *set,
                  const struct zep_dataset *heldout, struct zep_train **train_out, struct zep_error *err)
{
    struct zep_train *t = zep_calloc(1, sizeof *t);
    struct zep_model_shape shape;
    struct zep_exec_shape es;
    int rc;

    if (!t)
        return zep_error_nomem(err, "training");
    t->comm = comm;
    t->job = job;
    t->view = view;
    t->kernels = kernels;
    t->set = set;
    t->heldout = heldout;
    t->capacity = choose_capacity(job, view->n_dev);
    if ((rc = agree_costs(t, set_costs(t, err), err)) < 0) {
        zep_train_free(t);
        return rc;
    }
    if ((rc = zep_model_shape_from_job(job, &shape, err)) < 0 || (rc = zep_model_new(&shape, kernels, &t->model, err)) < 0)
        goto out;
    es = (struct zep_exec_shape){shape.n_layer, shape.n_head, shape.n_head_kv, shape.head_dim};
    if ((rc = zep_exec_new(comm, kernels, &es, &t->exec, err)) < 0)
        goto out;
    if ((rc = zep_optim_new(job, t->model->n_weight, zep_comm_size(comm), zep_comm_rank(comm), &t->optim, err)) < 0)
        goto out;
    if ((rc = alloc_stats(t, err)) < 0)
        goto out;
    zep_model_init(t->model, job->train.seed, t->optim->first[zep_comm_rank(comm)], t->optim->first[zep_comm_rank(comm) + 1]);
    if ((rc = open_batches(t, err)) == ZEP_OK)
        rc = open_ahead(t, err);
out:
    if ((rc = zep_agree(comm, rc, err)) == ZEP_OK)
        rc = zep_comm_allgather(comm, t->model->weight, t->optim->first, err);
    if (rc < 0)
        zep_train_free(t);
    else
        *train_out = t;
    return rc;
}

void zep_train_free(struct zep_train *t)
{
    if (!t)
        return;
    zep_ahead_free(t->ahead);
    zep_plans_free(&t->plans);
    zep_batches_free(t->batches);
    zep_batches_free(t->eval_batches);
    zep_model_free(t->model);
    zep_optim_free(t->optim);
    zep_exec_free(t->exec);
    zep_share_free(&t->share);
    free(t->all);
    free(t->attn_tok);
    free(t->lin_tok);
    free(t->pairs);
    free(t->busy_s);
    free(t);
}

void zep_train_set_hooks(struct zep_train *t, const struct zep_train_hooks *hooks)
{
    t->hooks = *hooks;
}

struct zep_model *zep_train_model(struct zep_train *t)
{
    return t->model;
}

struct zep_optim *zep_train_optim(struct zep_train *t)
{
    return t->optim;
}

struct zep_exec *zep_train_exec(struct zep_train *t)
{
    return t->exec;
}

int64_t zep_train_capacity(const struct zep_train *t)
{
    return t->capacity;
}

void zep_train_set_step(struct zep_train *t, int64_t step)
{
    t->step = step;
}

int zep_train_next_is_planned(struct zep_train *t)
{
    return zep_ahead_ready(t->ahead);
}

const struct zep_plan *zep_train_plan(const struct zep_train *t, int i)
{
    return i >= 0 && i < t->plans.n ? t->plans.plan[i] : NULL;
}

/* A batch of the evaluation and its plans. No documents: the pass is over. */
static int take_heldout(struct zep_train *t, int64_t i, struct zep_batch *batch, struct zep_error *err)
{
    const int32_t *doc = NULL;
    int n_doc = 0, rc = ZEP_OK;

    if (zep_comm_rank(t->comm) == 0)
        rc = zep_batches_get(t->eval_batches, i, &doc, &n_doc, err);
    if ((rc = zep_agree(t->comm, rc, err)) < 0 || (rc = zep_batch_share(t->comm, t->heldout, t->model->shape.vocab, doc, n_doc, batch, err)) < 0)
        return rc;
    zep_plans_free(&t->plans);
    if (batch->n_doc) {
        rc = zep_agree(t->comm, zep_plans_make(&t->how, batch, &t->plans, err), err);
        if (rc == ZEP_OK)
            rc = zep_agree_value(t->comm, t->plans.digest, "plan digest", err);
    }
    if (rc < 0)
        zep_batch_free(batch);
    return rc;
}

static int enter_micro(struct zep_train *t, const struct zep_batch *batch, int i, struct zep_tokens *tokens, struct zep_error *err)
{
    int rc;

    if ((rc = zep_exec_set_plan(t->exec, t->plans.plan[i], err)) < 0)
        return rc;
    if ((rc = zep_share_fill(&t->share, batch, t->plans.first[i], t->plans.plan[i], zep_comm_dev(t->comm), err)) < 0)
        return rc;
    if (t->hooks.share)
        t->hooks.share(t->hooks.arg, batch, &t->share);
    *tokens = (struct zep_tokens){t->share.n, t->share.token, t->share.pos, t->share.target};
    return ZEP_OK;
}

/* Forward and backward of all micro-steps; gradients add up, each already divided by the step's number of targets. */
static int run_micros(struct zep_train *t, const struct zep_batch *batch, double *loss_sum, struct zep_phase_times *phase, struct zep_error *err)
{
    float scale = batch->n_target > 0 ? (float)(1.0 / (double)batch->n_target) : 0.0f;

    memset(t->model->grad, 0, (size_t)t->model->n_weight * sizeof(float));
    for (int i = 0; i < t->plans.n; i++) {
        struct zep_tokens tokens;
        double t0 = zep_clock_now(), t1, loss;
        int rc;

        zep_comm_set_phase(t->comm, "forward");
        if ((rc = enter_micro(t, batch, i, &tokens, err)) < 0 || (rc = zep_model_forward(t->model, t->exec, &tokens, err)) < 0)
            return rc;
        t1 = zep_clock_now();
        zep_comm_set_phase(t->comm, "backward");
        if ((rc = zep_model_loss(t->model, &tokens, scale, &loss, err)) < 0)
            return rc;
        if (scale != 0.0f && (rc = zep_model_backward(t->model, t->exec, &tokens, err)) < 0)
            return rc;
        *loss_sum += loss;
        phase->forward += t1 - t0;
        phase->backward += zep_clock_now() - t1;
    }
    return ZEP_OK;
}

/* Gradient exchange; then one reduction carries the loss, the norm and the flags. */
static int exchange(struct zep_train *t, const struct zep_step_flags *flags, int64_t n_target, double loss_sum, struct zep_step_stats *out, struct zep_error *err)
{
    const int64_t *first = t->optim->first;
    int rank = zep_comm_rank(t->comm), rc;
    double sum[5];

    zep_comm_set_phase(t->comm, "gradient exchange");
    if (t->hooks.gradient)
        t->hooks.gradient(t->hooks.arg, t->model, &t->share);
    if ((rc = zep_comm_reduce_scatter(t->comm, t->model->grad, first, err)) < 0)
        return rc;
    sum[0] = loss_sum;
    sum[1] = t->kernels->sumsq(first[rank + 1] - first[rank], t->model->grad + first[rank]);
    sum[2] = flags->stop & ZEP_STOP_REQUEUE ? 1.0 : 0.0;
    sum[3] = flags->stop & ZEP_STOP_END ? 1.0 : 0.0;
    sum[4] = flags->saving ? 1.0 : 0.0;
    if ((rc = zep_comm_sum_f64(t->comm, sum, 5, err)) < 0)
        return rc;
    out->loss = n_target > 0 ? sum[0] / (double)n_target : 0.0;
    out->grad_norm = sqrt(sum[1]);
    out->flags.stop = (sum[2] > 0.0 ? ZEP_STOP_REQUEUE : 0u) | (sum[3] > 0.0 ? ZEP_STOP_END : 0u);
    out->flags.saving = sum[4] > 0.0;
    if (!isfinite(sum[0]) || !isfinite(sum[1]))
        return zep_error_set(err, ZEP_EINTERNAL, "step %" PRId64 ": loss %g, gradient norm %g: not finite (is train.lr too high?)", t->step + 1, out->loss,
                             out->grad_norm);
    if (t->hooks.reduced)
        t->hooks.reduced(t->hooks.arg, t, out->grad_norm);
    return ZEP_OK;
}

/* Rank 0 gets every rank's times; everything else about a step it knows from the plans. */
static int collect(struct zep_train *t, const struct rank_stats *mine, struct zep_step_stats *out, struct zep_error *err)
{
    int size = zep_comm_size(t->comm), n_dev = t->view->n_dev, rc;
    double *sum = (double *)&out->phase;

    if ((rc = zep_comm_gather(t->comm, 0, mine, sizeof *mine, t->all, err)) < 0 || zep_comm_rank(t->comm) != 0)
        return rc;
    memset(t->attn_tok, 0, sizeof *t->attn_tok * (size_t)size);
    memset(t->lin_tok, 0, sizeof *t->lin_tok * (size_t)size);
    for (int i = 0; i < t->plans.n; i++) {
        struct zep_plan_stats st;

        zep_plan_stats(t->plans.plan[i], &st);
        for (int z = 0; z < 4; z++) {
            out->zone_tok[z] += st.zone_tok[z];
            out->zone_seq[z] += st.zone_seq[z];
        }
        for (int d = 0; d < n_dev; d++) {
            t->attn_tok[zep_comm_rank_of(t->comm, d, 0)] += t->plans.plan[i]->attn_tok[d];
            t->lin_tok[zep_comm_rank_of(t->comm, d, 0)] += t->plans.plan[i]->lin_tok[d];
        }
    }
    for (int r = 0; r < size; r++) {
        const struct rank_stats *s = &t->all[r];
        const double *p = (const double *)&s->phase;

        for (size_t k = 0; k < sizeof s->phase / sizeof(double); k++)
            sum[k] += p[k] / size;
        for (int q = 0; q < ZEP_N_QUEUE; q++)
            out->exec.attn_s[q] += s->exec.attn_s[q] / size;
        for (int l = 0; l < ZEP_N_LANE; l++) {
            out->exec.wait_s[l] += s->exec.wait_s[l] / size;
            out->exec.sent_bytes[l] += s->exec.sent_bytes[l];
        }
        out->exec.remap_s += s->exec.remap_s / size;
        out->exec.copy_s += s->exec.copy_s / size;
        out->exec.net_bytes += s->exec.net_bytes;
        out->exec.pairs += s->exec.pairs;
        t->pairs[r] = s->exec.pairs;
        t->busy_s[r] = s->busy_s;
        out->plan_work_s += s->plan_work_s / size;
        out->plan_wait_s = s->plan_wait_s > out->plan_wait_s ? s->plan_wait_s : out->plan_wait_s;
        out->plan_ready += (int)s->plan_ready;
    }
    out->rank_attn_tok = t->attn_tok;
    out->rank_lin_tok = t->lin_tok;
    out->rank_pairs = t->pairs;
    out->rank_busy_s = t->busy_s;
    return ZEP_OK;
}

static double causal_pairs(const struct zep_batch *batch)
{
    double pairs = 0.0;

    for (int i = 0; i < batch->n_doc; i++)
        pairs += 0.5 * (double)batch->len[i] * (double)(batch->len[i] + 1);
    return pairs;
}

static int run_step(struct zep_train *t, const struct zep_step_input *in, const struct zep_step_flags *flags, double start, struct zep_step_stats *st, struct zep_error *err)
{
    struct rank_stats mine = {.plan_work_s = in->work_s, .plan_wait_s = in->wait_s, .plan_ready = in->ready};
    const struct zep_batch *batch = &in->batch;
    struct zep_exec_stats before;
    double t0, loss_sum = 0.0;
    int rc;

    zep_exec_take_stats(t->exec, &before); /* what an evaluation left */
    mine.phase.plan = zep_clock_now() - start;
    if ((rc = run_micros(t, batch, &loss_sum, &mine.phase, err)) < 0)
        return rc;
    t0 = zep_clock_now();
    if ((rc = exchange(t, flags, batch->n_target, loss_sum, st, err)) < 0)
        return rc;
    mine.phase.reduce = zep_clock_now() - t0;
    t0 = zep_clock_now();
    zep_comm_set_phase(t->comm, "optimizer");
    zep_optim_step(t->optim, t->model, t->step + 1, st->grad_norm);
    if ((rc = zep_comm_allgather(t->comm, t->model->weight, t->optim->first, err)) < 0)
        return rc;
    mine.phase.optimizer = zep_clock_now() - t0;
    zep_exec_take_stats(t->exec, &mine.exec);
    mine.busy_s = mine.phase.forward + mine.phase.backward - mine.exec.wait_s[ZEP_LANE_WORLD] - mine.exec.wait_s[ZEP_LANE_NODE] - mine.exec.wait_s[ZEP_LANE_GRID] - mine.exec.remap_s;
    st->n_micro = t->plans.n;
    return collect(t, &mine, st, err);
}

int zep_train_step(struct zep_train *t, const struct zep_step_flags *flags, struct zep_step_stats *out, struct zep_error *err)
{
    struct zep_step_stats st = {0};
    struct zep_step_input in;
    double start = zep_clock_now();
    int rc;

    zep_comm_set_phase(t->comm, "batch and planning");
    if ((rc = zep_ahead_take(t->ahead, t->step, &in, err)) < 0)
        return rc;
    zep_plans_free(&t->plans);
    t->plans = in.plans;
    memset(&in.plans, 0, sizeof in.plans);
    rc = run_step(t, &in, flags, start, &st, err);
    if (rc == ZEP_OK) {
        st.step = ++t->step;
        st.lr = zep_optim_lr(t->optim, t->step);
        st.n_token = in.batch.n_token;
        st.n_target = in.batch.n_target;
        st.attn_flops = zep_model_flops_attn(&t->model->shape, causal_pairs(&in.batch));
        st.flops = st.attn_flops + zep_model_flops_linear(&t->model->shape, (double)in.batch.n_token);
        st.time_s = zep_clock_now() - start;
        *out = st;
    }
    zep_step_input_free(&in);
    return rc;
}

static int eval_batch(struct zep_train *t, const struct zep_batch *batch, double *loss_sum, struct zep_error *err)
{
    for (int i = 0; i < t->plans.n; i++) {
        struct zep_tokens tokens;
        double loss;
        int rc;

        if ((rc = enter_micro(t, batch, i, &tokens, err)) < 0 || (rc = zep_model_forward(t->model, t->exec, &tokens, err)) < 0 ||
            (rc = zep_model_loss(t->model, &tokens, 0.0f, &loss, err)) < 0)
            return rc;
        *loss_sum += loss;
    }
    return ZEP_OK;
}

int zep_train_eval(struct zep_train *t, double *loss_out, int64_t *n_target_out, struct zep_error *err)
{
    int64_t n_target = 0;
    double loss_sum = 0.0;
    int rc = ZEP_OK, more = 1;

    zep_comm_set_phase(t->comm, "evaluation");
    if (zep_comm_rank(t->comm) == 0 && !t->heldout)
        rc = zep_error_set(err, ZEP_EINVAL, "no held-out data set (data.heldout)");
    if ((rc = zep_agree(t->comm, rc, err)) < 0)
        return rc;
    for (int64_t i = 0; more; i++) {
        struct zep_batch batch;

        if ((rc = take_heldout(t, i, &batch, err)) < 0)
            return rc;
        if ((more = batch.n_doc > 0))
            rc = eval_batch(t, &batch, &loss_sum, err);
        n_target += batch.n_target;
        zep_batch_free(&batch);
        if (rc < 0)
            return rc;
    }
    if ((rc = zep_comm_sum_f64(t->comm, &loss_sum, 1, err)) < 0)
        return rc;
    if (!isfinite(loss_sum))
        return zep_error_set(err, ZEP_EINTERNAL, "step %" PRId64 ": held-out loss %g: not finite (is train.lr too high?)", t->step, loss_sum);
    *loss_out = n_target > 0 ? loss_sum / (double)n_target : 0.0;
    *n_target_out = n_target;
    return ZEP_OK;
}

int zep_train_gradient(struct zep_train *t, float *out, struct zep_error *err)
{
    int64_t lo = t->optim->first[t->optim->rank], hi = t->optim->first[t->optim->rank + 1];

    memcpy(out + lo, t->model->grad + lo, (size_t)(hi - lo) * sizeof(float));
    return zep_comm_allgather(t->comm, out, t->optim->first, err);
}
