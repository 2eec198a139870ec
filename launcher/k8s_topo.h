/* The topology of a job's workers: pods as nodes, with the labels of the nodes that they are on. */
#ifndef ZEP_LAUNCHER_K8S_TOPO_H
#define ZEP_LAUNCHER_K8S_TOPO_H

#include "common/error.h"
#include "common/job.h"
#include "launcher/k8s_workers.h"
#include "topology/topo.h"

/* By the labels of nodes, where the pod's service account may read them and there are any; else by the probe; else without a fabric. What was chosen, and why, is told. */
int zep_k8s_topo(const struct zep_job *job, const struct zep_workers *w, struct zep_topo **out, struct zep_error *err);

#endif
