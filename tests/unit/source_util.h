/* What tests of sources of topology share. */
#ifndef ZEP_TESTS_SOURCE_UTIL_H
#define ZEP_TESTS_SOURCE_UTIL_H

#include <check.h>
#include <string.h>
#include "topology/source.h"
#include "topology/topo_internal.h"

typedef int (*load_fn)(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);

static inline int load_with(load_fn load, const char *text, const struct zep_topo *base, const char *levels, struct zep_topo **topo, struct zep_error *err)
{
    struct zep_source_request q = {.file = "f", .text = text, .len = strlen(text), .base = base, .label_levels = levels};

    *topo = NULL;
    return load(&q, topo, err);
}

static inline struct zep_topo *must_load(load_fn load, const char *text)
{
    struct zep_topo *topo;
    struct zep_error err = {0};

    ck_assert_msg(load_with(load, text, NULL, NULL, &topo, &err) == ZEP_OK, "%s\n%s", err.text, text);
    return topo;
}

static inline struct zep_topo *assigned(load_fn load, const char *text)
{
    struct zep_topo *topo = must_load(load, text);
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_assign_nics(topo, &err), ZEP_OK);
    return topo;
}

static inline void must_fail(load_fn load, const char *text, const char *message)
{
    struct zep_topo *topo;
    struct zep_error err = {0};
    int rc = load_with(load, text, NULL, NULL, &topo, &err);

    ck_assert_msg(rc < 0, "taken: %s", text);
    ck_assert_ptr_null(topo);
    ck_assert_str_eq(err.text, message);
}

static inline int has_warning(const struct zep_topo *t, const char *text)
{
    for (int i = 0; i < t->n_warning; i++)
        if (strstr(t->warning[i], text))
            return 1;
    return 0;
}

static inline int sw(const struct zep_topo *t, const char *name)
{
    for (int i = 0; i < t->fabric[0].n_switch; i++)
        if (!strcmp(t->fabric[0].sw[i].name, name))
            return i;
    ck_abort_msg("no switch %s", name);
    return -1;
}

/* Texts that several of them read. */
#define NODE(name, labels, rest) "{\"kind\": \"Node\", \"metadata\": {\"name\": \"" name "\", \"labels\": {" labels "}}" rest "}"
#define LIST(items) "{\"apiVersion\": \"v1\", \"kind\": \"NodeList\", \"items\": [" items "]}"
static const char two_topologies[] = "---\n- topology: flat1\n  cluster_default: false\n  flat: true\n- topology: main\n  cluster_default: true\n  tree:\n    switches:\n      - switch: root\n        children: l[1-2]\n"
                                     "      - switch: l1\n        nodes: n[1-2]\n      - switch: l2\n        nodes: n[3-4]\n- topology: ring1\n  ring:\n    rings: []\n";

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

#endif
