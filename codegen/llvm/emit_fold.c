/* emit_fold.c: order L over chunk sums, when there may be more than one chunk.
 *
 * A state on the stack holds, per level, how many values came and 64 lane accumulators: pushing a
 * value adds it to lane count mod 64; when a value arrives after 1,024, the level's tree goes up
 * one level first. Finishing takes the trees upwards until one value is left. Four levels hold 2^50
 * elements. Two internal functions per kind and type:
 *
 *   state: i64 count[4], padding to 64 bytes, T lane[4][64] */
#include "codegen/llvm/emit.h"

#include <stdio.h>

enum { FOLD_LANES_AT = 64, FOLD_LEVEL_BYTES = LANES_L * 8 };

static LLVMTypeRef fold_type(Emitter *e, const Inst *red) { return emit_scalar(e, e->nest->insts[red->a].type); }

Value fold_new(Emitter *e, const Inst *red) {
    return emit_entry_alloca(e, e->type.i8, FOLD_LANES_AT + L_LEVELS * FOLD_LEVEL_BYTES, 64);
}

void fold_reset(Emitter *e, Value state) {
    const LLVMTypeRef counts = LLVMVectorType(e->type.i64, L_LEVELS);
    LLVMSetAlignment(LLVMBuildStore(e->b, emit_zero(counts), state), 64);
}

static Value byte_at(Emitter *e, Value state, Value offset) { return emit_gep(e->b, e->type.i8, state, offset); }

static Value count_slot(Emitter *e, Value state, Value level) { return emit_gep(e->b, e->type.i64, state, level); }

static Value lanes_slot(Emitter *e, Value state, Value level) {
    const Value offset = LLVMBuildMul(e->b, level, emit_const(e, FOLD_LEVEL_BYTES), "");
    return byte_at(e, state, emit_add(e, offset, FOLD_LANES_AT));
}

static Value part_slot(Emitter *e, const Inst *red, Value lanes, int part) {
    const Value first = emit_const(e, (int64_t)part * e->lanes);
    return emit_gep(e->b, fold_type(e, red), lanes, first);
}

static Value tree_of(Emitter *e, const Inst *red, Value lanes) {
    Acc part[LANES_L];
    const int n = LANES_L / e->lanes;
    const LLVMTypeRef vector = LLVMVectorType(fold_type(e, red), (unsigned)e->lanes);
    for (int p = 0; p < n; p++) {
        part[p] = (Acc){LLVMBuildLoad2(e->b, vector, part_slot(e, red, lanes, p), ""), NULL};
        LLVMSetAlignment(part[p].v, 4);
    }
    return emit_first_lane(e, red_tree(e, red, part, n).v);
}

static void clear_lanes(Emitter *e, const Inst *red, Value lanes) {
    const Value identity = red_identity(e, red, true).v;
    for (int p = 0; p < LANES_L / e->lanes; p++)
        LLVMSetAlignment(LLVMBuildStore(e->b, identity, part_slot(e, red, lanes, p)), 4);
}

static Value add_one(Emitter *e, const Inst *red, Value sum, Value v) {
    return red->prim == RED_prod ? LLVMBuildFMul(e->b, sum, v, "") : LLVMBuildFAdd(e->b, sum, v, "");
}

static LLVMBasicBlockRef fold_block(Emitter *e, Value f, const char *name) {
    return LLVMAppendBasicBlockInContext(e->unit.context, f, name);
}

/* void push(ptr state, i64 level, T v) */
static void write_push(Emitter *e, const Inst *red, Value f) {
    LLVMBasicBlockRef entry = fold_block(e, f, "entry"), head = fold_block(e, f, "head");
    LLVMBasicBlockRef first = fold_block(e, f, "first"), add = fold_block(e, f, "add"), done = fold_block(e, f, "done");
    const Value state = LLVMGetParam(f, 0);
    Value from = LLVMGetParam(f, 1), pushed = LLVMGetParam(f, 2);
    LLVMPositionBuilderAtEnd(e->b, entry);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    const Value level = LLVMBuildPhi(e->b, e->type.i64, "level"), v = LLVMBuildPhi(e->b, fold_type(e, red), "v");
    const Value slot = count_slot(e, state, level), lanes = lanes_slot(e, state, level);
    const Value count = LLVMBuildLoad2(e->b, e->type.i64, slot, "count");
    const Value within = LLVMBuildAnd(e->b, count, emit_const(e, CHUNK_L - 1), "");
    const Value starts = LLVMBuildICmp(e->b, LLVMIntEQ, within, emit_const(e, 0), "");
    LLVMBuildCondBr(e->b, starts, first, add);
    LLVMPositionBuilderAtEnd(e->b, first);
    Value old = tree_of(e, red, lanes), none = LLVMGetPoison(fold_type(e, red));
    clear_lanes(e, red, lanes);
    LLVMBuildBr(e->b, add);
    LLVMPositionBuilderAtEnd(e->b, add);
    Value up = LLVMBuildPhi(e->b, fold_type(e, red), "up");
    LLVMAddIncoming(up, &old, &first, 1);
    LLVMAddIncoming(up, &none, &head, 1);
    const Value index = LLVMBuildAnd(e->b, count, emit_const(e, LANES_L - 1), "");
    const Value lane = emit_gep(e->b, fold_type(e, red), lanes, index);
    const Value sum = LLVMBuildLoad2(e->b, fold_type(e, red), lane, "");
    LLVMBuildStore(e->b, add_one(e, red, sum, v), lane);
    LLVMBuildStore(e->b, emit_add(e, count, 1), slot);
    const Value some = LLVMBuildICmp(e->b, LLVMIntSGT, count, emit_const(e, 0), "");
    Value above = emit_add(e, level, 1);
    LLVMBuildCondBr(e->b, LLVMBuildAnd(e->b, starts, some, ""), head, done);
    LLVMAddIncoming(level, &from, &entry, 1), LLVMAddIncoming(level, &above, &add, 1);
    LLVMAddIncoming(v, &pushed, &entry, 1), LLVMAddIncoming(v, &up, &add, 1);
    LLVMPositionBuilderAtEnd(e->b, done);
    LLVMBuildRetVoid(e->b);
}

static Value push_function(Emitter *e, const Inst *red);

/* T finish(ptr state) */
static void write_finish(Emitter *e, const Inst *red, Value f) {
    const Value push = push_function(e, red), state = LLVMGetParam(f, 0);
    LLVMBasicBlockRef entry = fold_block(e, f, "entry"), head = fold_block(e, f, "head");
    LLVMBasicBlockRef up = fold_block(e, f, "up"), done = fold_block(e, f, "done");
    LLVMPositionBuilderAtEnd(e->b, entry);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    const Value level = LLVMBuildPhi(e->b, e->type.i64, "level");
    const Value count = LLVMBuildLoad2(e->b, e->type.i64, count_slot(e, state, level), "");
    const Value sum = tree_of(e, red, lanes_slot(e, state, level));
    const Value last = LLVMBuildICmp(e->b, LLVMIntSLE, count, emit_const(e, CHUNK_L), "");
    LLVMBuildCondBr(e->b, last, done, up);
    LLVMPositionBuilderAtEnd(e->b, up);
    Value zero = emit_const(e, 0), above = emit_add(e, level, 1);
    Value args[3] = {state, above, sum};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(push), push, args, 3, "");
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(level, &zero, &entry, 1), LLVMAddIncoming(level, &above, &up, 1);
    LLVMPositionBuilderAtEnd(e->b, done);
    LLVMBuildRet(e->b, sum);
}

/* One internal function per kind and type, written on first use. */
static Value fold_function(Emitter *e, const Inst *red, const char *verb, LLVMTypeRef type,
                           void (*write)(Emitter *, const Inst *, Value)) {
    char name[64];
    const SType of = e->nest->insts[red->a].type;
    snprintf(name, sizeof name, "fold_%s_%s_%s", verb, red->prim == RED_prod ? "prod" : "sum", stype_name(of));
    Value f = LLVMGetNamedFunction(e->unit.module, name);
    if (f) return f;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->b);
    f = LLVMAddFunction(e->unit.module, name, type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    write(e, red, f);
    LLVMPositionBuilderAtEnd(e->b, back);
    return f;
}

static Value push_function(Emitter *e, const Inst *red) {
    LLVMTypeRef args[3] = {e->type.ptr, e->type.i64, fold_type(e, red)};
    const LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->unit.context), args, 3, 0);
    return fold_function(e, red, "push", type, write_push);
}

void fold_push(Emitter *e, const Inst *red, Value state, Value scalar) {
    const Value push = push_function(e, red);
    Value args[3] = {state, emit_const(e, 0), scalar};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(push), push, args, 3, "");
}

Value fold_finish(Emitter *e, const Inst *red, Value state) {
    LLVMTypeRef args[1] = {e->type.ptr};
    const LLVMTypeRef type = LLVMFunctionType(fold_type(e, red), args, 1, 0);
    const Value finish = fold_function(e, red, "finish", type, write_finish);
    return LLVMBuildCall2(e->b, type, finish, &state, 1, "");
}
