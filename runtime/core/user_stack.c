/* user_stack.c: see user_stack.h. */
#include "runtime/core/user_stack.h"

#include <unwind.h>

typedef struct FrameWalk {
    UserStack *stack;
    const void *site;
    bool is_there; /* at the program's call */
} FrameWalk;

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *to) {
    FrameWalk *const walk = to;
    const void *const at = (const void *)_Unwind_GetIP(context);
    walk->is_there |= at == walk->site;
    if (walk->is_there && at) walk->stack->frames[walk->stack->n++] = at;
    return walk->stack->n == USER_FRAMES ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

/* A call that has returned, or a place that is no code (site.h), is not on the stack: it alone is known. */
void user_stack_take(const sn_state *state, UserStack *stack) {
    FrameWalk walk = {stack, state->site, false};
    stack->n = 0;
    if (!state->site) return;
    _Unwind_Backtrace(take_frame, &walk);
    if (!stack->n) stack->frames[stack->n++] = state->site;
}
