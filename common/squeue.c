#include "config.h"
#include "common/squeue.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/process.h"

#define ASK_S 10.0

static const char *const filters[] = {"SQUEUE_", "SACCT_", "SCANCEL_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", NULL};

const char *const *zep_squeue_filters(void)
{
    return filters;
}

static int is_final(const char *word, size_t len)
{
    static const char *const final[] = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"};

    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++)
        if (strlen(final[i]) == len && !strncmp(word, final[i], len))
            return 1;
    return 0;
}

int zep_squeue_is_final(const char *word)
{
    return is_final(word, strlen(word));
}

/* One line for each part of an array or heterogeneous job: it has ended when all of them have. */
static enum zep_job_state judge(const char *text)
{
    enum zep_job_state state = ZEP_JOB_UNKNOWN;

    while (*text) {
        size_t len = strcspn(text, "\n");

        if (len && !is_final(text, len))
            return ZEP_JOB_LIVES;
        if (len)
            state = ZEP_JOB_ENDED;
        text += len + (text[len] == '\n');
    }
    return state;
}

enum zep_job_state zep_squeue_job(const char *jobid, double time_s, char *word_out, size_t size)
{
    char *argv[] = {"squeue", "-h", "-t", "all", "-o", "%T", "-j", (char *)jobid, NULL};
    enum zep_job_state state = ZEP_JOB_UNKNOWN;
    struct zep_process_result r;

    snprintf(word_out, size, "%s", "");
    if (!*jobid || zep_process_run_without(argv, filters, time_s, &r, NULL) < 0)
        return ZEP_JOB_UNKNOWN;
    if (!r.timed_out && r.status == 0) {
        state = judge(r.out);
        snprintf(word_out, size, "%.*s", (int)strcspn(r.out, "\n"), r.out);
    } else if (!r.timed_out && strstr(r.err, "Invalid job id")) {
        state = ZEP_JOB_ENDED;
    }
    zep_process_result_free(&r);
    return state;
}

int zep_squeue_step(const char *jobid, const char *name, double time_s, char *id_out, size_t size)
{
    char *argv[] = {"squeue", "-h", "-s", "-o", "%i %j", "-j", (char *)jobid, NULL};
    struct zep_process_result r;
    int found = -1;

    if (zep_process_run_without(argv, filters, time_s, &r, NULL) < 0)
        return -1;
    if (!r.timed_out && (r.status == 0 || strstr(r.err, "Invalid job id")))
        found = 0;
    for (const char *line = r.out; found == 0 && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t id = strcspn(line, " \n"), len = strcspn(line, "\n");

        if (id < len && len - id - 1 == strlen(name) && !strncmp(line + id + 1, name, len - id - 1)) {
            snprintf(id_out, size, "%.*s", (int)id, line);
            found = 1;
        }
    }
    zep_process_result_free(&r);
    return found;
}

int zep_squeue_end_step(const char *jobid, const char *name, double time_s, struct zep_error *err)
{
    double end = zep_clock_now() + time_s;
    struct zep_process_result r;
    char id[64] = "";
    int there;

    while ((there = zep_squeue_step(jobid, name, ASK_S, id, sizeof id)) != 0) {
        char *argv[] = {"scancel", id, NULL};

        if (there > 0 && zep_process_run_without(argv, filters, ASK_S, &r, NULL) == ZEP_OK)
            zep_process_result_free(&r);
        if (zep_clock_now() >= end)
            return there > 0 ? zep_error_set(err, ZEP_ETIMEDOUT, "step %s does not end", id) : zep_error_set(err, ZEP_ETIMEDOUT, "job %s: squeue gives no answer", jobid);
        poll(NULL, 0, 300);
    }
    return ZEP_OK;
}

int zep_squeue_cluster(double time_s, char *name_out, size_t size)
{
    char *argv[] = {"scontrol", "show", "config", NULL};
    struct zep_process_result r;
    const char *p;
    int rc = ZEP_EUNAVAIL;

    if (zep_process_run_without(argv, filters, time_s, &r, NULL) < 0)
        return ZEP_EUNAVAIL;
    if (!r.timed_out && r.status == 0 && (p = strstr(r.out, "\nClusterName")) && (p = strchr(p, '='))) {
        p += strspn(p, "= ");
        snprintf(name_out, size, "%.*s", (int)strcspn(p, " \n"), p);
        rc = ZEP_OK;
    }
    zep_process_result_free(&r);
    return rc;
}
