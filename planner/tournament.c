#include "config.h"
#include "planner/tournament.h"

#include <stdlib.h>

#include "common/arena.h"

int zep_tournament_init(struct zep_tournament *t, int n, zep_less_fn less, const void *arg, struct zep_error *err)
{
    *t = (struct zep_tournament){.less = less, .arg = arg, .width = 1};
    while (t->width < n)
        t->width *= 2;
    t->win = zep_calloc(2 * (size_t)t->width, sizeof *t->win);
    t->room = zep_calloc(2 * (size_t)t->width, sizeof *t->room);
    if (!t->win || !t->room) {
        zep_tournament_free(t);
        return zep_error_nomem(err, "plan");
    }
    for (int i = 0; i < 2 * t->width; i++)
        t->win[i] = -1;
    return ZEP_OK;
}

void zep_tournament_free(struct zep_tournament *t)
{
    free(t->win);
    free(t->room);
    t->win = NULL;
    t->room = NULL;
}

static void climb(struct zep_tournament *t, int at)
{
    while ((at /= 2) > 0) {
        int l = 2 * at, r = l + 1, right = t->win[l] < 0 || (t->win[r] >= 0 && t->less(t->arg, t->win[r], t->win[l]));

        t->win[at] = t->win[right ? r : l];
        t->room[at] = t->win[l] < 0 || (t->win[r] >= 0 && t->room[r] > t->room[l]) ? t->room[r] : t->room[l];
    }
}

void zep_tournament_set(struct zep_tournament *t, int item, int64_t room)
{
    t->win[t->width + item] = item;
    t->room[t->width + item] = room;
    climb(t, t->width + item);
}

void zep_tournament_remove(struct zep_tournament *t, int item)
{
    t->win[t->width + item] = -1;
    climb(t, t->width + item);
}

static void find(const struct zep_tournament *t, int at, int64_t room, int *best)
{
    int win = t->win[at];

    if (win < 0 || t->room[at] < room || (*best >= 0 && !t->less(t->arg, win, *best)))
        return;
    if (t->room[t->width + win] >= room) {
        *best = win;
        return;
    }
    find(t, 2 * at, room, best); /* a leaf has been decided above */
    find(t, 2 * at + 1, room, best);
}

int zep_tournament_find(const struct zep_tournament *t, int64_t room)
{
    int best = -1;

    find(t, 1, room, &best);
    return best;
}
