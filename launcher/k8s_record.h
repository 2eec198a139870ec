/* What the submitting side knows of a run on Kubernetes: k8s.json in its own run folder, "zeppelin-k8s/1.0". The run folder with checkpoints lies in the pods. */
#ifndef ZEP_LAUNCHER_K8S_RECORD_H
#define ZEP_LAUNCHER_K8S_RECORD_H

#include <stddef.h>
#include "common/error.h"

struct json_t;

int zep_k8s_record_read(const char *rundir, struct json_t **out, struct zep_error *err);
int zep_k8s_record_write(const char *rundir, const struct json_t *record, struct zep_error *err);
/* 1: there is one. */
int zep_k8s_record_exists(const char *rundir);

/* A run's first attempt: writes mpijob.json, creates it, keeps the record. An MPIJob of that name which is not this run's is ZEP_EREFUSED and stays as it is. name_out: "NAMESPACE/NAME". */
struct zep_k8s_spec;
int zep_k8s_submit(const struct zep_k8s_spec *spec, const char *rundir, int attempt, char *name_out, size_t size, struct zep_error *err);

/* The next attempt of a run that ended with exit_status, under a new name, from its checkpoint; the MPIJob before is deleted, its log kept. 1: made; 0: not, and said_out tells why. */
struct zep_run;
struct zep_live;
int zep_k8s_resubmit(const struct zep_run *run, const struct zep_live *live, char *said_out, size_t size, struct zep_error *err);
/* Finished MPIJobs of the user's runs in the record, which stay until someone deletes them: their logs are saved, then they go. dry_run: they are told only. */
int zep_k8s_prune(const char *context, const char *ns, int dry_run, struct zep_error *err);

#endif
