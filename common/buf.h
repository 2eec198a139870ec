/* A growing byte string for text output. A failed allocation is remembered and reported once, by zep_buf_steal or _ok. */
#ifndef ZEP_COMMON_BUF_H
#define ZEP_COMMON_BUF_H

#include <stddef.h>
#include "common/error.h"

struct zep_buf {
    char *data; /* always NUL-terminated once something was added; NULL before */
    size_t len, cap;
    int failed;
};

#define ZEP_BUF_INIT {NULL, 0, 0, 0}

void zep_buf_add(struct zep_buf *b, const void *data, size_t len);
void zep_buf_puts(struct zep_buf *b, const char *s);
void zep_buf_printf(struct zep_buf *b, const char *fmt, ...) ZEP_PRINTF(2, 3);
void zep_buf_free(struct zep_buf *b);
int zep_buf_ok(const struct zep_buf *b, struct zep_error *err); /* ZEP_OK or ZEP_ENOMEM */
/* Hands the string to the caller (free()); "" when nothing was added. */
int zep_buf_steal(struct zep_buf *b, char **text_out, struct zep_error *err);

#endif
