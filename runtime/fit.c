#include "config.h"
#include "runtime/fit.h"

#include <stdlib.h>

#define MAX_POINTS 64

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double zep_median(int n, double *v)
{
    qsort(v, (size_t)n, sizeof *v, cmp_double);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

int zep_fit_line(int n, const double *x, const double *y, double *intercept_out, double *slope_out)
{
    double slope[MAX_POINTS * (MAX_POINTS - 1) / 2], rest[MAX_POINTS];
    int n_slope = 0;

    if (n > MAX_POINTS)
        n = MAX_POINTS;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (x[i] != x[k])
                slope[n_slope++] = (y[k] - y[i]) / (x[k] - x[i]);
    if (!n_slope)
        return -1;
    *slope_out = zep_median(n_slope, slope);
    for (int i = 0; i < n; i++)
        rest[i] = y[i] - *slope_out * x[i];
    *intercept_out = zep_median(n, rest);
    return 0;
}
