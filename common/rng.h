/* Seeded random numbers, the same on every machine: xoshiro256** seeded by splitmix64. No libm call whose last bit may differ. */
#ifndef ZEP_COMMON_RNG_H
#define ZEP_COMMON_RNG_H

#include <stdint.h>

struct zep_rng {
    uint64_t s[4];
};

void zep_rng_seed(struct zep_rng *rng, uint64_t seed);
/* An independent stream for (seed, a, b): e.g. tensor number and position. */
void zep_rng_seed3(struct zep_rng *rng, uint64_t seed, uint64_t a, uint64_t b);
uint64_t zep_rng_u64(struct zep_rng *rng);
uint64_t zep_rng_below(struct zep_rng *rng, uint64_t n); /* uniform in [0, n), unbiased; n > 0 */
double zep_rng_double(struct zep_rng *rng);              /* uniform in [0, 1), 53 bits */
double zep_rng_normal(struct zep_rng *rng);              /* mean 0, variance 1, by zep_det_log and zep_det_cos */

/* exp, log and cos of a turn made of + - * / and sqrt alone: the same bits everywhere (built with -ffp-contract=off); relative error below 1e-14. */
double zep_det_exp(double x);
double zep_det_log(double x);
double zep_det_cospi(double x); /* cos(pi*x) */

uint64_t zep_splitmix64(uint64_t x);

#endif
