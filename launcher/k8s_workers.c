#include "config.h"
#include "launcher/k8s_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/encode.h"
#include "common/fs.h"
#include "common/log.h"
#include "launcher/cli.h"

#define AT_ONCE 32     /* workers that are asked at the same time */
#define ANSWER_S 20.0  /* one of them has so long */
#define AGAIN_S 1.0
#define TELL_S 15.0

/* --- the host file --- */

static int add_worker(struct zep_workers *w, char *line, const char *file, int number, struct zep_error *err)
{
    struct zep_worker *v = zep_reallocarray(w->v, (size_t)w->n + 1, sizeof *v);
    size_t n = strcspn(line, " \t\r");
    char *slots = strstr(line, "slots=");
    int rc;

    if (!v)
        return zep_error_nomem(err, "workers");
    w->v = v;
    v[w->n] = (struct zep_worker){.host = strndup(line, n), .slots = slots ? atoi(slots + 6) : 1};
    if (!v[w->n].host)
        return zep_error_nomem(err, "workers");
    w->n++;
    if ((rc = zep_check_hostname(v[w->n - 1].host, err)) < 0)
        return zep_error_prefix(err, "%s:%d", file, number);
    if (v[w->n - 1].slots < 1)
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: '%.200s': expected HOST slots=N", file, number, line);
    for (int i = 0; i + 1 < w->n; i++)
        if (!strcmp(v[i].host, v[w->n - 1].host))
            return zep_error_set(err, ZEP_EINVAL, "%s:%d: host '%s' is there twice", file, number, v[i].host);
    return ZEP_OK;
}

static int read_hostfile(struct zep_workers *w, const char *file, struct zep_error *err)
{
    char *text = NULL, *save = NULL;
    int rc, number = 0;
    size_t len;

    if ((rc = zep_fs_read(file, 16 << 20, &text, &len, err)) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: is this the launcher pod of an MPIJob? There the MPI operator leaves its host file at /etc/mpi/hostfile", err->text);
    for (char *line = strtok_r(text, "\n", &save); line && rc == ZEP_OK; line = strtok_r(NULL, "\n", &save)) {
        number++;
        line += strspn(line, " \t");
        if (*line && *line != '#')
            rc = add_worker(w, line, file, number, err);
    }
    free(text);
    if (rc == ZEP_OK && !w->n)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no host in it", file);
    return rc;
}

/* --- ssh --- */

static int copy_key(const char *keys, const char *dir, struct zep_error *err)
{
    char *from = zep_fs_join(keys, "id_rsa"), *to = zep_fs_join(dir, "key");
    int rc = from && to ? zep_fs_copy_private(from, to, err) : zep_error_nomem(err, "key");

    free(from);
    free(to);
    return rc;
}

/* A worker shows the operator's key as its host key: whoever has another one is none of ours. */
static int write_known_hosts(const char *keys, const char *dir, struct zep_error *err)
{
    char *from = zep_fs_join(keys, "id_rsa.pub"), *to = zep_fs_join(dir, "known_hosts"), *text = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    size_t len;
    int rc = from && to ? zep_fs_read(from, 1 << 20, &text, &len, err) : zep_error_nomem(err, "key");

    if (rc == ZEP_OK) {
        zep_buf_printf(&b, "* %.*s\n", (int)strcspn(text, "\n"), text);
        if ((rc = zep_buf_ok(&b, err)) == ZEP_OK)
            rc = zep_fs_write_atomic(to, b.data, b.len, 0600, err);
    }
    zep_buf_free(&b);
    free(text);
    free(from);
    free(to);
    return rc;
}

static int set_up_ssh(struct zep_workers *w, const char *keys, int port, struct zep_error *err)
{
    char dir[] = "/tmp/zeppelin-launch.XXXXXX"; /* no blanks: mpirun divides its arguments for ssh at them */
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    if (!mkdtemp(dir))
        return zep_error_set(err, ZEP_EIO, "%s: %s", dir, strerror(errno));
    if (!(w->dir = strdup(dir))) {
        rmdir(dir);
        return zep_error_nomem(err, "ssh");
    }
    if ((rc = copy_key(keys, dir, err)) < 0 || (rc = write_known_hosts(keys, dir, err)) < 0)
        return rc;
    zep_buf_printf(&b,
                   "-F /dev/null -p %d -i %s/key -o IdentitiesOnly=yes -o UserKnownHostsFile=%s/known_hosts -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes -o BatchMode=yes "
                   "-o ConnectTimeout=10 -o ServerAliveInterval=15 -o LogLevel=ERROR",
                   port, dir, dir);
    return zep_buf_steal(&b, &w->ssh_args, err);
}

int zep_workers_new(const char *hostfile, const char *keys, int port, struct zep_workers **out, struct zep_error *err)
{
    struct zep_workers *w = zep_calloc(1, sizeof *w);
    int rc;

    if (!w)
        return zep_error_nomem(err, "workers");
    if ((rc = read_hostfile(w, hostfile, err)) < 0 || (rc = set_up_ssh(w, keys, port, err)) < 0)
        zep_workers_free(w);
    else
        *out = w;
    return rc;
}

void zep_workers_free(struct zep_workers *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->n; i++)
        free(w->v[i].host);
    free(w->v);
    if (w->dir)
        zep_fs_remove_tree(w->dir, NULL);
    free(w->dir);
    free(w->ssh_args);
    free(w);
}

/* --- asking them --- */

struct question {
    struct zep_worker *of;
    pid_t pid;
    int fd;
    double deadline;
    struct zep_buf text; /* answer, or what ssh said */
};

/* Both outputs of ssh in one pipe: it says nothing where it works. */
static int ask(struct question *q, struct zep_worker *worker, const struct zep_workers *w, const char *helper, struct zep_error *err)
{
    struct zep_argv a = {0};
    int fds[2];

    zep_argv_add(&a, "ssh");
    zep_argv_split(&a, w->ssh_args);
    zep_argv_add(&a, "%s", worker->host);
    zep_argv_add(&a, "%s --facts", helper); /* a shell's words there: the path was checked */
    if (a.n < 0 || pipe2(fds, O_CLOEXEC) < 0) {
        zep_argv_free(&a);
        return zep_error_set(err, ZEP_EIO, "ssh: %s", strerror(errno));
    }
    *q = (struct question){.of = worker, .fd = fds[0], .deadline = zep_clock_now() + ANSWER_S, .text = ZEP_BUF_INIT};
    if ((q->pid = fork()) == 0) {
        int null = open("/dev/null", O_RDONLY);
        sigset_t none;

        setpgid(0, 0);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        dup2(null, 0);
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        execvp("ssh", a.v);
        dprintf(2, "ssh: %s (package openssh-client)\n", strerror(errno));
        _exit(127);
    }
    close(fds[1]);
    zep_argv_free(&a);
    if (q->pid < 0) {
        close(fds[0]);
        q->of = NULL;
        return zep_error_set(err, ZEP_EIO, "fork: %s", strerror(errno));
    }
    return ZEP_OK;
}

static void take_answer(struct question *q, int status)
{
    const char *text = q->text.data ? q->text.data : "", *brace = strchr(text, '{'), *line = text;
    json_t *j = brace ? json_loads(brace, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *host = json_string_value(json_object_get(j, "host")), *node = json_string_value(json_object_get(j, "node"));
    struct zep_worker *w = q->of;

    if (status == 0 && host) {
        snprintf(w->name, sizeof w->name, "%s", host);
        snprintf(w->node, sizeof w->node, "%s", node ? node : "");
        w->cores = (int)json_integer_value(json_object_get(j, "cores"));
        w->gpus = (int)json_integer_value(json_object_get(j, "gpus"));
        w->answered = 1;
    } else {
        snprintf(w->why, sizeof w->why, "%.*s", (int)strcspn(line, "\r\n") > 250 ? 250 : (int)strcspn(line, "\r\n"), line);
        zep_text_clean(w->why);
        if (!*w->why)
            snprintf(w->why, sizeof w->why, "ssh ended with status %d", status);
    }
    json_decref(j);
}

/* 1: it is done. */
static int look_at(struct question *q, int readable)
{
    char chunk[4096];
    ssize_t n = readable ? read(q->fd, chunk, sizeof chunk) : -1;
    int status = 0, late = zep_clock_now() > q->deadline;

    if (n > 0 && q->text.len < (1 << 20))
        zep_buf_add(&q->text, chunk, (size_t)n);
    if ((n > 0 || (n < 0 && readable && errno == EINTR) || !readable) && !late)
        return 0;
    if (late)
        kill(-q->pid, SIGKILL);
    while (waitpid(q->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (late)
        snprintf(q->of->why, sizeof q->of->why, "ssh gave no answer in %.0f s", ANSWER_S);
    else
        take_answer(q, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    close(q->fd);
    zep_buf_free(&q->text);
    q->of = NULL;
    return 1;
}

static void drop(struct question *q)
{
    if (!q->of)
        return;
    kill(-q->pid, SIGKILL);
    while (waitpid(q->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(q->fd);
    zep_buf_free(&q->text);
    q->of = NULL;
}

/* All that have not answered yet, AT_ONCE at a time. */
static int ask_round(struct zep_workers *w, const char *helper, const volatile int *stop, struct zep_error *err)
{
    struct question q[AT_ONCE] = {0};
    struct pollfd p[AT_ONCE];
    int next = 0, open = 0, rc = ZEP_OK;

    for (;;) {
        for (int i = 0; i < AT_ONCE && rc == ZEP_OK && !*stop; i++) {
            while (!q[i].of && next < w->n && w->v[next].answered)
                next++;
            if (!q[i].of && next < w->n && (rc = ask(&q[i], &w->v[next++], w, helper, err)) == ZEP_OK)
                open++;
        }
        if (!open || rc < 0 || *stop)
            break;
        for (int i = 0; i < AT_ONCE; i++)
            p[i] = (struct pollfd){q[i].of ? q[i].fd : -1, POLLIN, 0};
        poll(p, AT_ONCE, 200);
        for (int i = 0; i < AT_ONCE; i++)
            if (q[i].of)
                open -= look_at(&q[i], p[i].revents != 0);
    }
    for (int i = 0; i < AT_ONCE; i++)
        drop(&q[i]);
    return rc;
}

static int n_missing(const struct zep_workers *w, struct zep_buf *names, const char **why)
{
    int n = 0;

    *why = "";
    for (int i = 0; i < w->n; i++)
        if (!w->v[i].answered) {
            if (n < 8)
                zep_buf_printf(names, "%s%.*s", n ? ", " : "", (int)strcspn(w->v[i].host, "."), w->v[i].host);
            if (n++ == 8)
                zep_buf_puts(names, ", ...");
            if (!**why)
                *why = w->v[i].why;
        }
    return n;
}

int zep_workers_wait(struct zep_workers *w, double limit_s, const volatile int *stop, struct zep_error *err)
{
    double begin = zep_clock_now(), told = begin;
    char *helper = NULL;
    int rc = zep_fs_helper("zeppelin-worker", &helper, err);

    if (rc == ZEP_OK && strspn(helper, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-") != strlen(helper))
        rc = zep_error_set(err, ZEP_EUNSUPPORTED, "'%s': expected zeppelin to be installed under a path of letters, digits, '.', '_', '+' and '-'", helper);
    for (int i = 0; i < w->n; i++)
        w->v[i].answered = 0;
    while (rc == ZEP_OK) {
        struct zep_buf names = ZEP_BUF_INIT;
        double now;
        const char *why;
        int n;

        if ((rc = ask_round(w, helper, stop, err)) < 0)
            break;
        n = n_missing(w, &names, &why);
        now = zep_clock_now();
        if (*stop)
            rc = zep_error_set(err, ZEP_ESTOPPED, "told to end (%s) while %d of %d workers were waited for", strsignal(*stop), n, w->n);
        else if (n && now - begin >= limit_s)
            rc = zep_error_set(err, ZEP_EUNAVAIL, "%d of %d workers did not answer within %.0f s: %s (%s)", n, w->n, limit_s, names.data ? names.data : "", why);
        else if (n && now - told >= TELL_S) {
            told = now;
            zep_log(ZEP_LOG_INFO, "%d of %d workers have answered, waiting for %s (%s)", w->n - n, w->n, names.data ? names.data : "", why);
        }
        zep_buf_free(&names);
        if (!n || rc < 0)
            break;
        poll(NULL, 0, (int)(AGAIN_S * 1000));
    }
    free(helper);
    return rc;
}
