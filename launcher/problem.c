#include "config.h"
#include "launcher/problem.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/arena.h"
#include "common/log.h"
#include "common/units.h"

static int number(const char *name, const char *value, int64_t min, int64_t max, int is_count, int64_t *out, struct zep_error *err)
{
    int64_t v;

    if (!is_count) {
        if (zep_parse_int(value, min, max, &v, err) < 0)
            return zep_error_prefix(err, "%s", name);
    } else {
        if (zep_parse_count(value, &v, err) < 0)
            return zep_error_prefix(err, "%s", name);
        if (v < min || v > max)
            return zep_error_set(err, ZEP_EINVAL, "%s: '%s': expected %" PRId64 " to %" PRId64 " tokens", name, value, min, max);
    }
    *out = v;
    return 1;
}

int zep_problem_option(struct zep_problem_args *a, int option, const char *value, struct zep_error *err)
{
    if (zep_inputs_topo_option(&a->topo, option, value))
        return 1;
    switch (option) {
    case ZEP_OPT_NODES:
        return number("--nodes", value, 1, 65536, 0, &a->nodes, err);
    case ZEP_OPT_DEVICES:
        return number("--devices", value, 1, 4096, 0, &a->devices, err);
    case ZEP_OPT_TP:
        return number("--tp", value, 1, 1024, 0, &a->tp, err);
    case ZEP_OPT_SEED:
        return number("--seed", value, 0, INT64_MAX, 0, &a->seed, err);
    case ZEP_OPT_STEP:
        return number("--step", value, 0, (int64_t)1 << 40, 0, &a->step, err);
    case ZEP_OPT_TOKENS:
        return number("--tokens", value, 1, (int64_t)1 << 40, 1, &a->tokens, err);
    case ZEP_OPT_CONTEXT:
        return number("--context", value, 1, (int64_t)1 << 40, 1, &a->context, err);
    case ZEP_OPT_LENGTHS:
        a->lengths = value;
        return 1;
    case ZEP_OPT_DIST:
        a->dist = value;
        return 1;
    case ZEP_OPT_DATA:
        a->data = value;
        return 1;
    default:
        return 0;
    }
}

const char *zep_problem_complaint(const struct zep_problem_args *a)
{
    int n = !!a->lengths + !!a->dist + !!a->data;

    if (n != 1)
        return n ? "more than one workload" : "no workload: expected --lengths, --dist or --data";
    if (a->data && !a->tokens)
        return "--data needs --tokens, the tokens of a step";
    if (!a->tokens && (a->seed || a->step))
        return "--seed and --step say which batch of an epoch it is: they need --tokens, the tokens of a step (a distribution has its own seed: NAME:tokens=N,seed=N)";
    if (a->topo.n_from < 0)
        return "more sources of the cluster than can be merged (16)";
    return NULL;
}

/* --- documents --- */

int zep_problem_is_epoch(const struct zep_problem_args *a)
{
    return a->data || a->tokens;
}

/* All lengths of a list or a distribution. */
static int load_list(const struct zep_problem_args *a, struct zep_workload **out, struct zep_error *err)
{
    int rc = a->lengths ? zep_workload_load(a->lengths, out, err) : zep_workload_dist(a->dist, out, err);

    for (int i = 0; rc == ZEP_OK && a->context && i < (*out)->n; i++)
        if ((*out)->len[i] > a->context) {
            rc = zep_error_set(err, ZEP_EINVAL, "%s: sequence %d has %" PRId64 " tokens: expected --context %" PRId64 " at most", a->lengths ? a->lengths : a->dist, i, (*out)->len[i], a->context);
            zep_workload_free(*out);
            *out = NULL;
        }
    return rc;
}

int zep_documents_open(const struct zep_problem_args *a, struct zep_documents *out, struct zep_error *err)
{
    struct zep_documents d = {0};
    int64_t cut;
    int rc;

    if (!a->data) {
        rc = load_list(a, &d.list, err);
    } else if ((rc = zep_dataset_open(a->data, &d.set, err)) == ZEP_OK && a->context && (rc = zep_dataset_limit(d.set, a->context, 1, &cut, err)) < 0) {
        zep_dataset_close(d.set);
    }
    if (rc == ZEP_OK)
        *out = d;
    return rc;
}

void zep_documents_close(struct zep_documents *d)
{
    zep_workload_free(d->list);
    zep_dataset_close(d->set);
    *d = (struct zep_documents){0};
}

int zep_documents_batches(const struct zep_documents *d, const struct zep_problem_args *a, struct zep_batches **out, struct zep_error *err)
{
    int rc = d->set ? zep_batches_new(d->set, a->tokens, (uint64_t)a->seed, out, err) : zep_batches_new_lengths(d->list->len, d->list->n, a->tokens, (uint64_t)a->seed, out, err);

    return rc < 0 ? zep_error_prefix(err, "%s", a->data ? a->data : a->lengths ? a->lengths : a->dist) : rc;
}

int64_t zep_documents_len(const struct zep_documents *d, int32_t doc)
{
    return d->set ? zep_dataset_len(d->set, doc) : d->list->len[doc];
}

/* The batch of a step of the epoch, as the training would take it. */
static int load_batch(const struct zep_problem_args *a, struct zep_workload **out, struct zep_error *err)
{
    struct zep_documents docs = {0};
    struct zep_batches *batches = NULL;
    struct zep_workload *w = NULL;
    const int32_t *doc;
    int n, rc;

    if ((rc = zep_documents_open(a, &docs, err)) < 0 || (rc = zep_documents_batches(&docs, a, &batches, err)) < 0 || (rc = zep_batches_get(batches, a->step, &doc, &n, err)) < 0)
        goto out;
    w = zep_calloc(1, sizeof *w);
    if (!w || !(w->len = zep_calloc((size_t)n + 1, sizeof *w->len))) {
        rc = zep_error_nomem(err, "workload");
        goto out;
    }
    for (; w->n < n; w->n++) {
        w->len[w->n] = zep_documents_len(&docs, doc[w->n]);
        w->n_token += w->len[w->n];
    }
    *out = w;
    w = NULL;
out:
    zep_workload_free(w);
    zep_batches_free(batches);
    zep_documents_close(&docs);
    return rc;
}

int zep_problem_workload(const struct zep_problem_args *a, struct zep_workload **out, struct zep_error *err)
{
    return zep_problem_is_epoch(a) ? load_batch(a, out, err) : load_list(a, out, err);
}

/* --- the cluster --- */

void zep_problem_say_idle(const struct zep_problem_args *a, const struct zep_topo *topo)
{
    int64_t n_node = a->nodes ? a->nodes : topo->n_node, idle = 0, some = 0;

    for (int i = 0; i < n_node && i < topo->n_node && !a->devices; i++) {
        int64_t rest = zep_node_slots(&topo->node[i]) % a->tp;

        idle += rest;
        some += rest > 0;
    }
    if (idle)
        zep_log(ZEP_LOG_WARN, "--tp %" PRId64 " leaves %" PRId64 " GPU%s idle, of %" PRId64 " of %" PRId64 " nodes: it does not divide their number", a->tp, idle, idle == 1 ? "" : "s", some, n_node);
}

int zep_problem_cluster(const struct zep_problem_args *a, struct zep_topo **topo_out, struct zep_view **view_out, struct zep_error *err)
{
    struct zep_topo *topo;
    int rc = zep_inputs_topo(&a->topo, &topo, err);

    if (rc < 0)
        return rc;
    if ((rc = zep_view_new(topo, (int)(a->nodes ? a->nodes : topo->n_node), (int)a->devices, (int)a->tp, view_out, err)) < 0) {
        zep_topo_free(topo);
        return rc;
    }
    zep_problem_say_idle(a, topo);
    *topo_out = topo;
    return ZEP_OK;
}

int zep_problem_costs(const char *model_name, const char *device, const struct zep_topo *topo, const struct zep_view *view, int tp, struct zep_cost *cost_out, struct zep_error *err)
{
    struct zep_model_desc model;
    struct zep_engine engine;
    int rc;

    if ((rc = zep_model_load(model_name, &model, err)) < 0)
        return rc;
    if ((rc = device ? zep_engine_load(device, &engine, err) : zep_engine_of_topo(topo, &engine, err)) < 0)
        return rc;
    zep_log(ZEP_LOG_INFO, "model %s (%s)", model.name, model.source);
    if (engine.calibrated)
        zep_log(ZEP_LOG_INFO, "device %s (%s)", engine.name, engine.source);
    else
        zep_log(ZEP_LOG_WARN, "device %s, not calibrated here: its numbers are of data sheets and papers (zeppelin sim --list-devices; zeppelin calibrate measures)", engine.name);
    return zep_cost_make(&model, &engine, tp, view->dev_bw[0] / tp, cost_out, err);
}

int zep_problem_speeds(const char *device, const struct zep_topo *topo, const struct zep_cost *cost, int quiet, struct zep_view *view, struct zep_error *err)
{
    struct zep_buf words = ZEP_BUF_INIT;
    int known, rc = zep_view_set_speeds(view, topo, &cost->engine, cost->tp, !device, &words, err);

    if (rc == ZEP_OK && !quiet && words.len)
        zep_log(ZEP_LOG_INFO, "not all alike: %s", words.data);
    zep_buf_free(&words);
    if (rc == ZEP_OK && !quiet && zep_view_unknown_links(view, &known))
        zep_log(ZEP_LOG_INFO, "links above leaf switches%s are not modelled: their bandwidth is not known (uplink_bandwidth in topology.yaml, uplink: of --synthetic)", known ? ", some of them," : "");
    return rc;
}

int zep_problem_capacities(const char *device, const struct zep_topo *topo, const struct zep_cost *cost, struct zep_view *view, struct zep_plan_opts *opts, struct zep_capacity *capacity_out, struct zep_error *err)
{
    int rc;

    opts->cost = cost;
    if ((rc = zep_problem_speeds(device, topo, cost, 0, view, err)) < 0 || (rc = zep_capacity_choose(cost, view, 0, opts->capacity_tok, 0, capacity_out, err)) < 0)
        return rc;
    if ((opts->dev_capacity = capacity_out->dev))
        zep_log(ZEP_LOG_INFO, "memory holds %" PRId64 " tokens on the smallest devices, %" PRId64 " on the largest: the smaller ones get no more", capacity_out->least_fit, capacity_out->most_fit);
    return ZEP_OK;
}
