/* Slurm's files: topology.conf, gres.conf. */
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

    return !strncasecmp(line, key, n) && line[n + strspn(line + n, " \t")] == '=';
}

int zep_topo_is_slurm_conf(const char *text, size_t len)
{
    const char *line = first_line(text, &len);

    return begins(line, "SwitchName") || begins(line, "BlockName") || begins(line, "BlockSizes");
}

int zep_topo_is_gres_conf(const char *text, size_t len)
{
    const char *line = first_line(text, &len);

    if (begins(line, "NodeName")) { /* slurm.conf and `scontrol show node` begin a line so, too */
        for (const char *p = line; p < line + len; p += strcspn(p, " \t\n"), p += strspn(p, " \t"))
            if (begins(p, "Name") || begins(p, "AutoDetect"))
                return 1;
        return 0;
    }
    return begins(line, "Name") || begins(line, "AutoDetect");
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

/* --- gres.conf --- */

/* Lines are kept until all are read: GPUs are numbered by their device files, whatever the order of lines, and Links counts all GPUs of a node. */
struct gpu {
    int node, number;       /* /dev/nvidia3 is number 3; -1 while no file says it */
    int order;              /* of the lines */
    char *type, *cores, *links;
};

struct gres {
    const struct zep_topo *base;
    struct zep_topo *topo;
    struct zep_names *names;
    int n, cap, auto_detect;
    int cores_told; /* the last line that was warned of */
    struct gpu *gpu;
};

static int add_gpu(struct gres *g, int node, int number, const struct zep_slurm_line *l, struct zep_error *err)
{
    const char *type = zep_slurm_value(l, "Type"), *cores = zep_slurm_value(l, "Cores"), *links = zep_slurm_value(l, "Links");
    struct gpu *p;

    if (!cores)
        cores = zep_slurm_value(l, "CPUs");
    if (cores && strspn(cores, "0123456789,-") != strlen(cores)) {
        if (l->line != g->cores_told)
            zep_topo_warn(g->topo, "%s:%d: Cores '%.100s': expected numbers, as in 0-15,32: the cores near these GPUs are not known", l->file, l->line, cores);
        g->cores_told = l->line;
        cores = NULL;
    }
    if (g->n == g->cap) {
        int cap = g->cap ? 2 * g->cap : 256;

        if (!(p = zep_reallocarray(g->gpu, (size_t)cap, sizeof *p)))
            return zep_error_nomem(err, "topology");
        g->gpu = p;
        g->cap = cap;
    }
    p = &g->gpu[g->n++];
    *p = (struct gpu){node, number, g->n, type ? strdup(type) : NULL, cores ? strdup(cores) : NULL, links ? strdup(links) : NULL};
    return (type && !p->type) || (cores && !p->cores) || (links && !p->links) ? zep_error_nomem(err, "topology") : ZEP_OK;
}

/* "/dev/nvidia[0-3]": the device files. */
static int expand_files(const struct zep_slurm_line *l, const char *file, struct zep_hostlist *out, struct zep_error *err)
{
    struct zep_error why;

    if (zep_hostlist_expand(file, out, &why) < 0)
        return zep_slurm_line_error(l, err, "File '%.200s': %s", file, why.text);
    if (out->n < 1 || out->n > 1024)
        return zep_slurm_line_error(l, err, "File '%.200s': %d devices: expected 1 to 1024", file, out->n);
    return ZEP_OK;
}

static int number_of(const char *file)
{
    size_t len = strlen(file), at = len;

    while (at > 0 && isdigit((unsigned char)file[at - 1]) && len - at < 6)
        at--;
    return at < len ? atoi(file + at) : -1;
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
    const char *name = zep_slurm_value(l, "Name"), *file = zep_slurm_value(l, "File"), *count = zep_slurm_value(l, "Count"), *auto_detect = zep_slurm_value(l, "AutoDetect");
    struct gres *g = arg;
    struct zep_hostlist list = {0}, files = {0};
    int64_t n = 1;
    int rc;

    if ((rc = zep_slurm_line_keys(l, known, err)) < 0)
        return rc;
    if (auto_detect && strcasecmp(auto_detect, "off"))
        g->auto_detect = l->line;
    if (!name)
        return auto_detect ? ZEP_OK : zep_slurm_line_error(l, err, "no Name: expected Name=gpu or another kind of resource");
    if (strcasecmp(name, "gpu"))
        return ZEP_OK;
    if (file && (rc = expand_files(l, file, &files, err)) < 0)
        goto out;
    if (file && count && !zep_slurm_value(l, "MultipleFiles") && (zep_parse_int(count, 0, 1024, &n, err) < 0 || n != files.n)) {
        rc = zep_slurm_line_error(l, err, "Count '%.60s': File has %d device%s: Slurm refuses such a line", count, files.n, files.n == 1 ? "" : "s");
        goto out;
    }
    if (file)
        n = files.n;
    else if (!zep_slurm_value(l, "MultipleFiles") && count && (rc = zep_parse_int(count, 0, 1024, &n, err)) < 0) { /* several files of one MIG slice are one device */
        zep_error_prefix(err, "%s:%d: Count", l->file, l->line);
        goto out;
    }
    rc = gres_nodes(g, l, zep_slurm_value(l, "NodeName"), &list, err);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        struct zep_error why;
        int node;

        if (zep_check_hostname(list.name[i], &why) < 0)
            rc = zep_slurm_line_error(l, err, "NodeName: %s", why.text);
        else if ((rc = zep_names_get(g->names, g->topo, list.name[i], &node, err)) == ZEP_OK)
            for (int64_t k = 0; k < n && rc == ZEP_OK; k++)
                rc = add_gpu(g, node, file ? number_of(files.name[k]) : -1, l, err);
    }
out:
    zep_hostlist_free(&files);
    zep_hostlist_free(&list);
    return rc;
}

/* By node, then by number; those without one stay in their order, behind. */
static int cmp_gpu(const void *a, const void *b)
{
    const struct gpu *x = a, *y = b;
    int nx = x->number < 0 ? 1 << 20 : x->number, ny = y->number < 0 ? 1 << 20 : y->number;

    return x->node != y->node ? x->node - y->node : nx != ny ? nx - ny : x->order - y->order;
}

/* "-1,4,4,4": NVLinks to each GPU in order, -1 at its own place. A line of several files has the text of one of them: the one whose place -1 is at. */
static int set_links(struct zep_node *n, int dev, const char *text)
{
    int k = 0, own = -1;

    for (const char *p = text; *p; p += strcspn(p, ","), p += *p == ',', k++)
        own = strtol(p, NULL, 10) < 0 ? k : own;
    if (own >= 0 && own != dev)
        return ZEP_OK;
    k = 0;
    for (const char *p = text; *p && k < n->n_device; p += strcspn(p, ","), p += *p == ',', k++) {
        long v = strtol(p, NULL, 10);

        if (v > 0 && k != dev && (zep_node_set_peer(n, dev, k, ZEP_DIST_UNKNOWN, (int)v) < 0 || zep_node_set_peer(n, k, dev, ZEP_DIST_UNKNOWN, (int)v) < 0))
            return ZEP_ENOMEM;
    }
    return ZEP_OK;
}

static int build_gpus(struct gres *g, struct zep_error *err)
{
    char key[32];
    int number, next = 0;

    if (g->n)
        qsort(g->gpu, (size_t)g->n, sizeof *g->gpu, cmp_gpu);
    for (int i = 0; i < g->n; i++) {
        const struct gpu *p = &g->gpu[i];
        struct zep_node *n = &g->topo->node[p->node];
        struct zep_device *d;

        if (i > 0 && p->number >= 0 && p->node == p[-1].node && p->number == p[-1].number)
            return zep_error_set(err, ZEP_EINVAL, "%s: node '%s': device file number %d is there twice", g->topo->origin, n->id, p->number);
        next = i > 0 && p->node == p[-1].node ? next : 0;
        number = p->number >= 0 ? p->number : next; /* behind those that have one */
        next = number + 1;
        snprintf(key, sizeof key, "gpu%d", number);
        if (!(d = zep_node_add_device(n, key, ZEP_DEV_GPU)) || (p->type && zep_device_set_type(d, p->type) < 0) || (p->cores && !(d->cores = strdup(p->cores))))
            return zep_error_nomem(err, "topology");
        d->source = ZEP_SRC_SITE;
    }
    for (int i = 0, at = 0; i < g->n; i++) {
        at = i > 0 && g->gpu[i].node == g->gpu[i - 1].node ? at + 1 : 0;
        if (g->gpu[i].links && set_links(&g->topo->node[g->gpu[i].node], at, g->gpu[i].links) < 0)
            return zep_error_nomem(err, "topology");
    }
    return ZEP_OK;
}

int zep_topo_from_gres_conf(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    char origin[400];
    struct gres g = {.base = q->base};
    int rc;

    snprintf(origin, sizeof origin, "gres.conf %.360s", q->file);
    if (!(g.topo = zep_topo_new("slurm", origin)))
        return zep_error_nomem(err, "topology");
    if ((rc = zep_names_new(g.topo, &g.names, err)) == ZEP_OK && (rc = zep_slurm_lines(q->file, q->text, q->len, gres_line, &g, err)) == ZEP_OK && (rc = build_gpus(&g, err)) == ZEP_OK && !g.topo->n_node) {
        if (g.auto_detect)
            zep_topo_warn(g.topo, "%s:%d: AutoDetect finds the GPUs on the nodes: none are listed here", q->file, g.auto_detect);
        else
            rc = zep_error_set(err, ZEP_EINVAL, "%s: no GPUs: expected lines with Name=gpu", q->file);
    }
    zep_names_free(g.names);
    for (int i = 0; i < g.n; i++) {
        free(g.gpu[i].type);
        free(g.gpu[i].cores);
        free(g.gpu[i].links);
    }
    free(g.gpu);
    if (rc < 0)
        zep_topo_free(g.topo);
    else
        *topo_out = g.topo;
    return rc;
}
