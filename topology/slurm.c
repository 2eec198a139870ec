/* Slurm through the helper; where it was not built, from the text of scontrol. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/hostlist.h"
#include "common/process.h"
#include "topology/detect.h"
#include "topology/topo_internal.h"

#define LIMIT_S 10.0 /* libslurm itself gives up on a silent controller after nine */
#define MOMENT_S 2.0 /* where nothing hints at Slurm; a client without configuration tries on for a minute */

/* The value of KEY=VALUE in a line of scontrol, "" when absent; a value ends before the next " Word=". */
static void value_of(const char *line, const char *key, char *out, size_t size)
{
    size_t len = strlen(key);
    const char *p = line;

    *out = '\0';
    while ((p = strstr(p, key))) {
        if ((p == line || p[-1] == ' ') && p[len] == '=') {
            snprintf(out, size, "%.*s", (int)strcspn(p + len + 1, " \n"), p + len + 1);
            return;
        }
        p += len;
    }
}

static int ask(const char *const *args, char **out, double limit, struct zep_error *err)
{
    char *argv[8] = {"scontrol"};
    struct zep_process_result p;
    int n = 1, rc;

    for (; *args && n < 7; args++)
        argv[n++] = (char *)*args;
    if (zep_process_run(argv, limit, &p, err) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "no Slurm here: scontrol is not in PATH");
    if (p.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "scontrol gave no answer in %.0f s", limit);
    else if (p.status && !argv[2]) /* ping */
        rc = zep_error_set(err, ZEP_EUNAVAIL, p.err_len ? "%.*s" : "the Slurm controller does not answer: %.*s", (int)strcspn(p.err_len ? p.err : p.out, "\n"), p.err_len ? p.err : p.out);
    else if (p.status)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "scontrol %s %s: %.*s", argv[1], argv[2], (int)strcspn(p.err, "\n"), p.err);
    else
        rc = (*out = strdup(p.out)) ? ZEP_OK : zep_error_nomem(err, "scontrol's text");
    zep_process_result_free(&p);
    return rc;
}

/* A number of a node's record; where the record has none, 0. */
static int number_of(const char *line, const char *key, int64_t most, int64_t *out, struct zep_error *err)
{
    char text[32];

    *out = 0;
    value_of(line, key, text, sizeof text);
    return *text && zep_parse_int(text, 0, most, out, err) < 0 ? zep_error_prefix(err, "%s", key) : ZEP_OK;
}

static int add_node_line(struct zep_topo *topo, const char *name, const char *line, struct zep_error *err)
{
    char host[256], addr[256], state[128], gres[512];
    struct zep_slurm_node s = {.name = name, .hostname = host, .addr = addr, .state = state, .gres = gres};
    int64_t sockets, cores, threads;
    int rc;

    if ((rc = zep_check_hostname(name, err)) < 0)
        return zep_error_prefix(err, "NodeName");
    value_of(line, "NodeHostName", host, sizeof host);
    value_of(line, "NodeAddr", addr, sizeof addr);
    value_of(line, "State", state, sizeof state);
    value_of(line, "Gres", gres, sizeof gres);
    if ((rc = number_of(line, "Sockets", ZEP_MAX_SOCKETS, &sockets, err)) < 0 || (rc = number_of(line, "CoresPerSocket", ZEP_MAX_CORES, &cores, err)) < 0 ||
        (rc = number_of(line, "ThreadsPerCore", ZEP_MAX_THREADS, &threads, err)) < 0 || (rc = number_of(line, "RealMemory", ZEP_MAX_NODE_MIB, &s.mem_mib, err)) < 0)
        return zep_error_prefix(err, "node '%s'", name);
    s.sockets = (int)sockets;
    s.cores = (int)cores;
    s.threads = (int)threads;
    return zep_slurm_add_node(topo, &s, err);
}

/* Lines of `scontrol show node --oneliner`. */
int zep_slurm_parse_nodes(struct zep_topo *topo, char *text, const struct zep_hostlist *only, struct zep_error *err)
{
    char *save = NULL, name[256];
    char **wanted = zep_calloc(only ? (size_t)only->n + 1 : 1, sizeof *wanted); /* their lines */
    int rc = wanted ? ZEP_OK : zep_error_nomem(err, "scontrol's text");

    for (char *line = strtok_r(text, "\n", &save); line && rc == ZEP_OK; line = strtok_r(NULL, "\n", &save)) {
        value_of(line, "NodeName", name, sizeof name);
        for (int i = 0; only && i < only->n; i++)
            if (!strcmp(only->name[i], name))
                wanted[i] = line;
        if (*name && !only)
            rc = add_node_line(topo, name, line, err);
    }
    for (int i = 0; only && i < only->n && rc == ZEP_OK; i++)
        rc = wanted[i] ? add_node_line(topo, only->name[i], wanted[i], err) : zep_error_set(err, ZEP_EINVAL, "node '%s' of the job is unknown to the controller", only->name[i]);
    free(wanted);
    return rc;
}

/* Lines of `scontrol show topology`: "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=zep[0-3]" and "... Switches=leaf[0-1]", "BlockName=b0 BlockIndex=0 Nodes=...". */
int zep_slurm_parse_switches(struct zep_topo *topo, const struct zep_names *names, char *text, struct zep_error *err)
{
    char *save = NULL;
    int rc = ZEP_OK;

    for (char *line = strtok_r(text, "\n", &save); line && rc == ZEP_OK; line = strtok_r(NULL, "\n", &save)) {
        size_t len = strlen(line) + 1;
        char *buf = zep_calloc(4, len);

        if (!buf)
            return zep_error_nomem(err, "scontrol's text");
        value_of(line, "SwitchName", buf, len);
        value_of(line, "Nodes", buf + len, len);
        value_of(line, "Switches", buf + 2 * len, len);
        value_of(line, "BlockName", buf + 3 * len, len);
        if (*buf)
            rc = zep_slurm_add_switch(topo, names, buf, buf + len, buf + 2 * len, err);
        else if (buf[3 * len])
            rc = zep_slurm_add_block(topo, names, buf + 3 * len, buf + len, err);
        free(buf);
    }
    return rc;
}

/* The hosts that the text of `scontrol show KIND NAME` gives under a key; code and hint: the error where there are none. */
static int only_hosts_of(const char *kind, const char *name, const char *key, enum zep_status code, const char *hint, struct zep_hostlist *out, struct zep_error *err)
{
    const char *args[] = {"show", kind, name, "--oneliner", NULL};
    char *text = NULL, *nodes;
    int rc = ask(args, &text, LIMIT_S, err);

    if (rc < 0)
        return rc;
    nodes = zep_calloc(strlen(text) + 1, 1);
    if (nodes) {
        value_of(text, key, nodes, strlen(text) + 1);
        rc = *nodes && strcmp(nodes, "(null)") ? zep_hostlist_expand(nodes, out, err) : zep_error_set(err, code, "%s '%s' has no nodes%s", kind, name, hint);
    } else {
        rc = zep_error_nomem(err, "scontrol's text");
    }
    free(nodes);
    free(text);
    return rc;
}

static int only_job(const char *job, struct zep_hostlist *out, struct zep_error *err)
{
    return only_hosts_of("job", job, "NodeList", ZEP_EUNAVAIL, " (yet)", out, err);
}

static int only_partition(const char *partition, struct zep_hostlist *out, struct zep_error *err)
{
    return only_hosts_of("partition", partition, "Nodes", ZEP_EINVAL, "", out, err);
}

/* Where the library does not say (Slurm 25.05 and later; topology/block): the text of scontrol, or else what the job's environment says of this node. */
static int add_switches_by_text(struct zep_topo *topo, double limit, struct zep_error *err)
{
    static const char *const topo_args[] = {"show", "topology", NULL};
    const char *addr = getenv("SLURM_TOPOLOGY_ADDR"), *pattern = getenv("SLURM_TOPOLOGY_ADDR_PATTERN"), *self = getenv("SLURMD_NODENAME");
    struct zep_names *names = NULL;
    char *switches = NULL;
    int rc, node;

    if (ask(topo_args, &switches, limit, NULL) == ZEP_OK && (strstr(switches, "SwitchName=") || strstr(switches, "BlockName="))) {
        if ((rc = zep_slurm_index(topo, &names, err)) == ZEP_OK && (rc = zep_slurm_parse_switches(topo, names, switches, err)) == ZEP_OK)
            rc = zep_slurm_finish(topo, err);
        zep_names_free(names);
        free(switches);
        return rc;
    }
    free(switches);
    node = self ? zep_topo_find_node(topo, self) : -1;
    return addr && node >= 0 ? zep_slurm_add_addr(topo, node, addr, pattern, err) : ZEP_OK;
}

static int from_text(const char *job, const char *partition, double limit, struct zep_topo **topo_out, struct zep_error *err)
{
    static const char *const nodes_args[] = {"show", "node", "--oneliner", NULL}, *const topo_args[] = {"show", "topology", NULL}, *const ping_args[] = {"ping", NULL};
    struct zep_hostlist only = {0};
    struct zep_topo *topo = NULL;
    struct zep_names *names = NULL;
    char *ping = NULL, *nodes = NULL, *switches = NULL, origin[128];
    int rc;

    if ((rc = ask(ping_args, &ping, limit, err)) < 0 || (rc = ask(nodes_args, &nodes, limit, err)) < 0 || (job && (rc = only_job(job, &only, err)) < 0) || (partition && (rc = only_partition(partition, &only, err)) < 0))
        goto out;
    snprintf(origin, sizeof origin, "slurm, by scontrol%s%.60s", job ? ", job " : partition ? ", partition " : "", job ? job : partition ? partition : "");
    if (!(topo = zep_topo_new("slurm", origin))) {
        rc = zep_error_nomem(err, "topology");
        goto out;
    }
    if ((rc = zep_slurm_parse_nodes(topo, nodes, job || partition ? &only : NULL, err)) < 0 || (rc = zep_slurm_index(topo, &names, err)) < 0)
        goto out;
    if (ask(topo_args, &switches, limit, NULL) < 0)
        zep_topo_warn(topo, "the switch tree is not known: scontrol show topology failed");
    else if ((rc = zep_slurm_parse_switches(topo, names, switches, err)) < 0)
        goto out;
    else if (!topo->n_fabric)
        zep_topo_warn(topo, "the controller knows no switches");
    rc = zep_slurm_finish(topo, err);
out:
    zep_names_free(names);
    zep_hostlist_free(&only);
    free(ping);
    free(nodes);
    free(switches);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}

int zep_topo_detect_slurm(const char *jobid, const char *partition, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *args[] = {jobid ? "--job" : partition ? "--partition" : NULL, jobid ? jobid : partition, NULL};
    const char *conf = getenv("SLURM_CONF"), *libslurm = getenv("ZEPPELIN_LIBSLURM");
    int hints = zep_slurm_hints(), absent, rc;
    double limit = hints ? LIMIT_S : MOMENT_S;

    if (conf && *conf && access(conf, R_OK) < 0) /* Slurm's clients would try on for a minute */
        return zep_error_set(err, ZEP_EUNAVAIL, "no Slurm here: SLURM_CONF is '%s': %s", conf, strerror(errno));
    if (libslurm && !strcmp(libslurm, "no")) { /* a library that does not fit the controller */
        absent = 1;
        rc = ZEP_EUNAVAIL;
    } else {
        rc = zep_detect_run("zeppelin-detect-slurm", args, limit, &absent, topo_out, err);
    }
    if (rc < 0 && absent)
        rc = from_text(jobid, partition, limit, topo_out, err);
    else if (rc == ZEP_OK && !(*topo_out)->n_fabric)
        rc = add_switches_by_text(*topo_out, limit, err);
    if (rc < 0 && !hints)
        return zep_error_set(err, ZEP_EUNAVAIL, "no Slurm here: no configuration was found (SLURM_CONF, /etc/slurm/slurm.conf, or a configless site's server)");
    if (rc == ZEP_ETIMEDOUT)
        return zep_error_set(err, ZEP_EUNAVAIL, "the Slurm controller does not answer (asked for %.0f s)", limit);
    return rc < 0 ? zep_error_prefix(err, "Slurm") : rc;
}
