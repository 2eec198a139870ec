#include "config.h"
#include "planner/plan.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/digest.h"
#include "common/yaml.h"
#include "planner/cost.h"
#include "planner/plan_internal.h"

const char *const zep_effort_names[ZEP_N_EFFORT] = {"fast", "search"};

const char *const zep_zone_names[ZEP_N_ZONE] = {"none", "local", "intra", "inter"};
const char *const zep_zone_text[ZEP_N_ZONE] = {"", "local", "intra-node", "inter-node"};

int zep_zones_parse(const char *text, unsigned *zones_out, struct zep_error *err)
{
    unsigned zones = 0;

    if (!strcmp(text, "all")) {
        *zones_out = 0;
        return ZEP_OK;
    }
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        int z = ZEP_ZONE_LOCAL;

        while (z <= ZEP_ZONE_INTER && (strncmp(p, zep_zone_names[z], n) || zep_zone_names[z][n]))
            z++;
        if (z > ZEP_ZONE_INTER)
            return zep_error_set(err, ZEP_EINVAL, "zone '%.*s': expected local, intra, inter, several divided by commas, or all", (int)n, p);
        zones |= 1u << z;
        if (!p[n])
            break;
        p += n + 1;
    }
    *zones_out = zones;
    return ZEP_OK;
}

int zep_zones_refuse(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err)
{
    int64_t longest = 0, node = 0;
    char words[40] = "", *w = words;

    for (int z = ZEP_ZONE_LOCAL; z <= ZEP_ZONE_INTER; z++)
        if (zep_opts_zone(opts, (enum zep_zone)z))
            w += sprintf(w, "%s%s", w > words ? "," : "", zep_zone_names[z]);
    for (int i = 0; i < n; i++)
        longest = len[i] > longest ? len[i] : longest;
    for (int i = 0; i < view->n_node; i++) {
        int64_t sum = 0;

        for (int d = view->node_dev0[i]; d < view->node_dev0[i + 1]; d++)
            sum += zep_opts_capacity(opts, d);
        node = sum > node ? sum : node;
    }
    return zep_error_set(err, ZEP_EUNSUPPORTED, "zones %s: the batch does not fit (its longest sequence: %" PRId64 " tokens; a device holds %" PRId64 ", a node %" PRId64 "): allow more zones, or give a larger capacity", words, longest,
                         opts->capacity_tok, node);
}

int zep_effort_parse(const char *name, enum zep_effort *effort_out, struct zep_error *err)
{
    for (int i = 0; i < ZEP_N_EFFORT; i++)
        if (!strcmp(name, zep_effort_names[i])) {
            *effort_out = (enum zep_effort)i;
            return ZEP_OK;
        }
    return zep_error_set(err, ZEP_EINVAL, "effort '%s': expected fast or search", name);
}

const char *const zep_form_names[ZEP_N_FORM] = {"none", "single", "double", "gather"};

const char *zep_ring_form_text(const struct zep_plan_ring *r, char text[32])
{
    if (!r->heads)
        snprintf(text, 32, "%s", zep_form_names[r->form]);
    else if (r->n_member == r->heads)
        snprintf(text, 32, "heads/%d", r->heads);
    else
        snprintf(text, 32, "heads/%d+%s", r->heads, zep_form_names[r->form]);
    return text;
}

void zep_plan_free(struct zep_plan *plan)
{
    if (!plan)
        return;
    free(plan->dev_capacity);
    free(plan->dev_node);
    free(plan->seq);
    free(plan->ring);
    free(plan->member);
    free(plan->ring_seq);
    free(plan->hop);
    free(plan->proxy);
    free(plan->move);
    free(plan->attn_tok);
    free(plan->lin_tok);
    free(plan->dev_slot0);
    free(plan->slot);
    free(plan);
}

static int range_ok(int first, int n, int total)
{
    return first >= 0 && n >= 0 && first <= total && n <= total - first;
}

static int refuse_rings(const struct zep_plan *p, struct zep_error *err)
{
    int64_t n_member = 0, n_seq = 0;

    for (int i = 0; i < p->n_ring; i++) {
        const struct zep_plan_ring *r = &p->ring[i];

        if (r->n_member < 1 || !range_ok(r->member0, r->n_member, p->n_member))
            return zep_error_set(err, ZEP_EINVAL, "ring %d: members [%d, %d + %d): expected at least one of the plan's %d", i, r->member0, r->member0, r->n_member, p->n_member);
        if (!range_ok(r->seq0, r->n_seq, p->n_seq))
            return zep_error_set(err, ZEP_EINVAL, "ring %d: sequences [%d, %d + %d) are outside of the plan's %d", i, r->seq0, r->seq0, r->n_seq, p->n_seq);
        if (!range_ok(r->hop0, r->n_hop, p->n_hop))
            return zep_error_set(err, ZEP_EINVAL, "ring %d: hops [%d, %d + %d) are outside of the plan's %d", i, r->hop0, r->hop0, r->n_hop, p->n_hop);
        if (r->heads && (r->heads < 2 || r->n_member % r->heads))
            return zep_error_set(err, ZEP_EINVAL, "ring %d: heads %d: expected at least 2, dividing its %d members", i, r->heads, r->n_member);
        for (int k = r->hop0; k < r->hop0 + r->n_hop; k++)
            if (p->hop[k].from < 0 || p->hop[k].from >= r->n_member || !range_ok(p->hop[k].proxy0, p->hop[k].n_proxy, p->n_proxy))
                return zep_error_set(err, ZEP_EINVAL, "ring %d: hop %d: member %d or proxies [%d, %d + %d) are out of range", i, k, p->hop[k].from, p->hop[k].proxy0, p->hop[k].proxy0, p->hop[k].n_proxy);
        n_member += r->n_member;
        n_seq += r->n_seq;
    }
    if (n_member != p->n_member)
        return zep_error_set(err, ZEP_EINVAL, "the rings have %lld members, expected the plan's %d", (long long)n_member, p->n_member);
    if (n_seq != p->n_seq)
        return zep_error_set(err, ZEP_EINVAL, "the rings have %lld sequences, expected the plan's %d", (long long)n_seq, p->n_seq);
    return ZEP_OK;
}

static int refuse_items(const struct zep_plan *p, struct zep_error *err)
{
    for (int i = 0; i < p->n_member; i++)
        if (p->member[i] < 0 || p->member[i] >= p->n_dev)
            return zep_error_set(err, ZEP_EINVAL, "member %d is device %d: the plan has devices 0 to %d", i, p->member[i], p->n_dev - 1);
    for (int i = 0; i < p->n_proxy; i++)
        if (p->proxy[i].src < 0 || p->proxy[i].src >= p->n_dev || p->proxy[i].dst < 0 || p->proxy[i].dst >= p->n_dev)
            return zep_error_set(err, ZEP_EINVAL, "proxy %d goes from device %d to %d: the plan has devices 0 to %d", i, p->proxy[i].src, p->proxy[i].dst, p->n_dev - 1);
    for (int i = 0; i < p->n_seq; i++) {
        const struct zep_plan_seq *s = &p->seq[i];

        if (s->len < 1 || s->len > ZEP_PLAN_MAX_TOKENS)
            return zep_error_set(err, ZEP_EINVAL, "sequence %d: %lld tokens, expected 1 to %lld", i, (long long)s->len, (long long)ZEP_PLAN_MAX_TOKENS);
        if (s->ring < 0 || s->ring >= p->n_ring)
            return zep_error_set(err, ZEP_EINVAL, "sequence %d: ring %d: the plan has %d rings", i, s->ring, p->n_ring);
        if (s->rot < 0 || s->rot >= 2 * p->ring[s->ring].n_member)
            return zep_error_set(err, ZEP_EINVAL, "sequence %d: rot %d: expected 0 to %d", i, s->rot, 2 * p->ring[s->ring].n_member - 1);
        if (p->ring_seq[i] < 0 || p->ring_seq[i] >= p->n_seq)
            return zep_error_set(err, ZEP_EINVAL, "entry %d of the rings' sequences is %d: the plan has %d sequences", i, p->ring_seq[i], p->n_seq);
    }
    for (int i = 0; i < p->n_move; i++)
        if (p->move[i].from < 0 || p->move[i].from >= p->n_dev || p->move[i].to < 0 || p->move[i].to >= p->n_dev || p->move[i].n < 1)
            return zep_error_set(err, ZEP_EINVAL, "move %d: %lld tokens from device %d to %d: expected at least one, devices 0 to %d", i, (long long)p->move[i].n, p->move[i].from, p->move[i].to, p->n_dev - 1);
    for (int d = 0; d < p->n_dev && p->dev_capacity; d++)
        if (p->dev_capacity[d] < 0 || p->dev_capacity[d] > p->capacity_tok)
            return zep_error_set(err, ZEP_EINVAL, "device %d: capacity %lld: expected 0 to %lld, the largest", d, (long long)p->dev_capacity[d], (long long)p->capacity_tok);
    for (int d = 0; d < p->n_dev; d++)
        if (p->dev_node[d] < 0 || p->dev_node[d] >= p->n_node)
            return zep_error_set(err, ZEP_EINVAL, "device %d is in node %d: the plan has nodes 0 to %d", d, p->dev_node[d], p->n_node - 1);
    return ZEP_OK;
}

/* Slots by device, then ring, and tokens of the attention layout. */
int zep_plan_derive_attn(struct zep_plan *p, struct zep_error *err)
{
    int64_t *rows = NULL;
    int32_t *fill = NULL;
    int rc = ZEP_OK, widest = 1;

    free(p->attn_tok);
    free(p->dev_slot0);
    free(p->slot);
    p->attn_tok = zep_calloc((size_t)p->n_dev, sizeof *p->attn_tok);
    p->dev_slot0 = zep_calloc((size_t)p->n_dev + 1, sizeof *p->dev_slot0);
    p->slot = zep_calloc((size_t)p->n_member + 1, sizeof *p->slot);
    for (int i = 0; i < p->n_ring; i++)
        widest = p->ring[i].n_member > widest ? p->ring[i].n_member : widest;
    rows = zep_calloc((size_t)widest, sizeof *rows);
    fill = zep_calloc((size_t)p->n_dev, sizeof *fill);
    if (!p->attn_tok || !p->dev_slot0 || !p->slot || !rows || !fill) {
        rc = zep_error_nomem(err, "plan");
        goto out;
    }
    for (int i = 0; i < p->n_member; i++)
        p->dev_slot0[p->member[i] + 1]++;
    for (int d = 0; d < p->n_dev; d++) {
        p->dev_slot0[d + 1] += p->dev_slot0[d];
        fill[d] = p->dev_slot0[d];
    }
    for (int i = 0; i < p->n_ring; i++) {
        const struct zep_plan_ring *r = &p->ring[i];

        memset(rows, 0, (size_t)r->n_member * sizeof *rows);
        zep_ring_rows(p, i, rows);
        for (int m = 0; m < r->n_member; m++) {
            int d = p->member[r->member0 + m];

            p->slot[fill[d]++] = (struct zep_plan_slot){i, m, p->attn_tok[d], rows[m]};
            p->attn_tok[d] += rows[m];
        }
    }
out:
    free(fill);
    free(rows);
    return rc;
}

static uint64_t plan_digest(const struct zep_plan *p, struct zep_digest_state *s)
{
    const int64_t head[] = {p->n_dev, p->n_node, p->tp, p->capacity_tok, p->n_token, p->n_seq, p->n_ring, p->n_member, p->n_hop, p->n_proxy, p->n_move};

    zep_digest_update(s, p->method, sizeof p->method);
    zep_digest_update(s, head, sizeof head);
    if (p->dev_capacity)
        zep_digest_update(s, p->dev_capacity, (size_t)p->n_dev * sizeof *p->dev_capacity);
    zep_digest_update(s, p->dev_node, (size_t)p->n_dev * sizeof *p->dev_node);
    zep_digest_update(s, p->seq, (size_t)p->n_seq * sizeof *p->seq);
    for (int i = 0; i < p->n_ring; i++) /* plans that exchange no heads have the digest that they had before there were any */
        zep_digest_update(s, &p->ring[i], offsetof(struct zep_plan_ring, heads));
    for (int i = 0; i < p->n_ring; i++)
        if (p->ring[i].heads)
            zep_digest_update(s, (const int32_t[]){i, p->ring[i].heads}, 2 * sizeof(int32_t));
    zep_digest_update(s, p->member, (size_t)p->n_member * sizeof *p->member);
    zep_digest_update(s, p->ring_seq, (size_t)p->n_seq * sizeof *p->ring_seq);
    zep_digest_update(s, p->hop, (size_t)p->n_hop * sizeof *p->hop);
    zep_digest_update(s, p->proxy, (size_t)p->n_proxy * sizeof *p->proxy);
    zep_digest_update(s, p->move, (size_t)p->n_move * sizeof *p->move);
    return zep_digest_final(s);
}

int zep_plan_finish(struct zep_plan *p, struct zep_error *err)
{
    struct zep_digest_state *state;
    int rc;

    if (p->n_dev < 1 || p->n_node < 1)
        return zep_error_set(err, ZEP_EINVAL, "plan has %d devices in %d nodes: expected at least one of each", p->n_dev, p->n_node);
    if ((rc = refuse_rings(p, err)) < 0 || (rc = refuse_items(p, err)) < 0)
        return rc;
    if (!p->slot && (rc = zep_plan_derive_attn(p, err)) < 0)
        return rc;
    free(p->lin_tok);
    if (!(p->lin_tok = zep_calloc((size_t)p->n_dev, sizeof *p->lin_tok)))
        return zep_error_nomem(err, "plan");
    memcpy(p->lin_tok, p->attn_tok, (size_t)p->n_dev * sizeof *p->lin_tok);
    for (int i = 0; i < p->n_move; i++)
        p->lin_tok[p->move[i].from] -= p->move[i].n;
    for (int d = 0; d < p->n_dev; d++)
        if (p->lin_tok[d] < 0)
            return zep_error_set(err, ZEP_EINVAL, "device %d: its moves take %lld tokens more than it has", d, (long long)-p->lin_tok[d]);
    for (int i = 0; i < p->n_move; i++)
        p->lin_tok[p->move[i].to] += p->move[i].n;
    if (!(state = zep_digest_new(0)))
        return zep_error_nomem(err, "plan digest");
    p->digest = plan_digest(p, state);
    zep_digest_free(state);
    return ZEP_OK;
}

/* --- registry --- */

static const struct zep_method *const methods[] = {
    &zep_method_zeppelin, &zep_method_zeppelin_paper, &zep_method_te_cp, &zep_method_llama_cp, &zep_method_static_cp, &zep_method_hybrid_dp, &zep_method_flexsp, &zep_method_wlb, &zep_method_ulysses, &zep_method_usp, &zep_method_packed_dp, &zep_method_auto, NULL,
};

const struct zep_method *const *zep_methods(void)
{
    return methods;
}

static int method_unknown(const char *name, struct zep_error *err)
{
    const char *names[sizeof methods / sizeof methods[0]];
    struct zep_buf list = ZEP_BUF_INIT;
    const char *near;
    int n = 0;

    for (; methods[n]; n++) {
        names[n] = methods[n]->name;
        zep_buf_printf(&list, "%s%s", n ? ", " : "", names[n]);
    }
    names[n] = NULL;
    near = zep_nearest(name, names);
    if (near)
        zep_error_set(err, ZEP_EINVAL, "unknown method '%s' (did you mean '%s'?): expected one of %s", name, near, list.data);
    else
        zep_error_set(err, ZEP_EINVAL, "unknown method '%s': expected one of %s", name, list.data);
    zep_buf_free(&list);
    return ZEP_EINVAL;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Rings are cut evenly: a device of small capacity may get more than it holds by a method that cannot choose its devices. */
int zep_plan_hold(const struct zep_plan *plan, struct zep_error *err)
{
    for (int d = 0; d < plan->n_dev && plan->dev_capacity; d++)
        if (plan->attn_tok[d] > plan->dev_capacity[d])
            return zep_error_set(err, ZEP_EUNSUPPORTED, "%s gives device %d %lld tokens, which holds %lld (others up to %lld): expected devices of equal memory, or another method", plan->method, d, (long long)plan->attn_tok[d],
                                 (long long)plan->dev_capacity[d], (long long)plan->capacity_tok);
    return ZEP_OK;
}

/* The batch is more than the devices hold. What is advised is no capacity that memory does not hold, where the model is known. */
static int too_many(const struct zep_view *view, const struct zep_plan_opts *opts, int64_t total, struct zep_error *err)
{
    int64_t need = ceil_div(total, view->n_dev), fit = opts->cost ? zep_cost_fit_tokens(opts->cost, view->n_dev) : need;
    char remedy[160];

    if (fit >= need)
        snprintf(remedy, sizeof remedy, "--capacity %lld would fit, or fewer tokens a step (--tokens)", (long long)need);
    else
        snprintf(remedy, sizeof remedy, "memory holds %lld a device: fewer tokens a step (--tokens; runs divide longer ones into micro-steps) or more devices", (long long)fit);
    return zep_error_set(err, ZEP_EINVAL, "capacity %lld tokens x %d devices = %lld is %lld tokens short of the batch's %lld; %s", (long long)opts->capacity_tok, view->n_dev, (long long)(opts->capacity_tok * view->n_dev),
                         (long long)(total - opts->capacity_tok * view->n_dev), (long long)total, remedy);
}

int zep_plan_build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    int64_t total = 0, hold = 0;
    struct zep_plan *plan = NULL;
    int rc;
    const struct zep_method *method = NULL;

    if (view->n_dev < 1)
        return zep_error_set(err, ZEP_EINVAL, "no devices to plan for");
    if (opts->capacity_tok < 1)
        return zep_error_set(err, ZEP_EINVAL, "capacity %lld: expected at least 1 token a device", (long long)opts->capacity_tok);
    for (int i = 0; methods[i]; i++)
        if (!strcmp(methods[i]->name, opts->method))
            method = methods[i];
    if (!method)
        return method_unknown(opts->method, err);
    for (int i = 0; i < n; i++) {
        if (len[i] < 1)
            return zep_error_set(err, ZEP_EINVAL, "sequence %d: %lld tokens, expected at least 1", i, (long long)len[i]);
        if (len[i] > ZEP_PLAN_MAX_TOKENS - total)
            return zep_error_set(err, ZEP_EINVAL, "sequence %d: the batch is longer than %lld tokens", i, (long long)ZEP_PLAN_MAX_TOKENS);
        total += len[i];
    }
    for (int d = 0; d < view->n_dev; d++)
        hold += zep_opts_capacity(opts, d);
    if (opts->dev_capacity && total > hold)
        return zep_error_set(err, ZEP_EINVAL, "the devices' capacities, %lld tokens for most and less where memory is smaller, are %lld together: %lld short of the batch's %lld", (long long)opts->capacity_tok, (long long)hold,
                             (long long)(total - hold), (long long)total);
    if (ceil_div(total, view->n_dev) > opts->capacity_tok)
        return too_many(view, opts, total, err);
    if ((rc = method->build(view, len, n, opts, &plan, err)) < 0)
        return rc;
    if ((rc = zep_plan_hold(plan, err)) < 0) {
        zep_plan_free(plan);
        return rc;
    }
    *plan_out = plan;
    return ZEP_OK;
}
