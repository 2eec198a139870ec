/* Batches of a data set: a permutation per epoch from (seed, epoch), filled greedily. */
#include "config.h"
#include "planner/workload.h"

#include <stdlib.h>

#include "common/arena.h"
#include "common/rng.h"

struct zep_batches {
    const struct zep_dataset *set;
    int64_t tokens;
    uint64_t seed;
    int64_t n_doc, epoch, at; /* the next document is perm[at] */
    int64_t next;             /* the step whose batch comes next */
    int64_t end;              /* of a pass: so many documents; 0: endless */
    int32_t *perm;
    int32_t *doc;             /* the batch in hand */
    int n, cap;
};

static void shuffle(struct zep_batches *b)
{
    struct zep_rng rng;

    zep_rng_seed3(&rng, b->seed, (uint64_t)b->epoch, 0x6261746368ull);
    for (int64_t i = 0; i < b->n_doc; i++)
        b->perm[i] = (int32_t)i;
    for (int64_t i = b->n_doc - 1; i > 0; i--) {
        int64_t j = (int64_t)zep_rng_below(&rng, (uint64_t)i + 1);
        int32_t t = b->perm[i];

        b->perm[i] = b->perm[j];
        b->perm[j] = t;
    }
    b->at = 0;
}

static void rewind_all(struct zep_batches *b)
{
    b->epoch = 0;
    b->next = 0;
    shuffle(b);
}

int zep_batches_new(const struct zep_dataset *set, int64_t tokens_per_step, uint64_t seed, struct zep_batches **out, struct zep_error *err)
{
    struct zep_batches *b;
    int64_t n_doc = zep_dataset_n_doc(set);

    if (n_doc < 1 || n_doc > INT32_MAX)
        return zep_error_set(err, ZEP_EINVAL, "the data set has %lld documents: expected 1 to %d", (long long)n_doc, INT32_MAX);
    for (int64_t i = 0; i < n_doc; i++)
        if (zep_dataset_len(set, i) > tokens_per_step)
            return zep_error_set(err, ZEP_EINVAL, "document %lld has %lld tokens, a step holds %lld: give a step at least as many tokens as the longest document", (long long)i,
                                 (long long)zep_dataset_len(set, i), (long long)tokens_per_step);
    if (!(b = zep_calloc(1, sizeof *b)) || !(b->perm = zep_calloc((size_t)n_doc, sizeof *b->perm))) {
        free(b);
        return zep_error_nomem(err, "batches");
    }
    b->set = set;
    b->tokens = tokens_per_step;
    b->seed = seed;
    b->n_doc = n_doc;
    rewind_all(b);
    *out = b;
    return ZEP_OK;
}

int zep_batches_new_pass(const struct zep_dataset *set, int64_t tokens_per_step, uint64_t seed, int64_t max_token, struct zep_batches **out, struct zep_error *err)
{
    int64_t n_token;
    int rc;

    if ((rc = zep_batches_new(set, tokens_per_step, seed, out, err)) < 0)
        return rc;
    n_token = zep_dataset_len(set, (*out)->perm[0]);
    for ((*out)->end = 1; (*out)->end < (*out)->n_doc; (*out)->end++)
        if ((n_token += zep_dataset_len(set, (*out)->perm[(*out)->end])) > max_token)
            break;
    return ZEP_OK;
}

static int fill(struct zep_batches *b, struct zep_error *err)
{
    int64_t room = b->tokens;

    b->n = 0;
    while (!b->end || b->at < b->end) {
        int32_t doc = b->perm[b->at];
        int64_t len = zep_dataset_len(b->set, doc);

        if (len > room)
            break;
        if (b->n == b->cap) {
            int cap = 2 * b->cap + 64;
            int32_t *p = zep_reallocarray(b->doc, (size_t)cap, sizeof *p);

            if (!p)
                return zep_error_nomem(err, "batch");
            b->doc = p;
            b->cap = cap;
        }
        b->doc[b->n++] = doc;
        room -= len;
        if (++b->at == b->n_doc && !b->end) {
            b->epoch++;
            shuffle(b);
        }
    }
    b->next++;
    return ZEP_OK;
}

int zep_batches_get(struct zep_batches *b, int64_t step, const int32_t **doc_out, int *n_out, struct zep_error *err)
{
    int rc;

    if (step < b->next - 1 || !b->next)
        rewind_all(b);
    while (b->next <= step)
        if ((rc = fill(b, err)) < 0)
            return rc;
    *doc_out = b->doc;
    *n_out = b->n;
    return ZEP_OK;
}

void zep_batches_free(struct zep_batches *b)
{
    if (!b)
        return;
    free(b->perm);
    free(b->doc);
    free(b);
}
