/* refusal.c: what the emitter cannot express, found before anything is emitted: no lowering makes
 * it, but a nest may come from a parsed text. Kept apart so that emission itself has no failing
 * paths. */
#include "codegen/llvm/emit.h"

static bool operand_ok(const Nest *nest, int user, int operand) {
    return operand < user && (operand < 0 || nest->insts[operand].op != LI_store);
}

static int operands_wanted(const Inst *inst) {
    static const int8_t arity[PRIM_COUNT] = {
#define SCALAR(name, arity, types, result, llvm, bound, doc) arity,
#include "ir/scalar.def"
#undef SCALAR
    };
    switch ((LoopOp)inst->op) {
    case LI_prim:
        return inst->prim < PRIM_COUNT ? arity[inst->prim] : 3;
    case LI_cast:
    case LI_store:
    case LI_gather:
        return 1;
    case LI_reduce:
        return inst->prim == RED_dot ? 2 : 1;
    default:
        return 0;
    }
}

static const char *refuse_inst(const Nest *nest, const Buf *bufs, int i) {
    const Inst *inst = &nest->insts[i];
    const int wanted = operands_wanted(inst);
    if (!operand_ok(nest, i, inst->a) || !operand_ok(nest, i, inst->b) || !operand_ok(nest, i, inst->c))
        return "an operand comes after its use";
    if ((wanted > 0 && inst->a < 0) || (wanted > 1 && inst->b < 0) || (wanted > 2 && inst->c < 0))
        return "an operand is missing";
    const bool accesses = inst->op == LI_load || inst->op == LI_store || inst->op == LI_gather;
    if ((accesses || inst->op == LI_index) && !inst->at) return "an access has no index expression";
    if (accesses && (inst->buf < 0 || inst->buf >= EMIT_MAX_BUFS)) return "too many buffers";
    if (inst->op == LI_store && nest->insts[inst->a].type != dtype_compute(bufs[inst->buf].dtype))
        return "a stored value is not of its buffer's compute type";
    if (inst->op == LI_gather && nest->insts[inst->a].type != S_i64) return "a gather's index is not i64";
    if (inst->op == LI_param && (inst->param < 0 || inst->param >= EMIT_MAX_PARAMS)) return "too many parameters";
    return NULL;
}

static bool int_ok(int64_t v) { return !sym_is(v) || sym_id(v) < EMIT_MAX_PARAMS; }

const char *emit_refusal(const CodegenRequest *request, int k) {
    const Nest *nest = request->nests[k];
    if (nest->n_outer + nest->n_inner > MAX_LOOP_DIMS) return "too many dims";
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (!int_ok(nest->extent[d])) return "too many parameters";
    for (int i = 0; i < nest->n_insts; i++) {
        const char *why = refuse_inst(nest, request->bufs[k], i);
        const Affine *at = nest->insts[i].at;
        for (int d = 0; !why && at && d < nest->n_outer + nest->n_inner; d++)
            if (!int_ok(at->coef[d])) why = "too many parameters";
        if (!why && at && !int_ok(at->offset)) why = "too many parameters";
        if (why) return why;
    }
    for (int p = 0; p < nest->n_phases; p++) {
        int reds = 0;
        for (int i = nest->phases[p].first; i < nest->phases[p].first + nest->phases[p].n; i++)
            reds += nest->insts[i].op == LI_reduce;
        if (reds > MAX_REDS) return "too many reductions in one phase";
    }
    return NULL;
}
