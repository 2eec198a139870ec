/* Parts of the launcher: what other programs' words mean, the batch script, n-gram marks, reading a run's metrics. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "launcher/corpus.h"
#include "launcher/launch.h"
#include "launcher/ngram.h"
#include "launcher/postmortem.h"
#include "launcher/report.h"
#include "launcher/runfolder.h"
#include "launcher/sbatch.h"
#include "launcher/sweep.h"

/* The best at a point of a sweep is one that memory holds, where there is any. */
START_TEST(sweep_best)
{
    static const struct {
        double step_s[3], mem[3];
        const char *best;
    } table[] = {{{3, 2, 1}, {10, 10, 10}, "c"}, {{3, 2, 1}, {10, 10, 11}, "b"}, {{3, 2, 1}, {10, 11, 12}, "a"}, {{3, 2, 1}, {12, 11, 11}, "c"}, {{1, 0, 2}, {11, 0, 9}, "c"}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct zep_sweep_point point = {.n_dev = 8, .n_node = 1};
        struct zep_sweep *s = calloc(1, sizeof *s);
        struct zep_buf b = ZEP_BUF_INIT;
        char want[32];

        ck_assert_ptr_nonnull(s);
        s->n_axis = s->n_point = 1;
        s->axis[0].n = 1;
        strcpy(s->axis[0].text[0], "7");
        s->point = &point;
        for (s->n_method = 0; s->n_method < 3; s->n_method++) {
            struct zep_sweep_row *r = &point.row[s->n_method];

            snprintf(s->method[s->n_method], sizeof s->method[0], "%c", 'a' + s->n_method);
            r->step_s = table[i].step_s[s->n_method];
            r->mem_bytes = table[i].mem[s->n_method];
            r->mem_limit = 10;
        }
        ck_assert_int_eq(zep_sweep_to_text(s, &b, NULL), ZEP_OK);
        snprintf(want, sizeof want, "  %-14s", table[i].best);
        ck_assert_msg(strstr(strstr(b.data, "\n7"), want) != NULL, "%zu: %s", i, b.data);
        zep_buf_free(&b);
        free(s);
    }
}
END_TEST

START_TEST(postmortem)
{
    static const struct {
        const char *line[4], *want;
    } cases[] = {
        {{"zeppelin-rank-phase: forward", "mpirun noticed that process rank 3 with PID 1234 on node zep1 exited on signal 9 (Killed).", NULL},
         "rank 3 on zep1 was lost: ended by signal 9 (Killed), while the ranks were in phase forward"},
        {{"srun: error: zep2: task 5: Killed", "srun: launch/slurm: _step_signal: Terminating StepId=1.0", NULL}, "rank 5 on zep2 was lost: ended by signal 9 (Killed)"},
        {{"slurmstepd: error: *** STEP 1.0 ON zep0 CANCELLED ***", "srun: error: zep0: tasks 0-1: Segmentation fault", NULL}, "rank 0 on zep0 was lost: ended by signal 11 (Segmentation fault)"},
        {{"------", "There are not enough slots available", "------", NULL}, "the ranks ended without a result (status 1): There are not enough slots available"},
        {{"zeppelin-rank: error: d/shard-0: No space left on device (in phase checkpoint)", "zeppelin-rank: error: another", "Primary job  terminated normally", NULL},
         "d/shard-0: No space left on device (in phase checkpoint)"},
        {{"zeppelin-rank: error: rank 0 on n, in phase forward: MPI", "mpirun noticed that process rank 1 with PID 1 on node n exited on signal 9 (Killed).", NULL},
         "rank 1 on n was lost: ended by signal 9 (Killed)"},
        {{NULL}, "the ranks ended without a result and without a word (status 1)"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_postmortem pm;
        char text[400];

        zep_postmortem_init(&pm);
        for (int k = 0; cases[i].line[k]; k++)
            ck_assert_int_eq(zep_postmortem_line(&pm, cases[i].line[k]), !strncmp(cases[i].line[k], "zeppelin-rank-phase", 19));
        zep_postmortem_text(&pm, 1, text, sizeof text);
        ck_assert_str_eq(text, cases[i].want);
    }
}
END_TEST

START_TEST(batch_script)
{
    static const char *const sets[] = {"cluster.nodes=4", "cluster.devices=8", "cluster.partition=gpu", "cluster.account=a b", "cluster.time=90m", "cluster.gpus_per_node=8", "cluster.cpus_per_rank=6",
                                       "cluster.grace=120s", "name=big"};
    static const char *const dirs[] = {"/data/50%/it's"};
    struct zep_sbatch sb = {.zeppelin = "/usr/bin/zeppelin", .dir = dirs[0], .rundir = dirs, .n_run = 1};
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_job *job;
    struct zep_error err;

    setenv("ZEPPELIN_SITE", "", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    ck_assert_msg(zep_job_load(NULL, sets, sizeof sets / sizeof sets[0], &job, &err) == ZEP_OK, "%s", err.text);
    free(job->cluster.setup); /* which comes from files only */
    job->cluster.setup = strdup("module load mpi");
    sb.job = job;
    ck_assert_msg(zep_sbatch_script(&sb, &b, &err) == ZEP_OK, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(b.data, "#!/bin/sh\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=6\n#SBATCH --gpus-per-node=8\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "#SBATCH --time=0-01:30:00\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "#SBATCH --signal=B:USR1@120\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "50%%")); /* a percent sign is none of Slurm's patterns */
    ck_assert_ptr_nonnull(strstr(b.data, "run='/data/50%/it'\\''s'\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "module load mpi\n"));
    zep_buf_free(&b);
    free(job->cluster.partition);
    job->cluster.partition = strdup("a\nb");
    ck_assert_int_eq(zep_sbatch_script(&sb, &b, &err), ZEP_EINVAL);
    zep_buf_free(&b);
    zep_job_free(job);
}
END_TEST

START_TEST(ngrams)
{
    static struct zep_ngram g;
    static const int32_t doc[] = {'a', 'b', 'a', 'b', 'c'}, test[] = {'a', 'b', 'z'};
    double one = 0, two = 0;
    int64_t n = 0;

    zep_ngram_fit(&g, doc, 5); /* targets b a b c */
    zep_ngram_score(&g, test, 3, &one, &two, &n);
    ck_assert_int_eq(n, 2);
    ck_assert_double_eq_tol(one, -log(3.0 / 260) - log(1.0 / 260), 1e-12);
    ck_assert_double_eq_tol(two, -log(3.0 / 258) - log(1.0 / 258), 1e-12);
}
END_TEST

START_TEST(division)
{
    int held = 0, n = 20000;

    for (int i = 0; i < n; i++) {
        struct zep_corpus_doc d = {NULL, NULL, (uint64_t)i * 0x9E3779B97F4A7C15u, 0};

        held += zep_corpus_is_heldout(&d, 0.05);
    }
    ck_assert_int_gt(held, n / 25);
    ck_assert_int_lt(held, n * 3 / 50);
}
END_TEST

/* A step that a later attempt did again counts once; a torn line is passed over. */
START_TEST(metrics)
{
    static const char text[] =
        "{\"kind\":\"start\",\"attempt\":1,\"step\":0,\"ranks\":2,\"nodes\":1,\"params\":10,\"capacity\":5,\"method\":\"zeppelin\",\"kernels\":\"plain\",\"gemm\":\"x\"}\n"
        "{\"kind\":\"eval\",\"attempt\":1,\"step\":0,\"loss\":5.0,\"targets\":9}\n"
        "{\"kind\":\"step\",\"attempt\":1,\"step\":1,\"loss\":4.0,\"tokens\":100,\"time_s\":1.0,\"zone_tok\":[10,20,70],\"zone_seq\":[1,1,1],\"rank_attn_tok\":[60,40]}\n"
        "{\"kind\":\"step\",\"attempt\":1,\"step\":2,\"loss\":3.5,\"tokens\":100,\"time_s\":1.0,\"zone_tok\":[10,20,70],\"zone_seq\":[1,1,1],\"rank_attn_tok\":[60,40]}\n"
        "{\"kind\":\"step\",\"attempt\":1,\"st\n"
        "{\"kind\":\"start\",\"attempt\":2,\"step\":1,\"ranks\":2,\"nodes\":1}\n"
        "{\"kind\":\"step\",\"attempt\":2,\"step\":2,\"loss\":3.0,\"tokens\":100,\"time_s\":3.0,\"zone_tok\":[10,20,70],\"zone_seq\":[1,1,1],\"rank_attn_tok\":[50,50]}\n"
        "{\"kind\":\"step\",\"attempt\":2,\"step\":3,\"lo";
    char dir[300], file[400];
    const char *base = getenv("ZEP_BUILDDIR");
    struct zep_report *r;
    struct zep_report_sums s;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err;

    snprintf(dir, sizeof dir, "%s/report-test-%ld", base ? base : "/tmp", (long)getpid());
    ck_assert_int_eq(zep_fs_mkdir_p(dir, &err), ZEP_OK);
    snprintf(file, sizeof file, "%s/run.json", dir);
    ck_assert_int_eq(zep_fs_write_atomic(file, "{}", 2, 0600, &err), ZEP_OK);
    snprintf(file, sizeof file, "%s/job.yaml", dir);
    ck_assert_int_eq(zep_fs_write_atomic(file, "name: x\n", 8, 0600, &err), ZEP_OK);
    snprintf(file, sizeof file, "%s/metrics.jsonl", dir);
    ck_assert_int_eq(zep_fs_write_atomic(file, text, sizeof text - 1, 0600, &err), ZEP_OK);
    ck_assert_msg(zep_report_load(dir, &r, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(r->n_step, 2);
    ck_assert(r->step[1].loss == 3.0 && r->attempt == 2 && r->n_torn == 2);
    zep_report_sum(r, &s);
    ck_assert(s.tokens == 200 && s.time_s == 4.0 && s.zone_tok[2] == 140);
    ck_assert_int_eq(zep_report_text(r, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "held-out loss  5.0000 at step 0 over 9 targets, not evaluated since\n"));
    ck_assert_ptr_null(strstr(b.data, "the model is"));
    ck_assert_ptr_nonnull(strstr(b.data, "\na step held 1% of train.tokens (8192) on average: it ends at the first document that does not fit\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "inter-node            2          140    70.0%"));
    zep_buf_free(&b);
    ck_assert_int_eq(zep_report_json(r, &b, &err), ZEP_OK);
    zep_buf_free(&b);
    ck_assert_int_eq(zep_report_write(r, &err), ZEP_OK);
    snprintf(file, sizeof file, "%s/report/loss.svg", dir);
    ck_assert(zep_fs_exists(file));
    zep_report_free(r);
    zep_fs_remove_tree(dir, NULL);
}
END_TEST

START_TEST(run_json)
{
    static const struct {
        const char *text;
        int rc;
        const char *message;
    } cases[] = {
        {"{\"format\": \"zeppelin-run/1.0\", \"attempts\": [{}, {}]}", ZEP_OK, NULL},
        {"{\"format\": \"zeppelin-run/1.7\", \"more\": 1}", ZEP_OK, NULL},
        {"[]", ZEP_EINVAL, "run.json: expected a JSON object"},
        {"{\"attempts\": []}", ZEP_EINVAL, "run.json: format '': expected zeppelin-run/1.x"},
        {"{\"format\": \"zeppelin-run/9.0\"}", ZEP_EREFUSED, "run.json: format zeppelin-run/9.0 is newer than this program, which reads zeppelin-run/1.x"},
        {"{\"format\": \"zeppelin-run/1.0\", \"attempts\": 5}", ZEP_EINVAL, "run.json: attempts: expected a list"},
        {"{", ZEP_EINVAL, "run.json:1: string or '}' expected near end of file"},
    };
    const char *base = getenv("ZEP_BUILDDIR");
    char dir[300], file[400];
    struct zep_error err;

    snprintf(dir, sizeof dir, "%s/run-test-%ld", base ? base : "/tmp", (long)getpid());
    snprintf(file, sizeof file, "%s/run.json", dir);
    ck_assert_int_eq(zep_fs_mkdir_p(dir, &err), ZEP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int attempt = 0, rc;

        ck_assert_int_eq(zep_fs_write_atomic(file, cases[i].text, strlen(cases[i].text), 0600, &err), ZEP_OK);
        rc = zep_runfolder_add_attempt(dir, "local", "", &attempt, &err);
        ck_assert_msg(rc == cases[i].rc, "case %zu: %d", i, rc);
        if (rc < 0)
            ck_assert_msg(strlen(err.text) > strlen(dir) && !strcmp(err.text + strlen(dir) + 1, cases[i].message), "%s", err.text);
        else
            ck_assert_int_eq(attempt, i == 0 ? 3 : 1);
    }
    zep_fs_remove_tree(dir, NULL);
}
END_TEST

START_TEST(environment)
{
    static const char single_copy[] = "OMPI_MCA_btl_vader_single_copy_mechanism";

    unsetenv(single_copy);
    zep_launch_env(ZEP_WHERE_SLURM);
    ck_assert_ptr_null(getenv(single_copy)); /* a cluster's nodes keep their fast copies */
    zep_launch_env(ZEP_WHERE_LOCAL);
    ck_assert_str_eq(getenv(single_copy), "none");
    setenv(single_copy, "cma", 1);
    zep_launch_env(ZEP_WHERE_LOCAL);
    ck_assert_str_eq(getenv(single_copy), "cma");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("launcher: parts");
    TCase *t = tcase_create("parts");
    SRunner *run;
    int failed;

    tcase_add_test(t, sweep_best);
    tcase_add_test(t, postmortem);
    tcase_add_test(t, batch_script);
    tcase_add_test(t, ngrams);
    tcase_add_test(t, division);
    tcase_add_test(t, metrics);
    tcase_add_test(t, environment);
    tcase_add_test(t, run_json);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
