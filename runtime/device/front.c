/* front.c: see front.h. */
#include "runtime/device/front.h"

#include <stdio.h>

#include "runtime/base/log.h"
#include "runtime/base/small_array.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/device/launch.h"

enum { FEW_INPUTS = 64 };

static bool has_number(const Executable *e, int64_t want, const int64_t *symbols, int64_t got) {
    return got == (sym_is(want) ? sym_eval(e->plan->env, want, symbols) : want);
}

/* dtype, device, sizes, and the strides of what has elements along dims that have several. */
static bool is_as_said(const Executable *e, const Meta *want, const int64_t *symbols, const Meta *got) {
    bool fits = want->dtype == got->dtype && want->device == got->device && want->rank == got->rank;
    for (int d = 0; fits && d < want->rank; d++) {
        fits = has_number(e, want->sizes[d], symbols, got->sizes[d]);
        if (fits && got->numel && got->sizes[d] > 1) fits = has_number(e, want->strides[d], symbols, got->strides[d]);
    }
    return fits;
}

static Status check_result(const Executable *e, int i, const Meta *want, const int64_t *symbols, sn_tensor *got) {
    if (!got || tensor_ready(got, "a backend") != ST_OK)
        return error_pending() ? error_pending() : error_raise(ST_CALLBACK, "result %d is not set", i);
    if (is_as_said(e, want, symbols, got->base.meta)) return ST_OK;
    Text text = {0};
    text_printf(&text, "result %d is ", i);
    meta_print(NULL, &text, got->base.meta);
    text_puts(&text, ", the graph says ");
    meta_print(e->plan->env, &text, want);
    const Status status = error_raise(ST_SHAPE, "%s", text_str(&text));
    text_free(&text);
    return status;
}

static void release_storage(void *data, void *storage) {
    (void)data;
    storage_release(storage);
}

/* Inputs are lent: the same memory, which the backend may not write. A failure runs the ops again, from them. */
static sn_tensor *lend_inputs(sn_tensor *t) {
    if (!t->storage) return t;
    Storage *const own = t->storage;
    Storage *const lent = storage_wrap(own->device, own->data, own->bytes, release_storage, own);
    if (!lent) return NULL;
    storage_retain(own);
    lent->read_only = true;
    sn_tensor *const handle = tensor_from_storage(lent, t->base.meta, t->offset);
    storage_release(lent);
    return handle;
}

/* Copies a result that is one of the lent tensors: a graph's result has memory of its own. */
static Status own_result(sn_tensor **got) {
    if (!*got || !(*got)->storage || !(*got)->storage->read_only) return ST_OK;
    Val *const copy = E(eager_builder(), clone, A_VAL(&(*got)->base), A_NONE);
    *got = copy ? tensor_of(copy) : NULL;
    return copy ? ST_OK : error_pending();
}

static Status run_code(const Executable *e, sn_tensor **all, sn_tensor **lent, const int64_t *symbols) {
    const PlanFront *const front = e->plan->front;
    const int n_out = e->plan->inputs.n - front->n_in;
    for (int i = 0; i < front->n_in; i++)
        if (!(lent[i] = lend_inputs(all[i]))) return ST_MEMORY;
    TRY(front->code->run(front->code->context, lent, front->n_in, all + front->n_in, n_out));
    for (int i = 0; i < n_out; i++) {
        sn_tensor **const got = &all[front->n_in + i];
        TRY(check_result(e, i, e->plan->slots.at[front->n_in + i].meta, symbols, *got));
        TRY(own_result(got));
    }
    return ST_OK;
}

/* The error, in the name of the backend, which counts it. */
static Status record_failure(BackendCode *code, Status status) {
    char said[sizeof code->failure];
    snprintf(said, sizeof said, "%.255s", error_slot()->message);
    pthread_mutex_lock(&code->lock);
    const bool first = code->failures++ == 0;
    memcpy(code->failure, said, sizeof said);
    pthread_mutex_unlock(&code->lock);
    if (first)
        LOG(graph_breaks, WARNING, "backend '%s' failed: %s", code->name, said);
    else
        LOG(graph_breaks, INFO, "backend '%s' failed: %s", code->name, said);
    error_clear();
    return error_raise(status, "backend '%s' failed: %s", code->name, said);
}

static Status run_front(Executable *e, sn_tensor **all, sn_tensor **lent, sn_tensor *const *inputs,
                        const int64_t *symbols, const double *floats, sn_tensor **outs) {
    const PlanFront *const front = e->plan->front;
    sn_state *const state = state_get();
    if (!all || !lent) return ST_MEMORY;
    memcpy(all, inputs, sizeof *all * (size_t)front->n_in);
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    context_enter_scope(state, CONTEXT_code);
    Status status = run_code(e, all, lent, symbols);
    status = status == ST_OK ? execute_steps(e, all, symbols, floats, outs)
                             : record_failure((BackendCode *)(uintptr_t)front->code, status);
    scope_pop_passing(state, depth, outs, status == ST_OK ? e->n_outs : 0);
    return status;
}

Status front_execute(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs) {
    sn_tensor *few[FEW_INPUTS], *few_lent[FEW_INPUTS];
    sn_tensor **const all = SMALL_ARRAY(few, e->plan->inputs.n),
                      **const lent = SMALL_ARRAY(few_lent, e->plan->front->n_in);
    SMALL_ARRAY_OWNER kept = {few, all}, kept_lent = {few_lent, lent};
    return run_front(e, all, lent, inputs, symbols, floats, outs);
}
