/* block_compile.c: nest -> BlockProgram, see block.h.
 *
 * Steps are emitted phase by phase, once per variant; then slots get scratch offsets by a linear
 * scan over each region (all phases for `keep`, one phase for `again`): a block is free again after
 * its last use, so that a long chain of operations lives in a few L1-sized blocks. Uniform and
 * narrow values and expansions hold theirs to the end. */
#include "codegen/block/block.h"

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

typedef struct BlockEmitter {
    Arena *arena;
    const Nest *nest;
    const Buf *bufs;
    VEC(BlockInst) steps;
    VEC(BlockAccess) accesses;
    VEC(BlockSlot) slots;
    VEC(BlockPhase) phases;
    int16_t *fixed;            /* by instruction: slot of a uniform or narrow value, -1 */
    int16_t *wide;             /* by instruction: slot of the wide value in this region, -1 */
    int16_t *expanded;         /* by instruction: slot of its expansion in this phase, -1 */
    int16_t *access;           /* by instruction, -1 */
    int16_t *state;            /* by instruction: reduction number */
    VEC(BlockInst) head, body; /* of the phase being written */
    int64_t scratch;
    int n_reductions;
} BlockEmitter;

static bool is_uniform(const Inst *inst) { return inst->op == LI_const || inst->op == LI_param; }

static bool is_wide(const BlockEmitter *e, const Inst *inst) {
    return !is_uniform(inst) && (inst->inner || !e->nest->n_inner);
}

static int16_t new_slot(BlockEmitter *e, SType type) {
    VEC_PUSH(e->arena, &e->slots, ((BlockSlot){.offset = -1, .type = (uint8_t)type}));
    return (int16_t)(e->slots.n - 1);
}

static int64_t block_bytes(SType type) { return (int64_t)stype_bytes(type) * BLOCK_ELEMENTS; }

/* A slot that holds its block to the end. */
static int16_t fixed_slot(BlockEmitter *e, SType type) {
    const int16_t slot = new_slot(e, type);
    e->slots.at[slot].offset = (int32_t)e->scratch;
    e->scratch += block_bytes(type);
    return slot;
}

static int16_t access_of(BlockEmitter *e, int number) {
    const Inst *const inst = &e->nest->insts[number];
    if (!inst->at) return -1;
    if (e->access[number] >= 0) return e->access[number];
    BlockAccess access = {.buf = inst->buf,
                          .at = *inst->at,
                          .scale = inst->scale,
                          .bound = inst->bound,
                          .wrap_negative = inst->wrap_negative};
    access.dtype = inst->buf < 0 ? DT_i64 : (uint8_t)e->bufs[inst->buf].dtype;
    access.bytes = (uint8_t)dtype_bytes((DType)access.dtype);
    VEC_PUSH(e->arena, &e->accesses, access);
    return e->access[number] = (int16_t)(e->accesses.n - 1);
}

static void expand(BlockEmitter *e, int number) {
    const SType type = (SType)e->nest->insts[number].type;
    BlockInst step = {
        .op = BO_expand, .type = (uint8_t)type, .wide = true, .b = -1, .c = -1, .access = -1, .direct = -1};
    step.a = e->fixed[number];
    step.out = e->expanded[number] = fixed_slot(e, type);
    VEC_PUSH(e->arena, &e->head, step);
}

/* The slot of an operand as seen by a wide or a narrow step. */
static int16_t operand_slot(BlockEmitter *e, int number, bool for_wide) {
    if (number < 0) return -1;
    const Inst *const inst = &e->nest->insts[number];
    if (is_wide(e, inst)) return e->wide[number];
    if (!for_wide || is_uniform(inst)) return e->fixed[number];
    if (e->expanded[number] < 0) expand(e, number);
    return e->expanded[number];
}

static BlockInst step_of(BlockEmitter *e, int number, bool wide) {
    static const uint8_t ops[] = {[LI_const] = BO_const, [LI_param] = BO_param,   [LI_index] = BO_index,
                                  [LI_load] = BO_load,   [LI_gather] = BO_gather, [LI_prim] = BO_prim,
                                  [LI_cast] = BO_cast,   [LI_reduce] = BO_reduce, [LI_store] = BO_store};
    const Inst *const inst = &e->nest->insts[number];
    BlockInst step = {
        .op = ops[inst->op], .type = inst->type, .prim = inst->prim, .wide = wide, .direct = -1, .out = -1};
    step.a = operand_slot(e, inst->a, wide);
    step.b = operand_slot(e, inst->b, wide);
    step.c = operand_slot(e, inst->c, wide);
    step.access = access_of(e, number);
    step.i = inst->i;
    step.number = inst->op == LI_param ? inst->param : (int16_t)number;
    if (inst->op == LI_reduce) step.number = e->state[number];
    const int typed = inst->op == LI_prim && inst->prim == PRIM_select ? inst->b : inst->a;
    if (typed >= 0) step.from = e->nest->insts[typed].type;
    if (inst->op == LI_reduce) step.type = step.from;
    return step;
}

static void emit_wide(BlockEmitter *e, int number, bool again);

/* What an instruction needs of earlier phases. */
static void emit_operands(BlockEmitter *e, const Inst *inst) {
    const int16_t operands[3] = {inst->a, inst->b, inst->c};
    for (int i = 0; i < 3; i++)
        if (operands[i] >= 0 && is_wide(e, &e->nest->insts[operands[i]])) emit_wide(e, operands[i], true);
}

/* Wide steps go to the body; `again` first emits what they need of earlier phases. */
static void emit_wide(BlockEmitter *e, int number, bool again) {
    const Inst *const inst = &e->nest->insts[number];
    if (e->wide[number] >= 0) return;
    if (again) emit_operands(e, inst);
    BlockInst step = step_of(e, number, true);
    if (inst->op == LI_reduce)
        step.out = e->fixed[number];
    else if (inst->op != LI_store)
        step.out = e->wide[number] = new_slot(e, (SType)inst->type);
    VEC_PUSH(e->arena, &e->body, step);
}

static void emit_narrow(BlockEmitter *e, int number) {
    BlockInst step = step_of(e, number, false);
    step.out = e->fixed[number];
    VEC_PUSH(e->arena, &e->head, step);
}

static void clear(int16_t *slots, int n) {
    for (int i = 0; i < n; i++) slots[i] = -1;
}

static void append_steps(BlockEmitter *e, const BlockInst *steps, int n) {
    for (int i = 0; i < n; i++) VEC_PUSH(e->arena, &e->steps, steps[i]);
}

static void emit_phase(BlockEmitter *e, const Phase *phase, bool again) {
    e->head.n = e->body.n = 0;
    clear(e->expanded, e->nest->n_insts);
    if (again) clear(e->wide, e->nest->n_insts);
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &e->nest->insts[i];
        if (!is_uniform(inst) && !is_wide(e, inst) && inst->op != LI_reduce) emit_narrow(e, i);
    }
    for (int i = phase->first; again && i < phase->first + phase->n; i++) /* all is read before anything is stored */
        emit_operands(e, &e->nest->insts[i]);
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &e->nest->insts[i];
        if (is_wide(e, inst) || inst->op == LI_reduce) emit_wide(e, i, again);
    }
    BlockPhase out = {.reduce = phase->kind == PHASE_reduce,
                      .over_outer = phase->over_outer,
                      .head = e->steps.n,
                      .n_head = e->head.n};
    append_steps(e, e->head.at, e->head.n);
    out.body = e->steps.n;
    out.n_body = e->body.n;
    append_steps(e, e->body.at, e->body.n);
    VEC_PUSH(e->arena, &e->phases, out);
}

/* aliasing ------------------------------------------------------------------------------------ */

static bool uses(const BlockInst *step, int16_t slot) { return step->a == slot || step->b == slot || step->c == slot; }

static bool is_compute_dtype(DType dtype) { return dtype_bytes(dtype) == stype_bytes(dtype_compute(dtype)); }

/* A load may point into its buffer unless something is stored, or written directly, before its last
 * use: the buffer may be the one stored to, at the same index. */
static void mark_aliases(BlockEmitter *e, int first, int n) {
    BlockInst *const steps = e->steps.at + first;
    int first_write = n;
    for (int i = n - 1; i >= 0; i--)
        if (steps[i].op == BO_store) first_write = i;
    for (int i = 0; i < n; i++) {
        BlockInst *const load = &steps[i];
        if (load->op != BO_load || !is_compute_dtype((DType)e->accesses.at[load->access].dtype)) continue;
        load->alias = true;
        for (int k = first_write + 1; k < n; k++)
            if (uses(&steps[k], load->out)) load->alias = false;
    }
}

static bool reads_alias(const BlockInst *steps, int n, const BlockInst *step) {
    for (int i = 0; i < n; i++)
        if (steps[i].op == BO_load && steps[i].alias && uses(step, steps[i].out)) return true;
    return false;
}

/* Loads whose value is read in a later phase than one that stores are copied too. */
static void unalias_across_phases(BlockEmitter *e, int first) {
    BlockInst *const steps = e->steps.at;
    int *const writes = ARENA_ARRAY(e->arena, int, e->steps.n + 1); /* before each step */
    for (int i = first; writes && i < e->steps.n; i++)
        writes[i + 1] = writes[i] + (steps[i].op == BO_store || steps[i].direct >= 0);
    for (int k = first; writes && k < e->steps.n; k++) {
        if (steps[k].op != BO_load || !steps[k].alias) continue;
        for (int i = k + 1; i < e->steps.n; i++)
            if (uses(&steps[i], steps[k].out) && writes[i] > writes[k]) steps[k].alias = false;
    }
}

/* The step that makes the first stored value may write it in place, if nothing reads buffer memory
 * after it. */
static void mark_direct(BlockEmitter *e, int first, int n) {
    BlockInst *const steps = e->steps.at + first;
    int store = 0;
    while (store < n && steps[store].op != BO_store) store++;
    if (store == n || !is_compute_dtype((DType)e->accesses.at[steps[store].access].dtype)) return;
    int maker = store - 1;
    while (maker >= 0 && steps[maker].out != steps[store].a) maker--;
    if (maker < 0 || (steps[maker].op != BO_prim && steps[maker].op != BO_cast)) return;
    for (int i = maker + 1; i < n; i++)
        if (steps[i].op == BO_load || steps[i].op == BO_gather || reads_alias(steps, n, &steps[i])) return;
    for (int i = store + 1; i < n; i++)
        if (steps[i].op == BO_store && steps[i].a == steps[store].a) return;
    steps[maker].direct = steps[store].access;
}

/* scratch memory ------------------------------------------------------------------------------ */

typedef struct SlotPool {
    int32_t free[3][64]; /* by size of element: 1, 4, 8 bytes */
    int n[3];
} SlotPool;

static int size_class(SType type) { return stype_bytes(type) == 1 ? 0 : stype_bytes(type) == 4 ? 1 : 2; }

static void free_slot(BlockEmitter *e, SlotPool *pool, int16_t slot) {
    const int size = size_class((SType)e->slots.at[slot].type);
    if (pool->n[size] < COUNT_OF(pool->free[size])) pool->free[size][pool->n[size]++] = e->slots.at[slot].offset;
}

static void alloc_slot(BlockEmitter *e, SlotPool *pool, int16_t slot, int64_t *top) {
    const SType type = (SType)e->slots.at[slot].type;
    const int size = size_class(type);
    if (pool->n[size]) {
        e->slots.at[slot].offset = pool->free[size][--pool->n[size]];
        return;
    }
    e->slots.at[slot].offset = (int32_t)*top;
    *top += block_bytes(type);
}

static void place_region(BlockEmitter *e, int first, int n, int64_t base, int64_t *highest) {
    const BlockInst *const steps = e->steps.at + first;
    int *const last = ARENA_ARRAY(e->arena, int, e->slots.n + 1);
    int64_t top = base;
    SlotPool pool = {0};
    if (!last) return;
    for (int i = 0; i < n; i++) {
        const int16_t slots[3] = {steps[i].a, steps[i].b, steps[i].c};
        for (int k = 0; k < 3; k++)
            if (slots[k] >= 0) last[slots[k]] = i;
        if (steps[i].out >= 0) last[steps[i].out] = i;
    }
    bool *const moving = ARENA_ARRAY(e->arena, bool, e->slots.n + 1); /* placed by this scan and not given back */
    if (!moving) return;
    for (int i = 0; i < n; i++) {
        const int16_t slots[4] = {steps[i].a, steps[i].b, steps[i].c, steps[i].out};
        const bool in_place = steps[i].op == BO_prim && steps[i].from == steps[i].type;
        for (int pass = 0; pass < 2; pass++) {
            if (pass == (in_place ? 1 : 0) && steps[i].out >= 0 && e->slots.at[steps[i].out].offset < 0) {
                alloc_slot(e, &pool, steps[i].out, &top);
                moving[steps[i].out] = true;
            }
            if (pass == (in_place ? 0 : 1))
                for (int k = 0; k < 4; k++)
                    if (slots[k] >= 0 && moving[slots[k]] && last[slots[k]] == i && (k < 3 || !in_place)) {
                        moving[slots[k]] = false;
                        free_slot(e, &pool, slots[k]);
                    }
        }
    }
    *highest = max_i64(*highest, top);
}

/* assembling ---------------------------------------------------------------------------------- */

static void emit_uniform(BlockEmitter *e) {
    for (int i = 0; i < e->nest->n_insts; i++) {
        const Inst *const inst = &e->nest->insts[i];
        e->fixed[i] = e->wide[i] = e->access[i] = -1;
        if (inst->op == LI_store || is_wide(e, inst)) continue;
        e->fixed[i] = fixed_slot(e, (SType)inst->type);
        if (inst->op == LI_reduce) e->state[i] = (int16_t)e->n_reductions++;
        if (!is_uniform(inst)) continue;
        BlockInst step = step_of(e, i, false);
        step.out = e->fixed[i];
        VEC_PUSH(e->arena, &e->steps, step);
    }
}

static void emit_variant(BlockEmitter *e, bool again, int64_t *highest) {
    const int first = e->steps.n;
    clear(e->wide, e->nest->n_insts);
    for (int i = 0; i < e->nest->n_phases; i++) {
        const int begin = e->steps.n;
        emit_phase(e, &e->nest->phases[i], again);
        mark_aliases(e, begin, e->steps.n - begin);
        mark_direct(e, begin, e->steps.n - begin);
    }
    unalias_across_phases(e, first);
    const BlockPhase *const phases = e->phases.at + (again ? e->nest->n_phases : 0);
    for (int i = 0; again && i < e->nest->n_phases; i++)
        place_region(e, phases[i].head, phases[i].n_head + phases[i].n_body, 0, highest);
    if (!again) place_region(e, first, e->steps.n - first, 0, highest);
}

static bool names_params(const BlockEmitter *e) {
    const int n_dims = e->nest->n_outer + e->nest->n_inner;
    for (int i = 0; i < n_dims; i++)
        if (sym_is(e->nest->extent[i])) return true;
    for (int i = 0; i < e->accesses.n; i++) {
        const BlockAccess *const a = &e->accesses.at[i];
        if (sym_is(a->scale) || sym_is(a->bound) || sym_is(a->at.offset)) return true;
        for (int d = 0; d < n_dims; d++)
            if (sym_is(a->at.coef[d])) return true;
    }
    return false;
}

static int32_t lay(BlockProgram *program, size_t *at, const void *from, size_t bytes) {
    const size_t offset = *at;
    if (program && bytes) memcpy((char *)program + offset, from, bytes);
    *at = (offset + bytes + 63) / 64 * 64;
    return (int32_t)offset;
}

/* Lays everything out behind the header; with program NULL only measures. */
static size_t assemble(const BlockEmitter *e, BlockProgram *header, BlockProgram *program) {
    size_t at = (sizeof *header + 63) / 64 * 64;
    header->steps = lay(program, &at, e->steps.at, sizeof(BlockInst) * (size_t)e->steps.n);
    header->accesses = lay(program, &at, e->accesses.at, sizeof(BlockAccess) * (size_t)e->accesses.n);
    header->slots = lay(program, &at, e->slots.at, sizeof(BlockSlot) * (size_t)e->slots.n);
    header->phases = lay(program, &at, e->phases.at, sizeof(BlockPhase) * (size_t)e->phases.n);
    return at + block_fast_constants(e->nest, &header->fast, at, program);
}

static Status build(BlockEmitter *e, BlockProgram **out) {
    const Nest *const nest = e->nest;
    const int n = nest->n_insts;
    int16_t *const tables = ARENA_ARRAY(e->arena, int16_t, 5 * n + 1);
    if (!tables) return ST_MEMORY;
    e->fixed = tables;
    e->wide = tables + n;
    e->expanded = tables + 2 * n;
    e->access = tables + 3 * n;
    e->state = tables + 4 * n;
    emit_uniform(e);
    BlockProgram header = {.n_outer = nest->n_outer,
                           .n_inner = nest->n_inner,
                           .n_s = nest->n_s,
                           .n_phases = nest->n_phases,
                           .n_init = e->steps.n};
    int64_t moving = 0;
    emit_variant(e, false, &moving);
    emit_variant(e, true, &moving);
    const int64_t fixed = e->scratch; /* fixed blocks come first, the moving ones behind them */
    bool *const is_moving = ARENA_ARRAY(e->arena, bool, e->slots.n + 1);
    if (!is_moving) return ST_MEMORY;
    for (int i = 0; i < e->steps.n; i++)
        if (e->steps.at[i].wide && e->steps.at[i].op != BO_expand && e->steps.at[i].op != BO_reduce &&
            e->steps.at[i].out >= 0)
            is_moving[e->steps.at[i].out] = true;
    for (int i = 0; i < e->slots.n; i++)
        if (is_moving[i]) e->slots.at[i].offset += (int32_t)fixed;
    memcpy(header.extent, nest->extent, sizeof header.extent);
    header.has_params = names_params(e);
    header.n_steps = e->steps.n;
    header.n_accesses = e->accesses.n;
    header.n_slots = e->slots.n;
    header.n_reductions = e->n_reductions;
    header.scratch_bytes = fixed + moving;
    block_fast_plan(nest, e->bufs, &header.fast);
    const size_t bytes = assemble(e, &header, NULL);
    BlockProgram *const program = mem_aligned(64, bytes);
    if (!program) return ST_MEMORY;
    header.bytes = bytes;
    assemble(e, &header, program);
    *program = header;
    *out = program;
    return ST_OK;
}

size_t block_program_bytes(const BlockProgram *program) { return program->bytes; }

Status block_compile(const Nest *nest, const Buf *bufs, BlockProgram **out) {
    if (nest->n_insts > INT16_MAX / 4) return error_raise(ST_UNSUPPORTED, "a nest of %d instructions", nest->n_insts);
    Arena *const arena = arena_new();
    if (!arena) return ST_MEMORY;
    BlockEmitter e = {.arena = arena, .nest = nest, .bufs = bufs};
    const Status status = build(&e, out);
    arena_free(arena);
    return status;
}
