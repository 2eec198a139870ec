/* For tests/t/20-exec.t: attention forward and backward by the executor on real ranks, compared with a plain double-precision reference.
 *
 *   exec-probe [OPTION]... LENGTH...        (under mpirun)
 *     --nodes N --devices D --nics C --tp T   layout: N x D devices of T ranks, C NICs a node
 *     --method M --capacity L --no-routing --no-remap --max-proxies X
 *     --form F        rings that can carry it are of this form of transfer: single, double, gather, mixed; prints "forms single N double N gather N"
 *     --dim HEAD_DIM --heads N --kv-heads N
 *     --repeat R      the same again; results must have the same bits
 *     --drop STEP     the attention operations of ring step STEP are skipped (the comparison must notice)
 *     --stall RANK    that rank sleeps before the pass; the others must give up after --timeout S
 *     --overlap       prints how many groups of transfers were complete at the end of each attention operation of this rank 0
 *     --no-progress   kernels get no progress hook
 *     --no-compare    the reference, which takes its time on long sequences, is left out; prints "time forward S backward S"
 *
 * Prints: "error o RMS MAX dq RMS MAX dkv RMS MAX bits HEX rows N". */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/rng.h"
#include "common/units.h"
#include "planner/check.h"
#include "runtime/agree.h"
#include "runtime/exec.h"
#include "tests/unit/form_util.h"
#include "tests/unit/view_util.h"

struct probe {
    int nodes, devices, nics, tp, repeat, drop, stall, overlap, no_progress, no_compare;
    const char *form;
    double fwd_s, bwd_s;
    double timeout_s;
    struct zep_plan_opts opts;
    struct zep_exec_shape shape;
    int64_t *len, n_token;
    int n;
    struct zep_comm *comm;
    struct zep_plan *plan;
    struct zep_exec *exec;
    struct zep_kernels kernels; /* a copy, perhaps wrapped */
    const struct zep_kernels *real;
};

static struct probe P = {.nodes = 1, .nics = 1, .tp = 1, .repeat = 1, .drop = -1, .stall = -1, .timeout_s = 60, .opts = ZEP_PLAN_OPTS_DEFAULT, .shape = {1, 4, 2, 16}};

static void die(const struct zep_error *err)
{
    fprintf(stderr, "exec-probe: %s\n", err->text);
    if (P.comm)
        zep_comm_abort(P.comm, zep_exit_status(err->code));
    exit(zep_exit_status(err->code));
}

static int64_t number(const char *text)
{
    struct zep_error err;
    int64_t v;

    if (zep_parse_int(text, 0, INT64_MAX, &v, &err) < 0)
        die(&err);
    return v;
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"nodes", 1, NULL, 'n'}, {"devices", 1, NULL, 'd'}, {"nics", 1, NULL, 'c'}, {"tp", 1, NULL, 't'}, {"method", 1, NULL, 'm'}, {"capacity", 1, NULL, 'l'}, {"no-routing", 0, NULL, 'r'},
        {"no-remap", 0, NULL, 'R'}, {"max-proxies", 1, NULL, 'x'}, {"dim", 1, NULL, 'D'}, {"heads", 1, NULL, 'H'}, {"kv-heads", 1, NULL, 'K'}, {"repeat", 1, NULL, 'p'}, {"drop", 1, NULL, 'o'},
        {"stall", 1, NULL, 's'}, {"timeout", 1, NULL, 'T'}, {"overlap", 0, NULL, 'v'}, {"no-progress", 0, NULL, 'N'}, {"no-compare", 0, NULL, 'C'}, {"form", 1, NULL, 'f'}, {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'n': P.nodes = (int)number(optarg); break;
        case 'd': P.devices = (int)number(optarg); break;
        case 'c': P.nics = (int)number(optarg); break;
        case 't': P.tp = (int)number(optarg); break;
        case 'm': P.opts.method = optarg; break;
        case 'l': P.opts.capacity_tok = number(optarg); break;
        case 'r': P.opts.routing = 0; break;
        case 'R': P.opts.remap = 0; break;
        case 'x': P.opts.max_proxies = (int)number(optarg); break;
        case 'D': P.shape.head_dim = (int)number(optarg); break;
        case 'H': P.shape.n_head = (int)number(optarg); break;
        case 'K': P.shape.n_head_kv = (int)number(optarg); break;
        case 'p': P.repeat = (int)number(optarg); break;
        case 'o': P.drop = (int)number(optarg); break;
        case 's': P.stall = (int)number(optarg); break;
        case 'T': P.timeout_s = (double)number(optarg); break;
        case 'v': P.overlap = 1; break;
        case 'N': P.no_progress = 1; break;
        case 'C': P.no_compare = 1; break;
        case 'f': P.form = optarg; break;
        default: exit(2);
        }
    }
    P.n = argc - optind;
    P.len = zep_calloc((size_t)P.n + 1, sizeof *P.len);
    for (int i = 0; i < P.n; i++)
        P.n_token += P.len[i] = number(argv[optind + i]);
}

/* Values of token `token`, the same on every rank; kind: 0 q, 1 kv, 2 dO. Tensor rank t has its own heads. */
static void fill_row(int kind, int64_t token, int t, int n, float *out)
{
    struct zep_rng rng;

    zep_rng_seed3(&rng, 77 + (uint64_t)kind, (uint64_t)token, (uint64_t)t);
    for (int i = 0; i < n; i++)
        out[i] = (float)zep_rng_normal(&rng);
}

static int hook_drop(void *arg, enum zep_pass pass, struct zep_op *op)
{
    return !(op->kind == ZEP_OP_ATTN && op->step == P.drop);
}

static void probe_print(void *arg, const struct zep_op *op, int64_t world, int64_t node)
{
    if (zep_comm_rank(P.comm) == 0)
        printf("overlap queue %d step %d groups done: world %" PRId64 " node %" PRId64 "\n", op->queue, op->step, world, node);
}

static int fwd_without(const struct zep_attn *a, float *o, int64_t ld_o, float *lse, const struct zep_progress *pr, struct zep_error *err)
{
    return P.real->attn_fwd(a, o, ld_o, lse, NULL, err);
}

static int bwd_without(const struct zep_attn *a, const float *d_o, int64_t ld_do, const float *lse, const float *delta, float *dq, int64_t ld_dq, float *dk, float *dv, int64_t ld_dkv,
                       const struct zep_progress *pr, struct zep_error *err)
{
    return P.real->attn_bwd(a, d_o, ld_do, lse, delta, dq, ld_dq, dk, dv, ld_dkv, NULL, err);
}

struct arrays {
    float *q, *kv, *o, *d_o, *dq, *dkv;
};

static struct zep_piece *pieces;
static int n_piece;

static void run(struct arrays *a, int q_row, int kv_row)
{
    int64_t n = P.plan->lin_tok[zep_comm_dev(P.comm)];
    int t = zep_comm_t(P.comm);
    struct zep_error err;

    a->q = zep_calloc((size_t)n * (size_t)q_row + 1, sizeof(float));
    a->kv = zep_calloc((size_t)n * (size_t)kv_row + 1, sizeof(float));
    a->o = zep_calloc((size_t)n * (size_t)q_row + 1, sizeof(float));
    a->d_o = zep_calloc((size_t)n * (size_t)q_row + 1, sizeof(float));
    a->dq = zep_calloc((size_t)n * (size_t)q_row + 1, sizeof(float));
    a->dkv = zep_calloc((size_t)n * (size_t)kv_row + 1, sizeof(float));
    for (int p = 0; p < n_piece; p++)
        for (int64_t i = 0; i < pieces[p].end - pieces[p].begin; i++) {
            int64_t token = P.plan->seq[pieces[p].seq].token0 + pieces[p].begin + i, row = pieces[p].row0 + i;

            fill_row(0, token, t, q_row, a->q + row * q_row);
            fill_row(1, token, t, kv_row, a->kv + row * kv_row);
            fill_row(2, token, t, q_row, a->d_o + row * q_row);
        }
    if (zep_comm_barrier(P.comm, &err) < 0)
        die(&err);
    if (P.stall == zep_comm_rank(P.comm))
        sleep(1000);
    P.fwd_s = zep_clock_now();
    if (zep_exec_forward(P.exec, 0, a->q, a->kv, a->o, &err) < 0)
        die(&err);
    P.bwd_s = zep_clock_now();
    P.fwd_s = P.bwd_s - P.fwd_s;
    if (zep_exec_backward(P.exec, 0, a->d_o, a->dq, a->dkv, &err) < 0)
        die(&err);
    P.bwd_s = zep_clock_now() - P.bwd_s;
}

static void free_arrays(struct arrays *a)
{
    free(a->q);
    free(a->kv);
    free(a->o);
    free(a->d_o);
    free(a->dq);
    free(a->dkv);
}

struct error_sum {
    double sq, max;
};

static void compare(struct error_sum *e, const float *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);

        if (!isfinite(got[i]))
            d = INFINITY;
        e->sq += d * d;
        e->max = d > e->max ? d : e->max;
    }
}

/* One sequence by the reference; every rank compares the rows that it holds. */
static void check_seq(int s, const struct arrays *a, int q_row, int kv_row, struct error_sum e[3])
{
    int64_t n = P.len[s], half = kv_row / 2, token0 = P.plan->seq[s].token0;
    float *q = zep_calloc((size_t)n * (size_t)q_row, 4), *kv = zep_calloc((size_t)n * (size_t)kv_row, 4), *d_o = zep_calloc((size_t)n * (size_t)q_row, 4);
    double *o = zep_calloc((size_t)n * (size_t)q_row, 8), *dq = zep_calloc((size_t)n * (size_t)q_row, 8), *dk = zep_calloc((size_t)(n * half), 8), *dv = zep_calloc((size_t)(n * half), 8);
    double *lse = zep_calloc((size_t)n * (size_t)P.shape.n_head, 8);
    struct zep_attn at = {.n_head = P.shape.n_head, .n_head_kv = P.shape.n_head_kv, .head_dim = P.shape.head_dim, .scale = 1.0f / sqrtf((float)P.shape.head_dim), .n_q = n, .n_kv = n,
                          .q = q, .ld_q = q_row, .k = kv, .v = kv + half, .ld_kv = kv_row};
    struct zep_error err;

    for (int64_t i = 0; i < n; i++) {
        fill_row(0, token0 + i, zep_comm_t(P.comm), q_row, q + i * q_row);
        fill_row(1, token0 + i, zep_comm_t(P.comm), kv_row, kv + i * kv_row);
        fill_row(2, token0 + i, zep_comm_t(P.comm), q_row, d_o + i * q_row);
    }
    if (zep_ref_attn(&at, d_o, q_row, o, lse, dq, dk, dv, &err) < 0)
        die(&err);
    for (int p = 0; p < n_piece; p++) {
        int64_t m = pieces[p].end - pieces[p].begin, b = pieces[p].begin, row = pieces[p].row0;

        if (pieces[p].seq != s)
            continue;
        compare(&e[0], a->o + row * q_row, o + b * q_row, m * q_row);
        compare(&e[1], a->dq + row * q_row, dq + b * q_row, m * q_row);
        for (int64_t i = 0; i < m; i++) {
            compare(&e[2], a->dkv + (row + i) * kv_row, dk + (b + i) * half, half);
            compare(&e[2], a->dkv + (row + i) * kv_row + half, dv + (b + i) * half, half);
        }
    }
    free(q); free(kv); free(d_o); free(o); free(dq); free(dk); free(dv); free(lse);
}

static int holds(int s)
{
    for (int p = 0; p < n_piece; p++)
        if (pieces[p].seq == s)
            return 1;
    return 0;
}

static uint64_t bits_of(const struct arrays *a, int q_row, int kv_row)
{
    size_t n = (size_t)P.plan->lin_tok[zep_comm_dev(P.comm)];

    return zep_digest(a->o, n * (size_t)q_row * 4, 1) ^ zep_digest(a->dq, n * (size_t)q_row * 4, 2) ^ zep_digest(a->dkv, n * (size_t)kv_row * 4, 3);
}

static void start(int *argc, char ***argv)
{
    int dev[256], nic[256];
    int count[ZEP_N_FORM + 1] = {0};
    struct zep_view *view;
    struct zep_error err;

    if (zep_comm_start(argc, argv, 0, &P.comm, &err) < 0)
        die(&err);
    if (!P.devices)
        P.devices = zep_comm_size(P.comm) / P.nodes / P.tp;
    if (!P.opts.capacity_tok)
        P.opts.capacity_tok = (P.n_token * 5 / 4 + P.nodes * P.devices - 1) / (P.nodes * P.devices);
    for (int i = 0; i < P.nodes; i++) {
        dev[i] = P.devices;
        nic[i] = P.nics;
    }
    P.opts.tp = P.tp;
    P.opts.heads = P.shape.n_head_kv;
    view = make_view_uneven(P.nodes, dev, nic);
    if (zep_plan_build(view, P.len, P.n, &P.opts, &P.plan, &err) < 0 || zep_comm_arrange(P.comm, P.plan->n_dev, P.tp, P.plan->dev_node, NULL, &err) < 0)
        die(&err);
    test_view_free(view);
    if (P.form && (test_set_forms(P.plan, P.form, count, &err) < 0 || zep_plan_check(P.plan, P.len, P.n, NULL, NULL, &err) < 0))
        die(&err);
    if (P.form && zep_comm_rank(P.comm) == 0)
        printf("forms single %d double %d gather %d heads %d\n", count[ZEP_FORM_SINGLE], count[ZEP_FORM_DOUBLE], count[ZEP_FORM_GATHER], count[ZEP_N_FORM]);
    zep_comm_set_timeout(P.comm, P.timeout_s);
    zep_comm_set_phase(P.comm, "attention");
    if (zep_agree_value(P.comm, P.plan->digest, "plan digest", &err) < 0 || zep_kernels_select(&P.real, &err) < 0)
        die(&err);
    P.kernels = *P.real;
    if (P.no_progress) {
        P.kernels.attn_fwd = fwd_without;
        P.kernels.attn_bwd = bwd_without;
    }
    if (zep_exec_new(P.comm, &P.kernels, &P.shape, &P.exec, &err) < 0 || zep_exec_set_plan(P.exec, P.plan, &err) < 0)
        die(&err);
    if (P.drop >= 0)
        zep_exec_set_hook(P.exec, hook_drop, NULL);
    if (P.overlap)
        zep_exec_set_probe(P.exec, probe_print, NULL);
}

int main(int argc, char **argv)
{
    struct arrays a = {0};
    struct error_sum e[3] = {{0, 0}};
    struct zep_error err;
    uint64_t bits = 0;
    double sum[5], max[3];
    int q_row, kv_row;

    parse(argc, argv);
    start(&argc, &argv);
    q_row = P.shape.n_head * P.shape.head_dim;
    kv_row = 2 * P.shape.n_head_kv * P.shape.head_dim;
    if (zep_plan_lin_pieces(P.plan, zep_comm_dev(P.comm), &pieces, &n_piece, &err) < 0)
        die(&err);
    for (int r = 0; r < P.repeat; r++) {
        uint64_t now;

        run(&a, q_row, kv_row);
        now = bits_of(&a, q_row, kv_row);
        if (r && now != bits) {
            fprintf(stderr, "exec-probe: rank %d: another result in repetition %d\n", zep_comm_rank(P.comm), r);
            zep_comm_abort(P.comm, 1);
        }
        bits = now;
        if (r + 1 < P.repeat)
            free_arrays(&a);
    }
    for (int s = 0; s < P.n && !P.no_compare; s++)
        if (holds(s))
            check_seq(s, &a, q_row, kv_row, e);
    for (int i = 0; i < 3; i++) {
        sum[i] = e[i].sq;
        max[i] = e[i].max;
    }
    sum[3] = (double)(bits & 0xffffffff);
    sum[4] = (double)P.plan->lin_tok[zep_comm_dev(P.comm)];
    if (zep_comm_sum_f64(P.comm, sum, 5, &err) < 0 || zep_comm_max_f64(P.comm, max, 3, &err) < 0)
        die(&err);
    max[0] = P.no_compare ? P.fwd_s : max[0];
    max[1] = P.no_compare ? P.bwd_s : max[1];
    if (P.no_compare && zep_comm_max_f64(P.comm, max, 2, &err) < 0)
        die(&err);
    if (zep_comm_rank(P.comm) == 0 && P.no_compare)
        printf("time forward %.4f backward %.4f\n", max[0], max[1]);
    else if (zep_comm_rank(P.comm) == 0)
        printf("error o %.3e %.3e dq %.3e %.3e dkv %.3e %.3e bits %.0f rows %.0f\n", sqrt(sum[0] / (double)(P.n_token * q_row * P.tp)), max[0], sqrt(sum[1] / (double)(P.n_token * q_row * P.tp)), max[1],
               sqrt(sum[2] / (double)(P.n_token * kv_row * P.tp)), max[2], sum[3], sum[4] / P.tp);
    free_arrays(&a);
    free(pieces);
    zep_exec_free(P.exec);
    zep_plan_free(P.plan);
    zep_comm_finish(P.comm);
    free(P.len);
    return 0;
}
