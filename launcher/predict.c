#include "config.h"
#include "launcher/predict.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/units.h"

/* --- options --- */

const char *zep_predict_complaint(const struct zep_predict_args *a)
{
    const char *complaint = zep_problem_complaint(&a->problem);

    return complaint || a->model ? complaint : "no --model: expected a known model (`zeppelin sim --list-models`) or a file";
}

int zep_predict_option(struct zep_predict_args *a, int option, const char *value, struct zep_error *err)
{
    int64_t v;
    int rc = zep_problem_option(&a->problem, option, value, err);

    if (rc)
        return rc;
    switch (option) {
    case ZEP_OPT_MODEL:
        a->model = value;
        return 1;
    case ZEP_OPT_DEVICE:
        a->device = value;
        return 1;
    case ZEP_OPT_METHODS:
        a->methods = value;
        return 1;
    case ZEP_OPT_CAPACITY:
        if (zep_parse_count(value, &a->capacity, err) < 0)
            return zep_error_prefix(err, "--capacity");
        return a->capacity < 1 || a->capacity > (int64_t)1 << 40 ? zep_error_set(err, ZEP_EINVAL, "--capacity: '%s': expected 1 to %" PRId64 " tokens", value, (int64_t)1 << 40) : 1;
    case ZEP_OPT_SLACK:
        return zep_parse_double(value, 1, 1000, &a->slack, err) < 0 ? zep_error_prefix(err, "--slack") : 1;
    case ZEP_OPT_PROXIES:
        if (zep_parse_int(value, 0, 4096, &v, err) < 0)
            return zep_error_prefix(err, "--max-proxies");
        a->opts.max_proxies = (int)v;
        return 1;
    case ZEP_OPT_EFFORT:
        return zep_effort_parse(value, &a->opts.effort, err) < 0 ? zep_error_prefix(err, "--effort") : 1;
    case ZEP_OPT_ZONES:
        return zep_zones_parse(value, &a->opts.zones, err) < 0 ? zep_error_prefix(err, "--zones") : 1;
    case ZEP_OPT_RECOMPUTE:
        a->recompute = 1;
        return 1;
    case ZEP_OPT_NO_ROUTING:
        a->opts.routing = 0;
        return 1;
    case ZEP_OPT_NO_REMAP:
        a->opts.remap = 0;
        return 1;
    case ZEP_OPT_NO_HEADS:
        a->opts.no_heads = 1;
        return 1;
    default:
        return 0;
    }
}

/* --- predicting --- */

static int load_costs(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err)
{
    int rc = zep_problem_costs(a->model, a->device, c->topo, c->view, (int)a->problem.tp, &c->cost, err);

    if (rc == ZEP_OK && a->recompute)
        zep_cost_recompute(&c->cost);
    return rc == ZEP_OK ? zep_problem_speeds(a->device, c->topo, &c->cost, 0, c->view, err) : rc;
}

static double least_memory(const struct zep_comparison *c)
{
    double least = c->cost.mem_bytes;

    for (int d = 0; d < c->view->n_dev; d++)
        if (zep_view_mem(c->view, d) > 0 && (double)zep_view_mem(c->view, d) < least)
            least = (double)zep_view_mem(c->view, d);
    return least;
}

/* "4096", or "4096 (the smallest) to 9000". */
static void put_fit(const struct zep_comparison *c, char out[80])
{
    if (c->least_fit == c->fit)
        snprintf(out, 80, "%" PRId64, c->fit);
    else
        snprintf(out, 80, "%" PRId64 " (the smallest) to %" PRId64, c->least_fit, c->fit);
}

int zep_comparison_capacity(struct zep_comparison *c, int64_t asked, double slack, char *why, size_t why_len, struct zep_error *err)
{
    struct zep_capacity k;
    char fit[80];
    int rc = zep_capacity_choose(&c->cost, c->view, c->work->n_token, asked, slack, &k, err);

    if (rc < 0)
        return rc;
    c->fit = k.most_fit;
    c->least_fit = k.least_fit;
    put_fit(c, fit);
    if (k.least_fit < 1 && k.most_fit > 0)
        snprintf(why, why_len, "the model's state does not fit into the smallest devices (%.1f GB%s): leave their nodes out (--without)", least_memory(c) / c->cost.tp / 1e9, c->cost.tp > 1 ? " a GPU" : "");
    else if (!k.fits)
        snprintf(why, why_len, "memory holds %s tokens a device beside the model's state, the batch has %" PRId64, fit, (c->work->n_token + c->view->n_dev - 1) / c->view->n_dev);
    else
        *why = '\0';
    c->capacity = k.tok;
    free(c->dev_capacity);
    c->dev_capacity = k.dev;
    return ZEP_OK;
}

static int choose_capacity(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err)
{
    int64_t average = (c->work->n_token + c->view->n_dev - 1) / c->view->n_dev;
    char why[300], fit[80];
    int rc = zep_comparison_capacity(c, a->capacity, a->slack, why, sizeof why, err);

    if (rc < 0)
        return rc;
    put_fit(c, fit);
    if (*why && c->least_fit < 1 && c->fit > 0)
        return zep_error_set(err, ZEP_EINVAL, "%s", why);
    if (*why)
        return zep_error_set(err, ZEP_EINVAL,
                             "memory holds %s tokens a device of %s beside the model's state (%.1f GB a %s), the batch has %" PRId64 ": more devices, more tensor parallelism (--tp), --recompute or fewer tokens (--tokens N takes the workload as documents of an epoch and predicts a micro-step of what memory holds); --capacity predicts it all the same",
                             fit, c->cost.engine.name, (c->cost.model.n_layer * c->cost.layer_params + c->cost.other_params) * (c->cost.state_bytes + c->cost.optim_bytes / c->view->n_dev) / c->cost.tp / 1e9, c->cost.tp > 1 ? "GPU" : "device", average);
    if (c->least_fit < c->fit)
        zep_log(ZEP_LOG_INFO, "capacity %" PRId64 " tokens a device: %.2f x the average; memory holds %" PRId64 " on the smallest devices, which hold no more, and %" PRId64 " on the largest", c->capacity, (double)c->capacity / (double)average,
                c->least_fit, c->fit);
    else
        zep_log(ZEP_LOG_INFO, "capacity %" PRId64 " tokens a device: %.2f x the average; memory holds %" PRId64, c->capacity, (double)c->capacity / (double)average, c->fit);
    zep_log(ZEP_LOG_INFO, "effort %s: zeppelin plans by %s", zep_effort_names[a->opts.effort], a->opts.effort == ZEP_EFFORT_FAST ? "estimates, as a training run does (--effort search simulates candidates)" : "simulating candidates");
    if (c->capacity > c->fit)
        zep_log(ZEP_LOG_WARN, "the capacity is %" PRId64 " tokens more than memory holds", c->capacity - c->fit);
    return ZEP_OK;
}

static int choose_methods(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err)
{
    char *save = NULL;

    if (!a->methods) {
        for (int i = 0; zep_methods()[i] && c->n < ZEP_MAX_METHOD; i++)
            if (!a->no_auto || strcmp(zep_methods()[i]->name, "auto") != 0)
                c->row[c->n++].method = zep_methods()[i]->name;
        return ZEP_OK;
    }
    if (!(c->names = strdup(a->methods)))
        return zep_error_nomem(err, "methods");
    for (char *word = strtok_r(c->names, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        if (c->n == ZEP_MAX_METHOD)
            return zep_error_set(err, ZEP_EINVAL, "--methods: more than %d", ZEP_MAX_METHOD);
        c->row[c->n++].method = word;
    }
    return c->n ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "--methods: no name");
}

/* A method that cannot serve this batch is a row that says why; where it is the only one, an error. */
static int predict(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_prediction *r, struct zep_error *err)
{
    struct zep_sim_opts sim = {.spans = a->spans};
    struct zep_plan_opts opts = a->opts;
    int rc;

    opts.method = r->method;
    opts.tp = (int)a->problem.tp;
    opts.capacity_tok = c->capacity;
    opts.dev_capacity = c->dev_capacity;
    opts.cost = &c->cost;
    if ((rc = zep_plan_build(c->view, c->work->len, c->work->n, &opts, &r->plan, err)) == ZEP_OK)
        rc = zep_simulate(r->plan, c->view, &c->cost, &sim, &r->sim, err);
    if (rc == ZEP_OK)
        zep_plan_stats(r->plan, &r->stats);
    else if (rc == ZEP_EUNSUPPORTED && c->n > 1) {
        snprintf(r->why, sizeof r->why, "%.290s", err->text);
        return ZEP_OK;
    }
    return rc;
}

/* A run divides a step that the devices cannot hold into micro-steps: what is predicted is then the first of them. */
static int take_micro(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err)
{
    struct zep_workload *w = c->work;
    struct zep_capacity k;
    int64_t hold = 0, longest = 0;
    int n_micro, rc = zep_capacity_choose(&c->cost, c->view, w->n_token, a->capacity, a->slack, &k, err);

    c->n_micro = 1;
    if (rc < 0)
        return rc;
    for (int d = 0; d < c->view->n_dev && a->capacity; d++)
        hold += k.dev ? k.dev[d] : k.tok;
    hold = a->capacity ? hold : k.all_fit;
    free(k.dev);
    if (!zep_problem_is_epoch(&a->problem) || w->n_token <= hold || (!a->capacity && k.least_fit < 1))
        return ZEP_OK;
    for (int i = 0; i < w->n; i++)
        longest = w->len[i] > longest ? w->len[i] : longest;
    if (longest > hold && !a->capacity)
        return zep_error_set(err, ZEP_EINVAL, "a document has %" PRId64 " tokens, memory of all devices together holds %" PRId64 " beside the model's state: more devices, more tensor parallelism (--tp), --recompute or shorter documents (--context)", longest, hold);
    c->step_token = w->n_token;
    if ((rc = zep_micro_first(w, hold, w, &n_micro, err)) < 0)
        return rc;
    zep_log(ZEP_LOG_INFO, "the step's %" PRId64 " tokens are more than the %" PRId64 " that all devices hold: a run divides it into %d micro-steps", c->step_token, hold, n_micro);
    c->n_micro = n_micro;
    return ZEP_OK;
}

void zep_plan_put_ablations(const struct zep_plan *plan, struct zep_buf *b)
{
    struct zep_plan_stats st;
    int routed = 0, intra = 0, inter = 0, heads = 0;

    zep_plan_stats(plan, &st);
    for (int i = 0; i < plan->n_hop; i++)
        routed += plan->hop[i].n_proxy > 1;
    for (int i = 0; i < plan->n_ring; i++) {
        intra += plan->ring[i].zone == ZEP_ZONE_INTRA;
        inter += plan->ring[i].zone == ZEP_ZONE_INTER;
        heads += plan->ring[i].heads > 0;
    }
    zep_buf_printf(b, "in the plan: %" PRId64 " whole sequences, %d rings inside nodes, %d over nodes, ", st.zone_seq[ZEP_ZONE_LOCAL], intra, inter);
    if (routed)
        zep_buf_printf(b, "%d hops over several proxies, ", routed);
    else
        zep_buf_puts(b, "no hop over several proxies (nothing for --no-routing), ");
    if (heads)
        zep_buf_printf(b, "%d exchanges of heads, ", heads);
    else
        zep_buf_puts(b, "no exchange of heads (nothing for --no-heads), ");
    if (plan->n_move)
        zep_buf_printf(b, "%" PRId64 " tokens that move\n", st.moved_tok);
    else
        zep_buf_puts(b, "no token that moves (nothing for --no-remap)\n");
}

void zep_comparison_put_micro(const struct zep_comparison *c, struct zep_buf *b)
{
    if (c->n_micro > 1)
        zep_buf_printf(b, "this is micro-step 1 of the %d of a step, %" PRId64 " of its %" PRId64 " tokens: the step takes about %.2f times as long (a little less: gradients are exchanged and the optimizer runs once)\n", c->n_micro,
                       c->work->n_token, c->step_token, (double)c->step_token / (double)c->work->n_token);
}

int zep_comparison_open(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err)
{
    int rc;

    if ((rc = zep_problem_workload(&a->problem, &c->work, err)) < 0 || (rc = zep_problem_cluster(&a->problem, &c->topo, &c->view, err)) < 0 || (rc = load_costs(a, c, err)) < 0)
        return rc;
    if (!c->work->n_token)
        return zep_error_set(err, ZEP_EINVAL, "the workload has no tokens: nothing to predict");
    return (rc = take_micro(a, c, err)) < 0 ? rc : choose_capacity(a, c, err);
}

int zep_comparison_run(const struct zep_predict_args *a, struct zep_comparison *c, struct zep_error *err)
{
    int rc = choose_methods(a, c, err);

    c->effort = a->opts.effort;
    for (int i = 0; i < c->n && rc == ZEP_OK; i++)
        rc = predict(a, c, &c->row[i], err);
    return rc;
}

void zep_comparison_free(struct zep_comparison *c)
{
    for (int i = 0; i < c->n; i++) {
        zep_plan_free(c->row[i].plan);
        zep_sim_free(c->row[i].sim);
    }
    zep_view_free(c->view);
    zep_topo_free(c->topo);
    zep_workload_free(c->work);
    free(c->names);
    free(c->dev_capacity);
    memset(c, 0, sizeof *c);
}

/* --- asking --- */

const struct zep_prediction *zep_comparison_find(const struct zep_comparison *c, const char *method)
{
    for (int i = 0; i < c->n; i++)
        if (c->row[i].sim && !strcmp(c->row[i].method, method))
            return &c->row[i];
    return NULL;
}

double zep_speed_up(const struct zep_comparison *c, const struct zep_prediction *r, const char *over)
{
    const struct zep_prediction *other = zep_comparison_find(c, over);

    return other ? other->sim->step_s / r->sim->step_s : 0;
}

static int is_ours(const char *method)
{
    return !strncmp(method, "zeppelin", 8) || !strcmp(method, "auto");
}

const struct zep_prediction *zep_best_rival(const struct zep_comparison *c)
{
    const struct zep_prediction *best = NULL;

    for (int i = 0; i < c->n; i++)
        if (c->row[i].sim && !is_ours(c->row[i].method) && c->row[i].sim->mem_bytes <= c->row[i].sim->mem_limit && (!best || c->row[i].sim->step_s < best->sim->step_s))
            best = &c->row[i];
    return best;
}

double zep_imbalance(const struct zep_comparison *c, const struct zep_prediction *r)
{
    double most = 0, sum = 0;

    for (int d = 0; d < c->view->n_dev; d++) {
        most = r->sim->dev_busy[d] > most ? r->sim->dev_busy[d] : most;
        sum += r->sim->dev_busy[d];
    }
    return most * c->view->n_dev / sum;
}

double zep_step_bytes(const struct zep_comparison *c, const struct zep_prediction *r, int net)
{
    double sum = 0;

    for (int p = 0; p < 2; p++)
        sum += net ? r->sim->pass[p].net_bytes : r->sim->pass[p].node_bytes;
    return c->cost.model.n_layer * sum;
}


/* --- JSON --- */

/* Devices that are not alike. */
static void put_json_devices(const struct zep_comparison *c, json_t *root)
{
    json_t *speeds = json_array(), *mems = json_array(), *caps = json_array();
    int slow = 0, mem = 0;

    for (int d = 0; d < c->view->n_dev; d++) {
        json_array_append_new(speeds, json_real(zep_view_speed(c->view, d)));
        json_array_append_new(mems, json_real(zep_view_mem(c->view, d) > 0 ? (double)zep_view_mem(c->view, d) : c->cost.mem_bytes));
        json_array_append_new(caps, json_integer((json_int_t)(c->dev_capacity ? c->dev_capacity[d] : c->capacity)));
        slow |= zep_view_speed(c->view, d) != 1;
        mem |= zep_view_mem(c->view, d) > 0;
    }
    if (slow)
        json_object_set(root, "device_speed", speeds);
    if (mem)
        json_object_set(root, "device_memory_bytes", mems);
    if (c->dev_capacity)
        json_object_set(root, "device_capacity", caps);
    json_decref(speeds);
    json_decref(mems);
    json_decref(caps);
}

/* What the prediction is of: the lengths, the costs, the links. */
static void put_json_problem(const struct zep_comparison *c, json_t *root)
{
    const struct zep_cost *k = &c->cost;
    json_t *lengths = json_array(), *nics = json_array(), *ports = json_array(), *first = json_array();

    for (int i = 0; i < c->work->n; i++)
        json_array_append_new(lengths, json_integer((json_int_t)c->work->len[i]));
    for (int n = 0; n < c->view->n_node; n++) {
        double sum = 0;

        for (int i = c->view->node_nic0[n]; i < c->view->node_nic0[n + 1]; i++)
            sum += c->view->nic_bw[i];
        json_array_append_new(nics, json_real(sum));
    }
    for (int d = 0; d < c->view->n_dev; d++)
        json_array_append_new(ports, json_real(c->view->dev_bw[d] > 0 ? c->view->dev_bw[d] : k->engine.port_bw * k->tp));
    for (int n = 0; n <= c->view->n_node; n++)
        json_array_append_new(first, json_integer(c->view->node_dev0[n]));
    json_object_set_new(root, "node_device0", first);
    put_json_devices(c, root);
    json_object_set_new(root, "lengths", lengths);
    json_object_set_new(root, "node_nic_bytes_s", nics);
    json_object_set_new(root, "device_port_bytes_s", ports);
    json_object_set_new(root, "costs", json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "layers", k->model.n_layer, "pair_forward_s", k->attn_fwd_s, "pair_backward_s", k->attn_bwd_s,
                                                 "token_forward_s", k->linear_fwd_s + k->tp_fwd_s, "token_backward_s", k->linear_bwd_s + k->tp_bwd_s, "token_tensor_s", k->tp_fwd_s + k->tp_bwd_s, "head_token_s", k->head_fwd_s + k->head_bwd_s, "q_row_bytes", k->q_row, "kv_row_bytes",
                                                 k->kv_row, "dkv_row_bytes", k->dkv_row, "layer_parameters", k->layer_params, "other_parameters", k->other_params, "gradient_bytes", k->grad_bytes, "parameter_bytes", k->param_bytes,
                                                 "optimizer_bytes", k->optim_bytes, "memory_bandwidth", k->mem_bw, "launch_s", k->launch_s, "tile", k->tile, "overlap_gradients", k->engine.overlap_grad));
}

static json_t *shares(const double *busy, int n, double of)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_real(busy[i] / of));
    return a;
}

/* How much of a layer's passes each resource is in use. */
static json_t *resources_json(const struct zep_comparison *c, const struct zep_sim *s)
{
    static const char *const ways[3][2] = {{"port_out", "port_in"}, {"nic_out", "nic_in"}, {"uplink_up", "uplink_down"}};
    const int n[3] = {c->view->n_dev, c->view->n_nic, c->view->n_up};
    double layer_s = s->pass[0].time_s + s->pass[1].time_s;
    json_t *o = json_object();

    json_object_set_new(o, "compute", shares(s->dev_busy, c->view->n_dev, layer_s));
    for (int way = 0; way < 2; way++) {
        const double *const busy[3] = {s->port_busy[way], s->nic_busy[way], s->up_busy[way]};

        for (int k = 0; k < 3; k++)
            json_object_set_new(o, ways[k][way], shares(busy[k], n[k], layer_s));
    }
    return o;
}

int zep_comparison_to_json(const struct zep_comparison *c, struct zep_buf *b, struct zep_error *err)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:i, s:I, s:I, s:o}", "format", "zeppelin-sim/1.0", "effort", zep_effort_names[c->effort], "model", c->cost.model.name, "device", c->cost.engine.name, "calibrated", c->cost.engine.calibrated, "devices", c->view->n_dev, "tp", c->cost.tp,
                             "nodes", c->view->n_node, "tokens", (json_int_t)c->work->n_token, "capacity", (json_int_t)c->capacity, "methods", json_array());
    const struct zep_prediction *rival = zep_best_rival(c);
    char *text;

    put_json_problem(c, root);
    if (c->n_micro > 1)
        json_object_update_new(root, json_pack("{s:i, s:I}", "micro_steps", c->n_micro, "step_tokens", (json_int_t)c->step_token));
    for (int i = 0; i < c->n && root; i++) {
        const struct zep_prediction *r = &c->row[i];
        json_t *o = json_pack("{s:s}", "method", r->method);

        if (!r->sim) {
            json_object_set_new(o, "error", json_string(r->why));
        } else {
            static const char *const names[] = {"forward", "backward"};

            json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step_s", r->sim->step_s, "layers_s", r->sim->layers_s, "head_s", r->sim->head_s, "exchange_s", r->sim->exchange_s,
                                                "optimizer_s", r->sim->optimizer_s, "tokens_s_device", r->sim->tokens_s_dev, "imbalance", zep_imbalance(c, r), "node_bytes", zep_step_bytes(c, r, 0), "network_bytes",
                                                zep_step_bytes(c, r, 1), "memory_bytes", r->sim->mem_bytes, "memory_limit_bytes", r->sim->mem_limit, "memory_state_bytes", r->sim->mem_state, "memory_activation_bytes", r->sim->mem_tokens, "memory_buffer_bytes", r->sim->mem_buffers));
            for (int p = 0; p < 2; p++) {
                const struct zep_sim_pass *s = &r->sim->pass[p];

                json_object_set_new(o, names[p], json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "layer_s", s->time_s, "linear_s", s->linear_s, "remap_in_s", s->remap_in_s, "heads_s", s->heads_s, "attention_s", s->attn_s,
                                                           "remap_out_s", s->remap_out_s, "compute_max_s", s->compute_max_s, "compute_mean_s", s->compute_mean_s, "wait_network_s", s->wait_net_s, "wait_node_s", s->wait_node_s,
                                                           "nic_busy_s", s->nic_busy_s, "port_busy_s", s->port_busy_s, "uplink_busy_s", s->up_busy_s));
                if (s->busiest_up >= 0)
                    json_object_set_new(json_object_get(o, names[p]), "busiest_uplink", json_string(c->view->up[s->busiest_up].name));
            }
            if (c->n == 1)
                json_object_set_new(o, "busy", resources_json(c, r->sim));
            if (zep_speed_up(c, r, "te-cp") > 0)
                json_object_set_new(o, "over_te_cp", json_real(zep_speed_up(c, r, "te-cp")));
            if (rival)
                json_object_set_new(o, "over_best_rival", json_real(rival->sim->step_s / r->sim->step_s));
        }
        json_array_append_new(json_object_get(root, "methods"), o);
    }
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return zep_error_nomem(err, "prediction");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}
