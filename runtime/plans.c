#include "config.h"
#include "runtime/plans.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "planner/check.h"
#include "planner/workload.h"

void zep_plans_free(struct zep_plans *p)
{
    for (int i = 0; i < p->n; i++)
        zep_plan_free(p->plan[i]);
    free(p->plan);
    free(p->first);
    memset(p, 0, sizeof *p);
}

int zep_plans_make(const struct zep_planning *how, const struct zep_batch *batch, struct zep_plans *out, struct zep_error *err)
{
    const struct zep_job *job = how->job;
    struct zep_plan_opts opts = {
        .method = job->plan.method,
        .capacity_tok = how->capacity,
        .tp = (int)job->cluster.tp,
        .routing = job->plan.routing,
        .remap = job->plan.remap,
        .max_proxies = (int)job->plan.max_proxies,
        .cost = how->cost,
        .heads = (int)(job->model.kv_heads / job->cluster.tp),
    };
    struct zep_plans p = {0};
    int n, rc;

    if ((rc = zep_effort_parse(job->plan.effort, &opts.effort, err)) < 0 || (rc = zep_zones_parse(job->plan.zones, &opts.zones, err)) < 0)
        return rc;
    if ((rc = zep_micro_split(batch->len, batch->n_doc, how->capacity * how->view->n_dev, &p.first, &n, err)) < 0)
        return rc;
    p.plan = zep_calloc((size_t)n + 1, sizeof *p.plan);
    if (!p.plan)
        rc = zep_error_nomem(err, "plans");
    while (rc == ZEP_OK && p.n < n) {
        const int64_t *len = batch->len + p.first[p.n];
        int n_seq = p.first[p.n + 1] - p.first[p.n];

        if ((rc = zep_plan_build(how->view, len, n_seq, &opts, &p.plan[p.n], err)) < 0)
            break;
        p.digest = p.digest * 0x9E3779B97F4A7C15u + p.plan[p.n]->digest;
        p.n++;
        if (how->check)
            rc = zep_plan_check(p.plan[p.n - 1], len, n_seq, NULL, NULL, err);
    }
    if (rc < 0)
        zep_plans_free(&p);
    else
        *out = p;
    return rc;
}
