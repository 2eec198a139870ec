/* The process's log: the only mutable global. Lines go to stderr (or a file), one write each, `zeppelin: LEVEL: text`. */
#ifndef ZEP_COMMON_LOG_H
#define ZEP_COMMON_LOG_H

#include "common/error.h"

enum zep_log_level { ZEP_LOG_ERROR = 1, ZEP_LOG_WARN, ZEP_LOG_INFO, ZEP_LOG_DEBUG };

/* tag: program name shown in front ("zeppelin", "zeppelin-rank 3"); copied. Default level: info. */
void zep_log_init(const char *tag, enum zep_log_level level);
void zep_log_set_fd(int fd);
/* Lines go there, too, and those of zep_progress_line that are milestones; -1: no more. */
void zep_log_copy(int fd);
void zep_log(enum zep_log_level level, const char *fmt, ...) ZEP_PRINTF(2, 3);

/* A live line for long operations: on a terminal it is rewritten in place (at most 10 times a second), elsewhere each call whose
 * `milestone` is true prints one plain line and others print nothing. */
void zep_progress_line(int milestone, const char *fmt, ...) ZEP_PRINTF(2, 3);
void zep_progress_end(void);

#endif
