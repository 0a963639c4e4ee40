/* conv_taps.h: convolutions of few channels in each group (depthwise ones have one) as sums over taps, where a product
 * of matrices would have a row or two: the input is read once, the borders of an image apart, and nothing is gathered
 * but lines of it. The order is that of cpu_convolution.c [B2.4]. */
#ifndef SINTER_RUNTIME_CPU_CONV_TAPS_H
#define SINTER_RUNTIME_CPU_CONV_TAPS_H
#include "runtime/cpu/conv_sums.h"

/* Whether the tensor is of the compute type and its channels lie beside each other and fill a vector. */
bool conv_pixels_of(const sn_tensor *t, PixelStrides *strides);
/* Of a sum whose source is not dense: whether conv_pixels_run can read it as it is. */
bool conv_pixels_serve(const ConvSum *s);
Status conv_pixels_run(ConvSum *s);

/* Of a sum with a dense source [image, channel, line, position]. */
bool conv_taps_serve(const ConvSum *s);
Status conv_taps_run(ConvSum *s);

/* The gradient of a depthwise weight, but for the + 0 at its end. */
bool conv_taps_weight_serve(const ConvWeightSum *s);
Status conv_taps_weight_run(ConvWeightSum *s);

/* Columns of a line by the taps they can read: from lo on and before hi all. */
typedef struct Inside {
    int64_t lo, hi;
} Inside;
Inside conv_pixels_with_all(const Patches *p);
/* The source lines under line y of columns, by tap of dim 1: NULL is padding. `at` is the image. */
void conv_pixels_lines(const Patches *p, const char *at, int64_t y, int64_t line_bytes, const char **lines);
/* Where taps read, and what each has of its own: `first` and those `apart` elements behind it. */
typedef struct TapList {
    const void **source;
    void **own;
    char *first;
    int64_t apart;
} TapList;
/* The taps that column x reads inside the source, whose positions are `pixel` elements apart; how many. */
int64_t conv_pixels_list(const Patches *p, const char *const *lines, int64_t x, int64_t pixel, const TapList *to);

#endif
