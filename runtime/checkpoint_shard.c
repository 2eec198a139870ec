/* One rank's shard of a checkpoint as a file. */
#include "config.h"
#include "runtime/checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/fs.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define HASTEN_BYTES (INT64_C(16) << 20)

struct writer {
    int fd;
    const char *path;
    struct zep_digest_state *digest;
    int64_t bytes, hastened;
};

/* The disk begins with what is written meanwhile: the fsync at the end finds little left. Only a hint. */
static void hasten(struct writer *w)
{
#ifdef HAVE_SYNC_FILE_RANGE
    if (w->bytes - w->hastened >= HASTEN_BYTES) {
        sync_file_range(w->fd, w->hastened, w->bytes - w->hastened, SYNC_FILE_RANGE_WRITE);
        w->hastened = w->bytes;
    }
#else
    (void)w;
#endif
}

static int put_block(struct writer *w, const char *p, size_t len, struct zep_error *err)
{
    zep_digest_update(w->digest, p, len);
    while (len > 0) {
        ssize_t n = write(w->fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return zep_error_set(err, ZEP_EIO, "%s: %s", w->path, strerror(errno));
        p += n;
        w->bytes += n;
        len -= (size_t)n;
    }
    hasten(w);
    return ZEP_OK;
}

/* In blocks that stay in the cache between their checksum and their writing. */
static int put(struct writer *w, const void *data, size_t len, struct zep_error *err)
{
    const char *p = data;
    int rc = ZEP_OK;

    for (size_t at = 0; rc == ZEP_OK && at < len; at += BLOCK_BYTES)
        rc = put_block(w, p + at, len - at < BLOCK_BYTES ? len - at : BLOCK_BYTES, err);
    return rc;
}

static int write_parts(struct writer *w, const struct zep_shard_data *d, struct zep_error *err)
{
    char header[ZEP_SHARD_HEADER];
    int rc;

    zep_shard_header(header, d->first, d->last, d->n_part);
    if ((rc = put(w, header, sizeof header, err)) < 0)
        return rc;
    for (int i = 0; i < d->n_part; i++)
        if ((rc = put(w, d->part[i], (size_t)(d->last - d->first) * sizeof(float), err)) < 0)
            return rc;
    return ZEP_OK;
}

int zep_shard_write(const char *dir, int rank, const struct zep_shard_data *data, struct zep_shard *shard_out, struct zep_error *err)
{
    char name[32];
    char *path;
    struct writer w = {.fd = -1};
    int rc;

    snprintf(name, sizeof name, "shard-%d", rank);
    path = zep_fs_join(dir, name);
    w.digest = zep_digest_new(0);
    if (!path || !w.digest) {
        rc = zep_error_nomem(err, "checkpoint");
        goto out;
    }
    w.path = path;
    w.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w.fd < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    rc = write_parts(&w, data, err);
    if (rc == ZEP_OK && fsync(w.fd) < 0)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
    if (close(w.fd) < 0 && rc == ZEP_OK)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
    *shard_out = (struct zep_shard){data->first, data->last, w.bytes, zep_digest_final(w.digest)};
out:
    zep_digest_free(w.digest);
    free(path);
    return rc;
}
