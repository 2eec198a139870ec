/* Reading Megatron's indexed format. PREFIX.idx: 9 bytes "MMIDIDX\0\0", u64 version = 1, u8 dtype, u64 number of sequences S, u64 number of document bounds B,
 * i32 length[S] (elements), i64 offset[S] (bytes in PREFIX.bin), i64 bound[B] (first sequence of each document, and S). Little-endian. */
#include "config.h"
#include "planner/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/digest.h"

#define HEAD_BYTES 34
#define N_SAMPLE 64
#define SAMPLE_BYTES ((size_t)65536)

struct mapped {
    void *data;
    size_t size;
    char *path;
};

struct zep_dataset {
    struct mapped bin, idx;
    int dtype, width;
    int64_t n_doc, n_token;
    int64_t *begin, *len; /* [n_doc] in tokens of the .bin file */
};

static void unmap(struct mapped *m)
{
    if (m->data)
        munmap(m->data, m->size);
    free(m->path);
}

static int map_file(const char *prefix, const char *ext, struct mapped *out, struct zep_error *err)
{
    struct zep_buf path = ZEP_BUF_INIT;
    struct stat st;
    int fd, rc;

    zep_buf_printf(&path, "%s.%s", prefix, ext);
    if ((rc = zep_buf_steal(&path, &out->path, err)) < 0)
        return rc;
    if ((fd = open(out->path, O_RDONLY | O_CLOEXEC)) < 0)
        return zep_error_set(err, errno == ENOENT ? ZEP_ENOENT : ZEP_EIO, "%s: %s: expected a data set PREFIX.bin and PREFIX.idx", out->path, strerror(errno));
    rc = ZEP_OK;
    if (fstat(fd, &st) < 0)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", out->path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: is not a regular file", out->path);
    else if (st.st_size == 0)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: is empty", out->path);
    if (rc == ZEP_OK) {
        out->size = (size_t)st.st_size;
        out->data = mmap(NULL, out->size, PROT_READ, MAP_SHARED, fd, 0);
        if (out->data == MAP_FAILED) {
            out->data = NULL;
            rc = zep_error_set(err, ZEP_EIO, "%s: %s", out->path, strerror(errno));
        }
    }
    close(fd);
    return rc;
}

static int64_t get64(const unsigned char *p)
{
    int64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static int32_t get32(const unsigned char *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static int width_of(int dtype)
{
    return dtype == 1 ? 1 : dtype == 8 ? 2 : dtype == 4 ? 4 : 0;
}

struct index {
    int64_t n_seq, n_bound;
    const unsigned char *len, *offset, *bound;
};

static int read_head(struct zep_dataset *set, struct index *ix, struct zep_error *err)
{
    const unsigned char *p = set->idx.data;
    const char *path = set->idx.path;
    unsigned __int128 want;

    if (set->idx.size < HEAD_BYTES || memcmp(p, "MMIDIDX\0\0", 9))
        return zep_error_set(err, ZEP_EINVAL, "%s: does not begin with 'MMIDIDX': expected the index of a Megatron data set", path);
    if (get64(p + 9) != 1)
        return zep_error_set(err, ZEP_EINVAL, "%s: index version %lld: expected 1", path, (long long)get64(p + 9));
    set->dtype = p[17];
    if (!(set->width = width_of(set->dtype)))
        return zep_error_set(err, ZEP_EINVAL, "%s: token type %d: expected 1 (uint8), 8 (uint16) or 4 (int32)", path, set->dtype);
    ix->n_seq = get64(p + 18);
    ix->n_bound = get64(p + 26);
    if (ix->n_seq < 0 || ix->n_bound < 0 || ix->n_seq > INT32_MAX || ix->n_bound > INT32_MAX)
        return zep_error_set(err, ZEP_EINVAL, "%s: %lld sequences and %lld document bounds: expected fewer than %d", path, (long long)ix->n_seq, (long long)ix->n_bound, INT32_MAX);
    want = (unsigned __int128)HEAD_BYTES + (unsigned __int128)ix->n_seq * 12 + (unsigned __int128)ix->n_bound * 8;
    if (set->idx.size != want)
        return zep_error_set(err, ZEP_EINVAL, "%s: %zu bytes, expected %lld for %lld sequences and %lld document bounds: the file is cut off or damaged", path, set->idx.size, (long long)want,
                             (long long)ix->n_seq, (long long)ix->n_bound);
    if (ix->n_bound < 2)
        return zep_error_set(err, ZEP_EINVAL, "%s: has no documents", path);
    ix->len = p + HEAD_BYTES;
    ix->offset = ix->len + 4 * ix->n_seq;
    ix->bound = ix->offset + 8 * ix->n_seq;
    return ZEP_OK;
}

static int read_doc(struct zep_dataset *set, const struct index *ix, int64_t doc, struct zep_error *err)
{
    int64_t s0 = get64(ix->bound + 8 * doc), s1 = get64(ix->bound + 8 * (doc + 1)), at = 0;

    if (s0 < 0 || s1 > ix->n_seq || s0 > s1 || (doc == 0 && s0 != 0))
        return zep_error_set(err, ZEP_EINVAL, "%s: document %lld has sequences [%lld, %lld) of %lld: the index is damaged", set->idx.path, (long long)doc, (long long)s0, (long long)s1,
                             (long long)ix->n_seq);
    for (int64_t s = s0; s < s1; s++) {
        int64_t len = get32(ix->len + 4 * s), offset = get64(ix->offset + 8 * s);

        if (len < 0 || offset < 0 || offset % set->width || (uint64_t)offset > set->bin.size || (uint64_t)len * (uint64_t)set->width > set->bin.size - (uint64_t)offset)
            return zep_error_set(err, ZEP_EINVAL, "%s: sequence %lld is %lld tokens at byte %lld, outside of %s with %zu bytes", set->idx.path, (long long)s, (long long)len, (long long)offset,
                                 set->bin.path, set->bin.size);
        if (s == s0)
            set->begin[doc] = at = offset / set->width;
        if (offset / set->width != at)
            return zep_error_set(err, ZEP_EINVAL, "%s: document %lld: sequence %lld does not follow the one before it in %s", set->idx.path, (long long)doc, (long long)s, set->bin.path);
        at += len;
        set->len[doc] += len;
    }
    if (set->len[doc] == 0)
        return zep_error_set(err, ZEP_EINVAL, "%s: document %lld has no tokens", set->idx.path, (long long)doc);
    set->n_token += set->len[doc];
    return ZEP_OK;
}

int zep_dataset_open(const char *prefix, struct zep_dataset **out, struct zep_error *err)
{
    struct zep_dataset *set = zep_calloc(1, sizeof *set);
    struct index ix = {0};
    int rc;

    if (!set)
        return zep_error_nomem(err, "data set");
    if ((rc = map_file(prefix, "idx", &set->idx, err)) < 0 || (rc = map_file(prefix, "bin", &set->bin, err)) < 0 || (rc = read_head(set, &ix, err)) < 0)
        goto err_set;
    set->n_doc = ix.n_bound - 1;
    set->begin = zep_calloc((size_t)set->n_doc, sizeof *set->begin);
    set->len = zep_calloc((size_t)set->n_doc, sizeof *set->len);
    if (!set->begin || !set->len) {
        rc = zep_error_nomem(err, "data set");
        goto err_set;
    }
    for (int64_t i = 0; i < set->n_doc; i++)
        if ((rc = read_doc(set, &ix, i, err)) < 0)
            goto err_set;
    *out = set;
    return ZEP_OK;
err_set:
    zep_dataset_close(set);
    return rc;
}

void zep_dataset_close(struct zep_dataset *set)
{
    if (!set)
        return;
    unmap(&set->bin);
    unmap(&set->idx);
    free(set->begin);
    free(set->len);
    free(set);
}

int64_t zep_dataset_n_doc(const struct zep_dataset *set)
{
    return set->n_doc;
}

int64_t zep_dataset_n_token(const struct zep_dataset *set)
{
    return set->n_token;
}

int64_t zep_dataset_len(const struct zep_dataset *set, int64_t doc)
{
    return set->len[doc];
}

void zep_dataset_read(const struct zep_dataset *set, int64_t doc, int64_t begin, int64_t end, int32_t *out)
{
    const unsigned char *p = (const unsigned char *)set->bin.data + (set->begin[doc] + begin) * set->width;

    for (int64_t i = 0; i < end - begin; i++) {
        uint16_t v;

        if (set->width == 1) {
            out[i] = p[i];
        } else if (set->width == 2) {
            memcpy(&v, p + 2 * i, sizeof v);
            out[i] = v;
        } else {
            out[i] = get32(p + 4 * i);
        }
    }
}

int zep_dataset_read_doc(const struct zep_dataset *set, int64_t doc, int64_t vocab, int32_t *out, struct zep_error *err)
{
    zep_dataset_read(set, doc, 0, set->len[doc], out);
    for (int64_t i = 0; i < set->len[doc]; i++)
        if (out[i] < 0 || out[i] >= vocab)
            return zep_error_set(err, ZEP_EINVAL, "%s: token %lld of document %lld is %d: expected 0 to %lld (model.vocab is %lld)", set->bin.path, (long long)i, (long long)doc, out[i],
                                 (long long)vocab - 1, (long long)vocab);
    return ZEP_OK;
}

int zep_dataset_limit(struct zep_dataset *set, int64_t context, int cut, int64_t *n_cut_out, struct zep_error *err)
{
    int64_t n_long = 0, first = -1, n = 0, *begin, *len;

    for (int64_t i = 0; i < set->n_doc; i++) {
        n += (set->len[i] + context - 1) / context;
        if (set->len[i] > context && n_long++ == 0)
            first = i;
    }
    *n_cut_out = n_long;
    if (!n_long)
        return ZEP_OK;
    if (!cut)
        return zep_error_set(err, ZEP_EINVAL, "%.*s: %lld of %lld documents %s longer than data.context (%lld tokens), document %lld with %lld the first of them; with data.too_long: cut they are cut into documents of their own",
                             (int)strlen(set->bin.path) - 4, set->bin.path, (long long)n_long, (long long)set->n_doc, n_long == 1 ? "is" : "are", (long long)context, (long long)first,
                             (long long)set->len[first]);
    begin = zep_calloc((size_t)n, sizeof *begin);
    len = zep_calloc((size_t)n, sizeof *len);
    if (!begin || !len) {
        free(begin);
        free(len);
        return zep_error_nomem(err, "data set");
    }
    n = 0;
    for (int64_t i = 0; i < set->n_doc; i++)
        for (int64_t at = 0; at < set->len[i]; at += context, n++) {
            begin[n] = set->begin[i] + at;
            len[n] = set->len[i] - at < context ? set->len[i] - at : context;
        }
    free(set->begin);
    free(set->len);
    set->begin = begin;
    set->len = len;
    set->n_doc = n;
    return ZEP_OK;
}

uint64_t zep_dataset_digest(const struct zep_dataset *set)
{
    return zep_digest(set->idx.data, set->idx.size, (uint64_t)set->bin.size);
}

uint64_t zep_dataset_digest_tokens(const struct zep_dataset *set)
{
    size_t size = set->bin.size, gap = size > SAMPLE_BYTES ? (size - SAMPLE_BYTES) / (N_SAMPLE - 1) : 0;
    const char *p = set->bin.data;
    uint64_t digest = (uint64_t)size;

    if (size <= N_SAMPLE * SAMPLE_BYTES)
        return zep_digest(p, size, digest);
    for (size_t i = 0; i < N_SAMPLE; i++)
        digest = zep_digest(p + (i == N_SAMPLE - 1 ? size - SAMPLE_BYTES : i * gap), SAMPLE_BYTES, digest);
    return digest;
}

uint64_t zep_dataset_digest_documents(const struct zep_dataset *set)
{
    return zep_digest(set->len, sizeof *set->len * (size_t)set->n_doc, (uint64_t)set->n_doc);
}
