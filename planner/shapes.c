/* Known models and devices, and files that describe others. */
#include "config.h"
#include "planner/cost.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/units.h"
#include "common/yaml.h"
#include "planner/mix.h"

static const struct zep_model_desc models[] = {
    {"llama-3b", "OpenLLaMA 3B (openlm-research/open_llama_3b, config.json)", 26, 3200, 32, 32, 100, 8640, 32000, 0, 0, 0, 2},
    {"llama-7b", "Touvron et al., LLaMA, 2023, table 2 (meta-llama/Llama-2-7b, config.json)", 32, 4096, 32, 32, 128, 11008, 32000, 0, 0, 0, 2},
    {"llama-13b", "Touvron et al., LLaMA, 2023, table 2 (meta-llama/Llama-2-13b, config.json)", 40, 5120, 40, 40, 128, 13824, 32000, 0, 0, 0, 2},
    {"llama-30b", "Touvron et al., LLaMA, 2023, table 2 (huggyllama/llama-30b, config.json)", 60, 6656, 52, 52, 128, 17920, 32000, 0, 0, 0, 2},
    {"moe-8x550m", "our reconstruction: the paper names 8 x 550M only; a 550M dense model (16 layers of 1536) with 8 experts, two a token", 16, 1536, 16, 16, 96, 4096, 32000, 8, 2, 0, 2},
    {"llama3-8b", "Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3", 32, 4096, 32, 8, 128, 14336, 128256, 0, 0, 0, 2},
    {"llama3-70b", "Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3", 80, 8192, 64, 8, 128, 28672, 128256, 0, 0, 0, 2},
};
#define N_MODEL ((int)(sizeof models / sizeof models[0]))

#define FA2 "attention: about 0.6 and 0.55 of the peak, causal, head_dim 128 (Dao, FlashAttention-2, 2023); products: about 0.75 (large cuBLAS); launch: 5 us, half a tile of 128: assumed"
#define FA3 "attention: about 0.6 and 0.5 of the peak, causal, head_dim 128 (Shah et al., FlashAttention-3, 2024); products: about 0.7 (large cuBLAS); launch: 5 us, half a tile of 128: assumed"
static const struct zep_engine engines[] = {
    {"a100", "NVIDIA A100 80GB data sheet: 312 TFLOP/s bf16, 80 GB, 2039 GB/s, NVLink 300 GB/s a direction; " FA2, 312e12, 0.60, 0.55, 0.75, 64, 5e-6, 80e9, 2039e9, 300e9, 1, 0, 0},
    {"a800", "A100 with NVLink of 200 GB/s a direction (NVIDIA A800 data sheet); " FA2, 312e12, 0.60, 0.55, 0.75, 64, 5e-6, 80e9, 2039e9, 200e9, 1, 0, 0},
    {"h100", "NVIDIA H100 SXM data sheet: 989.5 TFLOP/s bf16, 80 GB, 3350 GB/s, NVLink 450 GB/s a direction; " FA3, 989.5e12, 0.60, 0.50, 0.70, 64, 5e-6, 80e9, 3350e9, 450e9, 1, 0, 0},
    {"h800", "H100 with NVLink of 200 GB/s a direction; " FA3, 989.5e12, 0.60, 0.50, 0.70, 64, 5e-6, 80e9, 3350e9, 200e9, 1, 0, 0},
    {"h200", "NVIDIA H200 SXM data sheet: 989.5 TFLOP/s bf16, 141 GB, 4800 GB/s, NVLink 450 GB/s a direction; " FA3, 989.5e12, 0.60, 0.50, 0.70, 64, 5e-6, 141e9, 4800e9, 450e9, 1, 0, 0},
    {"b200", "NVIDIA DGX B200 data sheet: 2250 TFLOP/s bf16 dense, 180 GB, 8000 GB/s, NVLink 900 GB/s a direction; shares of the peak as for H100: assumed", 2250e12, 0.60, 0.50, 0.70, 64, 5e-6, 180e9, 8000e9, 900e9, 1, 0, 0},
    {"cpu", "one Zen 4 core, fp32: peak 116 GFLOP/s, attention 0.82 and 0.84 of it, oneDNN products 0.92, 24 GB/s (measured here); memory: 4 GB a core, assumed", 116.5e9, 0.82, 0.84, 0.92, 32, 2e-6, 4e9, 24e9, 5e9, 0, 0, 4},
};
#define N_ENGINE ((int)(sizeof engines / sizeof engines[0]))

const struct zep_model_desc *zep_model_presets(int *n_out)
{
    *n_out = N_MODEL;
    return models;
}

const struct zep_engine *zep_engine_presets(int *n_out)
{
    *n_out = N_ENGINE;
    return engines;
}

static int unknown(const char *what, const char *name, const char *const *names, struct zep_error *err)
{
    struct zep_buf list = ZEP_BUF_INIT;
    const char *near = zep_nearest(name, names);

    for (int i = 0; names[i]; i++)
        zep_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    if (near)
        zep_error_set(err, ZEP_EINVAL, "unknown %s '%.60s' (did you mean '%s'?): expected one of %s, or a file", what, name, near, list.data ? list.data : "");
    else
        zep_error_set(err, ZEP_EINVAL, "unknown %s '%.60s': expected one of %s, or a file", what, name, list.data ? list.data : "");
    zep_buf_free(&list);
    return ZEP_EINVAL;
}

/* --- files --- */

struct field {
    const char *key;
    enum { FIELD_INT, FIELD_REAL, FIELD_BYTES, FIELD_RATE, FIELD_TIME, FIELD_BOOL } type;
    size_t offset;
    int required;
    double min, max;
};

static int bad(const char *file, const struct zep_yaml_node *n, const char *fmt, const char *a, const char *b, struct zep_error *err)
{
    zep_error_set(err, ZEP_EINVAL, fmt, a, b);
    return zep_error_prefix(err, "%s:%d", file, n->line);
}

static int read_field(const char *file, const struct field *f, const struct zep_yaml_node *v, char *out, struct zep_error *err)
{
    const char *s = v->scalar ? v->scalar : "";
    struct zep_error why;
    int64_t i = 0;
    double x = 0;
    int rc = ZEP_OK;

    if (f->type == FIELD_INT)
        rc = zep_parse_int(s, (int64_t)f->min, (int64_t)f->max, &i, &why);
    else if (f->type == FIELD_BYTES)
        rc = zep_parse_size(s, &i, &why);
    else if (f->type == FIELD_RATE)
        rc = zep_parse_bandwidth(s, &x, &why);
    else if (f->type == FIELD_TIME)
        rc = zep_parse_time(s, &x, &why);
    else if (f->type == FIELD_BOOL && (!strcmp(s, "true") || !strcmp(s, "false")))
        i = !strcmp(s, "true");
    else if (f->type == FIELD_BOOL)
        return bad(file, v, "%s: '%.40s': expected true or false", f->key, s, err);
    else
        rc = zep_parse_double(s, f->min, f->max, &x, &why);
    if (rc < 0)
        return bad(file, v, "%s: %s", f->key, why.text, err);
    if (f->type == FIELD_INT || f->type == FIELD_BOOL) {
        memcpy(out + f->offset, &(int){(int)i}, sizeof(int));
    } else {
        x = f->type == FIELD_BYTES ? (double)i : x;
        memcpy(out + f->offset, &x, sizeof x);
    }
    return ZEP_OK;
}

/* A flat map: format, name, source, and fields. */
static int read_flat(const char *file, const char *format, const struct field *field, int n_field, char *name, size_t name_len, char *source, size_t source_len, void *out, struct zep_error *err)
{
    char *text = NULL, seen[32] = {0};
    const char *keys[40] = {"format", "name", "source"};
    struct zep_yaml *doc = NULL;
    const struct zep_yaml_node *root;
    size_t len;
    int rc;

    for (int i = 0; i < n_field; i++)
        keys[3 + i] = field[i].key;
    if ((rc = zep_fs_read(file, 1 << 20, &text, &len, err)) < 0 || (rc = zep_yaml_load(file, text, len, &doc, err)) < 0)
        goto out;
    root = zep_yaml_root(doc);
    if (root->type != ZEP_YAML_MAP) {
        rc = bad(file, root, "expected a map of %s%s", "keys and values", "", err);
        goto out;
    }
    for (int i = 0; i < root->n && rc == ZEP_OK; i++) {
        const struct zep_yaml_node *v = root->child[i];
        int k = 0;

        if (v->type != ZEP_YAML_SCALAR) {
            rc = bad(file, v, "%s: expected a value%s", root->keys[i], "", err);
        } else if (!strcmp(root->keys[i], "format")) {
            if ((rc = zep_format_check(v->scalar, format, 1, 0, NULL, err)) < 0)
                zep_error_prefix(err, "%s:%d", file, v->line);
        } else if (!strcmp(root->keys[i], "name")) {
            snprintf(name, name_len, "%s", v->scalar);
        } else if (!strcmp(root->keys[i], "source")) {
            snprintf(source, source_len, "%s", v->scalar);
        } else {
            while (k < n_field && strcmp(field[k].key, root->keys[i]))
                k++;
            if (k == n_field) {
                const char *near = zep_nearest(root->keys[i], keys);

                rc = near ? bad(file, v, "unknown key '%.40s' (did you mean '%s'?)", root->keys[i], near, err) : bad(file, v, "unknown key '%.40s'%s", root->keys[i], "", err);
            } else if ((rc = read_field(file, &field[k], v, out, err)) == ZEP_OK) {
                seen[k] = 1;
            }
        }
    }
    for (int k = 0; k < n_field && rc == ZEP_OK; k++)
        if (field[k].required && !seen[k])
            rc = zep_error_set(err, ZEP_EINVAL, "%s: '%s' is missing: zeppelin-sim(1), FILES, names what is expected", file, field[k].key);
out:
    zep_yaml_free(doc);
    free(text);
    return rc;
}

#define INT(k, member, req, lo, hi) {k, FIELD_INT, offsetof(struct zep_model_desc, member), req, lo, hi}
static const struct field model_fields[] = {
    INT("layers", n_layer, 1, 1, 10000), INT("hidden", hidden, 1, 1, 1 << 20), INT("heads", n_head, 1, 1, 4096), INT("kv_heads", n_head_kv, 0, 1, 4096), INT("head_dim", head_dim, 0, 1, 4096), INT("ffn", ffn, 1, 1, 1 << 22),
    INT("vocab", vocab, 1, 1, 1 << 28), INT("experts", n_expert, 0, 0, 4096), INT("experts_per_token", n_active, 0, 0, 4096), {"tied", FIELD_BOOL, offsetof(struct zep_model_desc, tied), 0, 0, 0}, INT("type_bytes", type_bytes, 0, 1, 8),
};
#define REAL(k, member, req, lo, hi) {k, FIELD_REAL, offsetof(struct zep_engine, member), req, lo, hi}
static const struct field engine_fields[] = {
    REAL("flops", flops, 1, 1, 1e20), REAL("attention_forward", attn_fwd, 1, 1e-6, 10), REAL("attention_backward", attn_bwd, 1, 1e-6, 10), REAL("linear", linear, 1, 1e-6, 10), {"tile", FIELD_INT, offsetof(struct zep_engine, tile), 0, 0, 65536},
    {"launch", FIELD_TIME, offsetof(struct zep_engine, launch_s), 0, 0, 0}, {"memory", FIELD_BYTES, offsetof(struct zep_engine, mem_bytes), 1, 0, 0}, {"memory_bandwidth", FIELD_RATE, offsetof(struct zep_engine, mem_bw), 1, 0, 0},
    {"port_bandwidth", FIELD_RATE, offsetof(struct zep_engine, port_bw), 0, 0, 0}, {"overlap_gradients", FIELD_BOOL, offsetof(struct zep_engine, overlap_grad), 0, 0, 0}, {"calibrated", FIELD_BOOL, offsetof(struct zep_engine, calibrated), 0, 0, 0}, {"type_bytes", FIELD_INT, offsetof(struct zep_engine, type_bytes), 0, 1, 8},
};

static int is_file(const char *name)
{
    return strchr(name, '/') || strchr(name, '.');
}

int zep_model_load(const char *name, struct zep_model_desc *model_out, struct zep_error *err)
{
    const char *names[N_MODEL + 1] = {NULL};
    struct zep_model_desc m = {.type_bytes = 2};
    int rc;

    for (int i = 0; i < N_MODEL; i++) {
        names[i] = models[i].name;
        if (!strcasecmp(models[i].name, name)) {
            *model_out = models[i];
            return ZEP_OK;
        }
    }
    if (!is_file(name))
        return unknown("model", name, names, err);
    snprintf(m.name, sizeof m.name, "%.47s", name);
    snprintf(m.source, sizeof m.source, "%.199s", name);
    if ((rc = read_flat(name, "zeppelin-model", model_fields, sizeof model_fields / sizeof model_fields[0], m.name, sizeof m.name, m.source, sizeof m.source, &m, err)) < 0)
        return rc;
    if (!m.n_head_kv)
        m.n_head_kv = m.n_head;
    if (!m.head_dim) {
        if (m.hidden % m.n_head)
            return zep_error_set(err, ZEP_EINVAL, "%s: heads: %d do not divide hidden %d: expected a divisor, or head_dim", name, m.n_head, m.hidden);
        m.head_dim = m.hidden / m.n_head;
    }
    if (m.n_expert && !m.n_active)
        return zep_error_set(err, ZEP_EINVAL, "%s: 'experts_per_token' is missing: there are %d experts", name, m.n_expert);
    *model_out = m;
    return ZEP_OK;
}

int zep_engine_load(const char *name, struct zep_engine *engine_out, struct zep_error *err)
{
    const char *names[N_ENGINE + 1] = {NULL};
    struct zep_engine e = {.tile = 64};
    int rc;

    for (int i = 0; i < N_ENGINE; i++) {
        names[i] = engines[i].name;
        if (!strcasecmp(engines[i].name, name)) {
            *engine_out = engines[i];
            return ZEP_OK;
        }
    }
    if (!is_file(name))
        return unknown("device", name, names, err);
    snprintf(e.name, sizeof e.name, "%.47s", name);
    snprintf(e.source, sizeof e.source, "%.399s", name);
    if ((rc = read_flat(name, "zeppelin-device", engine_fields, sizeof engine_fields / sizeof engine_fields[0], e.name, sizeof e.name, e.source, sizeof e.source, &e, err)) < 0)
        return rc;
    *engine_out = e;
    return ZEP_OK;
}

/* "NVIDIA A800 80GB": the preset whose name is a word of it. Boards that are slower than the preset's are none. */
static const struct zep_engine *engine_of_model(const char *model)
{
    for (int i = 0; i < N_ENGINE; i++) {
        size_t n = strlen(engines[i].name);

        for (const char *p = model; *p; p++)
            if (!strncasecmp(p, engines[i].name, n) && (p == model || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[n]))
                return strcasestr(model, "PCIe") || strcasestr(model, "NVL") ? NULL : &engines[i];
    }
    return NULL;
}

int zep_engine_of_device(const struct zep_node *node, const struct zep_device *dev, const struct zep_engine **engine_out, struct zep_error *err)
{
    const struct zep_engine *e = !dev || dev->kind == ZEP_DEV_CPU ? &engines[N_ENGINE - 1] : dev->model && !dev->mig ? engine_of_model(dev->model) : NULL;

    if (!e)
        return zep_error_set(err, ZEP_EINVAL, "node '%s': how fast its %s%s is, is not known: --device names a kind of device or a file", node->id, dev->model ? dev->model : "device", dev->model ? "" : " (of no known model)");
    *engine_out = e;
    return ZEP_OK;
}

int zep_engine_of_topo(const struct zep_topo *topo, struct zep_engine *engine_out, struct zep_error *err)
{
    const struct zep_engine *e;
    double mem[N_ENGINE] = {0};
    int n[N_ENGINE] = {0}, first[N_ENGINE] = {0}, n_seen = 0, best = -1, rc;

    for (int i = 0; i < topo->n_node; i++)
        for (int d = 0; d < topo->node[i].n_device; d++) {
            const struct zep_device *dev = &topo->node[i].device[d];
            int k;

            if ((rc = zep_engine_of_device(&topo->node[i], dev, &e, err)) < 0)
                return rc;
            k = (int)(e - engines);
            if (!n[k]++)
                first[k] = n_seen++;
            if (dev->mem_bytes > 0 && (mem[k] <= 0 || (double)dev->mem_bytes < mem[k]))
                mem[k] = (double)dev->mem_bytes;
        }
    for (int k = 0; k < N_ENGINE; k++)
        if (n[k] && (best < 0 || n[k] > n[best] || (n[k] == n[best] && first[k] < first[best])))
            best = k;
    best = best < 0 ? N_ENGINE - 1 : best;
    *engine_out = engines[best];
    if (mem[best] > 0 && mem[best] < engine_out->mem_bytes) /* a board with less than the preset's */
        engine_out->mem_bytes = mem[best];
    return ZEP_OK;
}
