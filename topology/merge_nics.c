/* NICs of a node that two sources know: by PCI address, GUID or name; or counted only. */
#include "config.h"
#include "topology/merge_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static int all_ordinal_nics(const struct zep_node *n)
{
    for (int i = 0; i < n->n_nic; i++)
        if (!mg_is_ordinal(n->nic[i].key) && !mg_is_ordinal(n->nic[i].name)) /* "HCA-1": an adapter that does not say its name */
            return 0;
    return n->n_nic > 0;
}

/* The port of an adapter: what is behind the slash of its key. */
static const char *port_of(const struct zep_nic *c)
{
    const char *slash = strrchr(c->key, '/');

    return slash ? slash + 1 : "1";
}

/* By PCI address; by the adapter's GUID; by name only where not both have an address. taken: NICs of n that are another's already. */
static int find_nic(const struct zep_node *n, const struct zep_nic *c, const unsigned char *taken)
{
    for (int i = 0; i < n->n_nic; i++)
        if (!taken[i] && zep_same_pci(n->nic[i].key, c->key))
            return i;
    for (int i = 0; i < n->n_nic; i++)
        if (!taken[i] && n->nic[i].guid && c->guid && !strcmp(n->nic[i].guid, c->guid) && !strcmp(port_of(&n->nic[i]), port_of(c)))
            return i;
    for (int i = 0; i < n->n_nic; i++)
        if (!taken[i] && !strcmp(n->nic[i].name, c->name) && !(zep_is_pci(n->nic[i].key) && zep_is_pci(c->key)) && !(n->nic[i].guid && c->guid))
            return i;
    return -1;
}

enum { NIC_LINK, NIC_BOND, NIC_NUMA, NIC_UP, NIC_RDMA, NIC_WIDTH, NIC_BUS, NIC_GUID };

static int merge_nic(struct merge *m, const char *node, struct zep_nic *d, const struct zep_nic *s)
{
    unsigned took = 0;
    char where[400];
    int rc;

    snprintf(where, sizeof where, "node %.200s, NIC %.100s", node, d->name);
    if (!strchr(d->key, ':') && strchr(s->key, ':') && (rc = mg_copy_text(m, &d->key, s->key)) < 0) /* a PCI address says more than a name */
        return rc;
    TOOK(NIC_LINK, d->link, s->link);
    TOOK(NIC_BOND, d->bond, s->bond);
    TOOK(NIC_NUMA, d->numa >= 0, s->numa >= 0);
    TOOK(NIC_UP, d->up >= 0, s->up >= 0);
    TOOK(NIC_RDMA, d->rdma >= 0, s->rdma >= 0);
    TOOK(NIC_WIDTH, d->pcie_width, s->pcie_width);
    TOOK(NIC_BUS, d->bus, s->bus);
    TOOK(NIC_GUID, d->guid, s->guid);
    if ((rc = mg_text_fact(m, where, "link", &d->link, s->link, FIELD_SRC(NIC_LINK))) < 0 || (rc = mg_text_fact(m, where, "bond", &d->bond, s->bond, FIELD_SRC(NIC_BOND))) < 0 ||
        (rc = mg_int_fact(m, where, "NUMA domain", -1, &d->numa, s->numa, FIELD_SRC(NIC_NUMA))) < 0 || (rc = mg_int_fact(m, where, "up", -1, &d->up, s->up, FIELD_SRC(NIC_UP))) < 0 ||
        (rc = mg_int_fact(m, where, "RDMA", -1, &d->rdma, s->rdma, FIELD_SRC(NIC_RDMA))) < 0 || (rc = mg_int_fact(m, where, "PCIe width", 0, &d->pcie_width, s->pcie_width, FIELD_SRC(NIC_WIDTH))) < 0 ||
        (rc = mg_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->bw, &s->bw)) < 0 || (rc = mg_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->speed, &s->speed)) < 0 || (took & 1u << NIC_BUS && (rc = mg_copy_text(m, &d->bus, s->bus)) < 0) ||
        (took & 1u << NIC_GUID && (rc = mg_copy_text(m, &d->guid, s->guid)) < 0))
        return rc;
    mg_pin(d->field_source, (int)sizeof d->field_source, d->source, s->field_source, s->source, took);
    d->source = mg_stronger(d->source, s->source);
    return ZEP_OK;
}

static int add_nic(struct merge *m, struct zep_node *d, const struct zep_nic *s)
{
    struct zep_nic *c = zep_node_add_nic(d, s->key, s->name);

    if (!c)
        return mg_no_memory(m);
    return merge_nic(m, d->id, c, s);
}

/* Ports of dst's fabrics that named a NIC which is no longer there. */
static void forget_ports(struct zep_topo *t, int node)
{
    for (int f = 0; f < t->n_fabric; f++)
        for (int s = 0; s < t->fabric[f].n_switch; s++) {
            struct zep_switch *sw = &t->fabric[f].sw[s];

            for (int k = 0; sw->port && k < sw->n_node; k++)
                if (sw->node[k] == node)
                    sw->port[k] = -1;
        }
}

static void drop_nics(struct merge *m, int node)
{
    struct zep_node *d = &m->dst->node[node];

    for (int i = 0; i < d->n_nic; i++)
        zep_nic_clear(&d->nic[i]);
    d->n_nic = 0;
    for (int i = 0; i < d->n_device; i++) {
        d->device[i].nic = -1;
        d->device[i].n_more = 0;
        d->device[i].nic_distance = ZEP_DIST_UNKNOWN;
        free(d->device[i].nic_dist);
        d->device[i].nic_dist = NULL;
    }
    forget_ports(m->dst, node);
}

/* What the NICs of a counted list have in common. */
static void common_nic(const struct zep_node *n, struct zep_nic *out)
{
    out->bw = n->nic[0].bw;
    out->speed = n->nic[0].speed;
    for (int i = 1; i < n->n_nic; i++) {
        mg_keep_common(&out->bw, &n->nic[i].bw);
        mg_keep_common(&out->speed, &n->nic[i].speed);
    }
}

/* map_out[i]: place of src's NIC i, -1 none. */
int mg_nics(struct merge *m, int node, const struct zep_node *s, int *map)
{
    struct zep_node *d = &m->dst->node[node];
    int rc = ZEP_OK, counted = all_ordinal_nics(d), counts = all_ordinal_nics(s), had;
    unsigned char *taken;

    for (int i = 0; i < s->n_nic; i++)
        map[i] = -1;
    if (!s->n_nic)
        return ZEP_OK;
    if (counted != counts && d->n_nic) { /* one only counts: the other's list stays, and what all of the counted ones have holds for each */
        struct zep_nic common = {.name = (char *)"", .key = (char *)"", .numa = -1, .up = -1, .rdma = -1};

        common_nic(counts ? s : d, &common);
        if ((rc = mg_note_count(m, d, "number of NICs", counted, d->n_nic, d->nic[0].source, s->n_nic, s->nic[0].source)) < 0)
            return rc;
        if (counted) {
            drop_nics(m, node);
            for (int i = 0; i < s->n_nic && rc == ZEP_OK; i++) {
                rc = add_nic(m, d, &s->nic[i]);
                map[i] = i;
            }
        }
        for (int i = 0; i < d->n_nic && rc == ZEP_OK; i++) {
            char where[400];

            snprintf(where, sizeof where, "node %.200s, NIC %.100s", d->id, d->nic[i].name);
            if ((rc = mg_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->nic[i].bw, &common.bw)) == ZEP_OK)
                rc = mg_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->nic[i].speed, &common.speed);
        }
        return rc;
    }
    if (!(taken = zep_calloc((size_t)d->n_nic + (size_t)s->n_nic + 1, 1)))
        return mg_no_memory(m);
    had = d->n_nic;
    for (int i = 0; i < s->n_nic; i++) {
        map[i] = find_nic(d, &s->nic[i], taken);
        if (map[i] >= 0) {
            rc = merge_nic(m, d->id, &d->nic[map[i]], &s->nic[i]);
        } else {
            char where[400];

            rc = add_nic(m, d, &s->nic[i]);
            map[i] = d->n_nic - 1;
            snprintf(where, sizeof where, "node %.200s, NIC %.100s", d->id, s->nic[i].name);
            if (rc == ZEP_OK && had)
                rc = mg_conflict(m, where, "presence", 1, "missing", d->nic[0].source, "seen", s->nic[i].source);
        }
        if (rc < 0)
            break;
        taken[map[i]] = 1;
    }
    free(taken);
    return rc;
}
