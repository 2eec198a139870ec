/* What the files of the schedule share: the state of one device's stream (sched_open.c makes it, sched.c unrolls it). */
#ifndef ZEP_PLANNER_SCHED_INTERNAL_H
#define ZEP_PLANNER_SCHED_INTERNAL_H

#include "planner/sched.h"

/* Groups of a round, in this order: the three stages of hops of single rings, then what goes between nodes and inside nodes on a grid (double ring, all-gather). The last two are on
 * different lanes and have the same place in their keys. */
enum { STAGE_DISPATCH = 0, STAGE_CENTRE, STAGE_COMBINE, STAGE_CROSSING, STAGE_INNER, ZEP_N_STAGE };

/* What a ring may do in a step, in the order of the stream (of each all rings of the zone). */
enum sched_do {
    DO_ATTN = 0, /* the step's block; all-gather: the member's own */
    DO_GATHERED, /* all-gather: attention with all other blocks */
    DO_ADD,
    DO_LATE,     /* double ring: a turn's sum; all-gather: what came from the next node */
    SCHED_N_DO,
};

/* Of the pass. Marks count compute operations of the queue, waits count groups of the lane that fills a slot (kv_sent, dkv_sent: of the node lane), from the start of the pass.
 * Slots are numbered from the ring's first one. */
struct sched_ring_state {
    unsigned char does[SCHED_N_DO]; /* the step in hand */
    int32_t kv_mark[4];  /* up to the last one that reads the slot */
    int32_t dkv_mark[4]; /* up to the last one that writes the slot (or reads it, where slots are only received into) */
    int32_t kv_wait[4], dkv_wait[4];
    int32_t kv_sent[2], dkv_sent[4]; /* up to the group that sends the slot on */
    int32_t step_wait;   /* kv_wait of the step in hand, kept because the look-ahead fills the slot's next turn in */
    int32_t acc_wait;    /* double ring: dkv_sent of the step in hand likewise; all-gather: dkv_wait of the crossings' slot */
    int32_t attn_mark;   /* all-gather: up to attention with all other blocks */
    int32_t all_wait[ZEP_N_LANE]; /* all-gather: up to the last group that brings a block */
};

/* A ring that the device is a member of. */
struct sched_ring {
    int32_t ring, pos, n_member; /* where heads are exchanged: the group's number, the number of groups */
    int32_t slice, heads;     /* the member's number in its group, of so many; 0, 1: no exchange */
    int32_t head;             /* slot in HEAD_* */
    int64_t att_row0, att_n;  /* where heads are exchanged: its own rows in ATT_* */
    int32_t form;             /* enum zep_form */
    int32_t n_node, per_node; /* the grid; the member is (v, p) in it. Single ring: n_member x 1 */
    int32_t v, p;
    enum zep_lane inner;      /* a grid's lane inside nodes */
    int32_t kv0, dkv0;        /* first slots in RING_KV, RING_DKV */
    int32_t scratch;          /* slot in SCRATCH_DKV */
    int32_t gather;           /* slot in GATHER_KV, GATHER_DKV */
    int32_t attn_step;        /* all-gather: the step of attention */
    int64_t row0, n;          /* its own block in the attention layout, or in HEAD_* */
    int64_t n_other;          /* all-gather: rows of all other blocks */
    int64_t *off;             /* all-gather: [n_member] where each begins in the slot */
    int32_t *crossing_wait;   /* all-gather: [n_node] groups of the world lane up to the crossing */
    struct sched_ring_state at;
};

/* One part of one hop in which the device has a role; by ring, hop and part. */
struct sched_item {
    int32_t ring, from, part, n_part;
    int32_t sender, src, dst, receiver;
    int32_t out, in; /* the device's sched_ring where it is the sender, the receiver; else -1 */
    int32_t stage;   /* staging slot; -1: not needed */
};

struct sched_zone {
    int ring0, ring_end, item0, item_end; /* ranges in ring, item */
    int max_round[2];                     /* by pass: 0 means no transfers */
    int max_step[2];                      /* by pass: number of steps of the device's own rings */
    int staged;                           /* some part takes three stages */
    int has_grid;                         /* some ring is no single ring */
    /* position */
    int step, stage, what, i_ring;
};

enum sched_state {
    SCHED_IN_GROUP = 0,
    SCHED_IN_COPY,
    SCHED_IN_COPY_2,
    SCHED_IN_BARRIER,
    SCHED_HEADS_IN,
    SCHED_HEADS_IN_BARRIER,
    SCHED_ZONES,
    SCHED_HEADS_OUT_BARRIER,
    SCHED_HEADS_OUT,
    SCHED_OUT_BARRIER,
    SCHED_OUT_GROUP,
    SCHED_OUT_COPY,
    SCHED_OUT_COPY_2,
    SCHED_END,
};

struct zep_sched {
    const struct zep_plan *plan;
    int dev;
    enum zep_pass pass;
    int no_pairs; /* operations are wanted without their pairs */
    int n_ring, n_item;
    struct sched_ring *ring;
    struct sched_item *item;
    struct sched_zone zone[ZEP_N_QUEUE];
    int n_move;
    int32_t *move; /* the moves from and to the device */
    int64_t kept;  /* rows that stay in a remap */
    int n_head;    /* rings that exchange heads */
    /* position */
    enum sched_state state;
    int z, i_head; /* in a phase of heads: 0, 1 the groups, then the copies */
    int32_t n_group[ZEP_N_LANE], n_compute[ZEP_N_QUEUE];
    /* the group or the pairs in hand */
    int n_xfer, cap_xfer, n_pair, cap_pair;
    struct zep_xfer *xfer;
    struct zep_pair *pair;
    int n_run, cap_run;
    struct zep_run *run;
    int32_t after, wait[ZEP_N_LANE];
};

/* Members of a ring, or groups where heads are exchanged; all positions below are of these. */
static inline int sched_ring_size(const struct zep_plan *plan, int ring)
{
    return plan->ring[ring].n_member / zep_ring_heads(&plan->ring[ring]);
}
/* The device at a position whose heads are the device's own. */
static inline int sched_peer(const struct zep_sched *s, const struct sched_ring *ring, int pos)
{
    return s->plan->member[s->plan->ring[ring->ring].member0 + pos * ring->heads + ring->slice];
}
/* Rows of a buffer that a ring has to itself; its own block in ATT_* or HEAD_*, from a row on. */
static inline struct zep_ref sched_ref(const struct sched_ring *ring, enum zep_space space, int slot, int64_t row)
{
    return (struct zep_ref){space, slot, row, ring->slice, ring->heads > 1 ? ring->heads : 0};
}
static inline struct zep_ref sched_own(const struct sched_ring *ring, enum zep_space att, int64_t row)
{
    return ring->heads > 1 ? sched_ref(ring, zep_space_of_heads(att), ring->head, ring->row0 + row) : sched_ref(ring, att, 0, ring->row0 + row);
}

/* Rows of the block at a position of a ring. */
int64_t sched_block_rows(const struct zep_plan *plan, int ring, int pos);
/* Whether the queries of the device's member see anything of the block of a step. */
int sched_sees(const struct zep_sched *s, const struct sched_ring *ring, int step);
int sched_add_xfer(struct zep_sched *s, int send, int peer, struct zep_ref ref, int64_t n, struct zep_error *err);
/* Whose block step t computes with (all-gather: the t-th block in the order of the blocks' arrival). */
int sched_step_block(const struct zep_sched *s, const struct sched_ring *ring, int step);

/* sched_heads.c: the next operation of a phase of heads: 1, 0 when it has no more, negative error. */
int sched_heads_next(struct zep_sched *s, int out, struct zep_op *op, struct zep_error *err);
/* sched.c: makes the group in hand an operation. */
void sched_heads_group(struct zep_sched *s, enum zep_lane lane, int out, struct zep_op *op);

/* sched_grid.c: double rings and all-gather. */
/* The grid, the slots and the tables of a ring; *kv, *dkv, *scratch, *gather go on with the slots that it takes. */
int sched_grid_open(struct zep_sched *s, struct sched_ring *ring, int32_t *kv, int32_t *dkv, int32_t *scratch, int32_t *gather, struct zep_error *err);
int sched_grid_max_round(const struct sched_ring *ring, enum zep_pass pass);
int sched_grid_n_step(const struct sched_ring *ring, enum zep_pass pass);
/* What the ring does in a step; the marks that the operation numbered `count` sets; the operation. */
void sched_grid_decide(const struct zep_sched *s, struct sched_ring *ring, int step);
void sched_grid_mark(const struct zep_sched *s, struct sched_ring *ring, enum sched_do what, int step, int32_t count);
void sched_grid_compute(const struct zep_sched *s, const struct sched_ring *ring, enum sched_do what, int step, struct zep_op *op);
/* Adds the transfers of a round that all grids of the zone have on a lane. */
int sched_grid_group(struct zep_sched *s, struct sched_zone *zone, int round, enum zep_lane lane, struct zep_error *err);

#endif
