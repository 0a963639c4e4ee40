/* Autocast is a layer that casts: above autograd, it casts the arguments of products to bf16 and those of sums of many
 * terms to f32, then redispatches. The ops themselves know nothing of it. */
#include <stdio.h>

#include "tour.h"

static const char *name_of(sn_dtype dtype) { return dtype == SN_BF16 ? "bf16" : dtype == SN_F32 ? "f32" : "another"; }

void tour_autocast(void) {
    sn_tensor *const a = sn_ones(SN_INTS(4, 8), SN_F32), *const b = sn_ones(SN_INTS(8, 4), SN_F32);
    const sn_scope region = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    printf("  a product of f32 in a region of bf16:\n");
    tour_trace_begin();
    sn_tensor *const product = sn_mm(a, b);
    tour_trace_end();
    printf("  its result is %s; that of a softmax of it %s\n", name_of(sn_dtype_of(product)),
           name_of(sn_dtype_of(sn_softmax(product, -1))));
    sn_scope_end(region);
    printf("  behind the region it is %s again\n", name_of(sn_dtype_of(sn_mm(a, b))));
}
