#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/rundir.h"
#include "common/yaml.h"
#include "launcher/backend.h"
#include "launcher/cli.h"
#include "launcher/k8s_launch.h"
#include "launcher/k8s_manifest.h"
#include "launcher/k8s_record.h"
#include "launcher/precheck.h"
#include "launcher/runfolder.h"

enum { OPT_SET = 256, OPT_JSON, OPT_BREAK, OPT_APPLY, OPT_DRY, OPT_RESUME };

static const struct option options[] = {{"set", required_argument, NULL, OPT_SET}, {"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"apply", no_argument, NULL, OPT_APPLY}, {"resume", required_argument, NULL, OPT_RESUME}, {"dry-run", no_argument, NULL, OPT_DRY}, {"break-lock", no_argument, NULL, OPT_BREAK}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static const struct cli cli = {
    "k8s",
    "usage: zeppelin k8s [--set KEY=VALUE]... [--json] [-o FILE] JOB.yaml\n"
    "       zeppelin k8s --apply [--set KEY=VALUE]... JOB.yaml\n"
    "       zeppelin k8s [--apply] [--set KEY=VALUE]... --resume RUN\n"
    "       zeppelin k8s prune [--dry-run]\n"
    "       zeppelin k8s launch [--break-lock] RUN_DIR\n"
    "\n"
    "Prints the MPIJob (kubeflow.org/v2beta1) of a job, ready for `kubectl create -f -`: launcher and workers,\n"
    "ssh, resources, volumes, placement, limits. Everything that the API server or the MPI operator would\n"
    "refuse, or take and then ignore, is checked before.\n"
    "\n"
    "With --apply it is created, by kubectl (in a pod by its service account): a run folder of yours keeps what\n"
    "was created, and `zeppelin status`, `logs`, `wait` and `cancel` take it. A live MPIJob is never changed.\n"
    "prune deletes MPIJobs of your runs that have ended, with what they still hold; their logs are saved before.\n"
    "\n"
    "launch is what the launcher pod runs: it waits for the workers, orders the ranks along the topology of the\n"
    "nodes, runs the training, and tries again when a rank failed.\n"
    "\n"
    "  --set KEY=VALUE    sets a key of the job, as in --set k8s.image=reg/zeppelin:1; may be repeated\n"
    "  --json             as JSON\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  --apply            creates it, and prints its name\n"
    "  --resume RUN       the next attempt of a run that was cancelled, stopped or lost: from its last checkpoint,\n"
    "                     under a new name; RUN is a run folder or a run's id\n"
    "  --dry-run          prune: only says what would be deleted\n"
    "  --break-lock       launch: the attempt before has ended for sure\n"
    "  -h, --help\n",
    options,
};

struct args {
    const char **set, *job, *out, *resume;
    int n_set, json, break_lock, launch, apply, dry, prune;
};

static int parse(int argc, char **argv, struct args *a)
{
    int c;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        switch (c) {
        case OPT_SET:
            a->set[a->n_set++] = optarg;
            break;
        case OPT_JSON:
            a->json = 1;
            break;
        case OPT_APPLY:
            a->apply = 1;
            break;
        case OPT_RESUME:
            a->resume = optarg;
            break;
        case OPT_DRY:
            a->dry = 1;
            break;
        case OPT_BREAK:
            a->break_lock = 1;
            break;
        case 'o':
            a->out = optarg;
            break;
        default:
            return c == 'h' ? 0 : 2;
        }
    }
    if (a->resume) {
        if (optind < argc)
            return zep_cli_usage(&cli, "--resume takes no job file");
    } else if (optind < argc && !strcmp(argv[optind], "launch")) {
        a->launch = 1;
        if (argc - optind != 2)
            return zep_cli_usage(&cli, "launch: expected one RUN_DIR");
        a->job = argv[optind + 1];
        return -1;
    }
    if (!a->resume && optind < argc && !strcmp(argv[optind], "prune")) {
        a->prune = 1;
        if (argc - optind != 1)
            return zep_cli_usage(&cli, "prune takes no file");
        return -1;
    }
    if (a->dry)
        return zep_cli_usage(&cli, "--dry-run goes with prune: without --apply nothing is created");
    if (a->apply && (a->json || a->out))
        return zep_cli_usage(&cli, "--apply prints no manifest");
    if (a->break_lock)
        return zep_cli_usage(&cli, "--break-lock goes with launch");
    if (!a->resume && argc - optind != 1)
        return zep_cli_usage(&cli, argc == optind ? "no job file" : "more than one job file");
    a->job = argv[optind];
    return -1;
}

static int print(const struct args *a, const json_t *manifest, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *text = a->json ? json_dumps(manifest, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    int rc;

    if (text)
        zep_buf_printf(&b, "%s\n", text);
    else
        zep_yaml_emit_json(&b, manifest);
    free(text);
    rc = zep_cli_write(a->out, &b, err);
    zep_buf_free(&b);
    return rc;
}

/* Nothing is left of a job that was not taken. */
static int apply(struct zep_job *job, const struct zep_k8s_spec *spec, struct zep_error *err)
{
    char *rundir = NULL, made[300], *root = zep_abs_path(job->run_root);
    int rc;

    if (!root)
        return zep_error_nomem(err, "run folder");
    free(job->run_root);
    job->run_root = root;
    if ((rc = zep_runfolder_new(job, &rundir, err)) < 0)
        return rc;
    if ((rc = zep_k8s_submit(spec, rundir, 1, made, sizeof made, err)) < 0) {
        if (rc == ZEP_ETIMEDOUT)
            zep_log(ZEP_LOG_WARN, "the job may have been created all the same (kubectl get mpijobs %s%s%s%s%s): the run folder %s stays", job->name, *job->k8s.ns ? " -n " : "", job->k8s.ns, *job->k8s.context ? " --context " : "",
                    job->k8s.context, rundir);
        else
            zep_fs_remove_tree(rundir, NULL);
    } else {
        puts(made);
        zep_log(ZEP_LOG_INFO, "MPIJob %s, run folder %s", made, rundir);
    }
    free(rundir);
    return rc;
}

/* How the run stands is asked first; the job in its folder is changed once the attempt is there. */
static int load_old(const struct args *a, struct zep_run **run_out, struct zep_live *live, struct zep_job **job_out, struct zep_k8s_spec **spec_out, struct zep_error *err)
{
    struct zep_run *run;
    int rc;

    if ((rc = zep_run_open(a->resume, run_out, err)) < 0)
        return rc;
    run = *run_out;
    if ((rc = run->backend->status((const struct zep_run *const *)&run, 1, 1, live, err)) < 0 || (rc = zep_k8s_may_go_on(run, live, err)) < 0)
        return rc;
    if (live->life == ZEP_LIFE_ENDED && live->exit_status == 0 && !a->n_set)
        return zep_error_set(err, ZEP_EREFUSED, "%s is done: expected --set train.steps=N with more steps", run->info.id);
    if ((rc = zep_runfolder_load_job(run->dir, a->set, a->n_set, job_out, err)) < 0 || (rc = zep_precheck_k8s(*job_out, spec_out, err)) < 0)
        return rc;
    if (strcmp((*job_out)->k8s.context, run->cluster))
        return zep_error_set(err, ZEP_EINVAL, "k8s.context: '%s': the run's folder is in the cluster of context '%s'", (*job_out)->k8s.context, run->cluster);
    return ZEP_OK;
}

static int resume(const struct args *a, struct zep_error *err)
{
    struct zep_live live = {.exit_status = -1};
    struct zep_k8s_spec *spec = NULL;
    struct zep_run *run = NULL;
    struct zep_job *job = NULL;
    json_t *manifest = NULL;
    char made[300];
    int rc = load_old(a, &run, &live, &job, &spec, err);

    if (rc == ZEP_OK && !a->apply && (rc = zep_k8s_manifest(spec, run->info.id, run->n_job + 1, &manifest, err)) == ZEP_OK)
        rc = print(a, manifest, err);
    if (rc == ZEP_OK && a->apply && (rc = zep_k8s_go_on(run, &live, spec, made, sizeof made, err)) == ZEP_OK) {
        puts(made);
        zep_log(ZEP_LOG_INFO, "MPIJob %s, run folder %s", made, run->dir);
        rc = zep_runfolder_write_job(run->dir, job, err);
    }
    json_decref(manifest);
    zep_k8s_spec_free(spec);
    zep_job_free(job);
    zep_run_free(run);
    return rc;
}

static int prune(const struct args *a, struct zep_error *err)
{
    struct zep_job *job = NULL;
    int rc = zep_job_load(NULL, a->set, a->n_set, &job, err);

    if (rc == ZEP_OK)
        rc = zep_k8s_prune(job->k8s.context, job->k8s.ns, a->dry, err);
    zep_job_free(job);
    return rc;
}

static int k8s(const struct args *a, struct zep_error *err)
{
    struct zep_k8s_spec *spec = NULL;
    struct zep_job *job = NULL;
    char id[ZEP_RUN_ID_BUF];
    json_t *manifest = NULL;
    int rc;

    if ((rc = zep_job_load(a->job, a->set, a->n_set, &job, err)) < 0 || (rc = zep_precheck_k8s(job, &spec, err)) < 0)
        goto out;
    if (a->apply) {
        rc = apply(job, spec, err);
        goto out;
    }
    zep_rundir_id(job->name, id);
    if ((rc = zep_k8s_manifest(spec, id, 1, &manifest, err)) == ZEP_OK)
        rc = print(a, manifest, err);
    json_decref(manifest);
out:
    zep_k8s_spec_free(spec);
    zep_job_free(job);
    return rc;
}

int cmd_k8s(int argc, char **argv)
{
    struct args a = {.set = zep_calloc((size_t)argc + 1, sizeof *a.set)};
    struct zep_error err;
    int status;

    if (!a.set)
        return 1;
    if ((status = parse(argc, argv, &a)) < 0) {
        status = 0;
        if ((a.launch ? zep_k8s_launch(a.job, a.break_lock, &status, &err) : a.prune ? prune(&a, &err) : a.resume ? resume(&a, &err) : k8s(&a, &err)) < 0)
            status = zep_cli_fail(&err);
    }
    free(a.set);
    return status;
}
