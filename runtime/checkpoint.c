#include "config.h"
#include "runtime/checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/log.h"
#include "runtime/agree.h"
#include "runtime/filework.h"

#define TOKEN_LEN 16

/* A save under way: what the pieces of file work are given. */
struct save {
    const char *root;
    char *work;                 /* step-N.TOKEN */
    struct zep_manifest m;      /* rank 0: with all shards */
    struct zep_shard mine;
    const struct zep_model *model;
    const struct zep_optim *optim;
    int keep;
    int (*confirm)(void *arg, struct zep_error *err);
    void *arg;
};

struct writer {
    int fd;
    const char *path;
    struct zep_digest_state *digest;
    int64_t bytes;
};

static int put(struct writer *w, const void *data, size_t len, struct zep_error *err)
{
    const char *p = data;

    zep_digest_update(w->digest, data, len);
    w->bytes += (int64_t)len;
    while (len > 0) {
        ssize_t n = write(w->fd, p, len < (1 << 24) ? len : (1 << 24));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return zep_error_set(err, ZEP_EIO, "%s: %s", w->path, strerror(errno));
        p += n;
        len -= (size_t)n;
    }
    return ZEP_OK;
}

static int write_parts(struct writer *w, const struct zep_model *model, const struct zep_optim *optim, struct zep_error *err)
{
    int64_t first = optim->first[optim->rank], n = optim->first[optim->rank + 1] - first;
    const float *part[3] = {model->weight + first, optim->m, optim->v};
    int n_part = optim->m ? 3 : 1, rc;
    char header[ZEP_SHARD_HEADER];

    zep_shard_header(header, first, first + n, n_part);
    if ((rc = put(w, header, sizeof header, err)) < 0)
        return rc;
    for (int i = 0; i < n_part; i++)
        if ((rc = put(w, part[i], (size_t)n * sizeof(float), err)) < 0)
            return rc;
    return ZEP_OK;
}

static int write_shard(void *arg, struct zep_error *err)
{
    struct save *s = arg;
    const struct zep_optim *optim = s->optim;
    struct zep_shard *out = &s->mine;
    char name[32];
    char *path;
    struct writer w = {.fd = -1};
    int rc;

    snprintf(name, sizeof name, "shard-%d", optim->rank);
    path = zep_fs_join(s->work, name);
    w.digest = zep_digest_new(0);
    if (!path || !w.digest) {
        rc = zep_error_nomem(err, "checkpoint");
        goto out;
    }
    w.path = path;
    w.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w.fd < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    rc = write_parts(&w, s->model, optim, err);
    if (rc == ZEP_OK && fsync(w.fd) < 0)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
    if (close(w.fd) < 0 && rc == ZEP_OK)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
    out->first = optim->first[optim->rank];
    out->last = optim->first[optim->rank + 1];
    out->bytes = w.bytes;
    out->digest = zep_digest_final(w.digest);
out:
    zep_digest_free(w.digest);
    free(path);
    return rc;
}

/* Rank 0: MANIFEST, then the final name, then the parent's fsync. A checkpoint of the same step that is there already (an earlier attempt's) is replaced. */
static int commit(const char *root, const char *work, const struct zep_manifest *m, const struct zep_model *model, struct zep_error *err)
{
    char name[64], old_name[96];
    char *text = zep_manifest_write(m, model), *path = zep_fs_join(work, "MANIFEST"), *final = NULL, *old = NULL;
    int rc;

    snprintf(name, sizeof name, "step-%" PRId64, m->info.step);
    snprintf(old_name, sizeof old_name, "%s.replaced", name);
    final = zep_fs_join(root, name);
    old = zep_fs_join(root, old_name);
    if (!text || !path || !final || !old) {
        rc = zep_error_nomem(err, "checkpoint");
        goto out;
    }
    if ((rc = zep_fs_write_atomic(path, text, strlen(text), 0666, err)) < 0)
        goto out;
    if (zep_fs_exists(final) && rename(final, old) < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", final, strerror(errno));
        goto out;
    }
    if (rename(work, final) < 0) {
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", final, strerror(errno));
        if (rename(old, final) < 0 && errno != ENOENT)
            zep_log(ZEP_LOG_WARN, "%s: %s", old, strerror(errno));
        goto out;
    }
    rc = zep_fs_fsync_dir(root, err);
    if (rc == ZEP_OK && zep_fs_exists(old))
        zep_fs_remove_tree(old, NULL);
out:
    free(text);
    free(path);
    free(final);
    free(old);
    return rc;
}

/* A checkpoint of a later step than the run's own was passed over as damaged when this attempt began: it takes no good one's place, and no attempt to come stops at it. */
static void set_aside(const char *root, const char *name)
{
    char new_name[96];
    char *from = zep_fs_join(root, name), *to;

    snprintf(new_name, sizeof new_name, "damaged-%.63s", name);
    to = zep_fs_join(root, new_name);
    if (from && to) {
        zep_fs_remove_tree(to, NULL);
        if (rename(from, to) < 0)
            zep_log(ZEP_LOG_WARN, "%s: %s", from, strerror(errno));
        else
            zep_log(ZEP_LOG_WARN, "checkpoint %s was passed over and is now %s", name, new_name);
    }
    free(from);
    free(to);
}

/* After the commit of step: complete ones beyond keep, counted from this one downwards, and what broken attempts left ("step-N.TOKEN"). We hold the run's lock, so nobody else is writing here. */
static void prune(const char *root, int64_t step, int keep)
{
    char **names, *path;
    int n, n_kept = 0;

    if (zep_ckpt_list(root, &names, &n, NULL) == ZEP_OK) {
        for (int i = 0; i < n; i++) {
            if (zep_ckpt_step_of(names[i]) > step) {
                set_aside(root, names[i]);
            } else if (n_kept++ >= keep && (path = zep_fs_join(root, names[i]))) {
                zep_fs_remove_tree(path, NULL);
                free(path);
            }
            free(names[i]);
        }
        free(names);
    }
    if (zep_fs_list(root, &names, &n, NULL) == ZEP_OK) {
        for (int i = 0; i < n; i++) {
            if (strncmp(names[i], "step-", 5) == 0 && strchr(names[i], '.') && (path = zep_fs_join(root, names[i]))) {
                zep_fs_remove_tree(path, NULL);
                free(path);
            }
            free(names[i]);
        }
        free(names);
    }
}

static int make_token(char token[TOKEN_LEN + 1], struct zep_error *err)
{
    unsigned char raw[TOKEN_LEN / 2];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, raw, sizeof raw);

    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof raw)
        return zep_error_set(err, ZEP_EIO, "/dev/urandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(token + 2 * i, 3, "%02x", raw[i]);
    return ZEP_OK;
}

static int make_work(void *arg, struct zep_error *err)
{
    struct save *s = arg;
    char name[96], token[TOKEN_LEN + 1];
    int rc;

    if ((rc = zep_fs_mkdir_p(s->root, err)) < 0 || (rc = make_token(token, err)) < 0)
        return rc;
    snprintf(name, sizeof name, "step-%" PRId64 ".%s", s->m.info.step, token);
    if (!(s->work = zep_fs_join(s->root, name)))
        return zep_error_nomem(err, "checkpoint");
    if (mkdir(s->work, 0777) < 0)
        return zep_error_set(err, ZEP_EIO, "%s: %s", s->work, strerror(errno));
    return ZEP_OK;
}

/* Rank 0 makes the folder; its path goes to all. */
static int open_work(struct zep_comm *comm, struct save *s, struct zep_error *err)
{
    int root = zep_comm_rank(comm) == 0, rc;
    void *path = NULL;
    size_t len = 0;

    if ((rc = zep_filework(comm, zep_filework_limit_s(0), root ? make_work : NULL, s, err)) < 0)
        return rc;
    if (root) {
        path = s->work;
        len = strlen(s->work) + 1;
    }
    rc = zep_comm_bcast_blob(comm, 0, &path, &len, err);
    s->work = path;
    return rc;
}

static int finish(void *arg, struct zep_error *err)
{
    struct save *s = arg;
    int rc;

    if (s->confirm && (rc = s->confirm(s->arg, err)) < 0)
        return rc;
    if ((rc = commit(s->root, s->work, &s->m, s->model, err)) == ZEP_OK)
        prune(s->root, s->m.info.step, s->keep);
    return rc;
}

static int64_t first_bad(const float *x, int64_t n)
{
    int64_t i = 0;

    while (i < n && isfinite(x[i]))
        i++;
    return i < n ? i : -1;
}

/* The own shard: nothing could go on from it otherwise, and it would push out checkpoints that are good. */
static int check_finite(int64_t step, const struct zep_model *model, const struct zep_optim *optim, struct zep_error *err)
{
    int64_t first = optim->first[optim->rank], n = optim->first[optim->rank + 1] - first;
    const float *part[3] = {model->weight + first, optim->m, optim->v};
    static const char *const what[3] = {"weight", "first moment", "second moment"};

    for (int p = 0; p < (optim->m ? 3 : 1); p++) {
        int64_t at = first_bad(part[p], n);
        int t = 0;

        if (at < 0)
            continue;
        while (t + 1 < model->n_tensor && model->tensor[t + 1].offset <= first + at)
            t++;
        return zep_error_set(err, ZEP_EINTERNAL, "step %" PRId64 ": a %s of %s is %g: no checkpoint is written (is train.lr too high?)", step, what[p], model->tensor[t].name,
                             (double)part[p][at]);
    }
    return ZEP_OK;
}

/* Every rank's shard, then the manifest. */
static int write_all(struct zep_comm *comm, struct save *s, struct zep_error *err)
{
    int64_t bytes = s->model->n_weight * s->m.n_part * (int64_t)sizeof(float);
    int rc;

    if ((rc = zep_filework(comm, zep_filework_limit_s(bytes), write_shard, s, err)) < 0)
        return rc;
    if ((rc = zep_comm_gather(comm, 0, &s->mine, sizeof s->mine, s->m.shard, err)) < 0)
        return rc;
    return zep_filework(comm, zep_filework_limit_s(bytes), zep_comm_rank(comm) == 0 ? finish : NULL, s, err);
}

int zep_ckpt_save(struct zep_comm *comm, const char *rundir, const struct zep_ckpt_info *info, const struct zep_model *model, const struct zep_optim *optim, int keep,
                  int (*confirm)(void *arg, struct zep_error *err), void *arg, char name_out[64], int64_t *bytes_out, struct zep_error *err)
{
    int rank = zep_comm_rank(comm), size = zep_comm_size(comm), rc;
    char *root = zep_fs_join(rundir, "checkpoints");
    struct save s = {.root = root, .model = model, .optim = optim, .keep = keep, .confirm = confirm, .arg = arg};

    s.m = (struct zep_manifest){.info = *info, .n_part = optim->m ? 3 : 1, .n_shard = size};
    s.m.shard = rank == 0 ? zep_calloc((size_t)size, sizeof *s.m.shard) : NULL;
    rc = !root || (rank == 0 && !s.m.shard) ? zep_error_nomem(err, "checkpoint") : check_finite(info->step, model, optim, err);
    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = open_work(comm, &s, err)) < 0)
        goto out;
    if ((rc = write_all(comm, &s, err)) < 0) {
        if (rank == 0)
            zep_fs_remove_tree(s.work, NULL);
        goto out;
    }
    snprintf(name_out, 64, "step-%" PRId64, info->step);
    *bytes_out = 0;
    for (int i = 0; rank == 0 && i < size; i++)
        *bytes_out += s.m.shard[i].bytes;
out:
    free(s.m.shard);
    free(root);
    free(s.work);
    return rc;
}
