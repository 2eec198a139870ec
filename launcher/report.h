/* What a run folder tells about its run. */
#ifndef ZEP_LAUNCHER_REPORT_H
#define ZEP_LAUNCHER_REPORT_H

#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "common/job.h"
#include "common/rundir.h"

struct zep_report_step { /* sums are of the step */
    int64_t step, tokens, targets;
    int micro;
    double loss, lr, grad_norm, time_s;
    double phase_s[5]; /* plan, forward, backward, reduce, optimizer */
    double attn_s[3], wait_s[2], remap_s; /* inter, intra, local; world, node */
    double plan_work_s, plan_wait_s;
    int plan_ready; /* ranks */
    double flops, attn_flops, net_bytes;
    int64_t zone_tok[3], zone_seq[3]; /* local, intra-node, inter-node */
};

struct zep_report_eval {
    int64_t step, targets;
    double loss;
};

struct zep_report_rank { /* sums over all steps, of the layout that the run had last */
    double attn_tok, lin_tok, pairs, busy_s;
};

struct zep_report {
    char *rundir;
    struct zep_job *job;
    int have_outcome;
    struct zep_outcome outcome;
    int attempt, ranks, nodes; /* of the last attempt */
    int64_t params, capacity, cut_documents;
    int64_t window;              /* steps whose documents are dealt out together; 0: not recorded */
    char method[32], compose[32], kernels[32], gemm[32];
    int n_step, n_eval, n_rank, n_rank_step;
    struct zep_report_step *step; /* ascending; of repeated steps the highest attempt's */
    struct zep_report_eval *eval;
    struct zep_report_rank *rank;
    struct zep_report_startup { /* of the last attempt, seconds on rank 0; all negative: not recorded */
        double launch, mpi, topology, data, model, checkpoint, plan; /* launch: from the attempt's entry in run.json to the ranks' begin; plan: the first step's */
    } startup;
    struct zep_report_ckpts { /* checkpoints that were committed, of all attempts */
        int n;
        double bytes, time_s, stall_s; /* sums; stall_s: of time_s the training stood still */
    } ckpts;
    double unigram, bigram; /* nats a token on the held-out text, 0 unknown */
    int64_t n_torn;         /* lines that could not be read */
};

int zep_report_load(const char *rundir, struct zep_report **out, struct zep_error *err);
void zep_report_free(struct zep_report *r);

int zep_report_text(const struct zep_report *r, struct zep_buf *out, struct zep_error *err);
int zep_report_json(const struct zep_report *r, struct zep_buf *out, struct zep_error *err); /* "zeppelin-report/1.0" */
int zep_report_loss_svg(const struct zep_report *r, struct zep_buf *out, struct zep_error *err);
int zep_report_ranks_svg(const struct zep_report *r, struct zep_buf *out, struct zep_error *err);
/* Writes report/report.txt, report.json, loss.svg and ranks.svg into the run folder. */
int zep_report_write(const struct zep_report *r, struct zep_error *err);

struct zep_report_sums {
    double tokens, targets, time_s, flops, attn_flops, net_bytes, phase_s[5], attn_s[3], wait_s[2], remap_s;
    double plan_work_s, plan_wait_s;
    int64_t zone_tok[3], zone_seq[3], micro;
    int planned_ahead; /* steps whose plans some rank had before they began */
};
/* Which share of making the plans no step waited for, 0 to 1. */
double zep_report_hidden(const struct zep_report_sums *sums);
void zep_report_sum(const struct zep_report *r, struct zep_report_sums *out);

#endif
