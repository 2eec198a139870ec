/* zeppelin, the command. Each verb is one file cmd_VERB.c. */
#ifndef ZEP_LAUNCHER_LAUNCHER_H
#define ZEP_LAUNCHER_LAUNCHER_H

#include <getopt.h>
#include "common/error.h"

struct zep_verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit status */
};
const struct zep_verb *zep_verbs(void); /* ends with a NULL name */

int cmd_advise(int argc, char **argv);
int cmd_cancel(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_k8s(int argc, char **argv);
int cmd_job(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_submit(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_topo(int argc, char **argv);

#endif
