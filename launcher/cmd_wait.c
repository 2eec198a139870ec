#include "config.h"
#include "launcher/launcher.h"

#include "launcher/backend.h"
#include "launcher/cli.h"

static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "wait",
    "usage: zeppelin wait JOB\n"
    "\n"
    "Waits until a run has ended, showing its progress, and exits as the run did. A run that goes back into the\n"
    "queue, and a chain of jobs, have not ended. JOB is a run folder, a run's id, or [CLUSTER:]JOBID.\n"
    "\n"
    "  -h, --help\n",
    options,
};

int cmd_wait(int argc, char **argv)
{
    struct zep_run *run = NULL;
    struct zep_error err;
    int c, rc, status = 0;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1)
        return c == 'h' ? 0 : 2;
    if (argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no JOB" : "more than one JOB");
    if ((rc = zep_run_open(argv[optind], &run, &err)) == ZEP_OK)
        rc = zep_run_wait(run, 0, &status, &err);
    zep_run_free(run);
    return rc < 0 ? zep_cli_fail(&err) : status;
}
