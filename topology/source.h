/* Where topologies come from: one struct of functions for each kind of source, in one registry. */
#ifndef ZEP_TOPOLOGY_SOURCE_H
#define ZEP_TOPOLOGY_SOURCE_H

#include "topology/topo.h"

struct zep_source_request {
    const char *arg;             /* what follows the kind ("slurm:job=7" -> "job=7"), or NULL */
    const char *file, *text;     /* for kinds that read a file: its name and its content, NUL-terminated */
    size_t len;
    const char *label_levels;    /* keys of Kubernetes labels, closest to the node first, divided by commas; or NULL */
    const struct zep_topo *base; /* what the sources before this one said, or NULL */
    const char *hosts;           /* for the probe: a host list or "@FILE", NULL: the allocation */
};

struct zep_topo_source {
    const char *name;
    const char *arg;  /* as help shows it: "FILE", "[PARTITION]", NULL: none */
    const char *what; /* one line */
    /* For formats of files: whether the text is of this format. NULL: not a file. */
    int (*recognise)(const char *text, size_t len);
    int (*load)(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
    const char *not_built; /* what is missing in this build, or NULL */
};

extern const struct zep_topo_source *const zep_topo_sources[]; /* NULL-terminated; in the order in which formats are tried */

typedef void (*zep_note_fn)(void *arg, const char *text);
struct zep_topo_want {
    int n_from;
    const char *const *from; /* "KIND[:ARG]" or a file; none: the allocation that we run in, else Slurm, else a pod's cluster, else this machine */
    const char *label_levels;
    const char *hosts;
    zep_note_fn note;        /* told what was recognised and chosen; may be NULL */
    void *note_arg;
};
/* All sources merged (zep_topo_merge), NICs assigned, validated. The first source gives the name and the order of nodes. */
int zep_topo_from(const struct zep_topo_want *want, struct zep_topo **topo_out, struct zep_error *err);
/* A tree in which a node hangs on several leaves, one for each NIC, is of rails: set kind accordingly. Warns of nodes on no switch, on two leaves, of separate trees.
 * joined: cables that are no part of the tree connect its parts, so that separate trees are none. */
int zep_fabric_settle(struct zep_topo *topo, struct zep_fabric *fabric, int joined, struct zep_error *err);

/* The text of one source after another (names are for messages). */
int zep_topo_from_slurm_conf(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_slurm_yaml(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_scontrol(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_gres_conf(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_slurm_nodes(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_nodelist(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_kubernetes(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_ibnetdiscover(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_topo_m(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_nccl_xml(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_hwloc(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_from_probe(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);
int zep_topo_is_slurm_conf(const char *text, size_t len);
int zep_topo_is_slurm_yaml(const char *text, size_t len);
int zep_topo_is_scontrol(const char *text, size_t len);
int zep_topo_is_gres_conf(const char *text, size_t len);
int zep_topo_is_slurm_nodes(const char *text, size_t len);
int zep_topo_is_nodelist(const char *text, size_t len);
int zep_topo_is_ibnetdiscover(const char *text, size_t len);
int zep_topo_is_topo_m(const char *text, size_t len);
int zep_topo_is_nccl_xml(const char *text, size_t len);
int zep_topo_is_hwloc(const char *text, size_t len);

#endif
