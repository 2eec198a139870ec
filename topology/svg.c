/* Pictures: each fabric from its top down to the nodes, equal parts folded; below them the inside of each kind of node. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/units.h"
#include "topology/fold.h"
#include "topology/svg_node.h"

#define BOX_W 150
#define NODE_H 84
#define SWITCH_H 40
#define GAP 16
#define LEVEL_H 84
#define MAX_COLUMNS 48 /* groups drawn on one level */
#define FOLD_ABOVE 24  /* nodes */
#define MAX_KINDS 4

static int label(struct zep_buf *b, double x, double y, const char *attr, const char *text, struct zep_error *err)
{
    int rc;

    zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attr);
    rc = zep_encode_xml(b, text, err);
    zep_buf_puts(b, "</text>\n");
    return rc;
}

/* A name that fits into a box. */
static void shorten(const char *name, int max, char out[96])
{
    int len = (int)strlen(name);

    if (len <= max)
        snprintf(out, 96, "%s", name);
    else
        snprintf(out, 96, "%.*s…%s", max / 2, name, name + len - (max - max / 2 - 1));
}

static int put_node(struct zep_buf *b, const struct zep_topo *topo, const struct zep_fold_group *g, double x, double y, struct zep_error *err)
{
    const struct zep_node *n = &topo->node[g->first];
    char text[300], first[96], last[96];
    int rc;

    zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#eef3f8\" stroke=\"%s\"/>\n", x, y, BOX_W, NODE_H, zep_node_is_slow(n) ? "#c00000" : "#2f6fb3");
    shorten(n->id, g->n > 1 ? 8 : 18, first);
    shorten(topo->node[g->last].id, 8, last);
    if (g->n > 1)
        snprintf(text, sizeof text, "%s…%s", first, last);
    else
        snprintf(text, sizeof text, "%s", first);
    zep_buf_puts(b, "<g>");
    if ((rc = label(b, x + 8, y + 16, "font-weight=\"bold\"", text, err)) < 0)
        return rc;
    zep_buf_puts(b, "<title>");
    snprintf(text, sizeof text, g->n > 1 ? "%d nodes, %.100s to %.100s" : "node %.0d%.100s", g->n > 1 ? g->n : 0, n->id, topo->node[g->last].id);
    rc = zep_encode_xml(b, text, err);
    zep_buf_puts(b, "</title></g>\n");
    for (int i = 0; i < n->n_device && i < 16; i++)
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x + 8 + (i % 8) * 17, y + 24 + (i / 8) * 17.0, n->device[i].kind == ZEP_DEV_CPU ? "#8a8a8a" : "#3b8f5a");
    for (int i = 0; i < n->n_nic && i < 8; i++)
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"8\" fill=\"%s\"/>\n", x + 8 + i * 17, y + 60.0, n->nic[i].up == 0 ? "#d9b8aa" : "#c2562d");
    snprintf(text, sizeof text, "%d device%s, %d NIC%s", n->n_device, n->n_device == 1 ? "" : "s", n->n_nic, n->n_nic == 1 ? "" : "s");
    if (!n->n_device && n->sockets)
        snprintf(text, sizeof text, "%d cores, %d NIC%s", n->sockets * n->cores_per_socket, n->n_nic, n->n_nic == 1 ? "" : "s");
    else if (!n->n_device && !n->n_nic)
        snprintf(text, sizeof text, "inside not known");
    if (zep_node_is_slow(n) && strlen(text) + 6 < sizeof text)
        strcat(text, ", slow");
    if (g->n > 1) {
        snprintf(last, sizeof last, "%d nodes: ", g->n);
        memmove(text + strlen(last), text, strlen(text) + 1);
        memcpy(text, last, strlen(last));
    }
    return rc < 0 ? rc : label(b, x + 8, y + 80, "font-size=\"10\" fill=\"#555\"", text, err);
}

static int put_switch(struct zep_buf *b, const struct zep_fabric *f, const struct zep_fold_group *g, double x, double y, struct zep_error *err)
{
    char text[300], first[96], last[96], speed[ZEP_UNIT_BUF];
    int rc;

    shorten(f->sw[g->first].name, g->n > 1 ? 9 : 19, first);
    shorten(f->sw[g->last].name, 9, last);
    snprintf(text, sizeof text, g->n > 1 ? "%s…%s" : "%s", first, last);
    zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"#f4e9dc\" stroke=\"#8a6d1d\"/>\n<g>", x, y, BOX_W, SWITCH_H);
    if ((rc = label(b, x + BOX_W / 2.0, y + 17, "text-anchor=\"middle\"", text, err)) < 0)
        return rc;
    zep_buf_puts(b, "<title>");
    rc = zep_encode_xml(b, f->sw[g->first].name, err);
    zep_buf_puts(b, "</title></g>\n");
    if (g->n > 1)
        snprintf(text, sizeof text, "%d %s", g->n, f->kind == ZEP_FABRIC_BLOCKS ? "blocks" : f->kind == ZEP_FABRIC_RAILS && g->level == 1 ? "rails" : "switches");
    else
        *text = '\0';
    if (f->sw[g->first].uplink_bw.source != ZEP_SRC_NONE)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%sup %s", *text ? ", " : "", zep_format_bandwidth(f->sw[g->first].uplink_bw.value, speed));
    return rc < 0 || !*text ? rc : label(b, x + BOX_W / 2.0, y + 32, "text-anchor=\"middle\" font-size=\"10\" fill=\"#555\"", text, err);
}

struct place {
    double x; /* left; -1: not drawn */
    double want;
    int group;
};

static int cmp_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->want < y->want ? -1 : x->want > y->want ? 1 : (x->group > y->group) - (x->group < y->group);
}

/* Groups of a level beside each other, near where they want to be, within the columns there are. */
static int place_level(const struct zep_fold *f, int level, struct place *at, struct place *work, int *left_out)
{
    int n = 0, shown;

    for (int g = 0; g < f->n; g++)
        if (f->group[g].level == level) {
            double sum = 0;
            int k = 0;

            for (int c = 0; level > 0 && c < f->n; c++)
                for (int p = 0; p < f->group[c].n_parent; p++)
                    if (f->group[c].parent[p] == g && at[c].x >= 0) {
                        sum += at[c].x;
                        k++;
                    }
            work[n].group = g;
            work[n++].want = level == 0 ? g : k ? sum / k : 1e6 + g;
        }
    qsort(work, (size_t)n, sizeof *work, cmp_place);
    shown = n > MAX_COLUMNS ? MAX_COLUMNS : n;
    *left_out += n - shown;
    for (int i = 0; i < n; i++) {
        double x = level == 0 || work[i].want >= 1e6 ? GAP + i * (BOX_W + GAP) : work[i].want;

        if (i > 0 && i < shown && x < at[work[i - 1].group].x + BOX_W + GAP)
            x = at[work[i - 1].group].x + BOX_W + GAP;
        at[work[i].group].x = i < shown ? x : -1;
    }
    return n ? 0 : -1;
}

static int put_fabric(struct zep_buf *b, const struct zep_topo *topo, const struct zep_fabric *fabric, double *y_io, double *width_io, struct zep_error *err)
{
    struct zep_fold *f = NULL;
    struct place *at = NULL, *work = NULL;
    int rc = zep_fold_new(topo, fabric, topo->n_node > FOLD_ABOVE, &f, err), left_out = 0;
    double bottom;
    char text[300];

    if (rc < 0)
        return rc;
    at = zep_calloc((size_t)f->n + 1, sizeof *at);
    work = zep_calloc((size_t)f->n + 1, sizeof *work);
    if (!at || !work) {
        rc = zep_error_nomem(err, "picture");
        goto out;
    }
    for (int g = 0; g < f->n; g++)
        at[g].x = -1;
    for (int level = 0; level <= f->top; level++)
        place_level(f, level, at, work, &left_out);
    if (fabric) {
        if (fabric->kind == ZEP_FABRIC_BLOCKS)
            snprintf(text, sizeof text, "fabric %.100s: %d block%s", fabric->name, fabric->n_switch, fabric->n_switch == 1 ? "" : "s");
        else
            snprintf(text, sizeof text, "fabric %.100s: %s of %d switch%s", fabric->name, zep_fabric_kind_names[fabric->kind], fabric->n_switch, fabric->n_switch == 1 ? "" : "es");
        if ((rc = label(b, GAP, *y_io + 14, "font-weight=\"bold\"", text, err)) < 0)
            goto out;
        *y_io += 26;
    }
    bottom = *y_io + f->top * LEVEL_H;
    for (int g = 0; g < f->n; g++)
        for (int p = 0; p < f->group[g].n_parent; p++) {
            int up = f->group[g].parent[p];

            if (at[g].x >= 0 && at[up].x >= 0)
                zep_buf_printf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\"/>\n", at[g].x + BOX_W / 2.0, bottom - f->group[g].level * LEVEL_H, at[up].x + BOX_W / 2.0,
                               bottom - f->group[up].level * LEVEL_H + SWITCH_H);
        }
    for (int g = 0; g < f->n && rc == ZEP_OK; g++) {
        if (at[g].x < 0)
            continue;
        if (at[g].x + BOX_W + GAP > *width_io)
            *width_io = at[g].x + BOX_W + GAP;
        rc = f->group[g].level ? put_switch(b, fabric, &f->group[g], at[g].x, bottom - f->group[g].level * LEVEL_H, err) : put_node(b, topo, &f->group[g], at[g].x, bottom, err);
    }
    *y_io = bottom + NODE_H + 14;
    if (rc == ZEP_OK && left_out) {
        snprintf(text, sizeof text, "… and %d more groups that are not drawn", left_out);
        rc = label(b, GAP, *y_io + 6, "fill=\"#555\"", text, err);
        *y_io += 20;
    }
    *y_io += 16;
out:
    free(at);
    free(work);
    zep_fold_free(f);
    return rc;
}

/* The inside of each kind of node that has devices or NICs. */
static int put_insides(struct zep_buf *b, const struct zep_topo *topo, double *y_io, double *width_io, struct zep_error *err)
{
    uint64_t seen[MAX_KINDS];
    int n_seen = 0, rc;

    for (int i = 0; i < topo->n_node && n_seen < MAX_KINDS; i++) {
        uint64_t kind;
        int k = 0, count = 0;

        if (!topo->node[i].n_device && !topo->node[i].n_nic && topo->node[i].n_numa < 2)
            continue;
        kind = zep_node_digest(&topo->node[i]);
        while (k < n_seen && seen[k] != kind)
            k++;
        if (k < n_seen)
            continue;
        seen[n_seen++] = kind;
        for (int m = i; m < topo->n_node; m++)
            count += m == i || zep_node_digest(&topo->node[m]) == kind;
        if ((rc = zep_svg_node(b, &topo->node[i], count, y_io, width_io, err)) < 0)
            return rc;
    }
    return ZEP_OK;
}

int zep_topo_to_svg(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    struct zep_buf body = ZEP_BUF_INIT;
    const char *title = *topo->origin ? topo->origin : topo->name;
    double y = 44, width = 2 * GAP + 9.0 * (double)(strlen(title) < 100 ? strlen(title) : 100);
    int rc;

    width = width < 420 ? 420 : width;
    rc = label(&body, GAP, 26, "font-size=\"15\"", title, err);

    if (rc == ZEP_OK && !topo->n_fabric)
        rc = put_fabric(&body, topo, NULL, &y, &width, err);
    for (int i = 0; i < topo->n_fabric && rc == ZEP_OK; i++)
        rc = put_fabric(&body, topo, &topo->fabric[i], &y, &width, err);
    if (rc == ZEP_OK)
        rc = put_insides(&body, topo, &y, &width, err);
    if (rc == ZEP_OK && (rc = zep_buf_ok(&body, err)) == ZEP_OK) {
        zep_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                       width, y, width, y);
        zep_buf_add(b, body.data, body.len);
        zep_buf_puts(b, "</svg>\n");
        rc = zep_buf_ok(b, err);
    }
    zep_buf_free(&body);
    return rc;
}
