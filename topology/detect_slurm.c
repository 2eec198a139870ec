/* zeppelin-detect-slurm: a Slurm cluster, or the nodes of a job, through libslurm, as JSON. This binary links libslurm and so falls under the GPL (version 2 or later).
 * libslurm may end the process where it finds no configuration: zeppelin runs this helper under a time limit. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "common/hostlist.h"
#include "topology/detect.h"
#include "topology/topo_internal.h"

static const char *const base_states[] = {"unknown", "down", "idle", "allocated", "error", "mixed", "future"};

static int complain(const char *what)
{
    int code = errno;

    fprintf(stderr, "%s: %s\n", what, slurm_strerror(code));
    return -1;
}

static void state_text(const node_info_t *n, char out[128])
{
    unsigned base = n->node_state & NODE_STATE_BASE;

    snprintf(out, 128, "%s%s%s%s%s", base < sizeof base_states / sizeof base_states[0] ? base_states[base] : "unknown", n->node_state & NODE_STATE_DRAIN ? "+drain" : "",
             n->node_state & NODE_STATE_MAINT ? "+maint" : "", n->node_state & NODE_STATE_COMPLETING ? "+completing" : "", n->node_state & NODE_STATE_NO_RESPOND ? "+not_responding" : "");
}

static int add_node(struct zep_topo *topo, const node_info_t *n)
{
    char state[128];
    struct zep_error err;
    struct zep_slurm_node s = {n->name, n->node_hostname, n->node_addr, state, n->gres, n->sockets, n->cores, n->threads, (int64_t)n->real_memory};

    state_text(n, state);
    if (zep_slurm_add_node(topo, &s, &err) == ZEP_OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return -1;
}

/* All nodes, or those of a list, in its order. */
static int add_nodes(struct zep_topo *topo, const struct zep_hostlist *only)
{
    node_info_msg_t *m = NULL;
    int rc = 0;

    if (slurm_load_node(0, &m, SHOW_ALL | SHOW_DETAIL))
        return complain("nodes");
    for (int k = 0; k < (only ? only->n : 1) && rc == 0; k++) {
        int found = 0;

        for (uint32_t i = 0; i < m->record_count && rc == 0; i++) {
            const node_info_t *n = &m->node_array[i];

            if (!n->name || (only && strcmp(n->name, only->name[k])))
                continue;
            found = 1;
            rc = add_node(topo, n);
        }
        if (only && !found && rc == 0) {
            fprintf(stderr, "node '%s' of the job is unknown to the controller\n", only->name[k]);
            rc = -1;
        }
    }
    slurm_free_node_info_msg(m);
    return rc;
}

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
/* From 25.05 on what the library says of topology is opaque: the caller asks scontrol. Written by the release notes, not run. */
static int add_switches(struct zep_topo *topo)
{
    (void)topo;
    return 0;
}
#else
static int add_switches(struct zep_topo *topo)
{
    topo_info_response_msg_t *m = NULL;
    struct zep_names *names;
    struct zep_error err;
    int rc;

    if (zep_slurm_index(topo, &names, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    if (slurm_load_topo(&m)) {
        zep_topo_warn(topo, "the switch tree is not known: %s", slurm_strerror(errno));
        zep_names_free(names);
        return 0;
    }
    rc = ZEP_OK;
    for (uint32_t i = 0; i < m->record_count && rc == ZEP_OK; i++) {
        const topo_info_t *t = &m->topo_array[i];

        if (t->name && *t->name)
            rc = zep_slurm_add_switch(topo, names, t->name, t->nodes, t->switches, &err);
    }
    if (m->record_count == 0)
        zep_topo_warn(topo, "the controller knows no switches (TopologyPlugin is not topology/tree?)");
    slurm_free_topo_info_msg(m);
    zep_names_free(names);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    return rc < 0 ? -1 : 0;
}
#endif

static int partition_nodes(const char *name, struct zep_hostlist *out)
{
    partition_info_msg_t *m = NULL;
    struct zep_error err;
    int rc = -1;

    if (slurm_load_partitions(0, &m, SHOW_ALL))
        return complain("partitions");
    for (uint32_t i = 0; i < m->record_count; i++)
        if (m->partition_array[i].name && !strcmp(m->partition_array[i].name, name)) {
            const char *nodes = m->partition_array[i].nodes;

            if (!nodes || !*nodes)
                fprintf(stderr, "partition '%s' has no nodes\n", name);
            else if (zep_hostlist_expand(nodes, out, &err) < 0)
                fprintf(stderr, "partition '%s': %s\n", name, err.text);
            else
                rc = 0;
            slurm_free_partition_info_msg(m);
            return rc;
        }
    fprintf(stderr, "no partition '%s'; there are:", name);
    for (uint32_t i = 0; i < m->record_count; i++)
        fprintf(stderr, " %s", m->partition_array[i].name);
    fputs("\n", stderr);
    slurm_free_partition_info_msg(m);
    return -1;
}

static int job_nodes(const char *text, struct zep_hostlist *out)
{
    job_info_msg_t *m = NULL;
    struct zep_error err;
    char *end;
    unsigned long id = strtoul(text, &end, 10);
    int rc = -1;

    if (*end || !id) {
        fprintf(stderr, "job '%s': expected a number\n", text);
        return -1;
    }
    if (slurm_load_job(&m, (uint32_t)id, SHOW_DETAIL)) {
        fprintf(stderr, "job %lu: %s\n", id, slurm_strerror(errno));
        return -1;
    }
    if (!m->record_count || !m->job_array[0].nodes || !*m->job_array[0].nodes)
        fprintf(stderr, "job %lu has no nodes (yet)\n", id);
    else if (zep_hostlist_expand(m->job_array[0].nodes, out, &err) < 0)
        fprintf(stderr, "job %lu: %s\n", id, err.text);
    else
        rc = 0;
    slurm_free_job_info_msg(m);
    return rc;
}

/* One try at each controller: other calls try for nine seconds. */
static int answers(void)
{
    int code = 0;

    for (int i = 0; i < 4; i++) { /* more than are configured are errors at once */
        if (slurm_ping(i) == SLURM_SUCCESS)
            return 1;
        if (i == 0)
            code = errno;
    }
    fprintf(stderr, "the Slurm controller does not answer: %s\n", slurm_strerror(code));
    return 0;
}

static int detect(const char *job, const char *partition)
{
    struct zep_hostlist only = {0};
    struct zep_topo *topo = NULL;
    slurm_conf_t *conf = NULL;
    struct zep_error err;
    char origin[400], *text = NULL;
    int rc = -1;

    if (!answers())
        return -1;
    if (slurm_load_ctl_conf(0, &conf))
        return complain("the Slurm controller does not answer");
    snprintf(origin, sizeof origin, "slurm cluster %.200s, version %.60s%s%.60s", conf->cluster_name ? conf->cluster_name : "?", conf->version ? conf->version : "?", job ? ", job " : partition ? ", partition " : "", job ? job : partition ? partition : "");
    topo = zep_topo_new(conf->cluster_name, origin);
    slurm_free_ctl_conf(conf);
    if (!topo || (job && job_nodes(job, &only) < 0) || (partition && partition_nodes(partition, &only) < 0) || add_nodes(topo, job || partition ? &only : NULL) < 0 || add_switches(topo) < 0)
        goto out;
    if (zep_slurm_finish(topo, &err) < 0 || zep_detect_to_json(topo, &text, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        goto out;
    }
    puts(text);
    rc = 0;
out:
    free(text);
    zep_hostlist_free(&only);
    zep_topo_free(topo);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"job", required_argument, NULL, 'j'}, {"partition", required_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    const char *job = NULL, *partition = NULL;
    int c, rc;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'j') {
            job = optarg;
        } else if (c == 'p') {
            partition = optarg;
        } else if (c == 'V') {
            puts("zeppelin-detect-slurm " PACKAGE_VERSION);
            return 0;
        } else {
            fputs("usage: zeppelin-detect-slurm [--job ID | --partition NAME]\nPrints the Slurm cluster, or the nodes of a job or partition, as zeppelin-detect/1.0 JSON.\n", c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    slurm_init(NULL);
    rc = detect(job, partition);
    slurm_fini();
    return rc < 0 ? 1 : 0;
}
