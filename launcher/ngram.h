/* Unigram and bigram models of byte tokens, add-one, as marks for a model's loss. */
#ifndef ZEP_LAUNCHER_NGRAM_H
#define ZEP_LAUNCHER_NGRAM_H

#include <stdint.h>

struct zep_ngram {
    int64_t one[256], two[256][256], before[256]; /* before[a]: how often a has a follower */
    int64_t n;
};
/* Counts the targets of a document: every token but its first, with the token before it. */
void zep_ngram_fit(struct zep_ngram *g, const int32_t *token, int64_t n);
/* Adds the documents' cross-entropy in nats over its targets: p(b) = (c(b) + 1) / (N + 256), p(b|a) = (c(ab) + 1) / (c(a.) + 256). */
void zep_ngram_score(const struct zep_ngram *g, const int32_t *token, int64_t n, double *one_sum, double *two_sum, int64_t *n_target);

#endif
