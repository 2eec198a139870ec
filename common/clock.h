#ifndef ZEP_COMMON_CLOCK_H
#define ZEP_COMMON_CLOCK_H

/* Seconds on the monotonic clock. */
double zep_clock_now(void);
/* Seconds since the epoch. */
double zep_clock_wall(void);

#endif
