/* decomp_misc.c: composites of arithmetic and reductions. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_square, decomp_max, decomp_min, decomp_max_dim, decomp_min_dim, decomp_var_default, decomp_var_dim,
    decomp_std_default, decomp_std_dim, decomp_var_mean, decomp_var_mean_default, decomp_var_mean_dim, decomp_logsumexp,
    decomp_dropout, decomp_layer_norm, decomp_softmax_int, decomp_log_softmax_int, decomp_index_select_backward,
    decomp_gather_backward, decomp_embedding_backward;

Status decomp_square(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool is_bool = args[0].val->meta->dtype == DT_bool; /* a power of 2, an int, joins in PyTorch */
    const Arg x = V(is_bool ? in_dtype(b, args[0].val, DT_i64) : args[0].val);
    return done1(outs, E(b, mul_Tensor, x, x));
}

Status decomp_max(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, amax, args[0]));
}
Status decomp_min(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, amin, args[0]));
}

/* argmax takes no bools. */
static Val *comparable(Builder *b, Val *x) { return x->meta->dtype == DT_bool ? in_dtype(b, x, DT_u8) : x; }

/* values by amax, indices by argmax: the first of the largest. */
Status decomp_max_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const index = E(b, argmax, V(comparable(b, args[0].val)), args[1], args[2]);
    return decomp_done(outs, 2, (Val *const[]){E(b, amax, args[0], A_INTS(&args[1].i, 1), args[2]), index});
}
Status decomp_min_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const index = E(b, argmin, V(comparable(b, args[0].val)), args[1], args[2]);
    return decomp_done(outs, 2, (Val *const[]){E(b, amin, args[0], A_INTS(&args[1].i, 1), args[2]), index});
}

static Arg unbiased(const Arg *a) { return I(a->kind == ARG_bool && !a->i ? 0 : 1); }

static Val *var_of(Builder *b, Arg self, Arg dim, Arg correction, Arg keepdim) {
    return E(b, var_correction, self, dim, correction, keepdim);
}

Status decomp_var_default(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, var_of(b, args[0], A_NONE, unbiased(&args[1]), A_BOOL(false)));
}
Status decomp_var_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, var_of(b, args[0], args[1], unbiased(&args[2]), args[3]));
}
/* Whole in one row: its derivative is 0 where the deviation is, which that of a square root isn't. */
static Val *std_of(Builder *b, Arg self, Arg dim, Arg correction, Arg keepdim) {
    return E(b, std_correction, self, dim, correction, keepdim);
}
Status decomp_std_default(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, std_of(b, args[0], A_NONE, unbiased(&args[1]), A_BOOL(false)));
}
Status decomp_std_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, std_of(b, args[0], args[1], unbiased(&args[2]), args[3]));
}

static Status var_and_mean(Builder *b, Val *var, Arg self, Arg dim, Arg keepdim, Val **outs) {
    return decomp_done(outs, 2, (Val *const[]){var, E(b, mean_dim, self, dim, keepdim)});
}
Status decomp_var_mean(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return var_and_mean(b, var_of(b, args[0], args[1], args[2], args[3]), args[0], args[1], args[3], outs);
}
Status decomp_var_mean_default(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const var = var_of(b, args[0], A_NONE, unbiased(&args[1]), A_BOOL(false));
    return var_and_mean(b, var, args[0], A_NONE, A_BOOL(false), outs);
}
Status decomp_var_mean_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const var = var_of(b, args[0], args[1], unbiased(&args[2]), args[3]);
    return var_and_mean(b, var, args[0], args[1], args[3], outs);
}

/* log(sum(exp(x - m))) + m, with m = 0 where the maximum is infinite. */
Status decomp_logsumexp(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType own = args[0].val->meta->dtype, dtype = dtype_is_float(own) ? own : DT_f32;
    Val *const x = widened(b, in_dtype(b, args[0].val, dtype));
    if (x && sym_same(b->env, x->meta->numel, 0)) /* nothing has no largest */
        return done1(outs,
                     in_dtype(b, E(b, log, V(E(b, sum_dim_IntList, V(E(b, exp, V(x))), args[1], args[2]))), dtype));
    Val *const most = E(b, amax, V(x), args[1], A_BOOL(true));
    Val *const m = E(b, detach, V(E(b, where_self, V(E(b, isinf, V(most))), F(0), V(most)))); /* any number would do */
    const bool drop = !(args[2].kind == ARG_bool && args[2].i) && args[0].val->meta->rank;
    Val *const sum = E(b, sum_dim_IntList, V(E(b, exp, V(E(b, sub_Tensor, V(x), V(m))))), args[1], A_BOOL(!drop));
    const bool all = args[1].kind != ARG_ints || !args[1].n; /* an empty list is all dims, but squeezes none */
    Val *const above = !drop ? m : all ? E(b, squeeze, V(m)) : E(b, squeeze_dims, V(m), args[1]);
    return done1(outs, in_dtype(b, E(b, add_Tensor, V(E(b, log, V(sum))), V(above)), dtype));
}

Status decomp_dropout(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    if (args[2].i == 0 || arg_double(&args[1]) == 0) return done1(outs, args[0].val);
    Val *both[2] = {0};
    TRY(emit(b, OP_native_dropout, args, 3, both));
    return done1(outs, both[0]);
}

Status decomp_layer_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *all[3] = {0};
    TRY(emit(b, OP_native_layer_norm, args, 5, all));
    return done1(outs, all[0]);
}

static Status softmax_as(Builder *b, OpId op, const Arg *args, Val **outs) {
    Val *const x = args[2].kind == ARG_int ? in_dtype(b, args[0].val, (DType)args[2].i) : args[0].val;
    return done1(outs, x ? emit1(b, op, (const Arg[]){V(x), args[1], A_BOOL(false)}, 3) : NULL);
}
Status decomp_softmax_int(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return softmax_as(b, OP__softmax, args, outs);
}
Status decomp_log_softmax_int(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return softmax_as(b, OP__log_softmax, args, outs);
}

/* Gradients of reads: added up at the positions read, as the derivative rules do. */
Status decomp_index_select_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, index_add, V(E(b, new_zeros, args[0], args[1])), args[2], args[3], args[0]));
}
Status decomp_gather_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[1].val->meta;
    Val *const zeros = E(b, new_zeros, args[0], A_INTS(self->sizes, self->rank));
    return done1(outs, E(b, scatter_add, V(zeros), args[2], args[3], args[0]));
}
/* index_select and embedding where a row has no elements: the positions are checked among rows of one, which nobody
 * reads. */
Status decomp_empty_read(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool rows = row->id == OP_embedding;
    const Meta *const self = args[0].val->meta;
    Val *const index = args[rows ? 1 : 2].val;
    const int dim = rows ? 0 : dim_of(&args[1], self->rank);
    const int64_t flat[1] = {-1}, count[1] = {self->sizes[dim]};
    int64_t sizes[MAX_RANK];
    const int first = rows ? index->meta->rank : self->rank;
    if (first) memcpy(sizes, rows ? index->meta->sizes : self->sizes, sizeof *sizes * (size_t)first);
    if (rows)
        sizes[first] = self->sizes[1];
    else
        sizes[dim] = index->meta->numel;
    E(b, index_select, V(E(b, new_zeros, args[0], A_INTS(count, 1))), I(0), V(reshaped(b, index, flat, 1)));
    return done1(outs, E(b, new_zeros, args[0], A_INTS(sizes, first + rows)));
}
Status decomp_embedding_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, embedding_dense_backward, args[0], args[1], args[2], args[3], args[4]));
}
