/* What the files of merging share: see merge.c. */
#ifndef ZEP_TOPOLOGY_MERGE_INTERNAL_H
#define ZEP_TOPOLOGY_MERGE_INTERNAL_H

#include "topology/topo_internal.h"

struct merge {
    struct zep_topo *dst;
    const struct zep_topo *src;
    struct zep_error *err;
    int *node_map;  /* [src->n_node] node of dst */
    int **nic_map;  /* [src->n_node] NICs of src's node in dst's, NULL: the same */
};

/* --- merge_facts.c: what the stronger source says holds, a difference is kept as a conflict. ds, ss: the sources of dst's fact and of src's. --- */
int mg_no_memory(struct merge *m);
int mg_copy_text(struct merge *m, char **dst, const char *src);
int mg_conflict(struct merge *m, const char *where, const char *what, int src_wins, const char *d, enum zep_source ds, const char *s, enum zep_source ss);
int mg_text(struct merge *m, const char *where, const char *what, char **dst, enum zep_source ds, const char *src, enum zep_source ss);
int mg_int(struct merge *m, const char *where, const char *what, int unknown, int *dst, enum zep_source ds, int src, enum zep_source ss);
int mg_text_fact(struct merge *m, const char *where, const char *what, char **dst, const char *src, enum zep_source ds, enum zep_source ss);
int mg_int_fact(struct merge *m, const char *where, const char *what, int unknown, int *dst, int src, enum zep_source ds, enum zep_source ss);
int mg_size(struct merge *m, const char *where, const char *what, int64_t *dst, enum zep_source ds, int64_t src, enum zep_source ss);
int mg_fact(struct merge *m, const char *where, const char *what, enum zep_fact_unit unit, struct zep_fact *dst, const struct zep_fact *src);
enum zep_source mg_stronger(enum zep_source a, enum zep_source b);
enum zep_source mg_of_field(const unsigned char *field, int i, enum zep_source whole);
void mg_pin(unsigned char *field, int n, enum zep_source own, const unsigned char *other, enum zep_source other_whole, unsigned taken);
void mg_keep_common(struct zep_fact *f, const struct zep_fact *other);
int mg_is_ordinal(const char *key);
int mg_note_count(struct merge *m, const struct zep_node *d, const char *what, int src_wins, int nd, enum zep_source ds, int ns, enum zep_source ss);
/* The sources of field f of d and of s, and whether s's is taken: bit f of took. */
#define FIELD_SRC(f) mg_of_field(d->field_source, f, d->source), mg_of_field(s->field_source, f, s->source)
#define TOOK(f, known, other) (took |= (other) && (!(known) || mg_of_field(s->field_source, f, s->source) > mg_of_field(d->field_source, f, d->source)) ? 1u << (f) : 0)

/* merge_nics.c: map[i]: place of src's NIC i in dst's node, -1 none. merge_devices.c: nic_map is that map. */
int mg_nics(struct merge *m, int node, const struct zep_node *s, int *map);
int mg_devices(struct merge *m, struct zep_node *d, const struct zep_node *s, const int *nic_map);
/* merge_fabrics.c: a fabric of src; then their order: the first is planned with. */
int mg_fabric(struct merge *m, const struct zep_fabric *s);
void mg_sort_fabrics(struct zep_topo *t);

#endif
