#include "config.h"
#include "launcher/launcher.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/rng.h"
#include "common/units.h"
#include "launcher/cli.h"
#include "launcher/corpus.h"
#include "launcher/ngram.h"
#include "planner/dataset.h"

enum { OPT_SUFFIX = 256, OPT_MAX, OPT_HELDOUT, OPT_CONTEXT, OPT_THIN, OPT_JSON };

static const struct option options[] = {
    {"suffix", required_argument, NULL, OPT_SUFFIX}, {"max-bytes", required_argument, NULL, OPT_MAX}, {"heldout", required_argument, NULL, OPT_HELDOUT},
    {"context", required_argument, NULL, OPT_CONTEXT}, {"thin", required_argument, NULL, OPT_THIN}, {"json", no_argument, NULL, OPT_JSON}, {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static const struct cli cli = {
    "data",
    "usage: zeppelin data [OPTION]... -o FOLDER SOURCE...\n"
    "\n"
    "Makes a data set of byte tokens: every file is a document; of a .jsonl file every line's \"text\" is.\n"
    "Files are chosen, ordered, and divided into training and held-out text by a hash of their path\n"
    "relative to SOURCE. Writes FOLDER/train.bin, .idx and FOLDER/heldout.bin, .idx (Megatron's indexed\n"
    "format) and FOLDER/dataset.json: documents, lengths, and the unigram and bigram cross-entropy of the\n"
    "held-out text under models of the training text, the marks that a trained model has to pass.\n"
    "\n"
    "  --suffix LIST       only files that end so, divided by commas: .h,.c\n"
    "  --max-bytes SIZE    stop at so much text (default 32MB)\n"
    "  --thin SIZE         of files longer than SIZE keep a share of (SIZE / length)^1.5, at least one in\n"
    "                      five hundred, chosen by the hash: so that a few long files do not hold most of the text\n"
    "  --heldout PERCENT   part of the documents that is held out (default 5)\n"
    "  --context TOKENS    count and score documents as a run with this data.context cuts them (default 4k)\n"
    "  --json              print dataset.json instead of text\n"
    "  -o, --output FOLDER where the data set goes; must be new or empty\n"
    "  -h, --help\n",
    options,
};

struct args {
    const char *suffix[64];
    int n_suffix;
    const char *suffix_list; /* as given */
    char *suffix_text;       /* cut up */
    int64_t max_bytes, thin, context;
    double heldout;
    int json;
    const char *out;
};

static int parse_value(struct args *a, int c, struct zep_error *err)
{
    char *save = NULL;

    switch (c) {
    case OPT_SUFFIX:
        free(a->suffix_text);
        a->n_suffix = 0;
        a->suffix_list = optarg;
        if (!(a->suffix_text = strdup(optarg)))
            return zep_error_nomem(err, "suffixes");
        for (char *s = strtok_r(a->suffix_text, ",", &save); s && a->n_suffix < 64; s = strtok_r(NULL, ",", &save))
            a->suffix[a->n_suffix++] = s;
        return ZEP_OK;
    case OPT_MAX:
        if (zep_parse_size(optarg, &a->max_bytes, err) < 0)
            return zep_error_prefix(err, "--max-bytes");
        return ZEP_OK;
    case OPT_THIN:
        if (zep_parse_size(optarg, &a->thin, err) < 0)
            return zep_error_prefix(err, "--thin");
        return ZEP_OK;
    case OPT_HELDOUT:
        if (zep_parse_double(optarg, 0, 50, &a->heldout, err) < 0)
            return zep_error_prefix(err, "--heldout");
        return ZEP_OK;
    default:
        if (zep_parse_count(optarg, &a->context, err) < 0)
            return zep_error_prefix(err, "--context");
        return a->context < 2 ? zep_error_set(err, ZEP_EINVAL, "--context '%s': expected at least 2", optarg) : ZEP_OK;
    }
}

static int parse(int argc, char **argv, struct args *a)
{
    struct zep_error err;
    int c;

    while ((c = zep_cli_next(&cli, argc, argv)) != -1) {
        if (c == 'o')
            a->out = optarg;
        else if (c == OPT_JSON)
            a->json = 1;
        else if (c == 'h' || c == CLI_BAD)
            return c == 'h' ? 0 : 2;
        else if (parse_value(a, c, &err) < 0)
            return zep_cli_fail(&err);
    }
    if (!a->out)
        return zep_cli_usage(&cli, "no output folder: expected -o FOLDER");
    if (optind == argc)
        return zep_cli_usage(&cli, "no source: expected folders or files of text");
    return -1;
}

/* One side of the data set, and what is counted of it. */
struct part {
    struct zep_dataset_writer *writer;
    int64_t n_doc, n_token, n_cut, longest, shortest;
    int64_t bins[41]; /* documents by the power of two at or below their length */
};

struct build {
    const struct args *args;
    struct part train, heldout;
    struct zep_ngram *ngram;
    double one_sum, two_sum;
    int64_t n_target, n_binary;
    int scoring; /* second pass: the held-out text is scored */
    int32_t *token;
    int64_t cap_token;
};

static void count_doc(struct part *p, int64_t n, int64_t context)
{
    int bin = 0;

    while (bin < 40 && ((int64_t)1 << (bin + 1)) <= n)
        bin++;
    p->bins[bin]++;
    p->n_doc++;
    p->n_token += n;
    p->n_cut += n > context;
    p->longest = n > p->longest ? n : p->longest;
    p->shortest = p->shortest == 0 || n < p->shortest ? n : p->shortest;
}

static int take_text(struct build *b, const char *text, int64_t n, int heldout, struct zep_error *err)
{
    struct part *p = heldout ? &b->heldout : &b->train;
    int64_t context = b->args->context;

    if (n < 1)
        return ZEP_OK;
    if (memchr(text, 0, (size_t)n)) {
        b->n_binary += !b->scoring;
        return ZEP_OK;
    }
    if (n > b->cap_token) {
        int32_t *t = zep_reallocarray(b->token, (size_t)n, sizeof *t);

        if (!t)
            return zep_error_nomem(err, "document");
        b->token = t;
        b->cap_token = n;
    }
    for (int64_t i = 0; i < n; i++)
        b->token[i] = (unsigned char)text[i];
    for (int64_t at = 0; at < n; at += context) {
        int64_t m = n - at < context ? n - at : context;

        if (b->scoring && heldout)
            zep_ngram_score(b->ngram, b->token + at, m, &b->one_sum, &b->two_sum, &b->n_target);
        else if (!b->scoring && !heldout)
            zep_ngram_fit(b->ngram, b->token + at, m);
    }
    if (b->scoring)
        return ZEP_OK;
    count_doc(p, n, context);
    return zep_dataset_add(p->writer, b->token, n, err);
}

static int take_jsonl(struct build *b, const struct zep_corpus_doc *d, const char *text, size_t len, struct zep_error *err)
{
    int line = 0, rc = ZEP_OK;

    for (size_t at = 0; at < len && rc == ZEP_OK;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        json_error_t je;
        json_t *j;
        const char *s;

        line++;
        if (strspn(text + at, " \t\r\n") >= n) {
            at += n + 1;
            continue;
        }
        j = json_loadb(text + at, n, 0, &je);
        s = json_string_value(json_object_get(j, "text"));
        if (!s)
            rc = zep_error_set(err, ZEP_EINVAL, "%s:%d: expected a JSON object with a \"text\"", d->path, line);
        else {
            struct zep_corpus_doc one = {NULL, NULL, zep_splitmix64(d->hash + (uint64_t)line), 0};

            rc = take_text(b, s, (int64_t)json_string_length(json_object_get(j, "text")), zep_corpus_is_heldout(&one, b->args->heldout / 100), err);
        }
        json_decref(j);
        at += n + 1;
    }
    return rc;
}

static int take_all(struct build *b, const struct zep_corpus *c, struct zep_error *err)
{
    int rc = ZEP_OK;

    for (int i = 0; i < c->n && rc == ZEP_OK; i++) {
        const struct zep_corpus_doc *d = &c->doc[i];
        size_t len, n_name = strlen(d->name);
        char *text;

        if ((rc = zep_fs_read(d->path, (size_t)1 << 31, &text, &len, err)) < 0)
            return rc;
        if (n_name > 6 && !strcmp(d->name + n_name - 6, ".jsonl"))
            rc = take_jsonl(b, d, text, len, err);
        else
            rc = take_text(b, text, (int64_t)len, zep_corpus_is_heldout(d, b->args->heldout / 100), err);
        free(text);
        if (i % 256 == 0)
            zep_progress_line(0, "%s: %d of %d files", b->scoring ? "scoring" : "reading", i, c->n);
    }
    return rc;
}

/* --- dataset.json and the text --- */

static json_t *part_json(const struct part *p)
{
    json_t *bins = json_array();

    for (int i = 0; i < 41; i++)
        if (p->bins[i])
            json_array_append_new(bins, json_pack("{s:I, s:I, s:I}", "from", (json_int_t)1 << i, "to", ((json_int_t)1 << (i + 1)) - 1, "documents", (json_int_t)p->bins[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "documents", (json_int_t)p->n_doc, "tokens", (json_int_t)p->n_token, "longer_than_context", (json_int_t)p->n_cut, "shortest",
                     (json_int_t)p->shortest, "longest", (json_int_t)p->longest, "lengths", bins);
}

static json_t *dataset_json(const struct build *b)
{
    json_t *j = json_pack("{s:s, s:s, s:i, s:I, s:o, s:o}", "format", "zeppelin-dataset/1.0", "tokens", "bytes", "vocab", 256, "context", (json_int_t)b->args->context, "train", part_json(&b->train),
                          "heldout", part_json(&b->heldout));

    if (j && b->n_target)
        json_object_set_new(j, "heldout_nats_per_token",
                            json_pack("{s:f, s:f, s:I}", "unigram", b->one_sum / (double)b->n_target, "bigram", b->two_sum / (double)b->n_target, "targets", (json_int_t)b->n_target));
    return j;
}

static void put_part(struct zep_buf *t, const char *name, const struct part *p, int64_t context)
{
    zep_buf_printf(t, "%-9s %7" PRId64 " documents, %10" PRId64 " tokens, %" PRId64 " to %" PRId64 " long, %" PRId64 " longer than %" PRId64 "\n", name, p->n_doc, p->n_token, p->shortest, p->longest,
                   p->n_cut, context);
}

static void put_text(struct zep_buf *t, const struct build *b, const char *out)
{
    const struct part *p = &b->train;
    int64_t most = 1;

    put_part(t, "training", &b->train, b->args->context);
    put_part(t, "held out", &b->heldout, b->args->context);
    if (b->n_binary)
        zep_buf_printf(t, "%" PRId64 " files with NUL bytes were left out\n", b->n_binary);
    for (int i = 0; i < 41; i++)
        most = p->bins[i] > most ? p->bins[i] : most;
    zep_buf_puts(t, "\nlengths of the training documents (tokens)\n");
    for (int i = 0; i < 41; i++)
        if (p->bins[i]) {
            int width = (int)(50 * p->bins[i] / most);

            zep_buf_printf(t, "%9" PRId64 "+ %7" PRId64 " ", (int64_t)1 << i, p->bins[i]);
            for (int k = 0; k < (width ? width : 1); k++)
                zep_buf_puts(t, "#");
            zep_buf_puts(t, "\n");
        }
    if (b->n_target)
        zep_buf_printf(t, "\nheld-out cross-entropy under models of the training text: unigram %.4f, bigram %.4f nats a token\n", b->one_sum / (double)b->n_target, b->two_sum / (double)b->n_target);
    if (b->train.n_cut + b->heldout.n_cut)
        zep_buf_printf(t, "a run refuses documents longer than its data.context: set data.too_long: cut, or data.context: %" PRId64 "\n", p->longest > b->heldout.longest ? p->longest : b->heldout.longest);
    zep_buf_printf(t, "written: %s/train, %s/heldout, %s/dataset.json\n", out, out, out);
}

static int write_summary(const struct build *b, struct zep_error *err)
{
    json_t *j = dataset_json(b);
    char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL, *path = zep_fs_join(b->args->out, "dataset.json");
    struct zep_buf t = ZEP_BUF_INIT;
    int rc = text && path ? ZEP_OK : zep_error_nomem(err, "dataset.json");

    if (rc == ZEP_OK) {
        zep_buf_printf(&t, "%s\n", text);
        if ((rc = zep_buf_ok(&t, err)) == ZEP_OK)
            rc = zep_fs_write_atomic(path, t.data, t.len, 0666, err);
    }
    if (rc == ZEP_OK && !b->args->json) {
        zep_buf_free(&t);
        put_text(&t, b, b->args->out);
    }
    if (rc == ZEP_OK)
        rc = zep_cli_write(NULL, &t, err);
    zep_buf_free(&t);
    free(path);
    free(text);
    json_decref(j);
    return rc;
}

static int open_part(struct part *p, const char *out, const char *name, struct zep_error *err)
{
    char *prefix = zep_fs_join(out, name);
    int rc = prefix ? zep_dataset_create(prefix, 1, &p->writer, err) : zep_error_nomem(err, "data set");

    free(prefix);
    return rc;
}

static int close_part(struct part *p, struct zep_error *err)
{
    struct zep_dataset_writer *w = p->writer;

    p->writer = NULL;
    if (p->n_doc)
        return zep_dataset_finish(w, err);
    zep_dataset_abandon(w);
    return ZEP_OK;
}

/* The folder is made by us, or is empty: so a failure can be undone. */
static int claim_folder(const char *out, int *made, struct zep_error *err)
{
    char **name;
    int n, rc;

    *made = !zep_fs_exists(out);
    if ((rc = zep_fs_mkdir_p(out, err)) < 0 || (rc = zep_fs_list(out, &name, &n, err)) < 0)
        return rc;
    for (int i = 0; i < n; i++)
        free(name[i]);
    free(name);
    return n ? zep_error_set(err, ZEP_EINVAL, "%s: is not empty: expected a new or empty folder", out) : ZEP_OK;
}

static void undo(const struct args *a, int made)
{
    static const char *const files[] = {"train.bin", "train.idx", "heldout.bin", "heldout.idx", "dataset.json"};

    if (made) {
        zep_fs_remove_tree(a->out, NULL);
        return;
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = zep_fs_join(a->out, files[i]);

        if (path)
            remove(path);
        free(path);
    }
}

static int make_set(const struct args *a, const struct zep_corpus *c, struct zep_error *err)
{
    struct build b = {.args = a, .ngram = zep_calloc(1, sizeof *b.ngram)};
    int made = 0, rc, claimed = 0;

    if (!b.ngram)
        return zep_error_nomem(err, "data set");
    if ((rc = claim_folder(a->out, &made, err)) < 0)
        goto out;
    claimed = 1;
    if ((rc = open_part(&b.train, a->out, "train", err)) < 0 || (rc = open_part(&b.heldout, a->out, "heldout", err)) < 0 || (rc = take_all(&b, c, err)) < 0)
        goto out;
    if (!b.train.n_doc) {
        rc = zep_error_set(err, ZEP_EINVAL, "no text for training in %d files", c->n);
        goto out;
    }
    b.scoring = 1;
    if ((rc = take_all(&b, c, err)) < 0 || (rc = close_part(&b.train, err)) < 0 || (rc = close_part(&b.heldout, err)) < 0)
        goto out;
    zep_progress_end();
    rc = write_summary(&b, err);
out:
    zep_dataset_abandon(b.train.writer);
    zep_dataset_abandon(b.heldout.writer);
    if (rc < 0 && claimed)
        undo(a, made);
    free(b.token);
    free(b.ngram);
    return rc;
}

int cmd_data(int argc, char **argv)
{
    struct args a = {.max_bytes = 32000000, .context = 4096, .heldout = 5};
    struct zep_corpus c = {0};
    struct zep_error err;
    int rc;

    if ((rc = parse(argc, argv, &a)) >= 0) {
        free(a.suffix_text);
        return rc;
    }
    rc = ZEP_OK;
    for (int i = optind; i < argc && rc == ZEP_OK; i++)
        rc = zep_corpus_add(&c, argv[i], a.suffix, a.n_suffix, &err);
    if (rc == ZEP_OK && !c.n)
        rc = zep_error_set(&err, ZEP_EINVAL, "%s: no files of text%s%s", argv[optind], a.n_suffix ? " that end in " : "", a.n_suffix ? a.suffix_list : "");
    if (rc == ZEP_OK) {
        if (a.thin)
            zep_corpus_thin(&c, a.thin);
        zep_corpus_choose(&c, a.max_bytes);
        rc = c.n ? make_set(&a, &c, &err) : zep_error_set(&err, ZEP_EINVAL, "--max-bytes %" PRId64 ": no file is small enough", a.max_bytes);
    }
    zep_corpus_free(&c);
    free(a.suffix_text);
    return rc < 0 ? zep_cli_fail(&err) : 0;
}
