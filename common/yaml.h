/* YAML read with libyaml into a tree that remembers lines, so that every error can name its place. Anchors, aliases, tags and several
 * documents are refused; a duplicate key is an error. */
#ifndef ZEP_COMMON_YAML_H
#define ZEP_COMMON_YAML_H

#include <stddef.h>
#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "common/mistakes.h"

enum zep_yaml_type { ZEP_YAML_NONE = 0, ZEP_YAML_SCALAR, ZEP_YAML_SEQ, ZEP_YAML_MAP };

struct zep_yaml_node {
    enum zep_yaml_type type;
    int line, col;            /* from 1 */
    int quoted;               /* scalar was quoted: never null, bool or number */
    const char *scalar;       /* type SCALAR; NUL-free */
    int n;                    /* children of SEQ, pairs of MAP */
    const char **keys;        /* MAP: n keys */
    const int *key_lines;     /* MAP */
    struct zep_yaml_node **child; /* SEQ, MAP: n values */
};

struct zep_yaml; /* a document; owns its nodes */

/* path is used in messages ("-" for standard input is not special here). Limits: 64 MiB, depth 64. An empty document is an error. */
int zep_yaml_load_file(const char *path, struct zep_yaml **doc_out, struct zep_error *err);
int zep_yaml_load(const char *name, const char *text, size_t len, struct zep_yaml **doc_out, struct zep_error *err);
/* The same, but duplicate keys become mistakes (both values are in the tree), so that what comes after them is read, too. m NULL: as above. */
int zep_yaml_load_file_all(const char *path, struct zep_mistakes *m, struct zep_yaml **doc_out, struct zep_error *err);
void zep_yaml_free(struct zep_yaml *doc);
const struct zep_yaml_node *zep_yaml_root(const struct zep_yaml *doc);
const char *zep_yaml_name(const struct zep_yaml *doc);

/* NULL when absent. */
const struct zep_yaml_node *zep_yaml_get(const struct zep_yaml_node *map, const char *key);
/* "NAME:LINE: text"; returns ZEP_EINVAL. */
int zep_yaml_error(const struct zep_yaml *doc, const struct zep_yaml_node *node, struct zep_error *err, const char *fmt, ...) ZEP_PRINTF(4, 5);
/* Every key of map must be in known (NULL-terminated): error "unknown key 'X' (did you mean 'Y'?)". */
int zep_yaml_check_keys(const struct zep_yaml *doc, const struct zep_yaml_node *map, const char *const *known, struct zep_error *err);
int zep_yaml_is_null(const struct zep_yaml_node *node);
/* The nearest of names to word by edit distance (at most a third of its length), or NULL. */
const char *zep_nearest(const char *word, const char *const *names);

/* Emission: a scalar in the shortest form that reads back as the same string (plain, or double-quoted with escapes). */
void zep_yaml_emit_scalar(struct zep_buf *b, const char *s);
/* A JSON value (of jansson) as a block of YAML that reads back as the same value; texts of several lines are written as such where that is safe. */
struct json_t;
void zep_yaml_emit_json(struct zep_buf *b, const struct json_t *value);

/* Typed values: the node must be a scalar of that form; the error names file, line, the key's name `what`, the value and what was expected. */
int zep_yaml_int(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, int64_t min, int64_t max, int64_t *out, struct zep_error *err);
int zep_yaml_double(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, double min, double max, double *out, struct zep_error *err);
int zep_yaml_bool(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, int *out, struct zep_error *err);
int zep_yaml_string(const struct zep_yaml *doc, const struct zep_yaml_node *n, const char *what, const char **out, struct zep_error *err);

#endif
