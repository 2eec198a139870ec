/* The plot of a sweep: tokens/s/device over the first axis, a line a method; a panel for each value of the second. */
#include "config.h"
#include "launcher/sweep.h"

#include <math.h>
#include <string.h>

#include "common/encode.h"

#define PANEL_W 520
#define PANEL_H 330
#define LEFT 64
#define RIGHT 16
#define TOP 34
#define BOTTOM 46
#define HEAD 40
#define LEGEND 170

static const char *const colours[] = {"#c2562d", "#e0a030", "#2f6fb3", "#3b8f5a", "#7b4fa3", "#444444", "#1f9aa8", "#b0417a", "#8a6d1d", "#6b8e23"};
#define N_COLOUR (int)(sizeof colours / sizeof colours[0])

struct panel {
    const struct zep_sweep *s;
    double x0, y0;      /* upper left corner */
    double low, high;   /* of the first axis, as it is drawn */
    double most;        /* tokens/s/device at the upper edge */
};

/* Doublings are equal steps; a slack, which hardly doubles, and names are drawn as they are. */
static double drawn(const struct zep_sweep_axis *x, int i)
{
    return x->key == ZEP_SWEEP_DIST || x->key == ZEP_SWEEP_SLACK ? x->value[i] : log(x->value[i]);
}

static double px(const struct panel *p, int i)
{
    double span = p->high - p->low, at = span > 0 ? (drawn(&p->s->axis[0], i) - p->low) / span : 0.5;

    return p->x0 + LEFT + 14 + at * (PANEL_W - LEFT - RIGHT - 28);
}

static double py(const struct panel *p, double y)
{
    return p->y0 + PANEL_H - BOTTOM - y / p->most * (PANEL_H - TOP - BOTTOM);
}

/* A round step for about five marks. */
static double tick(double span)
{
    double p = 1;

    if (!(span > 0))
        return 1;
    while (p * 10 <= span / 5)
        p *= 10;
    while (p > span / 5)
        p /= 10;
    return span / 5 > 5 * p ? 5 * p : span / 5 > 2 * p ? 2 * p : p;
}

static int put_frame(const struct panel *p, int second, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_sweep_axis *x = &p->s->axis[0];
    double step = tick(p->most), right = p->x0 + PANEL_W - RIGHT;
    int rc = ZEP_OK;

    if (p->s->n_axis > 1) {
        zep_buf_printf(b, "<text x=\"%.0f\" y=\"%.0f\" font-weight=\"bold\">%s ", p->x0 + LEFT, p->y0 + TOP - 10, zep_sweep_key_title(p->s->axis[1].key));
        rc = zep_encode_xml(b, p->s->axis[1].text[second], err);
        zep_buf_puts(b, "</text>\n");
    }
    for (int i = 0; i * step <= p->most + 1e-9; i++)
        zep_buf_printf(b, "<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%g</text>\n", p->x0 + LEFT, py(p, i * step), right, py(p, i * step),
                       p->x0 + LEFT - 8, py(p, i * step) + 4, i * step);
    for (int i = 0; i < x->n && rc == ZEP_OK; i++) {
        zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#555\">", px(p, i), p->y0 + PANEL_H - BOTTOM + 18);
        rc = zep_encode_xml(b, x->text[i], err);
        zep_buf_puts(b, "</text>\n");
    }
    zep_buf_printf(b, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#555\">%s</text>\n", (p->x0 + LEFT + right) / 2, p->y0 + PANEL_H - 10, zep_sweep_key_title(x->key));
    return rc;
}

/* A method's line, which has a gap where there is no number; then its points. */
static void put_line(const struct panel *p, const struct zep_sweep_point *point, int m, struct zep_buf *b)
{
    const struct zep_sweep *s = p->s;
    const char *colour = colours[m % N_COLOUR];
    int pen = 0, order[ZEP_SWEEP_VALUES], n = s->axis[0].n;

    for (int i = 0; i < n; i++) { /* the values may have been given in any order */
        int k = i;

        for (; k > 0 && s->axis[0].value[order[k - 1]] > s->axis[0].value[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    zep_buf_printf(b, "<g class=\"method\"><title>%s</title><path fill=\"none\" stroke=\"%s\" stroke-width=\"%d\"%s d=\"M0,0", s->method[m], colour, m ? 2 : 3, m >= N_COLOUR ? " stroke-dasharray=\"5 3\"" : "");
    for (int i = 0; i < n; i++) {
        const struct zep_sweep_row *r = &point[order[i]].row[m];

        if (r->step_s > 0)
            zep_buf_printf(b, " %c%.1f,%.1f", pen ? 'L' : 'M', px(p, order[i]), py(p, r->tokens_s_dev));
        pen = r->step_s > 0;
    }
    zep_buf_puts(b, "\"/>");
    for (int i = 0; i < n; i++) {
        const struct zep_sweep_row *r = &point[i].row[m];

        if (r->step_s > 0)
            zep_buf_printf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %s: %.0f tokens/s/device, step %.1f ms</title></circle>", px(p, i), py(p, r->tokens_s_dev), colour, s->method[m], s->axis[0].text[i],
                           r->tokens_s_dev, 1e3 * r->step_s);
    }
    zep_buf_puts(b, "</g>\n");
}

/* Where nothing could be predicted: a cross at the foot, which says why. */
static int put_gaps(const struct panel *p, const struct zep_sweep_point *point, struct zep_buf *b, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int i = 0; i < p->s->axis[0].n && rc == ZEP_OK; i++) {
        if (!*point[i].why)
            continue;
        zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#b00\">x<title>", px(p, i), py(p, 0) - 6);
        rc = zep_encode_xml(b, point[i].why, err);
        zep_buf_puts(b, "</title></text>\n");
    }
    return rc;
}

static void put_legend(const struct zep_sweep *s, double x, struct zep_buf *b)
{
    for (int m = 0; m < s->n_method; m++) {
        double y = HEAD + TOP + 18 * m;

        zep_buf_printf(b, "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"%s\" stroke-width=\"3\"%s/><text x=\"%.0f\" y=\"%.0f\">%s</text>\n", x, y, x + 22, y, colours[m % N_COLOUR],
                       m >= N_COLOUR ? " stroke-dasharray=\"5 3\"" : "", x + 28, y + 4, s->method[m]);
    }
}

static void set_range(struct panel *p)
{
    const struct zep_sweep *s = p->s;

    p->low = p->high = drawn(&s->axis[0], 0);
    for (int i = 1; i < s->axis[0].n; i++) {
        p->low = fmin(p->low, drawn(&s->axis[0], i));
        p->high = fmax(p->high, drawn(&s->axis[0], i));
    }
    for (int i = 0; i < s->n_point; i++)
        for (int m = 0; m < s->n_method; m++)
            p->most = fmax(p->most, 1.05 * s->point[i].row[m].tokens_s_dev);
}

int zep_sweep_to_svg(const struct zep_sweep *s, struct zep_buf *b, struct zep_error *err)
{
    int n_panel = s->n_axis > 1 ? s->axis[1].n : 1, across = n_panel < 3 ? n_panel : n_panel == 4 ? 2 : 3, rows = (n_panel + across - 1) / across, rc;
    int width = across * PANEL_W + LEGEND, height = HEAD + (rows * PANEL_H > 18 * s->n_method + 60 ? rows * PANEL_H : 18 * s->n_method + 60);
    struct panel p = {.s = s, .most = 1e-9};

    set_range(&p);
    zep_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height, width, height);
    zep_buf_printf(b, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"26\" font-size=\"15\">predicted tokens/s/device: ", LEFT);
    if ((rc = zep_encode_xml(b, s->model, err)) < 0)
        return rc;
    zep_buf_puts(b, " on ");
    if ((rc = zep_encode_xml(b, s->device, err)) < 0)
        return rc;
    zep_buf_printf(b, "%s</text>\n", s->calibrated ? "" : " (not calibrated)");
    for (int k = 0; k < n_panel; k++) {
        const struct zep_sweep_point *point = &s->point[k * s->axis[0].n];
        int row = k / across;

        p.x0 = (k - row * across) * PANEL_W;
        p.y0 = HEAD + row * PANEL_H;
        if ((rc = put_frame(&p, k, b, err)) < 0 || (rc = put_gaps(&p, point, b, err)) < 0)
            return rc;
        for (int m = s->n_method - 1; m >= 0; m--) /* the first above the others */
            put_line(&p, point, m, b);
    }
    put_legend(s, across * PANEL_W + 8, b);
    zep_buf_puts(b, "</svg>\n");
    return zep_buf_ok(b, err);
}
