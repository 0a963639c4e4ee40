/* conv_point.h: convolutions with a kernel of one position, step 1 and no padding are products of matrices as they lie:
 * nothing is gathered. The order is that of cpu_convolution.c, which is a product's [B2.3, B2.4]. */
#ifndef SINTER_RUNTIME_CPU_CONV_POINT_H
#define SINTER_RUNTIME_CPU_CONV_POINT_H
#include "runtime/cpu/conv_sums.h"

/* result[image, m, x] = chain over r of weight[m, r] * source[image, r, x], + 0 + bias */
typedef struct ConvPoint {
    const ConvGeometry *g;
    const sn_tensor *source, *weight, *bias; /* bias: may be NULL */
    sn_tensor *out;
    bool transposed; /* weight is [r, m in group], not [m, r in group] */
} ConvPoint;
/* Whether kernel, step and padding allow it, and positions of these tensors are equally far apart. */
bool conv_point_serves(const ConvGeometry *g, const sn_tensor *a, const sn_tensor *b);
Status conv_point_run(const ConvPoint *c);

/* Elements of a tensor whose positions are equally far apart, from one to the next. */
typedef struct PointLayout {
    int64_t image, channel, position;
    bool merged; /* an image's first position follows the last one of the image before it */
} PointLayout;
bool conv_point_layout(const sn_tensor *t, PointLayout *layout);

#endif
