#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "launcher/cli.h"
#include "launcher/inputs.h"
#include "launcher/measure.h"
#include "topology/preset.h"
#include "topology/source.h"
#include "topology/topo.h"

enum { OPT_FORMAT = 256, OPT_YAML, OPT_SVG, OPT_JSON, OPT_MATRIX, OPT_LIST_SOURCES, OPT_LIST_PRESETS, OPT_MEASURE, OPT_ROUNDS };

static const struct option options[] = {
    {"from", required_argument, NULL, ZEP_OPT_FROM}, {"local", no_argument, NULL, ZEP_OPT_LOCAL}, {"slurm", no_argument, NULL, ZEP_OPT_SLURM}, {"job", required_argument, NULL, ZEP_OPT_JOB},
    {"synthetic", required_argument, NULL, ZEP_OPT_SYNTHETIC}, {"preset", required_argument, NULL, ZEP_OPT_PRESET}, {"file", required_argument, NULL, ZEP_OPT_FILE},
    {"label-levels", required_argument, NULL, ZEP_OPT_LABELS}, {"hosts", required_argument, NULL, ZEP_OPT_HOSTS}, {"only", required_argument, NULL, ZEP_OPT_ONLY}, {"without", required_argument, NULL, ZEP_OPT_WITHOUT}, {"slow", required_argument, NULL, ZEP_OPT_SLOW},
    {"measure", no_argument, NULL, OPT_MEASURE}, {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"format", required_argument, NULL, OPT_FORMAT}, {"yaml", no_argument, NULL, OPT_YAML}, {"svg", no_argument, NULL, OPT_SVG}, {"json", no_argument, NULL, OPT_JSON}, {"matrix", no_argument, NULL, OPT_MATRIX},
    {"list-sources", no_argument, NULL, OPT_LIST_SOURCES}, {"list-presets", no_argument, NULL, OPT_LIST_PRESETS}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "topo",
    "usage: zeppelin topo [SOURCE ...] [--format NAME] [-o FILE]\n"
    "       zeppelin topo diff A B\n"
    "\n"
    "Shows a cluster: nodes, devices, NICs, how near they are to each other, switches, and where each fact comes from.\n"
    "\n"
    "Sources (default: the Slurm allocation that the command runs in, else the Slurm cluster, else that of the pod, else this machine):\n"
    "  --from KIND[:ARG]  a kind of source (--list-sources) or a file, whose format is recognised ('-': standard input);\n"
    "                     given several times the sources are merged, and what they disagree on is shown\n"
    "  --local            this machine: --from local\n"
    "  --slurm            the Slurm cluster: --from slurm\n"
    "  --job ID           the nodes of a Slurm job, in the order of its ranks: --from slurm:job=ID\n"
    "  --synthetic TEXT   --from synthetic:TEXT, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'\n"
    "  --preset NAME[:N]  N nodes of a known machine (--list-presets): --from preset:NAME[:N]\n"
    "  --file FILE        --from FILE\n"
    "  --label-levels KEYS  labels of Kubernetes nodes that say where they hang, closest first, divided by commas\n"
    "  --hosts LIST       hosts for --from probe and --measure: a host list, or @FILE with one a line\n"
    "  --only LIST        these nodes alone; --without LIST: all but these\n"
    "  --slow WHAT=F      what gives only the share F (0.001 to 1) of what it should; may be repeated: nodes, their\n"
    "                     computing (n3, n[0-3], '*'); devices (n3/dev:0, '*/dev:[0-3]'); NICs, their bandwidth\n"
    "                     (n3/nic:mlx5_1, n3/nic:'*'); devices and NICs by number, key or name\n"
    "\n"
    "Measuring:\n"
    "  --measure          sends messages between devices and nodes (MPI) and writes what it measured over what was read\n"
    "  --rounds N         repetitions of each transfer (default 7)\n"
    "\n"
    "Output (default: text):\n"
    "  --format NAME      text, matrix (as nvidia-smi topo -m), yaml (topology.yaml, which --from reads), json, svg, dot,\n"
    "                     topology.conf, topology.yaml (both of Slurm), nccl (for NCCL_TOPO_FILE), hostfile and ranks\n"
    "                     (in the order of the tree), labels (of Kubernetes nodes, for kubectl apply)\n"
    "  --yaml, --json, --svg, --matrix\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  --list-sources     the kinds of sources; --list-presets: the known machines\n"
    "  -h, --help\n",
    options,
};

typedef int (*write_fn)(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);

static const struct {
    const char *name;
    write_fn write;
} formats[] = {
    {"text", zep_topo_to_text}, {"matrix", zep_topo_to_matrix}, {"yaml", zep_topo_to_yaml}, {"json", zep_topo_to_json}, {"svg", zep_topo_to_svg}, {"dot", zep_topo_to_dot},
    {"topology.conf", zep_topo_to_slurm_conf}, {"topology.yaml", zep_topo_to_slurm_yaml}, {"nccl", zep_topo_to_nccl_xml}, {"hostfile", zep_topo_to_hostfile}, {"ranks", zep_topo_to_ranks}, {"labels", zep_topo_to_labels},
};
#define N_FORMAT (sizeof formats / sizeof formats[0])

struct args {
    struct zep_topo_args topo;
    const char *format;
    int measure, rounds;
    const char *out;
};

static int list_sources(void)
{
    for (int i = 0; zep_topo_sources[i]; i++) {
        const struct zep_topo_source *s = zep_topo_sources[i];
        char left[64];

        snprintf(left, sizeof left, "%s%s%s", s->name, s->arg ? *s->arg == '[' ? "[:" : ":" : "", s->arg ? s->arg + (*s->arg == '[') : "");
        printf("%-36s %s%s%s%s\n", left, s->what, s->not_built ? " (not built: " : "", s->not_built ? s->not_built : "", s->not_built ? " was missing)" : "");
    }
    return 0;
}

static int list_presets(void)
{
    for (int i = 0; zep_preset_name(i); i++)
        printf("%-14s %s\n", zep_preset_name(i), zep_preset_what(i));
    return 0;
}

static int set_format(struct args *a, const char *name)
{
    if (a->format && strcmp(a->format, name))
        return zep_cli_usage(&cli, "two formats: %s and %s", a->format, name);
    for (size_t i = 0; i < N_FORMAT; i++)
        if (!strcmp(formats[i].name, name)) {
            a->format = name;
            return -1;
        }
    return zep_cli_usage(&cli, "unknown format '%.60s': expected text, matrix, yaml, json, svg, dot, topology.conf, topology.yaml, nccl, hostfile, ranks or labels", name);
}

/* -1: go on, else exit status. */
static int parse(int argc, char **argv, struct args *a)
{
    int c, rc = -1;

    while (rc == -1 && (c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (zep_inputs_topo_option(&a->topo, c, optarg))
            continue;
        switch (c) {
        case OPT_FORMAT:
            rc = set_format(a, optarg);
            break;
        case OPT_YAML:
            rc = set_format(a, "yaml");
            break;
        case OPT_SVG:
            rc = set_format(a, "svg");
            break;
        case OPT_JSON:
            rc = set_format(a, "json");
            break;
        case OPT_MATRIX:
            rc = set_format(a, "matrix");
            break;
        case OPT_MEASURE:
            a->measure = 1;
            break;
        case OPT_ROUNDS:
            a->rounds = atoi(optarg);
            if (a->rounds < 3 || a->rounds > 1000)
                return zep_cli_usage(&cli, "--rounds '%.40s': expected 3 to 1000", optarg);
            break;
        case OPT_LIST_SOURCES:
            return list_sources();
        case OPT_LIST_PRESETS:
            return list_presets();
        case 'o':
            a->out = optarg;
            break;
        default:
            return c == 'h' ? 0 : 2;
        }
    }
    if (rc != -1)
        return rc;
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if (a->topo.n_from < 0)
        return zep_cli_usage(&cli, "more than %d sources", ZEP_MAX_FROM);
    return -1;
}

static write_fn writer_of(const char *format)
{
    for (size_t i = 0; format && i < N_FORMAT; i++)
        if (!strcmp(formats[i].name, format))
            return formats[i].write;
    return zep_topo_to_text;
}

/* zeppelin topo diff A B: each a source, as --from takes it. Exit status 0 also where they differ. */
static int diff(int argc, char **argv)
{
    struct zep_topo *topo[2] = {NULL, NULL};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc = ZEP_OK;

    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(cli.usage, stdout);
        return 0;
    }
    if (argc != 3)
        return zep_cli_usage(&cli, "diff: expected two sources, files or kinds");
    for (int i = 0; i < 2 && rc == ZEP_OK; i++) {
        struct zep_topo_args a = {.n_from = 1, .from = {argv[1 + i]}};

        rc = zep_inputs_topo(&a, &topo[i], &err);
    }
    if (rc == ZEP_OK && (rc = zep_topo_diff(topo[0], topo[1], &b, &err)) == ZEP_OK) {
        if (!b.len)
            zep_log(ZEP_LOG_INFO, "no difference");
        else
            rc = zep_cli_write(NULL, &b, &err);
    }
    zep_buf_free(&b);
    zep_topo_free(topo[0]);
    zep_topo_free(topo[1]);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}

int cmd_topo(int argc, char **argv)
{
    struct args a = {.rounds = 7};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_topo *topo = NULL;
    struct zep_error err;
    int rc;

    if (argc > 1 && !strcmp(argv[1], "diff"))
        return diff(argc - 1, argv + 1);
    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = zep_inputs_topo(&a.topo, &topo, &err)) == ZEP_OK && a.measure)
        rc = zep_measure(topo, a.topo.hosts, a.rounds, &err);
    if (rc == ZEP_OK) {
        for (int i = 0; i < topo->n_warning; i++)
            zep_log(ZEP_LOG_WARN, "%s", topo->warning[i]);
        rc = writer_of(a.format)(topo, &b, &err);
    }
    if (rc == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    zep_buf_free(&b);
    zep_topo_free(topo);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
