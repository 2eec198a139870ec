#include "config.h"
#include "planner/check_internal.h"

#include <stdlib.h>

#include "common/arena.h"

static int bad_layout(struct check *ck, const char *fmt, ...) ZEP_PRINTF(2, 3);
static int bad_layout(struct check *ck, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(ck->err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    return ZEP_EINVAL;
}

static int add_rows(struct check *ck, struct ck_layout *l, int seq, int64_t pos, int64_t n)
{
    struct ck_rows *last = l->n ? &l->rows[l->n - 1] : NULL;
    int rc;

    if (!n)
        return ZEP_OK;
    if (last && last->seq == seq && last->pos + (last->row1 - last->row0) == pos) {
        last->row1 += n;
        l->n_row += n;
        return ZEP_OK;
    }
    if ((rc = ck_grow(ck, (void **)&l->rows, l->n, &l->cap, sizeof *l->rows)) < 0)
        return rc;
    l->rows[l->n++] = (struct ck_rows){seq, pos, l->n_row, l->n_row + n};
    l->n_row += n;
    return ZEP_OK;
}

/* begin[c]: where chunk c of a sequence begins, from the rule in plan.h taken literally; begin[2G] is its length. */
static void cut(const struct zep_plan_seq *q, int64_t g, int64_t *begin)
{
    int64_t base = q->len / (2 * g), rem = q->len % (2 * g);

    for (int64_t c = 0; c < 2 * g; c++)
        begin[c + 1] = base;
    for (int64_t e = 0; e < rem; e++) {
        int64_t slot = (q->rot + e) % (2 * g), chunk = slot < g ? slot : 2 * g - 1 - (slot - g);

        begin[chunk + 1]++;
    }
    begin[0] = 0;
    for (int64_t c = 0; c < 2 * g; c++)
        begin[c + 1] += begin[c];
}

static int attention_layouts(struct check *ck)
{
    const struct zep_plan *p = ck->plan;
    int64_t *begin = zep_calloc(2 * (size_t)p->n_dev + 1, sizeof *begin);
    int rc = ZEP_OK;

    if (!begin)
        return ck_nomem(ck);
    for (int r = 0; r < p->n_ring && rc == ZEP_OK; r++) {
        const struct zep_plan_ring *ring = &p->ring[r];
        int g = ring->n_member;

        for (int i = 0; i < ring->n_seq && rc == ZEP_OK; i++) {
            int s = p->ring_seq[ring->seq0 + i];

            cut(&p->seq[s], g, begin);
            for (int m = 0; m < g && rc == ZEP_OK; m++) {
                struct ck_layout *l = &ck->dev[p->member[ring->member0 + m]].attn;

                if ((rc = add_rows(ck, l, s, begin[m], begin[m + 1] - begin[m])) == ZEP_OK)
                    rc = add_rows(ck, l, s, begin[2 * g - 1 - m], begin[2 * g - m] - begin[2 * g - 1 - m]);
            }
        }
    }
    free(begin);
    return rc;
}

/* Adds rows [row0, row0 + n) of one layout to another. */
static int add_slice(struct check *ck, struct ck_layout *to, const struct ck_layout *from, int64_t row0, int64_t n)
{
    int lo = 0, hi = from->n, rc;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (from->rows[mid].row1 <= row0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; n > 0; lo++) {
        const struct ck_rows *r = &from->rows[lo];
        int64_t take = r->row1 - row0 < n ? r->row1 - row0 : n;

        if ((rc = add_rows(ck, to, r->seq, r->pos + (row0 - r->row0), take)) < 0)
            return rc;
        row0 += take;
        n -= take;
    }
    return ZEP_OK;
}

static int linear_layouts(struct check *ck)
{
    const struct zep_plan *p = ck->plan;
    int64_t *next = zep_calloc((size_t)p->n_dev, sizeof *next);
    int rc = ZEP_OK;

    if (!next)
        return ck_nomem(ck);
    for (int d = 0; d < p->n_dev; d++)
        next[d] = ck->dev[d].attn.n_row;
    for (int i = 0; i < p->n_move && rc == ZEP_OK; i++)
        if ((next[p->move[i].from] -= p->move[i].n) < 0)
            rc = bad_layout(ck, "move %d: moves from device %d take %lld tokens more than it holds", i, (int)p->move[i].from, -(long long)next[p->move[i].from]);
    for (int d = 0; d < p->n_dev && rc == ZEP_OK; d++)
        rc = add_slice(ck, &ck->dev[d].lin, &ck->dev[d].attn, 0, next[d]);
    for (int i = 0; i < p->n_move && rc == ZEP_OK; i++) {
        const struct zep_plan_move *m = &p->move[i];

        rc = add_slice(ck, &ck->dev[m->to].lin, &ck->dev[m->from].attn, next[m->from], m->n);
        next[m->from] += m->n;
    }
    free(next);
    return rc;
}

static int cmp_rows(const void *a, const void *b)
{
    const struct ck_rows *x = a, *y = b;

    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

/* Every token is in one of the devices' layouts exactly once. */
static int check_once(struct check *ck, int lin)
{
    const struct zep_plan *p = ck->plan;
    struct ck_rows *all;
    size_t n = 0;
    int seq = -1, rc = ZEP_OK;
    int64_t next = 0;

    for (int d = 0; d < p->n_dev; d++)
        n += (size_t)(lin ? ck->dev[d].lin.n : ck->dev[d].attn.n);
    if (!(all = zep_calloc(n + 1, sizeof *all)))
        return ck_nomem(ck);
    n = 0;
    for (int d = 0; d < p->n_dev; d++) {
        const struct ck_layout *l = lin ? &ck->dev[d].lin : &ck->dev[d].attn;

        for (int i = 0; i < l->n; i++)
            all[n++] = l->rows[i];
    }
    qsort(all, n, sizeof *all, cmp_rows);
    for (size_t i = 0; i <= n && rc == ZEP_OK; i++) {
        int s = i < n ? all[i].seq : p->n_seq;

        if (s != seq) {
            if ((seq >= 0 && next != p->seq[seq].len) || s != seq + 1)
                rc = bad_layout(ck, "sequence %d: tokens from %lld are in no device's %s layout", seq < 0 ? 0 : seq, (long long)next, lin ? "linear" : "attention");
            seq = s;
            next = 0;
        }
        if (rc == ZEP_OK && i < n && all[i].pos != next)
            rc = bad_layout(ck, "sequence %d: token %lld is in the %s layouts of %s", s, (long long)(all[i].pos < next ? all[i].pos : next), lin ? "linear" : "attention",
                            all[i].pos < next ? "two devices" : "no device");
        if (i < n)
            next += all[i].row1 - all[i].row0;
    }
    free(all);
    return rc;
}

/* The fields that were derived from the plan say the same as the layouts. */
static int check_derived(struct check *ck)
{
    const struct zep_plan *p = ck->plan;
    int k = 0;

    for (int d = 0; d < p->n_dev; d++) {
        int64_t row = 0;

        if (p->attn_tok[d] != ck->dev[d].attn.n_row || p->lin_tok[d] != ck->dev[d].lin.n_row)
            return bad_layout(ck, "device %d: plan says %lld tokens for attention and %lld in the linear layout, expected %lld and %lld", d, (long long)p->attn_tok[d],
                              (long long)p->lin_tok[d], (long long)ck->dev[d].attn.n_row, (long long)ck->dev[d].lin.n_row);
        if (ck->dev[d].attn.n_row > zep_plan_capacity(p, d))
            return bad_layout(ck, "device %d: %lld tokens in its attention layout, capacity %lld", d, (long long)ck->dev[d].attn.n_row, (long long)zep_plan_capacity(p, d));
        if (ck->dev[d].lin.n_row > zep_plan_capacity(p, d))
            return bad_layout(ck, "device %d: %lld tokens in its linear layout, capacity %lld", d, (long long)ck->dev[d].lin.n_row, (long long)zep_plan_capacity(p, d));
        if (p->dev_slot0[d] != k || p->dev_slot0[d + 1] < k || p->dev_slot0[d + 1] > p->n_member)
            return bad_layout(ck, "device %d: memberships [%d, %d) are out of place", d, (int)p->dev_slot0[d], (int)p->dev_slot0[d + 1]);
        for (; k < p->dev_slot0[d + 1]; k++) {
            const struct zep_plan_slot *s = &p->slot[k];

            if (s->ring < 0 || s->ring >= p->n_ring || s->pos < 0 || s->pos >= p->ring[s->ring].n_member || p->member[p->ring[s->ring].member0 + s->pos] != d)
                return bad_layout(ck, "device %d: membership %d (ring %d, position %d) is not that of the ring", d, k, (int)s->ring, (int)s->pos);
            if (k > p->dev_slot0[d] && s->ring <= s[-1].ring)
                return bad_layout(ck, "device %d: membership %d (ring %d) is out of order", d, k, (int)s->ring);
            if (s->row0 != row || s->n < 0)
                return bad_layout(ck, "device %d: ring %d begins at row %lld of its attention layout, expected %lld", d, (int)s->ring, (long long)s->row0, (long long)row);
            row += s->n;
        }
        if (row != p->attn_tok[d])
            return bad_layout(ck, "device %d: its rings have %lld rows, its attention layout %lld", d, (long long)row, (long long)p->attn_tok[d]);
    }
    if (k != p->n_member)
        return bad_layout(ck, "plan has %d members of rings, its devices %d", p->n_member, k);
    return ZEP_OK;
}

int ck_layouts(struct check *ck)
{
    int rc;

    if ((rc = attention_layouts(ck)) < 0 || (rc = linear_layouts(ck)) < 0 || (rc = check_once(ck, 0)) < 0 || (rc = check_once(ck, 1)) < 0)
        return rc;
    return check_derived(ck);
}
