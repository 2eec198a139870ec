/* The text of `nvidia-smi topo -m`: a matrix of GPUs and NICs, as people copy it from terminals. */
#include "config.h"
#include "topology/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "topology/topo_internal.h"
#include "topology/topo_m_lines.h"

#define MAX_COLUMN 256

struct matrix {
    const char *name;
    struct zep_error *err;
    struct zep_topo *topo;
    int n;                       /* columns of GPUs and NICs */
    char *column[MAX_COLUMN];
    int dev[MAX_COLUMN], nic[MAX_COLUMN]; /* index in the node, -1 */
    unsigned char *cell, *link;  /* [n][n] enum zep_distance; NVLinks */
    char *row_seen;
    int has_numa, n_tail;        /* the header has a column of NUMA domains; columns behind the NICs */
    int n_glued, glued;          /* GPU rows whose last columns run together, line of the first */
    int last_line;               /* of the matrix */
};

static int is_gpu_name(const char *s)
{
    return !strncmp(s, "GPU", 3) && isdigit((unsigned char)s[3]);
}

/* Words of a line, which is changed. */
static int split(char *line, char **word, int max)
{
    char *save = NULL;
    int n = 0;

    for (char *w = strtok_r(line, " \t", &save); w && n < max; w = strtok_r(NULL, " \t", &save))
        word[n++] = w;
    return n;
}

/* A name of the header that runs into the next one ("NIC11NIC12", "AffinityNUMA"): its own length. */
static size_t own_length(const char *word)
{
    static const struct {
        const char *begin;
        int behind_digit;
    } next[] = {{"NIC", 1}, {"GPU", 1}, {"mlx", 1}, {"CPU", 0}, {"NUMA", 0}};

    for (size_t at = 1; word[at]; at++)
        for (size_t i = 0; i < sizeof next / sizeof next[0]; i++)
            if (!strncmp(word + at, next[i].begin, strlen(next[i].begin)) && (isdigit((unsigned char)word[at - 1]) || !next[i].behind_digit))
                return at;
    return strlen(word);
}

static int add_column(struct matrix *m, const char *name)
{
    struct zep_node *node = &m->topo->node[0];
    char key[80];

    if (m->n == MAX_COLUMN)
        return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: more than %d columns", m->name, m->last_line, MAX_COLUMN);
    for (int k = 0; k < m->n; k++)
        if (!strcmp(m->column[k], name))
            return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: column '%.40s' is there twice", m->name, m->last_line, name);
    if (!(m->column[m->n] = strdup(name)))
        return zep_error_nomem(m->err, m->name);
    m->dev[m->n] = m->nic[m->n] = -1;
    snprintf(key, sizeof key, "%.60s", name);
    if (is_gpu_name(name)) {
        for (char *p = key; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        m->dev[m->n] = node->n_device;
        if (!zep_node_add_device(node, key, ZEP_DEV_GPU))
            return zep_error_nomem(m->err, m->name);
        node->device[node->n_device - 1].source = ZEP_SRC_NODE;
    } else {
        m->nic[m->n] = node->n_nic;
        if (!zep_node_add_nic(node, key, key))
            return zep_error_nomem(m->err, m->name);
        node->nic[node->n_nic - 1].rdma = 1; /* nvidia-smi lists verbs devices only */
        node->nic[node->n_nic - 1].source = ZEP_SRC_NODE;
    }
    m->n++;
    return ZEP_OK;
}

/* "CPU Affinity", "NUMA Affinity", "GPU NUMA ID" are behind the columns. */
static int is_tail_word(const char *w)
{
    return !strncmp(w, "CPU", 3) || !strncmp(w, "NUMA", 4) || !strcmp(w, "GPU");
}

static int add_columns(struct matrix *m, char **word, int n)
{
    int in_tail = 0, rc;

    for (int i = 0; i < n; i++)
        for (char *w = word[i], *next; *w; w = next) {
            size_t len = own_length(w);
            char name[80];

            next = w + len;
            snprintf(name, sizeof name, "%.*s", (int)(len > 60 ? 60 : len), w);
            in_tail |= is_tail_word(name);
            m->n_tail += in_tail && (!strcmp(name, "Affinity") || !strcmp(name, "ID"));
            m->has_numa |= in_tail && i > 0 && !strcmp(name, "NUMA") && strcmp(word[i - 1], "GPU");
            if (!in_tail && (rc = add_column(m, name)) < 0)
                return rc;
        }
    m->cell = zep_calloc((size_t)m->n * (size_t)m->n + 1, 1);
    m->link = zep_calloc((size_t)m->n * (size_t)m->n + 1, 1);
    m->row_seen = zep_calloc((size_t)m->n + 1, 1);
    return m->cell && m->link && m->row_seen ? ZEP_OK : zep_error_nomem(m->err, m->name);
}

static int find_column(const struct matrix *m, const char *word)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->column[i], word))
            return i;
    return -1;
}

/* Whether some column's name begins like that. */
static int is_beginning(const struct matrix *m, const char *word)
{
    for (int i = 0; i < m->n; i++)
        if (!strncmp(m->column[i], word, strlen(word)))
            return 1;
    return 0;
}

/* What follows the cells of a GPU: cores, NUMA domain. Columns that run together ("0-31,64-950") tell no domain. */
static int read_tail(struct matrix *m, struct zep_device *d, char **word, int n)
{
    char *end = NULL;
    long numa = -1;

    if (n < 1 || !isdigit((unsigned char)word[0][0]))
        return ZEP_OK;
    if (n < m->n_tail) {
        if (m->n_glued++ == 0)
            m->glued = m->last_line;
        return ZEP_OK;
    }
    if (m->has_numa && n > 1 && isdigit((unsigned char)word[1][0])) /* "N/A" and "0-1" (several) name no domain */
        numa = strtol(word[1], &end, 10);
    if (numa >= 0 && !*end && numa < 65536)
        d->numa = (int)numa;
    return (d->cores = strdup(word[0])) ? ZEP_OK : zep_error_nomem(m->err, m->name);
}

/* Cells of a row from p on, which may run together ("NODEPIX"): their number, and what follows them. */
static int count_cells(const char *p, const char **rest)
{
    int n = 0;
    size_t len;

    for (p += strspn(p, " "); (len = zep_matrix_cell(p, NULL, NULL)); p += strspn(p, " ")) {
        p += len;
        n++;
    }
    *rest = p;
    return n;
}

static int read_cells(struct matrix *m, int row, const char **text, int is_last)
{
    const char *p = *text + strspn(*text, " ");
    int have = 0;

    for (; have < m->n && *p; have++, p += strspn(p, " ")) {
        size_t at = (size_t)(row * m->n + have), len = zep_matrix_cell(p, &m->cell[at], &m->link[at]);
        int shown = (int)(len ? len : strcspn(p, " ")) > 40 ? 40 : (int)(len ? len : strcspn(p, " "));

        if (!len && is_last)
            break;
        if (!len)
            return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: '%.*s' in row %s, column %s: expected X, NV#, PIX, PXB, PHB, NODE or SYS", m->name, m->last_line, shown, p, m->column[row], m->column[have]);
        if ((row == have) != (*p == 'X'))
            return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: '%.*s' in row %s, column %s: X stands where row and column are the same", m->name, m->last_line, shown, p, m->column[row], m->column[have]);
        p += len;
    }
    *text = p;
    return have;
}

static int read_row(struct matrix *m, int row, char *text, int is_last)
{
    char *word[16], *tail;
    const char *rest = text;
    int have, n;

    if (m->row_seen[row])
        return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: row '%.40s' is there twice", m->name, m->last_line, m->column[row]);
    if ((have = read_cells(m, row, &rest, is_last)) < 0)
        return have;
    m->row_seen[row] = have == m->n;
    if (have < m->n)
        return zep_topo_warn(m->topo, "%s:%d: row %s ends after %d of %d columns: the text is cut", m->name, m->last_line, m->column[row], have, m->n);
    if ((n = count_cells(rest, &rest)))
        return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: row %s has %d cells: the header has %d columns (are names missing there, or do they run together?)", m->name, m->last_line, m->column[row], m->n + n, m->n);
    if (m->dev[row] < 0)
        return ZEP_OK;
    tail = text + (rest - text);
    n = split(tail, word, 16);
    return read_tail(m, &m->topo->node[0].device[m->dev[row]], word, n);
}

/* A row whose name is no column: the header is not that of the table, unless only words happen to be there. */
static int unknown_row(struct matrix *m, const char *name, const char *cells)
{
    const char *rest;

    if (count_cells(cells, &rest) < m->n)
        return ZEP_OK;
    return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: row '%.40s' is no column of the header: expected one of %s ... %s", m->name, m->last_line, name, m->column[0], m->column[m->n - 1]);
}

/* "NIC0: mlx5_0" below "NIC Legend:" */
static int read_legend(struct matrix *m, char **word, int n)
{
    size_t len = n == 2 ? strlen(word[0]) : 0;
    int at;

    if (len < 2 || word[0][len - 1] != ':')
        return ZEP_OK;
    word[0][len - 1] = '\0';
    at = find_column(m, word[0]);
    if (at >= 0 && m->nic[at] >= 0) {
        struct zep_nic *c = &m->topo->node[0].nic[m->nic[at]];
        char *copy = strdup(word[1]), *key = strdup(word[1]);

        if (!copy || !key) {
            free(copy);
            free(key);
            return zep_error_nomem(m->err, m->name);
        }
        free(c->name);
        free(c->key);
        c->name = copy;
        c->key = key;
    }
    return ZEP_OK;
}

static int read_line(struct matrix *m, struct zep_matrix_line *l)
{
    char *word[2 * MAX_COLUMN], *text = l->text + strspn(l->text, " "), name[80];
    size_t len = strcspn(text, " ");
    int row, n;

    m->last_line = l->line;
    if (!m->n) {
        n = split(text, word, 2 * MAX_COLUMN);
        return add_columns(m, word, n);
    }
    snprintf(name, sizeof name, "%.*s", (int)(len > 70 ? 70 : len), text);
    if (len && text[len - 1] == ':') {
        n = split(text, word, 4);
        return read_legend(m, word, n);
    }
    if ((row = find_column(m, name)) >= 0)
        return read_row(m, row, text + len, l->is_last);
    if (l->is_last && !text[len] && is_beginning(m, name))
        return zep_topo_warn(m->topo, "%s:%d: the text is cut inside of a row ('%.40s')", m->name, m->last_line, name);
    return unknown_row(m, name, text + len);
}

static int read_text(struct matrix *m, const char *text, size_t len)
{
    struct zep_matrix_text t;
    int rc = zep_matrix_text_read(text, len, &t, m->err);

    if (rc == ZEP_OK && !t.n)
        rc = t.has_p2p ? zep_error_set(m->err, ZEP_EINVAL, "%s: a table of nvidia-smi topo -p2p, which says what can reach what, not how near it is: expected what nvidia-smi topo -m prints", m->name)
                       : zep_error_set(m->err, ZEP_EINVAL, "%s: no header: expected a line 'GPU0 GPU1 ... CPU Affinity'", m->name);
    for (int i = 0; i < t.n && rc == ZEP_OK; i++)
        rc = read_line(m, &t.line[i]);
    if (rc == ZEP_OK && t.second)
        rc = zep_topo_warn(m->topo, "%s:%d: a second table begins here: only the first is read", m->name, t.second);
    if (rc == ZEP_OK && t.n_other)
        rc = zep_topo_warn(m->topo, "%s: %d line%s not begin with '%.40s' and %s passed over, '%.40s' first", m->name, t.n_other, t.n_other == 1 ? " does" : "s do", t.tag, t.n_other == 1 ? "is" : "are", t.other);
    zep_matrix_text_free(&t);
    return rc == ZEP_ENOMEM ? zep_error_nomem(m->err, m->name) : rc;
}

/* The matrix is symmetric: a row that is missing is a column of the others. */
static int finish(struct matrix *m)
{
    struct zep_node *node = &m->topo->node[0];
    int n_missing = 0, missing = -1, n_odd = 0;

    for (int i = 0; i < m->n; i++)
        if (!m->row_seen[i] && n_missing++ == 0)
            missing = i;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n; k++) {
            unsigned char *a = &m->cell[i * m->n + k], *b = &m->cell[k * m->n + i];
            unsigned char *la = &m->link[i * m->n + k], *lb = &m->link[k * m->n + i];

            if (!*a && !*la) {
                *a = *b;
                *la = *lb;
            }
            n_odd += (*b || *lb) && (*a != *b || *la != *lb);
        }
    if (m->n_glued && zep_topo_warn(m->topo, "%s:%d: the columns of cores and NUMA domain run together in %d row%s: they are not read there", m->name, m->glued, m->n_glued, m->n_glued == 1 ? "" : "s") < 0)
        return zep_error_nomem(m->err, m->name);
    if (n_missing && zep_topo_warn(m->topo, "%s: %d of %d rows are missing or cut, %s first: what the other rows say of them is taken", m->name, n_missing, m->n, m->column[missing]) < 0)
        return zep_error_nomem(m->err, m->name);
    if (n_odd && zep_topo_warn(m->topo, "%s: %d pairs are said differently in their two places", m->name, n_odd / 2) < 0)
        return zep_error_nomem(m->err, m->name);
    for (int i = 0; i < m->n; i++)
        for (int k = 0; m->dev[i] >= 0 && k < m->n; k++) {
            unsigned char d = m->cell[i * m->n + k];
            int rc = m->nic[k] >= 0 ? zep_node_set_nic_distance(node, m->dev[i], m->nic[k], (enum zep_distance)d)
                   : i != k         ? zep_node_set_peer(node, m->dev[i], m->dev[k], (enum zep_distance)d, m->link[i * m->n + k])
                                    : ZEP_OK;

            if (rc < 0)
                return zep_error_nomem(m->err, m->name);
        }
    return ZEP_OK;
}

int zep_topo_is_topo_m(const char *text, size_t len)
{
    (void)len;
    return zep_matrix_is_in(text);
}

int zep_topo_from_topo_m(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct matrix m = {.name = q->file, .err = err};
    char origin[400], host[256] = "localhost";
    int rc;

    snprintf(origin, sizeof origin, "nvidia-smi topo -m %.360s", q->file);
    m.topo = zep_topo_new("machine", origin);
    if (q->base && q->base->n_node == 1)
        snprintf(host, sizeof host, "%.250s", q->base->node[0].id);
    if (!m.topo || !zep_topo_add_node(m.topo, host))
        rc = zep_error_nomem(err, q->file);
    else
        rc = read_text(&m, q->text, q->len);
    if (rc == ZEP_OK && !m.topo->node[0].n_device)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no GPUs in the header", q->file);
    if (rc == ZEP_OK && (rc = finish(&m)) == ZEP_OK && (rc = zep_topo_validate(m.topo, err)) < 0)
        zep_error_prefix(err, "%s", q->file);
    for (int i = 0; i < m.n; i++)
        free(m.column[i]);
    free(m.cell);
    free(m.link);
    free(m.row_seen);
    if (rc < 0)
        zep_topo_free(m.topo);
    else
        *topo_out = m.topo;
    return rc;
}
