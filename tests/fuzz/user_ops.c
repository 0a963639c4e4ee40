/* user_ops.c: ops of the program's own in random programs: one that gives a list and a number, three by a scalar
 * expression, with gradients, one of which leaves an argument without, and some that write an argument, whole or a
 * view, an input's memory or what a step made, with gradients where a rule or their kernels' ops give them. */
#include <stdio.h>

#include "tests/fuzz/gen.h"

/* fz::gate: max(x, y) * by + sigmoid(x) */
static sn_status gate_derivative(sn_frame *f) {
    sn_tensor *const g = sn_grad_of(f, 0), *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_tensor *const scaled = sn_mul_scalar(g, sn_in_value(f, 2)), *const s = sn_sigmoid(x);
    sn_tensor *const slope = sn_mul(sn_mul(g, s), sn_rsub_scalar(s, sn_int(1)));
    sn_set_grad_of(f, 0, sn_add(sn_mul(scaled, sn_ge(x, y)), slope));
    return sn_set_grad_of(f, 1, sn_mul(scaled, sn_lt(x, y)));
}
static sn_status levels_derivative(sn_frame *f) { return sn_set_grad_of(f, 0, sn_zeros_like(sn_grad_of(f, 0))); }
/* fz::steer: x * 0.5 + floor(y), which gives y none */
static sn_status steer_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_float(0.5)));
}

static sn_status meta_like_first(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

/* A kernel that fails half way leaves in eager what a graph's copy does not. */
static bool fits(sn_frame *f) { return sn_expand_as(sn_in(f, 1), sn_in(f, 0)) != NULL; }

/* fz::decay_: x = by x + y, which is the result */
static sn_status decay(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    if (!fits(f)) return sn_check();
    sn_mul_scalar_(x, sn_in_value(f, 2));
    sn_add_(x, sn_in(f, 1));
    return sn_out(f, 0, x);
}
/* fz::count_: total = total + x; what it was, less x, is a new result */
static sn_status count_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_sub(sn_in(f, 0), sn_in(f, 1)))); }
static sn_status count(sn_frame *f) {
    sn_tensor *const rest = sn_sub(sn_in(f, 0), sn_in(f, 1));
    sn_add_(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, rest);
}

/* fz::lean_: the same, differentiated by a rule */
static sn_status lean_derivative(sn_frame *f) {
    sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_in_value(f, 2)));
    return sn_set_grad_of(f, 1, sn_grad_of(f, 0));
}
/* fz::into_: x = by x + y, no result: differentiated as these ops are */
static sn_status into(sn_frame *f) {
    if (!fits(f)) return sn_check();
    sn_mul_scalar_(sn_in(f, 0), sn_in_value(f, 2));
    return sn_add_(sn_in(f, 0), sn_in(f, 1)) ? SN_OK : sn_check();
}

/* fz::parts: by x and x + by in a list, how many they are, and x's elements: by values where `asked` is set */
static sn_status parts_meta(sn_frame *f) {
    sn_out(f, 0, sn_empty_like(sn_in(f, 0)));
    sn_out(f, 1, sn_empty_like(sn_in(f, 0)));
    if (sn_in_int(f, 2))
        sn_out_none(f, 2);
    else
        sn_out_value(f, 2, sn_int(sn_numel(sn_in(f, 0))));
    return sn_out(f, 3, sn_empty_like(sn_in(f, 0)));
}
static sn_status parts(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_mul_scalar(x, sn_in_value(f, 1)));
    sn_out(f, 1, sn_add_scalar(x, sn_in_value(f, 1)));
    sn_out_value(f, 2, sn_int(sn_numel(x)));
    return sn_out(f, 3, sn_neg(x));
}
static sn_status parts_derivative(sn_frame *f) {
    sn_tensor *const a = sn_grad_of(f, 0), *const b = sn_grad_of(f, 1), *const c = sn_grad_of(f, 3);
    sn_tensor *sum = a ? sn_mul_scalar(a, sn_in_value(f, 1)) : NULL;
    if (b) sum = sum ? sn_add(sum, b) : b;
    if (c) sum = sum ? sn_sub(sum, c) : sn_neg(c);
    return sn_set_grad_of(f, 0, sum);
}

bool fz_user_ops_register(void) {
    sn_op_register(SN_OP_DESC(.schema = "fz::parts(Tensor x, float by, int asked) -> (Tensor[], int, Tensor)",
                              .flags = SN_OP_PURE, .meta = parts_meta, .cpu = parts, .cuda = parts,
                              .derivative = parts_derivative));
    sn_op_register(SN_OP_DESC(.schema = "fz::gate(Tensor x, Tensor y, float by) -> Tensor",
                              .scalar = "max(x, y) * by + sigmoid(x)", .derivative = gate_derivative, .saves = "x, y"));
    sn_op_register(SN_OP_DESC(.schema = "fz::levels(Tensor x) -> Tensor",
                              .scalar = "where(isfinite(x), floor(x * 4) / 4, 0.5) + (x < 0)",
                              .derivative = levels_derivative));
    sn_op_register(SN_OP_DESC(.schema = "fz::steer(Tensor x, Tensor y) -> Tensor", .scalar = "x * 0.5 + floor(y)",
                              .derivative = steer_derivative));
    sn_op_register(SN_OP_DESC(.schema = "fz::decay_(Tensor(a!) x, Tensor y, float by) -> Tensor(a!)",
                              .flags = SN_OP_PURE, .meta = meta_like_first, .cpu = decay, .cuda = decay));
    sn_op_register(SN_OP_DESC(.schema = "fz::count_(Tensor(a!) total, Tensor x) -> Tensor", .flags = SN_OP_PURE,
                              .meta = count_meta, .cpu = count, .cuda = count));
    sn_op_register(SN_OP_DESC(.schema = "fz::lean_(Tensor(a!) x, Tensor y, float by) -> Tensor(a!)",
                              .flags = SN_OP_PURE, .cpu = decay, .cuda = decay, .derivative = lean_derivative));
    sn_op_register(SN_OP_DESC(.schema = "fz::into_(Tensor(a!) x, Tensor y, float by) -> ()", .flags = SN_OP_PURE,
                              .cpu = into, .cuda = into));
    return sn_check() == SN_OK;
}

/* steps --------------------------------------------------------------------------------------- */

static FzArg user_value(int v) { return (FzArg){.kind = FZ_value, .value = v}; }
static FzArg user_float(double f) { return (FzArg){.kind = FZ_float, .f = f, .i.var = -1}; }

static int user_step(Gen *g, const char *op, int n, const FzArg *args) {
    FzStep step = {.kind = FZ_op, .n_args = n};
    for (int i = 0; i < n; i++)
        if (args[i].kind == FZ_value && args[i].value < 0) return -1;
    snprintf(step.op, sizeof step.op, "%s", op);
    memcpy(step.args, args, sizeof *args * (size_t)n);
    return gen_try(g, &step) ? step.out : -1;
}

/* Memory to be written, or a part of it: an input's, or a copy of a value, with its history where that is asked. */
static int some_memory(Gen *g, int v, bool history) {
    const int input = (int)gen_below(g, g->p->n_inputs);
    const GenVal *const given = &g->v[input];
    int at = v;
    if (gen_chance(g, 40) && !given->grad && !given->overlaps && dtype_is_float(gen_dtype(g, input))) {
        at = input;
    } else {
        if (!history) at = user_step(g, "aten::detach", 1, (const FzArg[]){user_value(at)});
        at = user_step(g, "aten::clone", 1, (const FzArg[]){user_value(at)});
    }
    if (at < 0 || !gen_rank(g, at) || gen_chance(g, 60)) return at;
    const FzArg zero = {.kind = FZ_int, .i = {0, -1}}, last = {.kind = FZ_int, .i = {gen_rank(g, at) - 1, -1}};
    if (gen_chance(g, 50)) return user_step(g, "aten::transpose.int", 3, (const FzArg[]){user_value(at), zero, last});
    return user_step(g, "aten::select.int", 3, (const FzArg[]){user_value(at), gen_chance(g, 50) ? zero : last, zero});
}

/* Any two of what the list and the number are. */
static int parts_step(Gen *g, int v) {
    const FzArg asked = {.kind = FZ_int, .i = {gen_chance(g, 30), -1}};
    const int first = user_step(g, "fz::parts", 3, (const FzArg[]){user_value(v), user_float(0.75), asked});
    if (first < 0) return -1;
    const int a = (int)gen_below(g, 4), b = (int)gen_below(g, 4);
    return user_step(g, "aten::mul.Tensor", 2, (const FzArg[]){user_value(first + a), user_value(first + b)});
}

static int scaled_value(Gen *g, int v) {
    return user_step(g, "aten::mul.Tensor", 2, (const FzArg[]){user_value(v), user_float(1.5)});
}

/* Added into memory, it needs its sizes: a part of v has others. */
static bool same_sizes(const Gen *g, int a, int b) {
    for (int s = 0; s < FZ_SETTINGS; s++)
        if (gen_rank(g, a) != gen_rank(g, b) ||
            memcmp(g->v[a].at[s].sizes, g->v[b].at[s].sizes, sizeof(int64_t) * (size_t)gen_rank(g, a)) != 0)
            return false;
    return true;
}

/* Memory that an op writes, less what the op returns. */
static int writing_step(Gen *g, int v) {
    static const struct {
        const char *name;
        int n_args, n_out;
        bool gradients; /* it gives them: what it reads and writes may have histories */
    } ops[] = {
        {"fz::decay_", 3, 1, false}, {"fz::count_", 2, 1, false}, {"fz::lean_", 3, 1, true}, {"fz::into_", 3, 0, true}};
    const int64_t op = gen_below(g, 4);
    const int memory = some_memory(g, v, ops[op].gradients && gen_chance(g, 50));
    const bool of_v = memory >= 0 && ops[op].gradients && gen_chance(g, 50) && same_sizes(g, memory, v);
    const int other = memory < 0 ? -1 : scaled_value(g, of_v ? v : memory);
    const FzArg args[] = {user_value(memory), user_value(gen_chance(g, 10) ? memory : other), user_float(0.75)};
    const int written = user_step(g, ops[op].name, ops[op].n_args, args);
    if (written < 0) return -1;
    return user_step(g, "aten::add.Tensor", 2,
                     (const FzArg[]){user_value(memory), user_value(ops[op].n_out ? written : memory)});
}

void gen_user_op(Gen *g) {
    const int v = gen_any(g);
    if (v < 0 || !dtype_is_float(gen_dtype(g, v)) || g->p->n_steps > FZ_STEPS - 8 || g->p->n_values > FZ_VALUES - 12)
        return;
    const int64_t which = gen_below(g, 7);
    int result = -1;
    if (which == 0)
        result = user_step(g, "fz::gate", 3,
                           (const FzArg[]){user_value(v), user_value(scaled_value(g, v)), user_float(0.3)});
    if (which == 1) result = user_step(g, "fz::levels", 1, (const FzArg[]){user_value(v)});
    if (which == 2)
        result = user_step(g, "fz::steer", 2, (const FzArg[]){user_value(scaled_value(g, v)), user_value(v)});
    if (which == 3 || which == 4) result = writing_step(g, v);
    if (which > 4) result = parts_step(g, v);
    if (result >= 0 && gen_chance(g, 50)) g->result = result;
}
