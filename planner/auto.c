/* The best method for this batch, by prediction: all are planned and simulated. Ties go to the first. */
#include "config.h"
#include "planner/estimate.h"
#include "planner/plan_internal.h"

#include <stdio.h>
#include <string.h>

static int exchanges_heads(const struct zep_plan *plan)
{
    for (int i = 0; i < plan->n_ring; i++)
        if (plan->ring[i].heads)
            return 1;
    return 0;
}

static int build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *best = NULL, *plan;
    struct zep_plan_opts own = *opts;
    double best_s = 0;
    int skipped = 0; /* methods that need a link whose speed is not known; *err says which */

    if (!opts->cost)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "method auto chooses by predicted time: it needs a model and a kind of device (zeppelin sim)");
    for (int i = 0; zep_methods()[i]; i++) {
        int rc;

        own.method = zep_methods()[i]->name;
        if (!strcmp(own.method, "auto"))
            continue;
        rc = zep_methods()[i]->build(view, len, n, &own, &plan, err);
        if (rc == ZEP_OK && (rc = opts->no_heads && exchanges_heads(plan) ? ZEP_EUNSUPPORTED : zep_plan_hold(plan, err)) < 0)
            zep_plan_free(plan);
        if (rc == ZEP_EUNSUPPORTED)
            continue;
        if (rc == ZEP_OK)
            rc = zep_estimate_keep(view, opts->cost, plan, &best, &best_s, err);
        if (rc == ZEP_SKIPPED || rc == ZEP_EINVAL) {
            skipped = 1;
            continue;
        }
        if (rc < 0) {
            zep_plan_free(best);
            return rc;
        }
    }
    if (!best && skipped)
        return ZEP_EINVAL;
    if (!best)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "no method can place this batch within the capacity");
    *plan_out = best;
    return ZEP_OK;
}

const struct zep_method zep_method_auto = {"auto", "the method that is predicted to be the fastest for the batch", build};
