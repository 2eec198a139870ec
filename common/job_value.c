/* One job and its values: types, maps of names, defaults. */
#include "config.h"
#include "common/job_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/units.h"
#include "common/yaml.h"

#define ALPHA "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

static struct job_full *full(const struct zep_job *job)
{
    return (struct job_full *)job;
}

int zep_job_find(const char *name, struct job_place *out)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);

    for (int i = 0; i < n; i++) {
        size_t len = strlen(key[i].name);

        if (strncmp(key[i].name, name, len))
            continue;
        if (name[len] && (name[len] != '.' || !job_is_map(key[i].type)))
            continue;
        *out = (struct job_place){&key[i], i, name[len] ? name + len + 1 : NULL};
        return 1;
    }
    return 0;
}

const char *zep_job_origin(const struct zep_job *job, const char *name)
{
    struct job_place p;

    if (!zep_job_find(name, &p))
        return "";
    if (p.entry) {
        const struct zep_job_map *map = job_field(job, p.key);

        for (int i = 0; i < map->n; i++)
            if (!strcmp(map->pair[i].name, p.entry))
                return map->pair[i].origin;
        return "default";
    }
    return full(job)->origin[p.index].text;
}

enum zep_job_layer zep_job_origin_layer(const struct zep_job *job, const char *name)
{
    struct job_place p;

    return zep_job_find(name, &p) && !p.entry ? full(job)->origin[p.index].layer : ZEP_JOB_DEFAULT;
}

const char *zep_job_map_get(const struct zep_job_map *map, const char *name)
{
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->pair[i].name, name))
            return map->pair[i].value;
    return NULL;
}

int zep_job_env_name(const char *name)
{
    return *name && !strchr("0123456789", *name) && strlen(name) <= 128 && strspn(name, ALPHA "0123456789") == strlen(name);
}

int zep_job_variable(const struct zep_job_key *key, const char *value, const char **at_out)
{
    if (!strcmp(key->name, "cluster.setup")) /* a shell's own */
        return 0;
    if (key->type == ZEP_JOB_PATH && value[0] == '~' && (value[1] == '/' || !value[1])) {
        *at_out = value;
        return 1;
    }
    for (const char *p = strchr(value, '$'); p; p = strchr(p + 1, '$')) {
        size_t brace = p[1] == '{', len = strspn(p + 1 + brace, ALPHA "0123456789");

        if (len && strchr(ALPHA, p[1 + brace]) && (!brace || strchr(p, '}'))) {
            *at_out = p;
            return (int)(brace ? strcspn(p, "}") + 1 : len + 1);
        }
    }
    return 0;
}

static int in_choices(const char *choices, const char *value)
{
    size_t len = strlen(value);

    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (!strncmp(p, value, len) && (p[len] == '|' || p[len] == '\0'))
            return 1;
    return 0;
}

static int is_utf8(const char *s)
{
    char *copy = strdup(s);
    int good;

    for (char *p = copy; p && *p; p++)
        *p = *p == '\n' || *p == '\t' ? ' ' : *p;
    good = copy && zep_text_is_clean(copy);
    free(copy);
    return good;
}

static int check_text(const struct zep_job_key *key, const char *value, struct zep_error *err)
{
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < 32 && !(*p == '\n' && !strcmp(key->name, "cluster.setup")) && *p != '\t')
            return zep_error_set(err, ZEP_EINVAL, "a control character (0x%02x): expected text", (unsigned char)*p);
    if (!is_utf8(value))
        return zep_error_set(err, ZEP_EINVAL, "not valid UTF-8: expected text");
    if (key->type == ZEP_JOB_CHOICE && !in_choices(key->choices, value)) {
        struct zep_buf list = ZEP_BUF_INIT;

        for (const char *p = key->choices; *p; p++)
            *p == '|' ? zep_buf_puts(&list, ", ") : zep_buf_add(&list, p, 1);
        zep_error_set(err, ZEP_EINVAL, "'%s': expected one of %s", value, list.data);
        zep_buf_free(&list);
        return ZEP_EINVAL;
    }
    return ZEP_OK;
}

static int parse_number(const struct zep_job_key *key, const char *value, void *field, struct zep_error *err)
{
    int64_t i = 0;
    double d = 0;
    int rc;

    if (key->choices && !strcmp(value, key->choices)) {
        if (key->type == ZEP_JOB_TIME || key->type == ZEP_JOB_FLOAT)
            *(double *)field = 0;
        else
            *(int64_t *)field = 0;
        return ZEP_OK;
    }
    switch (key->type) {
    case ZEP_JOB_INT:
        if ((rc = zep_parse_int(value, (int64_t)key->min, (int64_t)key->max, &i, err)) == ZEP_OK)
            *(int64_t *)field = i;
        break;
    case ZEP_JOB_COUNT:
        if ((rc = zep_parse_count(value, &i, err)) == ZEP_OK && (i < (int64_t)key->min || i > (int64_t)key->max))
            rc = zep_error_set(err, ZEP_EINVAL, "'%s': expected %" PRId64 " to %" PRId64, value, (int64_t)key->min, (int64_t)key->max);
        if (rc == ZEP_OK)
            *(int64_t *)field = i;
        break;
    case ZEP_JOB_FLOAT:
        if ((rc = zep_parse_double(value, key->min, key->max, &d, err)) == ZEP_OK)
            *(double *)field = d;
        break;
    default:
        if ((rc = zep_parse_time(value, &d, err)) == ZEP_OK && (d < key->min || d > key->max))
            rc = zep_error_set(err, ZEP_EINVAL, "'%s': expected a time from %gs to %gs", value, key->min, key->max);
        if (rc == ZEP_OK)
            *(double *)field = d;
        break;
    }
    if (rc < 0 && key->choices && err) {
        size_t len = strlen(err->text);

        snprintf(err->text + len, sizeof err->text - len, ", or %s", key->choices);
    }
    return rc;
}

/* --- maps --- */

static int check_secret(const char *name, const char *value, struct zep_error *err)
{
    const char *arg = strchr(value, ':');
    size_t len;

    /* the value itself is never shown: it may be the secret */
    if (!arg || (strncmp(value, "env:", 4) && strncmp(value, "file:", 5) && strncmp(value, "k8s:", 4)))
        return zep_error_set(err, ZEP_EINVAL, "a secret is named here, never written: expected %s: {env: NAME}, {file: PATH} or {k8s: SECRET/KEY}", name);
    arg++;
    if (*value == 'e' && !zep_job_env_name(arg))
        return zep_error_set(err, ZEP_EINVAL, "env: '%.100s': expected the name of an environment variable", arg);
    if (*value == 'f' && *arg != '/')
        return zep_error_set(err, ZEP_EINVAL, "file: '%.200s': expected an absolute path", arg);
    len = strspn(arg, "abcdefghijklmnopqrstuvwxyz0123456789.-");
    if (*value == 'k' && (!len || arg[len] != '/' || !arg[len + 1] || arg[len + 1 + strspn(arg + len + 1, ALPHA "0123456789.-")]))
        return zep_error_set(err, ZEP_EINVAL, "k8s: '%.200s': expected SECRET/KEY, the name of a Kubernetes secret and of a key in it", arg);
    return ZEP_OK;
}

int zep_job_looks_secret(const char *name)
{
    static const char *const ends[] = {"_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "_API_KEY", "_ACCESS_KEY", "_SECRET_KEY", "_PRIVATE_KEY"}, *const whole[] = {"TOKEN", "SECRET", "API_KEY"};
    const char *last = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
    size_t len = strlen(last);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (len >= strlen(ends[i]) && !strcasecmp(last + len - strlen(ends[i]), ends[i]))
            return 1;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (!strcasecmp(last, whole[i]))
            return 1;
    return 0;
}

static int check_entry(const struct zep_job_key *key, const char *name, const char *value, struct zep_error *err)
{
    if (key->type != ZEP_JOB_MAP && !zep_job_env_name(name))
        return zep_error_set(err, ZEP_EINVAL, "'%.100s' is no name of an environment variable: expected letters, digits and '_', not beginning with a digit", name);
    if (key->type == ZEP_JOB_SECRETS)
        return check_secret(name, value, err);
    if (key->type == ZEP_JOB_ENV && zep_job_looks_secret(name))
        return zep_error_set(err, ZEP_EINVAL, "looks like a secret, and would be written into the run folder: expected it in cluster.secrets, as %s: {env: NAME} or {file: PATH}", name);
    return zep_text_is_clean(value) ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "a control character, or no valid UTF-8: expected text");
}

static int set_entry(struct zep_job_map *map, const char *name, const char *value, const char *origin, enum zep_job_layer layer, struct zep_error *err)
{
    struct zep_job_pair fresh = {strdup(name), strdup(value), strdup(origin), layer}, *more;
    int i = 0;

    if (!fresh.name || !fresh.value || !fresh.origin)
        goto err_fresh;
    while (i < map->n && strcmp(map->pair[i].name, name))
        i++;
    if (i == map->n) {
        if (!(more = zep_reallocarray(map->pair, (size_t)map->n + 1, sizeof *more)))
            goto err_fresh;
        map->pair = more;
        map->n++;
    } else {
        free(map->pair[i].name);
        free(map->pair[i].value);
        free(map->pair[i].origin);
    }
    map->pair[i] = fresh;
    return ZEP_OK;
err_fresh:
    free(fresh.name);
    free(fresh.value);
    free(fresh.origin);
    return zep_error_nomem(err, "job");
}

static void free_map(struct zep_job_map *map)
{
    for (int i = 0; i < map->n; i++) {
        free(map->pair[i].name);
        free(map->pair[i].value);
        free(map->pair[i].origin);
    }
    free(map->pair);
}

/* --- a value --- */

static int set_value(struct zep_job *job, const struct zep_job_key *key, const char *value, struct zep_error *err)
{
    void *field = job_field(job, key);
    char *copy;
    int rc;

    if (key->type == ZEP_JOB_BOOL) {
        if (strcmp(value, "true") && strcmp(value, "false"))
            return zep_error_set(err, ZEP_EINVAL, "'%s': expected true or false", value);
        *(int *)field = value[0] == 't';
        return ZEP_OK;
    }
    if (!job_is_text(key->type))
        return parse_number(key, value, field, err);
    if ((rc = check_text(key, value, err)) < 0)
        return rc;
    if (!(copy = strdup(value)))
        return zep_error_nomem(err, "job");
    free(*(char **)field);
    *(char **)field = copy;
    return ZEP_OK;
}

int zep_job_set(struct zep_job *job, const struct job_place *place, const char *value, const char *origin, enum zep_job_layer layer, struct zep_error *err)
{
    struct job_origin *o = &full(job)->origin[place->index];
    char *copy;
    int rc;

    if (job_is_map(place->key->type)) {
        if (!place->entry)
            return zep_error_set(err, ZEP_EINVAL, "expected names below it, as %s.NAME", place->key->name);
        if ((rc = check_entry(place->key, place->entry, value, err)) < 0 || (rc = set_entry(job_field(job, place->key), place->entry, value, origin, layer, err)) < 0)
            return rc;
    } else if ((rc = set_value(job, place->key, value, err)) < 0) {
        return rc;
    }
    if (!(copy = strdup(origin)))
        return zep_error_nomem(err, "job");
    free(o->text);
    o->text = copy;
    o->layer = layer;
    return ZEP_OK;
}

char *zep_job_get(const struct zep_job *job, const struct job_place *place)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *text = NULL;

    if (place->entry) {
        const char *value = zep_job_map_get(job_field(job, place->key), place->entry);

        return strdup(value ? value : "");
    }
    if (job_is_text(place->key->type))
        return strdup(*(char **)job_field(job, place->key));
    zep_job_value_text(job, place->key, &b);
    return zep_buf_steal(&b, &text, NULL) == ZEP_OK ? text : NULL;
}

int zep_job_new(struct zep_job **out, struct zep_error *err)
{
    struct job_full *job = zep_calloc(1, sizeof *job);
    int n, rc;
    const struct zep_job_key *key = zep_job_keys(&n);

    if (!job)
        return zep_error_nomem(err, "job");
    if (!(job->origin = zep_calloc((size_t)n, sizeof *job->origin))) {
        free(job);
        return zep_error_nomem(err, "job");
    }
    for (int i = 0; i < n; i++) {
        rc = job_is_map(key[i].type) ? ZEP_OK : set_value(&job->pub, &key[i], key[i].dflt, err);
        if (rc == ZEP_OK && !(job->origin[i].text = strdup("default")))
            rc = zep_error_nomem(err, "job");
        if (rc < 0) {
            zep_job_free(&job->pub);
            return zep_error_prefix(err, "default of %s", key[i].name);
        }
    }
    *out = &job->pub;
    return ZEP_OK;
}

void zep_job_free(struct zep_job *job)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);

    if (!job)
        return;
    for (int i = 0; i < n; i++) {
        if (job_is_text(key[i].type))
            free(*(char **)job_field(job, &key[i]));
        if (job_is_map(key[i].type))
            free_map(job_field(job, &key[i]));
        free(full(job)->origin[i].text);
    }
    free(full(job)->origin);
    free(job);
}
