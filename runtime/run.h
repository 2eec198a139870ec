/* A run of one rank: set-up from the run folder, the loop over steps, checkpoints, stopping, and how it ends (design, section 12). */
#ifndef ZEP_RUNTIME_RUN_H
#define ZEP_RUNTIME_RUN_H

#include <stdint.h>
#include "common/error.h"
#include "runtime/comm.h"
#include "runtime/stop.h"

struct zep_run_args {
    const char *rundir;
    int attempt;
    const char *lock; /* token of the launcher's lock, without which nothing is written into the folder; NULL: not asked for */
    const struct zep_stopper *stopper;
    double mpi_s;    /* from the program's begin until MPI was there, seconds */
    uint64_t inputs; /* digest of job.yaml and topology.yaml as the launcher wrote them (common/appear.h); 0: whatever is there */
};

struct zep_run_result {
    int64_t step;        /* finished steps */
    char checkpoint[64]; /* last good one of this attempt or the one resumed from; "" none */
};

/* ZEP_OK: trained to the last step. ZEP_ESTOPPED: stopped on request, checkpoint written. Collective. result is filled as far as it got. */
int zep_run(struct zep_comm *comm, const struct zep_run_args *args, struct zep_run_result *result, struct zep_error *err);

#endif
