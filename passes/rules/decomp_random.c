/* decomp_random.c: distributions made of uniform and normal numbers (ops/random.def). What bends them is computed in
 * f64, of whose uniform numbers 0 is 2^-53 likely. */
#include <math.h>

#include "ir/op_ids.h"
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_random, decomp_uniform, decomp_normal, decomp_normal_of, decomp_normal_sized, decomp_exponential;
DecompFn decomp_geometric, decomp_cauchy, decomp_log_normal, decomp_multinomial;

static Val *uniform_like(Builder *b, Val *x, DType dtype) { return E(b, rand_like, V(x), I(dtype)); }
static Val *normal_like(Builder *b, Val *x, DType dtype) { return E(b, randn_like, V(x), I(dtype)); }
static DType wide_dtype(DType dtype) { return dtype_is_half(dtype) ? DT_f32 : dtype; }

/* y mean + x deviations from it. */
static Val *shifted(Builder *b, Val *x, Arg factor, Arg start) {
    return E(b, add_Tensor, V(E(b, mul_Tensor, V(x), factor)), start);
}

/* Ends are numbers: (self, from, to) */
Status decomp_random(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = args[0].val->meta->dtype;
    const int from = op_param_find(row, "from"), to = op_param_find(row, "to");
    const int64_t largest = dtype == DT_bool        ? 1
                            : dtype == DT_i64       ? INT64_MAX - 1
                            : dtype_is_float(dtype) ? 0
                                                    : dtype_largest(dtype);
    const int bits = dtype == DT_f64 ? 53 : dtype == DT_f32 ? 24 : dtype == DT_f16 ? 11 : 8;
    const int64_t end = dtype_is_float(dtype) ? (INT64_C(1) << bits) + 1 : largest + 1;
    const Arg high = to >= 0 && args[to].kind == ARG_int ? args[to] : I(end);
    return done1(outs, E(b, randint_like_low_dtype, args[0], from >= 0 ? args[from] : I(0), high));
}

/* (self, from, to) */
Status decomp_uniform(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = args[0].val->meta->dtype;
    Val *const unit = widened(b, uniform_like(b, args[0].val, dtype));
    const double from = arg_double(&args[1]), to = arg_double(&args[2]);
    return done1(outs, in_dtype(b, shifted(b, unit, F(to - from), F(from)), dtype));
}

/* (self, mean, std) */
static Val *normals(Builder *b, const Arg *args) {
    Val *const unit = normal_like(b, args[0].val, wide_dtype(args[0].val->meta->dtype));
    return shifted(b, unit, args[2], args[1]);
}
Status decomp_normal(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, in_dtype(b, normals(b, args), args[0].val->meta->dtype));
}
Status decomp_log_normal(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, in_dtype(b, E(b, exp, V(normals(b, args))), args[0].val->meta->dtype));
}

/* Infinite ones pass the check as the largest number. */
static Val *deviations(Builder *b, Val *std) {
    if (!std) return NULL;
    const double most = dtype_largest_float(std->meta->dtype);
    Val *const checked = E(b, weights, V(E(b, clamp_max, V(std), F(most))));
    return E(b, where_self, V(E(b, eq_Tensor, V(std), F(INFINITY))), V(std), V(checked));
}

/* (mean, std) */
Status decomp_normal_of(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    MetaOut out;
    MetaCall call = {.row = row, .args = args, .env = b->env, .out = &out, .n_out = 1};
    TRY(op_meta(&call));
    const Arg mean = args[0].kind == ARG_tensor ? V(widened(b, args[0].val)) : args[0];
    const Arg std = args[1].kind == ARG_tensor ? V(deviations(b, widened(b, args[1].val))) : args[1];
    Val *const unit = E(b, randn, A_INTS(out.sizes, out.rank), I(wide_dtype(out.dtype)), A_NONE, I(out.device));
    return done1(outs, in_dtype(b, shifted(b, unit, std, mean), out.dtype));
}

/* (mean, std, size, generator, options) */
Status decomp_normal_sized(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg *const options = &args[row->options];
    const DType dtype = options[0].kind == ARG_int && options[0].i ? (DType)options[0].i : DT_f32;
    Val *const unit = E(b, randn, args[2], I(wide_dtype(dtype)), A_NONE, options[2]);
    return done1(outs, in_dtype(b, shifted(b, unit, args[1], args[0]), dtype));
}

/* -log of uniform numbers in (0, 1], in f64; never 0. */
static Val *waits(Builder *b, Val *like) {
    Val *const unit = E(b, rsub_Tensor, V(uniform_like(b, like, DT_f64)), F(1));
    return E(b, clamp_min, V(E(b, neg, V(E(b, log, V(unit))))), F(0x1p-54));
}

/* (self, lambd) */
Status decomp_exponential(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const wait = E(b, div_Tensor, V(waits(b, args[0].val)), args[1]);
    return done1(outs, in_dtype(b, wait, args[0].val->meta->dtype));
}

/* (self, p) */
Status decomp_geometric(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const double rate = -log1p(-arg_double(&args[1]));
    Val *const trials = E(b, ceil, V(E(b, div_Tensor, V(waits(b, args[0].val)), F(rate))));
    return done1(outs, in_dtype(b, trials, args[0].val->meta->dtype));
}

/* (self, median, sigma) */
Status decomp_cauchy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const double pi = 3.14159265358979323846;
    Val *const angle = shifted(b, uniform_like(b, args[0].val, DT_f64), F(pi), F(-pi / 2));
    return done1(outs, in_dtype(b, shifted(b, E(b, tan, V(angle)), args[2], args[1]), args[0].val->meta->dtype));
}

/* Weights of f64, of which each row has one above 0. */
static Val *checked_weights(Builder *b, Val *self) {
    Val *const each = E(b, weights, V(in_dtype(b, self, DT_f64)));
    Val *const sum = E(b, sum_dim_IntList, V(each), A_INTS(&(int64_t){-1}, 1), A_BOOL(true));
    E(b, weights, V(E(b, where_self, V(E(b, gt_Tensor, V(sum), F(0))), V(sum), F(-1))));
    return each;
}

/* The largest of weights over waits come first, each by its weight. */
static Val *drawn_once(Builder *b, Val *each, const Arg *n) {
    Val *const rank = E(b, div_Tensor, V(each), V(waits(b, each))), *both[2] = {NULL};
    if (n->i == 1) return E(b, argmax, V(rank), I(-1), A_BOOL(true));
    if (!rank || emit(b, OP_topk, (const Arg[]){V(rank), *n, I(-1)}, 3, both) != ST_OK) return NULL;
    return both[1];
}

/* Where a share of the whole falls among the sums of the weights up to each. */
static Val *drawn_again(Builder *b, Val *each, const Arg *n) {
    if (!each) return NULL;
    int64_t sizes[2] = {each->meta->sizes[0], n->i};
    if (each->meta->rank == 1) sizes[0] = n->i;
    const int64_t classes = each->meta->sizes[each->meta->rank - 1];
    Val *const sums = E(b, cumsum, V(each), I(-1));
    Val *const whole = E(b, slice_Tensor, V(sums), I(-1), I(sym_sub(b->env, classes, 1)), I(classes));
    Val *const unit = E(b, rand, A_INTS(sizes, each->meta->rank), I(DT_f64), A_NONE, I(each->meta->device));
    Val *const at =
        E(b, searchsorted_Tensor, V(sums), V(E(b, mul_Tensor, V(unit), V(whole))), A_BOOL(false), A_BOOL(true));
    return E(b, clamp_max, V(at), I(sym_sub(b->env, classes, 1)));
}

/* (self, num_samples, replacement) */
Status decomp_multinomial(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const each = checked_weights(b, args[0].val);
    return done1(outs, args[2].i ? drawn_again(b, each, &args[1]) : drawn_once(b, each, &args[1]));
}
