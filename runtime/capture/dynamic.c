/* dynamic.c: which sizes and numbers of a trace are symbolic [semantics C4, C5].
 *
 * The first trace of an end is compiled as it is. When another one differs from it in sizes or
 * numbers only, each (old, new) pair of differing sizes becomes one symbol (equal pairs share it),
 * strides follow from sizes, and a differing int becomes an expression of the symbols that gives
 * both values, else a runtime value. A wrong guess is harmless: every number is compared with its
 * expression on every verified call. */
#include "runtime/capture/capture.h"

typedef struct Pair { /* a symbol by its two values */
    int64_t before, now, symbol;
} Pair;

typedef struct Dynamic {
    const Trace *trace;
    const Variant *older;
    bool always;
    Arena *arena;
    SymPlan *plan;
    VEC(Pair) pairs;
} Dynamic;

/* Sizes and strides of 0 and 1 are cases of their own; of numbers, positions counted from the end are negative. */
static int64_t lower_bound(int64_t before, int64_t now, int32_t kind) {
    if (kind != BIND_number) return 2;
    return before < 0 && now < 0 ? SYM_LEAST : 0;
}

static int64_t symbol_for(Dynamic *d, int64_t before, int64_t now, SymBinding binding) {
    for (int i = 0; i < d->pairs.n; i++)
        if (d->pairs.at[i].before == before && d->pairs.at[i].now == now)
            return d->pairs.at[i].symbol;
    const int64_t symbol = sym_free(d->plan->env, now, lower_bound(before, now, binding.kind));
    VEC_PUSH(d->arena, &d->pairs, ((Pair){before, now, symbol}));
    VEC_PUSH(d->arena, &d->plan->bindings, binding);
    return symbol;
}

static bool was_symbolic(const Dynamic *d, int input, int dim) {
    return d->older && d->older->dynamic && sym_is(d->older->inputs[input].meta->sizes[dim]);
}

static const Meta *before_meta(const Dynamic *d, int input) {
    return d->older ? d->older->example_metas[input] : d->trace->inputs.at[input].meta;
}

/* 0 and 1 stay plain: rules branch on them [semantics C5]. */
static int64_t plan_size(Dynamic *d, int input, int dim) {
    const int64_t now = d->trace->inputs.at[input].meta->sizes[dim],
                  before = before_meta(d, input)->sizes[dim];
    const bool varies = d->always || before != now || was_symbolic(d, input, dim);
    if (!varies || now < 2 || before < 2) return now;
    return symbol_for(d, before, now, (SymBinding){BIND_size, input, dim});
}

/* factor * (a symbol, or a product of two) that gives both values; 0: none. */
static int64_t scaled_symbol(const Dynamic *d, int64_t before, int64_t now, int64_t old_value,
                             int64_t new_value, int64_t symbol) {
    if (!new_value || !old_value || now % new_value || before % old_value) return 0;
    if (now / new_value != before / old_value) return 0;
    if (d->always && now != new_value) return 0; /* one example: a factor would be a guess */
    return sym_mul(d->plan->env, symbol, now / new_value);
}

static int64_t product_for(const Dynamic *d, int64_t before, int64_t now) {
    for (int i = 0; i < d->pairs.n; i++) /* the symbol itself goes before multiples of others */
        if (d->pairs.at[i].before == before && d->pairs.at[i].now == now)
            return d->pairs.at[i].symbol;
    for (int i = 0; i < d->pairs.n; i++) {
        const Pair *const p = &d->pairs.at[i];
        const int64_t found = scaled_symbol(d, before, now, p->before, p->now, p->symbol);
        if (found) return found;
    }
    for (int i = 0; i < d->pairs.n; i++)
        for (int k = i; k < d->pairs.n; k++) {
            const Pair *const p = &d->pairs.at[i], *const q = &d->pairs.at[k];
            const int64_t found =
                scaled_symbol(d, before, now, p->before * q->before, p->now * q->now,
                              sym_mul(d->plan->env, p->symbol, q->symbol));
            if (found) return found;
        }
    return 0;
}

/* A symbol divided: half of the rows. */
static int64_t quotient_for(const Dynamic *d, int64_t before, int64_t now) {
    for (int i = 0; i < d->pairs.n && !d->always && before > 0 && now > 0; i++) {
        const Pair *const p = &d->pairs.at[i];
        const int64_t by = p->now / now;
        if (by > 1 && p->now == by * now && p->before == by * before)
            return sym_div(d->plan->env, p->symbol, by);
    }
    return 0;
}

static int64_t shifted_for(const Dynamic *d, int64_t before, int64_t now) {
    for (int i = 0; i < d->pairs.n; i++) {
        const Pair *const p = &d->pairs.at[i];
        if (now - p->now == before - p->before)
            return sym_add(d->plan->env, p->symbol, now - p->now);
    }
    return 0;
}

static Status plan_strides(Dynamic *d, int input, const int64_t *sizes, int64_t *strides) {
    const Meta *const now = d->trace->inputs.at[input].meta, *const before = before_meta(d, input);
    if (now->contiguous && before->contiguous) {
        meta_contiguous_strides(d->plan->env, sizes, now->rank, strides);
        return ST_OK;
    }
    for (int i = 0; i < now->rank; i++) {
        strides[i] = now->strides[i];
        if (now->strides[i] == before->strides[i]) continue;
        const int64_t product = product_for(d, before->strides[i], now->strides[i]);
        if (product)
            strides[i] = product;
        else if (now->strides[i] > 1 && before->strides[i] > 1) /* 0 and 1 stay plain here too */
            strides[i] = symbol_for(d, before->strides[i], now->strides[i],
                                    (SymBinding){BIND_stride, input, i});
    }
    return ST_OK;
}

static Status plan_input(Dynamic *d, int input) {
    const Meta *const now = d->trace->inputs.at[input].meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int i = 0; i < now->rank; i++) sizes[i] = plan_size(d, input, i);
    TRY(plan_strides(d, input, sizes, strides));
    Meta *const meta =
        meta_new(d->arena, d->plan->env, now->dtype, now->device, sizes, strides, now->rank);
    if (!meta) return ST_MEMORY;
    meta->wrapped = now->wrapped;
    d->plan->metas[input] = meta;
    return ST_OK;
}

/* which numbers may vary -------------------------------------------------------------------------- */
/* Rules read the other ones as constants: a dim, a reduction's mode, an epsilon. */

/* Sizes and positions, and the scalars of ops whose bodies read them element by element. */
static bool may_vary(const TraceOp *op, const Param *param) {
    const bool by_element = op->row->kind == KIND_pointwise || op->row->id == OP_full;
    return param->symbolic || (by_element && param->type != PT_int && param->type != PT_int_opt);
}

/* A rule branches on it: some values are computed in a way of their own. */
static bool is_guarded(const TraceOp *op, const Param *param) {
    return op->row->id == OP_pow_Tensor_Tensor && !param->symbolic;
}

bool number_is_special(bool is_float, int64_t bits) {
    static const double special[] = {-2, -1, -0.5, 0, 0.5, 1, 2, 3};
    double value = (double)bits;
    if (is_float) memcpy(&value, &bits, sizeof value);
    for (int i = 0; i < COUNT_OF(special); i++)
        if (value == special[i]) return true;
    return false;
}

/* Numbers ------------------------------------------------------------------------------------- */

static void plan_int(Dynamic *d, int k, int64_t before, int64_t now) {
    const bool varied =
        d->older && d->older->number_rules && d->older->number_rules[k] != NUMBER_fixed;
    if (!d->always && before == now && !varied) return;
    int64_t symbolic = product_for(d, before, now);
    if (d->always && (now < 2 || !symbolic))
        return; /* one example: only what equals a size follows it */
    if (!symbolic) symbolic = quotient_for(d, before, now);
    if (!symbolic) symbolic = shifted_for(d, before, now);
    d->plan->number_rules[k] = NUMBER_expr;
    if (!symbolic) {
        d->plan->number_rules[k] = NUMBER_runtime_int;
        symbolic = symbol_for(d, before, now, (SymBinding){.kind = BIND_number, .input = k});
    }
    d->plan->numbers[k] = symbolic;
}

static void plan_float(Dynamic *d, int k, int64_t before, int64_t now) {
    const bool varied =
        d->older && d->older->number_rules && d->older->number_rules[k] == NUMBER_runtime_float;
    if (d->always || (before == now && !varied)) return;
    d->plan->number_rules[k] = NUMBER_runtime_float;
    d->plan->numbers[k] = d->plan->n_runtime_floats++;
}

static void plan_number(Dynamic *d, const TraceOp *op, int k) {
    const int64_t now = d->trace->numbers.at[k];
    const int64_t before = d->older ? d->older->example_numbers[k] : now;
    const NumberPlace place = trace_number_place(op, k);
    if (!place.param || !may_vary(op, place.param)) return;
    d->plan->number_guarded[k] = is_guarded(op, place.param);
    if (d->plan->number_guarded[k] && number_is_special(place.is_float, now)) return;
    if (place.is_float)
        plan_float(d, k, before, now);
    else
        plan_int(d, k, before, now);
}

static void plan_numbers(Dynamic *d) {
    for (int o = 0; o < d->trace->ops.n; o++) {
        const TraceOp *const op = d->trace->ops.at[o].op;
        for (int k = op->first_number; k < op->first_number + op->n_numbers; k++)
            plan_number(d, op, k);
    }
}

static Status plan_static(const Trace *trace, SymPlan *plan) {
    for (int i = 0; i < trace->inputs.n; i++) plan->metas[i] = trace->inputs.at[i].meta;
    return ST_OK;
}

static bool has_floats_list(const Trace *trace) {
    for (int o = 0; o < trace->ops.n; o++)
        for (int i = 0; i < trace->ops.at[o].op->row->n_params; i++)
            if (trace->ops.at[o].op->args[i].kind == ARG_floats) return true;
    return false;
}

Status sym_plan_make(const sn_function *fn, const Trace *trace, const Variant *older, Arena *arena,
                     SymPlan *out) {
    const sn_dynamic mode = fn->options.dynamic;
    *out = (SymPlan){
        .env = sym_env_new(arena),
        .metas = ARENA_ARRAY(arena, const Meta *, trace->inputs.n),
        .numbers = arena_copy(arena, trace->numbers.at, sizeof(int64_t) * (size_t)trace->numbers.n),
        .number_rules = arena_alloc(arena, (size_t)trace->numbers.n),
        .number_guarded = ARENA_ARRAY(arena, bool, trace->numbers.n)};
    if (!out->env || !out->metas || !out->numbers || !out->number_rules || !out->number_guarded)
        return ST_MEMORY;
    const bool always = mode == SN_DYNAMIC_ALWAYS && !older;
    if (mode == SN_DYNAMIC_NEVER || (!older && !always) || has_floats_list(trace))
        return plan_static(trace, out);
    out->dynamic = true;
    Dynamic d = {.trace = trace, .older = older, .always = always, .arena = arena, .plan = out};
    for (int i = 0; i < trace->inputs.n; i++) TRY(plan_input(&d, i));
    plan_numbers(&d);
    return error_pending();
}
