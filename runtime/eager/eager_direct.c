/* eager_direct.c: entries whose plan is one primitive, or one reduction of short rows, over contiguous operands of its
 * compute type: the block kernel is called on their memory. Numbers are blocks: of a constant, or filled anew when a
 * call brings another number. */
#include "runtime/base/alloc.h"
#include "runtime/device/device.h"
#include "runtime/device/launch.h"
#include "runtime/eager/eager.h"

/* The device's functions of one block. */
static const KernelTable *blocks_of(const EagerEntry *entry) {
    const DeviceRow *const device = entry->program.run->rows[0];
    return device && device->blocks ? device->blocks() : NULL; /* no step: no device */
}

/* An int of the plan's one kernel: a plain one, or the expression that the parameter it names stands for. */
static int64_t int_in(const Plan *plan, int64_t value) {
    return sym_is(value) ? plan->steps.at[0].kernel->params[sym_id(value)] : value;
}

/* Walks memory element by element over the first n_dims dims of a nest. */
static bool is_dense(const Plan *plan, const Nest *nest, const Inst *inst, int n_dims) {
    int64_t expected = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        const int64_t extent = int_in(plan, nest->extent[d]);
        if (extent != 1 && int_in(plan, inst->at->coef[d]) != expected) return false;
        expected = sym_mul(plan->env, expected, extent);
    }
    return !inst->at->offset;
}

/* Blocks hold the compute type; these dtypes are it. */
static bool is_compute_dtype(DType dtype, SType type) {
    return dtype_compute(dtype) == type && dtype_bytes(dtype) == stype_bytes(type);
}

/* As much of a block as a call reads. */
static int64_t block_elements(const Direct *direct) { return min_i64(BLOCK, round_up(max_i64(direct->n, 1), 64)); }

static bool direct_block(Direct *direct, int i, SType type) {
    direct->constant_each[i] = stype_bytes(type);
    direct->constant_n = block_elements(direct);
    const size_t bytes = (size_t)direct->constant_n * (size_t)direct->constant_each[i];
    direct->constant[i] = mem_aligned(64, bytes);
    direct->constant_bytes += bytes;
    direct->operand[i] = DIRECT_const;
    direct->bytes[i] = 0;
    return direct->constant[i] != NULL;
}

static void fill_bytes(void *block, int bytes, const void *value, int64_t n) {
    for (int64_t k = 0; k < n; k++) memcpy((char *)block + k * bytes, value, (size_t)bytes);
}

static bool direct_constant(Direct *direct, int i, const Inst *inst) {
    if (!direct_block(direct, i, (SType)inst->type)) return false;
    const float single = (float)inst->f;
    const int32_t narrow = (int32_t)inst->i;
    const void *const value = inst->type == S_f32   ? (const void *)&single
                              : inst->type == S_i32 ? (const void *)&narrow
                                                    : (const void *)&inst->f;
    fill_bytes(direct->constant[i], stype_bytes((SType)inst->type), value, direct->constant_n);
    return true;
}

/* numbers ------------------------------------------------------------------------------------- */

/* The parameter that an operand is, as it is or cast; NULL: another operand. Casts of floats to ints saturate: left to
 * the interpreter. */
static const Inst *param_of(const Kernel *kernel, const Nest *nest, const Inst *inst) {
    const Inst *const from = inst->op == LI_cast ? &nest->insts[inst->a] : inst;
    if (from->op != LI_param || !kernel->param_is_float) return NULL;
    const bool to_float = inst->type == S_f32 || inst->type == S_f64;
    const bool to_int = inst->type == S_i32 || inst->type == S_i64;
    return to_float || (to_int && !kernel->param_is_float[from->param]) ? from : NULL;
}

/* Which of the call's ints a symbol is; -1: none of them. */
static int int_of(const EagerEntry *entry, int64_t symbol) {
    const SymExpr *const s = sym_is(symbol) ? sym_expr(entry->program.run->plan->env, symbol) : NULL;
    const int before = (entry->seed >= 0 ? 2 : 0) + (entry->sized ? entry->sized->n_sizes : 0);
    const int k = s && s->op == SYM_free ? (int)s->a - before : -1;
    return k < entry->n_ints ? k : -1;
}

static bool direct_number(const EagerEntry *entry, const Kernel *kernel, Direct *direct, int i, const Inst *inst,
                          const Inst *param) {
    const bool is_float = kernel->param_is_float[param->param];
    const int k = is_float ? -1 : int_of(entry, kernel->params[param->param]);
    if ((!is_float && k < 0) || !direct_block(direct, i, (SType)inst->type)) return false;
    direct->number[i] =
        (DirectNumber){.from = is_float ? 1 + (int)kernel->params[param->param] : -1 - k, .type = (SType)inst->type};
    direct->has_numbers = true;
    return true;
}

static void fill_number(const Direct *direct, void *block, SType type, double f, int64_t i, bool is_float) {
    const int64_t n = direct->constant_n;
    if (type == S_f32) {
        const float value = is_float ? (float)f : (float)i;
        fill_bytes(block, sizeof value, &value, n);
    } else if (type == S_f64) {
        const double value = is_float ? f : (double)i;
        fill_bytes(block, sizeof value, &value, n);
    } else if (type == S_i32) {
        const int32_t value = (int32_t)i;
        fill_bytes(block, sizeof value, &value, n);
    } else {
        fill_bytes(block, sizeof i, &i, n);
    }
}

void eager_direct_fill(Direct *direct, const EagerCall *ec) {
    for (int k = 0; k < MAX_DIRECT; k++) {
        DirectNumber *const number = &direct->number[k];
        if (!number->from) continue;
        const bool is_float = number->from > 0;
        const double f = is_float ? ec->floats[number->from - 1] : 0;
        const int64_t i = is_float ? 0 : ec->ints[-1 - number->from];
        uint64_t bits = (uint64_t)i;
        if (is_float) memcpy(&bits, &f, sizeof bits);
        if (LIKELY(number->is_filled && number->filled == bits)) continue;
        fill_number(direct, direct->constant[k], number->type, f, i, is_float);
        number->filled = bits;
        number->is_filled = true;
    }
}

static void free_blocks(Direct *direct) {
    for (int i = 0; i < MAX_DIRECT; i++) mem_free(direct->constant[i]);
}

static bool copy_block(Direct *to, const Direct *from, int i) {
    const int bytes = from->constant_each[i];
    const size_t capacity = (size_t)to->constant_n * (size_t)bytes;
    if (!(to->constant[i] = mem_aligned(64, capacity))) return false;
    to->constant_bytes += capacity;
    to->number[i].is_filled = false;
    if (!from->number[i].from) fill_bytes(to->constant[i], bytes, from->constant[i], to->constant_n);
    return true;
}

bool eager_direct_copy(Direct *to, const Direct *from, int64_t n) {
    *to = *from;
    to->n = n;
    to->constant_n = block_elements(to);
    to->constant_bytes = 0;
    for (int i = 0; i < MAX_DIRECT; i++) to->constant[i] = NULL;
    for (int i = 0; i < MAX_DIRECT; i++) {
        if (!from->constant[i] || copy_block(to, from, i)) continue;
        free_blocks(to);
        return false;
    }
    return true;
}

/* operands ------------------------------------------------------------------------------------ */

static int slot_tensor(const Plan *plan, int slot) {
    return slot >= 0 && plan->slots.at[slot].kind == SLOT_input ? plan->slots.at[slot].index : -1;
}

static bool direct_operand(const EagerEntry *entry, const Nest *nest, int inst_id, Direct *direct, int i) {
    direct->operand[i] = -1;
    if (inst_id < 0) return true;
    const Plan *const plan = entry->program.run->plan;
    const Step *const step = &plan->steps.at[0];
    const Inst *const inst = &nest->insts[inst_id];
    if (inst->op == LI_const) return direct_constant(direct, i, inst);
    const Inst *const param = param_of(step->kernel, nest, inst);
    if (param) return direct_number(entry, step->kernel, direct, i, inst, param);
    if (inst->op != LI_load || !is_dense(plan, nest, inst, nest->n_outer + nest->n_inner)) return false;
    const DType dtype = step->kernel->bufs[inst->buf].dtype;
    direct->operand[i] = slot_tensor(plan, step->bufs[inst->buf]);
    direct->bytes[i] = dtype_bytes(dtype);
    return direct->operand[i] >= 0 && is_compute_dtype(dtype, (SType)inst->type);
}

static const Nest *only_nest(const Plan *plan) {
    if (plan->steps.n != 1 || plan->steps.at[0].kind != STEP_kernel) return NULL;
    const Kernel *const kernel = plan->steps.at[0].kernel;
    if (kernel->template || kernel->n_nests != 1) return NULL;
    return &kernel->nests[0];
}

static int64_t extents_product(const Plan *plan, const int64_t *extent, int n) {
    int64_t total = 1;
    for (int d = 0; d < n; d++) total = sym_mul(plan->env, total, int_in(plan, extent[d]));
    return total;
}

/* The store of the plan's one result, which is dense; NULL: there is none such. At any size blocks are whole. */
static const Inst *only_store(const EagerEntry *entry, const Nest *nest, Direct *direct) {
    const Plan *const plan = entry->program.run->plan;
    const Inst *const store = &nest->insts[nest->n_insts - 1];
    const Step *const step = &plan->steps.at[0];
    if (store->op != LI_store || !is_dense(plan, nest, store, nest->n_outer)) return NULL;
    const DType dtype = step->kernel->bufs[store->buf].dtype;
    if (!is_compute_dtype(dtype, (SType)nest->insts[store->a].type)) return NULL;
    direct->target = slot_tensor(plan, step->bufs[store->buf]);
    direct->out_bytes = dtype_bytes(dtype);
    direct->n = entry->sized ? BLOCK : extents_product(plan, nest->extent, nest->n_outer);
    direct->row = 1;
    return store;
}

/* True where the plan is load, reduce, store, and a row is one chunk of order L. */
static bool find_reduction(const EagerEntry *entry, Direct *direct) {
    const Plan *const plan = entry->program.run->plan;
    const Nest *const nest = only_nest(plan);
    if (!nest || !nest->n_inner || nest->n_s || nest->n_insts != 3) return false;
    const Inst *const store = only_store(entry, nest, direct);
    const Inst *const reduce = store ? &nest->insts[store->a] : NULL;
    if (!reduce || reduce->op != LI_reduce || reduce->b >= 0) return false;
    const int64_t row = extents_product(plan, nest->extent + nest->n_outer, nest->n_inner);
    direct->row = sym_hint(plan->env, row);
    if (entry->sized) entry->sized->row = row;
    if (direct->row < 1 || direct->row > CHUNK_L || !direct_operand(entry, nest, reduce->a, direct, 0)) return false;
    if (direct->operand[0] == DIRECT_const || reduce->prim == RED_argmax || reduce->prim == RED_argmin) return false;
    direct->operand[1] = direct->operand[2] = -1;
    direct->reduce = blocks_of(entry)->reduce_L(reduce->prim, (SType)reduce->type);
    return direct->reduce != NULL;
}

/* True where the plan is load..., prim, store over one contiguous range. */
static bool find_direct(const EagerEntry *entry, Direct *direct) {
    const Plan *const plan = entry->program.run->plan;
    const Nest *const nest = only_nest(plan);
    if (!nest || nest->n_inner) return false;
    const Inst *const store = only_store(entry, nest, direct);
    if (!store || nest->insts[store->a].op != LI_prim) return false;
    const Inst *const prim = &nest->insts[store->a];
    const int ids[MAX_DIRECT] = {prim->a, prim->b, prim->c};
    int n_used = 2; /* the primitive and the store */
    for (int i = 0; i < MAX_DIRECT; i++) {
        if (!direct_operand(entry, nest, ids[i], direct, i)) return false;
        bool counted = ids[i] < 0;
        for (int k = 0; k < i; k++) counted |= ids[k] == ids[i];
        if (!counted) n_used += nest->insts[ids[i]].op == LI_cast ? 2 : 1;
    }
    if (n_used != nest->n_insts) return false;
    const SType operand_type = (SType)nest->insts[prim->prim == PRIM_select ? prim->b : prim->a].type;
    direct->fn = blocks_of(entry)->prim(prim->prim, operand_type);
    return direct->fn != NULL;
}

bool eager_direct_find(EagerEntry *entry) {
    Direct direct = {0};
    if (!blocks_of(entry)) return false;
    if (entry->sized) entry->sized->row = 1;
    if (entry->n_outs == 1 && (find_direct(entry, &direct) || find_reduction(entry, &direct))) {
        entry->kind = RUN_direct;
        entry->direct = direct;
        return true;
    }
    free_blocks(&direct);
    return false;
}
