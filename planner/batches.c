/* Batches of a data set: a permutation per epoch from (seed, epoch), filled greedily; or window by window, where the documents of several steps are dealt out anew.
 *
 * A window takes the longest beginning of the order that it can place: the number of documents is searched by halves between what greedy filling takes (which always fits) and what all the
 * window's steps together hold. Placing: longest first, each to the step with the fewest pairs so far that has room. So windows end where the order allows, and nothing is passed over. */
#include "config.h"
#include "planner/workload.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/rng.h"

struct entry { /* a document that was drawn from the order */
    int64_t len;
    int32_t doc;
};

struct zep_batches {
    const struct zep_dataset *set;
    const int64_t *len; /* instead of a set */
    int64_t tokens;
    uint64_t seed;
    int64_t n_doc, epoch, at; /* the next document is perm[at] */
    int64_t next;             /* the step whose batch comes next */
    int64_t end;              /* of a pass: so many documents; 0: endless */
    int32_t *perm;
    int32_t *doc;             /* the batch in hand */
    int n, cap;
    /* with a window of more than one step */
    int window;
    enum zep_compose compose;
    int64_t in_hand;          /* number of the window in hand, -1: none */
    struct entry *queue;      /* drawn and not yet taken */
    int n_queue, cap_queue, n_taken;
    int32_t *sorted;          /* [n_queue] longest first */
    int32_t *bin, *best;      /* [n_queue] the step of each; of the best try */
    int32_t *start;           /* [window + 1] ranges in `doc` */
    int64_t *room, *work;     /* [window] */
};

static int64_t len_of(const struct zep_batches *b, int64_t doc)
{
    return b->len ? b->len[doc] : zep_dataset_len(b->set, doc);
}

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
    b->in_hand = -1;
    b->n_queue = b->n_taken = 0;
    shuffle(b);
}

static int make(const struct zep_dataset *set, const int64_t *len, int64_t n_doc, int64_t tokens_per_step, uint64_t seed, struct zep_batches **out, struct zep_error *err)
{
    struct zep_batches *b;

    if (n_doc < 1 || n_doc > INT32_MAX)
        return zep_error_set(err, ZEP_EINVAL, "the data set has %lld documents: expected 1 to %d", (long long)n_doc, INT32_MAX);
    for (int64_t i = 0; i < n_doc; i++)
        if ((len ? len[i] : zep_dataset_len(set, i)) > tokens_per_step)
            return zep_error_set(err, ZEP_EINVAL, "document %lld has %lld tokens, a step holds %lld: give a step at least as many tokens as the longest document", (long long)i,
                                 (long long)(len ? len[i] : zep_dataset_len(set, i)), (long long)tokens_per_step);
    if (!(b = zep_calloc(1, sizeof *b)) || !(b->perm = zep_calloc((size_t)n_doc, sizeof *b->perm))) {
        free(b);
        return zep_error_nomem(err, "batches");
    }
    b->set = set;
    b->len = len;
    b->window = 1;
    b->tokens = tokens_per_step;
    b->seed = seed;
    b->n_doc = n_doc;
    rewind_all(b);
    *out = b;
    return ZEP_OK;
}

int zep_batches_new(const struct zep_dataset *set, int64_t tokens_per_step, uint64_t seed, struct zep_batches **out, struct zep_error *err)
{
    return make(set, NULL, zep_dataset_n_doc(set), tokens_per_step, seed, out, err);
}

int zep_batches_new_lengths(const int64_t *len, int64_t n_doc, int64_t tokens_per_step, uint64_t seed, struct zep_batches **out, struct zep_error *err)
{
    return make(NULL, len, n_doc, tokens_per_step, seed, out, err);
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

static int reserve(struct zep_batches *b, int n, struct zep_error *err)
{
    if (n > b->cap) {
        int cap = n > 2 * b->cap + 64 ? n : 2 * b->cap + 64;
        int32_t *p = zep_reallocarray(b->doc, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "batch");
        b->doc = p;
        b->cap = cap;
    }
    return ZEP_OK;
}

static int fill(struct zep_batches *b, struct zep_error *err)
{
    int64_t room = b->tokens;
    int rc;

    b->n = 0;
    while (!b->end || b->at < b->end) {
        int32_t doc = b->perm[b->at];
        int64_t len = len_of(b, doc);

        if (len > room)
            break;
        if ((rc = reserve(b, b->n + 1, err)) < 0)
            return rc;
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

/* --- windows --- */

const char *const zep_compose_names[ZEP_N_COMPOSE] = {"balance", "alike"};

int zep_compose_find(const char *name)
{
    for (int i = 0; i < ZEP_N_COMPOSE; i++)
        if (!strcmp(name, zep_compose_names[i]))
            return i;
    return -1;
}

int zep_batches_set_window(struct zep_batches *b, int64_t window, enum zep_compose compose, struct zep_error *err)
{
    if (window < 1 || window > ZEP_MAX_WINDOW)
        return zep_error_set(err, ZEP_EINVAL, "a window of %lld steps: expected 1 to %d", (long long)window, ZEP_MAX_WINDOW);
    b->window = (int)window;
    b->compose = compose;
    free(b->start);
    free(b->room);
    b->start = zep_calloc((size_t)window + 1, sizeof *b->start);
    b->room = zep_calloc(2 * (size_t)window, sizeof *b->room);
    if (!b->start || !b->room)
        return zep_error_nomem(err, "window");
    b->work = b->room + window;
    rewind_all(b);
    return ZEP_OK;
}

/* One more document of the order into the queue. */
static int draw(struct zep_batches *b, struct zep_error *err)
{
    if (b->n_queue == b->cap_queue) {
        int cap = 2 * b->cap_queue + 256;
        struct entry *q = zep_reallocarray(b->queue, (size_t)cap, sizeof *q);
        int32_t *p = zep_reallocarray(b->sorted, 3 * (size_t)cap, sizeof *p);

        b->queue = q ? q : b->queue;
        b->sorted = p ? p : b->sorted;
        if (!q || !p)
            return zep_error_nomem(err, "window");
        b->bin = p + cap;
        b->best = p + 2 * (size_t)cap;
        b->cap_queue = cap;
    }
    b->queue[b->n_queue++] = (struct entry){len_of(b, b->perm[b->at]), b->perm[b->at]};
    if (++b->at == b->n_doc) {
        b->epoch++;
        shuffle(b);
    }
    return ZEP_OK;
}

/* Longest first, the earlier first among equals: a heap, so that the time is bounded whatever the lengths. */
static int before(const struct zep_batches *b, int32_t x, int32_t y)
{
    return b->queue[x].len != b->queue[y].len ? b->queue[x].len > b->queue[y].len : x < y;
}

static void sift(struct zep_batches *b, int i, int n)
{
    int32_t *h = b->sorted;

    for (int c; (c = 2 * i + 1) < n; i = c) {
        int32_t t = h[i];

        if (c + 1 < n && before(b, h[c], h[c + 1]))
            c++;
        if (!before(b, t, h[c]))
            return;
        h[i] = h[c];
        h[c] = t;
    }
}

static void sort_queue(struct zep_batches *b, int n)
{
    for (int i = 0; i < n; i++)
        b->sorted[i] = i;
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(b, i, n);
    for (int i = n - 1; i > 0; i--) {
        int32_t t = b->sorted[0];

        b->sorted[0] = b->sorted[i];
        b->sorted[i] = t;
        sift(b, 0, i);
    }
}

/* The step that takes a document of len tokens: of those with room the one with the fewest pairs (balance), or the first (alike); -1 none. */
static int choose_step(const struct zep_batches *b, int64_t len)
{
    int at = -1;

    for (int k = 0; k < b->window; k++) {
        if (b->room[k] < len)
            continue;
        if (b->compose == ZEP_COMPOSE_ALIKE)
            return k;
        if (at < 0 || b->work[k] < b->work[at])
            at = k;
    }
    return at;
}

/* Places the first n of the queue's n_sorted; 0: there is one that does not fit. */
static int place(struct zep_batches *b, int n, int n_sorted)
{
    int shift = 0;

    while (b->tokens >> shift >= (int64_t)1 << 31) /* sums of squares stay in 63 bits */
        shift++;
    for (int k = 0; k < b->window; k++) {
        b->room[k] = b->tokens;
        b->work[k] = 0;
    }
    for (int i = 0; i < n_sorted; i++) {
        int32_t e = b->sorted[i];
        int64_t len = b->queue[e].len;
        int k;

        if (e >= n)
            continue;
        if ((k = choose_step(b, len)) < 0)
            return 0;
        b->bin[e] = k;
        b->room[k] -= len;
        b->work[k] += (len >> shift) * (len >> shift);
    }
    return 1;
}

/* How many documents greedy filling takes, which is always possible. */
static int place_greedily(struct zep_batches *b, int32_t *bin)
{
    int64_t room = b->tokens;
    int k = 0, i = 0;

    for (; i < b->n_queue; i++) {
        if (b->queue[i].len > room) {
            if (++k == b->window)
                break;
            room = b->tokens;
        }
        bin[i] = k;
        room -= b->queue[i].len;
    }
    return i;
}

/* Which documents the next window takes, and where each goes (b->best). */
static int choose_documents(struct zep_batches *b, struct zep_error *err)
{
    int64_t sum = 0, most = b->tokens * b->window;
    int n = 0, low, high, rc;

    for (;; n++) {
        if (n == b->n_queue && (rc = draw(b, err)) < 0)
            return rc;
        if ((sum += b->queue[n].len) > most)
            break;
    }
    sort_queue(b, n);
    low = place_greedily(b, b->best);
    high = n;
    if (place(b, low, n))
        memcpy(b->best, b->bin, sizeof *b->best * (size_t)low);
    while (low < high) {
        int mid = low + (high - low + 1) / 2;

        if (place(b, mid, n)) {
            low = mid;
            memcpy(b->best, b->bin, sizeof *b->best * (size_t)low);
        } else {
            high = mid - 1;
        }
    }
    b->n_taken = low;
    return ZEP_OK;
}

/* Steps in a seeded order, so that no place in the window is the one of the long documents; documents of a step in the order of the epoch. */
static void lay_out(struct zep_batches *b)
{
    struct zep_rng rng;

    zep_rng_seed3(&rng, b->seed, (uint64_t)b->in_hand, 0x77696e646f77ull);
    for (int k = 0; k < b->window; k++)
        b->room[k] = k;
    for (int k = b->window - 1; k > 0; k--) {
        int j = (int)zep_rng_below(&rng, (uint64_t)k + 1);
        int64_t t = b->room[k];

        b->room[k] = b->room[j];
        b->room[j] = t;
    }
    memset(b->start, 0, sizeof *b->start * ((size_t)b->window + 1));
    for (int i = 0; i < b->n_taken; i++)
        b->start[b->room[b->best[i]] + 1]++;
    for (int k = 0; k < b->window; k++)
        b->start[k + 1] += b->start[k];
    for (int k = 0; k < b->window; k++)
        b->work[k] = b->start[k];
    for (int i = 0; i < b->n_taken; i++)
        b->doc[b->work[b->room[b->best[i]]]++] = b->queue[i].doc;
}

static int next_window(struct zep_batches *b, struct zep_error *err)
{
    int rc;

    b->n_queue -= b->n_taken;
    if (b->n_taken)
        memmove(b->queue, b->queue + b->n_taken, sizeof *b->queue * (size_t)b->n_queue);
    b->n_taken = 0;
    if ((rc = choose_documents(b, err)) < 0 || (rc = reserve(b, b->n_taken, err)) < 0)
        return rc;
    b->in_hand++;
    lay_out(b);
    return ZEP_OK;
}

static int get_of_window(struct zep_batches *b, int64_t step, const int32_t **doc_out, int *n_out, struct zep_error *err)
{
    int64_t want = step / b->window;
    int k = (int)(step - want * b->window), rc;

    if (want < b->in_hand)
        rewind_all(b);
    while (b->in_hand < want)
        if ((rc = next_window(b, err)) < 0)
            return rc;
    *doc_out = b->doc + b->start[k];
    *n_out = b->start[k + 1] - b->start[k];
    return ZEP_OK;
}

int zep_batches_get(struct zep_batches *b, int64_t step, const int32_t **doc_out, int *n_out, struct zep_error *err)
{
    int rc;

    if (b->window > 1)
        return get_of_window(b, step, doc_out, n_out, err);
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
    free(b->queue);
    free(b->sorted);
    free(b->start);
    free(b->room);
    free(b);
}
