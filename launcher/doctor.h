/* zeppelin doctor: what is wrong with a node, an allocation, a cluster or a job, and what to do. */
#ifndef ZEP_LAUNCHER_DOCTOR_H
#define ZEP_LAUNCHER_DOCTOR_H

#include "common/buf.h"
#include "common/error.h"
#include "common/job.h"
#include "topology/topo.h"

enum zep_finding_level { ZEP_FINDING_NONE = 0, ZEP_FINDING_OK, ZEP_FINDING_SKIPPED, ZEP_FINDING_WARNING, ZEP_FINDING_ERROR };

struct zep_finding {
    enum zep_finding_level level;
    const char *check; /* name of the check */
    char *text;        /* what is so */
    const char *todo;  /* what to do, or NULL */
};

struct zep_doctor {
    const struct zep_topo *topo;    /* of the nodes that are looked at */
    const struct zep_topo *cluster; /* all nodes, or NULL */
    const struct zep_job *job;      /* or NULL */
    int in_job;                     /* inside a Slurm allocation */
    const char *(*env)(const char *name); /* the environment; another one in tests */
    int n, cap, failed;
    struct zep_finding *finding;
};

/* All checks in their order. */
void zep_doctor_run(struct zep_doctor *d);
/* Those that start programs (srun, mpirun): only where ranks can be started. */
void zep_doctor_run_launcher(struct zep_doctor *d);
void zep_doctor_say(struct zep_doctor *d, enum zep_finding_level level, const char *check, const char *todo, const char *fmt, ...) ZEP_PRINTF(5, 6);
int zep_doctor_count(const struct zep_doctor *d, enum zep_finding_level level);
int zep_doctor_to_text(const struct zep_doctor *d, struct zep_buf *b, struct zep_error *err);
int zep_doctor_to_json(const struct zep_doctor *d, struct zep_buf *b, struct zep_error *err); /* zeppelin-doctor/1.0 */
void zep_doctor_free(struct zep_doctor *d);

#endif
