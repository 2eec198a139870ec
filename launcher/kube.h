/* The Kubernetes API by a program that speaks kubectl's language: outside of a pod the user's own kubectl (which brings credentials and proxies), in a pod the helper zeppelin-kube (libcurl and
 * the pod's service account). By argument vectors, never through a shell; the API's own words are in the errors. */
#ifndef ZEP_LAUNCHER_KUBE_H
#define ZEP_LAUNCHER_KUBE_H

#include "common/error.h"

#define ZEP_KUBE_MPIJOBS "mpijobs.v2beta1.kubeflow.org"

struct json_t;
struct zep_kube {
    char *program;            /* a path, or "kubectl" */
    char context[256], ns[128]; /* "" the default one */
};

/* ZEP_EUNAVAIL: neither. */
int zep_kube_open(const char *context, const char *ns, struct zep_kube *out, struct zep_error *err);
void zep_kube_close(struct zep_kube *k);

/* file: a JSON document. ZEP_EREFUSED: an object of that name is there. dry_run: the API checks everything and keeps nothing. */
int zep_kube_create(const struct zep_kube *k, const char *file, int dry_run, struct json_t **out, struct zep_error *err);
/* ZEP_ENOENT: there is none. */
int zep_kube_get(const struct zep_kube *k, const char *kind, const char *name, struct json_t **out, struct zep_error *err);
/* selector: of labels, NULL all. out: the list's items. */
int zep_kube_list(const struct zep_kube *k, const char *kind, const char *selector, struct json_t **out, struct zep_error *err);
/* Returns before it is gone; that it is gone already is no error. */
int zep_kube_delete(const struct zep_kube *k, const char *kind, const char *name, struct zep_error *err);
/* Pods of a selector, at once. */
int zep_kube_kill_pods(const struct zep_kube *k, const char *selector, struct zep_error *err);
/* Starts the copying of a container's log to fd; follow: until it ends. The process's id, or negative. */
int zep_kube_logs_start(const struct zep_kube *k, const char *pod, const char *container, int follow, int fd, struct zep_error *err);
/* Waits for that process, at most limit_s (0: for ever): then it is ended. */
int zep_kube_logs_wait(int pid, double limit_s, struct zep_error *err);

#endif
