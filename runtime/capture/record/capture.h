/* capture.h: what happens between sn_call's entry and return: ops are recorded or matched, segments
 * run.
 *
 *   user code        capture                          at a break or the return
 *   sn_mm(x, w)  ->  trie: follow or add an edge   -> a variant whose guards hold: launch it,
 *   sn_relu(h)   ->  a placeholder with metadata      else run the pending ops eagerly, in order,
 *   sn_item(s)   ->  break                            and compile this segment after the return
 *
 * Nothing runs while ops are pending, so a mismatch costs nothing [semantics C1]. A placeholder is
 * an ordinary tensor without storage; when its segment has run it is given storage in place
 * ("bound") and is an ordinary tensor. */
#ifndef SINTER_RUNTIME_CAPTURE_H
#define SINTER_RUNTIME_CAPTURE_H
#include "runtime/core/breaks.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/trace.h"
#include "runtime/core/tracer.h"

typedef struct OutsideOps { /* that ran at once, beside the segments */
    Reason reason;
    int n;
} OutsideOps;

struct Capture {
    Tracer tracer; /* first */
    InProgress in_progress;
    sn_function *fn;
    pthread_mutex_t lock;  /* of all below, see runtime/capture/record/capture_thread.c */
    bool lock_taken;       /* else the process had one thread when it was entered */
    bool running;          /* a segment: its user code may not wait for another one's values */
    bool mutates_metadata; /* what is recorded has TraceOp.mutates_metadata */
    const sn_state *owner;
    ErrorSlot *failed_elsewhere; /* raised while another thread ran a segment, or NULL */
    const void *frame;           /* of the sn_call that owns it; NULL: whether it was left is not asked */
    volatile uint64_t *cookie;   /* in that frame: a number that later frames overwrite */
    uint64_t cookie_value;
    const void *cfa;     /* where that frame ends, as the unwinder sees it */
    Arena *arena;        /* of this call: traces, arguments */
    VEC(Trace *) traces; /* in order; the last one is current */
    Trace *trace;
    TrieNode *cursor;
    StorageSlot *map; /* by hash: the storages that the current trace has captured */
    uint32_t map_capacity, stamp;
    struct CaptureRegion *region; /* the innermost one that the body is in, or NULL */
    Symbols *symbols;             /* of a replay function's call; else NULL: numbers are as they are */
    sn_tensor *wanted;            /* the placeholder whose value a break asks for */
    /* The first thing that the call did beside its segments (an op, a value read), or NULL; without the lock. */
    _Atomic(Reason) outside;
    VEC(OutsideOps) outside_ops;
    int n_breaks;             /* of this call, a segment that had begun or not */
    const char *break_reason; /* of the last one, in words; or NULL */
    const void *break_site;
    bool for_graph;        /* the caller wants its graph: any number of outputs, and inputs stay until it has that */
    bool of_step;          /* such a caller, who leaves what the body does to .grad slots out of the graph */
    bool eager_checks;     /* of the running function, or of a callee that is being inlined */
    bool device_asserts;   /* the setting */
    bool materializes_all; /* host code may look at any value next: all that are held are materialized */
    bool again;            /* nothing has run, and the call is to be made again: of a graph, to learn its symbols */
    bool first;            /* the function had no segment compiled when it began */
    bool final;            /* the body has returned and its scope has ended */
    sn_tensor **results;   /* what the body returned; NULL entries: absent */
    int n_results;
    const Arg *in; /* the call's arguments */
    int n_in;
};

extern const TracerClass capture_class;
/* NULL: it is another watcher, or none. */
static inline Capture *capture_of(const Tracer *tracer) {
    return tracer && tracer->is == &capture_class ? (Capture *)(uintptr_t)tracer : NULL;
}

/* Makes the data of a value of an earlier segment; the current one may end for it. */
Status capture_make_earlier(Capture *capture, sn_tensor *tensor);
/* Notes that the call does something beside its segments. The first reason is kept: others mostly follow from it. */
static inline void capture_record_outside(Capture *capture, Reason reason) {
    Reason none = NULL;
    if (capture->of_step && reason == BREAK_REASON(grad_set)) return;
    atomic_compare_exchange_strong(&capture->outside, &none, reason);
}
/* References to t that the call holds for itself. */
int capture_references(Capture *capture, const sn_tensor *t);
/* sn_requires_grad: of a pending value too. */
bool capture_requires_grad(sn_tensor *tensor);
bool capture_is_inference(sn_tensor *tensor); /* likewise: made in inference mode */
/* Records or matches an op that has come to the key. */
Status capture_op(OpCall *call);
/* Records sn::gradients(roots, grads, leaves); outs: n placeholders laid out as the
 * tape lays out .grad. */
Status capture_gradients(Capture *capture, const Arg *args, sn_tensor **outs, int n);
/* Why no call of a row is captured; NULL: calls are. */
Reason capture_row_refusal(const OpRow *row);
void capture_start(void); /* registers the key's kernel of composites */

#endif
