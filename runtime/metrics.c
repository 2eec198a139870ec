#include "config.h"
#include "runtime/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/fs.h"
#include "runtime/save.h"

struct zep_metrics {
    int fd, attempt;
    int torn; /* half a line was written */
    char *path;
};

int zep_metrics_open(const char *rundir, int attempt, struct zep_metrics **out, struct zep_error *err)
{
    struct zep_metrics *m = zep_calloc(1, sizeof *m);
    int rc;

    if (!m || !(m->path = zep_fs_join(rundir, "metrics.jsonl"))) {
        free(m);
        return zep_error_nomem(err, "metrics");
    }
    m->attempt = attempt;
    m->fd = open(m->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (m->fd < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", m->path, strerror(errno));
        zep_metrics_close(m);
        return rc;
    }
    /* an attempt that was killed may have left half a line */
    char last = '\n';
    off_t size = lseek(m->fd, 0, SEEK_END);
    if (size > 0 && pread(m->fd, &last, 1, size - 1) == 1 && last != '\n' && write(m->fd, "\n", 1) != 1) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", m->path, strerror(errno));
        zep_metrics_close(m);
        return rc;
    }
    *out = m;
    return ZEP_OK;
}

void zep_metrics_close(struct zep_metrics *m)
{
    if (!m)
        return;
    if (m->fd >= 0)
        close(m->fd);
    free(m->path);
    free(m);
}

static json_t *record(const struct zep_metrics *m, const char *kind, int64_t step)
{
    return json_pack("{s:s, s:i, s:I}", "kind", kind, "attempt", m->attempt, "step", (json_int_t)step);
}

/* Takes the record. */
static int put(struct zep_metrics *m, json_t *j, struct zep_error *err)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(10));
    size_t len;
    ssize_t n;
    int rc = ZEP_OK;

    json_decref(j);
    if (!text)
        return zep_error_nomem(err, "metrics");
    len = strlen(text);
    text[len++] = '\n'; /* in place of the terminator: one write a line */
    if (m->torn && write(m->fd, "\n", 1) == 1)
        m->torn = 0;
    n = write(m->fd, text, len);
    m->torn |= n > 0 && n != (ssize_t)len;
    if (n != (ssize_t)len)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", m->path, n < 0 ? strerror(errno) : "short write (disk full?)");
    free(text);
    return rc;
}

const char *const zep_startup_names[ZEP_N_STARTUP] = {"mpi", "topology", "data", "model", "checkpoint"};

int zep_metrics_write_start(struct zep_metrics *m, const struct zep_metrics_start *s, struct zep_error *err)
{
    json_t *j = record(m, "start", s->step), *parts = json_object();

    json_object_set_new(j, "ranks", json_integer(s->ranks));
    json_object_set_new(j, "nodes", json_integer(s->nodes));
    json_object_set_new(j, "devices", json_integer(s->devices));
    json_object_set_new(j, "params", json_integer(s->params));
    json_object_set_new(j, "capacity", json_integer(s->capacity));
    json_object_set_new(j, "cut_documents", json_integer(s->cut_documents));
    json_object_set_new(j, "kernels", json_string(s->kernels));
    json_object_set_new(j, "gemm", json_string(s->gemm));
    json_object_set_new(j, "method", json_string(s->method));
    json_object_set_new(j, "window", json_integer(s->window));
    json_object_set_new(j, "compose", json_string(s->compose));
    json_object_set_new(j, "version", json_string(PACKAGE_VERSION));
    for (int i = 0; i < ZEP_N_STARTUP; i++)
        json_object_set_new(parts, zep_startup_names[i], json_real(s->startup_s[i]));
    json_object_set_new(j, "startup_s", parts);
    json_object_set_new(j, "time", json_real(zep_clock_wall()));
    return put(m, j, err);
}

int zep_metrics_write_eval(struct zep_metrics *m, int64_t step, double loss, int64_t n_target, double time_s, struct zep_error *err)
{
    json_t *j = record(m, "eval", step);

    json_object_set_new(j, "loss", json_real(loss));
    json_object_set_new(j, "targets", json_integer(n_target));
    json_object_set_new(j, "time_s", json_real(time_s));
    return put(m, j, err);
}

static json_t *int_array(const int64_t *x, int n)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer(x[i]));
    return a;
}

static json_t *real_array(const double *x, int n)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_real(x[i]));
    return a;
}

int zep_metrics_write_step(struct zep_metrics *m, const struct zep_step_stats *st, int n_rank, struct zep_error *err)
{
    json_t *j = record(m, "step", st->step);

    json_object_set_new(j, "loss", json_real(st->loss));
    json_object_set_new(j, "lr", json_real(st->lr));
    json_object_set_new(j, "grad_norm", json_real(st->grad_norm));
    json_object_set_new(j, "tokens", json_integer(st->n_token));
    json_object_set_new(j, "targets", json_integer(st->n_target));
    json_object_set_new(j, "micro", json_integer(st->n_micro));
    json_object_set_new(j, "time_s", json_real(st->time_s));
    json_object_set_new(j, "phase_s",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "plan", st->phase.plan, "forward", st->phase.forward, "backward", st->phase.backward, "reduce",
                                  st->phase.reduce, "optimizer", st->phase.optimizer));
    json_object_set_new(j, "plan_work_s", json_real(st->plan_work_s));
    json_object_set_new(j, "plan_wait_s", json_real(st->plan_wait_s));
    json_object_set_new(j, "plan_ready", json_integer(st->plan_ready));
    json_object_set_new(j, "attn_s",
                        json_pack("{s:f, s:f, s:f}", "inter", st->exec.attn_s[ZEP_QUEUE_INTER], "intra", st->exec.attn_s[ZEP_QUEUE_INTRA], "local",
                                  st->exec.attn_s[ZEP_QUEUE_LOCAL]));
    json_object_set_new(j, "wait_s", json_pack("{s:f, s:f}", "world", st->exec.wait_s[ZEP_LANE_WORLD], "node", st->exec.wait_s[ZEP_LANE_NODE] + st->exec.wait_s[ZEP_LANE_GRID]));
    json_object_set_new(j, "remap_s", json_real(st->exec.remap_s));
    json_object_set_new(j, "zone_tok", int_array(st->zone_tok + 1, 3));
    json_object_set_new(j, "zone_seq", int_array(st->zone_seq + 1, 3));
    json_object_set_new(j, "flops", json_real(st->flops));
    json_object_set_new(j, "attn_flops", json_real(st->attn_flops));
    json_object_set_new(j, "net_bytes", json_integer(st->exec.net_bytes));
    json_object_set_new(j, "rank_attn_tok", int_array(st->rank_attn_tok, n_rank));
    json_object_set_new(j, "rank_lin_tok", int_array(st->rank_lin_tok, n_rank));
    json_object_set_new(j, "rank_pairs", real_array(st->rank_pairs, n_rank));
    json_object_set_new(j, "rank_busy_s", real_array(st->rank_busy_s, n_rank));
    return put(m, j, err);
}

int zep_metrics_write_checkpoint(struct zep_metrics *m, const struct zep_saver_told *told, struct zep_error *err)
{
    json_t *j = record(m, "checkpoint", told->step);

    json_object_set_new(j, "dir", json_string(told->name));
    json_object_set_new(j, "bytes", json_integer(told->bytes));
    json_object_set_new(j, "time_s", json_real(told->time_s));
    json_object_set_new(j, "stall_s", json_real(told->stall_s));
    return put(m, j, err);
}

int zep_metrics_write_end(struct zep_metrics *m, int64_t step, const char *status, double time_s, struct zep_error *err)
{
    json_t *j = record(m, "end", step);

    json_object_set_new(j, "status", json_string(status));
    json_object_set_new(j, "time_s", json_real(time_s));
    return put(m, j, err);
}
