#include "config.h"
#include "planner/check_internal.h"

int ck_space_data(enum zep_space space)
{
    static const char data[ZEP_N_SPACE] = {
        [ZEP_LIN_Q] = 1,  [ZEP_LIN_KV] = 2, [ZEP_LIN_O] = 3,   [ZEP_LIN_DO] = 4,  [ZEP_LIN_DQ] = 5,   [ZEP_LIN_DKV] = 6,     [ZEP_ATT_Q] = 1,    [ZEP_ATT_KV] = 2,
        [ZEP_ATT_O] = 3,  [ZEP_ATT_DO] = 4, [ZEP_ATT_DQ] = 5,  [ZEP_ATT_DKV] = 6, [ZEP_RING_KV] = 2,  [ZEP_RING_DKV] = 6,    [ZEP_SCRATCH_DKV] = 6, [ZEP_PROXY_KV] = 2,
        [ZEP_PROXY_DKV] = 6, [ZEP_GATHER_KV] = 2, [ZEP_GATHER_DKV] = 6,
        [ZEP_HEAD_Q] = 1, [ZEP_HEAD_KV] = 2, [ZEP_HEAD_O] = 3, [ZEP_HEAD_DO] = 4, [ZEP_HEAD_DQ] = 5, [ZEP_HEAD_DKV] = 6,
    };

    return (unsigned)space < ZEP_N_SPACE ? data[space] : 0;
}

/* Rows that were read hold tokens pos, pos + 1, ... of one sequence: that of *seq, or any one while it is -1. */
static int check_tokens(struct check *ck, const struct ck_where *w, struct zep_ref ref, int64_t n, int64_t pos, int *seq)
{
    const struct ck_buf *buf = ck_buf_of(ck, w->dev, ref);
    char text[96];

    for (int i = ck_find(buf, ref.row); i < buf->n && buf->seg[i].row0 < ref.row + n; i++) {
        const struct ck_seg *seg = &buf->seg[i];
        int64_t row = seg->row0 > ref.row ? seg->row0 : ref.row, have = seg->pos + (row - seg->row0);

        if (*seq < 0)
            *seq = seg->seq;
        if (seg->seq != *seq)
            return ck_fail(ck, w, "%s: token of sequence %d where one of sequence %d is expected", ck_ref_text(text, ref, n), (int)seg->seq, *seq);
        if (have != pos + (row - ref.row))
            return ck_fail(ck, w, "%s: token %lld of sequence %d has position %lld in the operation", ck_ref_text(text, ref, n), (long long)have, (int)seg->seq,
                           (long long)(pos + (row - ref.row)));
    }
    return ZEP_OK;
}

static int read_tokens(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, int64_t pos, int *seq)
{
    int rc = ck_read(ck, w, ev, ref, n, 0);

    return rc < 0 ? rc : check_tokens(ck, w, ref, n, pos, seq);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct zep_ref moved(struct zep_ref ref, int64_t rows)
{
    ref.row += rows;
    return ref;
}

/* The rows that belong to an operation's queries, as ATT_* or HEAD_*. */
static struct zep_ref beside(const struct zep_op *op, enum zep_space att)
{
    struct zep_ref ref = op->q;

    ref.space = op->q.space == ZEP_HEAD_Q ? zep_space_of_heads(att) : att;
    return ref;
}

/* Queries' sums: the query at p sees the keys [k0, min(k1, p + 1)). */
static int accum_queries(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref sum, const struct zep_pair *pair, int seq)
{
    int64_t k0 = pair->k_pos, k1 = k0 + pair->n_k, q0 = pair->q_pos, q1 = q0 + pair->n_q;
    int64_t a = max64(q0, k0), b = min64(q1, max64(a, k1)); /* the diagonal cuts the queries [a, b); those from b on see all keys */
    int rc = ZEP_OK;

    if (a < b)
        rc = ck_accum(ck, w, ev, moved(sum, pair->q_row + (a - q0)), b - a, seq, a, -ck_weight(seq, k0), 1);
    a = max64(a, k1);
    if (rc == ZEP_OK && a < q1)
        rc = ck_accum(ck, w, ev, moved(sum, pair->q_row + (a - q0)), q1 - a, seq, a, ck_weight(seq, k1) - ck_weight(seq, k0), 0);
    return rc;
}

/* Keys' sums: the key at k is seen by the queries [max(q0, k), q1). */
static int accum_keys(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref dkv, const struct zep_pair *pair, int seq)
{
    int64_t k0 = pair->k_pos, k1 = k0 + pair->n_k, q0 = pair->q_pos, q1 = q0 + pair->n_q;
    int64_t b = min64(k1, max64(k0, q0)), a = max64(k0, q0); /* keys [k0, b) are seen by all queries, the diagonal cuts those from a on */
    int rc = ZEP_OK;

    if (k0 < b)
        rc = ck_accum(ck, w, ev, moved(dkv, pair->k_row), b - k0, seq, k0, ck_weight(seq, q1) - ck_weight(seq, q0), 0);
    b = min64(k1, q1);
    if (rc == ZEP_OK && a < b)
        rc = ck_accum(ck, w, ev, moved(dkv, pair->k_row + (a - k0)), b - a, seq, a, ck_weight(seq, q1), -1);
    return rc;
}

/* Causal pairs of a block. */
static double count_pairs(const struct zep_pair *p)
{
    int64_t k1 = p->k_pos + p->n_k, q1 = p->q_pos + p->n_q, a = max64(p->q_pos, p->k_pos), b = min64(q1, max64(a, k1));
    double sum = a < b ? ((double)(b - p->k_pos) * (double)(b - p->k_pos + 1) - (double)(a - p->k_pos) * (double)(a - p->k_pos + 1)) / 2 : 0;

    a = max64(a, k1);
    return a < q1 ? sum + (double)(q1 - a) * (double)p->n_k : sum;
}

static int check_pair(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op, const struct zep_pair *p)
{
    int seq = -1, rc;

    if (p->n_q < 1 || p->n_k < 1)
        return ck_fail(ck, w, "pair of %lld queries and %lld keys", (long long)p->n_q, (long long)p->n_k);
    if (p->k_row < 0 || p->k_row > op->n - p->n_k)
        return ck_fail(ck, w, "keys at rows [%lld, %lld) of a block of %lld", (long long)p->k_row, (long long)(p->k_row + p->n_k), (long long)op->n);
    if (p->k_pos > p->q_pos + p->n_q - 1)
        return ck_fail(ck, w, "queries at positions from %lld see none of the keys from %lld on", (long long)p->q_pos, (long long)p->k_pos);
    if ((rc = read_tokens(ck, w, ev, moved(op->q, p->q_row), p->n_q, p->q_pos, &seq)) < 0 || (rc = read_tokens(ck, w, ev, moved(op->kv, p->k_row), p->n_k, p->k_pos, &seq)) < 0)
        return rc;
    if (ck->pass == ZEP_PASS_BWD) {
        if ((rc = read_tokens(ck, w, ev, moved(beside(op, ZEP_ATT_O), p->q_row), p->n_q, p->q_pos, &seq)) < 0 ||
            (rc = read_tokens(ck, w, ev, moved(beside(op, ZEP_ATT_DO), p->q_row), p->n_q, p->q_pos, &seq)) < 0 || (rc = accum_keys(ck, w, ev, op->dkv, p, seq)) < 0)
            return rc;
    }
    if ((rc = accum_queries(ck, w, ev, beside(op, ck->pass == ZEP_PASS_FWD ? ZEP_ATT_O : ZEP_ATT_DQ), p, seq)) < 0)
        return rc;
    if ((rc = ck_grow(ck, (void **)&ck->rect, ck->n_rect, &ck->cap_rect, sizeof *ck->rect)) < 0)
        return rc;
    ck->rect[ck->n_rect++] = (struct ck_rect){seq, w->dev, op->step, p->q_pos, p->q_pos + p->n_q, p->k_pos, p->k_pos + p->n_k};
    ck->result.n_pair_block++;
    if (ck->pass == ZEP_PASS_FWD)
        ck->result.pairs += count_pairs(p);
    return ZEP_OK;
}

/* Two refs of an operation are of the same heads: 1 those in hand, 0 others. */
static int same_heads(struct check *ck, const struct ck_where *w, struct zep_ref a, struct zep_ref b)
{
    int rc = ck_has_head(ck, w, a);

    if (rc < 0 || (rc = ck_has_head(ck, w, b)) < 0)
        return rc;
    if ((a.n_slice > 1 || b.n_slice > 1) && (a.n_slice != b.n_slice || a.slice != b.slice))
        return ck_fail(ck, w, "part %d of %d of the heads with part %d of %d", (int)a.slice, (int)a.n_slice, (int)b.slice, (int)b.n_slice);
    return rc;
}

int ck_attn(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op)
{
    int rc;

    if (op->ring < 0 || op->ring >= ck->plan->n_ring)
        return ck_fail(ck, w, "the plan has %d rings", ck->plan->n_ring);
    if (op->q.space != ZEP_ATT_Q && op->q.space != ZEP_HEAD_Q)
        return ck_fail(ck, w, "space %d holds no queries for attention", (int)op->q.space);
    if (op->kv.space != ZEP_ATT_KV && op->kv.space != ZEP_HEAD_KV && op->kv.space != ZEP_RING_KV && op->kv.space != ZEP_GATHER_KV)
        return ck_fail(ck, w, "space %d holds no keys and values for attention", (int)op->kv.space);
    if ((rc = same_heads(ck, w, op->q, op->kv)) <= 0)
        return rc;
    if (ck->pass == ZEP_PASS_BWD) {
        if (op->dkv.space != ZEP_ATT_DKV && op->dkv.space != ZEP_HEAD_DKV && op->dkv.space != ZEP_RING_DKV && op->dkv.space != ZEP_SCRATCH_DKV && op->dkv.space != ZEP_GATHER_DKV)
            return ck_fail(ck, w, "space %d holds no gradients of keys and values", (int)op->dkv.space);
        if ((rc = same_heads(ck, w, op->q, op->dkv)) <= 0)
            return rc;
        if (op->clear && (rc = ck_write(ck, w, ev, op->dkv, op->n, SEG_ZERO)) < 0)
            return rc;
    }
    for (int i = 0; i < op->n_pair; i++)
        if ((rc = check_pair(ck, w, ev, op, &op->pair[i])) < 0)
            return rc;
    return ZEP_OK;
}

int ck_add(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op)
{
    int rc;

    if (ck_space_data(op->dst.space) != ck_space_data(ZEP_RING_DKV) || ck_space_data(op->src.space) != ck_space_data(ZEP_RING_DKV))
        return ck_fail(ck, w, "adds space %d to space %d: expected gradients of keys and values", (int)op->src.space, (int)op->dst.space);
    if (op->dst.space == op->src.space && op->dst.slot == op->src.slot)
        return ck_fail(ck, w, "adds a buffer to itself");
    if ((rc = same_heads(ck, w, op->src, op->dst)) <= 0)
        return rc;
    if ((rc = ck_read(ck, w, ev, op->src, op->n, 1)) < 0)
        return rc;
    for (int64_t row = op->src.row, end = row + op->n, next; row < end; row = next) {
        const struct ck_buf *src = ck_buf_of(ck, w->dev, op->src);
        struct ck_seg seg = src->seg[ck_find(src, row)];
        struct zep_ref dst = op->dst;

        next = min64(seg.row1, end);
        dst.row += row - op->src.row;
        if ((rc = ck_accum(ck, w, ev, dst, next - row, seg.state == SEG_DATA ? seg.seq : -1, seg.pos + (row - seg.row0), seg.sum, seg.diag)) < 0)
            return rc;
    }
    return ZEP_OK;
}

int ck_copy(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op)
{
    struct zep_ref ref;
    int n_dst, n_src, rc;
    int64_t n;

    if (!ck_space_data(op->dst.space) || ck_space_data(op->dst.space) != ck_space_data(op->src.space))
        return ck_fail(ck, w, "copies space %d to space %d: they hold different things", (int)op->src.space, (int)op->dst.space);
    if ((rc = same_heads(ck, w, op->src, op->dst)) <= 0)
        return rc;
    n_dst = zep_space_is_heads(op->dst.space) ? op->n_run : 0;
    n_src = zep_space_is_heads(op->src.space) ? op->n_run : 0;
    for (int i = 0; ck_piece(op->src, op->n, op->run, n_src, i, &ref, &n); i++)
        if ((rc = ck_read(ck, w, ev, ref, n, zep_space_is_heads(ref.space))) < 0)
            return rc;
    for (int i = 0; ck_piece(op->dst, op->n, op->run, n_dst, i, &ref, &n); i++)
        if ((rc = ck_write(ck, w, ev, ref, n, SEG_HOLE)) < 0)
            return rc;
    return ck_fill_runs(ck, w->dev, op->dst, op->run, n_dst, w->dev, op->src, op->run, n_src, op->n);
}
