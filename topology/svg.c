/* The switch tree from the top down, nodes with their devices and NICs below; rows of equal nodes are drawn as one box. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"

#define BOX_W 150
#define BOX_H 84
#define GAP 16
#define LEVEL_H 70
#define MAX_COLUMNS 64

struct column { /* nodes that follow each other on one leaf */
    int first, n, leaf;
};

static int label(struct zep_buf *b, double x, double y, const char *attr, const char *text, struct zep_error *err)
{
    int rc;

    zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attr);
    rc = zep_encode_xml(b, text, err);
    zep_buf_puts(b, "</text>\n");
    return rc;
}

static int put_node(struct zep_buf *b, const struct zep_topo *topo, const struct column *c, double x, double y, struct zep_error *err)
{
    const struct zep_node *n = &topo->node[c->first];
    char text[300];
    int rc;

    zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#eef3f8\" stroke=\"#2f6fb3\"/>\n", x, y, BOX_W, BOX_H);
    if (c->n > 1)
        snprintf(text, sizeof text, "%.60s ... %.60s (%d)", n->id, topo->node[c->first + c->n - 1].id, c->n);
    else
        snprintf(text, sizeof text, "%.120s", n->id);
    if ((rc = label(b, x + 8, y + 16, "font-weight=\"bold\"", text, err)) < 0)
        return rc;
    for (int i = 0; i < n->n_device && i < 16; i++)
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x + 8 + (i % 8) * 17, y + 24 + (i / 8) * 17.0, n->device[i].kind == ZEP_DEV_CPU ? "#8a8a8a" : "#3b8f5a");
    for (int i = 0; i < n->n_nic && i < 8; i++)
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"8\" fill=\"#c2562d\"/>\n", x + 8 + i * 17, y + 60.0);
    snprintf(text, sizeof text, "%d devices, %d NICs", n->n_device, n->n_nic);
    if (!n->n_device && n->sockets)
        snprintf(text, sizeof text, "%d cores, %d NICs", n->sockets * n->cores_per_socket, n->n_nic);
    return label(b, x + 8, y + 80, "font-size=\"10\" fill=\"#555\"", text, err);
}

/* Leaf switches of all nodes in the first fabric, -1 none. */
static void find_leaves(const struct zep_topo *topo, int *leaf)
{
    for (int i = 0; i < topo->n_node; i++)
        leaf[i] = -1;
    for (int s = topo->n_fabric ? topo->fabric[0].n_switch - 1 : -1; s >= 0; s--)
        for (int k = 0; k < topo->fabric[0].sw[s].n_node; k++)
            leaf[topo->fabric[0].sw[s].node[k]] = s;
}

/* Nodes are drawn each up to 24 of them; in larger clusters the nodes of a leaf are folded. */
static int make_columns(const struct zep_topo *topo, struct column *col, const int *leaf)
{
    int n = 0, fold = topo->n_node > 24;

    for (int i = 0; i < topo->n_node; i++) {
        if (fold && n && col[n - 1].leaf == leaf[i])
            col[n - 1].n++;
        else
            col[n++] = (struct column){i, 1, leaf[i]};
    }
    return n;
}

int zep_topo_to_svg(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_fabric *f = topo->n_fabric ? &topo->fabric[0] : NULL;
    struct column *col = zep_calloc((size_t)topo->n_node + 1, sizeof *col);
    double *sx = zep_calloc(f ? (size_t)f->n_switch + 1 : 1, sizeof *sx);
    int *leaf = zep_calloc((size_t)topo->n_node + 1, sizeof *leaf), n, shown, top = -1, rc = ZEP_OK;
    double width, height, y_nodes;

    if (!col || !sx || !leaf) {
        free(col);
        free(sx);
        free(leaf);
        return zep_error_nomem(err, "picture");
    }
    find_leaves(topo, leaf);
    n = make_columns(topo, col, leaf);
    free(leaf);
    shown = n > MAX_COLUMNS ? MAX_COLUMNS : n;
    for (int i = 0; f && i < f->n_switch; i++)
        top = f->sw[i].level > top ? f->sw[i].level : top;
    width = 2 * GAP + shown * (BOX_W + GAP);
    width = width < 420 ? 420 : width;
    y_nodes = 60 + (top + 1) * LEVEL_H;
    height = y_nodes + BOX_H + 40;
    zep_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                   width, height, width, height);
    rc = label(b, GAP, 26, "font-size=\"15\"", *topo->origin ? topo->origin : topo->name, err);
    for (int s = 0; f && s < f->n_switch; s++) { /* leaves above their nodes, others above the middle */
        int k = 0;
        double sum = 0;

        for (int i = 0; i < shown; i++)
            if (col[i].leaf == s) {
                sum += GAP + i * (BOX_W + GAP) + BOX_W / 2.0;
                k++;
            }
        sx[s] = k ? sum / k : -1;
    }
    for (int level = 1; f && level <= top; level++) {
        int at = 0, in_level = 0;

        for (int s = 0; s < f->n_switch; s++)
            in_level += f->sw[s].level == level;
        for (int s = 0; s < f->n_switch; s++)
            if (f->sw[s].level == level && sx[s] < 0)
                sx[s] = width * (++at) / (in_level + 1);
    }
    for (int s = 0; f && s < f->n_switch; s++)
        for (int p = 0; p < f->sw[s].n_parent; p++) {
            int up = f->sw[s].parent[p];

            if (sx[s] >= 0 && sx[up] >= 0)
                zep_buf_printf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888\"/>\n", sx[s], 60.0 + (top - f->sw[s].level) * LEVEL_H, sx[up], 60.0 + (top - f->sw[up].level) * LEVEL_H + 26);
        }
    for (int i = 0; i < shown; i++)
        if (col[i].leaf >= 0)
            zep_buf_printf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888\"/>\n", sx[col[i].leaf], 60.0 + top * LEVEL_H + 26, GAP + i * (BOX_W + GAP) + BOX_W / 2.0, y_nodes);
    for (int s = 0; f && s < f->n_switch && rc == ZEP_OK; s++) {
        double y = 60.0 + (top - f->sw[s].level) * LEVEL_H;

        if (sx[s] < 0)
            continue;
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"92\" height=\"26\" rx=\"4\" fill=\"#f4e9dc\" stroke=\"#8a6d1d\"/>\n", sx[s] - 46, y);
        rc = label(b, sx[s], y + 17, "text-anchor=\"middle\"", f->sw[s].name, err);
    }
    for (int i = 0; i < shown && rc == ZEP_OK; i++)
        rc = put_node(b, topo, &col[i], GAP + i * (BOX_W + GAP), y_nodes, err);
    if (rc == ZEP_OK && n > shown) {
        char text[64];

        snprintf(text, sizeof text, "... %d more groups of nodes", n - shown);
        rc = label(b, GAP, height - 12, "fill=\"#555\"", text, err);
    }
    zep_buf_puts(b, "</svg>\n");
    free(col);
    free(sx);
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}
