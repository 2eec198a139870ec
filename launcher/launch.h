/* How ranks are started: the argument vector for mpirun or srun. */
#ifndef ZEP_LAUNCHER_LAUNCH_H
#define ZEP_LAUNCHER_LAUNCH_H

#include "common/error.h"
#include "common/job.h"
#include "common/rundir.h"
#include "launcher/cli.h"

enum zep_where { ZEP_WHERE_LOCAL = 0, ZEP_WHERE_SLURM, ZEP_WHERE_K8S };
const char *zep_where_name(enum zep_where where); /* as in run.json */
/* The MPIJob whose launcher pod this is, "NAMESPACE/NAME", by the operator's names of hosts. */
void zep_launch_mpijob(char *out, size_t size);

struct zep_launch {
    enum zep_where where;
    int srun;              /* srun, else mpirun */
    int nodes, per_node;   /* ranks a node */
    char step[64];         /* in an allocation the name of the step that srun, or mpirun for its daemons, makes; else "" */
    struct zep_argv argv;
};

int zep_launch_where(const struct zep_job *job, enum zep_where *out, struct zep_error *err);
/* nodes and devices of the job must be resolved. In an allocation srun is tried with two ranks (a few seconds).
 * lock: the run's lock, NULL in a dry run. ZEP_EUNAVAIL: no launcher, or no zeppelin-rank. */
int zep_launch_make(const struct zep_job *job, enum zep_where where, const char *rundir, int attempt, const struct zep_lock *lock, struct zep_launch *out, struct zep_error *err);
void zep_launch_free(struct zep_launch *l);
int zep_launch_in_path(const char *program);
/* Environment for the ranks' launcher: set in this process, where the user did not. */
void zep_launch_env(enum zep_where where);

#endif
