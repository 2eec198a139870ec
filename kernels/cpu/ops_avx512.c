#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/ops_impl.h"
