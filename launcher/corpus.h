/* Text on disk as documents: files of folders, one document each, or JSON lines. Chosen, ordered and divided by a hash of the path relative to its source. */
#ifndef ZEP_LAUNCHER_CORPUS_H
#define ZEP_LAUNCHER_CORPUS_H

#include <stdint.h>
#include "common/error.h"

struct zep_corpus_doc {
    char *path;    /* to open */
    char *name;    /* relative to the source: what is hashed */
    uint64_t hash;
    int64_t size;  /* bytes */
};

struct zep_corpus {
    int n, cap;
    struct zep_corpus_doc *doc;
    int64_t bytes;
    int64_t n_skipped; /* links, empty files */
};

/* Adds a file, or all regular files below a folder whose names end in one of the suffixes (n_suffix 0: all). Symbolic links are not followed. */
int zep_corpus_add(struct zep_corpus *c, const char *source, const char *const *suffix, int n_suffix, struct zep_error *err);
/* Of the documents longer than `bytes` keeps a share that falls with their length: (bytes / length)^1.5, but at least one in five hundred, chosen by hash. */
void zep_corpus_thin(struct zep_corpus *c, int64_t bytes);
/* Orders by hash and keeps documents until max_bytes (a file that does not fit ends it). */
void zep_corpus_choose(struct zep_corpus *c, int64_t max_bytes);
/* Whether a document belongs to the held-out part: hash below the fraction. */
int zep_corpus_is_heldout(const struct zep_corpus_doc *d, double fraction);
void zep_corpus_free(struct zep_corpus *c);

#endif
