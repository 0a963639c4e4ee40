/* tape_written.c: see tape_written.h. */
#include "runtime/autograd/tape_written.h"

Status tape_attach_written(sn_tensor *t, TapeNode *node) {
    tape_record_meta(node, &node->out_meta[0], t->base.meta);
    if (t->autograd && t->autograd->view) return tape_view_rebase(t, node);
    TRY(tape_attach(t, node, 0));
    t->autograd->generation++;
    return ST_OK;
}

/* the node of what a kernel wrote by itself ----------------------------------------------------- */

static const OpRow *op_of(const TapeNode *node) { return *(const OpRow **)tape_node_extra((TapeNode *)node); }

static Status unknown_backward(TapeNode *node, TapeBackward *call) {
    (void)call;
    return error_raise(ST_UNSUPPORTED, "%s has no derivative rule for the argument that it writes", op_of(node)->name);
}
static void unknown_drop(TapeNode *node) { (void)node; }
static void unknown_name(const TapeNode *node, Text *text) { tape_row_name(op_of(node), text); }
static const TapeClass unknown_class = {.backward = unknown_backward, .drop = unknown_drop, .name = unknown_name};

static Status attach_unknown(const OpCall *call, sn_tensor *t) {
    TapeNode *const node = tape_node_new(&unknown_class, 1, 0, 1, sizeof(OpRow *));
    if (!node) return ST_MEMORY;
    *(const OpRow **)tape_node_extra(node) = call->row;
    Status status = tape_node_link(node, 0, t);
    if (status == ST_OK) status = tape_attach_written(t, node);
    tape_node_release(node);
    return status;
}

/* users' ops ------------------------------------------------------------------------------------ */

/* How many recorded writes t has had, those through its views included. */
static uint32_t generation_of(const sn_tensor *t) {
    const sn_tensor *const base = tape_view_base(t);
    const AutogradMeta *const meta = base ? base->autograd : t->autograd;
    return meta ? meta->generation : 0;
}

Status tape_written_begin(const OpCall *call, WrittenArgs *written) {
    written->n = 0;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (!param_is_written(&call->row->params[i])) continue;
        if (arg->kind != ARG_tensor || !arg->val || !tape_tracks(tensor_of(arg->val))) continue;
        sn_tensor *const t = tensor_of(arg->val);
        TRY(tape_check_inplace(t));
        written->tensors[written->n] = t;
        written->generations[written->n++] = generation_of(t);
    }
    return ST_OK;
}

static bool is_result(const OpCall *call, const sn_tensor *t) {
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i] == t) return true;
    return false;
}

Status tape_written_end(const OpCall *call, const WrittenArgs *written) {
    for (int i = 0; i < written->n; i++) {
        sn_tensor *const t = written->tensors[i];
        if (is_result(call, t) || generation_of(t) != written->generations[i]) continue;
        TRY(attach_unknown(call, t));
    }
    return ST_OK;
}
