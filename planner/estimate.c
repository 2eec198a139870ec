#include "config.h"
#include "planner/estimate.h"

#include "planner/sim.h"

const struct zep_cost *zep_estimate_cost(const struct zep_plan_opts *opts)
{
    static const struct zep_cost pairs = {.tp = 1, .attn_fwd_s = 1, .attn_bwd_s = 2.5};

    return opts->cost ? opts->cost : &pairs;
}

double zep_estimate_attn(const struct zep_cost *c, int64_t len, int g)
{
    double chunk = (double)len / (2.0 * g), pairs;

    if (g == 1)
        pairs = zep_cost_tri(c, (double)len);
    else
        pairs = 2 * zep_cost_tri(c, chunk) + zep_cost_rect(c, chunk, chunk) + (g - 1) * zep_cost_rect(c, 2 * chunk, chunk);
    return pairs * (c->attn_fwd_s + c->attn_bwd_s);
}

double zep_estimate_token(const struct zep_cost *c)
{
    return c->linear_fwd_s + c->linear_bwd_s + c->tp_fwd_s + c->tp_bwd_s;
}

double zep_estimate_port(const struct zep_cost *c, const struct zep_view *v)
{
    double least = v->dev_bw[0];

    for (int d = 1; d < v->n_dev; d++)
        least = v->dev_bw[d] < least ? v->dev_bw[d] : least;
    return least > 0 ? least : c->engine.port_bw * c->tp;
}

static double least_nics(const struct zep_view *v)
{
    double least = 0;

    for (int n = 0; n < v->n_node; n++) {
        double sum = 0;

        for (int i = v->node_nic0[n]; i < v->node_nic0[n + 1]; i++)
            sum += v->nic_bw[i];
        least = !n || sum < least ? sum : least;
    }
    return least;
}

double zep_estimate_rank(const struct zep_sim *sim, const struct zep_cost *cost)
{
    return sim->step_s * (cost->mem_bytes > 0 && sim->mem_bytes > cost->mem_bytes ? 1e3 : 1);
}

double zep_estimate_travel(const struct zep_cost *c, const struct zep_view *v, int64_t len, int g, int n_node)
{
    double block = (double)len / g * (2 * c->kv_row + c->dkv_row), port = zep_estimate_port(c, v), nics = n_node > 1 ? least_nics(v) : 0, t = 0;
    int per_node = g / n_node;

    if (per_node > 1 && port > 0)
        t = block * (g - n_node) / port;
    if (n_node > 1 && nics > 0 && block * per_node * (n_node - 1) / nics > t)
        t = block * per_node * (n_node - 1) / nics;
    return t;
}

int zep_estimate_keep(const struct zep_view *view, const struct zep_cost *cost, struct zep_plan *plan, struct zep_plan **best, double *best_s, struct zep_error *err)
{
    struct zep_sim *sim = NULL;
    double step_s;
    int rc = plan->n_token ? zep_simulate(plan, view, cost, NULL, &sim, err) : ZEP_OK;

    if (rc < 0) {
        zep_plan_free(plan);
        return rc == ZEP_EINVAL ? ZEP_SKIPPED : rc;
    }
    step_s = sim ? zep_estimate_rank(sim, cost) : 0; /* of an empty plan */
    if (!*best || step_s < *best_s) {
        zep_plan_free(*best);
        *best = plan;
        *best_s = step_s;
    } else {
        zep_plan_free(plan);
    }
    zep_sim_free(sim);
    return ZEP_OK;
}
