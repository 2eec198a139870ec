/* What the files of the schedule share: the state of one device's stream (sched_open.c makes it, sched.c unrolls it). */
#ifndef ZEP_PLANNER_SCHED_INTERNAL_H
#define ZEP_PLANNER_SCHED_INTERNAL_H

#include "planner/sched.h"

#define ZEP_N_STAGE 3

/* A ring that the device is a member of. Marks and waits are counts from the start of the pass. */
struct sched_ring {
    int32_t ring, pos, n_member;
    int32_t j;          /* number among the device's rings with more than one member; -1: a ring of one */
    int64_t row0, n;    /* its own block in the attention layout */
    int work;           /* the step in hand has something to compute */
    int32_t kv_mark[2]; /* compute operations of the queue up to the last one that reads ring slot s */
    int32_t dkv_mark[2]; /* ... up to the last one that writes accumulator slot s */
    int32_t kv_wait[2];  /* groups of the lane up to the one that fills ring slot s */
    int32_t dkv_wait[2];
    int32_t step_wait;   /* kv_wait of the step in hand, kept because the look-ahead fills the slot's next turn in */
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
    int max_step;                         /* number of steps of the device's own rings */
    int staged;                           /* some part takes three stages */
    /* position */
    int step, stage, i_attn, i_add;
};

enum sched_state {
    SCHED_IN_GROUP = 0,
    SCHED_IN_COPY,
    SCHED_IN_COPY_2,
    SCHED_IN_BARRIER,
    SCHED_ZONES,
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
    /* position */
    enum sched_state state;
    int z;
    int32_t n_group[ZEP_N_LANE], n_compute[ZEP_N_QUEUE];
    /* the group or the pairs in hand */
    int n_xfer, cap_xfer, n_pair, cap_pair;
    struct zep_xfer *xfer;
    struct zep_pair *pair;
    int32_t after;
};

/* Rows of member pos of a ring in the attention layout of its device. */
int64_t sched_block_rows(const struct zep_plan *plan, int ring, int pos);

#endif
