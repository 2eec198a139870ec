/* Workloads: lists of sequence lengths; named distributions; the batch of a step out of a data set; micro-steps. */
#ifndef ZEP_PLANNER_WORKLOAD_H
#define ZEP_PLANNER_WORKLOAD_H

#include <stdint.h>
#include "common/error.h"
#include "planner/dataset.h"

struct zep_workload {
    int n;
    int64_t *len;   /* tokens, each >= 1 */
    int64_t n_token;
};
void zep_workload_free(struct zep_workload *w);

/* A text file: one length a line (or several, blanks or commas between; '#' comments). Errors name file:line and the value. */
int zep_workload_load(const char *path, struct zep_workload **out, struct zep_error *err);
/* "NAME:key=value,...": arxiv, github, prolong64k, web, prolong, wlb, sft; keys tokens (total, required), seed (default 0), max (longest). Stand-ins built from published histograms.
 * Lengths are drawn until the total is reached; the last one is cut to fit. Deterministic on every machine. */
int zep_workload_dist(const char *text, struct zep_workload **out, struct zep_error *err);

/* Batches over a data set: document order is a permutation per epoch from (seed, epoch), endless; batches are filled in that order up to tokens_per_step tokens, and
 * a document that does not fit into the rest opens the next batch. Depends on nothing else. */
struct zep_batches;
int zep_batches_new(const struct zep_dataset *set, int64_t tokens_per_step, uint64_t seed, struct zep_batches **out, struct zep_error *err);
/* Documents of the batch of step (from 0). The arrays stay until the next call. Going forward one step is O(batch), a jump O(distance). doc: document numbers. */
int zep_batches_get(struct zep_batches *b, int64_t step, const int32_t **doc_out, int *n_out, struct zep_error *err);
void zep_batches_free(struct zep_batches *b);
/* The same over a list of lengths in place of a data set; len must outlive it. */
int zep_batches_new_lengths(const int64_t *len, int64_t n_doc, int64_t tokens_per_step, uint64_t seed, struct zep_batches **out, struct zep_error *err);

/* Which documents share a step: of each `window` steps in a row, the documents that these would take (or a few more of the order, where more fit) are dealt out anew. balance: the longest first,
 * each to the step with the fewest pairs that has room. alike: to the first that has room, so that steps hold documents of like length. Steps of a window come in a seeded order. Depends on
 * tokens per step, seed, window and step number, never on ranks or capacity; each document once an epoch. window 1: as without. A jump still is O(distance). */
enum zep_compose { ZEP_COMPOSE_BALANCE = 0, ZEP_COMPOSE_ALIKE, ZEP_N_COMPOSE };
#define ZEP_MAX_WINDOW 1024
extern const char *const zep_compose_names[ZEP_N_COMPOSE];
int zep_compose_find(const char *name); /* -1: none of them */
int zep_batches_set_window(struct zep_batches *b, int64_t window, enum zep_compose compose, struct zep_error *err);
/* One pass instead of endless epochs, for an evaluation: the first documents of the order of epoch 0 whose tokens are max_token or fewer together (at least one document; what they are does not
 * depend on tokens_per_step), each in one batch. Batches after the last have no documents. */
int zep_batches_new_pass(const struct zep_dataset *set, int64_t tokens_per_step, uint64_t seed, int64_t max_token, struct zep_batches **out, struct zep_error *err);

/* Cuts a batch into micro-steps of at most max_tok tokens (= devices x capacity): in order, greedily. first_out[i] is the first sequence of micro-step i, [n_micro + 1] entries, free().
 * A sequence above max_tok is an error that says what capacity would fit. */
int zep_micro_split(const int64_t *len, int n, int64_t max_tok, int **first_out, int *n_micro_out, struct zep_error *err);
/* The first micro-step of a batch that is not empty: its lengths are lent from w. */
int zep_micro_first(const struct zep_workload *w, int64_t max_tok, struct zep_workload *first_out, int *n_micro_out, struct zep_error *err);

#endif
