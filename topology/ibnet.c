/* An InfiniBand fabric as ibnetdiscover prints it: switches, channel adapters and the cables between their ports. */
#include "config.h"
#include "topology/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
#include "topology/topo_internal.h"

enum kind { KIND_NONE = 0, KIND_SWITCH, KIND_CA, KIND_OTHER };

struct box { /* a switch or an adapter */
    char *id, *text; /* "S-0002c9...", the description */
    enum kind kind;
    int line;
    int n_cable, cap_cable;
    struct cable {
        int port, peer_port, line;
        char *peer;
        double bw; /* payload bytes/s, 0 unknown */
    } *cable;
    int n_ca, n_switch; /* ends of its cables */
    int level;          /* of a switch: 0 leaf; -1 not known yet */
    int index;          /* switch in the fabric, or NIC in its node */
    int node;           /* of an adapter, -1: none of ours */
};

struct reader {
    const char *name;
    struct zep_error *err;
    int n, cap;
    struct box *box;
    int n_strange, strange; /* lines of no known form, the first */
    int n_slow, slow;       /* cables whose last word looks like a speed and is none that is known, the line of the first */
};

static int fail(struct reader *r, int line, const char *fmt, const char *value)
{
    zep_error_set(r->err, ZEP_EINVAL, fmt, value);
    zep_error_prefix(r->err, "%s:%d", r->name, line);
    return ZEP_EINVAL;
}

/* Payload of one lane, Gb/s, after the line code. */
static double lane_gbit(const char *name)
{
    static const struct {
        const char *name;
        double gbit;
    } lanes[] = {{"SDR", 2}, {"DDR", 4}, {"QDR", 8}, {"FDR10", 10}, {"FDR", 13.64}, {"EDR", 25}, {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};

    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++)
        if (!strcmp(name, lanes[i].name))
            return lanes[i].gbit;
    return 0;
}

/* "4xHDR" as the last word of a line; else 0. */
static double speed_of(struct reader *r, const char *line, int at)
{
    const char *end = line + strlen(line), *p;
    char word[16];
    int lanes = 0, n = 0;
    double gbit;

    while (end > line && isspace((unsigned char)end[-1]))
        end--;
    for (p = end; p > line && !isspace((unsigned char)p[-1]); p--)
        ;
    if (end - p >= (long)sizeof word)
        return 0;
    snprintf(word, sizeof word, "%.*s", (int)(end - p), p);
    if (sscanf(word, "%dx%n", &lanes, &n) != 1 || !n || lanes < 1 || lanes > 16)
        return 0;
    if (!(gbit = lane_gbit(word + n)) && r->n_slow++ == 0)
        r->slow = at;
    return lanes * gbit * 1e9 / 8;
}

/* The text between the first two quotes at or after p; *end_out behind it. NULL: none. */
static char *quoted(const char *p, const char **end_out)
{
    const char *a = strchr(p, '"'), *b = a ? strchr(a + 1, '"') : NULL;

    if (!b)
        return NULL;
    *end_out = b + 1;
    return strndup(a + 1, (size_t)(b - a - 1));
}

static int add_box(struct reader *r, const char *line, enum kind kind, int at)
{
    struct box *b;
    const char *end, *hash;

    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 64;

        if (!(b = zep_reallocarray(r->box, (size_t)cap, sizeof *b)))
            return zep_error_nomem(r->err, r->name);
        r->box = b;
        r->cap = cap;
    }
    b = &r->box[r->n];
    *b = (struct box){.kind = kind, .line = at, .level = -1, .index = -1, .node = -1};
    if (!(b->id = quoted(line, &end)))
        return fail(r, at, "expected a GUID in quotes after '%.20s'", kind == KIND_SWITCH ? "Switch" : "Ca");
    r->n++;
    hash = strchr(end, '#');
    if (hash && strchr(hash, '"') && strrchr(hash, '"') > strchr(hash, '"')) { /* up to the last quote: descriptions may have some themselves */
        char *out = NULL;

        if (!(b->text = strndup(strchr(hash, '"') + 1, (size_t)(strrchr(hash, '"') - strchr(hash, '"') - 1))))
            return zep_error_nomem(r->err, r->name);
        out = b->text;
        for (const char *q = b->text; *q; q++)
            if (*q != '"')
                *out++ = *q;
        *out = '\0';
    }
    if (!b->text && !(b->text = strdup("")))
        return zep_error_nomem(r->err, r->name);
    return ZEP_OK;
}

/* [1]  "H-0c42a1..."[1](0c42a1...)   # "node1 mlx5_0" lid 5 4xHDR */
static int add_cable(struct reader *r, const char *line, int at)
{
    struct box *b = r->n ? &r->box[r->n - 1] : NULL;
    struct cable *c;
    const char *end, *open;
    char *peer;

    if (!b)
        return fail(r, at, "a port before the first Switch or Ca%s", "");
    if (b->n_cable == b->cap_cable) {
        int cap = b->cap_cable ? 2 * b->cap_cable : 8;

        if (!(c = zep_reallocarray(b->cable, (size_t)cap, sizeof *c)))
            return zep_error_nomem(r->err, r->name);
        b->cable = c;
        b->cap_cable = cap;
    }
    if (atoi(line + 1) < 1 || !strchr(line, ']'))
        return fail(r, at, "'%.30s': expected [PORT] of a cable", line);
    if (!(peer = quoted(line, &end)))
        return fail(r, at, "'%.30s': expected the other end in quotes", line);
    open = *end == '[' ? end : NULL;
    b->cable[b->n_cable++] = (struct cable){.port = atoi(line + 1), .peer_port = open ? atoi(open + 1) : 0, .line = at, .peer = peer, .bw = speed_of(r, line, at)};
    if (!open || atoi(open + 1) < 1)
        return fail(r, at, "'%.30s': expected \"PEER\"[PORT]", line);
    return ZEP_OK;
}

static int starts(const char *line, const char *word)
{
    size_t n = strlen(word);

    return !strncmp(line, word, n) && isspace((unsigned char)line[n]);
}

static int read_lines(struct reader *r, char *text)
{
    int at = 0, rc = ZEP_OK;

    for (char *line = text, *next; line && rc == ZEP_OK; line = next) {
        char *p = line;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        at++;
        p += strspn(p, " \t\r");
        if (starts(p, "Switch"))
            rc = add_box(r, p, KIND_SWITCH, at);
        else if (starts(p, "Ca"))
            rc = add_box(r, p, KIND_CA, at);
        else if (starts(p, "Rt"))
            rc = add_box(r, p, KIND_OTHER, at);
        else if (*p == '[')
            rc = add_cable(r, p, at);
        else if (*p && *p != '#' && !strchr(p, '=') && strncmp(p, "Chassis", 7) && r->n_strange++ == 0)
            r->strange = at;
    }
    return rc;
}

static int cmp_box(const void *a, const void *b)
{
    return strcmp((*(const struct box *const *)a)->id, (*(const struct box *const *)b)->id);
}

static struct box *find_box(struct box **sorted, int n, const char *id)
{
    struct box key = {.id = (char *)id}, *k = &key, **hit = bsearch(&k, sorted, (size_t)n, sizeof *sorted, cmp_box);

    return hit ? *hit : NULL;
}

/* --- names --- */

static int is_generic(const char *text)
{
    return !*text || strstr(text, "Mellanox Technologies") || strstr(text, "Infiniscale") || strstr(text, "MT25408") || (text[0] == 'M' && text[1] == 'T' && isdigit((unsigned char)text[2]));
}

/* "MF0;leaf01:MQM8700/U1": name "leaf01", and "U1" where a chassis has several chips. */
static void switch_name(const struct box *b, int with_chip, char out[200])
{
    const char *p = strchr(b->text, ';'), *colon, *slash;

    if (is_generic(b->text)) {
        snprintf(out, 200, "%.190s", b->id);
        return;
    }
    p = p ? p + 1 : b->text;
    colon = strchr(p, ':');
    slash = colon ? strchr(colon, '/') : NULL;
    snprintf(out, 200, "%.*s%s%.60s", (int)(colon ? colon - p : 100 < strlen(p) ? 100 : (long)strlen(p)), p, with_chip && slash ? "/" : "", with_chip && slash ? slash + 1 : "");
    for (char *q = out; *q; q++)
        if (isspace((unsigned char)*q))
            *q = '_';
}

static int add_switch(struct reader *r, struct zep_topo *topo, struct zep_fabric *f, struct zep_switch_index *index, struct box *b)
{
    char name[200];
    int at, rc;

    switch_name(b, 0, name);
    if (zep_switch_index_find(index, name) >= 0)
        switch_name(b, 1, name);
    if (zep_switch_index_find(index, name) >= 0)
        snprintf(name, sizeof name, "%.190s", b->id);
    if ((rc = zep_switch_index_get(index, f, name, &at, r->err)) < 0)
        return rc;
    b->index = at;
    (void)topo;
    return ZEP_OK;
}

/* "node1 mlx5_0" or "node1 HCA-1": node and NIC. */
static int add_adapter(struct reader *r, struct zep_topo *topo, struct zep_names *names, struct box *b, int *n_nameless)
{
    char host[256], nic[128], key[64];
    const char *blank = strchr(b->text, ' ');
    struct zep_nic *c;
    int rc;

    if (strstr(b->text, "Aggregation Node")) /* in-network reduction inside a switch */
        return ZEP_OK;
    snprintf(host, sizeof host, "%.*s", (int)(blank ? blank - b->text : (long)strlen(b->text)), b->text);
    snprintf(nic, sizeof nic, "%.100s", blank ? blank + 1 + strspn(blank + 1, " '") : b->id);
    nic[strcspn(nic, "' ")] = '\0';
    if (is_generic(b->text) || zep_check_hostname(host, NULL) < 0 || !strcmp(host, "localhost")) {
        ++*n_nameless;
        snprintf(host, sizeof host, "%.200s", b->id);
    }
    if ((rc = zep_names_get(names, topo, host, &b->node, r->err)) < 0)
        return rc;
    if (!*nic)
        snprintf(nic, sizeof nic, "%.100s", b->id);
    snprintf(key, sizeof key, "%.60s", b->id);
    for (int i = 0; i < topo->node[b->node].n_nic; i++)
        if (!strcmp(topo->node[b->node].nic[i].name, nic)) /* two machines of one name, or two cards of one */
            zep_topo_warn(topo, "%s:%d: node '%s' has two adapters '%s': GUIDs %s and %s", r->name, b->line, host, nic, topo->node[b->node].nic[i].key, b->id);
    b->index = topo->node[b->node].n_nic;
    for (int i = 0; i < (b->n_cable ? b->n_cable : 1); i++) { /* a port that has a cable is a NIC */
        char name[140];

        int port = b->n_cable ? b->cable[i].port : 1;

        snprintf(key, sizeof key, port > 1 ? "%.40s/%d" : "%.40s", b->id, port);
        snprintf(name, sizeof name, port > 1 ? "%.100s:%d" : "%.100s", nic, port);
        if (!(c = zep_node_add_nic(&topo->node[b->node], key, name)) || !(c->link = strdup("infiniband")) || (!strncmp(b->id, "H-", 2) && !(c->guid = strdup(b->id + 2))))
            return zep_error_nomem(r->err, "topology");
        c->rdma = 1;
        c->up = b->n_cable > 0;
        c->source = ZEP_SRC_CONTROLLER;
        if (b->n_cable && b->cable[i].bw > 0)
            c->bw = (struct zep_fact){.value = b->cable[i].bw, .source = ZEP_SRC_CONTROLLER};
    }
    return ZEP_OK;
}

/* --- levels: a leaf has adapters; above is what is further from them --- */

/* A machine for management that hangs on a spine does not make it a leaf: a spine has few adapters, many cables to switches, and below it switches that have more. */
static int is_leaf(const struct box *b, struct box **sorted, int n)
{
    int n_below = 0;

    if (!b->n_ca)
        return 0;
    if (b->n_ca * 4 >= b->n_switch)
        return 1;
    for (int i = 0; i < b->n_cable; i++) {
        const struct box *peer = find_box(sorted, n, b->cable[i].peer);

        n_below += peer && peer->kind == KIND_SWITCH && peer->n_ca > b->n_ca;
    }
    return n_below < 2;
}

static void set_levels(struct reader *r, struct box **sorted)
{
    int changed = 1;

    for (int i = 0; i < r->n; i++)
        if (r->box[i].kind == KIND_SWITCH && is_leaf(&r->box[i], sorted, r->n))
            r->box[i].level = 0;
    for (int level = 0; changed; level++) {
        changed = 0;
        for (int i = 0; i < r->n; i++)
            for (int k = 0; r->box[i].kind == KIND_SWITCH && r->box[i].level == level && k < r->box[i].n_cable; k++) {
                struct box *up = find_box(sorted, r->n, r->box[i].cable[k].peer);

                if (up && up->kind == KIND_SWITCH && up->level < 0) {
                    up->level = level + 1;
                    changed = 1;
                }
            }
    }
}

static int add_links(struct reader *r, struct box **sorted, struct zep_fabric *f, int *n_level)
{
    for (int i = 0; i < r->n; i++) {
        struct box *b = &r->box[i];

        for (int k = 0; b->kind == KIND_SWITCH && k < b->n_cable; k++) {
            const struct box *up = find_box(sorted, r->n, b->cable[k].peer);
            struct zep_switch *s = &f->sw[b->index];
            int known = 0;

            if (up && up->kind == KIND_SWITCH && up->level == b->level && b->level >= 0)
                *n_level += strcmp(b->id, up->id) < 0; /* each cable is said at both of its ends */
            if (!up || up->kind != KIND_SWITCH || up->level <= b->level || b->level < 0)
                continue;
            for (int p = 0; p < s->n_parent; p++)
                known |= s->parent[p] == up->index;
            if (!known && zep_switch_add_parent(s, up->index) < 0)
                return zep_error_nomem(r->err, "topology");
            if (b->cable[k].bw > 0)
                s->uplink_bw = (struct zep_fact){.value = s->uplink_bw.value + b->cable[k].bw, .source = ZEP_SRC_CONTROLLER, .derived = 1};
        }
        for (int k = 0; b->kind == KIND_CA && b->node >= 0 && k < b->n_cable; k++) {
            const struct box *sw = find_box(sorted, r->n, b->cable[k].peer);

            if (sw && sw->kind == KIND_SWITCH && zep_switch_add_port(&f->sw[sw->index], b->node, b->index + k) < 0)
                return zep_error_nomem(r->err, "topology");
        }
    }
    return ZEP_OK;
}

static int build(struct reader *r, struct zep_topo *topo)
{
    struct zep_fabric *f = zep_topo_add_fabric(topo, "infiniband", ZEP_FABRIC_TREE);
    struct box **sorted = zep_calloc((size_t)r->n + 1, sizeof *sorted);
    struct zep_switch_index *index = NULL;
    struct zep_names *names = NULL;
    int rc = f && sorted ? ZEP_OK : zep_error_nomem(r->err, "topology"), n_nameless = 0, n_level = 0;

    if (rc < 0 || (rc = zep_switch_index_new(f, &index, r->err)) < 0 || (rc = zep_names_new(topo, &names, r->err)) < 0)
        goto out;
    f->source = ZEP_SRC_CONTROLLER;
    for (int i = 0; i < r->n; i++)
        sorted[i] = &r->box[i];
    qsort(sorted, (size_t)r->n, sizeof *sorted, cmp_box);
    for (int i = 1; i < r->n && rc == ZEP_OK; i++)
        if (!strcmp(sorted[i - 1]->id, sorted[i]->id))
            rc = fail(r, sorted[i]->line, "'%.60s' is there twice", sorted[i]->id);
    for (int i = 0; i < r->n && rc == ZEP_OK; i++)
        for (int k = 0; k < r->box[i].n_cable; k++) {
            const struct box *peer = find_box(sorted, r->n, r->box[i].cable[k].peer);

            r->box[i].n_switch += peer && peer->kind == KIND_SWITCH;
            r->box[i].n_ca += peer && peer->kind == KIND_CA && !strstr(peer->text, "Aggregation Node");
        }
    for (int i = 0; i < r->n && rc == ZEP_OK; i++) {
        if (r->box[i].kind == KIND_SWITCH)
            rc = add_switch(r, topo, f, index, &r->box[i]);
        else if (r->box[i].kind == KIND_CA)
            rc = add_adapter(r, topo, names, &r->box[i], &n_nameless);
    }
    if (rc < 0)
        goto out;
    set_levels(r, sorted);
    if ((rc = add_links(r, sorted, f, &n_level)) < 0)
        goto out;
    if (r->n_slow)
        zep_topo_warn(topo, "%s:%d: the speed of %d cable%s is none that is known (SDR to XDR): its rate is left open", r->name, r->slow, r->n_slow, r->n_slow == 1 ? "" : "s");
    if (n_nameless)
        zep_topo_warn(topo, "%s: %d adapter%s say%s no host name: the GUID is taken", r->name, n_nameless, n_nameless == 1 ? "" : "s", n_nameless == 1 ? "s" : "");
    if (r->n_strange)
        zep_topo_warn(topo, "%s:%d: %d line%s of unknown form passed over", r->name, r->strange, r->n_strange, r->n_strange == 1 ? "" : "s");
    if (!topo->n_node)
        rc = zep_error_set(r->err, ZEP_EINVAL, "%s: no channel adapters of nodes in it", r->name);
    else
        rc = zep_fabric_settle(topo, f, n_level > 0, r->err);
    if (rc == ZEP_OK && n_level)
        zep_topo_warn(topo, "%s: %d cable%s between switches of one level %s no part of the tree", r->name, n_level, n_level == 1 ? "" : "s", n_level == 1 ? "is" : "are");
out:
    zep_names_free(names);
    zep_switch_index_free(index);
    free(sorted);
    return rc;
}

int zep_topo_is_ibnetdiscover(const char *text, size_t len)
{
    (void)len;
    return !strncmp(text, "#\n# Topology file", 17) || strstr(text, "\nswitchguid=") || !strncmp(text, "switchguid=", 11) || strstr(text, "\ncaguid=") || !strncmp(text, "vendid=", 7);
}

int zep_topo_from_ibnetdiscover(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {.name = q->file, .err = err};
    struct zep_topo *topo = NULL;
    char origin[400], *copy = strndup(q->text, q->len);
    int rc = copy ? read_lines(&r, copy) : zep_error_nomem(err, q->file);

    snprintf(origin, sizeof origin, "ibnetdiscover %.360s", q->file);
    if (rc == ZEP_OK && !(topo = zep_topo_new("fabric", origin)))
        rc = zep_error_nomem(err, "topology");
    if (rc == ZEP_OK && (rc = build(&r, topo)) == ZEP_OK && (rc = zep_topo_validate(topo, err)) < 0)
        zep_error_prefix(err, "%s", q->file);
    for (int i = 0; i < r.n; i++) {
        for (int k = 0; k < r.box[i].n_cable; k++)
            free(r.box[i].cable[k].peer);
        free(r.box[i].cable);
        free(r.box[i].id);
        free(r.box[i].text);
    }
    free(r.box);
    free(copy);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}
