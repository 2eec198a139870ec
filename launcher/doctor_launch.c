/* The checks of zeppelin doctor that start programs. */
#include "config.h"
#include "launcher/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/process.h"
#include "launcher/launch.h"

#define TRIAL_S 60.0

static int first_words(const char *text, char out[200])
{
    snprintf(out, 200, "%.*s", (int)(strcspn(text, "\n") > 180 ? 180 : strcspn(text, "\n")), text);
    return *out != '\0';
}

/* Whether two ranks that the launcher starts find each other. */
static void try_ranks(struct zep_doctor *d, const char *name, char *const argv[], const char *todo)
{
    struct zep_process_result p;
    struct zep_error err;
    char said[200];

    if (zep_process_run(argv, TRIAL_S, &p, &err) < 0) {
        zep_doctor_say(d, ZEP_FINDING_ERROR, "mpi", todo, "%s: %s", name, err.text);
        return;
    }
    if (!p.timed_out && !p.status && strstr(p.out, "2 ranks"))
        zep_doctor_say(d, ZEP_FINDING_OK, "mpi", NULL, "%s starts two ranks that find each other", name);
    else if (!p.timed_out && !p.status)
        zep_doctor_say(d, ZEP_FINDING_ERROR, "mpi", todo, "%s starts ranks as jobs of one each: they do not find each other", name);
    else
        zep_doctor_say(d, ZEP_FINDING_ERROR, "mpi", todo, "%s cannot start ranks: %s", name, p.timed_out ? "no answer in 60 s" : first_words(p.err, said) ? said : "no word why");
    zep_process_result_free(&p);
}

/* Slurm's MPI plugins: Debian's Open MPI speaks PMIx only. */
static int has_pmix(struct zep_doctor *d)
{
    char *argv[] = {(char *)"srun", (char *)"--mpi=list", NULL};
    struct zep_process_result p;
    struct zep_error err;
    int yes;

    if (zep_process_run(argv, 20, &p, &err) < 0 || p.timed_out) {
        zep_doctor_say(d, ZEP_FINDING_WARNING, "mpi", NULL, "srun --mpi=list gives no answer");
        return 0;
    }
    yes = strstr(p.out, "pmix") || strstr(p.err, "pmix");
    zep_process_result_free(&p);
    if (!yes)
        zep_doctor_say(d, ZEP_FINDING_WARNING, "mpi", "mpirun is used instead; for srun install Slurm's mpi/pmix plugin", "this Slurm has no PMIx: srun cannot start Open MPI's ranks");
    return yes;
}

void zep_doctor_run_launcher(struct zep_doctor *d)
{
    char *rank = NULL;
    struct zep_error err;

    if (zep_fs_helper("zeppelin-rank", &rank, &err) < 0) {
        zep_doctor_say(d, ZEP_FINDING_ERROR, "mpi", "install Open MPI's development package and build again", "zeppelin-rank is missing: zeppelin was built without MPI");
        return;
    }
    zep_launch_env(d->in_job ? ZEP_WHERE_SLURM : ZEP_WHERE_LOCAL);
    if (d->in_job && zep_launch_in_path("srun") && has_pmix(d)) {
        char nodes[32], per_node[32];
        char *argv[] = {(char *)"srun", (char *)"--mpi=pmix", nodes, (char *)"--ntasks=2", per_node, (char *)"--overcommit", (char *)"--overlap", rank, (char *)"--hello", (char *)"--ranks", (char *)"2", NULL};

        snprintf(nodes, sizeof nodes, "--nodes=%d", d->topo->n_node > 1 ? 2 : 1);
        snprintf(per_node, sizeof per_node, "--ntasks-per-node=%d", d->topo->n_node > 1 ? 1 : 2);
        try_ranks(d, "srun", argv, "look at Slurm's PMIx and Open MPI's (ompi_info | grep pmix): they must understand each other; mpirun is used where srun cannot");
    }
    if (zep_launch_in_path("mpirun")) {
        char *argv[] = {(char *)"mpirun", (char *)"-np", (char *)"2", (char *)"--oversubscribe", (char *)"--bind-to", (char *)"none", rank, (char *)"--hello", (char *)"--ranks", (char *)"2", NULL};

        try_ranks(d, "mpirun", argv, "look at Open MPI's installation, and at ssh or Slurm between the nodes");
    } else {
        zep_doctor_say(d, d->in_job && zep_launch_in_path("srun") ? ZEP_FINDING_WARNING : ZEP_FINDING_ERROR, "mpi", "install openmpi-bin, or load the site's module", "mpirun is not in PATH");
    }
    free(rank);
}
