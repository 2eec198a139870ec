/* How much memory this process may still take. */
#ifndef ZEP_COMMON_MEMORY_H
#define ZEP_COMMON_MEMORY_H

#include <stdint.h>

/* Bytes: what the kernel calls available on this machine, or less where the process's control group (version 2) or one above it has a limit; files that only lie in its cache count as
 * available. 0: not known. root: "" (tests: a folder that stands for /). */
int64_t zep_memory_available(const char *root);

#endif
