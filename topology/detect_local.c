/* zeppelin-detect-local: this machine (or a recorded one) through hwloc, as JSON. */
#include "config.h"

#include <ctype.h>
#include <getopt.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "topology/detect.h"
#include "topology/detect_machine.h"

/* The version that this was built with, for messages. */
#define HWLOC_STR(x) #x
#define HWLOC_XSTR(x) HWLOC_STR(x)
#define HWLOC_TEXT "(API " HWLOC_XSTR(HWLOC_API_VERSION) ")"

#define CLASS_VGA 0x0300
#define CLASS_3D 0x0302
#define CLASS_DISPLAY 0x0380
#define CLASS_ACCELERATOR 0x1200

struct local {
    hwloc_topology_t hw;
    struct zep_topo *topo;
    struct zep_node *node;
    struct zep_sysfs sysfs;
    int n_vf; /* virtual functions passed over */
    int n_pci_gpu, n_nvml; /* GPUs on the bus, GPUs that NVML shows */
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

/* Compute devices: 3D controllers of any maker, accelerators of NVIDIA, AMD, Intel and Habana, display controllers of those who make GPUs (a board's own VGA does not compute). */
static int is_gpu(hwloc_obj_t pci)
{
    unsigned cls = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;
    int maker = (vendor == 0x10de || vendor == 0x1002) && !is_board_vga(pci);

    return cls == CLASS_3D || (cls == CLASS_ACCELERATOR && (maker || vendor == 0x8086 || vendor == 0x1da3)) || ((cls == CLASS_VGA || cls == CLASS_DISPLAY) && maker) || (cls == CLASS_DISPLAY && vendor == 0x8086);
}

static int is_virtual_function(struct local *l, hwloc_obj_t pci)
{
    const char *text = hwloc_obj_get_info_by_name(pci, "PCIDevice");
    char name[32];
    int is;

    pci_name(pci, name);
    is = (text && strstr(text, "Virtual Function")) || zep_sysfs_exists(&l->sysfs, "/sys/bus/pci/devices/%s/physfn", name);
    l->n_vf += is;
    return is;
}

/* The bridges above a PCI function, host bridge first: "pci0000:00/0000:00:01.0/0000:01:00.0". free(). */
static char *bus_of(hwloc_obj_t pci)
{
    hwloc_obj_t above[64];
    char text[64 * 20] = "", *p = text;
    int n = 0;

    for (hwloc_obj_t o = pci->parent; o && o->type == HWLOC_OBJ_BRIDGE && n < 64; o = o->parent)
        above[n++] = o;
    for (int i = n - 1; i >= 0; i--) {
        const struct hwloc_bridge_attr_s *a = &above[i]->attr->bridge;

        if (a->upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
            pci_name(above[i], p + (p > text));
            if (p > text)
                *p = '/';
        } else {
            sprintf(p, "%spci%04x:%02x", p > text ? "/" : "", (unsigned)a->downstream.pci.domain, a->downstream.pci.secondary_bus);
        }
        p += strlen(p);
    }
    return n ? strdup(text) : NULL;
}

/* The operating system's names of one PCI function: the OpenFabrics one and the network one. */
static void port_names(hwloc_obj_t pci, const char **verbs, const char **net, hwloc_obj_t *verbs_obj)
{
    *verbs = *net = NULL;
    *verbs_obj = NULL;
    for (hwloc_obj_t io = pci->io_first_child; io; io = io->next_sibling) {
        if (io->type != HWLOC_OBJ_OS_DEVICE)
            continue;
        if (io->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && !*verbs) {
            *verbs = io->name;
            *verbs_obj = io;
        } else if (io->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !*net) {
            *net = io->name;
        }
    }
}

static int set_place(struct local *l, hwloc_obj_t pci, const char *key, char **bus, int *numa, int *width)
{
    int most;

    *bus = bus_of(pci);
    *numa = numa_of(l, pci);
    zep_sysfs_pcie(&l->sysfs, key, width, &most);
    if (*width && most && *width < most)
        zep_topo_warn(l->topo, "node '%s': %s has a PCIe link of width x%d, it could have x%d", l->node->id, key, *width, most);
    return 0;
}

/* "b859:9f03:00fc:6de4" */
static int set_guid(struct zep_nic *c, const char *text)
{
    char *out = c->guid = strdup(text);

    if (!out)
        return -1;
    for (; *text; text++)
        if (*text != ':')
            *out++ = (char)tolower((unsigned char)*text);
    *out = '\0';
    return 0;
}

/* One NIC for each port of a verbs device, else one for the network interface. */
static int add_nic(struct local *l, hwloc_obj_t pci)
{
    const char *verbs, *net, *state;
    char key[40], name[80], info[32];
    hwloc_obj_t verbs_obj;
    int n_port;

    port_names(pci, &verbs, &net, &verbs_obj);
    if ((!verbs && !net) || is_virtual_function(l, pci))
        return 0;
    n_port = verbs ? zep_sysfs_n_port(&l->sysfs, verbs) : 0;
    for (int i = 0; i < (n_port > 1 ? n_port : 1) && l->node->n_nic < ZEP_MAX_PCI; i++) {
        struct zep_nic *c;

        pci_name(pci, key);
        snprintf(name, sizeof name, "%.70s", verbs ? verbs : net);
        if (i) {
            snprintf(key + strlen(key), sizeof key - strlen(key), "/%d", i + 1);
            snprintf(name, sizeof name, "%.60s:%d", verbs, i + 1);
        }
        if (!(c = zep_node_add_nic(l->node, key, name)))
            return -1;
        c->source = ZEP_SRC_NODE;
        c->rdma = verbs != NULL;
        key[12] = '\0'; /* the function, without the port */
        set_place(l, pci, key, &c->bus, &c->numa, &c->pcie_width);
        if (zep_sysfs_port(&l->sysfs, verbs ? verbs : net, verbs ? i + 1 : 0, c) < 0 || (net && zep_sysfs_bond(&l->sysfs, net, c) < 0))
            return -1;
        snprintf(info, sizeof info, "Port%dState", i + 1);
        state = verbs_obj ? hwloc_obj_get_info_by_name(verbs_obj, info) : NULL;
        snprintf(info, sizeof info, "NodeGUID");
        if (!c->guid && verbs_obj && hwloc_obj_get_info_by_name(verbs_obj, info) && set_guid(c, hwloc_obj_get_info_by_name(verbs_obj, info)) < 0)
            return -1;
        if (c->up < 0 && state)
            c->up = atoi(state) == 4; /* as recorded: ACTIVE */
        if (!c->link && pci->attr->pcidev.class_id == 0x0207 && !(c->link = strdup("infiniband")))
            return -1;
    }
    return 0;
}

static int add_gpu(struct local *l, hwloc_obj_t pci)
{
    const char *vendor = hwloc_obj_get_info_by_name(pci, "PCIVendor"), *device = hwloc_obj_get_info_by_name(pci, "PCIDevice");
    struct zep_device *d;
    char key[32], model[200];
    int at = l->node->n_device, n_slice;

    if (is_virtual_function(l, pci) || at == ZEP_MAX_PCI)
        return 0;
    l->n_pci_gpu++;
    pci_name(pci, key);
    if (!(d = zep_node_add_device(l->node, key, ZEP_DEV_GPU)))
        return -1;
    d->source = ZEP_SRC_NODE;
    set_place(l, pci, key, &d->bus, &d->numa, &d->pcie_width);
    if (device) {
        snprintf(model, sizeof model, "%.90s%s%.100s", vendor ? vendor : "", vendor ? " " : "", device);
        if (!(d->model = strdup(model)))
            return -1;
    }
    if (zep_sysfs_nvidia(&l->sysfs, l->node, at, &n_slice) < 0)
        return -1;
    if (n_slice)
        zep_node_drop_device(l->node, at);
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

/* Cores that this process may use: a container or a binding mask may leave fewer than there are, the places of devices do not change by it. */
static int count_allowed(struct local *l, hwloc_obj_type_t type)
{
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(l->hw);
    int n = 0;

    for (hwloc_obj_t o = hwloc_get_next_obj_by_type(l->hw, type, NULL); o; o = hwloc_get_next_obj_by_type(l->hw, type, o))
        n += !allowed || hwloc_bitmap_intersects(o->cpuset, allowed);
    return n;
}

static void scan_cpu(struct local *l)
{
    int sockets = count_allowed(l, HWLOC_OBJ_PACKAGE), cores = count_allowed(l, HWLOC_OBJ_CORE), pus = count_allowed(l, HWLOC_OBJ_PU);
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
    l->node->cpu_source = l->node->mem_source = ZEP_SRC_NODE;
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
    hwloc_topology_set_flags(l->hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(l->hw) < 0) {
        fprintf(stderr, xml ? "%s: hwloc " HWLOC_TEXT " cannot read it\n" : "hwloc cannot tell\n", xml);
        return -1;
    }
    if (!xml)
        l->sysfs.root = "";
    return 0;
}

static int machine_name(struct local *l)
{
    char word[128];
    const char *product = hwloc_obj_get_info_by_name(hwloc_get_root_obj(l->hw), "DMIProductName");

    if (!product && zep_sysfs_word(&l->sysfs, word, "/sys/class/dmi/id/product_name"))
        product = word;
    if (!product || !strcmp(product, "To be filled by O.E.M."))
        return 0;
    l->node->state_source = ZEP_SRC_NODE;
    return (l->node->model = strdup(product)) ? 0 : -1;
}

/* In a container or a virtual network a node's interfaces are no PCI devices: they are taken where there are no others. Their rate is nobody's: it stays unknown. */
static int scan_virtual(struct local *l)
{
    char **name = NULL, path[512], word[128];
    struct zep_error err;
    int n = 0, rc = 0;

    if (l->node->n_nic || !l->sysfs.root)
        return 0;
    snprintf(path, sizeof path, "%.400s/sys/class/net", l->sysfs.root);
    if (zep_fs_list(path, &name, &n, &err) < 0)
        return 0;
    for (int i = 0; i < n; i++) {
        struct zep_nic *c;

        if (rc == 0 && strcmp(name[i], "lo") && l->node->n_nic < ZEP_MAX_PCI && zep_sysfs_word(&l->sysfs, word, "/sys/class/net/%s/type", name[i]) && atoi(word) == 1 &&
            !zep_sysfs_exists(&l->sysfs, "/sys/class/net/%s/bridge", name[i]) && !zep_sysfs_exists(&l->sysfs, "/sys/class/net/%s/master", name[i]) && !zep_sysfs_exists(&l->sysfs, "/sys/class/net/%s/device", name[i])) {
            if (!(c = zep_node_add_nic(l->node, name[i], name[i])) || !(c->link = strdup("ethernet"))) {
                rc = -1;
            } else {
                c->source = ZEP_SRC_NODE;
                c->rdma = 0;
                if (zep_sysfs_word(&l->sysfs, word, "/sys/class/net/%s/operstate", name[i]) && strcmp(word, "unknown"))
                    c->up = !strcmp(word, "up");
            }
        }
        free(name[i]);
    }
    free(name);
    return rc;
}

/* What `zeppelin doctor` compares between nodes. */
static int add_notes(struct local *l)
{
    struct rlimit lim;
    struct statvfs shm;
    struct timespec now;
    struct utsname u;
    char text[128], word[128];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct zep_error err;
    char **name = NULL;
    int n_gpu = 0, bad = 0, n = 0;

    if (getrlimit(RLIMIT_MEMLOCK, &lim) == 0) {
        snprintf(text, sizeof text, lim.rlim_cur == RLIM_INFINITY ? "unlimited" : "%llu", (unsigned long long)lim.rlim_cur);
        bad |= zep_node_add_note(l->node, "memlock", text);
    }
    if (statvfs("/dev/shm", &shm) == 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)shm.f_blocks * shm.f_frsize);
        bad |= zep_node_add_note(l->node, "shm", text);
        snprintf(text, sizeof text, "%llu", (unsigned long long)shm.f_bavail * shm.f_frsize);
        bad |= zep_node_add_note(l->node, "shm_free", text);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text, "%lld.%03ld", (long long)now.tv_sec, now.tv_nsec / 1000000);
    bad |= zep_node_add_note(l->node, "clock", text);
    if (uname(&u) == 0)
        bad |= zep_node_add_note(l->node, "kernel", u.release);
    bad |= zep_node_add_note(l->node, "zeppelin", PACKAGE_VERSION);
    if (zep_sysfs_word(&l->sysfs, word, "/sys/module/nvidia/version"))
        bad |= zep_node_add_note(l->node, "nvidia driver", word);
    if (zep_sysfs_word(&l->sysfs, word, "/sys/module/mlx5_core/version"))
        bad |= zep_node_add_note(l->node, "mlx5 driver", word);
    if (visible)
        bad |= zep_node_add_note(l->node, "CUDA_VISIBLE_DEVICES", visible);
    if (zep_fs_list("/dev", &name, &n, &err) == 0) {
        for (int i = 0; i < n; i++) {
            n_gpu += !strncmp(name[i], "nvidia", 6) && isdigit((unsigned char)name[i][6]);
            free(name[i]);
        }
        free(name);
    }
    if (l->n_nvml > 0) {
        snprintf(text, sizeof text, "%d", l->n_nvml);
        bad |= zep_node_add_note(l->node, "nvml gpus", text);
        snprintf(text, sizeof text, "%d", l->n_pci_gpu);
        bad |= zep_node_add_note(l->node, "pci gpus", text);
    }
    snprintf(text, sizeof text, "%d", n_gpu);
    bad |= zep_node_add_note(l->node, "gpu files", text);
    return bad;
}

/* All that can be asked; negative: out of memory. */
static int detect(struct local *l, const char *xml, const char *nvml, struct zep_error *err)
{
    const char *addr = getenv("SLURM_TOPOLOGY_ADDR"), *pattern = getenv("SLURM_TOPOLOGY_ADDR_PATTERN");

    err->code = ZEP_ENOMEM;
    snprintf(err->text, sizeof err->text, "out of memory");
    if (add_names(l, xml) < 0)
        return -1;
    scan_cpu(l);
    if (machine_name(l) < 0 || scan_pci(l) < 0 || scan_virtual(l) < 0 || ((!xml || nvml) && (l->n_nvml = zep_nvml_read(l->topo, l->node, nvml)) < 0))
        return -1;
    if (!xml && add_notes(l) < 0)
        return -1;
    if (!xml && addr && zep_slurm_add_addr(l->topo, 0, addr, pattern, err) < 0)
        return -1;
    return 0;
}

/* In pieces that survive being mixed with those of other nodes on one stream: "zeppelin-probe NODE NUMBER OF PIECE". */
static void print_pieces(const char *node, const char *text)
{
    size_t len = strlen(text), piece = 600, n = (len + piece - 1) / piece;

    for (size_t i = 0; i < n; i++) {
        printf("zeppelin-probe %s %zu %zu %.*s\n", node, i, n, (int)(len - i * piece < piece ? len - i * piece : piece), text + i * piece);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"xml", required_argument, NULL, 'x'}, {"machine", required_argument, NULL, 'm'}, {"nvml", required_argument, NULL, 'n'}, {"probe", no_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    static const char usage[] = "usage: zeppelin-detect-local [--xml FILE | --machine DIR] [--nvml LIBRARY] [--probe]\n"
                                "Prints this machine (or a recorded one: hwloc XML, or a folder with hwloc.xml and parts of /sys and /proc) as zeppelin-detect/1.0 JSON.\n";
    static struct local l;
    struct zep_error err;
    const char *xml = NULL, *nvml = NULL;
    struct zep_buf xml_text = ZEP_BUF_INIT; /* hwloc reads it until it has loaded */
    char *text = NULL, *machine = NULL;
    int c, probe = 0, rc = 0;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'x') {
            xml = optarg;
        } else if (c == 'm') {
            l.sysfs.root = optarg;
            free(machine);
            xml = machine = zep_fs_join(optarg, "hwloc.xml");
        } else if (c == 'n') {
            nvml = optarg;
        } else if (c == 'p') {
            probe = 1;
        } else if (c == 'V') {
            puts("zeppelin-detect-local " PACKAGE_VERSION);
            return 0;
        } else {
            fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (load(&l, xml, &xml_text) < 0) {
        rc = 1;
    } else if (detect(&l, xml, nvml, &err) < 0 || zep_detect_to_json(l.topo, &text, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        rc = 1;
    } else if (probe)
        print_pieces(l.node->id, text);
    else
        puts(text);
    free(text);
    free(machine);
    zep_topo_free(l.topo);
    if (l.hw)
        hwloc_topology_destroy(l.hw);
    zep_buf_free(&xml_text);
    return rc;
}
