/* Sequences on blocks of devices, and how long each device takes then, by estimate: what the method zeppelin weighs placements by. A block is a part of a node (blocks of one size begin at its
 * multiples), several whole nodes side by side, or everything; blocks of different sizes overlap. One sequence more or less costs work on its own block's nodes, and a look into a tournament of all nodes:
 * placing is close to linear in sequences + devices. Plain arithmetic without libm and without clocks: the same on every machine. */
#ifndef ZEP_PLANNER_PLACE_H
#define ZEP_PLANNER_PLACE_H

#include "planner/groups.h"

#define ZEP_PLACE_MAX_LEVEL 63 /* a bit each */

enum zep_place_move { ZEP_MOVE_NONE = 0, ZEP_MOVE_NODE, ZEP_MOVE_ALL, ZEP_N_MOVE }; /* tokens to where linear modules work: none, inside nodes, anywhere */

struct zep_place_level {
    double net_bw; /* of a block over nodes: the slowest node's NICs, in the block where these are fastest */
    int size;   /* devices of a block (where nodes differ and it is of several: at most) */
    int n_node; /* 1: a part of a node, or one whole */
    int heads;  /* so many devices side by side exchange heads, the ring is of such groups; 1: none do */
    int heads_inside; /* the same, were it for groups inside nodes alone */
};

struct zep_job { /* a sequence's block: of level k, from device dev0 on */
    int32_t dev0, k;
};

struct zep_times { /* of a sequence on a block, seconds of a layer by pass */
    double attn[2]; /* computing on each device, */
    double step[2]; /* one step of it, all without launches */
    double port[2]; /* hops inside nodes: each device's port */
    double tail[2]; /* crossings that its own steps do not hide: the first block's, and those of gradients that the own node's turn is too short for */
    double turn[2]; /* computing with one node's blocks */
    double nic[2];  /* crossings: the NICs of each of its nodes */
};

struct zep_load { /* of a device: sums over what is on it */
    struct zep_times t;
    double over[2];  /* attention's part for rings over nodes */
    double pace[2];  /* attention of its rings at the pace of each ring's slowest device */
    double local;    /* attention of whole sequences, both passes: it waits for nobody */
    double linear;   /* linear modules of its tokens, both passes, at speed 1 */
    int64_t tok;
};

struct zep_place_node {
    double nic[2];    /* crossings */
    double squares;   /* of what its devices take: evenness */
    double done_s;    /* its slowest device, */
    int32_t slowest;
    int64_t most_tok; /* its fullest one */
};

struct zep_tree { /* a tournament over nodes, or over devices' blocks in them: least busy and least full below each place */
    double *busy;
    int64_t *tok;
};

struct zep_place {
    struct zep_groups g; /* lengths by descending size; its groups are not used */
    const struct zep_view *view;
    const struct zep_plan_opts *opts;
    int per_node;        /* 0: nodes differ */
    int n_level, n_inside; /* degrees, ascending; the first ones are inside nodes; the last is everything */
    struct zep_place_level level[ZEP_PLACE_MAX_LEVEL];
    double token_s;      /* linear modules */
    double linear_s;     /* of a device's equal share */
    double target_s;     /* a perfect spread */
    double port_bw, *node_bw; /* of the slowest device; [n_node] of the NICs, as far as all devices of a node can use them at once, bytes/s */
    double nics_bw;      /* of the slowest node */
    int alike;           /* all nodes have as many devices and NICs of one speed together */
    uint64_t allowed;    /* levels of the zones that may be used */
    uint64_t known;      /* of these, levels whose links are known: others are for what fits nowhere else */
    enum zep_place_move move; /* what is looked at just now */
    double fastest;           /* device */
    int same_speed;           /* all devices are of one speed */
    struct zep_load *dev;     /* [n_dev] */
    double *attn_s, *done_s;  /* [n_dev] how long attention takes, transfers that nothing hides included; all */
    struct zep_place_node *node; /* [n_node] */
    int width;                /* leaves of a tournament, a power of two */
    struct zep_tree *least;   /* [n_inside] */
    double *most;             /* [2 * width] the slowest node below each place */
    struct zep_job *job;      /* [n_seq] */
    int32_t *head, *next, *prev; /* sequences of a block, [n_level * n_dev] and [n_seq], + 1 */
    int64_t work;             /* nodes looked at: what budgets count */
};

int zep_place_init(struct zep_place *z, const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_error *err);
void zep_place_free(struct zep_place *z);

/* Devices of a block; the first node behind it. */
int zep_place_size(const struct zep_place *z, int k, int dev0);
int zep_place_end_node(const struct zep_place *z, int k, int dev0);
/* net_bw: of the slowest node's NICs, bytes/s; heads: as in struct zep_place_level; the exchange, which nothing hides, counts as computing. */
void zep_place_times(const struct zep_place *z, int64_t len, int size, int n_node, double net_bw, int heads, struct zep_times *out);
/* The slowest node's NICs of a block. */
double zep_place_net_bw(const struct zep_place *z, int k, int dev0);
/* How long attention of the sequence takes on a block that has nothing else, both passes. */
double zep_place_alone(const struct zep_place *z, int seq, int k);
/* Computing of both passes on each device, linear modules included. */
double zep_place_each(const struct zep_place *z, int seq, int k);

/* Exchanges of heads over nodes become those inside nodes; the next time, none is left. 0: there was none. */
int zep_place_fewer_heads(struct zep_place *z);

void zep_place_clear(struct zep_place *z);
void zep_place_add(struct zep_place *z, int seq, int k, int dev0);
void zep_place_remove(struct zep_place *z, int seq); /* job[seq] still says from where */
/* The block of a level that has room for the sequence and is done with it first, each_s (zep_place_each) being what it takes there at speed 1: when; negative: none. */
double zep_place_best(struct zep_place *z, int seq, int k, double each_s, int *dev0_out);
/* How long the slowest device takes, both passes of a layer; which. */
double zep_place_slowest(const struct zep_place *z, int *dev_out);

/* How long the slowest device takes, rings waiting for each other as well: they begin when the last of their devices is done with linear modules, and rings that share devices begin together. Too costly for
 * each move, it is what finished placements are compared by. scratch: [2 * n_dev]. */
double zep_place_judge(const struct zep_place *z, double *scratch);

/* All sequences, longest first: each to the smallest allowed degree (a bit each) on which it stays below limit_s, or one of `ahead` more. 1 everything has its place, 0 there is no room. */
int zep_place_all(struct zep_place *z, double limit_s, int ahead, uint64_t degrees);
/* Moves sequences of the slowest device while that gets faster (or its nodes more even), until `work` is used up. */
void zep_place_refine(struct zep_place *z, int64_t work);
/* The plan of job[]. */
int zep_place_plan(struct zep_place *z, const struct zep_job *job, enum zep_place_move move, struct zep_plan **plan_out, struct zep_error *err);

#endif
