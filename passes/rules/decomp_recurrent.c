/* decomp_recurrent.c: recurrent layers. What input adds to the gates is one product for all steps; the rest goes step
 * by step in a scan, whose body is the cell's own graph, so that compiling takes as long for 512 steps as for two:
 *
 *   x = linear(input, w_ih, b)  ->  h, c, ys = scan(h0, c0, x; w_hh)  body: h, c = cell(x_t, h, c, w_hh); give h, c, h
 *
 * The body is a text of the weights' sizes, in which the batch is a symbol: one text serves all. One step needs no
 * scan.
 *
 * Packed sequences (data, batch_sizes) have as many rows at step t as sequences are left. What input adds to the gates
 * is laid out as [steps, batch] with zeros where there is none, and the body keeps the state of a sequence where a mask
 * says that it has ended (or, from the end, has not begun); what the steps gave is picked up in data's order again. */
#include "ir/graph.h"
#include "ir/op_ids.h"
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_recurrent, decomp_recurrent_cell;

typedef enum CellKind { CELL_tanh, CELL_relu, CELL_gru, CELL_lstm } CellKind;

static CellKind cell_of(const OpRow *row) {
    static const struct {
        OpId layer, packed, cell;
        CellKind kind;
    } kinds[] = {{OP_lstm_input, OP_lstm_data, OP_lstm_cell, CELL_lstm},
                 {OP_gru_input, OP_gru_data, OP_gru_cell, CELL_gru},
                 {OP_rnn_relu_input, OP_rnn_relu_data, OP_rnn_relu_cell, CELL_relu}};
    for (int i = 0; i < COUNT_OF(kinds); i++)
        if (row->id == kinds[i].layer || row->id == kinds[i].packed || row->id == kinds[i].cell) return kinds[i].kind;
    return CELL_tanh;
}

typedef struct CellWeights {
    Val *w_ih, *w_hh, *b_ih, *b_hh, *w_hr; /* those behind w_hh may be NULL */
} CellWeights;
typedef struct CellState {
    Val *h, *c; /* c: of an lstm */
} CellState;

static Val *linear_of(Builder *b, Val *x, Val *w, Val *bias) {
    return E(b, linear, V(x), V(w), bias ? V(bias) : A_NONE);
}
static Val *cell_sum(Builder *b, Val *x, Val *y) { return E(b, add_Tensor, V(x), V(y)); }
static Val *product(Builder *b, Val *x, Val *y) { return E(b, mul_Tensor, V(x), V(y)); }

/* What input adds to the gates; the other bias goes with the state, as PyTorch rounds it. */
static Val *input_gates(Builder *b, Val *input, const CellWeights *w) { return linear_of(b, input, w->w_ih, w->b_ih); }

static Val *gate(Builder *b, Val *gates, int k, int64_t width) {
    return E(b, slice_Tensor, V(gates), I(1), I(sym_mul(b->env, width, k)), I(sym_mul(b->env, width, k + 1)));
}

/* gates: input, forget, cell, output */
static CellState lstm_step(Builder *b, Val *x, CellState s, const CellWeights *w) {
    Val *const all = cell_sum(b, x, linear_of(b, s.h, w->w_hh, w->b_hh));
    if (!all) return (CellState){0};
    const int64_t width = sym_div(b->env, all->meta->sizes[1], 4);
    Val *const in = E(b, sigmoid, V(gate(b, all, 0, width))), *const forget = E(b, sigmoid, V(gate(b, all, 1, width)));
    Val *const cell = E(b, tanh, V(gate(b, all, 2, width))), *const out = E(b, sigmoid, V(gate(b, all, 3, width)));
    Val *const c = cell_sum(b, product(b, forget, s.c), product(b, in, cell));
    Val *const h = product(b, out, E(b, tanh, V(c)));
    return (CellState){w->w_hr ? linear_of(b, h, w->w_hr, NULL) : h, c};
}

/* gates: reset, update, new */
static CellState gru_step(Builder *b, Val *x, CellState s, const CellWeights *w) {
    Val *const y = linear_of(b, s.h, w->w_hh, w->b_hh);
    if (!x || !y) return (CellState){0};
    const int64_t width = sym_div(b->env, y->meta->sizes[1], 3);
    Val *const reset = E(b, sigmoid, V(cell_sum(b, gate(b, x, 0, width), gate(b, y, 0, width))));
    Val *const update = E(b, sigmoid, V(cell_sum(b, gate(b, x, 1, width), gate(b, y, 1, width))));
    Val *const made = E(b, tanh, V(cell_sum(b, gate(b, x, 2, width), product(b, reset, gate(b, y, 2, width)))));
    return (CellState){.h = cell_sum(b, product(b, E(b, sub_Tensor, V(s.h), V(made)), update), made)};
}

static CellState cell_step(Builder *b, CellKind kind, Val *x, CellState s, const CellWeights *w) {
    if (kind == CELL_lstm) return lstm_step(b, x, s, w);
    if (kind == CELL_gru) return gru_step(b, x, s, w);
    Val *const sum = cell_sum(b, x, linear_of(b, s.h, w->w_hh, w->b_hh));
    return (CellState){.h = kind == CELL_tanh ? E(b, tanh, V(sum)) : E(b, relu, V(sum))};
}

/* (input, hx, w_ih, w_hh, b_ih, b_hh) */
Status decomp_recurrent_cell(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const CellKind kind = cell_of(row);
    const CellWeights w = {args[2].val, args[3].val, optional(&args[4]), optional(&args[5]), NULL};
    const CellState s =
        kind == CELL_lstm ? (CellState){args[1].vals[0], args[1].vals[1]} : (CellState){.h = args[1].val};
    const CellState next = cell_step(b, kind, input_gates(b, args[0].val, &w), s, &w);
    Val *const given[2] = {in_layout_of(b, row, args, 0, next.h),
                           next.c ? in_layout_of(b, row, args, 1, next.c) : NULL};
    return decomp_done(outs, row->n_out, given);
}

/* The body as text ----------------------------------------------------------------------------- */

/* Where the rows of data stand in [steps, batch]. */
typedef struct PackedRows {
    Val *mask;   /* [steps, batch, 1]: there is one */
    Val *places; /* [steps * batch]: which one; 0 where there is none */
    Val *rows;   /* of each row of data, its place among steps * batch */
    int64_t steps, batch;
} PackedRows;

static Val *batch_numbers(Builder *b, int64_t n) { return E(b, arange, I(n), I(DT_i64), A_NONE, I(DEV_cpu)); }

/* batch_sizes fall from the batch to at least 1, and count data's rows. */
static Status check_packing(Builder *b, Val *left, int64_t batch, int64_t rows) {
    const int64_t last = sym_sub(b->env, left->meta->sizes[0], 1);
    Val *const after = E(b, slice_Tensor, V(left), I(0), I(1));
    Val *const before = E(b, slice_Tensor, V(left), I(0), I(0), I(last));
    Val *const falls = E(b, all, V(E(b, le_Tensor, V(after), V(before))));
    Val *const lives = E(b, ge_Scalar, V(E(b, select_int, V(left), I(0), I(last))), I(1));
    Val *const begins = E(b, eq_Scalar, V(E(b, select_int, V(left), I(0), I(0))), I(batch));
    Val *const counts = E(b, eq_Scalar, V(E(b, sum, V(left))), I(rows));
    Val *const falling = E(b, logical_and, V(falls), V(lives)), *const whole = E(b, logical_and, V(begins), V(counts));
    const Arg fits[] = {V(E(b, logical_and, V(falling), V(whole))),
                        A_STR("batch_sizes must fall from the batch of hx to at least 1, and their sum be the rows of "
                              "data")};
    return fits[0].val ? emit(b, OP__assert_async_msg, fits, 2, NULL) : error_pending();
}

static Status packing_of(Builder *b, Val *left, int64_t batch, int64_t rows, Device device, PackedRows *p) {
    TRY(check_packing(b, left, batch, rows));
    const int64_t steps = left->meta->sizes[0], flat = sym_mul(b->env, steps, batch);
    Val *const ends = E(b, cumsum, V(left), I(0)), *const begins = E(b, sub_Tensor, V(ends), V(left));
    Val *const at = batch_numbers(b, batch), *const wide = E(b, unsqueeze, V(left), I(1));
    Val *const mask = E(b, lt_Tensor, V(at), V(wide));
    Val *const place = E(b, add_Tensor, V(E(b, unsqueeze, V(begins), I(1))), V(at));
    Val *const row = batch_numbers(b, rows);
    Val *const step = E(b, searchsorted_Tensor, V(ends), V(row), A_BOOL(false), A_BOOL(true));
    Val *const within = E(b, sub_Tensor, V(row), V(E(b, index_select, V(begins), I(0), V(step))));
    *p = (PackedRows){.steps = steps, .batch = batch};
    Val *const moved[] = {E(b, unsqueeze, V(mask), I(2)),
                          reshaped(b, E(b, where_self, V(mask), V(place), I(0)), &flat, 1),
                          E(b, add_Tensor, V(E(b, mul_Tensor, V(step), I(batch))), V(within))};
    Val **const to[] = {&p->mask, &p->places, &p->rows};
    for (int i = 0; i < COUNT_OF(moved); i++) {
        *to[i] = device == DEV_cpu ? moved[i] : E(b, _to_copy, V(moved[i]), A_NONE, A_NONE, I(device));
        if (!*to[i]) return error_pending();
    }
    return ST_OK;
}

/* [rows, size] -> [steps, batch, size] */
static Val *unpacked(Builder *b, const PackedRows *p, Val *x) {
    const int64_t sizes[] = {p->steps, p->batch, x ? x->meta->sizes[1] : 0};
    Val *const laid = reshaped(b, E(b, index_select, V(x), I(0), V(p->places)), sizes, 3);
    return E(b, where_self, V(p->mask), V(laid), F(0));
}

static Val *packed_again(Builder *b, const PackedRows *p, Val *y) {
    const int64_t sizes[] = {sym_mul(b->env, p->steps, p->batch), y ? y->meta->sizes[2] : 0};
    return E(b, index_select, V(reshaped(b, y, sizes, 2)), I(0), V(p->rows));
}

/* The state before, where a sequence has no step. */
static CellState kept(Builder *b, Val *mask, CellState next, CellState before) {
    if (!mask) return next;
    return (CellState){E(b, where_self, V(mask), V(next.h), V(before.h)),
                       next.c ? E(b, where_self, V(mask), V(next.c), V(before.c)) : NULL};
}

typedef struct CellBody {
    Graph *graph;
    SymEnv *outer; /* of the values that it is given */
    int64_t batch;
} CellBody;

/* Like a value (of a list: its slices), with the body's batch; other sizes, which are those of weights, are numbers. */
static Val *body_input(CellBody *body, const char *name, Val *like, int first, bool is_batched) {
    const Meta *const meta = like->meta;
    int64_t sizes[2], strides[2];
    for (int d = is_batched; d < meta->rank - first; d++) sizes[d] = sym_concrete(body->outer, meta->sizes[first + d]);
    if (is_batched) sizes[0] = body->batch;
    const int rank = meta->rank - first;
    meta_contiguous_strides(body->graph->env, sizes, rank, strides);
    const Meta *const own =
        meta_new(body->graph->arena, body->graph->env, meta->dtype, meta->device, sizes, strides, rank);
    GVal *const input = own ? graph_input(body->graph, name, own) : NULL;
    return input ? &input->base : NULL;
}

static bool gives(Graph *graph, Val *value) {
    if (value) graph_output(graph, gval(value));
    return value;
}

/* Any batch but none is one as the others. */
static int64_t cell_batch(const CellBody *body) {
    enum { USUAL = 17 };
    const int64_t symbol = sym_free(body->graph->env, USUAL, 2);
    sym_free_give(body->graph->env, symbol, USUAL, 1, SYM_MOST);
    return symbol;
}

/* What each step gets: [steps, batch, ...]. */
typedef struct StepInputs {
    Val *gates, *mask; /* mask: NULL where all sequences have all steps */
} StepInputs;

/* The cell in a graph of the arena: inputs h, c, x, the mask and the weights. */
static const char *cell_text(Builder *outer, Arena *arena, CellKind kind, const StepInputs *x, CellState s,
                             const CellWeights *w) {
    Text text = {0};
    CellBody body = {.graph = graph_new(arena, "body"), .outer = outer->env};
    if (!body.graph) return NULL;
    body.batch = cell_batch(&body);
    CellState inside = {.h = body_input(&body, "h", s.h, 0, true)};
    if (s.c) inside.c = body_input(&body, "c", s.c, 0, true);
    Val *const gates = body_input(&body, "x", x->gates, 1, true);
    Val *const mask = x->mask ? body_input(&body, "m", x->mask, 1, true) : NULL;
    CellWeights own = {.w_hh = body_input(&body, "w", w->w_hh, 0, false)};
    if (w->b_hh) own.b_hh = body_input(&body, "b", w->b_hh, 0, false);
    if (w->w_hr) own.w_hr = body_input(&body, "r", w->w_hr, 0, false);
    Builder *const b = &body.graph->builder;
    const CellState next = kept(b, mask, cell_step(b, kind, gates, inside, &own), inside);
    Val *const y = E(b, clone, V(next.h));
    if (!gives(body.graph, next.h) || (s.c && !gives(body.graph, next.c)) || !gives(body.graph, y)) return NULL;
    graph_number(body.graph);
    graph_print(body.graph, &text);
    const char *const printed = error_pending() == ST_OK ? arena_strdup(arena, text_str(&text)) : NULL;
    text_free(&text);
    return printed;
}

/* The last state, and those of all steps. */
static Val *scanned(Builder *b, Arena *arena, CellKind kind, const StepInputs *x, bool reverse, CellState *s,
                    const CellWeights *w) {
    const char *const text = cell_text(b, arena, kind, x, *s, w);
    Val *operands[7], *outs[3] = {NULL};
    int n = 0;
    if (!text) return NULL;
    operands[n++] = s->h;
    if (s->c) operands[n++] = s->c;
    const int carries = n;
    operands[n++] = x->gates;
    if (x->mask) operands[n++] = x->mask;
    const int n_in = n;
    operands[n++] = w->w_hh;
    if (w->b_hh) operands[n++] = w->b_hh;
    if (w->w_hr) operands[n++] = w->w_hr;
    const Arg args[] = {A_VALS(operands, n), I(n_in), I(carries), I(0), A_BOOL(reverse), A_STR(text)};
    if (emit(b, OP_scan, args, COUNT_OF(args), outs) != ST_OK) return NULL;
    *s = (CellState){outs[0], s->c ? outs[1] : NULL};
    return outs[carries];
}

/* A layer in one direction over [steps, batch, size], or [rows, size] as p says. */
static Val *one_direction(Builder *b, CellKind kind, Val *input, const PackedRows *p, bool reverse, CellState *s,
                          const CellWeights *w) {
    Val *const gates = input_gates(b, input, w);
    const StepInputs x = {p ? unpacked(b, p, gates) : gates, p ? p->mask : NULL};
    if (!x.gates || !s->h) return NULL;
    if (sym_same(b->env, x.gates->meta->sizes[0], 1)) { /* which all sequences have */
        *s = cell_step(b, kind, E(b, select_int, V(x.gates), I(0), I(0)), *s, w);
        return p ? s->h : E(b, unsqueeze, V(s->h), I(0));
    }
    Arena *const arena = arena_new();
    Val *const y = arena ? scanned(b, arena, kind, &x, reverse, s, w) : NULL;
    arena_free(arena);
    return p ? packed_again(b, p, y) : y;
}

/* Arguments from hx on are those of both forms. */
enum { HX, PARAMS, BIASES, COUNT_LAYERS, DROPOUT, TRAIN, BIDIRECTIONAL, BATCH_FIRST };

typedef struct Layers {
    Builder *b;
    CellKind kind;
    const PackedRows *packing; /* NULL: all sequences have all steps */
    const Arg *args;           /* from hx on */
    int directions, each;
    bool biases, projects;
    Val **states, **memories; /* what is left of each layer and direction */
} Layers;

static CellWeights weights_of(const Layers *l, int k) {
    Val *const *const at = l->args[PARAMS].vals + (ptrdiff_t)k * l->each;
    return (CellWeights){at[0], at[1], l->biases ? at[2] : NULL, l->biases ? at[3] : NULL,
                         l->projects ? at[l->each - 1] : NULL};
}

static Val *state_of(const Layers *l, Val *states, int k) {
    return states ? E(l->b, select_int, V(states), I(0), I(k)) : NULL;
}

static Val *one_layer(Layers *l, Val *input, int layer) {
    const Arg *const hx = &l->args[HX];
    const bool two = l->kind == CELL_lstm;
    Val *given[2] = {NULL};
    for (int d = 0; d < l->directions; d++) {
        const int k = layer * l->directions + d;
        const CellWeights w = weights_of(l, k);
        CellState s = {state_of(l, two ? hx->vals[0] : hx->val, k), state_of(l, two ? hx->vals[1] : NULL, k)};
        given[d] = one_direction(l->b, l->kind, input, l->packing, d == 1, &s, &w);
        if (!given[d]) return NULL;
        l->states[k] = s.h, l->memories[k] = s.c;
    }
    return l->directions == 1 ? given[0] : E(l->b, cat, A_VALS(given, 2), I(-1));
}

static Status all_layers(Layers *l, const OpRow *row, const Arg *args, Val **outs) {
    Builder *const b = l->b;
    const int n = (int)l->args[COUNT_LAYERS].i;
    const bool drops = l->args[TRAIN].i && arg_double(&l->args[DROPOUT]) > 0;
    const bool batch_first = !l->packing && l->args[BATCH_FIRST].i;
    Val *x = batch_first ? E(b, transpose_int, args[0], I(0), I(1)) : args[0].val;
    for (int i = 0; i < n && x; i++) {
        if (i && drops) x = E(b, dropout, V(x), l->args[DROPOUT], A_BOOL(true));
        x = x ? one_layer(l, x, i) : NULL;
    }
    if (!x) return error_pending() ? error_pending() : ST_MEMORY;
    if (batch_first) x = E(b, transpose_int, V(x), I(0), I(1));
    const int all = n * l->directions;
    Val *const states = E(b, stack, A_VALS(l->states, all));
    Val *const memories = l->kind == CELL_lstm ? E(b, stack, A_VALS(l->memories, all)) : NULL;
    return decomp_done(outs, row->n_out, (Val *const[]){in_layout_of(b, row, args, 0, x), states, memories});
}

static Status packing_of_call(Builder *b, const Arg *args, PackedRows *p) {
    const Arg *const hx = &args[2];
    const Meta *const state = hx->kind == ARG_tensors ? hx->vals[0]->meta : hx->val->meta, *const data =
                                                                                               args[0].val->meta;
    return packing_of(b, args[1].val, state->sizes[1], data->sizes[0], data->device, p);
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or (data, batch_sizes, hx,
 * ...) to bidirectional */
Status decomp_recurrent(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool packed = op_param_find(row, "batch_sizes") >= 0;
    const Arg *const from = args + (packed ? 2 : 1);
    PackedRows packing;
    if (packed) TRY(packing_of_call(b, args, &packing));
    Layers l = {.b = b,
                .kind = cell_of(row),
                .packing = packed ? &packing : NULL,
                .args = from,
                .directions = from[BIDIRECTIONAL].i ? 2 : 1,
                .biases = from[BIASES].i};
    const int n = (int)from[COUNT_LAYERS].i * l.directions;
    l.each = from[PARAMS].n / n;
    l.projects = l.each % 2;
    Arena *const arena = arena_new();
    Val **const left = arena ? arena_alloc(arena, 2 * (size_t)n * sizeof(Val *)) : NULL;
    l.states = left, l.memories = left ? left + n : NULL;
    const Status status = left ? all_layers(&l, row, args, outs) : ST_MEMORY;
    arena_free(arena);
    return status;
}
