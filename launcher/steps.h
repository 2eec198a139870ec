/* `zeppelin plan --steps`: which documents the steps of a run share, in the order of the epoch and dealt out by windows, and what that is predicted to give. */
#ifndef ZEP_LAUNCHER_STEPS_H
#define ZEP_LAUNCHER_STEPS_H

#include "common/buf.h"
#include "common/error.h"
#include "launcher/problem.h"
#include "planner/plan.h"
#include "planner/workload.h"

struct zep_steps_args {
    const struct zep_problem_args *problem;
    const char *model, *device; /* model NULL: nothing is predicted */
    struct zep_plan_opts opts;  /* capacity_tok 0: nothing is planned */
    int64_t n, window;
    enum zep_compose compose;
};

struct zep_steps_row {
    int n_doc, n_micro;
    int64_t n_token, longest;
    double pairs;
    double imbalance; /* most pairs of a device over the mean; 0: not planned */
    double step_s;    /* 0: not predicted */
};

struct zep_steps {
    int n;
    int64_t first; /* the number of the first */
    int64_t window, tokens;
    const char *compose;
    char model[48], device[48];
    struct zep_steps_row *row[2]; /* [n] in order; by windows (NULL: the window is 1) */
};

int zep_steps_run(const struct zep_steps_args *a, struct zep_steps **out, struct zep_error *err);
void zep_steps_free(struct zep_steps *steps);
int zep_steps_to_text(const struct zep_steps *s, struct zep_buf *b, struct zep_error *err);
int zep_steps_to_json(const struct zep_steps *s, struct zep_buf *b, struct zep_error *err); /* "zeppelin-steps/1.0" */
int zep_steps_to_svg(const struct zep_steps *s, struct zep_buf *b, struct zep_error *err);

#endif
