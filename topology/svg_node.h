/* The inside of one node as a part of a picture. */
#ifndef ZEP_TOPOLOGY_SVG_NODE_H
#define ZEP_TOPOLOGY_SVG_NODE_H

#include "topology/topo.h"

/* Draws at *y_io, which moves below; *width_io grows where that is needed. count: nodes of this kind. */
int zep_svg_node(struct zep_buf *b, const struct zep_node *n, int count, double *y_io, double *width_io, struct zep_error *err);

#endif
