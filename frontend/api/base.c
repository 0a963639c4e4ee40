/* base.c: errors, process, settings, logging, seed (sinter/base.h). Scopes and
 * states are in scope.c. */
#include <sinter/base.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/autograd/query.h"
#include "runtime/base/caller.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/core/breaks.h"
#include "runtime/core/pool.h"
#include "runtime/capture/function/function.h"
#include "runtime/core/site.h"
#include "runtime/core/background.h"
#include "runtime/core/tracer.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), "the public enum mirrors the internal one")
SAME(SN_OK, ST_OK);
SAME(SN_ERR_ARGUMENT, ST_ARGUMENT);
SAME(SN_ERR_UNSUPPORTED, ST_UNSUPPORTED);
SAME(SN_ERR_INTERNAL, ST_INTERNAL);

uint32_t sn_version(void) { return SN_VERSION; }

sn_status sn_check(void) {
    API_ENTER(sn_check);
    sn_state *const state = state_get();
    return (sn_status)state->error.status;
}

static void append_place(ErrorSlot *slot, const char *format, const void *site) {
    char place[sizeof slot->where];
    if (!site) return;
    site_name(site, place, sizeof place);
    error_append(slot, format, place);
}

static void name_places(ErrorSlot *slot) {
    const void *const place = slot->site && !caller_is_library(slot->site) ? slot->site : slot->caller;
    if (place && !slot->where[0]) site_name(place, slot->where, sizeof slot->where);
    append_place(slot, " of the call at %s", slot->cause);
    append_place(slot, ", made at %s", slot->made);
    append_place(slot, ", ended at %s", slot->ended);
}

const sn_error *sn_error_take(void) {
    API_ENTER(sn_error_take);
    sn_state *const state = state_get();
    const ErrorSlot *const pending = error_slot();
    ErrorSlot *const slot = &state->taken.slot;
    if (pending->status != ST_OK && state->tracer) state->tracer->took = true;
    if (pending->status != ST_OK)
        *slot = *pending;
    else
        slot->message[0] = slot->op[0] = slot->where[0] = '\0',
        slot->site = slot->caller = slot->cause = slot->made = slot->ended = NULL;
    name_places(slot);
    state->taken.error = (sn_error){.size = sizeof state->taken.error,
                                    .status = (sn_status)pending->status,
                                    .code = pending->status == ST_OK ? 0 : pending->code,
                                    .message = slot->message,
                                    .op = slot->op,
                                    .where = slot->where};
    error_clear();
    return &state->taken.error;
}

sn_status sn_fail(sn_status status, const char *message) {
    if (status <= SN_OK || status > SN_ERR_INTERNAL) status = SN_ERR_CALLBACK;
    return (sn_status)error_raise_lines((Status)status, "", message ? message : "");
}

int sn_finish(void) {
    API_ENTER(sn_finish);
    if (entered.refused) return 1;
    const bool failed = sn_check() != SN_OK;
    if (failed) {
        const sn_error *const error = sn_error_take();
        char op[128];
        fprintf(stderr, "sinter: SN%d %s error: %s%s%s%s\n", (int)error->code, status_name((Status)error->status),
                error->message, error_op_suffix(error->message, error->op, op, sizeof op),
                error->where[0] ? " at " : "", error->where);
    }
    sn_scope_end(SN_SCOPE_ROOT);
    return failed;
}

static sn_status init_with(const sn_init_options *options) {
    if (options->log) log_handler_set(options->log, options->log_context);
    char threads[24];
    snprintf(threads, sizeof threads, "%d", (int)options->threads);
    if (options->cache_dir && setting_set(state_get(), "cache_dir", options->cache_dir) != ST_OK) return sn_check();
    return (sn_status)setting_set(state_get(), "threads", threads);
}

sn_status sn_init(const sn_init_options *options) {
    sn_init_options known = {0};
    const Status taken = options_copy_in(&known, sizeof known, options, "sn_init");
    if (taken != ST_OK) return (sn_status)taken;
    if (known.ignore_environment) environment_ignore(); /* before a state */
    API_ENTER(sn_init);
    if (entered.refused) return sn_check();
    return options ? init_with(&known) : sn_check();
}

sn_status sn_shutdown(void) {
    API_ENTER(sn_shutdown);
    if (entered.refused) return sn_check();
    background_shutdown();
    sn_scope_end(SN_SCOPE_ROOT);
    pool_threads_set(1);
    tensor_blocks_trim(state_get());
    cpu_alloc_trim();
    return sn_check();
}

sn_status sn_setting_set(const char *name, const char *value) {
    API_ENTER(sn_setting_set);
    sn_state *const state = state_get();
    if (state->error.status != ST_OK) return (sn_status)state->error.status;
    if (!name) return (sn_status)error_raise(ST_ARGUMENT, "sn_setting_set: the name is NULL");
    Status status = state_untraced("sn_setting_set");
    if (status == ST_OK) status = tracer_event(REASON_CALLED(sn_setting_set));
    return (sn_status)(status == ST_OK ? setting_set(state, name, value) : status);
}

const char *sn_setting_get(const char *name) {
    API_ENTER(sn_setting_get);
    const int setting = name ? setting_find(name) : -1;
    if (!name) error_raise(ST_ARGUMENT, "sn_setting_get: the name is NULL");
    if (setting < 0) return "";
    query_ask(QUERY_setting, NULL, setting);
    return setting_text(state_get(), (SettingId)setting);
}

sn_status sn_logging_set(sn_log_fn log, void *context, const char *topics) {
    API_ENTER(sn_logging_set);
    if (topics && log_topics_set(topics) != ST_OK) return sn_check();
    log_handler_set(log, context);
    return sn_check();
}

static sn_status set_generator(sn_rng rng, Reason outside, Reason breaks) {
    Status status = error_pending();
    if (status == ST_OK) status = state_untraced(reason_text(outside));
    return (sn_status)(status == ST_OK ? tracer_set_generator(rng.seed, rng.sequence, outside, breaks) : status);
}

sn_status sn_seed(uint64_t seed) {
    API_ENTER(sn_seed);
    return set_generator((sn_rng){.seed = seed}, BREAK_REASON(seed_in_body), BREAK_REASON(seed_after));
}

sn_rng sn_rng_get(void) {
    API_ENTER(sn_rng_get);
    sn_state *const state = state_get();
    const TracerEffect read = {.kind = EFFECT_generator_read, .what = BREAK_REASON(rng_get)};
    if (error_pending() != ST_OK || state_untraced("sn_rng_get") != ST_OK || tracer_effect(read) != ST_OK)
        return (sn_rng){0};
    return (sn_rng){.seed = state->seed, .sequence = state->sequence};
}

sn_status sn_rng_set(sn_rng rng) {
    API_ENTER(sn_rng_set);
    return set_generator(rng, BREAK_REASON(rng_set_in_body), BREAK_REASON(rng_set_after));
}

sn_scope sn_rng_fork_begin(void) {
    API_ENTER(sn_rng_fork_begin);
    const sn_scope mark =
        state_untraced("sn_rng_fork_begin") == ST_OK && error_pending() == ST_OK ? sn_scope_begin() : SN_SCOPE_NONE;
    if (mark != SN_SCOPE_NONE) scope_keep_generator(state_get());
    return mark;
}
