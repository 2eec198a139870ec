/* metrics.jsonl of a run, written by rank 0 alone: one JSON object a line, one write each; formats in zeppelin-run(5). */
#ifndef ZEP_RUNTIME_METRICS_H
#define ZEP_RUNTIME_METRICS_H

#include "common/error.h"
#include "runtime/train.h"

struct zep_metrics;
struct zep_saver_told; /* runtime/save.h */

int zep_metrics_open(const char *rundir, int attempt, struct zep_metrics **out, struct zep_error *err);
void zep_metrics_close(struct zep_metrics *m);

/* Parts of the start-up, seconds on rank 0: MPI; job, topology and places; data; model and costs; checkpoint. */
enum zep_startup { ZEP_STARTUP_MPI = 0, ZEP_STARTUP_TOPOLOGY, ZEP_STARTUP_DATA, ZEP_STARTUP_MODEL, ZEP_STARTUP_CHECKPOINT, ZEP_N_STARTUP };
extern const char *const zep_startup_names[ZEP_N_STARTUP];

struct zep_metrics_start {
    int ranks, nodes, devices; /* devices a node, the largest */
    int64_t step, params, capacity, cut_documents, window;
    const char *kernels, *gemm, *method, *compose;
    double startup_s[ZEP_N_STARTUP];
};
int zep_metrics_write_start(struct zep_metrics *m, const struct zep_metrics_start *s, struct zep_error *err);
int zep_metrics_write_eval(struct zep_metrics *m, int64_t step, double loss, int64_t n_target, double time_s, struct zep_error *err);
int zep_metrics_write_step(struct zep_metrics *m, const struct zep_step_stats *st, int n_rank, struct zep_error *err);
int zep_metrics_write_checkpoint(struct zep_metrics *m, const struct zep_saver_told *told, struct zep_error *err);
int zep_metrics_write_end(struct zep_metrics *m, int64_t step, const char *status, double time_s, struct zep_error *err);

#endif
