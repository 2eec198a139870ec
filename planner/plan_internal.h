/* What the files of planner/ share: drafts (what a method decides), routing and remapping. */
#ifndef ZEP_PLANNER_PLAN_INTERNAL_H
#define ZEP_PLANNER_PLAN_INTERNAL_H

#include "planner/plan.h"

#define ZEP_PLAN_MAX_TOKENS ((int64_t)1 << 40) /* of a batch: squares of lengths then fit into 128 bits with room to spare */

/* Sets of small integers (devices or nodes, ascending), each stored once, each with a running rot. */
struct zep_set {
    int32_t item0, n;
    int32_t rot;  /* of the next sequence cut over this set */
    int32_t form; /* enum zep_form of its ring, single at first; a method may change it before the plan is made */
    int32_t heads; /* how many of its devices, side by side, exchange heads; none at first, likewise */
};

struct zep_sets {
    int n, cap;
    struct zep_set *set;
    int n_item, cap_item;
    int32_t *item;
    int n_bucket; /* power of two */
    int32_t *bucket; /* set + 1, 0 empty */
};

void zep_sets_free(struct zep_sets *sets);
void zep_sets_reset(struct zep_sets *sets); /* empty again, memory kept */
/* The number of the set with these n items, made where it is new. Negative: out of memory (zep_status). */
int zep_sets_get(struct zep_sets *sets, const int32_t *item, int n, struct zep_error *err);

enum zep_spread { ZEP_SPREAD_EQUAL = 0, ZEP_SPREAD_NODE, ZEP_SPREAD_ALL }; /* equal shares; by time inside each node; by time over all devices */

/* What a method decides: for each sequence its set of devices and its rot, and the order in which sequences of one ring come. */
struct zep_draft {
    int n_seq;
    int32_t *set;   /* [n_seq] */
    int32_t *rot;   /* [n_seq] */
    int32_t *order; /* [n_seq] a permutation of the sequences */
    struct zep_sets sets;
    /* Where tokens go for linear modules, if they are moved at all. By time: so that busy_s[d] + tokens * token_s is as even as can be. */
    enum zep_spread spread;
    const double *busy_s; /* [n_dev], the method's own */
    double token_s;       /* > 0 */
};

int zep_draft_init(struct zep_draft *draft, int n_seq, struct zep_error *err);
void zep_draft_free(struct zep_draft *draft);
/* Puts a sequence on a set with the set's running rot and moves that on by the sequence's remainder. */
void zep_draft_place(struct zep_draft *draft, int seq, int64_t len, int set);
/* Makes rings of the sets in use, hops (with proxies if routing) of single rings, moves, and finishes the plan. A set that cannot carry its form gets a single ring: a double ring one that does not
 * have the same number of devices in each of at least two nodes, an all-gather a single device. A number of heads' groups that does not divide a set is none. */
int zep_plan_from_draft(const struct zep_view *view, const int64_t *len, const struct zep_plan_opts *opts, int routing, const struct zep_draft *draft, struct zep_plan **plan_out,
                        struct zep_error *err);

/* Does every device hold what the plan gives it, where they have capacities of their own? ZEP_EUNSUPPORTED: not all. */
int zep_plan_hold(const struct zep_plan *plan, struct zep_error *err);

/* Tokens that member m of a ring of G holds of a sequence: both chunks. */
int64_t zep_member_tokens(int64_t len, int n_member, int rot, int m);
/* The rot that follows a sequence of len tokens. */
int32_t zep_rot_next(int64_t len, int n_member, int32_t rot);
/* rows[m] += tokens of member m over all sequences of the ring. */
void zep_ring_rows(const struct zep_plan *plan, int ring, int64_t *rows);

/* plan.c: slots and tokens of the attention layout (indices must be in range). */
int zep_plan_derive_attn(struct zep_plan *plan, struct zep_error *err);

/* routing.c: fills hop and proxy of all rings between nodes, which are complete otherwise. Each hop has a pair of proxies for every NIC that both nodes have, at most opts->max_proxies; plans of the method zeppelin
 * that are made by cost have so many of these that a block's hop takes the least time. */
int zep_plan_route(const struct zep_view *view, const struct zep_plan_opts *opts, int routing, struct zep_plan *plan, struct zep_error *err);
/* What a remap minimises (docs/remapping.md): the largest cost over senders (the paper's), or the largest time over senders, receivers and NICs (ours). */
enum zep_remap_objective { ZEP_REMAP_SENDERS, ZEP_REMAP_LINKS, ZEP_REMAP_INSIDE }; /* inside: as links, but what a node can even out by itself does not cross, though it might be faster: nodes do not wait for each other */
/* remap.c: fills the moves for attention layouts of attn_tok[d] tokens. ZEP_REMAP_LINKS for plans of the method zeppelin, ZEP_REMAP_SENDERS for others. */
int zep_plan_remap(const struct zep_view *view, const int64_t *attn_tok, const int64_t *want, struct zep_plan *plan, struct zep_error *err);
/* want: [n_dev] tokens in the linear layout, of the same sum; NULL: equal shares. */
int zep_plan_remap_for(const struct zep_view *view, enum zep_remap_objective objective, const int64_t *attn_tok, const int64_t *want, struct zep_plan *plan, struct zep_error *err);
/* remap_targets.c: want[d] of the draft's spread, no device above its capacity: by time, devices being of different speed; or equal shares, where by_speed in proportion to speed. */
void zep_remap_targets(const struct zep_view *view, const int64_t *attn_tok, const struct zep_draft *draft, const struct zep_plan_opts *opts, int by_speed, int64_t *want);

/* What a method of ours says where the zones that it may use do not hold the batch: ZEP_EUNSUPPORTED. */
int zep_zones_refuse(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err);

/* The methods. */
extern const struct zep_method zep_method_zeppelin, zep_method_zeppelin_paper, zep_method_te_cp;
extern const struct zep_method zep_method_llama_cp, zep_method_static_cp, zep_method_wlb, zep_method_packed_dp, zep_method_hybrid_dp, zep_method_flexsp, zep_method_ulysses, zep_method_usp, zep_method_auto;

#endif
