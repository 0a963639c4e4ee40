/* emit_stream.c: traffic with memory. What is stored past the caches, and what is fetched before
 * its turn.
 *
 * Stores: an ordinary store reads its line first, so an array that leaves the caches before anybody
 * reads it costs twice its bytes. A nest that stores more than `stream_bytes` to buffers that it
 * does not load stores them past the caches, where addresses are aligned to whole vectors: tested
 * at run time, once per row or per turn of the column loop. A fence at the end orders them before
 * the join of the threads. Not for a product's tiles, of which each call stores little.
 *
 * Rows: while a phase of a row computes from the cache, memory would idle. The longest phase
 * fetches the next row's loads. */
#include "codegen/llvm/emit.h"

enum { LINE = 64, FETCH_BYTES = 256 << 10, NEAR_BYTES = 16 << 10 };

static bool accesses(const Inst *inst) { return inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store; }

static bool has_tile(const Emitter *e) {
    for (int i = 0; i < e->nest->n_insts; i++) {
        const Inst *inst = &e->nest->insts[i];
        if (accesses(inst) && e->bufs[inst->buf].role == BUF_tile) return true;
    }
    return false;
}

static bool loads_from(const Emitter *e, int buf) {
    for (int i = 0; i < e->nest->n_insts; i++) {
        const Inst *inst = &e->nest->insts[i];
        if (accesses(inst) && inst->op != LI_store && inst->buf == buf) return true;
    }
    return false;
}

/* The group that whole vectors run along; -1: lanes are taken apart. */
static int lane_group(const Emitter *e) {
    if (!e->rows) return e->nest->n_inner ? -1 : e->n_outer_groups - 1;
    return e->n_s_groups == 0 && e->n_groups == e->n_outer_groups + 1 ? e->n_outer_groups : -1;
}

static bool runs_along(const Emitter *e, const Inst *inst) {
    const int g = lane_group(e);
    return g >= 0 && inst->at->coef[e->group[g].coef] == 1;
}

static bool can_stream(const Emitter *e, int i) {
    const Inst *inst = &e->nest->insts[i];
    return inst->op == LI_store && e->bufs[inst->buf].role == BUF_out && runs_along(e, inst) &&
           !loads_from(e, inst->buf);
}

bool emit_may_stream(const Emitter *e, int i) { return e->large && can_stream(e, i); }

/* Bytes that one store writes: a constant where no extent is a parameter. */
static Value bytes_of(Emitter *e, const Inst *inst) {
    Value n = emit_const(e, dtype_bytes(e->bufs[inst->buf].dtype));
    for (int d = 0; d < e->nest->n_outer + e->nest->n_inner; d++)
        if (inst->at->coef[d]) n = LLVMBuildMul(e->entry, n, emit_int(e, e->nest->extent[d]), "");
    return n;
}

void emit_stream_begin(Emitter *e) {
    e->large = e->streams = e->lead = NULL;
    if (!e->request->stream_bytes || has_tile(e)) return;
    Value sum = emit_const(e, 0);
    for (int i = 0; i < e->nest->n_insts; i++)
        if (can_stream(e, i)) sum = LLVMBuildAdd(e->entry, sum, bytes_of(e, &e->nest->insts[i]), "");
    const Value limit = emit_const(e, e->request->stream_bytes);
    const Value large = LLVMBuildICmp(e->entry, LLVMIntSGT, sum, limit, "");
    if (!LLVMIsConstant(large) || LLVMConstIntGetZExtValue(large)) e->large = large;
}

static int vector_align(const Emitter *e, const Inst *inst) {
    const int bytes = e->lanes * dtype_bytes(e->bufs[inst->buf].dtype);
    return bytes < LINE ? bytes : LINE;
}

/* Low bits of a store's address that are 0 where it is aligned. */
static Value low_bits(Emitter *e, int i) {
    const Value at = LLVMBuildPtrToInt(e->b, e->place[i], e->i64, "");
    return LLVMBuildAnd(e->b, at, emit_const(e, vector_align(e, &e->nest->insts[i]) - 1), "");
}

/* Rows that are no whole vectors begin anywhere. Where all stores begin equally far from a whole
 * vector, the walk begins that much earlier. */
static bool is_ragged(Emitter *e) {
    int64_t plain = 0;
    if (e->rows) emit_L_total(e, &plain);
    return plain < 0 || plain % e->lanes;
}

void emit_stream_choose(Emitter *e) {
    const bool ragged = e->large && is_ragged(e);
    Value first = NULL, wrong = emit_const(e, 0);
    int size = 0;
    e->streams = e->lead = NULL;
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
    e->streams = LLVMBuildICmp(e->b, LLVMIntEQ, wrong, emit_const(e, 0), "");
    e->streams = LLVMBuildAnd(e->b, e->streams, e->large, "");
    e->streamed = true;
    if (!ragged) return;
    const Value lead = LLVMBuildUDiv(e->b, first, emit_const(e, size), "");
    e->lead = LLVMBuildSelect(e->b, e->streams, lead, emit_const(e, 0), "");
}

bool emit_streams_in(const Emitter *e, const Phase *phase) {
    for (int i = phase->first; i < phase->first + phase->n && e->streams; i++)
        if (emit_may_stream(e, i)) return true;
    return false;
}

void emit_stream_store(Emitter *e, int i, Value v, Value pointer) {
    const Value store = LLVMBuildStore(e->b, v, pointer);
    LLVMSetAlignment(store, (unsigned)vector_align(e, &e->nest->insts[i]));
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, 0));
    const Value node = LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &one, 1));
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->context, "nontemporal", 11), node);
}

void emit_stream_end(Emitter *e) {
    if (e->streamed) emit_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    e->streamed = false;
}

/* The innermost outer dim that has a next index; -1: none. */
static int next_dim(const Emitter *e) {
    int d = e->nest->n_outer - 1;
    while (d >= 0 && e->nest->extent[d] == 1) d--;
    return d;
}

static bool loads_ahead(const Emitter *e, int i, int dim) {
    const Inst *inst = &e->nest->insts[i];
    return inst->op == LI_load && inst->inner && runs_along(e, inst) && inst->at->coef[dim] && e->first_phase[i] >= 0;
}

/* The reduction that computes longest, if one is long, else the phase after the first use; -1:
 * there is no other phase, and the loads of the row themselves keep memory busy. */
static int fetching_phase(Emitter *e, int first) {
    const int phase = e->phase;
    int best = -1, after = -1, most = LONG_BODY - 1, inner = 0;
    for (e->phase = 0; e->phase < e->nest->n_phases; e->phase++) {
        if (e->nest->phases[e->phase].over_outer) continue;
        inner++;
        if (after < 0 && e->phase > first) after = e->phase;
        if (e->phase < first || e->nest->phases[e->phase].kind != PHASE_reduce) continue;
        const int cost = emit_phase_cost(e);
        if (cost > most) best = e->phase, most = cost;
    }
    e->phase = phase;
    return inner < 2 ? -1 : best >= 0 ? best : after;
}

void emit_choose_fetched(Emitter *e) {
    const int n = e->nest->n_insts, dim = next_dim(e);
    int64_t plain, bytes = 0;
    e->fetched_in = ARENA_ARRAY(e->arena, int, n + 1);
    for (int i = 0; i < n; i++) e->fetched_in[i] = -1;
    if (!e->rows || dim < 0) return;
    emit_L_total(e, &plain);
    for (int i = 0; i < n; i++)
        if (loads_ahead(e, i, dim)) bytes += plain * dtype_bytes(e->bufs[e->nest->insts[i].buf].dtype);
    if (bytes <= 0 || bytes > FETCH_BYTES) return;
    e->fetch_near = bytes <= NEAR_BYTES;
    for (int i = 0; i < n; i++)
        if (loads_ahead(e, i, dim)) e->fetched_in[i] = fetching_phase(e, e->first_phase[i]);
}

static void fetch(Emitter *e, Value pointer) {
    LLVMTypeRef types[1] = {e->ptr};
    Value args[4] = {pointer, LLVMConstInt(e->i32, 0, 0), LLVMConstInt(e->i32, e->fetch_near ? 3 : 2, 0),
                     LLVMConstInt(e->i32, 1, 0)};
    emit_intrinsic(e, "llvm.prefetch", types, 1, args, 4);
}

void emit_fetch_ahead(Emitter *e, int copy) {
    for (int i = 0; i < e->nest->n_insts; i++) {
        if (e->fetched_in[i] < 0 || e->fetched_in[i] != e->phase) continue;
        const Inst *inst = &e->nest->insts[i];
        if (copy * e->lanes * dtype_bytes(e->bufs[inst->buf].dtype) % LINE) continue;
        fetch(e, emit_next_address(e, i, emit_int(e, inst->at->coef[next_dim(e)])));
    }
}
