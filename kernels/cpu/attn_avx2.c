#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/attn_impl.h"
#include "kernels/cpu/attn_bwd_impl.h"
