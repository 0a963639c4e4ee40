/* emit_panel.c: S reductions over wide matrices, along the rows of memory.
 *
 * A few columns at a time would read a short piece of every row, which no prefetcher likes. Here a
 * panel of columns is walked row by row, its accumulators on the stack, one array per level of the
 * order:
 *
 *   for panels of 1,024 columns, by the shape { for chunks of 64 rows {
 *     for 4 rows at once { for vectors of the panel { acc = acc + row0 + row1 + row2 + row3 } }
 *     for vectors of the panel { chunks' acc = chunks' acc + acc } } }
 *
 * Each column adds its rows in order, as in emit_reduce.c: the same bits. Four rows are four
 * streams from memory, and share a load and a store of the accumulator. */
#include "codegen/llvm/emit.h"

typedef struct PanelNest {
    const Phase *phase;
    const Inst *red[PANEL_REDS];
    int id[PANEL_REDS], n, levels;
    Value acc[S_LEVELS][PANEL_REDS]; /* arrays, of a panel's columns */
    Value column, width, total;      /* first column, columns, S rows */
} PanelNest;

static void collect(const Emitter *e, PanelNest *p) {
    p->phase = &e->nest->phases[0];
    for (int i = p->phase->first; i < p->phase->first + p->phase->n; i++) {
        if (e->nest->insts[i].op != LI_reduce) continue;
        p->id[p->n] = i;
        p->red[p->n++] = &e->nest->insts[i];
    }
}

static Value slot(Emitter *e, const PanelNest *p, int level, int r, Value at) {
    return emit_gep(e->b, emit_scalar(e, e->nest->insts[p->red[r]->a].type), p->acc[level][r], at);
}

static void put_row(Emitter *e, const PanelNest *p, int level, int r, Value at, Acc acc) {
    LLVMSetAlignment(LLVMBuildStore(e->b, acc.v, slot(e, p, level, r, at)), (unsigned)e->lanes);
}

static Acc get(Emitter *e, const PanelNest *p, int level, int r, Value at) {
    const LLVMTypeRef type = emit_vector(e, e->nest->insts[p->red[r]->a].type);
    const Value v = LLVMBuildLoad2(e->b, type, slot(e, p, level, r, at), "");
    LLVMSetAlignment(v, (unsigned)e->lanes);
    return (Acc){v, NULL};
}

static void begin_vectors(Emitter *e, const PanelNest *p, Loop *loop) {
    emit_loop_begin(e, loop, emit_const(e, 0), p->width);
    emit_loop_body(e, loop);
}

static void end_vectors(Emitter *e, Loop *loop) { emit_loop_end(e, loop, e->lanes, NULL); }

/* The frame at columns `at` of the panel. */
static void set_columns(Emitter *e, const PanelNest *p, Value at) {
    e->side.column = LLVMBuildAdd(e->b, p->column, at, "");
    emit_use_context(e, 0);
    memset(e->side.memo, 0, sizeof(Value) * (size_t)e->nest->n_insts);
    emit_places(e);
}

static void clear(Emitter *e, const PanelNest *p, int level) {
    Loop loop;
    begin_vectors(e, p, &loop);
    for (int r = 0; r < p->n; r++) put_row(e, p, level, r, loop.i, red_start(e, p->red[r], level, p->total));
    end_vectors(e, &loop);
}

/* Rows from `row` on: `n` of them into the accumulators of level 0. */
static void add_rows(Emitter *e, const PanelNest *p, Value row, int n) {
    IndexFrame at[PANEL_ROWS];
    for (int k = 0; k < n; k++) {
        emit_set_S(e, emit_add(e, row, k));
        at[k] = e->frame;
    }
    Loop loop;
    begin_vectors(e, p, &loop);
    set_columns(e, p, loop.i);
    Acc acc[PANEL_REDS];
    for (int r = 0; r < p->n; r++) acc[r] = get(e, p, 0, r, loop.i);
    for (int k = 0; k < n; k++) {
        const Value column = e->frame.base[e->shape->n_outer_groups - 1];
        e->frame = at[k];
        e->frame.base[e->shape->n_outer_groups - 1] = column;
        emit_forget_inner(e);
        for (int r = 0; r < p->n; r++) acc[r] = red_step(e, p->red[r], acc[r]);
    }
    for (int r = 0; r < p->n; r++) put_row(e, p, 0, r, loop.i, acc[r]);
    end_vectors(e, &loop);
}

static Value rows_loop(Emitter *e, const PanelNest *p, Value from, Value to, int n) {
    Loop loop;
    emit_loop_begin(e, &loop, from, emit_add(e, to, 1 - n));
    emit_loop_body(e, &loop);
    add_rows(e, p, loop.i, n);
    emit_loop_end(e, &loop, n, NULL);
    return loop.i;
}

static void join(Emitter *e, const PanelNest *p, int level) {
    Loop loop;
    begin_vectors(e, p, &loop);
    for (int r = 0; r < p->n; r++)
        put_row(e, p, level, r, loop.i,
                red_join(e, p->red[r], get(e, p, level, r, loop.i), get(e, p, level - 1, r, loop.i)));
    end_vectors(e, &loop);
}

/* Rows [from, to) as one chunk of `level`. */
static void reduce(Emitter *e, const PanelNest *p, int level, Value from, Value to) {
    clear(e, p, level);
    if (level == 0) {
        rows_loop(e, p, rows_loop(e, p, from, to, e->shape->panel_rows), to, 1);
        return;
    }
    Loop loop;
    emit_loop_begin(e, &loop, from, to);
    emit_loop_body(e, &loop);
    reduce(e, p, level - 1, loop.i, emit_least(e, emit_add(e, loop.i, order_S_elements(level)), to));
    join(e, p, level);
    emit_loop_end(e, &loop, order_S_elements(level), NULL);
}

/* The phases after the reductions, vector by vector. */
static void finish_panel(Emitter *e, const PanelNest *p) {
    Loop loop;
    begin_vectors(e, p, &loop);
    set_columns(e, p, loop.i);
    for (int r = 0; r < p->n; r++) e->side.memo[p->id[r]] = get(e, p, p->levels - 1, r, loop.i).v;
    emit_phases_from(e, 1);
    end_vectors(e, &loop);
}

Value emit_panels(Emitter *e, Value begin, Value end) {
    PanelNest p = {.n = 0};
    e->phase = 0;
    collect(e, &p);
    p.total = emit_S_total(e);
    p.levels = shape_S_levels(e->shape, e->nest, p.phase);
    const int columns = e->shape->panel_columns;
    for (int level = 0; level < p.levels; level++)
        for (int r = 0; r < p.n; r++)
            p.acc[level][r] = emit_entry_alloca(e, emit_scalar(e, e->nest->insts[p.red[r]->a].type), columns, 64);
    e->side.n = 1;
    e->side.column = begin;
    emit_use_context(e, 0);
    Value count = LLVMBuildSub(e->b, end, begin, "");
    count = LLVMBuildAnd(e->b, count, emit_const(e, -(int64_t)e->lanes), "");
    const Value whole = LLVMBuildAdd(e->b, begin, count, "");
    Loop loop;
    emit_loop_begin(e, &loop, begin, whole);
    emit_loop_body(e, &loop);
    p.column = loop.i;
    p.width = emit_least(e, LLVMBuildSub(e->b, whole, loop.i, ""), emit_const(e, columns));
    reduce(e, &p, p.levels - 1, emit_const(e, 0), p.total);
    finish_panel(e, &p);
    emit_loop_end(e, &loop, columns, NULL);
    return whole;
}
