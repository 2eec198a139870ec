/* Slurm's files: topology.conf, the text of scontrol show topology, gres.conf. */
#include "config.h"
#include "topology/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/hostlist.h"
#include "common/units.h"
#include "topology/slurm_lines.h"
#include "topology/slurm_records.h"
#include "topology/topo_internal.h"

/* --- what a text is: the first words of its first line that says something --- */

static const char *first_line(const char *text, size_t *len_out)
{
    while (*text) {
        text += strspn(text, " \t\r\n");
        if (*text != '#')
            break;
        text += strcspn(text, "\n");
    }
    *len_out = strcspn(text, "\n");
    return text;
}

static int begins(const char *line, const char *key)
{
    size_t n = strlen(key);

    return !strncasecmp(line, key, n) && (line[n] == '=' || line[n] == ' ' || line[n] == '\t');
}

int zep_topo_is_scontrol(const char *text, size_t len)
{
    const char *line = first_line(text, &len), *level;

    if (strncmp(line, "SwitchName=", 11) && strncmp(line, "BlockName=", 10))
        return 0;
    level = strstr(line, strncmp(line, "SwitchName=", 11) ? " BlockIndex=" : " Level=");
    return level && level < line + len;
}

int zep_topo_is_slurm_conf(const char *text, size_t len)
{
    const char *line = first_line(text, &len);

    return begins(line, "SwitchName") || begins(line, "BlockName") || begins(line, "BlockSizes");
}

int zep_topo_is_gres_conf(const char *text, size_t len)
{
    const char *line = first_line(text, &len);

    return begins(line, "Name") || begins(line, "NodeName") || begins(line, "AutoDetect");
}

/* --- topology.conf --- */

static int conf_line(void *arg, const struct zep_slurm_line *l, struct zep_error *err)
{
    static const char *const known_switch[] = {"SwitchName", "Switches", "Nodes", "LinkSpeed", NULL}, *const known_block[] = {"BlockName", "Nodes", NULL}, *const known_sizes[] = {"BlockSizes", NULL};
    static const char *const all[] = {"SwitchName", "BlockName", "BlockSizes", NULL};
    struct zep_slurm_records *r = arg;
    int is_switch = !strcasecmp(l->key[0], "SwitchName"), is_block = !strcasecmp(l->key[0], "BlockName"), rc;

    if (!is_switch && !is_block && strcasecmp(l->key[0], "BlockSizes")) {
        if (zep_slurm_value(l, "Nodes") || zep_slurm_value(l, "Switches"))
            return zep_slurm_line_error(l, err, "'%.60s': expected SwitchName or BlockName at the beginning of the line", l->key[0]);
        return zep_slurm_line_keys(l, all, err);
    }
    if ((rc = zep_slurm_line_keys(l, is_switch ? known_switch : is_block ? known_block : known_sizes, err)) < 0)
        return rc;
    if (!is_switch && !is_block) {
        if (r->n_size)
            return zep_slurm_line_error(l, err, "BlockSizes is given twice, first on line %d", r->size_line);
        return zep_slurm_records_sizes(r, l->file, l->line, l->value[0], err);
    }
    if (strchr(l->value[0], '='))
        return zep_slurm_line_error(l, err, "%s: no name before '%.80s'", l->key[0], l->value[0]);
    return zep_slurm_records_add(r, l->file, l->line, is_block, l->value[0], zep_slurm_value(l, "Nodes"), zep_slurm_value(l, "Switches"), err);
}

int zep_topo_from_slurm_conf(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_slurm_records r = {0};
    char origin[400];
    int rc = zep_slurm_lines(q->file, q->text, q->len, conf_line, &r, err);

    snprintf(origin, sizeof origin, "topology.conf %.360s", q->file);
    if (rc == ZEP_OK && (rc = zep_slurm_records_build(&r, origin, 0, topo_out, err)) < 0 && !r.n)
        zep_error_prefix(err, "%s", q->file);
    zep_slurm_records_free(&r);
    return rc;
}

/* --- scontrol show topology --- */

static int scontrol_line(void *arg, const struct zep_slurm_line *l, struct zep_error *err)
{
    struct zep_slurm_records *r = arg;
    const char *sw = zep_slurm_value(l, "SwitchName"), *block = zep_slurm_value(l, "BlockName");

    if (!sw && !block)
        return ZEP_OK; /* a later version may say more */
    if (!sw && zep_slurm_value(l, "AggregatedBlock"))
        return ZEP_OK;
    return zep_slurm_records_add(r, l->file, l->line, !sw, sw ? sw : block, zep_slurm_value(l, "Nodes"), zep_slurm_value(l, "Switches"), err);
}

int zep_topo_from_scontrol(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_slurm_records r = {0};
    char origin[400];
    int rc = zep_slurm_lines(q->file, q->text, q->len, scontrol_line, &r, err);

    snprintf(origin, sizeof origin, "scontrol show topology %.360s", q->file);
    if (rc == ZEP_OK)
        rc = zep_slurm_records_build(&r, origin, 1, topo_out, err);
    for (int i = 0; rc == ZEP_OK && i < (*topo_out)->n_fabric; i++)
        (*topo_out)->fabric[i].source = ZEP_SRC_CONTROLLER;
    zep_slurm_records_free(&r);
    return rc;
}

/* --- gres.conf --- */

struct gres {
    const struct zep_topo *base;
    struct zep_topo *topo;
    struct zep_names *names;
};

/* "/dev/nvidia[0-3]": how many, by expanding as a host list. */
static int count_files(const struct zep_slurm_line *l, const char *file, struct zep_error *err)
{
    struct zep_hostlist list = {0};
    struct zep_error why;
    int n;

    if (zep_hostlist_expand(file, &list, &why) < 0)
        return zep_slurm_line_error(l, err, "File '%.200s': %s", file, why.text);
    n = list.n;
    zep_hostlist_free(&list);
    if (n < 1 || n > 1024)
        return zep_slurm_line_error(l, err, "File '%.200s': %d devices: expected 1 to 1024", file, n);
    return n;
}

/* "-1,4,4,4": NVLinks to each device in order, -1 at its own place. */
static int set_links(struct zep_node *n, int dev, const char *text)
{
    int k = 0;

    for (const char *p = text; *p && k < n->n_device; p += strcspn(p, ","), p += *p == ',') {
        long v = strtol(p, NULL, 10);

        if (v > 0 && zep_node_set_peer(n, dev, k, ZEP_DIST_UNKNOWN, (int)v) < 0)
            return ZEP_ENOMEM;
        k++;
    }
    return ZEP_OK;
}

static int add_gpus(struct zep_node *n, const struct zep_slurm_line *l, int count, struct zep_error *err)
{
    const char *type = zep_slurm_value(l, "Type"), *cores = zep_slurm_value(l, "Cores"), *links = zep_slurm_value(l, "Links");
    int first = n->n_device;
    char key[32];

    if (!cores)
        cores = zep_slurm_value(l, "CPUs");
    for (int i = 0; i < count; i++) {
        struct zep_device *d;

        snprintf(key, sizeof key, "gpu%d", n->n_device);
        if (!(d = zep_node_add_device(n, key, ZEP_DEV_GPU)) || (type && !(d->model = strdup(type))) || (cores && !(d->cores = strdup(cores))))
            return zep_error_nomem(err, "topology");
        d->source = ZEP_SRC_SITE;
    }
    return links && set_links(n, first, links) < 0 ? zep_error_nomem(err, "topology") : ZEP_OK;
}

/* Nodes of the line: named, or all that the sources before know. */
static int gres_nodes(struct gres *g, const struct zep_slurm_line *l, const char *names, struct zep_hostlist *out, struct zep_error *err)
{
    struct zep_error why;

    if (names && strcasecmp(names, "ALL"))
        return zep_hostlist_expand(names, out, &why) < 0 ? zep_slurm_line_error(l, err, "NodeName: %s", why.text) : ZEP_OK;
    if (!g->base || !g->base->n_node)
        return zep_slurm_line_error(l, err, "no NodeName: the line is meant for every node: name the nodes by a source before this one (--from topology.conf --from gres.conf)");
    if (!(out->name = zep_calloc((size_t)g->base->n_node, sizeof *out->name)))
        return zep_error_nomem(err, "node names");
    for (int i = 0; i < g->base->n_node; i++, out->n++)
        if (!(out->name[i] = strdup(g->base->node[i].id)))
            return zep_error_nomem(err, "node names");
    return ZEP_OK;
}

static int gres_line(void *arg, const struct zep_slurm_line *l, struct zep_error *err)
{
    static const char *const known[] = {"NodeName", "Name", "Type", "File", "Count", "Cores", "CPUs", "Links", "Flags", "AutoDetect", "MultipleFiles", "Ignore", NULL};
    const char *name = zep_slurm_value(l, "Name"), *file = zep_slurm_value(l, "File"), *count = zep_slurm_value(l, "Count"), *multi = zep_slurm_value(l, "MultipleFiles");
    struct gres *g = arg;
    struct zep_hostlist list = {0};
    int64_t n = 1;
    int rc;

    if ((rc = zep_slurm_line_keys(l, known, err)) < 0)
        return rc;
    if (!name)
        return zep_slurm_value(l, "AutoDetect") ? ZEP_OK : zep_slurm_line_error(l, err, "no Name: expected Name=gpu or another kind of resource");
    if (strcasecmp(name, "gpu"))
        return ZEP_OK;
    if (file || multi) {
        if ((rc = count_files(l, file ? file : multi, err)) < 0)
            return rc;
        n = rc;
    } else if (count && zep_parse_int(count, 0, 1024, &n, err) < 0) {
        return zep_error_prefix(err, "%s:%d: Count", l->file, l->line);
    }
    rc = gres_nodes(g, l, zep_slurm_value(l, "NodeName"), &list, err);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        struct zep_error why;
        int node;

        if (zep_check_hostname(list.name[i], &why) < 0)
            rc = zep_slurm_line_error(l, err, "NodeName: %s", why.text);
        else if ((rc = zep_names_get(g->names, g->topo, list.name[i], &node, err)) == ZEP_OK)
            rc = add_gpus(&g->topo->node[node], l, (int)n, err);
    }
    zep_hostlist_free(&list);
    return rc;
}

int zep_topo_from_gres_conf(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    char origin[400];
    struct gres g = {.base = q->base};
    int rc;

    snprintf(origin, sizeof origin, "gres.conf %.360s", q->file);
    if (!(g.topo = zep_topo_new("slurm", origin)))
        return zep_error_nomem(err, "topology");
    if ((rc = zep_names_new(g.topo, &g.names, err)) == ZEP_OK && (rc = zep_slurm_lines(q->file, q->text, q->len, gres_line, &g, err)) == ZEP_OK && !g.topo->n_node)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no GPUs: expected lines with Name=gpu", q->file);
    zep_names_free(g.names);
    if (rc < 0)
        zep_topo_free(g.topo);
    else
        *topo_out = g.topo;
    return rc;
}
