/* Nodes, devices and NICs that are marked slow: by option, by file; merged, compared, shown, and as the planner sees them. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "topology/detect.h"
#include "topology/topo.h"

#define N_DEV 4
#define N_NIC 2
#define HEAD "format: zeppelin-topology/1.0\norigin: "

static struct zep_topo *parse(const char *text)
{
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_parse("f", text, strlen(text), &t, &err) == ZEP_OK, "%s\n%s", err.text, text);
    return t;
}

static struct zep_topo *synthetic(const char *text)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_synthetic(text, &topo, &err) == ZEP_OK, "%s: %s", text, err.text);
    return topo;
}

static struct zep_topo *three(void)
{
    return synthetic("nodes:3 dev:4 nic:2 net:100GB/s");
}

static const struct {
    const char *marks[3];
    double dev[3][N_DEV], nic[3][N_NIC]; /* nic: GB/s */
} good[] = {
    {{"node1=0.5"}, {{1, 1, 1, 1}, {.5, .5, .5, .5}, {1, 1, 1, 1}}, {{100, 100}, {100, 100}, {100, 100}}},
    {{"*=0.25"}, {{.25, .25, .25, .25}, {.25, .25, .25, .25}, {.25, .25, .25, .25}}, {{100, 100}, {100, 100}, {100, 100}}},
    {{"node[0,2]/dev:[1-2]=0.8"}, {{1, .8, .8, 1}, {1, 1, 1, 1}, {1, .8, .8, 1}}, {{100, 100}, {100, 100}, {100, 100}}},
    {{"node0/dev:gpu3=0.8"}, {{1, 1, 1, .8}, {1, 1, 1, 1}, {1, 1, 1, 1}}, {{100, 100}, {100, 100}, {100, 100}}},
    {{"*/nic:*=0.5", "node2/nic:nic1=0.1"}, {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, {{50, 50}, {50, 50}, {50, 10}}},
    {{"node0/nic:1=0.5"}, {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, {{100, 50}, {100, 100}, {100, 100}}},
    {{"node0=0.5", "node0/dev:1=1", "node0/dev:0=0.25"}, {{.25, 1, .5, .5}, {1, 1, 1, 1}, {1, 1, 1, 1}}, {{100, 100}, {100, 100}, {100, 100}}}, /* a device's own holds */
    {{"node0/dev:0=0.25", "node0=0.5", "node0=1"}, {{.25, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, {{100, 100}, {100, 100}, {100, 100}}},
};

static void mark(struct zep_topo *t, const char *text)
{
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_slow(t, text, &err) == ZEP_OK, "%s", err.text);
}

static void check_view(const struct zep_topo *t, int row)
{
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_view_new(t, 0, 0, 1, &v, &err), ZEP_OK);
    for (int d = 0; d < 3 * N_DEV; d++)
        ck_assert_msg(v->dev_speed[d] == good[row].dev[d / N_DEV][d % N_DEV], "device %d: %g", d, v->dev_speed[d]);
    for (int c = 0; c < 3 * N_NIC; c++)
        ck_assert_double_eq_tol(v->nic_bw[c], 1e9 * good[row].nic[c / N_NIC][c % N_NIC], 1);
    zep_view_free(v);
}

/* Marked, seen, and the same after a way through YAML and through JSON. */
START_TEST(marks)
{
    struct zep_topo *t = three(), *back = NULL;
    struct zep_buf yaml = ZEP_BUF_INIT, again = ZEP_BUF_INIT, json = ZEP_BUF_INIT;
    struct zep_error err = {0};

    for (int i = 0; i < 3 && good[_i].marks[i]; i++)
        mark(t, good[_i].marks[i]);
    check_view(t, _i);
    ck_assert_int_eq(zep_topo_to_yaml(t, &yaml, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_to_json(t, &json, &err), ZEP_OK);
    zep_topo_free(t);
    t = parse(yaml.data);
    check_view(t, _i);
    ck_assert_int_eq(t->n_warning, 0);
    ck_assert_int_eq(zep_topo_to_yaml(t, &again, &err), ZEP_OK);
    ck_assert_str_eq(again.data, yaml.data);
    ck_assert_msg(zep_detect_from_json("j", json.data, json.len, &back, &err) == ZEP_OK, "%s", err.text);
    check_view(back, _i);
    zep_topo_free(back);
    zep_topo_free(t);
    zep_buf_free(&yaml);
    zep_buf_free(&again);
    zep_buf_free(&json);
}
END_TEST

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "'': expected NODES=FACTOR, NODES/dev:I=FACTOR or NODES/nic:I=FACTOR, as in 'n3/dev:0=0.8'"},
    {"node1", "'node1': expected NODES=FACTOR, NODES/dev:I=FACTOR or NODES/nic:I=FACTOR, as in 'n3/dev:0=0.8'"},
    {"=0.5", "'=0.5': expected NODES=FACTOR, NODES/dev:I=FACTOR or NODES/nic:I=FACTOR, as in 'n3/dev:0=0.8'"},
    {"node1=", "'node1=': factor '': expected a number from 0.001 to 1"},
    {"node1=0", "'node1=0': factor '0': expected a number from 0.001 to 1"},
    {"node1=1.5", "'node1=1.5': factor '1.5': expected a number from 0.001 to 1"},
    {"node1=80%", "'node1=80%': factor '80%': expected a number from 0.001 to 1"},
    {"node1=nan", "'node1=nan': factor 'nan': expected a number from 0.001 to 1"},
    {"node9=0.5", "'node9=0.5': 'node9': expected a node of the topology"},
    {",=0.5", "',=0.5': ',': expected names, or '*' for all"},
    {"node[0-=0.5", "'node[0-=0.5': host list 'node[0-': '[' without ']'"},
    {"node0/gpu:1=0.5", "'node0/gpu:1=0.5': '/gpu:1': expected /dev:I or /nic:I"},
    {"node0/dev:=0.5", "'node0/dev:=0.5': '': expected names, or '*' for all"},
    {"node0/dev:4=0.5", "'node0/dev:4=0.5': '4': expected a device of node 'node0': 0 to 3, a key or a name"},
    {"node0/dev:0-2=0.5", "'node0/dev:0-2=0.5': '0-2': expected a device of node 'node0': 0 to 3, a key or a name"},
    {"node0/nic:mlx5_0=0.5", "'node0/nic:mlx5_0=0.5': 'mlx5_0': expected a NIC of node 'node0': 0 to 1, a key or a name"},
};

START_TEST(marks_bad)
{
    struct zep_topo *t = three();
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_slow(t, bad[_i].text, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, bad[_i].message);
    zep_topo_free(t);
}
END_TEST

/* Cores instead of devices; no NICs. */
START_TEST(cores)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, sockets: 1, cores_per_socket: 2}\n");
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_slow(t, "n1/dev:0=0.5", &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "'n1/dev:0=0.5': node 'n1' has no devices: its name alone marks its cores");
    ck_assert_int_eq(zep_topo_slow(t, "n1/nic:*=0.5", &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "'n1/nic:*=0.5': node 'n1' has no NICs");
    mark(t, "n1=0.5");
    ck_assert_int_eq(zep_view_new(t, 0, 0, 1, &v, &err), ZEP_OK);
    ck_assert_double_eq(v->dev_speed[1], .5);
    ck_assert_int_eq(v->dev_mem[1], 0);
    zep_view_free(v);
    zep_topo_free(t);
}
END_TEST

/* A group is as slow as its slowest member, and has as much memory for each as its smallest. */
START_TEST(groups)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  speed: 0.75\n  nics: [{key: nic0, bandwidth: 10GB/s, speed: 0.5}, {key: nic1, bandwidth: 10GB/s}]\n"
                                    "  devices: [{key: gpu0, nic: 0, memory: 80GB}, {key: gpu1, nic: 1, memory: 40GB, speed: 1}, {key: gpu2, speed: 0.9}, {key: gpu3, speed: 0.8, memory: 80GB}]\n");
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_view_new(t, 0, 0, 2, &v, &err), ZEP_OK);
    ck_assert_double_eq(v->dev_speed[0], .75);
    ck_assert_double_eq(v->dev_speed[1], .8);
    ck_assert_int_eq(v->dev_mem[0], 80000000000); /* twice 40 */
    ck_assert_int_eq(v->dev_mem[1], 0);           /* one of them unknown */
    ck_assert_double_eq(v->nic_bw[0], 15e9);
    zep_view_free(v);
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *file, *message;
} bad_file[] = {
    {HEAD "A\nnodes:\n- {id: n1, speed: 0}\n", "f:4: speed '0': expected a number from 0.001 to 1000"},
    {HEAD "A\nnodes:\n- {id: n1, speed: fast}\n", "f:4: speed 'fast': expected a number"},
    {HEAD "A\nnodes:\n- id: n1\n  devices: [{key: g, speed: {value: -1}}]\n", "f:5: speed '-1': expected a number from 0.001 to 1000"},
    {HEAD "A\nnodes:\n- id: n1\n  nics: [{key: g, speed: {source: user}}]\n", "f:5: speed: expected a value"},
};

START_TEST(files_bad)
{
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_parse("f", bad_file[_i].file, strlen(bad_file[_i].file), &t, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, bad_file[_i].message);
}
END_TEST

START_TEST(json_bad)
{
    static const char text[] = "{\"format\": \"zeppelin-topology-json/1.0\", \"nodes\": [{\"id\": \"n1\", \"devices\": [{\"key\": \"gpu0\", \"speed\": {\"value\": 1e9, \"source\": \"user\"}}]}]}";
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_detect_from_json("j", text, strlen(text), &t, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "j: node 'n1', device gpu0: speed 1e+09: expected a number from 0.001 to 1000");
}
END_TEST

/* The stronger source holds, the other one is kept as a conflict; what one of them does not say, the other one does. */
START_TEST(merging)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  speed: {value: 0.5, source: measured}\n  nics: [{key: a, speed: {value: 0.5, source: node}}]\n  devices: [{key: x, speed: 0.7}, {key: y}]\n");
    struct zep_topo *b = parse(HEAD "B\nnodes:\n- id: n1\n  speed: {value: 0.9, source: user}\n  nics: [{key: a, speed: {value: 0.51, source: measured}}]\n  devices: [{key: x, speed: {value: 0.2, source: site}}, {key: y, speed: 0.6}]\n");
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_merge(t, b, &err) == ZEP_OK, "%s", err.text);
    zep_topo_free(b);
    ck_assert_double_eq(t->node[0].speed.value, .9);
    ck_assert_double_eq(t->node[0].nic[0].speed.value, .51);
    ck_assert_double_eq(zep_device_speed(&t->node[0], 0), .7);
    ck_assert_double_eq(zep_device_speed(&t->node[0], 1), .6);
    ck_assert_int_eq(t->n_conflict, 2); /* not that of the NIC: it is rounding */
    for (int i = 0; i < 2; i++) {
        const struct zep_conflict *c = &t->conflict[i];
        int node = !strcmp(c->where, "node n1");

        ck_assert_str_eq(c->what, "speed");
        ck_assert_str_eq(c->kept, node ? "0.9" : "0.7");
        ck_assert_str_eq(c->lost, node ? "0.5" : "0.2");
    }
    zep_topo_free(t);
}
END_TEST

/* Devices that are only counted on one side: what all have in common holds for each. */
START_TEST(merging_counted)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  devices: [{key: gpu0, speed: 0.5}, {key: gpu1, speed: 0.5}]\n");
    struct zep_topo *b = parse(HEAD "B\nnodes:\n- id: n1\n  devices: [{key: \"0000:01:00.0\"}, {key: \"0000:02:00.0\"}]\n");
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_merge(t, b, &err) == ZEP_OK, "%s", err.text);
    zep_topo_free(b);
    ck_assert_int_eq(t->node[0].n_device, 2);
    ck_assert_str_eq(t->node[0].device[1].key, "0000:02:00.0");
    ck_assert_double_eq(zep_device_speed(&t->node[0], 1), .5);
    zep_topo_free(t);
}
END_TEST

static int keep_text(void *arg, int node, const char *text)
{
    (void)node;
    zep_buf_printf(arg, "%s\n", text);
    return 0;
}

START_TEST(comparing)
{
    struct zep_topo *a = three(), *b = three();
    struct zep_buf out = ZEP_BUF_INIT;
    struct zep_error err = {0};

    mark(b, "node1/dev:2=0.5");
    mark(b, "node1/nic:0=0.25");
    ck_assert_int_eq(zep_topo_diff(a, b, &out, &err), ZEP_OK);
    ck_assert_str_eq(out.data, "~ node node1: device gpu2: speed 0.5, 1 before; NIC nic0 (nic0): share of its bandwidth 0.25, 1 before\n");
    out.len = 0;
    ck_assert_int_eq(zep_topo_siblings(b, keep_text, &out, &err), ZEP_OK);
    ck_assert_str_eq(out.data, "node 'node1': device gpu2: speed 0.5, 1 on its 2 siblings\nnode 'node1': NIC nic0 (nic0): share of its bandwidth 0.25, 1 on its 2 siblings\n");
    zep_buf_free(&out);
    zep_topo_free(a);
    zep_topo_free(b);
}
END_TEST

static const struct {
    const char *name;
    int (*write)(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);
    const char *slow, *plain; /* what is there where one is slow, and not where none is; the rest: what is not */
} views[] = {
    {"text", zep_topo_to_text, "3 GPUs at 200GB/s, 1 GPU at 200GB/s (computing at 0.5 of its speed), 1 NIC at 100GB/s (slow: 0.25 of it), 1 NIC at 100GB/s", "4 GPUs at 200GB/s, 2 NICs"},
    {"text: sources", zep_topo_to_text, "their bandwidth user; speeds user\n", "their bandwidth user\n"},
    {"svg", zep_topo_to_svg, "slow: 0.5<", "100GB/s<"},
    {"svg: NIC", zep_topo_to_svg, "slow: 0.25<", "100GB/s<"},
    {"dot", zep_topo_to_dot, "4 devices, 2 NICs\\nslow", "4 devices, 2 NICs\""},
};

START_TEST(showing)
{
    struct zep_topo *t = three();
    struct zep_buf plain = ZEP_BUF_INIT, slow = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(views[_i].write(t, &plain, &err), ZEP_OK);
    mark(t, "node1/dev:3=0.5");
    mark(t, "node1/nic:0=0.25");
    ck_assert_int_eq(views[_i].write(t, &slow, &err), ZEP_OK);
    ck_assert_msg(strstr(slow.data, views[_i].slow) != NULL, "%s: %s", views[_i].name, slow.data);
    ck_assert_msg(!strstr(plain.data, views[_i].slow), "%s", plain.data);
    ck_assert_msg(strstr(plain.data, views[_i].plain) != NULL, "%s", plain.data);
    zep_buf_free(&plain);
    zep_buf_free(&slow);
    zep_topo_free(t);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("topology: what is slow");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_add_loop_test(t, marks, 0, ROWS(good));
    tcase_add_loop_test(t, marks_bad, 0, ROWS(bad));
    tcase_add_test(t, cores);
    tcase_add_test(t, groups);
    tcase_add_loop_test(t, files_bad, 0, ROWS(bad_file));
    tcase_add_test(t, json_bad);
    tcase_add_test(t, merging);
    tcase_add_test(t, merging_counted);
    tcase_add_test(t, comparing);
    tcase_add_loop_test(t, showing, 0, ROWS(views));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
