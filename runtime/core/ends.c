/* ends.c: see ends.h. */
#include "runtime/core/ends.h"

void state_extension_add(sn_state *state, StateExtension *part) {
    part->next = state->parts;
    state->parts = part;
}

void state_extension_end(sn_state *state, StateExtension *part) {
    StateExtension **link = &state->parts;
    while (*link != part) link = &(*link)->next;
    *link = part->next;
    part->end(state, part);
}

void state_extensions_end(sn_state *state) {
    while (state->parts) state_extension_end(state, state->parts);
}

void saved_hooks_pop_to(sn_state *state, SavedHooks *until) {
    while (state->saved_hooks && state->saved_hooks != until) {
        SavedHooks *const hooks = state->saved_hooks;
        state->saved_hooks = hooks->outer;
        hooks->class->end(hooks);
    }
    state->saved_hooks = until;
}
