/* The plan as a picture: one row a device, tokens to the right, pieces coloured by zone, the linear layout as a thin bar below. */
#include "config.h"
#include "planner/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"

#define LEFT 150
#define TOP 64
#define WIDTH 860

struct frame {
    double x_scale, row_h, gap;
};

static const char *const colour[][2] = {{"#999", "#aaa"}, {"#3b8f5a", "#57ab76"}, {"#2f6fb3", "#4c8cd0"}, {"#c2562d", "#dd7349"}};

static double row_y(const struct zep_plan *p, const struct frame *f, int dev)
{
    return TOP + dev * (f->row_h + f->gap) + p->dev_node[dev] * f->gap * 2;
}

static void put_piece(const struct zep_plan *p, const struct frame *f, int dev, const struct zep_piece *pc, struct zep_buf *b)
{
    const struct zep_plan_seq *s = &p->seq[pc->seq];
    int zone = p->ring[s->ring].zone, plain = p->ring[s->ring].form == ZEP_FORM_SINGLE && !p->ring[s->ring].heads;
    char form[32];

    zep_buf_printf(b, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"", LEFT + (double)pc->row0 * f->x_scale, row_y(p, f, dev), (double)(pc->end - pc->begin) * f->x_scale,
                   f->row_h * 0.78, colour[zone][pc->seq % 2]);
    if (p->n_seq <= 2000)
        zep_buf_printf(b, "><title>device %d: sequence %d (%" PRId64 " tokens), tokens %" PRId64 " to %" PRId64 ", %s, ring %d of %d%s%s</title></rect>\n", dev, pc->seq, s->len, pc->begin, pc->end,
                       zep_zone_text[zone], s->ring, p->ring[s->ring].n_member, plain ? "" : ", ", plain ? "" : zep_ring_form_text(&p->ring[s->ring], form));
    else
        zep_buf_puts(b, "/>\n");
}

static void put_label(const struct zep_plan *p, const struct frame *f, int dev, double speed, struct zep_buf *b)
{
    if (f->row_h >= 10)
        zep_buf_printf(b, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">device %d</text>\n", LEFT - 8, row_y(p, f, dev) + f->row_h * 0.62, dev);
    if (speed < 1)
        zep_buf_printf(b, "<text x=\"%d\" y=\"%.2f\" fill=\"#b00020\" font-size=\"%.0f\">slow: %.2g</text>\n", LEFT + WIDTH + 6, row_y(p, f, dev) + f->row_h * 0.62, f->row_h < 12 ? f->row_h : 11, speed);
}

static int put_node(const char *name, int node, double y, struct zep_buf *b, struct zep_error *err)
{
    char text[64];
    int rc;

    snprintf(text, sizeof text, name && strlen(name) > 12 ? "%.11s~" : "%s", name ? name : "");
    if (!name)
        snprintf(text, sizeof text, "node %d", node);
    zep_buf_printf(b, "<text x=\"4\" y=\"%.2f\" fill=\"#555\" font-size=\"11\"><title>", y);
    if ((rc = zep_encode_xml(b, name ? name : text, err)) < 0)
        return rc;
    zep_buf_puts(b, "</title>");
    if ((rc = zep_encode_xml(b, text, err)) < 0)
        return rc;
    zep_buf_puts(b, "</text>\n");
    return ZEP_OK;
}

static int put_device(const struct zep_plan *p, const struct frame *f, int dev, struct zep_buf *b, struct zep_error *err)
{
    struct zep_piece *pc = NULL;
    int n, rc;

    if ((rc = zep_plan_attn_pieces(p, dev, &pc, &n, err)) < 0)
        return rc;
    for (int i = 0; i < n; i++)
        put_piece(p, f, dev, &pc[i], b);
    free(pc);
    zep_buf_printf(b, "<rect x=\"%d\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"#444\"><title>device %d: %" PRId64 " tokens in the linear layout</title></rect>\n", LEFT,
                   row_y(p, f, dev) + f->row_h * 0.84, (double)p->lin_tok[dev] * f->x_scale, f->row_h * 0.12, dev, p->lin_tok[dev]);
    return ZEP_OK;
}

static void put_legend(const struct zep_plan *p, double y, struct zep_buf *b)
{
    struct zep_plan_stats st;
    double x = LEFT;

    zep_plan_stats(p, &st);
    for (int z = ZEP_ZONE_LOCAL; z <= ZEP_ZONE_INTER; z++, x += 240) {
        zep_buf_printf(b, "<rect x=\"%.0f\" y=\"%.2f\" width=\"12\" height=\"12\" fill=\"%s\"/>", x, y - 10, colour[z][0]);
        zep_buf_printf(b, "<text x=\"%.0f\" y=\"%.2f\">%s: %" PRId64 " tokens, %" PRId64 " seq.</text>\n", x + 18, y, zep_zone_text[z], st.zone_tok[z], st.zone_seq[z]);
    }
    zep_buf_printf(b, "<rect x=\"%.0f\" y=\"%.2f\" width=\"12\" height=\"4\" fill=\"#444\"/><text x=\"%.0f\" y=\"%.2f\">linear layout</text>\n", x, y - 6, x + 18, y);
}

int zep_plan_to_svg(const struct zep_plan *p, const char *const *node_name, const double *speed, struct zep_buf *b, struct zep_error *err)
{
    struct frame f = {.row_h = p->n_dev <= 32 ? 26 : p->n_dev <= 128 ? 12 : 4, .gap = p->n_dev <= 32 ? 6 : 2};
    int64_t widest = p->capacity_tok;
    double bottom, cap_x;
    int rc;

    for (int d = 0; d < p->n_dev; d++) {
        widest = p->attn_tok[d] > widest ? p->attn_tok[d] : widest;
        widest = p->lin_tok[d] > widest ? p->lin_tok[d] : widest;
    }
    f.x_scale = (double)WIDTH / (double)widest;
    bottom = row_y(p, &f, p->n_dev - 1) + f.row_h;
    cap_x = LEFT + (double)p->capacity_tok * f.x_scale;
    zep_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", LEFT + WIDTH + 70, bottom + 62,
                   LEFT + WIDTH + 70, bottom + 62);
    zep_buf_printf(b, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"26\" font-size=\"15\">%s: %d sequences, %" PRId64 " tokens on %d devices in %d nodes</text>\n", LEFT, p->method,
                   p->n_seq, p->n_token, p->n_dev, p->n_node);
    zep_buf_printf(b, "<text x=\"%d\" y=\"46\" fill=\"#555\">attention layout of each device; capacity %" PRId64 " tokens (dashed)</text>\n", LEFT, p->capacity_tok);
    for (int d = 0; d < p->n_dev; d++) {
        if ((d == 0 || p->dev_node[d] != p->dev_node[d - 1]) && (rc = put_node(node_name ? node_name[p->dev_node[d]] : NULL, p->dev_node[d], row_y(p, &f, d) + 8, b, err)) < 0)
            return rc;
        put_label(p, &f, d, speed ? speed[d] : 1, b);
        if ((rc = put_device(p, &f, d, b, err)) < 0)
            return rc;
    }
    zep_buf_printf(b, "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#333\" stroke-dasharray=\"4 3\"/>\n", cap_x, TOP - 6, cap_x, bottom + 4);
    zep_buf_printf(b, "<text x=\"%d\" y=\"%.2f\" fill=\"#555\">0</text><text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\" fill=\"#555\">%" PRId64 " tokens</text>\n", LEFT, bottom + 20, LEFT + WIDTH + 0.0,
                   bottom + 20, widest);
    put_legend(p, bottom + 46, b);
    zep_buf_puts(b, "</svg>\n");
    return zep_buf_ok(b, err);
}
