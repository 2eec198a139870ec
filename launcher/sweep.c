#include "config.h"
#include "launcher/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/log.h"
#include "common/units.h"
#include "common/yaml.h"

const char *const zep_sweep_methods = "zeppelin,zeppelin-paper,te-cp,static-cp,flexsp,hybrid-dp,wlb,ulysses,usp"; /* those that may be the best rival */

/* --- the ground --- */

/* The cluster is a preset, and alone: it can be had with any number of nodes. */
static int is_preset(const struct zep_topo_args *t)
{
    return t->n_from == 1 && !strncmp(t->from[0], "preset:", 7) && !t->only && !t->without;
}

/* The cluster; a preset with as many nodes as are wanted. */
static int load_topo(const struct zep_topo_args *args, int n_node, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_topo_args want = *args;
    char text[160];
    int rc = zep_inputs_topo(&want, topo_out, err);

    if (rc < 0 || n_node <= (*topo_out)->n_node || !is_preset(&want))
        return rc;
    snprintf(text, sizeof text, "preset:%.*s:%d", (int)strcspn(want.from[0] + 7, ":"), want.from[0] + 7, n_node);
    want.from[0] = text;
    zep_topo_free(*topo_out);
    *topo_out = NULL;
    return zep_inputs_topo(&want, topo_out, err);
}

static int is_slow(const struct zep_node *n)
{
    for (int i = 0; i < (n->n_device ? n->n_device : 1); i++)
        if (zep_device_speed(n, i) < 1)
            return 1;
    for (int i = 0; i < n->n_nic; i++)
        if (n->nic[i].speed.source != ZEP_SRC_NONE && n->nic[i].speed.value < 1)
            return 1;
    return 0;
}

int zep_ground_fast(const struct zep_ground *g, const struct zep_predict_args *a, int n_node, struct zep_ground *fast_out, char **slow_out, int *n_slow_out, struct zep_error *err)
{
    struct zep_topo_args want = a->problem.topo;
    struct zep_buf slow = ZEP_BUF_INIT;
    struct zep_ground fast = *g;
    int n = 0, rc;

    for (int i = 0; i < n_node && i < g->topo->n_node; i++)
        if (is_slow(&g->topo->node[i]))
            zep_buf_printf(&slow, n++ ? ",%s" : "%s", g->topo->node[i].id);
    *n_slow_out = n;
    if (!n || n == n_node) {
        zep_buf_free(&slow);
        return ZEP_OK;
    }
    want.quiet = 1;
    fast.topo = NULL;
    if ((rc = zep_buf_steal(&slow, slow_out, err)) == ZEP_OK && (rc = load_topo(&want, n_node, &fast.topo, err)) == ZEP_OK && (rc = zep_topo_select(fast.topo, NULL, *slow_out, err)) == ZEP_OK)
        *fast_out = fast;
    else
        zep_topo_free(fast.topo);
    return rc;
}

int zep_ground_open(const struct zep_predict_args *a, int n_node, const char *asked, struct zep_ground *out, struct zep_error *err)
{
    struct zep_ground g = {0};
    struct zep_view *view = NULL;
    int rc = load_topo(&a->problem.topo, n_node, &g.topo, err);

    if (rc < 0)
        return rc;
    if (n_node > g.topo->n_node) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s: '%d': the topology has %d node%s: expected no more, or a known machine (--preset NAME)", asked, n_node, g.topo->n_node, g.topo->n_node == 1 ? "" : "s");
        goto err_topo;
    }
    if ((rc = zep_view_new(g.topo, 1, (int)a->problem.devices, (int)a->problem.tp, &view, err)) < 0)
        goto err_topo;
    zep_problem_say_idle(&a->problem, g.topo);
    rc = zep_problem_costs(a->model, a->device, g.topo, view, (int)a->problem.tp, &g.cost, err);
    zep_view_free(view);
    if (rc == ZEP_OK && zep_view_new(g.topo, n_node, (int)a->problem.devices, (int)a->problem.tp, &view, NULL) == ZEP_OK) { /* to say what is not alike; where it cannot be, a setting says why */
        rc = zep_problem_speeds(a->device, g.topo, &g.cost, 0, view, err);
        zep_view_free(view);
    }
    if (rc < 0)
        goto err_topo;
    if (a->recompute)
        zep_cost_recompute(&g.cost);
    *out = g;
    return ZEP_OK;
err_topo:
    zep_topo_free(g.topo);
    return rc;
}

void zep_ground_free(struct zep_ground *g)
{
    zep_topo_free(g->topo);
    g->topo = NULL;
}

/* Every NIC has this bandwidth, less where it is marked slow; those of a group work together as before. */
static void set_nic_bw(const struct zep_topo *topo, struct zep_view *view, double bw)
{
    for (int n = 0; n < view->n_node; n++)
        for (int i = view->node_nic0[n]; i < view->node_nic0[n + 1]; i++) {
            const struct zep_nic *c = &topo->node[n].nic[i - view->node_nic0[n]];

            view->nic_bw[i] = c->bw.value > 0 ? view->nic_bw[i] / c->bw.value * bw : c->speed.source != ZEP_SRC_NONE ? c->speed.value * bw : bw;
        }
}

int zep_ground_view(const struct zep_ground *g, const struct zep_predict_args *a, const struct zep_setting *s, struct zep_view **view_out, struct zep_error *err)
{
    struct zep_view *view;
    int rc = zep_view_new(g->topo, s->n_node, (int)a->problem.devices, (int)a->problem.tp, &view, err);

    if (rc < 0)
        return rc;
    if ((rc = zep_problem_speeds(a->device, g->topo, &g->cost, 1, view, err)) < 0) {
        zep_view_free(view);
        return rc;
    }
    if (s->nic_bw > 0)
        set_nic_bw(g->topo, view, s->nic_bw);
    for (int i = 0; i < view->n_nic && s->nic_scale > 0; i++)
        view->nic_bw[i] *= s->nic_scale;
    *view_out = view;
    return ZEP_OK;
}

int zep_ground_predict(const struct zep_ground *g, const struct zep_predict_args *a, const struct zep_setting *s, struct zep_comparison *c, char *why, size_t why_len, struct zep_error *err)
{
    struct zep_error e;
    int rc;

    memset(c, 0, sizeof *c);
    *why = '\0';
    c->topo = g->topo;
    c->work = (struct zep_workload *)s->work; /* lent: zep_ground_end takes them out again */
    c->cost = g->cost;
    if ((rc = zep_ground_view(g, a, s, &c->view, err)) < 0 || (rc = zep_comparison_capacity(c, s->capacity, s->slack, why, why_len, err)) < 0 || *why)
        return rc;
    rc = zep_comparison_run(a, c, &e);
    if (rc == ZEP_EINVAL || rc == ZEP_EUNSUPPORTED) {
        snprintf(why, why_len, "%.*s", (int)why_len - 1, e.text);
        return ZEP_OK;
    }
    return rc < 0 ? zep_error_set(err, rc, "%s", e.text) : rc;
}

void zep_ground_end(struct zep_comparison *c)
{
    c->topo = NULL;
    c->work = NULL;
    zep_comparison_free(c);
}

int zep_methods_check(const char *list, struct zep_error *err)
{
    const char *names[ZEP_MAX_METHOD + 1] = {NULL}, *near;
    char word[64];
    int n = 0;

    for (; zep_methods()[n] && n < ZEP_MAX_METHOD; n++)
        names[n] = zep_methods()[n]->name;
    while (*list) {
        int len = (int)strcspn(list, ", "), known = 0;

        snprintf(word, sizeof word, "%.*s", len, list);
        for (int i = 0; i < n; i++)
            known |= !strcmp(names[i], word);
        if (len && !known) {
            near = zep_nearest(word, names);
            return zep_error_set(err, ZEP_EINVAL, near ? "unknown method '%s' (did you mean '%s'?): `zeppelin plan --help` lists the methods" : "unknown method '%s': `zeppelin plan --help` lists the methods", word, near);
        }
        list += len + (list[len] != '\0');
    }
    return ZEP_OK;
}

/* --- what is swept --- */

static const struct {
    const char *name, *title;
} keys[ZEP_N_SWEEP_KEY] = {
    {"nodes", "nodes"}, {"tokens", "tokens of a step"}, {"context", "tokens of the longest document"}, {"dist", "distribution"}, {"nic", "speed of a NIC"}, {"slack", "capacity / mean tokens of a device"},
};

const char *zep_sweep_key_name(enum zep_sweep_key key)
{
    return keys[key].name;
}

const char *zep_sweep_key_title(enum zep_sweep_key key)
{
    return keys[key].title;
}

static int parse_value(struct zep_sweep_axis *x, const char *word, struct zep_error *err)
{
    struct zep_workload *w;
    int64_t v = 0;
    char text[96];
    int rc;

    switch (x->key) {
    case ZEP_SWEEP_NODES:
        rc = zep_parse_int(word, 1, 65536, &v, err);
        x->value[x->n] = (double)v;
        break;
    case ZEP_SWEEP_TOKENS:
    case ZEP_SWEEP_CONTEXT:
        rc = zep_parse_count(word, &v, err);
        if (rc == ZEP_OK && (v < 1 || v > (int64_t)1 << 40))
            rc = zep_error_set(err, ZEP_EINVAL, "'%s': expected 1 to %" PRId64 " tokens", word, (int64_t)1 << 40);
        x->value[x->n] = (double)v;
        break;
    case ZEP_SWEEP_DIST:
        snprintf(text, sizeof text, "%s:tokens=1", word);
        if (strchr(word, ':'))
            rc = zep_error_set(err, ZEP_EINVAL, "'%s': expected the name of a distribution; the rest stands in --dist", word);
        else if ((rc = zep_workload_dist(text, &w, err)) == ZEP_OK)
            zep_workload_free(w);
        x->value[x->n] = x->n;
        break;
    case ZEP_SWEEP_NIC:
        rc = zep_parse_bandwidth(word, &x->value[x->n], err);
        break;
    default:
        rc = zep_parse_double(word, 1, 1000, &x->value[x->n], err);
        break;
    }
    return rc;
}

static int add_value(struct zep_sweep_axis *x, const char *word, int len, struct zep_error *err)
{
    int rc;

    if (x->n == ZEP_SWEEP_VALUES)
        return zep_error_set(err, ZEP_EINVAL, "more than %d values", ZEP_SWEEP_VALUES);
    if (len >= (int)sizeof x->text[0])
        return zep_error_set(err, ZEP_EINVAL, "value %d, '%.*s...': expected at most %d characters", x->n + 1, 20, word, (int)sizeof x->text[0] - 1);
    snprintf(x->text[x->n], sizeof x->text[0], "%.*s", len, word);
    if ((rc = parse_value(x, x->text[x->n], err)) < 0)
        return zep_error_prefix(err, "value %d", x->n + 1);
    for (int i = 0; i < x->n; i++)
        if (x->key == ZEP_SWEEP_DIST ? !strcmp(x->text[i], x->text[x->n]) : x->value[i] == x->value[x->n])
            return zep_error_set(err, ZEP_EINVAL, "value %d, '%s': it is value %d, too", x->n + 1, x->text[x->n], i + 1);
    x->n++;
    return ZEP_OK;
}

static int parse_key(const char *text, enum zep_sweep_key *key_out, struct zep_error *err)
{
    const char *names[ZEP_N_SWEEP_KEY + 1] = {NULL}, *near;
    int len = (int)strcspn(text, "=");
    char name[32];

    snprintf(name, sizeof name, "%.*s", len, text);
    for (int k = 0; k < ZEP_N_SWEEP_KEY; k++) {
        names[k] = keys[k].name;
        if (!strcmp(name, keys[k].name)) {
            *key_out = (enum zep_sweep_key)k;
            return text[len] ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "'%s': expected KEY=V1,V2,...", text);
        }
    }
    if ((near = zep_nearest(name, names)))
        return zep_error_set(err, ZEP_EINVAL, "unknown key '%s' (did you mean '%s'?): expected nodes, tokens, context, dist, nic or slack", name, near);
    return zep_error_set(err, ZEP_EINVAL, "unknown key '%s': expected nodes, tokens, context, dist, nic or slack", name);
}

int zep_sweep_add(struct zep_sweep *s, const char *text, struct zep_error *err)
{
    struct zep_sweep_axis *x = &s->axis[s->n_axis];
    enum zep_sweep_key key = ZEP_SWEEP_NODES;
    int rc;

    if ((rc = parse_key(text, &key, err)) < 0)
        return zep_error_prefix(err, "--sweep");
    if (s->n_axis == 2)
        return zep_error_set(err, ZEP_EINVAL, "--sweep %s: expected --sweep at most twice", text);
    if (s->n_axis && s->axis[0].key == key)
        return zep_error_set(err, ZEP_EINVAL, "--sweep %s: '%s' is swept already: expected one list", text, keys[key].name);
    *x = (struct zep_sweep_axis){.key = key};
    for (const char *p = strchr(text, '=') + 1;; p++) {
        int len = (int)strcspn(p, ",");

        if ((rc = add_value(x, p, len, err)) < 0)
            return zep_error_prefix(err, "--sweep %s", keys[key].name);
        p += len;
        if (!*p)
            break;
    }
    s->n_axis++;
    return ZEP_OK;
}

static const struct zep_sweep_axis *axis_of(const struct zep_sweep *s, enum zep_sweep_key key)
{
    for (int i = 0; i < s->n_axis; i++)
        if (s->axis[i].key == key)
            return &s->axis[i];
    return NULL;
}

const char *zep_sweep_complaint(const struct zep_sweep *s, const struct zep_predict_args *a)
{
    if (axis_of(s, ZEP_SWEEP_NODES) && a->problem.nodes)
        return "--nodes and --sweep nodes: expected one of them";
    if (axis_of(s, ZEP_SWEEP_SLACK) && a->capacity)
        return "--capacity and --sweep slack: expected one of them";
    if (axis_of(s, ZEP_SWEEP_DIST) && !a->problem.dist)
        return "--sweep dist needs --dist NAME:tokens=N, whose name it replaces";
    if (axis_of(s, ZEP_SWEEP_CONTEXT) && a->problem.lengths)
        return "--lengths has the lengths that it has: --sweep context needs --dist or --data";
    if (axis_of(s, ZEP_SWEEP_TOKENS) && a->problem.lengths && !a->problem.tokens)
        return "--lengths is one batch: --sweep tokens needs --tokens as well, which makes it the documents of an epoch, or --dist or --data";
    return NULL;
}

/* --- running --- */

static const char *text_at(const struct zep_sweep *s, const struct zep_sweep_point *p, enum zep_sweep_key key)
{
    for (int i = 0; i < s->n_axis; i++)
        if (s->axis[i].key == key)
            return s->axis[i].text[p->at[i]];
    return NULL;
}

static double value_at(const struct zep_sweep *s, const struct zep_sweep_point *p, enum zep_sweep_key key)
{
    for (int i = 0; i < s->n_axis; i++)
        if (s->axis[i].key == key)
            return s->axis[i].value[p->at[i]];
    return 0;
}

static int load_work(const struct zep_sweep *s, const struct zep_sweep_point *p, const struct zep_predict_args *a, struct zep_workload **out, struct zep_error *err)
{
    struct zep_problem_args w = a->problem;
    int64_t tokens = (int64_t)value_at(s, p, ZEP_SWEEP_TOKENS), context = (int64_t)value_at(s, p, ZEP_SWEEP_CONTEXT);
    const char *name = text_at(s, p, ZEP_SWEEP_DIST), *rest;
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    if (tokens && w.tokens) { /* of a step of an epoch */
        w.tokens = tokens;
        tokens = 0;
    }
    if (!w.dist) {
        w.context = context ? context : w.context;
        return zep_problem_workload(&w, out, err);
    }
    rest = w.dist + strcspn(w.dist, ":");
    zep_buf_printf(&b, "%.*s:%s", name ? (int)strlen(name) : (int)(rest - w.dist), name ? name : w.dist, *rest ? rest + 1 : "");
    if (tokens)
        zep_buf_printf(&b, ",tokens=%" PRId64, tokens); /* of a key that is said twice, the last holds */
    if (context)
        zep_buf_printf(&b, ",max=%" PRId64, context);
    if ((rc = zep_buf_ok(&b, err)) == ZEP_OK) {
        w.dist = b.data;
        rc = zep_problem_workload(&w, out, err);
    }
    zep_buf_free(&b);
    return rc;
}

static void keep(const struct zep_comparison *c, struct zep_sweep_point *p)
{
    const struct zep_prediction *rival = zep_best_rival(c);

    for (int i = 0; i < c->n; i++) {
        const struct zep_prediction *r = &c->row[i];
        struct zep_sweep_row *o = &p->row[i];

        snprintf(o->why, sizeof o->why, "%s", r->why);
        if (!r->sim)
            continue;
        o->step_s = r->sim->step_s;
        o->tokens_s_dev = r->sim->tokens_s_dev;
        o->imbalance = zep_imbalance(c, r);
        o->node_bytes = zep_step_bytes(c, r, 0);
        o->net_bytes = zep_step_bytes(c, r, 1);
        o->mem_bytes = r->sim->mem_bytes;
        o->mem_limit = r->sim->mem_limit;
        o->over_te_cp = zep_speed_up(c, r, "te-cp");
        o->over_rival = rival ? rival->sim->step_s / r->sim->step_s : 0;
    }
}

static int run_point(const struct zep_sweep *s, const struct zep_ground *g, const struct zep_predict_args *a, struct zep_sweep_point *p, struct zep_error *err)
{
    struct zep_setting set = {.n_node = (int)value_at(s, p, ZEP_SWEEP_NODES), .nic_bw = value_at(s, p, ZEP_SWEEP_NIC), .slack = value_at(s, p, ZEP_SWEEP_SLACK), .capacity = a->capacity};
    struct zep_comparison c = {0};
    struct zep_workload *w;
    int rc;

    if (!set.n_node)
        set.n_node = (int)(a->problem.nodes ? a->problem.nodes : g->topo->n_node);
    if (!(set.slack > 0))
        set.slack = a->slack;
    if ((rc = load_work(s, p, a, &w, err)) < 0)
        return rc;
    set.work = w;
    if ((rc = zep_ground_predict(g, a, &set, &c, p->why, sizeof p->why, err)) == ZEP_OK) {
        p->n_dev = c.view->n_dev;
        p->n_node = c.view->n_node;
        p->n_token = w->n_token;
        p->capacity = c.capacity;
        p->mem_bytes = c.cost.mem_bytes;
        if (!*p->why)
            keep(&c, p);
    }
    zep_ground_end(&c);
    zep_workload_free(w);
    return rc;
}

static int set_methods(struct zep_sweep *s, const char *list, struct zep_error *err)
{
    int rc = zep_methods_check(list, err);

    while (rc == ZEP_OK && *list) {
        int len = (int)strcspn(list, ", ");

        if (len && s->n_method == ZEP_MAX_METHOD)
            return zep_error_set(err, ZEP_EINVAL, "--methods: more than %d", ZEP_MAX_METHOD);
        if (len)
            snprintf(s->method[s->n_method++], sizeof s->method[0], "%.*s", len, list);
        list += len + (list[len] != '\0');
    }
    if (rc == ZEP_OK && !s->n_method)
        return zep_error_set(err, ZEP_EINVAL, "--methods: no name");
    return rc;
}

/* The most nodes of any point; 0: what the cluster has. */
static int most_nodes(const struct zep_sweep *s)
{
    const struct zep_sweep_axis *x = axis_of(s, ZEP_SWEEP_NODES);
    int most = 0;

    for (int i = 0; x && i < x->n; i++)
        most = x->value[i] > most ? (int)x->value[i] : most;
    return most;
}

static int run_points(struct zep_sweep *s, const struct zep_ground *g, const struct zep_predict_args *a, struct zep_error *err)
{
    int n0 = s->axis[0].n, n = n0 * (s->n_axis > 1 ? s->axis[1].n : 1), rc = ZEP_OK, n_good = 0;

    if (!(s->point = zep_calloc((size_t)n, sizeof *s->point)))
        return zep_error_nomem(err, "sweep");
    for (; s->n_point < n && rc == ZEP_OK; s->n_point++) {
        struct zep_sweep_point *p = &s->point[s->n_point];

        p->at[0] = s->n_point % n0;
        p->at[1] = s->n_point / n0;
        zep_progress_line(0, "point %d of %d", s->n_point + 1, n);
        rc = run_point(s, g, a, p, err);
        n_good += !*p->why;
    }
    zep_progress_end();
    if (rc == ZEP_OK && !n_good)
        return zep_error_set(err, ZEP_EINVAL, "no point can be predicted; the first: %s", s->point[0].why);
    return rc;
}

int zep_sweep_run(struct zep_sweep *s, const struct zep_predict_args *a, struct zep_error *err)
{
    struct zep_predict_args own = *a;
    struct zep_ground g;
    int rc;

    own.methods = a->methods ? a->methods : zep_sweep_methods;
    if ((rc = set_methods(s, own.methods, err)) < 0)
        return rc;
    if ((rc = zep_ground_open(&own, most_nodes(s), "--sweep nodes", &g, err)) < 0)
        return rc;
    snprintf(s->model, sizeof s->model, "%s", g.cost.model.name);
    snprintf(s->device, sizeof s->device, "%s", g.cost.engine.name);
    s->calibrated = g.cost.engine.calibrated;
    rc = run_points(s, &g, &own, err);
    zep_ground_free(&g);
    return rc;
}

void zep_sweep_free(struct zep_sweep *s)
{
    free(s->point);
    s->point = NULL;
    s->n_point = 0;
}
