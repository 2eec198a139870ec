/* What the files of topology/ share. */
#ifndef ZEP_TOPOLOGY_TOPO_INTERNAL_H
#define ZEP_TOPOLOGY_TOPO_INTERNAL_H

#include "topology/topo.h"

/* 0: no such name. */
int zep_source_from_name(const char *name, enum zep_source *out);

/* Names of nodes (ids and aliases) by hash, for many look-ups. */
struct zep_names;
int zep_names_new(const struct zep_topo *topo, struct zep_names **out, struct zep_error *err);
int zep_names_find(const struct zep_names *names, const char *word); /* node, -1 none */
void zep_names_free(struct zep_names *names);

extern const char *const zep_dev_kind_names[];  /* by enum, NULL-terminated */
extern const char *const zep_distance_names[];
extern const char *const zep_fabric_kind_names[];

#endif
