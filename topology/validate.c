/* What must hold of a topology, and questions about it. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"

#define MAX_PARTS 4096 /* devices, NICs of a node */

const char *const zep_dev_kind_names[] = {"none", "cpu", "gpu", NULL};
const char *const zep_distance_names[] = {"unknown", "switch", "switches", "bridge", "numa", "system", NULL};
const char *const zep_fabric_kind_names[] = {"none", "tree", "rails", "blocks", NULL};

/* A text that can be shown and written into files. */
static int check_text(const char *where, const char *what, const char *text, struct zep_error *err)
{
    char shown[200];

    if (!text || zep_text_is_clean(text))
        return ZEP_OK;
    snprintf(shown, sizeof shown, "%.190s", text);
    zep_text_clean(shown);
    return zep_error_set(err, ZEP_EINVAL, "%.300s: %s '%s': expected text without control characters", where, what, shown);
}

static int check_texts(const struct zep_node *n, struct zep_error *err)
{
    char where[300];
    int rc;

    snprintf(where, sizeof where, "node '%.260s'", n->id);
    if ((rc = check_text(where, "state", n->state, err)) < 0 || (rc = check_text(where, "model", n->model, err)) < 0 || (rc = check_text(where, "resources", n->resources, err)) < 0)
        return rc;
    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];

        if ((rc = check_text(where, "device", d->key, err)) < 0 || (rc = check_text(where, "UUID", d->uuid, err)) < 0 || (rc = check_text(where, "model", d->model, err)) < 0 ||
            (rc = check_text(where, "MIG profile", d->mig, err)) < 0 || (rc = check_text(where, "cores", d->cores, err)) < 0 || (rc = check_text(where, "bus", d->bus, err)) < 0)
            return rc;
    }
    for (int i = 0; i < n->n_nic; i++) {
        const struct zep_nic *c = &n->nic[i];

        if ((rc = check_text(where, "NIC", c->key, err)) < 0 || (rc = check_text(where, "NIC", c->name, err)) < 0 || (rc = check_text(where, "link", c->link, err)) < 0 ||
            (rc = check_text(where, "GUID", c->guid, err)) < 0 || (rc = check_text(where, "bond", c->bond, err)) < 0 || (rc = check_text(where, "bus", c->bus, err)) < 0)
            return rc;
    }
    return ZEP_OK;
}

static int check_speed(const char *node, const char *what, const char *key, const struct zep_fact *f, struct zep_error *err)
{
    if (f->source == ZEP_SRC_NONE || (f->value >= ZEP_SPEED_MIN && f->value <= ZEP_SPEED_MAX))
        return ZEP_OK;
    return zep_error_set(err, ZEP_EINVAL, "node '%s'%s%s: speed %g: expected a number from %g to %g", node, what, key, f->value, ZEP_SPEED_MIN, ZEP_SPEED_MAX);
}

static int check_speeds(const struct zep_node *n, struct zep_error *err)
{
    int rc = check_speed(n->id, "", "", &n->speed, err);

    for (int i = 0; i < n->n_device && rc == ZEP_OK; i++)
        rc = check_speed(n->id, ", device ", n->device[i].key, &n->device[i].speed, err);
    for (int i = 0; i < n->n_nic && rc == ZEP_OK; i++)
        rc = check_speed(n->id, ", NIC ", n->nic[i].key, &n->nic[i].speed, err);
    return rc;
}

static int check_counts(const struct zep_node *n, struct zep_error *err)
{
    const struct {
        const char *what;
        int64_t have, most;
    } count[] = {{"sockets", n->sockets, ZEP_MAX_SOCKETS}, {"cores per socket", n->cores_per_socket, ZEP_MAX_CORES}, {"threads per core", n->threads_per_core, ZEP_MAX_THREADS}, {"NUMA domains", n->n_numa, ZEP_MAX_NUMA}, {"MiB of memory", n->mem_bytes >> 20, ZEP_MAX_NODE_MIB}};

    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++)
        if (count[i].have < 0 || count[i].have > count[i].most)
            return zep_error_set(err, ZEP_EINVAL, "node '%.260s': %lld %s: expected 0 to %lld", n->id, (long long)count[i].have, count[i].what, (long long)count[i].most);
    return ZEP_OK;
}

static int check_node(const struct zep_node *n, struct zep_error *err)
{
    if (zep_check_hostname(n->id, err) < 0)
        return zep_error_prefix(err, "node");
    if (n->n_device > MAX_PARTS || n->n_nic > MAX_PARTS)
        return zep_error_set(err, ZEP_EINVAL, "node '%s': %d devices and %d NICs: expected at most %d of each", n->id, n->n_device, n->n_nic, MAX_PARTS);
    for (int i = 0; i < n->n_alias; i++)
        if (zep_check_hostname(n->alias[i], err) < 0)
            return zep_error_prefix(err, "node '%s': alias", n->id);
    if (check_texts(n, err) < 0 || check_counts(n, err) < 0 || check_speeds(n, err) < 0)
        return ZEP_EINVAL;
    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];

        if (d->nic < -1 || d->nic >= n->n_nic)
            return zep_error_set(err, ZEP_EINVAL, "node '%s': device '%s' uses NIC %d: the node has %d", n->id, d->key, d->nic, n->n_nic);
        for (int k = 0; k < d->n_more; k++)
            if (d->more[k] < 0 || d->more[k] >= n->n_nic)
                return zep_error_set(err, ZEP_EINVAL, "node '%s': device '%s' uses NIC %d: the node has %d", n->id, d->key, d->more[k], n->n_nic);
        for (int k = 0; k < i; k++)
            if (!strcmp(n->device[k].key, d->key))
                return zep_error_set(err, ZEP_EINVAL, "node '%s': device '%s' is there twice", n->id, d->key);
    }
    for (int i = 0; i < n->n_nic; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(n->nic[k].key, n->nic[i].key))
                return zep_error_set(err, ZEP_EINVAL, "node '%s': NIC '%s' is there twice", n->id, n->nic[i].key);
    return ZEP_OK;
}

/* Levels from below: a switch is one above its highest child. Without a cycle that settles in as many rounds as there are levels. */
int zep_fabric_set_levels(struct zep_fabric *f, struct zep_error *err)
{
    int changed = 1;

    for (int i = 0; i < f->n_switch; i++)
        f->sw[i].level = 0;
    for (int round = 0; changed; round++) {
        changed = 0;
        for (int i = 0; i < f->n_switch; i++)
            for (int k = 0; k < f->sw[i].n_parent; k++) {
                struct zep_switch *up = &f->sw[f->sw[i].parent[k]];

                if (up->level <= f->sw[i].level) {
                    if (round > f->n_switch)
                        return zep_error_set(err, ZEP_EINVAL, "fabric '%s': switches form a cycle through '%s' and '%s'", f->name, f->sw[i].name, up->name);
                    up->level = f->sw[i].level + 1;
                    changed = 1;
                }
            }
    }
    return ZEP_OK;
}

static int cmp_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_fabric(const struct zep_topo *topo, struct zep_fabric *f, struct zep_error *err)
{
    const char **name = zep_calloc((size_t)f->n_switch + 1, sizeof *name);
    int rc = check_text("fabric", "name", f->name, err);

    if (!name)
        return zep_error_nomem(err, "switch names");
    for (int i = 0; i < f->n_switch && rc == ZEP_OK; i++)
        rc = check_text("fabric", "switch", f->sw[i].name, err);
    for (int i = 0; i < f->n_switch && rc == ZEP_OK; i++) {
        const struct zep_switch *s = &f->sw[i];

        name[i] = s->name;
        for (int k = 0; k < s->n_parent && rc == ZEP_OK; k++)
            if (s->parent[k] < 0 || s->parent[k] >= f->n_switch || s->parent[k] == i)
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' has the parent %d: the fabric has switches 0 to %d", f->name, s->name, s->parent[k], f->n_switch - 1);
        for (int k = 0; k < s->n_node && rc == ZEP_OK; k++)
            if (s->node[k] < 0 || s->node[k] >= topo->n_node)
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' has the node %d: the topology has nodes 0 to %d", f->name, s->name, s->node[k], topo->n_node - 1);
            else if (s->port && s->port[k] >= topo->node[s->node[k]].n_nic)
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' has NIC %d of node '%s': the node has %d", f->name, s->name, s->port[k], topo->node[s->node[k]].id, topo->node[s->node[k]].n_nic);
    }
    if (rc == ZEP_OK) {
        qsort(name, (size_t)f->n_switch, sizeof *name, cmp_name);
        for (int i = 1; i < f->n_switch && rc == ZEP_OK; i++)
            if (!strcmp(name[i - 1], name[i]))
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' is there twice", f->name, name[i]);
    }
    free(name);
    return rc == ZEP_OK ? zep_fabric_set_levels(f, err) : rc;
}

int zep_topo_validate(struct zep_topo *topo, struct zep_error *err)
{
    struct zep_names *names;
    int rc;

    if (topo->n_node < 1)
        return zep_error_set(err, ZEP_EINVAL, "the topology has no nodes");
    for (int i = 0; i < topo->n_node; i++)
        if ((rc = check_node(&topo->node[i], err)) < 0)
            return rc;
    if ((rc = zep_names_new(topo, &names, err)) < 0)
        return rc;
    zep_names_free(names);
    for (int i = 0; i < topo->n_fabric; i++)
        if ((rc = check_fabric(topo, &topo->fabric[i], err)) < 0)
            return rc;
    return ZEP_OK;
}

int zep_topo_find_node(const struct zep_topo *topo, const char *word)
{
    for (int i = 0; i < topo->n_node; i++) {
        if (!strcmp(topo->node[i].id, word))
            return i;
        for (int k = 0; k < topo->node[i].n_alias; k++)
            if (!strcmp(topo->node[i].alias[k], word))
                return i;
    }
    return -1;
}

static int has_node(const struct zep_switch *s, int node)
{
    for (int i = 0; i < s->n_node; i++)
        if (s->node[i] == node)
            return 1;
    return 0;
}

/* Marks the switches above a node with their distance from it (1 = its leaf). */
static void climb(const struct zep_fabric *f, int node, int *dist)
{
    int changed = 1;

    for (int i = 0; i < f->n_switch; i++)
        dist[i] = has_node(&f->sw[i], node) ? 1 : 0;
    while (changed) {
        changed = 0;
        for (int i = 0; i < f->n_switch; i++)
            for (int k = 0; dist[i] && k < f->sw[i].n_parent; k++) {
                int *up = &dist[f->sw[i].parent[k]];

                if (!*up || *up > dist[i] + 1) {
                    *up = dist[i] + 1;
                    changed = 1;
                }
            }
    }
}

int zep_topo_node_distance(const struct zep_topo *topo, int a, int b)
{
    int best = -1;

    if (a == b)
        return 0;
    for (int i = 0; i < topo->n_fabric; i++) {
        const struct zep_fabric *f = &topo->fabric[i];
        int *da = zep_calloc((size_t)f->n_switch * 2 + 1, sizeof *da), *db = da ? da + f->n_switch : NULL;

        if (!da)
            return -1;
        climb(f, a, da);
        climb(f, b, db);
        for (int k = 0; k < f->n_switch; k++)
            if (da[k] && db[k]) {
                int d = da[k] > db[k] ? da[k] : db[k];

                best = best < 0 || d < best ? d : best;
            }
        free(da);
    }
    return best;
}
