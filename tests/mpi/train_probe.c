/* For tests/t/40-gradients.t: trains a small model on made-up documents and writes losses and full gradients, so that runs on different layouts can be compared.
 *
 *   train-probe data PREFIX [long|token]    (shorter documents, and one that is 600 tokens long, or has a token of 99)
 *   train-probe run OUT JOB.yaml [--resume-dir DIR] [--save-dir DIR] [--steps N] [--gradient-at STEP] [--mutant NAME]     (under mpirun)
 *       --wait-next 1: no gradient is exchanged before the next step's plans are there, which is printed
 *       --form F: rings that can carry it are of this form of transfer (single, double, gather, mixed); prints "forms single N double N gather N"
 *   train-probe compare A B GRADIENT_TOLERANCE LOSS_TOLERANCE
 *
 * OUT: text: "loss STEP VALUE NORM", "gradient STEP", then one line a tensor with its values in OUT.STEP.f32. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/job.h"
#include "common/rng.h"
#include "planner/workload.h"
#include "runtime/agree.h"
#include "runtime/checkpoint.h"
#include "runtime/train.h"
#include "tests/unit/form_util.h"

/* --- data: documents of 1 to 600 tokens; half of the tokens are of a few kinds, others follow from the two before --- */
static int make_data(const char *prefix, const char *flaw)
{
    struct zep_dataset_writer *w;
    struct zep_error err;
    struct zep_rng rng;
    int32_t token[600];

    zep_rng_seed(&rng, 7);
    if (zep_dataset_create(prefix, 1, &w, &err) < 0)
        goto fail;
    for (int d = 0; d < 600; d++) {
        int64_t n = *flaw ? 1 + (int64_t)zep_rng_below(&rng, 90) : d % 8 == 0 ? 600 : d % 4 == 0 ? 100 + (int64_t)zep_rng_below(&rng, 500) : 1 + (int64_t)zep_rng_below(&rng, 90);

        if (*flaw && d == 211)
            n = 600;
        for (int64_t i = 0; i < n; i++) {
            int a = i > 0 ? token[i - 1] : 3, b = i > 1 ? token[i - 2] : 5;

            uint64_t kind = zep_rng_below(&rng, 10);

            token[i] = kind < 3 ? (int32_t)zep_rng_below(&rng, 5) : kind < 9 ? (a + b) % 13 : (int32_t)zep_rng_below(&rng, 61);
        }
        if (d == 211 && !strcmp(flaw, "token"))
            token[7] = 99;
        if (zep_dataset_add(w, token, n, &err) < 0)
            goto fail;
    }
    if (zep_dataset_finish(w, &err) == ZEP_OK)
        return 0;
fail:
    fprintf(stderr, "train-probe: %s\n", err.text);
    return 1;
}

/* --- forms of transfer: every plan is changed on its way to the trainer (linked with --wrap=zep_plan_build) --- */
static const char *wanted_form;
static int n_of_form[ZEP_N_FORM + 1];

int __real_zep_plan_build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err);
int __wrap_zep_plan_build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err);
int __wrap_zep_plan_build(const struct zep_view *view, const int64_t *len, int n, const struct zep_plan_opts *opts, struct zep_plan **plan_out, struct zep_error *err)
{
    int rc = __real_zep_plan_build(view, len, n, opts, plan_out, err);

    if (rc == ZEP_OK && wanted_form && (rc = test_set_forms(*plan_out, wanted_form, n_of_form, err)) < 0)
        zep_plan_free(*plan_out);
    return rc;
}

/* --- mutants: each is a mistake that the comparison must notice --- */
struct mutant {
    const char *name;
    struct zep_comm *comm;
};

static void break_share(void *arg, const struct zep_batch *batch, struct zep_share *share)
{
    const struct mutant *m = arg;

    for (int64_t i = 0; i < share->n; i++) {
        if (strcmp(m->name, "positions-not-restarted") == 0)
            share->pos[i] = (int32_t)i; /* place in the rank's rows in place of the place in the document */
        if (strcmp(m->name, "label-across-documents") == 0 && share->target[i] < 0)
            share->target[i] = batch->token[0];
    }
}

static void break_gradient(void *arg, struct zep_model *model, const struct zep_share *share)
{
    const struct mutant *m = arg;
    double mine = 0.0, all;
    struct zep_error err;

    if (strcmp(m->name, "mean-per-rank") != 0)
        return;
    for (int64_t i = 0; i < share->n; i++)
        mine += share->target[i] >= 0;
    all = mine;
    if (zep_comm_sum_f64(m->comm, &all, 1, &err) < 0)
        return;
    for (int64_t i = 0; i < model->n_weight; i++)
        model->grad[i] *= (float)(mine > 0 ? all / (mine * zep_comm_size(m->comm)) : 0.0);
}

static int break_op(void *arg, enum zep_pass pass, struct zep_op *op)
{
    struct mutant *m = arg;

    if (strcmp(m->name, "ring-step-dropped") == 0 && pass == ZEP_PASS_FWD && op->kind == ZEP_OP_ATTN && op->step == 1)
        return 0;
    if (strcmp(m->name, "dkv-not-returned") == 0 && pass == ZEP_PASS_BWD && op->kind == ZEP_OP_ADD && op->dst.space == ZEP_ATT_DKV) /* what came home */
        return 0;
    return 1;
}

/* --- a run --- */
struct probe {
    const char *out, *job, *resume, *save, *mutant;
    int64_t steps, gradient_at;
    int wait_next;
};

static int write_gradient(const struct probe *p, struct zep_train *train, int64_t step, FILE *f, int root, struct zep_error *err)
{
    const struct zep_model *model = zep_train_model(train);
    float *g = zep_calloc((size_t)model->n_weight, sizeof *g);
    char path[4096];
    int rc;

    if (!g)
        return zep_error_nomem(err, "gradient");
    rc = zep_train_gradient(train, g, err);
    if (rc == ZEP_OK && root) {
        snprintf(path, sizeof path, "%s.%" PRId64 ".f32", p->out, step);
        rc = zep_fs_write_atomic(path, g, (size_t)model->n_weight * sizeof *g, 0666, err);
        for (int i = 0; i < model->n_tensor; i++)
            fprintf(f, "gradient %" PRId64 " %s %" PRId64 " %" PRId64 "\n", step, model->tensor[i].name, model->tensor[i].offset,
                    model->tensor[i].rows * model->tensor[i].cols);
    }
    free(g);
    return rc;
}

struct look {
    const struct probe *p;
    struct zep_train *train;
    FILE *f;
    int root, rc, ahead;
    int64_t step;
    struct zep_error err;
    struct mutant mutant;
};

static void on_share(void *arg, const struct zep_batch *batch, struct zep_share *share)
{
    break_share(&((struct look *)arg)->mutant, batch, share);
}

/* The step is not over: what is planned now is planned while it runs. No MPI is called meanwhile. */
static void wait_next(const struct look *l)
{
    double end = zep_clock_now() + 60.0;
    int there;

    while (!(there = zep_train_next_is_planned(l->train)) && zep_clock_now() < end && l->ahead)
        usleep(1000);
    printf("in step %" PRId64 " rank %d %s the next plans\n", l->step, zep_comm_rank(l->mutant.comm), there ? "has" : "lacks");
}

static void on_gradient(void *arg, struct zep_model *model, const struct zep_share *share)
{
    const struct look *l = arg;

    if (l->p->wait_next && l->step < l->p->steps)
        wait_next(l);
    break_gradient(&((struct look *)arg)->mutant, model, share);
}

static void on_reduced(void *arg, const struct zep_train *train, double norm)
{
    struct look *l = arg;

    if (l->step == l->p->gradient_at && l->rc == ZEP_OK)
        l->rc = write_gradient(l->p, l->train, l->step, l->f, l->root, &l->err);
}

static int train(const struct probe *p, struct zep_comm *comm, const struct zep_job *job, const struct zep_view *view, const struct zep_dataset *set, FILE *f,
                 struct zep_error *err)
{
    struct look look = {.p = p, .f = f, .root = zep_comm_rank(comm) == 0, .ahead = job->plan.ahead, .mutant = {p->mutant, comm}};
    struct zep_train_hooks hooks = {&look, on_share, on_gradient, on_reduced};
    struct zep_ckpt_info info = {.seed = job->train.seed, .tokens = job->train.tokens, .window = job->plan.window, .compose = zep_compose_find(job->plan.compose)}, found;
    const struct zep_kernels *k;
    char name[64];
    int64_t bytes;
    int rc;

    if ((rc = zep_kernels_select(&k, err)) < 0 || (rc = zep_train_new(comm, job, view, k, set, NULL, &look.train, err)) < 0)
        return rc;
    zep_train_set_hooks(look.train, &hooks);
    zep_exec_set_hook(zep_train_exec(look.train), break_op, &look.mutant);
    if (p->resume) {
        if ((rc = zep_ckpt_load(comm, p->resume, &info, zep_train_model(look.train), zep_train_optim(look.train), &found, name, err)) < 0)
            return rc;
        zep_train_set_step(look.train, found.step);
        info.step = found.step;
    }
    while (info.step < p->steps) {
        const struct zep_step_flags flags = {0};
        struct zep_step_stats st;

        look.step = info.step + 1;
        if ((rc = zep_train_step(look.train, &flags, &st, err)) < 0)
            return zep_error_prefix(err, "step %" PRId64, look.step);
        if (look.rc < 0)
            return zep_error_set(err, look.rc, "%s", look.err.text);
        info.step = st.step;
        if (look.root)
            fprintf(f, "loss %" PRId64 " %.9e %.9e micro %d zones %" PRId64 " %" PRId64 " %" PRId64 "\n", st.step, st.loss, st.grad_norm, st.n_micro, st.zone_tok[1],
                    st.zone_tok[2], st.zone_tok[3]);
    }
    if (p->save) {
        struct zep_ckpt_args args = {p->save, info, zep_train_model(look.train), zep_train_optim(look.train), 3, NULL, NULL};

        rc = zep_ckpt_save(comm, &args, name, &bytes, err);
    }
    zep_train_free(look.train);
    return rc;
}

static int run_probe(const struct probe *p, struct zep_comm *comm, struct zep_error *err)
{
    struct zep_job *job;
    struct zep_topo *topo;
    struct zep_view *view;
    struct zep_dataset *set = NULL;
    int root = zep_comm_rank(comm) == 0, rc;
    FILE *f = NULL;

    if ((rc = zep_job_load(p->job, NULL, 0, &job, err)) < 0 || (rc = zep_topo_synthetic(job->cluster.topology + strlen("synthetic: "), &topo, err)) < 0 ||
        (rc = zep_view_new(topo, 0, 0, 1, &view, err)) < 0)
        return rc;
    if (root && ((rc = zep_dataset_open(job->data.train, &set, err)) < 0))
        return rc;
    if (root && !(f = fopen(p->out, "w")))
        return zep_error_set(err, ZEP_EIO, "%s: cannot be written", p->out);
    if ((rc = zep_comm_arrange(comm, view->n_dev, 1, view->dev_node, NULL, err)) < 0)
        return rc;
    rc = train(p, comm, job, view, set, f, err);
    if (f && wanted_form)
        printf("forms single %d double %d gather %d heads %d\n", n_of_form[ZEP_FORM_SINGLE], n_of_form[ZEP_FORM_DOUBLE], n_of_form[ZEP_FORM_GATHER], n_of_form[ZEP_N_FORM]);
    if (f && fclose(f) != 0 && rc == ZEP_OK)
        rc = zep_error_set(err, ZEP_EIO, "%s: cannot be written", p->out);
    zep_dataset_close(set);
    zep_view_free(view);
    zep_topo_free(topo);
    zep_job_free(job);
    return rc;
}

static int cmd_run(int argc, char **argv)
{
    struct probe p = {.out = argv[2], .job = argv[3], .mutant = "none", .steps = 1, .gradient_at = 1};
    struct zep_comm *comm;
    struct zep_error err;
    int rc;

    for (int i = 4; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--resume-dir") == 0)
            p.resume = argv[i + 1];
        else if (strcmp(argv[i], "--save-dir") == 0)
            p.save = argv[i + 1];
        else if (strcmp(argv[i], "--steps") == 0)
            p.steps = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--gradient-at") == 0)
            p.gradient_at = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--mutant") == 0)
            p.mutant = argv[i + 1];
        else if (strcmp(argv[i], "--wait-next") == 0)
            p.wait_next = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--form") == 0)
            wanted_form = argv[i + 1];
        else
            return 2;
    }
    if (zep_comm_start(&argc, &argv, 0, &comm, &err) < 0) {
        fprintf(stderr, "train-probe: %s\n", err.text);
        return 1;
    }
    zep_comm_set_timeout(comm, 60.0);
    rc = run_probe(&p, comm, &err);
    if (rc < 0) {
        fprintf(stderr, "train-probe: rank %d: %s\n", zep_comm_rank(comm), err.text);
        zep_comm_abort(comm, 1);
    }
    zep_comm_finish(comm);
    return 0;
}

/* --- comparison --- */
static float *read_floats(const char *out, long step, size_t *n_out)
{
    char path[4096];
    char *data;
    size_t len;

    snprintf(path, sizeof path, "%s.%ld.f32", out, step);
    if (zep_fs_read(path, 0, &data, &len, NULL) < 0)
        return NULL;
    *n_out = len / sizeof(float);
    return (float *)(void *)data;
}

static double relative_l2(const float *a, const float *b, int64_t n)
{
    double diff = 0.0, ref = 0.0;

    for (int64_t i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        ref += (double)a[i] * a[i];
    }
    return ref > 0.0 ? sqrt(diff / ref) : sqrt(diff);
}

static int compare(const char *a_path, const char *b_path, double grad_tol, double loss_tol)
{
    FILE *a = fopen(a_path, "r"), *b = fopen(b_path, "r");
    char la[512], lb[512];
    float *ga = NULL, *gb = NULL;
    double worst_grad = 0.0, worst_loss = 0.0, worst_norm = 0.0;
    int lines = 0, bad = !a || !b;

    while (!bad && fgets(la, sizeof la, a)) {
        double va, vb, na, nb;
        char ta[128], tb[128];
        long sa, sb;
        int64_t off, n;
        size_t len_a, len_b;

        if (!fgets(lb, sizeof lb, b)) {
            bad = 1;
        } else if (sscanf(la, "loss %ld %lf %lf", &sa, &va, &na) == 3) {
            bad = sscanf(lb, "loss %ld %lf %lf", &sb, &vb, &nb) != 3 || sa != sb;
            worst_loss = bad ? worst_loss : fmax(worst_loss, fabs(va - vb));
            worst_norm = bad ? worst_norm : fmax(worst_norm, fabs(na - nb) / na);
        } else if (sscanf(la, "gradient %ld %127s %" SCNd64 " %" SCNd64, &sa, ta, &off, &n) == 4) {
            bad = sscanf(lb, "gradient %ld %127s", &sb, tb) != 2 || sa != sb || strcmp(ta, tb) != 0;
            if (!ga)
                ga = read_floats(a_path, sa, &len_a), gb = read_floats(b_path, sb, &len_b);
            bad = bad || !ga || !gb;
            if (!bad) {
                double e = relative_l2(ga + off, gb + off, n);

                if (!(e <= grad_tol))
                    printf("# %s: relative L2 error %.3e\n", ta, e);
                worst_grad = e > worst_grad || isnan(e) ? e : worst_grad;
            }
        }
        lines++;
    }
    if (!bad && fgets(lb, sizeof lb, b))
        bad = 1;
    free(ga);
    free(gb);
    if (bad || lines == 0) {
        printf("# %s and %s do not have the same records\n", a_path, b_path);
        return 1;
    }
    printf("# gradient %.3e norm %.3e loss %.3e\n", worst_grad, worst_norm, worst_loss);
    /* the norm is compared where a gradient is: later steps' norms follow the weights */
    return !(worst_grad <= grad_tol && worst_loss <= loss_tol && (!(grad_tol < 1.0) || worst_norm <= grad_tol));
}

int main(int argc, char **argv)
{
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "data") == 0)
        return make_data(argv[2], argc == 4 ? argv[3] : "");
    if (argc >= 4 && strcmp(argv[1], "run") == 0)
        return cmd_run(argc, argv);
    if (argc == 6 && strcmp(argv[1], "compare") == 0)
        return compare(argv[2], argv[3], atof(argv[4]), atof(argv[5]));
    fprintf(stderr, "usage: train-probe data PREFIX [long|token] | run OUT JOB.yaml [OPTION VALUE]... | compare A B GRADIENT_TOLERANCE LOSS_TOLERANCE\n");
    return 2;
}
