#include "config.h"
#include "launcher/launcher.h"

#include <stdlib.h>

#include "launcher/cli.h"
#include "launcher/options.h"
#include "launcher/report.h"
#include "launcher/runfolder.h"

enum { OPT_JSON = 256 };

static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "report",
    "usage: zeppelin report [--json] [-o FILE] RUN\n"
    "\n"
    "Reports on a run, also while it goes on: losses beside the marks of the text, tokens/s, FLOPs,\n"
    "zones, time per phase, balance of ranks. RUN is a run folder, or the id of a run or Slurm job of\n"
    "yours. The pictures loss.svg and ranks.svg are drawn anew in the folder's report/.\n"
    "\n"
    "  --json             zeppelin-report/1.0 instead of text, see zeppelin-run(5)\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

int cmd_report(int argc, char **argv)
{
    const char *out = NULL;
    struct zep_report *r = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    char *rundir = NULL;
    int rc, json = 0;
    const struct zep_option table[] = {{ZEP_OPTION_FLAG, OPT_JSON, &json, NULL}, {ZEP_OPTION_TEXT, 'o', &out, NULL}, {0}};

    if ((rc = zep_options(&cli, argc, argv, table)) >= 0)
        return rc;
    if (argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no run: expected a run folder" : "more than one run");
    if ((rc = zep_runfolder_find(argv[optind], &rundir, &err)) == ZEP_OK && (rc = zep_report_load(rundir, &r, &err)) == ZEP_OK) {
        rc = json ? zep_report_json(r, &b, &err) : zep_report_text(r, &b, &err);
        if (rc == ZEP_OK)
            rc = zep_cli_write(out, &b, &err);
        if (rc == ZEP_OK)
            zep_report_write(r, NULL); /* someone else's folder may be read only: the text is what was asked for */
    }
    zep_buf_free(&b);
    zep_report_free(r);
    free(rundir);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
