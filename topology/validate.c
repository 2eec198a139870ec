/* What must hold of a topology, and questions about it. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/digest.h"
#include "common/encode.h"

const char *const zep_dev_kind_names[] = {"none", "cpu", "gpu", NULL};
const char *const zep_distance_names[] = {"unknown", "switch", "bridge", "numa", "system", NULL};
const char *const zep_fabric_kind_names[] = {"none", "tree", "rails", "blocks", NULL};

struct zep_names {
    const struct zep_topo *topo;
    size_t n_bucket;
    struct {
        const char *name;
        int node;
    } *bucket;
};

static size_t hash_name(const char *name)
{
    return (size_t)zep_digest(name, strlen(name), 0);
}

/* Another node that has the name, or -1 and it is added. */
static int put_name(struct zep_names *t, const char *name, int node)
{
    size_t h = hash_name(name) & (t->n_bucket - 1);

    for (; t->bucket[h].name; h = (h + 1) & (t->n_bucket - 1))
        if (!strcmp(t->bucket[h].name, name))
            return t->bucket[h].node;
    t->bucket[h].name = name;
    t->bucket[h].node = node;
    return -1;
}

int zep_names_new(const struct zep_topo *topo, struct zep_names **out, struct zep_error *err)
{
    struct zep_names *t = zep_calloc(1, sizeof *t);
    size_t n = 0;

    if (!t)
        return zep_error_nomem(err, "node names");
    t->topo = topo;
    for (int i = 0; i < topo->n_node; i++)
        n += 1 + (size_t)topo->node[i].n_alias;
    for (t->n_bucket = 16; t->n_bucket < 2 * n; t->n_bucket *= 2)
        ;
    if (!(t->bucket = zep_calloc(t->n_bucket, sizeof *t->bucket))) {
        free(t);
        return zep_error_nomem(err, "node names");
    }
    for (int i = 0; i < topo->n_node; i++) {
        int other = put_name(t, topo->node[i].id, i);

        if (other >= 0) {
            zep_names_free(t);
            return zep_error_set(err, ZEP_EINVAL, "node '%s' is there twice", topo->node[i].id);
        }
    }
    for (int i = 0; i < topo->n_node; i++)
        for (int k = 0; k < topo->node[i].n_alias; k++) {
            int other = put_name(t, topo->node[i].alias[k], i);

            if (other >= 0 && other != i) {
                zep_names_free(t);
                return zep_error_set(err, ZEP_EINVAL, "the name '%s' means two nodes: '%s' and '%s'", topo->node[i].alias[k], topo->node[other].id, topo->node[i].id);
            }
        }
    *out = t;
    return ZEP_OK;
}

int zep_names_find(const struct zep_names *t, const char *word)
{
    size_t h = hash_name(word) & (t->n_bucket - 1);

    for (; t->bucket[h].name; h = (h + 1) & (t->n_bucket - 1))
        if (!strcmp(t->bucket[h].name, word))
            return t->bucket[h].node;
    return -1;
}

void zep_names_free(struct zep_names *t)
{
    if (!t)
        return;
    free(t->bucket);
    free(t);
}

static int check_node(const struct zep_node *n, struct zep_error *err)
{
    if (zep_check_hostname(n->id, err) < 0)
        return zep_error_prefix(err, "node");
    for (int i = 0; i < n->n_alias; i++)
        if (zep_check_hostname(n->alias[i], err) < 0)
            return zep_error_prefix(err, "node '%s': alias", n->id);
    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];

        if (d->nic < -1 || d->nic >= n->n_nic)
            return zep_error_set(err, ZEP_EINVAL, "node '%s': device '%s' uses NIC %d: the node has %d", n->id, d->key, d->nic, n->n_nic);
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
static int set_levels(struct zep_fabric *f, struct zep_error *err)
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
    int rc = ZEP_OK;

    if (!name)
        return zep_error_nomem(err, "switch names");
    for (int i = 0; i < f->n_switch && rc == ZEP_OK; i++) {
        const struct zep_switch *s = &f->sw[i];

        name[i] = s->name;
        for (int k = 0; k < s->n_parent && rc == ZEP_OK; k++)
            if (s->parent[k] < 0 || s->parent[k] >= f->n_switch || s->parent[k] == i)
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' has the parent %d: the fabric has switches 0 to %d", f->name, s->name, s->parent[k], f->n_switch - 1);
        for (int k = 0; k < s->n_node && rc == ZEP_OK; k++)
            if (s->node[k] < 0 || s->node[k] >= topo->n_node)
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' has the node %d: the topology has nodes 0 to %d", f->name, s->name, s->node[k], topo->n_node - 1);
    }
    if (rc == ZEP_OK) {
        qsort(name, (size_t)f->n_switch, sizeof *name, cmp_name);
        for (int i = 1; i < f->n_switch && rc == ZEP_OK; i++)
            if (!strcmp(name[i - 1], name[i]))
                rc = zep_error_set(err, ZEP_EINVAL, "fabric '%s': switch '%s' is there twice", f->name, name[i]);
    }
    free(name);
    return rc == ZEP_OK ? set_levels(f, err) : rc;
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

/* How near a NIC is, by what is known of the pair: NUMA domains only; nearer relations are set by sources that see the bus. */
static enum zep_distance numa_distance(const struct zep_device *d, const struct zep_nic *c)
{
    if (d->numa < 0 || c->numa < 0)
        return ZEP_DIST_UNKNOWN;
    return d->numa == c->numa ? ZEP_DIST_NUMA : ZEP_DIST_SYSTEM;
}

int zep_topo_assign_nics(struct zep_topo *topo, struct zep_error *err)
{
    for (int i = 0; i < topo->n_node; i++) {
        struct zep_node *n = &topo->node[i];
        int *used = zep_calloc((size_t)n->n_nic + 1, sizeof *used);

        if (!used)
            return zep_error_nomem(err, "NICs");
        for (int k = 0; k < n->n_device; k++)
            if (n->device[k].nic >= 0)
                used[n->device[k].nic]++;
        for (int k = 0; k < n->n_device; k++) {
            struct zep_device *d = &n->device[k];
            int best = -1;

            for (int c = 0; d->nic < 0 && c < n->n_nic; c++) {
                enum zep_distance far = numa_distance(d, &n->nic[c]), best_far = best < 0 ? ZEP_DIST_SYSTEM : numa_distance(d, &n->nic[best]);

                if (far == ZEP_DIST_UNKNOWN || n->nic[c].up == 0)
                    continue;
                if (best < 0 || far < best_far || (far == best_far && used[c] < used[best]))
                    best = c;
            }
            if (best < 0)
                continue;
            d->nic = best;
            d->nic_distance = numa_distance(d, &n->nic[best]);
            used[best]++;
        }
        free(used);
    }
    return ZEP_OK;
}
