#include "config.h"
#include "planner/check_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/rng.h"

enum { MAX_HEADS = 4096 };

static const char *const kind_name[] = {"none", "group", "attention", "addition", "copy", "barrier"};

const char *ck_pass_name(enum zep_pass pass)
{
    return pass == ZEP_PASS_FWD ? "forward" : "backward";
}

const char *ck_lane_name(enum zep_lane lane)
{
    return lane == ZEP_LANE_WORLD ? "world lane" : lane == ZEP_LANE_NODE ? "node lane" : lane == ZEP_LANE_GRID ? "grid lane" : "unknown lane";
}

int ck_fail(struct check *ck, const struct ck_where *w, const char *fmt, ...)
{
    char place[200];
    va_list ap;
    int n;

    va_start(ap, fmt);
    zep_error_vset(ck->err, ZEP_EINVAL, fmt, ap);
    va_end(ap);
    n = snprintf(place, sizeof place, "%s, device %d, operation %lld (%s", ck_pass_name(ck->pass), w->dev, (long long)w->index,
                 (unsigned)w->kind < sizeof kind_name / sizeof kind_name[0] ? kind_name[w->kind] : "unknown kind");
    if (w->kind == ZEP_OP_GROUP)
        n += snprintf(place + n, sizeof place - (size_t)n, " of the %s, key %llx", ck_lane_name(w->lane), (unsigned long long)w->key);
    else if (w->kind == ZEP_OP_ATTN || w->kind == ZEP_OP_ADD)
        n += snprintf(place + n, sizeof place - (size_t)n, " of ring %d, step %d", (int)w->ring, (int)w->step);
    snprintf(place + n, sizeof place - (size_t)n, ")");
    zep_error_prefix(ck->err, "%s", place);
    return ZEP_EINVAL;
}

int ck_nomem(struct check *ck)
{
    return zep_error_nomem(ck->err, "proof of a plan");
}

int ck_grow(struct check *ck, void **array, int n, int *cap, size_t size)
{
    void *p;
    int want;

    if (n < *cap)
        return ZEP_OK;
    want = *cap ? 2 * *cap : 16;
    if (want <= *cap || !(p = zep_reallocarray(*array, (size_t)want, size)))
        return ck_nomem(ck);
    *array = p;
    *cap = want;
    return ZEP_OK;
}

uint64_t ck_weight(int seq, int64_t pos)
{
    return zep_splitmix64(zep_splitmix64((uint64_t)seq + 0x51ull) ^ (uint64_t)pos);
}

static int open_devices(struct check *ck)
{
    if (!(ck->dev = zep_calloc((size_t)ck->plan->n_dev, sizeof *ck->dev)) || !(ck->ready = zep_calloc((size_t)ck->plan->n_dev, sizeof *ck->ready)))
        return ck_nomem(ck);
    return ZEP_OK;
}

static void close_devices(struct check *ck)
{
    for (int d = 0; ck->dev && d < ck->plan->n_dev; d++) {
        struct ck_dev *dev = &ck->dev[d];

        free(dev->attn.rows);
        free(dev->lin.rows);
        for (int s = 0; s < ZEP_N_SPACE; s++) {
            for (int i = 0; i < dev->n_buf[s]; i++)
                free(dev->buf[s][i].seg);
            free(dev->buf[s]);
        }
        for (int c = 0; c < ZEP_N_QUEUE + ZEP_N_LANE; c++)
            free(dev->end[c].clk);
        zep_sched_free(dev->sched);
    }
    free(ck->dev);
    free(ck->ready);
    free(ck->route);
    free(ck->rect);
    free(ck->tmp);
}

/* --- heads --- */

/* In how many parts the heads must be thought of so that every ring's parts are whole ones. */
static int count_heads(struct check *ck)
{
    ck->n_head = 1;
    for (int i = 0; i < ck->plan->n_ring; i++) {
        int64_t a = ck->n_head, b = zep_ring_heads(&ck->plan->ring[i]), x = a, y = b;

        while (y) {
            int64_t rest = x % y;

            x = y;
            y = rest;
        }
        if (a / x * b > MAX_HEADS)
            return zep_error_set(ck->err, ZEP_EINVAL, "ring %d: exchanges heads in %d parts, others in %d: together more than %d", i, (int)b, (int)a, MAX_HEADS);
        ck->n_head = (int)(a / x * b);
    }
    return ZEP_OK;
}

/* Does any ring tell these heads from those before them? */
static int new_class(const struct check *ck)
{
    int n = ck->n_head, h = ck->head;

    if (!h)
        return 1;
    for (int i = 0; i < ck->plan->n_ring; i++) {
        int64_t u = zep_ring_heads(&ck->plan->ring[i]);

        if (h * u / n != (h - 1) * u / n)
            return 1;
    }
    return 0;
}

static int both_passes(struct check *ck)
{
    int rc;

    for (int pass = ZEP_PASS_FWD; pass <= ZEP_PASS_BWD; pass++) {
        ck->pass = (enum zep_pass)pass;
        ck->n_rect = 0;
        if ((rc = ck_run(ck)) < 0 || (rc = ck_cover(ck)) < 0)
            return ck->n_head > 1 ? zep_error_prefix(ck->err, "part %d of %d of the heads", ck->head, ck->n_head) : rc;
    }
    return ZEP_OK;
}

int zep_plan_check(const struct zep_plan *plan, const int64_t *len, int n, const struct zep_check_opts *opts, struct zep_check_result *result_out, struct zep_error *err)
{
    struct zep_error local = {0};
    struct check ck = {.plan = plan, .opts = opts, .err = err ? err : &local};
    struct zep_check_result first = {0};
    int rc;

    if ((rc = ck_plan(&ck, len, n)) < 0 || (rc = open_devices(&ck)) < 0 || (rc = ck_layouts(&ck)) < 0 || (rc = count_heads(&ck)) < 0)
        goto out;
    for (; ck.head < ck.n_head; ck.head++) {
        if (!new_class(&ck))
            continue;
        if ((rc = both_passes(&ck)) < 0)
            goto out;
        if (!ck.head)
            first = ck.result;
    }
    if (result_out)
        *result_out = first;
out:
    ck_groups_free(&ck);
    close_devices(&ck);
    return rc;
}

int zep_plan_prove(const struct zep_plan *plan, struct zep_error *err)
{
    int64_t *len = zep_calloc((size_t)plan->n_seq + 1, sizeof *len);
    int rc;

    if (!len)
        return zep_error_nomem(err, "check");
    for (int i = 0; i < plan->n_seq; i++)
        len[i] = plan->seq[i].len;
    rc = zep_plan_check(plan, len, plan->n_seq, NULL, NULL, err);
    free(len);
    return rc < 0 ? zep_error_prefix(err, "the plan is wrong") : ZEP_OK;
}
