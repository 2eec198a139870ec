/* topology.yaml, "zeppelin-topology/1.0": equal nodes that follow each other are written once, their names folded into host lists. Unknown facts are left out. */
#include "config.h"
#include "topology/topo_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"
#include "common/units.h"
#include "common/yaml.h"

static int same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static int same_fact(const struct zep_fact *a, const struct zep_fact *b)
{
    return a->value == b->value && a->source == b->source;
}

static int same_node(const struct zep_node *a, const struct zep_node *b)
{
    if (a->n_alias != b->n_alias || !same_text(a->state, b->state) || a->sockets != b->sockets || a->cores_per_socket != b->cores_per_socket || a->threads_per_core != b->threads_per_core ||
        a->n_numa != b->n_numa || a->mem_bytes != b->mem_bytes || a->n_device != b->n_device || a->n_nic != b->n_nic)
        return 0;
    for (int i = 0; i < a->n_device; i++) {
        const struct zep_device *x = &a->device[i], *y = &b->device[i];

        if (strcmp(x->key, y->key) || x->kind != y->kind || !same_text(x->model, y->model) || x->numa != y->numa || x->nic != y->nic || x->nic_distance != y->nic_distance ||
            x->mem_bytes != y->mem_bytes || !same_fact(&x->bw, &y->bw))
            return 0;
    }
    for (int i = 0; i < a->n_nic; i++) {
        const struct zep_nic *x = &a->nic[i], *y = &b->nic[i];

        if (strcmp(x->key, y->key) || strcmp(x->name, y->name) || x->numa != y->numa || x->up != y->up || !same_fact(&x->bw, &y->bw))
            return 0;
    }
    return 1;
}

static void put_scalar(struct zep_buf *b, const char *indent, const char *key, const char *value)
{
    zep_buf_printf(b, "%s%s: ", indent, key);
    zep_yaml_emit_scalar(b, value);
    zep_buf_puts(b, "\n");
}

static void put_bandwidth(struct zep_buf *b, const char *indent, const char *key, const struct zep_fact *f)
{
    char text[ZEP_UNIT_BUF];

    if (f->source != ZEP_SRC_NONE && f->value > 0)
        zep_buf_printf(b, "%s%s: {value: %s, source: %s}\n", indent, key, zep_format_bandwidth(f->value, text), zep_source_name(f->source));
}

static void put_time(struct zep_buf *b, const char *key, const struct zep_fact *f)
{
    char text[ZEP_UNIT_BUF];

    if (f->source != ZEP_SRC_NONE && f->value > 0)
        zep_buf_printf(b, "%s: {value: %s, source: %s}\n", key, zep_format_time(f->value, text), zep_source_name(f->source));
}

static void put_int(struct zep_buf *b, const char *indent, const char *key, int value, int unknown)
{
    if (value != unknown)
        zep_buf_printf(b, "%s%s: %d\n", indent, key, value);
}

static void put_size(struct zep_buf *b, const char *indent, const char *key, int64_t bytes)
{
    char text[ZEP_UNIT_BUF];

    if (bytes)
        zep_buf_printf(b, "%s%s: %s\n", indent, key, zep_format_size(bytes, text));
}

static void put_nic(struct zep_buf *b, const struct zep_nic *c)
{
    put_scalar(b, "      - ", "key", c->key);
    put_scalar(b, "        ", "name", c->name);
    put_int(b, "        ", "numa", c->numa, -1);
    if (c->up >= 0)
        zep_buf_printf(b, "        up: %s\n", c->up ? "true" : "false");
    put_bandwidth(b, "        ", "bandwidth", &c->bw);
}

static void put_device(struct zep_buf *b, const struct zep_device *d)
{
    put_scalar(b, "      - ", "key", d->key);
    put_scalar(b, "        ", "kind", zep_dev_kind_names[d->kind]);
    if (d->model)
        put_scalar(b, "        ", "model", d->model);
    put_int(b, "        ", "numa", d->numa, -1);
    put_int(b, "        ", "nic", d->nic, -1);
    if (d->nic_distance != ZEP_DIST_UNKNOWN)
        put_scalar(b, "        ", "nic_distance", zep_distance_names[d->nic_distance]);
    put_size(b, "        ", "memory", d->mem_bytes);
    put_bandwidth(b, "        ", "bandwidth", &d->bw);
}

/* The names of [first, first + n): ids, or the k-th aliases. */
static int put_names(struct zep_buf *b, const struct zep_topo *topo, int first, int n, int alias, struct zep_error *err)
{
    const char **name = zep_calloc((size_t)n, sizeof *name);
    char *folded = NULL;
    int rc;

    if (!name)
        return zep_error_nomem(err, "node names");
    for (int i = 0; i < n; i++)
        name[i] = alias < 0 ? topo->node[first + i].id : topo->node[first + i].alias[alias];
    rc = zep_hostlist_fold(n, name, &folded, err);
    if (rc == ZEP_OK)
        zep_yaml_emit_scalar(b, folded);
    free(folded);
    free(name);
    return rc;
}

static int put_nodes(struct zep_buf *b, const struct zep_topo *topo, int first, int n, struct zep_error *err)
{
    const struct zep_node *node = &topo->node[first];
    int rc;

    zep_buf_puts(b, "  - id: ");
    if ((rc = put_names(b, topo, first, n, -1, err)) < 0)
        return rc;
    zep_buf_puts(b, "\n");
    if (node->n_alias)
        zep_buf_puts(b, "    aliases:\n");
    for (int k = 0; k < node->n_alias; k++) {
        zep_buf_puts(b, "      - ");
        if ((rc = put_names(b, topo, first, n, k, err)) < 0)
            return rc;
        zep_buf_puts(b, "\n");
    }
    if (node->state)
        put_scalar(b, "    ", "state", node->state);
    put_int(b, "    ", "sockets", node->sockets, 0);
    put_int(b, "    ", "cores_per_socket", node->cores_per_socket, 0);
    put_int(b, "    ", "threads_per_core", node->threads_per_core, 0);
    put_int(b, "    ", "numa_domains", node->n_numa, 0);
    put_size(b, "    ", "memory", node->mem_bytes);
    if (node->n_nic)
        zep_buf_puts(b, "    nics:\n");
    for (int i = 0; i < node->n_nic; i++)
        put_nic(b, &node->nic[i]);
    if (node->n_device)
        zep_buf_puts(b, "    devices:\n");
    for (int i = 0; i < node->n_device; i++)
        put_device(b, &node->device[i]);
    return ZEP_OK;
}

static int put_switch(struct zep_buf *b, const struct zep_topo *topo, const struct zep_fabric *f, const struct zep_switch *s, struct zep_error *err)
{
    const char **name;
    char *folded = NULL;
    int rc = ZEP_OK;

    put_scalar(b, "      - ", "name", s->name);
    if (s->n_parent)
        zep_buf_puts(b, "        parents:\n");
    for (int k = 0; k < s->n_parent; k++) {
        zep_buf_puts(b, "          - ");
        zep_yaml_emit_scalar(b, f->sw[s->parent[k]].name);
        zep_buf_puts(b, "\n");
    }
    if (s->n_node) {
        if (!(name = zep_calloc((size_t)s->n_node, sizeof *name)))
            return zep_error_nomem(err, "node names");
        for (int k = 0; k < s->n_node; k++)
            name[k] = topo->node[s->node[k]].id;
        if ((rc = zep_hostlist_fold(s->n_node, name, &folded, err)) == ZEP_OK)
            put_scalar(b, "        ", "nodes", folded);
        free(folded);
        free(name);
    }
    put_bandwidth(b, "        ", "uplink_bandwidth", &s->uplink_bw);
    return rc;
}

int zep_topo_to_yaml(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    zep_buf_puts(b, "format: zeppelin-topology/1.0\n");
    put_scalar(b, "", "name", topo->name);
    put_scalar(b, "", "origin", topo->origin);
    put_time(b, "net_latency", &topo->net_latency_s);
    put_time(b, "device_latency", &topo->dev_latency_s);
    zep_buf_puts(b, "nodes:\n");
    for (int i = 0, n; i < topo->n_node; i += n) {
        for (n = 1; i + n < topo->n_node && same_node(&topo->node[i], &topo->node[i + n]); n++)
            ;
        if ((rc = put_nodes(b, topo, i, n, err)) < 0)
            return rc;
    }
    if (topo->n_fabric)
        zep_buf_puts(b, "fabrics:\n");
    for (int i = 0; i < topo->n_fabric; i++) {
        const struct zep_fabric *f = &topo->fabric[i];

        put_scalar(b, "  - ", "name", f->name);
        put_scalar(b, "    ", "kind", zep_fabric_kind_names[f->kind]);
        if (f->n_switch)
            zep_buf_puts(b, "    switches:\n");
        for (int k = 0; k < f->n_switch; k++)
            if ((rc = put_switch(b, topo, f, &f->sw[k], err)) < 0)
                return rc;
    }
    if (topo->n_warning)
        zep_buf_puts(b, "warnings:\n");
    for (int i = 0; i < topo->n_warning; i++) {
        zep_buf_puts(b, "  - ");
        zep_yaml_emit_scalar(b, topo->warning[i]);
        zep_buf_puts(b, "\n");
    }
    return zep_buf_ok(b, err);
}
