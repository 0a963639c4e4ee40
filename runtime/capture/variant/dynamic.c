/* dynamic.c: which sizes and numbers of a trace are symbolic [semantics C4, C5].
 *
 * The first trace of an end is compiled as it is. When another one differs from it in sizes or
 * numbers only, each (old, new) pair of differing sizes becomes one symbol (equal pairs share it),
 * strides follow from sizes, and a differing int becomes an expression of the symbols that gives
 * both values, else a runtime value. What an older variant has learnt counts as a third example, with
 * values made up for its symbols:
 *
 *     captured [4,6] and [8,6], compiled as [s0,6] with view(s0*6); now [8,10] with view(80)
 *                        before   now   of the older one, s0 = 1009
 *     size 0                8      8    1009      s0: it was symbolic and stays so
 *     size 1                6     10       6      s1
 *     view                 48     80    6054      s0*s1, not s1*8
 *
 * In a replay function what a number is of the call's scalar inputs is known: such a number is a runtime value from the
 * first trace on, and one expression is one symbol.
 *
 * A size that the program has marked (sn_mark_dynamic) is a symbol from the first trace on, within its bounds; then, as
 * with SN_DYNAMIC_ALWAYS, there is one example: what composites compute of sizes was learnt with it
 * (runtime/capture/record/symbols.h), and of other numbers those that equal a size follow it.
 *
 * A wrong guess is harmless: every number is compared with its expression on every verified call. */
#include "runtime/capture/variant/dynamic.h"
#include "runtime/autograd/dynamic_mark.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/variant/header_plan.h"
#include "runtime/capture/variant/number_range.h"
#include "runtime/capture/variant/variant.h"

typedef struct Example { /* one place: in the older call, in this one, in one made up */
    int64_t before, now, made_up;
} Example;

typedef struct Known {
    Example at;
    int64_t symbol;
} Known;

typedef struct Dynamic {
    const Trace *trace;
    const Variant *older;
    bool always; /* all sizes */
    bool single; /* this trace is the only example of what a symbol is */
    Arena *arena;
    TraceSymbols *plan;
    int64_t *made_up; /* values of the older variant's symbols */
    VEC(Known) known;
    int64_t *learnt; /* by free symbol of what the capture has learnt: what it is here; NO_INT: no input has it */
} Dynamic;

/* No two alike, nor near what sizes are or one another. */
static Status make_up(Dynamic *d) {
    const int n = d->older ? sym_free_count(d->older->symbols.env) : 0;
    d->made_up = ARENA_ARRAY(d->arena, int64_t, n);
    for (int i = 0; d->made_up && i < n; i++) d->made_up[i] = 1009 + 64 * i;
    return d->made_up ? ST_OK : ST_MEMORY;
}

/* `older`: what the older variant has at this place. */
static Example example(const Dynamic *d, int64_t before, int64_t now, int64_t older) {
    return (Example){before, now, d->older ? sym_eval(d->older->symbols.env, older, d->made_up) : before};
}

static bool same_example(Example a, Example b) {
    return a.before == b.before && a.now == b.now && a.made_up == b.made_up;
}

static int64_t known_symbol(const Dynamic *d, Example of) {
    for (int i = 0; i < d->known.n; i++)
        if (same_example(d->known.at[i].at, of)) return d->known.at[i].symbol;
    return 0;
}

static int64_t symbol_for(Dynamic *d, Example of, int64_t lower_bound, SymBinding binding) {
    const int64_t known = known_symbol(d, of);
    if (known) return known;
    const int64_t symbol = sym_free(d->plan->env, of.now, lower_bound);
    VEC_PUSH(d->arena, &d->known, ((Known){of, symbol}));
    VEC_PUSH(d->arena, &d->plan->bindings, binding);
    return symbol;
}

static const Meta *before_meta(const Dynamic *d, int input) {
    return d->older ? d->older->origin.metas[input] : d->trace->inputs.at[input].meta;
}

/* What an earlier segment made has the marks of the arguments whose sizes it has: a guess, as any. */
static const DynamicMark *mark_by_size(const Capture *c, int64_t size) {
    for (int i = 0; i < c->n_in; i++) {
        const sn_tensor *const t = c->in[i].kind == ARG_tensor ? (const sn_tensor *)c->in[i].val : NULL;
        for (int dim = 0; dynamic_mark_any(t) && dim < t->base.meta->rank; dim++) {
            const DynamicMark *const mark = dynamic_mark_get(t, dim);
            if (mark && t->base.meta->sizes[dim] == size) return mark;
        }
    }
    return NULL;
}

static const DynamicMark *mark_of(const Trace *trace, int input, int dim) {
    const TraceInput *const in = &trace->inputs.at[input];
    if (in->maker) return mark_by_size(trace->capture, in->meta->sizes[dim]);
    return dynamic_mark_get(in->tensor, dim);
}

static bool has_marks(const Trace *trace) {
    for (int i = 0; i < trace->inputs.n; i++)
        for (int dim = 0; dim < trace->inputs.at[i].meta->rank; dim++)
            if (mark_of(trace, i, dim)) return true;
    return false;
}

/* A size outside is a case of its own: the bounds are guards. */
static int64_t within(Dynamic *d, int64_t symbol, const DynamicMark *mark) {
    if (mark->least > 2) sym_require(d->plan->env, SYM_le, mark->least, symbol);
    if (mark->most < INT64_MAX) sym_require(d->plan->env, SYM_le, symbol, mark->most);
    return symbol;
}

/* 0 and 1 stay plain: rules branch on them [semantics C5]. */
static int64_t plan_size(Dynamic *d, int input, int dim) {
    const DynamicMark *const mark = mark_of(d->trace, input, dim);
    const int64_t now = d->trace->inputs.at[input].meta->sizes[dim], before = before_meta(d, input)->sizes[dim],
                  older = d->older ? d->older->inputs[input].meta->sizes[dim] : before;
    const bool varies = d->always || (before != now && before >= 2) || sym_is(older);
    if (now < 2 || !(varies || mark) || (mark && (now < mark->least || now > mark->most))) return now;
    const int64_t symbol = symbol_for(d, example(d, before, now, older), 2, (SymBinding){BIND_size, input, dim});
    return mark ? within(d, symbol, mark) : symbol;
}

/* Modulo 2^64, as symbols are: numbers may be anything. */
static int64_t times_sizes(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t minus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* factor * (a symbol, or a product of two) that gives all three values; 0: none. */
static int64_t scaled_symbol(const Dynamic *d, Example of, Example value, int64_t symbol) {
    if (value.now < 1 || !value.before || of.now % value.now) return 0;
    const int64_t factor = of.now / value.now;
    if (d->single && factor != 1) return 0; /* one example: a factor would be a guess */
    const Example scaled = {times_sizes(value.before, factor), of.now, times_sizes(value.made_up, factor)};
    return same_example(scaled, of) ? sym_mul(d->plan->env, symbol, factor) : 0;
}

static int64_t product_for(const Dynamic *d, Example of) {
    int64_t found = known_symbol(d, of); /* before multiples of others */
    for (int i = 0; i < d->known.n && !found; i++)
        found = scaled_symbol(d, of, d->known.at[i].at, d->known.at[i].symbol);
    for (int i = 0; i < d->known.n; i++)
        for (int k = i; k < d->known.n && !found; k++) {
            const Example p = d->known.at[i].at, q = d->known.at[k].at;
            const Example product = {times_sizes(p.before, q.before), times_sizes(p.now, q.now),
                                     times_sizes(p.made_up, q.made_up)};
            found = scaled_symbol(d, of, product, sym_mul(d->plan->env, d->known.at[i].symbol, d->known.at[k].symbol));
        }
    return found;
}

/* A symbol divided: half of the rows. */
static int64_t quotient_for(const Dynamic *d, Example of) {
    for (int i = 0; i < d->known.n && !d->single && of.before > 0 && of.now > 0; i++) {
        const Example p = d->known.at[i].at;
        const int64_t by = p.now / of.now;
        if (by > 1 && p.now == times_sizes(by, of.now) && p.before == times_sizes(by, of.before) &&
            p.made_up / by == of.made_up)
            return sym_div(d->plan->env, d->known.at[i].symbol, by);
    }
    return 0;
}

static int64_t shifted_for(const Dynamic *d, Example of) {
    for (int i = 0; i < d->known.n; i++) {
        const Example p = d->known.at[i].at;
        const int64_t by = minus(of.now, p.now);
        if (minus(of.before, p.before) == by && minus(of.made_up, p.made_up) == by)
            return sym_add(d->plan->env, d->known.at[i].symbol, by);
    }
    return 0;
}

/* The stride that a dim around dim `inner` has where memory is dense, in the three calls of an Example. */
static Example around(const Dynamic *d, int input, int inner) {
    const Meta *const now = d->trace->inputs.at[input].meta, *const before = before_meta(d, input);
    const Meta *const older = d->older ? d->older->inputs[input].meta : before;
    const Example size = example(d, before->sizes[inner], now->sizes[inner], older->sizes[inner]),
                  stride = example(d, before->strides[inner], now->strides[inner], older->strides[inner]);
    return (Example){times_sizes(size.before, stride.before), times_sizes(size.now, stride.now),
                     times_sizes(size.made_up, stride.made_up)};
}

/* The dims of a permuted tensor lie one around the other, whatever they are: the inner one's extent; 0: none has it. */
static int64_t extent_for(const Dynamic *d, int input, int dim, Example of, const int64_t *sizes,
                          const int64_t *strides) {
    const Meta *const now = d->trace->inputs.at[input].meta;
    for (int i = 0; i < now->rank; i++) {
        const bool inside = i != dim && now->strides[i] > 0 && now->strides[i] < of.now && now->sizes[i] > 1;
        if (inside && strides[i] && same_example(around(d, input, i), of))
            return sym_mul(d->plan->env, sizes[i], strides[i]);
    }
    return 0;
}

/* Dims by their strides, the smallest first. */
static void order_by_stride(const Meta *meta, int *dims) {
    for (int i = 0; i < meta->rank; i++) {
        int at = i;
        for (; at > 0 && meta->strides[dims[at - 1]] > meta->strides[i]; at--) dims[at] = dims[at - 1];
        dims[at] = i;
    }
}

static Status plan_strides(Dynamic *d, int input, const int64_t *sizes, int64_t *strides) {
    const Meta *const now = d->trace->inputs.at[input].meta, *const before = before_meta(d, input);
    /* Dims of size 1 of a contiguous tensor may have any stride, which guards compare as it is. */
    if (meta_is_row_major(now) && meta_is_row_major(before)) {
        meta_contiguous_strides(d->plan->env, sizes, now->rank, strides);
        return ST_OK;
    }
    int dims[MAX_RANK];
    order_by_stride(now, dims);
    memset(strides, 0, sizeof *strides * (size_t)now->rank); /* not known yet */
    for (int k = 0; k < now->rank; k++) {
        const int i = dims[k];
        strides[i] = now->strides[i];
        const int64_t older = d->older ? d->older->inputs[input].meta->strides[i] : before->strides[i];
        if (now->strides[i] == before->strides[i] && !sym_is(older) && !(d->single && now->strides[i] > 1)) continue;
        const Example of = example(d, before->strides[i], now->strides[i], older);
        const int64_t extent = extent_for(d, input, i, of, sizes, strides);
        const int64_t product = extent ? extent : product_for(d, of);
        if (product)
            strides[i] = product;
        else if (!d->single && now->strides[i] > 1 && before->strides[i] > 1) /* 0 and 1 stay plain here too */
            strides[i] = symbol_for(d, of, 2, (SymBinding){BIND_stride, input, i});
    }
    return ST_OK;
}

static Status plan_input(Dynamic *d, int input) {
    const Meta *const now = d->trace->inputs.at[input].meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int i = 0; i < now->rank; i++) sizes[i] = plan_size(d, input, i);
    TRY(plan_strides(d, input, sizes, strides));
    Meta *const meta = meta_new(d->arena, d->plan->env, now->dtype, now->device, sizes, strides, now->rank);
    if (!meta) return ST_MEMORY;
    meta->wrapped = now->wrapped;
    d->plan->metas[input] = meta;
    return ST_OK;
}

/* which numbers may vary -------------------------------------------------------------------------- */

static int64_t least_of(NumberRange range, Example of) {
    if (range == RANGE_size) return 2;
    if (range == RANGE_position) return of.now < 0 ? SYM_LEAST : 0;
    return of.now < 0 || of.before < 0 ? SYM_LEAST : 0;
}

/* A guard where the symbols' own bounds leave it open. */
static void stay_in_range(const Dynamic *d, NumberRange range, int64_t symbolic, int64_t now) {
    if (range == RANGE_size) sym_at_most(d->plan->env, 2, symbolic);
    if (range == RANGE_position && now < 0) sym_less(d->plan->env, symbolic, 0);
    if (range == RANGE_position && now >= 0) sym_at_most(d->plan->env, 0, symbolic);
}

/* Numbers ------------------------------------------------------------------------------------- */

/* Where the first trace of a replay function has number k from; NULL: not known, or others come before. */
static const struct NumberSource *first_source(const Dynamic *d, int k) {
    const Trace *const trace = d->trace;
    const bool known = !d->older && trace->capture->symbols && trace->sources.n == trace->numbers.n;
    return known ? &trace->sources.at[k] : NULL;
}

static bool all_bound(const Dynamic *d, const SymEnv *env, int64_t a) {
    if (!sym_is(a)) return true;
    const SymExpr *const e = sym_expr(env, a);
    if (e->op == SYM_free) return d->learnt[e->a] != NO_INT;
    return all_bound(d, env, e->a) && all_bound(d, env, e->b);
}

static int64_t runtime_int(Dynamic *d, int k, NumberRange range, Example of) {
    d->plan->number_rules[k] = NUMBER_runtime_int;
    return symbol_for(d, of, least_of(range, of), (SymBinding){.kind = BIND_number, .input = k});
}

/* What the capture knows of number k, as an expression of this plan's symbols; where some are sizes of a tensor that no
 * op of the segment takes, a number of the call. 0: it is a plain number. */
static int64_t learnt_int(Dynamic *d, int k, NumberRange range, int64_t now) {
    const struct NumberSource *const source = first_source(d, k);
    if (!source || !d->learnt || !sym_is(source->value)) return 0;
    const SymEnv *const env = d->trace->capture->symbols->env;
    if (!all_bound(d, env, source->value)) return runtime_int(d, k, range, (Example){now, now, source->value});
    const int64_t symbolic = sym_move(d->plan->env, env, source->value, d->learnt);
    return sym_is(symbolic) && sym_hint(d->plan->env, symbolic) == now ? symbolic : 0;
}

/* Of a trace that is an example beside an older one, or the only one; 0: the number stays what it is. */
static int64_t varying_int(Dynamic *d, int k, NumberRange range, int64_t before, int64_t now) {
    const bool varied = d->older && d->older->attributes.rules && d->older->attributes.rules[k] != NUMBER_fixed;
    if (range == RANGE_size && (now < 2 || (before < 2 && !varied))) return 0;
    if (!d->single && before == now && !varied) return 0;
    const Example of = example(d, before, now, d->older ? d->older->attributes.at[k] : before);
    int64_t symbolic = now < 2 ? 0 : learnt_int(d, k, range, now);
    if (!symbolic) symbolic = product_for(d, of);
    if (d->single) return now < 2 ? 0 : symbolic; /* one example: only what equals a size follows it */
    if (!symbolic) symbolic = quotient_for(d, of);
    if (!symbolic) symbolic = shifted_for(d, of);
    return symbolic ? symbolic : runtime_int(d, k, range, of);
}

static void plan_int(Dynamic *d, int k, NumberRange range, int64_t before, int64_t now) {
    const struct NumberSource *const source = first_source(d, k);
    const bool of_call = source && now >= 2 && symbols_of_scalar(d->trace->capture->symbols, source->value);
    const int64_t symbolic = of_call
                                 ? runtime_int(d, k, range, (Example){now, now, source->value}) /* equal: the same */
                                 : varying_int(d, k, range, before, now);
    if (!symbolic) return;
    if (d->plan->number_rules[k] == NUMBER_fixed) d->plan->number_rules[k] = NUMBER_expr;
    d->plan->numbers[k] = symbolic;
    stay_in_range(d, range, symbolic, now);
}

static void plan_float(Dynamic *d, int k, int64_t before, int64_t now) {
    const bool varied = d->older && d->older->attributes.rules && d->older->attributes.rules[k] == NUMBER_runtime_float;
    const struct NumberSource *const source = first_source(d, k);
    const bool varies = source && source->input != SOURCE_value; /* a number of the call, or of its sizes */
    if (!varies && before == now && !varied) return;
    d->plan->number_rules[k] = NUMBER_runtime_float;
    d->plan->numbers[k] = d->plan->n_runtime_floats++;
}

static void plan_number(Dynamic *d, const TraceOp *op, int k) {
    const int64_t now = d->trace->numbers.at[k];
    const int64_t before = d->older ? d->older->origin.numbers[k] : now;
    const NumberParam place = trace_number_param(op, k);
    if (!place.param || !number_may_vary(op, place.param)) return;
    d->plan->number_guarded[k] = number_is_guarded(op, place.param);
    if (d->plan->number_guarded[k] && number_is_special(place.is_float, now)) return;
    if (place.is_float)
        plan_float(d, k, before, now);
    else
        plan_int(d, k, range_of_param(place.param), before, now);
}

static void plan_numbers(Dynamic *d) {
    for (int o = 0; o < d->trace->ops.n; o++) {
        const TraceOp *const op = d->trace->ops.at[o].op;
        for (int k = op->first_number; k < op->first_number + op->n_numbers; k++) plan_number(d, op, k);
    }
}

static Status bind_learnt(Dynamic *d) {
    const Symbols *const symbols = d->trace->capture->symbols;
    const int n = symbols ? sym_free_count(symbols->env) : 0;
    if (!n || d->older) return ST_OK;
    d->learnt = ARENA_ARRAY(d->arena, int64_t, n);
    if (!d->learnt) return ST_MEMORY;
    for (int i = 0; i < n; i++) d->learnt[i] = NO_INT;
    for (int i = 0; i < d->trace->inputs.n; i++) {
        const sn_tensor *const t = d->trace->inputs.at[i].tensor; /* NULL: gone since */
        if (t) symbols_bind(symbols, t, d->plan->metas[i], d->learnt);
    }
    return ST_OK;
}

static Status plan_static(const Trace *trace, TraceSymbols *plan) {
    for (int i = 0; i < trace->inputs.n; i++) plan->metas[i] = trace->inputs.at[i].meta;
    return ST_OK;
}

static bool has_floats_list(const Trace *trace) {
    for (int o = 0; o < trace->ops.n; o++)
        for (int i = 0; i < trace->ops.at[o].op->row->n_params; i++)
            if (trace->ops.at[o].op->args[i].kind == ARG_floats) return true;
    return false;
}

Status trace_symbols_make(const sn_function *fn, const Trace *trace, const Variant *older, Arena *arena,
                          TraceSymbols *out) {
    const sn_dynamic mode = fn->options.dynamic;
    *out = (TraceSymbols){.env = sym_env_new(arena),
                          .metas = ARENA_ARRAY(arena, const Meta *, trace->inputs.n),
                          .numbers = arena_copy(arena, trace->numbers.at, sizeof(int64_t) * (size_t)trace->numbers.n),
                          .number_rules = arena_alloc(arena, (size_t)trace->numbers.n),
                          .number_guarded = ARENA_ARRAY(arena, bool, trace->numbers.n)};
    if (!out->env || !out->metas || !out->numbers || !out->number_rules || !out->number_guarded) return ST_MEMORY;
    const Symbols *const symbols = trace->capture->symbols;
    if (trace->plain) return plan_static(trace, out);
    if (symbols && symbols->header && !symbols->sizes_only && trace->sources.n == trace->numbers.n)
        return header_plan_make(trace, arena, out);
    const bool always = mode == SN_DYNAMIC_ALWAYS && !older;
    const bool single = !older && (always || has_marks(trace));
    const bool sources = symbols_have_numbers(trace->capture->symbols);
    if (mode == SN_DYNAMIC_NEVER || (!older && !single && !sources) || has_floats_list(trace))
        return plan_static(trace, out);
    out->dynamic = true;
    Dynamic d = {.trace = trace, .older = older, .always = always, .single = single, .arena = arena, .plan = out};
    TRY(make_up(&d));
    for (int i = 0; i < trace->inputs.n; i++) TRY(plan_input(&d, i));
    TRY(bind_learnt(&d));
    plan_numbers(&d);
    return error_pending();
}
