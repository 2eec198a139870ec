#include "config.h"
#include "launcher/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "launcher/cli.h"
#include "launcher/doctor.h"
#include "launcher/inputs.h"
#include "launcher/precheck.h"
#include "topology/source.h"

enum { OPT_STRICT = 256, OPT_JSON, OPT_NO_RANKS };

static const struct option options[] = {
    {"from", required_argument, NULL, ZEP_OPT_FROM}, {"label-levels", required_argument, NULL, ZEP_OPT_LABELS}, {"hosts", required_argument, NULL, ZEP_OPT_HOSTS}, {"no-ranks", no_argument, NULL, OPT_NO_RANKS},
    {"strict", no_argument, NULL, OPT_STRICT}, {"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "doctor",
    "usage: zeppelin doctor [SOURCE ...] [OPTION]... [JOB.yaml]\n"
    "\n"
    "Looks for what makes training slow or fail, before GPU hours burn, and says what to do: nodes, NICs,\n"
    "GPUs, what hides them, limits, MPI, switches, versions, clocks.\n"
    "\n"
    "Looks at (default: in a Slurm allocation all its nodes, by a probe and the controller; else this machine):\n"
    "  --from KIND[:ARG]  sources as of `zeppelin topo`, merged; probe asks every node\n"
    "  --hosts LIST       hosts for --from probe: a host list, or @FILE with one a line\n"
    "  --label-levels KEYS  labels of Kubernetes nodes, closest first\n"
    "  JOB.yaml           does this job fit?\n"
    "\n"
    "Options:\n"
    "  --no-ranks         do not try to start two ranks\n"
    "  --strict           warnings count as errors\n"
    "  --json             findings as JSON, zeppelin-doctor/1.0\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 fine, or warnings only; 1 errors (with --strict warnings too).\n",
    options,
};

struct args {
    struct zep_topo_args topo;
    const char *job, *out;
    int strict, json, no_ranks;
};

static int parse(int argc, char **argv, struct args *a)
{
    int c;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (zep_inputs_topo_option(&a->topo, c, optarg))
            continue;
        switch (c) {
        case OPT_NO_RANKS:
            a->no_ranks = 1;
            break;
        case OPT_STRICT:
            a->strict = 1;
            break;
        case OPT_JSON:
            a->json = 1;
            break;
        case 'o':
            a->out = optarg;
            break;
        default:
            return c == 'h' ? 0 : 2;
        }
    }
    if (argc - optind > 1)
        return zep_cli_usage(&cli, "unexpected argument '%s'", argv[optind + 1]);
    if (a->topo.n_from < 0)
        return zep_cli_usage(&cli, "more than %d sources", ZEP_MAX_FROM);
    a->job = argv[optind];
    return -1;
}

static const char *env_of(const char *name)
{
    return getenv(name);
}

static void say(void *arg, const char *text)
{
    (void)arg;
    zep_log(ZEP_LOG_INFO, "%s", text);
}

static int load(const struct args *a, int n, const char *const *from, struct zep_topo **out, struct zep_error *err)
{
    struct zep_topo_want w = {.n_from = n, .from = from, .label_levels = a->topo.label_levels, .hosts = a->topo.hosts, .note = say};

    return zep_topo_from(&w, out, err);
}

/* What is looked at, and what of it could not be asked. */
static int gather(const struct args *a, const struct zep_job *job, struct zep_doctor *d, struct zep_topo **topo, struct zep_topo **cluster, struct zep_error *err)
{
    const char *named = job && strcmp(job->cluster.topology, "auto") ? job->cluster.topology : NULL;
    static const char *const allocation[] = {"slurm:job", "probe"}, *const here[] = {"local"}, *const probe[] = {"probe"}, *const slurm[] = {"slurm"};
    struct zep_error why;
    int rc;

    if (a->topo.n_from)
        rc = load(a, a->topo.n_from, a->topo.from, topo, err);
    else if (a->topo.hosts)
        rc = load(a, 1, probe, topo, err);
    else if (named)
        rc = load(a, 1, &named, topo, err);
    else if (d->in_job && (rc = load(a, 2, allocation, topo, err)) < 0) {
        why = *err;
        if ((rc = load(a, 1, allocation, topo, err)) == ZEP_OK)
            zep_doctor_say(d, ZEP_FINDING_WARNING, "probe", "nodes are known as the controller says only", "the nodes could not be asked: %s", why.text);
    } else if (!d->in_job)
        rc = load(a, 1, here, topo, err);
    else
        rc = ZEP_OK;
    if (rc == ZEP_OK && d->in_job && load(a, 1, slurm, cluster, &why) < 0)
        *cluster = NULL; /* only to know how large leaves are */
    return rc;
}

static int load_job(const struct args *a, struct zep_doctor *d, struct zep_job **out, struct zep_error *err)
{
    struct zep_job *checked = NULL; /* the check fills in what is 'auto' */
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_error why;
    int rc;

    if (!a->job)
        return ZEP_OK;
    if ((rc = zep_job_load(a->job, NULL, 0, out, err)) < 0 || (rc = zep_job_load(a->job, NULL, 0, &checked, err)) < 0)
        return rc;
    zep_precheck_check(checked, &m);
    if (zep_mistakes_error(&m, &why) < 0)
        zep_doctor_say(d, ZEP_FINDING_ERROR, "job", "mend the job file (zeppelin job check)", "%s", why.text);
    zep_mistakes_free(&m);
    zep_job_free(checked);
    return ZEP_OK;
}

int cmd_doctor(int argc, char **argv)
{
    struct args a = {0};
    const char *job_id = zep_inputs_slurm_job();
    struct zep_doctor d = {.in_job = job_id != NULL, .env = env_of};
    struct zep_topo *topo = NULL, *cluster = NULL;
    struct zep_job *job = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    int rc, bad = 0;

    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if ((rc = load_job(&a, &d, &job, &err)) == ZEP_OK && (rc = gather(&a, job, &d, &topo, &cluster, &err)) == ZEP_OK) {
        d.topo = topo;
        d.cluster = cluster;
        d.job = job;
        zep_doctor_run(&d);
        if (!a.no_ranks && !a.topo.n_from)
            zep_doctor_run_launcher(&d);
        rc = a.json ? zep_doctor_to_json(&d, &b, &err) : zep_doctor_to_text(&d, &b, &err);
        bad = zep_doctor_count(&d, ZEP_FINDING_ERROR) + (a.strict ? zep_doctor_count(&d, ZEP_FINDING_WARNING) : 0);
    }
    if (rc == ZEP_OK)
        rc = zep_cli_write(a.out, &b, &err);
    zep_doctor_free(&d);
    zep_buf_free(&b);
    zep_topo_free(topo);
    zep_topo_free(cluster);
    zep_job_free(job);
    return rc < 0 ? zep_cli_fail(&err) : bad > 0;
}
