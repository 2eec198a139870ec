/* The job file (all mistakes at once, with line and nearest name), run folders, their lock and outcome. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/appear.h"
#include "common/arena.h"
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
    struct zep_job *job = parse("name: x\ntrain: {steps: 7, tokens: 8k, lr: 1e-2}\ncluster: {time: '01:30:00', nodes: auto, timeout: 90, env: {B: \"x y\", A: '$A'}, secrets: {T: {file: /s}, U: {env: V}}}\nmodel: {tied: false}\n", &err), *back;
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
    {"cluster: {where: moon}\n", "job.yaml:1: cluster.where: 'moon': expected one of auto, local, slurm, k8s"},
    {"model: {tied: yes}\n", "job.yaml:1: model.tied: 'yes': expected true or false"},
    {"model: {heads: 6, kv_heads: 4}\n", "job.yaml:1: model.kv_heads: '4': expected a divisor of model.heads (6)"},
    {"model: {head_dim: 20}\n", "job.yaml:1: model.head_dim: '20': expected a multiple of 8"},
    {"train: {tokens: 1k}\n", "job.yaml:1: train.tokens: '1024': expected at least data.context (4096), so that every document fits into a step"},
    {"name: a/b\n", "job.yaml:1: name: 'a/b': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"},
    {"train: {lr: 0.001, min_lr: 0.01}\n", "job.yaml:1: train.min_lr: '0.01': expected at most train.lr (0.001)"},
    {"train: {steps: 5}\nmodel: {hiden: 4}\nplan: {remap: 2}\n", "job.yaml:2: unknown key 'model.hiden' (did you mean 'model.hidden'?)\njob.yaml:3: plan.remap: '2': expected true or false"},
    {"name: a/b\ntrain: {step: 5, min_lr: 1}\nmodel: {head_dim: 20}\n",
     "job.yaml:2: unknown key 'train.step' (did you mean 'train.steps'?)\njob.yaml:1: name: 'a/b': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit\n"
     "job.yaml:3: model.head_dim: '20': expected a multiple of 8\njob.yaml:2: train.min_lr: '1': expected at most train.lr (0.003)"},
    {"cluster: {env: 5}\n", "job.yaml:1: cluster.env: expected names below it, as cluster.env.NAME"},
    {"cluster: {env: [a]}\n", "job.yaml:1: cluster.env: expected names and values below it"},
    {"cluster: {env: {A: [x]}}\n", "job.yaml:1: cluster.env.A: expected one value"},
    {"cluster:\n  env:\n    1A: x\n", "job.yaml:3: cluster.env.1A: '1A' is no name of an environment variable: expected letters, digits and '_', not beginning with a digit"},
    {"cluster: {env: {A: \"x\\ny\"}}\n", "job.yaml:1: cluster.env.A: a control character, or no valid UTF-8: expected text"},
    {"cluster: {env: {MY_API_KEY: x}}\n",
     "job.yaml:1: cluster.env.MY_API_KEY: looks like a secret, and would be written into the run folder: expected it in cluster.secrets, as MY_API_KEY: {env: NAME} or {file: PATH}"},
    {"cluster: {secrets: {T: hunter2}}\n", "job.yaml:1: cluster.secrets.T: a secret is named here, never written: expected T: {env: NAME}, {file: PATH} or {k8s: SECRET/KEY}"},
    {"cluster: {secrets: {T: {vault: x}}}\n", "job.yaml:1: cluster.secrets.T: expected {env: NAME}, {file: PATH} or {k8s: SECRET/KEY}"},
    {"cluster: {secrets: {T: {env: 'a b'}}}\n", "job.yaml:1: cluster.secrets.T: env: 'a b': expected the name of an environment variable"},
    {"cluster: {secrets: {T: {file: t}}}\n", "job.yaml:1: cluster.secrets.T: file: 't': expected an absolute path"},
    {"cluster: {secrets: {T: {k8s: t}}}\n", "job.yaml:1: cluster.secrets.T: k8s: 't': expected SECRET/KEY, the name of a Kubernetes secret and of a key in it"},
    {"cluster: {env: {T: x}, secrets: {T: {env: T}}}\n", "job.yaml:1: cluster.secrets.T: cluster.env has a variable of that name, too: expected one of them"},
    {"cluster: {where: slurm, secrets: {T: {k8s: t/k}}}\n", "job.yaml:1: cluster.secrets.T: 'k8s:t/k': a Kubernetes secret, but cluster.where is slurm: expected {env: NAME} or {file: PATH}"},
    {"cluster: {where: k8s, secrets: {T: {env: T}}}\n", "job.yaml:1: cluster.secrets.T: 'env:T': pods get secrets from the cluster: expected {k8s: SECRET/KEY}"},
    {"cluster: {export: A=1}\n", "job.yaml:1: cluster.export: 'A=1': expected NONE, ALL, or names of variables divided by commas (values belong into cluster.env)"},
    {"cluster: {export: 'NONE,A'}\n", "job.yaml:1: cluster.export: 'NONE,A': expected NONE, ALL, or names of variables divided by commas (values belong into cluster.env)"},
    {"cluster: {time: 90s, grace: 40s}\n",
     "job.yaml:1: cluster.time is 90 s and cluster.grace 40 s: expected a time limit above 100 s, for Slurm tells of its end up to a minute before the grace begins"},
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

static void write_file(const char *name, const char *text)
{
    char file[400];
    struct zep_error err;

    snprintf(file, sizeof file, "%s/%s", dir, name);
    ck_assert_msg(zep_fs_write_atomic(file, text, strlen(text), 0600, &err) == ZEP_OK, "%s", err.text);
}

/* Later sources win: defaults, site, profile, user, job, --set. NULL: no such file. */
static const struct {
    const char *site, *user, *job, *sets[3];
    const char *want; /* lines that `job show` has, or the error; DIR is the folder */
} layers[] = {
    {NULL, NULL, "name: a\ncluster:\n  nodes: foo\n  nodes: 3\n  nodes: 4\nname: b\nbogus: 1\n", {NULL},
     "!DIR/job.yaml:4: duplicate key 'nodes' (first on line 3)\nDIR/job.yaml:5: duplicate key 'nodes' (first on line 4)\nDIR/job.yaml:6: duplicate key 'name' (first on line 1)\nDIR/job.yaml:3: cluster.nodes: 'foo': expected a whole number, or auto\nDIR/job.yaml:7: unknown key 'bogus'"},
    {"cluster: {account: site, qos: site, partition: site}\n", "cluster: {account: user, qos: user}\n", "cluster: {account: job}\n", {"train.warmup=4"},
     "  partition: site                       # DIR/site.yaml:1\n  account: job                          # DIR/job.yaml:1\n  qos: user                             # DIR/zeppelin/config.yaml:1\n"},
    {"profile: a\ncluster: {qos: q}\nprofiles:\n  a:\n    cluster: {partition: pa, env: {X: a, Y: a}}\n  b: {cluster: {partition: pb}}\n", NULL, "cluster: {env: {Y: j}}\n", {NULL},
     "  profile: a                            # DIR/site.yaml:1\n|  partition: pa                         # DIR/site.yaml:5 (profile a)\n|  qos: q                                # DIR/site.yaml:2\n"
     "|  env:\n    X: a                               # DIR/site.yaml:5 (profile a)\n    \"Y\": j                               # DIR/job.yaml:1\n"},
    {"profile: a\nprofiles:\n  a: {cluster: {partition: pa}}\n  b: {cluster: {partition: pb}}\n", "cluster: {profile: b}\n", "train: {steps: 5}\n", {NULL},
     "  profile: b                            # DIR/zeppelin/config.yaml:1\n|  partition: pb                         # DIR/site.yaml:4 (profile b)\n"},
    {"profiles:\n  a: {cluster: {partition: pa}}\n  b: {cluster: {partition: pb}}\n", "cluster: {profile: b}\n", "cluster: {profile: b}\n", {"cluster.profile=a"},
     "  profile: a                            # --set cluster.profile=a\n|  partition: pa                         # DIR/site.yaml:2 (profile a)\n"},
    {"profiles:\n  a: {}\n  b: {}\n", NULL, "cluster:\n  profile: c\n", {NULL}, "!DIR/job.yaml:2: cluster.profile: 'c': expected one of the profiles of DIR/site.yaml: a or b"},
    {NULL, NULL, "cluster:\n  profile: c\n", {NULL}, "!DIR/job.yaml:2: cluster.profile: 'c': there is no site file, and so no profile"},
    {"train: {steps: 5}\n", NULL, "cluster:\n  profile: c\n", {NULL}, "!DIR/job.yaml:2: cluster.profile: 'c': DIR/site.yaml has no profiles"},
    /* locks */
    {"cluster: {partition: p}\nlocked: [cluster.partition,\n  cluster.qos, cluster.env]\n", NULL, "cluster:\n  partition: q\n  qos: x\n  env: {A: b}\n", {"cluster.partition=p"},
     "!DIR/job.yaml:2: cluster.partition: 'q': locked to 'p' by DIR/site.yaml:2: take it out\nDIR/job.yaml:3: cluster.qos: 'x': locked to '' by DIR/site.yaml:3: take it out\n"
     "DIR/job.yaml:4: cluster.env.A: 'b': locked to '' by DIR/site.yaml:3: take it out"},
    {"contact: hpc@site\nprofile: g\nprofiles:\n  g:\n    cluster: {gpus_per_node: 8}\n    locked: [cluster.gpus_per_node]\n", NULL, "train: {steps: 3}\n", {"cluster.gpus_per_node=9"},
     "!--set cluster.gpus_per_node=9: cluster.gpus_per_node: '9': locked to '8' by DIR/site.yaml:6 (profile g): take it out, or ask hpc@site"},
    {"cluster: {env: {A: b, C: d}}\nlocked: [cluster.env.A]\n", NULL, "cluster: {env: {A: b, C: e}}\n", {NULL}, "  env:\n    A: b                               # DIR/job.yaml:1\n    C: e                               # DIR/job.yaml:1\n"},
    {"locked: [cluster.partitions]\nprofiles: {}\n", NULL, "train: {steps: 3}\n", {NULL}, "!DIR/site.yaml:1: unknown key 'cluster.partitions' (did you mean 'cluster.partition'?)"},
    {"profile: a\nlocked: [cluster.profile]\nprofiles:\n  a: {cluster: {partition: pa}}\n  b: {}\n", NULL, "cluster: {profile: b}\n", {NULL},
     "!DIR/job.yaml:1: cluster.profile: 'b': locked to 'a' by DIR/site.yaml:2: take it out"},
    {"profile: a\nlocked: [cluster.profile]\nprofiles:\n  a: {cluster: {partition: pa}}\n", NULL, "cluster: {profile: a}\n", {NULL}, "  partition: pa # DIR/site.yaml:4 (profile a)\n"},
    {"locked: yes\n", NULL, "train: {steps: 3}\n", {NULL}, "!DIR/site.yaml:1: locked: expected a list of keys, as [cluster.account]"},
    {"format: zeppelin-site/2.0\n", NULL, "train: {steps: 3}\n", {NULL}, "!the site file that ZEPPELIN_SITE names: DIR/site.yaml:1: format: "},
    {"clutser: {partition: x}\n", NULL, "profile: x\n", {NULL}, "!DIR/site.yaml:1: unknown key 'clutser': `zeppelin job init` prints all keys\nDIR/job.yaml:1: unknown key 'profile'"},
    /* nothing is expanded, and it is said */
    {NULL, NULL, "run_root: $SCRATCH/runs\ndata: {train: '~/set', heldout: '${D}/x'}\ncluster:\n  mpi_args: --x $Y\n  setup: cd $HOME\n  env: {P: '$Q'}\n", {NULL},
     "!DIR/job.yaml:1: run_root: '$SCRATCH/runs': $SCRATCH is not expanded: write the value out, or let your shell do it: --set run_root=\"$SCRATCH/runs\"\n"
     "DIR/job.yaml:2: data.train: '~/set': '~' is not expanded: write the path out, or let your shell do it: --set data.train=\"$HOME/set\"\n"
     "DIR/job.yaml:2: data.heldout: '${D}/x': ${D} is not expanded: write the value out, or let your shell do it: --set data.heldout=\"${D}/x\"\n"
     "DIR/job.yaml:4: cluster.mpi_args: '--x $Y': $Y is not expanded: write the value out, or let your shell do it: --set cluster.mpi_args=\"--x $Y\"\n"
     "DIR/job.yaml:6: cluster.env.P: '$Q': $Q is not expanded: write the value out, or set the variable in cluster.setup, which a shell runs"},
    {NULL, NULL, "run_root: 'a $(b) 5$ $1 `c`'\n", {NULL}, "run_root: a $(b) 5$ $1 `c`           # DIR/job.yaml:1\n"},
    {NULL, NULL, "cluster:\n  where: local\n  gpus_per_node: 2\n", {NULL},
     "!DIR/job.yaml:3: cluster.gpus_per_node: '2': GPUs are asked of Slurm or Kubernetes, but cluster.where is local: take it out (cluster.devices says how many ranks a node)"},
    {"cluster: {gpus_per_node: 2}\n", NULL, "cluster: {where: local}\n", {NULL}, "  gpus_per_node: 2                      # DIR/site.yaml:1\n"},
    {NULL, NULL, "train: {steps: 3}\n", {"cluster.setup=touch bad"}, "!--set cluster.setup: it is code, and comes from files only: expected it in the job file, or in the site's"},
    {NULL, NULL, "train: {steps: 3}\n", {"cluster.env.HF_TOKEN=hunter$2", "cluster.token=hunter2"},
     "!--set cluster.env.HF_TOKEN: cluster.env.HF_TOKEN: looks like a secret, and would be written into the run folder: expected it in cluster.secrets, as HF_TOKEN: {env: NAME} or {file: PATH}\n--set cluster.token: unknown key 'cluster.token'"},
    {NULL, NULL, "train: {steps: 3}\n", {"cluster.secrets.T=hunter2", "cluster.secret.T=hunter2"},
     "!--set cluster.secrets.T: cluster.secrets.T: a secret is named here, never written: expected T: {env: NAME}, {file: PATH} or {k8s: SECRET/KEY}\n--set cluster.secret.T: unknown key 'cluster.secret.T'"},
};

/* text with DIR in place of the folder's name */
static void neutral(const char *text, struct zep_buf *out)
{
    for (const char *p; (p = strstr(text, dir)); text = p + strlen(dir)) {
        zep_buf_add(out, text, (size_t)(p - text));
        zep_buf_puts(out, "DIR");
    }
    zep_buf_puts(out, text);
}

static char *squeeze(const char *text, size_t len)
{
    char *out = zep_calloc(len + 1, 1);

    for (size_t i = 0, n = 0; i < len; i++)
        if (text[i] != ' ' || !n || out[n - 1] != ' ')
            out[n++] = text[i];
    return out;
}

/* Every part of want, divided by '|', is in text; how many blanks there are does not count. */
static void ck_has(const char *text, const char *want)
{
    char *flat = squeeze(text, strlen(text));

    while (*want) {
        size_t len = strcspn(want, "|");
        char *part = squeeze(want, len);

        ck_assert_msg(strstr(flat, part) != NULL, "'%s' is not in:\n%s", part, text);
        free(part);
        want += len + (want[len] == '|');
    }
    free(flat);
}

START_TEST(layers_of_values)
{
    struct zep_buf b = ZEP_BUF_INIT, got = ZEP_BUF_INIT;
    char path[400];
    struct zep_error err = {0};
    struct zep_job *job = NULL;
    int n_set = 0, rc;

    snprintf(path, sizeof path, "%s/zeppelin", dir);
    ck_assert_int_eq(zep_fs_mkdir_p(path, &err), ZEP_OK);
    setenv("XDG_CONFIG_HOME", dir, 1);
    if (layers[_i].site) {
        write_file("site.yaml", layers[_i].site);
        snprintf(path, sizeof path, "%s/site.yaml", dir);
        setenv("ZEPPELIN_SITE", path, 1);
    }
    if (layers[_i].user)
        write_file("zeppelin/config.yaml", layers[_i].user);
    write_file("job.yaml", layers[_i].job);
    snprintf(path, sizeof path, "%s/job.yaml", dir);
    while (n_set < 3 && layers[_i].sets[n_set])
        n_set++;
    rc = zep_job_load(path, layers[_i].sets, n_set, &job, &err);
    if (layers[_i].want[0] == '!') {
        ck_assert_msg(rc < 0, "case %d was taken", _i);
        neutral(err.text, &got);
        ck_has(got.data, layers[_i].want + 1);
        zep_buf_free(&got);
        return;
    }
    ck_assert_msg(rc == ZEP_OK, "case %d: %s", _i, err.text);
    ck_assert_int_eq(zep_job_to_yaml(job, 1, &b, &err), ZEP_OK);
    neutral(b.data, &got);
    ck_has(got.data, layers[_i].want);
    zep_buf_free(&b);
    zep_buf_free(&got);
    /* the same as JSON, and as a run folder keeps it */
    ck_assert_int_eq(zep_job_to_json(job, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "\"from\": \"default\""));
    zep_buf_free(&b);
    ck_assert_int_eq(zep_job_to_yaml(job, 0, &b, &err), ZEP_OK);
    zep_job_free(job);
    write_file("resolved.yaml", b.data);
    snprintf(path, sizeof path, "%s/resolved.yaml", dir);
    ck_assert_msg(zep_job_load_run(path, NULL, 0, &job, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_job_to_yaml(job, 0, &got, &err), ZEP_OK);
    ck_assert_str_eq(b.data, got.data);
    zep_job_free(job);
    zep_buf_free(&b);
    zep_buf_free(&got);
}
END_TEST

/* The job of a run folder: neither site nor user change it; what is locked stays so. */
START_TEST(runs_keep_their_job)
{
    static const char *const locked[] = {"cluster.partition=other"}, *const free_one[] = {"train.steps=9"}, *const profile[] = {"cluster.profile=b"};
    char site[400], path[400];
    struct zep_error err;
    struct zep_job *job;

    snprintf(site, sizeof site, "%s/site.yaml", dir);
    snprintf(path, sizeof path, "%s/run.yaml", dir);
    setenv("ZEPPELIN_SITE", site, 1);
    write_file("site.yaml", "cluster: {qos: site}\nprofiles: {a: {locked: [cluster.partition]}}\n");
    write_file("run.yaml", "run_root: /x/$HOME\ncluster: {partition: mine, profile: a}\n");
    ck_assert_msg(zep_job_load_run(path, free_one, 1, &job, &err) == ZEP_OK, "%s", err.text);
    ck_assert_str_eq(job->cluster.qos, "");
    ck_assert_str_eq(job->run_root, "/x/$HOME");
    ck_assert_int_eq(job->train.steps, 9);
    zep_job_free(job);
    ck_assert_int_eq(zep_job_load_run(path, locked, 1, &job, &err), ZEP_EINVAL);
    ck_has(err.text, "--set cluster.partition=other: cluster.partition: 'other': locked to 'mine' by ");
    ck_assert_int_eq(zep_job_load_run(path, profile, 1, &job, &err), ZEP_EINVAL);
    ck_has(err.text, "a run that is resumed keeps its values");
    write_file("site.yaml", "profiles: [\n"); /* of no matter to a run that is only resumed */
    ck_assert_msg(zep_job_load_run(path, NULL, 0, &job, &err) == ZEP_OK, "%s", err.text);
    zep_job_free(job);
    setenv("ZEPPELIN_SITE", "/nonexistent/site.yaml", 1);
    ck_assert_int_eq(zep_job_load(path, NULL, 0, &job, &err), ZEP_ENOENT);
    ck_assert_str_eq(err.text, "the site file that ZEPPELIN_SITE names: /nonexistent/site.yaml: No such file or directory");
}
END_TEST

/* More mistakes than an error holds: the first ones whole, and how many more. */
START_TEST(many_mistakes)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_error err;
    const char *more;

    ck_assert_int_eq(zep_mistakes_error(&m, &err), ZEP_OK);
    for (int i = 0; i < 100; i++)
        zep_mistakes_add(&m, i == 7 ? "a.b" : NULL, i ? ZEP_EIO : ZEP_EINVAL, "mistake %d%60s", i, "");
    ck_assert_int_eq(zep_mistakes_error(&m, &err), ZEP_EINVAL);
    more = strrchr(err.text, '\n');
    ck_assert_ptr_nonnull(more);
    ck_assert_str_eq(more, "\n... and 74 more: `zeppelin job check` tells all");
    ck_assert(zep_mistakes_doubt(&m, "a.b") && zep_mistakes_doubt(&m, "a.") && !zep_mistakes_doubt(&m, "a.bc") && !zep_mistakes_doubt(&m, "b") && !zep_mistakes_doubt(&m, "a"));
    zep_mistakes_free(&m);
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

/* Files of another node that show up late, or first as they were before. */
START_TEST(late_files)
{
    struct zep_error err;
    uint64_t digest, other;
    char path[400], host[256] = "";
    pid_t child;
    int status;

    write_file("job.yaml", "name: new\n");
    write_file("topology.yaml", "nodes: []\n");
    ck_assert_int_eq(zep_appear_digest(dir, &digest, &err), ZEP_OK);
    ck_assert_msg(zep_appear_inputs(dir, digest, 0, &err) == ZEP_OK, "%s", err.text);
    write_file("job.yaml", "name: old\n");
    ck_assert_int_eq(zep_appear_digest(dir, &other, &err), ZEP_OK);
    ck_assert(digest != other);
    ck_assert_int_eq(zep_appear_inputs(dir, digest, 0.3, &err), ZEP_EIO);
    gethostname(host, sizeof host - 1);
    ck_assert_ptr_nonnull(strstr(err.text, ": job.yaml and topology.yaml, as the launcher wrote them, did not appear on "));
    ck_assert_ptr_nonnull(strstr(err.text, host));
    if ((child = fork()) == 0) {
        usleep(400000);
        write_file("job.yaml", "name: new\n");
        _exit(0);
    }
    ck_assert_msg(zep_appear_inputs(dir, digest, 20, &err) == ZEP_OK, "%s", err.text);
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    snprintf(path, sizeof path, "%s/late", dir);
    ck_assert_int_eq(zep_appear(path, 0.3, &err), ZEP_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/late: did not appear within 0 s"));
    if ((child = fork()) == 0) {
        usleep(400000);
        write_file("late", "x");
        _exit(0);
    }
    ck_assert_msg(zep_appear(path, 20, &err) == ZEP_OK, "%s", err.text);
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
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
    tcase_add_loop_test(t, layers_of_values, 0, (int)(sizeof layers / sizeof layers[0]));
    tcase_add_test(t, runs_keep_their_job);
    tcase_add_test(t, many_mistakes);
    tcase_add_test(t, run_folders);
    tcase_add_test(t, late_files);
    tcase_add_test(t, locks);
    tcase_add_test(t, locks_of_jobs);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
