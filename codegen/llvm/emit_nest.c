/* emit_nest.c: the loops of one nest, as its shape says, and the phases inside.
 *
 *   columns:  for outer dims but the last group { for i by 4 vectors { phases }
 *                                                 for i by 1 masked vector { phases } }
 *   rows:     for outer dims { phases, each with its own loops over S and L }
 *
 * The last outer group may only be run as one loop where the caller's rectangle covers its trailing dims wholly, which
 * is decided by the values of lo and hi: else the same code runs once per index of the leading dims. */
#include "codegen/llvm/emit.h"
#include "kernels/kernels.h"

Value emit_const(Emitter *e, int64_t v) { return LLVMConstInt(e->type.i64, (unsigned long long)v, 1); }

Value emit_add(Emitter *e, Value x, int64_t v) { return v == 0 ? x : LLVMBuildAdd(e->b, x, emit_const(e, v), ""); }

static Value load_entry(Emitter *e, Value array, int i) {
    const Value index = emit_const(e, i);
    const Value slot = emit_gep(e->entry, e->type.i64, array, index);
    return LLVMBuildLoad2(e->entry, e->type.i64, slot, "");
}

Value emit_int(Emitter *e, int64_t v) {
    if (!sym_is(v)) return emit_const(e, v);
    Value *const slot = &e->call.param[sym_id(v)];
    if (!*slot) *slot = load_entry(e, e->call.arg[1], sym_id(v));
    return *slot;
}

Value emit_entry_alloca(Emitter *e, LLVMTypeRef type, int64_t n, int align) {
    const Value slot = LLVMBuildArrayAlloca(e->entry, type, emit_const(e, n), "");
    LLVMSetAlignment(slot, (unsigned)align);
    return slot;
}

LLVMBasicBlockRef emit_block(Emitter *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->unit.context, e->call.function, name);
}

void emit_loop_begin(Emitter *e, Loop *loop, Value from, Value to) {
    *loop =
        (Loop){.to = to, .head = emit_block(e, "head"), .body = emit_block(e, "body"), .exit = emit_block(e, "exit")};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, loop->head);
    LLVMPositionBuilderAtEnd(e->b, loop->head);
    loop->i = LLVMBuildPhi(e->b, e->type.i64, "");
    LLVMAddIncoming(loop->i, &from, &before, 1);
}

Value emit_loop_carry(Emitter *e, Loop *loop, Value initial) {
    LLVMBasicBlockRef before = LLVMGetIncomingBlock(loop->i, 0);
    const Value phi = LLVMBuildPhi(e->b, LLVMTypeOf(initial), "");
    LLVMAddIncoming(phi, &initial, &before, 1);
    return loop->carried[loop->n++] = phi;
}

void emit_loop_body(Emitter *e, Loop *loop) {
    const Value more = LLVMBuildICmp(e->b, LLVMIntSLT, loop->i, loop->to, "");
    LLVMBuildCondBr(e->b, more, loop->body, loop->exit);
    LLVMPositionBuilderAtEnd(e->b, loop->body);
}

/* The same value through an empty assembler line: scalar evolution does not see through it. Loop
 * strength reduction, half of the time to compile a small kernel, then leaves the loop alone; what
 * it would make of base + 4 i + constant the addressing modes do as well. */
static Value opaque(Emitter *e, Value v) {
    const LLVMTypeRef type = LLVMFunctionType(e->type.i64, &e->type.i64, 1, 0);
    const Value same = LLVMGetInlineAsm(type, "", 0, "=r,0", 4, 0, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(e->b, type, same, &v, 1, "");
}

void emit_loop_end(Emitter *e, Loop *loop, int64_t step, const Value *next) {
    Value after = opaque(e, emit_add(e, loop->i, step));
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->b);
    LLVMAddIncoming(loop->i, &after, &last, 1);
    for (int k = 0; k < loop->n; k++) {
        Value v = next[k];
        LLVMAddIncoming(loop->carried[k], &v, &last, 1);
    }
    LLVMBuildBr(e->b, loop->head);
    LLVMPositionBuilderAtEnd(e->b, loop->exit);
}

/* Products of extents, in the entry block: they never change. */
static void group_extents(Emitter *e) {
    for (int g = 0; g < e->shape->n_groups; g++) {
        const DimGroup *group = &e->shape->group[g];
        Value extent = emit_int(e, e->nest->extent[group->first]);
        for (int d = group->first + 1; d < group->first + group->n; d++)
            extent = LLVMBuildMul(e->entry, extent, emit_int(e, e->nest->extent[d]), "");
        e->call.extent[g] = extent;
    }
}

void emit_use_context(Emitter *e, int context) {
    e->side.memo = e->side.memos[context];
    e->side.place = e->side.places[context];
    if (shape_is_rows(e->shape) || e->shape->n_outer_groups == 0) return;
    e->frame.base[e->shape->n_outer_groups - 1] = emit_add(e, e->side.column, (int64_t)context * e->lanes);
    e->frame.mask = e->side.masks[context];
}

void emit_forget_inner(Emitter *e) {
    for (int i = 0; i < e->nest->n_insts; i++)
        if (e->nest->insts[i].inner) e->side.memo[i] = NULL;
}

static bool is_root(const Inst *inst) { return inst->op == LI_store || inst->op == LI_reduce; }

/* What does not vary with the inner dims is made before their loops. */
static void hoist(Emitter *e, int i, bool *seen) {
    if (i < 0 || seen[i]) return;
    seen[i] = true;
    const Inst *inst = &e->nest->insts[i];
    if (!inst->inner && !is_root(inst)) {
        emit_value(e, i);
        return;
    }
    if (inst->op == LI_reduce && e->side.memo[i]) return;
    hoist(e, inst->a, seen), hoist(e, inst->b, seen), hoist(e, inst->c, seen);
}

static void hoist_phase(Emitter *e, const Phase *phase) {
    bool *seen = ARENA_ARRAY(e->arena, bool, e->nest->n_insts + 1);
    for (int i = phase->first; i < phase->first + phase->n; i++)
        if (is_root(&e->nest->insts[i])) hoist(e, i, seen);
}

static void mark_needed(const Emitter *e, int i, bool *needed) {
    if (i < 0 || needed[i]) return;
    needed[i] = true;
    if (e->shape->inst[i].kept_in >= 0 && e->shape->inst[i].kept_in < e->phase) return;
    const Inst *inst = &e->nest->insts[i];
    if (inst->op == LI_reduce) return;
    mark_needed(e, inst->a, needed), mark_needed(e, inst->b, needed);
    mark_needed(e, inst->c, needed);
}

/* Each instruction for all vectors before the next one, so that a chain of dependent instructions
 * in one vector hides behind the others'. */
void emit_lockstep(Emitter *e) {
    const Phase *phase = &e->nest->phases[e->phase];
    bool *needed = ARENA_ARRAY(e->arena, bool, e->nest->n_insts + 1);
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *inst = &e->nest->insts[i];
        if (is_root(inst)) mark_needed(e, inst->a, needed), mark_needed(e, inst->b, needed);
    }
    if (e->frame.full) emit_loads(e, needed);
    for (int i = 0; i < e->nest->n_insts; i++) {
        if (!needed[i]) continue;
        if (e->side.n > 1 && e->shape->inst[i].shared) {
            emit_wide(e, i);
            continue;
        }
        for (int c = 0; c < e->side.n; c++) {
            emit_use_context(e, c);
            emit_value(e, i);
        }
    }
}

typedef void EmitStore(Emitter *e, int inst);

static void each_store(Emitter *e, EmitStore *store) {
    const Phase *phase = &e->nest->phases[e->phase];
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        for (int c = 0; c < e->side.n && e->nest->insts[i].op == LI_store; c++) {
            emit_use_context(e, c);
            store(e, i);
        }
    }
}

/* Of whole vectors: past the caches or through them. */
static void store_all(Emitter *e) {
    const bool whole = !e->frame.mask || e->frame.on_full;
    if (!whole || !emit_streams_in(e, &e->nest->phases[e->phase])) {
        each_store(e, emit_store);
        return;
    }
    LLVMBasicBlockRef past = emit_block(e, "past"), through = emit_block(e, "through"),
                      stored = emit_block(e, "stored");
    LLVMBuildCondBr(e->b, e->stream.here, past, through);
    LLVMPositionBuilderAtEnd(e->b, past);
    e->stream.past = true;
    each_store(e, emit_store);
    e->stream.past = false;
    LLVMBuildBr(e->b, stored);
    LLVMPositionBuilderAtEnd(e->b, through);
    each_store(e, emit_store);
    LLVMBuildBr(e->b, stored);
    LLVMPositionBuilderAtEnd(e->b, stored);
}

/* All values first: a buffer that is updated in place is read before it is written. Then, where
 * lanes may be missing, one branch around the masked stores. */
static void emit_stores(Emitter *e, void *context) {
    emit_lockstep(e);
    each_store(e, emit_store_value);
    if (!e->frame.full) {
        store_all(e);
        return;
    }
    LLVMBasicBlockRef whole = emit_block(e, "whole"), part = emit_block(e, "part"), stored = emit_block(e, "stored");
    LLVMBuildCondBr(e->b, e->frame.full, whole, part);
    LLVMPositionBuilderAtEnd(e->b, whole);
    e->frame.on_full = true;
    store_all(e);
    e->frame.on_full = false;
    LLVMBuildBr(e->b, stored);
    LLVMPositionBuilderAtEnd(e->b, part);
    each_store(e, emit_store);
    LLVMBuildBr(e->b, stored);
    LLVMPositionBuilderAtEnd(e->b, stored);
}

static void stores_of_contexts(Emitter *e, void *context) {
    for (int c = 0; c < e->side.n; c++) {
        emit_use_context(e, c);
        emit_forget_inner(e);
    }
    emit_stores(e, context);
}

static void stores_of_row(Emitter *e, void *context) { emit_loop_L(e, emit_stores, context); }

static bool has_inner_loops(const Emitter *e, const Phase *phase) { return !phase->over_outer && e->nest->n_inner > 0; }

static void emit_map_phase(Emitter *e, const Phase *phase) {
    if (!has_inner_loops(e, phase))
        stores_of_contexts(e, (void *)phase);
    else
        emit_loop_S(e, shape_is_rows(e->shape) ? stores_of_row : stores_of_contexts, (void *)phase);
}

void emit_phases_from(Emitter *e, int first) {
    for (e->phase = first; e->phase < e->nest->n_phases; e->phase++) {
        const Phase *phase = &e->nest->phases[e->phase];
        for (int c = 0; c < e->side.n && has_inner_loops(e, phase); c++) {
            emit_use_context(e, c);
            hoist_phase(e, phase);
        }
        if (phase->kind == PHASE_reduce)
            emit_reduce_phase(e, phase);
        else
            emit_map_phase(e, phase);
    }
}

static void emit_phases(Emitter *e) {
    for (int c = 0; c < e->side.n; c++) {
        emit_use_context(e, c);
        memset(e->side.memo, 0, sizeof(Value) * (size_t)e->nest->n_insts);
        emit_places(e);
    }
    emit_use_context(e, 0);
    emit_stream_choose(e);
    emit_phases_from(e, 0);
}

/* The caller's rectangle. */
typedef struct IndexRect {
    Value lo[MAX_LOOP_DIMS], hi[MAX_LOOP_DIMS], index[MAX_LOOP_DIMS];
    Value whole; /* i1: the last group's trailing dims are run in full */
} IndexRect;

static void load_rect(Emitter *e, IndexRect *rect) {
    for (int d = 0; d < e->nest->n_outer; d++) {
        rect->lo[d] = load_entry(e, e->call.arg[2], d);
        rect->hi[d] = load_entry(e, e->call.arg[3], d);
    }
}

static Value runs_whole(Emitter *e, const IndexRect *rect, const DimGroup *group) {
    Value whole = LLVMConstInt(e->type.i1, 1, 0);
    for (int d = group->first + 1; d < group->first + group->n; d++) {
        const Value extent = emit_int(e, e->nest->extent[d]);
        const Value from = LLVMBuildICmp(e->b, LLVMIntEQ, rect->lo[d], emit_const(e, 0), "");
        const Value to = LLVMBuildICmp(e->b, LLVMIntEQ, rect->hi[d], extent, "");
        whole = LLVMBuildAnd(e->b, whole, LLVMBuildAnd(e->b, from, to, ""), "");
    }
    return whole;
}

/* The range of the last group's merged index at the current indices of its leading dims. */
static void column_range(Emitter *e, const IndexRect *rect, const DimGroup *group, Value *begin, Value *end) {
    const int last = group->first + group->n - 1;
    Value at = emit_const(e, 0), inside = emit_const(e, 1);
    for (int d = group->first; d <= last; d++) {
        const Value extent = emit_int(e, e->nest->extent[d]);
        const Value index = d == last ? rect->lo[d] : rect->index[d];
        at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, extent, ""), index, "");
        if (d > group->first) inside = LLVMBuildMul(e->b, inside, extent, "");
    }
    const Value part = LLVMBuildSub(e->b, rect->hi[last], rect->lo[last], "");
    Value leading = LLVMBuildSub(e->b, rect->hi[group->first], rect->lo[group->first], "");
    leading = LLVMBuildMul(e->b, leading, inside, "");
    const Value count = group->n == 1 ? part : LLVMBuildSelect(e->b, rect->whole, leading, part, "");
    *begin = at;
    *end = LLVMBuildAdd(e->b, at, count, "");
}

/* Whole vectors side by side; returns the first column not done. */
static Value whole_columns(Emitter *e, Value begin, Value end) {
    const int64_t step = (int64_t)e->lanes * e->shape->copies;
    e->side.n = e->shape->copies;
    Loop loop;
    emit_loop_begin(e, &loop, begin, emit_add(e, end, 1 - step));
    emit_loop_body(e, &loop);
    e->side.column = loop.i;
    emit_phases(e);
    emit_loop_end(e, &loop, step, NULL);
    return loop.i;
}

static void masked_columns(Emitter *e, Value begin, Value end) {
    const int n = e->shape->masked ? e->shape->copies : 1;
    const int64_t step = (int64_t)e->lanes * n;
    e->side.n = n;
    Loop loop;
    emit_loop_begin(e, &loop, begin, end);
    emit_loop_body(e, &loop);
    e->side.column = loop.i;
    for (int c = 0; c < n; c++) e->side.masks[c] = emit_lanes_below(e, end, emit_add(e, loop.i, (int64_t)c * e->lanes));
    if (e->shape->masked) e->frame.full = LLVMBuildICmp(e->b, LLVMIntSLE, emit_add(e, loop.i, step), end, "");
    emit_phases(e);
    emit_loop_end(e, &loop, step, NULL);
    memset(e->side.masks, 0, sizeof e->side.masks);
    e->frame.mask = e->frame.full = NULL;
}

static void run_columns(Emitter *e, const IndexRect *rect) {
    const int g = e->shape->n_outer_groups - 1;
    Value begin, end;
    column_range(e, rect, &e->shape->group[g], &begin, &end);
    e->frame.linear = g;
    if (e->shape->mode == SHAPE_panels)
        begin = emit_panels(e, begin, end);
    else if (!e->shape->masked)
        begin = whole_columns(e, begin, end);
    masked_columns(e, begin, end);
}

/* Loops over the outer dims from d on; in columns all but the last. */
static void run_outer(Emitter *e, IndexRect *rect, int d) {
    const int n = shape_is_rows(e->shape) ? e->nest->n_outer : e->nest->n_outer - 1;
    if (d >= n) {
        if (shape_is_rows(e->shape) || e->nest->n_outer == 0)
            emit_phases(e);
        else
            run_columns(e, rect);
        return;
    }
    const DimGroup *last = &e->shape->group[e->shape->n_outer_groups - 1];
    const bool merged = !shape_is_rows(e->shape) && d >= last->first;
    Value to = rect->hi[d];
    if (merged) to = LLVMBuildSelect(e->b, rect->whole, emit_add(e, rect->lo[d], 1), to, "");
    Loop loop;
    emit_loop_begin(e, &loop, rect->lo[d], to);
    emit_loop_body(e, &loop);
    rect->index[d] = loop.i;
    if (!merged) e->frame.base[d] = loop.i; /* unmerged outer dims are groups of one, in order */
    run_outer(e, rect, d + 1);
    emit_loop_end(e, &loop, 1, NULL);
}

/* Buffers on the stack for a row's kept values. */
static void make_row_buffers(Emitter *e) {
    e->row_buffer = ARENA_ARRAY(e->arena, Value, e->nest->n_insts + 1);
    for (int k = 0; k < e->shape->n_kept; k++) {
        const int i = e->shape->kept[k];
        const SType type = (SType)e->nest->insts[i].type;
        const LLVMTypeRef element = type == S_b ? e->type.i8 : emit_scalar(e, type);
        /* ragged rows are read and written from up to a vector before their begin */
        const int64_t n = LANES_L + round_up(shape_L_total(e->shape), LANES_L);
        const Value slot = emit_entry_alloca(e, element, n, 64);
        e->row_buffer[i] = emit_gep(e->entry, element, slot, emit_const(e, LANES_L));
    }
}

static void make_function(Emitter *e, const char *symbol) {
    LLVMTypeRef args[5] = {e->type.ptr, e->type.ptr, e->type.ptr, e->type.ptr, e->type.ptr};
    const LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->unit.context), args, 5, 0);
    e->call.function = LLVMAddFunction(e->unit.module, symbol, type);
    for (unsigned i = 0; i < 5; i++) e->call.arg[i] = LLVMGetParam(e->call.function, i);
}

void emit_nest(Emitter *e, const char *symbol) {
    make_function(e, symbol);
    LLVMBasicBlockRef entry = emit_block(e, "entry"), start = emit_block(e, "start");
    LLVMPositionBuilderAtEnd(e->entry, entry);
    LLVMPositionBuilderAtEnd(e->b, start);
    e->frame = (IndexFrame){.linear = -1};
    memset(e->call.buf, 0, sizeof e->call.buf);
    memset(e->call.param, 0, sizeof e->call.param);
    group_extents(e);
    for (int c = 0; c < MAX_UNROLL; c++) {
        e->side.memos[c] = ARENA_ARRAY(e->arena, Value, e->nest->n_insts + 1);
        e->side.places[c] = ARENA_ARRAY(e->arena, Value, e->nest->n_insts + 1);
    }
    e->side.n = 1;
    make_row_buffers(e);
    emit_stream_begin(e);
    IndexRect rect;
    load_rect(e, &rect);
    if (!shape_is_rows(e->shape) && e->shape->n_outer_groups > 0)
        rect.whole = runs_whole(e, &rect, &e->shape->group[e->shape->n_outer_groups - 1]);
    run_outer(e, &rect, 0);
    emit_stream_end(e);
    LLVMBuildRetVoid(e->b);
    LLVMBuildBr(e->entry, start);
}
