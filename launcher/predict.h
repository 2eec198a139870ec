/* Predictions of a step by several methods: what `zeppelin sim` and its relatives share. */
#ifndef ZEP_LAUNCHER_PREDICT_H
#define ZEP_LAUNCHER_PREDICT_H

#include "common/buf.h"
#include "common/error.h"
#include "launcher/problem.h"
#include "planner/cost.h"
#include "planner/plan.h"
#include "planner/sim.h"

#define ZEP_MAX_METHOD 32

struct zep_predict_args {
    struct zep_problem_args problem;
    const char *model, *device;
    const char *methods;  /* names, divided by commas; NULL: all */
    int64_t capacity;     /* tokens a device; 0: by slack */
    double slack;
    int recompute, spans; /* spans: timelines are kept */
    int no_auto;          /* all means all but auto, which plans with all others again */
    struct zep_plan_opts opts;
};

struct zep_prediction { /* of one method */
    const char *method;
    struct zep_plan *plan;
    struct zep_sim *sim; /* NULL: none, and why */
    struct zep_plan_stats stats;
    char why[300];
};

struct zep_comparison {
    struct zep_topo *topo;
    struct zep_view *view;
    struct zep_workload *work;
    struct zep_cost cost;
    int n_micro;            /* of a step of an epoch that devices do not hold; work is then the first of them */
    int64_t step_token;     /* of the step, where n_micro > 1 */
    int64_t fit, least_fit; /* tokens that memory holds on a device, the largest and the smallest */
    int64_t capacity;
    enum zep_effort effort;
    int64_t *dev_capacity;  /* [n_dev], NULL: capacity on all */
    char *names;
    int n;
    struct zep_prediction row[ZEP_MAX_METHOD];
};

/* Options of the model, the device, capacity and methods that the verbs share: 1 it was one of them, 0 it was not, negative: a bad value. */
enum { ZEP_OPT_MODEL = 1200, ZEP_OPT_DEVICE, ZEP_OPT_METHODS, ZEP_OPT_CAPACITY, ZEP_OPT_SLACK, ZEP_OPT_NO_ROUTING, ZEP_OPT_NO_REMAP, ZEP_OPT_PROXIES, ZEP_OPT_RECOMPUTE, ZEP_OPT_EFFORT, ZEP_OPT_NO_HEADS, ZEP_OPT_ZONES };
#define ZEP_PREDICT_OPTIONS \
    {"model", required_argument, NULL, ZEP_OPT_MODEL}, {"device", required_argument, NULL, ZEP_OPT_DEVICE}, {"methods", required_argument, NULL, ZEP_OPT_METHODS}, {"capacity", required_argument, NULL, ZEP_OPT_CAPACITY}, \
    {"slack", required_argument, NULL, ZEP_OPT_SLACK}, {"no-routing", no_argument, NULL, ZEP_OPT_NO_ROUTING}, {"no-remap", no_argument, NULL, ZEP_OPT_NO_REMAP}, {"max-proxies", required_argument, NULL, ZEP_OPT_PROXIES}, \
    {"recompute", no_argument, NULL, ZEP_OPT_RECOMPUTE}, {"effort", required_argument, NULL, ZEP_OPT_EFFORT}, {"no-heads", no_argument, NULL, ZEP_OPT_NO_HEADS}, {"zones", required_argument, NULL, ZEP_OPT_ZONES}
/* --help of the model and the device, and of the others but --methods. */
#define ZEP_MODEL_HELP \
    "  --model NAME       a known model (zeppelin-sim(1)), or a file (zeppelin-model/1.0)\n" \
    "  --device NAME      a known kind of device (zeppelin-sim(1)), or a file (zeppelin-device/1.0);\n" \
    "                     default: what the topology says its devices are\n"
#define ZEP_PREDICT_HELP \
    "  --capacity TOKENS  tokens a device may hold for attention (default: --slack)\n" \
    "  --slack X          capacity as a multiple of tokens / devices (default 1.5), no more than memory holds\n" \
    "  --recompute        activations of linear modules are computed again in the backward pass, not kept\n" \
    "  --no-routing       hops between nodes go straight from sender to receiver\n" \
    "  --no-remap         linear modules work where attention left the tokens\n" \
    "  --no-heads         zeppelin and auto exchange no heads: rings only\n" \
    "  --zones LIST       zones that zeppelin and zeppelin-paper may use: local, intra, inter (default: all)\n" \
    "  --max-proxies X    most proxies of a hop (default: one for each NIC that both nodes have)\n" \
    "  --effort WORD      how zeppelin looks for a plan: fast (default), by estimates, as a training run does;\n" \
    "                     search, by simulating candidates (seconds)\n"
int zep_predict_option(struct zep_predict_args *a, int option, const char *value, struct zep_error *err);

/* NULL, or what is wrong with the command line as a whole. */
const char *zep_predict_complaint(const struct zep_predict_args *a);
/* Cluster, workload, costs and capacity; what is used is said on standard error. zep_comparison_free in any case. */
int zep_comparison_open(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err);
/* A line that says what of the plan the switches of ablations turn off. */
void zep_plan_put_ablations(const struct zep_plan *plan, struct zep_buf *b);
/* A line about micro-steps, where there are several. */
void zep_comparison_put_micro(const struct zep_comparison *c, struct zep_buf *b);
/* Sets fit and capacity of a comparison with workload, view and costs. why: empty, or why memory does not hold the batch (room for 300). */
int zep_comparison_capacity(struct zep_comparison *c, int64_t asked, double slack, char *why, size_t why_len, struct zep_error *err);
/* Plans and simulates with all methods. One that cannot place this batch is a row without sim; where it is the only one, an error. */
int zep_comparison_run(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err);
void zep_comparison_free(struct zep_comparison *c);

const struct zep_prediction *zep_comparison_find(const struct zep_comparison *c, const char *method); /* NULL: not there, or no sim */
/* How many times as fast as another method; 0: that is not there. */
double zep_speed_up(const struct zep_comparison *c, const struct zep_prediction *r, const char *over);
/* The fastest of the others' methods; NULL: none. */
const struct zep_prediction *zep_best_rival(const struct zep_comparison *c);
/* The busiest device's computing over the mean. */
double zep_imbalance(const struct zep_comparison *c, const struct zep_prediction *r);
/* Bytes sent in a step: inside nodes (net 0), between nodes (1). */
double zep_step_bytes(const struct zep_comparison *c, const struct zep_prediction *r, int net);

/* "zeppelin-sim/1.0" */
int zep_comparison_to_json(const struct zep_comparison *c, struct zep_buf *b, struct zep_error *err);

#endif
