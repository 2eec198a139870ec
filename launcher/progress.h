/* A run's progress, read from metrics.jsonl as it grows. */
#ifndef ZEP_LAUNCHER_PROGRESS_H
#define ZEP_LAUNCHER_PROGRESS_H

#include <stddef.h>
#include "common/job.h"

struct zep_progress_reader;

/* attempt 0: all. NULL: out of memory. */
struct zep_progress_reader *zep_progress_open(const char *rundir, int attempt, const struct zep_job *job);
/* Takes what there is so far as seen. */
void zep_progress_skip(struct zep_progress_reader *p);
/* Shows what is new: a live line on a terminal, a plain line every log.every steps elsewhere. */
void zep_progress_read(struct zep_progress_reader *p);
/* Whether the ranks wrote anything in this attempt. */
int zep_progress_started(const struct zep_progress_reader *p);
/* The last finished step, and the last checkpoint of the run ("" none). */
int64_t zep_progress_last(const struct zep_progress_reader *p, char *checkpoint, size_t size);
void zep_progress_close(struct zep_progress_reader *p);

#endif
