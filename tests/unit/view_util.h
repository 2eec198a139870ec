/* Planner views made by hand, so that tests of the planner need no topology source. */
#ifndef ZEP_TESTS_VIEW_UTIL_H
#define ZEP_TESTS_VIEW_UTIL_H

#include <stdlib.h>
#include "topology/topo.h"

static inline void test_view_free(struct zep_view *view)
{
    if (!view)
        return;
    free(view->node_dev0);
    free(view->node_nic0);
    free(view->node_leaf);
    free(view->dev_node);
    free(view->dev_nic);
    free(view->dev_bw);
    free(view->nic_bw);
    free(view->dev_speed);
    free(view->dev_mem);
    free(view);
}

/* Node i has dev[i] devices and nic[i] NICs (0: none known); device j of a node uses NIC j * nic / dev. All nodes hang on one leaf; 200 GB/s inside a node, 25 GB/s a NIC. */
static inline struct zep_view *make_view_uneven(int n_node, const int *dev, const int *nic)
{
    struct zep_view *view = calloc(1, sizeof *view);
    int d = 0, c = 0;

    if (!view)
        abort();
    view->n_node = n_node;
    for (int i = 0; i < n_node; i++) {
        view->n_dev += dev[i];
        view->n_nic += nic[i];
    }
    view->node_dev0 = calloc((size_t)n_node + 1, sizeof *view->node_dev0);
    view->node_nic0 = calloc((size_t)n_node + 1, sizeof *view->node_nic0);
    view->node_leaf = calloc((size_t)n_node + 1, sizeof *view->node_leaf);
    view->dev_node = calloc((size_t)view->n_dev + 1, sizeof *view->dev_node);
    view->dev_nic = calloc((size_t)view->n_dev + 1, sizeof *view->dev_nic);
    view->dev_bw = calloc((size_t)view->n_dev + 1, sizeof *view->dev_bw);
    view->nic_bw = calloc((size_t)view->n_nic + 1, sizeof *view->nic_bw);
    if (!view->node_dev0 || !view->node_nic0 || !view->node_leaf || !view->dev_node || !view->dev_nic || !view->dev_bw || !view->nic_bw)
        abort();
    for (int i = 0; i < n_node; i++) {
        view->node_dev0[i] = d;
        view->node_nic0[i] = c;
        for (int j = 0; j < dev[i]; j++, d++) {
            view->dev_node[d] = i;
            view->dev_nic[d] = nic[i] ? c + j * nic[i] / dev[i] : -1;
            view->dev_bw[d] = 200e9;
        }
        for (int j = 0; j < nic[i]; j++, c++)
            view->nic_bw[c] = 25e9;
    }
    view->node_dev0[n_node] = d;
    view->node_nic0[n_node] = c;
    return view;
}

/* n_node equal nodes with dev devices and nic NICs each. */
static inline struct zep_view *make_view(int n_node, int dev, int nic)
{
    int *devs = calloc((size_t)n_node + 1, sizeof *devs), *nics = calloc((size_t)n_node + 1, sizeof *nics);
    struct zep_view *view;

    if (!devs || !nics)
        abort();
    for (int i = 0; i < n_node; i++) {
        devs[i] = dev;
        nics[i] = nic;
    }
    view = make_view_uneven(n_node, devs, nics);
    free(devs);
    free(nics);
    return view;
}

#endif
