#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>

#include "common/log.h"
#include "launcher/backend.h"
#include "launcher/cli.h"

enum { OPT_NOW = 256 };

static const struct option options[] = {{"now", no_argument, NULL, OPT_NOW}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "cancel",
    "usage: zeppelin cancel [--now] JOB...\n"
    "\n"
    "Stops runs: one that waits is taken out of the queue with all jobs of its chain; one that runs stops after the\n"
    "step in hand, with a checkpoint, within cluster.grace, and does not go back into the queue by itself.\n"
    "On Kubernetes the MPIJob is deleted; its pods stop with a checkpoint, and the launcher's log is saved.\n"
    "JOB is a run folder, a run's id, [CLUSTER:]JOBID, or k8s:[NAMESPACE:]NAME.\n"
    "\n"
    "  --now  ends what runs at once, without a checkpoint (Slurm gives it its KillWait)\n"
    "  -h, --help\n",
    options,
};

static int cancel_one(const char *word, int now)
{
    struct zep_run *run = NULL;
    struct zep_error err;
    char said[400];
    int rc;

    if ((rc = zep_run_open(word, &run, &err)) == ZEP_OK)
        rc = run->backend->cancel(run, now, said, sizeof said, &err);
    if (rc == ZEP_OK)
        zep_log(ZEP_LOG_INFO, "%s: %s", run->dir ? run->info.id : word, said);
    zep_run_free(run);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}

int cmd_cancel(int argc, char **argv)
{
    int c, now = 0, status = 0, one;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c != OPT_NOW)
            return c == 'h' ? 0 : 2;
        now = 1;
    }
    if (argc == optind)
        return zep_cli_usage(&cli, "no JOB");
    for (int i = optind; i < argc; i++)
        if ((one = cancel_one(argv[i], now)) != 0)
            status = one;
    return status;
}
