/* NVML by its documented interface, opened at run time: no header and no library are needed to build. */
#include "config.h"
#include "topology/detect_machine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "topology/topo_internal.h"

/* From NVIDIA's NVML reference: names, layouts and numbers of what is used. */
typedef struct nvml_device *nvml_device_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} nvml_pci_t;
typedef struct {
    unsigned long long total, free, used;
} nvml_memory_t;
typedef struct { /* nvmlGpuFabricInfo_t */
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
} nvml_fabric_t;
typedef struct { /* nvmlDeviceAttributes_t */
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} nvml_attributes_t;

#define NVML_MAX_LINKS 18
#define NVML_FABRIC_COMPLETED 3
#define NVML_UUID_SIZE 96

struct nvml {
    void *lib;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device_t *);
    int (*pci)(nvml_device_t, nvml_pci_t *);
    int (*uuid)(nvml_device_t, char *, unsigned);
    int (*name)(nvml_device_t, char *, unsigned);
    int (*memory)(nvml_device_t, nvml_memory_t *);
    int (*link_state)(nvml_device_t, unsigned, int *);
    int (*link_version)(nvml_device_t, unsigned, unsigned *);
    int (*link_remote)(nvml_device_t, unsigned, nvml_pci_t *);
    int (*mig_mode)(nvml_device_t, unsigned *, unsigned *);
    int (*mig_max)(nvml_device_t, unsigned *);
    int (*mig_by_index)(nvml_device_t, unsigned, nvml_device_t *);
    int (*attributes)(nvml_device_t, nvml_attributes_t *);
    int (*fabric)(nvml_device_t, nvml_fabric_t *);
};

static int open_nvml(struct nvml *n, const char *lib)
{
    const struct {
        void *slot;
        const char *name;
        int needed;
    } symbols[] = {
        {&n->init, "nvmlInit_v2", 1}, {&n->shutdown, "nvmlShutdown", 1}, {&n->count, "nvmlDeviceGetCount_v2", 1}, {&n->by_index, "nvmlDeviceGetHandleByIndex_v2", 1},
        {&n->pci, "nvmlDeviceGetPciInfo_v3", 1}, {&n->uuid, "nvmlDeviceGetUUID", 1}, {&n->name, "nvmlDeviceGetName", 0}, {&n->memory, "nvmlDeviceGetMemoryInfo", 0},
        {&n->link_state, "nvmlDeviceGetNvLinkState", 0}, {&n->link_version, "nvmlDeviceGetNvLinkVersion", 0}, {&n->link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", 0},
        {&n->mig_mode, "nvmlDeviceGetMigMode", 0}, {&n->mig_max, "nvmlDeviceGetMaxMigDeviceCount", 0}, {&n->mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex", 0},
        {&n->attributes, "nvmlDeviceGetAttributes_v2", 0}, {&n->fabric, "nvmlDeviceGetGpuFabricInfo", 0},
    };

    if (!(n->lib = dlopen(lib ? lib : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)))
        return 0;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *f = dlsym(n->lib, symbols[i].name);

        if (!f && symbols[i].needed)
            return 0;
        memcpy(symbols[i].slot, &f, sizeof f);
    }
    return n->init() == 0;
}

static void pci_key(const nvml_pci_t *p, char out[32])
{
    snprintf(out, 32, "%04x:%02x:%02x.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
}

static int set_text(char **out, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        return -1;
    free(*out);
    *out = copy;
    return 0;
}

static int find_device(const struct zep_node *node, const char *key)
{
    for (int i = 0; i < node->n_device; i++)
        if (!strcmp(node->device[i].key, key))
            return i;
    return -1;
}

/* One direction of one NVLink, bytes/s, by nvmlNvlinkVersion_t of nvml.h: 1 is NVLink 1.0, then 2.0, 2.2, 3.0, 3.1, 4.0, 7 is 5.0 (NVIDIA's data sheets: 20 GB/s, 25, and 50 from 5.0 on).
 * Some drivers say 5.0 on Hopper, whose links are those of 4.0. */
static double link_bytes_s(unsigned version, const char *model)
{
    static const double gb[] = {0, 20, 25, 25, 25, 25, 25, 50};
    static const char *const hopper[] = {"H100", "H200", "H800", "H20", "GH200"};

    for (size_t i = 0; version == 7 && model && i < sizeof hopper / sizeof hopper[0]; i++)
        if (strstr(model, hopper[i]))
            return 25e9;
    return version < sizeof gb / sizeof gb[0] ? gb[version] * 1e9 : 0;
}

/* NVLinks that are up: their bandwidth together, and which lead straight to another GPU of the node. */
static int read_links(const struct nvml *n, nvml_device_t h, struct zep_node *node, int dev)
{
    unsigned version = 0;
    double bw = 0;
    int n_up = 0;

    for (unsigned l = 0; n->link_state && l < NVML_MAX_LINKS; l++) {
        nvml_pci_t remote;
        char key[32];
        int up = 0, peer;

        if (n->link_state(h, l, &up) || !up)
            continue;
        n_up++;
        if (n->link_version && n->link_version(h, l, &version) == 0)
            bw += link_bytes_s(version, node->device[dev].model);
        if (!n->link_remote || n->link_remote(h, l, &remote))
            continue;
        pci_key(&remote, key);
        if ((peer = find_device(node, key)) >= 0 && peer != dev) {
            const unsigned char *have = node->device[dev].peer_nvlink;

            if (zep_node_set_peer(node, dev, peer, ZEP_DIST_UNKNOWN, have ? have[peer] + 1 : 1) < 0)
                return -1;
        }
    }
    if (n_up && !node->device[dev].peer_nvlink) /* all through switches: every GPU reaches every other with all its links */
        for (int k = 0; k < node->n_device; k++)
            if (k != dev && zep_node_set_peer(node, dev, k, ZEP_DIST_UNKNOWN, n_up) < 0)
                return -1;
    if (bw > 0)
        node->device[dev].bw = (struct zep_fact){.value = bw, .source = ZEP_SRC_NODE, .derived = 1};
    return 0;
}

static int read_gpu(const struct nvml *n, nvml_device_t h, struct zep_node *node, int dev)
{
    struct zep_device *d = &node->device[dev];
    char text[NVML_UUID_SIZE] = "";
    nvml_memory_t mem;

    d->source = ZEP_SRC_NODE;
    if (n->uuid(h, text, sizeof text) == 0 && set_text(&d->uuid, text) < 0)
        return -1;
    if (n->name && n->name(h, text, sizeof text) == 0 && set_text(&d->model, text) < 0)
        return -1;
    if (n->memory && n->memory(h, &mem) == 0)
        d->mem_bytes = (int64_t)mem.total;
    return 0;
}

/* Slices stand in place of their GPU. */
static int read_slices(const struct nvml *n, nvml_device_t h, struct zep_node *node, int dev, int *n_slice_out)
{
    unsigned now = 0, pending = 0, most = 0;

    *n_slice_out = 0;
    if (!n->mig_mode || !n->mig_max || !n->mig_by_index || n->mig_mode(h, &now, &pending) || !now || n->mig_max(h, &most))
        return 0;
    for (unsigned i = 0; i < most && i < 16; i++) {
        nvml_device_t slice;
        nvml_attributes_t a = {0};
        char uuid[NVML_UUID_SIZE] = "", profile[64];
        const struct zep_device *whole;
        struct zep_device *d;

        if (n->mig_by_index(h, i, &slice) || n->uuid(slice, uuid, sizeof uuid) || find_device(node, uuid) >= 0)
            continue;
        if (!(d = zep_node_add_device(node, uuid, ZEP_DEV_GPU)))
            return -1;
        whole = &node->device[dev];
        d->source = ZEP_SRC_NODE;
        d->numa = whole->numa;
        d->pcie_width = whole->pcie_width;
        if (n->attributes && n->attributes(slice, &a) == 0) {
            snprintf(profile, sizeof profile, "%ug.%llugb", a.compute_slices, (a.memory_mib + 512) / 1024);
            d->mem_bytes = (int64_t)(a.memory_mib << 20);
        } else {
            snprintf(profile, sizeof profile, "slice %u", i);
        }
        if (set_text(&d->mig, profile) < 0 || set_text(&d->uuid, uuid) < 0 || (whole->model && set_text(&d->model, whole->model) < 0) || (whole->bus && set_text(&d->bus, whole->bus) < 0))
            return -1;
        ++*n_slice_out;
    }
    return 0;
}

/* GPUs of one NVLink domain over several nodes (NVL72) belong to one cluster UUID. */
static int read_fabric(const struct nvml *n, nvml_device_t h, struct zep_topo *topo, struct zep_node *node)
{
    nvml_fabric_t f = {0};
    char name[40], *p = name;
    struct zep_fabric *fabric;
    struct zep_switch *sw;
    int any = 0;

    if (topo->n_fabric || !n->fabric || n->fabric(h, &f) || f.state != NVML_FABRIC_COMPLETED || f.status)
        return 0;
    for (int i = 0; i < 16; i++) {
        any |= f.cluster_uuid[i];
        p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", f.cluster_uuid[i]);
    }
    if (!any)
        return 0;
    if (!(fabric = zep_topo_add_fabric(topo, "nvlink", ZEP_FABRIC_BLOCKS)) || !(sw = zep_fabric_add_switch(fabric, name)) || zep_switch_add_node(sw, (int)(node - topo->node)) < 0)
        return -1;
    fabric->source = ZEP_SRC_NODE;
    return 0;
}

/* Slices that the kernel's files named ("PCI/gi1/ci0") are NVML's to tell: the whole GPU, at[n], takes over where they sit, and they go. */
static int take_place_of_slices(struct zep_node *node, int *at, int n, const char *key)
{
    size_t len = strlen(key);

    for (int i = node->n_device - 1; i >= 0; i--) {
        struct zep_device *d = &node->device[i], *whole = &node->device[at[n]];

        if (strncmp(d->key, key, len) || d->key[len] != '/')
            continue;
        whole->numa = d->numa;
        whole->pcie_width = d->pcie_width;
        if (d->bus && set_text(&whole->bus, d->bus) < 0)
            return -1;
        zep_node_drop_device(node, i);
        for (int k = 0; k <= n; k++)
            at[k] -= at[k] > i;
    }
    return 0;
}

static int read_all(const struct nvml *n, struct zep_topo *topo, struct zep_node *node)
{
    nvml_device_t handle[ZEP_MAX_PCI];
    int at[ZEP_MAX_PCI], has_slices[ZEP_MAX_PCI] = {0}, n_gpu;
    unsigned count = 0;

    if (n->count(&count))
        return 0;
    if (count > ZEP_MAX_PCI)
        count = ZEP_MAX_PCI;
    n_gpu = 0;
    for (unsigned i = 0; i < count; i++) {
        nvml_pci_t pci;
        char key[32];

        if (n->by_index(i, &handle[n_gpu]) || n->pci(handle[n_gpu], &pci)) /* a GPU that a cgroup hides */
            continue;
        pci_key(&pci, key);
        at[n_gpu] = find_device(node, key);
        if (at[n_gpu] < 0) {
            if (!zep_node_add_device(node, key, ZEP_DEV_GPU))
                return -1;
            at[n_gpu] = node->n_device - 1;
            if (take_place_of_slices(node, at, n_gpu, key) < 0)
                return -1;
        }
        if (read_gpu(n, handle[n_gpu], node, at[n_gpu]) < 0 || read_fabric(n, handle[n_gpu], topo, node) < 0)
            return -1;
        n_gpu++;
    }
    for (int i = 0; i < n_gpu; i++) {
        int n_slice;

        if (read_slices(n, handle[i], node, at[i], &n_slice) < 0)
            return -1;
        has_slices[i] = n_slice > 0;
    }
    for (int i = n_gpu - 1; i >= 0; i--) /* from the last, so that places stay right */
        if (has_slices[i]) {
            int gone = at[i];

            zep_node_drop_device(node, gone);
            for (int k = 0; k < n_gpu; k++)
                if (at[k] > gone)
                    at[k]--;
        }
    for (int i = 0; i < n_gpu; i++)
        if (!has_slices[i] && read_links(n, handle[i], node, at[i]) < 0)
            return -1;
    return n_gpu;
}

int zep_nvml_read(struct zep_topo *topo, struct zep_node *node, const char *lib)
{
    struct nvml n = {0};
    int rc = 0;

    if (open_nvml(&n, lib)) {
        rc = read_all(&n, topo, node);
        n.shutdown();
    }
    if (n.lib)
        dlclose(n.lib);
    return rc;
}
