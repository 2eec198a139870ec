/* Requests to stop. SIGUSR1 and SIGTERM are blocked in every thread of a rank and taken by a thread of our own: no handler ever runs on the stack of a thread that computes.
 * oneDNN's kernels for AVX-512 point the stack register into the heap while they run (seen with 2.6.3), where the frame of a handler, 3 kB and more, destroys what lies there. */
#ifndef ZEP_RUNTIME_STOP_H
#define ZEP_RUNTIME_STOP_H

#include "common/error.h"
#include "runtime/comm.h"

struct zep_stopper;

/* To be called before any other thread exists. From then on the rank also ends with the process that started it: it must not outlive that, for the run folder is given to the next attempt then. */
int zep_stopper_start(struct zep_stopper **out, struct zep_error *err);
/* Ends the thread and frees; the signals stay blocked. */
void zep_stopper_end(struct zep_stopper *stopper);
/* From now on SIGTERM also tells the phase of comm, on standard error: "zeppelin-rank-phase: PHASE". NULL before comm is freed. */
void zep_stopper_watch(struct zep_stopper *stopper, const struct zep_comm *comm);
unsigned zep_stopper_bits(const struct zep_stopper *stopper); /* enum zep_stop bits of all signals so far */

#endif
