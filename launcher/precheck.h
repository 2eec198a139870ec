/* Mistakes of a job that show before anything is started. */
#ifndef ZEP_LAUNCHER_PRECHECK_H
#define ZEP_LAUNCHER_PRECHECK_H

#include "common/error.h"
#include "common/job.h"

/* Method, tensor parallelism, data set named. */
int zep_precheck_job(const struct zep_job *job, struct zep_error *err);
/* The data sets are there and sound; no document is too long for the context, a step, or all devices together. */
int zep_precheck_data(const struct zep_job *job, int n_dev, struct zep_error *err);

#endif
