/* Several sources, one topology. Nodes match on any name, devices and NICs on what identifies them; where two sources disagree both facts are kept and the stronger source holds. */
#include "config.h"
#include "topology/merge_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

/* --- nodes --- */

static int find_node(struct merge *m, const struct zep_names *names, const struct zep_shorts *shorts, const struct zep_node *n, int *out)
{
    int at = zep_names_find(names, n->id);
    const char *by = n->id;

    for (int k = 0; k < n->n_alias; k++) {
        int other = zep_names_find(names, n->alias[k]);

        if (at >= 0 && other >= 0 && other != at)
            return zep_error_set(m->err, ZEP_EINVAL, "node '%s' (%.200s) is two nodes of %.200s: '%s' by '%s' and '%s' by '%s'", n->id, m->src->origin, m->dst->origin, m->dst->node[at].id, by, m->dst->node[other].id,
                                 n->alias[k]);
        if (at < 0 && other >= 0) {
            at = other;
            by = n->alias[k];
        }
    }
    if (at < 0)
        at = zep_shorts_find(shorts, names, n->id);
    *out = at;
    return ZEP_OK;
}

/* Which node of dst each of src's is; those that are new are added, without their content. */
static int map_nodes(struct merge *m)
{
    struct zep_names *names = NULL;
    struct zep_shorts *shorts = NULL;
    int rc, n_new = 0, first = -1, had = m->dst->n_node;
    unsigned char *taken = NULL;

    if ((rc = zep_names_new(m->dst, &names, m->err)) < 0)
        return rc;
    if (zep_shorts_new(m->dst, &shorts, m->err) < 0 || !(taken = zep_calloc((size_t)had + 1, 1)))
        rc = mg_no_memory(m);
    for (int i = 0; i < m->src->n_node && rc == ZEP_OK; i++) {
        const struct zep_node *s = &m->src->node[i];

        if ((rc = find_node(m, names, shorts, s, &m->node_map[i])) < 0)
            break;
        if (m->node_map[i] >= 0 && taken[m->node_map[i]]++)
            rc = zep_error_set(m->err, ZEP_EINVAL, "two nodes of %.200s are node '%s' of %.200s: '%s' is the second", m->src->origin, m->dst->node[m->node_map[i]].id, m->dst->origin, s->id);
    }
    for (int i = 0; i < m->src->n_node && rc == ZEP_OK; i++) {
        if (m->node_map[i] >= 0)
            continue;
        if (!zep_topo_add_node(m->dst, m->src->node[i].id))
            rc = mg_no_memory(m);
        m->node_map[i] = m->dst->n_node - 1;
        if (n_new++ == 0)
            first = i;
    }
    if (rc == ZEP_OK && n_new && had && zep_topo_warn(m->dst, "%d node%s of %.200s, '%s' first, %s not among the %d of %.200s", n_new, n_new == 1 ? "" : "s", m->src->origin, m->src->node[first].id, n_new == 1 ? "is" : "are", had,
                                                      m->dst->origin) < 0)
        rc = mg_no_memory(m);
    zep_names_free(names);
    zep_shorts_free(shorts);
    free(taken);
    return rc;
}

static int merge_node(struct merge *m, int node, const struct zep_node *s, int *nic_map)
{
    struct zep_node *d = &m->dst->node[node];
    unsigned took = 0;
    char where[300];
    int rc;

    snprintf(where, sizeof where, "node %.250s", d->id);
    if (zep_node_add_alias(d, s->id) < 0)
        return mg_no_memory(m);
    for (int k = 0; k < s->n_alias; k++)
        if (zep_node_add_alias(d, s->alias[k]) < 0)
            return mg_no_memory(m);
    {
        const int mine[4] = {d->sockets, d->cores_per_socket, d->threads_per_core, d->n_numa}, theirs[4] = {s->sockets, s->cores_per_socket, s->threads_per_core, s->n_numa};

        for (int i = 0; i < 4; i++)
            took |= theirs[i] && (!mine[i] || mg_of_field(s->field_source, i, s->cpu_source) > mg_of_field(d->field_source, i, d->cpu_source)) ? 1u << i : 0;
    }
    for (int k = 0; k < s->n_note; k++)
        if (zep_node_add_note(d, s->note[k].key, s->note[k].value) < 0)
            return mg_no_memory(m);
    if ((rc = mg_text(m, where, "state", &d->state, d->state_source, s->state, s->state_source)) < 0 || (rc = mg_text(m, where, "model", &d->model, d->state_source, s->model, s->state_source)) < 0 ||
        (rc = mg_text(m, where, "resources", &d->resources, d->state_source, s->resources, s->state_source)) < 0 ||
        (rc = mg_int(m, where, "sockets", 0, &d->sockets, mg_of_field(d->field_source, 0, d->cpu_source), s->sockets, mg_of_field(s->field_source, 0, s->cpu_source))) < 0 ||
        (rc = mg_int(m, where, "cores per socket", 0, &d->cores_per_socket, mg_of_field(d->field_source, 1, d->cpu_source), s->cores_per_socket, mg_of_field(s->field_source, 1, s->cpu_source))) < 0 ||
        (rc = mg_int(m, where, "threads per core", 0, &d->threads_per_core, mg_of_field(d->field_source, 2, d->cpu_source), s->threads_per_core, mg_of_field(s->field_source, 2, s->cpu_source))) < 0 ||
        (rc = mg_int(m, where, "NUMA domains", 0, &d->n_numa, mg_of_field(d->field_source, 3, d->cpu_source), s->n_numa, mg_of_field(s->field_source, 3, s->cpu_source))) < 0 ||
        (rc = mg_size(m, where, "memory", &d->mem_bytes, d->mem_source, s->mem_bytes, s->mem_source)) < 0 || (rc = mg_fact(m, where, "speed", ZEP_UNIT_FACTOR, &d->speed, &s->speed)) < 0)
        return rc;
    mg_pin(d->field_source, (int)sizeof d->field_source, d->cpu_source, s->field_source, s->cpu_source, took);
    d->cpu_source = mg_stronger(d->cpu_source, s->cpu_source);
    d->mem_source = mg_stronger(d->mem_source, s->mem_source);
    d->state_source = mg_stronger(d->state_source, s->state_source);
    if ((rc = mg_nics(m, node, s, nic_map)) < 0)
        return rc;
    return mg_devices(m, d, s, nic_map);
}

static int merge_notes(struct merge *m)
{
    char *origin = zep_calloc(strlen(m->dst->origin) + strlen(m->src->origin) + 4, 1);

    if (!origin)
        return mg_no_memory(m);
    sprintf(origin, "%s + %s", m->dst->origin, m->src->origin);
    free(m->dst->origin);
    m->dst->origin = origin;
    for (int i = 0; i < m->src->n_warning; i++)
        if (zep_topo_warn(m->dst, "%s", m->src->warning[i]) < 0)
            return mg_no_memory(m);
    for (int i = 0; i < m->src->n_conflict; i++) {
        const struct zep_conflict *c = &m->src->conflict[i];

        if (zep_topo_add_conflict(m->dst, c->where, c->what, c->kept, c->kept_source, c->lost, c->lost_source) < 0)
            return mg_no_memory(m);
    }
    return ZEP_OK;
}

int zep_topo_merge(struct zep_topo *dst, const struct zep_topo *src, struct zep_error *err)
{
    struct merge m = {.dst = dst, .src = src, .err = err};
    size_t n = (size_t)src->n_node + 1;
    int rc = ZEP_OK;

    m.node_map = zep_calloc(n, sizeof *m.node_map);
    m.nic_map = zep_calloc(n, sizeof *m.nic_map);
    if (!m.node_map || !m.nic_map)
        rc = mg_no_memory(&m);
    else
        rc = map_nodes(&m);
    for (int i = 0; i < src->n_node && rc == ZEP_OK; i++) {
        if (!(m.nic_map[i] = zep_calloc((size_t)src->node[i].n_nic + 1, sizeof *m.nic_map[i])))
            rc = mg_no_memory(&m);
        else
            rc = merge_node(&m, m.node_map[i], &src->node[i], m.nic_map[i]);
    }
    for (int i = 0; i < src->n_fabric && rc == ZEP_OK; i++)
        rc = mg_fabric(&m, &src->fabric[i]);
    if (rc == ZEP_OK && (rc = mg_fact(&m, "cluster", "latency between nodes", ZEP_UNIT_TIME, &dst->net_latency_s, &src->net_latency_s)) == ZEP_OK &&
        (rc = mg_fact(&m, "cluster", "latency between devices", ZEP_UNIT_TIME, &dst->dev_latency_s, &src->dev_latency_s)) == ZEP_OK)
        rc = merge_notes(&m);
    mg_sort_fabrics(dst);
    for (size_t i = 0; m.nic_map && i < n; i++)
        free(m.nic_map[i]);
    free(m.nic_map);
    free(m.node_map);
    return rc == ZEP_OK ? zep_topo_validate(dst, err) : rc;
}
