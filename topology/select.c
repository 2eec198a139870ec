/* A part of a topology: some of its nodes, and those that can take ranks. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"

/* "idle+drain": any of its parts. A node that is powered down is started by Slurm when it is needed. */
int zep_node_is_out(const struct zep_node *node)
{
    static const char *const words[] = {"down", "drain", "drained", "draining", "fail", "failing", "not ready", "cordoned", "not_responding", "error", "unknown", "maint"};

    for (const char *s = node->state ? node->state : ""; *s; s += strcspn(s, "+"), s += *s == '+')
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (strcspn(s, "+*~#!%$@^-") == strlen(words[i]) && !strncmp(s, words[i], strlen(words[i])))
                return 1;
    return 0;
}

int zep_node_slots(const struct zep_node *node)
{
    return node->n_device ? node->n_device : node->sockets * node->cores_per_socket;
}

static void keep_in_switch(struct zep_switch *sw, const int *to)
{
    int n = 0;

    for (int k = 0; k < sw->n_node; k++) {
        if (to[sw->node[k]] < 0)
            continue;
        sw->node[n] = to[sw->node[k]];
        if (sw->port)
            sw->port[n] = sw->port[k];
        n++;
    }
    sw->n_node = n;
}

/* to[i]: node i's place from now on, -1: it goes. */
static void keep_nodes(struct zep_topo *topo, const int *to)
{
    int n = 0;

    for (int i = 0; i < topo->n_node; i++) {
        if (to[i] < 0)
            zep_node_clear(&topo->node[i]);
        else
            topo->node[n++] = topo->node[i];
    }
    topo->n_node = n;
    for (int f = 0; f < topo->n_fabric; f++)
        for (int s = 0; s < topo->fabric[f].n_switch; s++)
            keep_in_switch(&topo->fabric[f].sw[s], to);
}

/* flag[node] = 1 for each host of the list; NULL: none. */
static int mark(const struct zep_names *names, const char *option, const char *hosts, char *flag, struct zep_error *err)
{
    struct zep_hostlist list = {0};
    int rc = hosts ? zep_hostlist_expand(hosts, &list, err) : ZEP_OK;

    if (rc < 0)
        zep_error_prefix(err, "%s", option);
    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        int node = zep_names_find(names, list.name[i]);

        if (node < 0)
            rc = zep_error_set(err, ZEP_EINVAL, "%s: '%.200s': expected a node of the topology", option, list.name[i]);
        else
            flag[node] = 1;
    }
    zep_hostlist_free(&list);
    return rc;
}

int zep_topo_select(struct zep_topo *topo, const char *only, const char *without, struct zep_error *err)
{
    char *in = zep_calloc(2 * (size_t)topo->n_node + 2, 1), *out = in ? in + topo->n_node + 1 : NULL;
    int *to = zep_calloc((size_t)topo->n_node + 1, sizeof *to), n = 0, rc = in && to ? ZEP_OK : zep_error_nomem(err, "topology");
    struct zep_names *names = NULL;

    if (rc == ZEP_OK && (rc = zep_names_new(topo, &names, err)) == ZEP_OK && (rc = mark(names, "--only", only, in, err)) == ZEP_OK)
        rc = mark(names, "--without", without, out, err);
    for (int i = 0; i < topo->n_node && rc == ZEP_OK; i++)
        to[i] = (!only || in[i]) && !out[i] ? n++ : -1;
    if (rc == ZEP_OK && !n)
        rc = zep_error_set(err, ZEP_EINVAL, "no node is left of the %d of %.300s", topo->n_node, topo->origin);
    zep_names_free(names); /* they are the nodes' */
    if (rc == ZEP_OK)
        keep_nodes(topo, to);
    free(in);
    free(to);
    return rc == ZEP_OK ? zep_topo_validate(topo, err) : rc;
}
