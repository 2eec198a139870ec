#include "config.h"
#include "launcher/corpus.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/arena.h"
#include "common/digest.h"
#include "common/fs.h"

#define MAX_DEPTH 64

struct walk {
    struct zep_corpus *corpus;
    size_t root_len;
    const char *const *suffix;
    int n_suffix;
    struct zep_error *err;
};

static int wanted(const struct walk *w, const char *name)
{
    size_t len = strlen(name);

    for (int i = 0; i < w->n_suffix; i++) {
        size_t n = strlen(w->suffix[i]);

        if (len >= n && !strcmp(name + len - n, w->suffix[i]))
            return 1;
    }
    return w->n_suffix == 0;
}

static int add_doc(struct walk *w, const char *path, int64_t size)
{
    struct zep_corpus *c = w->corpus;
    const char *name = path + w->root_len;
    struct zep_corpus_doc *d;

    if (c->n == c->cap) {
        int cap = 2 * c->cap + 256;
        struct zep_corpus_doc *p = zep_reallocarray(c->doc, (size_t)cap, sizeof *p);

        if (!p)
            return zep_error_nomem(w->err, "list of files");
        c->doc = p;
        c->cap = cap;
    }
    while (*name == '/')
        name++;
    d = &c->doc[c->n];
    d->path = strdup(path);
    d->name = strdup(name);
    if (!d->path || !d->name) {
        free(d->path);
        free(d->name);
        return zep_error_nomem(w->err, "list of files");
    }
    d->hash = zep_digest(name, strlen(name), 0);
    d->size = size;
    c->n++;
    c->bytes += size;
    return ZEP_OK;
}

static int walk_folder(struct walk *w, const char *path, int depth)
{
    char **name;
    int n, rc;

    if (depth > MAX_DEPTH)
        return zep_error_set(w->err, ZEP_EINVAL, "%s: folders are nested deeper than %d", path, MAX_DEPTH);
    if ((rc = zep_fs_list(path, &name, &n, w->err)) < 0)
        return rc;
    for (int i = 0; i < n; i++) {
        char *sub = rc == ZEP_OK ? zep_fs_join(path, name[i]) : NULL;
        struct stat st;

        if (rc == ZEP_OK && !sub)
            rc = zep_error_nomem(w->err, "list of files");
        if (rc == ZEP_OK && lstat(sub, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                rc = walk_folder(w, sub, depth + 1);
            else if (S_ISREG(st.st_mode) && st.st_size > 0 && wanted(w, name[i]))
                rc = add_doc(w, sub, (int64_t)st.st_size);
            else
                w->corpus->n_skipped++;
        }
        free(sub);
        free(name[i]);
    }
    free(name);
    return rc;
}

int zep_corpus_add(struct zep_corpus *c, const char *source, const char *const *suffix, int n_suffix, struct zep_error *err)
{
    struct walk w = {c, 0, suffix, n_suffix, err};
    const char *slash = strrchr(source, '/');
    struct stat st;

    if (stat(source, &st) < 0)
        return zep_error_set(err, errno == ENOENT ? ZEP_ENOENT : ZEP_EIO, "%s: %s", source, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        w.root_len = strlen(source);
        return walk_folder(&w, source, 0);
    }
    if (!S_ISREG(st.st_mode))
        return zep_error_set(err, ZEP_EINVAL, "%s: expected a folder or a regular file", source);
    if (st.st_size == 0)
        return zep_error_set(err, ZEP_EINVAL, "%s: is empty", source);
    w.root_len = slash ? (size_t)(slash - source) : 0;
    return add_doc(&w, source, (int64_t)st.st_size);
}

static void drop_doc(struct zep_corpus_doc *d)
{
    free(d->path);
    free(d->name);
}

/* Bits of the hash between those that divide (the lowest) and those that order (the highest). */
void zep_corpus_thin(struct zep_corpus *c, int64_t bytes)
{
    int n = 0;

    c->bytes = 0;
    for (int i = 0; i < c->n; i++) {
        struct zep_corpus_doc d = c->doc[i];
        double r = (double)bytes / (double)d.size, share = r * sqrt(r), u = (double)((d.hash >> 24) & 0xffffff) / (double)0x1000000;

        if (d.size > bytes && u >= (share > 0.002 ? share : 0.002)) {
            drop_doc(&d);
            continue;
        }
        c->doc[n++] = d;
        c->bytes += d.size;
    }
    c->n = n;
}

static int cmp_hash(const void *a, const void *b)
{
    const struct zep_corpus_doc *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return strcmp(x->path, y->path);
}

void zep_corpus_choose(struct zep_corpus *c, int64_t max_bytes)
{
    int64_t bytes = 0;
    int n = 0;

    qsort(c->doc, (size_t)c->n, sizeof *c->doc, cmp_hash);
    while (n < c->n && bytes + c->doc[n].size <= max_bytes)
        bytes += c->doc[n++].size;
    for (int i = n; i < c->n; i++)
        drop_doc(&c->doc[i]);
    c->n = n;
    c->bytes = bytes;
}

/* The order uses the whole hash, the division other bits of it: so the held-out part is a sample of what was chosen. */
int zep_corpus_is_heldout(const struct zep_corpus_doc *d, double fraction)
{
    return (double)(d->hash & 0xffffff) < fraction * (double)0x1000000;
}

void zep_corpus_free(struct zep_corpus *c)
{
    for (int i = 0; i < c->n; i++)
        drop_doc(&c->doc[i]);
    free(c->doc);
    *c = (struct zep_corpus){0};
}
