/* Starts the ranks' launcher (mpirun, srun) and follows it to the end: its output into the run's log, progress on the terminal, signals to the ranks. */
#ifndef ZEP_LAUNCHER_FOLLOW_H
#define ZEP_LAUNCHER_FOLLOW_H

#include "common/error.h"
#include "common/job.h"
#include "common/rundir.h"
#include "launcher/environment.h"

struct zep_follow_args {
    const char *rundir;
    int attempt;
    char *const *argv;
    const char *step; /* name of the Slurm step that argv (srun or mpirun) makes, "" none */
    const struct zep_job *job;
    const struct zep_secrets *secrets; /* that the ranks get, NULL: none */
};

/* From here on a request to stop (SIGINT, SIGTERM, SIGUSR1, SIGHUP) does not end this process: zep_follow passes it on as soon as the ranks train. zep_follow calls it, too. */
void zep_follow_catch(void);

struct zep_follow_end {
    struct zep_outcome outcome; /* the ranks' own, or, where they left none, what the launcher's words and the last signs of life tell */
    int started;                /* the ranks accepted the job and began to train */
    int signal;                 /* the second interrupt, by which the ranks were ended; 0 none */
};

/* Returns ZEP_OK when there is an outcome to speak of. */
int zep_follow(const struct zep_follow_args *a, struct zep_follow_end *end_out, struct zep_error *err);

#endif
