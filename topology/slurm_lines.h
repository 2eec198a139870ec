/* Slurm's configuration language, as its own parser takes it: keys in any letter case, "#" comments (not after an odd number of backslashes), lines that a backslash continues, quoted values, Include. */
#ifndef ZEP_TOPOLOGY_SLURM_LINES_H
#define ZEP_TOPOLOGY_SLURM_LINES_H

#include <stddef.h>
#include "common/error.h"

#define ZEP_SLURM_PAIRS 64

struct zep_slurm_line {
    const char *file;
    int line; /* where it begins */
    int n;
    const char *key[ZEP_SLURM_PAIRS], *value[ZEP_SLURM_PAIRS];
};

typedef int (*zep_slurm_line_fn)(void *arg, const struct zep_slurm_line *line, struct zep_error *err);

/* Calls back for each line of KEY=VALUE pairs. path: for messages, and its folder is where relative names of Include are looked for. Errors: "FILE:LINE: text". */
int zep_slurm_lines(const char *path, const char *text, size_t len, zep_slurm_line_fn fn, void *arg, struct zep_error *err);
/* The same of a text whose lines are all of one line of the file: no comments, no Include's folder. The text is changed. */
int zep_slurm_lines_of(const char *path, int line, char *text, zep_slurm_line_fn fn, void *arg, struct zep_error *err);
/* The value of a key, NULL absent. */
const char *zep_slurm_value(const struct zep_slurm_line *l, const char *key);
/* "FILE:LINE: text"; returns ZEP_EINVAL. */
int zep_slurm_line_error(const struct zep_slurm_line *l, struct zep_error *err, const char *fmt, ...) ZEP_PRINTF(3, 4);
/* Every key must be in known (NULL-terminated). */
int zep_slurm_line_keys(const struct zep_slurm_line *l, const char *const *known, struct zep_error *err);

#endif
