#include "config.h"
#include "launcher/sweep.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* --- for people: a line a point, a column a method --- */

static int width_of(const struct zep_sweep_axis *x)
{
    size_t most = strlen(zep_sweep_key_name(x->key));

    for (int i = 0; i < x->n; i++)
        most = MAX(most, strlen(x->text[i]));
    return (int)most;
}

static int fits(const struct zep_sweep_row *r)
{
    return r->mem_bytes <= r->mem_limit;
}

/* The fastest of what memory holds; where it holds none, of all. */
static const struct zep_sweep_row *best_of(const struct zep_sweep *s, const struct zep_sweep_point *p)
{
    const struct zep_sweep_row *best = NULL;

    for (int m = 0; m < s->n_method; m++) {
        const struct zep_sweep_row *r = &p->row[m];

        if (r->step_s > 0 && (!best || fits(r) > fits(best) || (fits(r) == fits(best) && r->step_s < best->step_s)))
            best = r;
    }
    return best;
}

static void put_ratio(struct zep_buf *b, double ratio)
{
    if (ratio > 0)
        zep_buf_printf(b, "  %8.2f", ratio);
    else
        zep_buf_printf(b, "  %8s", "-");
}

static int put_point(const struct zep_sweep *s, const struct zep_sweep_point *p, struct zep_buf *b)
{
    const struct zep_sweep_row *best = best_of(s, p);
    int over = 0;

    for (int i = 0; i < s->n_axis; i++)
        zep_buf_printf(b, "%s%-*s", i ? "  " : "", width_of(&s->axis[i]), s->axis[i].text[p->at[i]]);
    if (!best) {
        zep_buf_printf(b, "  %s\n", *p->why ? p->why : "no method can place this batch");
        return 0;
    }
    for (int m = 0; m < s->n_method; m++) {
        const struct zep_sweep_row *r = &p->row[m];
        int width = MAX((int)strlen(s->method[m]), 6);

        if (r->step_s > 0)
            zep_buf_printf(b, "  %*.0f%s", width, r->tokens_s_dev, fits(r) ? " " : "!");
        else
            zep_buf_printf(b, "  %*s ", width, "-");
        over |= r->step_s > 0 && !fits(r);
    }
    zep_buf_printf(b, "  %-14s", s->method[best - p->row]);
    put_ratio(b, best->over_te_cp);
    put_ratio(b, best->over_rival);
    zep_buf_puts(b, "\n");
    return over;
}

/* Why a method has no number at a point that others have; what is said of several points, once. */
static void put_reasons(const struct zep_sweep *s, struct zep_buf *b)
{
    for (int i = 0; i < s->n_point; i++)
        for (int m = 0; m < s->n_method; m++) {
            const char *why = s->point[i].row[m].why;
            int said = !*why;

            for (int k = 0; k < i && !said; k++)
                said = !strcmp(s->point[k].row[m].why, why);
            if (!said)
                zep_buf_printf(b, "-: %s\n", why);
        }
}

int zep_sweep_to_text(const struct zep_sweep *s, struct zep_buf *b, struct zep_error *err)
{
    int over = 0;

    zep_buf_printf(b, "predicted tokens/s/device: %s on %s%s\n", s->model, s->device, s->calibrated ? "" : " (not calibrated)");
    for (int i = 0; i < s->n_axis; i++)
        zep_buf_printf(b, "%s%-*s", i ? "  " : "", width_of(&s->axis[i]), zep_sweep_key_name(s->axis[i].key));
    for (int m = 0; m < s->n_method; m++)
        zep_buf_printf(b, "  %*s ", MAX((int)strlen(s->method[m]), 6), s->method[m]);
    zep_buf_printf(b, "  %-14s  %8s  %8s\n", "best", "x te-cp", "x rival");
    for (int i = 0; i < s->n_point; i++)
        over |= put_point(s, &s->point[i], b);
    put_reasons(s, b);
    if (over)
        zep_buf_puts(b, "!: more than memory holds\n");
    return zep_buf_ok(b, err);
}

/* --- for programs --- */

static const char *column(enum zep_sweep_key key)
{
    return key == ZEP_SWEEP_NIC ? "nic_bytes_s" : zep_sweep_key_name(key);
}

static void put_quoted(struct zep_buf *b, const char *text)
{
    if (!*text)
        return;
    zep_buf_puts(b, "\"");
    for (; *text; text++)
        zep_buf_printf(b, *text == '"' ? "%c\"" : "%c", *text);
    zep_buf_puts(b, "\"");
}

static void put_csv_ratio(struct zep_buf *b, double ratio)
{
    if (ratio > 0)
        zep_buf_printf(b, "%.2f", ratio);
    zep_buf_puts(b, ",");
}

int zep_sweep_to_csv(const struct zep_sweep *s, struct zep_buf *b, struct zep_error *err)
{
    for (int i = 0; i < s->n_axis; i++)
        zep_buf_printf(b, "%s,", column(s->axis[i].key));
    zep_buf_puts(b, "method,step_s,tokens_s_device,over_te_cp,over_best_rival,imbalance,node_bytes,network_bytes,memory_bytes,error\n");
    for (int i = 0; i < s->n_point; i++)
        for (int m = 0; m < s->n_method; m++) {
            const struct zep_sweep_point *p = &s->point[i];
            const struct zep_sweep_row *r = &p->row[m];

            for (int k = 0; k < s->n_axis; k++)
                if (s->axis[k].key == ZEP_SWEEP_DIST)
                    zep_buf_printf(b, "%s,", s->axis[k].text[p->at[k]]);
                else
                    zep_buf_printf(b, "%.15g,", s->axis[k].value[p->at[k]]);
            zep_buf_printf(b, "%s,", s->method[m]);
            if (!(r->step_s > 0)) {
                zep_buf_puts(b, ",,,,,,,,");
                put_quoted(b, *p->why ? p->why : r->why);
                zep_buf_puts(b, "\n");
                continue;
            }
            zep_buf_printf(b, "%.6g,%.6g,", r->step_s, r->tokens_s_dev);
            put_csv_ratio(b, r->over_te_cp);
            put_csv_ratio(b, r->over_rival);
            zep_buf_printf(b, "%.4f,%.6g,%.6g,%.6g,\n", r->imbalance, r->node_bytes, r->net_bytes, r->mem_bytes);
        }
    return zep_buf_ok(b, err);
}

static json_t *row_json(const char *method, const struct zep_sweep_row *r)
{
    json_t *o = json_pack("{s:s}", "method", method);

    if (!(r->step_s > 0)) {
        json_object_set_new(o, "error", json_string(r->why));
        return o;
    }
    json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "step_s", r->step_s, "tokens_s_device", r->tokens_s_dev, "imbalance", r->imbalance, "node_bytes", r->node_bytes, "network_bytes", r->net_bytes, "memory_bytes",
                                        r->mem_bytes));
    if (r->over_te_cp > 0)
        json_object_set_new(o, "over_te_cp", json_real(r->over_te_cp));
    if (r->over_rival > 0)
        json_object_set_new(o, "over_best_rival", json_real(r->over_rival));
    return o;
}

static json_t *point_json(const struct zep_sweep *s, const struct zep_sweep_point *p)
{
    json_t *o = json_object(), *methods = json_array();

    for (int i = 0; i < s->n_axis; i++) {
        const struct zep_sweep_axis *x = &s->axis[i];
        double v = x->value[p->at[i]];

        json_object_set_new(o, column(x->key),
                            x->key == ZEP_SWEEP_DIST ? json_string(x->text[p->at[i]]) : x->key == ZEP_SWEEP_NIC || x->key == ZEP_SWEEP_SLACK ? json_real(v) : json_integer((json_int_t)v));
    }
    if (*p->why) {
        json_decref(methods);
        json_object_set_new(o, "error", json_string(p->why));
        return o;
    }
    for (int m = 0; m < s->n_method; m++)
        json_array_append_new(methods, row_json(s->method[m], &p->row[m]));
    json_object_set_new(o, "devices", json_integer(p->n_dev));
    json_object_set_new(o, "batch_tokens", json_integer((json_int_t)p->n_token));
    json_object_set_new(o, "capacity", json_integer((json_int_t)p->capacity));
    json_object_set_new(o, "device_memory_bytes", json_real(p->mem_bytes));
    json_object_set_new(o, "methods", methods);
    return o;
}

int zep_sweep_to_json(const struct zep_sweep *s, struct zep_buf *b, struct zep_error *err)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:b, s:[], s:[]}", "format", "zeppelin-sweep/1.0", "model", s->model, "device", s->device, "calibrated", s->calibrated, "keys", "points");
    char *text;

    for (int i = 0; i < s->n_axis; i++)
        json_array_append_new(json_object_get(root, "keys"), json_string(column(s->axis[i].key)));
    for (int i = 0; i < s->n_point; i++)
        json_array_append_new(json_object_get(root, "points"), point_json(s, &s->point[i]));
    text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return zep_error_nomem(err, "sweep");
    zep_buf_printf(b, "%s\n", text);
    free(text);
    return zep_buf_ok(b, err);
}
