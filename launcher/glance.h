/* A glance at a run folder: how far a run is, from the end of metrics.jsonl, job.yaml, outcome.json and the checkpoints; quick for long runs, too. */
#ifndef ZEP_LAUNCHER_GLANCE_H
#define ZEP_LAUNCHER_GLANCE_H

#include <stdint.h>
#include "common/error.h"
#include "common/rundir.h"

struct zep_glance {
    int64_t steps, every;       /* of the job: steps in all, steps between checkpoints (0: at the end) */
    int attempt;                /* the last one that trained, 0 none */
    int ranks, nodes;
    int64_t step;               /* finished, 0 none; of the last attempt that trained */
    double loss;                /* of that step */
    double step_s, tokens_s;    /* means over the last steps (at most 20), 0 not known */
    double last;                /* wall time of the last sign of life (metrics.jsonl was written), 0 none */
    char checkpoint[64];        /* the newest, "" none */
    int64_t checkpoint_step;    /* -1 none */
    double checkpoint_time;     /* wall time */
    double save_s;              /* what the last one took, 0 not known */
    int have_outcome;
    struct zep_outcome outcome; /* of the last attempt */
};

int zep_glance(const char *rundir, struct zep_glance *out, struct zep_error *err);
/* The step of the next checkpoint; -1: none before the end. */
int64_t zep_glance_next_checkpoint(const struct zep_glance *g);
/* Seconds from the last sign of life to the end of the training, or to a step; negative: not known. */
double zep_glance_left_s(const struct zep_glance *g, int64_t until_step);

#endif
