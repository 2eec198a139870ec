/* What the values of a job must be to each other. A rule is left out where one of its values was mistaken already. */
#include "config.h"
#include "common/job_internal.h"

#include <inttypes.h>
#include <string.h>

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static void name(const struct zep_job *job, struct zep_mistakes *m)
{
    if (!*job->name || job->name[0] == '-' || job->name[0] == '.' || strlen(job->name) > 64 || strspn(job->name, ALNUM "._-") != strlen(job->name))
        zep_job_mistake(job, m, "name", ZEP_EINVAL, "name: '%.100s': expected 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", job->name);
}

static void kv_heads(const struct zep_job *job, struct zep_mistakes *m)
{
    if (job->model.heads % job->model.kv_heads)
        zep_job_mistake(job, m, "model.kv_heads", ZEP_EINVAL, "model.kv_heads: '%" PRId64 "': expected a divisor of model.heads (%" PRId64 ")", job->model.kv_heads, job->model.heads);
}

static void head_dim(const struct zep_job *job, struct zep_mistakes *m)
{
    if (job->model.head_dim % 8)
        zep_job_mistake(job, m, "model.head_dim", ZEP_EINVAL, "model.head_dim: '%" PRId64 "': expected a multiple of 8", job->model.head_dim);
}

static void tokens(const struct zep_job *job, struct zep_mistakes *m)
{
    if (job->train.tokens < job->data.context)
        zep_job_mistake(job, m, "train.tokens", ZEP_EINVAL, "train.tokens: '%" PRId64 "': expected at least data.context (%" PRId64 "), so that every document fits into a step", job->train.tokens,
                        job->data.context);
}

static void min_lr(const struct zep_job *job, struct zep_mistakes *m)
{
    if (job->train.min_lr > job->train.lr)
        zep_job_mistake(job, m, "train.min_lr", ZEP_EINVAL, "train.min_lr: '%g': expected at most train.lr (%g)", job->train.min_lr, job->train.lr);
}

static void max_nodes(const struct zep_job *job, struct zep_mistakes *m)
{
    if (job->cluster.max_nodes && job->cluster.max_nodes < job->cluster.nodes)
        zep_job_mistake(job, m, "cluster.max_nodes", ZEP_EINVAL, "cluster.max_nodes: '%" PRId64 "': expected at least cluster.nodes (%" PRId64 "), or 0", job->cluster.max_nodes, job->cluster.nodes);
}

static int here_only(const struct zep_job *job)
{
    return !strcmp(job->cluster.where, "local");
}

/* A job that is told to stop as soon as it begins would be requeued for ever. */
static void grace(const struct zep_job *job, struct zep_mistakes *m)
{
    double limit = job->cluster.time_s, g = job->cluster.grace_s;

    if (here_only(job) || limit <= 0 || limit > g + ZEP_JOB_EARLY_S)
        return;
    zep_job_mistake(job, m, "cluster.time", ZEP_EINVAL,
                    "cluster.time is %.0f s and cluster.grace %.0f s: expected a time limit above %.0f s, for Slurm tells of its end up to a minute before the grace begins", limit, g, g + ZEP_JOB_EARLY_S);
}

/* The site's defaults for Slurm do not make a job that runs here wrong. */
static void local_gpus(const struct zep_job *job, struct zep_mistakes *m)
{
    if (here_only(job) && !((const struct job_full *)job)->resolved && job->cluster.gpus_per_node && zep_job_origin_layer(job, "cluster.gpus_per_node") >= ZEP_JOB_USER)
        zep_job_mistake(job, m, "cluster.gpus_per_node", ZEP_EINVAL,
                        "cluster.gpus_per_node: '%" PRId64 "': GPUs are asked of Slurm or Kubernetes, but cluster.where is local: take it out (cluster.devices says how many ranks a node)",
                        job->cluster.gpus_per_node);
}

/* ALL, NONE, NIL, or names, perhaps after ALL: never a value. */
static void export_env(const struct zep_job *job, struct zep_mistakes *m)
{
    const char *s = job->cluster.export_env;
    int first = 1, good = *s != '\0';

    while (good && *s) {
        size_t len = strcspn(s, ",");
        char word[130] = "";

        if (len < sizeof word)
            memcpy(word, s, len);
        good = zep_job_env_name(word) && (first || (strcmp(word, "ALL") && strcmp(word, "NONE") && strcmp(word, "NIL"))) && (s[len] != ',' || (s[len + 1] && strcmp(word, "NONE") && strcmp(word, "NIL")));
        s += len + (s[len] == ',');
        first = 0;
    }
    if (!good)
        zep_job_mistake(job, m, "cluster.export", ZEP_EINVAL, "cluster.export: '%.200s': expected NONE, ALL, or names of variables divided by commas (values belong into cluster.env)", job->cluster.export_env);
}

static void env_and_secrets(const struct zep_job *job, struct zep_mistakes *m)
{
    const struct zep_job_map *s = &job->cluster.secrets;

    for (int i = 0; i < s->n; i++) {
        const struct zep_job_pair *p = &s->pair[i];
        int kube = !strncmp(p->value, "k8s:", 4);

        if (zep_job_map_get(&job->cluster.env, p->name))
            zep_mistakes_add(m, NULL, ZEP_EINVAL, "%s: cluster.secrets.%s: cluster.env has a variable of that name, too: expected one of them", p->origin, p->name);
        if (kube && (here_only(job) || !strcmp(job->cluster.where, "slurm")))
            zep_mistakes_add(m, NULL, ZEP_EINVAL, "%s: cluster.secrets.%s: '%s': a Kubernetes secret, but cluster.where is %s: expected {env: NAME} or {file: PATH}", p->origin, p->name, p->value,
                             job->cluster.where);
        if (!kube && !strcmp(job->cluster.where, "k8s"))
            zep_mistakes_add(m, NULL, ZEP_EINVAL, "%s: cluster.secrets.%s: '%s': pods get secrets from the cluster: expected {k8s: SECRET/KEY}", p->origin, p->name, p->value);
    }
}

int zep_job_image_is_file(const char *image)
{
    size_t len = strlen(image);

    if (strstr(image, "://"))
        return 0;
    return *image == '/' || *image == '.' || (len > 5 && !strcmp(image + len - 5, ".sqsh")) || (len > 4 && !strcmp(image + len - 4, ".sif"));
}

/* A tag or digest, so that a run that is resumed gets the same image. */
static void image(const struct zep_job *job, struct zep_mistakes *m)
{
    const char *s = job->cluster.image, *last = strrchr(s, '/');

    if (!*s || zep_job_image_is_file(s))
        return;
    last = last ? last + 1 : s;
    last = strchr(last, '#') ? strchr(last, '#') + 1 : last; /* enroot's REGISTRY#NAME */
    if (s[strcspn(s, " \t\"'")])
        zep_job_mistake(job, m, "cluster.image", ZEP_EINVAL, "cluster.image: '%.200s': expected an image's name without blanks and quotes, or a file", s);
    else if (!strchr(last, ':') && !strchr(last, '@'))
        zep_job_mistake(job, m, "cluster.image", ZEP_EINVAL, "cluster.image: '%.200s': no tag: expected NAME:TAG or NAME@sha256:DIGEST, so that a run that is resumed gets the same image", s);
}

static void container(const struct zep_job *job, struct zep_mistakes *m)
{
    const char *c = job->cluster.container, *where = job->cluster.where;
    int none = !strcmp(c, "none"), pyxis = !strcmp(c, "pyxis");

    if (!none && !*job->cluster.image)
        zep_job_mistake(job, m, "cluster.container", ZEP_EINVAL, "cluster.container is %s, but cluster.image is not set: expected an image", c);
    if (none && *job->cluster.image && (here_only(job) || !strcmp(where, "slurm")))
        zep_job_mistake(job, m, "cluster.image", ZEP_EINVAL, "cluster.image is set, but cluster.container is none: expected pyxis or apptainer where cluster.where is %s", where);
    if (!none && !strcmp(where, "k8s"))
        zep_job_mistake(job, m, "cluster.container", ZEP_EINVAL, "cluster.container: '%s': pods run in k8s.image by themselves: expected none where cluster.where is k8s", c);
    if (pyxis && here_only(job))
        zep_job_mistake(job, m, "cluster.container", ZEP_EINVAL, "cluster.container: 'pyxis': a plugin of Slurm, but cluster.where is local: expected apptainer or none");
    if (pyxis && !strcmp(job->cluster.launcher, "mpirun"))
        zep_job_mistake(job, m, "cluster.container", ZEP_EINVAL, "cluster.container: 'pyxis': its options are srun's, but cluster.launcher is mpirun: expected srun or auto there, or apptainer here");
}

static void absolute(const struct zep_job *job, struct zep_mistakes *m)
{
    if (*job->cluster.mpi && *job->cluster.mpi != '/')
        zep_job_mistake(job, m, "cluster.mpi", ZEP_EINVAL, "cluster.mpi: '%.200s': expected an absolute path, the same on all nodes", job->cluster.mpi);
    if (*job->cluster.container_rank && *job->cluster.container_rank != '/')
        zep_job_mistake(job, m, "cluster.container_rank", ZEP_EINVAL, "cluster.container_rank: '%.200s': expected an absolute path in the image", job->cluster.container_rank);
}

static const struct {
    void (*check)(const struct zep_job *job, struct zep_mistakes *m);
    const char *keys[4]; /* whose values it needs; one that ends in '.': a section's */
} rules[] = {
    {name, {"name"}},
    {kv_heads, {"model.heads", "model.kv_heads"}},
    {head_dim, {"model.head_dim"}},
    {tokens, {"train.tokens", "data.context"}},
    {min_lr, {"train.lr", "train.min_lr"}},
    {max_nodes, {"cluster.nodes", "cluster.max_nodes"}},
    {grace, {"cluster.time", "cluster.grace", "cluster.where"}},
    {local_gpus, {"cluster.gpus_per_node", "cluster.where"}},
    {export_env, {"cluster.export"}},
    {env_and_secrets, {"cluster.where"}},
    {image, {"cluster.image"}},
    {container, {"cluster.container", "cluster.image", "cluster.where", "cluster.launcher"}},
    {absolute, {"cluster.mpi", "cluster.container_rank"}},
};

void zep_job_cross_check(const struct zep_job *job, struct zep_mistakes *m)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        int doubt = 0;

        for (int k = 0; k < 4 && rules[i].keys[k]; k++)
            doubt |= zep_mistakes_doubt(m, rules[i].keys[k]);
        if (!doubt)
            rules[i].check(job, m);
    }
}
