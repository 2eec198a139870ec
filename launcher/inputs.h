/* Where verbs get their inputs from: topologies by option or by job, views, data sets. */
#ifndef ZEP_LAUNCHER_INPUTS_H
#define ZEP_LAUNCHER_INPUTS_H

#include "common/error.h"
#include "common/job.h"
#include "topology/topo.h"

#define ZEP_MAX_FROM 16
#define ZEP_MAX_SLOW 64

struct zep_topo_args { /* no source: what there is (topology/source.h) */
    int n_from; /* -1: more than ZEP_MAX_FROM */
    const char *from[ZEP_MAX_FROM];
    const char *label_levels, *hosts, *only, *without;
    int quiet;  /* what was recognised is not said */
    int n_slow; /* -1: more than ZEP_MAX_SLOW */
    const char *slow[ZEP_MAX_SLOW];
    char *made[ZEP_MAX_FROM]; /* texts that were made of short options; live as long as the process */
};

/* The options of sources that verbs share. */
enum { ZEP_OPT_FROM = 1000, ZEP_OPT_LOCAL, ZEP_OPT_SLURM, ZEP_OPT_JOB, ZEP_OPT_SYNTHETIC, ZEP_OPT_PRESET, ZEP_OPT_FILE, ZEP_OPT_LABELS, ZEP_OPT_HOSTS, ZEP_OPT_ONLY, ZEP_OPT_WITHOUT, ZEP_OPT_SLOW };
/* 1: it was one of them. */
int zep_inputs_topo_option(struct zep_topo_args *a, int option, const char *value);
/* What was recognised and chosen is said on standard error. */
int zep_inputs_topo(const struct zep_topo_args *a, struct zep_topo **topo_out, struct zep_error *err);
/* Is this process inside a Slurm allocation? The job id, or NULL. */
const char *zep_inputs_slurm_job(void);
/* The topology that a job asks for (cluster.topology, cluster.where), and how many nodes and devices a node it uses: written back into the job, so that the resolved job says it. */
int zep_inputs_cluster(struct zep_job *job, struct zep_topo **topo_out, struct zep_view **view_out, struct zep_error *err);

#endif
