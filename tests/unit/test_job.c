/* The job file (all mistakes at once, with line and nearest name), run folders, their lock and outcome. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/job.h"
#include "common/rundir.h"

static char dir[300];

static void setup(void)
{
    const char *base = getenv("ZEP_BUILDDIR");

    snprintf(dir, sizeof dir, "%s/job-test-%ld", base ? base : "/tmp", (long)getpid());
    setenv("ZEPPELIN_SITE", "", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("SLURM_JOB_ID");
    ck_assert_int_eq(zep_fs_mkdir_p(dir, NULL), ZEP_OK);
}

static void teardown(void)
{
    zep_fs_remove_tree(dir, NULL);
}

static struct zep_job *parse(const char *text, struct zep_error *err)
{
    struct zep_job *job = NULL;

    return zep_job_parse("job.yaml", text, strlen(text), &job, err) == ZEP_OK ? job : NULL;
}

START_TEST(good_jobs)
{
    struct zep_error err = {0};
    struct zep_job *job = parse("name: x\ntrain: {steps: 7, tokens: 8k, lr: 1e-2}\ncluster: {time: '01:30:00', nodes: auto, timeout: 90}\nmodel: {tied: false}\n", &err), *back;
    struct zep_buf b = ZEP_BUF_INIT, again = ZEP_BUF_INIT;

    ck_assert_msg(job != NULL, "%s", err.text);
    ck_assert_int_eq(job->train.steps, 7);
    ck_assert_int_eq(job->train.tokens, 8192);
    ck_assert(job->train.lr == 0.01 && job->cluster.time_s == 5400 && job->cluster.nodes == 0 && job->cluster.timeout_s == 90 && !job->model.tied);
    ck_assert_int_eq(zep_job_to_yaml(job, 0, &b, &err), ZEP_OK); /* what is written reads back equal */
    back = parse(b.data, &err);
    ck_assert_msg(back != NULL, "%s", err.text);
    ck_assert_int_eq(zep_job_to_yaml(back, 0, &again, &err), ZEP_OK);
    ck_assert_str_eq(b.data, again.data);
    zep_job_free(job);
    zep_job_free(back);
    zep_buf_free(&b);
    zep_buf_free(&again);
    ck_assert_int_eq(zep_job_template(&b, &err), ZEP_OK); /* the template is a job with all defaults */
    job = parse(b.data, &err);
    ck_assert_msg(job != NULL, "%s", err.text);
    zep_buf_free(&b);
    ck_assert_int_eq(zep_job_to_yaml(job, 0, &b, &err), ZEP_OK);
    back = parse("name: zeppelin\n", &err);
    ck_assert_int_eq(zep_job_to_yaml(back, 0, &again, &err), ZEP_OK);
    ck_assert_str_eq(b.data, again.data);
    zep_job_free(job);
    zep_job_free(back);
    zep_buf_free(&b);
    zep_buf_free(&again);
}
END_TEST

static const struct {
    const char *text, *error;
} bad_jobs[] = {
    {"train:\n  step: 5\n", "job.yaml:2: unknown key 'train.step' (did you mean 'train.steps'?)"},
    {"trains: {steps: 5}\n", "job.yaml:1: unknown key 'trains': `zeppelin job init` prints all keys"},
    {"train: 5\n", "job.yaml:1: train: expected keys below it"},
    {"name: [a]\n", "job.yaml:1: name: expected one value"},
    {"train: {steps: 0}\n", "job.yaml:1: train.steps: '0': expected a whole number from 1 to 1099511627776"},
    {"cluster: {nodes: 0}\n", "job.yaml:1: cluster.nodes: '0': expected a whole number from 1 to 65536, or auto"},
    {"cluster: {devices: -1}\n", "job.yaml:1: cluster.devices: '-1': expected a whole number from 1 to 4096, or auto"},
    {"cluster: {where: moon}\n", "job.yaml:1: cluster.where: 'moon': expected one of auto, local, slurm"},
    {"model: {tied: yes}\n", "job.yaml:1: model.tied: 'yes': expected true or false"},
    {"model: {heads: 6, kv_heads: 4}\n", "job.yaml:1: model.kv_heads: '4': expected a divisor of model.heads (6)"},
    {"model: {head_dim: 20}\n", "job.yaml:1: model.head_dim: '20': expected a multiple of 8"},
    {"train: {tokens: 1k}\n", "job.yaml:1: train.tokens: '1024': expected at least data.context (4096), so that every document fits into a step"},
    {"name: a/b\n", "job.yaml:1: name: 'a/b': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"},
    {"train: {lr: 0.001, min_lr: 0.01}\n", "job.yaml:1: train.min_lr: '0.01': expected at most train.lr (0.001)"},
    {"train: {steps: 5}\nmodel: {hiden: 4}\nplan: {remap: 2}\n", "job.yaml:2: unknown key 'model.hiden' (did you mean 'model.hidden'?)\njob.yaml:3: plan.remap: '2': expected true or false"},
    {"name: a/b\ntrain: {step: 5, min_lr: 1}\nmodel: {head_dim: 20}\n",
     "job.yaml:2: unknown key 'train.step' (did you mean 'train.steps'?)\njob.yaml:1: name: 'a/b': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit\n"
     "job.yaml:3: model.head_dim: '20': expected a multiple of 8"},
    {"model: {heads: six, kv_heads: 3}\n", "job.yaml:1: model.heads: 'six': expected a whole number"},
};

START_TEST(bad_job)
{
    struct zep_error err = {0};
    struct zep_job *job = parse(bad_jobs[_i].text, &err);

    ck_assert_msg(job == NULL, "'%s' was taken", bad_jobs[_i].text);
    ck_assert_str_eq(err.text, bad_jobs[_i].error);
    ck_assert_int_eq(err.code, ZEP_EINVAL);
}
END_TEST

START_TEST(formats_and_sets)
{
    static const char *const sets[] = {"train.steps=9", "name=y"}, *const wrong[] = {"train.steps", "train.stops=3"};
    struct zep_error err;
    struct zep_job *job;

    ck_assert_ptr_null(parse("format: zeppelin-job/2.0\n", &err));
    ck_assert_int_eq(err.code, ZEP_EREFUSED);
    ck_assert_ptr_null(parse("[1, 2]\n", &err));
    ck_assert_ptr_null(parse("a: [\n", &err));
    ck_assert_ptr_nonnull(strstr(err.text, "not valid YAML"));
    ck_assert_int_eq(zep_job_load(NULL, sets, 2, &job, &err), ZEP_OK);
    ck_assert_int_eq(job->train.steps, 9);
    ck_assert_str_eq(job->name, "y");
    zep_job_free(job);
    ck_assert_int_eq(zep_job_load(NULL, wrong, 2, &job, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "--set 'train.steps': expected KEY=VALUE, as in train.steps=100\n--set train.stops=3: unknown key 'train.stops' (did you mean 'train.steps'?)");
    ck_assert_int_eq(zep_job_load("/nonexistent/job.yaml", NULL, 0, &job, &err), ZEP_ENOENT);
    ck_assert_int_eq(zep_job_load("/tmp", NULL, 0, &job, &err), ZEP_EINVAL);
}
END_TEST

/* Later sources win: site, user, job, --set. */
START_TEST(origins)
{
    static const char *const sets[] = {"train.warmup=4"};
    char site[400], config[400], job_path[400];
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;
    struct zep_job *job;

    snprintf(site, sizeof site, "%s/site.yaml", dir);
    snprintf(config, sizeof config, "%s/zeppelin", dir);
    snprintf(job_path, sizeof job_path, "%s/job.yaml", dir);
    ck_assert_int_eq(zep_fs_mkdir_p(config, &err), ZEP_OK);
    snprintf(config, sizeof config, "%s/zeppelin/config.yaml", dir);
    setenv("ZEPPELIN_SITE", site, 1);
    setenv("XDG_CONFIG_HOME", dir, 1);
    ck_assert_int_eq(zep_fs_write_atomic(site, "cluster: {account: site, qos: site, partition: site}\n", 53, 0600, &err), ZEP_OK);
    ck_assert_int_eq(zep_fs_write_atomic(config, "cluster: {account: user, qos: user}\n", 36, 0600, &err), ZEP_OK);
    ck_assert_int_eq(zep_fs_write_atomic(job_path, "cluster: {account: job}\n", 24, 0600, &err), ZEP_OK);
    ck_assert_msg(zep_job_load(job_path, sets, 1, &job, &err) == ZEP_OK, "%s", err.text);
    ck_assert_str_eq(job->cluster.partition, "site");
    ck_assert_str_eq(job->cluster.qos, "user");
    ck_assert_str_eq(job->cluster.account, "job");
    ck_assert_int_eq(zep_job_to_yaml(job, 1, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "site.yaml:1"));
    ck_assert_ptr_nonnull(strstr(b.data, "config.yaml:1"));
    ck_assert_ptr_nonnull(strstr(b.data, "--set train.warmup=4"));
    ck_assert_ptr_nonnull(strstr(b.data, "# default"));
    zep_buf_free(&b);
    zep_job_free(job);
}
END_TEST

START_TEST(run_folders)
{
    char *path, file[600];
    struct zep_error err;
    struct zep_outcome o = {.attempt = 2, .status = ZEP_EPEER, .step = 7, .rank = 3, .phase = "forward", .cause = "rank 3 was lost", .checkpoint = "step-5"}, got;

    ck_assert_int_eq(zep_rundir_create(dir, "x", &path, &err), ZEP_OK);
    ck_assert_int_eq(zep_rundir_check(path, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "is no run folder: it has no run.json"));
    ck_assert_int_eq(zep_rundir_check("/nonexistent", &err), ZEP_ENOENT);
    snprintf(file, sizeof file, "%s/plans", path);
    ck_assert(zep_fs_is_dir(file));
    ck_assert_int_lt(zep_outcome_read(path, &got, &err), 0);
    ck_assert_int_eq(zep_outcome_write_first(path, &o, &err), ZEP_OK);
    ck_assert_int_eq(zep_outcome_read(path, &got, &err), ZEP_OK);
    ck_assert(got.attempt == 2 && got.status == ZEP_EPEER && got.step == 7 && got.rank == 3 && !strcmp(got.cause, o.cause) && !strcmp(got.checkpoint, "step-5") && !strcmp(got.phase, "forward"));
    o.rank = 4;
    ck_assert_int_eq(zep_outcome_write_first(path, &o, &err), ZEP_EREFUSED); /* the first one that knows */
    ck_assert_int_eq(zep_outcome_read(path, &got, &err), ZEP_OK);
    ck_assert_int_eq(got.rank, 3);
    o.attempt = 3;
    ck_assert_int_eq(zep_outcome_write_first(path, &o, &err), ZEP_OK);
    free(path);
}
END_TEST

START_TEST(locks)
{
    struct zep_lock *a = NULL, *b = NULL;
    struct zep_error err;
    char file[400], away[400];
    pid_t child;
    int status;

    ck_assert_int_eq(zep_lock_take(dir, 0, &a, &err), ZEP_OK);
    ck_assert_int_eq(zep_lock_confirm(a, &err), ZEP_OK);
    ck_assert_int_eq(zep_lock_take(dir, 0, &b, &err), ZEP_EREFUSED); /* we live */
    ck_assert_ptr_nonnull(strstr(err.text, "is in use by process"));
    ck_assert_int_eq(zep_lock_take(dir, 1, &b, &err), ZEP_OK); /* --break-lock */
    ck_assert_int_eq(zep_lock_confirm(a, &err), ZEP_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "was taken over"));
    zep_lock_release(a); /* not ours any more: stays */
    ck_assert_int_eq(zep_lock_confirm(b, &err), ZEP_OK);
    zep_lock_release(b);
    snprintf(file, sizeof file, "%s/lock", dir);
    ck_assert(!zep_fs_exists(file));
    /* a holder on this host whose process is gone */
    if ((child = fork()) == 0)
        _exit(zep_lock_take(dir, 0, &a, NULL) == ZEP_OK ? 0 : 1);
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    ck_assert(zep_fs_exists(file));
    ck_assert_msg(zep_lock_take(dir, 0, &b, &err) == ZEP_OK, "%s", err.text);
    /* somebody else took it for stale, came too late and puts it back: it is ours all the time */
    snprintf(away, sizeof away, "%s/lock.away", dir);
    ck_assert(rename(file, away) == 0);
    if ((child = fork()) == 0) {
        usleep(100000);
        _exit(rename(away, file));
    }
    ck_assert_msg(zep_lock_confirm(b, &err) == ZEP_OK, "%s", err.text);
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    ck_assert_msg(zep_lock_confirm_token(dir, zep_lock_token(b), &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_lock_confirm_token(dir, "another", &err), ZEP_EREFUSED);
    ck_assert(rename(file, away) == 0);
    ck_assert_int_eq(zep_lock_confirm(b, &err), ZEP_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "lock: the lock is gone"));
    ck_assert(rename(away, file) == 0);
    zep_lock_release(b);
    /* the same job, started again */
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_RESTART_COUNT", "0", 1);
    ck_assert_int_eq(zep_lock_take(dir, 0, &a, &err), ZEP_OK);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    ck_assert_msg(zep_lock_take(dir, 0, &b, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_lock_confirm(a, &err), ZEP_EREFUSED);
    zep_lock_release(a);
    zep_lock_release(b);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_RESTART_COUNT");
}
END_TEST

static void write_text(const char *name, const char *text, int mode)
{
    char file[400];
    struct zep_error err;

    snprintf(file, sizeof file, "%s/%s", dir, name);
    ck_assert_msg(zep_fs_write_atomic(file, text, strlen(text), (unsigned)mode, &err) == ZEP_OK, "%s", err.text);
}

/* A holder on another host is gone by its own controller's word only. */
START_TEST(locks_of_jobs)
{
    static const struct {
        const char *states; /* what squeue says of job 123; NULL: nothing */
        const char *filter, *cluster;
        int rc;
    } cases[] = {
        {"RUNNING", NULL, "here", ZEP_EREFUSED},
        {"RUNNING", "PENDING", "here", ZEP_EREFUSED}, /* the user's filter hides it from a plain squeue */
        {"COMPLETED", NULL, "here", ZEP_OK},
        {"COMPLETED", "PENDING", "here", ZEP_OK},
        {"COMPLETED", NULL, "", ZEP_OK},
        {"COMPLETED", NULL, "there", ZEP_EREFUSED}, /* another cluster's job 123 */
        {"COMPLETED\nRUNNING", NULL, "here", ZEP_EREFUSED},
        {"", NULL, "here", ZEP_EREFUSED},
        {NULL, NULL, "here", ZEP_OK}, /* not known any more */
    };
    char *path = NULL, old[2000];

    snprintf(old, sizeof old, "%s", getenv("PATH"));
    ck_assert_int_gt(asprintf(&path, "%s:%s", dir, old), 0);
    setenv("PATH", path, 1);
    free(path);
    write_text("scontrol", "#!/bin/sh\nprintf 'Configuration\\nClusterName             = here\\nX = y\\n'\n", 0777);
    write_text("squeue",
               "#!/bin/sh\nif [ ! -e \"${0%/*}/states\" ]; then echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; fi\n"
               "case \" $* \" in *' -t all '*) SQUEUE_STATES=$SQUEUE_STATES,all ;; esac\n"
               "case $SQUEUE_STATES in ,all) cat \"${0%/*}/states\" ;; esac\n",
               0777);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_lock *lock;
        struct zep_error err = {0};
        char text[300], file[400];
        int rc;

        snprintf(text, sizeof text, "{\"token\": \"t\", \"host\": \"elsewhere\", \"boot\": \"b\", \"pid\": 1, \"job\": \"123\", \"cluster\": \"%s\", \"restart\": 0}", cases[i].cluster);
        write_text("lock", text, 0600);
        snprintf(file, sizeof file, "%s/states", dir);
        unlink(file);
        if (cases[i].states)
            write_text("states", cases[i].states, 0600);
        if (cases[i].filter)
            setenv("SQUEUE_STATES", cases[i].filter, 1);
        else
            unsetenv("SQUEUE_STATES");
        rc = zep_lock_take(dir, 0, &lock, &err);
        ck_assert_msg(rc == cases[i].rc, "case %zu: %d (%s)", i, rc, rc < 0 ? err.text : "");
        if (rc == ZEP_OK)
            zep_lock_release(lock);
    }
    unsetenv("SQUEUE_STATES");
    setenv("PATH", old, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job files and run folders");
    TCase *t = tcase_create("job");
    SRunner *run;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, good_jobs);
    tcase_add_loop_test(t, bad_job, 0, (int)(sizeof bad_jobs / sizeof bad_jobs[0]));
    tcase_add_test(t, formats_and_sets);
    tcase_add_test(t, origins);
    tcase_add_test(t, run_folders);
    tcase_add_test(t, locks);
    tcase_add_test(t, locks_of_jobs);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
