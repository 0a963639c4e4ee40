/* variant_segment.c: the compiled run of a segment: the newest variant whose guards hold is launched; where a value is
 * asked for late, one that gives it too, compiled for that if need be. */
#include "runtime/base/log.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/core/background.h"

static Variant *find_variant(Trace *trace) {
    Variant *v = atomic_load_explicit(&trace->end->variants, memory_order_acquire);
    bool waits = false;
    for (; v; v = v->next) {
        const bool later = variant_waits(v);
        if (!(later || v->code.run) || !variant_fits(v, trace, NULL)) continue;
        if (!later) break;
        waits = true;
    }
    trace->waits = !v && waits;
    return v;
}

static void mark_asked(Trace *trace, const sn_tensor *asked) {
    for (int v = 0; v < trace->values.n; v++) {
        const sn_tensor *const t = trace->values.at[v];
        if (trace->variant->segment.provides[v]) trace->marks[v] |= VALUE_needed;
        if (!t || !t->placeholder) continue;
        if (asked ? t == asked : atomic_load_explicit(&t->refs, memory_order_acquire) > 1)
            trace->marks[v] |= VALUE_needed;
    }
}

bool variant_run_segment(Trace *trace, Status *status) {
    Variant *const variant = find_variant(trace);
    if (!variant) return false;
    *status = variant_run(variant, trace);
    if (*status != ST_OK) {
        if (variant->info.codes) trace->foreign = function_record_foreign(trace->capture->fn, error_slot()->message);
        return true;
    }
    trace->variant = variant;
    trace->state = variant->info.interpreted ? TRACE_interpreted : TRACE_compiled;
    if (variant->info.interpreted) trace->reason = reason_from(variant->info.reason);
    atomic_fetch_add_explicit(&variant->hits, 1, memory_order_relaxed);
    *status = trace_record_views(trace, variant);
    return true;
}

/* Code that is being made is waited for: ops that ran again would have a history of their own beside the launch's. */
static Variant *find_or_await(Trace *trace) {
    Variant *const variant = find_variant(trace);
    if (variant || !trace->waits) return variant;
    background_wait(trace->capture->fn->background);
    return find_variant(trace);
}

static Variant *variant_with(Trace *trace) {
    if (trace_mark_viewed(trace) != ST_OK) return NULL;
    Variant *const variant = find_or_await(trace);
    if (variant) return variant;
    sn_function *const fn = trace->capture->fn;
    if (variant_admit(trace) != ST_OK) return NULL;
    CompileLock *const lock = compile_lock(fn);
    variant_compile(fn, trace, false);
    compile_unlock(fn, lock);
    return find_or_await(trace);
}

bool variant_run_late(Trace *trace, const sn_tensor *asked, Status *status) {
    mark_asked(trace, asked);
    Variant *const variant = variant_with(trace);
    if (variant) *status = variant_run_again(variant, trace);
    if (!variant || *status == ST_OK || !variant->info.codes) return variant != NULL;
    error_clear(); /* its backend failed, which is noted */
    return false;
}
