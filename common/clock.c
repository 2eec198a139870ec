#include "config.h"
#include "common/clock.h"

#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

double zep_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double zep_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}
