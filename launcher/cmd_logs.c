#include "config.h"
#include "launcher/launcher.h"

#include "launcher/backend.h"
#include "launcher/cli.h"
#include "launcher/options.h"

enum { OPT_RANKS = 256 };

static const struct option options[] = {{"follow", no_argument, NULL, 'f'}, {"ranks", no_argument, NULL, OPT_RANKS}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "logs",
    "usage: zeppelin logs [-f] [--ranks] JOB\n"
    "\n"
    "Prints the log of a run: of a batch job its output, of others what zeppelin run and the ranks said.\n"
    "JOB is a run folder, a run's id, [CLUSTER:]JOBID, or k8s:[NAMESPACE:]NAME.\n"
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
    int follow = 0, ranks = 0, rc;
    const struct zep_option table[] = {{ZEP_OPTION_FLAG, 'f', &follow, NULL}, {ZEP_OPTION_FLAG, OPT_RANKS, &ranks, NULL}, {0}};

    if ((rc = zep_options(&cli, argc, argv, table)) >= 0)
        return rc;
    if (argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no JOB" : "more than one JOB");
    if ((rc = zep_run_open(argv[optind], &run, &err)) == ZEP_OK)
        rc = zep_run_logs(run, follow, ranks, &err);
    zep_run_free(run);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
