#include "config.h"
#include "common/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/fs.h"

static uint32_t random32(void)
{
    uint32_t x = 0;

    if (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x)
        x = (uint32_t)(zep_clock_wall() * 1e6) ^ ((uint32_t)getpid() << 16);
    return x;
}

static int make_subfolders(const char *path, struct zep_error *err)
{
    static const char *const names[] = {"plans", "checkpoints", "report"};
    int rc = ZEP_OK;

    for (size_t i = 0; i < sizeof names / sizeof names[0] && rc == ZEP_OK; i++) {
        char *sub = zep_fs_join(path, names[i]);

        rc = sub ? zep_fs_mkdir_p(sub, err) : zep_error_nomem(err, "run folder");
        free(sub);
    }
    return rc;
}

void zep_rundir_id(const char *name, char id_out[ZEP_RUN_ID_BUF])
{
    time_t now = time(NULL);
    struct tm tm;
    char stamp[32];

    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    snprintf(id_out, ZEP_RUN_ID_BUF, "%.64s-%s-%04x", name, stamp, (unsigned)(random32() & 0xffff));
}

int zep_rundir_make(const char *path, struct zep_error *err)
{
    int rc;

    if (mkdir(path, 0777) < 0)
        return zep_error_set(err, errno == EEXIST ? ZEP_EREFUSED : ZEP_EIO, "%s: %s", path, strerror(errno));
    if ((rc = make_subfolders(path, err)) < 0)
        zep_fs_remove_tree(path, NULL);
    return rc;
}

int zep_rundir_create(const char *root, const char *name, char **path_out, struct zep_error *err)
{
    int rc;

    if ((rc = zep_fs_mkdir_p(root, err)) < 0)
        return rc;
    for (int try = 0; try < 16; try++) {
        char id[ZEP_RUN_ID_BUF], *path;

        zep_rundir_id(name, id);
        if (!(path = zep_fs_join(root, id)))
            return zep_error_nomem(err, "run folder");
        if ((rc = zep_rundir_make(path, err)) == ZEP_OK) {
            *path_out = path;
            return ZEP_OK;
        }
        free(path);
        if (rc != ZEP_EREFUSED)
            return rc;
    }
    return zep_error_set(err, ZEP_EIO, "%s: no free name for a run folder", root);
}

int zep_rundir_check(const char *path, struct zep_error *err)
{
    static const char *const files[] = {"run.json", "job.yaml"};

    if (!zep_fs_exists(path))
        return zep_error_set(err, ZEP_ENOENT, "%s: no such folder: expected a run folder", path);
    if (!zep_fs_is_dir(path))
        return zep_error_set(err, ZEP_EINVAL, "%s: is a file, expected a run folder", path);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *file = zep_fs_join(path, files[i]);
        int there = file && zep_fs_exists(file);

        free(file);
        if (!there)
            return zep_error_set(err, ZEP_EINVAL, "%s: is no run folder: it has no %s", path, files[i]);
    }
    return ZEP_OK;
}

/* --- outcome.json --- */

static int outcome_text(const struct zep_outcome *o, char **text_out, struct zep_error *err)
{
    json_t *j = json_pack("{s:s, s:i, s:s, s:I, s:i, s:s, s:s, s:s, s:s}", "format", "zeppelin-outcome/1.1", "attempt", o->attempt, "status", zep_status_name(o->status), "step", (json_int_t)o->step,
                          "rank", o->rank, "phase", o->phase, "cause", o->cause, "checkpoint", o->checkpoint, "host", o->host);

    if (!j) { /* text that is no UTF-8 */
        j = json_pack("{s:s, s:i, s:s, s:I, s:i, s:s, s:s, s:s, s:s}", "format", "zeppelin-outcome/1.1", "attempt", o->attempt, "status", zep_status_name(o->status), "step", (json_int_t)o->step,
                      "rank", o->rank, "phase", "", "cause", "(see the log)", "checkpoint", "", "host", "");
    }
    *text_out = j ? json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(j);
    return *text_out ? ZEP_OK : zep_error_nomem(err, "outcome");
}

/* A hard link is taken by one only, also on network file systems. */
int zep_outcome_write_first(const char *rundir, const struct zep_outcome *o, struct zep_error *err)
{
    struct zep_buf tmp = ZEP_BUF_INIT;
    char *path = zep_fs_join(rundir, "outcome.json"), *text = NULL;
    struct zep_outcome old;
    int rc = path ? outcome_text(o, &text, err) : zep_error_nomem(err, "outcome");

    if (rc < 0)
        goto out;
    zep_buf_printf(&tmp, "%s/.outcome.%08x%08x", rundir, random32(), random32());
    if ((rc = zep_buf_ok(&tmp, err)) < 0 || (rc = zep_fs_write_atomic(tmp.data, text, strlen(text), 0666, err)) < 0)
        goto out;
    if (link(tmp.data, path) == 0) {
        unlink(tmp.data);
        goto out;
    }
    if (zep_outcome_read(rundir, &old, NULL) == ZEP_OK && old.attempt >= o->attempt) {
        unlink(tmp.data);
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: the outcome of attempt %d is there already", path, old.attempt);
    } else if (rename(tmp.data, path) < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
        unlink(tmp.data);
    }
out:
    zep_buf_free(&tmp);
    free(text);
    free(path);
    return rc;
}

int zep_outcome_amend(const char *rundir, const struct zep_outcome *o, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "outcome.json"), *text = NULL;
    int rc = path ? outcome_text(o, &text, err) : zep_error_nomem(err, "outcome");

    if (rc == ZEP_OK)
        rc = zep_fs_write_atomic(path, text, strlen(text), 0666, err);
    free(text);
    free(path);
    return rc;
}

static int status_of(const char *name)
{
    for (int code = ZEP_OK; code >= ZEP_EINTERNAL; code--)
        if (name && !strcmp(name, zep_status_name(code)))
            return code;
    return ZEP_EINTERNAL;
}

static void get_text(const json_t *j, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(j, key));

    snprintf(out, size, "%s", s ? s : "");
}

int zep_outcome_read(const char *rundir, struct zep_outcome *out, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "outcome.json"), *text = NULL;
    const char *format;
    json_error_t je;
    json_t *j = NULL;
    size_t len;
    int rc = path ? zep_fs_read(path, 1 << 20, &text, &len, err) : zep_error_nomem(err, "outcome");

    if (rc < 0)
        goto out;
    if (!(j = json_loadb(text, len, 0, &je))) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: %s", path, je.line, je.text);
        goto out;
    }
    format = json_string_value(json_object_get(j, "format"));
    if ((rc = zep_format_check(format ? format : "", "zeppelin-outcome", 1, 1, NULL, err)) < 0) {
        zep_error_prefix(err, "%s", path);
        goto out;
    }
    *out = (struct zep_outcome){0};
    out->attempt = (int)json_integer_value(json_object_get(j, "attempt"));
    out->status = status_of(json_string_value(json_object_get(j, "status")));
    out->step = json_integer_value(json_object_get(j, "step"));
    out->rank = (int)json_integer_value(json_object_get(j, "rank"));
    get_text(j, "phase", out->phase, sizeof out->phase);
    get_text(j, "cause", out->cause, sizeof out->cause);
    get_text(j, "checkpoint", out->checkpoint, sizeof out->checkpoint);
    get_text(j, "host", out->host, sizeof out->host);
out:
    json_decref(j);
    free(text);
    free(path);
    return rc;
}
