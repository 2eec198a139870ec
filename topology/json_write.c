/* A topology as JSON: "zeppelin-topology-json/1.0" for programs, "zeppelin-detect/1.0" from our own helpers; the same content. */
#include "config.h"
#include "topology/detect.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topo_internal.h"

static void put_text(json_t *o, const char *key, const char *s)
{
    if (s)
        json_object_set_new(o, key, json_string(s));
}

static void put_int(json_t *o, const char *key, int64_t v, int64_t unknown)
{
    if (v != unknown)
        json_object_set_new(o, key, json_integer((json_int_t)v));
}

static void put_yes(json_t *o, const char *key, int v)
{
    if (v >= 0)
        json_object_set_new(o, key, json_boolean(v));
}

static void put_source(json_t *o, const char *key, enum zep_source s)
{
    json_object_set_new(o, key, json_string(zep_source_name(s)));
}

static void put_fact(json_t *o, const char *key, const struct zep_fact *f)
{
    const char *how = f->derived ? "derived" : f->source == ZEP_SRC_MEASURED ? "measured" : f->source == ZEP_SRC_DEFAULT ? "defaulted" : "read";

    if (f->source != ZEP_SRC_NONE && f->value > 0)
        json_object_set_new(o, key, json_pack("{s:f, s:s, s:s}", "value", f->value, "source", zep_source_name(f->source), "how", how));
}

static void put_bytes(json_t *o, const char *key, const unsigned char *v, int n, const char *const *names)
{
    json_t *list;

    if (!v)
        return;
    list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, names ? json_string(names[v[i]]) : json_integer(v[i]));
    json_object_set_new(o, key, list);
}

static void put_ints(json_t *o, const char *key, const int *v, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    json_object_set_new(o, key, list);
}

static json_t *nic_json(const struct zep_nic *c)
{
    json_t *o = json_object();

    put_text(o, "key", c->key);
    put_text(o, "name", c->name);
    put_source(o, "source", c->source);
    put_text(o, "link", c->link);
    put_text(o, "guid", c->guid);
    put_text(o, "bond", c->bond);
    put_text(o, "bus", c->bus);
    put_int(o, "numa", c->numa, -1);
    put_yes(o, "up", c->up);
    put_yes(o, "rdma", c->rdma);
    put_int(o, "pcie_width", c->pcie_width, 0);
    put_fact(o, "bandwidth_bytes_s", &c->bw);
    put_fact(o, "speed", &c->speed);
    return o;
}

static json_t *device_json(const struct zep_node *n, const struct zep_device *d)
{
    json_t *o = json_object();

    put_text(o, "key", d->key);
    put_text(o, "kind", zep_dev_kind_names[d->kind]);
    put_source(o, "source", d->source);
    put_text(o, "uuid", d->uuid);
    put_text(o, "model", d->model);
    put_text(o, "mig", d->mig);
    put_text(o, "cores", d->cores);
    put_text(o, "bus", d->bus);
    put_int(o, "numa", d->numa, -1);
    put_int(o, "pcie_width", d->pcie_width, 0);
    if (d->nic >= 0) {
        put_int(o, "nic", d->nic, -1);
        put_source(o, "nic_source", d->nic_source);
    }
    put_text(o, "nic_distance", zep_distance_names[d->nic_distance]);
    if (d->n_more)
        put_ints(o, "more_nics", d->more, d->n_more);
    put_bytes(o, "nic_distances", d->nic_dist, n->n_nic, zep_distance_names);
    put_bytes(o, "device_distances", d->peer_dist, n->n_device, zep_distance_names);
    put_bytes(o, "nvlinks", d->peer_nvlink, n->n_device, NULL);
    put_int(o, "memory_bytes", d->mem_bytes, 0);
    put_fact(o, "bandwidth_bytes_s", &d->bw);
    put_fact(o, "speed", &d->speed);
    return o;
}

static json_t *node_json(const struct zep_node *n)
{
    json_t *aliases = json_array(), *devices = json_array(), *nics = json_array(), *o = json_object();

    for (int i = 0; i < n->n_alias; i++)
        json_array_append_new(aliases, json_string(n->alias[i]));
    for (int i = 0; i < n->n_nic; i++)
        json_array_append_new(nics, nic_json(&n->nic[i]));
    for (int i = 0; i < n->n_device; i++)
        json_array_append_new(devices, device_json(n, &n->device[i]));
    put_text(o, "id", n->id);
    json_object_set_new(o, "aliases", aliases);
    put_text(o, "state", n->state);
    put_text(o, "model", n->model);
    put_text(o, "resources", n->resources);
    put_int(o, "sockets", n->sockets, 0);
    put_int(o, "cores_per_socket", n->cores_per_socket, 0);
    put_int(o, "threads_per_core", n->threads_per_core, 0);
    put_int(o, "numa_domains", n->n_numa, 0);
    put_int(o, "memory_bytes", n->mem_bytes, 0);
    put_fact(o, "speed", &n->speed);
    if (n->sockets || n->cores_per_socket || n->threads_per_core || n->n_numa)
        put_source(o, "cpu_source", n->cpu_source);
    if (n->mem_bytes)
        put_source(o, "memory_source", n->mem_source);
    if (n->state || n->model || n->resources)
        put_source(o, "state_source", n->state_source);
    json_object_set_new(o, "nics", nics);
    json_object_set_new(o, "devices", devices);
    if (n->n_note) {
        json_t *notes = json_object();

        for (int i = 0; i < n->n_note; i++)
            put_text(notes, n->note[i].key, n->note[i].value);
        json_object_set_new(o, "notes", notes);
    }
    return o;
}

static json_t *fabric_json(const struct zep_fabric *f)
{
    json_t *list = json_array(), *o = json_object();

    for (int i = 0; i < f->n_switch; i++) {
        const struct zep_switch *s = &f->sw[i];
        json_t *sw = json_object();

        put_text(sw, "name", s->name);
        put_int(sw, "level", s->level, -1);
        put_ints(sw, "parents", s->parent, s->n_parent);
        put_ints(sw, "nodes", s->node, s->n_node);
        if (s->port)
            put_ints(sw, "ports", s->port, s->n_node);
        put_fact(sw, "uplink_bandwidth_bytes_s", &s->uplink_bw);
        json_array_append_new(list, sw);
    }
    put_text(o, "name", f->name);
    put_text(o, "kind", zep_fabric_kind_names[f->kind]);
    put_source(o, "source", f->source);
    if (f->n_block_size)
        put_ints(o, "block_sizes", f->block_size, f->n_block_size);
    json_object_set_new(o, "switches", list);
    return o;
}

static int to_json(const struct zep_topo *topo, const char *format, size_t flags, char **text_out, struct zep_error *err)
{
    json_t *nodes = json_array(), *fabrics = json_array(), *warnings = json_array(), *conflicts = json_array(), *root = json_object();

    for (int i = 0; i < topo->n_node; i++)
        json_array_append_new(nodes, node_json(&topo->node[i]));
    for (int i = 0; i < topo->n_fabric; i++)
        json_array_append_new(fabrics, fabric_json(&topo->fabric[i]));
    for (int i = 0; i < topo->n_warning; i++)
        json_array_append_new(warnings, json_string(topo->warning[i]));
    for (int i = 0; i < topo->n_conflict; i++) {
        const struct zep_conflict *c = &topo->conflict[i];

        json_array_append_new(conflicts, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "where", c->where, "what", c->what, "kept", c->kept, "kept_source", zep_source_name(c->kept_source), "lost", c->lost,
                                                   "lost_source", zep_source_name(c->lost_source)));
    }
    put_text(root, "format", format);
    put_text(root, "name", topo->name);
    put_text(root, "origin", topo->origin);
    put_fact(root, "net_latency_s", &topo->net_latency_s);
    put_fact(root, "device_latency_s", &topo->dev_latency_s);
    json_object_set_new(root, "nodes", nodes);
    json_object_set_new(root, "fabrics", fabrics);
    json_object_set_new(root, "conflicts", conflicts);
    json_object_set_new(root, "warnings", warnings);
    *text_out = json_dumps(root, flags | JSON_PRESERVE_ORDER);
    json_decref(root);
    return *text_out ? ZEP_OK : zep_error_nomem(err, "JSON of the topology");
}

int zep_detect_to_json(const struct zep_topo *topo, char **text_out, struct zep_error *err)
{
    return to_json(topo, "zeppelin-detect/1.0", JSON_COMPACT, text_out, err);
}

int zep_topo_to_json(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    char *text;
    int rc = to_json(topo, "zeppelin-topology-json/1.0", JSON_INDENT(1), &text, err);

    if (rc < 0)
        return rc;
    zep_buf_puts(b, text);
    zep_buf_puts(b, "\n");
    free(text);
    return zep_buf_ok(b, err);
}
