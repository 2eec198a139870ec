/* The plans of a batch, one a micro-step. No MPI in it: any thread may make them. */
#ifndef ZEP_RUNTIME_PLANS_H
#define ZEP_RUNTIME_PLANS_H

#include <stdint.h>
#include "common/error.h"
#include "common/job.h"
#include "planner/cost.h"
#include "planner/plan.h"
#include "runtime/batch.h"
#include "topology/topo.h"

struct zep_planning { /* how a run plans; all of it outlives the plans' making */
    const struct zep_job *job;
    const struct zep_view *view;
    const struct zep_cost *cost; /* NULL: by tokens and pairs */
    int64_t capacity;            /* tokens a device */
    int check;                   /* prove every plan, too */
};

struct zep_plans {
    int n;
    struct zep_plan **plan;
    int *first;      /* [n + 1] first document of each */
    uint64_t digest; /* of all of them */
};

/* Same input, same plans, on every rank. Nothing is left on failure. */
int zep_plans_make(const struct zep_planning *how, const struct zep_batch *batch, struct zep_plans *out, struct zep_error *err);
void zep_plans_free(struct zep_plans *plans);

#endif
