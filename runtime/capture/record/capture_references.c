/* capture_references.c: what a call that is being recorded holds of a tensor: eager would not. */
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/symbols.h"

static int in_trace(const Trace *trace, const sn_tensor *t) {
    int n = 0;
    for (int v = 0; v < trace->values.n; v++) n += trace->values.at[v] == t;
    for (int i = 0; i < trace->inputs.n; i++) n += trace->inputs.at[i].tensor == t;
    for (int i = 0; i < trace->events.n; i++) {
        const TraceEvent *const event = &trace->events.at[i];
        n += (event->tensor == t) + (event->before == t && !event->borrowed);
    }
    return n;
}

int capture_references(Capture *c, const sn_tensor *t) {
    const bool entered = capture_enter(c);
    int n = 0;
    for (int i = 0; i < c->traces.n; i++) n += in_trace(c->traces.at[i], t);
    for (int i = 0; c->symbols && i < c->symbols->asked.n; i++) n += c->symbols->asked.at[i].tensor == t;
    capture_leave(c, entered);
    return n;
}
