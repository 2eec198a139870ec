#include "config.h"
#include "topology/kubernetes_text.h"

#include <stdio.h>
#include <string.h>

#include "common/yaml.h"

#define MAX_DOCUMENTS 65536

/* Scalars are texts; what follows asks for texts only. */
static json_t *from_yaml(const struct zep_yaml_node *n)
{
    json_t *j;

    if (n->type == ZEP_YAML_SEQ) {
        j = json_array();
        for (int i = 0; i < n->n; i++)
            json_array_append_new(j, from_yaml(n->child[i]));
        return j;
    }
    if (n->type == ZEP_YAML_MAP) {
        j = json_object();
        for (int i = 0; i < n->n; i++)
            json_object_set_new(j, n->keys[i], from_yaml(n->child[i]));
        return j;
    }
    return n->scalar ? json_string(n->scalar) : json_null();
}

struct reader {
    const char *name;
    struct zep_error *err;
    json_t *nodes;
    int no_kind;
};

static int add_node(struct reader *r, json_t *item)
{
    const char *kind = json_string_value(json_object_get(item, "kind"));

    if (!json_is_object(item))
        return zep_error_set(r->err, ZEP_EINVAL, "%s: an item that is no object: expected what `kubectl get nodes -o json` prints", r->name);
    if (kind && strcmp(kind, "Node"))
        return zep_error_set(r->err, ZEP_EINVAL, "%s: an item of kind '%.60s': expected Node", r->name, kind);
    return json_array_append(r->nodes, item) < 0 ? zep_error_nomem(r->err, r->name) : ZEP_OK;
}

static int add_nodes(struct reader *r, json_t *items)
{
    json_t *item;
    size_t i;
    int rc;

    json_array_foreach(items, i, item)
        if ((rc = add_node(r, item)) < 0)
            return rc;
    return ZEP_OK;
}

static int add_object(struct reader *r, json_t *o)
{
    const char *kind = json_string_value(json_object_get(o, "kind")), *message = json_string_value(json_object_get(o, "message"));
    json_t *items = json_object_get(o, "items");

    if (json_is_array(o))
        return add_nodes(r, o);
    if (json_object_get(o, "switches") && json_object_get(o, "blocks"))
        return zep_error_set(r->err, ZEP_EINVAL, "%s: a model of topograph (switches and blocks), not a list of nodes: expected what `kubectl get nodes -o json` prints", r->name);
    if (kind && !strcmp(kind, "Status"))
        return zep_error_set(r->err, ZEP_EUNAVAIL, "%s: the API answered: %.300s", r->name, message ? message : "no message");
    if (kind && !strcmp(kind, "Node"))
        return add_node(r, o);
    if (!json_is_array(items))
        return zep_error_set(r->err, ZEP_EINVAL, "%s: no items: expected what `kubectl get nodes -o json` prints", r->name);
    r->no_kind |= !kind;
    return add_nodes(r, items);
}

static int line_at(const char *text, const char *p)
{
    int line = 0;

    for (; text < p; text++)
        line += *text == '\n';
    return line;
}

/* One or several values; what follows the last one's line (a prompt) is none of it. */
static int read_json(struct reader *r, const char *text, const char *begin, size_t len)
{
    const char *end = text + len, *p = begin;
    int rc = ZEP_OK, n = 0;

    while (p < end && rc == ZEP_OK && (*p == '{' || *p == '[') && n++ < MAX_DOCUMENTS) {
        json_error_t je;
        json_t *o = json_loadb(p, (size_t)(end - p), JSON_DISABLE_EOF_CHECK, &je);

        if (!o)
            return zep_error_set(r->err, ZEP_EINVAL, "%s:%d: not valid JSON: %s%s", r->name, je.line + line_at(text, p), je.text, strstr(je.text, "end of file") ? " (is the text cut?)" : "");
        rc = add_object(r, o);
        json_decref(o);
        p += je.position;
        p += strspn(p, " \t\r\n,");
    }
    return rc;
}

static int read_document(struct reader *r, const char *text, size_t len, int number)
{
    struct zep_yaml *doc = NULL;
    char name[400];
    json_t *o;
    int rc;

    snprintf(name, sizeof name, number > 1 ? "%.360s, document %d" : "%.360s", r->name, number);
    if ((rc = zep_yaml_load(name, text, len, &doc, r->err)) < 0)
        return rc;
    o = from_yaml(zep_yaml_root(doc));
    zep_yaml_free(doc);
    rc = o ? add_object(r, o) : zep_error_nomem(r->err, r->name);
    json_decref(o);
    return rc;
}

static int is_separator(const char *line)
{
    return !strncmp(line, "---", 3) && (!line[3] || strchr(" \t\r\n", line[3]));
}

static int says_something(const char *p, const char *end)
{
    for (; p < end; p++) {
        if (*p == '#')
            p = memchr(p, '\n', (size_t)(end - p)) ? (const char *)memchr(p, '\n', (size_t)(end - p)) : end - 1;
        else if (!strchr(" \t\r\n-.", *p))
            return 1;
    }
    return 0;
}

/* Documents divided by lines of "---". */
static int read_yaml(struct reader *r, const char *text, size_t len)
{
    const char *end = text + len, *begin = text;
    int rc = ZEP_OK, n = 0;

    for (const char *line = text, *next; begin < end && rc == ZEP_OK; line = next) {
        next = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
        next = next ? next + 1 : end;
        if (next < end && !is_separator(next))
            continue;
        if (says_something(begin, next)) {
            if (n++ == MAX_DOCUMENTS)
                return zep_error_set(r->err, ZEP_EINVAL, "%s: more than %d documents", r->name, MAX_DOCUMENTS);
            rc = read_document(r, begin, (size_t)(next - begin), n);
        }
        begin = next;
    }
    return rc < 0 || n ? rc : read_document(r, text, len, 1); /* says that there is none */
}

/* The first line that begins JSON, behind prompts; NULL: none. */
static const char *json_at(const char *text)
{
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *p = line + strspn(line, " \t\r\n");

        if (*p == '{' || *p == '[')
            return p;
        if (*p && *p != '$' && *p != '#' && !strstr(p, "kubectl"))
            return NULL;
        line = p;
    }
    return NULL;
}

int zep_kube_nodes(const char *name, const char *text, size_t len, json_t **nodes_out, int *no_kind, struct zep_error *err)
{
    struct reader r = {.name = name, .err = err, .nodes = json_array()};
    const char *json = json_at(text);
    int rc = r.nodes ? ZEP_OK : zep_error_nomem(err, name);

    if (rc == ZEP_OK)
        rc = json ? read_json(&r, text, json, len) : read_yaml(&r, text, len);
    if (rc == ZEP_OK && !json_array_size(r.nodes))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no nodes in the list", name);
    if (rc < 0) {
        json_decref(r.nodes);
        return rc;
    }
    *nodes_out = r.nodes;
    *no_kind = r.no_kind;
    return ZEP_OK;
}

int zep_kube_is_nodes(const char *text)
{
    const char *p;

    if (json_at(text))
        return strstr(text, "\"kind\"") && (strstr(text, "\"NodeList\"") || strstr(text, "\"Node\"") || (strstr(text, "\"List\"") && strstr(text, "\"items\"")));
    for (p = text; (p = strstr(p, "kind: Node")); p++)
        if (!p[10] || strchr(" \t\r\n", p[10]))
            return 1;
    return strstr(text, "kind: NodeList") || (strstr(text, "kind: List") && strstr(text, "items:")) || (strstr(text, "\nswitches:") && strstr(text, "\nblocks:"));
}
