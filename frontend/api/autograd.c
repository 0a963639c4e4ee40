/* autograd.c: sinter/autograd.h: modes, gradients, hooks, custom functions. Thin: the tape does
 * the work. */
#include <sinter/autograd.h>
#include <sinter/dispatch.h>

#include "frontend/api/enter.h"
#include "runtime/autograd/gradient_cut.h"
#include "runtime/autograd/query.h"
#include "runtime/core/tracer.h"
#include "runtime/autograd/custom_function.h"
#include "runtime/core/breaks.h"
#include "runtime/core/frame.h"
#include "runtime/autograd/tape.h"
#include "runtime/autograd/region.h"

_Static_assert((int)SN_RETAIN_GRAPH == (int)TAPE_retain && (int)SN_CREATE_GRAPH == (int)TAPE_create &&
                   (int)SN_ALLOW_UNUSED == (int)TAPE_allow_unused,
               "flags are passed on as they are");

sn_grad_mode sn_grad_mode_set(sn_grad_mode mode) {
    API_ENTER(sn_grad_mode_set);
    sn_state *const state = state_get();
    const sn_grad_mode before = state->grad_mode;
    if (mode < SN_GRAD_ON || mode > SN_INFERENCE)
        error_raise(ST_ARGUMENT, "there is no grad mode %d", (int)mode);
    else
        state_grad_mode_set(state, mode);
    gradient_cut_mode(__builtin_return_address(0));
    api_changed(&entered);
    return before;
}

bool sn_requires_grad(sn_tensor *t) {
    API_ENTER(sn_requires_grad);
    if (tensor_valid(t, "sn_requires_grad") != ST_OK || state_untraced("sn_requires_grad") != ST_OK) return false;
    return query_requires_grad(t);
}

sn_scope sn_no_grad_begin(void) {
    API_ENTER(sn_no_grad_begin);
    const sn_scope mark = sn_scope_begin();
    if (mark != SN_SCOPE_NONE) sn_grad_mode_set(SN_GRAD_OFF);
    gradient_cut_mode(__builtin_return_address(0));
    return mark;
}

/* What is recorded was recorded with the flag as it was: it runs before the flag changes. */
static Status switch_grad(sn_tensor *t, bool on) {
    TRY(tensor_valid(t, "sn_requires_grad_"));
    TRY(state_untraced("sn_requires_grad_"));
    TRY(tensor_alone(t, "sn_requires_grad_"));
    if (t->keys & KEYS_SPARSE)
        return error_raise(ST_UNSUPPORTED,
                           "sn_requires_grad_: gradients of a sparse tensor belong to sn_sparse_values");
    if (tracer_recording(state_get()) && sn_requires_grad(t) != on) {
        tracer_outside(BREAK_REASON(requires_grad_changes));
        TRY(tensor_materialize_all(BREAK_REASON(requires_grad_changes)));
        if (t->placeholder) TRY(tensor_ready(t, "sn_requires_grad_"));
    }
    return tape_requires_grad(t, on);
}

sn_tensor *sn_requires_grad_(sn_tensor *t, bool on) {
    API_ENTER(sn_requires_grad_);
    return switch_grad(t, on) == ST_OK ? t : NULL;
}

sn_tensor *sn_grad(sn_tensor *t) {
    API_ENTER(sn_grad);
    return tensor_valid(t, "sn_grad") == ST_OK && state_untraced("sn_grad") == ST_OK && query_ask(QUERY_grad, t, 0)
               ? tape_grad(t)
               : NULL;
}

sn_status sn_grad_set(sn_tensor *t, sn_tensor *grad) {
    API_ENTER(sn_grad_set);
    Status status = tensor_valid(t, "sn_grad_set");
    if (status == ST_OK) status = state_untraced("sn_grad_set");
    if (status == ST_OK && grad) status = tensor_valid(grad, "sn_grad_set");
    if (status == ST_OK) status = region_refuse("sn_grad_set");
    if (status == ST_OK) status = tensor_alone(t, "sn_grad_set");
    if (status == ST_OK && grad) status = tensor_alone(grad, "sn_grad_set");
    if (status == ST_OK) status = tracer_effect((TracerEffect){.kind = EFFECT_grad, .tensor = t});
    if (status == ST_OK) tracer_outside(BREAK_REASON(grad_set));
    return (sn_status)(status == ST_OK ? tape_grad_set(t, grad) : status);
}

/* Given, and no example of many. */
static Status check_tensors(sn_tensors list, bool optional, const char *what) {
    for (int64_t i = 0; i < list.n; i++) {
        if (!list.data[i] && optional) continue;
        TRY(tensor_valid(list.data[i], what));
        TRY(tensor_alone(list.data[i], what));
    }
    return ST_OK;
}

static Status check_call(sn_tensors roots, sn_tensors grads, uint32_t flags, const char *what) {
    TRY(state_untraced(what));
    TRY(error_pending());
    if (flags & ~(uint32_t)(SN_RETAIN_GRAPH | SN_CREATE_GRAPH | SN_ALLOW_UNUSED))
        return error_raise(ST_ARGUMENT, "%s: flags 0x%x are unknown", what, flags);
    if (roots.n < 0 || roots.n > INT32_MAX)
        return error_raise(ST_ARGUMENT, "%s: the list of tensors has %lld of them", what, (long long)roots.n);
    if (roots.n && !roots.data) return error_raise(ST_ARGUMENT, "%s: the list of tensors is NULL", what);
    TRY(check_tensors(roots, false, what));
    if (grads.data && grads.n != roots.n)
        return error_raise(ST_ARGUMENT, "%s: there are %lld gradients for %lld tensors", what, (long long)grads.n,
                           (long long)roots.n);
    return grads.data ? check_tensors(grads, true, what) : ST_OK;
}

/* Graph breaks and errors name the place of the call. */
static sn_status run_tape(const TapeRun *run) {
    const void *const site = state_get()->site;
    const Status status = tape_run(run);
    if (status != ST_OK) {
        /* A compiled backward is not run again op by op: what failed in it is known by the message. */
        error_set_op_named(run->xs ? "sn_gradients" : "sn_backward");
        error_set_site(site);
    }
    return (sn_status)status;
}

static sn_status backward(sn_tensors roots, sn_tensors grads, uint32_t flags) {
    const Status status = check_call(roots, grads, flags, "sn_backward");
    if (status != ST_OK) return (sn_status)status;
    if (region_refuse("sn_backward") != ST_OK) return (sn_status)error_pending();
    const TapeRun run = {.roots = roots.data, .n_roots = (int)roots.n, .grads = grads.data, .flags = flags};
    return run_tape(&run);
}

sn_status sn_backward(sn_tensor *root) {
    API_ENTER(sn_backward);
    sn_tensor *const roots[] = {root};
    return backward((sn_tensors){roots, 1}, (sn_tensors){NULL, 0}, 0);
}

sn_status sn_backward_ex(sn_tensors roots, sn_tensors grads, uint32_t flags) {
    API_ENTER(sn_backward_ex);
    return backward(roots, grads, flags);
}

sn_status sn_gradients(sn_tensors ys, sn_tensors xs, sn_tensors grad_ys, uint32_t flags, sn_tensor **out) {
    API_ENTER(sn_gradients);
    for (int64_t i = 0; out && i < xs.n; i++) out[i] = NULL;
    Status status = check_call(ys, grad_ys, flags, "sn_gradients");
    if (status == ST_OK && (xs.n < 1 || xs.n > INT32_MAX || !xs.data || !out))
        status = error_raise(ST_ARGUMENT, "sn_gradients: no tensors to differentiate by");
    if (status == ST_OK) status = check_tensors(xs, false, "sn_gradients");
    if (status != ST_OK) return (sn_status)status;
    const TapeRun run = {.roots = ys.data,
                         .n_roots = (int)ys.n,
                         .grads = grad_ys.data,
                         .xs = xs.data,
                         .n_xs = (int)xs.n,
                         .out = out,
                         .flags = flags};
    return run_tape(&run);
}

static int64_t add_hook(sn_tensor *t, bool after, sn_body hook, void *closure, const char *what) {
    /* Hooks belong to the node. */
    if (tensor_valid(t, what) != ST_OK || state_untraced(what) != ST_OK ||
        tracer_make(t, reason_called(what)) != ST_OK || tensor_materialize(t, what) != ST_OK)
        return 0;
    if (!hook) {
        error_raise(ST_ARGUMENT, "%s: the hook is NULL", what);
        return 0;
    }
    const int64_t id = tape_hook_add(t, after, hook, closure);
    if (id && tracer_effect((TracerEffect){.kind = EFFECT_hook, .tensor = t, .id = id}) != ST_OK) {
        tape_hook_remove(t, id);
        return 0;
    }
    return id;
}

int64_t sn_hook_add(sn_tensor *t, sn_body hook, void *closure) {
    API_ENTER(sn_hook_add);
    return add_hook(t, false, hook, closure, "sn_hook_add");
}

int64_t sn_post_accumulate_hook_add(sn_tensor *leaf, sn_body hook, void *closure) {
    API_ENTER(sn_post_accumulate_hook_add);
    return add_hook(leaf, true, hook, closure, "sn_post_accumulate_hook_add");
}

void sn_hook_remove(sn_tensor *t, int64_t id) {
    API_ENTER(sn_hook_remove);
    if (!t) return;
    tracer_outside(REASON_CALLED(sn_hook_remove));
    tape_hook_remove(t, id);
}

/* custom functions and derivatives of custom ops ---------------------------------------------- */

sn_status sn_custom_call(const sn_custom *fn, void *closure, sn_tensor *const *in, int n_in, sn_tensor **out,
                         int n_out) {
    API_ENTER(sn_custom_call);
    for (int i = 0; in && i < n_in; i++)
        if (in[i]) sn_requires_grad(in[i]); /* whether it is recorded, and what sn_needs_grad says */
    return (sn_status)custom_function_call(fn, closure, in, n_in, out, n_out);
}

static bool has_custom(sn_frame *f) {
    if (f && f->custom) return true;
    error_raise(ST_STATE, "%s: only bodies of custom functions and derivatives have gradients", f ? f->what : "frame");
    return false;
}

static bool deriv_index(const sn_frame *f, const char *what, int i, int n) {
    if (i >= 0 && i < n) return true;
    error_raise(ST_ARGUMENT, "%s: there is no %s %d; it has %d", f->what, what, i, n);
    return false;
}

sn_status sn_save(sn_frame *f, sn_tensor *t) {
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    return (sn_status)(has_custom(f) ? custom_save(f, t) : error_pending());
}

sn_tensor *sn_saved(sn_frame *f, int i) { return has_custom(f) ? custom_saved_at(f, i) : NULL; }

bool sn_needs_grad(sn_frame *f, int input) {
    if (f && f->deriv) return deriv_index(f, "input", input, f->deriv->row->n_params) && f->deriv->needs[input];
    return has_custom(f) && custom_needs_grad(f, input);
}

sn_tensor *sn_grad_of(sn_frame *f, int output) {
    if (f && f->deriv)
        return deriv_index(f, "output", output, f->deriv->n_results) ? (sn_tensor *)f->deriv->grad_out[output] : NULL;
    return has_custom(f) ? custom_grad_of(f, output) : NULL;
}

/* Kept past the end of the frame's scope; whoever made the frame gives it to the scope outside. */
static Status set_gradient(const sn_frame *f, const Meta *meta, sn_tensor *grad, int input, Val **to) {
    if (!meta_same_sizes(meta, grad->base.meta) || meta->dtype != grad->base.meta->dtype)
        return error_raise(ST_SHAPE, "%s: the gradient of input %d must have its sizes and dtype", f->what, input);
    tensor_retain(grad);
    if (*to) tensor_release((sn_tensor *)*to);
    *to = &grad->base;
    return ST_OK;
}

static Status set_deriv(sn_frame *f, int input, sn_tensor *grad) {
    Deriv *const d = f->deriv;
    TRY(error_pending());
    if (!deriv_index(f, "input", input, d->row->n_params)) return error_pending();
    if (!grad || !d->needs[input]) return ST_OK;
    if (d->args[input].kind == ARG_tensors)
        return error_raise(ST_ARGUMENT, "%s: input %d is a list of tensors: sn_set_grad_of_item", f->what, input);
    return set_gradient(f, d->arg_meta[input], grad, input, &d->grad_in[input]);
}

static Status set_item(sn_frame *f, int input, int item, sn_tensor *grad) {
    Deriv *const d = f->deriv;
    TRY(error_pending());
    if (!deriv_index(f, "input", input, d->row->n_params)) return error_pending();
    const Arg *const list = &d->args[input];
    if (list->kind != ARG_tensors)
        return error_raise(ST_ARGUMENT, "%s: input %d is no list of tensors", f->what, input);
    if (item < 0 || item >= list->n)
        return error_raise(ST_ARGUMENT, "%s: input %d has no tensor %d; it has %d", f->what, input, item, list->n);
    if (!grad || !d->needs[input] || !list->vals[item]) return ST_OK;
    int at = item;
    for (int i = 0; i < input; i++) at += d->args[i].kind == ARG_tensors ? d->args[i].n : 0;
    return set_gradient(f, list->vals[item]->meta, grad, input, &d->grad_list[at]);
}

sn_status sn_set_grad_of_item(sn_frame *f, int input, int item, sn_tensor *grad) {
    if (f && f->deriv) return (sn_status)set_item(f, input, item, grad);
    return (sn_status)error_raise(ST_STATE, "%s: only derivatives of ops have lists of tensors", f ? f->what : "frame");
}

sn_status sn_set_grad_of(sn_frame *f, int input, sn_tensor *grad) {
    if (f && f->deriv) return (sn_status)set_deriv(f, input, grad);
    return (sn_status)(has_custom(f) ? custom_set_grad_of(f, input, grad) : error_pending());
}
