/* The Kubernetes API from inside a pod: by libcurl and the pod's service account. Linked into helper programs only. */
#ifndef ZEP_TOPOLOGY_KUBE_HTTP_H
#define ZEP_TOPOLOGY_KUBE_HTTP_H

#include "common/buf.h"
#include "common/error.h"

struct zep_kube_http;

/* By KUBERNETES_SERVICE_HOST and _PORT, and the account's folder (ZEPPELIN_SERVICEACCOUNT, or where the kubelet mounts it). */
int zep_kube_http_open(struct zep_kube_http **out, struct zep_error *err);
void zep_kube_http_close(struct zep_kube_http *h);
/* The account's namespace, "default" where it says none. */
const char *zep_kube_http_namespace(const struct zep_kube_http *h);
/* For a query; free(). */
char *zep_kube_http_escape(struct zep_kube_http *h, const char *text);
/* One request with its answer, tried again where that helps: no connection, 429, 500, 503, 504 (as long as Retry-After says), and 401 once, with the token read again, which rotates.
 * body: JSON or NULL. ZEP_OK: there is an answer, whatever its status. */
int zep_kube_http_request(struct zep_kube_http *h, const char *method, const char *path, const char *body, struct zep_buf *answer, long *status_out, struct zep_error *err);
/* A GET whose answer goes to fd as it comes, without a time limit of its own; what is no 200 goes to answer. A stream that is cut is ZEP_EPEER, after what came of it. */
int zep_kube_http_stream(struct zep_kube_http *h, const char *path, int fd, struct zep_buf *answer, long *status_out, struct zep_error *err);
/* What a Status object says, one line each. */
void zep_kube_http_status(const struct zep_buf *answer, char message[400], char reason[64]);

#endif
