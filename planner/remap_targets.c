/* Targets of a remap: how many tokens each device shall hold in the linear layout. */
#include "config.h"
#include "planner/plan_internal.h"

#include <math.h>

#define N_HALVING 60

struct fill {
    const int64_t *tok; /* attention layout */
    const struct zep_view *view;
    const struct zep_plan_opts *opts;
    const double *busy_s; /* NULL: none are busy */
    double token_s;
    int by_speed;
    int d0, d1;
};

static double busy_of(const struct fill *f, int d)
{
    return f->busy_s ? f->busy_s[d] : 0;
}

static double token_of(const struct fill *f, int d)
{
    return f->by_speed ? f->token_s / zep_view_speed(f->view, d) : f->token_s;
}

/* Tokens that the devices hold at most if all are done at level_s. */
static int64_t hold(const struct fill *f, double level_s, int64_t *want)
{
    int64_t sum = 0;

    for (int d = f->d0; d < f->d1; d++) {
        double t = floor((level_s - busy_of(f, d)) / token_of(f, d));
        int64_t cap = zep_opts_capacity(f->opts, d);

        want[d] = t <= 0 ? 0 : t >= (double)cap ? cap : (int64_t)t;
        sum += want[d];
    }
    return sum;
}

/* The devices [d0, d1) among themselves: the latest is done as early as can be. Where that gains less than 1 %, nothing moves. */
static void level(const struct fill *f, int64_t *want)
{
    double lo = 0, hi = 0, now = 0;
    int64_t total = 0, left;

    for (int d = f->d0; d < f->d1; d++) {
        double s = busy_of(f, d) + (double)f->tok[d] * token_of(f, d);

        total += f->tok[d];
        now = s > now ? s : now;
    }
    hi = now;
    for (int i = 0; i < N_HALVING; i++) {
        double mid = (lo + hi) / 2;

        *(hold(f, mid, want) >= total ? &hi : &lo) = mid;
    }
    left = total - hold(f, lo, want);
    for (int d = f->d0; d < f->d1 && left > 0; d++) { /* at most one token each, rounding apart */
        int64_t room = zep_opts_capacity(f->opts, d) - want[d], n = left < room ? left : room;

        if (busy_of(f, d) + (double)want[d] * token_of(f, d) > hi)
            continue;
        n = n > 1 && f->d1 - f->d0 > 1 ? 1 : n;
        want[d] += n;
        left -= n;
    }
    for (int d = f->d0; d < f->d1 && left > 0; d++) {
        int64_t room = zep_opts_capacity(f->opts, d) - want[d], n = left < room ? left : room;

        want[d] += n;
        left -= n;
    }
    if (left || hi > 0.99 * now)
        for (int d = f->d0; d < f->d1; d++)
            want[d] = f->tok[d];
}

void zep_remap_targets(const struct zep_view *view, const int64_t *attn_tok, const struct zep_draft *draft, const struct zep_plan_opts *opts, int by_speed, int64_t *want)
{
    struct fill f = {.tok = attn_tok, .view = view, .opts = opts, .by_speed = 1, .busy_s = draft->busy_s, .token_s = draft->token_s, .d0 = 0, .d1 = view->n_dev};

    if (draft->spread == ZEP_SPREAD_EQUAL) {
        f.busy_s = NULL;
        f.token_s = 1;
        f.by_speed = by_speed;
    }
    if (draft->spread != ZEP_SPREAD_NODE) {
        level(&f, want);
        return;
    }
    for (int i = 0; i < view->n_node; i++) {
        f.d0 = view->node_dev0[i];
        f.d1 = view->node_dev0[i + 1];
        level(&f, want);
    }
}
