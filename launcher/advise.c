#include "config.h"
#include "launcher/advise.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/log.h"

/* --- batches --- */

static int64_t seed_of(const char *dist)
{
    int64_t seed = 0;

    for (const char *p = dist; (p = strstr(p, "seed=")); p += 5)
        seed = strtoll(p + 5, NULL, 10);
    return seed;
}

/* Batch k: the next step of an epoch, the next seed of a distribution. */
static int load_batch(const struct zep_predict_args *a, int k, struct zep_workload **out, struct zep_error *err)
{
    struct zep_problem_args w = a->problem;
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    w.step += k;
    if (w.dist && k && !w.tokens) {
        zep_buf_printf(&b, "%s,seed=%" PRId64, w.dist, seed_of(w.dist) + k); /* of a key that is said twice, the last holds */
        if ((rc = zep_buf_ok(&b, err)) < 0)
            goto out;
        w.dist = b.data;
    }
    rc = zep_problem_workload(&w, out, err);
out:
    zep_buf_free(&b);
    return rc;
}

static int load_batches(const struct zep_predict_args *a, int n, struct zep_advice *v, struct zep_error *err)
{
    int rc;

    for (; v->n_batch < n; v->n_batch++) {
        struct zep_workload *w;

        if ((rc = load_batch(a, v->n_batch, &w, err)) < 0)
            return rc;
        v->batch[v->n_batch] = w;
        v->n_token += w->n_token;
        v->max_token = w->n_token > v->max_token ? w->n_token : v->max_token;
    }
    return v->max_token ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "the workload has no tokens: nothing to predict");
}

static int set_methods(const struct zep_predict_args *a, struct zep_advice *v, struct zep_error *err)
{
    char *save = NULL;
    int rc;

    if (!a->methods) {
        for (int i = 0; zep_methods()[i] && v->n_method < ZEP_MAX_METHOD; i++)
            if (strcmp(zep_methods()[i]->name, "auto") != 0) /* it would be one of the others */
                v->method[v->n_method++] = zep_methods()[i]->name;
        return ZEP_OK;
    }
    if ((rc = zep_methods_check(a->methods, err)) < 0)
        return rc;
    if (!(v->names = strdup(a->methods)))
        return zep_error_nomem(err, "methods");
    for (char *word = strtok_r(v->names, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        if (v->n_method == ZEP_MAX_METHOD)
            return zep_error_set(err, ZEP_EINVAL, "--methods: more than %d", ZEP_MAX_METHOD);
        v->method[v->n_method++] = word;
    }
    return v->n_method ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "--methods: no name");
}

/* --- settings --- */

static void add_setting(struct zep_advice *v, struct zep_advice_setting s)
{
    for (int i = 0; i < v->n_setting; i++)
        if (v->setting[i].n_node == s.n_node && v->setting[i].capacity == s.capacity)
            return;
    if (v->n_setting < ZEP_ADVISE_SETTINGS)
        v->setting[v->n_setting++] = s;
}

static const struct zep_ground *ground_of(const struct zep_advice *v, int n_node)
{
    return n_node <= v->n_fast ? &v->fast : &v->ground;
}

/* Capacities of so many nodes: 1.25, 1.5 and 2 times the average of the fullest batch, and what memory holds, but no more than a batch. */
static int add_nodes(struct zep_advice *v, const struct zep_predict_args *a, int n_node, struct zep_error *err)
{
    static const double slacks[] = {1.25, 1.5, 2, 0};
    struct zep_setting ask = {.n_node = n_node};
    struct zep_advice_setting s = {.n_node = n_node, .is_fast = n_node <= v->n_fast};
    struct zep_view *view;
    struct zep_capacity k = {0};
    int64_t average = 0;
    int rc = zep_ground_view(ground_of(v, n_node), a, &ask, &view, err);

    if (rc < 0)
        return rc;
    s.n_dev = view->n_dev;
    average = (v->max_token + s.n_dev - 1) / s.n_dev;
    for (int i = 0; i < 4 && rc == ZEP_OK; i++) {
        rc = zep_capacity_choose(&v->ground.cost, view, v->max_token, 0, slacks[i] > 0 ? slacks[i] : 1, &k, err);
        free(k.dev);
        if (rc < 0)
            break;
        if (!k.fits && zep_problem_is_epoch(&a->problem) && k.least_fit > 0) { /* a run divides these steps */
            s.hold = k.all_fit;
            s.capacity = k.most_fit;
            s.is_memory = 1;
            s.slack = 1;
            add_setting(v, s);
            break;
        }
        if (!k.fits) {
            snprintf(s.why, sizeof s.why, "memory holds %" PRId64 " tokens a device beside the model's state, the fullest batch has %" PRId64, k.most_fit, average);
            add_setting(v, s);
            break;
        }
        s.capacity = slacks[i] > 0 ? k.tok : k.most_fit; /* where memories differ, large devices have the slack of small ones, too */
        s.capacity = s.capacity > v->max_token ? v->max_token : s.capacity;
        s.is_memory = s.capacity >= k.most_fit;
        s.slack = (double)s.capacity / (double)average;
        add_setting(v, s);
    }
    zep_view_free(view);
    return rc;
}

/* What a step consists of: what is not computing is standing still, for transfers as far as the simulator says so. */
static void add_parts(const struct zep_comparison *c, const struct zep_sim *s, double part[ZEP_N_LIMIT_PART])
{
    double layers = c->cost.model.n_layer, compute = s->head_s + s->optimizer_s, net = 0, node = 0, exchange = s->exchange_s + s->layers_s, rest, scale;

    for (int p = 0; p < 2; p++) {
        compute += layers * s->pass[p].compute_mean_s;
        net += layers * s->pass[p].wait_net_s;
        node += layers * s->pass[p].wait_node_s;
        *(c->view->n_node > 1 ? &net : &node) += layers * s->pass[p].wait_remap_s;
        exchange -= layers * s->pass[p].time_s;
    }
    *(c->view->n_node > 1 ? &net : &node) += exchange > 0 ? exchange : 0;
    rest = s->step_s > compute ? s->step_s - compute : 0;
    scale = net + node > rest ? rest / (net + node) : 1; /* the waits are of the device that is done last, which may compute less than the mean */
    part[ZEP_LIMIT_COMPUTE] += compute;
    part[ZEP_LIMIT_NET] += scale * net;
    part[ZEP_LIMIT_NODE] += scale * node;
    part[ZEP_LIMIT_UNEVEN] += rest - scale * (net + node);
}

/* A step of so many times the micro-step that was simulated: gradients are exchanged and the optimizer runs once. */
static double step_of(const struct zep_sim *s, double times)
{
    return times * s->step_s - (times - 1) * (s->exchange_s + s->optimizer_s);
}

static void add_row(const struct zep_comparison *c, const struct zep_prediction *r, int batch, double times, struct zep_advice_cell *cell)
{
    double part[ZEP_N_LIMIT_PART] = {0};

    if (*cell->why)
        return;
    if (!r->sim) {
        snprintf(cell->why, sizeof cell->why, "%s", r->why);
        return;
    }
    if (r->sim->mem_bytes > r->sim->mem_limit) {
        snprintf(cell->why, sizeof cell->why, "%s needs %.1f GB of a %s's %.1f GB", r->method, r->sim->mem_bytes / c->cost.tp / 1e9, c->cost.tp > 1 ? "GPU" : "device", r->sim->mem_limit / c->cost.tp / 1e9);
        return;
    }
    cell->step_s[batch] = step_of(r->sim, times);
    if (!(cell->mem_limit > 0) || r->sim->mem_bytes * cell->mem_limit > cell->mem_bytes * r->sim->mem_limit) { /* of the device that is fullest */
        cell->mem_bytes = r->sim->mem_bytes;
        cell->mem_limit = r->sim->mem_limit;
    }
    add_parts(c, r->sim, part);
    for (int p = 0; p < ZEP_N_LIMIT_PART; p++)
        cell->part_s[p] += part[p] * cell->step_s[batch] / r->sim->step_s;
}

/* A batch in a setting, or the first micro-step of one that its devices do not hold: times_out is then how many times as long the batch is. zep_ground_end in any case. */
static int predict_batch(struct zep_advice *v, const struct zep_predict_args *a, struct zep_advice_setting *s, double nic_scale, int k, struct zep_comparison *c, double *times_out, char why[300], struct zep_error *err)
{
    struct zep_setting ask = {.work = v->batch[k], .n_node = s->n_node, .capacity = s->capacity, .nic_scale = nic_scale};
    struct zep_workload first;
    struct zep_error e;
    int n_micro, rc;

    memset(c, 0, sizeof *c);
    *times_out = 1;
    if (s->hold && v->batch[k]->n_token > s->hold) {
        if ((rc = zep_micro_first(v->batch[k], s->hold, &first, &n_micro, &e)) < 0) { /* a document that is too long */
            snprintf(why, 300, "%.290s", e.text);
            return rc == ZEP_EINVAL ? ZEP_OK : zep_error_set(err, rc, "%s", e.text);
        }
        *times_out = (double)v->batch[k]->n_token / (double)first.n_token;
        s->n_micro = n_micro > s->n_micro ? n_micro : s->n_micro;
        ask.work = &first;
    }
    return zep_ground_predict(ground_of(v, s->n_node), a, &ask, c, why, 300, err);
}

static int predict_setting(struct zep_advice *v, const struct zep_predict_args *a, struct zep_advice_setting *s, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int k = 0; k < v->n_batch && !*s->why && rc == ZEP_OK; k++) {
        struct zep_comparison c;
        double times;

        zep_progress_line(0, "setting %d of %d, batch %d of %d", (int)(s - v->setting) + 1, v->n_setting, k + 1, v->n_batch);
        if ((rc = predict_batch(v, a, s, 0, k, &c, &times, s->why, err)) == ZEP_OK && !*s->why)
            for (int m = 0; m < v->n_method; m++)
                add_row(&c, &c.row[m], k, times, &s->cell[m]);
        zep_ground_end(&c);
    }
    for (int m = 0; m < v->n_method && !*s->why; m++) {
        struct zep_advice_cell *cell = &s->cell[m];
        double sum = 0;

        for (int k = 0; k < v->n_batch; k++)
            sum += cell->step_s[k];
        cell->mean_step_s = *cell->why ? 0 : sum / v->n_batch;
        cell->node_s_token = s->n_node * sum / (double)v->n_token;
    }
    return rc;
}

/* --- choosing --- */

/* Steps of several micro-steps are recommended only where no devices hold the batches whole: part 0 looks at whole ones, 1 at all. */
static int is_choice(const struct zep_advice *v, int i, int m, int part)
{
    return v->setting[i].cell[m].mean_step_s > 0 && (part || v->setting[i].n_micro < 2);
}

static const struct zep_advice_cell *best_of(struct zep_advice *v, int part)
{
    const struct zep_advice_cell *best = NULL;
    double cheapest = 0;

    for (int i = 0; i < v->n_setting; i++)
        for (int m = 0; m < v->n_method; m++)
            if (is_choice(v, i, m, part) && (!(cheapest > 0) || v->setting[i].cell[m].node_s_token < cheapest))
                cheapest = v->setting[i].cell[m].node_s_token;
    for (int i = 0; i < v->n_setting; i++)
        for (int m = 0; m < v->n_method; m++) {
            const struct zep_advice_cell *cell = &v->setting[i].cell[m];

            if (!is_choice(v, i, m, part) || cell->node_s_token > ZEP_ADVISE_NIL * cheapest || (best && cell->mean_step_s >= best->mean_step_s))
                continue;
            best = cell;
            v->best = i;
            v->best_method = m;
        }
    return best;
}

static int choose(struct zep_advice *v, struct zep_error *err)
{
    const struct zep_advice_cell *best = best_of(v, 0);

    best = best ? best : best_of(v, 1);
    if (best)
        return ZEP_OK;
    for (int m = 0; m < v->n_method && !*v->setting[0].why; m++)
        if (*v->setting[0].cell[m].why)
            return zep_error_set(err, ZEP_EINVAL, "no method fits with %d node%s: %s", v->setting[0].n_node, v->setting[0].n_node == 1 ? "" : "s", v->setting[0].cell[m].why);
    if (v->setting[0].capacity) /* memory is not why */
        return zep_error_set(err, ZEP_EINVAL, "nothing can be predicted with %d node%s: %s", v->setting[0].n_node, v->setting[0].n_node == 1 ? "" : "s", v->setting[0].why);
    return zep_error_set(err, ZEP_EINVAL, "nothing fits with %d node%s: %s: more nodes, more tensor parallelism (--tp), --recompute or fewer tokens (--tokens N takes the workload as documents of an epoch, whose steps are divided into micro-steps of what memory holds)", v->setting[0].n_node, v->setting[0].n_node == 1 ? "" : "s", v->setting[0].why);
}

/* The longest document's share of its batch's attention, at most over the batches. */
static double longest_share(const struct zep_advice *v)
{
    double most = 0;

    for (int k = 0; k < v->n_batch; k++) {
        double longest = 0, sum = 0;

        for (int i = 0; i < v->batch[k]->n; i++) {
            double pairs = (double)v->batch[k]->len[i] * (double)(v->batch[k]->len[i] + 1) / 2;

            longest = pairs > longest ? pairs : longest;
            sum += pairs;
        }
        most = longest > most * sum ? longest / sum : most;
    }
    return most;
}

/* Memory: the capacity is all that it holds, and less would make the steps longer; else computing where it is most of the step, else what devices stand still for. */
static enum zep_limit limit_of(const struct zep_advice *v)
{
    const struct zep_advice_setting *s = &v->setting[v->best];
    const struct zep_advice_cell *cell = &s->cell[v->best_method];
    double sum = 0, lower = 0;
    enum zep_limit most = ZEP_LIMIT_NET;
    int computes;

    for (int i = 0; i < v->n_setting; i++)
        if (v->setting[i].n_node == s->n_node && v->setting[i].capacity < s->capacity)
            lower = v->setting[i].cell[v->best_method].mean_step_s;
    for (int p = 0; p < ZEP_N_LIMIT_PART; p++) {
        sum += cell->part_s[p];
        if (p != ZEP_LIMIT_COMPUTE && cell->part_s[p] > cell->part_s[most])
            most = (enum zep_limit)p;
    }
    computes = cell->part_s[ZEP_LIMIT_COMPUTE] >= 0.75 * sum;
    if (s->is_memory && s->slack < 2 && (lower > 0 ? lower > ZEP_ADVISE_NIL * cell->mean_step_s : !computes))
        return ZEP_LIMIT_MEMORY;
    if (computes)
        return ZEP_LIMIT_COMPUTE;
    return most == ZEP_LIMIT_UNEVEN && longest_share(v) > 0.25 ? ZEP_LIMIT_LONGEST : most;
}

/* What `zeppelin explain` asks as well: the recommended method, planned anew, with NICs of twice the bandwidth. */
static int ask_nics(struct zep_advice *v, const struct zep_predict_args *a, struct zep_error *err)
{
    struct zep_advice_setting *s = &v->setting[v->best];
    const struct zep_advice_cell *cell = &s->cell[v->best_method];
    struct zep_predict_args one = *a;
    double sum = 0, was = 0;
    char why[300] = "";
    int rc = ZEP_OK;

    v->nic_gain = NAN;
    one.methods = v->method[v->best_method];
    for (int k = 0; k < v->n_batch && s->n_node > 1 && !*why && rc == ZEP_OK; k++) {
        struct zep_comparison c;
        double times;

        if ((rc = predict_batch(v, &one, s, 2, k, &c, &times, why, err)) == ZEP_OK && !*why && c.row[0].sim) {
            sum += step_of(c.row[0].sim, times);
            was += cell->step_s[k];
        }
        zep_ground_end(&c);
    }
    if (rc == ZEP_OK && !*why && was > 0)
        v->nic_gain = 1 - sum / was;
    return rc;
}

/* All nodes, those that are not slow, half and a quarter of all: descending, each once. */
static int add_all(struct zep_advice *v, const struct zep_predict_args *a, int n_node, struct zep_error *err)
{
    int last = n_node + 1, rc = ZEP_OK;

    while (rc == ZEP_OK) {
        const int want[] = {n_node, v->n_fast, n_node / 2, n_node / 4};
        int next = 0;

        for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
            if (want[i] < last && want[i] > next)
                next = want[i];
        if (!next)
            break;
        rc = add_nodes(v, a, next, err);
        last = next;
    }
    return rc;
}

int zep_advice_make(const struct zep_predict_args *a, int n_batch, struct zep_advice *v, struct zep_error *err)
{
    int n_node, n_slow, rc;

    if ((rc = set_methods(a, v, err)) < 0 || (rc = load_batches(a, n_batch, v, err)) < 0 || (rc = zep_ground_open(a, (int)a->problem.nodes, "--nodes", &v->ground, err)) < 0)
        return rc;
    if (!(v->setting = zep_calloc(ZEP_ADVISE_SETTINGS, sizeof *v->setting)))
        return zep_error_nomem(err, "settings");
    n_node = (int)(a->problem.nodes ? a->problem.nodes : v->ground.topo->n_node);
    if ((rc = zep_ground_fast(&v->ground, a, n_node, &v->fast, &v->slow, &n_slow, err)) < 0)
        return rc;
    v->n_fast = v->fast.topo ? n_node - n_slow : 0;
    rc = add_all(v, a, n_node, err);
    for (int i = 0; i < v->n_setting && rc == ZEP_OK; i++)
        rc = predict_setting(v, a, &v->setting[i], err);
    if (rc == ZEP_OK && (rc = choose(v, err)) == ZEP_OK)
        rc = ask_nics(v, a, err);
    zep_progress_end();
    if (rc < 0)
        return rc;
    v->limit = limit_of(v);
    return ZEP_OK;
}

void zep_advice_free(struct zep_advice *v)
{
    for (int k = 0; k < v->n_batch; k++)
        zep_workload_free(v->batch[k]);
    zep_ground_free(&v->ground);
    zep_ground_free(&v->fast);
    free(v->slow);
    free(v->setting);
    free(v->names);
    memset(v, 0, sizeof *v);
}

/* --- asking --- */

int zep_advice_find(const struct zep_advice *v, int n_node, int method)
{
    int best = -1;

    for (int i = 0; i < v->n_setting; i++) {
        double s = v->setting[i].cell[method].mean_step_s;

        if (v->setting[i].n_node == n_node && s > 0 && (best < 0 || s < v->setting[best].cell[method].mean_step_s))
            best = i;
    }
    return best;
}

int zep_advice_method(const struct zep_advice *v, const char *name)
{
    for (int m = 0; m < v->n_method; m++)
        if (!strcmp(v->method[m], name))
            return m;
    return -1;
}

int zep_advice_rival(const struct zep_advice *v)
{
    int n_node = v->setting[v->best].n_node, best = -1;
    double best_s = 0;

    for (int m = 0; m < v->n_method; m++) {
        int i = zep_advice_find(v, n_node, m);

        if (i < 0 || !strncmp(v->method[m], "zeppelin", 8) || !strcmp(v->method[m], "auto") || (best >= 0 && v->setting[i].cell[m].mean_step_s >= best_s))
            continue;
        best = m;
        best_s = v->setting[i].cell[m].mean_step_s;
    }
    return best;
}

int zep_advice_gain(const struct zep_advice *v, int method, struct zep_gain *out)
{
    const struct zep_advice_cell *ours = &v->setting[v->best].cell[v->best_method], *theirs;
    int i = zep_advice_find(v, v->setting[v->best].n_node, method);
    struct zep_gain g = {0};

    if (i < 0)
        return 0;
    theirs = &v->setting[i].cell[method];
    for (int k = 0; k < v->n_batch; k++) {
        double x = theirs->step_s[k] / ours->step_s[k];

        g.mean += x / v->n_batch;
        g.least = k == 0 || x < g.least ? x : g.least;
        g.most = x > g.most ? x : g.most;
    }
    *out = g;
    return 1;
}
