#include "config.h"
#include "common/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALIGN 64 /* values begin at a multiple of this, so that a file can be mapped */

static void header(struct zep_buf *b, const char *type, int64_t n, int64_t n_col)
{
    static const unsigned char magic[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    char text[2 * ALIGN];
    unsigned char len[2];
    int at = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",", type, n), end;

    at += n_col < 0 ? snprintf(text + at, sizeof text - (size_t)at, "), }") : snprintf(text + at, sizeof text - (size_t)at, " %" PRId64 "), }", n_col);
    end = (10 + at + 1 + ALIGN - 1) / ALIGN * ALIGN - 10;
    len[0] = (unsigned char)(end & 255);
    len[1] = (unsigned char)(end >> 8);
    zep_buf_add(b, magic, sizeof magic);
    zep_buf_add(b, len, sizeof len);
    zep_buf_add(b, text, (size_t)at);
    for (; at < end - 1; at++)
        zep_buf_puts(b, " ");
    zep_buf_puts(b, "\n");
}

static void value(struct zep_buf *b, uint64_t v, int n_byte)
{
    unsigned char byte[8];

    for (int i = 0; i < n_byte; i++)
        byte[i] = (unsigned char)(v >> (8 * i));
    zep_buf_add(b, byte, (size_t)n_byte);
}

void zep_npy_i64(struct zep_buf *b, const int64_t *x, int64_t n, int64_t n_col)
{
    int64_t count = n_col < 0 ? n : n * n_col;

    header(b, "<i8", n, n_col);
    for (int64_t i = 0; i < count; i++)
        value(b, (uint64_t)x[i], 8);
}

void zep_npy_i32(struct zep_buf *b, const int32_t *x, int64_t n, int64_t n_col)
{
    int64_t count = n_col < 0 ? n : n * n_col;

    header(b, "<i4", n, n_col);
    for (int64_t i = 0; i < count; i++)
        value(b, (uint32_t)x[i], 4);
}
