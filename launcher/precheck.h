/* Mistakes of a job that show before anything is started. All are found, not only the first: the error has one line each, which says where the value comes from. */
#ifndef ZEP_LAUNCHER_PRECHECK_H
#define ZEP_LAUNCHER_PRECHECK_H

#include "common/error.h"
#include "common/job.h"
#include "topology/topo.h"

/* For `zeppelin run`: method, tensor parallelism; the cluster as zep_inputs_cluster resolves it (written back into the job; topology for the caller); the data sets are there and sound, and no
 * document is too long for the context, a step, or all devices together. */
int zep_precheck_run(struct zep_job *job, struct zep_topo **topo_out, struct zep_error *err);
/* For `zeppelin submit`: the same but for the cluster, of which the job has to say how many devices a node it wants. Nodes that are 'auto' become one, devices that are 'auto' gpus_per_node. */
int zep_precheck_submit(struct zep_job *job, struct zep_error *err);
/* For `zeppelin k8s`: what the job asks of Kubernetes (launcher/k8s_spec.h); data sets are looked at in the pods, where they lie. cluster.where becomes k8s; nodes and devices as for submit.
 * The spec refers to the job. */
struct zep_k8s_spec;
int zep_precheck_k8s(struct zep_job *job, struct zep_k8s_spec **spec_out, struct zep_error *err);
/* For `zeppelin job check`: what either would find. The cluster is looked at only where the job describes it: which one 'auto' will be is not known yet. m: what the
 * job was read with; what is found is added, but for what hangs on a value that was mistaken. */
void zep_precheck_check(struct zep_job *job, struct zep_mistakes *m);

#endif
