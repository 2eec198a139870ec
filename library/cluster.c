#include "config.h"
#include "library/library_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "topology/source.h"

const char *zep_version(void)
{
    return PACKAGE_VERSION;
}

int zep_version_number(void)
{
    return ZEP_VERSION_NUMBER;
}

struct zep_error *zep_error_new(void)
{
    return zep_calloc(1, sizeof(struct zep_error));
}

void zep_error_free(struct zep_error *err)
{
    free(err);
}

const char *zep_error_text(const struct zep_error *err)
{
    return err ? err->text : "";
}

void zep_free(void *text)
{
    free(text);
}

int library_text(int rc, struct zep_buf *b, struct zep_error *err, char **text_out)
{
    if (rc == ZEP_OK)
        rc = zep_buf_steal(b, text_out, err);
    zep_buf_free(b);
    return rc;
}

const char *zep_source_kind(int i)
{
    for (int k = 0; k <= i; k++)
        if (!zep_topo_sources[k])
            return NULL;
    return i < 0 ? NULL : zep_topo_sources[i]->name;
}

/* Takes the topology, also where it fails. */
static int view(struct zep_topo *topo, int n_node, int dev_per_node, int tp, struct zep_error *err, struct zep_cluster **cluster_out)
{
    struct zep_cluster *c = zep_calloc(1, sizeof *c);
    int rc;

    if (!c) {
        zep_topo_free(topo);
        return zep_error_nomem(err, "cluster");
    }
    c->topo = topo;
    c->tp = tp;
    if (n_node < 0 || dev_per_node < 0 || tp < 1)
        rc = zep_error_set(err, ZEP_EINVAL, "%d nodes, %d devices a node, tp '%d': expected numbers from 0 (all), tp from 1", n_node, dev_per_node, tp);
    else
        rc = zep_view_new(topo, n_node ? n_node : topo->n_node, dev_per_node, tp, &c->view, err);
    if (rc < 0)
        zep_cluster_free(c);
    else
        *cluster_out = c;
    return rc;
}

int zep_cluster_open(const char *const *from, int n_from, int n_node, int dev_per_node, int tp, struct zep_error *err, struct zep_cluster **cluster_out)
{
    struct zep_topo_want want = {.n_from = n_from, .from = from};
    struct zep_topo *topo;
    int rc;

    if (n_from < 0 || (n_from && !from))
        return zep_error_set(err, ZEP_EINVAL, "'%d' sources: expected a list of them", n_from);
    if ((rc = zep_topo_from(&want, &topo, err)) < 0)
        return rc;
    return view(topo, n_node, dev_per_node, tp, err, cluster_out);
}

int zep_cluster_read(const char *name, const char *text, int n_node, int dev_per_node, int tp, struct zep_error *err, struct zep_cluster **cluster_out)
{
    struct zep_topo *topo;
    int rc;

    if ((rc = zep_topo_parse(name, text, strlen(text), &topo, err)) < 0)
        return rc;
    if ((rc = zep_topo_validate(topo, err)) < 0 || (rc = zep_topo_assign_nics(topo, err)) < 0) {
        zep_topo_free(topo);
        return zep_error_prefix(err, "%s", name);
    }
    return view(topo, n_node, dev_per_node, tp, err, cluster_out);
}

void zep_cluster_free(struct zep_cluster *c)
{
    if (!c)
        return;
    zep_view_free(c->view);
    zep_topo_free(c->topo);
    free(c);
}

int zep_cluster_nodes(const struct zep_cluster *c)
{
    return c->view->n_node;
}

int zep_cluster_devices(const struct zep_cluster *c)
{
    return c->view->n_dev;
}

int zep_cluster_device_node(const struct zep_cluster *c, int device)
{
    return device < 0 || device >= c->view->n_dev ? -1 : c->view->dev_node[device];
}

const char *zep_cluster_node_name(const struct zep_cluster *c, int node)
{
    return node < 0 || node >= c->view->n_node ? NULL : c->topo->node[node].id;
}

int zep_cluster_text(const struct zep_cluster *c, struct zep_error *err, char **text_out)
{
    struct zep_buf b = ZEP_BUF_INIT;

    return library_text(zep_topo_to_text(c->topo, &b, err), &b, err, text_out);
}

int zep_cluster_yaml(const struct zep_cluster *c, struct zep_error *err, char **text_out)
{
    struct zep_buf b = ZEP_BUF_INIT;

    return library_text(zep_topo_to_yaml(c->topo, &b, err), &b, err, text_out);
}

int zep_cluster_json(const struct zep_cluster *c, struct zep_error *err, char **text_out)
{
    struct zep_buf b = ZEP_BUF_INIT;

    return library_text(zep_topo_to_json(c->topo, &b, err), &b, err, text_out);
}
