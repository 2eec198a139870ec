/* zeppelin-rank: one MPI rank of a run. Started by `zeppelin run`, which owns the run folder. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/rundir.h"
#include "common/units.h"
#include "runtime/agree.h"
#include "runtime/comm.h"
#include "runtime/run.h"
#include "runtime/stop.h"

static void usage(FILE *f)
{
    fputs("usage: zeppelin-rank [--attempt N] [--ranks N] [--lock TOKEN] [--inputs DIGEST] RUN_DIR\n"
          "       zeppelin-rank --hello\n"
          "\n"
          "One rank of a training run; started by `zeppelin run` under mpirun or srun.\n"
          "\n"
          "  --attempt N  number of this attempt, from 1\n"
          "  --ranks N    ranks that were meant to be started; another number is refused\n"
          "  --lock TOKEN the run's lock under which they were started; when it is another's, they leave\n"
          "  --inputs DIGEST  of job.yaml and topology.yaml as the launcher wrote them: rank 0 waits until it sees them so\n"
          "  --hello      start MPI, print the number of ranks and leave (a trial of the launcher)\n"
          "  --help, --version\n",
          f);
}

struct args {
    int attempt, ranks, hello;
    const char *rundir, *lock;
    uint64_t inputs;
};

/* Exit status, or -1: go on. */
static int parse_args(int argc, char **argv, struct args *a)
{
    static const struct option options[] = {
        {"attempt", required_argument, NULL, 'a'}, {"ranks", required_argument, NULL, 'r'}, {"lock", required_argument, NULL, 'l'}, {"inputs", required_argument, NULL, 'i'}, {"hello", no_argument, NULL, 'H'},
        {"help", no_argument, NULL, 'h'},          {"version", no_argument, NULL, 'V'},     {NULL, 0, NULL, 0},
    };
    struct zep_error err;
    int64_t value;
    int c, used = 0;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a':
        case 'r':
            if (zep_parse_int(optarg, 1, 1 << 24, &value, &err) < 0) {
                fprintf(stderr, "zeppelin-rank: --%s %s\n", c == 'a' ? "attempt" : "ranks", err.text);
                return 2;
            }
            *(c == 'a' ? &a->attempt : &a->ranks) = (int)value;
            break;
        case 'l':
            a->lock = optarg;
            break;
        case 'i':
            if (sscanf(optarg, "%16" SCNx64 "%n", &a->inputs, &used) != 1 || optarg[used]) {
                fprintf(stderr, "zeppelin-rank: --inputs '%s': expected 16 hexadecimal digits\n", optarg);
                return 2;
            }
            break;
        case 'H':
            a->hello = 1;
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'V':
            puts("zeppelin-rank " PACKAGE_VERSION);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (a->hello ? argc != optind : argc - optind != 1) {
        usage(stderr);
        return 2;
    }
    a->rundir = argv[optind];
    return -1;
}

/* An error that all ranks have: rank 0 tells of it, everybody leaves in order. One that only this rank has: it tells, and ends the job. Then no barrier would be met.
 * Returns the exit status: 0 unless the outcome could not be written (a full disk): then the status is what is left to tell by. */
static int end_in_failure(struct zep_comm *comm, const struct args *a, int rc, const struct zep_run_result *res, struct zep_error *err)
{
    struct zep_outcome o = {.attempt = a->attempt, .status = rc, .step = res->step, .rank = zep_agreed_rank(err)};
    int agreed = o.rank >= 0, rank = zep_comm_rank(comm), status = 0;
    char host[128] = "";

    snprintf(o.phase, sizeof o.phase, "%s", zep_comm_phase(comm));
    snprintf(o.checkpoint, sizeof o.checkpoint, "%s", res->checkpoint);
    snprintf(o.cause, sizeof o.cause, "%.1000s", err->text);
    if (agreed) {
        if (rank == 0) {
            zep_log(ZEP_LOG_ERROR, "%s (in phase %s)", err->text, o.phase);
            int wrote = zep_outcome_write_first(a->rundir, &o, NULL); /* a later attempt's stays */

            status = wrote < 0 && wrote != ZEP_EREFUSED ? zep_exit_status(rc) : 0;
        }
        return status;
    }
    gethostname(host, sizeof host - 1);
    o.rank = rank;
    if (zep_outcome_write_first(a->rundir, &o, NULL) != ZEP_EREFUSED) /* nobody told of it before */
        zep_log(ZEP_LOG_ERROR, "rank %d on %s, in phase %s: %s", rank, host, o.phase, err->text);
    zep_comm_abort(comm, zep_exit_status(rc));
}

/* Returns the exit status. */
static int run(struct zep_comm *comm, const struct args *a, const struct zep_stopper *stopper, double mpi_s)
{
    struct zep_run_args ra = {a->rundir, a->attempt, a->lock, stopper, mpi_s, a->inputs};
    struct zep_run_result res;
    struct zep_error err = {0};
    int rc = zep_run(comm, &ra, &res, &err), status = 0;

    if (rc < 0 && rc != ZEP_ESTOPPED) {
        status = end_in_failure(comm, a, rc, &res, &err);
    } else {
        struct zep_outcome o = {.attempt = a->attempt, .status = rc, .step = res.step, .rank = -1};

        snprintf(o.phase, sizeof o.phase, "end");
        snprintf(o.cause, sizeof o.cause, "%.1000s", rc == ZEP_OK ? "done" : err.text);
        snprintf(o.checkpoint, sizeof o.checkpoint, "%s", res.checkpoint);
        rc = zep_comm_barrier(comm, &err);
        if (rc == ZEP_OK && zep_comm_rank(comm) == 0)
            rc = zep_outcome_write_first(a->rundir, &o, &err);
        if (rc < 0) {
            zep_log(ZEP_LOG_ERROR, "%s", err.text);
            zep_comm_abort(comm, zep_exit_status(rc));
        }
    }
    return status; /* the outcome travels by file */
}

int main(int argc, char **argv)
{
    struct args a = {.attempt = 1};
    struct zep_stopper *stopper;
    struct zep_comm *comm;
    struct zep_error err;
    double begin = zep_clock_now();
    int rc, status = 0;

    signal(SIGPIPE, SIG_IGN);
    zep_log_init("zeppelin-rank", ZEP_LOG_INFO);
    if ((rc = parse_args(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = zep_stopper_start(&stopper, &err)) < 0 || (rc = zep_comm_start(&argc, &argv, a.ranks, &comm, &err)) < 0) {
        struct zep_outcome o = {.attempt = a.attempt, .status = rc, .rank = -1, .phase = "start-up"};

        snprintf(o.cause, sizeof o.cause, "%.1000s", err.text);
        if (a.hello || zep_outcome_write_first(a.rundir, &o, NULL) != ZEP_EREFUSED)
            zep_log(ZEP_LOG_ERROR, "%s", err.text);
        return zep_exit_status(rc);
    }
    zep_stopper_watch(stopper, comm);
    if (zep_comm_rank(comm) == 0 && !a.hello)
        fputs("zeppelin-rank-up\n", stderr); /* zeppelin run waits for it */
    if (!a.hello)
        status = run(comm, &a, stopper, zep_clock_now() - begin);
    else if (zep_comm_rank(comm) == 0)
        printf("zeppelin-rank: %d ranks\n", zep_comm_size(comm));
    zep_stopper_watch(stopper, NULL);
    zep_comm_finish(comm);
    zep_stopper_end(stopper);
    return status;
}
