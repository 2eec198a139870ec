#include "config.h"
#include "runtime/checkpoint_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/log.h"
#include "runtime/agree.h"

#define APPEAR_S 60.0 /* on a network file system a file may show up late on another node */

static int wait_for(const char *path, struct zep_error *err)
{
    double end = zep_clock_now() + APPEAR_S;
    struct timespec nap = {0, 200000000};

    while (!zep_fs_exists(path)) {
        if (zep_clock_now() > end)
            return zep_error_set(err, ZEP_EIO, "%s: did not appear within %.0f s", path, APPEAR_S);
        nanosleep(&nap, NULL);
    }
    return ZEP_OK;
}

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
    if ((rc = wait_for(path, err)) < 0 || (rc = zep_fs_read(path, (size_t)s->bytes + 1, &data, &len, err)) < 0)
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
    return ZEP_OK;
}

/* One candidate, collective. Damage is ZEP_EIO or ZEP_EINVAL; a checkpoint of something else is ZEP_EREFUSED. */
static int try_load(struct zep_comm *comm, const char *dir, const char *name, const struct zep_ckpt_info *expect, struct zep_model *model, struct zep_optim *optim,
                    struct zep_ckpt_info *info_out, struct zep_error *err)
{
    struct zep_manifest m = {0};
    char *path = zep_fs_join(dir, "MANIFEST");
    void *text = NULL;
    size_t len = 0;
    int64_t first = optim->first[optim->rank], last = optim->first[optim->rank + 1];
    int rc = path ? ZEP_OK : zep_error_nomem(err, "checkpoint");

    if (rc == ZEP_OK && zep_comm_rank(comm) == 0) {
        char *data;

        rc = zep_fs_read(path, 0, &data, &len, err);
        if (rc == ZEP_OK)
            text = data;
        else if (rc == ZEP_ENOENT)
            rc = ZEP_EIO;
    }
    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = zep_comm_bcast_blob(comm, 0, &text, &len, err)) < 0)
        goto out;
    rc = zep_manifest_read(name, text, len, model, &m, err);
    if (rc == ZEP_OK)
        rc = compare(name, &m, expect, optim, err);
    if ((rc = zep_agree(comm, rc, err)) < 0)
        goto out;
    for (int i = 0; rc == ZEP_OK && i < m.n_shard; i++) {
        /* shards that nobody would read else are verified all the same, by rank i mod size */
        int mine = m.shard[i].first < last && m.shard[i].last > first;

        if (mine || i % zep_comm_size(comm) == zep_comm_rank(comm))
            rc = load_shard(dir, &m, i, model, optim, err);
    }
    if ((rc = zep_agree(comm, rc, err)) < 0)
        goto out;
    if ((rc = zep_comm_allgather(comm, model->weight, optim->first, err)) == ZEP_OK)
        *info_out = m.info;
out:
    zep_manifest_free(&m);
    free(text);
    free(path);
    return rc;
}

/* Rank 0 alone chooses; its list of names, one a line, goes to all. */
static int share_names(struct zep_comm *comm, const char *root, char **text_out, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char **names, *list = NULL;
    void *blob = NULL;
    size_t len = 0;
    int n, rc = ZEP_OK;

    if (zep_comm_rank(comm) == 0) {
        if (zep_fs_is_dir(root) && (rc = zep_ckpt_list(root, &names, &n, err)) == ZEP_OK) {
            for (int i = 0; i < n; i++) {
                zep_buf_printf(&b, "%s\n", names[i]);
                free(names[i]);
            }
            free(names);
        }
        if (rc == ZEP_OK && (rc = zep_buf_steal(&b, &list, err)) == ZEP_OK) {
            blob = list;
            len = strlen(list) + 1;
        }
    }
    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = zep_comm_bcast_blob(comm, 0, &blob, &len, err)) < 0) {
        free(blob);
        return rc;
    }
    *text_out = blob;
    return ZEP_OK;
}

int zep_ckpt_load(struct zep_comm *comm, const char *rundir, const struct zep_ckpt_info *expect, struct zep_model *model, struct zep_optim *optim, struct zep_ckpt_info *info_out,
                  char name_out[64], struct zep_error *err)
{
    char *root = zep_fs_join(rundir, "checkpoints"), *names = NULL, *save = NULL;
    int rc = root ? ZEP_OK : zep_error_nomem(err, "checkpoint"), seen = 0;

    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = share_names(comm, root, &names, err)) < 0)
        goto out;
    name_out[0] = '\0';
    info_out->step = 0;
    for (char *name = strtok_r(names, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
        char *dir = zep_fs_join(root, name);

        rc = dir ? try_load(comm, dir, name, expect, model, optim, info_out, err) : zep_error_nomem(err, "checkpoint");
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
