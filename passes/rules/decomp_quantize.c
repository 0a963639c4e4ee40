/* decomp_quantize.c: rounding to a grid of integers. One Grid serves all forms: its scale and zero point are numbers,
 * 0-dim tensors, or tensors that broadcast along a dim. The arithmetic
 * is PyTorch's, in f32 (f64 of f64), where the ints in between are exact. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_fake_quantize, decomp_fake_quantize_qparams, decomp_fake_quantize_channel, decomp_fake_quantize_mask,
    decomp_fake_quantize_enabled, decomp_fake_quantize_channel_mask, decomp_quantize, decomp_quantize_qparams,
    decomp_quantize_channel, decomp_dequantize, decomp_dequantize_qparams, decomp_dequantize_channel, decomp_int_mm;

typedef struct Grid {
    Arg scale; /* in f32 */
    Arg zero;
} Grid;

/* A scale that is a parameter is rounded where it is, with the bits that the host would give. */
static Grid grid_of_numbers(Builder *b, const Meta *x, const Arg *scale, const Arg *zero) {
    if (scale->kind != ARG_runtime) return (Grid){F((float)arg_double(scale)), *zero};
    const int64_t none = 0;
    Val *const one = E(b, ones, A_INTS(&none, 0), I(DT_f32), A_NONE, I(x->device));
    return (Grid){V(E(b, mul_Tensor, V(one), *scale)), *zero};
}

/* Zero points in the dtype that is computed in: a 0-dim int among floats has no batching rule. */
static Grid grid_of_tensors(Builder *b, DType dtype, const int64_t *sizes, int rank, const Arg *scale,
                            const Arg *zero) {
    const DType wide = dtype == DT_f64 ? DT_f64 : DT_f32;
    Val *const z = optional(zero);
    return (Grid){V(reshaped(b, scale->val, sizes, rank)),
                  z ? V(in_dtype(b, reshaped(b, z, sizes, rank), wide)) : I(0)};
}

static Grid grid_of_elements(Builder *b, DType dtype, const Arg *scale, const Arg *zero) {
    return grid_of_tensors(b, dtype, NULL, 0, scale, zero);
}

static Grid grid_along(Builder *b, const Meta *x, DType dtype, const Arg *scale, const Arg *zero, const Arg *axis) {
    const int dim = dim_of(axis, x->rank);
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < x->rank; d++) sizes[d] = d == dim ? x->sizes[d] : 1;
    return grid_of_tensors(b, dtype, sizes, x->rank, scale, zero);
}

/* What x is multiplied by, in f32. */
static Arg inverse_of(Builder *b, const Arg *scale) {
    return scale->kind == ARG_float ? F(1.0f / (float)scale->f) : V(E(b, reciprocal, *scale));
}

typedef struct Rounded {
    Val *limited, *inside; /* the int, as a float; was it in the range */
} Rounded;

/* low and high: ints. What is not at least low is low: a NaN, too. */
static Rounded rounded(Builder *b, Val *x, const Grid *grid, const Arg *low, const Arg *high) {
    Val *const whole = E(b, round, V(E(b, mul_Tensor, V(widened(b, x)), inverse_of(b, &grid->scale))));
    Val *const q = E(b, add_Tensor, V(whole), grid->zero);
    Val *const above = E(b, ge_Tensor, V(q), *low), *const below = E(b, le_Tensor, V(q), *high);
    Val *const limited = E(b, clamp_max, V(E(b, fmax, V(q), *low)), *high);
    return (Rounded){limited, E(b, logical_and, V(above), V(below))};
}

static Val *value_on_grid(Builder *b, Val *q, const Grid *grid) {
    return E(b, mul_Tensor, V(E(b, sub_Tensor, V(q), grid->zero)), grid->scale);
}

/* fake_quantize ------------------------------------------------------------------------------- */

/* `range`: quant_min, behind it quant_max. on: NULL, or whether anything is done at all. */
static Status fake(Builder *b, const Arg *args, const Grid *grid, const Arg *range, Val *on, Val **outs) {
    Val *const x = args[0].val;
    const Rounded r = rounded(b, x, grid, &range[0], &range[1]);
    Val *y = r.limited ? in_dtype(b, value_on_grid(b, r.limited, grid), x->meta->dtype) : NULL, *mask = r.inside;
    if (on) {
        y = E(b, where_self, V(on), V(y), V(x));
        mask = E(b, logical_or, V(mask), V(E(b, logical_not, V(on))));
    }
    return decomp_done(outs, 2, (Val *const[]){y, mask});
}

Status decomp_fake_quantize_mask(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_of_numbers(b, args[0].val->meta, &args[1], &args[2]);
    return fake(b, args, &grid, &args[3], NULL, outs);
}

Status decomp_fake_quantize_enabled(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_of_elements(b, args[0].val->meta->dtype, &args[1], &args[2]);
    Val *const on = E(b, ne_Tensor, V(reshaped(b, args[3].val, NULL, 0)), I(0));
    return on ? fake(b, args, &grid, &args[4], on, outs) : error_pending();
}

Status decomp_fake_quantize_channel_mask(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_along(b, args[0].val->meta, args[0].val->meta->dtype, &args[1], &args[2], &args[3]);
    return fake(b, args, &grid, &args[4], NULL, outs);
}

/* The first result of the row that gives the mask as well, which the backward needs. */
static Status first_of_two(Builder *b, OpId op, const Arg *args, int n, Val **outs) {
    Val *both[2] = {0};
    TRY(emit(b, op, args, n, both));
    return done1(outs, both[0]);
}

Status decomp_fake_quantize(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return first_of_two(b, OP_fake_quantize_per_tensor_affine_cachemask, args, 5, outs);
}

Status decomp_fake_quantize_qparams(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int64_t none = 0;
    Val *const on = E(b, ones, A_INTS(&none, 0), I(DT_i64), A_NONE, I(args[0].val->meta->device));
    const Arg all[] = {args[0], args[1], args[2], V(on), args[3], args[4]};
    return first_of_two(b, OP__fake_quantize_per_tensor_affine_cachemask_tensor_qparams, all, 6, outs);
}

Status decomp_fake_quantize_channel(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return first_of_two(b, OP_fake_quantize_per_channel_affine_cachemask, args, 6, outs);
}

/* to ints and back ---------------------------------------------------------------------------- */

/* `range`: quant_min, quant_max, dtype */
static Status to_ints(Builder *b, const Arg *args, const Grid *grid, const Arg *range, Val **outs) {
    Val *const q = rounded(b, args[0].val, grid, &range[0], &range[1]).limited;
    return done1(outs, in_dtype(b, q, (DType)range[2].i));
}

Status decomp_quantize(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_of_numbers(b, args[0].val->meta, &args[1], &args[2]);
    return to_ints(b, args, &grid, &args[3], outs);
}

Status decomp_quantize_qparams(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_of_elements(b, args[0].val->meta->dtype, &args[1], &args[2]);
    return to_ints(b, args, &grid, &args[3], outs);
}

Status decomp_quantize_channel(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_along(b, args[0].val->meta, args[0].val->meta->dtype, &args[1], &args[2], &args[3]);
    return to_ints(b, args, &grid, &args[4], outs);
}

static DType float_of(const Arg *dtype) { return dtype->kind == ARG_none ? DT_f32 : (DType)dtype->i; }

/* In f32, or f64 where that is wanted, and rounded once to the halves. */
static Status to_floats(Builder *b, const Arg *args, const Grid *grid, const Arg *dtype, Val **outs) {
    const DType out = float_of(dtype);
    Val *const wide = in_dtype(b, args[0].val, dtype_is_half(out) ? DT_f32 : out);
    return done1(outs, wide ? in_dtype(b, value_on_grid(b, wide, grid), out) : NULL);
}

Status decomp_dequantize(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_of_numbers(b, args[0].val->meta, &args[1], &args[2]);
    return to_floats(b, args, &grid, &args[6], outs);
}

Status decomp_dequantize_qparams(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_of_elements(b, float_of(&args[6]), &args[1], &args[2]);
    return to_floats(b, args, &grid, &args[6], outs);
}

Status decomp_dequantize_channel(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Grid grid = grid_along(b, args[0].val->meta, float_of(&args[7]), &args[1], &args[2], &args[3]);
    return to_floats(b, args, &grid, &args[7], outs);
}

/* i32 holds every product of bytes; sums wrap as i32's do, beyond 2^16 terms. */
Status decomp_int_mm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, mm, V(in_dtype(b, args[0].val, DT_i32)), V(in_dtype(b, args[1].val, DT_i32))));
}
