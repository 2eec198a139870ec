/* Broken plans and broken streams: all are refused, each with its reason. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "planner/check.h"
#include "tests/unit/view_util.h"

/* Two nodes of four devices with two NICs; all three zones, routed hops, moves. */
static const int64_t lens[] = {700, 160, 150, 90, 60, 33, 21, 7};
enum { N_LEN = sizeof lens / sizeof lens[0], CAP = 170 };

static struct zep_plan *good_plan(void)
{
    struct zep_view *view = make_view(2, 4, 2);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_plan_stats st;
    struct zep_error err;

    opts.capacity_tok = CAP;
    ck_assert_msg(zep_plan_build(view, lens, N_LEN, &opts, &plan, &err) == ZEP_OK, "%s", err.text);
    ck_assert_msg(zep_plan_check(plan, lens, N_LEN, NULL, NULL, &err) == ZEP_OK, "%s", err.text);
    zep_plan_stats(plan, &st);
    ck_assert(st.zone_seq[1] > 0 && st.zone_seq[2] > 0 && st.zone_seq[3] > 0 && plan->n_move > 1 && plan->n_hop > 0 && plan->n_proxy > plan->n_hop);
    test_view_free(view);
    return plan;
}

/* --- plans --- */

static int ring_of_zone(const struct zep_plan *p, int zone)
{
    for (int i = 0; i < p->n_ring; i++)
        if (p->ring[i].zone == zone && (zone == ZEP_ZONE_LOCAL || p->ring[i].n_member > 1))
            return i;
    ck_abort_msg("no such ring");
    return -1;
}

static int32_t *members(struct zep_plan *p, int zone)
{
    return &p->member[p->ring[ring_of_zone(p, zone)].member0];
}

static void member_twice(struct zep_plan *p) { members(p, ZEP_ZONE_INTER)[1] = members(p, ZEP_ZONE_INTER)[0]; }
static void member_outside(struct zep_plan *p) { members(p, ZEP_ZONE_INTER)[1] = 99; }
static void member_other_node(struct zep_plan *p) { members(p, ZEP_ZONE_INTRA)[0] = members(p, ZEP_ZONE_INTRA)[0] < 4 ? 7 : 0; }
static void seq_other_ring(struct zep_plan *p) { p->seq[0].ring = p->n_ring - 1; }
static void seq_no_ring(struct zep_plan *p) { p->seq[0].ring = p->n_ring; }
static void seq_longer(struct zep_plan *p) { p->seq[2].len++; }
static void seq_shifted(struct zep_plan *p) { p->seq[3].token0++; }
static void rot_outside(struct zep_plan *p) { p->seq[0].rot = 2 * p->ring[p->seq[0].ring].n_member; }
static void rot_other(struct zep_plan *p) { p->seq[0].rot = (p->seq[0].rot + 5) % (2 * p->ring[p->seq[0].ring].n_member); }
static void seq_listed_twice(struct zep_plan *p) { p->ring_seq[p->n_seq - 1] = p->ring_seq[p->n_seq - 2]; }
static void move_larger(struct zep_plan *p) { p->move[0].n += 1; }
static void move_huge(struct zep_plan *p) { p->move[0].n += 100000; }
static void move_zero(struct zep_plan *p) { p->move[0].n = 0; }
static void move_to_itself(struct zep_plan *p) { p->move[0].to = p->move[0].from; }
static void moves_swapped(struct zep_plan *p) { struct zep_plan_move m = p->move[0]; p->move[0] = p->move[1]; p->move[1] = m; }
static void move_back(struct zep_plan *p) { p->move[1].from = p->move[0].to; p->move[1].to = p->move[0].from; }
static void capacity_less(struct zep_plan *p) { p->capacity_tok = 100; }
static void capacity_of_one(struct zep_plan *p)
{
    p->dev_capacity = zep_calloc((size_t)p->n_dev, sizeof *p->dev_capacity);
    ck_assert_ptr_nonnull(p->dev_capacity);
    for (int d = 0; d < p->n_dev; d++)
        p->dev_capacity[d] = d == 5 ? 100 : CAP;
}
static void capacity_of_one_more(struct zep_plan *p)
{
    capacity_of_one(p);
    p->dev_capacity[5] = CAP + 1;
}
static void proxy_other_node(struct zep_plan *p) { p->proxy[p->hop[0].proxy0 + 1].src = p->dev_node[p->proxy[p->hop[0].proxy0].src] ? 0 : 7; }
static void proxy_dst_other_node(struct zep_plan *p) { p->proxy[p->hop[0].proxy0 + 1].dst = p->dev_node[p->proxy[p->hop[0].proxy0].dst] ? 0 : 7; }
static void proxy_twice(struct zep_plan *p) { p->proxy[p->hop[0].proxy0 + 1].src = p->proxy[p->hop[0].proxy0].src; }
static void proxy_none(struct zep_plan *p) { p->hop[0].n_proxy = 0; }
static void hop_gone(struct zep_plan *p) { p->ring[ring_of_zone(p, ZEP_ZONE_INTER)].n_hop--; }
static void hop_inside(struct zep_plan *p) { p->hop[0].from = (p->hop[0].from + 1) % 4; }
static void zone_wrong(struct zep_plan *p) { p->ring[ring_of_zone(p, ZEP_ZONE_INTER)].zone = ZEP_ZONE_INTRA; }
static void zone_unknown(struct zep_plan *p) { p->ring[0].zone = 9; }
static void form_unknown(struct zep_plan *p) { p->ring[0].form = 7; }
static void heads_one(struct zep_plan *p) { p->ring[0].heads = 1; }
static void heads_odd(struct zep_plan *p) { p->ring[0].heads = 3; }
static void heads_with_hops(struct zep_plan *p) { p->ring[0].heads = 2; }
static void node_outside(struct zep_plan *p) { p->dev_node[7] = 2; }
static void nodes_mixed(struct zep_plan *p) { p->dev_node[0] = 1; }
static void tokens_wrong(struct zep_plan *p) { p->n_token--; }
static void slots_wrong(struct zep_plan *p) { p->slot[1].row0++; }
static void attn_wrong(struct zep_plan *p) { p->attn_tok[2]--; }

static const struct {
    const char *name;
    void (*change)(struct zep_plan *p);
    int derive; /* what follows from the plan is computed again: the change itself must be found */
    const char *reason;
} plan_cases[] = {
    {"a device twice in a ring", member_twice, 1, "is a member twice"},
    {"a device that does not exist", member_outside, 0, "the plan has devices 0 to 7"},
    {"an intra-node ring over two nodes", member_other_node, 1, "of an intra-node ring are in nodes"},
    {"a sequence in another ring than lists it", seq_other_ring, 0, "says that it belongs to ring"},
    {"a sequence in no ring", seq_no_ring, 0, "the plan has"},
    {"a longer sequence", seq_longer, 1, "tokens in the plan, expected"},
    {"a sequence that begins later", seq_shifted, 0, "begins at token"},
    {"a rot beyond the ring", rot_outside, 0, "rot 16: expected 0 to 15"},
    {"another rot than the derived layout has", rot_other, 0, "plan says|begins at row|deadlock|expected|reads|rows"},
    {"a sequence listed twice", seq_listed_twice, 0, "is in it twice|says that it belongs"},
    {"a move of one token more", move_larger, 0, "plan says"},
    {"a move of more than there is", move_huge, 0, "tokens more than it holds"},
    {"a move of nothing", move_zero, 0, "expected at least 1"},
    {"a move to itself", move_to_itself, 0, "expected two different devices"},
    {"moves out of order", moves_swapped, 1, "expected ascending order"},
    {"a device that sends and receives moves", move_back, 0, "sends and receives moves|ascending order"},
    {"less capacity than is used", capacity_less, 1, "capacity 100"},
    {"less capacity of one device than is used", capacity_of_one, 1, "device 5: "},
    {"more capacity of one device than the largest", capacity_of_one_more, 0, "device 5: capacity 171: expected 0 to 170"},
    {"a sender's proxy in another node", proxy_other_node, 1, "its sender"},
    {"a receiver's proxy in another node", proxy_dst_other_node, 1, "its receiver"},
    {"a proxy twice on one side", proxy_twice, 1, "is a proxy twice on one side"},
    {"a hop without proxies", proxy_none, 1, "0 proxies"},
    {"a hop left out", hop_gone, 1, "expected a hop between nodes|is none between nodes"},
    {"a hop inside a node", hop_inside, 1, "expected a hop between nodes"},
    {"an inter-node ring called intra-node", zone_wrong, 1, "of an intra-node ring are in nodes"},
    {"an unknown zone", zone_unknown, 0, "is none of local"},
    {"an unknown form of transfer", form_unknown, 0, "form of transfer 7"},
    {"heads in one part", heads_one, 0, "heads 1: expected at least 2"},
    {"heads in parts that do not divide the ring", heads_odd, 0, "heads 3: expected at least 2, dividing its 8 members"},
    {"an exchange of heads with proxies", heads_with_hops, 0, "a ring that exchanges heads has none"},
    {"a device in a node that does not exist", node_outside, 0, "the plan has nodes 0 to 1"},
    {"devices not node by node", nodes_mixed, 0, "devices go node by node"},
    {"a wrong total", tokens_wrong, 0, "tokens, expected"},
    {"a membership at a wrong row", slots_wrong, 0, "begins at row"},
    {"a wrong number of tokens of a device", attn_wrong, 0, "plan says"},
};

/* "a|b": one of them is in the text. */
static int says(const char *text, const char *reasons)
{
    char one[128];

    for (const char *p = reasons; *p;) {
        size_t n = strcspn(p, "|");

        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (strstr(text, one))
            return 1;
        p += n + (p[n] == '|');
    }
    return 0;
}

/* All cases are told of, not only the first. */
static int missed(const char *name, int rc, const char *text, const char *reason)
{
    if (rc == ZEP_EINVAL && says(text, reason))
        return 0;
    fprintf(stderr, "%s: %s '%s', expected '%s'\n", name, rc == ZEP_EINVAL ? "refused with" : "was not refused", text, reason);
    return 1;
}

START_TEST(broken_plans)
{
    int n_bad = 0;

    for (size_t i = 0; i < sizeof plan_cases / sizeof plan_cases[0]; i++) {
        struct zep_plan *p = good_plan();
        struct zep_error err = {0};

        plan_cases[i].change(p);
        if (plan_cases[i].derive) {
            free(p->slot);
            p->slot = NULL;
            ck_assert_msg(zep_plan_finish(p, &err) == ZEP_OK, "%s: %s", plan_cases[i].name, err.text);
        }
        n_bad += missed(plan_cases[i].name, zep_plan_check(p, lens, N_LEN, NULL, NULL, &err), err.text, plan_cases[i].reason);
        zep_plan_free(p);
    }
    ck_assert_int_eq(n_bad, 0);
}
END_TEST

/* --- streams --- */

enum change {
    DROP, DUPLICATE_SEND, DROP_XFER, MORE_ROWS, OTHER_ROW, OTHER_PEER, FLIP, OTHER_KEY, OTHER_LANE, NO_AFTER, FEWER_QUERIES, FEWER_KEYS, K_POS, Q_POS, NO_WAIT, NO_CLEAR, OTHER_KV, OTHER_DST, OTHER_SRC,
    KEY_AS_BEFORE, ROW_OUTSIDE, NO_PAIRS, PAIR_TWICE, FUTURE_WAIT, OTHER_HEADS, ALL_HEADS, OTHER_RUN, RUN_LOST,
};

struct stream_case {
    const char *name;
    enum zep_pass pass;
    enum zep_op_kind kind;
    int lane, queue, step;      /* -1: any */
    enum zep_space space;       /* a group with a transfer of this space, an operation on it; NONE: any */
    int nth;                    /* of those that match */
    enum change change;
    const char *reason;
};

struct mutation {
    const struct stream_case *c;
    int seen, done;
    struct zep_xfer *xfer;
    struct zep_pair *pair;
    struct zep_run *run;
    int dev;
    int64_t index;
};

static int find_xfer(const struct zep_op *op, enum zep_space space)
{
    for (int i = 0; i < op->n_xfer; i++)
        if (space == ZEP_SPACE_NONE || op->xfer[i].ref.space == space)
            return i;
    return -1;
}

static int matches(const struct stream_case *c, enum zep_pass pass, const struct zep_op *op)
{
    if (pass != c->pass || op->kind != c->kind)
        return 0;
    if (op->kind == ZEP_OP_GROUP && c->change == NO_AFTER && !op->after[0] && !op->after[1] && !op->after[2])
        return 0;
    if (op->kind == ZEP_OP_GROUP)
        return (c->lane < 0 || (int)op->lane == c->lane) && op->n_xfer > 0 && find_xfer(op, c->space) >= 0;
    if (op->kind == ZEP_OP_COPY)
        return c->space == ZEP_SPACE_NONE || op->dst.space == c->space;
    if (op->kind == ZEP_OP_BARRIER)
        return 1;
    return (c->queue < 0 || (int)op->queue == c->queue) && (c->step < 0 || op->step == c->step) && (c->space == ZEP_SPACE_NONE || op->kv.space == c->space || op->dkv.space == c->space);
}

static void copy_runs(struct mutation *m, struct zep_op *op)
{
    m->run = zep_reallocarray(m->run, (size_t)op->n_run + 1, sizeof *m->run);
    memcpy(m->run, op->run, (size_t)op->n_run * sizeof *m->run);
    op->run = m->run;
}

static int change_group(struct mutation *m, struct zep_op *op)
{
    int i = find_xfer(op, m->c->space);

    m->xfer = zep_reallocarray(m->xfer, (size_t)op->n_xfer + 1, sizeof *m->xfer);
    memcpy(m->xfer, op->xfer, (size_t)op->n_xfer * sizeof *m->xfer);
    switch (m->c->change) {
    case DROP:
        return 0;
    case DUPLICATE_SEND:
        m->xfer[op->n_xfer++] = m->xfer[i];
        break;
    case DROP_XFER:
        memmove(&m->xfer[i], &m->xfer[i + 1], (size_t)(op->n_xfer - i - 1) * sizeof *m->xfer);
        op->n_xfer--;
        break;
    case MORE_ROWS:
        m->xfer[i].n--;
        break;
    case OTHER_ROW:
        m->xfer[i].ref.row++;
        break;
    case ROW_OUTSIDE:
        m->xfer[i].ref.row += 1000000;
        break;
    case OTHER_PEER:
        m->xfer[i].peer = m->xfer[i].peer ? m->xfer[i].peer - 1 : 1;
        break;
    case FLIP:
        m->xfer[i].send = !m->xfer[i].send;
        break;
    case OTHER_KEY:
        op->key++;
        break;
    case KEY_AS_BEFORE:
        op->key = 0;
        break;
    case OTHER_LANE:
        op->lane = op->lane == ZEP_LANE_WORLD ? ZEP_LANE_NODE : ZEP_LANE_WORLD;
        break;
    case OTHER_HEADS:
        m->xfer[i].ref.slice ^= 1;
        break;
    case ALL_HEADS:
        m->xfer[i].ref.slice = m->xfer[i].ref.n_slice = 0;
        break;
    case OTHER_RUN:
        copy_runs(m, op);
        m->run[m->xfer[i].run0].row++;
        break;
    case RUN_LOST:
        m->xfer[i].n_run--;
        break;
    case NO_AFTER:
        memset(op->after, 0, sizeof op->after);
        break;
    default:
        ck_abort_msg("a change for another kind");
    }
    op->xfer = m->xfer;
    return 1;
}

static int change_compute(struct mutation *m, struct zep_op *op)
{
    m->pair = zep_reallocarray(m->pair, (size_t)op->n_pair + 1, sizeof *m->pair);
    if (op->n_pair)
        memcpy(m->pair, op->pair, (size_t)op->n_pair * sizeof *m->pair);
    op->pair = m->pair;
    switch (m->c->change) {
    case DROP:
        return 0;
    case FEWER_QUERIES:
        m->pair[0].n_q--;
        break;
    case FEWER_KEYS:
        m->pair[0].n_k--;
        break;
    case K_POS:
        m->pair[0].k_pos++;
        break;
    case Q_POS:
        m->pair[0].q_pos++;
        break;
    case NO_PAIRS:
        op->n_pair = 0;
        break;
    case PAIR_TWICE:
        m->pair[op->n_pair] = m->pair[0];
        op->n_pair++;
        break;
    case NO_WAIT:
        memset(op->wait, 0, sizeof op->wait);
        break;
    case FUTURE_WAIT:
        op->wait[ZEP_LANE_WORLD] = 10000;
        break;
    case NO_CLEAR:
        op->clear = 0;
        break;
    case OTHER_HEADS:
        if (op->kind == ZEP_OP_ATTN)
            op->q.slice ^= 1;
        else
            op->src.slice ^= 1;
        break;
    case ALL_HEADS: /* of everything that the operation names */
        op->q.n_slice = op->kv.n_slice = op->dkv.n_slice = op->src.n_slice = op->dst.n_slice = 0;
        op->q.slice = op->kv.slice = op->dkv.slice = op->src.slice = op->dst.slice = 0;
        break;
    case OTHER_RUN:
        copy_runs(m, op);
        m->run[0].row++;
        break;
    case OTHER_KV:
        op->kv.slot ^= 1;
        break;
    case OTHER_DST:
        op->dst.row++;
        break;
    case OTHER_SRC:
        op->src.row++;
        break;
    default:
        ck_abort_msg("a change for another kind");
    }
    return 1;
}

static int hook(void *arg, int dev, enum zep_pass pass, int64_t index, struct zep_op *op)
{
    struct mutation *m = arg;

    if (m->done ? dev != m->dev || pass != m->c->pass || index != m->index : !matches(m->c, pass, op) || m->seen++ < m->c->nth)
        return 1;
    m->done = 1; /* the same one in each run of the pass: there is one for each class of heads */
    m->dev = dev;
    m->index = index;
    if (op->kind == ZEP_OP_BARRIER)
        return 0;
    return op->kind == ZEP_OP_GROUP ? change_group(m, op) : change_compute(m, op);
}

#define FWD ZEP_PASS_FWD
#define BWD ZEP_PASS_BWD
#define GROUP ZEP_OP_GROUP
#define ATTN ZEP_OP_ATTN
#define ADD ZEP_OP_ADD
#define COPY ZEP_OP_COPY
#define WORLD ZEP_LANE_WORLD
#define NODE ZEP_LANE_NODE
#define NONE ZEP_SPACE_NONE

static const struct stream_case stream_cases[] = {
    {"a group of the world lane is lost", FWD, GROUP, WORLD, -1, -1, NONE, 3, DROP, "hold nothing there"},
    {"a group of the node lane is lost", FWD, GROUP, NODE, -1, -1, NONE, 0, DROP, "hold nothing there|deadlock"},
    {"the remap group is lost", FWD, GROUP, WORLD, -1, -1, ZEP_LIN_Q, 0, DROP, "deadlock|meets one of key|hold nothing"},
    {"a transfer of a hop is lost", FWD, GROUP, WORLD, -1, -1, ZEP_RING_KV, 2, DROP_XFER, "deadlock|meets one of key|rows to device|hold nothing|has position"},
    {"a transfer is sent twice", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, DUPLICATE_SEND, "deadlock|meets one of key|rows to device"},
    {"a message of one row fewer", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, MORE_ROWS, "which receives"},
    {"a message from another row", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, OTHER_ROW, "has position in the operation|it has|token|has position"},
    {"a message from outside", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, ROW_OUTSIDE, "it has"},
    {"a message to another device", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, OTHER_PEER, "deadlock|meets one of key|rows to device|node lane|expected another one"},
    {"a send turned into a receive", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, FLIP, "while they may still be written"},
    {"two ends with different keys", FWD, GROUP, NODE, -1, -1, NONE, 0, OTHER_KEY, "meets one of key"},
    {"a key that does not ascend", FWD, GROUP, WORLD, -1, -1, ZEP_RING_KV, 1, KEY_AS_BEFORE, "does not follow the lane's last one"},
    {"a group between nodes on the node lane", FWD, GROUP, WORLD, -1, -1, ZEP_LIN_Q, 0, OTHER_LANE, "on the node lane|deadlock|meets one of key"},
    {"a group of the node on the world lane", FWD, GROUP, NODE, -1, -1, NONE, 0, OTHER_LANE, "for which it does not wait|deadlock"},
    {"a receive that does not wait for the readers of its slot", FWD, GROUP, WORLD, -1, -1, ZEP_RING_KV, 0, NO_AFTER, "may still be read|may still be written"},
    {"attention of a step is lost", FWD, ATTN, -1, ZEP_QUEUE_INTER, 2, NONE, 0, DROP, "deadlock|never meet|not the sum over every pair|wait"},
    {"local attention is lost", FWD, ATTN, -1, ZEP_QUEUE_LOCAL, -1, NONE, 0, DROP, "does not come back|never meet|hold nothing"},
    {"a query is left out", FWD, ATTN, -1, ZEP_QUEUE_INTRA, 0, NONE, 0, FEWER_QUERIES, "not the sum over every pair"},
    {"a key is left out", FWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, FEWER_KEYS, "not the sum over every pair"},
    {"no pairs at all", FWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, NO_PAIRS, "not the sum over every pair"},
    {"a block twice", FWD, ATTN, -1, ZEP_QUEUE_INTRA, 0, NONE, 0, PAIR_TWICE, "not the sum over every pair"},
    {"a wrong position of keys", FWD, ATTN, -1, ZEP_QUEUE_LOCAL, -1, NONE, 0, K_POS, "has position|see none"},
    {"a wrong position of queries", FWD, ATTN, -1, ZEP_QUEUE_INTER, 0, NONE, 0, Q_POS, "has position"},
    {"attention that does not wait for its block", FWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, NO_WAIT, "may still be written|hold nothing"},
    {"attention that waits for a group that never comes", FWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, FUTURE_WAIT, "deadlock"},
    {"attention on the other slot", FWD, ATTN, -1, ZEP_QUEUE_INTER, 2, ZEP_RING_KV, 0, OTHER_KV, "has position|hold nothing|may still be written|token"},
    {"a copy is lost on the way in", FWD, COPY, -1, -1, -1, ZEP_ATT_Q, 0, DROP, "hold nothing"},
    {"a copy is lost on the way out", FWD, COPY, -1, -1, -1, ZEP_LIN_O, 0, DROP, "does not come back"},
    {"a copy from another row", FWD, COPY, -1, -1, -1, ZEP_ATT_KV, 0, OTHER_SRC, "it has|has position|token"},
    {"a copy to another row", FWD, COPY, -1, -1, -1, ZEP_LIN_O, 0, OTHER_DST, "it has|comes back where|does not come back|may still be"},
    {"the barrier before attention is lost", FWD, ZEP_OP_BARRIER, -1, -1, -1, NONE, 0, DROP, "may still be|hold nothing|deadlock|does not follow"},
    {"backward: a group is lost", BWD, GROUP, WORLD, -1, -1, ZEP_RING_DKV, 1, DROP, "adds token|deadlock|hold nothing"},
    {"backward: dK and dV are not sent home", BWD, GROUP, NODE, -1, -1, ZEP_RING_DKV, 0, DROP_XFER, "deadlock|meets one of key|rows to device|hold nothing"},
    {"backward: what came home is not added", BWD, ADD, -1, ZEP_QUEUE_INTER, 8, NONE, 0, DROP, "not the sum over every pair"},
    {"backward: what comes home is not waited for", BWD, ADD, -1, ZEP_QUEUE_INTER, 8, NONE, 0, NO_WAIT, "may still be written|hold nothing"},
    {"backward: the own block is lost", BWD, ATTN, -1, ZEP_QUEUE_INTER, 8, ZEP_ATT_DKV, 0, DROP, "not the sum over every pair|deadlock"},
    {"backward: an addition is lost", BWD, ADD, -1, ZEP_QUEUE_INTER, -1, NONE, 0, DROP, "deadlock|not the sum over every pair|wait"},
    {"backward: an addition that does not wait", BWD, ADD, -1, ZEP_QUEUE_INTER, -1, NONE, 0, NO_WAIT, "may still be written|hold nothing"},
    {"backward: an addition to another row", BWD, ADD, -1, ZEP_QUEUE_INTER, -1, NONE, 0, OTHER_DST, "token|hold nothing|not the sum"},
    {"backward: the scratch is not cleared", BWD, ATTN, -1, ZEP_QUEUE_INTER, 2, ZEP_SCRATCH_DKV, 0, NO_CLEAR, "token|not the sum|hold nothing"},
    {"backward: the accumulator is not cleared", BWD, ATTN, -1, ZEP_QUEUE_INTRA, 1, ZEP_RING_DKV, 0, NO_CLEAR, "hold nothing|token"},
    {"backward: attention is lost", BWD, ATTN, -1, ZEP_QUEUE_LOCAL, -1, NONE, 0, DROP, "does not come back|never meet|hold nothing"},
    {"backward: a query is left out", BWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, FEWER_QUERIES, "not the sum over every pair"},
    {"backward: a block twice", BWD, ATTN, -1, ZEP_QUEUE_LOCAL, -1, NONE, 0, PAIR_TWICE, "not the sum over every pair"},
    {"backward: dO is not copied", BWD, COPY, -1, -1, -1, ZEP_ATT_DO, 0, DROP, "hold nothing"},
    {"backward: dK and dV are not copied out", BWD, COPY, -1, -1, -1, ZEP_LIN_DKV, 0, DROP, "does not come back"},
};

/* Of a plan with one ring of four groups of two members that exchange heads. */
static const struct stream_case head_cases[] = {
    {"a group of heads is lost", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_Q, 0, DROP, "deadlock|meets one of key|hold nothing"},
    {"a transfer of heads is lost", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_KV, 1, DROP_XFER, "deadlock|meets one of key|receives it as space|hold nothing"},
    {"heads of one row fewer", FWD, GROUP, NODE, -1, -1, ZEP_ATT_Q, 0, MORE_ROWS, "which receives"},
    {"runs of more rows than the transfer", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_Q, 0, MORE_ROWS, "with a run of|with runs of"},
    {"heads from another row", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, OTHER_ROW, "it has|has position|token"},
    {"heads to another row", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_KV, 0, OTHER_ROW, "has position|hold nothing|token|may still be"},
    {"heads to another run", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_Q, 0, OTHER_RUN, "has position|hold nothing|token|may still be"},
    {"a run is lost", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_Q, 0, RUN_LOST, "with runs of"},
    {"heads to another device", FWD, GROUP, NODE, -1, -1, ZEP_ATT_Q, 0, OTHER_PEER, "deadlock|meets one of key|expected another one|rows to device|node lane"},
    {"other heads are sent", FWD, GROUP, NODE, -1, -1, ZEP_ATT_Q, 0, OTHER_HEADS, "receives it as part"},
    {"other heads are received", FWD, GROUP, NODE, -1, -1, ZEP_HEAD_KV, 0, OTHER_HEADS, "receives it as part|was used as part"},
    {"all heads are sent", FWD, GROUP, NODE, -1, -1, ZEP_ATT_KV, 0, ALL_HEADS, "receives it as part"},
    {"the own heads are not copied", FWD, COPY, -1, -1, -1, ZEP_HEAD_Q, 0, DROP, "hold nothing"},
    {"the own keys are not copied", FWD, COPY, -1, -1, -1, ZEP_HEAD_KV, 0, DROP, "hold nothing|zeros"},
    {"other heads are copied", FWD, COPY, -1, -1, -1, ZEP_HEAD_Q, 0, OTHER_HEADS, "with part"},
    {"heads are copied to another run", FWD, COPY, -1, -1, -1, ZEP_HEAD_KV, 0, OTHER_RUN, "has position|hold nothing|token|may still be"},
    {"attention begins before the heads are there", FWD, ZEP_OP_BARRIER, -1, -1, -1, NONE, 1, DROP, "may still be|hold nothing|deadlock|does not follow"},
    {"heads go back before attention is done", FWD, ZEP_OP_BARRIER, -1, -1, -1, NONE, 2, DROP, "may still be|hold nothing|deadlock|does not follow"},
    {"attention on other heads", FWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, OTHER_HEADS, "with part|was used as part"},
    {"attention on all heads", FWD, ATTN, -1, ZEP_QUEUE_INTER, 0, NONE, 0, ALL_HEADS, "was used as part|hold nothing"},
    {"attention of a step is lost", FWD, ATTN, -1, ZEP_QUEUE_INTER, 2, NONE, 0, DROP, "deadlock|never meet|not the sum over every pair|wait"},
    {"a hop of other heads", FWD, GROUP, -1, -1, -1, ZEP_RING_KV, 0, OTHER_HEADS, "receives it as part|was used as part"},
    {"a hop of heads is lost", FWD, GROUP, WORLD, -1, -1, ZEP_RING_KV, 0, DROP_XFER, "deadlock|meets one of key|rows to device|hold nothing"},
    {"outputs of heads are lost", FWD, GROUP, NODE, -1, -1, ZEP_ATT_O, 0, DROP_XFER, "deadlock|meets one of key|receives it as space|hold nothing|not the sum"},
    {"outputs of other heads", FWD, GROUP, NODE, -1, -1, ZEP_ATT_O, 0, OTHER_HEADS, "receives it as part"},
    {"outputs of the own heads are not copied", FWD, COPY, -1, -1, -1, ZEP_ATT_O, 0, DROP, "does not come back|not the sum|hold nothing"},
    {"backward: dO of heads is lost", BWD, GROUP, NODE, -1, -1, ZEP_HEAD_DO, 0, DROP_XFER, "deadlock|meets one of key|hold nothing"},
    {"backward: dK and dV of heads are lost", BWD, GROUP, NODE, -1, -1, ZEP_ATT_DKV, 0, DROP_XFER, "deadlock|meets one of key|receives it as space|hold nothing"},
    {"backward: all gradients of heads are lost", BWD, GROUP, NODE, -1, -1, ZEP_ATT_DQ, 0, DROP, "deadlock|meets one of key|hold nothing"},
    {"backward: dK and dV of the own heads are not copied", BWD, COPY, -1, -1, -1, ZEP_ATT_DKV, 0, DROP, "hold nothing"},
    {"backward: dQ from another run", BWD, COPY, -1, -1, -1, ZEP_ATT_DQ, 0, OTHER_RUN, "comes back where|does not come back|not the sum|hold nothing"},
    {"backward: other heads are added", BWD, ADD, -1, ZEP_QUEUE_INTER, -1, NONE, 0, OTHER_HEADS, "with part|was used as part"},
    {"backward: an addition of heads is lost", BWD, ADD, -1, ZEP_QUEUE_INTER, -1, NONE, 0, DROP, "deadlock|not the sum over every pair|wait"},
    {"backward: attention on other heads", BWD, ATTN, -1, ZEP_QUEUE_INTER, 1, NONE, 0, OTHER_HEADS, "with part|was used as part"},
};

static struct zep_plan *heads_plan(void)
{
    struct zep_view *view = make_view(2, 4, 2);
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan = NULL;
    struct zep_error err;

    opts.capacity_tok = CAP;
    opts.method = "te-cp";
    opts.remap = 0;
    ck_assert_msg(zep_plan_build(view, lens, N_LEN, &opts, &plan, &err) == ZEP_OK, "%s", err.text);
    plan->ring[0].heads = 2;
    plan->ring[0].n_hop = plan->n_hop = plan->n_proxy = 0;
    ck_assert_msg(zep_plan_finish(plan, &err) == ZEP_OK && zep_plan_check(plan, lens, N_LEN, NULL, NULL, &err) == ZEP_OK, "%s", err.text);
    test_view_free(view);
    return plan;
}

static void break_stream(struct zep_plan *p, const struct stream_case *cases, size_t n)
{
    int n_bad = 0;

    for (size_t i = 0; i < n; i++) {
        struct mutation m = {.c = &cases[i]};
        struct zep_check_opts opts = {hook, &m};
        struct zep_error err = {0};
        int rc = zep_plan_check(p, lens, N_LEN, &opts, NULL, &err);

        n_bad += m.done ? missed(cases[i].name, rc, err.text, cases[i].reason) : missed(cases[i].name, 0, "(nothing to change was met)", "");
        free(m.xfer);
        free(m.pair);
        free(m.run);
    }
    zep_plan_free(p);
    ck_assert_int_eq(n_bad, 0);
}

START_TEST(broken_streams)
{
    break_stream(good_plan(), stream_cases, sizeof stream_cases / sizeof stream_cases[0]);
}
END_TEST

START_TEST(broken_heads)
{
    break_stream(heads_plan(), head_cases, sizeof head_cases / sizeof head_cases[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planner: mutations");
    TCase *t = tcase_create("mutations");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, broken_plans);
    tcase_add_test(t, broken_streams);
    tcase_add_test(t, broken_heads);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
