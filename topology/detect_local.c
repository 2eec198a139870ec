/* zeppelin-detect-local: this machine (or a recorded one) through hwloc, as JSON. */
#include "config.h"

#include <getopt.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "topology/detect.h"

/* The version that this was built with, for messages. */
#define HWLOC_STR(x) #x
#define HWLOC_XSTR(x) HWLOC_STR(x)
#define HWLOC_TEXT "(API " HWLOC_XSTR(HWLOC_API_VERSION) ")"

#define CLASS_VGA 0x0300
#define CLASS_3D 0x0302
#define CLASS_DISPLAY 0x0380
#define CLASS_ACCELERATOR 0x1200

struct found { /* what a device or NIC of the node is in hwloc */
    hwloc_obj_t pci;
    int is_ib; /* a NIC of the OpenFabrics kind: what collectives use where there is one */
};

struct local {
    hwloc_topology_t hw;
    struct zep_topo *topo;
    struct zep_node *node;
    int is_this_system;
    struct found dev[256], nic[256];
};

static int numa_of(const struct local *l, hwloc_obj_t obj)
{
    hwloc_obj_t up = hwloc_get_non_io_ancestor_obj(l->hw, obj);

    return up && up->nodeset && hwloc_bitmap_weight(up->nodeset) == 1 ? hwloc_bitmap_first(up->nodeset) : -1;
}

static void pci_name(hwloc_obj_t pci, char out[32])
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;

    snprintf(out, 32, "%04x:%02x:%02x.%01x", (unsigned)a->domain, a->bus, a->dev, a->func);
}

/* The VGA of a board's management controller: made by ATI, but it shows text only. */
static int is_board_vga(hwloc_obj_t pci)
{
    static const unsigned short id[] = {0x4752, 0x5159, 0x515e, 0x5969};

    for (size_t i = 0; i < sizeof id / sizeof id[0]; i++)
        if (pci->attr->pcidev.vendor_id == 0x1002 && pci->attr->pcidev.device_id == id[i])
            return 1;
    return 0;
}

/* Compute devices: 3D controllers and accelerators of any maker, display controllers of those who make GPUs (a board's own VGA does not compute). */
static int is_gpu(hwloc_obj_t pci)
{
    unsigned cls = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;
    int maker = (vendor == 0x10de || vendor == 0x1002) && !is_board_vga(pci);

    return cls == CLASS_3D || (cls == CLASS_ACCELERATOR && (maker || vendor == 0x8086)) || ((cls == CLASS_VGA || cls == CLASS_DISPLAY) && maker);
}

static int is_virtual_function(const struct local *l, hwloc_obj_t pci)
{
    char path[128], name[32];
    const char *text = hwloc_obj_get_info_by_name(pci, "PCIDevice");

    if (text && strstr(text, "Virtual Function"))
        return 1;
    pci_name(pci, name);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/physfn", name);
    return l->is_this_system && access(path, F_OK) == 0;
}

static double read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    double v = 0;

    if (!f)
        return 0;
    if (fscanf(f, "%lf", &v) != 1)
        v = 0;
    fclose(f);
    return v;
}

static int read_word(const char *path, char out[64])
{
    FILE *f = fopen(path, "re");
    int ok = f && fscanf(f, "%63s", out) == 1;

    if (f)
        fclose(f);
    return ok;
}

/* Port rate and state, as the kernel says them: /sys/class/infiniband has Gb/s, /sys/class/net Mb/s. */
static void port_facts(const struct local *l, const char *name, int is_ib, struct zep_nic *c)
{
    char path[256], word[64];
    double v;

    if (!l->is_this_system || strchr(name, '/'))
        return;
    if (is_ib) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/rate", name);
        v = read_number(path) * 1e9 / 8;
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/phys_state", name);
        if (read_word(path, word))
            c->up = atoi(word) == 5;
    } else {
        snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
        v = read_number(path) * 1e6 / 8;
        snprintf(path, sizeof path, "/sys/class/net/%s/operstate", name);
        if (read_word(path, word))
            c->up = !strcmp(word, "up");
    }
    if (v > 0)
        c->bw = (struct zep_fact){v, ZEP_SRC_NODE};
}

/* The operating system's names of one PCI function: the OpenFabrics one where there is one, else the network one. */
static const char *port_name(hwloc_obj_t pci, int *is_ib)
{
    const char *net = NULL;

    *is_ib = 0;
    for (hwloc_obj_t io = pci->io_first_child; io; io = io->next_sibling) {
        if (io->type != HWLOC_OBJ_OS_DEVICE)
            continue;
        if (io->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
            *is_ib = 1;
            return io->name;
        }
        if (io->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !net)
            net = io->name;
    }
    return net;
}

static int add_nic(struct local *l, hwloc_obj_t pci)
{
    int is_ib;
    const char *name = port_name(pci, &is_ib);
    char key[32];
    struct zep_nic *c;

    if (!name || is_virtual_function(l, pci) || l->node->n_nic == 256)
        return 0;
    pci_name(pci, key);
    l->nic[l->node->n_nic] = (struct found){pci, is_ib};
    if (!(c = zep_node_add_nic(l->node, key, name)))
        return -1;
    c->numa = numa_of(l, pci);
    port_facts(l, name, is_ib, c);
    return 0;
}

static int add_gpu(struct local *l, hwloc_obj_t pci)
{
    const char *vendor = hwloc_obj_get_info_by_name(pci, "PCIVendor"), *device = hwloc_obj_get_info_by_name(pci, "PCIDevice");
    struct zep_device *d;
    char key[32], model[200];

    if (is_virtual_function(l, pci) || l->node->n_device == 256)
        return 0;
    pci_name(pci, key);
    l->dev[l->node->n_device].pci = pci;
    if (!(d = zep_node_add_device(l->node, key, ZEP_DEV_GPU)))
        return -1;
    d->numa = numa_of(l, pci);
    if (device) {
        snprintf(model, sizeof model, "%s%s%s", vendor ? vendor : "", vendor ? " " : "", device);
        if (!(d->model = strdup(model)))
            return -1;
    }
    return 0;
}

static int scan_pci(struct local *l)
{
    hwloc_obj_t pci = NULL;

    while ((pci = hwloc_get_next_pcidev(l->hw, pci)))
        if ((is_gpu(pci) ? add_gpu(l, pci) : add_nic(l, pci)) < 0)
            return -1;
    return 0;
}

/* How far two PCI functions are: what their lowest common ancestor is, and how deep it lies (a nearer switch is deeper). */
static enum zep_distance distance(const struct local *l, hwloc_obj_t a, hwloc_obj_t b, int *depth)
{
    hwloc_obj_t up = a;

    *depth = 0;
    for (; up; up = up->parent) {
        hwloc_obj_t o = b;

        while (o && o != up)
            o = o->parent;
        if (o)
            break;
    }
    if (!up)
        return ZEP_DIST_UNKNOWN;
    if (up->type == HWLOC_OBJ_PCI_DEVICE || (up->type == HWLOC_OBJ_BRIDGE && up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)) {
        for (hwloc_obj_t o = up; o; o = o->parent)
            ++*depth;
        return ZEP_DIST_SWITCH;
    }
    if (up->type == HWLOC_OBJ_BRIDGE)
        return ZEP_DIST_BRIDGE;
    if (up->type == HWLOC_OBJ_MACHINE && hwloc_get_nbobjs_by_type(l->hw, HWLOC_OBJ_NUMANODE) > 1)
        return ZEP_DIST_SYSTEM;
    return ZEP_DIST_NUMA;
}

/* The NICs that carry training: not those that are down, not a slow or plain Ethernet one beside OpenFabrics ones. */
static int candidates(const struct local *l, int out[256])
{
    const struct zep_node *n = l->node;
    double fastest = 0;
    int any_ib = 0, count = 0;

    for (int c = 0; c < n->n_nic; c++)
        any_ib |= l->nic[c].is_ib && n->nic[c].up != 0;
    for (int c = 0; c < n->n_nic; c++)
        if ((!any_ib || l->nic[c].is_ib) && n->nic[c].up != 0 && n->nic[c].bw.value > fastest)
            fastest = n->nic[c].bw.value;
    for (int c = 0; c < n->n_nic; c++)
        if ((!any_ib || l->nic[c].is_ib) && n->nic[c].up != 0 && (n->nic[c].bw.value <= 0 || n->nic[c].bw.value * 4 > fastest))
            out[count++] = c;
    return count;
}

/* All equally far (a virtual machine that hides its buses) tells nothing. */
static int all_equal(const struct local *l, const int *cand, int n_cand)
{
    int first = -1, depth, first_depth = 0;

    for (int i = 0; i < l->node->n_device; i++)
        for (int k = 0; k < n_cand; k++) {
            int far = (int)distance(l, l->dev[i].pci, l->nic[cand[k]].pci, &depth);

            if (far == ZEP_DIST_SWITCH || (first >= 0 && (far != first || depth != first_depth)))
                return 0;
            first = far;
            first_depth = depth;
        }
    return 1;
}

/* Every GPU takes the nearest NIC, the less used one of those that are equally near. */
static void assign(struct local *l)
{
    int used[256] = {0}, cand[256], n_cand = candidates(l, cand);
    struct zep_node *n = l->node;

    if (n_cand > 1 && n->n_device > 1 && all_equal(l, cand, n_cand)) {
        zep_topo_warn(l->topo, "all %d NICs are equally far from all %d GPUs: which GPU should use which is not known", n_cand, n->n_device);
        return;
    }
    for (int i = 0; i < n->n_device; i++) {
        int best = -1, best_depth = 0, depth;
        enum zep_distance best_far = ZEP_DIST_SYSTEM;

        for (int k = 0; k < n_cand; k++) {
            int c = cand[k];
            enum zep_distance far = distance(l, l->dev[i].pci, l->nic[c].pci, &depth);

            if (far == ZEP_DIST_UNKNOWN)
                continue;
            if (best < 0 || far < best_far || (far == best_far && (depth > best_depth || (depth == best_depth && used[c] < used[best])))) {
                best = c;
                best_far = far;
                best_depth = depth;
            }
        }
        if (best < 0)
            continue;
        n->device[i].nic = best;
        n->device[i].nic_distance = best_far;
        used[best]++;
    }
}

static void scan_cpu(struct local *l)
{
    int sockets = hwloc_get_nbobjs_by_type(l->hw, HWLOC_OBJ_PACKAGE), cores = hwloc_get_nbobjs_by_type(l->hw, HWLOC_OBJ_CORE), pus = hwloc_get_nbobjs_by_type(l->hw, HWLOC_OBJ_PU);
    hwloc_obj_t root = hwloc_get_root_obj(l->hw);

    if (cores < 1)
        cores = pus;
    l->node->sockets = sockets > 0 ? sockets : 1;
    l->node->cores_per_socket = cores / l->node->sockets;
    l->node->threads_per_core = cores > 0 ? pus / cores : 0;
    if (l->node->sockets > 0 && cores % l->node->sockets)
        zep_topo_warn(l->topo, "%d cores on %d sockets: not the same number on each", cores, l->node->sockets);
    l->node->n_numa = hwloc_get_nbobjs_by_type(l->hw, HWLOC_OBJ_NUMANODE);
    l->node->mem_bytes = (int64_t)root->total_memory;
}

static int add_names(struct local *l, const char *xml)
{
    char full[256] = "", *dot;
    const char *name = hwloc_obj_get_info_by_name(hwloc_get_root_obj(l->hw), "HostName");
    char origin[400];

    if (!xml || !name) {
        gethostname(full, sizeof full - 1);
        name = xml ? "recorded" : full;
    }
    snprintf(origin, sizeof origin, xml ? "hwloc file %.360s" : "this machine through hwloc", xml ? xml : "");
    if (!(l->topo = zep_topo_new(name, origin)))
        return -1;
    if (name != full)
        snprintf(full, sizeof full, "%s", name);
    dot = strchr(full, '.');
    if (dot)
        *dot = '\0';
    if (!(l->node = zep_topo_add_node(l->topo, *full ? full : "localhost")))
        return -1;
    if (dot) {
        *dot = '.';
        return zep_node_add_alias(l->node, full);
    }
    return 0;
}

/* hwloc 3 writes kinds of OS devices as bits, hwloc 2 as one number; what has several is told by the one that matters here. */
static int old_osdev_type(long bits)
{
    return bits & 32 ? HWLOC_OBJ_OSDEV_OPENFABRICS : bits & 16 ? HWLOC_OBJ_OSDEV_NETWORK : bits & 8 ? HWLOC_OBJ_OSDEV_COPROC : bits & 4 ? HWLOC_OBJ_OSDEV_GPU : bits & 64 ? HWLOC_OBJ_OSDEV_DMA
                                                                                                                                                 : HWLOC_OBJ_OSDEV_BLOCK;
}

/* A file of hwloc 3 as hwloc 2 would have written the parts that we read. */
static void put_as_version_2(struct zep_buf *b, const char *text)
{
    static const char head[] = "<topology version=\"3.", type[] = "osdev_type=\"";
    const char *at = strstr(text, head), *next;

    zep_buf_add(b, text, (size_t)(at - text));
    zep_buf_puts(b, "<topology version=\"2.");
    for (text = at + strlen(head); (next = strstr(text, type)); ) {
        char *end;
        long bits = strtol(next + strlen(type), &end, 10);

        zep_buf_add(b, text, (size_t)(next - text));
        zep_buf_printf(b, "%s%d", type, old_osdev_type(bits));
        text = end;
    }
    zep_buf_puts(b, text);
}

static int set_xml(struct local *l, const char *path, struct zep_buf *b)
{
    struct zep_error err;
    char *text = NULL;
    size_t len;

    if (zep_fs_read(path, 64 << 20, &text, &len, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    if (HWLOC_API_VERSION < 0x30000 && strstr(text, "<topology version=\"3."))
        put_as_version_2(b, text);
    else
        zep_buf_puts(b, text);
    free(text);
    if (zep_buf_ok(b, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    if (hwloc_topology_set_xmlbuffer(l->hw, b->data, (int)b->len + 1) < 0) {
        fprintf(stderr, "%s: not an hwloc XML file\n", path);
        return -1;
    }
    return 0;
}

static int load(struct local *l, const char *xml, struct zep_buf *b)
{
    if (hwloc_topology_init(&l->hw) < 0)
        return -1;
    if (xml && set_xml(l, xml, b) < 0)
        return -1;
    hwloc_topology_set_io_types_filter(l->hw, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(l->hw) < 0) {
        fprintf(stderr, xml ? "%s: hwloc " HWLOC_TEXT " cannot read it\n" : "hwloc cannot tell\n", xml);
        return -1;
    }
    l->is_this_system = hwloc_topology_is_thissystem(l->hw);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"xml", required_argument, NULL, 'x'}, {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    struct local l = {0};
    struct zep_error err;
    const char *xml = NULL;
    struct zep_buf xml_text = ZEP_BUF_INIT; /* hwloc reads it until it has loaded */
    char *text = NULL;
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'x') {
            xml = optarg;
        } else if (c == 'V') {
            puts("zeppelin-detect-local " PACKAGE_VERSION);
            return 0;
        } else {
            fputs("usage: zeppelin-detect-local [--xml FILE]\nPrints this machine (or a recorded hwloc XML) as zeppelin-detect/1.0 JSON.\n", c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (load(&l, xml, &xml_text) < 0)
        return 1;
    if (add_names(&l, xml) < 0 || scan_pci(&l) < 0) {
        fputs("out of memory\n", stderr);
        return 1;
    }
    scan_cpu(&l);
    assign(&l);
    if (zep_detect_to_json(l.topo, &text, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    puts(text);
    free(text);
    zep_topo_free(l.topo);
    hwloc_topology_destroy(l.hw);
    zep_buf_free(&xml_text);
    return 0;
}
