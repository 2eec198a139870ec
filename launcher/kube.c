#include "config.h"
#include "launcher/kube.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/encode.h"
#include "common/fs.h"
#include "common/process.h"
#include "launcher/cli.h"
#include "launcher/launch.h"

#define ANSWER_S 60.0
#define REQUEST "--request-timeout=30s"

int zep_kube_open(const char *context, const char *ns, struct zep_kube *out, struct zep_error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    int in_pod = host && *host;

    *out = (struct zep_kube){0};
    snprintf(out->context, sizeof out->context, "%s", context);
    snprintf(out->ns, sizeof out->ns, "%s", ns);
    if (in_pod && !*context && zep_fs_helper("zeppelin-kube", &out->program, NULL) == ZEP_OK)
        return ZEP_OK;
    if (!zep_launch_in_path("kubectl"))
        return zep_error_set(err, ZEP_EUNAVAIL, in_pod ? "in a pod, but this build has no zeppelin-kube (not built: libcurl was missing), and kubectl is not in PATH" : "no Kubernetes here: kubectl is not in PATH");
    out->program = strdup("kubectl");
    return out->program ? ZEP_OK : zep_error_nomem(err, "kubectl");
}

void zep_kube_close(struct zep_kube *k)
{
    free(k->program);
    k->program = NULL;
}

static void begin(const struct zep_kube *k, struct zep_argv *a)
{
    zep_argv_add(a, "%s", k->program);
    if (*k->context)
        zep_argv_add(a, "--context=%s", k->context);
    if (*k->ns)
        zep_argv_add(a, "--namespace=%s", k->ns);
}

/* --- errors --- */

/* kubectl's own line of many: not those of its log and its warnings. */
static void telling_line(const char *text, char out[600])
{
    static const char *const marks[] = {"Error from server", "error: ", "Unable to connect", "The connection to the server"};
    const char *line = text;

    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (strstr(text, marks[i])) {
            line = strstr(text, marks[i]);
            break;
        }
    snprintf(out, 600, "%.*s", (int)strcspn(line, "\n"), line);
    zep_text_clean(out);
}

static int told(const struct zep_kube *k, const struct zep_process_result *r, struct zep_error *err)
{
    const char *who = strrchr(k->program, '/') ? strrchr(k->program, '/') + 1 : k->program;
    char line[600];

    telling_line(r->err, line);
    if (r->timed_out)
        return zep_error_set(err, ZEP_ETIMEDOUT, "%s gave no answer in %.0f s", who, ANSWER_S);
    if (strstr(line, "awaiting headers") || strstr(line, "(Timeout)") || strstr(line, "timed out") || strstr(line, "unexpected EOF")) /* what was asked may have been done */
        return zep_error_set(err, ZEP_ETIMEDOUT, "%s: %s", who, line);
    if (strstr(line, "(AlreadyExists)"))
        return zep_error_set(err, ZEP_EREFUSED, "%s", line);
    if (strstr(line, "(NotFound)") && !strstr(line, "could not find the requested resource"))
        return zep_error_set(err, ZEP_ENOENT, "%s", line);
    if (strstr(line, "doesn't have a resource type") || strstr(line, "no matches for kind") || strstr(line, "could not find the requested resource"))
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: this cluster has no MPI operator (v2beta1): its administrator can install kubeflow/mpi-operator", line);
    if (strstr(line, "(Forbidden)"))
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: no permission (needed in the namespace: mpijobs get, list, create, delete; pods get, list, delete; pods/log get)", line);
    if (strstr(line, "(Unauthorized)"))
        return zep_error_set(err, ZEP_EUNAVAIL, "%s: the credentials are missing, wrong or expired: log in again", line);
    if (strstr(line, "(Invalid)") || strstr(line, "(BadRequest)"))
        return zep_error_set(err, ZEP_EINVAL, "%s", line);
    return zep_error_set(err, ZEP_EUNAVAIL, "%s: %s", who, *line ? line : "failed without a word");
}

/* What it prints, as JSON where out is not NULL. Frees the arguments. */
static int call(const struct zep_kube *k, struct zep_argv *a, json_t **out, struct zep_error *err)
{
    struct zep_process_result r;
    int rc = a->n > 0 ? zep_process_run(a->v, ANSWER_S, &r, err) : zep_error_nomem(err, "kubectl");

    zep_argv_free(a);
    if (rc < 0)
        return rc;
    if (r.timed_out || r.status)
        rc = told(k, &r, err);
    else if (out && !(*out = json_loadb(r.out, r.out_len, 0, NULL)))
        rc = zep_error_set(err, ZEP_EIO, "%s printed no JSON", k->program);
    zep_process_result_free(&r);
    return rc;
}

/* --- requests --- */

int zep_kube_create(const struct zep_kube *k, const char *file, int dry_run, json_t **out, struct zep_error *err)
{
    struct zep_argv a = {0};

    begin(k, &a);
    zep_argv_add(&a, "create");
    zep_argv_add(&a, "-f");
    zep_argv_add(&a, "%s", file);
    zep_argv_add(&a, "-o");
    zep_argv_add(&a, "json");
    if (dry_run)
        zep_argv_add(&a, "--dry-run=server");
    zep_argv_add(&a, REQUEST);
    return call(k, &a, out, err);
}

int zep_kube_get(const struct zep_kube *k, const char *kind, const char *name, json_t **out, struct zep_error *err)
{
    struct zep_argv a = {0};

    begin(k, &a);
    zep_argv_add(&a, "get");
    zep_argv_add(&a, "%s", kind);
    zep_argv_add(&a, "%s", name);
    zep_argv_add(&a, "-o");
    zep_argv_add(&a, "json");
    zep_argv_add(&a, REQUEST);
    return call(k, &a, out, err);
}

int zep_kube_list(const struct zep_kube *k, const char *kind, const char *selector, json_t **out, struct zep_error *err)
{
    struct zep_argv a = {0};
    json_t *list = NULL;
    int rc;

    begin(k, &a);
    zep_argv_add(&a, "get");
    zep_argv_add(&a, "%s", kind);
    if (selector) {
        zep_argv_add(&a, "-l");
        zep_argv_add(&a, "%s", selector);
    }
    zep_argv_add(&a, "-o");
    zep_argv_add(&a, "json");
    zep_argv_add(&a, REQUEST);
    if ((rc = call(k, &a, &list, err)) < 0)
        return rc;
    if (json_is_array(json_object_get(list, "items")))
        *out = json_incref(json_object_get(list, "items"));
    else
        rc = zep_error_set(err, ZEP_EIO, "%s printed no list of %s", k->program, kind);
    json_decref(list);
    return rc;
}

int zep_kube_delete(const struct zep_kube *k, const char *kind, const char *name, struct zep_error *err)
{
    struct zep_argv a = {0};
    int rc;

    begin(k, &a);
    zep_argv_add(&a, "delete");
    zep_argv_add(&a, "%s", kind);
    zep_argv_add(&a, "%s", name);
    zep_argv_add(&a, "--wait=false");
    zep_argv_add(&a, REQUEST);
    rc = call(k, &a, NULL, err);
    return rc == ZEP_ENOENT ? ZEP_OK : rc;
}

int zep_kube_kill_pods(const struct zep_kube *k, const char *selector, struct zep_error *err)
{
    struct zep_argv a = {0};

    begin(k, &a);
    zep_argv_add(&a, "delete");
    zep_argv_add(&a, "pods");
    zep_argv_add(&a, "-l");
    zep_argv_add(&a, "%s", selector);
    zep_argv_add(&a, "--grace-period=1");
    zep_argv_add(&a, "--wait=false");
    zep_argv_add(&a, REQUEST);
    return call(k, &a, NULL, err);
}

int zep_kube_logs_start(const struct zep_kube *k, const char *pod, const char *container, int follow, int fd, struct zep_error *err)
{
    struct zep_argv a = {0};
    pid_t pid;

    begin(k, &a);
    zep_argv_add(&a, "logs");
    zep_argv_add(&a, "%s", pod);
    zep_argv_add(&a, "-c");
    zep_argv_add(&a, "%s", container);
    if (follow)
        zep_argv_add(&a, "-f");
    if (a.n < 0)
        return zep_error_nomem(err, "kubectl");
    if ((pid = fork()) == 0) {
        int null = open("/dev/null", O_RDONLY);

        dup2(null, 0);
        dup2(fd, 1);
        signal(SIGPIPE, SIG_DFL);
        execvp(a.v[0], a.v);
        _exit(127);
    }
    zep_argv_free(&a);
    return pid > 0 ? (int)pid : zep_error_set(err, ZEP_EIO, "fork: %s", strerror(errno));
}

int zep_kube_logs_wait(int pid, double limit_s, struct zep_error *err)
{
    double end = zep_clock_now() + limit_s;
    int status = 0;

    for (;;) {
        pid_t got = waitpid((pid_t)pid, &status, limit_s > 0 ? WNOHANG : 0);

        if (got == (pid_t)pid)
            break;
        if (got < 0 && errno != EINTR)
            return zep_error_set(err, ZEP_EIO, "waiting for the log: %s", strerror(errno));
        if (limit_s > 0 && zep_clock_now() > end) {
            kill((pid_t)pid, SIGKILL);
            limit_s = 0;
        }
        if (limit_s > 0)
            poll(NULL, 0, 50);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return ZEP_OK;
    return zep_error_set(err, ZEP_EUNAVAIL, "the log could not be read to its end");
}
