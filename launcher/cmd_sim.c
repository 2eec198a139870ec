#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>
#include <string.h>

#include "launcher/cli.h"
#include "launcher/predict.h"
#include "launcher/sweep.h"

enum { OPT_METHOD = 256, OPT_SWEEP, OPT_JSON, OPT_CSV, OPT_SVG, OPT_TRACE, OPT_LIST_MODELS, OPT_LIST_DEVICES };

static const struct option options[] = {
    ZEP_PROBLEM_OPTIONS,
    ZEP_PREDICT_OPTIONS,
    {"method", required_argument, NULL, OPT_METHOD}, {"sweep", required_argument, NULL, OPT_SWEEP}, {"json", no_argument, NULL, OPT_JSON}, {"csv", no_argument, NULL, OPT_CSV}, {"svg", required_argument, NULL, OPT_SVG}, {"trace", required_argument, NULL, OPT_TRACE},
    {"list-models", no_argument, NULL, OPT_LIST_MODELS}, {"list-devices", no_argument, NULL, OPT_LIST_DEVICES},
    {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "sim",
    "usage: zeppelin sim [CLUSTER] --model NAME WORKLOAD [OPTION]...\n"
    "       zeppelin sim [CLUSTER] --model NAME WORKLOAD --method NAME [--svg FILE] [--trace FILE]\n"
    "       zeppelin sim [CLUSTER] --model NAME WORKLOAD --sweep KEY=V1,V2,... [--svg FILE]\n"
    "\n"
    "Predicts a training step: plans it with several methods and simulates the schedules of all devices,\n"
    "operation by operation, over the cluster's links. With --method, one method in detail. With --sweep,\n"
    "one prediction for each value; twice: for each pair of values.\n"
    "\n"
    ZEP_PROBLEM_HELP
    "\n"
    "Prediction:\n"
    "  --model NAME       a known model (--list-models), or a file (zeppelin-model/1.0)\n"
    "  --device NAME      a known kind of device (--list-devices), or a file (zeppelin-device/1.0);\n"
    "                     default: what the topology says its devices are\n"
    "  --methods LIST     methods to compare, divided by commas (default: all)\n"
    "  --method NAME      this one in detail: phases, critical path, links, memory\n"
    "  --sweep KEY=V1,V2,...\n"
    "                     nodes=2,4,8; tokens=64k,128k (of a step); context=8k,64k (of the longest document);\n"
    "                     dist=arxiv,github; nic=100Gb/s,400Gb/s; slack=1.25,2; default of --methods here:\n"
    "                     all but llama-cp, packed-dp and auto\n"
    ZEP_PREDICT_HELP
    "\n"
    "Output (default: text):\n"
    "  --json             zeppelin-sim/1.0, zeppelin-sweep/1.0; --csv: the table\n"
    "  --svg FILE         with --method: what every device does when, as a picture; with --sweep: a plot\n"
    "  --trace FILE       with --method: the same for Perfetto or chrome://tracing\n"
    "  --list-models, --list-devices\n"
    "                     what is known, with the source of each number\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

struct args {
    struct zep_predict_args p;
    const char *method, *svg, *trace, *out;
    int json, csv;
    struct zep_sweep sweep;
};

/* --- command line --- */

static int list_models(void)
{
    int n;
    const struct zep_model_desc *m = zep_model_presets(&n);

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
    int rc = zep_predict_option(&a->p, c, optarg, err);

    if (rc)
        return rc < 0 ? rc : ZEP_OK;
    switch (c) {
    case OPT_METHOD:
        a->method = optarg;
        break;
    case OPT_SWEEP:
        return zep_sweep_add(&a->sweep, optarg, err);
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
    if ((complaint = zep_predict_complaint(&a->p)))
        return zep_cli_usage(&cli, "%s", complaint);
    if (a->sweep.n_axis && (complaint = zep_sweep_complaint(&a->sweep, &a->p)))
        return zep_cli_usage(&cli, "%s", complaint);
    if (a->sweep.n_axis && a->method)
        return zep_cli_usage(&cli, "--method and --sweep: expected one of them; --methods says what a sweep compares");
    if (((a->svg && !a->sweep.n_axis) || a->trace) && !a->method)
        return zep_cli_usage(&cli, "%s needs --method, the method that is drawn", a->trace ? "--trace" : "--svg");
    if (a->method && a->p.methods)
        return zep_cli_usage(&cli, "--method and --methods: expected one of them");
    if (a->json && a->csv)
        return zep_cli_usage(&cli, "--json and --csv: expected one of them");
    if (a->method) {
        a->p.methods = a->method;
        a->p.spans = 1;
    }
    return -1;
}

/* --- writing --- */

static int put_table(const struct zep_comparison *c, int csv, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_prediction *rival = zep_best_rival(c);

    if (csv)
        zep_buf_puts(b, "method,step_s,tokens_s_device,over_te_cp,over_best_rival,imbalance,node_bytes,network_bytes,memory_bytes\n");
    else
        zep_buf_printf(b, "%-18s %10s %12s %8s %8s %9s %9s %9s %9s\n", "method", "step", "tokens/s/dev", "x te-cp", "x rival", "imbalance", "node GB", "net GB", c->cost.tp > 1 ? "mem/GPU" : "memory");
    for (int i = 0; i < c->n; i++) {
        const struct zep_prediction *r = &c->row[i];
        char te[16] = "-", best[16] = "-", name[64];

        if (!r->sim) {
            zep_buf_printf(b, csv ? "%s,,,,,,,,\n" : "%-18s %s\n", r->method, r->why);
            continue;
        }
        snprintf(name, sizeof name, strcmp(r->plan->method, r->method) ? "%s: %s" : "%s", r->method, r->plan->method);
        if (zep_speed_up(c, r, "te-cp") > 0)
            snprintf(te, sizeof te, "%.2f", zep_speed_up(c, r, "te-cp"));
        if (rival)
            snprintf(best, sizeof best, "%.2f", rival->sim->step_s / r->sim->step_s);
        if (csv)
            zep_buf_printf(b, "%s,%.6g,%.6g,%s,%s,%.4f,%.6g,%.6g,%.6g\n", r->method, r->sim->step_s, r->sim->tokens_s_dev, *te == '-' ? "" : te, *best == '-' ? "" : best, zep_imbalance(c, r), zep_step_bytes(c, r, 0), zep_step_bytes(c, r, 1),
                           r->sim->mem_bytes);
        else
            zep_buf_printf(b, "%-18s %8.1fms %12.0f %8s %8s %9.2f %9.3g %9.3g %7.1fGB%s\n", name, 1e3 * r->sim->step_s, r->sim->tokens_s_dev, te, best, zep_imbalance(c, r), zep_step_bytes(c, r, 0) / 1e9, zep_step_bytes(c, r, 1) / 1e9,
                           r->sim->mem_bytes / c->cost.tp / 1e9, r->sim->mem_bytes > r->sim->mem_limit ? " (too much)" : "");
    }
    if (!csv)
        zep_comparison_put_micro(c, b);
    if (!csv && rival)
        zep_buf_printf(b, "best rival: %s; imbalance: the busiest device's computing over the mean\n", rival->method);
    return zep_buf_ok(b, err);
}

/* Why memory does not do. */
static void put_missing(const struct zep_comparison *c, const struct zep_sim *s, struct zep_buf *b)
{
    int n = 0;

    for (int d = 0; d < c->view->n_dev; d++)
        n += s->dev_mem[d] > (zep_view_mem(c->view, d) > 0 ? (double)zep_view_mem(c->view, d) : c->cost.mem_bytes);
    zep_buf_printf(b, "  it does not fit: %.1f GB are missing%s", (s->mem_bytes - s->mem_limit) / c->cost.tp / 1e9, s->mem_state > s->mem_limit ? ": the model's state alone is more than there is" : "");
    zep_buf_printf(b, n > 1 ? "; %d of %d devices need more than they have\n" : "\n", n, c->view->n_dev);
}

static void put_pass(const struct zep_comparison *c, const struct zep_prediction *r, int pass, struct zep_buf *b)
{
    const struct zep_sim_pass *p = &r->sim->pass[pass];
    int node = 0;

    zep_buf_printf(b, "%s pass of a layer: %.3f ms; the last device is %d: linear %.3f ms, remap in %.3f ms, ", pass ? "backward" : "forward", 1e3 * p->time_s, p->last_dev, 1e3 * p->linear_s, 1e3 * p->remap_in_s);
    if (p->heads_s > 0)
        zep_buf_printf(b, "heads exchanged in %.3f ms, ", 1e3 * p->heads_s);
    zep_buf_printf(b, "attention %.3f ms, remap out %.3f ms\n", 1e3 * p->attn_s, 1e3 * p->remap_out_s);
    zep_buf_printf(b, "  it stands still for transfers between nodes %.3f ms, inside nodes %.3f ms, remaps %.3f ms\n", 1e3 * p->wait_net_s, 1e3 * p->wait_node_s, 1e3 * p->wait_remap_s);
    zep_buf_printf(b, "  computing: %.3f ms on the busiest device, %.3f ms on the mean (%.0f %% of the pass)\n", 1e3 * p->compute_max_s, 1e3 * p->compute_mean_s, 100 * p->compute_mean_s / p->time_s);
    if (p->node_bytes > 0)
        zep_buf_printf(b, "  the busiest port inside a node is in use for %.0f %% of the pass; %.3g MB go inside nodes\n", 100 * p->port_busy_s / p->time_s, p->node_bytes / 1e6);
    if (p->busiest_nic >= 0 && p->net_bytes > 0) {
        while (node + 1 < c->view->n_node && c->view->node_nic0[node + 1] <= p->busiest_nic)
            node++;
        zep_buf_printf(b, "  the busiest NIC, %d of node %s, is in use for %.0f %% of the pass; %.3g MB go between nodes\n", p->busiest_nic - c->view->node_nic0[node], c->topo->node[node].id, 100 * p->nic_busy_s / p->time_s, p->net_bytes / 1e6);
    }
    if (p->busiest_up >= 0)
        zep_buf_printf(b, "  the busiest uplink, of switch %s, is in use for %.0f %% of the pass\n", c->view->up[p->busiest_up].name, 100 * p->up_busy_s / p->time_s);
}

static int put_detail(const struct zep_comparison *c, const struct zep_prediction *r, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_sim *s = r->sim;
    double gb = 1e9 * c->cost.tp;
    int rc = ZEP_OK;

    zep_buf_printf(b, "%s: step %.2f ms, %.0f tokens/s/device\n", r->method, 1e3 * s->step_s, s->tokens_s_dev);
    zep_buf_printf(b, "  %d layers %.2f ms, output head %.2f ms, gradients and parameters that nothing hides %.2f ms, optimizer %.2f ms\n", c->cost.model.n_layer, 1e3 * s->layers_s, 1e3 * s->head_s, 1e3 * s->exchange_s,
                   1e3 * s->optimizer_s);
    zep_comparison_put_micro(c, b);
    zep_plan_put_ablations(r->plan, b);
    for (int pass = 0; pass < 2 && rc == ZEP_OK; pass++) {
        put_pass(c, r, pass, b);
        zep_buf_puts(b, "  critical path: ");
        rc = zep_sim_critical_text(&s->pass[pass], b, err);
        zep_buf_puts(b, "\n");
    }
    zep_buf_printf(b, "memory: %.1f of %.1f GB on %sdevice %d: model's state %.1f GB, activations %.1f GB, blocks under way %.2f GB\n", s->mem_bytes / gb, s->mem_limit / gb, c->cost.tp > 1 ? "each GPU of " : "", s->mem_dev,
                   s->mem_state / gb, s->mem_tokens / gb, s->mem_buffers / gb);
    if (s->mem_bytes > s->mem_limit)
        put_missing(c, s, b);
    return rc < 0 ? rc : zep_buf_ok(b, err);
}

static int write_file(const char *path, const struct zep_prediction *r, int (*make)(const struct zep_sim *, const struct zep_plan *, struct zep_buf *, struct zep_error *), struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = path ? make(r->sim, r->plan, &b, err) : ZEP_OK;

    if (path && rc == ZEP_OK)
        rc = zep_cli_write(path, &b, err);
    zep_buf_free(&b);
    return rc;
}

static int sweep(struct args *a, struct zep_buf *b, struct zep_error *err)
{
    struct zep_buf svg = ZEP_BUF_INIT;
    int rc = zep_sweep_run(&a->sweep, &a->p, err);

    if (rc == ZEP_OK && a->svg && (rc = zep_sweep_to_svg(&a->sweep, &svg, err)) == ZEP_OK)
        rc = zep_cli_write(a->svg, &svg, err);
    zep_buf_free(&svg);
    if (rc == ZEP_OK)
        rc = a->json ? zep_sweep_to_json(&a->sweep, b, err) : a->csv ? zep_sweep_to_csv(&a->sweep, b, err) : zep_sweep_to_text(&a->sweep, b, err);
    zep_sweep_free(&a->sweep);
    return rc;
}

static int run(const struct args *a, struct zep_comparison *c, struct zep_buf *b, struct zep_error *err)
{
    int rc;

    if ((rc = zep_comparison_open(&a->p, c, err)) < 0 || (rc = zep_comparison_run(&a->p, c, err)) < 0)
        return rc;
    if (a->method && ((rc = write_file(a->svg, &c->row[0], zep_sim_to_svg, err)) < 0 || (rc = write_file(a->trace, &c->row[0], zep_sim_to_trace, err)) < 0))
        return rc;
    if (a->json)
        return zep_comparison_to_json(c, b, err);
    return a->method && !a->csv ? put_detail(c, &c->row[0], b, err) : put_table(c, a->csv, b, err);
}

int cmd_sim(int argc, char **argv)
{
    struct args a = {.p = {.problem = {.tp = 1}, .slack = 1.5, .opts = ZEP_PLAN_OPTS_DEFAULT}};
    struct zep_comparison c = {0};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = a.sweep.n_axis ? sweep(&a, &b, &err) : run(&a, &c, &b, &err)) == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    zep_comparison_free(&c);
    zep_buf_free(&b);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
