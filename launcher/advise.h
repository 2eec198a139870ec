/* Which method, capacity and nodes suit batches of a data set on a cluster: what `zeppelin advise` computes. */
#ifndef ZEP_LAUNCHER_ADVISE_H
#define ZEP_LAUNCHER_ADVISE_H

#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "launcher/predict.h"
#include "launcher/sweep.h"

#define ZEP_ADVISE_BATCHES 64
#define ZEP_ADVISE_SETTINGS 16
#define ZEP_ADVISE_NIL 1.03 /* a gain below is none: predictions are not better than that */

enum zep_limit { ZEP_LIMIT_COMPUTE = 0, ZEP_LIMIT_NET, ZEP_LIMIT_NODE, ZEP_LIMIT_UNEVEN, ZEP_N_LIMIT_PART, ZEP_LIMIT_LONGEST = ZEP_N_LIMIT_PART, ZEP_LIMIT_MEMORY };

struct zep_advice_cell { /* a method in a setting, over all batches */
    double step_s[ZEP_ADVISE_BATCHES];
    double mean_step_s;         /* 0: it cannot serve all batches, and why */
    double node_s_token;        /* nodes x seconds / tokens */
    double part_s[ZEP_N_LIMIT_PART]; /* what steps consist of, summed over batches: computing; standing still for transfers between and inside nodes; uneven shares */
    double mem_bytes, mem_limit; /* of the device that needs most of what it has */
    char why[300];
};

struct zep_advice_setting {
    int n_node, n_dev;
    int64_t hold;               /* tokens of a micro-step; 0: the devices hold every batch */
    int n_micro;                /* most micro-steps of a batch, where hold is not 0 */
    int is_fast;                /* the first n_node of the nodes that are not marked slow */
    int64_t capacity;
    double slack;               /* capacity / average of the fullest batch */
    int is_memory;              /* the capacity is what memory holds */
    char why[300];              /* "": it was predicted */
    struct zep_advice_cell cell[ZEP_MAX_METHOD];
};

struct zep_advice {
    struct zep_ground ground;
    struct zep_ground fast;     /* without the slow nodes, where some are and some are not */
    char *slow;                 /* their names */
    int n_fast;                 /* nodes that fast has; 0: there is none */
    int n_batch;
    struct zep_workload *batch[ZEP_ADVISE_BATCHES];
    int64_t n_token, max_token; /* of all batches; of the fullest */
    int n_method;
    const char *method[ZEP_MAX_METHOD];
    char *names;
    int n_setting;              /* by nodes, descending, then by capacity, ascending */
    struct zep_advice_setting *setting;
    int best, best_method;      /* the recommendation: a setting and a method */
    enum zep_limit limit;
    double nic_gain;            /* how much shorter NICs of twice the bandwidth make the steps of the recommendation, planned anew: a share; NAN: one node, or it cannot be predicted */
};

/* Loads n_batch batches (of lengths, which are one batch: 1), predicts all methods in all settings, and chooses: of what costs at most 3 % more node-seconds a token than the cheapest, the fastest.
 * ZEP_EINVAL where nothing fits. zep_advice_free in any case. */
int zep_advice_make(const struct zep_predict_args *a, int n_batch, struct zep_advice *v, struct zep_error *err);
void zep_advice_free(struct zep_advice *v);

/* The fastest setting of a method with so many nodes; -1: none. */
int zep_advice_find(const struct zep_advice *v, int n_node, int method);
/* The method that is the fastest of the others' at the recommended number of nodes; -1: none. */
int zep_advice_rival(const struct zep_advice *v);
int zep_advice_method(const struct zep_advice *v, const char *name); /* -1: not compared */

struct zep_gain { /* of the recommendation: how many times as fast, over the batches */
    double mean, least, most;
};
/* Over a method with as many nodes at the capacity that suits it best. 0: it cannot serve the batches there. */
int zep_advice_gain(const struct zep_advice *v, int method, struct zep_gain *out);

int zep_advice_to_text(const struct zep_advice *v, const struct zep_predict_args *a, struct zep_buf *b, struct zep_error *err);
int zep_advice_to_json(const struct zep_advice *v, struct zep_buf *b, struct zep_error *err); /* "zeppelin-advice/1.0" */

#endif
