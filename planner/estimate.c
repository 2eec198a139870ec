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

double zep_estimate_rank(const struct zep_sim *sim)
{
    return sim->step_s * (sim->mem_limit > 0 && sim->mem_bytes > sim->mem_limit ? 1e3 : 1);
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

double zep_estimate_heads(const struct zep_cost *c, const struct zep_view *v, int64_t len, int g, int u, int n_node, double *ring_out)
{
    double row = 2 * (2 * c->q_row + c->kv_row), mine = (double)len / g * row, port = zep_estimate_port(c, v), nics = n_node > 1 ? least_nics(v) : 0, t = 0, block = (double)len / g * (2 * c->kv_row + c->dkv_row);
    int per_node = g / n_node, inside = u < per_node ? u : per_node, r = g / u;

    *ring_out = 0;
    if (port > 0) {
        t = mine * (inside - 1) / u / port;
        *ring_out = r > n_node ? block * (r - n_node) / port : 0;
    }
    if (nics > 0 && mine * (u - inside) / u * per_node / nics > t)
        t = mine * (u - inside) / u * per_node / nics;
    if (nics > 0 && r > 1 && block * per_node * (n_node - 1) / nics > *ring_out)
        *ring_out = block * per_node * (n_node - 1) / nics;
    return t;
}

int zep_estimate_n_heads(const struct zep_plan_opts *opts)
{
    return opts->heads > 0 ? opts->heads : opts->cost && opts->cost->model.n_head_kv > 0 ? opts->cost->model.n_head_kv / opts->cost->tp : 0;
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
    step_s = sim ? zep_estimate_rank(sim) : 0; /* of an empty plan */
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
