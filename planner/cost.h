/* The cost model (design, section 5): how long a layer's operations take on a plan device and how many bytes a token's rows are, out of a model's shape, a kind of device, and how
 * many devices form a plan device (tensor parallelism). Plain arithmetic without libm: the same numbers on every machine.
 *
 * Formulas, per token or (query, key) pair and layer; d = head_dim, h = hidden, f = ffn of one expert, a = experts that a token takes (dense: 1), T = tp:
 *   attention forward   4 d n_head FLOP a pair (Q K^T and P V, 2 FLOP a multiply-add); backward 2.5 times that (five products instead of two: Dao et al., FlashAttention, 2022)
 *   linear forward      2 (2 h n_head d + 2 h n_head_kv d + 3 a h f + h n_expert) FLOP a token (projections, gated MLP, router); backward twice that
 *   tensor parallelism  four all-reduces of h elements a token and layer, two in each pass (Shoeybi et al., Megatron-LM, 2019): 2 (T-1)/T h e bytes each on a device's own port
 *   output head         2 h vocab FLOP a token forward, twice that backward
 * A block of n_q queries against n_k keys costs as (n_q + t)(n_k + t) pairs, where t is half a tile of the kernel: what is padded at the edges on average. */
#ifndef ZEP_PLANNER_COST_H
#define ZEP_PLANNER_COST_H

#include <stdint.h>
#include "common/error.h"
#include "topology/topo.h"

struct zep_model_desc {
    char name[48];
    char source[200];  /* where its numbers come from */
    int n_layer, hidden, n_head, n_head_kv, head_dim, ffn, vocab;
    int n_expert, n_active; /* 0, 0: dense */
    int tied;               /* output embedding = input embedding */
    int type_bytes;         /* of activations, keys, values, weights in the passes: 2 */
};

struct zep_engine { /* one device */
    char name[48];
    char source[400];
    double flops;         /* peak, dense, in the model's type, FLOP/s */
    double attn_fwd, attn_bwd, linear; /* share of the peak that large blocks reach */
    int tile;             /* t above, tokens */
    double launch_s;      /* of one operation (kernel) */
    double mem_bytes, mem_bw; /* bytes, bytes/s */
    double port_bw;       /* to other devices of its node where the topology does not say; bytes/s, 0 none */
    int overlap_grad;     /* gradients are exchanged while the backward pass goes on, parameters gathered while the forward pass does */
    int calibrated;       /* 0: taken from a preset */
    int type_bytes;       /* of the type that it computes in, instead of the model's; 0: the model's */
};

/* Costs of one layer on one plan device of speed 1. Times in seconds, sizes in bytes. */
struct zep_cost {
    struct zep_model_desc model;
    struct zep_engine engine;
    int tp;
    double attn_fwd_s, attn_bwd_s;     /* a pair */
    double linear_fwd_s, linear_bwd_s; /* a token */
    double tp_fwd_s, tp_bwd_s;         /* a token: the all-reduces of tensor parallelism, exposed */
    double head_fwd_s, head_bwd_s;     /* a token, once a step */
    double tile, launch_s, mem_bw;
    double q_row, kv_row, dkv_row;     /* bytes of a token's rows, over the whole group: q-like; k and v; their gradients (fp32) */
    double layer_params, other_params; /* parameters of a layer; of embedding and head together */
    double grad_bytes, param_bytes;    /* exchanged for a parameter: reduce-scatter, all-gather */
    double state_bytes;                /* a parameter on its device: weights and gradients */
    double optim_bytes;                /* a parameter, divided over all data-parallel devices */
    double token_bytes;                /* activations kept of a token and layer, over the group */
    double mem_bytes;                  /* of the group */
};

/* Presets; names are told in errors. model: a preset's name or a YAML file (zeppelin-model/1.0, see zeppelin-model(5)). */
const struct zep_model_desc *zep_model_presets(int *n_out);
const struct zep_engine *zep_engine_presets(int *n_out);
int zep_model_load(const char *name, struct zep_model_desc *model_out, struct zep_error *err);
/* name: a preset's name, or a file as `zeppelin calibrate` writes it. */
int zep_engine_load(const char *name, struct zep_engine *engine_out, struct zep_error *err);
/* The engine that the model names of the topology's devices mean ("NVIDIA H100 80GB HBM3" is h100; nodes without devices: cpu); of several kinds the one that most devices
 * are of, among equals the first: planner/mix.h has the speeds of the others. ZEP_EINVAL: unknown, tells how to name one. */
int zep_engine_of_topo(const struct zep_topo *topo, struct zep_engine *engine_out, struct zep_error *err);

/* port_bw: of one device inside its node, for tensor parallelism; 0: the engine's. ZEP_EINVAL: tp does not divide the heads, or a number is missing. */
int zep_cost_make(const struct zep_model_desc *model, const struct zep_engine *engine, int tp, double port_bw, struct zep_cost *cost_out, struct zep_error *err);

/* Linear modules' activations are not kept but computed again in the backward pass; attention's inputs and results are kept. */
void zep_cost_recompute(struct zep_cost *cost);

/* Pairs that a block of attention costs as: n_q x n_k all visible; or the causal triangle of n tokens with themselves. Numbers below 1 are shares of blocks (chunks that only some members have). */
double zep_cost_rect(const struct zep_cost *cost, double n_q, double n_k);
double zep_cost_tri(const struct zep_cost *cost, double n);

/* Tokens that fit into a plan device beside the model's state, n_dp plan devices sharing the optimizer's, with the blocks of a layer's attention that are under way (of a double ring; a gathered ring may need more). 0: not
 * even the state fits. */
int64_t zep_cost_fit_tokens(const struct zep_cost *cost, int n_dp);
int64_t zep_cost_fit(const struct zep_cost *cost, double mem_bytes, int n_dp); /* with other memory than the costs say */

#endif
