#include "config.h"
#include "planner/workload.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/rng.h"
#include "common/units.h"
#include "common/yaml.h"
#include "planner/plan_internal.h"

void zep_workload_free(struct zep_workload *w)
{
    if (!w)
        return;
    free(w->len);
    free(w);
}

static int add_len(struct zep_workload *w, int *cap, int64_t len, struct zep_error *err)
{
    if (w->n == *cap) {
        int want = *cap ? 2 * *cap : 256;
        int64_t *p = want > *cap ? zep_reallocarray(w->len, (size_t)want, sizeof *p) : NULL;

        if (!p)
            return zep_error_nomem(err, "workload");
        w->len = p;
        *cap = want;
    }
    if (len > ZEP_PLAN_MAX_TOKENS - w->n_token)
        return zep_error_set(err, ZEP_EINVAL, "'%lld': the workload is longer than %lld tokens", (long long)len, (long long)ZEP_PLAN_MAX_TOKENS);
    w->len[w->n++] = len;
    w->n_token += len;
    return ZEP_OK;
}

/* Lengths of one line, which is changed. */
static int parse_line(struct zep_workload *w, int *cap, char *line, struct zep_error *err)
{
    char *save = NULL;
    int rc;

    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r,", &save); word; word = strtok_r(NULL, " \t\r,", &save)) {
        int64_t len;

        if (zep_parse_count(word, &len, NULL) < 0 || len < 1 || len > ZEP_PLAN_MAX_TOKENS)
            return zep_error_set(err, ZEP_EINVAL, "length '%.60s': expected a number of tokens, 1 to %lld", word, (long long)ZEP_PLAN_MAX_TOKENS);
        if ((rc = add_len(w, cap, len, err)) < 0)
            return rc;
    }
    return ZEP_OK;
}

int zep_workload_load(const char *path, struct zep_workload **out, struct zep_error *err)
{
    struct zep_workload *w = NULL;
    char *text = NULL, *p;
    size_t len;
    int cap = 0, line = 0, rc;

    if ((rc = zep_fs_read(path, 0, &text, &len, err)) < 0)
        return rc;
    if (strlen(text) != len) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s:1: a file with NUL bytes: expected text with one length a line", path);
        goto out;
    }
    if (!(w = zep_calloc(1, sizeof *w))) {
        rc = zep_error_nomem(err, "workload");
        goto out;
    }
    for (p = text; *p;) {
        size_t n = strcspn(p, "\n");
        char *next = p[n] ? p + n + 1 : p + n;

        p[n] = '\0';
        line++;
        if ((rc = parse_line(w, &cap, p, err)) < 0) {
            zep_error_prefix(err, "%s:%d", path, line);
            goto out;
        }
        p = next;
    }
    if (!w->n) {
        rc = zep_error_set(err, ZEP_EINVAL, "%s: no lengths in it: expected one length in tokens a line", path);
        goto out;
    }
    *out = w;
    w = NULL;
out:
    zep_workload_free(w);
    free(text);
    return rc;
}

/* --- named distributions --- */

struct draw { /* what has been drawn so far */
    int64_t n_token, giant_tok, max;
};

struct bin {
    double share;
    int64_t lo, hi;
};

static const struct bin web[] = {{.1856, 32, 200}, {.2819, 201, 500}, {.2464, 501, 1024}, {.1565, 1025, 2048}, {.0734, 2049, 4096}, {.0305, 4097, 8192}, {.0129, 8193, 16384},
                                 {.0085, 16385, 32768}, {.0014, 32769, 65536}, {.0017, 65537, 131072}, {.0014, 131073, 196608}, {0, 0, 0}};
static const struct bin prolong[] = {{.149, 501, 1024}, {.384, 1025, 2048}, {.270, 2049, 4096}, {.144, 4097, 8192}, {.043, 8193, 16384}, {.0078, 16385, 32768},
                                     {.0015, 32769, 65536}, {.0004, 65537, 131072}, {.0002, 131073, 340149}, {0, 0, 0}};
static const struct bin wlb[] = {{.079, 32, 511}, {.080, 512, 1024}, {.158, 1025, 2048}, {.320, 2049, 4096}, {.339, 4097, 8192}, {.010, 8193, 16384}, {.0045, 16385, 32768},
                                 {.0035, 32769, 65536}, {.0053, 65537, 124913}, {0, 0, 0}};

static int64_t log_normal(struct zep_rng *rng, double median, double sigma, int64_t lo, int64_t hi)
{
    double x = median * zep_det_exp(sigma * zep_rng_normal(rng));

    return x < (double)lo ? lo : x > (double)hi ? hi : (int64_t)x;
}

static int64_t from_bins(struct zep_rng *rng, const struct bin *bin)
{
    double total = 0, u;
    int i = 0;

    for (int k = 0; bin[k].hi; k++)
        total += bin[k].share;
    u = zep_rng_double(rng) * total;
    while (bin[i + 1].hi && u >= bin[i].share)
        u -= bin[i++].share;
    u = zep_rng_double(rng);
    return (int64_t)((double)bin[i].lo * zep_det_exp(u * zep_det_log((double)(bin[i].hi + 1) / (double)bin[i].lo)));
}

static int64_t draw_arxiv(struct zep_rng *rng, struct draw *s)
{
    return log_normal(rng, 8192, 0.8, 256, 65536);
}

static int64_t draw_github(struct zep_rng *rng, struct draw *s)
{
    return log_normal(rng, 1024, 1.6, 64, 262144);
}

/* 60 % of the tokens in documents of exactly 64k (or the longest allowed), counted as it goes. */
static int64_t draw_prolong64k(struct zep_rng *rng, struct draw *s)
{
    int64_t giant = s->max < 65536 ? s->max : 65536;

    if (s->giant_tok * 10 > s->n_token * 6 && giant > 1)
        return log_normal(rng, 1024, 0.9, giant > 32 ? 32 : 1, giant - 1);
    s->giant_tok += giant;
    return giant;
}

static int64_t draw_web(struct zep_rng *rng, struct draw *s)
{
    return from_bins(rng, web);
}

static int64_t draw_prolong(struct zep_rng *rng, struct draw *s)
{
    return from_bins(rng, prolong);
}

static int64_t draw_wlb(struct zep_rng *rng, struct draw *s)
{
    return from_bins(rng, wlb);
}

/* Log-normal of mean 1k (99.89 %) and of mean 37k: the median is the mean divided by exp(sigma^2 / 2). */
static int64_t draw_sft(struct zep_rng *rng, struct draw *s)
{
    if (zep_rng_double(rng) < 0.9989)
        return log_normal(rng, 1024 / zep_det_exp(0.405), 0.9, 8, 16384);
    return log_normal(rng, 37888 / zep_det_exp(0.18), 0.6, 1024, 300000);
}

static const struct dist {
    const char *name;
    int64_t (*draw)(struct zep_rng *rng, struct draw *s);
} dists[] = {{"arxiv", draw_arxiv}, {"github", draw_github}, {"prolong64k", draw_prolong64k}, {"web", draw_web}, {"prolong", draw_prolong}, {"wlb", draw_wlb}, {"sft", draw_sft}};

#define N_DIST (sizeof dists / sizeof dists[0])
#define DIST_NAMES "arxiv, github, prolong64k, web, prolong, wlb, sft"

struct dist_args {
    const struct dist *dist;
    int64_t tokens, max;
    uint64_t seed;
};

static int parse_name(const char *name, struct dist_args *a, struct zep_error *err)
{
    const char *names[N_DIST + 1] = {NULL}, *near;

    for (size_t i = 0; i < N_DIST; i++) {
        names[i] = dists[i].name;
        if (!strcmp(dists[i].name, name))
            a->dist = &dists[i];
    }
    if (a->dist)
        return ZEP_OK;
    if ((near = zep_nearest(name, names)))
        return zep_error_set(err, ZEP_EINVAL, "unknown distribution '%s' (did you mean '%s'?): expected one of " DIST_NAMES, name, near);
    return zep_error_set(err, ZEP_EINVAL, "unknown distribution '%s': expected one of " DIST_NAMES, name);
}

static int parse_pair(char *pair, struct dist_args *a, struct zep_error *err)
{
    char *value = strchr(pair, '=');
    int64_t n;
    int rc;

    if (value)
        *value++ = '\0';
    if (!value || (strcmp(pair, "tokens") && strcmp(pair, "max") && strcmp(pair, "seed")))
        return zep_error_set(err, ZEP_EINVAL, "'%s': expected tokens=N, seed=N or max=N", pair);
    rc = strcmp(pair, "seed") ? zep_parse_count(value, &n, err) : zep_parse_int(value, 0, INT64_MAX, &n, err);
    if (rc < 0)
        return zep_error_prefix(err, "%s", pair);
    if (!strcmp(pair, "seed")) {
        a->seed = (uint64_t)n;
        return ZEP_OK;
    }
    if (n < 1 || n > ZEP_PLAN_MAX_TOKENS)
        return zep_error_set(err, ZEP_EINVAL, "%s '%s': expected 1 to %lld", pair, value, (long long)ZEP_PLAN_MAX_TOKENS);
    *(strcmp(pair, "max") ? &a->tokens : &a->max) = n;
    return ZEP_OK;
}

static int parse_dist(char *text, struct dist_args *a, struct zep_error *err)
{
    char *save = NULL, *rest = strchr(text, ':');
    int rc;

    if (rest)
        *rest++ = '\0';
    if ((rc = parse_name(text, a, err)) < 0)
        return rc;
    for (char *pair = rest ? strtok_r(rest, ",", &save) : NULL; pair; pair = strtok_r(NULL, ",", &save))
        if ((rc = parse_pair(pair, a, err)) < 0)
            return rc;
    if (!a->tokens)
        return zep_error_set(err, ZEP_EINVAL, "distribution '%s': expected tokens=N, the length of the workload, as in '%s:tokens=64k,seed=1'", text, text);
    if (!a->max || a->max > a->tokens)
        a->max = a->tokens;
    return ZEP_OK;
}

int zep_workload_dist(const char *text, struct zep_workload **out, struct zep_error *err)
{
    struct dist_args a = {0};
    struct zep_workload *w = NULL;
    struct draw state = {0};
    struct zep_rng rng;
    char *copy = strdup(text);
    int cap = 0, rc;

    if (!copy || !(w = zep_calloc(1, sizeof *w))) {
        rc = zep_error_nomem(err, "workload");
        goto out;
    }
    if ((rc = parse_dist(copy, &a, err)) < 0)
        goto out;
    zep_rng_seed(&rng, a.seed);
    state.max = a.max;
    while (w->n_token < a.tokens) {
        int64_t len = a.dist->draw(&rng, &state);

        len = len < 1 ? 1 : len > a.max ? a.max : len;
        if ((rc = add_len(w, &cap, len < a.tokens - w->n_token ? len : a.tokens - w->n_token, err)) < 0)
            goto out;
        state.n_token = w->n_token;
    }
    *out = w;
    w = NULL;
out:
    zep_workload_free(w);
    free(copy);
    return rc;
}

int zep_micro_split(const int64_t *len, int n, int64_t max_tok, int **first_out, int *n_micro_out, struct zep_error *err)
{
    int *first = zep_calloc((size_t)n + 2, sizeof *first), n_micro = 0;
    int64_t tokens = 0;

    if (!first)
        return zep_error_nomem(err, "micro-steps");
    for (int i = 0; i < n; i++) {
        if (len[i] > max_tok) {
            free(first);
            return zep_error_set(err, ZEP_EINVAL, "sequence %d has %lld tokens, all devices together hold %lld: a capacity %.3g times as large would fit", i, (long long)len[i],
                                 (long long)max_tok, (double)len[i] / (double)max_tok);
        }
        if (i == 0 || tokens + len[i] > max_tok) {
            first[n_micro++] = i;
            tokens = 0;
        }
        tokens += len[i];
    }
    first[n_micro] = n;
    *first_out = first;
    *n_micro_out = n_micro;
    return ZEP_OK;
}

int zep_micro_first(const struct zep_workload *w, int64_t max_tok, struct zep_workload *first_out, int *n_micro_out, struct zep_error *err)
{
    struct zep_workload part = {.len = w->len};
    int *first, rc = zep_micro_split(w->len, w->n, max_tok, &first, n_micro_out, err);

    if (rc < 0)
        return rc;
    for (part.n = 0; part.n < first[1]; part.n++)
        part.n_token += w->len[part.n];
    free(first);
    *first_out = part;
    return ZEP_OK;
}
