/* A plan for people who train with other software: "zeppelin-ranks/1.0", a folder in which every rank finds what it has to hold, compute, send and receive (manual: zeppelin-ranks(5)).
 * A rank here is a plan device (a group of tp MPI ranks). */
#ifndef ZEP_PLANNER_EXPORT_H
#define ZEP_PLANNER_EXPORT_H

#include "common/buf.h"
#include "common/error.h"
#include "planner/plan.h"

enum zep_layout { ZEP_LAYOUT_ATTENTION = 0, ZEP_LAYOUT_LINEAR };

/* The tokens of a device's layout in row order: global number, position in the document, number of the sequence; each array [attn_tok or lin_tok of the device], or NULL. */
int zep_plan_layout_tokens(const struct zep_plan *plan, int dev, enum zep_layout layout, int64_t *token, int64_t *position, int64_t *seq, struct zep_error *err);

/* ZEP_EUNSUPPORTED: the plan exchanges heads, which the format does not know. */
int zep_plan_may_export(const struct zep_plan *plan, struct zep_error *err);

/* rank.json: rings, buffers, remapping, and the operations of both passes. ZEP_EUNSUPPORTED: as above. */
int zep_plan_to_rank_json(const struct zep_plan *plan, int dev, struct zep_buf *out, struct zep_error *err);

/* The folder `dir`: complete or absent. The plan is proved first (ZEP_EINVAL). A folder that is there must be empty or hold the same export, which then stays as it is; else ZEP_EREFUSED. */
int zep_plan_export_ranks(const struct zep_plan *plan, const char *dir, struct zep_error *err);

#endif
