#include "config.h"
#include "launcher/launcher.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/yaml.h"

static const struct zep_verb verbs[] = {
    {"topo", "show a cluster: this machine, a Slurm cluster, a file, or a description", cmd_topo},
    {"doctor", "look for what makes training slow or fail on a node, an allocation, a cluster", cmd_doctor},
    {"plan", "plan one step: sequences to devices, rings, proxies, moves", cmd_plan},
    {"sim", "predict steps: methods side by side, on a cluster with a model and a workload", cmd_sim},
    {"explain", "explain a plan: where sequences went and why, what bounds the step, what would help", cmd_explain},
    {"advise", "recommend a method, a capacity and nodes for a data set, with the expected gain", cmd_advise},
    {"calibrate", "measure this machine's kernels for predictions", cmd_calibrate},
    {"run", "train, on this machine or in a Slurm allocation", cmd_run},
    {"submit", "hand a training job to Slurm", cmd_submit},
    {"k8s", "launch a training job on Kubernetes, by the MPI operator", cmd_k8s},
    {"status", "say how runs stand: why they wait, where they run, how far they are", cmd_status},
    {"logs", "print or follow the log of a run", cmd_logs},
    {"wait", "wait until a run has ended, and exit as it did", cmd_wait},
    {"cancel", "stop a run with a checkpoint, or take it out of the queue", cmd_cancel},
    {"report", "report on a run: losses, zones, balance, phases, pictures", cmd_report},
    {"data", "make a data set from text files", cmd_data},
    {"job", "write, check and show job files", cmd_job},
    {NULL, NULL, NULL},
};

const struct zep_verb *zep_verbs(void)
{
    return verbs;
}

static void help(FILE *f)
{
    fputs("usage: zeppelin VERB [OPTION]... [ARGUMENT]...\n"
          "\n"
          "Trains large language models data-parallel on sequences of very different lengths: detects the\n"
          "cluster's topology, plans every step, starts MPI ranks that match it, and runs the training.\n"
          "\n",
          f);
    for (const struct zep_verb *v = verbs; v->name; v++)
        fprintf(f, "  %-8s %s\n", v->name, v->summary);
    fputs("\n"
          "  --help, --version\n"
          "\n"
          "`zeppelin VERB --help` tells more; so do the manual pages zeppelin(1) and zeppelin-VERB(1).\n"
          "Exit status: 0 done, 1 failed, 2 bad input, 3 something needed is missing, 4 refused for safety,\n"
          "75 stopped on request with a good checkpoint, 76 a peer was lost, 128+n a signal.\n",
          f);
}

static int unknown_verb(const char *word)
{
    const char *names[sizeof verbs / sizeof verbs[0]] = {NULL}, *near;

    for (int i = 0; verbs[i].name; i++)
        names[i] = verbs[i].name;
    near = zep_nearest(word, names);
    if (near)
        fprintf(stderr, "zeppelin: unknown verb '%s' (did you mean '%s'?)\n", word, near);
    else
        fprintf(stderr, "zeppelin: unknown verb '%s': `zeppelin --help` lists all\n", word);
    return 2;
}

int main(int argc, char **argv)
{
    zep_log_init("zeppelin", ZEP_LOG_INFO);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("zeppelin " PACKAGE_VERSION);
        return 0;
    }
    for (const struct zep_verb *v = verbs; v->name; v++)
        if (!strcmp(v->name, argv[1]))
            return v->run(argc - 1, argv + 1);
    return unknown_verb(argv[1]);
}
