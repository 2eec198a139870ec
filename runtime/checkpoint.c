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
#include "common/fs.h"
#include "common/log.h"
#include "runtime/agree.h"
#include "runtime/filework.h"

#define TOKEN_LEN 16

/* Writing goes through these; each is file work of its own, so that it may go on beside a training step. */
enum stage { STAGE_NONE = 0, STAGE_SHARDS, STAGE_COMMIT, STAGE_DONE };

struct zep_ckpt_save {
    char *root;                 /* checkpoints/ */
    char *work_dir;             /* step-N.TOKEN */
    struct zep_ckpt_args args;
    struct zep_manifest m;      /* rank 0: with all shards */
    struct zep_shard mine;
    struct zep_shard_data data;
    enum stage stage;
    struct zep_filework *work;  /* of the stage; NULL: nothing to do here */
    int rank, started;          /* started: what starting the work returned */
    struct zep_error start_err;
};

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
    struct zep_ckpt_save *s = arg;
    char name[96], token[TOKEN_LEN + 1];
    int rc;

    if ((rc = zep_fs_mkdir_p(s->root, err)) < 0 || (rc = make_token(token, err)) < 0)
        return rc;
    snprintf(name, sizeof name, "step-%" PRId64 ".%s", s->m.info.step, token);
    if (!(s->work_dir = zep_fs_join(s->root, name)))
        return zep_error_nomem(err, "checkpoint");
    if (mkdir(s->work_dir, 0777) < 0)
        return zep_error_set(err, ZEP_EIO, "%s: %s", s->work_dir, strerror(errno));
    return ZEP_OK;
}

/* Rank 0 makes the folder; its path goes to all. */
static int open_work(struct zep_comm *comm, struct zep_ckpt_save *s, struct zep_error *err)
{
    void *path = NULL;
    size_t len = 0;
    int rc;

    if ((rc = zep_filework(comm, zep_filework_limit_s(0), s->rank == 0 ? make_work : NULL, s, err)) < 0)
        return rc;
    if (s->rank == 0) {
        path = s->work_dir;
        len = strlen(s->work_dir) + 1;
    }
    rc = zep_comm_bcast_blob(comm, 0, &path, &len, err);
    s->work_dir = path;
    return rc;
}

static int write_own(void *arg, struct zep_error *err)
{
    struct zep_ckpt_save *s = arg;

    return zep_shard_write(s->work_dir, s->rank, &s->data, &s->mine, err);
}

static int finish(void *arg, struct zep_error *err)
{
    struct zep_ckpt_save *s = arg;
    int rc;

    if (s->args.confirm && (rc = s->args.confirm(s->args.arg, err)) < 0)
        return rc;
    if ((rc = commit(s->root, s->work_dir, &s->m, s->args.model, err)) == ZEP_OK)
        prune(s->root, s->m.info.step, s->args.keep);
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
static int check_finite(int64_t step, const struct zep_model *model, const struct zep_shard_data *d, struct zep_error *err)
{
    static const char *const what[3] = {"weight", "first moment", "second moment"};

    for (int p = 0; p < d->n_part; p++) {
        int64_t at = first_bad(d->part[p], d->last - d->first);
        int t = 0;

        if (at < 0)
            continue;
        while (t + 1 < model->n_tensor && model->tensor[t + 1].offset <= d->first + at)
            t++;
        return zep_error_set(err, ZEP_EINTERNAL, "step %" PRId64 ": a %s of %s is %g: no checkpoint is written (is train.lr too high?)", step, what[p], model->tensor[t].name,
                             (double)d->part[p][at]);
    }
    return ZEP_OK;
}

static void free_save(struct zep_ckpt_save *s)
{
    free(s->m.shard);
    free(s->root);
    free(s->work_dir);
    free(s);
}

/* The next part of the work begins, on a thread. */
static void enter(struct zep_ckpt_save *s, enum stage stage, zep_filework_fn fn)
{
    int64_t bytes = s->args.model->n_weight * s->m.n_part * (int64_t)sizeof(float);

    s->stage = stage;
    s->work = NULL;
    s->started = fn ? zep_filework_start(zep_filework_limit_s(bytes), fn, s, &s->work, &s->start_err) : ZEP_OK;
}

static int new_save(struct zep_comm *comm, const struct zep_ckpt_args *args, struct zep_ckpt_save **out, struct zep_error *err)
{
    struct zep_ckpt_save *s = zep_calloc(1, sizeof *s);
    const struct zep_optim *o = args->optim;

    if (!s)
        return zep_error_nomem(err, "checkpoint");
    s->args = *args;
    s->rank = zep_comm_rank(comm);
    s->root = zep_fs_join(args->rundir, "checkpoints");
    s->m = (struct zep_manifest){.info = args->info, .n_part = o->m ? 3 : 1, .n_shard = zep_comm_size(comm)};
    s->m.shard = s->rank == 0 ? zep_calloc((size_t)s->m.n_shard, sizeof *s->m.shard) : NULL;
    s->data = (struct zep_shard_data){o->first[o->rank], o->first[o->rank + 1], s->m.n_part, {args->model->weight + o->first[o->rank], o->m, o->v}};
    if (!s->root || (s->rank == 0 && !s->m.shard)) {
        free_save(s);
        return zep_error_nomem(err, "checkpoint");
    }
    *out = s;
    return ZEP_OK;
}

static void copy_data(struct zep_shard_data *d, float *copy)
{
    size_t n = (size_t)(d->last - d->first);

    for (int i = 0; i < d->n_part; i++) {
        memcpy(copy + (size_t)i * n, d->part[i], n * sizeof *copy);
        d->part[i] = copy + (size_t)i * n;
    }
}

int zep_ckpt_begin(struct zep_comm *comm, const struct zep_ckpt_args *args, float *copy, struct zep_ckpt_save **save_out, struct zep_error *err)
{
    struct zep_ckpt_save *s = NULL;
    int rc = new_save(comm, args, &s, err);

    if (rc == ZEP_OK)
        rc = check_finite(args->info.step, args->model, &s->data, err);
    if ((rc = zep_agree(comm, rc, err)) < 0 || (rc = open_work(comm, s, err)) < 0) {
        if (s)
            free_save(s);
        return rc;
    }
    if (copy)
        copy_data(&s->data, copy);
    enter(s, STAGE_SHARDS, write_own);
    *save_out = s;
    return ZEP_OK;
}

int zep_ckpt_busy(const struct zep_ckpt_save *s)
{
    return s && zep_filework_busy(s->work);
}

static int advance(struct zep_comm *comm, struct zep_ckpt_save *s, struct zep_error *err)
{
    int rc;

    if (s->started < 0)
        *err = s->start_err;
    rc = zep_filework_end(comm, s->started, s->work, err);
    s->work = NULL;
    if (rc < 0)
        return rc;
    if (s->stage == STAGE_COMMIT) {
        s->stage = STAGE_DONE;
        return ZEP_OK;
    }
    if ((rc = zep_comm_gather(comm, 0, &s->mine, sizeof s->mine, s->m.shard, err)) < 0)
        return rc;
    enter(s, STAGE_COMMIT, s->rank == 0 ? finish : NULL);
    return ZEP_OK;
}

/* All ranks failed together: nothing of the new one stays. */
static int fail(struct zep_ckpt_save *s, int rc, struct zep_error *err)
{
    int rank = zep_agreed_rank(err);
    const char *text = rank < 0 ? err->text : strstr(err->text, ": ") + 2;

    if (s->rank == 0)
        zep_fs_remove_tree(s->work_dir, NULL);
    zep_error_set(err, rc, "checkpoint of step %" PRId64 ": %s", s->m.info.step, text);
    if (rank >= 0) /* stays in front: it says that all ranks have this error, so that one tells of it */
        zep_error_prefix(err, "rank %d", rank);
    free_save(s);
    return rc;
}

int zep_ckpt_advance(struct zep_comm *comm, struct zep_ckpt_save *s, int *done_out, struct zep_error *err)
{
    int rc = advance(comm, s, err);

    if (rc < 0)
        return fail(s, rc, err);
    *done_out = s->stage == STAGE_DONE;
    return ZEP_OK;
}

int zep_ckpt_end(struct zep_comm *comm, struct zep_ckpt_save *s, char name_out[64], int64_t *bytes_out, struct zep_error *err)
{
    int rc;

    while (s->stage != STAGE_DONE)
        if ((rc = advance(comm, s, err)) < 0)
            return fail(s, rc, err);
    snprintf(name_out, 64, "step-%" PRId64, s->m.info.step);
    *bytes_out = 0;
    for (int i = 0; s->rank == 0 && i < s->m.n_shard; i++)
        *bytes_out += s->m.shard[i].bytes;
    free_save(s);
    return ZEP_OK;
}

int zep_ckpt_save(struct zep_comm *comm, const struct zep_ckpt_args *args, char name_out[64], int64_t *bytes_out, struct zep_error *err)
{
    struct zep_ckpt_save *s;
    int rc = zep_ckpt_begin(comm, args, NULL, &s, err);

    return rc < 0 ? rc : zep_ckpt_end(comm, s, name_out, bytes_out, err);
}

void zep_ckpt_abandon(struct zep_ckpt_save *s)
{
    if (!s)
        return;
    zep_filework_abandon(s->work);
    free_save(s);
}
