#include "config.h"
#include "launcher/launcher.h"

#include "launcher/backend.h"
#include "launcher/cli.h"

enum { OPT_RANKS = 256 };

static const struct option options[] = {{"follow", no_argument, NULL, 'f'}, {"ranks", no_argument, NULL, OPT_RANKS}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "logs",
    "usage: zeppelin logs [-f] [--ranks] JOB\n"
    "\n"
    "Prints the log of a run: of a batch job its output, of others what zeppelin run and the ranks said.\n"
    "JOB is a run folder, a run's id, or [CLUSTER:]JOBID.\n"
    "\n"
    "  -f, --follow  goes on until the run has ended\n"
    "  --ranks       only the file log of the run folder, without what the batch script says\n"
    "  -h, --help\n",
    options,
};

int cmd_logs(int argc, char **argv)
{
    struct zep_run *run = NULL;
    struct zep_error err;
    int c, follow = 0, ranks = 0, rc;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'f')
            follow = 1;
        else if (c == OPT_RANKS)
            ranks = 1;
        else
            return c == 'h' ? 0 : 2;
    }
    if (argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no JOB" : "more than one JOB");
    if ((rc = zep_run_open(argv[optind], &run, &err)) == ZEP_OK)
        rc = zep_run_logs(run, follow, ranks, &err);
    zep_run_free(run);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
