#include "config.h"
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/encode.h"

#define MAX_OUTPUT ((size_t)256 << 20)

extern char **environ;

static void drop_variables(const char *const *prefixes)
{
    char **keep = environ;

    for (char **e = environ; *e; e++) {
        int dropped = 0;

        for (int i = 0; prefixes[i] && !dropped; i++)
            dropped = !strncmp(*e, prefixes[i], strlen(prefixes[i]));
        if (!dropped)
            *keep++ = *e;
    }
    *keep = NULL;
}

/* In the child: never returns. A failure to start is reported through fd as errno. */
static void start(char *const argv[], const char *const *without, int out, int errfd, int report)
{
    int null = open("/dev/null", O_RDONLY);
    sigset_t none;

    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (without)
        drop_variables(without);
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(out, 1) >= 0 && dup2(errfd, 2) >= 0)
        execvp(argv[0], argv);
    int e = errno;
    ssize_t n = write(report, &e, sizeof e);
    (void)n;
    _exit(127);
}

static int drain(int fd, struct zep_buf *b)
{
    char data[65536];
    ssize_t n = read(fd, data, sizeof data);

    if (n > 0 && b->len + (size_t)n <= MAX_OUTPUT)
        zep_buf_add(b, data, (size_t)n);
    else if (n > 0)
        return -1;
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Reads both pipes until they end or the time is over; then waits for the program within the same time. Returns 0, or -1 for too much output. */
static int follow(pid_t pid, int fds[2], double deadline, struct zep_buf text[2], struct zep_process_result *r)
{
    struct pollfd p[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    int status = 0, done = 0, rc = 0;

    while (!done || p[0].fd >= 0 || p[1].fd >= 0) {
        double left = deadline - zep_clock_now();

        if (!done && waitpid(pid, &status, WNOHANG) == pid)
            done = 1;
        if (left <= 0.0)
            break;
        if (p[0].fd < 0 && p[1].fd < 0 && !done) {
            struct timespec nap = {0, 2000000};

            nanosleep(&nap, NULL);
            continue;
        }
        if (done && poll(p, 2, 0) == 0)
            break; /* what a grandchild may still write is not ours */
        poll(p, 2, left > 0.05 ? 50 : (int)(left * 1000.0) + 1);
        for (int i = 0; i < 2; i++) {
            int more = p[i].fd >= 0 && p[i].revents ? drain(p[i].fd, &text[i]) : 1;

            if (more <= 0)
                p[i].fd = -1;
            if (more < 0)
                rc = -1;
        }
        if (rc < 0)
            break;
    }
    if (!done) {
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        r->timed_out = rc == 0;
    }
    r->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return rc;
}

static void close_all(int *fd, int n)
{
    for (int i = 0; i < n; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

int zep_process_run(char *const argv[], double time_s, struct zep_process_result *out, struct zep_error *err)
{
    return zep_process_run_without(argv, NULL, time_s, out, err);
}

int zep_process_run_without(char *const argv[], const char *const *without, double time_s, struct zep_process_result *out, struct zep_error *err)
{
    int fd[6] = {-1, -1, -1, -1, -1, -1}; /* stdout, stderr, report: read end, write end */
    struct zep_buf text[2] = {ZEP_BUF_INIT, ZEP_BUF_INIT};
    struct zep_process_result r = {0};
    double deadline = zep_clock_now() + time_s;
    int child_errno = 0, rc;
    pid_t pid;

    if (pipe2(fd, O_CLOEXEC) < 0 || pipe2(fd + 2, O_CLOEXEC) < 0 || pipe2(fd + 4, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        rc = zep_error_set(err, ZEP_EUNAVAIL, "%s: cannot be started: %s", argv[0], strerror(errno));
        close_all(fd, 6);
        return rc;
    }
    if (pid == 0)
        start(argv, without, fd[1], fd[3], fd[5]);
    setpgid(pid, pid);
    close(fd[1]);
    close(fd[3]);
    close(fd[5]);
    fd[1] = fd[3] = fd[5] = -1;
    if (read(fd[4], &child_errno, sizeof child_errno) == (ssize_t)sizeof child_errno) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close_all(fd, 6);
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: cannot be started: %s", argv[0], strerror(child_errno));
    }
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    fcntl(fd[2], F_SETFL, O_NONBLOCK);
    rc = follow(pid, (int[2]){fd[0], fd[2]}, deadline, text, &r);
    close_all(fd, 6);
    if (rc < 0) {
        zep_buf_free(&text[0]);
        zep_buf_free(&text[1]);
        return zep_error_set(err, ZEP_EIO, "%s: more than %zu bytes of output", argv[0], MAX_OUTPUT);
    }
    r.out_len = text[0].len;
    r.err_len = text[1].len;
    if ((rc = zep_buf_steal(&text[0], &r.out, err)) < 0 || (rc = zep_buf_steal(&text[1], &r.err, err)) < 0) {
        free(r.out);
        zep_buf_free(&text[1]);
        return rc;
    }
    *out = r;
    return ZEP_OK;
}

void zep_process_result_free(struct zep_process_result *r)
{
    free(r->out);
    free(r->err);
    memset(r, 0, sizeof *r);
}

char *zep_process_show(char *const argv[])
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *text;

    for (int i = 0; argv[i]; i++) {
        if (i)
            zep_buf_puts(&b, " ");
        if (zep_encode_shell(&b, argv[i], NULL) < 0)
            zep_buf_puts(&b, "'?'");
    }
    return zep_buf_steal(&b, &text, NULL) < 0 ? NULL : text;
}
