/* Forms of transfer: rings of all forms, mixed on random topologies, are proved by the checker; what does not fit falls back or is refused; broken streams are found.
 * ZEP_PROPERTY_N: how many random plans (default 3,000), ZEP_PROPERTY_SEED: where they begin. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/rng.h"
#include "planner/check.h"
#include "planner/plan_internal.h"
#include "planner/sched.h"
#include "tests/unit/view_util.h"

#define MAX_SEQ 16
#define MAX_SET 5

static int64_t between(struct zep_rng *rng, int64_t lo, int64_t hi)
{
    return lo + (int64_t)zep_rng_below(rng, (uint64_t)(hi - lo + 1));
}

struct wish { /* a ring that a plan is to have */
    int form;
    int n;
    int32_t dev[40];
    int heads;
};

/* A plan of sequences put on wished rings in turn, as a method would draft it. */
static struct zep_plan *draft_plan(const struct zep_view *view, const int64_t *len, int n, const struct wish *wish, int n_wish, int routing, int remap)
{
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_draft draft;
    struct zep_plan *plan = NULL;
    struct zep_error err;

    opts.capacity_tok = (int64_t)1 << 30;
    opts.remap = remap;
    opts.method = "test";
    ck_assert_int_eq(zep_draft_init(&draft, n, &err), ZEP_OK);
    for (int i = 0; i < n; i++) {
        const struct wish *w = &wish[i % n_wish];
        int set = zep_sets_get(&draft.sets, w->dev, w->n, &err);

        ck_assert_int_ge(set, 0);
        draft.sets.set[set].form = w->form;
        draft.sets.set[set].heads = w->heads;
        draft.order[i] = i;
        zep_draft_place(&draft, i, len[i], set);
    }
    ck_assert_msg(zep_plan_from_draft(view, len, &opts, routing, &draft, &plan, &err) == ZEP_OK, "%s", err.text);
    zep_draft_free(&draft);
    return plan;
}

/* Rows that ring hops send in a forward pass, and that exchanges of heads send of queries, from the streams; of parts of the heads as parts. [0] between nodes, [1] inside. */
static void count_rows(const struct zep_plan *p, double hop[2], double head[2])
{
    struct zep_error err;

    hop[0] = hop[1] = head[0] = head[1] = 0;
    for (int d = 0; d < p->n_dev; d++) {
        struct zep_sched *s;
        struct zep_op op;
        int rc;

        ck_assert_int_eq(zep_sched_open(p, d, ZEP_PASS_FWD, &s, &err), ZEP_OK);
        while ((rc = zep_sched_next(s, &op, &err)) == 1)
            for (int i = 0; i < op.n_xfer; i++) {
                const struct zep_xfer *x = &op.xfer[i];
                int inside = p->dev_node[d] == p->dev_node[x->peer];
                double rows = (double)x->n / (x->ref.n_slice > 1 ? x->ref.n_slice : 1);

                if (!x->send || x->ref.space < ZEP_ATT_Q || (x->ref.space == ZEP_ATT_O) || (x->ref.space == ZEP_HEAD_O))
                    continue;
                if (x->ref.space == ZEP_ATT_Q)
                    head[inside] += rows;
                else if (x->ref.space != ZEP_ATT_KV || x->ref.n_slice < 2)
                    hop[inside] += rows;
            }
        ck_assert_int_eq(rc, 0);
        zep_sched_free(s);
    }
}

/* Rows up to n behind a ref, in whole ones. */
static int64_t whole(struct zep_ref ref, int64_t n)
{
    int64_t rows = ref.row + n;

    return ref.n_slice > 1 ? (rows + ref.n_slice - 1) / ref.n_slice : rows;
}

/* Every row that a stream names lies in what zep_sched_need says, and a second run over it is the same. */
static void check_need(const struct zep_plan *p, int dev)
{
    struct zep_sched_need need;
    struct zep_error err;

    ck_assert_int_eq(zep_sched_need(p, dev, &need, &err), ZEP_OK);
    for (int pass = 0; pass < 2; pass++) {
        struct zep_sched *s;
        struct zep_op op;
        int64_t n_op[2] = {0, 0};

        ck_assert_int_eq(zep_sched_open(p, dev, (enum zep_pass)pass, &s, &err), ZEP_OK);
        for (int run = 0; run < 2; run++) {
            while (zep_sched_next(s, &op, &err) == 1) {
                n_op[run]++;
                for (int i = 0; i < op.n_xfer; i++) {
                    ck_assert_int_lt(op.xfer[i].ref.slot, need.n_slot[op.xfer[i].ref.space]);
                    ck_assert_int_le(whole(op.xfer[i].ref, op.xfer[i].n), need.rows[op.xfer[i].ref.space]);
                }
                if (op.kind == ZEP_OP_ATTN) {
                    ck_assert_int_lt(op.kv.slot, need.n_slot[op.kv.space]);
                    for (int i = 0; i < op.n_pair; i++)
                        ck_assert_int_le(whole(op.kv, op.pair[i].k_row + op.pair[i].n_k), need.rows[op.kv.space]);
                    for (int i = 0; i < op.n_pair; i++)
                        ck_assert_int_le(whole(op.q, op.pair[i].q_row + op.pair[i].n_q), need.rows[op.q.space]);
                }
                ck_assert_int_le(op.n_xfer, need.max_xfer);
            }
            zep_sched_rewind(s);
        }
        ck_assert_int_eq(n_op[0], n_op[1]);
        zep_sched_free(s);
    }
}

static void draw_wish(struct zep_rng *rng, const struct zep_view *view, struct wish *w)
{
    int kind = (int)between(rng, 0, 3), per = (int)between(rng, 1, 4);

    *w = (struct wish){.form = (int)between(rng, ZEP_FORM_SINGLE, ZEP_FORM_GATHER)};
    for (int v = 0; v < view->n_node; v++) {
        int first = view->node_dev0[v], n = view->node_dev0[v + 1] - first, skip = kind == 1 && n > per ? (int)between(rng, 0, n - per) : 0;

        for (int i = 0; i < n; i++)
            if (kind == 0 || (kind == 1 && i >= skip && i < skip + per) || (kind == 2 && between(rng, 0, 1)) || (kind == 3 && v == view->n_node / 2))
                w->dev[w->n++] = first + i;
    }
    if (!w->n)
        w->dev[w->n++] = 0;
    if (between(rng, 0, 2) == 0) { /* a divisor of its members */
        w->heads = (int)between(rng, 1, w->n < 8 ? w->n : 8);
        while (w->n % w->heads)
            w->heads--;
    }
}

/* Exactly, but for parts of rows that the plan's count leaves out. */
static void check_count(const struct zep_plan *p, const double rows[2], int64_t inter, int64_t intra)
{
    double off = 1e-6;

    for (int i = 0; i < p->n_ring; i++)
        off += p->ring[i].heads ? p->ring[i].n_member : 0;
    ck_assert_double_le(fabs(rows[0] - (double)inter), off);
    ck_assert_double_le(fabs(rows[1] - (double)intra), off);
}

static void try_one(uint64_t seed, int *n_of)
{
    struct zep_rng rng;
    struct zep_view *view;
    struct zep_plan *plan, *back = NULL;
    struct wish wish[MAX_SET];
    struct zep_plan_stats st;
    struct zep_check_result res;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};
    int64_t len[MAX_SEQ];
    double hop[2], head[2];
    int dev[4], nic[4], n_node, n, n_wish, same, shape, rc;

    zep_rng_seed(&rng, seed);
    n_node = (int)between(&rng, 1, 4);
    same = between(&rng, 0, 3) > 0;
    for (int i = 0; i < n_node; i++) {
        dev[i] = same && i ? dev[0] : (int)between(&rng, 1, 8);
        nic[i] = same && i ? nic[0] : (int)between(&rng, 0, 3);
    }
    view = make_view_uneven(n_node, dev, nic);
    n_wish = (int)between(&rng, 1, MAX_SET);
    for (int i = 0; i < n_wish; i++)
        draw_wish(&rng, view, &wish[i]);
    n = (int)between(&rng, 1, MAX_SEQ);
    shape = (int)between(&rng, 0, 3);
    for (int i = 0; i < n; i++)
        len[i] = shape == 0 ? between(&rng, 1, 9) : shape == 1 ? between(&rng, 1, 4 * view->n_dev) : shape == 2 ? between(&rng, 1, 800) : 64 * view->n_dev;
    plan = draft_plan(view, len, n, wish, n_wish, (int)between(&rng, 0, 1), (int)between(&rng, 0, 1));
    for (int i = 0; i < plan->n_ring; i++)
        n_of[plan->ring[i].heads ? ZEP_N_FORM : plan->ring[i].form]++;
    rc = zep_plan_check(plan, len, n, NULL, &res, &err);
    ck_assert_msg(rc == ZEP_OK, "seed %llu: %s", (unsigned long long)seed, err.text);
    check_need(plan, (int)between(&rng, 0, view->n_dev - 1));
    if (seed % 4 == 0) {
        struct zep_plan *unrouted = draft_plan(view, len, n, wish, n_wish, 0, 0);

        zep_plan_stats(unrouted, &st);
        count_rows(unrouted, hop, head);
        check_count(unrouted, hop, st.hop_tok_inter, st.hop_tok_intra);
        check_count(unrouted, head, st.head_tok_inter, st.head_tok_intra);
        zep_plan_free(unrouted);
        ck_assert_int_eq(zep_plan_to_json(plan, &b, &err), ZEP_OK);
        ck_assert_msg(zep_plan_from_json("plan.json", b.data, b.len, &back, &err) == ZEP_OK, "seed %llu: %s", (unsigned long long)seed, err.text);
        ck_assert(back->digest == plan->digest);
        zep_plan_free(back);
        zep_buf_free(&b);
    }
    zep_plan_free(plan);
    test_view_free(view);
}

START_TEST(random_forms)
{
    const char *n_text = getenv("ZEP_PROPERTY_N"), *seed_text = getenv("ZEP_PROPERTY_SEED");
    uint64_t n = n_text ? strtoull(n_text, NULL, 10) : 3000, seed0 = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    int n_of[ZEP_N_FORM + 1] = {0}; /* the last: exchanges of heads */

    for (uint64_t i = 0; i < n; i++)
        try_one(seed0 + i, n_of);
    ck_assert(n < 100 || (n_of[ZEP_FORM_SINGLE] && n_of[ZEP_FORM_DOUBLE] && n_of[ZEP_FORM_GATHER] && n_of[ZEP_N_FORM]));
}
END_TEST

/* Every grid of up to 4 nodes of up to 8 members, alone, with sequences short and long; likewise exchanging heads in every number of parts. */
static void all_grids_of(int heads, int most_nodes)
{
    static const int64_t len[] = {1, 3, 17, 1000, 64, 5};

    for (int form = ZEP_FORM_SINGLE; form <= ZEP_FORM_GATHER; form++)
        for (int n_node = 1; n_node <= most_nodes; n_node++)
            for (int per = 1; per <= 8; per++) {
                struct zep_view *view = make_view(n_node, per, 1);
                struct wish all = {.form = form, .n = n_node * per, .heads = heads};
                struct zep_plan *plan;
                struct zep_error err = {0};
                int rc, one = all.n == (heads ? heads : 1), apart = heads && per % heads;

                for (int d = 0; d < all.n; d++)
                    all.dev[d] = d;
                if (heads && all.n % heads) {
                    test_view_free(view);
                    continue;
                }
                for (int n = 1; n <= 6; n += 5) {
                    plan = draft_plan(view, len, n, &all, 1, 1, 1);
                    rc = zep_plan_check(plan, len, n, NULL, NULL, &err);
                    ck_assert_msg(rc == ZEP_OK, "%s, heads in %d, %d nodes of %d, %d sequences: %s", zep_form_names[form], heads, n_node, per, n, err.text);
                    ck_assert_int_eq(plan->ring[0].form, one || (form == ZEP_FORM_DOUBLE && (n_node == 1 || apart)) ? ZEP_FORM_SINGLE : form);
                    zep_plan_free(plan);
                }
                test_view_free(view);
            }
}

START_TEST(all_grids)
{
    all_grids_of(0, 4);
    for (int heads = 2; heads <= 8; heads++)
        all_grids_of(heads, 3);
    all_grids_of(16, 2);
}
END_TEST

/* --- what does not fit --- */

START_TEST(fall_back)
{
    static const int uneven[] = {3, 2}, nics[] = {1, 1};
    static const int64_t len[] = {500};
    static const struct {
        struct wish wish;
        int form, n_hop;
    } cases[] = {
        {{ZEP_FORM_DOUBLE, 5, {0, 1, 2, 3, 4}, 0}, ZEP_FORM_SINGLE, 2}, /* unequal numbers */
        {{ZEP_FORM_DOUBLE, 3, {0, 1, 2}, 0}, ZEP_FORM_SINGLE, 0},       /* one node */
        {{ZEP_FORM_DOUBLE, 1, {3}, 0}, ZEP_FORM_SINGLE, 0},
        {{ZEP_FORM_DOUBLE, 4, {0, 2, 3, 4}, 0}, ZEP_FORM_DOUBLE, 0},
        {{ZEP_FORM_DOUBLE, 2, {1, 4}, 0}, ZEP_FORM_DOUBLE, 0},
        {{ZEP_FORM_GATHER, 5, {0, 1, 2, 3, 4}, 0}, ZEP_FORM_GATHER, 0},
        {{ZEP_FORM_GATHER, 3, {0, 1, 2}, 0}, ZEP_FORM_GATHER, 0},
        {{ZEP_FORM_GATHER, 1, {3}, 0}, ZEP_FORM_SINGLE, 0},
        {{ZEP_FORM_SINGLE, 4, {0, 2, 3, 4}, 0}, ZEP_FORM_SINGLE, 2},
    };
    struct zep_view *view = make_view_uneven(2, uneven, nics);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_plan *p = draft_plan(view, len, 1, &cases[i].wish, 1, 1, 1);
        struct zep_error err = {0};

        ck_assert_int_eq(p->ring[0].form, cases[i].form);
        ck_assert_int_eq(p->n_hop, cases[i].n_hop);
        ck_assert_msg(zep_plan_check(p, len, 1, NULL, NULL, &err) == ZEP_OK, "%zu: %s", i, err.text);
        zep_plan_free(p);
    }
    test_view_free(view);
}
END_TEST

START_TEST(refused)
{
    static const int uneven[] = {3, 2}, nics[] = {1, 1};
    static const int64_t len[] = {500};
    static const struct {
        struct wish wish;
        int form;
        const char *reason;
    } cases[] = {
        {{ZEP_FORM_GATHER, 5, {0, 1, 2, 3, 4}, 0}, ZEP_FORM_DOUBLE, "ring 0: a double ring needs the same number of members in each of at least two nodes, node by node"},
        {{ZEP_FORM_GATHER, 3, {0, 1, 2}, 0}, ZEP_FORM_DOUBLE, "ring 0: a double ring lies between nodes, this one's zone is 2"},
        {{ZEP_FORM_SINGLE, 4, {0, 2, 3, 4}, 0}, ZEP_FORM_DOUBLE, "ring 0: 2 hops with proxies: only a single ring has them"},
        {{ZEP_FORM_SINGLE, 4, {0, 2, 3, 4}, 0}, ZEP_FORM_GATHER, "ring 0: 2 hops with proxies: only a single ring has them"},
        {{ZEP_FORM_SINGLE, 1, {0}, 0}, ZEP_FORM_GATHER, "ring 0: an all-gather has 1 members, expected at least 2"},
        {{ZEP_FORM_DOUBLE, 4, {0, 2, 3, 4}, 0}, ZEP_FORM_SINGLE, "ring 0: expected a hop between nodes from member 1 (device 2 to 3)"},
        {{ZEP_FORM_DOUBLE, 4, {0, 2, 3, 4}, 0}, ZEP_N_FORM, "ring 0: form of transfer 4 is not known here"},
        {{ZEP_FORM_DOUBLE, 4, {0, 2, 3, 4}, 0}, 0, "ring 0: form of transfer 0 is not known here"},
    };
    struct zep_view *view = make_view_uneven(2, uneven, nics);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_plan *p = draft_plan(view, len, 1, &cases[i].wish, 1, 1, 1);
        struct zep_error err = {0};

        p->ring[0].form = cases[i].form;
        ck_assert_int_eq(zep_plan_check(p, len, 1, NULL, NULL, &err), ZEP_EINVAL);
        ck_assert_str_eq(err.text, cases[i].reason);
        if (cases[i].form != ZEP_FORM_SINGLE) { /* the schedule itself does not take them either */
            struct zep_sched *s;

            ck_assert_int_lt(zep_sched_open(p, 0, ZEP_PASS_FWD, &s, &err), 0);
        }
        zep_plan_free(p);
    }
    test_view_free(view);
}
END_TEST

/* --- how much crosses, and when --- */

START_TEST(crossings)
{
    static const int64_t len[] = {1600};
    static const int64_t inter[] = {0, 1600 / 8 * 7 * 2, 1600, 1600}, intra[] = {0, 1600 / 8 * 7 * 6, 1600 * 6, 1600 * 6};
    struct zep_view *view = make_view(2, 4, 4);

    for (int form = ZEP_FORM_SINGLE; form <= ZEP_FORM_GATHER; form++) {
        struct wish all = {form, 8, {0, 1, 2, 3, 4, 5, 6, 7}, 0};
        struct zep_plan *p = draft_plan(view, len, 1, &all, 1, 0, 1);
        struct zep_plan_stats st;

        zep_plan_stats(p, &st);
        ck_assert_int_eq(st.hop_tok_inter, inter[form]);
        ck_assert_int_eq(st.hop_tok_intra, intra[form]);
        zep_plan_free(p);
    }
    test_view_free(view);
}
END_TEST

/* The first crossing of a double ring comes before everything else and waits for nothing; later ones wait for no compute step but the first one of the turn two before. */
START_TEST(early_crossings)
{
    static const int64_t len[] = {32 * 12};
    struct zep_view *view = make_view(4, 3, 3);
    struct wish all = {ZEP_FORM_DOUBLE, 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0};
    struct zep_plan *p = draft_plan(view, len, 1, &all, 1, 1, 0);

    for (int d = 0; d < 12; d++) {
        struct zep_sched *s;
        struct zep_op op;
        struct zep_error err;
        int n_crossing = 0, n_inner = 0, n_attn = 0, world_of[12], n_step = 0;

        ck_assert_int_eq(zep_sched_open(p, d, ZEP_PASS_FWD, &s, &err), ZEP_OK);
        while (zep_sched_next(s, &op, &err) == 1) {
            if (op.kind == ZEP_OP_ATTN) {
                world_of[n_step++] = op.step;
                n_attn++;
            }
            if (op.kind != ZEP_OP_GROUP)
                continue;
            if (op.lane == ZEP_LANE_GRID) {
                n_inner++;
                continue;
            }
            n_crossing++;
            ck_assert_int_le(op.after[ZEP_QUEUE_INTER], n_crossing < 3 ? 0 + (n_crossing == 2 ? 1 : 0) : (n_crossing - 2) * 3 + 1);
            ck_assert_int_le(n_attn, n_crossing == 1 ? 0 : (n_crossing - 2) * 3);
            ck_assert_int_eq(op.n_xfer, 2);
        }
        ck_assert_int_eq(n_crossing, 3);
        ck_assert_int_eq(n_inner, 4 * 2);
        ck_assert_int_eq(n_attn, 12);
        for (int i = 0; i < n_step; i++)
            ck_assert_int_eq(world_of[i], i);
        zep_sched_free(s);
    }
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

/* --- broken streams --- */

enum change { DROP, DROP_XFER, NO_AFTER, NO_WAIT, NO_CLEAR, OTHER_KV, OTHER_DST, FEWER_ROWS, OTHER_PEER, NO_PAIRS, OTHER_LANE };

struct broken {
    const char *name;
    int form;
    enum zep_pass pass;
    enum zep_op_kind kind;
    int lane;              /* -1: any */
    enum zep_space space;  /* of a transfer; what attention reads; where an addition goes */
    int nth;
    enum change change;
    const char *reason;    /* "a|b": one of them is in the text */
};

struct mutation {
    const struct broken *c;
    int seen, done;
    struct zep_xfer *xfer;
};

static int find_xfer(const struct zep_op *op, enum zep_space space)
{
    for (int i = 0; i < op->n_xfer; i++)
        if (op->xfer[i].ref.space == space)
            return i;
    return -1;
}

static int matches(const struct broken *c, enum zep_pass pass, const struct zep_op *op)
{
    static const int32_t none[ZEP_N_QUEUE];

    if (pass != c->pass || op->kind != c->kind)
        return 0;
    if (c->change == NO_AFTER && !memcmp(op->after, none, sizeof none))
        return 0;
    if (c->change == NO_WAIT && !op->wait[ZEP_LANE_WORLD] && !op->wait[ZEP_LANE_NODE] && !op->wait[ZEP_LANE_GRID])
        return 0;
    if (op->kind == ZEP_OP_GROUP)
        return (c->lane < 0 || (int)op->lane == c->lane) && find_xfer(op, c->space) >= 0;
    return op->kind == ZEP_OP_ADD ? op->dst.space == c->space : op->kv.space == c->space;
}

static int hook(void *arg, int dev, enum zep_pass pass, int64_t index, struct zep_op *op)
{
    struct mutation *m = arg;
    int i;

    if (m->done || !matches(m->c, pass, op) || m->seen++ < m->c->nth)
        return 1;
    m->done = 1;
    if (op->kind == ZEP_OP_GROUP) {
        m->xfer = zep_calloc((size_t)op->n_xfer, sizeof *m->xfer);
        memcpy(m->xfer, op->xfer, (size_t)op->n_xfer * sizeof *m->xfer);
        op->xfer = m->xfer;
    }
    i = op->kind == ZEP_OP_GROUP ? find_xfer(op, m->c->space) : 0;
    switch (m->c->change) {
    case DROP:
        return 0;
    case DROP_XFER:
        memmove(&m->xfer[i], &m->xfer[i + 1], (size_t)(op->n_xfer - i - 1) * sizeof *m->xfer);
        op->n_xfer--;
        break;
    case FEWER_ROWS:
        m->xfer[i].n--;
        break;
    case OTHER_PEER:
        m->xfer[i].peer ^= 1;
        break;
    case NO_AFTER:
        memset(op->after, 0, sizeof op->after);
        break;
    case NO_WAIT:
        memset(op->wait, 0, sizeof op->wait);
        break;
    case NO_CLEAR:
        op->clear = 0;
        break;
    case OTHER_KV:
        op->kv.slot ^= 1;
        break;
    case OTHER_DST:
        op->dst.slot ^= 1;
        break;
    case NO_PAIRS:
        op->n_pair = 0;
        break;
    case OTHER_LANE:
        op->lane = op->lane == ZEP_LANE_WORLD ? ZEP_LANE_NODE : ZEP_LANE_WORLD;
        break;
    }
    return 1;
}

#define FWD ZEP_PASS_FWD
#define BWD ZEP_PASS_BWD
#define GROUP ZEP_OP_GROUP
#define WORLD ZEP_LANE_WORLD
#define NODE ZEP_LANE_GRID /* inner hops of rings over nodes */

static const struct broken broken[] = {
    {"a crossing is lost", ZEP_FORM_DOUBLE, FWD, GROUP, WORLD, ZEP_RING_KV, 1, DROP, "deadlock|hold nothing|meets one of key|has position"},
    {"an inner hop is lost", ZEP_FORM_DOUBLE, FWD, GROUP, NODE, ZEP_RING_KV, 2, DROP, "deadlock|hold nothing|meets one of key|has position"},
    {"a transfer of a crossing is lost", ZEP_FORM_DOUBLE, FWD, GROUP, WORLD, ZEP_RING_KV, 0, DROP_XFER, "deadlock|hold nothing|meets one of key"},
    {"a crossing that does not wait for its slot's reader", ZEP_FORM_DOUBLE, FWD, GROUP, WORLD, ZEP_RING_KV, 2, NO_AFTER, "may still be read|may still be written"},
    {"a crossing that does not wait for the inner hop that sends its slot", ZEP_FORM_DOUBLE, FWD, GROUP, WORLD, ZEP_RING_KV, 0, NO_WAIT, "may still be read"},
    {"an inner hop that does not wait for its crossing", ZEP_FORM_DOUBLE, FWD, GROUP, NODE, ZEP_RING_KV, 0, NO_WAIT, "may still be written|hold nothing"},
    {"an inner hop that does not wait for its slot's reader", ZEP_FORM_DOUBLE, FWD, GROUP, NODE, ZEP_RING_KV, 0, NO_AFTER, "may still be read|may still be written"},
    {"attention that does not wait for its block", ZEP_FORM_DOUBLE, FWD, ZEP_OP_ATTN, -1, ZEP_RING_KV, 0, NO_WAIT, "may still be written|hold nothing"},
    {"attention on another slot", ZEP_FORM_DOUBLE, FWD, ZEP_OP_ATTN, -1, ZEP_RING_KV, 5, OTHER_KV, "has position|hold nothing|may still be written"},
    {"attention is lost", ZEP_FORM_DOUBLE, FWD, ZEP_OP_ATTN, -1, ZEP_RING_KV, 4, DROP, "deadlock|never meet|not the sum over every pair"},
    {"a crossing on the node lane", ZEP_FORM_DOUBLE, FWD, GROUP, WORLD, ZEP_RING_KV, 0, OTHER_LANE, "on the node lane"},
    {"a crossing to another device", ZEP_FORM_DOUBLE, FWD, GROUP, WORLD, ZEP_RING_KV, 0, OTHER_PEER, "deadlock|meets one of key|rows to device|expected another"},
    {"backward: what the own turn began with is not added", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_ATT_DKV, 0, DROP, "deadlock|not the sum over every pair"},
    {"backward: what the own turn began with is not waited for", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_ATT_DKV, 0, NO_WAIT, "may still be written|hold nothing"},
    {"backward: what came home is not added", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_ATT_DKV, 39, DROP, "not the sum over every pair"},
    {"backward: what comes home is not waited for", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_ATT_DKV, 39, NO_WAIT, "may still be written|hold nothing"},
    {"backward: the own block is lost", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ATTN, -1, ZEP_ATT_KV, 0, DROP, "not the sum over every pair|deadlock"},
    {"backward: a crossing of sums is lost", ZEP_FORM_DOUBLE, BWD, GROUP, WORLD, ZEP_RING_DKV, 2, DROP, "deadlock|hold nothing|meets one of key|adds token"},
    {"backward: an inner hop of sums of one row fewer", ZEP_FORM_DOUBLE, BWD, GROUP, NODE, ZEP_RING_DKV, 3, FEWER_ROWS, "which receives"},
    {"backward: sums that are sent before they are ready", ZEP_FORM_DOUBLE, BWD, GROUP, WORLD, ZEP_RING_DKV, 4, NO_AFTER, "may still be"},
    {"backward: the first turn's sum is sent before it is ready", ZEP_FORM_DOUBLE, BWD, GROUP, WORLD, ZEP_RING_DKV, 0, NO_AFTER, "may still be|hold nothing"},
    {"backward: inner sums that are sent before they are ready", ZEP_FORM_DOUBLE, BWD, GROUP, NODE, ZEP_RING_DKV, 4, NO_AFTER, "may still be|hold nothing"},
    {"backward: an addition is lost", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_RING_DKV, 7, DROP, "deadlock|not the sum over every pair"},
    {"backward: a turn's addition does not wait", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_RING_DKV, 3, NO_WAIT, "may still be written|hold nothing"},
    {"backward: an addition to another slot", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ADD, -1, ZEP_RING_DKV, 5, OTHER_DST, "token|hold nothing|not the sum|may still be|adds a buffer"},
    {"backward: a turn's first sum begins before its slot is sent", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ATTN, -1, ZEP_RING_KV, 3, NO_WAIT, "may still be|hold nothing"},
    {"backward: an accumulator is not cleared", ZEP_FORM_DOUBLE, BWD, ZEP_OP_ATTN, -1, ZEP_RING_KV, 4, NO_CLEAR, "hold nothing|token|not the sum"},
    {"all-gather: a crossing is lost", ZEP_FORM_GATHER, FWD, GROUP, WORLD, ZEP_GATHER_KV, 0, DROP, "deadlock|hold nothing|meets one of key"},
    {"all-gather: an inner hop is lost", ZEP_FORM_GATHER, FWD, GROUP, NODE, ZEP_GATHER_KV, 1, DROP, "deadlock|hold nothing|meets one of key"},
    {"all-gather: an inner hop that does not wait for its crossing", ZEP_FORM_GATHER, FWD, GROUP, NODE, ZEP_GATHER_KV, 0, NO_WAIT, "may still be written|hold nothing"},
    {"all-gather: attention on another slot", ZEP_FORM_GATHER, FWD, ZEP_OP_ATTN, -1, ZEP_GATHER_KV, 0, OTHER_KV, "hold nothing|has position"},
    {"all-gather: no pairs", ZEP_FORM_GATHER, FWD, ZEP_OP_ATTN, -1, ZEP_GATHER_KV, 1, NO_PAIRS, "not the sum over every pair"},
    {"all-gather, backward: sums that are sent before they are there", ZEP_FORM_GATHER, BWD, GROUP, NODE, ZEP_GATHER_DKV, 0, NO_AFTER, "may still be|hold nothing"},
    {"all-gather, backward: a crossing of sums that does not wait", ZEP_FORM_GATHER, BWD, GROUP, WORLD, ZEP_GATHER_DKV, 1, NO_AFTER, "may still be|hold nothing"},
    {"all-gather, backward: an addition is lost", ZEP_FORM_GATHER, BWD, ZEP_OP_ADD, -1, ZEP_GATHER_DKV, 0, DROP, "deadlock|not the sum over every pair"},
    {"all-gather, backward: an addition to the own block is lost", ZEP_FORM_GATHER, BWD, ZEP_OP_ADD, -1, ZEP_ATT_DKV, 0, DROP, "deadlock|not the sum over every pair"},
    {"all-gather, backward: an addition that does not wait", ZEP_FORM_GATHER, BWD, ZEP_OP_ADD, -1, ZEP_GATHER_DKV, 2, NO_WAIT, "may still be written|hold nothing"},
    {"all-gather, backward: gradients are not cleared", ZEP_FORM_GATHER, BWD, ZEP_OP_ATTN, -1, ZEP_GATHER_KV, 0, NO_CLEAR, "hold nothing"},
};

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

START_TEST(broken_streams)
{
    static const int64_t len[] = {1200, 77, 5};
    struct zep_view *view = make_view(4, 5, 5);
    int n_bad = 0;

    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct wish all = {broken[i].form, 20, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 0};
        struct zep_plan *p = draft_plan(view, len, 3, &all, 1, 1, 0);
        struct mutation m = {.c = &broken[i]};
        struct zep_check_opts opts = {hook, &m};
        struct zep_error err = {0};
        int rc = zep_plan_check(p, len, 3, &opts, NULL, &err);

        if (!m.done || rc != ZEP_EINVAL || !says(err.text, broken[i].reason)) {
            fprintf(stderr, "%s: %s '%s', expected '%s'\n", broken[i].name, !m.done ? "nothing to change was met" : rc == ZEP_EINVAL ? "refused with" : "was not refused", err.text, broken[i].reason);
            n_bad++;
        }
        free(m.xfer);
        zep_plan_free(p);
    }
    ck_assert_int_eq(n_bad, 0);
    test_view_free(view);
}
END_TEST

/* --- files and texts --- */

START_TEST(texts)
{
    static const int64_t len[] = {700, 700, 700};
    struct wish wish[] = {{ZEP_FORM_DOUBLE, 4, {0, 1, 2, 3}, 0}, {ZEP_FORM_GATHER, 2, {0, 1}, 0}, {ZEP_FORM_SINGLE, 4, {0, 1, 2, 3}, 0}};
    struct zep_view *view = make_view(2, 2, 2);
    struct zep_plan *p, *back = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    char *at;

    wish[2].dev[1] = 3; /* a set of its own: devices 0 and 3 */
    wish[2].n = 2;
    p = draft_plan(view, len, 3, wish, 3, 1, 1);
    ck_assert_int_eq(zep_plan_to_json(p, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "\"format\": \"zeppelin-plan/1.1\""));
    ck_assert_ptr_nonnull(strstr(b.data, "\"zone\": \"inter\", \"form\": \"double\", \"members\": [0, 1, 2, 3], \"sequences\": [0], \"hops\": []"));
    ck_assert_ptr_nonnull(strstr(b.data, "\"zone\": \"intra\", \"form\": \"gather\", \"members\": [0, 1]"));
    ck_assert_ptr_nonnull(strstr(b.data, "\"form\": \"single\", \"members\": [0, 3]"));
    at = strstr(b.data, "\"double\"");
    memcpy(at, "\"triple\"", 8);
    ck_assert_int_eq(zep_plan_from_json("p.json", b.data, b.len, &back, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "p.json: rings.form: expected single, double or gather");
    zep_buf_free(&b);
    ck_assert_int_eq(zep_plan_to_text(p, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "inter-node  double "));
    ck_assert_ptr_nonnull(strstr(b.data, "intra-node  gather "));
    zep_buf_free(&b);
    ck_assert_int_eq(zep_plan_to_svg(p, NULL, NULL, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "ring 0 of 4, double</title>"));
    zep_buf_free(&b);
    zep_plan_free(p);
    test_view_free(view);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planner: forms of transfer");
    TCase *t = tcase_create("forms");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 600);
    tcase_add_test(t, all_grids);
    tcase_add_test(t, random_forms);
    tcase_add_test(t, fall_back);
    tcase_add_test(t, refused);
    tcase_add_test(t, crossings);
    tcase_add_test(t, early_crossings);
    tcase_add_test(t, broken_streams);
    tcase_add_test(t, texts);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
