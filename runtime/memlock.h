/* RDMA registers what it sends: it has to be locked in memory. */
#ifndef ZEP_RUNTIME_MEMLOCK_H
#define ZEP_RUNTIME_MEMLOCK_H

#include "common/error.h"
#include "common/job.h"

/* Where the job asks for RDMA (cluster.rdma): may this process lock as much as it likes? ZEP_EUNAVAIL names the remedy. */
int zep_memlock_check(const struct zep_job *job, struct zep_error *err);

#endif
