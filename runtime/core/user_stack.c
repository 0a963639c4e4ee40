/* user_stack.c: see user_stack.h. */
#include "runtime/core/user_stack.h"

#include <unwind.h>

typedef struct FrameUnwind {
    UserStack *stack;
    const void *site;
    bool is_there; /* at the program's call */
} FrameUnwind;

static _Unwind_Reason_Code record_frame(struct _Unwind_Context *context, void *to) {
    FrameUnwind *const unwind = to;
    const void *const at = (const void *)_Unwind_GetIP(context);
    unwind->is_there |= at == unwind->site;
    if (unwind->is_there && at) unwind->stack->frames[unwind->stack->n++] = at;
    return unwind->stack->n == USER_FRAMES ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

/* A call that has returned, or a place that is no code (site.h), is not on the stack: it alone is known. */
void user_stack_capture(const sn_state *state, UserStack *stack) {
    FrameUnwind unwind = {stack, state->site, false};
    stack->n = 0;
    if (!state->site) return;
    _Unwind_Backtrace(record_frame, &unwind);
    if (!stack->n) stack->frames[stack->n++] = state->site;
}
