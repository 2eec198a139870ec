#include "config.h"
#include "topology/slurm_lines.h"

#include <ctype.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/encode.h"
#include "common/fs.h"
#include "common/yaml.h"

#define MAX_DEPTH 8
#define MAX_FILE ((size_t)64 << 20)

struct source {
    const char *file;
    int depth;
    zep_slurm_line_fn fn;
    void *arg;
};

static int fail(const struct source *s, int line, struct zep_error *err, const char *fmt, ...) ZEP_PRINTF(4, 5);

static int fail(const struct source *s, int line, struct zep_error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    zep_error_prefix(err, "%s:%d", s->file, line);
    return ZEP_EINVAL;
}

int zep_slurm_line_error(const struct zep_slurm_line *l, struct zep_error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    zep_error_prefix(err, "%s:%d", l->file, l->line);
    return ZEP_EINVAL;
}

const char *zep_slurm_value(const struct zep_slurm_line *l, const char *key)
{
    for (int i = 0; i < l->n; i++)
        if (!strcasecmp(l->key[i], key))
            return l->value[i];
    return NULL;
}

int zep_slurm_line_keys(const struct zep_slurm_line *l, const char *const *known, struct zep_error *err)
{
    for (int i = 0; i < l->n; i++) {
        int k = 0;

        while (known[k] && strcasecmp(known[k], l->key[i]))
            k++;
        if (!known[k]) {
            const char *near = zep_nearest(l->key[i], known);

            return zep_slurm_line_error(l, err, "unknown key '%.60s'%s%s%s", l->key[i], near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
        }
        for (k = 0; k < i; k++)
            if (!strcasecmp(l->key[k], l->key[i]))
                return zep_slurm_line_error(l, err, "'%.60s' is given twice", l->key[i]);
    }
    return ZEP_OK;
}

/* Cuts a comment: the first '#' that does not follow an odd number of backslashes. */
static size_t without_comment(const char *p, size_t len)
{
    size_t slashes = 0;

    for (size_t i = 0; i < len; i++) {
        if (p[i] == '#' && slashes % 2 == 0)
            return i;
        slashes = p[i] == '\\' ? slashes + 1 : 0;
    }
    return len;
}

/* A line whose last visible character is the end of an odd run of backslashes goes on; its length without that one, else -1. */
static long continued(const char *p, size_t len)
{
    size_t end = len, n = 0;

    while (end > 0 && isspace((unsigned char)p[end - 1]))
        end--;
    while (n < end && p[end - 1 - n] == '\\')
        n++;
    return n % 2 ? (long)end - 1 : -1;
}

/* A backslash stands for the character that follows it. */
static void strip_escapes(char *s)
{
    char *out = s;

    for (; *s; s++) {
        if (*s == '\\' && s[1])
            s++;
        *out++ = *s;
    }
    *out = '\0';
}

static int read_text(struct source *s, const char *text, size_t len, struct zep_error *err);

static int include(const struct source *s, int line, const char *name, struct zep_error *err)
{
    char *copy = strdup(s->file), *path = NULL, *text = NULL;
    struct source inner = *s;
    size_t len;
    int rc;

    if (copy)
        path = name[0] == '/' ? strdup(name) : zep_fs_join(dirname(copy), name);
    if (!path) {
        rc = zep_error_nomem(err, s->file);
    } else if (s->depth == MAX_DEPTH) {
        rc = fail(s, line, err, "Include '%.200s': more than %d files inside each other", name, MAX_DEPTH);
    } else if ((rc = zep_fs_read(path, MAX_FILE, &text, &len, err)) < 0) {
        zep_error_prefix(err, "%s:%d: Include", s->file, line);
    } else {
        inner.file = path;
        inner.depth++;
        rc = read_text(&inner, text, len, err);
    }
    free(text);
    free(path);
    free(copy);
    return rc;
}

/* One pair at *p, which is moved behind it: KEY = VALUE or KEY = "VALUE WITH BLANKS". */
static int take_pair(const struct source *s, struct zep_slurm_line *l, char **p, struct zep_error *err)
{
    char *key = *p, *end = key, *value, *stop;

    while (isalnum((unsigned char)*end) || *end == '_' || *end == '.' || *end == '-')
        end++;
    stop = end + strspn(end, " \t");
    if (end == key || *stop != '=')
        return fail(s, l->line, err, "'%.*s': expected KEY=VALUE", (int)strcspn(key, "\n") > 80 ? 80 : (int)strcspn(key, "\n"), key);
    value = stop + 1 + strspn(stop + 1, " \t");
    *end = '\0';
    if (*value == '"') {
        stop = strchr(++value, '"');
        if (!stop)
            return fail(s, l->line, err, "%.60s: '\"' without its end", key);
    } else {
        stop = value + strcspn(value, " \t\r\n");
    }
    if (stop == value && value[-1] != '"')
        return fail(s, l->line, err, "%.60s: no value", key);
    if (l->n == ZEP_SLURM_PAIRS)
        return fail(s, l->line, err, "more than %d values on one line", ZEP_SLURM_PAIRS);
    *p = *stop ? stop + 1 : stop;
    *stop = '\0';
    if (!zep_text_is_clean(value)) {
        zep_text_clean(value);
        return fail(s, l->line, err, "%.60s: '%.200s': expected text without control characters, in UTF-8", key, value);
    }
    l->key[l->n] = key;
    l->value[l->n++] = value;
    return ZEP_OK;
}

/* A whole logical line, which is changed. */
static int take_line(const struct source *s, char *text, int line, struct zep_error *err)
{
    struct zep_slurm_line l = {.file = s->file, .line = line};
    char *p = text;
    int rc;

    for (p += strspn(p, " \t\r\n\f\v"); *p; p += strspn(p, " \t\r\n\f\v")) {
        if (l.n == 0 && !strncasecmp(p, "include", 7) && (p[7] == ' ' || p[7] == '\t')) {
            char *name = p + 7 + strspn(p + 7, " \t");

            name[strcspn(name, " \t\r\n")] = '\0';
            return *name ? include(s, line, name, err) : fail(s, line, err, "Include: expected a file");
        }
        if ((rc = take_pair(s, &l, &p, err)) < 0)
            return rc;
    }
    return l.n ? s->fn(s->arg, &l, err) : ZEP_OK;
}

static int read_text(struct source *s, const char *text, size_t len, struct zep_error *err)
{
    const char *end = text + len;
    struct zep_buf b = ZEP_BUF_INIT;
    int line = 0, first = 0, rc = ZEP_OK;

    if (memchr(text, '\0', len))
        return fail(s, 1, err, "a NUL character: expected text");
    while (text < end && rc == ZEP_OK) {
        const char *nl = memchr(text, '\n', (size_t)(end - text)), *stop = nl ? nl : end;
        size_t n = without_comment(text, (size_t)(stop - text));
        long joined = continued(text, n);

        line++;
        if (!b.len)
            first = line;
        zep_buf_add(&b, text, joined >= 0 ? (size_t)joined : n);
        text = nl ? nl + 1 : end;
        if ((rc = zep_buf_ok(&b, err)) < 0 || (joined >= 0 && text < end))
            continue;
        if (b.data) {
            strip_escapes(b.data);
            rc = take_line(s, b.data, first, err);
        }
        b.len = 0;
    }
    zep_buf_free(&b);
    return rc;
}

int zep_slurm_lines(const char *path, const char *text, size_t len, zep_slurm_line_fn fn, void *arg, struct zep_error *err)
{
    struct source s = {.file = path, .fn = fn, .arg = arg};

    return read_text(&s, text, len, err);
}

int zep_slurm_lines_of(const char *path, int line, char *text, zep_slurm_line_fn fn, void *arg, struct zep_error *err)
{
    const struct source s = {.file = path, .fn = fn, .arg = arg};
    int rc = ZEP_OK;
    char *save = NULL;

    for (char *p = strtok_r(text, "\n", &save); p && rc == ZEP_OK; p = strtok_r(NULL, "\n", &save))
        rc = take_line(&s, p, line, err);
    return rc;
}
