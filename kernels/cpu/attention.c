/* attention.c: the rows of scores of attention for one instruction set, in the order [B2.14]: softmax with its maximum
 * and sum, its derivative. The products before and after are the GEMM's. The same loops (attention_type.h) for f32 and
 * f64. Exports attention_level_<level>. */
#include "kernels/cpu/reduce.h"
#include "kernels/levels.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

REDUCE_UNARY(sum, f32)
REDUCE_UNARY(sum, f64)

#define T f32
#include "kernels/cpu/attention_type.h"
#undef T
#define T f64
#include "kernels/cpu/attention_type.h"
#undef T

extern const AttentionLevel PASTE(attention_level_, KERNEL_LEVEL);
const AttentionLevel PASTE(attention_level_, KERNEL_LEVEL) = {{attention_softmax_f32, attention_softmax_f64},
                                                              {attention_slope_f32, attention_slope_f64},
                                                              {attention_add_f32, attention_add_f64},
                                                              {attention_finite_f32, attention_finite_f64}};
