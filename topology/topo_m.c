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

/* Words of a line; ANSI sequences (nvidia-smi underlines its header) are passed over. */
static int split(char *line, char **word, int max)
{
    char *out = line, *save = NULL;
    int n = 0;

    for (char *p = line; *p; p++) {
        if (*p == 033) {
            while (p[1] && !isalpha((unsigned char)*p))
                p++;
            continue;
        }
        if (*p == '[' && p[1 + strspn(p + 1, "0123456789;")] == 'm') { /* the same in a text that lost its control characters */
            p += 1 + strspn(p + 1, "0123456789;");
            continue;
        }
        *out++ = *p;
    }
    *out = '\0';
    for (char *w = strtok_r(line, " \t\r", &save); w && n < max; w = strtok_r(NULL, " \t\r", &save))
        word[n++] = w;
    return n;
}

/* "X", "NV12", "PIX" ... */
static int parse_cell(const char *s, unsigned char *dist, unsigned char *links)
{
    static const struct {
        const char *word;
        enum zep_distance d;
    } words[] = {{"X", ZEP_DIST_UNKNOWN}, {"PIX", ZEP_DIST_SWITCH}, {"PXB", ZEP_DIST_SWITCHES}, {"PHB", ZEP_DIST_BRIDGE}, {"NODE", ZEP_DIST_NUMA}, {"SYS", ZEP_DIST_SYSTEM}, {"SOC", ZEP_DIST_SYSTEM}};

    *links = 0;
    *dist = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(s, words[i].word)) {
            *dist = (unsigned char)words[i].d;
            return 1;
        }
    if (!strncmp(s, "NV", 2) && isdigit((unsigned char)s[2]) && s[2 + strspn(s + 2, "0123456789")] == '\0') {
        *links = (unsigned char)(atoi(s + 2) > 255 ? 255 : atoi(s + 2));
        return 1;
    }
    return 0;
}

static int add_columns(struct matrix *m, char **word, int n)
{
    struct zep_node *node = &m->topo->node[0];

    for (int i = 0; i < n; i++) {
        m->has_numa |= !strcmp(word[i], "NUMA") && i + 1 < n && !strcmp(word[i + 1], "Affinity");
        m->n_tail += !strcmp(word[i], "Affinity") || !strcmp(word[i], "ID"); /* "CPU Affinity", "NUMA Affinity", "GPU NUMA ID" */
    }
    for (int i = 0; i < n && strcmp(word[i], "CPU") && strcmp(word[i], "NUMA"); i++) {
        char key[80];

        if (m->n == MAX_COLUMN)
            return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: more than %d columns", m->name, m->last_line, MAX_COLUMN);
        for (int k = 0; k < m->n; k++)
            if (!strcmp(m->column[k], word[i]))
                return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: column '%.40s' is there twice", m->name, m->last_line, word[i]);
        if (!(m->column[m->n] = strdup(word[i])))
            return zep_error_nomem(m->err, m->name);
        m->dev[m->n] = m->nic[m->n] = -1;
        snprintf(key, sizeof key, "%.60s", word[i]);
        if (is_gpu_name(word[i])) {
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

static int read_row(struct matrix *m, int row, char **word, int n, int is_last)
{
    int have = 0;

    if (m->row_seen[row])
        return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: row '%.40s' is there twice", m->name, m->last_line, m->column[row]);
    for (; have < m->n && have < n; have++) {
        unsigned char *cell = &m->cell[row * m->n + have], *link = &m->link[row * m->n + have];

        if (!parse_cell(word[have], cell, link)) {
            if (is_last)
                break;
            return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: '%.40s' in row %s, column %s: expected X, NV#, PIX, PXB, PHB, NODE or SYS", m->name, m->last_line, word[have], m->column[row], m->column[have]);
        }
        if ((row == have) != !strcmp(word[have], "X"))
            return zep_error_set(m->err, ZEP_EINVAL, "%s:%d: '%.40s' in row %s, column %s: X stands where row and column are the same", m->name, m->last_line, word[have], m->column[row], m->column[have]);
    }
    m->row_seen[row] = have == m->n;
    if (have < m->n) {
        zep_topo_warn(m->topo, "%s:%d: row %s ends after %d of %d columns: the text is cut", m->name, m->last_line, m->column[row], have, m->n);
        return ZEP_OK;
    }
    return m->dev[row] >= 0 ? read_tail(m, &m->topo->node[0].device[m->dev[row]], word + have, n - have) : ZEP_OK;
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

static int read_lines(struct matrix *m, char *text)
{
    char *word[MAX_COLUMN + 16];
    int rc = ZEP_OK, in_legend = 0, n;

    for (char *line = text, *next; line && rc == ZEP_OK; line = next) {
        int row;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        m->last_line++;
        if ((n = split(line, word, MAX_COLUMN + 16)) == 0)
            continue;
        if (!m->n) {
            if (is_gpu_name(word[0]) && (n == 1 || strcmp(word[1], "X")))
                rc = add_columns(m, word, n);
            continue;
        }
        if (n >= 2 && !strcmp(word[0], "NIC") && !strcmp(word[1], "Legend:")) {
            in_legend = 1;
            continue;
        }
        if (in_legend) {
            rc = read_legend(m, word, n);
            continue;
        }
        row = find_column(m, word[0]);
        if (row < 0 && (!next || !next[strspn(next, " \t\r\n")]) && is_beginning(m, word[0]) &&
            zep_topo_warn(m->topo, "%s:%d: the text is cut inside of a row ('%.40s')", m->name, m->last_line, word[0]) < 0)
            rc = zep_error_nomem(m->err, m->name);
        if (row >= 0)
            rc = read_row(m, row, word + 1, n - 1, !next || !next[strspn(next, " \t\r\n")]);
    }
    return rc;
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
    const char *p = strstr(text, "GPU0");

    (void)len;
    return p && strstr(p + 4, "GPU0") && strstr(text, "X ") && (strstr(text, "CPU Affinity") || strstr(text, "Legend") || strstr(text, "SYS") || strstr(text, "PHB") || strstr(text, "NODE"));
}

int zep_topo_from_topo_m(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct matrix m = {.name = q->file, .err = err};
    char origin[400], host[256] = "localhost", *copy = strndup(q->text, q->len);
    int rc;

    snprintf(origin, sizeof origin, "nvidia-smi topo -m %.360s", q->file);
    m.topo = zep_topo_new("machine", origin);
    if (q->base && q->base->n_node == 1)
        snprintf(host, sizeof host, "%.250s", q->base->node[0].id);
    if (!copy || !m.topo || !zep_topo_add_node(m.topo, host))
        rc = zep_error_nomem(err, q->file);
    else if ((rc = read_lines(&m, copy)) == ZEP_OK && !m.n)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no header: expected a line 'GPU0 GPU1 ... CPU Affinity'", q->file);
    if (rc == ZEP_OK && !m.topo->node[0].n_device)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no GPUs in the header", q->file);
    if (rc == ZEP_OK && (rc = finish(&m)) == ZEP_OK && (rc = zep_topo_validate(m.topo, err)) < 0)
        zep_error_prefix(err, "%s", q->file);
    for (int i = 0; i < m.n; i++)
        free(m.column[i]);
    free(m.cell);
    free(m.link);
    free(m.row_seen);
    free(copy);
    if (rc < 0)
        zep_topo_free(m.topo);
    else
        *topo_out = m.topo;
    return rc;
}
