#include "config.h"
#include "launcher/advise.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const limit_names[] = {"computing", "network", "node", "packing", "longest document", "memory"};

static const struct zep_advice_setting *best_setting(const struct zep_advice *v)
{
    return &v->setting[v->best];
}

static const struct zep_advice_cell *best_cell(const struct zep_advice *v)
{
    return &v->setting[v->best].cell[v->best_method];
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* Node-hours for 10^9 tokens. */
static double node_hours(const struct zep_advice_cell *c)
{
    return c->node_s_token * 1e9 / 3600;
}

static double tokens_s_dev(const struct zep_advice *v, const struct zep_advice_setting *s, const struct zep_advice_cell *c)
{
    return (double)v->n_token / (c->mean_step_s * v->n_batch * s->n_dev * v->ground.cost.tp);
}

/* --- documents --- */

struct lengths {
    int64_t n, longest, median;
    double mean;
    double above[5]; /* share of the tokens in documents longer than marks[] */
};

static const int64_t marks[5] = {4096, 8192, 32768, 65536, 131072};

static int by_len(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static int measure(const struct zep_advice *v, struct lengths *out, struct zep_error *err)
{
    struct lengths l = {0};
    int64_t *len, at = 0;

    for (int k = 0; k < v->n_batch; k++)
        l.n += v->batch[k]->n;
    if (!(len = malloc((size_t)l.n * sizeof *len)))
        return zep_error_nomem(err, "lengths");
    for (int k = 0; k < v->n_batch; k++)
        for (int i = 0; i < v->batch[k]->n; i++) {
            int64_t n = v->batch[k]->len[i];

            for (int m = 0; m < 5; m++)
                l.above[m] += n > marks[m] ? (double)n / (double)v->n_token : 0;
            len[at++] = n;
        }
    qsort(len, (size_t)l.n, sizeof *len, by_len);
    l.longest = len[l.n - 1];
    l.median = len[l.n / 2];
    l.mean = (double)v->n_token / (double)l.n;
    free(len);
    *out = l;
    return ZEP_OK;
}

static void put_documents(const struct zep_advice *v, const struct zep_predict_args *a, const struct lengths *l, struct zep_buf *b)
{
    int first = 1;

    zep_buf_printf(b, "%d batch%s of %s: %.0f tokens on average, %" PRId64 " at most, %" PRId64 " document%s\n", v->n_batch, v->n_batch == 1 ? "" : "es", a->problem.data ? a->problem.data : a->problem.dist ? a->problem.dist : a->problem.lengths,
                   (double)v->n_token / v->n_batch, v->max_token, l->n, plural(l->n));
    zep_buf_printf(b, "documents: median %" PRId64 " tokens, mean %.0f, longest %" PRId64 "; ", l->median, l->mean, l->longest);
    for (int m = 0; m < 5 && l->above[m] > 0; m++) {
        zep_buf_printf(b, first ? "of the tokens, %.0f %% are in documents above %" PRId64 "k" : ", %.0f %% above %" PRId64 "k", 100 * l->above[m], marks[m] / 1024);
        first = 0;
    }
    zep_buf_puts(b, first ? "none above 4k\n" : "\n");
}

/* --- gains --- */

static void put_gain(const struct zep_advice *v, int m, const char *who, struct zep_buf *b)
{
    const char *name = v->method[m];
    struct zep_gain g;

    if (m == v->best_method) {
        zep_buf_printf(b, "  over %s%s: it is the recommendation itself; there is nothing to gain over it\n", name, who);
        return;
    }
    if (!zep_advice_gain(v, m, &g)) {
        const struct zep_advice_cell *c = &best_setting(v)->cell[m];

        zep_buf_printf(b, "  over %s%s: it cannot serve these batches on so many nodes: %s\n", name, who, c->why);
        return;
    }
    zep_buf_printf(b, "  over %s%s: %.2f x", name, who, g.mean);
    if (v->n_batch > 1)
        zep_buf_printf(b, " on average, %.2f to %.2f", g.least, g.most);
    zep_buf_printf(b, ", at its best capacity of %" PRId64 "\n", v->setting[zep_advice_find(v, best_setting(v)->n_node, m)].capacity);
    if (g.mean < ZEP_ADVISE_NIL)
        zep_buf_printf(b, "    that is nil: %.1f %%, and predictions cannot tell apart what is below 3 %%; %s, the simpler method, will do\n", 100 * (g.mean - 1), name);
}

static int simple(const struct zep_advice *v, int i)
{
    static const char *const names[] = {"static-cp", "te-cp"};

    return i < 2 ? zep_advice_method(v, names[i]) : zep_advice_rival(v);
}

static const char *who_uses(int i)
{
    static const char *const texts[] = {" (what people use today)", " (one ring over all devices)", " (the best rival)"};

    return texts[i];
}

/* The methods to compare with, each once; -1: it is another one's, or is not compared. */
static int compared(const struct zep_advice *v, int i)
{
    int m = simple(v, i);

    for (int k = 0; k < i; k++)
        if (simple(v, k) == m)
            return -1;
    return m;
}

/* Who measures what: which of the two a user of today's trainers has, and that te-cp's gain is predicted too high. */
static void put_caveat(const struct zep_advice *v, struct zep_buf *b)
{
    int group = zep_advice_method(v, "static-cp"), ring = zep_advice_method(v, "te-cp");
    struct zep_gain g;

    if (group >= 0 && group != v->best_method && zep_advice_gain(v, group, &g))
        zep_buf_printf(b, "  Transformer Engine or Megatron-LM with a context-parallel group smaller than all devices is static-cp: %.2f x; with one of all devices, te-cp\n", g.mean);
    if (ring >= 0 && ring != v->best_method && zep_advice_gain(v, ring, &g))
        zep_buf_puts(b, "  measured gains over te-cp are smaller than predicted ones: 2.80 x on average, 6.60 x at most, in the paper (zeppelin-advise(1), HOW FAR TO TRUST IT)\n");
}

static void put_gains(const struct zep_advice *v, struct zep_buf *b)
{
    int rival = zep_advice_rival(v);

    zep_buf_printf(b, "\nexpected gain of %s with %d node%s\n", v->method[v->best_method], best_setting(v)->n_node, plural(best_setting(v)->n_node));
    for (int i = 0; i < 3; i++)
        if (compared(v, i) >= 0)
            put_gain(v, compared(v, i), rival >= 0 && i < 2 && rival == simple(v, i) ? (i ? " (the best rival)" : " (what people use today, and the best rival)") : who_uses(i), b);
    put_caveat(v, b);
}

/* --- what is the limit --- */

static void put_limit(const struct zep_advice *v, const struct lengths *l, struct zep_buf *b)
{
    const struct zep_advice_cell *c = best_cell(v);
    double sum = 0;

    for (int p = 0; p < ZEP_N_LIMIT_PART; p++)
        sum += c->part_s[p];
    zep_buf_printf(b, "\na step: computing %.0f %%; devices stand still for transfers between nodes %.0f %%, inside nodes %.0f %%, for uneven shares %.0f %%\n", 100 * c->part_s[ZEP_LIMIT_COMPUTE] / sum, 100 * c->part_s[ZEP_LIMIT_NET] / sum,
                   100 * c->part_s[ZEP_LIMIT_NODE] / sum, 100 * c->part_s[ZEP_LIMIT_UNEVEN] / sum);
    zep_buf_puts(b, "the limit is ");
    switch (v->limit) {
    case ZEP_LIMIT_COMPUTE:
        zep_buf_puts(b, "computing\n");
        break;
    case ZEP_LIMIT_NET:
        zep_buf_puts(b, "the NICs: fewer nodes, faster NICs or more tokens a step make it less\n");
        break;
    case ZEP_LIMIT_NODE:
        zep_buf_puts(b, "the links inside the nodes (NVLink, ports)\n");
        break;
    case ZEP_LIMIT_MEMORY:
        zep_buf_printf(b, "memory: %" PRId64 " tokens a device are all that it holds, and documents need room; --recompute, more nodes or tensor parallelism give some\n", best_setting(v)->capacity);
        break;
    case ZEP_LIMIT_LONGEST:
        zep_buf_printf(b, "the longest document (%" PRId64 " tokens): a large part of its batch's attention is its own\n", l->longest);
        break;
    default:
        zep_buf_puts(b, "packing: documents do not divide evenly over the devices; more tokens a step make it less\n");
        break;
    }
    if (v->nic_gain < 0.0005)
        zep_buf_puts(b, "NICs of twice the bandwidth would make the steps no shorter\n");
    else if (!isnan(v->nic_gain))
        zep_buf_printf(b, "NICs of twice the bandwidth would make the steps %.1f %% shorter, planned anew (zeppelin explain asks the same of other changes)\n", 100 * v->nic_gain);
}

/* --- all in words --- */

static int fastest_method(const struct zep_advice *v, int n_node)
{
    int best = -1;

    for (int m = 0; m < v->n_method; m++) {
        int i = zep_advice_find(v, n_node, m);

        if (i >= 0 && (best < 0 || v->setting[i].cell[m].mean_step_s < v->setting[zep_advice_find(v, n_node, best)].cell[best].mean_step_s))
            best = m;
    }
    return best;
}

static void put_line(const struct zep_advice *v, int i, int m, struct zep_buf *b)
{
    const struct zep_advice_setting *s = &v->setting[i];
    const struct zep_advice_cell *c = &s->cell[m];

    zep_buf_printf(b, "%5d  %-16s %9" PRId64 " %6.2f %8.1fms %12.0f %14.2f", s->n_node, v->method[m], s->capacity, s->slack, 1e3 * c->mean_step_s, tokens_s_dev(v, s, c), node_hours(c));
    if (s->n_micro > 1)
        zep_buf_printf(b, "  up to %d micro-steps", s->n_micro);
    zep_buf_puts(b, "\n");
}

/* The best of each number of nodes; of the recommended one, all methods. */
static void put_table(const struct zep_advice *v, struct zep_buf *b)
{
    int last = 0, n_node = best_setting(v)->n_node;

    zep_buf_printf(b, "\n%5s  %-16s %9s %6s %10s %12s %14s\n", "nodes", "method", "capacity", "slack", "step", "tokens/s/dev", "node-hours/1e9");
    for (int i = 0; i < v->n_setting; i++) {
        int m;

        if (v->setting[i].n_node == last)
            continue;
        last = v->setting[i].n_node;
        if ((m = fastest_method(v, last)) >= 0)
            put_line(v, zep_advice_find(v, last, m), m, b);
        else
            zep_buf_printf(b, "%5d  %s\n", last, *v->setting[i].why ? v->setting[i].why : v->setting[i].cell[0].why);
    }
    for (int m = 0; m < v->n_method; m++) {
        int i = zep_advice_find(v, n_node, m);

        if (m == v->best_method)
            continue;
        if (i >= 0)
            put_line(v, i, m, b);
        else
            zep_buf_printf(b, "%5d  %s\n", n_node, best_setting(v)->cell[m].why);
    }
}

/* The nodes that the recommendation leaves idle: what they would bring, and cost. */
static void put_idle(const struct zep_advice *v, struct zep_buf *b)
{
    const struct zep_advice_cell *c = best_cell(v), *all;
    int n_node = v->setting[0].n_node, m = fastest_method(v, n_node);

    if (n_node == best_setting(v)->n_node || m < 0)
        return;
    all = &v->setting[zep_advice_find(v, n_node, m)].cell[m];
    zep_buf_printf(b, "  all %d nodes (%s) would be %.2f x as fast and cost %.2f x as many node-hours a token\n", n_node, v->method[m], c->mean_step_s / all->mean_step_s, all->node_s_token / c->node_s_token);
}

int zep_advice_to_text(const struct zep_advice *v, const struct zep_predict_args *a, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_advice_setting *s = best_setting(v);
    const struct zep_advice_cell *c = best_cell(v);
    struct lengths l;
    struct zep_gain g;
    double gb = 1e9 * v->ground.cost.tp;
    int rc = measure(v, &l, err), today = zep_advice_method(v, "static-cp");

    if (rc < 0)
        return rc;
    put_documents(v, a, &l, b);
    zep_buf_printf(b, "\nrecommended: method %s, capacity %" PRId64 " tokens a device (%.2f x the average%s), %d node%s with %d devices\n", v->method[v->best_method], s->capacity, s->slack, s->is_memory ? ", what memory holds" : "", s->n_node,
                   plural(s->n_node), s->n_dev);
    zep_buf_printf(b, "  step %.1f ms, %.0f tokens/s/device, %.2f node-hours for 1e9 tokens, %.1f of %.1f GB a %s\n", 1e3 * c->mean_step_s, tokens_s_dev(v, s, c), node_hours(c), c->mem_bytes / gb, c->mem_limit / gb,
                   v->ground.cost.tp > 1 ? "GPU" : "device");
    if (s->n_micro > 1)
        zep_buf_printf(b, "  memory does not hold a step: it takes up to %d micro-steps, predicted from the first of each\n", s->n_micro);
    if (s->is_fast)
        zep_buf_printf(b, "  leave out the slow nodes: %s\n", v->slow);
    put_idle(v, b);
    put_gains(v, b);
    put_limit(v, &l, b);
    put_table(v, b);
    zep_buf_printf(b, "\nin the job file:\n    cluster: {nodes: %d", s->n_node);
    if (a->problem.devices)
        zep_buf_printf(b, ", devices: %" PRId64, a->problem.devices);
    if (a->problem.tp > 1)
        zep_buf_printf(b, ", tp: %" PRId64, a->problem.tp);
    zep_buf_printf(b, "}\n    plan: {method: %s, capacity: %" PRId64 ", device: %s}\n", v->method[v->best_method], s->capacity, a->device ? a->device : v->ground.cost.engine.name);
    if (today >= 0 && today != v->best_method && zep_advice_gain(v, today, &g) && g.mean < ZEP_ADVISE_NIL)
        zep_buf_printf(b, "    # plan: {method: %s, capacity: %" PRId64 ", device: %s} is as good\n", v->method[today], v->setting[zep_advice_find(v, s->n_node, today)].capacity,
                       a->device ? a->device : v->ground.cost.engine.name);
    zep_buf_printf(b, "\nAll of this is predicted, for %s with the numbers of device %s, which are %s.\n", v->ground.cost.model.name, v->ground.cost.engine.name,
                   v->ground.cost.engine.calibrated ? "measured (calibrated)" : "not calibrated here: taken from data sheets and papers");
    return zep_buf_ok(b, err);
}

/* --- JSON --- */

static json_t *setting_json(const struct zep_advice *v, const struct zep_advice_setting *s)
{
    json_t *o = json_pack("{s:i, s:i}", "nodes", s->n_node, "devices", s->n_dev), *methods;

    if (*s->why) {
        json_object_set_new(o, "error", json_string(s->why));
        return o;
    }
    json_object_set_new(o, "capacity", json_integer((json_int_t)s->capacity));
    json_object_set_new(o, "slack", json_real(s->slack));
    if (s->n_micro > 1)
        json_object_set_new(o, "micro_steps", json_integer(s->n_micro));
    json_object_set_new(o, "all_memory", json_boolean(s->is_memory));
    json_object_set_new(o, "methods", methods = json_array());
    for (int m = 0; m < v->n_method; m++) {
        const struct zep_advice_cell *c = &s->cell[m];
        json_t *row = json_pack("{s:s}", "method", v->method[m]), *steps;

        json_array_append_new(methods, row);
        if (!(c->mean_step_s > 0)) {
            json_object_set_new(row, "error", json_string(c->why));
            continue;
        }
        json_object_update_new(row, json_pack("{s:f, s:f, s:f}", "mean_step_s", c->mean_step_s, "node_s_token", c->node_s_token, "memory_bytes", c->mem_bytes));
        json_object_set_new(row, "step_s", steps = json_array());
        for (int k = 0; k < v->n_batch; k++)
            json_array_append_new(steps, json_real(c->step_s[k]));
    }
    return o;
}

static json_t *gain_json(const struct zep_advice *v, int m)
{
    json_t *o = json_pack("{s:s}", "over", v->method[m]);
    struct zep_gain g;

    if (!zep_advice_gain(v, m, &g)) {
        json_object_set_new(o, "error", json_string(best_setting(v)->cell[m].why));
        return o;
    }
    json_object_update_new(o, json_pack("{s:I, s:f, s:f, s:f, s:b}", "capacity", (json_int_t)v->setting[zep_advice_find(v, best_setting(v)->n_node, m)].capacity, "mean", g.mean, "least", g.least, "most", g.most, "nil",
                                        g.mean < ZEP_ADVISE_NIL));
    return o;
}

static json_t *lengths_json(const struct lengths *l)
{
    json_t *o = json_pack("{s:I, s:I, s:f, s:I, s:[]}", "documents", (json_int_t)l->n, "median", (json_int_t)l->median, "mean", l->mean, "longest", (json_int_t)l->longest, "shares_above");

    for (int m = 0; m < 5; m++)
        json_array_append_new(json_object_get(o, "shares_above"), json_pack("{s:I, s:f}", "tokens", (json_int_t)marks[m], "share", l->above[m]));
    return o;
}

int zep_advice_to_json(const struct zep_advice *v, struct zep_buf *b, struct zep_error *err)
{
    const struct zep_advice_setting *s = best_setting(v);
    const struct zep_advice_cell *c = best_cell(v);
    const struct zep_cost *k = &v->ground.cost;
    struct lengths l;
    int rc = measure(v, &l, err);
    json_t *root;
    char *text;

    if (rc < 0)
        return rc;
    root = json_pack("{s:s, s:s, s:s, s:b, s:[], s:o, s:[], s:[]}", "format", "zeppelin-advice/1.0", "model", k->model.name, "device", k->engine.name, "calibrated", k->engine.calibrated, "batch_tokens", "lengths", lengths_json(&l), "settings",
                     "gains");
    for (int i = 0; i < v->n_batch; i++)
        json_array_append_new(json_object_get(root, "batch_tokens"), json_integer((json_int_t)v->batch[i]->n_token));
    for (int i = 0; i < v->n_setting; i++)
        json_array_append_new(json_object_get(root, "settings"), setting_json(v, &v->setting[i]));
    for (int i = 0; i < 3; i++)
        if (compared(v, i) >= 0)
            json_array_append_new(json_object_get(root, "gains"), gain_json(v, compared(v, i)));
    json_object_set_new(root, "recommended", json_pack("{s:s, s:I, s:i, s:f, s:f, s:f}", "method", v->method[v->best_method], "capacity", (json_int_t)s->capacity, "nodes", s->n_node, "mean_step_s", c->mean_step_s, "node_s_token",
                                                       c->node_s_token, "tokens_s_device", tokens_s_dev(v, s, c)));
    json_object_set_new(root, "limit", json_pack("{s:s, s:f, s:f, s:f, s:f}", "what", limit_names[v->limit], "computing_s", c->part_s[ZEP_LIMIT_COMPUTE] / v->n_batch, "network_s", c->part_s[ZEP_LIMIT_NET] / v->n_batch, "node_s",
                                                 c->part_s[ZEP_LIMIT_NODE] / v->n_batch, "uneven_s", c->part_s[ZEP_LIMIT_UNEVEN] / v->n_batch));
    if (!isnan(v->nic_gain))
        json_object_set_new(root, "nics_twice_shorter", json_real(v->nic_gain));
    if (s->is_fast)
        json_object_set_new(json_object_get(root, "recommended"), "without", json_string(v->slow));
    json_object_set_new(root, "job", json_pack("{s:i, s:s, s:I}", "cluster.nodes", s->n_node, "plan.method", v->method[v->best_method], "plan.capacity", (json_int_t)s->capacity));
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return zep_error_nomem(err, "advice");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}
