/* The cluster model (design, section 3): nodes with devices and NICs, fabrics of switches. Every bandwidth is payload in one direction, in bytes/s:
 * a device's is the sum over its links, a NIC's its port rate, a switch's that of all its uplinks together. What is not known is 0 with source NONE. */
#ifndef ZEP_TOPOLOGY_TOPO_H
#define ZEP_TOPOLOGY_TOPO_H

#include <stddef.h>
#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"

/* Where a fact comes from, weakest first (precedence of design section 3, reversed). */
enum zep_source {
    ZEP_SRC_NONE = 0, /* unknown */
    ZEP_SRC_DEFAULT,
    ZEP_SRC_PRESET,
    ZEP_SRC_LABEL,
    ZEP_SRC_SITE,
    ZEP_SRC_CONTROLLER, /* slurmctld, Kubernetes API */
    ZEP_SRC_NODE,       /* read on the node */
    ZEP_SRC_MEASURED,
    ZEP_SRC_USER,       /* explicit file or option */
};

struct zep_fact { /* a number with its source */
    double value;
    enum zep_source source;
    int derived; /* computed from other facts of that source, not read as such */
};

enum zep_dev_kind { ZEP_DEV_NONE = 0, ZEP_DEV_CPU, ZEP_DEV_GPU };

enum zep_distance { /* between two PCI functions of a node, nearest first; in brackets what nvidia-smi calls it */
    ZEP_DIST_UNKNOWN = 0,
    ZEP_DIST_SWITCH,   /* same PCIe switch (PIX) */
    ZEP_DIST_SWITCHES, /* through several PCIe switches, not through the host bridge (PXB) */
    ZEP_DIST_BRIDGE,   /* same host bridge (PHB) */
    ZEP_DIST_NUMA,     /* same NUMA domain (NODE) */
    ZEP_DIST_SYSTEM,   /* across sockets (SYS) */
};

struct zep_device {
    char *key;   /* PCI address, else UUID, MIG UUID; "cpu0" for a CPU rank slot, "gpu0" where only the number is known. Unique in the node */
    enum zep_dev_kind kind;
    enum zep_source source; /* of the device itself, its model, memory and place */
    char *uuid;  /* "GPU-..." or "MIG-...", or NULL */
    char *model; /* "NVIDIA H200", or NULL */
    char *mig;   /* profile of a MIG slice ("3g.20gb"), NULL: a whole GPU */
    char *cores; /* cores near it, as the source says ("0-31,64-95"), or NULL */
    char *bus;   /* PCI bridges above it, host bridge first, divided by '/', or NULL: unknown */
    int numa;    /* -1 unknown */
    int pcie_width;         /* lanes of its link; 0 unknown */
    int64_t mem_bytes;      /* 0 unknown */
    struct zep_fact bw;     /* device to other devices of its node */
    struct zep_fact speed;  /* of its computing, where another one of its model has 1; unknown: the node's */
    int nic;                /* index in the node's nics of the NIC it uses, -1: none or unknown */
    enum zep_distance nic_distance;
    enum zep_source nic_source; /* who says so; derived from distances where it is not the user */
    int n_more;             /* further NICs that are this device's alone */
    int *more;
    unsigned char field_source[8]; /* used by merging: sources of fields that are others than `source`; 0: that */
    unsigned char *nic_dist;    /* [n_nic of the node] enum zep_distance, where a source says them; NULL: from bus and numa */
    unsigned char *peer_dist;   /* [n_device of the node], likewise */
    unsigned char *peer_nvlink; /* [n_device of the node] NVLinks (or xGMI links) to each, NULL unknown */
};

struct zep_nic {
    char *key;  /* PCI address (and "/2" for a second port), else name; unique in the node */
    char *name; /* "mlx5_0", "nic0" */
    enum zep_source source;
    char *link; /* "infiniband" or "ethernet", or NULL */
    char *guid; /* of its InfiniBand adapter, 16 hex digits, or NULL */
    char *bond; /* the bond that it is a part of, or NULL */
    char *bus;  /* as a device's */
    int numa;   /* -1 unknown */
    int up;     /* 1, 0 (down), -1 unknown */
    int rdma;   /* has a verbs device (InfiniBand, RoCE, EFA): 1, 0, -1 unknown */
    int pcie_width; /* 0 unknown */
    unsigned char field_source[8]; /* as a device's */
    struct zep_fact bw;
    struct zep_fact speed; /* share of bw that it gives; unknown: 1 */
};

struct zep_note { /* what a node says of itself beside its topology: limits, versions, its clock */
    char *key, *value;
};

struct zep_node {
    char *id;
    int n_alias;
    char **alias;   /* other names under which sources know it */
    char *state;    /* as the controller says ("idle", "down", "drained"), or NULL */
    char *model;    /* kind of machine ("p5.48xlarge"), or NULL */
    char *resources; /* what a controller offers of it beside GPUs ("rdma/ib: 8"), or NULL */
    int sockets, cores_per_socket, threads_per_core; /* 0 unknown */
    int n_numa;     /* 0 unknown */
    int64_t mem_bytes;
    struct zep_fact speed; /* of its devices that have none of their own; unknown: 1 */
    unsigned char field_source[4]; /* as a device's, of sockets to n_numa */
    enum zep_source cpu_source, mem_source, state_source; /* of sockets to n_numa; of mem_bytes; of state and model */
    int n_device;
    struct zep_device *device;
    int n_nic;
    struct zep_nic *nic;
    int n_note;
    struct zep_note *note; /* for zeppelin doctor; part of JSON, not of topology.yaml */
};

struct zep_switch {
    char *name;
    int level;       /* 0 = leaf */
    int n_parent;
    int *parent;     /* indices in the fabric's switches */
    int n_node;      /* ports: nodes that hang directly on it */
    int *node;       /* indices in the topology's nodes */
    int *port;       /* [n_node] index in that node's nics of the NIC that the cable ends in, -1 unknown; NULL: all unknown */
    struct zep_fact uplink_bw;
};

enum zep_fabric_kind { ZEP_FABRIC_NONE = 0, ZEP_FABRIC_TREE, ZEP_FABRIC_RAILS, ZEP_FABRIC_BLOCKS };

struct zep_fabric {
    char *name;
    enum zep_fabric_kind kind; /* rails: a node hangs on several leaves, one for each NIC; blocks: the switches are NVLink domains over several nodes */
    enum zep_source source;
    int n_switch;
    struct zep_switch *sw;
    int n_block_size;          /* blocks: sizes, in nodes, of the groups that blocks are allocated in, smallest first */
    int *block_size;
};

struct zep_conflict { /* two sources that disagree: both facts, and which one holds */
    char *where, *what;  /* "node n1", "memory" */
    char *kept, *lost;   /* values as text */
    enum zep_source kept_source, lost_source;
};

struct zep_topo {
    char *name;
    char *origin;  /* one line: where this came from ("synthetic nodes:2 ...", "slurm cluster zep") */
    struct zep_fact net_latency_s;  /* between nodes */
    struct zep_fact dev_latency_s;  /* between devices of a node */
    int n_node, cap_node;
    struct zep_node *node;
    int n_fabric, cap_fabric;
    struct zep_fabric *fabric;      /* the first is the one that is planned with */
    int n_warning, cap_warning;
    char **warning; /* what a source could not say; shown once */
    int n_conflict, cap_conflict;
    struct zep_conflict *conflict;
};

/* --- building (used by sources; strings are copied) --- */
struct zep_topo *zep_topo_new(const char *name, const char *origin); /* NULL: out of memory */
void zep_topo_free(struct zep_topo *topo);
struct zep_node *zep_topo_add_node(struct zep_topo *topo, const char *id);                 /* NULL: out of memory; id must be new (checked by validate) */
int zep_node_add_alias(struct zep_node *node, const char *alias);
struct zep_device *zep_node_add_device(struct zep_node *node, const char *key, enum zep_dev_kind kind);
struct zep_nic *zep_node_add_nic(struct zep_node *node, const char *key, const char *name);
struct zep_fabric *zep_topo_add_fabric(struct zep_topo *topo, const char *name, enum zep_fabric_kind kind);
struct zep_switch *zep_fabric_add_switch(struct zep_fabric *fabric, const char *name);
int zep_device_add_more(struct zep_device *device, int nic);
int zep_switch_add_parent(struct zep_switch *sw, int parent);
int zep_switch_add_node(struct zep_switch *sw, int node);
int zep_switch_add_port(struct zep_switch *sw, int node, int nic); /* nic -1: unknown */
int zep_fabric_add_block_size(struct zep_fabric *fabric, int n_node);
/* What a source says of pairs of a node. */
int zep_node_set_nic_distance(struct zep_node *node, int dev, int nic, enum zep_distance d);
int zep_node_set_peer(struct zep_node *node, int dev, int peer, enum zep_distance d, int n_nvlink);
int zep_node_add_note(struct zep_node *node, const char *key, const char *value); /* replaces one of that key */
const char *zep_node_note(const struct zep_node *node, const char *key); /* NULL absent */
int zep_topo_add_conflict(struct zep_topo *topo, const char *where, const char *what, const char *kept, enum zep_source kept_source, const char *lost, enum zep_source lost_source);
int zep_topo_warn(struct zep_topo *topo, const char *fmt, ...) ZEP_PRINTF(2, 3);
/* Names unique, aliases unambiguous (an alias of two nodes is an error naming both), indices in range, no cycle of switches; computes switch levels. */
int zep_topo_validate(struct zep_topo *topo, struct zep_error *err);
int zep_topo_find_node(const struct zep_topo *topo, const char *id_or_alias); /* -1 */
/* Number of switch levels between two nodes: 0 same node, 1 same leaf, 2 next level ...; -1 not connected or unknown. */
int zep_topo_node_distance(const struct zep_topo *topo, int a, int b);
/* How far a device is from a NIC, a device from a device: as a source said, else by the PCI bridges above them, else by NUMA domains. */
enum zep_distance zep_node_nic_distance(const struct zep_node *node, int dev, int nic);
enum zep_distance zep_node_peer_distance(const struct zep_node *node, int a, int b);
/* Chooses for devices without one a NIC: nearest first, ties split so that NICs are shared evenly, the same for any order of enumeration. NICs that are down, slow beside the others, or
 * near no device stay unused; further NICs behind a device's own PCIe switch become its too. nic stays -1, with a warning, where all are equally far: then the locality is hidden or unknown. */
int zep_topo_assign_nics(struct zep_topo *topo, struct zep_error *err);

/* --- sources: topology/source.h has the registry; these are called by name --- */
/* "nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s": keys nodes, dev (devices a node), nic (NICs a node), nvlink (a device's bandwidth in the node), net (a NIC's),
 * leaf (nodes under one leaf switch; default: all), uplink (of all links up from a leaf switch; default: unknown), kind (gpu, cpu; default gpu), mem (per device), lat, netlat (latencies). Source of all facts: USER; defaults: DEFAULT. */
int zep_topo_synthetic(const char *text, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_preset(const char *name, int n_node, struct zep_topo **topo_out, struct zep_error *err); /* preset.c has the table */
/* topology.yaml, "zeppelin-topology/1.0" */
int zep_topo_load(const char *path, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_parse(const char *name, const char *text, size_t len, struct zep_topo **topo_out, struct zep_error *err);
/* This machine, by the helper zeppelin-detect-local (10 s limit). */
int zep_topo_detect_local(struct zep_topo **topo_out, struct zep_error *err);
/* A Slurm cluster (both NULL), a partition, or the nodes of an allocation in the order of ranks, by the helper zeppelin-detect-slurm; where the helper is absent, from the text of scontrol.
 * ZEP_EUNAVAIL at once when there is no Slurm here, within 10 s when the controller does not answer. */
int zep_topo_detect_slurm(const char *jobid, const char *partition, struct zep_topo **topo_out, struct zep_error *err);

/* --- several sources --- */
/* Adds what src knows to dst; nodes match on any name, devices and NICs on PCI address or UUID. Where both know a fact the stronger source holds (enum zep_source) and a difference is kept as a
 * conflict; unknown never overrides. Nodes that are in one only are added. A name that means two nodes is an error naming both. src is left as it was. */
int zep_topo_merge(struct zep_topo *dst, const struct zep_topo *src, struct zep_error *err);
/* Nodes that differ from most of their kind: a warning-like text for each difference ("node 'n3': NIC mlx5_2 is down, up on its 7 siblings"). Calls back; stops at a negative return. */
typedef int (*zep_sibling_fn)(void *arg, int node, const char *text);
int zep_topo_siblings(const struct zep_topo *topo, zep_sibling_fn fn, void *arg, struct zep_error *err);
/* Conflicts, those that are equal on several nodes as one: "nodes n[0-3], NIC mlx5_0". At most `most` calls, then one with where "..." for the rest. */
typedef int (*zep_conflict_fn)(void *arg, const char *where, const struct zep_conflict *c);
int zep_topo_fold_conflicts(const struct zep_topo *topo, int most, zep_conflict_fn fn, void *arg, struct zep_error *err);
/* In words what changed from a to b, a line each; nothing when they are equal. */
int zep_topo_diff(const struct zep_topo *a, const struct zep_topo *b, struct zep_buf *out, struct zep_error *err);

/* --- what is slow --- */
/* "NODES=F", "NODES/dev:I=F", "NODES/nic:I=F": computing of nodes or devices, bandwidth of NICs, as a share of what they should give (0 < F <= 1; 1 takes a mark away). NODES is a host list or '*';
 * I a number, a key or a name, a list of such as in host lists ("[0-3,6]"), or '*'. The source of the mark is the user. ZEP_EINVAL: none such, or no number, with the text. */
int zep_topo_slow(struct zep_topo *topo, const char *text, struct zep_error *err);
double zep_device_speed(const struct zep_node *node, int dev); /* its own, else its node's, else 1; a node without devices: any number */
double zep_nic_bandwidth(const struct zep_nic *nic);           /* what it gives: bw and speed together; 0 unknown */

/* --- a part --- */
/* Leaves the nodes of the host list `only` (NULL: all) but those of `without` (NULL: none), in the order that they had. ZEP_EINVAL: a name that no node has, or nothing left. */
int zep_topo_select(struct zep_topo *topo, const char *only, const char *without, struct zep_error *err);
int zep_node_is_out(const struct zep_node *node); /* down, drained, cordoned, not ready ...; 0 where the state is not known */
int zep_node_slots(const struct zep_node *node);  /* ranks that it can take: its devices, or its cores where it has none; 0 unknown */

/* --- outputs --- */
int zep_topo_to_yaml(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* canonical; reading it back and writing again gives the same bytes */
int zep_topo_to_json(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* the same content as JSON */
int zep_topo_to_text(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* folded tree for people */
int zep_topo_to_matrix(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* devices and NICs of each kind of node, as nvidia-smi topo -m shows them */
int zep_topo_to_svg(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);
int zep_topo_to_dot(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* Graphviz */
int zep_topo_to_slurm_conf(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* topology.conf of the first fabric */
int zep_topo_to_slurm_yaml(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* Slurm's topology.yaml of all fabrics */
int zep_topo_to_nccl_xml(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);  /* the inside of the first kind of node, for NCCL_TOPO_FILE */
int zep_topo_to_hostfile(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);  /* nodes in the order of the tree, "name slots=8" */
int zep_topo_to_ranks(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);     /* the same, each node once a rank: SLURM_HOSTFILE, mpirun --hostfile */
int zep_topo_to_labels(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);    /* Kubernetes: a Node object with labels for each node, to be applied */
/* Nodes in the order of the tree: those of one leaf together, leaves of one spine together. order: [n_node]. */
int zep_topo_tree_order(const struct zep_topo *topo, int *order, struct zep_error *err);

const char *zep_source_name(enum zep_source s);

/* --- the planner's view: devices and nodes as plain arrays --- */
#define ZEP_VIEW_MAX_LEVEL 16

/* A part of a fabric: a leaf switch, or the switches up to a level that are connected with each other, and the links that lead up from it, all together. */
struct zep_view_up {
    char *name;   /* its switch, the first of several */
    int n_switch; /* that have links up, at its level; 0: none lead up from here */
    double bw;    /* bytes/s in each direction, of all of them; 0 where unknown */
    int unknown;  /* of one of them it is not known */
    int parent;   /* the part of the next level that it is in, -1 */
    int level;
};

struct zep_view {
    int n_node, n_dev, n_nic;
    int *node_dev0;   /* [n_node + 1]: devices of node i are [node_dev0[i], node_dev0[i+1]) */
    int *node_nic0;   /* [n_node + 1] */
    int *node_leaf;   /* [n_node]: nodes with equal number hang on one leaf; -1 unknown */
    int *dev_node;    /* [n_dev] */
    int *dev_nic;     /* [n_dev]: global NIC index; -1: none known */
    double *dev_bw;   /* [n_dev] bytes/s inside the node; 0 unknown */
    double *nic_bw;   /* [n_nic] bytes/s, less where the NIC is marked slow; 0 unknown */
    double *dev_speed;   /* [n_dev] of computing (zep_view_speed), 1 = as its costs say; of a group the slowest member's. Models of devices are not in it (zep_view_set_speeds, planner/cost.h, puts them in) */
    int64_t *dev_mem;    /* [n_dev] bytes, of a group tp times its smallest member's; 0 unknown (zep_view_mem) */
    int n_up;
    struct zep_view_up *up; /* [n_up] */
    int *nic_up;            /* [n_nic] the part that the NIC's cable ends in, -1 unknown; NULL: all unknown */
    double net_latency_s, dev_latency_s; /* 0 unknown */
};

/* The first n_node nodes (0: all) with dev_per_node devices each (0: all there are). A node that offers fewer is an error naming it. A node without devices but with known cores
 * offers CPU rank slots (one a core) where dev_per_node asks for them. tp > 1: a view device is a group of tp devices, with bandwidths summed. Owned by the caller. */
int zep_view_new(const struct zep_topo *topo, int n_node, int dev_per_node, int tp, struct zep_view **view_out, struct zep_error *err);
void zep_view_free(struct zep_view *view);
/* The parts whose links up a transfer from one NIC to another takes, and those whose links it takes down; each array has ZEP_VIEW_MAX_LEVEL places. 0: no way is known. */
int zep_view_path(const struct zep_view *view, int nic_a, int nic_b, int *up_out, int *n_up_out, int *down_out, int *n_down_out);
/* Parts whose links are not known though transfers between the view's nodes may take them; how many are known. */
int zep_view_unknown_links(const struct zep_view *view, int *n_known_out);
/* A view made by hand may lack these arrays: all are of speed 1, their memory unknown. */
static inline double zep_view_speed(const struct zep_view *view, int dev)
{
    return view->dev_speed ? view->dev_speed[dev] : 1;
}
static inline int64_t zep_view_mem(const struct zep_view *view, int dev)
{
    return view->dev_mem ? view->dev_mem[dev] : 0;
}

#endif
