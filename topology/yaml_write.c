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

static void put_scalar(struct zep_buf *b, const char *indent, const char *key, const char *value)
{
    if (!value)
        return;
    zep_buf_printf(b, "%s%s: ", indent, key);
    zep_yaml_emit_scalar(b, value);
    zep_buf_puts(b, "\n");
}

static void put_fact(struct zep_buf *b, const char *indent, const char *key, const struct zep_fact *f, enum zep_fact_unit unit)
{
    char text[ZEP_UNIT_BUF];

    if (f->source != ZEP_SRC_NONE && f->value > 0)
        zep_buf_printf(b, "%s%s: {value: %s, source: %s%s}\n", indent, key, zep_fact_text(unit, f->value, text), zep_source_name(f->source),
                       f->derived ? ", how: derived" : "");
}

static void put_int(struct zep_buf *b, const char *indent, const char *key, int value, int unknown)
{
    if (value != unknown)
        zep_buf_printf(b, "%s%s: %d\n", indent, key, value);
}

static void put_yes(struct zep_buf *b, const char *indent, const char *key, int value)
{
    if (value >= 0)
        zep_buf_printf(b, "%s%s: %s\n", indent, key, value ? "true" : "false");
}

static void put_size(struct zep_buf *b, const char *indent, const char *key, int64_t bytes)
{
    char text[ZEP_UNIT_BUF];

    if (bytes)
        zep_buf_printf(b, "%s%s: %s\n", indent, key, zep_format_size(bytes, text));
}

/* What the user says is not marked. */
static void put_source(struct zep_buf *b, const char *indent, const char *key, enum zep_source source)
{
    if (source != ZEP_SRC_USER)
        put_scalar(b, indent, key, zep_source_name(source));
}

static void put_bytes(struct zep_buf *b, const char *indent, const char *key, const unsigned char *v, int n, const char *const *names)
{
    if (!v)
        return;
    zep_buf_printf(b, "%s%s: [", indent, key);
    for (int i = 0; i < n; i++)
        if (names)
            zep_buf_printf(b, "%s%s", i ? ", " : "", names[v[i]]);
        else
            zep_buf_printf(b, "%s%d", i ? ", " : "", v[i]);
    zep_buf_puts(b, "]\n");
}

static void put_ints(struct zep_buf *b, const char *indent, const char *key, const int *v, int n)
{
    if (!n)
        return;
    zep_buf_printf(b, "%s%s: [", indent, key);
    for (int i = 0; i < n; i++)
        zep_buf_printf(b, "%s%d", i ? ", " : "", v[i]);
    zep_buf_puts(b, "]\n");
}

static void put_nic(struct zep_buf *b, const struct zep_nic *c)
{
    static const char in[] = "        ";

    put_scalar(b, "      - ", "key", c->key);
    put_scalar(b, in, "name", c->name);
    put_source(b, in, "source", c->source);
    put_scalar(b, in, "link", c->link);
    put_scalar(b, in, "guid", c->guid);
    put_scalar(b, in, "bond", c->bond);
    put_scalar(b, in, "bus", c->bus);
    put_int(b, in, "numa", c->numa, -1);
    put_yes(b, in, "up", c->up);
    put_yes(b, in, "rdma", c->rdma);
    put_int(b, in, "pcie_width", c->pcie_width, 0);
    put_fact(b, in, "bandwidth", &c->bw, ZEP_UNIT_BANDWIDTH);
    put_fact(b, in, "speed", &c->speed, ZEP_UNIT_FACTOR);
}

static void put_device(struct zep_buf *b, const struct zep_node *n, const struct zep_device *d)
{
    static const char in[] = "        ";

    put_scalar(b, "      - ", "key", d->key);
    put_scalar(b, in, "kind", zep_dev_kind_names[d->kind]);
    put_source(b, in, "source", d->source);
    put_scalar(b, in, "uuid", d->uuid);
    put_scalar(b, in, "model", d->model);
    put_scalar(b, in, "mig", d->mig);
    put_scalar(b, in, "cores", d->cores);
    put_scalar(b, in, "bus", d->bus);
    put_int(b, in, "numa", d->numa, -1);
    put_int(b, in, "pcie_width", d->pcie_width, 0);
    put_int(b, in, "nic", d->nic, -1);
    if (d->nic >= 0)
        put_source(b, in, "nic_source", d->nic_source);
    if (d->nic_distance != ZEP_DIST_UNKNOWN)
        put_scalar(b, in, "nic_distance", zep_distance_names[d->nic_distance]);
    put_ints(b, in, "more_nics", d->more, d->n_more);
    put_bytes(b, in, "nic_distances", d->nic_dist, n->n_nic, zep_distance_names);
    put_bytes(b, in, "device_distances", d->peer_dist, n->n_device, zep_distance_names);
    put_bytes(b, in, "nvlinks", d->peer_nvlink, n->n_device, NULL);
    put_size(b, in, "memory", d->mem_bytes);
    put_fact(b, in, "bandwidth", &d->bw, ZEP_UNIT_BANDWIDTH);
    put_fact(b, in, "speed", &d->speed, ZEP_UNIT_FACTOR);
}

/* All but the names, from the fourth blank on. Two nodes are equal when this text is. */
static void put_body(struct zep_buf *b, const struct zep_node *node)
{
    put_scalar(b, "    ", "state", node->state);
    put_scalar(b, "    ", "model", node->model);
    put_scalar(b, "    ", "resources", node->resources);
    put_int(b, "    ", "sockets", node->sockets, 0);
    put_int(b, "    ", "cores_per_socket", node->cores_per_socket, 0);
    put_int(b, "    ", "threads_per_core", node->threads_per_core, 0);
    put_int(b, "    ", "numa_domains", node->n_numa, 0);
    put_size(b, "    ", "memory", node->mem_bytes);
    if (node->sockets || node->cores_per_socket || node->threads_per_core || node->n_numa)
        put_source(b, "    ", "cpu_source", node->cpu_source);
    if (node->mem_bytes)
        put_source(b, "    ", "memory_source", node->mem_source);
    if (node->state || node->model || node->resources)
        put_source(b, "    ", "state_source", node->state_source);
    put_fact(b, "    ", "speed", &node->speed, ZEP_UNIT_FACTOR);
    if (node->n_nic)
        zep_buf_puts(b, "    nics:\n");
    for (int i = 0; i < node->n_nic; i++)
        put_nic(b, &node->nic[i]);
    if (node->n_device)
        zep_buf_puts(b, "    devices:\n");
    for (int i = 0; i < node->n_device; i++)
        put_device(b, node, &node->device[i]);
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

static int put_nodes(struct zep_buf *b, const struct zep_topo *topo, int first, int n, const struct zep_buf *body, struct zep_error *err)
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
    zep_buf_add(b, body->data, body->len);
    return ZEP_OK;
}

/* Which NIC of each node the cables end in: one number where it is the same for all. */
static void put_ports(struct zep_buf *b, const struct zep_switch *s)
{
    int same = 1;

    for (int i = 1; s->port && i < s->n_node; i++)
        same &= s->port[i] == s->port[0];
    if (!s->port || !s->n_node || (same && s->port[0] < 0))
        return;
    if (same)
        put_int(b, "        ", "port", s->port[0], -1);
    else
        put_ints(b, "        ", "ports", s->port, s->n_node);
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
    put_ports(b, s);
    put_fact(b, "        ", "uplink_bandwidth", &s->uplink_bw, ZEP_UNIT_BANDWIDTH);
    return rc;
}

static int put_fabric(struct zep_buf *b, const struct zep_topo *topo, const struct zep_fabric *f, struct zep_error *err)
{
    int rc = ZEP_OK;

    put_scalar(b, "  - ", "name", f->name);
    put_scalar(b, "    ", "kind", zep_fabric_kind_names[f->kind]);
    put_source(b, "    ", "source", f->source);
    put_ints(b, "    ", "block_sizes", f->block_size, f->n_block_size);
    if (f->n_switch)
        zep_buf_puts(b, "    switches:\n");
    for (int k = 0; k < f->n_switch && rc == ZEP_OK; k++)
        rc = put_switch(b, topo, f, &f->sw[k], err);
    return rc;
}

/* Equal nodes that follow each other are one entry; each is compared by its text with the one before. */
static int put_all_nodes(struct zep_buf *b, const struct zep_topo *topo, struct zep_error *err)
{
    struct zep_buf body = ZEP_BUF_INIT, next = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    for (int i = 0, n; i < topo->n_node && rc == ZEP_OK; i += n) {
        body.len = 0;
        zep_buf_puts(&body, "");
        if (next.len) {
            struct zep_buf swap = body;

            body = next;
            next = swap;
        } else {
            put_body(&body, &topo->node[i]);
        }
        for (n = 1; i + n < topo->n_node; n++) {
            next.len = 0;
            put_body(&next, &topo->node[i + n]);
            if (topo->node[i].n_alias != topo->node[i + n].n_alias || next.len != body.len || (body.len && memcmp(next.data, body.data, body.len)))
                break;
        }
        if (i + n == topo->n_node)
            next.len = 0;
        if ((rc = zep_buf_ok(&body, err)) == ZEP_OK && (rc = zep_buf_ok(&next, err)) == ZEP_OK)
            rc = put_nodes(b, topo, i, n, &body, err);
    }
    zep_buf_free(&body);
    zep_buf_free(&next);
    return rc;
}

static void put_conflict(struct zep_buf *b, const struct zep_conflict *c)
{
    put_scalar(b, "  - ", "where", c->where);
    put_scalar(b, "    ", "what", c->what);
    put_scalar(b, "    ", "kept", c->kept);
    put_scalar(b, "    ", "kept_source", zep_source_name(c->kept_source));
    put_scalar(b, "    ", "lost", c->lost);
    put_scalar(b, "    ", "lost_source", zep_source_name(c->lost_source));
}

int zep_topo_to_yaml(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    zep_buf_puts(b, "format: zeppelin-topology/1.0\n");
    put_scalar(b, "", "name", topo->name);
    put_scalar(b, "", "origin", topo->origin);
    put_fact(b, "", "net_latency", &topo->net_latency_s, ZEP_UNIT_TIME);
    put_fact(b, "", "device_latency", &topo->dev_latency_s, ZEP_UNIT_TIME);
    zep_buf_puts(b, "nodes:\n");
    if ((rc = put_all_nodes(b, topo, err)) < 0)
        return rc;
    if (topo->n_fabric)
        zep_buf_puts(b, "fabrics:\n");
    for (int i = 0; i < topo->n_fabric; i++)
        if ((rc = put_fabric(b, topo, &topo->fabric[i], err)) < 0)
            return rc;
    if (topo->n_conflict)
        zep_buf_puts(b, "conflicts:\n");
    for (int i = 0; i < topo->n_conflict; i++)
        put_conflict(b, &topo->conflict[i]);
    if (topo->n_warning)
        zep_buf_puts(b, "warnings:\n");
    for (int i = 0; i < topo->n_warning; i++) {
        zep_buf_puts(b, "  - ");
        zep_yaml_emit_scalar(b, topo->warning[i]);
        zep_buf_puts(b, "\n");
    }
    return zep_buf_ok(b, err);
}
