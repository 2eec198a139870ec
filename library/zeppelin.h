/* libzeppelin: cluster topologies, plans of training steps on sequences of very different lengths, their proof and their simulation, for trainers of any kind. No MPI, no CUDA.
 *
 * A function that can fail returns 0 or a negative enum zep_status, takes a struct zep_error (or NULL) for the text, and sets what its pointers to results (`..._out`, at the end) point at on
 * success only. Every object that was made is freed by its own function, texts by zep_free(); freeing NULL is allowed. Nothing is printed, there is no state but in the objects: different threads
 * may use different objects at once. Numbers are read with the decimal point of the locale: leave LC_NUMERIC at "C".
 * What is read and written: zeppelin-topology(5), zeppelin-plan(5), zeppelin-ranks(5). Functions may be added in later minor versions; none is changed or removed while the library's soname stays. */
#ifndef ZEP_ZEPPELIN_H
#define ZEP_ZEPPELIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZEP_VERSION_MAJOR 0
#define ZEP_VERSION_MINOR 1
#define ZEP_VERSION_PATCH 0
#define ZEP_VERSION_TEXT "0.1.0"
#define ZEP_VERSION_NUMBER (ZEP_VERSION_MAJOR * 10000 + ZEP_VERSION_MINOR * 100 + ZEP_VERSION_PATCH)

/* Of the library that runs; ZEP_VERSION_TEXT is of the header that was compiled with. */
const char *zep_version(void);
int zep_version_number(void);

#ifndef ZEP_COMMON_ERROR_H /* the library's own sources have it from there */
enum zep_status {
    ZEP_OK = 0,
    ZEP_EINVAL = -1,       /* bad input: a value, a file's content */
    ZEP_ENOMEM = -2,       /* out of memory */
    ZEP_EIO = -3,          /* reading or writing failed */
    ZEP_ENOENT = -4,       /* a file that was named is not there */
    ZEP_EUNAVAIL = -5,     /* the machine or cluster lacks something needed */
    ZEP_EUNSUPPORTED = -6, /* understood, but this version cannot do it */
    ZEP_EREFUSED = -7,     /* refused for safety */
    ZEP_ESTOPPED = -8,     /* not returned here, like the next one */
    ZEP_EPEER = -9,
    ZEP_ETIMEDOUT = -10,   /* no answer in time */
    ZEP_EINTERNAL = -11,   /* an invariant of ours does not hold */
};
#endif

/* The text of the last failure that was given this object, "" before one; it lives until the object's next use. NULL: out of memory. */
struct zep_error;
struct zep_error *zep_error_new(void);
void zep_error_free(struct zep_error *err);
const char *zep_error_text(const struct zep_error *err);

void zep_free(void *text);

/* --- what can be named: the i-th name, NULL behind the last --- */
const char *zep_method_name(int i);  /* zeppelin-plan(1) says whose each is */
const char *zep_model_name(int i);   /* of known models; a file's name does as well */
const char *zep_device_name(int i);  /* of known kinds of device, likewise */
const char *zep_source_kind(int i);  /* of topology sources */

/* --- a cluster, seen as plan devices, node by node: 0, 1, ... --- */
struct zep_cluster;
/* Sources as in `zeppelin topo --from`: "KIND[:ARG]" ("synthetic:nodes:2 dev:4 nic:2", "preset:dgx-h100:4", "slurm") or a file, merged. n_from 0: the allocation that we run in, else Slurm, else a
 * pod's cluster, else this machine. The first n_node nodes (0: all), dev_per_node devices of each (0: all), tp of them form a plan device. */
int zep_cluster_open(const char *const *from, int n_from, int n_node, int dev_per_node, int tp, struct zep_error *err, struct zep_cluster **cluster_out);
/* A description as text (zeppelin-topology(5)). name: for messages. */
int zep_cluster_read(const char *name, const char *text, int n_node, int dev_per_node, int tp, struct zep_error *err, struct zep_cluster **cluster_out);
void zep_cluster_free(struct zep_cluster *cluster);
int zep_cluster_nodes(const struct zep_cluster *cluster);
int zep_cluster_devices(const struct zep_cluster *cluster);
int zep_cluster_device_node(const struct zep_cluster *cluster, int device); /* -1: no such device */
const char *zep_cluster_node_name(const struct zep_cluster *cluster, int node); /* NULL: no such node; lives as long as the cluster */
int zep_cluster_text(const struct zep_cluster *cluster, struct zep_error *err, char **text_out); /* a tree for people */
int zep_cluster_yaml(const struct zep_cluster *cluster, struct zep_error *err, char **text_out); /* zeppelin-topology(5) */
int zep_cluster_json(const struct zep_cluster *cluster, struct zep_error *err, char **text_out);

/* --- how to plan: options of `zeppelin plan`, by name and as text --- */
struct zep_options;
struct zep_options *zep_options_new(void); /* NULL: out of memory */
void zep_options_free(struct zep_options *options);
/* "capacity": tokens a device may hold ("10k"), must be set; "method": "zeppelin" by default; "model", "device": plan by their costs, without a device the cluster's own; "routing", "remap": "yes", "no";
 * "max_proxies": of a hop, 0 one for each NIC. ZEP_EINVAL names what is expected. */
int zep_options_set(struct zep_options *options, const char *name, const char *value, struct zep_error *err);

/* --- a plan of one step: the same input gives the same bytes on every machine, so that each rank may plan for itself --- */
struct zep_plan;
/* n sequences of len[i] tokens. The error for too small a capacity says what would fit. */
int zep_plan_make(const struct zep_cluster *cluster, const int64_t *len, int n, const struct zep_options *options, struct zep_error *err, struct zep_plan **plan_out);
int zep_plan_read(const char *name, const char *text, size_t text_size, struct zep_error *err, struct zep_plan **plan_out); /* JSON, zeppelin-plan(5); without its digest it is proved first */
void zep_plan_free(struct zep_plan *plan);
int zep_plan_devices(const struct zep_plan *plan);
int64_t zep_plan_tokens(const struct zep_plan *plan);
const char *zep_plan_method(const struct zep_plan *plan);
uint64_t zep_plan_digest(const struct zep_plan *plan); /* equal plans, equal digests */
int zep_plan_json(const struct zep_plan *plan, struct zep_error *err, char **text_out);
int zep_plan_text(const struct zep_plan *plan, struct zep_error *err, char **text_out);
/* The checker: proves the schedules of all devices, forward and backward; ZEP_EINVAL with the first thing that is wrong. */
int zep_plan_prove(const struct zep_plan *plan, struct zep_error *err);

/* Rows of a device in the attention layout (linear 0) or the linear layout (linear 1); -1: no such device. */
int64_t zep_plan_rows(const struct zep_plan *plan, int device, int linear);
/* Of each of these rows the token's number in the step, its position in its sequence, its sequence: arrays of so many elements, NULL: not wanted. */
int zep_plan_layout(const struct zep_plan *plan, int device, int linear, struct zep_error *err, int64_t *token_out, int64_t *position_out, int64_t *sequence_out);
/* What a rank computes, sends and receives: rank.json of zeppelin-ranks(5). */
int zep_plan_rank_json(const struct zep_plan *plan, int device, struct zep_error *err, char **text_out);
/* The folder of zeppelin-ranks(5), proved and complete, or absent. ZEP_EREFUSED: it is there with other content. */
int zep_plan_export(const struct zep_plan *plan, const char *folder, struct zep_error *err);

/* --- a prediction: the schedules of all devices simulated over the cluster's links --- */
struct zep_sim;
/* The options must have a model; the plan must be for this cluster. */
int zep_plan_simulate(const struct zep_plan *plan, const struct zep_cluster *cluster, const struct zep_options *options, struct zep_error *err, struct zep_sim **sim_out);
void zep_sim_free(struct zep_sim *sim);
/* "step_s" a training step, of it "layers_s", "head_s", "exchange_s" (what nothing hides), "optimizer_s"; "forward_s", "backward_s" of a layer; "bound_s": if only computing took time, perfectly balanced;
 * "tokens_s_device"; "mem_bytes" on the fullest device. Seconds, bytes. ZEP_EINVAL names what there is. */
int zep_sim_value(const struct zep_sim *sim, const char *name, struct zep_error *err, double *value_out);

#ifdef __cplusplus
}
#endif

#endif
