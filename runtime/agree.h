/* All ranks learn of an error that one of them met, so that they take the same way on. */
#ifndef ZEP_RUNTIME_AGREE_H
#define ZEP_RUNTIME_AGREE_H

#include <stdint.h>
#include "common/error.h"
#include "runtime/comm.h"

/* Collective. rc, err: what this rank has. Returns ZEP_OK on all ranks when all have that, else on all ranks the code and text of the lowest rank that failed, "rank R: " in front. */
int zep_agree(struct zep_comm *comm, int rc, struct zep_error *err);
/* Collective: is value the same everywhere? A difference is ZEP_EREFUSED on all ranks and names the ranks that differ from rank 0. what: "plan digest". */
int zep_agree_value(struct zep_comm *comm, uint64_t value, const char *what, struct zep_error *err);
/* The rank named by an error that zep_agree gave to all ranks ("rank R: ..."), -1 for an error that only this rank has. */
int zep_agreed_rank(const struct zep_error *err);

#endif
