/* The job file (design, section 11): one schema for built-in defaults, site and user files, the job file and --set. Every key has a type, a default and a text, from which
 * the errors, `zeppelin job`, and the manual page are made. */
#ifndef ZEP_COMMON_JOB_H
#define ZEP_COMMON_JOB_H

#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "common/mistakes.h"

/* Where a value comes from; later ones win. */
enum zep_job_layer { ZEP_JOB_DEFAULT = 0, ZEP_JOB_SITE, ZEP_JOB_PROFILE, ZEP_JOB_USER, ZEP_JOB_FILE, ZEP_JOB_SET };

#define ZEP_JOB_EARLY_S 60.0       /* Slurm signals up to a minute before the grace begins */
#define ZEP_JOB_GRACE_MAX_S 65535.0 /* sbatch's own limit */

/* A key with names below it (cluster.env.NAME), in the order of writing. */
struct zep_job_pair {
    char *name, *value; /* of a secret: "env:NAME", "file:PATH", "k8s:SECRET/KEY" */
    char *origin;
    enum zep_job_layer layer;
};
struct zep_job_map {
    int n;
    struct zep_job_pair *pair;
};

struct zep_job {
    char *format; /* "zeppelin-job/1.0" */
    char *name;   /* run name: [A-Za-z0-9._-]+, part of the run folder's name */
    char *run_root; /* where run folders are made, default "runs" */
    struct {
        char *where;       /* auto, local, slurm, k8s */
        char *profile;     /* of the site file; "": its own choice */
        char *topology;    /* "auto", a topology.yaml path, "synthetic: TEXT", "preset: NAME" */
        int64_t nodes;     /* 0: what is there (1 locally) */
        int64_t max_nodes; /* of a batch job: what it gets between nodes and this; 0: nodes */
        int64_t devices;   /* devices (ranks / tp) a node; 0: what the topology says */
        int64_t tp;        /* ranks per device; the runtime needs 1 */
        char *partition, *account, *qos, *constraint; /* "" none */
        double time_s;     /* time limit, 0: the partition's default */
        int64_t cpus_per_rank; /* 1 */
        int64_t gpus_per_node; /* 0 */
        int64_t switches;  /* --switches, 0: not asked */
        char *launcher;    /* auto, srun, mpirun */
        char *mpi_args;    /* further arguments for mpirun or srun, split at blanks */
        char *setup;       /* shell lines run before the launch in batch scripts */
        char *export_env;  /* sbatch --export, "NONE" */
        char *job_name;    /* in the queue; "": the run's name */
        struct zep_job_map slurm;   /* further options of sbatch */
        struct zep_job_map env;     /* set for the ranks and the batch script */
        struct zep_job_map secrets; /* likewise for the ranks only, read where they are started */
        char *mpi;         /* prefix of the Open MPI to use; "": what PATH has */
        char *library_path; /* before LD_LIBRARY_PATH */
        char *container;   /* none, pyxis, apptainer */
        char *image, *mounts, *container_args, *container_rank; /* "" none */
        double start_s;    /* ranks that are not up after so long are given up */
        double timeout_s;  /* a peer that is silent for so long is lost, 60 */
        double grace_s;    /* time between the stop signal and the end, 60 */
        char *rdma;        /* Kubernetes resource that a worker needs for RDMA, "NAME[=COUNT]"; "" none */
        int root;          /* pods run as root, with IPC_LOCK */
        int64_t retries;   /* in the launcher pod, after a rank's failure with all workers alive */
    } cluster;
    struct { /* launching by the MPI operator of Kubernetes; texts with several items are divided by commas (launcher/k8s_spec.h) */
        char *image, *context, *ns, *run_root, *prefix;
        char *cpu, *memory, *shm, *gpu, *launcher_cpu, *launcher_memory;
        char *volumes;
        char *service_account, *pull_secret, *node_selector, *tolerations, *labels, *annotations;
        char *queue, *gang_queue, *scheduler, *priority, *topology, *spread;
        char *start;       /* workers, together */
        char *home;        /* of the user in the image */
        int64_t user, port;
        double wait_s, ttl_s;
    } k8s;
    struct {
        int64_t vocab, hidden, layers, heads, kv_heads, head_dim, ffn;
        double rope_theta, norm_eps;
        double init_std;   /* 0: 0.7 / sqrt(hidden) */
        int tied;          /* output embedding = input embedding */
    } model;
    struct {
        char *train, *heldout; /* prefixes of .bin/.idx; heldout "" = none */
        int64_t context;   /* longest document in tokens */
        char *too_long;    /* refuse, cut */
    } data;
    struct {
        int64_t steps, tokens; /* tokens a step */
        uint64_t seed;
        char *optimizer;   /* adamw, sgd */
        double lr, min_lr; /* cosine from lr to min_lr */
        int64_t warmup;    /* steps */
        double beta1, beta2, eps, decay, clip; /* clip 0: none */
        int64_t eval_every; /* steps, 0: only at start and end */
        int64_t eval_tokens; /* of held-out text per evaluation */
    } train;
    struct {
        char *method;
        char *zones;       /* zep_zones_parse */
        char *effort;      /* fast, search */
        char *device;      /* kind of device whose costs are planned by; "" none */
        int64_t capacity;  /* tokens a device; 0: 1.25 x the average, rounded up */
        int routing, remap;
        int64_t max_proxies;
        int64_t save_every; /* write the plan of every n-th step into plans/, 0: none */
        int check;         /* prove every plan before it is used (slow) */
        int64_t window;    /* steps whose documents are dealt out together; 1: in order */
        char *compose;     /* balance, alike */
        int ahead;         /* plan a step while the one before it computes */
    } plan;
    struct {
        int64_t every;     /* steps, 0: only at the end and on request */
        int64_t keep;      /* 3 */
        char *background;  /* auto, true, false: does the training go on while one is written? */
    } checkpoint;
    struct {
        int64_t every;     /* steps between log lines */
        char *level;       /* error, warn, info, debug */
    } log;
};

enum zep_job_type { ZEP_JOB_NONE = 0, ZEP_JOB_INT, ZEP_JOB_COUNT /* 8k */, ZEP_JOB_FLOAT, ZEP_JOB_TIME, ZEP_JOB_BOOL, ZEP_JOB_STRING, ZEP_JOB_CHOICE, ZEP_JOB_PATH,
    ZEP_JOB_MAP /* NAME: text */, ZEP_JOB_ENV /* the same with names of environment variables */, ZEP_JOB_SECRETS };

struct zep_job_key {
    const char *name;    /* "train.lr" */
    enum zep_job_type type;
    size_t offset;       /* in struct zep_job */
    const char *dflt;    /* default as text */
    double min, max;
    const char *choices; /* "auto|local|slurm" */
    const char *unit, *help;
};
const struct zep_job_key *zep_job_keys(int *n_out);

/* Defaults, the site file with its profile, the user's file (where present), the job file (path NULL: none), sets ("train.steps=100"). All mistakes are found and added to m; the job is
 * there in spite of them, with the value before where one was mistaken. An error means that there is no job: a file cannot be read or is no YAML. Relative paths in a job file are
 * relative to the working directory. */
int zep_job_read(const char *path, const char *const *sets, int n_set, struct zep_mistakes *m, struct zep_job **job_out, struct zep_error *err);
/* The same for callers that want a job without mistakes: err's text has a line for each. */
int zep_job_load(const char *path, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err);
/* The job of a run folder is complete: site and user files are overruled. What the site locks stays locked for sets. */
int zep_job_load_run(const char *path, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err);
/* The same from bytes (as rank 0 sends them): defaults + text only. */
int zep_job_parse(const char *name, const char *text, size_t len, struct zep_job **job_out, struct zep_error *err);
void zep_job_free(struct zep_job *job);
/* Where a key's value comes from: "job.yaml:14", "site.yaml:7 (profile gpu)", "--set train.steps=3", "default". */
const char *zep_job_origin(const struct zep_job *job, const char *key);
enum zep_job_layer zep_job_origin_layer(const struct zep_job *job, const char *key);
const char *zep_job_map_get(const struct zep_job_map *map, const char *name); /* NULL: not there */
/* cluster.image names a file (/x, ./x, x.sqsh, x.sif) rather than an image in a registry. */
int zep_job_image_is_file(const char *image);
/* Adds a mistake of the job, with where the key's value comes from in front. */
void zep_job_mistake(const struct zep_job *job, struct zep_mistakes *m, const char *key, enum zep_status code, const char *fmt, ...) ZEP_PRINTF(5, 6);
/* Whole job as YAML; with_origin: each line has a comment with the value's file:line. Reads back equal. */
int zep_job_to_yaml(const struct zep_job *job, int with_origin, struct zep_buf *out, struct zep_error *err);
/* Every key's value, where it comes from, and the layer: zeppelin-job-values/1.0. */
int zep_job_to_json(const struct zep_job *job, struct zep_buf *out, struct zep_error *err);
/* A commented file with every key, its default, unit and meaning. */
int zep_job_template(struct zep_buf *out, struct zep_error *err);

#endif
