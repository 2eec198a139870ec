#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/ops_impl.h"
