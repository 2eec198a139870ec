#include "config.h"
#include "launcher/postmortem.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zep_postmortem_init(struct zep_postmortem *pm)
{
    memset(pm, 0, sizeof *pm);
    pm->rank = -1;
}

/* Open MPI 4: "mpirun noticed that process rank 3 with PID 1234 on node zep1 exited on signal 9 (Killed)." */
static int read_mpirun(struct zep_postmortem *pm, const char *line)
{
    const char *p = strstr(line, "process rank ");
    int rank, sig;
    char host[128];

    if (!p || sscanf(p, "process rank %d with PID %*d on node %127s exited on signal %d", &rank, host, &sig) != 3)
        return 0;
    pm->rank = rank;
    pm->signal = sig;
    snprintf(pm->host, sizeof pm->host, "%s", host);
    return 1;
}

static int signal_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"Killed", SIGKILL}, {"Terminated", SIGTERM}, {"Segmentation fault", SIGSEGV}, {"Aborted", SIGABRT}, {"Bus error", SIGBUS}, {"Illegal instruction", SIGILL}, {"Floating point exception", SIGFPE}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(name, known[i].name))
            return known[i].number;
    return 0;
}

/* Slurm: "srun: error: zep1: task 3: Killed", "srun: error: zep1: tasks 2-3: Killed"; the first one counts. */
static int read_srun(struct zep_postmortem *pm, const char *line)
{
    char host[128], what[64];
    int rank;

    if (strncmp(line, "srun: error: ", 13))
        return 0;
    if (sscanf(line + 13, "%127[^:]: task %d: %63[^\n]", host, &rank, what) != 3 && sscanf(line + 13, "%127[^:]: tasks %d%*[^:]: %63[^\n]", host, &rank, what) != 3)
        return 0;
    if (pm->rank < 0 && signal_of(what)) {
        pm->rank = rank;
        pm->signal = signal_of(what);
        snprintf(pm->host, sizeof pm->host, "%s", host);
    }
    return 1;
}

int zep_postmortem_line(struct zep_postmortem *pm, const char *line)
{
    if (!strncmp(line, "zeppelin-rank-phase: ", 21)) {
        if (!*pm->phase)
            snprintf(pm->phase, sizeof pm->phase, "%.31s", line + 21);
        return 1;
    }
    if (!strcmp(line, "zeppelin-rank-up"))
        return pm->up = 1;
    if (!strncmp(line, "zeppelin-rank: error: ", 22) && !*pm->error)
        snprintf(pm->error, sizeof pm->error, "%s", line + 22);
    if (read_mpirun(pm, line) || read_srun(pm, line) || !*line || strspn(line, "-= ") == strlen(line) || strstr(line, "Job step aborted"))
        return 0;
    snprintf(pm->tail[pm->n_tail % 8], sizeof pm->tail[0], "%.255s", line);
    pm->n_tail++;
    return 0;
}

void zep_postmortem_text(const struct zep_postmortem *pm, int exit_status, char *out, int size)
{
    if (pm->rank >= 0)
        snprintf(out, (size_t)size, "rank %d on %s was lost: ended by signal %d (%s)%s%s", pm->rank, pm->host, pm->signal, strsignal(pm->signal), *pm->phase ? ", while the ranks were in phase " : "", pm->phase);
    else if (*pm->error)
        snprintf(out, (size_t)size, "%s", pm->error);
    else if (pm->n_tail)
        snprintf(out, (size_t)size, "the ranks ended without a result (status %d): %s", exit_status, pm->tail[(pm->n_tail - 1) % 8]);
    else
        snprintf(out, (size_t)size, "the ranks ended without a result and without a word (status %d)", exit_status);
}
