/* emit_nest.c: the loops of one nest: which dims merge, which way lanes run, and the phases inside.
 *
 *   columns:  for outer dims but the last group { for i by 4 vectors { phases }
 *                                                 for i by 1 masked vector { phases } }
 *   rows:     for outer dims { phases, each with its own loops over S and L }
 *
 * Dims merge when every access walks them as one. The last outer group may only be run as one loop
 * where the caller's rectangle covers its trailing dims wholly, which is decided by the values of
 * lo and hi: else the same code runs once per index of the leading dims. */
#include "codegen/llvm/emit.h"
#include "kernels/kernels.h"

Value emit_const(Emitter *e, int64_t v) { return LLVMConstInt(e->i64, (unsigned long long)v, 1); }

Value emit_add(Emitter *e, Value x, int64_t v) { return v == 0 ? x : LLVMBuildAdd(e->b, x, emit_const(e, v), ""); }

static Value load_entry(Emitter *e, Value array, int i) {
    const Value index = emit_const(e, i);
    const Value slot = emit_gep(e->entry, e->i64, array, index);
    return LLVMBuildLoad2(e->entry, e->i64, slot, "");
}

Value emit_int(Emitter *e, int64_t v) {
    if (!sym_is(v)) return emit_const(e, v);
    Value *const slot = &e->param[sym_id(v)];
    if (!*slot) *slot = load_entry(e, e->arg[1], sym_id(v));
    return *slot;
}

Value emit_entry_alloca(Emitter *e, LLVMTypeRef type, int64_t n, int align) {
    const Value slot = LLVMBuildArrayAlloca(e->entry, type, emit_const(e, n), "");
    LLVMSetAlignment(slot, (unsigned)align);
    return slot;
}

LLVMBasicBlockRef emit_block(Emitter *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

void emit_loop_begin(Emitter *e, Loop *loop, Value from, Value to) {
    *loop =
        (Loop){.to = to, .head = emit_block(e, "head"), .body = emit_block(e, "body"), .exit = emit_block(e, "exit")};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, loop->head);
    LLVMPositionBuilderAtEnd(e->b, loop->head);
    loop->i = LLVMBuildPhi(e->b, e->i64, "");
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
    const LLVMTypeRef type = LLVMFunctionType(e->i64, &e->i64, 1, 0);
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

/* Merging dims: dim d joins the group to its right when stepping d is stepping the group by its
 * whole extent. */
static bool steps_whole(int64_t coefficient, int64_t of_group, const Group *group, const int64_t *extent) {
    if (coefficient == 0 && of_group == 0) return true;
    if (sym_is(of_group)) return false;
    int64_t whole;
    if (group->plain >= 0)
        return !sym_is(coefficient) && mul_ok(of_group, group->plain, &whole) && coefficient == whole;
    return group->n == 1 && of_group == 1 && coefficient == extent[group->coef];
}

static bool joins(const Nest *nest, int d, const Group *group) {
    for (int i = 0; i < nest->n_insts; i++) {
        const Affine *at = nest->insts[i].at;
        if (at && !steps_whole(at->coef[d], at->coef[group->coef], group, nest->extent)) return false;
    }
    return true;
}

static void absorb(Group *group, int d, int64_t extent) {
    if (group->plain == 1 && extent != 1) {
        group->coef = d;
        group->plain = sym_is(extent) ? -1 : extent;
    } else if (extent != 1) {
        if (sym_is(extent) || group->plain < 0 || !mul_ok(group->plain, extent, &group->plain)) group->plain = -1;
    }
    group->first = d;
    group->n++;
}

/* Dims first..last-1 as groups, from the right; `merge` is for the last group only or for all. */
static void group_dims(Emitter *e, int first, int last, bool merge_last, bool merge_all) {
    Group found[MAX_LOOP_DIMS];
    int n = 0;
    const int64_t *extent = e->nest->extent;
    for (int d = last - 1; d >= first; d--) {
        const bool merge = n > 0 && (merge_all || (merge_last && n == 1));
        const bool one = n > 0 && (extent[d] == 1 || found[n - 1].plain == 1);
        if (!merge || !(one || joins(e->nest, d, &found[n - 1])))
            found[n++] = (Group){.first = d + 1, .coef = d, .plain = 1};
        absorb(&found[n - 1], d, extent[d]);
    }
    while (n > 0) e->group[e->n_groups++] = found[--n];
}

static void make_groups(Emitter *e) {
    const Nest *nest = e->nest;
    const int inner = nest->n_outer, l = inner + nest->n_s, end = inner + nest->n_inner;
    e->rows = l < end;
    group_dims(e, 0, inner, !e->rows, false);
    e->n_outer_groups = e->n_groups;
    group_dims(e, inner, l, false, true);
    e->n_s_groups = e->n_groups - e->n_outer_groups;
    group_dims(e, l, end, false, true);
}

/* Products of extents, in the entry block: they never change. */
static void group_extents(Emitter *e) {
    for (int g = 0; g < e->n_groups; g++) {
        Group *group = &e->group[g];
        Value extent = emit_int(e, e->nest->extent[group->first]);
        for (int d = group->first + 1; d < group->first + group->n; d++)
            extent = LLVMBuildMul(e->entry, extent, emit_int(e, e->nest->extent[d]), "");
        group->extent = extent;
    }
}

void emit_use_context(Emitter *e, int context) {
    e->memo = e->memos[context];
    e->place = e->places[context];
    if (e->rows || e->n_outer_groups == 0) return;
    e->frame.base[e->n_outer_groups - 1] = emit_add(e, e->column, (int64_t)context * e->lanes);
    e->frame.mask = e->masks[context];
}

void emit_forget_inner(Emitter *e) {
    for (int i = 0; i < e->nest->n_insts; i++)
        if (e->nest->insts[i].inner) e->memo[i] = NULL;
}

static int inst_cost(const Emitter *e, const Inst *inst) {
    char room[64];
    if (inst->op == LI_gather) return 12;
    if (inst->op != LI_prim) return 0;
    return emit_needs_symbol(e, room, inst->prim, inst->type) ? 12 : 1;
}

/* Of one vector of the nest, in simple instructions. */
static int nest_cost(const Emitter *e) {
    int cost = 0;
    for (int i = 0; i < e->nest->n_insts; i++) cost += inst_cost(e, &e->nest->insts[i]);
    return cost;
}

static bool is_root(const Inst *inst) { return inst->op == LI_store || inst->op == LI_reduce; }

static int cost_below(const Emitter *e, int i, bool *seen) {
    if (i < 0 || seen[i] || !e->nest->insts[i].inner) return 0;
    if (e->kept_in[i] >= 0 && e->kept_in[i] < e->phase) return 0;
    seen[i] = true;
    const Inst *inst = &e->nest->insts[i];
    return inst_cost(e, inst) + cost_below(e, inst->a, seen) + cost_below(e, inst->b, seen) +
           cost_below(e, inst->c, seen);
}

int emit_phase_cost(const Emitter *e) {
    const Phase *phase = &e->nest->phases[e->phase];
    bool *seen = ARENA_ARRAY(e->arena, bool, e->nest->n_insts + 1);
    int cost = 0;
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *inst = &e->nest->insts[i];
        if (is_root(inst)) cost += cost_below(e, inst->a, seen) + cost_below(e, inst->b, seen);
    }
    return cost;
}

/* What does not vary with the inner dims is made before their loops. */
static void hoist(Emitter *e, int i, bool *seen) {
    if (i < 0 || seen[i]) return;
    seen[i] = true;
    const Inst *inst = &e->nest->insts[i];
    if (!inst->inner && !is_root(inst)) {
        emit_value(e, i);
        return;
    }
    if (inst->op == LI_reduce && e->memo[i]) return;
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
    if (e->kept_in[i] >= 0 && e->kept_in[i] < e->phase) return;
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
        if (!needed[i] || (e->n_contexts > 1 && emit_wide(e, i))) continue;
        for (int c = 0; c < e->n_contexts; c++) {
            emit_use_context(e, c);
            emit_value(e, i);
        }
    }
}

typedef void EmitStore(Emitter *e, int inst);

static void each_store(Emitter *e, EmitStore *store) {
    const Phase *phase = &e->nest->phases[e->phase];
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        for (int c = 0; c < e->n_contexts && e->nest->insts[i].op == LI_store; c++) {
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
    LLVMBuildCondBr(e->b, e->streams, past, through);
    LLVMPositionBuilderAtEnd(e->b, past);
    e->streaming = true;
    each_store(e, emit_store);
    e->streaming = false;
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
    for (int c = 0; c < e->n_contexts; c++) {
        emit_use_context(e, c);
        emit_forget_inner(e);
    }
    emit_stores(e, context);
}

static void stores_of_row(Emitter *e, void *context) { emit_walk_L(e, emit_stores, context); }

static bool has_inner_loops(const Emitter *e, const Phase *phase) { return !phase->over_outer && e->nest->n_inner > 0; }

static void emit_map_phase(Emitter *e, const Phase *phase) {
    if (!has_inner_loops(e, phase))
        stores_of_contexts(e, (void *)phase);
    else
        emit_walk_S(e, e->rows ? stores_of_row : stores_of_contexts, (void *)phase);
}

void emit_phases_from(Emitter *e, int first) {
    for (e->phase = first; e->phase < e->nest->n_phases; e->phase++) {
        const Phase *phase = &e->nest->phases[e->phase];
        for (int c = 0; c < e->n_contexts && has_inner_loops(e, phase); c++) {
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
    for (int c = 0; c < e->n_contexts; c++) {
        emit_use_context(e, c);
        memset(e->memo, 0, sizeof(Value) * (size_t)e->nest->n_insts);
        emit_places(e);
    }
    emit_use_context(e, 0);
    emit_stream_choose(e);
    emit_phases_from(e, 0);
}

/* The caller's rectangle. */
typedef struct Rect {
    Value lo[MAX_LOOP_DIMS], hi[MAX_LOOP_DIMS], index[MAX_LOOP_DIMS];
    Value whole; /* i1: the last group's trailing dims are run in full */
} Rect;

static void load_rect(Emitter *e, Rect *rect) {
    for (int d = 0; d < e->nest->n_outer; d++) {
        rect->lo[d] = load_entry(e, e->arg[2], d);
        rect->hi[d] = load_entry(e, e->arg[3], d);
    }
}

static Value runs_whole(Emitter *e, const Rect *rect, const Group *group) {
    Value whole = LLVMConstInt(e->i1, 1, 0);
    for (int d = group->first + 1; d < group->first + group->n; d++) {
        const Value extent = emit_int(e, e->nest->extent[d]);
        const Value from = LLVMBuildICmp(e->b, LLVMIntEQ, rect->lo[d], emit_const(e, 0), "");
        const Value to = LLVMBuildICmp(e->b, LLVMIntEQ, rect->hi[d], extent, "");
        whole = LLVMBuildAnd(e->b, whole, LLVMBuildAnd(e->b, from, to, ""), "");
    }
    return whole;
}

/* The range of the last group's merged index at the current indices of its leading dims. */
static void column_range(Emitter *e, const Rect *rect, const Group *group, Value *begin, Value *end) {
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

/* How a nest runs its columns. Short bodies: whole vectors side by side, then a masked loop for the
 * rest. Long bodies, whose every copy costs time to compile: one masked loop, with vectors side by
 * side only where a chain is too long for the processor to find the next vector behind it, and
 * primitives repeat: one function then serves all uses and vectors (emit_wide). */
typedef struct Columns {
    bool masked; /* one loop for all */
    int side_by_side;
} Columns;

/* Uses of the library primitive that is used most. */
static int repeats(const Emitter *e) {
    int uses[PRIM_COUNT] = {0}, most = 0;
    char room[64];
    for (int i = 0; i < e->nest->n_insts; i++) {
        const Inst *inst = &e->nest->insts[i];
        if (inst->op != LI_prim || !emit_needs_symbol(e, room, inst->prim, inst->type)) continue;
        if (++uses[inst->prim] > most) most = uses[inst->prim];
    }
    return most;
}

static Columns column_plan(const Emitter *e) {
    const int cost = nest_cost(e);
    int reds = 0;
    for (int i = 0; i < e->nest->n_insts; i++) reds += e->nest->insts[i].op == LI_reduce;
    if (e->nest->n_inner > 0 || cost < LONG_BODY)
        return (Columns){.side_by_side = cost >= LONG_BODY || reds > 4 ? 1 : reds > 2 ? 2 : 4};
    const Group *last = &e->group[e->n_outer_groups - 1];
    int n = repeats(e) >= 3 ? 4 : 1;
    while (n > 1 && last->plain >= 0 && last->plain <= (int64_t)(n / 2) * e->lanes) n /= 2;
    return (Columns){.masked = true, .side_by_side = n};
}

static Value whole_columns(Emitter *e, Value begin, Value end, int side_by_side) {
    const int64_t step = (int64_t)e->lanes * side_by_side;
    e->n_contexts = side_by_side;
    Loop loop;
    emit_loop_begin(e, &loop, begin, emit_add(e, end, 1 - step));
    emit_loop_body(e, &loop);
    e->column = loop.i;
    emit_phases(e);
    emit_loop_end(e, &loop, step, NULL);
    return loop.i;
}

static void masked_columns(Emitter *e, Value begin, Value end, const Columns *plan) {
    const int n = plan->masked ? plan->side_by_side : 1;
    const int64_t step = (int64_t)e->lanes * n;
    e->n_contexts = n;
    Loop loop;
    emit_loop_begin(e, &loop, begin, end);
    emit_loop_body(e, &loop);
    e->column = loop.i;
    for (int c = 0; c < n; c++) e->masks[c] = emit_lanes_below(e, end, emit_add(e, loop.i, (int64_t)c * e->lanes));
    if (plan->masked) e->frame.full = LLVMBuildICmp(e->b, LLVMIntSLE, emit_add(e, loop.i, step), end, "");
    emit_phases(e);
    emit_loop_end(e, &loop, step, NULL);
    memset(e->masks, 0, sizeof e->masks);
    e->frame.mask = e->frame.full = NULL;
}

static void run_columns(Emitter *e, const Rect *rect) {
    const int g = e->n_outer_groups - 1;
    const Columns plan = column_plan(e);
    Value begin, end;
    column_range(e, rect, &e->group[g], &begin, &end);
    e->frame.linear = g;
    if (emit_panel_fits(e))
        begin = emit_panels(e, begin, end);
    else if (!plan.masked)
        begin = whole_columns(e, begin, end, plan.side_by_side);
    masked_columns(e, begin, end, &plan);
}

/* Loops over the outer dims from d on; in columns all but the last. */
static void run_outer(Emitter *e, Rect *rect, int d) {
    const int n = e->rows ? e->nest->n_outer : e->nest->n_outer - 1;
    if (d >= n) {
        if (e->rows || e->nest->n_outer == 0)
            emit_phases(e);
        else
            run_columns(e, rect);
        return;
    }
    const Group *last = &e->group[e->n_outer_groups - 1];
    const bool merged = !e->rows && d >= last->first;
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

/* Which values of a row are kept for later phases: those that cost more than loading them again. */
typedef struct Keeper {
    Emitter *e;
    int *cost;
    int64_t room, row;
    bool *needed; /* in this phase */
    int phase;
} Keeper;

static void keep_visit(Keeper *k, int i) {
    Emitter *e = k->e;
    if (i < 0 || !e->nest->insts[i].inner || k->needed[i] || e->kept_in[i] >= 0) return;
    const Inst *inst = &e->nest->insts[i];
    const bool earlier = e->first_phase[i] >= 0 && e->first_phase[i] < k->phase;
    const int64_t bytes = stype_bytes(inst->type) * k->row;
    if (earlier && k->cost[i] > 2 && bytes <= k->room) {
        k->room -= bytes;
        e->kept_in[i] = e->first_phase[i];
        const LLVMTypeRef type = inst->type == S_b ? e->i8 : emit_scalar(e, inst->type);
        /* ragged rows are read and written from up to a vector before their begin */
        const Value slot = emit_entry_alloca(e, type, LANES_L + k->row, 64);
        e->row_buffer[i] = emit_gep(e->entry, type, slot, emit_const(e, LANES_L));
        return;
    }
    k->needed[i] = true;
    if (e->first_phase[i] < 0) e->first_phase[i] = k->phase;
    keep_visit(k, inst->a), keep_visit(k, inst->b), keep_visit(k, inst->c);
}

static int *row_costs(Emitter *e) {
    int *cost = ARENA_ARRAY(e->arena, int, e->nest->n_insts + 1);
    char room[64];
    for (int i = 0; i < e->nest->n_insts; i++) {
        const Inst *inst = &e->nest->insts[i];
        const int operands[3] = {inst->a, inst->b, inst->c};
        for (int k = 0; k < 3; k++)
            if (operands[k] >= 0 && e->nest->insts[operands[k]].inner) cost[i] += cost[operands[k]];
        cost[i] += inst->op == LI_gather ? 6 : 1;
        if (inst->op == LI_prim && emit_needs_symbol(e, room, inst->prim, inst->type)) cost[i] += 12;
        cost[i] = cost[i] > 1000 ? 1000 : cost[i];
    }
    return cost;
}

static void choose_kept(Emitter *e) {
    const int n = e->nest->n_insts;
    e->kept_in = ARENA_ARRAY(e->arena, int, n + 1);
    e->first_phase = ARENA_ARRAY(e->arena, int, n + 1);
    e->row_buffer = ARENA_ARRAY(e->arena, Value, n + 1);
    for (int i = 0; i < n; i++) e->kept_in[i] = e->first_phase[i] = -1;
    int64_t plain;
    emit_L_total(e, &plain);
    if (!e->rows || e->nest->n_s > 0 || plain < 0) return;
    Keeper k = {.e = e, .cost = row_costs(e), .room = e->request->stack_bytes, .row = round_up(plain, 64)};
    for (k.phase = 0; k.phase < e->nest->n_phases; k.phase++) {
        const Phase *phase = &e->nest->phases[k.phase];
        k.needed = ARENA_ARRAY(e->arena, bool, n + 1);
        for (int i = phase->first; i < phase->first + phase->n; i++) {
            const Inst *inst = &e->nest->insts[i];
            if (is_root(inst)) keep_visit(&k, inst->a), keep_visit(&k, inst->b);
        }
    }
}

static void make_function(Emitter *e, const char *symbol) {
    LLVMTypeRef args[5] = {e->ptr, e->ptr, e->ptr, e->ptr, e->ptr};
    const LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), args, 5, 0);
    e->function = LLVMAddFunction(e->module, symbol, type);
    for (unsigned i = 0; i < 5; i++) e->arg[i] = LLVMGetParam(e->function, i);
}

void emit_nest(Emitter *e, const char *symbol) {
    make_function(e, symbol);
    LLVMBasicBlockRef entry = emit_block(e, "entry"), start = emit_block(e, "start");
    LLVMPositionBuilderAtEnd(e->entry, entry);
    LLVMPositionBuilderAtEnd(e->b, start);
    e->n_groups = 0;
    e->frame = (Frame){.linear = -1};
    memset(e->buf, 0, sizeof e->buf);
    memset(e->param, 0, sizeof e->param);
    make_groups(e);
    group_extents(e);
    for (int c = 0; c < MAX_UNROLL; c++) {
        e->memos[c] = ARENA_ARRAY(e->arena, Value, e->nest->n_insts + 1);
        e->places[c] = ARENA_ARRAY(e->arena, Value, e->nest->n_insts + 1);
    }
    e->n_contexts = 1;
    choose_kept(e);
    emit_choose_fetched(e);
    emit_stream_begin(e);
    Rect rect;
    load_rect(e, &rect);
    if (!e->rows && e->n_outer_groups > 0) rect.whole = runs_whole(e, &rect, &e->group[e->n_outer_groups - 1]);
    run_outer(e, &rect, 0);
    emit_stream_end(e);
    LLVMBuildRetVoid(e->b);
    LLVMBuildBr(e->entry, start);
}
