/* What the files of the job file share: job_keys.c (the schema), job.c (loading), job_text.c (writing). */
#ifndef ZEP_COMMON_JOB_INTERNAL_H
#define ZEP_COMMON_JOB_INTERNAL_H

#include "common/job.h"

/* What callers see as a struct zep_job, with where each value comes from. */
struct job_full {
    struct zep_job pub; /* first */
    char **origin;      /* by key: "job.yaml:14", "default", "--set train.steps=3" */
};

static inline void *job_field(const struct zep_job *job, const struct zep_job_key *key)
{
    return (char *)job + key->offset;
}

/* The value as text that reads back as the same value. */
int zep_job_value_text(const struct zep_job *job, const struct zep_job_key *key, struct zep_buf *out);

#endif
