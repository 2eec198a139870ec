/* Sockets or NUMA domains beside each other; in each its PCIe switches with the GPUs and NICs behind them; a line from a device to its NIC where they are not on one switch. */
#include "config.h"
#include "topology/svg_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/units.h"
#include "topology/topo_internal.h"

#define ITEM_W 92
#define ITEM_H 30
#define PAD 8
#define HEAD 20
#define LEFT 16
#define MAX_ITEMS 512

struct item {
    int is_nic, index, numa;
    const char *bus; /* "" unknown */
    double x, y;
};

static int text_at(struct zep_buf *b, double x, double y, const char *attr, const char *text, struct zep_error *err)
{
    int rc;

    zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attr);
    rc = zep_encode_xml(b, text, err);
    zep_buf_puts(b, "</text>\n");
    return rc;
}

/* Devices first: they and their NICs stand one above the other. */
static int cmp_item(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c;

    if (x->numa != y->numa)
        return x->numa - y->numa;
    if ((c = strcmp(x->bus, y->bus)))
        return c;
    if (x->is_nic != y->is_nic)
        return x->is_nic - y->is_nic;
    return x->index - y->index;
}

static int collect(const struct zep_node *n, struct item *it)
{
    int count = 0;

    for (int i = 0; i < n->n_device && count < MAX_ITEMS; i++)
        it[count++] = (struct item){0, i, n->device[i].numa, n->device[i].bus ? n->device[i].bus : "", 0, 0};
    for (int i = 0; i < n->n_nic && count < MAX_ITEMS; i++)
        it[count++] = (struct item){1, i, n->nic[i].numa, n->nic[i].bus ? n->nic[i].bus : "", 0, 0};
    qsort(it, (size_t)count, sizeof *it, cmp_item);
    return count;
}

/* The switch: the path without the port below the last switch, where siblings share it. */
static int same_switch(const struct item *a, const struct item *b)
{
    const char *slash_a = strrchr(a->bus, '/'), *slash_b = strrchr(b->bus, '/');

    if (a->numa != b->numa)
        return 0;
    if (!strcmp(a->bus, b->bus))
        return 1;
    /* two ports of one switch: paths that differ in their last part only, below a bridge */
    return slash_a && slash_b && slash_a - a->bus == slash_b - b->bus && !strncmp(a->bus, b->bus, (size_t)(slash_a - a->bus)) && memchr(a->bus, '/', (size_t)(slash_a - a->bus));
}

static int put_item(struct zep_buf *b, const struct zep_node *n, const struct item *it, struct zep_error *err)
{
    char top[120], below[120] = "", speed[ZEP_UNIT_BUF];
    double share = 1;
    const char *fill;
    int rc;

    if (it->is_nic) {
        const struct zep_nic *c = &n->nic[it->index];

        snprintf(top, sizeof top, "%.14s", c->name);
        if (c->up == 0)
            snprintf(below, sizeof below, "down");
        else if (c->bw.source != ZEP_SRC_NONE)
            snprintf(below, sizeof below, "%s", zep_format_bandwidth(c->bw.value, speed));
        share = c->speed.value > 0 ? c->speed.value : 1;
        fill = c->up == 0 ? "#d9b8aa" : zep_nic_is_used(n, it->index) || !n->n_device ? "#e8a487" : "#eadfd9";
    } else {
        const struct zep_device *d = &n->device[it->index];

        snprintf(top, sizeof top, "%s %d", d->kind == ZEP_DEV_CPU ? "CPU" : d->mig ? "MIG" : "GPU", it->index);
        if (d->mig)
            snprintf(below, sizeof below, "%.16s", d->mig);
        else if (strlen(d->key) <= 14)
            snprintf(below, sizeof below, "%s", d->key);
        share = zep_device_speed(n, it->index);
        fill = d->kind == ZEP_DEV_CPU ? "#d5d5d5" : "#a9d6b8";
    }
    if (share != 1)
        snprintf(below, sizeof below, "%s %s", share < 1 ? "slow:" : "speed", zep_format_number(share, speed));
    zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"%s\"/>\n", it->x, it->y, ITEM_W, ITEM_H, fill, share < 1 ? "#c00000\" stroke-width=\"2" : "#555");
    if ((rc = text_at(b, it->x + 5, it->y + 13, "font-size=\"11\"", top, err)) < 0)
        return rc;
    return text_at(b, it->x + 5, it->y + 25, "font-size=\"9\" fill=\"#444\"", below, err);
}

/* From a device to its NIC: dashed and named with the distance where another box is between. */
static void put_links(struct zep_buf *b, const struct zep_node *n, const struct item *it, int count)
{
    for (int i = 0; i < count; i++) {
        const struct zep_device *d = it[i].is_nic ? NULL : &n->device[it[i].index];

        for (int k = 0; d && d->nic >= 0 && k < count; k++)
            if (it[k].is_nic && it[k].index == d->nic)
                zep_buf_printf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#c2562d\"%s><title>%s</title></line>\n", it[i].x + ITEM_W / 2.0, it[i].y + ITEM_H, it[k].x + ITEM_W / 2.0, it[k].y,
                               d->nic_distance == ZEP_DIST_SWITCH ? "" : " stroke-dasharray=\"4 3\"", zep_distance_names[d->nic_distance]);
    }
}

/* Columns of one switch: its devices in the upper row, its NICs in the lower one. */
static int put_switch(struct zep_buf *b, struct item *it, int n, double x, double y, double *w_out, struct zep_error *err)
{
    int n_dev = 0, n_nic = 0, wide, rc = ZEP_OK;
    const char *slash = strrchr(it[0].bus, '/');

    for (int i = 0; i < n; i++) {
        it[i].x = x + PAD + (it[i].is_nic ? n_nic++ : n_dev++) * (ITEM_W + PAD);
        it[i].y = y + HEAD + (it[i].is_nic ? ITEM_H + 26 : 0);
    }
    wide = n_dev > n_nic ? n_dev : n_nic;
    *w_out = wide * (ITEM_W + PAD) + PAD;
    if (slash) {
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"4\" fill=\"#f7f2e6\" stroke=\"#8a6d1d\"/>\n", x, y, *w_out, HEAD + 2 * ITEM_H + 26 + PAD);
        rc = text_at(b, x + PAD, y + 14, "font-size=\"10\" fill=\"#8a6d1d\"", "PCIe switch", err);
    }
    return rc;
}

int zep_svg_node(struct zep_buf *b, const struct zep_node *n, int count, double *y_io, double *width_io, struct zep_error *err)
{
    struct item *it = zep_calloc(MAX_ITEMS, sizeof *it);
    double x = LEFT, y = *y_io + 24, h = HEAD + (HEAD + 2 * ITEM_H + 26 + PAD) + 2 * PAD;
    struct zep_buf boxes = ZEP_BUF_INIT;
    int n_item, rc, links = 0;
    char text[300], speed[ZEP_UNIT_BUF];

    if (!it)
        return zep_error_nomem(err, "picture");
    n_item = collect(n, it);
    for (int i = 0; i < n->n_device; i++)
        for (int k = 0; n->device[i].peer_nvlink && k < n->n_device; k++)
            links = n->device[i].peer_nvlink[k] > links ? n->device[i].peer_nvlink[k] : links;
    snprintf(text, sizeof text, count > 1 ? "inside of %.100s (%d nodes of this kind)%s" : "inside of %.100s%.0d%s", n->id, count > 1 ? count : 0, "");
    rc = text_at(b, LEFT, *y_io + 14, "font-weight=\"bold\"", text, err);
    for (int i = 0, domain; i < n_item && rc == ZEP_OK; i += domain) {
        double x0 = x, w;
        int k;

        for (domain = 1; i + domain < n_item && it[i + domain].numa == it[i].numa; domain++)
            ;
        x += PAD;
        for (k = 0; k < domain && rc == ZEP_OK;) {
            int run = 1;

            while (k + run < domain && same_switch(&it[i + k], &it[i + k + run]))
                run++;
            rc = put_switch(&boxes, &it[i + k], run, x, y + HEAD + PAD, &w, err);
            x += w + PAD;
            k += run;
        }
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" fill=\"#f4f7fb\" stroke=\"#2f6fb3\"/>\n", x0, y, x - x0, h);
        if (it[i].numa >= 0)
            snprintf(text, sizeof text, "NUMA domain %d", it[i].numa);
        else
            snprintf(text, sizeof text, "NUMA domain unknown");
        if (rc == ZEP_OK)
            rc = text_at(b, x0 + PAD, y + 15, "font-size=\"11\" fill=\"#2f6fb3\"", text, err);
        x += 12;
    }
    if (boxes.len)
        zep_buf_add(b, boxes.data, boxes.len);
    put_links(b, n, it, n_item);
    for (int i = 0; i < n_item && rc == ZEP_OK; i++)
        rc = put_item(b, n, &it[i], err);
    y += n_item ? h + 8 : 0;
    if (rc == ZEP_OK && n->n_device && (links || n->device[0].bw.source != ZEP_SRC_NONE)) {
        *text = '\0';
        if (links)
            snprintf(text, sizeof text, "NVLink: %d link%s between two GPUs", links, links == 1 ? "" : "s");
        if (n->device[0].bw.source != ZEP_SRC_NONE)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s for a device", links ? ", " : "between devices: ", zep_format_bandwidth(n->device[0].bw.value, speed));
        zep_buf_printf(b, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"18\" rx=\"4\" fill=\"#dff0e5\" stroke=\"#3b8f5a\"/>\n", LEFT, y, x - LEFT - 12 > 300 ? x - LEFT - 12 : 300);
        rc = text_at(b, LEFT + PAD, y + 13, "font-size=\"11\"", text, err);
        y += 26;
    }
    if (x + 4 > *width_io)
        *width_io = x + 4;
    *y_io = y + 18;
    zep_buf_free(&boxes);
    free(it);
    return rc;
}
