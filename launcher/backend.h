/* Where runs live once they were started: on a machine, on a Slurm cluster, on Kubernetes. A backend is one const struct of functions in one file, listed in backend.c; the verbs status, logs, cancel
 * and wait speak to runs through it. What a run folder says is the same for all of them (launcher/glance.h). */
#ifndef ZEP_LAUNCHER_BACKEND_H
#define ZEP_LAUNCHER_BACKEND_H

#include "common/error.h"
#include "common/rundir.h"
#include "launcher/runfolder.h"

#define ZEP_ASK_EVERY_S 15.0 /* a controller is asked so often at most */
#define ZEP_EXIT_CANCELLED (128 + 15)

enum zep_life {
    ZEP_LIFE_UNKNOWN = 0, /* no answer: why says it */
    ZEP_LIFE_WAITING,
    ZEP_LIFE_RUNNING,
    ZEP_LIFE_ENDING,
    ZEP_LIFE_ENDED,
    ZEP_LIFE_FORGOTTEN,   /* the controller does not know it (any more): the run folder says the rest */
};

struct zep_backend;

struct zep_run {
    char *word;             /* as the user named it */
    char *dir;              /* absolute path of the run folder; NULL: none is known here (a job that is not of this tool, or of another user) */
    struct zep_runinfo info; /* where there is a folder */
    const struct zep_backend *backend;
    char cluster[128];      /* Slurm's cluster or Kubernetes' context, "" the default one */
    int batch;              /* it was handed to a queue (else: started by zeppelin run) */
    int n_job;              /* its jobs in the order of submission, in the backend's own form: "123", "123_4" (Slurm), "namespace/name" (Kubernetes) */
    char **job;
};

/* What the backend says of a run. */
struct zep_live {
    enum zep_life life;
    char job[128];          /* of several jobs the one that counts: it runs, else waits, else is the last one */
    char word[32];          /* the backend's own word for the state */
    char why[512];          /* in plain words: why it waits, how it ended; "" nothing to say */
    char where[512];        /* nodes, or a host */
    char user[64];          /* whose it is, "" not known */
    double submitted, start, end; /* seconds since the epoch, 0 not known; start: of what waits the controller's estimate; end: when its time is over, or was */
    int exit_status;        /* what an ended run that left no outcome ends with; -1 not known */
    int told;               /* of what has ended: the backend knows how (exit_status, why), also without an outcome in the folder */
    int has_step;           /* step is known: to which the last attempt came, by the backend's word */
    int64_t step;
};

struct zep_backend {
    const char *name; /* as in run.json */
    /* A run folder is looked at (run->dir and run->info are set): 1 it is ours and cluster, batch and jobs were filled in; 0 it is not; negative: an error. */
    int (*claim)(struct zep_run *run, struct zep_error *err);
    /* A word that is no run folder and in no index: 1 it is one of ours, and the run was filled in (dir too, if it can be found out); 0 it is not; negative: an error. NULL: never. */
    int (*find)(const char *word, struct zep_run *run, struct zep_error *err);
    /* For n runs of this backend, with as few questions to its controller as possible. fresh: an answer that was kept from before will not do. That there is no answer is no error, but ZEP_LIFE_UNKNOWN. */
    int (*status)(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err);
    /* Whether status must ask a controller now. NULL: never. */
    int (*asks)(const struct zep_run *run);
    /* Writes the log to standard output; follow: until the run ends. NULL: it is in the run folder. */
    int (*logs)(const struct zep_run *run, int follow, struct zep_error *err);
    /* Asks the run to stop with a checkpoint, or removes what waits; now: without the checkpoint. said_out: what was done, for the user. ZEP_EREFUSED: not the user's. */
    int (*cancel)(const struct zep_run *run, int now, char *said_out, size_t size, struct zep_error *err);
    /* Returns when the run has ended. NULL: status is asked until it has (zep_run_wait). */
    int (*wait)(const struct zep_run *run, struct zep_live *live_out, struct zep_error *err);
};

extern const struct zep_backend zep_backend_local, zep_backend_slurm, zep_backend_k8s;

/* Ends with NULL. */
const struct zep_backend *const *zep_backends(void);
/* JOB on the command line: a run folder, a run's id, [cluster:]jobid. */
int zep_run_open(const char *word, struct zep_run **run_out, struct zep_error *err);
/* A run of a folder that is known. */
int zep_run_open_dir(const char *dir, struct zep_run **run_out, struct zep_error *err);
void zep_run_free(struct zep_run *run);
int zep_run_add_job(struct zep_run *run, const char *job);
/* The runs of a list by all their backends: live_out[n]. */
int zep_runs_status(const struct zep_run *const *run, int n, int fresh, struct zep_live *live_out, struct zep_error *err);
/* Whether the last attempt left an outcome. */
int zep_run_outcome(const struct zep_run *run, struct zep_outcome *out);
/* Whether the run is done, whatever its jobs still do: its outcome says so, and no further job was submitted for it since. */
int zep_run_is_done(const struct zep_run *run);
/* The exit status of a run that has ended: from its outcome, else from what the backend says. cause: what a person is told, "" nothing. */
int zep_run_exit_status(const struct zep_run *run, const struct zep_live *live, char *cause, size_t size);

/* A run that is watched to its end; controllers are asked every 15 s at most. */
struct zep_watch {
    const struct zep_run *run;
    struct zep_live live; /* as last told */
    double asked;         /* 0 never */
    int n_silent;         /* questions without an answer, one after the other */
};
/* 1 it has ended, 0 not yet, negative: an error. To be called about once a second. */
int zep_watch_ended(struct zep_watch *w, struct zep_error *err);

/* The same, with what the backend said at last. */
int zep_run_wait_live(const struct zep_run *run, int all, struct zep_live *live_out, int *exit_status_out, struct zep_error *err);
/* Waits for the end, showing changes and progress from now on (all: from the beginning). exit_status_out: the run's. */
int zep_run_wait(const struct zep_run *run, int all, int *exit_status_out, struct zep_error *err);
/* Its log to standard output; ranks: what mpirun or srun and the ranks wrote only. */
int zep_run_logs(const struct zep_run *run, int follow, int ranks, struct zep_error *err);

#endif
