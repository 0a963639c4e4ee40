/* emit_reduce.c: walking the inner dims, and the canonical orders of reductions over them
 * [semantics B2].
 *
 *   L  chunks of 1,024; 64 lanes as 64/W vectors, lane = position mod 64, from +0; adjacent-pair
 *      tree (bitcode); chunk results by the same rule (emit_fold.c)
 *   S  64 rows in order from +0 per chunk, chunk results by the same rule: nested loops, one per
 *      level
 *
 * Lanes without an element keep their accumulator (select by mask): right for every kind, and free
 * where a row is whole vectors. Kinds that do not depend on order (max, min, ints, bools,
 * positions) skip the levels. */
#include "codegen/llvm/emit.h"

#include <math.h>
#include <stdio.h>

enum { PARTS = LANES_L / 4 };

typedef struct Reds {
    const Inst *inst[MAX_REDS];
    int id[MAX_REDS], n;
} Reds;
typedef struct LaneSums { /* accumulators of 64 lanes, per reduction */
    Acc at[MAX_REDS][PARTS];
} LaneSums;
typedef struct Columns {
    Acc at[MAX_REDS][MAX_UNROLL];
} Columns;

static bool positional(const Inst *red) { return red->prim == RED_argmax || red->prim == RED_argmin; }

/* The type that is accumulated: of the operand. */
static SType acc_type(const Emitter *e, const Inst *red) { return e->nest->insts[red->a].type; }

static bool float_acc(const Emitter *e, const Inst *red) {
    const SType type = acc_type(e, red);
    return type == S_f32 || type == S_f64;
}

/* The value that joins without effect (sums: +0, which is what every lane starts from). */
static Value identity(Emitter *e, const Inst *red) {
    const SType type = acc_type(e, red);
    const LLVMTypeRef scalar = emit_scalar(e, type);
    const bool largest = red->prim == RED_max || red->prim == RED_argmax;
    if (red->prim == RED_prod) return float_acc(e, red) ? LLVMConstReal(scalar, 1) : LLVMConstInt(scalar, 1, 0);
    if (red->prim == RED_all) return LLVMConstInt(scalar, 1, 0);
    if (largest || red->prim == RED_min || red->prim == RED_argmin) {
        if (float_acc(e, red)) return LLVMConstReal(scalar, largest ? -INFINITY : INFINITY);
        if (type == S_b) return LLVMConstInt(scalar, !largest, 0);
        const uint64_t lowest = UINT64_C(1) << (type == S_i32 ? 31 : 63);
        return LLVMConstInt(scalar, largest ? lowest : lowest - 1, 0);
    }
    return emit_zero(scalar);
}

Acc red_identity(Emitter *e, const Inst *red, bool vector) {
    Acc acc = {identity(e, red), positional(red) ? emit_const(e, INT64_MAX) : NULL};
    if (vector) acc = (Acc){emit_splat(e, acc.v), acc.at ? emit_splat(e, acc.at) : NULL};
    return acc;
}

/* Whether b comes before a as the extreme: beyond it, or NaN where a is none, or as good and
 * earlier. */
static Value wins(Emitter *e, const Inst *red, Acc a, Acc b) {
    const SType type = acc_type(e, red);
    const int beyond = red->prim == RED_argmax ? PRIM_gt : PRIM_lt;
    Value better = emit_prim(e, beyond, type, b.v, a.v, NULL);
    Value same = emit_prim(e, PRIM_eq, type, a.v, b.v, NULL);
    if (float_acc(e, red)) {
        const Value a_nan = emit_prim(e, PRIM_ne, type, a.v, a.v, NULL);
        const Value b_nan = emit_prim(e, PRIM_ne, type, b.v, b.v, NULL);
        same = LLVMBuildOr(e->b, same, LLVMBuildAnd(e->b, a_nan, b_nan, ""), "");
        const Value only_b = LLVMBuildAnd(e->b, b_nan, LLVMBuildNot(e->b, a_nan, ""), "");
        better = LLVMBuildOr(e->b, better, only_b, "");
    }
    const Value earlier = LLVMBuildICmp(e->b, LLVMIntSLT, b.at, a.at, "");
    return LLVMBuildOr(e->b, better, LLVMBuildAnd(e->b, same, earlier, ""), "");
}

Acc red_join(Emitter *e, const Inst *red, Acc a, Acc b) {
    static const int prim[RED_COUNT] = {
        [RED_sum] = PRIM_add, [RED_dot] = PRIM_add, [RED_prod] = PRIM_mul, [RED_max] = PRIM_max,
        [RED_min] = PRIM_min, [RED_any] = PRIM_or,  [RED_all] = PRIM_and};
    if (!positional(red)) return (Acc){emit_prim(e, prim[red->prim], acc_type(e, red), a.v, b.v, NULL), NULL};
    const Value b_wins = wins(e, red, a, b);
    return (Acc){LLVMBuildSelect(e->b, b_wins, b.v, a.v, ""), LLVMBuildSelect(e->b, b_wins, b.at, a.at, "")};
}

/* Positions join in any order: halves of a vector, again and again. */
static Acc tree_of_positions(Emitter *e, const Inst *red, Acc *part, int n) {
    Acc all = part[0];
    for (int i = 1; i < n; i++) all = red_join(e, red, all, part[i]);
    for (int half = e->lanes / 2; half >= 1; half /= 2) {
        Value lane[64];
        for (int i = 0; i < e->lanes; i++) lane[i] = LLVMConstInt(e->type.i32, (unsigned)((i + half) % e->lanes), 0);
        const Value order = LLVMConstVector(lane, (unsigned)e->lanes);
        const Acc other = {LLVMBuildShuffleVector(e->b, all.v, all.v, order, ""),
                           LLVMBuildShuffleVector(e->b, all.at, all.at, order, "")};
        all = red_join(e, red, all, other);
    }
    return (Acc){emit_splat(e, emit_first_lane(e, all.v)), emit_splat(e, emit_first_lane(e, all.at))};
}

Acc red_tree(Emitter *e, const Inst *red, Acc *part, int n) {
    static const char *const names[RED_COUNT] = {"sum", "sum", "prod", "max", "min", "any", "all"};
    if (positional(red)) return tree_of_positions(e, red, part, n);
    char name[64];
    const SType type = acc_type(e, red);
    snprintf(name, sizeof name, "sn_tree_%s_%s", names[red->prim], stype_name(type));
    Value operands[PARTS];
    for (int i = 0; i < n; i++) operands[i] = part[i].v;
    Value v = emit_call(e, name, operands, n, type == S_b ? e->type.i8 : emit_scalar(e, type));
    if (type == S_b) v = LLVMBuildTrunc(e->b, v, e->type.i1, "");
    return (Acc){emit_splat(e, v), NULL};
}

static Value total_of(Emitter *e, int first, int last) {
    Value total = emit_const(e, 1);
    for (int g = first; g < last; g++)
        total = g == first ? e->call.extent[g] : LLVMBuildMul(e->entry, total, e->call.extent[g], "");
    return total;
}

Value emit_L_total(Emitter *e) { return total_of(e, shape_L_first(e->shape), e->shape->n_groups); }
Value emit_S_total(Emitter *e) { return total_of(e, e->shape->n_outer_groups, shape_L_first(e->shape)); }

Value emit_least(Emitter *e, Value x, Value y) {
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, x, y, ""), x, y, "");
}

Value emit_lanes_below(Emitter *e, Value end, Value at) {
    const Value rest = emit_least(e, LLVMBuildSub(e->b, end, at, ""), emit_const(e, e->lanes));
    const Value n = LLVMBuildTrunc(e->b, rest, e->type.i32, "");
    return LLVMBuildICmp(e->b, LLVMIntSLT, emit_iota(e, e->type.i32), emit_splat(e, n), "");
}

/* L dims that are several loops: each lane's position is taken apart. */
static void split_lanes(Emitter *e, Value at) {
    const LLVMTypeRef type = e->shape->index_bits == 32 ? e->type.i32 : e->type.i64;
    const LLVMTypeRef wide = LLVMVectorType(e->type.i64, (unsigned)e->lanes);
    Value index = emit_splat(e, LLVMBuildIntCast2(e->b, at, type, 1, ""));
    index = LLVMBuildAdd(e->b, index, emit_iota(e, type), "");
    for (int g = e->shape->n_groups - 1; g >= shape_L_first(e->shape); g--) {
        const Value extent = emit_splat(e, LLVMBuildIntCast2(e->b, e->call.extent[g], type, 1, ""));
        const bool first = g == shape_L_first(e->shape);
        const Value mine = first ? index : LLVMBuildURem(e->b, index, extent, "");
        e->frame.each[g] = LLVMBuildIntCast2(e->b, mine, wide, 1, "");
        if (!first) index = LLVMBuildUDiv(e->b, index, extent, "");
    }
}

/* The frame to L position `at`; end: masks, or NULL. */
static void set_L(Emitter *e, Value at, Value end) {
    e->frame.row = at;
    e->frame.mask = end ? emit_lanes_below(e, end, at) : NULL;
    e->frame.full = NULL;
    emit_forget_inner(e);
    if (shape_splits_rows(e->shape)) {
        split_lanes(e, at);
        return;
    }
    e->frame.linear = shape_L_first(e->shape);
    e->frame.base[shape_L_first(e->shape)] = at;
}

static void leave_L(Emitter *e) {
    e->frame.linear = -1;
    e->frame.mask = e->frame.full = NULL;
    emit_forget_inner(e);
}

void emit_set_S(Emitter *e, Value row) {
    e->frame.s_row = row;
    emit_forget_inner(e);
    for (int g = shape_L_first(e->shape) - 1; g > e->shape->n_outer_groups; g--) {
        e->frame.base[g] = LLVMBuildURem(e->b, row, e->call.extent[g], "");
        row = LLVMBuildUDiv(e->b, row, e->call.extent[g], "");
    }
    if (e->shape->n_s_groups > 0) e->frame.base[e->shape->n_outer_groups] = row;
}

/* Where the frame's mask may be all lanes. */
static void mark_full(Emitter *e, Value at, Value end) {
    e->frame.full = LLVMBuildICmp(e->b, LLVMIntSLE, emit_add(e, at, e->lanes), end, "");
}

/* One body for whole and partial vectors: for long bodies, whose every copy costs compile time. */
static void loop_either(Emitter *e, EmitBody *body, void *context, Value total) {
    Loop loop;
    emit_loop_begin(e, &loop, emit_const(e, 0), total);
    emit_loop_body(e, &loop);
    set_L(e, loop.i, total);
    mark_full(e, loop.i, total);
    emit_prefetch(e, 0);
    body(e, context);
    emit_loop_end(e, &loop, e->lanes, NULL);
    leave_L(e);
}

/* Rows that begin `lead` elements after an aligned address: vectors from there on. */
static void is_aligned_loop(Emitter *e, EmitBody *body, void *context, Value total) {
    Loop loop;
    emit_loop_begin(e, &loop, LLVMBuildNeg(e->b, e->stream.lead, ""), total);
    emit_loop_body(e, &loop);
    set_L(e, loop.i, total);
    const Value first = LLVMBuildTrunc(e->b, LLVMBuildNeg(e->b, loop.i, ""), e->type.i32, "");
    const Value inside = LLVMBuildICmp(e->b, LLVMIntSGE, emit_iota(e, e->type.i32), emit_splat(e, first), "");
    e->frame.mask = LLVMBuildAnd(e->b, e->frame.mask, inside, "");
    mark_full(e, loop.i, total);
    const Value begun = LLVMBuildICmp(e->b, LLVMIntSGE, loop.i, emit_const(e, 0), "");
    e->frame.full = LLVMBuildAnd(e->b, e->frame.full, begun, "");
    emit_prefetch(e, 0);
    body(e, context);
    emit_loop_end(e, &loop, e->lanes, NULL);
    leave_L(e);
}

void emit_loop_L(Emitter *e, EmitBody *body, void *context) {
    const int64_t plain = shape_L_total(e->shape);
    const Value total = emit_L_total(e);
    const PhaseShape *shape = &e->shape->phase[e->phase];
    if (e->stream.lead && emit_streams_in(e, &e->nest->phases[e->phase])) {
        is_aligned_loop(e, body, context, total);
        return;
    }
    if (shape->strategy == STRATEGY_masked) {
        loop_either(e, body, context, total);
        return;
    }
    const int64_t step = (int64_t)shape->copies * e->lanes;
    Value at = emit_const(e, 0);
    if (plain < 0 || plain >= step) {
        Loop loop;
        emit_loop_begin(e, &loop, at, emit_add(e, total, 1 - step));
        emit_loop_body(e, &loop);
        for (int i = 0; i < shape->copies; i++) {
            set_L(e, emit_add(e, loop.i, (int64_t)i * e->lanes), NULL);
            emit_prefetch(e, i);
            body(e, context);
        }
        emit_loop_end(e, &loop, step, NULL);
        at = loop.i;
    }
    if (plain < 0 || plain % step) {
        Loop tail;
        emit_loop_begin(e, &tail, at, total);
        emit_loop_body(e, &tail);
        set_L(e, tail.i, total);
        body(e, context);
        emit_loop_end(e, &tail, e->lanes, NULL);
    }
    leave_L(e);
}

void emit_loop_S(Emitter *e, EmitBody *body, void *context) {
    const Value total = emit_S_total(e);
    Loop loop;
    emit_loop_begin(e, &loop, emit_const(e, 0), total);
    emit_loop_body(e, &loop);
    emit_set_S(e, loop.i);
    body(e, context);
    emit_loop_end(e, &loop, 1, NULL);
}

/* Of each lane in the merged sequence of inner dims. */
static Value lane_positions(Emitter *e) {
    Value row = e->shape->n_s_groups > 0 ? e->frame.s_row : emit_const(e, 0);
    if (!shape_is_rows(e->shape)) return emit_splat(e, row);
    row = LLVMBuildMul(e->b, row, emit_L_total(e), "");
    row = LLVMBuildAdd(e->b, row, e->frame.row, "");
    return LLVMBuildAdd(e->b, emit_splat(e, row), emit_iota(e, e->type.i64), "");
}

/* One more element per lane. */
Acc red_step(Emitter *e, const Inst *red, Acc acc) {
    const Value x = emit_value(e, red->a);
    Acc next;
    if (red->prim == RED_dot)
        next = (Acc){
            emit_prim(e, float_acc(e, red) ? PRIM_fma : PRIM_mul, acc_type(e, red), x, emit_value(e, red->b), acc.v),
            NULL};
    else
        next = red_join(e, red, acc, (Acc){x, positional(red) ? lane_positions(e) : NULL});
    if (red->prim == RED_dot && !float_acc(e, red)) next.v = LLVMBuildAdd(e->b, next.v, acc.v, "");
    if (!e->frame.mask || !shape_is_rows(e->shape))
        return next; /* in columns a lane that does not exist is never stored */
    next.v = LLVMBuildSelect(e->b, e->frame.mask, next.v, acc.v, "");
    if (next.at) next.at = LLVMBuildSelect(e->b, e->frame.mask, next.at, acc.at, "");
    return next;
}

static void carry(Emitter *e, Loop *loop, Acc *acc) {
    acc->v = emit_loop_carry(e, loop, acc->v);
    if (acc->at) acc->at = emit_loop_carry(e, loop, acc->at);
}

static void push_next(Value *next, int *n, Acc acc) {
    next[(*n)++] = acc.v;
    if (acc.at) next[(*n)++] = acc.at;
}

static int parts_of(const Emitter *e) { return LANES_L / e->lanes; }

/* Whole groups of 64 elements, accumulators in registers; returns the position after the last. */
static Value groups_in_registers(Emitter *e, const Reds *reds, Value from, Value end, LaneSums *parts) {
    Loop loop;
    const int n_parts = parts_of(e);
    emit_loop_begin(e, &loop, from, emit_add(e, end, 1 - LANES_L));
    for (int r = 0; r < reds->n; r++)
        for (int p = 0; p < n_parts; p++) carry(e, &loop, &parts->at[r][p]);
    const LaneSums at_head = *parts;
    emit_loop_body(e, &loop);
    for (int p = 0; p < n_parts; p++) {
        set_L(e, emit_add(e, loop.i, (int64_t)p * e->lanes), NULL);
        emit_prefetch(e, p);
        for (int r = 0; r < reds->n; r++) parts->at[r][p] = red_step(e, reds->inst[r], parts->at[r][p]);
    }
    Value next[COUNT_OF(loop.carried)];
    int n = 0;
    for (int r = 0; r < reds->n; r++)
        for (int p = 0; p < n_parts; p++) push_next(next, &n, parts->at[r][p]);
    emit_loop_end(e, &loop, LANES_L, next);
    *parts = at_head; /* at the exit the phis are the values */
    return loop.i;
}

/* The last, partial group of a row of known length: one copy per vector. */
static void rest_in_registers(Emitter *e, const Reds *reds, Value from, Value end, int rest, LaneSums *parts) {
    for (int p = 0; p * e->lanes < rest; p++) {
        const bool whole = (p + 1) * e->lanes <= rest;
        set_L(e, emit_add(e, from, (int64_t)p * e->lanes), whole ? NULL : end);
        for (int r = 0; r < reds->n; r++) parts->at[r][p] = red_step(e, reds->inst[r], parts->at[r][p]);
    }
}

/* Accumulators in memory: one copy of the body, for what is long or partial. */
typedef struct Spilled {
    Value v[MAX_REDS], at[MAX_REDS];
} Spilled;

static Value lane_slot(Emitter *e, Value array, LLVMTypeRef type, Value lane) {
    return emit_gep(e->b, type, array, lane);
}

static LLVMTypeRef slot_type(Emitter *e, const Inst *red) {
    const SType type = acc_type(e, red);
    return type == S_b ? e->type.i8 : emit_scalar(e, type);
}

static void spill_acc(Emitter *e, const Inst *red, const Spilled *to, int r, Value lane, Acc acc) {
    const LLVMTypeRef type = slot_type(e, red);
    if (type == e->type.i8) acc.v = LLVMBuildZExt(e->b, acc.v, LLVMVectorType(type, (unsigned)e->lanes), "");
    LLVMSetAlignment(LLVMBuildStore(e->b, acc.v, lane_slot(e, to->v[r], type, lane)), (unsigned)e->lanes);
    if (acc.at) LLVMSetAlignment(LLVMBuildStore(e->b, acc.at, lane_slot(e, to->at[r], e->type.i64, lane)), 8);
}

static Acc reload_acc(Emitter *e, const Inst *red, const Spilled *from, int r, Value lane) {
    const LLVMTypeRef type = slot_type(e, red), vector = LLVMVectorType(type, (unsigned)e->lanes);
    Acc acc = {LLVMBuildLoad2(e->b, vector, lane_slot(e, from->v[r], type, lane), ""), NULL};
    LLVMSetAlignment(acc.v, (unsigned)e->lanes);
    if (type == e->type.i8) acc.v = LLVMBuildTrunc(e->b, acc.v, emit_vector(e, S_b), "");
    if (!positional(red)) return acc;
    acc.at = LLVMBuildLoad2(e->b, emit_vector(e, S_i64), lane_slot(e, from->at[r], e->type.i64, lane), "");
    LLVMSetAlignment(acc.at, 8);
    return acc;
}

typedef enum Lanes {
    LANES_whole,
    LANES_some,
    LANES_either
} Lanes; /* either: a masked body that knows when all exist */

static void memory_loop(Emitter *e, const Reds *reds, const Spilled *spilled, Value from, Value end, Lanes lanes) {
    Loop loop;
    emit_loop_begin(e, &loop, from, end);
    emit_loop_body(e, &loop);
    set_L(e, loop.i, lanes == LANES_whole ? NULL : end);
    if (lanes == LANES_either) mark_full(e, loop.i, end);
    emit_prefetch(e, 0);
    emit_lockstep(e);
    const Value lane = LLVMBuildAnd(e->b, loop.i, emit_const(e, LANES_L - 1), "");
    for (int r = 0; r < reds->n; r++) {
        const Acc acc = reload_acc(e, reds->inst[r], spilled, r, lane);
        spill_acc(e, reds->inst[r], spilled, r, lane, red_step(e, reds->inst[r], acc));
    }
    emit_loop_end(e, &loop, e->lanes, NULL);
}

static void rest_in_memory(Emitter *e, const Reds *reds, Value from, Value end, Lanes lanes, LaneSums *parts) {
    Spilled spilled;
    for (int r = 0; r < reds->n; r++) {
        spilled.v[r] = emit_entry_alloca(e, slot_type(e, reds->inst[r]), LANES_L, 64);
        spilled.at[r] = positional(reds->inst[r]) ? emit_entry_alloca(e, e->type.i64, LANES_L, 64) : NULL;
        for (int p = 0; p < parts_of(e); p++)
            spill_acc(e, reds->inst[r], &spilled, r, emit_const(e, (int64_t)p * e->lanes), parts->at[r][p]);
    }
    memory_loop(e, reds, &spilled, from, end, lanes);
    for (int r = 0; r < reds->n; r++)
        for (int p = 0; p < parts_of(e); p++)
            parts->at[r][p] = reload_acc(e, reds->inst[r], &spilled, r, emit_const(e, (int64_t)p * e->lanes));
}

/* One chunk [from, end) of L; `plain` is its length where known, else -1. Chunks begin at multiples
 * of 64. */
static void chunk(Emitter *e, const Reds *reds, Value from, Value end, int64_t plain, Acc *out) {
    LaneSums parts;
    for (int r = 0; r < reds->n; r++)
        for (int p = 0; p < parts_of(e); p++) parts.at[r][p] = red_identity(e, reds->inst[r], true);
    const int rest = plain < 0 ? -1 : (int)(plain % LANES_L);
    if (e->shape->phase[e->phase].strategy == STRATEGY_memory) {
        rest_in_memory(e, reds, from, end, plain >= 0 && plain % e->lanes == 0 ? LANES_whole : LANES_either, &parts);
    } else {
        if (plain < 0 || plain >= LANES_L) from = groups_in_registers(e, reds, from, end, &parts);
        if (rest > 0) rest_in_registers(e, reds, from, end, rest, &parts);
        if (rest < 0) rest_in_memory(e, reds, from, end, LANES_some, &parts);
    }
    leave_L(e);
    for (int r = 0; r < reds->n; r++) out[r] = red_tree(e, reds->inst[r], parts.at[r], parts_of(e));
}

/* More than one chunk, or a length known at run time. Ordered sums go through fold states; `out`
 * also carries the last chunk's value, which stands alone where there is only one chunk. */
static void chunks(Emitter *e, const Reds *reds, Value total, int64_t plain, Acc *out) {
    Value state[MAX_REDS];
    Acc running[MAX_REDS], one[MAX_REDS];
    for (int r = 0; r < reds->n; r++) {
        state[r] = red_is_ordered(e->nest, reds->inst[r]) ? fold_new(e, reds->inst[r]) : NULL;
        if (state[r]) fold_reset(e, state[r]);
        running[r] = red_identity(e, reds->inst[r], true);
    }
    Loop loop;
    emit_loop_begin(e, &loop, emit_const(e, 0), total);
    for (int r = 0; r < reds->n; r++) carry(e, &loop, &running[r]);
    emit_loop_body(e, &loop);
    const bool whole = plain >= 0 && plain % CHUNK_L == 0;
    Value end = emit_add(e, loop.i, CHUNK_L);
    if (!whole) end = emit_least(e, end, total);
    chunk(e, reds, loop.i, end, whole ? CHUNK_L : plain >= 0 && plain % LANES_L == 0 ? LANES_L * 16 : -1, one);
    Value next[COUNT_OF(loop.carried)];
    int n = 0;
    for (int r = 0; r < reds->n; r++) {
        if (state[r]) fold_push(e, reds->inst[r], state[r], emit_first_lane(e, one[r].v));
        push_next(next, &n, state[r] ? one[r] : red_join(e, reds->inst[r], running[r], one[r]));
    }
    emit_loop_end(e, &loop, CHUNK_L, next);
    const Value single = LLVMBuildICmp(e->b, LLVMIntSLE, total, emit_const(e, CHUNK_L), "");
    for (int r = 0; r < reds->n; r++) {
        out[r] = running[r];
        if (!state[r]) continue;
        const Value folded = emit_splat(e, fold_finish(e, reds->inst[r], state[r]));
        out[r].v = LLVMBuildSelect(e->b, single, running[r].v, folded, "");
    }
}

static void reduce_L(Emitter *e, const Reds *reds, Acc *out) {
    const int64_t plain = shape_L_total(e->shape);
    const Value total = emit_L_total(e);
    if (plain >= 0 && plain <= CHUNK_L)
        chunk(e, reds, emit_const(e, 0), total, plain, out);
    else
        chunks(e, reds, total, plain, out);
}

/* What the accumulators of a level start from. A single chunk's fma chain may be -0 and stands as
 * it is: -0 is then the start, because -0 + x is x for every x. */
Acc red_start(Emitter *e, const Inst *red, int level, Value total) {
    Acc acc = red_identity(e, red, true);
    if (level == 0 || red->prim != RED_dot || !float_acc(e, red)) return acc;
    const Value minus = emit_splat(e, LLVMConstReal(emit_scalar(e, acc_type(e, red)), -0.0));
    const Value others = emit_add(e, total, -1); /* unsigned: no rows at all are not a single chunk */
    const Value single = LLVMBuildICmp(e->b, LLVMIntULT, others, emit_const(e, order_S_elements(level)), "");
    acc.v = LLVMBuildSelect(e->b, single, minus, acc.v, "");
    return acc;
}

static void one_row(Emitter *e, const Reds *reds, Columns *acc) {
    if (shape_is_rows(e->shape)) {
        Acc value[MAX_REDS];
        reduce_L(e, reds, value);
        for (int r = 0; r < reds->n; r++) acc->at[r][0] = red_join(e, reds->inst[r], acc->at[r][0], value[r]);
        return;
    }
    for (int c = 0; c < e->side.n; c++) {
        emit_use_context(e, c);
        emit_forget_inner(e);
    }
    emit_lockstep(e);
    for (int c = 0; c < e->side.n; c++) {
        emit_use_context(e, c);
        for (int r = 0; r < reds->n; r++) acc->at[r][c] = red_step(e, reds->inst[r], acc->at[r][c]);
        emit_forget_inner(e);
    }
}

/* Rows [from, to) as one chunk of `level`, whose parts are chunks of the level below. */
static void reduce_S(Emitter *e, const Reds *reds, int level, Value from, Value to, Value total, Columns *out) {
    Columns acc;
    for (int r = 0; r < reds->n; r++)
        for (int c = 0; c < e->side.n; c++) acc.at[r][c] = red_start(e, reds->inst[r], level, total);
    Loop loop;
    emit_loop_begin(e, &loop, from, to);
    for (int r = 0; r < reds->n; r++)
        for (int c = 0; c < e->side.n; c++) carry(e, &loop, &acc.at[r][c]);
    *out = acc;
    emit_loop_body(e, &loop);
    if (level == 0) {
        emit_set_S(e, loop.i);
        one_row(e, reds, &acc);
    } else {
        Columns part;
        const Value end = emit_least(e, emit_add(e, loop.i, order_S_elements(level)), to);
        reduce_S(e, reds, level - 1, loop.i, end, total, &part);
        for (int r = 0; r < reds->n; r++)
            for (int c = 0; c < e->side.n; c++) acc.at[r][c] = red_join(e, reds->inst[r], acc.at[r][c], part.at[r][c]);
    }
    Value next[COUNT_OF(loop.carried)];
    int n = 0;
    for (int r = 0; r < reds->n; r++)
        for (int c = 0; c < e->side.n; c++) push_next(next, &n, acc.at[r][c]);
    emit_loop_end(e, &loop, order_S_elements(level), next);
}

/* What the phase leaves: the value or the position; of no elements at all position 0. */
static Value outcome(Emitter *e, Acc acc) {
    if (!acc.at) return acc.v;
    const Value none = emit_splat(e, emit_const(e, INT64_MAX));
    const Value empty = LLVMBuildICmp(e->b, LLVMIntEQ, acc.at, none, "");
    return LLVMBuildSelect(e->b, empty, emit_zero(LLVMTypeOf(none)), acc.at, "");
}

void emit_reduce_phase(Emitter *e, const Phase *phase) {
    Reds reds = {.n = 0};
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        if (e->nest->insts[i].op != LI_reduce) continue;
        reds.id[reds.n] = i;
        reds.inst[reds.n++] = &e->nest->insts[i];
    }
    Columns result;
    if (e->shape->n_s_groups > 0 || !shape_is_rows(e->shape)) {
        const Value total = emit_S_total(e);
        reduce_S(e, &reds, shape_S_levels(e->shape, e->nest, phase) - 1, emit_const(e, 0), total, total, &result);
    } else {
        Acc value[MAX_REDS];
        reduce_L(e, &reds, value);
        for (int r = 0; r < reds.n; r++) result.at[r][0] = value[r];
    }
    for (int c = 0; c < e->side.n; c++) {
        emit_use_context(e, c);
        for (int r = 0; r < reds.n; r++) e->side.memo[reds.id[r]] = outcome(e, result.at[r][c]);
    }
}
