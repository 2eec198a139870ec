/* Texts of other tools as terminals, logs, tickets and web pages leave them. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/source.h"
#include "topology/topo_internal.h"

#define ROWS(a) ((int)(sizeof(a) / sizeof((a)[0])))

typedef int (*load_fn)(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);

static int load_text(load_fn load, const char *text, struct zep_topo **topo, struct zep_error *err)
{
    struct zep_source_request q = {.file = "f", .text = text, .len = strlen(text)};
    int rc;

    *topo = NULL;
    if ((rc = load(&q, topo, err)) < 0 || (rc = zep_topo_assign_nics(*topo, err)) == ZEP_OK)
        return rc;
    zep_topo_free(*topo);
    return rc;
}

static int has_warning(const struct zep_topo *t, const char *text)
{
    for (int i = 0; i < t->n_warning; i++)
        if (strstr(t->warning[i], text))
            return 1;
    return 0;
}

/* --- nvidia-smi topo -m --- */

#define HEAD "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
#define ROW0 "GPU0\t X \tNV4\tPIX\tSYS\t0-31,64-95\t0\t\tN/A"
#define ROW1 "GPU1\tNV4\t X \tSYS\tPIX\t32-63,96-127\t1\t\tN/A"
#define ROW2 "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t"
#define ROW3 "NIC1\tSYS\tPIX\tSYS\t X \t\t\t\t"
#define LEGEND "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_4\n  NIC1: mlx5_5\n"
#define TABLE HEAD "\n" ROW0 "\n" ROW1 "\n" ROW2 "\n" ROW3 "\n"

/* Each says: GPU0 uses the first NIC and GPU1 the second, 4 NVLinks, NUMA domains 0 and 1. */
static const struct {
    const char *what, *text, *nic[2], *warning;
} tables[] = {
    {"as it is", TABLE LEGEND, {"mlx5_4", "mlx5_5"}, NULL},
    {"a byte order mark", "\xef\xbb\xbf" TABLE, {"NIC0", "NIC1"}, NULL},
    {"blanks that do not break", "GPU0\xc2\xa0GPU1 NIC0 NIC1 CPU\xc2\xa0" "Affinity NUMA Affinity\nGPU0\xc2\xa0X NV4 PIX SYS 0-31,64-95 0\nGPU1 NV4 X SYS PIX\xc2\xa0" "32-63,96-127 1\n", {"NIC0", "NIC1"}, "2 of 4 rows are missing"},
    {"quoted", "> " HEAD "\n> " ROW0 "\n> " ROW1 "\n> " ROW2 "\n> " ROW3 "\n>\n> NIC Legend:\n>\n>   NIC0: mlx5_4\n>   NIC1: mlx5_5\n", {"mlx5_4", "mlx5_5"}, NULL},
    {"a table of Markdown", "| | GPU0 | GPU1 | NIC0 | NIC1 | CPU Affinity | NUMA Affinity |\n|---|---|---|---|---|---|---|\n| GPU0 | X | NV4 | PIX | SYS | 0-31,64-95 | 0 |\n| GPU1 | NV4 | X | SYS | PIX | 32-63,96-127 | 1 |\n"
     "| NIC0 | PIX | SYS | X | SYS | | |\n| NIC1 | SYS | PIX | SYS | X | | |\n", {"NIC0", "NIC1"}, NULL},
    {"times", "2026-05-01T12:00:00.1Z " HEAD "\n2026-05-01T12:00:00.2Z " ROW0 "\n2026-05-01T12:00:00.3Z " ROW1 "\n2026-05-01T12:00:01.1Z " ROW2 "\n2026-05-01 12:00:02 " ROW3 "\n", {"NIC0", "NIC1"}, NULL},
    {"a pod and times", "[pod/a-1/main] 2026-05-01T12:00:00Z " HEAD "\n[pod/a-1/main] 2026-05-01T12:00:01Z " ROW0 "\n[pod/a-1/main] 2026-05-01T12:00:02Z " ROW1 "\n", {"NIC0", "NIC1"}, "2 of 4 rows are missing"},
    {"two hosts, in turn", "n1: " HEAD "\nn2: " HEAD "\nn1: " ROW0 "\nn2: GPU0\t X \tNV2\tSYS\tPIX\nn2: GPU1\tNV2\t X \tPIX\tSYS\nn1: " ROW1 "\nn1: " ROW2 "\nn1: " ROW3 "\n", {"NIC0", "NIC1"}, "lines do not begin with 'n1:' and are passed over"},
    {"marks without a blank behind", "[1,0]<stdout>:" HEAD "\n[1,0]<stdout>:" ROW0 "\n[1,1]<stdout>:GPU1\tNV4\t X \tPIX\tSYS\n[1,0]<stdout>:" ROW1 "\n[1,0]<stdout>:" ROW2 "\n[1,0]<stdout>:" ROW3 "\n", {"NIC0", "NIC1"},
     "1 line does not begin with '[1,0]<stdout>:'"},
    {"the label of a report on the header's line", "Topology: GPU0 GPU1 NIC0 NIC1 CPU Affinity NUMA Affinity\n" ROW0 "\n" ROW1 "\n" ROW2 "\n" ROW3 "\n", {"NIC0", "NIC1"}, NULL},
    {"a second table behind the first", TABLE LEGEND "$ ssh n2 nvidia-smi topo -m\n" HEAD "\nGPU0\t X \tNV2\tSYS\tPIX\nGPU1\tNV2\t X \tPIX\tSYS\n", {"mlx5_4", "mlx5_5"}, "f:17: a second table begins here"},
    {"a table of topo -p2p behind it", TABLE LEGEND " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n", {"mlx5_4", "mlx5_5"}, "a second table begins here"},
    {"a table of topo -p2p before it", " \tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n\nLegend:\n\n  X    = Self\n\n" TABLE LEGEND, {"mlx5_4", "mlx5_5"}, NULL},
    {"names that run together", "        GPU0    GPU1    NIC0NIC1    CPU Affinity    NUMA Affinity\nGPU0     X      NV4     PIX SYS     0-31,64-95  0\nGPU1    NV4      X      SYS PIX     32-63,96-127  1\nNIC0 PIX SYS X SYS\nNIC1 SYS PIX SYS X\n", {"NIC0", "NIC1"}, NULL},
    {"names and cells that run together", "GPU0GPU1NIC0NIC1CPU AffinityNUMA Affinity\nGPU0 XNV4PIXSYS 0-31,64-95 0\nGPU1 NV4 XSYSPIX 32-63,96-127 1\nNIC0 PIXSYS XSYS\nNIC1 SYSPIXSYS X\n", {"NIC0", "NIC1"}, NULL},
    {"broken at 44 characters",
     "        GPU0    GPU1    NIC0    NIC1    CPU \nAffinity    NUMA Affinity\nGPU0     X      NV4     PIX     SYS     0-31\n,64-95      0\nGPU1    NV4      X      SYS     PIX     32-6\n3,96-127    1\nNIC0    PIX     SYS      X      SYS\nNIC1    SYS     PIX     SYS      X\n\nLegend:\n",
     {"NIC0", "NIC1"}, NULL},
    {"broken in a name, blanks at the end lost",
     "        GPU0    GPU1    NIC0    NI\nC1    CPU Affinity    NUMA Affinit\ny\nGPU0     X      NV4     PIX     SY\nS     0-31,64-95      0\nGPU1    NV4      X      SYS     PI\nX     32-63,96-127    1\nNIC0    PIX     SYS      X      SY\nS\nNIC1    SYS     PIX     SYS      X\n\nLegend:\n",
     {"NIC0", "NIC1"}, NULL},
};

START_TEST(topo_m_found)
{
    struct zep_topo *t;
    struct zep_error err = {0};
    const char *what = tables[_i].what;

    ck_assert_msg(zep_topo_is_topo_m(tables[_i].text, strlen(tables[_i].text)), "%s", what);
    ck_assert_msg(load_text(zep_topo_from_topo_m, tables[_i].text, &t, &err) == ZEP_OK, "%s: %s", what, err.text);
    ck_assert_msg(t->node[0].n_device == 2 && t->node[0].n_nic == 2, "%s: %d devices, %d NICs", what, t->node[0].n_device, t->node[0].n_nic);
    for (int i = 0; i < 2; i++) {
        const struct zep_device *d = &t->node[0].device[i];

        ck_assert_msg(d->nic >= 0 && !strcmp(t->node[0].nic[d->nic].name, tables[_i].nic[i]), "%s: GPU %d has %s", what, i, d->nic < 0 ? "none" : t->node[0].nic[d->nic].name);
        ck_assert_msg(d->numa == i, "%s: GPU %d in NUMA domain %d", what, i, d->numa);
        ck_assert_msg(d->cores && !strcmp(d->cores, i ? "32-63,96-127" : "0-31,64-95"), "%s: GPU %d has cores %s", what, i, d->cores ? d->cores : "none");
        ck_assert_msg(d->peer_nvlink[1 - i] == 4, "%s: %d NVLinks", what, d->peer_nvlink[1 - i]);
    }
    if (tables[_i].warning)
        ck_assert_msg(has_warning(t, tables[_i].warning), "%s: %s", what, t->n_warning ? t->warning[0] : "no warning");
    else
        ck_assert_msg(!t->n_warning, "%s: %s", what, t->n_warning ? t->warning[0] : "");
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *text, *message;
} tables_bad[] = {
    {" \tGPU0\tGPU1\n GPU0\tX\tNS\n GPU1\tNS\tX\n", "f: a table of nvidia-smi topo -p2p, which says what can reach what, not how near it is: expected what nvidia-smi topo -m prints"},
    {"GPU0\t X \tNV4\tPIX\nGPU1\tNV4\t X \tSYS\n", "f: no header: expected a line 'GPU0 GPU1 ... CPU Affinity'"},
    {"\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV4\tPIX\tSYS\t0-3\nGPU1\tNV4\t X \tSYS\tPIX\t0-3\n", "f:2: row GPU0 has 4 cells: the header has 3 columns (are names missing there, or do they run together?)"},
    {"\tGPU0\tGPU1\nGPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3\nNIC0\tPIX\tSYS\t X \n", "f:4: row 'NIC0' is no column of the header: expected one of GPU0 ... GPU1"},
};

START_TEST(topo_m_wrong)
{
    struct zep_topo *t;
    struct zep_error err = {0};

    ck_assert_int_lt(load_text(zep_topo_from_topo_m, tables_bad[_i].text, &t, &err), 0);
    ck_assert_str_eq(err.text, tables_bad[_i].message);
}
END_TEST

static struct zep_topo *must_load(load_fn load, const char *text)
{
    struct zep_topo *t;
    struct zep_error err = {0};

    ck_assert_msg(load_text(load, text, &t, &err) == ZEP_OK, "%s\n%s", err.text, text);
    return t;
}

static void must_fail(load_fn load, const char *text, const char *message)
{
    struct zep_topo *t;
    struct zep_error err = {0};

    ck_assert_msg(load_text(load, text, &t, &err) < 0, "taken: %s", text);
    ck_assert_str_eq(err.text, message);
}

/* --- scontrol show topology --- */

#define LEAF0 "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]"
#define LEAF1 "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[4-7]"
#define TOP "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-7] Switches=s[0-1]"

/* Each is two leaves of four nodes below one switch. */
static const char *const switches[] = {
    LEAF0 "\n" LEAF1 "\n" TOP "\n",
    "[root@ctl ~]# scontrol show topology\n" LEAF0 " \r\n" LEAF1 " \r\n" TOP "\r\n[root@ctl ~]#\n",
    LEAF0 " " LEAF1 " " TOP "\n",
    "ctl: " TOP "\nctl: " LEAF0 "\nctl: " LEAF1 "\nctl: \n",
    "2026-05-01T12:00:00Z " TOP "\n2026-05-01T12:00:00Z " LEAF0 "\n2026-05-01T12:00:00Z " LEAF1,
    LEAF0 "\n" LEAF1 "\nSwitchName=s2 Level=1 LinkSpeed=1 Nodes=(null) Switches=s[0-1]\nSwitchName=s3 Level=0 LinkSpeed=1 Nodes=\nSwitchName=s4 Level=0 LinkSpeed=1 Nodes= \n",
};

START_TEST(scontrol_found)
{
    struct zep_topo *t;

    ck_assert(zep_topo_is_scontrol(switches[_i], strlen(switches[_i])));
    t = must_load(zep_topo_from_scontrol, switches[_i]);
    ck_assert_int_eq(t->n_node, 8);
    ck_assert_int_eq(zep_topo_node_distance(t, zep_topo_find_node(t, "n0"), zep_topo_find_node(t, "n3")), zep_topo_node_distance(t, zep_topo_find_node(t, "n4"), zep_topo_find_node(t, "n7")));
    ck_assert_int_lt(zep_topo_node_distance(t, zep_topo_find_node(t, "n0"), zep_topo_find_node(t, "n3")), zep_topo_node_distance(t, zep_topo_find_node(t, "n0"), zep_topo_find_node(t, "n4")));
    ck_assert_int_eq(t->n_warning, 0);
    zep_topo_free(t);
}
END_TEST

/* What the controller was asked for, a part; a block without nodes; none of it. */
START_TEST(scontrol_parts)
{
    struct zep_topo *t = must_load(zep_topo_from_scontrol, "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-9] Switches=s[0-2]\n" LEAF0 "\n");

    ck_assert_int_eq(t->n_node, 4); /* of the others only the switch above is known */
    ck_assert(has_warning(t, "f:1: switch 'top': 2 of its children are not in the text, 's1' first (a part of the topology?): nodes below them are not known"));
    zep_topo_free(t);
    t = must_load(zep_topo_from_scontrol, "BlockName=b1 BlockIndex=0 Nodes= BlockSize=4\nBlockName=b2 BlockIndex=1 Nodes=n[1-4] BlockSize=4\nAggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=8\n");
    ck_assert_int_eq(t->n_node, 4);
    ck_assert_int_eq(t->fabric[0].n_switch, 2);
    zep_topo_free(t);
    must_fail(zep_topo_from_scontrol, "\n" LEAF0 "\n" LEAF0 "\n", "f:3: switch 's0' is defined twice, first on line 2");
    must_fail(zep_topo_from_scontrol, "nothing\n", "f: no switches and no blocks: expected at least one SwitchName or BlockName");
    must_fail(zep_topo_from_slurm_yaml, "- topology: a\n  cluster_default: true\n  tree:\n    switches: []\n", "f:4: topology 'a' has no switches: expected at least one");
}
END_TEST

/* --- slurm.conf, scontrol show node --- */

/* Each is n1 and n2 with 2 sockets of 8 cores and 2 threads, 1000 MiB, four GPUs. */
static const struct {
    const char *text;
    int is_site;
} slurm_nodes[] = {
    {"ClusterName=a # x\nNodeName=n[1-2] Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=1000 Gres=gpu:h100:4(S:0-1) State=UNKNOWN\nPartitionName=p Nodes=ALL\n", 1},
    {"NodeName=DEFAULT SocketsPerBoard=1 Boards=2 CoresPerSocket=8 ThreadsPerCore=2 Gres=gpu:h100:4\nNodeName=n1 RealMemory=1000\nnodename=n2 \\\n  RealMemory=1000\n", 1},
    {"$ scontrol show node\nNodeName=n1 Arch=x86_64 CoresPerSocket=8 \n   CPUAlloc=0 CPUTot=32\n   Gres=gpu:h100:4(S:0-1)\n   NodeAddr=n1 NodeHostName=n1\n   OS=Linux 6.1 #1 SMP \r\n   RealMemory=1000 Sockets=2 Boards=1\n   State=IDLE+DRAIN ThreadsPerCore=2\n\n"
     "NodeName=n2 Arch=x86_64 CoresPerSocket=8 \n   CPUAlloc=0 CPUTot=32\n   Gres=gpu:h100:4\n   RealMemory=1000 Sockets=2\n   State=IDLE+DRAIN ThreadsPerCore=2\n", 0},
    {"NodeName=n1 CoresPerSocket=8 CPUTot=32 Gres=gpu:h100:4 RealMemory=1000 Sockets=2 State=IDLE+DRAIN ThreadsPerCore=2\nNodeName=n2 CoresPerSocket=8 CPUTot=32 Gres=gpu:h100:4 RealMemory=1000 Sockets=2 State=IDLE+DRAIN ThreadsPerCore=2\n", 0},
};

START_TEST(slurm_nodes_found)
{
    struct zep_topo *t;

    ck_assert(zep_topo_is_slurm_nodes(slurm_nodes[_i].text, strlen(slurm_nodes[_i].text)));
    t = must_load(zep_topo_from_slurm_nodes, slurm_nodes[_i].text);
    ck_assert_int_eq(t->n_node, 2);
    for (int i = 0; i < 2; i++) {
        const struct zep_node *n = &t->node[i];

        ck_assert_int_eq(n->sockets, 2);
        ck_assert_int_eq(n->cores_per_socket, 8);
        ck_assert_int_eq(n->threads_per_core, 2);
        ck_assert_int_eq(n->mem_bytes, INT64_C(1000) << 20);
        ck_assert_int_eq(n->n_device, 4);
        ck_assert_str_eq(n->device[0].model, "h100");
        ck_assert_int_eq(n->device[0].source, slurm_nodes[_i].is_site ? ZEP_SRC_SITE : ZEP_SRC_CONTROLLER);
        ck_assert(slurm_nodes[_i].is_site ? !n->state : n->state && !strcmp(n->state, "idle+drain"));
    }
    zep_topo_free(t);
}
END_TEST

START_TEST(slurm_nodes_odd)
{
    struct zep_topo *t = must_load(zep_topo_from_slurm_nodes, "NodeName=n CPUs=8 Gres=gpu:a100_3g.20gb:2,gpu:1g.5gb:1,gpu:rtx_6000:1,nic:4\n");

    ck_assert_int_eq(t->node[0].n_device, 4);
    ck_assert_str_eq(t->node[0].device[0].mig, "3g.20gb");
    ck_assert_str_eq(t->node[0].device[0].model, "a100");
    ck_assert_str_eq(t->node[0].device[2].mig, "1g.5gb");
    ck_assert_ptr_null(t->node[0].device[2].model);
    ck_assert_str_eq(t->node[0].device[3].model, "rtx_6000");
    ck_assert_ptr_null(t->node[0].device[3].mig);
    zep_topo_free(t);
    ck_assert(!zep_topo_is_slurm_nodes("NodeName=n Name=gpu Count=1\n", 28));
    must_fail(zep_topo_from_slurm_nodes, "\nNodeName=n Sockets=a\n", "f:2: Sockets: 'a': expected a whole number");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n CPUs=1\nNodeName=n CPUs=1\n", "f: node 'n' is there twice");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n[1 CPUs=1\n", "f:1: NodeName: host list 'n[1': '[' without ']'");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n Sockets=4097\n", "f:1: Sockets: '4097': expected a whole number from 0 to 4096");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n Boards=100 SocketsPerBoard=100\n", "f:1: 100 boards of 100 sockets: expected at most 4096 sockets in a node");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n CPUTot=4 Sockets=55555\n", "node 'n': Sockets: '55555': expected a whole number from 0 to 4096");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n CPUTot=4 RealMemory=10005555555555555555555\n", "node 'n': RealMemory: '10005555555555555555555': expected a whole number from 0 to 1099511627776");
    must_fail(zep_topo_from_slurm_nodes, "NodeName=n[1-2] CPUTot=4\n", "NodeName: host name 'n[1-2]': expected letters, digits, '.', '_' and '-', not beginning with '-', at most 253");
}
END_TEST

/* --- kubectl get nodes --- */

#define LABELS(rack) "\"labels\": {\"backend.coreweave.cloud/leafgroup\": \"" rack "\", \"backend.coreweave.cloud/superpod\": \"1\", \"ds.coreweave.com/nvlink.domain\": \"" rack "\"}"
#define NODE(name, rack) "{\"kind\": \"Node\", \"metadata\": {\"name\": \"" name "\", " LABELS(rack) "}, \"status\": {\"allocatable\": {\"nvidia.com/gpu\": \"4\"}}}"
#define YAML(name, rack, eol) "apiVersion: v1" eol "kind: Node" eol "metadata:" eol "  name: " name eol "  labels: {backend.coreweave.cloud/leafgroup: " rack ", backend.coreweave.cloud/superpod: 1, ds.coreweave.com/nvlink.domain: " rack "}" eol \
    "status:" eol "  allocatable: {nvidia.com/gpu: 4}" eol

/* Each is n1 and n2 on one leaf, n3 on another one, four GPUs in each. */
static const char *const nodes[] = {
    "{\"kind\": \"List\", \"items\": [" NODE("n1", "a") "," NODE("n2", "a") "," NODE("n3", "b") "]}",
    "$ kubectl get nodes -o json\n{\"kind\": \"List\", \"items\": [" NODE("n1", "a") "," NODE("n2", "a") "," NODE("n3", "b") "]}\n$\n",
    "[" NODE("n1", "a") "," NODE("n2", "a") "," NODE("n3", "b") "]",
    NODE("n1", "a") "\n" NODE("n2", "a") "\n" NODE("n3", "b") "\n",
    YAML("n1", "a", "\n") "---\n" YAML("n2", "a", "\n") "---\n# nothing\n---\n" YAML("n3", "b", "\n"),
    "---\r\n" YAML("n1", "a", "\r\n") "---\r\n" YAML("n2", "a", "\r\n") "---\r\n" YAML("n3", "b", "\r\n"),
};

START_TEST(nodes_found)
{
    struct zep_topo *t;

    ck_assert(zep_topo_is_nodelist(nodes[_i], strlen(nodes[_i])));
    t = must_load(zep_topo_from_nodelist, nodes[_i]);
    ck_assert_int_eq(t->n_node, 3);
    ck_assert_int_eq(t->node[2].n_device, 4);
    ck_assert_int_eq(t->n_fabric, 2);
    ck_assert_int_eq(t->fabric[0].n_switch, 3);
    ck_assert_int_eq(t->fabric[1].kind, ZEP_FABRIC_BLOCKS);
    ck_assert_int_lt(zep_topo_node_distance(t, 0, 1), zep_topo_node_distance(t, 0, 2));
    ck_assert_int_eq(t->n_warning, 0);
    zep_topo_free(t);
}
END_TEST

START_TEST(nodes_cut)
{
    struct zep_topo *t = must_load(zep_topo_from_nodelist, "items:\n- kind: Node\n  metadata:\n    name: n1\n");

    ck_assert(has_warning(t, "f: the list has no kind, which kubectl writes at its end: the text may be cut, nodes may be missing"));
    zep_topo_free(t);
    must_fail(zep_topo_from_nodelist, "{\"kind\": \"List\",\n\"items\": [" NODE("n1", "a"), "f:2: not valid JSON: ']' expected near end of file (is the text cut?)");
    must_fail(zep_topo_from_nodelist, NODE("n1", "a") "\n{\"kind\":\n,}", "f:3: not valid JSON: unexpected token near ','");
    must_fail(zep_topo_from_nodelist, YAML("n1", "a", "\n") "---\nkind: Pod\nitems: 1\n", "f: no items: expected what `kubectl get nodes -o json` prints");
    must_fail(zep_topo_from_nodelist, YAML("n1", "a", "\n") "---\nkind: [\n", "f, document 2:3: not valid YAML: did not find expected node content");
}
END_TEST

/* --- NCCL --- */

#ifdef HAVE_EXPAT
#define GPU(busid, in) "<pci busid=\"" busid "\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\">" in "</gpu></pci>"
#define NET(name) "<nic><net name=\"" name "\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/></nic>"
#define NIC(busid, name) "<pci busid=\"" busid "\" class=\"0x020000\">" NET(name) "</pci>"
#define DOMAIN "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>"

/* Each has one GPU, which uses mlx5_7, at 50 GB/s. */
static const char *const systems[] = {
    "<system version=\"1\"><cpu numaid=\"0\">" GPU("0000:18:00.0", "") NIC("0000:19:00.0", "mlx5_7") "</cpu></system>",
    "# cat topo.xml\n<system version=\"1\"><cpu numaid=\"0\">" GPU("0000:18:00.0", "") NIC("0000:19:00.0", "mlx5_7") "</cpu></system>\n# \n",
    "<system><cpu numaid=\"-1\"><pci busid=\"0000:18:00.0\"><gpu dev=\"0\"/></pci><pci busid=\"0000:19:00.0\">" NET("mlx5_7") "</pci></cpu></system>",
    "<system><cpu><pci busid=\"0000:17:00.0\" class=\"0x060400\"><pci busid=\"0000:18:00.0\" class=\"0x03\"><gpu dev=\"0\"/><gpu dev=\"0\" mlopart=\"1\"/></pci>" NET("mlx5_7") "</pci></cpu></system>",
    "<system><cpu><pci busid=\"0000:17:00.0\" class=\"0x060400\">" GPU("0000:18:00.0", "<c2c bw=\"44712\" count=\"5\"/>") "<pci busid=\"0000:19:00.0\" class=\"0x0b4000\">" NET("mlx5_7") "</pci></pci></cpu></system>",
};

START_TEST(nccl_found)
{
    struct zep_topo *t = must_load(zep_topo_from_nccl_xml, systems[_i]);
    const struct zep_node *n = &t->node[0];

    ck_assert_int_eq(n->n_device, 1);
    ck_assert_str_eq(n->device[0].key, "0000:18:00.0");
    ck_assert_int_eq(n->n_nic, 1);
    ck_assert_int_eq(n->device[0].nic, 0);
    ck_assert_str_eq(n->nic[0].name, "mlx5_7");
    ck_assert_double_eq_tol(n->nic[0].bw.value, 50e9, 1);
    ck_assert_int_eq(t->n_warning, 0);
    zep_topo_free(t);
}
END_TEST

/* NVLink over hosts: the same addresses on each; a GPU that lost its links. */
START_TEST(nccl_hosts)
{
    struct zep_topo *t = must_load(zep_topo_from_nccl_xml,
        "<system><cpu numaid=\"0\" host_hash=\"0xa1\">" GPU("0008:06:00.0", DOMAIN) GPU("0009:06:00.0", DOMAIN) NIC("0000:03:00.0", "mlx5_0") "</cpu>"
        "<cpu numaid=\"0\" host_hash=\"0xb2\">" GPU("0008:06:00.0", DOMAIN) NIC("0000:03:00.0", "mlx5_0") "</cpu><cpu numaid=\"1\" host_hash=\"0xb2\">" GPU("0018:06:00.0", DOMAIN) GPU("0019:06:00.0", "") "</cpu></system>");

    ck_assert_int_eq(t->n_node, 2);
    ck_assert_str_eq(t->node[0].id, "host-a1");
    ck_assert_str_eq(t->node[1].id, "host-b2");
    ck_assert_int_eq(t->node[0].n_device, 2);
    ck_assert_int_eq(t->node[1].n_device, 3);
    ck_assert_int_eq(t->node[1].n_numa, 2);
    ck_assert_int_eq(t->node[0].device[0].peer_nvlink[1], 18);
    ck_assert_int_eq(t->node[1].device[0].peer_nvlink[1], 18);
    ck_assert_int_eq(t->node[1].device[0].peer_nvlink[2], 0);
    ck_assert(has_warning(t, "f: GPU 0019:06:00.0 of host-b2 has no NVLinks, others of its node have"));
    ck_assert_int_eq(t->n_fabric, 1);
    ck_assert_int_eq(t->fabric[0].kind, ZEP_FABRIC_BLOCKS);
    ck_assert_int_eq(t->fabric[0].sw[0].n_node, 2);
    zep_topo_free(t);
}
END_TEST

START_TEST(nccl_says_little)
{
    struct zep_topo *t = must_load(zep_topo_from_nccl_xml, "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:00:1b.0\"/>\n<pci busid=\"0000:00:1c.0\"/></cpu></system>");
    struct zep_error err = {0};

    ck_assert_int_eq(t->node[0].n_device, 0);
    ck_assert(has_warning(t, "f:3: 2 PCI devices are without class and content: what they are is not known"));
    zep_topo_free(t);
    ck_assert_int_lt(load_text(zep_topo_from_nccl_xml, "# cat topo.xml\n<system version=\"1\">\n<cpu numaid=\"0\"", &t, &err), 0);
    ck_assert_str_eq(err.text, "f:3: not valid XML: unclosed token");
    ck_assert_int_lt(load_text(zep_topo_from_nccl_xml, "<system>\n<cpu host_hash=\"a b\"/></system>", &t, &err), 0);
    ck_assert_str_eq(err.text, "f:2: host_hash 'a b': expected a number, as in 0x16fe256e956b115c");
}
END_TEST

/* A cpu of another host inside of a pci: what the pci is counts for its own host alone. */
START_TEST(nccl_host_in_pci)
{
    struct zep_topo *t = must_load(zep_topo_from_nccl_xml, "<system version=\"1\"><cpu host_hash=\"0x1\" numaid=\"0\"><pci busid=\"0000:00:1b.0\" class=\"0x020700\">"
                                                           "<cpu host_hash=\"0x2\" numaid=\"0\"><net name=\"eth0\"/><nvlink target=\"0000:00:1b.0\"/></cpu><net name=\"mlx5_0\"/></pci></cpu></system>");

    ck_assert_int_eq(t->n_node, 2);
    ck_assert_int_eq(t->node[0].n_nic, 1);
    ck_assert_str_eq(t->node[0].nic[0].name, "mlx5_0");
    ck_assert_int_eq(t->node[1].n_nic, 0);
    zep_topo_free(t);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("topology: foreign texts");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    tcase_add_loop_test(t, topo_m_found, 0, ROWS(tables));
    tcase_add_loop_test(t, topo_m_wrong, 0, ROWS(tables_bad));
    tcase_add_loop_test(t, scontrol_found, 0, ROWS(switches));
    tcase_add_test(t, scontrol_parts);
    tcase_add_loop_test(t, slurm_nodes_found, 0, ROWS(slurm_nodes));
    tcase_add_test(t, slurm_nodes_odd);
    tcase_add_loop_test(t, nodes_found, 0, ROWS(nodes));
    tcase_add_test(t, nodes_cut);
#ifdef HAVE_EXPAT
    tcase_add_loop_test(t, nccl_found, 0, ROWS(systems));
    tcase_add_test(t, nccl_hosts);
    tcase_add_test(t, nccl_says_little);
    tcase_add_test(t, nccl_host_in_pci);
#endif
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
