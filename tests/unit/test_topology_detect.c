/* What the detectors say: JSON of the helpers, the text of scontrol, a machine as hwloc records it. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/hostlist.h"
#include "common/process.h"
#include "topology/detect.h"
#include "topology/topo_internal.h"

/* --- JSON --- */

static char *to_yaml(const struct zep_topo *topo)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_error err = {0};

    ck_assert_msg(zep_topo_to_yaml(topo, &b, &err) == ZEP_OK, "%s", err.text);
    return b.data;
}

START_TEST(json_round_trip)
{
    struct zep_topo *topo = NULL, *again = NULL;
    struct zep_error err = {0};
    char *json = NULL, *a, *b;

    ck_assert_int_eq(zep_topo_preset("B", 5, &topo, &err), ZEP_OK);
    topo->node[2].state = strdup("down");
    topo->node[2].device[3].nic = -1;
    topo->node[2].nic[1].up = 0;
    topo->node[2].nic[1].numa = 1;
    zep_node_add_alias(&topo->node[2], "b.example.org");
    zep_topo_warn(topo, "careful");
    topo->net_latency_s = topo->dev_latency_s = (struct zep_fact){0}; /* no detector says latencies */
    ck_assert_int_eq(zep_detect_to_json(topo, &json, &err), ZEP_OK);
    ck_assert_msg(zep_detect_from_json("helper", json, strlen(json), &again, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(again->node[0].nic[0].bw.source, ZEP_SRC_PRESET);
    a = to_yaml(topo);
    b = to_yaml(again);
    ck_assert_str_eq(a, b);
    free(a);
    free(b);
    free(json);
    zep_topo_free(topo);
    zep_topo_free(again);
}
END_TEST

START_TEST(json_sources)
{
    static const char text[] = "{\"format\": \"zeppelin-detect/1.3\", \"name\": \"zep\", \"origin\": \"slurm cluster zep\", \"new\": [],"
                               " \"nodes\": [{\"id\": \"n1\", \"nics\": [{\"key\": \"k\", \"name\": \"ib0\", \"bandwidth_bytes_s\": {\"value\": 25e9, \"source\": \"controller\"}}]}]}";
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};

    ck_assert_msg(zep_detect_from_json("helper", text, strlen(text), &topo, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(topo->node[0].nic[0].bw.source, ZEP_SRC_CONTROLLER);
    ck_assert_int_eq(topo->node[0].nic[0].numa, -1);
    ck_assert_int_eq(topo->node[0].nic[0].up, -1);
    ck_assert_int_eq(topo->node[0].sockets, 0);
    zep_topo_free(topo);
}
END_TEST

#define NODES "\"nodes\": [{\"id\": \"a\"}]"

static const struct {
    const char *text;
    int code;
    const char *message; /* NULL: begins with the helper's name */
} bad_json[] = {
    {"", ZEP_EINVAL, NULL},
    {"{\"format\": ", ZEP_EINVAL, NULL},
    {"[]", ZEP_EINVAL, NULL},
    {"{" NODES "}", ZEP_EINVAL, NULL},
    {"{\"format\": \"zeppelin-detect/2.0\", " NODES "}", ZEP_EREFUSED, NULL},
    {"{\"format\": \"zeppelin-detect/1.0\"}", ZEP_EINVAL, "helper: the topology has no nodes"},
    {"{\"format\": \"zeppelin-detect/1.0\", \"nodes\": [{\"state\": \"up\"}]}", ZEP_EINVAL, "helper: nodes: not as zeppelin-detect/1.0 says"},
    {"{\"format\": \"zeppelin-detect/1.0\", \"nodes\": [{\"id\": \"a\", \"devices\": [{\"kind\": \"gpu\"}]}]}", ZEP_EINVAL, "helper: devices: not as zeppelin-detect/1.0 says"},
    {"{\"format\": \"zeppelin-detect/1.0\", \"nodes\": [{\"id\": \"a\", \"nics\": [{\"key\": \"gpu\"}]}]}", ZEP_EINVAL, "helper: nics: not as zeppelin-detect/1.0 says"},
    {"{\"format\": \"zeppelin-detect/1.0\", \"nodes\": [{\"id\": \"a\", \"devices\": [{\"key\": \"g\", \"kind\": \"gpu\", \"nic\": 3}]}]}", ZEP_EINVAL,
     "helper: node 'a': device 'g' uses NIC 3: the node has 0"},
    {"{\"format\": \"zeppelin-detect/1.0\", " NODES ", \"fabrics\": [{\"switches\": [{}]}]}", ZEP_EINVAL, "helper: switches: not as zeppelin-detect/1.0 says"},
    {"{\"format\": \"zeppelin-detect/1.0\", " NODES ", \"fabrics\": [{\"switches\": [{\"name\": \"s\", \"nodes\": [7]}]}]}", ZEP_EINVAL,
     "helper: fabric 'net': switch 's' has the node 7: the topology has nodes 0 to 0"},
};

START_TEST(json_bad)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};
    int rc = zep_detect_from_json("helper", bad_json[_i].text, strlen(bad_json[_i].text), &topo, &err);

    ck_assert_msg(rc == bad_json[_i].code, "%d (%s) for %s", rc, err.text, bad_json[_i].text);
    if (bad_json[_i].message)
        ck_assert_str_eq(err.text, bad_json[_i].message);
    else
        ck_assert_int_eq(strncmp(err.text, "helper:", 7), 0);
    ck_assert_ptr_null(topo);
}
END_TEST

START_TEST(no_helper)
{
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};
    int absent = 0;

    ck_assert_int_eq(zep_detect_run("zeppelin-detect-nothing", NULL, 1, &absent, &topo, &err), ZEP_EUNAVAIL);
    ck_assert_int_eq(absent, 1);
    ck_assert_str_eq(err.text, "the helper zeppelin-detect-nothing is missing: it was not built");
}
END_TEST

/* --- the text of scontrol --- */

#define NODE(name, gres, state) "NodeName=" name " Arch=x86_64 CoresPerSocket=4  CPUAlloc=0 CPUTot=8 CPULoad=0.30 AvailableFeatures=sim Gres=" gres " NodeAddr=10.1.1.1 NodeHostName=" name \
    " Version=22.05.8 OS=Linux 6.1.0 #1 SMP  RealMemory=20000 AllocMem=0 Sockets=2 Boards=1 State=" state " ThreadsPerCore=2 Partitions=main  Reason=State=FALSE\n"

static struct zep_topo *from_text(const char *nodes, const char *switches, const char *only, int want, struct zep_error *err)
{
    struct zep_topo *topo = zep_topo_new("slurm", "test");
    struct zep_names *names = NULL;
    struct zep_hostlist list = {0};
    char *a = strdup(nodes), *b = strdup(switches);
    int rc;

    if (only)
        ck_assert_int_eq(zep_hostlist_expand(only, &list, err), ZEP_OK);
    if ((rc = zep_slurm_parse_nodes(topo, a, only ? &list : NULL, err)) == ZEP_OK && (rc = zep_slurm_index(topo, &names, err)) == ZEP_OK &&
        (rc = zep_slurm_parse_switches(topo, names, b, err)) == ZEP_OK)
        rc = zep_slurm_finish(topo, err);
    ck_assert_msg(rc == want, "%d: %s", rc, err->text);
    zep_names_free(names);
    zep_hostlist_free(&list);
    free(a);
    free(b);
    if (rc < 0) {
        zep_topo_free(topo);
        return NULL;
    }
    return topo;
}

START_TEST(scontrol_nodes)
{
    struct zep_error err = {0};
    struct zep_topo *topo = from_text(NODE("a1", "gpu:h200:8(S:0-1)", "IDLE") NODE("a2", "(null)", "DOWN+DRAIN") NODE("a3", "nic:2,gpu:3,gpu:a100:1(S:0)", "MIXED") NODE("a4", "gpu", "IDLE"),
                                      "No topology information available\n", NULL, ZEP_OK, &err);

    ck_assert_int_eq(topo->n_node, 4);
    ck_assert_str_eq(topo->node[0].id, "a1");
    ck_assert_str_eq(topo->node[0].state, "idle");
    ck_assert_int_eq(topo->node[0].sockets, 2);
    ck_assert_int_eq(topo->node[0].cores_per_socket, 4);
    ck_assert_int_eq(topo->node[0].threads_per_core, 2);
    ck_assert_int_eq(topo->node[0].mem_bytes, 20000LL << 20);
    ck_assert_int_eq(topo->node[0].n_device, 8);
    ck_assert_str_eq(topo->node[0].device[7].key, "gpu7");
    ck_assert_str_eq(topo->node[0].device[7].model, "h200");
    ck_assert_int_eq(topo->node[0].n_alias, 0); /* one address for all names none */
    ck_assert_int_eq(topo->node[1].n_device, 0);
    ck_assert_str_eq(topo->node[1].state, "down+drain");
    ck_assert_int_eq(topo->node[2].n_device, 4);
    ck_assert_ptr_null(topo->node[2].device[0].model);
    ck_assert_str_eq(topo->node[2].device[3].model, "a100");
    ck_assert_int_eq(topo->node[3].n_device, 1);
    ck_assert_int_eq(topo->n_fabric, 0);
    zep_topo_free(topo);
}
END_TEST

#define FOUR NODE("a1", "gpu:2", "IDLE") NODE("a2", "gpu:2", "IDLE") NODE("a3", "gpu:2", "IDLE") NODE("a4", "gpu:2", "IDLE")

START_TEST(scontrol_tree)
{
    struct zep_error err = {0};
    struct zep_topo *topo = from_text(FOUR, "SwitchName=s.top Level=1 LinkSpeed=1 Nodes=a[1-4] Switches=s.[1-2],unused\n"
                                            "SwitchName=s.1 Level=0 LinkSpeed=1 Nodes=a[1-2]\nSwitchName=s.2 Level=0 LinkSpeed=1 Nodes=a[3-4]\nSwitchName=unused Level=0 LinkSpeed=1 Nodes=b[1-9]\n",
                                      NULL, ZEP_OK, &err);
    const struct zep_fabric *f = &topo->fabric[0];

    ck_assert_int_eq(f->n_switch, 3); /* a switch of nodes that are not here is gone */
    ck_assert_str_eq(f->sw[0].name, "s.top");
    ck_assert_int_eq(f->sw[0].n_node, 0); /* the union of what is below */
    ck_assert_int_eq(f->sw[0].level, 1);
    ck_assert_int_eq(f->sw[1].n_node, 2);
    ck_assert_int_eq(f->sw[1].parent[0], 0);
    ck_assert_int_eq(f->sw[0].uplink_bw.source, ZEP_SRC_NONE); /* LinkSpeed is no speed */
    ck_assert_int_eq(zep_topo_node_distance(topo, 0, 1), 1);
    ck_assert_int_eq(zep_topo_node_distance(topo, 1, 2), 2);
    ck_assert_int_eq(topo->n_warning, 0);
    zep_topo_free(topo);
}
END_TEST

START_TEST(scontrol_job)
{
    struct zep_error err = {0};
    struct zep_topo *topo = from_text(FOUR, "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=a[1-2]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=a[3-4]\nSwitchName=top Level=1 LinkSpeed=1 Nodes=a[1-4] Switches=s[0-1]\n",
                                      "a4,a2", ZEP_OK, &err);

    ck_assert_int_eq(topo->n_node, 2);
    ck_assert_str_eq(topo->node[0].id, "a4"); /* in the order of the list */
    ck_assert_str_eq(topo->node[1].id, "a2");
    ck_assert_int_eq(zep_topo_node_distance(topo, 0, 1), 2);
    zep_topo_free(topo);
    ck_assert_ptr_null(from_text(FOUR, "", "a4,a5", ZEP_EINVAL, &err));
    ck_assert_str_eq(err.text, "node 'a5' of the job is unknown to the controller");
}
END_TEST

START_TEST(scontrol_places)
{
    struct zep_error err = {0};
    struct zep_topo *topo = from_text(FOUR, "SwitchName=s0 Nodes=a[1-2]\nSwitchName=s1 Nodes=a2\n", NULL, ZEP_OK, &err);

    ck_assert_int_eq(topo->n_warning, 3);
    ck_assert_str_eq(topo->warning[2], "fabric 'slurm' is 2 separate fabrics without a common root ('s0' with 2 nodes, 's1' with 1 node): no path is known between their nodes");
    ck_assert_str_eq(topo->warning[0], "node 'a2' hangs on two switches: 's0' and 's1'");
    ck_assert_str_eq(topo->warning[1], "2 of 4 nodes hang on no switch, 'a3' first");
    zep_topo_free(topo);
}
END_TEST

START_TEST(scontrol_blocks)
{
    struct zep_error err = {0};
    struct zep_topo *topo = from_text(FOUR, "BlockName=b0 BlockIndex=0 Nodes=a[1-3] BlockSize=3\nBlockName=b1 BlockIndex=1 Nodes=a4 BlockSize=3\n", NULL, ZEP_OK, &err);

    ck_assert_int_eq(topo->n_fabric, 1);
    ck_assert_int_eq(topo->fabric[0].kind, ZEP_FABRIC_BLOCKS);
    ck_assert_int_eq(topo->fabric[0].n_switch, 2);
    ck_assert_int_eq(topo->fabric[0].sw[0].n_node, 3);
    zep_topo_free(topo);
}
END_TEST

START_TEST(scontrol_bad)
{
    struct zep_error err = {0};

    ck_assert_ptr_null(from_text(FOUR, "SwitchName=s0 Nodes=a[1-\n", NULL, ZEP_EINVAL, &err));
    ck_assert_int_eq(strncmp(err.text, "switch 's0': ", 13), 0);
    ck_assert_ptr_null(from_text("", "", NULL, ZEP_EINVAL, &err));
    ck_assert_str_eq(err.text, "the topology has no nodes");
    ck_assert_ptr_null(from_text(FOUR, "SwitchName=s0 Switches=s1\nSwitchName=s1 Switches=s0\nSwitchName=s2 Nodes=a1\nSwitchName=s0 Switches=s2\n", NULL, ZEP_EINVAL, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "switches form a cycle"));
}
END_TEST

/* 10,000 nodes whose names are all compared must not take quadratic time. */
START_TEST(scontrol_many)
{
    struct zep_buf nodes = ZEP_BUF_INIT, switches = ZEP_BUF_INIT;
    struct zep_error err = {0};
    struct zep_topo *topo;

    for (int i = 0; i < 10000; i++)
        zep_buf_printf(&nodes, "NodeName=n%d CoresPerSocket=4 Gres=gpu:1 NodeAddr=10.1.%d.%d NodeHostName=h%d Sockets=2 State=IDLE ThreadsPerCore=1\n", i, i / 250, i % 250, i);
    for (int i = 0; i < 500; i++)
        zep_buf_printf(&switches, "SwitchName=l%d Nodes=n[%d-%d]\n", i, 20 * i, 20 * i + 19);
    zep_buf_puts(&switches, "SwitchName=top Switches=l[0-499]\n");
    topo = from_text(nodes.data, switches.data, NULL, ZEP_OK, &err);
    ck_assert_int_eq(topo->n_node, 10000);
    ck_assert_int_eq(topo->node[9999].n_alias, 2);
    ck_assert_int_eq(topo->fabric[0].n_switch, 501);
    zep_topo_free(topo);
    zep_buf_free(&nodes);
    zep_buf_free(&switches);
}
END_TEST

#ifdef HAVE_HWLOC
/* --- a recorded machine: two packages, on the first a switch with two GPUs and two InfiniBand cards in crossed order, one with a virtual function, on the second
 * one GPU; an Ethernet port; the VGA of the board. As hwloc 2 and as hwloc 3 would write it. --- */

#define HW_SETS(c) "cpuset=\"" c "\" complete_cpuset=\"" c "\" nodeset=\"" c "\" complete_nodeset=\"" c "\""
#define HW_PCI(id, bus, type, name, inner) "<object type=\"PCIDev\" gp_index=\"" id "\" pci_busid=\"" bus "\" pci_type=\"" type "\" pci_link_speed=\"0\"><info name=\"PCIDevice\" value=\"" name "\"/>" inner "</object>\n"
#define HW_OS(id, name, type) "<object type=\"OSDev\" gp_index=\"" id "\" name=\"" name "\" osdev_type=\"" type "\"/>"
#define HW_BRIDGE(id, bus, range, depth, inner) "<object type=\"Bridge\" gp_index=\"" id "\" bridge_type=\"1-1\" depth=\"" depth "\" bridge_pci=\"0000:[" range "]\" pci_busid=\"" bus \
    "\" pci_type=\"0604 [10b5:9797] [10b5:9797] b0 00\" pci_link_speed=\"0\">\n" inner "</object>\n"
#define HW_HOST(id, range, inner) "<object type=\"Bridge\" gp_index=\"" id "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" range "]\">\n" inner "</object>\n"
#define HW_PACKAGE(i, set, io) "<object type=\"Package\" os_index=\"" i "\" " HW_SETS(set) " gp_index=\"1" i "\">\n<object type=\"NUMANode\" os_index=\"" i "\" " HW_SETS(set) " gp_index=\"2" i \
    "\" local_memory=\"1000000000\"><page_type size=\"4096\" count=\"0\"/></object>\n<object type=\"Core\" os_index=\"0\" " HW_SETS(set) " gp_index=\"3" i "\"><object type=\"PU\" os_index=\"" i "\" " HW_SETS(set) \
    " gp_index=\"4" i "\"/></object>\n" io "</object>\n"
#define GPU_TYPE "0302 [10de:2330] [10de:16c1] a1 00"
#define IB_TYPE "0207 [15b3:1021] [15b3:0041] 00 00"
#define HW_MACHINE(version, ib, net) "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"" version "\">\n" \
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" nodeset=\"0x3\" complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">\n" \
    "<info name=\"HostName\" value=\"box.example.org\"/>\n" \
    HW_PACKAGE("0", "0x1", HW_HOST("50", "00-0f", \
        HW_PCI("51", "0000:00:11.0", "0300 [1002:515e] [003c:00fb] 02 00", "ES1000", "") \
        HW_PCI("52", "0000:00:19.0", "0200 [8086:1521] [1137:008b] 01 00", "I350", HW_OS("53", "eth0", net)) \
        HW_BRIDGE("54", "0000:00:01.0", "01-0e", "1", \
            HW_BRIDGE("55", "0000:01:00.0", "02-05", "2", HW_PCI("56", "0000:02:00.0", GPU_TYPE, "GH100", "") HW_PCI("57", "0000:03:00.0", IB_TYPE, "MT2910", HW_OS("58", "ib0", net) HW_OS("59", "mlx5_0", ib))) \
            HW_BRIDGE("60", "0000:01:01.0", "06-09", "2", HW_PCI("61", "0000:06:00.0", IB_TYPE, "MT2910", HW_OS("62", "mlx5_1", ib)) \
                HW_PCI("63", "0000:06:00.1", IB_TYPE, "MT2910 Virtual Function", HW_OS("64", "mlx5_2", ib)) HW_PCI("65", "0000:07:00.0", GPU_TYPE, "GH100", ""))))) \
    HW_PACKAGE("1", "0x2", HW_HOST("70", "80-8f", HW_PCI("71", "0000:81:00.0", GPU_TYPE, "GH100", ""))) \
    "</object>\n</topology>\n"

static const char *const machines[] = {HW_MACHINE("2.0", "3", "2"), HW_MACHINE("3.0", "48", "16")};

START_TEST(recorded)
{
    char file[] = "test_topology_detect.XXXXXX", program[4096];
    char *argv[] = {program, "--xml", file, NULL};
    const char *dir = getenv("ZEP_BUILDDIR");
    struct zep_process_result p;
    struct zep_topo *topo = NULL;
    struct zep_error err = {0};
    const struct zep_node *n;
    int fd = mkstemp(file);

    snprintf(program, sizeof program, "%s/zeppelin-detect-local", dir ? dir : ".");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, machines[_i], strlen(machines[_i])), (ssize_t)strlen(machines[_i]));
    close(fd);
    ck_assert_msg(zep_process_run(argv, 20, &p, &err) == ZEP_OK, "%s", err.text);
    unlink(file);
    ck_assert_msg(p.status == 0, "status %d: %s", p.status, p.err);
    ck_assert_msg(zep_detect_from_json("helper", p.out, p.out_len, &topo, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(zep_topo_assign_nics(topo, &err), ZEP_OK);
    n = &topo->node[0];
    ck_assert_str_eq(n->id, "box");
    ck_assert_str_eq(n->alias[0], "box.example.org");
    ck_assert_int_eq(n->sockets, 2);
    ck_assert_int_eq(n->n_numa, 2);
    ck_assert_int_eq(n->mem_bytes, 2000000000);
    ck_assert_int_eq(n->n_nic, 3); /* not the virtual function, and one card has one entry */
    ck_assert_str_eq(n->nic[0].name, "eth0");
    ck_assert_str_eq(n->nic[1].name, "mlx5_0");
    ck_assert_str_eq(n->nic[1].key, "0000:03:00.0");
    ck_assert_int_eq(n->n_device, 3); /* not the board's VGA */
    ck_assert_str_eq(n->device[0].key, "0000:02:00.0");
    ck_assert_int_eq(n->device[0].nic, 1);
    ck_assert_int_eq(n->device[0].nic_distance, ZEP_DIST_SWITCH);
    ck_assert_str_eq(n->device[1].key, "0000:07:00.0");
    ck_assert_int_eq(n->device[1].nic, 2); /* the nearer of two switches, not the Ethernet port */
    ck_assert_int_eq(n->device[1].numa, 0);
    ck_assert_int_eq(n->device[2].numa, 1);
    ck_assert_int_eq(n->device[2].nic_distance, ZEP_DIST_SYSTEM);
    zep_process_result_free(&p);
    zep_topo_free(topo);
}
END_TEST

START_TEST(recorded_bad)
{
    char program[4096];
    char *argv[] = {program, "--xml", "/dev/null", NULL};
    const char *dir = getenv("ZEP_BUILDDIR");
    struct zep_process_result p;
    struct zep_error err = {0};

    snprintf(program, sizeof program, "%s/zeppelin-detect-local", dir ? dir : ".");
    for (int i = 0; i < 2; i++) {
        argv[2] = i ? "/nowhere.xml" : "/etc/passwd";
        ck_assert_msg(zep_process_run(argv, 20, &p, &err) == ZEP_OK, "%s", err.text);
        ck_assert_int_eq(p.status, 1);
        ck_assert_msg(!strncmp(p.err, argv[2], strlen(argv[2])), "%s", p.err);
        zep_process_result_free(&p);
    }
}
END_TEST
#endif

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

int main(void)
{
    Suite *s = suite_create("topology: detectors");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, json_round_trip);
    tcase_add_test(t, json_sources);
    tcase_add_loop_test(t, json_bad, 0, ROWS(bad_json));
    tcase_add_test(t, no_helper);
    tcase_add_test(t, scontrol_nodes);
    tcase_add_test(t, scontrol_tree);
    tcase_add_test(t, scontrol_job);
    tcase_add_test(t, scontrol_places);
    tcase_add_test(t, scontrol_blocks);
    tcase_add_test(t, scontrol_bad);
    tcase_add_test(t, scontrol_many);
#ifdef HAVE_HWLOC
    tcase_add_loop_test(t, recorded, 0, ROWS(machines));
    tcase_add_test(t, recorded_bad);
#endif
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
