/* The batch script of a job. */
#ifndef ZEP_LAUNCHER_SBATCH_H
#define ZEP_LAUNCHER_SBATCH_H

#include "common/buf.h"
#include "common/error.h"
#include "common/job.h"

/* rundir: absolute. zeppelin: absolute path of this command. nodes and devices of the job must be numbers. */
int zep_sbatch_script(const struct zep_job *job, const char *rundir, const char *zeppelin, struct zep_buf *out, struct zep_error *err);

#endif
