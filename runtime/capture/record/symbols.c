/* symbols.c: see symbols.h. */
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/graph_header.h"
#include "runtime/capture/record/trace_graph.h"

#include "runtime/compile/compile.h"
#include "runtime/base/alloc.h"
#include "runtime/core/tracer.h"
#include "runtime/core/override.h"

static Symbols *learning(void) {
    const Capture *const c = capture_of(state_get()->tracer);
    return c ? c->symbols : NULL;
}

Symbols *symbols_current(void) {
    Symbols *const s = learning();
    return s && !s->sizes_only ? s : NULL;
}

/* Of a body that is traced (flow/body_trace.c): those of the call around it. */
static Symbols *around(void) {
    const Capture *const c = capture_of(tracer_of_call());
    return c && c->symbols && !c->symbols->sizes_only ? c->symbols : NULL;
}

/* The inputs of a call ------------------------------------------------------------------------ */

static int64_t fresh(Symbols *s, int64_t value, int64_t lower_bound, SymSource source) {
    if (value < lower_bound) return value;                /* rules branch on 0 and 1; guarded to stay as they are */
    for (int i = 0; s->sizes_only && i < s->frees.n; i++) /* as the plan's symbols are (variant/dynamic.c) */
        if (sym_hint(s->env, sym_free_at(s->env, i)) == value) return sym_free_at(s->env, i);
    VEC_PUSH(s->arena, &s->frees, source);
    return sym_free(s->env, value, lower_bound);
}

/* They follow from the sizes, but for those that nothing is reached by: of dims of size 1, and of what is empty. */
static void row_major_strides(Symbols *s, const Meta *meta, const int64_t *sizes, int64_t *strides) {
    meta_contiguous_strides(s->env, sizes, meta->rank, strides);
    for (int d = 0; d < meta->rank; d++)
        if (sym_hint(s->env, strides[d]) != meta->strides[d]) strides[d] = meta->strides[d];
}

/* Where the header gives bounds a size below 2 is one as any other. */
static int64_t least_size(const Symbols *s, int64_t size) {
    const int64_t least = sym_least(s->header->graph->env, size);
    const SymExpr *const e = sym_expr(s->header->graph->env, size);
    return e->op == SYM_free && !e->given ? 2 : min_i64(2, max_i64(least, 0));
}

static int64_t input_size(Symbols *s, int input, int d, int64_t now) {
    const SymSource source = {SOURCE_size, input, d};
    if (!s->header) return fresh(s, now, 2, source);
    const int64_t size = header_size(s->header, input, d);
    return sym_is(size) ? fresh(s, now, least_size(s, size), source) : now;
}

static const Meta *input_meta(Symbols *s, int input, const Meta *meta) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) sizes[d] = input_size(s, input, d, meta->sizes[d]);
    if (meta->contiguous)
        row_major_strides(s, meta, sizes, strides);
    else
        for (int d = 0; d < meta->rank; d++)
            strides[d] = fresh(s, meta->strides[d], 2, (SymSource){SOURCE_stride, input, d});
    Meta *const made = meta_new(s->arena, s->env, meta->dtype, meta->device, sizes, strides, meta->rank);
    if (!made) return NULL;
    made->wrapped = meta->wrapped;
    made->contiguous = meta->contiguous;
    return made;
}

static bool add_input(Symbols *s, Arg *arg, int i) {
    if (arg->kind == ARG_tensor && arg->val) {
        s->plain[i] = arg->val->meta;
        s->metas[i] = input_meta(s, i, arg->val->meta);
        return s->metas[i] != NULL;
    }
    if (s->sizes_only) return true;
    const int64_t least = s->header ? SYM_LEAST : 0; /* of a header's int any number is meant, but those outside of its
                                                         bounds */
    if (arg->kind == ARG_int) s->ints[i] = fresh(s, arg->i, least, (SymSource){SOURCE_scalar, i, 0});
    if (arg->kind == ARG_int || arg->kind == ARG_float) arg->n = 1 + i;
    return true;
}

/* A call that does not fit the header is refused by the body. */
static bool header_fits(const GraphHeader *h, const Arg *in, int n_in) {
    bool fits = n_in == h->n;
    for (int i = 0; fits && i < n_in; i++) {
        const int tensor = h->arguments[i].tensor;
        fits = (in[i].kind == ARG_tensor && in[i].val) == (tensor >= 0) &&
               (tensor < 0 || in[i].val->meta->rank == h->graph->inputs.at[tensor]->base.meta->rank);
    }
    return fits;
}

Symbols *symbols_new(const Arg *in, int n_in, bool sizes_only, const GraphHeader *header) {
    Arena *const arena = arena_new();
    if (!arena) return NULL;
    Symbols *const s = ARENA_NEW(arena, Symbols);
    Arg *const args = ARENA_ARRAY(arena, Arg, n_in);
    bool fine = s && args;
    if (fine) {
        *s = (Symbols){.arena = arena,
                       .env = sym_env_new(arena),
                       .n_in = n_in,
                       .sizes_only = sizes_only,
                       .header = header && header_fits(header, in, n_in) ? header : NULL,
                       .in = args,
                       .metas = ARENA_ARRAY(arena, const Meta *, n_in),
                       .plain = ARENA_ARRAY(arena, const Meta *, n_in),
                       .ints = ARENA_ARRAY(arena, int64_t, n_in),
                       .pinned = ARENA_ARRAY(arena, bool, n_in),
                       .read = ARENA_ARRAY(arena, bool, n_in)};
        fine = s->env && s->metas && s->plain && s->ints && s->pinned && s->read;
    }
    for (int i = 0; i < n_in && fine; i++) {
        args[i] = in[i];
        fine = add_input(s, &args[i], i);
    }
    if (fine) return s;
    arena_free(arena);
    return NULL;
}

void symbols_forget_asked(Symbols *s) {
    for (int i = 0; i < s->asked.n; i++) tensor_release(s->asked.at[i].tensor);
    s->asked.n = 0;
}

void symbols_free(Symbols *symbols) {
    if (!symbols) return;
    symbols_forget_asked(symbols);
    map_free(&symbols->made);
    arena_free(symbols->arena);
}

/* Numbers ------------------------------------------------------------------------------------- */

bool symbols_have_numbers(const Symbols *s) {
    for (int i = 0; s && !s->sizes_only && i < s->n_in; i++)
        if (s->in[i].kind == ARG_int || s->in[i].kind == ARG_float) return true;
    return false;
}

/* Evaluated for two calls whose ints alone differ. */
bool symbols_of_scalar(const Symbols *s, int64_t value) {
    enum { MOST = 256 };
    int64_t one[MOST], other[MOST];
    if (!sym_is(value) || s->frees.n > MOST) return false;
    for (int i = 0; i < s->frees.n; i++) {
        one[i] = 1009 + 64 * i;
        other[i] = one[i] + (s->frees.at[i].kind == SOURCE_scalar ? 7 : 0);
    }
    return sym_eval(s->env, value, one) != sym_eval(s->env, value, other);
}

/* What an int argument stands for: an input that was passed on, an expression, or itself. */
static int64_t expression_of(const Symbols *s, const Arg *arg) {
    const bool passed_on = arg->kind == ARG_int && arg->n > 0 && arg->n <= s->n_in;
    return passed_on && s->in[arg->n - 1].i == arg->i ? s->ints[arg->n - 1] : arg->i;
}

static int float_input(const Symbols *s, const Arg *arg) {
    if (arg->kind == ARG_float && arg->n == FLOAT_FROM_SIZES) return SOURCE_from_sizes;
    if (arg->kind != ARG_float || arg->n <= 0 || arg->n > s->n_in) return SOURCE_value;
    return s->in[arg->n - 1].i == arg->i ? arg->n - 1 : SOURCE_value; /* by bits */
}

/* The input is what it is from here on. */
static void pin(const Symbols *s, const Arg *arg) {
    const int input = s->sizes_only ? -1 : float_input(s, arg);
    if (input >= 0) s->pinned[input] = true;
}

/* Metadata ------------------------------------------------------------------------------------ */

static uint64_t made_key(const sn_tensor *t) { return hash_mix(11, (uint64_t)(uintptr_t)t); }

/* It may have been changed in place since. */
static bool still_fits(const Symbols *s, const Meta *made, const Meta *now) {
    bool same = made->rank == now->rank && made->dtype == now->dtype;
    for (int d = 0; same && d < made->rank; d++)
        same =
            sym_hint(s->env, made->sizes[d]) == now->sizes[d] && sym_hint(s->env, made->strides[d]) == now->strides[d];
    return same;
}

/* Closed-over tensors are what they are. */
const Meta *symbols_meta(const Symbols *s, const sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    if (p) return p->symbolic ? p->symbolic : t->base.meta;
    for (int i = 0; i < s->n_in; i++)
        if (s->in[i].kind == ARG_tensor && s->in[i].val == &t->base)
            return t->base.meta == s->plain[i] ? s->metas[i] : t->base.meta; /* an out op's resize */
    const Meta *const made = s->header ? map_get(&s->made, made_key(t)) : NULL;
    return made && still_fits(s, made, t->base.meta) ? made : t->base.meta;
}

static void bind_free(const Symbols *s, int64_t learnt, int64_t here, int64_t *by) {
    if (!sym_is(learnt)) return;
    const SymExpr *const e = sym_expr(s->env, learnt);
    if (e->op == SYM_free) by[e->a] = here;
}

void symbols_bind(const Symbols *s, const sn_tensor *t, const Meta *here, int64_t *by) {
    const Meta *const meta = symbols_meta(s, t);
    for (int d = 0; d < meta->rank; d++) {
        bind_free(s, meta->strides[d], here->strides[d], by);
        bind_free(s, meta->sizes[d], here->sizes[d], by);
    }
}

/* Answers ------------------------------------------------------------------------------------- */

typedef void SymbolsAnswer(Symbols *s, TracerQuery *q);

static void answer_symbols(Symbols *s, TracerQuery *q) { q->symbols = s->env; }
static void answer_number(Symbols *s, TracerQuery *q) { q->answer = expression_of(s, q->arg); }
static void answer_meta(Symbols *s, TracerQuery *q) { q->meta = symbols_meta(s, q->tensor); }
static void record_shown(Symbols *s, TracerQuery *q) { symbols_shown(s, q->shown); }
static void record_shown_float(Symbols *s, TracerQuery *q) { pin(s, q->arg); }

/* Of the header's graph it is known which of its symbols that is. */
static void answer_unbacked(Symbols *s, TracerQuery *q) {
    const UnbackedNumber *const number = q->unbacked;
    const int of_header = s->header && s->header->graph == number->graph ? number->symbol : -1;
    if (!s->header) return;
    if (!sym_is(q->answer)) {
        q->answer = fresh(s, q->answer, number->least, (SymSource){SOURCE_outside, of_header, 0});
        return;
    }
    const SymExpr *const e = sym_expr(s->env, q->answer);
    SymSource *const source = e->op == SYM_free ? &s->frees.at[e->a] : NULL;
    if (source && source->kind == SOURCE_outside) source->input = of_header;
}

static void record_given(Symbols *s, TracerQuery *q) {
    const bool number = q->arg->kind == ARG_int || q->arg->kind == ARG_float;
    if (number && q->arg->n > 0 && q->arg->n <= s->n_in) s->read[q->arg->n - 1] = true;
}

void symbols_answer(Capture *c, TracerQuery *q) {
    static SymbolsAnswer *const answers[] = {
        [ASKED_symbols] = answer_symbols,   [ASKED_number] = answer_number,           [ASKED_meta] = answer_meta,
        [ASKED_shown] = record_shown,       [ASKED_shown_float] = record_shown_float, [ASKED_given] = record_given,
        [ASKED_unbacked] = answer_unbacked,
    };
    if (c->symbols && !c->symbols->sizes_only) answers[q->asked](c->symbols, q);
}

/* A call with plain numbers ------------------------------------------------------------------- */

static Status plain_arg(Symbols *s, Arg *arg) {
    if (arg->kind == ARG_int || arg->kind == ARG_float) arg->n = 0;
    if (arg->kind == ARG_int) arg->i = sym_hint(s->env, arg->i);
    if (arg->kind != ARG_ints) return ST_OK;
    int64_t *const ints = ARENA_ARRAY(s->arena, int64_t, arg->n);
    if (!ints) return ST_MEMORY;
    for (int i = 0; i < arg->n; i++) ints[i] = sym_hint(s->env, arg->ints[i]);
    arg->ints = ints;
    return ST_OK;
}

Status symbols_plain_call(Symbols *s, const OpCall *call, OpCall *plain, Arg *args) {
    *plain = *call;
    plain->args = args;
    for (int i = 0; i < call->row->n_params; i++) {
        args[i] = call->args[i];
        TRY(plain_arg(s, &args[i]));
    }
    return ST_OK;
}

/* Of a body's graph, which has plain numbers: what is one of the function's call, or stands for it, specialises. */
static Status specialise_arg(Symbols *s, Arg *arg) {
    if (arg->kind == ARG_float) pin(s, arg);
    if (arg->kind == ARG_int) arg->i = sym_concrete(s->env, expression_of(s, arg));
    if (arg->kind == ARG_int || arg->kind == ARG_float) arg->n = 0;
    if (arg->kind != ARG_ints) return ST_OK;
    int64_t *const ints = ARENA_ARRAY(s->arena, int64_t, arg->n + 1);
    if (!ints) return ST_MEMORY;
    for (int i = 0; i < arg->n; i++) ints[i] = sym_concrete(s->env, arg->ints[i]);
    arg->ints = ints;
    return ST_OK;
}

Status symbols_traced_args(const OpCall *call, Arg *args) {
    Symbols *const s = around();
    for (int i = 0; i < call->row->n_params; i++) {
        args[i] = call->args[i];
        if (s) TRY(specialise_arg(s, &args[i]));
    }
    return ST_OK;
}

/* Recording ----------------------------------------------------------------------------------- */

static void add_source(Capture *c, int64_t value, int input) {
    VEC_PUSH(c->arena, &c->trace->sources, ((struct NumberSource){value, input}));
}

/* In the order of the trace's numbers. */
static void record_numbers(Capture *c, const OpRow *row, const Arg *symbolic) {
    const Symbols *const s = c->symbols;
    for (int i = 0; i < row->n_params; i++) {
        const Arg *const arg = &symbolic[i];
        const bool list = arg->kind == ARG_ints || arg->kind == ARG_floats;
        for (int k = 0; list && k < arg->n; k++) add_source(c, arg->ints[k], SOURCE_value); /* by bits */
        if (trace_arg_is_number(row, i, arg)) add_source(c, expression_of(s, arg), float_input(s, arg));
    }
}

/* Where the row's rules take no symbol the number specialises. */
static Status specialize_number(Symbols *s, const OpRow *row, int i, Arg *arg) {
    if (op_number_may_vary(row, &row->params[i])) return ST_OK;
    if (arg->kind == ARG_int) arg->i = sym_concrete(s->env, arg->i);
    if (arg->kind != ARG_ints) return ST_OK;
    int64_t *const ints = ARENA_ARRAY(s->arena, int64_t, arg->n + 1);
    for (int k = 0; ints && k < arg->n; k++) ints[k] = sym_concrete(s->env, arg->ints[k]);
    arg->ints = ints;
    return ints ? ST_OK : ST_MEMORY;
}

static Val *mirror(Symbols *s, const Val *val) {
    Val *const made = val ? ARENA_NEW(s->arena, Val) : NULL;
    if (made) made->meta = symbols_meta(s, (const sn_tensor *)val);
    return made;
}

/* The arguments as a meta rule reads them, out tensors of an out form behind. */
static Arg *mirror_args(Symbols *s, const OpCall *call, const Arg *symbolic) {
    const int n = call->row->n_params, n_outs = call->form == FORM_out ? call->row->n_out : 0;
    Arg *const args = ARENA_ARRAY(s->arena, Arg, n + n_outs);
    for (int i = 0; args && i < n; i++) {
        Arg *const arg = &args[i];
        *arg = symbolic[i];
        if (arg->kind == ARG_int) *arg = A_INT(expression_of(s, &symbolic[i]));
        if (arg->kind == ARG_float) arg->n = 0;
        if (specialize_number(s, call->row, i, arg) != ST_OK) return NULL;
        if (arg->kind == ARG_tensor) arg->val = mirror(s, arg->val);
        if (arg->kind != ARG_tensors) continue;
        Val **const vals = ARENA_ARRAY(s->arena, Val *, arg->n);
        if (!vals) return NULL;
        for (int k = 0; k < arg->n; k++) vals[k] = mirror(s, symbolic[i].vals[k]);
        arg->vals = vals;
    }
    for (int i = 0; args && i < n_outs; i++) args[n + i] = A_VAL(mirror(s, &call->out_args[i]->base));
    return args;
}

static bool agrees(const Symbols *s, const MetaOut *out, const Meta *meta) {
    bool same = out->rank == meta->rank && out->dtype == meta->dtype;
    for (int d = 0; same && d < out->rank; d++)
        same =
            sym_hint(s->env, out->sizes[d]) == meta->sizes[d] && sym_hint(s->env, out->strides[d]) == meta->strides[d];
    return same;
}

static bool set_symbolic_meta(Symbols *s, const MetaOut *out, sn_tensor *t) {
    if (!agrees(s, out, t->base.meta)) return false;
    Meta *const meta = meta_new(s->arena, s->env, out->dtype, out->device, out->sizes, out->strides, out->rank);
    if (!meta) return false;
    meta->wrapped = out->wrapped;
    if (t->placeholder) t->placeholder->symbolic = meta;
    return !s->header || map_set(&s->made, made_key(t), meta);
}

/* The meta rule once more, on expressions: what it decides by them becomes guards. */
static bool infer_symbolic_metas(Symbols *s, const OpCall *call, const Arg *symbolic, const TraceOp *op,
                                 Unbacked *unbacked) {
    MetaOut few[MAX_OUTS];
    const Arg *const args = mirror_args(s, call, symbolic);
    const bool list = call->row->returns_list; /* of control flow: as many as its bodies give */
    MetaOut *const metas = list ? ARENA_ARRAY(s->arena, MetaOut, op->n_outs + 1) : few;
    if (!args || !metas) return false;
    MetaCall meta = {.row = call->row,
                     .form = call->form,
                     .args = args,
                     .env = s->env,
                     .out = metas,
                     .n_out = list ? op->n_outs : call->row->n_out};
    meta.unbacked = unbacked;
    bool fine = op_meta(&meta) == ST_OK && (op->n_outs == 0 || op->n_outs == meta.n_out);
    for (int i = 0; fine && i < op->n_outs; i++) fine = set_symbolic_meta(s, &metas[i], call->outs[i]);
    return fine;
}

/* Sizes that nothing but values gives. */
static bool set_outside_meta(Symbols *s, sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) sizes[d] = fresh(s, meta->sizes[d], 0, (SymSource){SOURCE_outside, -1, d});
    for (int d = 0; d < meta->rank; d++) strides[d] = meta->strides[d];
    if (meta->contiguous) row_major_strides(s, meta, sizes, strides);
    Meta *const made = meta_new(s->arena, s->env, meta->dtype, meta->device, sizes, strides, meta->rank);
    if (made) made->wrapped = meta->wrapped;
    return made && map_set(&s->made, made_key(t), made);
}

Status symbols_record_outside(Symbols *s, const OpCall *call, const Arg *symbolic) {
    if (!s->header || s->sizes_only || call->form != FORM_functional) return ST_OK;
    const TraceOp op = {.n_outs = call->n_outs};
    const Meta *const first = call->n_outs && call->outs[0] ? call->outs[0]->base.meta : NULL;
    for (int d = -1; first && call->row->meta && d < first->rank; d++) { /* which size do values give, or none? */
        Unbacked found = {.symbol = d < 0 ? 0 : fresh(s, first->sizes[d], 0, (SymSource){SOURCE_outside, -1, d})};
        if (infer_symbolic_metas(s, call, symbolic, &op, d < 0 ? NULL : &found)) return ST_OK;
        error_clear(); /* the call itself was fine */
    }
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i] && !set_outside_meta(s, call->outs[i])) return ST_MEMORY;
    return ST_OK;
}

Status symbols_record(Capture *c, const OpCall *call, const Arg *symbolic, const TraceOp *op) {
    Symbols *const s = c->symbols;
    record_numbers(c, call->row, symbolic);
    if (c->trace->sources.n != op->first_number + op->n_numbers) return ST_MEMORY;
    if (s->lost || infer_symbolic_metas(s, call, symbolic, op, NULL)) return ST_OK;
    error_clear(); /* the call itself is fine: the rule knows plain sizes only */
    s->lost = true;
    return ST_OK;
}

/* Composites: the rule's values mirror tensors ------------------------------------------------ */

typedef struct Mirror {
    Val base; /* symbolic */
    sn_tensor *tensor;
} Mirror;

typedef struct MirrorBuilder {
    Builder base;
    Symbols *symbols;
} MirrorBuilder;

static Val *mirror_new(Symbols *s, sn_tensor *t) {
    Mirror *const made = t ? ARENA_NEW(s->arena, Mirror) : NULL;
    if (!made) return NULL;
    *made = (Mirror){.base.meta = symbols_meta(s, t), .tensor = t};
    return &made->base;
}

static Val *real_of(Val *val) { return val ? &((Mirror *)val)->tensor->base : NULL; }

typedef Val *MapVal(void *context, Val *val);

static bool map_vals(Symbols *s, Arg *arg, MapVal *map, void *context) {
    if (arg->kind == ARG_tensor) arg->val = map(context, arg->val);
    if (arg->kind != ARG_tensors) return true;
    Val **const vals = ARENA_ARRAY(s->arena, Val *, arg->n);
    for (int k = 0; vals && k < arg->n; k++) vals[k] = map(context, arg->vals[k]);
    arg->vals = vals;
    return vals != NULL;
}

static Val *to_real(void *context, Val *val) {
    (void)context;
    return real_of(val);
}
static Val *to_mirror(void *context, Val *val) { return val ? mirror_new(context, tensor_of(val)) : NULL; }

static Status emit_mirrored(Builder *self, const OpRow *row, const Arg *args, Val **outs) {
    Symbols *const s = ((MirrorBuilder *)self)->symbols;
    Arg real[MAX_ARGS];
    sn_tensor *made[MAX_LIST];
    int n = row->n_out;
    memset(made, 0, sizeof *made * (size_t)n);
    for (int i = 0; i < row->n_params; i++) {
        real[i] = args[i];
        if (!map_vals(s, &real[i], to_real, NULL)) return ST_MEMORY;
    }
    TRY(row->returns_list ? dispatch_list(row, real, made, &n) : dispatch(row, FORM_functional, real, NULL, made));
    for (int i = 0; i < n; i++)
        if (made[i] && !(outs[i] = mirror_new(s, made[i]))) return ST_MEMORY;
    return ST_OK;
}

static Status write_mirrored(Builder *self, Val *to, Val *from) {
    (void)self;
    Builder *const eager = eager_builder();
    return eager->write(eager, real_of(to), real_of(from));
}

static Status expand_mirrored(void *symbols, const OpCall *call, Val **outs) {
    Symbols *const s = symbols;
    MirrorBuilder builder = {.base = {.emit = emit_mirrored,
                                      .write = write_mirrored,
                                      .env = s->env,
                                      .learns = s->sizes_only,
                                      .captures = s->header != NULL},
                             .symbols = s};
    Arg args[MAX_ARGS];
    for (int i = 0; i < call->row->n_params; i++) {
        args[i] = call->args[i];
        if (args[i].kind == ARG_float) pin(s, &args[i]), args[i].n = 0; /* rules branch on it */
        if (args[i].kind == ARG_int) args[i] = A_INT(expression_of(s, &call->args[i]));
        TRY(specialize_number(s, call->row, i, &args[i]));
        if (!map_vals(s, &args[i], to_mirror, s)) return ST_MEMORY;
    }
    TRY(decomp_rule(call->row)(&builder.base, call->row, args, outs));
    for (int i = 0; i < call->n_outs; i++) outs[i] = real_of(outs[i]);
    return ST_OK;
}

/* Its parts are part of a traced body, or of no replay function. */
static Status composite_traced(OpCall *call) {
    Arg args[MAX_ARGS];
    OpCall plain = *call;
    TRY(symbols_traced_args(call, args));
    plain.args = args;
    const Status status = composite_expand(&plain, args, NULL, NULL);
    call->n_outs = plain.n_outs;
    return status;
}

Status symbols_composite(OpCall *call) {
    if (override_covers(call->row)) return dispatch_fallback_of(KEY_capture)(call); /* the user's comes first */
    Symbols *const s = learning();
    OpCall plain;
    Arg args[MAX_ARGS];
    if (!s) return composite_traced(call);
    TRY(symbols_plain_call(s, call, &plain, args));
    return composite_expand(call, plain.args, expand_mirrored, s);
}
