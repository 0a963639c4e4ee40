/* decomp_recurrent.c: recurrent layers. What input adds to the gates is one product for all steps; the rest goes step
 * by step in a scan, whose body is the cell's own graph, so that compiling takes as long for 512 steps as for two:
 *
 *   x = linear(input, w_ih, b)  ->  h, c, ys = scan(h0, c0, x; w_hh)  body: h, c = cell(x_t, h, c, w_hh); give h, c, h
 *
 * The body is a text of the weights' sizes, in which the batch is a symbol: one text serves all. One step needs no
 * scan. */
#include "ir/graph.h"
#include "ir/op_ids.h"
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_recurrent, decomp_recurrent_cell;

typedef enum CellKind { CELL_tanh, CELL_relu, CELL_gru, CELL_lstm } CellKind;

static CellKind cell_of(const OpRow *row) {
    if (row->id == OP_lstm_input || row->id == OP_lstm_cell) return CELL_lstm;
    if (row->id == OP_gru_input || row->id == OP_gru_cell) return CELL_gru;
    return row->id == OP_rnn_relu_input || row->id == OP_rnn_relu_cell ? CELL_relu : CELL_tanh;
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

/* The cell in a graph of the arena: inputs h, c, x and the weights. */
static const char *cell_text(Builder *outer, Arena *arena, CellKind kind, Val *x, CellState s, const CellWeights *w) {
    Text text = {0};
    CellBody body = {.graph = graph_new(arena, "body"), .outer = outer->env};
    if (!body.graph) return NULL;
    body.batch = cell_batch(&body);
    CellState inside = {.h = body_input(&body, "h", s.h, 0, true)};
    if (s.c) inside.c = body_input(&body, "c", s.c, 0, true);
    Val *const gates = body_input(&body, "x", x, 1, true);
    CellWeights own = {.w_hh = body_input(&body, "w", w->w_hh, 0, false)};
    if (w->b_hh) own.b_hh = body_input(&body, "b", w->b_hh, 0, false);
    if (w->w_hr) own.w_hr = body_input(&body, "r", w->w_hr, 0, false);
    Builder *const b = &body.graph->builder;
    const CellState next = cell_step(b, kind, gates, inside, &own);
    Val *const y = E(b, clone, V(next.h));
    if (!gives(body.graph, next.h) || (s.c && !gives(body.graph, next.c)) || !gives(body.graph, y)) return NULL;
    graph_number(body.graph);
    graph_print(body.graph, &text);
    const char *const printed = error_pending() == ST_OK ? arena_strdup(arena, text_str(&text)) : NULL;
    text_free(&text);
    return printed;
}

/* The last state, and those of all steps. */
static Val *scanned(Builder *b, Arena *arena, CellKind kind, Val *x, bool reverse, CellState *s, const CellWeights *w) {
    const char *const text = cell_text(b, arena, kind, x, *s, w);
    Val *operands[6], *outs[3] = {NULL};
    int n = 0;
    if (!text) return NULL;
    operands[n++] = s->h;
    if (s->c) operands[n++] = s->c;
    const int carries = n;
    operands[n++] = x;
    const int n_in = n;
    operands[n++] = w->w_hh;
    if (w->b_hh) operands[n++] = w->b_hh;
    if (w->w_hr) operands[n++] = w->w_hr;
    const Arg args[] = {A_VALS(operands, n), I(n_in), I(carries), I(0), A_BOOL(reverse), A_STR(text)};
    if (emit(b, OP_scan, args, COUNT_OF(args), outs) != ST_OK) return NULL;
    *s = (CellState){outs[0], s->c ? outs[1] : NULL};
    return outs[carries];
}

/* A layer in one direction over [steps, batch, size]. */
static Val *one_direction(Builder *b, CellKind kind, Val *input, bool reverse, CellState *s, const CellWeights *w) {
    Val *const x = input_gates(b, input, w);
    if (!x || !s->h) return NULL;
    if (sym_same(b->env, x->meta->sizes[0], 1)) {
        *s = cell_step(b, kind, E(b, select_int, V(x), I(0), I(0)), *s, w);
        return E(b, unsqueeze, V(s->h), I(0));
    }
    Arena *const arena = arena_new();
    Val *const y = arena ? scanned(b, arena, kind, x, reverse, s, w) : NULL;
    arena_free(arena);
    return y;
}

typedef struct Layers {
    Builder *b;
    CellKind kind;
    const Arg *args;
    int directions, each;
    bool biases, projects;
    Val **states, **memories; /* what is left of each layer and direction */
} Layers;

static CellWeights weights_of(const Layers *l, int k) {
    Val *const *const at = l->args[2].vals + (ptrdiff_t)k * l->each;
    return (CellWeights){at[0], at[1], l->biases ? at[2] : NULL, l->biases ? at[3] : NULL,
                         l->projects ? at[l->each - 1] : NULL};
}

static Val *state_of(const Layers *l, Val *states, int k) {
    return states ? E(l->b, select_int, V(states), I(0), I(k)) : NULL;
}

static Val *one_layer(Layers *l, Val *input, int layer) {
    const Arg *const hx = &l->args[1];
    const bool two = l->kind == CELL_lstm;
    Val *given[2] = {NULL};
    for (int d = 0; d < l->directions; d++) {
        const int k = layer * l->directions + d;
        const CellWeights w = weights_of(l, k);
        CellState s = {state_of(l, two ? hx->vals[0] : hx->val, k), state_of(l, two ? hx->vals[1] : NULL, k)};
        given[d] = one_direction(l->b, l->kind, input, d == 1, &s, &w);
        if (!given[d]) return NULL;
        l->states[k] = s.h, l->memories[k] = s.c;
    }
    return l->directions == 1 ? given[0] : E(l->b, cat, A_VALS(given, 2), I(2));
}

static Status all_layers(Layers *l, const OpRow *row, Val **outs) {
    Builder *const b = l->b;
    const int n = (int)l->args[4].i;
    const bool drops = l->args[6].i && arg_double(&l->args[5]) > 0, batch_first = l->args[8].i;
    Val *x = batch_first ? E(b, transpose_int, l->args[0], I(0), I(1)) : l->args[0].val;
    for (int i = 0; i < n && x; i++) {
        if (i && drops) x = E(b, dropout, V(x), l->args[5], A_BOOL(true));
        x = x ? one_layer(l, x, i) : NULL;
    }
    if (!x) return error_pending() ? error_pending() : ST_MEMORY;
    if (batch_first) x = E(b, transpose_int, V(x), I(0), I(1));
    const int all = n * l->directions;
    Val *const states = E(b, stack, A_VALS(l->states, all));
    Val *const memories = l->kind == CELL_lstm ? E(b, stack, A_VALS(l->memories, all)) : NULL;
    return decomp_done(outs, row->n_out, (Val *const[]){in_layout_of(b, row, l->args, 0, x), states, memories});
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
Status decomp_recurrent(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Layers l = {.b = b, .kind = cell_of(row), .args = args, .directions = args[7].i ? 2 : 1, .biases = args[3].i};
    const int n = (int)args[4].i * l.directions;
    l.each = args[2].n / n;
    l.projects = l.each % 2;
    Arena *const arena = arena_new();
    Val **const left = arena ? arena_alloc(arena, 2 * (size_t)n * sizeof(Val *)) : NULL;
    l.states = left, l.memories = left ? left + n : NULL;
    const Status status = left ? all_layers(&l, row, outs) : ST_MEMORY;
    arena_free(arena);
    return status;
}
