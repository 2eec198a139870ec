/* Collectives, all non-blocking underneath, so that waiting yields the processor and obeys the watchdog. Sums run in rank order: their bits do not depend on timing. */
#include "config.h"
#include "runtime/mpi_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

#define PIECE ((size_t)1 << 28) /* bytes of one broadcast; MPI counts are ints */

int zep_comm_barrier(struct zep_comm *comm, struct zep_error *err)
{
    MPI_Request req;

    MPI_TRY(MPI_Ibarrier(comm->all, &req), "barrier");
    return zep_mpi_wait(comm, &req, 1, "barrier", err);
}

int zep_comm_bcast(struct zep_comm *comm, int root, void *data, size_t bytes, struct zep_error *err)
{
    char *p = data;
    int rc;

    while (bytes > 0) {
        size_t n = bytes < PIECE ? bytes : PIECE;
        MPI_Request req;

        MPI_TRY(MPI_Ibcast(p, (int)n, MPI_BYTE, root, comm->all, &req), "broadcast");
        if ((rc = zep_mpi_wait(comm, &req, 1, "broadcast", err)) < 0)
            return rc;
        p += n;
        bytes -= n;
    }
    return ZEP_OK;
}

int zep_comm_bcast_blob(struct zep_comm *comm, int root, void **data, size_t *bytes, struct zep_error *err)
{
    uint64_t n = *bytes;
    int rc;

    if ((rc = zep_comm_bcast(comm, root, &n, sizeof n, err)) < 0)
        return rc;
    if (comm->rank != root) {
        char *p = zep_calloc((size_t)n + 1, 1); /* text stays terminated */

        if (!p)
            return zep_error_nomem(err, "broadcast");
        *data = p;
        *bytes = (size_t)n;
    }
    return zep_comm_bcast(comm, root, *data, (size_t)n, err);
}

/* Everyone gets everyone's bytes, in rank order; from the scratch buffer, valid until the next call. */
static int share(struct zep_comm *comm, const void *mine, size_t bytes, const char **all_out, const char *what, struct zep_error *err)
{
    size_t need = (bytes * (size_t)comm->size + sizeof(float) - 1) / sizeof(float);
    MPI_Request req;
    int rc;

    if (comm->scratch_len < need) {
        float *p = zep_reallocarray(comm->scratch, need, sizeof *p);

        if (!p)
            return zep_error_nomem(err, what);
        comm->scratch = p;
        comm->scratch_len = need;
    }
    MPI_TRY(MPI_Iallgather(mine, (int)bytes, MPI_BYTE, comm->scratch, (int)bytes, MPI_BYTE, comm->all, &req), what);
    if ((rc = zep_mpi_wait(comm, &req, 1, what, err)) < 0)
        return rc;
    *all_out = (const char *)comm->scratch;
    return ZEP_OK;
}

static int combine_f64(struct zep_comm *comm, double *x, int n, int max, struct zep_error *err)
{
    const char *all = NULL;
    int rc;

    if ((rc = share(comm, x, (size_t)n * sizeof *x, &all, max ? "maximum" : "sum", err)) < 0)
        return rc;
    for (int i = 0; i < n; i++) {
        double acc = 0, v;

        for (int r = 0; r < comm->size; r++) {
            memcpy(&v, all + ((size_t)r * (size_t)n + (size_t)i) * sizeof v, sizeof v);
            acc = r == 0 ? v : max ? (v > acc ? v : acc) : acc + v;
        }
        x[i] = acc;
    }
    return ZEP_OK;
}

int zep_comm_sum_f64(struct zep_comm *comm, double *x, int n, struct zep_error *err)
{
    return combine_f64(comm, x, n, 0, err);
}

int zep_comm_max_f64(struct zep_comm *comm, double *x, int n, struct zep_error *err)
{
    return combine_f64(comm, x, n, 1, err);
}

int zep_comm_or_u32(struct zep_comm *comm, uint32_t *x, int n, struct zep_error *err)
{
    MPI_Request req;

    MPI_TRY(MPI_Iallreduce(MPI_IN_PLACE, x, n, MPI_UINT32_T, MPI_BOR, comm->all, &req), "agreement");
    return zep_mpi_wait(comm, &req, 1, "agreement", err);
}

int zep_comm_gather(struct zep_comm *comm, int root, const void *mine, size_t bytes, void *all, struct zep_error *err)
{
    MPI_Request req;

    if (bytes > INT_MAX)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "gather of %zu bytes a rank", bytes);
    MPI_TRY(MPI_Igather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, root, comm->all, &req), "gather");
    return zep_mpi_wait(comm, &req, 1, "gather", err);
}

static int too_long(int64_t n, struct zep_error *err)
{
    return zep_error_set(err, ZEP_EUNSUPPORTED, "a shard of %lld values: expected at most %d", (long long)n, INT_MAX);
}

/* Pairwise: everyone sends each other rank its part of the shard, and adds what it gets in rank order. */
int zep_comm_reduce_scatter(struct zep_comm *comm, float *x, const int64_t *first, struct zep_error *err)
{
    int me = comm->dev, size = comm->size / comm->tp, n_req = 0, rc;
    int64_t n = first[me + 1] - first[me];
    size_t need = (size_t)n * (size_t)size;

    if (size == 1)
        return ZEP_OK;
    if (comm->scratch_len < need) {
        float *p = zep_reallocarray(comm->scratch, need, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "gradient exchange");
        comm->scratch = p;
        comm->scratch_len = need;
    }
    if (comm->n_request < 2 * (size_t)size) {
        MPI_Request *p = zep_reallocarray(comm->request, 2 * (size_t)size, sizeof *p);

        if (!p)
            return zep_error_nomem(err, "gradient exchange");
        comm->request = p;
        comm->n_request = 2 * (size_t)size;
    }
    for (int s = 1; s < size; s++) {
        int from = (me + size - s) % size, to = (me + s) % size;
        int64_t m = first[to + 1] - first[to];

        if (n > INT_MAX || m > INT_MAX)
            return too_long(n > m ? n : m, err);
        MPI_TRY(MPI_Irecv(comm->scratch + (size_t)from * (size_t)n, (int)n, MPI_FLOAT, from, 1, comm->dp, &comm->request[n_req]), "gradient exchange");
        n_req++;
        MPI_TRY(MPI_Isend(x + first[to], (int)m, MPI_FLOAT, to, 1, comm->dp, &comm->request[n_req]), "gradient exchange");
        n_req++;
    }
    if ((rc = zep_mpi_wait(comm, comm->request, n_req, "gradient exchange", err)) < 0)
        return rc;
    memcpy(comm->scratch + (size_t)me * (size_t)n, x + first[me], (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        float acc = comm->scratch[i];

        for (int r = 1; r < size; r++)
            acc += comm->scratch[(size_t)r * (size_t)n + (size_t)i];
        x[first[me] + i] = acc;
    }
    return ZEP_OK;
}

int zep_comm_allgather(struct zep_comm *comm, float *x, const int64_t *first, struct zep_error *err)
{
    int size = comm->size / comm->tp, rc;
    int *count = zep_calloc(2 * (size_t)size, sizeof *count), *at = count ? count + size : NULL;
    MPI_Request req;

    if (!count)
        return zep_error_nomem(err, "weights");
    for (int r = 0; r < size; r++) {
        if (first[r + 1] > INT_MAX) {
            free(count);
            return too_long(first[r + 1], err);
        }
        count[r] = (int)(first[r + 1] - first[r]);
        at[r] = (int)first[r];
    }
    rc = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, count, at, MPI_FLOAT, comm->dp, &req);
    rc = rc == MPI_SUCCESS ? zep_mpi_wait(comm, &req, 1, "weights", err) : zep_mpi_error(rc, "weights", err);
    free(count);
    return rc;
}
