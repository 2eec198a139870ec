/* What the files of the job file share: job_keys.c (the schema), job.c (loading), job_text.c (writing). */
#ifndef ZEP_COMMON_JOB_INTERNAL_H
#define ZEP_COMMON_JOB_INTERNAL_H

#include "common/job.h"

struct job_origin {
    char *text; /* "job.yaml:14", "default", "--set train.steps=3" */
    enum zep_job_layer layer;
};

/* What callers see as a struct zep_job, with where each value comes from. */
struct job_full {
    struct zep_job pub; /* first */
    struct job_origin *origin; /* by key */
    int resolved; /* as a run folder has it: what site and user gave looks like its own */
};

/* What a name stands for: a key, or a name below a key that has such. */
struct job_place {
    const struct zep_job_key *key;
    int index;
    const char *entry; /* NULL: the key itself */
};

static inline void *job_field(const struct zep_job *job, const struct zep_job_key *key)
{
    return (char *)job + key->offset;
}

static inline int job_is_map(enum zep_job_type t)
{
    return t == ZEP_JOB_MAP || t == ZEP_JOB_ENV || t == ZEP_JOB_SECRETS;
}

static inline int job_is_text(enum zep_job_type t)
{
    return t == ZEP_JOB_STRING || t == ZEP_JOB_CHOICE || t == ZEP_JOB_PATH;
}

/* --- job_value.c: one job, one value --- */

/* A job of defaults; zep_job_free. */
int zep_job_new(struct zep_job **out, struct zep_error *err);
/* 0: there is no such key. */
int zep_job_find(const char *name, struct job_place *out);
/* Takes the value, unless it is wrong: then the one before stays. */
int zep_job_set(struct zep_job *job, const struct job_place *place, const char *value, const char *origin, enum zep_job_layer layer, struct zep_error *err);
/* The value as text that zep_job_set takes again; "" for a name that is not there. free(). */
char *zep_job_get(const struct zep_job *job, const struct job_place *place);
/* Does the text name an environment variable as a shell would expand it, or a home folder? Its length, 0: no. *at_out: where it begins. */
int zep_job_variable(const struct zep_job_key *key, const char *value, const char **at_out);
int zep_job_env_name(const char *name); /* [A-Za-z_][A-Za-z0-9_]* */
/* Does a name, or the last part of a key's, say that its value is a secret? */
int zep_job_looks_secret(const char *name);

/* --- job_check.c --- */

/* What values must be to each other. */
void zep_job_cross_check(const struct zep_job *job, struct zep_mistakes *m);

/* --- job_text.c --- */

/* The value as text that reads back as the same value. */
int zep_job_value_text(const struct zep_job *job, const struct zep_job_key *key, struct zep_buf *out);

#endif
