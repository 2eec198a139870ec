/* Fuzz targets for what reads text from outside; one program, the target chosen at compile time: -DTARGET=topology and so on. What is taken must come back the same from what is written. */
#include "config.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/hostlist.h"
#include "common/job.h"
#include "common/yaml.h"
#include "launcher/k8s_manifest.h"
#include "launcher/k8s_spec.h"
#include "planner/plan.h"
#include "topology/detect.h"
#include "topology/probe.h"
#include "topology/source.h"
#include "topology/topo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

/* What was read and written again is read and written the same. */
static void topology(const char *text, size_t len)
{
    struct zep_topo *t, *u;
    struct zep_buf a = ZEP_BUF_INIT, b = ZEP_BUF_INIT;
    struct zep_error err;

    if (zep_topo_parse("f", text, len, &t, &err) < 0)
        return;
    must(zep_topo_to_yaml(t, &a, &err) == ZEP_OK);
    must(zep_topo_parse("f", a.data, a.len, &u, &err) == ZEP_OK && zep_topo_to_yaml(u, &b, &err) == ZEP_OK && !strcmp(a.data, b.data));
    zep_buf_free(&b);
    must(zep_topo_to_text(t, &b, &err) == ZEP_OK);
    zep_buf_free(&a);
    zep_buf_free(&b);
    zep_topo_free(t);
    zep_topo_free(u);
}

static void job(const char *text, size_t len)
{
    struct zep_job *j, *k;
    struct zep_buf a = ZEP_BUF_INIT, b = ZEP_BUF_INIT;
    struct zep_error err;

    if (zep_job_parse("f", text, len, &j, &err) < 0)
        return;
    must(zep_job_to_yaml(j, 0, &a, &err) == ZEP_OK);
    must(zep_job_parse("f", a.data, a.len, &k, &err) == ZEP_OK && zep_job_to_yaml(k, 0, &b, &err) == ZEP_OK && !strcmp(a.data, b.data));
    zep_buf_free(&a);
    zep_buf_free(&b);
    zep_job_free(j);
    zep_job_free(k);
}

static void plan(const char *text, size_t len)
{
    struct zep_plan *p;
    struct zep_buf a = ZEP_BUF_INIT;
    struct zep_error err;

    if (zep_plan_from_json("f", text, len, &p, &err) < 0)
        return;
    if (p->n_dev < 1000 && p->n_token < 100000) {
        must(zep_plan_to_json(p, &a, &err) == ZEP_OK);
        zep_buf_free(&a);
        must(zep_plan_to_text(p, &a, &err) == ZEP_OK);
        zep_buf_free(&a);
        must(zep_plan_to_svg(p, NULL, NULL, &a, &err) == ZEP_OK);
        zep_buf_free(&a);
    }
    zep_plan_free(p);
}

static void hostlist(const char *text, size_t len)
{
    struct zep_hostlist l = {0}, m = {0};
    char *folded, *copy = strndup(text, len);

    must(copy != NULL);
    if (zep_hostlist_expand(copy, &l, NULL) == ZEP_OK) {
        if (l.n > 0 && l.n < 1000 && zep_hostlist_fold(l.n, (const char *const *)l.name, &folded, NULL) == ZEP_OK) {
            if (!strpbrk(copy, " \t\n")) {
                must(zep_hostlist_expand(folded, &m, NULL) == ZEP_OK && m.n == l.n);
                for (int i = 0; i < l.n; i++)
                    must(!strcmp(l.name[i], m.name[i]));
            }
            free(folded);
        }
        zep_hostlist_free(&m);
        zep_hostlist_free(&l);
    }
    free(copy);
}

static void detect(const char *text, size_t len)
{
    struct zep_topo *t;
    struct zep_buf a = ZEP_BUF_INIT;
    struct zep_error err;
    char *json;

    if (zep_detect_from_json("f", text, len, &t, &err) < 0)
        return;
    if (zep_detect_to_json(t, &json, &err) == ZEP_OK)
        free(json);
    must(zep_topo_to_yaml(t, &a, &err) == ZEP_OK);
    zep_buf_free(&a);
    zep_topo_free(t);
}

typedef int (*load_fn)(const struct zep_source_request *r, struct zep_topo **topo_out, struct zep_error *err);

/* A source: what it takes is valid, gets NICs, is merged with itself, shown in every format, and comes back the same from YAML. */
static void source(load_fn load, const char *text, size_t len)
{
    struct zep_topo *base, *t = NULL, *u = NULL;
    struct zep_source_request q = {.file = "f", .text = strndup(text, len), .len = len};
    struct zep_buf a = ZEP_BUF_INIT, b = ZEP_BUF_INIT;
    struct zep_error err;

    must(q.text != NULL && zep_topo_preset("cpu-2s", 2, &base, &err) == ZEP_OK);
    q.base = base;
    q.len = strlen(q.text);
    if (load(&q, &t, &err) == ZEP_OK && t->n_node > 0 && t->n_node < 2000) {
        must(zep_topo_validate(t, &err) == ZEP_OK && zep_topo_assign_nics(t, &err) == ZEP_OK);
        must(zep_topo_to_yaml(t, &a, &err) == ZEP_OK);
        must(zep_topo_parse("f", a.data, a.len, &u, &err) == ZEP_OK && zep_topo_to_yaml(u, &b, &err) == ZEP_OK && !strcmp(a.data, b.data));
        zep_buf_free(&b);
        zep_topo_merge(t, u, &err); /* aliases may clash */
        must(zep_topo_to_text(u, &b, &err) == ZEP_OK && zep_topo_to_dot(u, &b, &err) == ZEP_OK && zep_topo_to_labels(u, &b, &err) <= 0 && zep_topo_to_hostfile(u, &b, &err) == ZEP_OK);
        zep_topo_to_svg(u, &b, &err);
        zep_topo_to_matrix(u, &b, &err);
        zep_topo_to_slurm_conf(u, &b, &err);
        zep_topo_to_slurm_yaml(u, &b, &err);
        zep_topo_to_nccl_xml(u, &b, &err);
        zep_buf_free(&b);
        must(zep_topo_to_json(u, &b, &err) == ZEP_OK);
    }
    zep_buf_free(&a);
    zep_buf_free(&b);
    zep_topo_free(t);
    zep_topo_free(u);
    zep_topo_free(base);
    free((char *)q.text);
}

#define SOURCE(name, load) static void name(const char *text, size_t len) { source(load, text, len); }
SOURCE(slurmconf, zep_topo_from_slurm_conf)
SOURCE(slurmyaml, zep_topo_from_slurm_yaml)
SOURCE(scontrol, zep_topo_from_scontrol)
SOURCE(gres, zep_topo_from_gres_conf)
SOURCE(slurmnodes, zep_topo_from_slurm_nodes)
SOURCE(nodelist, zep_topo_from_nodelist)
SOURCE(ibnet, zep_topo_from_ibnetdiscover)
SOURCE(topom, zep_topo_from_topo_m)
SOURCE(nccl, zep_topo_from_nccl_xml)

static void probe(const char *text, size_t len)
{
    struct zep_topo *t;
    struct zep_error err;

    if (zep_probe_collect(text, len, "f", &t, &err) == ZEP_OK)
        zep_topo_free(t);
}

/* Is the YAML the JSON? */
static int same(const json_t *j, const struct zep_yaml_node *n)
{
    const char *key;
    json_t *v;
    size_t i;

    if (json_is_object(j)) {
        if (json_object_size(j) && (n->type != ZEP_YAML_MAP || (size_t)n->n != json_object_size(j)))
            return 0;
        json_object_foreach((json_t *)j, key, v)
            if (!zep_yaml_get(n, key) || !same(v, zep_yaml_get(n, key)))
                return 0;
        return 1;
    }
    if (json_is_array(j)) {
        if (json_array_size(j) && (n->type != ZEP_YAML_SEQ || (size_t)n->n != json_array_size(j)))
            return 0;
        json_array_foreach((json_t *)j, i, v)
            if (!same(v, n->child[i]))
                return 0;
        return 1;
    }
    if (n->type != ZEP_YAML_SCALAR)
        return 0;
    return !json_is_string(j) || (!strcmp(n->scalar, json_string_value(j)) && !zep_yaml_is_null(n));
}

static void manifest(const struct zep_k8s_spec *spec)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_yaml *doc;
    struct zep_error err;
    json_t *j;

    must(zep_k8s_manifest(spec, "fuzz-20261202-101112-abcd", 2, &j, &err) == ZEP_OK);
    zep_yaml_emit_json(&b, j);
    must(!b.failed && zep_yaml_load("f", b.data, b.len, &doc, &err) == ZEP_OK && same(j, zep_yaml_root(doc)));
    zep_yaml_free(doc);
    zep_buf_free(&b);
    json_decref(j);
}

#define MAX_SETS 64

/* Lines KEY=VALUE on a job for Kubernetes: what is taken becomes a manifest whose YAML is what was meant. */
static void k8s(const char *text, size_t len)
{
    const char *sets[MAX_SETS + 5] = {"name=fuzz", "cluster.nodes=2", "cluster.devices=1", "k8s.image=r/z:1", "k8s.volumes=pvc:runs:/runs"};
    char *copy = strndup(text, len), *save = NULL;
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_k8s_spec *spec;
    struct zep_job *j;
    struct zep_error err;
    int n = 5;

    must(copy && setenv("ZEPPELIN_SITE", "", 1) == 0 && setenv("XDG_CONFIG_HOME", "/nowhere", 1) == 0);
    for (char *line = strtok_r(copy, "\n", &save); line && n < MAX_SETS + 5; line = strtok_r(NULL, "\n", &save))
        sets[n++] = line;
    if (zep_job_load(NULL, sets, n, &j, &err) == ZEP_OK) {
        if (j->cluster.nodes > 0 && j->cluster.devices > 0 && zep_k8s_spec_new(j, &m, &spec, &err) == ZEP_OK) {
            manifest(spec);
            zep_k8s_spec_free(spec);
        }
        zep_job_free(j);
    }
    zep_mistakes_free(&m);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)k8s;
    (void)slurmconf, (void)slurmyaml, (void)scontrol, (void)gres, (void)slurmnodes, (void)nodelist, (void)ibnet, (void)topom, (void)nccl, (void)probe;
    (void)topology, (void)job, (void)plan, (void)hostlist, (void)detect;
    TARGET((const char *)data, size);
    return 0;
}
