/* The MPIJob (kubeflow.org/v2beta1) of a job. One object: the resolved job travels in it, so that creating it is all or nothing. */
#ifndef ZEP_LAUNCHER_K8S_MANIFEST_H
#define ZEP_LAUNCHER_K8S_MANIFEST_H

#include "common/error.h"
#include "launcher/k8s_spec.h"

#define ZEP_K8S_LABEL_RUN "zeppelin/run"         /* the run's id, equal for all attempts */
#define ZEP_K8S_LABEL_ATTEMPT "zeppelin/attempt" /* from 1 */
#define ZEP_K8S_JOB_VARIABLE "ZEPPELIN_JOB"      /* the resolved job in the launcher's environment */
#define ZEP_K8S_OPERATOR_NAME "training.kubeflow.org/job-name"
#define ZEP_K8S_OPERATOR_ROLE "training.kubeflow.org/job-role"

struct json_t;

/* The name of an attempt: the job's, "-r2" and so on from the second. */
void zep_k8s_attempt_name(const char *name, int attempt, char out[64]);
/* run_id: the name of the run folder. */
int zep_k8s_manifest(const struct zep_k8s_spec *spec, const char *run_id, int attempt, struct json_t **out, struct zep_error *err);

#endif
