/* Writing Megatron's indexed format (dataset.c): both files under other names first, renamed when they are complete. */
#include "config.h"
#include "planner/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/fs.h"

struct zep_dataset_writer {
    char *prefix, *tmp; /* PREFIX.bin.tmp.PID */
    FILE *bin;
    int dtype, width;
    int64_t n, cap, n_token;
    int32_t *len;
};

void zep_dataset_abandon(struct zep_dataset_writer *w)
{
    if (!w)
        return;
    if (w->bin)
        fclose(w->bin);
    if (w->tmp)
        unlink(w->tmp);
    free(w->tmp);
    free(w->prefix);
    free(w->len);
    free(w);
}

int zep_dataset_create(const char *prefix, int dtype, struct zep_dataset_writer **out, struct zep_error *err)
{
    struct zep_dataset_writer *w;
    struct zep_buf tmp = ZEP_BUF_INIT;
    int rc;

    if (dtype != 1 && dtype != 8 && dtype != 4)
        return zep_error_set(err, ZEP_EINVAL, "token type %d: expected 1 (uint8), 8 (uint16) or 4 (int32)", dtype);
    if (!(w = zep_calloc(1, sizeof *w)) || !(w->prefix = strdup(prefix))) {
        free(w);
        return zep_error_nomem(err, "data set");
    }
    w->dtype = dtype;
    w->width = dtype == 1 ? 1 : dtype == 8 ? 2 : 4;
    zep_buf_printf(&tmp, "%s.bin.tmp.%ld", prefix, (long)getpid());
    if ((rc = zep_buf_steal(&tmp, &w->tmp, err)) < 0)
        goto err_writer;
    if (!(w->bin = fopen(w->tmp, "wbe"))) {
        rc = zep_error_set(err, errno == ENOENT ? ZEP_ENOENT : ZEP_EIO, "%s: %s", w->tmp, strerror(errno));
        free(w->tmp);
        w->tmp = NULL;
        goto err_writer;
    }
    *out = w;
    return ZEP_OK;
err_writer:
    zep_dataset_abandon(w);
    return rc;
}

static int put_token(struct zep_dataset_writer *w, int32_t t)
{
    uint16_t v = (uint16_t)t;

    if (w->width == 1)
        return putc(t, w->bin) == EOF;
    return w->width == 2 ? fwrite(&v, sizeof v, 1, w->bin) != 1 : fwrite(&t, sizeof t, 1, w->bin) != 1;
}

int zep_dataset_add(struct zep_dataset_writer *w, const int32_t *token, int64_t n, struct zep_error *err)
{
    int32_t max = w->width == 1 ? 255 : w->width == 2 ? 65535 : INT32_MAX;

    if (n < 1 || n > INT32_MAX)
        return zep_error_set(err, ZEP_EINVAL, "document %lld has %lld tokens: expected 1 to %d", (long long)w->n, (long long)n, INT32_MAX);
    if (w->n == w->cap) {
        int64_t cap = 2 * w->cap + 256;
        int32_t *len = zep_reallocarray(w->len, (size_t)cap, sizeof *len);

        if (!len)
            return zep_error_nomem(err, "data set");
        w->len = len;
        w->cap = cap;
    }
    for (int64_t i = 0; i < n; i++) {
        if (token[i] < 0 || token[i] > max)
            return zep_error_set(err, ZEP_EINVAL, "document %lld: token %d: expected 0 to %d", (long long)w->n, token[i], max);
        if (put_token(w, token[i]))
            return zep_error_set(err, ZEP_EIO, "%s: %s", w->tmp, strerror(errno));
    }
    w->len[w->n++] = (int32_t)n;
    w->n_token += n;
    return ZEP_OK;
}

static void put64(struct zep_buf *b, int64_t v)
{
    zep_buf_add(b, &v, sizeof v);
}

static int write_index(const struct zep_dataset_writer *w, const char *path, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    unsigned char dtype = (unsigned char)w->dtype;
    int64_t offset = 0;
    int rc;

    zep_buf_add(&b, "MMIDIDX\0\0", 9);
    put64(&b, 1);
    zep_buf_add(&b, &dtype, 1);
    put64(&b, w->n);
    put64(&b, w->n + 1);
    zep_buf_add(&b, w->len, (size_t)w->n * sizeof *w->len);
    for (int64_t i = 0; i < w->n; i++) {
        put64(&b, offset);
        offset += (int64_t)w->len[i] * w->width;
    }
    for (int64_t i = 0; i <= w->n; i++)
        put64(&b, i);
    if ((rc = zep_buf_ok(&b, err)) == ZEP_OK)
        rc = zep_fs_write_atomic(path, b.data, b.len, 0666, err);
    zep_buf_free(&b);
    return rc;
}

int zep_dataset_finish(struct zep_dataset_writer *w, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *bin = NULL, *idx = NULL;
    int rc, bad;

    zep_buf_printf(&b, "%s.bin", w->prefix);
    if ((rc = zep_buf_steal(&b, &bin, err)) < 0)
        goto out;
    zep_buf_printf(&b, "%s.idx", w->prefix);
    if ((rc = zep_buf_steal(&b, &idx, err)) < 0)
        goto out;
    bad = fflush(w->bin) != 0 || fsync(fileno(w->bin)) < 0;
    bad |= fclose(w->bin) != 0;
    w->bin = NULL;
    if (bad) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", w->tmp, strerror(errno));
        goto out;
    }
    if (rename(w->tmp, bin) < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", bin, strerror(errno));
        goto out;
    }
    if ((rc = write_index(w, idx, err)) < 0)
        unlink(bin);
out:
    free(bin);
    free(idx);
    zep_dataset_abandon(w);
    return rc;
}
