#include "config.h"
#include "planner/sched.h"

#include <stdlib.h>

#include "common/arena.h"
#include "planner/sched_internal.h"

static const struct zep_plan_slot *find_slot(const struct zep_plan *plan, int dev, int ring)
{
    int lo = plan->dev_slot0[dev], hi = plan->dev_slot0[dev + 1];

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (plan->slot[mid].ring < ring)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < plan->dev_slot0[dev + 1] && plan->slot[lo].ring == ring ? &plan->slot[lo] : NULL;
}

static int64_t member_rows(const struct zep_plan *plan, int ring, int member)
{
    const struct zep_plan_slot *slot = find_slot(plan, plan->member[plan->ring[ring].member0 + member], ring);

    return slot ? slot->n : 0;
}

int64_t sched_block_rows(const struct zep_plan *plan, int ring, int pos)
{
    int heads = zep_ring_heads(&plan->ring[ring]);
    int64_t n = 0;

    for (int w = 0; w < heads; w++)
        n += member_rows(plan, ring, pos * heads + w);
    return n;
}

static int zone_of(const struct zep_plan_ring *r)
{
    return r->zone == ZEP_ZONE_INTER ? ZEP_QUEUE_INTER : r->zone == ZEP_ZONE_INTRA ? ZEP_QUEUE_INTRA : ZEP_QUEUE_LOCAL;
}

static int check_ring(const struct zep_plan *plan, int ring, struct zep_error *err)
{
    const struct zep_plan_ring *r = &plan->ring[ring];

    if (r->form < ZEP_FORM_SINGLE || r->form >= ZEP_N_FORM)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "ring %d: form of transfer %d is not known here", ring, (int)r->form);
    if (r->zone != ZEP_ZONE_INTER && r->zone != ZEP_ZONE_INTRA && r->zone != ZEP_ZONE_LOCAL)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: zone %d is none of local, intra-node, inter-node", ring, (int)r->zone);
    if (r->zone == ZEP_ZONE_LOCAL && r->n_member != 1)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: a local ring has %d members, expected 1", ring, (int)r->n_member);
    if (r->heads && (r->heads < 2 || r->n_member % r->heads))
        return zep_error_set(err, ZEP_EINVAL, "ring %d: heads %d: expected at least 2, dividing its %d members", ring, (int)r->heads, (int)r->n_member);
    if (r->heads && r->n_hop)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: a ring that exchanges heads has no hops with proxies", ring);
    if (r->form != ZEP_FORM_SINGLE && r->n_hop)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: only a single ring has hops with proxies", ring);
    if (r->form == ZEP_FORM_DOUBLE && r->zone != ZEP_ZONE_INTER)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: a double ring lies between nodes", ring);
    return ZEP_OK;
}

/* How long a ring keeps its zone busy. Rounds of single rings follow from their items. */
static void size_zone(struct sched_zone *zone, const struct sched_ring *ring)
{
    for (int pass = ZEP_PASS_FWD; pass <= ZEP_PASS_BWD; pass++) {
        int single = ring->form == ZEP_FORM_SINGLE;
        int n_step = single ? ring->n_member + (pass == ZEP_PASS_BWD && ring->n_member > 1) : sched_grid_n_step(ring, (enum zep_pass)pass), round = single ? 0 : sched_grid_max_round(ring, (enum zep_pass)pass);

        zone->max_step[pass] = n_step > zone->max_step[pass] ? n_step : zone->max_step[pass];
        zone->max_round[pass] = round > zone->max_round[pass] ? round : zone->max_round[pass];
    }
    zone->has_grid |= ring->form != ZEP_FORM_SINGLE;
}

/* What a ring is to its groups, seen from a member of one. */
static void open_heads(struct zep_sched *s, const struct zep_plan_ring *r, struct sched_ring *ring)
{
    ring->heads = r->heads;
    ring->slice = ring->pos % r->heads;
    ring->pos /= r->heads;
    ring->n_member /= r->heads;
    ring->n_node = ring->n_member;
    ring->v = ring->pos;
    ring->head = s->n_head++;
    ring->att_row0 = ring->row0;
    ring->att_n = ring->n;
    ring->row0 = 0;
    ring->n = sched_block_rows(s->plan, ring->ring, ring->pos);
}

/* The device's own rings; zones must come in the order of the queues. */
static int add_rings(struct zep_sched *s, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    int first = plan->dev_slot0[s->dev], n = plan->dev_slot0[s->dev + 1] - first, zone = 0, rc;
    int32_t kv = 0, dkv = 0, scratch = 0, gather = 0;

    if (!(s->ring = zep_calloc((size_t)n + 1, sizeof *s->ring)))
        return zep_error_nomem(err, "schedule");
    for (int i = 0; i < n; i++) {
        const struct zep_plan_slot *slot = &plan->slot[first + i];
        const struct zep_plan_ring *r = &plan->ring[slot->ring];
        struct sched_ring *ring = &s->ring[i];
        int z;

        if ((rc = check_ring(plan, slot->ring, err)) < 0)
            return rc;
        if ((z = zone_of(r)) < zone)
            return zep_error_set(err, ZEP_EINVAL, "ring %d: rings between nodes come first, then those in a node, then local ones", (int)slot->ring);
        for (; zone < z; zone++)
            s->zone[zone].ring_end = s->zone[zone + 1].ring0 = s->zone[zone + 1].ring_end = i;
        s->zone[z].ring_end = i + 1;
        *ring = (struct sched_ring){.ring = slot->ring, .pos = slot->pos, .n_member = r->n_member, .heads = 1, .form = r->form, .n_node = r->n_member, .per_node = 1, .v = slot->pos, .row0 = slot->row0, .n = slot->n};
        if (r->heads)
            open_heads(s, r, ring);
        s->n_ring = i + 1;
        if (r->form != ZEP_FORM_SINGLE) {
            if ((rc = sched_grid_open(s, ring, &kv, &dkv, &scratch, &gather, err)) < 0)
                return rc;
        } else if (ring->n_member > 1) {
            ring->kv0 = kv;
            ring->dkv0 = dkv;
            ring->scratch = scratch;
            kv += ring->n_member > 2 ? 2 : 1;
            dkv += 2;
            scratch += ring->n_member > 2;
        }
        size_zone(&s->zone[z], ring);
    }
    for (; zone < ZEP_N_QUEUE - 1; zone++)
        s->zone[zone].ring_end = s->zone[zone + 1].ring0 = s->zone[zone + 1].ring_end = n;
    return ZEP_OK;
}

static int cmp_item(const void *a, const void *b)
{
    const struct sched_item *x = a, *y = b;

    if (x->ring != y->ring)
        return x->ring < y->ring ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

/* The hop between nodes from a member, or NULL where the next member is in the same node. */
static const struct zep_plan_hop *find_hop(const struct zep_plan *plan, const struct zep_plan_ring *r, int from)
{
    int lo = r->hop0, hi = r->hop0 + r->n_hop;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (plan->hop[mid].from < from)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->hop0 + r->n_hop && plan->hop[lo].from == from ? &plan->hop[lo] : NULL;
}

static struct sched_item *new_item(struct zep_sched *s, int *cap, struct zep_error *err)
{
    if (s->n_item == *cap) {
        int want = *cap ? 2 * *cap : 16;
        struct sched_item *item = zep_reallocarray(s->item, (size_t)want, sizeof *item);

        if (!item) {
            zep_error_nomem(err, "schedule");
            return NULL;
        }
        s->item = item;
        *cap = want;
    }
    return &s->item[s->n_item++];
}

/* The parts of the hop from a member in which the device has a role. hop NULL: one direct part. own_out, own_in: the device's ring where it sends, receives. */
static int add_hop(struct zep_sched *s, int *cap, int ring, int from, const struct zep_plan_hop *hop, int own_out, int own_in, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    const struct zep_plan_ring *r = &plan->ring[ring];
    int own = own_out >= 0 ? own_out : own_in, size = sched_ring_size(plan, ring), heads = r->n_member / size, slice = own >= 0 ? s->ring[own].slice : 0;
    int sender = plan->member[r->member0 + from * heads + slice], receiver = plan->member[r->member0 + (from + 1) % size * heads + slice];
    int n_part = hop ? hop->n_proxy : 1;

    for (int k = 0; k < n_part; k++) {
        struct zep_plan_proxy p = hop ? plan->proxy[hop->proxy0 + k] : (struct zep_plan_proxy){sender, receiver};
        struct sched_item *item;

        if (own_out < 0 && own_in < 0 && p.src != s->dev && p.dst != s->dev)
            continue;
        if (!(item = new_item(s, cap, err)))
            return ZEP_ENOMEM;
        *item = (struct sched_item){ring, from, k, n_part, sender, p.src, p.dst, receiver, own_out, own_in, -1};
    }
    return ZEP_OK;
}

/* Hops that the device serves without being their sender or receiver. */
static int add_duties(struct zep_sched *s, int *cap, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    int rc;

    for (int ring = 0; ring < plan->n_ring; ring++) {
        const struct zep_plan_ring *r = &plan->ring[ring];

        for (int h = r->hop0; h < r->hop0 + r->n_hop; h++) {
            const struct zep_plan_hop *hop = &plan->hop[h];

            if (plan->member[r->member0 + hop->from] == s->dev || plan->member[r->member0 + (hop->from + 1) % r->n_member] == s->dev)
                continue;
            if ((rc = add_hop(s, cap, ring, hop->from, hop, -1, -1, err)) < 0)
                return rc;
        }
    }
    return ZEP_OK;
}

static int add_items(struct zep_sched *s, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    int cap = 0, rc;

    for (int i = 0; i < s->n_ring; i++) {
        const struct sched_ring *ring = &s->ring[i];
        const struct zep_plan_ring *r = &plan->ring[ring->ring];
        int prev = (ring->pos + ring->n_member - 1) % ring->n_member;

        if (ring->n_member == 1 || ring->form != ZEP_FORM_SINGLE)
            continue;
        if ((rc = add_hop(s, &cap, ring->ring, ring->pos, find_hop(plan, r, ring->pos), i, -1, err)) < 0)
            return rc;
        if ((rc = add_hop(s, &cap, ring->ring, prev, find_hop(plan, r, prev), -1, i, err)) < 0)
            return rc;
    }
    if ((rc = add_duties(s, &cap, err)) < 0)
        return rc;
    if (s->n_item)
        qsort(s->item, (size_t)s->n_item, sizeof *s->item, cmp_item);
    return ZEP_OK;
}

/* Staging slots, the items of each zone and how many rounds they take. */
static int number_items(struct zep_sched *s, struct zep_error *err)
{
    int n_staging = 0, i = 0, rc;

    for (int z = 0; z < ZEP_N_QUEUE; z++) {
        struct sched_zone *zone = &s->zone[z];

        zone->item0 = i;
        for (; i < s->n_item && zone_of(&s->plan->ring[s->item[i].ring]) == z; i++) {
            struct sched_item *item = &s->item[i];
            int g = sched_ring_size(s->plan, item->ring);

            if ((rc = check_ring(s->plan, item->ring, err)) < 0)
                return rc;
            zone->max_round[ZEP_PASS_FWD] = g - 1 > zone->max_round[ZEP_PASS_FWD] ? g - 1 : zone->max_round[ZEP_PASS_FWD];
            zone->max_round[ZEP_PASS_BWD] = g + 1 > zone->max_round[ZEP_PASS_BWD] ? g + 1 : zone->max_round[ZEP_PASS_BWD];
            if (item->src != item->sender || item->dst != item->receiver)
                zone->staged = 1;
            if ((item->src == s->dev && item->sender != s->dev) || (item->dst == s->dev && item->receiver != s->dev))
                item->stage = n_staging++;
        }
        zone->item_end = i;
    }
    if (i < s->n_item)
        return zep_error_set(err, ZEP_EINVAL, "ring %d: rings between nodes come first, then those in a node, then local ones", (int)s->item[i].ring);
    return ZEP_OK;
}

static int add_moves(struct zep_sched *s, struct zep_error *err)
{
    const struct zep_plan *plan = s->plan;
    int n = 0;

    s->kept = plan->attn_tok[s->dev];
    for (int i = 0; i < plan->n_move; i++)
        n += plan->move[i].from == s->dev || plan->move[i].to == s->dev;
    if (!(s->move = zep_calloc((size_t)n + 1, sizeof *s->move)))
        return zep_error_nomem(err, "schedule");
    for (int i = 0; i < plan->n_move; i++) {
        if (plan->move[i].from == s->dev || plan->move[i].to == s->dev)
            s->move[s->n_move++] = i;
        if (plan->move[i].from == s->dev)
            s->kept -= plan->move[i].n;
    }
    if (s->kept < 0)
        return zep_error_set(err, ZEP_EINVAL, "device %d: moves take %lld tokens more than its attention layout holds", s->dev, -(long long)s->kept);
    return ZEP_OK;
}

int zep_sched_open(const struct zep_plan *plan, int dev, enum zep_pass pass, struct zep_sched **sched_out, struct zep_error *err)
{
    struct zep_sched *s;
    int rc;

    if (dev < 0 || dev >= plan->n_dev)
        return zep_error_set(err, ZEP_EINVAL, "device %d: the plan has devices 0 to %d", dev, plan->n_dev - 1);
    if (!(s = zep_calloc(1, sizeof *s)))
        return zep_error_nomem(err, "schedule");
    s->plan = plan;
    s->dev = dev;
    s->pass = pass;
    if ((rc = add_rings(s, err)) < 0 || (rc = add_items(s, err)) < 0 || (rc = number_items(s, err)) < 0 || (rc = add_moves(s, err)) < 0)
        goto err_sched;
    zep_sched_rewind(s);
    *sched_out = s;
    return ZEP_OK;
err_sched:
    zep_sched_free(s);
    return rc;
}

void zep_sched_free(struct zep_sched *s)
{
    if (!s)
        return;
    for (int i = 0; s->ring && i < s->n_ring; i++) {
        free(s->ring[i].off);
        free(s->ring[i].crossing_wait);
    }
    free(s->ring);
    free(s->item);
    free(s->move);
    free(s->xfer);
    free(s->pair);
    free(s->run);
    free(s);
}
