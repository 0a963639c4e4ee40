/* autograd_view.c: in-place ops on views. A view remembers its base and the ops that lead from the
 * base to it. When a recorded op writes into the view, the base gets a new history, in which the
 * written part comes from that op [G5]:
 *
 *   base --(CopySlices)--> base'        base' = base with the written part replaced
 *   v = base[0]; v.mul_(w)              gradient of base' : to base with the part set to 0; the
 *                                       part to MulBackward
 *
 * Views of that base are then stale (their generation differs) and get their history by replaying
 * their ops on the base, when it is next asked for. */
#include "runtime/autograd/tape.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/core/context_enter.h"

struct TapeView {
    _Atomic int32_t refs;
    uint16_t block;
    bool no_grad;     /* made while grad mode was off */
    bool of_leaf;     /* made from a leaf that requires gradients and is a view itself, as parts of one buffer are */
    int result;       /* of a Tensor[] op */
    TapeView *parent; /* the view that this one was made from; NULL: the base */
    const OpRow *row;
    Arg args[]; /* [0] is the tensor: not set */
};

static TapeView *view_retain(TapeView *view) {
    if (view) atomic_fetch_add(&view->refs, 1);
    return view;
}

TapeView *tape_view_of(const sn_tensor *self) { return view_retain(self->autograd ? self->autograd->view : NULL); }

TapeView *tape_view_step(TapeView *parent, const TapeViewOp *op) {
    const size_t list = (size_t)op->row->n_params * sizeof(Arg);
    uint16_t block;
    TapeView *const view = tape_block_alloc(sizeof *view + list + tape_args_bytes(op->row, op->args), &block);
    if (!view) {
        tape_view_release(parent);
        return NULL;
    }
    *view = (TapeView){.block = block, .result = op->result, .row = op->row, .parent = parent, .no_grad = op->no_grad};
    atomic_init(&view->refs, 1);
    tape_args_copy(op->row, op->args, view->args, view->args + op->row->n_params);
    view->args[0] = A_NONE;
    return view;
}

void tape_view_release(TapeView *view) {
    while (view && atomic_fetch_sub(&view->refs, 1) == 1) {
        TapeView *const parent = view->parent;
        tape_block_free(view, view->block);
        view = parent;
    }
}

/* A base that changed its layout in place is a view itself, of a handle that stands for what it was. */
static sn_tensor *base_of(AutogradMeta *meta) {
    while (meta->base->autograd && meta->base->autograd->view) {
        sn_tensor *const older = meta->base->autograd->base;
        tensor_retain(older);
        tensor_release(meta->base);
        meta->base = older;
    }
    return meta->base;
}

void tape_view_of_old(sn_tensor *self, sn_tensor *old) {
    AutogradMeta *const meta = self->autograd;
    if (!meta || meta->base != self) return;
    meta->base = old;
    tensor_retain(old);
    tensor_release(self);
}

void tape_view_end(sn_tensor *t) {
    AutogradMeta *const meta = t->autograd;
    if (!meta || !meta->view) return;
    tape_view_release(meta->view);
    tensor_release(meta->base);
    meta->view = NULL;
    meta->base = NULL;
}

static uint32_t generation_of(const sn_tensor *base) { return base->autograd ? base->autograd->generation : 0; }

Status tape_view_set(sn_tensor *t, sn_tensor *self, TapeView *view) {
    AutogradMeta *const meta = view ? tape_meta(t) : NULL;
    if (!meta) {
        tape_view_release(view);
        return ST_MEMORY;
    }
    sn_tensor *const base = tape_view_base(self);
    meta->view = view;
    meta->base = base ? base : self;
    view->of_leaf = base && (tape_is_wanted_leaf(self) || self->autograd->view->of_leaf);
    tensor_retain(meta->base);
    meta->generation = generation_of(meta->base);
    return ST_OK;
}

static Status set_step(sn_tensor *t, sn_tensor *self, const TapeViewOp *op) {
    return tape_view_set(t, self, tape_view_step(tape_view_of(self), op));
}

/* as_strided counts from where the storage begins, views of the tape from the first element of what they view. */
static TapeViewOp view_op(const OpCall *call, Arg *buffer) {
    const bool no_grad = state_get()->grad_mode != SN_GRAD_ON;
    if (LIKELY(call->row->role != ROLE_storage))
        return (TapeViewOp){.row = call->row, .args = call->args, .no_grad = no_grad};
    memcpy(buffer, call->args, (size_t)call->row->n_params * sizeof *buffer);
    buffer[3] = A_INT(tape_offset(call));
    return (TapeViewOp){.row = OP_ROW(view_of), .args = buffer, .no_grad = no_grad};
}

/* What an out form writes is no view, also where it shares the argument's storage already. */
Status tape_view_record(OpCall *call) {
    if (call->row->n_params == 0 || call->args[0].kind != ARG_tensor) return ST_OK;
    if (call->form == FORM_out || !tape_notes(call->row)) return ST_OK;
    sn_tensor *const self = tensor_of(call->args[0].val);
    Arg buffer[MAX_ARGS];
    TapeViewOp op = view_op(call, buffer);
    for (int i = 0; i < call->n_outs; i++) {
        sn_tensor *const out = call->outs[i];
        if (!out || out == self || out->storage != self->storage || tape_view_base(out)) continue;
        op.result = i;
        TRY(set_step(out, self, &op));
    }
    return ST_OK;
}

Status tape_view_alone(sn_tensor *t, bool no_grad) {
    sn_state *const state = state_get();
    const Arg self = A_NONE;
    const TapeViewOp op = {.row = OP_ROW(alias), .args = &self, .no_grad = no_grad};
    TRY(scope_push(state, false));
    sn_tensor *const base = tensor_view(t, t->base.meta, t->offset);
    Status status = base ? ST_OK : error_pending();
    if (base && t->autograd && t->autograd->node) status = tape_attach(base, t->autograd->node, t->autograd->output);
    if (status == ST_OK) status = set_step(t, base, &op);
    scope_pop(state);
    return status;
}

sn_tensor *tape_view_base(const sn_tensor *t) { return t->autograd && t->autograd->view ? base_of(t->autograd) : NULL; }

static bool stale(AutogradMeta *meta) { return meta->generation != generation_of(base_of(meta)); }

bool tape_view_tracks(const sn_tensor *t) { return stale(t->autograd) && tape_tracks(base_of(t->autograd)); }

/* The view's ops on another tensor of the base's sizes; a result of the innermost scope. */
static Status replay(const TapeView *view, sn_tensor *base, sn_tensor **out) {
    sn_tensor *self = base;
    if (view->parent) TRY(replay(view->parent, base, &self));
    Arg args[MAX_ARGS];
    memcpy(args, view->args, (size_t)view->row->n_params * sizeof *args);
    args[0] = A_VAL(&self->base);
    sn_tensor *outs[MAX_LIST];
    TRY(tape_dispatch(view->row, FORM_functional, args, outs));
    *out = outs[view->result];
    return ST_OK;
}

Status tape_view_refresh(sn_tensor *t) {
    AutogradMeta *const meta = t->autograd;
    if (!stale(meta)) return ST_OK;
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_recorded);
    sn_tensor *fresh;
    Status status = replay(meta->view, meta->base, &fresh);
    if (status == ST_OK && fresh->autograd && fresh->autograd->node)
        status = tape_attach(t, fresh->autograd->node, fresh->autograd->output);
    if (status == ST_OK) meta->generation = generation_of(meta->base);
    scope_pop(state);
    return status;
}

/* aten::slice.Tensor: aten::slice_copy.Tensor; NULL: it has none. */
static const OpRow *copying(const OpRow *row) {
    char name[96];
    const int n = snprintf(name, sizeof name, "aten::%s_copy%s%s", row->base, *row->overload ? "." : "", row->overload);
    return n < (int)sizeof name ? op_find(name, (size_t)n, NULL) : NULL;
}

static bool copies(const TapeView *view) {
    while (view && !view->result && copying(view->row)) view = view->parent;
    return !view;
}

static Status copy_steps(const TapeView *view, sn_tensor *base, sn_tensor **out) {
    sn_tensor *self = base;
    if (view->parent) TRY(copy_steps(view->parent, base, &self));
    Arg args[MAX_ARGS];
    memcpy(args, view->args, (size_t)view->row->n_params * sizeof *args);
    args[0] = A_VAL(&self->base);
    return dispatch(copying(view->row), FORM_functional, args, NULL, out);
}

static Status copy_view(sn_tensor *t, sn_tensor **out) {
    sn_tensor *const base = tape_view_base(t);
    const bool row_major = t->base.meta->contiguous; /* else results follow its layout, which a clone keeps */
    if (base && row_major && copies(t->autograd->view)) return copy_steps(t->autograd->view, base, out);
    return dispatch(OP_ROW(clone), FORM_functional, (const Arg[]){A_VAL(&t->base), A_NONE}, NULL, out);
}

Status tape_lay_out(sn_tensor **t, const Meta *meta) {
    if (meta_same_layout(meta, (*t)->base.meta)) return ST_OK;
    const Arg args[] = {A_VAL(&(*t)->base), A_INTS(meta->sizes, meta->rank), A_INTS(meta->strides, meta->rank),
                        A_INT(0)};
    return tape_dispatch(OP_ROW(as_strided), FORM_functional, args, t);
}

Status tape_view_copy(sn_tensor *t, sn_tensor **out) {
    TRY(copy_view(t, out));
    return t->base.meta->contiguous ? tape_lay_out(out, t->base.meta) : ST_OK;
}

static Status refresh_if_due(sn_tensor *t, bool *due) {
    if (!t || !tape_view_is_due(t)) return ST_OK;
    if (due) return *due = true, ST_OK;
    return tape_view_refresh(t);
}

/* due: only tells. */
static Status refresh_args(const OpCall *call, bool *due) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor) TRY(refresh_if_due(tensor_of(a->val), due));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) TRY(refresh_if_due(tensor_of(a->vals[k]), due));
    }
    return ST_OK;
}

bool tape_views_are_due(const OpCall *call) {
    bool due = false;
    return refresh_args(call, &due) == ST_OK && due;
}

Status tape_views_refresh(const OpCall *call) { return refresh_args(call, NULL); }

/* CopySlices: edge 0 the base before, edge 1 the op that wrote the view ----------------------- */

static TapeView *written_view(TapeNode *node) { return *(TapeView **)tape_node_extra(node); }

/* A view by numbers names places of the base's memory, so what it is applied to is laid out like that. */
static bool names_places(const TapeView *view) {
    while (view && !(view->row->flags & OPF_places)) view = view->parent;
    return view != NULL;
}

static const Meta *layout_of(const TapeNode *node, const TapeView *view) {
    return names_places(view) ? node->out_meta[0] : NULL;
}

static Status part_of(const TapeView *view, sn_tensor *grad, const Meta *layout, sn_tensor **out) {
    sn_tensor *const whole = layout && grad->base.meta != layout ? tape_clone(grad, layout) : grad;
    return whole ? replay(view, whole, out) : error_pending();
}

/* grad with the written part set to 0, in memory of its own. */
static Status without_part(const TapeView *view, sn_tensor *grad, const Meta *layout, sn_tensor **out) {
    sn_tensor *const copy = tape_clone(grad, layout), *part;
    if (!copy) return error_pending();
    TRY(replay(view, copy, &part));
    TRY(tape_fill(part, 0));
    *out = copy;
    return ST_OK;
}

static Status slices_backward(TapeNode *node, TapeBackward *call) {
    const TapeView *const view = written_view(node);
    const Meta *const layout = layout_of(node, view);
    if (call->needs[1]) TRY(part_of(view, call->grad_out[0], layout, &call->grad_in[1]));
    if (call->needs[0]) TRY(without_part(view, call->grad_out[0], layout, &call->grad_in[0]));
    return ST_OK;
}

static void slices_drop(TapeNode *node) { tape_view_release(written_view(node)); }
static void slices_name(const TapeNode *node, Text *text) { text_puts(text, "CopySlices"); }
static const TapeClass slices_class = {.backward = slices_backward, .drop = slices_drop, .name = slices_name};

Status tape_view_rebase(sn_tensor *t, TapeNode *node) {
    AutogradMeta *const meta = t->autograd;
    sn_tensor *const base = base_of(meta);
    AutogradMeta *const base_meta = tape_meta(base);
    TapeNode *const slices = base_meta ? tape_node_new(&slices_class, 2, 0, 1, sizeof(TapeView *)) : NULL;
    if (!slices) return ST_MEMORY;
    *(TapeView **)tape_node_extra(slices) = view_retain(meta->view);
    Status status = tape_node_link(slices, 0, base);
    tape_node_retain(node);
    slices->edges[1] = (TapeEdge){.target = node};
    if (status == ST_OK) status = tape_attach(base, slices, 0);
    base_meta->generation++; /* t is now stale, like every view of base */
    tape_node_release(slices);
    return status;
}

static bool leads_to_leaf(const sn_tensor *of) {
    const sn_tensor *const base = tape_view_base(of);
    return tape_is_wanted_leaf(of) || (base && (tape_is_wanted_leaf(base) || of->autograd->view->of_leaf));
}

Status tape_check_view(const sn_tensor *of, bool no_grad) {
    if (of && leads_to_leaf(of))
        return error_raise(ST_STATE, "a view of a leaf that requires gradients would be written in place");
    if (no_grad)
        return error_raise(ST_STATE,
                           "a view made while gradients were off would be written in place while they are on");
    return ST_OK;
}

Status tape_check_inplace(const sn_tensor *t) {
    if (tape_is_wanted_leaf(t))
        return error_raise(ST_STATE, "a leaf that requires gradients would be written in place");
    if (!t->autograd || !t->autograd->view) return ST_OK;
    return tape_check_view(t, t->autograd->view->no_grad);
}
