#include "config.h"
#include "runtime/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/clock.h"
#include "runtime/agree.h"

#define NO_STEP (-1)

struct blob { /* rank 0: the documents of a step */
    int64_t step;
    void *data;
    size_t bytes;
    int rc;
    struct zep_error err;
};

struct slot { /* a step whose batch all ranks have, or whose failure all ranks know */
    int64_t step;
    struct zep_batch batch;
    struct zep_plans plans;
    double work_s;
    int rc, shared_failure; /* shared: it failed before it came to planning, and all ranks have the same text */
    struct zep_error err;
};

struct zep_ahead {
    struct zep_ahead_opts o;
    struct slot next; /* the thread's while it is busy; likewise blob and batches */
    struct blob blob;
    int64_t read;     /* the step to read, NO_STEP: none */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int started, planned, busy, quit; /* under lock */
};

/* --- what the thread does, and without one, the caller --- */

static void read_blob(struct zep_ahead *a, int64_t step)
{
    struct blob *b = &a->blob;
    const int32_t *doc;
    int n;

    b->step = step;
    b->data = NULL;
    if ((b->rc = zep_batches_get(a->o.batches, step, &doc, &n, &b->err)) == ZEP_OK)
        b->rc = zep_batch_read(a->o.set, a->o.vocab, doc, n, &b->data, &b->bytes, &b->err);
}

static void plan_slot(struct zep_ahead *a, struct slot *s)
{
    double t0 = zep_clock_now();

    s->rc = zep_plans_make(&a->o.how, &s->batch, &s->plans, &s->err);
    s->work_s = zep_clock_now() - t0;
}

static void *work(void *arg)
{
    struct zep_ahead *a = arg;

    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->busy && !a->quit)
            pthread_cond_wait(&a->changed, &a->lock);
        if (!a->busy)
            break;
        pthread_mutex_unlock(&a->lock);
        if (!a->next.shared_failure)
            plan_slot(a, &a->next);
        pthread_mutex_lock(&a->lock);
        a->planned = 1;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        if (a->read != NO_STEP)
            read_blob(a, a->read);
        pthread_mutex_lock(&a->lock);
        a->busy = 0;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Signals stay with the threads that wait for them. */
static int start_thread(struct zep_ahead *a, struct zep_error *err)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&a->thread, NULL, work, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code)
        return zep_error_set(err, ZEP_ENOMEM, "a thread for planning ahead: %s (plan.ahead: false does without)", strerror(code));
    a->started = 1;
    return ZEP_OK;
}

static void post(struct zep_ahead *a, int64_t read)
{
    a->read = read;
    pthread_mutex_lock(&a->lock);
    a->planned = 0;
    a->busy = 1;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

/* Until the plans are there, or all that was posted is done. Returns 1 where it was so already. */
static int await(struct zep_ahead *a, int all)
{
    int ready;

    if (!a->started)
        return 1;
    pthread_mutex_lock(&a->lock);
    ready = !a->busy || (!all && a->planned);
    while (a->busy && (all || !a->planned))
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return ready;
}

/* --- steps --- */

static void empty_slot(struct slot *s)
{
    zep_batch_free(&s->batch);
    zep_plans_free(&s->plans);
    memset(s, 0, sizeof *s);
    s->step = NO_STEP;
}

/* The batch of a step into the slot, on all ranks. A failure to read is the slot's; only one to send is ours. */
static int share(struct zep_ahead *a, int64_t step, struct zep_error *err)
{
    struct blob *b = &a->blob;
    struct slot *s = &a->next;
    void *data = NULL;
    size_t bytes = 0;
    int rc = ZEP_OK;

    empty_slot(s);
    if (zep_comm_rank(a->o.comm) == 0) {
        if (b->step != step) {
            free(b->data);
            read_blob(a, step);
        }
        data = b->data;
        bytes = b->bytes;
        rc = b->rc;
        s->err = b->err;
        b->data = NULL;
        b->step = NO_STEP;
    }
    s->rc = zep_batch_send(a->o.comm, rc, data, bytes, &s->batch, &s->err);
    if (s->rc < 0 && zep_agreed_rank(&s->err) < 0) {
        *err = s->err;
        return s->rc;
    }
    s->shared_failure = s->rc < 0;
    s->step = step;
    return ZEP_OK;
}

/* While the step runs: the plans of the next one, and the documents of the one after that. */
static int look_ahead(struct zep_ahead *a, int64_t next, struct zep_error *err)
{
    int rc;

    if (!a->started || next >= a->o.end)
        return ZEP_OK;
    if ((rc = share(a, next, err)) < 0)
        return rc;
    post(a, zep_comm_rank(a->o.comm) == 0 && next + 1 < a->o.end ? next + 1 : NO_STEP);
    return ZEP_OK;
}

int zep_ahead_take(struct zep_ahead *a, int64_t step, struct zep_step_input *out, struct zep_error *err)
{
    struct zep_step_input in = {0};
    double t0 = zep_clock_now();
    int rc;

    if (a->next.step == step) {
        in.ready = await(a, 0);
        await(a, 1);
        in.wait_s = zep_clock_now() - t0;
    } else {
        await(a, 1);
        if ((rc = share(a, step, err)) < 0)
            return rc;
        if (!a->next.shared_failure)
            plan_slot(a, &a->next);
        in.wait_s = a->next.work_s;
    }
    in.batch = a->next.batch;
    in.plans = a->next.plans;
    in.work_s = a->next.work_s;
    rc = a->next.rc;
    if (rc < 0)
        *err = a->next.err;
    memset(&a->next.batch, 0, sizeof a->next.batch);
    memset(&a->next.plans, 0, sizeof a->next.plans);
    if (!a->next.shared_failure && (rc = zep_agree(a->o.comm, rc, err)) == ZEP_OK)
        rc = zep_agree_value(a->o.comm, in.plans.digest, "plan digest", err);
    empty_slot(&a->next);
    if (rc == ZEP_OK)
        rc = look_ahead(a, step + 1, err);
    if (rc < 0)
        zep_step_input_free(&in);
    else
        *out = in;
    return rc;
}

void zep_step_input_free(struct zep_step_input *in)
{
    zep_batch_free(&in->batch);
    zep_plans_free(&in->plans);
    memset(in, 0, sizeof *in);
}

int zep_ahead_ready(struct zep_ahead *a)
{
    int ready;

    pthread_mutex_lock(&a->lock);
    ready = a->started && a->planned;
    pthread_mutex_unlock(&a->lock);
    return ready;
}

int zep_ahead_new(const struct zep_ahead_opts *opts, struct zep_ahead **out, struct zep_error *err)
{
    struct zep_ahead *a = zep_calloc(1, sizeof *a);
    int rc;

    if (!a)
        return zep_error_nomem(err, "planning ahead");
    a->o = *opts;
    a->next.step = a->blob.step = NO_STEP;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    if (opts->on && (rc = start_thread(a, err)) < 0) {
        zep_ahead_free(a);
        return rc;
    }
    *out = a;
    return ZEP_OK;
}

void zep_ahead_free(struct zep_ahead *a)
{
    if (!a)
        return;
    if (a->started) {
        await(a, 1);
        pthread_mutex_lock(&a->lock);
        a->quit = 1;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    empty_slot(&a->next);
    free(a->blob.data);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
    free(a);
}
