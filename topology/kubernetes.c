/* Kubernetes: a NodeList (JSON or YAML), from a file or from the API, with the labels that topology tools and clouds write. */
#include "config.h"
#include "topology/source.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/process.h"
#include "topology/detect.h"
#include "topology/kubernetes_text.h"
#include "topology/topo_internal.h"

#define MAX_LEVELS 16
#define API_LIMIT_S 60.0

/* --- families of labels, most trusted first: those that a topology tool wrote, then clouds, then placeholders --- */

struct family {
    const char *name;
    const char *provider;          /* scheme of providerID of the cloud that writes them, or NULL */
    const char *level[MAX_LEVELS]; /* keys, closest to the node first */
    int closest;                   /* the level that every node should have at least (AWS has a fourth one on some types) */
};

static const struct family families[] = {
    {"topograph", NULL, {"fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-2", "fabric.topograph.run/tier-3", "fabric.topograph.run/tier-4", "fabric.topograph.run/tier-5",
                         "fabric.topograph.run/tier-6", "fabric.topograph.run/tier-7"}, 0},
    {"topograph 0.3", NULL, {"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"}, 0},
    {"topograph 0.1", NULL, {"network.topology.nvidia.com/block", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/datacenter"}, 0},
    {"nebius", "nebius", {"topology.nebius.com/tier-1", "topology.nebius.com/tier-2", "topology.nebius.com/tier-3", "topology.nebius.com/tier-4"}, 0},
    {"soperator", "nebius", {"topologyconf.slurm.nebius.ai/tier-1", "topologyconf.slurm.nebius.ai/tier-2", "topologyconf.slurm.nebius.ai/tier-3", "topologyconf.slurm.nebius.ai/tier-4"}, 0},
    {"aws", "aws", {"topology.k8s.aws/network-node-layer-4", "topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1"}, 1},
    {"gce", "gce", {"cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"} /* -host is the machine itself */, 0},
    {"oci rdma", "oci", {"oci.oraclecloud.com/rdma.local_block_id", "oci.oraclecloud.com/rdma.network_block_id", "oci.oraclecloud.com/rdma.hpc_island_id"}, 0},
    {"oci host", "oci", {"oci.oraclecloud.com/host.rack_id", "oci.oraclecloud.com/host.network_block_id"}, 0},
    {"coreweave", NULL, {"backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/superpod", "backend.coreweave.cloud/fabric"}, 0},
    {"coreweave ib", NULL, {"ib.coreweave.cloud/leafgroup", "ib.coreweave.cloud/superpod", "ib.coreweave.cloud/fabric"}, 0},
    {"topograph 0.0", NULL, {"topology.kubernetes.io/network-level-1", "topology.kubernetes.io/network-level-2", "topology.kubernetes.io/network-level-3", "topology.kubernetes.io/network-level-4"}, 0},
    {"kueue examples", NULL, {"cloud.provider.com/topology-rack", "cloud.provider.com/topology-block"}, 0},
    {"kueue tests", NULL, {"cloud.com/topology-rack", "cloud.com/topology-block"}, 0},
};
#define N_FAMILY (sizeof families / sizeof families[0])

/* NVLink domains over several nodes, the most trusted first. A clique is <ClusterUUID>.<CliqueID>: the domain is what is before the last dot. */
static const char *const block_keys[] = {"nvidia.com/gpu.clique", "accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator", "topology.nebius.com/tier-0", "topologyconf.slurm.nebius.ai/tier-0",
                                         "topology.k8s.aws/ultraserver-id", "ds.coreweave.com/nvlink.domain", NULL};

struct reader {
    const char *name;
    const struct zep_source_request *q;
    enum zep_source source; /* of what nodes say of themselves */
    struct zep_topo *topo;
    struct zep_error *err;
    struct family custom;
    char *custom_text;
    const struct family *family; /* the one that is used */
    const json_t **item;         /* of each node of the topology */
    int first_mig;
    int n_shared, n_mig;         /* nodes that share GPUs, that slice them: told once */
    int n_bad_count;             /* amounts of GPUs that are no numbers */
};

/* --- asking --- */

static const char *text_at(const json_t *j, const char *a, const char *b)
{
    return json_string_value(json_object_get(json_object_get(j, a), b));
}

static const char *label(const json_t *item, const char *key)
{
    const char *v = json_string_value(json_object_get(json_object_get(json_object_get(item, "metadata"), "labels"), key));

    return v && *v ? v : NULL;
}

static int is_true(const json_t *v)
{
    const char *s = json_string_value(v);

    return json_is_true(v) || (s && !strcmp(s, "true"));
}

static int n_levels(const struct family *f, const json_t *item)
{
    int n = 0;

    for (int i = 0; i < MAX_LEVELS && f->level[i]; i++)
        n += label(item, f->level[i]) != NULL;
    return n;
}

/* The first key tells 0.1 from 0.3 of topograph, which share "spine": a family that lacks its closest level in all nodes is weaker. */
static int is_cloud_of(const struct family *f, const json_t *item)
{
    const char *id = text_at(item, "spec", "providerID");

    return f->provider && id && !strncmp(id, f->provider, strlen(f->provider)) && id[strlen(f->provider)] == ':';
}

static int cloud_known(const json_t *item)
{
    const char *id = text_at(item, "spec", "providerID");

    for (size_t i = 0; id && i < N_FAMILY; i++)
        if (is_cloud_of(&families[i], item))
            return 1;
    return 0;
}

/* --- one node --- */

static const json_t *offer(const json_t *item, const char *key)
{
    const json_t *status = json_object_get(item, "status"), *v = json_object_get(json_object_get(status, "allocatable"), key);

    return v ? v : json_object_get(json_object_get(status, "capacity"), key);
}

/* "16"; -1: none, or "980m", "eight" */
static int64_t count_of(const json_t *item, const char *key)
{
    const json_t *v = offer(item, key);
    const char *s = json_string_value(v);

    if (json_is_integer(v))
        return json_integer_value(v);
    return s && isdigit((unsigned char)*s) && s[strspn(s, "0123456789")] == '\0' && strlen(s) < 10 ? strtoll(s, NULL, 10) : -1;
}

/* Kubernetes' quantities: "1056313320Ki", "2Gi", "500M", plain bytes. */
static int64_t bytes_of(const char *s)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"", 1}, {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
    char *end;
    double v = s ? strtod(s, &end) : -1;

    for (size_t i = 0; v > 0 && i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(end, units[i].unit) && v * units[i].factor < 9e18)
            return (int64_t)(v * units[i].factor);
    return 0;
}

static int set_state(struct reader *r, struct zep_node *n, const json_t *item)
{
    const json_t *c, *spec = json_object_get(item, "spec"), *conditions = json_object_get(json_object_get(item, "status"), "conditions");
    const char *ready = NULL, *type = label(item, "node.kubernetes.io/instance-type");
    size_t i;
    char state[64];

    if (type && !(n->model = strdup(type)))
        return zep_error_nomem(r->err, "topology");
    n->state_source = r->source;
    json_array_foreach(conditions, i, c) {
        const char *kind = json_string_value(json_object_get(c, "type"));

        if (kind && !strcmp(kind, "Ready"))
            ready = json_string_value(json_object_get(c, "status"));
    }
    if (!ready && !is_true(json_object_get(spec, "unschedulable")))
        return ZEP_OK;
    snprintf(state, sizeof state, "%s%s", !ready ? "unknown" : !strcmp(ready, "True") ? "ready" : "not ready", is_true(json_object_get(spec, "unschedulable")) ? "+cordoned" : "");
    if (!(n->state = strdup(state)))
        return zep_error_nomem(r->err, "topology");
    return ZEP_OK;
}

static int add_alias(struct reader *r, struct zep_node *n, const char *name)
{
    if (name && name[strspn(name, "0123456789")] && zep_check_hostname(name, NULL) == ZEP_OK && zep_node_add_alias(n, name) < 0)
        return zep_error_nomem(r->err, "topology");
    return ZEP_OK;
}

static int set_aliases(struct reader *r, struct zep_node *n, const json_t *item)
{
    const json_t *a, *list = json_object_get(json_object_get(item, "status"), "addresses");
    const char *id = text_at(item, "spec", "providerID"), *slash = id ? strrchr(id, '/') : NULL;
    size_t i;
    int rc;

    if ((rc = add_alias(r, n, label(item, "kubernetes.io/hostname"))) < 0 || (rc = add_alias(r, n, slash ? slash + 1 : NULL)) < 0)
        return rc;
    json_array_foreach(list, i, a)
        if ((rc = add_alias(r, n, json_string_value(json_object_get(a, "address")))) < 0)
            return rc;
    return ZEP_OK;
}

static int add_gpus(struct reader *r, struct zep_node *n, int64_t count, const char *model, const char *mig, int64_t mem, enum zep_source source)
{
    char key[32];

    for (int64_t i = 0; i < count && i < 1024; i++) {
        struct zep_device *d;

        snprintf(key, sizeof key, "%s%d", mig ? "mig" : "gpu", n->n_device);
        if (!(d = zep_node_add_device(n, key, ZEP_DEV_GPU)) || (model && !(d->model = strdup(model))) || (mig && !(d->mig = strdup(mig))))
            return zep_error_nomem(r->err, "topology");
        d->mem_bytes = mem;
        d->source = source;
    }
    return ZEP_OK;
}

/* Whole GPUs and MIG slices that the node offers. What status says is true; labels are asked where it says nothing. */
static int set_gpus(struct reader *r, struct zep_node *n, const json_t *item)
{
    const json_t *status = json_object_get(item, "status"), *offers = json_object_get(status, "allocatable"), *v;
    const char *product = label(item, "nvidia.com/gpu.product"), *mem = label(item, "nvidia.com/gpu.memory"), *labelled = label(item, "nvidia.com/gpu.count") ? label(item, "nvidia.com/gpu.count") : label(item, "gpu.nvidia.com/count"), *replicas = label(item, "nvidia.com/gpu.replicas");
    const char *at = product ? strstr(product, "-MIG-") : NULL, *key;
    static const char *const offered[] = {"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi"};
    int64_t count = -1, mem_bytes = mem && strlen(mem) < 12 && strtoll(mem, NULL, 10) > 0 ? strtoll(mem, NULL, 10) * 1048576 : 0, n_replica = replicas ? strtoll(replicas, NULL, 10) : 1;
    char model[128] = "";
    enum zep_source source;
    int rc;

    for (size_t i = 0; i < sizeof offered / sizeof offered[0] && count < 0; i++)
        if ((count = count_of(item, offered[i])) < 0 && offer(item, offered[i]) && r->n_bad_count++ == 0)
            zep_topo_warn(r->topo, "node '%s': the amount of %s is no number that is known: it is passed over", n->id, offered[i]);
    if (count <= 0 && count_of(item, "nvidia.com/gpu.shared") > 0)
        count = count_of(item, "nvidia.com/gpu.shared");
    source = count >= 0 ? r->source : ZEP_SRC_LABEL;
    if (count < 0 && labelled)
        count = strtoll(labelled, NULL, 10);
    if (!product && !(product = label(item, "amd.com/gpu.product-name")))
        product = label(item, "cloud.google.com/gke-accelerator") ? label(item, "cloud.google.com/gke-accelerator") : label(item, "gpu.nvidia.com/class");
    if (product)
        snprintf(model, sizeof model, "%.*s", (int)(at ? at - product : (long)strlen(product)), product);
    if (product && strlen(model) > 7 && !strcmp(model + strlen(model) - 7, "-SHARED"))
        model[strlen(model) - 7] = '\0';
    if (n_replica > 1 && count >= n_replica) { /* time slices of a GPU are no devices of their own */
        if (r->n_shared++ == 0)
            zep_topo_warn(r->topo, "node '%s' (and others like it): %" PRId64 " shares of %" PRId64 " GPUs are offered (%" PRId64 " each): the GPUs are counted", n->id, count, count / n_replica, n_replica);
        count /= n_replica;
    }
    if ((rc = add_gpus(r, n, count, *model ? model : NULL, at ? at + 5 : NULL, mem_bytes, source)) < 0)
        return rc;
    if (!json_is_object(offers))
        offers = json_object_get(status, "capacity");
    json_object_foreach((json_t *)offers, key, v)
        if (!strncmp(key, "nvidia.com/mig-", 15) && (rc = add_gpus(r, n, count_of(item, key), *model ? model : NULL, key + 15, 0, r->source)) < 0)
            return rc;
    for (int i = 0; i < n->n_device; i++)
        if (n->device[i].mig) {
            if (r->n_mig++ == 0)
                r->first_mig = r->topo->n_node - 1;
            break;
        }
    return ZEP_OK;
}

static int is_rdma_resource(const char *key)
{
    static const char *const exact[] = {"nvidia.com/hostdev", "nvidia.com/mlnxnics", "vpc.amazonaws.com/efa"};

    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
        if (!strcmp(key, exact[i]))
            return 2; /* each is a NIC of its own */
    return !strncmp(key, "rdma/", 5) || strstr(key, "sriov") != NULL;
}

/* RDMA resources: where one is a NIC, NICs; all of them as text. */
static int set_rdma(struct reader *r, struct zep_node *n, const json_t *item)
{
    const json_t *status = json_object_get(item, "status"), *offers = json_object_get(status, "allocatable"), *v;
    struct zep_buf b = ZEP_BUF_INIT;
    const char *key;
    int rc = ZEP_OK;

    if (!json_is_object(offers))
        offers = json_object_get(status, "capacity");
    json_object_foreach((json_t *)offers, key, v) {
        int kind = is_rdma_resource(key);
        int64_t count = count_of(item, key);

        if (!kind || count < 0)
            continue;
        zep_buf_printf(&b, "%s%s: %" PRId64, b.len ? ", " : "", key, count);
        for (int64_t i = 0; kind == 2 && i < count && i < 256; i++) {
            char name[64];
            struct zep_nic *c;

            snprintf(name, sizeof name, "%.40s%" PRId64, strrchr(key, '/') + 1, i);
            if (!(c = zep_node_add_nic(n, name, name))) {
                rc = zep_error_nomem(r->err, "topology");
                break;
            }
            c->rdma = 1;
            c->source = r->source;
        }
    }
    if (rc == ZEP_OK && b.len)
        rc = zep_buf_steal(&b, &n->resources, r->err);
    zep_buf_free(&b);
    return rc;
}

static int offers_gpus(const json_t *item)
{
    static const char *const prefixes[] = {"nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi"};
    const json_t *status = json_object_get(item, "status"), *v;
    const char *key;

    json_object_foreach(json_is_object(json_object_get(status, "allocatable")) ? json_object_get(status, "allocatable") : json_object_get(status, "capacity"), key, v)
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (!strncmp(key, prefixes[i], strlen(prefixes[i])) && count_of(item, key) > 0)
                return 1;
    return 0;
}

static int is_control_plane(const json_t *item)
{
    const json_t *labels = json_object_get(json_object_get(item, "metadata"), "labels");

    return (json_object_get(labels, "node-role.kubernetes.io/control-plane") || json_object_get(labels, "node-role.kubernetes.io/master")) && !offers_gpus(item);
}

static int add_node(struct reader *r, const json_t *item)
{
    const char *name = text_at(item, "metadata", "name"), *mem = json_string_value(json_object_get(json_object_get(json_object_get(item, "status"), "capacity"), "memory"));
    struct zep_node *n;
    int rc;

    if (!name)
        return zep_error_set(r->err, ZEP_EINVAL, "%s: a node without metadata.name", r->name);
    if (zep_check_hostname(name, r->err) < 0)
        return zep_error_prefix(r->err, "%s: metadata.name", r->name);
    if (!(n = zep_topo_add_node(r->topo, name)))
        return zep_error_nomem(r->err, "topology");
    if ((rc = set_aliases(r, n, item)) < 0 || (rc = set_state(r, n, item)) < 0 || (rc = set_gpus(r, n, item)) < 0 || (rc = set_rdma(r, n, item)) < 0)
        return rc;
    if ((n->mem_bytes = bytes_of(mem)))
        n->mem_source = r->source;
    return ZEP_OK;
}

/* --- which family --- */

static int custom_family(struct reader *r)
{
    char *save = NULL;
    int n = 0;

    r->custom.name = "--label-levels";
    if (!(r->custom_text = strdup(r->q->label_levels)))
        return zep_error_nomem(r->err, "labels");
    for (char *word = strtok_r(r->custom_text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        if (n == MAX_LEVELS)
            return zep_error_set(r->err, ZEP_EINVAL, "--label-levels: more than %d levels", MAX_LEVELS);
        r->custom.level[n++] = word;
    }
    if (!n)
        return zep_error_set(r->err, ZEP_EINVAL, "--label-levels '%s': expected keys of labels, closest to the node first, divided by commas", r->q->label_levels);
    return ZEP_OK;
}

static const char *first_key(const struct family *f)
{
    return f->level[0];
}

/* The family that is of the nodes' cloud, else the most trusted one that has labels; others are named. */
static int choose_family(struct reader *r)
{
    int n_with[N_FAMILY] = {0}, n_first[N_FAMILY] = {0}, n_cloud[N_FAMILY] = {0}, best = -1, cloudless = 0;

    if (r->q->label_levels)
        return custom_family(r) < 0 ? ZEP_EINVAL : (r->family = &r->custom, ZEP_OK);
    for (int i = 0; i < r->topo->n_node; i++) {
        cloudless += !cloud_known(r->item[i]);
        for (size_t k = 0; k < N_FAMILY; k++)
            if (n_levels(&families[k], r->item[i])) {
                n_with[k]++;
                n_first[k] += label(r->item[i], first_key(&families[k])) != NULL;
                n_cloud[k] += is_cloud_of(&families[k], r->item[i]);
            }
    }
    for (size_t k = 0; k < N_FAMILY; k++) {
        int weak = (k == 1 || k == 2) && !n_first[k]; /* "spine" alone could be either */

        if (!n_with[k] || weak)
            continue;
        if (best < 0 || (families[best].provider && families[k].provider && n_cloud[k] > n_cloud[best]))
            best = (int)k;
    }
    if (best < 0)
        return ZEP_OK;
    r->family = &families[best];
    for (size_t k = 0; k < N_FAMILY; k++)
        if ((int)k != best && n_with[k] && !((k == 1 || k == 2) && (best == 1 || best == 2)) &&
            zep_topo_warn(r->topo, "%s: labels of %s on %d node%s are passed over: those of %s are used%s", r->name, families[k].name, n_with[k], n_with[k] == 1 ? "" : "s", families[best].name,
                          n_cloud[best] ? ", as providerID says" : "") < 0)
            return zep_error_nomem(r->err, "topology");
    return ZEP_OK;
}

/* --- fabrics --- */

/* The switch of a node at level i is named by the whole path from outside: the same rack name may exist in two blocks. */
static int path_of(const struct family *f, const json_t *item, int from, struct zep_buf *b, struct zep_error *err)
{
    b->len = 0;
    for (int k = MAX_LEVELS - 1; k >= from; k--) {
        const char *v = f->level[k] ? label(item, f->level[k]) : NULL;

        if (v)
            zep_buf_printf(b, "%s%s", b->len ? "/" : "", v);
    }
    return zep_buf_ok(b, err);
}

static int has_closest(const struct family *f, const json_t *item)
{
    for (int i = 0; i <= f->closest && f->level[i]; i++)
        if (label(item, f->level[i]))
            return 1;
    return 0;
}

static int add_tree(struct reader *r)
{
    struct zep_fabric *f = zep_topo_add_fabric(r->topo, "labels", ZEP_FABRIC_TREE);
    struct zep_switch_index *index = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = f ? zep_switch_index_new(f, &index, r->err) : zep_error_nomem(r->err, "topology"), most = 0, n_partial = 0, partial = -1, n_far = 0, far = -1;

    if (rc == ZEP_OK)
        f->source = ZEP_SRC_LABEL;
    for (int i = 0; i < r->topo->n_node; i++)
        most = n_levels(r->family, r->item[i]) > most ? n_levels(r->family, r->item[i]) : most;
    for (int i = 0; i < r->topo->n_node && rc == ZEP_OK; i++) {
        int below = -1, have = n_levels(r->family, r->item[i]);

        for (int k = 0; k < MAX_LEVELS && r->family->level[k] && rc == ZEP_OK; k++) {
            int sw, known = 0;

            if (!label(r->item[i], r->family->level[k]))
                continue;
            if ((rc = path_of(r->family, r->item[i], k, &b, r->err)) < 0 || (rc = zep_switch_index_get(index, f, b.data, &sw, r->err)) < 0)
                break;
            if (below < 0)
                rc = zep_switch_add_node(&f->sw[sw], i) < 0 ? zep_error_nomem(r->err, "topology") : ZEP_OK;
            for (int p = 0; below >= 0 && p < f->sw[below].n_parent; p++)
                known |= f->sw[below].parent[p] == sw;
            if (below >= 0 && !known && rc == ZEP_OK)
                rc = zep_switch_add_parent(&f->sw[below], sw) < 0 ? zep_error_nomem(r->err, "topology") : ZEP_OK;
            below = sw;
        }
        if (have && !has_closest(r->family, r->item[i]) && n_far++ == 0)
            far = i;
        else if (have && have < most && has_closest(r->family, r->item[i]) && n_partial++ == 0)
            partial = i;
    }
    if (n_far)
        zep_topo_warn(r->topo, "%s: %d node%s, '%s' first, %s no label %s, which says the switch next to it: two nodes of one switch above need not be near each other", r->name, n_far, n_far == 1 ? "" : "s",
                      r->topo->node[far].id, n_far == 1 ? "has" : "have", r->family->level[r->family->closest]);
    if (n_partial)
        zep_topo_warn(r->topo, "%s: %d node%s, '%s' first, lack%s some levels of the labels of %s", r->name, n_partial, n_partial == 1 ? "" : "s", r->topo->node[partial].id, n_partial == 1 ? "s" : "", r->family->name);
    if (rc == ZEP_OK)
        rc = zep_fabric_settle(r->topo, f, 0, r->err);
    zep_switch_index_free(index);
    zep_buf_free(&b);
    return rc;
}

static const char *block_of(const json_t *item, char out[256])
{
    for (int k = 0; block_keys[k]; k++) {
        const char *v = label(item, block_keys[k]), *dot;

        if (!v)
            continue;
        dot = k == 0 ? strrchr(v, '.') : NULL;
        snprintf(out, 256, "%.*s", (int)(dot ? dot - v : (long)strlen(v)), v);
        return out;
    }
    return NULL;
}

/* The cluster UUID of GPUs that are in no NVLink domain over nodes: zeros. */
static int is_no_fabric(const char *uuid)
{
    return uuid[strspn(uuid, "0-")] == '\0';
}

static int add_blocks(struct reader *r)
{
    struct zep_switch_index *index = NULL;
    struct zep_fabric *f = NULL;
    char name[256];
    int rc = ZEP_OK, sw, n_parted = 0, parted = 0;

    for (int i = 0; i < r->topo->n_node && rc == ZEP_OK; i++) {
        const char *clique = label(r->item[i], block_keys[0]), *other;

        if (!block_of(r->item[i], name) || is_no_fabric(name))
            continue;
        if (!f) {
            if (!(f = zep_topo_add_fabric(r->topo, "nvlink", ZEP_FABRIC_BLOCKS)))
                return zep_error_nomem(r->err, "topology");
            f->source = ZEP_SRC_LABEL;
            rc = zep_switch_index_new(f, &index, r->err);
        }
        if (rc == ZEP_OK && (rc = zep_switch_index_get(index, f, name, &sw, r->err)) == ZEP_OK && zep_switch_add_node(&f->sw[sw], i) < 0)
            rc = zep_error_nomem(r->err, "topology");
        if (rc < 0)
            break;
        other = label(r->item[f->sw[sw].node[0]], block_keys[0]);
        if (clique && other && strcmp(clique, other) && n_parted++ == 0)
            parted = i;
    }
    if (n_parted)
        zep_topo_warn(r->topo, "%s: an NVLink domain is parted into several cliques (%s of '%s' is not that of the domain's first node): nodes of different cliques do not reach each other by NVLink", r->name, block_keys[0],
                      r->topo->node[parted].id);
    zep_switch_index_free(index);
    return rc;
}

/* --- the list --- */

static int read_items(struct reader *r, const json_t *items)
{
    const json_t *item;
    size_t i;
    int rc, n_control = 0, n_other = 0;

    json_array_foreach(items, i, item)
        n_other += !is_control_plane(item);
    if (!(r->item = zep_calloc(json_array_size(items) + 1, sizeof *r->item)))
        return zep_error_nomem(r->err, "nodes");
    json_array_foreach(items, i, item) {
        if (n_other && is_control_plane(item)) { /* a cluster of one machine is all of that */
            n_control++;
            continue;
        }
        r->item[r->topo->n_node] = item;
        if ((rc = add_node(r, item)) < 0)
            return rc;
    }
    if (r->n_mig && zep_topo_warn(r->topo, "%s: %d node%s, '%s' first, offer%s MIG slices: ranks on them cannot reach each other as peers", r->name, r->n_mig, r->n_mig == 1 ? "" : "s", r->topo->node[r->first_mig].id,
                                  r->n_mig == 1 ? "s" : "") < 0)
        return zep_error_nomem(r->err, "topology");
    if (n_control && zep_topo_warn(r->topo, "%s: %d node%s of the control plane without GPUs left out", r->name, n_control, n_control == 1 ? "" : "s") < 0)
        return zep_error_nomem(r->err, "topology");
    if (!r->topo->n_node)
        return zep_error_set(r->err, ZEP_EINVAL, "%s: no nodes in the list", r->name);
    if ((rc = zep_topo_drop_shared_aliases(r->topo, r->err)) < 0 || (rc = choose_family(r)) < 0)
        return rc;
    if (r->family && (rc = add_tree(r)) < 0)
        return rc;
    if (!r->family && zep_topo_warn(r->topo, "%s: no node has labels that say where it hangs: switches are not known (--label-levels names other labels)", r->name) < 0)
        return zep_error_nomem(r->err, "topology");
    return add_blocks(r);
}

static int from_list(const struct zep_source_request *q, const char *name, const char *origin, const char *text, size_t len, enum zep_source source, struct zep_topo **topo_out, struct zep_error *err)
{
    struct reader r = {.name = name, .q = q, .source = source, .err = err};
    json_t *items = NULL;
    int rc, no_kind;

    if ((rc = zep_kube_nodes(name, text, len, &items, &no_kind, err)) < 0)
        return rc;
    if (!(r.topo = zep_topo_new("kubernetes", origin)))
        rc = zep_error_nomem(err, "topology");
    else if (no_kind && zep_topo_warn(r.topo, "%s: the list has no kind, which kubectl writes at its end: the text may be cut, nodes may be missing", name) < 0)
        rc = zep_error_nomem(err, "topology");
    else if ((rc = read_items(&r, items)) == ZEP_OK && (rc = zep_topo_validate(r.topo, err)) < 0)
        zep_error_prefix(err, "%s", name);
    free(r.item);
    free(r.custom_text);
    json_decref(items);
    if (rc < 0)
        zep_topo_free(r.topo);
    else
        *topo_out = r.topo;
    return rc;
}

int zep_topo_is_nodelist(const char *text, size_t len)
{
    (void)len;
    return zep_kube_is_nodes(text);
}

int zep_topo_from_nodelist(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    char origin[400];

    snprintf(origin, sizeof origin, "kubernetes nodes %.360s", q->file);
    return from_list(q, q->file, origin, q->text, q->len, ZEP_SRC_CONTROLLER, topo_out, err);
}

/* --- the API --- */

/* First line of what a program said, without control characters. */
static void first_line(const char *text, char out[300])
{
    snprintf(out, 300, "%.*s", (int)strcspn(text, "\n"), text);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' ';
}

static int by_kubectl(struct zep_process_result *p, struct zep_error *err)
{
    char *argv[] = {"kubectl", "get", "nodes", "-o", "json", "--request-timeout=30s", NULL}, said[300];

    if (zep_process_run(argv, API_LIMIT_S, p, err) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "no Kubernetes here: this is no pod, and kubectl is not in PATH");
    if (!p->timed_out && !p->status)
        return ZEP_OK;
    first_line(strstr(p->err, "Error from server") ? strstr(p->err, "Error from server") : strstr(p->err, "error: ") ? strstr(p->err, "error: ") : p->err, said); /* not its log lines */
    zep_process_result_free(p);
    if (p->timed_out)
        return zep_error_set(err, ZEP_EUNAVAIL, "kubectl gave no answer in %.0f s", API_LIMIT_S);
    if (strstr(said, "orbidden"))
        return zep_error_set(err, ZEP_EUNAVAIL, "no permission to read nodes: %s (needed: a ClusterRole with get and list of nodes)", said);
    return zep_error_set(err, ZEP_EUNAVAIL, "kubectl: %s", *said ? said : "failed without a word");
}

/* In a pod, by its service account. */
static int by_helper(struct zep_process_result *p, struct zep_error *err)
{
    char *path = NULL, said[300];
    int rc = zep_detect_helper("zeppelin-detect-kube", &path, err);

    if (rc < 0)
        return rc;
    rc = zep_process_run((char *[]){path, NULL}, API_LIMIT_S, p, err);
    free(path);
    if (rc < 0 || (!p->timed_out && !p->status))
        return rc;
    first_line(p->err, said);
    zep_process_result_free(p);
    return zep_error_set(err, ZEP_EUNAVAIL, "%s", p->timed_out ? "the API gave no answer in 60 s" : *said ? said : "zeppelin-detect-kube failed without a word");
}

int zep_topo_from_kubernetes(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_process_result p;
    struct zep_error why;
    int in_pod = getenv("KUBERNETES_SERVICE_HOST") && *getenv("KUBERNETES_SERVICE_HOST"), rc = in_pod ? by_helper(&p, err) : by_kubectl(&p, err);

    if (rc < 0 && in_pod && err->code == ZEP_ENOENT) /* the helper was not built: kubectl may be there */
        rc = by_kubectl(&p, &why) == ZEP_OK ? ZEP_OK : zep_error_set(err, ZEP_EUNAVAIL, "in a pod, but this build has no zeppelin-detect-kube (libcurl was missing), and %s", why.text);
    if (rc < 0)
        return zep_error_prefix(err, "Kubernetes");
    rc = from_list(q, "the API", in_pod ? "kubernetes API, by the pod's service account" : "kubernetes, by kubectl", p.out, p.out_len, ZEP_SRC_CONTROLLER, topo_out, err);
    zep_process_result_free(&p);
    return rc < 0 ? zep_error_prefix(err, "Kubernetes") : rc;
}
