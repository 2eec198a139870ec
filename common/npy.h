/* Arrays as NumPy's .npy files, version 1.0, always little-endian and in C order: what numpy.load, and readers of the format in other languages, take. */
#ifndef ZEP_COMMON_NPY_H
#define ZEP_COMMON_NPY_H

#include <stdint.h>
#include "common/buf.h"

/* A file of the shape n (n_col < 0) or n x n_col: its header and its values go to the end of the buffer, which remembers a failure. */
void zep_npy_i64(struct zep_buf *b, const int64_t *x, int64_t n, int64_t n_col);
void zep_npy_i32(struct zep_buf *b, const int32_t *x, int64_t n, int64_t n_col);

#endif
