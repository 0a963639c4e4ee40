/* user_stack.h: the program's calls that led to what runs now: from the newest call of the library (state->site) on
 * outwards. Walking the stack costs a microsecond or two. */
#ifndef SINTER_RUNTIME_USER_STACK_H
#define SINTER_RUNTIME_USER_STACK_H
#include "runtime/core/state.h"

enum { USER_FRAMES = 12 };

typedef struct UserStack {
    int n;
    const void *frames[USER_FRAMES]; /* return addresses, innermost first; of deeper ones the outermost are left out */
} UserStack;
/* n 0: nobody has called anything. */
void user_stack_capture(const sn_state *state, UserStack *stack);

#endif
