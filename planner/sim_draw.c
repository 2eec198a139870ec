/* Timelines of a simulated layer: a Gantt chart (SVG), and the trace format of Chrome and Perfetto. */
#include "config.h"
#include "planner/sim.h"

#include <stdlib.h>

#include "common/arena.h"

static const char *const names[ZEP_N_SPAN_KIND] = {"linear", "attention", "add", "copy", "transfer in node", "transfer between nodes"};
static const char *const colours[ZEP_N_SPAN_KIND] = {"#9aa5b1", "#2f6fb2", "#7fb069", "#c9ada7", "#f2b134", "#d1495b"};

static int is_xfer(const struct zep_sim_span *s)
{
    return s->kind == ZEP_SPAN_XFER_NODE || s->kind == ZEP_SPAN_XFER_NET;
}

static void put_name(struct zep_buf *b, const struct zep_sim_span *s)
{
    zep_buf_puts(b, names[s->kind]);
    if (is_xfer(s))
        zep_buf_printf(b, " %d to %d, %.4g MB", s->dev, s->peer, s->bytes / 1e6);
    else if (s->ring >= 0)
        zep_buf_printf(b, " ring %d step %d", s->ring, s->step);
}

/* One process a device; threads: computing, sending inside the node, sending between nodes. Times in microseconds. */
int zep_sim_to_trace(const struct zep_sim *sim, const struct zep_plan *plan, struct zep_buf *out, struct zep_error *err)
{
    double at = 0;
    int first = 1;

    zep_buf_puts(out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    for (int d = 0; d < plan->n_dev; d++) {
        zep_buf_printf(out, "%s{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"device %d (node %d)\"}}", d ? ",\n" : "", d, d, plan->dev_node[d]);
        for (int t = 0; t < 3; t++)
            zep_buf_printf(out, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"%s\"}}", d, t, t == 0 ? "computing" : t == 1 ? "sending in the node" : "sending between nodes");
        first = 0;
    }
    for (int p = 0; p < 2; p++) {
        const struct zep_sim_pass *pass = &sim->pass[p];

        for (int i = 0; i < pass->n_span; i++) {
            const struct zep_sim_span *s = &pass->span[i];

            if (s->t1 <= s->t0)
                continue;
            zep_buf_printf(out, "%s{\"name\": \"", first ? "" : ",\n");
            put_name(out, s);
            zep_buf_printf(out, "\", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.4f, \"dur\": %.4f}", p ? "backward" : "forward", s->dev, is_xfer(s) ? 1 + (s->kind == ZEP_SPAN_XFER_NET) : 0, 1e6 * (at + s->t0),
                           1e6 * (s->t1 - s->t0));
            first = 0;
        }
        at += pass->time_s;
    }
    zep_buf_puts(out, "\n]}\n");
    return zep_buf_ok(out, err);
}

#define MAX_ROWS 128 /* devices that are drawn */
#define WIDTH 1200.0
#define LEFT 90.0
#define ROW 18.0
#define MAX_BARS 40000

/* Marks the spans of the critical path of a pass. */
static int mark_critical(const struct zep_sim_pass *pass, unsigned char **mark_out, struct zep_error *err)
{
    unsigned char *mark = zep_calloc((size_t)pass->n_span + 1, 1);
    int32_t *list;
    int n, rc;

    if (!mark)
        return zep_error_nomem(err, "picture");
    if ((rc = zep_sim_critical(pass, &list, &n, err)) < 0) {
        free(mark);
        return rc;
    }
    for (int i = 0; i < n; i++)
        mark[list[i]] = 1;
    free(list);
    *mark_out = mark;
    return ZEP_OK;
}

static int put_pass(const struct zep_sim_pass *pass, double x0, double scale, int n_row, double top, struct zep_buf *out, struct zep_error *err)
{
    unsigned char *critical = NULL;
    int rc = mark_critical(pass, &critical, err), bars = 0;

    if (rc < 0)
        return rc;
    for (int i = 0; i < pass->n_span && bars < MAX_BARS; i++) {
        const struct zep_sim_span *s = &pass->span[i];
        double w = (s->t1 - s->t0) * scale, y;

        if (s->dev >= n_row || (w < 0.3 && !critical[i]))
            continue;
        y = top + s->dev * ROW + (is_xfer(s) ? (s->kind == ZEP_SPAN_XFER_NET ? 13 : 10) : 1);
        zep_buf_printf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"%s><title>", x0 + s->t0 * scale, y, w < 0.3 ? 0.3 : w, is_xfer(s) ? 2.5 : 8.0, colours[s->kind],
                       critical[i] ? " stroke=\"#111\" stroke-width=\"0.8\"" : "");
        put_name(out, s);
        zep_buf_printf(out, ", %.3f to %.3f ms%s</title></rect>\n", 1e3 * s->t0, 1e3 * s->t1, critical[i] ? ", critical" : "");
        bars++;
    }
    free(critical);
    return ZEP_OK;
}

/* 1, 2 or 5 times a power of ten: ten ticks at most. */
static double tick_of(double total)
{
    double tick = 1;

    while (tick * 10 < total)
        tick *= 10;
    while (tick >= total && total > 0)
        tick /= 10;
    return total / tick > 5 ? tick : total / tick > 2 ? tick / 2 : tick / 5;
}

int zep_sim_to_svg(const struct zep_sim *sim, const struct zep_plan *plan, struct zep_buf *out, struct zep_error *err)
{
    double total = sim->pass[0].time_s + sim->pass[1].time_s, scale = WIDTH / total, top = 58, split = LEFT + sim->pass[0].time_s * scale;
    int n_row = plan->n_dev < MAX_ROWS ? plan->n_dev : MAX_ROWS, rc;
    double height = top + n_row * ROW + 40, tick = tick_of(1e3 * total);

    zep_buf_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", LEFT + WIDTH + 20, height);
    zep_buf_printf(out, "<text x=\"%.0f\" y=\"16\" font-size=\"13\">%s: one layer, %d devices; forward %.3f ms, backward %.3f ms; outlined: the critical path</text>\n", LEFT, plan->method, plan->n_dev, 1e3 * sim->pass[0].time_s,
                   1e3 * sim->pass[1].time_s);
    for (int k = 0; k < ZEP_N_SPAN_KIND; k++)
        zep_buf_printf(out, "<rect x=\"%.0f\" y=\"26\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%.0f\" y=\"35\">%s</text>\n", LEFT + 150 * k, colours[k], LEFT + 150 * k + 14, names[k]);
    for (int d = 0; d < n_row; d++)
        zep_buf_printf(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">n%d d%d</text><line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#eeeeee\"/>\n", LEFT - 8, top + d * ROW + 10, plan->dev_node[d], d, LEFT, LEFT + WIDTH,
                       top + (d + 1) * ROW - 1, top + (d + 1) * ROW - 1);
    if ((rc = put_pass(&sim->pass[0], LEFT, scale, n_row, top, out, err)) < 0 || (rc = put_pass(&sim->pass[1], split, scale, n_row, top, out, err)) < 0)
        return rc;
    zep_buf_printf(out, "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.0f\" y2=\"%.1f\" stroke=\"#333\" stroke-dasharray=\"3 3\"/>\n", split, split, top - 4, top + n_row * ROW);
    zep_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\">forward</text><text x=\"%.1f\" y=\"%.1f\">backward</text>\n", LEFT + 2, top - 4, split + 4, top - 4);
    for (int t = 0; (tick * t) <= 1e3 * total; t++)
        zep_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g%s</text><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#333\"/>\n", LEFT + tick * t * scale / 1e3, top + n_row * ROW + 16, tick * t,
                       t ? "" : " ms", LEFT + tick * t * scale / 1e3, LEFT + tick * t * scale / 1e3, top + n_row * ROW, top + n_row * ROW + 4);
    if (n_row < plan->n_dev)
        zep_buf_printf(out, "<text x=\"%.0f\" y=\"%.1f\">the first %d of %d devices</text>\n", LEFT, top + n_row * ROW + 32, n_row, plan->n_dev);
    zep_buf_puts(out, "</svg>\n");
    return zep_buf_ok(out, err);
}
