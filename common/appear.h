/* Files that another node has just written: a network file system may show them late, or show those before them for a while. */
#ifndef ZEP_COMMON_APPEAR_H
#define ZEP_COMMON_APPEAR_H

#include <stdint.h>
#include "common/error.h"

#define ZEP_APPEAR_S 60.0 /* what NFS by default keeps of a folder, at most */

/* Waits until there is a file or folder of that name. ZEP_EIO: not within time_s. */
int zep_appear(const char *path, double time_s, struct zep_error *err);
/* What a run folder tells its ranks: digest of job.yaml and topology.yaml. */
int zep_appear_digest(const char *rundir, uint64_t *digest_out, struct zep_error *err);
/* Waits until they are what the launcher wrote. */
int zep_appear_inputs(const char *rundir, uint64_t digest, double time_s, struct zep_error *err);

#endif
