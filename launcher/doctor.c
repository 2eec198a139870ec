/* Findings and how they are shown. */
#include "config.h"
#include "launcher/doctor.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

static const char *const level_names[] = {"", "ok", "skipped", "warning", "error"};

void zep_doctor_say(struct zep_doctor *d, enum zep_finding_level level, const char *check, const char *todo, const char *fmt, ...)
{
    char text[1000];
    va_list ap;

    if (d->n == d->cap) {
        int cap = d->cap ? 2 * d->cap : 64;
        struct zep_finding *p = zep_reallocarray(d->finding, (size_t)cap, sizeof *p);

        if (!p) {
            d->failed = 1;
            return;
        }
        d->finding = p;
        d->cap = cap;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->finding[d->n] = (struct zep_finding){level, check, strdup(text), todo};
    if (!d->finding[d->n].text)
        d->failed = 1;
    else
        d->n++;
}

int zep_doctor_count(const struct zep_doctor *d, enum zep_finding_level level)
{
    int n = 0;

    for (int i = 0; i < d->n; i++)
        n += d->finding[i].level == level;
    return n;
}

int zep_doctor_to_text(const struct zep_doctor *d, struct zep_buf *b, struct zep_error *err)
{
    int n_error = zep_doctor_count(d, ZEP_FINDING_ERROR), n_warning = zep_doctor_count(d, ZEP_FINDING_WARNING);

    zep_buf_printf(b, "%d node%s (%s)\n", d->topo->n_node, d->topo->n_node == 1 ? "" : "s", d->topo->origin);
    for (int level = ZEP_FINDING_ERROR; level >= ZEP_FINDING_OK; level--) /* the gravest first */
        for (int i = 0; i < d->n; i++) {
            const struct zep_finding *f = &d->finding[i];

            if ((int)f->level != level)
                continue;
            zep_buf_printf(b, "  %-8s %-10s ", level_names[f->level], f->check);
            for (const char *line = f->text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                zep_buf_printf(b, "%s%.*s\n", line == f->text ? "" : "                      ", (int)strcspn(line, "\n"), line);
            if (f->todo && level >= ZEP_FINDING_WARNING)
                zep_buf_printf(b, "  %-8s %-10s -> %s\n", "", "", f->todo);
        }
    zep_buf_printf(b, "%d error%s, %d warning%s\n", n_error, n_error == 1 ? "" : "s", n_warning, n_warning == 1 ? "" : "s");
    if (d->failed)
        return zep_error_nomem(err, "findings");
    return zep_buf_ok(b, err);
}

int zep_doctor_to_json(const struct zep_doctor *d, struct zep_buf *b, struct zep_error *err)
{
    json_t *list = json_array(), *root;
    char *text;

    for (int i = 0; i < d->n; i++) {
        const struct zep_finding *f = &d->finding[i];
        json_t *o = json_pack("{s:s, s:s, s:s}", "level", level_names[f->level], "check", f->check, "text", f->text);

        if (f->todo)
            json_object_set_new(o, "todo", json_string(f->todo));
        json_array_append_new(list, o);
    }
    root = json_pack("{s:s, s:s, s:i, s:i, s:i, s:o}", "format", "zeppelin-doctor/1.0", "origin", d->topo->origin, "nodes", d->topo->n_node, "errors", zep_doctor_count(d, ZEP_FINDING_ERROR), "warnings",
                     zep_doctor_count(d, ZEP_FINDING_WARNING), "findings", list);
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text || d->failed) {
        free(text);
        return zep_error_nomem(err, "findings");
    }
    zep_buf_puts(b, text);
    zep_buf_puts(b, "\n");
    free(text);
    return zep_buf_ok(b, err);
}

void zep_doctor_free(struct zep_doctor *d)
{
    for (int i = 0; i < d->n; i++)
        free(d->finding[i].text);
    free(d->finding);
    d->finding = NULL;
    d->n = d->cap = 0;
}
