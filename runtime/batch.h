/* The batch of a step: documents as rank 0 read them, the same bytes on all ranks, and this rank's share of a micro-step in linear layout. */
#ifndef ZEP_RUNTIME_BATCH_H
#define ZEP_RUNTIME_BATCH_H

#include <stdint.h>
#include "common/error.h"
#include "planner/dataset.h"
#include "planner/plan.h"
#include "runtime/comm.h"
#include "runtime/model.h"

struct zep_batch {
    int n_doc;
    int64_t *len;    /* [n_doc] tokens */
    int64_t *first;  /* [n_doc + 1] place of each document in token */
    int32_t *token;  /* [n_token] */
    int64_t n_token, n_target; /* a document of n tokens has n - 1 targets */
    void *blob;      /* owns the arrays */
};

/* Rank 0 reads the documents, all get them. set and doc are used on rank 0 only. A token outside of [0, vocab) is ZEP_EINVAL on all ranks. Collective. */
int zep_batch_share(struct zep_comm *comm, const struct zep_dataset *set, int64_t vocab, const int32_t *doc, int n_doc, struct zep_batch *out, struct zep_error *err);
/* The same in two parts. Reading, without MPI in it: a blob for sending, free(). */
int zep_batch_read(const struct zep_dataset *set, int64_t vocab, const int32_t *doc, int n_doc, void **blob_out, size_t *bytes_out, struct zep_error *err);
/* Sending; takes rank 0's blob (NULL elsewhere). rc: how reading went there; all ranks return a failure of it. Collective. */
int zep_batch_send(struct zep_comm *comm, int rc, void *blob, size_t bytes, struct zep_batch *out, struct zep_error *err);
/* From arrays, for tests: lengths and tokens are copied. */
int zep_batch_make(const int64_t *len, int n_doc, const int32_t *token, struct zep_batch *out, struct zep_error *err);
void zep_batch_free(struct zep_batch *batch);

struct zep_share { /* this rank's tokens of a micro-step; arrays grow and are kept */
    int64_t n, cap;
    int32_t *token, *pos, *target;
};
/* Documents [first_doc, first_doc + plan's sequences) of the batch in the linear layout of device dev. Positions restart in each document; a document's last token has no target. */
int zep_share_fill(struct zep_share *share, const struct zep_batch *batch, int first_doc, const struct zep_plan *plan, int dev, struct zep_error *err);
void zep_share_free(struct zep_share *share);

#endif
