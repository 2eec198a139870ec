#include "config.h"
#include "runtime/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/arena.h"
#include "runtime/train.h"

struct zep_stopper {
    pthread_t thread;
    atomic_uint bits;
    atomic_int ending;
    pid_t parent; /* mpirun, its daemon on this node, or slurmstepd */
    pthread_mutex_t mutex;
    const struct zep_comm *comm; /* under mutex: it is not freed while its phase is told */
};

/* SIGTERM is also what mpirun and srun send to the ranks that are left when one was lost, a moment before they kill them: the last that can be said is where this rank stood.
 * The launcher reads this line and shows it in its own words. */
static void say_phase(struct zep_stopper *s)
{
    const char *phase;
    char line[96] = "zeppelin-rank-phase: ";
    size_t n = strlen(line);

    pthread_mutex_lock(&s->mutex);
    phase = s->comm ? zep_comm_phase(s->comm) : NULL;
    for (; phase && *phase && n < sizeof line - 1; phase++)
        line[n++] = *phase;
    line[n++] = '\n';
    if (phase && write(STDERR_FILENO, line, n) < 0)
        phase = NULL; /* nobody is left to tell */
    pthread_mutex_unlock(&s->mutex);
}

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGRTMIN); /* the parent has ended */
}

static void *wait_for_signals(void *arg)
{
    struct zep_stopper *s = arg;
    sigset_t set;
    int sig;

    stop_signals(&set);
    while (sigwait(&set, &sig) == 0 && !atomic_load(&s->ending)) {
        if (sig == SIGRTMIN) {
            /* The kernel tells of the parent's threads, too: mpirun may start ranks from one that ends before they do. */
            if (getppid() != s->parent)
                _exit(1);
            continue;
        }
        if (sig == SIGTERM)
            say_phase(s);
        atomic_fetch_or(&s->bits, sig == SIGUSR1 ? ZEP_STOP_REQUEUE : ZEP_STOP_END);
    }
    return NULL;
}

int zep_stopper_start(struct zep_stopper **out, struct zep_error *err)
{
    struct zep_stopper *s = zep_calloc(1, sizeof *s);
    sigset_t set;
    int rc;

    if (!s)
        return zep_error_nomem(err, "signals");
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_mutex_init(&s->mutex, NULL);
    s->parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGRTMIN);
    if ((rc = pthread_create(&s->thread, NULL, wait_for_signals, s)) != 0) {
        pthread_mutex_destroy(&s->mutex);
        free(s);
        return zep_error_set(err, ZEP_EUNAVAIL, "thread for signals: %s", strerror(rc));
    }
    *out = s;
    return ZEP_OK;
}

void zep_stopper_end(struct zep_stopper *s)
{
    if (!s)
        return;
    atomic_store(&s->ending, 1);
    pthread_kill(s->thread, SIGUSR1);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

void zep_stopper_watch(struct zep_stopper *s, const struct zep_comm *comm)
{
    pthread_mutex_lock(&s->mutex);
    s->comm = comm;
    pthread_mutex_unlock(&s->mutex);
}

unsigned zep_stopper_bits(const struct zep_stopper *s)
{
    return atomic_load(&s->bits);
}
