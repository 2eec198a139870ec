/* Several sources, one topology. Nodes match on any name, devices and NICs on what identifies them; where two sources disagree both facts are kept and the stronger source holds. */
#include "config.h"
#include "topology/source.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/units.h"
#include "topology/topo_internal.h"

struct merge {
    struct zep_topo *dst;
    const struct zep_topo *src;
    struct zep_error *err;
    int *node_map;  /* [src->n_node] node of dst */
    int **nic_map;  /* [src->n_node] NICs of src's node in dst's, NULL: the same */
};

static int no_memory(struct merge *m)
{
    return zep_error_nomem(m->err, "merging topologies");
}

/* --- nodes --- */

static int find_node(struct merge *m, const struct zep_names *names, const struct zep_shorts *shorts, const struct zep_node *n, int *out)
{
    int at = zep_names_find(names, n->id);
    const char *by = n->id;

    for (int k = 0; k < n->n_alias; k++) {
        int other = zep_names_find(names, n->alias[k]);

        if (at >= 0 && other >= 0 && other != at)
            return zep_error_set(m->err, ZEP_EINVAL, "node '%s' (%.200s) is two nodes of %.200s: '%s' by '%s' and '%s' by '%s'", n->id, m->src->origin, m->dst->origin, m->dst->node[at].id, by, m->dst->node[other].id,
                                 n->alias[k]);
        if (at < 0 && other >= 0) {
            at = other;
            by = n->alias[k];
        }
    }
    if (at < 0)
        at = zep_shorts_find(shorts, names, n->id);
    *out = at;
    return ZEP_OK;
}

/* Which node of dst each of src's is; those that are new are added, without their content. */
static int map_nodes(struct merge *m)
{
    struct zep_names *names = NULL;
    struct zep_shorts *shorts = NULL;
    int rc, n_new = 0, first = -1, had = m->dst->n_node;
    unsigned char *taken = NULL;

    if ((rc = zep_names_new(m->dst, &names, m->err)) < 0)
        return rc;
    if (zep_shorts_new(m->dst, &shorts, m->err) < 0 || !(taken = zep_calloc((size_t)had + 1, 1)))
        rc = no_memory(m);
    for (int i = 0; i < m->src->n_node && rc == ZEP_OK; i++) {
        const struct zep_node *s = &m->src->node[i];

        if ((rc = find_node(m, names, shorts, s, &m->node_map[i])) < 0)
            break;
        if (m->node_map[i] >= 0 && taken[m->node_map[i]]++)
            rc = zep_error_set(m->err, ZEP_EINVAL, "two nodes of %.200s are node '%s' of %.200s: '%s' is the second", m->src->origin, m->dst->node[m->node_map[i]].id, m->dst->origin, s->id);
    }
    for (int i = 0; i < m->src->n_node && rc == ZEP_OK; i++) {
        if (m->node_map[i] >= 0)
            continue;
        if (!zep_topo_add_node(m->dst, m->src->node[i].id))
            rc = no_memory(m);
        m->node_map[i] = m->dst->n_node - 1;
        if (n_new++ == 0)
            first = i;
    }
    if (rc == ZEP_OK && n_new && had && zep_topo_warn(m->dst, "%d node%s of %.200s, '%s' first, %s not among the %d of %.200s", n_new, n_new == 1 ? "" : "s", m->src->origin, m->src->node[first].id, n_new == 1 ? "is" : "are", had,
                                                      m->dst->origin) < 0)
        rc = no_memory(m);
    zep_names_free(names);
    zep_shorts_free(shorts);
    free(taken);
    return rc;
}

/* --- facts --- */

static int copy_text(struct merge *m, char **dst, const char *src)
{
    char *copy;

    if (!src || (*dst && !strcmp(*dst, src)))
        return ZEP_OK;
    if (!(copy = strdup(src)))
        return no_memory(m);
    free(*dst);
    *dst = copy;
    return ZEP_OK;
}

static int conflict(struct merge *m, const char *where, const char *what, int src_wins, const char *d, enum zep_source ds, const char *s, enum zep_source ss)
{
    int rc = src_wins ? zep_topo_add_conflict(m->dst, where, what, s, ss, d, ds) : zep_topo_add_conflict(m->dst, where, what, d, ds, s, ss);

    return rc < 0 ? no_memory(m) : ZEP_OK;
}

/* What the stronger source says; the other's text is noted where it differs. NULL: not known. */
static int merge_text(struct merge *m, const char *where, const char *what, char **dst, enum zep_source ds, const char *src, enum zep_source ss)
{
    int rc = ZEP_OK, wins = !*dst || ss > ds;

    if (!src)
        return ZEP_OK;
    if (*dst && strcasecmp(*dst, src))
        rc = conflict(m, where, what, wins, *dst, ds, src, ss);
    return rc == ZEP_OK && wins ? copy_text(m, dst, src) : rc;
}

static int merge_int(struct merge *m, const char *where, const char *what, int unknown, int *dst, enum zep_source ds, int src, enum zep_source ss)
{
    char a[24], b[24];
    int rc = ZEP_OK, wins = *dst == unknown || ss > ds;

    if (src == unknown)
        return ZEP_OK;
    snprintf(a, sizeof a, "%d", *dst);
    snprintf(b, sizeof b, "%d", src);
    if (*dst != unknown && *dst != src)
        rc = conflict(m, where, what, wins, a, ds, b, ss);
    if (wins)
        *dst = src;
    return rc;
}

/* The same with both sources at the end, for fields that have their own. */
static int text_fact(struct merge *m, const char *where, const char *what, char **dst, const char *src, enum zep_source ds, enum zep_source ss)
{
    return merge_text(m, where, what, dst, ds, src, ss);
}

static int int_fact(struct merge *m, const char *where, const char *what, int unknown, int *dst, int src, enum zep_source ds, enum zep_source ss)
{
    return merge_int(m, where, what, unknown, dst, ds, src, ss);
}

/* Sizes within a twentieth are the same: controllers round. */
static int merge_size(struct merge *m, const char *where, const char *what, int64_t *dst, enum zep_source ds, int64_t src, enum zep_source ss)
{
    char a[ZEP_UNIT_BUF], b[ZEP_UNIT_BUF];
    int rc = ZEP_OK, wins = !*dst || ss > ds;

    if (!src)
        return ZEP_OK;
    snprintf(a, sizeof a, "%.4g GB", (double)*dst / 1e9);
    snprintf(b, sizeof b, "%.4g GB", (double)src / 1e9);
    if (*dst && fabs((double)*dst - (double)src) > 0.05 * (double)(*dst > src ? *dst : src))
        rc = conflict(m, where, what, wins, a, ds, b, ss);
    if (wins)
        *dst = src;
    return rc;
}

/* A measured bandwidth differs from a rated one always a little: more than a tenth is worth a word. */
static int merge_fact(struct merge *m, const char *where, const char *what, enum zep_fact_unit unit, struct zep_fact *dst, const struct zep_fact *src)
{
    char a[ZEP_UNIT_BUF], b[ZEP_UNIT_BUF];
    int rc = ZEP_OK, wins = dst->source == ZEP_SRC_NONE || src->source > dst->source;

    if (src->source == ZEP_SRC_NONE)
        return ZEP_OK;
    if (dst->source > ZEP_SRC_DEFAULT && src->source > ZEP_SRC_DEFAULT && fabs(dst->value - src->value) > 0.1 * fmax(dst->value, src->value))
        rc = conflict(m, where, what, wins, zep_fact_text(unit, dst->value, a), dst->source, zep_fact_text(unit, src->value, b), src->source);
    if (wins)
        *dst = *src;
    return rc;
}

static enum zep_source stronger(enum zep_source a, enum zep_source b)
{
    return a > b ? a : b;
}

/* --- NICs --- */

/* A name that only counts ("nic3", "efa0", "gpu7"): it identifies nothing. */
static int is_ordinal(const char *key)
{
    static const char *const words[] = {"nic", "efa", "hostdev", "mlnxnics", "gpu", "mig", "cpu", "HCA-"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);

        if (!strncmp(key, words[i], n) && isdigit((unsigned char)key[n]) && key[n + strspn(key + n, "0123456789")] == '\0')
            return 1;
    }
    return 0;
}

static int all_ordinal_nics(const struct zep_node *n)
{
    for (int i = 0; i < n->n_nic; i++)
        if (!is_ordinal(n->nic[i].key) && !is_ordinal(n->nic[i].name)) /* "HCA-1": an adapter that does not say its name */
            return 0;
    return n->n_nic > 0;
}

static int all_ordinal_devices(const struct zep_node *n)
{
    for (int i = 0; i < n->n_device; i++)
        if (!is_ordinal(n->device[i].key))
            return 0;
    return n->n_device > 0;
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

/* The source of one field: its own where fields of several sources came together, else that of the whole. */
static enum zep_source of_field(const unsigned char *field, int i, enum zep_source whole)
{
    return field[i] ? (enum zep_source)field[i] : whole;
}

/* Before the whole is said to be of the stronger source: fields keep theirs. What the other one said first is its. */
static void pin(unsigned char *field, int n, enum zep_source own, const unsigned char *other, enum zep_source other_whole, unsigned taken)
{
    for (int i = 0; i < n; i++)
        field[i] = (unsigned char)(taken & 1u << i ? of_field(other, i, other_whole) : of_field(field, i, own));
}

enum { NIC_LINK, NIC_BOND, NIC_NUMA, NIC_UP, NIC_RDMA, NIC_WIDTH, NIC_BUS, NIC_GUID };

static int merge_nic(struct merge *m, const char *node, struct zep_nic *d, const struct zep_nic *s)
{
    unsigned took = 0;
    char where[400];
    int rc;

#define FIELD_SRC(f) of_field(d->field_source, f, d->source), of_field(s->field_source, f, s->source)
#define TOOK(f, known, other) (took |= (other) && (!(known) || of_field(s->field_source, f, s->source) > of_field(d->field_source, f, d->source)) ? 1u << (f) : 0)

    snprintf(where, sizeof where, "node %.200s, NIC %.100s", node, d->name);
    if (!strchr(d->key, ':') && strchr(s->key, ':') && (rc = copy_text(m, &d->key, s->key)) < 0) /* a PCI address says more than a name */
        return rc;
    TOOK(NIC_LINK, d->link, s->link);
    TOOK(NIC_BOND, d->bond, s->bond);
    TOOK(NIC_NUMA, d->numa >= 0, s->numa >= 0);
    TOOK(NIC_UP, d->up >= 0, s->up >= 0);
    TOOK(NIC_RDMA, d->rdma >= 0, s->rdma >= 0);
    TOOK(NIC_WIDTH, d->pcie_width, s->pcie_width);
    TOOK(NIC_BUS, d->bus, s->bus);
    TOOK(NIC_GUID, d->guid, s->guid);
    if ((rc = text_fact(m, where, "link", &d->link, s->link, FIELD_SRC(NIC_LINK))) < 0 || (rc = text_fact(m, where, "bond", &d->bond, s->bond, FIELD_SRC(NIC_BOND))) < 0 ||
        (rc = int_fact(m, where, "NUMA domain", -1, &d->numa, s->numa, FIELD_SRC(NIC_NUMA))) < 0 || (rc = int_fact(m, where, "up", -1, &d->up, s->up, FIELD_SRC(NIC_UP))) < 0 ||
        (rc = int_fact(m, where, "RDMA", -1, &d->rdma, s->rdma, FIELD_SRC(NIC_RDMA))) < 0 || (rc = int_fact(m, where, "PCIe width", 0, &d->pcie_width, s->pcie_width, FIELD_SRC(NIC_WIDTH))) < 0 ||
        (rc = merge_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->bw, &s->bw)) < 0 || (rc = merge_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->speed, &s->speed)) < 0 || (took & 1u << NIC_BUS && (rc = copy_text(m, &d->bus, s->bus)) < 0) ||
        (took & 1u << NIC_GUID && (rc = copy_text(m, &d->guid, s->guid)) < 0))
        return rc;
    pin(d->field_source, (int)sizeof d->field_source, d->source, s->field_source, s->source, took);
    d->source = stronger(d->source, s->source);
    return ZEP_OK;
}

static int add_nic(struct merge *m, struct zep_node *d, const struct zep_nic *s)
{
    struct zep_nic *c = zep_node_add_nic(d, s->key, s->name);

    if (!c)
        return no_memory(m);
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

static int note_count(struct merge *m, const struct zep_node *d, const char *what, int src_wins, int nd, enum zep_source ds, int ns, enum zep_source ss)
{
    char where[300], a[16], b[16];

    if (nd == ns)
        return ZEP_OK;
    snprintf(where, sizeof where, "node %.250s", d->id);
    snprintf(a, sizeof a, "%d", nd);
    snprintf(b, sizeof b, "%d", ns);
    return conflict(m, where, what, src_wins, a, ds, b, ss);
}

static void keep_common(struct zep_fact *f, const struct zep_fact *other)
{
    if (f->value != other->value || f->source != other->source)
        *f = (struct zep_fact){0};
}

/* What the NICs of a counted list have in common. */
static void common_nic(const struct zep_node *n, struct zep_nic *out)
{
    out->bw = n->nic[0].bw;
    out->speed = n->nic[0].speed;
    for (int i = 1; i < n->n_nic; i++) {
        keep_common(&out->bw, &n->nic[i].bw);
        keep_common(&out->speed, &n->nic[i].speed);
    }
}

/* map_out[i]: place of src's NIC i, -1 none. */
static int merge_nics(struct merge *m, int node, const struct zep_node *s, int *map)
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
        if ((rc = note_count(m, d, "number of NICs", counted, d->n_nic, d->nic[0].source, s->n_nic, s->nic[0].source)) < 0)
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
            if ((rc = merge_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->nic[i].bw, &common.bw)) == ZEP_OK)
                rc = merge_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->nic[i].speed, &common.speed);
        }
        return rc;
    }
    if (!(taken = zep_calloc((size_t)d->n_nic + (size_t)s->n_nic + 1, 1)))
        return no_memory(m);
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
                rc = conflict(m, where, "presence", 1, "missing", d->nic[0].source, "seen", s->nic[i].source);
        }
        if (rc < 0)
            break;
        taken[map[i]] = 1;
    }
    free(taken);
    return rc;
}

/* --- devices --- */

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
    if ((is_ordinal(d->key) || !strchr(d->key, ':')) && strchr(s->key, ':') && (rc = copy_text(m, &d->key, s->key)) < 0)
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
    if ((rc = text_fact(m, where, "UUID", &d->uuid, s->uuid, FIELD_SRC(DEV_UUID))) < 0 || (rc = text_fact(m, where, "MIG profile", &d->mig, s->mig, FIELD_SRC(DEV_MIG))) < 0 ||
        (rc = text_fact(m, where, "cores", &d->cores, s->cores, FIELD_SRC(DEV_CORES))) < 0 || (rc = int_fact(m, where, "NUMA domain", -1, &d->numa, s->numa, FIELD_SRC(DEV_NUMA))) < 0 ||
        (rc = int_fact(m, where, "PCIe width", 0, &d->pcie_width, s->pcie_width, FIELD_SRC(DEV_WIDTH))) < 0 ||
        (rc = merge_size(m, where, "memory", &d->mem_bytes, of_field(d->field_source, DEV_MEM, d->source), s->mem_bytes, of_field(s->field_source, DEV_MEM, s->source))) < 0 ||
        (rc = merge_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &d->bw, &s->bw)) < 0 || (rc = merge_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->speed, &s->speed)) < 0 || (took & 1u << DEV_MODEL && (rc = copy_text(m, &d->model, s->model)) < 0) || (took & 1u << DEV_BUS && (rc = copy_text(m, &d->bus, s->bus)) < 0))
        return rc;
    if (merge_nic_choice(d, s, nic_map) < 0)
        return no_memory(m);
    pin(d->field_source, (int)sizeof d->field_source, d->source, s->field_source, s->source, took);
    d->source = stronger(d->source, s->source);
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
        keep_common(&bw, &s->device[i].bw);
        keep_common(&speed, &s->device[i].speed);
        mem = s->device[i].mem_bytes == mem ? mem : 0;
    }
    for (int i = 0; i < d->n_device && rc == ZEP_OK; i++) {
        struct zep_device *x = &d->device[i];
        char where[400];

        snprintf(where, sizeof where, "node %.200s, device %.100s", d->id, x->key);
        if (same_model && !x->model)
            rc = copy_text(m, &x->model, first->model);
        if (rc == ZEP_OK && same_cores && !x->cores)
            rc = copy_text(m, &x->cores, first->cores);
        if (rc == ZEP_OK && (rc = merge_fact(m, where, "bandwidth", ZEP_UNIT_BANDWIDTH, &x->bw, &bw)) == ZEP_OK && (rc = merge_fact(m, where, "speed", ZEP_UNIT_FACTOR, &x->speed, &speed)) == ZEP_OK)
            rc = merge_size(m, where, "memory", &x->mem_bytes, of_field(x->field_source, DEV_MEM, x->source), mem, first->source);
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
                return no_memory(m);
        for (int k = 0; need_peer && k < s->n_device; k++)
            if (dev_map[k] >= 0 && zep_node_set_peer(d, dev_map[i], dev_map[k], x->peer_dist ? (enum zep_distance)x->peer_dist[k] : ZEP_DIST_UNKNOWN, x->peer_nvlink ? x->peer_nvlink[k] : 0) < 0)
                return no_memory(m);
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
        return no_memory(m);
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
            rc = copy_text(m, &d->device[map[i]].cores, s->device[i].cores);
    }
    if (rc == ZEP_OK)
        rc = merge_pairs(m, d, s, map, nic_map);
    if (rc == ZEP_OK && zep_topo_warn(m->dst, "GPUs that are known by number only are taken to be numbered by PCI address, as nvidia-smi does") < 0)
        rc = no_memory(m);
    free(map);
    return rc;
}

/* Two sources that only count: how many there are, and of which model, is as the stronger one says. */
static int merge_counts(struct merge *m, struct zep_node *d, const struct zep_node *s)
{
    int wins = s->device[0].source > d->device[0].source, rc;
    char where[300];

    if ((rc = note_count(m, d, "number of devices", wins, d->n_device, d->device[0].source, s->n_device, s->device[0].source)) < 0)
        return rc;
    while (wins && d->n_device > s->n_device)
        zep_device_clear(&d->device[--d->n_device]);
    snprintf(where, sizeof where, "node %.250s", d->id);
    for (int i = 0; i < d->n_device && i < s->n_device; i++) {
        const char *a = d->device[i].model, *b = s->device[i].model;

        if (a && b && !zep_same_model(a, b)) /* one word a node */
            return conflict(m, where, "model of devices", wins, a, d->device[0].source, b, s->device[0].source);
    }
    return ZEP_OK;
}

static int merge_devices(struct merge *m, struct zep_node *d, const struct zep_node *s, const int *nic_map)
{
    int counted = all_ordinal_devices(d), counts = all_ordinal_devices(s), had, rc = ZEP_OK;
    int *map;

    if (!s->n_device)
        return ZEP_OK;
    if (counted != counts && d->n_device) {
        if ((rc = note_count(m, d, "number of devices", counted, d->n_device, d->device[0].source, s->n_device, s->device[0].source)) < 0)
            return rc;
        if (counts)
            return (rc = spread_common(m, d, s)) < 0 ? rc : merge_by_order(m, d, s, nic_map);
        struct zep_node old = {.n_device = d->n_device, .device = d->device, .n_nic = d->n_nic};
        int *same = zep_calloc((size_t)d->n_nic + 1, sizeof *same);

        if (!same)
            return no_memory(m);
        for (int i = 0; i < d->n_nic; i++)
            same[i] = i;
        d->n_device = 0;
        d->device = NULL;
        rc = merge_devices(m, d, s, nic_map);
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
        return no_memory(m);
    for (int i = 0; i < s->n_device && rc == ZEP_OK; i++) {
        map[i] = find_device(d, &s->device[i]);
        if (map[i] < 0 && had && counted && counts && s->device[0].source <= d->device[0].source)
            continue; /* there are fewer, as the stronger source says */
        if (map[i] < 0) {
            char where[400];

            if (!zep_node_add_device(d, s->device[i].key, s->device[i].kind)) {
                rc = no_memory(m);
                break;
            }
            map[i] = d->n_device - 1;
            snprintf(where, sizeof where, "node %.200s, device %.100s", d->id, s->device[i].key);
            if (had && !counts)
                rc = conflict(m, where, "presence", 1, "missing", d->device[0].source, "seen", s->device[i].source);
        }
        if (rc == ZEP_OK)
            rc = merge_device(m, d->id, &d->device[map[i]], &s->device[i], nic_map);
    }
    if (rc == ZEP_OK)
        rc = merge_pairs(m, d, s, map, nic_map);
    free(map);
    return rc;
}

static int merge_node(struct merge *m, int node, const struct zep_node *s, int *nic_map)
{
    struct zep_node *d = &m->dst->node[node];
    unsigned took = 0;
    char where[300];
    int rc;

    snprintf(where, sizeof where, "node %.250s", d->id);
    if (zep_node_add_alias(d, s->id) < 0)
        return no_memory(m);
    for (int k = 0; k < s->n_alias; k++)
        if (zep_node_add_alias(d, s->alias[k]) < 0)
            return no_memory(m);
    {
        const int mine[4] = {d->sockets, d->cores_per_socket, d->threads_per_core, d->n_numa}, theirs[4] = {s->sockets, s->cores_per_socket, s->threads_per_core, s->n_numa};

        for (int i = 0; i < 4; i++)
            took |= theirs[i] && (!mine[i] || of_field(s->field_source, i, s->cpu_source) > of_field(d->field_source, i, d->cpu_source)) ? 1u << i : 0;
    }
    for (int k = 0; k < s->n_note; k++)
        if (zep_node_add_note(d, s->note[k].key, s->note[k].value) < 0)
            return no_memory(m);
    if ((rc = merge_text(m, where, "state", &d->state, d->state_source, s->state, s->state_source)) < 0 || (rc = merge_text(m, where, "model", &d->model, d->state_source, s->model, s->state_source)) < 0 ||
        (rc = merge_text(m, where, "resources", &d->resources, d->state_source, s->resources, s->state_source)) < 0 ||
        (rc = merge_int(m, where, "sockets", 0, &d->sockets, of_field(d->field_source, 0, d->cpu_source), s->sockets, of_field(s->field_source, 0, s->cpu_source))) < 0 ||
        (rc = merge_int(m, where, "cores per socket", 0, &d->cores_per_socket, of_field(d->field_source, 1, d->cpu_source), s->cores_per_socket, of_field(s->field_source, 1, s->cpu_source))) < 0 ||
        (rc = merge_int(m, where, "threads per core", 0, &d->threads_per_core, of_field(d->field_source, 2, d->cpu_source), s->threads_per_core, of_field(s->field_source, 2, s->cpu_source))) < 0 ||
        (rc = merge_int(m, where, "NUMA domains", 0, &d->n_numa, of_field(d->field_source, 3, d->cpu_source), s->n_numa, of_field(s->field_source, 3, s->cpu_source))) < 0 ||
        (rc = merge_size(m, where, "memory", &d->mem_bytes, d->mem_source, s->mem_bytes, s->mem_source)) < 0 || (rc = merge_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->speed, &s->speed)) < 0)
        return rc;
    pin(d->field_source, (int)sizeof d->field_source, d->cpu_source, s->field_source, s->cpu_source, took);
    d->cpu_source = stronger(d->cpu_source, s->cpu_source);
    d->mem_source = stronger(d->mem_source, s->mem_source);
    d->state_source = stronger(d->state_source, s->state_source);
    if ((rc = merge_nics(m, node, s, nic_map)) < 0)
        return rc;
    return merge_devices(m, d, s, nic_map);
}

/* --- fabrics --- */

static int has_port(const struct zep_switch *sw, int node, int port)
{
    for (int i = 0; i < sw->n_node; i++)
        if (sw->node[i] == node && (!sw->port || sw->port[i] < 0 || port < 0 || sw->port[i] == port))
            return 1;
    return 0;
}

/* Where a node hangs, as far as known before: its switches by the node. */
struct places {
    int *count, *sw; /* [n_node] switches that it hangs on; the first of them */
};

static int make_places(const struct zep_topo *t, const struct zep_fabric *f, struct places *p)
{
    p->count = zep_calloc(2 * (size_t)t->n_node + 1, sizeof *p->count);
    if (!p->count)
        return ZEP_ENOMEM;
    p->sw = p->count + t->n_node;
    for (int s = 0; s < f->n_switch; s++)
        for (int k = 0; k < f->sw[s].n_node; k++)
            if (p->count[f->sw[s].node[k]]++ == 0)
                p->sw[f->sw[s].node[k]] = s;
    return ZEP_OK;
}

static void take_off(struct zep_switch *sw, int node)
{
    int kept = 0;

    for (int k = 0; k < sw->n_node; k++) {
        if (sw->node[k] == node)
            continue;
        sw->node[kept] = sw->node[k];
        if (sw->port)
            sw->port[kept] = sw->port[k];
        kept++;
    }
    sw->n_node = kept;
}

/* A node of src on switch y. Where dst has it on another switch already (not a rail beside it) the stronger source decides. */
static int place_node(struct merge *m, struct zep_fabric *d, const struct places *was, int node, int y, int port, enum zep_source ds, enum zep_source ss)
{
    struct zep_switch *sw = &d->sw[y];
    char where[300];
    int rc, old;

    if (has_port(sw, node, port))
        return ZEP_OK;
    if (was && was->count[node] == 1 && was->sw[node] != y && d->kind != ZEP_FABRIC_RAILS) {
        old = was->sw[node];
        snprintf(where, sizeof where, "node %.250s", m->dst->node[node].id);
        if ((rc = conflict(m, where, "switch", ss > ds, d->sw[old].name, ds, sw->name, ss)) < 0)
            return rc;
        if (ss <= ds)
            return ZEP_OK;
        take_off(&d->sw[old], node);
    }
    return zep_switch_add_port(sw, node, port) < 0 ? no_memory(m) : ZEP_OK;
}

static int same_parents(const struct zep_switch *y, const int *parent, int n)
{
    int found = 0;

    for (int i = 0; i < n; i++)
        for (int p = 0; p < y->n_parent; p++)
            found += y->parent[p] == parent[i];
    return found == n && y->n_parent == n;
}

/* Parents of src's switch: new where dst knows none; where both know and differ, the stronger source's. */
static int place_parents(struct merge *m, struct zep_fabric *d, struct zep_switch *y, int had, const int *parent, int n, enum zep_source ds, enum zep_source ss)
{
    char where[300];
    int rc;

    if (!n || same_parents(y, parent, n))
        return ZEP_OK;
    if (had && y->n_parent) {
        snprintf(where, sizeof where, "fabric %.100s, switch %.150s", d->name, y->name);
        if ((rc = conflict(m, where, "switch above", ss > ds, d->sw[y->parent[0]].name, ds, d->sw[parent[0]].name, ss)) < 0)
            return rc;
        if (ss <= ds)
            return ZEP_OK;
        y->n_parent = 0;
    }
    for (int i = 0; i < n; i++)
        if (zep_switch_add_parent(y, parent[i]) < 0)
            return no_memory(m);
    return ZEP_OK;
}

static int merge_switches(struct merge *m, struct zep_fabric *d, const struct zep_fabric *s, int is_new)
{
    struct zep_switch_index *index = NULL;
    struct places was = {0};
    int *place = zep_calloc(2 * (size_t)s->n_switch + 1, sizeof *place), *above = place ? place + s->n_switch : NULL, had = d->n_switch, rc = place ? zep_switch_index_new(d, &index, m->err) : no_memory(m);

    if (rc == ZEP_OK && !is_new && make_places(m->dst, d, &was) < 0)
        rc = no_memory(m);
    for (int i = 0; i < s->n_switch && rc == ZEP_OK; i++)
        rc = zep_switch_index_get(index, d, s->sw[i].name, &place[i], m->err);
    for (int i = 0; i < s->n_switch && rc == ZEP_OK; i++) {
        const struct zep_switch *x = &s->sw[i];
        struct zep_switch *y = &d->sw[place[i]];
        char where[300];

        for (int k = 0; k < x->n_parent; k++)
            above[k] = place[x->parent[k]];
        rc = place_parents(m, d, y, place[i] < had, above, x->n_parent, d->source, s->source);
        for (int k = 0; k < x->n_node && rc == ZEP_OK; k++) {
            int node = m->node_map[x->node[k]], port = x->port && x->port[k] >= 0 ? m->nic_map[x->node[k]][x->port[k]] : -1;

            if (is_new)
                rc = zep_switch_add_port(y, node, port) < 0 ? no_memory(m) : ZEP_OK;
            else
                rc = place_node(m, d, &was, node, place[i], port, d->source, s->source);
        }
        snprintf(where, sizeof where, "fabric %.100s, switch %.150s", d->name, y->name);
        if (rc == ZEP_OK)
            rc = merge_fact(m, where, "uplink bandwidth", ZEP_UNIT_BANDWIDTH, &y->uplink_bw, &x->uplink_bw);
    }
    zep_switch_index_free(index);
    free(was.count);
    free(place);
    return rc;
}

static void leaves_of(const struct zep_topo *t, const struct zep_fabric *f, int *leaf)
{
    for (int i = 0; i < t->n_node; i++)
        leaf[i] = -1;
    for (int s = f->n_switch - 1; s >= 0; s--)
        for (int k = 0; k < f->sw[s].n_node; k++)
            leaf[f->sw[s].node[k]] = s;
}

/* The first two nodes that one leaf of a has and two leaves of b; how many more such nodes. -1: none. */
static int find_parted(const struct zep_fabric *a, const int *la, const int *lb, int *with_out, int *n_out)
{
    int odd = -1;

    *n_out = 0;
    for (int s = 0; s < a->n_switch; s++) {
        int first = -1;

        for (int k = 0; k < a->sw[s].n_node; k++) {
            int node = a->sw[s].node[k];

            if (lb[node] < 0 || la[node] != s)
                continue;
            if (first < 0)
                first = node;
            else if (lb[node] != lb[first] && (*n_out)++ == 0) {
                odd = node;
                *with_out = first;
            }
        }
    }
    return odd;
}

static int n_levels(const struct zep_fabric *f)
{
    int n = 0;

    for (int s = 0; s < f->n_switch; s++)
        n = f->sw[s].level >= n ? f->sw[s].level + 1 : n;
    return n;
}

/* Nodes that hang on one leaf in one tree and on two in the other: a is the stronger one. A weaker tree of fewer levels that has them together is only coarser. */
static int compare_trees(struct merge *m, const struct zep_fabric *a, const struct zep_fabric *b)
{
    const struct zep_topo *t = m->dst;
    int *la = zep_calloc(2 * (size_t)t->n_node + 1, sizeof *la), *lb = la ? la + t->n_node : NULL, n_odd, odd, with = 0, rc = ZEP_OK;
    char where[600], what[100], one[300], two[300];
    int together = 1; /* in a */

    if (!la)
        return no_memory(m);
    leaves_of(t, a, la);
    leaves_of(t, b, lb);
    odd = find_parted(a, la, lb, &with, &n_odd);
    if (odd < 0 && n_levels(b) >= n_levels(a)) {
        together = 0;
        odd = find_parted(b, lb, la, &with, &n_odd);
    }
    if (odd >= 0) {
        const struct zep_fabric *f = together ? a : b, *g = together ? b : a;
        const int *lf = together ? la : lb, *lg = together ? lb : la;

        snprintf(where, sizeof where, "nodes %.250s and %.250s", t->node[with].id, t->node[odd].id);
        snprintf(what, sizeof what, n_odd > 2 ? "leaf switch (and %d more such nodes)" : n_odd > 1 ? "leaf switch (and %d more such node)" : "leaf switch", n_odd - 1);
        snprintf(one, sizeof one, "'%.100s' for both in fabric %.100s", f->sw[lf[odd]].name, f->name);
        snprintf(two, sizeof two, "'%.80s' and '%.80s' in fabric %.80s", g->sw[lg[with]].name, g->sw[lg[odd]].name, g->name);
        rc = zep_topo_add_conflict(m->dst, where, what, together ? one : two, a->source, together ? two : one, b->source) < 0 ? no_memory(m) : ZEP_OK;
    }
    free(la);
    return rc;
}

static int merge_fabric(struct merge *m, const struct zep_fabric *s)
{
    struct zep_topo *t = m->dst;
    char name[300];
    int n = 2, at = -1, rc;

    for (int i = 0; i < t->n_fabric; i++)
        if (!strcmp(t->fabric[i].name, s->name) && t->fabric[i].kind == s->kind)
            at = i;
    if (at >= 0) { /* one fabric that two sources know: the union */
        if ((rc = merge_switches(m, &t->fabric[at], s, 0)) < 0)
            return rc;
        t->fabric[at].source = stronger(t->fabric[at].source, s->source);
        return ZEP_OK;
    }
    snprintf(name, sizeof name, "%.250s", s->name);
    for (int i = 0; i < t->n_fabric; i++)
        if (!strcmp(t->fabric[i].name, name)) {
            snprintf(name, sizeof name, "%.250s-%d", s->name, n++);
            i = -1;
        }
    if (!zep_topo_add_fabric(t, name, s->kind))
        return no_memory(m);
    t->fabric[t->n_fabric - 1].source = s->source;
    for (int i = 0; i < s->n_block_size; i++)
        if (zep_fabric_add_block_size(&t->fabric[t->n_fabric - 1], s->block_size[i]) < 0)
            return no_memory(m);
    if ((rc = merge_switches(m, &t->fabric[t->n_fabric - 1], s, 1)) < 0 || (rc = zep_fabric_set_levels(&t->fabric[t->n_fabric - 1], m->err)) < 0)
        return rc;
    for (int i = 0; i < t->n_fabric - 1 && rc == ZEP_OK; i++)
        if (t->fabric[i].kind == ZEP_FABRIC_TREE && s->kind == ZEP_FABRIC_TREE)
            rc = t->fabric[i].source >= s->source ? compare_trees(m, &t->fabric[i], &t->fabric[t->n_fabric - 1]) : compare_trees(m, &t->fabric[t->n_fabric - 1], &t->fabric[i]);
    return rc;
}

static int rank_of(const struct zep_fabric *f)
{
    return (f->kind == ZEP_FABRIC_BLOCKS ? 0 : 100) + (int)f->source;
}

/* Trees and rails before blocks, the stronger source before the weaker: the first is planned with. */
static void sort_fabrics(struct zep_topo *t)
{
    for (int i = 1; i < t->n_fabric; i++) {
        struct zep_fabric f = t->fabric[i];
        int at = i;

        for (; at > 0 && rank_of(&t->fabric[at - 1]) < rank_of(&f); at--)
            t->fabric[at] = t->fabric[at - 1];
        t->fabric[at] = f;
    }
}

static int merge_notes(struct merge *m)
{
    char *origin = zep_calloc(strlen(m->dst->origin) + strlen(m->src->origin) + 4, 1);

    if (!origin)
        return no_memory(m);
    sprintf(origin, "%s + %s", m->dst->origin, m->src->origin);
    free(m->dst->origin);
    m->dst->origin = origin;
    for (int i = 0; i < m->src->n_warning; i++)
        if (zep_topo_warn(m->dst, "%s", m->src->warning[i]) < 0)
            return no_memory(m);
    for (int i = 0; i < m->src->n_conflict; i++) {
        const struct zep_conflict *c = &m->src->conflict[i];

        if (zep_topo_add_conflict(m->dst, c->where, c->what, c->kept, c->kept_source, c->lost, c->lost_source) < 0)
            return no_memory(m);
    }
    return ZEP_OK;
}

int zep_topo_merge(struct zep_topo *dst, const struct zep_topo *src, struct zep_error *err)
{
    struct merge m = {.dst = dst, .src = src, .err = err};
    size_t n = (size_t)src->n_node + 1;
    int rc = ZEP_OK;

    m.node_map = zep_calloc(n, sizeof *m.node_map);
    m.nic_map = zep_calloc(n, sizeof *m.nic_map);
    if (!m.node_map || !m.nic_map)
        rc = no_memory(&m);
    else
        rc = map_nodes(&m);
    for (int i = 0; i < src->n_node && rc == ZEP_OK; i++) {
        if (!(m.nic_map[i] = zep_calloc((size_t)src->node[i].n_nic + 1, sizeof *m.nic_map[i])))
            rc = no_memory(&m);
        else
            rc = merge_node(&m, m.node_map[i], &src->node[i], m.nic_map[i]);
    }
    for (int i = 0; i < src->n_fabric && rc == ZEP_OK; i++)
        rc = merge_fabric(&m, &src->fabric[i]);
    if (rc == ZEP_OK && (rc = merge_fact(&m, "cluster", "latency between nodes", ZEP_UNIT_TIME, &dst->net_latency_s, &src->net_latency_s)) == ZEP_OK &&
        (rc = merge_fact(&m, "cluster", "latency between devices", ZEP_UNIT_TIME, &dst->dev_latency_s, &src->dev_latency_s)) == ZEP_OK)
        rc = merge_notes(&m);
    sort_fabrics(dst);
    for (size_t i = 0; m.nic_map && i < n; i++)
        free(m.nic_map[i]);
    free(m.nic_map);
    free(m.node_map);
    return rc == ZEP_OK ? zep_topo_validate(dst, err) : rc;
}
