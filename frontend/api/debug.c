/* debug.c: modes that show what a program does (sinter/debug.h). */
#include <sinter/debug.h>

#include "frontend/api/enter.h"
#include "runtime/core/debug_print.h"
#include "runtime/core/tracer.h"
#include "runtime/core/dispatch.h"
#include "runtime/autograd/region.h"
#include "runtime/transform/user_saved_hooks.h"

sn_status sn_saved_hooks_set(sn_body pack, sn_body unpack, void *closure) {
    API_ENTER(sn_saved_hooks_set);
    Status status = tracer_leave_graph("sn_saved_hooks_set");
    if (status == ST_OK && (!pack || !unpack))
        status = error_raise(ST_ARGUMENT, "sn_saved_hooks_set: %s is NULL", pack ? "unpack" : "pack");
    if (status == ST_OK && !state_get()->n_scopes)
        status = error_raise(ST_STATE, "sn_saved_hooks_set: no scope is open whose end would end it");
    if (status == ST_OK) status = user_saved_hooks_push(pack, unpack, closure);
    api_changed(&entered);
    return (sn_status)status;
}

bool sn_anomaly_set(bool on) {
    API_ENTER(sn_anomaly_set);
    sn_state *const state = state_get();
    const bool before = context_key_is_on(state, KEY_BIT(anomaly));
    if (on == before || tracer_leave_graph("sn_anomaly_set") != ST_OK) return before;
    context_key_set(state, KEY_BIT(anomaly), on);
    api_changed(&entered);
    return before;
}

sn_status sn_debug_print(const char *label, sn_tensor *t) {
    API_ENTER(sn_debug_print);
    const Status status = tensor_valid(t, "sn_debug_print");
    return (sn_status)(status != ST_OK || region_runs_again() ? status : debug_print(label, t));
}
