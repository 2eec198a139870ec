/* What the files of the checker share. The streams are executed symbolically: a row of a buffer holds nothing, zeros, or data of one token; sums carry which contributions they contain.
 *
 * Contributions are counted by fingerprints: every position x of every sequence has a fixed 64-bit weight W(x), and the interval [a, b) of keys (or queries) counts W(b) - W(a) modulo
 * 2^64. A sum of intervals has the fingerprint of "each once" only if it is that multiset (two different ones agree with a chance of 2^-64). The end of an interval that is cut by
 * the causal diagonal depends on the row, so that a segment of rows holds sum + diag * W(own), own being p + 1 for a query at p and k for a key at k.
 *
 * Where heads are exchanged, the passes are run once for each class of heads that are never apart: in a run, a row stands for one head of that class, and accesses to rows of other heads only have to meet.
 *
 * Order is proved, not observed: every access to rows must be ordered after those that it conflicts with by what the operations of the device declare (queue order, lane order,
 * wait, after, barriers). The chains are the queues, the lanes, and the rest of the stream; an event's clock says how much of each chain is complete when it begins. */
#ifndef ZEP_PLANNER_CHECK_INTERNAL_H
#define ZEP_PLANNER_CHECK_INTERNAL_H

#include "planner/check.h"

enum { CHAIN_QUEUE = 0, CHAIN_LANE = ZEP_N_QUEUE, CHAIN_STREAM = ZEP_N_QUEUE + ZEP_N_LANE, N_CHAIN };

enum seg_state { SEG_HOLE = 0, SEG_ZERO, SEG_DATA };

struct ck_seg { /* rows [row0, row1): tokens [pos, ...) of a sequence */
    int64_t row0, row1;
    int64_t pos;
    uint64_t sum;
    int32_t seq, diag;
    enum seg_state state;
    int32_t w_chain, w_idx;  /* the last writer */
    int32_t rd[N_CHAIN];     /* the last reader of each chain since then, 0: none */
};

struct ck_buf { /* segments cover [0, rows) without gaps */
    int n, cap;
    struct ck_seg *seg;
    int64_t rows;
    int32_t slice, n_slice; /* which heads its rows are of, once it was used in the pass; n_slice 0: not yet */
};

struct ck_clock {
    int32_t c[N_CHAIN];
};

static inline void ck_merge(struct ck_clock *into, const struct ck_clock *from)
{
    for (int c = 0; c < N_CHAIN; c++)
        if (from->c[c] > into->c[c])
            into->c[c] = from->c[c];
}

struct ck_event {
    int chain;
    int32_t idx; /* from 1 */
    struct ck_clock clk;
};

struct ck_clocks { /* clocks at the end of a chain's operations */
    int n, cap;
    struct ck_clock *clk;
};

struct ck_where { /* what an error is about */
    int dev;
    int64_t index; /* in the stream */
    enum zep_op_kind kind;
    int32_t ring, step;
    enum zep_lane lane;
    int64_t key;
};

struct ck_group;
struct ck_pend { /* a transfer waiting for its other half */
    struct ck_pend *next;
    struct ck_group *group;
    int i;
};

struct ck_group {
    struct ck_group *next;
    struct ck_where where;
    int32_t idx, after[ZEP_N_QUEUE], wait[ZEP_N_LANE];
    int posted, n_xfer, n_open;
    struct ck_clock clk; /* when it is posted */
    struct zep_xfer *xfer;
    struct ck_pend *pend;
    struct zep_run *run; /* of its transfers */
    int n_run;
};

struct ck_route { /* transfers of one lane from src to dst that wait: all sends or all receives */
    int64_t id;   /* 0: free entry */
    struct ck_pend *head, *tail;
};

struct ck_rows { /* rows of a layout: tokens of one sequence */
    int32_t seq;
    int64_t pos, row0, row1;
};

struct ck_layout {
    int n, cap;
    struct ck_rows *rows;
    int64_t n_row;
};

struct ck_rect { /* one block of attention */
    int32_t seq, dev, step;
    int64_t q0, q1, k0, k1;
};

struct ck_dev {
    struct ck_layout attn, lin;
    struct ck_buf *buf[ZEP_N_SPACE];
    int n_buf[ZEP_N_SPACE];
    /* of the pass */
    struct zep_sched *sched;
    struct zep_op op;
    int have_op, ended, queued;
    int64_t index;
    int32_t n_compute[ZEP_N_QUEUE], n_group[ZEP_N_LANE], n_done[ZEP_N_LANE], n_stream;
    int64_t last_key[ZEP_N_LANE];
    struct ck_group *head[ZEP_N_LANE], *tail[ZEP_N_LANE];
    struct ck_clocks end[ZEP_N_QUEUE + ZEP_N_LANE];
    struct ck_clock base;
};

struct check {
    const struct zep_plan *plan;
    const struct zep_check_opts *opts;
    struct zep_check_result result;
    struct zep_error *err;
    enum zep_pass pass;
    int head, n_head; /* the class of heads in hand, of so many equal parts of all heads */
    struct ck_dev *dev;
    int n_ready, *ready; /* devices that may be able to go on */
    int n_route, cap_route;
    struct ck_route *route;
    int n_rect, cap_rect;
    struct ck_rect *rect;
    int n_tmp, cap_tmp;
    struct ck_seg *tmp;
};

/* Fails with the place in front. */
int ck_fail(struct check *ck, const struct ck_where *w, const char *fmt, ...) ZEP_PRINTF(3, 4);
int ck_nomem(struct check *ck);
const char *ck_pass_name(enum zep_pass pass);
const char *ck_lane_name(enum zep_lane lane);
/* "rows [a, b) of RING_KV 1" in one of a few static-sized buffers of the caller. */
const char *ck_ref_text(char text[96], struct zep_ref ref, int64_t n);
/* Makes room for one more element; the array may move. */
int ck_grow(struct check *ck, void **array, int n, int *cap, size_t size);

uint64_t ck_weight(int seq, int64_t pos);

/* check_plan.c: the plan on its own: indices, rings, hops, proxies, moves, capacity. Nothing else is touched before this passed. */
int ck_plan(struct check *ck, const int64_t *len, int n);
/* check_layout.c: both layouts from the rules in plan.h, and every token once in each. */
int ck_layouts(struct check *ck);

/* check_buf.c: accesses. All check the order against earlier conflicting accesses. */
int ck_read(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, int zero_ok);
int ck_write(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, enum seg_state state); /* HOLE or ZERO */
/* Adds a contribution (sum, diag) to rows that hold zeros or sums of tokens (seq, pos + i); seq -1: nothing is added. */
int ck_accum(struct check *ck, const struct ck_where *w, const struct ck_event *ev, struct zep_ref ref, int64_t n, int seq, int64_t pos, uint64_t sum, int diag);
/* Whether rows have the heads in hand: 1, 0, or an error where they cannot be of these heads at all. */
int ck_has_head(struct check *ck, const struct ck_where *w, struct zep_ref ref);
/* Piece i of n rows of a ref that lie in runs (n_run 0: in one): 1, or 0 behind the last one. */
int ck_piece(struct zep_ref ref, int64_t n, const struct zep_run *run, int n_run, int i, struct zep_ref *ref_out, int64_t *n_out);
/* A space's slot as zeros. */
int ck_zero(struct check *ck, int dev, enum zep_space space, int slot, int64_t rows);
/* Copies what src's rows hold into dst's, both in pieces. */
int ck_fill_runs(struct check *ck, int dst_dev, struct zep_ref dst, const struct zep_run *dst_run, int n_dst, int src_dev, struct zep_ref src, const struct zep_run *src_run, int n_src, int64_t n);
/* Index of the segment that holds a row, after an access that made sure of the rows. */
int ck_find(const struct ck_buf *buf, int64_t row);
struct ck_buf *ck_buf_of(struct check *ck, int dev, struct zep_ref ref);
/* Copies what rows hold into rows that were written as HOLE by one ck_write. */
int ck_fill(struct check *ck, int dst_dev, struct zep_ref dst, int src_dev, struct zep_ref src, int64_t n);
int ck_fill_layout(struct check *ck, int dev, enum zep_space space, const struct ck_layout *layout);
/* Forgets what a space holds; rows < 0: no rows until something is written. */
int ck_reset_space(struct check *ck, int dev, enum zep_space space, int64_t rows);

/* check_attn.c */
int ck_attn(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op);
int ck_add(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op);
int ck_copy(struct check *ck, const struct ck_where *w, const struct ck_event *ev, const struct zep_op *op);
/* 0 none; else what one row's data is: 1 Q, 2 KV, 3 O, 4 dO, 5 dQ, 6 dKV. */
int ck_space_data(enum zep_space space);

/* check_lane.c: groups. */
int ck_enqueue(struct check *ck, const struct ck_where *w, const struct zep_op *op);
/* Posts the group at the head of a lane if it may be; 1 posted, 0 not. */
int ck_post(struct check *ck, int dev, enum zep_lane lane);
void ck_wake(struct check *ck, int dev);
void ck_groups_free(struct check *ck);

/* check_run.c: one pass. */
int ck_run(struct check *ck);

/* check_cover.c: every causal pair of every sequence exactly once. */
int ck_cover(struct check *ck);

#endif
