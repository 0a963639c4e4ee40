/* header_plan.c: the symbols of a graph's header in a trace of its function (graph_header.h).
 *
 * The capture has a symbol for each size of its inputs, c0, c1..., and knows every number as an expression of these
 * (symbols.h). The header says what they are:
 *
 *     header   graph f(%x: f32[2*s0,s1], %y: f32[s1])         s0 = size 0 of %x / 2, s1
 *     capture  %x: [c0,c1], %y: [c2], view(c0//2, c1*2)       c0 = 2*s0, c1 = c2 = s1
 *     here     %x: [2*s0,s1], %y: [s1], view(s0, s1*2)
 *
 * A symbol of the header that has a number in this call (what is bound has it, or it is 0 or 1 and the header gives no
 * bounds) is that number: a case of its own. What only values give (SOURCE_outside) is the header's symbol that the
 * graph has there, once it has run so far, or one of its own. Where a launch gets the symbols from is then found in the
 * inputs and numbers of the segment. */
#include "runtime/capture/variant/header_plan.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/graph_header.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/variant/number_range.h"

typedef struct HeaderPlan {
    const Trace *trace;
    const Symbols *symbols;
    const GraphHeader *header;
    Arena *arena;
    TraceSymbols *plan;
    int64_t *hints; /* by symbol of the header, too */
    int n_outside;
    int64_t *values, *by; /* by symbol of the header: in this call; and here */
    bool *given;          /* its value is known */
    int64_t *learnt;      /* by symbol of the capture: what it is here */
    int64_t *alone;       /* by symbol of the plan: itself */
    bool *bound;          /* by symbol of the plan: there is a binding */
    int n_bindable;       /* room of these two that is used */
    int rounds;           /* of bindings that need others */
} HeaderPlan;

/* Symbols ------------------------------------------------------------------------------------- */

static int64_t plan_symbol(HeaderPlan *p, int header, int64_t hint, int64_t least) {
    VEC_PUSH(p->arena, &p->plan->bindings, ((SymBinding){.kind = BIND_unused, .header = header}));
    const int64_t symbol = sym_free(p->plan->env, hint, least);
    sym_free_give(p->plan->env, symbol, hint, least, SYM_MOST);
    return symbol;
}

/* Rules branch by the hint: what a small size of this call is by chance, 1 or as large as another one, is none of the
 * header's. So sizes are thought of as the header's hints, or as some that are neither small nor alike, unless that did
 * not serve: odd multiples of the call's, which are even or in parts where that one is. */
static int64_t hint_for(const HeaderPlan *p, int i, int64_t now, const SymExpr *s) {
    enum { USUAL = 17, STEP = 6 };
    if (s->b < 0 || s->most < 2 || p->trace->as_it_is) return now;
    if (s->hint >= USUAL) return max_i64(s->b, min_i64(s->hint, s->most));
    const int64_t least = USUAL + STEP * i, times = now > 1 ? ((least + now - 1) / now) | 1 : 0;
    return max_i64(s->b, min_i64(times && now * times <= s->most ? now * times : least, s->most));
}

static bool is_bound_size(const HeaderPlan *p, int64_t symbol) {
    const Graph *const graph = p->header->graph;
    bool found = false;
    for (int i = 0; i < graph->inputs.n && !found; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; p->header->bound[i] && d < meta->rank; d++) found |= meta->sizes[d] == symbol;
    }
    return found;
}

/* All symbols in it have values so far. */
static bool all_given(const HeaderPlan *p, int64_t of_header) {
    if (!sym_is(of_header)) return true;
    const SymExpr *const e = sym_expr(p->header->graph->env, of_header);
    return e->op == SYM_free ? p->given[e->a] : all_given(p, e->a) && all_given(p, e->b);
}

/* They hold of what is assumed, and no two are alike by chance; else those of the call do. */
static bool hints_serve(const HeaderPlan *p, int n) {
    const Graph *const graph = p->header->graph;
    bool serve = true;
    for (int i = 0; i < graph->assumed.n && serve; i++) {
        const SymGuard *const guard = &graph->assumed.at[i];
        const bool asked = all_given(p, guard->a) && all_given(p, guard->b);
        serve = !asked || sym_guard_holds(graph->env, guard, p->hints);
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i && serve; k++) serve = p->hints[i] != p->hints[k] || p->values[i] == p->values[k];
    return serve;
}

/* The header's hints, of which all holds that is assumed, or multiples of them that are in their bounds. */
static bool header_hints_serve(HeaderPlan *p, int n) {
    const SymEnv *const env = p->header->graph->env;
    for (int64_t times = 16; times; times /= 2) {
        bool within = true;
        for (int i = 0; i < n; i++) {
            const SymExpr *const s = sym_expr(env, sym_free_at(env, i));
            p->hints[i] = s->hint * times;
            within &= p->hints[i] <= s->most;
        }
        if (within && hints_serve(p, n)) return true;
    }
    return false;
}

static Status choose_hints(HeaderPlan *p, int n) {
    const SymEnv *const env = p->header->graph->env;
    p->hints = ARENA_ARRAY(p->arena, int64_t, n + 1);
    if (!p->hints) return ST_MEMORY;
    for (int i = 0; i < n; i++) {
        const bool now = p->trace->as_now >> min_i64(i, 63) & 1;
        p->hints[i] = now ? p->values[i] : hint_for(p, i, p->values[i], sym_expr(env, sym_free_at(env, i)));
    }
    const bool serve = !p->trace->as_it_is && (hints_serve(p, n) || header_hints_serve(p, n));
    if (!serve) memcpy(p->hints, p->values, sizeof *p->hints * (size_t)n);
    return ST_OK;
}

/* The capture's symbol for what only values give of this one; NULL: it has none, or the number itself. */
static const SymExpr *symbol_outside(const HeaderPlan *p, int i) {
    for (int k = p->symbols->frees.n - 1; k >= 0; k--) {
        const SymSource *const source = &p->symbols->frees.at[k];
        if (source->kind == SOURCE_outside && source->input == i)
            return sym_expr(p->symbols->env, sym_free_at(p->symbols->env, k));
    }
    return NULL;
}

static int64_t header_symbol(HeaderPlan *p, int i) {
    const int64_t symbol = sym_free_at(p->header->graph->env, i), now = p->values[i];
    const SymExpr *const s = sym_expr(p->header->graph->env, symbol), *const outside = symbol_outside(p, i);
    if (outside) return plan_symbol(p, i + 1, p->hints[i], outside->b);
    if (!p->given[i] || is_bound_size(p, symbol) || (!s->given && now < s->b)) return now;
    return plan_symbol(p, i + 1, p->hints[i], s->b);
}

static Status bind_header(HeaderPlan *p) {
    const Graph *const graph = p->header->graph;
    const Capture *const c = p->trace->capture;
    const int n = sym_free_count(graph->env);
    const Meta **const metas = ARENA_ARRAY(p->arena, const Meta *, graph->inputs.n + 1);
    int64_t *const ints = ARENA_ARRAY(p->arena, int64_t, graph->int_inputs.n + 1);
    p->values = ARENA_ARRAY(p->arena, int64_t, n + 1);
    p->by = ARENA_ARRAY(p->arena, int64_t, n + 1);
    p->given = ARENA_ARRAY(p->arena, bool, n + 1);
    if (!metas || !ints || !p->values || !p->by || !p->given) return ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++)
        if (p->header->bound[i]) metas[i] = p->header->bound[i]->base.meta;
    for (int i = 0; i < p->header->n; i++) {
        const HeaderArgument at = p->header->arguments[i];
        if (at.tensor >= 0) metas[at.tensor] = p->symbols->plain[i];
        if (at.number >= 0) ints[at.number] = c->in[i].i;
    }
    graph_symbol_values(graph, metas, ints, p->values, p->given);
    for (int i = 0; i < n; i++) {
        const SymExpr *const outside = symbol_outside(p, i);
        if (outside) p->values[i] = outside->hint, p->given[i] = true;
    }
    TRY(choose_hints(p, n));
    for (int i = 0; i < n; i++) p->by[i] = header_symbol(p, i);
    return ST_OK;
}

/* An expression of the header's symbols here. */
static int64_t from_header(const HeaderPlan *p, int64_t of_header) {
    return sym_move(p->plan->env, p->header->graph->env, of_header, p->by);
}

/* Symbols without a binding, each of them *which. */
static int count_unbound(const HeaderPlan *p, int64_t v, int *which) {
    if (!sym_is(v)) return 0;
    const SymExpr *const e = sym_expr(p->plan->env, v);
    if (e->op == SYM_free) {
        if (p->bound[e->a]) return 0;
        *which = (int)e->a;
        return 1;
    }
    int first = -1, second = -1;
    const int n = count_unbound(p, e->a, &first), more = count_unbound(p, e->b, &second);
    *which = first >= 0 ? first : second;
    return n && more && first == second && n == 1 && more == 1 ? 1 : n + more;
}

static bool is_unbound(const HeaderPlan *p, int64_t v) {
    int which;
    return count_unbound(p, v, &which) > 0;
}

/* What holds of every call: of symbols that the segment has. */
static void require_header(const HeaderPlan *p) {
    const Graph *const graph = p->header->graph;
    for (int i = 0; i < graph->assumed.n; i++) {
        const SymGuard *const guard = &graph->assumed.at[i];
        const int64_t a = from_header(p, guard->a), b = from_header(p, guard->b);
        const bool given = all_given(p, guard->a) && all_given(p, guard->b);
        const bool known = given && !is_unbound(p, a) && !is_unbound(p, b);
        if (known && (sym_is(a) || sym_is(b))) sym_require(p->plan->env, guard->rel, a, b);
    }
    for (int i = 0; i < sym_free_count(graph->env); i++) {
        const SymExpr *const s = sym_expr(graph->env, sym_free_at(graph->env, i));
        const bool bounded = sym_is(p->by[i]) && s->most != SYM_MOST && !is_unbound(p, p->by[i]);
        if (bounded) sym_require(p->plan->env, SYM_le, p->by[i], s->most);
    }
}

static int64_t learn_stride(const HeaderPlan *p, const SymSource *source) {
    const HeaderArgument at = p->header->arguments[source->input];
    const int64_t stride = p->header->graph->inputs.at[at.tensor]->base.meta->strides[source->dim];
    const int64_t now = p->symbols->plain[source->input]->strides[source->dim]; /* other ones of a dim of size 1 */
    return sym_eval(p->header->graph->env, stride, p->values) == now ? from_header(p, stride) : now;
}

static int64_t learn_symbol(HeaderPlan *p, int i) {
    const SymSource *const source = &p->symbols->frees.at[i];
    const SymExpr *const s = sym_expr(p->symbols->env, sym_free_at(p->symbols->env, i));
    switch (source->kind) {
    case SOURCE_size:
        return from_header(p, header_size(p->header, source->input, source->dim));
    case SOURCE_stride:
        return learn_stride(p, source);
    case SOURCE_scalar:
        return from_header(p, p->header->graph->int_inputs.at[p->header->arguments[source->input].number].symbol);
    case SOURCE_outside:
        if (source->input >= 0) return p->by[source->input];
        return plan_symbol(p, 0, hint_for(p, p->n_outside++, s->hint, s), s->b);
    }
    return s->hint;
}

static Status learn_symbols(HeaderPlan *p) {
    const int n = sym_free_count(p->symbols->env);
    p->learnt = ARENA_ARRAY(p->arena, int64_t, n + 1);
    if (!p->learnt) return ST_MEMORY;
    for (int i = 0; i < n; i++) p->learnt[i] = learn_symbol(p, i);
    return ST_OK;
}

/* Inputs and numbers -------------------------------------------------------------------------- */

/* What the capture has as an expression, here. */
static int64_t here(const HeaderPlan *p, int64_t of_capture) {
    return sym_move(p->plan->env, p->symbols->env, of_capture, p->learnt);
}

static Status plan_input(HeaderPlan *p, int input) {
    const TraceInput *const in = &p->trace->inputs.at[input];
    const Meta *const known = in->tensor ? symbols_meta(p->symbols, in->tensor) : in->meta;
    const bool same = known->rank == in->meta->rank; /* a handle may be another view by now */
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    bool symbolic = false;
    for (int d = 0; d < in->meta->rank; d++) {
        sizes[d] = same ? here(p, known->sizes[d]) : in->meta->sizes[d];
        strides[d] = same ? here(p, known->strides[d]) : in->meta->strides[d];
        symbolic |= sym_is(sizes[d]) || sym_is(strides[d]);
    }
    p->plan->metas[input] = in->meta;
    if (!symbolic) return ST_OK;
    Meta *const meta =
        meta_new(p->arena, p->plan->env, in->meta->dtype, in->meta->device, sizes, strides, in->meta->rank);
    if (!meta) return ST_MEMORY;
    meta->wrapped = in->meta->wrapped;
    p->plan->metas[input] = meta;
    return ST_OK;
}

/* A guard where the symbols' bounds leave it open. */
static void stay_in_range(const HeaderPlan *p, NumberRange range, int64_t symbolic, int64_t now) {
    if (range == RANGE_value) return;
    if (now >= 0)
        sym_at_most(p->plan->env, 0, symbolic);
    else
        sym_less(p->plan->env, symbolic, 0);
}

static void plan_number(HeaderPlan *p, const TraceOp *op, int k) {
    TraceSymbols *const plan = p->plan;
    const struct NumberSource *const source = &p->trace->sources.at[k];
    const NumberParam place = trace_number_param(op, k);
    const int64_t now = p->trace->numbers.at[k];
    if (!place.param || (place.is_float && place.item >= 0)) return; /* lists of floats are what they are */
    if (!number_may_vary(op, place.param)) return;
    plan->number_guarded[k] = number_is_guarded(op, place.param);
    if (plan->number_guarded[k] && number_is_special(place.is_float, now)) return;
    if (place.is_float) {
        if (source->input == SOURCE_value) return;
        plan->number_rules[k] = NUMBER_runtime_float;
        plan->numbers[k] = plan->n_runtime_floats++;
        return;
    }
    const int64_t symbolic = here(p, source->value);
    if (!sym_is(symbolic)) return;
    plan->number_rules[k] = NUMBER_expr;
    plan->numbers[k] = symbolic;
    stay_in_range(p, range_of_param(place.param), symbolic, now);
}

static void plan_numbers(HeaderPlan *p) {
    for (int o = 0; o < p->trace->ops.n; o++) {
        const TraceOp *const op = p->trace->ops.at[o].op;
        for (int k = op->first_number; k < op->first_number + op->n_numbers; k++) plan_number(p, op, k);
    }
}

/* Where a launch has the symbols from ---------------------------------------------------------- */

static bool bind_from(HeaderPlan *p, int64_t expr, SymBinding binding, bool solves) {
    int k = -1;
    if (count_unbound(p, expr, &k) != 1) return false;
    if (sym_expr(p->plan->env, expr)->op != SYM_free) {
        if (!solves || !sym_linear(p->plan->env, expr, k, p->alone, &binding.times, &binding.rest)) return false;
        if (sym_is(binding.times) && sym_least(p->plan->env, binding.times) < 1) return false;
        binding.round = ++p->rounds;
    }
    binding.header = p->plan->bindings.at[k].header;
    p->plan->bindings.at[k] = binding;
    return p->bound[k] = true;
}

static bool bind_from_inputs(HeaderPlan *p, bool solves) {
    bool more = false;
    for (int i = 0; i < p->trace->inputs.n; i++) {
        const Meta *const meta = p->plan->metas[i];
        for (int d = 0; d < meta->rank; d++)
            more |= bind_from(p, meta->sizes[d], (SymBinding){.kind = BIND_size, .input = i, .dim = d}, solves);
        for (int d = 0; d < meta->rank; d++)
            more |= bind_from(p, meta->strides[d], (SymBinding){.kind = BIND_stride, .input = i, .dim = d}, false);
    }
    for (int k = 0; k < p->trace->numbers.n; k++)
        if (p->plan->number_rules[k] == NUMBER_expr)
            more |= bind_from(p, p->plan->numbers[k], (SymBinding){.kind = BIND_number, .input = k}, solves);
    return more;
}

/* With what symbol k stands for everywhere. */
static Status replace_symbol(HeaderPlan *p, int k, int64_t by) {
    TraceSymbols *const plan = p->plan;
    p->alone[k] = by;
    for (int i = 0; i < p->trace->inputs.n; i++) {
        const Meta *const meta = plan->metas[i];
        int64_t sizes[MAX_RANK], strides[MAX_RANK];
        if (meta == p->trace->inputs.at[i].meta) continue;
        for (int d = 0; d < meta->rank; d++) {
            sizes[d] = sym_move(plan->env, plan->env, meta->sizes[d], p->alone);
            strides[d] = sym_move(plan->env, plan->env, meta->strides[d], p->alone);
        }
        Meta *const made = meta_new(p->arena, plan->env, meta->dtype, meta->device, sizes, strides, meta->rank);
        if (!made) return ST_MEMORY;
        made->wrapped = meta->wrapped;
        plan->metas[i] = made;
    }
    for (int n = 0; n < p->trace->numbers.n; n++)
        if (plan->number_rules[n] == NUMBER_expr)
            plan->numbers[n] = sym_move(plan->env, plan->env, plan->numbers[n], p->alone);
    return ST_OK;
}

/* Of a size with several symbols that no other one gives, s0+s1, a new symbol: what else has them mostly has the
 * same sum. */
static bool bind_sum(HeaderPlan *p, int input, int dim, Status *status) {
    SymEnv *const env = p->plan->env;
    const int64_t size = p->plan->metas[input]->sizes[dim];
    int64_t times, rest;
    int last = -1;
    if (count_unbound(p, size, &last) < 2) return false;
    for (int k = 0; k < p->n_bindable; k++) {
        if (p->bound[k] || p->alone[k] != sym_free_at(env, k)) continue;
        if (!sym_linear(env, size, k, p->alone, &times, &rest) || (times != 1 && times != -1)) continue;
        const int64_t whole = plan_symbol(p, 0, sym_hint(env, size), max_i64(sym_least(env, size), 0));
        p->plan->bindings.at[p->plan->bindings.n - 1] = (SymBinding){.kind = BIND_size, .input = input, .dim = dim};
        p->alone[p->n_bindable] = whole;
        p->bound[p->n_bindable++] = true;
        *status = replace_symbol(p, k, sym_mul(env, sym_sub(env, whole, rest), times));
        return true;
    }
    return false;
}

static bool bind_any_sum(HeaderPlan *p, Status *status) {
    for (int i = 0; i < p->trace->inputs.n; i++)
        for (int d = 0; d < p->plan->metas[i]->rank; d++)
            if (bind_sum(p, i, d, status)) return true;
    return false;
}

/* What no size tells apart is a number of its own. */
static void release_number(HeaderPlan *p, int k) {
    int unbound;
    if (p->plan->number_rules[k] != NUMBER_expr || !count_unbound(p, p->plan->numbers[k], &unbound)) return;
    const int64_t now = p->trace->numbers.at[k];
    VEC_PUSH(p->arena, &p->plan->bindings, ((SymBinding){.kind = BIND_number, .input = k}));
    p->plan->numbers[k] = sym_free(p->plan->env, now, now < 0 ? SYM_LEAST : 0);
    p->plan->number_rules[k] = NUMBER_runtime_int;
}

static Status bind_symbols(HeaderPlan *p) {
    const int n = sym_free_count(p->plan->env), room = 2 * n + 1; /* a sum takes one symbol's place */
    Status status = ST_OK;
    p->n_bindable = n;
    p->bound = ARENA_ARRAY(p->arena, bool, room);
    p->alone = ARENA_ARRAY(p->arena, int64_t, room);
    if (!p->bound || !p->alone) return ST_MEMORY;
    for (int i = 0; i < n; i++) p->alone[i] = sym_free_at(p->plan->env, i);
    bind_from_inputs(p, false);
    do
        while (bind_from_inputs(p, true)) {}
    while (bind_any_sum(p, &status) && status == ST_OK);
    for (int k = 0; k < p->trace->numbers.n; k++) release_number(p, k);
    return status == ST_OK ? error_pending() : status;
}

int64_t header_plan_solved(const SymBinding *b, const SymEnv *env, int64_t got, const int64_t *symbols) {
    if (!b->times) return got;
    const int64_t times = sym_eval(env, b->times, symbols);
    return times ? sym_div(NULL, got - sym_eval(env, b->rest, symbols), times) : 0;
}

bool header_plan_thinks(const Trace *trace) {
    const Symbols *const s = trace->capture->symbols;
    return s && s->header && s->frees.n && !trace->as_it_is && !trace->plain;
}

Status header_plan_make(const Trace *trace, Arena *arena, TraceSymbols *plan) {
    const Symbols *const symbols = trace->capture->symbols;
    HeaderPlan p = {.trace = trace, .symbols = symbols, .header = symbols->header, .arena = arena, .plan = plan};
    TRY(bind_header(&p));
    TRY(learn_symbols(&p));
    for (int i = 0; i < trace->inputs.n; i++) TRY(plan_input(&p, i));
    plan_numbers(&p);
    TRY(bind_symbols(&p));
    require_header(&p);
    plan->dynamic = plan->bindings.n || plan->n_runtime_floats;
    return error_pending();
}
