#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/job.h"
#include "launcher/cli.h"
#include "launcher/options.h"
#include "launcher/precheck.h"

enum { OPT_SET = 256, OPT_JSON };

static const struct option options[] = {{"set", required_argument, NULL, OPT_SET}, {"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "job",
    "usage: zeppelin job init [-o FILE]\n"
    "       zeppelin job check [-o FILE] FILE [--set KEY=VALUE]...\n"
    "       zeppelin job show [--json] [-o FILE] [FILE] [--set KEY=VALUE]...\n"
    "\n"
    "init   writes a job file with every key, its default and its meaning\n"
    "check  says whether a job file is right, or all that is wrong with it: also whether the data sets and the\n"
    "       topology are there, and go together\n"
    "show   prints every value and where it comes from: the default, the site file and its profile, your\n"
    "       config.yaml, the job file, --set\n"
    "\n"
    "  --set KEY=VALUE    sets a key, as in --set train.steps=100; may be repeated\n"
    "  --json             show: as JSON, with the layer that each value comes from\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n",
    options,
};

struct args {
    const char *out, *file;
    const char **set;
    int n_set, json;
};

static int init(const struct args *a, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = zep_job_template(&b, err);

    if (rc == ZEP_OK)
        rc = zep_cli_write(a->out, &b, err);
    zep_buf_free(&b);
    return rc;
}

/* Returns the exit status. */
static int check(const struct args *a)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_job *job = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc = zep_job_read(a->file, a->set, a->n_set, &m, &job, &err), status = 0;

    if (rc == ZEP_OK) {
        zep_precheck_check(job, &m);
        rc = zep_buf_ok(&m.text, &err);
    }
    if (rc == ZEP_OK && m.n) {
        status = zep_cli_fail_text(m.text.data, m.code);
    } else if (rc == ZEP_OK) {
        zep_buf_printf(&b, "%s: ok\n", a->file);
        rc = zep_cli_write(a->out, &b, &err);
    }
    zep_mistakes_free(&m);
    zep_buf_free(&b);
    zep_job_free(job);
    return rc < 0 ? zep_cli_fail(&err) : status;
}

static int show(const struct args *a, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_job *job = NULL;
    int rc;

    if ((rc = zep_job_load(a->file, a->set, a->n_set, &job, err)) < 0)
        return rc;
    if ((rc = a->json ? zep_job_to_json(job, &b, err) : zep_job_to_yaml(job, 1, &b, err)) == ZEP_OK)
        rc = zep_cli_write(a->out, &b, err);
    zep_buf_free(&b);
    zep_job_free(job);
    return rc;
}

int cmd_job(int argc, char **argv)
{
    struct args a = {.set = zep_calloc((size_t)argc, sizeof *a.set)};
    const struct zep_option table[] = {{ZEP_OPTION_LIST, OPT_SET, &a.set, &a.n_set}, {ZEP_OPTION_FLAG, OPT_JSON, &a.json, NULL}, {ZEP_OPTION_TEXT, 'o', &a.out, NULL}, {0}};
    struct zep_error err;
    const char *what;
    int rc;

    if (!a.set)
        return 1;
    if ((rc = zep_options(&cli, argc, argv, table)) >= 0) {
        free(a.set);
        return rc;
    }
    what = optind < argc ? argv[optind] : "";
    a.file = optind + 1 < argc ? argv[optind + 1] : NULL;
    if (argc - optind > 2)
        rc = zep_cli_usage(&cli, "too many arguments");
    else if (a.json && strcmp(what, "show"))
        rc = zep_cli_usage(&cli, "--json belongs to show");
    else if (!strcmp(what, "init") && !a.file)
        rc = init(&a, &err) < 0 ? zep_cli_fail(&err) : 0;
    else if (!strcmp(what, "show"))
        rc = show(&a, &err) < 0 ? zep_cli_fail(&err) : 0;
    else if (!strcmp(what, "check") && a.file)
        rc = check(&a);
    else
        rc = zep_cli_usage(&cli, *what ? "'%s': expected init, check FILE or show [FILE]" : "expected init, check FILE or show [FILE]%s", what);
    free(a.set);
    return rc;
}
