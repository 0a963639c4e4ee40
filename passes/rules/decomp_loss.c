/* decomp_loss.c: losses. nll_loss reads self[i, target[i]] by gather, whose index is checked;
 * ignored targets read class 0 and count 0. Sums are over rows in order L. */
#include "ir/schema.h"
#include "ir/op_ids.h"
#include "passes/rules/decomp.h"

DecompFn decomp_nll_loss_forward, decomp_nll_loss_backward, decomp_nll_loss, decomp_cross_entropy, decomp_mse_loss;

static bool is_ignored(const Arg *ignore_index) { return ignore_index->kind == ARG_int; }

/* One element for one row of classes, where [1] stands for []. */
static Val *of_row(Builder *b, Val *one, int class_dim) {
    return !class_dim && one && one->meta->rank ? E(b, squeeze_dim, V(one), I(0)) : one;
}

/* Targets with ignored ones made 0, and where they are; one target of one row of `rank` 1 may be [1]. */
static Val *safe_target(Builder *b, Val *target, int rank, const Arg *ignore_index, Val **ignored) {
    target = of_row(b, target, rank - 1);
    *ignored = is_ignored(ignore_index) ? E(b, eq_Tensor, V(target), *ignore_index) : NULL;
    return *ignored ? E(b, where_self, V(*ignored), I(0), V(target)) : target;
}

static Val *zero_where(Builder *b, Val *condition, Val *x) {
    return condition ? E(b, where_self, V(condition), F(0), V(x)) : x;
}

/* Row weights in the compute dtype: weight[target], or 1; 0 where ignored. */
static Val *row_weights(Builder *b, Val *weight, Val *safe, Val *ignored, Val *like) {
    Val *rows;
    if (weight && safe->meta->rank) {
        rows = E(b, index_select, V(widened(b, weight)), I(0), V(safe));
    } else if (weight) {
        rows = E(b, squeeze_dim, V(E(b, index_select, V(widened(b, weight)), I(0), V(E(b, unsqueeze, V(safe), I(0))))),
                 I(0));
    } else {
        rows = E(b, ones_like, V(like));
    }
    return zero_where(b, ignored, rows);
}

Status decomp_nll_loss_forward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = widened(b, args[0].val), *ignored;
    if (!x) return error_pending();
    const DType dtype = args[0].val->meta->dtype;
    const int rank = x->meta->rank, class_dim = rank - 1;
    Val *const safe = safe_target(b, args[1].val, rank, &args[4], &ignored);
    Val *const index = E(b, unsqueeze, V(safe), I(class_dim));
    Val *const picked = E(b, squeeze_dim, V(E(b, gather, V(x), I(class_dim), V(index))), I(class_dim));
    Val *const minus = E(b, neg, V(picked));
    Val *const weights = row_weights(b, optional(&args[2]), safe, ignored, minus);
    Val *loss = zero_where(b, ignored, minus);
    if (optional(&args[2])) loss = E(b, mul_Tensor, V(loss), V(weights));
    Val *total = E(b, sum_dim_IntList, V(weights), A_NONE);
    const int64_t reduction = args[3].i;
    if (reduction == REDUCTION_none && rank == 2) total = E(b, zeros_like, V(total)); /* as PyTorch */
    if (reduction != REDUCTION_none) loss = E(b, sum_dim_IntList, V(loss), A_NONE);
    if (reduction == REDUCTION_mean) loss = E(b, div_Tensor, V(loss), V(total));
    return decomp_done(outs, 2, (Val *const[]){in_dtype(b, loss, dtype), in_dtype(b, total, dtype)});
}

/* -weight grad at the target's class, 0 elsewhere and where ignored; mean: divided by the total
 * weight. */
Status decomp_nll_loss_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *grad = widened(b, args[0].val), *const self = args[1].val, *ignored;
    if (!grad || !self) return error_pending();
    const int class_dim = self->meta->rank - 1;
    const int64_t classes = self->meta->sizes[class_dim];
    Val *const safe = safe_target(b, args[2].val, class_dim + 1, &args[5], &ignored);
    if (args[4].i == REDUCTION_mean) grad = E(b, div_Tensor, V(grad), V(widened(b, args[6].val)));
    Val *const minus = E(b, neg, V(of_row(b, grad, class_dim)));
    Val *const like = E(b, zeros_like, V(safe), I(minus ? minus->meta->dtype : DT_f32));
    Val *const weights = row_weights(b, optional(&args[3]), safe, NULL, like);
    Val *const rows = zero_where(b, ignored, E(b, mul_Tensor, V(minus), V(weights))); /* also of 1 / 0 */
    Val *const range = E(b, arange, I(classes), I(DT_i64), A_NONE, I(self->meta->device));
    Val *const hit = E(b, eq_Tensor, V(E(b, unsqueeze, V(safe), I(class_dim))), V(range));
    Val *const x = E(b, where_self, V(hit), V(E(b, unsqueeze, V(rows), I(class_dim))), F(0));
    return done1(outs, in_dtype(b, x, self->meta->dtype));
}

static Status nll(Builder *b, Val *x, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    if (!x) return error_pending();
    const Arg all[] = {V(x), args[1], args[2], args[3], args[4]};
    TRY(emit(b, OP_nll_loss_forward, all, 5, both));
    return done1(outs, both[0]);
}

/* [N, C, d...] as rows of classes: [N d..., C]. */
static Val *class_rows(Builder *b, Val *x) {
    const Meta *const meta = x->meta;
    if (meta->rank <= 2) return x;
    int64_t order[MAX_RANK], sizes[2] = {-1, meta->sizes[1]};
    for (int d = 0; d < meta->rank; d++) order[d] = d == 0 ? 0 : d + 1 < meta->rank ? d + 1 : 1;
    return reshaped(b, E(b, permute, V(x), A_INTS(order, meta->rank)), sizes, 2);
}

static Val *flat(Builder *b, Val *x) {
    const int64_t sizes[1] = {-1};
    return x->meta->rank <= 1 ? x : reshaped(b, x, sizes, 1);
}

/* More than two dims: rows of classes, and the unreduced loss in the target's sizes again. */
static Status nll_nd(Builder *b, Val *x, const Arg *args, Val **outs) {
    Val *const target = args[1].val;
    if (!x || !target) return error_pending();
    if (x->meta->rank <= 2) return nll(b, x, args, outs);
    const Arg rows[] = {args[0], V(flat(b, target)), args[2], args[3], args[4]};
    TRY(nll(b, class_rows(b, x), rows, outs));
    if (args[3].i != REDUCTION_none) return ST_OK;
    return done1(outs, reshaped(b, outs[0], target->meta->sizes, target->meta->rank));
}

Status decomp_nll_loss(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return nll_nd(b, args[0].val, args, outs);
}

static Val *weighted_classes(Builder *b, Val *x, Val *weight, int class_dim) {
    if (!weight) return x;
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < x->meta->rank; d++) sizes[d] = d == class_dim ? x->meta->sizes[d] : 1;
    return E(b, mul_Tensor, V(x), V(reshaped(b, weight, sizes, x->meta->rank)));
}

/* Targets are probabilities: -sum(target log_p weight) over classes; mean: over all rows. */
static Status probabilities(Builder *b, Val *log_p, const Arg *args, int class_dim, Val **outs) {
    Val *target = args[1].val;
    const double smoothing = arg_double(&args[5]);
    const int64_t classes = log_p->meta->sizes[class_dim], dim = class_dim;
    if (smoothing > 0) {
        Val *const kept = E(b, mul_Tensor, V(target), F(1 - smoothing));
        target = E(b, add_Tensor, V(kept), SIZED_FLOAT(b, classes, smoothing / (double)sym_concrete(b->env, classes)));
    }
    Val *const parts = E(b, mul_Tensor, V(weighted_classes(b, log_p, optional(&args[2]), class_dim)), V(target));
    Val *loss = E(b, neg, V(sum_over(b, parts, &dim, 1, false)));
    if (!loss) return error_pending();
    const int64_t rows = loss->meta->numel;
    if (args[3].i != REDUCTION_none) loss = sum_over(b, loss, NULL, 0, false);
    if (args[3].i == REDUCTION_mean) loss = E(b, div_Tensor, V(loss), I(rows));
    return done1(outs, loss);
}

/* smoothing / C of the mean over classes, where not ignored; the rest of nll_loss. */
static Status smoothed(Builder *b, Val *log_p, const Arg *args, int class_dim, Val *hard, Val **outs) {
    const double smoothing = arg_double(&args[5]);
    const int64_t dim = class_dim;
    Val *ignored, *const weight = optional(&args[2]);
    Val *const safe = safe_target(b, args[1].val, log_p->meta->rank, &args[4], &ignored);
    Val *const sum = sum_over(b, weighted_classes(b, log_p, weight, class_dim), &dim, 1, false);
    Val *soft = zero_where(b, ignored, E(b, neg, V(sum)));
    if (!soft || !hard) return error_pending();
    if (args[3].i != REDUCTION_none) soft = sum_over(b, soft, NULL, 0, false);
    if (args[3].i == REDUCTION_mean) {
        Val *const flat_safe = flat(b, safe), *const flat_ignored = ignored ? flat(b, ignored) : NULL;
        Val *const like = E(b, zeros_like, V(flat_safe), I(soft->meta->dtype));
        Val *const rows = row_weights(b, weight, flat_safe, flat_ignored, like);
        soft = E(b, div_Tensor, V(soft), V(sum_over(b, rows, NULL, 0, false)));
    }
    const int64_t classes = log_p->meta->sizes[class_dim];
    const Arg each = SIZED_FLOAT(b, classes, smoothing / (double)sym_concrete(b->env, classes));
    Val *const a = E(b, mul_Tensor, V(hard), F(1 - smoothing));
    Val *const loss = E(b, add_Tensor, V(a), V(E(b, mul_Tensor, V(soft), each)));
    return done1(outs, in_dtype(b, loss, hard->meta->dtype)); /* weights are f32 beside halves */
}

Status decomp_cross_entropy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const self = args[0].val, *const target = args[1].val;
    const int class_dim = self->meta->rank == 1 ? 0 : 1;
    Val *const log_p = E(b, _log_softmax, V(self), I(class_dim), A_BOOL(false));
    if (!log_p) return error_pending();
    if (dtype_is_float(target->meta->dtype)) return probabilities(b, log_p, args, class_dim, outs);
    TRY(nll_nd(b, log_p, args, outs));
    if (arg_double(&args[5]) == 0) return ST_OK;
    return smoothed(b, log_p, args, class_dim, outs[0], outs);
}

/* Bools can't be subtracted: they count as the other's 0 and 1. */
static Val *counted(Builder *b, Val *x, const Val *beside) {
    return x->meta->dtype == DT_bool ? in_dtype(b, x, beside->meta->dtype) : x;
}

Status decomp_mse_loss(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const self = args[0].val, *const target = args[1].val;
    Val *const away = E(b, sub_Tensor, V(counted(b, self, target)), V(counted(b, target, self)));
    Val *const squares = E(b, mul_Tensor, V(away), V(away));
    return done1(outs, reduced_loss(b, squares, args[2].i));
}
