/* The streams of one pass, loaded: what each operation costs, which groups it waits for, and over which links each transfer goes. */
#include "config.h"
#include "planner/sim_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "planner/sched_internal.h"

static int grow(void **array, int n, int more, int *cap, size_t size, struct zep_error *err)
{
    void *a;
    int want = *cap;

    if (n <= *cap - more)
        return ZEP_OK;
    if (more > (1 << 30) - 64 - n)
        return zep_error_nomem(err, "simulation");
    while (n > want - more)
        want = want < 1 << 29 ? 2 * want + 64 : 1 << 30;
    if (!(a = zep_reallocarray(*array, (size_t)want, size)))
        return zep_error_nomem(err, "simulation");
    *array = a;
    *cap = want;
    return ZEP_OK;
}

/* --- links --- */

static double port_bw(const struct sim_pass *p, int dev)
{
    return p->view->dev_bw[dev] > 0 ? p->view->dev_bw[dev] : p->cost->engine.port_bw * p->cost->tp;
}

static int make_resources(struct sim_pass *p)
{
    const struct zep_view *v = p->view;

    p->n_res = 2 * v->n_dev + 2 * v->n_nic + 2 * v->n_up;
    if (!(p->res = zep_calloc((size_t)p->n_res + 1, sizeof *p->res)))
        return zep_error_nomem(p->err, "simulation");
    for (int d = 0; d < v->n_dev; d++)
        p->res[d].bw = p->res[v->n_dev + d].bw = port_bw(p, d);
    for (int c = 0; c < v->n_nic; c++)
        p->res[2 * v->n_dev + c].bw = p->res[2 * v->n_dev + v->n_nic + c].bw = v->nic_bw[c];
    for (int u = 0; u < v->n_up; u++)
        p->res[2 * v->n_dev + 2 * v->n_nic + u].bw = p->res[2 * v->n_dev + 2 * v->n_nic + v->n_up + u].bw = v->up[u].unknown ? 0 : v->up[u].bw;
    for (int i = 0; i < p->n_res; i++)
        p->res[i].last = -1;
    return ZEP_OK;
}

/* A device's NIC; where none is known to be near, the node's in turn. */
static int nic_of(const struct zep_view *v, int dev)
{
    int node = v->dev_node[dev], n = v->node_nic0[node + 1] - v->node_nic0[node];

    if (v->dev_nic[dev] >= 0)
        return v->dev_nic[dev];
    for (int i = 0; i < n; i++) { /* one that another works for has nothing left */
        int nic = v->node_nic0[node] + (dev - v->node_dev0[node] + i) % n;

        if (v->nic_bw[nic] > 0)
            return nic;
    }
    return n ? v->node_nic0[node] : -1;
}

int sim_no_link(const struct zep_view *v, int node, int nic, struct zep_error *err)
{
    if (v->node_nic0[node + 1] == v->node_nic0[node])
        return zep_error_set(err, ZEP_EINVAL, "node %d has no NIC: there is no link between its devices and other nodes: the topology must say it (nics:, nic: of --synthetic), or --nodes 1 take one node alone", node);
    if (nic < 0)
        return zep_error_set(err, ZEP_EINVAL, "node %d: the bandwidth of its NICs is not known: the topology must say it (net:, bandwidth:), or zeppelin topo --measure measure it", node);
    return zep_error_set(err, ZEP_EINVAL, "node %d: the bandwidth of its NIC %d is not known: the topology must say it (net:, bandwidth:), or zeppelin topo --measure measure it", node, nic - v->node_nic0[node]);
}

/* Links above the leaf switches, as far as their bandwidth is known. */
static int add_ups(struct sim_pass *p, struct sim_route *r)
{
    const struct zep_view *v = p->view;
    int nic0 = 2 * v->n_dev, first = nic0 + 2 * v->n_nic, list[2][ZEP_VIEW_MAX_LEVEL], n[2], rc;

    zep_view_path(v, r->res[0] - nic0, r->res[1] - nic0 - v->n_nic, list[0], &n[0], list[1], &n[1]);
    if ((rc = grow((void **)&p->up_res, p->n_up_res, n[0] + n[1], &p->cap_up_res, sizeof *p->up_res, p->err)) < 0)
        return rc;
    r->up0 = p->n_up_res;
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < n[way]; i++)
            if (p->res[first + list[way][i]].bw > 0)
                p->up_res[p->n_up_res++] = first + way * v->n_up + list[way][i];
    r->n_up = p->n_up_res - r->up0;
    return ZEP_OK;
}

static int fill_route(struct sim_pass *p, struct sim_route *r)
{
    const struct zep_view *v = p->view;

    r->net = v->dev_node[r->src] != v->dev_node[r->dst];
    r->n_res = 2;
    if (!r->net) {
        r->res[0] = r->src;
        r->res[1] = v->n_dev + r->dst;
        r->latency_s = v->dev_latency_s;
        if (p->res[r->src].bw <= 0 || p->res[v->n_dev + r->dst].bw <= 0)
            return zep_error_set(p->err, ZEP_EINVAL, "devices %d and %d of node %d: the bandwidth between them is not known: the topology must say it (nvlink:, bandwidth:), or --device a file with port_bandwidth", r->src, r->dst,
                                 v->dev_node[r->src]);
        return ZEP_OK;
    }
    for (int end = 0; end < 2; end++) {
        int dev = end ? r->dst : r->src, nic = nic_of(v, dev);

        if (nic < 0 || v->nic_bw[nic] <= 0)
            return sim_no_link(v, v->dev_node[dev], nic, p->err);
        r->res[end] = 2 * v->n_dev + (end ? v->n_nic : 0) + nic;
    }
    r->latency_s = v->net_latency_s;
    return v->n_up ? add_ups(p, r) : ZEP_OK;
}

static uint32_t route_hash(int lane, int src, int dst)
{
    uint64_t x = ((uint64_t)(uint32_t)src << 34 ^ (uint64_t)(uint32_t)dst << 2 ^ (uint64_t)lane) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(x >> 32);
}

static int rehash(struct sim_pass *p)
{
    int n = p->n_bucket ? 2 * p->n_bucket : 256;
    int32_t *bucket = zep_calloc((size_t)n, sizeof *bucket);

    if (!bucket)
        return zep_error_nomem(p->err, "simulation");
    for (int i = 0; i < p->n_route; i++) {
        uint32_t h = route_hash(p->route[i].lane, p->route[i].src, p->route[i].dst) & (uint32_t)(n - 1);

        while (bucket[h])
            h = (h + 1) & (uint32_t)(n - 1);
        bucket[h] = i + 1;
    }
    free(p->bucket);
    p->bucket = bucket;
    p->n_bucket = n;
    return ZEP_OK;
}

static int get_route(struct sim_pass *p, int lane, int src, int dst)
{
    uint32_t h;
    int rc;

    if (2 * (p->n_route + 1) > p->n_bucket && (rc = rehash(p)) < 0)
        return rc;
    for (h = route_hash(lane, src, dst) & (uint32_t)(p->n_bucket - 1); p->bucket[h]; h = (h + 1) & (uint32_t)(p->n_bucket - 1)) {
        const struct sim_route *r = &p->route[p->bucket[h] - 1];

        if (r->lane == lane && r->src == src && r->dst == dst)
            return p->bucket[h] - 1;
    }
    if ((rc = grow((void **)&p->route, p->n_route, 1, &p->cap_route, sizeof *p->route, p->err)) < 0)
        return rc;
    p->route[p->n_route] = (struct sim_route){.lane = lane, .src = src, .dst = dst};
    if ((rc = fill_route(p, &p->route[p->n_route])) < 0)
        return rc;
    p->bucket[h] = ++p->n_route;
    return p->n_route - 1;
}

/* --- costs --- */

static double row_bytes(const struct zep_cost *c, struct zep_ref ref)
{
    enum zep_space space = ref.space;
    double part = ref.n_slice > 1 ? 1.0 / ref.n_slice : 1;

    if (!zep_space_is_kv(space))
        return part * c->q_row;
    if (zep_space_is_heads(space) || (space == ZEP_ATT_DKV && ref.n_slice > 1)) /* what is exchanged was summed before, or is not yet */
        return part * c->kv_row;
    return part * (space == ZEP_LIN_KV || space == ZEP_ATT_KV || space == ZEP_RING_KV || space == ZEP_PROXY_KV || space == ZEP_GATHER_KV ? c->kv_row : c->dkv_row);
}

/* What a step of a ring takes: chunks of a sequence are len / 2G tokens (where heads are exchanged, of groups, on their share of the heads). Every member's step with another's block is as large as every other one (zigzag): two chunks of queries see one of keys, or one sees two. */
static int cost_rings(struct sim_pass *p)
{
    const struct zep_plan *plan = p->plan;
    const struct zep_cost *c = p->cost;
    double pair_s = p->pass == ZEP_PASS_FWD ? c->attn_fwd_s : c->attn_bwd_s;

    p->ring_own = zep_calloc((size_t)plan->n_ring + 1, sizeof *p->ring_own);
    p->ring_other = zep_calloc((size_t)plan->n_ring + 1, sizeof *p->ring_other);
    p->ring_rest = zep_calloc((size_t)plan->n_ring + 1, sizeof *p->ring_rest);
    if (!p->ring_own || !p->ring_other || !p->ring_rest)
        return zep_error_nomem(p->err, "simulation");
    for (int i = 0; i < plan->n_ring; i++) {
        const struct zep_plan_ring *r = &plan->ring[i];
        double own = 0, other = 0, rest = 0, share = pair_s / zep_ring_heads(r);
        int g = r->n_member / zep_ring_heads(r);

        for (int k = r->seq0; k < r->seq0 + r->n_seq; k++) {
            double len = (double)plan->seq[plan->ring_seq[k]].len, chunk = len / (2.0 * g);

            if (g == 1) {
                own += zep_cost_tri(c, len);
            } else {
                own += 2 * zep_cost_tri(c, chunk) + zep_cost_rect(c, chunk, chunk);
                other += zep_cost_rect(c, 2 * chunk, chunk);
                rest += zep_cost_rect(c, chunk, (2 * g - 2) * chunk); /* gathered blocks are in one piece */
            }
        }
        p->ring_own[i] = own * share;
        p->ring_other[i] = other * share;
        p->ring_rest[i] = rest * share;
    }
    return ZEP_OK;
}

/* --- streams --- */

struct slots { /* of a device: the largest block in each space, and how many slots there are */
    int32_t n[ZEP_N_SPACE];
    int64_t rows[ZEP_N_SPACE];
};

static void note_ref(struct slots *s, struct zep_ref ref, int64_t n)
{
    if (ref.slot + 1 > s->n[ref.space])
        s->n[ref.space] = ref.slot + 1;
    if (ref.n_slice > 1)
        n = (ref.row + n + ref.n_slice - 1) / ref.n_slice - ref.row; /* in whole rows */
    if (ref.row + n > s->rows[ref.space])
        s->rows[ref.space] = ref.row + n;
}

static int load_comp(struct sim_pass *p, struct sim_dev *d, const struct zep_op *op)
{
    const struct zep_cost *c = p->cost;
    struct sim_comp *comp;
    int rc;

    if ((rc = grow((void **)&p->comp, p->n_comp, 1, &p->cap_comp, sizeof *p->comp, p->err)) < 0)
        return rc;
    comp = &p->comp[p->n_comp];
    *comp = (struct sim_comp){.ring = op->ring, .step = op->step, .is_add = op->kind == ZEP_OP_ADD};
    memcpy(comp->wait, op->wait, sizeof comp->wait);
    if (op->kind == ZEP_OP_ADD)
        comp->cost_s = c->launch_s + d->slow * (3 * (double)op->n * c->dkv_row / (op->dst.n_slice > 1 ? op->dst.n_slice : 1) / c->mem_bw);
    else
        comp->cost_s = c->launch_s + d->slow * (op->kv.space == ZEP_ATT_KV || op->kv.space == ZEP_HEAD_KV ? p->ring_own : op->kv.space == ZEP_GATHER_KV ? p->ring_rest : p->ring_other)[op->ring];
    if (!d->n_comp[op->queue])
        d->comp0[op->queue] = p->n_comp;
    else if (d->comp0[op->queue] + d->n_comp[op->queue] != p->n_comp)
        return zep_error_set(p->err, ZEP_EINVAL, "operations of a queue are not in one piece of the stream"); /* zones follow each other (sched.h) */
    d->n_comp[op->queue]++;
    p->n_comp++;
    return ZEP_OK;
}

/* Of heads that are exchanged, what is sent is packed and what is received is unpacked: each is read and written once. */
static int load_group(struct sim_pass *p, int dev, int phase, const struct zep_op *op, struct slots *slots)
{
    double packed = 0;
    struct sim_dev *d = &p->dev[dev];
    int lane = op->lane, rc;
    struct sim_group *g;

    if ((rc = grow((void **)&p->group[lane], p->n_group[lane], 1, &p->cap_group[lane], sizeof *g, p->err)) < 0 || (rc = grow((void **)&p->xfer, p->n_xfer, op->n_xfer, &p->cap_xfer, sizeof *p->xfer, p->err)) < 0)
        return rc;
    g = &p->group[lane][p->n_group[lane]];
    memcpy(g->after, op->after, sizeof g->after);
    memcpy(g->wait, op->wait, sizeof g->wait);
    g->xfer0 = p->n_xfer;
    g->n_xfer = op->n_xfer;
    for (int i = 0; i < op->n_xfer; i++) {
        const struct zep_xfer *x = &op->xfer[i];
        int route = get_route(p, lane, x->send ? dev : x->peer, x->send ? x->peer : dev);

        if (route < 0)
            return route;
        p->xfer[p->n_xfer++] = (struct sim_xfer){route, x->send, (double)x->n * row_bytes(p->cost, x->ref)};
        note_ref(slots, x->ref, x->n);
        if (x->ref.n_slice > 1 && (x->ref.space < ZEP_RING_KV || zep_space_is_heads(x->ref.space)))
            packed += p->xfer[p->n_xfer - 1].bytes;
    }
    if (packed > 0)
        d->copy_s[phase] += 2 * p->cost->launch_s + d->slow * 2 * packed / p->cost->mem_bw;
    if (!d->n_group[lane])
        d->group0[lane] = p->n_group[lane];
    d->n_group[lane]++;
    p->n_group[lane]++;
    return ZEP_OK;
}

static int load_dev(struct sim_pass *p, int dev)
{
    struct sim_dev *d = &p->dev[dev];
    const struct zep_cost *c = p->cost;
    struct slots slots = {0};
    struct zep_sched *s;
    struct zep_op op;
    int phase = 0, rc;

    d->slow = 1 / zep_view_speed(p->view, dev);
    d->linear_s = (double)p->plan->lin_tok[dev] * (p->pass == ZEP_PASS_FWD ? d->slow * c->linear_fwd_s + c->tp_fwd_s : d->slow * c->linear_bwd_s + c->tp_bwd_s);
    if ((rc = zep_sched_open(p->plan, dev, p->pass, &s, p->err)) < 0)
        return rc;
    s->no_pairs = 1;
    while ((rc = zep_sched_next(s, &op, p->err)) == 1) {
        if (op.kind == ZEP_OP_BARRIER) {
            for (; phase < (int)op.phase; phase++)
                for (int l = 0; l < ZEP_N_LANE; l++)
                    d->end_group[l][phase] = d->n_group[l];
        } else if (op.kind == ZEP_OP_COPY) {
            if (p->plan->n_move || op.src.n_slice > 1) /* where nothing moves, the layouts are one */
                d->copy_s[phase] += c->launch_s + d->slow * 2 * (double)op.n * row_bytes(c, op.src) / c->mem_bw;
        } else if (op.kind == ZEP_OP_GROUP) {
            rc = load_group(p, dev, phase, &op, &slots);
        } else {
            rc = load_comp(p, d, &op);
            note_ref(&slots, op.dkv, op.n);
        }
        if (rc < 0)
            break;
    }
    for (int l = 0; l < ZEP_N_LANE; l++)
        d->end_group[l][SIM_N_PHASE - 1] = d->n_group[l];
    for (int space = ZEP_RING_KV; space <= ZEP_GATHER_DKV; space++)
        p->buf_bytes[dev] += (double)slots.n[space] * (double)slots.rows[space] * row_bytes(c, (struct zep_ref){.space = (enum zep_space)space});
    for (int i = 0; i < s->n_ring; i++) /* the rows that were exchanged, beside those of the attention layout */
        if (s->ring[i].heads > 1)
            p->buf_bytes[dev] += (double)s->ring[i].n / s->ring[i].heads * (2 * c->q_row + (p->pass == ZEP_PASS_FWD ? c->kv_row : c->dkv_row));
    zep_sched_free(s);
    return rc;
}

int sim_load(struct sim_pass *p)
{
    int rc;

    p->dev = zep_calloc((size_t)p->plan->n_dev + 1, sizeof *p->dev);
    p->buf_bytes = zep_calloc((size_t)p->plan->n_dev + 1, sizeof *p->buf_bytes);
    if (!p->dev || !p->buf_bytes)
        return zep_error_nomem(p->err, "simulation");
    if ((rc = make_resources(p)) < 0 || (rc = cost_rings(p)) < 0)
        return rc;
    for (int d = 0; d < p->plan->n_dev; d++)
        if ((rc = load_dev(p, d)) < 0)
            return rc;
    return ZEP_OK;
}

void sim_unload(struct sim_pass *p)
{
    free(p->dev);
    free(p->comp);
    for (int l = 0; l < ZEP_N_LANE; l++)
        free(p->group[l]);
    free(p->xfer);
    free(p->route);
    free(p->bucket);
    free(p->res);
    free(p->up_res);
    free(p->ring_own);
    free(p->ring_other);
    free(p->ring_rest);
    free(p->buf_bytes);
}
