#include "config.h"
#include "launcher/launcher.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "launcher/cli.h"
#include "launcher/inputs.h"
#include "topology/topo.h"

enum { OPT_SYNTHETIC = 256, OPT_PRESET, OPT_FILE, OPT_SLURM, OPT_JOB, OPT_LOCAL, OPT_YAML, OPT_SVG };

static const struct option options[] = {
    {"local", no_argument, NULL, OPT_LOCAL}, {"slurm", no_argument, NULL, OPT_SLURM}, {"job", required_argument, NULL, OPT_JOB}, {"synthetic", required_argument, NULL, OPT_SYNTHETIC},
    {"preset", required_argument, NULL, OPT_PRESET}, {"file", required_argument, NULL, OPT_FILE}, {"yaml", no_argument, NULL, OPT_YAML}, {"svg", no_argument, NULL, OPT_SVG},
    {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "topo",
    "usage: zeppelin topo [SOURCE] [--yaml|--svg] [-o FILE]\n"
    "\n"
    "Shows a cluster: nodes, sockets, cores, memory, devices, NICs, switches.\n"
    "\n"
    "Sources (default: the Slurm allocation that the command runs in, else this machine):\n"
    "  --local            this machine, through hwloc\n"
    "  --slurm            the Slurm cluster: nodes, GPUs, switches\n"
    "  --job ID           the nodes of a Slurm job, in the order of its ranks\n"
    "  --synthetic TEXT   a description: 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'\n"
    "  --preset NAME[:N]  a machine of the paper: A, B or C, with N nodes (default 2)\n"
    "  --file FILE        a topology.yaml\n"
    "\n"
    "Output (default: text):\n"
    "  --yaml             topology.yaml, which --file reads\n"
    "  --svg              a picture\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

struct args {
    struct zep_topo_args topo;
    int yaml, svg;
    const char *out;
};

/* -1: go on, else exit status. */
static int parse(int argc, char **argv, struct args *a)
{
    int c, n = 0;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        switch (c) {
        case OPT_LOCAL:
            a->topo.local = 1;
            n++;
            break;
        case OPT_SLURM:
            a->topo.slurm = 1;
            break;
        case OPT_JOB:
            a->topo.slurm = 1;
            a->topo.job = optarg;
            break;
        case OPT_SYNTHETIC:
            a->topo.synthetic = optarg;
            n++;
            break;
        case OPT_PRESET:
            a->topo.preset = optarg;
            n++;
            break;
        case OPT_FILE:
            a->topo.file = optarg;
            n++;
            break;
        case OPT_YAML:
            a->yaml = 1;
            break;
        case OPT_SVG:
            a->svg = 1;
            break;
        case 'o':
            a->out = optarg;
            break;
        default:
            return c == 'h' ? 0 : 2;
        }
    }
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    if (n + a->topo.slurm > 1)
        return zep_cli_usage(&cli, "more than one source");
    if (a->yaml && a->svg)
        return zep_cli_usage(&cli, "--yaml and --svg exclude each other");
    return -1;
}

int cmd_topo(int argc, char **argv)
{
    struct args a = {0};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_topo *topo = NULL;
    struct zep_error err;
    int rc;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = zep_inputs_topo(&a.topo, &topo, &err)) == ZEP_OK) {
        for (int i = 0; i < topo->n_warning; i++)
            zep_log(ZEP_LOG_WARN, "%s", topo->warning[i]);
        rc = a.yaml ? zep_topo_to_yaml(topo, &b, &err) : a.svg ? zep_topo_to_svg(topo, &b, &err) : zep_topo_to_text(topo, &b, &err);
    }
    if (rc == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    zep_buf_free(&b);
    zep_topo_free(topo);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
