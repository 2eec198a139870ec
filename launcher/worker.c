/* zeppelin-worker: the first process of a worker pod. It starts sshd, through which the ranks come; when the pod is told to end, it asks the ranks to stop with a checkpoint and waits for them
 * (sshd alone would let them be killed); it reaps what is orphaned. With --facts it says what only this node knows. */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/units.h"

#define TICK_S 0.1
#define ASK_AGAIN_S 1.0
#define AFTER_S 5.0 /* for mpirun's daemons, once the ranks are gone */
#define USR1_BIT (1ull << (SIGUSR1 - 1))

struct args {
    int port, facts;
    double grace_s;
    const char *keys, *sshd;
};

static void usage(FILE *f)
{
    fputs("usage: zeppelin-worker [--port N] [--keys DIR] [--grace SECONDS] [--sshd PATH]\n"
          "       zeppelin-worker --facts\n"
          "\n"
          "The first process of a worker pod: runs sshd with the key pair of the MPI operator; on SIGTERM asks the ranks\n"
          "to stop with a checkpoint (SIGUSR1), waits for them, and ends.\n"
          "\n"
          "  --port N         port of sshd (default 2222)\n"
          "  --keys DIR       folder with id_rsa and authorized_keys (default $HOME/.ssh)\n"
          "  --grace SECONDS  how long the ranks have (default 60)\n"
          "  --sshd PATH      default /usr/sbin/sshd\n"
          "  --facts          prints what this node is, as one line of JSON\n"
          "  --help, --version\n",
          f);
}

/* Exit status, or -1: go on. */
static int parse(int argc, char **argv, struct args *a)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'}, {"keys", required_argument, NULL, 'k'}, {"grace", required_argument, NULL, 'g'}, {"sshd", required_argument, NULL, 's'}, {"facts", no_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},       {"version", no_argument, NULL, 'V'},    {NULL, 0, NULL, 0},
    };
    struct zep_error err;
    int64_t n;
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'p':
        case 'g':
            if (zep_parse_int(optarg, c == 'p' ? 1 : 0, c == 'p' ? 65535 : 1000000, &n, &err) < 0) {
                fprintf(stderr, "zeppelin-worker: --%s %s\n", c == 'p' ? "port" : "grace", err.text);
                return 2;
            }
            if (c == 'p')
                a->port = (int)n;
            else
                a->grace_s = (double)n;
            break;
        case 'k':
            a->keys = optarg;
            break;
        case 's':
            a->sshd = optarg;
            break;
        case 'f':
            a->facts = 1;
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'V':
            puts("zeppelin-worker " PACKAGE_VERSION);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (argc != optind) {
        usage(stderr);
        return 2;
    }
    return -1;
}

/* --- facts --- */

/* Cores that the pod may use: those it is bound to, or fewer by the quota of its control group. */
static int usable_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    long long quota, period;
    char *text = NULL;
    size_t len;

    if (zep_fs_exists("/sys/fs/cgroup/cpu.max") && zep_fs_read("/sys/fs/cgroup/cpu.max", 4096, &text, &len, NULL) == ZEP_OK && sscanf(text, "%lld %lld", &quota, &period) == 2 && period > 0 && quota > 0 &&
        (quota + period - 1) / period < n)
        n = (int)((quota + period - 1) / period);
    free(text);
    return n;
}

static int n_gpus(void)
{
    DIR *d = opendir("/dev");
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += !strncmp(e->d_name, "nvidia", 6) && e->d_name[6] && e->d_name[6 + strspn(e->d_name + 6, "0123456789")] == '\0';
    if (d)
        closedir(d);
    return n;
}

static int facts(void)
{
    const char *node = getenv("NODE_NAME");
    struct rlimit lock = {0, 0};
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    getrlimit(RLIMIT_MEMLOCK, &lock);
    /* names of nodes and hosts need no escapes: what does is left out */
    if (!node || node[strspn(node, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")])
        node = "";
    if (host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")])
        *host = '\0';
    printf("{\"format\": \"zeppelin-worker/1.0\", \"version\": \"%s\", \"host\": \"%s\", \"node\": \"%s\", \"cores\": %d, \"gpus\": %d, \"memlock\": %lld}\n", PACKAGE_VERSION, host, node, usable_cores(), n_gpus(),
           lock.rlim_cur == RLIM_INFINITY ? -1ll : (long long)lock.rlim_cur);
    return 0;
}

/* --- sshd --- */

/* sshd's files have words divided by blanks, in quotes where they have some; what it cannot say is left out. */
static void put_environment(struct zep_buf *b)
{
    static const char *const names[] = {"PATH", "LD_LIBRARY_PATH", "NODE_NAME", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
    int n = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *v = getenv(names[i]), *p = v;

        while (p && *p && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\' && *p != '\'')
            p++;
        if (v && *v && !*p)
            zep_buf_printf(b, "%s\"%s=%s\"", n++ ? " " : "SetEnv ", names[i], v);
    }
    if (n)
        zep_buf_puts(b, "\n");
}

/* The operator's key, mode 0600 whatever that of its mount: it is the host key, too, so that the launcher can tell a worker from anybody else. */
static int copy_key(const struct args *a, const char *dir, struct zep_error *err)
{
    char *from = zep_fs_join(a->keys, "id_rsa"), *to = zep_fs_join(dir, "host_key");
    int rc = from && to ? zep_fs_copy_private(from, to, err) : zep_error_nomem(err, "key");

    free(from);
    free(to);
    return rc;
}

static int write_config(const struct args *a, const char *dir, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char *path = zep_fs_join(dir, "sshd_config");
    int rc;

    zep_buf_printf(&b,
                   "Port %d\nHostKey \"%s/host_key\"\nAuthorizedKeysFile \"%s/authorized_keys\"\nStrictModes no\nPidFile none\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                   "PermitRootLogin prohibit-password\nAllowTcpForwarding no\nAllowAgentForwarding no\nX11Forwarding no\nPermitTTY no\nPermitUserRC no\nMaxStartups 1000\nLogLevel ERROR\n",
                   a->port, dir, a->keys);
    put_environment(&b);
    rc = path ? zep_buf_ok(&b, err) : zep_error_nomem(err, "sshd");
    if (rc == ZEP_OK)
        rc = zep_fs_write_atomic(path, b.data, b.len, 0600, err);
    zep_buf_free(&b);
    free(path);
    return rc;
}

static pid_t start_sshd(const struct args *a, const char *dir, struct zep_error *err)
{
    char *config = zep_fs_join(dir, "sshd_config");
    pid_t pid;

    if (!config || access(a->sshd, X_OK) < 0) {
        free(config);
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: %s: expected sshd in the image (package openssh-server), or --sshd PATH", a->sshd, strerror(errno));
    }
    if ((pid = fork()) == 0) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execl(a->sshd, a->sshd, "-D", "-e", "-f", config, (char *)NULL);
        _exit(127);
    }
    free(config);
    return pid > 0 ? pid : zep_error_set(err, ZEP_EIO, "fork: %s", strerror(errno));
}

/* --- the ranks --- */

/* Is it PROGRAM, by the file that it runs? */
static int runs(const char *pid, const char *const *programs)
{
    char path[64], exe[4096];
    const char *base;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%.20s/exe", pid);
    if ((n = readlink(path, exe, sizeof exe - 1)) <= 0)
        return 0;
    exe[n] = '\0';
    base = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
    for (; *programs; programs++)
        if (!strncmp(base, *programs, strlen(*programs)))
            return 1;
    return 0;
}

/* A rank that has just begun would die of the signal: it is asked when it is known to look for it. */
static int listens(const char *pid)
{
    char path[64], *text = NULL;
    unsigned long long blocked = 0, caught = 0;
    const char *b, *c;
    size_t len;
    int yes = 0;

    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    if (zep_fs_read(path, 1 << 16, &text, &len, NULL) == ZEP_OK) {
        b = strstr(text, "\nSigBlk:");
        c = strstr(text, "\nSigCgt:");
        yes = b && c && sscanf(b, "\nSigBlk: %llx", &blocked) == 1 && sscanf(c, "\nSigCgt: %llx", &caught) == 1 && ((blocked | caught) & USR1_BIT);
    }
    free(text);
    return yes;
}

/* How many there are; signal: those that listen get it. */
static int each_process(const char *const *programs, int signal)
{
    DIR *d = opendir("/proc");
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));) {
        if (!isdigit((unsigned char)e->d_name[0]) || !runs(e->d_name, programs))
            continue;
        n++;
        if (signal && listens(e->d_name))
            kill((pid_t)atoi(e->d_name), signal);
    }
    if (d)
        closedir(d);
    return n;
}

static int n_ranks(int signal)
{
    return each_process((const char *const[]){"zeppelin-rank", "lt-zeppelin-rank", NULL}, signal);
}

static int n_daemons(void)
{
    return each_process((const char *const[]){"orted", "prted", NULL}, 0);
}

/* Children that ended; 1: sshd was one, with its status. */
static int reap(pid_t sshd, int *status_out)
{
    int status, found = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == sshd) {
            found = 1;
            *status_out = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
    return found;
}

static void nap(void)
{
    struct timespec t = {0, (long)(TICK_S * 1e9)};

    nanosleep(&t, NULL);
}

/* The pod has to go. */
static void stop(const struct args *a, pid_t sshd)
{
    double begin = zep_clock_now(), asked = -1, gone = 0;
    int n, status;

    if ((n = n_ranks(0)) > 0)
        zep_log(ZEP_LOG_INFO, "told to end: %d rank%s asked to stop with a checkpoint, within %.0f s", n, n == 1 ? " is" : "s are", a->grace_s);
    for (;;) {
        double now = zep_clock_now();
        int again = now - asked >= ASK_AGAIN_S;

        if ((n = n_ranks(again ? SIGUSR1 : 0)) > 0)
            gone = 0;
        else if (!gone)
            gone = now;
        asked = again ? now : asked;
        reap(sshd, &status);
        if (!n && (!n_daemons() || now - gone > AFTER_S))
            break;
        if (now - begin > a->grace_s) {
            zep_log(ZEP_LOG_WARN, "%d rank%s did not stop within %.0f s", n, n == 1 ? "" : "s", a->grace_s);
            break;
        }
        nap();
    }
    kill(sshd, SIGTERM);
    for (int i = 0; i < 20 && !reap(sshd, &status); i++)
        nap();
}

static int serve(const struct args *a, pid_t sshd, const sigset_t *set)
{
    for (;;) {
        int sig = sigwaitinfo(set, NULL), status = 0;

        if (sig == SIGCHLD && reap(sshd, &status)) {
            zep_log(ZEP_LOG_ERROR, "sshd ended with status %d: see its words above", status);
            return status == 127 ? 3 : 1;
        }
        if (sig == SIGTERM || sig == SIGINT) {
            stop(a, sshd);
            return 0;
        }
    }
}

int main(int argc, char **argv)
{
    struct args a = {.port = 2222, .grace_s = 60, .sshd = "/usr/sbin/sshd"};
    char dir[] = "/tmp/zeppelin-worker.XXXXXX", keys[1100];
    struct zep_error err;
    sigset_t set;
    pid_t sshd;
    int rc;

    zep_log_init("zeppelin-worker", ZEP_LOG_INFO);
    if ((rc = parse(argc, argv, &a)) >= 0)
        return rc;
    if (a.facts)
        return facts();
    if (!a.keys) {
        snprintf(keys, sizeof keys, "%.1000s/.ssh", getenv("HOME") ? getenv("HOME") : "/root");
        a.keys = keys;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!mkdtemp(dir)) {
        zep_log(ZEP_LOG_ERROR, "%s: %s", dir, strerror(errno));
        return 1;
    }
    if ((rc = copy_key(&a, dir, &err)) < 0 || (rc = write_config(&a, dir, &err)) < 0 || (sshd = start_sshd(&a, dir, &err)) < 0) {
        zep_log(ZEP_LOG_ERROR, "%s", err.text);
        zep_fs_remove_tree(dir, NULL);
        return zep_exit_status(err.code);
    }
    zep_log(ZEP_LOG_INFO, "sshd listens on port %d", a.port);
    rc = serve(&a, sshd, &set);
    zep_fs_remove_tree(dir, NULL);
    return rc;
}
