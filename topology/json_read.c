/* JSON of the helpers, and of `zeppelin topo --json`. */
#include "config.h"
#include "topology/detect.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/format.h"
#include "topology/topo_internal.h"

struct reader {
    const char *name;
    struct zep_topo *topo;
    struct zep_error *err;
};

static int bad(struct reader *r, const char *what)
{
    return zep_error_set(r->err, ZEP_EINVAL, "%s: %s: not as zeppelin-detect/1.0 says", r->name, what);
}

static int get_int(const json_t *j, const char *key, int unknown)
{
    const json_t *v = json_object_get(j, key);

    return json_is_integer(v) && json_integer_value(v) >= -1 && json_integer_value(v) < INT32_MAX ? (int)json_integer_value(v) : unknown;
}

static int64_t get_size(const json_t *j, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(j, key));

    return v > 0 ? (int64_t)v : 0;
}

static int get_yes(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);

    return json_is_boolean(v) ? json_boolean_value(v) : -1;
}

static int index_of(const json_t *v, const char *const *names)
{
    const char *s = json_string_value(v);

    for (int i = 0; s && names[i]; i++)
        if (!strcmp(names[i], s))
            return i;
    return 0;
}

static enum zep_source get_source(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    enum zep_source source;

    return s && zep_source_from_name(s, &source) ? source : ZEP_SRC_NONE;
}

static struct zep_fact get_fact(const json_t *j, const char *key)
{
    const json_t *f = json_object_get(j, key);
    const char *how = json_string_value(json_object_get(f, "how"));
    struct zep_fact out = {.value = json_number_value(json_object_get(f, "value")), .source = get_source(f, "source"), .derived = how && !strcmp(how, "derived")};

    return out.value > 0 && out.value < 1e300 && out.source != ZEP_SRC_NONE ? out : (struct zep_fact){0};
}

static int get_copy(struct reader *r, const json_t *j, const char *key, char **out)
{
    const char *s = json_string_value(json_object_get(j, key));

    if (s && !(*out = strdup(s)))
        return zep_error_nomem(r->err, "topology");
    return ZEP_OK;
}

static int read_nics(struct reader *r, const json_t *list, struct zep_node *n)
{
    const json_t *j;
    size_t i;

    json_array_foreach(list, i, j) {
        const char *key = json_string_value(json_object_get(j, "key")), *name = json_string_value(json_object_get(j, "name"));
        struct zep_nic *c;

        if (!key || !name)
            return bad(r, "nics");
        if (!(c = zep_node_add_nic(n, key, name)) || get_copy(r, j, "link", &c->link) < 0 || get_copy(r, j, "guid", &c->guid) < 0 || get_copy(r, j, "bond", &c->bond) < 0 || get_copy(r, j, "bus", &c->bus) < 0)
            return zep_error_nomem(r->err, "topology");
        c->source = get_source(j, "source");
        c->numa = get_int(j, "numa", -1);
        c->up = get_yes(j, "up");
        c->rdma = get_yes(j, "rdma");
        c->pcie_width = get_int(j, "pcie_width", 0);
        c->bw = get_fact(j, "bandwidth_bytes_s");
        c->speed = get_fact(j, "speed");
    }
    return ZEP_OK;
}

/* n values, or the list is as if it were not there. */
static int get_bytes(struct reader *r, const json_t *j, const char *key, int n, const char *const *names, unsigned char **out)
{
    const json_t *list = json_object_get(j, key);

    if (!json_is_array(list))
        return ZEP_OK;
    if (json_array_size(list) != (size_t)n)
        return bad(r, key);
    if (!(*out = zep_calloc((size_t)n + 1, 1)))
        return zep_error_nomem(r->err, "topology");
    for (int i = 0; i < n; i++) {
        json_int_t v = names ? index_of(json_array_get(list, (size_t)i), names) : json_integer_value(json_array_get(list, (size_t)i));

        (*out)[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
    return ZEP_OK;
}

static int read_devices(struct reader *r, const json_t *list, struct zep_node *n)
{
    const json_t *j, *v;
    size_t i, k;
    int rc;

    json_array_foreach(list, i, j) {
        const char *key = json_string_value(json_object_get(j, "key"));
        struct zep_device *d;

        if (!key)
            return bad(r, "devices");
        if (!(d = zep_node_add_device(n, key, (enum zep_dev_kind)index_of(json_object_get(j, "kind"), zep_dev_kind_names))) || get_copy(r, j, "model", &d->model) < 0 ||
            get_copy(r, j, "uuid", &d->uuid) < 0 || get_copy(r, j, "mig", &d->mig) < 0 || get_copy(r, j, "cores", &d->cores) < 0 || get_copy(r, j, "bus", &d->bus) < 0)
            return zep_error_nomem(r->err, "topology");
        d->source = get_source(j, "source");
        d->numa = get_int(j, "numa", -1);
        d->pcie_width = get_int(j, "pcie_width", 0);
        d->nic = get_int(j, "nic", -1);
        d->nic_source = get_source(j, "nic_source");
        d->nic_distance = (enum zep_distance)index_of(json_object_get(j, "nic_distance"), zep_distance_names);
        d->mem_bytes = get_size(j, "memory_bytes");
        d->bw = get_fact(j, "bandwidth_bytes_s");
        d->speed = get_fact(j, "speed");
        json_array_foreach(json_object_get(j, "more_nics"), k, v)
            if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= n->n_nic)
                return bad(r, "more_nics");
            else if (zep_device_add_more(d, (int)json_integer_value(v)) < 0)
                return zep_error_nomem(r->err, "topology");
    }
    for (int d = 0; d < n->n_device && json_is_array(list); d++) {
        j = json_array_get(list, (size_t)d);
        if ((rc = get_bytes(r, j, "nic_distances", n->n_nic, zep_distance_names, &n->device[d].nic_dist)) < 0 ||
            (rc = get_bytes(r, j, "device_distances", n->n_device, zep_distance_names, &n->device[d].peer_dist)) < 0 ||
            (rc = get_bytes(r, j, "nvlinks", n->n_device, NULL, &n->device[d].peer_nvlink)) < 0)
            return rc;
    }
    return ZEP_OK;
}

static int read_nodes(struct reader *r, const json_t *list)
{
    const json_t *j, *a;
    const char *key;
    size_t i, k;
    int rc;

    json_array_foreach(list, i, j) {
        const char *id = json_string_value(json_object_get(j, "id"));
        struct zep_node *n;

        if (!id)
            return bad(r, "nodes");
        if (!(n = zep_topo_add_node(r->topo, id)) || get_copy(r, j, "state", &n->state) < 0 || get_copy(r, j, "model", &n->model) < 0 || get_copy(r, j, "resources", &n->resources) < 0)
            return zep_error_nomem(r->err, "topology");
        json_array_foreach(json_object_get(j, "aliases"), k, a)
            if (json_is_string(a) && zep_node_add_alias(n, json_string_value(a)) < 0)
                return zep_error_nomem(r->err, "topology");
        json_object_foreach(json_object_get(j, "notes"), key, a)
            if (json_is_string(a) && zep_node_add_note(n, key, json_string_value(a)) < 0)
                return zep_error_nomem(r->err, "topology");
        n->sockets = get_int(j, "sockets", 0);
        n->cores_per_socket = get_int(j, "cores_per_socket", 0);
        n->threads_per_core = get_int(j, "threads_per_core", 0);
        n->n_numa = get_int(j, "numa_domains", 0);
        n->mem_bytes = get_size(j, "memory_bytes");
        n->speed = get_fact(j, "speed");
        n->cpu_source = get_source(j, "cpu_source");
        n->mem_source = get_source(j, "memory_source");
        n->state_source = get_source(j, "state_source");
        if ((rc = read_nics(r, json_object_get(j, "nics"), n)) < 0 || (rc = read_devices(r, json_object_get(j, "devices"), n)) < 0)
            return rc;
    }
    return ZEP_OK;
}

static int read_switch(struct reader *r, const json_t *s, struct zep_fabric *f)
{
    const char *name = json_string_value(json_object_get(s, "name"));
    const json_t *ports = json_object_get(s, "ports"), *v;
    struct zep_switch *sw;
    size_t m;

    if (!name || (json_is_array(ports) && json_array_size(ports) != json_array_size(json_object_get(s, "nodes"))))
        return bad(r, "switches");
    if (!(sw = zep_fabric_add_switch(f, name)))
        return zep_error_nomem(r->err, "topology");
    sw->uplink_bw = get_fact(s, "uplink_bandwidth_bytes_s");
    json_array_foreach(json_object_get(s, "parents"), m, v)
        if (zep_switch_add_parent(sw, (int)json_integer_value(v)) < 0)
            return zep_error_nomem(r->err, "topology");
    json_array_foreach(json_object_get(s, "nodes"), m, v) {
        json_int_t port = json_is_array(ports) ? json_integer_value(json_array_get(ports, m)) : -1;

        if (zep_switch_add_port(sw, (int)json_integer_value(v), port < 0 ? -1 : port > 65535 ? 65535 : (int)port) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    return ZEP_OK;
}

static int read_fabrics(struct reader *r, const json_t *list)
{
    const json_t *j, *s, *v;
    size_t i, k;
    int rc;

    json_array_foreach(list, i, j) {
        const char *name = json_string_value(json_object_get(j, "name"));
        struct zep_fabric *f = zep_topo_add_fabric(r->topo, name ? name : "net", (enum zep_fabric_kind)index_of(json_object_get(j, "kind"), zep_fabric_kind_names));

        if (!f)
            return zep_error_nomem(r->err, "topology");
        f->source = get_source(j, "source");
        json_array_foreach(json_object_get(j, "block_sizes"), k, v)
            if (json_integer_value(v) > 0 && json_integer_value(v) < INT32_MAX && zep_fabric_add_block_size(f, (int)json_integer_value(v)) < 0)
                return zep_error_nomem(r->err, "topology");
        json_array_foreach(json_object_get(j, "switches"), k, s)
            if ((rc = read_switch(r, s, f)) < 0)
                return rc;
    }
    return ZEP_OK;
}

static int read_notes(struct reader *r, const json_t *root)
{
    const json_t *j;
    size_t i;

    json_array_foreach(json_object_get(root, "warnings"), i, j)
        if (json_is_string(j) && zep_topo_warn(r->topo, "%s", json_string_value(j)) < 0)
            return zep_error_nomem(r->err, "topology");
    json_array_foreach(json_object_get(root, "conflicts"), i, j) {
        const char *where = "", *what = "", *kept = "", *lost = "";

        json_unpack((json_t *)j, "{s?s, s?s, s?s, s?s}", "where", &where, "what", &what, "kept", &kept, "lost", &lost);
        if (zep_topo_add_conflict(r->topo, where, what, kept, get_source(j, "kept_source"), lost, get_source(j, "lost_source")) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    return ZEP_OK;
}

static int read_root(struct reader *r, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format")), *name = json_string_value(json_object_get(root, "name")), *origin = json_string_value(json_object_get(root, "origin"));
    int rc;

    rc = zep_format_check(format ? format : "", format && !strncmp(format, "zeppelin-topology-json/", 23) ? "zeppelin-topology-json" : "zeppelin-detect", 1, 0, NULL, r->err);
    if (rc < 0)
        return zep_error_prefix(r->err, "%s", r->name);
    if (!(r->topo = zep_topo_new(name, origin)))
        return zep_error_nomem(r->err, "topology");
    r->topo->net_latency_s = get_fact(root, "net_latency_s");
    r->topo->dev_latency_s = get_fact(root, "device_latency_s");
    if ((rc = read_nodes(r, json_object_get(root, "nodes"))) < 0 || (rc = read_fabrics(r, json_object_get(root, "fabrics"))) < 0 || (rc = read_notes(r, root)) < 0)
        return rc;
    if ((rc = zep_topo_validate(r->topo, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", r->name);
    return ZEP_OK;
}

int zep_detect_from_json(const char *name, const char *text, size_t len, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {name, NULL, err};
    json_error_t je;
    json_t *root = json_loadb(text, len, 0, &je);
    int rc;

    if (!root)
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: %s", name, je.line, je.text);
    rc = read_root(&r, root);
    json_decref(root);
    if (rc < 0)
        zep_topo_free(r.topo);
    else
        *topo_out = r.topo;
    return rc;
}
