/* Clusters whose devices are not all alike: speeds beside a reference, memory, capacities. */
#ifndef ZEP_PLANNER_MIX_H
#define ZEP_PLANNER_MIX_H

#include "common/buf.h"
#include "planner/cost.h"

/* The engine of one device of a node by its model's name; dev NULL: a core of a node without devices. ZEP_EINVAL: none is known. */
int zep_engine_of_device(const struct zep_node *node, const struct zep_device *dev, const struct zep_engine **engine_out, struct zep_error *err);
/* How fast an engine is where the reference is 1: what both take for as much attention (forward and backward) and for linear modules, the mean of both. */
double zep_engine_speed(const struct zep_engine *e, const struct zep_engine *reference);
/* Fills dev_speed with marks and, by_model, kinds of devices together, where 1 is the reference, which costs are of; and dev_mem with what each group holds (the board's memory, no more than its kind's): all
 * 0, unknown, where that is equal. tp: as the view was made. words gets in words what is not alike, nothing where all is; may be NULL. */
int zep_view_set_speeds(struct zep_view *view, const struct zep_topo *topo, const struct zep_engine *reference, int tp, int by_model, struct zep_buf *words, struct zep_error *err);

/* Tokens that device dev holds beside the model's state. */
int64_t zep_fit_of(const struct zep_cost *cost, const struct zep_view *view, int dev);

struct zep_capacity {
    int64_t tok;   /* of most devices, the largest */
    int64_t *dev;  /* [n_dev], NULL: tok for all; free() it */
    int64_t least_fit, most_fit, all_fit; /* what memory holds: on the smallest device, the largest, all */
    int fits;      /* 0: all together do not hold the batch */
};
/* As asked, or (asked 0) the average with slack, no more than memory holds. Where memories differ, each device gets no more than its own holds; where the others can, they take the rest. */
int zep_capacity_choose(const struct zep_cost *cost, const struct zep_view *view, int64_t n_token, int64_t asked, double slack, struct zep_capacity *out, struct zep_error *err);

#endif
