/* The plan of one (micro-)step: where each piece of each sequence lives for attention, which rings exchange keys and values, which proxies carry each hop between
 * nodes, and how tokens move between the attention layout and the linear layout (design, sections 1 and 4 to 8). Deterministic: same input, same bytes.
 *
 * A device here is a plan device (a group of tp MPI ranks), 0 .. n_dev-1, ordered node by node.
 *
 * Tokens are numbered globally, sequence by sequence in the order of `seq`: sequence s holds tokens [token0, token0 + len).
 *
 * Every sequence belongs to one ring. A ring of G members cuts each of its sequences into 2G chunks; member m has the chunks m and 2G-1-m (zigzag).
 * Chunk sizes: base = len / 2G, and the rem = len % 2G remaining tokens go one each to the "slots" (rot + e) mod 2G for e = 0 .. rem-1, where slot j < G is the first chunk
 * (chunk j) of member j and slot j >= G is the second chunk (chunk 2G-1-(j-G)) of member j-G. So consecutive slots are different members, and running
 * `rot` on from sequence to sequence keeps the members of a ring within one token of each other. Chunks may be empty. G = 1: the whole sequence, local.
 *
 * Attention layout of device d: its rings in ascending ring number; in each the ring's sequences in order; of each the first chunk, then the second one.
 * Linear layout of device d: attention rows [0, a_d - sent_d) of its own, where sent_d = sum of its moves out, then the rows of each move to d in order of the moves list.
 * A move takes the attention rows of `from` behind those that it keeps, in the order of the moves list. A device never both sends and receives moves.
 *
 * A ring whose `heads` is U >= 2 consists of R = G / U groups of U members side by side. The members of a group exchange heads: for attention, member u of a group has the u-th of U equal parts of the heads of all
 * tokens that its group holds. Between the groups, keys and values travel as `form` says, among the members of the same u, with R in place of G. The layouts above are as in any other ring: chunks of the members
 * of a group lie side by side, so that a group holds the two chunks (zigzag) of a ring of R. R = 1: nothing travels but the heads. */
#ifndef ZEP_PLANNER_PLAN_H
#define ZEP_PLANNER_PLAN_H

#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "topology/topo.h"

enum zep_zone { ZEP_ZONE_NONE = 0, ZEP_ZONE_LOCAL, ZEP_ZONE_INTRA, ZEP_ZONE_INTER, ZEP_N_ZONE };
extern const char *const zep_zone_names[ZEP_N_ZONE]; /* "none", "local", "intra", "inter", in files and options; */
extern const char *const zep_zone_text[ZEP_N_ZONE];  /* "", "local", "intra-node", "inter-node", for people */
/* How keys and values travel in a ring (planner/sched.h says what each does): single ring; double ring along the rails, for the same number of members in each of at least two nodes,
 * node by node; all-gather, for at least two members. Only single rings have hops. */
enum zep_form { ZEP_FORM_NONE = 0, ZEP_FORM_SINGLE, ZEP_FORM_DOUBLE, ZEP_FORM_GATHER, ZEP_N_FORM };
extern const char *const zep_form_names[ZEP_N_FORM]; /* "none", "single", "double", "gather" */

struct zep_plan_ring;
/* "single", "heads/8", "heads/8+double": how a ring travels, for people. */
const char *zep_ring_form_text(const struct zep_plan_ring *ring, char text[32]);

struct zep_plan_seq {
    int64_t token0, len;
    int32_t ring;
    int32_t rot; /* 0 .. 2G-1 */
};

struct zep_plan_ring {
    int32_t zone; /* enum zep_zone */
    int32_t form; /* enum zep_form */
    int32_t member0, n_member; /* range in `member` */
    int32_t seq0, n_seq;       /* range in `ring_seq` */
    int32_t hop0, n_hop;       /* range in `hop`: the hops between nodes, ascending by `from`; none but in single rings */
    int32_t heads;             /* 0: none; U >= 2: so many members side by side exchange heads, G = R * U; such a ring has no hops with proxies */
};

static inline int zep_ring_heads(const struct zep_plan_ring *ring)
{
    return ring->heads > 1 ? ring->heads : 1;
}

/* A hop between nodes: from member `from` to member (from + 1) mod G of its ring, carried by n_proxy pairs of devices. Part k of n rows is the rows
 * [n*k/x, n*(k+1)/x) of the message. proxy[k].src lies in the sender's node, proxy[k].dst in the receiver's; src == the sender and dst == the receiver are allowed
 * (no dispatch or combine for that part). n_proxy >= 1; sources of one hop are distinct, destinations too. */
struct zep_plan_hop {
    int32_t from;
    int32_t proxy0, n_proxy;
};

struct zep_plan_proxy {
    int32_t src, dst; /* plan devices */
};

struct zep_plan_move { /* attention layout -> linear layout: n rows go from `from` to `to` */
    int32_t from, to;
    int64_t n;
};

struct zep_plan_slot { /* membership of a device in a ring, grouped by device */
    int32_t ring, pos;
    int64_t row0, n; /* the ring's rows in the device's attention layout */
};

struct zep_plan {
    char method[24];
    int n_dev, n_node, tp;
    int64_t capacity_tok; /* per device; the largest where they differ */
    int64_t n_token;
    int n_seq, n_ring, n_member, n_hop, n_proxy, n_move;
    int64_t *dev_capacity; /* [n_dev] tokens of each device; NULL: capacity_tok for all */
    int32_t *dev_node;    /* [n_dev] */
    struct zep_plan_seq *seq;
    struct zep_plan_ring *ring; /* inter-node rings first, then intra-node, then local (one local ring per device that has any) */
    int32_t *member;
    int32_t *ring_seq;    /* [n_seq], sequence numbers grouped by ring */
    struct zep_plan_hop *hop;
    struct zep_plan_proxy *proxy;
    struct zep_plan_move *move; /* ascending (from, to), n > 0 */
    /* derived by zep_plan_finish */
    int64_t *attn_tok, *lin_tok; /* [n_dev] tokens in each layout */
    int32_t *dev_slot0;          /* [n_dev + 1] ranges in slot */
    struct zep_plan_slot *slot;  /* [n_member], by device then ring */
    uint64_t digest;
    int unsealed;           /* read from a file without its digest: written or edited by hand, and to be proved before it is believed */
};

struct zep_cost;

/* How long the method zeppelin may look for a plan: `fast` plans by estimates, within milliseconds; `search` simulates candidates. Both are counts of tries that follow from the input. */
enum zep_effort { ZEP_EFFORT_FAST = 0, ZEP_EFFORT_SEARCH, ZEP_N_EFFORT };
extern const char *const zep_effort_names[ZEP_N_EFFORT]; /* "fast", "search" */
int zep_effort_parse(const char *name, enum zep_effort *effort_out, struct zep_error *err);

/* Zones that sequences may be put in, a bit (1 << enum zep_zone) each, from words as in "local,inter"; "all": 0. */
int zep_zones_parse(const char *text, unsigned *zones_out, struct zep_error *err);

struct zep_plan_opts {
    const char *method;    /* "zeppelin", "zeppelin-paper", "te-cp" */
    int64_t capacity_tok;  /* L, tokens a device may hold in the attention layout; > 0 */
    int tp;                /* ranks per plan device, >= 1 */
    int routing;           /* 0: every hop between nodes goes straight from sender to receiver */
    int remap;             /* 0: linear layout = attention layout */
    int max_proxies;       /* 0: one per NIC that both nodes have */
    const struct zep_cost *cost; /* costs of a layer (planner/cost.h), of the same tp; NULL: methods go by tokens and pairs alone */
    const int64_t *dev_capacity; /* [n_dev] of devices that hold less than capacity_tok, in the attention layout and in the linear one; 0: nothing; NULL: all hold capacity_tok. Ask zep_opts_capacity */
    enum zep_effort effort;
    int heads;             /* what the degree of an exchange of heads must divide: key-value heads / tp; 0: as `cost` says, without it not known */
    int no_heads;          /* methods zeppelin and auto exchange none */
    unsigned zones;        /* those that zeppelin and zeppelin-paper may use (zep_zones_parse); 0: all */
};

#define ZEP_PLAN_OPTS_DEFAULT {"zeppelin", 0, 1, 1, 1, 0, NULL, NULL, ZEP_EFFORT_FAST, 0, 0, 0}

static inline int64_t zep_opts_capacity(const struct zep_plan_opts *opts, int dev)
{
    return opts->dev_capacity && opts->dev_capacity[dev] < opts->capacity_tok ? opts->dev_capacity[dev] : opts->capacity_tok;
}
static inline int zep_opts_zone(const struct zep_plan_opts *opts, enum zep_zone zone)
{
    return !opts->zones || opts->zones >> zone & 1;
}
static inline int64_t zep_plan_capacity(const struct zep_plan *plan, int dev)
{
    return plan->dev_capacity ? plan->dev_capacity[dev] : plan->capacity_tok;
}

/* Plans n sequences of len[i] tokens (each >= 1) on the view. The error for too small a capacity says by how much and what would fit. n = 0 gives an empty plan.
 * ZEP_EUNSUPPORTED: this method cannot place the batch, others may (devices of different capacity: rings are cut evenly). */
int zep_plan_build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err);
void zep_plan_free(struct zep_plan *plan);
/* Fills the derived fields; used by builders and readers. Refuses indices out of range (not more: the checker does the rest). */
int zep_plan_finish(struct zep_plan *plan, struct zep_error *err);

/* The grid of a ring: its members in order are the same number *per_node_out in each of *n_node_out nodes, nodes ascending. 1, or 0 where they are not.
 * Where heads are exchanged: of the groups' members of one u; each group lies in one node. */
int zep_ring_grid(const struct zep_plan *plan, int ring, int *n_node_out, int *per_node_out);

struct zep_method { /* registry of methods */
    const char *name, *summary;
    int (*build)(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err);
};
const struct zep_method *const *zep_methods(void); /* NULL-terminated */

/* Chunk c (0 .. 2G-1) of a sequence of len tokens in a ring of G members: [*begin_out, *end_out) within the sequence. O(1). */
void zep_chunk_range(int64_t len, int n_member, int rot, int c, int64_t *begin_out, int64_t *end_out);

/* A piece: tokens [begin, end) of a sequence (positions within it), row0 in the layout. */
struct zep_piece {
    int32_t seq;
    int64_t begin, end, row0;
};
/* All pieces of a device, attention or linear layout, in row order; adjacent ones of a sequence are not joined. free() *pieces_out. */
int zep_plan_attn_pieces(const struct zep_plan *plan, int dev, struct zep_piece **pieces_out, int *n_out, struct zep_error *err);
int zep_plan_lin_pieces(const struct zep_plan *plan, int dev, struct zep_piece **pieces_out, int *n_out, struct zep_error *err);

struct zep_plan_stats {
    int64_t zone_tok[4], zone_seq[4];        /* by enum zep_zone */
    int64_t max_attn_tok, max_lin_tok;
    double max_pairs, mean_pairs;            /* causal (query, key) pairs a device computes */
    int64_t moved_tok;                       /* remapped, one way */
    int64_t hop_tok_inter, hop_tok_intra;    /* token rows sent per forward pass over ring hops */
    int64_t head_tok_inter, head_tok_intra;  /* token rows of which queries, keys and values, and later outputs, are sent per forward pass to exchange heads */
};
void zep_plan_stats(const struct zep_plan *plan, struct zep_plan_stats *out);

/* "zeppelin-plan/1.1"; 1.2 where devices have capacities of their own; 1.3 where heads are exchanged */
int zep_plan_to_json(const struct zep_plan *plan, struct zep_buf *out, struct zep_error *err);
int zep_plan_from_json(const char *name, const char *text, size_t len, struct zep_plan **plan_out, struct zep_error *err);
int zep_plan_to_text(const struct zep_plan *plan, struct zep_buf *out, struct zep_error *err);
/* Devices x tokens, coloured by zone. node_name ([n_node], NULL: by number) and speed ([n_dev], NULL: not known; below 1 it is written beside the device) are what a plan does not know of its cluster. */
int zep_plan_to_svg(const struct zep_plan *plan, const char *const *node_name, const double *speed, struct zep_buf *out, struct zep_error *err);

#endif
