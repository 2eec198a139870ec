#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "launcher/cli.h"
#include "launcher/predict.h"
#include "planner/estimate.h"
#include "planner/mix.h"

enum { OPT_METHOD = 256, OPT_JSON };

static const struct option options[] = {
    ZEP_PROBLEM_OPTIONS, ZEP_PREDICT_OPTIONS, {"method", required_argument, NULL, OPT_METHOD}, {"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "explain",
    "usage: zeppelin explain [CLUSTER] --model NAME WORKLOAD [OPTION]...\n"
    "\n"
    "Explains one plan in words: which sequences went where and why, from how many tokens on computing\n"
    "hides transfers, what the predicted step is bound by, and what would help most.\n"
    "\n"
    ZEP_PROBLEM_HELP
    "\n"
    "Prediction:\n"
    ZEP_MODEL_HELP
    "  --method NAME      the method that plans (default zeppelin); --methods is the same here\n"
    ZEP_PREDICT_HELP
    "\n"
    "Output (default: text):\n"
    "  --json             zeppelin-explain/1.0\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

#define MAX_RINGS 12 /* that are told one by one */
#define N_WHAT 7

struct args {
    struct zep_predict_args p;
    int json;
    const char *out;
};

struct what { /* a change, and what the step would be */
    const char *text;
    double step_s; /* 0: not possible */
    int is_capacity;
};

static int parse(int argc, char **argv, struct args *a)
{
    const char *complaint;
    struct zep_error err;
    int c, rc;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'h' || c == CLI_BAD)
            return c == 'h' ? 0 : 2;
        if ((rc = zep_predict_option(&a->p, c, optarg, &err)) < 0)
            return zep_cli_fail(&err);
        if (c == OPT_METHOD)
            a->p.methods = optarg;
        else if (c == OPT_JSON)
            a->json = 1;
        else if (c == 'o')
            a->out = optarg;
    }
    if (optind < argc && strlen(argv[optind]) > 5 && !strcmp(argv[optind] + strlen(argv[optind]) - 5, ".json"))
        return zep_cli_usage(&cli, "'%s': explain plans anew: give the cluster, the workload, --model, --capacity and --method that it was planned with (`zeppelin plan %s` shows and --check proves a plan that was written)", argv[optind], argv[optind]);
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if ((complaint = zep_predict_complaint(&a->p)))
        return zep_cli_usage(&cli, "%s", complaint);
    if (strpbrk(a->p.methods, ", "))
        return zep_cli_usage(&cli, "--method '%s': expected one method", a->p.methods);
    return -1;
}

/* --- what would help --- */

static int again(const struct args *a, const struct zep_comparison *c, int64_t capacity, double *step_s, struct zep_error *err)
{
    struct zep_plan_opts opts = a->p.opts;
    struct zep_capacity more = {0};
    struct zep_plan *plan;
    struct zep_sim *sim;
    int rc;

    opts.method = c->row[0].plan->method;
    opts.tp = (int)a->p.problem.tp;
    opts.capacity_tok = capacity;
    opts.dev_capacity = c->dev_capacity;
    opts.cost = &c->cost;
    *step_s = 0;
    if (capacity != c->capacity) { /* small devices still hold no more than they do */
        if ((rc = zep_capacity_choose(&c->cost, c->view, c->work->n_token, capacity, 0, &more, err)) < 0)
            return rc;
        opts.dev_capacity = more.dev;
    }
    rc = zep_plan_build(c->view, c->work->len, c->work->n, &opts, &plan, err);
    free(more.dev);
    if (rc == ZEP_EUNSUPPORTED)
        return ZEP_OK;
    if (rc < 0)
        return rc;
    if ((rc = zep_simulate(plan, c->view, &c->cost, NULL, &sim, err)) == ZEP_OK) {
        *step_s = sim->step_s;
        zep_sim_free(sim);
    }
    zep_plan_free(plan);
    return rc;
}

static void scale(double *x, int n, double by)
{
    for (int i = 0; i < n; i++)
        x[i] *= by;
}

static void scale_ups(struct zep_view *v, double by)
{
    for (int i = 0; i < v->n_up; i++)
        v->up[i].bw *= by;
}

static int ask_all(const struct args *a, struct zep_comparison *c, struct what what[N_WHAT], struct zep_error *err)
{
    struct zep_cost kept = c->cost;
    int rc, n_up;

    what[0].text = "NICs of twice the bandwidth";
    scale(c->view->nic_bw, c->view->n_nic, 2);
    rc = again(a, c, c->capacity, &what[0].step_s, err);
    scale(c->view->nic_bw, c->view->n_nic, 0.5);
    what[1].text = "twice the bandwidth between the devices of a node";
    if (rc == ZEP_OK) {
        scale(c->view->dev_bw, c->view->n_dev, 2);
        c->cost.engine.port_bw *= 2;
        c->cost.tp_fwd_s /= 2;
        c->cost.tp_bwd_s /= 2;
        rc = again(a, c, c->capacity, &what[1].step_s, err);
        scale(c->view->dev_bw, c->view->n_dev, 0.5);
        c->cost = kept;
    }
    what[2].text = "attention twice as fast";
    if (rc == ZEP_OK) {
        c->cost.attn_fwd_s /= 2;
        c->cost.attn_bwd_s /= 2;
        rc = again(a, c, c->capacity, &what[2].step_s, err);
        c->cost = kept;
    }
    what[3].text = "linear modules twice as fast";
    if (rc == ZEP_OK) {
        c->cost.linear_fwd_s /= 2;
        c->cost.linear_bwd_s /= 2;
        rc = again(a, c, c->capacity, &what[3].step_s, err);
        c->cost = kept;
    }
    what[4].text = "half as much capacity again";
    what[4].is_capacity = 1;
    if (rc == ZEP_OK)
        rc = again(a, c, c->capacity + c->capacity / 2, &what[4].step_s, err);
    what[6].text = "twice the bandwidth of the links above leaf switches";
    zep_view_unknown_links(c->view, &n_up);
    if (rc == ZEP_OK && n_up) {
        scale_ups(c->view, 2);
        rc = again(a, c, c->capacity, &what[6].step_s, err);
        scale_ups(c->view, 0.5);
    }
    what[5].text = "gradients of keys and values that travel in half the bytes (bf16)";
    if (rc == ZEP_OK) {
        c->cost.dkv_row /= 2;
        rc = again(a, c, c->capacity, &what[5].step_s, err);
        c->cost = kept;
    }
    return rc;
}

static int cmp_what(const void *a, const void *b)
{
    const struct what *x = a, *y = b;

    if (x->step_s != y->step_s)
        return x->step_s < y->step_s ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* --- in words --- */

static void put_devices(const struct zep_plan *plan, const struct zep_plan_ring *r, struct zep_buf *b)
{
    const int32_t *m = &plan->member[r->member0];

    for (int i = 0, j; i < r->n_member; i = j + 1) {
        for (j = i; j + 1 < r->n_member && m[j + 1] == m[j] + 1; j++)
            ;
        zep_buf_printf(b, j > i ? "%s%d-%d" : "%s%d", i ? "," : "", m[i], m[j]);
    }
}

static double on(const struct zep_comparison *c, int64_t len, int g)
{
    return zep_estimate_attn(&c->cost, len, g) + (double)len / g * zep_estimate_token(&c->cost);
}

/* One ring: its sequences, and why so many devices. */
static void put_ring(const struct zep_comparison *c, const struct zep_plan *plan, int i, double spread_s, struct zep_buf *b)
{
    const struct zep_plan_ring *r = &plan->ring[i];
    int64_t lo = INT64_MAX, hi = 0, sum = 0;
    char heads[80] = "";
    int nodes = 1, fewer;

    for (int m = r->member0 + 1; m < r->member0 + r->n_member; m++)
        nodes += plan->dev_node[plan->member[m]] != plan->dev_node[plan->member[m - 1]];
    fewer = nodes > 1 ? r->n_member / nodes : r->n_member / 2;
    for (int k = r->seq0; k < r->seq0 + r->n_seq; k++) {
        int64_t len = plan->seq[plan->ring_seq[k]].len;

        lo = len < lo ? len : lo;
        hi = len > hi ? len : hi;
        sum += len;
    }
    zep_buf_printf(b, "  ring %d: %d sequence%s of %" PRId64, i, r->n_seq, r->n_seq == 1 ? "" : "s", lo);
    if (hi > lo)
        zep_buf_printf(b, " to %" PRId64, hi);
    if (r->heads)
        snprintf(heads, sizeof heads, r->n_member == r->heads ? "heads exchanged among %d" : "heads exchanged in groups of %d, %s ring of groups", r->heads, zep_form_names[r->form]);
    zep_buf_printf(b, " tokens over %d devices (", r->n_member);
    put_devices(plan, r, b);
    zep_buf_printf(b, ")%s, %s%s: ", nodes > 1 ? " of several nodes" : "", r->heads ? "" : zep_form_names[r->form], r->heads ? heads : " ring");
    if (fewer < 1 || on(c, hi, fewer) <= spread_s * 1.02)
        zep_buf_printf(b, "on %d the longest would take %.1f ms of the %.1f ms that a perfect spread takes; together with the others this was faster", fewer < 1 ? 1 : fewer, 1e3 * on(c, hi, fewer < 1 ? 1 : fewer), 1e3 * spread_s);
    else
        zep_buf_printf(b, "on %d the longest alone would take %.1f ms a layer, a perfect spread of everything takes %.1f ms; on %d it takes %.1f ms", fewer, 1e3 * on(c, hi, fewer), 1e3 * spread_s, r->n_member, 1e3 * on(c, hi, r->n_member));
    if (fewer >= 1 && (sum + fewer - 1) / fewer > c->capacity)
        zep_buf_printf(b, " (and %d device%s hold%s no more than %" PRId64 " tokens)", fewer, fewer == 1 ? "" : "s", fewer == 1 ? "s" : "", c->capacity * fewer);
    zep_buf_puts(b, "\n");
}

static void put_places(const struct zep_comparison *c, const struct zep_prediction *r, struct zep_buf *b)
{
    const struct zep_plan *plan = r->plan;
    double all = 0, spread_s;
    int shown = 0, n_ring = 0;
    int64_t longest = 0;

    for (int i = 0; i < plan->n_seq; i++) {
        all += on(c, plan->seq[i].len, 1);
        if (plan->ring[plan->seq[i].ring].n_member == 1 && plan->seq[i].len > longest)
            longest = plan->seq[i].len;
    }
    spread_s = all / plan->n_dev;
    zep_buf_printf(b, "Where sequences went\n  %" PRId64 " of %d sequences, %.1f %% of the tokens, stay on one device each", r->stats.zone_seq[ZEP_ZONE_LOCAL], plan->n_seq, plan->n_token ? 100.0 * (double)r->stats.zone_tok[ZEP_ZONE_LOCAL] / (double)plan->n_token : 0);
    if (longest)
        zep_buf_printf(b, ", the longest has %" PRId64 " tokens and takes %.1f ms a layer, forward and backward", longest, 1e3 * on(c, longest, 1));
    zep_buf_puts(b, "\n");
    for (int i = 0; i < plan->n_ring; i++)
        n_ring += plan->ring[i].n_member > 1;
    for (int i = 0; i < plan->n_ring && shown < MAX_RINGS; i++)
        if (plan->ring[i].n_member > 1) {
            put_ring(c, plan, i, spread_s, b);
            shown++;
        }
    if (n_ring > shown)
        zep_buf_printf(b, "  ... and %d more rings\n", n_ring - shown);
    if (plan->n_move)
        zep_buf_printf(b, "  %" PRId64 " tokens move between attention and linear modules, so that devices are done at the same time\n", r->stats.moved_tok);
    else
        zep_buf_puts(b, "  linear modules work where attention left the tokens: moving them would cost more than it saves, or was not asked for\n");
}

/* From how many tokens a device on a ring step takes as long as its hop: 2 c^2 pairs against 2 c rows, c tokens a chunk. */
static double hides_from(double pair_s, double row_bytes, double bw)
{
    return pair_s > 0 && bw > 0 ? 2 * row_bytes / (pair_s * bw) : 0;
}

static void put_thresholds(const struct zep_comparison *c, struct zep_buf *b)
{
    const struct zep_view *v = c->view;
    double port = v->dev_bw[0] > 0 ? v->dev_bw[0] : c->cost.engine.port_bw * c->cost.tp, nics = 0;
    int n = v->node_dev0[1];

    for (int i = v->node_nic0[0]; i < v->node_nic0[1]; i++)
        nics += v->nic_bw[i];
    zep_buf_puts(b, "From where on computing hides transfers (tokens of a ring on each device)\n");
    if (port > 0)
        zep_buf_printf(b, "  inside a node: %.0f forward, %.0f backward\n", hides_from(c->cost.attn_fwd_s, c->cost.kv_row, port), hides_from(c->cost.attn_bwd_s, c->cost.kv_row + c->cost.dkv_row, port));
    if (v->n_node > 1 && nics > 0)
        zep_buf_printf(b, "  between nodes: %.0f forward, %.0f backward in a double ring (a crossing for every %d steps, all NICs at work); %.0f forward in a single ring through one NIC\n", hides_from(c->cost.attn_fwd_s, c->cost.kv_row, nics),
                       hides_from(c->cost.attn_bwd_s, c->cost.kv_row + c->cost.dkv_row, nics), n, hides_from(c->cost.attn_fwd_s, c->cost.kv_row, v->nic_bw[v->dev_nic[0] >= 0 ? v->dev_nic[0] : v->node_nic0[0]]));
}

/* A link that is in use for most of a pass is what bounds it, whatever devices do. */
static void put_bound_of_links(const struct zep_comparison *c, const struct zep_sim_pass *q, int pass, struct zep_buf *b)
{
    if (q->busiest_up < 0 || q->up_busy_s < q->nic_busy_s)
        return;
    zep_buf_printf(b, "  %s: %s uplink of switch %s, in use for %.0f %% of the pass\n", pass ? "backward" : "forward", q->up_busy_s > 0.8 * q->time_s ? "the bound is the" : "the busiest link is the", c->view->up[q->busiest_up].name,
                   100 * q->up_busy_s / q->time_s);
}

static int put_bounds(const struct zep_comparison *c, const struct zep_prediction *r, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_sim *s = r->sim;
    int rc = ZEP_OK;

    zep_buf_printf(b, "What bounds the step (%.1f ms, %.0f tokens/s/device)\n", 1e3 * s->step_s, s->tokens_s_dev);
    zep_buf_printf(b, "  %.1f %% layers, %.1f %% output head, %.1f %% gradients and parameters that nothing hides, %.1f %% optimizer\n", 100 * s->layers_s / s->step_s, 100 * s->head_s / s->step_s, 100 * s->exchange_s / s->step_s,
                   100 * s->optimizer_s / s->step_s);
    for (int p = 0; p < 2 && rc == ZEP_OK; p++) {
        const struct zep_sim_pass *q = &s->pass[p];

        zep_buf_printf(b, "  %s: devices compute %.0f %% of the time on average, the busiest %.0f %%; the critical path has ", p ? "backward" : "forward", 100 * q->compute_mean_s / q->time_s, 100 * q->compute_max_s / q->time_s);
        rc = zep_sim_critical_text(q, b, err);
        zep_buf_puts(b, "\n");
        put_bound_of_links(c, q, p, b);
    }
    zep_buf_printf(b, "  memory: %.1f of %.1f GB on %s\n", s->mem_bytes / c->cost.tp / 1e9, s->mem_limit / c->cost.tp / 1e9, c->cost.tp > 1 ? "each GPU of the fullest group" : "the fullest device");
    return rc;
}

static void put_what(const struct zep_comparison *c, const struct what what[N_WHAT], double step_s, struct zep_buf *b)
{
    zep_buf_puts(b, "What would help most (each alone, planned anew)\n");
    for (int i = 0; i < N_WHAT; i++) {
        double gain = 100 * (1 - what[i].step_s / step_s);

        if (what[i].step_s <= 0)
            continue;
        if (gain < 0.05)
            zep_buf_puts(b, "  no shorter     ");
        else
            zep_buf_printf(b, "  %5.1f %% shorter", gain);
        zep_buf_printf(b, ": %s%s\n", what[i].text, what[i].is_capacity && c->capacity + c->capacity / 2 > c->fit ? " (more than memory holds)" : "");
    }
}

static int to_json(const struct zep_comparison *c, const struct zep_prediction *r, const struct what what[N_WHAT], struct zep_buf *b, struct zep_error *err)
{
    json_t *rings = json_array(), *help = json_array(), *root;
    char *text;

    for (int i = 0; i < r->plan->n_ring; i++) {
        const struct zep_plan_ring *g = &r->plan->ring[i];
        json_t *m = json_array(), *len = json_array();

        for (int k = 0; k < g->n_member; k++)
            json_array_append_new(m, json_integer(r->plan->member[g->member0 + k]));
        for (int k = g->seq0; k < g->seq0 + g->n_seq; k++)
            json_array_append_new(len, json_integer((json_int_t)r->plan->seq[r->plan->ring_seq[k]].len));
        json_array_append_new(rings, json_pack("{s:s, s:i, s:o, s:o}", "form", zep_form_names[g->form], "heads", g->heads, "devices", m, "lengths", len));
    }
    for (int i = 0; i < N_WHAT; i++)
        if (what[i].step_s > 0)
            json_array_append_new(help, json_pack("{s:s, s:f}", "change", what[i].text, "step_s", what[i].step_s));
    root = json_pack("{s:s, s:s, s:f, s:f, s:I, s:o, s:o}", "format", "zeppelin-explain/1.0", "method", r->plan->method, "step_s", r->sim->step_s, "layers_s", r->sim->layers_s, "capacity", (json_int_t)c->capacity, "rings", rings, "help", help);
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return zep_error_nomem(err, "explanation");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}

static int explain(const struct args *a, struct zep_comparison *c, struct zep_buf *b, struct zep_error *err)
{
    struct what what[N_WHAT] = {{0}};
    const struct zep_prediction *r = &c->row[0];
    int rc;

    if ((rc = ask_all(a, c, what, err)) < 0)
        return rc;
    qsort(what, N_WHAT, sizeof *what, cmp_what);
    if (a->json)
        return to_json(c, r, what, b, err);
    zep_buf_printf(b, "%s: %d sequences, %" PRId64 " tokens on %d devices in %d nodes, capacity %" PRId64 "\n\n", r->plan->method, r->plan->n_seq, r->plan->n_token, r->plan->n_dev, r->plan->n_node, c->capacity);
    zep_comparison_put_micro(c, b);
    put_places(c, r, b);
    zep_buf_puts(b, "  ");
    zep_plan_put_ablations(r->plan, b);
    put_thresholds(c, b);
    if ((rc = put_bounds(c, r, b, err)) < 0)
        return rc;
    put_what(c, what, r->sim->step_s, b);
    return zep_buf_ok(b, err);
}

int cmd_explain(int argc, char **argv)
{
    struct args a = {.p = {.problem = {.tp = 1}, .methods = "zeppelin", .slack = 1.5, .spans = 1, .opts = ZEP_PLAN_OPTS_DEFAULT}};
    struct zep_comparison c = {0};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = zep_comparison_open(&a.p, &c, &err)) == ZEP_OK && (rc = zep_comparison_run(&a.p, &c, &err)) == ZEP_OK && (rc = explain(&a, &c, &b, &err)) == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    zep_comparison_free(&c);
    zep_buf_free(&b);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
