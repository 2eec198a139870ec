/* Handing scripts to sbatch: first asked whether the job could ever start, so that nothing is in the queue that cannot; what the cluster has is told where it could not. */
#ifndef ZEP_LAUNCHER_SUBMIT_H
#define ZEP_LAUNCHER_SUBMIT_H

#include "common/error.h"
#include "common/job.h"

/* Would the controller take the job? ZEP_EUNAVAIL: its own reason, and what would fit. cluster: "" the default one. */
int zep_submit_test(const struct zep_job *job, const char *script, const char *cluster, struct zep_error *err);
/* after: a job that has to end first, NULL none. id_out: as sbatch --parsable prints it, "ID" or "ID;CLUSTER". ZEP_ETIMEDOUT: the controller may have taken the job all the same. */
int zep_submit_call(const struct zep_job *job, const char *script, const char *cluster, const char *after, char id_out[160], struct zep_error *err);
/* Takes a job out of the queue again. */
void zep_submit_undo(const char *id, const char *cluster);

/* What a partition has, as told by sinfo's lines "NAME|LIMIT|NODES|CORES|GRES|STATE"; name "" the default one, or all of them where there is none. A sentence, "" nothing is known. */
void zep_submit_fits(const char *sinfo, const char *name, char *out, size_t size);
/* The partition's time limit in seconds, 0: none or not known. */
double zep_submit_limit_s(const char *sinfo, const char *name);

#endif
