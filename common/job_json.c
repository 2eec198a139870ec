/* The job with where each value comes from, for programs. */
#include "config.h"
#include "common/job_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const layers[] = {"default", "site", "profile", "user", "job", "set"};

static json_t *value_json(const struct zep_job *job, const struct zep_job_key *key)
{
    const void *field = job_field(job, key);
    int word = key->choices != NULL;

    switch (key->type) {
    case ZEP_JOB_INT:
    case ZEP_JOB_COUNT:
        return word && *(const int64_t *)field == 0 ? json_string(key->choices) : json_integer(*(const int64_t *)field);
    case ZEP_JOB_FLOAT:
    case ZEP_JOB_TIME:
        return word && *(const double *)field == 0 ? json_string(key->choices) : json_real(*(const double *)field);
    case ZEP_JOB_BOOL:
        return json_boolean(*(const int *)field);
    default:
        return json_string(*(char *const *)field);
    }
}

static json_t *pairs_json(const struct zep_job_map *map)
{
    json_t *all = json_object();

    for (int i = 0; i < map->n; i++) {
        const struct zep_job_pair *p = &map->pair[i];

        json_object_set_new(all, p->name, json_pack("{s:s, s:s, s:s}", "value", p->value, "from", layers[p->layer], "origin", p->origin));
    }
    return all;
}

int zep_job_to_json(const struct zep_job *job, struct zep_buf *b, struct zep_error *err)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    json_t *keys = json_object(), *all = json_pack("{s:s, s:o}", "format", "zeppelin-job-values/1.0", "keys", keys);
    char *text;

    for (int i = 0; all && i < n; i++) {
        const struct job_origin *o = &((const struct job_full *)job)->origin[i];
        json_t *one = json_pack("{s:o, s:s, s:s}", "value", job_is_map(key[i].type) ? pairs_json(job_field(job, &key[i])) : value_json(job, &key[i]), "from", layers[o->layer], "origin", o->text);

        if (one && key[i].unit)
            json_object_set_new(one, "unit", json_string(key[i].type == ZEP_JOB_TIME ? "s" : key[i].unit));
        json_object_set_new(keys, key[i].name, one);
    }
    text = all ? json_dumps(all, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    if (!text)
        return zep_error_set(err, ZEP_EINVAL, "the job cannot be written as JSON: a value is no UTF-8");
    zep_buf_puts(b, text);
    zep_buf_puts(b, "\n");
    free(text);
    return zep_buf_ok(b, err);
}
