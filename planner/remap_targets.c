/* Targets of a remap: how many tokens each device shall hold in the linear layout. */
#include "config.h"
#include "planner/plan_internal.h"

#include <math.h>

#define N_HALVING 60

struct fill {
    const int64_t *tok; /* attention layout */
    const double *busy_s;
    double token_s;
    int64_t cap;
    int d0, d1;
};

/* Tokens that the devices hold at most if all are done at level_s. */
static int64_t hold(const struct fill *f, double level_s, int64_t *want)
{
    int64_t sum = 0;

    for (int d = f->d0; d < f->d1; d++) {
        double t = floor((level_s - f->busy_s[d]) / f->token_s);

        want[d] = t <= 0 ? 0 : t >= (double)f->cap ? f->cap : (int64_t)t;
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
        double s = f->busy_s[d] + (double)f->tok[d] * f->token_s;

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
        int64_t room = f->cap - want[d], n = left < room ? left : room;

        if (f->busy_s[d] + (double)want[d] * f->token_s > hi)
            continue;
        n = n > 1 && f->d1 - f->d0 > 1 ? 1 : n;
        want[d] += n;
        left -= n;
    }
    for (int d = f->d0; d < f->d1 && left > 0; d++) {
        int64_t room = f->cap - want[d], n = left < room ? left : room;

        want[d] += n;
        left -= n;
    }
    if (left || hi > 0.99 * now)
        for (int d = f->d0; d < f->d1; d++)
            want[d] = f->tok[d];
}

void zep_remap_targets(const struct zep_view *view, const int64_t *attn_tok, const struct zep_draft *draft, int64_t cap, int64_t *want)
{
    struct fill f = {.tok = attn_tok, .busy_s = draft->busy_s, .token_s = draft->token_s, .cap = cap, .d0 = 0, .d1 = view->n_dev};

    if (draft->spread == ZEP_SPREAD_ALL) {
        level(&f, want);
        return;
    }
    for (int i = 0; i < view->n_node; i++) {
        f.d0 = view->node_dev0[i];
        f.d1 = view->node_dev0[i + 1];
        level(&f, want);
    }
}
