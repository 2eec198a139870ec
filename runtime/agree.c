#include "config.h"
#include "runtime/agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/buf.h"

struct report {
    int32_t code;
    char text[1020];
};

/* The first failure in rank order becomes everyone's; found on rank 0, sent to all. */
static int share_failure(struct zep_comm *comm, int rc, struct zep_error *err)
{
    int size = zep_comm_size(comm), rank = zep_comm_rank(comm), got;
    struct report mine = {rc, ""}, first = {ZEP_EINTERNAL, "an error without text"}, *all = NULL;
    struct zep_error local = {0};

    if (rc < 0)
        snprintf(mine.text, sizeof mine.text, "rank %d: %.900s", rank, err->text);
    if (rank == 0 && !(all = zep_calloc((size_t)size, sizeof *all)))
        return zep_error_nomem(err, "error reports");
    got = zep_comm_gather(comm, 0, &mine, sizeof mine, all, &local);
    for (int i = 0; got == ZEP_OK && all && i < size; i++) {
        if (all[i].code < 0) {
            first = all[i];
            break;
        }
    }
    free(all);
    if (got < 0 || (got = zep_comm_bcast(comm, 0, &first, sizeof first, &local)) < 0)
        return zep_error_set(err, local.code, "%s", rc < 0 ? mine.text : local.text);
    return zep_error_set(err, (enum zep_status)first.code, "%s", first.text);
}

int zep_agree(struct zep_comm *comm, int rc, struct zep_error *err)
{
    uint32_t failed = rc < 0;
    struct zep_error local = {0};
    int got;

    if ((got = zep_comm_or_u32(comm, &failed, 1, &local)) < 0)
        return rc < 0 ? rc : zep_error_set(err, local.code, "%s", local.text);
    return failed ? share_failure(comm, rc, err) : ZEP_OK;
}

static int name_differences(struct zep_comm *comm, uint64_t value, const char *what, struct zep_error *err)
{
    int size = zep_comm_size(comm), rank = zep_comm_rank(comm), rc, shown = 0;
    uint64_t *all = rank == 0 ? zep_calloc((size_t)size, sizeof *all) : NULL;
    struct zep_buf ranks = ZEP_BUF_INIT;

    if ((rc = zep_comm_gather(comm, 0, &value, sizeof value, all, err)) < 0) {
        free(all);
        return rc;
    }
    rc = ZEP_OK;
    if (rank == 0) {
        for (int i = 1; i < size; i++)
            if (all[i] != value && shown++ < 16)
                zep_buf_printf(&ranks, " %d (%016" PRIx64 ")", i, all[i]);
        rc = zep_error_set(err, ZEP_EREFUSED, "%s differs from rank 0's %016" PRIx64 " on %d ranks:%s%s", what, value, shown,
                           ranks.data ? ranks.data : "", shown > 16 ? " ..." : "");
        zep_buf_free(&ranks);
    }
    free(all);
    return share_failure(comm, rc, err);
}

int zep_agree_value(struct zep_comm *comm, uint64_t value, const char *what, struct zep_error *err)
{
    /* a bit that is set somewhere and clear somewhere else shows in both words */
    uint32_t bits[4] = {(uint32_t)value, (uint32_t)(value >> 32), (uint32_t)~value, (uint32_t)(~value >> 32)};
    int rc;

    if ((rc = zep_comm_or_u32(comm, bits, 4, err)) < 0)
        return rc;
    if ((bits[0] & bits[2]) || (bits[1] & bits[3]))
        return name_differences(comm, value, what, err);
    return ZEP_OK;
}

int zep_agreed_rank(const struct zep_error *err)
{
    int rank, len = 0;

    if (sscanf(err->text, "rank %d: %n", &rank, &len) != 1 || len == 0)
        return -1;
    return rank;
}
