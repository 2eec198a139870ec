/* The job file as text: the whole job, and a commented template. */
#include "config.h"
#include "common/job_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/yaml.h"

static void put_double(struct zep_buf *b, double x)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    zep_buf_puts(b, text);
}

int zep_job_value_text(const struct zep_job *job, const struct zep_job_key *key, struct zep_buf *b)
{
    const void *field = job_field(job, key);
    char time[ZEP_UNIT_BUF];

    switch (key->type) {
    case ZEP_JOB_INT:
    case ZEP_JOB_COUNT:
        if (key->choices && *(const int64_t *)field == 0)
            zep_buf_puts(b, key->choices);
        else
            zep_buf_printf(b, "%" PRId64, *(const int64_t *)field);
        break;
    case ZEP_JOB_FLOAT:
        if (key->choices && *(const double *)field == 0)
            zep_buf_puts(b, key->choices);
        else
            put_double(b, *(const double *)field);
        break;
    case ZEP_JOB_TIME:
        zep_buf_puts(b, key->choices && *(const double *)field == 0 ? key->choices : zep_format_time(*(const double *)field, time));
        break;
    case ZEP_JOB_BOOL:
        zep_buf_puts(b, *(const int *)field ? "true" : "false");
        break;
    case ZEP_JOB_MAP:
    case ZEP_JOB_ENV:
    case ZEP_JOB_SECRETS:
        break; /* has no value of its own */
    default:
        zep_yaml_emit_scalar(b, *(char *const *)field);
        break;
    }
    return b->failed ? ZEP_ENOMEM : ZEP_OK;
}

/* Begins a section where the key's differs from the one before; returns the key's last part. */
static const char *begin_line(struct zep_buf *b, const char *name, char section[64], const char *gap)
{
    const char *dot = strchr(name, '.');
    size_t len = dot ? (size_t)(dot - name) : 0;

    if (!dot)
        return name;
    if (strlen(section) != len || strncmp(section, name, len)) {
        snprintf(section, 64, "%.*s", (int)len, name);
        zep_buf_printf(b, "%s%s:\n", gap, section);
    }
    zep_buf_puts(b, "  ");
    return dot + 1;
}

static void put_origin(struct zep_buf *b, size_t start, const char *origin)
{
    int pad = 40 - (int)(b->len - start);

    zep_buf_printf(b, "%*s# %s", pad > 1 ? pad : 1, "", origin);
}

static void put_map(struct zep_buf *b, const struct zep_job_key *key, const struct zep_job_map *map, int with_origin)
{
    for (int i = 0; i < map->n; i++) {
        const struct zep_job_pair *p = &map->pair[i];
        const char *arg = key->type == ZEP_JOB_SECRETS ? strchr(p->value, ':') : NULL;
        size_t start = b->len;

        zep_buf_puts(b, "    ");
        zep_yaml_emit_scalar(b, p->name);
        if (arg)
            zep_buf_printf(b, ": {%.*s: ", (int)(arg - p->value), p->value);
        else
            zep_buf_puts(b, ": ");
        zep_yaml_emit_scalar(b, arg ? arg + 1 : p->value);
        zep_buf_puts(b, arg ? "}" : "");
        if (with_origin)
            put_origin(b, start, p->origin);
        zep_buf_puts(b, "\n");
    }
}

int zep_job_to_yaml(const struct zep_job *job, int with_origin, struct zep_buf *b, struct zep_error *err)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    char section[64] = "";

    for (int i = 0; i < n; i++) {
        const char *last = begin_line(b, key[i].name, section, "");
        size_t start = b->len - (strchr(key[i].name, '.') ? 2 : 0);
        const struct zep_job_map *map = job_is_map(key[i].type) ? job_field(job, &key[i]) : NULL;

        zep_buf_printf(b, "%s:", last);
        if (map && map->n) {
            zep_buf_puts(b, "\n");
            put_map(b, &key[i], map, with_origin);
            continue;
        }
        zep_buf_puts(b, map ? " {}" : " ");
        zep_job_value_text(job, &key[i], b);
        if (with_origin)
            put_origin(b, start, ((const struct job_full *)job)->origin[i].text);
        zep_buf_puts(b, "\n");
    }
    return zep_buf_ok(b, err);
}

int zep_job_template(struct zep_buf *b, struct zep_error *err)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    char section[64] = "";

    zep_buf_puts(b, "# A zeppelin job. Every key has a default, which is the value shown; lines that are as they should be may be left out.\n");
    for (int i = 0; i < n; i++) {
        const char *dot = strchr(key[i].name, '.');
        size_t len = dot ? (size_t)(dot - key[i].name) : 0;
        int fresh = dot && (strlen(section) != len || strncmp(section, key[i].name, len));

        if (fresh) {
            snprintf(section, sizeof section, "%.*s", (int)len, key[i].name);
            zep_buf_printf(b, "\n%s:\n", section);
        }
        zep_buf_printf(b, "%s# %s", dot ? "  " : "", key[i].help);
        if (key[i].unit)
            zep_buf_printf(b, " (%s)", key[i].unit);
        if (key[i].type == ZEP_JOB_CHOICE) {
            zep_buf_puts(b, ": ");
            for (const char *p = key[i].choices; *p; p++)
                *p == '|' ? zep_buf_puts(b, ", ") : zep_buf_add(b, p, 1);
        }
        zep_buf_printf(b, "\n%s%s: ", dot ? "  " : "", dot ? dot + 1 : key[i].name);
        if (job_is_text(key[i].type))
            zep_yaml_emit_scalar(b, key[i].dflt);
        else
            zep_buf_puts(b, key[i].dflt);
        zep_buf_puts(b, "\n");
    }
    return zep_buf_ok(b, err);
}
