/* Lists of the API, page by page. */
#ifndef ZEP_TOPOLOGY_KUBE_PAGES_H
#define ZEP_TOPOLOGY_KUBE_PAGES_H

#include "topology/kube_http.h"

struct json_t;

/* path: without query; query: "" or "labelSelector=...". Begins again where the list changed meanwhile (410). status_out: of the last answer; what is no 200 is in answer, and items_out is NULL. */
int zep_kube_pages(struct zep_kube_http *h, const char *path, const char *query, struct json_t **items_out, struct zep_buf *answer, long *status_out, struct zep_error *err);

#endif
