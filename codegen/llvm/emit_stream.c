/* emit_stream.c: traffic with memory. What is stored past the caches, and what is fetched before
 * its turn.
 *
 * What is the shape's choice (codegen/shape/stream.c, rows.c); here is how. Stores past the caches need addresses
 * that are aligned to whole vectors: tested at run time, once per row or per iteration of the column loop. A fence at
 * the end orders them before the join of the threads.
 *
 * What a nest stores beyond the machine's `stream` (half of the last cache, 16 MiB at most) goes past the caches; the
 * longest reduction of a row, or the phase after the first, fetches the next row. On one Sapphire Rapids core (f32,
 * v4), before and after, with column sums by panels: layer_norm [8192, 768] 4.3 and 2.9 ms, its weight and bias
 * gradients 12.7 and 3.2, softmax [8192, 1024] 7.3 and 5.5, column sums of [8192, 768] 1.3 and 0.9; on one Zen 5 core
 * 1.1, 2.7 and 0.5 ms for layer_norm, softmax and column sums. */
#include "codegen/llvm/emit.h"

enum { LINE = 64 };

bool emit_may_stream(const Emitter *e, int i) { return e->shape->inst[i].streams; }

/* Bytes that one store writes: a constant where no extent is a parameter. */
static Value inst_bytes(Emitter *e, const Inst *inst) {
    Value n = emit_const(e, dtype_bytes(e->bufs[inst->buf].dtype));
    for (int d = 0; d < e->nest->n_outer + e->nest->n_inner; d++)
        if (inst->at->coef[d]) n = LLVMBuildMul(e->entry, n, emit_int(e, e->nest->extent[d]), "");
    return n;
}

void emit_stream_begin(Emitter *e) {
    e->stream.large = e->stream.here = e->stream.lead = NULL;
    if (e->shape->stream == STREAM_always) e->stream.large = LLVMConstInt(e->type.i1, 1, 0);
    if (e->shape->stream != STREAM_when) return;
    Value sum = emit_const(e, 0);
    for (int i = 0; i < e->nest->n_insts; i++)
        if (emit_may_stream(e, i)) sum = LLVMBuildAdd(e->entry, sum, inst_bytes(e, &e->nest->insts[i]), "");
    e->stream.large = LLVMBuildICmp(e->entry, LLVMIntSGT, sum, emit_const(e, e->shape->stream_bytes), "");
}

static int vector_align(const Emitter *e, const Inst *inst) {
    const int bytes = e->lanes * dtype_bytes(e->bufs[inst->buf].dtype);
    return bytes < LINE ? bytes : LINE;
}

/* Low bits of a store's address that are 0 where it is aligned. */
static Value low_bits(Emitter *e, int i) {
    const Value at = LLVMBuildPtrToInt(e->b, e->side.place[i], e->type.i64, "");
    return LLVMBuildAnd(e->b, at, emit_const(e, vector_align(e, &e->nest->insts[i]) - 1), "");
}

/* At the current places. Rows that are no whole vectors begin anywhere: where all stores of a ragged shape begin
 * equally far from a whole vector, the walk begins that much earlier. */
void emit_stream_choose(Emitter *e) {
    const bool ragged = e->shape->ragged;
    Value first = NULL, wrong = emit_const(e, 0);
    int size = 0;
    e->stream.here = e->stream.lead = NULL;
    for (int i = 0; i < e->nest->n_insts; i++) {
        if (!emit_may_stream(e, i)) continue;
        const int mine = dtype_bytes(e->bufs[e->nest->insts[i].buf].dtype);
        const Value low = low_bits(e, i);
        if (ragged && first && mine != size) return;
        const Value off = ragged && first ? LLVMBuildXor(e->b, low, first, "") : low;
        if (!ragged || first) wrong = LLVMBuildOr(e->b, wrong, off, "");
        if (!first) first = low, size = mine;
    }
    if (!first) return;
    e->stream.here = LLVMBuildICmp(e->b, LLVMIntEQ, wrong, emit_const(e, 0), "");
    e->stream.here = LLVMBuildAnd(e->b, e->stream.here, e->stream.large, "");
    e->stream.fences = true;
    if (!ragged) return;
    const Value lead = LLVMBuildUDiv(e->b, first, emit_const(e, size), "");
    e->stream.lead = LLVMBuildSelect(e->b, e->stream.here, lead, emit_const(e, 0), "");
}

bool emit_streams_in(const Emitter *e, const Phase *phase) {
    for (int i = phase->first; i < phase->first + phase->n && e->stream.here; i++)
        if (emit_may_stream(e, i)) return true;
    return false;
}

void emit_stream_store(Emitter *e, int i, Value v, Value pointer) {
    const Value store = LLVMBuildStore(e->b, v, pointer);
    LLVMSetAlignment(store, (unsigned)vector_align(e, &e->nest->insts[i]));
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->type.i32, 1, 0));
    const Value node = LLVMMetadataAsValue(e->unit.context, LLVMMDNodeInContext2(e->unit.context, &one, 1));
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->unit.context, "nontemporal", 11), node);
}

void emit_stream_end(Emitter *e) {
    if (e->stream.fences) emit_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    e->stream.fences = false;
}

static void fetch(Emitter *e, Value pointer) {
    LLVMTypeRef types[1] = {e->type.ptr};
    Value args[4] = {pointer, LLVMConstInt(e->type.i32, 0, 0), LLVMConstInt(e->type.i32, e->shape->near ? 3 : 2, 0),
                     LLVMConstInt(e->type.i32, 1, 0)};
    emit_intrinsic(e, "llvm.prefetch", types, 1, args, 4);
}

void emit_prefetch(Emitter *e, int copy) {
    for (int i = 0; i < e->nest->n_insts; i++) {
        if (e->shape->inst[i].prefetch_in != e->phase) continue;
        const Inst *inst = &e->nest->insts[i];
        if (copy * e->lanes * dtype_bytes(e->bufs[inst->buf].dtype) % LINE) continue;
        fetch(e, emit_next_address(e, i, emit_int(e, inst->at->coef[shape_next_dim(e->nest)])));
    }
}
