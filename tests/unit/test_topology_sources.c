/* What each source makes of texts, good and bad. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "topology/detect.h"
#include "topology/source.h"
#include "topology/topo_internal.h"

typedef int (*load_fn)(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);

static int load_with(load_fn load, const char *text, const struct zep_topo *base, const char *levels, struct zep_topo **topo, struct zep_error *err)
{
    struct zep_source_request q = {.file = "f", .text = text, .len = strlen(text), .base = base, .label_levels = levels};

    *topo = NULL;
    return load(&q, topo, err);
}

static struct zep_topo *must_load(load_fn load, const char *text)
{
    struct zep_topo *topo;
    struct zep_error err = {0};

    ck_assert_msg(load_with(load, text, NULL, NULL, &topo, &err) == ZEP_OK, "%s\n%s", err.text, text);
    return topo;
}

static struct zep_topo *assigned(load_fn load, const char *text)
{
    struct zep_topo *topo = must_load(load, text);
    struct zep_error err = {0};

    ck_assert_int_eq(zep_topo_assign_nics(topo, &err), ZEP_OK);
    return topo;
}

static void must_fail(load_fn load, const char *text, const char *message)
{
    struct zep_topo *topo;
    struct zep_error err = {0};
    int rc = load_with(load, text, NULL, NULL, &topo, &err);

    ck_assert_msg(rc < 0, "taken: %s", text);
    ck_assert_ptr_null(topo);
    ck_assert_str_eq(err.text, message);
}

static int has_warning(const struct zep_topo *t, const char *text)
{
    for (int i = 0; i < t->n_warning; i++)
        if (strstr(t->warning[i], text))
            return 1;
    return 0;
}

static int sw(const struct zep_topo *t, const char *name)
{
    for (int i = 0; i < t->fabric[0].n_switch; i++)
        if (!strcmp(t->fabric[0].sw[i].name, name))
            return i;
    ck_abort_msg("no switch %s", name);
    return -1;
}

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

static const char two_topologies[] = "---\n- topology: flat1\n  cluster_default: false\n  flat: true\n- topology: main\n  cluster_default: true\n  tree:\n    switches:\n      - switch: root\n        children: l[1-2]\n"
                                     "      - switch: l1\n        nodes: n[1-2]\n      - switch: l2\n        nodes: n[3-4]\n- topology: ring1\n  ring:\n    rings: []\n";

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

#define NODE(name, labels, rest) "{\"kind\": \"Node\", \"metadata\": {\"name\": \"" name "\", \"labels\": {" labels "}}" rest "}"
#define LIST(items) "{\"apiVersion\": \"v1\", \"kind\": \"NodeList\", \"items\": [" items "]}"
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

#define ROWS(a) ((int)(sizeof(a) / sizeof(a)[0]))

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
    tcase_add_test(t, ib_odd);
    tcase_add_loop_test(t, kube_refused, 0, ROWS(kube_bad));
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
