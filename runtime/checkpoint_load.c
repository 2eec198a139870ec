#include "config.h"
#include "runtime/checkpoint_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/appear.h"
#include "common/arena.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/log.h"
#include "planner/workload.h"
#include "runtime/agree.h"
#include "runtime/filework.h"

/* A load under way: what the pieces of file work are given. */
struct load {
    const char *root, *dir, *name; /* dir: of the candidate in hand */
    char *text;                    /* rank 0: the names; the candidate's MANIFEST */
    size_t len;
    struct zep_manifest m;
    int rank, size;
    struct zep_model *model;
    struct zep_optim *optim;
};

/* Reads and verifies shard i and copies what of it lies in [first, last) into the own shard's arrays. */
static int load_shard(const char *dir, const struct zep_manifest *m, int i, struct zep_model *model, struct zep_optim *optim, struct zep_error *err)
{
    const struct zep_shard *s = &m->shard[i];
    int64_t first = optim->first[optim->rank], last = optim->first[optim->rank + 1];
    int64_t lo = s->first > first ? s->first : first, hi = s->last < last ? s->last : last, n = s->last - s->first;
    float *dst[3] = {model->weight + first, optim->m, optim->v};
    char name[32], want[ZEP_SHARD_HEADER];
    char *path, *data = NULL;
    size_t len;
    int rc;

    snprintf(name, sizeof name, "shard-%d", i);
    path = zep_fs_join(dir, name);
    if (!path)
        return zep_error_nomem(err, "checkpoint");
    zep_shard_header(want, s->first, s->last, m->n_part);
    if ((rc = zep_appear(path, ZEP_APPEAR_S, err)) < 0 || (rc = zep_fs_read(path, (size_t)s->bytes + 1, &data, &len, err)) < 0)
        goto out;
    if ((int64_t)len != s->bytes)
        rc = zep_error_set(err, ZEP_EIO, "%s: has %zu bytes, MANIFEST says %" PRId64, path, len, s->bytes);
    else if (zep_digest(data, len, 0) != s->digest)
        rc = zep_error_set(err, ZEP_EIO, "%s: checksum does not match MANIFEST", path);
    else if (memcmp(data, want, sizeof want) != 0)
        rc = zep_error_set(err, ZEP_EIO, "%s: header does not match MANIFEST", path);
    for (int p = 0; rc == ZEP_OK && p < m->n_part && lo < hi; p++)
        memcpy(dst[p] + (lo - first), data + ZEP_SHARD_HEADER + ((size_t)(p * n) + (size_t)(lo - s->first)) * sizeof(float), (size_t)(hi - lo) * sizeof(float));
out:
    free(data);
    free(path);
    return rc;
}

static int compare(const char *name, const struct zep_manifest *m, const struct zep_ckpt_info *expect, const struct zep_optim *optim, struct zep_error *err)
{
    if (m->info.step < 1 || m->info.step != zep_ckpt_step_of(name))
        return zep_error_set(err, ZEP_EINVAL, "%s: MANIFEST says step %" PRId64, name, m->info.step);
    if ((m->n_part == 3) != (optim->m != NULL))
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with optimizer %s, the job says %s", name, m->n_part == 3 ? "adamw" : "sgd",
                             optim->m ? "adamw" : "sgd");
    if (m->info.seed != expect->seed)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with train.seed %" PRIu64 ", the job says %" PRIu64, name, m->info.seed, expect->seed);
    if (m->info.tokens != expect->tokens)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with train.tokens %" PRId64 ", the job says %" PRId64, name, m->info.tokens, expect->tokens);
    if (m->info.data_digest != expect->data_digest)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with another data set (digest %016" PRIx64 ", now %016" PRIx64 ")", name, m->info.data_digest,
                             expect->data_digest);
    if (m->info.token_digest && m->info.token_digest != expect->token_digest)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with another data set of the same lengths (digest of tokens %016" PRIx64 ", now %016" PRIx64 ")", name,
                             m->info.token_digest, expect->token_digest);
    if (m->info.document_digest && m->info.document_digest != expect->document_digest)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with data.context %" PRId64 ", the job says %" PRId64 ": longer documents are cut otherwise, and batches would be others", name,
                             m->info.context, expect->context);
    if (m->info.window && m->info.window != expect->window)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with plan.window %" PRId64 ", the job says %" PRId64 ": steps would have other documents, some of the epoch would come twice or not at all", name,
                             m->info.window, expect->window);
    if (m->info.window > 1 && m->info.compose != expect->compose)
        return zep_error_set(err, ZEP_EREFUSED, "%s: was made with plan.compose %s, the job says %s: steps would have other documents, some of the epoch would come twice or not at all", name,
                             m->info.compose < 0 ? "of another kind" : zep_compose_names[m->info.compose], zep_compose_names[expect->compose]);
    return ZEP_OK;
}

static int read_manifest(void *arg, struct zep_error *err)
{
    struct load *l = arg;
    char *path = zep_fs_join(l->dir, "MANIFEST");
    int rc = path ? zep_fs_read(path, 0, &l->text, &l->len, err) : zep_error_nomem(err, "checkpoint");

    free(path);
    return rc == ZEP_ENOENT ? ZEP_EIO : rc;
}

/* Rank 0: what it does not see beside the MANIFEST that it has read was there before it and is gone, and nobody needs to wait for it. */
static int find_shards(void *arg, struct zep_error *err)
{
    struct load *l = arg;
    int rc = ZEP_OK;

    for (int i = 0; rc == ZEP_OK && i < l->m.n_shard; i++) {
        char name[32];
        char *path;

        snprintf(name, sizeof name, "shard-%d", i);
        path = zep_fs_join(l->dir, name);
        if (!path)
            rc = zep_error_nomem(err, "checkpoint");
        else if (!zep_fs_exists(path))
            rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
        free(path);
    }
    return rc;
}

/* Shards that nobody would read else are verified all the same, by rank i mod size. */
static int load_shards(void *arg, struct zep_error *err)
{
    struct load *l = arg;
    const struct zep_optim *o = l->optim;
    int rc = ZEP_OK;

    for (int i = 0; rc == ZEP_OK && i < l->m.n_shard; i++) {
        int mine = l->m.shard[i].first < o->first[o->rank + 1] && l->m.shard[i].last > o->first[o->rank];

        if (mine || i % l->size == l->rank)
            rc = load_shard(l->dir, &l->m, i, l->model, l->optim, err);
    }
    return rc;
}

/* One candidate, collective. Damage is ZEP_EIO or ZEP_EINVAL; a checkpoint of something else is ZEP_EREFUSED. */
static int try_load(struct zep_comm *comm, struct load *l, const struct zep_ckpt_info *expect, struct zep_ckpt_info *info_out, struct zep_error *err)
{
    int64_t bytes = l->model->n_weight * 3 * (int64_t)sizeof(float);
    void *text;
    int rc;

    if ((rc = zep_filework(comm, zep_filework_limit_s(0), l->rank == 0 ? read_manifest : NULL, l, err)) < 0)
        return rc;
    text = l->text;
    rc = zep_comm_bcast_blob(comm, 0, &text, &l->len, err);
    l->text = text;
    if (rc < 0)
        return rc;
    rc = zep_manifest_read(l->name, l->text, l->len, l->model, &l->m, err);
    if (rc == ZEP_OK)
        rc = compare(l->name, &l->m, expect, l->optim, err);
    if ((rc = zep_agree(comm, rc, err)) < 0)
        return rc;
    if ((rc = zep_filework(comm, zep_filework_limit_s(0), l->rank == 0 ? find_shards : NULL, l, err)) < 0)
        return rc;
    if ((rc = zep_filework(comm, zep_filework_limit_s(bytes), load_shards, l, err)) < 0)
        return rc;
    if ((rc = zep_comm_allgather(comm, l->model->weight, l->optim->first, err)) == ZEP_OK)
        *info_out = l->m.info;
    return rc;
}

/* What a candidate left behind. */
static void drop(struct load *l)
{
    zep_manifest_free(&l->m);
    free(l->text);
    l->text = NULL;
    l->len = 0;
}

static int list_names(void *arg, struct zep_error *err)
{
    struct load *l = arg;
    struct zep_buf b = ZEP_BUF_INIT;
    char **names;
    int n, rc;

    if (zep_fs_is_dir(l->root)) {
        if ((rc = zep_ckpt_list(l->root, &names, &n, err)) < 0)
            return rc;
        for (int i = 0; i < n; i++) {
            zep_buf_printf(&b, "%s\n", names[i]);
            free(names[i]);
        }
        free(names);
    }
    if ((rc = zep_buf_steal(&b, &l->text, err)) == ZEP_OK)
        l->len = strlen(l->text) + 1;
    return rc;
}

/* Rank 0 alone chooses; its list of names, one a line, goes to all. */
static int share_names(struct zep_comm *comm, struct load *l, char **text_out, struct zep_error *err)
{
    void *blob;
    int rc;

    if ((rc = zep_filework(comm, zep_filework_limit_s(0), l->rank == 0 ? list_names : NULL, l, err)) < 0)
        return rc;
    blob = l->text;
    rc = zep_comm_bcast_blob(comm, 0, &blob, &l->len, err);
    l->text = NULL;
    if (rc < 0)
        free(blob);
    else
        *text_out = blob;
    return rc;
}

int zep_ckpt_load(struct zep_comm *comm, const char *rundir, const struct zep_ckpt_info *expect, struct zep_model *model, struct zep_optim *optim, struct zep_ckpt_info *info_out,
                  char name_out[64], struct zep_error *err)
{
    char *root = zep_fs_join(rundir, "checkpoints"), *names = NULL, *save = NULL;
    struct load l = {.root = root, .rank = zep_comm_rank(comm), .size = zep_comm_size(comm), .model = model, .optim = optim};
    int rc = root ? ZEP_OK : zep_error_nomem(err, "checkpoint"), seen = 0;

    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = share_names(comm, &l, &names, err)) < 0)
        goto out;
    name_out[0] = '\0';
    info_out->step = 0;
    for (char *name = strtok_r(names, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
        char *dir = zep_fs_join(root, name);

        l.dir = dir;
        l.name = name;
        rc = zep_agree(comm, dir ? ZEP_OK : zep_error_nomem(err, "checkpoint"), err);
        if (rc == ZEP_OK)
            rc = try_load(comm, &l, expect, info_out, err);
        drop(&l);
        free(dir);
        seen++;
        if (rc == ZEP_OK) {
            snprintf(name_out, 64, "%.63s", name);
            goto out;
        }
        if (rc != ZEP_EIO && rc != ZEP_EINVAL)
            goto out;
        if (zep_comm_rank(comm) == 0)
            zep_log(ZEP_LOG_WARN, "checkpoint %s is damaged and passed over: %s", name, err->text);
    }
    if (seen && rc < 0)
        rc = zep_error_set(err, ZEP_EREFUSED, "none of the %d checkpoints in %s can be read", seen, root);
out:
    free(names);
    free(root);
    return rc;
}
