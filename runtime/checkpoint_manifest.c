#include "config.h"
#include "runtime/checkpoint_internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/digest.h"
#include "common/format.h"
#include "common/fs.h"
#include "planner/workload.h"

/* 64-bit digests travel as hexadecimal text: JSON numbers may lose bits elsewhere. */
static json_t *hex(uint64_t x)
{
    char text[24];

    snprintf(text, sizeof text, "%016" PRIx64, x);
    return json_string(text);
}

static uint64_t unhex(const json_t *j)
{
    return json_is_string(j) ? strtoull(json_string_value(j), NULL, 16) : 0;
}

/* The last member is the digest of the whole text with its own 16 digits as zeros. */
static const char seal_key[] = "\"manifest_xxh64\": \"";
#define SEAL_DIGITS 16

static char *find_seal(char *text)
{
    char *at = NULL;

    for (char *p = text; (p = strstr(p, seal_key));)
        at = p += sizeof seal_key - 1;
    return at && strlen(at) >= SEAL_DIGITS ? at : NULL;
}

static void seal(char *text)
{
    char digits[SEAL_DIGITS + 1];
    char *at = find_seal(text);

    snprintf(digits, sizeof digits, "%016" PRIx64, zep_digest(text, strlen(text), 0));
    memcpy(at, digits, SEAL_DIGITS);
}

static int check_seal(const char *name, const char *text, size_t len, int may_lack, struct zep_error *err)
{
    char *copy = zep_calloc(len + 1, 1), *at;
    char digits[SEAL_DIGITS], want[SEAL_DIGITS + 1];
    int holds = may_lack;

    if (!copy)
        return zep_error_nomem(err, "manifest");
    memcpy(copy, text, len);
    if ((at = find_seal(copy))) {
        memcpy(digits, at, SEAL_DIGITS);
        memset(at, '0', SEAL_DIGITS);
        snprintf(want, sizeof want, "%016" PRIx64, zep_digest(copy, len, 0));
        holds = memcmp(digits, want, SEAL_DIGITS) == 0;
    }
    free(copy);
    return holds ? ZEP_OK : zep_error_set(err, ZEP_EINVAL, "%s: the checksum of MANIFEST does not hold", name);
}

static const struct {
    const char *name;
    size_t offset;
} shape_keys[] = {
    {"vocab", offsetof(struct zep_model_shape, vocab)},       {"hidden", offsetof(struct zep_model_shape, hidden)},
    {"layers", offsetof(struct zep_model_shape, n_layer)},    {"heads", offsetof(struct zep_model_shape, n_head)},
    {"kv_heads", offsetof(struct zep_model_shape, n_head_kv)}, {"head_dim", offsetof(struct zep_model_shape, head_dim)},
    {"ffn", offsetof(struct zep_model_shape, ffn)},           {"tied", offsetof(struct zep_model_shape, tied)},
};
#define N_SHAPE_KEY (sizeof shape_keys / sizeof *shape_keys)

static const struct {
    const char *name;
    size_t offset;
    int is_float;
} real_keys[] = {
    {"norm_eps", offsetof(struct zep_model_shape, norm_eps), 1},
    {"rope_theta", offsetof(struct zep_model_shape, rope_theta), 0},
};
#define N_REAL_KEY (sizeof real_keys / sizeof *real_keys)

static double real_value(const struct zep_model_shape *s, size_t i)
{
    const void *p = (const char *)s + real_keys[i].offset;

    return real_keys[i].is_float ? (double)*(const float *)p : *(const double *)p;
}

static int shape_value(const struct zep_model_shape *s, size_t i)
{
    return *(const int *)((const char *)s + shape_keys[i].offset);
}

char *zep_manifest_write(const struct zep_manifest *m, const struct zep_model *model)
{
    json_t *root = json_object(), *shape = json_object(), *shards = json_array(), *tensors = json_array();
    char *text;

    for (size_t i = 0; i < N_SHAPE_KEY; i++)
        json_object_set_new(shape, shape_keys[i].name, json_integer(shape_value(&model->shape, i)));
    for (size_t i = 0; i < N_REAL_KEY; i++)
        json_object_set_new(shape, real_keys[i].name, json_real(real_value(&model->shape, i)));
    for (int i = 0; i < model->n_tensor; i++) {
        const struct zep_tensor *t = &model->tensor[i];

        json_array_append_new(tensors, json_pack("{s:s, s:I, s:[I, I]}", "name", t->name, "offset", (json_int_t)t->offset, "shape", (json_int_t)t->rows,
                                                 (json_int_t)t->cols));
    }
    for (int i = 0; i < m->n_shard; i++) {
        const struct zep_shard *s = &m->shard[i];
        char file[32];

        snprintf(file, sizeof file, "shard-%d", i);
        json_array_append_new(shards, json_pack("{s:s, s:I, s:I, s:I, s:o}", "file", file, "first", (json_int_t)s->first, "last", (json_int_t)s->last, "bytes",
                                                (json_int_t)s->bytes, "xxh64", hex(s->digest)));
    }
    json_object_set_new(root, "format", json_string(ZEP_CKPT_FORMAT "/1.2"));
    json_object_set_new(root, "step", json_integer(m->info.step));
    json_object_set_new(root, "seed", json_integer((json_int_t)m->info.seed));
    json_object_set_new(root, "tokens", json_integer(m->info.tokens));
    json_object_set_new(root, "data", hex(m->info.data_digest));
    json_object_set_new(root, "data_tokens", hex(m->info.token_digest));
    json_object_set_new(root, "documents", hex(m->info.document_digest));
    json_object_set_new(root, "context", json_integer(m->info.context));
    if (m->info.window)
        json_object_set_new(root, "window", json_integer(m->info.window));
    if (m->info.window > 1)
        json_object_set_new(root, "compose", json_string(zep_compose_names[m->info.compose]));
    json_object_set_new(root, "optimizer", json_string(m->n_part == 3 ? "adamw" : "sgd"));
    json_object_set_new(root, "dtype", json_string(ZEP_CKPT_DTYPE));
    json_object_set_new(root, "model", shape);
    json_object_set_new(root, "tensors", tensors);
    json_object_set_new(root, "shards", shards);
    json_object_set_new(root, "manifest_xxh64", hex(0));
    text = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(root);
    if (text)
        seal(text);
    return text;
}

static int read_shards(const char *name, const json_t *root, int64_t n_weight, struct zep_manifest *m, struct zep_error *err)
{
    const json_t *shards = json_object_get(root, "shards"), *j;
    int64_t at = 0;
    size_t i;

    m->n_shard = (int)json_array_size(shards);
    m->shard = zep_calloc((size_t)m->n_shard + 1, sizeof *m->shard);
    if (!m->shard)
        return zep_error_nomem(err, "manifest");
    json_array_foreach(shards, i, j) {
        struct zep_shard *s = &m->shard[i];

        s->first = json_integer_value(json_object_get(j, "first"));
        s->last = json_integer_value(json_object_get(j, "last"));
        s->bytes = json_integer_value(json_object_get(j, "bytes"));
        s->digest = unhex(json_object_get(j, "xxh64"));
        if (s->first != at || s->last < s->first || s->last > n_weight || s->bytes != ZEP_SHARD_HEADER + (s->last - s->first) * m->n_part * (int64_t)sizeof(float))
            return zep_error_set(err, ZEP_EINVAL, "%s: shard %zu does not join the one before it", name, i);
        at = s->last;
    }
    if (at != n_weight)
        return zep_error_set(err, ZEP_EINVAL, "%s: shards end at weight %" PRId64 ", expected %" PRId64, name, at, n_weight);
    return ZEP_OK;
}

static int compare_shape(const char *name, const json_t *made, const struct zep_model_shape *shape, struct zep_error *err)
{
    for (size_t i = 0; i < N_SHAPE_KEY; i++) {
        int have = (int)json_integer_value(json_object_get(made, shape_keys[i].name)), want = shape_value(shape, i);

        if (have != want)
            return zep_error_set(err, ZEP_EREFUSED, "%s: was made with model.%s %d, the job says %d", name, shape_keys[i].name, have, want);
    }
    for (size_t i = 0; i < N_REAL_KEY; i++) { /* not in version 1.0 */
        const json_t *j = json_object_get(made, real_keys[i].name);
        double have = json_number_value(j), want = real_value(shape, i);

        if (j && have != want)
            return zep_error_set(err, ZEP_EREFUSED, "%s: was made with model.%s %.7g, the job says %.7g", name, real_keys[i].name, have, want);
    }
    return ZEP_OK;
}

int zep_manifest_read(const char *name, const char *text, size_t len, const struct zep_model *model, struct zep_manifest *out, struct zep_error *err)
{
    struct zep_manifest m = {0};
    json_error_t je;
    json_t *root = json_loadb(text, len, 0, &je);
    const char *format, *optimizer, *dtype, *compose;
    int rc;

    if (!root)
        return zep_error_set(err, ZEP_EINVAL, "%s:%d: %s", name, je.line, je.text);
    format = json_string_value(json_object_get(root, "format"));
    if ((rc = zep_format_check(format ? format : "", ZEP_CKPT_FORMAT, 1, 2, NULL, err)) < 0) {
        zep_error_prefix(err, "%s", name);
        goto out;
    }
    if ((rc = check_seal(name, text, len, strcmp(format, ZEP_CKPT_FORMAT "/1.0") == 0, err)) < 0) /* 1.0 had none */
        goto out;
    dtype = json_string_value(json_object_get(root, "dtype"));
    if (!dtype || strcmp(dtype, ZEP_CKPT_DTYPE) != 0) {
        rc = zep_error_set(err, dtype ? ZEP_EREFUSED : ZEP_EINVAL, "%s: dtype '%s': expected " ZEP_CKPT_DTYPE, name, dtype ? dtype : "");
        goto out;
    }
    m.info.step = json_integer_value(json_object_get(root, "step"));
    m.info.seed = (uint64_t)json_integer_value(json_object_get(root, "seed"));
    m.info.tokens = json_integer_value(json_object_get(root, "tokens"));
    m.info.data_digest = unhex(json_object_get(root, "data"));
    m.info.token_digest = unhex(json_object_get(root, "data_tokens"));
    m.info.document_digest = unhex(json_object_get(root, "documents"));
    m.info.context = json_integer_value(json_object_get(root, "context"));
    m.info.window = json_integer_value(json_object_get(root, "window"));
    compose = json_string_value(json_object_get(root, "compose"));
    m.info.compose = compose ? zep_compose_find(compose) : ZEP_COMPOSE_BALANCE;
    optimizer = json_string_value(json_object_get(root, "optimizer"));
    m.n_part = optimizer && strcmp(optimizer, "sgd") == 0 ? 1 : 3;
    if ((rc = compare_shape(name, json_object_get(root, "model"), &model->shape, err)) < 0)
        goto out;
    rc = read_shards(name, root, model->n_weight, &m, err);
out:
    json_decref(root);
    if (rc < 0)
        zep_manifest_free(&m);
    else
        *out = m;
    return rc;
}

void zep_manifest_free(struct zep_manifest *m)
{
    free(m->shard);
    m->shard = NULL;
}

void zep_shard_header(char header[ZEP_SHARD_HEADER], int64_t first, int64_t last, int n_part)
{
    char text[ZEP_SHARD_HEADER + 1];
    int n = snprintf(text, sizeof text, "zeppelin-shard/1.0 %" PRId64 " %" PRId64 " %d", first, last, n_part);

    memset(header, ' ', ZEP_SHARD_HEADER);
    memcpy(header, text, (size_t)(n < ZEP_SHARD_HEADER ? n : ZEP_SHARD_HEADER - 1));
    header[ZEP_SHARD_HEADER - 1] = '\n';
}

int64_t zep_ckpt_step_of(const char *name)
{
    char *end;
    int64_t step;

    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    step = strtoll(name + 5, &end, 10);
    return *end ? -1 : step;
}

int zep_ckpt_list(const char *dir, char ***names_out, int *n_out, struct zep_error *err)
{
    char **names;
    int n, kept = 0, rc;

    if ((rc = zep_fs_list(dir, &names, &n, err)) < 0)
        return rc;
    for (int i = 0; i < n; i++) {
        if (zep_ckpt_step_of(names[i]) >= 0)
            names[kept++] = names[i];
        else
            free(names[i]);
    }
    for (int i = 1; i < kept; i++) { /* few names: insertion sort, newest first */
        char *name = names[i];
        int j = i;

        for (; j > 0 && zep_ckpt_step_of(names[j - 1]) < zep_ckpt_step_of(name); j--)
            names[j] = names[j - 1];
        names[j] = name;
    }
    *names_out = names;
    *n_out = kept;
    return ZEP_OK;
}
