#include "config.h"
#include "common/rng.h"

#include <math.h>
#include <string.h>

uint64_t zep_splitmix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

void zep_rng_seed(struct zep_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = zep_splitmix64(seed + (uint64_t)i * 0x9E3779B97F4A7C15u);
}

void zep_rng_seed3(struct zep_rng *rng, uint64_t seed, uint64_t a, uint64_t b)
{
    zep_rng_seed(rng, zep_splitmix64(zep_splitmix64(zep_splitmix64(seed) ^ a) ^ b));
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t zep_rng_u64(struct zep_rng *rng)
{
    uint64_t *s = rng->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t zep_rng_below(struct zep_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x; /* a multiple of n: every remainder is as likely */

    do
        x = zep_rng_u64(rng);
    while (x >= limit);
    return x % n;
}

double zep_rng_double(struct zep_rng *rng)
{
    return (double)(zep_rng_u64(rng) >> 11) * 0x1p-53;
}

double zep_rng_normal(struct zep_rng *rng)
{
    double u = 1.0 - zep_rng_double(rng), v = zep_rng_double(rng); /* u in (0, 1] */

    return sqrt(-2.0 * zep_det_log(u)) * zep_det_cospi(2.0 * v); /* Box and Muller */
}

/* x = k ln 2 + r, |r| <= ln 2 / 2; exp(r) by its series. */
double zep_det_exp(double x)
{
    const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
    double k, r, term = 1.0, sum = 1.0;

    if (isnan(x))
        return x;
    if (x > 709.7)
        return INFINITY;
    if (x < -745.0)
        return 0.0;
    k = floor(x / 6.93147180559945309417e-01 + 0.5);
    r = (x - k * ln2_hi) - k * ln2_lo;
    for (int i = 1; i <= 18; i++) {
        term = term * r / i;
        sum += term;
    }
    return ldexp(sum, (int)k);
}

/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh((m-1)/(m+1)) by its series. */
double zep_det_log(double x)
{
    const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
    double m, s, s2, term, sum;
    int e;

    if (isnan(x) || x < 0.0)
        return NAN;
    if (x == 0.0)
        return -INFINITY;
    if (isinf(x))
        return x;
    m = frexp(x, &e);
    if (m < 0.70710678118654752440) {
        m *= 2.0;
        e--;
    }
    s = (m - 1.0) / (m + 1.0);
    s2 = s * s;
    term = s;
    sum = s;
    for (int i = 3; i <= 41; i += 2) {
        term *= s2;
        sum += term / i;
    }
    return e * ln2_hi + (2.0 * sum + e * ln2_lo);
}

/* Reduced to [0, 1/4] of a half turn; sine or cosine by its series. */
double zep_det_cospi(double x)
{
    const double pi = 3.14159265358979323846;
    double sign = 1.0, t, t2, term, sum;

    x = fabs(x);
    x -= 2.0 * floor(x / 2.0); /* [0, 2) */
    if (x > 1.0)
        x = 2.0 - x;
    if (x > 0.5) {
        x = 1.0 - x;
        sign = -1.0;
    }
    if (x <= 0.25) {
        t = pi * x;
        t2 = t * t;
        sum = term = 1.0;
        for (int i = 1; i <= 12; i++) {
            term = -term * t2 / ((2 * i - 1) * (2 * i));
            sum += term;
        }
    } else {
        t = pi * (0.5 - x); /* cos(pi x) = sin(pi (1/2 - x)) */
        t2 = t * t;
        sum = term = t;
        for (int i = 1; i <= 12; i++) {
            term = -term * t2 / ((2 * i) * (2 * i + 1));
            sum += term;
        }
    }
    return sign * sum;
}
