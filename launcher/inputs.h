/* Where verbs get their inputs from: topologies by option or by job, views, data sets. */
#ifndef ZEP_LAUNCHER_INPUTS_H
#define ZEP_LAUNCHER_INPUTS_H

#include "common/error.h"
#include "common/job.h"
#include "topology/topo.h"

struct zep_topo_args { /* at most one is set; none: the allocation that we run in, else this machine */
    int local, slurm;
    const char *job; /* Slurm job id */
    const char *synthetic, *preset, *file;
};
int zep_inputs_topo(const struct zep_topo_args *a, struct zep_topo **topo_out, struct zep_error *err);
/* Is this process inside a Slurm allocation? The job id, or NULL. */
const char *zep_inputs_slurm_job(void);
/* The topology that a job asks for (cluster.topology, cluster.where), and how many nodes and devices a node it uses: written back into the job, so that the resolved job says it. */
int zep_inputs_cluster(struct zep_job *job, struct zep_topo **topo_out, struct zep_view **view_out, struct zep_error *err);

#endif
