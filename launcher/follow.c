#include "config.h"
#include "launcher/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/squeue.h"
#include "launcher/inputs.h"
#include "launcher/postmortem.h"
#include "launcher/progress.h"

#define TICK_MS 200
#define ASK_AGAIN_S 1.0
#define END_STEP_S 60.0
#define ONE_REQUEST_S 2.0
#define N_SIG 4

static const int stop_sigs[N_SIG] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

static volatile sig_atomic_t n_stop, stop_signal;

static void on_signal(int sig)
{
    stop_signal = sig;
    n_stop++;
}

struct follow {
    const struct zep_follow_args *args;
    pid_t pid;
    int pipe, log;
    struct zep_buf line;
    char *outcome;      /* path */
    struct zep_postmortem pm;
    struct zep_progress_reader *progress;
    int n_seen;         /* requests to stop that were noticed */
    double stop_at;     /* when the first one came */
    double asked_at;    /* when the ranks were asked last */
    int killed;         /* 0, 1: told to end, 2: killed */
    int late;           /* because the ranks did not come up */
    double began;
    int status;
};

void zep_follow_catch(void)
{
    static int caught;
    struct sigaction sa = {.sa_handler = on_signal}, old;

    if (caught)
        return;
    caught = 1;
    sigemptyset(&sa.sa_mask);
    for (int i = 0; i < N_SIG; i++) {
        sigaction(stop_sigs[i], NULL, &old);
        if (stop_sigs[i] != SIGHUP || old.sa_handler != SIG_IGN) /* nohup */
            sigaction(stop_sigs[i], &sa, NULL);
    }
}

/* In the child. However this process ends, the ranks' launcher gets a SIGTERM then, and ends them: ranks that train on would be two runs in one folder with the next attempt. */
static void become_launcher(const struct follow *f, pid_t parent, int out)
{
    int null = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    dup2(null, 0);
    dup2(out, 1);
    dup2(out, 2);
    for (int i = 0; i < N_SIG; i++)
        signal(stop_sigs[i], SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    if (f->args->secrets)
        zep_secrets_set(f->args->secrets);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() != parent)
        _exit(126);
    execvp(f->args->argv[0], f->args->argv);
}

/* The child has its own process group: a terminal's interrupt reaches the ranks through us only, and what is left of it can be ended as a whole. */
static int start(struct follow *f, struct zep_error *err)
{
    int out[2], fail[2], code = 0;
    pid_t self = getpid();

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(fail, O_CLOEXEC) < 0)
        return zep_error_set(err, ZEP_EIO, "pipe: %s", strerror(errno));
    if ((f->pid = fork()) < 0)
        return zep_error_set(err, ZEP_EIO, "fork: %s", strerror(errno));
    if (f->pid == 0) {
        become_launcher(f, self, out[1]);
        code = errno;
        if (write(fail[1], &code, sizeof code) < 0)
            _exit(126);
        _exit(127);
    }
    setpgid(f->pid, f->pid);
    close(out[1]);
    close(fail[1]);
    f->pipe = out[0];
    if (read(fail[0], &code, sizeof code) == (ssize_t)sizeof code) {
        close(fail[0]);
        waitpid(f->pid, NULL, 0);
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: %s", f->args->argv[0], strerror(code));
    }
    close(fail[0]);
    return ZEP_OK;
}

/* Ranks' own messages go on to the user; the rest only into the log. */
static void take_line(struct follow *f, const char *line)
{
    if (zep_postmortem_line(&f->pm, line))
        return;
    if (f->log >= 0 && dprintf(f->log, "%s\n", line) < 0) { /* a full disk must not stop the training */
        close(f->log);
        f->log = -1;
    }
    if (!strncmp(line, "zeppelin-rank", 13)) {
        zep_progress_end();
        fprintf(stderr, "%s\n", line);
    }
}

/* 1 more may come, 0 the end. */
static int take_output(struct follow *f)
{
    char chunk[4096];
    ssize_t n = read(f->pipe, chunk, sizeof chunk);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    for (ssize_t i = 0; i < n; i++) {
        if (chunk[i] != '\n') {
            zep_buf_add(&f->line, &chunk[i], 1);
            continue;
        }
        take_line(f, f->line.data ? f->line.data : "");
        f->line.len = 0;
        if (f->line.data)
            f->line.data[0] = '\0';
    }
    return n > 0;
}

/* Ranks that are still starting have no handler yet, and their launcher would swallow the signal or die of it: they are asked when they are known to train, and again until they end (a
 * rank only sets a bit). */
static void ask_ranks(struct follow *f, double now)
{
    if (!f->n_seen || f->killed || now - f->asked_at < ASK_AGAIN_S || !zep_progress_started(f->progress) || zep_fs_exists(f->outcome))
        return;
    kill(f->pid, SIGUSR1);
    f->asked_at = now;
}

/* Ranks that wait for a node which does not answer, or ssh to it, would do so for ever. */
static void check_start(struct follow *f, double now)
{
    double limit = f->args->job->cluster.start_s;

    if (f->killed || f->pm.up || now - f->began < limit || zep_progress_started(f->progress) || zep_fs_exists(f->outcome))
        return;
    f->late = f->killed = 1;
    f->stop_at = now;
    zep_log(ZEP_LOG_WARN, "the ranks are not up after %.0f s (cluster.start): ending them", limit);
    kill(f->pid, SIGTERM);
}

/* The first request to stop becomes the ranks' SIGUSR1 (stop after this step, with a checkpoint); a second interrupt, or the end of the grace, ends them. */
static void pass_signals(struct follow *f)
{
    double now = zep_clock_now();

    if (n_stop > f->n_seen) {
        if (!f->n_seen) {
            f->stop_at = now;
            zep_progress_end();
            zep_log(ZEP_LOG_INFO, "%s: stopping after this step, with a checkpoint", strsignal(stop_signal));
        } else if (stop_signal == SIGTERM && now - f->stop_at < ONE_REQUEST_S) {
            ; /* Slurm sends it to all processes of a job, and the batch script passes on what it got */
        } else if (stop_signal != SIGUSR1 && stop_signal != SIGHUP && !f->killed) { /* a shell and the kernel may both send a hang-up */
            zep_log(ZEP_LOG_WARN, "%s again: ending the ranks now", strsignal(stop_signal));
            kill(f->pid, SIGTERM);
            f->killed = 1;
            f->stop_at = now;
        }
        f->n_seen = n_stop;
    }
    ask_ranks(f, now);
    check_start(f, now);
    if (f->n_seen && !f->killed && now - f->stop_at > f->args->job->cluster.grace_s) {
        zep_log(ZEP_LOG_WARN, "the step and its checkpoint did not end within the grace of %.0f s (cluster.grace): ending the ranks", f->args->job->cluster.grace_s);
        kill(f->pid, SIGTERM);
        f->killed = 1;
        f->stop_at = now;
    }
    if (f->killed == 1 && now - f->stop_at > 10) {
        kill(-f->pid, SIGKILL);
        f->killed = 2;
    }
}

static void watch(struct follow *f)
{
    struct pollfd fd = {.fd = f->pipe, .events = POLLIN};
    int open = 1, running = 1;
    double ended = 0;

    while (running || (open && zep_clock_now() - ended < 2)) { /* an orphan may hold the pipe */
        if (open && poll(&fd, 1, TICK_MS) > 0)
            open = take_output(f);
        else if (!open)
            poll(NULL, 0, TICK_MS);
        if (running)
            pass_signals(f);
        zep_progress_read(f->progress);
        if (running && waitpid(f->pid, &f->status, WNOHANG) == f->pid) {
            running = 0;
            ended = zep_clock_now();
        }
    }
    if (f->line.len)
        take_line(f, f->line.data);
    zep_progress_read(f->progress);
    kill(-f->pid, SIGKILL); /* what outlived its launcher in its group; ranks are in groups of their own, and end when their parent does */
}

/* srun's or mpirun's end is not that of the step: ranks whose srun was killed train on. Before the run folder is given back they are ended. */
static void end_step(const struct follow *f)
{
    const char *jobid = zep_inputs_slurm_job();
    struct zep_error err;

    if (!*f->args->step || !jobid || f->status == 0)
        return;
    if (zep_squeue_end_step(jobid, f->args->step, END_STEP_S, &err) < 0)
        zep_log(ZEP_LOG_WARN, "ranks may still run: %s", err.text);
}

static int exit_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Ranks that had an error of their own, but could not write their outcome (a full disk), end with its exit status. */
static int status_of_error(int exit_status)
{
    static const int known[] = {ZEP_EINVAL, ZEP_EUNAVAIL, ZEP_EREFUSED, ZEP_EPEER};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (exit_status == zep_exit_status(known[i]))
            return known[i];
    return ZEP_EIO;
}

/* Ranks that were lost could not say so: the launcher's words and the last records do. */
static void make_outcome(struct follow *f, struct zep_outcome *o)
{
    struct zep_outcome guess = {.attempt = f->args->attempt, .status = ZEP_EPEER, .rank = f->pm.rank};

    if (f->pm.rank < 0 && !f->pm.n_tail && !f->killed)
        guess.status = ZEP_EINTERNAL;
    if (f->pm.rank < 0 && f->pm.n_tail && !zep_progress_started(f->progress))
        guess.status = ZEP_EUNAVAIL; /* never came up */
    if (f->pm.rank < 0 && *f->pm.error && !f->killed)
        guess.status = status_of_error(exit_of(f->status));
    snprintf(guess.phase, sizeof guess.phase, "%s", f->pm.phase);
    snprintf(guess.host, sizeof guess.host, "%.127s", f->pm.host);
    if (f->late) {
        guess.status = ZEP_EUNAVAIL;
        snprintf(guess.cause, sizeof guess.cause, "the ranks did not come up within %.0f s (cluster.start): does a node, or ssh to it, not answer?%s%s", f->args->job->cluster.start_s, f->pm.n_tail ? " The last line was: " : "",
                 f->pm.n_tail ? f->pm.tail[(f->pm.n_tail - 1) % 8] : "");
    } else if (f->killed)
        snprintf(guess.cause, sizeof guess.cause, "ended before the step and its checkpoint were done");
    else
        zep_postmortem_text(&f->pm, exit_of(f->status), guess.cause, (int)sizeof guess.cause);
    guess.step = zep_progress_last(f->progress, guess.checkpoint, sizeof guess.checkpoint);
    /* a network file system may have hidden the ranks' own word until now: it counts */
    if (zep_outcome_write_first(f->args->rundir, &guess, NULL) == ZEP_EREFUSED && zep_outcome_read(f->args->rundir, o, NULL) == ZEP_OK && o->attempt == guess.attempt)
        return;
    *o = guess; /* on a full disk it is known here only */
    if (!*f->pm.error || f->pm.rank >= 0 || f->killed) /* else the rank said it */
        zep_log(ZEP_LOG_ERROR, "%s", o->cause);
}

/* A rank that only lost its peers may have told of it first, or have written it without being heard any more: which one was lost, and where, is known from the launcher's words. */
static void complete_outcome(struct follow *f, struct zep_outcome *o)
{
    int told = *f->pm.error != '\0';

    if (o->status == ZEP_OK || o->status == ZEP_ESTOPPED)
        return;
    if (o->status == ZEP_EPEER && f->pm.rank >= 0) {
        if (!*f->pm.phase)
            snprintf(f->pm.phase, sizeof f->pm.phase, "%s", o->phase);
        zep_postmortem_text(&f->pm, exit_of(f->status), o->cause, (int)sizeof o->cause);
        snprintf(o->host, sizeof o->host, "%.127s", f->pm.host);
        zep_outcome_amend(f->args->rundir, o, NULL); /* where that fails the rank's own word stays */
        zep_log(told ? ZEP_LOG_INFO : ZEP_LOG_ERROR, "%s", o->cause);
    } else if (!told && o->rank >= 0) {
        zep_log(ZEP_LOG_ERROR, "rank %d, in phase %s: %s", o->rank, o->phase, o->cause);
    } else if (!told) {
        zep_log(ZEP_LOG_ERROR, "%s", o->cause);
    }
}

int zep_follow(const struct zep_follow_args *a, struct zep_follow_end *end, struct zep_error *err)
{
    struct follow f = {.args = a, .pipe = -1, .log = -1};
    char *log = zep_fs_join(a->rundir, "log");
    int rc;

    f.outcome = zep_fs_join(a->rundir, "outcome.json");
    if (!log || !f.outcome || !(f.progress = zep_progress_open(a->rundir, a->attempt, a->job))) {
        free(log);
        free(f.outcome);
        return zep_error_nomem(err, "progress");
    }
    zep_postmortem_init(&f.pm);
    f.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    free(log);
    zep_follow_catch();
    f.began = zep_clock_now();
    if ((rc = start(&f, err)) == ZEP_OK) {
        watch(&f);
        end_step(&f);
        zep_progress_end();
        if (zep_outcome_read(a->rundir, &end->outcome, NULL) < 0 || end->outcome.attempt != a->attempt)
            make_outcome(&f, &end->outcome);
        else
            complete_outcome(&f, &end->outcome);
        end->started = zep_progress_started(f.progress) || end->outcome.status == ZEP_OK || end->outcome.status == ZEP_ESTOPPED;
        end->signal = f.killed && f.n_seen > 1 ? (int)stop_signal : 0;
    }
    zep_progress_close(f.progress);
    zep_buf_free(&f.line);
    free(f.outcome);
    if (f.pipe >= 0)
        close(f.pipe);
    if (f.log >= 0)
        close(f.log);
    return rc;
}
