/* What sources of fabrics and machines make of texts, good and bad: ibnetdiscover, nvidia-smi, NCCL; which format a text is. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "topology/detect.h"
#include "tests/unit/source_util.h"

/* --- ibnetdiscover --- */

#define IB_SWITCH(id, ports, text) "\nvendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x1\nswitchguid=0x1(1)\nSwitch\t41 \"S-" id "\"\t\t# \"" text "\" enhanced port 0 lid 1 lmc 0\n" ports
#define IB_CA(id, ports, text) "\nvendid=0x2c9\ncaguid=0x1\nCa\t1 \"H-" id "\"\t\t# \"" text "\"\n" ports
#define TO_CA(p, id) "[" p "]\t\"H-" id "\"[1](2) \t\t# \"x\" lid 5 4xHDR\n"
#define TO_SW(p, id, q) "[" p "]\t\"S-" id "\"[" q "]\t\t# \"x\" lid 3 4xHDR\n"

static const char rails_text[] = "#\n# Topology file: generated on Tue Dec  1 2026\n#\n"
    IB_SWITCH("a0", TO_CA("1", "10") TO_CA("2", "20") TO_CA("3", "30") TO_SW("40", "c0", "1") "[41]\t\"H-99\"[1](99) \t\t# \"Mellanox Technologies Aggregation Node\" lid 9 4xHDR\n", "MF0;rail0:MQM8700/U1")
    IB_SWITCH("b0", TO_CA("1", "11") TO_CA("2", "21") TO_CA("3", "31") TO_SW("40", "c0", "2"), "MF0;rail1:MQM8700/U1")
    IB_SWITCH("c0", TO_SW("1", "a0", "40") TO_SW("2", "b0", "40"), "MF0;spine:MQM8700/U1")
    IB_CA("10", "[1](1) \t\"S-a0\"[1]\t\t# lid 5 lmc 0 \"rail0\" lid 1 4xHDR\n", "node1 mlx5_0") IB_CA("11", "[1](1) \t\"S-b0\"[1]\t\t# lid 5 lmc 0 \"rail1\" lid 1 4xHDR\n", "node1 mlx5_1")
    IB_CA("20", "[1](1) \t\"S-a0\"[2]\t\t# lid 5 lmc 0 \"rail0\" lid 1 4xHDR\n", "node2 mlx5_0") IB_CA("21", "[1](1) \t\"S-b0\"[2]\t\t# lid 5 lmc 0 \"rail1\" lid 1 2xHDR\n", "node2 mlx5_1")
    IB_CA("30", "[1](1) \t\"S-a0\"[3]\t\t# lid 5 lmc 0 \"rail0\" lid 1 4xHDR\n", "node3 mlx5_0") IB_CA("31", "[1](1) \t\"S-b0\"[3]\t\t# lid 5 lmc 0 \"rail1\" lid 1 4xHDR\n", "node3 mlx5_1")
    IB_CA("99", "[1](1) \t\"S-a0\"[41]\t\t# lid 5 lmc 0 \"rail0\" lid 1 4xHDR\n", "Mellanox Technologies Aggregation Node");

START_TEST(ib_rails)
{
    struct zep_topo *t = must_load(zep_topo_from_ibnetdiscover, rails_text);
    const struct zep_fabric *f = &t->fabric[0];

    ck_assert_int_eq(zep_topo_is_ibnetdiscover(rails_text, strlen(rails_text)), 1);
    ck_assert_int_eq(t->n_node, 3); /* not the aggregation node */
    ck_assert_int_eq(f->kind, ZEP_FABRIC_RAILS);
    ck_assert_int_eq(f->n_switch, 3);
    ck_assert_int_eq(f->sw[sw(t, "rail0")].n_node, 3);
    ck_assert_int_eq(f->sw[sw(t, "rail1")].port[0], 1); /* the NIC that the cable ends in */
    ck_assert_int_eq(f->sw[sw(t, "spine")].level, 1);
    ck_assert_double_eq_tol(f->sw[sw(t, "rail0")].uplink_bw.value, 25e9, 1);
    ck_assert_str_eq(t->node[0].nic[1].name, "mlx5_1");
    ck_assert_double_eq_tol(t->node[0].nic[0].bw.value, 25e9, 1);
    ck_assert_double_eq_tol(t->node[1].nic[1].bw.value, 12.5e9, 1); /* two lanes only */
    ck_assert_int_eq(t->n_warning, 0);
    zep_topo_free(t);
}
END_TEST

/* A management machine on the spine does not make the spine a leaf. */
START_TEST(ib_management)
{
    struct zep_topo *t = must_load(zep_topo_from_ibnetdiscover,
        IB_SWITCH("a0", TO_CA("1", "10") TO_CA("2", "20") TO_SW("3", "c0", "1") TO_SW("4", "c0", "2"), "leaf0") IB_SWITCH("b0", TO_CA("1", "30") TO_CA("2", "40") TO_SW("3", "c0", "3") TO_SW("4", "c0", "4"), "leaf1")
        IB_SWITCH("c0", TO_SW("1", "a0", "3") TO_SW("2", "a0", "4") TO_SW("3", "b0", "3") TO_SW("4", "b0", "4") TO_SW("5", "b0", "5") TO_CA("9", "90"), "spine")
        IB_CA("10", "[1](1) \"S-a0\"[1] # 4xNDR\n", "n1 mlx5_0") IB_CA("20", "[1](1) \"S-a0\"[2] # 4xNDR\n", "n2 mlx5_0") IB_CA("30", "[1](1) \"S-b0\"[1] # 4xNDR\n", "n3 mlx5_0")
        IB_CA("40", "[1](1) \"S-b0\"[2] # 4xNDR\n", "n4 mlx5_0") IB_CA("90", "[1](1) \"S-c0\"[9] # 4xNDR\n", "ufm mlx5_0") IB_CA("91", "", "MT4129 ConnectX7   Mellanox Technologies"));

    ck_assert_int_eq(t->fabric[0].sw[sw(t, "spine")].level, 1);
    ck_assert_int_eq(t->fabric[0].sw[sw(t, "leaf0")].n_parent, 1);
    ck_assert_int_eq(zep_topo_node_distance(t, zep_topo_find_node(t, "n1"), zep_topo_find_node(t, "n3")), 2);
    ck_assert_double_eq_tol(t->node[0].nic[0].bw.value, 50e9, 1);
    ck_assert(has_warning(t, "1 adapter says no host name: the GUID is taken"));
    ck_assert_int_eq(t->node[zep_topo_find_node(t, "H-91")].nic[0].up, 0); /* no cable */
    zep_topo_free(t);
}
END_TEST

/* Two leaves back to back, quotes in a description, a second port. */
START_TEST(ib_odd)
{
    struct zep_topo *t = must_load(zep_topo_from_ibnetdiscover,
        IB_SWITCH("a0", TO_CA("1", "10") TO_SW("40", "b0", "40"), "leafA") IB_SWITCH("b0", TO_CA("1", "20") TO_SW("40", "a0", "40"), "leafB")
        IB_CA("10", "[2](1) \"S-a0\"[1] # lid 5 lmc 0 \"leafA\" lid 1 4xEDR\n", "n1 \"mlx5_0\"") IB_CA("20", "[1](1) \"S-b0\"[1] # 4xEDR\n", "n2 mlx5_0"));

    ck_assert(has_warning(t, "1 cable between switches of one level is no part of the tree"));
    ck_assert(!has_warning(t, "separate fabrics"));
    ck_assert_str_eq(t->node[0].nic[0].name, "mlx5_0:2");
    ck_assert_str_eq(t->node[0].nic[0].guid, "10");
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *text, *message;
} ib_bad[] = {
    {"[1] \"S-a\"[1]\n", "f:1: a port before the first Switch or Ca"},
    {"Switch 36 # \n", "f:1: expected a GUID in quotes after 'Switch'"},
    {"Switch 36 \"S-a\" # \"x\"\n[0] \"H-1\"[1]\n", "f:2: '[0] \"H-1\"[1]': expected [PORT] of a cable"},
    {"Switch 36 \"S-a\" # \"x\"\n[1] H-1[1]\n", "f:2: '[1] H-1[1]': expected the other end in quotes"},
    {"Switch 36 \"S-a\" # \"x\"\n[1] \"H-1\" 4xHDR\n", "f:2: '[1] \"H-1\" 4xHDR': expected \"PEER\"[PORT]"},
    {"Switch 36 \"S-a\" # \"x\"\nSwitch 36 \"S-a\" # \"x\"\n", "f:2: 'S-a' is there twice"},
    {"Switch 36 \"S-a\" # \"x\"\n", "f: no channel adapters of nodes in it"},
};

START_TEST(ib_refused)
{
    struct zep_topo *t;
    struct zep_error err = {0};

    ck_assert_int_lt(load_with(zep_topo_from_ibnetdiscover, ib_bad[_i].text, NULL, NULL, &t, &err), 0);
    if (_i == 5) /* which of the two lines is named is not promised */
        ck_assert_ptr_nonnull(strstr(err.text, "'S-a' is there twice"));
    else
        ck_assert_str_eq(err.text, ib_bad[_i].message);
}
END_TEST

/* --- nvidia-smi topo -m --- */

static const struct {
    const char *what, *text;
    const char *nic[4]; /* of each GPU, NULL none */
    const char *warning;
} matrices[] = {
    {"NICs in the other order", "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tNODE\tPIX\t0-31\t0\nGPU1\tNV18\t X \tPIX\tNODE\t0-31\t0\nNIC0\tNODE\tPIX\t X \tNODE\nNIC1\tPIX\tNODE\tNODE\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n",
     {"mlx5_1", "mlx5_0"}, NULL},
    {"a prompt, underlined, and two GPUs that share", "$ nvidia-smi topo -m\n\t\033[4mGPU0\tGPU1\tmlx5_0\tmlx5_9\tCPU Affinity\033[0m\nGPU0\t X \tPXB\tPXB\tSYS\t0-3\nGPU1\tPXB\t X \tPXB\tSYS\t0-3\nmlx5_0\tPXB\tPXB\t X \tSYS\nmlx5_9\tSYS\tSYS\tSYS\t X \nLegend:\n",
     {"mlx5_0", "mlx5_0"}, NULL},
    {"a virtual machine", "\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\tX \tNV4\tPHB\tPHB\nGPU1\tNV4\tX \tPHB\tPHB\nNIC0\tPHB\tPHB\tX \tPHB\nNIC1\tPHB\tPHB\tPHB\tX \n", {NULL, NULL}, "all 2 NICs are equally far from all 2 devices"},
    {"cut in the middle", "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNV4\tPIX\tSYS\t0-3\t0\nGPU1\tNV4\t X \tSYS\tPIX\t4-7\t1\nNIC0\tPIX\tSYS\t X \tSYS\nNI", {"NIC0", "NIC1"}, "f:5: the text is cut inside of a row ('NI')"},
    {"a row that is cut is a column of the others", "\tGPU0\tGPU1\tNIC0\tNIC1\tNODE\nGPU0\t X \tNV4\tPIX\tSYS\tX", {NULL}, NULL},
    {"no NUMA domain to name", "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tPIX\t0-23\tN/A\t\tN/A\nNIC0\tPIX\t X \n", {"NIC0"}, NULL},
    {"columns that run together", "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV8\tPXB\tSYS\t0-31,64-950\t\tN/A\nGPU1\tNV8\t X \tSYS\tPXB\t32-63,96-127\t1\t\tN/A\nNIC0\tPXB\tSYS\t X \tSYS\nNIC1\tSYS\tPXB\tSYS\t X \n",
     {"NIC0", "NIC1"}, "f:2: the columns of cores and NUMA domain run together in 1 row"},
};

START_TEST(topo_m)
{
    struct zep_topo *t;

    if (_i == 4)
        return; /* see topo_m_bad: a column that is no NIC */
    t = assigned(zep_topo_from_topo_m, matrices[_i].text);
    ck_assert_int_eq(zep_topo_is_topo_m(matrices[_i].text, strlen(matrices[_i].text)), 1);
    for (int i = 0; i < t->node[0].n_device; i++) {
        const char *nic = t->node[0].device[i].nic < 0 ? NULL : t->node[0].nic[t->node[0].device[i].nic].name;

        ck_assert_msg((!nic && !matrices[_i].nic[i]) || (nic && matrices[_i].nic[i] && !strcmp(nic, matrices[_i].nic[i])), "%s: GPU %d has %s", matrices[_i].what, i, nic ? nic : "none");
    }
    if (matrices[_i].warning)
        ck_assert_msg(has_warning(t, matrices[_i].warning), "%s: %s", matrices[_i].what, t->n_warning ? t->warning[0] : "no warning");
    else
        ck_assert_msg(!t->n_warning, "%s: %s", matrices[_i].what, t->n_warning ? t->warning[0] : "");
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *text, *message;
} topo_m_bad[] = {
    {"nothing", "f: no header: expected a line 'GPU0 GPU1 ... CPU Affinity'"},
    {"\tGPU0\tGPU0\nGPU0 X X\n", "f:1: column 'GPU0' is there twice"},
    {"\tGPU0\tNIC0\nGPU0\t X \tFOO\nNIC0\tFOO\t X \n", "f:2: 'FOO' in row GPU0, column NIC0: expected X, NV#, PIX, PXB, PHB, NODE or SYS"},
    {"\tGPU0\tNIC0\nGPU0\tPIX\tX\nNIC0\tPIX\tX\n", "f:2: 'PIX' in row GPU0, column GPU0: X stands where row and column are the same"},
    {"\tGPU0\tNIC0\nGPU0\tX\tPIX\nGPU0\tX\tPIX\n", "f:3: row 'GPU0' is there twice"},
};

START_TEST(topo_m_refused)
{
    must_fail(zep_topo_from_topo_m, topo_m_bad[_i].text, topo_m_bad[_i].message);
}
END_TEST

/* --- NCCL --- */

#ifdef HAVE_EXPAT
#define XML_GPU(id, inner) "<pci busid=\"" id "\" class=\"0x030200\" link_width=\"16\"><gpu dev=\"0\" rank=\"0\">" inner "</gpu></pci>"
#define XML_NIC(id, name) "<pci busid=\"" id "\" class=\"0x020700\"><nic><net name=\"" name "\" speed=\"200000\" port=\"1\" gdr=\"1\"/></nic></pci>"

static const char nccl_text[] = "<!-- made up --><system version=\"1\"><cpu numaid=\"0\"><pci busid=\"ffff:ff:01.0\" class=\"0x060400\">" XML_GPU("0002:00:00.0", "<nvlink target=\"0001:00:00.0\" count=\"4\" tclass=\"0x030200\"/>")
    XML_NIC("0102:00:00.0", "mlx5_2") "</pci><pci busid=\"ffff:ff:02.0\" class=\"0x060400\">" XML_GPU("0001:00:00.0", "<nvlink target=\"0001:00:00.0\" count=\"12\"/>") XML_NIC("0101:00:00.0", "mlx5_1")
    "</pci><nic><net name=\"eth0\" speed=\"100000\"/></nic></cpu><cpu numaid=\"1\"><pci busid=\"0009:00:00.0\" class=\"0x068000\"/>" XML_NIC("0103:00:00.0", "mlx5_3") XML_GPU("0003:00:00.0", "") "</cpu></system>";

static void check_nccl(const struct zep_topo *t)
{
    const struct zep_node *n = &t->node[0];

    ck_assert_int_eq(n->n_device, 3); /* not the NVSwitch */
    ck_assert_int_eq(n->n_nic, 3);    /* not the interface outside of any PCI device */
    for (int i = 0; i < 3; i++) {
        char want[16];

        snprintf(want, sizeof want, "mlx5_%c", n->device[i].key[3]);
        ck_assert_int_ge(n->device[i].nic, 0);
        ck_assert_str_eq(n->nic[n->device[i].nic].name, want);
        ck_assert_int_eq(n->device[i].nic_distance, n->device[i].key[3] == '3' ? ZEP_DIST_NUMA : ZEP_DIST_SWITCH);
    }
    ck_assert_double_eq_tol(n->nic[0].bw.value, 25e9, 1);
}

START_TEST(nccl)
{
    struct zep_topo *t = assigned(zep_topo_from_nccl_xml, nccl_text), *again;
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    check_nccl(t);
    ck_assert(has_warning(t, "1 NVLinks whose other end is their own GPU are not counted"));
    ck_assert(has_warning(t, "1 net is outside of any PCI device: not counted as NIC"));
    ck_assert_str_eq(t->node[0].device[0].key, "0001:00:00.0"); /* in the order of addresses, whatever that of the file */
    ck_assert_str_eq(t->node[0].device[1].key, "0002:00:00.0");
    ck_assert_int_eq(t->node[0].device[1].peer_nvlink[0], 4);
    ck_assert_msg(zep_topo_to_nccl_xml(t, &b, &err) == ZEP_OK, "%s", err.text);
    again = assigned(zep_topo_from_nccl_xml, b.data);
    check_nccl(again);
    zep_topo_free(again);
    zep_topo_free(t);
    zep_buf_free(&b);
}
END_TEST

START_TEST(nccl_bad_values)
{
    must_fail(zep_topo_from_nccl_xml, "<system><cpu numaid=\"0\"><pci busid=\"00g0:97:00.0\" class=\"0x030200\"/></cpu></system>", "f:1: busid '00g0:97:00.0': expected a PCI address, as in 0000:17:00.0");
    must_fail(zep_topo_from_nccl_xml, "<system><cpu numaid=\"0\"><pci busid=\"0000:97:00\" class=\"0x030200\"/></cpu></system>", "f:1: busid '0000:97:00': expected a PCI address, as in 0000:17:00.0");
    must_fail(zep_topo_from_nccl_xml, "<system><cpu numaid=\"0\"><pci busid=\"0000:97:00.0\" class=\"0x020700\">\n<nic><net name=\"a\" speed=\"fast\"/></nic></pci></cpu></system>", "f:2: speed 'fast': expected Mb/s, a number up to 1e9");
    must_fail(zep_topo_from_nccl_xml, "<system><cpu numaid=\"0\"><pci busid=\"0000:97:00.0\" class=\"0x020700\">\n<nic><net name=\"a\" speed=\"66666666666666666666\"/></nic></pci></cpu></system>", "f:2: speed '66666666666666666666': expected Mb/s, a number up to 1e9");
}
END_TEST

/* Cliques of one NVLink domain; the zeros of GPUs without one; whole GPUs and slices on one node. */
START_TEST(cliques)
{
#define CLIQUE(name, value) "{\"kind\": \"Node\", \"metadata\": {\"name\": \"" name "\", \"labels\": {\"nvidia.com/gpu.clique\": \"" value "\"}}, \"status\": {\"allocatable\": {\"nvidia.com/gpu\": \"4\", \"nvidia.com/mig-1g.10gb\": \"1\"}}}"
    struct zep_topo *t = must_load(zep_topo_from_nodelist, "{\"kind\": \"List\", \"items\": [" CLIQUE("n1", "7b968a6d.1") "," CLIQUE("n2", "7b968a6d.2") "," CLIQUE("n3", "00000000-0000.0") "]}");

    ck_assert_int_eq(t->fabric[0].n_switch, 1);
    ck_assert_str_eq(t->fabric[0].sw[0].name, "7b968a6d");
    ck_assert_int_eq(t->fabric[0].sw[0].n_node, 2);
    ck_assert(has_warning(t, "f: an NVLink domain is parted into several cliques (nvidia.com/gpu.clique of 'n2' is not that of the domain's first node): nodes of different cliques do not reach each other by NVLink"));
    ck_assert(has_warning(t, "f: 3 nodes, 'n1' first, offer MIG slices: ranks on them cannot reach each other as peers"));
    ck_assert_int_eq(t->node[0].n_device, 5);
    ck_assert_ptr_null(t->node[0].device[3].mig);
    ck_assert_str_eq(t->node[0].device[4].mig, "1g.10gb");
    zep_topo_free(t);
}
END_TEST

/* A card of two ports on one function; links to switches; letters in either case. */
START_TEST(nccl_odd)
{
    struct zep_topo *t = must_load(zep_topo_from_nccl_xml, "<system><cpu numaid=\"0\"><pci busid=\"0000:0C:00.0\" class=\"0x030200\"><gpu dev=\"0\"><nvlink target=\"0000:c1:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
        "<pci busid=\"0000:0d:00.0\" class=\"0x030200\"><gpu dev=\"1\"><nvlink target=\"0000:c1:00.0\" count=\"16\" tclass=\"0x068000\"/></gpu></pci>"
        "<pci busid=\"0000:18:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_0\" speed=\"200000\"/><net name=\"mlx5_1\" speed=\"100000\"/></nic></pci></cpu></system>");

    ck_assert_int_eq(t->node[0].device[0].peer_nvlink[1], 16);
    ck_assert_int_eq(t->node[0].device[1].peer_nvlink[0], 16);
    ck_assert_int_eq(t->node[0].n_nic, 2);
    ck_assert_str_eq(t->node[0].nic[1].key, "0000:18:00.0/2");
    ck_assert_double_eq_tol(t->node[0].nic[0].bw.value, 25e9, 1);
    ck_assert_double_eq_tol(t->node[0].nic[1].bw.value, 12.5e9, 1);
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *text, *message;
} nccl_bad[] = {
    {"<system version=\"1\">\n<cpu", "f:2: not valid XML: unclosed token"},
    {"<a/>", "f: no <system>: expected an NCCL topology"},
    {"<system>\n<cpu><pci busid=\"1\"/></cpu></system>", "f:2: busid '1': expected a PCI address, as in 0000:17:00.0"},
    {"<!DOCTYPE x [<!ENTITY a \"b\">]><system/>", "f:1: entity 'a' is declared: expected plain elements"},
};

START_TEST(nccl_refused)
{
    must_fail(zep_topo_from_nccl_xml, nccl_bad[_i].text, nccl_bad[_i].message);
}
END_TEST
#endif

/* --- which format a text is --- */

START_TEST(recognised)
{
    static const char *const text[] = {
        "format: zeppelin-topology/1.0\nnodes: []\n", "{\"format\": \"zeppelin-topology-json/1.0\"}", two_topologies, LIST(NODE("a", "", "")), "<?xml?><topology version=\"2.0\"><object type=\"Machine\"/></topology>",
        "<system version=\"1\"><cpu numaid=\"0\"/></system>", "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\n", rails_text, "SwitchName=a Level=0 LinkSpeed=1 Nodes=b\n", "# x\nswitchname=a Nodes=b\n", "NodeName=a Name=gpu Count=1\n",
    };
    static const char *const kind[] = {"file", "json", "topology.yaml", "nodelist", "hwloc", "nccl", "topo-m", "fabric", "scontrol", "topology.conf", "gres.conf"};

    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        const char *first = NULL;

        for (int k = 0; zep_topo_sources[k] && !first; k++)
            if (zep_topo_sources[k]->recognise && zep_topo_sources[k]->recognise(text[i], strlen(text[i])))
                first = zep_topo_sources[k]->name;
        ck_assert_msg(first && !strcmp(first, kind[i]), "%s is taken for %s", kind[i], first ? first : "nothing");
    }
}
END_TEST

static const struct {
    const char *from, *message;
} from_bad[] = {
    {"preset:", "unknown preset '': expected A, B, C, dgx-a100, dgx-h100, gb200-nvl72, p4d, p5, nd-h100-v5 or cpu-2s"},
    {"preset:A:0", "preset 'A:0': number of nodes: '0': expected a whole number from 1 to 65536"},
    {"synthetic:dev:4", "synthetic topology: 'dev:4': expected at least nodes:N, as in 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'"},
    {"fabric", "--from fabric: expected fabric:FILE"},
    {"slrum", "--from 'slrum': no such file, and no kind of source (did you mean 'slurm'?) (--list-sources shows them)"},
    {"presets:A", "--from 'presets:A': no such file, and no kind of source (did you mean 'preset'?) (--list-sources shows them)"},
    {"missing.yaml", "missing.yaml: No such file or directory"},
};

START_TEST(from_refused)
{
    struct zep_topo_want w = {.n_from = 1, .from = &from_bad[_i].from};
    struct zep_topo *t = NULL;
    struct zep_error err = {0};

    ck_assert_int_lt(zep_topo_from(&w, &t, &err), 0);
    ck_assert_str_eq(err.text, from_bad[_i].message);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("topology: sources of fabrics and machines");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, ib_odd);
    tcase_add_test(t, ib_rails);
    tcase_add_test(t, ib_management);
    tcase_add_loop_test(t, ib_refused, 0, ROWS(ib_bad));
    tcase_add_loop_test(t, topo_m, 0, ROWS(matrices));
    tcase_add_loop_test(t, topo_m_refused, 0, ROWS(topo_m_bad));
#ifdef HAVE_EXPAT
    tcase_add_test(t, nccl);
    tcase_add_test(t, nccl_bad_values);
    tcase_add_test(t, cliques);
    tcase_add_test(t, nccl_odd);
    tcase_add_loop_test(t, nccl_refused, 0, ROWS(nccl_bad));
#endif
    tcase_add_test(t, recognised);
    tcase_add_loop_test(t, from_refused, 0, ROWS(from_bad));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
