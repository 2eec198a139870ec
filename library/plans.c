#include "config.h"
#include "library/library_internal.h"

#include <stdlib.h>
#include <string.h>

#include "planner/export.h"
#include "planner/sim.h"

const char *zep_method_name(int i)
{
    const struct zep_method *const *m = zep_methods();

    for (int k = 0; k <= i; k++)
        if (!m[k])
            return NULL;
    return i < 0 ? NULL : m[i]->name;
}

const char *zep_model_name(int i)
{
    int n;
    const struct zep_model_desc *m = zep_model_presets(&n);

    return i < 0 || i >= n ? NULL : m[i].name;
}

const char *zep_device_name(int i)
{
    int n;
    const struct zep_engine *e = zep_engine_presets(&n);

    return i < 0 || i >= n ? NULL : e[i].name;
}

int zep_plan_make(const struct zep_cluster *c, const int64_t *len, int n, const struct zep_options *o, struct zep_error *err, struct zep_plan **plan_out)
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_cost cost;
    struct zep_capacity k;
    struct zep_view view;
    int rc;

    if (!o->capacity_tok)
        return zep_error_set(err, ZEP_EINVAL, "option capacity is not set: expected the tokens that a device may hold; 1.25 to 1.5 times tokens / devices is a sane choice");
    if (o->device && !o->model)
        return zep_error_set(err, ZEP_EINVAL, "option device needs model: costs are of a model on a kind of device");
    if (n < 0)
        return zep_error_set(err, ZEP_EINVAL, "'%d' sequences: expected 0 or more", n);
    if (o->method)
        opts.method = o->method;
    opts.no_heads = 1; /* zep_plan_export does not know exchanges of heads */
    opts.capacity_tok = o->capacity_tok;
    opts.tp = c->tp;
    opts.routing = o->routing;
    opts.remap = o->remap;
    opts.max_proxies = o->max_proxies;
    if (!o->model)
        return zep_plan_build(c->view, len, n, &opts, plan_out, err);
    if ((rc = library_cost(c, o, &cost, err)) < 0 || (rc = library_view(c, o, &cost, &view, err)) < 0)
        return rc;
    opts.cost = &cost;
    if ((rc = zep_capacity_choose(&cost, &view, 0, o->capacity_tok, 0, &k, err)) == ZEP_OK) {
        opts.dev_capacity = k.dev;
        rc = zep_plan_build(&view, len, n, &opts, plan_out, err);
        free(k.dev);
    }
    library_view_done(&view);
    return rc;
}

int zep_plan_read(const char *name, const char *text, size_t text_size, struct zep_error *err, struct zep_plan **plan_out)
{
    struct zep_plan *plan;
    int rc = zep_plan_from_json(name, text, text_size, &plan, err);

    if (rc == ZEP_OK && plan->unsealed && (rc = zep_plan_prove(plan, err)) < 0) {
        zep_error_prefix(err, "%s", name);
        zep_plan_free(plan);
    }
    if (rc == ZEP_OK)
        *plan_out = plan;
    return rc;
}

int zep_plan_devices(const struct zep_plan *p)
{
    return p->n_dev;
}

int64_t zep_plan_tokens(const struct zep_plan *p)
{
    return p->n_token;
}

const char *zep_plan_method(const struct zep_plan *p)
{
    return p->method;
}

uint64_t zep_plan_digest(const struct zep_plan *p)
{
    return p->digest;
}

int zep_plan_json(const struct zep_plan *p, struct zep_error *err, char **text_out)
{
    struct zep_buf b = ZEP_BUF_INIT;

    return library_text(zep_plan_to_json(p, &b, err), &b, err, text_out);
}

int zep_plan_text(const struct zep_plan *p, struct zep_error *err, char **text_out)
{
    struct zep_buf b = ZEP_BUF_INIT;

    return library_text(zep_plan_to_text(p, &b, err), &b, err, text_out);
}

static int no_device(const struct zep_plan *p, int device, struct zep_error *err)
{
    if (device >= 0 && device < p->n_dev)
        return ZEP_OK;
    return zep_error_set(err, ZEP_EINVAL, "device '%d': the plan has %d, from 0", device, p->n_dev);
}

int64_t zep_plan_rows(const struct zep_plan *p, int device, int linear)
{
    if (no_device(p, device, NULL) < 0)
        return -1;
    return linear ? p->lin_tok[device] : p->attn_tok[device];
}

int zep_plan_layout(const struct zep_plan *p, int device, int linear, struct zep_error *err, int64_t *token_out, int64_t *position_out, int64_t *sequence_out)
{
    int rc = no_device(p, device, err);

    if (rc < 0)
        return rc;
    return zep_plan_layout_tokens(p, device, linear ? ZEP_LAYOUT_LINEAR : ZEP_LAYOUT_ATTENTION, token_out, position_out, sequence_out, err);
}

int zep_plan_rank_json(const struct zep_plan *p, int device, struct zep_error *err, char **text_out)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = no_device(p, device, err);

    return library_text(rc < 0 ? rc : zep_plan_to_rank_json(p, device, &b, err), &b, err, text_out);
}

int zep_plan_export(const struct zep_plan *p, const char *folder, struct zep_error *err)
{
    return zep_plan_export_ranks(p, folder, err);
}

/* --- simulation --- */

int zep_plan_simulate(const struct zep_plan *p, const struct zep_cluster *c, const struct zep_options *o, struct zep_error *err, struct zep_sim **sim_out)
{
    struct zep_cost cost;
    struct zep_view view;
    int rc;

    if (!o->model)
        return zep_error_set(err, ZEP_EINVAL, "option model is not set: expected the model that is trained, a name or a file");
    if (p->n_dev != c->view->n_dev || p->tp != c->tp || memcmp(p->dev_node, c->view->dev_node, (size_t)p->n_dev * sizeof *p->dev_node))
        return zep_error_set(err, ZEP_EINVAL, "the plan is for %d devices of %d ranks in %d nodes, the cluster has %d of %d in %d: expected the cluster that was planned for", p->n_dev, p->tp, p->n_node,
                             c->view->n_dev, c->tp, c->view->n_node);
    if ((rc = library_cost(c, o, &cost, err)) < 0 || (rc = library_view(c, o, &cost, &view, err)) < 0)
        return rc;
    rc = zep_simulate(p, &view, &cost, NULL, sim_out, err);
    library_view_done(&view);
    return rc;
}

int zep_sim_value(const struct zep_sim *sim, const char *name, struct zep_error *err, double *value_out)
{
    const struct {
        const char *name;
        double value;
    } table[] = {
        {"step_s", sim->step_s}, {"layers_s", sim->layers_s}, {"head_s", sim->head_s}, {"exchange_s", sim->exchange_s}, {"optimizer_s", sim->optimizer_s},
        {"forward_s", sim->pass[ZEP_PASS_FWD].time_s}, {"backward_s", sim->pass[ZEP_PASS_BWD].time_s}, {"bound_s", sim->bound_s}, {"tokens_s_device", sim->tokens_s_dev}, {"mem_bytes", sim->mem_bytes},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].name)) {
            *value_out = table[i].value;
            return ZEP_OK;
        }
    return zep_error_set(err, ZEP_EINVAL, "'%s': expected step_s, layers_s, head_s, exchange_s, optimizer_s, forward_s, backward_s, bound_s, tokens_s_device or mem_bytes", name);
}
