#include "config.h"
#include "runtime/mpi_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"

#define YIELDS 200 /* before waiting sleeps */

int zep_mpi_error(int code, const char *what, struct zep_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    MPI_Error_string(code, text, &len);
    return zep_error_set(err, ZEP_EPEER, "%s: MPI: %s", what, text);
}

static int env_int(const char *name)
{
    const char *s = getenv(name);

    return s ? atoi(s) : 0;
}

/* N jobs of one rank look like N runs of one rank each; the launcher's own count tells them apart. */
static int check_size(int size, int expect, struct zep_error *err)
{
    int told = env_int("OMPI_COMM_WORLD_SIZE");

    if (!told)
        told = env_int("SLURM_STEP_NUM_TASKS");
    if (!expect && told > 1 && size == 1)
        expect = told;
    if (!expect || size == expect)
        return ZEP_OK;
    if (size == 1)
        return zep_error_set(err, ZEP_EUNAVAIL, "started as %d jobs of one rank instead of one job of %d: MPI did not find its launcher (srun needs a --mpi type that this MPI speaks; "
                             "cluster.launcher: mpirun avoids srun)", expect, expect);
    return zep_error_set(err, ZEP_EUNAVAIL, "started as a job of %d ranks, expected %d", size, expect);
}

int zep_comm_start(int *argc, char ***argv, int expect, struct zep_comm **comm_out, struct zep_error *err)
{
    struct zep_comm *comm;
    int provided, rc;

    MPI_TRY(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "start");
    if (!(comm = zep_calloc(1, sizeof *comm))) {
        MPI_Finalize();
        return zep_error_nomem(err, "communication");
    }
    comm->all = MPI_COMM_WORLD;
    comm->lane[ZEP_LANE_WORLD] = comm->lane[ZEP_LANE_NODE] = comm->lane[ZEP_LANE_GRID] = comm->dp = comm->tensor = MPI_COMM_NULL;
    comm->phase = "start-up";
    comm->tp = 1;
    comm->last_busy = zep_clock_now();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm->all, &comm->rank);
    MPI_Comm_size(comm->all, &comm->size);
    if ((rc = check_size(comm->size, expect, err)) < 0) {
        MPI_Finalize();
        free(comm);
        return rc;
    }
    *comm_out = comm;
    return ZEP_OK;
}

static void free_comm(MPI_Comm *c)
{
    if (*c != MPI_COMM_NULL && *c != MPI_COMM_WORLD)
        MPI_Comm_free(c);
}

void zep_comm_finish(struct zep_comm *comm)
{
    if (!comm)
        return;
    for (int l = 0; l < ZEP_N_LANE; l++) {
        free_comm(&comm->lane[l]);
        free(comm->tag_to[l]);
        free(comm->tag_from[l]);
    }
    free_comm(&comm->dp);
    free_comm(&comm->tensor);
    free_comm(&comm->all);
    free(comm->host);
    free(comm->host_ptr);
    free(comm->scratch);
    free(comm->request);
    free(comm);
    MPI_Finalize();
}

void zep_comm_abort(struct zep_comm *comm, int status)
{
    (void)comm;
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
}

/* --- places --- */

/* The place of every original rank: the ranks of a node, in their own order, take the node's devices in turn. */
static int find_place(const struct zep_comm *comm, int n_dev, int tp, const int32_t *dev_node, const int32_t *host_node, int *place_out, struct zep_error *err)
{
    int n_node = n_dev ? dev_node[n_dev - 1] + 1 : 0, before = 0, place = 0;

    if (comm->size != n_dev * tp)
        return zep_error_set(err, ZEP_EINVAL, "%d ranks for %d devices of %d ranks each", comm->size, n_dev, tp);
    *place_out = comm->rank;
    if (!host_node)
        return ZEP_OK;
    for (int node = 0; node < n_node; node++) {
        int want = 0, have = 0;

        for (int d = 0; d < n_dev; d++)
            want += dev_node[d] == node ? tp : 0;
        for (int r = 0; r < comm->size; r++)
            have += host_node[r] == node;
        if (have != want)
            return zep_error_set(err, ZEP_EINVAL, "%d ranks run on node %d of the topology, which has %d devices of %d ranks", have, node, want / tp, tp);
        if (node < host_node[comm->rank])
            place += want;
    }
    for (int r = 0; r < comm->rank; r++)
        before += host_node[r] == host_node[comm->rank];
    *place_out = place + before;
    return ZEP_OK;
}

static int alloc_tags(struct zep_comm *comm, struct zep_error *err)
{
    for (int l = 0; l < ZEP_N_LANE; l++) {
        comm->tag_to[l] = zep_calloc((size_t)comm->size, sizeof(uint32_t));
        comm->tag_from[l] = zep_calloc((size_t)comm->size, sizeof(uint32_t));
        if (!comm->tag_to[l] || !comm->tag_from[l])
            return zep_error_nomem(err, "communication");
    }
    return ZEP_OK;
}

int zep_comm_arrange(struct zep_comm *comm, int n_dev, int tp, const int32_t *dev_node, const int32_t *host_node, struct zep_error *err)
{
    int place = 0, rc, node;

    if (comm->arranged)
        return zep_error_set(err, ZEP_EINTERNAL, "ranks take their places once");
    if ((rc = find_place(comm, n_dev, tp, dev_node, host_node, &place, err)) < 0)
        return rc;
    MPI_TRY(MPI_Comm_split(MPI_COMM_WORLD, 0, place, &comm->all), "communicator");
    MPI_Comm_rank(comm->all, &comm->rank);
    comm->tp = tp;
    comm->n_dev = n_dev;
    comm->dev = comm->rank / tp;
    comm->t = comm->rank % tp;
    node = dev_node[comm->dev];
    comm->node_first = -1;
    for (int d = 0; d < n_dev; d++)
        if (dev_node[d] == node) {
            comm->node_first = comm->node_first < 0 ? d * tp : comm->node_first;
            comm->node_size += tp;
        }
    MPI_TRY(MPI_Comm_dup(comm->all, &comm->lane[ZEP_LANE_WORLD]), "communicator");
    MPI_TRY(MPI_Comm_split(comm->all, node, comm->rank, &comm->lane[ZEP_LANE_NODE]), "node communicator");
    MPI_TRY(MPI_Comm_dup(comm->lane[ZEP_LANE_NODE], &comm->lane[ZEP_LANE_GRID]), "node communicator");
    MPI_TRY(MPI_Comm_split(comm->all, comm->t, comm->dev, &comm->dp), "data-parallel communicator");
    MPI_TRY(MPI_Comm_split(comm->all, comm->dev, comm->t, &comm->tensor), "tensor communicator");
    comm->arranged = 1;
    return alloc_tags(comm, err);
}

int zep_comm_rank(const struct zep_comm *comm)
{
    return comm->rank;
}

int zep_comm_size(const struct zep_comm *comm)
{
    return comm->size;
}

int zep_comm_dev(const struct zep_comm *comm)
{
    return comm->dev;
}

int zep_comm_t(const struct zep_comm *comm)
{
    return comm->t;
}

int zep_comm_rank_of(const struct zep_comm *comm, int dev, int t)
{
    return dev * comm->tp + t;
}

int zep_comm_hosts(struct zep_comm *comm, const char *const **hosts_out, struct zep_error *err)
{
    const char *slurm = getenv("SLURMD_NODENAME"); /* the controller's name of the node, where there is one */
    char mine[256] = "";
    MPI_Request req;
    int rc;

    if (!comm->host) {
        comm->host = zep_calloc((size_t)comm->size, sizeof *comm->host);
        comm->host_ptr = zep_calloc((size_t)comm->size, sizeof *comm->host_ptr);
        if (!comm->host || !comm->host_ptr)
            return zep_error_nomem(err, "host names");
        if (slurm && *slurm)
            snprintf(mine, sizeof mine, "%s", slurm);
        else
            gethostname(mine, sizeof mine - 1);
        MPI_TRY(MPI_Iallgather(mine, sizeof mine, MPI_BYTE, comm->host, sizeof mine, MPI_BYTE, comm->all, &req), "host names");
        if ((rc = zep_mpi_wait(comm, &req, 1, "host names", err)) < 0)
            return rc;
        for (int i = 0; i < comm->size; i++)
            comm->host_ptr[i] = comm->host[i];
    }
    *hosts_out = comm->host_ptr;
    return ZEP_OK;
}

/* --- waiting --- */

void zep_comm_set_timeout(struct zep_comm *comm, double timeout_s)
{
    comm->timeout_s = timeout_s;
}

/* It is the main thread's name, too: ps and top show what a rank does. */
void zep_comm_set_phase(struct zep_comm *comm, const char *phase)
{
    char name[16];

    comm->phase = phase;
    snprintf(name, sizeof name, "zep:%s", phase);
    for (char *p = name; *p; p++) /* Slurm's proctrack/linuxproc loses processes with a blank in their name, and scancel does not end them */
        *p = *p == ' ' ? '-' : *p;
    prctl(PR_SET_NAME, name);
}

const char *zep_comm_phase(const struct zep_comm *comm)
{
    return comm->phase;
}

void zep_comm_busy(struct zep_comm *comm)
{
    comm->n_idle = 0;
    comm->last_busy = zep_clock_now();
}

/* The ranks whose transfers are open, up to a few. */
static void name_peers(const struct zep_comm *comm, struct zep_buf *b)
{
    int shown = 0;

    for (const struct zep_group *g = comm->flying; g; g = g->next)
        for (int i = 0; i < g->n; i++) {
            if (g->request[i] == MPI_REQUEST_NULL)
                continue;
            if (shown++ < 8)
                zep_buf_printf(b, "%s%s rank %d", shown > 1 ? ", " : "", g->sends[i] ? "to" : "from", g->peer[i]);
        }
    if (shown > 8)
        zep_buf_printf(b, " and %d more", shown - 8);
}

static int lost(struct zep_comm *comm, struct zep_error *err)
{
    struct zep_buf peers = ZEP_BUF_INIT;

    name_peers(comm, &peers);
    if (comm->waiting_for)
        zep_error_set(err, ZEP_EPEER, "no progress for %.0f s (cluster.timeout_s) in '%s': some rank does not answer", comm->timeout_s, comm->waiting_for);
    else
        zep_error_set(err, ZEP_EPEER, "no progress for %.0f s (cluster.timeout_s) with transfers %s", comm->timeout_s, peers.data ? peers.data : "none");
    zep_buf_free(&peers);
    return ZEP_EPEER;
}

int zep_comm_idle(struct zep_comm *comm, struct zep_error *err)
{
    struct timespec nap = {0, 50000};

    if (comm->n_idle == 0)
        comm->last_busy = zep_clock_now();
    if (comm->n_idle++ < YIELDS) {
        sched_yield();
        return ZEP_OK;
    }
    if (comm->n_idle > 4 * YIELDS)
        nap.tv_nsec = 200000;
    nanosleep(&nap, NULL);
    if (comm->timeout_s > 0 && zep_clock_now() - comm->last_busy > comm->timeout_s)
        return lost(comm, err);
    return ZEP_OK;
}

int zep_mpi_wait(struct zep_comm *comm, MPI_Request *request, int n, const char *what, struct zep_error *err)
{
    int open = n, rc = ZEP_OK;

    comm->n_idle = 0;
    comm->waiting_for = what;
    while (open && rc == ZEP_OK) {
        int before = open;

        open = 0;
        for (int i = 0; i < n && rc == ZEP_OK; i++) {
            int done = 1, code = request[i] == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Test(&request[i], &done, MPI_STATUS_IGNORE);

            if (code != MPI_SUCCESS)
                rc = zep_mpi_error(code, what, err);
            open += !done;
        }
        if (open < before)
            comm->n_idle = 0;
        else if (open && rc == ZEP_OK)
            rc = zep_comm_idle(comm, err);
    }
    comm->waiting_for = NULL;
    return rc;
}
