/* Runs one loaded pass: events in the order of time, ties in the order in which they were made. */
#include "config.h"
#include "planner/sim_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

enum { EV_COMPUTE = ZEP_N_LANE }; /* else the number of the lane whose group is complete */

struct event {
    double t;
    int64_t seq;
    int32_t dev, what, span;
};

struct half { /* a transfer whose other end has not posted */
    int32_t next; /* + 1 */
    int32_t dev, send, span;
    double bytes;
};

struct lane_state {
    int32_t next;   /* group to post */
    int32_t open;   /* transfers of the posted group that are not met */
    int32_t span;   /* of the transfer that is done last */
    int in_flight;
    double t_done;
};

struct dev_state {
    struct lane_state lane[ZEP_N_LANE];
    int32_t n_done[ZEP_N_LANE], n_comp[ZEP_N_QUEUE]; /* groups complete; operations complete */
    int32_t n_begun[ZEP_N_QUEUE];
    int phase;      /* -1: linear modules; SIM_N_PHASE: done */
    int busy, queue, copied; /* queue: of the operation that runs, -1 none of a queue */
    double idle_t;  /* compute stands still since */
    double t_lane[ZEP_N_LANE]; /* end of the last group */
    double t_phase[SIM_N_PHASE + 1], wait[3], busy_s; /* end of linear and of each phase; waits for world, node, in remaps */
    double t_end;
    int32_t span_end;
};

struct sim_state {
    struct sim_pass *p;
    struct dev_state *dev;
    struct event *heap;
    int n_heap, cap_heap;
    int64_t seq;
    struct half *half;
    int n_half, cap_half, free_half;
    int keep;
    struct zep_sim_pass *out;
    int cap_span;
    double now;
};

/* --- heap --- */

static int before(const struct event *a, const struct event *b)
{
    return a->t < b->t || (a->t == b->t && a->seq < b->seq);
}

static int push(struct sim_state *s, double t, int dev, int what, int span)
{
    int i = s->n_heap;
    struct event ev = {t, s->seq++, dev, what, span};

    if (s->n_heap == s->cap_heap) {
        int cap = 2 * s->cap_heap + 64;
        struct event *heap = zep_reallocarray(s->heap, (size_t)cap, sizeof *heap);

        if (!heap)
            return zep_error_nomem(s->p->err, "simulation");
        s->heap = heap;
        s->cap_heap = cap;
    }
    s->n_heap++;
    for (; i > 0 && before(&ev, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = ev;
    return ZEP_OK;
}

static struct event pop(struct sim_state *s)
{
    struct event top = s->heap[0], last = s->heap[--s->n_heap];
    int i = 0;

    for (int child = 1; child < s->n_heap; child = 2 * i + 1) {
        if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static int add_span(struct sim_state *s, const struct zep_sim_span *span, int32_t *at_out)
{
    *at_out = -1;
    if (!s->keep)
        return ZEP_OK;
    if (s->out->n_span == s->cap_span) {
        int cap = 2 * s->cap_span + 256;
        struct zep_sim_span *a = zep_reallocarray(s->out->span, (size_t)cap, sizeof *a);

        if (!a)
            return zep_error_nomem(s->p->err, "simulation");
        s->out->span = a;
        s->cap_span = cap;
    }
    s->out->span[s->out->n_span] = *span;
    *at_out = s->out->n_span++;
    return ZEP_OK;
}

/* --- transfers --- */

/* A transfer takes its turn on a link. t: when the last of its links is done with it; behind: the transfer that it waited for there, where it did. */
static inline void use(const struct sim_state *s, struct sim_res *res, double bytes, double *t, int32_t *behind)
{
    double begin = s->now, need = bytes / res->bw;

    if (res->free_s > s->now)
        begin = res->free_s;
    res->free_s = begin + need;
    res->busy_s += need;
    if (res->free_s > *t) {
        *t = res->free_s;
        if (begin > s->now && res->last >= 0)
            *behind = res->last;
    }
}

/* Both ends are ready: when it is done. */
static int transfer(struct sim_state *s, struct sim_route *r, double bytes, int step, int32_t pred, double *t_out, int32_t *span_out)
{
    double t = s->now;
    int32_t behind = -1;
    struct zep_sim_span span = {.t0 = s->now, .dev = r->src, .peer = r->dst, .ring = -1, .step = step, .pred = pred, .kind = r->net ? ZEP_SPAN_XFER_NET : ZEP_SPAN_XFER_NODE, .bytes = bytes};
    int rc;

    for (int i = 0; i < r->n_res; i++)
        use(s, &s->p->res[r->res[i]], bytes, &t, &behind);
    for (int i = r->up0; i < r->up0 + r->n_up; i++)
        use(s, &s->p->res[s->p->up_res[i]], bytes, &t, &behind);
    span.t1 = *t_out = t + r->latency_s;
    if (behind >= 0 && s->out->span[behind].t1 <= span.t1)
        span.pred = behind;
    if ((rc = add_span(s, &span, span_out)) < 0)
        return rc;
    for (int i = 0; i < r->n_res && s->keep; i++)
        s->p->res[r->res[i]].last = *span_out;
    for (int i = r->up0; i < r->up0 + r->n_up && s->keep; i++)
        s->p->res[s->p->up_res[i]].last = *span_out;
    *(r->net ? &s->out->net_bytes : &s->out->node_bytes) += bytes;
    s->out->n_xfer++;
    return ZEP_OK;
}

static int new_half(struct sim_state *s, const struct half *h)
{
    int at = s->free_half;

    if (at) {
        s->free_half = s->half[at - 1].next;
    } else {
        if (s->n_half == s->cap_half) {
            int cap = 2 * s->cap_half + 64;
            struct half *half = zep_reallocarray(s->half, (size_t)cap, sizeof *half);

            if (!half)
                return zep_error_nomem(s->p->err, "simulation");
            s->half = half;
            s->cap_half = cap;
        }
        at = ++s->n_half;
    }
    s->half[at - 1] = *h;
    return at;
}

static int met(struct sim_state *s, int dev, int lane, double t, int32_t span)
{
    struct lane_state *l = &s->dev[dev].lane[lane];

    if (t >= l->t_done) {
        l->t_done = t;
        l->span = span;
    }
    return --l->open ? ZEP_OK : push(s, l->t_done, dev, lane, l->span);
}

static int post(struct sim_state *s, int dev, int lane, int32_t cause)
{
    struct dev_state *d = &s->dev[dev];
    const struct sim_group *g = &s->p->group[lane][s->p->dev[dev].group0[lane] + d->lane[lane].next++];
    int rc;

    d->lane[lane].in_flight = 1;
    d->lane[lane].open = g->n_xfer;
    d->lane[lane].t_done = s->now;
    d->lane[lane].span = cause;
    for (int i = g->xfer0; i < g->xfer0 + g->n_xfer; i++) {
        const struct sim_xfer *x = &s->p->xfer[i];
        struct sim_route *r = &s->p->route[x->route];
        struct half *other = r->head ? &s->half[r->head - 1] : NULL;
        int peer = x->send ? r->dst : r->src, at = r->head;
        int32_t span;
        double t;

        if (!other || other->send == x->send) {
            if ((at = new_half(s, &(struct half){0, dev, x->send, cause, x->bytes})) < 0)
                return at;
            if (r->head)
                s->half[r->tail - 1].next = at;
            else
                r->head = at;
            r->tail = at;
            continue;
        }
        if (other->bytes != x->bytes)
            return zep_error_set(s->p->err, ZEP_EINVAL, "a transfer from device %d to %d is of %.0f bytes at one end and %.0f at the other: the plan is broken (--check)", r->src, r->dst, x->bytes, other->bytes);
        r->head = other->next;
        other->next = s->free_half;
        s->free_half = at;
        if ((rc = transfer(s, r, x->bytes, d->lane[lane].next, cause, &t, &span)) < 0 || (rc = met(s, peer, lane, t, span)) < 0 || (rc = met(s, dev, lane, t, span)) < 0)
            return rc;
    }
    return ZEP_OK;
}

/* --- devices --- */

static int compute(struct sim_state *s, int dev, double cost_s, int kind, const struct sim_comp *c, int32_t cause)
{
    struct dev_state *d = &s->dev[dev];
    struct zep_sim_span span = {.t0 = s->now, .t1 = s->now + cost_s, .dev = dev, .peer = -1, .ring = c ? c->ring : -1, .step = c ? c->step : 0, .pred = cause, .kind = kind};
    int32_t at;
    int rc;

    if ((rc = add_span(s, &span, &at)) < 0)
        return rc;
    d->busy = 1;
    d->busy_s += cost_s;
    s->out->n_op++;
    return push(s, s->now + cost_s, dev, EV_COMPUTE, at);
}

static int lanes_done(const struct dev_state *d, const int32_t *wait)
{
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (wait[l] > d->n_done[l])
            return 0;
    return 1;
}

/* What a device stood still for: the lane that was done last, between nodes (0) or inside (1). */
static int waited_for(const struct dev_state *d)
{
    return d->t_lane[ZEP_LANE_WORLD] < d->t_lane[ZEP_LANE_NODE] || d->t_lane[ZEP_LANE_WORLD] < d->t_lane[ZEP_LANE_GRID];
}

/* The first queue whose head is ready: 1 begun, 0 none, negative error. */
static int begin_ready(struct sim_state *s, int dev, int32_t cause)
{
    struct dev_state *d = &s->dev[dev];
    const struct sim_dev *info = &s->p->dev[dev];

    for (int q = 0; q < ZEP_N_QUEUE; q++) {
        const struct sim_comp *c;
        int rc;

        if (d->n_begun[q] == info->n_comp[q])
            continue;
        c = &s->p->comp[info->comp0[q] + d->n_begun[q]];
        if (!lanes_done(d, c->wait))
            continue;
        d->n_begun[q]++;
        d->queue = q;
        d->wait[waited_for(d)] += s->now - d->idle_t;
        rc = compute(s, dev, c->cost_s, c->is_add ? ZEP_SPAN_ADD : ZEP_SPAN_ATTN, c, cause);
        return rc < 0 ? rc : 1;
    }
    return 0;
}

static int may_post(const struct sim_state *s, int dev, int lane)
{
    const struct dev_state *d = &s->dev[dev];
    const struct sim_dev *info = &s->p->dev[dev];
    const struct sim_group *g;

    if (d->lane[lane].in_flight || d->lane[lane].next >= info->end_group[lane][d->phase])
        return 0;
    if ((d->phase == ZEP_PHASE_HEADS_IN || d->phase == ZEP_PHASE_HEADS_OUT) && info->copy_s[d->phase] > 0 && (!d->copied || d->busy)) /* heads are packed first */
        return 0;
    g = &s->p->group[lane][info->group0[lane] + d->lane[lane].next];
    for (int q = 0; q < ZEP_N_QUEUE; q++)
        if (d->n_comp[q] < g->after[q])
            return 0;
    return lanes_done(d, g->wait);
}

static int phase_done(const struct sim_state *s, int dev)
{
    const struct dev_state *d = &s->dev[dev];
    const struct sim_dev *info = &s->p->dev[dev];

    if (d->busy)
        return 0;
    for (int l = 0; l < ZEP_N_LANE; l++)
        if (d->lane[l].in_flight || d->lane[l].next < info->end_group[l][d->phase])
            return 0;
    for (int q = 0; q < ZEP_N_QUEUE && d->phase == ZEP_PHASE_ATTN; q++)
        if (d->n_comp[q] < info->n_comp[q])
            return 0;
    return d->copied || info->copy_s[d->phase] <= 0;
}

static int advance(struct sim_state *s, int dev, int32_t cause)
{
    struct dev_state *d = &s->dev[dev];
    const struct sim_dev *info = &s->p->dev[dev];
    int rc;

    while (d->phase < SIM_N_PHASE) {
        for (int l = 0; l < ZEP_N_LANE; l++)
            if (may_post(s, dev, l) && (rc = post(s, dev, l, cause)) < 0)
                return rc;
        if (!d->busy && !d->copied && info->copy_s[d->phase] > 0) {
            d->copied = 1;
            d->queue = -1;
            if ((rc = compute(s, dev, info->copy_s[d->phase], ZEP_SPAN_COPY, NULL, cause)) < 0)
                return rc;
        } else if (!d->busy && d->phase == ZEP_PHASE_ATTN && (rc = begin_ready(s, dev, cause)) < 0) {
            return rc;
        }
        if (!phase_done(s, dev))
            return ZEP_OK;
        if (d->phase == ZEP_PHASE_IN || d->phase == ZEP_PHASE_OUT)
            d->wait[2] += s->now - d->idle_t;
        else if (s->now > d->idle_t)
            d->wait[waited_for(d)] += s->now - d->idle_t;
        d->idle_t = s->now;
        d->copied = 0;
        d->t_phase[++d->phase] = s->now;
        d->t_end = s->now;
        d->span_end = cause;
    }
    return ZEP_OK;
}

static int on_event(struct sim_state *s, const struct event *ev)
{
    struct dev_state *d = &s->dev[ev->dev];

    s->now = ev->t;
    if (ev->what == EV_COMPUTE) {
        d->busy = 0;
        d->idle_t = s->now;
        if (d->phase < 0) {
            d->phase = 0;
            d->t_phase[0] = s->now;
        } else if (d->queue >= 0) {
            d->n_comp[d->queue]++;
        }
    } else {
        d->lane[ev->what].in_flight = 0;
        d->n_done[ev->what]++;
        d->t_lane[ev->what] = s->now;
    }
    return advance(s, ev->dev, ev->span);
}

static void summarise(struct sim_state *s, double *dev_busy)
{
    const struct zep_view *v = s->p->view;
    struct zep_sim_pass *out = s->out;
    const struct dev_state *last;
    double sum = 0, work = 0, speed = 0;

    out->busiest_nic = out->busiest_up = -1;
    for (int d = 0; d < s->p->plan->n_dev; d++) {
        if (s->dev[d].t_end > out->time_s) {
            out->time_s = s->dev[d].t_end;
            out->last_dev = d;
        }
        out->compute_max_s = s->dev[d].busy_s > out->compute_max_s ? s->dev[d].busy_s : out->compute_max_s;
        sum += s->dev[d].busy_s;
        work += s->dev[d].busy_s * zep_view_speed(v, d);
        speed += zep_view_speed(v, d);
        dev_busy[d] += s->dev[d].busy_s;
    }
    out->compute_mean_s = sum / s->p->plan->n_dev;
    out->compute_even_s = work / speed;
    last = &s->dev[out->last_dev];
    out->linear_s = last->t_phase[0];
    out->remap_in_s = last->t_phase[1] - last->t_phase[0];
    out->attn_s = last->t_phase[ZEP_PHASE_ATTN + 1] - last->t_phase[ZEP_PHASE_ATTN];
    out->heads_s = last->t_phase[ZEP_PHASE_HEADS_IN + 1] - last->t_phase[ZEP_PHASE_HEADS_IN] + last->t_phase[ZEP_PHASE_HEADS_OUT + 1] - last->t_phase[ZEP_PHASE_HEADS_OUT];
    out->remap_out_s = last->t_phase[ZEP_PHASE_OUT + 1] - last->t_phase[ZEP_PHASE_OUT];
    out->wait_net_s = last->wait[0];
    out->wait_node_s = last->wait[1];
    out->wait_remap_s = last->wait[2];
    for (int i = 0; i < s->p->n_res; i++) {
        double busy = s->p->res[i].busy_s;

        if (i < 2 * v->n_dev) {
            out->port_busy_s = busy > out->port_busy_s ? busy : out->port_busy_s;
        } else if (i >= 2 * v->n_dev + 2 * v->n_nic) {
            if (busy > out->up_busy_s) {
                out->up_busy_s = busy;
                out->busiest_up = (i - 2 * v->n_dev - 2 * v->n_nic) % v->n_up;
            }
        } else if (busy > out->nic_busy_s) {
            out->nic_busy_s = busy;
            out->busiest_nic = (i - 2 * v->n_dev) % v->n_nic;
        }
    }
}

int sim_run(struct sim_pass *p, const struct zep_sim_opts *opts, struct zep_sim_pass *out, double *dev_busy)
{
    struct sim_state s = {.p = p, .keep = opts && opts->spans, .out = out};
    int rc = ZEP_OK, n_done = 0;

    if (!(s.dev = zep_calloc((size_t)p->plan->n_dev + 1, sizeof *s.dev)))
        return zep_error_nomem(p->err, "simulation");
    for (int d = 0; d < p->plan->n_dev && rc == ZEP_OK; d++) {
        s.dev[d].phase = -1;
        s.dev[d].queue = -1;
        rc = compute(&s, d, p->dev[d].linear_s, ZEP_SPAN_LINEAR, NULL, -1);
    }
    while (rc == ZEP_OK && s.n_heap) {
        struct event ev = pop(&s);

        rc = on_event(&s, &ev);
    }
    for (int d = 0; d < p->plan->n_dev; d++)
        n_done += s.dev[d].phase == SIM_N_PHASE;
    if (rc == ZEP_OK && n_done < p->plan->n_dev)
        rc = zep_error_set(p->err, ZEP_EINVAL, "%d of %d devices wait for ever: the plan is broken (--check)", p->plan->n_dev - n_done, p->plan->n_dev);
    if (rc == ZEP_OK)
        summarise(&s, dev_busy);
    free(s.dev);
    free(s.heap);
    free(s.half);
    return rc;
}
