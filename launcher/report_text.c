#include "config.h"
#include "launcher/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "planner/plan.h"

static const char *const phase_text[] = {"planning and batch", "forward", "backward", "gradient exchange", "optimizer and weights"};

static double share(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

static void put_head(const struct zep_report *r, struct zep_buf *b)
{
    int64_t done = r->n_step ? r->step[r->n_step - 1].step : 0;
    const char *id = strrchr(r->rundir, '/') ? strrchr(r->rundir, '/') + 1 : r->rundir;

    zep_buf_printf(b, "run %s: step %" PRId64 " of %" PRId64 ", ", id, done, r->job->train.steps);
    if (!r->have_outcome)
        zep_buf_puts(b, "no outcome yet\n");
    else if (r->outcome.status == ZEP_OK)
        zep_buf_puts(b, "done\n");
    else
        zep_buf_printf(b, "%s%s\n", r->outcome.status == ZEP_ESTOPPED ? "" : "failed: ", r->outcome.cause);
    if (r->ranks)
        zep_buf_printf(b, "%d ranks on %d node%s, %.3g million parameters, capacity %" PRId64 " tokens a device, method %s, kernels %s with %s%s\n", r->ranks, r->nodes, r->nodes == 1 ? "" : "s",
                       (double)r->params / 1e6, r->capacity, r->method, r->kernels, r->gemm, r->attempt > 1 ? ", resumed" : "");
    if (r->window > 1)
        zep_buf_printf(b, "documents are dealt out in windows of %" PRId64 " steps (plan.compose: %s)\n", r->window, r->compose);
}

static void put_startup(const struct zep_report *r, struct zep_buf *b)
{
    const struct zep_report_startup *s = &r->startup;

    if (s->mpi < 0)
        return;
    zep_buf_puts(b, "start-up  ");
    if (s->launch >= 0)
        zep_buf_printf(b, "launch %.2f s, ", s->launch);
    zep_buf_printf(b, "MPI %.2f s, topology %.2f s, data %.2f s, model %.2f s, checkpoint %.2f s", s->mpi, s->topology, s->data, s->model, s->checkpoint);
    if (s->plan >= 0)
        zep_buf_printf(b, ", first plan %.4f s", s->plan);
    zep_buf_puts(b, "\n");
}

static void put_losses(const struct zep_report *r, const struct zep_report_sums *s, struct zep_buf *b)
{
    if (r->n_step) {
        const struct zep_report_step *first = &r->step[0], *last = &r->step[r->n_step - 1];

        zep_buf_printf(b, "\ntraining loss  %.4f at step %" PRId64 ", %.4f at step %" PRId64 " (nats a token)\n", first->loss, first->step, last->loss, last->step);
    }
    if (r->n_eval) {
        const struct zep_report_eval *first = &r->eval[0], *last = &r->eval[r->n_eval - 1];

        if (last->step > first->step)
            zep_buf_printf(b, "held-out loss  %.4f at step %" PRId64 ", %.4f at step %" PRId64 " over %" PRId64 " targets\n", first->loss, first->step, last->loss, last->step, last->targets);
        else
            zep_buf_printf(b, "held-out loss  %.4f at step %" PRId64 " over %" PRId64 " targets%s\n", last->loss, last->step, last->targets, last->step ? "" : ", not evaluated since");
        if (r->bigram > 0 && !last->step)
            zep_buf_printf(b, "to compare     unigram %.4f, bigram %.4f (fitted on the training text, scored on the held-out text)\n", r->unigram, r->bigram);
        else if (r->bigram > 0)
            zep_buf_printf(b, "to compare     unigram %.4f, bigram %.4f (fitted on the training text, scored on the held-out text): %s\n", r->unigram, r->bigram,
                           last->loss < r->bigram ? "the model is below both" : last->loss < r->unigram ? "the model is below the unigram only" : "the model is above both");
    }
    if (r->n_step)
        zep_buf_printf(b, "\n%.0f tokens in %d steps (%" PRId64 " micro-steps), %.0f tokens/s, %.3g TFLOP, attention's share %.1f%%, %.4g MB between nodes\n", s->tokens, r->n_step, s->micro,
                       s->tokens / (s->time_s > 0 ? s->time_s : 1), s->flops / 1e12, share(s->attn_flops, s->flops), s->net_bytes / 1e6);
    if (r->n_step && s->tokens < 0.9 * (double)r->job->train.tokens * r->n_step)
        zep_buf_printf(b, "a step held %.0f%% of train.tokens (%" PRId64 ") on average: it ends at the first document that does not fit\n", share(s->tokens, (double)r->job->train.tokens * r->n_step),
                       r->job->train.tokens);
    if (r->cut_documents)
        zep_buf_printf(b, "%" PRId64 " documents longer than the context of %" PRId64 " tokens were cut\n", r->cut_documents, r->job->data.context);
}

static void put_zones(const struct zep_report_sums *s, struct zep_buf *b)
{
    zep_buf_printf(b, "\n%-12s %10s %12s %8s %16s\n", "zone", "sequences", "tokens", "share", "attention s/rank");
    for (int z = 0; z < 3; z++)
        zep_buf_printf(b, "%-12s %10" PRId64 " %12" PRId64 " %7.1f%% %16.2f\n", zep_zone_text[ZEP_ZONE_LOCAL + z], s->zone_seq[z], s->zone_tok[z], share((double)s->zone_tok[z], s->tokens), s->attn_s[2 - z]);
}

static void put_phases(const struct zep_report *r, const struct zep_report_sums *s, struct zep_buf *b)
{
    double other = s->time_s;

    zep_buf_printf(b, "\n%-24s %10s %8s\n", "phase (mean of ranks)", "seconds", "share");
    for (int k = 0; k < 5; k++) {
        zep_buf_printf(b, "%-24s %10.2f %7.1f%%\n", phase_text[k], s->phase_s[k], share(s->phase_s[k], s->time_s));
        other -= s->phase_s[k];
    }
    zep_buf_printf(b, "%-24s %10.2f %7.1f%%\n", "other", other > 0 ? other : 0, share(other > 0 ? other : 0, s->time_s));
    zep_buf_printf(b, "in forward and backward: attention %.2f, waiting for transfers %.2f between nodes and %.2f inside, remapping %.2f\n", s->attn_s[0] + s->attn_s[1] + s->attn_s[2], s->wait_s[0],
                   s->wait_s[1], s->remap_s);
    if (s->plan_work_s > 0)
        zep_buf_printf(b, "plans took %.3f s a rank to make, %.1f%% of it while the step before ran (%d of %d steps were planned before they began)\n", s->plan_work_s,
                       100 * zep_report_hidden(s), s->planned_ahead, r->n_step);
}

static void put_checkpoints(const struct zep_report *r, struct zep_buf *b)
{
    const struct zep_report_ckpts *c = &r->ckpts;

    if (c->n)
        zep_buf_printf(b, "\n%d checkpoints, %.4g MB written in %.2f s; the training stood still for %.2f s of that\n", c->n, c->bytes / 1e6, c->time_s, c->stall_s);
}

static void put_ranks(const struct zep_report *r, struct zep_buf *b)
{
    double max[4] = {0}, mean[4] = {0}, n = r->n_rank_step;

    zep_buf_printf(b, "\n%-5s %16s %14s %14s %10s\n", "rank", "attention tokens", "linear tokens", "pairs", "busy s");
    for (int i = 0; i < r->n_rank; i++) {
        const struct zep_report_rank *k = &r->rank[i];
        double v[4] = {k->attn_tok / n, k->lin_tok / n, k->pairs / n, k->busy_s / n};

        for (int j = 0; j < 4; j++) {
            mean[j] += v[j] / r->n_rank;
            max[j] = v[j] > max[j] ? v[j] : max[j];
        }
        if (i < 64)
            zep_buf_printf(b, "%-5d %16.1f %14.1f %14.4g %10.4f\n", i, v[0], v[1], v[2], v[3]);
    }
    if (r->n_rank > 64)
        zep_buf_printf(b, "... %d more ranks\n", r->n_rank - 64);
    zep_buf_printf(b, "%-5s", "max/mean");
    for (int j = 0; j < 4; j++)
        zep_buf_printf(b, j == 0 ? " %13.3f" : j == 3 ? " %10.3f" : " %14.3f", mean[j] > 0 ? max[j] / mean[j] : 0);
    zep_buf_puts(b, "   (a step, on average)\n");
}

static void put_places(const struct zep_report *r, struct zep_buf *b)
{
    zep_buf_printf(b, "\nrun folder  %s\n", r->rundir);
    if (r->have_outcome && *r->outcome.checkpoint)
        zep_buf_printf(b, "checkpoint  %s/checkpoints/%s\n", r->rundir, r->outcome.checkpoint);
    if (r->n_step)
        zep_buf_printf(b, "pictures    %s/report/loss.svg, %s/report/ranks.svg\n", r->rundir, r->rundir);
    if (r->n_torn)
        zep_buf_printf(b, "%" PRId64 " lines of metrics.jsonl could not be read and were passed over\n", r->n_torn);
}

int zep_report_text(const struct zep_report *r, struct zep_buf *b, struct zep_error *err)
{
    struct zep_report_sums s;

    zep_report_sum(r, &s);
    put_head(r, b);
    put_startup(r, b);
    put_losses(r, &s, b);
    if (r->n_step) {
        put_zones(&s, b);
        put_phases(r, &s, b);
    }
    put_checkpoints(r, b);
    if (r->n_rank && r->n_rank_step)
        put_ranks(r, b);
    put_places(r, b);
    return zep_buf_ok(b, err);
}

static int write_one(const struct zep_report *r, const char *name, int (*make)(const struct zep_report *, struct zep_buf *, struct zep_error *), struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *dir = zep_fs_join(r->rundir, "report"), *path = dir ? zep_fs_join(dir, name) : NULL;
    int rc = path ? zep_fs_mkdir_p(dir, err) : zep_error_nomem(err, "report");

    if (rc == ZEP_OK)
        rc = make(r, &b, err);
    if (rc == ZEP_OK)
        rc = zep_fs_write_atomic(path, b.data, b.len, 0666, err);
    zep_buf_free(&b);
    free(path);
    free(dir);
    return rc;
}

int zep_report_write(const struct zep_report *r, struct zep_error *err)
{
    int rc;

    if ((rc = write_one(r, "report.txt", zep_report_text, err)) < 0 || (rc = write_one(r, "report.json", zep_report_json, err)) < 0)
        return rc;
    if (!r->n_step)
        return ZEP_OK;
    if ((rc = write_one(r, "loss.svg", zep_report_loss_svg, err)) < 0)
        return rc;
    return write_one(r, "ranks.svg", zep_report_ranks_svg, err);
}
