/* Facts that two sources know: which one holds, and what is kept of the other. */
#include "config.h"
#include "topology/merge_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/units.h"

int mg_no_memory(struct merge *m)
{
    return zep_error_nomem(m->err, "merging topologies");
}

int mg_copy_text(struct merge *m, char **dst, const char *src)
{
    char *copy;

    if (!src || (*dst && !strcmp(*dst, src)))
        return ZEP_OK;
    if (!(copy = strdup(src)))
        return mg_no_memory(m);
    free(*dst);
    *dst = copy;
    return ZEP_OK;
}

int mg_conflict(struct merge *m, const char *where, const char *what, int src_wins, const char *d, enum zep_source ds, const char *s, enum zep_source ss)
{
    int rc = src_wins ? zep_topo_add_conflict(m->dst, where, what, s, ss, d, ds) : zep_topo_add_conflict(m->dst, where, what, d, ds, s, ss);

    return rc < 0 ? mg_no_memory(m) : ZEP_OK;
}

/* What the stronger source says; the other's text is noted where it differs. NULL: not known. */
int mg_text(struct merge *m, const char *where, const char *what, char **dst, enum zep_source ds, const char *src, enum zep_source ss)
{
    int rc = ZEP_OK, wins = !*dst || ss > ds;

    if (!src)
        return ZEP_OK;
    if (*dst && strcasecmp(*dst, src))
        rc = mg_conflict(m, where, what, wins, *dst, ds, src, ss);
    return rc == ZEP_OK && wins ? mg_copy_text(m, dst, src) : rc;
}

int mg_int(struct merge *m, const char *where, const char *what, int unknown, int *dst, enum zep_source ds, int src, enum zep_source ss)
{
    char a[24], b[24];
    int rc = ZEP_OK, wins = *dst == unknown || ss > ds;

    if (src == unknown)
        return ZEP_OK;
    snprintf(a, sizeof a, "%d", *dst);
    snprintf(b, sizeof b, "%d", src);
    if (*dst != unknown && *dst != src)
        rc = mg_conflict(m, where, what, wins, a, ds, b, ss);
    if (wins)
        *dst = src;
    return rc;
}

/* The same with both sources at the end, for fields that have their own. */
int mg_text_fact(struct merge *m, const char *where, const char *what, char **dst, const char *src, enum zep_source ds, enum zep_source ss)
{
    return mg_text(m, where, what, dst, ds, src, ss);
}

int mg_int_fact(struct merge *m, const char *where, const char *what, int unknown, int *dst, int src, enum zep_source ds, enum zep_source ss)
{
    return mg_int(m, where, what, unknown, dst, ds, src, ss);
}

/* Sizes within a twentieth are the same: controllers round. */
int mg_size(struct merge *m, const char *where, const char *what, int64_t *dst, enum zep_source ds, int64_t src, enum zep_source ss)
{
    char a[ZEP_UNIT_BUF], b[ZEP_UNIT_BUF];
    int rc = ZEP_OK, wins = !*dst || ss > ds;

    if (!src)
        return ZEP_OK;
    snprintf(a, sizeof a, "%.4g GB", (double)*dst / 1e9);
    snprintf(b, sizeof b, "%.4g GB", (double)src / 1e9);
    if (*dst && fabs((double)*dst - (double)src) > 0.05 * (double)(*dst > src ? *dst : src))
        rc = mg_conflict(m, where, what, wins, a, ds, b, ss);
    if (wins)
        *dst = src;
    return rc;
}

/* A measured bandwidth differs from a rated one always a little: more than a tenth is worth a word. */
int mg_fact(struct merge *m, const char *where, const char *what, enum zep_fact_unit unit, struct zep_fact *dst, const struct zep_fact *src)
{
    char a[ZEP_UNIT_BUF], b[ZEP_UNIT_BUF];
    int rc = ZEP_OK, wins = dst->source == ZEP_SRC_NONE || src->source > dst->source;

    if (src->source == ZEP_SRC_NONE)
        return ZEP_OK;
    if (dst->source > ZEP_SRC_DEFAULT && src->source > ZEP_SRC_DEFAULT && fabs(dst->value - src->value) > 0.1 * fmax(dst->value, src->value))
        rc = mg_conflict(m, where, what, wins, zep_fact_text(unit, dst->value, a), dst->source, zep_fact_text(unit, src->value, b), src->source);
    if (wins)
        *dst = *src;
    return rc;
}

enum zep_source mg_stronger(enum zep_source a, enum zep_source b)
{
    return a > b ? a : b;
}

/* The source of one field: its own where fields of several sources came together, else that of the whole. */
enum zep_source mg_of_field(const unsigned char *field, int i, enum zep_source whole)
{
    return field[i] ? (enum zep_source)field[i] : whole;
}

/* Before the whole is said to be of the stronger source: fields keep theirs. What the other one said first is its. */
void mg_pin(unsigned char *field, int n, enum zep_source own, const unsigned char *other, enum zep_source other_whole, unsigned taken)
{
    for (int i = 0; i < n; i++)
        field[i] = (unsigned char)(taken & 1u << i ? mg_of_field(other, i, other_whole) : mg_of_field(field, i, own));
}

void mg_keep_common(struct zep_fact *f, const struct zep_fact *other)
{
    if (f->value != other->value || f->source != other->source)
        *f = (struct zep_fact){0};
}

/* A name that only counts ("nic3", "efa0", "gpu7"): it identifies nothing. */
int mg_is_ordinal(const char *key)
{
    static const char *const words[] = {"nic", "efa", "hostdev", "mlnxnics", "gpu", "mig", "cpu", "HCA-"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);

        if (!strncmp(key, words[i], n) && isdigit((unsigned char)key[n]) && key[n + strspn(key + n, "0123456789")] == '\0')
            return 1;
    }
    return 0;
}

int mg_note_count(struct merge *m, const struct zep_node *d, const char *what, int src_wins, int nd, enum zep_source ds, int ns, enum zep_source ss)
{
    char where[300], a[16], b[16];

    if (nd == ns)
        return ZEP_OK;
    snprintf(where, sizeof where, "node %.250s", d->id);
    snprintf(a, sizeof a, "%d", nd);
    snprintf(b, sizeof b, "%d", ns);
    return mg_conflict(m, where, what, src_wins, a, ds, b, ss);
}
