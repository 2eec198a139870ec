#include "config.h"
#include "launcher/ngram.h"

#include <math.h>

void zep_ngram_fit(struct zep_ngram *g, const int32_t *token, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        int a = token[i - 1] & 255, b = token[i] & 255;

        g->one[b]++;
        g->two[a][b]++;
        g->before[a]++;
        g->n++;
    }
}

void zep_ngram_score(const struct zep_ngram *g, const int32_t *token, int64_t n, double *one_sum, double *two_sum, int64_t *n_target)
{
    for (int64_t i = 1; i < n; i++) {
        int a = token[i - 1] & 255, b = token[i] & 255;

        *one_sum -= log(((double)g->one[b] + 1) / ((double)g->n + 256));
        *two_sum -= log(((double)g->two[a][b] + 1) / ((double)g->before[a] + 256));
        (*n_target)++;
    }
}
