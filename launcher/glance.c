#include "config.h"
#include "launcher/glance.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/fs.h"
#include "launcher/runfolder.h"

#define TAIL ((off_t)64 << 10)
#define LONG_TAIL ((off_t)8 << 20) /* records of many ranks are long */
#define MANY_STEPS 20

struct recent { /* a ring of the last steps of the attempt in hand */
    int64_t step[MANY_STEPS];
    double time_s[MANY_STEPS], tokens[MANY_STEPS];
    int n;
};

static double num(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static void take_record(struct zep_glance *g, struct recent *r, const json_t *j)
{
    const char *kind = json_string_value(json_object_get(j, "kind"));
    int64_t step = json_integer_value(json_object_get(j, "step"));
    int attempt = (int)json_integer_value(json_object_get(j, "attempt"));

    if (!kind)
        return;
    if (attempt > g->attempt) { /* a later attempt may begin at an earlier step */
        g->attempt = attempt;
        g->step = step;
        g->loss = 0;
        r->n = 0;
    }
    if (!strcmp(kind, "start")) {
        g->ranks = (int)json_integer_value(json_object_get(j, "ranks"));
        g->nodes = (int)json_integer_value(json_object_get(j, "nodes"));
    } else if (!strcmp(kind, "step")) {
        int k = r->n++ % MANY_STEPS;

        r->step[k] = step;
        r->time_s[k] = num(j, "time_s");
        r->tokens[k] = num(j, "tokens");
        g->step = step;
        g->loss = num(j, "loss");
    } else if (!strcmp(kind, "checkpoint")) {
        g->save_s = num(j, "time_s");
    }
}

static char *read_tail(int fd, off_t size, off_t max, size_t *len_out)
{
    off_t from = size > max ? size - max : 0;
    char *text = zep_calloc((size_t)(size - from) + 1, 1), *line;
    ssize_t n = text ? pread(fd, text, (size_t)(size - from), from) : -1;

    if (n < 0) {
        free(text);
        return NULL;
    }
    *len_out = (size_t)n;
    if (from > 0 && (line = memchr(text, '\n', (size_t)n))) { /* the first line may be half */
        *len_out = (size_t)(text + n - line - 1);
        memmove(text, line + 1, *len_out);
    }
    return text;
}

static void take_text(struct zep_glance *g, struct recent *r, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        json_t *j = json_loadb(text + at, n, 0, NULL);

        if (j)
            take_record(g, r, j);
        json_decref(j);
        at += n + 1;
    }
}

static void read_metrics(struct zep_glance *g, const char *rundir)
{
    char *path = zep_fs_join(rundir, "metrics.jsonl"), *text;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct recent r = {.n = 0};
    struct stat st;
    size_t len = 0;
    double time_s = 0, tokens = 0;
    int n;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        g->last = (double)st.st_mtime;
        for (off_t max = TAIL; max <= LONG_TAIL && r.n == 0; max = max < LONG_TAIL ? LONG_TAIL : LONG_TAIL + 1) {
            g->attempt = 0;
            if ((text = read_tail(fd, st.st_size, max, &len)))
                take_text(g, &r, text, len);
            free(text);
            if (st.st_size <= max)
                break;
        }
    }
    n = r.n < MANY_STEPS ? r.n : MANY_STEPS;
    for (int i = 0; i < n; i++) {
        time_s += r.time_s[i];
        tokens += r.tokens[i];
    }
    if (n && time_s > 0) {
        g->step_s = time_s / n;
        g->tokens_s = tokens / time_s;
    }
    if (fd >= 0)
        close(fd);
    free(path);
}

static void find_checkpoint(struct zep_glance *g, const char *rundir)
{
    char path[4096];
    struct stat st;

    g->checkpoint_step = zep_runfolder_checkpoint(rundir, g->checkpoint, sizeof g->checkpoint);
    if (g->checkpoint_step >= 0 && snprintf(path, sizeof path, "%s/checkpoints/%s/MANIFEST", rundir, g->checkpoint) < (int)sizeof path && stat(path, &st) == 0)
        g->checkpoint_time = (double)st.st_mtime;
}

int zep_glance(const char *rundir, struct zep_glance *out, struct zep_error *err)
{
    struct zep_glance g = {0};
    struct zep_runinfo info;
    struct zep_job *job;
    int rc;

    if ((rc = zep_runfolder_info(rundir, &info, err)) < 0 || (rc = zep_runfolder_load_job(rundir, NULL, 0, &job, err)) < 0)
        return rc;
    g.steps = job->train.steps;
    g.every = job->checkpoint.every;
    zep_job_free(job);
    read_metrics(&g, rundir);
    find_checkpoint(&g, rundir);
    g.have_outcome = info.n_attempt > 0 && zep_outcome_read(rundir, &g.outcome, NULL) == ZEP_OK && g.outcome.attempt >= info.n_attempt;
    *out = g;
    return ZEP_OK;
}

int64_t zep_glance_next_checkpoint(const struct zep_glance *g)
{
    int64_t next = g->every ? (g->step / g->every + 1) * g->every : g->steps;

    return g->step >= g->steps ? -1 : next < g->steps ? next : g->steps;
}

double zep_glance_left_s(const struct zep_glance *g, int64_t until_step)
{
    return g->step_s > 0 && until_step >= g->step ? (double)(until_step - g->step) * g->step_s : -1;
}
