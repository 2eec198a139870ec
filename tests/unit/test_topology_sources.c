/* What sources of schedulers make of texts, good and bad: Slurm's files and answers, Kubernetes. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "topology/detect.h"
#include "tests/unit/source_util.h"

/* --- topology.conf --- */

static const struct {
    const char *what, *text;
    int n_node, n_switch, top, n_warning;
    const char *warning;
} conf_good[] = {
    {"a tree", "SwitchName=l0 Nodes=a[1-2]\nSwitchName=l1 Nodes=a[3-4]\nSwitchName=top Switches=l[0-1]\n", 4, 3, 1, 0, NULL},
    {"children before parents, keys in any case, blanks round =", "switchname=top  SWITCHES = l0,l1\nSwitchname=l0 nodes=\"a1,a2\"\nSWITCHNAME=l1 Nodes=a3 LinkSpeed=100\n", 3, 3, 1, 0, NULL},
    {"comments, an escaped #, continued lines", "# top\nSwitchName=l\\#0 Nodes=a1,\\\na2 # here \\\nSwitchName=l1 Nodes=a3 \\\n  LinkSpeed=7\nSwitchName=t Switches=l\\#0,l1\n", 3, 3, 1, 0, NULL},
    {"an even run of backslashes does not continue", "SwitchName=l0 Nodes=a1 # \\\\\nSwitchName=l1 Nodes=a2\nSwitchName=t Switches=l0,l1", 2, 3, 1, 0, NULL},
    {"two parents", "SwitchName=l0 Nodes=a1\nSwitchName=l1 Nodes=a2\nSwitchName=s0 Switches=l[0-1]\nSwitchName=s1 Switches=l[0-1]\n", 2, 4, 1, 0, NULL},
    {"named twice", "SwitchName=l0 Nodes=a[1-3],a2\nSwitchName=t Switches=l0,l0\n", 3, 2, 1, 0, NULL},
    {"an empty leaf", "SwitchName=l0 Nodes=a1\nSwitchName=l1\nSwitchName=s0 Switches=l[0-1]\n", 1, 3, 1, 1, "f:2: switch 'l1' has no nodes"},
    {"two trees", "SwitchName=l0 Nodes=a1\nSwitchName=l1 Nodes=a2\n", 2, 2, 0, 1, "fabric 'slurm' is 2 separate fabrics without a common root ('l0' with 1 node, 'l1' with 1 node): no path is known between their nodes"},
    {"a node on two leaves", "SwitchName=l0 Nodes=a[1-3]\nSwitchName=l1 Nodes=a[3-4]\nSwitchName=s0 Switches=l[0-1]\n", 4, 3, 1, 1, "node 'a3' hangs on two switches: 'l0' and 'l1'"},
    {"a slip in a host list", "SwitchName=l0 Nodes=rack-n[1-2],n[3-4]\n", 4, 1, 0, 1, "f:1: 'n[3-4]' means hosts 'n...', not 'rack-n...': each part of a host list has its own prefix (a slip?)"},
    {"other prefixes are no slip", "SwitchName=l0 Nodes=node[1-2],login,gpu[1-2]\n", 5, 1, 0, 0, NULL},
    {"dots in names", "SwitchName=s.1.1 Nodes=a[1-2]\nSwitchName=s.2 Switches=s.1.[1-1]\n", 2, 2, 1, 0, NULL},
    {"blocks", "BlockName=b1 Nodes=n[01-04]\nBlockName=b2 Nodes=n[05-08]\nBlockSizes=4,16\n", 8, 2, 0, 0, NULL},
    {"a block smaller than the smallest size", "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-7]\nBlockSizes=4\n", 7, 2, 0, 1, "f:2: block 'b2' has 3 nodes, the smallest of BlockSizes is 4"},
};

START_TEST(conf_is_read)
{
    struct zep_topo *t = must_load(zep_topo_from_slurm_conf, conf_good[_i].text);
    int top = 0;

    ck_assert_msg(zep_topo_is_slurm_conf(conf_good[_i].text, strlen(conf_good[_i].text)), "%s: not recognised", conf_good[_i].what);
    ck_assert_msg(t->n_node == conf_good[_i].n_node && t->fabric[0].n_switch == conf_good[_i].n_switch, "%s: %d nodes, %d switches", conf_good[_i].what, t->n_node, t->fabric[0].n_switch);
    for (int i = 0; i < t->fabric[0].n_switch; i++)
        top = t->fabric[0].sw[i].level > top ? t->fabric[0].sw[i].level : top;
    ck_assert_msg(top == conf_good[_i].top, "%s: top level %d", conf_good[_i].what, top);
    ck_assert_msg(t->n_warning == conf_good[_i].n_warning, "%s: %d warnings, first: %s", conf_good[_i].what, t->n_warning, t->n_warning ? t->warning[0] : "");
    if (conf_good[_i].warning)
        ck_assert_str_eq(t->warning[0], conf_good[_i].warning);
    ck_assert_int_eq(t->fabric[0].source, ZEP_SRC_SITE);
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *text, *message;
} conf_bad[] = {
    {"", "f: no switches and no blocks: expected at least one SwitchName or BlockName"},
    {"# nothing\n\n", "f: no switches and no blocks: expected at least one SwitchName or BlockName"},
    {"SwitchName=l0 Nodes=a1\nSwitchName=l0 Nodes=a2\n", "f:2: switch 'l0' is defined twice, first on line 1"},
    {"SwitchName=top Switches=l[0-1]\nSwitchName=l0 Nodes=a1\n", "f:1: switch 'top': child 'l1' is not defined: expected a SwitchName=l1"},
    {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "f: fabric 'slurm': switches form a cycle through 'a' and 'b'"},
    {"SwitchName=a Switches=a\n", "f:1: switch 'a' is its own child"},
    {"SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n", "f:1: switch 'a' has Nodes and Switches: expected one of them"},
    {"SwitchName=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa Nodes=n1\n",
     "f:1: switch 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...': a name has at most 64 characters, this one 65"},
    {"SwitchName= Nodes=n1\n", "f:1: SwitchName: no name before 'Nodes=n1'"},
    {"Nodes=n1 SwitchName=a\n", "f:1: 'Nodes': expected SwitchName or BlockName at the beginning of the line"},
    {"SwitchName=a Node=n1\n", "f:1: unknown key 'Node' (did you mean 'Nodes'?)"},
    {"SwitchName=a Nodes=n1 nodes=n2\n", "f:1: 'nodes' is given twice"},
    {"SwitchNam=a Nodes=n1\n", "f:1: 'SwitchNam': expected SwitchName or BlockName at the beginning of the line"},
    {"SwitchName=a Nodes=n[1-\n", "f:1: switch 'a': Nodes: host list 'n[1-': '[' without ']'"},
    {"SwitchName=a Nodes=n[1-1000000000]\n", "f:1: switch 'a': Nodes: host list range '1-1000000000': more than 65536 names"},
    {"SwitchName=a Nodes=-n1\n", NULL},
    {"SwitchName=a Nodes=\"n1\n", "f:1: Nodes: '\"' without its end"},
    {"SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "f:2: 'b' is a block, 'a' before it a switch: a topology has either switches or blocks"},
    {"BlockName=b Nodes=n[1-4]\nBlockSizes=4,12\n", "f:2: BlockSizes: '12': expected the smallest size (4) times a power of two"},
    {"BlockName=b Nodes=n[1-4]\nBlockSizes=4,6\n", "f:2: BlockSizes: '6': expected the smallest size (4) times a power of two"},
    {"BlockName=b Nodes=n[1-4]\nBlockSizes=0\n", "f:2: BlockSizes: '0': expected a whole number from 1 to 1048576"},
    {"BlockName=b Nodes=n[1-4]\nBlockSizes=4\nBlockSizes=4\n", "f:3: BlockSizes is given twice, first on line 2"},
    {"SwitchName=a Nodes=n1\nInclude other.conf\n", "f:2: Include: ./other.conf: No such file or directory"},
    {"SwitchName=a\n", "f: no switch has nodes"},
    {"SwitchName=a what\n", "f:1: 'what': expected KEY=VALUE"},
};

START_TEST(conf_is_refused)
{
    struct zep_topo *t;
    struct zep_error err = {0};

    if (conf_bad[_i].message) {
        must_fail(zep_topo_from_slurm_conf, conf_bad[_i].text, conf_bad[_i].message);
        return;
    }
    ck_assert_int_lt(load_with(zep_topo_from_slurm_conf, conf_bad[_i].text, NULL, NULL, &t, &err), 0);
    ck_assert_msg(!strncmp(err.text, "f:1: switch 'a': Nodes: ", 24), "%s", err.text);
}
END_TEST

START_TEST(conf_includes)
{
    char dir[] = "test_sources.XXXXXX", path[64], loop[64];
    struct zep_topo *t = NULL;
    struct zep_error err = {0};
    const char *from[1] = {path};
    struct zep_topo_want w = {.n_from = 1, .from = from};
    FILE *f;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/topology.conf", dir);
    f = fopen(path, "w");
    fputs("include leaves.conf\nSwitchName=top Switches=l[0-1]\n", f);
    fclose(f);
    snprintf(loop, sizeof loop, "%s/leaves.conf", dir);
    f = fopen(loop, "w");
    fputs("SwitchName=l0 Nodes=a1\nSwitchName=l1 Nodes=a2\n", f);
    fclose(f);
    ck_assert_msg(zep_topo_from(&w, &t, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(t->n_node, 2);
    zep_topo_free(t);
    f = fopen(loop, "w"); /* a file that includes itself */
    fputs("include leaves.conf\n", f);
    fclose(f);
    ck_assert_int_eq(zep_topo_from(&w, &t, &err), ZEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "more than 8 files inside each other"));
    unlink(loop);
    unlink(path);
    rmdir(dir);
}
END_TEST

/* 16,384 nodes of 8 GPUs under 512 leaves; the time is guarded by the suite's limit. */
START_TEST(conf_large)
{
    struct zep_buf b = ZEP_BUF_INIT, out = ZEP_BUF_INIT;
    struct zep_error err = {0};
    struct zep_topo *t;

    for (int i = 0; i < 512; i++)
        zep_buf_printf(&b, "SwitchName=leaf%03d Nodes=n[%05d-%05d]\n", i, 32 * i, 32 * i + 31);
    for (int i = 0; i < 16; i++)
        zep_buf_printf(&b, "SwitchName=spine%02d Switches=leaf[000-511]\n", i);
    t = must_load(zep_topo_from_slurm_conf, b.data);
    ck_assert_int_eq(t->n_node, 16384);
    ck_assert_int_eq(t->fabric[0].sw[0].n_parent, 16);
    ck_assert_int_eq(zep_topo_to_svg(t, &out, &err), ZEP_OK);
    ck_assert_uint_lt(out.len, 5000); /* folded */
    zep_buf_free(&out);
    zep_buf_free(&b);
    zep_topo_free(t);
}
END_TEST

/* --- topology.yaml of Slurm --- */

START_TEST(slurm_yaml_default)
{
    struct zep_topo *t = must_load(zep_topo_from_slurm_yaml, two_topologies);

    ck_assert_int_eq(zep_topo_is_slurm_yaml(two_topologies, strlen(two_topologies)), 1);
    ck_assert_int_eq(t->n_node, 4);
    ck_assert_int_eq(t->fabric[0].n_switch, 3);
    ck_assert_int_eq(zep_topo_node_distance(t, 0, 3), 2);
    ck_assert(has_warning(t, "f:2: topology 'flat1' (flat) is passed over: it is not the cluster's default"));
    ck_assert(has_warning(t, "topology 'ring1' (ring) is passed over"));
    zep_topo_free(t);
    t = must_load(zep_topo_from_slurm_yaml, "- topology: b\n  block:\n    block_sizes: [2, 4]\n    blocks:\n      - block: b1\n        nodes: n[1-2]\n      - block: b2\n        nodes: n[3-4]\n");
    ck_assert_int_eq(t->fabric[0].kind, ZEP_FABRIC_BLOCKS);
    ck_assert_int_eq(t->fabric[0].n_block_size, 2);
    ck_assert_int_eq(t->fabric[0].block_size[1], 4);
    ck_assert(has_warning(t, "no topology has cluster_default: 'b' is taken, the first"));
    zep_topo_free(t);
    t = must_load(zep_topo_from_slurm_yaml, "- topology: x\n  cluster_default: true\n  flat: true\n");
    ck_assert_int_eq(t->n_node, 0);
    ck_assert(has_warning(t, "f:1: topology 'x' is flat: it names no nodes and no switches"));
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *text, *message;
} yaml_bad[] = {
    {"- topology: x\n  cluster_default: true\n  ring:\n    rings: []\n", "f:1: topology 'x': its kind is ring: expected tree, block or flat"},
    {"- topology: x\n", "f:1: topology 'x': its kind is unknown: expected tree, block or flat"},
    {"- tree: x\n", "f:1: expected 'topology: NAME' and one of tree, block, flat"},
    {"- topology: x\n  tree:\n    switches:\n      - switch: a\n        node: n1\n", "f:5: unknown key 'node' (did you mean 'nodes'?)"},
    {"- topology: x\n  tree:\n    switches:\n      - nodes: n1\n", "f:4: a switch without a name"},
    {"- topology: x\n  tree:\n    switches:\n      - switch: a\n        children: b\n", "f:4: switch 'a': child 'b' is not defined: expected a SwitchName=b"},
    {"- topology: x\n  tree: {}\n", "f:2: no switches"},
    {"- topology: x\n  block:\n    block_sizes: [4, 9]\n    blocks: []\n", "f:3: BlockSizes: '9': expected the smallest size (4) times a power of two"},
    {"- topology: x\n  cluster_default: maybe\n  flat: true\n", "f:2: cluster_default 'maybe': expected true or false"},
    {"topology: x\n", "f:1: expected a list of topologies"},
};

START_TEST(slurm_yaml_bad)
{
    must_fail(zep_topo_from_slurm_yaml, yaml_bad[_i].text, yaml_bad[_i].message);
}
END_TEST

/* --- scontrol, SLURM_TOPOLOGY_ADDR, gres.conf --- */

START_TEST(scontrol_file)
{
    static const char text[] = "SwitchName=root Level=1 LinkSpeed=1 Nodes=a[1-4] Switches=l0,l1\nSwitchName=l0 Level=0 LinkSpeed=1 Nodes=a[1-2]\nSwitchName=l1 Level=0 LinkSpeed=1 Nodes=a[3-4]\n";
    struct zep_topo *t = must_load(zep_topo_from_scontrol, text);

    ck_assert_int_eq(zep_topo_is_scontrol(text, strlen(text)), 1);
    ck_assert_int_eq(t->fabric[0].sw[sw(t, "root")].n_node, 0); /* the union of what is below */
    ck_assert_int_eq(t->fabric[0].source, ZEP_SRC_CONTROLLER);
    zep_topo_free(t);
    t = must_load(zep_topo_from_scontrol, "BlockName=b0 BlockIndex=0 Nodes=a[1-2] BlockSize=2\nBlockName=b1 BlockIndex=1 Nodes=a[3-4] BlockSize=2\nAggregatedBlock=b[0-1] BlockIndex=2 Nodes=a[1-4] BlockSize=4\n");
    ck_assert_int_eq(t->fabric[0].n_switch, 2);
    zep_topo_free(t);
}
END_TEST

static const struct {
    const char *addr, *pattern;
    int n_switch;
    const char *leaf;
    int warned;
} addrs[] = {
    {"spine0.leaf0.n1", "switch.switch.node", 2, "leaf0", 0},
    {"leaf0.n1", "switch.node", 1, "leaf0", 0},
    {"switch.2.1.switch.1.1.n1", "switch.switch.node", 1, "switch.2.1.switch.1.1", 1}, /* dots in names: not split blindly */
    {"n1", "node", 0, NULL, 0},
    {"whatever.n1", NULL, 0, NULL, 0},
};

START_TEST(topology_addr)
{
    struct zep_topo *t = zep_topo_new("t", "t");
    struct zep_error err = {0};

    zep_topo_add_node(t, "n1");
    ck_assert_int_eq(zep_slurm_add_addr(t, 0, addrs[_i].addr, addrs[_i].pattern, &err), ZEP_OK);
    ck_assert_int_eq(t->n_fabric ? t->fabric[0].n_switch : 0, addrs[_i].n_switch);
    if (addrs[_i].leaf)
        ck_assert_int_eq(t->fabric[0].sw[sw(t, addrs[_i].leaf)].n_node, 1);
    ck_assert_int_eq(t->n_warning, addrs[_i].warned);
    zep_topo_free(t);
}
END_TEST

START_TEST(gres)
{
    static const char text[] = "AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-15 Links=-1,4\nNodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=16-31\nNodeName=n1 Name=nic Count=2\n"
                               "NodeName=n3 Name=gpu Type=1g.10gb Count=7\n";
    struct zep_topo *t = must_load(zep_topo_from_gres_conf, text), *base, *u;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_is_gres_conf(text, strlen(text)), 1);
    ck_assert_int_eq(t->n_node, 3);
    ck_assert_int_eq(t->node[0].n_device, 4);
    ck_assert_str_eq(t->node[1].device[3].cores, "16-31");
    ck_assert_str_eq(t->node[1].device[0].model, "a100");
    ck_assert_int_eq(t->node[0].device[0].peer_nvlink[1], 4);
    ck_assert_int_eq(t->node[0].device[0].peer_nvlink[3], 0); /* devices of later lines have a place there */
    ck_assert_int_eq(t->node[2].n_device, 7);
    zep_topo_free(t);
    base = must_load(zep_topo_from_slurm_conf, "SwitchName=l0 Nodes=n[1-3]\n");
    ck_assert_int_eq(load_with(zep_topo_from_gres_conf, "Name=gpu Count=8\n", base, NULL, &u, &err), ZEP_OK); /* of every node */
    ck_assert_int_eq(u->n_node, 3);
    ck_assert_int_eq(u->node[2].n_device, 8);
    zep_topo_free(u);
    zep_topo_free(base);
    must_fail(zep_topo_from_gres_conf, "Name=gpu Count=8\n", "f:1: no NodeName: the line is meant for every node: name the nodes by a source before this one (--from topology.conf --from gres.conf)");
    /* a line for each GPU, in another order, with the links of each; a MIG slice of several files */
    t = must_load(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu File=/dev/nvidia1 Cores=1 Links=4,-1\nNodeName=n1 Name=gpu File=/dev/nvidia0 Cores=0 Links=-1,4\n"
                                           "NodeName=n2 Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia4,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13\n");
    ck_assert_str_eq(t->node[0].device[0].key, "gpu0");
    ck_assert_str_eq(t->node[0].device[0].cores, "0");
    ck_assert_int_eq(t->node[0].device[0].peer_nvlink[1], 4);
    ck_assert_int_eq(t->node[0].device[1].peer_nvlink[0], 4);
    ck_assert_int_eq(t->node[1].n_device, 1);
    ck_assert_str_eq(t->node[1].device[0].mig, "1g.10gb");
    zep_topo_free(t);
    t = must_load(zep_topo_from_gres_conf, "AutoDetect=nvml\n"); /* the usual one */
    ck_assert_int_eq(t->n_node, 0);
    ck_assert(has_warning(t, "f:1: AutoDetect finds the GPUs on the nodes: none are listed here"));
    zep_topo_free(t);
    t = must_load(zep_topo_from_gres_conf, "NodeName=n[1-2] Name=gpu Count=2 Cores=none\n");
    ck_assert_int_eq(t->n_warning, 1);
    ck_assert_ptr_nonnull(strstr(t->warning[0], "f:1: Cores 'none': expected numbers"));
    ck_assert_ptr_null(t->node[0].device[0].cores);
    zep_topo_free(t);
    must_fail(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu Count=2 Type=\311\312\n", "f:1: Type: '?\?': expected text without control characters, in UTF-8");
    t = must_load(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu Type=a100\nNodeName=n1 Name=gpu Type=h100 File=/dev/nvidia1\n");
    ck_assert_str_eq(t->node[0].device[0].key, "gpu1");
    ck_assert_str_eq(t->node[0].device[1].key, "gpu2"); /* the one without a file */
    ck_assert_int_eq(zep_topo_validate(t, &err), ZEP_OK);
    zep_topo_free(t);
    must_fail(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu Count=4 File=/dev/nvidia[0-7]\n", "f:1: Count '4': File has 8 devices: Slurm refuses such a line");
    ck_assert_int_eq(zep_topo_is_gres_conf("NAME STATUS\n", 12), 0);
    ck_assert_int_eq(zep_topo_is_gres_conf("NodeName=n1 Arch=x86_64 \n", 25), 0);
    ck_assert_int_eq(zep_topo_is_gres_conf("NodeName=n1 AutoDetect = nvml\n", 30), 1);
    must_fail(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu Count=many\n", "f:1: Count: 'many': expected a whole number");
    must_fail(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu File=/dev/nvidia[0-\n", "f:1: File '/dev/nvidia[0-': host list '/dev/nvidia[0-': '[' without ']'");
    must_fail(zep_topo_from_gres_conf, "NodeName=n1 Name=gpu Coers=1\n", "f:1: unknown key 'Coers' (did you mean 'Cores'?)");
    must_fail(zep_topo_from_gres_conf, "NodeName=n1 Name=nic Count=1\n", "f: no GPUs: expected lines with Name=gpu");
}
END_TEST

/* --- Kubernetes --- */

#define TIER(a, b) "\"fabric.topograph.run/tier-0\": \"" a "\", \"fabric.topograph.run/tier-1\": \"" b "\""

START_TEST(kube_paths)
{
    struct zep_topo *t = must_load(zep_topo_from_nodelist, LIST(NODE("a", TIER("r1", "b1"), "") "," NODE("b", TIER("r1", "b2"), "") "," NODE("c", TIER("r1", "b1"), "")));

    ck_assert_int_eq(t->fabric[0].n_switch, 4); /* r1 of b1 is not r1 of b2 */
    ck_assert_int_eq(t->fabric[0].sw[sw(t, "b1/r1")].n_node, 2);
    ck_assert_int_eq(zep_topo_node_distance(t, 0, 2), 1);
    ck_assert_int_eq(zep_topo_node_distance(t, 0, 1), -1);
    ck_assert_int_eq(t->fabric[0].source, ZEP_SRC_LABEL);
    zep_topo_free(t);
}
END_TEST

START_TEST(kube_aws_order)
{
    struct zep_topo *t = must_load(zep_topo_from_nodelist, LIST(NODE("a", "\"topology.k8s.aws/network-node-layer-1\": \"top\", \"topology.k8s.aws/network-node-layer-2\": \"mid\", \"topology.k8s.aws/network-node-layer-3\": \"low\", "
                                                                          "\"cloud.google.com/gce-topology-block\": \"x\"", ", \"spec\": {\"providerID\": \"aws:///z/i-1\"}")));

    ck_assert_int_eq(t->fabric[0].n_switch, 3); /* layer 1 is the farthest */
    ck_assert_int_eq(t->fabric[0].sw[sw(t, "top")].level, 2);
    ck_assert_int_eq(t->fabric[0].sw[sw(t, "top/mid/low")].n_node, 1);
    ck_assert(has_warning(t, "labels of gce on 1 node are passed over: those of aws are used, as providerID says"));
    ck_assert_int_eq(zep_topo_find_node(t, "i-1"), 0);
    zep_topo_free(t);
    t = must_load(zep_topo_from_nodelist, LIST(NODE("a", "\"topology.k8s.aws/network-node-layer-1\": \"top\"", "")));
    ck_assert(has_warning(t, "'a' first, has no label topology.k8s.aws/network-node-layer-3, which says the switch next to it"));
    zep_topo_free(t);
}
END_TEST

START_TEST(kube_resources)
{
    struct zep_topo *t = must_load(zep_topo_from_nodelist, LIST(
        NODE("g1", "\"nvidia.com/gpu.product\": \"NVIDIA-H100-80GB-HBM3\", \"nvidia.com/gpu.memory\": \"81559\", \"nvidia.com/gpu.clique\": \"uuid.a.32766\", \"node.kubernetes.io/instance-type\": \"p5.48xlarge\"",
             ", \"spec\": {\"unschedulable\": true}, \"status\": {\"allocatable\": {\"nvidia.com/gpu\": \"8\", \"vpc.amazonaws.com/efa\": \"32\", \"rdma/ib\": \"63\"}, \"capacity\": {\"memory\": \"2097152Ki\"}, "
             "\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}], \"addresses\": [{\"type\": \"InternalIP\", \"address\": \"10.0.0.1\"}]}") ","
        NODE("g2", "\"nvidia.com/gpu.clique\": \"uuid.a.1\"", ", \"status\": {\"allocatable\": {\"nvidia.com/mig-3g.20gb\": \"2\"}, \"conditions\": [{\"type\": \"Ready\", \"status\": \"False\"}]}") ","
        NODE("g3", "\"nvidia.com/gpu.count\": \"4\"", "") ","
        NODE("g4", "\"nvidia.com/gpu.replicas\": \"4\", \"nvidia.com/gpu.product\": \"T4-SHARED\"", ", \"status\": {\"allocatable\": {\"nvidia.com/gpu\": \"8\"}}") ","
        NODE("m", "\"node-role.kubernetes.io/control-plane\": \"\"", "")));

    ck_assert_int_eq(t->n_node, 4); /* not the control plane */
    ck_assert_int_eq(t->node[0].n_device, 8);
    ck_assert_str_eq(t->node[0].device[0].model, "NVIDIA-H100-80GB-HBM3");
    ck_assert_int_eq(t->node[0].device[0].mem_bytes, 81559LL << 20);
    ck_assert_int_eq(t->node[0].n_nic, 32);
    ck_assert_str_eq(t->node[0].resources, "vpc.amazonaws.com/efa: 32, rdma/ib: 63");
    ck_assert_str_eq(t->node[0].state, "ready+cordoned");
    ck_assert_str_eq(t->node[0].model, "p5.48xlarge");
    ck_assert_int_eq(t->node[0].mem_bytes, 2147483648LL);
    ck_assert_int_eq(zep_topo_find_node(t, "10.0.0.1"), 0);
    ck_assert_str_eq(t->node[1].state, "not ready");
    ck_assert_int_eq(t->node[1].n_device, 2);
    ck_assert_str_eq(t->node[1].device[1].mig, "3g.20gb");
    ck_assert_int_eq(t->node[2].n_device, 4);
    ck_assert_int_eq(t->node[2].device[0].source, ZEP_SRC_LABEL);
    ck_assert_int_eq(t->node[3].n_device, 2); /* GPUs, not shares of them */
    ck_assert_str_eq(t->node[3].device[0].model, "T4");
    ck_assert_int_eq(t->fabric[0].kind, ZEP_FABRIC_BLOCKS); /* one NVLink domain, split at the last dot */
    ck_assert_int_eq(t->fabric[0].sw[sw(t, "uuid.a")].n_node, 2);
    ck_assert(has_warning(t, "no node has labels that say where it hangs"));
    zep_topo_free(t);
}
END_TEST

START_TEST(kube_pools)
{
    struct zep_topo *t = must_load(zep_topo_from_nodelist, LIST(NODE("a", "", ", \"spec\": {\"providerID\": \"azure:///x/gpu/virtualMachines/0\"}, \"status\": {\"addresses\": [{\"address\": \"10.0.0.1\"}]}") ","
                                                                    NODE("b", "", ", \"spec\": {\"providerID\": \"azure:///x/sys/virtualMachines/0\"}, \"status\": {\"addresses\": [{\"address\": \"10.0.0.1\"}]}")));

    ck_assert_int_eq(t->n_node, 2); /* two scale sets count from 0, each */
    ck_assert_int_eq(zep_topo_find_node(t, "10.0.0.1"), -1);
    zep_topo_free(t);
    t = must_load(zep_topo_from_nodelist, LIST(NODE("only", "\"node-role.kubernetes.io/control-plane\": \"\"", "")));
    ck_assert_int_eq(t->n_node, 1); /* a cluster of one machine */
    zep_topo_free(t);
    t = must_load(zep_topo_from_nodelist, LIST(NODE("a", "\"node-role.kubernetes.io/control-plane\": \"\"", ", \"status\": {\"allocatable\": {\"amd.com/gpu\": \"8\"}}") "," NODE("b", "", "")));
    ck_assert_int_eq(t->n_node, 2);
    ck_assert_int_eq(t->node[0].n_device, 8);
    zep_topo_free(t);
    t = must_load(zep_topo_from_nodelist, LIST(NODE("a", "\"cloud.google.com/gce-topology-host\": \"h1\", \"cloud.google.com/gce-topology-subblock\": \"s\", \"cloud.google.com/gce-topology-block\": \"b\"", "") ","
                                                    NODE("b", "\"cloud.google.com/gce-topology-host\": \"h2\", \"cloud.google.com/gce-topology-subblock\": \"s\", \"cloud.google.com/gce-topology-block\": \"b\"", "")));
    ck_assert_int_eq(zep_topo_node_distance(t, 0, 1), 1); /* the host is the machine, not a switch */
    zep_topo_free(t);
}
END_TEST

START_TEST(kube_levels)
{
    static const char text[] = "apiVersion: v1\nkind: NodeList\nitems:\n- kind: Node\n  metadata:\n    name: a\n    labels:\n      our/rack: r1\n      our/hall: h1\n- kind: Node\n  metadata:\n    name: b\n    labels:\n      our/rack: r2\n      our/hall: h1\n";
    struct zep_topo *t;
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_is_nodelist(text, strlen(text)), 1);
    ck_assert_msg(load_with(zep_topo_from_nodelist, text, NULL, "our/rack,our/hall", &t, &err) == ZEP_OK, "%s", err.text);
    ck_assert_int_eq(t->fabric[0].n_switch, 3);
    ck_assert_int_eq(zep_topo_node_distance(t, 0, 1), 2);
    zep_topo_free(t);
    ck_assert_int_eq(load_with(zep_topo_from_nodelist, text, NULL, " , ", &t, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "--label-levels ' , ': expected keys of labels, closest to the node first, divided by commas");
}
END_TEST

static const struct {
    const char *text, *message;
} kube_bad[] = {
    {"{\"kind\": \"NodeList\", \"items\": []}", "f: no nodes in the list"},
    {"{\"kind\": \"NodeList\"}", "f: no items: expected what `kubectl get nodes -o json` prints"},
    {"{\"kind\": \"Status\", \"message\": \"nodes is forbidden\"}", "f: the API answered: nodes is forbidden"},
    {"{\"kind\": \"NodeList\", \"items\": [{\"kind\": \"Pod\", \"metadata\": {\"name\": \"x\"}}]}", "f: an item of kind 'Pod': expected Node"},
    {"{\"kind\": \"NodeList\", \"items\": [{\"metadata\": {}}]}", "f: a node without metadata.name"},
    {"{\"kind\": \"NodeList\", \"items\": [{\"metadata\": {\"name\": \"a\"}}, {\"metadata\": {\"name\": \"a\"}}]}", "f: node 'a' is there twice"},
    {"switches: {}\nblocks: []\n", "f: no items: expected what `kubectl get nodes -o json` prints"},
    {"switches: {a: b}\nblocks: [c]\n", "f: a model of topograph (switches and blocks), not a list of nodes: expected what `kubectl get nodes -o json` prints"},
};

START_TEST(kube_refused)
{
    struct zep_topo *t;
    struct zep_error err = {0};

    ck_assert_int_lt(load_with(zep_topo_from_nodelist, kube_bad[_i].text, NULL, NULL, &t, &err), 0);
    if (_i != 6) /* an empty map and list are there too */
        ck_assert_str_eq(err.text, kube_bad[_i].message);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("topology: sources");
    TCase *t = tcase_create("all");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, conf_is_read, 0, ROWS(conf_good));
    tcase_add_loop_test(t, conf_is_refused, 0, ROWS(conf_bad));
    tcase_add_test(t, conf_includes);
    tcase_add_test(t, conf_large);
    tcase_add_test(t, slurm_yaml_default);
    tcase_add_loop_test(t, slurm_yaml_bad, 0, ROWS(yaml_bad));
    tcase_add_test(t, scontrol_file);
    tcase_add_loop_test(t, topology_addr, 0, ROWS(addrs));
    tcase_add_test(t, gres);
    tcase_add_test(t, kube_paths);
    tcase_add_test(t, kube_aws_order);
    tcase_add_test(t, kube_resources);
    tcase_add_test(t, kube_levels);
    tcase_add_test(t, kube_pools);
    tcase_add_loop_test(t, kube_refused, 0, ROWS(kube_bad));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
