#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>

#include "common/units.h"
#include "launcher/advise.h"
#include "launcher/cli.h"

enum { OPT_STEPS = 256, OPT_JSON };

static const struct option options[] = {
    ZEP_PROBLEM_OPTIONS,
    {"model", required_argument, NULL, ZEP_OPT_MODEL}, {"device", required_argument, NULL, ZEP_OPT_DEVICE}, {"methods", required_argument, NULL, ZEP_OPT_METHODS}, {"recompute", no_argument, NULL, ZEP_OPT_RECOMPUTE}, {"effort", required_argument, NULL, ZEP_OPT_EFFORT},
    {"steps", required_argument, NULL, OPT_STEPS}, {"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "advise",
    "usage: zeppelin advise [CLUSTER] --model NAME WORKLOAD [OPTION]...\n"
    "\n"
    "Recommends a method, a capacity and a number of nodes for batches of a data set (or of a\n"
    "distribution) on a cluster, by prediction, and says what they would gain over what people use\n"
    "today, and where that is nothing. Predicts all methods with capacities of 1.25, 1.5 and 2 times\n"
    "the average and with what memory holds, on all nodes, half and a quarter of them, and without\n"
    "those that are marked slow.\n"
    "\n"
    ZEP_PROBLEM_HELP
    "\n"
    "Prediction:\n"
    "  --steps K          batches: K steps of an epoch, K seeds of a distribution (default 8, at most 64)\n"
    ZEP_MODEL_HELP
    "  --methods LIST     methods to choose from, divided by commas (default: all)\n"
    "  --recompute        activations of linear modules are computed again in the backward pass, not kept\n"
    "  --effort WORD      how zeppelin looks for a plan: fast (default), by estimates, as a training run does;\n"
    "                     search, by simulating candidates (minutes)\n"
    "\n"
    "Output (default: text):\n"
    "  --json             zeppelin-advice/1.0\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

struct args {
    struct zep_predict_args p;
    int64_t steps;
    const char *out;
    int json;
};

static int parse_option(struct args *a, int c, struct zep_error *err)
{
    int rc = zep_predict_option(&a->p, c, optarg, err);

    if (rc)
        return rc < 0 ? rc : ZEP_OK;
    switch (c) {
    case OPT_STEPS:
        return zep_parse_int(optarg, 1, ZEP_ADVISE_BATCHES, &a->steps, err) < 0 ? zep_error_prefix(err, "--steps") : ZEP_OK;
    case OPT_JSON:
        a->json = 1;
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
        if (parse_option(a, c, &err) < 0)
            return zep_cli_fail(&err);
    }
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if ((complaint = zep_predict_complaint(&a->p)))
        return zep_cli_usage(&cli, "%s", complaint);
    if (a->p.problem.lengths && !a->p.problem.tokens && a->steps > 1)
        return zep_cli_usage(&cli, "--steps '%d': --lengths is one batch: --tokens, the tokens of a step, makes it the documents of an epoch", (int)a->steps);
    return -1;
}

int cmd_advise(int argc, char **argv)
{
    struct args a = {.p = {.problem = {.tp = 1}, .slack = 1.5, .no_auto = 1, .opts = ZEP_PLAN_OPTS_DEFAULT}};
    struct zep_advice v = {0};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = zep_advice_make(&a.p, a.p.problem.lengths && !a.p.problem.tokens ? 1 : a.steps ? (int)a.steps : 8, &v, &err)) == ZEP_OK)
        rc = a.json ? zep_advice_to_json(&v, &b, &err) : zep_advice_to_text(&v, &a.p, &b, &err);
    if (rc == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    zep_advice_free(&v);
    zep_buf_free(&b);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
