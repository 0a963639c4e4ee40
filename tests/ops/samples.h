/* samples.h: inputs for the op tests, as text. Every word of the column `samples` of ir/ops.def is one constant
 * `samples_<word>` in samples_<family>.c, found through a table pasted from ops.def: a word without samples does not
 * link. A line is the arguments of one call, in schema order, separated by spaces:
 *
 *   x[4,5]     a tensor of the dtype under test, values of both signs       X[4,5]  the same; dim 0 is a batch
 *   p[4] u[4]  the same, positive; between -0.9 and 0.9                     P U
 *   q[4]       a probability: between 0.1 and 0.9                           Q
 *   w[4]       positive, and no gradient is wanted
 *   m[4]       bools          i<5[3]  i64 from 0 to 4                       M I<5[3]
 *   f32[2]     a tensor of that dtype; integers from 0 to 3 where the dtype is an integer one
 *   (x[2],none) a list of tensors   [1,-1] ints   'tanh' a string   :f32 a dtype; :x the tested one
 *   1  0.5  true  none                     dim=1 by name
 *
 * "gelu_backward: x[3] x[3]" speaks of that row only; a row with lines of its own takes no others. */
#ifndef SINTER_TESTS_OPS_SAMPLES_H
#define SINTER_TESTS_OPS_SAMPLES_H
#include <sinter/ops.h>

#include "runtime/core/dispatch.h"

typedef struct BadSample {
    const char *text;
    Status status;    /* of the error */
    const char *says; /* a part of its message: the argument or values at fault */
} BadSample;

typedef struct Samples {
    const char *const *good;    /* ends in NULL, like the others */
    const char *const *batched; /* calls whose results' dim 0 is the batch: a row alone has the same bits [B7] */
    const BadSample *bad;
} Samples;
#define SAMPLE_LINES(...)                                                                                              \
    (const char *const[]) { __VA_ARGS__, NULL }
#define SAMPLE_BAD(...)                                                                                                \
    (const BadSample[]) {                                                                                              \
        __VA_ARGS__, { 0 }                                                                                             \
    }

const Samples *samples_of(const OpRow *row); /* an alias': those of its row */
/* The next line of a list that speaks of the row, from *at on; NULL at the end. */
const char *samples_next(const OpRow *row, const char *const *lines, int *at);
/* Named or, where none of a list is, unnamed. */
bool sample_is_for(const OpRow *row, const char *line);

typedef enum Layout {
    LAYOUT_contiguous,
    LAYOUT_transposed, /* dims in reverse order */
    LAYOUT_sliced,     /* an inner part, every other element of the last dim, at an offset */
    LAYOUT_expanded,   /* stride 0 in dim 0 */
    LAYOUT_COUNT
} Layout;
const char *layout_name(Layout layout);

enum { SAMPLE_TENSORS = 12, SAMPLE_INTS = 64, SAMPLE_CHARS = 64 };
typedef struct SampleCall {
    const OpRow *row;
    Arg given[MAX_ARGS];                /* as written: a list of one int lies in it */
    Arg args[MAX_ARGS];                 /* normalised */
    sn_tensor *tensors[SAMPLE_TENSORS]; /* in order of the text */
    bool batched[SAMPLE_TENSORS];
    int n_tensors;
    Val *vals[SAMPLE_TENSORS];
    int64_t ints[SAMPLE_INTS];
    char chars[SAMPLE_CHARS];
    int n_vals, n_ints, n_chars;
} SampleCall;

/* Where floats are drawn from, if not by their letter: 0.2 to 2, -0.9 to 0.9, 1.2 to 3. */
typedef enum Range { RANGE_usual, RANGE_positive, RANGE_unit, RANGE_above, RANGE_COUNT } Range;

/* Other sizes for a line's: s * times + plus for each above 1, or for those that are `only`, if that is not 0; the
 * first that speaks of a size. */
typedef struct Resize {
    int64_t only, times, plus;
    const struct Resize *also;
} Resize;

/* How the tensors of a line are made. */
typedef struct SampleStyle {
    DType dtype;
    Layout layout;
    bool special; /* NaNs, infinities, zeros and denormals among the floats */
    bool leaves;  /* floats require gradients */
    Range range;
    bool wide;  /* x and p: sizes from 0.001 to 10^10 */
    bool loose; /* bools that are true are any bytes but 0 */
    uint64_t seed;
    const Arg *number; /* NULL, or what parameter `number_at` gets instead of the line's */
    int number_at;
    const Resize *resize; /* NULL: the sizes of the line */
} SampleStyle;

/* Makes the call; the error of op_args_normalize stays pending. Tensors belong to the innermost scope. */
Status sample_make(const OpRow *row, const char *line, const SampleStyle *style, SampleCall *call);
/* The normalised call with other tensors in the place of its own. */
void sample_with(const SampleCall *call, sn_tensor *const *tensors, SampleCall *other);
/* outs: room for MAX_LIST; *n_outs: how many. */
Status sample_run(const SampleCall *call, sn_tensor **outs, int *n_outs);

#endif
