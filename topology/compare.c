/* What is different: a node from its siblings, one topology from another. */
#include "config.h"
#include "topology/topo_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/digest.h"
#include "common/hostlist.h"
#include "common/units.h"

/* --- differences of two nodes, in words: told of b, compared with a --- */

struct tell {
    int (*fn)(void *arg, const char *text);
    void *arg;
    const char *than; /* "on its siblings", "before" */
    int n;
};

static int say(struct tell *t, const char *fmt, ...) ZEP_PRINTF(2, 3);

static int say(struct tell *t, const char *fmt, ...)
{
    char text[700];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->n++;
    return t->fn(t->arg, text);
}

static const char *or_unknown(const char *s)
{
    return s ? s : "unknown";
}

static int tell_int(struct tell *t, const char *what, int now, int other, int unknown)
{
    char a[24] = "unknown", b[24] = "unknown";

    if (now == other)
        return 0;
    if (now != unknown)
        snprintf(a, sizeof a, "%d", now);
    if (other != unknown)
        snprintf(b, sizeof b, "%d", other);
    return say(t, "%s %s, %s %s", what, a, b, t->than);
}

static int tell_text(struct tell *t, const char *what, const char *now, const char *other)
{
    return now == other || (now && other && !strcmp(now, other)) ? 0 : say(t, "%s '%s', '%s' %s", what, or_unknown(now), or_unknown(other), t->than);
}

static int tell_bw(struct tell *t, const char *what, const struct zep_fact *now, const struct zep_fact *other)
{
    char a[ZEP_UNIT_BUF] = "unknown", b[ZEP_UNIT_BUF] = "unknown";

    if (now->value == other->value)
        return 0;
    if ((now->source == ZEP_SRC_MEASURED || other->source == ZEP_SRC_MEASURED) && now->value > 0.9 * other->value && other->value > 0.9 * now->value)
        return 0; /* measurements scatter */
    if (now->source != ZEP_SRC_NONE)
        zep_format_bandwidth(now->value, a);
    if (other->source != ZEP_SRC_NONE)
        zep_format_bandwidth(other->value, b);
    return say(t, "%s %s, %s %s", what, a, b, t->than);
}

static int tell_speed(struct tell *t, const char *what, double now, double other)
{
    char a[ZEP_UNIT_BUF], b[ZEP_UNIT_BUF];

    return now == other ? 0 : say(t, "%s %s, %s %s", what, zep_format_number(now, a), zep_format_number(other, b), t->than);
}

/* A key that no other machine has: a GUID, a UUID. What siblings have in common is the name, or the place. */
static int is_own(const char *key)
{
    return !strncmp(key, "H-", 2) || !strncmp(key, "MIG-", 4) || !strncmp(key, "GPU-", 4);
}

static const char *nic_key(const struct zep_node *n, int i)
{
    return is_own(n->nic[i].key) ? n->nic[i].name : n->nic[i].key;
}

static const char *device_key(const struct zep_node *n, int i, char buf[32])
{
    if (!is_own(n->device[i].key))
        return n->device[i].key;
    snprintf(buf, 32, "%s %d", n->device[i].mig ? "MIG" : "GPU", i);
    return buf;
}

static int find_nic(const struct zep_node *n, const char *key)
{
    for (int i = 0; i < n->n_nic; i++)
        if (!strcmp(nic_key(n, i), key))
            return i;
    return -1;
}

static int find_device(const struct zep_node *n, const char *key)
{
    char buf[32];

    for (int i = 0; i < n->n_device; i++)
        if (!strcmp(device_key(n, i, buf), key))
            return i;
    return -1;
}

static int tell_nic(struct tell *t, const struct zep_nic *now, const struct zep_nic *other)
{
    static const char *const state[] = {"unknown", "down", "up"};
    char what[200];
    int rc;

    if (now->up != other->up && (rc = say(t, "NIC %s (%s) is %s, %s %s", now->name, now->key, state[now->up + 1], state[other->up + 1], t->than)) < 0)
        return rc;
    snprintf(what, sizeof what, "NIC %.60s (%.60s): bandwidth", now->name, now->key);
    if ((rc = tell_bw(t, what, &now->bw, &other->bw)) < 0)
        return rc;
    snprintf(what, sizeof what, "NIC %.60s (%.60s): share of its bandwidth", now->name, now->key);
    if ((rc = tell_speed(t, what, now->speed.value > 0 ? now->speed.value : 1, other->speed.value > 0 ? other->speed.value : 1)) < 0)
        return rc;
    snprintf(what, sizeof what, "NIC %.60s (%.60s): PCIe width", now->name, now->key);
    if ((rc = tell_int(t, what, now->pcie_width, other->pcie_width, 0)) < 0)
        return rc;
    snprintf(what, sizeof what, "NIC %.60s (%.60s): name", now->name, now->key);
    if ((rc = tell_text(t, what, now->name, other->name)) < 0)
        return rc;
    snprintf(what, sizeof what, "NIC %.60s (%.60s): link", now->name, now->key);
    return tell_text(t, what, now->link, other->link);
}

static int tell_device(struct tell *t, const struct zep_node *n, const struct zep_device *now, const struct zep_node *m, const struct zep_device *other)
{
    char what[200];
    int rc;

    snprintf(what, sizeof what, "device %.100s: model", now->key);
    if ((rc = tell_text(t, what, now->model, other->model)) < 0)
        return rc;
    snprintf(what, sizeof what, "device %.100s: MIG", now->key);
    if ((rc = tell_text(t, what, now->mig, other->mig)) < 0)
        return rc;
    snprintf(what, sizeof what, "device %.100s: PCIe width", now->key);
    if ((rc = tell_int(t, what, now->pcie_width, other->pcie_width, 0)) < 0)
        return rc;
    snprintf(what, sizeof what, "device %.100s: bandwidth", now->key);
    if ((rc = tell_bw(t, what, &now->bw, &other->bw)) < 0)
        return rc;
    snprintf(what, sizeof what, "device %.100s: speed", now->key);
    if ((rc = tell_speed(t, what, zep_device_speed(n, (int)(now - n->device)), zep_device_speed(m, (int)(other - m->device)))) < 0)
        return rc;
    snprintf(what, sizeof what, "device %.100s: NIC", now->key);
    return tell_text(t, what, now->nic >= 0 ? n->nic[now->nic].name : NULL, other->nic >= 0 ? m->nic[other->nic].name : NULL);
}

static int tell_number(struct tell *t, const char *what, int now, int other)
{
    char a[24], b[24];

    snprintf(a, sizeof a, now ? "%d" : "no", now);
    snprintf(b, sizeof b, other ? "%d" : "none known", other);
    return say(t, now ? "%s %s%s, %s %s" : "%s %s%s known, %s %s", a, what, now == 1 ? "" : "s", b, t->than);
}

/* b (now) against a (other). Names, aliases and UUIDs are each node's own. */
static int tell_node(struct tell *t, const struct zep_node *a, const struct zep_node *b)
{
    char x[ZEP_UNIT_BUF], y[ZEP_UNIT_BUF], buf[32];
    double apart = (double)(a->mem_bytes > b->mem_bytes ? a->mem_bytes - b->mem_bytes : b->mem_bytes - a->mem_bytes);
    int rc;

    if ((rc = tell_text(t, "model", b->model, a->model)) < 0 || (rc = tell_int(t, "sockets", b->sockets, a->sockets, 0)) < 0 || (rc = tell_int(t, "cores a socket", b->cores_per_socket, a->cores_per_socket, 0)) < 0 ||
        (rc = tell_int(t, "threads a core", b->threads_per_core, a->threads_per_core, 0)) < 0 || (rc = tell_int(t, "NUMA domains", b->n_numa, a->n_numa, 0)) < 0)
        return rc;
    if (apart > 0.01 * (double)a->mem_bytes && (rc = say(t, "memory %s, %s %s", b->mem_bytes ? zep_format_size(b->mem_bytes, x) : "unknown", a->mem_bytes ? zep_format_size(a->mem_bytes, y) : "unknown", t->than)) < 0)
        return rc;
    if (!a->n_device && !b->n_device && (rc = tell_speed(t, "speed", zep_device_speed(b, 0), zep_device_speed(a, 0))) < 0)
        return rc;
    if (a->n_device != b->n_device && (rc = tell_number(t, "device", b->n_device, a->n_device)) < 0)
        return rc;
    for (int i = 0; i < a->n_device; i++) {
        const char *key = device_key(a, i, buf);
        int k = find_device(b, key);

        if (k < 0 && !b->n_device) /* none at all, which is said already */
            continue;
        rc = k < 0 ? say(t, "device %s is missing", key) : tell_device(t, b, &b->device[k], a, &a->device[i]);
        if (rc < 0)
            return rc;
    }
    for (int i = 0; a->n_device && i < b->n_device; i++)
        if (find_device(a, device_key(b, i, buf)) < 0 && (rc = say(t, "device %s is there, not %s", device_key(b, i, buf), t->than)) < 0)
            return rc;
    if (a->n_nic != b->n_nic && (rc = tell_number(t, "NIC", b->n_nic, a->n_nic)) < 0)
        return rc;
    for (int i = 0; i < a->n_nic; i++) {
        int k = find_nic(b, nic_key(a, i));

        if (k < 0 && !b->n_nic)
            continue;
        rc = k < 0 ? say(t, "NIC %s (%s) is missing", a->nic[i].name, a->nic[i].key) : tell_nic(t, &b->nic[k], &a->nic[i]);
        if (rc < 0)
            return rc;
    }
    for (int i = 0; a->n_nic && i < b->n_nic; i++)
        if (find_nic(a, nic_key(b, i)) < 0 && (rc = say(t, "NIC %s (%s) is there, not %s", b->nic[i].name, b->nic[i].key, t->than)) < 0)
            return rc;
    return 0;
}

/* --- siblings --- */

/* A bandwidth for comparing: measured ones are rough. */
static void put_bw(struct zep_buf *b, const struct zep_fact *f)
{
    zep_buf_printf(b, f->source == ZEP_SRC_MEASURED ? "%.0e|" : "%.17g|", f->value);
}

/* A digest of what siblings have in common; GUIDs and UUIDs are left out. */
static uint64_t digest_node(const struct zep_node *n, int fine)
{
    struct zep_buf b = ZEP_BUF_INIT;
    uint64_t h;

    zep_buf_printf(&b, "%s|%d %d %d|", n->model ? n->model : "", n->sockets, n->cores_per_socket, n->threads_per_core);
    if (!n->sockets) /* nobody looked inside: the GPUs are all that tells one make from another, storage hosts and managers among them */
        zep_buf_printf(&b, "%d %s|", n->n_device > 0, n->n_device && n->device[0].model ? n->device[0].model : "");
    if (fine) {
        zep_buf_printf(&b, "%d %d %.17g|", n->n_device, n->n_numa, n->n_device ? 1 : zep_device_speed(n, 0));
        for (int i = 0; i < n->n_device; i++) {
            char buf[32];

            zep_buf_printf(&b, "%s %s %s %d %s|", device_key(n, i, buf), n->device[i].model ? n->device[i].model : "", n->device[i].mig ? n->device[i].mig : "", n->device[i].pcie_width,
                           n->device[i].nic >= 0 ? n->nic[n->device[i].nic].name : "");
            put_bw(&b, &n->device[i].bw);
            zep_buf_printf(&b, "%.17g|", zep_device_speed(n, i));
        }
        for (int i = 0; i < n->n_nic; i++) {
            zep_buf_printf(&b, "%s %s %d %d %s|", nic_key(n, i), n->nic[i].name, n->nic[i].up, n->nic[i].pcie_width, n->nic[i].link ? n->nic[i].link : "");
            put_bw(&b, &n->nic[i].bw);
            zep_buf_printf(&b, "%.17g|", n->nic[i].speed.value > 0 ? n->nic[i].speed.value : 1);
        }
    }
    h = b.data ? zep_digest(b.data, b.len, 0) : 0;
    zep_buf_free(&b);
    return h;
}

uint64_t zep_node_digest(const struct zep_node *n)
{
    return digest_node(n, 1);
}

struct kind_of {
    uint64_t coarse, fine; /* machines of one make; exactly alike */
    int node;
};

static int cmp_kind(const void *a, const void *b)
{
    const struct kind_of *x = a, *y = b;

    if (x->coarse != y->coarse)
        return x->coarse < y->coarse ? -1 : 1;
    if (x->fine != y->fine)
        return x->fine < y->fine ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

struct sibling_tell {
    zep_sibling_fn fn;
    void *arg;
    const struct zep_topo *topo;
    int node;
};

static int tell_sibling(void *arg, const char *text)
{
    struct sibling_tell *s = arg;
    char line[1000];

    snprintf(line, sizeof line, "node '%.200s': %.700s", s->topo->node[s->node].id, text);
    return s->fn(s->arg, s->node, line);
}

/* Nodes without devices and NICs (that only a controller knows) tell little: still their cores. */
static int tell_group(const struct zep_topo *topo, const struct kind_of *k, int n, zep_sibling_fn fn, void *arg)
{
    int best = 0, best_n = 0, rc;
    char than[64], text[700];

    for (int i = 0, run; i < n; i += run) { /* the largest set of equal nodes */
        for (run = 1; i + run < n && k[i + run].fine == k[i].fine; run++)
            ;
        if (run > best_n) {
            best = i;
            best_n = run;
        }
    }
    if (best_n * 2 <= n && !topo->node[k[best].node].sockets && !topo->node[k[best].node].n_device)
        return 0; /* hosts of which the NICs are all that is known */
    if (best_n * 2 <= n) { /* no majority that could be a norm */
        snprintf(text, sizeof text, "nodes '%.200s' and '%.200s' are of one make, but not alike inside; no kind has a majority of the %d", topo->node[k[best].node].id, topo->node[k[best ? 0 : best_n].node].id, n);
        return fn(arg, k[best].node, text);
    }
    snprintf(than, sizeof than, best_n == 1 ? "on its sibling" : "on its %d siblings", best_n);
    for (int i = 0; i < n; i++) {
        struct sibling_tell s = {fn, arg, topo, k[i].node};
        struct tell t = {tell_sibling, &s, than, 0};

        if (k[i].fine != k[best].fine && (rc = tell_node(&t, &topo->node[k[best].node], &topo->node[k[i].node])) < 0)
            return rc;
    }
    return 0;
}

int zep_topo_siblings(const struct zep_topo *topo, zep_sibling_fn fn, void *arg, struct zep_error *err)
{
    struct kind_of *k = zep_calloc((size_t)topo->n_node + 1, sizeof *k);
    int rc = 0;

    if (!k)
        return zep_error_nomem(err, "siblings");
    for (int i = 0; i < topo->n_node; i++)
        k[i] = (struct kind_of){digest_node(&topo->node[i], 0), digest_node(&topo->node[i], 1), i};
    qsort(k, (size_t)topo->n_node, sizeof *k, cmp_kind);
    for (int i = 0, n; i < topo->n_node && rc >= 0; i += n) {
        for (n = 1; i + n < topo->n_node && k[i + n].coarse == k[i].coarse; n++)
            ;
        rc = tell_group(topo, &k[i], n, fn, arg);
    }
    free(k);
    return rc < 0 ? rc : ZEP_OK;
}

/* --- two topologies --- */

struct diff {
    const struct zep_topo *a, *b;
    struct zep_buf *out;
    struct zep_error *err;
    int *of_b; /* [b->n_node] node of a, -1: new */
};

struct change { /* a node and all that changed on it, as one text */
    char *text;
    int node;
};

static int add_text(void *arg, const char *text)
{
    struct zep_buf *b = arg;

    zep_buf_printf(b, "%s%s", b->len ? "; " : "", text);
    return 0;
}

static int cmp_change(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    int c = strcmp(a->text, b->text);

    return c ? c : (a->node > b->node) - (a->node < b->node);
}

/* Nodes of one change are folded: "nodes n[1-3]: ..." */
static int put_folded(struct diff *d, const struct zep_topo *t, const struct change *c, int n, const char *fmt)
{
    const char **name = zep_calloc((size_t)n, sizeof *name);
    char *folded = NULL;
    int rc;

    if (!name)
        return zep_error_nomem(d->err, "difference");
    for (int i = 0; i < n; i++)
        name[i] = t->node[c[i].node].id;
    if ((rc = zep_hostlist_fold(n, name, &folded, d->err)) == ZEP_OK)
        zep_buf_printf(d->out, fmt, n == 1 ? "node" : "nodes", folded, c[0].text);
    free(folded);
    free(name);
    return rc;
}

static int put_changes(struct diff *d, const struct zep_topo *t, struct change *c, int n, const char *fmt)
{
    int rc = ZEP_OK;

    qsort(c, (size_t)n, sizeof *c, cmp_change);
    for (int i = 0, run; i < n && rc == ZEP_OK; i += run) {
        for (run = 1; i + run < n && !strcmp(c[i + run].text, c[i].text); run++)
            ;
        rc = put_folded(d, t, &c[i], run, fmt);
    }
    for (int i = 0; i < n; i++)
        free(c[i].text);
    return rc;
}

static int find_in(const struct zep_names *names, const struct zep_shorts *shorts, const struct zep_node *n)
{
    int at = zep_names_find(names, n->id);

    for (int k = 0; at < 0 && k < n->n_alias; k++)
        at = zep_names_find(names, n->alias[k]);
    return at < 0 ? zep_shorts_find(shorts, names, n->id) : at;
}

static int diff_nodes(struct diff *d)
{
    struct change *changed = zep_calloc((size_t)d->b->n_node + 1, sizeof *changed), *added = zep_calloc((size_t)d->b->n_node + 1, sizeof *added), *gone = zep_calloc((size_t)d->a->n_node + 1, sizeof *gone);
    struct zep_names *na = NULL, *nb = NULL;
    struct zep_shorts *sa = NULL, *sb = NULL;
    char *matched = zep_calloc((size_t)d->a->n_node + 1, 1);
    int n_changed = 0, n_added = 0, n_gone = 0, rc;

    if (!changed || !added || !gone || !matched)
        rc = zep_error_nomem(d->err, "difference");
    else if ((rc = zep_names_new(d->a, &na, d->err)) == ZEP_OK && (rc = zep_names_new(d->b, &nb, d->err)) == ZEP_OK && (rc = zep_shorts_new(d->a, &sa, d->err)) == ZEP_OK)
        rc = zep_shorts_new(d->b, &sb, d->err);
    for (int i = 0; i < d->b->n_node && rc == ZEP_OK; i++) {
        int at = d->of_b[i] = find_in(na, sa, &d->b->node[i]);
        struct zep_buf text = ZEP_BUF_INIT;
        struct tell t = {add_text, &text, "before", 0};

        if (at < 0) {
            added[n_added] = (struct change){strdup(""), i};
            rc = added[n_added++].text ? ZEP_OK : zep_error_nomem(d->err, "difference");
            continue;
        }
        matched[at] = 1;
        tell_text(&t, "state", d->b->node[i].state, d->a->node[at].state);
        tell_node(&t, &d->a->node[at], &d->b->node[i]);
        changed[n_changed].node = i;
        if (text.len && (rc = zep_buf_steal(&text, &changed[n_changed].text, d->err)) == ZEP_OK)
            n_changed++;
        zep_buf_free(&text);
    }
    for (int i = 0; i < d->a->n_node && rc == ZEP_OK; i++)
        if (!matched[i] && find_in(nb, sb, &d->a->node[i]) < 0) {
            gone[n_gone] = (struct change){strdup(""), i};
            rc = gone[n_gone++].text ? ZEP_OK : zep_error_nomem(d->err, "difference");
        }
    if (rc == ZEP_OK && (rc = put_changes(d, d->a, gone, n_gone, "- %s %s%s\n")) == ZEP_OK && (rc = put_changes(d, d->b, added, n_added, "+ %s %s%s\n")) == ZEP_OK)
        rc = put_changes(d, d->b, changed, n_changed, "~ %s %s: %s\n");
    zep_names_free(na);
    zep_names_free(nb);
    zep_shorts_free(sa);
    zep_shorts_free(sb);
    free(matched);
    free(changed);
    free(added);
    free(gone);
    return rc;
}

static int find_fabric(const struct zep_topo *t, const char *name)
{
    for (int i = 0; i < t->n_fabric; i++)
        if (!strcmp(t->fabric[i].name, name))
            return i;
    return -1;
}

/* The only fabric of a kind that the other topology has none of by name, -1: none, or several. */
static int only_fabric(const struct zep_topo *t, enum zep_fabric_kind kind, const struct zep_topo *other)
{
    int at = -1;

    for (int i = 0; i < t->n_fabric; i++) {
        if (t->fabric[i].kind != kind || find_fabric(other, t->fabric[i].name) >= 0)
            continue;
        if (at >= 0)
            return -1;
        at = i;
    }
    return at;
}

/* Which fabric of `other` is t's: by name; else where one of a kind is left on both sides, each source has a name of its own for the same one. */
static int pair_of(const struct zep_topo *t, int fabric, const struct zep_topo *other)
{
    const struct zep_fabric *f = &t->fabric[fabric];
    int at = find_fabric(other, f->name);

    return at >= 0 || only_fabric(t, f->kind, other) != fabric ? at : only_fabric(other, f->kind, t);
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

/* Nodes and parents of a switch as sorted text, for comparing. of: the names that other nodes have for these. */
static int switch_text(const struct zep_topo *t, const struct zep_fabric *f, const struct zep_switch *s, const struct zep_topo *other, const int *of, char **nodes, char **parents, struct zep_error *err)
{
    size_t n = (size_t)(s->n_node > s->n_parent ? s->n_node : s->n_parent) + 1;
    const char **name = zep_calloc(n, sizeof *name);
    int rc;

    *nodes = *parents = NULL;
    if (!name)
        return zep_error_nomem(err, "difference");
    for (int i = 0; i < s->n_node; i++)
        name[i] = of && of[s->node[i]] >= 0 ? other->node[of[s->node[i]]].id : t->node[s->node[i]].id;
    zep_sort_names(name, s->n_node);
    if ((rc = zep_hostlist_fold(s->n_node, name, nodes, err)) == ZEP_OK) {
        for (int i = 0; i < s->n_parent; i++)
            name[i] = last_part(f->sw[s->parent[i]].name);
        zep_sort_names(name, s->n_parent);
        rc = zep_hostlist_fold(s->n_parent, name, parents, err);
    }
    free(name);
    return rc;
}

static int diff_switch(struct diff *d, const struct zep_fabric *fa, const struct zep_switch *a, const struct zep_fabric *fb, const struct zep_switch *b)
{
    char *na = NULL, *nb = NULL, *pa = NULL, *pb = NULL, x[ZEP_UNIT_BUF], y[ZEP_UNIT_BUF];
    int rc;

    if ((rc = switch_text(d->a, fa, a, NULL, NULL, &na, &pa, d->err)) == ZEP_OK && (rc = switch_text(d->b, fb, b, d->a, d->of_b, &nb, &pb, d->err)) == ZEP_OK) {
        if (strcmp(na, nb))
            zep_buf_printf(d->out, "~ fabric %s, switch %s: nodes '%s', '%s' before\n", fb->name, b->name, nb, na);
        if (strcmp(pa, pb))
            zep_buf_printf(d->out, "~ fabric %s, switch %s: below '%s', '%s' before\n", fb->name, b->name, pb, pa);
        if (a->uplink_bw.value != b->uplink_bw.value)
            zep_buf_printf(d->out, "~ fabric %s, switch %s: uplinks %s, %s before\n", fb->name, b->name, b->uplink_bw.value > 0 ? zep_format_bandwidth(b->uplink_bw.value, x) : "unknown",
                           a->uplink_bw.value > 0 ? zep_format_bandwidth(a->uplink_bw.value, y) : "unknown");
    }
    free(na);
    free(nb);
    free(pa);
    free(pb);
    return rc;
}

/* The switch of f that is the named one: by name, else the only one of the same last part (labels make paths: "spine1/leaf2" is "leaf2"). -1: none. */
static int find_switch(const struct zep_fabric *f, const struct zep_switch_index *index, const char *name)
{
    int at = zep_switch_index_find(index, name), n = 0;

    if (at >= 0)
        return at;
    for (int i = 0; i < f->n_switch; i++)
        if ((strchr(name, '/') || strchr(f->sw[i].name, '/')) && !strcmp(last_part(f->sw[i].name), last_part(name))) {
            at = i;
            n++;
        }
    return n == 1 ? at : -1;
}

static int diff_fabric(struct diff *d, const struct zep_fabric *a, const struct zep_fabric *b)
{
    struct zep_switch_index *ia = NULL, *ib = NULL;
    int rc;

    if (a->kind != b->kind)
        zep_buf_printf(d->out, "~ fabric %s: %s, %s before\n", b->name, zep_fabric_kind_names[b->kind], zep_fabric_kind_names[a->kind]);
    if ((rc = zep_switch_index_new(a, &ia, d->err)) == ZEP_OK)
        rc = zep_switch_index_new(b, &ib, d->err);
    for (int i = 0; i < a->n_switch && rc == ZEP_OK; i++) {
        int at = find_switch(b, ib, a->sw[i].name);

        if (at < 0)
            zep_buf_printf(d->out, "- fabric %s: switch %s\n", a->name, a->sw[i].name);
        else
            rc = diff_switch(d, a, &a->sw[i], b, &b->sw[at]);
    }
    for (int i = 0; i < b->n_switch && rc == ZEP_OK; i++)
        if (find_switch(a, ia, b->sw[i].name) < 0)
            zep_buf_printf(d->out, "+ fabric %s: switch %s\n", b->name, b->sw[i].name);
    zep_switch_index_free(ia);
    zep_switch_index_free(ib);
    return rc;
}

int zep_topo_diff(const struct zep_topo *a, const struct zep_topo *b, struct zep_buf *out, struct zep_error *err)
{
    struct diff d = {a, b, out, err, zep_calloc((size_t)b->n_node + 1, sizeof(int))};
    char x[ZEP_UNIT_BUF], y[ZEP_UNIT_BUF];
    int rc = d.of_b ? diff_nodes(&d) : zep_error_nomem(err, "difference");

    for (int i = 0; i < a->n_fabric && rc == ZEP_OK; i++) {
        const struct zep_fabric *f = &a->fabric[i];
        int at = pair_of(a, i, b);

        if (at < 0) {
            zep_buf_printf(out, "- fabric %s (%s of %d switches)\n", f->name, zep_fabric_kind_names[f->kind], f->n_switch);
            continue;
        }
        if (strcmp(f->name, b->fabric[at].name))
            zep_buf_printf(out, "~ fabric %s: named %s before\n", b->fabric[at].name, f->name);
        rc = diff_fabric(&d, f, &b->fabric[at]);
    }
    for (int i = 0; i < b->n_fabric && rc == ZEP_OK; i++)
        if (pair_of(b, i, a) < 0)
            zep_buf_printf(out, "+ fabric %s (%s of %d switches)\n", b->fabric[i].name, zep_fabric_kind_names[b->fabric[i].kind], b->fabric[i].n_switch);
    free(d.of_b);
    if (rc == ZEP_OK && a->net_latency_s.value != b->net_latency_s.value)
        zep_buf_printf(out, "~ latency between nodes %s, %s before\n", b->net_latency_s.value > 0 ? zep_format_time(b->net_latency_s.value, x) : "unknown",
                       a->net_latency_s.value > 0 ? zep_format_time(a->net_latency_s.value, y) : "unknown");
    return rc == ZEP_OK ? zep_buf_ok(out, err) : rc;
}

/* --- conflicts, folded --- */

/* "node n1, NIC x" without the name of the node: ", NIC x". NULL: it is not of a node. */
static const char *rest_of(const char *where, char name[256])
{
    size_t len;

    if (strncmp(where, "node ", 5))
        return NULL;
    len = strcspn(where + 5, ",");
    snprintf(name, 256, "%.*s", (int)len, where + 5);
    return where + 5 + len;
}

static int same_conflict(const struct zep_conflict *a, const struct zep_conflict *b)
{
    char x[256], y[256];
    const char *ra = rest_of(a->where, x), *rb = rest_of(b->where, y);

    return ra && rb && !strcmp(ra, rb) && !strcmp(a->what, b->what) && !strcmp(a->kept, b->kept) && !strcmp(a->lost, b->lost) && a->kept_source == b->kept_source && a->lost_source == b->lost_source;
}

static int fold_where(const struct zep_topo *t, int first, char *done, char **where_out, struct zep_error *err)
{
    char (*name)[256] = zep_calloc((size_t)t->n_conflict, sizeof *name), *folded = NULL;
    const char **list = zep_calloc((size_t)t->n_conflict, sizeof *list), *rest;
    struct zep_buf b = ZEP_BUF_INIT;
    int n = 0, rc = name && list ? ZEP_OK : zep_error_nomem(err, "conflicts");

    for (int i = first; i < t->n_conflict && rc == ZEP_OK; i++)
        if (!done[i] && same_conflict(&t->conflict[first], &t->conflict[i])) {
            done[i] = 1;
            rest_of(t->conflict[i].where, name[n]);
            list[n] = name[n];
            n++;
        }
    if (rc == ZEP_OK && (rc = zep_hostlist_fold(n, list, &folded, err)) == ZEP_OK) {
        rest = rest_of(t->conflict[first].where, name[0]);
        zep_buf_printf(&b, "%s %s%s", n == 1 ? "node" : "nodes", folded, rest);
        rc = zep_buf_steal(&b, where_out, err);
    }
    free(folded);
    free(list);
    free(name);
    return rc;
}

int zep_topo_fold_conflicts(const struct zep_topo *t, int most, zep_conflict_fn fn, void *arg, struct zep_error *err)
{
    char *done = zep_calloc((size_t)t->n_conflict + 1, 1), text[64];
    int rc = done ? ZEP_OK : zep_error_nomem(err, "conflicts"), n = 0, left = 0;

    for (int i = 0; i < t->n_conflict && rc >= 0; i++) {
        char *where = NULL, name[256];

        if (done[i])
            continue;
        if (n++ >= most) {
            left += !done[i];
            continue;
        }
        done[i] = 0;
        if (!rest_of(t->conflict[i].where, name))
            rc = fn(arg, t->conflict[i].where, &t->conflict[i]);
        else if ((rc = fold_where(t, i, done, &where, err)) == ZEP_OK)
            rc = fn(arg, where, &t->conflict[i]);
        done[i] = 1;
        free(where);
    }
    if (left && rc >= 0) {
        struct zep_conflict rest = t->conflict[t->n_conflict - 1];

        snprintf(text, sizeof text, "and %d more, the last of", left);
        rc = fn(arg, text, &rest);
    }
    free(done);
    return rc < 0 ? rc : ZEP_OK;
}
