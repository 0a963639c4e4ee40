/* resample.h: planes in other sizes, dim by dim: what one dim of a resampling is, shared by decomp_resample.c (an
 * element, two or four neighbours) and decomp_smooth.c (all under a filter that grows with the scale). */
#ifndef SINTER_PASSES_RULES_RESAMPLE_H
#define SINTER_PASSES_RULES_RESAMPLE_H
#include "passes/rules/decomp.h"

typedef enum ResampleKind {
    RESAMPLE_nearest,
    RESAMPLE_exact, /* the nearest centre */
    RESAMPLE_linear,
    RESAMPLE_cubic,
    RESAMPLE_smooth_linear, /* antialiased */
    RESAMPLE_smooth_cubic,
    RESAMPLE_smooth_lanczos
} ResampleKind;

/* One dim: `out` positions over `in` elements, both perhaps symbolic; factor 0: none was given. */
typedef struct Resample {
    ResampleKind kind;
    int64_t dim, in, out;
    double factor;
    bool align;
    DType dtype; /* of positions and weights */
} Resample;

/* What the arguments say of spatial dim i: (output_size, [align_corners,] factors...). */
Resample decomp_resample_of(const OpRow *row, const Arg *args, ResampleKind kind, int i, const int64_t *in);
/* Elements of `in` per element of `out`, in the precision that positions have; of known sizes. */
double decomp_resample_step(const Resample *r);
/* Bytes: the largest power of two by which weights are taken as ints of 16 bits, the largest of them `most`. */
int64_t decomp_resample_byte_one(double most);
/* A weight as such an int, halves away from 0. */
Val *decomp_resample_byte_weight(Builder *b, Val *weight, Arg one);

/* x with one dim filtered, and what flows back. Bytes: i32 of 0 to 255, as is the result. */
Val *decomp_smooth_read(Builder *b, Val *x, const Resample *r, bool bytes);
Val *decomp_smooth_add(Builder *b, Val *grad, const Resample *r);

#endif
