/* Several sources: merging, siblings, differences, and formats for other tools, which are read back. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "topology/detect.h"
#include "topology/preset.h"
#include "topology/probe.h"
#include "topology/source.h"
#include "topology/topo_internal.h"

static struct zep_topo *parse(const char *text)
{
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_parse("f", text, strlen(text), &t, &err) == ZEP_OK, "%s\n%s", err.text, text);
    return t;
}

#define HEAD "format: zeppelin-topology/1.0\norigin: "

static void merge(struct zep_topo *a, struct zep_topo *b)
{
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_merge(a, b, &err) == ZEP_OK, "%s", err.text);
    zep_topo_free(b);
}

static int find_conflict(const struct zep_topo *t, const char *where, const char *what)
{
    for (int i = 0; i < t->n_conflict; i++)
        if (!strcmp(t->conflict[i].where, where) && !strcmp(t->conflict[i].what, what))
            return i;
    return -1;
}

/* --- nodes match on any name --- */

START_TEST(names)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, aliases: [n1.site.org, 10.0.0.1]}\n- {id: n2, memory: 100GB, memory_source: controller}\n");

    merge(t, parse(HEAD "B\nnodes:\n- {id: host-7, aliases: [10.0.0.1], sockets: 2}\n- {id: n2.site.org, memory: 101GB, memory_source: node}\n- {id: n9}\n"));
    ck_assert_int_eq(t->n_node, 3);
    ck_assert_int_eq(t->node[0].sockets, 2);
    ck_assert_int_eq(zep_topo_find_node(t, "host-7"), 0);
    ck_assert_int_eq(zep_topo_find_node(t, "n2.site.org"), 1); /* by the short name */
    ck_assert_int_eq(t->node[1].mem_bytes, 101000000000);      /* read on the node */
    ck_assert_int_eq(t->n_conflict, 0);                        /* rounding is no disagreement */
    ck_assert_str_eq(t->origin, "A + B");
    ck_assert_str_eq(t->warning[0], "1 node of B, 'n9' first, is not among the 2 of A");
    zep_topo_free(t);
}
END_TEST

START_TEST(ambiguous)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1}\n- {id: n2, aliases: [other]}\n"), *b = parse(HEAD "B\nnodes:\n- {id: n1, aliases: [other]}\n");
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_merge(t, b, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "node 'n1' (B) is two nodes of A: 'n1' by 'n1' and 'n2' by 'other'");
    zep_topo_free(b);
    b = parse(HEAD "B\nnodes:\n- {id: n2}\n- {id: other}\n");
    ck_assert_int_eq(zep_topo_merge(t, b, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "two nodes of B are node 'n2' of A: 'other' is the second");
    zep_topo_free(b);
    zep_topo_free(t);
}
END_TEST

/* --- which fact holds --- */

static const struct {
    const char *mine, *theirs; /* sources */
    int theirs_hold;
} precedence[] = {
    {"user", "measured", 0}, {"measured", "user", 1}, {"measured", "node", 0}, {"node", "controller", 0}, {"site", "controller", 1}, {"label", "site", 1}, {"preset", "label", 1}, {"default", "preset", 1}, {"node", "node", 0},
};

START_TEST(stronger_holds)
{
    char text[400];
    struct zep_topo *t;
    int c;

    snprintf(text, sizeof text, HEAD "A\nnodes:\n- id: n1\n  nics: [{key: '0000:01:00.0', source: %s, bandwidth: {value: 25GB/s, source: %s}}]\n", precedence[_i].mine, precedence[_i].mine);
    t = parse(text);
    snprintf(text, sizeof text, HEAD "B\nnodes:\n- id: n1\n  nics: [{key: '00000000:01:00.0', source: %s, bandwidth: {value: 12.5GB/s, source: %s}}]\n", precedence[_i].theirs, precedence[_i].theirs);
    merge(t, parse(text));
    ck_assert_int_eq(t->node[0].n_nic, 1); /* one PCI address, written in two ways */
    ck_assert_double_eq_tol(t->node[0].nic[0].bw.value, precedence[_i].theirs_hold ? 12.5e9 : 25e9, 1);
    c = find_conflict(t, "node n1, NIC 0000:01:00.0", "bandwidth");
    if (!strcmp(precedence[_i].mine, "default")) {
        ck_assert_int_lt(c, 0); /* a default gives way without a word */
    } else {
        ck_assert_int_ge(c, 0);
        ck_assert_str_eq(t->conflict[c].kept, precedence[_i].theirs_hold ? "12.5GB/s" : "25GB/s");
        ck_assert_str_eq(t->conflict[c].lost, precedence[_i].theirs_hold ? "25GB/s" : "12.5GB/s");
        ck_assert_str_eq(zep_source_name(t->conflict[c].lost_source), precedence[_i].theirs_hold ? precedence[_i].mine : precedence[_i].theirs);
    }
    zep_topo_free(t);
}
END_TEST

START_TEST(unknown_never_overrides)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, sockets: 2, cores_per_socket: 8, cpu_source: label, memory: 1GB, memory_source: label, state: idle, state_source: label}\n");

    merge(t, parse(HEAD "B\nnodes:\n- {id: n1, sockets: 2, cpu_source: node}\n"));
    ck_assert_int_eq(t->node[0].cores_per_socket, 8);
    ck_assert_str_eq(t->node[0].state, "idle");
    ck_assert_int_eq(t->node[0].mem_source, ZEP_SRC_LABEL);
    ck_assert_int_eq(t->n_conflict, 0);
    zep_topo_free(t);
}
END_TEST

/* A controller only counts; the node knows which. */
START_TEST(counted_devices)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  devices: [{key: gpu0, source: controller, model: h100}, {key: gpu1, source: controller, model: h100}, {key: gpu2, source: controller, model: h100}]\n");

    merge(t, parse(HEAD "B\nnodes:\n- id: n1\n  nics: [{key: '0000:03:00.0', name: mlx5_0, source: node}]\n  devices: [{key: '0000:02:00.0', source: node, uuid: GPU-2}, {key: '0000:01:00.0', source: node, uuid: GPU-1, nic: 0, nic_source: node}]\n"));
    ck_assert_int_eq(t->node[0].n_device, 2);
    ck_assert_str_eq(t->node[0].device[0].key, "0000:02:00.0");
    ck_assert_str_eq(t->node[0].device[1].model, "h100"); /* what all have in common holds for each */
    ck_assert_int_eq(t->node[0].device[1].nic, 0);
    ck_assert_int_eq(find_conflict(t, "node n1", "number of devices"), 0);
    ck_assert_str_eq(t->conflict[0].kept, "2");
    ck_assert_str_eq(t->conflict[0].lost, "3");
    /* the same by UUID, in another order, with one more: nothing is swapped */
    merge(t, parse(HEAD "C\nnodes:\n- id: n1\n  devices: [{key: GPU-1, source: node, memory: 80GB}, {key: GPU-3, source: node}, {key: GPU-2, source: node, memory: 40GB}]\n"));
    ck_assert_int_eq(t->node[0].n_device, 3);
    ck_assert_int_eq(t->node[0].device[0].mem_bytes, 40000000000);
    ck_assert_int_eq(t->node[0].device[1].mem_bytes, 80000000000);
    ck_assert_int_ge(find_conflict(t, "node n1, device GPU-3", "presence"), 0);
    zep_topo_free(t);
}
END_TEST

START_TEST(relations)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  nics: [{key: '0000:05:00.0', name: mlx5_1, source: node}, {key: '0000:04:00.0', name: mlx5_0, source: node}]\n  devices: [{key: gpu1, source: site}, {key: gpu0, source: site}]\n");
    struct zep_error err = {0};

    merge(t, parse(HEAD "B\nnodes:\n- id: n1\n  nics: [{key: mlx5_0}, {key: mlx5_1}]\n  devices:\n  - {key: gpu0, nic_distances: [switch, system], nvlinks: [0, 4]}\n  - {key: gpu1, nic_distances: [system, switch], nvlinks: [4, 0]}\n"));
    ck_assert_int_eq(t->node[0].n_nic, 2); /* by name */
    ck_assert_int_eq(zep_node_nic_distance(&t->node[0], 0, 0), ZEP_DIST_SWITCH); /* gpu1, mlx5_1 */
    ck_assert_int_eq(zep_node_nic_distance(&t->node[0], 0, 1), ZEP_DIST_SYSTEM);
    ck_assert_int_eq(t->node[0].device[1].peer_nvlink[0], 4);
    ck_assert_int_eq(zep_topo_assign_nics(t, &err), ZEP_OK);
    ck_assert_str_eq(t->node[0].nic[t->node[0].device[0].nic].name, "mlx5_1");
    zep_topo_free(t);
}
END_TEST

/* --- fabrics --- */

#define NODES4 "nodes: [{id: 'n[1-4]'}]\n"
#define TREE(name, source, a, b) "fabrics:\n- name: " name "\n  source: " source "\n  switches:\n  - {name: l0, parents: [top], nodes: '" a "'}\n  - {name: l1, parents: [top], nodes: '" b "'}\n  - {name: top}\n"

START_TEST(fabrics)
{
    struct zep_topo *t = parse(HEAD "A\n" NODES4 TREE("slurm", "site", "n[1-2]", "n[3-4]"));

    merge(t, parse(HEAD "B\n" NODES4 TREE("slurm", "controller", "n[1-2]", "n[3-4]"))); /* one fabric, known twice */
    ck_assert_int_eq(t->n_fabric, 1);
    ck_assert_int_eq(t->fabric[0].sw[0].n_node, 2);
    ck_assert_int_eq(t->fabric[0].sw[0].n_parent, 1);
    ck_assert_int_eq(t->fabric[0].source, ZEP_SRC_CONTROLLER);
    ck_assert_int_eq(t->n_conflict, 0);
    merge(t, parse(HEAD "C\n" NODES4 TREE("cables", "node", "n[1,3]", "n[2,4]"))); /* another view, which says otherwise */
    ck_assert_int_eq(t->n_fabric, 2);
    ck_assert_str_eq(t->fabric[0].name, "cables"); /* the stronger comes first: it is planned with */
    ck_assert_int_eq(t->n_conflict, 1);
    ck_assert_str_eq(t->conflict[0].where, "nodes n1 and n3");
    ck_assert_str_eq(t->conflict[0].what, "leaf switch (and 1 more such node)");
    zep_topo_free(t);
}
END_TEST

/* A tree that has together what another one parts is told of as well, unless it is coarser. */
START_TEST(fabrics_reversed)
{
    struct zep_topo *t = parse(HEAD "A\n" NODES4 TREE("slurm", "site", "n[1-2]", "n[3-4]"));

    merge(t, parse(HEAD "B\n" NODES4 "fabrics:\n- {name: labels, source: label, switches: [{name: s, parents: [top], nodes: 'n[1-4]'}, {name: top}]}\n"));
    ck_assert_int_eq(t->n_conflict, 1);
    ck_assert_str_eq(t->conflict[0].where, "nodes n1 and n3");
    ck_assert_str_eq(t->conflict[0].kept, "'l0' and 'l1' in fabric slurm");
    ck_assert_str_eq(t->conflict[0].lost, "'s' for both in fabric labels");
    zep_topo_free(t);
    t = parse(HEAD "A\n" NODES4 TREE("slurm", "site", "n[1-2]", "n[3-4]"));
    merge(t, parse(HEAD "B\n" NODES4 "fabrics:\n- {name: labels, source: label, switches: [{name: zone, nodes: 'n[1-4]'}]}\n"));
    ck_assert_int_eq(t->n_conflict, 0);
    zep_topo_free(t);
}
END_TEST

/* --- a part, and what of it takes ranks --- */

START_TEST(selected)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, sockets: 1, cores_per_socket: 2}\n- {id: 'n[2-3]', sockets: 1, cores_per_socket: 4}\n- {id: n4}\n- {id: n5, sockets: 1, cores_per_socket: 4, state: idle+drain, state_source: controller}\n" TREE("slurm", "site", "n[1-2]", "n[3-5]"));
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_to_hostfile(t, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data, "n1 slots=2\nn2 slots=4\nn3 slots=4\n# left out: n4 (no devices, and no cores that are known)\n# left out: n5 (idle+drain)\n");
    zep_buf_free(&b);
    ck_assert_int_eq(zep_topo_to_ranks(t, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data, "n1\nn1\nn2\nn2\nn2\nn2\nn3\nn3\nn3\nn3\n");
    zep_buf_free(&b);
    ck_assert_int_eq(zep_topo_select(t, NULL, "n9", &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "--without: 'n9': expected a node of the topology");
    ck_assert_int_eq(zep_topo_select(t, "n[1-2]", "n[1-2]", &err), ZEP_EINVAL);
    ck_assert_int_eq(t->n_node, 5);
    ck_assert_int_eq(zep_topo_select(t, "n[2-5]", "n4", &err), ZEP_OK);
    ck_assert_int_eq(t->n_node, 3);
    ck_assert_str_eq(t->node[0].id, "n2");
    ck_assert_int_eq(t->fabric[0].sw[0].n_node, 1);
    ck_assert_int_eq(t->fabric[0].sw[0].node[0], 0);
    ck_assert_int_eq(t->fabric[0].sw[1].n_node, 2);
    ck_assert_int_eq(t->fabric[0].sw[1].node[1], 2);
    zep_topo_free(t);
}
END_TEST

START_TEST(counts_disagree)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, devices: [{key: gpu0, model: h100, source: site}, {key: gpu1, model: h100, source: site}, {key: gpu2, model: h100, source: site}]}\n");

    merge(t, parse(HEAD "B\nnodes:\n- {id: n1, devices: [{key: gpu0, model: NVIDIA-H100-80GB-HBM3, source: controller}, {key: gpu1, source: controller}]}\n")); /* the stronger one has fewer */
    ck_assert_int_eq(t->node[0].n_device, 2);
    ck_assert_int_eq(t->n_conflict, 1);
    ck_assert_str_eq(t->conflict[0].kept, "2");
    merge(t, parse(HEAD "C\nnodes:\n- {id: n1, devices: [{key: gpu0, model: a100, source: label}, {key: gpu1, source: label}, {key: gpu2, source: label}, {key: gpu3, source: label}]}\n")); /* the weaker one has more */
    ck_assert_int_eq(t->node[0].n_device, 2);
    ck_assert_int_ge(find_conflict(t, "node n1", "model of devices"), 0);
    ck_assert_str_eq(t->conflict[find_conflict(t, "node n1", "model of devices")].lost, "a100");
    zep_topo_free(t);
    ck_assert_int_eq(zep_same_model("h100", "NVIDIA-H100-80GB-HBM3"), 1);
    ck_assert_int_eq(zep_same_model("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"), 0);
    ck_assert_int_eq(zep_same_model("rtx_4090", "NVIDIA GeForce RTX 3090"), 0);
    ck_assert_int_eq(zep_same_model("tesla", "NVIDIA H100"), 1); /* says no model */
    ck_assert_int_eq(zep_same_model("t4", "Tesla T4"), 1);
}
END_TEST

/* A line of the text has a word for each kind of device and each speed of NIC. */
START_TEST(mixed_node)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  devices: [{key: gpu0, kind: gpu, model: h100, nic: 0}, {key: gpu1, kind: gpu, model: a100, nic: 1}, {key: gpu2, kind: gpu, model: h100, nic: 1}]\n"
                                    "  nics: [{key: a, bandwidth: 200Gb/s}, {key: b, bandwidth: 400Gb/s}, {key: c, bandwidth: 10Gb/s}]\n");
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_to_text(t, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "    2 GPUs h100, 1 GPU a100, 1 NIC at 25GB/s, 1 NIC at 50GB/s, 1 NIC at 1.25GB/s\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "    left out: c (1.25GB/s)\n"));
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* Fabrics that two sources name differently, hosts with their domain, switches with their path: the same things. */
START_TEST(diff_by_meaning)
{
    struct zep_topo *a = parse(HEAD "A\n" NODES4 TREE("slurm", "site", "n[1-2]", "n[3-4]"));
    struct zep_topo *b = parse(HEAD "B\nnodes: [{id: n1.x.org}, {id: n2.x.org}, {id: n3.x.org}, {id: n4.x.org}]\nfabrics:\n- name: labels\n  switches:\n  - {name: top/l0, parents: [top], nodes: 'n1.x.org'}\n"
                                    "  - {name: top/l1, parents: [top], nodes: 'n2.x.org,n3.x.org,n4.x.org'}\n  - {name: top}\n");
    struct zep_buf out = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_diff(a, b, &out, &err), ZEP_OK);
    ck_assert_str_eq(out.data, "~ fabric labels: named slurm before\n~ fabric labels, switch top/l0: nodes 'n1', 'n[1-2]' before\n~ fabric labels, switch top/l1: nodes 'n[2-4]', 'n[3-4]' before\n");
    zep_buf_free(&out);
    zep_topo_free(a);
    zep_topo_free(b);
}
END_TEST

/* --- siblings --- */

static int collect(void *arg, int node, const char *text)
{
    struct zep_buf *b = arg;

    (void)node;
    zep_buf_printf(b, "%s\n", text);
    return 0;
}

START_TEST(siblings)
{
    struct zep_topo *t = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset("dgx-h100", 8, &t, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_siblings(t, collect, &b, &err), ZEP_OK);
    ck_assert_uint_eq(b.len, 0);
    t->node[3].nic[2].up = 0;
    t->node[5].device[1].pcie_width = 8;
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 8; k++)
            if (i != 5 || k != 1)
                t->node[i].device[k].pcie_width = 16;
    zep_device_clear(&t->node[6].device[7]);
    t->node[6].n_device = 7;
    ck_assert_int_eq(zep_topo_siblings(t, collect, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "node 'node3': NIC nic2 (nic2) is down, up on its 5 siblings\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "node 'node5': device gpu1: PCIe width 8, 16 on its 5 siblings\n"));
    ck_assert_ptr_nonnull(strstr(b.data, "node 'node6': 7 devices, 8 on its 5 siblings\nnode 'node6': device gpu7 is missing\n"));
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* GPU nodes of two models and hosts without GPUs are kinds of their own where nobody looked inside. */
START_TEST(siblings_of_kinds)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: 'a[1-3]', devices: [{key: gpu0, model: a100}, {key: gpu1, model: a100}]}\n- {id: 'h[1-3]', devices: [{key: gpu0, model: h100}, {key: gpu1, model: h100}]}\n"
                                    "- {id: h4, devices: [{key: gpu0, model: h100}]}\n- {id: ufm, nics: [{key: m0}]}\n- {id: stor, nics: [{key: m0}, {key: m1}]}\n");
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_siblings(t, collect, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data ? b.data : "", "node 'h4': 1 device, 2 on its 3 siblings\nnode 'h4': device gpu1 is missing\n");
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* --- the probe's stream --- */

START_TEST(probe_stream)
{
    static const char n1[] = "{\"format\":\"zeppelin-detect/1.0\",\"name\":\"n1\",\"origin\":\"x\",\"nodes\":[{\"id\":\"n1\",\"sockets\":2}],\"fabrics\":[{\"name\":\"slurm\",\"kind\":\"tree\",\"switches\":[{\"name\":\"l0\",\"nodes\":[0]}]}]}";
    static const char n2[] = "{\"format\":\"zeppelin-detect/1.0\",\"name\":\"n2\",\"origin\":\"x\",\"nodes\":[{\"id\":\"n2\",\"sockets\":2}],\"fabrics\":[{\"name\":\"slurm\",\"kind\":\"tree\",\"switches\":[{\"name\":\"l0\",\"nodes\":[0]}]}]}";
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    zep_buf_printf(&b, "motd\n[1,0]<stdout>:zeppelin-probe n2 1 2 %s\n1: zeppelin-probe n1 0 2 %.40s\nzeppelin-probe n2 0 2 %.50s\nnoise zeppelin\n0: zeppelin-probe n1 1 2 %s\n", n2 + 50, n1, n2, n1 + 40);
    ck_assert_msg(zep_probe_collect(b.data, b.len, "probe", &t, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(t->n_node, 2);
    ck_assert_str_eq(t->node[0].id, "n1");
    ck_assert_int_eq(t->fabric[0].sw[0].n_node, 2); /* each knew its own place */
    ck_assert_int_eq(t->n_warning, 0);
    zep_topo_free(t);
    t = NULL;
    b.data[strlen(b.data) - 60] = '\0'; /* a piece that ends in the middle */
    ck_assert_int_lt(zep_probe_collect(b.data, strlen(b.data), "probe", &t, &err), 0);
    ck_assert_int_lt(zep_probe_collect("x\n", 2, "probe", &t, &err), 0);
    ck_assert_str_eq(err.text, "probe: no node answered");
    ck_assert_int_lt(zep_probe_collect("zeppelin-probe n1 0 2 {}\n", 25, "probe", &t, &err), 0);
    ck_assert_str_eq(err.text, "probe: node 'n1' sent 1 of 2 pieces");
    ck_assert_ptr_null(t);
    zep_buf_free(&b);
}
END_TEST

/* --- diff --- */

START_TEST(differences)
{
    struct zep_topo *a = NULL, *b = NULL;
    struct zep_buf out = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset("A", 4, &a, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_preset("A", 5, &b, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_diff(a, a, &out, &err), ZEP_OK);
    ck_assert_uint_eq(out.len, 0);
    b->node[1].nic[0].up = b->node[2].nic[0].up = 0;
    b->node[0].state = strdup("drained");
    ck_assert_int_eq(zep_topo_diff(a, b, &out, &err), ZEP_OK);
    ck_assert_str_eq(out.data, "+ node node4\n~ nodes node[1-2]: NIC nic0 (nic0) is down, up before\n~ node node0: state 'drained', 'unknown' before\n~ fabric net, switch leaf0: nodes 'node[0-4]', 'node[0-3]' before\n");
    zep_buf_free(&out);
    ck_assert_int_eq(zep_topo_diff(b, a, &out, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(out.data, "- node node4\n"));
    zep_buf_free(&out);
    zep_topo_free(a);
    zep_topo_free(b);
}
END_TEST

/* --- formats of other tools, read back --- */

typedef int (*write_fn)(const struct zep_topo *t, struct zep_buf *b, struct zep_error *err);
typedef int (*load_fn)(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);

static struct zep_topo *through(const struct zep_topo *t, write_fn write, load_fn load)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_source_request q = {.file = "f"};
    struct zep_topo *u = NULL;
    struct zep_error err = {0};

    ck_assert_msg(write(t, &b, &err) == ZEP_OK, "%s", err.text);
    q.text = b.data;
    q.len = b.len;
    ck_assert_msg(load(&q, &u, &err) == ZEP_OK, "%s\n%s", err.text, b.data);
    zep_buf_free(&b);
    return u;
}

static void same_distances(const struct zep_topo *a, const struct zep_topo *b)
{
    ck_assert_int_eq(a->n_node, b->n_node);
    for (int i = 0; i < a->n_node; i++)
        for (int k = 0; k < a->n_node; k++) {
            int x = zep_topo_find_node(b, a->node[i].id), y = zep_topo_find_node(b, a->node[k].id);

            ck_assert_int_ge(x, 0);
            if (zep_topo_node_distance(a, i, k) != zep_topo_node_distance(b, x, y))
                ck_abort_msg("%s and %s: %d and %d", a->node[i].id, a->node[k].id, zep_topo_node_distance(a, i, k), zep_topo_node_distance(b, x, y));
        }
}

START_TEST(trees_read_back)
{
    struct zep_topo *t = NULL, *u;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_synthetic("nodes:14 leaf:4", &t, &err), ZEP_OK);
    u = through(t, zep_topo_to_slurm_conf, zep_topo_from_slurm_conf);
    same_distances(t, u);
    zep_topo_free(u);
    u = through(t, zep_topo_to_slurm_yaml, zep_topo_from_slurm_yaml);
    same_distances(t, u);
    zep_topo_free(u);
    u = through(t, zep_topo_to_labels, zep_topo_from_nodelist);
    same_distances(t, u);
    zep_topo_free(u);
    zep_topo_free(t);
    t = parse(HEAD "x\nnodes: [{id: 'n[1-4]'}]\nfabrics:\n- name: b\n  kind: blocks\n  block_sizes: [2, 4]\n  switches:\n  - {name: b0, nodes: 'n[1-2]'}\n  - {name: b1, nodes: 'n[3-4]'}\n");
    u = through(t, zep_topo_to_slurm_conf, zep_topo_from_slurm_conf);
    ck_assert_int_eq(u->fabric[0].kind, ZEP_FABRIC_BLOCKS);
    ck_assert_int_eq(u->fabric[0].block_size[1], 4);
    same_distances(t, u);
    zep_topo_free(u);
    u = through(t, zep_topo_to_labels, zep_topo_from_nodelist);
    ck_assert_int_eq(u->fabric[0].kind, ZEP_FABRIC_BLOCKS);
    same_distances(t, u);
    zep_topo_free(u);
    zep_topo_free(t);
}
END_TEST

START_TEST(nodes_on_upper_switches)
{
    struct zep_topo *t = parse(HEAD "x\nnodes: [{id: 'n[1-3]'}]\nfabrics:\n- name: b\n  switches:\n  - {name: l0, parents: [top], nodes: 'n[1-2]'}\n  - {name: top, nodes: n3}\n"), *u;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_to_slurm_conf(t, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "SwitchName=top-nodes Nodes=n3\nSwitchName=top Switches=top-nodes,l0\n")); /* Slurm takes nodes on leaves only */
    zep_buf_free(&b);
    u = through(t, zep_topo_to_slurm_conf, zep_topo_from_slurm_conf);
    zep_topo_free(u);
    free(t->fabric[0].sw[0].name);
    t->fabric[0].sw[0].name = strdup("a b");
    ck_assert_int_eq(zep_topo_to_slurm_conf(t, &b, &err), ZEP_OK); /* a name that Slurm does not take */
    ck_assert_ptr_nonnull(strstr(b.data, "SwitchName=s0 Nodes=n[1-2]\n"));
    zep_buf_free(&b);
    free(t->fabric[0].sw[0].name); /* a path of a cloud's labels */
    t->fabric[0].sw[0].name = strdup("0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef/r1");
    ck_assert_int_eq(zep_topo_to_slurm_conf(t, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "SwitchName=r1 Nodes=n[1-2]\n"));
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* --- what a review found --- */

START_TEST(other_numbering)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  nics: [{key: '0000:1a:00.0', name: mlx5_0, source: node, bandwidth: 200Gb/s}, {key: '0000:3b:00.0', name: mlx5_1, source: node}]\n");

    merge(t, parse(HEAD "B\nnodes:\n- id: n1\n  nics: [{key: '0000:5c:00.0', name: mlx5_0, source: node, bandwidth: 100Gb/s}, {key: '0000:1a:00.0', name: mlx5_1, source: node}]\n"));
    ck_assert_int_eq(t->node[0].n_nic, 3); /* a name is nothing where both have an address */
    ck_assert_double_eq_tol(t->node[0].nic[0].bw.value, 25e9, 1);
    ck_assert_str_eq(t->node[0].nic[2].key, "0000:5c:00.0");
    zep_topo_free(t);
}
END_TEST

/* The user's word holds also where it only counts, in either order. */
START_TEST(counted_precedence)
{
    static const char mine[] = HEAD "D\nnodes:\n- id: n1\n  nics: [{key: nic0, bandwidth: 100Gb/s}, {key: nic1, bandwidth: 100Gb/s}]\n  devices: [{key: gpu0, bandwidth: 100GB/s}]\n";
    static const char node[] = HEAD "A\nnodes:\n- id: n1\n  nics: [{key: '0000:01:00.0', name: mlx5_0, source: node, bandwidth: {value: 200Gb/s, source: node}}, {key: '0000:02:00.0', name: mlx5_1, source: node}]\n"
                               "  devices: [{key: '0000:03:00.0', source: node, bandwidth: {value: 300GB/s, source: node}}]\n";

    for (int i = 0; i < 2; i++) {
        struct zep_topo *t = parse(i ? mine : node);

        merge(t, parse(i ? node : mine));
        ck_assert_int_eq(t->node[0].n_nic, 2);
        ck_assert_double_eq_tol(t->node[0].nic[0].bw.value, 12.5e9, 1);
        ck_assert_double_eq_tol(t->node[0].nic[1].bw.value, 12.5e9, 1);
        ck_assert_double_eq_tol(t->node[0].device[0].bw.value, 100e9, 1);
        ck_assert_int_ge(find_conflict(t, "node n1, NIC mlx5_0", "bandwidth"), 0);
        zep_topo_free(t);
    }
}
END_TEST

/* A weak fact does not become a strong one because it stands beside one. */
START_TEST(fields_keep_their_source)
{
    struct zep_topo *t = parse(HEAD "U\nnodes:\n- {id: n1, sockets: 2, devices: [{key: '0000:01:00.0', memory: 80GB}]}\n");

    merge(t, parse(HEAD "L\nnodes:\n- {id: n1, cores_per_socket: 99, cpu_source: label, devices: [{key: '0000:01:00.0', source: label, numa: 1}]}\n"));
    merge(t, parse(HEAD "N\nnodes:\n- {id: n1, cores_per_socket: 8, sockets: 1, cpu_source: node, devices: [{key: '0000:01:00.0', source: node, numa: 0, memory: 40GB}]}\n"));
    ck_assert_int_eq(t->node[0].device[0].numa, 0);
    ck_assert_int_eq(t->node[0].device[0].mem_bytes, 80000000000);
    ck_assert_int_eq(t->node[0].cores_per_socket, 8);
    ck_assert_int_eq(t->node[0].sockets, 2);
    zep_topo_free(t);
}
END_TEST

/* One NIC more does not make the others' places forgotten. */
START_TEST(one_more)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  nics: [{key: mlx5_0}, {key: mlx5_1}]\n  devices:\n  - {key: '0000:01:00.0', nic_distances: [switch, system], nvlinks: [0, 4]}\n  - {key: '0000:02:00.0', nic_distances: [system, switch], nvlinks: [4, 0]}\n");
    struct zep_error err = {0};

    merge(t, parse(HEAD "B\nnodes:\n- id: n1\n  nics: [{key: mlx5_2, source: node}]\n  devices: [{key: '0000:09:00.0', source: node}]\n"));
    ck_assert_int_eq(t->node[0].n_nic, 3);
    ck_assert_int_eq(zep_node_nic_distance(&t->node[0], 0, 2), ZEP_DIST_UNKNOWN);
    ck_assert_int_eq(t->node[0].device[1].peer_nvlink[0], 4);
    ck_assert_int_eq(zep_topo_assign_nics(t, &err), ZEP_OK);
    ck_assert_int_eq(t->node[0].device[0].nic, 0);
    ck_assert_int_eq(t->node[0].device[1].nic, 1);
    zep_topo_free(t);
}
END_TEST

/* nvidia-smi numbers by PCI address: its relations are of those GPUs, whatever the order in which they are listed. */
START_TEST(numbered_by_address)
{
    static const char smi[] = HEAD "S\nnodes:\n- id: n1\n  nics: [{key: mlx5_0, source: node}, {key: mlx5_1, source: node}]\n  devices:\n  - {key: gpu0, source: node, nic_distances: [switch, system], nvlinks: [0, 18]}\n"
                              "  - {key: gpu1, source: node, nic_distances: [system, switch], nvlinks: [18, 0]}\n";
    static const char hw[] = HEAD "H\nnodes:\n- id: n1\n  nics: [{key: '0000:31:00.0', name: mlx5_1, source: node}, {key: '0000:21:00.0', name: mlx5_0, source: node}]\n  devices: [{key: '0000:30:00.0', source: node}, {key: '0000:20:00.0', source: node}]\n";
    struct zep_error err = {0};

    for (int i = 0; i < 2; i++) {
        struct zep_topo *t = parse(i ? smi : hw);

        merge(t, parse(i ? hw : smi));
        ck_assert_int_eq(zep_topo_assign_nics(t, &err), ZEP_OK);
        for (int k = 0; k < 2; k++) {
            ck_assert_int_ge(t->node[0].device[k].nic, 0);
            ck_assert_str_eq(t->node[0].nic[t->node[0].device[k].nic].name, !strcmp(t->node[0].device[k].key, "0000:20:00.0") ? "mlx5_0" : "mlx5_1");
            ck_assert_int_eq(t->node[0].device[k].peer_nvlink[!k], 18);
        }
        zep_topo_free(t);
    }
}
END_TEST

/* A fabric that is known by GUIDs, and the node by addresses; and adapters that do not say their names. */
START_TEST(guids)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- id: n1\n  nics: [{key: '0000:01:00.0', name: mlx5_0, source: node, guid: 0c42a10300abcdef}]\n");

    merge(t, parse(HEAD "B\nnodes:\n- id: n1\n  nics: [{key: H-0c42a10300abcdef, name: node-x, source: controller, guid: 0c42a10300abcdef, up: true}]\nfabrics: [{name: ib, switches: [{name: l0, nodes: n1, port: 0}]}]\n"));
    ck_assert_int_eq(t->node[0].n_nic, 1);
    ck_assert_int_eq(t->node[0].nic[0].up, 1);
    merge(t, parse(HEAD "C\nnodes:\n- id: n1\n  nics: [{key: H-99, name: HCA-1, source: controller}]\n"));
    ck_assert_int_eq(t->node[0].n_nic, 1);
    ck_assert_int_eq(t->n_conflict, 0);
    zep_topo_free(t);
}
END_TEST

/* Two sources that know one tree by name, and place nodes otherwise: the stronger one holds. */
START_TEST(stale_tree)
{
    struct zep_topo *t = parse(HEAD "A\n" NODES4 TREE("slurm", "site", "n[1-2]", "n[3-4]"));
    const struct zep_fabric *f;

    merge(t, parse(HEAD "B\n" NODES4 "fabrics:\n- name: slurm\n  source: controller\n  switches:\n  - {name: l0, parents: [top], nodes: 'n[1,3]'}\n  - {name: l1, parents: [core], nodes: 'n[2,4]'}\n  - {name: top}\n  - {name: core}\n"));
    f = &t->fabric[0];
    ck_assert_int_eq(t->n_fabric, 1);
    ck_assert_int_eq(f->sw[0].n_node, 2);
    ck_assert_int_eq(f->sw[1].n_node, 2);
    ck_assert_int_eq(zep_topo_node_distance(t, 0, 2), 1);
    ck_assert_int_eq(find_conflict(t, "node n2", "switch") >= 0, 1);
    ck_assert_int_eq(find_conflict(t, "node n3", "switch") >= 0, 1);
    ck_assert_int_eq(find_conflict(t, "fabric slurm, switch l1", "switch above") >= 0, 1);
    ck_assert_int_eq(f->sw[1].n_parent, 1);
    ck_assert_str_eq(f->sw[f->sw[1].parent[0]].name, "core");
    zep_topo_free(t);
}
END_TEST

/* Keys that no other machine has do not make each node a kind of its own. */
START_TEST(own_keys)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, nics: [{key: H-1, name: mlx5_0, up: true}], devices: [{key: MIG-1, mig: 1g.10gb}]}\n- {id: n2, nics: [{key: H-2, name: mlx5_0, up: true}], devices: [{key: MIG-2, mig: 1g.10gb}]}\n"
                               "- {id: n3, nics: [{key: H-3, name: mlx5_0, up: false}], devices: [{key: MIG-3, mig: 1g.10gb}]}\n");
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_uint_eq(zep_node_digest(&t->node[0]), zep_node_digest(&t->node[1]));
    ck_assert_int_eq(zep_topo_siblings(t, collect, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data, "node 'n3': NIC mlx5_0 (H-3) is down, up on its 2 siblings\n");
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* Measurements scatter: that is no difference. */
START_TEST(scatter)
{
    struct zep_topo *t = parse(HEAD "A\nnodes:\n- {id: n1, nics: [{key: a, bandwidth: {value: 24.8GB/s, source: measured}}]}\n- {id: n2, nics: [{key: a, bandwidth: {value: 24.7GB/s, source: measured}}]}\n"
                               "- {id: n3, nics: [{key: a, bandwidth: {value: 12GB/s, source: measured}}]}\n");
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_siblings(t, collect, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data, "node 'n3': NIC a (a): bandwidth 12GB/s, 24.8GB/s on its 2 siblings\n");
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

START_TEST(diff_by_alias)
{
    struct zep_topo *a = parse(HEAD "A\nnodes: [{id: n1.site.org, aliases: [n1]}]\n"), *b = parse(HEAD "B\nnodes: [{id: n1}]\n");
    struct zep_buf out = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_diff(a, b, &out, &err), ZEP_OK);
    ck_assert_msg(!out.len, "%s", out.data);
    zep_topo_free(a);
    zep_topo_free(b);
}
END_TEST

START_TEST(rails_for_slurm)
{
    struct zep_topo *t = NULL, *u;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset("dgx-h100", 4, &t, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_to_slurm_conf(t, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "SwitchName=rails0 Nodes=node[0-3]\n"));
    zep_buf_free(&b);
    u = through(t, zep_topo_to_slurm_conf, zep_topo_from_slurm_conf);
    ck_assert_int_eq(u->n_node, 4);
    zep_topo_free(u);
    zep_topo_free(t);
}
END_TEST

START_TEST(hostfiles)
{
    struct zep_topo *t = parse(HEAD "x\nnodes:\n- {id: 'n[1-4]', devices: [{key: a}, {key: b}]}\nfabrics:\n- name: b\n  switches:\n  - {name: l0, parents: [top], nodes: 'n[4,1]'}\n  - {name: l1, parents: [top], nodes: 'n[3,2]'}\n  - {name: top}\n");
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_to_hostfile(t, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data, "n4 slots=2\nn1 slots=2\nn3 slots=2\nn2 slots=2\n");
    zep_buf_free(&b);
    ck_assert_int_eq(zep_topo_to_ranks(t, &b, &err), ZEP_OK);
    ck_assert_str_eq(b.data, "n4\nn4\nn1\nn1\nn3\nn3\nn2\nn2\n");
    zep_buf_free(&b);
    ck_assert_int_eq(zep_topo_to_dot(t, &b, &err), ZEP_OK);
    ck_assert_ptr_nonnull(strstr(b.data, "graph topology {"));
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* Everything that a topology holds survives YAML and JSON. */
START_TEST(presets_read_back)
{
    for (int i = 0; zep_preset_name(i); i++) {
        struct zep_topo *t = NULL, *u = NULL;
        struct zep_buf a = ZEP_BUF_INIT, b = ZEP_BUF_INIT, j = ZEP_BUF_INIT;
        struct zep_error err = {0};

        ck_assert_msg(zep_topo_preset(zep_preset_name(i), 0, &t, &err) == ZEP_OK, "%s", err.text);
        zep_topo_add_conflict(t, "node x", "memory", "1GB", ZEP_SRC_NODE, "2GB", ZEP_SRC_CONTROLLER);
        ck_assert_int_eq(zep_topo_to_yaml(t, &a, &err), ZEP_OK);
        u = parse(a.data);
        ck_assert_int_eq(zep_topo_to_yaml(u, &b, &err), ZEP_OK);
        ck_assert_str_eq(a.data, b.data);
        zep_topo_free(u);
        zep_buf_free(&b);
        ck_assert_int_eq(zep_topo_to_json(t, &j, &err), ZEP_OK);
        ck_assert_msg(zep_detect_from_json("f", j.data, j.len, &u, &err) == ZEP_OK, "%s", err.text);
        ck_assert_int_eq(zep_topo_to_yaml(u, &b, &err), ZEP_OK);
        ck_assert_str_eq(a.data, b.data);
        for (int k = 0; k < t->node[0].n_device; k++) /* every device has its NICs, and no NIC is idle */
            ck_assert_int_eq(t->node[0].device[k].nic, k * t->node[0].n_nic / t->node[0].n_device);
        for (int k = 0; t->node[0].n_device && k < t->node[0].n_nic; k++)
            ck_assert_int_eq(zep_nic_is_used(&t->node[0], k), 1);
        zep_buf_free(&a);
        zep_buf_free(&b);
        zep_buf_free(&j);
        zep_topo_free(t);
        zep_topo_free(u);
    }
}
END_TEST

/* A large cluster with all its GPUs as topology.yaml. */
START_TEST(yaml_large)
{
    struct zep_topo *t = NULL, *u;
    struct zep_buf a = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_preset("dgx-h100", 16384, &t, &err), ZEP_OK);
    ck_assert_int_eq(zep_topo_to_yaml(t, &a, &err), ZEP_OK);
    ck_assert_uint_lt(a.len, 40000);
    u = parse(a.data);
    ck_assert_int_eq(u->n_node, 16384);
    ck_assert_int_eq(u->node[16383].n_device, 8);
    zep_buf_free(&a);
    zep_topo_free(t);
    zep_topo_free(u);
}
END_TEST

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("topology: several sources, other formats");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, names);
    tcase_add_test(t, ambiguous);
    tcase_add_loop_test(t, stronger_holds, 0, ROWS(precedence));
    tcase_add_test(t, unknown_never_overrides);
    tcase_add_test(t, counted_devices);
    tcase_add_test(t, relations);
    tcase_add_test(t, fabrics);
    tcase_add_test(t, fabrics_reversed);
    tcase_add_test(t, selected);
    tcase_add_test(t, counts_disagree);
    tcase_add_test(t, diff_by_meaning);
    tcase_add_test(t, mixed_node);
    tcase_add_test(t, siblings);
    tcase_add_test(t, siblings_of_kinds);
    tcase_add_test(t, probe_stream);
    tcase_add_test(t, differences);
    tcase_add_test(t, trees_read_back);
    tcase_add_test(t, nodes_on_upper_switches);
    tcase_add_test(t, rails_for_slurm);
    tcase_add_test(t, hostfiles);
    tcase_add_test(t, presets_read_back);
    tcase_add_test(t, yaml_large);
    tcase_add_test(t, other_numbering);
    tcase_add_test(t, counted_precedence);
    tcase_add_test(t, fields_keep_their_source);
    tcase_add_test(t, one_more);
    tcase_add_test(t, numbered_by_address);
    tcase_add_test(t, guids);
    tcase_add_test(t, stale_tree);
    tcase_add_test(t, own_keys);
    tcase_add_test(t, scatter);
    tcase_add_test(t, diff_by_alias);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
