/* capture_tracer.c: what a captured call is to the rest of the library: a tracer (runtime/core/tracer.h). That a call
 * was left behind is noticed where it is looked for (capture_current): then there is none. */
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_backward.h"
#include "runtime/capture/record/capture_events.h"
#include "runtime/capture/record/capture_step.h"
#include "runtime/capture/record/capture_strided.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/captured_region.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/symbols.h"

static Status trace_op(Tracer *self, OpCall *call) {
    (void)self;
    return capture_op(call);
}

static bool trace_backward(Tracer *self, const TapeRun *run, Status *status) {
    return capture_run((Capture *)self, run, status);
}

/* Where hooks see what is saved its ops run one by one, and they see what eager's do. */
static bool trace_region(Tracer *self, const RegionCall *call, Status *status) {
    (void)self;
    Capture *const c = capture_current();
    if (!c || state_get()->saved_hooks) return false;
    *status = captured_region_call(c, call);
    return true;
}

static Status return_value(Tracer *self, sn_tensor *t, Reason why) {
    return why ? capture_make(t, why) : capture_value_elsewhere((Capture *)self, t);
}

static bool pause_capture(Tracer *self) { return capture_pause((Capture *)self); }
static void resume_capture(Tracer *self) { capture_enter((Capture *)self); }
static bool notice_left(Tracer *self, TracerLeft how) { return capture_left((Capture *)self, how); }

/* queries ------------------------------------------------------------------------------------- */

typedef void CaptureAnswer(Capture *c, TracerQuery *q);

static void answer_inference(Capture *c, TracerQuery *q) {
    (void)c;
    q->answer = capture_is_inference(q->tensor);
}

static void answer_storage_offset(Capture *c, TracerQuery *q) {
    (void)c;
    q->answer = capture_storage_offset(q->tensor, q->what);
}

static void answer_requires_grad(Capture *c, TracerQuery *q) {
    (void)c;
    q->answer = capture_requires_grad(q->tensor);
}

static void answer_references(Capture *c, TracerQuery *q) { q->answer = capture_references(c, q->tensor); }

static void answer_guard(Capture *c, TracerQuery *q) {
    q->answer = (int64_t)(uintptr_t)function_guard(c->fn, q->guard);
}

static void answer_query(Tracer *self, TracerQuery *q) {
    static CaptureAnswer *const answers[] = {
        [ASKED_inference] = answer_inference,   [ASKED_requires_grad] = answer_requires_grad,
        [ASKED_references] = answer_references, [ASKED_storage_offset] = answer_storage_offset,
        [ASKED_symbols] = symbols_answer,       [ASKED_number] = symbols_answer,
        [ASKED_meta] = symbols_answer,          [ASKED_guard] = answer_guard,
        [ASKED_shown] = symbols_answer,         [ASKED_shown_float] = symbols_answer,
        [ASKED_given] = symbols_answer,         [ASKED_unbacked] = symbols_answer,
    };
    answers[q->asked]((Capture *)self, q);
}

static Status record_effect(Tracer *self, const TracerEffect *e) {
    (void)self;
    Capture *const c = capture_current();
    return c ? capture_effect(c, e) : ST_OK;
}

const TracerClass capture_class = {.follow = capture_follow,
                                   .op = trace_op,
                                   .backward = trace_backward,
                                   .region = trace_region,
                                   .value = return_value,
                                   .effect = record_effect,
                                   .query = answer_query,
                                   .pause = pause_capture,
                                   .resume = resume_capture,
                                   .left = notice_left};
