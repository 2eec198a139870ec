#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "launcher/backend.h"
#include "launcher/cli.h"
#include "launcher/k8s_record.h"

enum { OPT_RESUBMIT = 256 };

static const struct option options[] = {{"resubmit", no_argument, NULL, OPT_RESUBMIT}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "wait",
    "usage: zeppelin wait [--resubmit] JOB\n"
    "\n"
    "Waits until a run has ended, showing its progress, and exits as the run did. A run that goes back into the\n"
    "queue, and a chain of jobs, have not ended. JOB is a run folder, a run's id, [CLUSTER:]JOBID, or\n"
    "k8s:[NAMESPACE:]NAME.\n"
    "\n"
    "  --resubmit  on Kubernetes: when the run was stopped or lost a peer (an eviction, a node), makes the next\n"
    "              attempt from its checkpoint, under a new name; without it nobody does\n"
    "  -h, --help\n",
    options,
};

/* Again as long as the run was stopped or lost, but not without a step since the last time. */
static int wait_on(const char *word, int resubmit, int *status_out, struct zep_error *err)
{
    int64_t before = -1;
    char said[400];
    int rc, again;

    do {
        struct zep_run *run = NULL;
        struct zep_live live = {.exit_status = -1};

        again = 0;
        if ((rc = zep_run_open(word, &run, err)) < 0)
            return rc;
        rc = zep_run_wait_live(run, 0, &live, status_out, err);
        if (rc == ZEP_OK && resubmit && run->backend == &zep_backend_k8s) {
            *said = '\0';
            if (live.has_step && live.step <= before)
                snprintf(said, sizeof said, "no other attempt: it came no further than the one before, to step %" PRId64, before);
            else
                rc = again = zep_k8s_resubmit(run, &live, said, sizeof said, err);
            before = live.has_step ? live.step : before;
            if (*said && rc >= 0)
                zep_log(ZEP_LOG_INFO, "%s", said);
        }
        zep_run_free(run);
    } while (again > 0);
    return rc < 0 ? rc : ZEP_OK;
}

int cmd_wait(int argc, char **argv)
{
    struct zep_error err;
    int c, status = 0, resubmit = 0;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c != OPT_RESUBMIT)
            return c == 'h' ? 0 : 2;
        resubmit = 1;
    }
    if (argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no JOB" : "more than one JOB");
    return wait_on(argv[optind], resubmit, &status, &err) < 0 ? zep_cli_fail(&err) : status;
}
