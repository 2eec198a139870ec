#include "config.h"
#include "launcher/steps.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/arena.h"
#include "planner/sim.h"

struct machine { /* what steps are planned for; view NULL: for nothing */
    struct zep_topo *topo;
    struct zep_view *view;
    struct zep_cost cost;
    struct zep_plan_opts opts;
    struct zep_capacity capacity;
};

/* One micro-step. A step of several lasts as long as they do together, which counts the exchange and the optimizer once each: what is said of it is a little too long. */
static int predict(const struct zep_steps_args *a, const struct machine *m, const int64_t *len, int n, struct zep_steps_row *row, struct zep_error *err)
{
    struct zep_sim_opts sim_opts = {0};
    struct zep_plan_stats st;
    struct zep_plan *plan;
    struct zep_sim *sim = NULL;
    int rc;

    if ((rc = zep_plan_build(m->view, len, n, &m->opts, &plan, err)) < 0)
        return rc;
    zep_plan_stats(plan, &st);
    if (st.mean_pairs > 0 && st.max_pairs / st.mean_pairs > row->imbalance)
        row->imbalance = st.max_pairs / st.mean_pairs;
    if (a->model && (rc = zep_simulate(plan, m->view, &m->cost, &sim_opts, &sim, err)) == ZEP_OK)
        row->step_s += sim->step_s - (row->n_micro ? sim->exchange_s + sim->optimizer_s : 0);
    row->n_micro++;
    zep_sim_free(sim);
    zep_plan_free(plan);
    return rc;
}

static int look(const struct zep_steps_args *a, const struct machine *m, const int64_t *len, int n, struct zep_steps_row *row, struct zep_error *err)
{
    int64_t hold = 0;
    int *first, n_micro, rc;

    row->n_doc = n;
    for (int i = 0; i < n; i++) {
        row->n_token += len[i];
        row->longest = len[i] > row->longest ? len[i] : row->longest;
        row->pairs += 0.5 * (double)len[i] * (double)(len[i] + 1);
    }
    if (!m->view)
        return ZEP_OK;
    for (int d = 0; d < m->view->n_dev; d++)
        hold += zep_opts_capacity(&m->opts, d);
    if ((rc = zep_micro_split(len, n, hold, &first, &n_micro, err)) < 0)
        return rc;
    for (int i = 0; i < n_micro && rc == ZEP_OK; i++)
        rc = predict(a, m, len + first[i], first[i + 1] - first[i], row, err);
    free(first);
    return rc;
}

static int run_order(const struct zep_steps_args *a, const struct zep_documents *docs, const struct machine *m, int64_t window, struct zep_steps_row *row, struct zep_error *err)
{
    struct zep_batches *batches = NULL;
    int64_t *len = NULL;
    int rc = zep_documents_batches(docs, a->problem, &batches, err);

    if (rc == ZEP_OK)
        rc = zep_batches_set_window(batches, window, a->compose, err);
    for (int64_t i = 0; i < a->n && rc == ZEP_OK; i++) {
        const int32_t *doc;
        int n;

        if ((rc = zep_batches_get(batches, a->problem->step + i, &doc, &n, err)) < 0)
            break;
        free(len);
        if (!(len = zep_calloc((size_t)n + 1, sizeof *len))) {
            rc = zep_error_nomem(err, "steps");
            break;
        }
        for (int k = 0; k < n; k++)
            len[k] = zep_documents_len(docs, doc[k]);
        if ((rc = look(a, m, len, n, &row[i], err)) < 0)
            zep_error_prefix(err, "step %" PRId64, a->problem->step + i);
    }
    free(len);
    zep_batches_free(batches);
    return rc;
}

int zep_steps_run(const struct zep_steps_args *a, struct zep_steps **out, struct zep_error *err)
{
    struct zep_steps *s = zep_calloc(1, sizeof *s);
    struct zep_documents docs = {0};
    struct machine m = {0};
    int rc = ZEP_OK;

    if (!s || !(s->row[0] = zep_calloc((size_t)a->n, sizeof *s->row[0])) || (a->window > 1 && !(s->row[1] = zep_calloc((size_t)a->n, sizeof *s->row[1])))) {
        rc = zep_error_nomem(err, "steps");
        goto out;
    }
    s->n = (int)a->n;
    s->first = a->problem->step;
    s->window = a->window;
    s->tokens = a->problem->tokens;
    s->compose = zep_compose_names[a->compose];
    if ((rc = zep_documents_open(a->problem, &docs, err)) < 0 || (a->opts.capacity_tok && (rc = zep_problem_cluster(a->problem, &m.topo, &m.view, err)) < 0) ||
        (a->model && (rc = zep_problem_costs(a->model, a->device, m.topo, m.view, (int)a->problem->tp, &m.cost, err)) < 0))
        goto out;
    m.opts = a->opts;
    m.opts.tp = (int)a->problem->tp;
    if (a->model && (rc = zep_problem_capacities(a->device, m.topo, &m.cost, m.view, &m.opts, &m.capacity, err)) < 0)
        goto out;
    if (a->model) {
        snprintf(s->model, sizeof s->model, "%s", m.cost.model.name);
        snprintf(s->device, sizeof s->device, "%s", m.cost.engine.name);
    }
    if ((rc = run_order(a, &docs, &m, 1, s->row[0], err)) == ZEP_OK && s->row[1])
        rc = run_order(a, &docs, &m, a->window, s->row[1], err);
out:
    free(m.capacity.dev);
    zep_view_free(m.view);
    zep_topo_free(m.topo);
    zep_documents_close(&docs);
    if (rc < 0)
        zep_steps_free(s);
    else
        *out = s;
    return rc;
}

void zep_steps_free(struct zep_steps *s)
{
    if (!s)
        return;
    free(s->row[0]);
    free(s->row[1]);
    free(s);
}

/* --- showing --- */

struct total {
    double tokens, pairs, max_pairs, step_s, max_step_s, imbalance;
};

static struct total total_of(const struct zep_steps *s, int k)
{
    struct total t = {0};

    for (int i = 0; i < s->n; i++) {
        const struct zep_steps_row *r = &s->row[k][i];

        t.tokens += (double)r->n_token;
        t.pairs += r->pairs;
        t.step_s += r->step_s;
        t.max_pairs = r->pairs > t.max_pairs ? r->pairs : t.max_pairs;
        t.max_step_s = r->step_s > t.max_step_s ? r->step_s : t.max_step_s;
        t.imbalance += r->imbalance / s->n;
    }
    return t;
}

static void put_rows(const struct zep_steps *s, int k, struct zep_buf *b)
{
    struct total t = total_of(s, k);

    if (k)
        zep_buf_printf(b, "by windows of %" PRId64 " steps (%s):\n", s->window, s->compose);
    else
        zep_buf_puts(b, "in the order of the epoch:\n");
    zep_buf_printf(b, "%6s %10s %10s %10s %12s %10s %6s %10s\n", "step", "documents", "tokens", "longest", "pairs", "imbalance", "micro", "step ms");
    for (int i = 0; i < s->n; i++) {
        const struct zep_steps_row *r = &s->row[k][i];

        zep_buf_printf(b, "%6" PRId64 " %10d %10" PRId64 " %10" PRId64 " %12.4g", s->first + i, r->n_doc, r->n_token, r->longest, r->pairs);
        if (r->n_micro)
            zep_buf_printf(b, " %10.3f %6d", r->imbalance, r->n_micro);
        if (r->step_s > 0)
            zep_buf_printf(b, " %10.1f", 1e3 * r->step_s);
        zep_buf_puts(b, "\n");
    }
    zep_buf_printf(b, "a step holds %.1f%% of its %" PRId64 " tokens; most pairs of a step over the mean: %.2f", 100 * t.tokens / ((double)s->n * (double)s->tokens), s->tokens, t.pairs > 0 ? t.max_pairs * s->n / t.pairs : 0);
    if (t.step_s > 0)
        zep_buf_printf(b, "; longest step over the mean: %.2f; %.0f tokens/s", t.max_step_s * s->n / t.step_s, t.tokens / t.step_s);
    zep_buf_puts(b, "\n\n");
}

int zep_steps_to_text(const struct zep_steps *s, struct zep_buf *b, struct zep_error *err)
{
    put_rows(s, 0, b);
    if (s->row[1]) {
        struct total t0 = total_of(s, 0), t1 = total_of(s, 1);

        put_rows(s, 1, b);
        if (t0.step_s > 0)
            zep_buf_printf(b, "the window gives %.3f times the tokens/s (%s on %s, predicted)\n", t1.tokens / t1.step_s / (t0.tokens / t0.step_s), s->model, s->device);
    }
    return zep_buf_ok(b, err);
}

static json_t *rows_json(const struct zep_steps *s, int k)
{
    json_t *a = json_array();

    for (int i = 0; i < s->n; i++) {
        const struct zep_steps_row *r = &s->row[k][i];
        json_t *o = json_pack("{s:i, s:I, s:I, s:f}", "documents", r->n_doc, "tokens", (json_int_t)r->n_token, "longest", (json_int_t)r->longest, "pairs", r->pairs);

        if (r->n_micro)
            json_object_update_new(o, json_pack("{s:i, s:f}", "micro", r->n_micro, "imbalance", r->imbalance));
        if (r->step_s > 0)
            json_object_set_new(o, "step_s", json_real(r->step_s));
        json_array_append_new(a, o);
    }
    return a;
}

int zep_steps_to_json(const struct zep_steps *s, struct zep_buf *b, struct zep_error *err)
{
    json_t *root = json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:o}", "format", "zeppelin-steps/1.0", "tokens", (json_int_t)s->tokens, "window", (json_int_t)s->window, "compose", s->compose, "model", s->model, "device", s->device,
                             "in_order", rows_json(s, 0));
    char *text;

    if (s->row[1])
        json_object_set_new(root, "by_windows", rows_json(s, 1));
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return zep_error_nomem(err, "steps");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}

/* Bars: predicted time of each step, or where nothing is predicted, its pairs; above in order, below by windows. */
int zep_steps_to_svg(const struct zep_steps *s, struct zep_buf *b, struct zep_error *err)
{
    enum { LEFT = 70, TOP = 40, PANEL = 170, WIDE = 900 };
    int n_panel = s->row[1] ? 2 : 1, every = (s->n + 19) / 20, timed = s->row[0][0].step_s > 0;
    double most = 0, wide = (double)(WIDE - LEFT - 20) / s->n;
    char top[32];

    for (int k = 0; k < n_panel; k++)
        for (int i = 0; i < s->n; i++) {
            double v = timed ? 1e3 * s->row[k][i].step_s : s->row[k][i].pairs;

            most = v > most ? v : most;
        }
    snprintf(top, sizeof top, most < 100000 ? "%.0f" : "%.2e", most);
    zep_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", WIDE,
                   TOP + n_panel * (PANEL + TOP), WIDE, TOP + n_panel * (PANEL + TOP));
    for (int k = 0; k < n_panel; k++) {
        double foot = TOP + k * (PANEL + TOP) + PANEL;

        zep_buf_printf(b, "<text x=\"%d\" y=\"%.0f\" font-weight=\"bold\">%s: %s of each step</text>\n", LEFT, foot - PANEL - 8, k ? "by windows" : "in the order of the epoch", timed ? "predicted ms" : "attention pairs");
        zep_buf_printf(b, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\" fill=\"#555\">%s</text><text x=\"%d\" y=\"%.0f\" text-anchor=\"end\" fill=\"#555\">0</text>\n", LEFT - 6, foot - PANEL + 12, top, LEFT - 6, foot);
        for (int i = 0; i < s->n; i++) {
            const struct zep_steps_row *r = &s->row[k][i];
            double v = timed ? 1e3 * r->step_s : r->pairs, h = most > 0 ? PANEL * v / most : 0;

            if (i % every == 0)
                zep_buf_printf(b, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#555\">%" PRId64 "</text>\n", LEFT + (i + 0.45) * wide, foot + 14, s->first + i);
            zep_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>step %" PRId64 ": %.4g, %d documents, %" PRId64 " tokens, longest %" PRId64 "</title></rect>\n", LEFT + i * wide, foot - h, 0.9 * wide, h,
                           k ? "#4477aa" : "#999", s->first + i, v, r->n_doc, r->n_token, r->longest);
        }
    }
    zep_buf_puts(b, "</svg>\n");
    return zep_buf_ok(b, err);
}
