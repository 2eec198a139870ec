/* Devices of a node that two sources know: by PCI address or UUID; or counted only. */
#include "config.h"
#include "topology/merge_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"

static int all_ordinal_devices(const struct zep_node *n)
{
    for (int i = 0; i < n->n_device; i++)
        if (!mg_is_ordinal(n->device[i].key))
            return 0;
    return n->n_device > 0;
}

static int find_device(const struct zep_node *n, const struct zep_device *s)
{
    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];

        if (zep_same_pci(d->key, s->key) || (d->uuid && s->uuid && !strcmp(d->uuid, s->uuid)) || (d->uuid && !strcmp(d->uuid, s->key)) || (s->uuid && !strcmp(s->uuid, d->key)))
            return i;
    }
    return -1;
}

static int merge_nic_choice(struct zep_device *d, const struct zep_device *s, const int *nic_map)
{
    int n_more = 0;

    if (s->nic < 0 || nic_map[s->nic] < 0 || (d->nic >= 0 && d->nic_source >= s->nic_source))
        return ZEP_OK;
    d->nic = nic_map[s->nic];
    d->nic_distance = s->nic_distance;
    d->nic_source = s->nic_source;
    d->n_more = 0;
    for (int i = 0; i < s->n_more; i++)
        if (nic_map[s->more[i]] >= 0 && n_more++ >= 0 && zep_device_add_more(d, nic_map[s->more[i]]) < 0)
            return ZEP_ENOMEM;
    return ZEP_OK;
}

enum { DEV_UUID, DEV_MIG, DEV_CORES, DEV_NUMA, DEV_WIDTH, DEV_MEM, DEV_MODEL, DEV_BUS };

static int merge_device(struct merge *m, const char *node, struct zep_device *d, const struct zep_device *s, const int *nic_map)
{
    unsigned took = 0;
    char where[400];
    int rc;

    snprintf(where, sizeof where, "node %.200s, device %.100s", node, d->key);
    if ((mg_is_ordinal(d->key) || !strchr(d->key, ':')) && strchr(s->key, ':') && (rc = mg_copy_text(m, &d->key, s->key)) < 0)
        return rc;
    if (d->kind == ZEP_DEV_NONE)
        d->kind = s->kind;
    TOOK(DEV_UUID, d->uuid, s->uuid);
    TOOK(DEV_MIG, d->mig, s->mig);
    TOOK(DEV_CORES, d->cores, s->cores);
    TOOK(DEV_NUMA, d->numa >= 0, s->numa >= 0);
    TOOK(DEV_WIDTH, d->pcie_width, s->pcie_width);
    TOOK(DEV_MEM, d->mem_bytes, s->mem_bytes);
    TOOK(DEV_MODEL, d->model, s->model); /* names of models differ in style everywhere: not worth a word */
    TOOK(DEV_BUS, d->bus, s->bus);
    if ((rc = mg_text_fact(m, where, "UUID", &d->uuid, s->uuid, FIELD_SRC(DEV_UUID))) < 0 || (rc = mg_text_fact(m, where, "MIG profile", &d->mig, s->mig, FIELD_SRC(DEV_MIG))) < 0 ||
        (rc = mg_text_fact(m, where, "cores", &d->cores, s->cores, FIELD_SRC(DEV_CORES))) < 0 || (rc = mg_int_fact(m, where, "NUMA domain", -1, &d->numa, s->numa, FIELD_SRC(DEV_NUMA))) < 0 ||
        (rc = mg_int_fact(m, where, "PCIe width", 0, &d->pcie_width, s->pcie_width, FIELD_SRC(DEV_WIDTH))) < 0 ||
        (rc = mg_size(m, where, "memory", &d->mem_bytes, mg_of_field(d->field_source, DEV_MEM, d->source), s->mem_bytes, mg_of_field(s->field_source, DEV_MEM, s->source))) < 0 ||
        (rc = mg_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->bw, &s->bw)) < 0 || (rc = mg_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->speed, &s->speed)) < 0 || (took & 1u << DEV_MODEL && (rc = mg_copy_text(m, &d->model, s->model)) < 0) || (took & 1u << DEV_BUS && (rc = mg_copy_text(m, &d->bus, s->bus)) < 0))
        return rc;
    if (merge_nic_choice(d, s, nic_map) < 0)
        return mg_no_memory(m);
    mg_pin(d->field_source, (int)sizeof d->field_source, d->source, s->field_source, s->source, took);
    d->source = mg_stronger(d->source, s->source);
    return ZEP_OK;
}

/* What all devices of a counted list have in common holds for those that are identified. */
static int spread_common(struct merge *m, struct zep_node *d, const struct zep_node *s)
{
    const struct zep_device *first = &s->device[0];
    int same_model = first->model != NULL, same_cores = first->cores != NULL, rc = ZEP_OK;
    struct zep_fact bw = first->bw, speed = first->speed;
    int64_t mem = first->mem_bytes;

    for (int i = 1; i < s->n_device; i++) {
        same_model &= first->model && s->device[i].model && !strcmp(first->model, s->device[i].model);
        same_cores &= first->cores && s->device[i].cores && !strcmp(first->cores, s->device[i].cores);
    }
    for (int i = 1; i < s->n_device; i++) {
        mg_keep_common(&bw, &s->device[i].bw);
        mg_keep_common(&speed, &s->device[i].speed);
        mem = s->device[i].mem_bytes == mem ? mem : 0;
    }
    for (int i = 0; i < d->n_device && rc == ZEP_OK; i++) {
        struct zep_device *x = &d->device[i];
        char where[400];

        snprintf(where, sizeof where, "node %.200s, device %.100s", d->id, x->key);
        if (same_model && !x->model)
            rc = mg_copy_text(m, &x->model, first->model);
        if (rc == ZEP_OK && same_cores && !x->cores)
            rc = mg_copy_text(m, &x->cores, first->cores);
        if (rc == ZEP_OK && (rc = mg_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &x->bw, &bw)) == ZEP_OK && (rc = mg_fact(m, where, "speed", ZEP_UNIT_FACTOR, &x->speed, &speed)) == ZEP_OK)
            rc = mg_size(m, where, "memory", &x->mem_bytes, mg_of_field(x->field_source, DEV_MEM, x->source), mem, first->source);
    }
    return rc;
}

/* Relations that src says of pairs, for devices that had none. */
static int merge_pairs(struct merge *m, struct zep_node *d, const struct zep_node *s, const int *dev_map, const int *nic_map)
{
    for (int i = 0; i < s->n_device; i++) {
        const struct zep_device *x = &s->device[i];
        const struct zep_device *y = dev_map[i] >= 0 ? &d->device[dev_map[i]] : NULL;
        int need_nic = y && x->nic_dist && !y->nic_dist, need_peer = y && (x->peer_dist || x->peer_nvlink) && !y->peer_nvlink && !y->peer_dist;

        for (int c = 0; need_nic && c < s->n_nic; c++)
            if (nic_map[c] >= 0 && zep_node_set_nic_distance(d, dev_map[i], nic_map[c], (enum zep_distance)x->nic_dist[c]) < 0)
                return mg_no_memory(m);
        for (int k = 0; need_peer && k < s->n_device; k++)
            if (dev_map[k] >= 0 && zep_node_set_peer(d, dev_map[i], dev_map[k], x->peer_dist ? (enum zep_distance)x->peer_dist[k] : ZEP_DIST_UNKNOWN, x->peer_nvlink ? x->peer_nvlink[k] : 0) < 0)
                return mg_no_memory(m);
    }
    return ZEP_OK;
}

/* nvidia-smi numbers GPUs by PCI address: what its text says of GPU i is of the i-th address. Only where it was read on the node, says relations, and the numbers are equal. */
static int merge_by_order(struct merge *m, struct zep_node *d, const struct zep_node *s, const int *nic_map)
{
    int *map, rc = ZEP_OK, says = 0;

    for (int i = 0; i < s->n_device; i++)
        says |= s->device[i].source == ZEP_SRC_NODE && (s->device[i].nic_dist || s->device[i].peer_nvlink);
    for (int i = 0; i < d->n_device; i++)
        says &= zep_is_pci(d->device[i].key);
    if (!says || s->n_device != d->n_device)
        return ZEP_OK;
    if (!(map = zep_calloc((size_t)s->n_device, sizeof *map)))
        return mg_no_memory(m);
    for (int i = 0; i < d->n_device; i++) {
        int before = 0;

        for (int k = 0; k < d->n_device; k++)
            before += strcasecmp(d->device[k].key, d->device[i].key) < 0;
        map[before] = i;
    }
    for (int i = 0; i < s->n_device && rc == ZEP_OK; i++) {
        if (d->device[map[i]].numa < 0)
            d->device[map[i]].numa = s->device[i].numa;
        if (!d->device[map[i]].cores)
            rc = mg_copy_text(m, &d->device[map[i]].cores, s->device[i].cores);
    }
    if (rc == ZEP_OK)
        rc = merge_pairs(m, d, s, map, nic_map);
    if (rc == ZEP_OK && zep_topo_warn(m->dst, "GPUs that are known by number only are taken to be numbered by PCI address, as nvidia-smi does") < 0)
        rc = mg_no_memory(m);
    free(map);
    return rc;
}

/* Two sources that only count: how many there are, and of which model, is as the stronger one says. */
static int merge_counts(struct merge *m, struct zep_node *d, const struct zep_node *s)
{
    int wins = s->device[0].source > d->device[0].source, rc;
    char where[300];

    if ((rc = mg_note_count(m, d, "number of devices", wins, d->n_device, d->device[0].source, s->n_device, s->device[0].source)) < 0)
        return rc;
    while (wins && d->n_device > s->n_device)
        zep_device_clear(&d->device[--d->n_device]);
    snprintf(where, sizeof where, "node %.250s", d->id);
    for (int i = 0; i < d->n_device && i < s->n_device; i++) {
        const char *a = d->device[i].model, *b = s->device[i].model;

        if (a && b && !zep_same_model(a, b)) /* one word a node */
            return mg_conflict(m, where, "model of devices", wins, a, d->device[0].source, b, s->device[0].source);
    }
    return ZEP_OK;
}

int mg_devices(struct merge *m, struct zep_node *d, const struct zep_node *s, const int *nic_map)
{
    int counted = all_ordinal_devices(d), counts = all_ordinal_devices(s), had, rc = ZEP_OK;
    int *map;

    if (!s->n_device)
        return ZEP_OK;
    if (counted != counts && d->n_device) {
        if ((rc = mg_note_count(m, d, "number of devices", counted, d->n_device, d->device[0].source, s->n_device, s->device[0].source)) < 0)
            return rc;
        if (counts)
            return (rc = spread_common(m, d, s)) < 0 ? rc : merge_by_order(m, d, s, nic_map);
        struct zep_node old = {.n_device = d->n_device, .device = d->device, .n_nic = d->n_nic};
        int *same = zep_calloc((size_t)d->n_nic + 1, sizeof *same);

        if (!same)
            return mg_no_memory(m);
        for (int i = 0; i < d->n_nic; i++)
            same[i] = i;
        d->n_device = 0;
        d->device = NULL;
        rc = mg_devices(m, d, s, nic_map);
        if (rc == ZEP_OK)
            rc = spread_common(m, d, &old);
        if (rc == ZEP_OK)
            rc = merge_by_order(m, d, &old, same);
        free(same);
        for (int i = 0; i < old.n_device; i++)
            zep_device_clear(&old.device[i]);
        free(old.device);
        return rc;
    }
    had = d->n_device;
    if (counted && counts && (rc = merge_counts(m, d, s)) < 0)
        return rc;
    if (!(map = zep_calloc((size_t)s->n_device, sizeof *map)))
        return mg_no_memory(m);
    for (int i = 0; i < s->n_device && rc == ZEP_OK; i++) {
        map[i] = find_device(d, &s->device[i]);
        if (map[i] < 0 && had && counted && counts && s->device[0].source <= d->device[0].source)
            continue; /* there are fewer, as the stronger source says */
        if (map[i] < 0) {
            char where[400];

            if (!zep_node_add_device(d, s->device[i].key, s->device[i].kind)) {
                rc = mg_no_memory(m);
                break;
            }
            map[i] = d->n_device - 1;
            snprintf(where, sizeof where, "node %.200s, device %.100s", d->id, s->device[i].key);
            if (had && !counts)
                rc = mg_conflict(m, where, "presence", 1, "missing", d->device[0].source, "seen", s->device[i].source);
        }
        if (rc == ZEP_OK)
            rc = merge_device(m, d->id, &d->device[map[i]], &s->device[i], nic_map);
    }
    if (rc == ZEP_OK)
        rc = merge_pairs(m, d, s, map, nic_map);
    free(map);
    return rc;
}
