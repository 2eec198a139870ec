/* A fabric small enough to be looked at: equal switches and equal nodes become one group each. */
#ifndef ZEP_TOPOLOGY_FOLD_H
#define ZEP_TOPOLOGY_FOLD_H

#include "topology/topo.h"

struct zep_fold_group {
    int level;     /* 0: nodes; 1: leaves ... */
    int n, first;  /* members, the first one's index (switch or node) */
    int last;      /* the last one's */
    int n_parent;
    int *parent;   /* groups above */
};

struct zep_fold {
    int n, top;    /* groups; highest level */
    struct zep_fold_group *group; /* by level from 0, in the order of their first members */
    int *node_group;              /* [n_node] */
    int *switch_group;            /* [n_switch] */
};

/* fabric NULL: nodes only. fold 0: every switch and node is a group of its own. */
int zep_fold_new(const struct zep_topo *topo, const struct zep_fabric *fabric, int fold, struct zep_fold **out, struct zep_error *err);
void zep_fold_free(struct zep_fold *f);

#endif
