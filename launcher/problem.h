/* What is planned for, as verbs take it from the command line: a cluster and a workload. */
#ifndef ZEP_LAUNCHER_PROBLEM_H
#define ZEP_LAUNCHER_PROBLEM_H

#include <getopt.h>
#include "common/error.h"
#include "launcher/inputs.h"
#include "planner/mix.h"
#include "planner/plan.h"
#include "planner/workload.h"

enum {
    ZEP_OPT_NODES = 1100, ZEP_OPT_DEVICES, ZEP_OPT_TP, ZEP_OPT_LENGTHS, ZEP_OPT_DIST, ZEP_OPT_DATA, ZEP_OPT_TOKENS, ZEP_OPT_CONTEXT, ZEP_OPT_SEED, ZEP_OPT_STEP,
};

#define ZEP_PROBLEM_OPTIONS \
    {"from", required_argument, NULL, ZEP_OPT_FROM}, {"topology", required_argument, NULL, ZEP_OPT_FILE}, {"synthetic", required_argument, NULL, ZEP_OPT_SYNTHETIC}, {"preset", required_argument, NULL, ZEP_OPT_PRESET}, \
    {"slurm", no_argument, NULL, ZEP_OPT_SLURM}, {"local", no_argument, NULL, ZEP_OPT_LOCAL}, {"only", required_argument, NULL, ZEP_OPT_ONLY}, {"without", required_argument, NULL, ZEP_OPT_WITHOUT}, {"slow", required_argument, NULL, ZEP_OPT_SLOW}, \
    {"nodes", required_argument, NULL, ZEP_OPT_NODES}, {"devices", required_argument, NULL, ZEP_OPT_DEVICES}, {"tp", required_argument, NULL, ZEP_OPT_TP}, {"lengths", required_argument, NULL, ZEP_OPT_LENGTHS}, \
    {"dist", required_argument, NULL, ZEP_OPT_DIST}, {"data", required_argument, NULL, ZEP_OPT_DATA}, {"tokens", required_argument, NULL, ZEP_OPT_TOKENS}, {"context", required_argument, NULL, ZEP_OPT_CONTEXT}, \
    {"seed", required_argument, NULL, ZEP_OPT_SEED}, {"step", required_argument, NULL, ZEP_OPT_STEP}

#define ZEP_PROBLEM_HELP \
    "Cluster (default: as `zeppelin topo`):\n" \
    "  --from KIND[:ARG]  a source of `zeppelin topo`, or a file; several are merged\n" \
    "  --topology FILE    --from FILE\n" \
    "  --synthetic TEXT   'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'\n" \
    "  --preset NAME[:N]  N nodes of a known machine: A, B, C of the paper, dgx-h100 ... (zeppelin-topo(1))\n" \
    "  --slurm, --local   the Slurm cluster; this machine\n" \
    "  --only LIST        these nodes alone; --without LIST: all but these\n" \
    "  --slow WHAT=F      nodes (n3, n[0-3], '*'), devices (n3/dev:0) or NICs (n3/nic:mlx5_1) that give only\n" \
    "                     the share F of their computing or bandwidth; may be repeated (zeppelin-topo(1))\n" \
    "  --nodes N          only the first N nodes\n" \
    "  --devices D        devices a node (default: all)\n" \
    "  --tp T             tensor parallelism: T GPUs of a node form a group, which is one\n" \
    "                     device here (default 1)\n" \
    "\n" \
    "Workload (one of):\n" \
    "  --lengths FILE     sequence lengths in tokens, one or more a line, # comments\n" \
    "  --dist TEXT        NAME:tokens=N[,seed=N][,max=N]; names: arxiv, github, prolong64k, web, prolong,\n" \
    "                     wlb, sft (stand-ins made from published histograms)\n" \
    "  --data PREFIX      a data set, with --tokens N [--context N]\n" \
    "  --tokens N         documents are those of an epoch, the workload the batch of one step of N tokens, shuffled\n" \
    "                     and filled as in training [--seed N] [--step N]; without: --lengths, --dist are the batch\n"

struct zep_problem_args {
    struct zep_topo_args topo;
    int64_t nodes, devices, tp, tokens, context, seed, step;
    const char *lengths, *dist, *data;
};

struct zep_documents { /* of an epoch: one of them */
    struct zep_dataset *set;
    struct zep_workload *list;
};
int zep_documents_open(const struct zep_problem_args *a, struct zep_documents *out, struct zep_error *err);
void zep_documents_close(struct zep_documents *d);
int zep_documents_batches(const struct zep_documents *d, const struct zep_problem_args *a, struct zep_batches **out, struct zep_error *err);
int64_t zep_documents_len(const struct zep_documents *d, int32_t doc);

/* 1: it was one of the options above; 0 it was not; negative: a bad value. */
int zep_problem_option(struct zep_problem_args *a, int option, const char *value, struct zep_error *err);
/* NULL, or what is missing or too much. */
const char *zep_problem_complaint(const struct zep_problem_args *a);
/* The workload is a batch out of many documents (--data, --tokens), which a run would divide into micro-steps. */
int zep_problem_is_epoch(const struct zep_problem_args *a);
/* The batch: of step a->step of an epoch, or all that was listed. */
int zep_problem_workload(const struct zep_problem_args *a, struct zep_workload **out, struct zep_error *err);
/* Costs of the model on the device (NULL: what the topology says its devices are); what is used is said on standard error. */
int zep_problem_costs(const char *model, const char *device, const struct zep_topo *topo, const struct zep_view *view, int tp, struct zep_cost *cost_out, struct zep_error *err);
/* Speeds and memory of the view's devices beside those that the costs are of (planner/mix.h); what is not alike is said on standard error unless quiet. */
int zep_problem_speeds(const char *device, const struct zep_topo *topo, const struct zep_cost *cost, int quiet, struct zep_view *view, struct zep_error *err);
/* To plan by costs: sets the options' cost (lent), speeds as above, and where memories differ the capacities of devices, so that small ones get no more than theirs holds: capacity_out->dev goes to free(). */
int zep_problem_capacities(const char *device, const struct zep_topo *topo, const struct zep_cost *cost, struct zep_view *view, struct zep_plan_opts *opts, struct zep_capacity *capacity_out, struct zep_error *err);
/* Warns of GPUs that no tensor-parallel group takes. */
void zep_problem_say_idle(const struct zep_problem_args *a, const struct zep_topo *topo);
int zep_problem_cluster(const struct zep_problem_args *a, struct zep_topo **topo_out, struct zep_view **view_out, struct zep_error *err);

#endif
