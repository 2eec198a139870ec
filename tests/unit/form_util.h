/* Another form of transfer for the rings of a plan, for tests on real ranks. */
#ifndef ZEP_TESTS_FORM_UTIL_H
#define ZEP_TESTS_FORM_UTIL_H

#include <stdlib.h>
#include <string.h>
#include "planner/plan.h"

/* By name: a form, or "mixed": double, gather, single, ... by ring. Behind "heads4-": the same between groups of 4 that exchange heads. */
static inline int test_form_of(const struct zep_plan *p, int ring, const char *name)
{
    static const int turn[] = {ZEP_FORM_DOUBLE, ZEP_FORM_GATHER, ZEP_FORM_SINGLE};
    int form = ZEP_FORM_NONE, n_node, per_node;

    if (!strncmp(name, "heads", 5) && strchr(name, '-'))
        name = strchr(name, '-') + 1;

    for (int f = ZEP_FORM_SINGLE; f < ZEP_N_FORM; f++)
        if (!strcmp(name, zep_form_names[f]))
            form = f;
    if (!strcmp(name, "mixed"))
        form = turn[ring % 3];
    if (p->ring[ring].n_member == zep_ring_heads(&p->ring[ring]) || (form == ZEP_FORM_DOUBLE && (!zep_ring_grid(p, ring, &n_node, &per_node) || n_node < 2)))
        return ZEP_FORM_SINGLE;
    return form;
}

/* Every ring that can carry the form gets it and loses its hops; count[form] += rings of more than one member, count[ZEP_N_FORM] += rings that exchange heads. An unknown name gives plans that no schedule takes. */
static inline int test_set_forms(struct zep_plan *p, const char *name, int count[ZEP_N_FORM + 1], struct zep_error *err)
{
    int n_hop = 0, n_proxy = 0, heads = strncmp(name, "heads", 5) ? 0 : atoi(name + 5);

    for (int i = 0; i < p->n_ring; i++) {
        struct zep_plan_ring *r = &p->ring[i];
        int first = n_hop;

        r->heads = heads > 1 && r->n_member % heads == 0 ? heads : 0;
        r->form = test_form_of(p, i, name);
        count[ZEP_N_FORM] += r->heads > 1;
        count[r->form] += r->n_member > 1;
        for (int h = r->hop0; h < r->hop0 + r->n_hop && r->form == ZEP_FORM_SINGLE && !r->heads; h++) {
            struct zep_plan_hop hop = p->hop[h];

            memmove(&p->proxy[n_proxy], &p->proxy[hop.proxy0], (size_t)hop.n_proxy * sizeof *p->proxy);
            hop.proxy0 = n_proxy;
            n_proxy += hop.n_proxy;
            p->hop[n_hop++] = hop;
        }
        r->hop0 = first;
        r->n_hop = n_hop - first;
    }
    p->n_hop = n_hop;
    p->n_proxy = n_proxy;
    return zep_plan_finish(p, err);
}

#endif
