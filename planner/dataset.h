/* Data sets: token documents in Megatron's indexed format (PREFIX.bin + PREFIX.idx: "MMIDIDX\0\0", version 1, dtype, document lengths and offsets), mapped read-only. */
#ifndef ZEP_PLANNER_DATASET_H
#define ZEP_PLANNER_DATASET_H

#include <stddef.h>
#include <stdint.h>
#include "common/error.h"

struct zep_dataset;

/* dtypes 1 (uint8), 4 (int32), 8 (uint16), as Megatron numbers them. prefix: path without .bin/.idx. Damaged or truncated files are errors that say where. */
int zep_dataset_open(const char *prefix, struct zep_dataset **out, struct zep_error *err);
void zep_dataset_close(struct zep_dataset *set);
int64_t zep_dataset_n_doc(const struct zep_dataset *set);
int64_t zep_dataset_n_token(const struct zep_dataset *set);
int64_t zep_dataset_len(const struct zep_dataset *set, int64_t doc); /* tokens; zero-length documents were refused at open */
/* Tokens [begin, end) of a document as int32. */
void zep_dataset_read(const struct zep_dataset *set, int64_t doc, int64_t begin, int64_t end, int32_t *out);
/* A whole document; a token outside of [0, vocab) is ZEP_EINVAL, naming data set, document and token. out: [len], undefined on failure. */
int zep_dataset_read_doc(const struct zep_dataset *set, int64_t doc, int64_t vocab, int32_t *out, struct zep_error *err);
/* Documents longer than context tokens: refused (ZEP_EINVAL, naming the first, its length and how many there are), or cut into documents of their own of context tokens each
 * and the rest (*n_cut_out: how many documents were cut). Document numbers change accordingly. */
int zep_dataset_limit(struct zep_dataset *set, int64_t context, int cut, int64_t *n_cut_out, struct zep_error *err);
/* What resumed runs compare: the index and the size; the tokens, all of them up to 4 MiB and else 64 places of 64 KiB; and the documents' lengths as zep_dataset_limit left them. */
uint64_t zep_dataset_digest(const struct zep_dataset *set);
uint64_t zep_dataset_digest_tokens(const struct zep_dataset *set);
uint64_t zep_dataset_digest_documents(const struct zep_dataset *set);

/* Writing; documents in order. Nothing is left behind on failure. */
struct zep_dataset_writer;
int zep_dataset_create(const char *prefix, int dtype, struct zep_dataset_writer **out, struct zep_error *err);
int zep_dataset_add(struct zep_dataset_writer *w, const int32_t *token, int64_t n, struct zep_error *err);
int zep_dataset_finish(struct zep_dataset_writer *w, struct zep_error *err); /* frees w in any case */
void zep_dataset_abandon(struct zep_dataset_writer *w);

#endif
