/* segment.h: where a segment ends: it runs, what somebody holds gets its storage; a call that was left is noticed. */
#ifndef SINTER_RUNTIME_SEGMENT_H
#define SINTER_RUNTIME_SEGMENT_H
#include "runtime/capture/record/capture.h"

/* Ends the current segment: runs it. `reason` (static text) NULL: the return. */
Status capture_flush(Capture *capture, Reason reason, const void *site);
/* The same where an error may be pending: the ops before it have had their effects in eager, so they have here. One of
 * them may fail: then its error is the first one. */
Status capture_flush_behind_error(Capture *capture, Reason reason, const void *site);
/* Makes a tensor's data exist and current. */
Status capture_flush_tensor(sn_tensor *tensor);
/* The same where it is not a value that is read; reason: static text of the break. */
Status capture_make(sn_tensor *tensor, Reason reason);
/* The call is about to do something beside its segments: a break also where nothing is pending, for which the flush
 * that follows would note none. */
void capture_record_break(Capture *capture, Reason reason);
/* Of the function, and of this call. */
static inline void capture_count_break(Capture *capture, Reason reason, const void *site) {
    capture->n_breaks++;
    capture->break_site = site;
    capture->break_reason = function_record_break(capture->fn, reason, site);
}
/* Names what causes the next break, for its reason: an op, a public function; NULL: nothing does. */
static inline void capture_breaks(const char *breaker) { state_get()->breaker = breaker; }
/* The op that the body called: of parts of a composite that one. */
static inline void capture_breaks_at(const OpCall *call) {
    const char *const outer = state_get()->composite;
    capture_breaks(outer ? outer : op_form_name(call->row, call->form));
}
/* Of EFFECT_generator and EFFECT_generator_read. */
Status capture_before_generator(Capture *capture, const TracerEffect *to);
Status capture_shows_generator(Capture *capture, const TracerEffect *effect);
/* Runs all that is pending and materializes every value still held: host code writes memory next. */
Status capture_materialize_all(Reason why);
/* With capture suspended: values of ended segments that are elided but may be asked for are materialized, before
 * something writes memory (NULL: any) that they may depend on. */
Status capture_before_write(Capture *capture, const Storage *storage);
/* This thread's capture, or NULL. A call that a longjmp or an exception left behind is noticed here: what it had
 * pending runs, it is reported, and the thread captures no more [semantics C13]. */
Capture *capture_current(void);
/* Cheap signs of that, for every op. The stack grows down: a frame below this one belongs to a call that was left; one
 * above it too, where its number has been overwritten. A deep call that leaves the number alone is taken for one of the
 * body: its ops are recorded, their values are right, and the next shallow call, or one that asks exactly, notices. */
__attribute__((no_sanitize_address)) static inline bool capture_was_left(const Capture *c) {
    if (!c->frame) return false;
    if ((const char *)__builtin_dwarf_cfa() > (const char *)c->frame) return true;
    return *c->cookie != c->cookie_value;
}
/* A new, empty segment; NULL when memory is out. */
Trace *capture_begin_trace(Capture *capture);
/* As tracer.h says; by walking the stack where the cheap signs say nothing. */
bool capture_left(Capture *capture, TracerLeft how);
/* A segment whose kernel did not return: some of its ops may have written. */
void capture_fail_running(Capture *capture);
/* Runs the ops of a trace eagerly, in order, binding all of its values. */
Status trace_run_eager(Trace *trace);
/* Materializes values that a compiled run elided: `asked`, or (NULL) all that somebody may ask for. A variant that
 * gives them, compiled now if there is none, takes the place of the one that ran; where none can, the ops run
 * eagerly. */
Status trace_run_late(Trace *trace, const sn_tensor *asked);
void trace_drop_node(Trace *trace);
void trace_mark_asked(Trace *trace, const sn_tensor *t); /* if it is a value of the ended trace: it is needed */
/* Gives a placeholder the storage, autograd metadata and keys of a computed tensor. */
void tensor_bind(sn_tensor *placeholder, sn_tensor *computed);

#endif
