#include "config.h"
#include "launcher/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "launcher/runfolder.h"

static double num(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static int64_t whole(const json_t *j, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(j, key));
}

static void text_of(const json_t *j, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(j, key));

    snprintf(out, size, "%s", s ? s : "");
}

static int more(void **p, int n, size_t size)
{
    void *q;

    if (n & (n - 1)) /* grows at powers of two */
        return 1;
    q = zep_reallocarray(*p, n ? 2 * (size_t)n : 1, size);
    if (q)
        *p = q;
    return q != NULL;
}

/* Clocks of two machines may differ: a launch of negative time took none that could be told. */
static void take_startup(struct zep_report *r, const json_t *j)
{
    const json_t *p = json_object_get(j, "startup_s");
    struct zep_report_startup *s = &r->startup;
    struct zep_runinfo info;
    double ranks;

    *s = (struct zep_report_startup){-1, -1, -1, -1, -1, -1, -1};
    if (!p)
        return;
    *s = (struct zep_report_startup){-1, num(p, "mpi"), num(p, "topology"), num(p, "data"), num(p, "model"), num(p, "checkpoint"), -1};
    ranks = s->mpi + s->topology + s->data + s->model + s->checkpoint;
    if (zep_runfolder_info(r->rundir, &info, NULL) == ZEP_OK && info.n_attempt == r->attempt) {
        s->launch = num(j, "time") - ranks - info.time;
        s->launch = s->launch > 0 ? s->launch : 0;
    }
}

static void take_start(struct zep_report *r, const json_t *j)
{
    r->attempt = (int)whole(j, "attempt");
    r->ranks = (int)whole(j, "ranks");
    r->nodes = (int)whole(j, "nodes");
    r->params = whole(j, "params");
    r->capacity = whole(j, "capacity");
    r->cut_documents = whole(j, "cut_documents");
    take_startup(r, j);
    text_of(j, "method", r->method, sizeof r->method);
    text_of(j, "compose", r->compose, sizeof r->compose);
    r->window = whole(j, "window");
    text_of(j, "kernels", r->kernels, sizeof r->kernels);
    text_of(j, "gemm", r->gemm, sizeof r->gemm);
    if (r->ranks != r->n_rank) { /* another layout: its balance is another matter */
        free(r->rank);
        r->n_rank_step = 0;
        r->n_rank = r->ranks > 0 && r->ranks < (1 << 20) ? r->ranks : 0;
        r->rank = zep_calloc((size_t)r->n_rank + 1, sizeof *r->rank);
        if (!r->rank)
            r->n_rank = 0;
    }
}

static void take_ranks(struct zep_report *r, const json_t *j)
{
    static const char *const keys[] = {"rank_attn_tok", "rank_lin_tok", "rank_pairs", "rank_busy_s"};

    for (int i = 0; i < r->n_rank; i++) {
        double *to[] = {&r->rank[i].attn_tok, &r->rank[i].lin_tok, &r->rank[i].pairs, &r->rank[i].busy_s};

        for (int k = 0; k < 4; k++)
            *to[k] += json_number_value(json_array_get(json_object_get(j, keys[k]), (size_t)i));
    }
    r->n_rank_step++;
}

static int take_step(struct zep_report *r, const json_t *j)
{
    static const char *const phases[] = {"plan", "forward", "backward", "reduce", "optimizer"};
    static const char *const queues[] = {"inter", "intra", "local"};
    struct zep_report_step s = {.step = whole(j, "step"), .tokens = whole(j, "tokens"), .targets = whole(j, "targets"), .micro = (int)whole(j, "micro"), .loss = num(j, "loss"), .lr = num(j, "lr"),
                                .grad_norm = num(j, "grad_norm"), .time_s = num(j, "time_s"), .remap_s = num(j, "remap_s"), .flops = num(j, "flops"), .attn_flops = num(j, "attn_flops"),
                                .net_bytes = num(j, "net_bytes"), .plan_work_s = num(j, "plan_work_s"), .plan_wait_s = num(j, "plan_wait_s"), .plan_ready = (int)whole(j, "plan_ready")};

    for (int i = 0; i < 5; i++)
        s.phase_s[i] = num(json_object_get(j, "phase_s"), phases[i]);
    for (int i = 0; i < 3; i++) {
        s.attn_s[i] = num(json_object_get(j, "attn_s"), queues[i]);
        s.zone_tok[i] = (int64_t)json_integer_value(json_array_get(json_object_get(j, "zone_tok"), (size_t)i));
        s.zone_seq[i] = (int64_t)json_integer_value(json_array_get(json_object_get(j, "zone_seq"), (size_t)i));
    }
    s.wait_s[0] = num(json_object_get(j, "wait_s"), "world");
    s.wait_s[1] = num(json_object_get(j, "wait_s"), "node");
    while (r->n_step && r->step[r->n_step - 1].step >= s.step) /* done again by a later attempt */
        r->n_step--;
    if (!more((void **)&r->step, r->n_step, sizeof *r->step))
        return 0;
    r->step[r->n_step++] = s;
    if (r->startup.mpi >= 0 && r->startup.plan < 0)
        r->startup.plan = s.plan_work_s;
    take_ranks(r, j);
    return 1;
}

static int take_eval(struct zep_report *r, const json_t *j)
{
    struct zep_report_eval e = {whole(j, "step"), whole(j, "targets"), num(j, "loss")};

    while (r->n_eval && r->eval[r->n_eval - 1].step >= e.step)
        r->n_eval--;
    if (!more((void **)&r->eval, r->n_eval, sizeof *r->eval))
        return 0;
    r->eval[r->n_eval++] = e;
    return 1;
}

/* Before stall_s was recorded, the training stood still all the time. */
static void take_checkpoint(struct zep_report *r, const json_t *j)
{
    r->ckpts.n++;
    r->ckpts.bytes += num(j, "bytes");
    r->ckpts.time_s += num(j, "time_s");
    r->ckpts.stall_s += num(j, json_object_get(j, "stall_s") ? "stall_s" : "time_s");
}

/* A line that is torn (an attempt was killed while it wrote) is passed over. */
static int take_line(struct zep_report *r, const char *line, size_t len)
{
    json_t *j = json_loadb(line, len, 0, NULL);
    const char *kind = json_string_value(json_object_get(j, "kind"));
    int ok = 1;

    if (!kind)
        r->n_torn += len > 0;
    else if (!strcmp(kind, "start"))
        take_start(r, j);
    else if (!strcmp(kind, "step"))
        ok = take_step(r, j);
    else if (!strcmp(kind, "eval"))
        ok = take_eval(r, j);
    else if (!strcmp(kind, "checkpoint"))
        take_checkpoint(r, j);
    json_decref(j);
    return ok;
}

static int read_metrics(struct zep_report *r, struct zep_error *err)
{
    char *path = zep_fs_join(r->rundir, "metrics.jsonl"), *text = NULL;
    size_t len = 0, at = 0;
    int rc = path ? ZEP_OK : zep_error_nomem(err, "report");

    if (rc == ZEP_OK && zep_fs_exists(path))
        rc = zep_fs_read(path, (size_t)1 << 34, &text, &len, err);
    while (rc == ZEP_OK && at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;

        if (!take_line(r, text + at, n))
            rc = zep_error_nomem(err, "report");
        at += n + 1;
    }
    free(text);
    free(path);
    return rc;
}

/* The marks that `zeppelin data` left beside the held-out text. */
static void read_marks(struct zep_report *r)
{
    char *dir = strdup(r->job->data.heldout), *path = NULL, *text = NULL, *slash = dir ? strrchr(dir, '/') : NULL;
    size_t len;

    if (slash) {
        *slash = '\0';
        path = zep_fs_join(dir, "dataset.json");
    }
    if (path && zep_fs_exists(path) && zep_fs_read(path, 1 << 24, &text, &len, NULL) == ZEP_OK) {
        json_t *j = json_loadb(text, len, 0, NULL), *n = json_object_get(j, "heldout_nats_per_token");

        r->unigram = num(n, "unigram");
        r->bigram = num(n, "bigram");
        json_decref(j);
    }
    free(text);
    free(path);
    free(dir);
}

int zep_report_load(const char *rundir, struct zep_report **out, struct zep_error *err)
{
    struct zep_report *r = zep_calloc(1, sizeof *r);
    int rc;

    if (!r || !(r->rundir = strdup(rundir))) {
        free(r);
        return zep_error_nomem(err, "report");
    }
    if ((rc = zep_runfolder_load_job(rundir, NULL, 0, &r->job, err)) < 0 || (rc = read_metrics(r, err)) < 0) {
        zep_report_free(r);
        return rc;
    }
    r->have_outcome = zep_outcome_read(rundir, &r->outcome, NULL) == ZEP_OK;
    read_marks(r);
    *out = r;
    return ZEP_OK;
}

void zep_report_free(struct zep_report *r)
{
    if (!r)
        return;
    free(r->rundir);
    zep_job_free(r->job);
    free(r->step);
    free(r->eval);
    free(r->rank);
    free(r);
}

double zep_report_hidden(const struct zep_report_sums *s)
{
    return s->plan_work_s > s->plan_wait_s ? 1 - s->plan_wait_s / s->plan_work_s : 0;
}

void zep_report_sum(const struct zep_report *r, struct zep_report_sums *s)
{
    *s = (struct zep_report_sums){0};
    for (int i = 0; i < r->n_step; i++) {
        const struct zep_report_step *st = &r->step[i];

        s->tokens += (double)st->tokens;
        s->targets += (double)st->targets;
        s->time_s += st->time_s;
        s->flops += st->flops;
        s->attn_flops += st->attn_flops;
        s->net_bytes += st->net_bytes;
        s->remap_s += st->remap_s;
        s->micro += st->micro;
        s->plan_work_s += st->plan_work_s;
        s->plan_wait_s += st->plan_wait_s;
        s->planned_ahead += st->plan_ready > 0;
        for (int k = 0; k < 5; k++)
            s->phase_s[k] += st->phase_s[k];
        for (int k = 0; k < 3; k++) {
            s->attn_s[k] += st->attn_s[k];
            s->zone_tok[k] += st->zone_tok[k];
            s->zone_seq[k] += st->zone_seq[k];
        }
        for (int k = 0; k < 2; k++)
            s->wait_s[k] += st->wait_s[k];
    }
}
