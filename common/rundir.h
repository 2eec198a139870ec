/* The run folder (design, section 12): run.json, job.yaml, topology.yaml, metrics.jsonl, log, plans/, checkpoints/, report/, lock, outcome.json. */
#ifndef ZEP_COMMON_RUNDIR_H
#define ZEP_COMMON_RUNDIR_H

#include <stdint.h>
#include "common/error.h"

/* ROOT/NAME-ID (time and random), with its subfolders; *path_out goes to free(). */
int zep_rundir_create(const char *root, const char *name, char **path_out, struct zep_error *err);
/* An id as the folders of runs have it: NAME-DATE-TIME-RANDOM. */
#define ZEP_RUN_ID_BUF 128
void zep_rundir_id(const char *name, char id_out[ZEP_RUN_ID_BUF]);
/* The folder PATH with its subfolders; ZEP_EREFUSED: it is there. */
int zep_rundir_make(const char *path, struct zep_error *err);
/* A run folder must hold run.json and job.yaml: else an error that says what is missing. */
int zep_rundir_check(const char *path, struct zep_error *err);

struct zep_lock;
/* Takes PATH/lock (O_EXCL) with token, host, boot id, pid, job id, cluster and restart count; takes over only as design section 12 says, or with break_lock. A held lock is ZEP_EREFUSED and names its holder. */
int zep_lock_take(const char *rundir, int break_lock, struct zep_lock **lock_out, struct zep_error *err);
/* Reads the token again: ZEP_EREFUSED if it is no longer ours. Call before each commit. */
int zep_lock_confirm(struct zep_lock *lock, struct zep_error *err);
/* The same for a process that was told the token of its launcher's lock. */
int zep_lock_confirm_token(const char *rundir, const char *token, struct zep_error *err);
const char *zep_lock_token(const struct zep_lock *lock);
void zep_lock_release(struct zep_lock *lock); /* removes the file if it is ours, frees */

struct zep_lock_holder { /* who holds a lock, as its file says */
    char host[256], job[64], cluster[64];
    long pid;
    int alive; /* 1: the process lives on this machine; 0: it is gone; -1: cannot be seen from here */
};
/* A look at PATH/lock: 1 held, 0 not, negative: cannot be read. */
int zep_lock_look(const char *rundir, struct zep_lock_holder *out, struct zep_error *err);

struct zep_outcome { /* outcome.json "zeppelin-outcome/1.1" */
    int attempt;        /* from 1 */
    int status;         /* enum zep_status */
    int64_t step;       /* finished steps */
    int rank;           /* that wrote it, -1 none */
    char phase[32];     /* what it was doing: "planning", "forward", ... */
    char cause[1024];
    char checkpoint[256]; /* folder name under checkpoints/, "" none */
    char host[128];     /* where a rank was lost, "" not known */
};
/* Only if none is there for this attempt: several ranks may know of a failure. */
int zep_outcome_write_first(const char *rundir, const struct zep_outcome *o, struct zep_error *err);
/* The holder of the lock knows better, now that all ranks have ended. */
int zep_outcome_amend(const char *rundir, const struct zep_outcome *o, struct zep_error *err);
int zep_outcome_read(const char *rundir, struct zep_outcome *out, struct zep_error *err);

#endif
