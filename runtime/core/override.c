/* override.c: see override.h. Overrides of one place form a stack (newest first); the table holds
 * `run_override`, which finds the newest of its (row, key). Freeing the last one puts the table's
 * entry back as it was.
 *
 * A user mode is a handler on the state's stack, an API mode one on another. While it runs, the modes outside it
 * are the current ones; below a user mode the keys above `mode` are left out, so that nested modes run inner first and
 * an op that the handler calls is not recorded twice. */
#include "runtime/core/override.h"

#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_results.h"
#include "runtime/core/custom_write.h"
#include "runtime/core/tracer.h"
#include "runtime/core/memory.h"

struct sn_override {
    const OpRow *row; /* NULL: a fallback */
    Key key;
    sn_body body;
    void *closure;
    OpKernel *before; /* what the table held when the stack of this place was empty */
    sn_override *next;
    int batch;
};

typedef struct UserMode {
    struct UserMode *outer;
    sn_body handler;
    void *closure;
    bool alone; /* it began where a callback's context leaves the key out: modes further out do not see the ops */
} UserMode;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sn_override *overrides;
_Thread_local int override_batch;
_Atomic int override_count; /* of those that capture stops at, so that it asks without the lock */

/* The ops of a device beside the CPU, and of slots, are in no graph, whoever serves them. */
static bool stops_capture(Key key) { return !((KEYS_BESIDE | KEYS_SLOT) >> key & 1); }

static sn_override *newest(const OpRow *row, Key key) {
    for (sn_override *o = overrides; o; o = o->next)
        if (o->row == row && o->key == key) return o;
    return NULL;
}

/* A list has as many results as the body set, from 0 on. */
static void set_list_results(OpCall *call, sn_tensor *const *outs) {
    for (call->n_outs = 0; call->n_outs < MAX_LIST && outs[call->n_outs]; call->n_outs++)
        call->outs[call->n_outs] = outs[call->n_outs];
}

static bool is_backend(Key key) { return KEYS_BACKEND >> key & 1; }
static bool computes(Key key) { return KEYS_KERNEL >> key & 1; }

/* What a backend's kernel does is below autocast and the tape: the op has its own derivative. Were the kernel's ops
 * recorded, they would run later, and be differentiated then. */
static Status run_at_once(sn_frame *frame, sn_body body) {
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved =
        context_enter(state_get(), CONTEXT_kernel);
    return frame_run(frame, body);
}

/* By its form, or by what a user's op says of itself. */
static bool writes_visible(const OpCall *call) {
    if (call->form != FORM_functional || call->row->flags & OPF_ordered) return true;
    for (int i = 0; i < call->row->n_params; i++)
        if (param_is_written(&call->row->params[i])) return true;
    return false;
}

static void end_body(const Memory *const *memory) {
    if (*memory && (*memory)->body_end) (*memory)->body_end(*memory);
}

static Status run_beside(const OpCall *call, sn_frame *frame, sn_body body) {
    const Memory *const memory = memory_of_device(call_device(call)); /* a device may have none */
    if (memory && memory->body_begin) TRY(memory->body_begin(memory, writes_visible(call)));
    __attribute__((cleanup(end_body), unused)) const Memory *const begun = memory;
    return run_at_once(frame, body);
}

static Status run_frame(const OpCall *call, sn_frame *frame, sn_body body) {
    if (KEYS_BESIDE >> call->key & 1) return run_beside(call, frame, body);
    return computes(call->key) ? run_at_once(frame, body) : frame_run(frame, body);
}

/* An out form's arguments are those of its schema, then the tensors to write. */
static int args_of_out(const OpCall *call, Arg *args) {
    int n = op_form_params(call->row, FORM_out);
    for (int i = 0; i < n; i++) args[i] = call->args[op_form_param(call->row, FORM_out, i)];
    for (int i = 0; i < call->row->n_out; i++) args[n++] = A_VAL(&call->out_args[i]->base);
    return n;
}

/* A backend's results are on its device. */
static Status check_placed(const OpCall *call, sn_tensor *const *outs) {
    for (int i = 0; i < call->row->n_out && !call->row->returns_list; i++) {
        if (custom_result_is_number(call->row, i, call->row->n_out)) continue;
        const Device device = outs[i]->base.meta->device;
        if (key_of_device(device) >> call->key & 1) continue;
        return error_raise(ST_DEVICE, "%s: its kernel at key %s returned result %d on %s", call->row->name,
                           key_name(call->key), i, DEVICE_TEXT(device));
    }
    return ST_OK;
}

/* In-place and out forms give what they write: another tensor in its place would be lost. */
static Status check_replaced(const OpCall *call, sn_tensor *const *outs, const char *what) {
    for (int i = 0; i < call->row->n_out; i++)
        if (outs[i] && outs[i] != call_written(call, i))
            return error_raise(ST_ARGUMENT,
                               "%s: result %d is the tensor that the op writes, and nothing can be put in its place by "
                               "sn_out: write into it",
                               what, i);
    return ST_OK;
}

Status body_kernel(OpCall *call, sn_body body, void *closure) {
    Arg args[MAX_ARGS + MAX_OUTS];
    const int n_outs = call->row->returns_list ? MAX_LIST : call->row->n_out;
    sn_tensor *few[MAX_OUTS], **const outs = SMALL_ARRAY(few, n_outs);
    if (!outs) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, outs};
    const bool list = call->row->returns_list, out = call->form == FORM_out;
    const int n_out_args = out ? args_of_out(call, args) : 0;
    sn_frame frame = {.what = op_form_name(call->row, call->form),
                      .closure = closure,
                      .in = out ? args : call->args,
                      .n_in = out ? n_out_args : call->row->n_params,
                      .out = outs,
                      .n_out = n_outs,
                      .outs_optional = list,
                      .call = call,
                      .site = state_get()->site};
    memset(outs, 0, sizeof *outs * (size_t)n_outs);
    const DynamicOp *const op = op_dynamic(call->row);
    int n = n_outs;
    if (call->key == KEY_meta) {
        frame.meta_of = op;
        frame.passed_on = custom_write_hold(call->row, frame.in, outs);
    }
    TRY(run_frame(call, &frame, body));
    if (op && (list || op->numbers) && (!frame.passed_on || frame.meta_of))
        TRY(custom_results_check(op, outs, frame.none, n_outs, &n));
    if (is_backend(call->key) && call->form == FORM_functional) TRY(check_placed(call, outs));
    if (!list && call->form != FORM_functional) TRY(check_replaced(call, outs, frame.what));
    if (list) set_list_results(call, outs);
    for (int i = 0; !list && i < call->row->n_out; i++)
        call->outs[i] = call->form == FORM_functional ? outs[i] : call_written(call, i);
    return ST_OK;
}

bool override_listed(const OpRow *row) {
    pthread_mutex_lock(&lock);
    const sn_override *o = overrides;
    while (o && (!stops_capture(o->key) || (o->row && o->row != row))) o = o->next;
    pthread_mutex_unlock(&lock);
    return o != NULL;
}

static Status run_override(OpCall *call) {
    pthread_mutex_lock(&lock);
    const sn_override *found = newest(call->row, call->key);
    if (!found) found = newest(NULL, call->key);
    const sn_override copy = found ? *found : (sn_override){0};
    pthread_mutex_unlock(&lock);
    return copy.body ? body_kernel(call, copy.body, copy.closure) : redispatch(call);
}

static void place_kernel(const OpRow *row, Key key, OpKernel *kernel) {
    if (row)
        dispatch_register(row, key, kernel);
    else
        dispatch_fallback(key, kernel);
}

sn_override *override_new(const OpRow *row, Key key, sn_body body, void *closure) {
    sn_override *const override = mem_alloc(sizeof *override);
    if (!override) return NULL;
    pthread_mutex_lock(&lock);
    const sn_override *const older = newest(row, key);
    OpKernel *const before = older ? older->before : row ? dispatch_own(row, key) : dispatch_fallback_of(key);
    *override = (sn_override){row, key, body, closure, before, overrides, override_batch};
    overrides = override;
    atomic_fetch_add(&override_count, stops_capture(key));
    pthread_mutex_unlock(&lock);
    place_kernel(row, key, run_override);
    return override;
}

void override_free(sn_override *override) {
    if (!override) return;
    pthread_mutex_lock(&lock);
    sn_override **link = &overrides;
    while (*link && *link != override) link = &(*link)->next;
    if (*link) *link = override->next;
    atomic_fetch_sub(&override_count, stops_capture(override->key));
    const bool last = !newest(override->row, override->key);
    pthread_mutex_unlock(&lock);
    place_kernel(override->row, override->key, last ? override->before : run_override);
    mem_free(override);
}

void override_withdraw(int batch) {
    sn_override *found;
    do {
        pthread_mutex_lock(&lock);
        for (found = overrides; found && found->batch != batch;) found = found->next;
        pthread_mutex_unlock(&lock);
        override_free(found);
    } while (found);
}

/* user modes ---------------------------------------------------------------------------------- */

static UserMode **stack_in(Context *context, Key key) { return key == KEY_api ? &context->api_modes : &context->modes; }
static UserMode **stack_of(sn_state *state, Key key) { return stack_in(&state->context, key); }

/* Below an API mode an op is one call: its parts, and what kernels and rules call, are no calls of the program's. */
static Status redispatch_unseen(OpCall *call) {
    if (call->key != KEY_api) return redispatch(call);
    const ContextSaved saved = context_enter(state_get(), CONTEXT_below_api);
    const Status status = redispatch(call);
    context_leave(&saved);
    return status;
}

/* By the innermost mode; what it calls, those further out see. */
static Status run_handler(OpCall *call, sn_state *state, UserMode **stack) {
    UserMode *const mode = *stack;
    const uint64_t key = UINT64_C(1) << call->key;
    *stack = mode->outer;
    context_key_set(state, key, mode->outer);
    if (UNLIKELY(mode->alone)) state->exclude |= key;
    const Status status = body_kernel(call, mode->handler, mode->closure);
    mode->outer = *stack; /* the handler may have ended it */
    *stack = mode;
    context_key_set(state, key, true);
    return status;
}

static Status run_mode(OpCall *call) {
    sn_state *const state = state_get();
    UserMode **const stack = stack_of(state, call->key);
    if (!*stack || UNLIKELY(state->exclude >> call->key & 1)) return redispatch_unseen(call);
    if (call->key == KEY_api) return run_handler(call, state, stack);
    const ContextSaved saved = context_enter(state, CONTEXT_below_modes);
    const Status status = run_handler(call, state, stack);
    context_leave(&saved);
    return status;
}

Status frame_redispatch(sn_frame *frame) {
    OpCall *const call = frame->call;
    if (!call) return error_raise(ST_STATE, "%s: only a kernel or a mode can redispatch", frame->what);
    TRY(error_pending());
    frame_drop_outs(frame);
    OpCall next = *call;
    next.outs = frame->out;
    state_get()->site = frame->site; /* what the body has called meanwhile is another line's */
    const bool in_mode = call->key == KEY_mode || call->key == KEY_api;
    const Status status = in_mode ? run_mode(&next) : redispatch(&next);
    for (int i = 0; i < frame->n_out; i++) /* the kernel's are the scope's */
        frame->out[i] = status == ST_OK ? tensor_retained(frame->out[i]) : NULL;
    frame->passed_on = true;
    return status;
}

Status user_mode_push(Key key, sn_body handler, void *closure) {
    sn_state *const state = state_get();
    if (key == KEY_mode)
        TRY(tensor_materialize_all(BREAK_REASON(user_mode_begins))); /* what came before it is not its business */
    UserMode *const mode = mem_alloc(sizeof *mode);
    if (!mode) return ST_MEMORY;
    UserMode **const stack = stack_of(state, key);
    const uint64_t bit = UINT64_C(1) << key;
    *mode = (UserMode){*stack, handler, closure, state->exclude & bit};
    *stack = mode;
    context_key_set(state, bit, true);
    return ST_OK;
}

/* The mode has ended: who was on it is on the one further out. */
static void forget_mode(Context *context, Key key, const UserMode *mode) {
    const uint64_t bit = UINT64_C(1) << key;
    UserMode **const innermost = stack_in(context, key), **link = innermost;
    while (*link && *link != mode) link = &(*link)->outer;
    if (!*link) return;
    *link = mode->outer;
    if (!*innermost) context->include &= ~bit;
    if (mode->alone && link == innermost) context->exclude |= bit;
}

/* It may be one of the program's outside of the running callback, which a jump will put back: in no context that
 * somebody has recorded is it any more. */
Status user_mode_pop(Key key) {
    sn_state *const state = state_get();
    UserMode *const mode = *stack_of(state, key);
    if (!mode) return error_raise(ST_STATE, key == KEY_api ? "no API mode is active" : "no user mode is active");
    forget_mode(&state->program, key, mode);
    for (uint32_t i = 0; i < state->n_scopes; i++) {
        if (state->scopes[i].callback) forget_mode(&state->outside[i], key, mode);
        forget_mode(&state->scopes[i].begun, key, mode);
    }
    forget_mode(&state->context, key, mode);
    mem_free(mode);
    return ST_OK;
}

void user_modes_pop_to(sn_state *state, Key key, UserMode *until) {
    UserMode **const stack = stack_of(state, key);
    const UserMode *at = *stack;
    while (at && at != until) at = at->outer;
    if (at != until) return;
    while (*stack != until) {
        UserMode *const mode = *stack;
        *stack = mode->outer;
        mem_free(mode);
    }
    if (*stack)
        state->include |= UINT64_C(1) << key;
    else
        state->include &= ~(UINT64_C(1) << key);
}

void override_start(void) {
    dispatch_fallback(KEY_mode, run_mode);
    dispatch_fallback(KEY_api, run_mode);
}
