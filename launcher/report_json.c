/* "zeppelin-report/1.0", described in zeppelin-run(5). */
#include "config.h"
#include "launcher/report.h"

#include <jansson.h>
#include <stdlib.h>

#include "planner/plan.h"

static json_t *evals(const struct zep_report *r)
{
    json_t *a = json_array();

    for (int i = 0; i < r->n_eval; i++)
        json_array_append_new(a, json_pack("{s:I, s:f, s:I}", "step", (json_int_t)r->eval[i].step, "loss", r->eval[i].loss, "targets", (json_int_t)r->eval[i].targets));
    return a;
}

static json_t *losses(const struct zep_report *r)
{
    json_t *a = json_array();

    for (int i = 0; i < r->n_step; i++)
        json_array_append_new(a, json_pack("[I, f]", (json_int_t)r->step[i].step, r->step[i].loss));
    return a;
}

static json_t *zones(const struct zep_report_sums *s)
{
    json_t *o = json_object();

    for (int z = 0; z < 3; z++)
        json_object_set_new(o, zep_zone_names[ZEP_ZONE_LOCAL + z],
                            json_pack("{s:I, s:I, s:f, s:f}", "sequences", (json_int_t)s->zone_seq[z], "tokens", (json_int_t)s->zone_tok[z], "share", s->tokens > 0 ? (double)s->zone_tok[z] / s->tokens : 0.0,
                                      "attention_s", s->attn_s[2 - z]));
    return o;
}

static json_t *ranks(const struct zep_report *r)
{
    json_t *a = json_array();
    double n = r->n_rank_step ? r->n_rank_step : 1;

    for (int i = 0; i < r->n_rank; i++)
        json_array_append_new(a, json_pack("{s:f, s:f, s:f, s:f}", "attention_tokens", r->rank[i].attn_tok / n, "linear_tokens", r->rank[i].lin_tok / n, "pairs", r->rank[i].pairs / n, "busy_s",
                                           r->rank[i].busy_s / n));
    return a;
}

static json_t *startup(const struct zep_report *r)
{
    const struct zep_report_startup *s = &r->startup;
    const struct {
        const char *name;
        double value;
    } parts[] = {{"launch", s->launch}, {"mpi", s->mpi}, {"topology", s->topology}, {"data", s->data}, {"model", s->model}, {"checkpoint", s->checkpoint}, {"first_plan", s->plan}};
    json_t *j = json_object();

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        json_object_set_new(j, parts[i].name, parts[i].value >= 0 && s->mpi >= 0 ? json_real(parts[i].value) : json_null());
    return j;
}

int zep_report_json(const struct zep_report *r, struct zep_buf *b, struct zep_error *err)
{
    struct zep_report_sums s;
    json_t *j;
    char *text;

    zep_report_sum(r, &s);
    j = json_pack("{s:s, s:s, s:b, s:s, s:s, s:I, s:I, s:i}", "format", "zeppelin-report/1.0", "run", r->rundir, "ended", r->have_outcome, "status",
                  r->have_outcome ? zep_status_name(r->outcome.status) : "", "cause", r->have_outcome ? r->outcome.cause : "", "step", (json_int_t)(r->n_step ? r->step[r->n_step - 1].step : 0), "steps",
                  (json_int_t)r->job->train.steps, "attempt", r->attempt);
    json_object_set_new(j, "ranks", json_integer(r->ranks));
    json_object_set_new(j, "nodes", json_integer(r->nodes));
    json_object_set_new(j, "parameters", json_integer(r->params));
    json_object_set_new(j, "capacity_tok", json_integer(r->capacity));
    json_object_set_new(j, "method", json_string(r->method));
    json_object_set_new(j, "window", json_integer(r->window ? r->window : r->job->plan.window));
    json_object_set_new(j, "compose", json_string(*r->compose ? r->compose : r->job->plan.compose));
    json_object_set_new(j, "kernels", json_string(r->kernels));
    json_object_set_new(j, "startup_s", startup(r));
    json_object_set_new(j, "cut_documents", json_integer(r->cut_documents));
    json_object_set_new(j, "heldout", evals(r));
    json_object_set_new(j, "unigram", r->unigram > 0 ? json_real(r->unigram) : json_null());
    json_object_set_new(j, "bigram", r->bigram > 0 ? json_real(r->bigram) : json_null());
    json_object_set_new(j, "losses", losses(r));
    json_object_set_new(j, "tokens", json_real(s.tokens));
    json_object_set_new(j, "time_s", json_real(s.time_s));
    json_object_set_new(j, "tokens_per_s", json_real(s.time_s > 0 ? s.tokens / s.time_s : 0));
    json_object_set_new(j, "flops", json_real(s.flops));
    json_object_set_new(j, "attention_flops", json_real(s.attn_flops));
    json_object_set_new(j, "net_bytes", json_real(s.net_bytes));
    json_object_set_new(j, "zones", zones(&s));
    json_object_set_new(j, "phase_s", json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "plan", s.phase_s[0], "forward", s.phase_s[1], "backward", s.phase_s[2], "reduce", s.phase_s[3], "optimizer",
                                                s.phase_s[4], "wait_world", s.wait_s[0], "wait_node", s.wait_s[1], "remap", s.remap_s));
    json_object_set_new(j, "planning", json_pack("{s:f, s:f, s:f, s:i}", "work_s", s.plan_work_s, "wait_s", s.plan_wait_s, "hidden", zep_report_hidden(&s), "steps_ahead", s.planned_ahead));
    json_object_set_new(j, "rank", ranks(r));
    json_object_set_new(j, "checkpoints", json_pack("{s:i, s:f, s:f, s:f}", "count", r->ckpts.n, "bytes", r->ckpts.bytes, "time_s", r->ckpts.time_s, "stall_s", r->ckpts.stall_s));
    json_object_set_new(j, "checkpoint", json_string(r->have_outcome ? r->outcome.checkpoint : ""));
    text = json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(10));
    json_decref(j);
    if (!text)
        return zep_error_nomem(err, "report");
    zep_buf_puts(b, text);
    zep_buf_puts(b, "\n");
    free(text);
    return zep_buf_ok(b, err);
}
