/* The batch script of a job, of a chain of jobs, or of an array of them. */
#ifndef ZEP_LAUNCHER_SBATCH_H
#define ZEP_LAUNCHER_SBATCH_H

#include "common/buf.h"
#include "common/error.h"
#include "common/job.h"

struct zep_sbatch {
    const struct zep_job *job;   /* nodes and devices must be numbers; of a sweep any one: they ask for the same */
    const char *zeppelin;        /* absolute path of this command */
    const char *dir;             /* absolute; where the script lies, and its output goes: the run's folder, or that of a sweep */
    const char *const *rundir;   /* absolute, n_run of them: more than one is a sweep, whose jobs are an array */
    int n_run, sweep, at_once;   /* at_once: of a sweep so many run at the same time, 0: any number */
    int chain;                   /* so many jobs, one after the other */
};

int zep_sbatch_script(const struct zep_sbatch *s, struct zep_buf *out, struct zep_error *err);
/* One of sbatch's further options (cluster.slurm): ZEP_EINVAL where it is none, or would take from us what we need. */
int zep_sbatch_check_option(const char *name, const char *value, struct zep_error *err);

#endif
