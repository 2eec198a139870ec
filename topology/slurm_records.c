#include "config.h"
#include "topology/slurm_records.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/hostlist.h"
#include "common/units.h"
#include "topology/source.h"
#include "topology/topo_internal.h"

#define MAX_NAME 64
#define MAX_SIZES 16
#define MAX_NODES (1 << 20)

static int fail(const struct zep_slurm_records *r, const struct zep_slurm_record *rec, struct zep_error *err, const char *fmt, ...) ZEP_PRINTF(4, 5);

static int fail(const struct zep_slurm_records *r, const struct zep_slurm_record *rec, struct zep_error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    zep_error_prefix(err, "%s:%d", r->file[rec->file], rec->line);
    return ZEP_EINVAL;
}

static int file_index(struct zep_slurm_records *r, const char *file)
{
    char **p;

    for (int i = r->n_file - 1; i >= 0; i--)
        if (!strcmp(r->file[i], file))
            return i;
    if (!(p = zep_reallocarray(r->file, (size_t)r->n_file + 1, sizeof *p)))
        return -1;
    r->file = p;
    if (!(p[r->n_file] = strdup(file)))
        return -1;
    return r->n_file++;
}

int zep_slurm_records_add(struct zep_slurm_records *r, const char *file, int line, int is_block, const char *name, const char *nodes, const char *children, struct zep_error *err)
{
    struct zep_slurm_record *rec;
    int f = file_index(r, file);

    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 64;

        if (!(rec = zep_reallocarray(r->record, (size_t)cap, sizeof *rec)))
            return zep_error_nomem(err, file);
        r->record = rec;
        r->cap = cap;
    }
    rec = &r->record[r->n];
    *rec = (struct zep_slurm_record){.name = strdup(name), .nodes = nodes && *nodes ? strdup(nodes) : NULL, .children = children && *children ? strdup(children) : NULL, .is_block = is_block, .line = line, .file = f};
    if (f < 0 || !rec->name || (nodes && *nodes && !rec->nodes) || (children && *children && !rec->children)) {
        free(rec->name);
        free(rec->nodes);
        free(rec->children);
        return zep_error_nomem(err, file);
    }
    r->n++;
    if (r->n > 1 && r->record[0].is_block != is_block)
        return fail(r, rec, err, "'%.80s' is a %s, '%.80s' before it a %s: a topology has either switches or blocks", name, is_block ? "block" : "switch", r->record[0].name, is_block ? "switch" : "block");
    if (!*name)
        return fail(r, rec, err, "a %s without a name", is_block ? "block" : "switch");
    if (strlen(name) > MAX_NAME)
        return fail(r, rec, err, "%s '%.80s...': a name has at most %d characters, this one %zu", is_block ? "block" : "switch", name, MAX_NAME, strlen(name));
    return ZEP_OK;
}

int zep_slurm_records_sizes(struct zep_slurm_records *r, const char *file, int line, const char *text, struct zep_error *err)
{
    char *copy = strdup(text), *save = NULL;
    int rc = copy ? ZEP_OK : zep_error_nomem(err, file);

    for (char *word = copy ? strtok_r(copy, ", \t", &save) : NULL; word && rc == ZEP_OK; word = strtok_r(NULL, ", \t", &save)) {
        int64_t v = 0, times = 0;
        int *p = r->n_size < MAX_SIZES ? zep_reallocarray(r->size, (size_t)r->n_size + 1, sizeof *p) : NULL;

        if ((rc = zep_parse_int(word, 1, MAX_NODES, &v, err)) < 0)
            rc = zep_error_prefix(err, "%s:%d: BlockSizes", file, line);
        else if (r->n_size == MAX_SIZES)
            rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: BlockSizes: more than %d sizes", file, line, MAX_SIZES);
        else if (!p)
            rc = zep_error_nomem(err, file);
        if (p)
            r->size = p;
        if (rc < 0)
            break;
        times = r->n_size ? v / r->size[0] : 1;
        if (r->n_size && (v % r->size[0] || (times & (times - 1)) || times > 1 << 15))
            rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: BlockSizes: '%s': expected the smallest size (%d) times a power of two", file, line, word, r->size[0]);
        r->size[r->n_size++] = (int)v;
    }
    if (rc == ZEP_OK && !r->n_size)
        rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: BlockSizes: no size in it", file, line);
    r->size_line = line;
    free(copy);
    return rc;
}

void zep_slurm_records_free(struct zep_slurm_records *r)
{
    for (int i = 0; i < r->n; i++) {
        free(r->record[i].name);
        free(r->record[i].nodes);
        free(r->record[i].children);
    }
    for (int i = 0; i < r->n_file; i++)
        free(r->file[i]);
    free(r->record);
    free(r->file);
    free(r->size);
    *r = (struct zep_slurm_records){0};
}

/* "circe-n[001-016],n[019-020]" means hosts n019 and n020: a part whose prefix is the end of the first part's is more likely a slip. */
static void warn_of_slip(struct zep_topo *topo, const struct zep_slurm_records *r, const struct zep_slurm_record *rec)
{
    const char *p = rec->nodes, *first = p;
    size_t first_len = strcspn(p, "[0123456789,");

    for (p += strcspn(p, "["); *p;) { /* the next part begins after a comma outside of brackets */
        size_t len;

        p += strcspn(p, "],");
        if (*p == ']')
            p++;
        if (*p != ',') {
            if (!*p)
                break;
            continue;
        }
        p++;
        len = strcspn(p, "[0123456789,");
        if (p[len] == ',' || !p[len])
            continue;
        if (len < first_len && len > 0 && !strncmp(first + first_len - len, p, len) && !strchr(rec->nodes, ' ')) {
            zep_topo_warn(topo, "%s:%d: '%.*s' means hosts '%.*s...', not '%.*s...': each part of a host list has its own prefix (a slip?)", r->file[rec->file], rec->line,
                          (int)(strcspn(p, "]") + (strchr(p, ']') ? 1 : 0)), p, (int)len, p, (int)first_len, first);
            return;
        }
        if (p[len] == '[')
            p += strcspn(p, "]");
    }
}

struct mark { /* the last leaf that named a node, + 1 */
    int *leaf, cap, now;
};

static int mark_node(struct mark *m, int node, struct zep_error *err)
{
    int cap = m->cap, *p;

    if (node < m->cap)
        return ZEP_OK;
    while (cap <= node)
        cap = cap ? 2 * cap : 256;
    if (!(p = zep_reallocarray(m->leaf, (size_t)cap, sizeof *p)))
        return zep_error_nomem(err, "topology");
    memset(p + m->cap, 0, (size_t)(cap - m->cap) * sizeof *p);
    m->leaf = p;
    m->cap = cap;
    return ZEP_OK;
}

/* Nodes of a leaf or block: those that are new are added. */
static int add_nodes(struct zep_topo *topo, struct zep_names *names, struct mark *mark, const struct zep_slurm_records *r, const struct zep_slurm_record *rec, struct zep_switch *sw, struct zep_error *err)
{
    struct zep_hostlist list = {0};
    struct zep_error why;
    int rc = ZEP_OK, node;

    if (zep_hostlist_expand(rec->nodes, &list, &why) < 0)
        return fail(r, rec, err, "%s '%s': Nodes: %s", rec->is_block ? "block" : "switch", rec->name, why.text);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        if (zep_check_hostname(list.name[i], &why) < 0)
            rc = fail(r, rec, err, "%s '%s': Nodes: %s", rec->is_block ? "block" : "switch", rec->name, why.text);
        else if (topo->n_node >= MAX_NODES)
            rc = fail(r, rec, err, "more than %d nodes", MAX_NODES);
        else if ((rc = zep_names_get(names, topo, list.name[i], &node, err)) == ZEP_OK && (rc = mark_node(mark, node, err)) == ZEP_OK) {
            if (mark->leaf[node] == mark->now) /* named twice */
                continue;
            mark->leaf[node] = mark->now;
            if (zep_switch_add_node(sw, node) < 0)
                rc = zep_error_nomem(err, "topology");
        }
    }
    zep_hostlist_free(&list);
    warn_of_slip(topo, r, rec);
    return rc;
}

static int has_parent(const struct zep_switch *sw, int parent)
{
    return sw->n_parent && sw->parent[sw->n_parent - 1] == parent; /* a list is added at a time */
}

/* A part that the controller was asked for, or that was copied, is no mistake: what is below such a child is not known. */
static int warn_of_part(struct zep_topo *topo, const struct zep_slurm_records *r, const struct zep_slurm_record *rec, const char *first, int n)
{
    return zep_topo_warn(topo, "%s:%d: switch '%s': %d of its children %s not in the text, '%s' first (a part of the topology?): nodes below them are not known", r->file[rec->file], rec->line, rec->name, n, n == 1 ? "is" : "are", first);
}

static int add_children(struct zep_topo *topo, struct zep_fabric *f, const struct zep_switch_index *index, const struct zep_slurm_records *r, int self, int union_above, struct zep_error *err)
{
    const struct zep_slurm_record *rec = &r->record[self];
    struct zep_hostlist list = {0};
    struct zep_error why;
    int rc = ZEP_OK, n_absent = 0, absent = 0;

    if (zep_hostlist_expand(rec->children, &list, &why) < 0)
        return fail(r, rec, err, "switch '%s': Switches: %s", rec->name, why.text);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        int child = zep_switch_index_find(index, list.name[i]);

        if (child < 0 && union_above)
            absent = n_absent++ ? absent : i;
        else if (child < 0)
            rc = fail(r, rec, err, "switch '%s': child '%s' is not defined: expected a SwitchName=%s", rec->name, list.name[i], list.name[i]);
        else if (child == self)
            rc = fail(r, rec, err, "switch '%s' is its own child", rec->name);
        else if (has_parent(&f->sw[child], self))
            continue;
        else if (zep_switch_add_parent(&f->sw[child], self) < 0)
            rc = zep_error_nomem(err, "topology");
    }
    if (rc == ZEP_OK && n_absent && warn_of_part(topo, r, rec, list.name[absent], n_absent) < 0)
        rc = zep_error_nomem(err, "topology");
    zep_hostlist_free(&list);
    return rc;
}

static int build(struct zep_topo *topo, const struct zep_slurm_records *r, int union_above, struct zep_error *err)
{
    struct zep_fabric *f = zep_topo_add_fabric(topo, r->record[0].is_block ? "blocks" : "slurm", r->record[0].is_block ? ZEP_FABRIC_BLOCKS : ZEP_FABRIC_TREE);
    struct zep_switch_index *index = NULL;
    struct zep_names *names = NULL;
    struct mark mark = {0};
    int rc = f ? ZEP_OK : zep_error_nomem(err, "topology"), at;

    if (rc < 0 || (rc = zep_switch_index_new(f, &index, err)) < 0 || (rc = zep_names_new(topo, &names, err)) < 0)
        goto out;
    f->source = ZEP_SRC_SITE;
    for (int i = 0; i < r->n && rc == ZEP_OK; i++) {
        const struct zep_slurm_record *rec = &r->record[i];

        if ((at = zep_switch_index_find(index, rec->name)) >= 0)
            rc = fail(r, rec, err, "%s '%s' is defined twice, first on line %d", rec->is_block ? "block" : "switch", rec->name, r->record[at].line);
        else if (rec->nodes && rec->children && !union_above)
            rc = fail(r, rec, err, "switch '%s' has Nodes and Switches: expected one of them", rec->name);
        else if ((rc = zep_switch_index_get(index, f, rec->name, &at, err)) == ZEP_OK && rec->nodes && !rec->children)
            {
            mark.now = i + 1;
            rc = add_nodes(topo, names, &mark, r, rec, &f->sw[at], err);
        }
        else if (rc == ZEP_OK && !rec->nodes && !rec->children && !union_above)
            zep_topo_warn(topo, "%s:%d: %s '%s' has no nodes", r->file[rec->file], rec->line, rec->is_block ? "block" : "switch", rec->name);
        if (rc == ZEP_OK && rec->is_block && r->n_size && f->sw[at].n_node && f->sw[at].n_node < r->size[0])
            zep_topo_warn(topo, "%s:%d: block '%s' has %d node%s, the smallest of BlockSizes is %d", r->file[rec->file], rec->line, rec->name, f->sw[at].n_node, f->sw[at].n_node == 1 ? "" : "s", r->size[0]);
    }
    for (int i = 0; i < r->n && rc == ZEP_OK; i++)
        if (r->record[i].children)
            rc = add_children(topo, f, index, r, i, union_above, err);
    for (int i = 0; i < r->n_size && rc == ZEP_OK; i++)
        if (zep_fabric_add_block_size(f, r->size[i]) < 0)
            rc = zep_error_nomem(err, "topology");
    if (rc == ZEP_OK && (rc = zep_fabric_set_levels(f, err)) < 0)
        zep_error_prefix(err, "%s", r->file[0]);
    if (rc == ZEP_OK && !topo->n_node)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no %s has nodes", r->file[0], r->record[0].is_block ? "block" : "switch");
    if (rc == ZEP_OK)
        rc = zep_fabric_settle(topo, f, 0, err);
out:
    zep_switch_index_free(index);
    zep_names_free(names);
    free(mark.leaf);
    return rc;
}

int zep_slurm_records_build(const struct zep_slurm_records *r, const char *origin, int union_above, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_topo *topo;
    int rc;

    if (!r->n)
        return zep_error_set(err, ZEP_EINVAL, "no switches and no blocks: expected at least one SwitchName or BlockName");
    if (r->n_size && !r->record[0].is_block)
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: BlockSizes without a block: expected BlockName", r->file[0], r->size_line);
    if (!(topo = zep_topo_new("slurm", origin)))
        return zep_error_nomem(err, "topology");
    if ((rc = build(topo, r, union_above, err)) == ZEP_OK)
        rc = zep_topo_validate(topo, err);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}
