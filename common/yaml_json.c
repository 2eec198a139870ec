/* JSON written as YAML. */
#include "config.h"
#include "common/yaml.h"

#include <jansson.h>
#include <string.h>

#include "common/encode.h"

#define STEP 2

static void indent(struct zep_buf *b, int n)
{
    zep_buf_printf(b, "%*s", n, "");
}

/* A literal block has no escapes, takes its indentation from the first line, and one line feed at its end. */
static int can_be_block(const char *s)
{
    size_t n = strlen(s);
    struct zep_buf line = ZEP_BUF_INIT;
    int ok = n > 1 && strchr(s, '\n') && *s != ' ' && *s != '\n' && *s != '\t' && s[n - 1] == '\n' && s[n - 2] != '\n';

    for (const char *p = s; ok && *p; p += strcspn(p, "\n"), p += *p == '\n') {
        line.len = 0;
        zep_buf_add(&line, p, strcspn(p, "\n"));
        ok = !line.failed && (!line.len || zep_text_is_clean(line.data));
    }
    zep_buf_free(&line);
    return ok;
}

static void put_text(struct zep_buf *b, const char *s, int depth)
{
    if (!can_be_block(s)) {
        zep_yaml_emit_scalar(b, s);
        return;
    }
    zep_buf_puts(b, "|");
    for (const char *p = s; *p; p++) {
        size_t n = strcspn(p, "\n");

        zep_buf_puts(b, "\n");
        if (n)
            indent(b, depth);
        zep_buf_add(b, p, n);
        p += n;
    }
}

static void put_scalar(struct zep_buf *b, const json_t *v, int depth)
{
    if (json_is_string(v))
        put_text(b, json_string_value(v), depth);
    else if (json_is_integer(v))
        zep_buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        zep_buf_printf(b, "%.17g", json_real_value(v));
    else if (json_is_object(v) || json_is_array(v))
        zep_buf_puts(b, json_is_object(v) ? "{}" : "[]");
    else
        zep_buf_puts(b, json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
}

static int is_block(const json_t *v)
{
    return (json_is_object(v) && json_object_size(v)) || (json_is_array(v) && json_array_size(v));
}

static void put_list(struct zep_buf *b, const json_t *list, int depth);

/* first: the first key stands behind what is on the line already ("- "). */
static void put_map(struct zep_buf *b, const json_t *map, int depth, int first)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)map, key, v) {
        if (!first)
            indent(b, depth);
        first = 0;
        zep_yaml_emit_scalar(b, key);
        zep_buf_puts(b, ":");
        if (!is_block(v)) {
            zep_buf_puts(b, " ");
            put_scalar(b, v, depth + STEP);
            zep_buf_puts(b, "\n");
        } else if (json_is_array(v)) {
            zep_buf_puts(b, "\n");
            put_list(b, v, depth);
        } else {
            zep_buf_puts(b, "\n");
            put_map(b, v, depth + STEP, 0);
        }
    }
}

static void put_list(struct zep_buf *b, const json_t *list, int depth)
{
    size_t i;
    json_t *v;

    json_array_foreach((json_t *)list, i, v) {
        indent(b, depth);
        zep_buf_puts(b, "-");
        if (json_is_array(v) && is_block(v)) {
            zep_buf_puts(b, "\n");
            put_list(b, v, depth + STEP);
            continue;
        }
        zep_buf_puts(b, " ");
        if (is_block(v)) {
            put_map(b, v, depth + STEP, 1);
        } else {
            put_scalar(b, v, depth + STEP);
            zep_buf_puts(b, "\n");
        }
    }
}

void zep_yaml_emit_json(struct zep_buf *b, const json_t *value)
{
    if (is_block(value)) {
        json_is_array(value) ? put_list(b, value, 0) : put_map(b, value, 0, 1);
    } else {
        put_scalar(b, value, 0);
        zep_buf_puts(b, "\n");
    }
}
