#include "kernels/cpu/vec_plain.h"

#include "kernels/cpu/ops_impl.h"
