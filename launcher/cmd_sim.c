#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/log.h"
#include "common/units.h"
#include "launcher/cli.h"
#include "launcher/problem.h"
#include "planner/cost.h"
#include "planner/plan.h"
#include "planner/sim.h"

enum { OPT_MODEL = 256, OPT_DEVICE, OPT_METHODS, OPT_METHOD, OPT_CAPACITY, OPT_SLACK, OPT_NO_ROUTING, OPT_NO_REMAP, OPT_PROXIES, OPT_RECOMPUTE, OPT_JSON, OPT_CSV, OPT_SVG, OPT_TRACE, OPT_PASS, OPT_LIST_MODELS, OPT_LIST_DEVICES };

static const struct option options[] = {
    ZEP_PROBLEM_OPTIONS,
    {"model", required_argument, NULL, OPT_MODEL}, {"device", required_argument, NULL, OPT_DEVICE}, {"methods", required_argument, NULL, OPT_METHODS}, {"method", required_argument, NULL, OPT_METHOD},
    {"capacity", required_argument, NULL, OPT_CAPACITY}, {"slack", required_argument, NULL, OPT_SLACK}, {"no-routing", no_argument, NULL, OPT_NO_ROUTING}, {"no-remap", no_argument, NULL, OPT_NO_REMAP},
    {"max-proxies", required_argument, NULL, OPT_PROXIES}, {"recompute", no_argument, NULL, OPT_RECOMPUTE}, {"json", no_argument, NULL, OPT_JSON}, {"csv", no_argument, NULL, OPT_CSV}, {"svg", required_argument, NULL, OPT_SVG}, {"trace", required_argument, NULL, OPT_TRACE},
    {"list-models", no_argument, NULL, OPT_LIST_MODELS}, {"list-devices", no_argument, NULL, OPT_LIST_DEVICES},
    {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "sim",
    "usage: zeppelin sim [CLUSTER] --model NAME WORKLOAD [OPTION]...\n"
    "       zeppelin sim [CLUSTER] --model NAME WORKLOAD --method NAME [--svg FILE] [--trace FILE]\n"
    "\n"
    "Predicts a training step: plans it with several methods and simulates the schedules of all devices,\n"
    "operation by operation, over the cluster's links. With --method, one method in detail.\n"
    "\n"
    ZEP_PROBLEM_HELP
    "\n"
    "Prediction:\n"
    "  --model NAME       a known model (--list-models), or a file (zeppelin-model/1.0)\n"
    "  --device NAME      a known kind of device (--list-devices), or a file (zeppelin-device/1.0);\n"
    "                     default: what the topology says its devices are\n"
    "  --methods LIST     methods to compare, divided by commas (default: all)\n"
    "  --method NAME      this one in detail: phases, critical path, links, memory\n"
    "  --capacity TOKENS  tokens a device may hold for attention (default: --slack)\n"
    "  --slack X          capacity as a multiple of tokens / devices (default 1.5), no more than memory holds\n"
    "  --recompute        activations of linear modules are computed again in the backward pass, not kept\n"
    "  --no-routing       hops between nodes go straight from sender to receiver\n"
    "  --no-remap         linear modules work where attention left the tokens\n"
    "  --max-proxies X    most proxies of a hop (default: one for each NIC that both nodes have)\n"
    "\n"
    "Output (default: text):\n"
    "  --json             zeppelin-sim/1.0; --csv: the table\n"
    "  --svg FILE         with --method: what every device does when, as a picture\n"
    "  --trace FILE       with --method: the same for Perfetto or chrome://tracing\n"
    "  --list-models, --list-devices\n"
    "                     what is known, with the source of each number\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

#define MAX_METHOD 32

struct args {
    struct zep_problem_args problem;
    const char *model, *device, *methods, *method, *svg, *trace, *out;
    int64_t capacity;
    double slack;
    struct zep_plan_opts opts;
    int json, csv, recompute;
};

struct row { /* one method's prediction */
    const char *method;
    struct zep_plan *plan;
    struct zep_sim *sim;
    struct zep_plan_stats stats;
    char why[300]; /* why there is none */
};

struct comparison {
    struct zep_topo *topo;
    struct zep_view *view;
    struct zep_workload *work;
    struct zep_cost cost;
    int64_t fit; /* tokens that memory holds */
    int n;
    struct row row[MAX_METHOD];
};

/* --- command line --- */

static int list_models(void)
{
    int n;
    const struct zep_model *m = zep_model_presets(&n);

    for (int i = 0; i < n; i++) {
        printf("%-12s %d layers, hidden %d, %d heads of %d (%d key-value), ffn %d, vocabulary %d", m[i].name, m[i].n_layer, m[i].hidden, m[i].n_head, m[i].head_dim, m[i].n_head_kv, m[i].ffn, m[i].vocab);
        if (m[i].n_expert)
            printf(", %d experts, %d a token", m[i].n_expert, m[i].n_active);
        printf("\n             %s\n", m[i].source);
    }
    return 0;
}

static int list_devices(void)
{
    int n;
    const struct zep_engine *e = zep_engine_presets(&n);

    for (int i = 0; i < n; i++)
        printf("%-12s %.4g TFLOP/s, attention %.0f %% and %.0f %% of it, products %.0f %%, %.4g GB at %.4g GB/s\n             %s\n", e[i].name, e[i].flops / 1e12, 100 * e[i].attn_fwd, 100 * e[i].attn_bwd, 100 * e[i].linear,
               e[i].mem_bytes / 1e9, e[i].mem_bw / 1e9, e[i].source);
    return 0;
}

static int parse_option(struct args *a, int c, struct zep_error *err)
{
    int64_t v;
    int rc = zep_problem_option(&a->problem, c, optarg, err);

    if (rc)
        return rc < 0 ? rc : ZEP_OK;
    switch (c) {
    case OPT_MODEL:
        a->model = optarg;
        break;
    case OPT_DEVICE:
        a->device = optarg;
        break;
    case OPT_METHODS:
        a->methods = optarg;
        break;
    case OPT_METHOD:
        a->method = optarg;
        break;
    case OPT_CAPACITY:
        if (zep_parse_count(optarg, &a->capacity, err) < 0)
            return zep_error_prefix(err, "--capacity");
        if (a->capacity < 1)
            return zep_error_set(err, ZEP_EINVAL, "--capacity: '%s': expected at least 1 token", optarg);
        break;
    case OPT_SLACK:
        if (zep_parse_double(optarg, 1, 1000, &a->slack, err) < 0)
            return zep_error_prefix(err, "--slack");
        break;
    case OPT_PROXIES:
        if (zep_parse_int(optarg, 0, 4096, &v, err) < 0)
            return zep_error_prefix(err, "--max-proxies");
        a->opts.max_proxies = (int)v;
        break;
    case OPT_NO_ROUTING:
        a->opts.routing = 0;
        break;
    case OPT_NO_REMAP:
        a->opts.remap = 0;
        break;
    case OPT_RECOMPUTE:
        a->recompute = 1;
        break;
    case OPT_JSON:
        a->json = 1;
        break;
    case OPT_CSV:
        a->csv = 1;
        break;
    case OPT_SVG:
        a->svg = optarg;
        break;
    case OPT_TRACE:
        a->trace = optarg;
        break;
    case 'o':
        a->out = optarg;
        break;
    default:
        break;
    }
    return ZEP_OK;
}

/* -1: go on, else exit status. */
static int parse(int argc, char **argv, struct args *a)
{
    const char *complaint;
    struct zep_error err;
    int c;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'h' || c == CLI_BAD)
            return c == 'h' ? 0 : 2;
        if (c == OPT_LIST_MODELS || c == OPT_LIST_DEVICES)
            return c == OPT_LIST_MODELS ? list_models() : list_devices();
        if (parse_option(a, c, &err) < 0)
            return zep_cli_fail(&err);
    }
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if ((complaint = zep_problem_complaint(&a->problem)))
        return zep_cli_usage(&cli, "%s", complaint);
    if (!a->model)
        return zep_cli_usage(&cli, "no --model: expected a known model (--list-models) or a file");
    if ((a->svg || a->trace) && !a->method)
        return zep_cli_usage(&cli, "%s needs --method, the method that is drawn", a->svg ? "--svg" : "--trace");
    if (a->method && a->methods)
        return zep_cli_usage(&cli, "--method and --methods: expected one of them");
    if (a->json && a->csv)
        return zep_cli_usage(&cli, "--json and --csv: expected one of them");
    return -1;
}

/* --- predicting --- */

static int load_costs(const struct args *a, struct comparison *c, struct zep_error *err)
{
    int rc = zep_problem_costs(a->model, a->device, c->topo, c->view, (int)a->problem.tp, &c->cost, err);

    if (rc == ZEP_OK && a->recompute)
        zep_cost_recompute(&c->cost);
    return rc;
}

/* Tokens a device: as asked, or the average with slack, no more than memory holds. */
static int choose_capacity(struct args *a, struct comparison *c, struct zep_error *err)
{
    int64_t average = (c->work->n_token + c->view->n_dev - 1) / c->view->n_dev;
    double want = a->slack * (double)average;
    char need[ZEP_UNIT_BUF];

    c->fit = zep_cost_fit_tokens(&c->cost, c->view->n_dev);
    a->opts.capacity_tok = a->capacity ? a->capacity : (int64_t)want + ((double)(int64_t)want < want);
    if (!a->capacity && c->fit < average)
        return zep_error_set(err, ZEP_EINVAL,
                             "memory holds %" PRId64 " tokens a device of %s beside the model's state (%s a device), the batch has %" PRId64 ": more devices, more tensor parallelism (--tp), --recompute or fewer tokens; --capacity predicts it all the same", c->fit,
                             c->cost.engine.name,
                             zep_format_size((int64_t)((c->cost.model.n_layer * c->cost.layer_params + c->cost.other_params) * (c->cost.state_bytes + c->cost.optim_bytes / c->view->n_dev)), need), average);
    if (!a->capacity && a->opts.capacity_tok > c->fit)
        a->opts.capacity_tok = c->fit;
    zep_log(ZEP_LOG_INFO, "capacity %" PRId64 " tokens a device: %.2f x the average; memory holds %" PRId64, a->opts.capacity_tok, (double)a->opts.capacity_tok / (double)average, c->fit);
    if (a->opts.capacity_tok > c->fit)
        zep_log(ZEP_LOG_WARN, "the capacity is %" PRId64 " tokens more than memory holds", a->opts.capacity_tok - c->fit);
    return ZEP_OK;
}

static int choose_methods(const struct args *a, struct comparison *c, char *names, struct zep_error *err)
{
    char *save = NULL;

    if (!a->method && !a->methods) {
        for (int i = 0; zep_methods()[i] && c->n < MAX_METHOD; i++)
            c->row[c->n++].method = zep_methods()[i]->name;
        return ZEP_OK;
    }
    for (char *word = strtok_r(names, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        if (c->n == MAX_METHOD)
            return zep_error_set(err, ZEP_EINVAL, "--methods: more than %d", MAX_METHOD);
        c->row[c->n++].method = word;
    }
    return c->n ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "--methods: no name");
}

/* A method that cannot serve this batch is a row that says why; where it is the only one, an error. */
static int predict(const struct args *a, struct comparison *c, struct row *r, struct zep_error *err)
{
    struct zep_sim_opts sim = {.spans = a->method != NULL};
    struct zep_plan_opts opts = a->opts;
    int rc;

    opts.method = r->method;
    opts.tp = (int)a->problem.tp;
    opts.cost = &c->cost;
    if ((rc = zep_plan_build(c->view, c->work->len, c->work->n, &opts, &r->plan, err)) == ZEP_OK)
        rc = zep_simulate(r->plan, c->view, &c->cost, &sim, &r->sim, err);
    if (rc == ZEP_OK)
        zep_plan_stats(r->plan, &r->stats);
    else if (rc == ZEP_EUNSUPPORTED && !a->method) {
        snprintf(r->why, sizeof r->why, "%.290s", err->text);
        return ZEP_OK;
    }
    return rc;
}

/* --- writing --- */

static double speed_up(const struct comparison *c, const struct row *r, const char *over)
{
    for (int i = 0; i < c->n; i++)
        if (c->row[i].sim && !strcmp(c->row[i].method, over))
            return c->row[i].sim->step_s / r->sim->step_s;
    return 0;
}

static int is_ours(const char *method)
{
    return !strncmp(method, "zeppelin", 8) || !strcmp(method, "auto");
}

/* The fastest of the others' methods. */
static const struct row *best_rival(const struct comparison *c)
{
    const struct row *best = NULL;

    for (int i = 0; i < c->n; i++)
        if (c->row[i].sim && !is_ours(c->row[i].method) && (!best || c->row[i].sim->step_s < best->sim->step_s))
            best = &c->row[i];
    return best;
}

static double imbalance(const struct comparison *c, const struct row *r)
{
    double most = 0, sum = 0;

    for (int d = 0; d < c->view->n_dev; d++) {
        most = r->sim->dev_busy[d] > most ? r->sim->dev_busy[d] : most;
        sum += r->sim->dev_busy[d];
    }
    return most * c->view->n_dev / sum;
}

static double step_bytes(const struct comparison *c, const struct row *r, int net)
{
    double sum = 0;

    for (int p = 0; p < 2; p++)
        sum += net ? r->sim->pass[p].net_bytes : r->sim->pass[p].node_bytes;
    return c->cost.model.n_layer * sum;
}

static int put_table(const struct comparison *c, int csv, struct zep_buf *b, struct zep_error *err)
{
    const struct row *rival = best_rival(c);

    if (csv)
        zep_buf_puts(b, "method,step_s,tokens_s_device,over_te_cp,over_best_rival,imbalance,node_bytes,network_bytes,memory_bytes\n");
    else
        zep_buf_printf(b, "%-18s %10s %12s %8s %8s %9s %9s %9s %9s\n", "method", "step", "tokens/s/dev", "x te-cp", "x rival", "imbalance", "node GB", "net GB", "memory");
    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->row[i];
        char te[16] = "-", best[16] = "-", name[64];

        if (!r->sim) {
            zep_buf_printf(b, csv ? "%s,,,,,,,,\n" : "%-18s %s\n", r->method, r->why);
            continue;
        }
        snprintf(name, sizeof name, strcmp(r->plan->method, r->method) ? "%s: %s" : "%s", r->method, r->plan->method);
        if (speed_up(c, r, "te-cp") > 0)
            snprintf(te, sizeof te, "%.2f", speed_up(c, r, "te-cp"));
        if (rival)
            snprintf(best, sizeof best, "%.2f", rival->sim->step_s / r->sim->step_s);
        if (csv)
            zep_buf_printf(b, "%s,%.6g,%.6g,%s,%s,%.4f,%.6g,%.6g,%.6g\n", r->method, r->sim->step_s, r->sim->tokens_s_dev, *te == '-' ? "" : te, *best == '-' ? "" : best, imbalance(c, r), step_bytes(c, r, 0), step_bytes(c, r, 1),
                           r->sim->mem_bytes);
        else
            zep_buf_printf(b, "%-18s %8.1fms %12.0f %8s %8s %9.2f %9.3g %9.3g %7.1fGB%s\n", name, 1e3 * r->sim->step_s, r->sim->tokens_s_dev, te, best, imbalance(c, r), step_bytes(c, r, 0) / 1e9, step_bytes(c, r, 1) / 1e9,
                           r->sim->mem_bytes / 1e9, r->sim->mem_bytes > c->cost.mem_bytes ? " (too much)" : "");
    }
    if (!csv && rival)
        zep_buf_printf(b, "best rival: %s; imbalance: the busiest device's computing over the mean\n", rival->method);
    return zep_buf_ok(b, err);
}

static void put_pass(const struct comparison *c, const struct row *r, int pass, struct zep_buf *b)
{
    const struct zep_sim_pass *p = &r->sim->pass[pass];
    int node = 0;

    zep_buf_printf(b, "%s pass of a layer: %.3f ms; the last device is %d: linear %.3f ms, remap in %.3f ms, attention %.3f ms, remap out %.3f ms\n", pass ? "backward" : "forward", 1e3 * p->time_s, p->last_dev, 1e3 * p->linear_s,
                   1e3 * p->remap_in_s, 1e3 * p->attn_s, 1e3 * p->remap_out_s);
    zep_buf_printf(b, "  it stands still for transfers between nodes %.3f ms, inside nodes %.3f ms, remaps %.3f ms\n", 1e3 * p->wait_net_s, 1e3 * p->wait_node_s, 1e3 * p->wait_remap_s);
    zep_buf_printf(b, "  computing: %.3f ms on the busiest device, %.3f ms on the mean (%.0f %% of the pass)\n", 1e3 * p->compute_max_s, 1e3 * p->compute_mean_s, 100 * p->compute_mean_s / p->time_s);
    if (p->busiest_nic >= 0 && p->net_bytes > 0) {
        while (node + 1 < c->view->n_node && c->view->node_nic0[node + 1] <= p->busiest_nic)
            node++;
        zep_buf_printf(b, "  the busiest NIC, %d of node %s, is in use for %.0f %% of the pass; %.3g MB go between nodes\n", p->busiest_nic - c->view->node_nic0[node], c->topo->node[node].id, 100 * p->nic_busy_s / p->time_s, p->net_bytes / 1e6);
    }
}

static int put_detail(const struct comparison *c, const struct row *r, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_sim *s = r->sim;
    int rc = ZEP_OK;

    zep_buf_printf(b, "%s: step %.2f ms, %.0f tokens/s/device\n", r->method, 1e3 * s->step_s, s->tokens_s_dev);
    zep_buf_printf(b, "  %d layers %.2f ms, output head %.2f ms, gradients and parameters that nothing hides %.2f ms, optimizer %.2f ms\n", c->cost.model.n_layer, 1e3 * s->layers_s, 1e3 * s->head_s, 1e3 * s->exchange_s,
                   1e3 * s->optimizer_s);
    for (int pass = 0; pass < 2 && rc == ZEP_OK; pass++) {
        put_pass(c, r, pass, b);
        zep_buf_puts(b, "  critical path: ");
        rc = zep_sim_critical_text(&s->pass[pass], b, err);
        zep_buf_puts(b, "\n");
    }
    zep_buf_printf(b, "memory: %.1f of %.1f GB on device %d: model's state %.1f GB, activations %.1f GB, blocks under way %.2f GB\n", s->mem_bytes / 1e9, c->cost.mem_bytes / 1e9, s->mem_dev, s->mem_state / 1e9, s->mem_tokens / 1e9,
                   s->mem_buffers / 1e9);
    if (s->mem_bytes > c->cost.mem_bytes)
        zep_buf_printf(b, "  it does not fit: %.1f GB are missing\n", (s->mem_bytes - c->cost.mem_bytes) / 1e9);
    return rc < 0 ? rc : zep_buf_ok(b, err);
}

/* What the prediction is of: the lengths, the costs, the links. */
static void put_json_problem(const struct comparison *c, json_t *root)
{
    const struct zep_cost *k = &c->cost;
    json_t *lengths = json_array(), *nics = json_array(), *ports = json_array(), *first = json_array();

    for (int i = 0; i < c->work->n; i++)
        json_array_append_new(lengths, json_integer((json_int_t)c->work->len[i]));
    for (int n = 0; n < c->view->n_node; n++) {
        double sum = 0;

        for (int i = c->view->node_nic0[n]; i < c->view->node_nic0[n + 1]; i++)
            sum += c->view->nic_bw[i];
        json_array_append_new(nics, json_real(sum));
    }
    for (int d = 0; d < c->view->n_dev; d++)
        json_array_append_new(ports, json_real(c->view->dev_bw[d] > 0 ? c->view->dev_bw[d] : k->engine.port_bw * k->tp));
    for (int n = 0; n <= c->view->n_node; n++)
        json_array_append_new(first, json_integer(c->view->node_dev0[n]));
    json_object_set_new(root, "node_device0", first);
    json_object_set_new(root, "lengths", lengths);
    json_object_set_new(root, "node_nic_bytes_s", nics);
    json_object_set_new(root, "device_port_bytes_s", ports);
    json_object_set_new(root, "costs", json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "layers", k->model.n_layer, "pair_forward_s", k->attn_fwd_s, "pair_backward_s", k->attn_bwd_s,
                                                 "token_forward_s", k->linear_fwd_s + k->tp_fwd_s, "token_backward_s", k->linear_bwd_s + k->tp_bwd_s, "head_token_s", k->head_fwd_s + k->head_bwd_s, "q_row_bytes", k->q_row, "kv_row_bytes",
                                                 k->kv_row, "dkv_row_bytes", k->dkv_row, "layer_parameters", k->layer_params, "other_parameters", k->other_params, "gradient_bytes", k->grad_bytes, "parameter_bytes", k->param_bytes,
                                                 "optimizer_bytes", k->optim_bytes, "memory_bandwidth", k->mem_bw, "launch_s", k->launch_s, "tile", k->tile, "overlap_gradients", k->engine.overlap_grad));
}

static int put_json(const struct comparison *c, const struct args *a, struct zep_buf *b, struct zep_error *err)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:I, s:I, s:o}", "format", "zeppelin-sim/1.0", "model", c->cost.model.name, "device", c->cost.engine.name, "calibrated", c->cost.engine.calibrated, "devices", c->view->n_dev,
                             "nodes", c->view->n_node, "tokens", (json_int_t)c->work->n_token, "capacity", (json_int_t)a->opts.capacity_tok, "methods", json_array());
    const struct row *rival = best_rival(c);
    char *text;

    put_json_problem(c, root);
    for (int i = 0; i < c->n && root; i++) {
        const struct row *r = &c->row[i];
        json_t *o = json_pack("{s:s}", "method", r->method);

        if (!r->sim) {
            json_object_set_new(o, "error", json_string(r->why));
        } else {
            static const char *const names[] = {"forward", "backward"};

            json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step_s", r->sim->step_s, "layers_s", r->sim->layers_s, "head_s", r->sim->head_s, "exchange_s", r->sim->exchange_s,
                                                "optimizer_s", r->sim->optimizer_s, "tokens_s_device", r->sim->tokens_s_dev, "imbalance", imbalance(c, r), "node_bytes", step_bytes(c, r, 0), "network_bytes",
                                                step_bytes(c, r, 1), "memory_bytes", r->sim->mem_bytes, "memory_state_bytes", r->sim->mem_state, "memory_activation_bytes", r->sim->mem_tokens));
            for (int p = 0; p < 2; p++) {
                const struct zep_sim_pass *s = &r->sim->pass[p];

                json_object_set_new(o, names[p], json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "layer_s", s->time_s, "linear_s", s->linear_s, "remap_in_s", s->remap_in_s, "attention_s", s->attn_s,
                                                           "remap_out_s", s->remap_out_s, "compute_max_s", s->compute_max_s, "compute_mean_s", s->compute_mean_s, "wait_network_s", s->wait_net_s, "wait_node_s", s->wait_node_s,
                                                           "nic_busy_s", s->nic_busy_s, "port_busy_s", s->port_busy_s));
            }
            if (speed_up(c, r, "te-cp") > 0)
                json_object_set_new(o, "over_te_cp", json_real(speed_up(c, r, "te-cp")));
            if (rival)
                json_object_set_new(o, "over_best_rival", json_real(rival->sim->step_s / r->sim->step_s));
        }
        json_array_append_new(json_object_get(root, "methods"), o);
    }
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return zep_error_nomem(err, "prediction");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}

static int write_file(const char *path, const struct row *r, int (*make)(const struct zep_sim *, const struct zep_plan *, struct zep_buf *, struct zep_error *), struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = path ? make(r->sim, r->plan, &b, err) : ZEP_OK;

    if (path && rc == ZEP_OK)
        rc = zep_cli_write(path, &b, err);
    zep_buf_free(&b);
    return rc;
}

static int run(struct args *a, struct comparison *c, char *names, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    if ((rc = zep_problem_workload(&a->problem, &c->work, err)) < 0 || (rc = zep_problem_cluster(&a->problem, &c->topo, &c->view, err)) < 0 || (rc = load_costs(a, c, err)) < 0 || (rc = choose_capacity(a, c, err)) < 0 ||
        (rc = choose_methods(a, c, names, err)) < 0)
        return rc;
    for (int i = 0; i < c->n; i++)
        if ((rc = predict(a, c, &c->row[i], err)) < 0)
            return rc;
    if (a->method && ((rc = write_file(a->svg, &c->row[0], zep_sim_to_svg, err)) < 0 || (rc = write_file(a->trace, &c->row[0], zep_sim_to_trace, err)) < 0))
        return rc;
    if (a->json)
        return put_json(c, a, b, err);
    return a->method && !a->csv ? put_detail(c, &c->row[0], b, err) : put_table(c, a->csv, b, err);
}

int cmd_sim(int argc, char **argv)
{
    struct args a = {.problem = {.tp = 1}, .slack = 1.5, .opts = ZEP_PLAN_OPTS_DEFAULT};
    struct comparison c = {0};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    char *names = NULL;
    int rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if (a.method || a.methods)
        names = strdup(a.method ? a.method : a.methods);
    rc = (a.method || a.methods) && !names ? zep_error_nomem(&err, "methods") : run(&a, &c, names, &b, &err);
    if (rc == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    for (int i = 0; i < c.n; i++) {
        zep_plan_free(c.row[i].plan);
        zep_sim_free(c.row[i].sim);
    }
    zep_buf_free(&b);
    zep_view_free(c.view);
    zep_topo_free(c.topo);
    zep_workload_free(c.work);
    free(names);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
