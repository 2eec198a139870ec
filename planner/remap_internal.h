/* What the files of remapping share. docs/remapping.md says what is minimised and why the result is the least. */
#ifndef ZEP_PLANNER_REMAP_INTERNAL_H
#define ZEP_PLANNER_REMAP_INTERNAL_H

#include "planner/plan_internal.h"

enum zep_remap_level { ZEP_REMAP_NODE, ZEP_REMAP_LEAF, ZEP_REMAP_SPINE, ZEP_REMAP_N_LEVEL }; /* how far a token goes */

#define ZEP_REMAP_DEV_BW 200e9 /* where the view knows none */
#define ZEP_REMAP_NIC_BW 25e9
/* The view knows no speed of uplinks: a token across leaves is taken to cost this much of one inside a leaf. */
#define ZEP_REMAP_SPINE_NUM 5
#define ZEP_REMAP_SPINE_DEN 4
/* Costs a token are whole numbers in units of the view's slowest link, which costs this many. Times this and 5/4, ZEP_PLAN_MAX_TOKENS still fits into 63 bits. */
#define ZEP_REMAP_SLOWEST ((int64_t)1 << 22)

struct zep_remap {
    const struct zep_view *view;
    struct zep_arena *arena;
    int n_dev, n_leaf;
    int inside;        /* tokens stay in their nodes as far as they can */
    int32_t *dev;      /* [n_dev] devices, those of a leaf together, those of a node together */
    int32_t *leaf0;    /* [n_leaf + 1] ranges in dev */
    int32_t *dev_leaf; /* [n_dev] */
    int64_t total;     /* tokens that move */
    int64_t *surplus;  /* [n_dev] > 0: tokens to send, < 0: tokens wanted */
    int64_t *node_out, *node_in; /* [n_node] sums of surpluses, of deficits */
    int64_t *cost[ZEP_REMAP_N_LEVEL]; /* [n_dev] of a token sent by the device, never falling with the level */
    int64_t *nic_cost;                /* [n_nic + n_node]: of a token over a NIC; n_nic + i stands for the NICs of node i's devices of which none is known */
    int64_t *part[ZEP_REMAP_N_LEVEL]; /* [n_dev] the result: surplus = sum over levels; each level's sum is 0 in every node, leaf, all */
};

/* The NIC of a device, an index of nic_cost. */
static inline int zep_remap_nic(const struct zep_view *view, int d)
{
    return view->dev_nic[d] >= 0 ? view->dev_nic[d] : view->n_nic + view->dev_node[d];
}

/* remap_senders.c, remap_links.c: fill part for ZEP_REMAP_SENDERS and ZEP_REMAP_LINKS. */
int zep_remap_senders(struct zep_remap *rm, struct zep_error *err);
int zep_remap_links(struct zep_remap *rm, struct zep_error *err);

#endif
