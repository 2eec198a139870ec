/* What the files of the simulator share: the streams of one pass, loaded into arrays. */
#ifndef ZEP_PLANNER_SIM_INTERNAL_H
#define ZEP_PLANNER_SIM_INTERNAL_H

#include "planner/sim.h"

#define SIM_N_PHASE ZEP_N_PHASE
#define SIM_MAX_RES 2

struct sim_comp { /* an operation of a queue */
    double cost_s;
    int32_t wait[ZEP_N_LANE];
    int32_t ring, step;
    int32_t is_add;
};

struct sim_group {
    int32_t after[ZEP_N_QUEUE], wait[ZEP_N_LANE];
    int32_t xfer0, n_xfer;
};

struct sim_xfer {
    int32_t route, send;
    double bytes;
};

struct sim_route { /* transfers of one lane from one device to another */
    int32_t lane, src, dst;
    int32_t n_res, net;
    int32_t res[SIM_MAX_RES];
    int32_t up0, n_up; /* range in up_res: links above the NICs */
    double latency_s;
    /* while running: halves that wait, all of one side */
    int32_t head, tail; /* pend + 1 */
};

struct sim_res { /* a link in one direction */
    double bw, free_s, busy_s;
    int32_t last; /* span that used it last */
};

struct sim_dev {
    int comp0[ZEP_N_QUEUE], n_comp[ZEP_N_QUEUE];
    int group0[ZEP_N_LANE], n_group[ZEP_N_LANE]; /* of all phases */
    int end_group[ZEP_N_LANE][SIM_N_PHASE];      /* groups of phases up to this one */
    double copy_s[SIM_N_PHASE];
    double linear_s, slow; /* slow: how many times as long computing takes as the costs say */
};

struct sim_pass { /* one pass of all devices */
    const struct zep_plan *plan;
    const struct zep_view *view;
    const struct zep_cost *cost;
    enum zep_pass pass;
    struct sim_dev *dev;
    int n_comp, cap_comp, n_group[ZEP_N_LANE], cap_group[ZEP_N_LANE], n_xfer, cap_xfer;
    struct sim_comp *comp;
    struct sim_group *group[ZEP_N_LANE];
    struct sim_xfer *xfer;
    int n_route, cap_route, n_bucket;
    struct sim_route *route;
    int32_t *bucket;   /* route + 1 */
    int n_res;
    struct sim_res *res; /* ports out [n_dev], in [n_dev], NICs out [n_nic], in [n_nic], links up from parts of fabrics [n_up], down into them [n_up] */
    int n_up_res, cap_up_res;
    int32_t *up_res;
    double *ring_own, *ring_other, *ring_rest; /* [n_ring] seconds of a step with the own block, with another's, with all others' that were gathered */
    double *buf_bytes; /* [n_dev] of blocks that are not the device's own */
    struct zep_error *err;
};

/* sim_load.c */
/* Of a node's NIC (global index), or of all of a node's (-1). */
int sim_no_link(const struct zep_view *view, int node, int nic, struct zep_error *err);
int sim_load(struct sim_pass *p);
void sim_unload(struct sim_pass *p);
/* sim.c: runs a loaded pass. dev_busy [n_dev]: computing is added. */
int sim_run(struct sim_pass *p, const struct zep_sim_opts *opts, struct zep_sim_pass *out, double *dev_busy);

#endif
