/* Kubernetes: the small languages of its names and quantities, what a job asks of it, the encoder of pod texts, YAML of JSON. */
#include "config.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode.h"
#include "common/yaml.h"
#include "launcher/k8s_manifest.h"
#include "launcher/k8s_spec.h"
#include "launcher/k8s_words.h"

START_TEST(quantities)
{
    static const struct {
        const char *text;
        double want; /* negative: refused */
    } cases[] = {{"0", 0},          {"500m", 0.5},   {"2", 2},      {"1.5", 1.5},  {"16Gi", 17179869184.0}, {"1e3", 1000}, {"1E", 1e18},  {"1Ei", 1152921504606846976.0}, {"2E+2", 200}, {"100k", 1e5}, {"1.", 1},
                 {"3u", 3e-6},      {"7n", 7e-9},    {"", -1},      {"Gi", -1},    {"-1", -1},              {"+1", -1},    {"1 Gi", -1},  {"1gi", -1},                    {"1GB", -1},   {"1K", -1},    {"0x10", -1},
                 {"1e", -1},        {"1.2.3", -1},   {"1e1e1", -1}, {"inf", -1},   {"nan", -1},             {"1e999", -1}, {"16GiB", -1}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double v = -1;
        int rc = zep_k8s_quantity(cases[i].text, &v, NULL);

        ck_assert_msg(cases[i].want < 0 ? rc < 0 : rc == 0 && fabs(v - cases[i].want) <= 1e-12 * v, "'%s': %d, %g", cases[i].text, rc, v);
    }
}
END_TEST

START_TEST(images)
{
    static const char sum[] = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const good[] = {"z:1", "zeppelin:0.1.0", "reg.example.com/zeppelin:1", "reg:5000/a/b_c/zep-pelin:v1.0_x", "localhost:5000/z:1", NULL};
    static const char *const bad[] = {"", "zeppelin", "reg:5000/zeppelin", "reg.example.com/team/zeppelin", "Zeppelin:1", "z:", "z:-1", "z: 1", "z:1:2", "a//b:1", "/z:1", "z@sha256:12", "z@md5:0", "z:1\n", "reg:/z:1", NULL};
    char text[200];

    for (int i = 0; good[i]; i++)
        ck_assert_msg(zep_k8s_check_image(good[i], NULL) == 0, "%s", good[i]);
    for (int i = 0; bad[i]; i++)
        ck_assert_msg(zep_k8s_check_image(bad[i], NULL) < 0, "%s", bad[i]);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "reg:5000/z%s%s", i ? ":1" : "", sum);
        ck_assert_int_eq(zep_k8s_check_image(text, NULL), 0);
    }
}
END_TEST

START_TEST(names)
{
    static const struct {
        const char *name;
        int good;
    } cases[] = {{"a", 1}, {"zep-1", 1}, {"a-b-c", 1}, {"1abc", 0}, {"-a", 0}, {"a-", 0}, {"Abc", 0}, {"a_b", 0}, {"a.b", 0}, {"", 0}, {"\xc3\xa4", 0}, {"abcdefghij", 1}, {"abcdefghijk", 0}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg((zep_k8s_check_name(cases[i].name, 10, NULL) == 0) == cases[i].good, "'%s'", cases[i].name);
    ck_assert_int_eq(zep_k8s_check_key("fabric.topograph.run/tier-1", NULL), 0);
    ck_assert_int_eq(zep_k8s_check_key("a/b/c", NULL), ZEP_EINVAL);
    ck_assert_int_eq(zep_k8s_check_key("A.com/x", NULL), ZEP_EINVAL);
    ck_assert_int_eq(zep_k8s_check_value("", NULL), 0);
    ck_assert_int_eq(zep_k8s_check_value("a b", NULL), ZEP_EINVAL);
    ck_assert_int_eq(zep_k8s_check_path("/a/../b", NULL), ZEP_EINVAL);
    ck_assert_int_eq(zep_k8s_check_path("/a/..b", NULL), 0);
}
END_TEST

/* The job with one more setting: its mistakes, "" none. */
static char *mistakes(const char *more, struct zep_k8s_spec **spec_out, struct zep_job **job_out)
{
    const char *sets[] = {"name=zep", "cluster.nodes=3", "cluster.devices=2", "data.train=/d", "k8s.image=z:1", "k8s.volumes=pvc:runs:/runs", more};
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_k8s_spec *spec = NULL;
    struct zep_job *job;
    struct zep_error err;
    char *text;

    setenv("ZEPPELIN_SITE", "", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    ck_assert_msg(zep_job_load(NULL, sets, sizeof sets / sizeof sets[0], &job, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_k8s_spec_new(job, &m, &spec, &err) == ZEP_OK, m.n == 0);
    text = strdup(m.n ? m.text.data : "");
    zep_mistakes_free(&m);
    if (spec_out && spec) {
        *spec_out = spec;
        *job_out = job;
    } else {
        zep_k8s_spec_free(spec);
        zep_job_free(job);
    }
    return text;
}

START_TEST(what_a_job_asks)
{
    static const struct {
        const char *set, *want; /* a part; "" good */
    } cases[] = {
        {"name=zep-1", ""},
        {"name=My_Run", "name: 'My_Run': on Kubernetes expected lower-case letters"},
        {"name=abcdefghijklmnopqrstuvwxyzabcdefghijklmnop", ""},
        {"name=abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq", "name: 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq': 43 characters; on Kubernetes expected at most 42"},
        {"k8s.image=zeppelin", "k8s.image: 'zeppelin': an image without a tag"},
        {"k8s.namespace=My", "k8s.namespace: 'My': expected at most 63 lower-case"},
        {"k8s.cpu=lots", "k8s.cpu: 'lots': expected a quantity"},
        {"k8s.cpu=2500m", ""},
        {"k8s.memory=512m", "k8s.memory: '512m' is 0.512 bytes (m is a thousandth): expected at least 16Mi (did you mean '512Mi'?)"},
        {"k8s.memory=64Gb", "k8s.memory: '64Gb': expected a quantity"},
        {"k8s.shm=9Gi", "k8s.shm: '9Gi' is more than k8s.memory (8Gi)"},
        {"k8s.volumes=pvc:runs:/runs, configmap:c:/etc/c,emptydir:5Gi:/scratch,secret:s:/s:ro", ""},
        {"k8s.volumes=runs:/runs", "k8s.volumes: 'runs:/runs': expected KIND:NAME:/PATH"},
        {"k8s.volumes=nfs:runs:/runs", "k8s.volumes: 'nfs': expected pvc, configmap"},
        {"k8s.volumes=pvc:runs:/runs,pvc:x:/dev/shm", "k8s.volumes: '/dev/shm': /dev/shm is mounted by the launch"},
        {"k8s.volumes=pvc:runs:/runs,pvc:x:/home/mpiuser/.ssh/y", "k8s.volumes: '/home/mpiuser/.ssh/y': /home/mpiuser/.ssh is mounted by the launch"},
        {"k8s.volumes=pvc:runs:/runs,pvc:x:/runs", "k8s.volumes: '/runs' is mounted twice"},
        {"k8s.volumes=pvc:runs:/runs,,", "k8s.volumes: an empty item between commas"},
        {"k8s.volumes=pvc:runs:/runs:ro", "k8s.run_root: '/runs': the volume is mounted read-only"},
        {"k8s.volumes=emptydir:1Gi:/runs", "k8s.run_root: '/runs': no volume of k8s.volumes that lasts"},
        {"k8s.volumes=pvc:runs:/data", "k8s.run_root: '/runs': no volume of k8s.volumes that lasts"},
        {"k8s.volumes=pvc:runs:/run", "k8s.run_root: '/runs': no volume of k8s.volumes that lasts"},
        {"k8s.volumes=pvc:runs:/runs,host:/dev/infiniband:/dev/infiniband", "k8s.volumes: host:/dev/infiniband: a folder of the node is refused by Pod Security 'restricted'"},
        {"cluster.secrets.TOKEN=k8s:hf/token", ""},
        {"cluster.secrets.TOKEN=file:/x", "cluster.secrets.TOKEN: 'file:/x': pods get secrets from the cluster: expected {k8s: SECRET/KEY}"},
        {"cluster.secrets.ZEPPELIN_JOB=k8s:a/b", "cluster.secrets.ZEPPELIN_JOB: this variable is set by the launch"},
        {"k8s.tolerations=nvidia.com/gpu:NoSchedule, dedicated=train:NoExecute, x", ""},
        {"k8s.tolerations=x:Never", "k8s.tolerations: 'Never': expected NoSchedule"},
        {"k8s.node_selector=a/b=c,d=", ""},
        {"k8s.node_selector=gpu", "k8s.node_selector: 'gpu': expected KEY=VALUE"},
        {"k8s.node_selector=a=b c", "k8s.node_selector: 'b c': expected the value of a label"},
        {"k8s.labels=team=x,team=y", "k8s.labels: 'team' is given twice"},
        {"k8s.labels=zeppelin/run=x", "k8s.labels: 'zeppelin/run=x': this label is set by zeppelin"},
        {"k8s.annotations=k8s.v1.cni.cncf.io/networks=[{\"name\": \"a\"}\\,{\"name\": \"b\"}]", ""},
        {"cluster.rdma=rdma/hca=2", ""},
        {"cluster.rdma=rdma/hca=0", "cluster.rdma: '0': expected"},
        {"cluster.rdma=rdma hca", "cluster.rdma: 'rdma hca': expected [PREFIX/]NAME"},
        {"k8s.topology=required:topology.kubernetes.io/zone", ""},
        {"k8s.topology=zone", "k8s.topology: 'zone': expected preferred:KEY or required:KEY"},
        {"k8s.port=22", "k8s.port: '22': a port below 1024 needs root"},
        {"k8s.queue=Q", "k8s.queue: 'Q': expected at most 63"},
        {"k8s.priority=a b", "k8s.priority: 'a b': expected the name of an object"},
        {"k8s.prefix=opt", "k8s.prefix: 'opt': expected an absolute path"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = mistakes(cases[i].set, NULL, NULL);

        ck_assert_msg(*cases[i].want ? strstr(text, cases[i].want) != NULL : !*text, "%s: got '%s'", cases[i].set, text);
        free(text);
    }
}
END_TEST

START_TEST(lists)
{
    struct zep_k8s_spec *s;
    struct zep_job *job;
    char *text = mistakes("k8s.annotations= a=1\\,2 , b/c = x=y", &s, &job);

    ck_assert_ptr_nonnull(strstr(text, "k8s.annotations: 'b/c ': expected [PREFIX/]NAME, as in topology.kubernetes.io/zone"));
    free(text);
    text = mistakes("k8s.annotations= a=1\\,2 , b/c=x=y", &s, &job);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(s->annotations.n, 2);
    ck_assert_str_eq(s->annotations.v[0].value, "1,2");
    ck_assert_str_eq(s->annotations.v[1].key, "b/c");
    ck_assert_str_eq(s->annotations.v[1].value, "x=y");
    ck_assert_str_eq(s->cpu, "2");
    ck_assert_str_eq(s->ssh_dir, "/home/mpiuser/.ssh");
    free(text);
    zep_k8s_spec_free(s);
    zep_job_free(job);
}
END_TEST

START_TEST(attempts)
{
    char name[64];

    zep_k8s_attempt_name("zep", 1, name);
    ck_assert_str_eq(name, "zep");
    zep_k8s_attempt_name("zep", 12, name);
    ck_assert_str_eq(name, "zep-r12");
}
END_TEST

START_TEST(pod_text)
{
    static const struct {
        const char *text, *want;
    } cases[] = {{"", ""}, {"a b'\"%", "a b'\"%"}, {"$(NODE_NAME)", "$$(NODE_NAME)"}, {"$$", "$$$$"}, {"5$", "5$$"}, {"$(a) $b\n\t\xc3\xa4", "$$(a) $$b\n\t\xc3\xa4"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_buf b = ZEP_BUF_INIT;

        ck_assert_int_eq(zep_encode_pod_text(&b, cases[i].text, NULL), ZEP_OK);
        ck_assert_str_eq(b.data ? b.data : "", cases[i].want);
        zep_buf_free(&b);
    }
    ck_assert_int_eq(zep_encode_pod_text(&(struct zep_buf)ZEP_BUF_INIT, "a\x01", NULL), ZEP_EINVAL);
}
END_TEST

START_TEST(yaml_of_json)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"{\"a\": 1, \"b\": \"x\", \"c\": true, \"d\": {}, \"e\": []}", "a: 1\nb: x\nc: true\nd: {}\ne: []\n"},
        {"{\"a\": [\"x\", {\"b\": 1, \"c\": [2]}, [3, 4]]}", "a:\n- x\n- b: 1\n  c:\n  - 2\n-\n  - 3\n  - 4\n"},
        {"{\"a\": {\"b\": {\"c\": \"yes\"}}}", "a:\n  b:\n    c: \"yes\"\n"},
        {"{\"t\": \"one\\n\\n  two\\n\"}", "t: |\n  one\n\n    two\n"},
        {"{\"t\": \"one\\ntwo\"}", "t: \"one\\ntwo\"\n"},
        {"{\"t\": \" one\\n\"}", "t: \" one\\n\"\n"},
        {"{\"t\": \"one\\n\\n\"}", "t: \"one\\n\\n\"\n"},
        {"{\"x/y\": null, \"1\": \"\"}", "x/y: null\n\"1\": \"\"\n"},
        {"[]", "[]\n"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *j = json_loads(cases[i].json, 0, NULL);
        struct zep_buf b = ZEP_BUF_INIT;

        ck_assert_ptr_nonnull(j);
        zep_yaml_emit_json(&b, j);
        ck_assert_str_eq(b.data, cases[i].want);
        zep_buf_free(&b);
        json_decref(j);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("launcher: Kubernetes");
    TCase *t = tcase_create("k8s");
    SRunner *run;
    int failed;

    tcase_add_test(t, quantities);
    tcase_add_test(t, images);
    tcase_add_test(t, names);
    tcase_add_test(t, what_a_job_asks);
    tcase_add_test(t, lists);
    tcase_add_test(t, attempts);
    tcase_add_test(t, pod_text);
    tcase_add_test(t, yaml_of_json);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
