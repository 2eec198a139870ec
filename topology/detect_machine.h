/* What the files of zeppelin-detect-local share. */
#ifndef ZEP_TOPOLOGY_DETECT_MACHINE_H
#define ZEP_TOPOLOGY_DETECT_MACHINE_H

#include "topology/topo.h"

#define ZEP_MAX_PCI 256 /* devices, NICs of a node */

/* The kernel's files below a root: "" for this machine, a folder for a recorded one, NULL: none can be read. */
struct zep_sysfs {
    const char *root;
};
int zep_sysfs_word(const struct zep_sysfs *s, char out[128], const char *fmt, ...) ZEP_PRINTF(3, 4);   /* first line of a file; 0 absent */
int zep_sysfs_exists(const struct zep_sysfs *s, const char *fmt, ...) ZEP_PRINTF(2, 3);
int zep_sysfs_link(const struct zep_sysfs *s, char out[128], const char *fmt, ...) ZEP_PRINTF(3, 4);   /* last part of where a link points; 0 absent */
/* Facts of the PCI function: width of its link now, and what it could be (0 unknown). */
void zep_sysfs_pcie(const struct zep_sysfs *s, const char *pci, int *width_out, int *max_out);
/* Port `port` of a verbs device, or a network interface (port 0): rate, state, link layer, bond. Returns negative when out of memory. */
int zep_sysfs_port(const struct zep_sysfs *s, const char *name, int port, struct zep_nic *c);
int zep_sysfs_n_port(const struct zep_sysfs *s, const char *name); /* ports of a verbs device, 0 unknown */
int zep_sysfs_bond(const struct zep_sysfs *s, const char *net, struct zep_nic *c);
/* /proc/driver/nvidia: model, UUID and MIG slices of the GPU with that PCI address. Slices are added to the node behind it; *n_slice_out their number. */
int zep_sysfs_nvidia(const struct zep_sysfs *s, struct zep_node *node, int dev, int *n_slice_out);

/* NVML, opened at run time. lib: NULL the system's. What it knows of GPUs (matched by PCI address, added where new): UUID, model, memory, NVLinks, MIG slices; the NVLink domain of the node becomes a fabric of blocks.
 * 0: none here. Negative: out of memory. */
int zep_nvml_read(struct zep_topo *topo, struct zep_node *node, const char *lib);

/* Takes device `at` out of the node. */
void zep_node_drop_device(struct zep_node *node, int at);

#endif
