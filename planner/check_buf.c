#include "config.h"
#include "planner/check_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/arena.h"

enum { MAX_SLOT = 1 << 24 };

static const char *const space_name[ZEP_N_SPACE] = {
    "NONE",   "LIN_Q",  "LIN_KV", "LIN_O",   "LIN_DO",  "LIN_DQ",   "LIN_DKV",     "ATT_Q",    "ATT_KV",
    "ATT_O",  "ATT_DO", "ATT_DQ", "ATT_DKV", "RING_KV", "RING_DKV", "SCRATCH_DKV", "PROXY_KV", "PROXY_DKV", "GATHER_KV", "GATHER_DKV",
    "HEAD_Q", "HEAD_KV", "HEAD_O", "HEAD_DO", "HEAD_DQ", "HEAD_DKV",
};

const char *ck_ref_text(char text[96], struct zep_ref ref, int64_t n)
{
    const char *name = (unsigned)ref.space < ZEP_N_SPACE ? space_name[ref.space] : "?";

    if (ref.space >= ZEP_RING_KV)
        snprintf(text, 96, "rows [%lld, %lld) of %s slot %d", (long long)ref.row, (long long)(ref.row + n), name, (int)ref.slot);
    else
        snprintf(text, 96, "rows [%lld, %lld) of %s", (long long)ref.row, (long long)(ref.row + n), name);
    return text;
}

/* --- segments --- */

int ck_find(const struct ck_buf *buf, int64_t row)
{
    int lo = 0, hi = buf->n;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (buf->seg[mid].row1 <= row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Makes room for k more segments. */
static int make_room(struct check *ck, struct ck_buf *buf, int k)
{
    if (buf->n + k > buf->cap) {
        int cap = 2 * buf->cap > buf->n + k ? 2 * buf->cap : buf->n + k + 4;
        struct ck_seg *seg = zep_reallocarray(buf->seg, (size_t)cap, sizeof *seg);

        if (!seg)
            return ck_nomem(ck);
        buf->seg = seg;
        buf->cap = cap;
    }
    return ZEP_OK;
}

/* Makes `row` a boundary and returns the index of the segment that begins there (n at the end). */
static int split(struct check *ck, struct ck_buf *buf, int64_t row)
{
    int i = ck_find(buf, row), rc;

    if (i == buf->n || buf->seg[i].row0 == row)
        return i;
    if ((rc = make_room(ck, buf, 1)) < 0)
        return rc;
    memmove(&buf->seg[i + 1], &buf->seg[i], (size_t)(buf->n - i) * sizeof *buf->seg);
    buf->n++;
    buf->seg[i].row1 = row;
    buf->seg[i + 1].pos += row - buf->seg[i + 1].row0;
    buf->seg[i + 1].row0 = row;
    return i + 1;
}

static int extend(struct check *ck, struct ck_buf *buf, int64_t rows)
{
    int rc;

    if (rows <= buf->rows)
        return ZEP_OK;
    if ((rc = make_room(ck, buf, 1)) < 0)
        return rc;
    buf->seg[buf->n++] = (struct ck_seg){.row0 = buf->rows, .row1 = rows};
    buf->rows = rows;
    return ZEP_OK;
}

struct ck_buf *ck_buf_of(struct check *ck, int dev, struct zep_ref ref)
{
    return &ck->dev[dev].buf[ref.space][ref.slot];
}

/* Heads that the rows of a buffer can be of, and always the same ones. */
static int check_slice(struct check *ck, const struct ck_where *w, struct zep_ref ref)
{
    struct ck_buf *buf;
    char text[96];
    int n = ref.n_slice > 1 ? ref.n_slice : 1;

    if (ref.slice < 0 || ref.slice >= n || ck->n_head % n)
        return ck_fail(ck, w, "part %d of %d of the heads of %s", (int)ref.slice, (int)ref.n_slice, space_name[ref.space]);
    if (n > 1 && ref.space < ZEP_ATT_Q)
        return ck_fail(ck, w, "part of the heads of %s", space_name[ref.space]);
    if (ref.space < ZEP_RING_KV)
        return ZEP_OK;
    buf = ck_buf_of(ck, w->dev, ref);
    if (buf->n_slice && (buf->n_slice != n || buf->slice != ref.slice))
        return ck_fail(ck, w, "takes %s as part %d of %d of the heads: it was used as part %d of %d", ck_ref_text(text, ref, 1), (int)ref.slice, n, (int)buf->slice, (int)buf->n_slice);
    buf->slice = ref.slice;
    buf->n_slice = n;
    return ZEP_OK;
}

/* Valid space, slot and heads; makes the buffer there where it is one of the slots. */
static int check_place(struct check *ck, const struct ck_where *w, struct zep_ref ref)
{
    struct ck_dev *dev = &ck->dev[w->dev];

    if (ref.space <= ZEP_SPACE_NONE || ref.space >= ZEP_N_SPACE)
        return ck_fail(ck, w, "space %d is unknown", (int)ref.space);
    if (ref.slot < 0 || ref.slot >= (ref.space < ZEP_RING_KV ? 1 : MAX_SLOT))
        return ck_fail(ck, w, "slot %d of %s does not exist", (int)ref.slot, space_name[ref.space]);
    if (ref.slot >= dev->n_buf[ref.space]) {
        int have = dev->n_buf[ref.space], want = ref.slot + 1;
        struct ck_buf *buf = zep_reallocarray(dev->buf[ref.space], (size_t)want, sizeof *buf);

        if (!buf)
            return ck_nomem(ck);
        memset(buf + have, 0, (size_t)(want - have) * sizeof *buf);
        dev->buf[ref.space] = buf;
        dev->n_buf[ref.space] = want;
    }
    return check_slice(ck, w, ref);
}

/* And valid rows. */
static int check_ref(struct check *ck, const struct ck_where *w, struct zep_ref ref, int64_t n)
{
    struct ck_dev *dev = &ck->dev[w->dev];
    char text[96];
    int rc = check_place(ck, w, ref);

    if (rc < 0)
        return rc;
    if (n < 1 || ref.row < 0 || ref.row > INT64_MAX - n)
        return ck_fail(ck, w, "%lld rows from row %lld of %s", (long long)n, (long long)ref.row, space_name[ref.space]);
    if (ref.space < ZEP_RING_KV && ref.row + n > dev->buf[ref.space][0].rows)
        return ck_fail(ck, w, "%s: it has %lld rows", ck_ref_text(text, ref, n), (long long)dev->buf[ref.space][0].rows);
    return ZEP_OK;
}

int ck_has_head(struct check *ck, const struct ck_where *w, struct zep_ref ref)
{
    int rc = check_place(ck, w, ref);

    return rc < 0 ? rc : ref.n_slice < 2 || ck->head / (ck->n_head / ref.n_slice) == ref.slice;
}

int ck_piece(struct zep_ref ref, int64_t n, const struct zep_run *run, int n_run, int i, struct zep_ref *ref_out, int64_t *n_out)
{
    if (i >= (n_run ? n_run : 1))
        return 0;
    *ref_out = ref;
    *n_out = n_run ? run[i].n : n;
    if (n_run)
        ref_out->row += run[i].row;
    return 1;
}

/* --- order --- */

static const char *chain_name(int chain)
{
    static const char *const name[N_CHAIN] = {"operation of the inter-node queue", "operation of the intra-node queue", "operation of the local queue",
                                              "group of the world lane", "group of the node lane", "copy"};

    return name[chain];
}

static int ordered(const struct ck_event *ev, int chain, int32_t idx)
{
    return ev->clk.c[chain] >= idx;
}

static int check_after_writer(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, const struct ck_seg *seg, const char *verb)
{
    char text[96];

    if (ordered(ev, seg->w_chain, seg->w_idx))
        return ZEP_OK;
    return ck_fail(ck, w, "%s %s while they may still be written by %s %d, for which it does not wait", verb, ck_ref_text(text, ref, n), chain_name(seg->w_chain), (int)seg->w_idx);
}

static int check_after_readers(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, const struct ck_seg *seg)
{
    char text[96];

    for (int c = 0; c < N_CHAIN; c++)
        if (!ordered(ev, c, seg->rd[c]))
            return ck_fail(ck, w, "overwrites %s while they may still be read by %s %d, for which it does not wait", ck_ref_text(text, ref, n), chain_name(c), (int)seg->rd[c]);
    return ZEP_OK;
}

/* --- accesses --- */

int ck_read(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, int zero_ok)
{
    struct ck_buf *buf;
    char text[96];
    int first, last, rc;

    if ((rc = check_ref(ck, w, ref, n)) < 0)
        return rc;
    buf = ck_buf_of(ck, w->dev, ref);
    /* the reader is noted for these rows only: others of a segment may be written meanwhile */
    if ((rc = extend(ck, buf, ref.row + n)) < 0 || (rc = first = split(ck, buf, ref.row)) < 0 || (rc = last = split(ck, buf, ref.row + n)) < 0)
        return rc;
    for (int i = first; i < last; i++) {
        struct ck_seg *seg = &buf->seg[i];

        if ((rc = check_after_writer(ck, w, ev, ref, n, seg, "reads")) < 0)
            return rc;
        if (seg->state == SEG_HOLE || (seg->state == SEG_ZERO && !zero_ok))
            return ck_fail(ck, w, "reads %s, which hold nothing there", ck_ref_text(text, ref, n));
        if (ev->idx > seg->rd[ev->chain])
            seg->rd[ev->chain] = ev->idx;
    }
    return ZEP_OK;
}

int ck_write(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, enum seg_state state)
{
    struct ck_buf *buf;
    int first, last, rc;

    if ((rc = check_ref(ck, w, ref, n)) < 0)
        return rc;
    buf = ck_buf_of(ck, w->dev, ref);
    if ((rc = extend(ck, buf, ref.row + n)) < 0 || (rc = first = split(ck, buf, ref.row)) < 0 || (rc = last = split(ck, buf, ref.row + n)) < 0)
        return rc;
    for (int i = first; i < last; i++)
        if ((rc = check_after_writer(ck, w, ev, ref, n, &buf->seg[i], "overwrites")) < 0 || (rc = check_after_readers(ck, w, ev, ref, n, &buf->seg[i])) < 0)
            return rc;
    memmove(&buf->seg[first + 1], &buf->seg[last], (size_t)(buf->n - last) * sizeof *buf->seg);
    buf->n -= last - first - 1;
    buf->seg[first] = (struct ck_seg){.row0 = ref.row, .row1 = ref.row + n, .state = state, .w_chain = ev->chain, .w_idx = ev->idx};
    return ZEP_OK;
}

static int accum_seg(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, struct ck_seg *seg, int seq, int64_t pos, uint64_t sum, int diag)
{
    char text[96];
    int rc;

    if ((rc = check_after_writer(ck, w, ev, ref, n, seg, "adds to")) < 0 || (rc = check_after_readers(ck, w, ev, ref, n, seg)) < 0)
        return rc;
    if (seg->state == SEG_HOLE)
        return ck_fail(ck, w, "adds to %s, which hold nothing there", ck_ref_text(text, ref, n));
    if (seq >= 0 && seg->state == SEG_DATA && (seg->seq != seq || seg->pos != pos))
        return ck_fail(ck, w, "adds token %lld of sequence %d to %s, where token %lld of sequence %d is", (long long)pos, seq, ck_ref_text(text, ref, n), (long long)seg->pos,
                       (int)seg->seq);
    if (seq >= 0) {
        seg->state = SEG_DATA;
        seg->seq = seq;
        seg->pos = pos;
        seg->sum += sum;
        seg->diag += diag;
    }
    seg->w_chain = ev->chain;
    seg->w_idx = ev->idx;
    memset(seg->rd, 0, sizeof seg->rd);
    return ZEP_OK;
}

int ck_accum(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, int seq, int64_t pos, uint64_t sum, int diag)
{
    struct ck_buf *buf;
    int first, last, rc;

    if ((rc = check_ref(ck, w, ref, n)) < 0)
        return rc;
    buf = ck_buf_of(ck, w->dev, ref);
    if ((rc = extend(ck, buf, ref.row + n)) < 0 || (rc = first = split(ck, buf, ref.row)) < 0 || (rc = last = split(ck, buf, ref.row + n)) < 0)
        return rc;
    for (int i = first; i < last; i++)
        if ((rc = accum_seg(ck, w, ev, ref, n, &buf->seg[i], seq, pos + (buf->seg[i].row0 - ref.row), sum, diag)) < 0)
            return rc;
    return ZEP_OK;
}

/* --- contents --- */

/* Adds to ck->tmp, joined with the segment before where that goes on. */
static int tmp_add(struct check *ck, const struct ck_seg *seg)
{
    struct ck_seg *last = ck->n_tmp ? &ck->tmp[ck->n_tmp - 1] : NULL;
    int rc;

    if (last && last->state == seg->state && last->sum == seg->sum && last->diag == seg->diag &&
        (seg->state != SEG_DATA || (last->seq == seg->seq && last->pos + (last->row1 - last->row0) == seg->pos))) {
        last->row1 = seg->row1;
        return ZEP_OK;
    }
    if ((rc = ck_grow(ck, (void **)&ck->tmp, ck->n_tmp, &ck->cap_tmp, sizeof *ck->tmp)) < 0)
        return rc;
    ck->tmp[ck->n_tmp++] = *seg;
    return ZEP_OK;
}

int ck_fill(struct check *ck, int dst_dev, struct zep_ref dst, int src_dev, struct zep_ref src, int64_t n)
{
    const struct ck_buf *from = ck_buf_of(ck, src_dev, src);
    struct ck_buf *to;
    struct ck_seg hole;
    int at, rc;

    ck->n_tmp = 0;
    for (int i = ck_find(from, src.row); i < from->n && from->seg[i].row0 < src.row + n; i++) {
        struct ck_seg seg = from->seg[i];
        int64_t cut = src.row > seg.row0 ? src.row - seg.row0 : 0;

        seg.pos += cut;
        seg.row0 += cut;
        if (seg.row1 > src.row + n)
            seg.row1 = src.row + n;
        seg.row0 += dst.row - src.row;
        seg.row1 += dst.row - src.row;
        if ((rc = tmp_add(ck, &seg)) < 0)
            return rc;
    }
    to = ck_buf_of(ck, dst_dev, dst);
    if ((rc = split(ck, to, dst.row + n)) < 0 || (rc = at = split(ck, to, dst.row)) < 0)
        return rc;
    hole = to->seg[at];
    if ((rc = make_room(ck, to, ck->n_tmp - 1)) < 0)
        return rc;
    memmove(&to->seg[at + ck->n_tmp], &to->seg[at + 1], (size_t)(to->n - at - 1) * sizeof *to->seg);
    to->n += ck->n_tmp - 1;
    for (int i = 0; i < ck->n_tmp; i++) {
        struct ck_seg *seg = &to->seg[at + i];

        *seg = ck->tmp[i];
        seg->w_chain = hole.w_chain;
        seg->w_idx = hole.w_idx;
        memset(seg->rd, 0, sizeof seg->rd);
    }
    return ZEP_OK;
}

int ck_fill_runs(struct check *ck, int dst_dev, struct zep_ref dst, const struct zep_run *dst_run, int n_dst, int src_dev, struct zep_ref src, const struct zep_run *src_run, int n_src, int64_t n)
{
    struct zep_ref to, from;
    int64_t n_to = 0, n_from = 0;
    int i = 0, k = 0, rc;

    for (int64_t done = 0, m; done < n; done += m) {
        if ((!n_to && !ck_piece(dst, n, dst_run, n_dst, i++, &to, &n_to)) || (!n_from && !ck_piece(src, n, src_run, n_src, k++, &from, &n_from)))
            break;
        m = n_to < n_from ? n_to : n_from;
        if ((rc = ck_fill(ck, dst_dev, to, src_dev, from, m)) < 0)
            return rc;
        to.row += m;
        from.row += m;
        n_to -= m;
        n_from -= m;
    }
    return ZEP_OK;
}

int ck_zero(struct check *ck, int dev, enum zep_space space, int slot, int64_t rows)
{
    const struct ck_where w = {.dev = dev, .kind = ZEP_OP_BARRIER};
    struct ck_buf *buf;
    int rc;

    if (!rows)
        return ZEP_OK;
    if (slot >= ck->dev[dev].n_buf[space] && (rc = check_place(ck, &w, (struct zep_ref){space, slot, 0, 0, 0})) < 0)
        return rc;
    buf = &ck->dev[dev].buf[space][slot];
    buf->n_slice = 0;
    if ((rc = extend(ck, buf, rows)) < 0)
        return rc;
    for (int i = 0; i < buf->n; i++)
        buf->seg[i].state = SEG_ZERO;
    return ZEP_OK;
}

int ck_reset_space(struct check *ck, int dev, enum zep_space space, int64_t rows)
{
    struct ck_dev *d = &ck->dev[dev];
    int rc = ZEP_OK;

    if (rows >= 0 && !d->n_buf[space]) {
        if (!(d->buf[space] = zep_calloc(1, sizeof *d->buf[space])))
            return ck_nomem(ck);
        d->n_buf[space] = 1;
    }
    for (int i = 0; i < d->n_buf[space] && rc == ZEP_OK; i++) {
        d->buf[space][i].n = 0;
        d->buf[space][i].rows = 0;
        d->buf[space][i].n_slice = 0;
        if (rows > 0)
            rc = extend(ck, &d->buf[space][i], rows);
    }
    return rc;
}

int ck_fill_layout(struct check *ck, int dev, enum zep_space space, const struct ck_layout *layout)
{
    struct ck_buf *buf;
    int rc;

    if ((rc = ck_reset_space(ck, dev, space, 0)) < 0)
        return rc;
    buf = ck->dev[dev].buf[space];
    if ((rc = make_room(ck, buf, layout->n)) < 0)
        return rc;
    for (int i = 0; i < layout->n; i++)
        buf->seg[i] = (struct ck_seg){.row0 = layout->rows[i].row0, .row1 = layout->rows[i].row1, .pos = layout->rows[i].pos, .seq = layout->rows[i].seq, .state = SEG_DATA};
    buf->n = layout->n;
    buf->rows = layout->n_row;
    return ZEP_OK;
}
