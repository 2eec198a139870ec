/* What `zeppelin status` says of runs: what their backends tell and their folders show, put together. */
#ifndef ZEP_LAUNCHER_STATUS_H
#define ZEP_LAUNCHER_STATUS_H

#include "common/buf.h"
#include "common/error.h"
#include "launcher/backend.h"
#include "launcher/glance.h"

struct zep_run_status {
    const struct zep_run *run;
    struct zep_live live;
    struct zep_glance glance; /* zeroed where no folder is known */
    int seen;                 /* the folder could be read */
    double now;               /* wall time of the look */
};

/* waiting, running, ending, done, stopped, failed, lost, refused, cancelled, new, unknown */
const char *zep_status_word(const struct zep_run_status *s);
/* Whether it waits, runs or is ending. */
int zep_status_lives(const struct zep_run_status *s);
/* One run, a paragraph of lines. */
int zep_status_text(const struct zep_run_status *s, struct zep_buf *out, struct zep_error *err);
/* Many runs, a line each. */
int zep_status_table(const struct zep_run_status *s, int n, struct zep_buf *out, struct zep_error *err);
/* "zeppelin-status/1.0" */
int zep_status_json(const struct zep_run_status *s, int n, struct zep_buf *out, struct zep_error *err);
/* "35 s", "5 min", "1 h 18 min", "3 d 4 h" */
char *zep_format_span(double s, char buf[40]);

#endif
