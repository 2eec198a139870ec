#include "config.h"
#include "common/job_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/units.h"
#include "common/yaml.h"

#define MAX_MISTAKES 16 /* told of; the others are counted */

struct mistakes {
    struct zep_buf text;
    int n;
    struct zep_buf keys; /* that were mistaken, each after a line feed */
};

static void mistake(struct mistakes *m, const char *fmt, ...) ZEP_PRINTF(2, 3);
static void mistake(struct mistakes *m, const char *fmt, ...)
{
    struct zep_error one;
    va_list ap;

    if (m->n++ >= MAX_MISTAKES)
        return;
    va_start(ap, fmt);
    zep_error_vset(&one, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    zep_buf_printf(&m->text, "%s%s", m->n > 1 ? "\n" : "", one.text);
}

static int take_mistakes(struct mistakes *m, struct zep_error *err)
{
    int rc = ZEP_OK;

    if (m->n > MAX_MISTAKES)
        zep_buf_printf(&m->text, "\n... and %d more", m->n - MAX_MISTAKES);
    if (m->n)
        rc = zep_error_set(err, ZEP_EINVAL, "%s", m->text.data);
    zep_buf_free(&m->text);
    zep_buf_free(&m->keys);
    return rc;
}

static struct job_full *full(const struct zep_job *job)
{
    return (struct job_full *)job;
}

static int is_string(enum zep_job_type t)
{
    return t == ZEP_JOB_STRING || t == ZEP_JOB_CHOICE || t == ZEP_JOB_PATH;
}

static const struct zep_job_key *find_key(const char *name, int *index_out)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);

    for (int i = 0; i < n; i++)
        if (!strcmp(key[i].name, name)) {
            *index_out = i;
            return &key[i];
        }
    return NULL;
}

static int in_choices(const char *choices, const char *value)
{
    size_t len = strlen(value);

    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (!strncmp(p, value, len) && (p[len] == '|' || p[len] == '\0'))
            return 1;
    return 0;
}

static int check_text(const struct zep_job_key *key, const char *value, struct zep_error *err)
{
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < 32 && !(*p == '\n' && !strcmp(key->name, "cluster.setup")) && *p != '\t')
            return zep_error_set(err, ZEP_EINVAL, "a control character (0x%02x): expected text", (unsigned char)*p);
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

static int set_value(struct zep_job *job, int index, const char *value, struct zep_error *err)
{
    int n;
    const struct zep_job_key *key = &zep_job_keys(&n)[index];
    void *field = job_field(job, key);
    int rc;

    if (key->type == ZEP_JOB_BOOL) {
        if (strcmp(value, "true") && strcmp(value, "false"))
            return zep_error_set(err, ZEP_EINVAL, "'%s': expected true or false", value);
        *(int *)field = value[0] == 't';
        return ZEP_OK;
    }
    if (is_string(key->type)) {
        char *copy;

        if ((rc = check_text(key, value, err)) < 0)
            return rc;
        if (!(copy = strdup(value)))
            return zep_error_nomem(err, "job");
        free(*(char **)field);
        *(char **)field = copy;
        return ZEP_OK;
    }
    return parse_number(key, value, field, err);
}

static int set_origin(struct zep_job *job, int index, const char *origin)
{
    char *copy = strdup(origin);

    free(full(job)->origin[index]);
    full(job)->origin[index] = copy;
    return copy ? ZEP_OK : ZEP_ENOMEM;
}

static int new_job(struct zep_job **out, struct zep_error *err)
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
    for (int i = 0; i < n; i++)
        if ((rc = set_value(&job->pub, i, key[i].dflt, err)) < 0 || (rc = set_origin(&job->pub, i, "default")) < 0) {
            zep_job_free(&job->pub);
            return zep_error_prefix(err, "default of %s", key[i].name);
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
        if (is_string(key[i].type))
            free(*(char **)job_field(job, &key[i]));
        free(full(job)->origin[i]);
    }
    free(full(job)->origin);
    free(job);
}

static void unknown_key(const char *name, const char *where, struct mistakes *m)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    const char **names = zep_calloc((size_t)n + 1, sizeof *names), *near = NULL;

    for (int i = 0; names && i < n; i++)
        names[i] = key[i].name;
    if (names)
        near = zep_nearest(name, names);
    if (near)
        mistake(m, "%s: unknown key '%s' (did you mean '%s'?)", where, name, near);
    else
        mistake(m, "%s: unknown key '%s': `zeppelin job init` prints all keys", where, name);
    free(names);
}

/* One value from a file or from --set. */
static void apply(struct zep_job *job, const char *name, const char *value, const char *where, struct mistakes *m)
{
    struct zep_error err;
    int index = 0, known = find_key(name, &index) != NULL;

    if (known && set_value(job, index, value, &err) == ZEP_OK) {
        set_origin(job, index, where);
        return;
    }
    zep_buf_printf(&m->keys, "\n%s", name);
    if (known)
        mistake(m, "%s: %s: %s", where, name, err.text);
    else
        unknown_key(name, where, m);
}

static int is_section(const char *name)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    size_t len = strlen(name);

    for (int i = 0; i < n; i++)
        if (!strncmp(key[i].name, name, len) && key[i].name[len] == '.')
            return 1;
    return 0;
}

static void merge_map(struct zep_job *job, const struct zep_yaml *doc, const struct zep_yaml_node *map, const char *section, struct mistakes *m)
{
    for (int i = 0; i < map->n; i++) {
        const struct zep_yaml_node *v = map->child[i];
        char name[256], where[512];

        snprintf(name, sizeof name, "%s%s%.100s", section ? section : "", section ? "." : "", map->keys[i]);
        snprintf(where, sizeof where, "%.440s:%d", zep_yaml_name(doc), map->key_lines[i]);
        if (!section && is_section(name)) {
            if (v->type == ZEP_YAML_MAP)
                merge_map(job, doc, v, name, m);
            else if (!zep_yaml_is_null(v))
                mistake(m, "%s: %s: expected keys below it", where, name);
            continue;
        }
        if (v->type != ZEP_YAML_SCALAR) {
            int index;

            if (find_key(name, &index))
                mistake(m, "%s: %s: expected one value", where, name);
            else
                unknown_key(name, where, m);
            continue;
        }
        if (!zep_yaml_is_null(v)) /* nothing written: the default stays */
            apply(job, name, v->scalar, where, m);
    }
}

static int merge_doc(struct zep_job *job, const struct zep_yaml *doc, struct mistakes *m, struct zep_error *err)
{
    const struct zep_yaml_node *root = zep_yaml_root(doc), *format;
    int rc;

    if (root->type != ZEP_YAML_MAP)
        return zep_yaml_error(doc, root, err, "expected keys and values (format zeppelin-job/1.0)");
    format = zep_yaml_get(root, "format");
    if (format && format->type == ZEP_YAML_SCALAR && (rc = zep_format_check(format->scalar, "zeppelin-job", 1, 0, NULL, err)) < 0)
        return zep_error_prefix(err, "%s:%d: format", zep_yaml_name(doc), format->line);
    merge_map(job, doc, root, NULL, m);
    return ZEP_OK;
}

static int merge_file(struct zep_job *job, const char *path, struct mistakes *m, struct zep_error *err)
{
    struct zep_yaml *doc = NULL;
    int rc = zep_yaml_load_file(path, &doc, err);

    if (rc == ZEP_OK)
        rc = merge_doc(job, doc, m, err);
    zep_yaml_free(doc);
    return rc;
}

/* Site and user files, where they are. */
static int merge_configs(struct zep_job *job, struct mistakes *m, struct zep_error *err)
{
    const char *site = getenv("ZEPPELIN_SITE"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    struct zep_buf user = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    if (!site)
        site = ZEP_SYSCONFDIR "/zeppelin/site.yaml";
    if (*site && zep_fs_exists(site))
        rc = merge_file(job, site, m, err);
    if (xdg && *xdg == '/')
        zep_buf_printf(&user, "%s/zeppelin/config.yaml", xdg);
    else if (home && *home == '/')
        zep_buf_printf(&user, "%s/.config/zeppelin/config.yaml", home);
    if (rc == ZEP_OK && user.data && zep_fs_exists(user.data))
        rc = merge_file(job, user.data, m, err);
    zep_buf_free(&user);
    return rc;
}

static void apply_sets(struct zep_job *job, const char *const *sets, int n_set, struct mistakes *m)
{
    for (int i = 0; i < n_set; i++) {
        const char *eq = strchr(sets[i], '=');
        char name[256], where[300];

        if (!eq || eq == sets[i] || eq - sets[i] >= (ptrdiff_t)sizeof name) {
            mistake(m, "--set '%.100s': expected KEY=VALUE, as in train.steps=100", sets[i]);
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(eq - sets[i]), sets[i]);
        snprintf(where, sizeof where, "--set %.250s", sets[i]);
        apply(job, name, eq + 1, where, m);
    }
}

/* --- what values must be to each other --- */

const char *zep_job_origin(const struct zep_job *job, const char *name)
{
    int index = 0;

    return find_key(name, &index) ? full(job)->origin[index] : "";
}

/* Has a key been mistaken that this one may depend on: one of its section? */
static int in_doubt(const struct mistakes *m, const char *name)
{
    const char *dot = strchr(name, '.');
    int len = dot ? (int)(dot + 1 - name) : (int)strlen(name);
    char line[256];

    snprintf(line, sizeof line, "\n%.*s", len, name);
    return m->keys.len && strstr(m->keys.data, line) != NULL;
}

/* Only what does not hang on a value that was mistaken. */
static void cross_check(const struct zep_job *job, struct mistakes *m)
{
    if (!in_doubt(m, "name") && (!*job->name || job->name[0] == '-' || job->name[0] == '.' || strlen(job->name) > 64 ||
                                 strspn(job->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(job->name)))
        mistake(m, "%s: name: '%.100s': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", zep_job_origin(job, "name"), job->name);
    if (!in_doubt(m, "model.") && job->model.heads % job->model.kv_heads)
        mistake(m, "%s: model.kv_heads: '%" PRId64 "': expected a divisor of model.heads (%" PRId64 ")", zep_job_origin(job, "model.kv_heads"), job->model.kv_heads, job->model.heads);
    if (!in_doubt(m, "model.") && job->model.head_dim % 8)
        mistake(m, "%s: model.head_dim: '%" PRId64 "': expected a multiple of 8", zep_job_origin(job, "model.head_dim"), job->model.head_dim);
    if (!in_doubt(m, "train.") && !in_doubt(m, "data.") && job->train.tokens < job->data.context)
        mistake(m, "%s: train.tokens: '%" PRId64 "': expected at least data.context (%" PRId64 "), so that every document fits into a step", zep_job_origin(job, "train.tokens"), job->train.tokens,
                job->data.context);
    if (!in_doubt(m, "train.") && job->train.min_lr > job->train.lr)
        mistake(m, "%s: train.min_lr: '%g': expected at most train.lr (%g)", zep_job_origin(job, "train.min_lr"), job->train.min_lr, job->train.lr);
}

static int finish(struct zep_job *job, struct mistakes *m, int rc, struct zep_job **job_out, struct zep_error *err)
{
    if (rc == ZEP_OK)
        cross_check(job, m);
    if (rc == ZEP_OK)
        rc = take_mistakes(m, err);
    zep_buf_free(&m->text);
    zep_buf_free(&m->keys);
    if (rc < 0)
        zep_job_free(job);
    else
        *job_out = job;
    return rc;
}

int zep_job_load(const char *path, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err)
{
    struct mistakes m = {ZEP_BUF_INIT, 0, ZEP_BUF_INIT};
    struct zep_job *job;
    int rc;

    if ((rc = new_job(&job, err)) < 0)
        return rc;
    rc = merge_configs(job, &m, err);
    if (rc == ZEP_OK && path)
        rc = merge_file(job, path, &m, err);
    if (rc == ZEP_OK)
        apply_sets(job, sets, n_set, &m);
    return finish(job, &m, rc, job_out, err);
}

int zep_job_parse(const char *name, const char *text, size_t len, struct zep_job **job_out, struct zep_error *err)
{
    struct mistakes m = {ZEP_BUF_INIT, 0, ZEP_BUF_INIT};
    struct zep_yaml *doc = NULL;
    struct zep_job *job;
    int rc;

    if ((rc = new_job(&job, err)) < 0)
        return rc;
    if ((rc = zep_yaml_load(name, text, len, &doc, err)) == ZEP_OK)
        rc = merge_doc(job, doc, &m, err);
    zep_yaml_free(doc);
    return finish(job, &m, rc, job_out, err);
}
