/* For tests/t/30-run.t: checkpoints and other file work that takes longer than the watchdog's time-out of 0.5 s, and ranks that are lost meanwhile.
 *
 *   ckpt-probe save DIR     a save whose commit takes 1.5 s on rank 0, and a load
 *   ckpt-probe behind DIR   the same out of a copy, while the model changes
 *   ckpt-probe bad DIR      a save of a weight, and of a moment, that is not finite on the last rank, over a good checkpoint
 *   ckpt-probe stop         rank 1 is stopped while rank 0 works: the watchdog ends the job
 *   ckpt-probe limit        rank 1 works beyond its limit: the watchdog ends the job                  (all under mpirun) */
#include "config.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/arena.h"
#include "common/job.h"
#include "runtime/agree.h"
#include "runtime/checkpoint.h"
#include "runtime/filework.h"

static const char job_text[] = "model: {vocab: 16, hidden: 16, layers: 1, heads: 2, kv_heads: 1, head_dim: 8, ffn: 24}\n";

static int nap(void *arg, struct zep_error *err)
{
    const double *time_s = arg;
    struct timespec t = {(time_t)*time_s, (long)((*time_s - (double)(time_t)*time_s) * 1e9)};

    (void)err;
    nanosleep(&t, NULL);
    return ZEP_OK;
}

static int stop(void *arg, struct zep_error *err)
{
    (void)arg;
    (void)err;
    raise(SIGSTOP);
    return ZEP_OK;
}

static int make_model(struct zep_comm *comm, struct zep_job **job, struct zep_model **model, struct zep_optim **optim, struct zep_error *err)
{
    struct zep_model_shape shape;
    const struct zep_kernels *k;
    int rc;

    if ((rc = zep_job_parse("job", job_text, strlen(job_text), job, err)) < 0 || (rc = zep_model_shape_from_job(*job, &shape, err)) < 0 || (rc = zep_kernels_select(&k, err)) < 0 ||
        (rc = zep_model_new(&shape, k, model, err)) < 0)
        return rc;
    zep_model_init(*model, 1, 0, (*model)->n_weight);
    return zep_optim_new(*job, (*model)->n_weight, zep_comm_size(comm), zep_comm_rank(comm), optim, err);
}

/* Out of a copy, while the model changes; nobody waits but in the reductions that a training step has. */
static int save_behind(struct zep_comm *comm, const struct zep_ckpt_args *args, struct zep_model *model, const struct zep_optim *optim, struct zep_error *err)
{
    size_t n = (size_t)(optim->first[optim->rank + 1] - optim->first[optim->rank]);
    float *copy = calloc(3 * n, sizeof *copy);
    struct zep_ckpt_save *s;
    int done = 0, rounds = 0, rc;
    char name[64];
    int64_t bytes;
    uint32_t busy;

    if (!copy)
        return zep_error_nomem(err, "probe");
    if ((rc = zep_ckpt_begin(comm, args, copy, &s, err)) < 0)
        goto out;
    memset(model->weight, 0, (size_t)model->n_weight * sizeof(float));
    memset(optim->m, 0, n * sizeof(float));
    while (!done) {
        busy = (uint32_t)zep_ckpt_busy(s);
        if ((rc = zep_comm_or_u32(comm, &busy, 1, err)) < 0 || (!busy && (rc = zep_ckpt_advance(comm, s, &done, err)) < 0))
            goto out;
        rounds += busy != 0;
    }
    if (rounds == 0) /* confirm takes a while */
        rc = zep_error_set(err, ZEP_EINTERNAL, "nothing was done behind the reductions");
    else
        rc = zep_ckpt_end(comm, s, name, &bytes, err);
out:
    free(copy);
    return rc;
}

static int save(struct zep_comm *comm, const char *dir, int background, struct zep_error *err)
{
    struct zep_ckpt_args args;
    struct zep_ckpt_info info = {.step = 4, .seed = 1, .tokens = 100}, found = {0};
    struct zep_job *job = NULL;
    struct zep_model *model = NULL;
    struct zep_optim *optim = NULL;
    double slow = 1.5;
    char name[64];
    int64_t bytes;
    float probe, moment = 0.25f;
    int rc;

    if ((rc = make_model(comm, &job, &model, &optim, err)) < 0)
        return rc;
    optim->m[0] = moment;
    probe = model->weight[model->n_weight / 2];
    args = (struct zep_ckpt_args){dir, info, model, optim, 2, nap, &slow};
    rc = background ? save_behind(comm, &args, model, optim, err) : zep_ckpt_save(comm, &args, name, &bytes, err);
    memset(model->weight, 0, (size_t)model->n_weight * sizeof(float));
    if (rc == ZEP_OK)
        rc = zep_ckpt_load(comm, dir, &info, model, optim, &found, name, err);
    if (rc == ZEP_OK && (found.step != 4 || model->weight[model->n_weight / 2] != probe || optim->m[0] != moment))
        rc = zep_error_set(err, ZEP_EINTERNAL, "rank %d: not what was saved", zep_comm_rank(comm));
    zep_optim_free(optim);
    zep_model_free(model);
    zep_job_free(job);
    return rc;
}

/* Both must be refused; what they were refused for is printed. */
static int save_bad(struct zep_comm *comm, const char *dir, struct zep_error *err)
{
    struct zep_ckpt_args args = {.rundir = dir, .info = {.step = 4, .seed = 1, .tokens = 100}, .keep = 1};
    struct zep_job *job = NULL;
    struct zep_model *model = NULL;
    struct zep_optim *optim = NULL;
    char name[64];
    int64_t bytes;
    int rank = zep_comm_rank(comm), last = rank == zep_comm_size(comm) - 1, rc;

    if ((rc = make_model(comm, &job, &model, &optim, err)) < 0)
        return rc;
    args.model = model;
    args.optim = optim;
    if ((rc = zep_ckpt_save(comm, &args, name, &bytes, err)) < 0)
        return rc;
    for (int i = 0; i < 2; i++) {
        model->weight[model->n_weight - 1] = i == 0 ? NAN : 0.0f; /* of model.norm.weight, the last rank's */
        optim->v[0] = last && i == 1 ? INFINITY : 0.0f;
        args.info.step = 5 + i;
        if (zep_ckpt_save(comm, &args, name, &bytes, err) == ZEP_OK)
            return zep_error_set(err, ZEP_EIO, "rank %d: step %d was saved", rank, 5 + i);
        if (rank == 0)
            printf("%s: %s\n", zep_status_name(err->code), err->text);
    }
    return ZEP_OK;
}

static int probe(struct zep_comm *comm, int argc, char **argv, struct zep_error *err)
{
    int rank = zep_comm_rank(comm);
    double slow = 1.5;

    if (argc == 3 && strcmp(argv[1], "save") == 0)
        return save(comm, argv[2], 0, err);
    if (argc == 3 && strcmp(argv[1], "behind") == 0)
        return save(comm, argv[2], 1, err);
    if (argc == 3 && strcmp(argv[1], "bad") == 0)
        return save_bad(comm, argv[2], err);
    if (argc == 2 && strcmp(argv[1], "stop") == 0)
        return zep_filework(comm, 60, rank == 0 ? nap : rank == 1 ? stop : NULL, &slow, err);
    if (argc == 2 && strcmp(argv[1], "limit") == 0)
        return zep_filework(comm, 0.2, rank == 1 ? nap : NULL, &slow, err);
    return zep_error_set(err, ZEP_EINVAL, "see the comment in ckpt_probe.c");
}

int main(int argc, char **argv)
{
    struct zep_error err = {0};
    struct zep_comm *comm;
    int32_t *dev_node;
    int rc;

    if (zep_comm_start(&argc, &argv, 0, &comm, &err) < 0) {
        fprintf(stderr, "ckpt-probe: %s\n", err.text);
        return 1;
    }
    dev_node = zep_calloc((size_t)zep_comm_size(comm), sizeof *dev_node);
    rc = dev_node ? zep_comm_arrange(comm, zep_comm_size(comm), 1, dev_node, NULL, &err) : zep_error_nomem(&err, "ranks");
    zep_comm_set_timeout(comm, 0.5);
    if (rc == ZEP_OK)
        rc = probe(comm, argc, argv, &err);
    free(dev_node);
    if (rc < 0) {
        fprintf(stderr, "ckpt-probe: %s\n", err.text);
        zep_comm_abort(comm, zep_exit_status(rc));
    }
    zep_comm_finish(comm);
    return 0;
}
