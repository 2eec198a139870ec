#include "config.h"
#include "planner/cost.h"

#include <stdio.h>
#include <string.h>

static double of_max(double a, double b)
{
    return a > b ? a : b;
}

double zep_cost_rect(const struct zep_cost *cost, double n_q, double n_k)
{
    double share = 1;

    if (n_q < 1) {
        share *= n_q;
        n_q = 1;
    }
    if (n_k < 1) {
        share *= n_k;
        n_k = 1;
    }
    return share * (n_q + cost->tile) * (n_k + cost->tile);
}

double zep_cost_tri(const struct zep_cost *cost, double n)
{
    double share = 1;

    if (n < 1) {
        share = n;
        n = 1;
    }
    return share * (n * (n + 1) / 2 + cost->tile * n + cost->tile * cost->tile / 2);
}

static int need(const char *what, const char *of, double value, struct zep_error *err)
{
    return value > 0 ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "%s: %s is %g: expected a number above zero", of, what, value);
}

static int check_model(const struct zep_model_desc *m, int tp, struct zep_error *err)
{
    const struct {
        const char *what;
        int value;
    } all[] = {{"layers", m->n_layer}, {"hidden", m->hidden}, {"heads", m->n_head}, {"kv_heads", m->n_head_kv}, {"head_dim", m->head_dim}, {"ffn", m->ffn}, {"vocab", m->vocab}, {"type_bytes", m->type_bytes}};
    char of[80];
    int rc;

    snprintf(of, sizeof of, "model %s", m->name);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if ((rc = need(all[i].what, of, all[i].value, err)) < 0)
            return rc;
    if (m->n_head % m->n_head_kv)
        return zep_error_set(err, ZEP_EINVAL, "%s: %d heads over %d key-value heads: expected a multiple", of, m->n_head, m->n_head_kv);
    if (m->n_head % tp || m->n_head_kv % tp)
        return zep_error_set(err, ZEP_EINVAL, "%s: %d heads and %d key-value heads do not divide over tensor parallelism of %d", of, m->n_head, m->n_head_kv, tp);
    if (m->n_active > m->n_expert || (m->n_expert > 0 && m->n_active < 1))
        return zep_error_set(err, ZEP_EINVAL, "%s: a token takes %d of %d experts", of, m->n_active, m->n_expert);
    return ZEP_OK;
}

static int check_engine(const struct zep_engine *e, struct zep_error *err)
{
    const struct {
        const char *what;
        double value;
    } all[] = {{"flops", e->flops}, {"attention_forward", e->attn_fwd}, {"attention_backward", e->attn_bwd}, {"linear", e->linear}, {"memory", e->mem_bytes}, {"memory_bandwidth", e->mem_bw}};
    char of[80];
    int rc;

    snprintf(of, sizeof of, "device %s", e->name);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if ((rc = need(all[i].what, of, all[i].value, err)) < 0)
            return rc;
    return ZEP_OK;
}

int zep_cost_make(const struct zep_model_desc *model, const struct zep_engine *engine, int tp, double port_bw, struct zep_cost *cost_out, struct zep_error *err)
{
    double h = model->hidden, q = (double)model->n_head * model->head_dim, kv = (double)model->n_head_kv * model->head_dim, f = model->ffn, e = engine->type_bytes ? engine->type_bytes : model->type_bytes;
    double experts = model->n_expert ? model->n_expert : 1, active = model->n_expert ? model->n_active : 1, router = model->n_expert > 1 ? h * model->n_expert : 0;
    double linear = 2 * (2 * h * q + 2 * h * kv + 3 * active * h * f + router), flops = engine->flops * tp, port = port_bw > 0 ? port_bw : engine->port_bw;
    struct zep_cost c = {.model = *model, .engine = *engine, .tp = tp};
    int rc;

    if (tp < 1)
        return zep_error_set(err, ZEP_EINVAL, "tensor parallelism of %d: expected at least 1", tp);
    if ((rc = check_model(model, tp, err)) < 0 || (rc = check_engine(engine, err)) < 0)
        return rc;
    if (tp > 1 && port <= 0)
        return zep_error_set(err, ZEP_EINVAL, "tensor parallelism of %d: the bandwidth between the devices of a node is not known: the topology or the device file must say it", tp);
    c.attn_fwd_s = 4 * q / (flops * engine->attn_fwd);
    c.attn_bwd_s = 10 * q / (flops * engine->attn_bwd);
    c.linear_fwd_s = linear / (flops * engine->linear);
    c.linear_bwd_s = 2 * c.linear_fwd_s;
    if (tp > 1)
        c.tp_fwd_s = c.tp_bwd_s = 2 * (2.0 * (tp - 1) / tp) * h * e / port;
    c.head_fwd_s = 2 * h * model->vocab / (flops * engine->linear);
    c.head_bwd_s = 2 * c.head_fwd_s;
    c.tile = engine->tile;
    c.launch_s = engine->launch_s;
    c.mem_bw = engine->mem_bw * tp;
    c.q_row = q * e;
    c.kv_row = 2 * kv * e;
    c.dkv_row = 2 * kv * 4;
    c.layer_params = 2 * h * q + 2 * h * kv + 3 * experts * h * f + router + 2 * h;
    c.other_params = h * model->vocab * (model->tied ? 1 : 2) + h;
    c.grad_bytes = c.param_bytes = e;
    c.state_bytes = e + 4; /* weights; gradients summed in fp32 */
    c.optim_bytes = e < 4 ? 12 : 8; /* two moments, and fp32 weights where the model's are not */
    c.model.type_bytes = (int)e;
    c.token_bytes = e * (4 * h + 2 * q + 2 * kv + 3 * active * f) + 4.0 * model->n_head; /* inputs of both norms and of both products behind them; q, o; k, v; gate, up and their product; log-sum-exp */
    c.mem_bytes = engine->mem_bytes * tp;
    *cost_out = c;
    return ZEP_OK;
}

void zep_cost_recompute(struct zep_cost *c)
{
    double e = c->model.type_bytes, all = c->token_bytes;

    c->linear_bwd_s += c->linear_fwd_s;
    c->tp_bwd_s += c->tp_fwd_s;
    c->token_bytes = e * c->model.hidden + 2 * c->q_row + c->kv_row + 4.0 * c->model.n_head + all / c->model.n_layer; /* the layer's input; q, o; k, v; log-sum-exp; one layer's all at a time */
}

int64_t zep_cost_fit(const struct zep_cost *cost, double mem_bytes, int n_dp)
{
    double params = cost->model.n_layer * cost->layer_params + cost->other_params, left = 0.94 * mem_bytes - params * (cost->state_bytes + cost->optim_bytes / of_max(n_dp, 1)); /* 6 % for the context, the library, and what is between allocations */
    double layer = 2 * cost->q_row + cost->dkv_row + 4 * cost->kv_row + 5 * cost->dkv_row; /* dO, dQ, dK and dV; a double ring's slots of keys and values, of their gradients, and its scratch */

    return left > 0 ? (int64_t)(left / (cost->token_bytes * cost->model.n_layer + layer)) : 0;
}

int64_t zep_cost_fit_tokens(const struct zep_cost *cost, int n_dp)
{
    return zep_cost_fit(cost, cost->mem_bytes, n_dp);
}
