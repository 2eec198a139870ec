/* Formats that other tools read: Slurm's topology.conf and topology.yaml, host files, Kubernetes labels. */
#include "config.h"
#include "topology/topo_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"
#include "common/yaml.h"

/* --- Slurm --- */

/* A leaf or upper switch as Slurm knows them: nodes or children, not both. */
struct entry {
    char *name, *nodes, *children;
};

struct entries {
    int n, cap;
    struct entry *e;
};

static int add_entry(struct entries *list, const char *name, char *nodes, char *children, struct zep_error *err)
{
    struct entry *e;

    if (list->n == list->cap) {
        int cap = list->cap ? 2 * list->cap : 64;

        if (!(e = zep_reallocarray(list->e, (size_t)cap, sizeof *e)))
            goto err_memory;
        list->e = e;
        list->cap = cap;
    }
    e = &list->e[list->n];
    *e = (struct entry){strdup(name), nodes, children};
    if (!e->name)
        goto err_memory;
    list->n++;
    return ZEP_OK;
err_memory:
    free(nodes);
    free(children);
    return zep_error_nomem(err, "switches");
}

static void free_entries(struct entries *list)
{
    for (int i = 0; i < list->n; i++) {
        free(list->e[i].name);
        free(list->e[i].nodes);
        free(list->e[i].children);
    }
    free(list->e);
}

/* Names that Slurm takes: 1 to 64 characters without blanks, commas, brackets, quotes, '#', '=' and backslashes. */
static int name_fits(const char *name)
{
    return *name && strlen(name) <= 64 && !strpbrk(name, ",[] \t\"#\\=");
}

static int is_taken(char *const *name, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (name[i] && !strcmp(name[i], word))
            return 1;
    return 0;
}

/* Each switch's name for Slurm: its own, else the last part of a path, else sN. */
static char **slurm_names(const struct zep_fabric *f, struct zep_error *err)
{
    char **name = zep_calloc((size_t)f->n_switch + 1, sizeof *name), word[32];
    int rc = name ? ZEP_OK : zep_error_nomem(err, "switch names"), next = 0;

    for (int i = 0; i < f->n_switch && rc == ZEP_OK; i++)
        if (name_fits(f->sw[i].name) && !(name[i] = strdup(f->sw[i].name)))
            rc = zep_error_nomem(err, "switch names");
    for (int i = 0; i < f->n_switch && rc == ZEP_OK; i++) {
        const char *slash = strrchr(f->sw[i].name, '/');

        if (name[i])
            continue;
        if (slash && name_fits(slash + 1) && !is_taken(name, f->n_switch, slash + 1)) {
            name[i] = strdup(slash + 1);
        } else {
            do
                snprintf(word, sizeof word, "s%d", next++);
            while (is_taken(name, f->n_switch, word));
            name[i] = strdup(word);
        }
        if (!name[i])
            rc = zep_error_nomem(err, "switch names");
    }
    if (rc == ZEP_OK)
        return name;
    for (int i = 0; name && i < f->n_switch; i++)
        free(name[i]);
    free(name);
    return NULL;
}

static int fold_nodes(const struct zep_topo *topo, const int *node, int n, char **out, struct zep_error *err)
{
    const char **name = zep_calloc((size_t)n + 1, sizeof *name);
    int rc, n_name = 0;

    if (!name)
        return zep_error_nomem(err, "node names");
    for (int i = 0; i < n; i++)
        if (i == 0 || node[i] != node[i - 1]) /* two NICs on one switch are two ports of one node */
            name[n_name++] = topo->node[node[i]].id;
    rc = zep_hostlist_fold(n_name, name, out, err);
    free(name);
    return rc;
}

/* Children of each switch, in order. first and next: lists by (switch, parent) pairs. */
static int fold_children(char *const *names, const int *first, const int *next, const int *child, int sw, const char *extra, char **out, struct zep_error *err)
{
    const char **name;
    int n = 0, rc;

    for (int p = first[sw]; p >= 0; p = next[p])
        n++;
    if (!(name = zep_calloc((size_t)n + 2, sizeof *name)))
        return zep_error_nomem(err, "switch names");
    n = 0;
    if (extra)
        name[n++] = extra;
    for (int p = first[sw]; p >= 0; p = next[p])
        name[n++] = names[child[p]];
    rc = zep_hostlist_fold(n, name, out, err);
    free(name);
    return rc;
}

static int tree_entries(const struct zep_topo *topo, const struct zep_fabric *f, struct entries *list, struct zep_error *err)
{
    int n_pair = 0, rc = ZEP_OK, at = 0, *first, *next, *child;
    char **names = slurm_names(f, err);

    if (!names)
        return ZEP_ENOMEM;

    for (int i = 0; i < f->n_switch; i++)
        n_pair += f->sw[i].n_parent;
    first = zep_calloc((size_t)f->n_switch + 2 * (size_t)n_pair + 1, sizeof *first);
    if (!first) {
        rc = zep_error_nomem(err, "switches");
        goto out;
    }
    next = first + f->n_switch;
    child = next + n_pair;
    for (int i = 0; i < f->n_switch; i++)
        first[i] = -1;
    for (int i = f->n_switch - 1; i >= 0; i--)
        for (int k = f->sw[i].n_parent - 1; k >= 0; k--) {
            child[at] = i;
            next[at] = first[f->sw[i].parent[k]];
            first[f->sw[i].parent[k]] = at++;
        }
    for (int i = 0; i < f->n_switch && rc == ZEP_OK; i++) {
        const struct zep_switch *s = &f->sw[i];
        char *nodes = NULL, *children = NULL, extra[300];

        if (s->n_node && (rc = fold_nodes(topo, s->node, s->n_node, &nodes, err)) < 0)
            break;
        snprintf(extra, sizeof extra, "%.50s-nodes", names[i]);
        for (int k = 0; is_taken(names, f->n_switch, extra); k++)
            snprintf(extra, sizeof extra, "%.40s-nodes%d", names[i], k);
        if (first[i] >= 0 && (rc = fold_children(names, first, next, child, i, nodes ? extra : NULL, &children, err)) < 0) {
            free(nodes);
            break;
        }
        if (nodes && children) { /* Slurm wants a leaf for nodes that hang on an upper switch */
            if ((rc = add_entry(list, extra, nodes, NULL, err)) == ZEP_OK)
                rc = add_entry(list, names[i], NULL, children, err);
        } else {
            rc = add_entry(list, names[i], nodes, children, err);
        }
    }
    free(first);
out:
    for (int i = 0; i < f->n_switch; i++)
        free(names[i]);
    free(names);
    return rc;
}

static int root_of(int *up, int i)
{
    while (up[i] != i)
        i = up[i] = up[up[i]];
    return i;
}

/* Slurm knows no rails: nodes that leaves join become one leaf (also one that a NIC's failure took off a rail), and one switch stands above all. */
static int rail_entries(const struct zep_topo *topo, const struct zep_fabric *f, struct entries *list, struct zep_error *err)
{
    int *up = zep_calloc((size_t)topo->n_node + 1, sizeof *up), *member = zep_calloc((size_t)topo->n_node + 1, sizeof *member), rc = ZEP_OK, n_group = 0;
    char name[32], *on = zep_calloc((size_t)topo->n_node + 1, 1), *seen = zep_calloc((size_t)topo->n_node + 1, 1);

    if (!up || !member || !on || !seen) {
        rc = zep_error_nomem(err, "rails");
        goto out;
    }
    for (int i = 0; i < topo->n_node; i++)
        up[i] = i;
    for (int s = 0; s < f->n_switch; s++)
        for (int k = 0; k < f->sw[s].n_node; k++) {
            on[f->sw[s].node[k]] = 1;
            up[root_of(up, f->sw[s].node[k])] = root_of(up, f->sw[s].node[0]);
        }
    for (int i = 0; i < topo->n_node && rc == ZEP_OK; i++) {
        char *nodes;
        int n = 0, root = root_of(up, i);

        if (!on[i] || seen[root])
            continue;
        seen[root] = 1;
        for (int k = i; k < topo->n_node; k++)
            if (on[k] && root_of(up, k) == root)
                member[n++] = k;
        if ((rc = fold_nodes(topo, member, n, &nodes, err)) < 0)
            break;
        snprintf(name, sizeof name, "rails%d", n_group++);
        rc = add_entry(list, name, nodes, NULL, err);
    }
    if (rc == ZEP_OK && n_group > 1) {
        char *children = zep_calloc(64, 1);

        if (!children) {
            rc = zep_error_nomem(err, "rails");
        } else {
            snprintf(children, 64, "rails[0-%d]", n_group - 1);
            rc = add_entry(list, "spine", NULL, children, err);
        }
    }
out:
    free(up);
    free(member);
    free(on);
    free(seen);
    return rc;
}

static int entries_of(const struct zep_topo *topo, const struct zep_fabric *f, struct entries *list, struct zep_error *err)
{
    return f->kind == ZEP_FABRIC_RAILS ? rail_entries(topo, f, list, err) : tree_entries(topo, f, list, err);
}

static int no_fabric(const struct zep_topo *topo, struct zep_error *err)
{
    return zep_error_set(err, ZEP_EUNAVAIL, "%s: no switches are known: nothing to write", topo->origin);
}

static void put_sizes(const struct zep_fabric *f, struct zep_buf *b, const char *before, const char *between, const char *after)
{
    int least = 0;

    zep_buf_puts(b, before);
    for (int i = 0; i < f->n_switch; i++)
        if (i == 0 || f->sw[i].n_node < least)
            least = f->sw[i].n_node;
    if (!f->n_block_size)
        zep_buf_printf(b, "%d", least > 0 ? least : 1);
    for (int i = 0; i < f->n_block_size; i++)
        zep_buf_printf(b, "%s%d", i ? between : "", f->block_size[i]);
    zep_buf_puts(b, after);
}

int zep_topo_to_slurm_conf(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_fabric *f = topo->n_fabric ? &topo->fabric[0] : NULL;
    struct entries list = {0};
    int rc;

    if (!f || !f->n_switch)
        return no_fabric(topo, err);
    zep_buf_printf(b, "# topology.conf for TopologyPlugin=topology/%s, fabric %s\n", f->kind == ZEP_FABRIC_BLOCKS ? "block" : "tree", f->name);
    if ((rc = entries_of(topo, f, &list, err)) == ZEP_OK)
        for (int i = 0; i < list.n; i++) {
            const struct entry *e = &list.e[i];

            if (f->kind == ZEP_FABRIC_BLOCKS)
                zep_buf_printf(b, "BlockName=%s Nodes=%s\n", e->name, e->nodes ? e->nodes : "");
            else
                zep_buf_printf(b, "SwitchName=%s%s%s\n", e->name, e->nodes ? " Nodes=" : e->children ? " Switches=" : "", e->nodes ? e->nodes : e->children ? e->children : "");
        }
    if (rc == ZEP_OK && f->kind == ZEP_FABRIC_BLOCKS)
        put_sizes(f, b, "BlockSizes=", ",", "\n");
    free_entries(&list);
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}

static int put_yaml_fabric(const struct zep_topo *topo, const struct zep_fabric *f, int is_default, struct zep_buf *b, struct zep_error *err)
{
    int is_block = f->kind == ZEP_FABRIC_BLOCKS, rc;
    struct entries list = {0};

    if ((rc = entries_of(topo, f, &list, err)) < 0) {
        free_entries(&list);
        return rc;
    }
    zep_buf_puts(b, "- topology: ");
    zep_yaml_emit_scalar(b, f->name);
    zep_buf_printf(b, "\n  cluster_default: %s\n  %s:\n", is_default ? "true" : "false", is_block ? "block" : "tree");
    if (is_block)
        put_sizes(f, b, "    block_sizes:\n      - ", "\n      - ", "\n");
    zep_buf_printf(b, "    %s:\n", is_block ? "blocks" : "switches");
    for (int i = 0; i < list.n; i++) {
        const struct entry *e = &list.e[i];

        zep_buf_printf(b, "      - %s: ", is_block ? "block" : "switch");
        zep_yaml_emit_scalar(b, e->name);
        zep_buf_puts(b, "\n");
        if (e->nodes || e->children) {
            zep_buf_printf(b, "        %s: ", e->nodes ? "nodes" : "children");
            zep_yaml_emit_scalar(b, e->nodes ? e->nodes : e->children);
            zep_buf_puts(b, "\n");
        }
    }
    free_entries(&list);
    return ZEP_OK;
}

int zep_topo_to_slurm_yaml(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    int rc = ZEP_OK, n = 0;

    zep_buf_puts(b, "---\n");
    for (int i = 0; i < topo->n_fabric && rc == ZEP_OK; i++)
        if (topo->fabric[i].n_switch)
            rc = put_yaml_fabric(topo, &topo->fabric[i], n++ == 0, b, err);
    if (rc == ZEP_OK && !n)
        return no_fabric(topo, err);
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}

/* --- host files --- */

/* Nodes that ranks can be started on: not down, drained or the like, and with slots where any node is known to have some. */
static int takes_ranks(const struct zep_topo *topo, int node, int any_slots)
{
    return !zep_node_is_out(&topo->node[node]) && (!any_slots || zep_node_slots(&topo->node[node]));
}

static int any_slots(const struct zep_topo *topo)
{
    for (int i = 0; i < topo->n_node; i++)
        if (zep_node_slots(&topo->node[i]))
            return 1;
    return 0;
}

int zep_topo_to_hostfile(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    int *order = zep_calloc((size_t)topo->n_node + 1, sizeof *order), rc = order ? zep_topo_tree_order(topo, order, err) : zep_error_nomem(err, "host file"), any = any_slots(topo);

    for (int i = 0; i < topo->n_node && rc == ZEP_OK; i++) {
        const struct zep_node *n = &topo->node[order[i]];

        if (!takes_ranks(topo, order[i], any))
            zep_buf_printf(b, "# left out: %s (%s)\n", n->id, zep_node_is_out(n) ? n->state : "no devices, and no cores that are known");
        else if (zep_node_slots(n))
            zep_buf_printf(b, "%s slots=%d\n", n->id, zep_node_slots(n));
        else
            zep_buf_printf(b, "%s\n", n->id);
    }
    free(order);
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}

int zep_topo_to_ranks(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    int *order = zep_calloc((size_t)topo->n_node + 1, sizeof *order), rc = order ? zep_topo_tree_order(topo, order, err) : zep_error_nomem(err, "rank order"), any = any_slots(topo);

    for (int i = 0; i < topo->n_node && rc == ZEP_OK; i++) {
        int n = zep_node_slots(&topo->node[order[i]]);

        for (int k = 0; k < (n ? n : 1) && takes_ranks(topo, order[i], any); k++)
            zep_buf_printf(b, "%s\n", topo->node[order[i]].id);
    }
    free(order);
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}

/* --- Kubernetes labels, as topograph writes them --- */

/* A label's value: at most 63 of [A-Za-z0-9._-], ends alphanumeric; what does not fit becomes x and the FNV-64a digest in hex, as topograph does. */
static void put_label(struct zep_buf *b, const char *key, const char *value)
{
    size_t len = strlen(value);
    uint64_t h = 0xcbf29ce484222325u;
    int fits = len > 0 && len <= 63;

    for (const char *p = value; *p; p++) {
        int alnum = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');

        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
        fits &= alnum || (strchr("._-", *p) && p > value && p[1]);
    }
    zep_buf_printf(b, "      %s: ", key);
    if (fits)
        zep_buf_printf(b, "\"%s\"\n", value);
    else
        zep_buf_printf(b, "\"x%016" PRIx64 "\"\n", h);
}

static void put_levels(struct zep_buf *b, const struct zep_fabric *f, int leaf)
{
    char key[64];

    for (int level = 0, sw = leaf; sw >= 0 && level < 8; level++) {
        snprintf(key, sizeof key, "fabric.topograph.run/tier-%d", level);
        put_label(b, key, f->sw[sw].name);
        sw = f->sw[sw].n_parent ? f->sw[sw].parent[0] : -1;
    }
}

static int find_leaves(const struct zep_topo *topo, const struct zep_fabric *f, int *leaf)
{
    for (int i = 0; i < topo->n_node; i++)
        leaf[i] = -1;
    for (int s = f ? f->n_switch - 1 : -1; s >= 0; s--)
        for (int k = 0; k < f->sw[s].n_node; k++)
            leaf[f->sw[s].node[k]] = s;
    return 0;
}

int zep_topo_to_labels(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_fabric *tree = NULL, *blocks = NULL;
    int *leaf = zep_calloc(2 * (size_t)topo->n_node + 1, sizeof *leaf), *block = leaf ? leaf + topo->n_node : NULL;

    if (!leaf)
        return zep_error_nomem(err, "labels");
    for (int i = topo->n_fabric - 1; i >= 0; i--)
        *(topo->fabric[i].kind == ZEP_FABRIC_BLOCKS ? &blocks : &tree) = &topo->fabric[i];
    if (!tree && !blocks) {
        free(leaf);
        return no_fabric(topo, err);
    }
    find_leaves(topo, tree, leaf);
    find_leaves(topo, blocks, block);
    zep_buf_puts(b, "apiVersion: v1\nkind: List\nitems:\n");
    for (int i = 0; i < topo->n_node; i++) {
        if (leaf[i] < 0 && block[i] < 0)
            continue;
        zep_buf_printf(b, "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: \"%s\"\n    labels:\n", topo->node[i].id);
        if (leaf[i] >= 0)
            put_levels(b, tree, leaf[i]);
        if (block[i] >= 0)
            put_label(b, "accelerator.topograph.run/domain", blocks->sw[block[i]].name);
    }
    free(leaf);
    return zep_buf_ok(b, err);
}
