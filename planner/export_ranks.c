/* The folder of an export: written beside its place under another name, then renamed. */
#include "config.h"
#include "planner/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/npy.h"
#include "planner/check.h"

static int put_file(const char *dir, const char *name, struct zep_buf *b, struct zep_error *err)
{
    char *path = zep_fs_join(dir, name);
    int rc = zep_buf_ok(b, err);

    if (!path)
        rc = zep_error_nomem(err, name);
    if (rc == ZEP_OK)
        rc = zep_fs_write_atomic(path, b->data, b->len, 0666, err);
    free(path);
    zep_buf_free(b);
    *b = (struct zep_buf)ZEP_BUF_INIT;
    return rc;
}

/* --- what all ranks share --- */

static int put_head(const struct zep_plan *p, const char *dir, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;

    zep_buf_printf(&b, "{\n  \"format\": \"zeppelin-ranks/1.0\",\n  \"plan_digest\": \"%016" PRIx64 "\",\n  \"method\": \"%s\",\n  \"ranks\": %d,\n  \"ranks_per_device\": %d,\n  \"nodes\": %d,\n", p->digest,
                   p->method, p->n_dev, p->tp, p->n_node);
    zep_buf_printf(&b, "  \"tokens\": %" PRId64 ",\n  \"sequences\": %d,\n  \"rings\": %d,\n  \"rank\": [", p->n_token, p->n_seq, p->n_ring);
    for (int d = 0; d < p->n_dev; d++)
        zep_buf_printf(&b, "%s\n    {\"folder\": \"%04d\", \"node\": %d, \"attention_tokens\": %" PRId64 ", \"linear_tokens\": %" PRId64 "}", d ? "," : "", d, p->dev_node[d], p->attn_tok[d],
                       p->lin_tok[d]);
    zep_buf_puts(&b, "\n  ]\n}\n");
    return put_file(dir, "export.json", &b, err);
}

static int put_plan(const struct zep_plan *p, const char *dir, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int rc = zep_plan_to_json(p, &b, err);

    if (rc == ZEP_OK)
        return put_file(dir, "plan.json", &b, err);
    zep_buf_free(&b);
    return rc;
}

/* Where each sequence begins: the global numbers that token indices mean. */
static int put_sequences(const struct zep_plan *p, const char *dir, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    int64_t *at = zep_calloc((size_t)p->n_seq + 1, sizeof *at);
    int rc;

    if (!at)
        return zep_error_nomem(err, "sequences");
    for (int i = 0; i < p->n_seq; i++)
        at[i] = p->seq[i].token0;
    at[p->n_seq] = p->n_token;
    zep_npy_i64(&b, at, (int64_t)p->n_seq + 1, -1);
    rc = put_file(dir, "sequences.npy", &b, err);
    free(at);
    return rc;
}

/* A row for each member: where the pieces of its block begin and end. */
static int put_ring(const struct zep_plan *p, int ring, const char *dir, struct zep_error *err)
{
    const struct zep_plan_ring *r = &p->ring[ring];
    struct zep_buf b = ZEP_BUF_INIT;
    int64_t n_piece = (int64_t)r->n_seq * (r->n_member == 1 ? 1 : 2), n_col = n_piece + 1;
    int32_t *cu = zep_calloc((size_t)r->n_member, (size_t)n_col * sizeof *cu);
    char name[48];
    int rc;

    if (!cu)
        return zep_error_nomem(err, "pieces of a ring");
    for (int m = 0; m < r->n_member; m++)
        for (int64_t i = 0; i < n_piece; i++) {
            int n_chunk = r->n_member == 1 ? 1 : 2;
            const struct zep_plan_seq *s = &p->seq[p->ring_seq[r->seq0 + i / n_chunk]];
            int64_t begin = 0, end = s->len;

            if (n_chunk == 2)
                zep_chunk_range(s->len, r->n_member, s->rot, i % 2 ? 2 * r->n_member - 1 - m : m, &begin, &end);
            cu[m * n_col + i + 1] = (int32_t)(cu[m * n_col + i] + end - begin);
        }
    zep_npy_i32(&b, cu, r->n_member, n_col);
    snprintf(name, sizeof name, "ring-%04d.cu_seqlens.npy", ring);
    rc = put_file(dir, name, &b, err);
    free(cu);
    return rc;
}

/* --- a rank --- */

static int put_layout(const struct zep_plan *p, int dev, enum zep_layout layout, const char *dir, struct zep_error *err)
{
    static const char *const name[2][3] = {{"attention.tokens.npy", "attention.positions.npy", "attention.sequences.npy"}, {"linear.tokens.npy", "linear.positions.npy", "linear.sequences.npy"}};
    int64_t n = layout == ZEP_LAYOUT_LINEAR ? p->lin_tok[dev] : p->attn_tok[dev];
    struct zep_buf b = ZEP_BUF_INIT;
    int64_t *x[3];
    int rc;

    if (!(x[0] = zep_calloc((size_t)n + 1, 3 * sizeof *x[0])))
        return zep_error_nomem(err, "tokens of a layout");
    x[1] = x[0] + n;
    x[2] = x[1] + n;
    rc = zep_plan_layout_tokens(p, dev, layout, x[0], x[1], x[2], err);
    for (int i = 0; i < 3 && rc == ZEP_OK; i++) {
        zep_npy_i64(&b, x[i], n, -1);
        rc = put_file(dir, name[layout][i], &b, err);
    }
    free(x[0]);
    return rc;
}

static int put_cu_seqlens(const struct zep_plan *p, int dev, enum zep_layout layout, const char *dir, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_piece *piece = NULL;
    int32_t *cu;
    int n, rc = layout == ZEP_LAYOUT_LINEAR ? zep_plan_lin_pieces(p, dev, &piece, &n, err) : zep_plan_attn_pieces(p, dev, &piece, &n, err);

    if (rc < 0)
        return rc;
    if (!(cu = zep_calloc((size_t)n + 1, sizeof *cu))) {
        rc = zep_error_nomem(err, "cu_seqlens");
    } else {
        for (int i = 0; i < n; i++)
            cu[i + 1] = (int32_t)(cu[i] + piece[i].end - piece[i].begin);
        zep_npy_i32(&b, cu, (int64_t)n + 1, -1);
        rc = put_file(dir, layout == ZEP_LAYOUT_LINEAR ? "linear.cu_seqlens.npy" : "attention.cu_seqlens.npy", &b, err);
    }
    free(cu);
    free(piece);
    return rc;
}

static int put_rank(const struct zep_plan *p, int dev, const char *dir, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    char number[16], *sub;
    int rc;

    snprintf(number, sizeof number, "%04d", dev);
    if (!(sub = zep_fs_join(dir, number)))
        return zep_error_nomem(err, dir);
    rc = zep_fs_mkdir_p(sub, err);
    for (int l = ZEP_LAYOUT_ATTENTION; l <= ZEP_LAYOUT_LINEAR && rc == ZEP_OK; l++)
        if ((rc = put_layout(p, dev, l, sub, err)) == ZEP_OK)
            rc = put_cu_seqlens(p, dev, l, sub, err);
    if (rc == ZEP_OK && (rc = zep_plan_to_rank_json(p, dev, &b, err)) == ZEP_OK)
        rc = put_file(sub, "rank.json", &b, err);
    zep_buf_free(&b);
    free(sub);
    return rc;
}

/* --- the folder --- */

static int put_all(const struct zep_plan *p, const char *dir, struct zep_error *err)
{
    int rc = put_plan(p, dir, err);

    if (rc == ZEP_OK)
        rc = put_sequences(p, dir, err);
    for (int r = 0; r < p->n_ring && rc == ZEP_OK; r++)
        rc = put_ring(p, r, dir, err);
    for (int d = 0; d < p->n_dev && rc == ZEP_OK; d++)
        rc = put_rank(p, d, dir, err);
    return rc == ZEP_OK ? put_head(p, dir, err) : rc;
}

static int same_file(const char *a, const char *b, int *same_out, struct zep_error *err)
{
    char *x = NULL, *y = NULL;
    size_t n, m;
    int rc;

    if ((rc = zep_fs_read(a, 0, &x, &n, err)) == ZEP_OK && (rc = zep_fs_read(b, 0, &y, &m, err)) == ZEP_OK)
        *same_out = n == m && !memcmp(x, y, n);
    free(x);
    free(y);
    return rc;
}

static void free_names(char **name, int n)
{
    for (int i = 0; i < n; i++)
        free(name[i]);
    free(name);
}

/* Do two folders hold the same files? depth: of folders in them that are looked into. */
static int same_tree(const char *a, const char *b, int depth, int *same_out, struct zep_error *err)
{
    char **name[2] = {NULL, NULL};
    int n[2] = {0, 0}, same = 0, rc;

    if ((rc = zep_fs_list(a, &name[0], &n[0], err)) < 0 || (rc = zep_fs_list(b, &name[1], &n[1], err)) < 0)
        goto out;
    same = n[0] == n[1];
    for (int i = 0; i < n[0] && same && rc == ZEP_OK; i++) {
        char *x = zep_fs_join(a, name[0][i]), *y = zep_fs_join(b, name[0][i]);

        if (!x || !y)
            rc = zep_error_nomem(err, a);
        else if (strcmp(name[0][i], name[1][i]) || zep_fs_is_dir(x) != zep_fs_is_dir(y))
            same = 0;
        else if (zep_fs_is_dir(x))
            rc = depth ? same_tree(x, y, depth - 1, &same, err) : ZEP_OK;
        else
            rc = same_file(x, y, &same, err);
        free(x);
        free(y);
    }
out:
    free_names(name[0], n[0]);
    free_names(name[1], n[1]);
    *same_out = same;
    return rc;
}

static int refused(const char *dir, struct zep_error *err)
{
    return zep_error_set(err, ZEP_EREFUSED, "'%s': is there and holds something else; expected a new or empty folder, or one with this same export", dir);
}

/* Puts the finished folder in its place. *kept_out: the place holds the same already. */
static int settle(const char *made, const char *dir, int *kept_out, struct zep_error *err)
{
    int rc, same = 0;

    *kept_out = 0;
    if (rename(made, dir) == 0) /* also where an empty folder is */
        return ZEP_OK;
    if (errno == ENOTDIR)
        return refused(dir, err);
    if (errno != EEXIST && errno != ENOTEMPTY)
        return zep_error_set(err, ZEP_EIO, "%s: %s", dir, strerror(errno));
    if ((rc = same_tree(made, dir, 1, &same, err)) < 0)
        return rc;
    if (!same)
        return refused(dir, err);
    *kept_out = 1;
    return ZEP_OK;
}

/* A new folder beside the place, and the folder that both are in. Both go to free(). */
static int begin(const char *dir, char **made_out, char **parent_out, struct zep_error *err)
{
    char *parent = strdup(dir), *made = NULL, *slash;
    int rc;

    if (!parent || asprintf(&made, "%s.tmp.%ld", dir, (long)getpid()) < 0) {
        free(parent);
        return zep_error_nomem(err, dir);
    }
    slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    else
        strcpy(parent, ".");
    if ((rc = zep_fs_mkdir_p(parent, err)) == ZEP_OK && mkdir(made, 0777) < 0)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", made, strerror(errno));
    if (rc < 0) {
        free(made);
        free(parent);
        return rc;
    }
    *made_out = made;
    *parent_out = parent;
    return ZEP_OK;
}

static int write_and_settle(const struct zep_plan *p, const char *dir, struct zep_error *err)
{
    char *made = NULL, *parent = NULL;
    int kept, rc = begin(dir, &made, &parent, err);

    if (rc < 0)
        return rc;
    if ((rc = put_all(p, made, err)) == ZEP_OK && (rc = settle(made, dir, &kept, err)) == ZEP_OK && !kept)
        rc = zep_fs_fsync_dir(parent, err);
    if (zep_fs_is_dir(made))
        zep_fs_remove_tree(made, NULL);
    free(made);
    free(parent);
    return rc;
}

int zep_plan_export_ranks(const struct zep_plan *p, const char *path, struct zep_error *err)
{
    char *dir;
    size_t n = strlen(path);
    int rc;

    for (int d = 0; d < p->n_dev; d++)
        if (p->attn_tok[d] > INT32_MAX || p->lin_tok[d] > INT32_MAX)
            return zep_error_set(err, ZEP_EUNSUPPORTED, "rank %d holds %" PRId64 " tokens; cu_seqlens are 32-bit numbers", d,
                                 p->attn_tok[d] > p->lin_tok[d] ? p->attn_tok[d] : p->lin_tok[d]);
    if ((rc = zep_plan_may_export(p, err)) < 0)
        return rc;
    if (!n)
        return zep_error_set(err, ZEP_EINVAL, "'': expected a folder");
    if ((rc = zep_plan_prove(p, err)) < 0)
        return rc;
    if (!(dir = strdup(path)))
        return zep_error_nomem(err, path);
    while (n > 1 && dir[n - 1] == '/')
        dir[--n] = '\0';
    rc = write_and_settle(p, dir, err);
    free(dir);
    return rc;
}
