#include "config.h"
#include "planner/check_internal.h"

#include <stdlib.h>

#include "common/arena.h"

static int bad(struct check *ck, const char *fmt, ...) ZEP_PRINTF(2, 3);
static int bad(struct check *ck, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(ck->err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    return ZEP_EINVAL;
}

static int check_devices(struct check *ck)
{
    const struct zep_plan *p = ck->plan;

    if (p->n_dev < 1 || p->n_node < 1 || p->tp < 1)
        return bad(ck, "plan has %d devices, %d nodes, tensor-parallel groups of %d: expected at least one of each", p->n_dev, p->n_node, p->tp);
    for (int d = 0; d < p->n_dev; d++) {
        if (p->dev_capacity && (p->dev_capacity[d] < 0 || p->dev_capacity[d] > p->capacity_tok))
            return bad(ck, "device %d: capacity %lld: expected 0 to %lld, the largest", d, (long long)p->dev_capacity[d], (long long)p->capacity_tok);
        if (p->dev_node[d] < 0 || p->dev_node[d] >= p->n_node)
            return bad(ck, "device %d is in node %d: the plan has nodes 0 to %d", d, (int)p->dev_node[d], p->n_node - 1);
        if (d && p->dev_node[d] < p->dev_node[d - 1])
            return bad(ck, "device %d is in node %d, after a device of node %d: devices go node by node", d, (int)p->dev_node[d], (int)p->dev_node[d - 1]);
    }
    return ZEP_OK;
}

static int check_seqs(struct check *ck, const int64_t *len, int n)
{
    const struct zep_plan *p = ck->plan;
    int64_t token = 0;

    if (p->n_seq != n)
        return bad(ck, "plan has %d sequences, expected %d", p->n_seq, n);
    for (int s = 0; s < n; s++) {
        const struct zep_plan_seq *q = &p->seq[s];

        if (len[s] < 1)
            return bad(ck, "sequence %d: %lld tokens, expected at least 1", s, (long long)len[s]);
        if (q->len != len[s])
            return bad(ck, "sequence %d: %lld tokens in the plan, expected %lld", s, (long long)q->len, (long long)len[s]);
        if (q->token0 != token)
            return bad(ck, "sequence %d: begins at token %lld, expected %lld", s, (long long)q->token0, (long long)token);
        if (q->ring < 0 || q->ring >= p->n_ring)
            return bad(ck, "sequence %d: ring %d: the plan has %d rings", s, (int)q->ring, p->n_ring);
        token += len[s];
    }
    if (p->n_token != token)
        return bad(ck, "plan has %lld tokens, expected %lld", (long long)p->n_token, (long long)token);
    return ZEP_OK;
}

static int check_range(struct check *ck, int ring, const char *what, int first, int n, int total)
{
    if (first < 0 || n < 0 || first > total || n > total - first)
        return bad(ck, "ring %d: %s [%d, %d + %d) are outside of the plan's %d", ring, what, first, first, n, total);
    return ZEP_OK;
}

static int zone_rank(int zone)
{
    return zone == ZEP_ZONE_INTER ? 0 : zone == ZEP_ZONE_INTRA ? 1 : 2;
}

/* seen: the last ring (+ 1) in which a device was a member. */
static int check_members(struct check *ck, int ring, int32_t *seen, int32_t *local)
{
    const struct zep_plan *p = ck->plan;
    const struct zep_plan_ring *r = &p->ring[ring];

    for (int m = 0; m < r->n_member; m++) {
        int d = p->member[r->member0 + m];

        if (d < 0 || d >= p->n_dev)
            return bad(ck, "ring %d: member %d is device %d: the plan has devices 0 to %d", ring, m, d, p->n_dev - 1);
        if (seen[d] == ring + 1)
            return bad(ck, "ring %d: device %d is a member twice", ring, d);
        seen[d] = ring + 1;
        if (r->zone != ZEP_ZONE_INTER && p->dev_node[d] != p->dev_node[p->member[r->member0]])
            return bad(ck, "ring %d: devices %d and %d of an intra-node ring are in nodes %d and %d", ring, (int)p->member[r->member0], d, (int)p->dev_node[p->member[r->member0]],
                       (int)p->dev_node[d]);
    }
    if (r->zone == ZEP_ZONE_LOCAL && local[p->member[r->member0]]++)
        return bad(ck, "ring %d: device %d has a second local ring", ring, (int)p->member[r->member0]);
    return ZEP_OK;
}

static int check_ring_seqs(struct check *ck, int ring, unsigned char *placed)
{
    const struct zep_plan *p = ck->plan;
    const struct zep_plan_ring *r = &p->ring[ring];

    for (int i = r->seq0; i < r->seq0 + r->n_seq; i++) {
        int s = p->ring_seq[i];

        if (s < 0 || s >= p->n_seq)
            return bad(ck, "ring %d: sequence %d: the plan has %d sequences", ring, s, p->n_seq);
        if (p->seq[s].ring != ring)
            return bad(ck, "ring %d: sequence %d says that it belongs to ring %d", ring, s, (int)p->seq[s].ring);
        if (placed[s]++)
            return bad(ck, "ring %d: sequence %d is in it twice", ring, s);
        if (p->seq[s].rot < 0 || p->seq[s].rot >= 2 * r->n_member)
            return bad(ck, "sequence %d: rot %d: expected 0 to %d in a ring of %d", s, (int)p->seq[s].rot, 2 * (int)r->n_member - 1, (int)r->n_member);
    }
    return ZEP_OK;
}

static int check_proxies(struct check *ck, int ring, const struct zep_plan_hop *hop, int32_t *seen_src, int32_t *seen_dst, int stamp)
{
    const struct zep_plan *p = ck->plan;
    const struct zep_plan_ring *r = &p->ring[ring];
    int sender = p->member[r->member0 + hop->from], receiver = p->member[r->member0 + (hop->from + 1) % r->n_member];

    for (int k = 0; k < hop->n_proxy; k++) {
        struct zep_plan_proxy x = p->proxy[hop->proxy0 + k];

        if (x.src < 0 || x.src >= p->n_dev || x.dst < 0 || x.dst >= p->n_dev)
            return bad(ck, "ring %d, hop from member %d: proxies %d -> %d: the plan has devices 0 to %d", ring, (int)hop->from, (int)x.src, (int)x.dst, p->n_dev - 1);
        if (p->dev_node[x.src] != p->dev_node[sender])
            return bad(ck, "ring %d, hop from member %d: proxy %d is in node %d, its sender %d in node %d", ring, (int)hop->from, (int)x.src, (int)p->dev_node[x.src], sender,
                       (int)p->dev_node[sender]);
        if (p->dev_node[x.dst] != p->dev_node[receiver])
            return bad(ck, "ring %d, hop from member %d: proxy %d is in node %d, its receiver %d in node %d", ring, (int)hop->from, (int)x.dst, (int)p->dev_node[x.dst], receiver,
                       (int)p->dev_node[receiver]);
        if (seen_src[x.src] == stamp || seen_dst[x.dst] == stamp)
            return bad(ck, "ring %d, hop from member %d: device %d is a proxy twice on one side", ring, (int)hop->from, seen_src[x.src] == stamp ? (int)x.src : (int)x.dst);
        seen_src[x.src] = seen_dst[x.dst] = stamp;
    }
    return ZEP_OK;
}

/* Exactly the hops between nodes are there, ascending, each with its proxies. */
static int check_hops(struct check *ck, int ring, int32_t *seen_src, int32_t *seen_dst)
{
    const struct zep_plan *p = ck->plan;
    const struct zep_plan_ring *r = &p->ring[ring];
    int h = r->hop0, rc;

    for (int m = 0; m < r->n_member; m++) {
        int a = p->member[r->member0 + m], b = p->member[r->member0 + (m + 1) % r->n_member];

        if (p->dev_node[a] == p->dev_node[b])
            continue;
        if (h == r->hop0 + r->n_hop || p->hop[h].from != m)
            return bad(ck, "ring %d: expected a hop between nodes from member %d (device %d to %d)", ring, m, a, b);
        if (p->hop[h].n_proxy < 1 || (rc = check_range(ck, ring, "proxies", p->hop[h].proxy0, p->hop[h].n_proxy, p->n_proxy)) < 0)
            return bad(ck, "ring %d, hop from member %d: %d proxies from %d: the plan has %d", ring, m, (int)p->hop[h].n_proxy, (int)p->hop[h].proxy0, p->n_proxy);
        if ((rc = check_proxies(ck, ring, &p->hop[h], seen_src, seen_dst, h + 1)) < 0)
            return rc;
        h++;
    }
    if (h != r->hop0 + r->n_hop)
        return bad(ck, "ring %d: hop from member %d is none between nodes, or is out of order", ring, (int)p->hop[h].from);
    return ZEP_OK;
}

/* What a form of transfer asks of its ring. */
static int check_form(struct check *ck, int ring)
{
    const struct zep_plan_ring *r = &ck->plan->ring[ring];
    int n_node, per_node;

    if (r->heads && (r->heads < 2 || r->n_member % r->heads))
        return bad(ck, "ring %d: heads %d: expected at least 2, dividing its %d members", ring, (int)r->heads, (int)r->n_member);
    if (r->heads && r->n_hop)
        return bad(ck, "ring %d: %d hops with proxies: a ring that exchanges heads has none", ring, (int)r->n_hop);
    if (r->form == ZEP_FORM_SINGLE)
        return ZEP_OK;
    if (r->form == ZEP_FORM_DOUBLE && r->zone != ZEP_ZONE_INTER)
        return bad(ck, "ring %d: a double ring lies between nodes, this one's zone is %d", ring, (int)r->zone);
    if (r->form == ZEP_FORM_DOUBLE && (!zep_ring_grid(ck->plan, ring, &n_node, &per_node) || n_node < 2))
        return bad(ck, "ring %d: a double ring needs the same number of members in each of at least two nodes, node by node", ring);
    if (r->n_member / zep_ring_heads(r) < 2)
        return bad(ck, "ring %d: an all-gather has %d members, expected at least 2", ring, (int)r->n_member / zep_ring_heads(r));
    if (r->n_hop)
        return bad(ck, "ring %d: %d hops with proxies: only a single ring has them", ring, (int)r->n_hop);
    return ZEP_OK;
}

static int check_ring(struct check *ck, int ring, int32_t *mark)
{
    const struct zep_plan *p = ck->plan;
    const struct zep_plan_ring *r = &p->ring[ring];
    int rc;

    if (r->zone != ZEP_ZONE_LOCAL && r->zone != ZEP_ZONE_INTRA && r->zone != ZEP_ZONE_INTER)
        return bad(ck, "ring %d: zone %d is none of local, intra-node, inter-node", ring, (int)r->zone);
    if (r->form < ZEP_FORM_SINGLE || r->form >= ZEP_N_FORM)
        return bad(ck, "ring %d: form of transfer %d is not known here", ring, (int)r->form);
    if (ring && zone_rank(r->zone) < zone_rank(p->ring[ring - 1].zone))
        return bad(ck, "ring %d: rings between nodes come first, then those in a node, then local ones", ring);
    if (r->n_member < 1 || (r->zone == ZEP_ZONE_LOCAL && r->n_member != 1))
        return bad(ck, "ring %d: %d members", ring, (int)r->n_member);
    if ((rc = check_range(ck, ring, "members", r->member0, r->n_member, p->n_member)) < 0 || (rc = check_range(ck, ring, "sequences", r->seq0, r->n_seq, p->n_seq)) < 0 ||
        (rc = check_range(ck, ring, "hops", r->hop0, r->n_hop, p->n_hop)) < 0)
        return rc;
    if ((rc = check_members(ck, ring, mark, mark + p->n_dev)) < 0)
        return rc;
    if ((rc = check_form(ck, ring)) < 0 || r->form != ZEP_FORM_SINGLE || r->heads)
        return rc;
    return check_hops(ck, ring, mark + 2 * (size_t)p->n_dev, mark + 3 * (size_t)p->n_dev);
}

static int check_rings(struct check *ck)
{
    const struct zep_plan *p = ck->plan;
    int32_t *mark = zep_calloc((size_t)p->n_dev, 4 * sizeof *mark);
    unsigned char *placed = zep_calloc((size_t)p->n_seq + 1, 1);
    int rc = ZEP_OK;

    if (!mark || !placed)
        rc = ck_nomem(ck);
    for (int r = 0; r < p->n_ring && rc == ZEP_OK; r++)
        if ((rc = check_ring(ck, r, mark)) == ZEP_OK)
            rc = check_ring_seqs(ck, r, placed);
    for (int s = 0; s < p->n_seq && rc == ZEP_OK; s++)
        if (!placed[s])
            rc = bad(ck, "sequence %d: ring %d does not list it", s, (int)p->seq[s].ring);
    free(mark);
    free(placed);
    return rc;
}

static int check_moves(struct check *ck)
{
    const struct zep_plan *p = ck->plan;
    unsigned char *role = zep_calloc((size_t)p->n_dev, 1);
    int rc = ZEP_OK;

    if (!role)
        return ck_nomem(ck);
    for (int i = 0; i < p->n_move && rc == ZEP_OK; i++) {
        const struct zep_plan_move *m = &p->move[i], *b = i ? m - 1 : NULL;

        if (m->from < 0 || m->from >= p->n_dev || m->to < 0 || m->to >= p->n_dev || m->from == m->to)
            rc = bad(ck, "move %d: from device %d to %d: expected two different devices of 0 to %d", i, (int)m->from, (int)m->to, p->n_dev - 1);
        else if (m->n < 1)
            rc = bad(ck, "move %d: from device %d to %d: %lld tokens, expected at least 1", i, (int)m->from, (int)m->to, (long long)m->n);
        else if (b && (m->from < b->from || (m->from == b->from && m->to <= b->to)))
            rc = bad(ck, "move %d: from device %d to %d comes after %d to %d: expected ascending order", i, (int)m->from, (int)m->to, (int)b->from, (int)b->to);
        else if ((role[m->from] |= 1) == 3 || (role[m->to] |= 2) == 3)
            rc = bad(ck, "move %d: device %d sends and receives moves", i, role[m->from] == 3 ? (int)m->from : (int)m->to);
    }
    free(role);
    return rc;
}

int ck_plan(struct check *ck, const int64_t *len, int n)
{
    int rc;

    if ((rc = check_devices(ck)) < 0 || (rc = check_seqs(ck, len, n)) < 0 || (rc = check_rings(ck)) < 0)
        return rc;
    return check_moves(ck);
}
