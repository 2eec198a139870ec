/* Nodes, devices and NICs that give less than they should: throttled, worn, shared with others, or assumed so. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"
#include "common/units.h"

double zep_device_speed(const struct zep_node *node, int dev)
{
    if (dev < node->n_device && node->device[dev].speed.source != ZEP_SRC_NONE)
        return node->device[dev].speed.value;
    return node->speed.source != ZEP_SRC_NONE ? node->speed.value : 1;
}

double zep_nic_bandwidth(const struct zep_nic *nic)
{
    return nic->speed.source != ZEP_SRC_NONE ? nic->bw.value * nic->speed.value : nic->bw.value;
}

int zep_node_is_slow(const struct zep_node *node)
{
    for (int i = 0; i < node->n_device; i++)
        if (zep_device_speed(node, i) < 1)
            return 1;
    for (int i = 0; i < node->n_nic; i++)
        if (node->nic[i].speed.source != ZEP_SRC_NONE && node->nic[i].speed.value < 1)
            return 1;
    return !node->n_device && zep_device_speed(node, 0) < 1;
}

enum zep_source zep_node_speed_source(const struct zep_node *node)
{
    enum zep_source s = node->speed.source;

    for (int i = 0; i < node->n_device; i++)
        s = node->device[i].speed.source > s ? node->device[i].speed.source : s;
    for (int i = 0; i < node->n_nic; i++)
        s = node->nic[i].speed.source > s ? node->nic[i].speed.source : s;
    return s;
}

char *zep_fact_text(enum zep_fact_unit unit, double value, char buf[ZEP_UNIT_BUF])
{
    return unit == ZEP_UNIT_TIME ? zep_format_time(value, buf) : unit == ZEP_UNIT_FACTOR ? zep_format_number(value, buf) : zep_format_bandwidth(value, buf);
}

/* --- marking --- */

enum part { PART_NODE, PART_DEV, PART_NIC };

struct mark {
    const char *text;  /* whole, for messages */
    char *copy;
    const char *nodes, *which; /* parts of copy; which NULL: the nodes themselves */
    enum part part;
    struct zep_fact speed;
    struct zep_hostlist node_list, which_list; /* empty where it is '*' */
    struct zep_error *err;
};

static int parse(struct mark *m)
{
    char *value, *slash;
    struct zep_error err;

    if (!(m->copy = strdup(m->text)))
        return zep_error_nomem(m->err, "speeds");
    if (!(value = strrchr(m->copy, '=')) || value == m->copy)
        return zep_error_set(m->err, ZEP_EINVAL, "'%.200s': expected NODES=FACTOR, NODES/dev:I=FACTOR or NODES/nic:I=FACTOR, as in 'n3/dev:0=0.8'", m->text);
    *value++ = '\0';
    if (zep_parse_double(value, ZEP_SPEED_MIN, 1, &m->speed.value, &err) < 0)
        return zep_error_set(m->err, ZEP_EINVAL, "'%.200s': factor '%.100s': expected a number from %g to 1", m->text, value, ZEP_SPEED_MIN);
    m->speed.source = ZEP_SRC_USER;
    m->nodes = m->copy;
    if (!(slash = strchr(m->copy, '/')))
        return ZEP_OK;
    *slash++ = '\0';
    if (!strncmp(slash, "dev:", 4))
        m->part = PART_DEV;
    else if (!strncmp(slash, "nic:", 4))
        m->part = PART_NIC;
    else
        return zep_error_set(m->err, ZEP_EINVAL, "'%.200s': '/%.100s': expected /dev:I or /nic:I", m->text, slash);
    m->which = slash + 4;
    return ZEP_OK;
}

static int expand(struct mark *m, const char *list, struct zep_hostlist *out)
{
    if (!strcmp(list, "*"))
        return ZEP_OK;
    if (zep_hostlist_expand(list, out, m->err) < 0)
        return zep_error_prefix(m->err, "'%.200s'", m->text);
    return out->n ? ZEP_OK : zep_error_set(m->err, ZEP_EINVAL, "'%.200s': '%.200s': expected names, or '*' for all", m->text, list);
}

/* Number, key or name of one of the node's: its index, -1 none. */
static int find_part(const struct zep_node *n, enum part part, const char *word)
{
    int count = part == PART_DEV ? n->n_device : n->n_nic;
    int64_t v;

    for (int i = 0; i < count; i++) {
        const char *key = part == PART_DEV ? n->device[i].key : n->nic[i].key, *other = part == PART_DEV ? n->device[i].uuid : n->nic[i].name;

        if (zep_same_pci(key, word) || (other && !strcmp(other, word)))
            return i;
    }
    return zep_parse_int(word, 0, count - 1, &v, NULL) == ZEP_OK ? (int)v : -1;
}

static struct zep_fact *speed_of(struct zep_node *n, enum part part, int i)
{
    return part == PART_DEV ? &n->device[i].speed : &n->nic[i].speed;
}

static int mark_node(struct mark *m, struct zep_node *n)
{
    int count = m->part == PART_DEV ? n->n_device : n->n_nic;

    if (m->part == PART_NODE) {
        n->speed = m->speed;
        return ZEP_OK;
    }
    if (!count)
        return zep_error_set(m->err, ZEP_EINVAL, "'%.200s': node '%s' has no %s", m->text, n->id, m->part == PART_NIC ? "NICs" : "devices: its name alone marks its cores");
    for (int i = 0; i < count && !m->which_list.n; i++)
        *speed_of(n, m->part, i) = m->speed;
    for (int k = 0; k < m->which_list.n; k++) {
        int i = find_part(n, m->part, m->which_list.name[k]);

        if (i < 0)
            return zep_error_set(m->err, ZEP_EINVAL, "'%.200s': '%.100s': expected a %s of node '%s': 0 to %d, a key or a name", m->text, m->which_list.name[k], m->part == PART_DEV ? "device" : "NIC", n->id, count - 1);
        *speed_of(n, m->part, i) = m->speed;
    }
    return ZEP_OK;
}

static int mark_all(struct mark *m, struct zep_topo *topo)
{
    struct zep_names *names = NULL;
    int rc;

    if ((rc = expand(m, m->nodes, &m->node_list)) < 0 || (m->which && (rc = expand(m, m->which, &m->which_list)) < 0))
        return rc;
    for (int i = 0; i < topo->n_node && !m->node_list.n && rc == ZEP_OK; i++)
        rc = mark_node(m, &topo->node[i]);
    if (rc == ZEP_OK)
        rc = zep_names_new(topo, &names, m->err);
    for (int k = 0; k < m->node_list.n && rc == ZEP_OK; k++) {
        int node = zep_names_find(names, m->node_list.name[k]);

        rc = node < 0 ? zep_error_set(m->err, ZEP_EINVAL, "'%.200s': '%.200s': expected a node of the topology", m->text, m->node_list.name[k]) : mark_node(m, &topo->node[node]);
    }
    zep_names_free(names);
    return rc;
}

int zep_topo_slow(struct zep_topo *topo, const char *text, struct zep_error *err)
{
    struct mark m = {.text = text, .err = err};
    int rc = parse(&m);

    if (rc == ZEP_OK)
        rc = mark_all(&m, topo);
    zep_hostlist_free(&m.node_list);
    zep_hostlist_free(&m.which_list);
    free(m.copy);
    return rc;
}
