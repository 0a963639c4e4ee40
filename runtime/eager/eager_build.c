/* eager_build.c: entries of eager's cache: what a new signature means.
 *
 *   view          interned metas and offsets
 *   native        cpu_<body> on fresh outputs (rows that lowering does not know)
 *   the rest      graph of one node -> decompose -> plan -> interpreter programs; where that is one
 *                 primitive over contiguous operands of its compute type, the block kernel itself
 *
 * In-place and out forms are the functional node, a cast where dtypes differ, and a write
 * [semantics G5]. */
#include <stdio.h>

#include "passes/passes.h"
#include "runtime/base/room.h"
#include "runtime/compile/compile.h"
#include "runtime/eager/eager.h"
#include "runtime/device/device.h"
#include "runtime/device/launch.h"

/* metas --------------------------------------------------------------------------------------- */

Status eager_metas(const OpCall *call, int64_t base_offset, EagerMetas *metas) {
    const int room = call->row->returns_list ? MAX_LIST : call->row->n_out;
    MetaOut few[MAX_OUTS], *const outs = ROOM(few, room);
    int n = room;
    Status status = !outs ? ST_MEMORY : call_metas(call, base_offset, outs, &n);
    metas->n = call->row->returns_list ? n : call->row->n_out;
    for (int i = 0; i < metas->n && status == ST_OK; i++) {
        metas->metas[i] = meta_intern_out(&outs[i]);
        metas->offsets[i] = outs[i].offset;
        metas->alias[i] = outs[i].alias;
        if (!metas->metas[i]) status = error_pending();
    }
    room_give(few, outs);
    return status;
}

/* entries ------------------------------------------------------------------------------------- */

static EagerEntry *entry_new(const EagerCall *ec, RunKind kind, int n_outs) {
    const int n_words = ec->n_words;
    EagerEntry *const entry = mem_zero(sizeof *entry + (size_t)n_words * sizeof(uint64_t));
    if (!entry) return NULL;
    entry->kind = kind;
    entry->n_words = n_words;
    memcpy(entry->words, ec->words, (size_t)n_words * sizeof(uint64_t));
    entry->n_outs = n_outs;
    entry->seed = entry->sequence = -1;
    entry->metas = mem_zero(((size_t)n_outs + 1) * sizeof *entry->metas);
    entry->offsets = mem_zero(((size_t)n_outs + 1) * sizeof *entry->offsets);
    if (entry->metas && entry->offsets) return entry;
    eager_entry_free(entry);
    return NULL;
}

void eager_entry_free(EagerEntry *entry) {
    if (!entry) return;
    executable_free(entry->run);
    for (int i = 0; i < MAX_DIRECT; i++) mem_free(entry->direct.constant[i]);
    mem_free(entry->metas);
    mem_free(entry->offsets);
    mem_free(entry);
}

static EagerEntry *entry_of_metas(const EagerCall *ec, RunKind kind, const EagerMetas *metas) {
    EagerEntry *const entry = entry_new(ec, kind, metas->n);
    for (int i = 0; entry && i < metas->n; i++) {
        entry->metas[i] = metas->metas[i];
        entry->offsets[i] = metas->offsets[i];
    }
    return entry;
}

static int tensor_number(const EagerCall *ec, const Val *val) {
    const sn_tensor *const t = (const sn_tensor *)val;
    for (int i = 0; i < ec->n_tensors; i++) {
        const sn_tensor *const other = ec->tensors[i];
        if (other == t ||
            (other->storage == t->storage && other->offset == t->offset && other->base.meta == t->base.meta))
            return i;
    }
    return -1;
}

/* Rules that speak of memory (as_strided) give offsets that depend on the base's: such an entry is
 * used once. */
static bool depends_on_offset(const OpCall *call, int64_t offset, const EagerMetas *metas) {
    EagerMetas moved;
    if (eager_metas(call, offset + 64, &moved) != ST_OK) {
        error_clear();
        return true;
    }
    return moved.n && moved.offsets[0] != metas->offsets[0];
}

static Status build_view(EagerCall *ec, const EagerMetas *metas, EagerEntry **out, bool *transient) {
    const Arg *const arg = &ec->call->args[metas->alias[0]];
    const Val *const base = arg->kind == ARG_tensors ? arg->vals[0] : arg->val;
    EagerEntry *const entry = entry_of_metas(ec, RUN_view, metas);
    if (!entry) return ST_MEMORY;
    entry->base = tensor_number(ec, base);
    *transient |= depends_on_offset(ec->call, ((const sn_tensor *)base)->offset, metas);
    *out = entry;
    return ST_OK;
}

/* one-node graphs ----------------------------------------------------------------------------- */

typedef struct OneNode {
    EagerCall *ec;
    Graph *graph;
    GVal **inputs;
    Plan *plan;
} OneNode;

static Val *input_of(void *context, Val *val) {
    OneNode *const one = context;
    const int i = val ? tensor_number(one->ec, val) : -1;
    return i < 0 ? NULL : &one->inputs[i]->base;
}

static void make_inputs(OneNode *one) {
    for (int i = 0; i < one->ec->n_tensors; i++) {
        const char *const name = arena_printf(one->graph->arena, "x%d", i);
        one->inputs[i] = graph_input(one->graph, name, one->ec->tensors[i]->base.meta);
    }
}

static void make_random(Graph *graph, const OpRow *row) {
    if (!(row->flags & OPF_random)) return;
    graph->seed = sym_free(graph->env, 1, 0);
    graph->sequence = sym_free(graph->env, 1, 0);
    graph->n_random = 1;
}

/* What the written tensor gets: the result in its dtype. */
static Status write_result(OneNode *one, const sn_tensor *target, GVal *value) {
    Graph *const graph = one->graph;
    GVal *const input = gval(input_of(one, (Val *)&target->base));
    Val *written = &value->base;
    if (written->meta->dtype != target->base.meta->dtype)
        written = E(&graph->builder, copy, V(&input->base), V(written), A_BOOL(0));
    if (!written) return error_pending();
    graph_write(graph, input, gval(written));
    return ST_OK;
}

static Status make_graph(OneNode *one) {
    EagerCall *const ec = one->ec;
    Graph *const graph = one->graph;
    Arg args[MAX_ARGS];
    one->inputs = ARENA_ARRAY(graph->arena, GVal *, ec->n_tensors);
    if (!one->inputs) return ST_MEMORY;
    make_inputs(one);
    make_random(graph, ec->row);
    for (int i = 0; i < ec->row->n_params; i++) args[i] = arg_map_vals(graph->arena, ec->call->args[i], input_of, one);
    Node *const node = graph_append(graph, ec->row, FORM_functional, args);
    if (!node) return error_pending();
    for (int i = 0; i < node->n_outs; i++) {
        if (ec->call->form == FORM_functional)
            graph_output(graph, &node->outs[i]);
        else if (ec->call->form == FORM_out)
            TRY(write_result(one, ec->call->out_args[i], &node->outs[i]));
        else if (i == 0)
            TRY(write_result(one, tensor_of(ec->call->args[0].val), &node->outs[i]));
    }
    return ST_OK;
}

static Status make_plan(void *context) {
    OneNode *const one = context;
    TRY(make_graph(one));
    return passes_run(one->graph, "decompose," PLAN_PASSES, &(PassOptions){.must_run = true});
}

static Status build_plan(EagerCall *ec, EagerEntry *entry) {
    Arena *const arena = arena_new();
    if (!arena) return ST_MEMORY;
    OneNode one = {.ec = ec, .graph = graph_new(arena, ec->row->base)};
    Bail exit = {.code = BAIL_none};
    Status status = one.graph ? compile_exit(one.graph, make_plan, &one, &exit) : ST_MEMORY;
    if (exit.code != BAIL_none) error_raise(status, "%s: %s", op_form_name(ec->row, ec->call->form), exit.message);
    if (status == ST_OK) status = executable_new(one.graph->plan, true, NULL, NULL, &entry->run);
    if (status != ST_OK) {
        arena_free(arena);
        return status;
    }
    if (one.graph->seed) entry->seed = (int)sym_expr(one.graph->env, one.graph->seed)->a;
    if (one.graph->sequence) entry->sequence = (int)sym_expr(one.graph->env, one.graph->sequence)->a;
    return ST_OK;
}

/* one primitive ------------------------------------------------------------------------------- */

/* The device's functions of one block. */
static const KernelTable *blocks_of(const EagerEntry *entry) {
    const DeviceRow *const device = device_row(entry->run->device);
    return device->blocks ? device->blocks() : NULL;
}

/* Walks memory element by element over the first n_dims dims of a nest. */
static bool is_dense(const Nest *nest, const Inst *inst, int n_dims) {
    int64_t expected = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        if (nest->extent[d] != 1 && inst->at->coef[d] != expected) return false;
        expected *= nest->extent[d];
    }
    return !inst->at->offset;
}

/* Blocks hold the compute type; these dtypes are it. */
static bool is_compute_dtype(DType dtype, SType type) {
    return dtype_compute(dtype) == type && dtype_bytes(dtype) == stype_bytes(type);
}

static bool direct_constant(Direct *direct, int i, const Inst *inst) {
    const int bytes = stype_bytes((SType)inst->type);
    char *const block = mem_aligned(64, (size_t)BLOCK * (size_t)bytes);
    if (!block) return false;
    const float single = (float)inst->f;
    const int32_t narrow = (int32_t)inst->i;
    const void *const value = inst->type == S_f32   ? (const void *)&single
                              : inst->type == S_i32 ? (const void *)&narrow
                                                    : (const void *)&inst->f;
    for (int k = 0; k < BLOCK; k++) memcpy(block + (size_t)k * (size_t)bytes, value, (size_t)bytes);
    direct->constant[i] = block;
    direct->operand[i] = DIRECT_const;
    direct->bytes[i] = 0;
    return true;
}

static int slot_tensor(const Plan *plan, int slot) {
    return slot >= 0 && plan->slots.at[slot].kind == SLOT_input ? plan->slots.at[slot].index : -1;
}

static bool direct_operand(const Plan *plan, const Nest *nest, int inst_id, Direct *direct, int i) {
    direct->operand[i] = -1;
    if (inst_id < 0) return true;
    const Step *const step = &plan->steps.at[0];
    const Inst *const inst = &nest->insts[inst_id];
    if (inst->op == LI_const) return direct_constant(direct, i, inst);
    if (inst->op != LI_load || !is_dense(nest, inst, nest->n_outer + nest->n_inner)) return false;
    const DType dtype = step->kernel->bufs[inst->buf].dtype;
    direct->operand[i] = slot_tensor(plan, step->bufs[inst->buf]);
    direct->bytes[i] = dtype_bytes(dtype);
    return direct->operand[i] >= 0 && is_compute_dtype(dtype, (SType)inst->type);
}

static const Nest *only_nest(const Plan *plan) {
    if (plan->steps.n != 1 || plan->steps.at[0].kind != STEP_kernel) return NULL;
    const Kernel *const kernel = plan->steps.at[0].kernel;
    if (kernel->template || kernel->n_nests != 1 || kernel->n_params) return NULL;
    const Nest *const nest = &kernel->nests[0];
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (sym_is(nest->extent[d])) return NULL;
    return nest;
}

static int64_t product(const int64_t *extent, int n) {
    int64_t total = 1;
    for (int d = 0; d < n; d++) total *= extent[d];
    return total;
}

/* The store of the plan's one result, which is dense; NULL: there is none such. */
static const Inst *only_store(const Plan *plan, const Nest *nest, Direct *direct) {
    const Inst *const store = &nest->insts[nest->n_insts - 1];
    const Step *const step = &plan->steps.at[0];
    if (store->op != LI_store || !is_dense(nest, store, nest->n_outer)) return NULL;
    const DType dtype = step->kernel->bufs[store->buf].dtype;
    if (!is_compute_dtype(dtype, (SType)nest->insts[store->a].type)) return NULL;
    direct->target = slot_tensor(plan, step->bufs[store->buf]);
    direct->out_bytes = dtype_bytes(dtype);
    direct->n = product(nest->extent, nest->n_outer);
    direct->row = 1;
    return store;
}

/* True where the plan is load, reduce, store, and a row is one chunk of order L. */
static bool find_reduction(const EagerEntry *entry, Direct *direct) {
    const Plan *const plan = entry->run->plan;
    const Nest *const nest = only_nest(plan);
    if (!nest || !nest->n_inner || nest->n_s || nest->n_insts != 3) return false;
    const Inst *const store = only_store(plan, nest, direct);
    const Inst *const reduce = store ? &nest->insts[store->a] : NULL;
    if (!reduce || reduce->op != LI_reduce || reduce->b >= 0) return false;
    direct->row = product(nest->extent + nest->n_outer, nest->n_inner);
    if (direct->row < 1 || direct->row > CHUNK_L || !direct_operand(plan, nest, reduce->a, direct, 0)) return false;
    if (direct->operand[0] == DIRECT_const || reduce->prim == RED_argmax || reduce->prim == RED_argmin) return false;
    direct->operand[1] = direct->operand[2] = -1;
    direct->reduce = blocks_of(entry)->reduce_L(reduce->prim, (SType)reduce->type);
    return direct->reduce != NULL;
}

/* True where the plan is load..., prim, store over one contiguous range. */
static bool find_direct(const EagerEntry *entry, Direct *direct) {
    const Plan *const plan = entry->run->plan;
    const Nest *const nest = only_nest(plan);
    if (!nest || nest->n_inner) return false;
    const Inst *const store = only_store(plan, nest, direct);
    if (!store || nest->insts[store->a].op != LI_prim) return false;
    const Inst *const prim = &nest->insts[store->a];
    const int ids[MAX_DIRECT] = {prim->a, prim->b, prim->c};
    int n_used = 2; /* the primitive and the store */
    for (int i = 0; i < MAX_DIRECT; i++) {
        if (!direct_operand(plan, nest, ids[i], direct, i)) return false;
        bool counted = ids[i] < 0;
        for (int k = 0; k < i; k++) counted |= ids[k] == ids[i];
        n_used += !counted;
    }
    if (n_used != nest->n_insts) return false;
    const SType operand_type = (SType)nest->insts[prim->prim == PRIM_select ? prim->b : prim->a].type;
    direct->fn = blocks_of(entry)->prim(prim->prim, operand_type);
    return direct->fn != NULL;
}

static void try_direct(EagerEntry *entry) {
    Direct direct = {0};
    if (!blocks_of(entry)) return;
    if (entry->n_outs == 1 && (find_direct(entry, &direct) || find_reduction(entry, &direct))) {
        entry->kind = RUN_direct;
        entry->direct = direct;
        return;
    }
    for (int i = 0; i < MAX_DIRECT; i++) mem_free(direct.constant[i]);
}

/* A plan of nothing but the op itself: its kernel is called without the plan. */
static bool is_native(const EagerCall *ec, const Executable *run) {
    const Plan *const plan = run->plan;
    return ec->call->form == FORM_functional && plan->steps.n == 1 && plan->steps.at[0].kind == STEP_native &&
           plan->steps.at[0].row == ec->row;
}

static Status fill_entry(EagerCall *ec, EagerEntry *entry) {
    TRY(build_plan(ec, entry));
    if (is_native(ec, entry->run))
        entry->kind = RUN_native;
    else
        try_direct(entry);
    return ST_OK;
}

Status eager_build(EagerCall *ec, EagerEntry **out, bool *transient) {
    EagerMetas metas;
    const sn_tensor *const first = ec->n_tensors ? ec->tensors[0] : NULL;
    TRY(eager_metas(ec->call, first ? first->offset : 0, &metas));
    if (ec->call->form == FORM_functional && metas.n && metas.alias[0] >= 0)
        return build_view(ec, &metas, out, transient);
    EagerEntry *const entry = entry_of_metas(ec, RUN_plan, &metas);
    if (!entry) return ST_MEMORY;
    const Status status = fill_entry(ec, entry);
    if (status != ST_OK) {
        eager_entry_free(entry);
        return status;
    }
    *out = entry;
    return ST_OK;
}
