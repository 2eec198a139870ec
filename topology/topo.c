#include "config.h"
#include "topology/topo.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/encode.h"
#include "topology/topo_internal.h"

static const char *const source_names[] = {"unknown", "default", "preset", "label", "site", "controller", "node", "measured", "user"};

const char *zep_source_name(enum zep_source s)
{
    return (size_t)s < sizeof source_names / sizeof source_names[0] ? source_names[s] : "unknown";
}

int zep_source_from_name(const char *name, enum zep_source *out)
{
    for (size_t i = 0; i < sizeof source_names / sizeof source_names[0]; i++)
        if (!strcmp(source_names[i], name)) {
            *out = (enum zep_source)i;
            return 1;
        }
    return 0;
}

struct zep_topo *zep_topo_new(const char *name, const char *origin)
{
    struct zep_topo *topo = zep_calloc(1, sizeof *topo);

    if (!topo)
        return NULL;
    topo->name = strdup(name ? name : "");
    topo->origin = strdup(origin ? origin : "");
    if (!topo->name || !topo->origin) {
        zep_topo_free(topo);
        return NULL;
    }
    return topo;
}

static int is_mig_profile(const char *s)
{
    size_t n = strspn(s, "0123456789"), m;

    if (!n || strncmp(s + n, "g.", 2))
        return 0;
    m = strspn(s + n + 2, "0123456789");
    return m > 0 && !strncmp(s + n + 2 + m, "gb", 2);
}

int zep_device_set_type(struct zep_device *d, const char *type)
{
    const char *at = type;

    while (at && !is_mig_profile(at)) /* "a100_3g.20gb", as AutoDetect names slices */
        at = strpbrk(at, "_-") ? strpbrk(at, "_-") + 1 : NULL;
    if (at && !(d->mig = strdup(at)))
        return ZEP_ENOMEM;
    if (at != type && !(d->model = strndup(type, at ? (size_t)(at - type - 1) : strlen(type))))
        return ZEP_ENOMEM;
    return ZEP_OK;
}

void zep_device_clear(struct zep_device *d)
{
    free(d->key);
    free(d->uuid);
    free(d->model);
    free(d->mig);
    free(d->cores);
    free(d->bus);
    free(d->more);
    free(d->nic_dist);
    free(d->peer_dist);
    free(d->peer_nvlink);
    *d = (struct zep_device){0};
}

struct placed {
    struct zep_device d;
    int was;
};

static int cmp_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    unsigned long dx = strtoul(x->d.key, NULL, 16), dy = strtoul(y->d.key, NULL, 16); /* domains have four or eight digits */
    int c = dx != dy ? (dx < dy ? -1 : 1) : strcasecmp(strchr(x->d.key, ':'), strchr(y->d.key, ':'));

    return c ? c : x->was - y->was;
}

int zep_node_sort_devices(struct zep_node *n)
{
    struct placed *p;
    unsigned char *row;

    for (int i = 0; i < n->n_device; i++)
        if (!zep_is_pci(n->device[i].key))
            return ZEP_OK;
    p = zep_calloc((size_t)n->n_device + 1, sizeof *p);
    row = zep_calloc((size_t)n->n_device + 1, 1);
    if (!p || !row) {
        free(p);
        free(row);
        return ZEP_ENOMEM;
    }
    for (int i = 0; i < n->n_device; i++)
        p[i] = (struct placed){n->device[i], i};
    qsort(p, (size_t)n->n_device, sizeof *p, cmp_placed);
    for (int i = 0; i < n->n_device; i++) {
        unsigned char *of[2] = {p[i].d.peer_dist, p[i].d.peer_nvlink};

        n->device[i] = p[i].d;
        for (int k = 0; k < 2; k++) {
            if (!of[k])
                continue;
            for (int j = 0; j < n->n_device; j++)
                row[j] = of[k][p[j].was];
            memcpy(of[k], row, (size_t)n->n_device);
        }
    }
    free(p);
    free(row);
    return ZEP_OK;
}

void zep_nic_clear(struct zep_nic *c)
{
    free(c->key);
    free(c->name);
    free(c->link);
    free(c->guid);
    free(c->bond);
    free(c->bus);
    *c = (struct zep_nic){0};
}

void zep_node_clear(struct zep_node *n)
{
    free(n->id);
    for (int i = 0; i < n->n_alias; i++)
        free(n->alias[i]);
    free(n->alias);
    free(n->state);
    free(n->model);
    free(n->resources);
    for (int i = 0; i < n->n_device; i++)
        zep_device_clear(&n->device[i]);
    free(n->device);
    for (int i = 0; i < n->n_nic; i++)
        zep_nic_clear(&n->nic[i]);
    free(n->nic);
    for (int i = 0; i < n->n_note; i++) {
        free(n->note[i].key);
        free(n->note[i].value);
    }
    free(n->note);
    *n = (struct zep_node){0};
}

static void free_fabric(struct zep_fabric *f)
{
    free(f->name);
    for (int i = 0; i < f->n_switch; i++) {
        free(f->sw[i].name);
        free(f->sw[i].parent);
        free(f->sw[i].node);
        free(f->sw[i].port);
    }
    free(f->sw);
    free(f->block_size);
}

void zep_topo_free(struct zep_topo *topo)
{
    if (!topo)
        return;
    free(topo->name);
    free(topo->origin);
    for (int i = 0; i < topo->n_node; i++)
        zep_node_clear(&topo->node[i]);
    free(topo->node);
    for (int i = 0; i < topo->n_fabric; i++)
        free_fabric(&topo->fabric[i]);
    free(topo->fabric);
    for (int i = 0; i < topo->n_warning; i++)
        free(topo->warning[i]);
    free(topo->warning);
    for (int i = 0; i < topo->n_conflict; i++) {
        free(topo->conflict[i].where);
        free(topo->conflict[i].what);
        free(topo->conflict[i].kept);
        free(topo->conflict[i].lost);
    }
    free(topo->conflict);
    free(topo);
}

/* Room for one more; arrays without a capacity grow at powers of two. */
static void *room(void *array, int n, int *cap, size_t size)
{
    int have = cap ? *cap : n & (n - 1) ? n + 1 : n;

    if (n < have)
        return array;
    array = zep_reallocarray(array, n ? 2 * (size_t)n : 4, size);
    if (array && cap)
        *cap = n ? 2 * n : 4;
    return array;
}

/* The arrays without a capacity begin with four places. */
static void *room_small(void *array, int n, size_t size)
{
    if (n < 4)
        return n ? array : zep_reallocarray(array, 4, size);
    return room(array, n, NULL, size);
}

struct zep_node *zep_topo_add_node(struct zep_topo *topo, const char *id)
{
    struct zep_node *node = room(topo->node, topo->n_node, &topo->cap_node, sizeof *node);
    char *copy = strdup(id);

    if (node)
        topo->node = node;
    if (!node || !copy) {
        free(copy);
        return NULL;
    }
    node = &topo->node[topo->n_node++];
    memset(node, 0, sizeof *node);
    node->id = copy;
    return node;
}

int zep_node_add_alias(struct zep_node *node, const char *alias)
{
    char **p, *copy;

    if (!strcmp(alias, node->id))
        return ZEP_OK;
    for (int i = 0; i < node->n_alias; i++)
        if (!strcmp(node->alias[i], alias))
            return ZEP_OK;
    p = room_small(node->alias, node->n_alias, sizeof *p);
    if (!p)
        return ZEP_ENOMEM;
    node->alias = p;
    if (!(copy = strdup(alias)))
        return ZEP_ENOMEM;
    node->alias[node->n_alias++] = copy;
    return ZEP_OK;
}

/* One more place, which says nothing yet. */
static int lengthen(unsigned char **array, int n)
{
    unsigned char *p;

    if (!*array)
        return 0;
    if (!(p = zep_reallocarray(*array, (size_t)n + 2, 1)))
        return -1;
    p[n] = p[n + 1] = 0;
    *array = p;
    return 0;
}

struct zep_device *zep_node_add_device(struct zep_node *node, const char *key, enum zep_dev_kind kind)
{
    struct zep_device *d = room_small(node->device, node->n_device, sizeof *d);
    char *copy = strdup(key);

    if (d)
        node->device = d;
    if (!d || !copy) {
        free(copy);
        return NULL;
    }
    for (int i = 0; i < node->n_device; i++)
        if (lengthen(&node->device[i].peer_dist, node->n_device) < 0 || lengthen(&node->device[i].peer_nvlink, node->n_device) < 0) {
            free(copy);
            return NULL;
        }
    d = &node->device[node->n_device++];
    *d = (struct zep_device){.key = copy, .kind = kind, .numa = -1, .nic = -1};
    return d;
}

struct zep_nic *zep_node_add_nic(struct zep_node *node, const char *key, const char *name)
{
    struct zep_nic *c = room_small(node->nic, node->n_nic, sizeof *c);
    char *copy = strdup(key), *copy_name = strdup(name);

    if (c)
        node->nic = c;
    if (!c || !copy || !copy_name) {
        free(copy);
        free(copy_name);
        return NULL;
    }
    for (int i = 0; i < node->n_device; i++)
        if (lengthen(&node->device[i].nic_dist, node->n_nic) < 0) {
            free(copy);
            free(copy_name);
            return NULL;
        }
    c = &node->nic[node->n_nic++];
    *c = (struct zep_nic){.key = copy, .name = copy_name, .numa = -1, .up = -1, .rdma = -1};
    return c;
}

struct zep_fabric *zep_topo_add_fabric(struct zep_topo *topo, const char *name, enum zep_fabric_kind kind)
{
    struct zep_fabric *f = room(topo->fabric, topo->n_fabric, &topo->cap_fabric, sizeof *f);
    char *copy = strdup(name);

    if (f)
        topo->fabric = f;
    if (!f || !copy) {
        free(copy);
        return NULL;
    }
    f = &topo->fabric[topo->n_fabric++];
    *f = (struct zep_fabric){.name = copy, .kind = kind};
    return f;
}

struct zep_switch *zep_fabric_add_switch(struct zep_fabric *fabric, const char *name)
{
    struct zep_switch *s = room_small(fabric->sw, fabric->n_switch, sizeof *s);
    char *copy = strdup(name);

    if (s)
        fabric->sw = s;
    if (!s || !copy) {
        free(copy);
        return NULL;
    }
    s = &fabric->sw[fabric->n_switch++];
    *s = (struct zep_switch){.name = copy};
    return s;
}

static int add_int(int **array, int *n, int value)
{
    int *p = room_small(*array, *n, sizeof *p);

    if (!p)
        return ZEP_ENOMEM;
    *array = p;
    p[(*n)++] = value;
    return ZEP_OK;
}

int zep_device_add_more(struct zep_device *d, int nic)
{
    return add_int(&d->more, &d->n_more, nic);
}

int zep_switch_add_parent(struct zep_switch *sw, int parent)
{
    return add_int(&sw->parent, &sw->n_parent, parent);
}

int zep_switch_add_port(struct zep_switch *sw, int node, int nic)
{
    int n = sw->n_node;

    if (nic >= 0 && !sw->port) { /* room for as many as there is room for nodes */
        if (!(sw->port = zep_calloc(n < 4 ? 4 : 2 * (size_t)n, sizeof *sw->port)))
            return ZEP_ENOMEM;
        for (int i = 0; i < n; i++)
            sw->port[i] = -1;
        n = sw->n_node;
    }
    if (sw->port) {
        int *p = n ? zep_reallocarray(sw->port, (size_t)n + 1, sizeof *p) : sw->port;

        if (!p)
            return ZEP_ENOMEM;
        sw->port = p;
        p[n] = nic;
    }
    return add_int(&sw->node, &sw->n_node, node);
}

int zep_switch_add_node(struct zep_switch *sw, int node)
{
    return zep_switch_add_port(sw, node, -1);
}

int zep_fabric_add_block_size(struct zep_fabric *fabric, int n_node)
{
    return add_int(&fabric->block_size, &fabric->n_block_size, n_node);
}

static int set_byte(unsigned char **array, int n, int at, int value)
{
    if (!*array && !(*array = zep_calloc((size_t)n + 1, 1)))
        return ZEP_ENOMEM;
    (*array)[at] = (unsigned char)(value > 255 ? 255 : value);
    return ZEP_OK;
}

int zep_node_set_nic_distance(struct zep_node *node, int dev, int nic, enum zep_distance d)
{
    return set_byte(&node->device[dev].nic_dist, node->n_nic, nic, (int)d);
}

int zep_node_set_peer(struct zep_node *node, int dev, int peer, enum zep_distance d, int n_nvlink)
{
    int rc = d == ZEP_DIST_UNKNOWN && !node->device[dev].peer_dist ? ZEP_OK : set_byte(&node->device[dev].peer_dist, node->n_device, peer, (int)d);

    return rc < 0 ? rc : set_byte(&node->device[dev].peer_nvlink, node->n_device, peer, n_nvlink);
}

int zep_node_add_note(struct zep_node *node, const char *key, const char *value)
{
    struct zep_note *p;
    char *k, *v = strdup(value);

    for (int i = 0; v && i < node->n_note; i++)
        if (!strcmp(node->note[i].key, key)) {
            free(node->note[i].value);
            node->note[i].value = v;
            return ZEP_OK;
        }
    k = strdup(key);
    p = room_small(node->note, node->n_note, sizeof *p);
    if (p)
        node->note = p;
    if (!p || !k || !v) {
        free(k);
        free(v);
        return ZEP_ENOMEM;
    }
    p[node->n_note++] = (struct zep_note){k, v};
    return ZEP_OK;
}

const char *zep_node_note(const struct zep_node *node, const char *key)
{
    for (int i = 0; i < node->n_note; i++)
        if (!strcmp(node->note[i].key, key))
            return node->note[i].value;
    return NULL;
}

void zep_topo_clear_notes(struct zep_topo *topo, const char *origin)
{
    char *copy = strdup(origin);
    int kept = 0;

    for (int i = 0; i < topo->n_warning; i++)
        if (strstr(topo->warning[i], " not among the "))
            free(topo->warning[i]);
        else
            topo->warning[kept++] = topo->warning[i];
    topo->n_warning = kept;
    if (copy) {
        free(topo->origin);
        topo->origin = copy;
    }
}

int zep_topo_add_conflict(struct zep_topo *topo, const char *where, const char *what, const char *kept, enum zep_source kept_source, const char *lost, enum zep_source lost_source)
{
    struct zep_conflict *c = room(topo->conflict, topo->n_conflict, &topo->cap_conflict, sizeof *c);

    if (!c)
        return ZEP_ENOMEM;
    topo->conflict = c;
    c += topo->n_conflict;
    *c = (struct zep_conflict){strdup(where), strdup(what), strdup(kept), strdup(lost), kept_source, lost_source};
    if (!c->where || !c->what || !c->kept || !c->lost) {
        free(c->where);
        free(c->what);
        free(c->kept);
        free(c->lost);
        return ZEP_ENOMEM;
    }
    zep_text_clean(c->where);
    zep_text_clean(c->what);
    zep_text_clean(c->kept);
    zep_text_clean(c->lost);
    topo->n_conflict++;
    return ZEP_OK;
}

int zep_topo_warn(struct zep_topo *topo, const char *fmt, ...)
{
    char **p = room(topo->warning, topo->n_warning, &topo->cap_warning, sizeof *p), *text;
    char line[1024];
    va_list ap;

    if (!p)
        return ZEP_ENOMEM;
    topo->warning = p;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    zep_text_clean(line);
    for (int i = 0; i < topo->n_warning && topo->n_warning < 1000; i++)
        if (!strcmp(topo->warning[i], line)) /* once is enough */
            return ZEP_OK;
    if (!(text = strdup(line)))
        return ZEP_ENOMEM;
    topo->warning[topo->n_warning++] = text;
    return ZEP_OK;
}
