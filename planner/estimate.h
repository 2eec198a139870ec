/* Quick estimates, for planners that look at many possibilities: seconds of both passes of one layer. The simulator has the last word. */
#ifndef ZEP_PLANNER_ESTIMATE_H
#define ZEP_PLANNER_ESTIMATE_H

#include "planner/cost.h"
#include "planner/plan.h"
#include "planner/sim.h"

/* What is needed where no costs are known: attention by pairs, nothing else. */
const struct zep_cost *zep_estimate_cost(const struct zep_plan_opts *opts);

/* Attention of a sequence on each member of a ring of g. */
double zep_estimate_attn(const struct zep_cost *cost, int64_t len, int g);
/* Linear modules of a token. */
double zep_estimate_token(const struct zep_cost *cost);
/* How long the blocks of a sequence take to go round a ring of g members in n_node nodes (double ring where several), each over its own port and NIC. */
double zep_estimate_travel(const struct zep_cost *cost, const struct zep_view *view, int64_t len, int g, int n_node);

/* Of a sequence on groups of u devices that exchange heads, g devices in all, in n_node nodes: how long the exchange takes, which nothing hides, and what goes round the ring of groups meanwhile takes. */
double zep_estimate_heads(const struct zep_cost *cost, const struct zep_view *view, int64_t len, int g, int u, int n_node, double *ring_out);
/* Key-value heads that a degree must divide, 0: not known. */
int zep_estimate_n_heads(const struct zep_plan_opts *opts);

/* Of the slowest device's port; bytes/s, 0 unknown. */
double zep_estimate_port(const struct zep_cost *cost, const struct zep_view *view);

/* What plans are compared by: the step's time, those that the memory of some device does not hold behind all others. */
double zep_estimate_rank(const struct zep_sim *sim);
/* The better of two plans by rank: keeps it in *best (time in *best_s) and frees the other. ZEP_SKIPPED: the plan needs a link whose speed is not known (*err says which); it is freed. */
#define ZEP_SKIPPED 1
int zep_estimate_keep(const struct zep_view *view, const struct zep_cost *cost, struct zep_plan *plan, struct zep_plan **best, double *best_s, struct zep_error *err);

#endif
