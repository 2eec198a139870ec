#include "config.h"
#include "launcher/report.h"

#include <inttypes.h>
#include <math.h>

#define WIDTH 860
#define HEIGHT 420
#define LEFT 70
#define RIGHT 30
#define TOP 50
#define BOTTOM 50

struct axes {
    double x0, x1, y0, y1; /* values at the edges */
};

static double px(const struct axes *a, double x)
{
    return LEFT + (x - a->x0) / (a->x1 > a->x0 ? a->x1 - a->x0 : 1) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct axes *a, double y)
{
    return HEIGHT - BOTTOM - (y - a->y0) / (a->y1 > a->y0 ? a->y1 - a->y0 : 1) * (HEIGHT - TOP - BOTTOM);
}

static void head(struct zep_buf *b, int width, double height, const char *title)
{
    zep_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height, width, height);
    zep_buf_printf(b, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"28\" font-size=\"15\">%s</text>\n", LEFT, title);
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

static void grid(struct zep_buf *b, const struct axes *a, const char *x_name, const char *y_name)
{
    double step = tick(a->y1 - a->y0);

    for (double y = ceil(a->y0 / step) * step; y <= a->y1 + 1e-9; y += step)
        zep_buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%g</text>\n", LEFT, py(a, y), WIDTH - RIGHT,
                       py(a, y), LEFT - 8, py(a, y) + 4, y);
    step = tick(a->x1 - a->x0);
    for (double x = ceil(a->x0 / step) * step; x <= a->x1 + 1e-9; x += step)
        zep_buf_printf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#555\">%g</text>\n", px(a, x), HEIGHT - BOTTOM + 18, x);
    zep_buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#555\">%s</text><text x=\"%d\" y=\"%d\" fill=\"#555\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_name, LEFT,
                   TOP - 6, y_name);
}

static void mark(struct zep_buf *b, const struct axes *a, double y, const char *name, const char *colour)
{
    zep_buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-dasharray=\"6 4\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"%s\">%s %.3f</text>\n", LEFT, py(a, y),
                   WIDTH - RIGHT, py(a, y), colour, WIDTH - RIGHT - 4, py(a, y) - 5, colour, name, y);
}

int zep_report_loss_svg(const struct zep_report *r, struct zep_buf *b, struct zep_error *err)
{
    struct axes a = {0, 1, 0, 1};
    double lo = HUGE_VAL, hi = 0;

    for (int i = 0; i < r->n_step; i++) {
        lo = r->step[i].loss < lo ? r->step[i].loss : lo;
        hi = r->step[i].loss > hi ? r->step[i].loss : hi;
    }
    for (int i = 0; i < r->n_eval; i++) {
        lo = r->eval[i].loss < lo ? r->eval[i].loss : lo;
        hi = r->eval[i].loss > hi ? r->eval[i].loss : hi;
    }
    if (r->bigram > 0) {
        lo = r->bigram < lo ? r->bigram : lo;
        hi = r->unigram > hi ? r->unigram : hi;
    }
    if (r->n_step)
        a = (struct axes){0, (double)r->step[r->n_step - 1].step, lo - 0.05 * (hi - lo), hi + 0.05 * (hi - lo)};
    head(b, WIDTH, HEIGHT, "loss (nats a token)");
    grid(b, &a, "step", "");
    if (r->bigram > 0) {
        mark(b, &a, r->unigram, "unigram", "#8a6d1d");
        mark(b, &a, r->bigram, "bigram", "#3b8f5a");
    }
    zep_buf_puts(b, "<polyline fill=\"none\" stroke=\"#2f6fb3\" stroke-width=\"1.5\" points=\"");
    for (int i = 0; i < r->n_step; i++)
        zep_buf_printf(b, "%.1f,%.1f ", px(&a, (double)r->step[i].step), py(&a, r->step[i].loss));
    zep_buf_puts(b, "\"/>\n");
    for (int i = 0; i < r->n_eval; i++)
        zep_buf_printf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#c2562d\"><title>held-out loss %.4f at step %" PRId64 "</title></circle>\n", px(&a, (double)r->eval[i].step), py(&a, r->eval[i].loss),
                       r->eval[i].loss, r->eval[i].step);
    zep_buf_printf(b, "<text x=\"%d\" y=\"28\" fill=\"#2f6fb3\">training</text><circle cx=\"%d\" cy=\"24\" r=\"4\" fill=\"#c2562d\"/><text x=\"%d\" y=\"28\" fill=\"#c2562d\">held out</text>\n</svg>\n",
                   WIDTH - 200, WIDTH - 130, WIDTH - 120);
    return zep_buf_ok(b, err);
}

/* Two bars a rank: tokens (attention layout, linear layout) and busy time, each against the largest. */
int zep_report_ranks_svg(const struct zep_report *r, struct zep_buf *b, struct zep_error *err)
{
    double row = r->n_rank <= 64 ? 30 : 12, height = TOP + 30 + r->n_rank * row + 30, half = (WIDTH - LEFT - RIGHT - 40) / 2.0, max_tok = 1, max_s = 1e-12, n = r->n_rank_step ? r->n_rank_step : 1;
    double x2 = LEFT + half + 40;

    for (int i = 0; i < r->n_rank; i++) {
        const struct zep_report_rank *k = &r->rank[i];

        max_tok = k->attn_tok > max_tok ? k->attn_tok : max_tok;
        max_tok = k->lin_tok > max_tok ? k->lin_tok : max_tok;
        max_s = k->busy_s > max_s ? k->busy_s : max_s;
    }
    head(b, WIDTH, height, "ranks: mean of a step");
    zep_buf_printf(b, "<text x=\"%d\" y=\"%d\" fill=\"#2f6fb3\">attention tokens</text><text x=\"%d\" y=\"%d\" fill=\"#444\">linear tokens</text><text x=\"%.0f\" y=\"%d\" fill=\"#c2562d\">busy seconds</text>\n",
                   LEFT, TOP + 8, LEFT + 120, TOP + 8, x2, TOP + 8);
    for (int i = 0; i < r->n_rank; i++) {
        const struct zep_report_rank *k = &r->rank[i];
        double y = TOP + 20 + i * row, h = row * 0.36;

        zep_buf_printf(b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">rank %d</text>\n", LEFT - 8, y + row * 0.5, i);
        zep_buf_printf(b, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#2f6fb3\"><title>%.1f tokens</title></rect>", LEFT, y, k->attn_tok / max_tok * half, h, k->attn_tok / n);
        zep_buf_printf(b, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#444\"><title>%.1f tokens</title></rect>", LEFT, y + h, k->lin_tok / max_tok * half, h, k->lin_tok / n);
        zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#c2562d\"><title>%.4f s, %.4g pairs</title></rect>\n", x2, y, k->busy_s / max_s * half, 2 * h, k->busy_s / n,
                       k->pairs / n);
    }
    zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%.0f tokens</text><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%.3f s</text>\n</svg>\n", LEFT + half, height - 12,
                   max_tok / n, x2 + half, height - 12, max_s / n);
    return zep_buf_ok(b, err);
}
