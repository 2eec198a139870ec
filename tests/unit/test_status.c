/* What status is made of: squeue's lines, Slurm's words, a glance at a run folder, spans of time. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "launcher/backend.h"
#include "launcher/glance.h"
#include "launcher/slurm_jobs.h"
#include "launcher/sbatch.h"
#include "launcher/status.h"
#include "launcher/submit.h"
#include "launcher/variants.h"

START_TEST(squeue_lines)
{
    static const char text[] = "CLUSTER: other\n"
                               "12|12|RUNNING|me|2026-12-02T18:00:00|2026-12-02T18:00:05|2026-12-02T19:00:05|zep[0-1]|None|/home/me/runs/a|b/batch.sh\n"
                               "13_4|17|PENDING|me|2026-12-02T18:00:00|N/A|N/A||Resources|/x/batch.sh\n"
                               "torn|line\n";
    struct zep_slurm_jobs jobs;
    struct zep_error err;

    ck_assert_int_eq(zep_slurm_jobs_parse(strdup(text), &jobs, &err), ZEP_OK);
    ck_assert_int_eq(jobs.n, 2);
    ck_assert_str_eq(jobs.job[0].id, "12");
    ck_assert_str_eq(jobs.job[0].nodes, "zep[0-1]");
    ck_assert_str_eq(jobs.job[0].command, "/home/me/runs/a|b/batch.sh");
    ck_assert(jobs.job[0].end - jobs.job[0].start == 3600.0);
    ck_assert_str_eq(jobs.job[1].id, "13_4");
    ck_assert_str_eq(jobs.job[1].raw, "17");
    ck_assert_str_eq(jobs.job[1].reason, "Resources");
    ck_assert(jobs.job[1].start == 0.0);
    zep_slurm_jobs_free(&jobs);
}
END_TEST

START_TEST(words)
{
    static const struct {
        const char *reason, *want;
    } cases[] = {
        {"Resources", "it is next, and waits for nodes to become free (Resources)"},
        {"ReqNodeNotAvail, UnavailableNodes:zep[0-3]", "a node that it asks for is down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:zep[0-3])"},
        {"launch failed requeued held", "its launch failed, and it is held (scontrol release, once the node is well) (launch failed requeued held)"},
        {"QOSMaxJobsPerUserLimit", "its user has as many jobs as the quality of service allows (QOSMaxJobsPerUserLimit)"},
        {"QOSMaxCpuPerUserLimit", "it is at a limit of its quality of service (QOSMaxCpuPerUserLimit)"},
        {"AssocGrpCpuLimit", "all jobs of its account together are at their limit (AssocGrpCpuLimit)"},
        {"SomethingNew", "Slurm's reason is SomethingNew"},
    };
    static const struct {
        const char *state;
        int status;
    } ends[] = {{"CANCELLED", 143}, {"FAILED", 1}, {"OUT_OF_MEMORY", 1}, {"TIMEOUT", 76}, {"NODE_FAIL", 76}, {"COMPLETED", 76}};
    char text[300];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        zep_slurm_why(cases[i].reason, text, sizeof text);
        ck_assert_str_eq(text, cases[i].want);
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        ck_assert_int_eq(zep_slurm_exit_status(ends[i].state), ends[i].status);
    ck_assert_str_eq(zep_slurm_ended("TIMEOUT"), "the time limit ended it");
}
END_TEST

START_TEST(spans)
{
    static const struct {
        double s;
        const char *want;
    } cases[] = {{-3, "0 s"}, {0, "0 s"}, {119, "119 s"}, {120, "2 min"}, {7199, "120 min"}, {7200, "2 h 0 min"}, {4.7 * 3600, "4 h 42 min"}, {200000, "2 d 7 h"}};
    char buf[40];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(zep_format_span(cases[i].s, buf), cases[i].want);
}
END_TEST

START_TEST(partitions)
{
    static const char sinfo[] = "main*|1:00:00|1|4|gpu:h200:2(S:0-1)|down*\nmain*|1:00:00|3|4|gpu:h200:2|idle\nbig|infinite|2|64+|(null)|mixed\nold|2-00:00:00|1|8|gpu:4|drained\n";
    char text[400];

    zep_submit_fits(sinfo, "", text, sizeof text);
    ck_assert_str_eq(text, "main (the default): 3 nodes of 4 cores and 2 GPUs (h200), for at most 60 min");
    zep_submit_fits(sinfo, "big", text, sizeof text);
    ck_assert_str_eq(text, "big: 2 nodes of 64 cores");
    zep_submit_fits(sinfo, "old", text, sizeof text);
    ck_assert_str_eq(text, "old: 0 nodes of 8 cores and 4 GPUs, for at most 2 d 0 h");
    zep_submit_fits(sinfo, "none", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "; big: "));
    zep_submit_fits("nonsense\n|||\n", "", text, sizeof text);
    ck_assert_str_eq(text, "");
    ck_assert(zep_submit_limit_s(sinfo, "") == 3600.0);
    ck_assert(zep_submit_limit_s(sinfo, "big") == 0.0);
}
END_TEST

START_TEST(sweeps)
{
    static const char *const two[] = {"train.lr=1e-3,3e-3", "train.seed=1,2,3"}, *const none[] = {NULL};
    static const struct {
        const char *sweep[2], *error;
    } bad[] = {
        {{"train.lr", NULL}, "--sweep 'train.lr': expected KEY=VALUE,VALUE,..., as in train.lr=0.001,0.003"},
        {{"train.lr=1,", NULL}, "--sweep 'train.lr=1,': an empty value"},
        {{"train.lr=1", "train.lr=2"}, "--sweep train.lr: given twice"},
        {{"cluster.nodes=1,2", NULL}, "--sweep cluster.nodes: the jobs of a sweep are one array, which asks Slurm for the same: expected a key of model, data, train, plan, checkpoint or log"},
    };
    struct zep_variants v;
    struct zep_error err;

    ck_assert_int_eq(zep_variants(two, 2, &v, &err), ZEP_OK);
    ck_assert_int_eq(v.n, 6);
    ck_assert_str_eq(v.set[0], "train.lr=1e-3");
    ck_assert_str_eq(v.set[1], "train.seed=1");
    ck_assert_str_eq(v.set[2 * 5], "train.lr=3e-3");
    ck_assert_str_eq(v.set[2 * 5 + 1], "train.seed=3");
    zep_variants_free(&v);
    ck_assert_int_eq(zep_variants(none, 0, &v, &err), ZEP_OK);
    ck_assert_int_eq(v.n, 1);
    zep_variants_free(&v);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(zep_variants(bad[i].sweep, bad[i].sweep[1] ? 2 : 1, &v, &err), ZEP_EINVAL);
        ck_assert_str_eq(err.text, bad[i].error);
    }
}
END_TEST

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[500];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(zep_fs_write_atomic(path, text, strlen(text), 0600, NULL), ZEP_OK);
}

/* Steps of an earlier attempt do not count; a tail that begins within a line, and a torn last line, are read all the same. */
START_TEST(glance)
{
    const char *base = getenv("ZEP_BUILDDIR");
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_glance g;
    struct zep_error err;
    char dir[300], sub[400];

    snprintf(dir, sizeof dir, "%s/glance.XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    write_text(dir, "run.json", "{\"format\": \"zeppelin-run/1.0\", \"id\": \"x-1\", \"name\": \"x\", \"attempts\": [{\"attempt\": 1, \"backend\": \"local\"}, {\"attempt\": 2, \"backend\": \"local\", \"host\": \"h\"}]}");
    write_text(dir, "job.yaml", "train: {steps: 4000}\ncheckpoint: {every: 50}\n");
    for (int i = 1; i <= 2000; i++)
        zep_buf_printf(&b, "{\"kind\":\"step\",\"attempt\":1,\"step\":%d,\"loss\":4.0,\"tokens\":100,\"time_s\":1.0,\"rank_pairs\":[1,2,3,4,5,6,7,8]}\n", i);
    zep_buf_puts(&b, "{\"kind\":\"start\",\"attempt\":2,\"step\":1000,\"ranks\":4,\"nodes\":2}\n");
    for (int i = 1001; i <= 1030; i++)
        zep_buf_printf(&b, "{\"kind\":\"step\",\"attempt\":2,\"step\":%d,\"loss\":3.5,\"tokens\":100,\"time_s\":%s}\n", i, i > 1010 ? "0.5" : "9");
    zep_buf_puts(&b, "{\"kind\":\"step\",\"attempt\":2,\"st");
    write_text(dir, "metrics.jsonl", b.data);
    write_text(dir, "outcome.json", "{\"format\": \"zeppelin-outcome/1.0\", \"attempt\": 1, \"status\": \"stopped\", \"step\": 2000}");
    snprintf(sub, sizeof sub, "%s/checkpoints/step-1000", dir);
    ck_assert_int_eq(zep_fs_mkdir_p(sub, NULL), ZEP_OK);
    write_text(sub, "MANIFEST", "x");
    setenv("ZEPPELIN_SITE", "", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    ck_assert_msg(zep_glance(dir, &g, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(g.attempt, 2);
    ck_assert_int_eq(g.step, 1030);
    ck_assert_int_eq(g.ranks, 4);
    ck_assert(g.step_s == 0.5);
    ck_assert(g.tokens_s == 200.0);
    ck_assert_str_eq(g.checkpoint, "step-1000");
    ck_assert_int_eq(zep_glance_next_checkpoint(&g), 1050);
    ck_assert(zep_glance_left_s(&g, 1050) == 10.0);
    ck_assert(!g.have_outcome); /* that of the first attempt says nothing of the second */
    g.step = 3990;
    ck_assert_int_eq(zep_glance_next_checkpoint(&g), 4000);
    g.step = 4000;
    ck_assert_int_eq(zep_glance_next_checkpoint(&g), -1);
    zep_buf_free(&b);
    zep_fs_remove_tree(dir, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("status");
    TCase *tc = tcase_create("all");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(tc, squeue_lines);
    tcase_add_test(tc, words);
    tcase_add_test(tc, spans);
    tcase_add_test(tc, partitions);
    tcase_add_test(tc, sweeps);
    tcase_add_test(tc, glance);
    suite_add_tcase(s, tc);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
