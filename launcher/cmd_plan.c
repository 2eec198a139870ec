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
#include "launcher/problem.h"
#include "launcher/steps.h"
#include "planner/check.h"
#include "planner/export.h"
#include "planner/plan.h"
#include "planner/workload.h"
#include "topology/topo.h"

enum { OPT_CAPACITY = 256, OPT_METHOD, OPT_MODEL, OPT_DEVICE, OPT_MICRO, OPT_NO_ROUTING, OPT_NO_REMAP, OPT_NO_HEADS, OPT_ZONES, OPT_EFFORT, OPT_PROXIES, OPT_HEADS, OPT_KV_HEADS, OPT_HEAD_DIM, OPT_JSON, OPT_SVG, OPT_CHECK, OPT_EXPORT, OPT_STEPS, OPT_WINDOW, OPT_COMPOSE };

static const struct option options[] = {
    ZEP_PROBLEM_OPTIONS,
    {"capacity", required_argument, NULL, OPT_CAPACITY}, {"method", required_argument, NULL, OPT_METHOD}, {"model", required_argument, NULL, OPT_MODEL}, {"device", required_argument, NULL, OPT_DEVICE}, {"micro-step", required_argument, NULL, OPT_MICRO}, {"no-routing", no_argument, NULL, OPT_NO_ROUTING},
    {"no-remap", no_argument, NULL, OPT_NO_REMAP}, {"no-heads", no_argument, NULL, OPT_NO_HEADS}, {"zones", required_argument, NULL, OPT_ZONES}, {"effort", required_argument, NULL, OPT_EFFORT}, {"max-proxies", required_argument, NULL, OPT_PROXIES}, {"heads", required_argument, NULL, OPT_HEADS}, {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM}, {"json", no_argument, NULL, OPT_JSON}, {"svg", required_argument, NULL, OPT_SVG}, {"check", no_argument, NULL, OPT_CHECK},
    {"steps", required_argument, NULL, OPT_STEPS}, {"window", required_argument, NULL, OPT_WINDOW}, {"compose", required_argument, NULL, OPT_COMPOSE},
    {"export", required_argument, NULL, OPT_EXPORT}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "plan",
    "usage: zeppelin plan [CLUSTER] --capacity TOKENS WORKLOAD [OPTION]...\n"
    "       zeppelin plan --steps K --tokens N WORKLOAD [--window W] [OPTION]...\n"
    "       zeppelin plan [--json] [--svg FILE] PLAN.json\n"
    "       zeppelin plan --export ranks -o FOLDER PLAN.json\n"
    "\n"
    "Plans one step: which devices hold which part of each sequence, which rings exchange keys and\n"
    "values, which proxies carry hops between nodes, and how tokens move to equal shares. The second\n"
    "form shows which documents steps share; the third a plan that was written before.\n"
    "\n"
    ZEP_PROBLEM_HELP
    "  --micro-step I     plan micro-step I (from 0) where the batch needs several\n"
    "\n"
    "Plan:\n"
    "  --capacity TOKENS  tokens a device may hold for attention\n"
    "  --method NAME      zeppelin (default), zeppelin-paper, te-cp, llama-cp, static-cp, hybrid-dp, flexsp, wlb,\n"
    "                     ulysses, usp, packed-dp, auto (zeppelin-plan(1) says whose each is)\n"
    "  --model NAME       plan by the costs of this model (zeppelin-sim(1), or a file); without, methods go\n"
    "                     by tokens and pairs, and zeppelin is zeppelin-paper\n"
    "  --device NAME      with --model: the kind of device (zeppelin-sim(1), or a file)\n"
    "  --no-routing       hops between nodes go straight from sender to receiver\n"
    "  --no-remap         linear modules work where attention left the tokens\n"
    "  --no-heads         zeppelin and auto exchange no heads (--export ranks does without in any case)\n"
    "  --zones LIST       zones that zeppelin and zeppelin-paper may use: local, intra, inter (default: all)\n"
    "  --max-proxies X    most proxies of a hop (default: one for each NIC that both nodes have)\n"
    "  --effort WORD      how zeppelin looks for a plan: fast (default), by estimates, as a training run does;\n"
    "                     search, by simulating candidates (seconds)\n"
    "  --heads N, --kv-heads N, --head-dim N\n"
    "                     without --model: its attention (default 32, 8, 128), for the bytes that are shown;\n"
    "                     exchanges of heads (ulysses, usp) divide these key-value heads\n"
    "\n"
    "Steps:\n"
    "  --steps K          K steps from --step on: documents, tokens, longest, pairs; with --capacity each is\n"
    "                     planned, with --model its time is predicted\n"
    "  --window W         documents of W steps in a row are dealt out together (plan.window; default 1)\n"
    "  --compose NAME     balance (default): steps of equal attention work; alike: of like lengths\n"
    "\n"
    "Output (default: text):\n"
    "  --check            prove the plan: schedules of all devices, forward and backward\n"
    "  --json             zeppelin-plan/1.1 to 1.3, see zeppelin-plan(5)\n"
    "  --svg FILE         a picture: devices and tokens, coloured by zone\n"
    "  --export ranks     for other software: a folder with what each rank holds, computes, sends and\n"
    "                     receives, as JSON and .npy, see zeppelin-ranks(5); -o names it; the plan is proved\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

struct args {
    struct zep_problem_args problem;
    int64_t micro, heads, kv_heads, head_dim; /* of heads: 0 until they are known */
    int type_bytes;
    char whose[64]; /* "with " whose heads: those of a model by name */
    const char *model, *device, *svg, *out, *export, *file;
    struct zep_plan_opts opts;
    int json, check;
    int64_t steps, window;
    enum zep_compose compose;
    struct zep_topo *topo; /* what was planned for; NULL: a plan that was written before */
    struct zep_view *view;
};

static int parse_number(const char *name, int64_t min, int64_t max, int64_t *out, struct zep_error *err)
{
    int rc = zep_parse_int(optarg, min, max, out, err);

    return rc < 0 ? zep_error_prefix(err, "%s", name) : rc;
}

static int parse_compose(enum zep_compose *out, struct zep_error *err)
{
    int found = zep_compose_find(optarg);

    if (found < 0)
        return zep_error_set(err, ZEP_EINVAL, "--compose: '%.60s': expected balance or alike", optarg);
    *out = (enum zep_compose)found;
    return ZEP_OK;
}

static int parse_option(struct args *a, int c, struct zep_error *err)
{
    int64_t v;
    int rc = zep_problem_option(&a->problem, c, optarg, err);

    if (rc)
        return rc < 0 ? rc : ZEP_OK;
    switch (c) {
    case OPT_CAPACITY:
        if (zep_parse_count(optarg, &a->opts.capacity_tok, err) < 0)
            return zep_error_prefix(err, "--capacity");
        if (a->opts.capacity_tok < 1 || a->opts.capacity_tok > (int64_t)1 << 40)
            return zep_error_set(err, ZEP_EINVAL, "--capacity: '%s': expected 1 to %" PRId64 " tokens", optarg, (int64_t)1 << 40);
        break;
    case OPT_METHOD:
        a->opts.method = optarg;
        break;
    case OPT_MODEL:
        a->model = optarg;
        break;
    case OPT_DEVICE:
        a->device = optarg;
        break;
    case OPT_MICRO:
        return parse_number("--micro-step", 0, 1 << 24, &a->micro, err);
    case OPT_HEADS:
        return parse_number("--heads", 1, 4096, &a->heads, err);
    case OPT_KV_HEADS:
        return parse_number("--kv-heads", 1, 4096, &a->kv_heads, err);
    case OPT_HEAD_DIM:
        return parse_number("--head-dim", 1, 4096, &a->head_dim, err);
    case OPT_PROXIES:
        if ((rc = parse_number("--max-proxies", 0, 4096, &v, err)) == ZEP_OK)
            a->opts.max_proxies = (int)v;
        return rc;
    case OPT_STEPS:
        return parse_number("--steps", 1, 100000, &a->steps, err);
    case OPT_WINDOW:
        return parse_number("--window", 1, ZEP_MAX_WINDOW, &a->window, err);
    case OPT_COMPOSE:
        return parse_compose(&a->compose, err);
    case OPT_NO_ROUTING:
        a->opts.routing = 0;
        break;
    case OPT_NO_REMAP:
        a->opts.remap = 0;
        break;
    case OPT_NO_HEADS:
        a->opts.no_heads = 1;
        break;
    case OPT_EFFORT:
        return zep_effort_parse(optarg, &a->opts.effort, err) < 0 ? zep_error_prefix(err, "--effort") : ZEP_OK;
    case OPT_ZONES:
        return zep_zones_parse(optarg, &a->opts.zones, err) < 0 ? zep_error_prefix(err, "--zones") : ZEP_OK;
    case OPT_JSON:
        a->json = 1;
        break;
    case OPT_CHECK:
        a->check = 1;
        break;
    case OPT_SVG:
        a->svg = optarg;
        break;
    case OPT_EXPORT:
        if (strcmp(optarg, "ranks"))
            return zep_error_set(err, ZEP_EINVAL, "--export: '%s': expected ranks", optarg);
        a->export = optarg;
        break;
    case 'o':
        a->out = optarg;
        break;
    default:
        break;
    }
    return ZEP_OK;
}

/* Heads come from the model, or from options and defaults. -1: go on, else exit status. */
static int settle_heads(struct args *a)
{
    if (a->model && (a->heads || a->kv_heads || a->head_dim))
        return zep_cli_usage(&cli, "--heads, --kv-heads and --head-dim: --model %s says them", a->model);
    a->heads = a->heads ? a->heads : 32;
    a->kv_heads = a->kv_heads ? a->kv_heads : a->heads % 8 ? a->heads : 8;
    a->head_dim = a->head_dim ? a->head_dim : 128;
    if (a->heads % a->kv_heads)
        return zep_cli_usage(&cli, "--heads %d over --kv-heads %d: expected a multiple", (int)a->heads, (int)a->kv_heads);
    return -1;
}

static void take_heads(struct args *a, const struct zep_model_desc *m)
{
    a->heads = m->n_head;
    a->kv_heads = m->n_head_kv;
    a->head_dim = m->head_dim;
    a->type_bytes = m->type_bytes;
    snprintf(a->whose, sizeof a->whose, "%s's ", m->name);
}

static int steps_complaint(const struct args *a)
{
    if (!a->problem.tokens)
        return zep_cli_usage(&cli, "--steps needs --tokens, the tokens of a step");
    if (a->model && !a->opts.capacity_tok)
        return zep_cli_usage(&cli, "--steps with --model needs --capacity, the tokens that a device may hold");
    if (a->check || a->export || a->micro)
        return zep_cli_usage(&cli, "--check, --export and --micro-step are of one step, not of --steps");
    return -1;
}

/* Options that a plan that was written before takes as well: all others make one. */
static int is_of_showing(int c)
{
    return c == 'o' || c == OPT_JSON || c == OPT_SVG || c == OPT_CHECK || c == OPT_EXPORT || c == OPT_HEADS || c == OPT_KV_HEADS || c == OPT_HEAD_DIM;
}

static const char *name_of(int c)
{
    for (int i = 0; options[i].name; i++)
        if (options[i].val == c)
            return options[i].name;
    return "";
}

/* -1: go on, else exit status. */
static int parse(int argc, char **argv, struct args *a)
{
    struct zep_error err;
    const char *complaint;
    int c, making = 0, rc;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'h' || c == CLI_BAD)
            return c == 'h' ? 0 : 2;
        if (parse_option(a, c, &err) < 0)
            return zep_cli_fail(&err);
        if (!making && !is_of_showing(c))
            making = c;
    }
    if (a->export && (!a->out || !strcmp(a->out, "-") || a->json))
        return a->json ? zep_cli_usage(&cli, "--export and --json: one output at a time") : zep_cli_usage(&cli, "--export needs -o, the folder to write");
    if ((rc = settle_heads(a)) >= 0)
        return rc;
    if (argc - optind == 1 && !a->problem.lengths && !a->problem.dist && !a->problem.data) {
        a->file = argv[optind];
        return making ? zep_cli_usage(&cli, "--%s is of a new plan, '%s' is one already", name_of(making), a->file) : -1;
    }
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if ((complaint = zep_problem_complaint(&a->problem)))
        return zep_cli_usage(&cli, "%s", complaint);
    if (a->opts.zones && strncmp(a->opts.method, "zeppelin", 8))
        return zep_cli_usage(&cli, "--zones is of the methods zeppelin and zeppelin-paper: %s has no zones", a->opts.method);
    if (!a->model && a->kv_heads % a->problem.tp && (!strcmp(a->opts.method, "ulysses") || !strcmp(a->opts.method, "usp")))
        return zep_cli_usage(&cli, "--kv-heads %d: expected a multiple of --tp %d, so that %s can exchange them", (int)a->kv_heads, (int)a->problem.tp, a->opts.method);
    if (a->device && !a->model)
        return zep_cli_usage(&cli, "--device needs --model: costs are of a model on a kind of device");
    if (a->steps)
        return steps_complaint(a);
    if (a->window > 1 || a->compose)
        return zep_cli_usage(&cli, "--window and --compose are of --steps");
    if (!a->opts.capacity_tok)
        return zep_cli_usage(&cli, "no --capacity: expected the tokens that a device may hold; 1.25 to 1.5 times tokens / devices is a sane choice");
    return -1;
}

static int64_t hold_of(const struct args *a, const struct zep_view *view)
{
    int64_t sum = 0;

    for (int d = 0; d < view->n_dev; d++)
        sum += zep_opts_capacity(&a->opts, d);
    return sum;
}

/* Of a batch that all devices together cannot hold, only one micro-step is planned, and it is said. A batch that was listed by hand is taken as it is. */
static int choose_micro(const struct args *a, const struct zep_view *view, const struct zep_workload *w, int *first, int *n, struct zep_error *err)
{
    int *start, n_micro, rc;

    *first = 0;
    *n = w->n;
    if (!zep_problem_is_epoch(&a->problem))
        return a->micro ? zep_error_set(err, ZEP_EINVAL, "--micro-step: only a batch of an epoch (--tokens) is divided into micro-steps") : ZEP_OK;
    if ((rc = zep_micro_split(w->len, w->n, hold_of(a, view), &start, &n_micro, err)) < 0)
        return rc;
    if (a->micro >= n_micro) {
        rc = zep_error_set(err, ZEP_EINVAL, "--micro-step: '%" PRId64 "': this step has %d", a->micro, n_micro);
    } else {
        *first = start[a->micro];
        *n = start[a->micro + 1] - *first;
        if (n_micro > 1)
            zep_log(ZEP_LOG_INFO, "step %" PRId64 " takes %d micro-steps; this is number %" PRId64 " of 0 to %d", a->problem.step, n_micro, a->micro, n_micro - 1);
    }
    free(start);
    return rc;
}

/* A plan by tokens needs no speed of links, but links it needs. */
static void say_no_links(const struct zep_topo *topo, const struct zep_view *view, const struct zep_plan *plan)
{
    struct zep_plan_stats st;
    int node = 0, crosses;

    zep_plan_stats(plan, &st);
    crosses = st.hop_tok_inter + st.head_tok_inter > 0;
    for (int i = 0; i < plan->n_move; i++)
        crosses |= plan->dev_node[plan->move[i].from] != plan->dev_node[plan->move[i].to];
    while (node < view->n_node && view->node_nic0[node + 1] > view->node_nic0[node])
        node++;
    if (crosses && node < view->n_node)
        zep_log(ZEP_LOG_WARN, "node '%s' has no NIC in the topology, and the plan sends tokens between nodes: no link for them is known (nics:, nic: of --synthetic; --nodes 1 plans for one node alone)", topo->node[node].id);
}

static int build(struct args *a, struct zep_plan **plan_out, struct zep_workload **w_out, int *first_out, struct zep_error *err)
{
    struct zep_topo *topo = NULL;
    struct zep_view *view = NULL;
    struct zep_cost cost;
    struct zep_capacity capacity = {0};
    int n, rc;

    if ((rc = zep_problem_workload(&a->problem, w_out, err)) < 0 || (rc = zep_problem_cluster(&a->problem, &topo, &view, err)) < 0)
        return rc;
    if (a->model && (rc = zep_problem_costs(a->model, a->device, topo, view, (int)a->problem.tp, &cost, err)) == ZEP_OK) {
        take_heads(a, &cost.model);
        rc = zep_problem_capacities(a->device, topo, &cost, view, &a->opts, &capacity, err);
    }
    if (rc == ZEP_OK && (rc = choose_micro(a, view, *w_out, first_out, &n, err)) == ZEP_OK) {
        a->opts.tp = (int)a->problem.tp;
        a->opts.no_heads |= a->export != NULL; /* it does not know exchanges of heads */
        if ((rc = zep_plan_build(view, (*w_out)->len + *first_out, n, &a->opts, plan_out, err)) == ZEP_OK)
            say_no_links(topo, view, *plan_out);
    }
    free(capacity.dev);
    a->view = view;
    a->topo = topo;
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
    if (rc == ZEP_OK && (*plan_out)->unsealed && (rc = zep_plan_prove(*plan_out, err)) < 0)
        zep_error_prefix(err, "%s", path);
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
    double kv = 2.0 * (double)a->kv_heads * (double)a->head_dim * a->type_bytes, head = kv + 2.0 * (double)a->heads * (double)a->head_dim * a->type_bytes; /* q, k, v and o */
    char type[32] = "bf16";

    if (a->type_bytes != 2)
        snprintf(type, sizeof type, "%d bytes a number", a->type_bytes);

    zep_plan_stats(plan, &st);
    zep_buf_printf(b, "\nwith %s%" PRId64 " heads of %" PRId64 ", attention of a layer's forward pass takes %.4g GFLOP", a->whose, a->heads, a->head_dim,
                   4.0 * (double)a->heads * (double)a->head_dim * st.mean_pairs * plan->n_dev / 1e9);
    zep_buf_printf(b, "\nwith %s%" PRId64 " key/value heads of %" PRId64 " in %s, a layer's forward pass sends %.4g MB between nodes and %.4g MB inside nodes\n", a->whose, a->kv_heads, a->head_dim, type,
                   ((double)st.hop_tok_inter * kv + (double)st.head_tok_inter * head) / 1e6, ((double)st.hop_tok_intra * kv + (double)st.head_tok_intra * head) / 1e6);
}

static int draw(const struct args *a, const struct zep_plan *plan, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    const char **name = a->topo ? zep_calloc((size_t)a->topo->n_node + 1, sizeof *name) : NULL;
    int rc;

    for (int i = 0; name && i < a->topo->n_node; i++)
        name[i] = a->topo->node[i].id;
    if ((rc = zep_plan_to_svg(plan, name, a->view ? a->view->dev_speed : NULL, &b, err)) == ZEP_OK)
        rc = zep_cli_write(a->svg, &b, err);
    zep_buf_free(&b);
    free(name);
    return rc;
}

static int show(const struct args *a, const struct zep_plan *plan, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    if (a->check)
        rc = prove(plan, err);
    if (rc == ZEP_OK && a->svg) {
        rc = draw(a, plan, err);
    }
    if (rc == ZEP_OK && a->export) {
        if ((rc = zep_plan_export_ranks(plan, a->out, err)) == ZEP_OK)
            zep_log(ZEP_LOG_INFO, "%s: %" PRId64 " tokens for %d ranks, by %s, digest %016" PRIx64, a->out, plan->n_token, plan->n_dev, plan->method, plan->digest);
        return rc;
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

static int show_steps(const struct args *a, struct zep_error *err)
{
    struct zep_steps_args want = {&a->problem, a->model, a->device, a->opts, a->steps, a->window, a->compose};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_steps *s;
    int rc = zep_steps_run(&want, &s, err);

    if (rc < 0)
        return rc;
    if (a->svg && (rc = zep_steps_to_svg(s, &b, err)) == ZEP_OK)
        rc = zep_cli_write(a->svg, &b, err);
    zep_buf_free(&b);
    if (rc == ZEP_OK)
        rc = a->json ? zep_steps_to_json(s, &b, err) : zep_steps_to_text(s, &b, err);
    if (rc == ZEP_OK)
        rc = zep_cli_write(a->out, &b, err);
    zep_buf_free(&b);
    zep_steps_free(s);
    return rc;
}

int cmd_plan(int argc, char **argv)
{
    struct args a = {.problem = {.tp = 1}, .window = 1, .type_bytes = 2, .opts = ZEP_PLAN_OPTS_DEFAULT};
    struct zep_plan *plan = NULL;
    struct zep_workload *w = NULL;
    struct zep_error err;
    int first, rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if (!a.model) /* else the model says it */
        a.opts.heads = a.kv_heads % a.problem.tp ? 1 : (int)(a.kv_heads / a.problem.tp);
    if (a.steps && !a.file)
        return show_steps(&a, &err) < 0 ? zep_cli_fail(&err) : 0;
    rc = a.file ? load_plan(a.file, &plan, &err) : build(&a, &plan, &w, &first, &err);
    if (rc == ZEP_OK)
        rc = show(&a, plan, &err);
    zep_plan_free(plan);
    zep_workload_free(w);
    zep_view_free(a.view);
    zep_topo_free(a.topo);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
