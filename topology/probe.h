/* What the nodes of a probe sent. */
#ifndef ZEP_TOPOLOGY_PROBE_H
#define ZEP_TOPOLOGY_PROBE_H

#include "topology/topo.h"

/* text: the stream on which zeppelin-detect-local --probe of all nodes printed, mixed with whatever. Nodes in natural order of their names; those that differ from their siblings are named in warnings. */
int zep_probe_collect(const char *text, size_t len, const char *origin, struct zep_topo **topo_out, struct zep_error *err);

#endif
