/* Many predictions: one cluster and one model, settings that vary. `zeppelin sim --sweep` and `zeppelin advise`. */
#ifndef ZEP_LAUNCHER_SWEEP_H
#define ZEP_LAUNCHER_SWEEP_H

#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "launcher/predict.h"

/* --- the ground that predictions stand on --- */

struct zep_ground {
    struct zep_topo *topo;
    struct zep_cost cost;
};

struct zep_setting {
    const struct zep_workload *work;
    int n_node;
    double nic_bw;    /* of every NIC, bytes/s; 0: as the topology says */
    double nic_scale; /* NICs so many times as fast; 0: as they are */
    double slack;     /* capacity as a multiple of tokens / devices, no more than memory holds, where capacity is 0 */
    int64_t capacity;
};

/* The cluster, with n_node nodes at least (a preset is opened with as many; 0: as it is; asked: the option that asks for them), and the costs; what is used is said on standard error. */
int zep_ground_open(const struct zep_predict_args *a, int n_node, const char *asked, struct zep_ground *ground_out, struct zep_error *err);
/* The same without the slow ones of the first n_node nodes: those of which a device or a NIC is marked slow. n_slow_out: how many; slow_out: their names, free(). Where that is none or all, fast_out and slow_out stay as they are. */
int zep_ground_fast(const struct zep_ground *g, const struct zep_predict_args *a, int n_node, struct zep_ground *fast_out, char **slow_out, int *n_slow_out, struct zep_error *err);
void zep_ground_free(struct zep_ground *g);
/* The devices that a setting has. */
int zep_ground_view(const struct zep_ground *g, const struct zep_predict_args *a, const struct zep_setting *s, struct zep_view **view_out, struct zep_error *err);
/* As zep_comparison_open and _run with this setting. A batch that does not fit is no error: why is then not empty and c has no rows. zep_ground_end in any case. */
int zep_ground_predict(const struct zep_ground *g, const struct zep_predict_args *a, const struct zep_setting *s, struct zep_comparison *c, char *why, size_t why_len, struct zep_error *err);
void zep_ground_end(struct zep_comparison *c);
/* Every name of a list (divided by commas) is a method; the error tells the nearest. NULL: all right. */
int zep_methods_check(const char *list, struct zep_error *err);

/* --- sweeps --- */

#define ZEP_SWEEP_VALUES 32

enum zep_sweep_key { ZEP_SWEEP_NODES = 0, ZEP_SWEEP_TOKENS, ZEP_SWEEP_CONTEXT, ZEP_SWEEP_DIST, ZEP_SWEEP_NIC, ZEP_SWEEP_SLACK, ZEP_N_SWEEP_KEY };

struct zep_sweep_axis {
    enum zep_sweep_key key;
    int n;
    char text[ZEP_SWEEP_VALUES][32]; /* as it was given */
    double value[ZEP_SWEEP_VALUES];  /* dist: its number in the list */
};

struct zep_sweep_row { /* a method at a point */
    double step_s, tokens_s_dev, imbalance, node_bytes, net_bytes, mem_bytes, mem_limit /* of the fullest */; /* step_s 0: none, and why */
    double over_te_cp, over_rival; /* 0: nothing to compare with */
    char why[300];
};

struct zep_sweep_point {
    int at[2];            /* values of the axes */
    int n_dev, n_node;
    int64_t n_token, capacity;
    double mem_bytes;     /* that a device has, as the costs say */
    char why[300];        /* "": predicted */
    struct zep_sweep_row row[ZEP_MAX_METHOD];
};

struct zep_sweep {
    int n_axis;
    struct zep_sweep_axis axis[2];
    int n_method;
    char method[ZEP_MAX_METHOD][32];
    char model[48], device[48];
    int calibrated;
    int n_point;          /* the first axis goes fastest */
    struct zep_sweep_point *point;
};

extern const char *const zep_sweep_methods; /* what is compared where nothing is asked for */

/* "KEY=V1,V2,..."; a second one makes a grid. ZEP_EINVAL: an unknown key, a bad value, which of them; a third. */
int zep_sweep_add(struct zep_sweep *s, const char *text, struct zep_error *err);
/* NULL, or what does not go together. */
const char *zep_sweep_complaint(const struct zep_sweep *s, const struct zep_predict_args *a);
/* Predicts all points. ZEP_EINVAL where none could be, with the first reason. */
int zep_sweep_run(struct zep_sweep *s, const struct zep_predict_args *a, struct zep_error *err);
void zep_sweep_free(struct zep_sweep *s);

const char *zep_sweep_key_name(enum zep_sweep_key key);  /* "nodes" */
const char *zep_sweep_key_title(enum zep_sweep_key key); /* "tokens of a step" */

int zep_sweep_to_text(const struct zep_sweep *s, struct zep_buf *out, struct zep_error *err);
int zep_sweep_to_csv(const struct zep_sweep *s, struct zep_buf *out, struct zep_error *err);
int zep_sweep_to_json(const struct zep_sweep *s, struct zep_buf *out, struct zep_error *err); /* "zeppelin-sweep/1.0" */
int zep_sweep_to_svg(const struct zep_sweep *s, struct zep_buf *out, struct zep_error *err);  /* tokens/s/device over the first axis, a picture for each value of the second */

#endif
