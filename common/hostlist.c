#include "config.h"
#include "common/hostlist.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/buf.h"

#define MAX_RANGE 65536
#define MAX_BRACKETS 16
#define MAX_DIGITS 15

struct range {
    uint64_t lo, n;
    int width;
};

struct bracket { /* "prefix[ranges]" */
    const char *prefix;
    int prefix_len;
    int n_range;
    struct range *range;
    uint64_t n; /* values */
};

static int bad(struct zep_error *err, const char *expr, size_t len, const char *why)
{
    return zep_error_set(err, ZEP_EINVAL, "host list '%.*s': %s", len > 200 ? 200 : (int)len, expr, why);
}

static int bad_range(struct zep_error *err, const char *s, size_t len, const char *why)
{
    return zep_error_set(err, ZEP_EINVAL, "host list range '%.*s': %s", len > 200 ? 200 : (int)len, s, why);
}

static int parse_range(const char *s, size_t len, struct range *out, struct zep_error *err)
{
    const char *end = s + len, *p = s;
    uint64_t lo = 0, hi;

    while (p < end && isdigit((unsigned char)*p))
        lo = lo * 10 + (uint64_t)(*p++ - '0');
    if (p == s || p - s > MAX_DIGITS)
        return bad_range(err, s, len, "expected a number, or two with '-' between");
    out->width = (int)(p - s);
    hi = lo;
    if (p < end) {
        const char *q = ++p;

        hi = 0;
        while (p < end && isdigit((unsigned char)*p))
            hi = hi * 10 + (uint64_t)(*p++ - '0');
        if (q[-1] != '-' || p == q || p != end || p - q > MAX_DIGITS)
            return bad_range(err, s, len, "expected a number, or two with '-' between");
    }
    if (hi < lo)
        return bad_range(err, s, len, "the second number is smaller than the first");
    if (hi - lo >= MAX_RANGE)
        return bad_range(err, s, len, "more than 65536 names");
    out->lo = lo;
    out->n = hi - lo + 1;
    return ZEP_OK;
}

/* The inside of a bracket. */
static int parse_ranges(const char *s, size_t len, struct bracket *b, struct zep_error *err)
{
    const char *end = s + len;
    int n = 1, rc;

    for (const char *p = s; p < end; p++)
        n += *p == ',';
    if (!(b->range = zep_calloc((size_t)n, sizeof *b->range)))
        return zep_error_nomem(err, "host list");
    b->n_range = n;
    for (int i = 0; i < n; i++) {
        const char *comma = memchr(s, ',', (size_t)(end - s));

        if (!comma)
            comma = end;
        if ((rc = parse_range(s, (size_t)(comma - s), &b->range[i], err)) < 0)
            return rc;
        b->n += b->range[i].n;
        s = comma + 1;
    }
    return ZEP_OK;
}

static int add_name(struct zep_hostlist *out, int *cap, struct zep_buf *name, struct zep_error *err)
{
    if (out->n >= ZEP_HOSTLIST_MAX)
        return zep_error_set(err, ZEP_EINVAL, "host list: more than %d names", ZEP_HOSTLIST_MAX);
    if (out->n == *cap) {
        int more = *cap ? 2 * *cap : 64;
        char **p = zep_reallocarray(out->name, (size_t)more, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "host list");
        out->name = p;
        *cap = more;
    }
    if (name->failed || !(out->name[out->n] = strndup(name->data, name->len)))
        return zep_error_nomem(err, "host list");
    out->n++;
    return ZEP_OK;
}

static void put_value(struct zep_buf *b, const struct bracket *br, uint64_t index)
{
    for (int i = 0; i < br->n_range; i++) {
        if (index < br->range[i].n) {
            zep_buf_printf(b, "%.*s%0*" PRIu64, br->prefix_len, br->prefix, br->range[i].width, br->range[i].lo + index);
            return;
        }
        index -= br->range[i].n;
    }
}

/* Slurm's order: the last bracket runs fastest, then the first, then the second ... */
static int expand_brackets(const struct bracket *b, int n, struct zep_hostlist *out, int *cap, struct zep_error *err)
{
    uint64_t index[MAX_BRACKETS] = {0}, total = 1;
    struct zep_buf name = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    for (int i = 0; i < n; i++) {
        if (b[i].n > ZEP_HOSTLIST_MAX / total)
            return zep_error_set(err, ZEP_EINVAL, "host list: more than %d names", ZEP_HOSTLIST_MAX);
        total *= b[i].n;
    }
    for (uint64_t k = 0; k < total && rc == ZEP_OK; k++) {
        name.len = 0;
        for (int i = 0; i < n; i++)
            put_value(&name, &b[i], index[i]);
        rc = add_name(out, cap, &name, err);
        for (int j = 0; j < n; j++) {
            int i = j == 0 ? n - 1 : j - 1;

            if (++index[i] < b[i].n)
                break;
            index[i] = 0;
        }
    }
    zep_buf_free(&name);
    return rc;
}

static int parse_element(const char *s, size_t len, struct zep_hostlist *out, int *cap, struct zep_error *err)
{
    struct bracket b[MAX_BRACKETS] = {0};
    const char *p = s, *end = s + len;
    int n = 0, rc = ZEP_OK;

    if (!memchr(s, '[', len)) {
        struct zep_buf name = ZEP_BUF_INIT;

        if (memchr(s, ']', len))
            return bad(err, s, len, "']' without '['");
        zep_buf_add(&name, s, len);
        rc = add_name(out, cap, &name, err);
        zep_buf_free(&name);
        return rc;
    }
    while (p < end && rc == ZEP_OK) {
        const char *open = memchr(p, '[', (size_t)(end - p)), *close;

        if (!open)
            rc = bad(err, s, len, "nothing may follow the last bracket");
        else if (!(close = memchr(open, ']', (size_t)(end - open))))
            rc = bad(err, s, len, "'[' without ']'");
        else if (memchr(p, ']', (size_t)(open - p)) || memchr(open + 1, '[', (size_t)(close - open - 1)))
            rc = bad(err, s, len, "brackets do not match");
        else if (n == MAX_BRACKETS)
            rc = bad(err, s, len, "more than 16 brackets");
        else {
            b[n].prefix = p;
            b[n].prefix_len = (int)(open - p);
            rc = parse_ranges(open + 1, (size_t)(close - open - 1), &b[n++], err);
            p = close + 1;
        }
    }
    if (rc == ZEP_OK)
        rc = expand_brackets(b, n, out, cap, err);
    for (int i = 0; i < n; i++)
        free(b[i].range);
    return rc;
}

static int is_sep(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n';
}

int zep_hostlist_expand(const char *expr, struct zep_hostlist *out, struct zep_error *err)
{
    struct zep_hostlist list = {0};
    int cap = 0, rc = ZEP_OK;

    for (const char *p = expr; *p && rc == ZEP_OK;) {
        const char *start;
        int depth = 0;

        if (is_sep(*p)) {
            p++;
            continue;
        }
        for (start = p; *p && (depth > 0 || !is_sep(*p)); p++) {
            if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
                rc = bad(err, start, strcspn(start, "\n"), "a character that is not printable ASCII");
            depth += (*p == '[') - (*p == ']' && depth > 0);
        }
        if (rc == ZEP_OK)
            rc = parse_element(start, (size_t)(p - start), &list, &cap, err);
    }
    if (rc < 0)
        zep_hostlist_free(&list);
    else
        *out = list;
    return rc;
}

void zep_hostlist_free(struct zep_hostlist *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->name[i]);
    free(list->name);
    *list = (struct zep_hostlist){0};
}

/* Length of a name without the number at its end; the number's value. No number: the whole length. */
static size_t split(const char *name, uint64_t *value, int *width)
{
    size_t len = strlen(name), at = len;

    *value = 0;
    while (at > 0 && isdigit((unsigned char)name[at - 1]) && len - at < MAX_DIGITS)
        at--;
    *width = (int)(len - at);
    for (size_t i = at; i < len; i++)
        *value = *value * 10 + (uint64_t)(name[i] - '0');
    return at;
}

static int digits(uint64_t v)
{
    int n = 1;

    for (; v >= 10; v /= 10)
        n++;
    return n;
}

/* Is `name` what a range that began with (prefix, width) prints for `value`? */
static int continues(const char *name, const char *prefix, size_t prefix_len, int width, uint64_t value)
{
    uint64_t v;
    int w, natural = digits(value);

    return split(name, &v, &w) == prefix_len && v == value && strncmp(name, prefix, prefix_len) == 0 && w == (natural > width ? natural : width);
}

int zep_hostlist_fold(int n, const char *const *name, char **expr_out, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;

    for (int i = 0; i < n;) {
        uint64_t v, last;
        int w, width, ranges = 0;
        size_t prefix = split(name[i], &v, &width);
        struct zep_buf inner = ZEP_BUF_INIT;
        const char *head = name[i];
        int first = i;

        if (b.len)
            zep_buf_puts(&b, ",");
        if (width == 0) {
            zep_buf_puts(&b, name[i++]);
            continue;
        }
        /* names of one prefix that follow each other share a bracket */
        while (i < n && split(name[i], &v, &w) == prefix && w > 0 && strncmp(name[i], head, prefix) == 0) {
            uint64_t lo = v;

            last = v;
            i++;
            while (i < n && last - lo + 1 < MAX_RANGE && continues(name[i], head, prefix, w, last + 1)) {
                last++;
                i++;
            }
            zep_buf_printf(&inner, ranges++ ? ",%0*" PRIu64 : "%0*" PRIu64, w, lo);
            if (last > lo)
                zep_buf_printf(&inner, "-%0*" PRIu64, w, last);
        }
        if (i - first == 1)
            zep_buf_puts(&b, head);
        else
            zep_buf_printf(&b, "%.*s[%s]", (int)prefix, head, inner.data);
        if (inner.failed)
            b.failed = 1;
        zep_buf_free(&inner);
    }
    return zep_buf_steal(&b, expr_out, err);
}
