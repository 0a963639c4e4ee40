/* decomp_foreach.c: ops of lists as ops of their elements (ir/foreach.h), and the steps of optimizers that PyTorch
 * calls fused: formulas of its FusedAdamKernel.cpp, FusedSGDKernel.cpp and FusedAdagradKernel.cpp, in the compute dtype
 * of each parameter; numbers of a step are f64 until they meet it. */
#include <math.h>

#include "ir/foreach.h"
#include "ir/op_ids.h"
#include "passes/rules/decomp.h"

DecompFn decomp_foreach, decomp_foreach_write, decomp_fused_adam, decomp_fused_adamw, decomp_fused_sgd,
    decomp_fused_adagrad;

/* self + tensor1 factor op tensor2, the factor element i of a tensor, of ints without its fraction, as PyTorch takes
 * it; with one rounding to halves. */
static Val *with_factor(Builder *b, const Arg *one, const OpRow *of, Val *factors, int i) {
    const DType dtype = one[0].val->meta->dtype;
    Val *factor = E(b, select_int, V(factors), I(0), I(i));
    if (!dtype_is_float(dtype)) factor = in_dtype(b, factor, dtype);
    Val *const scaled = E(b, mul_Tensor, V(widened(b, one[1].val)), V(factor));
    Val *const by = widened(b, one[2].val);
    Val *const part = of->id == OP_addcmul ? E(b, mul_Tensor, V(scaled), V(by)) : E(b, div_Tensor, V(scaled), V(by));
    Val *const sum = in_dtype(b, E(b, add_Tensor, V(widened(b, one[0].val)), V(part)), dtype);
    const Arg whole[4] = {one[0], one[1], one[2], I(1)};
    return in_layout_of(b, of, whole, 0, sum);
}

static Val *element(Builder *b, const OpRow *row, const Arg *args, int i) {
    Arg one[MAX_ARGS];
    int n;
    const OpRow *const of = foreach_each(row, args, i, one, &n);
    Val *const factors = foreach_factors(row, args);
    return factors ? with_factor(b, one, of, factors, i) : emit1(b, of->id, one, n);
}

Status decomp_foreach(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int n = foreach_count(row, args);
    for (int i = 0; i < n; i++)
        if (!(outs[i] = element(b, row, args, i))) return error_pending();
    return ST_OK;
}

/* As PyTorch's, one after the other: a list may hold a tensor twice. */
Status decomp_foreach_write(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int n = foreach_count(row, args);
    for (int i = 0; i < n; i++) {
        Val *const value = element(b, row, args, i);
        if (!value) return error_pending();
        TRY(emit_write(b, args[0].vals[i], value));
    }
    return ST_OK;
}

/* steps of optimizers ------------------------------------------------------------------------- */

typedef struct OptimStep {
    Builder *b;
    const OpRow *row;
    const Arg *args;
    int i;                    /* which parameter */
    Val *kept, *param, *grad; /* kept: NULL, or bool: nothing but grad changes; these in the compute dtype */
} OptimStep;

static const Arg *optim_argument(const OptimStep *s, const char *name) { return &s->args[op_param_find(s->row, name)]; }
static double number(const OptimStep *s, const char *name) { return arg_double(optim_argument(s, name)); }
static bool is_set(const OptimStep *s, const char *name) { return optim_argument(s, name)->i != 0; }
static Val *state(const OptimStep *s, const char *name) { return widened(s->b, optim_argument(s, name)->vals[s->i]); }

/* A number of the step, f64 or a constant, as one that an element is multiplied by. */
static Arg as_factor(const OptimStep *s, Val *number) { return V(in_dtype(s->b, number, s->param->meta->dtype)); }
static Val *in_f64(const OptimStep *s, Val *one) {
    const int64_t none = 0;
    return one ? in_dtype(s->b, reshaped(s->b, one, &none, 0), DT_f64) : NULL;
}

/* A number or a tensor of one element, times k, as an f64. */
static Val *rate(const OptimStep *s, double k) {
    const Arg *const lr = optim_argument(s, "lr");
    Builder *const b = s->b;
    if (lr->kind == ARG_tensor) return E(b, mul_Tensor, V(in_f64(s, lr->val)), F(k));
    return E(b, full, A_INTS(&(int64_t){0}, 0), F(arg_double(lr) * k), I(DT_f64), A_NONE, I(s->param->meta->device));
}

/* The tensor of a list becomes this, unless the step is kept from happening. */
static Status optim_put(const OptimStep *s, const char *list, Val *value) {
    Builder *const b = s->b;
    Val *const to = optim_argument(s, list)->vals[s->i];
    Val *made = in_dtype(b, value, to->meta->dtype);
    if (s->kept) made = E(b, where_self, V(s->kept), V(to), V(made));
    return made ? emit_write(b, to, made) : error_pending();
}

/* The gradient, scaled back (which is written), with its sign and the weight decay of Adam and SGD. */
static Status optim_begin(OptimStep *s, bool decays) {
    Builder *const b = s->b;
    const Arg *const scale = optim_argument(s, "grad_scale"), *const inf = optim_argument(s, "found_inf");
    s->param = widened(b, s->args[0].vals[s->i]);
    s->grad = widened(b, s->args[1].vals[s->i]);
    if (!s->param || !s->grad) return error_pending();
    if (inf->kind == ARG_tensor) {
        const int64_t none = 0;
        Val *const one = reshaped(b, inf->val, &none, 0);
        s->kept = E(b, eq_Scalar, V(one), F(1));
    }
    if (scale->kind == ARG_tensor) {
        s->grad = E(b, div_Tensor, V(s->grad), as_factor(s, in_f64(s, scale->val)));
        TRY(optim_put(s, "grads", s->grad));
    }
    if (is_set(s, "maximize")) s->grad = E(b, neg, V(s->grad));
    const double decay = number(s, "weight_decay");
    if (decays && decay != 0) s->grad = E(b, add_Tensor, V(s->grad), V(s->param), F(decay));
    return s->grad ? ST_OK : error_pending();
}

/* 1 - beta^step */
static Val *correction(const OptimStep *s, const char *beta) {
    Builder *const b = s->b;
    Val *const step = in_f64(s, optim_argument(s, "state_steps")->vals[s->i]);
    return E(b, rsub_Tensor, V(E(b, pow_Scalar, F(number(s, beta)), V(step))), F(1));
}

static Status adam_by(OptimStep *s, bool decoupled) {
    Builder *const b = s->b;
    const double beta1 = number(s, "beta1"), beta2 = number(s, "beta2"), decay = number(s, "weight_decay");
    TRY(optim_begin(s, !decoupled));
    Val *param = s->param;
    if (decoupled && decay != 0) {
        Val *const left = E(b, rsub_Tensor, V(rate(s, decay)), F(1));
        param = E(b, mul_Tensor, V(param), as_factor(s, left));
    }
    Val *const mean = E(b, lerp_Tensor, V(state(s, "exp_avgs")), V(s->grad), F(1 - beta1));
    Val *const old = E(b, mul_Tensor, V(state(s, "exp_avg_sqs")), F(beta2));
    Val *const square = E(b, addcmul, V(old), V(s->grad), V(s->grad), F(1 - beta2));
    Val *most = square;
    if (is_set(s, "amsgrad")) {
        most = E(b, maximum, V(state(s, "max_exp_avg_sqs")), V(square));
        TRY(optim_put(s, "max_exp_avg_sqs", most));
    }
    Val *const root = E(b, sqrt, V(correction(s, "beta2")));
    Val *const denominator =
        E(b, add_Tensor, V(E(b, div_Tensor, V(E(b, sqrt, V(most))), as_factor(s, root))), F(number(s, "eps")));
    Val *const size = E(b, div_Tensor, V(rate(s, 1)), V(correction(s, "beta1")));
    Val *const away = E(b, div_Tensor, V(E(b, mul_Tensor, V(mean), as_factor(s, size))), V(denominator));
    Val *const next = E(b, sub_Tensor, V(param), V(away));
    TRY(optim_put(s, "exp_avgs", mean));
    TRY(optim_put(s, "exp_avg_sqs", square));
    return optim_put(s, "self", next);
}

static Status adam(OptimStep *s) { return adam_by(s, false); }
static Status adamw(OptimStep *s) { return adam_by(s, true); }

static Status sgd(OptimStep *s) {
    Builder *const b = s->b;
    const double momentum = number(s, "momentum");
    TRY(optim_begin(s, true));
    Val *way = s->grad;
    if (momentum != 0) {
        Val *buffer = way;
        if (!is_set(s, "is_first_step")) {
            Val *const kept = E(b, mul_Tensor, V(state(s, "momentum_buffer_list")), F(momentum));
            buffer = E(b, add_Tensor, V(kept), V(way), F(1 - number(s, "dampening")));
        }
        TRY(optim_put(s, "momentum_buffer_list", buffer));
        way = is_set(s, "nesterov") ? E(b, add_Tensor, V(way), V(buffer), F(momentum)) : buffer;
    }
    Val *const away = E(b, mul_Tensor, V(way), as_factor(s, rate(s, 1)));
    return optim_put(s, "self", E(b, sub_Tensor, V(s->param), V(away)));
}

static Status adagrad(OptimStep *s) {
    Builder *const b = s->b;
    TRY(optim_begin(s, true));
    Val *const step = in_f64(s, optim_argument(s, "state_steps")->vals[s->i]);
    Val *const before = E(b, mul_Tensor, V(E(b, sub_Tensor, V(step), F(1))), F(number(s, "lr_decay")));
    Val *const size = E(b, div_Tensor, V(rate(s, 1)), V(E(b, add_Tensor, V(before), F(1))));
    Val *const sum = E(b, addcmul, V(state(s, "state_sums")), V(s->grad), V(s->grad));
    Val *const root = E(b, add_Tensor, V(E(b, sqrt, V(sum))), F(number(s, "eps")));
    Val *const away = E(b, div_Tensor, V(E(b, mul_Tensor, V(s->grad), as_factor(s, size))), V(root));
    Val *const next = E(b, sub_Tensor, V(s->param), V(away));
    TRY(optim_put(s, "state_sums", sum));
    return optim_put(s, "self", next);
}

static Status each_parameter(Builder *b, const OpRow *row, const Arg *args, Status (*step)(OptimStep *)) {
    for (int i = 0; i < args[0].n; i++) {
        OptimStep one = {.b = b, .row = row, .args = args, .i = i};
        TRY(step(&one));
        TRY(error_pending());
    }
    return ST_OK;
}
Status decomp_fused_adam(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return each_parameter(b, row, args, adam);
}
Status decomp_fused_adamw(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return each_parameter(b, row, args, adamw);
}
Status decomp_fused_sgd(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return each_parameter(b, row, args, sgd);
}
Status decomp_fused_adagrad(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return each_parameter(b, row, args, adagrad);
}
