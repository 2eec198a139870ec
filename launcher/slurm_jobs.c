#include "config.h"
#include "launcher/slurm_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/squeue.h"
#include "launcher/backend.h"
#include "launcher/cli.h"
#include "launcher/runfolder.h"

#define ASK_S 10.0
#define N_FIELD 9
#define FORMAT "%i|%A|%T|%u|%V|%S|%e|%N|%r|%o" /* what may hold a '|' comes last */
#define KEPT "zeppelin-squeue/1.0"

/* "2026-12-02T18:20:40", local time; 0 for "N/A". */
static double time_of(const char *s)
{
    struct tm tm = {.tm_isdst = -1};

    return strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) ? (double)mktime(&tm) : 0.0;
}

static int take_line(char *line, struct zep_slurm_job *job)
{
    char *field[N_FIELD + 1] = {line};

    for (int i = 1; i <= N_FIELD; i++) {
        char *bar = strchr(field[i - 1], '|');

        if (!bar)
            return 0;
        *bar = '\0';
        field[i] = bar + 1;
    }
    *job = (struct zep_slurm_job){.id = field[0], .raw = field[1], .state = field[2], .user = field[3], .submitted = time_of(field[4]), .start = time_of(field[5]), .end = time_of(field[6]),
                                  .nodes = field[7], .reason = field[8], .command = field[9]};
    return *job->id >= '0' && *job->id <= '9';
}

int zep_slurm_jobs_parse(char *text, struct zep_slurm_jobs *out, struct zep_error *err)
{
    char *save = NULL;
    size_t lines = 1;

    *out = (struct zep_slurm_jobs){.text = text};
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    if (!(out->job = zep_calloc(lines, sizeof *out->job))) {
        zep_slurm_jobs_free(out);
        return zep_error_nomem(err, "jobs");
    }
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        out->n += take_line(line, &out->job[out->n]);
    return ZEP_OK;
}

void zep_slurm_jobs_free(struct zep_slurm_jobs *jobs)
{
    free(jobs->job);
    free(jobs->text);
    *jobs = (struct zep_slurm_jobs){0};
}

/* --- the kept answer: a line "zeppelin-squeue/1.0 TIME CONF", then squeue's lines --- */

static char *kept_path(const char *cluster)
{
    char name[160];

    snprintf(name, sizeof name, "squeue%s%.120s", *cluster ? "-" : "", cluster);
    return strchr(name, '/') ? NULL : zep_state_path(name);
}

static const char *conf(void)
{
    const char *c = getenv("SLURM_CONF");

    return c ? c : "";
}

static char *kept(const char *cluster)
{
    char *path = kept_path(cluster), *text = NULL, *body = NULL, *end;
    double when = 0, age;
    int used = 0;
    size_t len;

    if (path && zep_fs_exists(path) && zep_fs_read(path, 1 << 26, &text, &len, NULL) == ZEP_OK && (end = strchr(text, '\n')) && sscanf(text, KEPT " %lf %n", &when, &used) == 1 && used > 0) {
        *end = '\0';
        age = zep_clock_wall() - when;
        if (age >= 0 && age < ZEP_ASK_EVERY_S && !strcmp(text + used, conf()))
            body = strdup(end + 1);
    }
    free(text);
    free(path);
    return body;
}

/* A convenience, so not worth an fsync; complete or absent all the same. */
static void keep(const char *cluster, const char *text)
{
    char *path = kept_path(cluster);
    struct zep_buf head = ZEP_BUF_INIT, tmp = ZEP_BUF_INIT;
    int fd = -1, ok = 0;

    if (path) {
        zep_buf_printf(&tmp, "%s.%ld", path, (long)getpid());
        zep_buf_printf(&head, KEPT " %.3f %s\n%s", zep_clock_wall(), conf(), text);
    }
    if (path && !tmp.failed && !head.failed && (fd = open(tmp.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) >= 0) {
        ok = write(fd, head.data, head.len) == (ssize_t)head.len;
        close(fd);
        if (!ok || rename(tmp.data, path) < 0)
            unlink(tmp.data);
    }
    zep_buf_free(&head);
    zep_buf_free(&tmp);
    free(path);
}

void zep_slurm_jobs_forget(const char *cluster)
{
    char *path = kept_path(cluster);

    if (path)
        unlink(path);
    free(path);
}

/* --- questions --- */

/* 1 answered, 0 "Invalid job id", negative. */
static int ask(const char *cluster, const char *id, char **text_out, struct zep_error *err)
{
    struct zep_process_result r = {0};
    const struct passwd *pw = getpwuid(getuid());
    struct zep_argv a = {0};
    int rc;

    zep_argv_split(&a, "squeue -h -r -t all -o");
    zep_argv_add(&a, "%s", FORMAT);
    if (*cluster) {
        zep_argv_add(&a, "-M");
        zep_argv_add(&a, "%s", cluster);
    }
    zep_argv_add(&a, "%s", id ? "-j" : "-u");
    if (id)
        zep_argv_add(&a, "%s", id);
    else if (pw)
        zep_argv_add(&a, "%s", pw->pw_name);
    else
        zep_argv_add(&a, "%ld", (long)getuid());
    if (a.n < 0) {
        zep_argv_free(&a);
        return zep_error_nomem(err, "squeue");
    }
    rc = zep_process_run_without(a.v, zep_squeue_filters(), ASK_S, &r, err);
    zep_argv_free(&a);
    if (rc < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "squeue cannot be started: there is no Slurm here (package slurm-client)");
    if (r.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "the controller gives no answer (squeue, %.0f s)", ASK_S);
    else if (r.status != 0 && id && strstr(r.err, "Invalid job id"))
        rc = 0;
    else if (r.status != 0)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "the controller gives no answer: %.*s", (int)strcspn(r.err, "\n"), r.err);
    else
        rc = 1;
    if (rc > 0) {
        *text_out = r.out;
        r.out = NULL;
    }
    zep_process_result_free(&r);
    return rc;
}

int zep_slurm_jobs(const char *cluster, int fresh, struct zep_slurm_jobs *out, struct zep_error *err)
{
    char *text = fresh ? NULL : kept(cluster);
    int rc;

    if (!text) {
        if ((rc = ask(cluster, NULL, &text, err)) < 0)
            return rc;
        keep(cluster, text);
    }
    return zep_slurm_jobs_parse(text, out, err);
}

int zep_slurm_job(const char *cluster, const char *id, struct zep_slurm_jobs *out, struct zep_error *err)
{
    char *text = NULL;
    int rc = ask(cluster, id, &text, err);

    if (rc <= 0)
        return rc;
    if ((rc = zep_slurm_jobs_parse(text, out, err)) < 0)
        return rc;
    if (out->n == 0)
        zep_slurm_jobs_free(out);
    return out->n > 0;
}

int zep_slurm_accounted(const char *cluster, const char *id, char state_out[32], int *exit_out, char *nodes_out, size_t size)
{
    struct zep_process_result r = {0};
    struct zep_argv a = {0};
    int found = 0, code = 0, sig = 0;
    char nodes[512] = "";

    zep_argv_split(&a, "sacct -n -P -X -D -o State,ExitCode,NodeList -j");
    zep_argv_add(&a, "%s", id);
    if (*cluster) {
        zep_argv_add(&a, "-M");
        zep_argv_add(&a, "%s", cluster);
    }
    if (a.n > 0 && zep_process_run_without(a.v, zep_squeue_filters(), ASK_S, &r, NULL) == ZEP_OK) {
        const char *line = r.out;

        for (const char *next = strchr(line, '\n'); next && next[1]; next = strchr(line, '\n')) /* -D: one line a start; the last one counts */
            line = next + 1;
        if (!r.timed_out && r.status == 0 && sscanf(line, "%31[A-Z_]%*[^|]|%d:%d|%511[^\n]", state_out, &code, &sig, nodes) >= 3)
            found = 1;
        else if (!r.timed_out && r.status == 0 && sscanf(line, "%31[A-Z_]|%d:%d|%511[^\n]", state_out, &code, &sig, nodes) >= 3)
            found = 1;
        zep_process_result_free(&r);
    }
    zep_argv_free(&a);
    if (found) {
        *exit_out = sig ? 128 + sig : code;
        snprintf(nodes_out, size, "%s", !strcmp(nodes, "None assigned") ? "" : nodes);
    }
    return found;
}
