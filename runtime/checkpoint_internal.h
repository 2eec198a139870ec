/* For runtime/checkpoint*.c. */
#ifndef ZEP_RUNTIME_CHECKPOINT_INTERNAL_H
#define ZEP_RUNTIME_CHECKPOINT_INTERNAL_H

#include "runtime/checkpoint.h"

#define ZEP_CKPT_FORMAT "zeppelin-checkpoint"
#define ZEP_CKPT_DTYPE "float32-le"
#define ZEP_SHARD_HEADER 64 /* bytes: "zeppelin-shard/1.0 FIRST LAST PARTS\n", padded with blanks */

struct zep_shard { /* floats [first, last) of the flat weight vector, then of each moment */
    int64_t first, last, bytes;
    uint64_t digest;
};

struct zep_shard_data { /* a rank's own floats [first, last) */
    int64_t first, last;
    int n_part;
    const float *part[3]; /* weights, moments */
};
/* DIR/shard-RANK, with its fsync. */
int zep_shard_write(const char *dir, int rank, const struct zep_shard_data *data, struct zep_shard *shard_out, struct zep_error *err);

struct zep_manifest {
    struct zep_ckpt_info info;
    int n_part;            /* 1: weights; 3: weights and both moments */
    int n_shard;
    struct zep_shard *shard;
};

char *zep_manifest_write(const struct zep_manifest *m, const struct zep_model *model); /* JSON, free(); NULL: out of memory */
/* Also compares with the model (ZEP_EREFUSED). */
int zep_manifest_read(const char *name, const char *text, size_t len, const struct zep_model *model, struct zep_manifest *out, struct zep_error *err);
void zep_manifest_free(struct zep_manifest *m);
void zep_shard_header(char header[ZEP_SHARD_HEADER], int64_t first, int64_t last, int n_part);
/* "step-N" -> N; -1 for any other name. */
int64_t zep_ckpt_step_of(const char *name);
/* Names of complete checkpoints in DIR, newest first. free() both levels. */
int zep_ckpt_list(const char *dir, char ***names_out, int *n_out, struct zep_error *err);

#endif
