/* What Slurm's controller says of jobs and steps, by squeue: without the filters that a user keeps in the environment (SQUEUE_STATES, SLURM_CLUSTERS, ...). */
#ifndef ZEP_COMMON_SQUEUE_H
#define ZEP_COMMON_SQUEUE_H

#include <stddef.h>
#include "common/error.h"

enum zep_job_state {
    ZEP_JOB_UNKNOWN = 0, /* no answer, or none that says anything of the job */
    ZEP_JOB_LIVES,       /* waits, runs, or is ending */
    ZEP_JOB_ENDED,       /* in a final state, or no longer known to the controller */
};

/* word_out: Slurm's own word for the state ("RUNNING"), "" none; of a job with several parts the first one's. */
enum zep_job_state zep_squeue_job(const char *jobid, double time_s, char *word_out, size_t size);
/* The step of a job that was started with --job-name=NAME: 1 and its id ("12.3"), 0 there is none (any more), -1 no answer. */
int zep_squeue_step(const char *jobid, const char *name, double time_s, char *id_out, size_t size);
/* Ends a step and waits until the controller says that it is gone. ZEP_ETIMEDOUT: it is not, or there is no answer. */
int zep_squeue_end_step(const char *jobid, const char *name, double time_s, struct zep_error *err);
/* The name of the cluster whose controller answers. */
int zep_squeue_cluster(double time_s, char *name_out, size_t size);
/* The prefixes of environment variables that Slurm's query commands are run without (zep_process_run_without). */
const char *const *zep_squeue_filters(void);
/* Whether Slurm's word for a state means that the job has ended. */
int zep_squeue_is_final(const char *word);

#endif
