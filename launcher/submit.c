#include "config.h"
#include "launcher/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/log.h"
#include "common/process.h"
#include "common/squeue.h"
#include "common/units.h"
#include "launcher/cli.h"
#include "launcher/status.h"

#define SBATCH_S 30.0
#define ASK_S 10.0
#define MANY 16

struct partition {
    char name[64], gres[64];
    int is_default, nodes, cores; /* nodes: that could run something, now or later */
    double limit_s;
};

/* "gpu:h200:2(S:0-1)" -> "2 GPUs (h200)" */
static void gpus_of(const char *gres, char *out, size_t size)
{
    char type[40] = "";
    const char *p = strstr(gres, "gpu:");
    int n = 0;

    *out = '\0';
    if (p && (sscanf(p, "gpu:%d", &n) == 1 || sscanf(p, "gpu:%39[^:(,]:%d", type, &n) == 2) && n > 0)
        snprintf(out, size, "%d GPU%s%s%s%s", n, n == 1 ? "" : "s", *type ? " (" : "", type, *type ? ")" : "");
}

/* Lines of one partition, one for each kind of node and state, become one entry with the largest node. */
static int read_partitions(const char *text, struct partition part[MANY])
{
    int n = 0;

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        struct partition p = {.cores = 0};
        char limit[40], gres[200], state[40];
        int i = 0, usable;
        size_t len;

        if (sscanf(line, "%63[^|\n]|%39[^|\n]|%d|%d%*[+]|%199[^|\n]|%39[^|\n]", p.name, limit, &p.nodes, &p.cores, gres, state) != 6 &&
            sscanf(line, "%63[^|\n]|%39[^|\n]|%d|%d|%199[^|\n]|%39[^|\n]", p.name, limit, &p.nodes, &p.cores, gres, state) != 6)
            continue;
        len = strlen(p.name);
        if (len && p.name[len - 1] == '*') {
            p.is_default = 1;
            p.name[len - 1] = '\0';
        }
        usable = strncmp(state, "down", 4) && strncmp(state, "drain", 5) && strncmp(state, "fail", 4) && strncmp(state, "unk", 3);
        if (zep_parse_time(limit, &p.limit_s, NULL) < 0)
            p.limit_s = 0; /* infinite */
        while (i < n && strcmp(part[i].name, p.name))
            i++;
        if (i == MANY)
            break;
        if (i == n) {
            part[n] = p;
            part[n++].nodes = 0;
        }
        part[i].nodes += usable ? p.nodes : 0;
        part[i].cores = p.cores > part[i].cores ? p.cores : part[i].cores;
        if (!*part[i].gres)
            gpus_of(gres, part[i].gres, sizeof part[i].gres);
    }
    return n;
}

static const struct partition *find(const struct partition *part, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (*name ? !strcmp(part[i].name, name) : part[i].is_default)
            return &part[i];
    return NULL;
}

static void say(const struct partition *p, struct zep_buf *b)
{
    char span[40];

    zep_buf_printf(b, "%s%s%s: %d node%s of %d cores%s%s", b->len ? "; " : "", p->name, p->is_default ? " (the default)" : "", p->nodes, p->nodes == 1 ? "" : "s", p->cores, *p->gres ? " and " : "", p->gres);
    if (p->limit_s > 0)
        zep_buf_printf(b, ", for at most %s", zep_format_span(p->limit_s, span));
}

void zep_submit_fits(const char *sinfo, const char *name, char *out, size_t size)
{
    struct partition part[MANY] = {{.nodes = 0}};
    struct zep_buf b = ZEP_BUF_INIT;
    int n = read_partitions(sinfo, part);
    const struct partition *p = find(part, n, name);

    for (int i = 0; i < n; i++)
        if (!p || p == &part[i])
            say(&part[i], &b);
    snprintf(out, size, "%s", b.data ? b.data : "");
    zep_buf_free(&b);
}

double zep_submit_limit_s(const char *sinfo, const char *name)
{
    struct partition part[MANY] = {{.nodes = 0}};
    const struct partition *p = find(part, read_partitions(sinfo, part), name);

    return p ? p->limit_s : 0.0;
}

static void add_cluster(struct zep_argv *a, const char *cluster)
{
    if (!*cluster)
        return;
    zep_argv_add(a, "-M");
    zep_argv_add(a, "%s", cluster);
}

static int call_without(struct zep_argv *a, const char *const *without, double time_s, struct zep_process_result *r, struct zep_error *err)
{
    const char *program = a->n > 0 ? a->v[0] : "";
    int rc = a->n < 0 ? zep_error_nomem(err, "sbatch") : zep_process_run_without(a->v, without, time_s, r, err);

    if (rc < 0 && rc != ZEP_ENOMEM)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "%s cannot be started: there is no Slurm here (package slurm-client)", program);
    zep_argv_free(a);
    return rc;
}

static int call(struct zep_argv *a, double time_s, struct zep_process_result *r, struct zep_error *err)
{
    return call_without(a, zep_squeue_filters(), time_s, r, err);
}

/* "SBATCH_NAME=": does it fill in what the job leaves open? */
static int fills_in(const char *variable, const struct zep_job *job)
{
    const struct {
        const char *name, *value;
    } open[] = {{"ACCOUNT", job->cluster.account}, {"PARTITION", job->cluster.partition}, {"QOS", job->cluster.qos}, {"CONSTRAINT", job->cluster.constraint},
                {"RESERVATION", zep_job_map_get(&job->cluster.slurm, "reservation")}};

    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        size_t n = strlen(open[i].name);

        if (!strncmp(variable + 7, open[i].name, n) && variable[7 + n] == '=')
            return !open[i].value || !*open[i].value;
    }
    return 0;
}

extern char **environ;

/* For sbatch its variables count more than the script's lines, and the script is what was shown: those that would change it are left out. say: and told. */
static int call_sbatch(struct zep_argv *a, const struct zep_job *job, int say, struct zep_process_result *r, struct zep_error *err)
{
    const char *const *base = zep_squeue_filters();
    const char **without;
    size_t room = 1;
    int n = 0, rc;

    for (int i = 0; base[i]; i++)
        room++;
    for (char **e = environ; *e; e++)
        room++;
    if (!(without = zep_calloc(room, sizeof *without))) {
        zep_argv_free(a);
        return zep_error_nomem(err, "sbatch");
    }
    for (; base[n]; n++)
        without[n] = base[n];
    for (char **e = environ; *e; e++)
        if (!strncmp(*e, "SBATCH_", 7) && strncmp(*e, "SBATCH_CLUSTERS=", 16) && !fills_in(*e, job)) {
            without[n++] = *e;
            if (say)
                zep_log(ZEP_LOG_INFO, "%.*s of the environment does not count: the job says what sbatch is asked for", (int)strcspn(*e, "="), *e);
        }
    rc = call_without(a, without, SBATCH_S, r, err);
    free(without);
    return rc;
}

static char *ask_sinfo(const char *cluster)
{
    struct zep_process_result r;
    struct zep_argv a = {0};
    char *text = NULL;

    zep_argv_split(&a, "sinfo -h -o %P|%l|%D|%c|%G|%T");
    add_cluster(&a, cluster);
    if (call(&a, ASK_S, &r, NULL) < 0)
        return NULL;
    if (!r.timed_out && r.status == 0) {
        text = r.out;
        r.out = NULL;
    }
    zep_process_result_free(&r);
    return text;
}

/* "sbatch: error: A\nallocation failure: B\n" -> "A; B" */
static void plain_words(const char *text, char *out, size_t size)
{
    static const char *const before[] = {"sbatch: error: ", "sbatch: fatal: ", "sbatch: ", "Batch job submission failed: ", "allocation failure: "};
    size_t n = 0;

    *out = '\0';
    for (const char *line = text; *line && n + 2 < size;) {
        size_t len = strcspn(line, "\n");
        const char *p = line;

        for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
            if (!strncmp(p, before[i], strlen(before[i])))
                p += strlen(before[i]);
        if (line + len > p)
            n += (size_t)snprintf(out + n, size - n, "%s%.*s", n ? "; " : "", (int)(line + len - p), p);
        line += len + (line[len] == '\n');
    }
}

/* The controller's own reason, and what there is. */
static int refused(const struct zep_job *job, const struct zep_process_result *r, const char *cluster, struct zep_error *err)
{
    char why[600], fits[900] = "";
    char *sinfo = ask_sinfo(cluster);
    const char *name = job ? job->cluster.partition : "";

    plain_words(r->err, why, sizeof why);
    if (sinfo)
        zep_submit_fits(sinfo, name, fits, sizeof fits);
    free(sinfo);
    return zep_error_set(err, ZEP_EUNAVAIL, "Slurm does not take the job: %s%s%s", *why ? why : "sbatch says nothing", *fits ? "\nthere is: partition " : "", fits);
}

static int check_time(const struct zep_job *job, const char *cluster, struct zep_error *err)
{
    char *sinfo = job->cluster.time_s > 0 ? ask_sinfo(cluster) : NULL;
    double limit = sinfo ? zep_submit_limit_s(sinfo, job->cluster.partition) : 0.0;
    char have[40], want[40];

    free(sinfo);
    if (limit <= 0 || job->cluster.time_s <= limit)
        return ZEP_OK;
    return zep_error_set(err, ZEP_EINVAL, "cluster.time: %s: the partition gives at most %s (--chain N makes the run go on in further jobs)", zep_format_span(job->cluster.time_s, want), zep_format_span(limit, have));
}

int zep_submit_test(const struct zep_job *job, const char *script, const char *cluster, struct zep_error *err)
{
    struct zep_process_result r;
    struct zep_argv a = {0};
    int rc;

    zep_argv_split(&a, "sbatch --test-only");
    add_cluster(&a, cluster);
    zep_argv_add(&a, "%s", script);
    if ((rc = call_sbatch(&a, job, 1, &r, err)) < 0)
        return rc;
    if (r.timed_out || (r.status != 0 && (strstr(r.err, "timed out") || strstr(r.err, "nable to contact"))))
        rc = zep_error_set(err, ZEP_EUNAVAIL, "the controller gives no answer: %.*s", (int)strcspn(r.err, "\n"), *r.err ? r.err : "is slurmctld up?");
    else if (r.status != 0 && !strstr(r.err, "busy")) /* which passes */
        rc = refused(job, &r, cluster, err);
    zep_process_result_free(&r);
    return rc < 0 ? rc : check_time(job, cluster, err);
}

int zep_submit_call(const struct zep_job *job, const char *script, const char *cluster, const char *after, char id_out[160], struct zep_error *err)
{
    struct zep_process_result r;
    struct zep_argv a = {0};
    int rc;

    zep_argv_split(&a, "sbatch --parsable");
    add_cluster(&a, cluster);
    if (after)
        zep_argv_add(&a, "--dependency=afterany:%.*s", (int)strcspn(after, ";"), after);
    zep_argv_add(&a, "%s", script);
    if ((rc = call_sbatch(&a, job, 0, &r, err)) < 0)
        return rc;
    snprintf(id_out, 160, "%.*s", (int)strcspn(r.out, "\n"), r.out);
    if (r.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "sbatch gave no answer in %.0f s: is slurmctld up?", SBATCH_S);
    else if (r.status != 0 && strstr(r.err, "timed out"))
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "sbatch got no answer: %.*s", (int)strcspn(r.err, "\n"), r.err);
    else if (r.status != 0)
        rc = refused(NULL, &r, cluster, err);
    else if (!strspn(id_out, "0123456789"))
        rc = zep_error_set(err, ZEP_EIO, "sbatch printed no job id: '%.100s'", r.out);
    zep_process_result_free(&r);
    return rc;
}

void zep_submit_undo(const char *id, const char *cluster)
{
    struct zep_process_result r;
    struct zep_argv a = {0};

    zep_argv_add(&a, "scancel");
    add_cluster(&a, cluster);
    zep_argv_add(&a, "%.*s", (int)strcspn(id, ";"), id);
    if (call(&a, ASK_S, &r, NULL) == ZEP_OK)
        zep_process_result_free(&r);
}
