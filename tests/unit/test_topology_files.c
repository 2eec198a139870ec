/* topology.yaml read and written; the text and the picture. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topo.h"

#define HEAD "format: zeppelin-topology/1.0\n"

static char *to_yaml(const struct zep_topo *topo)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_to_yaml(topo, &b, &err) == ZEP_OK, "%s", err.text);
    return b.data;
}

static struct zep_topo *parse(const char *text)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_parse("t.yaml", text, strlen(text), &topo, &err) == ZEP_OK, "%s\nin\n%s", err.text, text);
    return topo;
}

/* Writes, reads, writes: the same bytes. Returns them. */
static char *round_trip(struct zep_topo *topo)
{
    char *once = to_yaml(topo), *twice;
    struct zep_topo *again = parse(once);

    twice = to_yaml(again);
    ck_assert_str_eq(once, twice);
    ck_assert_int_eq(again->n_node, topo->n_node);
    zep_topo_free(again);
    free(twice);
    return once;
}

/* --- from descriptions and presets --- */

static const char *const descriptions[] = {
    "nodes:1", "nodes:3 dev:2 nic:0 kind:cpu", "nodes:12 dev:8 nic:4 nvlink:333MB/s net:123456789B/s leaf:5 lat:1.7us netlat:13ns mem:80GiB", "nodes:100 dev:3 nic:2 leaf:7 nvlink:1.1TB/s net:1Gb/s",
};

START_TEST(round_trip_descriptions)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_synthetic(descriptions[_i], &topo, &err), ZEP_OK);
    free(round_trip(topo));
    zep_topo_free(topo);
}
END_TEST

START_TEST(folded)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};
    char *text;

    ck_assert_int_eq(zep_topo_preset("A", 1000, &topo, &err), ZEP_OK);
    text = round_trip(topo);
    ck_assert_ptr_nonnull(strstr(text, "id: \"node[0-999]\"\n"));
    ck_assert_uint_lt(strlen(text), 4000);
    free(text);
    topo->node[500].state = strdup("drained"); /* one that is not equal splits the run and keeps the order */
    zep_node_add_alias(&topo->node[501], "gateway");
    text = round_trip(topo);
    ck_assert_ptr_nonnull(strstr(text, "id: \"node[0-499]\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "id: node500\n    state: drained\n"));
    ck_assert_ptr_nonnull(strstr(text, "id: node501\n    aliases:\n      - gateway\n"));
    ck_assert_ptr_nonnull(strstr(text, "id: \"node[502-999]\"\n"));
    free(text);
    zep_topo_free(topo);
}
END_TEST

/* Everything that a topology can hold. */
static struct zep_topo *make_full(void)
{
    struct zep_topo *topo = zep_topo_new("a: \"name\"", "made by # hand");
    struct zep_fabric *f;
    struct zep_switch *s;

    for (int i = 0; i < 3; i++) {
        char name[32];
        struct zep_node *n;
        struct zep_nic *c;
        struct zep_device *d;

        snprintf(name, sizeof name, "rack%02d-n7", i + 8);
        n = zep_topo_add_node(topo, name);
        snprintf(name, sizeof name, "10.0.0.%d", i + 1);
        zep_node_add_alias(n, name);
        snprintf(name, sizeof name, "gpu%d.example.org", i + 1);
        zep_node_add_alias(n, name);
        n->state = strdup(i == 2 ? "idle+drain" : "true");
        n->sockets = 2;
        n->cores_per_socket = 48;
        n->threads_per_core = 2;
        n->n_numa = 8;
        n->mem_bytes = 2027LL << 20;
        c = zep_node_add_nic(n, "0000:0b:00.0", "mlx5_0");
        c->numa = 3;
        c->up = 0;
        c->bw = (struct zep_fact){.value = 25e9, .source = ZEP_SRC_NODE};
        zep_node_add_nic(n, "0000:0c:00.0", "mlx5_1")->up = 1;
        d = zep_node_add_device(n, "GPU-12345678-1234", ZEP_DEV_GPU);
        d->model = strdup("NVIDIA: H200 #1");
        d->numa = 0;
        d->nic = 1;
        d->nic_distance = ZEP_DIST_BRIDGE;
        d->mem_bytes = 143771 * 1000000LL;
        d->bw = (struct zep_fact){.value = 1.0e9 / 3, .source = ZEP_SRC_MEASURED};
        zep_node_add_device(n, "cpu0", ZEP_DEV_CPU);
    }
    f = zep_topo_add_fabric(topo, "ib", ZEP_FABRIC_RAILS);
    s = zep_fabric_add_switch(f, "null");
    zep_switch_add_node(s, 2);
    zep_switch_add_node(s, 0);
    zep_switch_add_parent(s, 1);
    zep_switch_add_parent(s, 2);
    s->uplink_bw = (struct zep_fact){.value = 1.6e12, .source = ZEP_SRC_SITE};
    zep_fabric_add_switch(f, "spine.1");
    zep_fabric_add_switch(f, "7");
    zep_topo_add_fabric(topo, "empty", ZEP_FABRIC_BLOCKS);
    topo->net_latency_s = (struct zep_fact){.value = 1e-6 / 7, .source = ZEP_SRC_MEASURED};
    zep_topo_warn(topo, "%s: \"quoted\" and 100%%", "a warning");
    return topo;
}

START_TEST(round_trip_full)
{
    struct zep_topo *topo = make_full(), *again;
    struct zep_error err = {0};
    char *text;
    const struct zep_device *d;

    ck_assert_msg(zep_topo_validate(topo, &err) == ZEP_OK, "%s", err.text);
    text = round_trip(topo);
    again = parse(text);
    ck_assert_str_eq(again->name, topo->name);
    ck_assert_str_eq(again->origin, topo->origin);
    ck_assert_int_eq(again->n_warning, 1);
    ck_assert_str_eq(again->warning[0], topo->warning[0]);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(again->node[i].id, topo->node[i].id);
        ck_assert_str_eq(again->node[i].alias[1], topo->node[i].alias[1]);
        ck_assert_str_eq(again->node[i].state, topo->node[i].state);
    }
    ck_assert_int_eq(again->node[1].mem_bytes, topo->node[1].mem_bytes);
    ck_assert_int_eq(again->node[1].n_numa, 8);
    ck_assert_int_eq(again->node[1].nic[0].up, 0);
    ck_assert_int_eq(again->node[1].nic[1].up, 1);
    ck_assert_int_eq(again->node[1].nic[1].numa, -1);
    ck_assert_int_eq(again->node[1].nic[1].bw.source, ZEP_SRC_NONE);
    d = &again->node[1].device[0];
    ck_assert_str_eq(d->model, "NVIDIA: H200 #1");
    ck_assert_int_eq(d->nic, 1);
    ck_assert_int_eq(d->nic_distance, ZEP_DIST_BRIDGE);
    ck_assert(d->bw.value == 1.0e9 / 3);
    ck_assert_int_eq(d->bw.source, ZEP_SRC_MEASURED);
    ck_assert_int_eq(again->node[1].device[1].kind, ZEP_DEV_CPU);
    ck_assert_int_eq(again->n_fabric, 2);
    ck_assert_int_eq(again->fabric[0].kind, ZEP_FABRIC_RAILS);
    ck_assert_int_eq(again->fabric[0].sw[0].n_parent, 2);
    ck_assert_int_eq(again->fabric[0].sw[0].node[0], 2); /* order kept */
    ck_assert(again->fabric[0].sw[0].uplink_bw.value == 1.6e12);
    ck_assert_int_eq(again->fabric[0].sw[1].level, 1);
    ck_assert(again->net_latency_s.value == topo->net_latency_s.value);
    zep_topo_free(again);
    zep_topo_free(topo);
    free(text);
}
END_TEST

/* --- what people write --- */

START_TEST(by_hand)
{
    struct zep_topo *topo = parse("format: zeppelin-topology/1.0\n"
                                  "nodes:\n"
                                  "  - id: n[1-2]\n"
                                  "    nics: [{name: ib0, bandwidth: 200Gb/s}]\n"
                                  "    devices:\n"
                                  "      - {key: gpu0, bandwidth: 450 GB/s, nic: 0}\n"
                                  "fabrics:\n"
                                  "  - switches:\n"
                                  "      - {name: leaf, nodes: 'n[1-2]'}\n");

    ck_assert_int_eq(topo->n_node, 2);
    ck_assert_str_eq(topo->node[1].id, "n2");
    ck_assert_str_eq(topo->node[1].nic[0].key, "ib0");
    ck_assert_double_eq(topo->node[1].nic[0].bw.value, 25e9);
    ck_assert_int_eq(topo->node[1].nic[0].bw.source, ZEP_SRC_USER);
    ck_assert_int_eq(topo->node[1].device[0].kind, ZEP_DEV_GPU);
    ck_assert_int_eq(topo->fabric[0].kind, ZEP_FABRIC_TREE);
    ck_assert_int_eq(topo->n_warning, 0);
    free(round_trip(topo));
    zep_topo_free(topo);
}
END_TEST

static const struct {
    const char *text, *warning;
} unknown[] = {
    {HEAD "colour: red\nnodes: [{id: a}]\n", "t.yaml:2: unknown key 'colour' was ignored"},
    {HEAD "nodes: [{id: a, stat: up}]\n", "t.yaml:2: unknown key 'stat' was ignored (did you mean 'state'?)"},
    {"format: zeppelin-topology/1.7\nnodes: [{id: a, position: 3}]\n", "t.yaml:2: unknown key 'position' was ignored"},
};

START_TEST(unknown_keys)
{
    struct zep_topo *topo = parse(unknown[_i].text);

    ck_assert_int_eq(topo->n_warning, 1);
    ck_assert_str_eq(topo->warning[0], unknown[_i].warning);
    free(round_trip(topo));
    zep_topo_free(topo);
}
END_TEST

static const struct {
    const char *text;
    int code;
    const char *message;
} bad[] = {
    {"nodes: [{id: a}]\n", ZEP_EINVAL, "t.yaml:1: no format: expected format: zeppelin-topology/1.0"},
    {"[a, b]\n", ZEP_EINVAL, "t.yaml:1: expected keys and values of a topology (format: zeppelin-topology/1.0)"},
    {HEAD, ZEP_EINVAL, "t.yaml:1: no nodes"},
    {HEAD "nodes: []\n", ZEP_EINVAL, "t.yaml: the topology has no nodes"},
    {HEAD "nodes: {a: 1}\n", ZEP_EINVAL, "t.yaml:2: expected a list of nodes"},
    {HEAD "nodes: [{state: up}]\n", ZEP_EINVAL, "t.yaml:2: a node without id"},
    {HEAD "nodes:\n  - id: a\n  - id: a\n", ZEP_EINVAL, "t.yaml: node 'a' is there twice"},
    {HEAD "nodes:\n  - id: a\n    devices: [{kind: gpu}]\n", ZEP_EINVAL, "t.yaml:4: a device without key"},
    {HEAD "nodes:\n  - id: a\n    devices: [{key: g, nic: 0}]\n", ZEP_EINVAL, "t.yaml:4: device 'g' uses a NIC: the node has none"},
    {HEAD "nodes:\n  - id: a\n    nics: [{numa: 0}]\n", ZEP_EINVAL, "t.yaml:4: a NIC without key and name"},
    {HEAD "nodes:\n  - id: a\n    nics: [{key: x, bandwidth: 4x}]\n", ZEP_EINVAL, NULL},
    {HEAD "nodes:\n  - id: a\n    nics: [{key: x, bandwidth: {value: 1GB/s, source: dream}}]\n", ZEP_EINVAL,
     "t.yaml:4: bandwidth: source 'dream': expected user, measured, node, controller, site, label, preset or default"},
    {HEAD "nodes:\n  - id: a[1-2]\n    aliases: [b]\n", ZEP_EINVAL, "t.yaml:4: 1 aliases for 2 nodes"},
    {HEAD "nodes:\n  - id: a[1-2\n", ZEP_EINVAL, NULL},
    {HEAD "nodes: [{id: a}]\nfabrics: [{switches: [{nodes: a}]}]\n", ZEP_EINVAL, "t.yaml:3: a switch without name"},
    {HEAD "nodes: [{id: a}]\nfabrics:\n  - switches: [{name: s, nodes: b}]\n", ZEP_EINVAL, NULL},
    {HEAD "nodes: [{id: a}]\nfabrics:\n  - switches: [{name: s, parents: [t]}]\n", ZEP_EINVAL, NULL},
    {HEAD "nodes: [{id: a}]\nfabrics:\n  - switches: [{name: s, parents: [t]}, {name: t, parents: [s]}]\n", ZEP_EINVAL, NULL},
    {"format: zeppelin-topology/2.0\nnodes: [{id: a}]\n", ZEP_EREFUSED, NULL},
    {"format: zeppelin-plan/1.0\nnodes: [{id: a}]\n", ZEP_EINVAL, NULL},
};

START_TEST(refused)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};
    int rc = zep_topo_parse("t.yaml", bad[_i].text, strlen(bad[_i].text), &topo, &err);

    ck_assert_msg(rc == bad[_i].code, "%d (%s) for\n%s", rc, err.text, bad[_i].text);
    if (bad[_i].message)
        ck_assert_str_eq(err.text, bad[_i].message);
    else
        ck_assert_msg(!strncmp(err.text, "t.yaml:", 7), "no place in '%s'", err.text);
    ck_assert_ptr_null(topo);
}
END_TEST

START_TEST(no_such_file)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_load("/nowhere/topology.yaml", &topo, &err), ZEP_ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/topology.yaml"));
}
END_TEST

/* --- for people --- */

START_TEST(text_folds)
{
    struct zep_topo *topo = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset("A", 10000, &topo, &err), ZEP_OK);
    for (int i = 1; i < 10000; i += 2) /* two kinds that alternate */
        topo->node[i].state = strdup("down");
    ck_assert_int_eq(zep_topo_to_text(topo, &b, &err), ZEP_OK);
    ck_assert_uint_lt(strlen(strstr(b.data, "fabric net")), 200);
    ck_assert_ptr_nonnull(strstr(b.data, "A: 10000 nodes, 80000 devices (preset A)\n  5000 x node[0,2,4,"));
    ck_assert_ptr_nonnull(strstr(b.data, "\n  5000 x node[1,3,5,"));
    ck_assert_ptr_nonnull(strstr(b.data, "    devices by NIC:  nic0: 0 1  nic1: 2 3  nic2: 4 5  nic3: 6 7\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "fabric net: tree of 1 switch, 1 level (preset)\n    leaf0: node[0-9999]\n"));
    zep_buf_free(&b);
    zep_topo_free(topo);
}
END_TEST

START_TEST(text_tree)
{
    struct zep_topo *topo = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_synthetic("nodes:6 leaf:2", &topo, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_to_text(topo, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "fabric net: tree of 4 switches, 2 levels (user)\n    spine0: leaf[0-2]\n    leaf0: node[0-1]\n    leaf1: node[2-3]\n    leaf2: node[4-5]\n"));
    zep_buf_free(&b);
    zep_topo_free(topo);
}
END_TEST

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

START_TEST(picture)
{
    struct zep_topo *topo = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_synthetic("nodes:4 dev:2 nic:1 leaf:2", &topo, &err), ZEP_OK);
    free(topo->name);
    free(topo->origin);
    topo->name = strdup("x");
    topo->origin = strdup("<a & b>");
    ck_assert_int_eq(zep_topo_to_svg(topo, &b, &err), ZEP_OK);
    ck_assert_int_eq(strncmp(b.data, "<svg ", 5), 0);
    ck_assert_str_eq(b.data + b.len - 7, "</svg>\n");
    ck_assert_int_eq(count(b.data, "2 devices, 1 NIC<"), 4);
    ck_assert_int_eq(count(b.data, "<line "), 2 + 4 + 2); /* leaves to the spine, nodes to leaves, inside devices to their NIC */
    ck_assert_ptr_nonnull(strstr(b.data, "&lt;a &amp; b&gt;"));
    ck_assert_ptr_null(strstr(b.data, "<a"));
    zep_buf_free(&b);
    zep_topo_free(topo);
    ck_assert_int_eq(zep_topo_preset("C", 10000, &topo, &err), ZEP_OK); /* a large one stays small */
    ck_assert_int_eq(zep_topo_to_svg(topo, &b, &err), ZEP_OK);
    ck_assert_uint_lt(b.len, 10000);
    zep_buf_free(&b);
    zep_topo_free(topo);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("topology: files and outputs");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, round_trip_descriptions, 0, ROWS(descriptions));
    tcase_add_test(t, folded);
    tcase_add_test(t, round_trip_full);
    tcase_add_test(t, by_hand);
    tcase_add_loop_test(t, unknown_keys, 0, ROWS(unknown));
    tcase_add_loop_test(t, refused, 0, ROWS(bad));
    tcase_add_test(t, no_such_file);
    tcase_add_test(t, text_folds);
    tcase_add_test(t, text_tree);
    tcase_add_test(t, picture);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
