/* The simulator (design, section 5): event-driven over the operations of the schedules of all devices, forward and backward, for one layer, and from it the training step.
 *
 * Resources: the compute of each plan device; its port to its node, out and in; each NIC, out and in; the links up from leaf switches, and from parts of the fabric above them (topology/view_links.c), up and down,
 * where their bandwidth is known. A transfer
 * begins when both ends have posted their groups and every earlier transfer on a resource has its turn first; it uses a resource for bytes / bandwidth, all of its resources at once (cut
 * through), and ends one latency after the last of them is done with it. Operations run as the executor runs them: compute from the first queue whose head is ready (inter-node, intra-node,
 * local), groups of a lane in order. Between nodes a message uses the NICs of its two ends and all links between
 * the switches that these hang on, up from the sender's side and down to the receiver's; inside a node the ports of its two ends.
 * Where heads are exchanged, a device first packs its part of the heads out of whole rows and unpacks what it gets (both here: reading and writing those bytes), then transfers; attention waits for all of it. All of
 * these rows travel in the model's type.
 *
 * A layer begins with its linear modules on every device. A step is n_layer layers, forward and backward, each begun by all devices together; the output head; the exchange of gradients and
 * parameters, which where the engine overlaps them takes the NICs while a layer computes: a layer lasts at least as long as its own transfers and the exchange need on the busiest node; what remains at
 * the ends of the step is exposed; and the optimizer. */
#ifndef ZEP_PLANNER_SIM_H
#define ZEP_PLANNER_SIM_H

#include <stdint.h>
#include "common/buf.h"
#include "common/error.h"
#include "planner/cost.h"
#include "planner/plan.h"
#include "planner/sched.h"

enum zep_span_kind { ZEP_SPAN_LINEAR = 0, ZEP_SPAN_ATTN, ZEP_SPAN_ADD, ZEP_SPAN_COPY, ZEP_SPAN_XFER_NODE, ZEP_SPAN_XFER_NET, ZEP_N_SPAN_KIND };

struct zep_sim_span { /* what a device or a link did; a transfer once, at its sender */
    double t0, t1;    /* seconds; a transfer's t0 is when both ends were ready */
    int32_t dev, peer;
    int32_t ring, step;
    int32_t pred;     /* what it waited for last, -1: the start */
    int32_t kind;     /* enum zep_span_kind */
    double bytes;
};

struct zep_sim_pass {
    double time_s;                       /* until the last device is done */
    double linear_s, remap_in_s, heads_s, attn_s, remap_out_s; /* of the device that is done last; heads_s: exchanging heads, both ways */
    double compute_max_s, compute_mean_s; /* busy with computing */
    double compute_even_s;               /* all of it spread over all devices by their speed */
    double wait_net_s, wait_node_s, wait_remap_s; /* of the device that is done last: compute stood still for transfers */
    int last_dev;
    double net_bytes, node_bytes;        /* sent between nodes, inside nodes */
    double nic_busy_s, port_busy_s, up_busy_s; /* of the busiest */
    int busiest_nic, busiest_up;         /* a NIC; a part of a fabric (struct zep_view_up); -1 none */
    int64_t n_op, n_xfer;
    int n_span;                          /* with opts.spans */
    struct zep_sim_span *span;
};

struct zep_sim {
    struct zep_sim_pass pass[2];         /* by enum zep_pass */
    /* seconds that each is in use, both passes together; links: [0] out (up), [1] in (down) */
    double *dev_busy;                    /* [n_dev] computing */
    double *port_busy[2], *nic_busy[2], *up_busy[2]; /* [n_dev], [n_nic], [n_up] */
    double layers_s, head_s, exchange_s, optimizer_s, step_s; /* exchange_s: what of it is exposed */
    double bound_s;                      /* how long the computing alone would take, perfectly balanced */
    double tokens_s_dev;                 /* tokens / step / device (rank) */
    double mem_bytes;                    /* peak on the fullest plan device: the one that needs most of what it has */
    int mem_dev;
    double mem_limit;                    /* bytes that this device has */
    double *dev_mem;                     /* [n_dev] peak of each */
    double mem_state, mem_tokens, mem_buffers; /* its parts */
};

struct zep_sim_opts {
    int spans; /* keep spans: timeline and critical path */
};

/* cost: of this plan's tp. ZEP_EINVAL: a link that the plan uses has no known bandwidth (told which), or nothing to compute. */
int zep_simulate(const struct zep_plan *plan, const struct zep_view *view, const struct zep_cost *cost, const struct zep_sim_opts *opts, struct zep_sim **sim_out, struct zep_error *err);
void zep_sim_free(struct zep_sim *sim);

/* The spans of the critical path of a pass, first to last; free(). */
int zep_sim_critical(const struct zep_sim_pass *pass, int32_t **span_out, int *n_out, struct zep_error *err);
/* In words: shares of what the path consists of. */
int zep_sim_critical_text(const struct zep_sim_pass *pass, struct zep_buf *out, struct zep_error *err);
/* Chrome's and Perfetto's trace format (JSON), and a picture (Gantt chart, SVG); need spans. */
int zep_sim_to_trace(const struct zep_sim *sim, const struct zep_plan *plan, struct zep_buf *out, struct zep_error *err);
int zep_sim_to_svg(const struct zep_sim *sim, const struct zep_plan *plan, struct zep_buf *out, struct zep_error *err);

#endif
