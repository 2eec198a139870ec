/* What the files of library/ share. */
#ifndef ZEP_LIBRARY_INTERNAL_H
#define ZEP_LIBRARY_INTERNAL_H

#include "common/error.h" /* before the public header: it has the status codes */
#include "common/buf.h"
#include "library/zeppelin.h"
#include "planner/mix.h"
#include "planner/plan.h"
#include "topology/topo.h"

struct zep_cluster {
    struct zep_topo *topo;
    struct zep_view *view;
    int tp;
};

struct zep_options {
    char *method, *model, *device; /* NULL: not set */
    int64_t capacity_tok;          /* 0: not set */
    int routing, remap, max_proxies;
};

/* Of the options' model on their device, or on the cluster's own. */
int library_cost(const struct zep_cluster *cluster, const struct zep_options *options, struct zep_cost *cost_out, struct zep_error *err);
/* The cluster's view with the speeds and memory of its devices beside those that the costs are of; all but dev_speed and dev_mem is the cluster's. library_view_done frees these. */
int library_view(const struct zep_cluster *cluster, const struct zep_options *options, const struct zep_cost *cost, struct zep_view *view_out, struct zep_error *err);
void library_view_done(struct zep_view *view);
/* Ends a text: hands it over, or frees it where rc says that it failed. */
int library_text(int rc, struct zep_buf *b, struct zep_error *err, char **text_out);

#endif
