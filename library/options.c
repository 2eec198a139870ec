#include "config.h"
#include "library/library_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/units.h"

struct zep_options *zep_options_new(void)
{
    struct zep_options *o = zep_calloc(1, sizeof *o);

    if (o)
        o->routing = o->remap = 1;
    return o;
}

void zep_options_free(struct zep_options *o)
{
    if (!o)
        return;
    free(o->method);
    free(o->model);
    free(o->device);
    free(o);
}

static int set_text(char **to, const char *value, struct zep_error *err)
{
    char *copy = strdup(value);

    if (!copy)
        return zep_error_nomem(err, "options");
    free(*to);
    *to = copy;
    return ZEP_OK;
}

static int set_flag(int *to, const char *value, struct zep_error *err)
{
    if (strcmp(value, "yes") && strcmp(value, "no"))
        return zep_error_set(err, ZEP_EINVAL, "'%s': expected yes or no", value);
    *to = !strcmp(value, "yes");
    return ZEP_OK;
}

static int set_capacity(struct zep_options *o, const char *value, struct zep_error *err)
{
    int64_t v;
    int rc = zep_parse_count(value, &v, err);

    if (rc < 0)
        return rc;
    if (v < 1 || v > (int64_t)1 << 40)
        return zep_error_set(err, ZEP_EINVAL, "'%s': expected 1 to %" PRId64 " tokens", value, (int64_t)1 << 40);
    o->capacity_tok = v;
    return ZEP_OK;
}

static int set(struct zep_options *o, const char *name, const char *value, struct zep_error *err)
{
    int64_t v;
    int rc;

    if (!strcmp(name, "capacity"))
        return set_capacity(o, value, err);
    if (!strcmp(name, "method"))
        return set_text(&o->method, value, err);
    if (!strcmp(name, "model"))
        return set_text(&o->model, value, err);
    if (!strcmp(name, "device"))
        return set_text(&o->device, value, err);
    if (!strcmp(name, "routing"))
        return set_flag(&o->routing, value, err);
    if (!strcmp(name, "remap"))
        return set_flag(&o->remap, value, err);
    if ((rc = zep_parse_int(value, 0, 4096, &v, err)) == ZEP_OK)
        o->max_proxies = (int)v;
    return rc;
}

int zep_options_set(struct zep_options *o, const char *name, const char *value, struct zep_error *err)
{
    static const char *const names[] = {"capacity", "method", "model", "device", "routing", "remap", "max_proxies"};
    int rc;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return (rc = set(o, name, value, err)) < 0 ? zep_error_prefix(err, "option %s", name) : ZEP_OK;
    return zep_error_set(err, ZEP_EINVAL, "option '%s': expected capacity, method, model, device, routing, remap or max_proxies", name);
}

int library_cost(const struct zep_cluster *c, const struct zep_options *o, struct zep_cost *cost_out, struct zep_error *err)
{
    struct zep_model_desc model;
    struct zep_engine engine;
    int rc;

    if ((rc = zep_model_load(o->model, &model, err)) < 0 || (rc = o->device ? zep_engine_load(o->device, &engine, err) : zep_engine_of_topo(c->topo, &engine, err)) < 0)
        return rc;
    return zep_cost_make(&model, &engine, c->tp, c->view->n_dev ? c->view->dev_bw[0] / c->tp : 0, cost_out, err);
}

void library_view_done(struct zep_view *view)
{
    free(view->dev_speed);
    free(view->dev_mem);
}

int library_view(const struct zep_cluster *c, const struct zep_options *o, const struct zep_cost *cost, struct zep_view *view_out, struct zep_error *err)
{
    struct zep_view v = *c->view;
    int rc;

    v.dev_speed = zep_calloc((size_t)v.n_dev + 1, sizeof *v.dev_speed);
    v.dev_mem = zep_calloc((size_t)v.n_dev + 1, sizeof *v.dev_mem);
    rc = v.dev_speed && v.dev_mem ? zep_view_set_speeds(&v, c->topo, &cost->engine, c->tp, !o->device, NULL, err) : zep_error_nomem(err, "view of the cluster");
    if (rc < 0)
        library_view_done(&v);
    else
        *view_out = v;
    return rc;
}
