#include "config.h"
#include "launcher/measure.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/process.h"
#include "common/units.h"
#include "launcher/cli.h"
#include "launcher/inputs.h"
#include "launcher/launch.h"

#define MAX_NODES 512  /* beyond, a sample is measured: the first ones of each leaf */
#define LIMIT_S 1800.0
#define SHORT 0.9      /* together less than that of the sum: something is shared */

/* NICs that ranks are pinned to: those that are up. NULL-terminated indices in the node; at most 64. */
static int usable_nics(const struct zep_node *n, int out[64])
{
    int count = 0;

    for (int i = 0; i < n->n_nic && count < 64; i++)
        if (n->nic[i].up != 0)
            out[count++] = i;
    return count;
}

static int leaf_of(const struct zep_topo *t, int node)
{
    for (int s = 0; t->n_fabric && s < t->fabric[0].n_switch; s++)
        for (int k = 0; k < t->fabric[0].sw[s].n_node; k++)
            if (t->fabric[0].sw[s].node[k] == node)
                return s;
    return -1;
}

/* Names of NICs that are up on every node: ranks are pinned by name. At most 64, pointers into the first node. */
static int common_nics(const struct zep_topo *t, int n_node, const char *name[64])
{
    int used[64], n = usable_nics(&t->node[0], used), count = 0;

    for (int i = 0; i < n; i++) {
        int everywhere = 1;

        for (int k = 1; k < n_node && everywhere; k++) {
            everywhere = 0;
            for (int c = 0; c < t->node[k].n_nic; c++)
                everywhere |= t->node[k].nic[c].up != 0 && !strcmp(t->node[k].nic[c].name, t->node[0].nic[used[i]].name);
        }
        if (everywhere)
            name[count++] = t->node[0].nic[used[i]].name;
    }
    return count;
}

static int find_nic(const struct zep_node *n, const char *name)
{
    for (int c = 0; c < n->n_nic; c++)
        if (!strcmp(n->nic[c].name, name))
            return c;
    return -1;
}

/* The name by which ranks call their host: without a domain. */
static const char *host_of(const struct zep_node *n, char out[256])
{
    snprintf(out, 256, "%.255s", n->id);
    out[strcspn(out, ".")] = '\0';
    return out;
}

/* Nodes of each leaf form a ring: everyone sends once and receives once. */
static int add_pairs(const struct zep_topo *t, const int *leaf, int n_node, int n_nic, struct zep_argv *a)
{
    char x[256], y[256];
    int n = 0;

    for (int i = 0; i < n_node; i++) {
        int next = -1;

        for (int k = i + 1; k < n_node && next < 0; k++)
            if (leaf[k] == leaf[i])
                next = k;
        for (int k = 0; k < i && next < 0; k++)
            if (leaf[k] == leaf[i])
                next = k;
        if (next < 0)
            continue;
        zep_argv_add(a, "nics %s %s %d", host_of(&t->node[i], x), host_of(&t->node[next], y), n_nic);
        n++;
    }
    return n;
}

/* From each leaf all nodes together to those of the next leaf. */
static int add_groups(const struct zep_topo *t, const int *leaf, int n_node, int n_nic, struct zep_argv *a)
{
    int leaves[MAX_NODES], n_leaf = 0, n = 0;
    char host[256];

    for (int i = 0; i < n_node; i++) {
        int k = 0;

        while (k < n_leaf && leaves[k] != leaf[i])
            k++;
        if (k == n_leaf)
            leaves[n_leaf++] = leaf[i];
    }
    for (int k = 0; n_leaf > 1 && k < n_leaf; k++) {
        struct zep_buf from = ZEP_BUF_INIT, to = ZEP_BUF_INIT;
        int next = leaves[(k + 1) % n_leaf];

        for (int i = 0; i < n_node; i++) {
            if (leaf[i] == leaves[k])
                zep_buf_printf(&from, "%s%s", from.len ? "," : "", host_of(&t->node[i], host));
            if (leaf[i] == next)
                zep_buf_printf(&to, "%s%s", to.len ? "," : "", host_of(&t->node[i], host));
        }
        if (from.data && to.data) {
            zep_argv_add(a, "group %s %s %d", from.data, to.data, n_nic);
            n++;
        }
        zep_buf_free(&from);
        zep_buf_free(&to);
    }
    return n;
}

static int add_launcher(struct zep_argv *a, const struct zep_topo *t, int n_node, int per_node, const char *hosts)
{
    char host[256];
    int slurm = !hosts && zep_inputs_slurm_job() != NULL;

    if (slurm && zep_launch_in_path("srun")) {
        zep_argv_add(a, "srun");
        zep_argv_add(a, "--mpi=pmix");
        zep_argv_add(a, "--nodes=%d", n_node);
        zep_argv_add(a, "--ntasks=%d", n_node * per_node);
        zep_argv_add(a, "--ntasks-per-node=%d", per_node);
        zep_argv_add(a, "--distribution=block");
        zep_argv_add(a, "--overcommit");
        zep_argv_add(a, "--overlap");
        zep_argv_add(a, "--kill-on-bad-exit=1");
        return 1;
    }
    zep_argv_add(a, "mpirun");
    zep_argv_add(a, "-np");
    zep_argv_add(a, "%d", n_node * per_node);
    if (hosts) {
        struct zep_buf list = ZEP_BUF_INIT;

        for (int i = 0; i < n_node; i++)
            zep_buf_printf(&list, "%s%s:%d", i ? "," : "", host_of(&t->node[i], host), per_node);
        zep_argv_add(a, "--host");
        zep_argv_add(a, "%s", list.data ? list.data : "");
        zep_buf_free(&list);
    }
    if (hosts || slurm) {
        zep_argv_add(a, "--map-by");
        zep_argv_add(a, "ppr:%d:node", per_node);
    }
    zep_argv_add(a, "--oversubscribe");
    zep_argv_add(a, "--bind-to");
    zep_argv_add(a, "none");
    return 0;
}

/* --- what came back --- */

struct sums { /* per node and NIC: the best of the transfers it took part in */
    double *nic;  /* [n_node][64], by the place in `name` */
    int n_name;
    char *name[64], *names; /* of the NICs that ranks were pinned to; their text */
    double *alone, *together; /* [n_node] sums of the last pair */
};

static int find_host(const struct zep_topo *t, const char *host)
{
    int at = host ? zep_topo_find_node(t, host) : -1;
    char name[256];

    for (int i = 0; host && at < 0 && i < t->n_node; i++)
        if (!strcmp(host_of(&t->node[i], name), host))
            at = i;
    return at;
}

/* Three digits: a measurement has no more. */
static struct zep_fact measured(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.2e", v);
    return (struct zep_fact){.value = strtod(text, NULL), .source = ZEP_SRC_MEASURED};
}

static void apply_devices(struct zep_topo *t, int node, double bytes_s)
{
    struct zep_node *n = &t->node[node];

    for (int i = 0; i < n->n_device; i++)
        if (n->device[i].kind == ZEP_DEV_CPU)
            n->device[i].bw = measured(bytes_s);
    if (n->n_device && n->device[0].kind == ZEP_DEV_GPU)
        zep_topo_warn(t, "measured between ranks of node '%s' in host memory, %.3g GB/s: not between its GPUs, whose bandwidth stays as read", n->id, bytes_s / 1e9);
}

/* An uplink is what the nodes of a leaf reach together, where that is less than their NICs could. */
static void apply_uplink(struct zep_topo *t, const struct sums *s, int from, double bytes_s, double alone)
{
    struct zep_switch *sw;
    int leaf = leaf_of(t, from);

    (void)s;
    if (leaf < 0)
        return;
    sw = &t->fabric[0].sw[leaf];
    if (alone > 0 && bytes_s < SHORT * alone)
        sw->uplink_bw = measured(bytes_s);
    else
        zep_log(ZEP_LOG_INFO, "uplinks of '%s' carry all that its nodes send together (%.3g GB/s): they are at least that fast", sw->name, bytes_s / 1e9);
}

/* What the NICs of the hosts that sent did alone; the first of them in *first. */
static double senders_alone(const struct zep_topo *t, const struct sums *s, const char *hosts, int *first)
{
    char *copy = strdup(hosts), *save = NULL;
    double sum = 0;

    *first = -1;
    for (char *host = copy ? strtok_r(copy, ",", &save) : NULL; host; host = strtok_r(NULL, ",", &save)) {
        int at = find_host(t, host);

        if (at < 0)
            continue;
        *first = *first < 0 ? at : *first;
        for (int c = 0; c < 64; c++)
            sum += s->nic[at * 64 + c];
    }
    free(copy);
    return sum;
}

static int apply_one(struct zep_topo *t, struct sums *s, const json_t *r, double *lat_near, double *lat_far, double *lat_dev, struct zep_error *err)
{
    const char *kind = json_string_value(json_object_get(r, "kind"));
    int from = find_host(t, json_string_value(json_object_get(r, "from"))), to = find_host(t, json_string_value(json_object_get(r, "to"))), nic = (int)json_integer_value(json_object_get(r, "nic"));
    double alone = kind && !strcmp(kind, "uplink") && json_is_string(json_object_get(r, "from")) ? senders_alone(t, s, json_string_value(json_object_get(r, "from")), &from) : 0;
    double bytes_s = json_number_value(json_object_get(r, "bandwidth_bytes_s")), latency = json_number_value(json_object_get(r, "latency_s"));

    if (!kind || from < 0 || to < 0 || !(bytes_s > 0))
        return zep_error_set(err, ZEP_EINVAL, "zeppelin-measure: a result of %.60s from %.60s to %.60s that cannot be placed", kind ? kind : "?", json_string_value(json_object_get(r, "from")), json_string_value(json_object_get(r, "to")));
    if (!strcmp(kind, "devices")) {
        apply_devices(t, from, bytes_s);
        *lat_dev = latency;
    } else if (!strcmp(kind, "nic")) {
        int both[2] = {from, to};

        for (int k = 0; k < 2; k++) {
            if (nic >= 0 && nic < 64) {
                double *best = &s->nic[both[k] * 64 + nic];

                *best = bytes_s > *best ? bytes_s : *best;
            }
        }
        s->alone[from] += bytes_s;
        *lat_near = *lat_near > 0 && *lat_near < latency ? *lat_near : latency;
    } else if (!strcmp(kind, "together")) {
        s->together[from] = bytes_s;
    } else if (!strcmp(kind, "across")) {
        *lat_far = *lat_far > 0 && *lat_far < latency ? *lat_far : latency;
    } else if (!strcmp(kind, "uplink")) {
        apply_uplink(t, s, from, bytes_s, alone);
    }
    return ZEP_OK;
}

static void apply_nics(struct zep_topo *t, const struct sums *s)
{
    for (int i = 0; i < t->n_node; i++) {
        struct zep_node *n = &t->node[i];

        for (int c = 0; c < s->n_name; c++) {
            int at = find_nic(n, s->name[c]);

            if (at >= 0 && s->nic[i * 64 + c] > 0)
                n->nic[at].bw = measured(s->nic[i * 64 + c]);
        }
        if (s->together[i] > 0 && s->together[i] < SHORT * s->alone[i])
            zep_topo_warn(t, "node '%s': its NICs together carry %.3g GB/s, one after the other %.3g GB/s: they share something that is narrower", n->id, s->together[i] / 1e9, s->alone[i] / 1e9);
    }
}

int zep_measure_apply(struct zep_topo *t, const char *text, size_t len, struct zep_error *err)
{
    const char *begin = text ? strstr(text, "{\"format\": \"zeppelin-measure/") : NULL;
    size_t n = (size_t)t->n_node;
    struct sums s = {.nic = zep_calloc(n * 64 + 1, sizeof *s.nic), .alone = zep_calloc(n + 1, sizeof *s.alone), .together = zep_calloc(n + 1, sizeof *s.together)};
    char *save = NULL;
    double near = 0, far = 0, dev = 0;
    json_t *root = NULL;
    const json_t *r;
    size_t i;
    int rc = s.nic && s.alone && s.together ? ZEP_OK : zep_error_nomem(err, "measuring");

    if (rc == ZEP_OK && !begin)
        begin = text ? strstr(text, "{\"format\":\"zeppelin-measure/") : NULL;
    if (rc == ZEP_OK && (!begin || !(root = json_loadb(begin, strcspn(begin, "\n"), 0, NULL))))
        rc = zep_error_set(err, ZEP_EUNAVAIL, "zeppelin-measure gave no results (%zu bytes)", len);
    if (rc == ZEP_OK)
        rc = zep_format_check(json_string_value(json_object_get(root, "format")), "zeppelin-measure", 1, 0, NULL, err);
    if (rc == ZEP_OK && json_is_string(json_object_get(root, "nics")) && !(s.names = strdup(json_string_value(json_object_get(root, "nics")))))
        rc = zep_error_nomem(err, "measuring");
    for (char *p = s.names ? strtok_r(s.names, ",", &save) : NULL; p && s.n_name < 64; p = strtok_r(NULL, ",", &save))
        s.name[s.n_name++] = p;
    json_array_foreach(json_object_get(root, "results"), i, r)
        if (rc == ZEP_OK)
            rc = apply_one(t, &s, r, &near, &far, &dev, err);
    if (rc == ZEP_OK) {
        apply_nics(t, &s);
        if (near > 0 || far > 0)
            t->net_latency_s = measured(near > 0 ? near : far);
        if (dev > 0)
            t->dev_latency_s = measured(dev);
    }
    json_decref(root);
    free(s.names);
    free(s.nic);
    free(s.alone);
    free(s.together);
    return rc;
}

/* --- starting --- */

/* What the topology now knows from measuring, and what it does not. */
static void say_measured(const struct zep_topo *t)
{
    int n_nic = 0, n_up = 0, n_dev = 0, n_link = 0;

    for (int i = 0; i < t->n_node; i++) {
        for (int c = 0; c < t->node[i].n_nic; c++) {
            n_nic += t->node[i].nic[c].bw.source == ZEP_SRC_MEASURED;
            n_up += t->node[i].nic[c].up != 0;
        }
        for (int d = 0; d < t->node[i].n_device; d++)
            n_dev += t->node[i].device[d].bw.source == ZEP_SRC_MEASURED;
    }
    for (int f = 0; f < t->n_fabric; f++)
        for (int s = 0; s < t->fabric[f].n_switch; s++)
            n_link += t->fabric[f].sw[s].uplink_bw.source == ZEP_SRC_MEASURED;
    zep_log(ZEP_LOG_INFO, "measured: %d of %d NICs, bandwidth between the devices of a node on %d device%s, %d uplink%s of switches; latency between nodes %s, between devices %s", n_nic, n_up, n_dev, n_dev == 1 ? "" : "s", n_link,
            n_link == 1 ? "" : "s", t->net_latency_s.source == ZEP_SRC_MEASURED ? "yes" : "no", t->dev_latency_s.source == ZEP_SRC_MEASURED ? "yes" : "no");
}

static int run(struct zep_topo *t, struct zep_argv *a, struct zep_error *err)
{
    struct zep_process_result p;
    char *shown;
    int rc;

    if (a->n < 0)
        return zep_error_nomem(err, "measuring");
    zep_launch_env(zep_inputs_slurm_job() ? ZEP_WHERE_SLURM : ZEP_WHERE_LOCAL);
    if ((shown = zep_process_show(a->v)))
        zep_log(ZEP_LOG_DEBUG, "%s", shown);
    free(shown);
    if ((rc = zep_process_run(a->v, LIMIT_S, &p, err)) < 0)
        return zep_error_prefix(err, "measuring");
    if (p.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "measuring took longer than %.0f minutes", LIMIT_S / 60);
    else if (p.status)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "measuring: %s ended with status %d: %.*s", a->v[0], p.status, (int)(p.err_len > 1200 ? 1200 : p.err_len), p.err);
    else
        rc = zep_measure_apply(t, p.out, p.out_len, err);
    if (rc == ZEP_OK)
        say_measured(t);
    zep_process_result_free(&p);
    return rc;
}

int zep_measure(struct zep_topo *t, const char *hosts, int rounds, struct zep_error *err)
{
    int n_node = t->n_node < MAX_NODES ? t->n_node : MAX_NODES, *leaf = zep_calloc((size_t)n_node + 1, sizeof *leaf), n_nic, n_name, per_node, rc;
    const char *name[64];
    struct zep_buf names = ZEP_BUF_INIT;
    struct zep_argv a = {0};
    char *program = NULL, host[256];

    if (!leaf)
        return zep_error_nomem(err, "measuring");
    if (zep_fs_helper("zeppelin-measure", &program, err) < 0) {
        free(leaf);
        return zep_error_set(err, ZEP_EUNAVAIL, "the program zeppelin-measure is missing: zeppelin was built without MPI");
    }
    if (n_node > 1 && !hosts && !zep_inputs_slurm_job()) {
        rc = zep_error_set(err, ZEP_EUNAVAIL, "--measure over %d nodes: run it in a Slurm allocation, or name the hosts by --hosts", n_node);
        goto out;
    }
    if (t->n_node > MAX_NODES)
        zep_topo_warn(t, "the first %d of %d nodes are measured", MAX_NODES, t->n_node);
    n_name = common_nics(t, n_node, name);
    if (!n_name && t->node[0].n_nic && n_node > 1)
        zep_topo_warn(t, "no NIC of one name is up on all nodes: transfers take what MPI chooses, and no NIC is measured");
    n_nic = n_name > 0 ? n_name : 1; /* without: whatever MPI takes */
    per_node = n_nic > 2 ? n_nic : 2;
    for (int i = 0; i < n_node; i++)
        leaf[i] = leaf_of(t, i);
    add_launcher(&a, t, n_node, per_node, hosts);
    for (int i = 0; i < n_name; i++)
        zep_buf_printf(&names, "%s%s", i ? "," : "", name[i]);
    zep_argv_add(&a, "%s", program);
    zep_argv_add(&a, "--rounds");
    zep_argv_add(&a, "%d", rounds);
    if (names.len && n_node > 1) {
        zep_argv_add(&a, "--nics");
        zep_argv_add(&a, "%s", names.data);
    }
    zep_argv_add(&a, "devices %s", host_of(&t->node[0], host));
    add_pairs(t, leaf, n_node, n_nic, &a);
    add_groups(t, leaf, n_node, n_nic, &a);
    zep_log(ZEP_LOG_INFO, "measuring %d node%s with %d ranks each: every NIC alone, then together", n_node, n_node == 1 ? "" : "s", per_node);
    rc = run(t, &a, err);
out:
    zep_argv_free(&a);
    zep_buf_free(&names);
    free(program);
    free(leaf);
    return rc;
}
