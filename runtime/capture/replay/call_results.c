/* call_results.c: see call_results.h. */
#include "runtime/capture/replay/call_results.h"

#include "runtime/base/small_array.h"
#include "runtime/base/spans.h"
#include "runtime/capture/replay/replay_parts.h"
#include "runtime/capture/variant/variant.h"

/* Describing ---------------------------------------------------------------------------------- */

/* The call's argument that is this graph input; -1: it is none. */
static int argument_of_input(const SpecializedMatch *match, int graph_input) {
    const int slot = match->launch->source[graph_input];
    return slot < match->specialized->guards->n_in ? slot : -1;
}

/* The first result of the call that is this graph output; -1: none is. */
static int result_of_output(const SpecializedMatch *match, int output) {
    for (int i = 0; i < match->specialized->n_out; i++)
        if (match->launch->result[i] == output) return i;
    return -1;
}

static Status describe_call_result(const SpecializedMatch *match, int i, CallResult *result) {
    const int output = match->launch->result[i];
    *result = (CallResult){.kind = OUT_none, .base = -1};
    if (is_slot_result(output)) {
        const int slot = result_slot(output);
        *result = (CallResult){.kind = OUT_input, .meta = match->at[slot]->base.meta};
        result->base = slot < match->specialized->guards->n_in ? slot : -1;
    }
    if (output < 0) return ST_OK;
    const ExecuteResult made = execute_result(match->launch->variant->code.run, output, match->launch->symbols);
    const bool of_input = made.kind == OUT_input || made.kind == OUT_view_of_input;
    const sn_tensor *const base = of_input ? match->at[match->launch->source[made.base]] : NULL;
    const int first = result_of_output(match, output);
    *result = (CallResult){.kind = made.kind, .offset = made.offset, .meta = made.meta};
    if (made.kind == OUT_input) result->meta = base->base.meta;
    if (of_input)
        result->base = argument_of_input(match, made.base);
    else
        result->base = made.kind == OUT_view_of_output ? result_of_output(match, made.base) : -1;
    if (first < i && made.kind == OUT_new) *result = (CallResult){OUT_view_of_output, first, 0, made.meta};
    return made.kind == OUT_none || result->meta ? ST_OK : error_pending();
}

Status call_results_describe(const SpecializedMatch *match, CallResult *results) {
    for (int i = 0; i < match->specialized->n_out; i++) TRY(describe_call_result(match, i, &results[i]));
    return ST_OK;
}

/* Places -------------------------------------------------------------------------------------- */

/* Only a plain launch makes its results where it is told, and all that its plan makes are known to the call. */
static bool takes_places(const Variant *v) {
    return v->kind == &variant_plain && executable_outputs(v->code.run) == v->n_outputs &&
           !executable_is_foreign(v->code.run);
}

/* Code reads its inputs while it writes its results. */
static void leave_shared(const Variant *v, sn_tensor *const *inputs, Storage **given, Span *spans) {
    int n = 0;
    for (int i = 0; i < v->n_outputs; i++) {
        const uintptr_t from = given[i] ? (uintptr_t)given[i]->data : 0;
        if (given[i] && given[i]->bytes) spans[n++] = (Span){from, from + given[i]->bytes, i};
    }
    spans_sort(spans, n);
    for (int i = 0; i < v->n_graph_inputs && n; i++) {
        const Storage *const s = inputs[i]->storage;
        const uintptr_t from = (uintptr_t)s->data;
        for (int k; (k = spans_find(spans, n, from, from + s->bytes)) >= 0;) {
            given[spans[k].of] = NULL;
            memmove(&spans[k], &spans[k + 1], sizeof *spans * (size_t)(--n - k));
        }
    }
}

Status call_results_place(const SpecializedMatch *match, sn_tensor *const *inputs, const int64_t *symbols,
                          Storage **given) {
    const Variant *const v = match->launch->variant;
    Span few[FEW_SLOTS], *const spans = SMALL_ARRAY(few, v->n_outputs);
    SMALL_ARRAY_OWNER kept = {few, spans};
    if (!spans) return ST_MEMORY;
    for (int i = 0; takes_places(v) && i < match->specialized->n_out; i++) {
        const int output = match->launch->result[i];
        if (output < 0 || given[output]) continue;
        const ExecuteResult made = execute_result(v->code.run, output, symbols);
        if (made.kind != OUT_new) continue;
        if (!made.meta) return error_pending();
        TRY(match->sink->place(match->sink, i, made.meta, &given[output]));
    }
    leave_shared(v, inputs, given, spans);
    return ST_OK;
}
