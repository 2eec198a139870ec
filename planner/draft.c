/* Drafts: a method's decisions, turned into a plan. */
#include "config.h"
#include "planner/plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/digest.h"

void zep_sets_free(struct zep_sets *sets)
{
    free(sets->set);
    free(sets->item);
    free(sets->bucket);
    *sets = (struct zep_sets){0};
}

void zep_sets_reset(struct zep_sets *sets)
{
    sets->n = sets->n_item = 0;
    if (sets->bucket)
        memset(sets->bucket, 0, (size_t)sets->n_bucket * sizeof *sets->bucket);
}

static uint32_t set_hash(const int32_t *item, int n)
{
    return (uint32_t)zep_digest(item, (size_t)n * sizeof *item, 0);
}

static int rehash(struct zep_sets *sets, struct zep_error *err)
{
    int n_bucket = sets->n_bucket ? 2 * sets->n_bucket : 64;
    int32_t *bucket = zep_calloc((size_t)n_bucket, sizeof *bucket);

    if (!bucket)
        return zep_error_nomem(err, "sets of devices");
    for (int i = 0; i < sets->n; i++) {
        uint32_t h = set_hash(&sets->item[sets->set[i].item0], sets->set[i].n) & (uint32_t)(n_bucket - 1);

        while (bucket[h])
            h = (h + 1) & (uint32_t)(n_bucket - 1);
        bucket[h] = i + 1;
    }
    free(sets->bucket);
    sets->bucket = bucket;
    sets->n_bucket = n_bucket;
    return ZEP_OK;
}

static int room(struct zep_sets *sets, int n, struct zep_error *err)
{
    if (sets->n == sets->cap) {
        int cap = sets->cap ? 2 * sets->cap : 32;
        struct zep_set *set = zep_reallocarray(sets->set, (size_t)cap, sizeof *set);

        if (!set)
            return zep_error_nomem(err, "sets of devices");
        sets->set = set;
        sets->cap = cap;
    }
    if (n > sets->cap_item - sets->n_item) {
        int cap = 2 * sets->cap_item + n + 64;
        int32_t *item = zep_reallocarray(sets->item, (size_t)cap, sizeof *item);

        if (!item)
            return zep_error_nomem(err, "sets of devices");
        sets->item = item;
        sets->cap_item = cap;
    }
    return ZEP_OK;
}

int zep_sets_get(struct zep_sets *sets, const int32_t *item, int n, struct zep_error *err)
{
    uint32_t h;
    int rc;

    if (2 * (sets->n + 1) > sets->n_bucket && (rc = rehash(sets, err)) < 0)
        return rc;
    h = set_hash(item, n) & (uint32_t)(sets->n_bucket - 1);
    for (; sets->bucket[h]; h = (h + 1) & (uint32_t)(sets->n_bucket - 1)) {
        const struct zep_set *s = &sets->set[sets->bucket[h] - 1];

        if (s->n == n && !memcmp(&sets->item[s->item0], item, (size_t)n * sizeof *item))
            return sets->bucket[h] - 1;
    }
    if ((rc = room(sets, n, err)) < 0)
        return rc;
    memcpy(&sets->item[sets->n_item], item, (size_t)n * sizeof *item);
    sets->set[sets->n] = (struct zep_set){sets->n_item, n, 0, ZEP_FORM_SINGLE, 0};
    sets->n_item += n;
    sets->bucket[h] = ++sets->n;
    return sets->n - 1;
}

int zep_draft_init(struct zep_draft *draft, int n_seq, struct zep_error *err)
{
    *draft = (struct zep_draft){.n_seq = n_seq};
    draft->set = zep_calloc((size_t)n_seq + 1, sizeof *draft->set);
    draft->rot = zep_calloc((size_t)n_seq + 1, sizeof *draft->rot);
    draft->order = zep_calloc((size_t)n_seq + 1, sizeof *draft->order);
    if (!draft->set || !draft->rot || !draft->order) {
        zep_draft_free(draft);
        return zep_error_nomem(err, "draft of a plan");
    }
    return ZEP_OK;
}

void zep_draft_free(struct zep_draft *draft)
{
    free(draft->set);
    free(draft->rot);
    free(draft->order);
    zep_sets_free(&draft->sets);
    *draft = (struct zep_draft){0};
}

void zep_draft_place(struct zep_draft *draft, int seq, int64_t len, int set)
{
    struct zep_set *s = &draft->sets.set[set];

    draft->set[seq] = set;
    draft->rot[seq] = s->rot;
    s->rot = zep_rot_next(len, s->n, s->rot);
}

static int zone_of_set(const struct zep_view *view, const struct zep_draft *draft, const struct zep_set *s)
{
    const int32_t *item = &draft->sets.item[s->item0];

    if (s->n == 1)
        return ZEP_ZONE_LOCAL;
    return view->dev_node[item[0]] == view->dev_node[item[s->n - 1]] ? ZEP_ZONE_INTRA : ZEP_ZONE_INTER;
}

/* The form of a ring whose members are known. */
static int form_of_set(const struct zep_plan *plan, int ring, const struct zep_set *s)
{
    int n_node, per_node;

    if (s->form == ZEP_FORM_DOUBLE && (!zep_ring_grid(plan, ring, &n_node, &per_node) || n_node < 2))
        return ZEP_FORM_SINGLE;
    if (s->form == ZEP_FORM_GATHER && s->n / zep_ring_heads(&plan->ring[ring]) < 2)
        return ZEP_FORM_SINGLE;
    return s->form;
}

/* Rings of the sets in use: between nodes, inside nodes, both in the order in which the sets were made; then local ones by device. ring_of[set] = ring or -1. */
static int make_rings(const struct zep_view *view, const struct zep_draft *draft, struct zep_plan *plan, int32_t *ring_of, struct zep_error *err)
{
    static const int zones[] = {ZEP_ZONE_INTER, ZEP_ZONE_INTRA};
    int32_t *local = zep_calloc((size_t)view->n_dev, sizeof *local);

    if (!local)
        return zep_error_nomem(err, "rings");
    for (int i = 0; i < draft->sets.n; i++)
        ring_of[i] = -1;
    for (int i = 0; i < draft->n_seq; i++)
        ring_of[draft->set[i]] = 0;
    for (int z = 0; z < 2; z++)
        for (int i = 0; i < draft->sets.n; i++) {
            const struct zep_set *s = &draft->sets.set[i];

            if (ring_of[i] < 0 || zone_of_set(view, draft, s) != zones[z])
                continue;
            memcpy(&plan->member[plan->n_member], &draft->sets.item[s->item0], (size_t)s->n * sizeof *plan->member);
            plan->ring[plan->n_ring] = (struct zep_plan_ring){.zone = zones[z], .member0 = plan->n_member, .n_member = s->n};
            plan->n_member += s->n;
            plan->ring[plan->n_ring].heads = s->heads > 1 && s->n % s->heads == 0 ? s->heads : 0;
            plan->ring[plan->n_ring].form = form_of_set(plan, plan->n_ring, s);
            ring_of[i] = plan->n_ring++;
        }
    for (int i = 0; i < draft->sets.n; i++)
        if (ring_of[i] >= 0 && draft->sets.set[i].n == 1)
            local[draft->sets.item[draft->sets.set[i].item0]] = i + 1;
    for (int d = 0; d < view->n_dev; d++)
        if (local[d]) {
            plan->ring[plan->n_ring] = (struct zep_plan_ring){.zone = ZEP_ZONE_LOCAL, .form = ZEP_FORM_SINGLE, .member0 = plan->n_member, .n_member = 1};
            plan->member[plan->n_member++] = d;
            ring_of[local[d] - 1] = plan->n_ring++;
        }
    free(local);
    return ZEP_OK;
}

static void fill_rings(const struct zep_draft *draft, const int64_t *len, const int32_t *ring_of, struct zep_plan *plan)
{
    int at = 0;

    for (int i = 0; i < draft->n_seq; i++) {
        plan->seq[i] = (struct zep_plan_seq){plan->n_token, len[i], ring_of[draft->set[i]], draft->rot[i]};
        plan->n_token += len[i];
        plan->ring[plan->seq[i].ring].n_seq++;
    }
    for (int i = 0; i < plan->n_ring; i++) {
        plan->ring[i].seq0 = at;
        at += plan->ring[i].n_seq;
        plan->ring[i].n_seq = 0;
    }
    for (int i = 0; i < draft->n_seq; i++) {
        struct zep_plan_ring *r = &plan->ring[plan->seq[draft->order[i]].ring];

        plan->ring_seq[r->seq0 + r->n_seq++] = draft->order[i];
    }
}

/* One number where all are equal. */
static int set_capacities(const struct zep_plan_opts *opts, struct zep_plan *plan, struct zep_error *err)
{
    int64_t lo = zep_opts_capacity(opts, 0), hi = lo;

    for (int d = 1; d < plan->n_dev; d++) {
        int64_t c = zep_opts_capacity(opts, d);

        lo = c < lo ? c : lo;
        hi = c > hi ? c : hi;
    }
    plan->capacity_tok = hi > 0 ? hi : 1; /* an empty batch fits devices that hold nothing */
    if (lo == plan->capacity_tok)
        return ZEP_OK;
    if (!(plan->dev_capacity = zep_calloc((size_t)plan->n_dev, sizeof *plan->dev_capacity)))
        return zep_error_nomem(err, "plan");
    for (int d = 0; d < plan->n_dev; d++)
        plan->dev_capacity[d] = zep_opts_capacity(opts, d);
    return ZEP_OK;
}

static int new_plan(const struct zep_view *view, const struct zep_plan_opts *opts, const struct zep_draft *draft, struct zep_plan **plan_out, struct zep_error *err)
{
    struct zep_plan *plan = zep_calloc(1, sizeof *plan);
    int rc;

    if (!plan)
        return zep_error_nomem(err, "plan");
    strncpy(plan->method, opts->method, sizeof plan->method - 1);
    plan->n_dev = view->n_dev;
    plan->n_node = view->n_node;
    plan->tp = opts->tp < 1 ? 1 : opts->tp;
    plan->n_seq = draft->n_seq;
    plan->dev_node = zep_calloc((size_t)view->n_dev, sizeof *plan->dev_node);
    plan->seq = zep_calloc((size_t)draft->n_seq + 1, sizeof *plan->seq);
    plan->ring = zep_calloc((size_t)draft->sets.n + 1, sizeof *plan->ring);
    plan->member = zep_calloc((size_t)draft->sets.n_item + 1, sizeof *plan->member);
    plan->ring_seq = zep_calloc((size_t)draft->n_seq + 1, sizeof *plan->ring_seq);
    if (!plan->dev_node || !plan->seq || !plan->ring || !plan->member || !plan->ring_seq) {
        zep_plan_free(plan);
        return zep_error_nomem(err, "plan");
    }
    for (int d = 0; d < view->n_dev; d++)
        plan->dev_node[d] = view->dev_node[d];
    if ((rc = set_capacities(opts, plan, err)) < 0) {
        zep_plan_free(plan);
        return rc;
    }
    *plan_out = plan;
    return ZEP_OK;
}

/* Devices of different speed? */
static int differ(const struct zep_view *view)
{
    for (int d = 1; d < view->n_dev; d++)
        if (zep_view_speed(view, d) != zep_view_speed(view, 0))
            return 1;
    return 0;
}

static int remap(const struct zep_view *view, const struct zep_plan_opts *opts, const struct zep_draft *draft, struct zep_plan *plan, struct zep_error *err)
{
    int64_t *want = NULL;
    int rc, by_speed = !strcmp(plan->method, "zeppelin") && differ(view);

    if (draft->spread != ZEP_SPREAD_EQUAL || plan->dev_capacity || by_speed) {
        if (!(want = zep_calloc((size_t)view->n_dev, sizeof *want)))
            return zep_error_nomem(err, "remapping");
        zep_remap_targets(view, plan->attn_tok, draft, opts, by_speed, want);
    }
    rc = draft->spread == ZEP_SPREAD_NODE ? zep_plan_remap_for(view, ZEP_REMAP_INSIDE, plan->attn_tok, want, plan, err) : zep_plan_remap(view, plan->attn_tok, want, plan, err);
    free(want);
    return rc;
}

int zep_plan_from_draft(const struct zep_view *view, const int64_t *len, const struct zep_plan_opts *opts, int routing, const struct zep_draft *draft, struct zep_plan **plan_out,
                        struct zep_error *err)
{
    struct zep_plan *plan = NULL;
    int32_t *ring_of = NULL;
    int rc;

    if ((rc = new_plan(view, opts, draft, &plan, err)) < 0)
        return rc;
    if (!(ring_of = zep_calloc((size_t)draft->sets.n + 1, sizeof *ring_of))) {
        rc = zep_error_nomem(err, "plan");
        goto err_plan;
    }
    if ((rc = make_rings(view, draft, plan, ring_of, err)) < 0)
        goto err_plan;
    fill_rings(draft, len, ring_of, plan);
    if ((rc = zep_plan_route(view, opts, routing, plan, err)) < 0 || (rc = zep_plan_derive_attn(plan, err)) < 0)
        goto err_plan;
    if (opts->remap && (rc = remap(view, opts, draft, plan, err)) < 0)
        goto err_plan;
    if ((rc = zep_plan_finish(plan, err)) < 0)
        goto err_plan;
    free(ring_of);
    *plan_out = plan;
    return ZEP_OK;
err_plan:
    free(ring_of);
    zep_plan_free(plan);
    return rc;
}
