#include "config.h"
#include "launcher/k8s_topo.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "topology/source.h"

#define API_LIMIT_S 60.0

/* --- by labels --- */

static const json_t *find_node(const json_t *items, const char *name)
{
    size_t i;
    const json_t *item;

    json_array_foreach((json_t *)items, i, item) {
        const char *have = json_string_value(json_object_get(json_object_get(item, "metadata"), "name"));

        if (have && !strcmp(have, name))
            return item;
    }
    return NULL;
}

/* A pod as the node it is on: its labels, but for those that name the node (two pods may share it), and what the pod itself has of it. */
static json_t *pod_as_node(const struct zep_job *job, const struct zep_worker *w, const json_t *node)
{
    json_t *labels = json_deep_copy(json_object_get(json_object_get(node, "metadata"), "labels")), *offers = json_object(), *item;
    char number[32];

    if (!labels)
        labels = json_object();
    json_object_del(labels, "kubernetes.io/hostname");
    json_object_del(labels, "nvidia.com/gpu.count"); /* the pod's share of the node counts */
    json_object_del(labels, "nvidia.com/gpu.replicas");
    snprintf(number, sizeof number, "%" PRId64, job->cluster.gpus_per_node);
    if (job->cluster.gpus_per_node)
        json_object_set_new(offers, "nvidia.com/gpu", json_string(number));
    item = json_pack("{s:s, s:{s:s, s:o}, s:{s:o, s:[{s:s, s:s}, {s:s, s:s}]}}", "kind", "Node", "metadata", "name", w->name, "labels", labels, "status", "allocatable", offers, "addresses", "type", "Hostname",
                     "address", w->host, "type", "InternalDNS", "address", w->name);
    if (json_object_get(json_object_get(node, "spec"), "providerID")) { /* its scheme says whose labels count; its end names the machine */
        char provider[64];

        snprintf(provider, sizeof provider, "%.40s", json_string_value(json_object_get(json_object_get(node, "spec"), "providerID")));
        provider[strcspn(provider, ":") + (strchr(provider, ':') != NULL)] = '\0';
        json_object_set_new(item, "spec", json_pack("{s:s}", "providerID", provider));
    }
    return item;
}

static int read_nodes(json_t **items_out, struct zep_error *err)
{
    struct zep_process_result p;
    char *helper = NULL;
    json_t *j = NULL;
    int rc;

    if (zep_fs_helper("zeppelin-detect-kube", &helper, err) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "this build has no zeppelin-detect-kube (libcurl was missing)");
    rc = zep_process_run((char *[]){helper, NULL}, API_LIMIT_S, &p, err);
    free(helper);
    if (rc < 0)
        return rc;
    if (p.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "the API gave no answer in %.0f s", API_LIMIT_S);
    else if (p.status)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "%.*s", (int)strcspn(p.err, "\n"), p.err);
    else if (!(j = json_loadb(p.out, p.out_len, 0, NULL)) || !json_is_array(json_object_get(j, "items")))
        rc = zep_error_set(err, ZEP_EIO, "what the API answered is no list of nodes");
    else
        *items_out = json_incref(json_object_get(j, "items"));
    json_decref(j);
    zep_process_result_free(&p);
    return rc;
}

static int by_labels(const struct zep_job *job, const struct zep_workers *w, struct zep_topo **out, struct zep_error *err)
{
    json_t *nodes = NULL, *pods = json_array(), *list;
    char *text = NULL;
    int rc = read_nodes(&nodes, err);

    for (int i = 0; i < w->n && rc == ZEP_OK; i++) {
        const json_t *node = *w->v[i].node ? find_node(nodes, w->v[i].node) : NULL;

        if (!*w->v[i].node)
            rc = zep_error_set(err, ZEP_EUNAVAIL, "worker %s does not say which node it is on", w->v[i].name);
        else if (!node)
            rc = zep_error_set(err, ZEP_EUNAVAIL, "the API knows no node '%s', on which worker %s is", w->v[i].node, w->v[i].name);
        else
            json_array_append_new(pods, pod_as_node(job, &w->v[i], node));
    }
    list = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "NodeList", "items", pods);
    if (rc == ZEP_OK && (!list || !(text = json_dumps(list, JSON_COMPACT))))
        rc = zep_error_nomem(err, "nodes");
    if (rc == ZEP_OK) {
        struct zep_source_request q = {.file = "the nodes' labels", .text = text, .len = strlen(text)};

        rc = zep_topo_from_nodelist(&q, out, err);
    }
    if (rc == ZEP_OK && !(*out)->n_fabric) {
        zep_topo_free(*out);
        rc = zep_error_set(err, ZEP_EUNAVAIL, "the nodes have no labels that tell of switches");
    }
    free(text);
    json_decref(list);
    json_decref(pods);
    json_decref(nodes);
    return rc;
}

/* --- by the probe, or by what the workers said --- */

static int by_probe(const char *hostfile, struct zep_topo **out, struct zep_error *err)
{
    struct zep_source_request q = {.hosts = hostfile};

    return zep_topo_from_probe(&q, out, err);
}

static int by_facts(const struct zep_workers *w, struct zep_topo **out, struct zep_error *err)
{
    struct zep_topo *t = zep_topo_new("workers", "what the workers say of themselves");

    if (!t)
        return zep_error_nomem(err, "topology");
    for (int i = 0; i < w->n; i++)
        if (!zep_topo_add_node(t, w->v[i].name)) {
            zep_topo_free(t);
            return zep_error_nomem(err, "topology");
        }
    *out = t;
    return ZEP_OK;
}

/* Every worker is a node that can take the ranks it was made for: cores where a source said nothing, names by which ranks and host file know it. */
static int complete(const struct zep_workers *w, struct zep_topo *t, struct zep_error *err)
{
    for (int i = 0; i < w->n; i++) {
        int at = zep_topo_find_node(t, w->v[i].name);
        struct zep_node *n;

        if (at < 0)
            at = zep_topo_find_node(t, w->v[i].host);
        if (at < 0)
            return zep_error_set(err, ZEP_EUNAVAIL, "worker %s is missing in the topology", w->v[i].name);
        n = &t->node[at];
        if (!n->n_device && (n->sockets == 0 || n->cores_per_socket == 0)) {
            n->sockets = n->threads_per_core = 1;
            n->cores_per_socket = w->v[i].cores > 0 ? w->v[i].cores : w->v[i].slots;
            n->cpu_source = ZEP_SRC_NODE;
        }
        if (!n->n_device && n->sockets * n->cores_per_socket < w->v[i].slots) { /* a choice of the job's, not of the machine's */
            zep_log(ZEP_LOG_WARN, "worker %s has %d cores for %d ranks: they take turns", w->v[i].name, n->sockets * n->cores_per_socket, w->v[i].slots);
            n->sockets = 1;
            n->cores_per_socket = w->v[i].slots;
        }
        if (strcmp(n->id, w->v[i].host) && zep_topo_find_node(t, w->v[i].host) < 0 && zep_node_add_alias(n, w->v[i].host) < 0)
            return zep_error_nomem(err, "topology");
    }
    return zep_topo_validate(t, err);
}

int zep_k8s_topo(const struct zep_job *job, const struct zep_workers *w, struct zep_topo **out, struct zep_error *err)
{
    struct zep_topo *t = NULL;
    struct zep_buf hostfile = ZEP_BUF_INIT;
    struct zep_error why;
    int rc = by_labels(job, w, &t, &why);

    if (rc == ZEP_OK) {
        zep_log(ZEP_LOG_INFO, "ranks are ordered by the labels of the nodes");
    } else {
        zep_log(ZEP_LOG_INFO, "labels of nodes are not used: %s", why.text);
        zep_buf_printf(&hostfile, "@%s/hostfile", w->dir);
        if ((rc = zep_buf_ok(&hostfile, err)) == ZEP_OK && (rc = by_probe(hostfile.data, &t, &why)) < 0) {
            zep_log(ZEP_LOG_INFO, "the probe failed, the workers count as equal: %s", why.text);
            rc = by_facts(w, &t, err);
        }
    }
    zep_buf_free(&hostfile);
    if (rc == ZEP_OK && (rc = complete(w, t, err)) < 0)
        zep_topo_free(t);
    if (rc == ZEP_OK)
        *out = t;
    return rc;
}
