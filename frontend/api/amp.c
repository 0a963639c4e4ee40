/* amp.c: mixed precision (sinter/amp.h). */
#include <sinter/amp.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/core/autocast.h"

_Static_assert((int)SN_F16 == (int)DT_f16 && (int)SN_BF16 == (int)DT_bf16, "dtypes are passed on as they are");

/* The key of the device's kind; KEY_none and an error: there is no such device. */
static Key device_kind(sn_device device, const char *what) {
    state_get(); /* devices are registered with a program's first state */
    if (device_exists(device)) return (Key)__builtin_ctzll(key_of_device((Device)device));
    error_raise(ST_ARGUMENT, "%s: %d is no device", what, (int)device);
    return KEY_none;
}

static sn_dtype now(const sn_state *state, Key kind) {
    const DType dtype = autocast_dtype(state->autocast, kind);
    return dtype == DT_default ? SN_F32 : (sn_dtype)dtype;
}

sn_dtype sn_autocast_get(sn_device device) {
    API_ENTER(sn_autocast_get);
    const Key kind = device_kind(device, "sn_autocast_get");
    return kind ? now(state_get(), kind) : SN_F32;
}

static const char *name_of(sn_dtype dtype) {
    return (int)dtype >= 0 && (int)dtype < DT_COUNT ? dtype_name((DType)dtype) : "no dtype";
}

sn_dtype sn_autocast_set(sn_device device, sn_dtype dtype) {
    API_ENTER(sn_autocast_set);
    sn_state *const state = state_get();
    const Key kind = device_kind(device, "sn_autocast_set");
    const sn_dtype before = kind ? now(state, kind) : SN_F32;
    if (!kind) return before;
    if (dtype != SN_F32 && !autocast_to((DType)dtype))
        error_raise(ST_DTYPE, "sn_autocast_set: dtype %s (%d): it is bf16 or f16, or f32 for off", name_of(dtype),
                    (int)dtype);
    else
        autocast_set(state, autocast_word(state->autocast, kind, (DType)dtype));
    api_changed(&entered);
    return before;
}

sn_status sn_autocast_stats_get(sn_autocast_stats *out) {
    API_ENTER(sn_autocast_stats_get);
    if (!out) return (sn_status)error_raise(ST_ARGUMENT, "sn_autocast_stats_get: NULL argument");
    if (!out->size) return (sn_status)error_raise(ST_ARGUMENT, "sn_autocast_stats_get: its size is 0");
    const sn_state *const state = state_get();
    const sn_autocast_stats stats = {.casts = state->casts.made,
                                     .shared = state->casts.shared,
                                     .kept = state->casts.n,
                                     .kept_bytes = autocast_cached_bytes(state)};
    options_copy_out(&stats, sizeof stats, out);
    return SN_OK;
}
