#include "config.h"
#include "topology/detect.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/format.h"
#include "common/fs.h"
#include "common/process.h"
#include "topology/topo_internal.h"

/* --- writing --- */

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *node_json(const struct zep_node *n)
{
    json_t *aliases = json_array(), *devices = json_array(), *nics = json_array();

    for (int i = 0; i < n->n_alias; i++)
        json_array_append_new(aliases, json_string(n->alias[i]));
    for (int i = 0; i < n->n_nic; i++) {
        const struct zep_nic *c = &n->nic[i];

        json_array_append_new(nics, json_pack("{s:s, s:s, s:i, s:i, s:f}", "key", c->key, "name", c->name, "numa", c->numa, "up", c->up, "bandwidth_bytes_s", c->bw.value));
    }
    for (int i = 0; i < n->n_device; i++) {
        const struct zep_device *d = &n->device[i];

        json_array_append_new(devices, json_pack("{s:s, s:s, s:o, s:i, s:i, s:s, s:I, s:f}", "key", d->key, "kind", zep_dev_kind_names[d->kind], "model", text_or_null(d->model), "numa", d->numa, "nic", d->nic,
                                                 "nic_distance", zep_distance_names[d->nic_distance], "mem_bytes", (json_int_t)d->mem_bytes, "bandwidth_bytes_s", d->bw.value));
    }
    return json_pack("{s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:I, s:o, s:o}", "id", n->id, "aliases", aliases, "state", text_or_null(n->state), "sockets", n->sockets, "cores_per_socket", n->cores_per_socket,
                     "threads_per_core", n->threads_per_core, "numa_domains", n->n_numa, "mem_bytes", (json_int_t)n->mem_bytes, "nics", nics, "devices", devices);
}

static json_t *fabric_json(const struct zep_fabric *f)
{
    json_t *list = json_array();

    for (int i = 0; i < f->n_switch; i++) {
        const struct zep_switch *s = &f->sw[i];
        json_t *parents = json_array(), *nodes = json_array();

        for (int k = 0; k < s->n_parent; k++)
            json_array_append_new(parents, json_integer(s->parent[k]));
        for (int k = 0; k < s->n_node; k++)
            json_array_append_new(nodes, json_integer(s->node[k]));
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "name", s->name, "parents", parents, "nodes", nodes));
    }
    return json_pack("{s:s, s:s, s:o}", "name", f->name, "kind", zep_fabric_kind_names[f->kind], "switches", list);
}

int zep_detect_to_json(const struct zep_topo *topo, char **text_out, struct zep_error *err)
{
    json_t *nodes = json_array(), *fabrics = json_array(), *warnings = json_array(), *root;

    for (int i = 0; i < topo->n_node; i++)
        json_array_append_new(nodes, node_json(&topo->node[i]));
    for (int i = 0; i < topo->n_fabric; i++)
        json_array_append_new(fabrics, fabric_json(&topo->fabric[i]));
    for (int i = 0; i < topo->n_warning; i++)
        json_array_append_new(warnings, json_string(topo->warning[i]));
    root = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "format", "zeppelin-detect/1.0", "name", topo->name, "origin", topo->origin, "nodes", nodes, "fabrics", fabrics, "warnings", warnings);
    *text_out = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    return *text_out ? ZEP_OK : zep_error_nomem(err, "detector's output");
}

/* --- reading --- */

struct reader {
    const char *name;
    struct zep_topo *topo;
    enum zep_source source;
    struct zep_error *err;
};

static int bad(struct reader *r, const char *what)
{
    return zep_error_set(r->err, ZEP_EINVAL, "%s: %s: not as zeppelin-detect/1.0 says", r->name, what);
}

static int get_int(const json_t *j, const char *key, int unknown)
{
    const json_t *v = json_object_get(j, key);

    return json_is_integer(v) && json_integer_value(v) >= -1 && json_integer_value(v) < INT32_MAX ? (int)json_integer_value(v) : unknown;
}

static int index_of(const json_t *j, const char *key, const char *const *names)
{
    const char *s = json_string_value(json_object_get(j, key));

    for (int i = 0; s && names[i]; i++)
        if (!strcmp(names[i], s))
            return i;
    return 0;
}

static struct zep_fact get_fact(const struct reader *r, const json_t *j, const char *key)
{
    double v = json_number_value(json_object_get(j, key));

    return v > 0 ? (struct zep_fact){v, r->source} : (struct zep_fact){0, ZEP_SRC_NONE};
}

static int read_nics(struct reader *r, const json_t *list, struct zep_node *n)
{
    const json_t *j;
    size_t i;

    json_array_foreach(list, i, j) {
        const char *key = json_string_value(json_object_get(j, "key")), *name = json_string_value(json_object_get(j, "name"));
        struct zep_nic *c;

        if (!key || !name)
            return bad(r, "nics");
        if (!(c = zep_node_add_nic(n, key, name)))
            return zep_error_nomem(r->err, "topology");
        c->numa = get_int(j, "numa", -1);
        c->up = get_int(j, "up", -1);
        c->bw = get_fact(r, j, "bandwidth_bytes_s");
    }
    return ZEP_OK;
}

static int read_devices(struct reader *r, const json_t *list, struct zep_node *n)
{
    const json_t *j;
    size_t i;

    json_array_foreach(list, i, j) {
        const char *key = json_string_value(json_object_get(j, "key")), *model = json_string_value(json_object_get(j, "model"));
        struct zep_device *d;

        if (!key)
            return bad(r, "devices");
        if (!(d = zep_node_add_device(n, key, (enum zep_dev_kind)index_of(j, "kind", zep_dev_kind_names))) || (model && !(d->model = strdup(model))))
            return zep_error_nomem(r->err, "topology");
        d->numa = get_int(j, "numa", -1);
        d->nic = get_int(j, "nic", -1);
        d->nic_distance = (enum zep_distance)index_of(j, "nic_distance", zep_distance_names);
        d->mem_bytes = (int64_t)json_integer_value(json_object_get(j, "mem_bytes"));
        d->bw = get_fact(r, j, "bandwidth_bytes_s");
    }
    return ZEP_OK;
}

static int read_nodes(struct reader *r, const json_t *list)
{
    const json_t *j, *a;
    size_t i, k;
    int rc;

    json_array_foreach(list, i, j) {
        const char *id = json_string_value(json_object_get(j, "id")), *state = json_string_value(json_object_get(j, "state"));
        struct zep_node *n;

        if (!id)
            return bad(r, "nodes");
        if (!(n = zep_topo_add_node(r->topo, id)) || (state && !(n->state = strdup(state))))
            return zep_error_nomem(r->err, "topology");
        json_array_foreach(json_object_get(j, "aliases"), k, a)
            if (json_is_string(a) && zep_node_add_alias(n, json_string_value(a)) < 0)
                return zep_error_nomem(r->err, "topology");
        n->sockets = get_int(j, "sockets", 0);
        n->cores_per_socket = get_int(j, "cores_per_socket", 0);
        n->threads_per_core = get_int(j, "threads_per_core", 0);
        n->n_numa = get_int(j, "numa_domains", 0);
        n->mem_bytes = (int64_t)json_integer_value(json_object_get(j, "mem_bytes"));
        if ((rc = read_nics(r, json_object_get(j, "nics"), n)) < 0 || (rc = read_devices(r, json_object_get(j, "devices"), n)) < 0)
            return rc;
    }
    return ZEP_OK;
}

static int read_fabrics(struct reader *r, const json_t *list)
{
    const json_t *j, *s, *v;
    size_t i, k, m;

    json_array_foreach(list, i, j) {
        const char *name = json_string_value(json_object_get(j, "name"));
        struct zep_fabric *f = zep_topo_add_fabric(r->topo, name ? name : "net", (enum zep_fabric_kind)index_of(j, "kind", zep_fabric_kind_names));

        if (!f)
            return zep_error_nomem(r->err, "topology");
        json_array_foreach(json_object_get(j, "switches"), k, s) {
            const char *sw_name = json_string_value(json_object_get(s, "name"));
            struct zep_switch *sw;

            if (!sw_name)
                return bad(r, "switches");
            if (!(sw = zep_fabric_add_switch(f, sw_name)))
                return zep_error_nomem(r->err, "topology");
            json_array_foreach(json_object_get(s, "parents"), m, v)
                if (zep_switch_add_parent(sw, (int)json_integer_value(v)) < 0)
                    return zep_error_nomem(r->err, "topology");
            json_array_foreach(json_object_get(s, "nodes"), m, v)
                if (zep_switch_add_node(sw, (int)json_integer_value(v)) < 0)
                    return zep_error_nomem(r->err, "topology");
        }
    }
    return ZEP_OK;
}

static int read_root(struct reader *r, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format")), *name = json_string_value(json_object_get(root, "name")), *origin = json_string_value(json_object_get(root, "origin"));
    const json_t *w;
    size_t i;
    int rc;

    if ((rc = zep_format_check(format ? format : "", "zeppelin-detect", 1, 0, NULL, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", r->name);
    if (!(r->topo = zep_topo_new(name, origin)))
        return zep_error_nomem(r->err, "topology");
    r->source = origin && !strncmp(origin, "slurm", 5) ? ZEP_SRC_CONTROLLER : ZEP_SRC_NODE;
    if ((rc = read_nodes(r, json_object_get(root, "nodes"))) < 0 || (rc = read_fabrics(r, json_object_get(root, "fabrics"))) < 0)
        return rc;
    json_array_foreach(json_object_get(root, "warnings"), i, w)
        if (json_is_string(w) && zep_topo_warn(r->topo, "%s", json_string_value(w)) < 0)
            return zep_error_nomem(r->err, "topology");
    if ((rc = zep_topo_validate(r->topo, r->err)) < 0)
        return zep_error_prefix(r->err, "%s", r->name);
    return ZEP_OK;
}

int zep_detect_from_json(const char *name, const char *text, size_t len, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {name, NULL, ZEP_SRC_NODE, err};
    json_error_t je;
    json_t *root = json_loadb(text, len, 0, &je);
    int rc;

    if (!root)
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: %s", name, je.line, je.text);
    rc = read_root(&r, root);
    json_decref(root);
    if (rc < 0)
        zep_topo_free(r.topo);
    else
        *topo_out = r.topo;
    return rc;
}

/* --- running --- */

/* What a helper said at last, unless that is a word of a library (it begins with the program's name): then what it said first. */
static const char *telling_line(const char *helper, const char *text, size_t *len_out)
{
    const char *first = text + strspn(text, "\n \t"), *last = first;

    for (const char *p = first; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (*p != '\n')
            last = p;
    if (!strncmp(last, helper, strlen(helper)))
        last = first;
    *len_out = strcspn(last, "\n");
    if (*len_out > 1500)
        *len_out = 1500;
    return last;
}

static int helper_error(const char *helper, const struct zep_process_result *p, double time_s, struct zep_error *err)
{
    size_t len;
    const char *line = telling_line(helper, p->err, &len);

    if (p->timed_out)
        return zep_error_set(err, ZEP_ETIMEDOUT, "%s gave no answer in %.0f s", helper, time_s);
    if (p->status > 128)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s was ended by signal %d", helper, p->status - 128);
    if (len)
        return zep_error_set(err, ZEP_EUNAVAIL, "%.*s", (int)len, line);
    return zep_error_set(err, ZEP_EUNAVAIL, "%s failed (status %d) without a word", helper, p->status);
}

int zep_detect_run(const char *helper, const char *const *args, double time_s, int *absent_out, struct zep_topo **topo_out, struct zep_error *err)
{
    char *path = NULL, *argv[8] = {NULL};
    struct zep_process_result p;
    int rc, n = 0;

    *absent_out = 0;
    if (zep_fs_helper(helper, &path, err) < 0) {
        *absent_out = 1;
        return zep_error_set(err, ZEP_EUNAVAIL, "the helper %s is missing: it was not built", helper);
    }
    argv[n++] = path;
    for (; args && *args && n < 7; args++)
        argv[n++] = (char *)*args;
    if ((rc = zep_process_run(argv, time_s, &p, err)) == ZEP_OK) {
        *absent_out = !p.timed_out && p.status == 127; /* a library of it is missing here */
        rc = p.timed_out || p.status ? helper_error(helper, &p, time_s, err) : zep_detect_from_json(helper, p.out, p.out_len, topo_out, err);
        zep_process_result_free(&p);
    }
    free(path);
    return rc;
}
