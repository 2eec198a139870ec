/* An NCCL topology (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): CPUs, PCI switches, GPUs and NICs of one machine. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
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
    int node;          /* of the cpu that it is in */
    int dev, nic;      /* what this pci is in that node, -1 */
    int is_bridge, width;
    int unknown;       /* a pci without class, of which nothing inside said what it is */
};

#define MAX_HOSTS 4096

struct reader {
    const char *name;
    struct zep_error *err;
    XML_Parser parser;
    struct zep_topo *topo;
    int depth, rc, seen_system, n_virtual;
    int first_line;   /* lines before <system> that are none of the XML */
    int n_unknown, unknown_line; /* pci without class or content, the first one's line */
    int node;         /* of the cpu that is open: a dump of several hosts (NVLink over nodes) has a host_hash in each cpu */
    int n_host;
    char (*host)[40]; /* [n_host] by node */
    struct level level[MAX_DEPTH];
    struct link {
        int node, dev, count;
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

static int line_of(const struct reader *r)
{
    return (int)XML_GetCurrentLineNumber(r->parser) + r->first_line;
}

static struct zep_node *node_of(const struct reader *r)
{
    return &r->topo->node[r->node];
}

static void fail(struct reader *r, const char *fmt, const char *value)
{
    if (r->rc < 0)
        return;
    zep_error_set(r->err, ZEP_EINVAL, fmt, value);
    r->rc = zep_error_prefix(r->err, "%s:%d", r->name, line_of(r));
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

/* The pci at `level` is a GPU. */
static void make_gpu(struct reader *r, int level)
{
    struct level *l = &r->level[level];
    struct zep_node *n = node_of(r);
    struct zep_device *d = zep_node_add_device(n, l->busid, ZEP_DEV_GPU);

    if (!d || !(d->bus = bus_of(r, level))) {
        no_memory(r);
        return;
    }
    d->numa = numa_of(r);
    d->pcie_width = l->width;
    d->source = ZEP_SRC_NODE;
    l->dev = n->n_device - 1;
    l->unknown = 0;
}

/* It is a NIC, or, where it is a bridge, one hangs on it whose own function is not named. */
static void make_nic(struct reader *r, int level, int is_infiniband, int rdma)
{
    struct level *l = &r->level[level];
    struct zep_node *n = node_of(r);
    struct zep_nic *c = zep_node_add_nic(n, l->busid, l->busid);

    if (!c || !(c->bus = bus_of(r, level + l->is_bridge)) || (is_infiniband && !(c->link = strdup("infiniband")))) {
        no_memory(r);
        return;
    }
    c->numa = numa_of(r);
    c->pcie_width = l->width;
    c->rdma = rdma;
    c->source = ZEP_SRC_NODE;
    l->nic = n->n_nic - 1;
    l->unknown = 0;
}

/* The class says what a pci is, else what is in it: NCCL's own files may leave the class to the machine's /sys. */
static void open_pci(struct reader *r, const char **a, struct level *l)
{
    const char *busid = attr(a, "busid"), *cls = attr(a, "class"), *vendor = attr(a, "vendor");

    if (!busid) {
        fail(r, "pci without %s", "busid");
        return;
    }
    if (node_of(r)->n_device > MAX_PARTS || node_of(r)->n_nic > MAX_PARTS) {
        fail(r, "more than %s GPUs or NICs", "4096");
        return;
    }
    if (!is_busid(busid)) {
        fail(r, "busid '%s': expected a PCI address, as in 0000:17:00.0", busid);
        return;
    }
    snprintf(l->busid, sizeof l->busid, "%.39s", busid);
    l->width = width_of(a);
    l->unknown = cls ? 0 : line_of(r);
    l->is_bridge = cls && !strncmp(cls, "0x0604", 6);
    if (cls && is_gpu_class(cls))
        make_gpu(r, r->depth);
    else if (cls && is_net_class(cls))
        make_nic(r, r->depth, !strncmp(cls, "0x0207", 6), !strncmp(cls, "0x0207", 6) || (vendor && !strcmp(vendor, "0x1d0f")) ? 1 : -1); /* InfiniBand, EFA */
}

/* The pci that is around what is open, in the same cpu: a cpu inside of a pci (none that NCCL writes) may be of another node. */
static int pci_level(const struct reader *r)
{
    for (int i = r->depth - 1; i >= 0 && strcmp(r->level[i].name, "cpu"); i--)
        if (!strcmp(r->level[i].name, "pci"))
            return i;
    return -1;
}

static int pci_above(const struct reader *r, int want_nic)
{
    int i = pci_level(r);

    return i < 0 ? -1 : want_nic ? r->level[i].nic : r->level[i].dev;
}

/* <nic>, and a <net> outside of one */
static void open_nic(struct reader *r)
{
    int i = pci_level(r);

    if (i >= 0 && r->level[i].nic < 0)
        make_nic(r, i, 0, -1);
}

/* <net> names a port of a NIC; one that is in no pci is virtual (a socket interface of a virtual machine): it is not counted. */
static void open_net(struct reader *r, const char **a)
{
    const char *name = attr(a, "name"), *speed = attr(a, "speed"), *dev = attr(a, "gdr");
    struct zep_node *n = node_of(r);
    struct zep_nic *c;
    int at;

    open_nic(r);
    at = pci_above(r, 1);
    if (r->rc < 0)
        return;
    if (at < 0) {
        r->n_virtual++;
        return;
    }
    c = &n->nic[at];
    if (name && *name && strcmp(c->name, c->key) && strcmp(c->name, name)) { /* a second card's port on one function: a NIC of its own */
        char key[64], *bus = c->bus ? strdup(c->bus) : NULL;
        int numa = c->numa, width = c->pcie_width, rdma = c->rdma, port = 2;

        for (int i = 0; i < n->n_nic; i++)
            port += !strncmp(n->nic[i].key, c->key, strlen(c->key)) && n->nic[i].key[strlen(c->key)] == '/';
        snprintf(key, sizeof key, "%.40s/%d", c->key, port);
        if (!(c = zep_node_add_nic(n, key, name))) {
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
    l[r->n_link].node = r->node;
    l[r->n_link].dev = dev;
    l[r->n_link].to_switch = attr(a, "tclass") && !strncmp(attr(a, "tclass"), "0x0680", 6);
    l[r->n_link].count = count ? number_of(count, 255) : 1;
    snprintf(l[r->n_link++].target, sizeof l->target, "%.39s", target);
}

/* Several in one pci are ranks or parts of one GPU. */
static void open_gpu(struct reader *r)
{
    int i = pci_level(r);

    if (i >= 0 && r->level[i].dev < 0)
        make_gpu(r, i);
    else if (i < 0 && r->depth > 1)
        fail(r, "gpu outside of a %s", "pci");
}

static int find_host(const struct reader *r, const char *hash)
{
    for (int i = 0; i < r->n_host; i++)
        if (!strcmp(r->host[i], hash))
            return i;
    return -1;
}

/* Which host the cpu is of; without a hash the first. */
static void open_cpu(struct reader *r, const char **a, struct level *l)
{
    const char *numa = attr(a, "numaid"), *hash = attr(a, "host_hash");
    char id[64], (*host)[40];

    l->numa = numa && !strcmp(numa, "0") ? 0 : number_of(numa, 65535) > 0 ? number_of(numa, 65535) : -1;
    r->node = hash && find_host(r, hash) >= 0 ? find_host(r, hash) : 0;
    if (!hash || find_host(r, hash) >= 0)
        return;
    if (r->n_host == MAX_HOSTS || strlen(hash) > 38) {
        fail(r, r->n_host == MAX_HOSTS ? "host_hash '%.60s': more than 4096 hosts" : "host_hash '%.60s': expected a number of up to 36 digits", hash);
        return;
    }
    snprintf(id, sizeof id, "host-%.38s", strncmp(hash, "0x", 2) ? hash : hash + 2);
    if (zep_check_hostname(id, NULL) < 0) {
        fail(r, "host_hash '%.60s': expected a number, as in 0x16fe256e956b115c", hash);
        return;
    }
    if (!(host = zep_reallocarray(r->host, (size_t)r->n_host + 1, sizeof *host))) {
        no_memory(r);
        return;
    }
    r->host = host;
    if (r->n_host && !zep_topo_add_node(r->topo, id)) {
        no_memory(r);
        return;
    }
    snprintf(r->host[r->n_host], sizeof r->host[0], "%.38s", hash);
    r->node = r->n_host++;
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
    r->node = r->depth ? r->level[r->depth - 1].node : 0;
    *l = (struct level){.numa = -1, .dev = -1, .nic = -1};
    snprintf(l->name, sizeof l->name, "%.15s", name);
    if (!strcmp(name, "system"))
        r->seen_system = 1;
    else if (!strcmp(name, "cpu"))
        open_cpu(r, a, l);
    else if (!strcmp(name, "pci"))
        open_pci(r, a, l);
    else if (!strcmp(name, "gpu"))
        open_gpu(r);
    else if (!strcmp(name, "nic"))
        open_nic(r);
    else if (!strcmp(name, "net"))
        open_net(r, a);
    else if (!strcmp(name, "nvlink") || !strcmp(name, "xgmi"))
        open_link(r, a);
    l->node = r->node;
    r->depth++;
}

static void XMLCALL on_end(void *arg, const char *name)
{
    struct reader *r = arg;

    (void)name;
    if (r->depth > 0 && r->level[--r->depth].unknown && r->n_unknown++ == 0)
        r->unknown_line = r->level[r->depth].unknown;
}

/* The XML of NCCL declares no entities; a file that does is refused before anything grows. */
static void XMLCALL on_entity(void *arg, const char *name, int is_parameter, const char *value, int len, const char *base, const char *system, const char *public, const char *notation)
{
    (void)is_parameter, (void)value, (void)len, (void)base, (void)system, (void)public, (void)notation;
    fail(arg, "entity '%.40s' is declared: expected plain elements", name);
}

/* Links to NVSwitches of each GPU of a node; a target far from any PCI address is the domain over several hosts. */
static int set_node_links(struct reader *r, int node, int *to_self, int *is_domain)
{
    struct zep_node *n = &r->topo->node[node];
    int *to_switch = zep_calloc((size_t)n->n_device + 1, sizeof *to_switch), rc = to_switch ? ZEP_OK : ZEP_ENOMEM, n_linked = 0, bare = -1;

    for (int i = 0; i < r->n_link && rc == ZEP_OK; i++) {
        const struct link *l = &r->link[i];
        int target = l->node == node ? find_gpu(n, l->target) : -1;

        if (l->node != node)
            continue;
        if (target < 0 && l->to_switch)
            to_switch[l->dev] += l->count;
        *is_domain |= target < 0 && l->to_switch && !strncmp(l->target, "fffffff:", 8);
        *to_self += target == l->dev;
        if (target >= 0 && target != l->dev)
            rc = zep_node_set_peer(n, l->dev, target, ZEP_DIST_UNKNOWN, l->count);
    }
    for (int i = 0; i < n->n_device && rc == ZEP_OK; i++) { /* through NVSwitches everyone reaches everyone with the links that both have */
        n_linked += to_switch[i] > 0;
        bare = to_switch[i] ? bare : i;
        for (int k = 0; k < n->n_device && rc == ZEP_OK; k++)
            if (i != k && to_switch[i] && to_switch[k])
                rc = zep_node_set_peer(n, i, k, ZEP_DIST_UNKNOWN, to_switch[i] < to_switch[k] ? to_switch[i] : to_switch[k]);
    }
    if (rc == ZEP_OK && n_linked && bare >= 0)
        rc = zep_topo_warn(r->topo, "%s: GPU %s%s%s has no NVLinks, others of its node have: is it out of order?", r->name, n->device[bare].key, r->n_host > 1 ? " of " : "", r->n_host > 1 ? n->id : "");
    free(to_switch);
    return rc < 0 ? ZEP_ENOMEM : ZEP_OK;
}

/* Hosts whose GPUs reach each other by NVLink: NCCL writes several into one file only there. */
static int add_domain(struct reader *r, const unsigned char *is_in)
{
    struct zep_fabric *f = zep_topo_add_fabric(r->topo, "nvlink", ZEP_FABRIC_BLOCKS);
    struct zep_switch *sw = f ? zep_fabric_add_switch(f, "nvlink") : NULL;

    if (!sw)
        return ZEP_ENOMEM;
    f->source = ZEP_SRC_NODE;
    for (int i = 0; i < r->topo->n_node; i++)
        if (is_in[i] && zep_switch_add_node(sw, i) < 0)
            return ZEP_ENOMEM;
    return ZEP_OK;
}

static int set_links(struct reader *r)
{
    unsigned char *is_in = zep_calloc((size_t)r->topo->n_node + 1, 1);
    int to_self = 0, n_in = 0, rc = is_in ? ZEP_OK : ZEP_ENOMEM;

    for (int i = 0; i < r->topo->n_node && rc == ZEP_OK; i++) {
        int is_domain = 0;

        rc = set_node_links(r, i, &to_self, &is_domain);
        is_in[i] = (unsigned char)is_domain;
        n_in += is_domain;
    }
    if (rc == ZEP_OK && n_in > 1)
        rc = add_domain(r, is_in);
    free(is_in);
    if (rc < 0)
        return zep_error_nomem(r->err, "topology");
    if (to_self)
        zep_topo_warn(r->topo, "%s: %d NVLinks whose other end is their own GPU are not counted", r->name, to_self);
    if (r->n_virtual)
        zep_topo_warn(r->topo, "%s: %d net%s outside of any PCI device: not counted as NIC%s", r->name, r->n_virtual, r->n_virtual == 1 ? " is" : "s are", r->n_virtual == 1 ? "" : "s");
    if (r->n_unknown)
        zep_topo_warn(r->topo, "%s:%d: %d PCI device%s without class and content: what %s is not known", r->name, r->unknown_line, r->n_unknown, r->n_unknown == 1 ? " is" : "s are", r->n_unknown == 1 ? "it" : "they are");
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

/* What is before <system> in a log that the file was printed to, and behind its end, is none of the XML. */
static const char *system_of(const char *text, size_t *len, int *first_line)
{
    const char *begin = strstr(text, "<system"), *p = text + strspn(text, " \t\r\n"), *end;

    if (!begin || *p == '<')
        begin = text;
    for (p = text; p < begin; p++)
        *first_line += *p == '\n';
    end = strstr(begin, "</system>");
    *len = end ? (size_t)(end - begin) + strlen("</system>") : *len - (size_t)(begin - text);
    return begin;
}

/* Several hosts are named by their hashes; a single one by what the sources before say. */
static int name_hosts(struct reader *r)
{
    char id[64];

    if (r->n_host < 2)
        return ZEP_OK;
    snprintf(id, sizeof id, "host-%.38s", r->host[0] + 2 * !strncmp(r->host[0], "0x", 2));
    free(r->topo->node[0].id);
    return (r->topo->node[0].id = strdup(id)) ? ZEP_OK : zep_error_nomem(r->err, "topology");
}

static int finish(struct reader *r)
{
    int rc = set_links(r);

    for (int i = 0; i < r->topo->n_node && rc == ZEP_OK; i++) {
        r->topo->node[i].n_numa = n_numa(&r->topo->node[i]);
        r->topo->node[i].cpu_source = ZEP_SRC_NODE;
        if (zep_node_sort_devices(&r->topo->node[i]) < 0)
            rc = zep_error_nomem(r->err, "topology");
    }
    if (rc == ZEP_OK && (rc = name_hosts(r)) == ZEP_OK && (rc = zep_topo_validate(r->topo, r->err)) < 0)
        zep_error_prefix(r->err, "%s", r->name);
    return rc;
}

int zep_topo_from_nccl_xml(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {.name = q->file, .err = err, .parser = XML_ParserCreate(NULL)};
    char origin[400], host[256] = "localhost";
    size_t len = q->len;
    const char *text = system_of(q->text, &len, &r.first_line);

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
    if (XML_Parse(r.parser, text, (int)len, 1) == XML_STATUS_ERROR && r.rc == ZEP_OK)
        r.rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: not valid XML: %s", q->file, line_of(&r), XML_ErrorString(XML_GetErrorCode(r.parser)));
    if (r.rc == ZEP_OK && !r.seen_system)
        r.rc = zep_error_set(err, ZEP_EINVAL, "%s: no <system>: expected an NCCL topology", q->file);
    if (r.rc == ZEP_OK)
        r.rc = finish(&r);
out:
    if (r.parser)
        XML_ParserFree(r.parser);
    free(r.link);
    free(r.host);
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
