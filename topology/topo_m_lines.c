#include "config.h"
#include "topology/topo_m_lines.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/buf.h"
#include "topology/topo.h"

#define MAX_LINES (1 << 20)
#define LOOK_AHEAD 64  /* lines between a header and its first row: parts of a broken header, those of other hosts */
#define MAX_TAG_WORDS 12

static const struct {
    const char *word;
    enum zep_distance d;
} cell_words[] = {{"PIX", ZEP_DIST_SWITCH}, {"PXB", ZEP_DIST_SWITCHES}, {"PHB", ZEP_DIST_BRIDGE}, {"NODE", ZEP_DIST_NUMA}, {"SYS", ZEP_DIST_SYSTEM}, {"SOC", ZEP_DIST_SYSTEM}, {"X", ZEP_DIST_UNKNOWN}};

/* Of what begins like a cell, whatever follows. */
static size_t cell_length(const char *p, enum zep_distance *dist, long *links)
{
    *dist = ZEP_DIST_UNKNOWN;
    *links = 0;
    for (size_t i = 0; i < sizeof cell_words / sizeof cell_words[0]; i++)
        if (!strncmp(p, cell_words[i].word, strlen(cell_words[i].word))) {
            *dist = cell_words[i].d;
            return strlen(cell_words[i].word);
        }
    if (strncmp(p, "NV", 2) || !isdigit((unsigned char)p[2]))
        return 0;
    *links = strtol(p + 2, NULL, 10);
    return 2 + strspn(p + 2, "0123456789");
}

size_t zep_matrix_cell(const char *p, unsigned char *dist, unsigned char *links)
{
    enum zep_distance d, next_d;
    long n, next_n;
    size_t len = cell_length(p, &d, &n);

    if (len && p[len] && !isspace((unsigned char)p[len]) && !isdigit((unsigned char)p[len]) && !cell_length(p + len, &next_d, &next_n)) /* "SYSTEM" is no cell, "SYSNODE" is two */
        return 0;
    if (dist)
        *dist = (unsigned char)d;
    if (links)
        *links = (unsigned char)(n > 255 ? 255 : n);
    return len;
}

static int is_cell(const char *p)
{
    return zep_matrix_cell(p, NULL, NULL) > 0;
}

static size_t gpu_name(const char *s)
{
    return !strncmp(s, "GPU", 3) && isdigit((unsigned char)s[3]) ? 3 + strspn(s + 3, "0123456789") : 0;
}

static int is_name(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)p[i]) && p[i] != '_' && p[i] != '-' && p[i] != '.')
            return 0;
    return len > 0 && isalpha((unsigned char)*p);
}

static const char *blanks(const char *p)
{
    return p + strspn(p, " ");
}

static size_t word(const char *p)
{
    return strcspn(p, " ");
}

/* --- lines as they were meant --- */

/* Bytes of an ANSI sequence at p, also of one that lost its control character; 0 none. */
static size_t ansi(const char *p, const char *end)
{
    const char *q = p;

    if (*q == 033) {
        q++;
        while (q < end && !isalpha((unsigned char)*q) && *q != '\n')
            q++;
        return (size_t)(q - p) + (q < end && *q != '\n');
    }
    if (*q == '[') {
        q += 1 + strspn(q + 1, "0123456789;");
        if (*q == 'm')
            return (size_t)(q - p) + 1;
    }
    return 0;
}

/* What stands for a blank: a blank that does not break (U+00A0), the bars of tables; a byte order mark (is_mark) stands for nothing. */
static size_t odd_blank(const unsigned char *p, int *is_mark)
{
    *is_mark = p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf;
    if (*is_mark)
        return 3;
    if (p[0] == 0xc2 && p[1] == 0xa0)
        return 2;
    if (p[0] == 0xe2 && p[1] && p[2] && ((p[1] == 0x94) || (p[1] == 0x80 && p[2] >= 0x80 && p[2] <= 0x8a))) /* box drawing; typographic blanks */
        return 3;
    return p[0] == '|' || p[0] == '\r' || p[0] == '\v' || p[0] == '\f' || p[0] == '`';
}

/* One line of the text, cleaned, with tabs as blanks; a copy. */
static char *clean(const char *p, const char *end)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *out = NULL;
    int is_mark;

    while (p < end) {
        size_t n = ansi(p, end);

        if (n) {
            p += n;
        } else if ((n = odd_blank((const unsigned char *)p, &is_mark))) {
            if (!is_mark)
                zep_buf_puts(&b, " ");
            p += n;
        } else if (*p == '\t') {
            do
                zep_buf_puts(&b, " ");
            while (b.len % 8);
            p++;
        } else {
            zep_buf_add(&b, p++, 1);
        }
    }
    while (b.len && b.data[b.len - 1] == ' ')
        b.data[--b.len] = '\0';
    for (size_t i = 0; i < b.len && (b.data[i] == ' ' || b.data[i] == '>'); i++) /* quoted */
        b.data[i] = ' ';
    if (zep_buf_ok(&b, NULL) < 0 || zep_buf_steal(&b, &out, NULL) < 0)
        zep_buf_free(&b);
    return out;
}

struct raw {
    char **line;
    int n;
};

static void raw_free(struct raw *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->line[i]);
    free(r->line);
}

static int raw_read(const char *text, size_t len, struct raw *r, struct zep_error *err)
{
    const char *end = text + len;
    int cap = 0;

    while (text < end && r->n < MAX_LINES) {
        const char *nl = memchr(text, '\n', (size_t)(end - text)), *stop = nl ? nl : end;
        char **p = r->line;

        if (r->n == cap && !(p = zep_reallocarray(r->line, (size_t)(cap = cap ? 2 * cap : 64), sizeof *p)))
            return zep_error_nomem(err, "text");
        r->line = p;
        if (!(r->line[r->n] = clean(text, stop)))
            return zep_error_nomem(err, "text");
        r->n++;
        text = stop + 1;
    }
    return ZEP_OK;
}

/* --- where the table begins in a line --- */

/* A word of a tag that differs from line to line: a time, a date. */
static int is_time(const char *p, size_t len)
{
    size_t n_colon = 0;

    for (size_t i = 1; i + 1 < len; i++)
        n_colon += p[i] == ':' && isdigit((unsigned char)p[i - 1]) && isdigit((unsigned char)p[i + 1]);
    return n_colon > 0 || (len >= 10 && strspn(p, "0123456789") == 4 && (p[4] == '-' || p[4] == '/') && strspn(p, "0123456789-/") >= len);
}

/* What stands before the table, without times. */
static void tag_of(const char *line, size_t len, char out[80])
{
    size_t at = 0, n;

    for (size_t i = 0; i < len; i += n) {
        i += strspn(line + i, " ");
        n = i < len ? word(line + i) : 0;
        n = i + n > len ? len - i : n;
        if (n && !is_time(line + i, n) && at + n + 2 < 80) {
            memcpy(out + at, line + i, n);
            at += n;
            out[at++] = ' ';
        }
    }
    out[at ? at - 1 : 0] = '\0';
}

/* The place of `name` (NULL: any GPU) as a word, or behind ':', '>' or ']' of one ("[1,0]<stdout>:GPU0"), within the first words of a line. NULL: not there. */
static const char *find_name(const char *line, const char *name, size_t name_len)
{
    const char *p = blanks(line);

    for (int k = 0; k < MAX_TAG_WORDS && *p; k++, p = blanks(p + word(p))) {
        const char *end = p + word(p), *q = end;

        while (q > p && !strchr(":>]", q[-1]))
            q--;
        for (int pass = 0; pass < 2; pass++, q = p) { /* behind a mark, the whole word */
            size_t n = name ? name_len : gpu_name(q);

            if (n && (!name || !strncmp(q, name, n)) && (q + n == end || (!name && isalpha((unsigned char)q[n])))) /* "GPU0GPU1": a header whose columns run together */
                return q;
        }
    }
    return NULL;
}

static const char *second_word(const char *p)
{
    return blanks(p + word(p));
}

static int is_p2p_word(const char *p)
{
    static const char *const words[] = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (word(p) == strlen(words[i]) && !strncmp(p, words[i], word(p)))
            return 1;
    return 0;
}

/* Where a header begins in the line: names of GPUs, then of NICs. */
static const char *header_at(const char *line)
{
    const char *p = find_name(line, NULL, 0), *q;

    if (!p)
        return NULL;
    q = second_word(p);
    return !*q || (!is_cell(q) && !is_p2p_word(q) && is_name(q, word(q))) ? p : NULL;
}

static int is_p2p_row(const char *row)
{
    for (const char *p = second_word(row); *p; p = second_word(p))
        if (is_p2p_word(p))
            return 1;
    return 0;
}

struct place {
    int header, first_row; /* lines */
    const char *at;        /* where the header begins */
    char tag[80];          /* of the rows */
};

/* Whether a header is on line i: then some row of its first GPU follows, of the same stream, or without any mark. */
static int is_header(const struct raw *r, int i, struct place *out, int *has_p2p)
{
    const char *at = header_at(r->line[i]);
    char tag[80], row_tag[80];
    size_t len = at ? gpu_name(at) : 0;

    if (!at)
        return 0;
    *out = (struct place){.header = i, .at = at, .first_row = -1};
    tag_of(r->line[i], (size_t)(at - r->line[i]), tag);
    for (int k = i + 1; k < r->n && k < i + LOOK_AHEAD; k++) {
        const char *p = find_name(r->line[k], at, len);

        if (!p || (!is_cell(second_word(p)) && !is_p2p_row(p)))
            continue;
        tag_of(r->line[k], (size_t)(p - r->line[k]), row_tag);
        if (strcmp(tag, row_tag) && (*row_tag || out->first_row >= 0))
            continue;
        if (is_p2p_row(p)) {
            *has_p2p = 1;
            return 0;
        }
        out->first_row = k;
        memcpy(out->tag, row_tag, sizeof out->tag);
        if (!strcmp(tag, row_tag))
            break;
    }
    return out->first_row >= 0;
}

/* --- putting the table together --- */

static const char *after_times(const char *p)
{
    for (p = blanks(p); *p && is_time(p, word(p)); p = blanks(p + word(p)))
        ;
    return p;
}

/* What a line of the table's stream says, without its mark and times; NULL: the line is of another stream. */
static const char *body_of(const struct zep_matrix_text *t, const char *line)
{
    const char *p = after_times(line);
    size_t len = strlen(t->tag);
    char tag[80];

    if (!len)
        return p;
    for (int k = 0; k < MAX_TAG_WORDS && *p; k++) { /* the shortest beginning that is the mark */
        const char *end = p + word(p);

        tag_of(line, (size_t)(end - line), tag);
        if (!strcmp(tag, t->tag))
            return after_times(end);
        if (!strncmp(tag, t->tag, len) && strchr(":>]", t->tag[len - 1])) /* "[1,0]<stdout>:GPU0" */
            return end - (strlen(tag) - len);
        p = after_times(end);
    }
    return NULL;
}

static int add_line(struct zep_matrix_text *t, const char *text, int line)
{
    struct zep_matrix_line *p = zep_reallocarray(t->line, (size_t)t->n + 1, sizeof *p);

    if (!p)
        return ZEP_ENOMEM;
    t->line = p;
    p[t->n] = (struct zep_matrix_line){.text = strdup(text), .line = line};
    return p[t->n].text ? (t->n++, ZEP_OK) : ZEP_ENOMEM;
}

/* Joins what a terminal broke at its width: the part before is as long as that, where blanks at its end were not lost. */
static int join(struct zep_matrix_line *l, size_t width, const char *more)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *joined = NULL;

    zep_buf_puts(&b, l->text);
    if (!width)
        zep_buf_puts(&b, " ");
    while (b.len % (width ? width : 1)) /* each part but the last is `width` long */
        zep_buf_puts(&b, " ");
    zep_buf_puts(&b, more);
    if (zep_buf_ok(&b, NULL) < 0 || zep_buf_steal(&b, &joined, NULL) < 0) {
        zep_buf_free(&b);
        return ZEP_ENOMEM;
    }
    free(l->text);
    l->text = joined;
    return ZEP_OK;
}

/* The width of the terminal that broke the lines: the longest line of the table. */
static size_t width_of(const struct raw *r, const struct place *at)
{
    size_t width = 0;

    for (int i = at->header; i < r->n && !strstr(r->line[i], "Legend"); i++)
        width = strlen(r->line[i]) > width ? strlen(r->line[i]) : width;
    return width;
}

/* Whether a line begins with the name of a column, as a part of a broken row does not ("S  PIX"). */
static int is_column(const char *header, const char *p)
{
    size_t len = word(p);

    for (const char *q = header; *q; q++)
        if (!strncmp(q, p, len) && (q == header || q[-1] == ' ' || isdigit((unsigned char)q[-1])) && !isdigit((unsigned char)q[len]) && q[len] != '_')
            return 1;
    return 0;
}

/* A row: a name, then a cell or nothing. */
static int is_row(const char *p)
{
    const char *q = second_word(p);

    return is_name(p, word(p)) && !is_cell(p) && (is_cell(q) || !*q);
}

static int read_table(const struct raw *r, const struct place *at, struct zep_matrix_text *t)
{
    size_t width = 0;
    int n_part = 0, in_legend = 0, has_p2p = 0, is_marked = *at->tag || at->at != blanks(r->line[at->header]), rc;

    memcpy(t->tag, at->tag, sizeof t->tag);
    if ((rc = add_line(t, is_marked ? at->at : r->line[at->header], at->header + 1)) < 0)
        return rc;
    for (int i = at->header + 1; i < at->first_row && rc == ZEP_OK; i++) {
        const char *body = body_of(t, r->line[i]);

        if (body && *body && strspn(body, "-: +=") != strlen(body)) {
            width = n_part++ || is_marked ? width : width_of(r, at);
            rc = join(&t->line[0], width, width ? r->line[i] : body);
        }
    }
    for (int i = at->first_row; i < r->n && rc == ZEP_OK; i++) {
        const char *body = body_of(t, r->line[i]);
        struct place next;

        if (is_header(r, i, &next, &has_p2p) || (has_p2p && header_at(r->line[i]))) {
            if (strcmp(next.tag, t->tag) && *t->tag)
                continue;
            t->second = i + 1;
            break;
        }
        if (!body) {
            if (*blanks(r->line[i]) && t->n_other++ == 0)
                snprintf(t->other, sizeof t->other, "%.79s", blanks(r->line[i]));
            continue;
        }
        in_legend |= strstr(body, "Legend:") != NULL;
        if (!*body)
            continue;
        if (!in_legend && t->n > 1 && (width ? !is_row(body) || !is_column(t->line[0].text, body) : is_cell(body)))
            rc = join(&t->line[t->n - 1], width, width ? r->line[i] : body);
        else
            rc = add_line(t, width ? r->line[i] : body, i + 1);
        for (int k = i + 1; rc == ZEP_OK && t->n; k++) {
            if (k == r->n)
                t->line[t->n - 1].is_last = 1;
            if (k == r->n || *blanks(r->line[k]))
                break;
        }
    }
    return rc;
}

int zep_matrix_text_read(const char *text, size_t len, struct zep_matrix_text *out, struct zep_error *err)
{
    struct raw r = {0};
    struct place at;
    int rc = raw_read(text, len, &r, err);

    *out = (struct zep_matrix_text){0};
    for (int i = 0; rc == ZEP_OK && i < r.n; i++)
        if (is_header(&r, i, &at, &out->has_p2p)) {
            if (read_table(&r, &at, out) < 0)
                rc = zep_error_nomem(err, "text");
            break;
        }
    raw_free(&r);
    if (rc < 0)
        zep_matrix_text_free(out);
    return rc;
}

void zep_matrix_text_free(struct zep_matrix_text *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->line[i].text);
    free(t->line);
    *t = (struct zep_matrix_text){0};
}

int zep_matrix_is_in(const char *text)
{
    for (const char *p = text; (p = strstr(p, "GPU")); p++) {
        size_t n = gpu_name(p);
        const char *q = p + n;

        while (n && (*q == ' ' || *q == '\t' || *q == '|' || (unsigned char)*q == 0xc2 || (unsigned char)*q == 0xa0))
            q++;
        if (n && q > p + n && (is_cell(q) || (q[0] == 'X' && !isalnum((unsigned char)q[1]))))
            return 1;
    }
    return 0;
}
