/* modes.c: fake and functional mode (sinter/dispatch.h). */
#include <sinter/dispatch.h>

#include "runtime/capture/record/segment.h"
#include "runtime/core/dispatch.h"

static bool set_mode(uint64_t key, bool on) {
    sn_state *const state = state_get();
    context_arrive(state);
    const bool before = state->include & key;
    context_key_set(state, key, on);
    context_note(state);
    return before;
}

/* In a captured body: what is pending is of before, and what follows runs as it is. */
bool sn_fake_mode_set(bool on) {
    context_arrive_at(__builtin_return_address(0));
    const bool before = sn_fake_mode();
    if (on == before || error_pending() != ST_OK || state_untraced("sn_fake_mode_set") != ST_OK) return before;
    Capture *const c = capture_current();
    if (c) capture_note_break(c, "sn_fake_mode_set");
    if (capture_settle("sn_fake_mode_set") != ST_OK) return before;
    return set_mode(KEY_BIT(fake), on);
}

bool sn_fake_mode(void) { return state_get()->include & KEY_BIT(fake); }

bool sn_is_fake(sn_tensor *t) {
    if (tensor_valid(t, "sn_is_fake") != ST_OK || (t->placeholder && tensor_ready(t, "sn_is_fake") != ST_OK))
        return false;
    return tensor_is_fake(t);
}

/* Graphs mean the same in it and outside. */
bool sn_functional_mode_set(bool on) {
    return error_pending() == ST_OK ? set_mode(KEY_BIT(functionalize), on) : sn_functional_mode();
}

bool sn_functional_mode(void) { return state_get()->include & KEY_BIT(functionalize); }
