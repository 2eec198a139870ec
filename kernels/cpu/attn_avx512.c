#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/attn_impl.h"
#include "kernels/cpu/attn_bwd_impl.h"
