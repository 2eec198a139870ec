/* Proof of a plan from the schedules of all devices, from first principles: nothing of the planner's intentions is trusted (design, section 1).
 * The streams are executed symbolically, rows standing for tokens: every token exactly once in each layout; attention layout within capacity; every causal (query, key)
 * pair exactly once, with right positions; every pair's gradient brought to its key's owner exactly once; each send met by one receive of the same size, in the order of the ordered pair,
 * with equal keys, inside the lane (the node lane only inside a node); what a message or block holds is what the reader expects (no stale or overwritten buffer); no deadlock by the rule that a group completes when
 * all its partners' groups are posted and nothing is buffered; O and dQ, dK, dV come back to the linear owner of their token.
 * Where heads are exchanged, all of this is proved for every head: once for each class of heads that all rings treat alike. */
#ifndef ZEP_PLANNER_CHECK_H
#define ZEP_PLANNER_CHECK_H

#include "common/error.h"
#include "planner/plan.h"
#include "planner/sched.h"

/* Tests put a mutated stream in between: called for each operation of each device, it may change *op (and its own copies of the arrays behind), or return 0 to drop it. */
typedef int (*zep_check_hook_fn)(void *arg, int dev, enum zep_pass pass, int64_t index, struct zep_op *op);

struct zep_check_opts {
    zep_check_hook_fn hook; /* NULL: none */
    void *hook_arg;
};

struct zep_check_result {
    int64_t n_op, n_group, n_xfer, n_pair_block;
    double pairs;              /* causal pairs seen */
    int64_t rows_world, rows_node; /* rows sent, both passes; rows of some of the heads count as rows */
};

/* view: capacity and nodes are taken from plan; NULL opts and result are allowed. The error text is the first broken invariant: what, which device, ring, sequence, operation. ZEP_EINVAL. */
int zep_plan_check(const struct zep_plan *plan, const int64_t *len, int n, const struct zep_check_opts *opts, struct zep_check_result *result_out, struct zep_error *err);
/* The same for a plan on its own, whatever lengths it was made for; the error begins with "the plan is wrong". */
int zep_plan_prove(const struct zep_plan *plan, struct zep_error *err);

#endif
