/* What Slurm says of nodes in a text: the NodeName lines of slurm.conf, and scontrol show node. Where nodes hang is not in either. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/hostlist.h"
#include "common/units.h"
#include "topology/detect.h"
#include "topology/slurm_lines.h"
#include "topology/topo_internal.h"

/* The next line that begins with NodeName at or after p; NULL none. */
static const char *node_line(const char *p)
{
    while (p && *p) {
        const char *q = p + strspn(p, " \t");

        if (!strncasecmp(q, "NodeName", 8) && q[8 + strspn(q + 8, " \t")] == '=')
            return q;
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    return NULL;
}

static int has_key(const char *line, const char *key)
{
    const char *end = line + strcspn(line, "\n");
    size_t n = strlen(key);

    for (const char *p = line; p < end; p += strcspn(p, " \t\n"), p += strspn(p, " \t"))
        if (!strncasecmp(p, key, n) && p[n + strspn(p + n, " \t")] == '=')
            return 1;
    return 0;
}

/* gres.conf, whose lines may begin so, was asked before. */
int zep_topo_is_slurm_nodes(const char *text, size_t len)
{
    static const char *const keys[] = {"CPUs", "Procs", "CoresPerSocket", "Sockets", "SocketsPerBoard", "ThreadsPerCore", "RealMemory", "Gres", "State", "Arch"};

    (void)len;
    for (const char *line = node_line(text); line; line = node_line(line + strcspn(line, "\n")))
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (has_key(line, keys[i]))
                return 1;
    return 0;
}

/* --- slurm.conf --- */

struct shape { /* of the nodes of a line, and of NodeName=DEFAULT, which those after it begin with */
    int64_t boards, sockets, sockets_per_board, cores, threads, mem_mib;
    char *gres;
};

struct conf {
    struct zep_topo *topo;
    struct shape standard;
};

static int take_number(const struct zep_slurm_line *l, const char *key, int64_t most, int64_t *out, struct zep_error *err)
{
    const char *v = zep_slurm_value(l, key);
    struct zep_error why;

    if (v && zep_parse_int(v, 0, most, out, &why) < 0)
        return zep_slurm_line_error(l, err, "%s: %s", key, why.text);
    return ZEP_OK;
}

static int read_shape(const struct zep_slurm_line *l, struct shape *s, struct zep_error *err)
{
    const char *gres = zep_slurm_value(l, "Gres");
    int rc;

    if ((rc = take_number(l, "Boards", ZEP_MAX_SOCKETS, &s->boards, err)) < 0 || (rc = take_number(l, "Sockets", ZEP_MAX_SOCKETS, &s->sockets, err)) < 0 ||
        (rc = take_number(l, "SocketsPerBoard", ZEP_MAX_SOCKETS, &s->sockets_per_board, err)) < 0 || (rc = take_number(l, "CoresPerSocket", ZEP_MAX_CORES, &s->cores, err)) < 0 ||
        (rc = take_number(l, "ThreadsPerCore", ZEP_MAX_THREADS, &s->threads, err)) < 0 || (rc = take_number(l, "RealMemory", ZEP_MAX_NODE_MIB, &s->mem_mib, err)) < 0)
        return rc;
    if (gres) {
        char *copy = strdup(gres);

        if (!copy)
            return zep_error_nomem(err, "topology");
        free(s->gres);
        s->gres = copy;
    }
    return ZEP_OK;
}

/* The site's word, not the controller's. */
static void set_sources(struct zep_node *n)
{
    n->cpu_source = n->mem_source = ZEP_SRC_SITE;
    n->state_source = ZEP_SRC_NONE;
    for (int i = 0; i < n->n_device; i++)
        n->device[i].source = ZEP_SRC_SITE;
}

static int add_nodes(struct conf *c, const struct zep_slurm_line *l, const char *names, const struct shape *s, struct zep_error *err)
{
    int64_t sockets = s->sockets ? s->sockets : s->sockets_per_board * (s->boards ? s->boards : 1);
    struct zep_slurm_node node = {.gres = s->gres, .sockets = (int)sockets, .cores = (int)s->cores, .threads = (int)s->threads, .mem_mib = s->mem_mib};
    struct zep_hostlist list = {0};
    struct zep_error why;
    int rc = ZEP_OK;

    if (sockets > ZEP_MAX_SOCKETS)
        return zep_slurm_line_error(l, err, "%lld boards of %lld sockets: expected at most %d sockets in a node", (long long)s->boards, (long long)s->sockets_per_board, ZEP_MAX_SOCKETS);
    if (zep_hostlist_expand(names, &list, &why) < 0)
        return zep_slurm_line_error(l, err, "NodeName: %s", why.text);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        node.name = list.name[i];
        if (zep_check_hostname(node.name, &why) < 0)
            rc = zep_slurm_line_error(l, err, "NodeName: %s", why.text);
        else if ((rc = zep_slurm_add_node(c->topo, &node, err)) == ZEP_OK)
            set_sources(&c->topo->node[c->topo->n_node - 1]);
    }
    zep_hostlist_free(&list);
    return rc;
}

static int conf_line(void *arg, const struct zep_slurm_line *l, struct zep_error *err)
{
    struct conf *c = arg;
    struct shape s = c->standard;
    int rc;

    if (strcasecmp(l->key[0], "NodeName"))
        return ZEP_OK;
    if (!strcasecmp(l->value[0], "DEFAULT"))
        return read_shape(l, &c->standard, err);
    if (s.gres && !(s.gres = strdup(s.gres)))
        return zep_error_nomem(err, "topology");
    if ((rc = read_shape(l, &s, err)) == ZEP_OK)
        rc = add_nodes(c, l, l->value[0], &s, err);
    free(s.gres);
    return rc;
}

static int read_conf(struct zep_topo *topo, const struct zep_source_request *q, struct zep_error *err)
{
    struct conf c = {.topo = topo};
    int rc = zep_slurm_lines(q->file, q->text, q->len, conf_line, &c, err);

    free(c.standard.gres);
    return rc;
}

/* --- scontrol show node --- */

/* Its records made lines, as --oneliner prints them; what stands before the first is left out. */
static int read_scontrol(struct zep_topo *topo, const char *text, struct zep_error *err)
{
    const char *begin = node_line(text);
    char *copy = begin ? strdup(begin) : NULL;
    int rc;

    if (!copy)
        return zep_error_nomem(err, "text");
    for (char *p = copy; *p; p++) {
        int is_joined = *p == '\n' && (p[1] == ' ' || p[1] == '\t') && node_line(p + 1) != p + 1 + strspn(p + 1, " \t");

        if (*p == '\r' || *p == '\t' || is_joined)
            *p = ' ';
    }
    rc = zep_slurm_parse_nodes(topo, copy, NULL, err);
    free(copy);
    return rc;
}

int zep_topo_from_slurm_nodes(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    int is_scontrol = strstr(q->text, "CPUTot=") || strstr(q->text, "CPUAlloc="), rc;
    struct zep_topo *topo;
    char origin[400];

    snprintf(origin, sizeof origin, "%s %.360s", is_scontrol ? "scontrol show node" : "slurm.conf", q->file);
    if (!(topo = zep_topo_new("slurm", origin)))
        return zep_error_nomem(err, "topology");
    rc = is_scontrol ? read_scontrol(topo, q->text, err) : read_conf(topo, q, err);
    if (rc == ZEP_OK && !topo->n_node)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no nodes: expected lines with NodeName=", q->file);
    if (rc == ZEP_OK && (!q->base || !q->base->n_fabric) && zep_topo_warn(topo, "%s: says what nodes have, not where they hang: for switches, give topology.conf before it", q->file) < 0)
        rc = zep_error_nomem(err, "topology");
    if (rc == ZEP_OK && (rc = zep_topo_drop_shared_aliases(topo, err)) == ZEP_OK && (rc = zep_topo_validate(topo, err)) < 0)
        zep_error_prefix(err, "%s", q->file);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}
