/* The registry of sources, and how several become one topology. */
#include "config.h"
#include "topology/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/units.h"
#include "common/yaml.h"
#include "topology/detect.h"
#include "topology/topo_internal.h"

#define MAX_FILE ((size_t)256 << 20)

/* --- kinds that are a line here --- */

static int load_slurm(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    if (!q->arg || !*q->arg)
        return zep_topo_detect_slurm(NULL, NULL, topo_out, err);
    if (!strncmp(q->arg, "job=", 4))
        return zep_topo_detect_slurm(q->arg + 4, NULL, topo_out, err);
    if (!strcmp(q->arg, "job")) {
        const char *job = getenv("SLURM_JOB_ID");

        return job && *job ? zep_topo_detect_slurm(job, NULL, topo_out, err) : zep_error_set(err, ZEP_EUNAVAIL, "slurm:job: this is no Slurm allocation (SLURM_JOB_ID is not set): expected slurm:job=ID");
    }
    return zep_topo_detect_slurm(NULL, strncmp(q->arg, "partition=", 10) ? q->arg : q->arg + 10, topo_out, err);
}

static int load_local(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *args[] = {"--machine", q->arg, NULL};
    int absent, rc;

    if (!q->arg || !*q->arg)
        return zep_topo_detect_local(topo_out, err);
    rc = zep_detect_run("zeppelin-detect-local", args, 30, &absent, topo_out, err);
    return rc < 0 ? zep_error_prefix(err, "recorded machine '%.200s'", q->arg) : rc;
}

static int load_synthetic(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    int rc = zep_topo_synthetic(q->arg ? q->arg + strspn(q->arg, " ") : "", topo_out, err);

    return rc < 0 ? zep_error_prefix(err, "synthetic topology") : rc;
}

/* "A" or "A:4" */
static int load_preset(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    const char *text = q->arg ? q->arg + strspn(q->arg, " ") : "", *colon = strchr(text, ':');
    char name[64];
    int64_t n = 0;
    int rc;

    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    if (colon && (rc = zep_parse_int(colon + 1, 1, 65536, &n, err)) < 0)
        return zep_error_prefix(err, "preset '%s': number of nodes", text);
    return zep_topo_preset(name, (int)n, topo_out, err);
}

static int load_yaml(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_topo *t = NULL;
    char origin[400], *copy;
    int rc = zep_topo_parse(q->file, q->text, q->len, &t, err);

    if (rc == ZEP_OK && !*t->origin) { /* written by a person */
        snprintf(origin, sizeof origin, "file %.380s", q->file);
        if (!(copy = strdup(origin))) {
            zep_topo_free(t);
            return zep_error_nomem(err, "topology");
        }
        free(t->origin);
        t->origin = copy;
    }
    if (rc == ZEP_OK)
        *topo_out = t;
    return rc;
}

static int load_json(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    return zep_detect_from_json(q->file, q->text, q->len, topo_out, err);
}

static int is_yaml(const char *text, size_t len)
{
    const char *p = strstr(text, "format:");

    (void)len;
    return p && (p == text || p[-1] == '\n') && strstr(p, "zeppelin-topology/") == p + 7 + strspn(p + 7, " \"'");
}

static int is_json(const char *text, size_t len)
{
    const char *p = text + strspn(text, " \t\r\n");

    (void)len;
    return *p == '{' && (strstr(p, "\"zeppelin-topology-json/") || strstr(p, "\"zeppelin-detect/"));
}

#ifdef HAVE_HWLOC
#define NO_HWLOC NULL
#else
#define NO_HWLOC "hwloc"
#endif
#ifdef HAVE_EXPAT
#define NO_EXPAT NULL
#else
#define NO_EXPAT "expat"
#endif

static const struct zep_topo_source slurm = {"slurm", "[PARTITION|job=ID]", "the Slurm cluster, a partition, or a job's nodes in the order of ranks", NULL, load_slurm, NULL};
static const struct zep_topo_source kubernetes = {"kubernetes", NULL, "the nodes of the Kubernetes cluster, from the API", NULL, zep_topo_from_kubernetes, NULL};
static const struct zep_topo_source local = {"local", "[DIR]", "this machine through hwloc, sysfs and NVML; or one recorded in a folder", NULL, load_local, NO_HWLOC};
static const struct zep_topo_source probe = {"probe", NULL, "every node of the allocation, or of --hosts: the local source run there", NULL, zep_topo_from_probe, NO_HWLOC};
static const struct zep_topo_source synthetic = {"synthetic", "TEXT", "a description: 'nodes:2 dev:4 nic:2 nvlink:200GB/s net:200Gb/s'", NULL, load_synthetic, NULL};
static const struct zep_topo_source preset = {"preset", "NAME[:N]", "a known machine, N nodes of it (--list-presets)", NULL, load_preset, NULL};
static const struct zep_topo_source yaml = {"file", "FILE", "topology.yaml of ours", is_yaml, load_yaml, NULL};
static const struct zep_topo_source json = {"json", "FILE", "JSON of ours", is_json, load_json, NULL};
static const struct zep_topo_source slurm_yaml = {"topology.yaml", "FILE", "Slurm's topology.yaml", zep_topo_is_slurm_yaml, zep_topo_from_slurm_yaml, NULL};
static const struct zep_topo_source nodelist = {"nodelist", "FILE", "what kubectl get nodes -o json (or yaml) prints", zep_topo_is_nodelist, zep_topo_from_nodelist, NULL};
static const struct zep_topo_source hwloc = {"hwloc", "FILE", "hwloc's XML of a machine (lstopo FILE.xml)", zep_topo_is_hwloc, zep_topo_from_hwloc, NO_HWLOC};
static const struct zep_topo_source nccl = {"nccl", "FILE", "NCCL's topology XML", zep_topo_is_nccl_xml, zep_topo_from_nccl_xml, NO_EXPAT};
static const struct zep_topo_source topo_m = {"topo-m", "FILE", "what nvidia-smi topo -m prints", zep_topo_is_topo_m, zep_topo_from_topo_m, NULL};
static const struct zep_topo_source fabric = {"fabric", "FILE", "what ibnetdiscover prints", zep_topo_is_ibnetdiscover, zep_topo_from_ibnetdiscover, NULL};
static const struct zep_topo_source scontrol = {"scontrol", "FILE", "what scontrol show topology prints", zep_topo_is_scontrol, zep_topo_from_scontrol, NULL};
static const struct zep_topo_source slurm_conf = {"topology.conf", "FILE", "Slurm's topology.conf", zep_topo_is_slurm_conf, zep_topo_from_slurm_conf, NULL};
static const struct zep_topo_source gres_conf = {"gres.conf", "FILE", "Slurm's gres.conf: GPUs and the cores near them", zep_topo_is_gres_conf, zep_topo_from_gres_conf, NULL};
static const struct zep_topo_source slurm_nodes = {"slurm.conf", "FILE", "NodeName lines of Slurm's slurm.conf, or what scontrol show node prints", zep_topo_is_slurm_nodes, zep_topo_from_slurm_nodes, NULL};

const struct zep_topo_source *const zep_topo_sources[] = {&slurm, &kubernetes, &local, &probe, &synthetic, &preset, &yaml, &json, &slurm_yaml, &nodelist, &hwloc, &nccl, &topo_m, &fabric, &scontrol, &slurm_conf,
                                                          &gres_conf, &slurm_nodes, NULL};

/* --- choosing --- */

static void note(const struct zep_topo_want *w, const char *fmt, ...) ZEP_PRINTF(2, 3);

static void note(const struct zep_topo_want *w, const char *fmt, ...)
{
    char line[600];
    va_list ap;

    if (!w->note)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    w->note(w->note_arg, line);
}

/* "KIND" or "KIND:ARG" of the registry; NULL: no such kind. */
static const struct zep_topo_source *find_kind(const char *text, const char **arg_out)
{
    size_t n = strcspn(text, ":");

    for (int i = 0; zep_topo_sources[i]; i++)
        if (strlen(zep_topo_sources[i]->name) == n && !strncmp(zep_topo_sources[i]->name, text, n)) {
            *arg_out = text[n] ? text + n + 1 : NULL;
            return zep_topo_sources[i];
        }
    return NULL;
}

static int read_stdin(char **text_out, size_t *len_out, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char chunk[65536];
    ssize_t n;

    while ((n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0 && b.len < MAX_FILE)
        zep_buf_add(&b, chunk, (size_t)n);
    if (n < 0 || b.len >= MAX_FILE) {
        zep_buf_free(&b);
        return n < 0 ? zep_error_set(err, ZEP_EIO, "standard input: %s", strerror(errno)) : zep_error_set(err, ZEP_EINVAL, "standard input: more than 256 MiB");
    }
    *len_out = b.len;
    return zep_buf_steal(&b, text_out, err);
}

/* Texts that people have at hand and that say nothing of a topology, and what to give instead. NULL: none of them. */
static const char *near_miss(const char *text)
{
    static const struct {
        const char *first, *has, *what;
    } known[] = {
        {"NAME", "STATUS", "the table of kubectl get nodes: expected the output of kubectl get nodes -o json"},
        {"Name:", "\nLabels:", "what kubectl describe node prints: expected the output of kubectl get nodes -o json"},
        {"", "ClusterName=", "a slurm.conf without NodeName lines: expected them, topology.conf, or --from slurm"},
        {"", "PartitionName=", "a slurm.conf without NodeName lines: expected them, topology.conf, or --from slurm"},
        {"JobId=", "JobName=", "what scontrol show job prints, which does not say the topology: expected --from slurm:job=ID, or what scontrol show topology prints"},
        {"PARTITION", "NODELIST", "the table of sinfo: expected what scontrol show topology prints, or --from slurm"},
        {"", "= ROCm System Management Interface =", "what rocm-smi prints: expected --from local on that machine, its hwloc XML (lstopo FILE.xml), or RCCL's topology (NCCL_TOPO_DUMP_FILE)"},
        {"", "| NVIDIA-SMI", "the table of nvidia-smi: expected what nvidia-smi topo -m prints"},
        {"CA '", "Firmware version", "what ibstat prints: expected what ibnetdiscover prints"},
    };

    text += strspn(text, " \t\r\n");
    if (!*text)
        return "empty: expected a topology";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strncmp(text, known[i].first, strlen(known[i].first)) && strstr(text, known[i].has))
            return known[i].what;
    return NULL;
}

static const struct zep_topo_source *recognise(const char *path, const char *text, size_t len)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

    for (int i = 0; zep_topo_sources[i]; i++)
        if (zep_topo_sources[i]->recognise && zep_topo_sources[i]->recognise(text, len))
            return zep_topo_sources[i];
    if (near_miss(text))
        return NULL;
    if (!strncmp(base, "gres", 4) && strstr(base, ".conf"))
        return &gres_conf;
    if (strstr(base, ".conf")) /* nothing but comments in it: its reader says so */
        return &slurm_conf;
    return NULL;
}

/* A file that is named as YAML may be ours but for a mistake: then that is what to mend. */
static int not_recognised(const struct zep_source_request *q, struct zep_error *err)
{
    struct zep_yaml *doc = NULL;
    int rc = strstr(q->file, ".yaml") || strstr(q->file, ".yml") ? zep_yaml_load(q->file, q->text, q->len, &doc, err) : ZEP_OK;

    zep_yaml_free(doc);
    if (rc < 0)
        return rc;
    if (near_miss(q->text))
        return zep_error_set(err, ZEP_EINVAL, "%s: %s", q->file, near_miss(q->text));
    return zep_error_set(err, ZEP_EINVAL, "%s: the format was not recognised: expected topology.yaml, JSON of ours, Slurm's topology.conf, topology.yaml or gres.conf, scontrol show topology, kubectl get nodes, ibnetdiscover, "
                         "hwloc or NCCL XML, or nvidia-smi topo -m (KIND:FILE says which, see --list-sources)", q->file);
}

/* What editors of Windows put before a text. */
static size_t byte_order_mark(const char *text)
{
    return !strncmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

static int load_file(const struct zep_topo_source *kind, const char *path, struct zep_source_request *q, const struct zep_topo_want *w, struct zep_topo **topo_out, struct zep_error *err)
{
    char *text = NULL;
    int is_stdin = !strcmp(path, "-"), rc = is_stdin ? read_stdin(&text, &q->len, err) : zep_fs_read(path, MAX_FILE, &text, &q->len, err);

    if (rc < 0)
        return rc;
    q->file = is_stdin ? "standard input" : path;
    q->text = text + byte_order_mark(text);
    q->len -= byte_order_mark(text);
    if (strlen(q->text) != q->len) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s: a NUL character in it: expected text", q->file);
    } else if (!kind && !(kind = recognise(q->file, q->text, q->len))) {
        rc = not_recognised(q, err);
    } else {
        note(w, "%s: read as %s (%s)", q->file, kind->name, kind->what);
        rc = kind->load(q, topo_out, err);
    }
    free(text);
    return rc;
}

static int load_one(const char *from, const struct zep_topo_want *w, const struct zep_topo *base, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_source_request q = {.label_levels = w->label_levels, .base = base, .hosts = w->hosts};
    const struct zep_topo_source *kind = strchr(from, '/') == from || !strncmp(from, "./", 2) ? NULL : find_kind(from, &q.arg);

    if (kind && !kind->recognise)
        return kind->load(&q, topo_out, err);
    if (kind && kind->recognise && q.arg && *q.arg)
        return load_file(kind, q.arg, &q, w, topo_out, err);
    if (zep_fs_is_dir(from)) {
        char *xml = zep_fs_join(from, "hwloc.xml");
        int is_machine = xml && zep_fs_exists(xml);

        free(xml);
        if (is_machine) {
            note(w, "%s: read as a recorded machine", from);
            q.arg = from;
            return load_local(&q, topo_out, err);
        }
    }
    if (kind && !zep_fs_exists(from))
        return zep_error_set(err, ZEP_EINVAL, "--from %s: expected %s:FILE", kind->name, kind->name);
    if (!kind && !zep_fs_exists(from) && strcmp(from, "-")) {
        const char *names[32];
        int n = 0;

        for (int i = 0; zep_topo_sources[i] && n < 31; i++)
            names[n++] = zep_topo_sources[i]->name;
        names[n] = NULL;
        if (!strchr(from, '/') && !strchr(from, '.')) {
            char word[64];
            const char *near;

            snprintf(word, sizeof word, "%.*s", (int)(strcspn(from, ":") > 60 ? 60 : strcspn(from, ":")), from);
            near = zep_nearest(word, names);
            return zep_error_set(err, strchr(from, ':') ? ZEP_EINVAL : ZEP_ENOENT, "--from '%.200s': no such file, and no kind of source%s%s%s (--list-sources shows them)", from, near ? " (did you mean '" : "", near ? near : "",
                                 near ? "'?)" : "");
        }
    }
    return load_file(NULL, from, &q, w, topo_out, err);
}

/* --- what is here, where nothing is said --- */

static int best_here(const struct zep_topo_want *w, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_error slurm_err = {0};
    const char *job = getenv("SLURM_JOB_ID");
    int rc;

    if (job && *job) {
        note(w, "source: the Slurm allocation %s", job);
        return zep_topo_detect_slurm(job, NULL, topo_out, err);
    }
    if (zep_slurm_hints()) {
        if ((rc = zep_topo_detect_slurm(NULL, NULL, topo_out, &slurm_err)) == ZEP_OK) {
            note(w, "source: the Slurm cluster");
            return rc;
        }
        note(w, "Slurm is configured here, but: %s", slurm_err.text);
    }
    if (getenv("KUBERNETES_SERVICE_HOST")) {
        struct zep_source_request q = {.label_levels = w->label_levels};
        struct zep_error kube_err = {0};

        if ((rc = zep_topo_from_kubernetes(&q, topo_out, &kube_err)) == ZEP_OK) {
            note(w, "source: the Kubernetes cluster of this pod");
            return rc;
        }
        note(w, "this is a pod of Kubernetes, but: %s", kube_err.text);
    }
    note(w, "source: this machine");
    return zep_topo_detect_local(topo_out, err);
}

int zep_topo_from(const struct zep_topo_want *w, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_topo *topo = NULL, *next = NULL;
    int rc;

    if (!w->n_from)
        rc = best_here(w, &topo, err);
    else
        rc = load_one(w->from[0], w, NULL, &topo, err);
    for (int i = 1; i < w->n_from && rc == ZEP_OK; i++) {
        if ((rc = load_one(w->from[i], w, topo, &next, err)) == ZEP_OK)
            rc = zep_topo_merge(topo, next, err);
        zep_topo_free(next);
        next = NULL;
    }
    if (rc == ZEP_OK && !topo->n_node && topo->n_warning)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no node is known: expected one more --from that names them", topo->warning[0]);
    if (rc == ZEP_OK && (rc = zep_topo_validate(topo, err)) < 0)
        zep_error_prefix(err, "%s", topo->origin);
    if (rc == ZEP_OK)
        rc = zep_topo_assign_nics(topo, err);
    if (rc < 0)
        zep_topo_free(topo);
    else
        *topo_out = topo;
    return rc;
}
