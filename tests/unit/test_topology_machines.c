/* Machines as hwloc and the kernel record them, made here from tables: whatever the order of enumeration, each GPU gets the NIC that is near it. */
#include "config.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/rng.h"
#include "topology/detect.h"
#include "topology/source.h"
#include "topology/topo_internal.h"

#ifdef HAVE_HWLOC

enum what { END = 0, GPU, IB, ETH, VF, VGA, NVSWITCH, BOND2 };

struct part { /* a PCI function */
    enum what what;
    int socket, host;       /* host bridge */
    int sw;                 /* PCIe switch below it, 0: none */
    const char *pci, *name; /* name of a NIC; of a GPU: the NIC that it must get, NULL none */
    int width, rate;        /* lanes; Gb/s; 0 not said. rate -1: the port is down */
    int mig;                /* GPU: number of slices */
};

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* a row of the table ends where there is no more to say */
static const struct machine {
    const char *what;
    int sockets, cores; /* cores a socket */
    struct part part[40];
    int n_gpu;
    const char *warning; /* that must be there, or NULL */
} machines[] = {
    {"8 GPUs, 4 NICs, two GPUs and a NIC behind each PCIe switch", 2, 4,
     {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_0", 16}, {GPU, 0, 0, 1, "0000:04:00.0", "mlx5_0", 16}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_0", 16, 200}, {GPU, 0, 1, 2, "0000:23:00.0", "mlx5_1", 16},
      {GPU, 0, 1, 2, "0000:24:00.0", "mlx5_1", 16}, {IB, 0, 1, 2, "0000:25:00.0", "mlx5_1", 16, 200}, {GPU, 1, 2, 3, "0000:83:00.0", "mlx5_2", 16}, {GPU, 1, 2, 3, "0000:84:00.0", "mlx5_2", 16},
      {IB, 1, 2, 3, "0000:85:00.0", "mlx5_2", 16, 200}, {GPU, 1, 3, 4, "0000:a3:00.0", "mlx5_3", 16}, {GPU, 1, 3, 4, "0000:a4:00.0", "mlx5_3", 16}, {IB, 1, 3, 4, "0000:a5:00.0", "mlx5_3", 16, 200},
      {ETH, 0, 4, 0, "0000:41:00.0", "eno1", 1, 10}, {VGA, 0, 4, 0, "0000:42:00.0", NULL}, {NVSWITCH, 1, 5, 0, "0000:c1:00.0", NULL}, {END}}, 8, NULL},
    {"8 GPUs, 8 NICs, two of each behind a switch, and storage NICs elsewhere", 2, 4,
     {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_0"}, {GPU, 0, 0, 1, "0000:04:00.0", "mlx5_1"}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_0", 0, 200}, {IB, 0, 0, 1, "0000:06:00.0", "mlx5_1", 0, 200},
      {GPU, 0, 1, 2, "0000:23:00.0", "mlx5_2"}, {GPU, 0, 1, 2, "0000:24:00.0", "mlx5_3"}, {IB, 0, 1, 2, "0000:25:00.0", "mlx5_2", 0, 200}, {IB, 0, 1, 2, "0000:26:00.0", "mlx5_3", 0, 200},
      {GPU, 1, 2, 3, "0000:83:00.0", "mlx5_6"}, {GPU, 1, 2, 3, "0000:84:00.0", "mlx5_7"}, {IB, 1, 2, 3, "0000:85:00.0", "mlx5_6", 0, 200}, {IB, 1, 2, 3, "0000:86:00.0", "mlx5_7", 0, 200},
      {GPU, 1, 3, 4, "0000:a3:00.0", "mlx5_8"}, {GPU, 1, 3, 4, "0000:a4:00.0", "mlx5_9"}, {IB, 1, 3, 4, "0000:a5:00.0", "mlx5_8", 0, 200}, {IB, 1, 3, 4, "0000:a6:00.0", "mlx5_9", 0, 200},
      {IB, 0, 4, 0, "0000:51:00.0", "mlx5_4", 0, 200}, {IB, 1, 5, 0, "0000:d1:00.0", "mlx5_5", 0, 200}, {END}}, 8, NULL},
    {"PCIe only: GPUs and NICs on host bridges of their own", 2, 4,
     {{GPU, 0, 0, 0, "0000:01:00.0", "mlx5_0"}, {GPU, 0, 1, 0, "0000:11:00.0", "mlx5_0"}, {IB, 0, 2, 0, "0000:21:00.0", "mlx5_0", 0, 100}, {GPU, 1, 3, 0, "0000:81:00.0", "mlx5_1"},
      {GPU, 1, 4, 0, "0000:91:00.0", "mlx5_1"}, {IB, 1, 5, 0, "0000:a1:00.0", "mlx5_1", 0, 100}, {END}}, 4, NULL},
    {"two NICs on one socket: the other socket's GPUs share them evenly, from afar", 2, 4,
     {{GPU, 0, 0, 0, "0000:01:00.0", "mlx5_0"}, {GPU, 0, 0, 0, "0000:02:00.0", "mlx5_1"}, {IB, 0, 0, 0, "0000:03:00.0", "mlx5_0", 0, 100}, {IB, 0, 0, 0, "0000:04:00.0", "mlx5_1", 0, 100},
      {GPU, 1, 1, 0, "0000:81:00.0", "mlx5_0"}, {GPU, 1, 1, 0, "0000:82:00.0", "mlx5_1"}, {END}}, 4, NULL},
    {"one NIC is down: its GPU goes to the next one", 2, 4,
     {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_0"}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_0", 0, 400}, {GPU, 0, 1, 2, "0000:23:00.0", "mlx5_0"}, {IB, 0, 1, 2, "0000:25:00.0", "mlx5_1", 0, -1},
      {GPU, 1, 2, 3, "0000:83:00.0", "mlx5_2"}, {IB, 1, 2, 3, "0000:85:00.0", "mlx5_2", 0, 400}, {END}}, 3, NULL},
    {"MIG: slices in place of their GPU", 1, 8,
     {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_0", 16, 0, 3}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_0", 16, 200}, {GPU, 0, 1, 2, "0000:23:00.0", "mlx5_1", 16}, {IB, 0, 1, 2, "0000:25:00.0", "mlx5_1", 16, 200}, {END}}, 4, NULL},
    {"no GPU at all", 2, 8, {{ETH, 0, 0, 0, "0000:01:00.0", "eno1", 1, 25}, {VGA, 0, 0, 0, "0000:02:00.0", NULL}, {END}}, 0, NULL},
    {"a CPU node of 256 cores", 2, 128, {{IB, 0, 0, 0, "0000:01:00.0", "mlx5_0", 16, 200}, {END}}, 0, NULL},
    {"half the PCIe width", 1, 4, {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_0", 8}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_0", 16, 200}, {END}}, 1, "0000:03:00.0 has a PCIe link of width x8, it could have x16"},
    {"virtual functions, a slow port beside fast ones", 1, 4,
     {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_1"}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_0", 0, 40}, {IB, 0, 1, 0, "0000:25:00.0", "mlx5_1", 0, 400}, {VF, 0, 0, 1, "0000:05:00.1", "mlx5_9", 0, 400}, {END}}, 1, NULL},
    {"a virtual machine: all below one host bridge", 1, 4,
     {{GPU, 0, 0, 0, "0000:01:00.0", NULL}, {GPU, 0, 0, 0, "0000:02:00.0", NULL}, {IB, 0, 0, 0, "0000:03:00.0", "mlx5_0", 0, 200}, {IB, 0, 0, 0, "0000:04:00.0", "mlx5_1", 0, 200}, {END}}, 2,
     "all 2 NICs are equally far from all 2 devices"},
    {"a bond of two ports is one NIC", 1, 4,
     {{GPU, 0, 0, 1, "0000:03:00.0", "mlx5_bond_0"}, {IB, 0, 0, 1, "0000:05:00.0", "mlx5_bond_0", 0, 200}, {BOND2, 0, 0, 1, "0000:05:00.1", "eth1", 0, 100}, {END}}, 1, NULL},
};

/* --- writing --- */

static char dir[64];

static void put_file(const char *text, const char *fmt, ...)
{
    char path[600];
    struct zep_error err = {0};
    va_list ap;
    int n = snprintf(path, sizeof path, "%s/", dir);

    va_start(ap, fmt);
    vsnprintf(path + n, sizeof path - (size_t)n, fmt, ap);
    va_end(ap);
    *strrchr(path, '/') = '\0';
    ck_assert_msg(zep_fs_mkdir_p(path, &err) == ZEP_OK, "%s", err.text);
    path[strlen(path)] = '/';
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void put_number(int v, const char *fmt, const char *name)
{
    char text[32];

    snprintf(text, sizeof text, "%d\n", v);
    put_file(text, fmt, name);
}

/* Bits [first, first + n) as hwloc writes a set. */
static void put_set(struct zep_buf *b, const char *key, int first, int n)
{
    int top = (first + n - 1) / 32;

    zep_buf_printf(b, " %s=\"", key);
    for (int w = top; w >= 0; w--) {
        unsigned bits = 0;

        for (int i = 0; i < 32; i++)
            if (w * 32 + i >= first && w * 32 + i < first + n)
                bits |= 1u << i;
        zep_buf_printf(b, "%s0x%08x", w == top ? "" : ",", bits);
    }
    zep_buf_puts(b, "\"");
}

static void put_sets(struct zep_buf *b, int first, int n, int node, int n_node)
{
    put_set(b, "cpuset", first, n);
    put_set(b, "complete_cpuset", first, n);
    put_set(b, "nodeset", node, n_node);
    put_set(b, "complete_nodeset", node, n_node);
}

static const char *type_of(enum what w)
{
    return w == GPU ? "0302 [10de:2330] [10de:16c1] a1 00" : w == VGA ? "0300 [1a03:2000] [1a03:2000] 41 00" : w == NVSWITCH ? "0680 [10de:22a3] [10de:1796] a1 00" : w == ETH ? "0200 [8086:1521] [8086:0000] 01 00" : "0207 [15b3:1021] [15b3:0041] 00 00";
}

static void put_part(struct zep_buf *b, const struct part *p, int *id)
{
    zep_buf_printf(b, "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"%s\" pci_type=\"%s\" pci_link_speed=\"0\">", (*id)++, p->pci, type_of(p->what));
    zep_buf_printf(b, "<info name=\"PCIDevice\" value=\"%s\"/>", p->what == GPU ? "GH100" : p->what == VF ? "MT2910 Virtual Function" : "X");
    if (p->what == IB || p->what == VF)
        zep_buf_printf(b, "<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"3\"/>", (*id)++, p->name);
    if (p->what == ETH || p->what == BOND2 || (p->what == IB && strstr(p->name, "bond")))
        zep_buf_printf(b, "<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"2\"/>", (*id)++, p->what == IB ? "eth0" : p->name);
    zep_buf_puts(b, "</object>\n");
}

/* Functions of one switch (or none) below a host bridge; a switch has an upstream bridge and one for each port. */
static void put_switch(struct zep_buf *b, struct part *const *part, int n, int host, int sw, int *id)
{
    if (sw)
        zep_buf_printf(b, "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[00-ff]\" pci_busid=\"0000:%02x:01.0\" pci_type=\"0604 [10b5:9797] [10b5:9797] b0 00\" pci_link_speed=\"0\">\n", (*id)++, 0xe0 + sw);
    for (int i = 0; i < n; i++) {
        if (part[i]->host != host || part[i]->sw != sw)
            continue;
        if (sw)
            zep_buf_printf(b, "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"2\" bridge_pci=\"0000:[00-ff]\" pci_busid=\"0000:%02x:%02x.0\" pci_type=\"0604 [10b5:9797] [10b5:9797] b0 00\" pci_link_speed=\"0\">\n", (*id)++,
                           0xf0 + sw, i & 31);
        put_part(b, part[i], id);
        if (sw)
            zep_buf_puts(b, "</object>\n");
    }
    if (sw)
        zep_buf_puts(b, "</object>\n");
}

static void put_hosts(struct zep_buf *b, struct part *const *part, int n, int socket, int *id)
{
    int done[16] = {0};

    for (int i = 0; i < n; i++) {
        int sw_done[16] = {0};

        if (part[i]->socket != socket || done[part[i]->host]++)
            continue;
        zep_buf_printf(b, "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%02x-%02x]\">\n", (*id)++, part[i]->host * 16, part[i]->host * 16 + 15);
        for (int k = 0; k < n; k++)
            if (part[k]->host == part[i]->host && !sw_done[part[k]->sw]++)
                put_switch(b, part, n, part[i]->host, part[k]->sw, id);
        zep_buf_puts(b, "</object>\n");
    }
}

static void put_xml(const struct machine *m, struct part *const *part, int n)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int id = 10, total = m->sockets * m->cores;

    zep_buf_puts(&b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"");
    put_sets(&b, 0, total, 0, m->sockets);
    put_set(&b, "allowed_cpuset", 0, total);
    put_set(&b, "allowed_nodeset", 0, m->sockets);
    zep_buf_puts(&b, " gp_index=\"1\">\n<info name=\"HostName\" value=\"box\"/>\n");
    for (int s = 0; s < m->sockets; s++) {
        zep_buf_printf(&b, "<object type=\"Package\" os_index=\"%d\" gp_index=\"%d\"", s, id++);
        put_sets(&b, s * m->cores, m->cores, s, 1);
        zep_buf_printf(&b, ">\n<object type=\"NUMANode\" os_index=\"%d\" gp_index=\"%d\" local_memory=\"1000000000\"", s, id++);
        put_sets(&b, s * m->cores, m->cores, s, 1);
        zep_buf_puts(&b, "><page_type size=\"4096\" count=\"0\"/></object>\n");
        for (int c = 0; c < m->cores; c++) {
            zep_buf_printf(&b, "<object type=\"Core\" os_index=\"%d\" gp_index=\"%d\"", c, id++);
            put_sets(&b, s * m->cores + c, 1, s, 1);
            zep_buf_printf(&b, "><object type=\"PU\" os_index=\"%d\" gp_index=\"%d\"", s * m->cores + c, id++);
            put_sets(&b, s * m->cores + c, 1, s, 1);
            zep_buf_puts(&b, "/></object>\n");
        }
        put_hosts(&b, part, n, s, &id);
        zep_buf_puts(&b, "</object>\n");
    }
    zep_buf_puts(&b, "</object>\n</topology>\n");
    ck_assert(!b.failed);
    put_file(b.data, "hwloc.xml");
    zep_buf_free(&b);
}

static void put_sysfs(const struct part *p, int minor)
{
    char text[200];

    if (p->width) {
        snprintf(text, sizeof text, "%d\n", p->width);
        put_file(text, "sys/bus/pci/devices/%s/current_link_width", p->pci);
        put_file(p->what == ETH ? "1\n" : "16\n", "sys/bus/pci/devices/%s/max_link_width", p->pci);
    }
    if (p->what == VF)
        put_file("", "sys/bus/pci/devices/%s/physfn/x", p->pci);
    if (p->what == IB && p->rate) {
        snprintf(text, sizeof text, "%d Gb/sec (4X HDR)\n", p->rate > 0 ? p->rate : 10);
        put_file(text, "sys/class/infiniband/%s/ports/1/rate", p->name);
        put_file(p->rate > 0 ? "4: ACTIVE\n" : "1: DOWN\n", "sys/class/infiniband/%s/ports/1/state", p->name);
        put_file("InfiniBand\n", "sys/class/infiniband/%s/ports/1/link_layer", p->name);
    }
    if (p->what == ETH || p->what == BOND2) {
        put_number(p->rate * 1000, "sys/class/net/%s/speed", p->name);
        put_file("up\n", "sys/class/net/%s/operstate", p->name);
    }
    if (p->what == BOND2 || (p->what == IB && strstr(p->name, "bond"))) {
        char path[200];

        put_file("", "sys/class/net/bond0/bonding/x%s", "");
        put_file("", "sys/class/net/%s/x", p->what == IB ? "eth0" : p->name);
        snprintf(path, sizeof path, "%s/sys/class/net/%s/master", dir, p->what == IB ? "eth0" : p->name);
        (void)!symlink("../bond0", path);
    }
    if (p->what == GPU) {
        snprintf(text, sizeof text, "Model: \t\t NVIDIA H100\nIRQ:   \t\t 9\nGPU UUID: \t GPU-%s\nDevice Minor: \t %d\n", p->pci, minor);
        put_file(text, "proc/driver/nvidia/gpus/%s/information", p->pci);
        for (int i = 0; i < p->mig; i++)
            put_file("", "proc/driver/nvidia/capabilities/gpu%d/mig/gi%d/ci0/access", minor, i + 1);
    }
}

/* --- reading --- */

static struct zep_topo *detect(const char *nvml)
{
    char program[4096];
    char *argv[] = {program, (char *)"--machine", dir, (char *)(nvml ? "--nvml" : NULL), (char *)nvml, NULL};
    const char *build = getenv("ZEP_BUILDDIR");
    struct zep_process_result p;
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    snprintf(program, sizeof program, "%s/zeppelin-detect-local", build ? build : ".");
    ck_assert_msg(zep_process_run(argv, 20, &p, &err) == ZEP_OK, "%s", err.text);
    ck_assert_msg(p.status == 0, "status %d: %s", p.status, p.err);
    ck_assert_msg(zep_detect_from_json("helper", p.out, p.out_len, &topo, &err) == ZEP_OK, "%s", err.text);
    zep_process_result_free(&p);
    ck_assert_int_eq(zep_topo_assign_nics(topo, &err), ZEP_OK);
    return topo;
}

static const struct part *part_of(const struct machine *m, const char *pci)
{
    for (const struct part *p = m->part; p->what != END; p++)
        if (!strncmp(p->pci, pci, 12))
            return p;
    ck_abort_msg("%s: no %s", m->what, pci);
    return NULL;
}

static void check_machine(const struct machine *m, const struct zep_topo *t)
{
    const struct zep_node *n = &t->node[0];
    int warned = !m->warning, n_slice = 0;

    ck_assert_msg(n->n_device == m->n_gpu, "%s: %d GPUs", m->what, n->n_device);
    ck_assert_int_eq(n->sockets, m->sockets);
    ck_assert_int_eq(n->cores_per_socket, m->cores);
    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];
        const struct part *p = part_of(m, d->key);
        const char *nic = d->nic < 0 ? NULL : n->nic[d->nic].name;

        ck_assert_msg((!nic && !p->name) || (nic && p->name && !strcmp(nic, p->name)), "%s: GPU %s has %s, not %s", m->what, d->key, nic ? nic : "none", p->name ? p->name : "none");
        ck_assert_int_eq(d->numa, p->socket);
        ck_assert_int_eq(d->pcie_width, p->width);
        ck_assert_str_eq(d->model, "NVIDIA H100");
        n_slice += d->mig != NULL;
        if (!d->mig) {
            ck_assert_int_eq(strncmp(d->uuid, "GPU-", 4), 0);
            ck_assert_str_eq(d->uuid + 4, d->key);
        }
    }
    for (int i = 0; i < n->n_nic; i++) {
        const struct part *p = part_of(m, n->nic[i].key);

        ck_assert_msg(p->what != VF && p->what != GPU, "%s: %s is no NIC", m->what, n->nic[i].key);
        ck_assert_str_eq(n->nic[i].name, p->name);
        ck_assert_int_eq(n->nic[i].up, p->rate > 0);
        if (p->rate > 0)
            ck_assert_double_eq_tol(n->nic[i].bw.value, p->rate * 1e9 / 8, 1);
    }
    ck_assert_int_eq(n_slice, !strncmp(m->what, "MIG", 3) ? 3 : 0);
    for (int i = 0; i < t->n_warning; i++)
        warned |= m->warning && strstr(t->warning[i], m->warning);
    ck_assert_msg(warned, "%s: no warning '%s'", m->what, m->warning);
    ck_assert_msg(m->warning || !t->n_warning, "%s: %s", m->what, t->n_warning ? t->warning[0] : "");
}

START_TEST(recorded_machines)
{
    const struct machine *m = &machines[_i / 4];
    struct part *part[40];
    struct zep_error err = {0};
    struct zep_topo *t;
    struct zep_rng rng;
    int n = 0;

    snprintf(dir, sizeof dir, "test_machines.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (const struct part *p = m->part; p->what != END; p++) {
        put_sysfs(p, n);
        part[n++] = (struct part *)p;
    }
    zep_rng_seed(&rng, (uint64_t)_i);
    for (int i = n - 1; i > 0 && _i % 4; i--) { /* the first time as in the table, then shuffled */
        int k = (int)zep_rng_below(&rng, (uint64_t)i + 1);
        struct part *swap = part[i];

        part[i] = part[k];
        part[k] = swap;
    }
    put_xml(m, part, n);
    t = detect(NULL);
    check_machine(m, t);
    zep_topo_free(t);
    ck_assert_int_eq(zep_fs_remove_tree(dir, &err), ZEP_OK);
}
END_TEST

/* NVML has an order of its own and shows a part of the GPUs: facts go to the right ones by PCI address. */
START_TEST(nvml)
{
    const struct machine *m = &machines[0];
    const char *build = getenv("ZEP_BUILDDIR");
    struct part *part[40];
    struct zep_error err = {0};
    struct zep_topo *t;
    char lib[4200];
    int n = 0, n_mig = 0, a = -1, b = -1;

    snprintf(dir, sizeof dir, "test_machines.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (const struct part *p = m->part; p->what != END; p++)
        part[n++] = (struct part *)p;
    put_xml(m, part, n);
    put_file("Device Minor: \t 3\n", "proc/driver/nvidia/gpus/0000:23:00.0/information"); /* the kernel's files tell of the slices, too */
    put_file("", "proc/driver/nvidia/capabilities/gpu3/mig/gi1/ci0/access");
    put_file("", "proc/driver/nvidia/capabilities/gpu3/mig/gi2/ci0/access");
    snprintf(lib, sizeof lib, "%s/tests/unit/.libs/fake_nvml.so", build ? build : ".");
    t = detect(lib);
    ck_assert_int_eq(t->node[0].n_device, 9); /* two slices in place of one GPU */
    for (int i = 0; i < t->node[0].n_device; i++) {
        const struct zep_device *d = &t->node[0].device[i];

        if (!strcmp(d->key, "0000:24:00.0")) {
            a = i;
            ck_assert_str_eq(d->uuid, "GPU-24");
            ck_assert_int_eq(d->mem_bytes, 80000000000);
            ck_assert_double_eq_tol(d->bw.value, 100e9, 1); /* four links of 25 GB/s */
            ck_assert_int_eq(d->bw.derived, 1);
        }
        b = !strcmp(d->key, "0000:03:00.0") ? i : b;
        if (d->mig) {
            n_mig++;
            ck_assert_msg(!strcmp(d->mig, !strcmp(d->uuid, "MIG-a") ? "3g.39gb" : "4g.39gb"), "%s is %s", d->uuid, d->mig);
            ck_assert_str_eq(t->node[0].nic[d->nic].name, "mlx5_1"); /* as its GPU */
        }
    }
    ck_assert_int_eq(n_mig, 2);
    ck_assert_int_ge(a, 0);
    ck_assert_int_ge(b, 0);
    ck_assert_int_eq(t->node[0].device[a].peer_nvlink[b], 2);
    ck_assert_int_eq(t->fabric[0].kind, ZEP_FABRIC_BLOCKS);
    ck_assert_str_eq(t->fabric[0].sw[0].name, "01020304-0506-0708-090a-0b0c0d0e0f10");
    zep_topo_free(t);
    ck_assert_int_eq(zep_fs_remove_tree(dir, &err), ZEP_OK);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))
#endif

int main(void)
{
    Suite *s = suite_create("topology: recorded machines");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
#ifdef HAVE_HWLOC
    tcase_add_loop_test(t, recorded_machines, 0, 4 * ROWS(machines));
    tcase_add_test(t, nvml);
#endif
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
