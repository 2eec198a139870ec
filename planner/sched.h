/* A schedule: the plan unrolled, lazily, for one device and one pass of one layer. Everything consumes this stream: the checker, the simulator, the runtime (design, sections 1 and 6).
 *
 * Phases of a pass, divided by ZEP_OP_BARRIER (all earlier operations of this device are complete before a later one begins):
 *   forward:  remap in (Q and KV rows, linear -> attention) | attention | remap out (O rows, attention -> linear)
 *   backward: remap in (dO rows, linear -> attention)       | attention | remap out (dQ and dKV rows, attention -> linear)
 * In a remap phase the rows that stay are ZEP_OP_COPY, the moved ones one ZEP_OP_GROUP on the world lane (none where a device has neither).
 * A device that exchanges heads has two phases more, which lie next to attention:
 *   forward:  remap in | heads in (Q and KV) | attention | heads out (O)        | remap out
 *   backward: remap in | heads in (dO)       | attention | heads out (dQ, dKV)  | remap out
 *
 * Transfers are posted in groups. A lane is a first-in first-out queue of groups on one communicator: a group is posted when the group before it on its lane is complete
 * and the operations (after) and groups of other lanes (wait) that it names are; it completes when all its transfers are done. Compute operations run in the order of their queue when the groups that they name (wait)
 * are complete; taking the whole stream in order, one operation at a time, is always right. Operations of different queues touch different rows and may be run in any order.
 * Every group has a key; on each lane keys ascend in the stream of every device and two transfers that meet have the same key: so there is no cycle.
 *
 * Single ring, forward, G members, member m: step t = 0 .. G-1 computes with the block of member m-t (mod G). Hop t (1 .. G-1) brings it from the previous member into ring slot (t+1) mod 2
 * and sends on to the next member what step t-1 used. Round t of the lane is hop t of all rings of the zone.
 * Backward the own block comes last, so that the last hop of the gradients is behind it: steps t = 1 .. G-1 as forward, step G with the own block. Round r = 1 .. G+1 carries KV hop r (r <= G-1) and dKV hop r-2
 * (3 <= r). Step 1 begins an accumulator in slot 1 (cleared), step t = 2 .. G-1 writes a cleared scratch, which is added to the accumulator in slot t mod 2; dKV hop t (1 .. G-1) sends on what step t
 * left and brings what step t+1 adds to. Hop G-1 brings a member's sum home; it is added to ATT_DKV, which has what step G wrote there.
 * Order of summation of member m's dK and dV: members m+1, m+2, ..., m-1, from the left, and this sum is added to what m contributes.
 * A hop between nodes takes three groups of a round: stage 0 dispatch to the proxies, stage 1 the transfers between nodes and all direct hops, stage 2 combine.
 *
 * Exchange of heads: U members of a ring that lie side by side are a group (plan.h). In the phase heads in, each member sends the w-th of U parts of the heads of its own rows (spaces ATT_*) to member w of its group and receives its
 * own part of the others' rows; after it, member u has the rows of the whole group, each with 1/U of the heads, in spaces HEAD_*: for each sequence of the ring in order, the group's first run of chunks, then its
 * second one, as the rows of a member of a ring of R = G/U have it. Attention and all transfers between groups are those of such a ring of R members (those of the same u), on rows of 1/U of the heads, with spaces HEAD_* in place
 * of ATT_*. The phase heads out is the way back. A phase has one group on the world lane for members of other nodes and one on the node lane, in the order (ring, member, spaces) at both ends; its own part is a
 * ZEP_OP_COPY. A message's rows lie in the sender's (or receiver's) layout one after the other, in the group's layout in two runs a sequence: transfers and copies carry these runs for their HEAD_* side.
 *
 * Rings on a grid have N nodes of P members; member (v, p) is position v * P + p. Between nodes a device meets only its counterparts (v', p), on the world lane and straight; inside its node only
 * its neighbours p-1 and p+1 (backward, twice, also others), on the grid lane (the node lane where the ring is in one node). The two lanes' groups of a round are apart, so that neither waits for the other but where it must.
 *
 * Double ring, forward: step t = j * P + i, turn j = 0 .. N-1, i = 0 .. P-1: member (v, p) computes with the block of (v-j, p-i). Inner hop t (i >= 1), in round t, brings it from (v, p-1) into one of two
 * inner slots in turn; the block of i = 0 came by crossing j (1 .. N-1) from (v-1, p) into outer slot j+1 mod 2, where it stays during turn j. Crossing j sends on what turn j-1 begins with. It is in round
 * 1 or (j-2) * P + 2: as soon as the first step of turn j-2 and the inner hop after it have let go of its slot; it waits for nothing else that is inside the node.
 *
 * Double ring, backward, P > 1: the own block and the first E = (P+1) / 3 - 1 (rounded down) places of the own turn come first and fill the wait for the first crossing; then the turns j = 1 .. N-1 of the
 * other nodes' blocks; the rest of the own turn comes last, so that the last crossing of the gradients, twice as many bytes, is behind it. Step 0 computes with the own block, step i = 1 .. E with that of
 * (v, p-i), step t = E + (j-1) * P + i + 1 with that of (v-j, p-i), step (N-1) * P + i, i = E+1 .. P-1, with that of (v, p-i). Inner hop t (i >= 1) is in round t; where the own turn is taken up again (i = E+1) it
 * comes straight from (v, p-i). Crossing j is in round j (j <= 2) or E + (j-3) * P + 3, on the same terms as forward.
 * Inner accumulators begin at the first step of a turn or of a part of the own one (cleared) and go one step behind their keys: the inner dKV hop in round t+2 sends what step t left and brings what step t+1
 * adds to. The own turn's first part ends with a hop straight home into outer slot 0; step E+1 adds it to ATT_DKV. The sum of turn j < N is whole at its last step, i = P-1, one place before the
 * member that began with the block, and crosses from there: dKV crossing j (1 .. N-1, in round E + j * P + 2) takes the sums up to turn j from (v-1, p) to (v, p), where at the end of the next turn (of the own
 * one: step G-1) that turn's sum is added, in outer slot j+1 mod 2. The first turn's last step adds to outer slot 1 itself, whereinto the inner hop brings its sum.
 * After step G-1 one more inner hop, in round G+1, brings home what is then the rest of the sum; step G adds it to ATT_DKV. Where P = 1 there are no inner hops and the order is that of a single ring.
 * Order of summation of the dK and dV of (w, p): c(p) + (c(p+1) + ... + c(p+E)) + (S(1) + ... + S(N-1) + (c(p+E+1) + ... + c(p+P-1))) with the contributions c of the own node, every sum from the left; S(j), of
 * node w+j, is d(p) + d(p+1) + ... + d(p+P-1), where d(q) is what (w+j, q) contributes.
 *
 * All-gather: the same transfers, but each block goes to a place of its own (so nothing waits for a slot): crossing j in round j, inner hop h = j * (P-1) + i in round h; where the members of a ring do not
 * form a grid, N = G and P = 1. When all has arrived, one attention operation takes the own block (step 0) and one all others in the order of the double ring's steps (step 1).
 * Backward: the blocks are gathered again; attention with the others' comes first, the own block hides the first hop of the way back, or the first crossing. dK and dV of all other blocks are
 * reduced along the way back, the farthest turn first. Inner hop h' (1 .. N(P-1)) of the way back takes a block of turn j = N-1 - (h'-1) / (P-1) from (v, p) to (v, p-1), which adds it to its own; when a turn
 * j >= 1 is together, a crossing takes it from (v, p) to (v-1, p), which adds it to its turn j-1 after what comes there from inside the node.
 * Order of summation of the dK and dV of (w, p): T(0), where T(j) = R(j, 0) + T(j+1), T(N) = 0 and R(j, i) = c(p+i) + R(j, i+1), R(j, P) = 0, with the contributions c of node w+j. */
#ifndef ZEP_PLANNER_SCHED_H
#define ZEP_PLANNER_SCHED_H

#include <stdint.h>
#include "common/error.h"
#include "planner/plan.h"

enum zep_pass { ZEP_PASS_FWD = 0, ZEP_PASS_BWD };
/* Communicators: between nodes; inside a node, for rings of one node; inside a node, for rings over several (so that neither queues behind the other). */
enum zep_lane { ZEP_LANE_WORLD = 0, ZEP_LANE_NODE, ZEP_LANE_GRID, ZEP_N_LANE };
/* A barrier says which phase it begins. */
enum zep_phase { ZEP_PHASE_IN = 0, ZEP_PHASE_HEADS_IN, ZEP_PHASE_ATTN, ZEP_PHASE_HEADS_OUT, ZEP_PHASE_OUT, ZEP_N_PHASE };
enum zep_queue { ZEP_QUEUE_INTER = 0, ZEP_QUEUE_INTRA, ZEP_QUEUE_LOCAL, ZEP_N_QUEUE };

/* Where rows live. A row is one token's data: q-like [n_head, head_dim] or kv-like [2, n_head_kv, head_dim] (k, then v). */
enum zep_space {
    ZEP_SPACE_NONE = 0,
    ZEP_LIN_Q, ZEP_LIN_KV, ZEP_LIN_O, ZEP_LIN_DO, ZEP_LIN_DQ, ZEP_LIN_DKV, /* linear layout, slot 0 */
    ZEP_ATT_Q, ZEP_ATT_KV, ZEP_ATT_O, ZEP_ATT_DO, ZEP_ATT_DQ, ZEP_ATT_DKV, /* attention layout, slot 0 */
    ZEP_RING_KV,     /* received blocks; each ring of the device with G > 1 has slots of its own: a single ring two (G = 2: one), a double ring two for turns (N = 2: one) and two for steps, an all-gather none */
    ZEP_RING_DKV,    /* accumulators under way, likewise: a single ring two, a double ring two and two, an all-gather one for crossings and two for hops in the node */
    ZEP_SCRATCH_DKV, /* contribution of the step in hand, one slot for each single or double ring with G > 2 */
    ZEP_PROXY_KV, ZEP_PROXY_DKV, /* staging of proxies; slots numbered per device */
    ZEP_GATHER_KV,   /* all-gather: the blocks of all other members of a ring, by member, one slot for each such ring of the device */
    ZEP_GATHER_DKV,  /* their gradients, likewise */
    ZEP_HEAD_Q, ZEP_HEAD_KV, ZEP_HEAD_O, ZEP_HEAD_DO, ZEP_HEAD_DQ, ZEP_HEAD_DKV, /* the device's part of the heads of its group's rows, in the order of ATT_*; one slot for each ring of the device that exchanges heads */
    ZEP_N_SPACE
};
static inline int zep_space_is_kv(enum zep_space s)
{
    return s == ZEP_LIN_KV || s == ZEP_LIN_DKV || s == ZEP_ATT_KV || s == ZEP_ATT_DKV || s == ZEP_HEAD_KV || s == ZEP_HEAD_DKV || (s >= ZEP_RING_KV && s <= ZEP_GATHER_DKV);
}

/* The rows' counterpart in spaces of exchanged heads. */
static inline enum zep_space zep_space_of_heads(enum zep_space att)
{
    return (enum zep_space)((int)ZEP_HEAD_Q + ((int)att - (int)ZEP_ATT_Q));
}
static inline int zep_space_is_heads(enum zep_space s)
{
    return s >= ZEP_HEAD_Q && s <= ZEP_HEAD_DKV;
}

struct zep_ref { /* rows of a buffer */
    enum zep_space space;
    int32_t slot;
    int64_t row;
    int32_t slice, n_slice; /* n_slice >= 2: the slice-th of so many equal parts of the heads. In ATT_* it is taken out of whole rows, in all others rows are no more than that. 0: whole rows */
};

struct zep_run { /* rows, from a ref's row on */
    int64_t row, n;
};

struct zep_xfer {
    int send;     /* 1 send, 0 receive */
    int32_t peer; /* plan device */
    struct zep_ref ref;
    int64_t n;    /* rows, > 0 */
    int32_t run0, n_run; /* n_run > 0: the rows of ref, which is HEAD_*, are these of the op's runs, n together; else they follow each other */
};

/* One block of attention: queries rows q_row.. of ATT_Q (and ATT_O, lse, ATT_DO, ATT_DQ), or of the same HEAD_* slot, against rows kv.row + k_row.. of the op's kv buffer. Positions are those within the document. */
struct zep_pair {
    int64_t q_row, n_q, q_pos;
    int64_t k_row, n_k, k_pos; /* k_row relative to op.kv.row (and to op.dkv.row in backward) */
};

enum zep_op_kind { ZEP_OP_NONE = 0, ZEP_OP_GROUP, ZEP_OP_ATTN, ZEP_OP_ADD, ZEP_OP_COPY, ZEP_OP_BARRIER };

struct zep_op {
    enum zep_op_kind kind;
    /* GROUP */
    enum zep_lane lane;
    int64_t key;
    int32_t after[ZEP_N_QUEUE]; /* how many compute operations of each queue (ATTN, ADD; counted from the start of the pass) must be complete before it is posted */
    int n_xfer;
    const struct zep_xfer *xfer; /* valid until the next call on this schedule */
    /* GROUP, ATTN, ADD */
    int32_t wait[ZEP_N_LANE]; /* how many groups of each lane (counted from the start of the pass) must be complete first */
    /* ATTN, ADD */
    enum zep_queue queue;
    int32_t ring, step;
    struct zep_ref q;   /* ATTN: row 0 of ATT_Q or of a slot of HEAD_Q; all refs of an operation are of the same heads */
    struct zep_ref kv;  /* ATTN: first row of the block's keys and values */
    struct zep_ref dkv; /* ATTN backward: first row of where dK and dV are added */
    int clear;          /* ATTN backward: n rows from dkv are set to zero first. (Forward: the executor sets O to 0 and lse to -inf when the attention phase begins, backward: ATT_DQ and ATT_DKV to 0; HEAD_* likewise.) */
    int n_pair;
    const struct zep_pair *pair; /* valid until the next call; only pairs with n_q, n_k > 0 and something to see */
    /* ADD: dst rows += src rows; COPY: dst rows = src rows */
    struct zep_ref dst, src;
    int64_t n; /* rows of ADD, COPY; of the kv block for ATTN */
    /* GROUP: of its transfers; COPY: where n_run > 0, of the side that is HEAD_* */
    int n_run;
    const struct zep_run *run; /* valid until the next call */
    /* BARRIER */
    enum zep_phase phase; /* that begins */
};

struct zep_sched;

int zep_sched_open(const struct zep_plan *plan, int dev, enum zep_pass pass, struct zep_sched **sched_out, struct zep_error *err);
/* Next operation: 1 = *op is set, 0 = end, negative = error (out of memory). */
int zep_sched_next(struct zep_sched *sched, struct zep_op *op, struct zep_error *err);
void zep_sched_rewind(struct zep_sched *sched); /* from the start again; no allocation in a second run over the same stream */
void zep_sched_free(struct zep_sched *sched);

/* How many slots each space needs on this device, and the largest number of rows of a slot (over both passes). Rows of a part of the heads count as that part, rounded up. */
struct zep_sched_need {
    int32_t n_slot[ZEP_N_SPACE];
    int64_t rows[ZEP_N_SPACE];
    int32_t max_xfer;    /* transfers in one group */
    int64_t head_q, head_kv; /* q-like and kv-like rows, in whole ones, of all transfers and copies of a pass that exchange heads */
    int32_t max_pending; /* groups on one lane in the whole pass: a bound for queues */
};
int zep_sched_need(const struct zep_plan *plan, int dev, struct zep_sched_need *out, struct zep_error *err);

#endif
