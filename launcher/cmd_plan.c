#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/units.h"
#include "launcher/cli.h"
#include "launcher/inputs.h"
#include "planner/check.h"
#include "planner/plan.h"
#include "planner/workload.h"
#include "topology/topo.h"

enum {
    OPT_NODES = 256, OPT_DEVICES, OPT_TP, OPT_CAPACITY, OPT_METHOD, OPT_LENGTHS, OPT_DIST, OPT_DATA, OPT_TOKENS, OPT_CONTEXT,
    OPT_SEED, OPT_STEP, OPT_MICRO, OPT_NO_ROUTING, OPT_NO_REMAP, OPT_PROXIES, OPT_HEADS, OPT_KV_HEADS, OPT_HEAD_DIM, OPT_JSON, OPT_SVG, OPT_CHECK,
};

static const struct option options[] = {
    {"from", required_argument, NULL, ZEP_OPT_FROM}, {"topology", required_argument, NULL, ZEP_OPT_FILE}, {"synthetic", required_argument, NULL, ZEP_OPT_SYNTHETIC},
    {"preset", required_argument, NULL, ZEP_OPT_PRESET}, {"slurm", no_argument, NULL, ZEP_OPT_SLURM}, {"local", no_argument, NULL, ZEP_OPT_LOCAL}, {"only", required_argument, NULL, ZEP_OPT_ONLY}, {"without", required_argument, NULL, ZEP_OPT_WITHOUT}, {"nodes", required_argument, NULL, OPT_NODES}, {"devices", required_argument, NULL, OPT_DEVICES},
    {"tp", required_argument, NULL, OPT_TP}, {"capacity", required_argument, NULL, OPT_CAPACITY}, {"method", required_argument, NULL, OPT_METHOD}, {"lengths", required_argument, NULL, OPT_LENGTHS},
    {"dist", required_argument, NULL, OPT_DIST}, {"data", required_argument, NULL, OPT_DATA}, {"tokens", required_argument, NULL, OPT_TOKENS}, {"context", required_argument, NULL, OPT_CONTEXT},
    {"seed", required_argument, NULL, OPT_SEED}, {"step", required_argument, NULL, OPT_STEP}, {"micro-step", required_argument, NULL, OPT_MICRO}, {"no-routing", no_argument, NULL, OPT_NO_ROUTING},
    {"no-remap", no_argument, NULL, OPT_NO_REMAP}, {"max-proxies", required_argument, NULL, OPT_PROXIES}, {"heads", required_argument, NULL, OPT_HEADS}, {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM}, {"json", no_argument, NULL, OPT_JSON}, {"svg", required_argument, NULL, OPT_SVG}, {"check", no_argument, NULL, OPT_CHECK},
    {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "plan",
    "usage: zeppelin plan [CLUSTER] --capacity TOKENS WORKLOAD [OPTION]...\n"
    "       zeppelin plan [--json] [--svg FILE] PLAN.json\n"
    "\n"
    "Plans one step: which devices hold which part of each sequence, which rings exchange keys and\n"
    "values, which proxies carry hops between nodes, and how tokens move to equal shares. The second\n"
    "form shows a plan that was written before.\n"
    "\n"
    "Cluster (default: as `zeppelin topo`):\n"
    "  --from KIND[:ARG]  a source of `zeppelin topo`, or a file; several are merged\n"
    "  --topology FILE    --from FILE\n"
    "  --synthetic TEXT   'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'\n"
    "  --preset NAME[:N]  N nodes of a known machine: A, B, C of the paper, dgx-h100 ... (zeppelin-topo(1))\n"
    "  --slurm, --local   the Slurm cluster; this machine\n"
    "  --only LIST        these nodes alone; --without LIST: all but these\n"
    "  --nodes N          only the first N nodes\n"
    "  --devices D        devices a node (default: all)\n"
    "  --tp T             ranks a device (default 1)\n"
    "\n"
    "Workload (one of):\n"
    "  --lengths FILE     sequence lengths in tokens, one or more a line, # comments\n"
    "  --dist TEXT        NAME:tokens=N[,seed=N][,max=N]; names: arxiv, github, prolong64k, web, prolong,\n"
    "                     wlb, sft (stand-ins made from published histograms)\n"
    "  --data PREFIX      a batch of a data set, with --tokens N [--seed N] [--step N] [--context N]\n"
    "  --micro-step I     plan micro-step I (from 0) where the batch needs several\n"
    "\n"
    "Plan:\n"
    "  --capacity TOKENS  tokens a device may hold for attention\n"
    "  --method NAME      zeppelin (default), zeppelin-paper, te-cp\n"
    "  --no-routing       hops between nodes go straight from sender to receiver\n"
    "  --no-remap         linear modules work where attention left the tokens\n"
    "  --max-proxies X    most proxies of a hop (default: one for each NIC that both nodes have)\n"
    "  --heads N, --kv-heads N, --head-dim N\n"
    "                     model's attention (default 32, 8, 128), for the bytes that are shown\n"
    "\n"
    "Output (default: text):\n"
    "  --check            prove the plan: schedules of all devices, forward and backward\n"
    "  --json             zeppelin-plan/1.0, see zeppelin-plan(5)\n"
    "  --svg FILE         a picture: devices and tokens, coloured by zone\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

struct args {
    struct zep_topo_args topo;
    int64_t nodes, devices, tp, tokens, context, seed, step, micro, heads, kv_heads, head_dim;
    const char *lengths, *dist, *data, *svg, *out, *file;
    struct zep_plan_opts opts;
    int json, check;
};

static int parse_number(struct args *a, int c, struct zep_error *err)
{
    int64_t v, *where = NULL, min = 0, max = INT64_MAX;
    const char *name = "";

    switch (c) {
#define NUMBER(opt, field, text, lo, hi) case opt: where = &a->field; name = text; min = lo; max = hi; break
        NUMBER(OPT_NODES, nodes, "--nodes", 1, 65536);
        NUMBER(OPT_DEVICES, devices, "--devices", 1, 4096);
        NUMBER(OPT_TP, tp, "--tp", 1, 1024);
        NUMBER(OPT_SEED, seed, "--seed", 0, INT64_MAX);
        NUMBER(OPT_STEP, step, "--step", 0, (int64_t)1 << 40);
        NUMBER(OPT_MICRO, micro, "--micro-step", 0, 1 << 24);
        NUMBER(OPT_HEADS, heads, "--heads", 1, 4096);
        NUMBER(OPT_KV_HEADS, kv_heads, "--kv-heads", 1, 4096);
        NUMBER(OPT_HEAD_DIM, head_dim, "--head-dim", 1, 4096);
        NUMBER(OPT_TOKENS, tokens, "--tokens", 1, (int64_t)1 << 40);
        NUMBER(OPT_CONTEXT, context, "--context", 1, (int64_t)1 << 40);
        NUMBER(OPT_CAPACITY, opts.capacity_tok, "--capacity", 1, (int64_t)1 << 40);
#undef NUMBER
    default:
        break;
    }
    if (c == OPT_PROXIES) {
        if (zep_parse_int(optarg, 0, 4096, &v, err) < 0)
            return zep_error_prefix(err, "--max-proxies");
        a->opts.max_proxies = (int)v;
        return ZEP_OK;
    }
    if (c == OPT_TOKENS || c == OPT_CONTEXT || c == OPT_CAPACITY) {
        if (zep_parse_count(optarg, &v, err) < 0)
            return zep_error_prefix(err, "%s", name);
        if (v < min || v > max)
            return zep_error_set(err, ZEP_EINVAL, "%s: '%s': expected %" PRId64 " to %" PRId64 " tokens", name, optarg, min, max);
    } else if (zep_parse_int(optarg, min, max, &v, err) < 0) {
        return zep_error_prefix(err, "%s", name);
    }
    *where = v;
    return ZEP_OK;
}

static int parse_option(struct args *a, int c, struct zep_error *err)
{
    if (zep_inputs_topo_option(&a->topo, c, optarg))
        return ZEP_OK;
    switch (c) {
    case OPT_METHOD:
        a->opts.method = optarg;
        break;
    case OPT_LENGTHS:
        a->lengths = optarg;
        break;
    case OPT_DIST:
        a->dist = optarg;
        break;
    case OPT_DATA:
        a->data = optarg;
        break;
    case OPT_NO_ROUTING:
        a->opts.routing = 0;
        break;
    case OPT_NO_REMAP:
        a->opts.remap = 0;
        break;
    case OPT_JSON:
        a->json = 1;
        break;
    case OPT_CHECK:
        a->check = 1;
        break;
    case OPT_SVG:
        a->svg = optarg;
        break;
    case 'o':
        a->out = optarg;
        break;
    default:
        return parse_number(a, c, err);
    }
    return ZEP_OK;
}

/* -1: go on, else exit status. */
static int parse(int argc, char **argv, struct args *a)
{
    struct zep_error err;
    int c, n;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'h' || c == CLI_BAD)
            return c == 'h' ? 0 : 2;
        if (parse_option(a, c, &err) < 0)
            return zep_cli_fail(&err);
    }
    n = !!a->lengths + !!a->dist + !!a->data;
    if (argc - optind == 1 && !n) {
        a->file = argv[optind];
        return -1;
    }
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if (n != 1)
        return zep_cli_usage(&cli, n ? "more than one workload" : "no workload: expected --lengths, --dist or --data");
    if (a->data && !a->tokens)
        return zep_cli_usage(&cli, "--data needs --tokens, the tokens of a step");
    if (a->topo.n_from < 0)
        return zep_cli_usage(&cli, "more than %d sources of the cluster", ZEP_MAX_FROM);
    if (!a->opts.capacity_tok)
        return zep_cli_usage(&cli, "no --capacity: expected the tokens that a device may hold; 1.25 to 1.5 times tokens / devices is a sane choice");
    return -1;
}

/* A batch of a data set as the training would take it. */
static int load_batch(const struct args *a, struct zep_workload **out, struct zep_error *err)
{
    struct zep_dataset *set = NULL;
    struct zep_batches *batches = NULL;
    struct zep_workload *w = NULL;
    const int32_t *doc;
    int64_t cut;
    int n, rc;

    if ((rc = zep_dataset_open(a->data, &set, err)) < 0 || (a->context && (rc = zep_dataset_limit(set, a->context, 1, &cut, err)) < 0) ||
        (rc = zep_batches_new(set, a->tokens, (uint64_t)a->seed, &batches, err)) < 0 || (rc = zep_batches_get(batches, a->step, &doc, &n, err)) < 0)
        goto out;
    w = zep_calloc(1, sizeof *w);
    if (!w || !(w->len = zep_calloc((size_t)n + 1, sizeof *w->len))) {
        rc = zep_error_nomem(err, "workload");
        goto out;
    }
    for (; w->n < n; w->n++) {
        w->len[w->n] = zep_dataset_len(set, doc[w->n]);
        w->n_token += w->len[w->n];
    }
    *out = w;
    w = NULL;
out:
    zep_workload_free(w);
    zep_batches_free(batches);
    zep_dataset_close(set);
    return rc;
}

static int load_workload(const struct args *a, struct zep_workload **out, struct zep_error *err)
{
    if (a->lengths)
        return zep_workload_load(a->lengths, out, err);
    if (a->dist)
        return zep_workload_dist(a->dist, out, err);
    return load_batch(a, out, err);
}

/* Of a batch that all devices together cannot hold, only one micro-step is planned, and it is said. A batch that was listed by hand is taken as it is. */
static int choose_micro(const struct args *a, const struct zep_view *view, const struct zep_workload *w, int *first, int *n, struct zep_error *err)
{
    int *start, n_micro, rc;

    *first = 0;
    *n = w->n;
    if (!a->data)
        return a->micro ? zep_error_set(err, ZEP_EINVAL, "--micro-step: only a batch of a data set is divided into micro-steps") : ZEP_OK;
    if ((rc = zep_micro_split(w->len, w->n, a->opts.capacity_tok * view->n_dev, &start, &n_micro, err)) < 0)
        return rc;
    if (a->micro >= n_micro) {
        rc = zep_error_set(err, ZEP_EINVAL, "--micro-step: '%" PRId64 "': this step has %d", a->micro, n_micro);
    } else {
        *first = start[a->micro];
        *n = start[a->micro + 1] - *first;
        if (n_micro > 1)
            zep_log(ZEP_LOG_INFO, "step %" PRId64 " takes %d micro-steps; this is number %" PRId64 " of 0 to %d", a->step, n_micro, a->micro, n_micro - 1);
    }
    free(start);
    return rc;
}

static int build(struct args *a, struct zep_plan **plan_out, struct zep_workload **w_out, int *first_out, struct zep_error *err)
{
    struct zep_topo *topo = NULL;
    struct zep_view *view = NULL;
    int n, rc;

    if ((rc = load_workload(a, w_out, err)) < 0 || (rc = zep_inputs_topo(&a->topo, &topo, err)) < 0)
        return rc;
    rc = zep_view_new(topo, (int)(a->nodes ? a->nodes : topo->n_node), (int)a->devices, (int)a->tp, &view, err);
    if (rc == ZEP_OK && (rc = choose_micro(a, view, *w_out, first_out, &n, err)) == ZEP_OK) {
        a->opts.tp = (int)a->tp;
        rc = zep_plan_build(view, (*w_out)->len + *first_out, n, &a->opts, plan_out, err);
    }
    zep_view_free(view);
    zep_topo_free(topo);
    return rc;
}

static int load_plan(const char *path, struct zep_plan **plan_out, struct zep_error *err)
{
    char *text = NULL;
    size_t len;
    int rc = zep_fs_read(path, 0, &text, &len, err);

    if (rc == ZEP_OK)
        rc = zep_plan_from_json(path, text, len, plan_out, err);
    free(text);
    return rc;
}

static int prove(const struct zep_plan *plan, struct zep_error *err)
{
    struct zep_check_result r;
    int64_t *len = zep_calloc((size_t)plan->n_seq + 1, sizeof *len);
    int rc;

    if (!len)
        return zep_error_nomem(err, "check");
    for (int i = 0; i < plan->n_seq; i++)
        len[i] = plan->seq[i].len;
    rc = zep_plan_check(plan, len, plan->n_seq, NULL, &r, err);
    free(len);
    if (rc < 0)
        return zep_error_prefix(err, "the plan is wrong");
    zep_log(ZEP_LOG_INFO, "proved: %.0f causal pairs each once, gradients brought home, %" PRId64 " transfers in %" PRId64 " groups met, no deadlock", r.pairs, r.n_xfer, r.n_group);
    return ZEP_OK;
}

static void put_bytes(const struct args *a, const struct zep_plan *plan, struct zep_buf *b)
{
    struct zep_plan_stats st;
    double kv = 2.0 * (double)a->kv_heads * (double)a->head_dim * 2;

    zep_plan_stats(plan, &st);
    zep_buf_printf(b, "\nwith %" PRId64 " heads of %" PRId64 ", attention of a layer's forward pass takes %.4g GFLOP", a->heads, a->head_dim,
                   4.0 * (double)a->heads * (double)a->head_dim * st.mean_pairs * plan->n_dev / 1e9);
    zep_buf_printf(b, "\nwith %" PRId64 " key/value heads of %" PRId64 " in bf16, a layer's forward pass sends %.4g MB between nodes and %.4g MB inside nodes\n", a->kv_heads, a->head_dim,
                   (double)st.hop_tok_inter * kv / 1e6, (double)st.hop_tok_intra * kv / 1e6);
}

static int show(const struct args *a, const struct zep_plan *plan, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    if (a->check)
        rc = prove(plan, err);
    if (rc == ZEP_OK && a->svg) {
        if ((rc = zep_plan_to_svg(plan, &b, err)) == ZEP_OK)
            rc = zep_cli_write(a->svg, &b, err);
        zep_buf_free(&b);
    }
    if (rc == ZEP_OK)
        rc = a->json ? zep_plan_to_json(plan, &b, err) : zep_plan_to_text(plan, &b, err);
    if (rc == ZEP_OK && !a->json)
        put_bytes(a, plan, &b);
    if (rc == ZEP_OK)
        rc = zep_cli_write(a->out, &b, err);
    zep_buf_free(&b);
    return rc;
}

int cmd_plan(int argc, char **argv)
{
    struct args a = {.tp = 1, .heads = 32, .kv_heads = 8, .head_dim = 128, .opts = ZEP_PLAN_OPTS_DEFAULT};
    struct zep_plan *plan = NULL;
    struct zep_workload *w = NULL;
    struct zep_error err;
    int first, rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    rc = a.file ? load_plan(a.file, &plan, &err) : build(&a, &plan, &w, &first, &err);
    if (rc == ZEP_OK)
        rc = show(&a, plan, &err);
    zep_plan_free(plan);
    zep_workload_free(w);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
