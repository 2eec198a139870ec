/* What the files of topology/ share. */
#ifndef ZEP_TOPOLOGY_TOPO_INTERNAL_H
#define ZEP_TOPOLOGY_TOPO_INTERNAL_H

#include "common/units.h"
#include "topology/topo.h"

/* The most that a node may have, from whatever source */
#define ZEP_MAX_SOCKETS 4096
#define ZEP_MAX_CORES 65536 /* of a socket */
#define ZEP_MAX_THREADS 4096 /* of a core */
#define ZEP_MAX_NUMA 65536
#define ZEP_MAX_NODE_MIB ((int64_t)1 << 40)

/* "1g.10gb", "3g.20gb", "1g.10gb.me" */
int zep_device_set_type(struct zep_device *d, const char *type);
/* Whether two names can be of one model of GPU: "h100" and "NVIDIA-H100-80GB-HBM3", not "a100". Names that have no number of a model say nothing. */
int zep_same_model(const char *a, const char *b);
/* Forgets warnings about sources that are not among the others ("... not among the N of ...") and shortens the origin to the name given. */
void zep_topo_clear_notes(struct zep_topo *topo, const char *origin);
/* GPUs by ascending PCI address, as nvidia-smi numbers them; nothing where not all devices have one. */
int zep_node_sort_devices(struct zep_node *n);
/* Frees what they own. */
void zep_node_clear(struct zep_node *n);
void zep_device_clear(struct zep_device *d);
void zep_nic_clear(struct zep_nic *c);

/* 0: no such name. */
int zep_source_from_name(const char *name, enum zep_source *out);

/* Drops aliases that are names of several nodes: they name none (one address for all slurmd of a machine, instance "0" of each scale set). */
int zep_topo_drop_shared_aliases(struct zep_topo *topo, struct zep_error *err);
/* PCI addresses are written with four or eight digits of domain, in either case. Equal texts are equal, too. */
int zep_same_pci(const char *a, const char *b);
/* "0000:17:00.0", also with a port ("0000:17:00.0/2") */
int zep_is_pci(const char *key);

/* view_links.c: up and nic_up of a view that is complete otherwise. */
int zep_view_add_links(struct zep_view *view, const struct zep_topo *topo, struct zep_error *err);
/* Levels from the leaves up; a cycle is an error. */
int zep_fabric_set_levels(struct zep_fabric *f, struct zep_error *err);

/* Names of nodes (ids and aliases) by hash, for many look-ups. */
struct zep_names;
int zep_names_new(const struct zep_topo *topo, struct zep_names **out, struct zep_error *err);
int zep_names_find(const struct zep_names *names, const char *word); /* node, -1 none */
/* Finds a node or adds it. */
int zep_names_get(struct zep_names *names, struct zep_topo *topo, const char *word, int *out, struct zep_error *err);
void zep_names_free(struct zep_names *names);

/* Nodes by their short host names: "n2.site.org" is "n2" where no other is. */
struct zep_shorts;
int zep_shorts_new(const struct zep_topo *topo, struct zep_shorts **out, struct zep_error *err);
/* The node whose short name is the word, or whose name is the word's short one; -1: none, or several. An address has no short form. */
int zep_shorts_find(const struct zep_shorts *shorts, const struct zep_names *names, const char *word);
void zep_shorts_free(struct zep_shorts *shorts);

/* Switches of one fabric by hash; the fabric must stay where it is. */
struct zep_switch_index;
int zep_switch_index_new(const struct zep_fabric *f, struct zep_switch_index **out, struct zep_error *err);
int zep_switch_index_find(const struct zep_switch_index *x, const char *name); /* -1 none */
/* Finds a switch or adds it. */
int zep_switch_index_get(struct zep_switch_index *x, struct zep_fabric *f, const char *name, int *out, struct zep_error *err);
void zep_switch_index_free(struct zep_switch_index *x);

/* The number of a fact with its unit. */
enum zep_fact_unit { ZEP_UNIT_BANDWIDTH = 0, ZEP_UNIT_TIME, ZEP_UNIT_FACTOR };
char *zep_fact_text(enum zep_fact_unit unit, double value, char buf[ZEP_UNIT_BUF]);
int zep_node_is_slow(const struct zep_node *node); /* it, a device or a NIC of it has a speed below 1 */
enum zep_source zep_node_speed_source(const struct zep_node *node); /* of its speeds, those of its devices and NICs: the strongest */
#define ZEP_SPEED_MIN 1e-3 /* of speeds */
#define ZEP_SPEED_MAX 1e3

/* Equal for nodes that are alike inside: cores, devices, NICs; names, state and UUIDs are left out. */
uint64_t zep_node_digest(const struct zep_node *n);
/* What a NIC is for its node: taken by a device, near none (storage, management), down. */
int zep_nic_is_used(const struct zep_node *n, int nic);
/* Names in natural order: numbers inside of them by value ("n2" before "n10"). */
void zep_sort_names(const char **name, int n);
int zep_compare_names(const char *a, const char *b);

extern const char *const zep_dev_kind_names[];  /* by enum, NULL-terminated */
extern const char *const zep_distance_names[];
extern const char *const zep_fabric_kind_names[];

#endif
