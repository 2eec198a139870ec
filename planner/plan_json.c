/* "zeppelin-plan/1.1" (1.0 knew single rings only; 1.2, written where devices have capacities of their own, has these; 1.3, written where heads are exchanged, that): what a plan decides; what follows from it (token numbers, slots, totals) is not written. Manual: zeppelin-plan(5). */
#include "config.h"
#include "planner/plan.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/format.h"

static void list32(struct zep_buf *b, const char *key, const int32_t *x, int n)
{
    zep_buf_printf(b, "\"%s\": [", key);
    for (int i = 0; i < n; i++)
        zep_buf_printf(b, "%s%d", i ? ", " : "", x[i]);
    zep_buf_puts(b, "]");
}

static void put_ring(struct zep_buf *b, const struct zep_plan *p, const struct zep_plan_ring *r)
{
    zep_buf_printf(b, "{\"zone\": \"%s\", \"form\": \"%s\", ", zep_zone_names[r->zone], zep_form_names[r->form]);
    if (r->heads)
        zep_buf_printf(b, "\"heads\": %d, ", r->heads);
    list32(b, "members", &p->member[r->member0], r->n_member);
    zep_buf_puts(b, ", ");
    list32(b, "sequences", &p->ring_seq[r->seq0], r->n_seq);
    zep_buf_puts(b, ", \"hops\": [");
    for (int h = r->hop0; h < r->hop0 + r->n_hop; h++) {
        zep_buf_printf(b, "%s{\"from\": %d, \"proxies\": [", h > r->hop0 ? ", " : "", p->hop[h].from);
        for (int k = 0; k < p->hop[h].n_proxy; k++)
            zep_buf_printf(b, "%s[%d, %d]", k ? ", " : "", p->proxy[p->hop[h].proxy0 + k].src, p->proxy[p->hop[h].proxy0 + k].dst);
        zep_buf_puts(b, "]}");
    }
    zep_buf_puts(b, "]}");
}

static int exchanges_heads(const struct zep_plan *p)
{
    for (int i = 0; i < p->n_ring; i++)
        if (p->ring[i].heads)
            return 1;
    return 0;
}

int zep_plan_to_json(const struct zep_plan *p, struct zep_buf *b, struct zep_error *err)
{
    zep_buf_printf(b, "{\n  \"format\": \"zeppelin-plan/1.%d\",\n", exchanges_heads(p) ? 3 : p->dev_capacity ? 2 : 1);
    zep_buf_printf(b, "  \"method\": \"%s\",\n  \"ranks_per_device\": %d,\n  \"capacity_tok\": %" PRId64 ",\n  \"nodes\": %d,\n  ", p->method, p->tp, p->capacity_tok, p->n_node);
    list32(b, "device_node", p->dev_node, p->n_dev);
    if (p->dev_capacity)
        zep_buf_puts(b, ",\n  \"device_capacity_tok\": [");
    for (int d = 0; d < p->n_dev && p->dev_capacity; d++)
        zep_buf_printf(b, "%s%" PRId64, d ? ", " : "", p->dev_capacity[d]);
    zep_buf_puts(b, p->dev_capacity ? "],\n  \"sequences\": [" : ",\n  \"sequences\": [");
    for (int i = 0; i < p->n_seq; i++)
        zep_buf_printf(b, "%s\n    {\"len\": %" PRId64 ", \"rot\": %d}", i ? "," : "", p->seq[i].len, p->seq[i].rot);
    zep_buf_puts(b, p->n_seq ? "\n  ],\n  \"rings\": [" : "],\n  \"rings\": [");
    for (int i = 0; i < p->n_ring; i++) {
        zep_buf_puts(b, i ? ",\n    " : "\n    ");
        put_ring(b, p, &p->ring[i]);
    }
    zep_buf_puts(b, p->n_ring ? "\n  ],\n  \"moves\": [" : "],\n  \"moves\": [");
    for (int i = 0; i < p->n_move; i++)
        zep_buf_printf(b, "%s\n    {\"from\": %d, \"to\": %d, \"tokens\": %" PRId64 "}", i ? "," : "", p->move[i].from, p->move[i].to, p->move[i].n);
    zep_buf_printf(b, "%s],\n  \"digest\": \"%016" PRIx64 "\"\n}\n", p->n_move ? "\n  " : "", p->digest);
    return zep_buf_ok(b, err);
}

/* --- reading --- */

struct reader {
    const char *name;
    struct zep_error *err;
};

static int bad(struct reader *r, const char *where, const char *key, const char *want)
{
    return zep_error_set(r->err, ZEP_EINVAL, "%s: %s%s%s: expected %s", r->name, where, *where ? "." : "", key, want);
}

static int get_int(struct reader *r, const char *where, const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json_t *v = json_object_get(obj, key);

    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
        char want[80];

        snprintf(want, sizeof want, "a whole number from %" PRId64 " to %" PRId64, min, max);
        return bad(r, where, key, want);
    }
    *out = json_integer_value(v);
    return ZEP_OK;
}

static int get_i32(struct reader *r, const char *where, const json_t *obj, const char *key, int32_t *out)
{
    int64_t v;
    int rc = get_int(r, where, obj, key, 0, INT32_MAX, &v);

    if (rc == ZEP_OK)
        *out = (int32_t)v;
    return rc;
}

static int get_list(struct reader *r, const char *where, const json_t *obj, const char *key, int32_t *out)
{
    const json_t *list = json_object_get(obj, key), *v;
    size_t i;

    if (!json_is_array(list))
        return bad(r, where, key, "a list of whole numbers");
    json_array_foreach(list, i, v) {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
            return bad(r, where, key, "a list of whole numbers");
        out[i] = (int32_t)json_integer_value(v);
    }
    return ZEP_OK;
}

static int get_array(struct reader *r, const json_t *root, const char *key, const json_t **out)
{
    *out = json_object_get(root, key);
    return json_is_array(*out) ? ZEP_OK : bad(r, "", key, "a list");
}

/* Counts what the lists hold, so that everything is allocated once. */
static int count(struct reader *r, const json_t *rings, struct zep_plan *p)
{
    const json_t *ring, *hop;
    size_t i, j;

    json_array_foreach(rings, i, ring) {
        const json_t *hops = json_object_get(ring, "hops");

        p->n_member += (int)json_array_size(json_object_get(ring, "members"));
        if (!json_is_array(hops))
            return bad(r, "rings", "hops", "a list");
        p->n_hop += (int)json_array_size(hops);
        json_array_foreach(hops, j, hop)
            p->n_proxy += (int)json_array_size(json_object_get(hop, "proxies"));
    }
    return ZEP_OK;
}

static int read_hops(struct reader *r, const json_t *ring, struct zep_plan *p)
{
    const json_t *hop, *pair;
    size_t i, j;
    int rc;

    json_array_foreach(json_object_get(ring, "hops"), i, hop) {
        struct zep_plan_hop *h = &p->hop[p->n_hop++];

        if ((rc = get_i32(r, "rings.hops", hop, "from", &h->from)) < 0)
            return rc;
        h->proxy0 = p->n_proxy;
        json_array_foreach(json_object_get(hop, "proxies"), j, pair) {
            int32_t two[2];

            if (json_array_size(pair) != 2)
                return bad(r, "rings.hops", "proxies", "pairs of devices");
            for (int k = 0; k < 2; k++) {
                const json_t *v = json_array_get(pair, (size_t)k);

                if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
                    return bad(r, "rings.hops", "proxies", "pairs of devices");
                two[k] = (int32_t)json_integer_value(v);
            }
            p->proxy[p->n_proxy++] = (struct zep_plan_proxy){two[0], two[1]};
        }
        h->n_proxy = p->n_proxy - h->proxy0;
    }
    return ZEP_OK;
}

static int read_ring(struct reader *r, const json_t *obj, struct zep_plan *p, int index, int *n_placed)
{
    struct zep_plan_ring *ring = &p->ring[index];
    const char *zone = json_string_value(json_object_get(obj, "zone")), *form = json_string_value(json_object_get(obj, "form"));
    int rc;

    for (int z = ZEP_ZONE_LOCAL; zone && z <= ZEP_ZONE_INTER; z++)
        if (!strcmp(zone, zep_zone_names[z]))
            ring->zone = z;
    if (!ring->zone)
        return bad(r, "rings", "zone", "local, intra or inter");
    for (int f = ZEP_FORM_SINGLE; form && f < ZEP_N_FORM; f++)
        if (!strcmp(form, zep_form_names[f]))
            ring->form = f;
    if (!ring->form)
        return bad(r, "rings", "form", "single, double or gather");
    if (json_object_get(obj, "heads") && (rc = get_i32(r, "rings", obj, "heads", &ring->heads)) < 0)
        return rc;
    ring->member0 = p->n_member;
    ring->n_member = (int)json_array_size(json_object_get(obj, "members"));
    ring->seq0 = *n_placed;
    ring->n_seq = (int)json_array_size(json_object_get(obj, "sequences"));
    if (ring->n_seq > p->n_seq - *n_placed)
        return bad(r, "rings", "sequences", "every sequence once");
    if ((rc = get_list(r, "rings", obj, "members", &p->member[ring->member0])) < 0 || (rc = get_list(r, "rings", obj, "sequences", &p->ring_seq[ring->seq0])) < 0)
        return rc;
    p->n_member += ring->n_member;
    *n_placed += ring->n_seq;
    for (int i = ring->seq0; i < *n_placed; i++) {
        if (p->ring_seq[i] >= p->n_seq || p->seq[p->ring_seq[i]].ring >= 0)
            return bad(r, "rings", "sequences", "every sequence once");
        p->seq[p->ring_seq[i]].ring = index;
    }
    ring->hop0 = p->n_hop;
    if ((rc = read_hops(r, obj, p)) < 0)
        return rc;
    ring->n_hop = p->n_hop - ring->hop0;
    return ZEP_OK;
}

static int alloc_plan(struct reader *r, struct zep_plan *p)
{
    p->dev_node = zep_calloc((size_t)p->n_dev + 1, sizeof *p->dev_node);
    p->seq = zep_calloc((size_t)p->n_seq + 1, sizeof *p->seq);
    p->ring = zep_calloc((size_t)p->n_ring + 1, sizeof *p->ring);
    p->member = zep_calloc((size_t)p->n_member + 1, sizeof *p->member);
    p->ring_seq = zep_calloc((size_t)p->n_seq + 1, sizeof *p->ring_seq);
    p->hop = zep_calloc((size_t)p->n_hop + 1, sizeof *p->hop);
    p->proxy = zep_calloc((size_t)p->n_proxy + 1, sizeof *p->proxy);
    p->move = zep_calloc((size_t)p->n_move + 1, sizeof *p->move);
    return p->dev_node && p->seq && p->ring && p->member && p->ring_seq && p->hop && p->proxy && p->move ? ZEP_OK : zep_error_nomem(r->err, "plan");
}

static int read_seqs(struct reader *r, const json_t *list, struct zep_plan *p)
{
    const json_t *v;
    size_t i;
    int rc;

    json_array_foreach(list, i, v) {
        struct zep_plan_seq *s = &p->seq[i];

        s->ring = -1;
        s->token0 = p->n_token;
        if ((rc = get_int(r, "sequences", v, "len", 1, (int64_t)1 << 40, &s->len)) < 0 || (rc = get_i32(r, "sequences", v, "rot", &s->rot)) < 0)
            return rc;
        p->n_token += s->len;
    }
    return ZEP_OK;
}

static int read_capacities(struct reader *r, const json_t *root, struct zep_plan *p)
{
    const json_t *list = json_object_get(root, "device_capacity_tok"), *v;
    size_t i;

    if (!list)
        return ZEP_OK;
    if (!json_is_array(list) || json_array_size(list) != (size_t)p->n_dev)
        return bad(r, "", "device_capacity_tok", "a list of tokens, one for each device");
    if (!(p->dev_capacity = zep_calloc((size_t)p->n_dev + 1, sizeof *p->dev_capacity)))
        return zep_error_nomem(r->err, "plan");
    json_array_foreach(list, i, v) {
        if (!json_is_integer(v))
            return bad(r, "", "device_capacity_tok", "a list of tokens, one for each device");
        p->dev_capacity[i] = json_integer_value(v);
    }
    return ZEP_OK;
}

static int read_lists(struct reader *r, const json_t *root, struct zep_plan *p)
{
    const json_t *seqs, *rings, *moves, *devs, *v;
    int n_placed = 0, rc;
    size_t i;

    if ((rc = get_array(r, root, "sequences", &seqs)) < 0 || (rc = get_array(r, root, "rings", &rings)) < 0 || (rc = get_array(r, root, "moves", &moves)) < 0 ||
        (rc = get_array(r, root, "device_node", &devs)) < 0)
        return rc;
    p->n_seq = (int)json_array_size(seqs);
    p->n_ring = (int)json_array_size(rings);
    p->n_move = (int)json_array_size(moves);
    p->n_dev = (int)json_array_size(devs);
    if ((rc = count(r, rings, p)) < 0 || (rc = alloc_plan(r, p)) < 0)
        return rc;
    p->n_member = p->n_hop = p->n_proxy = 0;
    if ((rc = get_list(r, "", root, "device_node", p->dev_node)) < 0 || (rc = read_capacities(r, root, p)) < 0 || (rc = read_seqs(r, seqs, p)) < 0)
        return rc;
    json_array_foreach(rings, i, v)
        if ((rc = read_ring(r, v, p, (int)i, &n_placed)) < 0)
            return rc;
    if (n_placed != p->n_seq)
        return bad(r, "rings", "sequences", "every sequence once");
    json_array_foreach(moves, i, v) {
        struct zep_plan_move *m = &p->move[i];

        if ((rc = get_i32(r, "moves", v, "from", &m->from)) < 0 || (rc = get_i32(r, "moves", v, "to", &m->to)) < 0 || (rc = get_int(r, "moves", v, "tokens", 1, (int64_t)1 << 40, &m->n)) < 0)
            return rc;
    }
    return ZEP_OK;
}

static int read_root(struct reader *r, const json_t *root, struct zep_plan *p)
{
    const char *format = json_string_value(json_object_get(root, "format")), *method = json_string_value(json_object_get(root, "method"));
    const char *digest = json_string_value(json_object_get(root, "digest"));
    int64_t v;
    int rc;

    if (!format)
        return bad(r, "", "format", "zeppelin-plan/1.x");
    if ((rc = zep_format_check(format, "zeppelin-plan", 1, 3, NULL, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", r->name);
    if (!method || !*method || strlen(method) >= sizeof p->method)
        return bad(r, "", "method", "the name of a method");
    strcpy(p->method, method);
    if ((rc = get_int(r, "", root, "ranks_per_device", 1, 1024, &v)) < 0)
        return rc;
    p->tp = (int)v;
    if ((rc = get_int(r, "", root, "capacity_tok", 1, INT64_MAX / 2, &p->capacity_tok)) < 0 || (rc = get_int(r, "", root, "nodes", 1, INT32_MAX, &v)) < 0)
        return rc;
    p->n_node = (int)v;
    if ((rc = read_lists(r, root, p)) < 0)
        return rc;
    if ((rc = zep_plan_finish(p, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", r->name);
    if (digest && strtoull(digest, NULL, 16) != p->digest)
        return zep_error_set(r->err, ZEP_EINVAL, "%s: digest '%.40s': the plan's content gives %016" PRIx64 ": the file was changed or damaged", r->name, digest, p->digest);
    p->unsealed = !digest;
    return ZEP_OK;
}

int zep_plan_from_json(const char *name, const char *text, size_t len, struct zep_plan **plan_out, struct zep_error *err)
{
    struct reader r = {name, err};
    struct zep_plan *p = NULL;
    json_error_t je;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    int rc;

    if (!root)
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: %s", name, je.line, je.text);
    if (!json_is_object(root))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: expected a JSON object of format zeppelin-plan/1.x", name);
    else if (!(p = zep_calloc(1, sizeof *p)))
        rc = zep_error_nomem(err, "plan");
    else
        rc = read_root(&r, root, p);
    json_decref(root);
    if (rc < 0)
        zep_plan_free(p);
    else
        *plan_out = p;
    return rc;
}
