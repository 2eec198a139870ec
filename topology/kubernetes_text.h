/* Kubernetes objects out of what kubectl printed. */
#ifndef ZEP_TOPOLOGY_KUBERNETES_TEXT_H
#define ZEP_TOPOLOGY_KUBERNETES_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "common/error.h"

/* The nodes in a text of JSON or YAML: a List, a Node, an array, several of them one after another, behind a prompt. All scalars of YAML are texts. Is not empty; the caller owns it.
 * no_kind: an object with items that says no kind, which kubectl writes at the end: the text may be cut. */
int zep_kube_nodes(const char *name, const char *text, size_t len, json_t **nodes_out, int *no_kind, struct zep_error *err);
int zep_kube_is_nodes(const char *text);

#endif
