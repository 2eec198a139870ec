#include "config.h"
#include "topology/topo_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/hostlist.h"
#include "common/units.h"
#include "common/yaml.h"

struct reader {
    const struct zep_yaml *doc;
    struct zep_topo *topo;
    struct zep_error *err;
};

typedef const struct zep_yaml_node yaml;

static int fail(struct reader *r, yaml *n, const char *fmt, const char *value)
{
    return zep_yaml_error(r->doc, n, r->err, fmt, value);
}

/* Keys that this version does not know are passed over with a warning (a newer minor may have them). */
static int warn_unknown(struct reader *r, yaml *map, const char *const *known)
{
    for (int i = 0; i < map->n; i++) {
        int k = 0;

        while (known[k] && strcmp(known[k], map->keys[i]))
            k++;
        if (!known[k]) {
            const char *near = zep_nearest(map->keys[i], known);

            if (zep_topo_warn(r->topo, "%s:%d: unknown key '%s' was ignored%s%s%s", zep_yaml_name(r->doc), map->key_lines[i], map->keys[i], near ? " (did you mean '" : "", near ? near : "",
                              near ? "'?)" : "") < 0)
                return zep_error_nomem(r->err, "topology");
        }
    }
    return ZEP_OK;
}

static int want_map(struct reader *r, yaml *n, const char *what)
{
    return n->type == ZEP_YAML_MAP ? ZEP_OK : fail(r, n, "expected keys and values of a %s", what);
}

static int want_list(struct reader *r, yaml *n, const char *what)
{
    return n->type == ZEP_YAML_SEQ ? ZEP_OK : fail(r, n, "expected a list of %s", what);
}

static int get_int(struct reader *r, yaml *map, const char *key, int min, int max, int *out)
{
    yaml *n = zep_yaml_get(map, key);
    int64_t v;
    int rc;

    if (!n)
        return ZEP_OK;
    if ((rc = zep_yaml_int(r->doc, n, key, min, max, &v, r->err)) == ZEP_OK)
        *out = (int)v;
    return rc;
}

static int get_text(struct reader *r, yaml *map, const char *key, const char **out)
{
    yaml *n = zep_yaml_get(map, key);

    return n ? zep_yaml_string(r->doc, n, key, out, r->err) : ZEP_OK;
}

static int get_copy(struct reader *r, yaml *map, const char *key, char **out)
{
    const char *text = NULL;
    int rc = get_text(r, map, key, &text);

    if (rc < 0 || !text)
        return rc;
    free(*out);
    *out = strdup(text);
    return *out ? ZEP_OK : zep_error_nomem(r->err, "topology");
}

static int to_choice(struct reader *r, yaml *n, const char *key, const char *text, const char *const *names, int *out)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], text)) {
            *out = i;
            return ZEP_OK;
        }
    return zep_yaml_error(r->doc, n, r->err, "%s '%s': expected one of %s, %s, %s ...", key, text, names[0], names[1], names[2]);
}

static int get_choice(struct reader *r, yaml *map, const char *key, const char *const *names, int *out)
{
    const char *text = NULL;
    int rc = get_text(r, map, key, &text);

    return rc < 0 || !text ? rc : to_choice(r, zep_yaml_get(map, key), key, text, names, out);
}

static int to_source(struct reader *r, yaml *n, const char *key, const char *text, enum zep_source *out)
{
    if (zep_source_from_name(text, out))
        return ZEP_OK;
    return zep_yaml_error(r->doc, n, r->err, "%s: source '%s': expected user, measured, node, controller, site, label, preset or default", key, text);
}

/* What is not marked is said by the user. */
static int get_source(struct reader *r, yaml *map, const char *key, enum zep_source *out)
{
    const char *text = NULL;
    int rc = get_text(r, map, key, &text);

    if (rc < 0)
        return rc;
    *out = ZEP_SRC_USER;
    return text ? to_source(r, zep_yaml_get(map, key), key, text, out) : ZEP_OK;
}

static int get_yes(struct reader *r, yaml *map, const char *key, int *out)
{
    yaml *n = zep_yaml_get(map, key);

    return n ? zep_yaml_bool(r->doc, n, key, out, r->err) : ZEP_OK;
}

static int get_size(struct reader *r, yaml *map, const char *key, int64_t *out)
{
    const char *text = NULL;
    struct zep_error err;
    int rc = get_text(r, map, key, &text);

    if (rc < 0 || !text)
        return rc;
    if (zep_parse_size(text, out, &err) < 0)
        return zep_yaml_error(r->doc, zep_yaml_get(map, key), r->err, "%s %s", key, err.text);
    return ZEP_OK;
}

/* "25GB/s" (said by the user) or {value: 25GB/s, source: preset}. */
static int get_fact(struct reader *r, yaml *map, const char *key, enum zep_fact_unit unit, struct zep_fact *out)
{
    static const char *const known[] = {"value", "source", "how", NULL}, *const hows[] = {"read", "derived", "measured", "defaulted", NULL};
    yaml *n = zep_yaml_get(map, key);
    const char *text = NULL, *source = "user";
    struct zep_fact f = {.source = ZEP_SRC_USER};
    struct zep_error err;
    int rc;

    if (!n)
        return ZEP_OK;
    if (n->type == ZEP_YAML_MAP) {
        if ((rc = warn_unknown(r, n, known)) < 0 || (rc = get_text(r, n, "value", &text)) < 0 || (rc = get_text(r, n, "source", &source)) < 0 || (rc = get_choice(r, n, "how", hows, &f.derived)) < 0)
            return rc;
        f.derived = f.derived == 1;
        if (!text)
            return fail(r, n, "%s: expected a value", key);
        if ((rc = to_source(r, n, key, source, &f.source)) < 0)
            return rc;
    } else if ((rc = zep_yaml_string(r->doc, n, key, &text, r->err)) < 0) {
        return rc;
    }
    rc = unit == ZEP_UNIT_TIME ? zep_parse_time(text, &f.value, &err) : unit == ZEP_UNIT_BANDWIDTH ? zep_parse_bandwidth(text, &f.value, &err) : zep_parse_double(text, ZEP_SPEED_MIN, ZEP_SPEED_MAX, &f.value, &err);
    if (rc < 0)
        return zep_yaml_error(r->doc, n, r->err, "%s %s", key, err.text);
    *out = f;
    return ZEP_OK;
}

static int read_nic(struct reader *r, yaml *n, struct zep_node *node)
{
    static const char *const known[] = {"key", "name", "source", "link", "guid", "bond", "bus", "numa", "up", "rdma", "pcie_width", "bandwidth", "speed", NULL};
    const char *key = NULL, *name = NULL;
    struct zep_nic *c;
    int rc;

    if ((rc = want_map(r, n, "NIC")) < 0 || (rc = warn_unknown(r, n, known)) < 0 || (rc = get_text(r, n, "key", &key)) < 0 || (rc = get_text(r, n, "name", &name)) < 0)
        return rc;
    if (!key && !name)
        return fail(r, n, "a NIC without key%s", " and name");
    if (!(c = zep_node_add_nic(node, key ? key : name, name ? name : key)))
        return zep_error_nomem(r->err, "topology");
    if ((rc = get_source(r, n, "source", &c->source)) < 0 || (rc = get_copy(r, n, "link", &c->link)) < 0 || (rc = get_copy(r, n, "guid", &c->guid)) < 0 || (rc = get_copy(r, n, "bond", &c->bond)) < 0 || (rc = get_copy(r, n, "bus", &c->bus)) < 0 ||
        (rc = get_int(r, n, "numa", 0, 65535, &c->numa)) < 0 || (rc = get_yes(r, n, "up", &c->up)) < 0 || (rc = get_yes(r, n, "rdma", &c->rdma)) < 0 ||
        (rc = get_int(r, n, "pcie_width", 1, 64, &c->pcie_width)) < 0)
        return rc;
    return (rc = get_fact(r, n, "bandwidth", ZEP_UNIT_BANDWIDTH, &c->bw)) < 0 ? rc : get_fact(r, n, "speed", ZEP_UNIT_FACTOR, &c->speed);
}

static int add_device(struct reader *r, yaml *n, struct zep_node *node)
{
    static const char *const known[] = {"key", "kind", "source", "uuid", "model", "mig", "cores", "bus", "numa", "pcie_width", "nic", "nic_source", "nic_distance", "more_nics", "nic_distances",
                                        "device_distances", "nvlinks", "memory", "bandwidth", "speed", NULL};
    const char *key = NULL;
    struct zep_device *d;
    int kind = ZEP_DEV_GPU, distance = ZEP_DIST_UNKNOWN, rc;

    if ((rc = want_map(r, n, "device")) < 0 || (rc = warn_unknown(r, n, known)) < 0 || (rc = get_text(r, n, "key", &key)) < 0 || (rc = get_choice(r, n, "kind", zep_dev_kind_names, &kind)) < 0 ||
        (rc = get_choice(r, n, "nic_distance", zep_distance_names, &distance)) < 0)
        return rc;
    if (!key)
        return fail(r, n, "a device without %s", "key");
    if (!(d = zep_node_add_device(node, key, (enum zep_dev_kind)kind)))
        return zep_error_nomem(r->err, "topology");
    d->nic_distance = (enum zep_distance)distance;
    if ((rc = get_source(r, n, "source", &d->source)) < 0 || (rc = get_copy(r, n, "uuid", &d->uuid)) < 0 || (rc = get_copy(r, n, "model", &d->model)) < 0 ||
        (rc = get_copy(r, n, "mig", &d->mig)) < 0 || (rc = get_copy(r, n, "cores", &d->cores)) < 0 || (rc = get_copy(r, n, "bus", &d->bus)) < 0 || (rc = get_int(r, n, "numa", 0, 65535, &d->numa)) < 0 ||
        (rc = get_int(r, n, "pcie_width", 1, 64, &d->pcie_width)) < 0 || (rc = get_size(r, n, "memory", &d->mem_bytes)) < 0)
        return rc;
    if (!node->n_nic && zep_yaml_get(n, "nic"))
        return fail(r, zep_yaml_get(n, "nic"), "device '%s' uses a NIC: the node has none", key);
    if ((rc = get_int(r, n, "nic", 0, node->n_nic - 1, &d->nic)) < 0 || (d->nic >= 0 && (rc = get_source(r, n, "nic_source", &d->nic_source)) < 0))
        return rc;
    return (rc = get_fact(r, n, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->bw)) < 0 ? rc : get_fact(r, n, "speed", ZEP_UNIT_FACTOR, &d->speed);
}

/* A list of n_want numbers or words, one for each NIC or device of the node. */
static int get_bytes(struct reader *r, yaml *map, const char *key, int n_want, const char *const *names, unsigned char **out)
{
    yaml *list = zep_yaml_get(map, key);
    const char *text;
    int rc;

    if (!list)
        return ZEP_OK;
    if ((rc = want_list(r, list, "one value for each")) < 0)
        return rc;
    if (list->n != n_want)
        return zep_yaml_error(r->doc, list, r->err, "%s: %d values: expected %d, one for each of the node", key, list->n, n_want);
    if (!(*out = zep_calloc((size_t)n_want + 1, 1)))
        return zep_error_nomem(r->err, "topology");
    for (int i = 0; i < n_want; i++) {
        int64_t v = 0;
        int choice = 0;

        if (names)
            rc = (rc = zep_yaml_string(r->doc, list->child[i], key, &text, r->err)) < 0 ? rc : to_choice(r, list->child[i], key, text, names, &choice);
        else
            rc = zep_yaml_int(r->doc, list->child[i], key, 0, 255, &v, r->err);
        if (rc < 0)
            return rc;
        (*out)[i] = (unsigned char)(names ? choice : v);
    }
    return ZEP_OK;
}

/* What needs all NICs and devices of the node to be known. */
static int read_relations(struct reader *r, yaml *n, struct zep_node *node, struct zep_device *d)
{
    yaml *more = zep_yaml_get(n, "more_nics");
    int rc;

    if (more && (rc = want_list(r, more, "NICs")) < 0)
        return rc;
    for (int i = 0; more && i < more->n; i++) {
        int64_t v;

        if ((rc = zep_yaml_int(r->doc, more->child[i], "more_nics", 0, node->n_nic - 1, &v, r->err)) < 0)
            return rc;
        if (zep_device_add_more(d, (int)v) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    if ((rc = get_bytes(r, n, "nic_distances", node->n_nic, zep_distance_names, &d->nic_dist)) < 0 ||
        (rc = get_bytes(r, n, "device_distances", node->n_device, zep_distance_names, &d->peer_dist)) < 0)
        return rc;
    return get_bytes(r, n, "nvlinks", node->n_device, NULL, &d->peer_nvlink);
}

static int read_node_body(struct reader *r, yaml *n, struct zep_node *node)
{
    yaml *list;
    int rc;

    if ((rc = get_copy(r, n, "state", &node->state)) < 0 || (rc = get_copy(r, n, "model", &node->model)) < 0 || (rc = get_copy(r, n, "resources", &node->resources)) < 0 || (rc = get_int(r, n, "sockets", 0, ZEP_MAX_SOCKETS, &node->sockets)) < 0 || (rc = get_int(r, n, "cores_per_socket", 0, ZEP_MAX_CORES, &node->cores_per_socket)) < 0 ||
        (rc = get_int(r, n, "threads_per_core", 0, ZEP_MAX_THREADS, &node->threads_per_core)) < 0 || (rc = get_int(r, n, "numa_domains", 0, ZEP_MAX_NUMA, &node->n_numa)) < 0 ||
        (rc = get_size(r, n, "memory", &node->mem_bytes)) < 0 || (rc = get_fact(r, n, "speed", ZEP_UNIT_FACTOR, &node->speed)) < 0)
        return rc;
    if (((node->sockets || node->cores_per_socket || node->threads_per_core || node->n_numa) && (rc = get_source(r, n, "cpu_source", &node->cpu_source)) < 0) ||
        (node->mem_bytes && (rc = get_source(r, n, "memory_source", &node->mem_source)) < 0) || ((node->state || node->model || node->resources) && (rc = get_source(r, n, "state_source", &node->state_source)) < 0))
        return rc;
    if ((list = zep_yaml_get(n, "nics"))) {
        if ((rc = want_list(r, list, "NICs")) < 0)
            return rc;
        for (int i = 0; i < list->n; i++)
            if ((rc = read_nic(r, list->child[i], node)) < 0)
                return rc;
    }
    if ((list = zep_yaml_get(n, "devices"))) {
        if ((rc = want_list(r, list, "devices")) < 0)
            return rc;
        for (int i = 0; i < list->n; i++)
            if ((rc = add_device(r, list->child[i], node)) < 0)
                return rc;
        for (int i = 0; i < list->n; i++)
            if ((rc = read_relations(r, list->child[i], node, &node->device[i])) < 0)
                return rc;
    }
    return ZEP_OK;
}

static int expand(struct reader *r, yaml *n, const char *what, struct zep_hostlist *out)
{
    const char *text;
    struct zep_error err;
    int rc;

    if ((rc = zep_yaml_string(r->doc, n, what, &text, r->err)) < 0)
        return rc;
    if (zep_hostlist_expand(text, out, &err) < 0)
        return zep_yaml_error(r->doc, n, r->err, "%s: %s", what, err.text);
    return ZEP_OK;
}

/* One entry may stand for many equal nodes: id and each alias are host lists of the same length. */
static int read_nodes(struct reader *r, yaml *n)
{
    static const char *const known[] = {"id", "aliases", "state", "model", "resources", "sockets", "cores_per_socket", "threads_per_core", "numa_domains", "memory", "cpu_source", "memory_source", "state_source",
                                        "speed", "nics", "devices", NULL};
    yaml *id, *aliases;
    struct zep_hostlist ids = {0};
    int first = r->topo->n_node, rc;

    if ((rc = want_map(r, n, "node")) < 0 || (rc = warn_unknown(r, n, known)) < 0)
        return rc;
    if (!(id = zep_yaml_get(n, "id")))
        return fail(r, n, "a node without %s", "id");
    if ((rc = expand(r, id, "id", &ids)) < 0)
        return rc;
    for (int i = 0; i < ids.n && rc == ZEP_OK; i++) {
        struct zep_node *node = zep_topo_add_node(r->topo, ids.name[i]);

        rc = node ? read_node_body(r, n, node) : zep_error_nomem(r->err, "topology");
    }
    if (rc == ZEP_OK && (aliases = zep_yaml_get(n, "aliases")) && (rc = want_list(r, aliases, "host lists")) == ZEP_OK)
        for (int k = 0; k < aliases->n && rc == ZEP_OK; k++) {
            struct zep_hostlist list = {0};

            if ((rc = expand(r, aliases->child[k], "alias", &list)) < 0)
                break;
            if (list.n != ids.n)
                rc = zep_yaml_error(r->doc, aliases->child[k], r->err, "%d aliases for %d nodes", list.n, ids.n);
            for (int i = 0; i < list.n && rc == ZEP_OK; i++)
                if (zep_node_add_alias(&r->topo->node[first + i], list.name[i]) < 0)
                    rc = zep_error_nomem(r->err, "topology");
            zep_hostlist_free(&list);
        }
    zep_hostlist_free(&ids);
    return rc;
}

/* "port: 0" for all nodes of a switch, or "ports: [0, 0, 1]", one for each; -1 unknown. */
static int read_port(struct reader *r, yaml *sw, int i, int n, int *out)
{
    yaml *all = zep_yaml_get(sw, "port"), *list = zep_yaml_get(sw, "ports");
    int64_t v = -1;
    int rc = ZEP_OK;

    if (list && (list->type != ZEP_YAML_SEQ || list->n != n))
        return zep_yaml_error(r->doc, list, r->err, "ports: expected a list of %d, one for each node of the switch", n);
    if (list || all)
        rc = zep_yaml_int(r->doc, list ? list->child[i] : all, "port", -1, 65535, &v, r->err);
    *out = (int)v;
    return rc;
}

static int read_switch_nodes(struct reader *r, yaml *sw, yaml *n, const struct zep_names *names, struct zep_switch *s)
{
    struct zep_hostlist list = {0};
    int rc = expand(r, n, "nodes", &list), port = -1;

    for (int i = 0; i < list.n && rc == ZEP_OK; i++) {
        int node = zep_names_find(names, list.name[i]);

        if (node < 0)
            rc = zep_yaml_error(r->doc, n, r->err, "switch '%s': node '%s' is not in the topology", s->name, list.name[i]);
        else if ((rc = read_port(r, sw, i, list.n, &port)) == ZEP_OK && zep_switch_add_port(s, node, port) < 0)
            rc = zep_error_nomem(r->err, "topology");
    }
    zep_hostlist_free(&list);
    return rc;
}

static int read_parents(struct reader *r, yaml *n, struct zep_fabric *f, const struct zep_switch_index *index, int self)
{
    yaml *list = zep_yaml_get(n, "parents");
    int rc;

    if (!list)
        return ZEP_OK;
    if ((rc = want_list(r, list, "switches")) < 0)
        return rc;
    for (int i = 0; i < list->n; i++) {
        const char *name;
        int up;

        if ((rc = zep_yaml_string(r->doc, list->child[i], "parent", &name, r->err)) < 0)
            return rc;
        if ((up = zep_switch_index_find(index, name)) < 0)
            return zep_yaml_error(r->doc, list->child[i], r->err, "switch '%s': parent '%s' is not in fabric '%s'", f->sw[self].name, name, f->name);
        if (zep_switch_add_parent(&f->sw[self], up) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    return ZEP_OK;
}

static int read_block_sizes(struct reader *r, yaml *n, struct zep_fabric *f)
{
    yaml *list = zep_yaml_get(n, "block_sizes");
    int64_t v;
    int rc;

    if (!list)
        return ZEP_OK;
    if ((rc = want_list(r, list, "sizes")) < 0)
        return rc;
    for (int i = 0; i < list->n; i++) {
        if ((rc = zep_yaml_int(r->doc, list->child[i], "block_sizes", 1, 1 << 24, &v, r->err)) < 0)
            return rc;
        if (zep_fabric_add_block_size(f, (int)v) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    return ZEP_OK;
}

static int read_fabric(struct reader *r, yaml *n, const struct zep_names *names)
{
    static const char *const known[] = {"name", "kind", "source", "block_sizes", "switches", NULL}, *const known_switch[] = {"name", "parents", "nodes", "port", "ports", "uplink_bandwidth", NULL};
    struct zep_switch_index *index;
    const char *name = NULL;
    int kind = ZEP_FABRIC_TREE, rc;
    struct zep_fabric *f;
    yaml *list, *nodes;

    if ((rc = want_map(r, n, "fabric")) < 0 || (rc = warn_unknown(r, n, known)) < 0 || (rc = get_text(r, n, "name", &name)) < 0 || (rc = get_choice(r, n, "kind", zep_fabric_kind_names, &kind)) < 0)
        return rc;
    if (!(f = zep_topo_add_fabric(r->topo, name ? name : "net", (enum zep_fabric_kind)kind)))
        return zep_error_nomem(r->err, "topology");
    if ((rc = get_source(r, n, "source", &f->source)) < 0 || (rc = read_block_sizes(r, n, f)) < 0)
        return rc;
    if (!(list = zep_yaml_get(n, "switches")))
        return ZEP_OK;
    if ((rc = want_list(r, list, "switches")) < 0)
        return rc;
    for (int i = 0; i < list->n; i++) {
        yaml *c = list->child[i];
        const char *sw = NULL;
        struct zep_switch *s;

        if ((rc = want_map(r, c, "switch")) < 0 || (rc = warn_unknown(r, c, known_switch)) < 0 || (rc = get_text(r, c, "name", &sw)) < 0)
            return rc;
        if (!sw)
            return fail(r, c, "a switch without %s", "name");
        if (!(s = zep_fabric_add_switch(f, sw)))
            return zep_error_nomem(r->err, "topology");
        if ((rc = get_fact(r, c, "uplink_bandwidth", ZEP_UNIT_BANDWIDTH, &s->uplink_bw)) < 0 || ((nodes = zep_yaml_get(c, "nodes")) && (rc = read_switch_nodes(r, c, nodes, names, s)) < 0))
            return rc;
    }
    if ((rc = zep_switch_index_new(f, &index, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", zep_yaml_name(r->doc));
    for (int i = 0; i < list->n && rc == ZEP_OK; i++)
        rc = read_parents(r, list->child[i], f, index, i);
    zep_switch_index_free(index);
    return rc;
}

static int read_conflicts(struct reader *r, yaml *list)
{
    static const char *const known[] = {"where", "what", "kept", "kept_source", "lost", "lost_source", NULL};
    int rc;

    if ((rc = want_list(r, list, "conflicts")) < 0)
        return rc;
    for (int i = 0; i < list->n; i++) {
        const char *where = "", *what = "", *kept = "", *lost = "";
        enum zep_source kept_source, lost_source;
        yaml *c = list->child[i];

        if ((rc = want_map(r, c, "conflict")) < 0 || (rc = warn_unknown(r, c, known)) < 0 || (rc = get_text(r, c, "where", &where)) < 0 || (rc = get_text(r, c, "what", &what)) < 0 ||
            (rc = get_text(r, c, "kept", &kept)) < 0 || (rc = get_text(r, c, "lost", &lost)) < 0 || (rc = get_source(r, c, "kept_source", &kept_source)) < 0 ||
            (rc = get_source(r, c, "lost_source", &lost_source)) < 0)
            return rc;
        if (zep_topo_add_conflict(r->topo, where, what, kept, kept_source, lost, lost_source) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    return ZEP_OK;
}

static int read_warnings(struct reader *r, yaml *list)
{
    const char *text;
    int rc;

    if ((rc = want_list(r, list, "texts")) < 0)
        return rc;
    for (int i = 0; i < list->n; i++) {
        if ((rc = zep_yaml_string(r->doc, list->child[i], "warning", &text, r->err)) < 0)
            return rc;
        if (zep_topo_warn(r->topo, "%s", text) < 0)
            return zep_error_nomem(r->err, "topology");
    }
    return ZEP_OK;
}

static int read_root(struct reader *r, yaml *root)
{
    static const char *const known[] = {"format", "name", "origin", "net_latency", "device_latency", "nodes", "fabrics", "conflicts", "warnings", NULL};
    const char *format = NULL;
    struct zep_names *names;
    yaml *list;
    int rc;

    if ((rc = want_map(r, root, "topology (format: zeppelin-topology/1.0)")) < 0 || (rc = get_text(r, root, "format", &format)) < 0)
        return rc;
    if (!format)
        return fail(r, root, "no %s: expected format: zeppelin-topology/1.0", "format");
    if ((rc = zep_format_check(format, "zeppelin-topology", 1, 0, NULL, r->err)) < 0)
        return zep_error_prefix(r->err, "%s:%d: format", zep_yaml_name(r->doc), zep_yaml_get(root, "format")->line);
    /* warnings that the file brings come first, so that reading and writing again changes nothing */
    if ((list = zep_yaml_get(root, "warnings")) && (rc = read_warnings(r, list)) < 0)
        return rc;
    if ((rc = warn_unknown(r, root, known)) < 0 || (rc = get_copy(r, root, "name", &r->topo->name)) < 0 || (rc = get_copy(r, root, "origin", &r->topo->origin)) < 0 ||
        (rc = get_fact(r, root, "net_latency", ZEP_UNIT_TIME, &r->topo->net_latency_s)) < 0 || (rc = get_fact(r, root, "device_latency", ZEP_UNIT_TIME, &r->topo->dev_latency_s)) < 0)
        return rc;
    if ((list = zep_yaml_get(root, "conflicts")) && (rc = read_conflicts(r, list)) < 0)
        return rc;
    if (!(list = zep_yaml_get(root, "nodes")))
        return fail(r, root, "no %s", "nodes");
    if ((rc = want_list(r, list, "nodes")) < 0)
        return rc;
    for (int i = 0; i < list->n; i++)
        if ((rc = read_nodes(r, list->child[i])) < 0)
            return rc;
    if (!(list = zep_yaml_get(root, "fabrics")))
        return ZEP_OK;
    if ((rc = want_list(r, list, "fabrics")) < 0)
        return rc;
    if ((rc = zep_names_new(r->topo, &names, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", zep_yaml_name(r->doc));
    for (int i = 0; i < list->n && rc == ZEP_OK; i++)
        rc = read_fabric(r, list->child[i], names);
    zep_names_free(names);
    return rc;
}

static int from_doc(struct zep_yaml *doc, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {doc, zep_topo_new("", ""), err};
    int rc = r.topo ? read_root(&r, zep_yaml_root(doc)) : zep_error_nomem(err, "topology");

    if (rc == ZEP_OK && (rc = zep_topo_validate(r.topo, err)) < 0)
        zep_error_prefix(err, "%s", zep_yaml_name(doc));
    if (rc < 0)
        zep_topo_free(r.topo);
    else
        *topo_out = r.topo;
    return rc;
}

int zep_topo_load(const char *path, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_yaml *doc = NULL;
    int rc = zep_yaml_load_file(path, &doc, err);

    if (rc == ZEP_OK)
        rc = from_doc(doc, topo_out, err);
    zep_yaml_free(doc);
    return rc;
}

int zep_topo_parse(const char *name, const char *text, size_t len, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_yaml *doc = NULL;
    int rc = zep_yaml_load(name, text, len, &doc, err);

    if (rc == ZEP_OK)
        rc = from_doc(doc, topo_out, err);
    zep_yaml_free(doc);
    return rc;
}
