#include "config.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/appear.h"
#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/job.h"
#include "common/log.h"
#include "common/rundir.h"
#include "planner/dataset.h"
#include "planner/workload.h"
#include "runtime/agree.h"
#include "runtime/checkpoint.h"
#include "runtime/filework.h"
#include "runtime/memlock.h"
#include "runtime/metrics.h"
#include "runtime/save.h"
#include "runtime/train.h"
#include "topology/topo.h"

struct run {
    struct zep_comm *comm;
    const struct zep_run_args *args;
    struct zep_run_result *result;
    struct zep_job *job;
    struct zep_topo *topo;
    struct zep_view *view;
    const struct zep_kernels *kernels;
    struct zep_dataset *set, *heldout; /* rank 0 */
    struct zep_metrics *metrics;       /* rank 0 */
    struct zep_train *train;
    struct zep_saver *saver;
    int deaf;                          /* rank 0: a record could not be written, and that was told */
    int64_t n_cut, eval_tokens, resumed;
    uint64_t data_digest, token_digest, document_digest;
    double start, lap;                 /* clock */
    double startup_s[ZEP_N_STARTUP];
};

static int is_root(const struct run *r)
{
    return zep_comm_rank(r->comm) == 0;
}

/* The start-up's part so far goes to one of its names. */
static void lap(struct run *r, enum zep_startup part)
{
    double now = zep_clock_now();

    r->startup_s[part] += now - r->lap;
    r->lap = now;
}

/* Rank 0 reads a file of the run folder, all ranks get its bytes. */
static int share_file(struct run *r, const char *name, char **text_out, size_t *len_out, struct zep_error *err)
{
    char *path = zep_fs_join(r->args->rundir, name), *text = NULL;
    void *blob;
    int rc = path ? ZEP_OK : zep_error_nomem(err, "run folder");

    if (rc == ZEP_OK && is_root(r))
        rc = zep_fs_read(path, 0, &text, len_out, err);
    free(path);
    rc = zep_agree(r->comm, rc, err);
    blob = text;
    if (rc == ZEP_OK)
        rc = zep_comm_bcast_blob(r->comm, 0, &blob, len_out, err);
    if (rc < 0)
        free(blob);
    else
        *text_out = blob;
    return rc;
}

static int load_inputs(struct run *r, struct zep_error *err)
{
    char *text = NULL;
    size_t len;
    int rc = ZEP_OK;

    if (is_root(r) && r->args->inputs)
        rc = zep_appear_inputs(r->args->rundir, r->args->inputs, ZEP_APPEAR_S, err);
    if ((rc = zep_agree(r->comm, rc, err)) < 0 || (rc = share_file(r, "job.yaml", &text, &len, err)) < 0)
        return rc;
    rc = zep_job_parse("job.yaml", text, len, &r->job, err);
    free(text);
    if (rc == ZEP_OK)
        rc = zep_memlock_check(r->job, err);
    if ((rc = zep_agree(r->comm, rc, err)) < 0 || (rc = share_file(r, "topology.yaml", &text, &len, err)) < 0)
        return rc;
    rc = zep_topo_parse("topology.yaml", text, len, &r->topo, err);
    free(text);
    if (rc == ZEP_OK && r->job->cluster.tp != 1)
        rc = zep_error_set(err, ZEP_EUNSUPPORTED, "cluster.tp is %" PRId64 ": tensor parallelism is planned and checked, but this version's runtime trains with cluster.tp: 1",
                           r->job->cluster.tp);
    if (rc == ZEP_OK)
        rc = zep_view_new(r->topo, (int)r->job->cluster.nodes, (int)r->job->cluster.devices, (int)r->job->cluster.tp, &r->view, err);
    return zep_agree(r->comm, rc, err);
}

/* Ranks take their place on the topology: by host name where the hosts are nodes of the topology; virtual nodes keep the order of ranks. */
static int take_places(struct run *r, struct zep_error *err)
{
    int size = zep_comm_size(r->comm), known = 0, rc;
    const char *const *host;
    int32_t *node;

    if (size != r->view->n_dev)
        rc = zep_error_set(err, ZEP_EINVAL, "%d ranks were started for %d devices", size, r->view->n_dev);
    else
        rc = ZEP_OK;
    if ((rc = zep_agree(r->comm, rc, err)) < 0 || (rc = zep_comm_hosts(r->comm, &host, err)) < 0)
        return rc;
    node = zep_calloc((size_t)size, sizeof *node);
    if (!node)
        return zep_error_nomem(err, "ranks");
    for (int i = 0; i < size; i++) {
        node[i] = zep_topo_find_node(r->topo, host[i]);
        known += node[i] >= 0;
    }
    if (known == size || known == 0) {
        rc = zep_comm_arrange(r->comm, r->view->n_dev, 1, r->view->dev_node, known ? node : NULL, err);
    } else {
        rc = ZEP_OK;
        for (int i = 0; i < size && rc == ZEP_OK; i++)
            if (node[i] < 0)
                rc = zep_error_set(err, ZEP_EINVAL, "a rank runs on host '%s', which is no node of the topology, while others' hosts are", host[i]);
    }
    free(node);
    return zep_agree(r->comm, rc, err);
}

static int open_set(struct run *r, const char *key, const char *prefix, struct zep_dataset **out, struct zep_error *err)
{
    int64_t cut = 0;
    int rc;

    if ((rc = zep_dataset_open(prefix, out, err)) == ZEP_OK)
        rc = zep_dataset_limit(*out, r->job->data.context, strcmp(r->job->data.too_long, "cut") == 0, &cut, err);
    r->n_cut += cut;
    if (rc < 0)
        zep_error_prefix(err, "%s", key);
    return rc;
}

static int open_sets(void *arg, struct zep_error *err)
{
    struct run *r = arg;
    int64_t have;
    int rc;

    if (!*r->job->data.train)
        return zep_error_set(err, ZEP_EINVAL, "data.train is not set: expected the prefix of a data set made by `zeppelin data`");
    if ((rc = open_set(r, "data.train", r->job->data.train, &r->set, err)) < 0)
        return rc;
    if (*r->job->data.heldout && (rc = open_set(r, "data.heldout", r->job->data.heldout, &r->heldout, err)) < 0)
        return rc;
    have = r->heldout ? zep_dataset_n_token(r->heldout) : 0;
    r->eval_tokens = have < r->job->train.eval_tokens ? have : r->job->train.eval_tokens;
    r->data_digest = zep_dataset_digest(r->set);
    r->token_digest = zep_dataset_digest_tokens(r->set);
    r->document_digest = zep_dataset_digest_documents(r->set);
    return ZEP_OK;
}

/* Rank 0 opens, all know what depends on it. */
static int open_data(struct run *r, struct zep_error *err)
{
    int64_t told[5];
    int rc;

    if ((rc = zep_filework(r->comm, zep_filework_limit_s(0), is_root(r) ? open_sets : NULL, r, err)) < 0)
        return rc;
    told[0] = r->eval_tokens;
    told[1] = (int64_t)r->data_digest;
    told[2] = r->n_cut;
    told[3] = (int64_t)r->token_digest;
    told[4] = (int64_t)r->document_digest;
    if ((rc = zep_comm_bcast(r->comm, 0, told, sizeof told, err)) < 0)
        return rc;
    r->eval_tokens = told[0];
    r->data_digest = (uint64_t)told[1];
    r->n_cut = told[2];
    r->token_digest = (uint64_t)told[3];
    r->document_digest = (uint64_t)told[4];
    return ZEP_OK;
}

/* Before anything becomes visible: is the run's lock still the one under which we were started? */
static int confirm_lock(void *arg, struct zep_error *err)
{
    const struct run *r = arg;

    return r->args->lock ? zep_lock_confirm_token(r->args->rundir, r->args->lock, err) : ZEP_OK;
}

static struct zep_ckpt_info ckpt_info(const struct run *r)
{
    return (struct zep_ckpt_info){
        .step = r->result->step,
        .seed = r->job->train.seed,
        .data_digest = r->data_digest,
        .tokens = r->job->train.tokens,
        .token_digest = r->token_digest,
        .document_digest = r->document_digest,
        .context = r->job->data.context,
        .window = r->job->plan.window,
        .compose = zep_compose_find(r->job->plan.compose),
    };
}

/* Rank 0: records and plans tell of the training; a full disk that takes none of them must not stop it. */
static void tell_lost(struct run *r, int rc, const struct zep_error *err)
{
    if (rc < 0 && !r->deaf) {
        zep_log(ZEP_LOG_WARN, "%s: the training goes on, with records missing", err->text);
        r->deaf = 1;
    }
}

static void tell_checkpoint(void *arg, const struct zep_saver_told *told)
{
    struct run *r = arg;
    struct zep_error lost;

    memcpy(r->result->checkpoint, told->name, sizeof r->result->checkpoint);
    if (is_root(r))
        tell_lost(r, zep_metrics_write_checkpoint(r->metrics, told, &lost), &lost);
}

/* Ranks on this rank's machine. */
static int ranks_here(struct run *r, int *n_out, struct zep_error *err)
{
    const char *const *host;
    int rank = zep_comm_rank(r->comm), rc;

    if ((rc = zep_comm_hosts(r->comm, &host, err)) < 0)
        return rc;
    *n_out = 0;
    for (int i = 0; i < zep_comm_size(r->comm); i++)
        *n_out += strcmp(host[i], host[rank]) == 0;
    return ZEP_OK;
}

static int start_saver(struct run *r, struct zep_error *err)
{
    struct zep_ckpt_args base = {
        .rundir = r->args->rundir,
        .info = ckpt_info(r),
        .model = zep_train_model(r->train),
        .optim = zep_train_optim(r->train),
        .keep = (int)r->job->checkpoint.keep,
        .confirm = confirm_lock,
        .arg = r,
    };
    int here = 1, rc;

    if ((rc = ranks_here(r, &here, err)) < 0)
        return rc;
    return zep_saver_new(r->comm, r->job, &base, here, tell_checkpoint, r, &r->saver, err);
}

static int evaluate(struct run *r, struct zep_error *err)
{
    double t0 = zep_clock_now(), loss;
    struct zep_error lost;
    int64_t n_target;
    int rc;

    if (r->eval_tokens == 0)
        return ZEP_OK;
    if ((rc = zep_train_eval(r->train, &loss, &n_target, err)) < 0)
        return rc;
    if (is_root(r))
        tell_lost(r, zep_metrics_write_eval(r->metrics, r->result->step, loss, n_target, zep_clock_now() - t0, &lost), &lost);
    return ZEP_OK;
}

static int save_plans(struct run *r, int64_t step, struct zep_error *err)
{
    const struct zep_plan *plan;
    int rc = ZEP_OK;

    for (int i = 0; rc == ZEP_OK && (plan = zep_train_plan(r->train, i)); i++) {
        struct zep_buf b = ZEP_BUF_INIT;
        char name[64];
        char *path;

        snprintf(name, sizeof name, "plans/step-%" PRId64 ".%d.json", step, i);
        path = zep_fs_join(r->args->rundir, name);
        rc = path ? zep_plan_to_json(plan, &b, err) : zep_error_nomem(err, "plan");
        if (rc == ZEP_OK)
            rc = zep_fs_write_quick(path, b.data, b.len, 0666, err); /* the next step waits: a plan that a power cut takes can be made again */
        zep_buf_free(&b);
        free(path);
    }
    return rc;
}

static int start_training(struct run *r, struct zep_error *err)
{
    struct zep_ckpt_info expect, found = {0};
    int rc;

    rc = zep_kernels_select(&r->kernels, err);
    if ((rc = zep_agree(r->comm, rc, err)) < 0)
        return rc;
    rc = zep_train_new(r->comm, r->job, r->view, r->kernels, r->set, r->heldout, &r->train, err);
    if (rc < 0)
        return rc;
    lap(r, ZEP_STARTUP_MODEL);
    expect = ckpt_info(r);
    zep_comm_set_phase(r->comm, "loading the checkpoint");
    if ((rc = zep_ckpt_load(r->comm, r->args->rundir, &expect, zep_train_model(r->train), zep_train_optim(r->train), &found, r->result->checkpoint, err)) < 0)
        return rc;
    lap(r, ZEP_STARTUP_CHECKPOINT);
    r->resumed = r->result->step = found.step;
    zep_train_set_step(r->train, found.step);
    if ((rc = start_saver(r, err)) < 0)
        return rc;
    if (is_root(r)) {
        struct zep_metrics_start s = {
            .ranks = zep_comm_size(r->comm),
            .nodes = r->view->n_node,
            .devices = r->view->n_dev / r->view->n_node,
            .step = found.step,
            .params = zep_train_model(r->train)->n_weight,
            .capacity = zep_train_capacity(r->train),
            .cut_documents = r->n_cut,
            .kernels = r->kernels->name,
            .gemm = zep_gemm_name(),
            .method = r->job->plan.method,
            .compose = r->job->plan.compose,
            .window = r->job->plan.window,
        };

        memcpy(s.startup_s, r->startup_s, sizeof s.startup_s);
        rc = confirm_lock(r, err);
        if (rc == ZEP_OK)
            rc = zep_metrics_open(r->args->rundir, r->args->attempt, &r->metrics, err);
        if (rc == ZEP_OK)
            rc = zep_metrics_write_start(r->metrics, &s, err);
    }
    return zep_agree(r->comm, rc, err);
}

/* What is due after a step: its record, its plan, an evaluation, a checkpoint. */
static int after_step(struct run *r, const struct zep_step_stats *st, int last, struct zep_error *err)
{
    const struct zep_job *job = r->job;
    int now = last || st->flags.stop, due = now || (job->checkpoint.every > 0 && st->step % job->checkpoint.every == 0);
    struct zep_error lost;
    int rc;

    zep_comm_set_phase(r->comm, "metrics");
    if (is_root(r)) {
        tell_lost(r, zep_metrics_write_step(r->metrics, st, zep_comm_size(r->comm), &lost), &lost);
        if (job->plan.save_every > 0 && st->step % job->plan.save_every == 0)
            tell_lost(r, save_plans(r, st->step, &lost), &lost);
    }
    zep_comm_set_phase(r->comm, "checkpoint");
    if ((rc = zep_saver_after(r->saver, st->step, st->flags.saving, due, now, err)) < 0)
        return rc;
    if (last || (!st->flags.stop && job->train.eval_every > 0 && st->step % job->train.eval_every == 0))
        return evaluate(r, err);
    return ZEP_OK;
}

static int train(struct run *r, struct zep_error *err)
{
    int rc;

    if (r->result->step == 0 && (rc = evaluate(r, err)) < 0)
        return rc;
    while (r->result->step < r->job->train.steps) {
        struct zep_step_flags mine = {zep_stopper_bits(r->args->stopper), zep_saver_busy(r->saver)};
        struct zep_step_stats st;

        if ((rc = zep_train_step(r->train, &mine, &st, err)) < 0)
            return rc;
        r->result->step = st.step;
        if ((rc = after_step(r, &st, st.step == r->job->train.steps, err)) < 0)
            return rc;
        if (st.flags.stop && st.step < r->job->train.steps)
            return zep_error_set(err, ZEP_ESTOPPED, "stopped on request after step %" PRId64 " of %" PRId64, st.step, r->job->train.steps);
    }
    return ZEP_OK;
}

/* What ended the training on all ranks alike takes nothing from a checkpoint that is being written. */
static void finish_saving(struct run *r, int rc, const struct zep_error *err)
{
    struct zep_error own;

    if (rc < 0 && rc != ZEP_ESTOPPED && zep_agreed_rank(err) >= 0 && zep_saver_finish(r->saver, &own) < 0 && is_root(r))
        zep_log(ZEP_LOG_WARN, "%s", own.text);
}

static void release(struct run *r)
{
    zep_saver_free(r->saver);
    zep_train_free(r->train);
    zep_metrics_close(r->metrics);
    zep_dataset_close(r->set);
    zep_dataset_close(r->heldout);
    zep_view_free(r->view);
    zep_topo_free(r->topo);
    zep_job_free(r->job);
}

int zep_run(struct zep_comm *comm, const struct zep_run_args *args, struct zep_run_result *result, struct zep_error *err)
{
    struct run r = {.comm = comm, .args = args, .result = result, .start = zep_clock_now(), .lap = zep_clock_now(), .startup_s = {args->mpi_s}};
    int rc;

    memset(result, 0, sizeof *result);
    zep_comm_set_phase(comm, "start-up");
    if ((rc = load_inputs(&r, err)) < 0)
        goto out;
    zep_comm_set_timeout(comm, r.job->cluster.timeout_s);
    if ((rc = take_places(&r, err)) < 0)
        goto out;
    lap(&r, ZEP_STARTUP_TOPOLOGY);
    if ((rc = open_data(&r, err)) < 0)
        goto out;
    lap(&r, ZEP_STARTUP_DATA);
    if ((rc = start_training(&r, err)) < 0)
        goto out;
    rc = train(&r, err);
    finish_saving(&r, rc, err);
    if (is_root(&r) && (rc == ZEP_OK || rc == ZEP_ESTOPPED))
        zep_metrics_write_end(r.metrics, result->step, rc == ZEP_OK ? "done" : "stopped", zep_clock_now() - r.start, NULL);
out:
    /* on an error that only this rank has, transfers may still be under way into our buffers: the job is about to be aborted, and nothing is freed */
    if (rc == ZEP_OK || rc == ZEP_ESTOPPED || zep_agreed_rank(err) >= 0)
        release(&r);
    return rc;
}
