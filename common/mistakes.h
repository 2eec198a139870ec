/* Mistakes that are all found before any is told: a line each, and which keys are in doubt by them. */
#ifndef ZEP_COMMON_MISTAKES_H
#define ZEP_COMMON_MISTAKES_H

#include "common/buf.h"
#include "common/error.h"

struct zep_mistakes {
    int n;
    enum zep_status code;      /* of the first */
    struct zep_buf text, keys; /* keys: each after a line feed */
};

#define ZEP_MISTAKES_INIT {0, ZEP_OK, ZEP_BUF_INIT, ZEP_BUF_INIT}

/* key: that was mistaken, NULL: none in particular. */
void zep_mistakes_add(struct zep_mistakes *m, const char *key, enum zep_status code, const char *fmt, ...) ZEP_PRINTF(4, 5);
/* Has the key been mistaken, so that what hangs on its value cannot be said? A key that ends in '.' means all of its section. */
int zep_mistakes_doubt(const struct zep_mistakes *m, const char *key);
/* ZEP_OK: none. Else the first one's code; the text has a line for each, as many as an error holds, and how many more there are. */
int zep_mistakes_error(const struct zep_mistakes *m, struct zep_error *err);
void zep_mistakes_free(struct zep_mistakes *m);

#endif
