/* zeppelin-detect-local: this machine (or a recorded one) through hwloc, as JSON. */
#include "config.h"

#include <getopt.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topology/detect.h"

#define CLASS_VGA 0x0300
#define CLASS_3D 0x0302
#define CLASS_DISPLAY 0x0380
#define CLASS_ACCELERATOR 0x1200

struct found { /* what a device or NIC of the node is in hwloc */
    hwloc_obj_t pci;
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

/* Compute devices: 3D controllers and accelerators of any maker, display controllers of those who make GPUs (a board's own VGA does not compute). */
static int is_gpu(hwloc_obj_t pci)
{
    unsigned cls = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;
    int maker = vendor == 0x10de || vendor == 0x1002;

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
    l->nic[l->node->n_nic].pci = pci;
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

/* How far two PCI functions are: what their lowest common ancestor is. */
static enum zep_distance distance(const struct local *l, hwloc_obj_t a, hwloc_obj_t b)
{
    hwloc_obj_t up = a;

    for (; up; up = up->parent) {
        hwloc_obj_t o = b;

        while (o && o != up)
            o = o->parent;
        if (o)
            break;
    }
    if (!up)
        return ZEP_DIST_UNKNOWN;
    if (up->type == HWLOC_OBJ_BRIDGE)
        return up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? ZEP_DIST_SWITCH : ZEP_DIST_BRIDGE;
    if (up->type == HWLOC_OBJ_PCI_DEVICE)
        return ZEP_DIST_SWITCH;
    if (up->type == HWLOC_OBJ_MACHINE && hwloc_get_nbobjs_by_type(l->hw, HWLOC_OBJ_NUMANODE) > 1)
        return ZEP_DIST_SYSTEM;
    return ZEP_DIST_NUMA;
}

/* Every GPU takes the nearest NIC, the less used one of those that are equally near. All equally far (a virtual machine that hides its buses) tells nothing. */
static void assign(struct local *l)
{
    int used[256] = {0}, seen[8] = {0}, kinds = 0;
    struct zep_node *n = l->node;

    for (int i = 0; i < n->n_device; i++)
        for (int c = 0; c < n->n_nic; c++)
            kinds += !seen[distance(l, l->dev[i].pci, l->nic[c].pci)]++;
    if (kinds == 1 && n->n_nic > 1 && n->n_device > 1 && !seen[ZEP_DIST_SWITCH]) {
        zep_topo_warn(l->topo, "all %d NICs are equally far from all %d GPUs: which GPU should use which is not known", n->n_nic, n->n_device);
        return;
    }
    for (int i = 0; i < n->n_device; i++) {
        int best = -1;
        enum zep_distance best_far = ZEP_DIST_SYSTEM;

        for (int c = 0; c < n->n_nic; c++) {
            enum zep_distance far = distance(l, l->dev[i].pci, l->nic[c].pci);

            if (far == ZEP_DIST_UNKNOWN || n->nic[c].up == 0)
                continue;
            if (best < 0 || far < best_far || (far == best_far && used[c] < used[best])) {
                best = c;
                best_far = far;
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

static int load(struct local *l, const char *xml)
{
    if (hwloc_topology_init(&l->hw) < 0)
        return -1;
    if (xml && hwloc_topology_set_xml(l->hw, xml) < 0) {
        fprintf(stderr, "%s: not an hwloc XML file\n", xml);
        return -1;
    }
    hwloc_topology_set_io_types_filter(l->hw, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(l->hw) < 0) {
        fprintf(stderr, "%s%shwloc cannot tell\n", xml ? xml : "", xml ? ": " : "");
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
    if (load(&l, xml) < 0)
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
    return 0;
}
