/* The text of scontrol show topology, out of a terminal or log as well. */
#include "config.h"
#include "topology/source.h"

#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "topology/slurm_lines.h"
#include "topology/slurm_records.h"
#include "topology/topo_internal.h"

static const char *const first_keys[] = {"SwitchName=", "BlockName=", "AggregatedBlock=", NULL};

/* Where a record begins in a line: the first of the keys, behind a prompt, a host or a time; NULL none. */
static const char *record_at(const char *line, size_t len)
{
    for (size_t at = 0; at < len; at++)
        for (int k = 0; first_keys[k] && (at == 0 || strchr(" \t:>]", line[at - 1])); k++)
            if (!strncmp(line + at, first_keys[k], strlen(first_keys[k])))
                return line + at;
    return NULL;
}

static int has_word(const char *p, const char *end, const char *word)
{
    const char *at = strstr(p, word);

    return at && at < end;
}

/* Level= and BlockIndex= are the controller's: topology.conf has neither. */
int zep_topo_is_scontrol(const char *text, size_t len)
{
    const char *stop = text + len;

    for (const char *line = text, *end; line < stop; line = end + 1) {
        const char *at;

        end = memchr(line, '\n', (size_t)(stop - line));
        end = end ? end : stop;
        at = *line == '#' ? NULL : record_at(line, (size_t)(end - line));
        if (at)
            return has_word(at, end, !strncmp(at, "SwitchName=", 11) ? " Level=" : " BlockIndex=");
    }
    return 0;
}

/* "Nodes=" at the end, of a switch that has none. */
static void drop_empty(struct zep_buf *b)
{
    while (b->len && strchr(" \t\r", b->data[b->len - 1]))
        b->len--;
    while (b->len && b->data[b->len - 1] == '=')
        while (b->len && !strchr(" \t\r\n", b->data[b->len - 1]))
            b->len--;
    if (b->data)
        b->data[b->len] = '\0';
}

/* Records, one a line: what stands before them is cut, further ones of a line get one of their own, other lines are left empty. */
static void put_records(const char *line, size_t len, struct zep_buf *b)
{
    const char *end = line + len, *at;

    while ((at = record_at(line, (size_t)(end - line)))) {
        const char *next = record_at(at + 1, (size_t)(end - at - 1));

        while (next && !strchr(" \t", next[-1]))
            next = record_at(next + 1, (size_t)(end - next - 1));
        zep_buf_add(b, at, (size_t)((next ? next : end) - at));
        drop_empty(b);
        if (!next)
            break;
        zep_buf_puts(b, "\n");
        line = next;
    }
}

/* "(null)"; where nothing stands behind Nodes=, the next pair was taken for it. */
static const char *list_of(const struct zep_slurm_line *l, const char *key)
{
    const char *v = zep_slurm_value(l, key);

    return v && strcmp(v, "(null)") && !strchr(v, '=') ? v : NULL;
}

static int scontrol_line(void *arg, const struct zep_slurm_line *l, struct zep_error *err)
{
    struct zep_slurm_records *r = arg;
    const char *sw = zep_slurm_value(l, "SwitchName"), *block = zep_slurm_value(l, "BlockName");

    if (!sw && (!block || zep_slurm_value(l, "AggregatedBlock")))
        return ZEP_OK; /* a later version may say more */
    return zep_slurm_records_add(r, l->file, l->line, !sw, sw ? sw : block, list_of(l, "Nodes"), list_of(l, "Switches"), err);
}

int zep_topo_from_scontrol(const struct zep_source_request *q, struct zep_topo **topo_out, struct zep_error *err)
{
    struct zep_buf b = ZEP_BUF_INIT;
    struct zep_slurm_records r = {0};
    char origin[400];
    int rc = ZEP_OK, line = 0;

    snprintf(origin, sizeof origin, "scontrol show topology %.360s", q->file);
    for (const char *p = q->text, *stop = q->text + q->len, *end; p < stop && rc == ZEP_OK; p = end + 1) {
        end = memchr(p, '\n', (size_t)(stop - p));
        end = end ? end : stop;
        line++;
        b.len = 0;
        zep_buf_puts(&b, "");
        put_records(p, (size_t)(end - p), &b);
        if ((rc = zep_buf_ok(&b, err)) == ZEP_OK && b.len)
            rc = zep_slurm_lines_of(q->file, line, b.data, scontrol_line, &r, err);
    }
    if (rc == ZEP_OK && (rc = zep_slurm_records_build(&r, origin, 1, topo_out, err)) < 0 && !r.n)
        zep_error_prefix(err, "%s", q->file);
    for (int i = 0; rc == ZEP_OK && i < (*topo_out)->n_fabric; i++)
        (*topo_out)->fabric[i].source = ZEP_SRC_CONTROLLER;
    zep_slurm_records_free(&r);
    zep_buf_free(&b);
    return rc;
}
