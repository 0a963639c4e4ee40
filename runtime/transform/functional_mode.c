/* functional_mode.c: the key `functionalize`: below it ops are out of place and read no views.
 *
 *   v = select(x, 0, 1)     a view, as ever; the tape above notes how x became v
 *   v.add_(y)               %0 = select_copy(x, 0, 1)         v, as an op of its own
 *                           %1 = add(%0, y)
 *                           %2 = sn::view_scatter(x, %1, ...) x, with v's part replaced
 *                           x's memory takes %2, which no key sees: all tensors that share it have the new value
 *   w.mul(v)                %3 = select_copy(x, 0, 1); mul(w, %3)
 *
 * So user modes, which stand below, see a program without in-place ops, out forms and views; the tape, which stands
 * above, the one that was called, and gradients and versions are those of eager. Compiled functions, whose graphs are
 * functional anyway, are captured and run in the mode as without it. */
#include "runtime/transform/functional_mode.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/small_array.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/eager/eager.h"

/* All of its memory, from the first element to the last, is in t. */
static bool is_whole(const sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    if (!t->storage || t->offset || tape_view_base(t)) return !t->storage;
    return (size_t)(meta->numel * dtype_bytes(meta->dtype)) == t->storage->bytes && !meta_overlaps(meta);
}

/* A copy of the view that ops below are given in its place; the innermost scope's. */
static Status read_view(Val **val, bool *copied) {
    sn_tensor *copy = NULL;
    if (!*val || is_whole(tensor_of(*val))) return ST_OK;
    TRY(tape_view_copy(tensor_of(*val), &copy));
    *val = &copy->base;
    *copied = true;
    return ST_OK;
}

static Status read_views(const OpCall *call, Arg *args, Val **list, bool *copied) {
    for (int i = 0; i < call->row->n_params; i++) {
        args[i] = call->args[i];
        if (args[i].kind == ARG_tensor) TRY(read_view(&args[i].val, copied));
        if (args[i].kind != ARG_tensors) continue;
        memcpy(list, args[i].vals, sizeof *list * (size_t)args[i].n);
        args[i].vals = list;
        for (int k = 0; k < args[i].n; k++) TRY(read_view(&list[k], copied));
        list += args[i].n;
    }
    return ST_OK;
}

/* Layouts that differ at most in the strides of dims of size 1. */
static bool same_places(const Meta *a, const Meta *b) {
    bool same = true;
    for (int i = 0; i < a->rank; i++) same &= a->sizes[i] == 1 || a->strides[i] == b->strides[i];
    return same || !a->numel;
}

static Status lay_out(sn_tensor **t, const Meta *meta) {
    if (same_places((*t)->base.meta, meta) && !(*t)->offset) return tape_lay_out(t, meta);
    return (*t = tape_clone(*t, meta)) ? ST_OK : error_pending();
}

/* Results have the strides that they have by the operands' own: a copy of a view with gaps has none, and its dims of
 * size 1 other strides. What a mode made of another size or dtype is its own. */
static Status lay_out_results(const OpCall *call, sn_tensor **outs, int n_outs) {
    if (!call->row->meta || call->row->flags & OPF_host) return ST_OK;
    METAS_OF_CALL metas;
    TRY(eager_metas(call, 0, &metas));
    for (int i = 0; i < n_outs && i < metas.n; i++) {
        const Meta *const is = outs[i]->base.meta, *const meta = metas.at[i].meta;
        if (metas.at[i].alias >= 0 || is->dtype != meta->dtype || !meta_same_sizes(is, meta)) continue;
        if (!meta_same_layout(is, meta)) TRY(lay_out(&outs[i], meta));
    }
    return ST_OK;
}

/* The functional form of the call, on copies of views. */
static Status run_functional(const OpCall *call, sn_tensor **outs, int *n_outs) {
    Arg args[MAX_ARGS];
    bool copied = false;
    Val *few[32], **const list = SMALL_ARRAY(few, call_list_items(call));
    if (!list) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, list};
    TRY(read_views(call, args, list, &copied));
    OpCall functional = *call;
    functional.form = FORM_functional;
    functional.args = args;
    functional.out_args = NULL;
    functional.outs = outs;
    TRY(redispatch(&functional));
    *n_outs = functional.n_outs;
    return copied && call->form == FORM_functional ? lay_out_results(call, outs, *n_outs) : ST_OK;
}

/* Memory takes a value: below every mode. */
static Status memory_alloc(sn_tensor *to, sn_tensor *value) {
    sn_tensor *written;
    return tape_dispatch(OP_ROW(copy), FORM_inplace, (const Arg[]){V(&to->base), V(&value->base), A_BOOL(0)}, &written);
}

/* What a write of value into the view t makes of its base. */
static Status scatter(sn_tensor *base, const sn_tensor *t, sn_tensor *value, sn_tensor **out) {
    const Meta *const meta = t->base.meta;
    const Arg args[] = {V(&base->base), V(&value->base), A_INTS(meta->sizes, meta->rank),
                        A_INTS(meta->strides, meta->rank), A_INT(t->offset - base->offset)};
    return dispatch(OP_ROW(view_scatter), FORM_functional, args, NULL, out);
}

static Status write(sn_tensor *t, sn_tensor *value) {
    sn_tensor *const base = tape_view_base(t), *whole = NULL;
    const DType dtype = t->base.meta->dtype;
    if (value->base.meta->dtype != dtype)
        value = tensor_of(E(eager_builder(), _to_copy, A_VAL(&value->base), A_INT(dtype)));
    if (!value) return error_pending();
    /* A base whose elements may share memory takes no value as a whole: which of them would stand? */
    if (!base || base->base.meta->dtype != dtype || meta_overlaps(base->base.meta)) return memory_alloc(t, value);
    TRY(scatter(base, t, value, &whole));
    return memory_alloc(base, whole);
}

/* An out tensor that is resized is one anyway. */
static bool fits(const OpCall *call, const EagerMetas *metas) {
    for (int i = 0; i < call->row->n_out; i++)
        if (!meta_same_sizes(call_written(call, i)->base.meta, metas->at[i].meta)) return false;
    return true;
}

static Status run_written(OpCall *call) {
    sn_tensor *values[MAX_OUTS] = {0};
    METAS_OF_CALL metas;
    int n = 0;
    TRY(eager_metas(call, 0, &metas)); /* what is wrong with this form */
    if (!fits(call, &metas)) return redispatch(call);
    TRY(eager_check_written(call));
    TRY(run_functional(call, values, &n));
    for (int i = 0; i < call->row->n_out; i++) {
        call->outs[i] = call_written(call, i);
        TRY(write(call->outs[i], values[i]));
    }
    return ST_OK;
}

/* Handles of views are no ops: who reads one makes a copy. A user's op writes what its schema says, itself. */
static bool stays_as_it_is(const OpCall *call) {
    const DynamicOp *const custom = op_dynamic(call->row);
    const uint64_t backends = call->keys & KEYS_BACKEND; /* several: a copy from one device to another */
    return call->row->role == ROLE_resizes || (custom && custom->n_written) || backends & (backends - 1);
}

static Status run_below(OpCall *call) {
    if (call->form != FORM_functional) return run_written(call);
    return run_functional(call, call->outs, &call->n_outs);
}

static Status functionalize(OpCall *call) {
    if (stays_as_it_is(call)) return redispatch(call);
    if (call->row->kind == KIND_view && call->form == FORM_functional) return redispatch_excluding(call, KEY_BIT(mode));
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_below_modes);
    const Status status = run_below(call);
    const bool fresh = status == ST_OK && call->form == FORM_functional;
    scope_pop_passing(state, depth, call->outs, fresh ? call->n_outs : 0);
    return status;
}

void functional_mode_start(void) { dispatch_fallback(KEY_functionalize, functionalize); }
