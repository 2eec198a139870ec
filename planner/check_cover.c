/* The blocks of attention of all devices tile the causal triangle of every sequence: exactly, by geometry. */
#include "config.h"
#include "planner/check_internal.h"

#include <stdlib.h>

#include "common/arena.h"

static int cmp_rect(const void *a, const void *b)
{
    const struct ck_rect *x = a, *y = b;

    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->q0 != y->q0)
        return x->q0 < y->q0 ? -1 : 1;
    if (x->q1 != y->q1)
        return x->q1 < y->q1 ? -1 : 1;
    return (x->k0 > y->k0) - (x->k0 < y->k0);
}

static int cmp_k0(const void *a, const void *b)
{
    const struct ck_rect *x = *(const struct ck_rect *const *)a, *y = *(const struct ck_rect *const *)b;

    return (x->k0 > y->k0) - (x->k0 < y->k0);
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int bad(struct check *ck, int seq, int64_t q, int64_t k, const char *what)
{
    return zep_error_set(ck->err, ZEP_EINVAL, "%s: sequence %d: query %lld and key %lld %s", ck_pass_name(ck->pass), seq, (long long)q, (long long)k, what);
}

/* The queries [qa, qb), which no block divides: the blocks that hold them must follow each other from key 0 to the diagonal. */
static int check_strip(struct check *ck, int seq, const struct ck_rect *rect, int n, int64_t qa, int64_t qb, const struct ck_rect **tmp)
{
    int m = 0;
    int64_t next = 0;

    for (int i = 0; i < n && rect[i].q0 <= qa; i++)
        if (rect[i].q1 >= qb)
            tmp[m++] = &rect[i];
    qsort(tmp, (size_t)m, sizeof *tmp, cmp_k0);
    for (int i = 0; i < m; i++) {
        if (tmp[i]->k0 < next)
            return bad(ck, seq, qa > tmp[i]->k0 ? qa : tmp[i]->k0, tmp[i]->k0, "are met twice");
        if (tmp[i]->k0 > next)
            break;
        next = tmp[i]->k1;
    }
    return next < qb ? bad(ck, seq, qa > next ? qa : next, next, "never meet") : ZEP_OK;
}

static int check_seq(struct check *ck, int seq, const struct ck_rect *rect, int n)
{
    int64_t *edge = zep_calloc(2 * (size_t)n + 2, sizeof *edge), len = ck->plan->seq[seq].len;
    const struct ck_rect **tmp = zep_calloc((size_t)n + 1, sizeof *tmp);
    int m = 0, rc = edge && tmp ? ZEP_OK : ck_nomem(ck);

    if (rc == ZEP_OK) {
        edge[m++] = 0;
        edge[m++] = len;
        for (int i = 0; i < n; i++) {
            edge[m++] = rect[i].q0;
            edge[m++] = rect[i].q1;
        }
        qsort(edge, (size_t)m, sizeof *edge, cmp_i64);
        for (int i = 0; i + 1 < m && rc == ZEP_OK; i++)
            if (edge[i] < edge[i + 1])
                rc = check_strip(ck, seq, rect, n, edge[i], edge[i + 1], tmp);
    }
    free(edge);
    free(tmp);
    return rc;
}

int ck_cover(struct check *ck)
{
    int at = 0, rc;

    if (ck->n_rect)
        qsort(ck->rect, (size_t)ck->n_rect, sizeof *ck->rect, cmp_rect);
    for (int s = 0; s < ck->plan->n_seq; s++) {
        int n = 0;

        while (at + n < ck->n_rect && ck->rect[at + n].seq == s)
            n++;
        if ((rc = check_seq(ck, s, &ck->rect[at], n)) < 0)
            return rc;
        at += n;
    }
    return ZEP_OK;
}
