/* Host list expressions as Slurm's own library reads them: "rack[1-3,7]-n[01-16],login". */
#ifndef ZEP_COMMON_HOSTLIST_H
#define ZEP_COMMON_HOSTLIST_H

#include "common/error.h"

struct zep_hostlist {
    int n;
    char **name;
};

#define ZEP_HOSTLIST_MAX 4194304 /* names in one list; one range holds at most 65,536 */

/* Expands into *out (free with zep_hostlist_free). Duplicates are kept, in order. Refused where Slurm refuses or mangles: text after the last bracket,
 * reversed or empty ranges, unbalanced brackets, more than 65,536 names in a range. */
int zep_hostlist_expand(const char *expr, struct zep_hostlist *out, struct zep_error *err);
void zep_hostlist_free(struct zep_hostlist *list);
/* Folds names (order kept, runs of consecutive numbers joined, leading zeros kept) into one expression; *expr_out goes to free(). */
int zep_hostlist_fold(int n, const char *const *name, char **expr_out, struct zep_error *err);

#endif
