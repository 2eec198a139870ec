/* Switches and blocks as Slurm's files say them, checked as Slurm checks them, as a topology. */
#ifndef ZEP_TOPOLOGY_SLURM_RECORDS_H
#define ZEP_TOPOLOGY_SLURM_RECORDS_H

#include "topology/topo.h"

struct zep_slurm_record {
    char *name, *nodes, *children; /* host lists; nodes and children NULL: not said */
    int is_block;
    int line;  /* for messages */
    int file;  /* index in files */
};

struct zep_slurm_records {
    int n, cap;
    struct zep_slurm_record *record;
    int n_file;
    char **file;
    int n_size;
    int *size; /* BlockSizes */
    int size_line;
};

/* file: name for messages. nodes, children may be NULL. Strings are copied. */
int zep_slurm_records_add(struct zep_slurm_records *r, const char *file, int line, int is_block, const char *name, const char *nodes, const char *children, struct zep_error *err);
/* "4,8,16": each the first times a power of two. */
int zep_slurm_records_sizes(struct zep_slurm_records *r, const char *file, int line, const char *text, struct zep_error *err);
/* union_above: Nodes of a switch with children are the union of what is below (scontrol), else both are an error as in Slurm.
 * Errors where Slurm is fatal: no switch, a name twice or over 64 characters, nodes and children on one switch, an undefined child, a cycle. Warnings where it warns. */
int zep_slurm_records_build(const struct zep_slurm_records *r, const char *origin, int union_above, struct zep_topo **topo_out, struct zep_error *err);
void zep_slurm_records_free(struct zep_slurm_records *r);

#endif
