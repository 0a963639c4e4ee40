/* decomp_sort.c: forms of sort; permutations and choices by chance from uniform numbers. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_sort, decomp_argsort, decomp_argsort_stable, decomp_msort, decomp_randperm;
DecompFn decomp_bernoulli, decomp_bernoulli_p, decomp_bernoulli_Tensor;

static bool sorted_along(Builder *b, Val *x, Arg dim, Arg descending, Val **both) {
    return x && emit(b, OP_sort_stable, (const Arg[]){V(x), A_BOOL(true), dim, descending}, 4, both) == ST_OK;
}

Status decomp_sort(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    sorted_along(b, args[0].val, args[1], args[2], both);
    return decomp_done(outs, 2, both);
}
Status decomp_argsort(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    sorted_along(b, args[0].val, args[1], args[2], both);
    return done1(outs, both[1]);
}
Status decomp_argsort_stable(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    sorted_along(b, args[0].val, args[2], args[3], both);
    return done1(outs, both[1]);
}
Status decomp_msort(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    sorted_along(b, args[0].val, I(0), A_BOOL(false), both);
    return done1(outs, both[0]);
}

/* The order of n uniform numbers of 53 bits; equal ones keep theirs. (n, dtype, layout, device, pin_memory) */
Status decomp_randperm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    const DType dtype = args[1].kind == ARG_int && args[1].i ? (DType)args[1].i : DT_i64;
    Val *const keys = E(b, rand, A_INTS(&args[0].i, 1), I(DT_f64), A_NONE, args[3]);
    sorted_along(b, keys, I(0), A_BOOL(false), both);
    return done1(outs, in_dtype(b, both[1], dtype));
}

/* Uniform in [0, 1) where like has elements, with as many bits as p can use. */
static Status chosen(Builder *b, Val *like, Arg p, DType dtype, Val **outs) {
    Val *const uniform = E(b, rand_like, V(like), I(dtype == DT_f64 ? DT_f64 : DT_f32));
    return done1(outs, in_dtype(b, E(b, lt_Tensor, V(uniform), p), like->meta->dtype));
}
Status decomp_bernoulli(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return chosen(b, args[0].val, V(E(b, in_unit, V(widened(b, args[0].val)))), args[0].val->meta->dtype, outs);
}
Status decomp_bernoulli_p(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return chosen(b, args[0].val, args[1], args[0].val->meta->dtype, outs);
}
Status decomp_bernoulli_Tensor(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return chosen(b, args[0].val, V(E(b, in_unit, V(widened(b, args[1].val)))), args[1].val->meta->dtype, outs);
}
