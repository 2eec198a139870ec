/* Look-up by name: nodes (ids and aliases), switches. */
#include "config.h"
#include "topology/topo_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/arena.h"
#include "common/digest.h"

struct zep_names {
    int n_name;
    size_t n_bucket;
    struct {
        const char *name;
        int node;
    } *bucket;
};

static size_t hash_name(const char *name)
{
    return (size_t)zep_digest(name, strlen(name), 0);
}

/* Another node that has the name, or -1 and it is added. */
static int put_name(struct zep_names *t, const char *name, int node)
{
    size_t h = hash_name(name) & (t->n_bucket - 1);

    for (; t->bucket[h].name; h = (h + 1) & (t->n_bucket - 1))
        if (!strcmp(t->bucket[h].name, name))
            return t->bucket[h].node;
    t->bucket[h].name = name;
    t->bucket[h].node = node;
    t->n_name++;
    return -1;
}

int zep_names_new(const struct zep_topo *topo, struct zep_names **out, struct zep_error *err)
{
    struct zep_names *t = zep_calloc(1, sizeof *t);
    size_t n = 0;

    if (!t)
        return zep_error_nomem(err, "node names");
    for (int i = 0; i < topo->n_node; i++)
        n += 1 + (size_t)topo->node[i].n_alias;
    for (t->n_bucket = 16; t->n_bucket < 2 * n; t->n_bucket *= 2)
        ;
    if (!(t->bucket = zep_calloc(t->n_bucket, sizeof *t->bucket))) {
        free(t);
        return zep_error_nomem(err, "node names");
    }
    for (int i = 0; i < topo->n_node; i++) {
        int other = put_name(t, topo->node[i].id, i);

        if (other >= 0) {
            zep_names_free(t);
            return zep_error_set(err, ZEP_EINVAL, "node '%s' is there twice", topo->node[i].id);
        }
    }
    for (int i = 0; i < topo->n_node; i++)
        for (int k = 0; k < topo->node[i].n_alias; k++) {
            int other = put_name(t, topo->node[i].alias[k], i);

            if (other >= 0 && other != i) {
                zep_names_free(t);
                return zep_error_set(err, ZEP_EINVAL, "the name '%s' means two nodes: '%s' and '%s'", topo->node[i].alias[k], topo->node[other].id, topo->node[i].id);
            }
        }
    *out = t;
    return ZEP_OK;
}

int zep_names_find(const struct zep_names *t, const char *word)
{
    size_t h = hash_name(word) & (t->n_bucket - 1);

    for (; t->bucket[h].name; h = (h + 1) & (t->n_bucket - 1))
        if (!strcmp(t->bucket[h].name, word))
            return t->bucket[h].node;
    return -1;
}

int zep_names_get(struct zep_names *t, struct zep_topo *topo, const char *word, int *out, struct zep_error *err)
{
    int node = zep_names_find(t, word);

    if (node < 0) {
        if (!zep_topo_add_node(topo, word))
            return zep_error_nomem(err, "topology");
        node = topo->n_node - 1;
        if (2 * (size_t)(t->n_name + 1) > t->n_bucket) { /* the names stay where they are, their buckets move */
            struct zep_names old = *t;

            if (!(t->bucket = zep_calloc(2 * old.n_bucket, sizeof *t->bucket))) {
                t->bucket = old.bucket;
                return zep_error_nomem(err, "node names");
            }
            t->n_bucket = 2 * old.n_bucket;
            t->n_name = 0;
            for (size_t i = 0; i < old.n_bucket; i++)
                if (old.bucket[i].name)
                    put_name(t, old.bucket[i].name, old.bucket[i].node);
            free(old.bucket);
        }
        put_name(t, topo->node[node].id, node);
    }
    *out = node;
    return ZEP_OK;
}

void zep_names_free(struct zep_names *t)
{
    if (!t)
        return;
    free(t->bucket);
    free(t);
}

struct zep_switch_index {
    const struct zep_fabric *fabric;
    size_t n_bucket;
    int *bucket; /* switch + 1, 0 empty */
    int n;
};

static int put_switch(struct zep_switch_index *x, int sw)
{
    size_t h = hash_name(x->fabric->sw[sw].name) & (x->n_bucket - 1);

    for (; x->bucket[h]; h = (h + 1) & (x->n_bucket - 1))
        if (!strcmp(x->fabric->sw[x->bucket[h] - 1].name, x->fabric->sw[sw].name))
            return ZEP_OK; /* the first of a name is found; validate refuses the second */
    x->bucket[h] = sw + 1;
    x->n++;
    return ZEP_OK;
}

static int grow(struct zep_switch_index *x, size_t n_bucket, struct zep_error *err)
{
    int *bucket = zep_calloc(n_bucket, sizeof *bucket);

    if (!bucket)
        return zep_error_nomem(err, "switch names");
    free(x->bucket);
    x->bucket = bucket;
    x->n_bucket = n_bucket;
    x->n = 0;
    for (int i = 0; i < x->fabric->n_switch; i++)
        put_switch(x, i);
    return ZEP_OK;
}

int zep_switch_index_new(const struct zep_fabric *f, struct zep_switch_index **out, struct zep_error *err)
{
    struct zep_switch_index *x = zep_calloc(1, sizeof *x);
    size_t n = 16;
    int rc;

    if (!x)
        return zep_error_nomem(err, "switch names");
    x->fabric = f;
    while (n < 2 * (size_t)f->n_switch)
        n *= 2;
    if ((rc = grow(x, n, err)) < 0) {
        free(x);
        return rc;
    }
    *out = x;
    return ZEP_OK;
}

int zep_switch_index_find(const struct zep_switch_index *x, const char *name)
{
    size_t h = hash_name(name) & (x->n_bucket - 1);

    for (; x->bucket[h]; h = (h + 1) & (x->n_bucket - 1))
        if (!strcmp(x->fabric->sw[x->bucket[h] - 1].name, name))
            return x->bucket[h] - 1;
    return -1;
}

int zep_switch_index_get(struct zep_switch_index *x, struct zep_fabric *f, const char *name, int *out, struct zep_error *err)
{
    int at = zep_switch_index_find(x, name);

    if (at < 0) {
        if (!zep_fabric_add_switch(f, name))
            return zep_error_nomem(err, "topology");
        at = f->n_switch - 1;
        if ((size_t)f->n_switch * 2 > x->n_bucket) {
            int rc = grow(x, 2 * x->n_bucket, err);

            if (rc < 0)
                return rc;
        } else {
            put_switch(x, at);
        }
    }
    *out = at;
    return ZEP_OK;
}

void zep_switch_index_free(struct zep_switch_index *x)
{
    if (!x)
        return;
    free(x->bucket);
    free(x);
}

int zep_compare_names(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            const char *x = a + strspn(a, "0"), *y = b + strspn(b, "0");
            size_t nx = strspn(x, "0123456789"), ny = strspn(y, "0123456789");
            int c = nx != ny ? (nx > ny) - (nx < ny) : strncmp(x, y, nx);

            if (c)
                return c;
            if (x + nx - a != y + ny - b) /* equal numbers: fewer leading zeros first */
                return x + nx - a < y + ny - b ? -1 : 1;
            a = x + nx;
            b = y + ny;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

static int by_name(const void *a, const void *b)
{
    return zep_compare_names(*(const char *const *)a, *(const char *const *)b);
}

void zep_sort_names(const char **name, int n)
{
    if (n > 1)
        qsort(name, (size_t)n, sizeof *name, by_name);
}

/* --- names that several nodes share --- */

struct said { /* a name and the node that it was said of */
    const char *name;
    int node;
};

static int cmp_said(const void *a, const void *b)
{
    const struct said *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : (x->node > y->node) - (x->node < y->node);
}

static int is_shared(const struct said *said, size_t n, const char *name)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (strcmp(said[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (size_t i = lo; i + 1 < n && !strcmp(said[i + 1].name, name); i++)
        if (said[i].node != said[i + 1].node)
            return 1;
    return 0;
}

int zep_topo_drop_shared_aliases(struct zep_topo *topo, struct zep_error *err)
{
    size_t n = 0, at = 0;
    struct said *said;
    char *drop;

    for (int i = 0; i < topo->n_node; i++)
        n += 1 + (size_t)topo->node[i].n_alias;
    said = zep_calloc(n + 1, sizeof *said);
    drop = zep_calloc(n + 1, 1);
    if (!said || !drop) {
        free(said);
        free(drop);
        return zep_error_nomem(err, "node names");
    }
    for (int i = 0; i < topo->n_node; i++) {
        said[at++] = (struct said){topo->node[i].id, i};
        for (int k = 0; k < topo->node[i].n_alias; k++)
            said[at++] = (struct said){topo->node[i].alias[k], i};
    }
    qsort(said, n, sizeof *said, cmp_said);
    at = 0;
    for (int i = 0; i < topo->n_node; i++)
        for (int k = 0; k < topo->node[i].n_alias; k++)
            drop[at++] = (char)is_shared(said, n, topo->node[i].alias[k]);
    at = 0;
    for (int i = 0; i < topo->n_node; i++) {
        struct zep_node *node = &topo->node[i];
        int kept = 0;

        for (int k = 0; k < node->n_alias; k++)
            if (drop[at++])
                free(node->alias[k]);
            else
                node->alias[kept++] = node->alias[k];
        node->n_alias = kept;
    }
    free(said);
    free(drop);
    return ZEP_OK;
}

int zep_same_pci(const char *a, const char *b)
{
    const char *ca = strchr(a, ':'), *cb = strchr(b, ':');

    if (!ca || !cb)
        return !strcasecmp(a, b);
    if (ca - a == 8 && !strncmp(a, "0000", 4))
        a += 4;
    if (cb - b == 8 && !strncmp(b, "0000", 4))
        b += 4;
    return !strcasecmp(a, b);
}

int zep_is_pci(const char *key)
{
    size_t dom = strspn(key, "0123456789abcdefABCDEF");

    return dom >= 4 && key[dom] == ':' && isxdigit((unsigned char)key[dom + 1]) && isxdigit((unsigned char)key[dom + 2]) && key[dom + 3] == ':' && strchr(key + dom + 4, '.') != NULL;
}

/* --- short host names --- */

struct short_name {
    const char *name;
    size_t len;
    int node;
};

struct zep_shorts {
    struct short_name *e; /* sorted */
    int n;
};

/* Of "n2.site.org" the dot; NULL where there is no short form: no dot, or an address. */
static const char *short_end(const char *name)
{
    const char *dot = strchr(name, '.');

    return dot && dot[1 + strspn(dot + 1, "0123456789.")] ? dot : NULL;
}

static int cmp_short(const char *a, size_t la, const char *b, size_t lb)
{
    int c = strncmp(a, b, la < lb ? la : lb);

    return c ? c : (la > lb) - (la < lb);
}

static int cmp_shorts(const void *a, const void *b)
{
    const struct short_name *x = a, *y = b;

    return cmp_short(x->name, x->len, y->name, y->len);
}

int zep_shorts_new(const struct zep_topo *topo, struct zep_shorts **out, struct zep_error *err)
{
    struct zep_shorts *s = zep_calloc(1, sizeof *s);

    if (!s || !(s->e = zep_calloc((size_t)topo->n_node + 1, sizeof *s->e))) {
        free(s);
        return zep_error_nomem(err, "node names");
    }
    for (int i = 0; i < topo->n_node; i++) {
        const char *dot = short_end(topo->node[i].id);

        if (dot)
            s->e[s->n++] = (struct short_name){topo->node[i].id, (size_t)(dot - topo->node[i].id), i};
    }
    qsort(s->e, (size_t)s->n, sizeof *s->e, cmp_shorts);
    *out = s;
    return ZEP_OK;
}

int zep_shorts_find(const struct zep_shorts *s, const struct zep_names *names, const char *word)
{
    const char *dot = short_end(word);
    int lo = 0, hi = s->n;
    size_t len = strlen(word);

    if (dot) {
        char host[256];
        int at;

        snprintf(host, sizeof host, "%.*s", (int)(dot - word), word);
        if ((at = zep_names_find(names, host)) >= 0)
            return at;
    }
    while (lo < hi) {
        int mid = (lo + hi) / 2;

        if (cmp_short(s->e[mid].name, s->e[mid].len, word, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == s->n || cmp_short(s->e[lo].name, s->e[lo].len, word, len))
        return -1;
    return lo + 1 < s->n && !cmp_short(s->e[lo + 1].name, s->e[lo + 1].len, word, len) ? -1 : s->e[lo].node;
}

void zep_shorts_free(struct zep_shorts *s)
{
    if (!s)
        return;
    free(s->e);
    free(s);
}

/* --- models --- */

/* The next word of *p that numbers a model: "a100", "mi300x", "t4", "4090"; not "80gb", "sxm4", "hbm3". Its length, 0: none. */
static size_t model_word(const char **p)
{
    while (**p) {
        size_t n = 0, letters = 0, digits = 0;
        const char *w = *p;

        for (; isalnum((unsigned char)w[n]); n++) {
            digits += (size_t)(isdigit((unsigned char)w[n]) != 0);
            letters += (size_t)(isalpha((unsigned char)w[n]) != 0);
        }
        *p = w + n + (w[n] != '\0');
        if ((digits >= 2 && isalpha((unsigned char)*w)) || (digits >= 3 && !letters) || (n == 2 && digits == 1 && isalpha((unsigned char)*w))) {
            *p = w + n;
            return n;
        }
    }
    return 0;
}

int zep_same_model(const char *a, const char *b)
{
    size_t n, m;
    int any = 0;

    for (const char *p = a; (n = model_word(&p)) > 0;)
        for (const char *q = b; (m = model_word(&q)) > 0; any = 1)
            if (n == m && !strncasecmp(p - n, q - m, n))
                return 1;
    return !any;
}
