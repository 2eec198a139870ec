/* "zeppelin-detect/1.0": what the helper programs print, one topology as JSON. */
#ifndef ZEP_TOPOLOGY_DETECT_H
#define ZEP_TOPOLOGY_DETECT_H

#include "topology/topo.h"

int zep_detect_to_json(const struct zep_topo *topo, char **text_out, struct zep_error *err); /* free() */
int zep_detect_from_json(const char *name, const char *text, size_t len, struct zep_topo **topo_out, struct zep_error *err);
/* Where a helper is; ZEP_ENOENT: it was not built. *path_out goes to free(). */
int zep_detect_helper(const char *helper, char **path_out, struct zep_error *err);
/* Runs a helper within time_s seconds and reads what it prints. Its exit, crash, silence or absence is an ordinary error (ZEP_EUNAVAIL); absent_out is set where it was not built or lacks a library. */
int zep_detect_run(const char *helper, const char *const *args, double time_s, int *absent_out, struct zep_topo **topo_out, struct zep_error *err);

/* Slurm's words as a topology, for the helper and for the text of scontrol alike. */
struct zep_slurm_node {
    const char *name, *hostname, *addr, *state, *gres;
    int sockets, cores, threads;
    int64_t mem_mib;
};
int zep_slurm_add_node(struct zep_topo *topo, const struct zep_slurm_node *n, struct zep_error *err);
/* After the nodes: drops names that several nodes share (slurmd on one machine) and makes the index that switches need (zep_names_free). */
struct zep_names;
int zep_slurm_index(struct zep_topo *topo, struct zep_names **names_out, struct zep_error *err);
/* nodes: host list of what hangs directly on the switch ("" or NULL none; not used where there are children: then it is the union of what is below); children: host list of switches. */
int zep_slurm_add_switch(struct zep_topo *topo, const struct zep_names *names, const char *name, const char *nodes, const char *children, struct zep_error *err);
int zep_slurm_add_block(struct zep_topo *topo, const struct zep_names *names, const char *name, const char *nodes, struct zep_error *err);
/* Drops switches that lead to no node, warns of nodes on no switch or on two, validates. */
int zep_slurm_finish(struct zep_topo *topo, struct zep_error *err);
struct zep_hostlist;
/* The text of scontrol, which is changed. only: NULL, or the nodes wanted, in the order wanted. */
int zep_slurm_parse_nodes(struct zep_topo *topo, char *text, const struct zep_hostlist *only, struct zep_error *err);
/* Where a node hangs by SLURM_TOPOLOGY_ADDR ("spine0.leaf0.zep0") and its pattern ("switch.switch.node"). Names with dots make it ambiguous: then the path as a whole names one switch. */
int zep_slurm_add_addr(struct zep_topo *topo, int node, const char *addr, const char *pattern, struct zep_error *err);
int zep_slurm_parse_switches(struct zep_topo *topo, const struct zep_names *names, char *text, struct zep_error *err);
/* Whether there are signs of a Slurm configuration: 1, or 0 where only asking for a moment can tell. */
int zep_slurm_hints(void);

#endif
