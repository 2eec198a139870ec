/* Jobs as Slurm's controller tells of them: one squeue call for all jobs of the user, its answer kept for 15 s in the user's state folder; sacct for those that it has forgotten. */
#ifndef ZEP_LAUNCHER_SLURM_JOBS_H
#define ZEP_LAUNCHER_SLURM_JOBS_H

#include <stddef.h>
#include "common/error.h"

struct zep_slurm_job {
    const char *id, *raw; /* "12", "12_3"; raw: the number that the job itself sees */
    const char *state, *reason, *user, *nodes, *command; /* reason: of what waits; command: the batch script's path */
    double submitted, start, end;
};

struct zep_slurm_jobs {
    int n;
    struct zep_slurm_job *job;
    char *text; /* that the above point into */
};

/* All jobs of this user that the controller knows, ended ones too. cluster: "" the default one. fresh: what was kept will not do. ZEP_EUNAVAIL, ZEP_ETIMEDOUT: no answer. */
int zep_slurm_jobs(const char *cluster, int fresh, struct zep_slurm_jobs *out, struct zep_error *err);
/* One job, whose ever it is: 1, 0 the controller does not know it, negative: no answer. Never kept. */
int zep_slurm_job(const char *cluster, const char *id, struct zep_slurm_jobs *out, struct zep_error *err);
/* squeue's answer, a line a job as zep_slurm_format asks for; takes text over. */
int zep_slurm_jobs_parse(char *text, struct zep_slurm_jobs *out, struct zep_error *err);
void zep_slurm_jobs_free(struct zep_slurm_jobs *jobs);
/* After a change that we made ourselves the kept answer is old. */
void zep_slurm_jobs_forget(const char *cluster);

/* What accounting says of a job: 1 and its state ("COMPLETED"), exit status and nodes; 0 nothing, or there is no accounting. */
int zep_slurm_accounted(const char *cluster, const char *id, char state_out[32], int *exit_out, char *nodes_out, size_t size);

/* Slurm's reason for waiting in plain words; its own word where we know none. */
void zep_slurm_why(const char *reason, char *out, size_t size);
/* How a job ended, in plain words. */
const char *zep_slurm_ended(const char *state);
/* What a run ends with that left no outcome. */
int zep_slurm_exit_status(const char *state);

#endif
