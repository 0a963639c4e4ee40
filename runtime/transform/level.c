/* level.c: the key of transforms' levels: which kind of level changes a call, and what all kinds do alike: handles
 * unwrapped and wrapped, tensors that may not be written. */
#include "runtime/transform/level.h"

#include "runtime/base/alloc.h"
#include "runtime/core/tracer.h"
#include "runtime/transform/vmap.h"

/* entering and leaving ------------------------------------------------------------------------ */

Level level_new(sn_state *state, LevelKind kind) {
    return (Level){.outer = state->level, .id = ++state->level_ids, .kind = kind, .around = state->context};
}

/* Gradients of a level are its own: on, whatever they are outside. */
void level_enter(sn_state *state, Level *level) {
    state->level = level;
    context_key_set(state, KEY_BIT(vmap), true);
    context_keys_begin(state, KEYS_OF_LEVELS);
    if (level->kind == LEVEL_grad) state_grad_mode_set(state, SN_GRAD_ON);
}

/* Further out gradients are off where they were, and where the body has them off, as in torch.func. */
void level_leave(sn_state *state, const Level *level) {
    state->level = level->outer;
    if (!level->outer) {
        context_key_set(state, KEY_BIT(vmap), false);
        state->exclude |= level->around.exclude & KEYS_OF_LEVELS;
    }
    if (level->kind != LEVEL_grad) return;
    const bool outer_is_off = level->around.grad_mode > state->grad_mode;
    if (outer_is_off) state_grad_mode_set(state, level->around.grad_mode);
    state->exclude |= level->around.exclude & (KEY_BIT(autograd) | KEY_BIT(ad_inplace_or_view));
}

Status level_run(sn_state *state, Level *level, sn_frame *frame, sn_body body) {
    const uint64_t include = state->include, exclude = state->exclude;
    const sn_grad_mode mode = state->grad_mode;
    level_enter(state, level);
    const Status status = frame_run(frame, body);
    state->level = level->outer;
    state->include = (state->include & ~KEY_BIT(vmap)) | (include & KEY_BIT(vmap));
    state->exclude = exclude;
    if (level->kind == LEVEL_grad) state->grad_mode = mode;
    return status;
}

/* what a call's tensors are ------------------------------------------------------------------- */

typedef bool VisitVal(const void *context, const Val *val);

static bool any_tensor(const OpCall *call, VisitVal *visit, const void *context) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val && visit(context, arg->val)) return true;
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (arg->vals[k] && visit(context, arg->vals[k])) return true;
    }
    for (int i = 0; call->out_args && i < call->row->n_out; i++)
        if (visit(context, &call->out_args[i]->base)) return true;
    return false;
}

static bool is_of_level(const void *level, const Val *val) { return level_inner(level, val) != NULL; }

/* A handle that outlived its vmap, or that belongs to one further in. */
static bool is_stray(const void *levels, const Val *val) {
    const sn_tensor *const t = (const sn_tensor *)val;
    if (!tensor_is_batched(t)) return false;
    for (const Level *level = levels; level; level = level->outer)
        if (t->level == level->id) return false;
    return true;
}

static Status check_stray(const OpCall *call, const Level *levels) {
    if (tracer_refuses(state_get())) return ST_OK; /* the op that the body becomes has them, and is asked */
    if (LIKELY(!any_tensor(call, is_stray, levels))) return ST_OK;
    return error_raise(ST_STATE,
                       "%s: a tensor of an sn_vmap (or another transform) that has ended, or of one further in; its "
                       "results come by sn_out",
                       op_form_name(call->row, call->form));
}

/* writing ------------------------------------------------------------------------------------- */

int level_n_written(const OpCall *call) {
    return call->form == FORM_inplace ? 1 : call->form == FORM_out ? call->row->n_out : 0;
}

/* A handle that stands for what the body got, or a view of it, is no better than what it got. */
static bool is_writable(const Level *level, const Val *val) {
    const sn_tensor *const t = (const sn_tensor *)val;
    return level_inner(level, val) && !(t->storage && t->storage->read_only);
}

/* Arguments that a user's op writes are written in place, too. */
static const Val *written_argument(const OpCall *call, const Level *level) {
    for (int i = 0; call->form == FORM_functional && i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        const bool written = arg->kind == ARG_tensor && param_is_written(&call->row->params[i]);
        if (written && !is_writable(level, arg->val)) return arg->val;
    }
    return NULL;
}

Status level_check_targets(const OpCall *call, const Level *level) {
    const Val *bad = written_argument(call, level);
    for (int i = 0; i < level_n_written(call) && !bad; i++)
        if (!is_writable(level, &call_written(call, i)->base)) bad = &call_written(call, i)->base;
    if (!bad) return ST_OK;
    if (level->kind != LEVEL_vmap)
        return error_raise(ST_STATE,
                           "%s: inside of sn_func_grad and its like a tensor from outside would be written in place; "
                           "sn_clone it there first",
                           op_form_name(call->row, call->form));
    return error_raise(ST_STATE,
                       "%s: sn_vmap: the values of %lld examples would be written into one tensor, which is "
                       "not batched",
                       op_form_name(call->row, call->form), (long long)level->size);
}

/* handles ------------------------------------------------------------------------------------- */

Status level_adopt(sn_tensor *t) {
    if (tensor_in_scope(t)) return ST_OK;
    tensor_retain(t);
    return scope_adopt(state_get(), t) ? ST_OK : ST_MEMORY;
}

sn_tensor *level_input(const Level *level, sn_tensor *x) {
    sn_tensor *const t = tensor_wrapped(x, level->id, NULL);
    if (t) t->storage->read_only = true;
    return t;
}

Status level_args_map(LevelArgs *a, const OpCall *call, const Level *level, LevelMap *map) {
    a->lists = NULL;
    const int items = call_list_items(call);
    if (items && !(a->lists = mem_zero(sizeof *a->lists * (size_t)items))) return ST_MEMORY;
    Val **buffer = a->lists;
    memcpy(a->args, call->args, sizeof *a->args * (size_t)call->row->n_params);
    for (int i = 0; i < call->row->n_params; i++) {
        Arg *const arg = &a->args[i];
        if (arg->kind == ARG_tensor && arg->val && !(arg->val = map(level, arg->val))) return error_pending();
        if (arg->kind != ARG_tensors) continue;
        for (int k = 0; k < arg->n; k++)
            if (arg->vals[k] && !(buffer[k] = map(level, arg->vals[k]))) return error_pending();
        arg->vals = buffer;
        buffer += arg->n;
    }
    for (int i = 0; call->out_args && i < call->row->n_out; i++)
        if (!(a->out_args[i] = tensor_of(map(level, &call->out_args[i]->base)))) return error_pending();
    return ST_OK;
}

void level_args_end(LevelArgs *a) { mem_free(a->lists); }

Val *level_unwrap(const Level *level, Val *val) { return &level_outside(level, tensor_of(val))->base; }

Status level_run_inner(const OpCall *call, const Level *level, sn_tensor **outs, int *n) {
    __attribute__((cleanup(level_args_end))) LevelArgs a = {0};
    sn_state *const state = state_get();
    const OpRow *const row = call->row;
    *n = row->n_out;
    TRY(level_args_map(&a, call, level, level_unwrap));
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    level_leave(state, level);
    if (!row->returns_list) memset(outs, 0, sizeof *outs * (size_t)*n);
    const Status status = row->returns_list
                              ? dispatch_list(row, a.args, outs, n)
                              : dispatch(row, call->form, a.args, call->out_args ? a.out_args : NULL, outs);
    scope_pop_passing(state, depth, outs, status == ST_OK ? *n : 0);
    return status;
}

/* Of a view: the handle of what it shows. */
static const sn_tensor *viewed(const OpCall *call, const Level *level) {
    if (call->row->kind != KIND_view || call->args[0].kind != ARG_tensor) return NULL;
    return level_inner(level, call->args[0].val) ? tensor_of(call->args[0].val) : NULL;
}

/* A view of what is no handle. */
static bool shows_outside(const OpCall *call, const Level *level) {
    return call->row->kind == KIND_view && call->args[0].kind == ARG_tensor && !level_inner(level, call->args[0].val);
}

/* What a user's op writes among its arguments has a new version, too. */
static void bump_versions(const OpCall *call, const Level *level) {
    for (int i = 0; call->form == FORM_functional && call->row->flags & OPF_user && i < call->row->n_params; i++) {
        const bool written = call->args[i].kind == ARG_tensor && param_is_written(&call->row->params[i]);
        if (written && level_inner(level, call->args[i].val)) tensor_written(tensor_of(call->args[i].val));
    }
}

Status level_wrap_results(OpCall *call, const Level *level, sn_tensor *const *outs, int n) {
    call->n_outs = n;
    bump_versions(call, level);
    for (int i = 0; i < n; i++) {
        if (call->form == FORM_functional) {
            call->outs[i] = outs[i] ? tensor_wrapped(outs[i], level->id, viewed(call, level)) : NULL;
            if (outs[i] && !call->outs[i]) return ST_MEMORY;
            if (outs[i] && shows_outside(call, level)) call->outs[i]->storage->read_only = true;
            continue;
        }
        sn_tensor *const t = call->outs[i] = call_written(call, i);
        tensor_written(t);
        if (t->base.meta != t->inner->base.meta) tensor_set_meta(t, t->inner->base.meta);
    }
    return ST_OK;
}

/* the key's kernel ---------------------------------------------------------------------------- */

Status level_pass(OpCall *call) {
    if (!call->row->returns_list) return dispatch(call->row, call->form, call->args, call->out_args, call->outs);
    return dispatch_list(call->row, call->args, call->outs, &call->n_outs);
}

bool level_has(const OpCall *call, const Level *level) { return any_tensor(call, is_of_level, level); }

/* One example's call is cast by its policy, and comes by again. */
static bool cast_is_due(const sn_state *state, const OpCall *call) {
    return state->include & ~state->exclude & call->keys & KEY_BIT(autocast) && call->form == FORM_functional;
}

static Status cast_first(OpCall *call) {
    OpKernel *const kernel = dispatch_entry(call->row, KEY_autocast);
    call->keys = (call->keys & ~KEY_BIT(autocast)) | KEY_BIT(vmap);
    call->key = KEY_autocast;
    return kernel(call);
}

static Status level_op(OpCall *call) {
    sn_state *const state = state_get();
    const Level *const level = state->level;
    TRY(check_stray(call, level));
    if (!level) return redispatch(call);
    if (cast_is_due(state, call)) return cast_first(call);
    if (call->row->kind == KIND_composite) return composite_expand(call, call->args, NULL, NULL);
    if (level->kind == LEVEL_grad) return grad_op(call, level);
    return level->kind == LEVEL_dual ? dual_op(call, level) : vmap_op(call, level);
}

void level_start(void) {
    dispatch_fallback(KEY_vmap, level_op);
    grad_level_start();
}
