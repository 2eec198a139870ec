/* The small languages of Kubernetes: names, keys and values of labels, quantities, images. Errors have the text only: `'VALUE': expected ...`. */
#ifndef ZEP_LAUNCHER_K8S_WORDS_H
#define ZEP_LAUNCHER_K8S_WORDS_H

#include "common/error.h"

/* DNS-1123 subdomain: names of most objects. */
int zep_k8s_check_object(const char *name, struct zep_error *err);
/* DNS-1123 label: names of namespaces. */
int zep_k8s_check_label(const char *name, struct zep_error *err);
/* "[PREFIX/]NAME": keys of labels and annotations, names of resources. */
int zep_k8s_check_key(const char *key, struct zep_error *err);
int zep_k8s_check_value(const char *value, struct zep_error *err); /* of a label */
/* A key within a Secret or ConfigMap. */
int zep_k8s_check_data_key(const char *key, struct zep_error *err);
/* A name of an environment variable. */
int zep_k8s_check_variable(const char *name, struct zep_error *err);
/* An absolute path that can be mounted: no ':', no "..". */
int zep_k8s_check_path(const char *path, struct zep_error *err);

#endif
