/* conv_product.h: convolutions as products that read their patches from the lines of conv_lines.h by offsets: no patch
 * is copied. The order is that of cpu_convolution.c [B2.4]. */
#ifndef SINTER_RUNTIME_CPU_CONV_PRODUCT_H
#define SINTER_RUNTIME_CPU_CONV_PRODUCT_H
#include "runtime/cpu/conv_sums.h"

/* Of a sum with a dense source: whether it may, and most of what would be computed is kept. */
bool conv_product_serves(const ConvSum *s);
Status conv_product_run(ConvSum *s);

#endif
