/* Ranks in containers: pyxis (options of srun) and apptainer (a program before the rank). */
#ifndef ZEP_LAUNCHER_CONTAINER_H
#define ZEP_LAUNCHER_CONTAINER_H

#include "common/job.h"
#include "launcher/cli.h"

/* What is mounted: cluster.mounts, the folder of run folders, the folders of the data sets. ZEP_EINVAL: a path that cannot be, for it has the character that divides mounts. */
int zep_container_check(const struct zep_job *job, struct zep_error *err);
/* Where ranks are started: whether apptainer and an image that is a file are there. */
int zep_container_there(const struct zep_job *job, struct zep_error *err);
/* pyxis: srun's options. Nothing for others. */
void zep_container_srun(struct zep_argv *a, const struct zep_job *job);
/* apptainer: `apptainer exec ... IMAGE`, which the rank's command follows. Nothing for others. */
void zep_container_wrap(struct zep_argv *a, const struct zep_job *job);

#endif
