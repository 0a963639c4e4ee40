/* modes.c: fake and functional mode (sinter/dispatch.h). */
#include <sinter/dispatch.h>

#include "frontend/api/enter.h"
#include "runtime/core/tracer.h"
#include "runtime/core/dispatch.h"

static bool set_mode(const ApiEntered *entered, uint64_t key, bool on) {
    sn_state *const state = state_get();
    const bool before = context_key_is_on(state, key);
    context_key_set(state, key, on);
    api_changed(entered);
    return before;
}

bool sn_fake_mode_set(bool on) {
    API_ENTER(sn_fake_mode_set);
    const bool before = sn_fake_mode();
    if (on == before || tracer_leave_graph("sn_fake_mode_set") != ST_OK) return before;
    return set_mode(&entered, KEY_BIT(fake), on);
}

bool sn_fake_mode(void) {
    API_ENTER(sn_fake_mode);
    return context_key_is_on(state_get(), KEY_BIT(fake));
}

bool sn_is_fake(sn_tensor *t) {
    API_ENTER(sn_is_fake);
    if (tensor_valid(t, "sn_is_fake") != ST_OK || (t->placeholder && tensor_ready(t, "sn_is_fake") != ST_OK))
        return false;
    return tensor_is_fake(t);
}

/* Graphs mean the same in it and outside. */
bool sn_functional_mode_set(bool on) {
    API_ENTER(sn_functional_mode_set);
    return error_pending() == ST_OK ? set_mode(&entered, KEY_BIT(functionalize), on) : sn_functional_mode();
}

bool sn_functional_mode(void) {
    API_ENTER(sn_functional_mode);
    return context_key_is_on(state_get(), KEY_BIT(functionalize));
}
