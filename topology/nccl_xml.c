/* An NCCL topology (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): CPUs, PCI switches, GPUs and NICs of one machine. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "topology/topo_internal.h"

int zep_topo_is_nccl_xml(const char *text, size_t len)
{
    const char *p = strstr(text, "<system");

    (void)len;
    return p && strstr(p, "<cpu") != NULL;
}

#ifdef HAVE_EXPAT
#include <expat.h>

#define MAX_DEPTH 64
#define MAX_PARTS 4096

struct level { /* an element that is open */
    char name[16], busid[40], net_class[16];
    int numa;          /* of a cpu, else -1 */
    int dev, nic;      /* what this pci is, -1 */
};

struct reader {
    const char *name;
    struct zep_error *err;
    XML_Parser parser;
    struct zep_topo *topo;
    int depth, rc, seen_system, n_virtual;
    struct level level[MAX_DEPTH];
    struct link {
        int dev, count;
        int to_switch;
        char target[40];
    } *link;
    int n_link;
};

static int find_gpu(const struct zep_node *n, const char *busid)
{
    for (int k = 0; k < n->n_device; k++)
        if (zep_same_pci(n->device[k].key, busid))
            return k;
    return -1;
}

static const char *attr(const char **a, const char *key)
{
    for (; *a; a += 2)
        if (!strcmp(a[0], key))
            return a[1];
    return NULL;
}

static void fail(struct reader *r, const char *fmt, const char *value)
{
    if (r->rc < 0)
        return;
    zep_error_set(r->err, ZEP_EINVAL, fmt, value);
    r->rc = zep_error_prefix(r->err, "%s:%lu", r->name, (unsigned long)XML_GetCurrentLineNumber(r->parser));
    XML_StopParser(r->parser, XML_FALSE);
}

static void no_memory(struct reader *r)
{
    r->rc = zep_error_nomem(r->err, r->name);
    XML_StopParser(r->parser, XML_FALSE);
}

/* "numa0/ffff:ff:01.0" of what is open; NULL out of memory. */
static char *bus_of(const struct reader *r, int depth)
{
    char text[MAX_DEPTH * 48] = "", *p = text;

    for (int i = 0; i < depth; i++) {
        if (!strcmp(r->level[i].name, "cpu"))
            p += sprintf(p, "numa%d", r->level[i].numa);
        else if (!strcmp(r->level[i].name, "pci") && *r->level[i].busid)
            p += sprintf(p, "%s%s", p > text ? "/" : "", r->level[i].busid);
    }
    return strdup(text);
}

static int numa_of(const struct reader *r)
{
    for (int i = r->depth - 1; i >= 0; i--)
        if (!strcmp(r->level[i].name, "cpu"))
            return r->level[i].numa;
    return -1;
}

/* GPUs: display and 3D controllers, AMD's accelerators; NICs: Ethernet and InfiniBand. Bridges (0604) and NVSwitches (0680) are neither. */
static int is_gpu_class(const char *c)
{
    return !strncmp(c, "0x0302", 6) || !strncmp(c, "0x0300", 6) || !strncmp(c, "0x0380", 6) || !strncmp(c, "0x1200", 6);
}

static int is_net_class(const char *c)
{
    return !strncmp(c, "0x0207", 6) || !strncmp(c, "0x0200", 6) || !strncmp(c, "0x0280", 6);
}

/* A small number, as NCCL writes them; 0: none, or one that cannot be. */
static int number_of(const char *text, int most)
{
    long v = text && strlen(text) < 10 ? strtol(text, NULL, 10) : 0;

    return v > 0 && v <= most ? (int)v : 0;
}

static int width_of(const char **a)
{
    const char *w = attr(a, "link_width");
    int n = number_of(w, 1 << 16);

    return n > 0 && n <= 64 ? n : 0;
}

/* "0000:17:00.0"; NCCL's own bridges are "ffff:ff:01.0". */
static int is_busid(const char *s)
{
    static const char *const parts[] = {":", ":", ".", ""};

    for (int i = 0; i < 4; i++) {
        size_t n = strspn(s, "0123456789abcdefABCDEF");

        if (n < 1 || n > 8 || strncmp(s + n, parts[i], 1))
            return 0;
        s += n + (*parts[i] != '\0');
    }
    return *s == '\0';
}

static void open_pci(struct reader *r, const char **a, struct level *l)
{
    const char *busid = attr(a, "busid"), *cls = attr(a, "class"), *vendor = attr(a, "vendor");
    struct zep_node *n = &r->topo->node[0];

    if (!busid || !cls) {
        fail(r, "pci without %s", busid ? "class" : "busid");
        return;
    }
    if (n->n_device > MAX_PARTS || n->n_nic > MAX_PARTS) {
        fail(r, "more than %s GPUs or NICs", "4096");
        return;
    }
    if (!is_busid(busid)) {
        fail(r, "busid '%s': expected a PCI address, as in 0000:17:00.0", busid);
        return;
    }
    snprintf(l->busid, sizeof l->busid, "%.39s", busid);
    if (is_gpu_class(cls)) {
        struct zep_device *d = zep_node_add_device(n, l->busid, ZEP_DEV_GPU);

        if (!d || !(d->bus = bus_of(r, r->depth))) {
            no_memory(r);
            return;
        }
        d->numa = numa_of(r);
        d->pcie_width = width_of(a);
        d->source = ZEP_SRC_NODE;
        l->dev = n->n_device - 1;
    } else if (is_net_class(cls)) {
        struct zep_nic *c = zep_node_add_nic(n, l->busid, l->busid);

        if (!c || !(c->bus = bus_of(r, r->depth)) || (!strncmp(cls, "0x0207", 6) && !(c->link = strdup("infiniband")))) {
            no_memory(r);
            return;
        }
        c->numa = numa_of(r);
        c->pcie_width = width_of(a);
        c->rdma = !strncmp(cls, "0x0207", 6) || (vendor && !strcmp(vendor, "0x1d0f")) ? 1 : -1; /* InfiniBand, EFA */
        c->source = ZEP_SRC_NODE;
        l->nic = n->n_nic - 1;
    }
}

static int pci_above(const struct reader *r, int want_nic)
{
    for (int i = r->depth - 1; i >= 0; i--)
        if (!strcmp(r->level[i].name, "pci"))
            return want_nic ? r->level[i].nic : r->level[i].dev;
    return -1;
}

/* <net> names a port of a NIC; one that is in no pci is virtual (a socket interface of a virtual machine): it is not counted. */
static void open_net(struct reader *r, const char **a)
{
    const char *name = attr(a, "name"), *speed = attr(a, "speed"), *dev = attr(a, "gdr");
    int at = pci_above(r, 1);
    struct zep_nic *c;

    if (at < 0) {
        r->n_virtual++;
        return;
    }
    c = &r->topo->node[0].nic[at];
    if (name && *name && strcmp(c->name, c->key) && strcmp(c->name, name)) { /* a second card's port on one function: a NIC of its own */
        char key[64], *bus = c->bus ? strdup(c->bus) : NULL;
        int numa = c->numa, width = c->pcie_width, rdma = c->rdma, n = 2;

        for (int i = 0; i < r->topo->node[0].n_nic; i++)
            n += !strncmp(r->topo->node[0].nic[i].key, c->key, strlen(c->key)) && r->topo->node[0].nic[i].key[strlen(c->key)] == '/';
        snprintf(key, sizeof key, "%.40s/%d", c->key, n);
        if (!(c = zep_node_add_nic(&r->topo->node[0], key, name))) {
            free(bus);
            no_memory(r);
            return;
        }
        c->bus = bus;
        c->numa = numa;
        c->pcie_width = width;
        c->rdma = rdma;
        c->source = ZEP_SRC_NODE;
    } else if (name && *name && !strcmp(c->name, c->key)) {
        char *copy = strdup(name);

        if (!copy) {
            no_memory(r);
            return;
        }
        free(c->name);
        c->name = copy;
    }
    if (number_of(dev, 1 << 16) > 0)
        c->rdma = 1;
    if (name && !strncmp(name, "mlx", 3))
        c->rdma = 1;
    if (speed && (speed[strspn(speed, "0123456789.")] || atof(speed) > 1e9)) {
        fail(r, "speed '%s': expected Mb/s, a number up to 1e9", speed);
        return;
    }
    if (speed && atof(speed) > 0)
        c->bw = (struct zep_fact){.value = atof(speed) * 1e6 / 8, .source = ZEP_SRC_NODE};
}

static void open_link(struct reader *r, const char **a)
{
    const char *target = attr(a, "target"), *count = attr(a, "count");
    int dev = pci_above(r, 0);
    struct link *l;

    if (dev < 0 || !target)
        return;
    if (!(l = zep_reallocarray(r->link, (size_t)r->n_link + 1, sizeof *l))) {
        no_memory(r);
        return;
    }
    r->link = l;
    l[r->n_link].dev = dev;
    l[r->n_link].to_switch = attr(a, "tclass") && !strncmp(attr(a, "tclass"), "0x0680", 6);
    l[r->n_link].count = count ? number_of(count, 255) : 1;
    snprintf(l[r->n_link++].target, sizeof l->target, "%.39s", target);
}

static void open_gpu(struct reader *r)
{
    /* a <gpu> below a pci whose class is unusual is a GPU nevertheless; classes were looked at before */
    if (pci_above(r, 0) < 0 && r->depth > 1)
        fail(r, "gpu in a pci that is %s", "no display controller");
}

static void XMLCALL on_start(void *arg, const char *name, const char **a)
{
    struct reader *r = arg;
    struct level *l;

    if (r->rc < 0)
        return;
    if (r->depth == MAX_DEPTH) {
        fail(r, "elements inside each other more than %s deep", "64");
        return;
    }
    l = &r->level[r->depth];
    *l = (struct level){.numa = -1, .dev = -1, .nic = -1};
    snprintf(l->name, sizeof l->name, "%.15s", name);
    if (!strcmp(name, "system"))
        r->seen_system = 1;
    else if (!strcmp(name, "cpu"))
        l->numa = attr(a, "numaid") && !strcmp(attr(a, "numaid"), "0") ? 0 : number_of(attr(a, "numaid"), 65535) > 0 ? number_of(attr(a, "numaid"), 65535) : -1;
    else if (!strcmp(name, "pci"))
        open_pci(r, a, l);
    else if (!strcmp(name, "gpu"))
        open_gpu(r);
    else if (!strcmp(name, "net"))
        open_net(r, a);
    else if (!strcmp(name, "nvlink") || !strcmp(name, "xgmi"))
        open_link(r, a);
    r->depth++;
}

static void XMLCALL on_end(void *arg, const char *name)
{
    struct reader *r = arg;

    (void)name;
    if (r->depth > 0)
        r->depth--;
}

/* The XML of NCCL declares no entities; a file that does is refused before anything grows. */
static void XMLCALL on_entity(void *arg, const char *name, int is_parameter, const char *value, int len, const char *base, const char *system, const char *public, const char *notation)
{
    (void)is_parameter, (void)value, (void)len, (void)base, (void)system, (void)public, (void)notation;
    fail(arg, "entity '%.40s' is declared: expected plain elements", name);
}

static int set_links(struct reader *r)
{
    struct zep_node *n = &r->topo->node[0];
    int to_self = 0, rc = ZEP_OK, *to_switch = zep_calloc((size_t)n->n_device + 1, sizeof *to_switch);

    if (!to_switch)
        return zep_error_nomem(r->err, "topology");
    for (int i = 0; i < r->n_link && rc == ZEP_OK; i++) {
        int target = find_gpu(n, r->link[i].target);

        if (target < 0 && r->link[i].to_switch)
            to_switch[r->link[i].dev] += r->link[i].count;
        if (target == r->link[i].dev) {
            to_self++;
            continue;
        }
        if (target >= 0 && zep_node_set_peer(n, r->link[i].dev, target, ZEP_DIST_UNKNOWN, r->link[i].count) < 0)
            rc = zep_error_nomem(r->err, "topology");
    }
    for (int i = 0; i < n->n_device && rc == ZEP_OK; i++) /* through NVSwitches everyone reaches everyone with the links that both have */
        for (int k = 0; k < n->n_device && rc == ZEP_OK; k++)
            if (i != k && to_switch[i] && to_switch[k] && zep_node_set_peer(n, i, k, ZEP_DIST_UNKNOWN, to_switch[i] < to_switch[k] ? to_switch[i] : to_switch[k]) < 0)
                rc = zep_error_nomem(r->err, "topology");
    free(to_switch);
    if (rc < 0)
        return rc;
    if (to_self)
        zep_topo_warn(r->topo, "%s: %d NVLinks whose other end is their own GPU are not counted", r->name, to_self);
    if (r->n_virtual)
        zep_topo_warn(r->topo, "%s: %d net%s outside of any PCI device: not counted as NIC%s", r->name, r->n_virtual, r->n_virtual == 1 ? " is" : "s are", r->n_virtual == 1 ? "" : "s");
    return ZEP_OK;
}

static int n_numa(const struct zep_node *n)
{
    int top = 0;

    for (int i = 0; i < n->n_device; i++)
        top = n->device[i].numa + 1 > top ? n->device[i].numa + 1 : top;
    for (int i = 0; i < n->n_nic; i++)
        top = n->nic[i].numa + 1 > top ? n->nic[i].numa + 1 : top;
    return top;
}

int zep_topo_from_nccl_xml(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {.name = q->file, .err = err, .parser = XML_ParserCreate(NULL)};
    char origin[400], host[256] = "localhost";

    snprintf(origin, sizeof origin, "NCCL topology %.360s", q->file);
    if (q->base && q->base->n_node == 1)
        snprintf(host, sizeof host, "%.250s", q->base->node[0].id);
    r.topo = zep_topo_new("machine", origin);
    if (!r.parser || !r.topo || !zep_topo_add_node(r.topo, host)) {
        r.rc = zep_error_nomem(err, q->file);
        goto out;
    }
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetEntityDeclHandler(r.parser, on_entity);
    if (XML_Parse(r.parser, q->text, (int)q->len, 1) == XML_STATUS_ERROR && r.rc == ZEP_OK)
        r.rc = zep_error_set(err, ZEP_EINVAL, "%s:%lu: not valid XML: %s", q->file, (unsigned long)XML_GetCurrentLineNumber(r.parser), XML_ErrorString(XML_GetErrorCode(r.parser)));
    if (r.rc == ZEP_OK && !r.seen_system)
        r.rc = zep_error_set(err, ZEP_EINVAL, "%s: no <system>: expected an NCCL topology", q->file);
    if (r.rc == ZEP_OK && (r.rc = set_links(&r)) == ZEP_OK) {
        r.topo->node[0].n_numa = n_numa(&r.topo->node[0]);
        r.topo->node[0].cpu_source = ZEP_SRC_NODE;
        if (zep_node_sort_devices(&r.topo->node[0]) < 0)
            r.rc = zep_error_nomem(err, "topology");
        else if ((r.rc = zep_topo_validate(r.topo, err)) < 0)
            zep_error_prefix(err, "%s", q->file);
    }
out:
    if (r.parser)
        XML_ParserFree(r.parser);
    free(r.link);
    if (r.rc < 0)
        zep_topo_free(r.topo);
    else
        *topo_out = r.topo;
    return r.rc;
}
#else
int zep_topo_from_nccl_xml(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    (void)topo_out;
    return zep_error_set(err, ZEP_EUNAVAIL, "%s: an NCCL topology: this build cannot read XML (expat was missing)", q->file);
}
#endif
