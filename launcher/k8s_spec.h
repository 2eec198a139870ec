/* What a job asks of Kubernetes: the texts of k8s.* taken apart and checked. What the API server or the MPI operator would refuse, or take and then ignore, is found here. */
#ifndef ZEP_LAUNCHER_K8S_SPEC_H
#define ZEP_LAUNCHER_K8S_SPEC_H

#include "common/error.h"
#include "common/job.h"

#define ZEP_K8S_ATTEMPTS 99 /* "-r99" must fit into the names that the operator makes */

struct zep_k8s_pair {
    char *key, *value;
};
struct zep_k8s_pairs {
    int n;
    struct zep_k8s_pair *v;
};

enum zep_k8s_kind { ZEP_K8S_NONE = 0, ZEP_K8S_PVC, ZEP_K8S_CONFIGMAP, ZEP_K8S_SECRET, ZEP_K8S_EMPTYDIR, ZEP_K8S_HOST };
struct zep_k8s_volume {
    enum zep_k8s_kind kind;
    char *name; /* of the object; a size (emptydir) or a path (host) */
    char *path; /* where it is mounted */
    int read_only;
};

struct zep_k8s_secret {
    char *variable, *secret, *key;
};

struct zep_k8s_toleration {
    char *key, *value, *effect; /* value NULL: whatever it is; effect NULL: all */
};

struct zep_k8s_spec {
    const struct zep_job *job; /* nodes and devices are numbers */
    int nodes, slots;
    char cpu[32];
    char *ssh_dir;
    int n_volume, n_secret, n_toleration;
    struct zep_k8s_volume *volume;
    struct zep_k8s_secret *secret;
    struct zep_k8s_toleration *toleration;
    struct zep_k8s_pairs node_selector, labels, annotations;
    struct zep_k8s_pair rdma;     /* key NULL: none */
    struct zep_k8s_pair topology; /* key "preferred" or "required", value a label's key; key NULL: none */
};

/* Mistakes are added to m. ZEP_EINVAL: there were some, and no spec. The job must outlive the spec. */
int zep_k8s_spec_new(const struct zep_job *job, struct zep_mistakes *m, struct zep_k8s_spec **spec_out, struct zep_error *err);
void zep_k8s_spec_free(struct zep_k8s_spec *s);

/* Kubernetes' quantities: "500m", "2", "8Gi", "1.5e3". */
int zep_k8s_quantity(const char *text, double *value_out, struct zep_error *err);
/* DNS-1035 label: a lower-case letter, then letters, digits and '-', not '-' at the end; at most max. */
int zep_k8s_check_name(const char *name, int max, struct zep_error *err);
/* "[REGISTRY[:PORT]/]PATH:TAG" or "...@sha256:DIGEST". */
int zep_k8s_check_image(const char *image, struct zep_error *err);

#endif
