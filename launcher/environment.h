/* What ranks find in their environment: cluster.mpi, cluster.library_path, cluster.env, cluster.secrets. */
#ifndef ZEP_LAUNCHER_ENVIRONMENT_H
#define ZEP_LAUNCHER_ENVIRONMENT_H

#include "common/buf.h"
#include "common/error.h"
#include "common/job.h"
#include "launcher/cli.h"

/* Sets this process's environment as the job has it, so that the ranks' launcher is found in it and inherits it; secrets are not in it. slurm: steps inherit all of it, whatever the batch
 * job was given (SLURM_EXPORT_ENV). */
int zep_environment_apply(const struct zep_job *job, int slurm, struct zep_error *err);
/* mpirun's options -x NAME, for ranks on other nodes: names only, the values go over mpirun's own connections. */
void zep_environment_forward(const struct zep_job *job, struct zep_argv *a);

/* The values of cluster.secrets, in this process's memory only. */
struct zep_secrets {
    int n;
    char **name, **value;
};
/* Reads them: from the environment, or from files that are the user's (or root's) and readable by nobody else. All that is wrong is told, and no message shows a value. */
int zep_secrets_read(const struct zep_job *job, struct zep_secrets *out, struct zep_error *err);
/* In the child that becomes the ranks' launcher. */
void zep_secrets_set(const struct zep_secrets *s);
void zep_secrets_free(struct zep_secrets *s);
/* Whether a batch job that is submitted from here will find them: variables are set, files are as they must be. All that is wrong is added. */
void zep_secrets_check(const struct zep_job *job, struct zep_mistakes *m);

/* For a batch script: the value of sbatch --export (cluster.export, and the variables that secrets are read from), and the lines that export cluster.env. */
int zep_environment_export(const struct zep_job *job, struct zep_buf *out, struct zep_error *err);
int zep_environment_lines(const struct zep_job *job, struct zep_buf *out, struct zep_error *err);

#endif
