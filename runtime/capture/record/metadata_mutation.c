/* metadata_mutation.c: in-place forms of views (t_, unsqueeze_, as_strided_, detach_). They write no memory: the handle
 * changes what it stands for.
 *
 *   h.t_()   v = t(h) by the functional row, recorded or run as any other; then h and v exchange what they stand
 *            for: h is the view, v, a temporary, what h was. Views of h, its history and records of a capture that
 *            meant the old h find v there.
 *
 * So no graph, pass or backend ever sees such a form, and gradients are those of the functional program [semantics G5].
 * As in PyTorch the version goes up (not by detach_), so that a backward which saved h says so. */
#include "runtime/capture/record/metadata_mutation.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/segment.h"
#include "runtime/autograd/tape.h"
#include "runtime/core/context_enter.h"

/* What a handle stands for; references, scope and block stay where they are. */
static void exchange(sn_tensor *a, sn_tensor *b) {
    const sn_tensor before = *a;
    struct Placeholder *const placeholder = a->placeholder;
    const uint8_t inference = (a->flags ^ b->flags) & TF_inference;
    a->base = b->base, b->base = before.base;
    a->keys = b->keys, b->keys = before.keys;
    a->storage = b->storage, b->storage = before.storage;
    a->offset = b->offset, b->offset = before.offset;
    a->autograd = b->autograd, b->autograd = before.autograd;
    a->flags ^= inference;
    b->flags ^= inference;
    atomic_store(&a->placeholder, b->placeholder);
    atomic_store(&b->placeholder, placeholder);
}

/* What the temporary would end with is the handle's memory; a level's handle ends with the level. A leaf keeps both. */
static Status check_exchange(const OpRow *row, const sn_tensor *self, const sn_tensor *view, bool leaf) {
    if (UNLIKELY(tensor_is_batched(view)) && !tensor_is_batched(self))
        return error_raise(ST_STATE,
                           "%s: inside of sn_func_grad and its like a tensor from outside would be changed in place; "
                           "sn_clone it there first",
                           op_form_name(row, FORM_inplace));
    if (LIKELY(!tensor_is_fake(view)) || tensor_is_fake(self) || leaf) return ST_OK;
    return error_raise(ST_STATE, "%s: a tensor with values would become one that is fake and has none",
                       op_form_name(row, FORM_inplace));
}

/* A leaf keeps its place in histories, its gradient and its hooks. */
static Status change(const OpRow *row, sn_tensor *self, sn_tensor *view, bool recorded) {
    const bool leaf = !recorded && tape_is_wanted_leaf(self);
    if (leaf && row->flags & OPF_nodiff) return tape_requires_grad(self, false);
    TRY(check_exchange(row, self, view, leaf));
    if (leaf) {
        tensor_set_meta(self, view->base.meta);
        self->offset = view->offset;
    } else {
        exchange(self, view);
        tape_view_of_old(self, view);
        capture_exchanged(self, view);
    }
    if (row->flags & OPF_nodiff) return ST_OK;
    if (self->placeholder)
        capture_mutated(self);
    else
        tensor_written(self);
    return ST_OK;
}

static Status record_view(const OpRow *row, const Arg *args, sn_tensor **view) {
    capture_mutates(!(row->flags & OPF_nodiff));
    const Status status = dispatch(row, FORM_functional, args, NULL, view);
    capture_mutates(false);
    return status;
}

static Status view_unrecorded(const OpRow *row, const Arg *args, sn_tensor **view) {
    const ContextSaved saved = context_enter(state_get(), CONTEXT_unrecorded);
    const Status status = dispatch(row, FORM_functional, args, NULL, view);
    context_leave(&saved);
    return status;
}

static Status mutate_inside(const OpRow *row, const Arg *args) {
    sn_tensor *const self = tensor_of(args[0].val), *view = NULL;
    bool recorded = false;
    TRY(capture_mutation(row, self, &recorded));
    const bool checked = !recorded && !(row->flags & OPF_nodiff) && state_get()->grad_mode == SN_GRAD_ON;
    if (checked && tape_tracks(self)) TRY(tape_check_inplace(self));
    TRY((recorded ? record_view : view_unrecorded)(row, args, &view));
    Capture *const c = capture_current();
    const bool entered = c && capture_enter(c); /* another thread that ends the segment binds the handles */
    const Status changed = change(row, self, view, recorded);
    capture_leave(c, entered);
    return changed;
}

static Status mutate_metadata(OpCall *call) {
    sn_state *const state = state_get();
    TRY(error_pending());
    const OpRow *const row = call->row;
    const Arg *const args = call->args;
    TRY(state_untraced(op_form_name(row, FORM_inplace)));
    call->outs[0] = NULL;
    if (args[0].kind != ARG_tensor || tensor_valid(tensor_of(args[0].val), row->name) != ST_OK) return error_pending();
    TRY(scope_push(state, false));
    const Status status = mutate_inside(row, args);
    scope_pop(state);
    if (status == ST_OK) return call->outs[0] = tensor_of(args[0].val), ST_OK;
    error_set_op(op_form_name(row, FORM_inplace));
    error_set_site(state->site);
    return status;
}

void metadata_mutation_start(void) {
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const row = op_row_at(i);
        if (row->kind == KIND_view && !row->alias_of) dispatch_register(row, KEY_ad_inplace_or_view, mutate_metadata);
    }
}
