/* Groups of devices that lie side by side, and sequences packed into them by cost: what the methods that people use today have in common. */
#ifndef ZEP_PLANNER_GROUPS_H
#define ZEP_PLANNER_GROUPS_H

#include "planner/estimate.h"
#include "planner/plan_internal.h"

struct zep_groups {
    const struct zep_view *view;
    const struct zep_cost *cost;
    const int64_t *len;
    int n_seq;
    int64_t cap;        /* tokens a device, at most */
    const struct zep_plan_opts *opts;
    int32_t *sorted;    /* [n_seq] by descending length */
    int heads;          /* > 0: groups of a node whose size divides this exchange heads; 0: none, but for */
    int u;              /* > 0: so many side by side exchange heads in every group; 1: none */
    int n;              /* groups: devices [dev0[i], dev0[i + 1]) */
    int32_t *dev0;      /* [n_dev + 1] */
    double *load_s;     /* [n] */
    int64_t *tok;       /* [n] */
    int32_t *group;     /* [n_seq] the group of a sequence */
};

int zep_groups_init(struct zep_groups *g, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err);
void zep_groups_free(struct zep_groups *g);
/* Tokens that group i holds, every member as many: its smallest decides. */
int64_t zep_groups_room(const struct zep_groups *g, int i);
/* How many members of group i exchange heads, 0: none. */
int zep_groups_heads(const struct zep_groups *g, int i);
/* Devices a node where all nodes have as many, else 0. */
int zep_groups_per_node(const struct zep_view *view);
/* The largest number of devices that all nodes consist of whole groups of. */
int zep_groups_common(const struct zep_view *view);
/* Groups of one size: 1 where the size divides all nodes, or is whole nodes that divide the cluster, or is everything. */
int zep_groups_uniform(struct zep_groups *g, int size);
/* Longest first, each to the group that is done first with it and has room: 1 all are placed, 0 not all fit. Loads are attention and linear modules, and what transfers exceed the attention by. */
int zep_groups_pack(struct zep_groups *g);
/* Splits group i in two halves, or joins it with the next one where both are halves of one larger aligned group: 1 done. Groups stay parts of a node or whole nodes. */
int zep_groups_split(struct zep_groups *g, int i);
int zep_groups_join(struct zep_groups *g, int i);
double zep_groups_makespan(const struct zep_groups *g);
/* Is every device within its capacity? Remainder tokens of several rings may exceed it by a few. */
int zep_groups_holds(const struct zep_plan *plan);
int zep_groups_plan(const struct zep_groups *g, const struct zep_plan_opts *opts, enum zep_form form, struct zep_plan **plan_out, struct zep_error *err);

#endif
