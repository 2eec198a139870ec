/* Graphviz: switches and nodes, equal ones folded in large clusters. */
#include "config.h"
#include "topology/topo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "topology/fold.h"

#define FOLD_ABOVE 128 /* nodes */

/* A string of dot: quotes and backslashes escaped. */
static void put_string(struct zep_buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            zep_buf_puts(b, "\\");
        zep_buf_add(b, s, 1);
    }
}

static void put_group(struct zep_buf *b, const struct zep_topo *topo, const struct zep_fabric *f, const struct zep_fold_group *g, int fabric, int index)
{
    const char *first = g->level ? f->sw[g->first].name : topo->node[g->first].id, *last = g->level ? f->sw[g->last].name : topo->node[g->last].id;

    zep_buf_printf(b, "  f%dg%d [shape=%s, label=\"", fabric, index, g->level ? "box" : "note");
    if (g->n > 1)
        zep_buf_printf(b, "%d x ", g->n);
    put_string(b, first);
    if (g->n > 1) {
        zep_buf_puts(b, " ... ");
        put_string(b, last);
    }
    if (!g->level)
        zep_buf_printf(b, "\\n%d devices, %d NICs%s", topo->node[g->first].n_device, topo->node[g->first].n_nic, zep_node_is_slow(&topo->node[g->first]) ? "\\nslow" : "");
    zep_buf_puts(b, "\"];\n");
}

int zep_topo_to_dot(const struct zep_topo *topo, struct zep_buf *b, struct zep_error *err)
{
    int rc = ZEP_OK;

    zep_buf_puts(b, "graph topology {\n  rankdir=TB;\n  label=\"");
    put_string(b, topo->origin);
    zep_buf_puts(b, "\";\n");
    for (int i = 0; i < (topo->n_fabric ? topo->n_fabric : 1) && rc == ZEP_OK; i++) {
        const struct zep_fabric *f = topo->n_fabric ? &topo->fabric[i] : NULL;
        struct zep_fold *fold;
        char speed[ZEP_UNIT_BUF];

        if ((rc = zep_fold_new(topo, f, topo->n_node > FOLD_ABOVE, &fold, err)) < 0)
            break;
        zep_buf_printf(b, "  subgraph cluster_%d {\n  label=\"", i);
        put_string(b, f ? f->name : "no switches known");
        zep_buf_puts(b, "\";\n");
        for (int g = 0; g < fold->n; g++)
            put_group(b, topo, f, &fold->group[g], i, g);
        for (int g = 0; g < fold->n; g++)
            for (int p = 0; p < fold->group[g].n_parent; p++) {
                zep_buf_printf(b, "  f%dg%d -- f%dg%d", i, fold->group[g].parent[p], i, g);
                if (fold->group[g].level && f->sw[fold->group[g].first].uplink_bw.source != ZEP_SRC_NONE)
                    zep_buf_printf(b, " [label=\"%s\"]", zep_format_bandwidth(f->sw[fold->group[g].first].uplink_bw.value, speed));
                zep_buf_puts(b, ";\n");
            }
        zep_buf_puts(b, "  }\n");
        zep_fold_free(fold);
    }
    zep_buf_puts(b, "}\n");
    return rc == ZEP_OK ? zep_buf_ok(b, err) : rc;
}
