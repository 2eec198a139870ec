#include "config.h"
#include "runtime/filework.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/arena.h"
#include "common/clock.h"
#include "runtime/agree.h"

#define BEAT_NS 200000000L

struct zep_filework {
    zep_filework_fn fn;
    void *arg;
    double end; /* clock: after it this rank says no more */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done; /* under lock; rc and err are the thread's until then */
    int rc;
    struct zep_error err;
};

static void *run(void *p)
{
    struct zep_filework *w = p;

    w->rc = w->fn(w->arg, &w->err);
    pthread_mutex_lock(&w->lock);
    w->done = 1;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals stay with the main thread: its waiting is what they are to reach. */
static int start_thread(struct zep_filework *w, struct zep_error *err)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code ? zep_error_set(err, ZEP_ENOMEM, "a thread for files: %s", strerror(code)) : ZEP_OK;
}

int zep_filework_start(double limit_s, zep_filework_fn fn, void *arg, struct zep_filework **work_out, struct zep_error *err)
{
    struct zep_filework *w = zep_calloc(1, sizeof *w);
    pthread_condattr_t attr;
    int rc;

    if (!w)
        return zep_error_nomem(err, "file work");
    w->fn = fn;
    w->arg = arg;
    w->end = zep_clock_now() + limit_s;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    if ((rc = start_thread(w, err)) < 0) {
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
        free(w);
        return rc;
    }
    *work_out = w;
    return ZEP_OK;
}

int zep_filework_busy(struct zep_filework *w)
{
    int busy;

    if (!w)
        return 0;
    pthread_mutex_lock(&w->lock);
    busy = !w->done;
    pthread_mutex_unlock(&w->lock);
    return busy;
}

/* Returns as soon as the work is done, or at the next beat; forever: only then. */
static int is_done(struct zep_filework *w, int forever)
{
    struct timespec at;
    int done, code = 0;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += BEAT_NS;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&w->lock);
    while (!w->done && code != ETIMEDOUT)
        code = forever ? pthread_cond_wait(&w->changed, &w->lock) : pthread_cond_timedwait(&w->changed, &w->lock, &at);
    done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

/* Rounds until nobody is busy. */
static int beat(struct zep_comm *comm, struct zep_filework *w, struct zep_error *err)
{
    uint32_t busy;
    int rc;

    do {
        busy = w && !is_done(w, zep_clock_now() > w->end);
        if ((rc = zep_comm_or_u32(comm, &busy, 1, err)) < 0)
            return rc;
    } while (busy);
    return ZEP_OK;
}

/* Waits for the thread; what it returned. */
static int join(struct zep_filework *w, struct zep_error *err)
{
    int rc;

    if (!w)
        return ZEP_OK;
    pthread_join(w->thread, NULL);
    rc = w->rc;
    if (rc < 0 && err)
        *err = w->err;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return rc;
}

int zep_filework_end(struct zep_comm *comm, int rc, struct zep_filework *w, struct zep_error *err)
{
    struct zep_error lost;
    int met = beat(comm, w, &lost), done = join(w, rc < 0 ? NULL : err);

    rc = rc < 0 ? rc : done;
    if (met < 0) {
        if (rc == ZEP_OK)
            *err = lost;
        return rc < 0 ? rc : met;
    }
    return zep_agree(comm, rc, err);
}

void zep_filework_abandon(struct zep_filework *w)
{
    join(w, NULL);
}

int zep_filework(struct zep_comm *comm, double limit_s, zep_filework_fn fn, void *arg, struct zep_error *err)
{
    struct zep_filework *w = NULL;
    int rc = fn ? zep_filework_start(limit_s, fn, arg, &w, err) : ZEP_OK;

    return zep_filework_end(comm, rc, w, err);
}

double zep_filework_limit_s(int64_t bytes)
{
    return 600.0 + (double)bytes / 1e7;
}
