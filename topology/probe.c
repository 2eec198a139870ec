/* The local source on every node of an allocation (srun) or of a list of hosts (mpirun): what each prints comes back in pieces on one stream. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/fs.h"
#include "common/hostlist.h"
#include "common/process.h"
#include "topology/detect.h"
#include "topology/probe.h"
#include "topology/topo_internal.h"

#define LIMIT_S 120.0
#define MAX_HOSTS 65536

struct piece {
    char *host, *text;
    size_t index, n;
};

static int cmp_piece(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int c = zep_compare_names(x->host, y->host);

    if (!c)
        c = strcmp(x->host, y->host);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* "zeppelin-probe HOST I N TEXT", wherever it begins in a line (srun --label, mpirun's tags). */
static int take_piece(const char *line, size_t len, struct piece *p)
{
    static const char mark[] = "zeppelin-probe ";
    const char *at = memmem(line, len, mark, sizeof mark - 1);
    char head[400], host[256];
    int used = 0;

    if (!at)
        return 0;
    at += sizeof mark - 1;
    snprintf(head, sizeof head, "%.*s", line + len - at > 390 ? 390 : (int)(line + len - at), at); /* the line has no end of its own */
    if (sscanf(head, "%255s %zu %zu%n", host, &p->index, &p->n, &used) != 3 || !used || p->index >= p->n || p->n > 100000 || at + used >= line + len)
        return 0;
    p->host = strdup(host);
    p->text = strndup(at + used + 1, (size_t)(line + len - (at + used + 1)));
    return p->host && p->text ? 1 : -1;
}

static int one_node(struct zep_topo **out, const struct piece *p, size_t n, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    for (size_t i = 0; i < n; i++)
        zep_buf_puts(&b, p[i].text);
    if (n != p->n)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "probe: node '%s' sent %zu of %zu pieces", p->host, n, p->n);
    else if ((rc = zep_buf_ok(&b, err)) == ZEP_OK)
        rc = zep_detect_from_json(p->host, b.data ? b.data : "", b.len, out, err);
    for (int i = 0; rc == ZEP_OK && i < (*out)->n_node; i++)
        if (zep_node_sort_devices(&(*out)->node[i]) < 0) {
            zep_topo_free(*out);
            rc = zep_error_nomem(err, "topology");
            break;
        }
    zep_buf_free(&b);
    return rc;
}

/* Neighbours by twos, again and again: a merge looks at all nodes of both, one after the other would be quadratic. */
static int merge_all(struct zep_topo **t, int n, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int step = 1; step < n && rc == ZEP_OK; step *= 2)
        for (int i = 0; i + step < n && rc == ZEP_OK; i += 2 * step) {
            rc = zep_topo_merge(t[i], t[i + step], err);
            zep_topo_free(t[i + step]);
            t[i + step] = NULL;
            zep_topo_clear_notes(t[i], "probe"); /* what merging said of the order of arrival is not news */
        }
    return rc;
}

static int warn_of(void *arg, int node, const char *text)
{
    (void)node;
    return zep_topo_warn(arg, "%s", text);
}

int zep_probe_collect(const char *text, size_t len, const char *origin, struct zep_topo **topo_out, struct zep_error *err)
{
    struct piece *p = NULL;
    struct zep_topo **node = NULL;
    int n = 0, cap = 0, rc = ZEP_OK, got, n_node = 0;
    const char *end = text + len;

    while (text < end && rc == ZEP_OK) {
        const char *nl = memchr(text, '\n', (size_t)(end - text)), *stop = nl ? nl : end;

        if (n == cap) {
            struct piece *more = zep_reallocarray(p, cap ? 2 * (size_t)cap : 256, sizeof *more);

            if (!more) {
                rc = zep_error_nomem(err, "probe");
                break;
            }
            p = more;
            cap = cap ? 2 * cap : 256;
        }
        p[n] = (struct piece){0};
        if ((got = take_piece(text, (size_t)(stop - text), &p[n])) != 0)
            n++;
        if (got < 0)
            rc = zep_error_nomem(err, "probe");
        text = nl ? nl + 1 : end;
    }
    if (rc == ZEP_OK && n)
        qsort(p, (size_t)n, sizeof *p, cmp_piece);
    if (rc == ZEP_OK && !(node = zep_calloc((size_t)n + 1, sizeof *node)))
        rc = zep_error_nomem(err, "probe");
    for (int i = 0, run; i < n && rc == ZEP_OK; i += run) {
        for (run = 1; i + run < n && !strcmp(p[i + run].host, p[i].host); run++)
            if (p[i + run].index == p[i + run - 1].index) {
                rc = zep_error_set(err, ZEP_EUNAVAIL, "probe: two nodes call themselves '%s'", p[i].host);
                break;
            }
        if (rc == ZEP_OK)
            rc = one_node(&node[n_node++], &p[i], (size_t)run, err);
    }
    if (rc == ZEP_OK && !n_node)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "probe: no node answered");
    if (rc == ZEP_OK)
        rc = merge_all(node, n_node, err);
    if (rc == ZEP_OK) {
        char *copy = strdup(origin), *name = strdup("probe");

        if (copy && name) {
            free(node[0]->origin);
            free(node[0]->name);
            node[0]->origin = copy;
            node[0]->name = name;
            rc = zep_topo_siblings(node[0], warn_of, node[0], err);
        } else {
            free(copy);
            free(name);
            rc = zep_error_nomem(err, "probe");
        }
    }
    for (int i = 0; i < n; i++) {
        free(p[i].host);
        free(p[i].text);
    }
    free(p);
    for (int i = rc < 0 ? 0 : 1; node && i < n_node; i++)
        zep_topo_free(node[i]);
    if (rc == ZEP_OK)
        *topo_out = node[0];
    free(node);
    return rc;
}

/* --- starting --- */

/* "@FILE" (one host a line, as mpirun reads it) or a host list, as the names of hosts. */
static int read_hosts(const char *hosts, struct zep_hostlist *out, struct zep_error *err)
{
    char *text = NULL, *save = NULL;
    struct zep_buf b = ZEP_BUF_INIT;
    size_t len;
    int rc;

    if (*hosts != '@')
        return zep_hostlist_expand(hosts, out, err) < 0 ? zep_error_prefix(err, "--hosts") : ZEP_OK;
    if ((rc = zep_fs_read(hosts + 1, 16 << 20, &text, &len, err)) < 0)
        return zep_error_prefix(err, "--hosts");
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        line[strcspn(line, "#")] = '\0';
        line += strspn(line, " \t\r");
        line[strcspn(line, " \t\r")] = '\0';
        if (*line)
            zep_buf_printf(&b, "%s%s", b.len ? "," : "", line);
    }
    if ((rc = zep_buf_ok(&b, err)) == ZEP_OK && (rc = zep_hostlist_expand(b.data ? b.data : "", out, err)) < 0)
        zep_error_prefix(err, "--hosts %s", hosts);
    zep_buf_free(&b);
    free(text);
    return rc;
}

static int by_mpirun(const char *helper, const char *hosts, char **argv, char **to_free, struct zep_error *err)
{
    struct zep_hostlist list = {0};
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = read_hosts(hosts, &list, err), n = 0;

    for (int i = 0; i < list.n && rc == ZEP_OK; i++)
        if ((rc = zep_check_hostname(list.name[i], err)) < 0)
            zep_error_prefix(err, "--hosts");
        else
            zep_buf_printf(&b, "%s%s:1", i ? "," : "", list.name[i]);
    if (rc == ZEP_OK && (list.n < 1 || list.n > MAX_HOSTS))
        rc = zep_error_set(err, ZEP_EINVAL, "--hosts: %d hosts: expected 1 to %d", list.n, MAX_HOSTS);
    if (rc == ZEP_OK && (rc = zep_buf_steal(&b, to_free, err)) == ZEP_OK) {
        argv[n++] = (char *)"mpirun";
        argv[n++] = (char *)"--host";
        argv[n++] = *to_free;
        argv[n++] = (char *)"--map-by";
        argv[n++] = (char *)"ppr:1:node";
        argv[n++] = (char *)"--bind-to";
        argv[n++] = (char *)"none";
        argv[n++] = (char *)helper;
        argv[n++] = (char *)"--probe";
        if (geteuid() == 0) {
            setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
            setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
        }
    }
    zep_buf_free(&b);
    zep_hostlist_free(&list);
    return rc;
}

static void by_srun(const char *helper, char **argv, char number[2][32])
{
    static const char *const fixed[] = {"srun", "--ntasks-per-node=1", "--mpi=none", "--overlap", "--export=ALL", "--cpu-bind=none", NULL};
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    int n = 0;

    for (int i = 0; fixed[i]; i++)
        argv[n++] = (char *)fixed[i];
    snprintf(number[0], 32, "--nodes=%.16s", nodes ? nodes : "1");
    snprintf(number[1], 32, "--ntasks=%.16s", nodes ? nodes : "1");
    argv[n++] = number[0];
    argv[n++] = number[1];
    argv[n++] = (char *)helper;
    argv[n++] = (char *)"--probe";
}

int zep_topo_from_probe(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *job = getenv("SLURM_JOB_ID");
    char *helper = NULL, *hosts = NULL, *argv[24] = {NULL}, origin[400], number[2][32];
    struct zep_process_result p;
    int rc;

    if (zep_detect_helper("zeppelin-detect-local", &helper, err) < 0)
        return zep_error_set(err, ZEP_EUNAVAIL, "probe: %s (hwloc was missing)", err->text);
    if (q->hosts) {
        snprintf(origin, sizeof origin, "probe of %.300s", q->hosts);
        if ((rc = by_mpirun(helper, q->hosts, argv, &hosts, err)) < 0)
            goto out;
    } else if (job && *job) {
        snprintf(origin, sizeof origin, "probe of the Slurm allocation %.40s", job);
        by_srun(helper, argv, number);
    } else {
        rc = zep_error_set(err, ZEP_EUNAVAIL, "probe: this is no Slurm allocation: run it below salloc or in a job, or name hosts by --hosts (a host list, or @FILE)");
        goto out;
    }
    if ((rc = zep_process_run(argv, LIMIT_S, &p, err)) < 0) {
        zep_error_prefix(err, "probe");
        goto out;
    }
    if (p.timed_out)
        rc = zep_error_set(err, ZEP_ETIMEDOUT, "probe: %s gave no answer in %.0f s", argv[0], LIMIT_S);
    else if (p.status)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "probe: %s ended with status %d: %.*s", argv[0], p.status, (int)(strcspn(p.err, "\n") > 600 ? 600 : strcspn(p.err, "\n")), p.err);
    else
        rc = zep_probe_collect(p.out, p.out_len, origin, topo_out, err);
    zep_process_result_free(&p);
out:
    free(hosts);
    free(helper);
    return rc;
}
