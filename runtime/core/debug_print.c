/* debug_print.c: see debug_print.h. In a body nothing runs when it asks for a print, so that one is an event of the
 * segment: a copy of the value as it is then, which is an op like any other and a result of the segment, and the label.
 *
 *     sn_debug_print("h", h)      %3 = clone(%2), an event {"h", %3}
 *     sn_mul_(h, 2)               a write behind it: the copy is of before
 *     return h                    the segment runs, its checks pass, then the lines are printed in their order
 *
 * So a print breaks nothing and keeps nothing from being fused. A segment that runs again has been through its events;
 * of one that failed those behind the failed op are forgotten, as eager would not have come to them. */
#include "runtime/core/debug_print.h"

#include "runtime/base/log.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/repr.h"
#include "runtime/core/tracer.h"

/* Parts of lines are put under the first element: "h: tensor([[0., 1.],\n           [2., 3.]])". */
static void print_shifted(Text *line, const char *value, int by) {
    for (const char *p = value; *p; p++) {
        text_printf(line, "%c", *p);
        if (*p == '\n') text_printf(line, "%*s", by, "");
    }
}

void debug_print_line(const char *label, sn_tensor *t) {
    if (!log_on(LOG_print, LOG_INFO)) return;
    ErrorSlot *const slot = error_slot();
    const ErrorSlot pending = *slot;
    memset(slot, 0, sizeof *slot);
    Text value = {0}, line = {0};
    if (tensor_print(t, NULL, &value) == ST_OK) {
        if (label) text_printf(&line, "%s: ", label);
        print_shifted(&line, text_str(&value), (int)line.n);
        log_whole(LOG_print, LOG_INFO, text_str(&line));
    }
    text_free(&value);
    text_free(&line);
    error_clear();
    *slot = pending;
}

static Status print_now(const char *label, sn_tensor *t) {
    TRY(tensor_ready(t, "sn_debug_print"));
    const ContextSaved saved = context_enter(state_get(), CONTEXT_eager);
    debug_print_line(label, t);
    context_leave(&saved);
    return ST_OK;
}

/* Modes see the program's ops, not the copy. */
Status debug_print(const char *label, sn_tensor *t) {
    sn_state *const state = state_get();
    TRY(state_untraced("sn_debug_print"));
    if (!tracer_exactly() || state->modes || tensor_is_batched(t)) return print_now(label, t);
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    context_enter_scope(state, CONTEXT_below_levels); /* t is no handle of theirs: neither is its copy */
    const Status status = tracer_effect((TracerEffect){.kind = EFFECT_print, .label = label, .tensor = t});
    scope_pop(state);
    return status;
}
