#include "config.h"
#include "common/yaml.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/fs.h"
#include "common/units.h"

#define MAX_BYTES ((size_t)64 << 20)
#define MAX_DEPTH 64

struct zep_yaml {
    struct zep_arena *arena;
    const char *name;
    struct zep_yaml_node *root;
};

struct reader {
    struct zep_yaml *doc;
    yaml_parser_t parser;
    struct zep_error *err;
    struct zep_mistakes *mistakes; /* that do not keep the rest from being read; NULL: the first one ends it */
};

static int fail_at(struct reader *r, size_t line, const char *fmt, ...) ZEP_PRINTF(3, 4);

static int fail_at(struct reader *r, size_t line, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(r->err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    zep_error_prefix(r->err, "%s:%zu", r->doc->name, line + 1);
    return ZEP_EINVAL;
}

static int next(struct reader *r, yaml_event_t *e)
{
    if (yaml_parser_parse(&r->parser, e))
        return ZEP_OK;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return zep_error_nomem(r->err, r->doc->name);
    return fail_at(r, r->parser.problem_mark.line, "not valid YAML: %s", r->parser.problem ? r->parser.problem : "unknown problem");
}

static int read_node(struct reader *r, yaml_event_t *e, int depth, struct zep_yaml_node **out);

static int append(struct reader *r, struct zep_yaml_node *n, int *cap, struct zep_yaml_node *child, const char *key, int key_line)
{
    if (n->n == *cap) {
        int more = *cap ? 2 * *cap : 8;
        struct zep_yaml_node **c = zep_arena_alloc(r->doc->arena, (size_t)more, sizeof *c);
        const char **k = key ? zep_arena_alloc(r->doc->arena, (size_t)more, sizeof *k) : NULL;
        int *l = key ? zep_arena_alloc(r->doc->arena, (size_t)more, sizeof *l) : NULL;

        if (!c || (key && (!k || !l)))
            return zep_error_nomem(r->err, r->doc->name);
        if (n->n) {
            memcpy(c, n->child, (size_t)n->n * sizeof *c);
            if (key) {
                memcpy(k, n->keys, (size_t)n->n * sizeof *k);
                memcpy(l, n->key_lines, (size_t)n->n * sizeof *l);
            }
        }
        n->child = c;
        n->keys = k;
        n->key_lines = l;
        *cap = more;
    }
    n->child[n->n] = child;
    if (key) {
        n->keys[n->n] = key;
        ((int *)n->key_lines)[n->n] = key_line;
    }
    n->n++;
    return ZEP_OK;
}

static int by_key(const void *a, const void *b)
{
    const char *const *x = *(const char *const *const *)a, *const *y = *(const char *const *const *)b;
    int c = strcmp(*x, *y);

    return c ? c : (x > y) - (x < y);
}

/* Duplicates by sorting, so that a map of 10^5 keys stays quick. */
static int check_duplicates(struct reader *r, const struct zep_yaml_node *n)
{
    const char ***sorted = zep_calloc((size_t)n->n + 1, sizeof *sorted);
    int rc = ZEP_OK;

    if (!sorted)
        return zep_error_nomem(r->err, r->doc->name);
    for (int i = 0; i < n->n; i++)
        sorted[i] = &n->keys[i];
    if (n->n > 1)
        qsort(sorted, (size_t)n->n, sizeof *sorted, by_key);
    for (int i = 1; i < n->n && rc == ZEP_OK; i++)
        if (strcmp(*sorted[i - 1], *sorted[i]) == 0) {
            rc = fail_at(r, (size_t)n->key_lines[sorted[i] - n->keys] - 1, "duplicate key '%s' (first on line %d)", *sorted[i], n->key_lines[sorted[i - 1] - n->keys]);
            if (r->mistakes) {
                zep_mistakes_add(r->mistakes, NULL, rc, "%s", r->err->text);
                rc = ZEP_OK;
            }
        }
    free(sorted);
    return rc;
}

static int read_scalar(struct reader *r, const yaml_event_t *e, struct zep_yaml_node *n)
{
    const char *s = (const char *)e->data.scalar.value;
    char *copy;

    if (e->data.scalar.anchor || e->data.scalar.tag)
        return fail_at(r, e->start_mark.line, "anchors and tags are not supported");
    if (strlen(s) != e->data.scalar.length)
        return fail_at(r, e->start_mark.line, "a NUL character inside a value");
    if (!(copy = zep_arena_strdup(r->doc->arena, s)))
        return zep_error_nomem(r->err, r->doc->name);
    n->type = ZEP_YAML_SCALAR;
    n->scalar = copy;
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return ZEP_OK;
}

/* The children of a sequence or mapping, up to its end event. */
static int read_children(struct reader *r, struct zep_yaml_node *n, int depth)
{
    yaml_event_type_t end = n->type == ZEP_YAML_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    const char *key = NULL;
    int key_line = 0, cap = 0, rc;
    yaml_event_t e;

    for (;;) {
        struct zep_yaml_node *child;

        if ((rc = next(r, &e)) < 0)
            return rc;
        if (e.type == end) {
            yaml_event_delete(&e);
            return n->type == ZEP_YAML_MAP ? check_duplicates(r, n) : ZEP_OK;
        }
        rc = read_node(r, &e, depth, &child);
        yaml_event_delete(&e);
        if (rc < 0)
            return rc;
        if (n->type == ZEP_YAML_MAP && !key) {
            if (child->type != ZEP_YAML_SCALAR)
                return fail_at(r, (size_t)child->line - 1, "expected a plain word as key");
            key = child->scalar;
            key_line = child->line;
            continue;
        }
        if ((rc = append(r, n, &cap, child, key, key_line)) < 0)
            return rc;
        key = NULL;
    }
}

static int read_node(struct reader *r, yaml_event_t *e, int depth, struct zep_yaml_node **out)
{
    struct zep_yaml_node *n = zep_arena_alloc(r->doc->arena, 1, sizeof *n);
    int rc;

    if (!n)
        return zep_error_nomem(r->err, r->doc->name);
    if (depth > MAX_DEPTH)
        return fail_at(r, e->start_mark.line, "nested deeper than %d levels", MAX_DEPTH);
    n->line = (int)e->start_mark.line + 1;
    n->col = (int)e->start_mark.column + 1;
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        rc = read_scalar(r, e, n);
        break;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        n->type = e->type == YAML_MAPPING_START_EVENT ? ZEP_YAML_MAP : ZEP_YAML_SEQ;
        if (e->type == YAML_MAPPING_START_EVENT ? e->data.mapping_start.anchor || e->data.mapping_start.tag
                                                : e->data.sequence_start.anchor || e->data.sequence_start.tag)
            return fail_at(r, e->start_mark.line, "anchors and tags are not supported");
        rc = read_children(r, n, depth + 1);
        break;
    case YAML_ALIAS_EVENT:
        return fail_at(r, e->start_mark.line, "aliases are not supported");
    default:
        return fail_at(r, e->start_mark.line, "unexpected end of the document");
    }
    if (rc == ZEP_OK)
        *out = n;
    return rc;
}

static int read_document(struct reader *r)
{
    yaml_event_t e;
    int rc;

    for (;;) { /* to the first node */
        if ((rc = next(r, &e)) < 0)
            return rc;
        if (e.type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&e);
            return zep_error_set(r->err, ZEP_EINVAL, "%s: empty, expected YAML", r->doc->name);
        }
        if (e.type != YAML_STREAM_START_EVENT && e.type != YAML_DOCUMENT_START_EVENT)
            break;
        yaml_event_delete(&e);
    }
    rc = read_node(r, &e, 0, &r->doc->root);
    yaml_event_delete(&e);
    while (rc == ZEP_OK) {
        size_t line;
        int done, again;

        if ((rc = next(r, &e)) < 0)
            break;
        line = e.start_mark.line;
        done = e.type == YAML_STREAM_END_EVENT;
        again = e.type == YAML_DOCUMENT_START_EVENT;
        yaml_event_delete(&e);
        if (again)
            return fail_at(r, line, "a second document: expected one in a file");
        if (done)
            break;
    }
    if (rc == ZEP_OK && zep_yaml_is_null(r->doc->root))
        return zep_error_set(r->err, ZEP_EINVAL, "%s: empty, expected YAML", r->doc->name);
    return rc;
}

static int load(const char *name, const char *text, size_t len, struct zep_mistakes *m, struct zep_yaml **doc_out, struct zep_error *err)
{
    struct zep_yaml *doc = zep_calloc(1, sizeof *doc);
    struct reader r = {.doc = doc, .err = err, .mistakes = m};
    struct zep_error local;
    int rc;

    if (!err)
        r.err = &local;
    if (!doc || !(doc->arena = zep_arena_new(0)) || !(doc->name = zep_arena_strdup(doc->arena, name)) || !yaml_parser_initialize(&r.parser)) {
        zep_yaml_free(doc);
        return zep_error_nomem(err, name);
    }
    if (len > MAX_BYTES) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s: larger than %zu bytes", name, MAX_BYTES);
    } else {
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
        rc = read_document(&r);
    }
    yaml_parser_delete(&r.parser);
    if (rc < 0)
        zep_yaml_free(doc);
    else
        *doc_out = doc;
    return rc;
}

int zep_yaml_load(const char *name, const char *text, size_t len, struct zep_yaml **doc_out, struct zep_error *err)
{
    return load(name, text, len, NULL, doc_out, err);
}

int zep_yaml_load_file_all(const char *path, struct zep_mistakes *m, struct zep_yaml **doc_out, struct zep_error *err)
{
    char *text;
    size_t len;
    int rc;

    if ((rc = zep_fs_read(path, MAX_BYTES, &text, &len, err)) < 0)
        return rc;
    rc = load(path, text, len, m, doc_out, err);
    free(text);
    return rc;
}

int zep_yaml_load_file(const char *path, struct zep_yaml **doc_out, struct zep_error *err)
{
    return zep_yaml_load_file_all(path, NULL, doc_out, err);
}

void zep_yaml_free(struct zep_yaml *doc)
{
    if (!doc)
        return;
    zep_arena_free(doc->arena);
    free(doc);
}

const struct zep_yaml_node *zep_yaml_root(const struct zep_yaml *doc)
{
    return doc->root;
}

const char *zep_yaml_name(const struct zep_yaml *doc)
{
    return doc->name;
}

const struct zep_yaml_node *zep_yaml_get(const struct zep_yaml_node *map, const char *key)
{
    if (map && map->type == ZEP_YAML_MAP)
        for (int i = 0; i < map->n; i++)
            if (strcmp(map->keys[i], key) == 0)
                return map->child[i];
    return NULL;
}

int zep_yaml_error(const struct zep_yaml *doc, const struct zep_yaml_node *node, struct zep_error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    zep_error_prefix(err, "%s:%d", doc->name, node ? node->line : 1);
    return ZEP_EINVAL;
}

int zep_yaml_is_null(const struct zep_yaml_node *node)
{
    return node->type == ZEP_YAML_SCALAR && !node->quoted &&
           (!*node->scalar || strcmp(node->scalar, "~") == 0 || strcmp(node->scalar, "null") == 0 || strcmp(node->scalar, "Null") == 0 || strcmp(node->scalar, "NULL") == 0);
}

/* Edit distance with transpositions of neighbours; both words are short. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), d[3][66];

    if (n > 64 || m > 64)
        return 64;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = d[i % 3], *prev = d[(i + 2) % 3], *prev2 = d[(i + 1) % 3];

        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = prev[j - 1] + (a[i - 1] != b[j - 1]);

            best = prev[j] + 1 < best ? prev[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && prev2[j - 2] + 1 < best)
                best = prev2[j - 2] + 1;
            now[j] = best;
        }
    }
    return d[n % 3][m];
}

const char *zep_nearest(const char *word, const char *const *names)
{
    int limit = ((int)strlen(word) + 2) / 3, best = limit + 1;
    const char *found = NULL;

    for (; *names; names++) {
        int d = distance(word, *names);

        if (d < best) {
            best = d;
            found = *names;
        }
    }
    return found;
}

int zep_yaml_check_keys(const struct zep_yaml *doc, const struct zep_yaml_node *map, const char *const *known, struct zep_error *err)
{
    if (map->type != ZEP_YAML_MAP)
        return zep_yaml_error(doc, map, err, "expected a mapping (key: value)");
    for (int i = 0; i < map->n; i++) {
        const char *const *k = known;
        const char *near;

        while (*k && strcmp(*k, map->keys[i]) != 0)
            k++;
        if (*k)
            continue;
        near = zep_nearest(map->keys[i], known);
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: unknown key '%s'%s%s%s", doc->name, map->key_lines[i], map->keys[i], near ? " (did you mean '" : "",
                             near ? near : "", near ? "'?)" : "");
    }
    return ZEP_OK;
}

/* Would a reader take the plain word for a number, a boolean or null? YAML 1.1 words too. */
static int looks_typed(const char *s)
{
    static const char *const words[] = {"null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", NULL};

    for (int i = 0; words[i]; i++)
        if (strcasecmp(s, words[i]) == 0)
            return 1;
    return (*s >= '0' && *s <= '9') || ((*s == '+' || *s == '-' || *s == '.') && s[1] >= '0' && s[1] <= '9');
}

static int plain_ok(const char *s)
{
    if (!*s || looks_typed(s) || strchr("-?:,[]{}#&*!|>'\"%@`. \t=<", *s) || s[strlen(s) - 1] == ' ' || s[strlen(s) - 1] == ':')
        return 0;
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f || strchr("{}[],", *p) || (*p == ':' && p[1] == ' ') || (*p == '#' && p[-1] == ' '))
            return 0;
    return 1;
}

void zep_yaml_emit_scalar(struct zep_buf *b, const char *s)
{
    unsigned code;
    int n = 1;

    if (plain_ok(s)) {
        zep_buf_puts(b, s);
        return;
    }
    zep_buf_puts(b, "\"");
    for (; *s; s += n ? n : 1) {
        n = 1;
        if (*s == '"' || *s == '\\')
            zep_buf_printf(b, "\\%c", *s);
        else if (*s == '\n')
            zep_buf_puts(b, "\\n");
        else if (*s == '\t')
            zep_buf_puts(b, "\\t");
        else if (!(n = zep_utf8_next(s, &code)) || zep_utf8_prints(code)) /* what is no UTF-8 stays, and no reader takes it */
            zep_buf_add(b, s, (size_t)(n ? n : 1));
        else
            zep_buf_printf(b, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    }
    zep_buf_puts(b, "\"");
}

int zep_yaml_string(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, const char **out, struct zep_error *err)
{
    if (n->type != ZEP_YAML_SCALAR)
        return zep_yaml_error(doc, n, err, "%s: expected a single value", what);
    *out = n->scalar;
    return ZEP_OK;
}

static int number_text(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, const char *expected, const char **out, struct zep_error *err)
{
    int rc;

    if ((rc = zep_yaml_string(doc, n, what, out, err)) < 0)
        return rc;
    if (n->quoted)
        return zep_yaml_error(doc, n, err, "%s '%s': expected %s without quotes", what, n->scalar, expected);
    return ZEP_OK;
}

static int place(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, int rc, struct zep_error *err)
{
    if (rc < 0)
        zep_error_prefix(err, "%s:%d: %s", doc->name, n->line, what);
    return rc;
}

int zep_yaml_int(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, int64_t min, int64_t max, int64_t *out, struct zep_error *err)
{
    const char *s = "";
    int rc;

    if ((rc = number_text(doc, n, what, "a whole number", &s, err)) < 0)
        return rc;
    return place(doc, n, what, zep_parse_int(s, min, max, out, err), err);
}

int zep_yaml_double(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, double min, double max, double *out, struct zep_error *err)
{
    const char *s = "";
    int rc;

    if ((rc = number_text(doc, n, what, "a number", &s, err)) < 0)
        return rc;
    return place(doc, n, what, zep_parse_double(s, min, max, out, err), err);
}

int zep_yaml_bool(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, int *out, struct zep_error *err)
{
    const char *s = "";
    int rc;

    if ((rc = number_text(doc, n, what, "true or false", &s, err)) < 0)
        return rc;
    if (strcmp(s, "true") != 0 && strcmp(s, "false") != 0)
        return zep_yaml_error(doc, n, err, "%s '%s': expected true or false", what, s);
    *out = *s == 't';
    return ZEP_OK;
}
