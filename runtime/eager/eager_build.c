/* eager_build.c: entries of eager's cache: what a new signature means.
 *
 *   view, empty   interned metas and offsets: no program
 *   native        cpu_<body> on fresh outputs (rows that lowering does not know)
 *   the rest      graph of one node -> decompose -> plan -> interpreter programs; where that is one
 *                 primitive over contiguous operands of its compute type, the block kernel itself;
 *                 numbers that vary are runtime floats and free symbols of it
 *
 * In-place and out forms are the functional node, a cast where dtypes differ, and a write
 * [semantics G5]. */
#include <stdio.h>

#include "passes/passes.h"
#include "runtime/base/small_array.h"
#include "runtime/compile/compile.h"
#include "runtime/eager/eager.h"
#include "runtime/device/launch.h"

/* metas --------------------------------------------------------------------------------------- */

static Status set_result_meta(EagerResult *result, const MetaOut *out) {
    *result = (EagerResult){meta_intern_out(out), out->offset, out->alias};
    return result->meta ? ST_OK : error_pending();
}

Status eager_metas(const OpCall *call, int64_t base_offset, EagerMetas *metas) {
    const int capacity = call->row->returns_list ? MAX_LIST : call->row->n_out;
    MetaOut few[2], *const outs = SMALL_ARRAY(few, capacity);
    int n = capacity;
    metas->at = NULL;
    Status status = !outs ? ST_MEMORY : call_metas(call, base_offset, outs, &n);
    metas->n = call->row->returns_list ? n : call->row->n_out;
    if (status == ST_OK && !(metas->at = SMALL_ARRAY(metas->few, metas->n))) status = ST_MEMORY;
    for (int i = 0; i < metas->n && status == ST_OK; i++) status = set_result_meta(&metas->at[i], &outs[i]);
    small_array_free(few, outs);
    return status;
}

/* numbers ------------------------------------------------------------------------------------- */

bool eager_number_may_vary(const EagerCall *ec, int i) {
    const Arg *const a = &ec->call->args[i];
    const Param *const param = &ec->row->params[i];
    if (ec->exact || param->symbolic || !op_number_may_vary(ec->row, param)) return false; /* SymInt: eager_is_size */
    if (a->kind == ARG_int && a->i < SYM_LEAST) return false;                              /* no symbol's value */
    return !number_is_special(a->kind == ARG_float, a->i);
}

/* entries ------------------------------------------------------------------------------------- */

EagerEntry *eager_entry_new(const EagerCall *ec, const uint64_t *words, int n_words, RunKind kind, int n_outs) {
    EagerEntry *const entry = mem_zero(sizeof *entry + (size_t)n_words * sizeof(uint64_t));
    if (!entry) return NULL;
    entry->kind = kind;
    entry->has_program = true;
    entry->n_words = n_words;
    memcpy(entry->words, words, (size_t)n_words * sizeof(uint64_t));
    entry->n_outs = n_outs;
    entry->seed = entry->sequence = -1;
    entry->n_floats = ec->n_floats;
    entry->n_ints = ec->n_ints;
    entry->checked = mem_zero(((size_t)(ec->n_floats + ec->n_ints) + 1) * sizeof *entry->checked);
    entry->metas = mem_zero(((size_t)(n_outs + ec->n_tensors) + 1) * sizeof *entry->metas);
    entry->offsets = mem_zero(((size_t)n_outs + 1) * sizeof *entry->offsets);
    if (!entry->metas || !entry->offsets || !entry->checked) {
        eager_entry_free(entry);
        return NULL;
    }
    entry->n_metas = n_outs + ec->n_tensors;
    return entry;
}

void eager_entry_hold_operands(EagerEntry *entry, const EagerCall *ec) {
    for (int i = 0; i < ec->n_tensors; i++) eager_entry_hold(entry, entry->n_outs + i, ec->tensors[i]->base.meta);
}

void eager_entry_hold(EagerEntry *entry, int i, const Meta *meta) {
    meta_retain(meta);
    if (entry->metas[i]) meta_release(entry->metas[i]);
    entry->metas[i] = meta;
}

void eager_entry_free(EagerEntry *entry) {
    if (!entry) return;
    eager_program_free(&entry->program);
    mem_free(entry->sized);
    for (int i = 0; i < entry->n_metas; i++)
        if (entry->metas[i]) meta_release(entry->metas[i]);
    for (int i = 0; i < MAX_DIRECT; i++) mem_free(entry->direct.constant[i]);
    mem_free(entry->metas);
    mem_free(entry->offsets);
    mem_free(entry->checked);
    mem_free(entry);
}

static EagerEntry *entry_of_metas(const EagerCall *ec, RunKind kind, const EagerMetas *metas) {
    EagerEntry *const entry = eager_entry_new(ec, ec->words, ec->n_words, kind, metas->n);
    if (entry) eager_entry_hold_operands(entry, ec);
    for (int i = 0; entry && i < metas->n; i++) {
        eager_entry_hold(entry, i, metas->at[i].meta);
        entry->offsets[i] = metas->at[i].offset;
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
    METAS_OF_CALL moved;
    if (eager_metas(call, offset + 64, &moved) != ST_OK) {
        error_clear();
        return true;
    }
    return moved.n && moved.at[0].offset != metas->at[0].offset;
}

/* Nothing but layouts: a view, or memory whose elements are not set. */
static Status build_layout(EagerCall *ec, const EagerMetas *metas, EagerEntry **out, bool *transient) {
    const bool is_view = metas->at[0].alias >= 0;
    EagerEntry *const entry = entry_of_metas(ec, is_view ? RUN_view : RUN_native, metas);
    if (!entry) return ST_MEMORY;
    if (is_view) {
        const Arg *const arg = &ec->call->args[metas->at[0].alias];
        const Val *const base = arg->kind == ARG_tensors ? arg->vals[0] : arg->val;
        entry->base = tensor_number(ec, base);
        *transient |= depends_on_offset(ec->call, ((const sn_tensor *)base)->offset, metas);
    }
    entry->has_program = false;
    entry->bytes = eager_entry_bytes(entry);
    *out = entry;
    return ST_OK;
}

/* one-node graphs ----------------------------------------------------------------------------- */

typedef struct OneNode {
    EagerCall *ec;
    Graph *graph;
    GVal **inputs;
    int64_t first_size; /* of the symbols of ec->sizes: its number */
    Node *node;
} OneNode;

static Val *input_of(void *context, Val *val) {
    OneNode *const one = context;
    const int i = val ? tensor_number(one->ec, val) : -1;
    return i < 0 ? NULL : &one->inputs[i]->base;
}

/* A size of the call as the graph has it: a symbol where it is a parameter. */
static int64_t size_in(const OneNode *one, int64_t number) {
    for (int i = 0; i < one->ec->n_sizes && number >= 2; i++)
        if (one->ec->sizes[i] == number) return sym_free_at(one->graph->env, (int)one->first_size + i);
    return number;
}

static const Meta *meta_in(const OneNode *one, const Meta *meta) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    if (!one->ec->n_sizes) return meta;
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = size_in(one, meta->sizes[d]);
        strides[d] = size_in(one, meta->strides[d]);
    }
    SymEnv *const env = one->graph->env;
    if (meta_is_row_major(meta)) meta_contiguous_strides(env, sizes, meta->rank, strides);
    Meta *const made = meta_new(one->graph->arena, env, meta->dtype, meta->device, sizes, strides, meta->rank);
    if (made) made->wrapped = meta->wrapped;
    return made;
}

static Status make_inputs(OneNode *one) {
    Graph *const graph = one->graph;
    one->first_size = sym_free_count(graph->env);
    for (int i = 0; i < one->ec->n_sizes; i++) sym_free(graph->env, one->ec->sizes[i], 2);
    for (int i = 0; i < one->ec->n_tensors; i++) {
        const Meta *const meta = meta_in(one, one->ec->tensors[i]->base.meta);
        if (!meta) return ST_MEMORY;
        one->inputs[i] = graph_input(graph, arena_printf(graph->arena, "x%d", i), meta);
    }
    return ST_OK;
}

static Arg list_in(const OneNode *one, const Arg *list) {
    int64_t *const ints = ARENA_ARRAY(one->graph->arena, int64_t, list->n);
    for (int i = 0; ints && i < list->n; i++) ints[i] = size_in(one, list->ints[i]);
    return A_INTS(ints, list->n);
}

static void make_random(Graph *graph, const OpRow *row) {
    if (!(row->flags & OPF_random)) return;
    graph->seed = sym_free(graph->env, 1, 0);
    graph->sequence = sym_free(graph->env, 1, 0);
    graph->n_random = 1;
}

/* A number that varies; its place is that in the call's lists. */
static Arg parameter(Graph *graph, const Arg *number) {
    if (number->kind == ARG_int) return A_INT(sym_free(graph->env, number->i, SYM_LEAST));
    VEC_PUSH(graph->arena, &graph->runtime_floats, number->f);
    return (Arg){.kind = ARG_runtime, .i = graph->runtime_floats.n - 1};
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

static Arg arg_in(OneNode *one, int i) {
    EagerCall *const ec = one->ec;
    const Arg *const given = &ec->call->args[i];
    const Param *const param = &ec->row->params[i];
    const bool number = given->kind == ARG_int || given->kind == ARG_float;
    if (number && eager_number_varies(ec, i)) return parameter(one->graph, given);
    const bool are_sizes = ec->n_sizes && !ec->plain_numbers;
    if (are_sizes && given->kind == ARG_int && eager_is_size(param, given->i)) return A_INT(size_in(one, given->i));
    if (are_sizes && given->kind == ARG_ints && param->symbolic) return list_in(one, given);
    return arg_map_vals(one->graph->arena, *given, input_of, one);
}

static Status make_graph(OneNode *one) {
    EagerCall *const ec = one->ec;
    Graph *const graph = one->graph;
    Arg args[MAX_ARGS];
    one->inputs = ARENA_ARRAY(graph->arena, GVal *, ec->n_tensors);
    if (!one->inputs) return ST_MEMORY;
    make_random(graph, ec->row);
    TRY(make_inputs(one));
    for (int i = 0; i < ec->row->n_params; i++) args[i] = arg_in(one, i);
    Node *const node = one->node = graph_append(graph, ec->row, FORM_functional, args);
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
    return passes_run(one->graph, "one_op", &(PassOptions){.must_run = true});
}

/* any size ------------------------------------------------------------------------------------ */

static bool same_numbers(const Meta *a, const Meta *b) {
    return meta_same_sizes(a, b) && (!a->rank || !memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)a->rank));
}

static int tensor_like(const OneNode *one, const Meta *meta) {
    for (int i = 0; i < one->ec->n_tensors; i++)
        if (same_numbers(one->inputs[i]->base.meta, meta)) return i;
    return -1;
}

static Status set_sized_outputs(const OneNode *one, EagerEntry *entry) {
    EagerSized *const sized = entry->sized = mem_zero(sizeof *sized);
    if (!sized) return ST_MEMORY;
    sized->env = one->graph->env;
    sized->n_sizes = one->ec->n_sizes;
    for (int i = 0; i < one->node->n_outs; i++) {
        const GVal *const out = &one->node->outs[i];
        sized->outs[i].meta = out->base.meta;
        sized->outs[i].same_as = tensor_like(one, out->base.meta);
    }
    return ST_OK;
}

static Status make_program(OneNode *one, EagerEntry *entry) {
    EagerCall *const ec = one->ec;
    Bail exit = {.code = BAIL_none};
    const Status status = one->graph ? compile_exit(one->graph, make_plan, one, &exit) : ST_MEMORY;
    if (exit.code != BAIL_none) error_raise(status, "%s: %s", op_form_name(ec->row, ec->call->form), exit.message);
    TRY(status);
    if (ec->n_sizes) TRY(set_sized_outputs(one, entry));
    TRY(executable_new(one->graph->plan, true, NULL, NULL, &entry->program.run));
    eager_program_look(&entry->program);
    return ST_OK;
}

static Status build_plan(EagerCall *ec, EagerEntry *entry) {
    Arena *const arena = arena_new();
    if (!arena) return ST_MEMORY;
    OneNode one = {.ec = ec, .graph = graph_new(arena, ec->row->base)};
    const Status status = make_program(&one, entry);
    if (status != ST_OK) {
        arena_free(arena);
        return status;
    }
    if (one.graph->seed) entry->seed = (int)sym_expr(one.graph->env, one.graph->seed)->a;
    if (one.graph->sequence) entry->sequence = (int)sym_expr(one.graph->env, one.graph->sequence)->a;
    return ST_OK;
}

size_t eager_entry_bytes(const EagerEntry *entry) {
    enum { BLOCKS = 4, BLOCK_HEAD = 16 }; /* of the allocator: the entry, its metas, offsets and checked numbers */
    const int words = entry->n_words + entry->n_metas + 1 + entry->n_outs + 1 + entry->n_floats + entry->n_ints + 1;
    size_t bytes = sizeof *entry + (size_t)words * sizeof(uint64_t) + (size_t)BLOCKS * BLOCK_HEAD;
    bytes += entry->direct.constant_bytes;
    if (entry->program.run) bytes += executable_bytes(entry->program.run);
    return bytes + (entry->sized ? sizeof *entry->sized : 0);
}

/* A plan of nothing but the op itself: its kernel is called without the plan. */
static bool is_native(const EagerCall *ec, const Executable *run) {
    const Plan *const plan = run->plan;
    return ec->call->form == FORM_functional && plan->steps.n == 1 && plan->steps.at[0].kind == STEP_native &&
           plan->steps.at[0].row == ec->row;
}

/* Results depend on numbers: the plan says on which. */
static bool has_plain_results(const Executable *run) {
    for (int i = 0; i < run->plan->outputs.n; i++)
        if (run->plan->outputs.at[i].kind != OUT_none && !run->out_metas[i]) return false;
    return true;
}

/* What needs the plan no more lets it go. */
static void drop_plan(EagerEntry *entry) {
    const bool large = entry->kind == RUN_direct && entry->direct.n * entry->direct.row > EAGER_DIRECT_MOST;
    if (entry->kind == RUN_plan || large || entry->n_guards || entry->sized) return;
    eager_program_free(&entry->program);
}

static Status fill_entry(EagerCall *ec, EagerEntry *entry) {
    TRY(build_plan(ec, entry));
    entry->n_guards = sym_guard_count(entry->sized ? entry->sized->env : entry->program.run->plan->env);
    if (!entry->sized && !has_plain_results(entry->program.run)) return ST_OK;
    if (is_native(ec, entry->program.run))
        entry->kind = RUN_native;
    else
        eager_direct_find(entry);
    drop_plan(entry);
    return ST_OK;
}

static bool takes_limited_number(const EagerCall *ec) {
    for (int i = 0; i < ec->row->n_params; i++)
        if (op_limits_number(ec->row, i) && arg_is_number(&ec->call->args[i]) && eager_number_may_vary(ec, i))
            return true;
    return false;
}

/* Rules of pointwise ops look at numbers where ints are made of them, or say so; others ask for a probability. */
static bool rechecks(const EagerCall *ec, const EagerEntry *entry) {
    bool looks = ec->row->kind != KIND_pointwise || ec->row->flags & OPF_limits_numbers || takes_limited_number(ec);
    for (int i = 0; i < ec->n_tensors; i++) looks |= !dtype_is_float(ec->tensors[i]->base.meta->dtype);
    for (int i = 0; i < entry->n_outs; i++)
        looks |= !dtype_is_float((entry->sized ? entry->sized->outs[i].meta : entry->metas[i])->dtype);
    return looks && ec->n_floats + ec->n_ints && ec->call->form == FORM_functional;
}

Status eager_build(EagerCall *ec, EagerEntry **out, bool *transient) {
    METAS_OF_CALL metas;
    const sn_tensor *const first = ec->n_tensors ? ec->tensors[0] : NULL;
    TRY(eager_metas(ec->call, first ? first->offset : 0, &metas));
    if (ec->call->form == FORM_functional && metas.n && (metas.at[0].alias >= 0 || ec->row->flags & OPF_unset))
        return build_layout(ec, &metas, out, transient);
    EagerEntry *const entry = entry_of_metas(ec, RUN_plan, &metas);
    if (!entry) return ST_MEMORY;
    Status status = fill_entry(ec, entry);
    if (status != ST_OK && status != ST_MEMORY && ec->n_floats + ec->n_ints) {
        error_clear(); /* the op can't be made for any number: it is made for this one */
        entry->kind = RUN_exact;
        status = ST_OK;
    }
    if (status != ST_OK) {
        eager_entry_free(entry);
        return status;
    }
    entry->rechecks = rechecks(ec, entry);
    entry->bytes = eager_entry_bytes(entry);
    *out = entry;
    return ST_OK;
}

Status eager_build_sized(EagerCall *ec, const SizedSignature *key, EagerEntry **out) {
    EagerEntry *const entry = eager_entry_new(ec, key->words, key->n, RUN_plan, ec->row->n_out);
    const Status status = entry ? fill_entry(ec, entry) : ST_MEMORY;
    if (status == ST_MEMORY) {
        eager_entry_free(entry);
        return status;
    }
    if (status != ST_OK) {
        error_clear(); /* each size has a program of its own */
        entry->kind = RUN_exact;
        entry->n_guards = 0;
    } else {
        entry->rechecks = rechecks(ec, entry);
    }
    entry->bytes = eager_entry_bytes(entry);
    *out = entry;
    return ST_OK;
}
