/* Programs by argument vector, never through a shell, with a time limit. */
#ifndef ZEP_COMMON_PROCESS_H
#define ZEP_COMMON_PROCESS_H

#include <stddef.h>
#include "common/error.h"

struct zep_process_result {
    char *out; /* standard output, NUL-terminated; free with zep_process_result_free */
    size_t out_len;
    char *err; /* standard error */
    size_t err_len;
    int status; /* exit status, or 128 + signal */
    int timed_out;
};

/* Runs argv (argv[0] through PATH) with stdin from /dev/null in its own process group. After time_s seconds the group is killed and timed_out set.
 * A program that cannot be started is ZEP_EUNAVAIL; any exit status, signal or time-out is ZEP_OK with the fields set. Output above 256 MiB is an error. */
int zep_process_run(char *const argv[], double time_s, struct zep_process_result *out, struct zep_error *err);
/* The same, without the environment variables whose names begin like one of without (NULL-terminated). */
int zep_process_run_without(char *const argv[], const char *const *without, double time_s, struct zep_process_result *out, struct zep_error *err);
void zep_process_result_free(struct zep_process_result *r);
/* argv as one line that a person can paste into a shell (quoted where needed). free(). */
char *zep_process_show(char *const argv[]);

#endif
