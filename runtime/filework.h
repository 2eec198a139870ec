/* File work of all ranks that may take long: a shard, a manifest, a file that shows up late. */
#ifndef ZEP_RUNTIME_FILEWORK_H
#define ZEP_RUNTIME_FILEWORK_H

#include <stdint.h>
#include "common/error.h"
#include "runtime/comm.h"

typedef int (*zep_filework_fn)(void *arg, struct zep_error *err);

/* Collective. Every rank runs its own fn(arg, err) on a thread beside the main one (fn NULL: nothing to do here), and all main threads tell each other a few times a second that they are there.
 * A slow file system is thus no lost rank, while a rank that is lost is noticed after the watchdog's time-out as ever. A rank whose fn is not done after limit_s says no more, and the
 * others' watchdog ends the job. fn must not use the ranks' communication. Returns what zep_agree makes of the fns' results; has waited for the own fn in any case. */
int zep_filework(struct zep_comm *comm, double limit_s, zep_filework_fn fn, void *arg, struct zep_error *err);

/* The same in two parts, with other work of the main threads between them (they show in their own ways that they are there). zep_filework_start and zep_filework_busy concern this rank alone;
 * busy: fn is not done yet (work NULL: 0). zep_filework_end is collective, waits for all as zep_filework does, and frees work (NULL: this rank has none); rc: what zep_filework_start returned here. */
struct zep_filework;
int zep_filework_start(double limit_s, zep_filework_fn fn, void *arg, struct zep_filework **work_out, struct zep_error *err);
int zep_filework_busy(struct zep_filework *work);
int zep_filework_end(struct zep_comm *comm, int rc, struct zep_filework *work, struct zep_error *err);
/* Not collective: waits for the own fn, and forgets what came of it. */
void zep_filework_abandon(struct zep_filework *work);

/* A limit for moving so many bytes: ten minutes (file systems come back from a fail-over in less), and a second for every 10 MB. */
double zep_filework_limit_s(int64_t bytes);

#endif
