/* saved_small.c: see saved_small.h.
 *
 *     case     argument 0: f32[s0,64], argument 1: f32[2*s0]       s0 = 8 when it was compiled
 *     calls    f32[1,64], f32[2]      f32[0,64], f32[0]            where the case's sizes say so
 */
#include "runtime/capture/function/saved_small.h"

#include "runtime/base/small_array.h"
#include "runtime/capture/replay/replay_parts.h"
#include "runtime/capture/replay/specialized_text.h"
#include "runtime/core/background.h"
#include "runtime/core/context_enter.h"

enum { MOST_CALLS = 32, FEW_ITEMS = 32 };

/* What a call may change and is to be as before. */
typedef struct FunctionSaid {
    const char *not_saved;
    int n_breaks, n_failures, n_recompiles;
    bool mode_said;
} FunctionSaid;

static FunctionSaid function_said(const sn_function *fn) {
    return (FunctionSaid){fn->not_saved, fn->breaks.n, fn->failures.n, fn->recompiles.n, fn->mode_said};
}

static void take_back(sn_function *fn, FunctionSaid said) {
    pthread_mutex_lock(&fn->lock);
    while (fn->breaks.n > said.n_breaks) mem_free(fn->breaks.at[--fn->breaks.n].reason);
    while (fn->recompiles.n > said.n_recompiles) mem_free(fn->recompiles.at[--fn->recompiles.n].text);
    if (fn->failures.n > said.n_failures) fn->failures.n = said.n_failures;
    fn->not_saved = said.not_saved;
    fn->mode_said = said.mode_said;
    pthread_mutex_unlock(&fn->lock);
}

/* Arguments ----------------------------------------------------------------------------------- */

typedef struct SmallCall { /* of a specialized call and a case of it */
    const SpecializedCall *specialized;
    const Variant *variant;
    const int64_t *values; /* of the case's symbols */
} SmallCall;

static int trace_input_of(const SpecializedCall *p, int slot) {
    for (int i = 0; i < p->guards->n_inputs; i++)
        if (p->guards->source[i] == slot) return i;
    return -1;
}

static int64_t now(const SmallCall *call, int64_t value) {
    return sym_is(value) ? sym_eval(call->variant->symbols.env, value, call->values) : value;
}

/* NULL: there is none, or memory is out. */
static sn_tensor *make_zeros(const SmallCall *call, int slot) {
    const SpecializedCall *const p = call->specialized;
    const int input = trace_input_of(p, slot);
    const Meta *const meta = input < 0 ? p->first->slots[slot].meta : call->variant->inputs[input].meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = now(call, meta->sizes[d]);
        strides[d] = now(call, meta->strides[d]);
        if (sizes[d] < 0 || strides[d] < 0) return NULL;
    }
    const Meta *const small = meta->contiguous
                                  ? meta_intern_contiguous(meta->dtype, meta->device, sizes, meta->rank)
                                  : meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
    sn_tensor *const t = small ? tensor_new_zero(small) : NULL;
    if (t) t->flags |= TF_lent; /* nobody closes over it */
    return t;
}

static bool make_small_argument(const SmallCall *call, int i, Arg *args) {
    const SlotSignature *const slot = &call->specialized->first->slots[i];
    args[i] = (Arg){.kind = slot->kind, .i = slot->meta ? 0 : slot->word};
    if (!slot->meta) return true;
    sn_tensor *const t = slot->alias != i ? tensor_of(args[slot->alias].val) : make_zeros(call, i);
    args[i].val = t ? &t->base : NULL;
    return t != NULL;
}

/* Calls --------------------------------------------------------------------------------------- */

static void call_twice(sn_function *fn, const Arg *args, int n_in, sn_tensor **outs, int n_out) {
    const int times = fn->background ? 2 : 1; /* code of the background is learnt by who runs it */
    for (int i = 0; i < times; i++) {
        if (function_call(fn, args, n_in, outs, n_out) != ST_OK) return;
        if (fn->background) background_wait(fn->background);
    }
}

static void run_small(sn_function *fn, const SmallCall *call, Arg *args, sn_tensor **outs, CallResult *results) {
    const SpecializedCall *const p = call->specialized;
    const int n_in = p->guards->n_in;
    bool known = false;
    for (int i = 0; i < n_in; i++)
        if (!make_small_argument(call, i, args)) return;
    if (function_describe(fn, args, n_in, results, p->n_out, &known) == ST_OK && !known)
        call_twice(fn, args, n_in, outs, p->n_out);
}

/* In the modes of the call that was learnt; seed, sequence and what is known of fn are then as before. */
static void learn_small(sn_function *fn, const SmallCall *call) {
    const SpecializedCall *const p = call->specialized;
    sn_state *const state = state_get();
    Arg few_args[FEW_ITEMS], *const args = SMALL_ARRAY(few_args, p->guards->n_in);
    sn_tensor *few_outs[FEW_ITEMS], **const outs = SMALL_ARRAY(few_outs, p->n_out);
    CallResult few_results[FEW_ITEMS], *const results = SMALL_ARRAY(few_results, p->n_out);
    SMALL_ARRAY_OWNER kept_args = {few_args, args}, kept_outs = {few_outs, outs}, kept_results = {few_results, results};
    const FunctionSaid said = function_said(fn);
    const uint64_t seed = state->seed, sequence = state->sequence;
    if (args && outs && results && scope_push(state, false) == ST_OK) {
        state_grad_mode_set(state, p->guards->context.grad_mode);
        run_small(fn, call, args, outs, results);
        error_clear();
        scope_pop(state);
    }
    error_clear();
    state->seed = seed, state->sequence = sequence;
    take_back(fn, said);
}

/* Each size that is free, by itself; the others as they were. */
static int learn_sizes(sn_function *fn, const SpecializedCall *p, const Variant *v, int left) {
    const SymEnv *const env = v->symbols.env;
    const int n = v->symbols.dynamic ? sym_free_count(env) : 0;
    int64_t few[FEW_ITEMS], *const values = SMALL_ARRAY(few, n);
    SMALL_ARRAY_OWNER kept = {few, values};
    for (int i = 0; values && i < n; i++) values[i] = sym_expr(env, sym_free_at(env, i))->hint;
    for (int i = 0; values && i < n && i < v->symbols.n_bindings; i++) {
        const int64_t hint = values[i];
        for (int size = 1; size >= 0 && left > 0 && v->symbols.bindings[i].kind == BIND_size; size--, left--) {
            values[i] = size;
            learn_small(fn, &(SmallCall){p, v, values});
        }
        values[i] = hint;
    }
    return left;
}

static bool leaves_no_trace(const SpecializedCall *p, const Variant *v) {
    const Context *const then = &p->guards->context, *const now_is = &state_get()->context;
    const bool writes = v->segment.writes && p->guards->n_slots > p->guards->n_in;
    for (int i = 0; i < p->guards->n_in; i++)
        if (p->first->slots[i].storage != i && p->first->slots[i].alias == i) return false;
    return !writes && !p->ordered && !p->n_prints && then->autocast == now_is->autocast &&
           then->device == now_is->device && then->include == now_is->include &&
           ((then->exclude ^ now_is->exclude) & ~KEYS_OF_GRADIENTS) == 0;
}

void saved_small_learn(sn_function *fn) {
    int left = MOST_CALLS;
    if (fn->saved || error_pending() || state_get()->stance != SN_STANCE_DEFAULT) return;
    SpecializedCall *const newest = atomic_load_explicit(&fn->specialized, memory_order_acquire);
    for (SpecializedCall *p = newest; p; p = p->next) {
        const Variant *const cases = atomic_load_explicit(&p->end->variants, memory_order_acquire);
        for (const Variant *v = cases; v; v = v->next)
            if (v->n_inputs == p->guards->n_inputs && leaves_no_trace(p, v)) left = learn_sizes(fn, p, v, left);
    }
}
