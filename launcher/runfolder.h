/* run.json of a run folder, attempts, and the resolved job in it. */
#ifndef ZEP_LAUNCHER_RUNFOLDER_H
#define ZEP_LAUNCHER_RUNFOLDER_H

#include <stdint.h>
#include "common/error.h"
#include "common/job.h"

/* An absolute path; free(). NULL: out of memory. */
char *zep_abs_path(const char *path);
/* Paths of a job become absolute, so that it means the same from any folder. */
int zep_job_absolute(struct zep_job *job, struct zep_error *err);

/* A new run folder below job->run_root with run.json and job.yaml; path_out: absolute, free(). Nothing is left on failure. */
int zep_runfolder_new(const struct zep_job *job, char **path_out, struct zep_error *err);
int zep_runfolder_write_job(const char *rundir, const struct zep_job *job, struct zep_error *err);
int zep_runfolder_load_job(const char *rundir, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err);

/* Only by the holder of the lock. Counts attempts in run.json: the new one's number. backend: "local", "slurm"; jobid: "" none. */
int zep_runfolder_add_attempt(const char *rundir, const char *backend, const char *jobid, int *attempt_out, struct zep_error *err);
/* Remembers the Slurm job that the folder was submitted as, in the file slurm-job and in the index. */
int zep_runfolder_set_jobid(const char *rundir, const char *jobid, struct zep_error *err);

/* JOB on the command line: a run folder, or the id of a run (the folder's name) or of a Slurm job in the user's index ($XDG_STATE_HOME/zeppelin/runs). free(). */
int zep_runfolder_find(const char *word, char **path_out, struct zep_error *err);

#endif
