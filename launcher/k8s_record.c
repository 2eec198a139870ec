#include "config.h"
#include "launcher/k8s_record.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/log.h"
#include "launcher/backend.h"
#include "launcher/k8s_manifest.h"
#include "launcher/kube.h"

int zep_k8s_record_exists(const char *rundir)
{
    char *path = zep_fs_join(rundir, "k8s.json");
    int there = path && zep_fs_exists(path);

    free(path);
    return there;
}

int zep_k8s_record_read(const char *rundir, json_t **out, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "k8s.json"), *text = NULL;
    const char *format;
    json_t *j = NULL;
    size_t len;
    int rc = path ? zep_fs_read(path, 1 << 24, &text, &len, err) : zep_error_nomem(err, "k8s.json");

    if (rc == ZEP_OK && (!(j = json_loadb(text, len, 0, NULL)) || !json_is_array(json_object_get(j, "attempts")) || !json_array_size(json_object_get(j, "attempts"))))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: expected an object with attempts", path);
    format = json_string_value(json_object_get(j, "format"));
    if (rc == ZEP_OK && (rc = zep_format_check(format ? format : "", "zeppelin-k8s", 1, 0, NULL, err)) < 0)
        zep_error_prefix(err, "%s", path);
    if (rc < 0)
        json_decref(j);
    else
        *out = j;
    free(text);
    free(path);
    return rc;
}

static int write_json(const char *rundir, const char *name, const json_t *j, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, name), *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    int rc = path && text ? zep_fs_write_atomic(path, text, strlen(text), 0666, err) : zep_error_nomem(err, name);

    free(text);
    free(path);
    return rc;
}

int zep_k8s_record_write(const char *rundir, const json_t *record, struct zep_error *err)
{
    return write_json(rundir, "k8s.json", record, err);
}

static json_t *last_attempt(const json_t *record)
{
    const json_t *attempts = json_object_get(record, "attempts");

    return json_array_get(attempts, json_array_size(attempts) - 1);
}

int zep_k8s_record_end(const char *rundir, const struct zep_live *live, struct zep_error *err)
{
    json_t *record = NULL, *end;
    int rc = zep_k8s_record_read(rundir, &record, err);

    if (rc < 0)
        return rc;
    end = json_pack("{s:s, s:i, s:s, s:f}", "state", live->word, "exit_status", live->exit_status, "why", live->why, "time", live->end > 0 ? live->end : zep_clock_wall());
    if (live->has_step)
        json_object_set_new(end, "step", json_integer(live->step));
    rc = end && json_object_set_new(last_attempt(record), "end", end) == 0 ? zep_k8s_record_write(rundir, record, err) : zep_error_nomem(err, "k8s.json");
    json_decref(record);
    return rc;
}

int zep_k8s_record_ended(const char *rundir, struct zep_live *l)
{
    json_t *record = NULL, *end, *status, *step;
    const char *word, *why;
    int known;

    if (!zep_k8s_record_exists(rundir) || zep_k8s_record_read(rundir, &record, NULL) < 0)
        return 0;
    end = json_object_get(last_attempt(record), "end");
    status = json_object_get(end, "exit_status");
    word = json_string_value(json_object_get(end, "state"));
    why = json_string_value(json_object_get(end, "why"));
    if ((known = word && json_is_integer(status))) {
        l->life = ZEP_LIFE_ENDED;
        l->told = 1;
        l->exit_status = (int)json_integer_value(status);
        l->end = json_number_value(json_object_get(end, "time"));
        step = json_object_get(end, "step");
        l->has_step = json_is_integer(step);
        l->step = json_integer_value(step);
        snprintf(l->word, sizeof l->word, "%.31s", word);
        snprintf(l->why, sizeof l->why, "%.511s", why ? why : "");
    }
    json_decref(record);
    return known;
}

static const char *text_of(const json_t *j, const char *a, const char *b)
{
    const char *s = json_string_value(json_object_get(json_object_get(j, a), b));

    return s ? s : "";
}

/* One of that name is there: made by us before an answer was lost, or somebody else's, which is left alone. */
static int compare(const struct zep_kube *k, const char *name, const char *run_id, json_t **out, struct zep_error *err)
{
    struct zep_error refused = *err;
    json_t *have = NULL, *labels;
    const char *run;
    int rc = zep_kube_get(k, ZEP_KUBE_MPIJOBS, name, &have, err);

    if (rc < 0) {
        *err = refused;
        return refused.code;
    }
    labels = json_object_get(json_object_get(have, "metadata"), "labels");
    run = json_string_value(json_object_get(labels, ZEP_K8S_LABEL_RUN));
    if (run && !strcmp(run, run_id)) {
        *out = have;
        return ZEP_OK;
    }
    rc = zep_error_set(err, ZEP_EREFUSED, "an MPIJob '%s' is in namespace '%s' already%s%s: a live job is never changed: `zeppelin cancel k8s:%s` ends it, another name (--set name=...) goes beside it", name,
                       text_of(have, "metadata", "namespace"), run ? ", of run " : ", not made by zeppelin", run ? run : "", name);
    json_decref(have);
    return rc;
}

static int remember(const char *rundir, const char *context, const json_t *made, int attempt, struct zep_error *err)
{
    json_t *record = NULL, *one = json_pack("{s:s, s:s, s:s, s:f}", "namespace", text_of(made, "metadata", "namespace"), "name", text_of(made, "metadata", "name"), "uid", text_of(made, "metadata", "uid"), "time",
                                            zep_clock_wall());
    int rc;

    if (attempt == 1)
        record = json_pack("{s:s, s:s, s:[]}", "format", "zeppelin-k8s/1.0", "context", context, "attempts");
    else if ((rc = zep_k8s_record_read(rundir, &record, err)) < 0) {
        json_decref(one);
        return rc;
    }
    json_array_append_new(json_object_get(record, "attempts"), one);
    rc = zep_k8s_record_write(rundir, record, err);
    json_decref(record);
    return rc;
}

int zep_k8s_submit(const struct zep_k8s_spec *spec, const char *rundir, int attempt, char *name_out, size_t size, struct zep_error *err)
{
    const char *run_id = strrchr(rundir, '/') ? strrchr(rundir, '/') + 1 : rundir;
    json_t *manifest = NULL, *made = NULL;
    char *file = zep_fs_join(rundir, "mpijob.json"), name[64];
    struct zep_kube k = {0};
    int rc;

    zep_k8s_attempt_name(spec->job->name, attempt, name);
    if (!file || (rc = zep_kube_open(spec->job->k8s.context, spec->job->k8s.ns, &k, err)) < 0 || (rc = zep_k8s_manifest(spec, run_id, attempt, &manifest, err)) < 0 ||
        (rc = write_json(rundir, "mpijob.json", manifest, err)) < 0) {
        rc = file ? err->code : zep_error_nomem(err, "manifest");
        goto out;
    }
    rc = zep_kube_create(&k, file, 0, &made, err);
    if (rc == ZEP_EREFUSED || rc == ZEP_ETIMEDOUT)
        rc = compare(&k, name, run_id, &made, err);
    if (rc == ZEP_OK && (rc = remember(rundir, spec->job->k8s.context, made, attempt, err)) == ZEP_OK)
        snprintf(name_out, size, "%s/%s", text_of(made, "metadata", "namespace"), text_of(made, "metadata", "name"));
out:
    zep_kube_close(&k);
    json_decref(made);
    json_decref(manifest);
    free(file);
    return rc;
}
