/* emit_value.c: instructions to vector values. A value is emitted on first need at the builder's
 * place and remembered for the frame; emit_forget_inner drops what depends on the inner dims when
 * the frame moves. One-instruction primitives come from scalar.def's OP and CMP columns; some of
 * the CALL rows have an exact instruction too (native[]); all others call the bitcode function of
 * their name, the same C that the interpreter's kernels are made of. */
#include "codegen/llvm/emit.h"

#include <stdio.h>

typedef struct PrimCode {
    const char *name;
    int arity;
    bool compare;
    int on_float, on_int; /* opcode or predicate; 0: call the bitcode */
} PrimCode;

#define OP(f, i)              false, LLVM##f, LLVM##i
#define CMP(f, i)             true, LLVMReal##f, LLVMInt##i
#define CALL                  false, 0, 0
#define ROW(name, arity, ...) {name, arity, __VA_ARGS__},
static const PrimCode rows[PRIM_COUNT] = {
#define SCALAR(name, arity, types, result, llvm, bound, doc) ROW(#name, arity, llvm)
#include "ir/scalar.def"
#undef SCALAR
};
#undef OP
#undef CMP
#undef CALL

LLVMTypeRef emit_scalar(Emitter *e, SType type) {
    const LLVMTypeRef types[S_COUNT] = {e->type.f32, e->type.f64, e->type.i32, e->type.i64, e->type.i1};
    return types[type];
}

LLVMTypeRef emit_vector(Emitter *e, SType type) { return LLVMVectorType(emit_scalar(e, type), (unsigned)e->lanes); }

Value emit_zero(LLVMTypeRef type) { return LLVMConstNull(type); }

Value emit_splat(Emitter *e, Value scalar) {
    const LLVMTypeRef vector = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)e->lanes);
    if (LLVMIsConstant(scalar)) {
        Value same[64];
        for (int i = 0; i < e->lanes; i++) same[i] = scalar;
        return LLVMConstVector(same, (unsigned)e->lanes);
    }
    const Value one = LLVMBuildInsertElement(e->b, LLVMGetPoison(vector), scalar, LLVMConstInt(e->type.i64, 0, 0), "");
    const LLVMTypeRef lanes_i32 = LLVMVectorType(e->type.i32, (unsigned)e->lanes);
    return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(vector), emit_zero(lanes_i32), "");
}

Value emit_iota(Emitter *e, LLVMTypeRef element) {
    Value lane[64];
    for (int i = 0; i < e->lanes; i++) lane[i] = LLVMConstInt(element, (unsigned)i, 0);
    return LLVMConstVector(lane, (unsigned)e->lanes);
}

Value emit_first_lane(Emitter *e, Value vector) {
    return LLVMBuildExtractElement(e->b, vector, LLVMConstInt(e->type.i64, 0, 0), "");
}

/* The bitcode has bools as one byte per lane; values here are i1. */
static bool holds_bools(Emitter *e, LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind && LLVMGetElementType(type) == e->type.i1;
}

static Value bool_bytes(Emitter *e, Value v) {
    if (!holds_bools(e, LLVMTypeOf(v))) return v;
    return LLVMBuildZExt(e->b, v, LLVMVectorType(e->type.i8, (unsigned)e->lanes), "");
}

Value emit_call(Emitter *e, const char *name, const Value *operands, int n, LLVMTypeRef result) {
    const Value f = emit_library(e, name);
    if (!f) return LLVMGetPoison(result);
    Value args[16];
    for (int i = 0; i < n; i++) args[i] = bool_bytes(e, operands[i]);
    const Value v = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, (unsigned)n, "");
    return holds_bools(e, result) ? LLVMBuildTrunc(e->b, v, result, "") : v;
}

/* CALL rows with one exact instruction where machine_calls says so. */
static const char *intrinsic_of(int prim) {
    switch (prim) {
    case PRIM_sqrt:
        return "llvm.sqrt";
    case PRIM_floor:
        return "llvm.floor";
    case PRIM_ceil:
        return "llvm.ceil";
    case PRIM_trunc:
        return "llvm.trunc";
    case PRIM_rint:
        return "llvm.roundeven";
    case PRIM_fma:
        return "llvm.fma";
    default:
        return NULL;
    }
}

Value emit_intrinsic(Emitter *e, const char *name, LLVMTypeRef *types, int n_types, Value *args, int n) {
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    const Value f = LLVMGetIntrinsicDeclaration(e->unit.module, id, types, (size_t)n_types);
    const LLVMTypeRef type = LLVMIntrinsicGetType(e->unit.context, id, types, (size_t)n_types);
    return LLVMBuildCall2(e->b, type, f, args, (unsigned)n, "");
}

static Value native(Emitter *e, int prim, SType type, Value x, Value y, Value z) {
    const bool is_float = type == S_f32 || type == S_f64;
    LLVMTypeRef vector = emit_vector(e, type);
    if (prim == PRIM_select) return LLVMBuildSelect(e->b, x, y, z, "");
    if (prim == PRIM_neg) return is_float ? LLVMBuildFNeg(e->b, x, "") : LLVMBuildNeg(e->b, x, "");
    if (prim == PRIM_not) return LLVMBuildNot(e->b, x, "");
    if (prim == PRIM_abs) return emit_intrinsic(e, "llvm.fabs", &vector, 1, &x, 1);
    Value args[3] = {x, y, z};
    return emit_intrinsic(e, intrinsic_of(prim), &vector, 1, args, rows[prim].arity);
}

static LLVMTypeRef prim_result(Emitter *e, int prim, SType type) {
    return rows[prim].compare ? emit_vector(e, S_b) : emit_vector(e, type);
}

const char *emit_prim_symbol(char *buffer, int prim, SType type) {
    snprintf(buffer, 64, "sn_%s_%s", rows[prim].name, stype_name(type));
    return buffer;
}

/* Bools order as 0 < 1; LLVM's signed compare of i1 would have -1. */
static Value compare_values(Emitter *e, int prim, SType type, Value x, Value y) {
    if (type == S_f32 || type == S_f64) return LLVMBuildFCmp(e->b, (LLVMRealPredicate)rows[prim].on_float, x, y, "");
    if (type == S_b) {
        const LLVMTypeRef wide = LLVMVectorType(e->type.i8, (unsigned)e->lanes);
        x = LLVMBuildZExt(e->b, x, wide, "");
        y = LLVMBuildZExt(e->b, y, wide, "");
    }
    return LLVMBuildICmp(e->b, (LLVMIntPredicate)rows[prim].on_int, x, y, "");
}

Value emit_prim(Emitter *e, int prim, SType type, Value x, Value y, Value z) {
    const PrimCode *row = &rows[prim];
    if (row->compare) return compare_values(e, prim, type, x, y);
    const bool is_float = type == S_f32 || type == S_f64;
    if (row->on_float || row->on_int)
        return LLVMBuildBinOp(e->b, (LLVMOpcode)(is_float ? row->on_float : row->on_int), x, y, "");
    if (!machine_calls(e->request->machine, prim, type)) return native(e, prim, type, x, y, z);
    char name[64];
    const Value operands[3] = {x, y, z};
    return emit_call(e, emit_prim_symbol(name, prim, type), operands, row->arity, prim_result(e, prim, type));
}

/* A library primitive as an internal function of all contexts' vectors: x0 x1.. y0 y1.. ->
 * {r0, r1..}. Written once however often the nest uses it. Inlined copies would not do: LLVM's
 * schedulers put independent chains one after the other again, to save registers. */

static Value wide_function(Emitter *e, const char *symbol, LLVMTypeRef *of, int arity) {
    char name[80];
    snprintf(name, sizeof name, "wide%d_%s", e->side.n, symbol);
    Value f = LLVMGetNamedFunction(e->unit.module, name);
    if (f) return f;
    LLVMTypeRef args[SHARED_VECTORS], results[MAX_UNROLL];
    const int n = e->side.n;
    for (int i = 0; i < arity * n; i++) args[i] = of[i / n];
    for (int c = 0; c < n; c++) results[c] = of[arity];
    const LLVMTypeRef all = LLVMStructTypeInContext(e->unit.context, results, (unsigned)n, 0);
    f = LLVMAddFunction(e->unit.module, name, LLVMFunctionType(all, args, (unsigned)(arity * n), 0));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->unit.context, f, "entry"));
    Value result = LLVMGetPoison(all);
    for (int c = 0; c < n; c++) {
        Value operands[3];
        for (int k = 0; k < arity; k++) operands[k] = LLVMGetParam(f, (unsigned)(k * n + c));
        const Value r = emit_call(e, symbol, operands, arity, of[arity]);
        result = LLVMBuildInsertValue(e->b, result, r, (unsigned)c, "");
    }
    LLVMBuildRet(e->b, result);
    LLVMPositionBuilderAtEnd(e->b, back);
    return f;
}

void emit_wide(Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    char symbol[64];
    emit_prim_symbol(symbol, inst->prim, inst->type);
    const int operand[3] = {inst->a, inst->b, inst->c}, arity = rows[inst->prim].arity;
    LLVMTypeRef of[4]; /* of the operands, of the result */
    for (int k = 0; k <= arity; k++) of[k] = emit_vector(e, inst->type);
    Value args[SHARED_VECTORS];
    for (int k = 0; k < arity * e->side.n; k++) {
        emit_use_context(e, k % e->side.n);
        args[k] = emit_value(e, operand[k / e->side.n]);
    }
    const Value f = wide_function(e, symbol, of, arity);
    const Value all = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, args, (unsigned)(arity * e->side.n), "");
    for (int c = 0; c < e->side.n; c++) e->side.memos[c][i] = LLVMBuildExtractValue(e->b, all, (unsigned)c, "");
}

/* Float to int saturates, NaN gives 0; to bool is != 0. */
static Value cast(Emitter *e, Value x, SType from, SType to) {
    LLVMTypeRef want = emit_vector(e, to), have = LLVMTypeOf(x);
    const bool from_float = from == S_f32 || from == S_f64, to_float = to == S_f32 || to == S_f64;
    if (from == to) return x;
    if (to == S_b)
        return from_float ? LLVMBuildFCmp(e->b, LLVMRealUNE, x, emit_zero(have), "")
                          : LLVMBuildICmp(e->b, LLVMIntNE, x, emit_zero(have), "");
    if (from == S_b) return to_float ? LLVMBuildUIToFP(e->b, x, want, "") : LLVMBuildZExt(e->b, x, want, "");
    if (from_float && to_float)
        return to == S_f64 ? LLVMBuildFPExt(e->b, x, want, "") : LLVMBuildFPTrunc(e->b, x, want, "");
    if (to_float) return LLVMBuildSIToFP(e->b, x, want, "");
    if (from_float) {
        LLVMTypeRef types[2] = {want, have};
        return emit_intrinsic(e, "llvm.fptosi.sat", types, 2, &x, 1);
    }
    return to == S_i64 ? LLVMBuildSExt(e->b, x, want, "") : LLVMBuildTrunc(e->b, x, want, "");
}

static Value constant(Emitter *e, const Inst *inst) {
    const LLVMTypeRef type = emit_scalar(e, inst->type);
    const bool is_float = inst->type == S_f32 || inst->type == S_f64;
    if (!is_float)
        return emit_splat(e, LLVMConstInt(type, (unsigned long long)(inst->type == S_b ? inst->i != 0 : inst->i), 1));
    /* bits, so that NaN payloads and -0 arrive as they are */
    uint64_t bits = 0;
    const float narrow = (float)inst->f;
    if (inst->type == S_f32)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &inst->f, sizeof inst->f);
    const Value raw = LLVMConstInt(inst->type == S_f32 ? e->type.i32 : e->type.i64, bits, 0);
    return emit_splat(e, LLVMConstBitCast(raw, type));
}

static Value parameter(Emitter *e, const Inst *inst) {
    const Value raw = emit_int(e, sym_make(inst->param));
    return emit_splat(e, inst->type == S_f64 ? LLVMBuildBitCast(e->b, raw, e->type.f64, "") : raw);
}

static Value make_value(Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    switch ((LoopOp)inst->op) {
    case LI_const:
        return constant(e, inst);
    case LI_param:
        return parameter(e, inst);
    case LI_index:
        return emit_index(e, inst->at);
    case LI_load:
        return emit_load(e, i);
    case LI_gather:
        return emit_gather(e, i);
    case LI_cast:
        return cast(e, emit_value(e, inst->a), e->nest->insts[inst->a].type, inst->type);
    case LI_prim: {
        const int typed = inst->prim == PRIM_select ? inst->b : inst->a;
        const Value x = emit_value(e, inst->a), y = inst->b < 0 ? NULL : emit_value(e, inst->b);
        const Value z = inst->c < 0 ? NULL : emit_value(e, inst->c);
        return emit_prim(e, inst->prim, e->nest->insts[typed].type, x, y, z);
    }
    default:
        return NULL; /* reductions are in memo before they are used; stores are no values */
    }
}

Value emit_value(Emitter *e, int i) {
    if (e->side.memo[i]) return e->side.memo[i];
    const bool kept = e->shape->inst[i].kept_in >= 0 && e->shape->inst[i].kept_in < e->phase;
    const Value v = kept ? emit_row_read(e, i) : make_value(e, i);
    e->side.memo[i] = v;
    if (e->shape->inst[i].kept_in == e->phase) emit_row_keep(e, i);
    return v;
}
