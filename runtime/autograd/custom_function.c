/* custom_function.c: functions with a gradient of their own (sn_custom_call), and nodes of compiled
 * functions.
 *
 * The forward body runs with gradients off; what it saves is kept with versions. Its outputs become
 * results of one node whose backward runs the other body, in a frame that sees the saved tensors
 * and the output gradients. */
#include "runtime/autograd/custom_function.h"

#include "runtime/autograd/saved_hooks.h"
#include "runtime/base/alloc.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/tracer.h"

typedef struct CustomNode {
    sn_custom fn;
    void *closure;
    int n_saved, saved_capacity;
    TapeSaved *saved;
    uint32_t autocast; /* of the call, which backward has as well [semantics T7] */
} CustomNode;

static CustomNode *custom_of(const TapeNode *node) { return tape_node_extra((TapeNode *)node); }

static const char *name_of(const sn_custom *fn) { return fn->name ? fn->name : "custom function"; }

static void custom_close(CustomNode *custom) {
    for (int i = 0; i < custom->n_saved; i++) tape_saved_drop(&custom->saved[i]);
    mem_free(custom->saved);
    custom->saved = NULL, custom->n_saved = 0;
    const sn_free_fn closure_free = custom->fn.closure_free;
    custom->fn.closure_free = NULL;
    closure_free_run(closure_free, custom->closure);
}

static void custom_drop(TapeNode *node) { custom_close(custom_of(node)); }

static void custom_name(const TapeNode *node, Text *text) {
    text_printf(text, "%sBackward", name_of(&custom_of(node)->fn));
}

static const TapeSaved *custom_saved(const TapeNode *node, int *n) {
    *n = custom_of(node)->n_saved;
    return custom_of(node)->saved;
}

static Status unpack(TapeNode *node, bool create_graph, sn_tensor **values) {
    const CustomNode *const custom = custom_of(node);
    for (int i = 0; i < custom->n_saved; i++) {
        const TapeSaved *saved = &custom->saved[i];
        TapeSaved unpacked;
        if (UNLIKELY(saved->is_packed)) {
            TRY(saved_hooks_unpack(saved, name_of(&custom->fn), &unpacked));
            saved = &unpacked;
        }
        TRY(tape_saved_check(saved, name_of(&custom->fn)));
        sn_tensor *t = saved->tensor;
        if (saved->result >= 0 && create_graph) {
            if (!(t = tensor_view(t, t->base.meta, t->offset))) return ST_MEMORY;
            TRY(tape_attach(t, node, saved->result));
        }
        values[i] = t;
    }
    return ST_OK;
}

/* Gradients were retained past the end of the frame's scope; one that a scope holds needs no more. */
static void return_to_scope(sn_tensor **grad) {
    sn_tensor *const t = *grad;
    if (!t) return;
    if (tensor_in_scope(t))
        tensor_release(t);
    else if (!scope_adopt(state_get(), t))
        *grad = NULL;
}

typedef struct BackwardHeld { /* also where the body does not return */
    const TapeNode *node;
    TapeBackward *call;
    sn_tensor **values;
} BackwardHeld;

static void backward_end(const BackwardHeld *held) {
    mem_free(held->values);
    for (int i = 0; i < held->node->n_edges; i++) return_to_scope(&held->call->grad_in[i]);
}

static Status custom_backward(TapeNode *node, TapeBackward *call) {
    const CustomNode *const custom = custom_of(node);
    sn_tensor **const values = mem_alloc((size_t)(custom->n_saved + 1) * sizeof *values);
    if (!values) return ST_MEMORY;
    __attribute__((cleanup(backward_end))) const BackwardHeld held = {node, call, values};
    Status status = unpack(node, call->create_graph, values);
    CustomCall state = {.backward = true,
                        .n_inputs = node->n_edges,
                        .n_outputs = node->n_outs,
                        .call = call,
                        .node = node,
                        .values = values,
                        .n_values = custom->n_saved};
    sn_frame frame = {.what = name_of(&custom->fn), .closure = custom->closure, .custom = &state};
    autocast_use(state_get(), custom->autocast); /* until the engine closes this node's scope */
    if (status == ST_OK) status = frame_run(&frame, custom->fn.backward);
    return status == ST_OK ? error_pending() : status;
}

static const TapeClass custom_class = {
    .backward = custom_backward, .drop = custom_drop, .name = custom_name, .saved = custom_saved};

/* the forward call ---------------------------------------------------------------------------- */

static bool has_size(const sn_custom *fn) { return fn && fn->size >= sizeof(sn_custom); }

static Status check_call(const sn_custom *fn, sn_tensor *const *in, int n_in, sn_tensor *const *out, int n_out) {
    TRY(error_pending());
    TRY(state_untraced("sn_custom_call"));
    TRY(state_outside_vmap("sn_custom_call"));
    if (!has_size(fn) || !fn->forward || !fn->backward)
        return error_raise(ST_ARGUMENT, "sn_custom_call: the function needs its size, a forward and a backward body");
    if (n_in < 0 || n_out < 1)
        return error_raise(ST_ARGUMENT, "%s: %d inputs and %d outputs", name_of(fn), n_in, n_out);
    if ((n_in && !in) || !out)
        return error_raise(ST_ARGUMENT, "%s: the list of %d %s is NULL", name_of(fn), out ? n_in : n_out,
                           out ? "inputs" : "outputs");
    for (int i = 0; i < n_in; i++)
        if (in[i]) TRY(tensor_materialize_for(in[i], name_of(fn), BREAK_REASON(own_node)));
    return ST_OK;
}

static Status run_forward(const sn_custom *fn, void *closure, CustomCall *call, const Arg *args, sn_tensor **out) {
    sn_frame frame = {.what = name_of(fn),
                      .closure = closure,
                      .in = args,
                      .n_in = call->n_inputs,
                      .out = out,
                      .n_out = call->n_outputs,
                      .custom = call};
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved =
        context_enter(state_get(), CONTEXT_forward);
    return frame_run(&frame, fn->forward);
}

/* An output that is an input, or an output twice, gets a handle of its own: one tensor has one
 * history. */
static Status separate(const char *name, sn_tensor *const *in, int n_in, sn_tensor **out, int n_out) {
    for (int i = 0; i < n_out; i++) {
        TRY(tensor_materialize_for(out[i], name, BREAK_REASON(own_node)));
        bool shared = false;
        for (int k = 0; k < n_in; k++) shared |= in[k] == out[i];
        for (int k = 0; k < i; k++) shared |= out[k] == out[i];
        if (shared && !(out[i] = tensor_view(out[i], out[i]->base.meta, out[i]->offset))) return ST_MEMORY;
    }
    return ST_OK;
}

static int index_of(sn_tensor *const *list, int n, const sn_tensor *t) {
    while (n-- > 0 && list[n] != t) {}
    return n;
}

/* What a body saves need be no argument, so it has its history with it. A result has none: the node must not hold
 * itself. */
static Status detach_saved(TapeSaved *saved) {
    TapeEdge edge = {0};
    if (saved->result < 0) TRY(tape_edge_set(&edge, saved->tensor));
    sn_tensor *const kept = tape_kept(saved->tensor);
    Status status = kept ? ST_OK : ST_MEMORY;
    if (kept && edge.target && !edge.leaf) status = tape_attach(kept, edge.target, edge.output);
    tape_edge_drop(&edge);
    if (!kept) return status;
    tensor_release(saved->tensor);
    saved->tensor = kept;
    return status;
}

/* Until now the node has held the tensors that the body named. */
static Status detach_all_saved(CustomNode *custom, sn_tensor *const *out, int n_out) {
    for (int i = 0; i < custom->n_saved; i++) {
        TapeSaved *const saved = &custom->saved[i];
        saved->result = (int16_t)index_of(out, n_out, saved->tensor);
        TRY(detach_saved(saved));
    }
    return ST_OK;
}

/* The node comes behind those of all ops that were called before it [semantics G1], also of pending ones, which have no
 * place yet. */
static Status reserve_node(TapeNode *node) {
    sn_state *const state = state_get();
    TRY(tracer_effect((TracerEffect){.kind = EFFECT_order, .what = BREAK_REASON(own_node)}));
    node->sequence = ++state->tape.sequence;
    return ST_OK;
}

static Status record_function(TapeNode *node, sn_tensor *const *in, int n_in, sn_tensor **out, int n_out) {
    TRY(separate(name_of(&custom_of(node)->fn), in, n_in, out, n_out));
    TRY(reserve_node(node));
    TRY(detach_all_saved(custom_of(node), out, n_out));
    for (int i = 0; i < n_in; i++) TRY(tape_node_link(node, i, in[i]));
    for (int i = 0; i < n_out; i++) {
        tape_record_meta(node, &node->out_meta[i], out[i]->base.meta);
        if (dtype_is_float(out[i]->base.meta->dtype)) TRY(tape_attach(out[i], node, i));
    }
    struct SavedHooks *const hooks = state_get()->saved_hooks;
    return hooks ? saved_hooks_pack(hooks, custom_of(node)->saved, custom_of(node)->n_saved, NULL) : ST_OK;
}

static bool any_tracked(sn_tensor *const *in, int n_in) {
    for (int i = 0; i < n_in; i++)
        if (in[i] && tape_tracks(in[i])) return true;
    return false;
}

static Status call_recorded(TapeNode *node, sn_tensor *const *in, const Arg *args, CustomCall *call, sn_tensor **out) {
    CustomNode *const custom = custom_of(node);
    TRY(run_forward(&custom->fn, custom->closure, call, args, out));
    return call->tracked ? record_function(node, in, call->n_inputs, out, call->n_outputs) : ST_OK;
}

typedef struct CallHeld { /* also where the body does not return */
    TapeNode *node;
    Arg *args;
} CallHeld;

static void call_end(const CallHeld *held) {
    tape_node_release(held->node);
    mem_free(held->args);
}

/* There is no node that would do it. */
static Status call_refused(const sn_custom *fn, void *closure, Status status) {
    if (has_size(fn)) closure_free_run(fn->closure_free, closure);
    return status;
}

Status custom_function_call(const sn_custom *fn, void *closure, sn_tensor *const *in, int n_in, sn_tensor **out,
                            int n_out) {
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    const Status checked = check_call(fn, in, n_in, out, n_out);
    if (checked != ST_OK) return call_refused(fn, closure, checked);
    Arg *const args = mem_alloc((size_t)(n_in + 1) * sizeof *args);
    TapeNode *const node = args ? tape_node_new(&custom_class, n_in, 0, n_out, sizeof(CustomNode)) : NULL;
    __attribute__((cleanup(call_end))) const CallHeld held = {node, args};
    if (!node) return call_refused(fn, closure, ST_MEMORY);
    *custom_of(node) = (CustomNode){.fn = *fn, .closure = closure, .autocast = state_get()->autocast};
    node->saves = true;
    for (int i = 0; i < n_in; i++) args[i] = arg_tensor_opt(in[i]);
    CustomCall call = {.n_inputs = n_in,
                       .n_outputs = n_out,
                       .node = node,
                       .inputs = in,
                       .tracked = state_get()->grad_mode == SN_GRAD_ON && any_tracked(in, n_in)};
    const Status status = call_recorded(node, in, args, &call, out);
    for (int i = 0; status != ST_OK && i < n_out; i++) out[i] = NULL;
    return status;
}

/* what bodies call ---------------------------------------------------------------------------- */

Status custom_save(sn_frame *f, sn_tensor *t) {
    CustomCall *const call = f->custom;
    if (!call || call->backward)
        return error_raise(ST_STATE, "%s: sn_save belongs into a custom function's forward", f->what);
    TRY(tensor_materialize(t, "sn_save"));
    if (!call->tracked) return ST_OK;
    CustomNode *const custom = custom_of(call->node);
    if (custom->n_saved == custom->saved_capacity) {
        const int capacity = custom->saved_capacity ? custom->saved_capacity * 2 : 4;
        TapeSaved *const saved = mem_resize(custom->saved, (size_t)capacity * sizeof *saved);
        if (!saved) return ST_MEMORY;
        custom->saved = saved, custom->saved_capacity = capacity;
    }
    TRY(tape_save_check(t));
    tensor_retain(t);
    custom->saved[custom->n_saved++] =
        (TapeSaved){.tensor = t, .version = tensor_version(t), .arg = -1, .item = -1, .result = -1};
    return ST_OK;
}

static Status check_index(const sn_frame *f, const char *what, int i, int n) {
    if (i >= 0 && i < n) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: there is no %s %d; it has %d", f->what, what, i, n);
}

static Status check_backward(const sn_frame *f) {
    if (f->custom && f->custom->backward) return ST_OK;
    return error_raise(ST_STATE, "%s: this belongs into the backward of a custom function", f->what);
}

sn_tensor *custom_saved_at(sn_frame *f, int i) {
    if (check_backward(f) != ST_OK || check_index(f, "saved tensor", i, f->custom->n_values) != ST_OK) return NULL;
    return f->custom->values[i];
}

bool custom_needs_grad(sn_frame *f, int input) {
    const CustomCall *const call = f->custom;
    if (check_index(f, "argument", input, call->n_inputs) != ST_OK) return false;
    if (call->backward) return call->call->needs[input];
    return call->tracked && call->inputs[input] && tape_tracks(call->inputs[input]);
}

sn_tensor *custom_grad_of(sn_frame *f, int output) {
    if (check_backward(f) != ST_OK || check_index(f, "output", output, f->custom->n_outputs) != ST_OK) return NULL;
    return f->custom->call->grad_out[output];
}

Status custom_set_grad_of(sn_frame *f, int input, sn_tensor *grad) {
    TRY(error_pending());
    TRY(check_backward(f));
    TRY(check_index(f, "argument", input, f->custom->n_inputs));
    TapeBackward *const call = f->custom->call;
    if (!grad || !call->needs[input]) return ST_OK;
    TRY(tensor_materialize(grad, "sn_set_grad_of"));
    const TapeEdge *const edge = &f->custom->node->edges[input];
    const Meta *const meta =
        edge->leaf ? ((sn_tensor *)edge->target)->base.meta : ((TapeNode *)edge->target)->out_meta[edge->output];
    if (!meta_same_sizes(meta, grad->base.meta) || meta->dtype != grad->base.meta->dtype) {
        Text text = {0};
        meta_print(NULL, &text, grad->base.meta);
        text_puts(&text, ", the input is ");
        meta_print(NULL, &text, meta);
        error_raise(ST_SHAPE, "%s: the gradient of input %d is %s", f->what, input, text_str(&text));
        text_free(&text);
        return ST_SHAPE;
    }
    if (call->grad_in[input])
        return error_raise(ST_STATE, "%s: the gradient of input %d is set already", f->what, input);
    tensor_retain(grad);
    call->grad_in[input] = grad;
    return ST_OK;
}

/* compiled functions -------------------------------------------------------------------------- */

typedef struct CompiledNode {
    const TapeCompiled *ops;
    void *context;
} CompiledNode;

static CompiledNode *compiled_of(const TapeNode *node) { return tape_node_extra((TapeNode *)node); }

void *tape_compiled_context(const TapeNode *node) { return compiled_of(node)->context; }

static Status compiled_backward(TapeNode *node, TapeBackward *call) {
    const CompiledNode *const compiled = compiled_of(node);
    call->edges = node->edges;
    return compiled->ops->backward(compiled->context, call);
}
static void compiled_drop(TapeNode *node) {
    CompiledNode *const compiled = compiled_of(node);
    if (compiled->ops->release) compiled->ops->release(compiled->context);
}
static void compiled_name(const TapeNode *node, Text *text) {
    text_printf(text, "%sBackward", compiled_of(node)->ops->name);
}
static const TapeSaved *compiled_saved(const TapeNode *node, int *n) {
    const CompiledNode *const compiled = compiled_of(node);
    *n = 0;
    return compiled->ops->saved && !node->dropped ? compiled->ops->saved(compiled->context, n) : NULL;
}

static Status compiled_expand(TapeNode *node) {
    const CompiledNode *const compiled = compiled_of(node);
    if (!compiled->ops->expand) return ST_OK;
    TapeEdge *const now = mem_zero((size_t)node->n_outs * sizeof *now);
    if (!now) return ST_MEMORY;
    Status status = compiled->ops->expand(compiled->context, node->edges, now);
    if (status == ST_OK) status = tape_node_expand(node, now);
    mem_free(now);
    return status;
}

static const TapeClass compiled_class = {.expand = compiled_expand,
                                         .backward = compiled_backward,
                                         .drop = compiled_drop,
                                         .name = compiled_name,
                                         .saved = compiled_saved,
                                         .continues = true};

Status tape_add_compiled(sn_tensor **outs, int n_outs, sn_tensor *const *inputs, int n_inputs, const TapeCompiled *ops,
                         void *context) {
    const bool wanted = state_get()->grad_mode == SN_GRAD_ON && any_tracked(inputs, n_inputs);
    TapeNode *const node = wanted ? tape_node_new(&compiled_class, n_inputs, 0, n_outs, sizeof(CompiledNode)) : NULL;
    if (!node) {
        if (ops->release) ops->release(context);
        return wanted ? ST_MEMORY : ST_OK;
    }
    *compiled_of(node) = (CompiledNode){.ops = ops, .context = context};
    node->saves = !ops->frees;
    Status status = ST_OK;
    for (int i = 0; i < n_inputs && status == ST_OK; i++) status = tape_node_link(node, i, inputs[i]);
    for (int i = 0; i < n_outs && status == ST_OK; i++) {
        if (!outs[i]) continue;
        tape_record_meta(node, &node->out_meta[i], outs[i]->base.meta);
        if (dtype_is_float(outs[i]->base.meta->dtype)) status = tape_attach(outs[i], node, i);
    }
    tape_node_release(node);
    return status;
}
