#include "config.h"
#include "launcher/status.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

char *zep_format_span(double s, char buf[40])
{
    int64_t n = s > 0 ? (int64_t)(s + 0.5) : 0;

    if (n < 120)
        snprintf(buf, 40, "%" PRId64 " s", n);
    else if (n < 7200)
        snprintf(buf, 40, "%" PRId64 " min", (n + 30) / 60);
    else if (n < 172800)
        snprintf(buf, 40, "%" PRId64 " h %" PRId64 " min", n / 3600, n / 60 % 60);
    else
        snprintf(buf, 40, "%" PRId64 " d %" PRId64 " h", n / 86400, n / 3600 % 24);
    return buf;
}

/* "18:20:40", with the date where it is another day's than now's. */
static char *clock_text(double t, double now, char buf[40])
{
    time_t a = (time_t)t, b = (time_t)now;
    struct tm tm, today;

    localtime_r(&a, &tm);
    localtime_r(&b, &today);
    strftime(buf, 40, tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &tm);
    return buf;
}

int zep_status_lives(const struct zep_run_status *s)
{
    return s->live.life == ZEP_LIFE_WAITING || s->live.life == ZEP_LIFE_RUNNING || s->live.life == ZEP_LIFE_ENDING;
}

static const char *outcome_word(int status)
{
    switch (status) {
    case ZEP_OK:
        return "done";
    case ZEP_ESTOPPED:
        return "stopped";
    case ZEP_EPEER:
        return "lost";
    case ZEP_EREFUSED:
        return "refused";
    default:
        return "failed";
    }
}

const char *zep_status_word(const struct zep_run_status *s)
{
    if (s->live.life == ZEP_LIFE_WAITING)
        return "waiting";
    if (s->live.life == ZEP_LIFE_RUNNING)
        return "running";
    if (s->live.life == ZEP_LIFE_ENDING)
        return "ending";
    if (s->seen && s->glance.have_outcome && (s->live.life != ZEP_LIFE_UNKNOWN || s->glance.outcome.status == ZEP_OK))
        return outcome_word(s->glance.outcome.status);
    if (s->live.life != ZEP_LIFE_ENDED)
        return "unknown";
    if (s->live.exit_status == ZEP_EXIT_CANCELLED)
        return "cancelled";
    if (s->live.exit_status == zep_exit_status(ZEP_ESTOPPED))
        return "stopped";
    if (s->live.exit_status == zep_exit_status(ZEP_EPEER))
        return "lost";
    if (s->live.exit_status == 0)
        return "done";
    return s->run->info.n_attempt || s->live.exit_status > 0 ? "failed" : "new";
}

/* --- one run --- */

static void put_where(const struct zep_run_status *s, struct zep_buf *b)
{
    if (*s->live.where)
        zep_buf_printf(b, " on %s", s->live.where);
}

static void put_state(const struct zep_run_status *s, struct zep_buf *b)
{
    const struct zep_live *l = &s->live;
    const char *word = zep_status_word(s);
    char at[40], span[40];

    if (l->life == ZEP_LIFE_WAITING) {
        zep_buf_printf(b, "waits: %s", l->why);
        if (l->start > s->now)
            zep_buf_printf(b, "; it may begin at %s, in %s", clock_text(l->start, s->now, at), zep_format_span(l->start - s->now, span));
    } else if (l->life == ZEP_LIFE_RUNNING || l->life == ZEP_LIFE_ENDING) {
        zep_buf_puts(b, l->life == ZEP_LIFE_ENDING ? "is ending" : "runs");
        put_where(s, b);
        if (l->start > 0)
            zep_buf_printf(b, " since %s (%s)", clock_text(l->start, s->now, at), zep_format_span(s->now - l->start, span));
        if (s->run->info.n_attempt > 1)
            zep_buf_printf(b, ", attempt %d", s->run->info.n_attempt);
        if (*l->why)
            zep_buf_printf(b, "; %s", l->why);
        if (s->seen && l->life == ZEP_LIFE_RUNNING && s->glance.attempt < s->run->info.n_attempt)
            zep_buf_puts(b, "; the ranks are starting");
        else if (s->seen && l->life == ZEP_LIFE_RUNNING && s->glance.step_s > 0 && s->now - s->glance.last > fmax(60.0, 20 * s->glance.step_s))
            zep_buf_printf(b, "; nothing new was heard for %s", zep_format_span(s->now - s->glance.last, span));
    } else if (s->seen && s->glance.have_outcome) {
        const struct zep_outcome *o = &s->glance.outcome;

        zep_buf_puts(b, word);
        if (o->status != ZEP_OK)
            zep_buf_printf(b, ": %s", o->cause);
        if (o->status != ZEP_OK && o->status != ZEP_ESTOPPED && *o->phase)
            zep_buf_printf(b, " (in phase %s)", o->phase);
        zep_buf_printf(b, ", exit status %d", zep_exit_status(o->status));
        if (l->life == ZEP_LIFE_UNKNOWN)
            zep_buf_printf(b, "; whether it goes on is not known: %s", l->why);
    } else {
        zep_buf_printf(b, "%s%s%s", word, *l->why ? ": " : "", l->why);
    }
}

static void put_progress(const struct zep_run_status *s, struct zep_buf *b)
{
    const struct zep_glance *g = &s->glance;

    if (!s->seen || !g->attempt)
        return;
    zep_buf_printf(b, "\n  progress    step %" PRId64 " of %" PRId64, g->step, g->steps);
    if (g->loss > 0)
        zep_buf_printf(b, ", loss %.4f", g->loss);
    if (g->tokens_s > 0)
        zep_buf_printf(b, ", %.0f tokens/s", g->tokens_s);
    if (g->ranks)
        zep_buf_printf(b, ", %d ranks on %d node%s", g->ranks, g->nodes, g->nodes == 1 ? "" : "s");
}

static void put_checkpoint(const struct zep_run_status *s, struct zep_buf *b)
{
    const struct zep_glance *g = &s->glance;
    int64_t next = zep_glance_next_checkpoint(g);
    double left = zep_glance_left_s(g, next) - (s->now - g->last);
    char span[40];

    if (!s->seen || (g->checkpoint_step < 0 && (!g->attempt || s->live.life != ZEP_LIFE_RUNNING)))
        return;
    zep_buf_puts(b, "\n  checkpoint  ");
    if (g->checkpoint_step >= 0)
        zep_buf_printf(b, "%s, %s ago", g->checkpoint, zep_format_span(s->now - g->checkpoint_time, span));
    else
        zep_buf_puts(b, "none yet");
    if (s->live.life == ZEP_LIFE_RUNNING && next >= 0) {
        zep_buf_printf(b, "; the next at step %" PRId64, next);
        if (g->step_s > 0 && g->attempt >= s->run->info.n_attempt)
            zep_buf_printf(b, ", in about %s", zep_format_span(left, span));
    }
}

static void put_end(const struct zep_run_status *s, struct zep_buf *b)
{
    const struct zep_glance *g = &s->glance;
    double left = zep_glance_left_s(g, g->steps), at = g->last + left;
    char clock[40], span[40];

    if (s->live.life != ZEP_LIFE_RUNNING || (!(s->live.end > 0) && !(s->seen && left >= 0)))
        return;
    zep_buf_puts(b, "\n  end         ");
    if (s->seen && left >= 0)
        zep_buf_printf(b, "about %s, in %s", clock_text(at, s->now, clock), zep_format_span(at - s->now, span));
    if (s->live.end > 0)
        zep_buf_printf(b, "%sits time is over at %s%s", s->seen && left >= 0 ? "; " : "", clock_text(s->live.end, s->now, clock),
                       s->seen && left >= 0 && at > s->live.end ? ", before that: it stops then with a checkpoint, and goes back into the queue" : "");
}

int zep_status_text(const struct zep_run_status *s, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_run *r = s->run;

    zep_buf_printf(b, "%s\n  state       ", r->dir ? r->info.id : r->word);
    put_state(s, b);
    put_progress(s, b);
    put_checkpoint(s, b);
    put_end(s, b);
    if (*s->live.job)
        zep_buf_printf(b, "\n  job         %s%s%s%s%s", s->live.job, *r->cluster ? " on " : "", r->cluster, *s->live.word ? ", " : "", s->live.word);
    if (*s->live.job && r->n_job > 1)
        zep_buf_printf(b, ", of %d jobs", r->n_job);
    if (!r->dir && *s->live.user)
        zep_buf_printf(b, "; of user %s, and no run folder of it can be seen here", s->live.user);
    if (r->dir)
        zep_buf_printf(b, "\n  folder      %s", r->dir);
    zep_buf_puts(b, "\n");
    return zep_buf_ok(b, err);
}

/* --- many --- */

#define N_COLUMN 7

static void row_of(const struct zep_run_status *s, char cell[N_COLUMN][96])
{
    const struct zep_glance *g = &s->glance;

    snprintf(cell[0], 96, "%.95s", s->run->dir ? s->run->info.id : s->run->word);
    snprintf(cell[1], 96, "%.95s", *s->live.job ? s->live.job : "-");
    snprintf(cell[2], 96, "%s", zep_status_word(s));
    if (s->seen && g->attempt) {
        snprintf(cell[3], 96, "%" PRId64 "/%" PRId64, g->step, g->steps);
        snprintf(cell[4], 96, g->loss > 0 ? "%.4f" : "-", g->loss);
        snprintf(cell[5], 96, g->tokens_s > 0 ? "%.0f" : "-", g->tokens_s);
    } else {
        snprintf(cell[3], 96, s->seen ? "0/%" PRId64 : "-", g->steps);
        snprintf(cell[4], 96, "-");
        snprintf(cell[5], 96, "-");
    }
    if (s->live.life == ZEP_LIFE_RUNNING || s->live.life == ZEP_LIFE_ENDING)
        snprintf(cell[6], 96, "%.95s", s->live.where);
    else if (!zep_status_lives(s) && s->seen && g->have_outcome && g->outcome.status != ZEP_OK)
        snprintf(cell[6], 96, "%.*s", (int)strcspn(g->outcome.cause, "\n") < 95 ? (int)strcspn(g->outcome.cause, "\n") : 95, g->outcome.cause);
    else
        snprintf(cell[6], 96, "%.95s", s->live.why);
}

int zep_status_table(const struct zep_run_status *s, int n, struct zep_buf *b, struct zep_error *err)
{
    static const char *const head[N_COLUMN] = {"RUN", "JOB", "STATE", "STEP", "LOSS", "TOKENS/S", "WHERE, OR WHY"};
    char cell[N_COLUMN][96];
    size_t width[N_COLUMN];

    for (int c = 0; c < N_COLUMN; c++)
        width[c] = strlen(head[c]);
    for (int i = 0; i < n; i++) {
        row_of(&s[i], cell);
        for (int c = 0; c < N_COLUMN; c++)
            width[c] = strlen(cell[c]) > width[c] ? strlen(cell[c]) : width[c];
    }
    for (int i = -1; i < n; i++) {
        if (i >= 0)
            row_of(&s[i], cell);
        for (int c = 0; c < N_COLUMN; c++) {
            const char *text = i < 0 ? head[c] : cell[c];

            if (c == N_COLUMN - 1)
                zep_buf_printf(b, "%s%s\n", *text ? "  " : "", text);
            else if (c == N_COLUMN - 2)
                zep_buf_printf(b, "%*s", (int)width[c], text);
            else
                zep_buf_printf(b, c >= 3 ? "%*s  " : "%-*s  ", (int)width[c], text);
        }
    }
    return zep_buf_ok(b, err);
}

/* --- for programs --- */

static void set_time(json_t *j, const char *key, double t)
{
    json_object_set_new(j, key, t > 0 ? json_real(t) : json_null());
}

static json_t *text_or_null(const char *s)
{
    json_t *j = *s ? json_string(s) : NULL;

    return j ? j : json_null(); /* also what is no UTF-8 */
}

static json_t *one_json(const struct zep_run_status *s)
{
    const struct zep_glance *g = &s->glance;
    const struct zep_live *l = &s->live;
    const struct zep_run *r = s->run;
    int64_t next = s->seen ? zep_glance_next_checkpoint(g) : -1;
    json_t *j = json_object(), *jobs = json_array();

    json_object_set_new(j, "run", r->dir ? text_or_null(r->info.id) : json_null());
    json_object_set_new(j, "folder", r->dir ? text_or_null(r->dir) : json_null());
    json_object_set_new(j, "backend", json_string(r->backend->name));
    json_object_set_new(j, "cluster", text_or_null(r->cluster));
    for (int i = 0; i < r->n_job; i++)
        json_array_append_new(jobs, json_string(r->job[i]));
    json_object_set_new(j, "jobs", jobs);
    json_object_set_new(j, "job", text_or_null(l->job));
    json_object_set_new(j, "user", text_or_null(l->user));
    json_object_set_new(j, "state", json_string(zep_status_word(s)));
    json_object_set_new(j, "backend_state", text_or_null(l->word));
    json_object_set_new(j, "why", text_or_null(l->why));
    json_object_set_new(j, "where", text_or_null(l->where));
    set_time(j, "submitted", l->submitted);
    set_time(j, "start", l->start);
    set_time(j, "time_limit", zep_status_lives(s) ? l->end : 0);
    json_object_set_new(j, "attempt", json_integer(r->info.n_attempt));
    json_object_set_new(j, "step", s->seen ? json_integer(g->step) : json_null());
    json_object_set_new(j, "steps", s->seen ? json_integer(g->steps) : json_null());
    json_object_set_new(j, "loss", s->seen && g->loss > 0 ? json_real(g->loss) : json_null());
    json_object_set_new(j, "tokens_per_s", s->seen && g->tokens_s > 0 ? json_real(g->tokens_s) : json_null());
    json_object_set_new(j, "step_s", s->seen && g->step_s > 0 ? json_real(g->step_s) : json_null());
    set_time(j, "last_sign", g->last);
    json_object_set_new(j, "checkpoint", text_or_null(g->checkpoint));
    set_time(j, "checkpoint_time", g->checkpoint_time);
    json_object_set_new(j, "next_checkpoint", next >= 0 && l->life == ZEP_LIFE_RUNNING ? json_integer(next) : json_null());
    set_time(j, "estimated_end", s->seen && l->life == ZEP_LIFE_RUNNING && g->step_s > 0 ? g->last + zep_glance_left_s(g, g->steps) : 0);
    json_object_set_new(j, "exit_status", !zep_status_lives(s) && g->have_outcome ? json_integer(zep_exit_status(g->outcome.status)) : !zep_status_lives(s) && l->exit_status >= 0 ? json_integer(l->exit_status) : json_null());
    json_object_set_new(j, "cause", !zep_status_lives(s) && g->have_outcome ? text_or_null(g->outcome.cause) : json_null());
    return j;
}

int zep_status_json(const struct zep_run_status *s, int n, struct zep_buf *b, struct zep_error *err)
{
    json_t *j = json_object(), *list = json_array();
    char *text;

    json_object_set_new(j, "format", json_string("zeppelin-status/1.0"));
    for (int i = 0; i < n; i++)
        json_array_append_new(list, one_json(&s[i]));
    json_object_set_new(j, "runs", list);
    text = json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(13));
    json_decref(j);
    if (!text)
        return zep_error_nomem(err, "status");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}
