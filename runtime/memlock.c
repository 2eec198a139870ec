#include "config.h"
#include "runtime/memlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CAP_IPC_LOCK_BIT (1ull << 14) /* linux/capability.h */

/* The limit does not bind who has the capability. */
static int may_lock(void)
{
    unsigned long long caps = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "CapEff: %llx", &caps) == 1)
            break;
    if (f)
        fclose(f);
    return (caps & CAP_IPC_LOCK_BIT) != 0;
}

int zep_memlock_check(const struct zep_job *job, struct zep_error *err)
{
    struct rlimit lim;
    char host[128] = "";

    if (!*job->cluster.rdma || getrlimit(RLIMIT_MEMLOCK, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY || may_lock())
        return ZEP_OK;
    gethostname(host, sizeof host - 1);
    return zep_error_set(err, ZEP_EUNAVAIL,
                         "a rank on %s may lock %llu KiB of memory only (RLIMIT_MEMLOCK), and cluster.rdma (%s) needs what it sends locked: expected unlimited. The administrator raises LimitMEMLOCK of the container "
                         "runtime; or cluster.root: true gives pods IPC_LOCK, where the namespace allows it",
                         host, (unsigned long long)(lim.rlim_cur / 1024), job->cluster.rdma);
}
