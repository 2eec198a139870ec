/* The schema of the job file. Order = order of the written file and of the manual page. For a number, `choices` is the word that stands for 0. */
#include "config.h"
#include "common/job_internal.h"

#include <float.h>
#include <stddef.h>

#define AT(field) offsetof(struct zep_job, field)
#define INT(name, field, dflt, min, max, unit, help) {name, ZEP_JOB_INT, AT(field), dflt, min, max, NULL, unit, help}
#define INT_OR(name, field, word, dflt, min, max, unit, help) {name, ZEP_JOB_INT, AT(field), dflt, min, max, word, unit, help}
#define COUNT(name, field, dflt, min, max, unit, help) {name, ZEP_JOB_COUNT, AT(field), dflt, min, max, NULL, unit, help}
#define COUNT_OR(name, field, word, dflt, min, max, unit, help) {name, ZEP_JOB_COUNT, AT(field), dflt, min, max, word, unit, help}
#define FLOAT(name, field, dflt, min, max, help) {name, ZEP_JOB_FLOAT, AT(field), dflt, min, max, NULL, NULL, help}
#define FLOAT_OR(name, field, word, dflt, min, max, help) {name, ZEP_JOB_FLOAT, AT(field), dflt, min, max, word, NULL, help}
#define TIME(name, field, dflt, min, max, help) {name, ZEP_JOB_TIME, AT(field), dflt, min, max, NULL, "time", help}
#define TIME_OR(name, field, word, dflt, min, max, help) {name, ZEP_JOB_TIME, AT(field), dflt, min, max, word, "time", help}
#define BOOL(name, field, dflt, help) {name, ZEP_JOB_BOOL, AT(field), dflt, 0, 0, NULL, NULL, help}
#define STRING(name, field, dflt, help) {name, ZEP_JOB_STRING, AT(field), dflt, 0, 0, NULL, NULL, help}
#define PATH(name, field, dflt, help) {name, ZEP_JOB_PATH, AT(field), dflt, 0, 0, NULL, NULL, help}
#define CHOICE(name, field, dflt, choices, help) {name, ZEP_JOB_CHOICE, AT(field), dflt, 0, 0, choices, NULL, help}
#define MAP(name, field, type, help) {name, type, AT(field), "{}", 0, 0, NULL, NULL, help}
#define MANY 1099511627776.0 /* 2^40 */

static const struct zep_job_key keys[] = {
    STRING("format", format, "zeppelin-job/1.0", "format of this file"),
    STRING("name", name, "zeppelin", "name of the run: letters, digits, '.', '_' and '-'; part of the run folder's name"),
    PATH("run_root", run_root, "runs", "where run folders are made"),

    CHOICE("cluster.where", cluster.where, "auto", "auto|local|slurm|k8s",
           "where to run: this machine, Slurm (the allocation that the command runs in, or a batch job by zeppelin submit), Kubernetes; auto takes the allocation if there is one"),
    STRING("cluster.profile", cluster.profile, "", "profile of the site file (zeppelin-site(5)) to begin with; empty: the one that the site file chooses"),
    STRING("cluster.topology", cluster.topology, "auto", "what to run on: auto (detect), a file of any format that zeppelin topo reads, 'synthetic: nodes:2 dev:4 nic:2', or 'preset: A'"),
    INT_OR("cluster.nodes", cluster.nodes, "auto", "auto", 1, 65536, NULL, "nodes; auto: all of the allocation or topology"),
    INT("cluster.max_nodes", cluster.max_nodes, "0", 0, 65536, NULL, "a batch job takes what it gets between cluster.nodes and so many nodes, at each start; 0: cluster.nodes"),
    INT_OR("cluster.devices", cluster.devices, "auto", "auto", 1, 4096, NULL, "devices a node; auto: what the topology says"),
    INT("cluster.tp", cluster.tp, "1", 1, 1024, NULL, "tensor-parallel degree: GPUs of a node that form one device; this version trains with 1"),
    STRING("cluster.partition", cluster.partition, "", "Slurm partition"),
    STRING("cluster.account", cluster.account, "", "Slurm account"),
    STRING("cluster.qos", cluster.qos, "", "Slurm quality of service"),
    STRING("cluster.constraint", cluster.constraint, "", "Slurm node features"),
    TIME_OR("cluster.time", cluster.time_s, "default", "default", 60, 31536000, "time limit of the job; default: the partition's"),
    INT("cluster.cpus_per_rank", cluster.cpus_per_rank, "1", 1, 4096, NULL, "cores a rank"),
    INT("cluster.gpus_per_node", cluster.gpus_per_node, "0", 0, 64, NULL, "GPUs a node to ask Slurm for"),
    INT("cluster.switches", cluster.switches, "0", 0, 65536, NULL, "most leaf switches that the nodes may hang on (sbatch --switches); 0: not asked"),
    MAP("cluster.slurm", cluster.slurm, ZEP_JOB_MAP, "further options of sbatch, NAME: value, long names without dashes, as in exclusive: '' or mail-type: END"),
    CHOICE("cluster.launcher", cluster.launcher, "auto", "auto|srun|mpirun", "how ranks are started inside an allocation; auto: srun if its PMIx works, else mpirun"),
    STRING("cluster.mpi_args", cluster.mpi_args, "", "further arguments for mpirun or srun, divided at blanks"),
    STRING("cluster.setup", cluster.setup, "", "shell lines that a batch script runs before the launch (module load ...); only from files, never by --set"),
    STRING("cluster.export", cluster.export_env, "NONE",
           "what a batch job inherits of the environment it is submitted from (sbatch --export): NONE (of the user's login environment, what Slurm makes of it), ALL, or names"),
    STRING("cluster.job_name", cluster.job_name, "", "the job's name in Slurm's queue, any text; empty: the run's name"),
    MAP("cluster.env", cluster.env, ZEP_JOB_ENV, "environment variables, NAME: value, for the ranks and the batch script; they have the last word over what cluster.setup and cluster.export bring"),
    MAP("cluster.secrets", cluster.secrets, ZEP_JOB_SECRETS,
        "secret environment variables of the ranks, named but never written: NAME: {env: VARIABLE}, {file: PATH} or {k8s: SECRET/KEY}; read where the ranks are started"),
    PATH("cluster.mpi", cluster.mpi, "", "folder that the site's Open MPI is installed in: its bin and lib come first in PATH and LD_LIBRARY_PATH; empty: what PATH has"),
    STRING("cluster.library_path", cluster.library_path, "", "folders that come first in the ranks' LD_LIBRARY_PATH, divided by ':'"),
    CHOICE("cluster.container", cluster.container, "none", "none|pyxis|apptainer", "what ranks run in: nothing, a container by Slurm's pyxis plugin (srun --container-image), or apptainer exec; zeppelin-rank is in the image"),
    STRING("cluster.image", cluster.image, "", "image of the container: a name in a registry with tag or digest, or a file (.sqsh, .sif)"),
    STRING("cluster.mounts", cluster.mounts, "", "what the container sees besides run_root and the folders of the data sets: SRC:DST[:OPTIONS], divided by commas"),
    STRING("cluster.container_args", cluster.container_args, "", "further arguments for srun (pyxis) or apptainer exec, divided at blanks"),
    PATH("cluster.container_rank", cluster.container_rank, "", "zeppelin-rank in the image; empty: where it is here"),
    TIME("cluster.start", cluster.start_s, "5m", 1, 86400, "ranks that have not found each other after so long are given up: a node, or ssh to it, does not answer"),
    TIME("cluster.timeout", cluster.timeout_s, "60s", 1, 86400, "a rank that is silent for so long is lost"),
    TIME("cluster.grace", cluster.grace_s, "60s", 5, ZEP_JOB_GRACE_MAX_S, "time between the request to stop and the end of the job; below cluster.time by more than a minute"),
    STRING("cluster.rdma", cluster.rdma, "", "Kubernetes: resource that a worker needs for RDMA, NAME or NAME=COUNT (rdma/rdma_shared_device_a); each rank then checks that it may lock memory"),
    BOOL("cluster.root", cluster.root, "false", "Kubernetes: run as root with IPC_LOCK; otherwise pods pass Pod Security 'restricted'"),
    INT("cluster.retries", cluster.retries, "2", 0, 100, NULL, "Kubernetes: how often the launcher begins again from the checkpoint when a rank failed and all workers are alive"),

    STRING("k8s.image", k8s.image, "", "image of launcher and workers, with a tag or a digest"),
    STRING("k8s.context", k8s.context, "", "kubectl's context; empty: its current one"),
    STRING("k8s.namespace", k8s.ns, "", "namespace; empty: the context's"),
    STRING("k8s.run_root", k8s.run_root, "/runs", "where run folders are made in the pods: below a volume that lasts"),
    STRING("k8s.volumes", k8s.volumes, "", "what is mounted in all pods, KIND:NAME:/PATH[:ro], divided by commas; kinds pvc, configmap, secret, emptydir (NAME is a size), host (NAME is a path; needs cluster.root)"),
    STRING("k8s.cpu", k8s.cpu, "auto", "cores of a worker (a quantity); auto: ranks times cluster.cpus_per_rank"),
    STRING("k8s.memory", k8s.memory, "8Gi", "memory of a worker (a quantity), /dev/shm included"),
    STRING("k8s.shm", k8s.shm, "1Gi", "size of /dev/shm in a worker (a quantity)"),
    STRING("k8s.gpu", k8s.gpu, "nvidia.com/gpu", "name of the resource that cluster.gpus_per_node asks for"),
    STRING("k8s.launcher_cpu", k8s.launcher_cpu, "500m", "cores that the launcher asks for (a quantity)"),
    STRING("k8s.launcher_memory", k8s.launcher_memory, "1Gi", "memory of the launcher (a quantity)"),
    STRING("k8s.service_account", k8s.service_account, "", "account of the launcher pod, for reading labels of nodes; empty: the pod gets no token, and the fabric is not known"),
    STRING("k8s.pull_secret", k8s.pull_secret, "", "Secret for pulling the image"),
    STRING("k8s.node_selector", k8s.node_selector, "", "labels that nodes of workers must have, KEY=VALUE, divided by commas"),
    STRING("k8s.tolerations", k8s.tolerations, "", "taints that workers tolerate, KEY[=VALUE][:EFFECT], divided by commas"),
    STRING("k8s.labels", k8s.labels, "", "further labels of the job and its pods, KEY=VALUE, divided by commas"),
    STRING("k8s.annotations", k8s.annotations, "", "further annotations of workers, KEY=VALUE, divided by commas (k8s.v1.cni.cncf.io/networks=rdma-net)"),
    STRING("k8s.queue", k8s.queue, "", "Kueue's LocalQueue"),
    STRING("k8s.gang_queue", k8s.gang_queue, "", "Volcano's queue"),
    STRING("k8s.scheduler", k8s.scheduler, "", "name of the scheduler; empty: the default, or the one that the operator sets"),
    STRING("k8s.priority", k8s.priority, "", "PriorityClass of the pods"),
    STRING("k8s.topology", k8s.topology, "", "label of nodes within one value of which workers should lie, preferred:KEY or required:KEY; with k8s.queue by Kueue, else by pod affinity"),
    CHOICE("k8s.spread", k8s.spread, "prefer", "none|prefer|require", "workers on nodes of their own"),
    CHOICE("k8s.start", k8s.start, "workers", "workers|together", "when the launcher pod is made: once workers are ready, or together with them"),
    TIME("k8s.wait", k8s.wait_s, "10m", 1, 604800, "how long the launcher waits for its workers"),
    TIME_OR("k8s.ttl", k8s.ttl_s, "never", "1d", 1, 31536000, "how long the launcher pod and its log stay after the end"),
    STRING("k8s.prefix", k8s.prefix, "/usr/local", "where zeppelin is installed in the image"),
    INT("k8s.user", k8s.user, "1000", 1, 2147483647, NULL, "number of the user in the image (with cluster.root: root)"),
    STRING("k8s.home", k8s.home, "/home/mpiuser", "home of that user: the operator's key is mounted in .ssh below it"),
    INT("k8s.port", k8s.port, "2222", 1, 65535, NULL, "port of sshd in workers; below 1024 only with cluster.root"),

    INT("model.vocab", model.vocab, "256", 2, 1048576, "tokens", "size of the vocabulary"),
    INT("model.hidden", model.hidden, "128", 8, 65536, NULL, "width of the residual stream"),
    INT("model.layers", model.layers, "4", 1, 1024, NULL, "decoder layers"),
    INT("model.heads", model.heads, "4", 1, 1024, NULL, "query heads"),
    INT("model.kv_heads", model.kv_heads, "2", 1, 1024, NULL, "key and value heads (divides heads)"),
    INT("model.head_dim", model.head_dim, "32", 8, 256, NULL, "width of a head, a multiple of 8"),
    INT("model.ffn", model.ffn, "352", 8, 1048576, NULL, "width of the feed-forward layer"),
    FLOAT("model.rope_theta", model.rope_theta, "10000", 1, 1e12, "base of the rotary embedding"),
    FLOAT("model.norm_eps", model.norm_eps, "1e-05", 1e-12, 0.1, "epsilon of RMSNorm"),
    FLOAT_OR("model.init_std", model.init_std, "auto", "auto", 1e-6, 10, "standard deviation of initial weights; auto: 0.7 / sqrt(hidden)"),
    BOOL("model.tied", model.tied, "true", "output embedding = input embedding"),

    PATH("data.train", data.train, "", "training text: prefix of PREFIX.bin and PREFIX.idx, made by zeppelin data"),
    PATH("data.heldout", data.heldout, "", "held-out text, likewise; empty: no evaluation"),
    COUNT("data.context", data.context, "4k", 1, MANY, "tokens", "longest document"),
    CHOICE("data.too_long", data.too_long, "refuse", "refuse|cut", "what to do with longer documents: refuse them, or cut them into documents of their own"),

    INT("train.steps", train.steps, "100", 1, MANY, NULL, "optimizer steps"),
    COUNT("train.tokens", train.tokens, "8k", 1, MANY, "tokens", "tokens a step, at most"),
    INT("train.seed", train.seed, "0", 0, 9007199254740992.0, NULL, "seed of initial weights and of the order of documents"),
    CHOICE("train.optimizer", train.optimizer, "adamw", "adamw|sgd", "optimizer"),
    FLOAT("train.lr", train.lr, "0.003", 0, 1e6, "highest learning rate"),
    FLOAT("train.min_lr", train.min_lr, "0.0003", 0, 1e6, "learning rate at the last step (cosine)"),
    INT("train.warmup", train.warmup, "20", 0, MANY, "steps", "steps of linear warm-up"),
    FLOAT("train.beta1", train.beta1, "0.9", 0, 0.999999, "decay of the first moment"),
    FLOAT("train.beta2", train.beta2, "0.95", 0, 0.999999, "decay of the second moment"),
    FLOAT("train.eps", train.eps, "1e-08", 0, 1, "epsilon of AdamW"),
    FLOAT("train.decay", train.decay, "0.1", 0, 10, "decoupled weight decay"),
    FLOAT("train.clip", train.clip, "1", 0, 1e9, "largest global norm of the gradient; 0: no clipping"),
    INT("train.eval_every", train.eval_every, "0", 0, MANY, "steps", "steps between evaluations; 0: at the start and the end"),
    COUNT("train.eval_tokens", train.eval_tokens, "64k", 0, MANY, "tokens", "most held-out tokens of an evaluation: documents in a fixed order, each once; less than the whole set is a part of it"),

    STRING("plan.method", plan.method, "zeppelin", "how steps are planned: zeppelin, zeppelin-paper, te-cp and others (zeppelin-plan(1))"),
    CHOICE("plan.effort", plan.effort, "fast", "fast|search", "how long the method zeppelin looks for a plan: fast, by estimates, within milliseconds; search, by simulating candidates, within seconds"),
    STRING("plan.device", plan.device, "", "plan by the costs of this kind of device (zeppelin sim --list-devices) or file; empty: by tokens and pairs, where zeppelin plans as zeppelin-paper"),
    CHOICE("plan.zones", plan.zones, "all", "all|local|intra|inter|local,intra|local,inter|intra,inter", "zones that zeppelin and zeppelin-paper may put sequences into: whole on a device, rings inside a node, rings over nodes"),
    COUNT_OR("plan.capacity", plan.capacity, "auto", "auto", 1, MANY, "tokens", "tokens a device may hold for attention; auto: 1.25 times the average"),
    BOOL("plan.routing", plan.routing, "true", "carry hops between nodes over all NICs"),
    BOOL("plan.remap", plan.remap, "true", "move tokens to equal shares for the linear modules"),
    INT("plan.max_proxies", plan.max_proxies, "0", 0, 4096, NULL, "most proxies of a hop; 0: one for each NIC that both nodes have"),
    INT("plan.save_every", plan.save_every, "0", 0, MANY, "steps", "steps between plans that are written into the run folder; 0: none"),
    BOOL("plan.check", plan.check, "false", "prove every plan before it is used"),
    INT("plan.window", plan.window, "1", 1, 1024, "steps", "steps whose documents are dealt out together; 1: steps are filled in the order of the epoch"),
    CHOICE("plan.compose", plan.compose, "balance", "balance|alike", "with a window: steps of equal attention work, or steps of documents of like length"),
    BOOL("plan.ahead", plan.ahead, "true", "read and plan the next step while the step in hand computes"),

    INT("checkpoint.every", checkpoint.every, "0", 0, MANY, "steps", "steps between checkpoints; 0: at the end and on request"),
    INT("checkpoint.keep", checkpoint.keep, "3", 1, 1000000, NULL, "checkpoints that stay"),
    CHOICE("checkpoint.background", checkpoint.background, "auto", "auto|true|false", "write while the training goes on, out of a copy of a rank's shard; auto: from 64 MiB a rank on, where all copies of a machine take at most half of its free memory"),

    INT("log.every", log.every, "10", 1, MANY, "steps", "steps between lines of the log"),
    CHOICE("log.level", log.level, "info", "error|warn|info|debug", "how much is logged"),
};

const struct zep_job_key *zep_job_keys(int *n_out)
{
    *n_out = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}
