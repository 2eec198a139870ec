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
};

enum zep_dev_kind { ZEP_DEV_NONE = 0, ZEP_DEV_CPU, ZEP_DEV_GPU };

enum zep_distance { /* device to NIC, nearest first */
    ZEP_DIST_UNKNOWN = 0,
    ZEP_DIST_SWITCH, /* same PCIe switch */
    ZEP_DIST_BRIDGE, /* same host bridge */
    ZEP_DIST_NUMA,   /* same NUMA domain */
    ZEP_DIST_SYSTEM, /* across sockets */
};

struct zep_device {
    char *key;   /* UUID or PCI address; "cpu0" for a CPU rank slot. Unique in the node */
    enum zep_dev_kind kind;
    char *model; /* "NVIDIA H200", or NULL */
    int numa;    /* -1 unknown */
    int nic;     /* index in the node's nics of the NIC it uses, -1: none or unknown */
    enum zep_distance nic_distance;
    int64_t mem_bytes;      /* 0 unknown */
    struct zep_fact bw;     /* device to other devices of its node */
};

struct zep_nic {
    char *key;  /* PCI address, else name; unique in the node */
    char *name; /* "mlx5_0", "nic0" */
    int numa;   /* -1 unknown */
    int up;     /* 1, 0 (down), -1 unknown */
    struct zep_fact bw;
};

struct zep_node {
    char *id;
    int n_alias;
    char **alias;   /* other names under which sources know it */
    char *state;    /* as the controller says ("idle", "down", "drained"), or NULL */
    int sockets, cores_per_socket, threads_per_core; /* 0 unknown */
    int n_numa;     /* 0 unknown */
    int64_t mem_bytes;
    int n_device;
    struct zep_device *device;
    int n_nic;
    struct zep_nic *nic;
};

struct zep_switch {
    char *name;
    int level;       /* 0 = leaf */
    int n_parent;
    int *parent;     /* indices in the fabric's switches */
    int n_node;      /* nodes that hang directly on it */
    int *node;       /* indices in the topology's nodes */
    struct zep_fact uplink_bw;
};

enum zep_fabric_kind { ZEP_FABRIC_NONE = 0, ZEP_FABRIC_TREE, ZEP_FABRIC_RAILS, ZEP_FABRIC_BLOCKS };

struct zep_fabric {
    char *name;
    enum zep_fabric_kind kind;
    int n_switch;
    struct zep_switch *sw;
};

struct zep_topo {
    char *name;
    char *origin;  /* one line: where this came from ("synthetic nodes:2 ...", "slurm cluster zep") */
    struct zep_fact net_latency_s;  /* between nodes */
    struct zep_fact dev_latency_s;  /* between devices of a node */
    int n_node, cap_node;
    struct zep_node *node;
    int n_fabric, cap_fabric;
    struct zep_fabric *fabric;
    int n_warning, cap_warning;
    char **warning; /* what a source could not say; shown once */
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
int zep_switch_add_parent(struct zep_switch *sw, int parent);
int zep_switch_add_node(struct zep_switch *sw, int node);
int zep_topo_warn(struct zep_topo *topo, const char *fmt, ...) ZEP_PRINTF(2, 3);
/* Names unique, aliases unambiguous (an alias of two nodes is an error naming both), indices in range, no cycle of switches; computes switch levels. */
int zep_topo_validate(struct zep_topo *topo, struct zep_error *err);
int zep_topo_find_node(const struct zep_topo *topo, const char *id_or_alias); /* -1 */
/* Number of switch levels between two nodes: 0 same node, 1 same leaf, 2 next level ...; -1 not connected or unknown. */
int zep_topo_node_distance(const struct zep_topo *topo, int a, int b);
/* Chooses for devices without one a NIC: nearest first, ties split evenly. Leaves nic -1 where the locality is unknown. */
int zep_topo_assign_nics(struct zep_topo *topo, struct zep_error *err);

/* --- sources --- */
/* "nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s": keys nodes, dev (devices a node), nic (NICs a node), nvlink (a device's bandwidth in the node), net (a NIC's),
 * leaf (nodes under one leaf switch; default: all), kind (gpu, cpu; default gpu), mem (per device), lat, netlat (latencies). Source of all facts: USER; defaults: DEFAULT. */
int zep_topo_synthetic(const char *text, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_preset(const char *name, int n_node, struct zep_topo **topo_out, struct zep_error *err); /* "A", "B", "C": the paper's clusters */
/* topology.yaml, "zeppelin-topology/1.0" */
int zep_topo_load(const char *path, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_parse(const char *name, const char *text, size_t len, struct zep_topo **topo_out, struct zep_error *err);
/* This machine, by the helper zeppelin-detect-local (10 s limit). */
int zep_topo_detect_local(struct zep_topo **topo_out, struct zep_error *err);
/* A Slurm cluster (jobid NULL) or the nodes of an allocation in the order of ranks, by the helper zeppelin-detect-slurm; where the helper is absent, from the text of scontrol.
 * ZEP_EUNAVAIL at once when there is no Slurm here, within 10 s when the controller does not answer. */
int zep_topo_detect_slurm(const char *jobid, struct zep_topo **topo_out, struct zep_error *err);

/* --- outputs --- */
int zep_topo_to_yaml(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* canonical; reading it back and writing again gives the same bytes */
int zep_topo_to_text(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err); /* folded tree for people */
int zep_topo_to_svg(const struct zep_topo *topo, struct zep_buf *out, struct zep_error *err);

const char *zep_source_name(enum zep_source s);

/* --- the planner's view: devices and nodes as plain arrays --- */
struct zep_view {
    int n_node, n_dev, n_nic;
    int *node_dev0;   /* [n_node + 1]: devices of node i are [node_dev0[i], node_dev0[i+1]) */
    int *node_nic0;   /* [n_node + 1] */
    int *node_leaf;   /* [n_node]: nodes with equal number hang on one leaf; -1 unknown */
    int *dev_node;    /* [n_dev] */
    int *dev_nic;     /* [n_dev]: global NIC index; -1: none known */
    double *dev_bw;   /* [n_dev] bytes/s inside the node; 0 unknown */
    double *nic_bw;   /* [n_nic] bytes/s; 0 unknown */
    double net_latency_s, dev_latency_s; /* 0 unknown */
};

/* The first n_node nodes (0: all) with dev_per_node devices each (0: all there are). A node that offers fewer is an error naming it. A node without devices but with known cores
 * offers CPU rank slots (one a core) where dev_per_node asks for them. tp > 1: a view device is a group of tp devices, with bandwidths summed. Owned by the caller. */
int zep_view_new(const struct zep_topo *topo, int n_node, int dev_per_node, int tp, struct zep_view **view_out, struct zep_error *err);
void zep_view_free(struct zep_view *view);

#endif
