#include "config.h"
#include "launcher/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/fs.h"
#include "common/log.h"

struct zep_progress_reader {
    char *path;
    int attempt, fd;
    const struct zep_job *job;
    struct zep_buf line;
    double heldout, tokens, time_s, all_time_s;
    int64_t n_step, last_step;
    int started;
    char checkpoint[256];
    double longest_s;   /* step so far */
    int short_grace;    /* that was told */
};

struct zep_progress_reader *zep_progress_open(const char *rundir, int attempt, const struct zep_job *job)
{
    struct zep_progress_reader *p = zep_calloc(1, sizeof *p);

    if (!p || !(p->path = zep_fs_join(rundir, "metrics.jsonl"))) {
        free(p);
        return NULL;
    }
    p->attempt = attempt;
    p->job = job;
    p->fd = -1;
    return p;
}

void zep_progress_close(struct zep_progress_reader *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    zep_progress_end();
    zep_buf_free(&p->line);
    free(p->path);
    free(p);
}

static double num(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static void show_step(struct zep_progress_reader *p, const json_t *j)
{
    int64_t step = json_integer_value(json_object_get(j, "step")), every = p->job->log.every, steps = p->job->train.steps;
    double left, tokens = num(j, "tokens");
    char fill[64] = "";

    if (tokens < 0.75 * (double)p->job->train.tokens) /* a loss of few tokens is a poor witness, and the step counts like the others */
        snprintf(fill, sizeof fill, "  (%.0f of %" PRId64 " tokens)", tokens, p->job->train.tokens);
    p->tokens += tokens;
    p->time_s += num(j, "time_s");
    p->all_time_s += num(j, "time_s");
    p->n_step++;
    left = p->all_time_s / (double)p->n_step * (double)(steps - step);
    zep_progress_line(step % every == 0 || step == steps, "step %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  lr %.2e  %.0f s left%s", step, steps, num(j, "loss"),
                      p->time_s > 0 ? p->tokens / p->time_s : 0.0, num(j, "lr"), left, fill);
    if (step % every == 0)
        p->tokens = p->time_s = 0;
}

static void show_event(const struct zep_progress_reader *p, const char *kind, const json_t *j);

/* A stop that is asked for so long before the end needs a step and its checkpoint: better said when it is first known than when they are lost. */
static void check_grace(struct zep_progress_reader *p, const char *kind, double time_s)
{
    double grace = p->job->cluster.grace_s;

    if (!strcmp(kind, "step"))
        p->longest_s = time_s > p->longest_s ? time_s : p->longest_s;
    if (strcmp(kind, "checkpoint") || p->short_grace || !p->attempt || p->longest_s + time_s <= grace)
        return;
    p->short_grace = 1;
    zep_progress_end();
    zep_log(ZEP_LOG_WARN, "a step and its checkpoint took %.0f s, longer than cluster.grace (%.0f s): a stop would lose them; set cluster.grace to %.0f s or more", p->longest_s + time_s, grace,
            2 * (p->longest_s + time_s));
}

static void show(struct zep_progress_reader *p, const json_t *j)
{
    const char *kind = json_string_value(json_object_get(j, "kind"));

    if (kind && !strcmp(kind, "checkpoint"))
        snprintf(p->checkpoint, sizeof p->checkpoint, "%s", json_string_value(json_object_get(j, "dir")));
    if (!kind || (p->attempt && json_integer_value(json_object_get(j, "attempt")) != p->attempt))
        return;
    p->started = 1;
    check_grace(p, kind, num(j, "time_s"));
    p->last_step = json_integer_value(json_object_get(j, "step"));
    if (!strcmp(kind, "step"))
        show_step(p, j);
    else
        show_event(p, kind, j);
}

/* Where a later attempt begins. */
static void show_resumed(const struct zep_progress_reader *p, int64_t step)
{
    int64_t steps = p->job->train.steps;

    if (step >= steps)
        zep_progress_line(1, "step %" PRId64 " of %" PRId64 " was reached before: there is nothing left to train (--set train.steps=N goes on)", step, steps);
    else if (step)
        zep_progress_line(1, "going on after step %" PRId64 " of %" PRId64, step, steps);
    else
        zep_progress_line(1, "there is no checkpoint to go on from: beginning again at step 0");
}

/* Lines that stay on a terminal. */
static void show_event(const struct zep_progress_reader *p, const char *kind, const json_t *j)
{
    zep_progress_end();
    if (!strcmp(kind, "start"))
        zep_progress_line(1, "%" JSON_INTEGER_FORMAT " ranks on %" JSON_INTEGER_FORMAT " node%s, %.3g million parameters, capacity %" JSON_INTEGER_FORMAT " tokens a device, method %s, kernels %s",
                          json_integer_value(json_object_get(j, "ranks")), json_integer_value(json_object_get(j, "nodes")), json_integer_value(json_object_get(j, "nodes")) == 1 ? "" : "s", num(j, "params") / 1e6, json_integer_value(json_object_get(j, "capacity")),
                          json_string_value(json_object_get(j, "method")), json_string_value(json_object_get(j, "kernels")));
    if (!strcmp(kind, "start") && p->attempt > 1)
        show_resumed(p, json_integer_value(json_object_get(j, "step")));
    else if (!strcmp(kind, "eval"))
        zep_progress_line(1, "step %" JSON_INTEGER_FORMAT "  held-out loss %.4f", json_integer_value(json_object_get(j, "step")), num(j, "loss"));
    else if (!strcmp(kind, "checkpoint"))
        zep_progress_line(1, "step %" JSON_INTEGER_FORMAT "  checkpoint %s", json_integer_value(json_object_get(j, "step")), json_string_value(json_object_get(j, "dir")));
    zep_progress_end();
}

void zep_progress_read(struct zep_progress_reader *p)
{
    char chunk[8192];
    ssize_t n;

    if (p->fd < 0 && (p->fd = open(p->path, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    while ((n = read(p->fd, chunk, sizeof chunk)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            json_t *j;

            if (chunk[i] != '\n') {
                zep_buf_add(&p->line, &chunk[i], 1);
                continue;
            }
            j = p->line.data ? json_loadb(p->line.data, p->line.len, 0, NULL) : NULL;
            if (j)
                show(p, j);
            json_decref(j);
            p->line.len = 0;
        }
}

void zep_progress_skip(struct zep_progress_reader *p)
{
    if (p->fd < 0 && (p->fd = open(p->path, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    lseek(p->fd, 0, SEEK_END); /* the half of a line that may follow is no JSON, and passed over */
}

int zep_progress_started(const struct zep_progress_reader *p)
{
    return p->started;
}

int64_t zep_progress_last(const struct zep_progress_reader *p, char *checkpoint, size_t size)
{
    snprintf(checkpoint, size, "%s", p->checkpoint);
    return p->last_step;
}
