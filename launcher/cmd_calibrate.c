#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "common/units.h"
#include "launcher/cli.h"

enum { OPT_SECONDS = 256 };

static const struct option options[] = {
    {"seconds", required_argument, NULL, OPT_SECONDS}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "calibrate",
    "usage: zeppelin calibrate [--seconds S] [-o FILE]\n"
    "\n"
    "Measures this machine's kernels on one core (attention forward and backward at two sizes, matrix\n"
    "products, copies) and writes them as a device file, for predictions (the option device of\n"
    "`zeppelin sim`, `explain`, `advise`, `plan`) and plan.device of a job. GPUs are not measured.\n"
    "\n"
    "  --seconds S        about how long (default 5)\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

static int measure(double seconds, struct zep_buf *b, struct zep_error *err)
{
    char *program = NULL, text[32];
    struct zep_process_result p;
    struct zep_argv a = {0};
    int rc;

    if (zep_fs_helper("zeppelin-calibrate", &program, err) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "the program zeppelin-calibrate is missing: the installation is incomplete");
    snprintf(text, sizeof text, "%.3f", seconds);
    zep_argv_add(&a, "%s", program);
    zep_argv_add(&a, "%s", text);
    setenv("OMP_NUM_THREADS", "1", 1); /* products on one core, as ranks compute them */
    rc = a.n < 0 ? zep_error_nomem(err, "calibrating") : zep_process_run(a.v, 10 * seconds + 60, &p, err);
    if (rc == ZEP_OK) {
        if (p.timed_out || p.status)
            rc = zep_error_set(err, ZEP_EUNAVAIL, "calibrating: %s%.*s", p.timed_out ? "it took far too long" : "", (int)(p.err_len > 500 ? 500 : p.err_len), p.err);
        else
            zep_buf_puts(b, p.out);
        zep_process_result_free(&p);
    }
    zep_argv_free(&a);
    free(program);
    return rc < 0 ? rc : zep_buf_ok(b, err);
}

int cmd_calibrate(int argc, char **argv)
{
    struct zep_buf b = ZEP_BUF_INIT;
    const char *out = NULL;
    struct zep_error err;
    double seconds = 5;
    int c, rc;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'h' || c == CLI_BAD)
            return c == 'h' ? 0 : 2;
        if (c == 'o')
            out = optarg;
        else if (zep_parse_double(optarg, 0.1, 3600, &seconds, &err) < 0) {
            zep_error_prefix(&err, "--seconds");
            return zep_cli_fail(&err);
        }
    }
    if (optind < argc)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind]);
    zep_log(ZEP_LOG_INFO, "measuring one core for about %.3g s", seconds);
    if ((rc = measure(seconds, &b, &err)) == ZEP_OK)
        rc = zep_cli_write(out, &b, &err);
    zep_buf_free(&b);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
