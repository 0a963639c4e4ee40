/* device.c: devices (sinter/device.h). */
#include <sinter/device.h>
#include <sinter/ops.h>
#include <stdio.h>

#include "frontend/api/enter.h"
#include "frontend/api/ops_call.h"
#include "frontend/lib/options.h"
#include "runtime/autograd/query.h"
#include "runtime/core/frame.h"
#include "runtime/core/override.h"
#include "runtime/device/device.h"
#include "runtime/eager/eager.h"

sn_device sn_device_register(const sn_device_desc *desc) {
    API_ENTER(sn_device_register);
    sn_device_desc known = {0};
    if (entered.refused) return -1;
    if (!desc) return error_raise(ST_ARGUMENT, "sn_device_register: the description is NULL"), -1;
    if (options_copy_in(&known, sizeof known, desc, "sn_device_register") != ST_OK) return -1;
    const Device device = device_register_user(&known);
    if (device < 0) return error_set_op("sn_device_register"), -1;
    eager_serve(device_row(device)->key);
    return device;
}

static Status check_device(sn_device device, const char *what) {
    return device_exists(device) ? ST_OK : error_raise(ST_ARGUMENT, "%s: %d is no device", what, (int)device);
}

const char *sn_device_name(sn_device device) {
    API_ENTER(sn_device_name);
    if (check_device(device, "sn_device_name") != ST_OK) return "";
    Text text = {0};
    text_puts(&text, DEVICE_TEXT(device));
    return state_text(state_get(), text.at);
}

sn_key sn_device_key(sn_device device) {
    if (check_device(device, "sn_device_key") != ST_OK) return (sn_key)0;
    return (sn_key)key_public((Key)__builtin_ctzll(key_of_device(device)));
}

int sn_device_count(sn_key key) {
    state_get(); /* the first call of a program: now there is a table */
    const int found = key_of_public(key);
    return found >= 0 && KEYS_BACKEND >> found & 1 ? device_count((Key)found) : 0;
}

sn_status sn_device_properties_of(sn_device device, sn_device_properties *out) {
    static const char *const what = "sn_device_properties_of";
    sn_device_properties known = {0};
    state_get(); /* now there is a table */
    if (!out || !out->size) {
        error_raise(ST_ARGUMENT, "%s: %s", what, out ? "the size of *out is 0" : "out is NULL");
        return sn_check();
    }
    if (error_pending() != ST_OK || check_device(device, what) != ST_OK) return sn_check();
    const DeviceRow *const row = device_row(device);
    snprintf(known.name, sizeof known.name, "%s", DEVICE_TEXT(device));
    if (!row && device >= DEV_cuda) error_raise(ST_DEVICE, "%s: there is no %s", what, known.name);
    if (row && row->properties) row->properties(row, &known);
    if (error_pending() != ST_OK) return error_set_op(what), sn_check();
    options_copy_out(&known, sizeof known, out);
    return SN_OK;
}

sn_device sn_default_device_set(sn_device device) {
    API_ENTER(sn_default_device_set);
    sn_state *const state = state_get();
    const Device before = state->device;
    if (error_pending() == ST_OK && check_device(device, "sn_default_device_set") == ST_OK) state->device = device;
    api_changed(&entered);
    return before;
}

sn_device sn_default_device(void) {
    API_ENTER(sn_default_device);
    return state_get()->device;
}

sn_status sn_device_synchronize(sn_device device) {
    API_ENTER(sn_device_synchronize);
    if (check_device(device, "sn_device_synchronize") != ST_OK ||
        tensor_materialize_all(REASON_CALLED(sn_device_synchronize)) != ST_OK)
        return sn_check();
    return (sn_status)device_synchronize(device);
}

sn_tensor *sn_to_device(sn_tensor *x, sn_device device) {
    API_ENTER(sn_to_device);
    if (tensor_valid(x, "sn_to_device") != ST_OK || check_device(device, "sn_to_device") != ST_OK) return NULL;
    if (query_ask(QUERY_device, x, 0) == device) return x;
    const Arg args[] = {A_VAL(&x->base), A_NONE, A_NONE, A_INT(device), A_NONE, A_BOOL(false), A_NONE};
    return ops_call1(OP_ID(_to_copy), FORM_functional, args, true, NULL);
}

sn_status sn_run_on_cpu(sn_frame *f) {
    API_ENTER(sn_run_on_cpu);
    if (!f || !f->call) return (sn_status)error_raise(ST_STATE, "sn_run_on_cpu: the frame is not an op's");
    if (error_pending() != ST_OK) return sn_check();
    frame_drop_outs(f);
    int n = 0;
    const Status status = eager_on_host(f->call, f->out, &n);
    for (int i = 0; i < f->n_out; i++) /* the frame's own references; the scope holds the others */
        f->out[i] = status == ST_OK && i < n ? tensor_retained(f->out[i]) : NULL;
    return (sn_status)status;
}
