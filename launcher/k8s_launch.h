/* In the launcher pod of an MPIJob: `zeppelin k8s launch RUN_DIR`. */
#ifndef ZEP_LAUNCHER_K8S_LAUNCH_H
#define ZEP_LAUNCHER_K8S_LAUNCH_H

#include "common/error.h"

/* Makes the run folder where it is not there yet, waits for the workers, orders the ranks, and runs `zeppelin run --resume` below itself: again after a rank's failure, if all workers are alive and a
 * checkpoint was made meanwhile, cluster.retries times. take_over: the attempt before has ended by the word of the API: its lock counts no more. exit_status_out: the run's. */
int zep_k8s_launch(const char *rundir, int take_over, int *exit_status_out, struct zep_error *err);

#endif
