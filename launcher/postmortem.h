/* What the output of mpirun or srun tells about ranks that ended without a word of their own. */
#ifndef ZEP_LAUNCHER_POSTMORTEM_H
#define ZEP_LAUNCHER_POSTMORTEM_H

struct zep_postmortem {
    int rank, signal;    /* the rank that was lost, -1 unknown; the signal that ended it, 0 unknown */
    char host[128];
    char phase[32];      /* of the other ranks when they were told to stop */
    char tail[8][256];   /* the last lines that say something */
    int n_tail;
    int up;              /* all ranks have found each other */
    char error[1024];    /* the first error that a rank told of itself, "" none */
};

void zep_postmortem_init(struct zep_postmortem *pm);
/* Takes one line of output. Returns 1 when it is for us alone and should not be logged. */
int zep_postmortem_line(struct zep_postmortem *pm, const char *line);
/* A sentence. */
void zep_postmortem_text(const struct zep_postmortem *pm, int exit_status, char *out, int size);

#endif
