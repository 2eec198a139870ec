/* Runs of a sweep: `--sweep KEY=A,B` once or several times gives every combination. */
#ifndef ZEP_LAUNCHER_VARIANTS_H
#define ZEP_LAUNCHER_VARIANTS_H

#include "common/error.h"

#define ZEP_MAX_VARIANT 1000

struct zep_variants {
    int n, n_key;
    char **set; /* [n * n_key]: "KEY=VALUE" of each run */
};

/* n_sweep 0: one run without a change. Refused: keys that all jobs of an array have in common (cluster., name, run_root), a key twice, more than ZEP_MAX_VARIANT runs. */
int zep_variants(const char *const *sweep, int n_sweep, struct zep_variants *out, struct zep_error *err);
void zep_variants_free(struct zep_variants *v);

#endif
