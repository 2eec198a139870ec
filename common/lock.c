/* The lock of a run folder (design, section 12): made by O_EXCL, taken over only where the holder is known to be gone. */
#include "config.h"
#include "common/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/rng.h"
#include "common/squeue.h"

#define ASK_S 5.0 /* for the controller's word */
#define ABSENT_MS 20
#define ABSENT_TRIES 50

struct zep_lock {
    char *rundir, *path;
    char token[40];
};

struct holder {
    char token[40], host[256], boot[96], job[64], cluster[64];
    long pid;
    int64_t restart;
};

/* Host, boot and process namespace: where all three are equal a pid means the same. */
static void fill_self(struct holder *h)
{
    const char *job = getenv("SLURM_JOB_ID"), *restart = getenv("SLURM_RESTART_COUNT"), *cluster = getenv("SLURM_CLUSTER_NAME");
    unsigned char rnd[16] = {0};
    char ns[64] = "", *boot = NULL;
    size_t len;
    ssize_t n = readlink("/proc/self/ns/pid", ns, sizeof ns - 1);

    memset(h, 0, sizeof *h);
    if (getrandom(rnd, sizeof rnd, 0) != (ssize_t)sizeof rnd) {
        uint64_t x = zep_splitmix64((uint64_t)(zep_clock_wall() * 1e6)), y = zep_splitmix64(x ^ (uint64_t)getpid());

        memcpy(rnd, &x, sizeof x);
        memcpy(rnd + sizeof x, &y, sizeof y);
    }
    for (int i = 0; i < 16; i++)
        snprintf(h->token + 2 * i, 3, "%02x", rnd[i]);
    gethostname(h->host, sizeof h->host - 1);
    if (zep_fs_read("/proc/sys/kernel/random/boot_id", 0, &boot, &len, NULL) == ZEP_OK)
        boot[strcspn(boot, "\n")] = '\0';
    snprintf(h->boot, sizeof h->boot, "%.40s %.40s", boot ? boot : "", n > 0 ? ns : "");
    free(boot);
    snprintf(h->job, sizeof h->job, "%.60s", job ? job : "");
    snprintf(h->cluster, sizeof h->cluster, "%.60s", job && cluster ? cluster : "");
    h->restart = restart ? strtoll(restart, NULL, 10) : 0;
    h->pid = (long)getpid();
}

static int write_lock(const char *path, const struct holder *h, struct zep_error *err)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:f}", "format", "zeppelin-lock/1.0", "token", h->token, "host", h->host, "boot", h->boot, "pid", (json_int_t)h->pid, "job", h->job,
                          "cluster", h->cluster, "restart", (json_int_t)h->restart, "beat", zep_clock_wall());
    char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    int fd, rc = ZEP_OK;

    json_decref(j);
    if (!text)
        return zep_error_nomem(err, "lock");
    if ((fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0) {
        rc = zep_error_set(err, errno == EEXIST ? ZEP_EREFUSED : ZEP_EIO, "%s: %s", path, strerror(errno));
    } else {
        size_t len = strlen(text);

        if (write(fd, text, len) != (ssize_t)len || fsync(fd) < 0) {
            rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
            unlink(path);
        }
        close(fd);
    }
    free(text);
    return rc;
}

static void copy_text(const json_t *j, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(j, key));

    snprintf(out, size, "%s", s ? s : "");
}

/* 1 read, 0 there is none (any more), negative: cannot be read. */
static int read_lock(const char *path, struct holder *h, struct zep_error *err)
{
    char *text = NULL;
    size_t len;
    json_t *j;
    int rc;

    if (!zep_fs_exists(path))
        return 0;
    if ((rc = zep_fs_read(path, 1 << 16, &text, &len, err)) < 0)
        return rc == ZEP_ENOENT ? 0 : rc;
    memset(h, 0, sizeof *h);
    if ((j = json_loadb(text, len, 0, NULL))) {
        copy_text(j, "token", h->token, sizeof h->token);
        copy_text(j, "host", h->host, sizeof h->host);
        copy_text(j, "boot", h->boot, sizeof h->boot);
        copy_text(j, "job", h->job, sizeof h->job);
        copy_text(j, "cluster", h->cluster, sizeof h->cluster);
        h->pid = (long)json_integer_value(json_object_get(j, "pid"));
        h->restart = json_integer_value(json_object_get(j, "restart"));
    }
    json_decref(j);
    free(text);
    return 1;
}

/* Job ids mean something on their own cluster only. A holder that names none is of the cluster that answers. */
static int same_cluster(const struct holder *holder, const struct holder *self)
{
    char name[64];

    if (!*holder->cluster)
        return 1;
    if (*self->cluster)
        return !strcmp(holder->cluster, self->cluster);
    return zep_squeue_cluster(ASK_S, name, sizeof name) == ZEP_OK && !strcmp(holder->cluster, name);
}

/* By the controller's word only. */
static int job_has_ended(const struct holder *holder, const struct holder *self)
{
    char word[32];

    return *holder->job && same_cluster(holder, self) && zep_squeue_job(holder->job, ASK_S, word, sizeof word) == ZEP_JOB_ENDED;
}

/* Where host, boot and process namespace are ours, the pid tells. */
static int same_place(const struct holder *holder, const struct holder *self)
{
    return !strcmp(holder->host, self->host) && *holder->boot && !strcmp(holder->boot, self->boot) && holder->pid > 0;
}

static int lives(const struct holder *holder)
{
    return kill((pid_t)holder->pid, 0) == 0 || errno != ESRCH;
}

static int is_gone(const struct holder *holder, const struct holder *self)
{
    if (*self->job && !strcmp(holder->job, self->job) && !strcmp(holder->cluster, self->cluster) && self->restart > holder->restart)
        return 1;
    if (same_place(holder, self))
        return !lives(holder);
    return job_has_ended(holder, self);
}

static int refuse(const char *rundir, const struct holder *h, struct zep_error *err)
{
    char job[96] = "";

    if (*h->job)
        snprintf(job, sizeof job, ", job %s", h->job);
    return zep_error_set(err, ZEP_EREFUSED, "%s is in use by process %ld on %s%s: --break-lock takes it over if that run is gone for sure", rundir, h->pid, *h->host ? h->host : "an unknown host", job);
}

/* Without hard links a rename must do; it would replace a lock that a third process made in that moment, so it comes only where there is none. */
static void put_back(const char *aside, const char *path)
{
    if (link(aside, path) < 0 && errno != EEXIST && !zep_fs_exists(path))
        rename(aside, path);
}

/* Sets the old lock aside; whoever renames it first goes on. */
static int set_aside(const char *path, const struct holder *old, const struct holder *self, struct zep_error *err)
{
    struct zep_buf aside = ZEP_BUF_INIT;
    struct holder moved;
    int rc;

    zep_buf_printf(&aside, "%s.%s", path, self->token);
    if ((rc = zep_buf_ok(&aside, err)) < 0)
        return rc;
    if (rename(path, aside.data) < 0) {
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: another process took the lock over", path);
    } else if (read_lock(aside.data, &moved, err) != 1 || strcmp(moved.token, old->token)) { /* another one's, or it cannot be said whose */
        put_back(aside.data, path);
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: another process took the lock over", path);
    }
    unlink(aside.data);
    zep_buf_free(&aside);
    return rc;
}

static void free_lock(struct zep_lock *lock)
{
    if (!lock)
        return;
    free(lock->rundir);
    free(lock->path);
    free(lock);
}

int zep_lock_take(const char *rundir, int break_lock, struct zep_lock **lock_out, struct zep_error *err)
{
    struct zep_lock *lock = zep_calloc(1, sizeof *lock);
    struct holder self, old;
    int rc;

    if (!lock || !(lock->rundir = strdup(rundir)) || !(lock->path = zep_fs_join(rundir, "lock"))) {
        free_lock(lock);
        return zep_error_nomem(err, "lock");
    }
    fill_self(&self);
    for (int try = 0; try < 3; try++) {
        if ((rc = write_lock(lock->path, &self, err)) != ZEP_EREFUSED)
            break;
        if ((rc = read_lock(lock->path, &old, err)) < 0)
            break;
        if (rc == 0)
            continue;
        if (!break_lock && !is_gone(&old, &self)) {
            rc = refuse(rundir, &old, err);
            break;
        }
        if ((rc = set_aside(lock->path, &old, &self, err)) < 0)
            break;
        rc = ZEP_EREFUSED;
    }
    if (rc < 0) {
        free_lock(lock);
        return rc;
    }
    memcpy(lock->token, self.token, sizeof lock->token);
    *lock_out = lock;
    return ZEP_OK;
}

/* Somebody who found the lock stale, but came too late, takes it away for a moment and puts it back. */
int zep_lock_confirm_token(const char *rundir, const char *token, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "lock");
    struct holder now = {0};
    int rc = 0;

    if (!path)
        return zep_error_nomem(err, "lock");
    for (int try = 0; try < ABSENT_TRIES && (rc = read_lock(path, &now, err)) == 0; try++)
        poll(NULL, 0, ABSENT_MS);
    if (rc > 0 && !strcmp(now.token, token))
        rc = ZEP_OK;
    else if (rc > 0)
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: the lock was taken over by process %ld on %s", path, now.pid, *now.host ? now.host : "an unknown host");
    else if (rc == 0)
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: the lock is gone: the run was taken over, or its launcher has ended", path);
    else
        rc = zep_error_prefix(err, "the run's lock cannot be read");
    free(path);
    return rc;
}

int zep_lock_confirm(struct zep_lock *lock, struct zep_error *err)
{
    return zep_lock_confirm_token(lock->rundir, lock->token, err);
}

int zep_lock_look(const char *rundir, struct zep_lock_holder *out, struct zep_error *err)
{
    char *path = zep_fs_join(rundir, "lock");
    struct holder self, held;
    int rc = path ? read_lock(path, &held, err) : zep_error_nomem(err, "lock");

    free(path);
    if (rc <= 0)
        return rc;
    fill_self(&self);
    memcpy(out->host, held.host, sizeof out->host);
    memcpy(out->job, held.job, sizeof out->job);
    memcpy(out->cluster, held.cluster, sizeof out->cluster);
    out->pid = held.pid;
    out->alive = same_place(&held, &self) ? lives(&held) : -1;
    return 1;
}

const char *zep_lock_token(const struct zep_lock *lock)
{
    return lock->token;
}

void zep_lock_release(struct zep_lock *lock)
{
    if (!lock)
        return;
    if (zep_lock_confirm(lock, NULL) == ZEP_OK)
        unlink(lock->path);
    free_lock(lock);
}
