#include "config.h"
#include "runtime/filework.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "runtime/agree.h"

#define BEAT_NS 200000000L

struct work {
    zep_filework_fn fn;
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done; /* under lock; rc and err are the thread's until then */
    int rc;
    struct zep_error err;
};

static void *run(void *p)
{
    struct work *w = p;

    w->rc = w->fn(w->arg, &w->err);
    pthread_mutex_lock(&w->lock);
    w->done = 1;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals stay with the main thread: its waiting is what they are to reach. */
static int start(struct work *w, struct zep_error *err)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code ? zep_error_set(err, ZEP_ENOMEM, "a thread for files: %s", strerror(code)) : ZEP_OK;
}

/* Returns as soon as the work is done, or at the next beat; forever: only then. */
static int is_done(struct work *w, int forever)
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
static int beat(struct zep_comm *comm, double limit_s, struct work *w, struct zep_error *err)
{
    double end = zep_clock_now() + limit_s;
    uint32_t busy;
    int rc;

    do {
        busy = !is_done(w, zep_clock_now() > end);
        if ((rc = zep_comm_or_u32(comm, &busy, 1, err)) < 0)
            return rc;
    } while (busy);
    return ZEP_OK;
}

int zep_filework(struct zep_comm *comm, double limit_s, zep_filework_fn fn, void *arg, struct zep_error *err)
{
    struct work w = {.fn = fn, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER, .done = fn == NULL};
    pthread_condattr_t attr;
    int started = 0, rc;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w.changed, &attr);
    pthread_condattr_destroy(&attr);
    if (fn && (w.rc = start(&w, &w.err)) == ZEP_OK)
        started = 1;
    else
        w.done = 1;
    rc = beat(comm, limit_s, &w, err);
    if (started)
        pthread_join(w.thread, NULL);
    pthread_cond_destroy(&w.changed);
    if (w.rc < 0)
        *err = w.err;
    if (rc < 0)
        return w.rc < 0 ? w.rc : rc;
    return zep_agree(comm, w.rc, err);
}

double zep_filework_limit_s(int64_t bytes)
{
    return 600.0 + (double)bytes / 1e7;
}
