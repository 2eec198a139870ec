/* Slurm's topology.yaml (25.05 and later): a list of topologies, of which one is the cluster's default. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/yaml.h"
#include "topology/slurm_records.h"

typedef const struct zep_yaml_node yaml;

int zep_topo_is_slurm_yaml(const char *text, size_t len)
{
    const char *p = text;

    while (*p) { /* "- topology: NAME" as the first item, or "topology:" below a lone dash */
        p += strspn(p, " \t\r\n");
        if (*p == '#' || !strncmp(p, "---", 3)) {
            p += strcspn(p, "\n");
            continue;
        }
        break;
    }
    if (*p == '[' || *p == '-')
        p += 1 + strspn(p + 1, " \t\r\n{\"'");
    else
        return 0;
    return !strncmp(p, "topology", 8) || (strstr(p, "topology:") && (strstr(p, "cluster_default:") || strstr(p, "switch:") || strstr(p, "block:")));
}

struct reader {
    const struct zep_yaml *doc;
    struct zep_slurm_records records;
    struct zep_error *err;
};

static int text_of(struct reader *r, yaml *map, const char *key, const char **out)
{
    yaml *n = zep_yaml_get(map, key);

    *out = NULL;
    return n ? zep_yaml_string(r->doc, n, key, out, r->err) : ZEP_OK;
}

/* A list of maps, each with `name_key` and nodes or children. */
static int read_entries(struct reader *r, yaml *list, const char *what, int is_block)
{
    static const char *const known_switch[] = {"switch", "children", "nodes", NULL}, *const known_block[] = {"block", "nodes", NULL};
    int rc;

    if (list->type != ZEP_YAML_SEQ)
        return zep_yaml_error(r->doc, list, r->err, "%s: expected a list", what);
    for (int i = 0; i < list->n; i++) {
        yaml *e = list->child[i];
        const char *name, *nodes, *children = NULL;

        if (e->type != ZEP_YAML_MAP)
            return zep_yaml_error(r->doc, e, r->err, "%s: expected '%s: NAME' and its nodes", what, is_block ? "block" : "switch");
        if ((rc = zep_yaml_check_keys(r->doc, e, is_block ? known_block : known_switch, r->err)) < 0 || (rc = text_of(r, e, is_block ? "block" : "switch", &name)) < 0 ||
            (rc = text_of(r, e, "nodes", &nodes)) < 0 || (rc = text_of(r, e, "children", &children)) < 0)
            return rc;
        if (!name)
            return zep_yaml_error(r->doc, e, r->err, "a %s without a name", is_block ? "block" : "switch");
        if ((rc = zep_slurm_records_add(&r->records, zep_yaml_name(r->doc), e->line, is_block, name, nodes, children, r->err)) < 0)
            return rc;
    }
    return ZEP_OK;
}

/* "[4, 16]" or "4,16" */
static int read_sizes(struct reader *r, yaml *n)
{
    struct zep_buf b = ZEP_BUF_INIT;
    const char *text;
    int rc = ZEP_OK;

    for (int i = 0; n->type == ZEP_YAML_SEQ && i < n->n && rc == ZEP_OK; i++)
        if ((rc = zep_yaml_string(r->doc, n->child[i], "block_sizes", &text, r->err)) == ZEP_OK)
            zep_buf_printf(&b, "%s%s", i ? "," : "", text);
    if (n->type != ZEP_YAML_SEQ && (rc = zep_yaml_string(r->doc, n, "block_sizes", &text, r->err)) == ZEP_OK)
        zep_buf_puts(&b, text);
    if (rc == ZEP_OK && (rc = zep_buf_ok(&b, r->err)) == ZEP_OK)
        rc = zep_slurm_records_sizes(&r->records, zep_yaml_name(r->doc), n->line, b.data ? b.data : "", r->err);
    zep_buf_free(&b);
    return rc;
}

static const char *const kinds[] = {"tree", "block", "flat", "ring", "torus3d", NULL}; /* the first three are read */

static const char *kind_of(yaml *t)
{
    for (int k = 0; kinds[k]; k++)
        if (zep_yaml_get(t, kinds[k]))
            return kinds[k];
    return "unknown";
}

static const char *name_of(yaml *t)
{
    yaml *n = zep_yaml_get(t, "topology");

    return n && n->type == ZEP_YAML_SCALAR ? n->scalar : "(no name)";
}

static int read_topology(struct reader *r, yaml *t, const char *origin, struct zep_topo **topo_out)
{
    static const char *const known_tree[] = {"switches", NULL}, *const known_block[] = {"block_sizes", "blocks", NULL};
    yaml *tree = zep_yaml_get(t, "tree"), *block = zep_yaml_get(t, "block"), *list, *sizes;
    const char *kind = kind_of(t);
    int rc;

    if (!tree && !block) {
        if (strcmp(kind, "flat"))
            return zep_error_set(r->err, strcmp(kind, "unknown") ? ZEP_EUNSUPPORTED : ZEP_EINVAL, "%s:%d: topology '%s': its kind is %s: expected tree, block or flat", zep_yaml_name(r->doc), t->line, name_of(t), kind);
        if (!(*topo_out = zep_topo_new("slurm", origin)))
            return zep_error_nomem(r->err, "topology");
        return zep_topo_warn(*topo_out, "%s:%d: topology '%s' is flat: it names no nodes and no switches", zep_yaml_name(r->doc), t->line, name_of(t));
    }
    if ((tree ? tree : block)->type != ZEP_YAML_MAP)
        return zep_yaml_error(r->doc, tree ? tree : block, r->err, "%s: expected %s", tree ? "tree" : "block", tree ? "switches" : "block_sizes and blocks");
    if ((rc = zep_yaml_check_keys(r->doc, tree ? tree : block, tree ? known_tree : known_block, r->err)) < 0)
        return rc;
    if (!tree && (sizes = zep_yaml_get(block, "block_sizes")) && (rc = read_sizes(r, sizes)) < 0)
        return rc;
    list = zep_yaml_get(tree ? tree : block, tree ? "switches" : "blocks");
    if (!list)
        return zep_yaml_error(r->doc, tree ? tree : block, r->err, "no %s", tree ? "switches" : "blocks");
    if ((rc = read_entries(r, list, tree ? "switches" : "blocks", !tree)) < 0)
        return rc;
    if (!r->records.n)
        return zep_yaml_error(r->doc, list, r->err, "topology '%s' has no %s: expected at least one", name_of(t), tree ? "switches" : "blocks");
    return zep_slurm_records_build(&r->records, origin, 0, topo_out, r->err);
}

/* As Slurm's data parser: more words than true and false. */
static int read_yes(struct reader *r, yaml *n, const char *key, int *out)
{
    static const char *const yes[] = {"y", "yes", "on", "t", "1"}, *const no[] = {"n", "no", "off", "f", "0"};

    for (size_t i = 0; n->type == ZEP_YAML_SCALAR && i < sizeof yes / sizeof yes[0]; i++)
        if (!strcasecmp(n->scalar, yes[i]) || !strcasecmp(n->scalar, no[i])) {
            *out = !strcasecmp(n->scalar, yes[i]);
            return ZEP_OK;
        }
    return zep_yaml_bool(r->doc, n, key, out, r->err);
}

/* The one that is the cluster's default; without such a mark the first. */
static int choose(struct reader *r, yaml *root, int *chosen_out, int *n_default_out)
{
    int chosen = 0, n = 0, is, rc;

    for (int i = 0; i < root->n; i++) {
        yaml *t = root->child[i], *d;

        if (t->type != ZEP_YAML_MAP || !zep_yaml_get(t, "topology"))
            return zep_yaml_error(r->doc, t, r->err, "expected 'topology: NAME' and one of tree, block, flat");
        if (!(d = zep_yaml_get(t, "cluster_default")))
            continue;
        if ((rc = read_yes(r, d, "cluster_default", &is)) < 0)
            return rc;
        if (is && n++ == 0)
            chosen = i;
    }
    *chosen_out = chosen;
    *n_default_out = n;
    return ZEP_OK;
}

int zep_topo_from_slurm_yaml(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_yaml *doc = NULL;
    struct reader r = {.err = err};
    struct zep_topo *topo = NULL;
    char origin[400];
    yaml *root;
    int rc, chosen = 0, n_default = 0;

    if ((rc = zep_yaml_load(q->file, q->text, q->len, &doc, err)) < 0)
        return rc;
    r.doc = doc;
    root = zep_yaml_root(doc);
    if (root->type != ZEP_YAML_SEQ || !root->n) {
        rc = zep_yaml_error(doc, root, err, "expected a list of topologies");
        goto out;
    }
    if ((rc = choose(&r, root, &chosen, &n_default)) < 0)
        goto out;
    snprintf(origin, sizeof origin, "topology.yaml %.200s, topology %.100s", q->file, name_of(root->child[chosen]));
    if ((rc = read_topology(&r, root->child[chosen], origin, &topo)) < 0)
        goto out;
    if (n_default != 1)
        zep_topo_warn(topo, "%s: %s topology has cluster_default: '%s' is taken, the first", q->file, n_default ? "more than one" : "no", name_of(root->child[chosen]));
    for (int i = 0; i < root->n; i++)
        if (i != chosen)
            zep_topo_warn(topo, "%s:%d: topology '%s' (%s) is passed over: %s", q->file, root->child[i]->line, name_of(root->child[i]), kind_of(root->child[i]), "it is not the cluster's default");
out:
    zep_slurm_records_free(&r.records);
    zep_yaml_free(doc);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}
