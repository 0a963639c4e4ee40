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
 * bounds) is that number: a case of its own. What only values give (SOURCE_outside) is a symbol of its own. Where a
 * launch gets the symbols from is then found in the inputs and numbers of the segment. */
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
    int64_t *values, *by; /* by symbol of the header: in this call; and here */
    bool *given;          /* its value is known */
    int64_t *learnt;      /* by symbol of the capture: what it is here */
    int64_t *alone;       /* by symbol of the plan: itself */
    bool *bound;          /* by symbol of the plan: there is a binding */
    int rounds;           /* of bindings that need others */
} HeaderPlan;

/* Symbols ------------------------------------------------------------------------------------- */

static int64_t plan_symbol(HeaderPlan *p, int64_t hint, int64_t least) {
    VEC_PUSH(p->arena, &p->plan->bindings, ((SymBinding){.kind = BIND_unused}));
    const int64_t symbol = sym_free(p->plan->env, hint, least);
    sym_free_give(p->plan->env, symbol, hint, least, SYM_MOST);
    return symbol;
}

/* Rules branch on 0 and 1 by the hint: a size that may be more is thought of as more, unless that did not serve. */
static int64_t hint_for(const HeaderPlan *p, int64_t now, int64_t hint, int64_t least, int64_t most) {
    enum { USUAL = 8 };
    if (now >= 2 || least < 0 || most < 2 || p->trace->as_it_is) return now;
    if (hint < 2 || hint < least || hint > most) hint = USUAL;
    return max_i64(least, min_i64(hint, most));
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

static int64_t header_symbol(HeaderPlan *p, int i) {
    const int64_t symbol = sym_free_at(p->header->graph->env, i), now = p->values[i];
    const SymExpr *const s = sym_expr(p->header->graph->env, symbol);
    if (!p->given[i] || is_bound_size(p, symbol) || (!s->given && now < s->b)) return now;
    return plan_symbol(p, hint_for(p, now, s->hint, s->b, s->most), s->b);
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
    for (int i = 0; i < n; i++) p->by[i] = header_symbol(p, i);
    return ST_OK;
}

/* An expression of the header's symbols here. */
static int64_t from_header(const HeaderPlan *p, int64_t of_header) {
    return sym_move(p->plan->env, p->header->graph->env, of_header, p->by);
}

/* What holds of every call. */
static void require_header(const HeaderPlan *p) {
    const Graph *const graph = p->header->graph;
    for (int i = 0; i < graph->assumed.n; i++) {
        const SymGuard *const guard = &graph->assumed.at[i];
        const int64_t a = from_header(p, guard->a), b = from_header(p, guard->b);
        if (sym_is(a) || sym_is(b)) sym_require(p->plan->env, guard->rel, a, b);
    }
    for (int i = 0; i < sym_free_count(graph->env); i++) {
        const SymExpr *const s = sym_expr(graph->env, sym_free_at(graph->env, i));
        if (sym_is(p->by[i]) && s->most != SYM_MOST) sym_require(p->plan->env, SYM_le, p->by[i], s->most);
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
        return plan_symbol(p, hint_for(p, s->hint, 0, s->b, SYM_MOST), s->b);
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

static bool bind_from(HeaderPlan *p, int64_t expr, SymBinding binding, bool solves) {
    int k = -1;
    if (count_unbound(p, expr, &k) != 1) return false;
    if (sym_expr(p->plan->env, expr)->op != SYM_free) {
        if (!solves || !sym_linear(p->plan->env, expr, k, p->alone, &binding.times, &binding.rest)) return false;
        if (sym_is(binding.times) && sym_least(p->plan->env, binding.times) < 1) return false;
        binding.round = ++p->rounds;
    }
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
    const int n = sym_free_count(p->plan->env);
    p->bound = ARENA_ARRAY(p->arena, bool, n + 1);
    p->alone = ARENA_ARRAY(p->arena, int64_t, n + 1);
    if (!p->bound || !p->alone) return ST_MEMORY;
    for (int i = 0; i < n; i++) p->alone[i] = sym_free_at(p->plan->env, i);
    bind_from_inputs(p, false);
    while (bind_from_inputs(p, true)) {}
    for (int k = 0; k < p->trace->numbers.n; k++) release_number(p, k);
    return error_pending();
}

int64_t header_plan_solved(const SymBinding *b, const SymEnv *env, int64_t got, const int64_t *symbols) {
    if (!b->times) return got;
    const int64_t times = sym_eval(env, b->times, symbols);
    return times ? sym_div(NULL, got - sym_eval(env, b->rest, symbols), times) : 0;
}

bool header_plan_thinks(const Trace *trace) {
    const Symbols *const s = trace->capture->symbols;
    bool thinks = false;
    for (int i = 0; s && s->header && !trace->as_it_is && i < s->frees.n; i++)
        thinks |= s->frees.at[i].kind != SOURCE_scalar && sym_hint(s->env, sym_free_at(s->env, i)) < 2;
    return thinks && !trace->plain;
}

Status header_plan_make(const Trace *trace, Arena *arena, TraceSymbols *plan) {
    const Symbols *const symbols = trace->capture->symbols;
    HeaderPlan p = {.trace = trace, .symbols = symbols, .header = symbols->header, .arena = arena, .plan = plan};
    TRY(bind_header(&p));
    require_header(&p);
    TRY(learn_symbols(&p));
    for (int i = 0; i < trace->inputs.n; i++) TRY(plan_input(&p, i));
    plan_numbers(&p);
    TRY(bind_symbols(&p));
    plan->dynamic = plan->bindings.n || plan->n_runtime_floats;
    return error_pending();
}
