/* The least of many items by an order of the caller's, among those with room: one look is close to logarithmic, as is a change. */
#ifndef ZEP_PLANNER_TOURNAMENT_H
#define ZEP_PLANNER_TOURNAMENT_H

#include <stdint.h>
#include "common/error.h"

/* A strict order of all items. It may change for an item only together with zep_tournament_set or _remove of that item. */
typedef int (*zep_less_fn)(const void *arg, int a, int b);

struct zep_tournament {
    zep_less_fn less;
    const void *arg;
    int width;     /* leaves, a power of two */
    int32_t *win;  /* [2 * width] the least item below each place, -1 none */
    int64_t *room; /* [2 * width] the most room below */
};

/* n items, none of them in it. */
int zep_tournament_init(struct zep_tournament *t, int n, zep_less_fn less, const void *arg, struct zep_error *err);
void zep_tournament_free(struct zep_tournament *t);
void zep_tournament_set(struct zep_tournament *t, int item, int64_t room);
void zep_tournament_remove(struct zep_tournament *t, int item);
/* The least item with at least so much room; -1: none. */
int zep_tournament_find(const struct zep_tournament *t, int64_t room);

#endif
