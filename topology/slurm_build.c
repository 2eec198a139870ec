/* Slurm's words as a topology. */
#include "config.h"
#include "topology/detect.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/hostlist.h"
#include "topology/source.h"
#include "topology/topo_internal.h"

/* "gpu:a100:4(S:0-1)" or "gpu:4" or "gpu": how many, and the type. Entries are divided by commas outside of brackets. */
static int add_gres(struct zep_node *n, const char *gres, struct zep_error *err)
{
    const char *p = gres;

    while (*p) {
        size_t len = 0, body;
        int depth = 0;
        char word[128], key[32], *type, *count;
        long have = 1;

        for (; p[len] && (p[len] != ',' || depth); len++)
            depth += p[len] == '(' || p[len] == '[' ? 1 : p[len] == ')' || p[len] == ']' ? -1 : 0;
        body = strcspn(p, "(,");
        snprintf(word, sizeof word, "%.*s", (int)(body < len ? body : len), p);
        p += len + (p[len] == ',');
        if (strncmp(word, "gpu", 3) || (word[3] && word[3] != ':'))
            continue;
        type = word[3] ? word + 4 : NULL;
        count = type ? strrchr(type, ':') : NULL;
        if (count)
            *count++ = '\0';
        else if (type && isdigit((unsigned char)*type)) {
            count = type;
            type = NULL;
        }
        if (count)
            have = strtol(count, NULL, 10);
        for (long i = 0; i < have && i < 1024; i++) {
            struct zep_device *d;

            snprintf(key, sizeof key, "gpu%d", n->n_device);
            if (!(d = zep_node_add_device(n, key, ZEP_DEV_GPU)) || (type && zep_device_set_type(d, type) < 0))
                return zep_error_nomem(err, "topology");
            d->source = ZEP_SRC_CONTROLLER;
        }
    }
    return ZEP_OK;
}

int zep_slurm_add_node(struct zep_topo *topo, const struct zep_slurm_node *s, struct zep_error *err)
{
    struct zep_node *n = zep_topo_add_node(topo, s->name);
    const char *alias[] = {s->hostname, s->addr};

    if (!n)
        return zep_error_nomem(err, "topology");
    for (int i = 0; i < 2; i++)
        if (alias[i] && zep_check_hostname(alias[i], NULL) == ZEP_OK && zep_node_add_alias(n, alias[i]) < 0)
            return zep_error_nomem(err, "topology");
    if (s->state) {
        n->state = strdup(s->state);
        for (char *p = n->state; p && *p; p++)
            *p = (char)tolower((unsigned char)*p);
    }
    n->sockets = s->sockets;
    n->cores_per_socket = s->cores;
    n->threads_per_core = s->threads;
    n->mem_bytes = s->mem_mib << 20;
    n->cpu_source = n->mem_source = n->state_source = ZEP_SRC_CONTROLLER;
    return s->gres ? add_gres(n, s->gres, err) : ZEP_OK;
}

static int find_switch(const struct zep_fabric *f, const char *name)
{
    for (int i = 0; i < f->n_switch; i++)
        if (!strcmp(f->sw[i].name, name))
            return i;
    return -1;
}

static struct zep_switch *get_switch(struct zep_fabric *f, const char *name)
{
    int i = find_switch(f, name);

    return i >= 0 ? &f->sw[i] : zep_fabric_add_switch(f, name);
}

static int add_members(struct zep_switch *sw, const struct zep_names *names, const char *nodes, struct zep_error *err)
{
    struct zep_hostlist list = {0};
    int rc;

    if ((rc = zep_hostlist_expand(nodes, &list, err)) < 0)
        return zep_error_prefix(err, "switch '%s'", sw->name);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        int node = zep_names_find(names, list.name[i]); /* others are not part of this allocation */

        if (node >= 0 && zep_switch_add_node(sw, node) < 0)
            rc = zep_error_nomem(err, "topology");
    }
    zep_hostlist_free(&list);
    return rc;
}

static struct zep_fabric *get_fabric(struct zep_topo *topo, const char *name, enum zep_fabric_kind kind)
{
    for (int i = 0; i < topo->n_fabric; i++)
        if (topo->fabric[i].kind == kind)
            return &topo->fabric[i];
    return zep_topo_add_fabric(topo, name, kind);
}

int zep_slurm_add_block(struct zep_topo *topo, const struct zep_names *names, const char *name, const char *nodes, struct zep_error *err)
{
    struct zep_fabric *f = get_fabric(topo, "blocks", ZEP_FABRIC_BLOCKS);
    struct zep_switch *sw = f ? get_switch(f, name) : NULL;

    if (!sw)
        return zep_error_nomem(err, "topology");
    return nodes && *nodes ? add_members(sw, names, nodes, err) : ZEP_OK;
}

int zep_slurm_add_switch(struct zep_topo *topo, const struct zep_names *names, const char *name, const char *nodes, const char *children, struct zep_error *err)
{
    struct zep_fabric *f = get_fabric(topo, "slurm", ZEP_FABRIC_TREE);
    struct zep_hostlist list = {0};
    int rc, self;

    if (!f || !get_switch(f, name))
        return zep_error_nomem(err, "topology");
    self = find_switch(f, name);
    if (!children || !*children)
        return nodes && *nodes ? add_members(&f->sw[self], names, nodes, err) : ZEP_OK;
    if ((rc = zep_hostlist_expand(children, &list, err)) < 0)
        return zep_error_prefix(err, "switch '%s'", name);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        struct zep_switch *child = get_switch(f, list.name[i]);

        if (!child || zep_switch_add_parent(child, self) < 0)
            rc = zep_error_nomem(err, "topology");
    }
    zep_hostlist_free(&list);
    return rc;
}

int zep_slurm_add_addr(struct zep_topo *topo, int node, const char *addr, const char *pattern, struct zep_error *err)
{
    const char *last = pattern ? strrchr(pattern, '.') : NULL, *id = topo->node[node].id;
    size_t n_dot = 0, n_want = 0, len = strlen(addr), id_len;
    struct zep_fabric *f;
    char *copy, *name, *save = NULL;
    int above = -1, rc = ZEP_OK;

    if (!last || strcmp(last, ".node"))
        return ZEP_OK; /* a flat cluster, or one that says nothing */
    for (const char *p = addr; *p; p++)
        n_dot += *p == '.';
    for (const char *p = pattern; *p; p++)
        n_want += *p == '.';
    for (int k = -1; k < topo->node[node].n_alias; k++) { /* the node's name at its end, which may have dots itself */
        const char *name_k = k < 0 ? id : topo->node[node].alias[k];

        id_len = strlen(name_k);
        if (len > id_len + 1 && addr[len - id_len - 1] == '.' && !strcmp(addr + len - id_len, name_k)) {
            for (const char *p = name_k; *p; p++)
                n_dot -= *p == '.';
            len -= id_len + 1;
            break;
        }
    }
    if (len == strlen(addr)) /* another name: what is behind the last dot */
        len = (size_t)(strrchr(addr, '.') ? strrchr(addr, '.') - addr : 0);
    if (!len)
        return ZEP_OK;
    if (!(f = get_fabric(topo, "slurm", ZEP_FABRIC_TREE)) || !(copy = strndup(addr, len)))
        return zep_error_nomem(err, "topology");
    f->source = ZEP_SRC_CONTROLLER;
    if (n_dot != n_want && zep_topo_warn(topo, "SLURM_TOPOLOGY_ADDR '%s' has dots in its names: '%s' is taken as one switch", addr, copy) < 0)
        rc = zep_error_nomem(err, "topology");
    for (name = n_dot == n_want ? strtok_r(copy, ".", &save) : copy; name && rc == ZEP_OK; name = n_dot == n_want ? strtok_r(NULL, ".", &save) : NULL) {
        int at = find_switch(f, name);

        if (at < 0 && !zep_fabric_add_switch(f, name))
            rc = zep_error_nomem(err, "topology");
        else if (at < 0 && above >= 0 && zep_switch_add_parent(&f->sw[f->n_switch - 1], above) < 0)
            rc = zep_error_nomem(err, "topology");
        above = at < 0 ? f->n_switch - 1 : at;
    }
    if (rc == ZEP_OK && above >= 0 && zep_switch_add_node(&f->sw[above], node) < 0)
        rc = zep_error_nomem(err, "topology");
    free(copy);
    return rc;
}

int zep_slurm_index(struct zep_topo *topo, struct zep_names **names_out, struct zep_error *err)
{
    int rc = zep_topo_drop_shared_aliases(topo, err);

    return rc == ZEP_OK ? zep_names_new(topo, names_out, err) : rc;
}

/* Switches that lead to no node go. */
static void drop_empty_switches(struct zep_fabric *f)
{
    int *keep = zep_calloc((size_t)f->n_switch + 1, sizeof *keep), *place = zep_calloc((size_t)f->n_switch + 1, sizeof *place), changed = 1, n = 0;

    if (!keep || !place) {
        free(keep);
        free(place);
        return;
    }
    for (int i = 0; i < f->n_switch; i++)
        keep[i] = f->sw[i].n_node > 0;
    while (changed) {
        changed = 0;
        for (int i = 0; i < f->n_switch; i++)
            for (int k = 0; keep[i] && k < f->sw[i].n_parent; k++)
                if (!keep[f->sw[i].parent[k]])
                    changed = keep[f->sw[i].parent[k]] = 1;
    }
    for (int i = 0; i < f->n_switch; i++)
        place[i] = keep[i] ? n++ : -1;
    for (int i = 0; i < f->n_switch; i++) {
        struct zep_switch s = f->sw[i];

        if (!keep[i]) {
            free(s.name);
            free(s.parent);
            free(s.node);
            free(s.port);
            continue;
        }
        for (int k = 0; k < s.n_parent; k++)
            s.parent[k] = place[s.parent[k]];
        f->sw[place[i]] = s;
    }
    f->n_switch = n;
    free(keep);
    free(place);
}

int zep_slurm_finish(struct zep_topo *topo, struct zep_error *err)
{
    for (int i = 0; i < topo->n_fabric; i++) {
        int rc;

        topo->fabric[i].source = ZEP_SRC_CONTROLLER;
        drop_empty_switches(&topo->fabric[i]);
        if (topo->fabric[i].n_switch && (rc = zep_fabric_settle(topo, &topo->fabric[i], 0, err)) < 0)
            return rc;
    }
    return zep_topo_validate(topo, err);
}

int zep_slurm_hints(void)
{
    static const char *const env[] = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JOB_ID"};
    static const char *const files[] = {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf", "/var/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf",
                                        "/opt/slurm/etc/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf", "/var/spool/slurm/conf-cache/slurm.conf"};

    for (size_t i = 0; i < sizeof env / sizeof env[0]; i++)
        if (getenv(env[i]) && *getenv(env[i]))
            return 1;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (access(files[i], R_OK) == 0)
            return 1;
    return 0;
}
