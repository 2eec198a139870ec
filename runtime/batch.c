#include "config.h"
#include "runtime/batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "runtime/agree.h"

/* A blob: n_doc, then the lengths, then the tokens; what rank 0 sends is what every rank uses. */
static int open_blob(void *blob, size_t bytes, struct zep_batch *out, struct zep_error *err)
{
    struct zep_batch b = {.blob = blob};
    int64_t n;

    memcpy(&n, blob, sizeof n);
    b.n_doc = (int)n;
    b.len = (int64_t *)blob + 1;
    b.token = (int32_t *)(b.len + n);
    b.first = zep_calloc((size_t)n + 1, sizeof *b.first);
    if (!b.first)
        return zep_error_nomem(err, "batch");
    for (int i = 0; i < b.n_doc; i++) {
        b.first[i + 1] = b.first[i] + b.len[i];
        b.n_target += b.len[i] - 1;
    }
    b.n_token = b.first[b.n_doc];
    if (sizeof(int64_t) * ((size_t)n + 1) + sizeof(int32_t) * (size_t)b.n_token != bytes) {
        free(b.first);
        return zep_error_set(err, ZEP_EINTERNAL, "batch of %zu bytes does not match its header", bytes);
    }
    *out = b;
    return ZEP_OK;
}

static void *make_blob(const int64_t *len, int n_doc, size_t *bytes_out)
{
    size_t n_token = 0, bytes;
    int64_t n = n_doc;
    char *blob;

    for (int i = 0; i < n_doc; i++)
        n_token += (size_t)len[i];
    bytes = sizeof(int64_t) * ((size_t)n_doc + 1) + sizeof(int32_t) * n_token;
    blob = zep_calloc(bytes, 1);
    if (!blob)
        return NULL;
    memcpy(blob, &n, sizeof n);
    if (n_doc)
        memcpy(blob + sizeof n, len, sizeof *len * (size_t)n_doc);
    *bytes_out = bytes;
    return blob;
}

int zep_batch_read(const struct zep_dataset *set, int64_t vocab, const int32_t *doc, int n_doc, void **blob_out, size_t *bytes_out, struct zep_error *err)
{
    int64_t *len = zep_calloc((size_t)n_doc + 1, sizeof *len);
    int32_t *token;
    char *blob;
    int rc = ZEP_OK;

    if (!len)
        return zep_error_nomem(err, "batch");
    for (int i = 0; i < n_doc; i++)
        len[i] = zep_dataset_len(set, doc[i]);
    blob = make_blob(len, n_doc, bytes_out);
    if (!blob) {
        free(len);
        return zep_error_nomem(err, "batch");
    }
    token = (int32_t *)((int64_t *)(void *)blob + 1 + n_doc);
    for (int i = 0; rc == ZEP_OK && i < n_doc; i++) {
        rc = zep_dataset_read_doc(set, doc[i], vocab, token, err);
        token += len[i];
    }
    free(len);
    if (rc < 0)
        free(blob);
    else
        *blob_out = blob;
    return rc;
}

int zep_batch_send(struct zep_comm *comm, int rc, void *blob, size_t bytes, struct zep_batch *out, struct zep_error *err)
{
    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = zep_comm_bcast_blob(comm, 0, &blob, &bytes, err)) < 0 || (rc = open_blob(blob, bytes, out, err)) < 0) {
        free(blob);
        return rc;
    }
    return ZEP_OK;
}

int zep_batch_share(struct zep_comm *comm, const struct zep_dataset *set, int64_t vocab, const int32_t *doc, int n_doc, struct zep_batch *out, struct zep_error *err)
{
    void *blob = NULL;
    size_t bytes = 0;
    int rc = ZEP_OK;

    if (zep_comm_rank(comm) == 0)
        rc = zep_batch_read(set, vocab, doc, n_doc, &blob, &bytes, err);
    return zep_batch_send(comm, rc, blob, bytes, out, err);
}

int zep_batch_make(const int64_t *len, int n_doc, const int32_t *token, struct zep_batch *out, struct zep_error *err)
{
    size_t bytes = 0;
    void *blob = make_blob(len, n_doc, &bytes);
    int rc;

    if (!blob)
        return zep_error_nomem(err, "batch");
    memcpy((int64_t *)blob + 1 + n_doc, token, bytes - sizeof(int64_t) * ((size_t)n_doc + 1));
    if ((rc = open_blob(blob, bytes, out, err)) < 0)
        free(blob);
    return rc;
}

void zep_batch_free(struct zep_batch *batch)
{
    free(batch->first);
    free(batch->blob);
    memset(batch, 0, sizeof *batch);
}

static int reserve(struct zep_share *s, int64_t n, struct zep_error *err)
{
    int32_t *p;

    if (n <= s->cap && s->token)
        return ZEP_OK;
    n = (n + 255) / 256 * 256;
    p = zep_calloc((size_t)n * 3, sizeof *p);
    if (!p)
        return zep_error_nomem(err, "tokens");
    free(s->token);
    s->token = p;
    s->pos = p + n;
    s->target = p + 2 * n;
    s->cap = n;
    return ZEP_OK;
}

int zep_share_fill(struct zep_share *share, const struct zep_batch *batch, int first_doc, const struct zep_plan *plan, int dev, struct zep_error *err)
{
    struct zep_piece *piece;
    int n_piece, rc;

    if ((rc = reserve(share, plan->lin_tok[dev], err)) < 0)
        return rc;
    if ((rc = zep_plan_lin_pieces(plan, dev, &piece, &n_piece, err)) < 0)
        return rc;
    for (int i = 0; i < n_piece; i++) {
        int doc = first_doc + piece[i].seq;
        const int32_t *token = batch->token + batch->first[doc];

        for (int64_t p = piece[i].begin; p < piece[i].end; p++) {
            int64_t row = piece[i].row0 + p - piece[i].begin;

            share->token[row] = token[p];
            share->pos[row] = (int32_t)p;
            share->target[row] = p + 1 < batch->len[doc] ? token[p + 1] : -1;
        }
    }
    share->n = plan->lin_tok[dev];
    free(piece);
    return ZEP_OK;
}

void zep_share_free(struct zep_share *share)
{
    free(share->token);
    memset(share, 0, sizeof *share);
}
