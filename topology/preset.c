/* Known machines. Every bandwidth is payload in one direction: what data sheets say both ways together is halved. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/yaml.h"
#include "topology/preset.h"

#define GB 1000000000.0
#define GBIT (GB / 8)

/* How devices and NICs sit on the bus. */
enum wiring {
    WIRE_NONE = 0,  /* not said: devices share NICs in order */
    WIRE_SWITCHES,  /* PCIe switches with dev / n_switch devices and nic / n_switch NICs each */
    WIRE_CPU,       /* no devices: a CPU node */
};

struct machine {
    const char *name, *what;
    int n_node;                 /* without ":N" */
    int sockets, cores, threads, numa; /* cores a socket; 0 unknown */
    double mem;                 /* bytes, 0 unknown */
    const char *model;          /* of the devices */
    int dev;
    double dev_mem, dev_bw;
    int nvlink;                 /* NVLinks of a device, all through NVSwitches */
    int nic;
    double nic_bw;
    const char *link;
    enum wiring wiring;
    int n_switch;               /* PCIe switches, each below a host bridge of its own */
    int switch_numa[8];         /* of each switch; all 0: spread over the sockets */
    int rails;                  /* NIC i of every node hangs on leaf i */
    int leaf;                   /* nodes under a leaf, 0: all */
    int block;                  /* nodes in one NVLink domain, 0 none */
};

static const struct machine machines[] = {
    /* Chen et al., EuroSys 2026 (arXiv 2509.21841), section 6.1: A800 SXM, 4 NICs of 200 Gb/s RoCE, two GPUs share one; NVLink 400 GB/s both ways. */
    {.name = "A", .what = "the paper's cluster A: 8 A800, 4 NICs of 200 Gb/s", .n_node = 2, .model = "NVIDIA A800 80GB", .dev = 8, .dev_mem = 80 * GB, .dev_bw = 200 * GB, .nic = 4, .nic_bw = 200 * GBIT},
    /* The same, cluster B: H800, 8 RoCE NICs; NVLink 400 GB/s both ways. */
    {.name = "B", .what = "the paper's cluster B: 8 H800, 8 NICs of 200 Gb/s", .n_node = 2, .model = "NVIDIA H800", .dev = 8, .dev_mem = 80 * GB, .dev_bw = 200 * GB, .nic = 8, .nic_bw = 200 * GBIT},
    /* The same, cluster C: H200, 8 NICs of 400 Gb/s, NVLink 900 GB/s both ways. */
    {.name = "C", .what = "the paper's cluster C: 8 H200, 8 NICs of 400 Gb/s", .n_node = 2, .model = "NVIDIA H200", .dev = 8, .dev_mem = 141 * GB, .dev_bw = 450 * GB, .nic = 8, .nic_bw = 400 * GBIT},
    /* NVIDIA DGX A100 user guide (DU-09821-001): 2 EPYC 7742 with 64 cores, 8 NUMA domains (NPS4), 2 TB, 8 A100 80 GB with 12 NVLinks of 50 GB/s both ways (600 GB/s), 8 ConnectX-6 of 200 Gb/s HDR for compute,
     * four PCIe switches each with 2 GPUs and 2 NICs, in NUMA domains 3, 1, 7, 5. Storage NICs are not listed here. */
    {.name = "dgx-a100", .what = "NVIDIA DGX A100 80 GB: 8 GPUs, 8 NICs of 200 Gb/s, rails", .n_node = 2, .sockets = 2, .cores = 64, .threads = 2, .numa = 8, .mem = 2e12, .model = "NVIDIA A100-SXM4-80GB", .dev = 8, .dev_mem = 80 * GB,
     .dev_bw = 300 * GB, .nvlink = 12, .nic = 8, .nic_bw = 200 * GBIT, .link = "infiniband", .wiring = WIRE_SWITCHES, .n_switch = 4, .switch_numa = {3, 1, 7, 5}, .rails = 1},
    /* NVIDIA DGX H100 user guide and data sheet: 2 Xeon 8480C with 56 cores, 2 TB, 8 H100 80 GB with 18 NVLinks (900 GB/s both ways), 8 ConnectX-7 of 400 Gb/s NDR, one beside each GPU. */
    {.name = "dgx-h100", .what = "NVIDIA DGX H100: 8 GPUs, 8 NICs of 400 Gb/s, rails", .n_node = 2, .sockets = 2, .cores = 56, .threads = 2, .numa = 2, .mem = 2e12, .model = "NVIDIA H100 80GB HBM3", .dev = 8, .dev_mem = 80 * GB,
     .dev_bw = 450 * GB, .nvlink = 18, .nic = 8, .nic_bw = 400 * GBIT, .link = "infiniband", .wiring = WIRE_SWITCHES, .n_switch = 8, .rails = 1},
    /* NVIDIA GB200 NVL72 product page and reference architecture: 18 compute trays, each 2 Grace (72 cores) and 4 B200 (about 186 GB HBM3e), NVLink 5 with 18 links of 100 GB/s both ways (1.8 TB/s),
     * all 72 GPUs of the rack in one NVLink domain; 4 ConnectX-7 of 400 Gb/s a tray. */
    {.name = "gb200-nvl72", .what = "NVIDIA GB200 NVL72: trays of 4 GPUs, 18 trays in one NVLink domain, 4 NICs of 400 Gb/s a tray", .n_node = 18, .sockets = 2, .cores = 72, .threads = 1, .numa = 2, .mem = 960e9, .model = "NVIDIA GB200",
     .dev = 4, .dev_mem = 186 * GB, .dev_bw = 900 * GB, .nvlink = 18, .nic = 4, .nic_bw = 400 * GBIT, .link = "infiniband", .wiring = WIRE_SWITCHES, .n_switch = 4, .rails = 1, .block = 18},
    /* AWS EC2 p4d.24xlarge (EC2 user guide, accelerated computing; topology as in aws-ofi-nccl): 2 x 24 cores, 1152 GiB, 8 A100 40 GB, NVSwitch 600 GB/s both ways, 4 EFA of 100 Gb/s, two GPUs and one EFA behind each PCIe switch. */
    {.name = "p4d", .what = "EC2 p4d.24xlarge: 8 A100 40 GB, 4 EFA of 100 Gb/s", .n_node = 2, .sockets = 2, .cores = 24, .threads = 2, .numa = 2, .mem = 1152 * 1073741824.0, .model = "NVIDIA A100-SXM4-40GB", .dev = 8, .dev_mem = 40 * GB,
     .dev_bw = 300 * GB, .nvlink = 12, .nic = 4, .nic_bw = 100 * GBIT, .link = "ethernet", .wiring = WIRE_SWITCHES, .n_switch = 4},
    /* AWS EC2 p5.48xlarge: 2 x 48 cores, 2 TiB, 8 H100, NVSwitch 900 GB/s both ways, 3200 Gb/s as 32 EFA of 100 Gb/s, four beside each GPU. */
    {.name = "p5", .what = "EC2 p5.48xlarge: 8 H100, 32 EFA of 100 Gb/s, four a GPU", .n_node = 2, .sockets = 2, .cores = 48, .threads = 2, .numa = 2, .mem = 2048 * 1073741824.0, .model = "NVIDIA H100 80GB HBM3", .dev = 8, .dev_mem = 80 * GB,
     .dev_bw = 450 * GB, .nvlink = 18, .nic = 32, .nic_bw = 100 * GBIT, .link = "ethernet", .wiring = WIRE_SWITCHES, .n_switch = 8},
    /* Azure ND H100 v5 (learn.microsoft.com, Standard_ND96isr_H100_v5): 96 cores, 1900 GiB, 8 H100, 8 ConnectX-7 of 400 Gb/s InfiniBand, one a GPU, rail-optimised fat tree. */
    {.name = "nd-h100-v5", .what = "Azure ND H100 v5: 8 H100, 8 NICs of 400 Gb/s, rails", .n_node = 2, .sockets = 2, .cores = 48, .threads = 1, .numa = 2, .mem = 1900 * 1073741824.0, .model = "NVIDIA H100 80GB HBM3", .dev = 8,
     .dev_mem = 80 * GB, .dev_bw = 450 * GB, .nvlink = 18, .nic = 8, .nic_bw = 400 * GBIT, .link = "infiniband", .wiring = WIRE_SWITCHES, .n_switch = 8, .rails = 1},
    /* A plain server: two 64-core EPYC 9554 (AMD data sheet), 1.5 TB, one ConnectX-6 of 200 Gb/s; no GPU: ranks take cores. */
    {.name = "cpu-2s", .what = "a two-socket CPU node: 2 x 64 cores, one NIC of 200 Gb/s", .n_node = 2, .sockets = 2, .cores = 64, .threads = 2, .numa = 2, .mem = 1.5e12, .nic = 1, .nic_bw = 200 * GBIT, .link = "infiniband",
     .wiring = WIRE_CPU},
};

#define N_MACHINE (sizeof machines / sizeof machines[0])

const char *zep_preset_name(int i)
{
    return i >= 0 && (size_t)i < N_MACHINE ? machines[i].name : NULL;
}

const char *zep_preset_what(int i)
{
    return i >= 0 && (size_t)i < N_MACHINE ? machines[i].what : NULL;
}

static int fill_text(char **out, const char *s)
{
    return !s || (*out = strdup(s)) ? 0 : -1;
}

/* Switch k of a node: a made-up place on the bus, below a host bridge of its own. */
static void bus_text(int k, char out[64])
{
    snprintf(out, 64, "pci0000:%02x/0000:%02x:00.0", 0x10 + 0x10 * k, 0x11 + 0x10 * k);
}

static int numa_of(const struct machine *m, int k)
{
    int said = 0;

    for (int i = 0; i < m->n_switch && i < 8; i++)
        said |= m->switch_numa[i];
    return said ? m->switch_numa[k] : k * m->sockets / m->n_switch * (m->numa / m->sockets);
}

static int add_nics(const struct machine *m, struct zep_node *n)
{
    char name[64], bus[64];

    for (int i = 0; i < m->nic; i++) {
        struct zep_nic *c;

        snprintf(name, sizeof name, "nic%d", i);
        if (!(c = zep_node_add_nic(n, name, name)) || fill_text(&c->link, m->link) < 0)
            return -1;
        c->up = 1;
        c->source = ZEP_SRC_PRESET;
        c->rdma = m->wiring ? 1 : -1;
        c->bw = (struct zep_fact){.value = m->nic_bw, .source = ZEP_SRC_PRESET};
        if (m->wiring == WIRE_SWITCHES) {
            int k = i * m->n_switch / m->nic;

            bus_text(k, bus);
            c->numa = numa_of(m, k);
            if (fill_text(&c->bus, bus) < 0)
                return -1;
        }
    }
    return 0;
}

static int add_devices(const struct machine *m, struct zep_node *n)
{
    char name[64], bus[64];

    for (int i = 0; i < m->dev; i++) {
        struct zep_device *d;

        snprintf(name, sizeof name, "gpu%d", i);
        if (!(d = zep_node_add_device(n, name, ZEP_DEV_GPU)) || fill_text(&d->model, m->model) < 0)
            return -1;
        d->source = ZEP_SRC_PRESET;
        d->mem_bytes = (int64_t)m->dev_mem;
        d->bw = (struct zep_fact){.value = m->dev_bw, .source = ZEP_SRC_PRESET};
        if (m->wiring == WIRE_SWITCHES) {
            int k = i * m->n_switch / m->dev;

            bus_text(k, bus);
            d->numa = numa_of(m, k);
            if (fill_text(&d->bus, bus) < 0)
                return -1;
        } else {
            d->nic = i * m->nic / m->dev;
            d->nic_distance = ZEP_DIST_SWITCH;
            d->nic_source = ZEP_SRC_PRESET;
        }
    }
    for (int i = 0; m->nvlink && i < m->dev; i++)
        for (int k = 0; k < m->dev; k++)
            if (i != k && zep_node_set_peer(n, i, k, ZEP_DIST_UNKNOWN, m->nvlink) < 0)
                return -1;
    return 0;
}

static int add_node(const struct machine *m, struct zep_topo *topo, int index)
{
    char name[32];
    struct zep_node *n;

    snprintf(name, sizeof name, "node%d", index);
    if (!(n = zep_topo_add_node(topo, name)))
        return -1;
    n->sockets = m->sockets;
    n->cores_per_socket = m->cores;
    n->threads_per_core = m->threads;
    n->n_numa = m->numa;
    n->mem_bytes = (int64_t)m->mem;
    n->cpu_source = m->sockets ? ZEP_SRC_PRESET : ZEP_SRC_NONE;
    n->mem_source = m->mem > 0 ? ZEP_SRC_PRESET : ZEP_SRC_NONE;
    return add_nics(m, n) < 0 || add_devices(m, n) < 0 ? -1 : 0;
}

/* One leaf for all, or a leaf for each rail, with a spine above rails. */
static int add_fabric(const struct machine *m, struct zep_topo *topo)
{
    struct zep_fabric *f = zep_topo_add_fabric(topo, "net", m->rails ? ZEP_FABRIC_RAILS : ZEP_FABRIC_TREE);
    int n_leaf = m->rails ? m->nic : 1;
    char name[32];

    if (!f)
        return -1;
    f->source = ZEP_SRC_PRESET;
    for (int i = 0; i < n_leaf; i++) {
        struct zep_switch *s;

        snprintf(name, sizeof name, m->rails ? "rail%d" : "leaf%d", i);
        if (!(s = zep_fabric_add_switch(f, name)) || (m->rails && zep_switch_add_parent(s, n_leaf) < 0))
            return -1;
        for (int k = 0; k < topo->n_node; k++)
            if (zep_switch_add_port(s, k, m->rails ? i : -1) < 0)
                return -1;
    }
    return m->rails && !zep_fabric_add_switch(f, "spine0") ? -1 : 0;
}

static int add_blocks(const struct machine *m, struct zep_topo *topo)
{
    struct zep_fabric *f = zep_topo_add_fabric(topo, "nvlink", ZEP_FABRIC_BLOCKS);
    struct zep_switch *s = NULL;
    char name[32];

    if (!f)
        return -1;
    f->source = ZEP_SRC_PRESET;
    for (int i = 0; i < topo->n_node; i++) {
        snprintf(name, sizeof name, "domain%d", i / m->block);
        if (i % m->block == 0 && !(s = zep_fabric_add_switch(f, name)))
            return -1;
        if (zep_switch_add_node(s, i) < 0)
            return -1;
    }
    return 0;
}

static int make(const struct machine *m, int n_node, struct zep_topo **topo_out, struct zep_error *err)
{
    char origin[64];
    struct zep_topo *topo;
    int rc = ZEP_OK;

    snprintf(origin, sizeof origin, "preset %s", m->name);
    if (!(topo = zep_topo_new(m->name, origin)))
        return zep_error_nomem(err, "topology");
    for (int i = 0; i < n_node && rc == ZEP_OK; i++)
        if (add_node(m, topo, i) < 0)
            rc = zep_error_nomem(err, "topology");
    if (rc == ZEP_OK && (add_fabric(m, topo) < 0 || (m->block && add_blocks(m, topo) < 0)))
        rc = zep_error_nomem(err, "topology");
    if (rc == ZEP_OK) { /* nobody publishes these: usual values */
        topo->dev_latency_s = (struct zep_fact){.value = 5e-6, .source = ZEP_SRC_DEFAULT};
        topo->net_latency_s = (struct zep_fact){.value = 10e-6, .source = ZEP_SRC_DEFAULT};
        rc = zep_topo_assign_nics(topo, err);
    }
    if (rc == ZEP_OK)
        rc = zep_topo_validate(topo, err);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}

int zep_topo_preset(const char *name, int n_node, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *names[N_MACHINE + 1], *near;
    struct zep_buf all = ZEP_BUF_INIT;
    int rc;

    for (size_t i = 0; i < N_MACHINE; i++)
        if (!strcmp(machines[i].name, name)) {
            if (n_node < 0)
                return zep_error_set(err, ZEP_EINVAL, "preset '%s': %d nodes: expected at least 1", name, n_node);
            return make(&machines[i], n_node ? n_node : machines[i].n_node, topo_out, err);
        }
    for (size_t i = 0; i < N_MACHINE; i++) {
        names[i] = machines[i].name;
        zep_buf_printf(&all, "%s%s", i == 0 ? "" : i + 1 == N_MACHINE ? " or " : ", ", names[i]);
    }
    names[N_MACHINE] = NULL;
    near = strlen(name) > 2 ? zep_nearest(name, names) : NULL;
    rc = zep_error_set(err, ZEP_EINVAL, "unknown preset '%.60s'%s%s%s: expected %s", name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", all.data ? all.data : "another");
    zep_buf_free(&all);
    return rc;
}
