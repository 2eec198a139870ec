/* The inside of a node as an NCCL topology (NCCL_TOPO_FILE). */
#include "config.h"
#include "topology/topo_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/encode.h"

struct item { /* a device or NIC and where it sits */
    int dev, nic, numa;
    const char *key, *bus;
};

static int is_pci(const char *key)
{
    return zep_is_pci(key) && !strchr(key, '/');
}

static int cmp_item(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = x->numa != y->numa ? x->numa - y->numa : strcmp(x->bus, y->bus);

    return c ? c : strcmp(x->key, y->key);
}

static void indent(struct zep_buf *b, int depth)
{
    zep_buf_printf(b, "%*s", 2 * depth, "");
}

/* The k-th bridge of a path that has a PCI address; 0 when there is none. Host bridges and NUMA marks are no PCI devices. */
static int bridge(const char *bus, int k, char out[40])
{
    int at = 0;

    for (const char *p = bus; *p; p += strcspn(p, "/"), p += *p == '/') {
        snprintf(out, 40, "%.*s", (int)(strcspn(p, "/") > 39 ? 39 : strcspn(p, "/")), p);
        if (is_pci(out) && at++ == k)
            return 1;
    }
    return 0;
}

static int depth_of(const char *bus)
{
    char text[40];
    int n = 0;

    while (bridge(bus, n, text))
        n++;
    return n;
}

static int same_bridges(const char *a, const char *b)
{
    char x[40], y[40];
    int n = 0;

    while (bridge(a, n, x) && bridge(b, n, y) && !strcmp(x, y))
        n++;
    return n;
}

static void put_pci(struct zep_buf *b, int depth, const char *busid, const char *cls, int width)
{
    indent(b, depth);
    zep_buf_printf(b, "<pci busid=\"%s\" class=\"%s\"", busid, cls);
    if (width > 0) /* what is left out NCCL asks the machine */
        zep_buf_printf(b, " link_width=\"%d\"", width);
}

static int put_item(struct zep_buf *b, const struct zep_node *n, const struct item *it, int depth, int gpu_index, struct zep_error *err)
{
    int rc = ZEP_OK;

    if (it->dev >= 0) {
        const struct zep_device *d = &n->device[it->dev];

        put_pci(b, depth, it->key, "0x030200", d->pcie_width);
        zep_buf_puts(b, ">\n");
        indent(b, depth + 1);
        zep_buf_printf(b, "<gpu dev=\"%d\" rank=\"%d\" gdr=\"1\"", gpu_index, gpu_index);
        if (d->peer_nvlink) {
            zep_buf_puts(b, ">\n");
            for (int k = 0; k < n->n_device; k++)
                if (d->peer_nvlink[k] && k != it->dev) {
                    indent(b, depth + 2);
                    zep_buf_printf(b, "<nvlink target=\"%s\" count=\"%d\" tclass=\"0x030200\"/>\n", n->device[k].key, d->peer_nvlink[k]);
                }
            indent(b, depth + 1);
            zep_buf_puts(b, "</gpu>\n");
        } else {
            zep_buf_puts(b, "/>\n");
        }
    } else {
        const struct zep_nic *c = &n->nic[it->nic];

        put_pci(b, depth, it->key, c->link && !strcmp(c->link, "infiniband") ? "0x020700" : "0x020000", c->pcie_width);
        zep_buf_puts(b, ">\n");
        indent(b, depth + 1);
        zep_buf_puts(b, "<nic>\n");
        indent(b, depth + 2);
        zep_buf_puts(b, "<net name=\"");
        rc = zep_encode_xml(b, c->name, err);
        zep_buf_printf(b, "\" dev=\"%d\"", it->nic);
        if (c->bw.value > 0)
            zep_buf_printf(b, " speed=\"%.0f\"", c->bw.value * 8 / 1e6);
        zep_buf_printf(b, " port=\"1\" gdr=\"%d\"/>\n", c->rdma == 1);
        indent(b, depth + 1);
        zep_buf_puts(b, "</nic>\n");
    }
    indent(b, depth);
    zep_buf_puts(b, "</pci>\n");
    return rc;
}

/* NCCL's number of a GPU: its place in the order of PCI addresses. */
static int gpu_number(const struct zep_node *n, int dev)
{
    int before = 0;

    for (int i = 0; i < n->n_device; i++)
        before += strcasecmp(n->device[i].key, n->device[dev].key) < 0;
    return before;
}

static const char *arch_of(const struct zep_node *n)
{
    const char *model = n->n_device && n->device[0].model ? n->device[0].model : "";

    return strstr(model, "GB200") || strstr(model, "GB300") || strstr(model, "GH200") ? "arm64" : "x86_64";
}

static int put_all(struct zep_buf *b, const struct zep_node *n, const struct item *it, int count, struct zep_error *err)
{
    int open = 0, rc = ZEP_OK; /* bridges that are open */
    char text[40];

    for (int i = 0; i < count && rc == ZEP_OK; i++) {
        int fresh = i == 0 || it[i].numa != it[i - 1].numa, common = fresh ? 0 : same_bridges(it[i].bus, it[i - 1].bus);

        while (open > common) {
            indent(b, 1 + open--);
            zep_buf_puts(b, "</pci>\n");
        }
        if (fresh) {
            if (i)
                zep_buf_puts(b, "  </cpu>\n");
            zep_buf_printf(b, "  <cpu numaid=\"%d\" arch=\"%s\">\n", it[i].numa, arch_of(n));
        }
        for (; open < depth_of(it[i].bus); open++) {
            bridge(it[i].bus, open, text);
            put_pci(b, 2 + open, text, "0x060400", 0);
            zep_buf_puts(b, ">\n");
        }
        rc = put_item(b, n, &it[i], 2 + open, it[i].dev >= 0 ? gpu_number(n, it[i].dev) : -1, err);
    }
    for (; open > 0; open--) {
        indent(b, 1 + open);
        zep_buf_puts(b, "</pci>\n");
    }
    if (count)
        zep_buf_puts(b, "  </cpu>\n");
    return rc;
}

int zep_topo_to_nccl_xml(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_node *n = &topo->node[0];
    struct item *it = zep_calloc((size_t)n->n_device + (size_t)n->n_nic + 1, sizeof *it);
    int count = 0, rc = it ? ZEP_OK : zep_error_nomem(err, "NCCL topology");

    for (int i = 0; i < n->n_device && rc == ZEP_OK; i++) {
        if (!is_pci(n->device[i].key))
            rc = zep_error_set(err, ZEP_EUNAVAIL, "node '%s': device '%s' is not known by its PCI address, which NCCL needs: detect it on the node (--from local, hwloc or nccl)", n->id, n->device[i].key);
        else if (n->device[i].numa < 0)
            rc = zep_error_set(err, ZEP_EUNAVAIL, "node '%s': the NUMA domain of device '%s' is not known, which NCCL needs", n->id, n->device[i].key);
        else
            it[count++] = (struct item){i, -1, n->device[i].numa, n->device[i].key, n->device[i].bus ? n->device[i].bus : ""};
    }
    for (int i = 0; i < n->n_nic && rc == ZEP_OK; i++)
        if (is_pci(n->nic[i].key) && n->nic[i].numa >= 0 && n->nic[i].up != 0)
            it[count++] = (struct item){-1, i, n->nic[i].numa, n->nic[i].key, n->nic[i].bus ? n->nic[i].bus : ""};
    if (rc == ZEP_OK && !n->n_device)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "node '%s' has no GPUs: nothing for NCCL", n->id);
    if (rc == ZEP_OK) {
        qsort(it, (size_t)count, sizeof *it, cmp_item);
        zep_buf_puts(b, "<system version=\"1\">\n");
        rc = put_all(b, n, it, count, err);
        zep_buf_puts(b, "</system>\n");
    }
    free(it);
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}
