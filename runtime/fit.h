/* A line through times of transfers that a few bad points do not move. */
#ifndef ZEP_RUNTIME_FIT_H
#define ZEP_RUNTIME_FIT_H

/* Theil-Sen: slope = median of the slopes between all pairs of points with different x, intercept = median of y - slope x. n >= 2 points, at most 64; returns -1 where no two x differ. */
int zep_fit_line(int n, const double *x, const double *y, double *intercept_out, double *slope_out);
/* Median of v[0..n), which is sorted by it. n >= 1. */
double zep_median(int n, double *v);

#endif
