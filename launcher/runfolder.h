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
/* The same at a path that is not there yet (folders above it are made). */
int zep_runfolder_new_at(const struct zep_job *job, const char *path, struct zep_error *err);
int zep_runfolder_write_job(const char *rundir, const struct zep_job *job, struct zep_error *err);
int zep_runfolder_load_job(const char *rundir, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err);

/* Only by the holder of the lock. Counts attempts in run.json: the new one's number. backend: "local", "slurm"; jobid: "" none. */
int zep_runfolder_add_attempt(const char *rundir, const char *backend, const char *jobid, int *attempt_out, struct zep_error *err);
struct zep_runinfo { /* what run.json says */
    char id[256], name[128];
    double created;
    int n_attempt;
    char backend[16], job[96], host[256]; /* of the last attempt, "" none yet */
    double time;                          /* when that began */
};
int zep_runfolder_info(const char *rundir, struct zep_runinfo *out, struct zep_error *err);
/* The newest checkpoint's name, "" none; returns its step, -1 none. */
int64_t zep_runfolder_checkpoint(const char *rundir, char *name_out, size_t size);

/* Remembers a Slurm job that the folder was submitted as, "ID" or "ID;CLUSTER", in the file slurm-job and in the index. */
int zep_runfolder_add_jobid(const char *rundir, const char *jobid, struct zep_error *err);

/* JOB on the command line: a run folder, or the id of a run (the folder's name) or of a Slurm job in the user's index ($XDG_STATE_HOME/zeppelin/runs). free(). */
int zep_runfolder_find(const char *word, char **path_out, struct zep_error *err);
/* The runs of the index whose folders are still there, oldest first, each once. All of it to free(). */
int zep_runfolder_list(char ***paths_out, int *n_out, struct zep_error *err);
/* A file of the user's state folder ($XDG_STATE_HOME/zeppelin), which is made; free(). NULL: there is no place for it. */
char *zep_state_path(const char *name);

#endif
