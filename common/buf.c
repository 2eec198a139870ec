#include "config.h"
#include "common/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct zep_buf *b, size_t more)
{
    size_t need = b->len + more + 1, cap = b->cap ? b->cap : 256;
    char *p;

    if (b->failed || need < more)
        goto fail;
    if (need <= b->cap)
        return 1;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    p = realloc(b->data, cap);
    if (!p)
        goto fail;
    b->data = p;
    b->cap = cap;
    return 1;
fail:
    b->failed = 1;
    return 0;
}

void zep_buf_add(struct zep_buf *b, const void *data, size_t len)
{
    if (!grow(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void zep_buf_puts(struct zep_buf *b, const char *s)
{
    zep_buf_add(b, s, strlen(s));
}

void zep_buf_printf(struct zep_buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !grow(b, (size_t)n)) {
        b->failed = 1;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void zep_buf_free(struct zep_buf *b)
{
    free(b->data);
    *b = (struct zep_buf)ZEP_BUF_INIT;
}

int zep_buf_ok(const struct zep_buf *b, struct zep_error *err)
{
    return b->failed ? zep_error_nomem(err, "text") : ZEP_OK;
}

int zep_buf_steal(struct zep_buf *b, char **text_out, struct zep_error *err)
{
    if (!b->data)
        zep_buf_add(b, "", 0);
    if (b->failed) {
        zep_buf_free(b);
        return zep_error_nomem(err, "text");
    }
    *text_out = b->data;
    *b = (struct zep_buf)ZEP_BUF_INIT;
    return ZEP_OK;
}
