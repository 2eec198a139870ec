/* Clusters whose devices are not all alike: how fast each plan device is beside the one that the costs are of, and how much it holds. */
#include "config.h"
#include "planner/mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/units.h"

double zep_engine_speed(const struct zep_engine *e, const struct zep_engine *reference)
{
    double attn = 4 / (reference->flops * reference->attn_fwd) + 10 / (reference->flops * reference->attn_bwd), own = 4 / (e->flops * e->attn_fwd) + 10 / (e->flops * e->attn_bwd);
    double linear = reference->flops * reference->linear / (e->flops * e->linear);

    return 2 / (own / attn + linear);
}

/* --- kinds --- */

struct kind {
    const struct zep_engine *engine;
    int n;           /* plan devices */
    double least, most; /* bytes of one, with its own memory */
};

struct mix {
    struct zep_view *view;
    const struct zep_topo *topo;
    const struct zep_engine *reference;
    int tp, by_model;
    int n_kind;
    struct kind kind[16];
    int n_marked; /* plan devices with a speed by mark */
    double slowest;
    struct zep_error *err;
};

/* Of one device of a node, or one core of a node without: its engine, speed by mark and by kind, bytes. */
static int look(const struct mix *m, const struct zep_node *n, int i, const struct zep_engine **engine, double *marked, double *bytes)
{
    const struct zep_device *dev = i < n->n_device ? &n->device[i] : NULL;
    int rc;

    *engine = m->reference;
    if (m->by_model && (rc = zep_engine_of_device(n, dev, engine, m->err)) < 0)
        return rc;
    if (!strcmp((*engine)->name, m->reference->name))
        *engine = m->reference;
    *marked = zep_device_speed(n, i);
    *bytes = (*engine)->mem_bytes;
    if (dev && dev->mem_bytes > 0 && (double)dev->mem_bytes < *bytes) /* a board with less than others of its kind */
        *bytes = (double)dev->mem_bytes;
    return ZEP_OK;
}

static void count(struct mix *m, const struct zep_engine *engine, double bytes)
{
    int k = 0;

    while (k < m->n_kind && m->kind[k].engine != engine)
        k++;
    if (k == (int)(sizeof m->kind / sizeof m->kind[0]))
        return;
    if (k == m->n_kind)
        m->kind[m->n_kind++] = (struct kind){engine, 0, bytes, bytes};
    m->kind[k].n++;
    m->kind[k].least = bytes < m->kind[k].least ? bytes : m->kind[k].least;
    m->kind[k].most = bytes > m->kind[k].most ? bytes : m->kind[k].most;
}

static int fill(struct mix *m)
{
    struct zep_view *v = m->view;

    m->slowest = 1;
    for (int n = 0; n < v->n_node; n++)
        for (int d = v->node_dev0[n]; d < v->node_dev0[n + 1]; d++) {
            const struct zep_engine *engine = NULL, *weakest = NULL;
            double speed = 0, bytes = 0, mark = 1, its_mark, its_bytes;
            int rc;

            for (int t = 0; t < m->tp; t++) {
                if ((rc = look(m, &m->topo->node[n], (d - v->node_dev0[n]) * m->tp + t, &engine, &its_mark, &its_bytes)) < 0)
                    return rc;
                if (!t || its_mark * zep_engine_speed(engine, m->reference) < speed) {
                    speed = its_mark * zep_engine_speed(engine, m->reference);
                    weakest = engine;
                    mark = its_mark;
                }
                bytes = !t || its_bytes < bytes ? its_bytes : bytes;
            }
            v->dev_speed[d] = speed;
            v->dev_mem[d] = (int64_t)(m->tp * bytes);
            count(m, weakest, bytes);
            m->n_marked += mark != 1;
            m->slowest = mark < m->slowest ? mark : m->slowest;
        }
    return ZEP_OK;
}

/* --- in words --- */

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static void say_kinds(const struct mix *m, struct zep_buf *b)
{
    const char *unit = m->tp > 1 ? "group" : "device";
    int uneven = 0;

    for (int k = 0; k < m->n_kind; k++)
        uneven |= m->kind[k].least < m->kind[k].most || m->kind[k].most != m->kind[0].most;
    for (int k = 0; k < m->n_kind && (m->n_kind > 1 || uneven); k++) {
        const struct kind *x = &m->kind[k];

        zep_buf_printf(b, "%s%d %s%s %s: ", b->len ? "; " : "", x->n, unit, plural(x->n), x->engine->name);
        if (x->engine == m->reference)
            zep_buf_puts(b, "the costs are of them");
        else
            zep_buf_printf(b, "computing at %.3g of the speed of %s (the mean of attention and linear modules, by %s)", zep_engine_speed(x->engine, m->reference), m->reference->name, "their data sheets and shares of the peak");
        if (uneven && x->least < x->most)
            zep_buf_printf(b, ", %.4g to %.4g GB", x->least / 1e9, x->most / 1e9);
        else if (uneven)
            zep_buf_printf(b, ", %.4g GB", x->most / 1e9);
    }
    if (m->n_marked)
        zep_buf_printf(b, "%s%d %s%s with a speed of %s own, the slowest at %.3g of what %s should be", b->len ? "; " : "", m->n_marked, unit, plural(m->n_marked), m->n_marked == 1 ? "its" : "their", m->slowest,
                       m->n_marked == 1 ? "it" : "they");
}

static void say_nics(const struct mix *m, struct zep_buf *b)
{
    double least = 1;
    int n = 0;

    for (int i = 0; i < m->view->n_node; i++)
        for (int c = 0; c < m->topo->node[i].n_nic; c++) {
            const struct zep_nic *nic = &m->topo->node[i].nic[c];

            if (nic->speed.source == ZEP_SRC_NONE || nic->speed.value == 1)
                continue;
            n++;
            least = nic->speed.value < least ? nic->speed.value : least;
        }
    if (n)
        zep_buf_printf(b, "%s%d NIC%s with less than the whole bandwidth, the slowest with %.3g of it", b->len ? "; " : "", n, plural(n), least);
}

int zep_view_set_speeds(struct zep_view *view, const struct zep_topo *topo, const struct zep_engine *reference, int tp, int by_model, struct zep_buf *words, struct zep_error *err)
{
    struct mix m = {.view = view, .topo = topo, .reference = reference, .tp = tp, .by_model = by_model, .err = err};
    int even = 1, rc = fill(&m);

    if (rc < 0)
        return rc;
    for (int d = 1; d < view->n_dev; d++)
        even &= view->dev_mem[d] == view->dev_mem[0];
    for (int d = 0; d < view->n_dev && even; d++) /* the costs say it */
        view->dev_mem[d] = 0;
    if (words) {
        say_kinds(&m, words);
        say_nics(&m, words);
        return zep_buf_ok(words, err);
    }
    return ZEP_OK;
}

/* --- capacity --- */

int64_t zep_fit_of(const struct zep_cost *cost, const struct zep_view *view, int dev)
{
    return zep_cost_fit(cost, zep_view_mem(view, dev) > 0 ? (double)zep_view_mem(view, dev) : cost->mem_bytes, view->n_dev);
}

static int64_t hold(const struct zep_cost *cost, const struct zep_view *view, int64_t capacity)
{
    int64_t sum = 0;

    for (int d = 0; d < view->n_dev; d++) {
        int64_t fit = zep_fit_of(cost, view, d);

        sum += fit < capacity ? fit : capacity;
    }
    return sum;
}

int zep_capacity_choose(const struct zep_cost *cost, const struct zep_view *view, int64_t n_token, int64_t asked, double slack, struct zep_capacity *out, struct zep_error *err)
{
    int64_t average = (n_token + view->n_dev - 1) / view->n_dev, lo, hi;
    struct zep_capacity c = {.least_fit = zep_fit_of(cost, view, 0)};
    double want = slack * (double)average;

    for (int d = 0; d < view->n_dev; d++) {
        int64_t fit = zep_fit_of(cost, view, d);

        c.least_fit = fit < c.least_fit ? fit : c.least_fit;
        c.most_fit = fit > c.most_fit ? fit : c.most_fit;
        c.all_fit += fit;
    }
    c.tok = asked ? asked : (int64_t)want + ((double)(int64_t)want < want);
    c.fits = asked || (c.least_fit == c.most_fit ? c.most_fit >= average : c.all_fit >= n_token);
    if (!asked && c.least_fit < c.most_fit && c.fits) { /* what small devices cannot hold, larger ones take: the least with slack over all */
        int64_t all = c.tok * view->n_dev < c.all_fit ? c.tok * view->n_dev : c.all_fit;

        for (lo = 0, hi = c.most_fit; hi - lo > 1;) {
            int64_t mid = lo + (hi - lo) / 2;

            *(hold(cost, view, mid) >= all ? &hi : &lo) = mid;
        }
        c.tok = hi;
    } else if (!asked && c.tok > c.most_fit && c.fits) {
        c.tok = c.most_fit;
    }
    if (c.least_fit < c.most_fit && c.tok > c.least_fit) {
        if (!(c.dev = zep_calloc((size_t)view->n_dev, sizeof *c.dev)))
            return zep_error_nomem(err, "capacities");
        for (int d = 0; d < view->n_dev; d++) { /* the largest devices hold what was asked for, be it too much */
            int64_t fit = zep_fit_of(cost, view, d);

            c.dev[d] = fit < c.most_fit && fit < c.tok ? fit : c.tok;
        }
    }
    *out = c;
    return ZEP_OK;
}
