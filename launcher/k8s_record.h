/* What the submitting side knows of a run on Kubernetes: k8s.json in its own run folder, "zeppelin-k8s/1.0". The run folder with checkpoints lies in the pods. */
#ifndef ZEP_LAUNCHER_K8S_RECORD_H
#define ZEP_LAUNCHER_K8S_RECORD_H

#include <stddef.h>
#include "common/error.h"

struct json_t;

int zep_k8s_record_read(const char *rundir, struct json_t **out, struct zep_error *err);
int zep_k8s_record_write(const char *rundir, const struct json_t *record, struct zep_error *err);
/* How the last attempt ended, whose MPIJob is deleted: afterwards the cluster does not know. */
struct zep_live;
int zep_k8s_record_end(const char *rundir, const struct zep_live *live, struct zep_error *err);
/* 1: it is known, and live_out says it. */
int zep_k8s_record_ended(const char *rundir, struct zep_live *live_out);
/* 1: there is one. */
int zep_k8s_record_exists(const char *rundir);

/* A run's first attempt: writes mpijob.json, creates it, keeps the record. An MPIJob of that name which is not this run's is ZEP_EREFUSED and stays as it is. name_out: "NAMESPACE/NAME". */
struct zep_k8s_spec;
int zep_k8s_submit(const struct zep_k8s_spec *spec, const char *rundir, int attempt, char *name_out, size_t size, struct zep_error *err);

struct zep_run;
/* Whether a further attempt of a run may be made: its record is here, and the one before has ended, or is not in the cluster any more (ZEP_EREFUSED). live: how it stands. */
int zep_k8s_may_go_on(const struct zep_run *run, const struct zep_live *live, struct zep_error *err);
/* The next attempt, under a new name, from the run's checkpoint; the MPIJob before is deleted, its log kept, its launcher waited for. made_out: "NAMESPACE/NAME". */
int zep_k8s_go_on(const struct zep_run *run, const struct zep_live *live, const struct zep_k8s_spec *spec, char *made_out, size_t size, struct zep_error *err);
/* The same by itself, where the run was stopped or lost. 1: made; 0: not, and said_out tells why. */
int zep_k8s_resubmit(const struct zep_run *run, const struct zep_live *live, char *said_out, size_t size, struct zep_error *err);
/* Finished MPIJobs of the user's runs in the record, which stay until someone deletes them: their logs are saved, then they go. dry_run: they are told only. */
int zep_k8s_prune(const char *context, const char *ns, int dry_run, struct zep_error *err);

#endif
