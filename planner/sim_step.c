/* A step out of one layer's two passes: head, exchange of gradients and parameters, optimizer; memory; what of the two passes is critical. */
#include "config.h"
#include "planner/sim_internal.h"

#include <stdlib.h>

#include "common/arena.h"
#include "common/units.h"

static double max2(double a, double b)
{
    return a > b ? a : b;
}

void zep_sim_free(struct zep_sim *sim)
{
    if (!sim)
        return;
    for (int i = 0; i < 2; i++) {
        free(sim->pass[i].span);
        free(sim->port_busy[i]);
        free(sim->nic_busy[i]);
        free(sim->up_busy[i]);
    }
    free(sim->dev_busy);
    free(sim->dev_mem);
    free(sim);
}

static int is_inside(const struct zep_view *v, int part, int nic)
{
    for (int u = v->nic_up[nic]; u >= 0; u = v->up[u].parent)
        if (u == part)
            return 1;
    return 0;
}

/* What of a node's part of the exchange leaves a part of the fabric, and comes into it. Nodes form rings in the order of the tree, one for each NIC: a ring crosses the links of a part once in each direction, unless all
 * nodes have a NIC in the part: then the rings of these NICs stay in it. */
static double crossing_share(const struct zep_view *v, int part)
{
    double most = 0;
    int all = 1;

    for (int n = 0; n < v->n_node; n++) {
        double sum = 0, own = 0;

        for (int c = v->node_nic0[n]; c < v->node_nic0[n + 1]; c++) {
            sum += v->nic_bw[c];
            own += is_inside(v, part, c) ? v->nic_bw[c] : 0;
        }
        all &= own > 0;
        most = sum > 0 ? max2(most, own / sum) : most;
    }
    return all ? 0 : most;
}

/* How long a node's links need to reduce-scatter or all-gather n bytes of each plan device's parameters over all of them: each device sends its share of the other ones' parts once, between nodes what
 * crosses is shared by the node's NICs. */
static double exchange_s(const struct sim_pass *p, double bytes)
{
    const struct zep_view *v = p->view;
    double part = bytes * (v->n_dev - 1) / v->n_dev, worst = 0;

    for (int n = 0; n < v->n_node && v->n_dev > 1; n++) {
        double nics = 0, port = p->res[v->node_dev0[n]].bw;

        for (int c = v->node_nic0[n]; c < v->node_nic0[n + 1]; c++)
            nics += v->nic_bw[c];
        if (v->n_node > 1 && nics > 0)
            worst = max2(worst, part / nics);
        if (v->node_dev0[n + 1] - v->node_dev0[n] > 1 && port > 0)
            worst = max2(worst, part / port);
    }
    for (int u = 0; u < v->n_up && v->n_node > 1; u++)
        if (v->up[u].bw > 0 && !v->up[u].unknown)
            worst = max2(worst, part * crossing_share(v, u) / v->up[u].bw);
    return worst;
}

/* Busiest link between nodes, or ports where there is one node. */
static double link_busy(const struct sim_pass *p, const struct zep_sim_pass *pass)
{
    return p->view->n_node > 1 ? max2(pass->nic_busy_s, pass->up_busy_s) : pass->port_busy_s;
}

static void compose(const struct sim_pass *p, double link[2], struct zep_sim *sim)
{
    const struct zep_cost *c = p->cost;
    int n_layer = c->model.n_layer;
    double most_s = 0, slowest = 0;
    double params = n_layer * c->layer_params + c->other_params, reduce = exchange_s(p, c->layer_params * c->grad_bytes), gather = exchange_s(p, c->layer_params * c->param_bytes);
    double fwd = sim->pass[0].time_s, bwd = sim->pass[1].time_s, plain = n_layer * (fwd + bwd);

    for (int d = 0; d < p->plan->n_dev; d++) {
        most_s = max2(most_s, p->dev[d].slow * (double)p->plan->lin_tok[d]);
        slowest = max2(slowest, p->dev[d].slow);
    }
    sim->head_s = most_s * (c->head_fwd_s + c->head_bwd_s);
    if (c->engine.overlap_grad) {
        fwd = max2(fwd, link[0] + gather);
        bwd = max2(bwd, link[1] + reduce);
        sim->exchange_s = n_layer * (fwd + bwd) - plain + gather + reduce + exchange_s(p, c->other_params * (c->grad_bytes + c->param_bytes));
    } else {
        sim->exchange_s = exchange_s(p, params * (c->grad_bytes + c->param_bytes));
    }
    sim->layers_s = plain;
    sim->optimizer_s = params * (2 * c->optim_bytes + c->grad_bytes + c->param_bytes) / p->plan->n_dev / c->mem_bw * slowest; /* each device has an equal share */
    sim->step_s = sim->layers_s + sim->head_s + sim->exchange_s + sim->optimizer_s;
    sim->tokens_s_dev = (double)p->plan->n_token / sim->step_s / p->plan->n_dev / p->plan->tp;
}

static void memory(const struct sim_pass *p, const double *buf_bytes, struct zep_sim *sim)
{
    const struct zep_cost *c = p->cost;
    const struct zep_plan *plan = p->plan;
    double params = c->model.n_layer * c->layer_params + c->other_params, state = params * (c->state_bytes + c->optim_bytes / plan->n_dev), attn = 2 * c->q_row + c->kv_row;

    for (int d = 0; d < plan->n_dev; d++) {
        double tokens = c->model.n_layer * ((double)plan->lin_tok[d] * (c->token_bytes - attn) + (double)plan->attn_tok[d] * attn), buffers = buf_bytes[d] + (double)plan->attn_tok[d] * (2 * c->q_row + c->dkv_row); /* and dO, dQ, dK and dV of a layer */

        double limit = zep_view_mem(p->view, d) > 0 ? (double)zep_view_mem(p->view, d) : c->mem_bytes;

        sim->dev_mem[d] = state + tokens + buffers;
        if (d && sim->dev_mem[d] * (sim->mem_limit > 0 ? sim->mem_limit : 1) <= sim->mem_bytes * (limit > 0 ? limit : 1))
            continue;
        sim->mem_bytes = sim->dev_mem[d];
        sim->mem_limit = limit;
        sim->mem_dev = d;
        sim->mem_state = state;
        sim->mem_tokens = tokens;
        sim->mem_buffers = buffers;
    }
}

static int alloc_sim(const struct zep_view *view, struct zep_sim **out, struct zep_error *err)
{
    struct zep_sim *sim = zep_calloc(1, sizeof *sim);

    if (!sim)
        return zep_error_nomem(err, "simulation");
    sim->dev_busy = zep_calloc((size_t)view->n_dev + 1, sizeof *sim->dev_busy);
    sim->dev_mem = zep_calloc((size_t)view->n_dev + 1, sizeof *sim->dev_mem);
    for (int i = 0; i < 2; i++) {
        sim->port_busy[i] = zep_calloc((size_t)view->n_dev + 1, sizeof **sim->port_busy);
        sim->nic_busy[i] = zep_calloc((size_t)view->n_nic + 1, sizeof **sim->nic_busy);
        sim->up_busy[i] = zep_calloc((size_t)view->n_up + 1, sizeof **sim->up_busy);
        if (!sim->port_busy[i] || !sim->nic_busy[i] || !sim->up_busy[i])
            goto nomem;
    }
    if (!sim->dev_busy || !sim->dev_mem)
        goto nomem;
    *out = sim;
    return ZEP_OK;
nomem:
    zep_sim_free(sim);
    return zep_error_nomem(err, "simulation");
}

/* Links in the order of sim_pass.res. */
static void add_busy(const struct sim_pass *p, struct zep_sim *sim)
{
    const struct sim_res *res = p->res;

    for (int way = 0; way < 2; way++)
        for (int i = 0; i < p->view->n_dev; i++)
            sim->port_busy[way][i] += res++->busy_s;
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < p->view->n_nic; i++)
            sim->nic_busy[way][i] += res++->busy_s;
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < p->view->n_up; i++)
            sim->up_busy[way][i] += res++->busy_s;
}

/* Gradients cross between nodes, whatever the plan does. */
static int need_links(const struct zep_view *v, struct zep_error *err)
{
    for (int n = 0; n < v->n_node && v->n_node > 1; n++) {
        double sum = 0;

        for (int c = v->node_nic0[n]; c < v->node_nic0[n + 1]; c++)
            sum += v->nic_bw[c];
        if (sum <= 0)
            return sim_no_link(v, n, -1, err);
    }
    return ZEP_OK;
}

int zep_simulate(const struct zep_plan *plan, const struct zep_view *view, const struct zep_cost *cost, const struct zep_sim_opts *opts, struct zep_sim **sim_out, struct zep_error *err)
{
    struct zep_sim *sim = NULL;
    double link[2] = {0, 0}, *buf = NULL;
    int rc;

    if (plan->n_dev != view->n_dev || plan->tp != cost->tp)
        return zep_error_set(err, ZEP_EINVAL, "the plan is for %d devices of %d ranks, the cluster has %d and the costs are of %d", plan->n_dev, plan->tp, view->n_dev, cost->tp);
    if (!plan->n_token)
        return zep_error_set(err, ZEP_EINVAL, "the plan has no tokens: nothing to simulate");
    if ((rc = need_links(view, err)) < 0 || (rc = alloc_sim(view, &sim, err)) < 0)
        return rc;
    if (!(buf = zep_calloc((size_t)plan->n_dev, sizeof *buf))) {
        rc = zep_error_nomem(err, "simulation");
        goto err_sim;
    }
    for (int pass = 0; pass < 2; pass++) {
        struct sim_pass p = {.plan = plan, .view = view, .cost = cost, .pass = (enum zep_pass)pass, .err = err};

        if ((rc = sim_load(&p)) == ZEP_OK && (rc = sim_run(&p, opts, &sim->pass[pass], sim->dev_busy)) == ZEP_OK) {
            add_busy(&p, sim);
            for (int d = 0; d < plan->n_dev; d++)
                buf[d] = max2(buf[d], p.buf_bytes[d]);
            link[pass] = link_busy(&p, &sim->pass[pass]);
            if (pass) {
                compose(&p, link, sim);
                memory(&p, buf, sim);
            }
        }
        sim_unload(&p);
        if (rc < 0)
            goto err_sim;
    }
    sim->bound_s = cost->model.n_layer * (sim->pass[0].compute_even_s + sim->pass[1].compute_even_s);
    free(buf);
    *sim_out = sim;
    return ZEP_OK;
err_sim:
    free(buf);
    zep_sim_free(sim);
    return rc;
}

/* --- the critical path --- */

int zep_sim_critical(const struct zep_sim_pass *pass, int32_t **span_out, int *n_out, struct zep_error *err)
{
    int32_t *list, last = -1;
    int n = 0;

    for (int i = 0; i < pass->n_span; i++)
        if (last < 0 || pass->span[i].t1 > pass->span[last].t1)
            last = i;
    for (int32_t i = last; i >= 0; i = pass->span[i].pred)
        n++;
    if (!(list = zep_calloc((size_t)n + 1, sizeof *list)))
        return zep_error_nomem(err, "critical path");
    *n_out = n;
    for (int32_t i = last; i >= 0; i = pass->span[i].pred)
        list[--n] = i;
    *span_out = list;
    return ZEP_OK;
}

int zep_sim_critical_text(const struct zep_sim_pass *pass, struct zep_buf *out, struct zep_error *err)
{
    static const char *const what[] = {"linear modules", "attention", "adding gradients", "copying", "transfers inside nodes", "transfers between nodes"};
    double share[ZEP_N_SPAN_KIND] = {0}, total = 0, at = 0;
    int32_t *list;
    int n, n_dev = 0, prev = -1, first = 1, rc;

    if ((rc = zep_sim_critical(pass, &list, &n, err)) < 0)
        return rc;
    for (int i = 0; i < n; i++) {
        const struct zep_sim_span *s = &pass->span[list[i]];

        share[s->kind] += s->t1 - max2(at, s->t0);
        at = s->t1;
        n_dev += s->dev != prev;
        prev = s->dev;
    }
    total = at;
    zep_buf_printf(out, "%d operations over %d device%s:", n, n_dev, n_dev == 1 ? "" : "s");
    for (int done = 0; done < ZEP_N_SPAN_KIND; done++) {
        int best = 0;

        for (int k = 1; k < ZEP_N_SPAN_KIND; k++)
            if (share[k] > share[best])
                best = k;
        if (share[best] <= 0)
            break;
        zep_buf_printf(out, "%s %.1f %% %s", first ? "" : ",", 100 * share[best] / total, what[best]);
        share[best] = 0;
        first = 0;
    }
    free(list);
    return zep_buf_ok(out, err);
}
