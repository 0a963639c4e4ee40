/* emit_memory.c: loads, stores, gathers and their addresses.
 *
 * The lanes of an access are contiguous (one vector load), all equal (a scalar load, splat) or
 * spread (a gather), by the coefficient of the group that the lanes run along. The outer dims' part
 * of an address is computed once per outer index (emit_places), so that loops over inner dims add
 * only their own part. Narrow types are widened by the bitcode's conversions: a bf16 instruction of
 * the hardware would flush denormals [semantics B4].
 *
 * Copies of a phase cost compile time, so one with a library function in it is emitted once, for whole and partial
 * vectors alike: loads and stores branch on "all lanes exist" (with masked loads alone exp over 25 MB took 4.2 ms
 * instead of 1.1 on Zen 5). Short bodies get unrolled whole vectors and a masked tail. */
#include "codegen/llvm/emit.h"

enum { COMMON_DEPTH = 6 };

static LLVMTypeRef memory_type(Emitter *e, DType dtype) {
    switch (dtype) {
    case DT_f64:
        return e->type.f64;
    case DT_f32:
        return e->type.f32;
    case DT_i64:
        return e->type.i64;
    case DT_i32:
        return e->type.i32;
    case DT_f16:
    case DT_bf16:
    case DT_i16:
        return e->type.i16;
    default:
        return e->type.i8;
    }
}

/* Memory lanes to compute lanes, and back. */
static Value widen(Emitter *e, DType dtype, Value v) {
    const LLVMTypeRef want = emit_vector(e, dtype_compute(dtype));
    switch (dtype) {
    case DT_f16:
        return emit_call(e, "sn_load_f16", &v, 1, want);
    case DT_bf16:
        return emit_call(e, "sn_load_bf16", &v, 1, want);
    case DT_i16:
    case DT_i8:
        return LLVMBuildSExt(e->b, v, want, "");
    case DT_u8:
        return LLVMBuildZExt(e->b, v, want, "");
    case DT_bool:
        return LLVMBuildICmp(e->b, LLVMIntNE, v, emit_zero(LLVMTypeOf(v)), "");
    default:
        return v;
    }
}

static Value narrow(Emitter *e, DType dtype, Value v) {
    const LLVMTypeRef want = LLVMVectorType(memory_type(e, dtype), (unsigned)e->lanes);
    switch (dtype) {
    case DT_f16:
        return emit_call(e, "sn_store_f16", &v, 1, want);
    case DT_bf16:
        return emit_call(e, "sn_store_bf16", &v, 1, want);
    case DT_i16:
    case DT_i8:
    case DT_u8:
        return LLVMBuildTrunc(e->b, v, want, "");
    case DT_bool:
        return LLVMBuildZExt(e->b, v, want, "");
    default:
        return v;
    }
}

static Value times_index(Emitter *e, int64_t coefficient, Value index) {
    if (coefficient == 1) return index;
    return LLVMBuildMul(e->b, emit_int(e, coefficient), index, "");
}

static Value plus_term(Emitter *e, Value sum, Value term) { return sum ? LLVMBuildAdd(e->b, sum, term, "") : term; }

/* Offset and the scalar parts of groups first..last-1; NULL when that is nothing. */
static Value scalar_part(Emitter *e, const Affine *at, int first, int last, Value sum) {
    for (int g = first; g < last; g++) {
        const int64_t coefficient = at->coef[e->shape->group[g].coef];
        if (coefficient == 0 || e->frame.each[g]) continue;
        sum = plus_term(e, sum, times_index(e, coefficient, e->frame.base[g]));
    }
    return sum;
}

/* Per-lane parts: groups with an index per lane. NULL: none. */
static Value lane_part(Emitter *e, const Affine *at) {
    Value sum = NULL;
    for (int g = 0; g < e->shape->n_groups; g++) {
        const int64_t coefficient = at->coef[e->shape->group[g].coef];
        if (coefficient == 0 || !e->frame.each[g]) continue;
        const Value scale = emit_splat(e, emit_int(e, coefficient));
        sum = plus_term(e, sum, LLVMBuildMul(e->b, scale, e->frame.each[g], ""));
    }
    return sum;
}

static Value element_pointer(Emitter *e, LLVMTypeRef type, Value pointer, Value index) {
    return index ? emit_gep(e->b, type, pointer, index) : pointer;
}

static Value buffer(Emitter *e, int b) {
    if (e->call.buf[b]) return e->call.buf[b];
    const Value index = LLVMConstInt(e->type.i64, (unsigned)b, 0);
    const Value slot = emit_gep(e->entry, e->type.ptr, e->call.arg[0], index);
    return e->call.buf[b] = LLVMBuildLoad2(e->entry, e->type.ptr, slot, "");
}

static Value outer_address(Emitter *e, const Inst *inst) {
    const Value offset = inst->at->offset ? emit_int(e, inst->at->offset) : NULL;
    const Value index = scalar_part(e, inst->at, 0, e->shape->n_outer_groups, offset);
    return element_pointer(e, memory_type(e, e->bufs[inst->buf].dtype), buffer(e, inst->buf), index);
}

void emit_places(Emitter *e) {
    for (int i = 0; i < e->nest->n_insts; i++) {
        const Inst *inst = &e->nest->insts[i];
        const bool accesses = inst->op == LI_load || inst->op == LI_store || inst->op == LI_gather;
        if (accesses) e->side.place[i] = outer_address(e, inst);
    }
}

/* Address of lane 0, before per-lane parts. */
static Value address(Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    const Value index = scalar_part(e, inst->at, e->shape->n_outer_groups, e->shape->n_groups, NULL);
    return element_pointer(e, memory_type(e, e->bufs[inst->buf].dtype), e->side.place[i], index);
}

Value emit_next_address(Emitter *e, int i, Value step) {
    const LLVMTypeRef type = memory_type(e, e->bufs[e->nest->insts[i].buf].dtype);
    return emit_gep(e->b, type, address(e, i), step);
}

typedef enum LaneKind { LANES_equal, LANES_next, LANES_spread } LaneKind;

/* Where lane k lies, relative to lane 0; *spread: elements per lane, or NULL when that is not
 * needed. */
static LaneKind lanes_of(Emitter *e, const Affine *at, Value *spread) {
    Value each = lane_part(e, at);
    const int64_t step = e->frame.linear < 0 ? 0 : at->coef[e->shape->group[e->frame.linear].coef];
    if (!each && step == 0) return LANES_equal;
    if (!each && step == 1) return LANES_next;
    if (step != 0) {
        const Value lane = emit_iota(e, e->type.i64);
        each = plus_term(e, each, LLVMBuildMul(e->b, emit_splat(e, emit_int(e, step)), lane, ""));
    }
    *spread = each;
    return LANES_spread;
}

/* Whether lane k lies k steps behind lane 0, by the loop's index alone. */
static bool steps_by(const Emitter *e, const Affine *at, int64_t step) {
    for (int g = 0; g < e->shape->n_groups; g++)
        if (at->coef[e->shape->group[g].coef] && e->frame.each[g]) return false;
    return (e->frame.linear < 0 ? 0 : at->coef[e->shape->group[e->frame.linear].coef]) == step;
}

static Value masked_load(Emitter *e, LLVMTypeRef vector, Value pointer, int align) {
    LLVMTypeRef types[2] = {vector, e->type.ptr};
    Value args[4] = {pointer, LLVMConstInt(e->type.i32, (unsigned)align, 0), e->frame.mask, emit_zero(vector)};
    return emit_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
}

static Value load_whole(Emitter *e, LLVMTypeRef vector, Value pointer, int align) {
    const Value v = LLVMBuildLoad2(e->b, vector, pointer, "");
    LLVMSetAlignment(v, (unsigned)align);
    return v;
}

static bool all_exist(const Emitter *e) { return !e->frame.mask || e->frame.on_full; }

/* Contiguous lanes: whole where they all exist, else masked. */
static Value load_next(Emitter *e, LLVMTypeRef vector, Value pointer, int align) {
    if (all_exist(e)) return load_whole(e, vector, pointer, align);
    return masked_load(e, vector, pointer, align);
}

static Value mask_or_all(Emitter *e) {
    if (e->frame.mask) return e->frame.mask;
    return LLVMConstAllOnes(LLVMVectorType(e->type.i1, (unsigned)e->lanes));
}

static Value gather_lanes(Emitter *e, LLVMTypeRef vector, Value pointers, int align) {
    LLVMTypeRef types[2] = {vector, LLVMTypeOf(pointers)};
    Value args[4] = {pointers, LLVMConstInt(e->type.i32, (unsigned)align, 0), mask_or_all(e), emit_zero(vector)};
    return emit_intrinsic(e, "llvm.masked.gather", types, 2, args, 4);
}

static Value turned_round(Emitter *e, Value v) {
    Value lanes[64];
    for (int k = 0; k < e->lanes; k++) lanes[k] = LLVMConstInt(e->type.i32, (unsigned)(e->lanes - 1 - k), 0);
    return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(lanes, (unsigned)e->lanes),
                                  "");
}

/* Lane 0 is the last one in memory. */
static Value load_back(Emitter *e, LLVMTypeRef type, Value pointer, int align) {
    const LLVMTypeRef vector = LLVMVectorType(type, (unsigned)e->lanes);
    const Value first = element_pointer(e, type, pointer, LLVMConstInt(e->type.i64, (uint64_t)(1 - e->lanes), 1));
    if (all_exist(e)) return turned_round(e, load_whole(e, vector, first, align));
    LLVMTypeRef types[2] = {vector, e->type.ptr};
    Value args[4] = {first, LLVMConstInt(e->type.i32, (unsigned)align, 0), turned_round(e, e->frame.mask),
                     emit_zero(vector)};
    return turned_round(e, emit_intrinsic(e, "llvm.masked.load", types, 2, args, 4));
}

/* The lanes of access i, lane 0 at `pointer` before per-lane parts. */
static Value load_lanes(Emitter *e, int i, Value pointer) {
    const Inst *inst = &e->nest->insts[i];
    const DType dtype = e->bufs[inst->buf].dtype;
    const LLVMTypeRef type = memory_type(e, dtype);
    const LLVMTypeRef vector = LLVMVectorType(type, (unsigned)e->lanes);
    const int align = dtype_bytes(dtype);
    Value spread = NULL, v;
    const LaneKind kind = lanes_of(e, inst->at, &spread);
    if (kind == LANES_equal)
        v = emit_splat(e, LLVMBuildLoad2(e->b, type, pointer, ""));
    else if (kind == LANES_next)
        v = load_next(e, vector, pointer, align);
    else if (steps_by(e, inst->at, -1))
        v = load_back(e, type, pointer, align);
    else
        v = gather_lanes(e, vector, element_pointer(e, type, pointer, spread), align);
    return widen(e, dtype, v);
}

Value emit_load(Emitter *e, int i) { return load_lanes(e, i, address(e, i)); }

static bool loads_next(const Emitter *e, const Inst *inst) { return inst->op == LI_load && steps_by(e, inst->at, 1); }

/* One branch for all loads: masked ones are slower. */
void emit_loads(Emitter *e, const bool *needed) {
    const int n = e->nest->n_insts;
    LLVMBasicBlockRef from[2], loaded = emit_block(e, "loaded");
    Value *values[2];
    from[0] = emit_block(e, "whole"), from[1] = emit_block(e, "part");
    LLVMBuildCondBr(e->b, e->frame.full, from[0], from[1]);
    for (int k = 0; k < 2; k++) {
        values[k] = ARENA_ARRAY(e->arena, Value, n * MAX_UNROLL + 1);
        LLVMPositionBuilderAtEnd(e->b, from[k]);
        e->frame.on_full = k == 0;
        for (int i = 0; i < n * e->side.n; i++) {
            emit_use_context(e, i / n);
            const Inst *inst = &e->nest->insts[i % n];
            if (!needed[i % n] || e->side.memo[i % n] || !loads_next(e, inst)) continue;
            const LLVMTypeRef type = memory_type(e, e->bufs[inst->buf].dtype);
            values[k][i] = load_next(e, LLVMVectorType(type, (unsigned)e->lanes), address(e, i % n),
                                     dtype_bytes(e->bufs[inst->buf].dtype));
        }
        e->frame.on_full = false;
        LLVMBuildBr(e->b, loaded);
    }
    LLVMPositionBuilderAtEnd(e->b, loaded);
    for (int i = 0; i < n * e->side.n; i++) {
        if (!values[0][i]) continue;
        Value both[2] = {values[0][i], values[1][i]};
        values[0][i] = LLVMBuildPhi(e->b, LLVMTypeOf(both[0]), "");
        LLVMAddIncoming(values[0][i], both, from, 2);
    }
    for (int i = 0; i < n * e->side.n; i++) {
        if (!values[0][i]) continue;
        emit_use_context(e, i / n);
        e->side.memo[i % n] = widen(e, e->bufs[e->nest->insts[i % n].buf].dtype, values[0][i]);
        if (e->shape->inst[i % n].kept_in == e->phase) emit_row_keep(e, i % n);
    }
}

static void store_masked(Emitter *e, const char *how, Value v, Value pointer, Value mask, int align) {
    LLVMTypeRef types[2] = {LLVMTypeOf(v), LLVMTypeOf(pointer)};
    Value args[4] = {v, pointer, LLVMConstInt(e->type.i32, (unsigned)align, 0), mask};
    emit_intrinsic(e, how, types, 2, args, 4);
}

/* The first lane that is set; none: the last one. */
static Value first_set(Emitter *e, Value mask) {
    const LLVMTypeRef bits_type = LLVMIntTypeInContext(e->unit.context, (unsigned)e->lanes);
    LLVMTypeRef types[1] = {bits_type};
    const Value last = LLVMConstInt(bits_type, 1ull << (e->lanes - 1), 0);
    Value args[2] = {LLVMBuildOr(e->b, LLVMBuildBitCast(e->b, mask, bits_type, ""), last, ""),
                     LLVMConstInt(e->type.i1, 1, 0)};
    const Value lane = emit_intrinsic(e, "llvm.cttz", types, 1, args, 2);
    return LLVMBuildZExt(e->b, lane, e->type.i64, "");
}

/* One element for all lanes, from one that exists: the others may hold anything (of a gather). */
static void store_first(Emitter *e, LLVMTypeRef type, Value v, Value pointer, int align) {
    if (all_exist(e)) {
        LLVMBuildStore(e->b, emit_first_lane(e, v), pointer);
        return;
    }
    const Value lane = first_set(e, e->frame.mask), element = LLVMBuildExtractElement(e->b, v, lane, ""),
                exists = LLVMBuildExtractElement(e->b, e->frame.mask, lane, "");
    const LLVMTypeRef one = LLVMVectorType(type, 1);
    store_masked(e, "llvm.masked.store", LLVMBuildBitCast(e->b, element, one, ""), pointer,
                 LLVMBuildBitCast(e->b, exists, LLVMVectorType(e->type.i1, 1), ""), align);
}

static void store_whole(Emitter *e, Value v, Value pointer, int align) {
    LLVMSetAlignment(LLVMBuildStore(e->b, v, pointer), (unsigned)align);
}

/* The conversion to memory happens once, though stores may be written twice (whole and masked). */
void emit_store_value(Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    e->side.memo[i] = narrow(e, e->bufs[inst->buf].dtype, emit_value(e, inst->a));
}

void emit_store(Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    const DType dtype = e->bufs[inst->buf].dtype;
    const LLVMTypeRef type = memory_type(e, dtype);
    const Value v = e->side.memo[i], pointer = address(e, i);
    Value spread = NULL;
    const LaneKind kind = lanes_of(e, inst->at, &spread);
    if (kind == LANES_equal)
        store_first(e, type, v, pointer, dtype_bytes(dtype));
    else if (kind == LANES_next && e->stream.past && emit_may_stream(e, i))
        emit_stream_store(e, i, v, pointer);
    else if (kind == LANES_next && all_exist(e))
        store_whole(e, v, pointer, dtype_bytes(dtype));
    else if (kind == LANES_next)
        store_masked(e, "llvm.masked.store", v, pointer, e->frame.mask, dtype_bytes(dtype));
    else
        store_masked(e, "llvm.masked.scatter", v, element_pointer(e, type, pointer, spread), mask_or_all(e),
                     dtype_bytes(dtype));
}

Value emit_index(Emitter *e, const Affine *at) {
    const Value scalar = scalar_part(e, at, 0, e->shape->n_groups, emit_int(e, at->offset));
    Value v = emit_splat(e, scalar), spread = NULL;
    const LaneKind kind = lanes_of(e, at, &spread);
    if (kind == LANES_next) spread = emit_iota(e, e->type.i64);
    return spread ? LLVMBuildAdd(e->b, v, spread, "") : v;
}

/* The block that reports gather i's index and returns. */
static void miss(Emitter *e, int i, Value index, Value bound) {
    LLVMBuildStore(e->b, LLVMConstInt(e->type.i32, (unsigned)i, 0), e->call.arg[4]);
    const Value values[2] = {index, bound};
    const size_t offsets[2] = {offsetof(NestError, index), offsetof(NestError, bound)};
    for (int k = 0; k < 2; k++) {
        const Value offset = LLVMConstInt(e->type.i64, offsets[k], 0);
        LLVMBuildStore(e->b, values[k], element_pointer(e, e->type.i8, e->call.arg[4], offset));
    }
    LLVMBuildRetVoid(e->b);
}

static Value any_lane(Emitter *e, Value mask) {
    const LLVMTypeRef bits_type = LLVMIntTypeInContext(e->unit.context, (unsigned)e->lanes);
    return LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildBitCast(e->b, mask, bits_type, ""), emit_zero(bits_type), "");
}

/* Of lanes, or of the one index that they have in common. */
typedef struct GatherIndex {
    Value given, wrapped, bound;
    bool common;
} GatherIndex;

/* Continues where every lane that exists is inside [0, bound). */
static void check_bounds(Emitter *e, int i, const GatherIndex *g) {
    const Value bound = g->common ? g->bound : emit_splat(e, g->bound);
    Value bad = LLVMBuildICmp(e->b, LLVMIntUGE, g->wrapped, bound, "");
    if (e->frame.mask && !g->common) bad = LLVMBuildAnd(e->b, bad, e->frame.mask, "");
    LLVMBasicBlockRef wrong = LLVMAppendBasicBlockInContext(e->unit.context, e->call.function, "miss");
    LLVMBasicBlockRef right = LLVMAppendBasicBlockInContext(e->unit.context, e->call.function, "hit");
    LLVMBuildCondBr(e->b, g->common ? bad : any_lane(e, bad), wrong, right);
    LLVMPositionBuilderAtEnd(e->b, wrong);
    miss(e, i, g->common ? g->given : LLVMBuildExtractElement(e->b, g->given, first_set(e, bad), ""), g->bound);
    LLVMPositionBuilderAtEnd(e->b, right);
}

/* Whether all lanes of instruction i have one value, as far as `depth` operands back tell. */
static bool is_common(const Emitter *e, int i, int depth) {
    const Inst *const inst = i < 0 ? NULL : &e->nest->insts[i];
    if (!inst || inst->op == LI_const || inst->op == LI_param) return true;
    if (inst->op == LI_cast || inst->op == LI_prim)
        return depth > 0 && is_common(e, inst->a, depth - 1) && is_common(e, inst->b, depth - 1) &&
               is_common(e, inst->c, depth - 1);
    return (inst->op == LI_load || inst->op == LI_index) && steps_by(e, inst->at, 0);
}

static GatherIndex gather_index(Emitter *e, int i) {
    const Inst *const inst = &e->nest->insts[i];
    GatherIndex g = {.given = emit_value(e, inst->a), .bound = emit_int(e, inst->bound)};
    g.common = is_common(e, inst->a, COMMON_DEPTH);
    if (g.common) g.given = emit_first_lane(e, g.given);
    g.wrapped = g.given;
    if (inst->wrap_negative) {
        const Value negative = LLVMBuildICmp(e->b, LLVMIntSLT, g.given, emit_zero(LLVMTypeOf(g.given)), "");
        const Value up = LLVMBuildAdd(e->b, g.given, g.common ? g.bound : emit_splat(e, g.bound), "");
        g.wrapped = LLVMBuildSelect(e->b, negative, up, g.given, "");
    }
    return g;
}

Value emit_gather(Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    const DType dtype = e->bufs[inst->buf].dtype;
    const LLVMTypeRef type = memory_type(e, dtype);
    const GatherIndex g = gather_index(e, i);
    check_bounds(e, i, &g);
    const Value scale = emit_int(e, inst->scale);
    if (g.common) /* a row that data names, whose elements the lanes run along: loaded as any other */
        return load_lanes(e, i, element_pointer(e, type, address(e, i), LLVMBuildMul(e->b, g.wrapped, scale, "")));
    Value offset = LLVMBuildMul(e->b, g.wrapped, emit_splat(e, scale), "");
    Value spread = NULL;
    const LaneKind kind = lanes_of(e, inst->at, &spread);
    if (kind == LANES_next) spread = emit_iota(e, e->type.i64);
    if (spread) offset = LLVMBuildAdd(e->b, offset, spread, "");
    const LLVMTypeRef vector = LLVMVectorType(type, (unsigned)e->lanes);
    const Value v = gather_lanes(e, vector, element_pointer(e, type, address(e, i), offset), dtype_bytes(dtype));
    return widen(e, dtype, v);
}

/* Row buffers: values of a row that later phases need again, on the stack. Bools are bytes there. */
static Value row_slot(Emitter *e, int i, LLVMTypeRef type) {
    return element_pointer(e, type, e->row_buffer[i], e->frame.row);
}

static LLVMTypeRef row_type(Emitter *e, int i) {
    const SType type = e->nest->insts[i].type;
    return type == S_b ? e->type.i8 : emit_scalar(e, type);
}

/* A row is aligned as its elements are: the loop over a ragged row may begin anywhere. */
static unsigned row_align(Emitter *e, int i) { return (unsigned)stype_bytes((SType)e->nest->insts[i].type); }

void emit_row_keep(Emitter *e, int i) {
    Value v = e->side.memo[i];
    const LLVMTypeRef type = row_type(e, i);
    if (e->nest->insts[i].type == S_b) v = LLVMBuildZExt(e->b, v, LLVMVectorType(type, (unsigned)e->lanes), "");
    LLVMSetAlignment(LLVMBuildStore(e->b, v, row_slot(e, i, type)), row_align(e, i));
}

Value emit_row_read(Emitter *e, int i) {
    const LLVMTypeRef type = row_type(e, i);
    const LLVMTypeRef vector = LLVMVectorType(type, (unsigned)e->lanes);
    const Value v = LLVMBuildLoad2(e->b, vector, row_slot(e, i, type), "");
    LLVMSetAlignment(v, row_align(e, i));
    if (e->nest->insts[i].type != S_b) return v;
    return LLVMBuildTrunc(e->b, v, emit_vector(e, S_b), "");
}
