/* Clusters from a description. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/yaml.h"

struct desc {
    int64_t nodes, dev, nic, leaf, mem;
    double nvlink, net, lat, netlat, uplink;
    enum zep_dev_kind kind;
    const char *model;
    enum zep_source source; /* of what was said */
    unsigned said;          /* bit by key */
};

enum { KEY_NODES, KEY_DEV, KEY_NIC, KEY_NVLINK, KEY_NET, KEY_LEAF, KEY_KIND, KEY_MEM, KEY_LAT, KEY_NETLAT, KEY_UPLINK, N_KEY };
static const char *const key_names[] = {"nodes", "dev", "nic", "nvlink", "net", "leaf", "kind", "mem", "lat", "netlat", "uplink", NULL};

static int parse_value(struct desc *d, int key, const char *value, struct zep_error *err)
{
    switch (key) {
    case KEY_NODES:
        return zep_parse_int(value, 1, 65536, &d->nodes, err);
    case KEY_DEV:
        return zep_parse_int(value, 1, 4096, &d->dev, err);
    case KEY_NIC:
        return zep_parse_int(value, 0, 4096, &d->nic, err);
    case KEY_LEAF:
        return zep_parse_int(value, 1, 65536, &d->leaf, err);
    case KEY_NVLINK:
        return zep_parse_bandwidth(value, &d->nvlink, err);
    case KEY_NET:
        return zep_parse_bandwidth(value, &d->net, err);
    case KEY_MEM:
        return zep_parse_size(value, &d->mem, err);
    case KEY_UPLINK:
        return zep_parse_bandwidth(value, &d->uplink, err);
    case KEY_LAT:
        return zep_parse_time(value, &d->lat, err);
    case KEY_NETLAT:
        return zep_parse_time(value, &d->netlat, err);
    default:
        if (strcmp(value, "gpu") && strcmp(value, "cpu"))
            return zep_error_set(err, ZEP_EINVAL, "'%s': expected gpu or cpu", value);
        d->kind = value[0] == 'g' ? ZEP_DEV_GPU : ZEP_DEV_CPU;
        return ZEP_OK;
    }
}

static int parse_word(struct desc *d, char *word, struct zep_error *err)
{
    char *value = strchr(word, ':');
    const char *near;
    int key = 0;

    if (!value || !value[1])
        return zep_error_set(err, ZEP_EINVAL, "'%s': expected KEY:VALUE, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'", word);
    *value++ = '\0';
    while (key < N_KEY && strcmp(key_names[key], word))
        key++;
    if (key == N_KEY) {
        near = zep_nearest(word, key_names);
        return near ? zep_error_set(err, ZEP_EINVAL, "unknown key '%s' (did you mean '%s'?)", word, near)
                    : zep_error_set(err, ZEP_EINVAL, "unknown key '%s': expected nodes, dev, nic, nvlink, net, leaf, kind, mem, lat, netlat or uplink", word);
    }
    if (d->said & 1u << key)
        return zep_error_set(err, ZEP_EINVAL, "'%s' is given twice", word);
    d->said |= 1u << key;
    return parse_value(d, key, value, err) < 0 ? zep_error_prefix(err, "%s", word) : ZEP_OK;
}

static struct zep_fact fact(const struct desc *d, int key, double value)
{
    if (value <= 0)
        return (struct zep_fact){0};
    return (struct zep_fact){.value = value, .source = d->said & 1u << key ? d->source : ZEP_SRC_DEFAULT};
}

static int add_node(struct zep_topo *topo, const struct desc *d, int index)
{
    char name[64];
    struct zep_node *n;

    snprintf(name, sizeof name, "node%d", index);
    if (!(n = zep_topo_add_node(topo, name)))
        return ZEP_ENOMEM;
    for (int i = 0; i < d->nic; i++) {
        struct zep_nic *c;

        snprintf(name, sizeof name, "nic%d", i);
        if (!(c = zep_node_add_nic(n, name, name)))
            return ZEP_ENOMEM;
        c->up = 1;
        c->source = d->source;
        c->bw = fact(d, KEY_NET, d->net);
    }
    for (int i = 0; i < d->dev; i++) {
        struct zep_device *g;

        snprintf(name, sizeof name, "%s%d", d->kind == ZEP_DEV_CPU ? "cpu" : "gpu", i);
        if (!(g = zep_node_add_device(n, name, d->kind)))
            return ZEP_ENOMEM;
        if (d->model && !(g->model = strdup(d->model)))
            return ZEP_ENOMEM;
        g->nic = d->nic ? (int)(i * d->nic / d->dev) : -1;
        g->nic_distance = d->nic ? ZEP_DIST_SWITCH : ZEP_DIST_UNKNOWN;
        g->mem_bytes = d->mem;
        g->source = g->nic_source = d->source;
        g->bw = fact(d, KEY_NVLINK, d->nvlink);
    }
    return ZEP_OK;
}

/* Leaves of `leaf` nodes each, and one switch above where there are several. */
static int add_tree(struct zep_topo *topo, const struct desc *d)
{
    struct zep_fabric *f = zep_topo_add_fabric(topo, "net", ZEP_FABRIC_TREE);
    int64_t per = d->leaf ? d->leaf : d->nodes, n_leaf = (d->nodes + per - 1) / per;
    char name[64];

    if (!f)
        return ZEP_ENOMEM;
    f->source = d->source;
    for (int64_t i = 0; i < n_leaf; i++) {
        struct zep_switch *s;

        snprintf(name, sizeof name, "leaf%d", (int)i);
        if (!(s = zep_fabric_add_switch(f, name)))
            return ZEP_ENOMEM;
        for (int64_t k = i * per; k < (i + 1) * per && k < d->nodes; k++)
            if (zep_switch_add_node(s, (int)k) < 0)
                return ZEP_ENOMEM;
        s->uplink_bw = n_leaf > 1 ? fact(d, KEY_UPLINK, d->uplink) : (struct zep_fact){0};
        if (n_leaf > 1 && zep_switch_add_parent(s, (int)n_leaf) < 0)
            return ZEP_ENOMEM;
    }
    return n_leaf > 1 && !zep_fabric_add_switch(f, "spine0") ? ZEP_ENOMEM : ZEP_OK;
}

static int make(const struct desc *d, const char *name, const char *origin, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_topo *topo = zep_topo_new(name, origin);
    int rc = topo ? ZEP_OK : ZEP_ENOMEM;

    for (int64_t i = 0; i < d->nodes && rc == ZEP_OK; i++)
        rc = add_node(topo, d, (int)i);
    if (rc == ZEP_OK)
        rc = add_tree(topo, d);
    if (rc < 0) {
        zep_error_nomem(err, "topology");
    } else {
        topo->dev_latency_s = fact(d, KEY_LAT, d->lat);
        topo->net_latency_s = fact(d, KEY_NETLAT, d->netlat);
        rc = zep_topo_validate(topo, err);
    }
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}

int zep_topo_synthetic(const char *text, struct zep_topo **topo_out, struct zep_error *err)
{
    struct desc d = {.nodes = 1, .dev = 1, .nic = 1, .nvlink = 200e9, .net = 25e9, .lat = 5e-6, .netlat = 10e-6, .kind = ZEP_DEV_GPU, .source = ZEP_SRC_USER};
    char origin[512], *copy = strdup(text), *save = NULL;
    int rc = ZEP_OK;

    if (!copy)
        return zep_error_nomem(err, "topology");
    for (char *word = strtok_r(copy, " \t\n,", &save); word && rc == ZEP_OK; word = strtok_r(NULL, " \t\n,", &save))
        rc = parse_word(&d, word, err);
    if (rc == ZEP_OK && !(d.said & 1u << KEY_NODES))
        rc = zep_error_set(err, ZEP_EINVAL, "'%.200s': expected at least nodes:N, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'", text);
    free(copy);
    snprintf(origin, sizeof origin, "synthetic %.480s", text);
    return rc == ZEP_OK ? make(&d, "synthetic", origin, topo_out, err) : rc;
}
