/* Transformer Engine's context parallelism: every sequence cut evenly over all devices, one ring, hops unrouted. */
#include "config.h"
#include "planner/plan_internal.h"

#include <stdlib.h>

#include "common/arena.h"

static int build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_draft draft;
    int32_t *all = NULL;
    int rc, set;

    if ((rc = zep_draft_init(&draft, n, err)) < 0)
        return rc;
    if (!(all = zep_calloc((size_t)view->n_dev, sizeof *all))) {
        rc = zep_error_nomem(err, "plan");
        goto out;
    }
    for (int d = 0; d < view->n_dev; d++)
        all[d] = d;
    if ((rc = set = zep_sets_get(&draft.sets, all, view->n_dev, err)) < 0)
        goto out;
    for (int i = 0; i < n; i++) {
        draft.order[i] = i;
        zep_draft_place(&draft, i, len[i], set);
    }
    rc = zep_plan_from_draft(view, len, opts, 0, &draft, plan_out, err);
out:
    free(all);
    zep_draft_free(&draft);
    return rc;
}

const struct zep_method zep_method_te_cp = {"te-cp", "every sequence over all devices in one ring (Transformer Engine's context parallelism)", build};
