/* Devices and NICs of a node as nvidia-smi topo -m shows them: how near each is to each. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"

static const char *const words[] = {"?", "PIX", "PXB", "PHB", "NODE", "SYS"};

static void name_of(const struct zep_node *n, int i, char out[24])
{
    if (i < n->n_device)
        snprintf(out, 24, "%s%d", n->device[i].kind == ZEP_DEV_CPU ? "CPU" : n->device[i].mig ? "MIG" : "GPU", i);
    else
        snprintf(out, 24, "%.20s", n->nic[i - n->n_device].name);
}

static enum zep_distance nic_to_nic(const struct zep_node *n, int a, int b)
{
    struct zep_device x = {.bus = n->nic[a].bus, .numa = n->nic[a].numa};
    struct zep_node pair = {.n_device = 1, .device = &x, .n_nic = n->n_nic, .nic = n->nic};

    return zep_node_nic_distance(&pair, 0, b);
}

static void cell(const struct zep_node *n, int row, int col, char out[24])
{
    int nd = n->n_device;

    if (row == col)
        snprintf(out, 24, "X");
    else if (row < nd && col < nd && n->device[row].peer_nvlink && n->device[row].peer_nvlink[col])
        snprintf(out, 24, "NV%d", n->device[row].peer_nvlink[col]);
    else if (row < nd && col < nd)
        snprintf(out, 24, "%s", words[zep_node_peer_distance(n, row, col)]);
    else if (row < nd || col < nd)
        snprintf(out, 24, "%s%s", words[zep_node_nic_distance(n, row < nd ? row : col, (row < nd ? col : row) - nd)], row < nd && n->device[row].nic == col - nd ? "*" : col < nd && n->device[col].nic == row - nd ? "*" : "");
    else
        snprintf(out, 24, "%s", words[nic_to_nic(n, row - nd, col - nd)]);
}

static void put_matrix(const struct zep_node *n, struct zep_buf *b)
{
    int total = n->n_device + n->n_nic, width = 4;
    char text[24];

    for (int i = 0; i < total; i++) {
        name_of(n, i, text);
        width = (int)strlen(text) > width ? (int)strlen(text) : width;
    }
    zep_buf_printf(b, "%*s", width + 2, "");
    for (int i = 0; i < total; i++) {
        name_of(n, i, text);
        zep_buf_printf(b, "  %-*s", width, text);
    }
    zep_buf_puts(b, "  NUMA\n");
    for (int row = 0; row < total; row++) {
        int numa = row < n->n_device ? n->device[row].numa : n->nic[row - n->n_device].numa;

        name_of(n, row, text);
        zep_buf_printf(b, "  %-*s", width, text);
        for (int col = 0; col < total; col++) {
            cell(n, row, col, text);
            zep_buf_printf(b, "  %-*s", width, text);
        }
        if (numa >= 0)
            zep_buf_printf(b, "  %d\n", numa);
        else
            zep_buf_puts(b, "  ?\n");
    }
}

static int put_kind(const struct zep_topo *topo, const uint64_t *kind, int first, struct zep_buf *b, struct zep_error *err)
{
    const char **name = zep_calloc((size_t)topo->n_node, sizeof *name);
    char *folded = NULL;
    int n = 0, rc;

    if (!name)
        return zep_error_nomem(err, "matrix");
    for (int i = first; i < topo->n_node; i++)
        if (kind[i] == kind[first])
            name[n++] = topo->node[i].id;
    if ((rc = zep_hostlist_fold(n, name, &folded, err)) == ZEP_OK) {
        zep_buf_printf(b, "%d x %s\n", n, folded);
        put_matrix(&topo->node[first], b);
    }
    free(folded);
    free(name);
    return rc;
}

int zep_topo_to_matrix(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    uint64_t *kind = zep_calloc((size_t)topo->n_node + 1, sizeof *kind);
    int rc = kind ? ZEP_OK : zep_error_nomem(err, "matrix"), shown = 0;

    for (int i = 0; i < topo->n_node && rc == ZEP_OK; i++)
        kind[i] = zep_node_digest(&topo->node[i]);
    for (int i = 0; i < topo->n_node && rc == ZEP_OK && shown < 16; i++) {
        int k = 0;

        while (k < i && kind[k] != kind[i])
            k++;
        if (k < i || !(topo->node[i].n_device + topo->node[i].n_nic))
            continue;
        shown++;
        rc = put_kind(topo, kind, i, b, err);
    }
    free(kind);
    if (rc == ZEP_OK && !shown)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: no node of which devices or NICs are known", topo->origin);
    zep_buf_puts(b, "\n* the NIC that the device uses; PIX same PCIe switch, PXB several PCIe switches, PHB host bridge, NODE same NUMA domain, SYS across sockets, NV# NVLinks, ? unknown (between NICs: not kept)\n");
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}
