#include "kernels/cpu/vec_plain.h"

#include "kernels/cpu/attn_impl.h"
#include "kernels/cpu/attn_bwd_impl.h"
