/* decomp.h: what decompositions are written with. A rule emits other ops on any builder (eager,
 * graph) and puts the results into outs; NULL values pass through, so a rule needs to look for
 * errors only at its end (decomp_done).
 *
 * Half dtypes: a decomposition computes in f32 and casts back once at the end, as one op would
 * [semantics B5]. */
#ifndef SINTER_PASSES_RULES_DECOMP_H
#define SINTER_PASSES_RULES_DECOMP_H
#include "passes/passes.h"
#include "runtime/base/error.h"

static inline bool dtype_is_half(DType dtype) { return dtype == DT_f16 || dtype == DT_bf16; }

Val *in_dtype(Builder *b, Val *x, DType dtype); /* x itself if it has the dtype */
Val *widened(Builder *b, Val *x);               /* half dtypes to f32; NULL stays NULL */
/* A wider dtype, which holds the squares of all numbers: f16 to f32, others to f64; NULL stays NULL. */
Val *squarable(Builder *b, Val *x);
/* x over dims (ints, or A_NONE for all) by the power of two at or below its largest element (least: its smallest) in
 * size, so that powers of it neither overflow nor vanish. The quotient is exact where it is no denormal. */
typedef struct Scaled {
    Val *x, *by; /* with size-1 dims; NULL: 1 */
} Scaled;
Scaled scaled_over(Builder *b, Val *x, Arg dims, bool least);
/* squarable(x), scaled where x is f64, which has no wider dtype. */
Scaled scaled_f64(Builder *b, Val *x, Arg dims);
/* y times what x was divided by, y: over the same dims. */
Val *unscaled(Builder *b, Val *y, const Scaled *scale);
Val *sum_over(Builder *b, Val *x, const int64_t *dims, int n, bool keepdim); /* n 0: all dims */
/* The first two moments of floats over dims, in x's dtype, for every op that normalises or gives a variance. The mean
 * is rounded, so the deviations from it do not add up to 0: what that adds to their squares is taken off again (their
 * sum squared over n), which matters where values differ little beside their mean. Never below 0, infinite where a
 * square overflows. Both sums belong to one phase of a kernel. */
typedef struct Moments {
    Val *mean, *away; /* with size-1 dims; x - mean */
    Val *squares;     /* sum of away * away, corrected; with size-1 dims if `keepdim` */
} Moments;
/* count: how many elements are under one mean; dims: ints or A_NONE for all. */
Moments moments_over(Builder *b, Val *x, Arg dims, Arg count, Arg keepdim);
/* A view where strides allow, else of a copy. */
Val *reshaped(Builder *b, Val *x, const int64_t *sizes, int n);
/* Of like's dtype, on its device; the second has like's sizes but one. */
/* A number that may be an expression of sizes, as a 0-dim tensor. */
Val *number_tensor(Builder *b, int64_t n, DType dtype, Device device);
Val *zeros_of_sizes(Builder *b, const Meta *like, const int64_t *sizes, int n);
Val *zeros_along(Builder *b, const Meta *like, int64_t dim, int64_t size);
Val *reduced_loss(Builder *b, Val *each,
                  int64_t reduction);     /* REDUCTION_: itself, the mean, the sum; NULL stays NULL */
Val *made_contiguous(Builder *b, Val *x); /* x itself, or a copy */
/* x in the strides that the row's meta rule gives result i of this call: x itself, or a copy. */
Val *in_layout_of(Builder *b, const OpRow *row, const Arg *args, int i, Val *x);
/* A number that a rule only computes with: a float, or the parameter that it is [OPF_passes_numbers]. */
static inline Arg real_number(const Arg *a) { return a->kind == ARG_runtime ? *a : F(arg_double(a)); }
Val *optional(const Arg *a);                               /* NULL where None */
int dim_of(const Arg *a, int rank);                        /* wrapped; rank 0 counts as 1 */
Status decomp_done(Val **outs, int n, Val *const *values); /* error_pending() if one is missing */
static inline Status done1(Val **outs, Val *value) { return decomp_done(outs, 1, &value); }

#endif
