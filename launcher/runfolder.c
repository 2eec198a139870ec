#include "config.h"
#include "launcher/runfolder.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/rundir.h"

char *zep_abs_path(const char *path)
{
    char *cwd, *out;

    if (path[0] == '/')
        return strdup(path);
    if (!(cwd = getcwd(NULL, 0)))
        return NULL;
    out = zep_fs_join(cwd, path);
    free(cwd);
    return out;
}

static int make_absolute(char **field, struct zep_error *err)
{
    char *p;

    if (!**field)
        return ZEP_OK;
    if (!(p = zep_abs_path(*field)))
        return zep_error_nomem(err, "path");
    free(*field);
    *field = p;
    return ZEP_OK;
}

int zep_job_absolute(struct zep_job *job, struct zep_error *err)
{
    const char *t = job->cluster.topology;
    int rc;

    if (zep_job_image_is_file(job->cluster.image) && (rc = make_absolute(&job->cluster.image, err)) < 0)
        return rc;
    if ((rc = make_absolute(&job->run_root, err)) < 0 || (rc = make_absolute(&job->data.train, err)) < 0 || (rc = make_absolute(&job->data.heldout, err)) < 0)
        return rc;
    if (strcmp(t, "auto") && strncmp(t, "synthetic:", 10) && strncmp(t, "preset:", 7))
        return make_absolute(&job->cluster.topology, err);
    return ZEP_OK;
}

static int write_file(const char *rundir, const char *name, const char *text, size_t len, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, name);
    int rc = path ? zep_fs_write_atomic(path, text, len, 0666, err) : zep_error_nomem(err, "run folder");

    free(path);
    return rc;
}

static int write_json(const char *rundir, const char *name, json_t *j, struct zep_error *err)
{
    char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    int rc = text ? write_file(rundir, name, text, strlen(text), err) : zep_error_nomem(err, "run folder");

    free(text);
    return rc;
}

int zep_runfolder_write_job(const char *rundir, const struct zep_job *job, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = zep_job_to_yaml(job, 0, &b, err);

    if (rc == ZEP_OK)
        rc = write_file(rundir, "job.yaml", b.data, b.len, err);
    zep_buf_free(&b);
    return rc;
}

/* --- the user's index: one line a run, "ID<tab>PATH" --- */

static char *state_path(const char *name, int make)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct zep_buf b = ZEP_BUF_INIT;
    char *dir = NULL, *path;

    if (xdg && *xdg == '/')
        zep_buf_printf(&b, "%s/zeppelin", xdg);
    else if (home && *home == '/')
        zep_buf_printf(&b, "%s/.local/state/zeppelin", home);
    else
        return NULL;
    if (zep_buf_steal(&b, &dir, NULL) < 0)
        return NULL;
    path = !make || zep_fs_mkdir_p(dir, NULL) == ZEP_OK ? zep_fs_join(dir, name) : NULL;
    free(dir);
    return path;
}

char *zep_state_path(const char *name)
{
    return state_path(name, 1);
}

/* A convenience: where the index cannot be written, runs are named by their folder. */
static void index_add(const char *id, const char *rundir)
{
    char *path = state_path("runs", 1);
    struct zep_buf b = ZEP_BUF_INIT;
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

    zep_buf_printf(&b, "%s\t%s\n", id, rundir);
    if (fd >= 0 && !b.failed && write(fd, b.data, b.len) < 0) /* as good as absent */
        errno = 0;
    if (fd >= 0)
        close(fd);
    zep_buf_free(&b);
    free(path);
}

int zep_runfolder_find(const char *word, char **path_out, struct zep_error *err)
{
    char *index = NULL, *text = NULL, *found = NULL, *save = NULL;
    size_t len;

    if (strchr(word, '/') || zep_fs_exists(word)) {
        *path_out = zep_abs_path(word);
        return *path_out ? ZEP_OK : zep_error_nomem(err, "path");
    }
    index = state_path("runs", 0);
    if (index && zep_fs_exists(index) && zep_fs_read(index, 0, &text, &len, NULL) == ZEP_OK)
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            char *tab = strchr(line, '\t');

            if (!tab || strncmp(line, word, (size_t)(tab - line)) || word[tab - line])
                continue;
            free(found);
            found = strdup(tab + 1); /* the last one counts: job ids are used again */
        }
    free(text);
    free(index);
    if (!found)
        return zep_error_set(err, ZEP_ENOENT, "%s: no such run folder, and no run or job of that name in your index", word);
    *path_out = found;
    return ZEP_OK;
}

/* 1 when path was taken over, 0 when it is there already or gone. */
static int list_add(char **path, int n, const char *dir)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(path[i], dir))
            return 0;
    return zep_rundir_check(dir, NULL) == ZEP_OK && (path[n] = strdup(dir));
}

int zep_runfolder_list(char ***paths_out, int *n_out, struct zep_error *err)
{
    char *index = state_path("runs", 0), *text = NULL, *save = NULL, **path = NULL;
    size_t len = 0, lines = 1;
    int n = 0;

    if (index && zep_fs_exists(index) && zep_fs_read(index, 0, &text, &len, NULL) < 0)
        len = 0;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    free(index);
    if (!(path = zep_calloc(lines, sizeof *path))) {
        free(text);
        return zep_error_nomem(err, "runs");
    }
    for (char *line = len ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *tab = strchr(line, '\t');

        n += tab && list_add(path, n, tab + 1);
    }
    free(text);
    *paths_out = path;
    *n_out = n;
    return ZEP_OK;
}

int64_t zep_runfolder_checkpoint(const char *rundir, char *name_out, size_t size)
{
    char *dir = zep_fs_join(rundir, "checkpoints"), **names = NULL;
    long long newest = -1, step;
    int n = 0, used = 0;

    *name_out = '\0';
    if (dir && zep_fs_list(dir, &names, &n, NULL) == ZEP_OK)
        for (int i = 0; i < n; i++)
            if (sscanf(names[i], "step-%lld%n", &step, &used) == 1 && !names[i][used] && step > newest) {
                newest = step;
                snprintf(name_out, size, "%s", names[i]);
            }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    free(dir);
    return newest;
}

/* --- run.json --- */

static int load_run(const char *rundir, json_t **out, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "run.json"), *text = NULL;
    json_t *run = NULL;
    const char *format;
    json_error_t je;
    size_t len;
    int rc = path ? zep_fs_read(path, 1 << 24, &text, &len, err) : zep_error_nomem(err, "run.json");

    if (rc < 0)
        goto out;
    if (!(run = json_loadb(text, len, 0, &je))) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: %s", path, je.line, je.text);
    } else if (!json_is_object(run)) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s: expected a JSON object", path);
    } else {
        format = json_string_value(json_object_get(run, "format"));
        if ((rc = zep_format_check(format ? format : "", "zeppelin-run", 1, 0, NULL, err)) < 0)
            zep_error_prefix(err, "%s", path);
        else if (json_object_get(run, "attempts") && !json_is_array(json_object_get(run, "attempts")))
            rc = zep_error_set(err, ZEP_EINVAL, "%s: attempts: expected a list", path);
    }
    if (rc < 0)
        json_decref(run);
    else
        *out = run;
out:
    free(text);
    free(path);
    return rc;
}

static void copy_text(const json_t *j, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(j, key));

    snprintf(out, size, "%s", s ? s : "");
}

int zep_runfolder_info(const char *rundir, struct zep_runinfo *out, struct zep_error *err)
{
    json_t *run = NULL, *list, *last;
    int rc = load_run(rundir, &run, err);

    if (rc < 0)
        return rc;
    list = json_object_get(run, "attempts");
    last = json_array_get(list, json_array_size(list) ? json_array_size(list) - 1 : 0);
    *out = (struct zep_runinfo){.created = json_number_value(json_object_get(run, "created")), .n_attempt = (int)json_array_size(list), .time = json_number_value(json_object_get(last, "time"))};
    copy_text(run, "id", out->id, sizeof out->id);
    copy_text(run, "name", out->name, sizeof out->name);
    copy_text(last, "backend", out->backend, sizeof out->backend);
    copy_text(last, "job", out->job, sizeof out->job);
    copy_text(last, "host", out->host, sizeof out->host);
    json_decref(run);
    return ZEP_OK;
}

/* A folder that is just made becomes a run's; nothing is left on failure. */
static int fill(const struct zep_job *job, const char *path, struct zep_error *err)
{
    const char *id = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:f, s:[]}", "format", "zeppelin-run/1.0", "id", id, "name", job->name, "version", PACKAGE_VERSION, "created", zep_clock_wall(), "attempts");
    int rc;

    if ((rc = write_json(path, "run.json", j, err)) == ZEP_OK)
        rc = zep_runfolder_write_job(path, job, err);
    json_decref(j);
    if (rc < 0)
        zep_fs_remove_tree(path, NULL);
    else
        index_add(id, path);
    return rc;
}

int zep_runfolder_new(const struct zep_job *job, char **path_out, struct zep_error *err)
{
    char *path = NULL;
    int rc;

    if ((rc = zep_rundir_create(job->run_root, job->name, &path, err)) < 0)
        return rc;
    if ((rc = fill(job, path, err)) < 0)
        free(path);
    else
        *path_out = path;
    return rc;
}

int zep_runfolder_new_at(const struct zep_job *job, const char *path, struct zep_error *err)
{
    char *above = strdup(path), *slash = above ? strrchr(above, '/') : NULL;
    int rc = above ? ZEP_OK : zep_error_nomem(err, "run folder");

    if (slash && slash > above) {
        *slash = '\0';
        rc = zep_fs_mkdir_p(above, err);
    }
    free(above);
    if (rc == ZEP_OK && (rc = zep_rundir_make(path, err)) == ZEP_OK)
        rc = fill(job, path, err);
    return rc;
}

int zep_runfolder_load_job(const char *rundir, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err)
{
    char *path;
    int rc;

    if ((rc = zep_rundir_check(rundir, err)) < 0)
        return rc;
    if (!(path = zep_fs_join(rundir, "job.yaml")))
        return zep_error_nomem(err, "job.yaml");
    rc = zep_job_load_run(path, sets, n_set, job_out, err);
    free(path);
    return rc;
}

int zep_runfolder_add_attempt(const char *rundir, const char *backend, const char *jobid, int *attempt_out, struct zep_error *err)
{
    char host[256] = "";
    json_t *run = NULL, *list;
    int rc;

    if ((rc = load_run(rundir, &run, err)) < 0)
        return rc;
    gethostname(host, sizeof host - 1);
    list = json_object_get(run, "attempts");
    if (!list && (!(list = json_array()) || json_object_set_new(run, "attempts", list) < 0)) {
        json_decref(run);
        return zep_error_nomem(err, "run.json");
    }
    *attempt_out = (int)json_array_size(list) + 1;
    json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:f, s:s}", "attempt", *attempt_out, "backend", backend, "job", jobid, "host", host, "time", zep_clock_wall(), "version", PACKAGE_VERSION));
    rc = write_json(rundir, "run.json", run, err);
    json_decref(run);
    return rc;
}

/* In a file of its own: the job may have begun, and run.json is written by whoever holds the lock. */
int zep_runfolder_add_jobid(const char *rundir, const char *jobid, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT, name = ZEP_BUF_INIT;
    char *path = zep_fs_join(rundir, "slurm-job"), *old = NULL;
    int rc = path ? ZEP_OK : zep_error_nomem(err, "slurm-job"), len = (int)strcspn(jobid, ";");
    size_t n;

    if (rc == ZEP_OK && zep_fs_exists(path) && (rc = zep_fs_read(path, 1 << 20, &old, &n, err)) == ZEP_OK)
        zep_buf_puts(&b, old);
    zep_buf_printf(&b, "%s\n", jobid);
    if (rc == ZEP_OK && (rc = zep_buf_ok(&b, err)) == ZEP_OK)
        rc = write_file(rundir, "slurm-job", b.data, b.len, err);
    zep_buf_printf(&name, "%.*s", len, jobid);
    if (!name.failed)
        index_add(name.data, rundir);
    if (jobid[len]) {
        name.len = 0;
        zep_buf_printf(&name, "%s:%.*s", jobid + len + 1, len, jobid);
        if (!name.failed)
            index_add(name.data, rundir);
    }
    zep_buf_free(&name);
    zep_buf_free(&b);
    free(old);
    free(path);
    return rc;
}
