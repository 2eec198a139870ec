/* A topology for people: equal nodes are shown once. */
#include "config.h"
#include "topology/topo_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"
#include "common/units.h"

#define MAX_SWITCHES 40
#define MAX_CONFLICTS 40

static int same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static int same_speed(const struct zep_fact *a, const struct zep_fact *b)
{
    return (a->source == ZEP_SRC_NONE) == (b->source == ZEP_SRC_NONE) && (a->source == ZEP_SRC_NONE || a->value == b->value);
}

/* "4 GPUs h100 at 450GB/s, 4 GPUs a100": a word for each kind. */
static void put_devices(const struct zep_node *n, struct zep_buf *b)
{
    char text[ZEP_UNIT_BUF];

    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];
        int count = 0, first = -1;

        for (int k = 0; k < n->n_device && (first < 0 || first == i); k++) {
            const struct zep_device *o = &n->device[k];

            if (o->kind != d->kind || !same_text(o->model, d->model) || !same_text(o->mig, d->mig) || !same_speed(&o->bw, &d->bw) || zep_device_speed(n, k) != zep_device_speed(n, i))
                continue;
            first = first < 0 ? k : first;
            count++;
        }
        if (first != i)
            continue;
        zep_buf_printf(b, "%s%d %s%s%s%s", b->len ? ", " : "", count, d->kind == ZEP_DEV_CPU ? "CPU slot" : "GPU", count == 1 ? "" : "s", d->model ? " " : "", d->model ? d->model : "");
        if (d->mig)
            zep_buf_printf(b, " (MIG slice%s %s)", count == 1 ? "" : "s", d->mig);
        if (d->bw.source != ZEP_SRC_NONE)
            zep_buf_printf(b, " at %s", zep_format_bandwidth(d->bw.value, text));
        if (zep_device_speed(n, i) != 1)
            zep_buf_printf(b, " (computing at %s of its speed)", zep_format_number(zep_device_speed(n, i), text));
    }
}

static void put_nic_counts(const struct zep_node *n, struct zep_buf *b)
{
    char text[ZEP_UNIT_BUF];

    for (int i = 0; i < n->n_nic; i++) {
        int count = 0, first = -1;

        for (int k = 0; k < n->n_nic && (first < 0 || first == i); k++) {
            if (!same_speed(&n->nic[k].bw, &n->nic[i].bw) || !same_speed(&n->nic[k].speed, &n->nic[i].speed))
                continue;
            first = first < 0 ? k : first;
            count++;
        }
        if (first != i)
            continue;
        zep_buf_printf(b, "%s%d NIC%s", b->len ? ", " : "", count, count == 1 ? "" : "s");
        if (n->nic[i].bw.source != ZEP_SRC_NONE)
            zep_buf_printf(b, " at %s", zep_format_bandwidth(n->nic[i].bw.value, text));
        if (n->nic[i].speed.source != ZEP_SRC_NONE && n->nic[i].speed.value != 1)
            zep_buf_printf(b, " (slow: %s of it)", zep_format_number(n->nic[i].speed.value, text));
    }
}

/* What a line of the summary says of a node; nodes with equal lines are folded. */
static void node_line(const struct zep_node *n, struct zep_buf *b)
{
    char text[ZEP_UNIT_BUF];

    if (n->sockets)
        zep_buf_printf(b, "%d socket%s x %d cores", n->sockets, n->sockets == 1 ? "" : "s", n->cores_per_socket);
    if (n->threads_per_core > 1)
        zep_buf_printf(b, " x %d threads", n->threads_per_core);
    if (n->n_numa > 1)
        zep_buf_printf(b, "%s%d NUMA domains", b->len ? ", " : "", n->n_numa);
    if (n->mem_bytes)
        zep_buf_printf(b, "%smemory %.4g GB", b->len ? ", " : "", (double)n->mem_bytes / 1e9);
    if (!n->n_device && zep_device_speed(n, 0) != 1)
        zep_buf_printf(b, "%scomputing at %s of its speed", b->len ? ", " : "", zep_format_number(zep_device_speed(n, 0), text));
    put_devices(n, b);
    put_nic_counts(n, b);
    if (n->model)
        zep_buf_printf(b, "%s%s", b->len ? ", " : "", n->model);
    if (n->resources)
        zep_buf_printf(b, "%soffers %s", b->len ? ", " : "", n->resources);
    if (n->state)
        zep_buf_printf(b, "%s%s", b->len ? ", " : "", n->state);
    if (!b->len)
        zep_buf_puts(b, "nothing known but the name");
}

static int fold(const char *const *name, int n, struct zep_buf *b, struct zep_error *err)
{
    char *text = NULL;
    int rc = zep_hostlist_fold(n, name, &text, err);

    if (rc == ZEP_OK)
        zep_buf_puts(b, text);
    free(text);
    return rc;
}

static const char *how(const struct zep_fact *f)
{
    return f->derived ? ", derived" : "";
}

/* Where each group of facts comes from. */
static void put_sources(const struct zep_node *n, struct zep_buf *b)
{
    if (!n->sockets && !n->mem_bytes && !n->state && !n->n_device && !n->n_nic && !zep_node_is_slow(n))
        return;
    zep_buf_puts(b, "    from:");
    if (n->sockets)
        zep_buf_printf(b, " cores %s;", zep_source_name(n->cpu_source));
    if (n->mem_bytes)
        zep_buf_printf(b, " memory %s;", zep_source_name(n->mem_source));
    if (n->state)
        zep_buf_printf(b, " state %s;", zep_source_name(n->state_source));
    if (n->n_device) {
        zep_buf_printf(b, " devices %s;", zep_source_name(n->device[0].source));
        if (n->device[0].bw.source != ZEP_SRC_NONE)
            zep_buf_printf(b, " their bandwidth %s%s;", zep_source_name(n->device[0].bw.source), how(&n->device[0].bw));
    }
    if (n->n_nic) {
        zep_buf_printf(b, " NICs %s;", zep_source_name(n->nic[0].source));
        if (n->nic[0].bw.source != ZEP_SRC_NONE)
            zep_buf_printf(b, " their bandwidth %s%s;", zep_source_name(n->nic[0].bw.source), how(&n->nic[0].bw));
    }
    if (zep_node_is_slow(n))
        zep_buf_printf(b, " speeds %s;", zep_source_name(zep_node_speed_source(n)));
    if (b->data[b->len - 1] == ';')
        b->data[--b->len] = '\0';
    zep_buf_puts(b, "\n");
}

/* Whether a device could as well have had this NIC. */
static int is_as_near(const struct zep_node *n, int nic)
{
    for (int i = 0; i < n->n_device; i++) {
        int have = n->device[i].nic;
        enum zep_distance d = zep_node_nic_distance(n, i, nic);

        if (have >= 0 && d != ZEP_DIST_UNKNOWN && d == zep_node_nic_distance(n, i, have))
            return 1;
    }
    return 0;
}

/* NICs that no device uses: down, slower, or far from all though others are used. */
static void put_odd_nics(const struct zep_node *n, struct zep_buf *b)
{
    int any_used = 0, rdma = 0, first = 1;
    double most = 0;

    for (int i = 0; i < n->n_nic; i++) {
        any_used |= zep_nic_is_used(n, i);
        rdma |= zep_nic_is_used(n, i) && n->nic[i].rdma == 1;
        most = n->nic[i].bw.value > most ? n->nic[i].bw.value : most;
    }
    for (int i = 0; i < n->n_nic; i++) {
        const struct zep_nic *c = &n->nic[i];
        char speed[ZEP_UNIT_BUF];

        if (c->up != 0 && (zep_nic_is_used(n, i) || (!any_used && (c->bw.value <= 0 || c->bw.value >= most))))
            continue;
        zep_buf_printf(b, "%s %s", first ? "    left out:" : ",", c->name);
        first = 0;
        if (c->up == 0)
            zep_buf_puts(b, " (down)");
        else if (c->bw.value > 0 && c->bw.value < most)
            zep_buf_printf(b, " (%s)", zep_format_bandwidth(c->bw.value, speed));
        else
            zep_buf_puts(b, rdma && c->rdma != 1 ? " (not RDMA)" : is_as_near(n, i) ? " (others are as near)" : " (nearest to no device)");
    }
    if (!first)
        zep_buf_puts(b, "\n");
}

/* The devices of a node of which the NIC is known: "GPUs by NIC: nic0: 0 1, nic1: 2 3". */
static void put_nics(const struct zep_node *n, struct zep_buf *b)
{
    int known = 0;

    for (int i = 0; i < n->n_device; i++)
        known += n->device[i].nic >= 0;
    if (!known || n->n_nic < 2)
        return;
    zep_buf_puts(b, "    devices by NIC:");
    for (int c = 0; c < n->n_nic; c++) {
        int any = 0;

        for (int i = 0; i < n->n_device; i++)
            if (n->device[i].nic == c) {
                if (!any) {
                    zep_buf_printf(b, "  %s", n->nic[c].name);
                    for (int k = 0; k < n->device[i].n_more; k++)
                        zep_buf_printf(b, "+%s", n->nic[n->device[i].more[k]].name);
                    zep_buf_puts(b, ":");
                }
                zep_buf_printf(b, " %d", i);
                any = 1;
            }
    }
    zep_buf_puts(b, "\n");
}

struct line {
    char *text;
    int node;
};

static int cmp_line(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int c = strcmp(x->text, y->text);

    return c ? c : (x->node > y->node) - (x->node < y->node);
}

static int cmp_first(const void *a, const void *b)
{
    const struct line *const *x = a, *const *y = b;

    return ((*x)->node > (*y)->node) - ((*x)->node < (*y)->node);
}

/* One block for each kind of node, in the order of their first nodes. line is sorted by text, first points to where kinds begin. */
static int put_kinds(const struct zep_topo *topo, const struct line *line, const struct line **first, const char **name, struct zep_buf *b, struct zep_error *err)
{
    int n_kind = 0, rc = ZEP_OK;

    for (int i = 0; i < topo->n_node; i++)
        if (!i || strcmp(line[i].text, line[i - 1].text))
            first[n_kind++] = &line[i];
    qsort(first, (size_t)n_kind, sizeof *first, cmp_first);
    for (int k = 0; k < n_kind && rc == ZEP_OK; k++) {
        int n = 0;

        for (const struct line *p = first[k]; p < line + topo->n_node && !strcmp(p->text, first[k]->text); p++)
            name[n++] = topo->node[p->node].id;
        zep_buf_printf(b, "  %d x ", n);
        rc = fold(name, n, b, err);
        zep_buf_printf(b, "\n    %.*s\n", (int)strcspn(first[k]->text, "\n"), first[k]->text);
        put_nics(&topo->node[first[k]->node], b);
        put_odd_nics(&topo->node[first[k]->node], b);
        put_sources(&topo->node[first[k]->node], b);
    }
    return rc;
}

static int put_nodes(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    size_t n = (size_t)topo->n_node;
    const char **name = zep_calloc(n, sizeof *name);
    struct line *line = zep_calloc(n, sizeof *line);
    const struct line **first = zep_calloc(n, sizeof *first);
    int rc = name && line && first ? ZEP_OK : zep_error_nomem(err, "text");

    for (int i = 0; i < topo->n_node && rc == ZEP_OK; i++) {
        struct zep_buf text = ZEP_BUF_INIT;

        node_line(&topo->node[i], &text);
        zep_buf_printf(&text, "\n%016llx", (unsigned long long)zep_node_digest(&topo->node[i])); /* nodes that read alike may differ inside */
        line[i].node = i;
        rc = zep_buf_steal(&text, &line[i].text, err);
    }
    if (rc == ZEP_OK) {
        qsort(line, n, sizeof *line, cmp_line);
        rc = put_kinds(topo, line, first, name, b, err);
    }
    for (size_t i = 0; line && i < n; i++)
        free(line[i].text);
    free(first);
    free(line);
    free(name);
    return rc;
}

static int put_switch(const struct zep_topo *topo, const struct zep_switch *s, const struct zep_fabric *f, struct zep_buf *b, struct zep_error *err)
{
    const char **name = zep_calloc((size_t)s->n_node + (size_t)f->n_switch + 1, sizeof *name);
    char speed[ZEP_UNIT_BUF];
    int rc = name ? ZEP_OK : zep_error_nomem(err, "text"), n = 0;

    if (rc < 0)
        return rc;
    zep_buf_printf(b, "    %s", s->name);
    if (s->uplink_bw.source != ZEP_SRC_NONE)
        zep_buf_printf(b, " (uplinks %s)", zep_format_bandwidth(s->uplink_bw.value, speed));
    zep_buf_puts(b, ": ");
    for (int k = 0; k < s->n_node; k++)
        if (k == 0 || s->node[k] != s->node[k - 1]) /* two NICs on one switch are two ports of one node */
            name[n++] = topo->node[s->node[k]].id;
    for (int k = 0; k < f->n_switch; k++)
        for (int p = 0; p < f->sw[k].n_parent; p++)
            if (&f->sw[f->sw[k].parent[p]] == s)
                name[n++] = f->sw[k].name;
    if (n)
        rc = fold(name, n, b, err);
    zep_buf_puts(b, "\n");
    free(name);
    return rc;
}

static int put_fabric(const struct zep_topo *topo, const struct zep_fabric *f, struct zep_buf *b, struct zep_error *err)
{
    int top = 0, shown = 0, rc;

    for (int i = 0; i < f->n_switch; i++)
        top = f->sw[i].level > top ? f->sw[i].level : top;
    if (f->kind == ZEP_FABRIC_BLOCKS)
        zep_buf_printf(b, "fabric %s: %d block%s", f->name, f->n_switch, f->n_switch == 1 ? "" : "s");
    else
        zep_buf_printf(b, "fabric %s: %s of %d switch%s, %d level%s", f->name, zep_fabric_kind_names[f->kind], f->n_switch, f->n_switch == 1 ? "" : "es", f->n_switch ? top + 1 : 0, top ? "s" : "");
    for (int i = 0; i < f->n_block_size; i++)
        zep_buf_printf(b, "%s%d", i ? ", " : ", sizes ", f->block_size[i]);
    zep_buf_printf(b, " (%s)\n", zep_source_name(f->source));
    for (int level = top; level >= 0; level--)
        for (int i = 0; i < f->n_switch; i++) {
            if (f->sw[i].level != level || shown++ >= MAX_SWITCHES)
                continue;
            if ((rc = put_switch(topo, &f->sw[i], f, b, err)) < 0)
                return rc;
        }
    if (shown > MAX_SWITCHES)
        zep_buf_printf(b, "    ... %d more switches\n", shown - MAX_SWITCHES);
    return ZEP_OK;
}

static int put_conflict(void *arg, const char *where, const struct zep_conflict *c)
{
    zep_buf_printf(arg, "    %s: %s: %s (%s), not %s (%s)\n", where, c->what, c->kept, zep_source_name(c->kept_source), c->lost, zep_source_name(c->lost_source));
    return 0;
}

int zep_topo_to_text(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    char text[ZEP_UNIT_BUF];
    int rc, n_dev = 0;

    for (int i = 0; i < topo->n_node; i++)
        n_dev += topo->node[i].n_device;
    zep_buf_printf(b, "%s: %d node%s", *topo->name ? topo->name : "topology", topo->n_node, topo->n_node == 1 ? "" : "s");
    if (n_dev)
        zep_buf_printf(b, ", %d device%s", n_dev, n_dev == 1 ? "" : "s");
    zep_buf_printf(b, " (%s)\n", topo->origin);
    if ((rc = put_nodes(topo, b, err)) < 0)
        return rc;
    if (topo->net_latency_s.source != ZEP_SRC_NONE)
        zep_buf_printf(b, "latency between nodes %s\n", zep_format_time(topo->net_latency_s.value, text));
    for (int i = 0; i < topo->n_fabric; i++)
        if ((rc = put_fabric(topo, &topo->fabric[i], b, err)) < 0)
            return rc;
    if (topo->n_conflict)
        zep_buf_puts(b, "facts on which sources disagree (the stronger source holds: user, measured, node, controller, site, label, preset, default):\n");
    if ((rc = zep_topo_fold_conflicts(topo, MAX_CONFLICTS, put_conflict, b, err)) < 0)
        return rc;
    return zep_buf_ok(b, err);
}
