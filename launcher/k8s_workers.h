/* The workers of an MPIJob as its launcher pod sees them: the operator's host file, ssh with the operator's key, what each worker says of itself. */
#ifndef ZEP_LAUNCHER_K8S_WORKERS_H
#define ZEP_LAUNCHER_K8S_WORKERS_H

#include "common/error.h"

struct zep_worker {
    char *host;         /* as in the host file: "zep-worker-0.zep.train.svc" */
    char name[256];     /* its own host name, "" not known yet */
    char node[256];     /* the node that it is on, "" not known */
    int slots, cores, gpus;
    int answered;
    char why[300];      /* why not */
};

struct zep_workers {
    int n;
    struct zep_worker *v;
    char *dir;          /* private: key, known_hosts */
    char *ssh_args;     /* what ssh needs beside the host, words divided by blanks */
};

/* hostfile: the operator's; keys: folder with id_rsa and id_rsa.pub; port: of sshd in the workers. */
int zep_workers_new(const char *hostfile, const char *keys, int port, struct zep_workers **out, struct zep_error *err);
void zep_workers_free(struct zep_workers *w);
/* Until all have answered, at most limit_s. ZEP_EUNAVAIL names those that are missing. stop: a signal that came, 0 none, ends the wait with ZEP_ESTOPPED. */
int zep_workers_wait(struct zep_workers *w, double limit_s, const volatile int *stop, struct zep_error *err);

#endif
