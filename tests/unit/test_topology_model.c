/* Building a topology by hand, from a description, from a preset; questions about it; the planner's view. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/preset.h"
#include "topology/topo.h"

static struct zep_topo *synthetic(const char *text)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_synthetic(text, &topo, &err) == ZEP_OK, "%s: %s", text, err.text);
    return topo;
}

/* --- descriptions --- */

static const struct {
    const char *text;
    int nodes, dev, nic, leaves;
    double dev_bw, nic_bw;
    int nic_of[4]; /* of the first devices */
} good[] = {
    {"nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s", 2, 4, 2, 1, 200e9, 25e9, {0, 0, 1, 1}},
    {"nodes:4,dev:2,nic:2,leaf:2,nvlink:1TB/s,net:100Gb/s", 4, 2, 2, 2, 1e12, 12.5e9, {0, 1}},
    {"nodes:1", 1, 1, 1, 1, 200e9, 25e9, {0}},
    {"nodes:3 nic:0 dev:3 kind:cpu", 3, 3, 0, 1, 200e9, 0, {-1, -1, -1}},
    {"  nodes:5 dev:3 nic:2 leaf:2 ", 5, 3, 2, 3, 200e9, 25e9, {0, 0, 1}},
};

START_TEST(synthetic_good)
{
    struct zep_topo *topo = synthetic(good[_i].text);
    const struct zep_node *n = &topo->node[topo->n_node - 1];

    ck_assert_int_eq(topo->n_node, good[_i].nodes);
    ck_assert_int_eq(n->n_device, good[_i].dev);
    ck_assert_int_eq(n->n_nic, good[_i].nic);
    ck_assert_double_eq_tol(n->device[0].bw.value, good[_i].dev_bw, 1);
    if (n->n_nic)
        ck_assert_double_eq_tol(n->nic[0].bw.value, good[_i].nic_bw, 1);
    for (int k = 0; k < n->n_device && k < 4; k++)
        ck_assert_int_eq(n->device[k].nic, good[_i].nic_of[k]);
    ck_assert_int_eq(topo->n_fabric, 1);
    ck_assert_int_eq(topo->fabric[0].n_switch, good[_i].leaves + (good[_i].leaves > 1));
    zep_topo_free(topo);
}
END_TEST

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "'': expected at least nodes:N, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'"},
    {"dev:4", "'dev:4': expected at least nodes:N, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'"},
    {"nodes", "'nodes': expected KEY:VALUE, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'"},
    {"nodes:", "'nodes:': expected KEY:VALUE, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'"},
    {"nodes:0", "nodes: '0': expected a whole number from 1 to 65536"},
    {"nodes:two", "nodes: 'two': expected a whole number"},
    {"nodes:2 nodes:2", "'nodes' is given twice"},
    {"nodes:2 node:2", "unknown key 'node' (did you mean 'nodes'?)"},
    {"nodes:2 zzzz:2", "unknown key 'zzzz': expected nodes, dev, nic, nvlink, net, leaf, kind, mem, lat, netlat or uplink"},
    {"nodes:2 kind:tpu", "kind: 'tpu': expected gpu or cpu"},
};

START_TEST(synthetic_bad)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_synthetic(bad[_i].text, &topo, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, bad[_i].message);
    ck_assert_ptr_null(topo);
}
END_TEST

START_TEST(synthetic_sources)
{
    struct zep_topo *topo = synthetic("nodes:1 nvlink:100GB/s");

    ck_assert_int_eq(topo->node[0].device[0].bw.source, ZEP_SRC_USER);
    ck_assert_int_eq(topo->node[0].nic[0].bw.source, ZEP_SRC_DEFAULT);
    ck_assert_int_eq(topo->net_latency_s.source, ZEP_SRC_DEFAULT);
    zep_topo_free(topo);
}
END_TEST

/* --- presets --- */

static const struct {
    const char *name;
    int nic;
    double dev_bw, nic_bw;
} presets[] = {{"A", 4, 200e9, 25e9}, {"B", 8, 200e9, 25e9}, {"C", 8, 450e9, 50e9}};

START_TEST(preset_good)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset(presets[_i].name, 3, &topo, &err), ZEP_OK);
    ck_assert_int_eq(topo->n_node, 3);
    ck_assert_int_eq(topo->node[2].n_device, 8);
    ck_assert_int_eq(topo->node[2].n_nic, presets[_i].nic);
    ck_assert_double_eq(topo->node[2].device[7].bw.value, presets[_i].dev_bw);
    ck_assert_double_eq(topo->node[2].nic[0].bw.value, presets[_i].nic_bw);
    ck_assert_int_eq(topo->node[2].nic[0].bw.source, ZEP_SRC_PRESET);
    ck_assert_int_eq(topo->node[2].device[7].nic, presets[_i].nic - 1);
    ck_assert_int_eq(topo->node[2].device[3].nic, 3 * presets[_i].nic / 8);
    zep_topo_free(topo);
}
END_TEST

START_TEST(preset_bad)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset("D", 3, &topo, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "unknown preset 'D': expected A, B, C, dgx-a100, dgx-h100, gb200-nvl72, p4d, p5, nd-h100-v5 or cpu-2s");
    ck_assert_int_eq(zep_topo_preset("dgx-h200", 1, &topo, &err), ZEP_EINVAL);
    ck_assert_msg(!strncmp(err.text, "unknown preset 'dgx-h200' (did you mean 'dgx-h100'?)", 51), "%s", err.text);
    ck_assert_int_eq(zep_topo_preset("A", -1, &topo, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "preset 'A': -1 nodes: expected at least 1");
    ck_assert_ptr_null(topo);
}
END_TEST

/* --- what validate refuses --- */

static void same_id(struct zep_topo *t)
{
    zep_topo_add_node(t, "n1");
}

static void bad_id(struct zep_topo *t)
{
    zep_topo_add_node(t, "-x");
}

static void same_alias(struct zep_topo *t)
{
    zep_node_add_alias(&t->node[0], "10.0.0.1");
    zep_node_add_alias(&t->node[1], "10.0.0.1");
}

static void alias_is_id(struct zep_topo *t)
{
    zep_node_add_alias(&t->node[0], "n1");
}

static void same_device(struct zep_topo *t)
{
    zep_node_add_device(&t->node[0], "gpu0", ZEP_DEV_GPU);
    zep_node_add_device(&t->node[0], "gpu0", ZEP_DEV_GPU);
}

static void same_nic(struct zep_topo *t)
{
    zep_node_add_nic(&t->node[0], "0000:01:00.0", "a");
    zep_node_add_nic(&t->node[0], "0000:01:00.0", "b");
}

static void no_such_nic(struct zep_topo *t)
{
    zep_node_add_device(&t->node[0], "gpu0", ZEP_DEV_GPU)->nic = 1;
}

static void same_switch(struct zep_topo *t)
{
    struct zep_fabric *f = zep_topo_add_fabric(t, "net", ZEP_FABRIC_TREE);

    zep_fabric_add_switch(f, "leaf0");
    zep_fabric_add_switch(f, "leaf0");
}

static void no_such_parent(struct zep_topo *t)
{
    zep_switch_add_parent(zep_fabric_add_switch(zep_topo_add_fabric(t, "net", ZEP_FABRIC_TREE), "leaf0"), 7);
}

static void no_such_node(struct zep_topo *t)
{
    zep_switch_add_node(zep_fabric_add_switch(zep_topo_add_fabric(t, "net", ZEP_FABRIC_TREE), "leaf0"), 2);
}

static void cycle(struct zep_topo *t)
{
    struct zep_fabric *f = zep_topo_add_fabric(t, "net", ZEP_FABRIC_TREE);

    zep_switch_add_parent(zep_fabric_add_switch(f, "a"), 1);
    zep_switch_add_parent(zep_fabric_add_switch(f, "b"), 0);
}

static const struct {
    void (*break_it)(struct zep_topo *);
    const char *message;
} broken[] = {
    {same_id, "node 'n1' is there twice"},
    {same_alias, "the name '10.0.0.1' means two nodes: 'n0' and 'n1'"},
    {alias_is_id, "the name 'n1' means two nodes: 'n1' and 'n0'"},
    {same_device, "node 'n0': device 'gpu0' is there twice"},
    {same_nic, "node 'n0': NIC '0000:01:00.0' is there twice"},
    {no_such_nic, "node 'n0': device 'gpu0' uses NIC 1: the node has 0"},
    {same_switch, "fabric 'net': switch 'leaf0' is there twice"},
    {no_such_parent, "fabric 'net': switch 'leaf0' has the parent 7: the fabric has switches 0 to 0"},
    {no_such_node, "fabric 'net': switch 'leaf0' has the node 2: the topology has nodes 0 to 1"},
    {cycle, NULL},  /* which of the two is named is not promised */
    {bad_id, NULL}, /* the text is that of the host name check */
};

START_TEST(validate_bad)
{
    struct zep_topo *topo = zep_topo_new("t", "test");
    struct zep_error err = {0};

    zep_topo_add_node(topo, "n0");
    zep_topo_add_node(topo, "n1");
    ck_assert_int_eq(zep_topo_validate(topo, &err), ZEP_OK);
    broken[_i].break_it(topo);
    ck_assert_int_eq(zep_topo_validate(topo, &err), ZEP_EINVAL);
    if (broken[_i].message)
        ck_assert_str_eq(err.text, broken[_i].message);
    else
        ck_assert_ptr_nonnull(strstr(err.text, broken[_i].break_it == cycle ? "switches form a cycle through" : "node: "));
    zep_topo_free(topo);
}
END_TEST

START_TEST(validate_empty)
{
    struct zep_topo *topo = zep_topo_new("t", "test");
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_validate(topo, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "the topology has no nodes");
    zep_topo_free(topo);
    zep_topo_free(NULL);
}
END_TEST

/* --- questions --- */

START_TEST(distances)
{
    struct zep_topo *topo = synthetic("nodes:5 leaf:2");

    ck_assert_int_eq(zep_topo_node_distance(topo, 1, 1), 0);
    ck_assert_int_eq(zep_topo_node_distance(topo, 0, 1), 1);
    ck_assert_int_eq(zep_topo_node_distance(topo, 1, 2), 2);
    ck_assert_int_eq(zep_topo_node_distance(topo, 4, 0), 2);
    ck_assert_int_eq(topo->fabric[0].sw[3].level, 1);
    topo->fabric[0].sw[2].n_parent = 0; /* two trees */
    ck_assert_int_eq(zep_topo_node_distance(topo, 4, 0), -1);
    zep_topo_free(topo);
}
END_TEST

START_TEST(two_parents)
{
    struct zep_topo *topo = zep_topo_new("t", "test");
    struct zep_error err = {0};
    struct zep_fabric *f;

    zep_topo_add_node(topo, "n0");
    zep_topo_add_node(topo, "n1");
    f = zep_topo_add_fabric(topo, "net", ZEP_FABRIC_TREE);
    for (int i = 0; i < 4; i++) {
        static const char *const name[] = {"l0", "l1", "s0", "s1"};
        struct zep_switch *s = zep_fabric_add_switch(f, name[i]);

        if (i < 2) {
            zep_switch_add_node(s, i);
            zep_switch_add_parent(s, 2);
            zep_switch_add_parent(s, 3);
        }
    }
    ck_assert_int_eq(zep_topo_validate(topo, &err), ZEP_OK);
    ck_assert_int_eq(topo->fabric[0].sw[3].level, 1);
    ck_assert_int_eq(zep_topo_node_distance(topo, 0, 1), 2);
    zep_topo_free(topo);
}
END_TEST

START_TEST(find)
{
    struct zep_topo *topo = synthetic("nodes:3");

    zep_node_add_alias(&topo->node[1], "node1.example.org");
    zep_node_add_alias(&topo->node[1], "node1.example.org"); /* once is enough */
    zep_node_add_alias(&topo->node[1], "node1");
    ck_assert_int_eq(topo->node[1].n_alias, 1);
    ck_assert_int_eq(zep_topo_find_node(topo, "node2"), 2);
    ck_assert_int_eq(zep_topo_find_node(topo, "node1.example.org"), 1);
    ck_assert_int_eq(zep_topo_find_node(topo, "node"), -1);
    zep_topo_free(topo);
}
END_TEST

/* --- NICs of devices: what is known are NUMA domains --- */

static const struct {
    const char *what;
    int dev_numa[8], nic_numa[4], nic_up[4]; /* -2 ends */
    int want[8];
} assign[] = {
    {"two devices a NIC", {0, 0, 1, 1, -2}, {0, 1, -2}, {1, 1}, {0, 0, 1, 1}},
    {"NICs in the other order", {0, 0, 1, 1, -2}, {1, 0, -2}, {1, 1}, {1, 1, 0, 0}},
    {"ties are split evenly", {0, 0, 0, 0, 1, 1, -2}, {0, 0, 1, 1}, {1, 1, 1, 1}, {0, 1, 0, 1, 2, 3}},
    {"a far NIC is better than none", {0, 1, -2}, {0, -2}, {1}, {0, 0}},
    {"no locality known", {-1, -1, -2}, {-1, -1, -2}, {1, 1}, {-1, -1}},
    {"a NIC that is down", {0, 0, -2}, {0, 0, -2}, {0, 1}, {1, 1}},
    {"a NIC that may be up", {0, 0, 1, -2}, {0, 0, 1, -2}, {-1, 1, 1}, {0, 1, 2}},
    {"all equally far: the locality may be hidden", {0, 0, -2}, {0, 0, -2}, {1, 1}, {-1, -1}},
    {"no NIC", {0, 0, -2}, {-2}, {0}, {-1, -1}},
};

START_TEST(assign_nics)
{
    struct zep_topo *topo = zep_topo_new("t", "test");
    struct zep_node *n = zep_topo_add_node(topo, "n0");
    struct zep_error err = {0};
    char key[16];

    for (int i = 0; i < 8 && assign[_i].dev_numa[i] != -2; i++) {
        snprintf(key, sizeof key, "gpu%d", i);
        zep_node_add_device(n, key, ZEP_DEV_GPU)->numa = assign[_i].dev_numa[i];
    }
    for (int i = 0; i < 4 && assign[_i].nic_numa[i] != -2; i++) {
        struct zep_nic *c;

        snprintf(key, sizeof key, "nic%d", i);
        c = zep_node_add_nic(n, key, key);
        c->numa = assign[_i].nic_numa[i];
        c->up = assign[_i].nic_up[i];
    }
    ck_assert_int_eq(zep_topo_assign_nics(topo, &err), ZEP_OK);
    for (int i = 0; i < n->n_device; i++)
        ck_assert_msg(n->device[i].nic == assign[_i].want[i], "%s: device %d has NIC %d, expected %d", assign[_i].what, i, n->device[i].nic, assign[_i].want[i]);
    zep_topo_free(topo);
}
END_TEST

START_TEST(assign_keeps)
{
    struct zep_topo *topo = zep_topo_new("t", "test");
    struct zep_node *n = zep_topo_add_node(topo, "n0");
    struct zep_error err = {0};

    for (int i = 0; i < 2; i++) {
        zep_node_add_nic(n, i ? "b" : "a", i ? "b" : "a")->numa = 0;
        zep_node_add_device(n, i ? "y" : "x", ZEP_DEV_GPU)->numa = 0;
    }
    zep_node_add_device(n, "z", ZEP_DEV_GPU)->numa = 1; /* so that not all are equally far */
    n->device[0].nic = 1;
    n->device[0].nic_distance = ZEP_DIST_SWITCH;
    ck_assert_int_eq(zep_topo_assign_nics(topo, &err), ZEP_OK);
    ck_assert_int_eq(n->device[0].nic, 1);
    ck_assert_int_eq(n->device[0].nic_distance, ZEP_DIST_SWITCH);
    ck_assert_int_eq(n->device[1].nic, 0); /* the one that is not used yet */
    ck_assert_int_eq(n->device[1].nic_distance, ZEP_DIST_NUMA);
    zep_topo_free(topo);
}
END_TEST

/* --- the planner's view --- */

START_TEST(view_plain)
{
    struct zep_topo *topo = synthetic("nodes:4 dev:4 nic:2 leaf:2 nvlink:100GB/s net:80Gb/s lat:2us netlat:4us");
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_view_new(topo, 3, 0, 1, &v, &err), ZEP_OK);
    ck_assert_int_eq(v->n_node, 3);
    ck_assert_int_eq(v->n_dev, 12);
    ck_assert_int_eq(v->n_nic, 6);
    ck_assert_int_eq(v->node_dev0[2], 8);
    ck_assert_int_eq(v->node_dev0[3], 12);
    ck_assert_int_eq(v->node_nic0[3], 6);
    ck_assert_int_eq(v->dev_node[7], 1);
    ck_assert_int_eq(v->dev_nic[4], 2);
    ck_assert_int_eq(v->dev_nic[7], 3);
    ck_assert_int_eq(v->node_leaf[0], v->node_leaf[1]);
    ck_assert_int_ne(v->node_leaf[0], v->node_leaf[2]);
    ck_assert_double_eq(v->dev_bw[11], 100e9);
    ck_assert_double_eq(v->nic_bw[5], 10e9);
    ck_assert_double_eq_tol(v->dev_latency_s, 2e-6, 1e-12);
    ck_assert_double_eq_tol(v->net_latency_s, 4e-6, 1e-12);
    zep_view_free(v);
    zep_topo_free(topo);
}
END_TEST

START_TEST(view_groups)
{
    struct zep_topo *topo = synthetic("nodes:1 dev:4 nic:2 nvlink:100GB/s");
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_view_new(topo, 1, 0, 2, &v, &err), ZEP_OK);
    ck_assert_int_eq(v->n_dev, 2);
    ck_assert_double_eq(v->dev_bw[1], 200e9);
    ck_assert_int_eq(v->dev_nic[1], 1);
    zep_view_free(v);
    zep_view_free(NULL);
    zep_topo_free(topo);
}
END_TEST

START_TEST(view_cores)
{
    struct zep_topo *topo = zep_topo_new("t", "test");
    struct zep_node *n = zep_topo_add_node(topo, "cpu7");
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    n->sockets = 2;
    n->cores_per_socket = 3;
    zep_node_add_nic(n, "eth0", "eth0");
    ck_assert_int_eq(zep_view_new(topo, 1, 4, 1, &v, &err), ZEP_OK);
    ck_assert_int_eq(v->n_dev, 4);
    ck_assert_int_eq(v->dev_nic[3], 0);
    ck_assert_int_eq(v->node_leaf[0], -1);
    zep_view_free(v);
    v = NULL;
    ck_assert_int_eq(zep_view_new(topo, 1, 7, 1, &v, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "node 'cpu7' offers 6 devices, 7 are wanted");
    ck_assert_ptr_null(v);
    zep_topo_free(topo);
}
END_TEST

/* All NICs of a plan device work together as its first one, and count once. */
START_TEST(view_nics)
{
    static const struct {
        const char *preset;
        int tp, dev_nic1;
        double bw[4]; /* GB/s */
    } cases[] = {
        {"dgx-h100", 1, 1, {50, 50, 50, 50}}, {"dgx-h100", 2, 2, {100, 0, 100, 0}}, {"A", 1, 0, {25, 25, 25, 25}}, {"A", 2, 1, {25, 25, 25, 25}}, {"A", 4, 2, {50, 0, 50, 0}}, {"p5", 1, 4, {50, 0, 0, 0}}, {"p5", 2, 8, {100, 0, 0, 0}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_topo *topo = NULL;
        struct zep_view *v = NULL;
        struct zep_error err = {0};

        ck_assert_msg(zep_topo_preset(cases[i].preset, 1, &topo, &err) == ZEP_OK && zep_topo_assign_nics(topo, &err) == ZEP_OK && zep_view_new(topo, 1, 0, cases[i].tp, &v, &err) == ZEP_OK, "%s", err.text);
        ck_assert_int_eq(v->dev_nic[1], cases[i].dev_nic1);
        for (int c = 0; c < 4; c++)
            ck_assert_msg(v->nic_bw[c] == cases[i].bw[c] * 1e9, "%s tp %d nic %d: %g", cases[i].preset, cases[i].tp, c, v->nic_bw[c]);
        zep_view_free(v);
        zep_topo_free(topo);
    }
}
END_TEST

static const struct {
    int n_node, dev, tp;
    const char *message;
} bad_view[] = {
    {-1, 0, 1, "-1 nodes are wanted, the topology (synthetic nodes:2 dev:4) has 2"},
    {3, 0, 1, "3 nodes are wanted, the topology (synthetic nodes:2 dev:4) has 2"},
    {2, 5, 1, "node 'node0' offers 4 devices, 5 are wanted"},
    {2, 2, 4, "node 'node0' offers 1 tensor-parallel group of 4, 2 are wanted"},
    {2, 0, 8, "node 'node0' has 4 GPUs, fewer than the 8 of a tensor-parallel group (--tp, cluster.tp)"},
    {2, -1, 1, "-1 devices a node in groups of 1: expected 0 or more in groups of at least 1"},
    {2, 1, 0, "1 devices a node in groups of 0: expected 0 or more in groups of at least 1"},
};

START_TEST(view_bad)
{
    struct zep_topo *topo = synthetic("nodes:2 dev:4");
    struct zep_view *v = NULL;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_view_new(topo, bad_view[_i].n_node, bad_view[_i].dev, bad_view[_i].tp, &v, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, bad_view[_i].message);
    ck_assert_ptr_null(v);
    zep_topo_free(topo);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("topology: the model");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_add_loop_test(t, synthetic_good, 0, ROWS(good));
    tcase_add_loop_test(t, synthetic_bad, 0, ROWS(bad));
    tcase_add_test(t, synthetic_sources);
    tcase_add_loop_test(t, preset_good, 0, ROWS(presets));
    tcase_add_test(t, preset_bad);
    tcase_add_loop_test(t, validate_bad, 0, ROWS(broken));
    tcase_add_test(t, validate_empty);
    tcase_add_test(t, distances);
    tcase_add_test(t, two_parents);
    tcase_add_test(t, find);
    tcase_add_loop_test(t, assign_nics, 0, ROWS(assign));
    tcase_add_test(t, assign_keeps);
    tcase_add_test(t, view_plain);
    tcase_add_test(t, view_groups);
    tcase_add_test(t, view_cores);
    tcase_add_test(t, view_nics);
    tcase_add_loop_test(t, view_bad, 0, ROWS(bad_view));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
